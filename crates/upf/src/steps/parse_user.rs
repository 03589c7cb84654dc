//! The subscriber's own packet.

use dataplane::forward::{PortView, is_martian4, is_martian6};
use dataplane::parse::{self, HasIp, Usual, malformed};
use engine::{At, Burst, Ctx, Stage};
use frame::Arena;
use table::bulk::{BulkMap, Hash};
use wire::L3L4;

use crate::lane::Upf;
use crate::record::NONE8;
use crate::sessions::Sessions;
use crate::{drops, punts};

/// Reads the headers of the packet inside a tunnel. The records' lines arrive meanwhile.
#[derive(Default)]
pub struct ParseUser;

impl Stage<Upf> for ParseUser {
    const NAME: &'static str = "parse_user";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let (frame, lane) = burst.parts(i);
            let l3 = frame.meta.l3;
            let ip = lane.ip_mut(i);
            if arena.bytes(frame).get(usize::from(l3)..).is_some_and(|packet| ip.read_usual(packet)) {
                // What stands behind the packet in its tunnel is no part of it; the length was checked to fit.
                let _ = frame.truncate(end(ip, l3));
            } else {
                parse_any(burst, i, arena, at);
            }
        }
    }
}

/// Where a packet with these headers ends in its frame.
#[inline(always)]
fn end(ip: &L3L4, l3: u16) -> u16 {
    l3 + ip.total_len as u16 // fits: checked against the frame's length, which is a u16
}

/// Any packet. Apart, so that the usual one has the registers to itself.
#[inline(never)]
fn parse_any(burst: &mut Burst<Upf>, i: usize, arena: &Arena, at: At<'_>) {
    let l3 = burst.frame(i).meta.l3;
    match L3L4::parse(burst.bytes(i, arena).get(usize::from(l3)..).unwrap_or_default()) {
        Ok(ip) => {
            *burst.lane.ip_mut(i) = ip;
            let _ = burst.frame_mut(i).truncate(end(&ip, l3));
        }
        Err(why) => burst.drop(i, malformed(why), at),
    }
}

/// Reads a packet from the core: link header, then IP; asks for the subscriber's place in the index.
#[derive(Default)]
pub struct ParsePlain;

impl Stage<Upf> for ParsePlain {
    const NAME: &'static str = "parse_plain";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let live = burst.live();
        let Some(first) = live.into_iter().next() else { return };
        // A burst is of one port.
        let port = cx.state.port(burst.frame(first).meta.port);
        let known = Usual::new(port);
        let sessions = &cx.state.sessions;
        burst.lane.instance.fill(port.instance);
        burst.lane.teid.fill(0);
        burst.lane.qfi.fill(NONE8);
        for i in live {
            let (frame, lane) = burst.parts(i);
            let (bytes, ip) = (arena.bytes(frame), lane.ip_mut(i));
            let read = known.is_link(bytes) && bytes.get(Usual::L3..).is_some_and(|packet| ip.read_usual(packet));
            if read && !known.is_mine(ip.dst) && !is_martian4(ip.src) {
                frame.meta.l3 = Usual::L3 as u16;
                // The link may have padded.
                let _ = frame.truncate(end(ip, Usual::L3 as u16));
            } else {
                any(burst, i, port, sessions, arena, at);
            }
        }
        if let Some(index) = sessions.index4(port.instance) {
            ask(burst, index);
        }
    }
}

/// Asks for the places of IPv4 destinations in the index. A loop of its own: parsing and hashing in one need more
/// registers than there are.
#[inline(always)]
fn ask(burst: &mut Burst<Upf>, index: &BulkMap<u32, u32>) {
    for i in burst.live() {
        let ip = burst.lane.ip(i);
        if ip.version == 4 {
            burst.lane.hash[i] = index.prefetch(ip.dst);
        }
    }
}

/// Any frame.
#[inline(never)]
fn any(burst: &mut Burst<Upf>, i: usize, port: &PortView, sessions: &Sessions, arena: &Arena, at: At<'_>) {
    let bytes = burst.bytes(i, arena);
    let (l3, ip) = match parse::ip(bytes, parse::link(bytes, port), port) {
        Ok(found) => found,
        Err(other) => return other.leave(burst, i, at),
    };
    let packet = &bytes[usize::from(l3)..];
    let (ours, stays_here, martian, hash) = match ip.version {
        4 => {
            let ours = port.is_mine4(ip.dst);
            (ours, ours || ip.dst >= 0xe000_0000, is_martian4(ip.src), Hash::default())
        }
        _ => {
            let (to, ours) = (ip.dst6(packet), port.is_mine6(ip.dst6(packet)));
            // Neighbour discovery speaks to multicast and link-local addresses; neither is forwarded.
            let stays_here = ours || is_martian6(to);
            let hash = sessions.prefetch_v6(port.instance, (to >> 64) as u64);
            (ours, stays_here, is_martian6(ip.src6(packet)), hash)
        }
    };
    let local = if stays_here && parse::is_routing(&ip, packet, port, ours) {
        Some(Ok(punts::ROUTING))
    } else if stays_here {
        Some(crate::local::classify(&ip, ours, false, packet, port))
    } else {
        martian.then_some(Err(drops::MARTIAN_SOURCE))
    };
    burst.lane.hash[i] = hash;
    *burst.lane.ip_mut(i) = ip;
    let frame = burst.frame_mut(i);
    frame.meta.l3 = l3;
    let _ = frame.truncate(end(&ip, l3));
    match local {
        None => {}
        Some(Ok(punt)) => burst.punt(i, punt),
        Some(Err(reason)) => burst.drop(i, reason, at),
    }
}
