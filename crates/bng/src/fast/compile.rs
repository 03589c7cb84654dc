//! A subscriber's record → what the program in the kernel has of it.

use std::fmt;

use gateway::fast_path::{Offset, bucket_to_kernel};
use table::bucket;
use wire::Outer;

use super::FastPath;
use super::record::{self, KEY_LINE, Passed, Session, flag};
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
    Moves,
}

impl fmt::Display for NotEligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "no room among the subscribers of the in-kernel path",
            Self::Shaped => "its tier is shaped",
            Self::Garden => "its tier has a walled garden",
            Self::NoAddress => "it has no address",
            Self::NoMac => "its hardware address is not known yet",
            Self::AccessList => "an access list has more than 16 rules",
            Self::PrefixLength => "its IPv6 prefix has a length that is none of the first 4 there are",
            Self::Rate => "a rate below 1 kbit/s",
            Self::Port => "its port has no fast_path",
            Self::InstanceRoutes => "its VRF has more than 16 routes of IPv4 or of IPv6",
            Self::Moves => "its group moves between workers",
        })
    }
}

/// A line as a key of the program's index.
pub(crate) fn line_key(line: Line) -> u64 {
    KEY_LINE | u64::from(line.port) << 24 | u64::from(line.s_vlan) << 12 | u64::from(line.c_vlan)
}

/// The key of a line of a shared VLAN pair (N:1).
pub(crate) fn shared_key(line: Line, mac: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = mac;
    let mac = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    let line = line_key(line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = mac.wrapping_add(line).wrapping_mul(0xd6e8_feb8_6659_fd93);
    KEY_LINE | mixed ^ mixed >> 32
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
    let outer = head.link.get(..head.link_len.into()).and_then(|link| Outer::parse(link).ok());
    let line = Line::of(head.port, &outer.ok_or(NotEligible::NoRoom)?);
    let is_metered = |meter: &Meter| meter.rate.rate != bucket::Rate::UNLIMITED;
    let flags = [
        (head.flags & flags::LEARNT != 0, flag::LEARNT),
        (group.shared, flag::SHARED_LINE),
        (is_metered(down), flag::METERED_DOWN),
        (is_metered(up), flag::METERED_UP),
    ];
    let cell = |meter: &Meter| bucket_to_kernel(&meter.rate, &meter.bucket, offset).ok_or(NotEligible::Rate);
    Ok(Session {
        state: 0,
        ipv4: head.ipv4,
        handle: head.handle,
        instance: head.instance,
        worker,
        line: line_key(line),
        wan: head.wan,
        pd: head.pd,
        pd_mask: u64::MAX << (64 - u32::from(head.pd_len)).min(63),
        mtu: head.mtu,
        acl: head.acl,
        overhead: head.overhead,
        flags: flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum(),
        port: head.port,
        len: head.link_len,
        spare: [0; 6],
        link: head.link,
        spare2: [0; 2],
        pcp: profile.pcp.map(|pcp| pcp << 5),
        dscp: profile.dscp.unwrap_or([record::NONE8; 8]),
        last: up.bucket.last_ns.saturating_add_signed(offset),
        spare3: [0; 16],
        down: cell(down)?,
        up: cell(up)?,
        down_passed: Passed::NONE,
        up_passed: Passed::NONE,
    })
}
