//! The transport headers of a tunnelled packet.

use engine::{Burst, Ctx, Drop, Punt, Stage};
use stages::parse::{link, malformed};
use wire::{Fragment, L3L4, ethertype, fast, gtpu, protocol};

use crate::lane::Upf;

/// Ethernet, IPv4 or IPv6 and UDP of a packet from access: it must be for us and for GTP-U's port (TS 29.281, 4.4.2).
/// ARP, neighbour discovery and pings to us go to the slow path. Leaves the offset of the GTP-U header in `meta.l3`.
pub struct ParseOuter;

/// Bytes of a UDP header.
const UDP: u16 = 8;

impl Stage<Upf> for ParseOuter {
    const NAME: &'static str = "parse_outer";

    #[inline]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let live = burst.live();
        let Some(first) = live.into_iter().next() else { return };
        // A burst is of one port.
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
                    burst.drop(i, Drop::Malformed, at);
                }
                continue;
            }
            let local = crate::local::classify(&ip, ours, packet);
            burst.frame_mut(i).meta.l3 = l3;
            *stages::parse::HasIp::ip_mut(&mut burst.lane, i) = ip;
            match local {
                Ok(punt) => burst.punt(i, punt),
                Err(reason) => burst.drop(i, reason, at),
            }
        }
    }
}
