//! What the kernel tells about a network interface: index, address, MTU, link, statistics; and its ethtool.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use frame::Link;

use crate::PortError;
use crate::changes;
use crate::helper;
use crate::netns::Netns;

/// Asks about the interface of one name in one namespace, from whatever thread.
#[derive(Debug)]
pub struct Iface {
    control: OwnedFd,
    /// Readable when an interface of the namespace has changed.
    changes: OwnedFd,
    netns: Netns,
    name: String,
}

impl Iface {
    /// Of that name in that namespace (by name; none: the calling thread's).
    ///
    /// # Errors
    /// [`PortError::NoInterface`] telling the ones there are, [`PortError::NoNamespace`], or what the system said.
    pub fn open(name: &str, netns: Option<&str>) -> Result<Self, PortError> {
        if let Some(helper) = helper::client_of_process() {
            let [namespace, control, changes] = helper.interface(name, netns)?;
            return Ok(Self { control, changes, netns: Netns::of(namespace.into(), netns), name: name.to_owned() });
        }
        let iface = Self::named(name, netns)?;
        match iface.index() {
            Ok(_) => Ok(iface),
            Err(_) => {
                let there = iface.netns.within(names)?;
                let (name, place) = (name.to_owned(), iface.netns.place());
                Err(PortError::NoInterface { name, place, there: there.join(", ") })
            }
        }
    }

    /// The same without a helper, and whether or not there is an interface of that name.
    ///
    /// # Errors
    /// [`PortError::NoNamespace`], or what the system said.
    pub(crate) fn named(name: &str, netns: Option<&str>) -> Result<Self, PortError> {
        let netns = Netns::open(netns)?;
        let doing = || format!("a socket in {}", netns.place());
        let sockets = netns.within(|| Ok([control()?, changes::open()?]))?;
        let [control, changes] = sockets.map_err(|e| PortError::system(doing(), "CAP_NET_RAW", e))?;
        Ok(Self { control, changes, netns, name: name.to_owned() })
    }

    /// The namespace, the socket in it by which the kernel is asked, and the one that tells of changes.
    pub(crate) fn into_descriptors(self) -> [OwnedFd; 3] {
        [self.netns.into_descriptor(), self.control, self.changes]
    }

    /// The same, for another process.
    pub(crate) fn descriptors(&self) -> io::Result<[OwnedFd; 3]> {
        let copy = |descriptor: BorrowedFd<'_>| descriptor.try_clone_to_owned();
        Ok([copy(self.netns.descriptor())?, copy(self.control.as_fd())?, copy(self.changes.as_fd())?])
    }

    /// Of what [`descriptors`](Self::descriptors) gave.
    pub(crate) fn of([namespace, control, changes]: [OwnedFd; 3], name: &str, netns: Option<&str>) -> Self {
        Self { control, changes, netns: Netns::of(namespace.into(), netns), name: name.to_owned() }
    }

    /// Readable when an interface of the namespace has changed since [`Iface::forget_changes`].
    pub fn changes(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }

    /// Changes so far are known.
    pub fn forget_changes(&self) {
        changes::forget(self.changes.as_fd());
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace it is in.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// The kernel's number of the interface that has the name now.
    ///
    /// # Errors
    /// `ENODEV` when there is none.
    pub fn index(&self) -> io::Result<u32> {
        let request = self.request(libc::SIOCGIFINDEX, |_| ())?;
        // SAFETY: a successful SIOCGIFINDEX has filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_ifindex }.unsigned_abs())
    }

    /// Its hardware address.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn mac(&self) -> io::Result<[u8; 6]> {
        let request = self.request(libc::SIOCGIFHWADDR, |_| ())?;
        // SAFETY: a successful SIOCGIFHWADDR has filled this member of the union.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok(std::array::from_fn(|i| data[i].cast_unsigned()))
    }

    /// Sets its hardware address.
    ///
    /// # Errors
    /// What the kernel said: `EPERM` without `CAP_NET_ADMIN`.
    pub(crate) fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        let fill = |request: &mut libc::ifreq| {
            // SAFETY: a sockaddr is plain data; all zeros is a valid one.
            let mut address: libc::sockaddr = unsafe { std::mem::zeroed() };
            address.sa_family = libc::ARPHRD_ETHER;
            for (to, from) in address.sa_data.iter_mut().zip(mac) {
                *to = from.cast_signed();
            }
            request.ifr_ifru.ifru_hwaddr = address;
        };
        self.request(libc::SIOCSIFHWADDR, fill).map(drop)
    }

    /// Largest network-layer packet in bytes.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn mtu(&self) -> io::Result<u32> {
        let request = self.request(libc::SIOCGIFMTU, |_| ())?;
        // SAFETY: a successful SIOCGIFMTU has filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_mtu }.unsigned_abs())
    }

    /// Sets the largest network-layer packet, in bytes.
    ///
    /// # Errors
    /// What the kernel said: `EPERM` without `CAP_NET_ADMIN`, `EINVAL` for what the device cannot carry.
    pub(crate) fn set_mtu(&self, mtu: u32) -> io::Result<()> {
        self.request(libc::SIOCSIFMTU, |request| request.ifr_ifru.ifru_mtu = mtu.cast_signed()).map(drop)
    }

    /// Brings it up.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`.
    pub(crate) fn set_up(&self) -> io::Result<()> {
        let request = self.request(libc::SIOCGIFFLAGS, |_| ())?;
        // SAFETY: a successful SIOCGIFFLAGS has filled this member of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags } | libc::IFF_UP as libc::c_short;
        self.request(libc::SIOCSIFFLAGS, |request| request.ifr_ifru.ifru_flags = flags).map(drop)
    }

    /// Whether it is up and has a carrier, or is there at all.
    pub fn link(&self) -> Link {
        let Ok(request) = self.request(libc::SIOCGIFFLAGS, |_| ()) else { return Link::Gone };
        // SAFETY: a successful SIOCGIFFLAGS has filled this member of the union.
        let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
        if flags & libc::IFF_UP == 0 {
            return Link::Down;
        }
        if flags & libc::IFF_RUNNING != 0 {
            return Link::Up;
        }
        // The flag follows the carrier up to a second late. Ethtool knows at once, but takes the kernel's big network
        // lock, so it is asked only while nothing flows anyway.
        match self.ethtool_get(ETHTOOL_GLINK) {
            Ok(1) => Link::Up,
            _ => Link::Down,
        }
    }

    /// Asks ethtool for one of its single values.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the device has no such thing.
    pub(crate) fn ethtool_get(&self, command: u32) -> io::Result<u32> {
        self.ethtool(&mut [command, 0]).map(|words| words[1])
    }

    /// Sets one of ethtool's single values.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the device has no such thing, `EPERM` without `CAP_NET_ADMIN`.
    pub(crate) fn ethtool_set(&self, command: u32, data: u32) -> io::Result<()> {
        self.ethtool(&mut [command, data]).map(drop)
    }

    /// Queues on which it receives; none: it does not tell.
    pub(crate) fn receive_queues(&self) -> Option<u32> {
        // struct ethtool_channels { cmd, max_rx, max_tx, max_other, max_combined, rx, tx, other, combined }.
        let [.., receive, _, _, combined] = *self.ethtool(&mut [ETHTOOL_GCHANNELS, 0, 0, 0, 0, 0, 0, 0, 0]).ok()?;
        Some(receive.saturating_add(combined)).filter(|queues| *queues > 0)
    }

    /// Whether it is one end of a veth pair without GRO. Such an end has no NAPI, and the kernel throws away what an XDP
    /// program redirects to it at the far end.
    pub fn loses_redirected_frames(&self) -> bool {
        // Command, driver (32 bytes), version, firmware, bus, and five words more.
        let mut words = [0; 49];
        words[0] = ETHTOOL_GDRVINFO;
        let Ok(()) = self.ethtool_slice(&mut words) else { return false };
        let driver = words[1..3].iter().flat_map(|word| word.to_ne_bytes());
        driver.take_while(|byte| *byte != 0).eq(*b"veth") && self.ethtool_get(ETHTOOL_GGRO).is_ok_and(|on| on == 0)
    }

    /// The driver's statistics, as `ethtool -S` has them: names and values.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the driver has none.
    pub fn statistics(&self) -> io::Result<Vec<(String, u64)>> {
        /// Words of a name.
        const NAME: usize = 8;
        // struct ethtool_sset_info { cmd, reserved, mask: u64, data[] }.
        let [.., count] = *self.ethtool(&mut [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_STATS, 0, 0])?;
        let count = count as usize;
        // struct ethtool_gstrings { cmd, string_set, len, data[] }.
        let mut names = vec![0; 3 + count * NAME];
        names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_STATS, count as u32]);
        self.ethtool_slice(&mut names)?;
        // struct ethtool_stats { cmd, n_stats, data: u64[] }.
        let mut values = vec![0; 2 + 2 * count];
        values[..2].copy_from_slice(&[ETHTOOL_GSTATS, count as u32]);
        self.ethtool_slice(&mut values)?;
        let name = |words: &[u32]| {
            let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0);
            String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
        };
        let value = |words: &[u32]| match words {
            [a, b] => {
                let ([a, b, c, d], [e, f, g, h]) = (a.to_ne_bytes(), b.to_ne_bytes());
                u64::from_ne_bytes([a, b, c, d, e, f, g, h])
            }
            _ => 0,
        };
        Ok(names[3..].chunks(NAME).map(name).zip(values[2..].chunks(2).map(value)).collect())
    }

    /// Hands ethtool a command and its structure, made of words, and gives back what became of it.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the device has no such thing, `EPERM` without `CAP_NET_ADMIN`.
    pub(crate) fn ethtool<'a, const N: usize>(&self, words: &'a mut [u32; N]) -> io::Result<&'a [u32; N]> {
        self.ethtool_slice(words)?;
        Ok(words)
    }

    /// The same for a structure whose length is known at run time, and which says its length inside.
    pub(crate) fn ethtool_slice(&self, words: &mut [u32]) -> io::Result<()> {
        let data = words.as_mut_ptr();
        self.request(libc::SIOCETHTOOL, |request| request.ifr_ifru.ifru_data = data.cast()).map(drop)
    }

    fn request(&self, call: libc::c_ulong, fill: impl FnOnce(&mut libc::ifreq)) -> io::Result<libc::ifreq> {
        // SAFETY: an ifreq is plain data; all zeros is a valid one.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if self.name.len() >= request.ifr_name.len() {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.bytes()) {
            *to = from.cast_signed();
        }
        fill(&mut request);
        // SAFETY: `request` is a valid ifreq with a terminated name and outlives the call; what `fill` pointed it to
        // is borrowed by our caller for longer than this call.
        match unsafe { libc::ioctl(self.control.as_raw_fd(), call as _, &raw mut request) } {
            0.. => Ok(request),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Commands: names and values of statistics, and how many there are.
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETH_SS_STATS: u32 = 1;
/// Command: is there a carrier?
const ETHTOOL_GLINK: u32 = 0x0a;
/// Command: how many queues are there?
const ETHTOOL_GCHANNELS: u32 = 0x3c;
/// Command: which driver is it?
const ETHTOOL_GDRVINFO: u32 = 0x03;
/// Command: are packets joined on reception?
const ETHTOOL_GGRO: u32 = 0x2b;

fn control() -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Names of the interfaces the calling thread's namespace has.
fn names() -> Vec<String> {
    let mut found = Vec::new();
    // SAFETY: takes nothing; returns null or an array that ends with a zero index, which we free below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return found;
    }
    let mut entry = list;
    // SAFETY: the array ends with an entry of index 0 and null name, and we stop there; names are C strings.
    unsafe {
        while (*entry).if_index != 0 && !(*entry).if_name.is_null() {
            found.push(CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        libc::if_freenameindex(list);
    }
    found
}

/// The name of the interface of that number in the calling thread's namespace; none: there is no such interface.
pub(crate) fn name_here(ifindex: u32) -> Option<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: there is as much room as the longest name takes.
    let found = unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr()) };
    // SAFETY: where it was found, a terminated string stands in `name`.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}

/// The kernel's number of an interface in the calling thread's namespace.
pub fn index_here(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: a terminated string that outlives the call.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_known() {
        let lo = Iface::open("lo", None).unwrap();
        assert_eq!((lo.index().unwrap(), lo.mac().unwrap()), (1, [0; 6]));
        assert!(lo.mtu().unwrap() >= 1500);
        assert_eq!(index_here("lo"), Some(1));
    }

    #[test]
    fn a_missing_one_lists_those_there_are() {
        for name in ["weir-nowhere", "a-name-longer-than-the-kernel-has-room-for"] {
            let error = Iface::open(name, None).unwrap_err();
            let PortError::NoInterface { there, .. } = &error else { panic!("{error}") };
            assert!(there.contains("lo"), "{error}");
        }
    }
}
