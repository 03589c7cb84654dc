//! From rules to filters: addresses filled in, port lists multiplied out.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::compiled::{FLOW_LABEL, Filter4, Filter6, Ranges, Traits, bit, halves, inverted, state};
use super::rule::{Action, Address, End, FlowDescription, Ports, Prefix, Sdf, Tos};

/// The most filters of one family a single rule may become: what one port list times another, times the subscriber's
/// addresses, must not exceed.
pub const MAX_FILTERS: usize = 64;

/// What `assigned` stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UeAddresses {
    /// The subscriber's prefixes, framed routes among them (3GPP TS 23.501, 5.6.14). None at all means that nothing
    /// is known, or that the session was found by the address already: `assigned` is then any address.
    pub prefixes: Vec<Prefix>,
}

impl UeAddresses {
    /// Whatever addresses the session has.
    pub const UNKNOWN: UeAddresses = UeAddresses { prefixes: Vec::new() };

    /// The usual subscriber: at most one IPv4 address and one IPv6 /64.
    pub fn of(v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>) -> UeAddresses {
        let v4 = v4.map(|a| Prefix::host(a.into()));
        let v6 = v6.map(|a| Prefix { address: a.into(), len: 64 });
        UeAddresses { prefixes: v4.into_iter().chain(v6).collect() }
    }
}

/// What one rule became. Both lists empty: it can match nothing this subscriber sends or receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// For IPv4 packets; any of them matching means that the rule does.
    pub v4: Vec<Filter4>,
    /// For IPv6 packets.
    pub v6: Vec<Filter6>,
}

/// A rule that is well-formed but not a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Its action is deny.
    #[error("a service data flow filter must say \"permit\" (3GPP TS 29.212, 5.4.2)")]
    Deny,
    /// It is too long.
    #[error("the rule's port lists and addresses make {0} filters; at most {MAX_FILTERS} are allowed")]
    TooMany(usize),
}

/// Makes the filters of one service data flow filter.
pub fn compile(sdf: &Sdf, ue: &UeAddresses) -> Result<Filters, CompileError> {
    let everything = FlowDescription::default();
    let flow = sdf.flow.as_ref().unwrap_or(&everything);
    if flow.action == Action::Deny {
        return Err(CompileError::Deny);
    }
    let tos = sdf.tos.unwrap_or_default();
    let (remote_ports, local_ports) = (merged(flow.remote()), merged(flow.local()));
    let mut filters = Filters::default();
    for ipv4 in [true, false] {
        // IPv4 has no flow labels.
        if ipv4 && sdf.flow_label.is_some() {
            continue;
        }
        let remotes = addresses(&flow.remote().address, ipv4, ue);
        let locals = addresses(&flow.local().address, ipv4, ue);
        let count = [remotes.len(), locals.len(), remote_ports.len(), local_ports.len()]
            .into_iter()
            .fold(1, usize::saturating_mul);
        if count > MAX_FILTERS {
            return Err(CompileError::TooMany(count));
        }
        for remote in &remotes {
            for local in &locals {
                for r in &remote_ports {
                    for l in &local_ports {
                        let one = One { sdf, flow, tos, remote, local, remote_ports: *r, local_ports: *l };
                        if ipv4 { filters.v4.push(one.filter4()) } else { filters.v6.push(one.filter6()) }
                    }
                }
            }
        }
    }
    Ok(filters)
}

/// Ports sorted, with ranges that touch made one; where none are written, all of them.
fn merged(end: &End) -> Vec<Ports> {
    let mut sorted = end.ports.clone();
    sorted.sort_unstable();
    let mut out: Vec<Ports> = Vec::new();
    for next in sorted {
        match out.last_mut() {
            Some(last) if next.lo <= last.hi.saturating_add(1) => last.hi = last.hi.max(next.hi),
            _ => out.push(next),
        }
    }
    if out.is_empty() {
        out.push(Ports { lo: 0, hi: u16::MAX });
    }
    out
}

/// A prefix's bits at the top of 128, its length, and whether all others are meant.
struct Place {
    bits: u128,
    len: u8,
    inverted: bool,
}

impl Place {
    const ANYWHERE: Place = Place { bits: 0, len: 0, inverted: false };

    fn of(prefix: &Prefix, inverted: bool) -> Place {
        let bits = match prefix.address {
            IpAddr::V4(a) => u128::from(a.to_bits()) << 96,
            IpAddr::V6(a) => a.to_bits(),
        };
        let len = prefix.len.min(Prefix::bits(prefix.address));
        Place { bits: bits & mask(len), len, inverted }
    }
}

/// The first `len` of 128 bits.
fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0)
}

/// The alternatives an address expression has within one family; none if it is of the other.
fn addresses(address: &Address, ipv4: bool, ue: &UeAddresses) -> Vec<Place> {
    let fits = |prefix: &&Prefix| prefix.address.is_ipv4() == ipv4;
    match address {
        Address::Any => vec![Place::ANYWHERE],
        Address::Assigned if ue.prefixes.is_empty() => vec![Place::ANYWHERE],
        Address::Assigned => ue.prefixes.iter().filter(fits).map(|p| Place::of(p, false)).collect(),
        Address::In(prefix) => Some(prefix).filter(fits).map(|p| Place::of(p, false)).into_iter().collect(),
        Address::NotIn(prefix) => Some(prefix).filter(fits).map(|p| Place::of(p, true)).into_iter().collect(),
    }
}

/// One alternative of a rule.
struct One<'a> {
    sdf: &'a Sdf,
    flow: &'a FlowDescription,
    tos: Tos,
    remote: &'a Place,
    local: &'a Place,
    remote_ports: Ports,
    local_ports: Ports,
}

impl One<'_> {
    /// The state wanted: ports known if the rule names any, a later fragment, IPsec.
    fn state(&self) -> u8 {
        let ports = !self.flow.from.ports.is_empty() || !self.flow.to.ports.is_empty();
        bit(ports, state::PORTS)
            | bit(self.flow.later_fragments, state::LATER_FRAGMENT)
            | bit(self.sdf.spi.is_some(), state::SPI)
    }

    fn ports(&self) -> Ranges {
        if let Some(spi) = self.sdf.spi {
            let [remote_lo, local_lo] = halves(spi);
            return Ranges { remote_lo, remote_span: 0, local_lo, local_span: 0 };
        }
        let span = |ports: &Ports| ports.hi.wrapping_sub(ports.lo);
        Ranges {
            remote_lo: self.remote_ports.lo,
            remote_span: span(&self.remote_ports),
            local_lo: self.local_ports.lo,
            local_span: span(&self.local_ports),
        }
    }

    /// The traits and which of their bits count.
    fn traits(&self) -> (Traits, Traits) {
        let (protocol, state) = (self.flow.protocol, self.state());
        let inverted = inverted(self.remote.inverted, self.local.inverted);
        let traits = Traits { protocol: protocol.unwrap_or(0), tos: self.tos.value & self.tos.mask, state, inverted };
        let protocol = if protocol.is_some() { 0xff } else { 0 };
        (traits, Traits { protocol, tos: self.tos.mask, state, inverted: 0 })
    }

    fn filter4(&self) -> Filter4 {
        let high = |bits: u128| (bits >> 96) as u32; // an IPv4 prefix is in the top 32 bits
        let (traits, traits_mask) = self.traits();
        Filter4 {
            remote: high(self.remote.bits),
            traits,
            remote_mask: high(mask(self.remote.len)),
            traits_mask,
            ports: self.ports(),
            local: high(self.local.bits),
            local_mask: high(mask(self.local.len)),
        }
    }

    fn filter6(&self) -> Filter6 {
        let halves = |bits: u128| [(bits >> 64) as u64, bits as u64];
        let (traits, traits_mask) = self.traits();
        Filter6 {
            remote: halves(self.remote.bits),
            local: halves(self.local.bits),
            ports: self.ports(),
            traits,
            traits_mask,
            remote_len: self.remote.len,
            local_len: self.local.len,
            flow_label: self.sdf.flow_label.unwrap_or(0) & FLOW_LABEL,
            flow_label_mask: if self.sdf.flow_label.is_some() { FLOW_LABEL } else { 0 },
            ..Filter6::ANY
        }
    }
}
