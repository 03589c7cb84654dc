//! The control side of a user plane: forwarding tables, neighbours, sessions; the other end of the workers' rings.
//!
//! It runs on a thread of its own and is driven by [`Control::poll`]; nothing here is on a packet's path.

mod events;
mod hand_over;
mod link;
mod neighbourhood;
mod reload;
mod simulated;
mod told;
mod wait;

pub use link::Link;
pub use reload::{Change, LIMITS, PublicRange};
pub use told::{Answer, AskError, ControlCounters, Report};

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use dataplane::acl::LiveLists;
use dataplane::forward::{Forwarding, InstanceId, Neighbourhood, Plan};
use dataplane::neighbour::NeighbourCache;
use table::snapshot::Publisher;
use table::waker::Waker;
use wire::gtpu;

use crate::assemble::RING;
use crate::compile::{CompileError, Compiled, Ways, compile};
use crate::fast;
use crate::gateway::Command;
use crate::record::Bounds;
use crate::remotes::Remotes;
use crate::routes::Route;
use crate::rules::{Session, TunnelEnd, Volumes};
use crate::simulate::Simulator;
use gateway::nat::log::{BlockCounters, NatLog};
use gateway::snapshot::KernelCounters;
use link::Purpose;
use simulated::Churn;
pub use simulated::steer;

/// Control.
pub struct Control {
    neighbourhood: Neighbourhood,
    publisher: Publisher<Forwarding>,
    links: Vec<Link>,
    waker: Waker,
    simulator: Option<Simulator>,
    /// Keys (per worker) of packets that wait for a neighbour.
    waiting: HashMap<(u16, IpAddr), HashSet<(usize, u32)>>,
    counters: ControlCounters,
    answers: VecDeque<(u64, Answer)>,
    reports: VecDeque<Report>,
    remotes: Remotes,
    next_caller: u64,
    churn: Churn,
    /// Simulated subscribers that are being paged: when they will be back, worker, handle.
    paging: VecDeque<(u64, u16, u32)>,
    announced: bool,
    /// The last turn took events of workers.
    took_events: bool,
    /// NAT blocks, as workers tell of them.
    nat_log: NatLog,
    /// Access lists; none: there were none at the start.
    lists: Option<LiveLists>,
    /// Public addresses that workers have for translation.
    nat: Option<dataplane::nat::Addresses>,
    /// Pages that subscribers are sent to, by their numbers on workers.
    pages: HashMap<Box<str>, u32>,
    /// Control planes' functions that packets are sent to, by their numbers on workers.
    control_ends: Vec<IpAddr>,
    /// The in-kernel path, where there is one.
    fast: Option<fast::Publisher>,
}

/// Events of a worker seen to in a turn, so that a flood of them does not starve the rest.
const EVENTS: usize = 1024;

/// Pages that subscribers are sent to at most: what rules can make workers remember.
const PAGES: usize = 1024;

/// Addresses of control planes' functions at most: what rules can make control remember.
const CONTROL_ENDS: usize = 4096;

/// What rules name is entered where it is new.
struct Named<'a>(&'a mut Control);

impl Ways for Named<'_> {
    fn tunnel(&mut self, instance: InstanceId, to: IpAddr) -> Option<u32> {
        self.0.tunnel(instance, to)
    }

    fn control_end(&mut self, address: IpAddr) -> Option<u32> {
        let ends = &mut self.0.control_ends;
        let known = ends.iter().position(|end| *end == address);
        let at = known.or_else(|| {
            let is_new = ends.len() < CONTROL_ENDS;
            is_new.then(|| ends.push(address)).map(|()| ends.len() - 1)
        });
        at.map(|at| at as u32) // a few thousand at most
    }

    fn page(&mut self, url: &str) -> Option<u32> {
        if let Some(number) = self.0.pages.get(url) {
            return Some(*number);
        }
        let page = dataplane::redirect::page(url).filter(|_| self.0.pages.len() < PAGES)?;
        let number = self.0.pages.len() as u32;
        for link in &mut self.0.links {
            link.post(Command::Page { number, page: page.clone() });
        }
        self.0.pages.insert(url.into(), number);
        Some(number)
    }
}

impl Control {
    /// Control of workers with those links, which wake it by that waker.
    pub fn new(
        plan: Plan,
        publisher: Publisher<Forwarding>,
        (links, waker): (Vec<Link>, Waker),
        simulator: Option<Simulator>,
    ) -> Self {
        let sessions = simulator.as_ref().map_or(0, |s| s.count().into());
        Self {
            neighbourhood: Neighbourhood::new(plan),
            publisher,
            links,
            waker,
            simulator,
            waiting: HashMap::new(),
            counters: ControlCounters { sessions, ..ControlCounters::default() },
            answers: VecDeque::new(),
            reports: VecDeque::new(),
            remotes: Remotes::default(),
            next_caller: 0,
            churn: Churn::default(),
            paging: VecDeque::new(),
            announced: false,
            took_events: false,
            nat_log: NatLog::default(),
            lists: None,
            nat: None,
            pages: HashMap::new(),
            control_ends: Vec::new(),
            fast: None,
        }
    }

    /// Has the in-kernel path have the forwarding tables too, as they are and from now on.
    pub fn set_fast_path(&mut self, mut fast: fast::Publisher) {
        let plan = self.neighbourhood.plan();
        fast.publish(plan, &plan.compile());
        if let Some(lists) = &self.lists {
            fast.publish_lists(lists.reader().get(), 0, 0);
        }
        if let Some(addresses) = &self.nat {
            fast.publish_ranges(&addresses.ranges());
        }
        self.fast = Some(fast);
    }

    /// What the in-kernel path has counted; none: there is none.
    pub fn fast_path(&self) -> Option<fast::Counts> {
        self.fast.as_ref().map(|fast| fast.path().counts())
    }

    /// The same in numbers that all gateways show.
    pub fn kernel_counters(&self) -> Option<KernelCounters> {
        self.fast.as_ref().map(|fast| fast.path().summary())
    }

    /// With the log of NAT blocks.
    pub(crate) fn with_nat_log(self, nat_log: NatLog) -> Self {
        Self { nat_log, ..self }
    }

    /// With access lists as published to its workers, and what they count.
    pub fn with_lists(self, lists: Option<LiveLists>) -> Self {
        Self { lists, ..self }
    }

    /// With the public addresses that its workers have.
    pub(crate) fn with_nat(self, nat: Option<dataplane::nat::Addresses>) -> Self {
        Self { nat, ..self }
    }

    /// The log of NAT blocks.
    pub(crate) fn nat_log(&mut self) -> &mut NatLog {
        &mut self.nat_log
    }

    /// NAT blocks given out and ended.
    pub fn nat_blocks(&self) -> BlockCounters {
        self.nat_log.counters()
    }

    /// Packets and bytes by access rule since the lists were replaced last, in the order they are configured in, each list's default behind its rules.
    pub fn acl_hits(&self, counter: u32) -> (u64, u64) {
        let Some(lists) = &self.lists else { return (0, 0) };
        let (by_workers, first) = (lists.of(counter), lists.first());
        let in_kernel = self.fast.as_ref().map_or((0, 0), |fast| fast.hits(first, counter));
        (by_workers.0 + in_kernel.0, by_workers.1 + in_kernel.1)
    }

    /// The simulated control plane, if there is one.
    pub fn simulator(&self) -> Option<&Simulator> {
        self.simulator.as_ref()
    }

    /// What it has seen and done.
    pub fn counters(&self) -> ControlCounters {
        self.counters
    }

    /// Neighbours: port, address, state, hardware address.
    pub fn neighbours(&self) -> &NeighbourCache {
        self.neighbourhood.cache()
    }

    /// The number of the tunnel to an address; published with the next [`Control::publish`] when it is new.
    pub fn tunnel(&mut self, instance: InstanceId, to: IpAddr) -> Option<u32> {
        self.neighbourhood.tunnel(instance, to, gtpu::PORT)
    }

    /// Compiles rules for a session, entering the tunnels they name.
    ///
    /// # Errors
    /// The rule that is invalid.
    pub fn compile(&mut self, session: &Session, handle: u32) -> Result<Compiled, CompileError> {
        compile(session, handle, &mut Named(self))
    }

    /// Makes room for so many sessions: they come in quicker then.
    pub fn reserve(&mut self, sessions: usize) {
        self.remotes.reserve(sessions);
    }

    /// Compiles rules for a session that is put in place before its worker runs.
    ///
    /// # Errors
    /// The rule that is invalid.
    pub fn adopt(&mut self, worker: u16, handle: u32, session: &Session) -> Result<Compiled, CompileError> {
        let compiled = self.compile(session, handle)?;
        self.remotes.set((worker, handle), session);
        Ok(compiled)
    }

    /// Publishes the forwarding tables if they changed.
    pub fn publish(&mut self) {
        if let Some(tables) = self.neighbourhood.tables() {
            if let Some(fast) = &mut self.fast {
                fast.publish(self.neighbourhood.plan(), &tables);
            }
            self.publisher.publish(tables);
            self.counters.published += 1;
            for link in &self.links {
                link.waker.nudge();
            }
        }
        self.publisher.reclaim();
    }

    /// Has a worker take in a session (or replace its rules); the answer comes by [`Control::answer`] under the number
    /// returned.
    ///
    /// # Errors
    /// Rules that make no session, or a full command ring.
    pub fn install(&mut self, worker: u16, handle: u32, session: &Session) -> Result<u64, AskError> {
        self.change(worker, handle, session, 0, false)
    }

    /// As [`install`](Self::install); with the answer comes what up to `measure` URRs of the rules replaced had counted,
    /// and with the change what waits for the subscriber is thrown away if it `discards`.
    ///
    /// # Errors
    /// Rules that make no session, or a full command ring.
    pub fn change(
        &mut self,
        worker: u16,
        handle: u32,
        session: &Session,
        measure: usize,
        discards: bool,
    ) -> Result<u64, AskError> {
        let mut compiled = Box::new(self.compile(session, handle)?);
        (compiled.before, compiled.discards) = (Vec::with_capacity(measure), discards);
        // Tunnels first: the worker must know them when it meets the session.
        self.publish();
        let number = self.ask(worker, Command::Install { handle, session: compiled })?;
        self.remotes.set((worker, handle), session);
        Ok(number)
    }

    /// A session has kept these rules: its worker refused those it was asked to take in.
    pub fn kept(&mut self, worker: u16, handle: u32, session: &Session) {
        self.remotes.set((worker, handle), session);
    }

    /// Has a worker take a session out.
    ///
    /// # Errors
    /// A full command ring, or no worker of that number.
    pub fn remove(&mut self, worker: u16, handle: u32) -> Result<u64, AskError> {
        let number = self.ask(worker, Command::Remove { handle })?;
        self.remotes.forget((worker, handle));
        Ok(number)
    }

    /// Asks what a session has used.
    ///
    /// # Errors
    /// A full command ring, or no worker of that number.
    pub fn measure(&mut self, worker: u16, handle: u32) -> Result<u64, AskError> {
        self.ask(worker, Command::Measure { handle })
    }

    /// Whether a worker's command ring takes a command more; one that is not there is asked in vain, with its own error.
    pub fn has_room(&self, worker: u16) -> bool {
        self.has_room_for(worker, 1)
    }

    /// As [`has_room`](Self::has_room), for so many commands.
    pub(crate) fn has_room_for(&self, worker: u16, commands: usize) -> bool {
        self.links.get(usize::from(worker)).is_none_or(|link| link.commands.unanswered() + commands <= RING)
    }

    /// Whether less than half of a worker's command ring is in use: what no control plane waits for is sent only then, so
    /// that requests find room.
    pub(crate) fn has_background_room(&self, worker: u16) -> bool {
        self.links.get(usize::from(worker)).is_none_or(|link| link.commands.unanswered() < RING / 2)
    }

    fn ask(&mut self, worker: u16, command: Command) -> Result<u64, AskError> {
        let link = self.links.get_mut(usize::from(worker)).ok_or(AskError::NoWorker(worker))?;
        let number = self.next_caller;
        link.send(command, Purpose::Caller(number)).map_err(|_| AskError::Busy)?;
        self.next_caller += 1;
        Ok(number)
    }

    /// A URR of a session has reported: what it may count from now on, in all since its beginning.
    pub fn reported(&mut self, worker: u16, handle: u32, urr: u32, threshold: Volumes, quota: Volumes) {
        if let Some(link) = self.links.get_mut(usize::from(worker)) {
            link.post(Command::Reported { handle, urr, bounds: Bounds::of(threshold, quota) });
        }
    }

    /// A session of a worker has these networks behind it, and no longer those: all workers hear of it, for packets to them
    /// may come in anywhere.
    pub(crate) fn steer_routes(
        &mut self,
        worker: u16,
        gone: impl Iterator<Item = Route>,
        new: impl Iterator<Item = Route>,
    ) {
        if self.links.len() < 2 {
            return;
        }
        for (route, owner) in gone.map(|route| (route, None)).chain(new.map(|route| (route, Some(worker)))) {
            self.links.iter_mut().for_each(|link| link.post(Command::Steer { route, owner }));
        }
    }

    /// Has a worker take in a packet that a control plane's function sent into a tunnel of ours.
    ///
    /// # Errors
    /// A worker with its command ring full, or none of that number.
    pub fn from_control(&mut self, worker: u16, teid: u32, packet: &[u8]) -> Result<(), AskError> {
        let link = self.links.get_mut(usize::from(worker)).ok_or(AskError::NoWorker(worker))?;
        let command = Command::FromControl { teid, packet: packet.to_vec() };
        link.send(command, Purpose::Nothing).map_err(|_| AskError::Busy)
    }

    /// Has a worker throw away what waits for a subscriber.
    pub(crate) fn discard(&mut self, worker: u16, handle: u32) {
        if let Some(link) = self.links.get_mut(usize::from(worker)) {
            link.post(Command::Discard { handle });
        }
    }

    /// Has a worker send an End Marker to where packets went until now.
    pub fn end_marker(&mut self, worker: u16, instance: InstanceId, end: TunnelEnd) {
        let Some(tunnel) = self.tunnel(instance, end.address) else { return };
        self.publish();
        if let Some(link) = self.links.get_mut(usize::from(worker)) {
            link.post(Command::EndMarker { tunnel, teid: end.teid, instance });
        }
    }

    /// Has a worker ask a GTP-U peer whether it is there.
    pub fn echo(&mut self, instance: InstanceId, peer: IpAddr, sequence: u16) {
        let Some(tunnel) = self.tunnel(instance, peer) else { return };
        self.publish();
        if let Some(link) = self.links.first_mut() {
            link.post(Command::Echo { tunnel, sequence, instance });
        }
    }

    /// Ports, routes and neighbours as they are.
    pub fn plan(&self) -> &Plan {
        self.neighbourhood.plan()
    }

    /// The next answer to something asked: its number and what came of it.
    pub fn answer(&mut self) -> Option<(u64, Answer)> {
        self.answers.pop_front()
    }

    /// The next event of a session that no request caused. Those that are not taken are lost, counted.
    pub fn report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// How often peers did not know a tunnel of a session.
    pub fn error_indications_of(&self, worker: u16, handle: u32) -> u64 {
        self.remotes.errors((worker, handle))
    }

    /// Does what is due at `now` (the workers' clock, in nanoseconds): events, replies, neighbours, churn.
    pub fn poll(&mut self, now: u64) {
        if !self.announced {
            self.announced = true;
            self.announce();
        }
        self.took_events = false;
        for worker in 0..self.links.len() {
            self.take_replies(worker);
            for _ in 0..EVENTS {
                let Some(event) = self.links[worker].events.pop() else { break };
                self.on_event(worker, event, now);
                self.took_events = true;
            }
            self.links[worker].flush();
        }
        self.act(now);
        self.page(now);
        self.churn(now);
        self.publish();
        self.took_events |= self.nat_log.poll(now);
        if let Some(lists) = &mut self.lists {
            lists.reclaim();
        }
    }
}
