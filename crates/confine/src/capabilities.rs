//! Capabilities, no_new_privs and the user.

use std::fmt;

use rustix::process::{Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};

use crate::ConfineError;

/// A set of Linux capabilities, written as `setcap` takes them: `cap_net_admin,cap_net_raw`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u64);

impl Capabilities {
    /// The empty set: a thread with it is as any other user's.
    pub const NONE: Self = Self(0);
    /// Ports below 1024.
    pub const NET_BIND_SERVICE: Self = Self(CapabilitySet::NET_BIND_SERVICE.bits());
    /// Offloads, large socket buffers, tc and XDP programs, TUN interfaces.
    pub const NET_ADMIN: Self = Self(CapabilitySet::NET_ADMIN.bits());
    /// AF_PACKET and AF_XDP sockets.
    pub const NET_RAW: Self = Self(CapabilitySet::NET_RAW.bits());
    /// Locked memory (AF_XDP's UMEM) beyond RLIMIT_MEMLOCK.
    pub const IPC_LOCK: Self = Self(CapabilitySet::IPC_LOCK.bits());
    /// Entering a network namespace; BPF on kernels before 5.8.
    pub const SYS_ADMIN: Self = Self(CapabilitySet::SYS_ADMIN.bits());
    /// BPF programs and maps.
    pub const BPF: Self = Self(CapabilitySet::BPF.bits());

    /// The set a number of /proc/PID/status stands for.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// One bit for each capability, as in /proc/PID/status.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Capabilities that are in this set or in the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of this set that the other has not.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it has all of the other set.
    pub fn contains(self, other: Self) -> bool {
        other.without(self).is_empty()
    }

    /// Whether it is the empty set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What the calling thread may use now.
    pub fn effective() -> Self {
        thread::capabilities(None).map_or(Self::NONE, |sets| Self(sets.effective.bits()))
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for bit in (0..64).filter(|bit| self.0 >> bit & 1 == 1) {
            let one = CapabilitySet::from_bits_retain(1 << bit);
            match one.iter_names().next() {
                Some((name, _)) => write!(f, "{comma}cap_{}", name.to_lowercase())?,
                // setcap takes numbers of capabilities it has no name for.
                None => write!(f, "{comma}{bit}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

/// Takes every capability but `keep` out of all five sets of the calling thread. Called before there are other threads;
/// those made later have what this one has.
///
/// # Errors
/// [`ConfineError::System`].
pub fn drop_capabilities(keep: Capabilities) -> Result<(), ConfineError> {
    // Kernels before 4.3 have no ambient set.
    let _ = thread::clear_ambient_capability_set();
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        match thread::capability_is_in_bounding_set(one) {
            // Without CAP_SETPCAP the bounding set stays. It limits what an exec may gain, and no_new_privs lets it
            // gain nothing.
            Ok(true) if keep.0 >> bit & 1 == 0 => drop(thread::remove_capability_from_bounding_set(one)),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let now = thread::capabilities(None).map_err(ConfineError::system("reading capabilities"))?;
    let left = now.permitted & CapabilitySet::from_bits_retain(keep.0);
    let sets = CapabilitySets { effective: left, permitted: left, inheritable: CapabilitySet::empty() };
    thread::set_capabilities(None, sets).map_err(ConfineError::system("dropping capabilities"))
}

/// From now on no exec gains privileges.
///
/// # Errors
/// [`ConfineError::System`].
pub fn no_new_privileges() -> Result<(), ConfineError> {
    thread::set_no_new_privs(true).map_err(ConfineError::system("setting no_new_privs"))
}

/// The calling thread goes on as that user, in its group alone, and has no capability then. Called before there are
/// other threads.
///
/// # Errors
/// [`ConfineError`]: no such user, or not allowed.
pub fn become_user(name: &str) -> Result<(), ConfineError> {
    let (uid, gid) = find(name, &std::fs::read_to_string("/etc/passwd").unwrap_or_default())
        .ok_or_else(|| ConfineError::NoUser { name: name.to_owned() })?;
    if rustix::process::getuid() == uid && rustix::process::getgid() == gid {
        return Ok(());
    }
    let set = || {
        thread::set_thread_groups(&[])?;
        thread::set_thread_res_gid(gid, gid, gid)?;
        thread::set_thread_res_uid(uid, uid, uid)
    };
    set().map_err(|errno| match errno {
        rustix::io::Errno::PERM => ConfineError::MayNotBecome { name: name.to_owned() },
        errno => ConfineError::system(format!("becoming user {name}"))(errno),
    })
}

/// A user's and its group's number, of a file like /etc/passwd.
fn find(name: &str, passwd: &str) -> Option<(Uid, Gid)> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2).map(|field| field.parse::<u32>().ok());
    Some((Uid::from_raw(numbers.next()??), Gid::from_raw(numbers.next()??)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_setcap_takes_them() {
        let both = Capabilities::NET_RAW.and(Capabilities::NET_ADMIN).and(Capabilities::BPF);
        assert_eq!(both.to_string(), "cap_net_admin,cap_net_raw,cap_bpf");
        assert_eq!(Capabilities::NONE.to_string(), "");
        assert_eq!(Capabilities::from_bits(1 << 63).to_string(), "63");
        assert_eq!(both.without(Capabilities::BPF).bits(), 0x3000);
        assert!(both.contains(Capabilities::BPF) && !both.contains(Capabilities::BPF.and(Capabilities::IPC_LOCK)));
    }

    #[test]
    fn users_are_found_by_their_whole_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nweir2:x:7:8::/:/bin/false\nweir:x:998:997::/:/bin/false\n";
        let raw = |name| find(name, passwd).map(|(uid, gid)| (uid.as_raw(), gid.as_raw()));
        assert_eq!((raw("weir"), raw("root"), raw("we")), (Some((998, 997)), Some((0, 0)), None));
    }
}
