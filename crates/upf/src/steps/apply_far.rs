//! What becomes of the packet.

use engine::{At, Burst, Ctx, Drop, Punt, Stage};
use stages::forward::{Forwarding, NONE};
use stages::parse::HasIp;
use stages::route::HasForwarding;
use wire::{checksum, fast, gtpu};

use crate::lane::{Lane, Upf};
use crate::record::{Action, NONE8, apply};

/// Carries out the forwarding action rule (TS 29.244, 5.2.3): drop, buffer (slow path), or forward: into a tunnel or as
/// it is, in which network, with which marking.
pub struct ApplyFar;

impl Stage<Upf> for ApplyFar {
    const NAME: &'static str = "apply_far";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let state = &*cx.state;
        let tables = state.forwarding();
        for i in burst.live() {
            let Some(action) = state.sessions.action(burst.lane.session[i], burst.lane.action[i]) else {
                burst.drop(i, Drop::SessionGone, at);
                continue;
            };
            if action.apply != apply::FORWARD {
                keep_back(burst, i, action.apply, at);
                continue;
            }
            if !forward(&mut burst.lane, i, action, tables) {
                burst.drop(i, Drop::FarIncomplete, at);
                continue;
            }
            if action.tunnel == NONE && action.dscp != NONE8 {
                let l3 = usize::from(burst.frame(i).meta.l3);
                let version = burst.lane.ip(i).version;
                mark(burst.bytes_mut(i, arena).get_mut(l3..).unwrap_or_default(), version, action.dscp);
            }
        }
    }
}

/// Drops the packet, or has it wait for its subscriber.
#[inline(never)]
fn keep_back(burst: &mut Burst<Upf>, i: usize, apply: u8, at: At<'_>) {
    match apply {
        apply::BUFFER => burst.punt(i, Punt::Buffer),
        apply::CLOSED => burst.drop(i, Drop::QuotaExhausted, at),
        apply::REDIRECT => burst.punt(i, Punt::Redirect),
        _ => burst.drop(i, Drop::FarDrop, at),
    }
}

/// Fills in where packet `i` goes. False when its tunnel is not there.
#[inline]
pub(crate) fn forward(lane: &mut Lane, i: usize, action: &Action, tables: &Forwarding) -> bool {
    lane.instance[i] = action.instance;
    lane.tunnel[i] = action.tunnel;
    lane.dscp[i] = action.dscp;
    if action.tunnel == NONE {
        lane.hop[i] = NONE;
        lane.overhead[i] = 0;
        return true;
    }
    let Some(tunnel) = tables.tunnel(action.tunnel) else { return false };
    if tunnel.hop == NONE {
        return false;
    }
    lane.hop[i] = tunnel.hop;
    lane.out_teid[i] = action.teid;
    lane.out_qfi[i] = action.qfi;
    let gtpu = if action.qfi == NONE8 { gtpu::HEADER_LEN } else { gtpu::HEADER_WITH_CONTAINER_LEN };
    lane.overhead[i] = u16::from(tunnel.len) + gtpu as u16; // 64 at most
    true
}

/// Sets the DSCP of a packet, leaving ECN, mending the IPv4 checksum (RFC 2474, 3; RFC 1624).
#[inline(never)]
fn mark(packet: &mut [u8], version: u8, dscp: u8) {
    let Some(word) = fast::be16(packet, 0) else { return };
    if version == 4 {
        let marked = word & 0xff03 | u16::from(dscp) << 2;
        fast::put16(packet, 0, marked);
        if let Some(check) = fast::be16(packet, 10) {
            fast::put16(packet, 10, checksum::adjust16(check, word, marked));
        }
    } else {
        // Version, traffic class, flow label: the class begins at bit 4.
        fast::put16(packet, 0, word & 0xf03f | u16::from(dscp) << 6);
    }
}
