//! The control side of a broadband gateway: subscribers, forwarding tables and neighbours, and the other end of the workers'
//! rings. It runs on a thread of its own and is driven by [`Control::poll`].

use std::collections::VecDeque;
use std::net::IpAddr;

use dataplane::acl::{AccessLists, Hits};
use dataplane::forward::{Forwarding, InstanceId, Neighbourhood, Plan, Route, Via};
use table::command;
use table::ring::Consumer;
use table::snapshot::Publisher;
use table::waker::Waker;
use wire::Mac;

use crate::config::{Config, Layout};
use crate::gateway::{Answer, Command, Report};
use crate::record::SubscriberSpec;
use crate::slow::{ControlPacket, Event};

/// Control's ends of one worker.
pub struct Link {
    commands: command::Control<Command, Answer>,
    events: Consumer<Event>,
    waker: Waker,
    /// Commands the ring had no room for yet, in order.
    backlog: VecDeque<Command>,
}

impl Link {
    /// The ends as made.
    pub fn new(commands: command::Control<Command, Answer>, events: Consumer<Event>, waker: Waker) -> Self {
        Self { commands, events, waker, backlog: VecDeque::new() }
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

/// Control packets that wait to be answered, at most; when there are more the oldest go.
const PACKETS: usize = 4096;

/// Control.
pub struct Control {
    config: Config,
    layout: Layout,
    /// Subscribers by handle, with the entry of the configuration each is of.
    subscribers: Vec<Option<SubscriberSpec>>,
    neighbourhood: Neighbourhood,
    forwarding: Publisher<Forwarding>,
    lists: Publisher<AccessLists>,
    hits: Hits,
    links: Vec<Link>,
    waker: Waker,
    announced: bool,
    /// The last turn took events of workers.
    took_events: bool,
    /// Commands that workers refused.
    refused: u64,
    reports: Vec<Option<Box<Report>>>,
    packets: VecDeque<ControlPacket>,
    /// Control packets that nobody answered.
    unanswered: u64,
}

impl Control {
    /// Control of workers with those links, which wake it by that waker.
    pub fn new(
        config: Config,
        mut layout: Layout,
        plan: Plan,
        (forwarding, lists): (Publisher<Forwarding>, Publisher<AccessLists>),
        (links, waker): (Vec<Link>, Waker),
        hits: Hits,
    ) -> Self {
        let subscribers = std::mem::take(&mut layout.subscribers).into_iter().map(Some).collect();
        let reports = links.iter().map(|_| None).collect();
        Self {
            config,
            layout,
            subscribers,
            neighbourhood: Neighbourhood::new(plan),
            forwarding,
            lists,
            hits,
            links,
            waker,
            announced: false,
            took_events: false,
            refused: 0,
            reports,
            packets: VecDeque::new(),
            unanswered: 0,
        }
    }

    /// The configuration it began with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The configuration in numbers.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Packets and bytes that a rule of an access list has matched.
    pub fn hits(&self, counter: u32) -> (u64, u64) {
        self.hits.of(counter)
    }

    /// Subscribers, in the order of their handles.
    pub fn subscribers(&self) -> impl Iterator<Item = &SubscriberSpec> {
        self.subscribers.iter().flatten()
    }

    /// A subscriber's name: its entry's, or its group and line.
    pub fn name(&self, spec: &SubscriberSpec) -> String {
        let entries = &self.layout.entries;
        let at = entries.partition_point(|first| *first <= spec.handle).checked_sub(1);
        let entry = at.and_then(|at| Some((self.config.subscriber.get(at)?, entries[at])));
        match entry.and_then(|(entry, first)| Some((entry.name.as_ref()?, entry.count, spec.handle - first))) {
            Some((name, 1, _)) => name.clone(),
            Some((name, count, n)) if n < count => format!("{name}{}", n + 1),
            _ => {
                let group = &self.config.group[usize::from(spec.group)].name;
                let port = &self.config.port[usize::from(spec.line.port)].name;
                format!("{group}/{port}:{}.{}", spec.line.s_vlan, spec.line.c_vlan)
            }
        }
    }

    /// The subscriber of that name.
    pub fn find(&self, name: &str) -> Option<&SubscriberSpec> {
        self.subscribers().find(|spec| self.name(spec) == name)
    }

    /// Installs a subscriber, or changes the one of that handle.
    ///
    /// # Errors
    /// There is no such group.
    pub fn install(&mut self, spec: SubscriberSpec) -> Result<(), Refusal> {
        let worker = self.worker(spec.group)?;
        let at = spec.handle as usize;
        if self.subscribers.len() <= at {
            self.subscribers.resize(at + 1, None);
        }
        self.subscribers[at] = Some(spec);
        self.links[worker].post(Command::Install(Box::new(spec)));
        Ok(())
    }

    /// Takes a subscriber out.
    ///
    /// # Errors
    /// There is no such subscriber.
    pub fn remove(&mut self, handle: u32) -> Result<(), Refusal> {
        let spec = self.subscribers.get_mut(handle as usize).and_then(Option::take);
        let spec = spec.ok_or_else(|| Refusal(format!("there is no subscriber {handle}")))?;
        let worker = self.worker(spec.group)?;
        self.links[worker].post(Command::Remove(handle));
        Ok(())
    }

    fn worker(&self, group: u16) -> Result<usize, Refusal> {
        let group = self.layout.groups.get(usize::from(group));
        group.map(|group| group.worker.into()).ok_or_else(|| Refusal("there is no such group".to_owned()))
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

    /// Control packets that were given up because nobody took them.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Commands that workers refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Asks all workers what those subscribers have used; [`Control::report`] has it when they have answered.
    pub fn ask_reports(&mut self, handles: &[u32]) {
        for (worker, link) in self.links.iter_mut().enumerate() {
            self.reports[worker] = None;
            let usage = handles.iter().map(|handle| (*handle, None)).collect();
            link.post(Command::Read(Box::new(Report { usage, ..Report::default() })));
        }
    }

    /// What a worker reported, once it has answered.
    pub fn report(&self, worker: usize) -> Option<&Report> {
        self.reports.get(worker)?.as_deref()
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
        self.links.iter_mut().any(|link| !link.events.is_empty() || link.commands.has_answers())
    }

    /// Whether the last [`poll`](Self::poll) took events of workers: more may follow at once.
    pub fn took_events(&self) -> bool {
        self.took_events
    }

    /// When [`poll`](Self::poll) has something to do next though workers have nothing for it, in nanoseconds of their
    /// clock. A time that is past means: work is left over, and goes on soon.
    pub fn next_deadline(&self) -> Option<u64> {
        let is_left = !self.announced || self.links.iter().any(|link| !link.backlog.is_empty());
        if is_left { Some(0) } else { self.neighbourhood.next_deadline() }
    }

    /// A turn of control.
    pub fn poll(&mut self, now: u64) {
        if !self.announced {
            self.announced = true;
            self.announce();
            self.resolve_all(now);
        }
        self.took_events = false;
        for worker in 0..self.links.len() {
            self.links[worker].flush();
            while let Some(event) = self.links[worker].events.pop() {
                self.on_event(event, now);
                self.took_events = true;
            }
            self.take_answers(worker);
        }
        self.act(now);
    }

    fn take_answers(&mut self, worker: usize) {
        while let Some((_, answer)) = self.links[worker].commands.poll() {
            match answer {
                Ok(Answer::Report(report)) => self.reports[worker] = Some(report),
                Ok(Answer::Refused(..) | Answer::Unknown) | Err(_) => self.refused += 1,
                _ => {}
            }
        }
    }

    /// Asks for every router that packets will be sent to.
    fn resolve_all(&mut self, now: u64) {
        let gateway = |route: &Route| match route.via {
            Via::Gateway(via) => Some((route.instance, via)),
            Via::Port(_) => None,
        };
        let routers: Vec<_> = self.neighbourhood.plan().routes.iter().filter_map(gateway).collect();
        for (instance, address) in routers {
            self.want(instance, address, now);
        }
    }

    fn want(&mut self, instance: InstanceId, address: IpAddr, now: u64) {
        // It is asked for; packets for it are dropped by name until it has answered.
        let _ = self.neighbourhood.want(instance, address, now);
    }

    fn on_event(&mut self, event: Event, now: u64) {
        match event {
            Event::Neighbour { port, message, for_us } => self.neighbourhood.hear(port, &message, for_us, now),
            Event::Resolve { instance, address } => self.want(instance, address, now),
            Event::Control(packet) => {
                if self.packets.len() == PACKETS {
                    self.packets.pop_front();
                    self.unanswered += 1;
                }
                self.packets.push_back(*packet);
            }
        }
    }

    /// Carries out what is decided about neighbours, and publishes what has changed.
    fn act(&mut self, now: u64) {
        self.neighbourhood.act(now, |port, frame| send(&mut self.links, port, frame));
        self.publish_tables();
        self.forwarding.reclaim();
        self.lists.reclaim();
    }

    fn publish_tables(&mut self) {
        if let Some(tables) = self.neighbourhood.tables() {
            self.forwarding.publish(tables);
            self.links.iter().for_each(|link| link.waker.nudge());
        }
    }

    /// Takes on the hardware address that the interface of a port has now, and announces it. False: it has it already.
    pub fn set_port_mac(&mut self, port: u8, mac: Mac) -> bool {
        let Some(frames) = self.neighbourhood.set_port_mac(port, mac) else { return false };
        // Tables before packets to the new address.
        self.publish_tables();
        for (port, frame) in frames {
            send(&mut self.links, port, frame);
        }
        true
    }

    /// Announces the core side's addresses.
    fn announce(&mut self) {
        for (port, frame) in self.neighbourhood.plan().announcements() {
            send(&mut self.links, port, frame);
        }
    }
}

/// Has a worker send a frame of ours: the first, as good as any.
fn send(links: &mut [Link], port: u8, frame: Vec<u8>) {
    if let Some(link) = links.first_mut() {
        link.post(Command::Send(port, frame));
    }
}
