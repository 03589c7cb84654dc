//! A gateway with its far ends on any kind of ports: counting begins when queues stand as they will, and ends when
//! everything has arrived.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::ends::Totals;
use super::under::{Cable, SLOTS};
use traffic::LatencySummary;

use crate::bed::Bed;
use crate::error::BenchError;
use crate::memory::MemoryRig;
use crate::options::{PortKind, ReceiveWork};
use crate::thread::cpus;
use crate::window::{Closing, How, Rig, Window};

/// Of the gateway's own time, how long overloaded service flows are sent to before counting begins, in nanoseconds:
/// active queue management lets bursts of 142 ms pass (CM-SP-MULPI, annex M) and finds its probability in some seconds.
const FILL_NS: u64 = 4_000_000_000;
/// The same on links, by the wall's clock.
const FILL: Duration = Duration::from_millis(1_200);
/// Filling takes no longer than this, whatever it has come to.
const FILL_AT_MOST: Duration = Duration::from_secs(15);
/// While queues fill, the time of a turn without packets, in nanoseconds.
const SKIP_NS: u64 = 10_000;

/// A gateway under its load.
pub struct CableRig<'a> {
    rig: Box<dyn Rig>,
    under: &'a Cable,
    /// Drops by `pipeline.stage.reason` since counting began.
    pub drops: BTreeMap<String, u64>,
    /// What the gateway counted of its own, since it began.
    pub counters: BTreeMap<&'static str, u64>,
    /// Bytes of its modems and all that is theirs.
    pub bytes: usize,
    /// What its interfaces are.
    pub nic: String,
    /// CPUs of its workers and of what loads it, the first worker's first.
    pub taken: Vec<usize>,
    /// Goes last: the rig's threads are on it.
    _bed: Option<Bed>,
}

impl<'a> CableRig<'a> {
    /// Sets one up, of so many workers.
    ///
    /// # Errors
    /// What cannot be, or what the system refused.
    pub fn new(under: &'a Cable, macs: [wire::Mac; 2], port: PortKind, workers: u16) -> Result<Self, BenchError> {
        let made = |rig: Box<dyn Rig>, bytes, nic, bed, taken| {
            let (drops, counters) = (BTreeMap::new(), BTreeMap::new());
            Self { rig, under, drops, counters, bytes, nic, taken, _bed: bed }
        };
        if port == PortKind::Memory {
            let mut cpus = cpus();
            // The first CPU has the machine's interrupts.
            cpus.reverse();
            let rig = MemoryRig::new(under, 1, workers, &cpus)?;
            let bytes = rig.session_bytes;
            let own = cpus.into_iter().take(workers.into()).collect();
            return Ok(made(Box::new(rig), bytes, "in process".to_owned(), None, own));
        }
        let mut bed = Bed::between(macs, workers, false, ReceiveWork::Senders)?;
        bed.set_slots(SLOTS);
        let ready = bed.with_far_ends(under, port, workers)?;
        let (bytes, nic) = (ready.session_bytes, ready.nic());
        let taken = bed.taken(workers);
        Ok(made(Box::new(ready.rig), bytes, nic, Some(bed), taken))
    }

    /// Fills the queues that will stand, and plays traffic that is not looked at in particular; counting begins behind
    /// it.
    ///
    /// # Errors
    /// What broke, or [`BenchError::Interrupted`].
    pub fn warm(&mut self, time: Duration, has_overload: bool, stop: &AtomicBool) -> Result<(), BenchError> {
        if has_overload {
            self.fill(stop)?;
        }
        self.window(&How::most(time), stop)?;
        self.count_from_now();
        Ok(())
    }

    /// Counting begins now.
    fn count_from_now(&mut self) {
        self.under.ends().iter().for_each(super::ends::Ends::count_from_now);
        self.drops.clear();
    }

    /// Sends to overloaded service flows only, until their queues stand.
    fn fill(&mut self, stop: &AtomicBool) -> Result<(), BenchError> {
        let (begin, under) = (Instant::now(), self.under);
        let only = |only| under.ends().iter().for_each(|ends| ends.hosts().send_only_excess(only));
        let skip = |ns| under.work().iter().for_each(|clock| clock.skip_idle(ns));
        let from: Vec<u64> = under.work().iter().map(crate::work_clock::WorkClock::now_ns).collect();
        only(true);
        skip(SKIP_NS);
        let how = How { warm: Duration::ZERO, clocked: false, ..How::most(Duration::from_millis(50)) };
        let filled = loop {
            if let Err(error) = self.window(&how, stop) {
                break Err(error);
            }
            let passed = under.work().iter().zip(&from).map(|(clock, from)| clock.now_ns() - from).min();
            let is_filled = passed.map_or(begin.elapsed() >= FILL, |passed| passed >= FILL_NS);
            if is_filled || begin.elapsed() >= FILL_AT_MOST {
                break Ok(());
            }
        };
        skip(0);
        only(false);
        filled
    }

    /// Packets that queues dropped since counting began, by active queue management and because they were full: those
    /// of service flows that are offered more than their rate.
    pub fn queue_drops(&self) -> [u64; 2] {
        ["flow_aqm", "flow_queue_full"].map(|reason| {
            let named = self.drops.iter().filter(|(name, _)| **name == format!("downstream.qos.{reason}"));
            named.map(|(_, packets)| packets).sum()
        })
    }

    /// Latencies since the last time, downstream and upstream; those of modems that are offered too much are in none.
    pub fn latencies(&mut self) -> [LatencySummary; 2] {
        let found = self.under.totals().latencies.each_ref().map(LatencySummary::from);
        self.under.ends().iter().for_each(super::ends::Ends::clear_latencies);
        found
    }

    /// Nothing new; everything on its way arrives. Returns what became of all of it.
    ///
    /// # Errors
    /// What broke.
    pub fn drain(&mut self, stop: &AtomicBool) -> Result<Totals, BenchError> {
        let how = How { warm: Duration::ZERO, pps: Some(0.0), ..How::most(Duration::from_millis(20)) };
        let begin = Instant::now();
        loop {
            let before = self.under.totals();
            self.window(&how, stop)?;
            let after = self.under.totals();
            let still = (before.down.1, before.up) == (after.down.1, after.up);
            let waited = begin.elapsed();
            let dropped = self.queue_drops().iter().sum();
            let is_whole = after.is_whole(dropped);
            if is_whole || still && waited > Duration::from_secs(1) || waited > Duration::from_secs(5) {
                // Devices give up what they still wait for.
                self.under.ends().iter().for_each(super::ends::Ends::give_up);
                return Ok(self.under.totals());
            }
        }
    }
}

impl Rig for CableRig<'_> {
    fn window(&mut self, how: &How, stop: &AtomicBool) -> Result<Window, BenchError> {
        let window = self.rig.window(how, stop)?;
        for (name, n) in window.workers.iter().flat_map(|slice| &slice.whole.drops) {
            *self.drops.entry(name.clone()).or_default() += n;
        }
        for (name, n) in window.workers.iter().flat_map(|slice| &slice.counters) {
            *self.counters.entry(name).or_default() += n;
        }
        Ok(window)
    }

    fn close(self: Box<Self>) -> Result<Closing, BenchError> {
        self.rig.close()
    }
}
