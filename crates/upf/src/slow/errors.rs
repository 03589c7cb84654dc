//! ICMP errors and fragments.

use engine::{Drop, Env, Punt};
use frame::Frame;
use stages::forward::{InstanceId, NONE};
use stages::fragment::{Plan, dont_fragment};
use stages::icmp::{self, Error4, Error6, may_answer};
use stages::parse::HasIp;
use stages::route::HasForwarding;
use table::records::LineId;

use super::{SlowPath, Way};
use crate::config::Role;
use crate::lane::{Lane, State};
use crate::record;

/// An error, in the words of either version.
struct Told {
    v4: Error4,
    v6: Error6,
}

impl SlowPath {
    /// RFC 1812, 5.3.1; RFC 4443, 3.3.
    pub(super) fn ttl_expired(
        &mut self,
        lane: &Lane,
        i: usize,
        frame: &Frame,
        state: &State,
        roles: &[Role],
        env: &mut Env,
    ) {
        env.stats.drop_outside(Drop::TtlExpired, frame.len());
        let told = Told { v4: Error4::TimeExceeded, v6: Error6::TimeExceeded };
        self.tell_sender(lane, i, frame, &told, state, roles, env);
    }

    /// A packet larger than its way: in pieces (RFC 791), or back with the size that fits (RFC 1191, RFC 8201).
    pub(super) fn oversize(
        &mut self,
        lane: &Lane,
        i: usize,
        frame: &Frame,
        state: &State,
        roles: &[Role],
        env: &mut Env,
    ) {
        let mtu = state.forwarding().hop(lane.hop[i]).map_or(0, |hop| hop.mtu.saturating_sub(lane.overhead[i]));
        let (version, total) = (lane.ip(i).version, lane.ip(i).total_len as usize);
        let l3 = usize::from(frame.meta.l3);
        let arena = env.pool.arena().clone();
        let packet = arena.bytes(frame).get(l3..l3 + total).unwrap_or_default();
        if version == 4 && !dont_fragment(packet) {
            let way = Way { session: lane.session[i], action: lane.action[i], instance: lane.instance[i] };
            if let Ok(plan) = Plan::new(packet, mtu.into()) {
                env.stats.consumed(Punt::Oversize);
                for piece in plan.pieces() {
                    let made = make(env, |space| piece.write(space));
                    match made {
                        Some(made) => self.originate(made, way, env),
                        None => {
                            env.stats.add(engine::Io::Originated, 1);
                            env.stats.drop_outside(Drop::NoFrame, piece.len());
                        }
                    }
                }
                return;
            }
        }
        env.stats.drop_outside(Drop::TooBig, frame.len());
        let told = Told { v4: Error4::FragmentationNeeded { mtu }, v6: Error6::PacketTooBig { mtu: mtu.into() } };
        self.tell_sender(lane, i, frame, &told, state, roles, env);
    }

    /// Sends an ICMP error to the packet's source, if it may be told and the limit allows.
    #[allow(clippy::too_many_arguments)]
    fn tell_sender(
        &mut self,
        lane: &Lane,
        i: usize,
        frame: &Frame,
        told: &Told,
        state: &State,
        roles: &[Role],
        env: &mut Env,
    ) {
        let l3 = usize::from(frame.meta.l3);
        let arena = env.pool.arena().clone();
        let packet = arena.bytes(frame).get(l3..l3 + lane.ip(i).total_len as usize).unwrap_or_default();
        if !may_answer(packet) || !self.icmp.allow(env.now) {
            return;
        }
        // What goes into a tunnel came from the core; anything else came from a subscriber.
        let from_core = lane.tunnel[i] != NONE || roles.get(usize::from(frame.meta.port)) == Some(&Role::Core);
        let session = lane.session[i];
        let Some(instance) = state.sessions.head(session).map(|head| head.instance) else { return };
        let way = if from_core {
            Some(Way { session: LineId(0), action: 0, instance })
        } else {
            towards_subscriber(state, session)
        };
        let Some(way) = way else { return };
        let made = if lane.ip(i).version == 4 {
            let Some(ours) = our4(state, instance) else { return };
            make(env, |space| icmp::error4(space, ours.into(), told.v4, packet))
        } else {
            let Some(ours) = our6(state, instance) else { return };
            make(env, |space| icmp::error6(space, ours.into(), told.v6, packet))
        };
        if let Some(made) = made {
            self.originate(made, way, env);
        }
    }
}

/// The way to a session's subscriber: the downlink rule of least precedence, which is the one for everything.
pub(super) fn towards_subscriber(state: &State, session: LineId) -> Option<Way> {
    let lines = state.sessions.record(session)?;
    let head = record::head(lines)?;
    let rule = record::matches(lines, head).get(usize::from(head.up)..)?.last()?;
    Some(Way { session, action: rule.action, instance: 0 })
}

fn our4(state: &State, instance: InstanceId) -> Option<u32> {
    let mut ports = state.forwarding().ports.iter().filter(|p| p.instance == instance);
    ports.find_map(|p| p.v4.first()).map(|(address, _)| *address)
}

fn our6(state: &State, instance: InstanceId) -> Option<u128> {
    let mut ports = state.forwarding().ports.iter().filter(|p| p.instance == instance);
    ports.find_map(|p| p.v6.first()).map(|(address, _)| *address)
}

/// A new frame filled by `write`, which says how long it is. None: no slot, or it did not fit.
pub(super) fn make(env: &mut Env, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Frame> {
    let mut frame = env.pool.take()?;
    let arena = env.pool.arena();
    match write(arena.space_mut(&mut frame)) {
        Some(len) => {
            arena.set_len(&mut frame, len);
            Some(frame)
        }
        None => {
            env.pool.give(frame);
            None
        }
    }
}
