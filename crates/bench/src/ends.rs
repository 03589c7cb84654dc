//! The load of a worker whose far ends make and check frames themselves, in memory: what the ends have in common, and what
//! became of their packets.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use traffic::{Clock, DirectionResult, Directions, TrialResult};

use crate::under_test::MemoryLoad;

/// What both ends of a worker know of each other.
#[derive(Default)]
pub struct Shared {
    /// Frames are made.
    pub on: AtomicBool,
    /// Packets a second, in thousandths, both directions together; 0: as many as can be.
    pub rate: AtomicU64,
    /// When making began, in nanoseconds.
    pub since: AtomicU64,
    /// Packets given so far, by direction: uplink, downlink.
    pub given: [AtomicU64; 2],
}

impl Shared {
    /// Begins to make frames, at a rate in thousandths of a packet a second, from `now` on in nanoseconds.
    pub fn restart(&self, rate: u64, now: u64) {
        self.given.iter().for_each(|given| given.store(0, Ordering::Relaxed));
        self.rate.store(rate, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
        self.on.store(true, Ordering::Relaxed);
    }
}

/// What came of a direction.
#[derive(Debug, Default)]
pub struct Counts {
    /// Frames given to the gateway.
    pub sent: AtomicU64,
    /// Their bytes without tags.
    pub sent_bytes: AtomicU64,
    /// Frames of the gateway that are right in all that is checked.
    pub right: AtomicU64,
    /// Their bytes, by broadband ends as on the access side.
    pub right_bytes: AtomicU64,
    /// Frames of the gateway with the wrong tags, addresses, TTL or checksum.
    pub wrong: AtomicU64,
}

/// Adds to a counter of which this is the only writer.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    // No read-modify-write needed.
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

/// Counters of a direction: packets sent, their bytes, packets that came out right, their bytes, packets that are wrong.
type Look = [[u64; 5]; 2];

/// What the ends of a worker are started, stopped and asked by.
pub struct Load {
    shared: Arc<Shared>,
    /// Uplink and downlink.
    counts: [Arc<Counts>; 2],
    clock: Clock,
    marks: Mutex<Marks>,
}

/// Counters at a window's events.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    start: Look,
    mark: (Look, u64),
    stop: (Look, u64),
}

impl Load {
    /// Of ends that share this, and count so.
    pub fn new(shared: Arc<Shared>, counts: [Arc<Counts>; 2], clock: Clock) -> Self {
        Self { shared, counts, clock, marks: Mutex::default() }
    }

    fn look(&self) -> Look {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [0, 1].map(|n: usize| {
            let counts = &self.counts[n];
            [&counts.sent, &counts.sent_bytes, &counts.right, &counts.right_bytes, &counts.wrong].map(read)
        })
    }

    fn change(&self, change: impl FnOnce(&mut Marks, Look, u64)) {
        let now = self.clock.now_ns();
        change(&mut self.marks.lock().unwrap_or_else(PoisonError::into_inner), self.look(), now);
    }
}

impl MemoryLoad for Load {
    fn start(&self, pps: Option<f64>) {
        self.change(|marks, look, now| *marks = Marks { start: look, mark: (look, now), stop: (look, now) });
        // In thousandths.
        self.shared.restart(pps.map_or(0, |pps| (pps * 1000.0) as u64), self.clock.now_ns());
    }

    fn mark(&self) {
        self.change(|marks, look, now| marks.mark = (look, now));
    }

    fn stop(&self) {
        self.shared.on.store(false, Ordering::Relaxed);
        self.change(|marks, look, now| marks.stop = (look, now));
    }

    fn results(loads: &[Self]) -> TrialResult {
        let (mut counted, mut whole, mut seconds) = (Look::default(), Look::default(), 1e-9_f64);
        for load in loads {
            let marks = *load.marks.lock().unwrap_or_else(PoisonError::into_inner);
            add_looks(&mut counted, &marks.stop.0, &marks.mark.0);
            add_looks(&mut whole, &load.look(), &marks.start);
            seconds = seconds.max((marks.stop.1 - marks.mark.1) as f64 / 1e9);
        }
        let [uplink, downlink] = [0, 1].map(|n: usize| direction(counted[n], whole[n], seconds));
        let (sent, lost) = (whole[0][0] + whole[1][0], uplink.lost_packets + downlink.lost_packets);
        TrialResult {
            seconds,
            directions: Directions { uplink, downlink },
            mpps: uplink.mpps + downlink.mpps,
            gbps_l2: uplink.gbps_l2 + downlink.gbps_l2,
            loss_ratio: lost as f64 / sent.max(1) as f64,
        }
    }
}

fn add_looks(sum: &mut Look, after: &Look, before: &Look) {
    for n in 0..2 {
        for (at, sum) in sum[n].iter_mut().enumerate() {
            *sum += after[n][at] - before[n][at];
        }
    }
}

/// What became of a direction's packets. Lost ones are those of the whole window, of which none is on its way any more.
fn direction(counted: [u64; 5], whole: [u64; 5], seconds: f64) -> DirectionResult {
    let [sent, sent_bytes, right, right_bytes, wrong] = counted;
    DirectionResult {
        frame_bytes_mean: sent_bytes as f64 / sent.max(1) as f64,
        offered_packets: sent,
        sent_packets: sent,
        forwarded_packets: right,
        lost_packets: whole[0].saturating_sub(whole[2]),
        misdelivered_packets: wrong,
        mpps: right as f64 / seconds / 1e6,
        gbps_l2: right_bytes as f64 * 8.0 / seconds / 1e9,
        ..DirectionResult::default()
    }
}
