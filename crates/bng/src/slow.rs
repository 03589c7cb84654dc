//! The slow path: what leaves the pipelines to be answered, or goes to control. A packet handled here is counted once:
//! consumed, or dropped by name.

mod access;
mod garden;
mod limits;
mod own;
mod relay;

use std::hash::RandomState;
use std::net::IpAddr;

use dataplane::forward::InstanceId;
use dataplane::icmp::Told;
use dataplane::limit::{Allowance, Limit, PeerLimit};
use dataplane::neighbour::NeighbourMessage;
use dataplane::parse::HasIp;
use dataplane::route::HasForwarding;
use dataplane::slow::{self, Heard, Responder, pong};
use dataplane::unresolved::Unresolved;
use engine::{Burst, Env, Punt};
use frame::Frame;
use table::ring::{Gauge, Producer};
use wire::{Outer, fast};

use crate::config::{Class, PuntSection};
use crate::lane::{Bng, Lane, State};
use crate::link::Line;
use crate::moving::{Come, Leave};
use crate::steer::Side;
use crate::{drops, punts};
pub use limits::LineCount;
use limits::PuntLimits;
use own::Own;
pub use own::Reinject;
pub use relay::FROM_SERVERS;

/// What a worker reports to control.
pub enum Event {
    /// ARP or neighbour discovery came in by a core link.
    Neighbour {
        /// The port it came in by.
        port: u8,
        /// The ARP or neighbour message.
        message: NeighbourMessage,
        /// It asks for an address of ours.
        for_us: bool,
    },
    /// A packet found no neighbour on the way to an address.
    Resolve {
        /// The VRF.
        instance: InstanceId,
        /// Where it was to go.
        address: IpAddr,
    },
    /// A control packet that control is to answer.
    Control(Box<ControlPacket>),
    /// A group has left this worker.
    Left(Box<Leave>),
    /// A group has come to this worker, and its packets are forwarded.
    Arrived(Box<Come>),
    /// The ports have been found empty, and what was in them is handed over; the number of the change.
    PortsEmpty(u32),
}

/// A control packet from the access network, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPacket {
    /// Its class.
    pub class: Class,
    /// The line it came by.
    pub line: Line,
    /// The group of that line; [`FROM_SERVERS`]: a DHCP server of the core has sent it.
    pub group: u16,
    /// The subscriber of that line, by handle, if there is one.
    pub subscriber: Option<u32>,
    /// The whole frame, tags included.
    pub frame: Vec<u8>,
}

/// ICMP errors a second and worker, and of one sender (RFC 1812, 4.3.2.8; RFC 4443, 2.4(f)).
const ERRORS: Allowance = Allowance::new(1000, 100);
const ERRORS_EACH: Allowance = Allowance::new(10, 10);

/// Segments a second and worker that are answered for a portal's sake, and of one subscriber: a page takes three.
const REDIRECTS: Allowance = Allowance::new(10_000, 1000);
const REDIRECTS_EACH: Allowance = Allowance::new(100, 100);

/// A worker's slow path.
pub struct SlowPath {
    events: Producer<Event>,
    limits: PuntLimits,
    /// Answers on core links.
    responder: Responder,
    /// Messages of DHCP servers.
    servers: Limit,
    errors: Box<PeerLimit>,
    /// Answers to subscribers in walled gardens, and what makes their sequence numbers.
    redirects: Box<PeerLimit>,
    secret: RandomState,
    own: Own,
    /// Packets to the core that wait for a neighbour.
    unresolved: Unresolved,
    worker: u16,
    /// Room for a packet as it was before its translation, and for one that has waited too long.
    undone: Vec<u8>,
    late: Vec<u8>,
    /// What the ring to control had no room for and must not be lost: a group that has left, or come.
    unreported: [Option<Event>; 3],
}

impl SlowPath {
    /// The slow path of a worker, which reports to `events`. `seed` should be random.
    pub fn new(events: Producer<Event>, rates: &PuntSection, lines: LineCount, worker: u16, seed: u64) -> Self {
        Self {
            events,
            limits: PuntLimits::new(rates, lines, seed),
            responder: Responder::default(),
            servers: relay::limit(rates),
            errors: Box::new(PeerLimit::new(ERRORS_EACH, ERRORS, seed)),
            redirects: Box::new(PeerLimit::new(REDIRECTS_EACH, REDIRECTS, seed)),
            secret: RandomState::new(),
            own: Own::default(),
            unresolved: Unresolved::default(),
            worker,
            undone: Vec::with_capacity(2048),
            late: Vec::with_capacity(2048),
            unreported: [None, None, None],
        }
    }

    /// Reports what must not be lost, now or as soon as the ring to control has room.
    pub(crate) fn report(&mut self, event: Event) {
        if let Err(event) = self.events.push(event)
            && let Some(place) = self.unreported.iter_mut().find(|place| place.is_none())
        {
            *place = Some(event);
        }
    }

    /// Reports what there was no room for.
    pub(crate) fn report_again(&mut self) {
        for n in 0..self.unreported.len() {
            if let Some(event) = self.unreported[n].take() {
                self.report(event);
            }
        }
    }

    /// Whether something waits to be reported.
    pub(crate) fn is_unreported(&self) -> bool {
        self.unreported.iter().any(Option::is_some)
    }

    /// Handles every punted packet of a burst of that side.
    pub fn see_to(&mut self, burst: &mut Burst<Bng>, side: Side, state: &mut State, env: &mut Env) {
        while let Some((i, punt, frame)) = burst.take_punted() {
            self.one((&burst.lane, i), punt, frame, side, state, env);
        }
    }

    /// Fills an empty burst with packets that wait here and go the same way; none: there are none.
    pub fn next(&mut self, burst: &mut Burst<Bng>, state: &State, env: &mut Env) -> Option<Reinject> {
        self.resume(state, env);
        self.own.next(burst, state, env)
    }

    /// Packets that wait for a neighbour.
    pub fn unresolved(&self) -> usize {
        self.unresolved.held()
    }

    /// Whether packets are on their way through here.
    pub(crate) fn is_under_way(&self) -> bool {
        self.has_ready() || self.is_unreported()
    }

    /// Shows packets that wait for a neighbour: see [`Unresolved::each`].
    pub(crate) fn each_unresolved(&mut self, show: impl FnMut(InstanceId, u64, &[u8])) {
        self.unresolved.each(show);
    }

    /// Takes in a packet to an address that waited for a neighbour in another process. False: there is no room.
    pub(crate) fn take_in_unresolved(&mut self, to: (InstanceId, IpAddr), packet: &[u8], at: u64) -> bool {
        let Self { unresolved, events, .. } = self;
        let (instance, address) = to;
        unresolved.take_in(to, packet, at, || events.push(Event::Resolve { instance, address }).is_ok())
    }

    /// Whether packets can be released now.
    pub fn has_ready(&self) -> bool {
        self.own.held() > 0 || self.unresolved.is_releasing()
    }

    /// Whether packets go on that others of the same flows could overtake.
    pub fn is_releasing(&self) -> bool {
        self.unresolved.is_releasing()
    }

    /// Takes note of new tables.
    pub fn tables_changed(&mut self, state: &State) {
        self.unresolved.tables_changed(state.forwarding());
    }

    /// Drops what has waited too long, and reports what there was no room for.
    pub fn tick(&mut self, state: &State, env: &mut Env) {
        let mut late = std::mem::take(&mut self.late);
        while let Some((instance, packet)) = self.unresolved.expire(env) {
            late.clear();
            late.extend_from_slice(packet);
            let about = own::About { side: Side::Access, instance, packet: &late, len: late.len(), inside: false };
            self.tell(&about, Told::NO_NEIGHBOUR, state, env);
        }
        self.late = late;
        self.report_again();
    }

    /// When [`tick`](Self::tick) has a packet to drop.
    pub fn next_deadline(&self) -> Option<u64> {
        self.unresolved.next_deadline()
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.own.held() + self.unresolved.held()
    }

    /// Other rates of control packets from now on.
    pub(crate) fn set_limits(&mut self, rates: &PuntSection) {
        self.limits.set(rates);
        self.servers.set(relay::allowance(rates));
    }

    /// Drops what waits: the worker ends.
    pub fn close(&mut self, env: &mut Env) {
        self.own.close(env);
        self.unresolved.close(env);
    }

    /// Events reported so far.
    #[inline]
    pub(crate) fn told(&self) -> u64 {
        self.events.gauge().sent()
    }

    /// Counts of the ring to control: what it turned away tells control to look for itself.
    pub fn gauge(&self) -> Gauge {
        self.events.gauge().clone()
    }

    /// Reports to control. False: the ring is full and the event is lost; the ring counts it, and control scans for what
    /// it would have told.
    #[must_use]
    fn report_once(&mut self, event: Event) -> bool {
        self.events.push(event).is_ok()
    }

    fn one(
        &mut self,
        (lane, i): (&Lane, usize),
        punt: Punt,
        frame: Frame,
        side: Side,
        state: &mut State,
        env: &mut Env,
    ) {
        let (l3, ip) = (usize::from(frame.meta.l3), *lane.ip(i));
        match punt {
            punts::HYBRID_ACCESS => {
                env.stats.terminated(punt);
                return self.own.put(Reinject::Upstream, frame, env);
            }
            punts::REDIRECT => return self.redirect((lane, i), frame, state, env),
            punts::HAIRPIN => {
                env.stats.terminated(punt);
                let instance = lane.instance[i];
                return self.turn(frame, instance, state, env);
            }
            punts::TTL_EXPIRED | punts::NO_ROUTE | punts::OVERSIZE => {
                let arena = env.pool.arena().clone();
                let packet = arena.bytes(&frame).get(l3..l3 + ip.total_len as usize).unwrap_or_default();
                let inside = side == Side::Core && lane.inside.has(i);
                let about = own::About { side, instance: lane.instance[i], packet, len: frame.len(), inside };
                match punt {
                    punts::TTL_EXPIRED => self.refuse(&about, (drops::TTL_EXPIRED, Told::TTL_EXPIRED), state, env),
                    punts::NO_ROUTE => self.refuse(&about, (drops::NO_ROUTE, Told::NO_ROUTE), state, env),
                    _ => self.oversize(&about, (lane, i), state, env),
                }
            }
            punts::RESOLVE => {
                let arena = env.pool.arena().clone();
                let packet = arena.bytes(&frame).get(l3..l3 + ip.total_len as usize).unwrap_or_default();
                self.resolve(lane.instance[i], slow::destination(&ip, packet), packet, env);
            }
            _ if side == Side::Access => return self.control_packet(punt, frame, state, env),
            punts::DHCP_SERVER => self.punt_server_message(&frame, env),
            punts::ARP | punts::NEIGHBOUR => self.hear(&frame, punt, state, env),
            punts::PING => return self.responder.ping(frame, env),
            punts::ROUTING | punts::ICMP_OTHER | punts::HOST => {
                let port = state.port(frame.meta.port);
                return self.responder.to_host(frame, punt, port, env);
            }
            other => env.stats.terminated(other),
        }
        env.pool.give(frame);
    }

    /// A packet to the core whose next hop is asked for: it waits.
    fn resolve(&mut self, instance: InstanceId, address: IpAddr, packet: &[u8], env: &mut Env) {
        let Self { unresolved, events, .. } = self;
        let ask = || events.push(Event::Resolve { instance, address }).is_ok();
        unresolved.put(instance, address, packet, env, ask);
    }

    /// A control packet of a line: within the limits of its class it is answered or goes to control.
    fn control_packet(&mut self, punt: Punt, frame: Frame, state: &mut State, env: &mut Env) {
        let class = class_of(punt);
        let outer = Outer::parse(env.arena().bytes(&frame)).unwrap_or_default();
        let line = Line::of(frame.meta.port, &outer);
        let at = class as usize;
        state.counts.punted[at] += 1;
        let shared = state.subscribers.vlans(line.port).get(usize::from(line.s_vlan)).is_some_and(|entry| entry.shared);
        let mac = fast::array(env.arena().bytes(&frame), 6).filter(|_| shared);
        if !self.limits.allow(class, line, mac, env.now) {
            state.counts.limited[at] += 1;
            env.stats.drop_outside(drops::LIMITED, frame.len());
            return env.pool.give(frame);
        }
        match self.answer(punt, class, line, &frame, state, env) {
            Ok(access::Done::Consumed) => env.stats.terminated(punt),
            Ok(access::Done::Pong) => {
                env.stats.terminated(punt);
                return pong(frame, env);
            }
            Err(reason) => env.stats.drop_outside(reason, frame.len()),
        }
        env.pool.give(frame);
    }

    /// ARP or neighbour discovery of a core link: answered when it asks for an address of the port, and reported.
    fn hear(&mut self, frame: &Frame, punt: Punt, state: &State, env: &mut Env) {
        if let Some(Heard { port, message, for_us }) =
            self.responder.hear(frame, punt, state.port(frame.meta.port), env)
        {
            // The packet is counted already; the ring counts what it has no room for, and control scans for it.
            let _ = self.report_once(Event::Neighbour { port, message, for_us });
        }
    }
}

/// The class of a control packet.
fn class_of(punt: Punt) -> Class {
    match punt {
        punts::DHCP4 => Class::Dhcp4,
        punts::DHCP6 => Class::Dhcp6,
        punts::ARP => Class::Arp,
        punts::NEIGHBOUR | punts::ROUTER_SOLICITATION => Class::Nd,
        punts::PPPOE => Class::Pppoe,
        punts::GROUP_MEMBERSHIP => Class::Multicast,
        punts::ROUTING => Class::Routing,
        _ => Class::Icmp,
    }
}
