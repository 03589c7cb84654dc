//! What a helper was started for, and what it therefore refuses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::{Place, Request};
use crate::{PortError, Uri};

/// Leases a port may have at one time. It needs two: its interface's offloads, and its program or the host kept off.
const LEASES: usize = 4;
/// Live registrations of packet memory a port may have at one time: its own, and the next one while its interface comes
/// back and something still has the socket before.
const REGISTRATIONS: usize = 2;
/// The shortest prefixes of routes by a host interface.
const LEAST_LEN4: u8 = 8;
const LEAST_LEN6: u8 = 16;

/// A kind of port that takes privileges to open, by the scheme of its URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `packet:`, an AF_PACKET socket.
    Packet,
    /// `xdp:`, an AF_XDP socket.
    Xdp,
    /// `tun:`, a queue of a TUN interface.
    Tun,
    /// `host:`, the interface of the host beside a port, for routing daemons.
    Host,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Packet, Self::Xdp, Self::Tun, Self::Host];

    fn as_str(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Xdp => "xdp",
            Self::Tun => "tun",
            Self::Host => "host",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A port of one worker, as far as its helper needs to know it. Written `xdp:eth0` or `xdp:namespace/eth0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopedPort {
    /// How it is opened.
    pub kind: Kind,
    /// Its interface.
    pub place: Place,
}

impl ScopedPort {
    /// The port a URI names, if opening it takes privileges.
    pub fn of(uri: &Uri) -> Option<Self> {
        let kind = Kind::named(uri.kind())?;
        Some(Self { kind, place: Place::new(uri.target(), uri.get("netns")) })
    }
}

impl fmt::Display for ScopedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.as_str(), self.place)
    }
}

impl FromStr for ScopedPort {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (kind, place) = text.split_once(':')?;
            Some(Self { kind: Kind::named(kind)?, place: place.parse().ok()? })
        };
        let what = || "a helper opens packet, xdp and tun ports, and host interfaces".to_owned();
        read().ok_or_else(|| PortError::BadUri { uri: text.to_owned(), what: what() })
    }
}

/// The limits of a helper, given when it is started. The process that asks cannot change them, whoever has taken it over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// The ports it opens, one entry for each worker's.
    pub ports: Vec<ScopedPort>,
    /// Bytes of packet memory that a socket of an AF_XDP port may have registered (see
    /// [`registered_bytes`](crate::xdp::registered_bytes)); none: the helper registers no memory.
    pub memory: Option<u64>,
}

impl Scope {
    /// Refuses requests about interfaces of others, and those that no port of the interface's has a use for.
    pub(super) fn check(&self, request: &Request) -> Result<(), Refusal> {
        let Some(place) = request.place() else { return Ok(()) };
        let kinds = kinds(request);
        let mut of_place = self.ports.iter().filter(|port| port.place == *place).peekable();
        if of_place.peek().is_none() {
            return Err(Refusal::OtherInterface { place: place.clone() });
        }
        match of_place.any(|port| kinds.contains(&port.kind)) {
            true => check_prefixes(request),
            false => Err(Refusal::OtherKind { place: place.clone(), kinds: words(kinds) }),
        }
    }

    /// How many leases may be out at one time.
    pub(super) fn most_leases(&self) -> usize {
        self.ports.len() * LEASES
    }

    /// How many sockets with registered packet memory may be open at one time.
    pub(super) fn most_registrations(&self) -> usize {
        self.ports.iter().filter(|port| port.kind == Kind::Xdp).count() * REGISTRATIONS
    }
}

/// Refuses routes that would take most of the host's traffic.
fn check_prefixes(request: &Request) -> Result<(), Refusal> {
    let Request::HostRoutes { add: true, prefixes, .. } = request else { return Ok(()) };
    match prefixes.iter().find(|(to, len)| *len < if to.is_ipv4() { LEAST_LEN4 } else { LEAST_LEN6 }) {
        Some(&(to, len)) => Err(Refusal::WideRoute { to, len }),
        None => Ok(()),
    }
}

/// Kinds of port that make such requests.
fn kinds(request: &Request) -> &'static [Kind] {
    match request {
        Request::PacketSocket { .. } | Request::Hush(_) => &[Kind::Packet],
        Request::Fit(_) => &[Kind::Packet, Kind::Xdp],
        Request::XdpSocket(_)
        | Request::XdpRegister { .. }
        | Request::XdpBind { .. }
        | Request::XdpAttach { .. }
        | Request::XdpHook { .. }
        | Request::XdpEngage { .. }
        | Request::XdpReleased { .. } => &[Kind::Xdp],
        Request::Tun { .. } | Request::TunMtu { .. } => &[Kind::Tun],
        Request::HostTap(_) | Request::HostRoutes { .. } => &[Kind::Host],
        Request::Interface(_) | Request::Release(_) | Request::Report | Request::Another => &Kind::ALL,
    }
}

fn words(kinds: &[Kind]) -> String {
    kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(" or ")
}

/// A request that a helper refuses by itself, before the kernel is asked. A gateway makes none: one that does has an error,
/// or someone else's code in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No port of the configuration is on the interface.
    #[error("interface {place} is not one of this gateway's ports: the helper leaves it alone")]
    OtherInterface {
        /// The interface asked for.
        place: Place,
    },
    /// The interface has ports, but none that is opened that way.
    #[error("interface {place} has no {kinds} port in this gateway's configuration")]
    OtherKind {
        /// The interface asked for.
        place: Place,
        /// Kinds of port that would have a use for it.
        kinds: String,
    },
    /// No gateway serves that much: the route would take the host's traffic.
    #[error("a route to {to}/{len}; the shortest are /{LEAST_LEN4} of IPv4 and /{LEAST_LEN6} of IPv6")]
    WideRoute {
        /// Destination prefix of the route.
        to: IpAddr,
        /// The length of that prefix.
        len: u8,
    },
    /// The number is of another interface than the one named: of another port's, of one that is not the gateway's, or of
    /// one that was removed.
    #[error("interface number {given} is not that of {place}")]
    OtherNumber {
        /// The interface named.
        place: Place,
        /// The number beside it.
        given: u32,
    },
    /// The lease is of something else than a socket that was made for this interface.
    #[error("lease {lease} is of no socket for {place}")]
    NoSocket {
        /// The interface asked for.
        place: Place,
        /// The number of the lease.
        lease: u64,
    },
    /// A socket is bound in copy or zero-copy mode; anything else would share memory that was not checked.
    #[error("flags {flags:#x} for binding an AF_XDP socket; 0, XDP_COPY or XDP_ZEROCOPY are allowed")]
    BindFlags {
        /// Those asked for.
        flags: u16,
    },
    /// The helper registers no packet memory, or not that much.
    #[error("{bytes} bytes of packet memory; the configuration has {most}")]
    MemorySize {
        /// Bytes asked for.
        bytes: u64,
        /// What the configuration's packet buffers take, in bytes; 0 where the gateway registers memory itself.
        most: u64,
    },
    /// The memory is not a file made by memfd_create: mapping another could wait for a disk, a network or a process.
    #[error("packet memory that is no memfd")]
    NotMemory,
    /// A gateway has one arena, which all its ports register.
    #[error("packet memory of another file than before")]
    OtherMemory,
    /// Sockets that were registered before are still open, in whatever process.
    #[error("packet memory of more than {most} AF_XDP sockets at one time")]
    TooManyRegistrations {
        /// How many may be open.
        most: usize,
    },
    /// Sockets to the helper were asked for, and none was closed.
    #[error("more than {most} sockets to the helper at one time")]
    TooManySockets {
        /// How many may be open.
        most: usize,
    },
    /// Leases were taken and not given back.
    #[error("more than {most} leases at one time")]
    TooManyLeases {
        /// How many may be out.
        most: usize,
    },
}

impl Refusal {
    /// A word that stays the same, for logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::OtherInterface { .. } => "other_interface",
            Self::OtherKind { .. } => "other_kind",
            Self::WideRoute { .. } => "wide_route",
            Self::OtherNumber { .. } => "other_number",
            Self::NoSocket { .. } => "no_socket",
            Self::BindFlags { .. } => "bind_flags",
            Self::MemorySize { .. } => "memory_size",
            Self::NotMemory => "not_memory",
            Self::OtherMemory => "other_memory",
            Self::TooManyRegistrations { .. } => "too_many_registrations",
            Self::TooManyLeases { .. } => "too_many_leases",
            Self::TooManySockets { .. } => "too_many_sockets",
        }
    }
}
