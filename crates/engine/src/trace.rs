//! Following packets of one subscriber through the stages.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use frame::{Frame, flags};

use crate::burst::{Burst, Live};
use crate::pipeline::{Env, Kind};

/// Whose packets to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFilter {
    /// The subscriber's address (an IPv6 subscriber is known by the first 64 bits).
    pub subscriber: IpAddr,
}

/// What one stage did to one packet.
#[derive(Clone, Debug)]
pub struct TraceRecord {
    /// Which packet: a number of its worker's trace, also when the packet waits in between.
    pub packet: u64,
    /// Time of its burst in nanoseconds.
    pub time_ns: u64,
    /// The stage, or `rx`.
    pub stage: &'static str,
    /// `keep`, `drop` or `punt`.
    pub verdict: &'static str,
    /// What was known of the packet after the stage.
    pub detail: String,
    /// The port it came in by (`rx`), or is to leave by, as far as is known.
    pub port: Option<u8>,
    /// Cycles of the stage for all packets of the burst, and how many these were; of what is no stage, 0.
    pub cost: (u64, u32),
    /// All of its bytes after the stage.
    pub bytes: Arc<[u8]>,
}

/// Records kept for a slow reader; beyond that the oldest go.
const BACKLOG: usize = 4096;

#[derive(Default)]
struct Shared {
    on: AtomicBool,
    packets_left: AtomicU32,
    filter: Mutex<Option<TraceFilter>>,
    log: Mutex<Log>,
}

/// What was recorded, and which packets are followed.
#[derive(Default)]
struct Log {
    records: VecDeque<TraceRecord>,
    /// The number of the followed packet that is, or was last, in a slot.
    packets: HashMap<u32, Followed>,
    next: u64,
}

/// A followed packet: its number, and its bytes as last recorded.
#[derive(Clone, Default)]
struct Followed {
    number: u64,
    bytes: Arc<[u8]>,
}

impl Log {
    fn follow(&mut self, slot: u32) {
        self.next += 1;
        self.packets.insert(slot, Followed { number: self.next, ..Followed::default() });
    }

    /// The number of the packet in a slot, and its bytes, which are stored once where no stage changes them.
    fn known(&mut self, slot: u32, bytes: &[u8]) -> (u64, Arc<[u8]>) {
        // Another worker's packet, handed over, has no number here yet.
        if !self.packets.contains_key(&slot) {
            self.follow(slot);
        }
        let followed = self.packets.entry(slot).or_default();
        if *followed.bytes != *bytes {
            followed.bytes = bytes.into();
        }
        (followed.number, followed.bytes.clone())
    }
}

/// Where a packet is when it is recorded.
struct At {
    stage: &'static str,
    verdict: &'static str,
    port: Option<u8>,
    cost: (u64, u32),
}

impl At {
    /// In no stage of a pipeline.
    fn keep(stage: &'static str, port: Option<u8>) -> Self {
        Self { stage, verdict: "keep", port, cost: (0, 0) }
    }
}

/// The worker's end. Without a trace it costs one relaxed load a stage and burst.
#[derive(Default)]
pub struct Tracer {
    shared: Arc<Shared>,
}

/// The operator's end.
#[derive(Clone)]
pub struct TracerHandle {
    shared: Arc<Shared>,
}

impl TracerHandle {
    /// Follows the next `packets` packets of the subscriber.
    pub fn start(&self, filter: TraceFilter, packets: u32) {
        *self.shared.filter.lock().expect("no panic under this lock") = Some(filter);
        self.shared.packets_left.store(packets, Ordering::Relaxed);
        self.shared.on.store(true, Ordering::Release);
    }

    /// Stops following.
    pub fn stop(&self) {
        self.shared.on.store(false, Ordering::Release);
    }

    /// Takes what was recorded since the last call.
    pub fn take(&self) -> Vec<TraceRecord> {
        self.shared.log.lock().expect("no panic under this lock").records.drain(..).collect()
    }

    /// Packets still to be followed.
    pub fn left(&self) -> u32 {
        self.shared.packets_left.load(Ordering::Relaxed)
    }
}

impl Tracer {
    /// A handle for the operator.
    pub fn handle(&self) -> TracerHandle {
        TracerHandle { shared: self.shared.clone() }
    }

    /// Whether anyone traces.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.shared.on.load(Ordering::Relaxed)
    }

    /// The filter, when tracing.
    pub fn filter(&self) -> Option<TraceFilter> {
        if !self.shared.on.load(Ordering::Acquire) {
            return None;
        }
        *self.shared.filter.lock().expect("no panic under this lock")
    }

    /// Has a packet followed from now on, as long as the trace wants more. False: it does not.
    fn begin(&self, frame: &mut Frame) -> bool {
        let left = self.shared.packets_left.load(Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        self.shared.packets_left.store(left - 1, Ordering::Relaxed);
        frame.meta.flags |= flags::TRACE;
        self.shared.log.lock().expect("no panic under this lock").follow(frame.slot());
        true
    }

    /// Follows a packet that came in by a port.
    pub(crate) fn flag<K: Kind>(&self, burst: &mut Burst<K>, i: usize, (port, name): (u8, &str), env: &Env) {
        if self.begin(burst.frame_mut(i)) {
            K::forget(&mut burst.lane, i);
            let frame = burst.frame(i);
            let detail = format!("port {name}, {} bytes", frame.len());
            self.push(frame, env, At { stage: "rx", verdict: "keep", port: Some(port), cost: (0, 0) }, detail);
        }
    }

    /// Follows a packet that came in inside of others; `stage` is where it came to light.
    #[cold]
    pub fn join<K: Kind>(&self, stage: &'static str, burst: &mut Burst<K>, i: usize, state: &K::State, env: &Env) {
        if self.begin(burst.frame_mut(i)) {
            self.push(burst.frame(i), env, At::keep(stage, None), K::describe(burst, i, state));
        }
    }

    /// What becomes of a packet outside of pipelines, if it is followed; `port`: it leaves by that.
    #[cold]
    pub fn note(&self, stage: &'static str, frame: &Frame, port: Option<u8>, detail: String, env: &Env) {
        if frame.meta.flags & flags::TRACE != 0 {
            self.push(frame, env, At::keep(stage, port), detail);
        }
    }

    #[cold]
    pub(crate) fn record<K: Kind>(
        &self,
        stage: &'static str,
        (before, cycles): (Live, u64),
        burst: &Burst<K>,
        state: &K::State,
        env: &Env,
    ) {
        let cost = (cycles, before.count());
        for i in before {
            if burst.frame(i).meta.flags & flags::TRACE == 0 {
                continue;
            }
            let verdict = match (burst.live().has(i), burst.punted().has(i)) {
                (true, _) => "keep",
                (_, true) => "punt",
                _ => "drop",
            };
            let at = At { stage, verdict, port: K::leaves_by(burst, i), cost };
            self.push(burst.frame(i), env, at, K::describe(burst, i, state));
        }
    }

    fn push(&self, frame: &Frame, env: &Env, at: At, detail: String) {
        if frame.is_none() {
            return;
        }
        let bytes = env.arena().bytes(frame);
        let mut log = self.shared.log.lock().expect("no panic under this lock");
        let (packet, bytes) = log.known(frame.slot(), bytes);
        let At { stage, verdict, port, cost } = at;
        let record = TraceRecord { packet, time_ns: env.now, stage, verdict, detail, port, cost, bytes };
        if log.records.len() == BACKLOG {
            log.records.pop_front();
        }
        log.records.push_back(record);
    }
}
