//! The control side of a broadband gateway: subscribers, forwarding tables and neighbours, and the other end of the workers'
//! rings. It runs on a thread of its own and is driven by [`Control::poll`].

mod crossing;
mod hand_over;
mod in_kernel;
mod moves;
mod names;
mod originate;
mod queries;
mod reload;
mod steer_ports;

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use dataplane::acl::LiveLists;
use dataplane::forward::{Forwarding, InstanceId, Neighbourhood, Plan, Route, Via};
use dataplane::nat;
use engine::Owner;
use gateway::host_routing::{ServedPrefix, cover4, cover6};
use gateway::nat::log::{BlockCounters, NatLog};
use table::command;
use table::ring::{Consumer, Gauge};
use table::snapshot::Publisher;
use table::waker::Waker;
use wire::Mac;

pub use crossing::Sorting;
pub use hand_over::Meanings;
use steer_ports::Waits;

use crate::config::{Config, GroupPlan, Layout, Slice6};
use crate::gateway::{Answer, Blocks, Command};
use crate::lane::Counts;
use crate::link::{LONGEST, Line, template};
use crate::record::SubscriberSpec;
use crate::sessions::Sessions;
use crate::shaper::{Queued, Shaper};
use crate::slow::{ControlPacket, Event};
use crate::subscribers::{Place, Refused, Usage};

/// Control's ends of one worker.
pub struct Link {
    commands: command::Control<Command, Answer>,
    events: Consumer<Event>,
    waker: Waker,
    /// Counts of the ring that events come by.
    gauge: Gauge,
    /// Events that the ring had turned away when control last scanned for what they would have told.
    lost: u64,
    /// Commands the ring had no room for yet, in order.
    backlog: VecDeque<Command>,
}

impl Link {
    /// The ends as made.
    pub fn new(
        commands: command::Control<Command, Answer>,
        (events, gauge): (Consumer<Event>, Gauge),
        waker: Waker,
    ) -> Self {
        Self { commands, events, waker, gauge, lost: 0, backlog: VecDeque::new() }
    }

    /// Sends now or as soon as there is room.
    fn post(&mut self, command: Command) {
        self.backlog.push_back(command);
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(command) = self.backlog.pop_front() {
            if let Err(command) = self.commands.send(command) {
                self.backlog.push_front(command);
                break;
            }
            self.waker.nudge();
        }
    }
}

/// Why a request was refused; a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Subscribers that a worker is queried about in one of its turns: each costs it some cache misses.
const HANDLES: usize = 128;
/// The number of sessions' questions.
const SESSIONS: u64 = u64::MAX;

/// What workers have reported.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// The number of the question.
    question: u64,
    /// What the subscribers that were queried have used, by handle.
    pub usage: HashMap<u32, Usage>,
    /// Where their packets go, by handle, where there is an in-kernel path.
    pub places: HashMap<u32, Place>,
    /// What the queues of those that are shaped hold and have counted, by handle.
    pub queued: HashMap<u32, Queued>,
    /// What each worker has reported, by its number.
    pub workers: Vec<WorkerReport>,
}

/// What a worker has reported, and is still to be queried.
#[derive(Clone, Debug, Default)]
pub struct WorkerReport {
    waits: bool,
    left: VecDeque<u32>,
    /// Packets and bytes that wait in its queues.
    pub waiting: (u64, u64),
    /// Number of subscribers installed on it.
    pub subscribers: usize,
    /// Its counters beside those of stages.
    pub counts: Counts,
    /// Memory of its translation: what, used, of how much.
    pub nat: Option<[(&'static str, u64, u64); 3]>,
}

/// Control packets that wait to be answered, at most; when there are more the oldest go.
const PACKETS: usize = 16_384;

/// The control thread of a broadband gateway.
pub struct Control {
    config: Config,
    layout: Layout,
    /// Subscribers by handle, with the entry of the configuration each is of.
    subscribers: Vec<Option<SubscriberSpec>>,
    neighbourhood: Neighbourhood,
    forwarding: Publisher<Forwarding>,
    /// Access lists; none: there were none at start.
    lists: Option<LiveLists>,
    /// The in-kernel path; none: there is none.
    fast: Option<in_kernel::InKernelPath>,
    /// Commands to write subscribers anew that workers have not carried out.
    refreshing: usize,
    /// A profile wrote DSCPs at start.
    marks: bool,
    /// A profile had a walled garden at start.
    gardens: bool,
    /// Some profile was shaped at start.
    shapes: bool,
    /// Slices of IPv6 that workers divided at start, and their VRF.
    rows: Vec<(InstanceId, Slice6)>,
    links: Vec<Link>,
    waker: Waker,
    announced: bool,
    /// The last turn took events of workers.
    took_events: bool,
    /// Commands that workers refused.
    refused: u64,
    /// Subscribers that their worker has refused to install or to change.
    not_installed: HashSet<u32>,
    /// Why the new owner of the group that moves has refused a copy.
    copy_refused: Option<Refused>,
    reports: Reports,
    /// The number of the last question for blocks of public ports, and what answers it.
    blocks: (u64, Option<Box<Blocks>>),
    /// Public addresses that workers have for translation.
    nat: Option<nat::Addresses>,
    /// Blocks of public ports, as workers tell of them.
    nat_log: NatLog,
    packets: VecDeque<ControlPacket>,
    /// Control packets that nobody answered.
    unanswered: u64,
    /// Usage that sessions have queried.
    usage_news: Vec<(u32, Usage)>,
    /// Subscribers that workers have taken out, and what they had used.
    removed: Vec<(u32, Usage)>,
    /// Subscribers that come by themselves; none: there are static ones only.
    sessions: Option<Box<Sessions>>,
    /// When they have something to do.
    deadline: Option<u64>,
    /// Groups that move between workers.
    moves: gateway::moves::Moves,
    /// Subscribers that the group that moves had at the begin.
    moving: Vec<u32>,
    /// Commands about subscribers of the group that moves, in order, and the worker of each; none: the group's.
    deferred: VecDeque<(Option<usize>, Command)>,
    /// A group has moved between these workers, and ports are to be told.
    moved: Option<(Owner, Owner)>,
    /// Changes of what ports give to whom, so far.
    port_changes: u32,
    /// Ports begin to give another worker the packets of a group.
    port_change: Option<steer_ports::Change>,
    /// Groups that move between this process and others.
    crossing: crossing::Crossings,
    /// When groups move together onto fewer workers; none: never by themselves.
    park: Option<moves::Parking>,
    /// Another process takes over.
    succession: hand_over::Succession,
}

impl Control {
    /// Control of workers with those links, which wake it by that waker.
    pub fn new(
        config: Config,
        mut layout: Layout,
        plan: Plan,
        (forwarding, lists): (Publisher<Forwarding>, Option<LiveLists>),
        (links, waker): (Vec<Link>, Waker),
    ) -> Self {
        let marks = layout.profiles.iter().any(|profile| profile.dscp.is_some());
        let gardens = layout.profiles.iter().any(|profile| profile.garden.is_some());
        let shapes = Shaper::is_wanted(&layout);
        let slices = |group: &GroupPlan| group.v6.iter().map(|slice| (group.instance, *slice)).collect::<Vec<_>>();
        let rows = layout.groups.iter().flat_map(slices).collect();
        let subscribers = std::mem::take(&mut layout.subscribers).into_iter().map(Some).collect();
        let reports =
            Reports { workers: links.iter().map(|_| WorkerReport::default()).collect(), ..Reports::default() };
        let mut this = Self {
            config,
            layout,
            subscribers,
            neighbourhood: Neighbourhood::new(plan),
            forwarding,
            lists,
            fast: None,
            refreshing: 0,
            marks,
            gardens,
            shapes,
            rows,
            links,
            waker,
            announced: false,
            took_events: false,
            refused: 0,
            not_installed: HashSet::new(),
            copy_refused: None,
            reports,
            blocks: (0, None),
            nat: None,
            nat_log: NatLog::default(),
            packets: VecDeque::new(),
            unanswered: 0,
            usage_news: Vec::new(),
            removed: Vec::new(),
            sessions: None,
            deadline: None,
            moves: gateway::moves::Moves::default(),
            moving: Vec::new(),
            deferred: VecDeque::new(),
            moved: None,
            port_changes: 0,
            port_change: None,
            crossing: crossing::Crossings::default(),
            park: None,
            succession: hand_over::Succession::default(),
        };
        this.set_park();
        this
    }

    /// Counters of access lists' rules that there may ever be.
    pub fn list_counters(&self) -> u32 {
        self.lists.as_ref().map_or(0, |lists| lists.hits().len())
    }

    /// With the public addresses that its workers have, and the log of blocks given out.
    pub fn with_nat(self, nat: Option<nat::Addresses>, nat_log: NatLog) -> Self {
        Self { nat, nat_log, ..self }
    }

    /// Blocks of public ports given out and ended.
    pub fn nat_blocks(&self) -> BlockCounters {
        self.nat_log.counters()
    }

    /// Serves sessions from now on; their subscribers are those that workers have already.
    pub fn serve(&mut self, sessions: Sessions, subscribers: &[SubscriberSpec]) {
        for spec in subscribers {
            self.note(*spec);
        }
        self.sessions = Some(Box::new(sessions));
    }

    /// Subscribers that come by themselves.
    pub fn sessions(&self) -> Option<&Sessions> {
        self.sessions.as_deref()
    }

    /// Ends what a subscriber has that came by itself, or forgets the hardware address that a static one's packets have
    /// taught.
    ///
    /// # Errors
    /// There is no such subscriber.
    pub fn clear(&mut self, handle: u32) -> Result<(), Refusal> {
        let sessions = self.sessions.take();
        let mut ended = false;
        self.sessions = sessions.map(|mut sessions| {
            ended = sessions.clear(self, handle);
            sessions
        });
        if ended { Ok(()) } else { self.forget(handle) }
    }

    /// The gateway's hardware address towards the lines of a group on a port.
    pub(crate) fn gateway_mac(&self, group: u16, port: u8) -> Mac {
        let own = self.layout.groups.get(usize::from(group)).and_then(|group| group.mac);
        let port = self.neighbourhood.plan().ports.get(usize::from(port));
        Mac(own.or(port.map(|view| view.mac)).unwrap_or_default())
    }

    /// A hardware address that stays: a group's virtual one, or the first port's.
    pub(crate) fn own_mac(&self) -> Mac {
        let group = self.layout.groups.iter().find_map(|group| group.mac);
        Mac(group.or(self.neighbourhood.plan().ports.first().map(|view| view.mac)).unwrap_or_default())
    }

    /// The largest IP packet towards lines of a group on a port.
    pub(crate) fn mtu_of(&self, group: u16, port: u8) -> u16 {
        let own = self.layout.groups.get(usize::from(group)).and_then(|group| group.mtu);
        own.or(self.neighbourhood.plan().ports.get(usize::from(port)).map(|view| view.mtu)).unwrap_or(1500)
    }

    /// The link header towards a line that nothing was received from, and its length.
    pub(crate) fn header_of(&self, group: u16, line: Line) -> ([u8; LONGEST], u8) {
        let plan = self.layout.groups.get(usize::from(group));
        let (tags, tpid) = plan.map_or((0, 0), |plan| (plan.tags, plan.tpid));
        template([0; 6], [0; 6], line, tags, tpid)
    }

    /// The configuration in use; profiles are in the order of their numbers, and some of them may be in use no more.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The configuration in numbers.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Packets and bytes that a rule of an access list has matched since the lists were replaced last.
    pub fn hits(&self, counter: u32) -> (u64, u64) {
        let (packets, bytes) = self.lists.as_ref().map_or((0, 0), |lists| lists.of(counter));
        let first = self.lists.as_ref().map_or(0, LiveLists::first);
        let there = self.fast.as_ref().map_or((0, 0), |fast| fast.hits(first, counter));
        (packets + there.0, bytes + there.1)
    }

    /// Subscribers, in the order of their handles.
    pub fn subscribers(&self) -> impl Iterator<Item = &SubscriberSpec> {
        self.subscribers.iter().flatten()
    }

    /// One more than the highest number of a subscriber.
    pub fn handles(&self) -> u32 {
        self.subscribers.len() as u32 // handles are 32 bits
    }

    /// How many there are of those numbers.
    pub fn count(&self, numbers: std::ops::Range<u32>) -> usize {
        numbers.filter(|number| self.subscriber(*number).is_some()).count()
    }

    /// The subscriber of a number, if there is one.
    pub fn subscriber(&self, handle: u32) -> Option<&SubscriberSpec> {
        self.subscribers.get(handle as usize)?.as_ref()
    }

    /// Installs a subscriber, or changes the one of that handle.
    ///
    /// # Errors
    /// There is no such group.
    pub fn install(&mut self, spec: SubscriberSpec) -> Result<(), Refusal> {
        let worker = self.worker(spec.group)?;
        let before = self.note(spec);
        let before = before.and_then(|before| Some((before.group, self.worker(before.group).ok()?)));
        let leaves = |(group, other): &(u16, usize)| {
            *other != worker || *group != spec.group && self.moves.moving() == Some(*group)
        };
        if let Some((group, other)) = before.filter(leaves) {
            self.post_of((group, spec.handle), other, Command::Remove(spec.handle));
        }
        self.post_of((spec.group, spec.handle), worker, Command::Install(Box::new(spec)));
        Ok(())
    }

    /// Writes a subscriber down; returns what was there of that handle.
    fn note(&mut self, spec: SubscriberSpec) -> Option<SubscriberSpec> {
        let at = spec.handle as usize;
        if self.subscribers.len() <= at {
            self.subscribers.resize(at + 1, None);
        }
        self.subscribers[at].replace(spec)
    }

    /// Takes a subscriber out.
    ///
    /// # Errors
    /// There is no such subscriber.
    pub fn remove(&mut self, handle: u32) -> Result<(), Refusal> {
        let spec = self.subscribers.get_mut(handle as usize).and_then(Option::take);
        let spec = spec.ok_or_else(|| Refusal(format!("there is no subscriber {handle}")))?;
        let worker = self.worker(spec.group)?;
        self.post_of((spec.group, handle), worker, Command::Remove(handle));
        Ok(())
    }

    /// Has a subscriber's worker forget its hardware address, if it was learnt: the next packet's is taken.
    ///
    /// # Errors
    /// There is no such subscriber.
    pub fn forget(&mut self, handle: u32) -> Result<(), Refusal> {
        let spec = self.subscribers.get(handle as usize).copied().flatten();
        let spec = spec.ok_or_else(|| Refusal(format!("there is no subscriber {handle}")))?;
        let worker = self.worker(spec.group)?;
        self.post_of((spec.group, handle), worker, Command::Forget(handle));
        Ok(())
    }

    fn worker(&self, group: u16) -> Result<usize, Refusal> {
        let group = self.layout.groups.get(usize::from(group));
        let worker = group.map(|group| usize::from(group.worker));
        let worker = worker.ok_or_else(|| Refusal("there is no such group".to_owned()))?;
        let is_here = worker < self.links.len();
        is_here.then_some(worker).ok_or_else(|| Refusal("another process has the group".to_owned()))
    }

    /// Control packets of lines, oldest first: for who serves DHCP, PPPoE, router solicitations and their like.
    pub fn packets(&mut self) -> impl Iterator<Item = ControlPacket> + '_ {
        self.packets.drain(..)
    }

    /// Has the worker that owns a group send a complete frame.
    ///
    /// # Errors
    /// There is no such group.
    pub fn send(&mut self, group: u16, port: u8, frame: Vec<u8>) -> Result<(), Refusal> {
        let worker = self.worker(group)?;
        self.links[worker].post(Command::Send(port, frame));
        Ok(())
    }

    /// Counts a control packet that nobody takes.
    pub(crate) fn leave_unanswered(&mut self) {
        self.unanswered += 1;
    }

    /// Control packets that were given up because nobody took them.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Commands that workers refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What was queried, once all workers have answered.
    pub fn reports(&self) -> Option<&Reports> {
        self.reports.workers.iter().all(|report_of| !report_of.waits).then_some(&self.reports)
    }

    /// Events that workers could not report because their ring to control was full.
    pub fn lost_events(&self) -> u64 {
        self.links.iter().map(|link| link.gauge.full()).sum()
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.links.len()
    }

    /// Wakes the thread that drives it: workers do when they have an event or an answer.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether workers have events or answers for the next [`poll`](Self::poll).
    pub fn has_news(&mut self) -> bool {
        let has_news = |link: &mut Link| !link.events.is_empty() || link.commands.has_answers();
        self.links.iter_mut().any(has_news) || self.nat_log.has_news()
    }

    /// Whether the last [`poll`](Self::poll) took events of workers: more may follow at once.
    pub fn took_events(&self) -> bool {
        self.took_events
    }

    /// When [`poll`](Self::poll) has something to do next though workers have nothing for it, in nanoseconds of their
    /// clock. A time that is past means: work is left over, and goes on soon.
    pub fn next_deadline(&self) -> Option<u64> {
        let waits = self.links.iter().any(|link| !link.backlog.is_empty());
        let is_left = !self.announced || waits || self.nat_log.has_failed();
        let is_held = self.moves.is_busy() || self.succession.has_begun();
        let park = self.park.as_ref().filter(|_| !is_held).map(moves::Parking::next);
        let ports = self.port_change_deadline();
        let next = [self.neighbourhood.next_deadline(), self.deadline, park, ports].into_iter().flatten().min();
        if is_left { Some(0) } else { next }
    }

    /// A turn of control.
    pub fn poll(&mut self, now: u64) {
        if !self.announced {
            self.announced = true;
            self.steer_ports();
            self.announce();
            self.resolve_all(now);
        }
        self.took_events = false;
        for worker in 0..self.links.len() {
            self.links[worker].flush();
            while let Some(event) = self.links[worker].events.pop() {
                self.on_event(worker, event, now);
                self.took_events = true;
            }
            self.take_answers(worker);
            self.scan(worker, now);
        }
        self.took_events |= self.nat_log.poll(now);
        self.turn_moves(now);
        self.turn_crossings();
        let is_still = self.succession.is_still() || self.crossing.is_still();
        if let Some(mut sessions) = self.sessions.take_if(|_| !is_still) {
            sessions.turn(self, now);
            self.deadline = sessions.next_deadline(now);
            self.sessions = Some(sessions);
        }
        self.act(now);
    }

    /// After a worker lost events: asks for what they may have told.
    fn scan(&mut self, worker: usize, now: u64) {
        let link = &mut self.links[worker];
        let lost = link.gauge.full();
        if lost != link.lost {
            link.lost = lost;
            self.resolve_all(now);
            self.neighbourhood.want_next_hops(now);
        }
    }

    /// Asks for every router that packets will be sent to.
    fn resolve_all(&mut self, now: u64) {
        let gateway = |route: &Route| match route.via {
            Via::Gateway(via) => Some((route.instance, via)),
            Via::Neighbour { .. } | Via::Port(_) => None,
        };
        let routers: Vec<_> = self.neighbourhood.plan().routes.iter().filter_map(gateway).collect();
        for (instance, address) in routers {
            self.want(instance, address, now);
        }
    }

    fn want(&mut self, instance: InstanceId, address: IpAddr, now: u64) {
        // It is asked for; packets for it wait until it has answered.
        let _ = self.neighbourhood.want(instance, address, now);
    }

    fn on_event(&mut self, worker: usize, event: Event, now: u64) {
        match event {
            Event::Neighbour { port, message, for_us } => self.neighbourhood.hear(port, &message, for_us, now),
            Event::Resolve { instance, address } => self.want(instance, address, now),
            Event::Control(packet) => {
                // What was put back may be more.
                while self.packets.len() >= PACKETS {
                    self.packets.pop_front();
                    self.unanswered += 1;
                }
                self.packets.push_back(*packet);
            }
            Event::Left(_) => {
                self.crossing.left();
                self.moves.answered(true);
            }
            Event::Arrived(come) => self.on_arrived(&come),
            Event::PortsEmpty(crossing::EMPTY) => self.crossing.found_empty(),
            Event::PortsEmpty(number) => self.on_ports(worker as Owner, number, Waits::Empty),
        }
    }

    /// Carries out what is decided about neighbours, and publishes what has changed.
    fn act(&mut self, now: u64) {
        self.neighbourhood.act(now, |port, frame| send(&mut self.links, port, frame));
        self.publish_tables();
        self.forwarding.reclaim();
        self.lists.as_mut().map(LiveLists::reclaim);
    }

    pub(crate) fn publish_tables(&mut self) {
        if let Some(tables) = self.neighbourhood.tables() {
            if let Some(fast) = &mut self.fast {
                fast.publisher.publish(self.neighbourhood.plan(), &tables);
            }
            self.forwarding.publish(tables);
            self.links.iter().for_each(|link| link.waker.nudge());
        }
    }

    /// Neighbours and routes, to be changed; what changes is published with the next [`poll`](Self::poll).
    pub(crate) fn neighbourhood(&mut self) -> &mut Neighbourhood {
        &mut self.neighbourhood
    }

    /// Has a worker send complete frames by ports.
    pub(crate) fn send_frames(&mut self, frames: Vec<(u8, Vec<u8>)>) {
        frames.into_iter().for_each(|(port, frame)| send(&mut self.links, port, frame));
    }

    /// Slices of the groups that are announced, and public addresses of translation in place of those that are translated.
    pub(crate) fn served(&self) -> Vec<ServedPrefix> {
        let mut served = Vec::new();
        let translated = nat_instances(&self.config);
        let groups = self.config.group.iter().zip(&self.layout.groups);
        let workers = self.links.len();
        let is_here = |plan: &GroupPlan| usize::from(plan.worker) < workers;
        for (_, plan) in groups.filter(|(group, plan)| group.announce && is_here(plan)) {
            let is_translated = plan.nat && translated.iter().any(|(instance, _)| *instance == plan.instance);
            let v4 = plan.v4.iter().filter(|_| !is_translated).flat_map(|slice| cover4(slice.first, slice.last));
            let v6 = plan.v6.iter().flat_map(|slice| {
                cover6(u128::from(slice.first) << 64, u128::from(slice.last) << 64 | u128::from(u64::MAX))
            });
            served.extend(v4.chain(v6).map(|(to, len)| ServedPrefix { instance: plan.instance, to, len }));
        }
        served.extend(gateway::nat::served(translated));
        served
    }

    /// Announces the core side's addresses.
    fn announce(&mut self) {
        for (port, frame) in self.neighbourhood.plan().announcements() {
            send(&mut self.links, port, frame);
        }
    }
}

/// Public addresses of translation by VRF: first and last.
fn nat_instances(config: &Config) -> Vec<(InstanceId, (std::net::Ipv4Addr, std::net::Ipv4Addr))> {
    config.nat.as_ref().map_or_else(Vec::new, |nat| nat.ranges(&config.links()))
}

/// Has a worker send a frame of ours: the first, as good as any.
fn send(links: &mut [Link], port: u8, frame: Vec<u8>) {
    if let Some(link) = links.first_mut() {
        link.post(Command::Send(port, frame));
    }
}
