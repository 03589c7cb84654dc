//! Far ends of a gateway's ports that make and check frames themselves: the port in memory that an end stands behind, the
//! player that has it work over interfaces, and the counts that results are made of.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use frame::{Batch, Caps, Pool, Port, PortCounters};
use table::hint::tsc;
use table::histogram::Histogram;
use traffic::{Clock, DirectionResult, LatencySummary, TrialResult};

use crate::crew::{Left, Player, Slice};
use crate::score::{Part, Score};
use crate::under_test::{FarCycles, FarSide, MemoryLoad};
use crate::window::How;
use crate::work_clock::WorkClock;

/// What stands behind a port of the gateway: it makes the frames that the port receives, and checks those that it sends.
pub trait End: Send {
    /// What its port is.
    fn caps(&self) -> Caps;

    /// Bytes of tags on each frame that it makes; they are not counted.
    fn tags(&self) -> u64 {
        0
    }

    /// A load begins.
    fn restart(&mut self) {}

    /// Frames that are due now, `given` of them having been made since the load began.
    fn due(&mut self, shared: &Shared, given: u64, clock: &Clock) -> u64;

    /// Writes the next frame and returns its length; none: there is none, or no room for it.
    fn write(&mut self, space: &mut [u8]) -> Option<usize>;

    /// After each burst: packets in the frames made since, and their bytes, where a frame is not a packet.
    fn carried(&mut self) -> Option<(u64, u64)> {
        None
    }

    /// A burst of the gateway has come.
    fn arrived(&mut self, _clock: &Clock) {}

    /// Checks a frame that the gateway sent.
    fn check(&mut self, frame: &[u8]) -> Checked;

    /// After each burst: packets found right since, and their bytes, where frames alone do not show that.
    fn settle(&mut self) -> (u64, u64) {
        (0, 0)
    }
}

/// What a frame of the gateway is.
pub enum Checked {
    /// A right one, with the bytes to count.
    Right(u64),
    /// The same, with the nanoseconds that it was on its way.
    Timed(u64, u64),
    /// A wrong one.
    Wrong,
    /// No packet of a subscriber, or told by [`End::settle`].
    Other,
}

/// What both ends of a worker know of each other.
#[derive(Default)]
pub struct Shared {
    /// When making frames began, in nanoseconds; 0: none are made.
    since: AtomicU64,
    /// Packets a second, in thousandths, both directions together; 0: as many as can be.
    rate: AtomicU64,
    /// Packets given so far, by direction: uplink, downlink.
    pub given: [AtomicU64; 2],
    endings: AtomicU64,
}

impl Shared {
    /// Begins to make frames, at a rate in thousandths of a packet a second, from `now` on in nanoseconds.
    fn restart(&self, rate: u64, now: u64) {
        self.given.iter().for_each(|given| given.store(0, Ordering::Relaxed));
        self.rate.store(rate, Ordering::Relaxed);
        self.since.store(now.max(1), Ordering::Release);
    }

    /// When making frames began, in nanoseconds; none: none are made.
    pub fn since(&self) -> Option<u64> {
        Some(self.since.load(Ordering::Acquire)).filter(|since| *since > 0)
    }

    /// How often ends were asked to end what earlier packets left on its way.
    pub fn endings(&self) -> u64 {
        self.endings.load(Ordering::Relaxed)
    }

    /// Frames due to an end that has a part of the rate, and has given some since the load began. None: no rate is asked
    /// for, as many as can be.
    pub fn due(&self, given: u64, (part, of): (u64, u64), clock: &Clock) -> Option<u64> {
        let Some(since) = self.since() else { return Some(0) };
        let rate = self.rate.load(Ordering::Relaxed);
        let elapsed = clock.now_ns().saturating_sub(since);
        let all = u128::from(rate) * u128::from(elapsed) / 1_000_000_000_000;
        (rate > 0).then(|| (all as u64 * part / of).saturating_sub(given))
    }
}

/// What came of a direction.
#[derive(Debug, Default)]
pub struct Counts {
    /// Packets given to the gateway.
    pub sent: AtomicU64,
    /// Their bytes without tags.
    pub sent_bytes: AtomicU64,
    /// Frames of the gateway that are right in all that is checked.
    pub right: AtomicU64,
    /// Their bytes, by broadband ends as on the access side.
    pub right_bytes: AtomicU64,
    /// Frames of the gateway with the wrong tags, addresses, TTL or checksum.
    pub wrong: AtomicU64,
    /// Nanoseconds that right ones were on their way, as far as ends tell.
    pub latencies: Mutex<Histogram>,
}

/// Adds to a counter of which this is the only writer.
fn add(counter: &AtomicU64, n: u64) {
    // No read-modify-write needed.
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

/// The far ends of a worker's ports, put together.
pub struct FarEnds {
    ports: Vec<Box<dyn Port>>,
    shared: Arc<Shared>,
    counts: [Arc<Counts>; 2],
    /// What they take to make and to check frames, where it is told apart from the worker's time.
    cycles: Option<FarCycles>,
    clock: Clock,
    work_clock: Option<WorkClock>,
    offered: Offered,
}

/// Bytes that an end has made so far for each outer VLAN; empty where it does not tell.
pub type Offered = Arc<[AtomicU64]>;

impl FarEnds {
    /// None yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            ports: Vec::new(),
            shared: Arc::default(),
            counts: Default::default(),
            cycles: None,
            clock,
            work_clock: None,
            offered: Arc::new([]),
        }
    }

    /// None yet; they go by the clock that their worker's own work moves.
    pub(crate) fn by_work(clock: &WorkClock) -> Self {
        Self { work_clock: Some(clock.clone()), ..Self::new(clock.clock()) }.told_apart()
    }

    /// The worker goes by that clock, which the ends move themselves; what is counted a second is by the machine's. They note
    /// the bytes that they make for each outer VLAN.
    #[must_use]
    pub(crate) fn moving(self, clock: Option<WorkClock>, offered: Offered) -> Self {
        Self { work_clock: clock, offered, ..self }
    }

    /// What ends take to make and to check frames is taken off the time of the worker whose thread they are on.
    #[must_use]
    pub(crate) fn told_apart(mut self) -> Self {
        self.cycles = Some(FarCycles::default());
        self
    }

    /// Adds the end of the next port. The first port is the access side, from which packets go uplink.
    #[must_use]
    pub fn with(mut self, end: impl End + 'static) -> Self {
        let direction = usize::from(!self.ports.is_empty());
        self.ports.push(Box::new(FarPort {
            end,
            direction,
            shared: self.shared.clone(),
            begins: self.counts[direction].clone(),
            ends: self.counts[1 - direction].clone(),
            cycles: self.cycles.clone(),
            since: 0,
            given: 0,
            clock: self.clock.clone(),
            counters: PortCounters::default(),
        }));
        self
    }

    /// All of them, and what drives them.
    pub fn side(self, flows: u32) -> FarSide<Load> {
        let Self { ports, shared, counts, cycles, clock, work_clock, offered } = self;
        let (cycles, looks) = (cycles.unwrap_or_default(), Mutex::default());
        let load = Load { shared, counts, cycles, clock, work_clock, offered, looks, marks: Mutex::default() };
        FarSide { ports, load, flows }
    }
}

/// A gateway's port in memory with an end behind it.
struct FarPort<E> {
    end: E,
    /// Of what it makes: 0 uplink, 1 downlink.
    direction: usize,
    shared: Arc<Shared>,
    /// Of packets that begin here, and of those that end here.
    begins: Arc<Counts>,
    ends: Arc<Counts>,
    cycles: Option<FarCycles>,
    /// When the load began, and frames given since.
    since: u64,
    given: u64,
    clock: Clock,
    counters: PortCounters,
}

impl<E: End> FarPort<E> {
    /// Charges the end for what it took since `begin`: 0 for making, 1 for checking.
    fn charge(&self, what: usize, begin: u64) {
        if let Some(cycles) = &self.cycles {
            add(&cycles[what], tsc().wrapping_sub(begin));
        }
    }
}

impl<E: End> Port for FarPort<E> {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let begin = self.cycles.as_ref().map_or(0, |_| tsc());
        if let Some(since) = self.shared.since().filter(|since| *since != self.since) {
            (self.since, self.given) = (since, 0);
            self.end.restart();
        }
        let (mut made, mut bytes) = (0, 0);
        let due = self.end.due(&self.shared, self.given, &self.clock).min(out.room() as u64);
        while made < due {
            let Some(mut frame) = pool.take() else {
                self.counters.rx_no_frame += 1;
                break;
            };
            let Some(len) = self.end.write(pool.arena().space_mut(&mut frame)) else {
                pool.give(frame);
                break;
            };
            pool.arena().set_len(&mut frame, len);
            if let Err(frame) = out.push(frame) {
                pool.give(frame);
                break;
            }
            (made, bytes) = (made + 1, bytes + len as u64);
        }
        self.given += made;
        let (packets, packet_bytes) = self.end.carried().unwrap_or((made, bytes - made * self.end.tags()));
        add(&self.begins.sent, packets);
        add(&self.begins.sent_bytes, packet_bytes);
        add(&self.shared.given[self.direction], made);
        self.counters.rx_packets += made;
        self.counters.rx_bytes += bytes;
        self.charge(0, begin);
        made as usize
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let begin = self.cycles.as_ref().map_or(0, |_| tsc());
        let (mut right, mut bytes, mut wrong) = (0, 0, 0);
        let sent = batch.len();
        self.end.arrived(&self.clock);
        // Nobody else has it while packets go through.
        let mut latencies = self.ends.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        batch.drain(|frame| {
            match self.end.check(pool.arena().bytes(&frame)) {
                Checked::Right(len) => (right, bytes) = (right + 1, bytes + len),
                Checked::Timed(len, ns) => {
                    (right, bytes) = (right + 1, bytes + len);
                    latencies.record(ns);
                }
                Checked::Wrong => wrong += 1,
                Checked::Other => {}
            }
            pool.give(frame);
        });
        drop(latencies);
        let settled = self.end.settle();
        add(&self.ends.right, right + settled.0);
        add(&self.ends.right_bytes, bytes + settled.1);
        add(&self.ends.wrong, wrong);
        self.counters.tx_packets += sent as u64;
        self.charge(1, begin);
        sent
    }

    fn service(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        self.end.caps()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

/// Far ends over interfaces, as a player: what they make leaves by a wire each, what comes in there is theirs to check.
pub struct Wired<L> {
    wires: Vec<Box<dyn Port>>,
    pool: Pool,
    came: Batch,
    /// Each end, and what its wire would not take yet.
    ends: Vec<(Box<dyn Port>, Batch)>,
    load: L,
}

impl<L: MemoryLoad> Wired<L> {
    /// Those far ends on those wires, in the same order.
    pub fn new(wires: Vec<Box<dyn Port>>, pool: Pool, far: FarSide<L>) -> Self {
        let ends = far.ports.into_iter().map(|end| (end, Batch::new())).collect();
        Self { wires, pool, came: Batch::new(), ends, load: far.load }
    }

    fn turn(&mut self) -> bool {
        let Self { wires, pool, came, ends, .. } = self;
        let mut moved = 0;
        for (wire, (end, waiting)) in wires.iter_mut().zip(ends) {
            wire.service(pool);
            moved += wire.rx_burst(pool, came);
            if !came.is_empty() {
                end.tx_burst(pool, came);
            }
            if waiting.is_empty() {
                end.rx_burst(pool, waiting);
            }
            if !waiting.is_empty() {
                moved += wire.tx_burst(pool, waiting);
            }
        }
        moved > 0
    }
}

impl<L: MemoryLoad> Player for Wired<L> {
    fn play(&mut self, how: &How, score: &Score) -> Slice {
        self.load.start(how.pps);
        score.during(Part::Warm, || self.turn());
        self.load.mark();
        score.during(Part::Measure, || self.turn());
        self.load.stop();
        score.during(Part::Drain, || self.turn());
        Slice { traffic: Some(L::results(std::slice::from_ref(&self.load))), ..Slice::default() }
    }

    fn close(mut self: Box<Self>) -> Left {
        let Self { wires, pool, ends, .. } = &mut *self;
        ends.iter_mut().for_each(|(_, waiting)| pool.give_all(waiting));
        wires.iter_mut().for_each(|wire| wire.close(pool));
        Left::default()
    }
}

/// Counters of a direction: packets sent, their bytes, packets that came out right, their bytes, packets that are wrong.
type Look = [[u64; 5]; 2];

/// What the ends of a worker are started, stopped and asked by.
pub struct Load {
    shared: Arc<Shared>,
    /// Uplink and downlink.
    counts: [Arc<Counts>; 2],
    cycles: FarCycles,
    clock: Clock,
    work_clock: Option<WorkClock>,
    offered: Offered,
    /// What was offered, and the worker's time in nanoseconds, when counting began and ended.
    looks: Mutex<[(Vec<u64>, u64); 2]>,
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

impl Load {
    /// Notes what was offered so far: when counting begins, or ends.
    fn note_offered(&self, at: usize) {
        if let Some(clock) = self.work_clock.as_ref().filter(|_| !self.offered.is_empty()) {
            let bytes = self.offered.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect();
            self.looks.lock().unwrap_or_else(PoisonError::into_inner)[at] = (bytes, clock.now_ns());
        }
    }
}

impl MemoryLoad for Load {
    fn start(&self, pps: Option<f64>) {
        self.change(|marks, look, now| *marks = Marks { start: look, mark: (look, now), stop: (look, now) });
        if pps == Some(0.0) {
            add(&self.shared.endings, 1);
        } else {
            // In thousandths.
            self.shared.restart(pps.map_or(0, |pps| (pps * 1000.0) as u64), self.clock.now_ns());
        }
    }

    fn mark(&self) {
        for counts in &self.counts {
            counts.latencies.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.note_offered(0);
        self.change(|marks, look, now| marks.mark = (look, now));
    }

    fn stop(&self) {
        self.note_offered(1);
        self.shared.since.store(0, Ordering::Relaxed);
        self.change(|marks, look, now| marks.stop = (look, now));
    }

    fn far_cycles(&self) -> FarCycles {
        self.cycles.clone()
    }

    fn offered(&self) -> Option<(Vec<u64>, u64)> {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let [(first, begin), (last, end)] = &*looks;
        let bytes = last.iter().zip(first).map(|(last, first)| last - first).collect();
        (!self.offered.is_empty()).then(|| (bytes, end.saturating_sub(*begin)))
    }

    fn work_clock(&self) -> Option<WorkClock> {
        self.work_clock.clone()
    }

    fn results(loads: &[Self]) -> TrialResult {
        let (mut counted, mut whole, mut seconds) = (Look::default(), Look::default(), 1e-9_f64);
        // Each by its own clock: packets and bytes that came out right, a second.
        let mut rates = [[0.0; 2]; 2];
        for load in loads {
            let marks = *load.marks.lock().unwrap_or_else(PoisonError::into_inner);
            let (mut these, own) = (Look::default(), (marks.stop.1 - marks.mark.1).max(1) as f64 / 1e9);
            add_looks(&mut these, &marks.stop.0, &marks.mark.0);
            for n in 0..2 {
                rates[n] = [rates[n][0] + these[n][2] as f64 / own, rates[n][1] + these[n][3] as f64 / own];
            }
            add_looks(&mut counted, &marks.stop.0, &marks.mark.0);
            add_looks(&mut whole, &load.look(), &marks.start);
            seconds = seconds.max(own);
        }
        let [uplink, downlink] = [0, 1].map(|n: usize| {
            let mut latencies = Histogram::new();
            for load in loads {
                latencies.merge(&load.counts[n].latencies.lock().unwrap_or_else(PoisonError::into_inner));
            }
            DirectionResult {
                latency_us: LatencySummary::from(&latencies),
                ..direction(counted[n], whole[n], rates[n])
            }
        });
        let (sent, lost) = (whole[0][0] + whole[1][0], uplink.lost_packets + downlink.lost_packets);
        TrialResult { loss_ratio: lost as f64 / sent.max(1) as f64, ..TrialResult::both(seconds, uplink, downlink) }
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
/// `rates`: packets and bytes a second.
fn direction(counted: [u64; 5], whole: [u64; 5], rates: [f64; 2]) -> DirectionResult {
    let [sent, sent_bytes, right, _, wrong] = counted;
    DirectionResult {
        frame_bytes_mean: sent_bytes as f64 / sent.max(1) as f64,
        offered_packets: sent,
        sent_packets: sent,
        forwarded_packets: right,
        lost_packets: whole[0].saturating_sub(whole[2]),
        misdelivered_packets: wrong,
        mpps: rates[0] / 1e6,
        gbps_l2: rates[1] * 8.0 / 1e9,
        ..DirectionResult::default()
    }
}

#[cfg(test)]
mod tests {
    use frame::{Arena, ArenaConfig};

    use super::*;

    /// Takes 60 bytes for right; what it is asked to end is three frames.
    struct Same {
        endings: u64,
    }

    impl End for Same {
        fn caps(&self) -> Caps {
            Caps::default()
        }

        fn due(&mut self, shared: &Shared, given: u64, clock: &Clock) -> u64 {
            let asked = shared.endings() - std::mem::replace(&mut self.endings, shared.endings());
            3 * asked + shared.due(given, (1, 2), clock).unwrap_or(64)
        }

        fn write(&mut self, space: &mut [u8]) -> Option<usize> {
            space.get_mut(..60)?.fill(1);
            Some(60)
        }

        fn check(&mut self, frame: &[u8]) -> Checked {
            if frame.len() == 60 { Checked::Right(60) } else { Checked::Wrong }
        }
    }

    #[test]
    fn ends_keep_the_rate_and_end_what_they_began() {
        let (clock, hand) = Clock::simulated();
        let arena = Arena::new(ArenaConfig { slots: 256, ..ArenaConfig::default() }).expect("memory");
        let mut pool = Pool::new(&arena, 256);
        let far = FarEnds::new(clock).told_apart().with(Same { endings: 0 }).with(Same { endings: 0 });
        let FarSide { mut ports, load, .. } = far.side(1);
        let mut turn = |ms: u64| {
            hand.fetch_add(ms * 1_000_000, Ordering::Relaxed);
            let mut batch = Batch::new();
            let made = ports[0].rx_burst(&mut pool, &mut batch);
            ports[1].tx_burst(&mut pool, &mut batch);
            made
        };
        assert_eq!(turn(1), 0, "no load has begun");
        load.start(Some(20_000.0));
        load.mark();
        assert_eq!([turn(1), turn(0), turn(2)], [10, 0, 20], "half of 20 a millisecond");
        load.stop();
        assert_eq!(turn(1), 0);
        load.start(Some(0.0));
        assert_eq!([turn(0), turn(1)], [3, 0]);
        load.start(None);
        assert_eq!(turn(1), 64, "as many as can be");
        load.start(Some(20_000.0));
        assert_eq!(turn(1), 10, "from the beginning");
        load.mark();
        turn(1);
        load.stop();
        let found = Load::results(std::slice::from_ref(&load));
        let DirectionResult { sent_packets, forwarded_packets, lost_packets, mpps, .. } = found.directions.uplink;
        assert_eq!((sent_packets, forwarded_packets, lost_packets, mpps), (10, 10, 0, 0.01));
        assert!(load.far_cycles()[..2].iter().all(|cycles| cycles.load(Ordering::Relaxed) > 0), "told apart");
        drop(ports);
        drop(pool);
        assert_eq!(arena.in_depot(), 256);
    }
}
