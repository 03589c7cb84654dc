//! The program and its maps, as memory that workers, control and the kernel share.

use std::ffi::CStr;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use port::bpf::{BpfError, DeviceOffsets, Object, Program, SharedWords, TracepointLink, monotonic_ns, possible_cpus};
use schemars::JsonSchema;
use serde::Serialize;

use super::before::Before;
use super::flows::FlowRoom;
use super::index::{self, Index};
use super::owner::Owner;
use super::record::{
    self, ALONE_AT, ALONE_COUNTS, CONFIG, CPU, LIST, LOSS, MOVED, MOVED_AT, NUMBER_BITS, SharedRecord, State,
};
use crate::snapshot::{KernelCounters, KernelFlows, RefusedPackets};

/// The programs of an object: of packets, and of those that no port takes.
const PROGRAM: &str = "weir_fastpath";
const ALONE: &str = "weir_alone";
const HUNG: &str = "weir_hung";
/// Programs that count what devices do not take: tracepoint, and the name of the link in a BPF file system.
const WATCHES: [(&str, &CStr, &str); 2] =
    [("weir_losses", c"xdp_devmap_xmit", "losses_link"), ("weir_refusals", c"xdp_redirect_err", "refusals_link")];
/// Words of the configuration.
pub(super) const BEAT_AT: usize = 1;
pub(super) const KEEP_AT: usize = 2;
pub(super) const LAYOUT_AT: usize = 3;
const FAR_AT: usize = 4;
const SEED_AT: usize = 5;
const OFFSETS_AT: usize = 6;
pub(super) const OWNER_AT: usize = 7;
/// How often workers say at least that they live, in nanoseconds: several times before they count as silent (WEIR_SILENT_NS).
const BEAT_EVERY: u64 = 1_000_000_000;
/// The most CPUs and workers there is room for.
const CPUS: u32 = 1024;
const WORKERS: u32 = 256;
/// Words of a set of ports.
const PORT_WORDS: usize = 4;

/// What a gateway's program is: its object has all maps of `bpf/path.h` and, as `session`, a record that begins with its
/// state and 32 bits of the gateway's own.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSpec<'a> {
    /// The compiled object, as `scripts/bpf` built it.
    pub object: &'static [u8],
    /// Of its records: one more with each change of them.
    pub layout: u32,
    /// Octets of a session's record.
    pub session: usize,
    /// Keys that lead to a session at most.
    pub keys: u32,
    /// Maps of the gateway's own, and entries where they are other than the object says; 0: as it says.
    pub maps: &'a [(&'static str, u32)],
    /// Names of the gateway's own reasons to drop a packet, in the order of their counters.
    pub reasons: [&'static str; 4],
    /// Places of a session: 1 where each worker numbers its own, the number of workers where they share numbers.
    pub places: u16,
}

/// Why there is no in-kernel path.
#[derive(Debug, thiserror::Error)]
pub enum FastPathError {
    /// What the kernel said.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// There would be more of something than there is room for.
    #[error("the in-kernel path has room for {most} {what}, not for {count}")]
    TooMany {
        /// What there are too many of, in the plural.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// How many there may be.
        most: u64,
    },
}

/// The in-kernel path of a gateway: one for all its workers and ports.
#[derive(Debug)]
pub struct FastPath {
    object: Object,
    layout: u32,
    reasons: [&'static str; 4],
    workers: u16,
    /// A bit for each port that the program can send by.
    egress: [AtomicU64; PORT_WORDS],
    config: SharedWords,
    cpus: SharedWords,
    pub(super) ports: SharedWords,
    pub(super) instances: SharedWords,
    pub(super) neighbours: SharedWords,
    pub(super) instances6: SharedWords,
    pub(super) neighbours6: SharedWords,
    sessions: SharedWords,
    /// Maps of the gateway's own, in the order of its [`ProgramSpec`].
    own: Vec<SharedWords>,
    index: Index,
    moved: SharedWords,
    /// What devices have not taken for sending, by interface.
    losses: SharedWords,
    egress_ports: Mutex<Vec<EgressPort>>,
    /// What counts it; none: nothing does.
    watch: OnceLock<[TracepointLink; 2]>,
    /// What a process before has left.
    before: Mutex<Option<Arc<Before>>>,
    /// Its program is out of use, and its counts final.
    is_over: AtomicBool,
    /// Translated flows, where there are any.
    flow_room: OnceLock<FlowRoom>,
    /// What was counted without a process, before this one.
    alone_before: [AtomicU64; ALONE_COUNTS],
}

/// An interface that packets are sent by.
#[derive(Debug)]
struct EgressPort {
    name: String,
    ifindex: u32,
    netns: u64,
}

/// What the program has counted, on all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// User packets forwarded uplink, and their octets.
    pub up: (u64, u64),
    /// The same downlink.
    pub down: (u64, u64),
    /// Packets dropped, by reason; a reason without a name is none.
    pub dropped: [(&'static str, u64); 7],
    /// Octets of user packets dropped.
    pub dropped_bytes: u64,
    /// Times a session was handed back to user space.
    pub handed_back: u64,
    /// Packets left to the user-space path.
    pub other: u64,
    /// Packets counted as forwarded that the device to send by did not take.
    pub refused: u64,
    /// Packets taken that were timed, and the nanoseconds that the program took for them.
    pub sampled: (u64, u64),
    /// Translated flows that found no place when they began.
    pub flows_waited: u64,
    /// What was done without a process, before this one or while it hung.
    pub alone: AloneCounts,
}

/// What the programs of an in-kernel path have done while no process answered: it was dead, or hung.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AloneCounts {
    /// ARP requests for the gateway's addresses that were answered.
    pub answered_arp: u64,
    /// Neighbour solicitations that were answered.
    pub answered_neighbour: u64,
    /// Echo Requests of tunnels that were answered.
    pub answered_echo: u64,
    /// Packets to the gateway's addresses that were dropped: nobody was there to process them.
    pub dropped: u64,
    /// Questions that had no answer, for there were more than 10,000 a second: dropped.
    pub limited: u64,
}

impl AloneCounts {
    pub(super) fn of([answered_arp, answered_neighbour, answered_echo, dropped, limited]: [u64; ALONE_COUNTS]) -> Self {
        Self { answered_arp, answered_neighbour, answered_echo, dropped, limited }
    }

    /// By name and in words.
    fn in_words(self) -> [(&'static str, u64, &'static str); ALONE_COUNTS] {
        let Self { answered_arp, answered_neighbour, answered_echo, dropped, limited } = self;
        [
            ("kernel_alone_answered_arp", answered_arp, "ARP requests answered in the kernel without the process."),
            (
                "kernel_alone_answered_neighbour",
                answered_neighbour,
                "Neighbour solicitations answered in the kernel without the process.",
            ),
            (
                "kernel_alone_answered_echo",
                answered_echo,
                "Echo Requests of tunnels answered in the kernel without the process.",
            ),
            (
                "kernel_alone_dropped",
                dropped,
                "Packets to the gateway's addresses dropped in the kernel, as no process was there to process them.",
            ),
            (
                "kernel_alone_limited",
                limited,
                "Questions that came without the process, more than are answered a second: dropped.",
            ),
        ]
    }
}

impl Counts {
    /// Packets dropped, by the name of the reason. `no_egress`: the interface to send by is gone.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.dropped.into_iter().filter(|(name, _)| !name.is_empty())
    }

    /// The same in numbers that all gateways show.
    fn summary(&self) -> KernelCounters {
        KernelCounters {
            up_packets: self.up.0,
            up_bytes: self.up.1,
            down_packets: self.down.0,
            down_bytes: self.down.1,
            dropped_packets: self.drops().map(|(_, packets)| packets).sum(),
            left_packets: self.other,
            sampled_packets: self.sampled.0,
            sampled_ns: self.sampled.1,
            refused: None,
            flows: None,
        }
    }

    /// What the program has done, by name and in words; what never happened is not there.
    pub fn in_words(&self) -> Vec<(String, u64, String)> {
        let all = [
            ("kernel_up_packets", self.up.0, "Packets from subscribers forwarded in the kernel."),
            ("kernel_up_bytes", self.up.1, "Their bytes."),
            ("kernel_down_packets", self.down.0, "Packets to subscribers forwarded in the kernel."),
            ("kernel_down_bytes", self.down.1, "Their bytes."),
            ("kernel_handed_back", self.handed_back, "Times a session came back from the kernel with a packet."),
            ("kernel_left", self.other, "Packets that the in-kernel path left to the workers."),
            (
                "kernel_flows_waited",
                self.flows_waited,
                "Translated flows that found no place in the kernel when they began: fast_path.flows are taken.",
            ),
            (
                "kernel_dropped_egress_refused",
                self.refused,
                "Packets forwarded in the kernel that the device to send by did not take: its ring was full, or it was down.",
            ),
        ];
        let drops = self.drops().map(|(name, n)| {
            (format!("kernel_dropped_{name}"), n, format!("Packets dropped in the kernel, by reason {name}."))
        });
        let all = all.into_iter().chain(self.alone.in_words());
        let all = all.map(|(id, n, help)| (id.to_owned(), n, help.to_owned())).chain(drops);
        all.filter(|(_, n, _)| *n > 0).collect()
    }
}

impl AsRef<FastPath> for FastPath {
    fn as_ref(&self) -> &FastPath {
        self
    }
}

impl FastPath {
    /// Has the kernel verify and take the program, with room for `sessions` sessions of that many workers.
    ///
    /// # Errors
    /// [`FastPathError`].
    pub fn load(spec: &ProgramSpec<'_>, sessions: u32, workers: u16) -> Result<Self, FastPathError> {
        let most = u64::from(WORKERS);
        if u64::from(workers) > most {
            return Err(FastPathError::TooMany { what: "workers", count: workers.into(), most });
        }
        let sessions = sessions.max(1);
        // Whoever waits for all CPUs looks at no more than there are.
        let cpus = cpus();
        let records = u64::from(sessions) * u64::from(spec.places);
        let most = 1 << NUMBER_BITS;
        if records > most {
            return Err(FastPathError::TooMany { what: "sessions of all workers", count: records, most });
        }
        let mut sizes = vec![
            ("sessions", records as u32), // as many as a number counts
            ("cpus", cpus),
            ("moved", workers.max(1).into()),
        ];
        sizes.extend(index::sizes(sessions, spec.keys));
        sizes.extend(spec.maps.iter().filter(|(_, entries)| *entries > 0));
        let mut object = Object::load(spec.object, &[PROGRAM, ALONE, HUNG], &sizes)?;
        let path = Self {
            layout: spec.layout,
            reasons: spec.reasons,
            workers: workers.max(1),
            egress: Default::default(),
            config: object.take_shared("config")?,
            cpus: object.take_shared("cpus")?,
            ports: object.take_shared("ports")?,
            instances: object.take_shared("instances")?,
            neighbours: object.take_shared("neighbours")?,
            instances6: object.take_shared("instances6")?,
            neighbours6: object.take_shared("neighbours6")?,
            sessions: object.take_shared("sessions")?,
            own: spec.maps.iter().map(|(name, _)| object.take_shared(name)).collect::<Result<_, _>>()?,
            index: Index::of(&mut object)?,
            moved: object.take_shared("moved")?,
            losses: object.take_shared("losses")?,
            egress_ports: Mutex::default(),
            watch: OnceLock::new(),
            before: Mutex::new(None),
            is_over: AtomicBool::new(false),
            flow_room: OnceLock::new(),
            alone_before: Default::default(),
            object,
        };
        // What is left to a process that hangs goes there.
        path.object.map("beside")?.set_fd(0, path.object.program(HUNG)?.as_fd())?;
        debug_assert_eq!(path.cpus.get(0).len(), CPU / 8);
        debug_assert_eq!(path.sessions.get(0).len(), spec.session / 8);
        debug_assert_eq!(path.moved.get(0).len(), LIST / 8);
        debug_assert_eq!(path.losses.get(0).len(), LOSS / 8);
        path.set_config(true);
        path.set_far(0);
        path.config.get(0)[SEED_AT].store(RandomState::new().hash_one(0u64) | 1, Ordering::SeqCst);
        let words = [monotonic_ns(), u64::MAX, u64::from(spec.layout) | u64::from(path.workers) << 32];
        path.config.get(0)[OWNER_AT].store(Owner::of_this_process().word(), Ordering::SeqCst);
        path.config.get(0).iter().skip(1).zip(words).for_each(|(to, word)| to.store(word, Ordering::SeqCst));
        Ok(path)
    }

    /// A map of the gateway's own, by its place in the [`ProgramSpec`].
    ///
    /// # Panics
    /// There is none there.
    pub fn own(&self, place: usize) -> &SharedWords {
        &self.own[place]
    }

    /// All sessions' records.
    pub fn sessions(&self) -> &SharedWords {
        &self.sessions
    }

    /// Whether the program can send by a port.
    pub fn has_egress(&self, port: u8) -> bool {
        self.egress[usize::from(port >> 6)].load(Ordering::Relaxed) >> (port & 63) & 1 != 0
    }

    /// The program, to be attached.
    ///
    /// # Errors
    /// None: it was loaded.
    pub fn program(&self) -> Result<&Program, BpfError> {
        self.object.program(PROGRAM)
    }

    /// The program for packets that no port takes, of a process that has gone.
    ///
    /// # Errors
    /// As [`program`](Self::program).
    pub fn alone(&self) -> Result<&Program, BpfError> {
        self.object.program(ALONE)
    }

    /// Known sessions go on for so long without a [`beat`](Self::beat).
    pub fn set_keep(&self, keep: Duration) {
        let ns = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
        self.config.get(0)[KEEP_AT].store(ns, Ordering::SeqCst);
    }

    /// How often there must be a [`beat`](Self::beat), in nanoseconds; none: there need be none.
    pub fn beat_every(&self) -> Option<u64> {
        let keep = self.config.get(0)[KEEP_AT].load(Ordering::Relaxed);
        (keep != u64::MAX).then_some(BEAT_EVERY.min(keep / 4))
    }

    /// A worker says that it lives, at a time of the kernel's clock.
    pub fn beat(&self, now: u64) {
        self.config.get(0)[BEAT_AT].store(now, Ordering::Relaxed);
    }

    /// Finds what a process before has left under its name in a folder of a BPF file system, and takes its place there.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn take_name(&self, folder: &Path) -> io::Result<()> {
        *self.before() = Before::found(folder, self.layout, self.sessions.get(0).len() * 8).map(Arc::new);
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(folder)? {
            fs::remove_file(entry?.path())?;
        }
        let maps =
            [("config", &self.config), ("cpus", &self.cpus), ("sessions", &self.sessions), ("losses", &self.losses)];
        for (name, map) in maps {
            map.give_name(&folder.join(name))?;
        }
        for (link, (_, _, name)) in self.watch.get().iter().flat_map(|links| links.iter().zip(WATCHES)) {
            link.give_name(&folder.join(name))?;
        }
        // Its entries would go with the process.
        self.object.give_name("user_space", &folder.join("user_space")).map_err(io::Error::other)
    }

    /// What a process before has left, until its place is taken.
    pub fn before(&self) -> MutexGuard<'_, Option<Arc<Before>>> {
        self.before.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// This program has taken the place of that of the process before: what that one has counted is final.
    pub fn take_over(&self) {
        let Some(before) = self.before().take() else { return };
        before.end();
        for (to, count) in self.alone_before.iter().zip(before.alone()) {
            to.store(count, Ordering::Relaxed);
        }
        self.is_over.store(true, Ordering::Release);
    }

    /// Whether [`take_over`](Self::take_over) was.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Packets the program sends by port `port` leave by interface `ifindex` of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`BpfError`].
    pub fn set_egress(&self, port: u8, ifindex: u32) -> Result<(), BpfError> {
        self.object.map("egress")?.set_interface(port.into(), ifindex)?;
        self.egress[usize::from(port >> 6)].fetch_or(1 << (port & 63), Ordering::Relaxed);
        Ok(())
    }

    /// From now on what devices do not take of packets redirected to them is counted, of the interfaces of
    /// [`count_refused`](Self::count_refused).
    ///
    /// # Errors
    /// Why it is not: the kernel does not describe itself (BTF), or the process may not trace.
    pub fn watch_devices(&self) -> io::Result<()> {
        let DeviceOffsets { ifindex, net, inode } = DeviceOffsets::of_kernel()?;
        let word = u64::from(ifindex) | u64::from(net) << 16 | u64::from(inode) << 32;
        self.config.get(0)[OFFSETS_AT].store(word, Ordering::SeqCst);
        let attach = |(program, tracepoint, _): (&str, &CStr, &str)| {
            TracepointLink::attach(&self.object.tracer(program).map_err(io::Error::other)?, tracepoint)
        };
        let [losses, refusals] = WATCHES;
        // Watched twice is watched once.
        let _ = self.watch.set([attach(losses)?, attach(refusals)?]);
        Ok(())
    }

    /// What the interface `ifindex` of a network namespace (by its inode's number) does not take is counted as that port's, once
    /// the program [sends](Self::begin_to_count_refused).
    pub fn count_refused(&self, port: &str, ifindex: u32, netns: u64) {
        let mut ports = self.egress_ports.lock().unwrap_or_else(|e| e.into_inner());
        ports.retain(|known| known.ifindex != ifindex && known.name != port);
        ports.push(EgressPort { name: port.to_owned(), ifindex, netns: netns & u64::from(u32::MAX) });
    }

    /// The program sees packets from now on: what was refused before was that of a process before.
    pub fn begin_to_count_refused(&self) {
        for port in self.egress_ports.lock().unwrap_or_else(|e| e.into_inner()).iter() {
            if let Some(first) = self.losses.get(port.ifindex as usize).first() {
                first.store(port.netns, Ordering::SeqCst);
            }
        }
    }

    /// What devices have not taken, by port; none: nothing counts it.
    fn refused(&self) -> Option<Vec<RefusedPackets>> {
        self.watch.get()?;
        let ports = self.egress_ports.lock().unwrap_or_else(|e| e.into_inner());
        let count = |ifindex: u32| self.losses.get(ifindex as usize).get(1).map_or(0, |n| n.load(Ordering::Relaxed));
        let refused = |port: &EgressPort| RefusedPackets { port: port.name.clone(), packets: count(port.ifindex) };
        Some(ports.iter().map(refused).collect())
    }

    /// What it has counted, in numbers that all gateways show.
    pub fn summary(&self) -> KernelCounters {
        KernelCounters { refused: self.refused(), flows: self.flows(), ..self.counts().summary() }
    }

    /// Translated flows and the places there are for them; none: nothing is translated.
    pub fn flows(&self) -> Option<KernelFlows> {
        let room = self.flow_room.get()?;
        Some(KernelFlows {
            places: room.places.load(Ordering::Relaxed).into(),
            taken: room.taken.load(Ordering::Relaxed).into(),
            waiting: room.waiting.load(Ordering::Relaxed).into(),
            waited: room.waited.load(Ordering::Relaxed),
        })
    }

    /// The same, for workers to bring up to date.
    pub(super) fn flow_room(&self) -> &FlowRoom {
        self.flow_room.get_or_init(|| FlowRoom::new(self.sessions.len()))
    }

    /// Whether translated flows of a session wait for a place: its packets are its worker's as long as they do.
    pub fn lacks_flows(&self, number: u32) -> bool {
        let waiting = self.flow_room.get().and_then(|room| room.by_session.get(number as usize));
        waiting.is_some_and(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Packets that came in by interface `ifindex` and are not taken go on to this XDP program.
    ///
    /// # Errors
    /// [`BpfError`]: also for an interface whose number is too high.
    pub fn set_user_space(&self, ifindex: u32, program: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.object.map("user_space")?.set_fd(ifindex, program)
    }

    fn set_config(&self, paused: bool) {
        debug_assert_eq!(self.config.get(0).len(), CONFIG / 8);
        let word = u64::from(paused) | u64::from(self.index.bits().0) << 32;
        self.config.get(0)[0].store(word, Ordering::SeqCst);
    }

    /// From now on the program takes packets, or leaves them all to the user-space path.
    pub fn set_running(&self, running: bool) {
        self.set_config(!running);
    }

    /// Whether it takes packets.
    pub fn is_running(&self) -> bool {
        self.config.get(0)[0].load(Ordering::Relaxed) & 1 == 0
    }

    /// Workers whose sessions it has.
    pub fn workers(&self) -> u16 {
        self.workers
    }

    /// Whether a session's packets are the program's.
    pub fn is_taken(&self, number: u32) -> bool {
        self.stands(number) & 0xff == State::Kernel as u32
    }

    /// Where a session is, and how many packets of it the program has left to user space: equal as long as neither changes.
    pub fn stands(&self, number: u32) -> u32 {
        self.sessions.get(number as usize).first().map_or(0, |word| word.load(Ordering::SeqCst) as u32)
    }

    /// The number of a session among the program's; none: there is no room for it.
    pub fn number(&self, worker: u16, handle: u32) -> Option<u32> {
        let number = u64::from(handle) * u64::from(self.workers) + u64::from(worker);
        (number < self.sessions.len() as u64).then_some(number as u32)
    }

    /// Returns when every run of the program that was under way when this was called has ended: what it read before is not
    /// acted upon any more. Takes a microsecond, unless a CPU is taken from the machine in the middle of a packet.
    pub fn quiesce(&self) {
        quiesce(&self.cpus, None);
    }

    /// The same, until then at most. False: a run is under way yet.
    #[must_use]
    pub fn quiesce_until(&self, until: Instant) -> bool {
        quiesce(&self.cpus, Some(until))
    }

    /// Puts a session's record in its place; its packets are the program's when this returns true. False: it does not stand
    /// as it did, for the program has left another packet of it to user space. What else the program has of it, in maps of
    /// the gateway's own, is there already.
    pub fn enter(&self, number: u32, session: &impl SharedRecord, stood: u32) -> bool {
        let (words, session) = (self.sessions.get(number as usize), session.as_bytes());
        let (Some(first), Some((head, rest))) = (words.first(), session.split_first_chunk::<8>()) else { return false };
        self.sessions.write(number as usize, 8, rest);
        if cfg!(not(target_arch = "x86_64")) {
            // Programs that run on have not read what was there before, when they see the state.
            self.quiesce();
        }
        // The state shares its word with 32 bits of the gateway's own.
        let entered = u64::from_ne_bytes(*head) & !u64::from(u32::MAX) | State::Kernel as u64;
        let as_stood = |word: u64| (word as u32 == stood).then_some(entered);
        first.fetch_update(Ordering::SeqCst, Ordering::SeqCst, as_stood).is_ok()
    }

    /// A session is the user-space path's, and no packet of it has been left to that.
    pub fn begin(&self, number: u32) {
        if let Some(first) = self.sessions.get(number as usize).first() {
            first.fetch_and(!u64::from(u32::MAX), Ordering::SeqCst);
        }
    }

    /// Takes sessions out: their packets are the user-space path's when this returns, and their buckets and counts final.
    pub fn leave_all(&self, numbers: impl IntoIterator<Item = u32>) {
        numbers.into_iter().for_each(|number| self.begin(number));
        self.quiesce();
    }

    /// Takes a session out: its packets are the user-space path's when this returns, and its buckets and counts final.
    pub fn leave(&self, number: u32) {
        self.begin(number);
        self.quiesce();
    }

    /// Sessions of a worker that the program has handed back since `seen`, which is brought up to date; none: more than
    /// the list holds.
    pub fn moved(&self, worker: u16, seen: &mut u64) -> Option<Vec<u32>> {
        let words = self.moved.get(worker.into());
        let head = words.first()?.load(Ordering::Acquire);
        if head == *seen {
            return Some(Vec::new());
        }
        let new = head.wrapping_sub(*seen);
        let from = std::mem::replace(seen, head);
        if new > MOVED as u64 {
            return None;
        }
        let mut list = Vec::with_capacity(new as usize);
        for n in 0..new {
            let at = ((from + n) % MOVED as u64) as usize;
            let half = words.get(MOVED_AT + at / 2)?.load(Ordering::Relaxed) >> (at % 2 * 32);
            // The number is written behind the head, and one that is not there yet is 0 at first.
            list.extend((half as u32).checked_sub(1));
        }
        Some(list)
    }

    /// Whether there is anything new in [`moved`](Self::moved).
    #[inline]
    pub fn has_moved(&self, worker: u16, seen: u64) -> bool {
        self.moved.get(worker.into()).first().is_some_and(|head| head.load(Ordering::Relaxed) != seen)
    }

    /// How often the program has begun to run, on all CPUs.
    pub fn runs(&self) -> u64 {
        let started = |cpu| self.cpus.get(cpu).first().map_or(0, |word| word.load(Ordering::SeqCst));
        (0..self.cpus.len()).map(started).fold(0, u64::wrapping_add)
    }

    /// Has a key lead to a session; false: there is no room, or it is a prefix's that another session's is equal to.
    pub fn link(&self, key: u64, number: u32) -> bool {
        self.index.link(key, number, &|kinds| self.set_far(kinds))
    }

    /// As [`link`](Self::link), of a key that is the hash of something.
    pub fn link_mixed(&self, key: u64, number: u32) -> bool {
        self.index.link_mixed(key, number, &|kinds| self.set_far(kinds))
    }

    /// Has a key lead nowhere, if it leads to that session.
    pub fn unlink(&self, key: u64, number: u32) {
        self.index.unlink(key, number, &|kinds| self.set_far(kinds));
    }

    /// An odd number that keys made of what senders choose are multiplied by.
    pub fn seed(&self) -> u64 {
        self.config.get(0)[SEED_AT].load(Ordering::Relaxed)
    }

    /// Whether a network instance's number is one that keys and ports of the program have room for.
    pub fn has_instance(&self, instance: u16) -> bool {
        usize::from(instance) < self.instances.len()
    }

    /// The session that a key leads to.
    pub fn leads_to(&self, key: u64) -> Option<u32> {
        self.index.leads_to(key)
    }

    /// Kinds of keys that the program looks for beyond their blocks.
    fn set_far(&self, kinds: u32) {
        let word = u64::from(self.index.bits().1) | u64::from(kinds) << 32;
        self.config.get(0)[FAR_AT].store(word, Ordering::SeqCst);
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        let sums: [u64; record::COUNTS] = sum(&self.cpus, record::COUNTS_AT);
        let [up, up_bytes, down, down_bytes, own0, own1, own2, rest @ ..] = sums;
        let [spoofed, headroom, back, other, dropped, egress, samples, sampled_ns, own3, ..] = rest;
        let before = self.alone_before.each_ref().map(|count| count.load(Ordering::Relaxed));
        let alone = std::array::from_fn(|n| sums[ALONE_AT + n].wrapping_add(before[n]));
        let [name0, name1, name2, name3] = self.reasons;
        Counts {
            up: (up, up_bytes),
            down: (down, down_bytes),
            dropped: [
                (name0, own0),
                (name1, own1),
                (name2, own2),
                (name3, own3),
                ("spoofed_source", spoofed),
                ("no_headroom", headroom),
                ("no_egress", egress),
            ],
            dropped_bytes: dropped,
            handed_back: back,
            other,
            refused: self.refused().iter().flatten().map(|refused| refused.packets).sum(),
            sampled: (samples, sampled_ns),
            flows_waited: self.flows().map_or(0, |flows| flows.waited),
            alone: AloneCounts::of(alone),
        }
    }
}

/// Counters of all CPUs, from a word on.
pub(super) fn sum<const N: usize>(cpus: &SharedWords, at: usize) -> [u64; N] {
    let mut sums = [0u64; N];
    for cpu in 0..cpus.len() {
        for (sum, word) in sums.iter_mut().zip(cpus.get(cpu).iter().skip(at)) {
            *sum = sum.wrapping_add(word.load(Ordering::Relaxed));
        }
    }
    sums
}

/// CPUs that may run the program.
pub fn cpus() -> u32 {
    possible_cpus().map_or(CPUS, |cpus| u32::try_from(cpus).unwrap_or(CPUS)).min(CPUS)
}

/// Returns when every run of the program, under way at the call, has ended. False: one has not at the time `until`.
pub(super) fn quiesce(cpus: &SharedWords, until: Option<Instant>) -> bool {
    fence(Ordering::SeqCst);
    for cpu in 0..cpus.len() {
        let [started, ended, ..] = cpus.get(cpu) else { continue };
        let runs = started.load(Ordering::SeqCst);
        let mut spins = 0u32;
        while (runs.wrapping_sub(ended.load(Ordering::SeqCst)) as i64) > 0 {
            spins += 1;
            if !spins.is_multiple_of(1024) {
                std::hint::spin_loop();
            } else if until.is_some_and(|until| Instant::now() >= until) {
                return false;
            } else {
                std::thread::yield_now();
            }
        }
    }
    true
}
