//! The load of a worker: what its two ends have in common, and what became of their packets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use traffic::{Clock, DirectionResult, Directions, TrialResult};

use super::ends::{Counts, Shared};
use crate::under_test::MemoryLoad;

/// Counters of a direction: packets sent, their bytes, packets that came out right, their bytes, packets that are wrong.
type Look = [[u64; 5]; 2];

/// What the ends of a worker are started, stopped and asked by.
pub struct Load {
    pub(super) shared: Arc<Shared>,
    /// Uplink and downlink.
    pub(super) counts: [Arc<Counts>; 2],
    pub(super) clock: Clock,
    pub(super) marks: Mutex<Marks>,
}

/// Counters at a window's events.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    start: Look,
    mark: (Look, u64),
    stop: (Look, u64),
}

impl Load {
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
            add(&mut counted, &marks.stop.0, &marks.mark.0);
            add(&mut whole, &load.look(), &marks.start);
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

fn add(sum: &mut Look, after: &Look, before: &Look) {
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
