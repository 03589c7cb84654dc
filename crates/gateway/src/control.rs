//! Parts of every gateway's control: its ends of a worker's rings, and what it does about neighbours and routes.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use dataplane::forward::{Forwarding, InstanceId, Neighbourhood, Plan, Route, Via};
use dataplane::slow::Heard;
use table::command::{self, Lost};
use table::ring::Consumer;
use table::snapshot::{Publisher, Reader};
use table::waker::Waker;

/// Control's ends of one worker: commands `C`, their answers `A`, events `E`.
pub struct WorkerLink<C, A, E> {
    commands: command::Control<C, A>,
    events: Consumer<E>,
    waker: Waker,
    /// Commands the ring had no room for yet, in order.
    backlog: VecDeque<C>,
}

impl<C: Send, A: Send, E: Send> WorkerLink<C, A, E> {
    /// The ends as made.
    pub fn new(commands: command::Control<C, A>, events: Consumer<E>, waker: Waker) -> Self {
        Self { commands, events, waker, backlog: VecDeque::new() }
    }

    /// Sends a command now, or as soon as there is room.
    pub fn post(&mut self, command: C) {
        self.backlog.push_back(command);
        self.flush();
    }

    /// Sends what there is room for by now.
    pub fn flush(&mut self) {
        while let Some(command) = self.backlog.pop_front() {
            if let Err(command) = self.commands.send(command) {
                self.backlog.push_front(command);
                break;
            }
            self.waker.nudge();
        }
    }

    /// The worker's next event.
    pub fn event(&mut self) -> Option<E> {
        self.events.pop()
    }

    /// The answer to the next command; [`Lost`] when the worker ended before it.
    pub fn answer(&mut self) -> Option<Result<A, Lost>> {
        self.commands.poll().map(|(_, answer)| answer)
    }

    /// Whether the worker has events or answers.
    pub fn has_news(&mut self) -> bool {
        !self.events.is_empty() || self.commands.has_answers()
    }

    /// Whether commands wait for room.
    pub fn is_behind(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Wakes the worker: tables were published.
    pub fn nudge(&self) {
        self.waker.nudge();
    }
}

/// Neighbours and routes as control keeps them, and the tables that workers read. Frames to send are given to `send`, with
/// their ports.
pub struct Routing {
    neighbourhood: Neighbourhood,
    tables: Publisher<Forwarding>,
    has_begun: bool,
}

impl Routing {
    /// Of a plan, whose tables are published at once.
    pub fn new(plan: Plan) -> Self {
        let tables = Publisher::new(plan.compile());
        Self { neighbourhood: Neighbourhood::new(plan), tables, has_begun: false }
    }

    /// A reader for a worker.
    pub fn reader(&self) -> Reader<Forwarding> {
        self.tables.reader()
    }

    /// Neighbours and routes, to be changed; what changes is published with the next [`turn`](Self::turn).
    pub fn neighbourhood(&mut self) -> &mut Neighbourhood {
        &mut self.neighbourhood
    }

    /// Ports, routes and neighbours as they are.
    pub fn plan(&self) -> &Plan {
        self.neighbourhood.plan()
    }

    /// Replaces the routes beside the connected ones, with the next [`turn`](Self::turn).
    pub fn set_routes(&mut self, routes: Vec<Route>) {
        self.neighbourhood.set_routes(routes);
    }

    /// Takes in a message of ARP or neighbour discovery.
    pub fn hear(&mut self, heard: &Heard, now: u64) {
        self.neighbourhood.hear(heard.port, &heard.message, heard.for_us, now);
    }

    /// Resolves the neighbour on the way to an address; packets for it are dropped by name until it has answered.
    pub fn want(&mut self, instance: InstanceId, address: IpAddr, now: u64) {
        let _ = self.neighbourhood.want(instance, address, now);
    }

    /// What is due. The first time, the ports' addresses are announced and routers are resolved. Whether tables were published:
    /// then workers are to be woken.
    pub fn turn(&mut self, now: u64, mut send: impl FnMut(u8, Vec<u8>)) -> bool {
        if !self.has_begun {
            self.has_begun = true;
            self.plan().announcements().into_iter().for_each(|(port, frame)| send(port, frame));
            let router = |route: &Route| match route.via {
                Via::Gateway(via) => Some((route.instance, via)),
                Via::Neighbour { .. } | Via::Port(_) => None,
            };
            let routers: Vec<_> = self.plan().routes.iter().filter_map(router).collect();
            routers.into_iter().for_each(|(instance, address)| self.want(instance, address, now));
        }
        self.neighbourhood.act(now, send);
        let is_new = self.publish();
        self.tables.reclaim();
        is_new
    }

    pub(crate) fn publish(&mut self) -> bool {
        let tables = self.neighbourhood.tables();
        tables.map(|tables| self.tables.publish(tables)).is_some()
    }

    /// When [`turn`](Self::turn) has something to do next, in nanoseconds; 0: now.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.has_begun { self.neighbourhood.next_deadline() } else { Some(0) }
    }
}

/// A worker answers in its next turn; a stopped one never.
const PATIENCE: Duration = Duration::from_millis(500);

/// Waits for what workers were asked: looks until `look` finds it.
///
/// # Errors
/// No answer within half a second; a sentence.
pub fn answered<T>(mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if Instant::now() > until {
            return Err("a worker does not answer".to_owned());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}
