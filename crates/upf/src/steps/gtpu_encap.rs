//! Into the tunnel.

use dataplane::forward::{NONE, Tunnel};
use dataplane::parse::HasIp;
use dataplane::route::{HasForwarding, HasHop, decrement_ttl};
use engine::{Burst, Ctx, Live, Stage};
use frame::{Arena, flags};
use wire::{checksum, fast, gtpu};

use super::Outwards;
use crate::drops;
use crate::lane::{State, Upf};
use crate::pipeline::Choices;
use crate::record::{Encap, NONE8, container, encap};

/// How the UDP checksum over IPv6 transport is made (RFC 6935, RFC 6936).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum6 {
    /// Over the whole packet.
    #[default]
    Full,
    /// Zero, where the path is known to take it.
    Zero,
}

/// Puts IP, UDP and GTP-U headers before packets that go into a tunnel (TS 29.281, 5; PDU session container for the
/// downlink by TS 38.415, 5.5.2.1), or those of another kind of tunnel; the link header with them, where it is known.
/// Others pass. The outer DSCP is the FAR's mark, or the user packet's own. What is not merely relayed from tunnel to
/// tunnel has one taken from its TTL.
#[derive(Default)]
pub struct GtpuEncap {
    checksum6: Checksum6,
}

impl Stage<Upf> for GtpuEncap {
    const NAME: &'static str = "gtpu_encap";

    fn build(config: &Choices) -> Self {
        Self { checksum6: config.checksum6 }
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let state = &*cx.state;
        let tables = state.forwarding();
        let mut linked = Live::default();
        for i in burst.live() {
            let id = burst.lane.tunnel[i];
            if id == NONE {
                continue;
            }
            let Some(tunnel) = tables.tunnel(id) else {
                burst.drop(i, drops::FAR_INCOMPLETE, at);
                continue;
            };
            if usual(burst, i, tunnel, arena) {
                linked.add(i);
            } else if !self.encapsulate(burst, i, tunnel, state, arena) {
                burst.drop(i, drops::NO_HEADROOM, at);
            } else if tunnel.link_len != 0 {
                linked.add(i);
            }
        }
        burst.lane.linked = linked;
    }
}

/// What nearly every packet to a gNB gets before it: link, IPv4, UDP, GTP-U with container; and of its own header what
/// changes.
const USUAL: usize = Tunnel::LINK + IP4 + gtpu::HEADER_WITH_CONTAINER_LEN;
const CHANGES: usize = 12;

/// All headers at once before an IPv4 packet in a QoS flow, which is not relayed, over IPv4 to a neighbour that is known.
/// False, and nothing done: it is not of that kind.
#[inline(always)]
fn usual(burst: &mut Burst<Upf>, i: usize, tunnel: &Tunnel, arena: &Arena) -> bool {
    let (frame, lane) = burst.parts(i);
    let (ip, encap, teid) = (lane.ip(i), lane.out_encap[i], lane.out_id[i]);
    // Three values in one comparison.
    let kind = u32::from(tunnel.link_len) << 24 | u32::from(ip.version) << 16 | u32::from(encap.word() & !MOST_QFI);
    if kind != (Tunnel::LINK as u32) << 24 | 4 << 16 | const { Encap::container(0).word() as u32 } || lane.teid[i] != 0
    {
        return false;
    }
    let tos = if lane.dscp[i] == NONE8 { ip.tos } else { lane.dscp[i] << 2 | ip.tos & 3 };
    let total = (USUAL - Tunnel::LINK) as u16 + ip.total_len as u16; // the route stage checked it against the MTU
    let l3 = frame.meta.l3;
    if frame.len() < usize::from(l3) + CHANGES || frame.move_front(l3, USUAL as u16).is_err() {
        return false;
    }
    frame.meta.l3 = Tunnel::LINK as u16;
    if let Some(head) = arena.bytes_mut(frame).first_chunk_mut() {
        put_usual(head, tunnel, &Fields { tos, total, teid, encap });
    }
    true
}

/// The highest QoS flow identifier.
const MOST_QFI: u16 = 0x3f;

/// Writes the headers word by word; the template has zeros where they differ.
#[inline(always)]
fn put_usual(head: &mut [u8; USUAL + CHANGES], tunnel: &Tunnel, fields: &Fields) {
    const CONTAINER: u64 = gtpu::extension_type::PDU_SESSION_CONTAINER as u64;
    const KIND: u64 = ((gtpu::flag::VERSION_1 | gtpu::flag::E) as u64) << 8 | gtpu::message_type::G_PDU as u64;
    let Fields { tos, total, teid, encap: Encap { qfi, .. } } = *fields;
    let template = |at| u64::from_le_bytes(fast::array(&tunnel.header, at).unwrap_or_default());
    let sum = checksum::fold(u64::from(tunnel.sum) + u64::from(total) + u64::from(tos));
    let check = checksum::finish(sum).swap_bytes();
    let udp = total.wrapping_sub(20);
    let [link, ip, tunnelled] = [0, Tunnel::LINK, USUAL];
    let mut put = |at: usize, word: u64| fast::put(head, at, word.to_le_bytes());
    // The link header is shorter than two words.
    put(link, template(Tunnel::LINK_AT));
    put(link + 6, template(Tunnel::LINK_AT + 6));
    put(ip, template(0) | u64::from(total.swap_bytes()) << 16 | u64::from(tos) << 8);
    put(ip + 8, template(8) | u64::from(check) << 16);
    put(ip + 16, template(16));
    // Length and no checksum; flags, type and length.
    put(ip + 24, (u64::from(udp) << 48 | KIND << 16 | u64::from(udp.wrapping_sub(16))).swap_bytes());
    // Sequence and N-PDU number absent, next extension: one of 4 bytes, DL PDU SESSION INFORMATION.
    put(ip + 32, (u64::from(teid) << 32 | CONTAINER).swap_bytes());
    fast::put(head, ip + 40, [1, 0, qfi, 0]);
    decrement_ttl(&mut head[tunnelled..], 4);
}

impl GtpuEncap {
    #[inline(always)]
    fn encapsulate(&self, burst: &mut Burst<Upf>, i: usize, tunnel: &Tunnel, state: &State, arena: &Arena) -> bool {
        let lane = &burst.lane;
        let (overhead, ip, relayed) = (lane.overhead[i], lane.ip(i), lane.is_relayed(i));
        let version = ip.version;
        let fields = Fields {
            // ECN is the user packet's own (RFC 6040, 4.1: normal mode).
            tos: if lane.dscp[i] == NONE8 { ip.tos } else { lane.dscp[i] << 2 | ip.tos & 3 },
            // The route stage checked it against the MTU.
            total: overhead.wrapping_add(ip.total_len as u16),
            teid: lane.out_id[i],
            encap: lane.out_encap[i],
        };
        let is_summed = tunnel.version == 6 && self.checksum6 == Checksum6::Full && !fields.encap.is_other();
        let policy = fields.encap.has_policy().then(|| paging_policy(burst, i, state));
        let frame = burst.frame_mut(i);
        let l3 = frame.meta.l3;
        let link = u16::from(tunnel.link_len);
        // What stood before the user's packet goes; the outer IP header is the packet's from here on.
        if frame.move_front(l3, overhead.wrapping_add(link)).is_err() {
            return false;
        }
        frame.meta.l3 = link;
        let is_left = is_summed && tunnel.leaves_sum;
        if is_left {
            frame.meta.flags |= flags::UDP_SUM_LEFT;
        }
        let Some((head, bytes)) = arena.bytes_mut(frame).split_at_mut_checked(link.into()) else { return false };
        if let (Some(link), Some(head)) = (tunnel.link(), head.first_chunk_mut()) {
            *head = *link;
        }
        if let Some(packet) = bytes.get_mut(usize::from(overhead)..).filter(|_| !relayed) {
            decrement_ttl(packet, version);
        }
        if fields.encap.is_other() {
            let out = Outwards { tunnel, encap: fields.encap.kind, id: fields.teid, tos: fields.tos };
            return out.write(bytes, self.checksum6).is_some();
        }
        match (tunnel.version, fields.encap.kind == encap::GTPU) {
            (4, false) => put::<IP4, { IP4 + gtpu::HEADER_WITH_CONTAINER_LEN }>(bytes, tunnel, &fields),
            (4, true) => put::<IP4, { IP4 + gtpu::HEADER_LEN }>(bytes, tunnel, &fields),
            (_, false) => put::<IP6, { IP6 + gtpu::HEADER_WITH_CONTAINER_LEN }>(bytes, tunnel, &fields),
            (_, true) => put::<IP6, { IP6 + gtpu::HEADER_LEN }>(bytes, tunnel, &fields),
        }
        if let Some(policy) = policy {
            put_policy(bytes, tunnel, fields.encap.qfi, policy);
        }
        if is_left {
            leave_udp6(bytes, tunnel.sum);
        } else if is_summed {
            sum_udp6(bytes, tunnel.sum);
        }
        true
    }
}

/// IP and UDP headers, by IP version.
const IP4: usize = 28;
const IP6: usize = 48;

/// What a packet's tunnel header says beside the template.
struct Fields {
    tos: u8,
    total: u16,
    /// The far end's TEID; in other tunnels than GTP-U's, what [`Action::id`](crate::record::Action::id) is.
    teid: u32,
    encap: Encap,
}

/// Writes the `ALL` bytes of all headers, the outer ones' `OUTER` bytes from the template: sizes that are known become a
/// few moves. The frame has grown by as many bytes; it is not shorter.
#[inline(always)]
fn put<const OUTER: usize, const ALL: usize>(bytes: &mut [u8], tunnel: &Tunnel, fields: &Fields) {
    let Some(head) = bytes.first_chunk_mut::<ALL>() else { return };
    let Fields { tos, total, teid, encap: Encap { qfi, .. } } = *fields;
    head[..OUTER].copy_from_slice(&tunnel.header[..OUTER]);
    let udp = OUTER - 8;
    let udp_len = if OUTER == IP4 { total.wrapping_sub(20) } else { total.wrapping_sub(40) };
    if OUTER == IP4 {
        head[1] = tos;
        head[2..4].copy_from_slice(&total.to_be_bytes());
        let sum = checksum::fold(u64::from(tunnel.sum) + u64::from(total) + u64::from(tos));
        head[10..12].copy_from_slice(&checksum::finish(sum).to_be_bytes());
    } else {
        head[0] = 0x60 | tos >> 4;
        head[1] = tos << 4;
        head[4..6].copy_from_slice(&udp_len.to_be_bytes());
    }
    head[udp + 4..udp + 6].copy_from_slice(&udp_len.to_be_bytes());
    let container = ALL == OUTER + gtpu::HEADER_WITH_CONTAINER_LEN;
    let flags = gtpu::flag::VERSION_1 | if container { gtpu::flag::E } else { 0 };
    let kind = u16::from_be_bytes([flags, gtpu::message_type::G_PDU]);
    let first = u64::from(kind) << 48 | u64::from(udp_len.wrapping_sub(16)) << 32 | u64::from(teid);
    head[OUTER..OUTER + 8].copy_from_slice(&first.to_be_bytes());
    if container {
        // Sequence and N-PDU number absent, next extension: one of 4 bytes, DL PDU SESSION INFORMATION.
        let bytes = [0, 0, 0, gtpu::extension_type::PDU_SESSION_CONTAINER, 1, 0, qfi & !container::PPP, 0];
        head[OUTER + 8..OUTER + 16].copy_from_slice(&bytes);
    }
}

/// The paging policy of a packet's rule.
#[cold]
fn paging_policy(burst: &Burst<Upf>, i: usize, state: &State) -> u8 {
    let action = state.sessions.action(burst.lane.session[i], burst.lane.action[i]);
    action.map_or(0, |action| action.value & 7)
}

/// A container of 8 bytes in the place of the short one, which `put` wrote: with the paging policy, and padding.
#[cold]
fn put_policy(bytes: &mut [u8], tunnel: &Tunnel, qfi: u8, policy: u8) {
    let at = usize::from(tunnel.len) + gtpu::HEADER_LEN + 4; // behind sequence number, N-PDU number and next type
    if let Some(place) = bytes.get_mut(at..at + 8) {
        place.copy_from_slice(&[2, 0, qfi, policy << 5, 0, 0, 0, 0]);
    }
}

/// Fills in the UDP checksum over IPv6 (RFC 8200, 8.1); `pseudo` is the pseudo header's sum without the length.
#[inline(never)]
fn sum_udp6(bytes: &mut [u8], pseudo: u16) {
    let Some(datagram) = bytes.get_mut(IP6 - 8..) else { return };
    let len = datagram.len() as u16;
    let sum = checksum::combine(checksum::sum(datagram), checksum::combine(pseudo, len));
    fast::put16(datagram, 6, checksum::finish_udp(sum));
}

/// Leaves the UDP checksum over IPv6 to the port: the sum of the pseudo header stands in its place.
fn leave_udp6(bytes: &mut [u8], pseudo: u16) {
    let Some(datagram) = bytes.get_mut(IP6 - 8..) else { return };
    let sum = checksum::combine(pseudo, datagram.len() as u16);
    fast::put16(datagram, 6, sum);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Word by word or field by field, the same bytes stand before a packet.
        #[test]
        fn both_ways_of_writing_agree(
            tos: u8, total in 64u16.., teid: u32, qfi in 0..=MOST_QFI as u8,
            ends: [u8; 8], link: [u8; Tunnel::LINK], ttl in 1u8.., user: [u8; CHANGES],
        ) {
            let mut header = [0; 48];
            header[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
            header[12..20].copy_from_slice(&ends);
            header[20..24].copy_from_slice(&[gtpu::PORT.to_be_bytes(); 2].concat());
            header[Tunnel::LINK_AT..][..Tunnel::LINK].copy_from_slice(&link);
            let sum = checksum::sum(&header[..20]);
            let link_len = Tunnel::LINK as u8;
            let tunnel = Tunnel { hop: 0, len: 28, version: 4, header, sum, link_len, leaves_sum: false };
            let mut at_once = [0; USUAL + CHANGES];
            at_once[USUAL..].copy_from_slice(&user);
            at_once[USUAL + 8] = ttl;
            let mut by_fields = at_once;
            put_usual(&mut at_once, &tunnel, &Fields { tos, total, teid, encap: Encap::container(qfi) });
            by_fields[..Tunnel::LINK].copy_from_slice(&link);
            let behind_link = &mut by_fields[Tunnel::LINK..];
            put::<IP4, { USUAL - Tunnel::LINK }>(behind_link, &tunnel, &Fields { tos, total, teid, encap: Encap::container(qfi) });
            decrement_ttl(&mut by_fields[USUAL..], 4);
            prop_assert_eq!(at_once, by_fields);
            prop_assert!(checksum::is_valid20(at_once[Tunnel::LINK..].first_chunk().expect("20 bytes")));
        }
    }
}
