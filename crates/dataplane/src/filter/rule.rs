//! A filter rule as values, and as the text it came from (RFC 6733, 4.3.1: IPFilterRule).

use core::fmt;
use std::net::IpAddr;

/// What becomes of a packet that matches. A service data flow filter always says permit (3GPP TS 29.212, 5.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// It belongs to the flow.
    #[default]
    Permit,
    /// It is to be discarded.
    Deny,
}

/// Which way the rule is written; 3GPP rules say out, also for what the subscriber sends (TS 29.212, 5.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the subscriber: its end follows `from`.
    In,
    /// To the subscriber: its end follows `to`.
    #[default]
    Out,
}

/// An address and how many of its leading bits count. Bits behind those are kept as written and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// Leading bits that count: 0 to 32, or 0 to 128.
    pub len: u8,
}

impl Prefix {
    /// How many bits an address of this kind has.
    pub const fn bits(address: IpAddr) -> u8 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    /// One address.
    pub const fn host(address: IpAddr) -> Prefix {
        Prefix { address, len: Self::bits(address) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == Self::bits(self.address) {
            return self.address.fmt(f);
        }
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// An address expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Address {
    /// Every address, of both families.
    #[default]
    Any,
    /// What was assigned to the subscriber.
    Assigned,
    /// The addresses of a prefix.
    In(Prefix),
    /// All other addresses of the prefix's family (`!`).
    NotIn(Prefix),
}

impl Address {
    /// Whether only IPv4 (true) or IPv6 (false) can match; `None` if both may.
    pub(super) fn is_ipv4(&self) -> Option<bool> {
        match self {
            Address::Any | Address::Assigned => None,
            Address::In(p) | Address::NotIn(p) => Some(p.address.is_ipv4()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Any => f.write_str("any"),
            Address::Assigned => f.write_str("assigned"),
            Address::In(prefix) => prefix.fmt(f),
            Address::NotIn(prefix) => write!(f, "!{prefix}"),
        }
    }
}

/// A range of ports, both ends included; `lo` is not above `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    /// The first port.
    pub lo: u16,
    /// The last port.
    pub hi: u16,
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lo == self.hi { self.lo.fmt(f) } else { write!(f, "{}-{}", self.lo, self.hi) }
    }
}

/// What follows `from` or `to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The address.
    pub address: Address,
    /// The ports, any of them; none written means that ports are not looked at.
    pub ports: Vec<Ports>,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        for (i, ports) in self.ports.iter().enumerate() {
            write!(f, "{}{ports}", if i == 0 { ' ' } else { ',' })?;
        }
        Ok(())
    }
}

/// One filter rule: a Flow-Description (3GPP TS 29.212, 5.4.2; carried in TS 29.244's SDF Filter, 8.2.5).
///
/// Read from text by [`str::parse`], written by `Display`; what is written reads as the same rule. The default is
/// `permit out ip from any to any`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowDescription {
    /// What becomes of a packet that matches.
    pub action: Action,
    /// Which end is the subscriber's.
    pub direction: Direction,
    /// The protocol, or any (`ip`).
    pub protocol: Option<u8>,
    /// The packet's source, as seen in the rule's direction.
    pub from: End,
    /// The packet's destination, as seen in the rule's direction.
    pub to: End,
    /// Only fragments other than the first (`frag`).
    pub later_fragments: bool,
}

impl FlowDescription {
    /// The network's end.
    pub fn remote(&self) -> &End {
        if self.direction == Direction::Out { &self.from } else { &self.to }
    }

    /// The subscriber's end.
    pub fn local(&self) -> &End {
        if self.direction == Direction::Out { &self.to } else { &self.from }
    }
}

impl fmt::Display for FlowDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.action == Action::Permit { "permit " } else { "deny " })?;
        f.write_str(if self.direction == Direction::In { "in " } else { "out " })?;
        match self.protocol {
            Some(number) => number.fmt(f)?,
            None => f.write_str("ip")?,
        }
        write!(f, " from {} to {}", self.from, self.to)?;
        f.write_str(if self.later_fragments { " frag" } else { "" })
    }
}

/// Type of service or traffic class, and which of its bits count (3GPP TS 29.244, 8.2.5; TS 29.212, 5.3.15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tos {
    /// The bits wanted.
    pub value: u8,
    /// The bits that count; none means any value will do.
    pub mask: u8,
}

/// A service data flow filter: what one SDF Filter element asks for (3GPP TS 29.244, 8.2.5). All parts must match;
/// parts that are not there match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sdf {
    /// Addresses, protocol and ports.
    pub flow: Option<FlowDescription>,
    /// Type of service or traffic class.
    pub tos: Option<Tos>,
    /// The Security Parameter Index of ESP and AH packets.
    pub spi: Option<u32>,
    /// The flow label of IPv6 packets, 20 bits.
    pub flow_label: Option<u32>,
}

impl From<FlowDescription> for Sdf {
    fn from(flow: FlowDescription) -> Sdf {
        Sdf { flow: Some(flow), ..Sdf::default() }
    }
}
