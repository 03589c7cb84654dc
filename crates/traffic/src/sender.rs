//! A generator that keeps to a schedule.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use frame::{Batch, Pool};
use serde::{Deserialize, Serialize};

use crate::direction::Direction;
use crate::generator::{Generator, Made};
use crate::pacer::Pacer;
use crate::profile::Ratio;

/// How much is sent, how fast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
    /// Packets a second, both directions together, divided by the profile's ratio (in halves where the uplink is
    /// turned around); none: as many as the ports take, in that ratio.
    pub pps: Option<f64>,
    /// Packets in all, both directions together; none: until stopped.
    pub packets: Option<u64>,
    /// Time during which the rate rises from zero in a straight line.
    pub ramp: Duration,
    /// How much sending time may be made good for at once, when the sender was kept from sending; the rest is counted
    /// as offered and not sent.
    pub catch_up: Duration,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { pps: None, packets: None, ramp: Duration::ZERO, catch_up: Duration::from_millis(5) }
    }
}

/// Keeps two directions without a rate in their ratio. Shared by the senders of both.
pub(crate) struct Balance {
    share: [f64; 2],
    taken: [AtomicU64; 2],
    active: [AtomicBool; 2],
}

impl Balance {
    pub fn new(ratio: Ratio) -> Arc<Self> {
        Self::of(Direction::BOTH.map(|direction| ratio.share(direction)))
    }

    /// For an uplink whose packets are turned around: half of all packets, whatever the profile's ratio.
    pub fn mirrored() -> Arc<Self> {
        Self::of([0.5, 0.0])
    }

    fn of(share: [f64; 2]) -> Arc<Self> {
        Arc::new(Self { share, taken: Default::default(), active: Default::default() })
    }

    /// Whether a direction is ahead of the other and must wait for it.
    #[inline]
    fn ahead(&self, direction: Direction) -> bool {
        let (own, other) = (direction.index(), direction.reverse().index());
        let taken = |i: usize| self.taken[i].load(Ordering::Relaxed) as f64;
        self.active[other].load(Ordering::Relaxed) && taken(own) * self.share[other] > taken(other) * self.share[own]
    }

    #[inline]
    fn note(&self, direction: Direction, n: u64) {
        // One writer each: no read-modify-write needed.
        let taken = &self.taken[direction.index()];
        taken.store(taken.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    fn activate(&self, direction: Direction, active: bool) {
        let i = direction.index();
        self.taken[i].store(0, Ordering::Relaxed);
        self.active[i].store(active && self.share[i] > 0.0, Ordering::Relaxed);
    }
}

/// A [`Generator`] that makes what its schedule says is due.
pub(crate) struct Sender {
    pub generator: Generator,
    balance: Arc<Balance>,
    pacer: Pacer,
    paced: bool,
    /// Packets it may still make.
    left: u64,
    running: bool,
    start_ns: u64,
    stop_ns: u64,
    /// What was made and offered before counting began.
    base: Made,
    base_offered: u64,
    /// Packets made and never sent.
    given_up: u64,
}

impl Sender {
    pub fn new(generator: Generator, balance: Arc<Balance>) -> Self {
        let base = generator.made();
        Self {
            generator,
            balance,
            pacer: Pacer::unlimited(),
            paced: false,
            left: 0,
            running: false,
            start_ns: 0,
            stop_ns: 0,
            base,
            base_offered: 0,
            given_up: 0,
        }
    }

    /// Begins a schedule, and counting.
    pub fn start(&mut self, schedule: &Schedule, now_ns: u64) {
        let direction = self.generator.direction();
        let share = self.balance.share[direction.index()];
        let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        self.paced = schedule.pps.is_some();
        self.pacer = match schedule.pps {
            Some(pps) => Pacer::new(pps * share, now_ns, ns(schedule.ramp), ns(schedule.catch_up)),
            None => Pacer::unlimited(),
        };
        self.left = match schedule.packets {
            _ if share == 0.0 => 0,
            Some(packets) => (packets as f64 * share).round() as u64,
            None => u64::MAX,
        };
        self.running = true;
        self.balance.activate(direction, true);
        self.mark(now_ns);
        if self.left == 0 {
            self.stop(now_ns);
        }
    }

    /// Ends it: nothing is due any more.
    pub fn stop(&mut self, now_ns: u64) {
        if self.running {
            self.running = false;
            self.stop_ns = now_ns;
            self.balance.activate(self.generator.direction(), false);
        }
    }

    /// Whether it was started and neither stopped nor ran out of packets.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Counts from now on.
    pub fn mark(&mut self, now_ns: u64) {
        self.start_ns = now_ns;
        self.base = self.generator.made();
        self.base_offered = self.pacer.taken() + self.pacer.missed();
        self.given_up = 0;
    }

    /// Notes that the last `n` packets made will not be sent.
    pub fn give_up(&mut self, n: u64) {
        self.given_up += n;
    }

    /// Makes what is due, at most what `out` has room for. Returns how many.
    #[inline]
    pub fn fill(&mut self, pool: &mut Pool, out: &mut Batch, now_ns: u64) -> usize {
        if !self.running {
            return 0;
        }
        let direction = self.generator.direction();
        if !self.paced && self.balance.ahead(direction) {
            return 0;
        }
        let due = self.pacer.due(now_ns).min(self.left).min(out.room() as u64);
        if due == 0 {
            return 0;
        }
        let made = self.generator.fill(pool, out, due as usize, now_ns);
        self.pacer.take(made as u64);
        self.balance.note(direction, made as u64);
        self.left -= made as u64;
        if self.left == 0 {
            self.stop(now_ns);
        }
        made
    }

    /// Nanoseconds since counting began, at most until the stop.
    pub(crate) fn elapsed_ns(&self, now_ns: u64) -> u64 {
        self.end(now_ns).saturating_sub(self.start_ns)
    }

    /// What should have been sent since counting began: never less than what was made, never more than the schedule's
    /// number of packets.
    pub fn offered(&self, now_ns: u64) -> u64 {
        let offered = self.pacer.offered(self.end(now_ns)).saturating_sub(self.base_offered);
        let made = self.made();
        // What is left is all that may still become due.
        offered.min(made.packets.saturating_add(self.left).saturating_add(self.pacer.missed())).max(made.packets)
    }

    /// Packets made since counting began and never sent.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// What was made since counting began.
    pub fn made(&self) -> Made {
        let (now, base) = (self.generator.made(), self.base);
        Made {
            packets: now.packets - base.packets,
            ip_bytes: now.ip_bytes - base.ip_bytes,
            no_frame: now.no_frame - base.no_frame,
            no_room: now.no_room - base.no_room,
        }
    }

    fn end(&self, now_ns: u64) -> u64 {
        if self.running { now_ns } else { self.stop_ns }
    }
}
