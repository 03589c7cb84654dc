//! Following packets of one subscriber through the stages.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use frame::flags;

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
    /// Which packet: a number of this trace.
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
    records: Mutex<VecDeque<TraceRecord>>,
}

/// The worker's end. When nobody traces it costs one relaxed load a stage and burst.
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
        self.shared.records.lock().expect("no panic under this lock").drain(..).collect()
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
    pub(crate) fn filter(&self) -> Option<TraceFilter> {
        if !self.shared.on.load(Ordering::Acquire) {
            return None;
        }
        *self.shared.filter.lock().expect("no panic under this lock")
    }

    /// Flags a packet as followed, as long as the trace wants more.
    pub(crate) fn flag<K: Kind>(&self, burst: &mut Burst<K>, i: usize, port: &str, env: &Env) {
        let left = self.shared.packets_left.load(Ordering::Relaxed);
        if left == 0 {
            return;
        }
        self.shared.packets_left.store(left - 1, Ordering::Relaxed);
        burst.frame_mut(i).meta.flags |= flags::TRACE;
        K::forget(&mut burst.lane, i);
        self.push(burst, i, env, "rx", "keep", format!("port {port}, {} bytes", burst.frame(i).len()));
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
            self.push(burst, i, env, stage, verdict, K::describe(burst, i));
        }
    }

    fn push<K: Kind>(
        &self,
        burst: &Burst<K>,
        i: usize,
        env: &Env,
        stage: &'static str,
        verdict: &'static str,
        detail: String,
    ) {
        let frame = burst.frame(i);
        if frame.is_none() {
            return;
        }
        let bytes = env.arena().bytes(frame);
        let record = TraceRecord {
            // A slot is not reused within a burst, so this tells a trace's packets apart.
            packet: env.now.wrapping_mul(64).wrapping_add(u64::from(frame.slot())),
            time_ns: env.now,
            stage,
            verdict,
            detail,
            bytes: bytes[..bytes.len().min(KEEP)].to_vec(),
        };
        let mut records = self.shared.records.lock().expect("no panic under this lock");
        if records.len() == BACKLOG {
            records.pop_front();
        }
        records.push_back(record);
    }
}
