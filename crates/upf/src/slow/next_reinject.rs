//! What leaves one pipeline to go on in another: packets from subscriber to subscriber, packets put together of
//! fragments.

use std::hash::{BuildHasher, RandomState};

use dataplane::acl::{Action, Direction, HasAccessLists};
use dataplane::forward::InstanceId;
use dataplane::parse::HasIp;
use dataplane::reassemble::Whose;
use engine::{Burst, Env, Source};
use frame::Frame;

use super::SlowPath;
use crate::drops;
use crate::lane::{Lane, State, Upf};
use crate::record::NONE8;
use crate::sessions::Sessions;

/// The pipeline that a burst goes on in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextReinject {
    /// What waited, and what is of our own making.
    Released,
    /// From subscriber to subscriber.
    Hairpin,
    /// From access, put together.
    UplinkWhole,
    /// From the core, put together.
    DownlinkWhole,
}

impl SlowPath {
    /// Fills the burst with what goes on next: says where, and whether more is due.
    pub(crate) fn next(&mut self, burst: &mut Burst<Upf>, state: &State, env: &mut Env) -> (NextReinject, bool) {
        if self.control.held() > 0 {
            let more = self.control.poll(burst, state, env);
            return (NextReinject::UplinkWhole, more);
        }
        if self.hairpins.held() > 0 {
            let enter = |burst: &mut Burst<Upf>, i, instance| arrive(burst, i, instance, state, None);
            self.hairpins.poll(burst, env, enter);
            return (NextReinject::Hairpin, true);
        }
        if let Some([up, down]) = &mut self.fragments {
            if up.is_ready() {
                up.poll(burst, env, |burst, i, tag| Tunnelled::from(tag).enter(burst, i, state));
                return (NextReinject::UplinkWhole, true);
            }
            if down.is_ready() {
                let arena = env.pool.arena().clone();
                down.poll(burst, env, |burst, i, tag| {
                    let port = tag as u8; // as it was put there
                    burst.frame_mut(i).meta.port = port;
                    let to6 = (burst.lane.ip(i).version == 6).then(|| burst.lane.ip(i).dst6(burst.bytes(i, &arena)));
                    arrive(burst, i, state.port(port).instance, state, to6);
                });
                return (NextReinject::DownlinkWhole, true);
            }
        }
        (NextReinject::Released, self.poll(burst, state, env))
    }

    /// Holds a user's fragment until the others are there.
    pub(super) fn hold_fragment(&mut self, lane: &Lane, i: usize, frame: &Frame, state: &State, env: &mut Env) {
        let Some([up, down]) = &mut self.fragments else { return };
        let (ip, l3) = (lane.ip(i), usize::from(frame.meta.l3));
        let packet = env.arena().bytes(frame).get(l3..).unwrap_or_default();
        let port = frame.meta.port;
        if lane.teid[i] == 0 {
            // From the core: its destination's.
            let owner = if ip.version == 4 { ip.dst.into() } else { (ip.dst6(packet) >> 64) as u64 };
            return down.hold(packet, ip, Whose { domain: lane.instance[i], owner, tag: port.into() }, env);
        }
        match state.sessions.head(lane.session[i]) {
            // From access: the session's, whatever its addresses say.
            Some(head) => {
                let tag = Tunnelled { teid: lane.teid[i], qfi: lane.qfi[i], port }.into();
                up.hold(packet, ip, Whose { domain: 0, owner: head.handle.into(), tag }, env);
            }
            None => env.stats.drop_outside(drops::SESSION_GONE, frame.len()),
        }
    }
}

/// What is remembered of a tunnel's fragment: how its packet came.
#[derive(Clone, Copy)]
struct Tunnelled {
    teid: u32,
    qfi: u8,
    port: u8,
}

impl Tunnelled {
    fn enter(self, burst: &mut Burst<Upf>, i: usize, state: &State) {
        burst.frame_mut(i).meta.port = self.port;
        let lane = &mut burst.lane;
        (lane.teid[i], lane.qfi[i]) = (self.teid, self.qfi);
        lane.hash[i] = state.sessions.prefetch_teid(self.teid);
    }
}

impl From<Tunnelled> for u64 {
    fn from(tag: Tunnelled) -> Self {
        u64::from(tag.teid) << 32 | u64::from(tag.qfi) << 8 | u64::from(tag.port)
    }
}

impl From<u64> for Tunnelled {
    fn from(bits: u64) -> Self {
        // Exactly the fields put there.
        Self { teid: (bits >> 32) as u32, qfi: (bits >> 8) as u8, port: bits as u8 }
    }
}

/// Takes note of a packet as if it had come in from the core, to the IPv6 address `to6` or to its IPv4 one.
fn arrive(burst: &mut Burst<Upf>, i: usize, instance: InstanceId, state: &State, to6: Option<u128>) {
    let (lane, sessions) = (&mut burst.lane, &state.sessions);
    lane.instance[i] = instance;
    lane.teid[i] = 0;
    lane.qfi[i] = NONE8;
    lane.hash[i] = match to6 {
        Some(to) => sessions.prefetch_v6(instance, (to >> 64) as u64),
        None => Sessions::prefetch_v4(sessions.index4(instance), lane.ip.0[i].dst),
    };
}

/// Whether the access list denies what waits for its subscriber before the stage that asks: an uplink packet.
pub(super) fn is_denied(lane: &Lane, i: usize, frame: &Frame, state: &State, env: &Env) -> bool {
    let action = state.sessions.action(lane.session[i], lane.action[i]).filter(|action| action.is_plain());
    let list = action.and_then(|action| state.access_lists()?.of(action.instance.into()));
    let packet = env.arena().bytes(frame).get(usize::from(frame.meta.l3)..).unwrap_or_default();
    list.is_some_and(|list| list.decide(Direction::Up, lane.ip(i), packet).action == Action::Deny)
}

/// Chance, for what senders must not foresee.
pub(super) fn seed() -> u64 {
    RandomState::new().hash_one(0u64)
}
