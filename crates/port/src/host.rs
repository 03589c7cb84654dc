//! What the host itself uses an interface for: whoever takes the interface's packets cuts that off.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

use crate::netns::Netns;
use crate::{PortError, Uri};

/// The host's use of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostUse {
    /// The host's addresses on it, but for link-local ones, which every interface has.
    pub addresses: Vec<IpAddr>,
    /// The host's default route leads by it.
    pub default_route: bool,
}

/// How a port shares its interface with the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The interface is no device of a network: a file, memory, or a TUN interface, which the host reaches us by.
    None,
    /// The host still gets every packet (`host=shared`).
    Copies,
    /// The host no longer gets the packets that the port takes.
    Takes,
}

impl Sharing {
    /// How the port of that URI does.
    pub fn of(uri: &Uri) -> Self {
        match uri.kind() {
            "packet" if uri.get("host") == Some("shared") => Self::Copies,
            "packet" | "xdp" => Self::Takes,
            _ => Self::None,
        }
    }
}

impl HostUse {
    /// Of the interface that the URI names; of one that is not there, none.
    ///
    /// # Errors
    /// [`PortError::NoNamespace`], or what the system said.
    pub fn of(uri: &Uri) -> Result<Self, PortError> {
        let netns = Netns::open(uri.get("netns"))?;
        let name = uri.target();
        let look = || -> io::Result<Self> {
            Ok(Self { addresses: addresses(name)?, default_route: has_default_route(name)? })
        };
        let doing = || format!("looking for the host's addresses on {name}");
        netns.within(look)?.map_err(|source| PortError::System { doing: doing(), source })
    }
}

/// The interface's addresses in the calling thread's namespace.
fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: a place for the list's head, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut entry = list;
    while !entry.is_null() {
        // SAFETY: an entry of the list, which lives until it is freed below; its name is a C string.
        let (one, of) = unsafe { (&*entry, std::ffi::CStr::from_ptr((*entry).ifa_name)) };
        if of.to_bytes() == name.as_bytes() && !one.ifa_addr.is_null() {
            // SAFETY: the address is not null, and of the kind that its family says.
            let address = unsafe {
                match i32::from((*one.ifa_addr).sa_family) {
                    libc::AF_INET => {
                        let address = one.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned();
                        Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr))))
                    }
                    libc::AF_INET6 => {
                        let address = one.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                        Some(IpAddr::V6(Ipv6Addr::from(address.sin6_addr.s6_addr)))
                    }
                    _ => None,
                }
            };
            let is_link_local = |address: &IpAddr| match address {
                IpAddr::V4(address) => address.is_link_local(),
                IpAddr::V6(address) => address.is_unicast_link_local(),
            };
            found.extend(address.filter(|address| !is_link_local(address)));
        }
        entry = one.ifa_next;
    }
    // SAFETY: the list that getifaddrs made, freed once.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// Whether a default route of the calling thread's namespace leads by the interface.
fn has_default_route(name: &str) -> io::Result<bool> {
    let read = |file: &str| match fs::read_to_string(format!("/proc/thread-self/net/{file}")) {
        // A kernel without that family.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    };
    Ok(is_default4(&read("route")?, name) || is_default6(&read("ipv6_route")?, name))
}

/// Iface Destination Gateway Flags RefCnt Use Metric Mask …, numbers in hex.
fn is_default4(table: &str, name: &str) -> bool {
    table.lines().any(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words.first() == Some(&name) && words.get(1) == Some(&"00000000") && words.get(7) == Some(&"00000000")
    })
}

/// Destination, its length, source, its length, gateway, metric, two counters, flags, device, in hex.
fn is_default6(table: &str, name: &str) -> bool {
    table.lines().any(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words.get(9) == Some(&name)
            && words.get(1) == Some(&"00")
            && words[0].bytes().all(|digit| digit == b'0')
            // Entries that refuse lie at `lo`, with the flag RTF_REJECT.
            && words.get(8).and_then(|flags| u32::from_str_radix(flags, 16).ok()).is_some_and(|flags| flags & 0x200 == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_are_read() {
        let four = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                    eth0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
                    eth1\t0002A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert!(is_default4(four, "eth0") && !is_default4(four, "eth1") && !is_default4("", "eth0"));
        let zeros = "0".repeat(32);
        let six = format!(
            "{zeros} 00 {zeros} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n\
             {zeros} 00 {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200       lo\n\
             fd000000000000000000000000000000 40 {zeros} 00 {zeros} 00000100 00000001 00000000 00000001     eth1\n"
        );
        assert!(is_default6(&six, "eth0") && !is_default6(&six, "lo") && !is_default6(&six, "eth1"));
    }

    #[test]
    fn the_loopback_has_its_addresses() {
        let used = HostUse::of(&"packet:lo".parse().unwrap()).unwrap();
        assert!(used.addresses.contains(&Ipv4Addr::LOCALHOST.into()), "{used:?}");
        assert_eq!(HostUse::of(&"packet:weir-none".parse().unwrap()).unwrap(), HostUse::default());
    }

    #[test]
    fn what_a_port_takes() {
        for (uri, sharing) in [
            ("packet:eth0", Sharing::Takes),
            ("packet:eth0?host=shared", Sharing::Copies),
            ("xdp:eth0?filter=udp", Sharing::Takes),
            ("tun:ogstun", Sharing::None),
            ("memory:x", Sharing::None),
        ] {
            assert_eq!(Sharing::of(&uri.parse().unwrap()), sharing, "{uri}");
        }
    }
}
