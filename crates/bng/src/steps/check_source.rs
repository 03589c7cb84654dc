//! Is a packet of the subscriber whose line it came by?

use dataplane::forward::NONE;
use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use frame::Arena;
use wire::{L3L4, fast};

use crate::drops;
use crate::lane::Bng;
use crate::record::{Head, flags};

/// Drops packets whose hardware address, IPv4 address or IPv6 prefix is not their line's subscriber's (TR-101, 5.7; RFC
/// 2827), and keeps the tag types that were received for the way back.
#[derive(Default)]
pub struct CheckSource;

/// Where tags begin.
const TAGS: usize = 12;

impl Stage<Bng> for CheckSource {
    const NAME: &'static str = "check_source";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        let state = &mut *cx.state;
        for i in burst.live() {
            let Some(head) = state.subscribers.head_mut(burst.lane.record[i]) else {
                burst.drop(i, drops::UNKNOWN_LINE, at);
                continue;
            };
            if !has_source(burst, i, head, arena) {
                burst.drop(i, drops::SPOOFED_SOURCE, at);
                continue;
            }
            let bytes = burst.bytes(i, arena);
            let same = source(bytes, 6) == source(&head.link, 0);
            if !same && (head.flags & flags::NO_MAC == 0 || !is_station(bytes)) {
                burst.drop(i, drops::SPOOFED_SOURCE, at);
                continue;
            }
            // Identifiers led here; what may differ is types.
            if !same || (types(bytes) ^ types(&head.link)) & mask(head.link_len) != 0 {
                state.counts.learnt += u64::from(learn(bytes, head));
            }
            let lane = &mut burst.lane;
            (lane.instance[i], lane.overhead[i], lane.hop[i]) = (head.instance, head.overhead, NONE);
        }
    }
}

/// The hardware address at an offset, as a number.
#[inline(always)]
fn source(bytes: &[u8], at: usize) -> Option<u64> {
    fast::be64(bytes, at).map(|word| word >> 16)
}

/// Whether the source address is one that a host can have: neither zero nor of a group.
fn is_station(bytes: &[u8]) -> bool {
    source(bytes, 6).is_some_and(|mac| mac != 0 && mac >> 40 & 1 == 0)
}

/// Two tags, or what is there instead, as a number.
#[inline(always)]
fn types(bytes: &[u8]) -> u64 {
    fast::be64(bytes, TAGS).unwrap_or(0)
}

/// The bits of [`types`] that are the types of tags, with a link header of that length.
#[inline(always)]
const fn mask(link_len: u8) -> u64 {
    match link_len {
        22 => 0xffff_0000_ffff_0000,
        18 => 0xffff_0000_0000_0000,
        _ => 0,
    }
}

#[inline(always)]
fn has_source(burst: &Burst<Bng>, i: usize, head: &Head, arena: &Arena) -> bool {
    let ip = burst.lane.ip(i);
    if ip.version == 4 {
        return ip.src == head.ipv4;
    }
    let from = usize::from(burst.frame(i).meta.l3) + L3L4::V6_SRC;
    fast::be64(burst.bytes(i, arena), from).is_some_and(|upper| head.has6(upper))
}

/// Takes the hardware address and the tag types of a frame for the way back. Returns whether the address was not known.
#[cold]
pub fn learn(bytes: &[u8], head: &mut Head) -> bool {
    let is_new = head.flags & flags::NO_MAC != 0;
    if is_new && let Some(mac) = fast::array::<6>(bytes, 6) {
        head.link[..6].copy_from_slice(&mac);
        head.flags &= !flags::NO_MAC;
    }
    for at in [TAGS, TAGS + 4].into_iter().take((usize::from(head.link_len) - 14) / 4) {
        if let Some(kind) = fast::be16(bytes, at) {
            let _ = fast::put16(&mut head.link, at, kind);
        }
    }
    is_new
}
