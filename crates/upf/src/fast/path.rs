//! The program, with what it has of the user plane function's own.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dataplane::acl::AccessLists;
use dataplane::forward::{Forwarding, InstanceId, Plan};
use dataplane::nat::PublicRange;
use gateway::fast_path::{self, Before, FastPathError, FastPort, FlowMaps, List, ProgramSpec};
use port::bpf::SharedWords;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::record::{CELLS, LAYOUT, Meter, Session, Session6, Tally, Tunnel, ZERO_SUM};

/// Places of its own maps.
const SESSIONS6: usize = 0;
const TUNNELS: usize = 1;
const PLANE: usize = 2;
const LISTS: usize = 3;
const HITS: usize = 4;
/// Those of translated flows.
pub const FLOWS: FlowMaps = FlowMaps { translation: 5, flows: 6, index: 7 };
/// The most tunnels there is room for.
const MOST_TUNNELS: u32 = 16_384;

/// The in-kernel path of a user plane function: one for all its workers and ports.
#[derive(Debug)]
pub struct FastPath {
    path: fast_path::FastPath,
    /// Rules of access lists whose hits are counted, on each CPU; 0: there are no lists.
    counters: u32,
}

/// How much there is room for.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Sessions of all workers.
    pub sessions: u32,
    /// How many workers share the maps.
    pub workers: u16,
    /// Counters of access lists' rules; 0: there are no lists, nor will there be.
    pub counters: u32,
    /// Translated flows of all workers.
    pub flows: u32,
}

impl Deref for FastPath {
    type Target = fast_path::FastPath;

    fn deref(&self) -> &fast_path::FastPath {
        &self.path
    }
}

impl AsRef<fast_path::FastPath> for FastPath {
    fn as_ref(&self) -> &fast_path::FastPath {
        self
    }
}

impl FastPath {
    /// Has the kernel verify and take the program, with that much room.
    ///
    /// # Errors
    /// [`FastPathError`].
    pub fn load(room: Room) -> Result<Self, FastPathError> {
        let Room { sessions, workers, counters, flows } = room;
        let hits = counters.max(1).saturating_mul(fast_path::cpus());
        let spec = ProgramSpec {
            object: include_bytes!("../../bpf/fastpath.bpf.o"),
            layout: LAYOUT,
            session: size_of::<Session>(),
            keys: 3,
            places: 1,
            maps: &[
                ("sessions6", sessions.max(1)),
                ("tunnels", MOST_TUNNELS),
                ("plane", 0),
                ("lists", 0),
                ("hits", hits),
                ("translation", 0),
                ("flows", flows.max(1)),
                ("flow_index", FlowMaps::buckets(flows)),
            ],
            reasons: ["gate_closed", "flow_rate", "session_rate", "acl_denied"],
        };
        let path = fast_path::FastPath::load(&spec, sessions, workers)?;
        if let Some(word) = path.own(PLANE).get(0).first() {
            word.store(counters.into(), Ordering::SeqCst);
        }
        Ok(Self { path, counters })
    }

    /// Whether the program has the access list of a network instance, or needs none.
    pub(super) fn has_list(&self, instance: InstanceId) -> bool {
        self.counters == 0 || fast_path::has_list(self.own(LISTS), instance)
    }

    /// Packets and octets that the rule of that counter has matched in the kernel.
    pub fn hits(&self, counter: u32) -> (u64, u64) {
        fast_path::hits(self.own(HITS), self.counters, counter)
    }

    /// Puts a session in its place: see [`fast_path::FastPath::enter`].
    pub fn enter(&self, number: u32, (session, half): (&Session, &Session6), stood: u32) -> bool {
        let half = half.as_bytes().get(..if half.prefix == 0 { Session6::HEAD } else { size_of::<Session6>() });
        self.own(SESSIONS6).write(number as usize, 0, half.unwrap_or_default());
        self.path.enter(number, session, stood)
    }

    /// Takes a session out: its packets are the user-space path's when this returns, and its buckets and counts final.
    pub fn leave(&self, number: u32) -> ([Meter; CELLS], [Tally; CELLS]) {
        self.path.leave(number);
        self.state(number)
    }

    /// A session's buckets and counts as they are.
    pub fn state(&self, number: u32) -> ([Meter; CELLS], [Tally; CELLS]) {
        state(self.sessions(), number)
    }

    /// Adds to what a session has counted in the kernel, and takes from its buckets, what it had there in a process before.
    pub fn add(&self, number: u32, meters: &[Meter; CELLS], more: &[Tally; CELLS]) {
        const METERS: usize = std::mem::offset_of!(Session, meters) / 8;
        const TALLIES: usize = std::mem::offset_of!(Session, tallies) / 8;
        const WORDS: usize = size_of::<Tally>() / 8;
        const { assert!(size_of::<Meter>() == size_of::<Tally>()) };
        let words = self.sessions().get(number as usize);
        for (n, (meter, tally)) in meters.iter().zip(more).enumerate() {
            if let Some(word) = words.get(METERS + n * WORDS).filter(|_| meter.depth != 0) {
                word.fetch_max(meter.full_at, Ordering::SeqCst);
            }
            if let Some([bytes, _, packets, _]) = words.get(TALLIES + n * WORDS..TALLIES + (n + 1) * WORDS) {
                bytes.fetch_add(tally.bytes, Ordering::SeqCst);
                packets.fetch_add(tally.packets, Ordering::SeqCst);
            }
        }
    }

    /// Whether a tunnel is one the program can put packets in.
    pub(super) fn has_tunnel(&self, id: u32) -> bool {
        const VERSION: usize = std::mem::offset_of!(Tunnel, version);
        let word = self.own(TUNNELS).get(id as usize).get(VERSION / 8).map_or(0, |word| word.load(Ordering::Relaxed));
        word.to_ne_bytes()[VERSION % 8] != 0
    }
}

fn state(sessions: &SharedWords, number: u32) -> ([Meter; CELLS], [Tally; CELLS]) {
    const AT: usize = std::mem::offset_of!(Session, meters);
    let mut bytes = [0; size_of::<[Meter; CELLS]>() + size_of::<[Tally; CELLS]>()];
    sessions.read(number as usize, AT, &mut bytes);
    let (meters, tallies) = bytes.split_at(size_of::<[Meter; CELLS]>());
    let read = |bytes| FromBytes::read_from_bytes(bytes).unwrap_or([Meter::CLOSED; CELLS]);
    (read(meters), FromBytes::read_from_bytes(tallies).unwrap_or([Tally::NONE; CELLS]))
}

/// The buckets and counts of a session that was in the kernel in a process before: of that handle, with these tunnel
/// endpoints and that address.
pub(crate) fn state_before(
    before: &Before,
    handle: u32,
    teids: &[u32],
    ue4: u32,
) -> Option<([Meter; CELLS], [Tally; CELLS])> {
    let number = before.find(handle, |head: &[u8; Session::HEAD]| {
        let words: [u32; Session::HEAD / 4] = zerocopy::transmute!(*head);
        let [_, address, its_handle, _, ends @ ..] = words;
        let ends = ends.iter().copied().filter(|teid| *teid != 0);
        (address, its_handle) == (ue4, handle) && ends.eq(teids.iter().copied())
    })?;
    Some(state(before.sessions(), number))
}

/// Keeps the program's tables as the forwarding tables are, tunnels too.
pub struct Publisher {
    path: Arc<FastPath>,
    tables: fast_path::Publisher<FastPath>,
    zero_sum6: bool,
    /// What rules had matched when access lists were replaced last, by their counters.
    hits_before: Vec<(u64, u64)>,
    /// Access lists as the program has them, by network instance.
    lists: HashMap<usize, Vec<u8>>,
}

impl Publisher {
    /// Of these ports, by their numbers.
    pub fn new(path: Arc<FastPath>, ports: Vec<Option<FastPort>>) -> Self {
        Self {
            tables: fast_path::Publisher::new(path.clone(), ports),
            path,
            zero_sum6: false,
            hits_before: Vec::new(),
            lists: HashMap::new(),
        }
    }

    /// Tunnels over IPv6 go without UDP checksum (RFC 6935), or with one.
    #[must_use]
    pub fn with_zero_sum6(self, zero_sum6: bool) -> Self {
        Self { zero_sum6, ..self }
    }

    /// The ports are these from now on, as of the next [`publish`](Self::publish): an interface was made again.
    pub fn set_ports(&mut self, ports: Vec<Option<FastPort>>) {
        self.tables.set_ports(ports);
    }

    /// The program and its maps, which workers share.
    pub fn path(&self) -> &Arc<FastPath> {
        &self.path
    }

    /// The tables are these from now on.
    pub fn publish(&mut self, plan: &Plan, tables: &Forwarding) {
        let tunnels = tables.tunnels.iter().enumerate().map(|(id, tunnel)| (id, self.tunnel(tunnel, tables)));
        let tunnels = tunnels.map(|(at, entry)| (at, entry.as_bytes().to_vec())).collect();
        self.tables.publish_with(plan, tables, Some((TUNNELS, tunnels)));
    }

    /// The access lists are these from now on, of which rules count from `first` on, with `counters` at most; one with more
    /// rules than the program takes is not there.
    pub fn publish_lists(&mut self, lists: &AccessLists, first: u32, counters: u32) {
        let map = self.path.own(LISTS);
        self.hits_before = (first..first + counters).map(|counter| self.path.hits(counter)).collect();
        let entry = |instance: usize| lists.of(instance as InstanceId).map_or(List::PERMITS_ALL, List::from);
        let entries = (0..map.len()).map(|at| (at, entry(at).as_bytes().to_vec()));
        // While one is written its sessions go to their workers: only what differs is.
        let new: Vec<_> = entries.filter(|(at, bytes)| self.lists.get(at) != Some(bytes)).collect();
        let changed: Vec<_> = new.iter().map(|(at, bytes)| (map, *at, bytes.clone())).collect();
        fast_path::write(&self.path, &changed);
        self.lists.extend(new);
    }

    /// Packets and octets that a rule has matched in the kernel since lists were replaced last; `first`: their first counter.
    pub fn hits(&self, first: u32, counter: u32) -> (u64, u64) {
        let (packets, octets) = self.path.hits(first + counter);
        let before = self.hits_before.get(counter as usize).copied().unwrap_or_default();
        (packets.saturating_sub(before.0), octets.saturating_sub(before.1))
    }

    /// These are all public addresses from now on, those that are not given to subscribers any more, too.
    pub fn publish_ranges(&mut self, ranges: &[PublicRange]) {
        let entry = fast_path::translation(&self.path, FLOWS, ranges);
        fast_path::write(&self.path, &[(self.path.own(FLOWS.translation), 0, entry.as_bytes().to_vec())]);
    }

    fn tunnel(&self, tunnel: &dataplane::forward::Tunnel, tables: &Forwarding) -> Tunnel {
        let mut entry = Tunnel::new_zeroed();
        match tunnel.version {
            4 => entry.header.copy_from_slice(&tunnel.header[..20]),
            6 => entry.header6.copy_from_slice(&tunnel.header[..40]),
            _ => return entry,
        }
        entry.next = self.tables.next(tables.hop(tunnel.hop), tunnel.version);
        entry.flags = if self.zero_sum6 { ZERO_SUM } else { 0 };
        Tunnel { version: tunnel.version, sum: tunnel.sum, ..entry }
    }
}
