//! Is a packet of the subscriber whose line it came by?

use dataplane::forward::NONE;
use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use frame::Arena;
use table::records::LineId;
use wire::{L3L4, fast};

use crate::drops;
use crate::lane::{Bng, State};
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
        let (at, arena, now) = (cx.at(), cx.env.arena(), cx.env.now);
        let state = &mut *cx.state;
        for i in burst.live() {
            let record = burst.lane.record[i];
            let Some(head) = state.subscribers.head(record) else {
                burst.drop(i, drops::UNKNOWN_LINE, at);
                continue;
            };
            if !has_source(burst, i, head, arena) {
                burst.drop(i, drops::SPOOFED_SOURCE, at);
                continue;
            }
            let bytes = burst.bytes(i, arena);
            let (instance, overhead) = (head.instance, head.overhead);
            let same = source(bytes, 6) == source(&head.link, 0);
            // Identifiers led here; what may differ is types.
            let differs = !same || (types(bytes) ^ types(&head.link)) & mask(head.link_len) != 0;
            if differs && !take_on(state, record, bytes, now) {
                burst.drop(i, drops::SPOOFED_SOURCE, at);
                continue;
            }
            let lane = &mut burst.lane;
            (lane.instance[i], lane.overhead[i], lane.hop[i]) = (instance, overhead, NONE);
        }
    }
}

/// A learnt hardware address that nothing came from for so long gives way to another: the subscriber has another device.
pub const MOVE_AFTER: u64 = 30_000_000_000;

/// Takes what differs in a frame from the subscriber's own address for the way back. False: its hardware address is
/// another's.
#[cold]
fn take_on(state: &mut State, record: LineId, bytes: &[u8], now: u64) -> bool {
    // What it has changed is the worker's.
    state.subscribers.take_back(record);
    let idle = state.subscribers.is_idle(record, now);
    let Some(head) = state.subscribers.head_mut(record) else { return false };
    if source(bytes, 6) != source(&head.link, 0) {
        if !is_station(bytes) || !(head.flags & flags::NO_MAC != 0 || may_move(head, idle)) {
            return false;
        }
        forget(head);
    }
    if learn(bytes, head) {
        state.counts.learnt += 1;
        state.subscribers.link_changed(record);
    }
    true
}

/// Whether a subscriber's hardware address may give way to another: it was learnt, and nothing came from it for
/// [`MOVE_AFTER`].
pub fn may_move(head: &Head, idle: bool) -> bool {
    head.flags & flags::LEARNT != 0 && idle
}

/// Forgets a learnt hardware address. A configured one stays.
pub fn forget(head: &mut Head) {
    if head.flags & flags::LEARNT != 0 {
        head.flags = head.flags & !flags::LEARNT | flags::NO_MAC;
        head.link[..6].fill(0);
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
        head.flags = head.flags & !flags::NO_MAC | flags::LEARNT;
    }
    for at in [TAGS, TAGS + 4].into_iter().take((usize::from(head.link_len) - 14) / 4) {
        if let Some(kind) = fast::be16(bytes, at) {
            let _ = fast::put16(&mut head.link, at, kind);
        }
    }
    is_new
}
