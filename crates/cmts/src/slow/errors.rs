//! What a router owes the senders of packets it does not forward: ICMP errors, and fragments of what may be cut.
//!
//! Either goes on as a packet like any other. What is for a subscriber enters the downstream pipeline as if the network
//! had sent it, and so finds its modem, filters and service flow; what is for the network is routed there.

use dataplane::forward::{InstanceId, NONE};
use dataplane::fragment::Piece;
use dataplane::icmp::Told;
use dataplane::parse::HasIp;
use dataplane::route::HasForwarding;
use dataplane::slow::{self, Speaker, Waiting, make};
use engine::{Burst, Drop, Env, Io};
use frame::{BURST, Frame};
use wire::L3L4;

use super::SlowPath;
use crate::drops;
use crate::lane::{Cmts, Lane, State};

/// Where the packets of a burst came from, that some were taken out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedFrom {
    /// A port.
    Port,
    /// Hosts behind modems.
    Modems,
    /// Ourselves.
    Us,
}

/// Where a packet came from, and the network instance it was in, or is to be answered in.
pub(super) type ErrorOrigin = (ReceivedFrom, InstanceId);

/// Where packets of ours go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyTo {
    /// A host behind a modem: by the downstream pipeline.
    Subscriber,
    /// Somewhere in the network.
    Network,
}

/// Packets that wait for their pipeline, in each direction at most.
const MOST: usize = 4 * BURST;

/// Packets of ours that wait for their pipeline.
pub(super) struct Own(Waiting<2>);

impl Default for Own {
    fn default() -> Self {
        Self(Waiting::new(MOST))
    }
}

impl Own {
    pub(super) fn held(&self) -> usize {
        self.0.held()
    }

    fn put(&mut self, towards: ReplyTo, frame: Frame, env: &mut Env) {
        env.stats.add(Io::Originated, 1);
        self.wait(towards, frame, env);
    }

    fn wait(&mut self, towards: ReplyTo, frame: Frame, env: &mut Env) {
        if let Err(frame) = self.0.put(towards as usize, frame) {
            give_up(frame, env);
        }
    }

    pub(super) fn close(&mut self, env: &mut Env) {
        self.0.drain().for_each(|frame| give_up(frame, env));
    }
}

fn give_up(frame: Frame, env: &mut Env) {
    env.stats.drop_outside(drops::LIMITED, frame.len());
    env.pool.give(frame);
}

impl SlowPath {
    /// Packets of ours that wait.
    pub fn held(&self) -> usize {
        self.own.held() + self.unresolved.held()
    }

    /// Packets whose neighbour is known now are routed anew.
    fn resume(&mut self, state: &State, env: &mut Env) {
        while self.own.0.len_of(ReplyTo::Network as usize) < BURST
            && let Some((instance, packet)) = self.unresolved.take_ready()
        {
            env.stats.add(Io::Released, 1);
            let port = state.forwarding().ports.iter().position(|view| view.instance == instance);
            let Some((port, mut frame)) = port.zip(env.pool.make(packet)) else {
                env.stats.drop_outside(drops::NO_FRAME, packet.len());
                continue;
            };
            (frame.meta.l3, frame.meta.port) = (0, port as u8); // fewer than 256 ports
            self.own.wait(ReplyTo::Network, frame, env);
        }
    }

    /// Fills an empty burst with packets of ours that go the same way, and says which; none: there are none.
    pub fn next(&mut self, burst: &mut Burst<Cmts>, state: &State, env: &mut Env) -> Option<ReplyTo> {
        self.resume(state, env);
        let ways = [ReplyTo::Subscriber, ReplyTo::Network];
        let towards = ways.into_iter().find(|towards| self.own.0.port_of(*towards as usize).is_some())?;
        while burst.len() < BURST {
            let Some(frame) = self.own.0.next(towards as usize) else { break };
            let ip = L3L4::parse(env.pool.arena().bytes(&frame));
            // Of the port that speaks for us.
            let network = state.port(frame.meta.port).instance;
            let Ok(i) = burst.push(frame) else { break };
            if towards == ReplyTo::Network {
                let lane = &mut burst.lane;
                *lane.ip_mut(i) = ip.unwrap_or_default();
                (lane.hop[i], lane.instance[i], lane.ours[i]) = (NONE, network, false);
                (lane.modem[i], lane.flow[i]) = (NONE, NONE);
            }
        }
        Some(towards)
    }

    /// Drops a packet under a name and tells its sender.
    pub(super) fn refuse(
        &mut self,
        (why, told): (Drop, Told),
        (came, network): ErrorOrigin,
        packet: &[u8],
        frame: &Frame,
        state: &State,
        env: &mut Env,
    ) {
        env.stats.drop_outside(why, frame.len());
        let to_many = came == ReceivedFrom::Port && env.arena().bytes(frame).first().is_some_and(|byte| byte & 1 == 1);
        if came == ReceivedFrom::Us || to_many || !self.responder.may_tell(packet, env) {
            return;
        }
        let speaker = Speaker::of(&state.forwarding().ports, network);
        self.originate((came, network), state, env, |space| speaker.write(space, told, packet));
    }

    /// A packet larger than its way: in pieces (RFC 791), or back with the size that fits.
    pub(super) fn oversize(
        &mut self,
        (lane, i): (&Lane, usize),
        (came, network): ErrorOrigin,
        packet: &[u8],
        frame: &Frame,
        state: &State,
        env: &mut Env,
    ) {
        let mtu = match came {
            ReceivedFrom::Port => self.mtu,
            _ => state.forwarding().hop(lane.hop[i]).map_or(0, |hop| hop.mtu),
        };
        let onward = if came == ReceivedFrom::Port { ReceivedFrom::Modems } else { ReceivedFrom::Port };
        // Fragments go on where the packet was going: where an answer to one that came from there would go.
        let put = |piece: &Piece<'_>, env: &mut Env| {
            self.originate((onward, network), state, env, |space| piece.write(space))
        };
        if came != ReceivedFrom::Us && slow::cut(packet, mtu, env, put) {
            return;
        }
        self.refuse((drops::TOO_BIG, Told::too_big(mtu)), (came, network), packet, frame, state, env);
    }

    /// Makes a packet that goes back to where another came from; `write` is given room for it. False when
    /// there is no buffer, or no port in its network.
    pub(super) fn originate(
        &mut self,
        (came, network): ErrorOrigin,
        state: &State,
        env: &mut Env,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> bool {
        let ports = &state.forwarding().ports;
        let Some(id) = ports.iter().position(|view| view.instance == network) else { return false };
        let view = &ports[id];
        let towards = if came == ReceivedFrom::Modems { ReplyTo::Subscriber } else { ReplyTo::Network };
        let made = make(env, |space| match towards {
            ReplyTo::Network => write(space),
            ReplyTo::Subscriber => view.write_as_received(space, write),
        });
        match made {
            Some(mut frame) => {
                frame.meta.l3 = 0;
                frame.meta.port = id as u8; // there are fewer than 256
                self.own.put(towards, frame, env);
                true
            }
            None => false,
        }
    }
}
