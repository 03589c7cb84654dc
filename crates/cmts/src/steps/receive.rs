//! First looks: at packets from the network, at packets of Remote-PHY devices.

use std::net::IpAddr;

use dataplane::forward::{PortView, is_martian4, is_martian6};
use dataplane::parse::{self, HasIp, Usual, malformed};
use engine::{At, Burst, Ctx, Drop, Punt, Stage};
use frame::Arena;
use wire::{Fragment, Outer, l2tp, protocol, psp};

use crate::lane::{Cmts, State, UNTAGGED};
use crate::upstream::count_in;
use crate::{drops, punts};

/// Checks that a frame is for this port and finds its network layer: type, offset, outer tag. Other than a router's, a
/// cable gateway's multicast packets are to be forwarded, to modems that joined.
fn link(frame: &[u8], port: &PortView) -> Result<(u16, u16, u32), Drop> {
    let outer = Outer::parse(frame).map_err(malformed)?;
    let vlan = outer.outer_vlan();
    if !port.has_tags(&outer) {
        return Err(drops::WRONG_VLAN);
    }
    if frame[..6] != port.mac && port.mac != [0; 6] && frame[0] & 1 == 0 {
        return Err(drops::NOT_FOR_US);
    }
    Ok((outer.ethertype, outer.l3, vlan.map_or(UNTAGGED, |tag| tag.0.into())))
}

/// From the network: link header, then IP; asks for the host's place in the index.
#[derive(Default)]
pub struct ReceiveNetwork;

impl Stage<Cmts> for ReceiveNetwork {
    const NAME: &'static str = "rx";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let live = burst.live();
        let Some(first) = live.into_iter().next() else { return };
        // A burst is of one port.
        let port = cx.state.port(burst.frame(first).meta.port);
        let known = Usual::new(port);
        let modems = &cx.state.modems;
        for i in live {
            let (frame, lane) = burst.parts(i);
            let (bytes, ip) = (arena.bytes(frame), lane.ip_mut(i));
            let read = known.is_link(bytes) && bytes.get(Usual::L3..).is_some_and(|packet| ip.read_usual(packet));
            let (src, dst, end) = (ip.src, ip.dst, (Usual::L3 as u16).wrapping_add(ip.total_len as u16)); // fits, where it was read
            if read && !known.is_mine(dst) && !is_martian4(src) && dst < 0xe000_0000 {
                lane.hash[i] = modems.prefetch4(dst);
                lane.tag[i] = UNTAGGED;
                frame.meta.l3 = Usual::L3 as u16;
                let _ = frame.truncate(end);
            } else {
                network(burst, i, port, cx.state, arena, at);
            }
        }
    }
}

/// Any frame from the network. Apart, so that the usual one has the registers to itself.
#[inline(never)]
fn network(burst: &mut Burst<Cmts>, i: usize, port: &PortView, state: &State, arena: &Arena, at: At<'_>) {
    let bytes = burst.bytes(i, arena);
    let link = link(bytes, port);
    let tag = link.map_or(UNTAGGED, |(.., tag)| tag);
    let (l3, ip) = match parse::ip(bytes, link.map(|(kind, l3, _)| (kind, l3)), port) {
        Ok(found) => found,
        Err(other) => return other.leave(burst, i, at),
    };
    let packet = &bytes[usize::from(l3)..];
    let (ours, martian, link_local, hash) = match ip.version {
        4 => (port.is_mine4(ip.dst), is_martian4(ip.src), false, state.modems.prefetch4(ip.dst)),
        _ => {
            let (from, to) = (ip.src6(packet), ip.dst6(packet));
            // fe80::/10, ff01::/16 and ff02::/16 stay on the link.
            let link_local = to >> 118 == 0xfe80 >> 6 || matches!(to >> 112 & 0xff0f, 0xff01 | 0xff02);
            (port.is_mine6(to), is_martian6(from), link_local, state.modems.prefetch6(to))
        }
    };
    let outcome = match () {
        () if parse::is_discovery(&ip, packet) => Some(Ok(punts::NEIGHBOUR)),
        () if parse::is_routing(&ip, packet, port, ours) => Some(Ok(punts::ROUTING)),
        () if ours => Some(parse::local_or_host(&ip, packet, port, ours)),
        () if link_local => Some(Err(drops::MULTICAST)),
        () if martian => Some(Err(drops::MARTIAN_SOURCE)),
        () => None,
    };
    let end = l3 + ip.total_len as u16; // fits: checked against the frame's length
    let (frame, lane) = burst.parts(i);
    *lane.ip_mut(i) = ip;
    (lane.hash[i], lane.tag[i]) = (hash, tag);
    frame.meta.l3 = l3;
    let _ = frame.truncate(end);
    match outcome {
        None => {}
        Some(Ok(punt)) => burst.punt(i, punt),
        Some(Err(reason)) => burst.drop(i, reason, at),
    }
}

/// From a Remote-PHY device: link header, IP, UDP if there is one, L2TPv3; finds the pseudowire.
#[derive(Default)]
pub struct ReceiveRpd;

impl Stage<Cmts> for ReceiveRpd {
    const NAME: &'static str = "rx";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let port = cx.state.port(burst.frame(i).meta.port);
            match rpd(burst.bytes(i, arena), port, cx.state) {
                Ok(Packet::Pseudowire { wire, payload, end }) => {
                    let (frame, lane) = burst.parts(i);
                    (lane.channel[i], lane.payload[i]) = (wire, payload);
                    let _ = frame.truncate(end);
                }
                Ok(Packet::Local { punt, l3, end }) => {
                    let frame = burst.frame_mut(i);
                    frame.meta.l3 = l3;
                    let _ = frame.truncate(end);
                    burst.punt(i, punt);
                }
                Err(reason) => burst.drop(i, reason, at),
            }
        }
    }
}

enum Packet {
    Pseudowire { wire: u16, payload: u16, end: u16 },
    Local { punt: Punt, l3: u16, end: u16 },
}

fn rpd(bytes: &[u8], port: &PortView, state: &State) -> Result<Packet, Drop> {
    let (kind, l3, _) = link(bytes, port)?;
    let packet = bytes.get(usize::from(l3)..).unwrap_or_default();
    let ip = match parse::network(kind, packet, port)? {
        parse::Network::Ip(ip) => ip,
        parse::Network::Arp => return Ok(Packet::Local { punt: punts::ARP, l3, end: bytes.len() as u16 }),
        parse::Network::IsIs => return Ok(Packet::Local { punt: punts::ROUTING, l3, end: bytes.len() as u16 }),
    };
    let end = l3 + ip.total_len as u16; // fits: checked against the frame's length
    if parse::is_discovery(&ip, packet) {
        return Ok(Packet::Local { punt: punts::NEIGHBOUR, l3, end });
    }
    let ours = if ip.version == 4 { port.is_mine4(ip.dst) } else { port.is_mine6(ip.dst6(packet)) };
    if parse::is_routing(&ip, packet, port, ours) {
        return Ok(Packet::Local { punt: punts::ROUTING, l3, end });
    }
    if !ours {
        return Err(if bytes[0] & 1 == 1 { drops::MULTICAST } else { drops::NOT_FOR_US });
    }
    let (carrier, offset) = match ip.protocol {
        protocol::L2TP => (l2tp::Carrier::Ip, 0),
        protocol::UDP if ip.dst_port == l2tp::PORT => (l2tp::Carrier::Udp, 8),
        protocol::ICMP4 | protocol::ICMP6 => return Ok(Packet::Local { punt: parse::local(&ip, packet)?, l3, end }),
        // It may be of a pseudowire's packet.
        _ if parse::may_be_of_datagram(&ip) => return Err(drops::NOT_L2TP),
        _ => {
            let punt = parse::host_or(&ip, packet, port, ours, drops::NOT_L2TP)?;
            return Ok(Packet::Local { punt, l3, end });
        }
    };
    if ip.fragment != Fragment::Whole {
        return Err(drops::OUTER_FRAGMENT);
    }
    let from = usize::from(ip.l4) + offset;
    let message = packet.get(from..ip.total_len as usize).ok_or(drops::L2TP_MALFORMED)?;
    match l2tp::Message::parse(message, carrier) {
        Ok(l2tp::Message::Data(header)) => {
            let source = match ip.version {
                4 => IpAddr::V4(ip.src.into()),
                _ => IpAddr::V6(ip.src6(packet).into()),
            };
            let (wire, payload) = state.upstream.pseudowire(&header, message, source)?;
            let payload = l3 + from as u16 + payload;
            Ok(Packet::Pseudowire { wire, payload, end })
        }
        Ok(l2tp::Message::Control) => Ok(Packet::Local { punt: punts::L2TP_CONTROL, l3, end }),
        Err(_) => Err(drops::L2TP_MALFORMED),
    }
}

/// Checks the table of segments and puts the packet by, to be worked on with others of its pseudowire.
#[derive(Default)]
pub struct TakeIn;

impl Stage<Cmts> for TakeIn {
    const NAME: &'static str = "uepi_decap";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let (wire, payload) = (burst.lane.channel[i], burst.lane.payload[i]);
            let bytes = burst.bytes(i, arena).get(usize::from(payload)..).unwrap_or_default();
            if psp::Packet::new_checked(bytes, psp::Word::Absent).is_err() {
                burst.drop(i, drops::PSP_MALFORMED, at);
                continue;
            }
            if !cx.state.upstream.has_room() {
                burst.drop(i, drops::FLOW_QUEUE_FULL, at);
                continue;
            }
            count_in(cx.state.upstream.carries(wire), cx.env);
            cx.state.upstream.take_in(burst.take(i), wire, payload);
        }
    }
}
