//! A rule as control has it.

use std::net::IpAddr;

use wire::{Fragment, L3L4, protocol};

use crate::forward::{prefix4, prefix6};

/// What a rule does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes; no later rule is asked.
    Permit,
    /// It is dropped.
    Deny,
}

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From subscribers to the network.
    Up,
    /// From the network to subscribers.
    Down,
}

/// Ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// First.
    pub first: u16,
    /// Last.
    pub last: u16,
}

impl PortRange {
    /// Whether the port is in it.
    pub fn has(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

/// One rule. `None` is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it does.
    pub action: Action,
    /// In which direction alone.
    pub direction: Option<Direction>,
    /// Source prefix and its length in bits.
    pub src: Option<(IpAddr, u8)>,
    /// Destination prefix.
    pub dst: Option<(IpAddr, u8)>,
    /// Transport protocol; behind IPv6 extension headers.
    pub protocol: Option<u8>,
    /// Source ports: packets of protocols without ports never match.
    pub src_ports: Option<PortRange>,
    /// Destination ports.
    pub dst_ports: Option<PortRange>,
    /// Differentiated services code point (RFC 2474).
    pub dscp: Option<u8>,
    /// Where its hits are counted: the number it keeps when the list is replaced.
    pub counter: u32,
}

impl Rule {
    /// A rule that matches everything.
    pub const fn any(action: Action, counter: u32) -> Self {
        Self {
            action,
            direction: None,
            src: None,
            dst: None,
            protocol: None,
            src_ports: None,
            dst_ports: None,
            dscp: None,
            counter,
        }
    }

    /// Whether it can match packets of that version and direction at all.
    pub(super) fn is_for(&self, version: u8, direction: Direction) -> bool {
        let other = |prefix: Option<(IpAddr, u8)>| prefix.is_some_and(|(ip, _)| ip.is_ipv4() != (version == 4));
        self.direction.is_none_or(|only| only == direction) && !other(self.src) && !other(self.dst)
    }

    /// Whether it matches what `ports` shows of a packet.
    pub(super) fn has_ports(&self, range: Option<PortRange>, ports: Ports) -> bool {
        match (range, ports) {
            (None, _) => true,
            (Some(range), Ports::Are(port)) => range.has(port),
            (Some(_), Ports::Hidden) => self.action == Action::Permit,
            (Some(_), Ports::None) => false,
        }
    }

    /// Whether it matches the packet: the definition, which the compiled list is tested against.
    pub fn matches(&self, direction: Direction, ip: &L3L4, packet: &[u8]) -> bool {
        let [src, dst]: [IpAddr; 2] = match ip.version {
            4 => [ip.src.to_be_bytes().into(), ip.dst.to_be_bytes().into()],
            _ => [ip.src6(packet).to_be_bytes().into(), ip.dst6(packet).to_be_bytes().into()],
        };
        let covers = |prefix: Option<(IpAddr, u8)>, address| match (prefix, address) {
            (None, _) => true,
            (Some((IpAddr::V4(p), len)), IpAddr::V4(a)) => prefix4(p.into(), len) == prefix4(a.into(), len),
            (Some((IpAddr::V6(p), len)), IpAddr::V6(a)) => prefix6(p.into(), len) == prefix6(a.into(), len),
            _ => false,
        };
        self.is_for(ip.version, direction)
            && covers(self.src, src)
            && covers(self.dst, dst)
            && self.protocol.is_none_or(|only| only == ip.protocol)
            && self.dscp.is_none_or(|only| only == ip.dscp())
            && self.has_ports(self.src_ports, Ports::of(ip, ip.src_port))
            && self.has_ports(self.dst_ports, Ports::of(ip, ip.dst_port))
    }
}

/// What a packet shows of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    /// This one.
    Are(u16),
    /// A later fragment does not show it.
    Hidden,
    /// The protocol has none.
    None,
}

impl Ports {
    #[inline(always)]
    pub(super) fn of(ip: &L3L4, port: u16) -> Self {
        match ip.protocol {
            protocol::TCP | protocol::UDP | protocol::SCTP | protocol::DCCP | protocol::UDP_LITE => {
                if ip.fragment == Fragment::Later { Ports::Hidden } else { Ports::Are(port) }
            }
            _ => Ports::None,
        }
    }
}
