//! The subscriber's own packet.

use engine::{Burst, Ctx, Drop, Punt, Stage};
use stages::parse::{HasIp, link, malformed};
use wire::{L3L4, ethertype};

use crate::lane::Upf;
use crate::record::NONE8;

/// Reads the headers of the packet inside a tunnel. The records' lines arrive meanwhile.
pub struct ParseUser;

impl Stage<Upf> for ParseUser {
    const NAME: &'static str = "parse_user";

    #[inline]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let l3 = burst.frame(i).meta.l3;
            match L3L4::parse(burst.bytes(i, arena).get(usize::from(l3)..).unwrap_or_default()) {
                Ok(ip) => {
                    // What stands behind the packet in its tunnel is no part of it; the length was checked to fit.
                    let _ = burst.frame_mut(i).truncate(l3 + ip.total_len as u16);
                    *burst.lane.ip_mut(i) = ip;
                }
                Err(why) => burst.drop(i, malformed(why), at),
            }
        }
    }
}

/// Reads a packet from the core: link header, then IP; asks for the subscriber's place in the index.
pub struct ParsePlain;

impl Stage<Upf> for ParsePlain {
    const NAME: &'static str = "parse_plain";

    #[inline]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let live = burst.live();
        let Some(first) = live.into_iter().next() else { return };
        let port = cx.state.port(burst.frame(first).meta.port);
        for i in live {
            let bytes = burst.bytes(i, arena);
            let (kind, l3) = match link(bytes, port) {
                Ok(found) => found,
                Err(reason) => {
                    burst.drop(i, reason, at);
                    continue;
                }
            };
            let packet = &bytes[usize::from(l3)..];
            let parsed = match kind {
                ethertype::IP4 => L3L4::parse4(packet),
                ethertype::IP6 => L3L4::parse6(packet),
                ethertype::ARP => {
                    burst.frame_mut(i).meta.l3 = l3;
                    burst.punt(i, Punt::Arp);
                    continue;
                }
                _ => {
                    burst.drop(i, Drop::EtherType, at);
                    continue;
                }
            };
            let ip = match parsed {
                Ok(ip) => ip,
                Err(why) => {
                    burst.drop(i, malformed(why), at);
                    continue;
                }
            };
            let (ours, hash) = match ip.version {
                4 => (port.is_mine4(ip.dst), cx.state.sessions.prefetch_v4(port.instance, ip.dst)),
                _ => {
                    let to = ip.dst6(packet);
                    // Neighbour discovery speaks to multicast and link-local addresses.
                    let local = to >> 120 == 0xff || to >> 118 == 0xfe80 >> 6 || port.is_mine6(to);
                    (local, cx.state.sessions.prefetch_v6(port.instance, (to >> 64) as u64))
                }
            };
            let local = ours.then(|| crate::local::classify(&ip, true, packet));
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
            match local {
                None => {}
                Some(Ok(punt)) => burst.punt(i, punt),
                Some(Err(reason)) => burst.drop(i, reason, at),
            }
        }
    }
}
