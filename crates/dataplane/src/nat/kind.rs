//! What a packet is to the translator.

use wire::{Fragment, L3L4, fast, icmp4, protocol, tcp, udp};

/// A protocol with something to tell subscribers apart by: ports, or an echo's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Protocol {
    Tcp = 1,
    Udp = 2,
    Icmp = 3,
}

impl Protocol {
    pub(super) const ALL: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp];

    pub(super) fn of(number: u8) -> Option<Protocol> {
        match number {
            protocol::TCP => Some(Protocol::Tcp),
            protocol::UDP => Some(Protocol::Udp),
            protocol::ICMP4 => Some(Protocol::Icmp),
            _ => None,
        }
    }

    /// Bytes of its header up to the end of the checksum and of all else that translation touches.
    const fn reach(self) -> usize {
        match self {
            Protocol::Tcp => tcp::field::CHECKSUM + 2,
            Protocol::Udp => udp::field::CHECKSUM + 2,
            Protocol::Icmp => icmp4::field::SEQ,
        }
    }
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not to be translated.
    Foreign,
    /// It has a port at each end (an echo the same at both), and its checksum is there.
    Flow(Protocol),
    /// An ICMP error.
    Error,
    /// A fragment other than the first.
    Later,
    /// The first fragment, too short for its transport header.
    Short,
    /// Another protocol, or ICMP message.
    Other,
}

impl Kind {
    /// Sorts the packet; also returns its source and destination ports.
    #[inline(always)]
    pub(super) fn of(ip: &L3L4, packet: &[u8]) -> (Kind, u16, u16) {
        let room = (ip.total_len as usize).saturating_sub(ip.l4.into());
        if ip.fragment == Fragment::Later {
            return (Kind::Later, 0, 0);
        }
        let Some(protocol) = Protocol::of(ip.protocol) else { return (Kind::Other, 0, 0) };
        if room < protocol.reach() {
            return (if ip.fragment == Fragment::First { Kind::Short } else { Kind::Other }, 0, 0);
        }
        if protocol != Protocol::Icmp {
            return (Kind::Flow(protocol), ip.src_port, ip.dst_port);
        }
        let message = packet.get(ip.l4.into()..).unwrap_or_default();
        match fast::be8(message, icmp4::field::TYPE) {
            Some(icmp4::kind::ECHO_REQUEST | icmp4::kind::ECHO_REPLY) => {
                let ident = fast::be16(message, icmp4::field::REST).unwrap_or(0);
                (Kind::Flow(protocol), ident, ident)
            }
            Some(kind) if is_error(kind) => (Kind::Error, 0, 0),
            _ => (Kind::Other, 0, 0),
        }
    }
}

/// The errors that are translated (RFC 5508, 4.2). Source quench is obsolete (RFC 6633), redirects are of a link.
fn is_error(kind: u8) -> bool {
    matches!(kind, icmp4::kind::UNREACHABLE | icmp4::kind::TIME_EXCEEDED | icmp4::kind::PARAMETER_PROBLEM)
}
