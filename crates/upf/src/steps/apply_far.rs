//! What becomes of the packet.

use dataplane::forward::{Forwarding, NONE, Tunnel};
use dataplane::parse::HasIp;
use engine::{At, Burst, Ctx, Stage};
use frame::Arena;
use wire::{checksum, fast, gtpu};

use super::Outwards;
use crate::lane::{Lane, State, Upf};
use crate::record::{Action, Encap, NONE8, container, encap, kind};
use crate::sessions::Sessions;
use crate::slow::Duplicates;
use crate::{drops, punts};

/// Carries out the forwarding action rule (TS 29.244, 5.2.3): drop, buffer (slow path), or forward: into a tunnel or as
/// it is, in which network, with which marking.
#[derive(Default)]
pub struct ApplyFar;

impl Stage<Upf> for ApplyFar {
    const NAME: &'static str = "apply_far";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let State { sessions, forwarding, empty, duplicates, .. } = &mut *cx.state;
        let tables = forwarding.in_hand().unwrap_or(empty);
        for i in burst.live() {
            let Some(action) = sessions.action(burst.lane.session[i], burst.lane.action[i]) else {
                burst.drop(i, drops::SESSION_GONE, at);
                continue;
            };
            if action.kind != kind::FORWARD {
                if action.duplicates() > 0 {
                    duplicate(burst, i, action.duplicates(), sessions, duplicates, arena);
                }
                if action.what() == kind::MARKED {
                    mark_user(burst, i, action.value, arena);
                } else if action.what() != kind::FORWARD {
                    keep_back(burst, i, action.what(), at);
                    continue;
                }
            }
            if !forward(&mut burst.lane, i, action, tables) {
                burst.drop(i, drops::FAR_INCOMPLETE, at);
                continue;
            }
            if burst.lane.tunnel[i] == NONE && action.dscp != NONE8 {
                let l3 = usize::from(burst.frame(i).meta.l3);
                let version = burst.lane.ip(i).version;
                mark(burst.bytes_mut(i, arena).get_mut(l3..).unwrap_or_default(), version, action.dscp);
            }
        }
    }
}

/// Has the slow path send duplicates of the packet, as it is now, where the actions behind its own say.
#[cold]
#[inline(never)]
fn duplicate(burst: &Burst<Upf>, i: usize, count: u8, sessions: &Sessions, into: &mut Duplicates, arena: &Arena) {
    let (l3, ip) = (usize::from(burst.frame(i).meta.l3), burst.lane.ip(i));
    let packet = burst.bytes(i, arena).get(l3..l3 + ip.total_len as usize).unwrap_or_default();
    let at = burst.lane.action[i];
    let actions = (1..=count).filter_map(|n| sessions.action(burst.lane.session[i], at.wrapping_add(n)));
    actions.for_each(|action| into.push(packet, ip.tos, action));
}

/// Drops the packet, or has it wait for its subscriber.
#[inline(never)]
fn keep_back(burst: &mut Burst<Upf>, i: usize, what: u8, at: At<'_>) {
    match what {
        kind::BUFFER => burst.punt(i, punts::BUFFER),
        kind::CLOSED => burst.drop(i, drops::QUOTA_EXHAUSTED, at),
        kind::REDIRECT => burst.punt(i, punts::REDIRECT),
        kind::CONTROL => burst.punt(i, punts::CONTROL_PLANE),
        _ => burst.drop(i, drops::FAR_DROP, at),
    }
}

/// Fills in where packet `i` goes. False when its tunnel is not there.
#[inline]
pub(crate) fn forward(lane: &mut Lane, i: usize, action: &Action, tables: &Forwarding) -> bool {
    lane.instance[i] = action.instance.into();
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
    lane.out_id[i] = action.id;
    lane.out_encap[i] = action.encap;
    let word = action.encap.word();
    let gtpu =
        if word < const { Encap::container(0).word() } { gtpu::HEADER_LEN } else { gtpu::HEADER_WITH_CONTAINER_LEN };
    lane.overhead[i] = u16::from(tunnel.len) + gtpu as u16; // 64 at most
    if word >= const { Encap::container(container::PPP).word() } {
        forward_otherwise(lane, i, action, tunnel);
    }
    true
}

/// Marks the user's packet itself; its tunnel's header says the same, unless the FAR says otherwise.
#[cold]
#[inline(never)]
pub(crate) fn mark_user(burst: &mut Burst<Upf>, i: usize, dscp: u8, arena: &Arena) {
    let (l3, ip) = (usize::from(burst.frame(i).meta.l3), burst.lane.ip_mut(i));
    ip.tos = dscp << 2 | ip.tos & 3;
    let version = ip.version;
    mark(burst.bytes_mut(i, arena).get_mut(l3..).unwrap_or_default(), version, dscp);
}

/// As [`forward`], with a paging policy, into a tunnel that is none of GTP-U, or straight to a next hop.
#[cold]
#[inline(never)]
fn forward_otherwise(lane: &mut Lane, i: usize, action: &Action, tunnel: &Tunnel) {
    if action.encap.has_policy() {
        lane.overhead[i] += container::PPI_LEN;
        return;
    }
    if action.encap.kind == encap::NEXT_HOP {
        (lane.tunnel[i], lane.overhead[i]) = (NONE, 0);
        return;
    }
    let out = Outwards { tunnel, encap: action.encap.kind, id: action.id, tos: 0 };
    lane.overhead[i] = out.len() as u16; // less than 64
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
