//! Several UDP sockets of one address and port, each with a buffer of its own, among which the kernel divides datagrams by
//! their source; and sources it drops before they take room in any.
//!
//! Both are programs of classic BPF, which need no capability. One chooses the socket (SO_ATTACH_REUSEPORT_CBPF), the other
//! (SO_ATTACH_FILTER, at every socket) drops. Datagrams lost as a buffer was full are told by [`lost`].

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, sock_filter};

use crate::packet::cbpf::{Assembler, Label};

/// Sets a socket's receive buffer to `octets`: beyond `net.core.rmem_max` with CAP_NET_ADMIN, up to that without.
pub fn set_receive_buffer(socket: &UdpSocket, octets: usize) {
    use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
    // A smaller buffer loses more datagrams, which are retransmitted: not worth failing for.
    let forced = set_socket_recv_buffer_size_force(socket, octets);
    let _ = forced.or_else(|_| set_socket_recv_buffer_size(socket, octets));
}

/// A network: an address and the length of its prefix in bits.
pub type Network = (IpAddr, u8);

/// Which socket of a group gets a datagram: sockets count from 0 in the order they were bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// Sources with a socket of their own.
    pub known: Vec<(IpAddr, u32)>,
    /// The socket of all other sources.
    pub others: u32,
    /// The socket of sources in none of these networks, if that is another; an empty list holds all sources.
    pub outside: Option<(Vec<Network>, u32)>,
}

/// As `asm-generic/socket.h` has them: on every architecture that weir runs on.
const SO_ATTACH_REUSEPORT_CBPF: c_int = 51;
const SO_MEMINFO: c_int = 55;
/// Keeps all of a datagram.
const WHOLE: u32 = u32::MAX;
/// Where an IP header has its source address.
const SOURCE: [u32; 2] = [12, 8];

/// A socket at an address which others of this process may be bound to too, if they were made by this function.
///
/// # Errors
/// What the kernel said.
pub fn bind_shared(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: socket takes no pointers.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, owned by nobody else.
    let socket = UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) });
    set(&socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1i32)?;
    let got = match address {
        SocketAddr::V4(v4) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            let at = &raw const address;
            // SAFETY: a whole sockaddr_in that outlives the call.
            unsafe { libc::bind(fd, at.cast(), size_of::<libc::sockaddr_in>() as u32) }
        }
        SocketAddr::V6(v6) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            let at = &raw const address;
            // SAFETY: a whole sockaddr_in6 that outlives the call.
            unsafe { libc::bind(fd, at.cast(), size_of::<libc::sockaddr_in6>() as u32) }
        }
    };
    if got == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel drop what comes to a socket from sources in none of these networks; an empty list lets all through.
///
/// # Errors
/// What the kernel said, or a list that is too long for a program.
pub fn filter(socket: &UdpSocket, networks: &[Network]) -> io::Result<()> {
    attach(socket, libc::SO_ATTACH_FILTER, filter_program(networks))
}

/// Has the kernel divide datagrams among the sockets of the group that this one belongs to. A division given before is
/// replaced.
///
/// # Errors
/// What the kernel said, or more sources than a program holds.
pub fn divide(socket: &UdpSocket, division: &Division) -> io::Result<()> {
    attach(socket, SO_ATTACH_REUSEPORT_CBPF, division.program())
}

/// Datagrams that were lost at a socket, as its buffer was full or its filter let them not through; wraps.
///
/// # Errors
/// What the kernel said.
pub fn lost(socket: &UdpSocket) -> io::Result<u32> {
    const DROPS: usize = 8; // SK_MEMINFO_DROPS
    let mut words = [0u32; DROPS + 1];
    let mut len = size_of_val(&words) as u32;
    let at = &raw mut words;
    // SAFETY: `words` has room for `len` bytes, which are integers whatever is written.
    let got = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO, at.cast(), &raw mut len) };
    if got == 0 { Ok(words[DROPS]) } else { Err(io::Error::last_os_error()) }
}

fn attach(socket: &UdpSocket, option: c_int, program: Option<Vec<sock_filter>>) -> io::Result<()> {
    let program =
        program.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "more than a BPF program holds"))?;
    // The kernel only reads and copies it; longer programs were refused above.
    let fprog = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set(socket, libc::SOL_SOCKET, option, &fprog)
}

fn set<T: Copy>(socket: &UdpSocket, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let at: *const T = value;
    // SAFETY: `value` is plain data of that size and outlives the call, as does the program that a sock_fprog points to.
    let got = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at.cast(), size_of::<T>() as u32) };
    if got == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn filter_program(networks: &[Network]) -> Option<Vec<sock_filter>> {
    let mut a = Assembler::new();
    let [inside, outside] = [a.label(), a.label()];
    if !networks.is_empty() {
        match_networks(&mut a, networks, inside, outside);
        a.here(outside).give(0);
    } else {
        a.here(outside);
    }
    a.here(inside).give(WHOLE);
    a.finish()
}

impl Division {
    fn program(&self) -> Option<Vec<sock_filter>> {
        let mut a = Assembler::new();
        let [inside, outside] = [a.label(), a.label()];
        match &self.outside {
            Some((networks, socket)) if !networks.is_empty() => {
                match_networks(&mut a, networks, inside, outside);
                a.here(outside).give(*socket);
            }
            _ => drop(a.here(outside)),
        }
        let [v6, others] = [a.label(), a.label()];
        a.here(inside).ip_byte(0).and(0xf0).equal(0x60, v6).ip_word(SOURCE[0]);
        for (address, socket) in &self.known {
            if let IpAddr::V4(address) = address.to_canonical() {
                let next = a.label();
                a.other(address.to_bits(), next).give(*socket).here(next);
            }
        }
        a.jump(others).here(v6);
        for (address, socket) in &self.known {
            if let IpAddr::V6(address) = address.to_canonical() {
                let next = a.label();
                for (n, word) in words(address.to_bits()).into_iter().enumerate() {
                    a.ip_word(SOURCE[1] + 4 * n as u32).other(word, next);
                }
                a.give(*socket).here(next);
            }
        }
        a.here(others).give(self.others);
        a.finish()
    }
}

/// Goes to one label or the other by whether the source is in one of the networks.
fn match_networks(a: &mut Assembler, networks: &[Network], inside: Label, outside: Label) {
    let v6 = a.label();
    a.ip_byte(0).and(0xf0).equal(0x60, v6);
    for (network, len) in networks {
        let IpAddr::V4(network) = network.to_canonical() else { continue };
        let mask = mask(*len, 0);
        a.ip_word(SOURCE[0]).and(mask).equal(network.to_bits() & mask, inside);
    }
    a.jump(outside).here(v6);
    for (network, len) in networks {
        let IpAddr::V6(network) = network.to_canonical() else { continue };
        let next = a.label();
        for (n, word) in words(network.to_bits()).into_iter().enumerate() {
            let mask = mask(*len, n as u8);
            if mask != 0 {
                a.ip_word(SOURCE[1] + 4 * n as u32).and(mask).other(word & mask, next);
            }
        }
        a.jump(inside).here(next);
    }
    a.jump(outside);
}

/// The mask of the word `n` of a prefix of so many bits.
fn mask(len: u8, n: u8) -> u32 {
    let bits = u32::from(len.saturating_sub(32 * n)).min(32);
    u32::MAX.checked_shl(32 - bits).unwrap_or(0)
}

fn words(bits: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::packet::cbpf::run;

    fn header(source: &str) -> Vec<u8> {
        match source.parse().expect("an address") {
            IpAddr::V4(source) => [&[0x45; 12][..], &source.octets()].concat(),
            IpAddr::V6(source) => [&[0x60; 8][..], &source.octets()].concat(),
        }
    }

    fn network(text: &str) -> Network {
        let (address, len) = text.split_once('/').expect("a prefix");
        (address.parse().expect("an address"), len.parse().expect("a length"))
    }

    #[test]
    fn programs_decide_by_source() {
        let allow: Vec<Network> = ["10.0.4.0/24", "192.0.2.1/32", "fd00:4::/33"].map(network).to_vec();
        let program = filter_program(&allow).expect("short");
        let passes = |source: &str| run(&program, 0, &header(source)) == WHOLE;
        assert!(passes("10.0.4.200") && passes("192.0.2.1") && passes("fd00:4::1") && passes("fd00:4:7000::"));
        assert!(!passes("10.0.5.1") && !passes("192.0.2.2") && !passes("fd00:4:8000::1") && !passes("fd01::"));
        let open = filter_program(&[]).expect("short");
        assert_eq!(run(&open, 0, &header("203.0.113.1")), WHOLE);

        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let known = vec![(ip("10.0.4.9"), 1), (ip("10.0.4.10"), 2), (ip("fd00:4::9"), 2)];
        let division = Division { known, others: 0, outside: Some((allow, 3)) };
        let program = division.program().expect("short");
        let chosen = |source: &str| run(&program, 0, &header(source));
        assert_eq!([chosen("10.0.4.9"), chosen("10.0.4.10"), chosen("10.0.4.11"), chosen("10.0.5.9")], [1, 2, 0, 3]);
        assert_eq!([chosen("fd00:4::9"), chosen("fd00:4::8"), chosen("fd00:5::9")], [2, 0, 3]);
        // As many as there may be associations.
        let known = (0..1024).map(|n| (IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n)), n % 7)).collect();
        assert!(Division { known, ..Division::default() }.program().is_some());
        let known = (0..256).map(|n| (IpAddr::V6(Ipv6Addr::from_bits(1 << 120 | n)), 1)).collect();
        assert!(Division { known, ..Division::default() }.program().is_some());
    }

    #[test]
    fn sockets_get_what_is_theirs() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let first = bind_shared(any).expect("loopback");
        let at = first.local_addr().expect("bound");
        let group = [first, bind_shared(at).expect("shared"), bind_shared(at).expect("shared")];
        let allow = vec![network("127.0.0.2/31"), network("127.0.0.4/32")];
        let known = vec![("127.0.0.2".parse().expect("an address"), 1)];
        divide(&group[0], &Division { known, others: 0, outside: Some((allow.clone(), 2)) }).expect("divided");
        group.iter().for_each(|socket| filter(socket, &allow).expect("filtered"));
        for source in ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"] {
            let socket = UdpSocket::bind((source, 0)).expect("loopback");
            for _ in 0..3 {
                socket.send_to(source.as_bytes(), at).expect("sent");
            }
        }
        let mut got = [0; 3];
        let end = Instant::now() + Duration::from_secs(5);
        while got.iter().sum::<i32>() < 9 && Instant::now() < end {
            for (socket, got) in group.iter().zip(&mut got) {
                let mut space = [0; 64];
                while let Ok((len, from)) = socket.recv_from(&mut space) {
                    assert_eq!(&space[..len], from.ip().to_string().as_bytes());
                    *got += 1;
                }
            }
        }
        assert_eq!(got, [6, 3, 0]);
        let lost: Vec<u32> = group.iter().map(|socket| lost(socket).expect("told")).collect();
        assert_eq!(lost, [0, 0, 3], "of a source that is not allowed, and of no other");
        assert!(UdpSocket::bind(at).is_err(), "nobody else may be bound there");
    }
}
