//! A subscriber's record → what the program in the kernel has of it.

use std::fmt;

use gateway::fast_path::{KEY_OWN, NUMBER_BITS, Offset, bucket_to_kernel};
use table::bucket;
use wire::{Outer, ethertype};

use super::FastPath;
use super::record::{KEY_SHARED, Lane, Session, flag};
use crate::config::{GroupPlan, ProfilePlan};
use crate::link::Line;
use crate::record::{Head, Meter, NO_PREFIX, flags};

/// Why a subscriber is not in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NotEligible {
    NoRoom,
    Shaped,
    Garden,
    NoAddress,
    NoMac,
    AccessList,
    PrefixLength,
    Rate,
    Port,
    InstanceRoutes,
    Header,
    Moves,
}

impl fmt::Display for NotEligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "no room for it in the in-kernel path, or another subscriber's key is equal",
            Self::Shaped => "its tier is shaped",
            Self::Garden => "its tier has a walled garden",
            Self::NoAddress => "it has no address",
            Self::NoMac => "its hardware address is not known yet",
            Self::AccessList => "an access list has more than 16 rules",
            Self::PrefixLength => "its IPv6 prefix has a length that is none of the first 4 there are",
            Self::Rate => "a rate below 1 kbit/s",
            Self::Port => "its port has no fast_path",
            Self::InstanceRoutes => "its VRF has more than 16 routes of IPv4 or of IPv6",
            Self::Header => "its link header has a tag of another type than 0x8100, 0x88a8, 0x9100",
            Self::Moves => "its group moves between workers",
        })
    }
}

/// Types of tags that have a number in the program's records, and that of a tag that is not there.
const TAGS: [u16; 3] = [ethertype::VLAN, ethertype::SERVICE_VLAN, 0x9100];
const NO_TAG: u8 = 3;

/// A line as one number: the port, the outer VLAN, the inner one.
fn line_number(line: Line) -> u32 {
    u32::from(line.port) << 24 | u32::from(line.s_vlan) << 12 | u32::from(line.c_vlan)
}

/// A line as a key of the program's index.
pub(crate) fn line_key(line: Line) -> u64 {
    KEY_OWN | u64::from(line_number(line)) << NUMBER_BITS
}

/// The key of a line of a shared VLAN pair (N:1).
pub(crate) fn shared_key(line: Line, mac: [u8; 6], seed: u64) -> u64 {
    let [a, b, c, d, e, f] = mac;
    let mac = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    let line = u64::from(line_number(line)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mac.wrapping_add(line).wrapping_mul(seed);
    KEY_OWN | KEY_SHARED | mixed >> 27 << NUMBER_BITS
}

/// How many tags a link header has, and the numbers of their types; none: one that has none.
fn tags_of(link: &[u8], tags: u8) -> Option<u8> {
    let number = |at: usize| {
        let kind = wire::fast::be16(link, at)?;
        TAGS.iter().position(|known| *known == kind).map(|number| number as u8)
    };
    let outer = if tags > 0 { number(12)? } else { NO_TAG };
    let inner = if tags > 1 { number(16)? } else { NO_TAG };
    Some(tags | outer << 2 | inner << 4)
}

/// Eight numbers of `bits` bits each, the first lowest.
fn packed(numbers: [u8; 8], bits: u32) -> u64 {
    numbers.iter().rev().fold(0, |packed, number| packed << bits | u64::from(*number) & ((1 << bits) - 1))
}

/// What the program has of a subscriber: of its head, its group and profile, and its meters, downstream first.
///
/// # Errors
/// Why it can't be in the kernel.
pub fn compile(
    head: &Head,
    (group, profile): (&GroupPlan, &ProfilePlan),
    [down, up]: [&Meter; 2],
    worker: u16,
    (path, offset): (&FastPath, Offset),
) -> Result<Session, NotEligible> {
    let has6 = head.wan != NO_PREFIX || head.pd != NO_PREFIX;
    let lengths = [(head.wan, 64), (head.pd, head.pd_len)];
    let refused = [
        (head.flags & flags::SHAPED != 0, NotEligible::Shaped),
        (profile.garden.is_some(), NotEligible::Garden),
        (head.ipv4 == 0 && !has6, NotEligible::NoAddress),
        (!path.has_egress(head.port), NotEligible::Port),
        (head.acl.iter().any(|list| !path.has_list(*list)), NotEligible::AccessList),
        (lengths.iter().any(|(upper, len)| *upper != NO_PREFIX && !path.has_length(*len)), NotEligible::PrefixLength),
        (head.ipv4 != 0 && !path.has_routes(head.instance), NotEligible::InstanceRoutes),
        (has6 && !path.has_routes6(head.instance), NotEligible::InstanceRoutes),
        (head.flags & flags::NO_MAC != 0, NotEligible::NoMac),
    ];
    if let Some((_, why)) = refused.into_iter().find(|(is, _)| *is) {
        return Err(why);
    }
    let link = head.link.get(..head.link_len.into()).unwrap_or_default();
    let outer = Outer::parse(link).map_err(|_| NotEligible::Header)?;
    let line = Line::of(head.port, &outer);
    let tags = tags_of(link, outer.tags).ok_or(NotEligible::Header)?;
    let [to, from] = [0, 6].map(|at| wire::fast::array(link, at).unwrap_or_default());
    let is_metered = |meter: &Meter| meter.rate.rate != bucket::Rate::UNLIMITED;
    let flags = [
        (head.flags & flags::LEARNT != 0, flag::LEARNT),
        (group.shared, flag::SHARED_LINE),
        (is_metered(down), flag::METERED_DOWN),
        (is_metered(up), flag::METERED_UP),
        (profile.dscp.is_some(), flag::MARKED),
    ];
    let cell = |meter: &Meter| bucket_to_kernel(&meter.rate, &meter.bucket, offset).ok_or(NotEligible::Rate);
    let last = up.bucket.last_ns.saturating_add_signed(offset);
    Ok(Session {
        state: 0,
        ipv4: head.ipv4,
        wan: head.wan,
        pd: head.pd,
        line: line_number(line),
        mtu: head.mtu,
        worker,
        to,
        from,
        acl: head.acl,
        dscp: packed(profile.dscp.unwrap_or_default(), 6),
        classes: packed(profile.pcp, 3) as u32 | u32::from(head.pd_len) << 24,
        flags: flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum(),
        overhead: head.overhead,
        instance: u8::try_from(head.instance).map_err(|_| NotEligible::InstanceRoutes)?,
        tags,
        down: Lane::new(cell(down)?, last),
        up: Lane::new(cell(up)?, last),
    })
}
