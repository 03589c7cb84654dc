//! A TAP interface of the host's, for routing daemons: it has the addresses of a port, and routes lead to it.
//!
//! Making it, and adding routes, takes privileges: both are done by the helper where there is one
//! ([`helper`]). Frames are read and written, and the kernel's routes are read, without.

mod netlink;

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::PortError;
use crate::helper::{self, Place, Request};
use crate::iface::Iface;
use crate::netns::Netns;
use crate::tun;

pub use netlink::{HostRoute, HostRoutes, PROTOCOL};

/// An address with its prefix length, or a prefix.
pub type Prefix = (IpAddr, u8);

/// What the interface is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostTapConfig {
    /// Where it is.
    pub place: Place,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its largest network-layer packet, in bytes.
    pub mtu: u32,
    /// The port's addresses, which the interface gets too.
    pub addresses: Vec<Prefix>,
}

/// The interface, and what the kernel tells of routes beside it.
#[derive(Debug)]
pub struct HostTap {
    place: Place,
    queue: File,
    routes: HostRoutes,
}

/// The descriptors of one: its queue, a socket that tells of changed routes, one to ask for routes.
pub(crate) type Descriptors = [OwnedFd; 3];

impl HostTap {
    /// Makes the interface, or attaches to one of that name, and gives it what it is to have. It goes with this value,
    /// routes with it, if it was made here.
    ///
    /// # Errors
    /// No TAP here, an interface of the name that is none or is in use, no such namespace, a missing capability.
    pub fn open(config: &HostTapConfig) -> Result<Self, PortError> {
        let place = config.place.clone();
        let (descriptors, index) = match helper::client_of_process() {
            Some(client) => {
                let (answer, descriptors) = client.ask(&Request::HostTap(config.clone()))?;
                let garbled = |_| helper::lost(io::ErrorKind::InvalidData.into());
                (descriptors.try_into().map_err(garbled)?, answer.number as u32) // the kernel's numbers are 32 bits
            }
            None => make(config)?,
        };
        let [queue, changes, asks] = descriptors;
        Ok(Self { place, queue: queue.into(), routes: HostRoutes::new(changes, asks, index) })
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Frames from the host: readable when there is one.
    pub fn queue(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    /// Its queue once more, for whoever writes to it.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn writer(&self) -> io::Result<HostTapWriter> {
        self.queue.try_clone().map(HostTapWriter)
    }

    /// The next frame that the host sent; none: there is none.
    ///
    /// # Errors
    /// The interface is gone, or is down.
    pub fn read(&self, space: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.queue).read(space) {
            Ok(len) => Ok(Some(len)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The kernel's routes by this interface.
    pub fn routes(&self) -> &HostRoutes {
        &self.routes
    }

    /// Adds routes to prefixes by this interface, with the protocol number [`PROTOCOL`], or takes them away. One that is
    /// there already, or gone already, is as wanted.
    ///
    /// # Errors
    /// What the kernel said of the first that failed; the others are changed all the same.
    pub fn change_routes(&self, add: bool, prefixes: &[Prefix]) -> Result<(), PortError> {
        match helper::client_of_process() {
            Some(client) => {
                let mut done = Ok(());
                for prefixes in prefixes.chunks(AT_ONCE) {
                    let (place, prefixes) = (self.place.clone(), prefixes.to_vec());
                    done = done.and(client.ask(&Request::HostRoutes { place, add, prefixes }).map(drop));
                }
                done
            }
            None => change_routes(&self.place, add, prefixes),
        }
    }
}

/// Prefixes in a request: it has to fit a message, and other requests wait for it.
const AT_ONCE: usize = 256;

/// Writes frames to a host interface, from whatever thread.
#[derive(Debug)]
pub struct HostTapWriter(File);

impl frame::HostQueue for HostTapWriter {
    fn put(&self, head: &[u8; 14], payload: &[u8]) -> bool {
        let whole = head.len() + payload.len();
        (&self.0).write_vectored(&[IoSlice::new(head), IoSlice::new(payload)]).is_ok_and(|len| len == whole)
    }
}

/// The privileged part of opening. Returns the kernel's number of the interface, too.
pub(crate) fn make(config: &HostTapConfig) -> Result<(Descriptors, u32), PortError> {
    let HostTapConfig { place, mac, mtu, addresses } = config;
    let Place { name, netns } = place;
    let netns = Netns::open(netns.as_deref())?;
    let queue = netns.within(tun::device)?.map_err(tun::no_device)?;
    tun::attach(&queue, name, libc::IFF_TAP | libc::IFF_NO_PI).map_err(|source| match source.raw_os_error() {
        Some(libc::EBUSY) => PortError::Unsupported {
            what: format!("a second user of host interface `{place}`"),
            advice: "another process has it: stop that one, or name another interface".to_owned(),
        },
        Some(libc::EINVAL) => PortError::Unsupported {
            what: format!("TAP on `{place}`, an interface of another kind,"),
            advice: "name a new interface, or one made with `ip tuntap add name … mode tap`".to_owned(),
        },
        _ => PortError::system(format!("attaching to host interface {place}"), "CAP_NET_ADMIN", source),
    })?;
    let iface = Iface::named(name, netns.name())?;
    let system = |doing: &str, e| PortError::system(format!("{doing} host interface {place}"), "CAP_NET_ADMIN", e);
    iface.set_mac(*mac).map_err(|e| system("setting the hardware address of", e))?;
    iface.set_mtu(*mtu).map_err(|e| system("setting the MTU of", e))?;
    let index = iface.index().map_err(|e| system("finding", e))?;
    let sockets = netns.within(|| Ok([netlink::changes()?, netlink::socket()?]))?;
    let [changes, asks] = sockets.map_err(|e| system("a netlink socket for", e))?;
    for address in addresses {
        netlink::add_address(asks.as_fd(), index, *address).map_err(|e| system("giving an address to", e))?;
    }
    iface.set_up().map_err(|e| system("bringing up", e))?;
    Ok(([queue.into(), changes, asks], index))
}

/// The privileged part of changing routes.
pub(crate) fn change_routes(place: &Place, add: bool, prefixes: &[Prefix]) -> Result<(), PortError> {
    let netns = Netns::open(place.netns.as_deref())?;
    let system = |doing: String, e| PortError::system(doing, "CAP_NET_ADMIN", e);
    let index = Iface::named(&place.name, netns.name())?.index();
    let index = index.map_err(|e| system(format!("finding host interface {place}"), e))?;
    let socket = netns.within(netlink::socket)?.map_err(|e| system("a netlink socket".to_owned(), e))?;
    let mut done = Ok(());
    for prefix in prefixes {
        let (to, len) = prefix;
        let doing = if add { "adding" } else { "removing" };
        let changed = netlink::change_route(socket.as_fd(), index, add, *prefix);
        done = done.and(changed.map_err(|e| system(format!("{doing} the route to {to}/{len} by {place}"), e)));
    }
    done
}
