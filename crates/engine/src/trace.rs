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
    /// Its first bytes after the stage.
    pub bytes: Vec<u8>,
}

/// Bytes kept of a packet in a record.
const KEEP: usize = 128;
/// Records kept for a slow reader; beyond that the oldest go.
const BACKLOG: usize = 4096;

#[derive(Default)]
struct Shared {
    on: AtomicBool,
    packets_left: AtomicU32,
    filter: Mutex<Option<TraceFilter>>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    records: VecDeque<TraceRecord>,
    /// The number of the followed packet that is, or was last, in a slot.
    packets: HashMap<u32, u64>,
    next: u64,
}

impl Log {
    fn number(&mut self, slot: u32) -> u64 {
        self.next += 1;
        self.packets.insert(slot, self.next);
        self.next
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
        self.shared.log.lock().expect("no panic under this lock").number(frame.slot());
        true
    }

    /// Follows a packet that came in by a port.
    pub(crate) fn flag<K: Kind>(&self, burst: &mut Burst<K>, i: usize, port: &str, env: &Env) {
        if self.begin(burst.frame_mut(i)) {
            K::forget(&mut burst.lane, i);
            let frame = burst.frame(i);
            self.push(frame, env, "rx", "keep", format!("port {port}, {} bytes", frame.len()));
        }
    }

    /// Follows a packet that came in inside of others; `stage` is where it came to light.
    #[cold]
    pub fn join<K: Kind>(&self, stage: &'static str, burst: &mut Burst<K>, i: usize, env: &Env) {
        if self.begin(burst.frame_mut(i)) {
            self.push(burst.frame(i), env, stage, "keep", K::describe(burst, i));
        }
    }

    /// What becomes of a packet outside of pipelines, if it is followed.
    #[cold]
    pub fn note(&self, stage: &'static str, frame: &Frame, detail: String, env: &Env) {
        if frame.meta.flags & flags::TRACE != 0 {
            self.push(frame, env, stage, "keep", detail);
        }
    }

    #[cold]
    pub(crate) fn record<K: Kind>(&self, stage: &'static str, before: Live, burst: &Burst<K>, env: &Env) {
        for i in before {
            if burst.frame(i).meta.flags & flags::TRACE == 0 {
                continue;
            }
            let verdict = match (burst.live().has(i), burst.punted().has(i)) {
                (true, _) => "keep",
                (_, true) => "punt",
                _ => "drop",
            };
            self.push(burst.frame(i), env, stage, verdict, K::describe(burst, i));
        }
    }

    fn push(&self, frame: &Frame, env: &Env, stage: &'static str, verdict: &'static str, detail: String) {
        if frame.is_none() {
            return;
        }
        let bytes = env.arena().bytes(frame);
        let mut log = self.shared.log.lock().expect("no panic under this lock");
        // Another worker's packet, handed over, has no number here yet.
        let packet = log.packets.get(&frame.slot()).copied();
        let packet = packet.unwrap_or_else(|| log.number(frame.slot()));
        let record = TraceRecord {
            packet,
            time_ns: env.now,
            stage,
            verdict,
            detail,
            bytes: bytes[..bytes.len().min(KEEP)].to_vec(),
        };
        if log.records.len() == BACKLOG {
            log.records.pop_front();
        }
        log.records.push_back(record);
    }
}
