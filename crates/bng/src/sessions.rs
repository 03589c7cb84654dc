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
//! | `admission.rs` | who gets a session: requests, authentication, what a server changes |
//! | `records.rs` | from leases to subscribers and back |
//! | `line_rate.rs` | what lines carry, as access nodes tell it |
//! | `relay.rs` | requests that servers of the core answer |
//! | `reload.rs` | what a reload changes |
//! | `slaac.rs` | prefixes that are advertised |
//! | `aaa.rs` | authentication and accounting by RADIUS |
//! | `backlog.rs` | accounting reports that wait |
//! | `clock.rs` | the clock of leases and timers |
//! | `crossing.rs` | a group's sessions on their way to another process |
//! | `hand_over.rs` | sessions on their way to another process |
//! | `frames.rs` | frames of DHCP and neighbour discovery |
//! | `served.rs` | what each group is served, from the configuration |
//! | `store.rs` | leases in the ledger |

mod aaa;
mod admission;
mod backlog;
mod clock;
pub(crate) mod crossing;
mod frames;
pub(crate) mod hand_over;
mod line_rate;
mod records;
mod relay;
mod reload;
mod served;
mod slaac;
mod store;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use access::dhcp4::{self, Destination, Dhcp4Server};
use access::dhcp6::{self, Dhcp6Server};
use access::lease::{Kind, LeaseKey, LeaseRecord};
use access::pool::{NotRestored, Pools};
use access::queue::{Limits, Queue, QueueDrop};
use access::subscriber::{Identity, Subscribers};
use access::{Action, Time};
use gateway::records::Opening;
use wire::Mac;

use crate::config::Config;
use crate::control::Control;
use crate::link::Line;
use crate::record::SubscriberSpec;
use crate::slow::{ControlPacket, FROM_SERVERS};
use crate::subscribers::Usage;

pub use aaa::{Aaa, AaaCounts, Sockets};
use clock::LeaseClock;
use frames::{Carried, Link, Tags};
use line_rate::ToldRate;
pub use relay::Relays;
pub use reload::Change;
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
    /// It goes on for another process, whose sessions are taken in.
    pub goes_on: bool,
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
    /// Requests whose client's hardware address is not told: chaddr is not the frame's source, and no lease tells that the
    /// client is behind a router, or a relay agent's DHCPv6 message has no option 79 (RFC 6939).
    pub unnamed: u64,
    /// Router solicitations that no prefix was left for.
    pub no_prefix: u64,
    /// Router solicitations of shared VLAN pairs that have as many prefixes as they may.
    pub pair_limit: u64,
    /// Rates of lines that did not count: another line's name came with the subscriber's hardware address.
    pub foreign_rates: u64,
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
    Relay4(access::Ticket),
    Relay6(access::Ticket),
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
pub struct ReplyPath {
    group: u16,
    tags: Tags,
    /// The request's source: a relay agent's, if there is one.
    via: Mac,
    /// What the request tells of its line.
    line: ToldRate,
}

impl ReplyPath {
    /// Of what no request has caused.
    fn none(group: u16) -> Self {
        Self { group, tags: Tags::default(), via: Mac([0; 6]), line: ToldRate::default() }
    }
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
    /// When it is looked at next, in ms of the [`LeaseClock`]; 0: never.
    check: u64,
    /// What its line carries, as far as the access node has told.
    line: ToldRate,
}

/// Sessions of all groups, and what they are made with.
pub struct Sessions {
    environment: Environment,
    /// The time of leases and of all timers.
    clock: LeaseClock,
    groups: Vec<Option<Served>>,
    /// Addresses and leases, by VRF.
    pools: Vec<Pools>,
    dhcp4: Dhcp4Server,
    dhcp6: Dhcp6Server,
    relays: Relays,
    queue: Queue<ControlPacket>,
    store: Store<Pending>,
    records: Subscribers,
    sessions: HashMap<Identity, Session>,
    by_handle: HashMap<u32, Identity>,
    /// Names the DHCPv6 server.
    own_mac: Mac,
    /// Static subscribers' lines.
    fixed: HashSet<Identity>,
    next_handle: u32,
    free: Vec<u32>,
    /// When subscribers with an advertised prefix are looked at, in ms of the [`LeaseClock`].
    checks: BinaryHeap<Reverse<(u64, u32)>>,
    aaa: Option<Aaa>,
    /// Tiers by name.
    profiles: HashMap<String, u16>,
    /// Subscribers whose usage is awaited for an interim report.
    reporting: HashSet<u32>,
    /// The ledger of a process that this one goes on for, until that has let it go: requests wait.
    opening: Option<Opening<Stored>>,
    counts: Counts,
}

fn line_of(line: Line) -> access::Line {
    access::Line { port: line.port.into(), s_vlan: line.s_vlan, c_vlan: line.c_vlan }
}

fn line_back(line: access::Line) -> Line {
    Line { port: line.port as u8, s_vlan: line.s_vlan, c_vlan: line.c_vlan } // it came from there
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
        let tag = config.moves.as_ref().map(|_| {
            let socket = config.control_socket.display().to_string();
            format!("{:04x}", access::identifier_hash(&[socket.as_bytes()]) as u16)
        });
        let aaa = aaa.map(|(section, sockets)| match environment.goes_on {
            true => Aaa::of(section, sockets, now),
            false => Aaa::new(section, sockets, now, stored.take_accounting(), tag.is_none()),
        });
        let aaa = aaa.map(|aaa| aaa.tagged(tag.unwrap_or_default()));
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
            relays: Relays::new(relay::Groups::new(config, layout)),
            environment,
            clock: LeaseClock::new(now),
            groups,
            pools,
            queue: Queue::new(limits),
            store,
            records: Subscribers::default(),
            sessions: HashMap::new(),
            by_handle: HashMap::new(),
            own_mac: control.own_mac(),
            fixed,
            next_handle,
            free: Vec::new(),
            checks: BinaryHeap::new(),
            aaa,
            profiles: config.profile.iter().map(|profile| profile.name.clone()).zip(0..).collect(),
            reporting: HashSet::new(),
            opening: None,
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
    pub(crate) fn queue_drops(&self, reason: QueueDrop) -> u64 {
        self.queue.dropped(reason)
    }

    /// Counters of RADIUS; none: it is not configured.
    pub(crate) fn aaa_counts(&self) -> Option<AaaCounts> {
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
        let now = self.clock.now();
        // Of two records of one lease the later counts.
        let mut leases: Vec<_> = stored.leases().to_vec();
        leases.sort_unstable_by_key(|(number, _)| Reverse(*number));
        let (mut changed, mut away) = (HashSet::new(), BTreeMap::new());
        for (number, mut record) in leases {
            if let Some(group) = self.group_of(&record) {
                record.group = group;
            }
            if usize::from(record.group) < self.groups.len() && !control.is_here(record.group) {
                // Another process has it, with the group.
                self.store.forget(number);
                *away.entry(record.group).or_insert(0u64) += 1;
                continue;
            }
            if let Some(served) = self.served(record.group) {
                let lease = if record.server.is_some() { relay::LONGEST } else { served.lease_of(record.key.kind) };
                record = self.clock.of_stored(record, lease);
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
        away.into_iter().for_each(|(group, count)| tell_away(control, group, count));
        if let Some(aaa) = &mut self.aaa {
            changed.iter().for_each(|identity| aaa.restored(*identity));
            let is_away = |identity: &Identity| {
                let group = control.group_of_line(identity.line.port, identity.line.s_vlan);
                group.is_some_and(|group| !control.is_here(group))
            };
            aaa.forget_others(is_away);
            aaa.end_others(now);
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

    /// A turn: `clock_ns` is the time of `control`'s clock, in nanoseconds. Requests wait by that one, and leases and timers by
    /// one that follows it: it is not set.
    pub fn turn(&mut self, control: &mut Control, clock_ns: u64) {
        if !self.open_taken() {
            return;
        }
        if let Some(set) = self.clock.turn(clock_ns, (self.environment.clock)()) {
            tracing::info!(target: "sessions", event = "wall_clock_set", seconds = set, "the wall clock was set by {set} s");
            self.pools.iter_mut().for_each(|pools| pools.wall_clock_set(set));
        }
        let now = self.clock.now();
        if let Some(aaa) = &mut self.aaa {
            aaa.set_wall_clock(self.clock.ahead_ms());
        }
        let steady = Time(clock_ns / 1_000_000);
        let packets: Vec<_> = control.packets().collect();
        for packet in packets {
            if packet.group == FROM_SERVERS {
                self.server_replied(control, &packet, now);
                continue;
            }
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
        for pools in (0..self.pools.len()).filter(|_| !control.is_arriving()) {
            let (pools, relays) = (&mut self.pools[pools], &mut self.relays);
            let ended = |pools: &Pools, slot| relays.cancel(pools, slot);
            access::expire_with(pools, (&mut self.dhcp4, &mut self.dhcp6), now, BATCH, ended);
        }
        self.act4(control, None, now);
        self.act6(control, None, now);
        self.finish(control, now);
        self.turn_relays(control, clock_ns, now);
        self.advertise(control, now);
        self.check(control, now);
        self.keep_accounting();
    }

    /// The process ends, and workers stand still: what sessions have used, which `usage` tells by worker and handle, is kept, and
    /// what workers had not taken out yet is.
    pub(crate) fn close(&mut self, control: &mut Control, usage: &dyn Fn(usize, u32) -> Option<Usage>) {
        let now = self.clock.now();
        self.take_removed(control, now);
        let Some(aaa) = &mut self.aaa else { return };
        let mut unknown = 0;
        for handle in aaa.accounted() {
            let own = control.worker_of(handle).and_then(|worker| usage(worker, handle));
            let used = own.or_else(|| (0..control.workers()).find_map(|worker| usage(worker, handle)));
            match (self.by_handle.get(&handle), used) {
                (Some(identity), Some(used)) => aaa.pause(handle, identity, &used),
                (Some(_), None) => unknown += 1,
                (None, used) => aaa.stop(handle, &used.unwrap_or_default(), now),
            }
        }
        let unwritten = self.store.submit_last(aaa.keeper().take());
        if unknown > 0 || unwritten > 0 {
            tracing::error!(
                target: "sessions", event = "usage_not_kept", sessions = unknown, records = unwritten,
                "of {unknown} sessions no worker has told what they used, and {unwritten} records were not written"
            );
        }
    }

    /// Hands records of accounting to the ledger, and takes note of those that are on the disk.
    fn keep_accounting(&mut self) {
        let Some(aaa) = &mut self.aaa else { return };
        let store = &self.store;
        aaa.keeper().turn(|changes| store.submit(changes), || store.submitted());
    }

    /// When there is something to do next, in nanoseconds of `control`'s clock, which shows `clock_ns` now.
    pub fn next_deadline(&self, clock_ns: u64) -> Option<u64> {
        if self.opening.is_some() {
            return None;
        }
        if !self.queue.is_empty() {
            return Some(0);
        }
        if self.store.is_behind() || (self.store.waiting() > 0 && self.store.is_ready()) {
            return Some(clock_ns + SOON);
        }
        let now = self.clock.at(clock_ns);
        let leases = self.pools.iter().filter_map(Pools::next_due).map(|due| Time::from_secs(due.into()));
        let adverts = self.groups.iter().flatten().filter_map(|served| served.adverts.next_due());
        let checks = self.checks.peek().map(|Reverse((due, _))| Time(*due));
        let aaa = self.aaa.as_ref().and_then(|aaa| aaa.next_due(now, Time(clock_ns / 1_000_000)));
        let next = leases.chain(self.relays.next_due()).chain(adverts).chain(checks).chain(aaa).min()?;
        let ms = next.since(now).as_millis() as u64;
        Some(clock_ns.saturating_add(ms.saturating_mul(1_000_000)).saturating_add(SOON))
    }

    fn serve(&mut self, control: &mut Control, packet: &ControlPacket, now: Time) {
        let (line, group) = (line_of(packet.line), packet.group);
        let (source, client) = (frames::source(&packet.frame), self.client_in(packet));
        let Some((instance, told)) =
            self.served(group).map(|served| (served.instance, served.told_rate(&packet.frame)))
        else {
            return;
        };
        let path = ReplyPath { group, tags: Tags::of(&packet.frame), via: source, line: told };
        self.retrain(control, &self.identity_of(packet), told);
        match frames::read(&packet.frame) {
            Some(Carried::Dhcp4(from, octets)) => {
                let routed = self.served(group).is_some_and(|served| served.relayed);
                let request = dhcp4::Request { line, group, source, from, routed, octets };
                if self.relay4(control, &request, path, now) {
                    return;
                }
                let outcome = self.dhcp4.receive(&mut self.pools[instance], now, &request);
                self.act4(control, Some(path), now);
                if matches!(outcome, dhcp4::Outcome::Acknowledged | dhcp4::Outcome::Stored) {
                    self.renew_prefix(line, group, client, path, now);
                }
            }
            Some(Carried::Dhcp6(from, octets)) => {
                let request = dhcp6::Request { line, group, source, client, from, octets };
                if self.relay6(control, &request, path, now) {
                    return;
                }
                let outcome = self.dhcp6.receive(&mut self.pools[instance], now, &request);
                self.act6(control, Some(path), now);
                if matches!(outcome, dhcp6::Outcome::Replied | dhcp6::Outcome::Stored) {
                    self.renew_prefix(line, group, client, path, now);
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
                    let path = path.unwrap_or_else(|| ReplyPath::none(record.group));
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
                    let path = path.unwrap_or_else(|| ReplyPath::none(record.group));
                    self.put(Pending { requester: Requester::V6(ticket), record, path });
                }
                (Action::Erase(record), _) => self.ended(control, &record, now),
            }
        }
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
}

/// Leases of a group that another process has are erased here.
fn tell_away(control: &Control, group: u16, count: u64) {
    let name = control.config().group.get(usize::from(group)).map_or("", |group| &group.name);
    let owner = control.process_of(group).unwrap_or("another process");
    tracing::warn!(
        target: "sessions", event = "leases_elsewhere", group = name, owner, count,
        "{count} leases of group {name} are erased here: {owner} has the group"
    );
}
