//! A worker's gateway.

use dataplane::{parse, shared};
use engine::{Burst, Clock, Ctx, Env, PortId, SteerKey, TraceFilter};
use table::command::Inbox;
use table::waker::Waker;
use wire::Outer;

use super::slow::SlowPath;
use super::{Origin, Routed, State};

/// What control asks of a worker.
pub(super) enum Command<T> {
    /// Add what it knows to the report's rows.
    Report(Vec<T>),
    /// Send a complete frame.
    Send(PortId, Vec<u8>),
}

/// What a worker answers.
pub(super) enum Answer<T> {
    Report(Vec<T>),
    /// Sent, or dropped and counted; the bytes are control's to free.
    Sent(#[expect(dead_code, reason = "carried back to be freed")] Vec<u8>),
}

/// Commands carried out in a turn at most.
const COMMANDS: usize = 32;

/// One worker's gateway.
pub struct Plane<R: Routed> {
    pub(super) pipelines: R::Pipelines,
    pub(super) state: State<R>,
    pub(super) slow: SlowPath,
    pub(super) inbox: Inbox<Command<R::Row>, Answer<R::Row>>,
    pub(super) waker: Waker,
    /// Wakes control for an event or an answer.
    pub(super) control: Waker,
    /// Events that control has been woken for.
    pub(super) told: u64,
}

impl<R: Routed> Plane<R> {
    /// What its stages share.
    pub fn state(&self) -> &State<R> {
        &self.state
    }

    /// Wakes control if it sleeps and there are events or answers since the last call.
    #[inline]
    fn call_control(&mut self, answers: usize) {
        let told = self.slow.told();
        if answers > 0 || told != self.told {
            self.told = told;
            self.control.nudge();
        }
    }
}

impl<R: Routed> engine::Gateway for Plane<R> {
    type Kind = R::Kind;

    #[inline]
    fn receive<C: Clock>(&mut self, port: PortId, burst: &mut Burst<R::Kind>, env: &Env) {
        R::run::<C>(&mut self.pipelines, Origin::Port(port), burst, &mut Ctx::new(&mut self.state, env));
    }

    fn punted(&mut self, burst: &mut Burst<R::Kind>, env: &mut Env) {
        self.slow.see_to(burst, false, self.state.tables.in_hand(), env);
    }

    fn release<C: Clock>(&mut self, burst: &mut Burst<R::Kind>, env: &mut Env) -> bool {
        if !self.slow.next(burst, self.state.tables.in_hand(), env) {
            return false;
        }
        R::run::<C>(&mut self.pipelines, Origin::Us, burst, &mut Ctx::new(&mut self.state, env));
        if !burst.punted().is_empty() {
            self.slow.see_to(burst, true, self.state.tables.in_hand(), env);
        }
        self.slow.has_ready()
    }

    fn releases_first(&self) -> bool {
        self.slow.is_releasing()
    }

    fn held(&self) -> usize {
        self.slow.held()
    }

    fn control(&mut self, env: &mut Env) -> usize {
        let own = &self.state.own;
        let done = self.inbox.drain(COMMANDS, |command| match command {
            Command::Report(mut rows) => {
                R::add(own, &mut rows);
                Answer::Report(rows)
            }
            Command::Send(port, frame) => {
                env.send_copy(port, &frame);
                Answer::Sent(frame)
            }
        });
        // Afterwards: what was published before a command was sent is in hand when it has been carried out.
        self.state.tables.renew();
        self.slow.tables_changed(self.state.tables.in_hand());
        self.call_control(done);
        done
    }

    fn tick(&mut self, env: &mut Env) {
        self.slow.tick(self.state.tables.in_hand(), env);
    }

    fn next_deadline(&self) -> Option<u64> {
        self.slow.next_deadline()
    }

    fn follows(&self, filter: &TraceFilter, _port: PortId, packet: &[u8]) -> bool {
        parse::is_from_or_to(packet, filter.subscriber)
    }

    fn close(&mut self, env: &mut Env) {
        self.slow.close(env);
    }

    fn steer_key(&self, _port: PortId, packet: &[u8]) -> Option<SteerKey> {
        let l3 = Outer::parse(packet).ok()?.l3;
        R::owner(&self.state.own, packet.get(usize::from(l3)..)?).map(SteerKey::Owner)
    }

    #[inline]
    fn port_of(&self, device: PortId, packet: &[u8]) -> PortId {
        shared::port_of(self.state.tables.in_hand(), device, packet)
    }

    fn fall_asleep(&mut self) -> bool {
        // What this turn's packets reported to control: the next turn may be far.
        self.call_control(0);
        self.state.tables.park();
        self.inbox.is_empty() && !self.slow.has_ready()
    }

    fn waker(&self) -> Option<&Waker> {
        Some(&self.waker)
    }
}
