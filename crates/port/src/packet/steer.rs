//! Which worker a subscriber's packets go to: a table of address ranges, and the kernel program made of it.
//!
//! The program is classic BPF, as PACKET_FANOUT takes it: no map, no loader, no capability beyond the socket's.
//! Offsets count from the L3 header. It looks through up to two further VLAN tags (the kernel has taken the outer one
//! off), IPv4 options, and the gateway's tunnel over IPv4 or IPv6, if it has one: a [`SteerSpec`]. What belongs to no
//! subscriber (ARP, a tunnel's own messages, whatever is cut short) goes to member 0.
//!
//! A later fragment of an outer packet shows no inner address; it goes by the outer addresses, and the worker hands it
//! over.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::sock_filter;

use super::cbpf::{Assembler, Label, Next};
use crate::PortError;

/// Where the packet within a tunnel's begins, in terms from which programs in the kernel are made. Offsets are in bytes from
/// the UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteerSpec {
    /// The UDP port that the tunnel's packets are sent to.
    pub udp_port: u16,
    /// Offset and value of the byte that says a packet is within. With another value it is no subscriber's.
    pub carries: (u8, u8),
    /// Offset of the byte of flags.
    pub flags: u8,
    /// Flags, and where the packet within begins if none of them is set.
    pub short: (u8, u8),
    /// Else: flags, and where it begins if none of these is set.
    pub long: (u8, u8),
    /// Else it begins behind extension headers. Each ends with the type of the next, 0 for none.
    pub extensions: SteerExtensions,
}

/// A chain of extension headers, whose first byte is their length in units of four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SteerExtensions {
    /// Offset of the type of the first.
    pub first: u8,
    /// How many the program looks behind; what has more is no subscriber's.
    pub most: u8,
}

/// Which address is the subscriber's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// The inner source inside a tunnel (access side), else the destination (core side).
    #[default]
    Auto,
    /// The source, inside a tunnel or not: the access side of a gateway for bare IP.
    Source,
    /// The destination, inside a tunnel or not: the core side of a gateway that sends tunnels on.
    Destination,
}

/// Who owns which subscribers: ranges of IPv4 addresses and of IPv6 /64 prefixes, each one member's; addresses in no
/// range are spread by a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steer {
    /// Disjoint, in order: first, last, member.
    ranges: [Vec<(u64, u64, u16)>; 2],
    tunnel: Option<SteerSpec>,
}

const HASH_HIGH: u32 = 0x85eb_ca6b;
const HASH: u32 = 0x9e37_79b1;

impl Steer {
    /// Nobody owns anything: the hash decides.
    pub fn new() -> Self {
        Self::default()
    }

    /// Subscribers' packets may be within such a tunnel's.
    #[must_use]
    pub fn within(self, tunnel: SteerSpec) -> Self {
        Self { tunnel: Some(tunnel), ..self }
    }

    /// Gives `first` to `last` to a member. IPv6 addresses count by their /64.
    ///
    /// # Errors
    /// [`PortError::BadValue`] when the range is upside down, of two families, or overlaps one given before.
    pub fn give(&mut self, first: IpAddr, last: IpAddr, member: u16) -> Result<(), PortError> {
        let (family, from) = split(first);
        let (other, to) = split(last);
        let ranges = &mut self.ranges[family];
        let at = ranges.partition_point(|range| range.1 < from);
        if family != other || to < from || ranges.get(at).is_some_and(|range| range.0 <= to) {
            let value = format!("{first}–{last}");
            let want = "ranges of one family, low to high, that do not overlap (IPv6 by /64)".to_owned();
            return Err(PortError::BadValue { key: "steer".to_owned(), value, want });
        }
        ranges.insert(at, (from, to, member));
        Ok(())
    }

    /// Whose an address is, among that many members: the same answer the kernel program gives.
    pub fn member_of(&self, address: IpAddr, members: u16) -> u16 {
        let (family, number) = split(address);
        let ranges = &self.ranges[family];
        let at = ranges.partition_point(|range| range.1 < number);
        let member = match ranges.get(at) {
            Some(range) if range.0 <= number => u32::from(range.2),
            _ => hash(number) % u32::from(members),
        };
        // Below `members`, which is a u16, or a u16 before.
        (member % u32::from(members)) as u16
    }

    /// The program as the kernel is given it: code, jump if true, jump if false, operand.
    ///
    /// # Errors
    /// [`PortError::Unsupported`]: there are more ranges than a program can hold.
    pub fn listing(&self, members: u16, look: Look) -> Result<Vec<(u16, u8, u8, u32)>, PortError> {
        Ok(self.program(members, look)?.into_iter().map(|at| (at.code, at.jt, at.jf, at.k)).collect())
    }

    /// The program that answers with the member's number.
    pub(super) fn program(&self, members: u16, look: Look) -> Result<Vec<sock_filter>, PortError> {
        let mut a = Assembler::new();
        let [v4, v6, zero] = [a.label(), a.label(), a.label()];
        let steers = [a.label(), a.label()];
        headers(&mut a, look, self.tunnel, [v4, v6], steers, zero);
        // IPv6 first: the kernel's check of scratch words takes a return for a way on, and IPv4 has stored none.
        for (family, steer) in steers.into_iter().enumerate().rev() {
            a.here(steer);
            let hashed = a.label();
            tree(&mut a, family, &self.leaves(family, members), hashed);
            a.here(hashed);
            // A is the low word.
            if family == 1 {
                a.recall(HIGH).multiply(HASH_HIGH).x_is_a().recall(LOW).xor_x();
            }
            a.multiply(HASH).shift_right(16).modulo(members.into()).give_a();
        }
        a.here(zero);
        a.give(0);
        a.finish().ok_or_else(|| PortError::Unsupported {
            what: "a fanout program for that many ranges of subscribers".to_owned(),
            advice: "give each member fewer, larger ranges".to_owned(),
        })
    }

    /// The whole number line as (start, member or none for the hash).
    fn leaves(&self, family: usize, members: u16) -> Vec<(u64, Option<u16>)> {
        let mut leaves = Vec::new();
        let mut next = Some(0);
        for (first, last, member) in &self.ranges[family] {
            if next != Some(*first) {
                leaves.extend(next.map(|start| (start, None)));
            }
            leaves.push((*first, Some(member % members)));
            next = last.checked_add(1);
        }
        let end = if family == 0 { u64::from(u32::MAX) } else { u64::MAX };
        leaves.extend(next.filter(|start| *start <= end).map(|start| (start, None)));
        leaves
    }
}

fn split(address: IpAddr) -> (usize, u64) {
    match address {
        IpAddr::V4(v4) => (0, Ipv4Addr::to_bits(v4).into()),
        IpAddr::V6(v6) => (1, (Ipv6Addr::to_bits(v6) >> 64) as u64),
    }
}

/// An IPv4 address is its own low word, with no high word.
fn hash(number: u64) -> u32 {
    let (high, low) = ((number >> 32) as u32, number as u32);
    (high.wrapping_mul(HASH_HIGH) ^ low).wrapping_mul(HASH) >> 16
}

/// Scratch words of the program: where the network header starts, and the two words of an IPv6 prefix.
const START: u32 = 0;
const HIGH: u32 = 1;
const LOW: u32 = 2;

const UDP: u32 = 17;

/// Finds the subscriber's address, loads it (IPv4 into A; IPv6 prefix into HIGH and LOW) and goes to `steers`.
fn headers(
    a: &mut Assembler,
    look: Look,
    tunnel: Option<SteerSpec>,
    [v4, v6]: [Label; 2],
    steers: [Label; 2],
    zero: Label,
) {
    let [plain4, plain6, within] = [a.label(), a.label(), a.label()];
    a.protocol().x(0);
    for tag in 0..2 {
        let [tagged, done] = [a.label(), a.label()];
        for tpid in [0x8100, 0x88a8] {
            a.equal(tpid, tagged);
        }
        a.jump(done).here(tagged);
        a.x(tag * 4 + 2).half(0).x(tag * 4 + 4).here(done);
    }
    a.keep_x(START).equal(0x0800, v4).equal(0x86dd, v6).jump(zero);

    a.here(v4);
    if let Some(tunnel) = tunnel {
        a.byte(9).other(UDP, plain4).half(6).any(0x1fff, plain4);
        a.byte(0).and(0x0f).shift_left(2).add_x().x_is_a().half(2).equal(tunnel.udp_port.into(), within);
    }
    a.here(plain4).x_from(START).word(if look == Look::Source { 12 } else { 16 }).jump(steers[0]);

    a.here(v6);
    if let Some(tunnel) = tunnel {
        a.byte(6).other(UDP, plain6).step(40).half(2).equal(tunnel.udp_port.into(), within);
    }
    a.here(plain6).x_from(START);
    prefix(a, if look == Look::Source { 8 } else { 24 });
    a.jump(steers[1]);

    let Some(tunnel) = tunnel else { return };
    let inner = a.label();
    a.here(within);
    skip(a, tunnel, inner, zero);
    let [inner4, inner6] = [a.label(), a.label()];
    a.here(inner).byte(0).and(0xf0).equal(0x40, inner4).equal(0x60, inner6).jump(zero);
    let destination = look == Look::Destination;
    a.here(inner4).word(if destination { 16 } else { 12 }).jump(steers[0]);
    a.here(inner6);
    prefix(a, if destination { 24 } else { 8 });
    a.jump(steers[1]);
}

/// From the UDP header, at X, to the packet within a tunnel's; what has none goes to `zero`.
fn skip(a: &mut Assembler, tunnel: SteerSpec, inner: Label, zero: Label) {
    let SteerSpec { carries: (at, value), flags, short, long: (more_flags, long), extensions, .. } = tunnel;
    let [longer, extended] = [a.label(), a.label()];
    a.byte(at.into()).other(value.into(), zero).byte(flags.into());
    a.any(short.0.into(), longer).step(short.1.into()).jump(inner);
    a.here(longer).any(more_flags.into(), extended).step(long.into()).jump(inner);
    a.here(extended).step(extensions.first.into());
    for _ in 0..extensions.most {
        let more = a.label();
        a.byte(0).other(0, more).step(1).jump(inner);
        a.here(more).byte(1).equal(0, zero).shift_left(2).add_x().x_is_a();
    }
    a.byte(0).other(0, zero).step(1);
}

fn prefix(a: &mut Assembler, at: u32) {
    a.word(at).keep(HIGH).word(at + 4).keep(LOW);
}

/// A search tree over the leaves.
fn tree(a: &mut Assembler, family: usize, leaves: &[(u64, Option<u16>)], hashed: Label) {
    if let [(_, member)] = leaves {
        match member {
            Some(member) => a.give((*member).into()),
            None => a.jump(hashed),
        };
        return;
    }
    let (left, right) = leaves.split_at(leaves.len() / 2);
    let pivot = right[0].0;
    let (high, low) = ((pivot >> 32) as u32, pivot as u32);
    let upper = a.label();
    if family == 0 {
        a.least(low, upper);
    } else {
        let lower = a.label();
        a.recall(HIGH).compare(Next::Above(high), upper).other(high, lower).recall(LOW).least(low, upper).here(lower);
    }
    tree(a, family, left, hashed);
    a.here(upper);
    tree(a, family, right, hashed);
}

#[cfg(test)]
#[path = "steer_tests.rs"]
mod tests;
