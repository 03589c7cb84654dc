//! The control side of a cable gateway: modems, keys, rates; forwarding tables and neighbours; the other end of the
//! workers' rings. It runs on a thread of its own and is driven by [`Control::poll`].

mod counts;
mod hand_over;
mod modems;
mod reload;
mod service;
mod succession;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use dataplane::forward::{Forwarding, InstanceId, Neighbourhood, Plan, Route, Via};
use dataplane::neighbour::NeighbourCache;
use engine::Steer;
use gateway::host_routing::{ServedPrefix, cover4, cover6};
use table::command;
use table::ring::Consumer;
use table::snapshot::Publisher;
use table::waker::Waker;
use wire::Mac;

use crate::config::{ChannelPlan, Config, Layout, Named, Role};
use crate::gateway::{Answer, Command};
use crate::report::Report;
use crate::rules::Rules;
use crate::slow::Event;
use crate::standby::Sequences;

/// Control's ends of one worker.
pub struct Link {
    commands: command::Control<Command, Answer>,
    events: Consumer<Event>,
    waker: Waker,
    /// Commands the ring had no room for yet, in order.
    backlog: VecDeque<(Command, Purpose)>,
    /// What was asked for what, oldest first: replies come in order.
    asked: VecDeque<Purpose>,
}

/// What a command was sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Modem,
    Nothing,
    Report,
    Sequences,
}

impl Link {
    /// The ends as made.
    pub fn new(commands: command::Control<Command, Answer>, events: Consumer<Event>, waker: Waker) -> Self {
        Self { commands, events, waker, backlog: VecDeque::new(), asked: VecDeque::new() }
    }

    /// Sends now or as soon as there is room.
    fn post(&mut self, command: Command, purpose: Purpose) {
        self.backlog.push_back((command, purpose));
        self.flush();
    }

    fn flush(&mut self) {
        while let Some((command, purpose)) = self.backlog.pop_front() {
            if let Err(command) = self.commands.send(command) {
                self.backlog.push_front((command, purpose));
                break;
            }
            self.asked.push_back(purpose);
            self.waker.nudge();
        }
    }
}

/// Reason for which a request is refused; a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Control.
pub struct Control {
    config: Config,
    layout: Layout,
    neighbourhood: Neighbourhood,
    forwarding: Publisher<Forwarding>,
    rules: Publisher<Rules>,
    steer: Publisher<Steer>,
    links: Vec<Link>,
    waker: Waker,
    announced: bool,
    /// The last turn took events of workers.
    took_events: bool,
    /// Modems by hardware address: place in the layout's list, which is the handle.
    by_mac: HashMap<Mac, u32>,
    /// Handles without a modem.
    free: Vec<u32>,
    /// First of the downstream service identifiers to be given next.
    next_dsid: u32,
    /// Sets of classifiers that were a modem's own and are unused.
    free_sets: Vec<u32>,
    /// Commands workers have not carried out as asked.
    refused: u64,
    reports: Vec<Option<Box<Report>>>,
    counts: counts::Counts,
    sequences: Vec<Option<Box<Sequences>>>,
    /// Changes so far of what a standby is told.
    edition: u64,
    hand_over: hand_over::HandOver,
}

impl Control {
    /// Control of workers with those links, which wake it by that waker.
    pub fn new(
        config: Config,
        layout: Layout,
        plan: Plan,
        published: (Publisher<Forwarding>, Publisher<Rules>, Publisher<Steer>),
        (links, waker): (Vec<Link>, Waker),
    ) -> Self {
        let next_dsid = modems::following(layout.modems.len() as u32 * crate::modems::MAX_FLOWS as u32 + 1, 0);
        let by_mac = layout.modems.iter().map(|modem| (modem.mac, modem.spec.handle)).collect();
        let reports = links.iter().map(|_| None).collect();
        let sequences = links.iter().map(|_| None).collect();
        let (forwarding, rules, steer) = published;
        Self {
            config,
            layout,
            neighbourhood: Neighbourhood::new(plan),
            forwarding,
            rules,
            steer,
            links,
            waker,
            announced: false,
            took_events: false,
            by_mac,
            free: Vec::new(),
            next_dsid,
            free_sets: Vec::new(),
            refused: 0,
            reports,
            counts: counts::Counts::default(),
            sequences,
            edition: 0,
            hand_over: hand_over::HandOver::default(),
        }
    }

    /// The configuration in use; filter groups are in the order of their numbers, and some of them may be in use no more.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Downstream channels, by number.
    pub fn channels(&self) -> &[ChannelPlan] {
        &self.layout.channels
    }

    /// The modem of that number, if there is one.
    pub fn modem(&self, handle: u32) -> Option<&Named> {
        let modem = self.layout.modems.get(handle as usize)?;
        (self.by_mac.get(&modem.mac) == Some(&handle)).then_some(modem)
    }

    /// The modem of that hardware address.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(&self, mac: Mac) -> Result<&Named, Refusal> {
        let handle = self.by_mac.get(&mac).ok_or_else(|| Refusal(format!("there is no modem {mac}")))?;
        self.modem(*handle).ok_or_else(|| Refusal(format!("there is no modem {mac}")))
    }

    /// How many modems there are.
    pub fn modems(&self) -> usize {
        self.by_mac.len()
    }

    /// Commands that workers refused, or that failed.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Asks all workers for what they have counted; [`Control::report`] has it when they have answered.
    pub fn ask_reports(&mut self) {
        let modems = self.layout.modems.len() + 16;
        for (worker, link) in self.links.iter_mut().enumerate() {
            self.reports[worker] = None;
            let flows = modems * crate::modems::MAX_FLOWS;
            let room = Report::with_room(modems, flows, self.layout.channels.len(), self.layout.granted.len());
            link.post(Command::Report(Box::new(room)), Purpose::Report);
        }
    }

    /// What a worker has counted, once it has answered.
    pub fn report(&self, worker: usize) -> Option<&Report> {
        self.reports.get(worker)?.as_deref()
    }

    /// Workers.
    pub fn workers(&self) -> usize {
        self.links.len()
    }

    /// Neighbours: port, address, state, hardware address.
    pub fn neighbours(&self) -> &NeighbourCache {
        self.neighbourhood.cache()
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
            let purpose = self.links[worker].asked.pop_front().unwrap_or(Purpose::Nothing);
            match answer {
                Ok(Answer::Report(report)) => self.reports[worker] = Some(report),
                Ok(Answer::Counted(rows)) => self.on_counts(worker, rows),
                Ok(Answer::HandOver(handing)) => self.hand_over.answered(worker, handing),
                Ok(Answer::Sequences(known)) => self.sequences[worker] = Some(known),
                Ok(Answer::Refused(..) | Answer::Unknown) | Err(_) if purpose == Purpose::Modem => self.refused += 1,
                _ => {}
            }
        }
    }

    /// Asks for everybody we will send to: devices, and routers.
    fn resolve_all(&mut self, now: u64) {
        let devices = self.config.service_group.iter().map(|group| (Role::Rpd.instance(), group.rpd));
        let gateway = |route: &Route| match route.via {
            Via::Gateway(via) => Some((route.instance, via)),
            Via::Neighbour { .. } | Via::Port(_) => None,
        };
        let routers = self.neighbourhood.plan().routes.iter().filter_map(gateway);
        for (instance, address) in devices.chain(routers).collect::<Vec<_>>() {
            self.want(instance, address, now);
        }
    }

    fn want(&mut self, instance: InstanceId, address: IpAddr, now: u64) {
        // It is asked; packets for it are dropped by name until it has answered.
        let _ = self.neighbourhood.want(instance, address, now);
    }

    fn on_event(&mut self, event: Event, now: u64) {
        match event {
            Event::Neighbour(heard) => self.neighbourhood.hear(heard.port, &heard.message, heard.for_us, now),
            Event::Resolve { instance, address } => self.want(instance, address, now),
        }
    }

    /// Carries out what is decided about neighbours, and publishes what has changed.
    fn act(&mut self, now: u64) {
        self.neighbourhood.act(now, |port, frame| send(&mut self.links, port, frame));
        self.publish_tables();
        self.forwarding.reclaim();
        self.rules.reclaim();
        self.steer.reclaim();
    }

    /// Whether a standby may take over, which has the configuration of this process's start.
    pub(crate) fn has_standby(&self) -> bool {
        self.config.standby.is_some()
    }

    /// Publishes what has changed of neighbours and routes.
    pub(crate) fn publish_tables(&mut self) {
        if let Some(tables) = self.neighbourhood.tables() {
            self.edition += 1;
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

    /// Addresses of modems' hosts, in the network instances of their service groups.
    pub(crate) fn served(&self) -> Vec<ServedPrefix> {
        let names = self.config.links().instances;
        let mut served = Vec::new();
        for group in &self.config.service_group {
            let Some(at) = names.iter().position(|known| known == group.instance()) else { continue };
            let instance = at as InstanceId; // a handful
            for entry in &group.modem {
                let Some(more) = (u32::from(entry.count) * u32::from(entry.hosts)).checked_sub(1) else { continue };
                // Hosts of a multicast entry are groups, which nothing is routed to.
                let v4 = entry.ipv4.filter(|first| !first.is_multicast());
                let v4 = v4.map(|first| cover4(first.into(), u32::from(first).saturating_add(more)));
                let v6 = entry.ipv6.filter(|first| !first.is_multicast());
                let v6 = v6.map(|first| cover6(first.into(), u128::from(first).saturating_add(more.into())));
                let prefixes = v4.into_iter().chain(v6).flatten();
                served.extend(prefixes.map(|(to, len)| ServedPrefix { instance, to, len }));
            }
        }
        served
    }

    /// Tells the neighbourhood where our addresses are.
    fn announce(&mut self) {
        for (port, frame) in self.neighbourhood.plan().announcements() {
            send(&mut self.links, port, frame);
        }
    }
}

/// Has a worker send a frame of ours: the first, as good as any.
fn send(links: &mut [Link], port: u8, frame: Vec<u8>) {
    if let Some(link) = links.first_mut() {
        link.post(Command::Send(port, frame), Purpose::Nothing);
    }
}
