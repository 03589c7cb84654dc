//! Packets between subscribers and control planes' functions (N4-u; 3GPP TS 29.244, 5.3.3): router solicitations and
//! advertisements, mostly. Control sends and receives them at the N4 address.

use std::collections::VecDeque;

use dataplane::forward::NONE;
use dataplane::limit::{Allowance, Limit};
use dataplane::parse::HasIp;
use engine::{Burst, Env, Io};
use frame::Frame;
use wire::L3L4;

use super::{Event, SlowPath};
use crate::lane::{Lane, State, Upf};
use crate::record::{NONE8, kind};
use crate::{drops, punts};

/// Packets a second and worker for control planes: some solicitations of each of many subscribers that attach at once.
const FOR_CONTROL: Allowance = Allowance::new(2000, 500);
/// Packets from control planes that wait for their pipeline.
const FROM_CONTROL: usize = 256;

/// What a worker keeps of them.
pub(super) struct ControlPackets {
    limit: Limit,
    /// From control planes: the packet, which begins with its IP header, and our tunnel endpoint it came by.
    from: VecDeque<(Frame, L3L4, u32)>,
}

impl Default for ControlPackets {
    fn default() -> Self {
        Self { limit: Limit::new(FOR_CONTROL), from: VecDeque::with_capacity(FROM_CONTROL) }
    }
}

impl ControlPackets {
    pub fn held(&self) -> usize {
        self.from.len()
    }

    pub fn close(&mut self, env: &mut Env) {
        for (frame, ..) in self.from.drain(..) {
            env.stats.drop_outside(drops::SESSION_GONE, frame.len());
            env.pool.give(frame);
        }
    }

    /// Fills the burst with packets from control planes, as if they had come in by their tunnels.
    pub fn poll(&mut self, burst: &mut Burst<Upf>, state: &State, env: &mut Env) -> bool {
        while burst.len() < frame::BURST {
            let Some((mut frame, ip, teid)) = self.from.pop_front() else { break };
            frame.meta.l3 = 0;
            match burst.push(frame) {
                Ok(i) => {
                    let lane = &mut burst.lane;
                    *lane.ip_mut(i) = ip;
                    (lane.teid[i], lane.qfi[i]) = (teid, NONE8);
                    lane.hash[i] = state.sessions.prefetch_teid(teid);
                }
                Err(frame) => {
                    env.stats.drop_outside(drops::OUT_QUEUE_FULL, frame.len());
                    env.pool.give(frame);
                }
            }
        }
        !self.from.is_empty()
    }
}

impl SlowPath {
    /// Hands a packet that is for a control plane's function to control.
    pub(super) fn send_to_control(&mut self, lane: &Lane, i: usize, frame: &Frame, state: &State, env: &mut Env) {
        let action = state.sessions.action(lane.session[i], lane.action[i]);
        let action = action.filter(|action| action.what() == kind::CONTROL && action.tunnel != NONE);
        let Some((end, teid)) = action.and_then(|action| Some((action.tunnel, action.teid()?))) else {
            return env.stats.drop_outside(drops::NO_CONTROL_PATH, frame.len());
        };
        if !self.has_room() || !self.control.limit.allow(env.now) {
            return env.stats.drop_outside(drops::CONTROL_BUSY, frame.len());
        }
        let l3 = usize::from(frame.meta.l3);
        let packet = env.arena().bytes(frame).get(l3..l3 + lane.ip(i).total_len as usize).unwrap_or_default().into();
        // There is room: it was just checked, and this is the only producer.
        let _ = self.events.push(Event::ForControl { end, teid, packet });
        env.stats.terminated(punts::CONTROL_PLANE);
    }

    /// Takes in a packet that a control plane's function sent into a tunnel of ours.
    pub(crate) fn take_from_control(&mut self, teid: u32, packet: &[u8], env: &mut Env) {
        env.stats.add(Io::Originated, 1);
        let ip = L3L4::parse(packet).ok().filter(|ip| ip.total_len as usize <= packet.len());
        let why = match ip {
            None => drops::MALFORMED,
            Some(_) if self.control.from.len() == FROM_CONTROL => drops::CONTROL_BUSY,
            Some(ip) => match env.pool.make(packet.get(..ip.total_len as usize).unwrap_or_default()) {
                Some(frame) => return self.control.from.push_back((frame, ip, teid)),
                None => drops::NO_FRAME,
            },
        };
        env.stats.drop_outside(why, packet.len());
    }
}
