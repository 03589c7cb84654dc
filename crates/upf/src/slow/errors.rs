//! ICMP errors and fragments.

use dataplane::forward::InstanceId;
use dataplane::icmp::Told;
use dataplane::nat::Side;
use dataplane::parse::HasIp;
use dataplane::route::HasForwarding;
use dataplane::slow::{self, Speaker, make};
use engine::{Drop, Env};
use frame::Frame;
use table::records::LineId;

use super::{Reinject, SlowPath};
use crate::drops;
use crate::lane::{Lane, State};
use crate::record;

/// What an error is about: a packet, and the rule of the session it came by.
pub(super) struct About<'a> {
    pub(super) packet: &'a [u8],
    pub(super) session: LineId,
    pub(super) action: u8,
}

impl SlowPath {
    /// Drops a packet for a reason and sends an ICMP error to its source.
    pub(super) fn refuse(
        &mut self,
        (why, told): (Drop, Told),
        lane: &Lane,
        i: usize,
        frame: &Frame,
        state: &State,
        env: &mut Env,
    ) {
        env.stats.drop_outside(why, frame.len());
        let arena = env.pool.arena().clone();
        let about = About { packet: whole(lane, i, arena.bytes(frame), frame), ..about(lane, i) };
        self.tell_sender(&about, told, state, env);
    }

    /// A packet larger than its way: in pieces (RFC 791), or back with the size that fits.
    pub(super) fn oversize(&mut self, lane: &Lane, i: usize, frame: &Frame, state: &State, env: &mut Env) {
        let mtu = state.forwarding().hop(lane.hop[i]).map_or(0, |hop| hop.mtu.saturating_sub(lane.overhead[i]));
        let arena = env.pool.arena().clone();
        let packet = whole(lane, i, arena.bytes(frame), frame);
        let way = Reinject { instance: lane.instance[i], ..Reinject::by(lane.session[i], lane.action[i]) };
        let was_cut = slow::cut(packet, mtu, env, |piece, env| match make(env, |space| piece.write(space)) {
            Some(made) => {
                self.originate(made, way, env);
                true
            }
            None => false,
        });
        if was_cut {
            return;
        }
        self.refuse((drops::TOO_BIG, Told::too_big(mtu)), lane, i, frame, state, env);
    }

    /// Sends an ICMP error to a packet's source, if it may be told and the limit allows: to where it came from, plainly
    /// or through its tunnel.
    pub(super) fn tell_sender(&mut self, about: &About<'_>, told: Told, state: &State, env: &mut Env) {
        let Some((way, instance)) = back(about, state) else { return };
        if !self.responder.may_tell(about.packet, env) {
            return;
        }
        // It is quoted as its sender knows it.
        let packet = match &state.nat {
            Some(nat) => {
                self.undone.clear();
                self.undone.extend_from_slice(about.packet);
                nat.undo(instance, if way.action == 0 { Side::In } else { Side::Out }, &mut self.undone);
                self.undone.as_slice()
            }
            None => about.packet,
        };
        let speaker = Speaker::of(&state.forwarding().ports, instance);
        let made = make(env, |space| speaker.write(space, told, packet));
        if let Some(made) = made {
            self.originate(made, way, env);
        }
    }
}

/// The IP packet in a frame, without what stands before and behind it.
fn whole<'a>(lane: &Lane, i: usize, bytes: &'a [u8], frame: &Frame) -> &'a [u8] {
    let l3 = usize::from(frame.meta.l3);
    bytes.get(l3..l3 + lane.ip(i).total_len as usize).unwrap_or_default()
}

/// The rule a packet came by.
fn about(lane: &Lane, i: usize) -> About<'static> {
    About { packet: &[], session: lane.session[i], action: lane.action[i] }
}

/// The way back to where a packet came from, and the network to speak for. None for packets of our own, and for those
/// that go from tunnel to tunnel: the rule does not tell the tunnel back.
fn back(about: &About<'_>, state: &State) -> Option<(Reinject, InstanceId)> {
    if about.action == 0 {
        return None;
    }
    let lines = state.sessions.record(about.session)?;
    let head = record::head(lines)?;
    let rule = record::matches(lines, head).iter().position(|rule| rule.then.action == about.action)?;
    if rule >= usize::from(head.up) {
        // It came plainly.
        return Some((Reinject { instance: head.instance, ..Reinject::by(LineId(0), 0) }, head.instance));
    }
    let plainly_on = state.sessions.action(about.session, about.action)?.is_plain();
    let way = if plainly_on { towards_subscriber(state, about.session) } else { None };
    Some((way?, head.instance))
}

/// The way to a session's subscriber: the downlink rule of least precedence, which is the one for everything.
pub(super) fn towards_subscriber(state: &State, session: LineId) -> Option<Reinject> {
    let lines = state.sessions.record(session)?;
    let head = record::head(lines)?;
    let rule = record::matches(lines, head).get(usize::from(head.up)..)?.last()?;
    Some(Reinject::by(session, rule.then.action))
}
