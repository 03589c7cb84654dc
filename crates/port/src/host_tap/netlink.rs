//! The kernel's routes and addresses by rtnetlink.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::Prefix;

/// The protocol number (`ip route … proto`) of routes to what the gateway serves: of none in rt_protos.
pub const PROTOCOL: u8 = 119;
/// The table of those routes.
const MAIN: u8 = 254;
/// Their metric: others to the same prefix stand beside them.
const METRIC: u32 = 119;
/// Bytes of an answer: the kernel fills up to 32 KiB at once.
const ANSWER: usize = 64 << 10;
/// Times that a dump is begun again, when routes changed meanwhile.
const TRIES: u32 = 8;
/// Bytes of changes that the kernel keeps until they are read.
const BACKLOG: libc::c_int = 1 << 20;

/// A route of the kernel's, by an interface that was asked about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostRoute {
    /// Its destination.
    pub to: IpAddr,
    /// The length of that prefix.
    pub len: u8,
    /// Smaller is better.
    pub metric: u32,
    /// Its routers by that interface, in ascending order; none: the destination is on the link.
    pub routers: Vec<IpAddr>,
    /// Who entered it, as rt_protos has it: 186 is BGP.
    pub protocol: u8,
    /// How many next hops it has, by whatever interface.
    pub next_hops: u32,
}

/// The kernel's routes by one interface.
#[derive(Debug)]
pub struct HostRoutes {
    changes: OwnedFd,
    asks: OwnedFd,
    index: u32,
}

impl HostRoutes {
    pub(crate) fn new(changes: OwnedFd, asks: OwnedFd, index: u32) -> Self {
        Self { changes, asks, index }
    }

    /// Readable when a route has changed since [`forget_changes`](Self::forget_changes).
    pub fn changes(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }

    /// Changes so far are known. Messages that the kernel had no room for are changes, too.
    pub fn forget_changes(&self) {
        crate::changes::forget(self.changes.as_fd());
    }

    /// All routes by the interface but for those that the kernel makes, for addresses of its own or by router advertisements
    /// and redirects; of those with another protocol number than [`PROTOCOL`] at most `most` of each family. With how many
    /// there are.
    ///
    /// # Errors
    /// What the kernel said; routes that change faster than they can be read.
    pub fn list(&self, most: usize) -> io::Result<(Vec<HostRoute>, usize)> {
        for _ in 0..TRIES {
            let (mut routes, mut count) = (Vec::new(), 0);
            let mut is_whole = true;
            for family in [AddressFamily::Inet, AddressFamily::Inet6] {
                let mut left = most;
                is_whole &= dump(self.asks.as_fd(), family, |message| {
                    if let Some(route) = of_interface(&message, self.index) {
                        count += 1;
                        let is_own = route.protocol == PROTOCOL;
                        if is_own || left > 0 {
                            left -= usize::from(!is_own);
                            routes.push(route);
                        }
                    }
                })?;
            }
            if is_whole {
                routes.sort_unstable();
                return Ok((routes, count));
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "the kernel's routes change faster than they can be read"))
    }
}

/// A socket of the calling thread's namespace to ask the kernel with.
pub(super) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One that becomes readable when a route changes.
pub(super) fn changes() -> io::Result<OwnedFd> {
    let socket = socket()?;
    // SAFETY: a sockaddr_nl is plain data; all zeros is a valid one.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    // IPv4 routes that go with an address or a link that is set down are not told of one by one.
    let routes = libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_ROUTE;
    address.nl_groups = (routes | libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR) as u32;
    // SAFETY: a sockaddr_nl of the size given, which outlives the call.
    let bound = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_nl>() as libc::socklen_t)
    };
    if bound < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an int of the size given, which outlives the call. A smaller buffer is no failure.
    unsafe {
        let backlog = BACKLOG;
        let value = (&raw const backlog).cast();
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, value, size);
    }
    Ok(socket)
}

/// Gives an interface an address that is used at once. One that it has already stays.
pub(super) fn add_address(socket: BorrowedFd<'_>, index: u32, (address, len): Prefix) -> io::Result<()> {
    let mut message = AddressMessage::default();
    message.header.family = family(address);
    message.header.prefix_len = len;
    message.header.index = index;
    // The port has it, too: nothing would tell the two apart by a search for duplicates.
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    acknowledged(socket, RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
}

/// Adds the route to a prefix by an interface, or takes it away.
pub(super) fn change_route(socket: BorrowedFd<'_>, index: u32, add: bool, (to, len): Prefix) -> io::Result<()> {
    let mut message = RouteMessage::default();
    message.header.address_family = family(to);
    message.header.destination_prefix_length = len;
    message.header.table = MAIN;
    message.header.protocol = RouteProtocol::from(PROTOCOL);
    message.header.scope = if to.is_ipv4() { RouteScope::Link } else { RouteScope::Universe };
    message.header.kind = RouteType::Unicast;
    message.attributes =
        vec![RouteAttribute::Destination(to.into()), RouteAttribute::Oif(index), RouteAttribute::Priority(METRIC)];
    let done = match add {
        true => acknowledged(socket, RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL),
        false => acknowledged(socket, RouteNetlinkMessage::DelRoute(message), 0),
    };
    match done {
        Err(error) if add && error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        Err(error) if !add && error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other,
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// A route as an interface's; none: another's, or one of the kernel's own.
fn of_interface(message: &RouteMessage, index: u32) -> Option<HostRoute> {
    let header = &message.header;
    let is_cloned = header.flags.contains(netlink_packet_route::route::RouteFlags::Cloned);
    // Whoever is on the link makes the kernel enter routes by ICMP redirects and router advertisements: none of a daemon's.
    let is_kernels = [RouteProtocol::IcmpRedirect, RouteProtocol::Kernel, RouteProtocol::Ra].contains(&header.protocol);
    if header.kind != RouteType::Unicast || is_kernels || is_cloned {
        return None;
    }
    let any: IpAddr = match header.address_family {
        AddressFamily::Inet => std::net::Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let (mut to, mut metric, mut hops) = (any, 0, Vec::new());
    let (mut oif, mut gateway) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => to = plain(address)?,
            RouteAttribute::Priority(value) => metric = *value,
            RouteAttribute::Oif(value) => oif = Some(*value),
            RouteAttribute::Gateway(address) => gateway = plain(address),
            // A router of the other family (RFC 5549): there is no such next hop here.
            RouteAttribute::Via(_) | RouteAttribute::Encap(_) => return None,
            RouteAttribute::MultiPath(several) => {
                for hop in several {
                    let router = hop.attributes.iter().find_map(|attribute| match attribute {
                        RouteAttribute::Gateway(address) => plain(address),
                        _ => None,
                    });
                    hops.push((hop.interface_index, router));
                }
            }
            _ => {}
        }
    }
    hops.extend(oif.map(|oif| (oif, gateway)));
    let next_hops = hops.len() as u32; // bounded by a message
    hops.retain(|(oif, _)| *oif == index);
    if hops.is_empty() {
        return None;
    }
    // In an order that does not depend on the kernel's: flows keep their next hops.
    let mut routers: Vec<IpAddr> = hops.into_iter().filter_map(|(_, router)| router).collect();
    routers.sort_unstable();
    routers.dedup();
    let (len, protocol) = (header.destination_prefix_length, header.protocol.into());
    Some(HostRoute { to, len, metric, routers, protocol, next_hops })
}

fn plain(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn send(socket: BorrowedFd<'_>, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    // What is left of an answer that was given up.
    crate::changes::forget(socket);
    let mut message = NetlinkMessage::from(message);
    message.header.flags = NLM_F_REQUEST | flags;
    message.finalize();
    let mut octets = vec![0; message.buffer_len()];
    message.serialize(&mut octets);
    // SAFETY: `octets` is readable for its length and outlives the call.
    let sent = unsafe { libc::send(socket.as_raw_fd(), octets.as_ptr().cast(), octets.len(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives each message of the next answer to `see`, until it has enough.
fn receive(
    socket: BorrowedFd<'_>,
    space: &mut [u8],
    mut see: impl FnMut(NetlinkMessage<RouteNetlinkMessage>) -> io::Result<bool>,
) -> io::Result<bool> {
    // SAFETY: `space` is writable for its length and outlives the call.
    let got = unsafe { libc::recv(socket.as_raw_fd(), space.as_mut_ptr().cast(), space.len(), 0) };
    let Ok(got) = usize::try_from(got) else { return Err(io::Error::last_os_error()) };
    let mut rest = space.get(..got).unwrap_or_default();
    while let Some(len) = rest.first_chunk::<4>().map(|len| u32::from_ne_bytes(*len) as usize).filter(|len| *len >= 16)
    {
        // What this release of the library cannot read is no route that it could tell.
        if let Ok(message) = NetlinkMessage::deserialize(rest)
            && see(message)?
        {
            return Ok(true);
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Makes a request and waits for the kernel's word on it.
fn acknowledged(socket: BorrowedFd<'_>, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
    send(socket, message, NLM_F_ACK | flags)?;
    let mut space = vec![0; ANSWER];
    while !receive(socket, &mut space, |message| match message.payload {
        NetlinkPayload::Error(error) => error.code.map_or(Ok(true), |_| Err(error.to_io())),
        _ => Ok(false),
    })? {}
    Ok(())
}

/// Gives every route of a family to `see`. False: routes changed meanwhile.
fn dump(socket: BorrowedFd<'_>, family: AddressFamily, mut see: impl FnMut(RouteMessage)) -> io::Result<bool> {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    send(socket, RouteNetlinkMessage::GetRoute(message), NLM_F_DUMP)?;
    let (mut space, mut is_whole) = (vec![0; ANSWER], true);
    while !receive(socket, &mut space, |message| {
        is_whole &= message.header.flags & NLM_F_DUMP_INTR == 0;
        match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => see(route),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
            _ => {}
        }
        Ok(false)
    })? {}
    Ok(is_whole)
}
