//! The control side of a user plane: forwarding tables, neighbours, sessions; the other end of the workers' rings.
//!
//! It runs on a thread of its own and is driven by [`Control::poll`]; nothing here is on a packet's path.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use engine::{Overlap, Steer};
use stages::acl::{AccessLists, Hits};
use stages::forward::{Forwarding, InstanceId, Plan};
use stages::neighbour::{
    self, Action, Heard, NeighbourCache, Request, Station, Wanted, arp_announcement, arp_request,
    neighbour_advertisement, neighbour_solicitation,
};
use table::command::{self, Ticket};
use table::ring::Consumer;
use table::snapshot::Publisher;
use table::waker::Waker;
use wire::{Mac, Vlan, gtpu};

use crate::compile::{CompileError, Compiled, Ways, compile};
use crate::gateway::{Command, Reply};
use crate::nat_log::{BlockCounters, NatLog};
use crate::record::Bounds;
use crate::remotes::{Owner, Remotes};
use crate::routes::Route;
use crate::rules::{Session, TunnelEnd, Usage, Volumes};
use crate::sessions::Refused;
use crate::simulate::Simulator;
use crate::slow::Event;

/// Control's ends of one worker.
pub struct Link {
    commands: command::Control<Command, Reply>,
    events: Consumer<Event>,
    waker: Waker,
    /// Commands the ring had no room for yet, in order.
    backlog: VecDeque<Command>,
    /// What was asked for by whom, oldest first: replies come in order.
    asked: VecDeque<(Ticket, Purpose)>,
}

/// What a command was sent for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Churn,
    Caller(u64),
    Nothing,
}

impl Link {
    /// The ends as made.
    pub fn new(commands: command::Control<Command, Reply>, events: Consumer<Event>, waker: Waker) -> Self {
        Self { commands, events, waker, backlog: VecDeque::new(), asked: VecDeque::new() }
    }

    fn send(&mut self, command: Command, purpose: Purpose) -> Result<(), Command> {
        let ticket = self.commands.send(command)?;
        self.asked.push_back((ticket, purpose));
        self.waker.nudge();
        Ok(())
    }

    /// Sends now or as soon as there is room; for what nobody waits for.
    fn post(&mut self, command: Command) {
        if !self.backlog.is_empty() {
            self.backlog.push_back(command);
        } else if let Err(command) = self.send(command, Purpose::Nothing) {
            self.backlog.push_back(command);
        }
    }

    fn flush(&mut self) {
        while let Some(command) = self.backlog.pop_front() {
            if let Err(command) = self.send(command, Purpose::Nothing) {
                self.backlog.push_front(command);
                break;
            }
        }
    }
}

/// What control has seen and done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlCounters {
    /// Sessions there are.
    pub sessions: u64,
    /// Sessions made while running.
    pub made: u64,
    /// Sessions removed while running.
    pub removed: u64,
    /// Sessions a worker refused.
    pub refused: u64,
    /// Octets that removed sessions had used: final usage reports, summed.
    pub reported_bytes: u64,
    /// Error Indications heard from peers.
    pub error_indications: u64,
    /// Those that were about a session of ours.
    pub lost_tunnels: u64,
    /// Reports nobody took.
    pub reports_lost: u64,
    /// Idle subscribers that had packets waiting.
    pub pages: u64,
    /// Times forwarding tables were published.
    pub published: u64,
}

/// A reply that a caller waits for.
#[derive(Debug)]
pub enum Answer {
    /// The session is in place; what the rules it had before measured, if that was asked for.
    Installed(Vec<Usage>),
    /// It is not, and why.
    Refused(Refused),
    /// It is gone, and this is what it had used.
    Removed(Vec<Usage>),
    /// This is what it has used.
    Usage(Vec<Usage>),
    /// There is no such session.
    Unknown,
}

/// What happened to a session, for the control plane to hear (TS 29.244, 7.5.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Packets wait for an idle subscriber: Downlink Data Report.
    Buffered {
        /// The session's handle.
        handle: u32,
        /// The rule they matched.
        pdr: u16,
    },
    /// A bound on usage is reached: Usage Report.
    Reached {
        /// The session's handle.
        handle: u32,
    },
    /// A GTP-U peer answered an Echo Request.
    EchoResponse {
        /// The network it is in.
        instance: InstanceId,
        /// The peer.
        peer: IpAddr,
        /// The request's number.
        sequence: u16,
    },
    /// A peer does not know a tunnel we send into any more: Error Indication Report.
    ErrorIndication {
        /// The session's worker.
        worker: u16,
        /// Its handle there.
        handle: u32,
        /// The peer's address.
        peer: IpAddr,
        /// *Its* tunnel endpoint.
        teid: u32,
    },
}

/// Reports that wait for who takes them, at most.
const REPORTS: usize = 1024;

/// Why a session can not be asked for.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AskError {
    #[error(transparent)]
    Rules(#[from] CompileError),
    #[error("the worker has too many commands to see to; try again")]
    Busy,
    #[error("there is no worker {0}")]
    NoWorker(u16),
}

/// Control.
pub struct Control {
    plan: Plan,
    publisher: Publisher<Forwarding>,
    links: Vec<Link>,
    simulator: Option<Simulator>,
    neighbours: NeighbourCache,
    /// Keys (per worker) of packets that wait for a neighbour.
    waiting: HashMap<(u16, IpAddr), HashSet<(usize, u32)>>,
    actions: Vec<Action>,
    counters: ControlCounters,
    answers: VecDeque<(u64, Answer)>,
    reports: VecDeque<Report>,
    remotes: Remotes,
    next_caller: u64,
    churn: Churn,
    /// Simulated subscribers that are being paged: when they will be back, worker, handle.
    paging: VecDeque<(u64, u16, u32)>,
    dirty: bool,
    announced: bool,
    /// NAT blocks, as workers tell of them.
    nat_log: NatLog,
    lists: Option<Publisher<AccessLists>>,
    /// What access lists have counted.
    hits: Hits,
    /// Pages that subscribers are sent to, by their numbers on workers.
    pages: HashMap<Box<str>, u32>,
}

/// Pages that subscribers are sent to at most: what rules can make workers remember.
const PAGES: usize = 1024;

/// What rules name is entered where it is new.
struct Named<'a>(&'a mut Control);

impl Ways for Named<'_> {
    fn tunnel(&mut self, instance: InstanceId, to: IpAddr) -> Option<u32> {
        self.0.tunnel(instance, to)
    }

    fn page(&mut self, url: &str) -> Option<u32> {
        if let Some(number) = self.0.pages.get(url) {
            return Some(*number);
        }
        let page = stages::redirect::page(url).filter(|_| self.0.pages.len() < PAGES)?;
        let number = self.0.pages.len() as u32;
        for link in &mut self.0.links {
            link.post(Command::Page { number, page: page.clone() });
        }
        self.0.pages.insert(url.into(), number);
        Some(number)
    }
}

/// Sessions that come and go by formula.
#[derive(Default)]
struct Churn {
    /// Changes owed, in billionths.
    owed: u64,
    last: Option<u64>,
    next: u32,
    /// The subscriber that is out and comes back next.
    out: Option<u32>,
}

impl Control {
    /// Control of workers with those links.
    pub fn new(plan: Plan, publisher: Publisher<Forwarding>, links: Vec<Link>, simulator: Option<Simulator>) -> Self {
        let mut neighbours = NeighbourCache::new(neighbour::Config::default());
        let mut actions = Vec::new();
        for (port, address, mac) in plan.neighbours() {
            neighbours.set_static((*port).into(), *address, *mac, &mut actions);
        }
        let sessions = simulator.as_ref().map_or(0, |s| s.count().into());
        Self {
            plan,
            publisher,
            links,
            simulator,
            neighbours,
            waiting: HashMap::new(),
            actions: Vec::new(),
            counters: ControlCounters { sessions, ..ControlCounters::default() },
            answers: VecDeque::new(),
            reports: VecDeque::new(),
            remotes: Remotes::default(),
            next_caller: 0,
            churn: Churn::default(),
            paging: VecDeque::new(),
            dirty: false,
            announced: false,
            nat_log: NatLog::default(),
            lists: None,
            hits: Hits::new(0),
            pages: HashMap::new(),
        }
    }

    /// With the log of NAT blocks.
    pub fn with_nat_log(self, nat_log: NatLog) -> Self {
        Self { nat_log, ..self }
    }

    /// With access lists as published to its workers, and what they count.
    pub fn with_lists(self, lists: Option<Publisher<AccessLists>>, hits: Hits) -> Self {
        Self { lists, hits, ..self }
    }

    /// NAT blocks given out and ended.
    pub fn nat_blocks(&self) -> BlockCounters {
        self.nat_log.counters()
    }

    /// Packets and bytes by access rule, in the order they are configured in, each list's default behind its rules.
    pub fn acl_hits(&self, counter: u32) -> (u64, u64) {
        self.hits.of(counter)
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
        &self.neighbours
    }

    /// The worker that owns subscriber `ue`, and its handle there: contiguous ranges of subscribers.
    pub fn place(&self, ue: u32) -> (u16, u32) {
        let each = self.subscribers_each();
        // Fewer workers than 65,536.
        ((ue / each) as u16, ue % each)
    }

    fn subscribers_each(&self) -> u32 {
        let workers = self.links.len().max(1) as u32;
        self.simulator.as_ref().map_or(1, Simulator::count).max(1).div_ceil(workers)
    }

    /// Who owns which simulated subscriber, in every form a packet may show: the table behind steering.
    ///
    /// # Errors
    /// Identifiers of the simulated subscribers that overlap.
    pub fn steer(&self, core: InstanceId) -> Result<Steer, Overlap> {
        let mut steer = Steer::new();
        let Some(simulator) = &self.simulator else { return Ok(steer) };
        let (count, each) = (simulator.count(), self.subscribers_each());
        let bearers = simulator.config().bearer.len() as u32;
        for worker in 0..self.links.len() as u32 {
            let (first, end) = ((worker * each).min(count), ((worker + 1) * each).min(count));
            if first == end {
                continue;
            }
            let (last, owner) = (end - 1, worker as u16);
            steer.own_teids(simulator.teid(first, 0), simulator.teid(last, bearers - 1), owner)?;
            if let (Some(first), Some(last)) = (simulator.ue4(first), simulator.ue4(last)) {
                steer.own_v4(core, first.into(), last.into(), owner)?;
            }
            if let (Some(first), Some(last)) = (simulator.ue6(first), simulator.ue6(last)) {
                let prefix = crate::compile::prefix64;
                steer.own_v6(core, prefix(first), prefix(last), owner)?;
            }
        }
        Ok(steer)
    }

    /// The number of the tunnel to an address; published with the next [`Control::publish`] when it is new.
    pub fn tunnel(&mut self, instance: InstanceId, to: IpAddr) -> Option<u32> {
        let (id, new) = self.plan.tunnel(instance, to, gtpu::PORT)?;
        self.dirty |= new;
        Some(id)
    }

    /// Compiles rules for a session, entering the tunnels they name.
    ///
    /// # Errors
    /// Which rule can not be.
    pub fn compile(&mut self, session: &Session, handle: u32) -> Result<Compiled, CompileError> {
        compile(session, handle, &mut Named(self))
    }

    /// Compiles rules for a session that is put in place before its worker runs.
    ///
    /// # Errors
    /// Which rule can not be.
    pub fn adopt(&mut self, worker: u16, handle: u32, session: &Session) -> Result<Compiled, CompileError> {
        let compiled = self.compile(session, handle)?;
        self.remotes.set((worker, handle), session);
        Ok(compiled)
    }

    /// Publishes the forwarding tables if they changed.
    pub fn publish(&mut self) {
        if self.dirty {
            self.publisher.publish(self.plan.compile());
            self.dirty = false;
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
    /// Rules that make no session, or a worker with its hands full.
    pub fn install(&mut self, worker: u16, handle: u32, session: &Session) -> Result<u64, AskError> {
        self.change(worker, handle, session, 0)
    }

    /// As [`install`](Self::install); with the answer comes what up to `measure` URRs of the rules replaced had counted.
    ///
    /// # Errors
    /// Rules that make no session, or a worker with its hands full.
    pub fn change(&mut self, worker: u16, handle: u32, session: &Session, measure: usize) -> Result<u64, AskError> {
        let mut compiled = Box::new(self.compile(session, handle)?);
        compiled.before = Vec::with_capacity(measure);
        // Tunnels first: the worker must know them when it meets the session.
        self.publish();
        let number = self.ask(worker, Command::Install { handle, session: compiled })?;
        self.remotes.set((worker, handle), session);
        Ok(number)
    }

    /// Has a worker take a session out.
    ///
    /// # Errors
    /// A worker with its hands full, or none of that number.
    pub fn remove(&mut self, worker: u16, handle: u32) -> Result<u64, AskError> {
        let number = self.ask(worker, Command::Remove { handle })?;
        self.remotes.forget((worker, handle));
        Ok(number)
    }

    /// Asks what a session has used.
    ///
    /// # Errors
    /// A worker with its hands full, or none of that number.
    pub fn measure(&mut self, worker: u16, handle: u32) -> Result<u64, AskError> {
        self.ask(worker, Command::Measure { handle })
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
    pub fn steer_routes(&mut self, worker: u16, gone: impl Iterator<Item = Route>, new: impl Iterator<Item = Route>) {
        if self.links.len() < 2 {
            return;
        }
        for (route, owner) in gone.map(|route| (route, None)).chain(new.map(|route| (route, Some(worker)))) {
            self.links.iter_mut().for_each(|link| link.post(Command::Steer { route, owner }));
        }
    }

    /// Has a worker throw away what waits for a subscriber.
    pub fn discard(&mut self, worker: u16, handle: u32) {
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
        &self.plan
    }

    /// The next answer to something asked: its number and what came of it.
    pub fn answer(&mut self) -> Option<(u64, Answer)> {
        self.answers.pop_front()
    }

    /// The next thing that happened to a session and nobody asked for. Those that are not taken are lost, counted.
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
        for worker in 0..self.links.len() {
            self.take_replies(worker);
            // Bounded, so that a flood of events does not starve the rest.
            for _ in 0..1024 {
                let Some(event) = self.links[worker].events.pop() else { break };
                self.on_event(worker, event, now);
            }
            self.links[worker].flush();
        }
        let mut actions = std::mem::take(&mut self.actions);
        self.neighbours.tick(now, &mut actions);
        self.actions = actions;
        self.act();
        self.page(now);
        self.churn(now);
        self.publish();
        self.nat_log.poll(now);
        if let Some(lists) = &mut self.lists {
            lists.reclaim();
        }
    }

    /// Simulated subscribers whose paging is over are back at their gNB: what waits for them goes on.
    fn page(&mut self, now: u64) {
        while let Some((ready, worker, handle)) = self.paging.front().copied() {
            let Some(simulator) = self.simulator.as_ref().filter(|_| ready <= now) else { return };
            let each = self.subscribers_each();
            let ue = u64::from(worker) * u64::from(each) + u64::from(handle);
            // Only whom the formula made, and who is not out just now.
            let known = handle < each && ue < simulator.count().into() && self.churn.out != Some(ue as u32);
            if !known {
                self.paging.pop_front();
                continue;
            }
            let session = simulator.session(ue as u32, false);
            let Ok(compiled) = self.compile(&session, handle) else { return };
            self.publish();
            let command = Command::Install { handle, session: Box::new(compiled) };
            if self.links[usize::from(worker)].send(command, Purpose::Nothing).is_err() {
                return;
            }
            self.paging.pop_front();
        }
    }

    fn on_event(&mut self, worker: usize, event: Event, now: u64) {
        match event {
            Event::Neighbour { port, message, for_us } => {
                let Some(heard) = Heard::from_message(&message) else { return };
                if for_us {
                    self.neighbours.learn(port.into(), &heard, now, &mut self.actions);
                } else {
                    self.neighbours.heard(port.into(), &heard, now, &mut self.actions);
                }
            }
            Event::Resolve { instance, address, key } => {
                let Some((port, via)) = self.plan.next_hop(instance, address) else {
                    self.links[worker].post(Command::GiveUp { key });
                    return;
                };
                match self.neighbours.want(port.into(), via, now, &mut self.actions) {
                    Wanted::Known(mac) => {
                        self.dirty |= self.plan.set_neighbour(port, via, mac);
                        self.publish();
                        self.links[worker].post(Command::Retry { key });
                    }
                    Wanted::Asked => {
                        self.waiting.entry((port.into(), via)).or_default().insert((worker, key));
                    }
                    Wanted::Unreachable | Wanted::Full => self.links[worker].post(Command::GiveUp { key }),
                }
            }
            Event::ErrorIndication { teid, peer } => {
                self.counters.error_indications += 1;
                let Some(owner) = self.owner_of(peer, teid) else { return };
                self.counters.lost_tunnels += 1;
                self.remotes.count(owner);
                self.tell(Report::ErrorIndication { worker: owner.0, handle: owner.1, peer, teid });
            }
            Event::EchoResponse { instance, peer, sequence } => {
                self.tell(Report::EchoResponse { instance, peer, sequence });
            }
            Event::Reached { handle } => self.tell(Report::Reached { handle }),
            Event::Buffered { handle, pdr } => {
                self.counters.pages += 1;
                if self.simulator.is_none() {
                    self.tell(Report::Buffered { handle, pdr });
                }
                if let Some(ms) = self.simulator.as_ref().and_then(|s| s.config().paging_ms) {
                    let ready = now.saturating_add(ms.saturating_mul(1_000_000));
                    self.paging.push_back((ready, worker as u16, handle));
                }
            }
        }
    }

    /// Keeps a report for whoever takes it.
    fn tell(&mut self, report: Report) {
        if self.reports.len() < REPORTS {
            self.reports.push_back(report);
        } else {
            self.counters.reports_lost += 1;
        }
    }

    /// The session that sends into a peer's tunnel: as its rules were given last, or, if they never were, by formula.
    fn owner_of(&self, peer: IpAddr, teid: u32) -> Option<Owner> {
        let by_formula = || {
            let ue = self.simulator.as_ref()?.by_gnb_teid(peer, teid).filter(|ue| self.churn.out != Some(*ue))?;
            Some(self.place(ue)).filter(|owner| !self.remotes.has(*owner))
        };
        self.remotes.owner(peer, teid).or_else(by_formula)
    }

    /// Carries out what the neighbour cache decided.
    fn act(&mut self) {
        let actions = std::mem::take(&mut self.actions);
        let mut woken = Vec::new();
        for action in actions {
            match action {
                Action::Send(request) => self.send_request(&request),
                Action::Resolved { port, address, mac } => {
                    // Ports are few; the cache was given these numbers by us.
                    self.dirty |= self.plan.set_neighbour(port as u8, address, mac);
                    woken.push(((port, address), true));
                }
                Action::Failed { port, address } => {
                    self.dirty |= self.plan.remove_neighbour(port as u8, address);
                    woken.push(((port, address), false));
                }
                Action::Forgotten { port, address } => {
                    self.dirty |= self.plan.remove_neighbour(port as u8, address);
                }
            }
        }
        // Tables before the packets that need them.
        self.publish();
        for (key, resolved) in woken {
            for (worker, key) in self.waiting.remove(&key).into_iter().flatten() {
                let command = if resolved { Command::Retry { key } } else { Command::GiveUp { key } };
                self.links[worker].post(command);
            }
        }
    }

    fn station(&self, port: u16) -> Option<(u8, Station)> {
        let view = self.plan.ports.get(usize::from(port))?;
        Some((port as u8, Station { mac: Mac(view.mac), vlan: view.vlan.map(Vlan::of) }))
    }

    fn send_request(&mut self, request: &Request) {
        let Some((port, us)) = self.station(request.port) else { return };
        let view = &self.plan.ports[usize::from(port)];
        let mut frame = vec![0; neighbour::MAX_FRAME];
        let len = match (view.source_for(request.address), request.address) {
            (Some(IpAddr::V4(ours)), IpAddr::V4(target)) => arp_request(&mut frame, &us, ours, target, request.to),
            (Some(IpAddr::V6(ours)), IpAddr::V6(target)) => {
                neighbour_solicitation(&mut frame, &us, ours, target, request.to)
            }
            _ => None,
        };
        self.send_frame(port, frame, len);
    }

    fn send_frame(&mut self, port: u8, mut frame: Vec<u8>, len: Option<usize>) {
        if let (Some(len), Some(link)) = (len, self.links.first_mut()) {
            frame.truncate(len);
            link.post(Command::Send { port, frame });
        }
    }

    /// Tells the neighbourhood where our addresses are (RFC 5227, 3; RFC 4861, 7.2.6): a restart or fail-over may have
    /// changed the hardware address behind them.
    fn announce(&mut self) {
        for port in 0..self.plan.ports.len() as u16 {
            let Some((port, us)) = self.station(port) else { continue };
            let view = self.plan.ports[usize::from(port)].clone();
            for (address, _) in view.v4 {
                let mut frame = vec![0; neighbour::MAX_FRAME];
                let len = arp_announcement(&mut frame, &us, address.into());
                self.send_frame(port, frame, len);
            }
            for (address, _) in view.v6 {
                let mut frame = vec![0; neighbour::MAX_FRAME];
                let len = neighbour_advertisement(&mut frame, &us, address.into(), None, true);
                self.send_frame(port, frame, len);
            }
        }
    }

    fn take_replies(&mut self, worker: usize) {
        while let Some((ticket, reply)) = self.links[worker].commands.poll() {
            let purpose = match self.links[worker].asked.pop_front() {
                Some((asked, purpose)) if asked == ticket => purpose,
                _ => Purpose::Nothing,
            };
            let answer = match reply {
                Ok(Reply::Installed(compiled)) => Some(Answer::Installed(compiled.before)),
                Ok(Reply::Refused(why, _)) => Some(Answer::Refused(why)),
                Ok(Reply::Removed(usage)) => Some(Answer::Removed(usage)),
                Ok(Reply::Usage(usage)) => Some(Answer::Usage(usage)),
                Ok(Reply::Unknown) | Err(_) => Some(Answer::Unknown),
                Ok(Reply::Sent(_) | Reply::Waiting(_) | Reply::Done) => None,
            };
            if let Some(answer) = answer {
                self.account(&answer, purpose);
                if let Purpose::Caller(number) = purpose {
                    self.answers.push_back((number, answer));
                }
            }
        }
    }

    fn account(&mut self, answer: &Answer, purpose: Purpose) {
        match answer {
            Answer::Installed(_) => {
                self.counters.made += 1;
                // A caller's installation may replace rules; only the simulator knows that its sessions are new.
                self.counters.sessions += u64::from(matches!(purpose, Purpose::Churn));
            }
            Answer::Refused(_) => self.counters.refused += 1,
            Answer::Removed(usage) => {
                self.counters.removed += 1;
                self.counters.sessions = self.counters.sessions.saturating_sub(1);
                self.counters.reported_bytes += usage.iter().map(|u| u.up_bytes + u.down_bytes).sum::<u64>();
            }
            Answer::Usage(_) | Answer::Unknown => {}
        }
    }

    /// Removes sessions and makes them anew, at the configured rate.
    fn churn(&mut self, now: u64) {
        let Some(simulator) = self.simulator.clone().filter(|s| s.config().churn_per_second > 0) else { return };
        let elapsed = now.saturating_sub(self.churn.last.replace(now).unwrap_or(now));
        // At most a second's worth is caught up with.
        let rate = u64::from(simulator.config().churn_per_second);
        self.churn.owed = (self.churn.owed + elapsed.min(1_000_000_000) * rate).min(rate * 1_000_000_000);
        while self.churn.owed >= 1_000_000_000 {
            let done = match self.churn.out {
                None => {
                    let ue = self.churn.next % simulator.count().max(1);
                    let (worker, handle) = self.place(ue);
                    let sent = self.links[usize::from(worker)].send(Command::Remove { handle }, Purpose::Churn);
                    self.churn.out = sent.is_ok().then_some(ue);
                    self.churn.next = ue + 1;
                    sent.is_ok()
                }
                Some(ue) => {
                    let (worker, handle) = self.place(ue);
                    let Ok(compiled) = self.compile(&simulator.session(ue, false), handle) else { return };
                    self.publish();
                    let command = Command::Install { handle, session: Box::new(compiled) };
                    let sent = self.links[usize::from(worker)].send(command, Purpose::Churn).is_ok();
                    if sent {
                        self.churn.out = None;
                        self.churn.owed -= 1_000_000_000;
                    }
                    sent
                }
            };
            if !done {
                // The ring is full; the rest is made up for later.
                return;
            }
        }
    }
}
