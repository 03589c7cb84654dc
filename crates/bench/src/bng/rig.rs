//! Workers of a broadband gateway between the ends of their own, played in windows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Caps, Pool, Port};
use traffic::{Clock, DirectionResult, Directions, TrialResult};

use super::ends::{Counts, End, Shared};
use super::settings::{ACCESS_MAC, CORE_MAC, Settings};
use crate::crew::{Hand, Working};
use crate::error::BenchError;
use crate::score::{Manners, Part, Score, Times};
use crate::under_test::WorkerInit;
use crate::window::{Closing, How, Rig, Window};

/// Packets in flight fit many times over; a stock this size stays in the second-level cache's reach.
const SLOTS: u32 = 2048;

/// A gateway's workers, each with an access network and a core of its own.
pub struct BngRig {
    score: Score,
    shared: Vec<Arc<Shared>>,
    counts: Vec<[Arc<Counts>; 2]>,
    hands: Vec<Hand>,
    arena: Arc<Arena>,
    clock: Clock,
    /// Lives as long as the gateway does.
    control: bng::control::Control,
    /// Bytes of records and indexes.
    pub session_bytes: usize,
    /// From nothing to ready.
    pub start: Duration,
}

impl BngRig {
    /// Assembles the gateway and its ends.
    ///
    /// # Errors
    /// What can not be, or what the machine has too little of.
    pub fn new(settings: &Settings, workers: u16, cpus: &[usize]) -> Result<Self, BenchError> {
        let begin = Instant::now();
        let config = settings.config(workers)?;
        let caps = |mac| Caps { kind: "memory", mac, mtu: 1500, ..Caps::default() };
        let made = bng::assemble::assemble(&config, &[caps(ACCESS_MAC), caps(CORE_MAC)]);
        let (control, inits) = made.map_err(|error| BenchError::Gateway(error.to_string()))?;
        let start = begin.elapsed();
        let arena = Arena::new(ArenaConfig { slots: SLOTS * u32::from(workers), ..ArenaConfig::default() })
            .map_err(|error| BenchError::system("memory for packets", error))?;
        let score = Score::default();
        let mut rig = Self {
            score: score.clone(),
            shared: vec![],
            counts: vec![],
            hands: vec![],
            arena: arena.clone(),
            clock: Clock::tsc(),
            control,
            session_bytes: inits.iter().map(|init| init.gateway.state().subscribers.bytes()).sum(),
            start,
        };
        for (n, init) in inits.into_iter().enumerate() {
            let users = settings.users(workers, n as u16);
            if users.is_empty() {
                return Err(BenchError::Asked(format!("{workers} workers for {} subscribers", settings.subscribers)));
            }
            let (ends, shared, counts) = End::pair(settings, (workers, n as u16), &rig.clock);
            let ports = ends.map(|end| -> Box<dyn Port> { Box::new(end) });
            let init = WorkerInit { gateway: init.gateway, layout: init.layout, hand_off: init.hand_off, users };
            let worker = Working::new(init, Pool::new(&arena, SLOTS as usize), ports);
            let score = if usize::from(workers) > cpus.len() { score.with(Manners::Sharing) } else { score.clone() };
            rig.hands.push(Hand::new(format!("worker-{n}"), Box::new(worker), score, cpus[n % cpus.len()])?);
            rig.shared.push(shared);
            rig.counts.push(counts);
        }
        rig.control.poll(rig.clock.now_ns());
        Ok(rig)
    }

    /// All counters now: of each direction sent, its bytes, right, its bytes, wrong.
    fn look(&self) -> [[u64; 5]; 2] {
        let mut sums = [[0; 5]; 2];
        for counts in &self.counts {
            for (sum, counts) in sums.iter_mut().zip(counts) {
                let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                let now =
                    [&counts.sent, &counts.sent_bytes, &counts.right, &counts.right_bytes, &counts.wrong].map(read);
                sum.iter_mut().zip(now).for_each(|(sum, n)| *sum += n);
            }
        }
        sums
    }
}

/// What became of a direction's packets between two looks.
fn direction(before: [u64; 5], after: [u64; 5], all: (u64, u64), seconds: f64) -> DirectionResult {
    let [sent, sent_bytes, right, right_bytes, wrong] = std::array::from_fn(|n| after[n] - before[n]);
    DirectionResult {
        frame_bytes_mean: sent_bytes as f64 / sent.max(1) as f64,
        offered_packets: sent,
        sent_packets: sent,
        forwarded_packets: right,
        // Of the whole window: what was on its way at its ends has come.
        lost_packets: all.0.saturating_sub(all.1),
        misdelivered_packets: wrong,
        mpps: right as f64 / seconds / 1e6,
        gbps_l2: right_bytes as f64 * 8.0 / seconds / 1e9,
        ..DirectionResult::default()
    }
}

impl Rig for BngRig {
    fn window(&mut self, how: &How, stop: &AtomicBool) -> Result<Window, BenchError> {
        let times = Times { warm: how.warm, measure: how.measure, drain: Duration::from_millis(2) };
        let begin = self.look();
        let (mut first, mut last, mut seconds) = (begin, begin, 0.0);
        let mut marked = Instant::now();
        let rate = how.pps.map_or(0, |pps| (pps * 1000.0 / self.hands.len() as f64) as u64);
        let this = &*self;
        let played = this.score.play(&times, stop, |part| match part {
            Part::Warm => {
                for shared in &this.shared {
                    shared.restart(rate, this.clock.now_ns());
                }
                this.hands.iter().for_each(|hand| hand.window(how));
            }
            Part::Measure => (first, marked) = (this.look(), Instant::now()),
            Part::Drain => {
                (last, seconds) = (this.look(), marked.elapsed().as_secs_f64());
                this.shared.iter().for_each(|shared| shared.on.store(false, Ordering::Relaxed));
            }
            _ => {}
        });
        let workers = self.hands.iter().map(Hand::slice).collect::<Result<Vec<_>, _>>()?;
        self.score.rest();
        played?;
        let end = self.look();
        let all = |n: usize| (end[n][0] - begin[n][0], end[n][2] - begin[n][2]);
        let seconds = seconds.max(1e-9);
        let [uplink, downlink] = [0, 1].map(|n| direction(first[n], last[n], all(n), seconds));
        let (sent, lost) = (all(0).0 + all(1).0, uplink.lost_packets + downlink.lost_packets);
        let traffic = TrialResult {
            seconds,
            directions: Directions { uplink, downlink },
            mpps: uplink.mpps + downlink.mpps,
            gbps_l2: uplink.gbps_l2 + downlink.gbps_l2,
            loss_ratio: lost as f64 / sent.max(1) as f64,
        };
        Ok(Window { traffic, workers })
    }

    fn close(self: Box<Self>) -> Result<Closing, BenchError> {
        let mut packets_missing = 0;
        for hand in self.hands {
            packets_missing += hand.close()?.packets_missing.abs();
        }
        drop(self.control);
        let frames_lost = i64::from(self.arena.shape().slots) - self.arena.in_depot() as i64;
        Ok(Closing { frames_lost, packets_missing })
    }
}
