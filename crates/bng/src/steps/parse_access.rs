//! First look at a frame from the access network.

use dataplane::forward::{PortView, is_martian4, is_martian6};
use dataplane::parse::{self, HasIp, malformed};
use engine::{At, Burst, Ctx, Drop, Live, Punt, Stage};
use frame::Arena;
use wire::{Fragment, L3L4, Outer, ethertype, fast, protocol};

use crate::lane::{Bng, State};
use crate::link::Line;
use crate::subscribers::{NO_GROUP, NOWHERE, VlanEntry};
use crate::{drops, punts};

/// Finds the line by port and tags and the packet behind them, takes control protocols off by class, and requests the
/// line's cell.
#[derive(Default)]
pub struct ParseAccess;

/// UDP ports that DHCP servers and relays listen at (RFC 2131, 4.1; RFC 8415, 7.2).
pub(super) const DHCP4_SERVER: u16 = 67;
pub(super) const DHCP6_SERVER: u16 = 547;
/// PPPoE discovery and session frames (RFC 2516, 4).
const PPPOE: [u16; 2] = [0x8863, 0x8864];
const IGMP: u8 = 2;
const OSPF: u8 = 89;
const VRRP: u8 = 112;

impl Stage<Bng> for ParseAccess {
    const NAME: &'static str = "parse";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let (at, arena) = (cx.at(), cx.env.arena());
        let live = burst.live();
        let Some(first) = live.into_iter().next() else { return };
        // A burst is of one port.
        let id = burst.frame(first).meta.port;
        let state = &*cx.state;
        let (port, vlans) = (state.port(id), state.subscribers.vlans(id));
        (burst.lane.shared, burst.lane.near) = (Live::default(), Live::default());
        for i in live {
            if !usual(burst, i, id, vlans, state, arena) {
                other(burst, i, id, port, state, arena, at);
            }
        }
    }
}

/// A frame of a known line with an IPv4 packet, whole, TCP or UDP, that is to be forwarded. False, and nothing decided: it
/// is another.
#[inline(always)]
fn usual(burst: &mut Burst<Bng>, i: usize, id: u8, vlans: &[VlanEntry], state: &State, arena: &Arena) -> bool {
    let (frame, lane) = burst.parts(i);
    let bytes = arena.bytes(frame);
    let Ok(outer) = Outer::parse(bytes) else { return false };
    let line = Line::of(id, &outer);
    let Some(entry) = vlans.get(usize::from(line.s_vlan)) else { return false };
    let ip = &mut lane.ip.0[i];
    let l3 = usize::from(outer.l3);
    if entry.group == NO_GROUP
        || outer.tags != entry.tags
        || outer.ethertype != ethertype::IP4
        || !is_to(bytes, entry.mac)
        || !bytes.get(l3..).is_some_and(|packet| ip.read_usual(packet))
    {
        return false;
    }
    let Some(place) = entry.place(line.c_vlan) else { return false };
    let (src, dst, instance) = (ip.src, ip.dst, entry.instance);
    let control = ip.protocol == protocol::UDP && ip.dst_port == DHCP4_SERVER;
    if control || is_martian4(src) || dst >= 0xe000_0000 || state.directory.is_own4(instance, dst) {
        return false;
    }
    let end = outer.l3.wrapping_add(ip.total_len as u16); // fits, where it was read
    if state.directory.is_near4(dst) {
        lane.near.add(i);
    }
    ask(lane, i, entry, line, place, bytes, state);
    frame.meta.l3 = outer.l3;
    let _ = frame.truncate(end);
    true
}

/// Whether a frame is sent to that hardware address: one comparison of words.
#[inline(always)]
pub(super) fn is_to(bytes: &[u8], mac: [u8; 6]) -> bool {
    let [a, b, c, d, e, f] = mac;
    fast::be64(bytes, 0).is_some_and(|word| word >> 16 == u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

/// Requests what leads to the line's subscriber.
#[inline(always)]
fn ask(lane: &mut crate::lane::Lane, i: usize, entry: &VlanEntry, line: Line, place: u32, bytes: &[u8], state: &State) {
    if entry.shared {
        let mac = fast::array(bytes, 6).unwrap_or_default();
        lane.hash[i] = state.subscribers.prefetch_shared(line.key(mac));
        lane.place[i] = NOWHERE;
        lane.shared.add(i);
    } else {
        lane.place[i] = place;
        state.subscribers.prefetch(place);
    }
}

/// Any frame. Apart, so that the usual one has the registers to itself.
#[inline(never)]
fn other(burst: &mut Burst<Bng>, i: usize, id: u8, port: &PortView, state: &State, arena: &Arena, at: At<'_>) {
    let bytes = burst.bytes(i, arena);
    let (outer, entry) = match line_of(bytes, id, state) {
        Ok(found) => found,
        Err(reason) => return burst.drop(i, reason, at),
    };
    let line = Line::of(id, &outer);
    let to_many = bytes[0] & 1 == 1;
    let outcome = if !to_many && bytes[..6] != entry.mac && bytes[..6] != port.mac {
        Err(drops::NOT_FOR_US)
    } else {
        let packet = &bytes[usize::from(outer.l3)..];
        network(outer.ethertype, packet, (entry.instance, entry.group), to_many, state)
    };
    let Some(place) = entry.place(line.c_vlan) else { return burst.drop(i, drops::UNKNOWN_LINE, at) };
    let len = bytes.len();
    let (frame, lane) = burst.parts(i);
    frame.meta.l3 = outer.l3;
    match outcome {
        Err(reason) => burst.drop(i, reason, at),
        Ok(Network::Control(punt)) => burst.punt(i, punt),
        Ok(Network::Ip { ip, punt, near }) => {
            *lane.ip_mut(i) = ip;
            let end = usize::from(outer.l3) + ip.total_len as usize;
            let _ = frame.truncate(end.min(len) as u16); // a frame's length is one
            if let Some(punt) = punt {
                return burst.punt(i, punt);
            }
            if near {
                lane.near.add(i);
            }
            let (frame, lane) = burst.parts(i);
            ask(lane, i, &entry, line, place, arena.bytes(frame), state);
        }
    }
}

/// The tags of a frame and what their outer one leads to.
fn line_of(bytes: &[u8], id: u8, state: &State) -> Result<(Outer, VlanEntry), Drop> {
    let mut outer = Outer::parse(bytes).map_err(malformed)?;
    let entry = state.subscribers.vlans(id).get(usize::from(outer.vlans[0].id())).copied();
    let entry = entry.ok_or(drops::UNKNOWN_VLAN)?;
    if entry.group == NO_GROUP {
        // One of another worker was handed over: it is no worker's.
        return Err(if entry.is_configured() { drops::GROUP_ELSEWHERE } else { drops::UNKNOWN_VLAN });
    }
    // A priority tag belongs to the network without it (IEEE 802.1Q, 9.6): alone, and behind the tag of the VLAN.
    while let Some(last) = outer.tags.checked_sub(1)
        && outer.vlans.get(usize::from(last)).is_some_and(|tag| tag.id() == 0)
    {
        outer.tags = last;
    }
    if outer.tags != entry.tags {
        return Err(drops::UNKNOWN_VLAN);
    }
    Ok((outer, entry))
}

enum Network {
    /// No IP packet: for the slow path.
    Control(Punt),
    /// An IP packet, perhaps for the slow path, perhaps to another subscriber.
    Ip { ip: L3L4, punt: Option<Punt>, near: bool },
}

/// What a frame of a line carries.
fn network(
    kind: u16,
    packet: &[u8],
    (instance, group): (u16, u16),
    to_many: bool,
    state: &State,
) -> Result<Network, Drop> {
    match kind {
        ethertype::ARP => Ok(Network::Control(punts::ARP)),
        kind if PPPOE.contains(&kind) => Ok(Network::Control(punts::PPPOE)),
        ethertype::IP4 => {
            let ip = L3L4::parse4(packet).map_err(malformed)?;
            let near = state.directory.is_near4(ip.dst);
            Ok(Network::Ip { ip, punt: control4(&ip, packet, (instance, group), to_many, state)?, near })
        }
        ethertype::IP6 => {
            let ip = L3L4::parse6(packet).map_err(malformed)?;
            let near = state.directory.is_near6((ip.dst6(packet) >> 64) as u64);
            Ok(Network::Ip { ip, punt: control6(&ip, packet, (instance, group), to_many, state)?, near })
        }
        _ => Err(drops::ETHER_TYPE),
    }
}

/// Whether an address is that of a server that the group's requests are relayed to: renewals are sent there, and pass the relay agent.
fn is_server4(address: u32, group: u16, state: &State) -> bool {
    state.directory.relays_to(group, std::net::Ipv4Addr::from(address).into())
}

/// As [`is_server4`].
fn is_server6(address: u128, group: u16, state: &State) -> bool {
    state.directory.relays_to(group, std::net::Ipv6Addr::from(address).into())
}

/// The class of an IPv4 packet that is not forwarded; none: it is.
fn control4(
    ip: &L3L4,
    packet: &[u8],
    (instance, line_group): (u16, u16),
    to_many: bool,
    state: &State,
) -> Result<Option<Punt>, Drop> {
    let own = state.directory.is_own4(instance, ip.dst);
    let group = ip.dst >= 0xe000_0000;
    match ip.protocol {
        protocol::UDP if ip.dst_port == DHCP4_SERVER && (own || group || is_server4(ip.dst, line_group, state)) => {
            return Ok(Some(punts::DHCP4));
        }
        IGMP => return Ok(Some(punts::GROUP_MEMBERSHIP)),
        OSPF | VRRP if own || group => return Ok(Some(punts::ROUTING)),
        _ => {}
    }
    // RFC 1122, 3.3.6: a broadcast of the link is no packet to one host.
    if own && !to_many {
        return local(ip, packet);
    }
    if group || to_many {
        return Err(drops::MULTICAST);
    }
    if is_martian4(ip.src) { Err(drops::MARTIAN_SOURCE) } else { Ok(None) }
}

/// As [`control4`].
fn control6(
    ip: &L3L4,
    packet: &[u8],
    (instance, line_group): (u16, u16),
    to_many: bool,
    state: &State,
) -> Result<Option<Punt>, Drop> {
    let (src, dst) = (ip.src6(packet), ip.dst6(packet));
    let group = dst >> 120 == 0xff;
    let own = state.directory.is_own6(instance, dst);
    let kind = icmp6(ip, packet);
    match (ip.protocol, kind) {
        (protocol::ICMP6, Some(133..=137)) => return Ok(Some(punts::NEIGHBOUR)),
        (protocol::ICMP6, Some(130..=132 | 143)) => return Ok(Some(punts::GROUP_MEMBERSHIP)),
        (protocol::UDP, _) if ip.dst_port == DHCP6_SERVER && (own || group || is_server6(dst, line_group, state)) => {
            return Ok(Some(punts::DHCP6));
        }
        (OSPF | VRRP, _) if own || group => return Ok(Some(punts::ROUTING)),
        _ => {}
    }
    if own && !to_many {
        return local(ip, packet);
    }
    // fe80::/10 stays on the link.
    if group || to_many || dst >> 118 == 0xfe80 >> 6 {
        return Err(drops::MULTICAST);
    }
    if is_martian6(src) { Err(drops::MARTIAN_SOURCE) } else { Ok(None) }
}

/// The type of an ICMPv6 message; none: it is another packet, or a fragment without the message's beginning.
pub(super) fn icmp6(ip: &L3L4, packet: &[u8]) -> Option<u8> {
    let begins = ip.protocol == protocol::ICMP6 && ip.fragment != Fragment::Later;
    packet.get(usize::from(ip.l4)).copied().filter(|_| begins)
}

/// Where a packet to one of the gateway's own addresses goes.
fn local(ip: &L3L4, packet: &[u8]) -> Result<Option<Punt>, Drop> {
    match ip.protocol {
        protocol::TCP if parse::is_bgp(ip, packet) => Ok(Some(punts::ROUTING)),
        _ => parse::local(ip, packet).map(Some),
    }
}
