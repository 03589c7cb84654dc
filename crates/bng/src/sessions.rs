//! Sessions of subscribers that come by themselves: DHCPv4, DHCPv6 and SLAAC on one thread, which owns pools and leases.
//!
//! ```text
//! worker ─ control packet ─► queue ─► server ─► Store ─► ledger ─ on the disk ─► subscriber installed ─► reply sent
//!                                       └─► OFFER, ADVERTISE, NAK, a renewal that needs no record: sent at once
//! ```
//! A subscriber is one record with its IPv4 address, WAN prefix and delegated prefix, whichever came first. Crate `access`
//! decides what is leased and said; this module reads and writes frames, stores, and keeps workers in step.
//!
//! | file | idea |
//! |---|---|
//! | `aaa.rs` | authentication and accounting by RADIUS |
//! | `backlog.rs` | accounting reports that wait |
//! | `frames.rs` | frames of DHCP and neighbour discovery |
//! | `served.rs` | what each group is served, from the configuration |
//! | `store.rs` | leases in the ledger |

mod aaa;
mod backlog;
mod frames;
mod served;
mod store;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use access::dhcp4::{self, Destination, Dhcp4Server};
use access::dhcp6::{self, Dhcp6Server};
use access::lease::{Kind, LeaseKey, LeaseRecord};
use access::pool::{NotRestored, Pools};
use access::queue::{Class as Urgency, Limits, Queue, QueueDrop};
use access::subscriber::{Change, Identity, Subscribers, Vlans};
use access::{Action, ClientKey, Time};
use radius::coa::ErrorCause;
use radius::dictionary::number;
use radius::{Attribute, Code, Packet};
use wire::{Mac, ndp};

use crate::config::{Class, Config, Ipv6Mode};
use crate::control::Control;
use crate::link::Line;
use crate::record::SubscriberSpec;
use crate::slow::ControlPacket;
use crate::subscribers::Usage;

pub use aaa::{Aaa, AaaCounts, Sockets};
use aaa::{Decision, Standing};
use frames::{Carried, Link, Tags};
use served::Served;
pub use served::{BadSessions, ranges};
use store::Store;
pub use store::Stored;

/// Requests served in a turn, and leases that end in it, at most.
const BATCH: usize = 256;
/// How soon a turn goes on with what is left over, in nanoseconds.
const SOON: u64 = 1_000_000;

/// What sessions are made with, beside the configuration.
pub struct Environment {
    /// The wall clock: leases outlive the process.
    pub clock: Box<dyn Fn() -> Time + Send + Sync>,
    /// Called by the ledger's thread when something is on the disk.
    pub told: Box<dyn FnMut() + Send + Sync>,
    /// A random number.
    pub seed: u64,
    /// The sockets of RADIUS, where it is configured.
    pub radius: Option<Sockets>,
}

/// Counters that are not the servers' own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// DHCP messages and solicitations that can't be read.
    pub unreadable: u64,
    /// Requests of lines that have a static subscriber.
    pub fixed: u64,
    /// Messages that a relay agent has forwarded, of groups that trust none.
    pub relayed: u64,
    /// Router solicitations that no prefix was left for.
    pub no_prefix: u64,
    /// Records that the ledger did not take.
    pub not_stored: u64,
    /// Leases of an earlier run that were taken over.
    pub restored: u64,
    /// Leases of an earlier run that were not: they have ended, or no group has their address any more.
    pub dropped: u64,
}

/// Who waits for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requester {
    V4(access::Ticket),
    V6(access::Ticket),
    /// A router solicitation, or nobody.
    Slaac,
}

/// A record on its way to the disk.
#[derive(Debug)]
struct Pending {
    requester: Requester,
    record: LeaseRecord,
    path: ReplyPath,
}

/// The way a reply goes.
#[derive(Clone, Copy, Debug)]
struct ReplyPath {
    group: u16,
    tags: Tags,
    /// The request's source: a relay agent's, if there is one.
    via: Mac,
}

/// A subscriber that came by itself.
#[derive(Clone, Copy, Debug)]
struct Session {
    handle: u32,
    group: u16,
    profile: u16,
    /// Its client's hardware address; none: a relay agent's client, or SLAAC alone.
    mac: Option<Mac>,
    tags: Tags,
    /// IPv6 packets from it when last looked.
    packets6: u64,
    /// When it is looked at next, in ms of the wall clock; 0: never.
    check: u64,
}

/// Sessions.
pub struct Sessions {
    environment: Environment,
    groups: Vec<Option<Served>>,
    /// By VRF.
    pools: Vec<Pools>,
    dhcp4: Dhcp4Server,
    dhcp6: Dhcp6Server,
    queue: Queue<ControlPacket>,
    store: Store<Pending>,
    records: Subscribers,
    sessions: HashMap<Identity, Session>,
    by_handle: HashMap<u32, Identity>,
    /// Static subscribers' lines.
    fixed: HashSet<Identity>,
    next_handle: u32,
    free: Vec<u32>,
    /// When subscribers with an advertised prefix are looked at, in ms of the wall clock.
    checks: BinaryHeap<Reverse<(u64, u32)>>,
    aaa: Option<Aaa>,
    /// Tiers by name.
    profiles: HashMap<String, u16>,
    /// Subscribers whose usage is awaited for an interim report.
    reporting: HashSet<u32>,
    counts: Counts,
}

fn line_of(line: Line) -> access::Line {
    access::Line { port: line.port.into(), s_vlan: line.s_vlan, c_vlan: line.c_vlan }
}

fn line_back(line: access::Line) -> Line {
    Line { port: line.port as u8, s_vlan: line.s_vlan, c_vlan: line.c_vlan } // it came from there
}

/// The circuit ID that an access node has put into a request (option 82; option 18 of DHCPv6), if it is text.
fn circuit_of(frame: &[u8]) -> Option<String> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty()).map(str::to_owned);
    match frames::read(frame)? {
        Carried::Dhcp4(octets) => {
            let agent = dhcp4::Message::parse(octets).ok()?.agent?;
            text(access::option82::RelayAgent::parse(agent).ok()?.circuit_id?)
        }
        Carried::Dhcp6(_, octets) => text(dhcp6::Message::parse(octets).ok()?.agent()?.interface_id?),
        Carried::Solicitation => None,
    }
}

/// User-Name of a request's subscriber: what the access node calls its line, if there is one, or what we do. Otherwise the
/// subscriber could choose whom it is taken for.
fn user_of(has_access_node: bool, frame: &[u8], line: &str) -> String {
    Some(frame).filter(|_| has_access_node).and_then(circuit_of).unwrap_or_else(|| line.to_owned())
}

fn upper(address: Ipv6Addr) -> u64 {
    (address.to_bits() >> 64) as u64
}

/// The prefix that an address is of, a /64.
fn prefix_of(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(u128::from(upper(address)) << 64)
}

fn is_slaac(key: &LeaseKey) -> bool {
    // Keys of DHCPv6 have an identifier that is never 0.
    key.kind == Kind::Na && key.client.identifier == 0
}

impl Sessions {
    /// Sessions of the groups that have some, with the leases of an earlier run; none: no group has. Also the subscribers
    /// of those leases, which are to be installed before workers run.
    ///
    /// # Errors
    /// [`BadSessions`].
    pub fn new(
        config: &Config,
        control: &Control,
        mut stored: Stored,
        mut environment: Environment,
    ) -> Result<Option<(Self, Vec<SubscriberSpec>)>, BadSessions> {
        if !config.has_sessions() {
            return Ok(None);
        }
        let layout = control.layout();
        let groups: Vec<_> = (0..layout.groups.len()).map(|n| Served::new(config, layout, n)).collect();
        let instances = config.instances().len();
        let specs: Vec<_> = control.subscribers().copied().collect();
        let pools = |instance| served::pools(config, layout, &specs, instance);
        let pools = (0..instances).map(pools).collect::<Result<_, _>>()?;
        let section = &config.sessions;
        let told = std::mem::replace(&mut environment.told, Box::new(|| {}));
        let now = (environment.clock)();
        let aaa = config.radius.as_ref().zip(environment.radius.take());
        let aaa = aaa.map(|(section, sockets)| Aaa::new(section, sockets, now));
        let store = Store::new(&mut stored, told).map_err(BadSessions::Ledger)?;
        let fixed = specs.iter().map(|spec| {
            let shared = layout.groups[usize::from(spec.group)].shared;
            Identity { line: line_of(spec.line), mac: spec.mac.filter(|_| shared).map(Mac) }
        });
        let (fixed, next_handle) = (fixed.collect(), specs.len() as u32); // at most MOST_SUBSCRIBERS
        // Workers have limited lines already.
        let limits = Limits { line_rate: 1000, line_burst: 1000, block_after: 0, ..Limits::default() };
        let mut this = Self {
            dhcp4: served::dhcp4(config, layout)?,
            dhcp6: served::dhcp6(config, layout, section, control.own_mac()),
            environment,
            groups,
            pools,
            queue: Queue::new(limits),
            store,
            records: Subscribers::default(),
            sessions: HashMap::new(),
            by_handle: HashMap::new(),
            fixed,
            next_handle,
            free: Vec::new(),
            checks: BinaryHeap::new(),
            aaa,
            profiles: config.profile.iter().map(|profile| profile.name.clone()).zip(0..).collect(),
            reporting: HashSet::new(),
            counts: Counts::default(),
        };
        let specs = this.restore(&stored, control);
        Ok(Some((this, specs)))
    }

    /// Counters that are not the servers' own.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The DHCPv4 server, for its counters.
    pub fn dhcp4(&self) -> &Dhcp4Server {
        &self.dhcp4
    }

    /// The DHCPv6 server, for its counters.
    pub fn dhcp6(&self) -> &Dhcp6Server {
        &self.dhcp6
    }

    /// Requests dropped before a server saw them.
    pub fn queue_drops(&self, reason: QueueDrop) -> u64 {
        self.queue.dropped(reason)
    }

    /// Counters of RADIUS; none: it is not configured.
    pub fn aaa_counts(&self) -> Option<AaaCounts> {
        self.aaa.as_ref().map(Aaa::counts)
    }

    /// Subscribers that came by themselves.
    pub fn count(&self) -> usize {
        self.sessions.len()
    }

    /// Leases that are granted.
    pub fn leases(&self) -> usize {
        self.pools.iter().map(Pools::bound).sum()
    }

    /// Whether a handle is that of a subscriber that came by itself.
    pub fn has(&self, handle: u32) -> bool {
        self.by_handle.contains_key(&handle)
    }

    /// Takes over the leases of an earlier run; returns their subscribers.
    fn restore(&mut self, stored: &Stored, control: &Control) -> Vec<SubscriberSpec> {
        let now = (self.environment.clock)();
        // Of two records of one lease the later counts.
        let mut leases: Vec<_> = stored.leases().to_vec();
        leases.sort_unstable_by_key(|(number, _)| Reverse(*number));
        let mut changed = HashSet::new();
        for (number, mut record) in leases {
            if let Some(group) = self.group_of(&record) {
                record.group = group;
            }
            let restored = match self.pools_of(record.group) {
                Some(pools) => pools.restore(&record, now).map(|_| ()),
                None => Err(NotRestored::NoPool(record.group, record.address)),
            };
            match restored {
                Ok(()) => {
                    self.store.know(record.key, number);
                    self.counts.restored += 1;
                    changed.extend(self.apply_lease(control, &record, None, now).map(|(identity, _)| identity));
                }
                Err(why) => {
                    if !matches!(why, NotRestored::Ended(_)) {
                        tracing::warn!(target: "sessions", event = "lease_dropped", "{why}");
                    }
                    self.store.forget(number);
                    self.counts.dropped += 1;
                }
            }
        }
        if let Some(aaa) = &mut self.aaa {
            changed.iter().for_each(|identity| aaa.restored(*identity));
        }
        changed.iter().filter_map(|identity| self.spec(identity)).collect()
    }

    /// The group that has a stored lease's address: its number may be another one since.
    fn group_of(&self, record: &LeaseRecord) -> Option<u16> {
        let is_in = |group: &u16| {
            let served = self.groups.get(usize::from(*group)).and_then(Option::as_ref);
            let pools = served.and_then(|served| self.pools.get(served.instance));
            let address = record.ip4().map_or(record.address.into(), std::net::IpAddr::from);
            pools.is_some_and(|pools| pools.has(*group, record.key.kind, address))
        };
        Some(record.group).filter(is_in).or_else(|| (0..self.groups.len() as u16).find(is_in))
    }

    fn served(&self, group: u16) -> Option<&Served> {
        self.groups.get(usize::from(group))?.as_ref()
    }

    fn pools_of(&mut self, group: u16) -> Option<&mut Pools> {
        let instance = self.served(group)?.instance;
        self.pools.get_mut(instance)
    }

    /// A turn: `clock_ns` is the time of `control`'s clock, in nanoseconds. Requests wait by that one: it is not set back.
    pub fn turn(&mut self, control: &mut Control, clock_ns: u64) {
        let now = (self.environment.clock)();
        let steady = Time(clock_ns / 1_000_000);
        let packets: Vec<_> = control.packets().collect();
        for packet in packets {
            if !self.take_in(packet, steady) {
                control.leave_unanswered();
            }
        }
        for _ in 0..BATCH {
            let Some((packet, _)) = self.queue.pop(steady) else { break };
            self.admit(control, packet, now, steady);
        }
        self.authenticate(control, now, steady);
        self.store.flush();
        self.finish(control, now);
        for pools in 0..self.pools.len() {
            access::expire(&mut self.pools[pools], Some(&mut self.dhcp4), Some(&mut self.dhcp6), now, BATCH);
        }
        self.act4(control, None, now);
        self.act6(control, None, now);
        self.finish(control, now);
        self.advertise(control, now);
        self.check(control, now);
    }

    /// When there is something to do next, in nanoseconds of `control`'s clock, which shows `clock_ns` now.
    pub fn next_deadline(&self, clock_ns: u64) -> Option<u64> {
        if !self.queue.is_empty() {
            return Some(0);
        }
        if self.store.is_behind() || (self.store.waiting() > 0 && self.store.is_ready()) {
            return Some(clock_ns + SOON);
        }
        let now = (self.environment.clock)();
        let leases = self.pools.iter().filter_map(Pools::next_due).map(|due| Time::from_secs(due.into()));
        let adverts = self.groups.iter().flatten().filter_map(|served| served.adverts.next_due());
        let checks = self.checks.peek().map(|Reverse((due, _))| Time(*due));
        let aaa = self.aaa.as_ref().and_then(|aaa| aaa.next_due(now, Time(clock_ns / 1_000_000)));
        let next = leases.chain(adverts).chain(checks).chain(aaa).min()?;
        let ms = next.since(now).as_millis() as u64;
        Some(clock_ns.saturating_add(ms.saturating_mul(1_000_000)).saturating_add(SOON))
    }

    /// Takes a control packet. False: it is not for us.
    fn take_in(&mut self, packet: ControlPacket, steady: Time) -> bool {
        if !matches!(packet.class, Class::Dhcp4 | Class::Dhcp6 | Class::Nd) {
            return false;
        }
        let Some(served) = self.served(packet.group) else { return false };
        let urgency = match frames::read(&packet.frame) {
            Some(Carried::Dhcp4(octets))
                if !served.relayed && octets.get(24..28).is_some_and(|giaddr| giaddr != [0; 4]) =>
            {
                self.counts.relayed += 1;
                return true;
            }
            Some(Carried::Dhcp6(_, octets))
                if !served.relayed && !served.trust_option82 && dhcp6::is_relayed(octets) =>
            {
                self.counts.relayed += 1;
                return true;
            }
            Some(Carried::Dhcp4(octets)) => dhcp4::class(octets),
            Some(Carried::Dhcp6(_, octets)) => dhcp6::class(octets),
            Some(Carried::Solicitation) => Some(Urgency::Discover),
            // Of neighbour discovery only solicitations for routers are for us.
            None if packet.class == Class::Nd => return true,
            None => None,
        };
        let Some(urgency) = urgency else {
            self.counts.unreadable += 1;
            return true;
        };
        // A relay agent's frames are all from one hardware address; its clients are told apart by theirs.
        let source = match frames::read(&packet.frame) {
            Some(Carried::Dhcp4(octets)) if served.relayed => wire::fast::array(octets, 28).map(Mac),
            _ => None,
        };
        let source = source.unwrap_or_else(|| frames::source(&packet.frame));
        let shared = served.vlans == Vlans::ManyPerLine;
        let identity = Identity { line: line_of(packet.line), mac: shared.then_some(source) };
        if self.fixed.contains(&identity) {
            self.counts.fixed += 1;
            return true;
        }
        // What is dropped is counted there.
        let _ = self.queue.push(steady, identity, urgency, packet);
        true
    }

    /// Serves a request, once its subscriber is known to the servers that decide about it.
    fn admit(&mut self, control: &mut Control, packet: ControlPacket, now: Time, steady: Time) {
        let identity = self.identity_of(&packet);
        let has_session = self.sessions.contains_key(&identity);
        let Some(aaa) = &mut self.aaa else { return self.serve(control, &packet, now) };
        match aaa.standing(&identity, has_session, steady) {
            Standing::Granted => self.serve(control, &packet, now),
            Standing::Denied => {}
            Standing::Waits => aaa.hold(identity, packet),
            standing @ (Standing::Unknown | Standing::Restored) => {
                let line = self.line_name(control, &identity);
                let is_trusted = self.served(packet.group).is_some_and(|served| served.trust_option82);
                let user = user_of(is_trusted, &packet.frame, &line);
                let about = aaa::about(Some(frames::source(&packet.frame).0), &line);
                let is_served = standing == Standing::Restored;
                if is_served {
                    self.serve(control, &packet, now);
                }
                if let Some(aaa) = &mut self.aaa {
                    aaa.ask(identity, (!is_served).then_some(packet), user, about, steady);
                }
            }
        }
    }

    fn identity_of(&self, packet: &ControlPacket) -> Identity {
        let shared = self.served(packet.group).is_some_and(|served| served.vlans == Vlans::ManyPerLine);
        Identity { line: line_of(packet.line), mac: shared.then(|| frames::source(&packet.frame)) }
    }

    /// A line's name: `port:s_vlan.c_vlan`, and the hardware address where lines share VLANs.
    fn line_name(&self, control: &Control, identity: &Identity) -> String {
        let access::Line { port, s_vlan, c_vlan } = identity.line;
        let port = control.config().port.get(usize::from(port)).map_or("", |port| port.name.as_str());
        match identity.mac {
            Some(mac) => format!("{port}:{s_vlan}.{c_vlan}/{mac}"),
            None => format!("{port}:{s_vlan}.{c_vlan}"),
        }
    }

    /// What RADIUS servers have decided, and what is to be reported to them.
    fn authenticate(&mut self, control: &mut Control, now: Time, steady: Time) {
        for (handle, usage) in control.removed() {
            if self.by_handle.contains_key(&handle) {
                continue;
            }
            self.free.push(handle);
            if let Some(aaa) = &mut self.aaa {
                aaa.stop(handle, &usage, now);
            }
        }
        let Some(aaa) = &mut self.aaa else { return };
        aaa.sweep(steady, |identity| self.sessions.contains_key(identity));
        let due = aaa.due(now);
        for decision in aaa.turn(now, steady) {
            match decision {
                Decision::Accepted(identity, packet) => {
                    self.change_profile(control, &identity);
                    if let Some((aaa, session)) = self.aaa.as_mut().zip(self.sessions.get(&identity)) {
                        aaa.adopt(session.handle, &identity, now);
                    }
                    if let Some(packet) = packet {
                        self.serve(control, &packet, now);
                    }
                }
                Decision::Change(ticket, packet) => {
                    let result = self.change(control, &packet);
                    if let Some(aaa) = &mut self.aaa {
                        aaa.answer(ticket, result);
                    }
                }
            }
        }
        if !due.is_empty() {
            control.ask_usage(&due);
            self.reporting.extend(due);
        }
    }

    /// A CoA- or Disconnect-Request (RFC 5176).
    fn change(&mut self, control: &mut Control, packet: &Packet) -> Result<(), ErrorCause> {
        let handle = self.aaa.as_ref().and_then(|aaa| aaa.named(packet)).ok_or(ErrorCause::SessionContextNotFound)?;
        if packet.code == Code::DisconnectRequest {
            return if self.clear(control, handle) { Ok(()) } else { Err(ErrorCause::SessionContextNotFound) };
        }
        let name = packet.get(number::FILTER_ID).and_then(Attribute::to_text).ok_or(ErrorCause::MissingAttribute)?;
        let profile = *self.profiles.get(name).ok_or(ErrorCause::InvalidAttributeValue)?;
        let identity = *self.by_handle.get(&handle).ok_or(ErrorCause::SessionContextNotFound)?;
        self.set_profile(control, &identity, profile);
        Ok(())
    }

    /// A subscriber has the tier that a server named.
    fn change_profile(&mut self, control: &mut Control, identity: &Identity) {
        if self.sessions.contains_key(identity)
            && let Some(profile) = self.granted_profile(identity)
        {
            self.set_profile(control, identity, profile);
        }
    }

    fn granted_profile(&self, identity: &Identity) -> Option<u16> {
        let name = self.aaa.as_ref()?.grant(identity)?.profile.as_ref()?;
        self.profiles.get(name).copied()
    }

    fn set_profile(&mut self, control: &mut Control, identity: &Identity, profile: u16) {
        let Some(session) = self.sessions.get_mut(identity).filter(|session| session.profile != profile) else {
            return;
        };
        session.profile = profile;
        if let Some(spec) = self.spec(identity) {
            let _ = control.install(spec); // its group is there
        }
    }

    fn serve(&mut self, control: &mut Control, packet: &ControlPacket, now: Time) {
        let (line, group) = (line_of(packet.line), packet.group);
        let source = frames::source(&packet.frame);
        let path = ReplyPath { group, tags: Tags::of(&packet.frame), via: source };
        let Some(instance) = self.served(group).map(|served| served.instance) else { return };
        match frames::read(&packet.frame) {
            Some(Carried::Dhcp4(octets)) => {
                let request = dhcp4::Request { line, group, source, octets };
                let outcome = self.dhcp4.receive(&mut self.pools[instance], now, &request);
                self.act4(control, Some(path), now);
                if matches!(outcome, dhcp4::Outcome::Acknowledged | dhcp4::Outcome::Stored) {
                    self.renew_prefix(line, group, source, path, now);
                }
            }
            Some(Carried::Dhcp6(from, octets)) => {
                let request = dhcp6::Request { line, group, source, from, octets };
                let outcome = self.dhcp6.receive(&mut self.pools[instance], now, &request);
                self.act6(control, Some(path), now);
                if matches!(outcome, dhcp6::Outcome::Replied | dhcp6::Outcome::Stored) {
                    self.renew_prefix(line, group, source, path, now);
                }
            }
            Some(Carried::Solicitation) => self.solicited(control, line, path, now),
            None => {}
        }
    }

    /// Carries out what the DHCPv4 server decided; `path` leads back to the client, if a request caused it.
    fn act4(&mut self, control: &mut Control, path: Option<ReplyPath>, now: Time) {
        while let Some(action) = self.dhcp4.next_action() {
            match (action, path) {
                (Action::Send(reply), Some(path)) => self.send4(control, &reply, path),
                // No request caused it: there is no client to reply to.
                (Action::Send(_), None) => {}
                (Action::Store(ticket, record), path) => {
                    let path =
                        path.unwrap_or(ReplyPath { group: record.group, tags: Tags::default(), via: Mac([0; 6]) });
                    self.put(Pending { requester: Requester::V4(ticket), record, path });
                }
                (Action::Erase(record), _) => self.ended(control, &record, now),
            }
        }
    }

    /// As [`act4`](Self::act4).
    fn act6(&mut self, control: &mut Control, path: Option<ReplyPath>, now: Time) {
        while let Some(action) = self.dhcp6.next_action() {
            match (action, path) {
                (Action::Send(reply), Some(path)) => self.send6(control, &reply, path),
                (Action::Send(_), None) => {}
                (Action::Store(ticket, record), path) => {
                    let path =
                        path.unwrap_or(ReplyPath { group: record.group, tags: Tags::default(), via: Mac([0; 6]) });
                    self.put(Pending { requester: Requester::V6(ticket), record, path });
                }
                (Action::Erase(record), _) => self.ended(control, &record, now),
            }
        }
    }

    fn put(&mut self, pending: Pending) {
        let record = pending.record;
        if let Err(pending) = self.store.put(&record, pending) {
            self.not_stored(&pending);
        }
    }

    fn not_stored(&mut self, pending: &Pending) {
        self.counts.not_stored += 1;
        let Some(instance) = self.served(pending.record.group).map(|served| served.instance) else { return };
        let pools = &mut self.pools[instance];
        match pending.requester {
            Requester::V4(ticket) => self.dhcp4.not_stored(pools, ticket),
            Requester::V6(ticket) => self.dhcp6.not_stored(pools, ticket),
            Requester::Slaac => pools.find(&pending.record.key).into_iter().for_each(|slot| pools.not_stored(slot)),
        }
    }

    /// What has become durable is put to use: the subscriber first, then the reply.
    fn finish(&mut self, control: &mut Control, now: Time) {
        while let Some((pending, done)) = self.store.durable() {
            let Pending { requester, record, path } = pending;
            if let Err(error) = done {
                if self.counts.not_stored == 0 {
                    tracing::error!(target: "sessions", event = "leases_not_stored", "no lease is granted any more: {error}");
                }
                self.not_stored(&Pending { requester, record, path });
                continue;
            }
            // It may have been given back meanwhile.
            let is_live = self.pools_of(record.group).is_some_and(|pools| {
                let slot = pools.find(&record.key);
                slot.is_some_and(|slot| {
                    let is_bound = pools.lease(slot).state() == access::pool::State::Bound;
                    is_bound && pools.address(slot) == record.address
                })
            });
            if is_live {
                self.granted(control, &record, path, now);
            }
            match requester {
                Requester::V4(ticket) => {
                    self.dhcp4.durable(ticket);
                    self.act4(control, Some(path), now);
                }
                Requester::V6(ticket) => {
                    self.dhcp6.durable(ticket);
                    self.act6(control, Some(path), now);
                }
                Requester::Slaac => {}
            }
        }
    }

    /// Takes a lease into its subscriber; returns whose it is and what has changed.
    fn apply_lease(
        &mut self,
        control: &Control,
        record: &LeaseRecord,
        tags: Option<Tags>,
        now: Time,
    ) -> Option<(Identity, bool)> {
        let served = self.groups.get(usize::from(record.group))?.as_ref()?;
        let (profile, vlans) = (served.profile, served.vlans);
        let identity = Identity::of(&record.key.client, vlans);
        let profile = self.granted_profile(&identity).unwrap_or(profile);
        let slaac = is_slaac(&record.key);
        let change = if slaac {
            self.records.slaac(identity, Some(prefix_of(record.address)))
        } else {
            self.records.granted(identity, record)
        };
        let line = line_back(record.key.client.line);
        let tags = tags.unwrap_or_else(|| frames::tags_of(&control.header_of(record.group, line)));
        let mac = Some(Mac(record.key.client.mac)).filter(|mac| mac.0 != [0; 6]);
        let mut changed = change != Change::Same;
        match self.sessions.get_mut(&identity) {
            Some(session) => {
                session.tags = tags;
                // A session of DHCP knows its client best.
                let better = if slaac { session.mac.or(mac) } else { mac.or(session.mac) };
                changed |= better != session.mac;
                session.mac = better;
            }
            None => {
                let handle = self.free.pop().unwrap_or_else(|| {
                    self.next_handle += 1;
                    self.next_handle - 1
                });
                let session = Session { handle, group: record.group, profile, mac, tags, packets6: 0, check: 0 };
                self.sessions.insert(identity, session);
                self.by_handle.insert(handle, identity);
                let about = self.about(control, &identity);
                if let Some(aaa) = &mut self.aaa {
                    aaa.start(handle, &identity, about, now);
                }
            }
        }
        if changed {
            let about = self.about(control, &identity);
            if let Some((aaa, session)) = self.aaa.as_mut().zip(self.sessions.get(&identity)) {
                aaa.update(session.handle, about);
            }
        }
        self.start_advertisements(&identity, slaac.then_some(record), now);
        Some((identity, changed))
    }

    /// What accounting says of a subscriber: line, hardware address, addresses and prefixes.
    fn about(&self, control: &Control, identity: &Identity) -> Vec<Attribute> {
        let (Some(session), Some(has)) = (self.sessions.get(identity), self.records.get(identity)) else {
            return Vec::new();
        };
        let mac = identity.mac.or(session.mac).map(|mac| mac.0);
        let mut about = aaa::about(mac, &self.line_name(control, identity));
        about.extend(has.ip4.map(|address| Attribute::ip4(number::FRAMED_IP_ADDRESS, address)));
        about.extend(has.slaac.map(|prefix| Attribute::prefix6(number::FRAMED_IPV6_PREFIX, prefix, 64)));
        about.extend(has.na.map(|address| Attribute::octets(number::FRAMED_IPV6_ADDRESS, address.octets())));
        about.extend(has.pd.map(|(prefix, len)| Attribute::prefix6(number::DELEGATED_IPV6_PREFIX, prefix, len)));
        about
    }

    /// Advertises routers to a subscriber that has IPv6.
    fn start_advertisements(&mut self, identity: &Identity, slaac: Option<&LeaseRecord>, now: Time) {
        let (Some(session), Some(has)) = (self.sessions.get(identity), self.records.get(identity)) else { return };
        let (handle, group) = (session.handle, session.group);
        let Some(Some(served)) = self.groups.get_mut(usize::from(group)) else { return };
        let is_new = has.na.is_some() || has.pd.is_some() || has.slaac.is_some();
        if served.link_local.is_some() && is_new && served.told.insert(handle, has.slaac) != Some(has.slaac) {
            served.adverts.add(handle, has.slaac, now);
            let at = now.0 + served.valid.as_millis() as u64 / 4;
            if slaac.is_some() {
                self.schedule_check(identity, at);
            }
        }
    }

    fn schedule_check(&mut self, identity: &Identity, at: u64) {
        if let Some(session) = self.sessions.get_mut(identity) {
            session.check = at;
            self.checks.push(Reverse((at, session.handle)));
        }
    }

    fn granted(&mut self, control: &mut Control, record: &LeaseRecord, path: ReplyPath, now: Time) {
        if let Some((identity, true)) = self.apply_lease(control, record, Some(path.tags), now)
            && let Some(spec) = self.spec(&identity)
            && let Err(why) = control.install(spec)
        {
            tracing::warn!(target: "sessions", event = "not_installed", "{why}");
        }
    }

    /// A subscriber as workers have it.
    fn spec(&self, identity: &Identity) -> Option<SubscriberSpec> {
        let (session, has) = (self.sessions.get(identity)?, self.records.get(identity)?);
        Some(SubscriberSpec {
            handle: session.handle,
            line: line_back(identity.line),
            group: session.group,
            mac: identity.mac.or(session.mac).map(|mac| mac.0),
            ipv4: has.ip4.map(u32::from),
            wan: has.na.or(has.slaac).map(upper),
            pd: has.pd.map(|(prefix, len)| (upper(prefix), len)),
            profile: session.profile,
        })
    }

    /// A lease has ended: its subscriber has less, or is gone.
    fn ended(&mut self, control: &mut Control, record: &LeaseRecord, now: Time) {
        self.store.erase(&record.key);
        let Some(vlans) = self.served(record.group).map(|served| served.vlans) else { return };
        let identity = Identity::of(&record.key.client, vlans);
        let change = if is_slaac(&record.key) {
            self.records.slaac(identity, None)
        } else {
            self.records.ended(identity, record)
        };
        match change {
            Change::Ended => self.leave(control, &identity, now),
            Change::Changed | Change::Began => {
                self.start_advertisements(&identity, None, now);
                if let Some(spec) = self.spec(&identity) {
                    let _ = control.install(spec); // its group is there
                }
            }
            Change::Same => {}
        }
    }

    /// The last of a subscriber is gone.
    fn leave(&mut self, control: &mut Control, identity: &Identity, now: Time) {
        let Some(session) = self.sessions.remove(identity) else { return };
        self.by_handle.remove(&session.handle);
        if let Some(aaa) = &mut self.aaa {
            aaa.forget(identity);
        }
        if let Some(Some(served)) = self.groups.get_mut(usize::from(session.group)) {
            served.told.remove(&session.handle);
            if let Some(farewell) = served.adverts.remove(session.handle) {
                self.send_advertisement(control, identity, &session, &farewell);
            }
        }
        // Its number is free when its worker has answered; if it never had it, at once.
        if control.remove(session.handle).is_err() {
            self.free.push(session.handle);
            if let Some(aaa) = &mut self.aaa {
                aaa.stop(session.handle, &Usage::default(), now);
            }
        }
    }

    /// Ends everything that a subscriber has. False: it did not come by itself.
    pub fn clear(&mut self, control: &mut Control, handle: u32) -> bool {
        let now = (self.environment.clock)();
        let Some(identity) = self.by_handle.get(&handle).copied() else { return false };
        let Some(group) = self.sessions.get(&identity).map(|session| session.group) else { return false };
        let Some(served) = self.served(group) else { return false };
        let (vlans, instance) = (served.vlans, served.instance);
        let pools = &mut self.pools[instance];
        let keys: Vec<_> = pools.granted().map(|slot| pools.lease(slot).key()).collect();
        for key in keys.iter().filter(|key| Identity::of(&key.client, vlans) == identity) {
            match key.kind {
                Kind::Ip4 => self.dhcp4.end(pools, key),
                Kind::Na | Kind::Pd => self.dhcp6.end(pools, key),
            };
        }
        self.act4(control, None, now);
        self.act6(control, None, now);
        true
    }

    fn send4(&mut self, control: &mut Control, reply: &dhcp4::Reply, path: ReplyPath) {
        let (to, address, port) = match reply.to {
            Destination::Relay(address) => (path.via, address, 67),
            Destination::Unicast(mac, address) => (mac, address, 68),
            Destination::Broadcast => (Mac([0xff; 6]), Ipv4Addr::BROADCAST, 68),
        };
        let link = Link { from: control.gateway_mac(path.group, reply.line.port as u8), to, tags: path.tags };
        if let Some(frame) = frames::datagram4(&link, (reply.server, 67), (address, port), &reply.octets) {
            let _ = control.send(path.group, reply.line.port as u8, frame); // its group is there
        }
    }

    fn send6(&mut self, control: &mut Control, reply: &dhcp6::Reply, path: ReplyPath) {
        let Some(from) = self.served(path.group).and_then(|served| served.link_local) else { return };
        let (to, address, port) = reply.to;
        let link = Link { from: control.gateway_mac(path.group, reply.line.port as u8), to, tags: path.tags };
        let (from, to) = ((from, dhcp6::SERVER_PORT), (address, port));
        if let Some(frame) = frames::datagram6(&link, from, to, &reply.octets) {
            let _ = control.send(path.group, reply.line.port as u8, frame);
        }
    }

    /// The key of the prefix that is advertised to a subscriber.
    fn prefix_key(&self, line: access::Line, group: u16, source: Mac) -> LeaseKey {
        let shared = self.served(group).is_some_and(|served| served.vlans == Vlans::ManyPerLine);
        let mac = if shared { source.0 } else { [0; 6] };
        LeaseKey { kind: Kind::Na, client: ClientKey { line, mac, identifier: 0 } }
    }

    /// A router solicitation: a prefix of the line's own, where prefixes are advertised, and an advertisement.
    fn solicited(&mut self, control: &mut Control, line: access::Line, path: ReplyPath, now: Time) {
        let Some(served) = self.served(path.group) else { return };
        let (mode, offer, instance) = (served.mode, served.offer, served.instance);
        let Some(link_local) = served.link_local else { return };
        let random = self.random();
        if mode == Ipv6Mode::Slaac {
            let key = self.prefix_key(line, path.group, path.via);
            match self.pools[instance].offer(key, path.group, None, now, offer) {
                Err(_) => {
                    self.counts.no_prefix += 1;
                    return;
                }
                Ok(_) => self.renew_prefix(line, path.group, path.via, path, now),
            }
        }
        let vlans = self.served(path.group).map_or(Vlans::OnePerLine, |served| served.vlans);
        let identity = Identity { line, mac: (vlans == Vlans::ManyPerLine).then_some(path.via) };
        let handle = self.sessions.get(&identity).map(|session| session.handle);
        let Some(Some(served)) = self.groups.get_mut(usize::from(path.group)) else { return };
        if handle.is_some_and(|handle| served.adverts.solicited(handle, now, random)) || mode == Ipv6Mode::Slaac {
            // With a prefix, it is sent when that is on the disk.
            return;
        }
        // Nobody's line yet: how addresses are assigned here.
        let message = access::ra::message(&served.advert, None);
        self.send_to(control, path.group, line, (path.via, path.tags), link_local, &message);
    }

    /// The prefix that is advertised to a subscriber lives as long as the subscriber shows itself.
    fn renew_prefix(&mut self, line: access::Line, group: u16, source: Mac, path: ReplyPath, now: Time) {
        let Some(served) = self.served(group).filter(|served| served.mode == Ipv6Mode::Slaac) else { return };
        let (instance, valid) = (served.instance, served.valid);
        let key = self.prefix_key(line, group, source);
        let pools = &mut self.pools[instance];
        let live = pools.find(&key).filter(|slot| pools.lease(*slot).state() != access::pool::State::Idle);
        let Some(slot) = live else { return };
        if pools.grant(slot, (now + valid).secs(), (Time::default() + valid).secs()) {
            let record = pools.record(slot);
            self.put(Pending { requester: Requester::Slaac, record, path });
        }
    }

    fn random(&mut self) -> u32 {
        // xorshift64*: spreads timers, nothing more.
        let mut x = self.environment.seed | 1;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.environment.seed = x;
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Sends router advertisements that are due.
    fn advertise(&mut self, control: &mut Control, now: Time) {
        for group in 0..self.groups.len() {
            for _ in 0..BATCH {
                let random = self.random();
                let Some(served) = self.groups[group].as_mut() else { break };
                let Some((handle, message)) = served.adverts.poll(now, random) else { break };
                let Some(identity) = self.by_handle.get(&handle).copied() else { continue };
                if let Some(session) = self.sessions.get(&identity).copied() {
                    self.send_advertisement(control, &identity, &session, &message);
                }
            }
        }
    }

    fn send_advertisement(&self, control: &mut Control, identity: &Identity, session: &Session, message: &ndp::Repr) {
        let Some(link_local) = self.served(session.group).and_then(|served| served.link_local) else { return };
        // All nodes, where no single one is known (RFC 2464, 7).
        let to = identity.mac.or(session.mac).unwrap_or(Mac([0x33, 0x33, 0, 0, 0, 1]));
        self.send_to(control, session.group, identity.line, (to, session.tags), link_local, message);
    }

    fn send_to(
        &self,
        control: &mut Control,
        group: u16,
        line: access::Line,
        (to, tags): (Mac, Tags),
        from: Ipv6Addr,
        message: &ndp::Repr,
    ) {
        let port = line.port as u8;
        let (own, line_mtu) = (control.gateway_mac(group, port), control.mtu_of(group, port));
        let mut message = *message;
        if let ndp::Repr::RouterAdvert { source, mtu, .. } = &mut message {
            (*source, *mtu) = (Some(own), Some(line_mtu.into()).filter(|mtu| *mtu >= 1280));
        }
        if let Some(frame) = frames::advertisement(&Link { from: own, to, tags }, from, &message) {
            let _ = control.send(group, port, frame); // its group is there
        }
    }

    /// Asks for the usage of subscribers whose prefix is advertised: traffic says that they are there.
    fn check(&mut self, control: &mut Control, now: Time) {
        let mut due = Vec::new();
        while due.len() < BATCH
            && let Some(Reverse((at, handle))) = self.checks.peek().copied()
            && at <= now.0
        {
            self.checks.pop();
            // What does not match is out of date.
            let Some(identity) = self.by_handle.get(&handle).copied() else { continue };
            let Some(session) = self.sessions.get(&identity).filter(|session| session.check == at) else { continue };
            let Some(served) = self.served(session.group) else { continue };
            let next = now.0 + served.valid.as_millis() as u64 / 4;
            self.schedule_check(&identity, next);
            due.push(handle);
        }
        if !due.is_empty() {
            control.ask_usage(&due);
        }
        for (handle, usage) in control.usage_news() {
            self.on_usage(handle, &usage, now);
        }
    }

    fn on_usage(&mut self, handle: u32, usage: &Usage, now: Time) {
        if self.reporting.remove(&handle)
            && let Some(aaa) = &mut self.aaa
        {
            aaa.interim(handle, usage, now);
        }
        let Some(identity) = self.by_handle.get(&handle).copied() else { return };
        let Some(session) = self.sessions.get_mut(&identity) else { return };
        let before = std::mem::replace(&mut session.packets6, usage.up_packets[1]);
        let session = *session;
        if usage.up_packets[1] != before {
            let source = identity.mac.unwrap_or(Mac([0; 6]));
            let path = ReplyPath { group: session.group, tags: session.tags, via: source };
            self.renew_prefix(identity.line, session.group, source, path, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_access_nodes_name_the_user() {
        let mut discover = vec![1, 1, 6, 0, 9, 9, 9, 9];
        discover.resize(236, 0);
        discover.extend_from_slice(&[99, 130, 83, 99, 53, 1, 1, 82, 7, 1, 5]);
        discover.extend_from_slice(b"admin\xff");
        let link = Link { from: Mac([2; 6]), to: Mac([0xff; 6]), tags: Tags::default() };
        let (from, to) = ((Ipv4Addr::UNSPECIFIED, 68), (Ipv4Addr::BROADCAST, 67));
        let frame = frames::datagram4(&link, from, to, &discover).expect("a frame");
        assert_eq!(user_of(false, &frame, "acc:100.7"), "acc:100.7");
        assert_eq!(user_of(true, &frame, "acc:100.7"), "admin");
    }
}
