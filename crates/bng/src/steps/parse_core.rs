//! First look at a frame from the core.

use dataplane::forward::{PortView, is_martian4, is_martian6};
use dataplane::parse::{self, HasIp};
use engine::{At, Burst, Ctx, Drop, Live, Punt, Stage};
use frame::{Arena, flags};
use wire::ethernet::TAG_LEN;
use wire::{L3L4, Outer, ethertype, protocol};

use super::parse_access::{DHCP4_SERVER, DHCP6_SERVER, icmp6, is_to};
use crate::lane::{Bng, State};
use crate::{drops, punts};

/// Checks the link header against the port's, takes off what is to the gateway itself, and requests the destination's cell.
#[derive(Default)]
pub struct ParseCore;

impl Stage<Bng> for ParseCore {
    const NAME: &'static str = "parse";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        let live = burst.live();
        let Some(first) = live.into_iter().next() else { return };
        // A burst is of one port.
        let state = &*cx.state;
        let port = state.port(burst.frame(first).meta.port);
        // Tags of a port's own frames: their number and the identifiers.
        let [outside, inside] = port.tags.ids();
        let tags = ((port.tags.len() / TAG_LEN) as u8, outside, inside); // two tags at most
        let any = port.mac == [0; 6];
        (burst.lane.shared, burst.lane.near) = (Live::default(), Live::default());
        burst.lane.inside = Live::default();
        for i in live {
            let (frame, lane) = burst.parts(i);
            if frame.meta.flags & flags::INSIDE != 0 {
                frame.meta.flags &= !flags::INSIDE;
                lane.inside.add(i);
            }
            let (bytes, ip) = (arena.bytes(frame), &mut lane.ip.0[i]);
            let outer = Outer::parse(bytes).unwrap_or_default();
            let read = (outer.tags, outer.vlans[0].id(), outer.vlans[1].id()) == tags
                && outer.ethertype == ethertype::IP4
                && (any || is_to(bytes, port.mac))
                && bytes.get(usize::from(outer.l3)..).is_some_and(|packet| ip.read_usual(packet));
            let (src, dst) = (ip.src, ip.dst);
            if read && !is_martian4(src) && dst < 0xe000_0000 && !state.directory.is_own4(port.instance, dst) {
                let place = state.subscribers.place4(port.instance, dst);
                state.subscribers.prefetch(place);
                (lane.place[i], lane.instance[i]) = (place, port.instance);
                frame.meta.l3 = outer.l3;
                let _ = frame.truncate(outer.l3.wrapping_add(lane.ip.0[i].total_len as u16)); // fits, where it was read
            } else {
                other(burst, i, port, state, arena, at);
            }
        }
    }
}

/// Any frame. Apart, so that the usual one has the registers to itself.
#[inline(never)]
fn other(burst: &mut Burst<Bng>, i: usize, port: &PortView, state: &State, arena: &Arena, at: At<'_>) {
    let bytes = burst.bytes(i, arena);
    let (l3, ip) = match parse::ip(bytes, parse::link(bytes, port), port) {
        Ok(found) => found,
        Err(other) => return other.leave(burst, i, at),
    };
    let packet = &bytes[usize::from(l3)..];
    let outcome = destination(&ip, packet, port, state);
    let place = match ip.version {
        4 => state.subscribers.place4(port.instance, ip.dst),
        _ => state.subscribers.place6(port.instance, (ip.dst6(packet) >> 64) as u64),
    };
    state.subscribers.prefetch(place);
    let end = l3 + ip.total_len as u16; // fits: checked against the frame's length
    let (frame, lane) = burst.parts(i);
    *lane.ip_mut(i) = ip;
    (lane.place[i], lane.instance[i]) = (place, port.instance);
    frame.meta.l3 = l3;
    let _ = frame.truncate(end);
    match outcome {
        Ok(None) => {}
        Ok(Some(punt)) => burst.punt(i, punt),
        Err(reason) => burst.drop(i, reason, at),
    }
}

/// Where a packet goes that is not a subscriber's; none: it may be one's.
fn destination(ip: &L3L4, packet: &[u8], port: &PortView, state: &State) -> Result<Option<Punt>, Drop> {
    if ip.version == 4 {
        return match () {
            () if port.host.is_some() && parse::is_routing(ip, packet, port, port.is_mine4(ip.dst)) => {
                Ok(Some(punts::ROUTING))
            }
            () if port.is_mine4(ip.dst) || state.directory.is_own4(port.instance, ip.dst) => {
                local(ip, packet, port, state).map(Some)
            }
            () if ip.dst >= 0xe000_0000 => Err(drops::MULTICAST),
            () if is_martian4(ip.src) => Err(drops::MARTIAN_SOURCE),
            () => Ok(None),
        };
    }
    let (src, dst) = (ip.src6(packet), ip.dst6(packet));
    let kind = icmp6(ip, packet);
    match () {
        () if kind.is_some_and(|kind| (133..=137).contains(&kind)) => Ok(Some(punts::NEIGHBOUR)),
        () if port.host.is_some() && parse::is_routing(ip, packet, port, port.is_mine6(dst)) => {
            Ok(Some(punts::ROUTING))
        }
        () if port.is_mine6(dst) || state.directory.is_own6(port.instance, dst) => {
            local(ip, packet, port, state).map(Some)
        }
        () if dst >> 120 == 0xff || dst >> 118 == 0xfe80 >> 6 => Err(drops::MULTICAST),
        () if is_martian6(src) => Err(drops::MARTIAN_SOURCE),
        () => Ok(None),
    }
}

/// Where a packet to one of the gateway's own addresses goes: messages of DHCP servers, if there are some, to control.
fn local(ip: &L3L4, packet: &[u8], port: &PortView, state: &State) -> Result<Punt, Drop> {
    let dhcp = if ip.version == 4 { DHCP4_SERVER } else { DHCP6_SERVER };
    let has_servers = state.directory.has_dhcp_servers();
    let is_dhcp = ip.protocol == protocol::UDP && ip.dst_port == dhcp && has_servers;
    if has_servers && parse::may_be_of_datagram(ip) {
        return parse::local(ip, packet);
    }
    if !is_dhcp {
        let ours = if ip.version == 4 { port.is_mine4(ip.dst) } else { port.is_mine6(ip.dst6(packet)) };
        return parse::local_or_host(ip, packet, port, ours);
    }
    let is_server = match ip.version {
        4 => state.directory.is_dhcp_server(port.instance, std::net::Ipv4Addr::from(ip.src).into()),
        _ => state.directory.is_dhcp_server(port.instance, std::net::Ipv6Addr::from(ip.src6(packet)).into()),
    };
    if is_server { Ok(punts::DHCP_SERVER) } else { Err(drops::DHCP_STRANGER) }
}
