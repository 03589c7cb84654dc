//! The user plane under a control plane: sessions established by PFCP over N4, Sxa and Sxb (3GPP TS 29.244, 5).
//!
//! ```text
//! datagrams ── pfcp::node ──► requests ──► N4 ──► Control ──► workers
//!                  ▲                        │  rules changed in the store, identifiers chosen, compiled, installed
//!                  └── responses, reports ◄─┘  once the worker has answered
//! ```
//!
//! [`N4`] has no socket and no clock: requests, time and [`Control`] are inputs, messages are outputs. A session is
//! kept as the request that would establish it as it is now ([`change::Rules`]); that is what a modification changes,
//! what the store keeps, and what [`translate`] makes a worker's rules of. What a session is in the middle of, the store has
//! as well ([`sessions::activity`]): it goes with the session.
//!
//! | module | idea |
//! |---|---|
//! | `requests`, `prepare` | decoded, checked, prepared ([`choose`], [`translate`]), given to a worker, entered |
//! | `in_progress`, `queue` | requests that wait for a worker's answer, or for room in its command ring |
//! | `answers` | what workers answer: the response, on the disk first ([`keep`], `checkpoint`) |
//! | `reports`, [`metering`], `refresh` | usage that is reported; rules that change by that or by the clock |
//! | `paging`, `errors`, `path_reports` | other reports |
//! | `ending` | how sessions end |

mod answers;
pub mod applications;
pub mod assemble;
pub mod catalogue;
pub mod change;
mod checkpoint;
pub mod choose;
mod control_packets;
mod deadline;
mod ending;
pub mod endpoint;
mod errors;
mod gbr;
pub mod hand_over;
pub mod ies;
mod in_progress;
pub mod intake;
pub mod keep;
mod load;
pub mod metering;
mod named;
pub mod networks;
mod paging;
mod path_reports;
mod prepare;
pub mod problem;
mod queue;
pub mod reconfigure;
mod refresh;
mod reports;
mod requests;
pub mod store;
pub mod translate;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

use pfcp::ie::{NodeId, UserPlaneIpResourceInformation};
use pfcp::message::Message;
use pfcp::node::Ticket;
use sessions::gbr::Guaranteed;
use sessions::sets::SetEnd;
pub use sessions::{identifiers, paths, pools};

use crate::control::Control;
use crate::rules::{Session, Usage};
use answers::Pending;
use applications::Applications;
use catalogue::Catalogue;
use checkpoint::Checkpoints;
pub use control_packets::ControlPacketCounters;
use control_packets::ControlPackets;
pub use gbr::GuaranteedView;
use identifiers::Teids;
use intake::Class;
use keep::Keeper;
use metering::WallClock;
use named::UnknownNetworks;
use networks::{ControlPath, Networks};
use paths::{Pace, Paths};
use pools::AddressPools;
use queue::Queue;
use store::{Key, SessionStore};

/// Bounds that hold whatever a control plane asks for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions in all.
    pub sessions: usize,
    /// Sessions of one peer: of all its associations together.
    pub sessions_per_peer: u32,
    /// Rules of each kind in a session.
    pub rules: usize,
    /// Networks behind a session's subscriber.
    pub routes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sessions: 4_000_000, sessions_per_peer: 4_000_000, rules: 64, routes: 64 }
    }
}

/// Sessions that a turn sees to for each kind of work that concerns many of them (ending, checkpoints, new applications,
/// reports sent again): a turn is short whatever is due, and the rest follows in the next ones.
const SLICE: usize = 64;

/// What has been done and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sessions established.
    pub established: u64,
    /// Sessions modified.
    pub modified: u64,
    /// Sessions deleted, by whomever.
    pub deleted: u64,
    /// Requests refused.
    pub refused: u64,
    /// Reports of usage sent.
    pub usage_reports: u64,
    /// Reports of waiting packets sent.
    pub downlink_data_reports: u64,
    /// Reports of Error Indications sent.
    pub error_indication_reports: u64,
    /// GTP-U peers that no longer answered.
    pub path_failures: u64,
    /// Those that answered again.
    pub path_recoveries: u64,
    /// Octets counted and in no report when their sessions ended without a control plane.
    pub octets_unheard: u64,
    /// Requests that waited for room in a worker's command ring.
    pub queued: u64,
    /// Those refused (cause 74), as there was none for too long or too many waited.
    pub congested: u64,
}

/// A request that is to be answered: whose it is, and the right to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestContext {
    /// The association.
    pub peer: u32,
    /// The queue the request waited in: that of its sender's address.
    pub queue: Class,
    /// What the answer is handed back with.
    pub ticket: Ticket,
    /// Sessions the association may have, as its peer's others are now.
    pub most: u32,
}

/// What is to be sent.
#[derive(Debug)]
pub enum Outgoing {
    /// The answer to a request.
    Response {
        /// Which.
        asked: RequestContext,
        /// The SEID to answer to.
        seid: u64,
        /// The answer.
        message: Message,
    },
    /// The answer to a request that is about no session.
    NodeResponse {
        /// Which.
        ticket: Ticket,
        /// The queue the request waited in.
        queue: Class,
        /// The answer.
        message: Message,
    },
    /// A report of ours that is about no session, to be answered.
    NodeReport {
        /// The association.
        peer: u32,
        /// The report.
        message: Message,
    },
    /// A report of ours, to be answered.
    Report {
        /// The association.
        peer: u32,
        /// The control plane's SEID.
        seid: u64,
        /// Ours; none: the session is gone.
        session: Option<u64>,
        /// To hand in with the answer.
        token: u64,
        /// The report.
        message: Message,
    },
}

/// The sessions side of a user plane node.
pub struct N4 {
    node: NodeId,
    address: IpAddr,
    networks: Networks,
    teids: Teids,
    pools: AddressPools,
    store: SessionStore,
    limits: Limits,
    counters: Counters,
    /// Packet flow descriptions by the association that sent them.
    applications: HashMap<u32, Applications>,
    /// What workers were asked for, by the number of the question. What a session is in the middle of, the store has.
    pending: HashMap<u64, Pending>,
    out: VecDeque<Outgoing>,
    /// Where sessions are kept, if they survive a restart.
    keeper: Option<Keeper>,
    checkpoints: Checkpoints,
    catalogue: Catalogue,
    /// Sessions still to be looked through, as applications are detected otherwise from now on: the next one, and how many
    /// from there, round the end.
    outdated: (u32, u32),
    /// Sets of connections whose sessions are being ended.
    ending_sets: BTreeMap<u32, SetEnd>,
    /// Associations that are over, with sessions that have not ended yet.
    ending_peers: BTreeSet<u32>,
    /// Sessions that may still be ended in this turn without a request.
    slice: usize,
    /// Requests that wait for room in a worker's command ring.
    queue: Queue,
    /// Sessions that are over, by SEID, and whose worker's command ring was full when it was to be told.
    over: VecDeque<u64>,
    /// Associations whose applications are detected otherwise since not all sessions have been looked through.
    applications_changed: BTreeSet<u32>,
    control_packets: ControlPackets,
    unknown_networks: UnknownNetworks,
    ignored_ies: ies::IgnoredIes,
    workers: u16,
    next_worker: u16,
    /// No new sessions are taken.
    draining: bool,
}

/// What an [`N4`] is made of.
pub struct Parts {
    /// What the node calls itself.
    pub node: NodeId,
    /// Where control planes reach it.
    pub address: IpAddr,
    /// Names of networks.
    pub networks: Networks,
    /// Addresses it may give out.
    pub pools: AddressPools,
    /// Bounds.
    pub limits: Limits,
    /// Workers there are.
    pub workers: u16,
    /// How GTP-U peers are supervised; none: they are not.
    pub pace: Option<Pace>,
    /// What control planes know by name.
    pub catalogue: Catalogue,
    /// Capacity for guaranteed bit rates.
    guaranteed: Guaranteed,
}

impl N4 {
    /// A node without sessions.
    pub fn new(parts: Parts) -> Self {
        let Parts { node, address, networks, pools, limits, workers, pace, catalogue, guaranteed } = parts;
        let mut store = SessionStore::default();
        (store.paths, store.guaranteed) = (Paths::new(pace), guaranteed);
        Self {
            node,
            address,
            networks,
            teids: Teids::new(workers),
            pools,
            store,
            limits,
            counters: Counters::default(),
            applications: HashMap::new(),
            pending: HashMap::new(),
            out: VecDeque::new(),
            keeper: None,
            checkpoints: Checkpoints::default(),
            catalogue,
            outdated: (0, 0),
            ending_sets: BTreeMap::new(),
            ending_peers: BTreeSet::new(),
            slice: SLICE,
            queue: Queue::default(),
            over: VecDeque::new(),
            applications_changed: BTreeSet::new(),
            control_packets: ControlPackets::default(),
            unknown_networks: UnknownNetworks::default(),
            ignored_ies: ies::IgnoredIes::default(),
            workers: workers.max(1),
            next_worker: 0,
            draining: false,
        }
    }

    /// Takes no new sessions from now on, or takes them again. Those there are go on.
    pub fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
    }

    /// Whether no new sessions are taken.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Its sessions.
    pub fn store(&self) -> &SessionStore {
        &self.store
    }

    /// The session of a subscriber's address, in whichever network: its number.
    pub fn find_subscriber(&self, address: IpAddr) -> Option<u32> {
        self.find_subscribers(address).next()
    }

    /// As [`find_subscriber`](Self::find_subscriber), in all networks that have the address.
    pub fn find_subscribers(&self, address: IpAddr) -> impl Iterator<Item = u32> + '_ {
        let own = own_address(address);
        self.networks.all().filter_map(move |instance| self.store.lookup(Key::Ue(instance, own)))
    }

    /// A session's rules as workers go by them, by its number.
    pub fn session(&self, number: u32, clock: &WallClock) -> Option<Session> {
        let entry = self.store.get(number)?;
        self.translator(entry.peer, clock).session(&entry.rules(), &entry.meters).ok()
    }

    /// The GTP-U peers its sessions send to.
    pub fn paths(&self) -> &Paths {
        &self.store.paths
    }

    /// Whether it has subscribers' addresses to give out.
    pub(super) fn has_pools(&self) -> bool {
        !self.pools.is_empty()
    }

    /// Where tunnels may end that control planes choose, of all TEIDs (8.2.82).
    pub(super) fn ip_resources(&self) -> Vec<UserPlaneIpResourceInformation> {
        self.networks.ip_resources()
    }

    /// The next thing about an association's requests that the operator is to read.
    pub(super) fn take_notice(&mut self) -> Option<(u32, String)> {
        self.unknown_networks.take_notice()
    }

    /// Network instances that control planes named and that are not configured: names, and how many rules had them.
    pub fn unknown_networks(&self) -> impl Iterator<Item = (&str, u64)> {
        self.unknown_networks.all()
    }

    /// Where packets between subscribers and control planes' functions go.
    pub(crate) fn control_path(&self) -> ControlPath {
        self.networks.control_path()
    }

    /// There is no GTP-U socket at the N4 address: what would leave by it is dropped by name.
    pub fn close_control_path(&mut self) {
        self.networks.close_control_path();
    }

    /// Bounds that hold whatever control planes ask for.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Associations whose number of sessions has changed since the last call, and their numbers.
    pub fn recounted(&mut self) -> impl Iterator<Item = (u32, u32)> {
        self.store.recounted()
    }

    /// What it has done.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Requests that wait for a worker.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Whether requests wait for a worker or the disk.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
            || !self.queue.is_empty()
            || !self.ending_sets.is_empty()
            || !self.ending_peers.is_empty()
            || self.keeper.as_ref().is_some_and(Keeper::is_waiting)
    }

    /// The next message to be sent.
    pub fn take(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
    }
}

/// Tells workers which networks are behind a session's subscriber, and no longer are.
fn steer(control: &mut Control, worker: u16, old: &[Key], new: &[Key]) {
    let routes = |keys: &[Key], not: &[Key]| {
        let here = keys.iter().filter(|key| !not.contains(key));
        here.filter_map(|key| if let Key::Route(route) = key { Some(*route) } else { None }).collect::<Vec<_>>()
    };
    control.steer_routes(worker, routes(old, new).into_iter(), routes(new, old).into_iter());
}

/// What a worker has counted for a URR; nothing, if it does not know it.
fn counted(usage: &[Usage], urr: u32) -> Usage {
    usage.iter().find(|usage| usage.urr == urr).copied().unwrap_or(Usage { urr, ..Usage::default() })
}

/// A subscriber's address as sessions have it: of IPv6 the prefix of 64 bits.
fn own_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(ip6) => std::net::Ipv6Addr::from_bits(ip6.to_bits() & !u128::from(u64::MAX)).into(),
        IpAddr::V4(_) => address,
    }
}
