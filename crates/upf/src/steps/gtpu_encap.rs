//! Into the tunnel.

use engine::{Burst, Ctx, Drop, Stage};
use frame::Arena;
use stages::forward::{NONE, Tunnel};
use stages::parse::HasIp;
use stages::route::HasForwarding;
use wire::{checksum, gtpu};

use crate::lane::Upf;
use crate::record::NONE8;

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
/// downlink by TS 38.415, 5.5.2.1). Others pass. The outer DSCP is the FAR's mark, or the user packet's own.
pub struct GtpuEncap {
    /// UDP checksum over IPv6.
    pub checksum6: Checksum6,
}

/// IP + UDP + GTP-U with container, over IPv6.
const LONGEST: usize = 48 + gtpu::HEADER_WITH_CONTAINER_LEN;

impl Stage<Upf> for GtpuEncap {
    const NAME: &'static str = "gtpu_encap";

    #[inline]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let tables = cx.state.forwarding();
        for i in burst.live() {
            let id = burst.lane.tunnel[i];
            if id == NONE {
                continue;
            }
            let Some(tunnel) = tables.tunnel(id) else {
                burst.drop(i, Drop::FarIncomplete, at);
                continue;
            };
            if !self.encapsulate(burst, i, tunnel, arena) {
                burst.drop(i, Drop::NoHeadroom, at);
            }
        }
    }
}

impl GtpuEncap {
    #[inline]
    fn encapsulate(&self, burst: &mut Burst<Upf>, i: usize, tunnel: &Tunnel, arena: &Arena) -> bool {
        let lane = &burst.lane;
        let (teid, qfi, overhead) = (lane.out_teid[i], lane.out_qfi[i], lane.overhead[i]);
        let user = lane.ip(i).total_len as u16; // the route stage checked it against the MTU
        let tos = if lane.dscp[i] == NONE8 { lane.ip(i).tos & 0xfc } else { lane.dscp[i] << 2 };
        let frame = burst.frame_mut(i);
        let l3 = frame.meta.l3;
        // What stood before the user's packet goes; the frame begins with the outer IP header from here on.
        if frame.pull_front(l3).is_err() || frame.push_front(overhead).is_err() {
            return false;
        }
        frame.meta.l3 = 0;
        let ip_len = usize::from(tunnel.len) - 8;
        let udp_len = overhead + user - ip_len as u16;
        let bytes = arena.bytes_mut(frame);
        let mut head = [0u8; LONGEST];
        head[..48].copy_from_slice(&tunnel.header);
        let gtpu_at = usize::from(tunnel.len);
        head[ip_len + 4..ip_len + 6].copy_from_slice(&udp_len.to_be_bytes());
        let gtpu_len = udp_len - 16;
        let container = qfi != NONE8;
        head[gtpu_at] = gtpu::flag::VERSION_1 | if container { gtpu::flag::E } else { 0 };
        head[gtpu_at + 1] = gtpu::message_type::G_PDU;
        head[gtpu_at + 2..gtpu_at + 4].copy_from_slice(&gtpu_len.to_be_bytes());
        head[gtpu_at + 4..gtpu_at + 8].copy_from_slice(&teid.to_be_bytes());
        if container {
            // Sequence and N-PDU number absent, next extension: one of 4 bytes, DL PDU SESSION INFORMATION.
            let bytes = [0, 0, 0, gtpu::extension_type::PDU_SESSION_CONTAINER, 1, 0, qfi & 0x3f, 0];
            head[gtpu_at + 8..gtpu_at + 16].copy_from_slice(&bytes);
        }
        if tunnel.version == 4 {
            let total = overhead + user;
            head[1] = tos;
            head[2..4].copy_from_slice(&total.to_be_bytes());
            let sum = checksum::combine(checksum::combine(tunnel.sum, total), tos.into());
            head[10..12].copy_from_slice(&checksum::finish(sum).to_be_bytes());
        } else {
            head[0] = 0x60 | tos >> 4;
            head[1] = tos << 4;
            head[4..6].copy_from_slice(&udp_len.to_be_bytes());
        }
        let overhead = usize::from(overhead);
        let Some(place) = bytes.get_mut(..overhead) else { return false };
        place.copy_from_slice(&head[..overhead]);
        if tunnel.version == 6 && self.checksum6 == Checksum6::Full {
            let sum = checksum::combine(checksum::sum(&bytes[ip_len..]), checksum::combine(tunnel.sum, udp_len));
            bytes[ip_len + 6..ip_len + 8].copy_from_slice(&checksum::finish_udp(sum).to_be_bytes());
        }
        true
    }
}
