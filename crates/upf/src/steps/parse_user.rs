//! The subscriber's own packet.

use engine::{At, Burst, Ctx, Drop, Punt, Stage};
use frame::Arena;
use stages::forward::PortView;
use stages::parse::{HasIp, Usual, link, malformed};
use table::bulk::Hash;
use wire::{L3L4, Malformed, ethertype};

use crate::lane::Upf;
use crate::record::{self, NONE8};
use crate::sessions::Sessions;

/// Reads the headers of the packet inside a tunnel. The records' lines arrive meanwhile.
pub struct ParseUser;

impl Stage<Upf> for ParseUser {
    const NAME: &'static str = "parse_user";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let l3 = burst.frame(i).meta.l3;
            let bytes = burst.bytes(i, arena);
            let ip = match bytes.get(usize::from(l3)..).and_then(L3L4::usual) {
                Some(ip) => ip,
                None => match any(bytes, l3) {
                    Ok(ip) => ip,
                    Err(why) => {
                        burst.drop(i, malformed(why), at);
                        continue;
                    }
                },
            };
            // What stands behind the packet in its tunnel is no part of it; the length was checked to fit.
            let _ = burst.frame_mut(i).truncate(l3 + ip.total_len as u16);
            *burst.lane.ip_mut(i) = ip;
            cx.state.sessions.prefetch_line(burst.lane.session[i], record::FILTERS);
        }
    }
}

/// Any packet. Apart, so that the usual one has the registers to itself.
#[inline(never)]
fn any(bytes: &[u8], l3: u16) -> Result<L3L4, Malformed> {
    L3L4::parse(bytes.get(usize::from(l3)..).unwrap_or_default())
}

/// Reads a packet from the core: link header, then IP; asks for the subscriber's place in the index.
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
        for i in live {
            let bytes = burst.bytes(i, arena);
            let found = match bytes.get(Usual::L3..).and_then(L3L4::usual) {
                Some(ip) if known.is_link(bytes) && !known.is_mine(ip.dst) => {
                    Some((ip, Usual::L3 as u16, sessions.prefetch_v4(port.instance, ip.dst)))
                }
                _ => parse(burst, i, port, sessions, arena, at),
            };
            let Some((ip, l3, hash)) = found else { continue };
            let whole = l3 + ip.total_len as u16; // fits: checked against the frame, whose length is a u16
            let frame = burst.frame_mut(i);
            frame.meta.l3 = l3;
            // The link may have padded.
            let _ = frame.truncate(whole);
            let lane = &mut burst.lane;
            *lane.ip_mut(i) = ip;
            lane.hash[i] = hash;
            lane.instance[i] = port.instance;
            lane.teid[i] = 0;
            lane.qfi[i] = NONE8;
        }
    }
}

/// Any frame: the headers, where the network layer is and the ticket of the lookup begun. None: it has left the
/// pipeline.
#[inline(never)]
fn parse(
    burst: &mut Burst<Upf>,
    i: usize,
    port: &PortView,
    sessions: &Sessions,
    arena: &Arena,
    at: At<'_>,
) -> Option<(L3L4, u16, Hash)> {
    let bytes = burst.bytes(i, arena);
    let (kind, l3) = match link(bytes, port) {
        Ok(found) => found,
        Err(reason) => {
            burst.drop(i, reason, at);
            return None;
        }
    };
    let packet = &bytes[usize::from(l3)..];
    let parsed = match kind {
        ethertype::IP4 => L3L4::parse4(packet),
        ethertype::IP6 => L3L4::parse6(packet),
        ethertype::ARP => {
            burst.frame_mut(i).meta.l3 = l3;
            burst.punt(i, Punt::Arp);
            return None;
        }
        _ => {
            burst.drop(i, Drop::EtherType, at);
            return None;
        }
    };
    let ip = match parsed {
        Ok(ip) => ip,
        Err(why) => {
            burst.drop(i, malformed(why), at);
            return None;
        }
    };
    let (ours, hash) = match ip.version {
        4 => (port.is_mine4(ip.dst), sessions.prefetch_v4(port.instance, ip.dst)),
        _ => {
            let to = ip.dst6(packet);
            // Neighbour discovery speaks to multicast and link-local addresses.
            let local = to >> 120 == 0xff || to >> 118 == 0xfe80 >> 6 || port.is_mine6(to);
            (local, sessions.prefetch_v6(port.instance, (to >> 64) as u64))
        }
    };
    if !ours {
        return Some((ip, l3, hash));
    }
    let local = crate::local::classify(&ip, true, packet);
    let frame = burst.frame_mut(i);
    frame.meta.l3 = l3;
    let _ = frame.truncate(l3 + ip.total_len as u16);
    let lane = &mut burst.lane;
    *lane.ip_mut(i) = ip;
    (lane.hash[i], lane.instance[i], lane.teid[i], lane.qfi[i]) = (hash, port.instance, 0, NONE8);
    match local {
        Ok(punt) => burst.punt(i, punt),
        Err(reason) => burst.drop(i, reason, at),
    }
    None
}
