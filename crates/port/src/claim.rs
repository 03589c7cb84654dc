//! One process to an interface: two that receive the same packets would each forward and answer all of them.
//!
//! Whoever opens an interface listens at an abstract Unix socket named after it. Such names belong to a network
//! namespace, as interfaces do, and end with their process however that ends. Ports of one process share what they have:
//! how its workers divide an interface is its configuration's.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, shutdown, socket_with};

use crate::PortError;
use crate::helper;
use crate::iface::Iface;
use crate::netns::Netns;
use crate::open::is_borrowed;
use crate::shared::Key;

/// How long a process that ends is waited for.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(20);

/// What of an interface a port takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    /// All its packets.
    Whole,
    /// A member's share of a fanout group.
    Member { group: u16, member: u16 },
    /// One queue, by AF_XDP.
    Queue(u32),
}

impl Claim {
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            // Two groups get every packet each.
            (Self::Member { group, member }, Self::Member { group: g, member: m }) => group != g || member == m,
            (Self::Queue(queue), Self::Queue(other)) => queue == other,
            _ => true,
        }
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split('/');
        let claim = match (words.next()?, words.next(), words.next()) {
            ("whole", None, None) => Self::Whole,
            ("fanout", Some(group), Some(member)) => {
                Self::Member { group: group.parse().ok()?, member: member.parse().ok()? }
            }
            ("queue", Some(queue), None) => Self::Queue(queue.parse().ok()?),
            _ => return None,
        };
        words.next().is_none().then_some(claim)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("whole"),
            Self::Member { group, member } => write!(f, "fanout/{group}/{member}"),
            Self::Queue(queue) => write!(f, "queue/{queue}"),
        }
    }
}

/// By what is held: its socket, and how many ports share it.
type Held = HashMap<(Key, Claim), (UnixListener, usize)>;

/// What this process has, each with how many of its ports share it.
static HELD: Mutex<Option<Held>> = Mutex::new(None);

/// A port's hold on an interface, until dropped.
#[derive(Debug)]
pub(crate) struct Hold(Key, Claim);

impl Hold {
    /// Whether no other process may be using the interface. True while the name is bound. A confined process that opened an
    /// interface again could bind none (see [`hold`]): there it is whether nobody else has bound one, and false where that
    /// cannot be seen, as in a namespace that a confined process cannot enter.
    pub(crate) fn is_exclusive(&self, netns: &Netns) -> bool {
        let Self(key, claim) = *self;
        let held = HELD.lock().unwrap_or_else(|e| e.into_inner());
        if held.as_ref().is_some_and(|held| held.contains_key(&(key, claim))) {
            return true;
        }
        let excluded = |others: HashSet<Claim>| others.into_iter().any(|other| claim.excludes(other));
        netns.name().is_none() && named(key).is_ok_and(|others| !excluded(others))
    }
}

/// Takes hold of an interface. With `wait` a process that is just ending is waited for.
///
/// # Errors
/// [`PortError::InUse`], naming the process that has it.
pub(crate) fn hold(iface: &Iface, key: Key, claim: Claim, wait: bool) -> Result<Hold, PortError> {
    if !wait && helper::client_of_process().is_some() {
        // A confined process opens again what came back, and may bind nothing: what it had it goes on with.
        let mut held = HELD.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((_, ports)) = held.as_mut().and_then(|held| held.get_mut(&(key, claim))) {
            *ports += 1;
        }
        return Ok(Hold(key, claim));
    }
    let until = Instant::now() + if wait { PATIENCE } else { Duration::ZERO };
    loop {
        match iface.netns().within(|| take(key, claim))? {
            Ok(()) => return Ok(Hold(key, claim)),
            Err(Refused::Other(_)) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(Refused::Other(other)) => {
                let process = iface.netns().within(|| owner(key, other))?;
                let process = process.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                return Err(PortError::InUse { name: iface.name().to_owned(), process });
            }
            Err(Refused::System(source)) => {
                return Err(PortError::System { doing: format!("taking hold of {}", iface.name()), source });
            }
        }
    }
}

/// Members of a fanout group that are taken, by whatever process.
pub(crate) fn members(iface: &Iface, key: Key, group: u16) -> Result<Vec<u16>, PortError> {
    let of_group = |claim| match claim {
        Claim::Member { group: g, member } if g == group => Some(member),
        _ => None,
    };
    let claims = match iface.netns().within(|| claims(key)) {
        Err(_) if helper::client_of_process().is_some() => HashSet::new(),
        claims => claims?,
    };
    Ok(claims.into_iter().filter_map(of_group).collect())
}

/// What holds a claim, for a process that goes on with it.
pub(crate) fn descriptor(Hold(key, claim): &Hold) -> io::Result<OwnedFd> {
    let held = HELD.lock().unwrap_or_else(|e| e.into_inner());
    let listener = held.as_ref().and_then(|held| held.get(&(*key, *claim)));
    let (listener, _) = listener.ok_or_else(|| io::Error::other("the interface was opened again since the start"))?;
    listener.as_fd().try_clone_to_owned()
}

/// The hold that another process had, by what [held it](descriptor).
pub(crate) fn adopt(key: Key, claim: Claim, listener: OwnedFd) -> Hold {
    let mut held = HELD.lock().unwrap_or_else(|e| e.into_inner());
    let held = held.get_or_insert_default();
    held.entry((key, claim)).or_insert_with(|| (listener.into(), 0)).1 += 1;
    Hold(key, claim)
}

enum Refused {
    /// Another process has this.
    Other(Claim),
    System(io::Error),
}

fn prefix(key: Key) -> String {
    format!("weir/interface/{}/", key.1)
}

fn address(key: Key, claim: Claim) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{}{claim}", prefix(key)))
}

/// In the interface's namespace: the name is bound first and others are looked for then, so that of two processes at
/// least one sees the other.
fn take(key: Key, claim: Claim) -> Result<(), Refused> {
    let mut held = HELD.lock().unwrap_or_else(|e| e.into_inner());
    let held = held.get_or_insert_default();
    if let Some((_, ports)) = held.get_mut(&(key, claim)) {
        *ports += 1;
        return Ok(());
    }
    let listener = match UnixListener::bind_addr(&address(key, claim).map_err(Refused::System)?) {
        Ok(listener) => listener,
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => return Err(Refused::Other(claim)),
        Err(e) => return Err(Refused::System(e)),
    };
    let others = claims(key);
    let is_others = |other: &Claim| *other != claim && !held.contains_key(&(key, *other));
    let other = others.into_iter().filter(is_others).find(|other| claim.excludes(*other));
    match other {
        Some(other) => Err(Refused::Other(other)),
        None => {
            held.insert((key, claim), (listener, 1));
            Ok(())
        }
    }
}

/// What processes have of an interface of the calling thread's namespace. None where /proc cannot be read: the same claim
/// by two processes is noticed all the same.
fn claims(key: Key) -> HashSet<Claim> {
    named(key).unwrap_or_default()
}

/// The same, or why /proc cannot be read.
fn named(key: Key) -> io::Result<HashSet<Claim>> {
    let text = std::fs::read_to_string("/proc/thread-self/net/unix")?;
    let start = format!("@{}", prefix(key));
    let name = |line: &str| line.rsplit(' ').next()?.strip_prefix(&start).and_then(Claim::read);
    // A child just forked has a copy of a socket that was given up, until it runs its program.
    let is_held = |claim: &Claim| !matches!(reach(key, *claim), Err(Errno::CONNREFUSED));
    // Connections that nobody accepts have the name of what they were made to.
    let named: HashSet<Claim> = text.lines().filter_map(name).collect();
    Ok(named.into_iter().filter(is_held).collect())
}

/// Connects to whoever has it. Never waits: nobody accepts, so at some time there is no room for more.
fn reach(key: Key, claim: Claim) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(format!("{}{claim}", prefix(key)).as_bytes())?)?;
    Ok(socket)
}

/// The process that has it.
fn owner(key: Key, claim: Claim) -> Option<i32> {
    let stream = reach(key, claim).ok()?;
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` has room for `len` bytes and outlives the call; it is made of integers.
    let got = unsafe {
        let to = (&raw mut peer).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut len)
    };
    // Zero: of a process namespace that we do not see into.
    (got == 0 && peer.pid != 0).then_some(peer.pid)
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(|e| e.into_inner());
        let held = held.get_or_insert_default();
        if let Some((_, ports)) = held.get_mut(&(self.0, self.1)) {
            *ports -= 1;
            if *ports == 0
                && let Some((listener, _)) = held.remove(&(self.0, self.1))
                && !is_borrowed()
            {
                // Given up now, even if a child has a copy.
                let _ = shutdown(&listener, Shutdown::Both);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_excludes_what() {
        let member = |group, member| Claim::Member { group, member };
        for (a, b, excludes) in [
            (Claim::Whole, Claim::Whole, true),
            (Claim::Whole, member(1, 0), true),
            (Claim::Whole, Claim::Queue(0), true),
            (member(1, 0), member(1, 1), false),
            (member(1, 0), member(1, 0), true),
            (member(1, 0), member(2, 1), true),
            (Claim::Queue(0), Claim::Queue(1), false),
            (Claim::Queue(1), Claim::Queue(1), true),
            (Claim::Queue(1), member(1, 1), true),
        ] {
            assert_eq!((a.excludes(b), b.excludes(a)), (excludes, excludes), "{a} {b}");
        }
    }

    #[test]
    fn a_claim_reads_back() {
        for claim in [Claim::Whole, Claim::Member { group: 7, member: 3 }, Claim::Queue(9)] {
            assert_eq!(Claim::read(&claim.to_string()), Some(claim));
        }
        for bad in ["", "whole/1", "fanout/1", "fanout/1/x", "queue", "queue/1/2/3"] {
            assert_eq!(Claim::read(bad), None, "{bad}");
        }
    }
}
