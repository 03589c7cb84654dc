//! Requests to the helper and its replies, as octets: one datagram each, descriptors beside it.

use super::Place;
use crate::PortError;
use crate::bpf::XdpMode;
use crate::host_tap::{HostTapConfig, Prefix};

/// Octets of the longest message. A filter of a thousand prefixes fits.
pub(super) const LONGEST: usize = 64 << 10;
/// Descriptors beside a message that is sent.
pub(super) const MOST_DESCRIPTORS: usize = 8;
/// Descriptors beside a message that is received: as many as the kernel passes (SCM_MAX_FD). The kernel itself would close
/// those for which there is no room, before they could be looked at.
pub(super) const MOST_RECEIVED: usize = 253;

/// All that the helper does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Descriptors of the interface's namespace, of a socket in it to ask about the interface, and of one that tells of changes.
    Interface(Place),
    /// An AF_PACKET socket bound to the interface, with buffers of that many bytes, which lets nothing through yet.
    PacketSocket { place: Place, receive: u64, send: u64 },
    /// Offloads that make packets no wire carries are off until the lease ends.
    Fit(Place),
    /// The host stack sees nothing of what the interface receives until the lease ends.
    Hush(Place),
    /// An AF_XDP socket in the interface's namespace.
    XdpSocket(Place),
    /// Registers the first `bytes` of the file beside the message as the packet memory of that lease's socket.
    XdpRegister { socket: u64, place: Place, bytes: u64, chunk: u32, headroom: u32 },
    /// Binds a socket of that lease, trying so many milliseconds while the queue is busy.
    XdpBind { socket: u64, place: Place, ifindex: u32, queue: u32, flags: u16, patience_ms: u64 },
    /// The interface's XDP program, attached until the lease ends, gives the queue's packets to the socket. What another
    /// process has left of the interface stands beside the message.
    XdpAttach {
        socket: u64,
        place: Place,
        queue: u32,
        filter: String,
        mode: XdpMode,
        keep_offloads: bool,
        promiscuous: bool,
    },
    /// Whether the kernel has let go of a closed socket's queue.
    XdpReleased { place: Place, ifindex: u32, queue: u32, patience_ms: u64 },
    /// The rest of the interface's program, beside the reply, with what is to stay of it; received packets wait for others
    /// for so many nanoseconds at most.
    XdpHook { place: Place, longest_ns: u64, share: u32, keep: bool },
    /// The XDP program beside the message sees the interface's packets before the one attached; a second one, what no port
    /// takes. None: none does any more.
    XdpEngage { place: Place },
    /// A queue of the TUN interface, which is made if there is none, and the kernel's counters of interfaces.
    Tun { place: Place, offloads: bool },
    /// The TUN interface, which the process has claimed, has that MTU in bytes from now on.
    TunMtu { place: Place, mtu: u32 },
    /// The host interface, made if there is none, with what it is to have: its queue, and two sockets for routes.
    HostTap(HostTapConfig),
    /// Adds routes to those prefixes by the host interface, or takes them away.
    HostRoutes { place: Place, add: bool, prefixes: Vec<Prefix> },
    /// Ends a lease.
    Release(u64),
    /// What the helper says of itself.
    Report,
    /// A socket to the helper, beside the reply, for a process that takes over: each has replies of its own.
    Another,
}

/// What a request brought, besides descriptors.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) number: u64,
    pub(crate) lease: u64,
    pub(crate) text: String,
}

pub(super) type Reply = Result<Answer, PortError>;

/// A message cannot be read: its sender is of another version, or damaged.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Garbled;

struct Out(Vec<u8>);

impl Out {
    fn number(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn text(self, text: &str) -> Self {
        let mut out = self.number(text.len() as u64);
        out.0.extend_from_slice(text.as_bytes());
        out
    }

    fn place(self, place: &Place) -> Self {
        self.text(&place.name).text(place.netns.as_deref().unwrap_or(""))
    }

    fn prefixes(self, prefixes: &[Prefix]) -> Self {
        let out = self.number(prefixes.len() as u64);
        prefixes.iter().fold(out, |out, (address, len)| out.text(&address.to_string()).number((*len).into()))
    }
}

struct In<'a>(&'a [u8]);

impl In<'_> {
    fn number(&mut self) -> Result<u64, Garbled> {
        let (head, rest) = self.0.split_first_chunk::<8>().ok_or(Garbled)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*head))
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Garbled> {
        self.number()?.try_into().map_err(|_| Garbled)
    }

    fn text(&mut self) -> Result<String, Garbled> {
        let len = self.small::<usize>()?;
        let (head, rest) = self.0.split_at_checked(len).ok_or(Garbled)?;
        self.0 = rest;
        String::from_utf8(head.to_vec()).map_err(|_| Garbled)
    }

    fn place(&mut self) -> Result<Place, Garbled> {
        let (name, netns) = (self.text()?, self.text()?);
        Ok(Place { name, netns: Some(netns).filter(|netns| !netns.is_empty()) })
    }

    fn prefixes(&mut self) -> Result<Vec<Prefix>, Garbled> {
        let count = self.number()?;
        // Each takes some octets of the message: it ends before a count that is too large.
        (0..count).map(|_| Ok((self.text()?.parse().map_err(|_| Garbled)?, self.small()?))).collect()
    }

    fn end<T>(self, value: T) -> Result<T, Garbled> {
        if self.0.is_empty() { Ok(value) } else { Err(Garbled) }
    }
}

const MODES: [XdpMode; 3] = [XdpMode::Auto, XdpMode::Native, XdpMode::Generic];

impl Request {
    /// With a number that the reply repeats.
    pub(super) fn write(&self, sequence: u64) -> Vec<u8> {
        let out = |kind: u64| Out(Vec::new()).number(sequence).number(kind);
        let out = match self {
            Self::Interface(place) => out(0).place(place),
            Self::PacketSocket { place, receive, send } => out(1).place(place).number(*receive).number(*send),
            Self::Fit(place) => out(2).place(place),
            Self::Hush(place) => out(3).place(place),
            Self::XdpSocket(place) => out(4).place(place),
            Self::XdpBind { socket, place, ifindex, queue, flags, patience_ms } => out(5)
                .number(*socket)
                .place(place)
                .number((*ifindex).into())
                .number((*queue).into())
                .number((*flags).into())
                .number(*patience_ms),
            Self::XdpAttach { socket, place, queue, filter, mode, keep_offloads, promiscuous } => out(6)
                .number(*socket)
                .place(place)
                .number((*queue).into())
                .text(filter)
                .number(mode_number(*mode))
                .number((*keep_offloads).into())
                .number((*promiscuous).into()),
            Self::XdpReleased { place, ifindex, queue, patience_ms } => {
                out(7).place(place).number((*ifindex).into()).number((*queue).into()).number(*patience_ms)
            }
            Self::Release(lease) => out(8).number(*lease),
            Self::Report => out(9),
            Self::Another => out(17),
            Self::XdpRegister { socket, place, bytes, chunk, headroom } => {
                out(10).number(*socket).place(place).number(*bytes).number((*chunk).into()).number((*headroom).into())
            }
            Self::Tun { place, offloads } => out(11).place(place).number((*offloads).into()),
            Self::TunMtu { place, mtu } => out(12).place(place).number((*mtu).into()),
            Self::XdpHook { place, longest_ns, share, keep } => {
                out(13).place(place).number(*longest_ns).number((*share).into()).number((*keep).into())
            }
            Self::XdpEngage { place } => out(14).place(place),
            Self::HostTap(HostTapConfig { place, mac, mtu, addresses }) => {
                let [a, b, c, d, e, f] = *mac;
                let mac = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
                out(15).place(place).number(mac).number((*mtu).into()).prefixes(addresses)
            }
            Self::HostRoutes { place, add, prefixes } => out(16).place(place).number((*add).into()).prefixes(prefixes),
        };
        out.0
    }

    pub(super) fn read(octets: &[u8]) -> Result<(u64, Self), Garbled> {
        let mut input = In(octets);
        let sequence = input.number()?;
        let request = match input.number()? {
            0 => Self::Interface(input.place()?),
            1 => Self::PacketSocket { place: input.place()?, receive: input.number()?, send: input.number()? },
            2 => Self::Fit(input.place()?),
            3 => Self::Hush(input.place()?),
            4 => Self::XdpSocket(input.place()?),
            5 => Self::XdpBind {
                socket: input.number()?,
                place: input.place()?,
                ifindex: input.small()?,
                queue: input.small()?,
                flags: input.small()?,
                patience_ms: input.number()?,
            },
            6 => Self::XdpAttach {
                socket: input.number()?,
                place: input.place()?,
                queue: input.small()?,
                filter: input.text()?,
                mode: *MODES.get(input.small::<usize>()?).ok_or(Garbled)?,
                keep_offloads: input.number()? != 0,
                promiscuous: input.number()? != 0,
            },
            7 => Self::XdpReleased {
                place: input.place()?,
                ifindex: input.small()?,
                queue: input.small()?,
                patience_ms: input.number()?,
            },
            8 => Self::Release(input.number()?),
            9 => Self::Report,
            10 => Self::XdpRegister {
                socket: input.number()?,
                place: input.place()?,
                bytes: input.number()?,
                chunk: input.small()?,
                headroom: input.small()?,
            },
            11 => Self::Tun { place: input.place()?, offloads: input.number()? != 0 },
            12 => Self::TunMtu { place: input.place()?, mtu: input.small()? },
            13 => Self::XdpHook {
                place: input.place()?,
                longest_ns: input.number()?,
                share: input.small()?,
                keep: input.number()? != 0,
            },
            14 => Self::XdpEngage { place: input.place()? },
            15 => {
                let (place, mac) = (input.place()?, input.number()?);
                let [_, _, mac @ ..] = mac.to_be_bytes();
                Self::HostTap(HostTapConfig { place, mac, mtu: input.small()?, addresses: input.prefixes()? })
            }
            16 => Self::HostRoutes { place: input.place()?, add: input.number()? != 0, prefixes: input.prefixes()? },
            17 => Self::Another,
            _ => return Err(Garbled),
        };
        input.end((sequence, request))
    }

    /// The interface it is about; none: a lease, or the helper itself.
    pub(super) fn place(&self) -> Option<&Place> {
        match self {
            Self::Interface(place) | Self::Fit(place) | Self::Hush(place) | Self::XdpSocket(place) => Some(place),
            Self::PacketSocket { place, .. }
            | Self::Tun { place, .. }
            | Self::TunMtu { place, .. }
            | Self::XdpRegister { place, .. }
            | Self::XdpBind { place, .. }
            | Self::XdpAttach { place, .. }
            | Self::XdpHook { place, .. }
            | Self::XdpEngage { place }
            | Self::HostTap(HostTapConfig { place, .. })
            | Self::HostRoutes { place, .. }
            | Self::XdpReleased { place, .. } => Some(place),
            Self::Release(_) | Self::Report | Self::Another => None,
        }
    }
}

/// The number that stands for a mode.
pub(super) fn mode_number(mode: XdpMode) -> u64 {
    MODES.iter().position(|known| *known == mode).unwrap_or(0) as u64
}

/// The mode a number stands for.
pub(super) fn mode(number: u64) -> XdpMode {
    usize::try_from(number).ok().and_then(|at| MODES.get(at)).copied().unwrap_or_default()
}

/// Capabilities that errors name.
const CAPABILITIES: [&str; 6] =
    ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_IPC_LOCK"];

pub(super) fn write_reply(sequence: u64, reply: &Reply) -> Vec<u8> {
    let out = |kind: u64| Out(Vec::new()).number(sequence).number(kind);
    let out = match reply {
        Ok(Answer { number, lease, text }) => out(0).number(*number).number(*lease).text(text),
        Err(PortError::Capability { doing, capability }) => out(1).text(doing).text(capability),
        Err(PortError::NoInterface { name, place, there }) => out(2).text(name).text(place).text(there),
        Err(PortError::NoNamespace { name }) => out(3).text(name),
        Err(PortError::System { doing, source }) if source.raw_os_error().is_some() => {
            out(4).text(doing).number(source.raw_os_error().unwrap_or(0).unsigned_abs().into())
        }
        Err(other) => out(5).text(&other.to_string()).number(other.is_permission().into()),
    };
    out.0
}

pub(super) fn read_reply(octets: &[u8]) -> Result<(u64, Reply), Garbled> {
    let mut input = In(octets);
    let sequence = input.number()?;
    let reply = match input.number()? {
        0 => Ok(Answer { number: input.number()?, lease: input.number()?, text: input.text()? }),
        1 => {
            let (doing, named) = (input.text()?, input.text()?);
            let capability = CAPABILITIES.into_iter().find(|known| *known == named).ok_or(Garbled)?;
            Err(PortError::Capability { doing, capability })
        }
        2 => Err(PortError::NoInterface { name: input.text()?, place: input.text()?, there: input.text()? }),
        3 => Err(PortError::NoNamespace { name: input.text()? }),
        4 => {
            let (doing, errno) = (input.text()?, input.small()?);
            Err(PortError::System { doing, source: std::io::Error::from_raw_os_error(errno) })
        }
        5 => Err(PortError::Helper { text: input.text()?, permission: input.number()? != 0 }),
        _ => return Err(Garbled),
    };
    input.end((sequence, reply))
}
