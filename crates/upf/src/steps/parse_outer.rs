//! The transport headers of a tunnelled packet.

use dataplane::forward::PortView;
use dataplane::parse::{self, Usual};
use engine::{At, Burst, Ctx, Stage};
use frame::{Arena, flags};
use wire::{Fragment, L3L4, Outer, checksum, fast, gtpu, protocol, udp};

use super::ecn;
use crate::lane::Upf;
use crate::{drops, punts};

/// Ethernet, IPv4 or IPv6 and UDP of a packet from access: it must be for us and for GTP-U's port (TS 29.281, 4.4.2).
/// ARP, neighbour discovery and pings to us go to the slow path. Leaves the offset of the GTP-U header in `meta.l3`.
#[derive(Default)]
pub struct ParseOuter;

/// Bytes of a UDP header.
const UDP: u16 = 8;

impl Stage<Upf> for ParseOuter {
    const NAME: &'static str = "parse_outer";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let Some(first) = burst.live().next() else { return };
        // A burst is of one port.
        let port = cx.state.port(burst.frame(first).meta.port);
        if port.verify_udp {
            verify(burst, arena, at);
        }
        let known = Usual::new(port);
        for i in burst.live() {
            match usual(burst.bytes(i, arena), &known) {
                Some(whole) => {
                    let frame = burst.frame_mut(i);
                    frame.meta.l3 = USUAL_HEAD as u16;
                    // The link may have padded, or IP behind UDP; the length was checked to fit.
                    let _ = frame.truncate(whole);
                }
                None => any(burst, i, port, arena, at),
            }
        }
    }
}

/// Ethernet, IPv4 and UDP without anything unusual: where UDP's header is, and where it ends.
const UDP_AT: usize = Usual::L3 + 20;
const USUAL_HEAD: usize = UDP_AT + UDP as usize;

/// The length of the frame to the datagram's end, if it is what nearly all are: for us, untagged, IPv4 without options, whole,
/// UDP to GTP-U's port, nothing wrong with it.
#[inline(always)]
fn usual(frame: &[u8], known: &Usual<'_>) -> Option<u16> {
    let head: &[u8; USUAL_HEAD] = frame.first_chunk()?;
    let ip: &[u8; 20] = head[Usual::L3..].first_chunk()?;
    let word = |at| fast::be16(head, at).unwrap_or_default();
    let first = fast::be64(ip, 0)?;
    // Version, header length, the mark of congestion, More Fragments and the offset in one comparison.
    const ASKED: u64 = 0xff00_0000_0000_3fff | (ecn::MATTERS as u64) << 48;
    let plain = first & ASKED == 0x45 << 56 && checksum::is_valid20(ip);
    let gtpu = ip[9] == protocol::UDP && head[UDP_AT + 2..UDP_AT + 4] == gtpu::PORT.to_be_bytes();
    if !(known.is_link(head) && plain && gtpu && known.is_mine(fast::be32(ip, 16)?)) {
        return None;
    }
    let (total, datagram) = (usize::from((first >> 32) as u16), usize::from(word(UDP_AT + 4)));
    let fits = datagram >= USUAL_HEAD - UDP_AT && 20 + datagram <= total && Usual::L3 + total <= frame.len();
    fits.then_some((UDP_AT + datagram) as u16) // no more than the frame's length
}

/// Drops what has a UDP checksum that is wrong. The sum goes over the whole packet, so it is made only where configured, and
/// not where the device has found it right. What a device finds wrong is summed here as well.
#[cold]
fn verify(burst: &mut Burst<Upf>, arena: &Arena, at: At<'_>) {
    for i in burst.live() {
        let is_verified = burst.frame(i).meta.flags & flags::UDP_VERIFIED != 0;
        if !is_verified && is_sum_wrong(burst.bytes(i, arena)).unwrap_or(false) {
            burst.drop(i, drops::UDP_CHECKSUM, at);
        }
    }
}

/// None: no whole UDP datagram. One without checksum is not wrong (RFC 768; over IPv6 RFC 6935).
fn is_sum_wrong(frame: &[u8]) -> Option<bool> {
    let outer = Outer::parse(frame).ok()?;
    let packet = frame.get(usize::from(outer.l3)..)?;
    let ip = L3L4::parse(packet).ok().filter(|ip| ip.protocol == protocol::UDP && ip.fragment == Fragment::Whole)?;
    let datagram = udp::Packet::new_checked(packet.get(usize::from(ip.l4)..ip.total_len as usize)?).ok()?;
    let pseudo = match ip.version {
        4 => checksum::pseudo4(ip.src, ip.dst, protocol::UDP, datagram.length()),
        _ => checksum::pseudo6(ip.src6(packet), ip.dst6(packet), protocol::UDP, datagram.length().into()),
    };
    Some(!datagram.is_checksum_right(pseudo))
}

/// Any packet.
#[inline(never)]
fn any(burst: &mut Burst<Upf>, i: usize, port: &PortView, arena: &Arena, at: At<'_>) {
    let bytes = burst.bytes(i, arena);
    let (l3, ip) = match parse::ip(bytes, parse::link(bytes, port), port) {
        Ok(found) => found,
        Err(other) => return other.leave(burst, i, at),
    };
    let packet = &bytes[usize::from(l3)..];
    let ours = match ip.version {
        4 => port.is_mine4(ip.dst),
        _ => port.is_mine6(ip.dst6(packet)),
    };
    if ours && ip.protocol == protocol::UDP && ip.dst_port == gtpu::PORT && ip.fragment == Fragment::Whole {
        // The link may have padded. UDP must fit IP (RFC 768), and GTP-U, further on, must fit UDP.
        let datagram = fast::be16(packet, usize::from(ip.l4) + 4).unwrap_or(0);
        let fits = datagram >= UDP && u32::from(ip.l4) + u32::from(datagram) <= ip.total_len;
        let frame = burst.frame_mut(i);
        frame.meta.l3 = l3 + ip.l4 + UDP;
        if !fits || frame.truncate(l3 + ip.l4 + datagram).is_err() {
            return burst.drop(i, drops::MALFORMED, at);
        }
        let message = arena.bytes_mut(frame).get_mut(usize::from(l3 + ip.l4 + UDP)..).unwrap_or_default();
        if ecn::matters(ip.tos)
            && let Err(reason) = ecn::carry_in(ip.tos, message)
        {
            burst.drop(i, reason, at);
        }
        return;
    }
    let local = match parse::is_routing(&ip, packet, port, ours) {
        true => Ok(punts::ROUTING),
        false => crate::local::classify(&ip, ours, true, packet, port),
    };
    burst.frame_mut(i).meta.l3 = l3;
    *dataplane::parse::HasIp::ip_mut(&mut burst.lane, i) = ip;
    match local {
        Ok(punt) => burst.punt(i, punt),
        Err(reason) => burst.drop(i, reason, at),
    }
}
