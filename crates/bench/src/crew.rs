//! Threads that play windows: gateways' workers, bare forwarders, sources of load.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use engine::{Gateway, Idle, Io, NoClock, StatsView, Time, Tsc, Worker, WorkerConfig, WorkerInit};
use frame::{Pool, Port};
use table::hint::{tsc, tsc_hz};

use crate::core_clock::CoreClock;
use crate::error::BenchError;
use crate::noise::ThreadNoise;
use crate::sample::{Delta, Sample};
use crate::score::{Manners, Part, Score};
use crate::thread::{Urgency, pin, urge};
use crate::under_test::{FarCycles, UnderTest, time};
use crate::window::How;
use crate::work_clock::{Mover, WorkClock};

/// Something that plays its voice in a window, on a thread of its own.
pub trait Player: Send {
    /// Plays a window from [`Part::Warm`] to the end of [`Part::Drain`].
    fn play(&mut self, how: &How, score: &Score) -> Slice;

    /// Ends it: ports are closed, slots are back.
    fn close(self: Box<Self>) -> Left;
}

/// What a worker did in a window.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// While it was measured.
    pub measured: Delta,
    /// From the window's begin to its end.
    pub whole: Delta,
    /// Packets that the ports lost from the window's begin to its end, by `port.counter`.
    pub lost_at_ports: BTreeMap<String, u64>,
    /// Heap allocations while it was measured.
    pub allocations: u64,
    /// The clock of its core while it was measured, in Hz, where that can be told.
    pub core_hz: Option<f64>,
    /// What kept it from its CPU while it was measured.
    pub noise: ThreadNoise,
    /// Whether it ran before the machine's ordinary threads.
    pub urgent: bool,
    /// Packets that waited in the gateway's queues, on average over its turns.
    pub waiting: f64,
    /// Of those, the subscribers that they waited for, and their bytes.
    pub backlog: [f64; 2],
    /// What the gateway counted of its own from the window's begin to its end.
    pub counters: BTreeMap<&'static str, u64>,
    /// Traffic that was made and checked; of a load.
    pub traffic: Option<traffic::TrialResult>,
    /// Why it could not play.
    pub failed: Option<String>,
}

/// What a player left behind when it ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    /// Packets that went in and neither came out nor were named.
    pub packets_missing: i64,
}

enum Order {
    Window(How),
    Close,
}

enum Reply {
    Slice(Box<Slice>),
    Left(Left),
}

/// A thread with a player on it, standing still between windows.
pub struct Hand {
    orders: Sender<Order>,
    /// Only one thread asks; this lets the hand be shared with the conductor.
    replies: Mutex<Receiver<Reply>>,
    thread: Option<JoinHandle<()>>,
}

impl Hand {
    /// Sets a player on a thread of its own, on a CPU, with the score's manners.
    ///
    /// # Errors
    /// No thread is started.
    pub fn new(name: String, player: Box<dyn Player>, score: Score, cpu: usize) -> Result<Self, BenchError> {
        let (orders, inbox) = channel();
        let (answers, replies) = channel();
        let run = move || {
            pin(cpu);
            live(player, &score, &inbox, &answers);
        };
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(run)
            .map_err(|error| BenchError::system("starting a thread", error))?;
        Ok(Self { orders, replies: Mutex::new(replies), thread: Some(thread) })
    }

    /// Has it play a window. Ask for what it did with [`Hand::slice`].
    pub fn window(&self, how: &How) {
        // A thread that is gone shows when it is asked for its slice.
        let _ = self.orders.send(Order::Window(*how));
    }

    /// What it did in the window.
    ///
    /// # Errors
    /// When its thread is gone.
    pub fn slice(&self) -> Result<Slice, BenchError> {
        match self.reply() {
            Some(Reply::Slice(slice)) => Ok(*slice),
            _ => Err(BenchError::Died("thread of a trial")),
        }
    }

    fn reply(&self) -> Option<Reply> {
        self.replies.lock().ok()?.recv().ok()
    }

    /// Ends it.
    ///
    /// # Errors
    /// When its thread is gone.
    pub fn close(mut self) -> Result<Left, BenchError> {
        let _ = self.orders.send(Order::Close);
        let left = self.reply();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        match left {
            Some(Reply::Left(left)) => Ok(left),
            _ => Err(BenchError::Died("thread of a trial")),
        }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        // Ports must be closed before the interfaces they are on go away.
        if let Some(thread) = self.thread.take() {
            let _ = self.orders.send(Order::Close);
            let _ = thread.join();
        }
    }
}

fn live(mut player: Box<dyn Player>, score: &Score, orders: &Receiver<Order>, answers: &Sender<Reply>) {
    let urgent = match score.manners() {
        Manners::Urgent => urge(Urgency::Packets),
        Manners::Brisk | Manners::Sharing => {
            urge(Urgency::Brisk);
            false
        }
    };
    while let Ok(Order::Window(how)) = orders.recv() {
        let slice = Slice { urgent, ..player.play(&how, score) };
        if answers.send(Reply::Slice(Box::new(slice))).is_err() {
            break;
        }
    }
    let _ = answers.send(Reply::Left(player.close()));
}

/// Plays a window with `turn`, reading the statistics where parts change.
/// `far` is what far ends on the same thread take, which is in no cycles.
pub fn sampled(view: &StatsView, far: &FarCycles, score: &Score, mut turn: impl FnMut(Part) -> bool) -> Slice {
    let mut core = CoreClock::start();
    let sample = || Sample::take_apart(view, far);
    let begin = sample();
    score.during(Part::Warm, || turn(Part::Warm));
    let noise = ThreadNoise::now();
    let first = sample();
    let allocations = pages::allocations_on_this_thread();
    score.during(Part::Measure, || {
        core.between_turns();
        turn(Part::Measure)
    });
    let allocations = pages::allocations_on_this_thread() - allocations;
    let last = sample();
    let noise = ThreadNoise::now().since(&noise);
    score.during(Part::Drain, || turn(Part::Drain));
    let end = sample();
    let (measured, whole) = (last.since(&first), end.since(&begin));
    Slice { measured, whole, allocations, core_hz: core.hz(), noise, ..Slice::default() }
}

/// A gateway's worker as a player.
pub struct Working<G: Gateway> {
    worker: Worker<G>,
    ports: Vec<String>,
    far: FarCycles,
    mover: Option<Mover>,
    notes: Option<Notes<G>>,
}

/// What is read of a gateway beside its worker's statistics.
struct Notes<G> {
    waiting: fn(&G) -> u64,
    backlog: fn(&G) -> (u64, u64),
    counters: fn(&G) -> Vec<(&'static str, u64)>,
}

impl<G: Gateway> Working<G> {
    /// A worker made of a seat, on those ports.
    pub fn new(seat: WorkerInit<G>, pool: Pool, ports: Vec<Box<dyn Port>>) -> Self {
        Self::timed(seat, pool, ports, time())
    }

    /// The same by a clock of another kind.
    pub fn timed(seat: WorkerInit<G>, pool: Pool, ports: Vec<Box<dyn Port>>, time: Time) -> Self {
        let names = ports.iter().map(|port| port.caps().name).collect();
        let config = WorkerConfig { time, idle: Idle::POLL, ..WorkerConfig::default() };
        let worker = Worker::new(seat.plane, seat.layout, pool, ports, config).with_hand_off(seat.hand_off);
        Self { worker, ports: names, far: FarCycles::default(), mover: None, notes: None }
    }

    /// Takes what far ends on its thread take off its cycles.
    #[must_use]
    pub(crate) fn apart_from(self, far: FarCycles) -> Self {
        Self { far, ..self }
    }

    /// Has its own work move the clock that it was made with.
    #[must_use]
    pub(crate) fn moves(self, clock: Option<WorkClock>) -> Self {
        Self { mover: clock.map(|clock| Mover::new(clock, tsc_hz())), ..self }
    }

    /// Has what a gateway under test counts of its own read in windows.
    #[must_use]
    pub(crate) fn noted<U: UnderTest<Gateway = G>>(self) -> Self {
        let notes = Notes { waiting: U::waiting, backlog: U::backlog, counters: U::counters };
        Self { notes: Some(notes), ..self }
    }

    /// Lets it do so many turns here and now: what was asked of it before it plays.
    pub fn turns(&mut self, count: u32) {
        for _ in 0..count {
            self.worker.turn();
        }
    }

    /// What it runs.
    pub fn gateway(&self) -> &G {
        self.worker.gateway()
    }

    /// Its statistics.
    pub fn view(&self) -> StatsView {
        self.worker.env().stats.view()
    }
}

/// What waited in a gateway while it was measured.
#[derive(Default)]
struct Queues {
    turns: u64,
    /// Packets, subscribers and bytes, summed over turns.
    sums: [u64; 3],
}

impl Queues {
    #[inline(always)]
    fn look<G: Gateway>(&mut self, gateway: &G, notes: &Notes<G>) {
        let (subscribers, bytes) = (notes.backlog)(gateway);
        let counts = [(notes.waiting)(gateway), subscribers, bytes];
        self.sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        self.turns += 1;
    }

    /// Adds them to what a worker did.
    fn note(self, slice: Slice) -> Slice {
        let [packets, subscribers, bytes] = self.sums.map(|sum| sum as f64 / self.turns.max(1) as f64);
        Slice { waiting: packets, backlog: [subscribers, bytes], ..slice }
    }
}

/// A turn of a worker whose thread far ends are on, too.
struct Apart {
    begin: u64,
    away: u64,
    far: [u64; 2],
}

impl Apart {
    fn begin(view: &StatsView, far: &FarCycles) -> Self {
        let far = [0, 1].map(|n: usize| far[n].load(Ordering::Relaxed));
        Self { begin: tsc(), away: view.io(Io::NotRunningCycles), far }
    }

    /// Cycles of the turn without what far ends took, and without those in which its thread was found not to be running: if the
    /// clock went on meanwhile, modems would give up packets that are not late. What far ends took in a turn that moved
    /// nothing is noted apart.
    fn end(self, view: &StatsView, far: &FarCycles, moved: bool) -> u64 {
        let now = Self::begin(view, far);
        let took = [0, 1].map(|n: usize| now.far[n] - self.far[n]);
        if !moved {
            // Nobody else writes it.
            far[2].store(far[2].load(Ordering::Relaxed) + took[0], Ordering::Relaxed);
        }
        let all = now.begin.wrapping_sub(self.begin);
        // The thread may have been preempted in the far ends' part, which is off already.
        all.saturating_sub((took[0] + took[1]).max(now.away - self.away))
    }
}

impl<G: Gateway> Player for Working<G> {
    fn play(&mut self, how: &How, score: &Score) -> Slice {
        let view = self.view();
        let Self { worker, far, mover, notes, .. } = self;
        let before = worker.port_counters();
        let counted = |worker: &Worker<G>, notes: &Option<Notes<G>>| {
            notes.as_ref().map(|notes| (notes.counters)(worker.gateway())).unwrap_or_default()
        };
        let counted_before = counted(worker, notes);
        worker.resume();
        let mut queues = Queues::default();
        let slice = sampled(&view, far, score, |part| {
            if let Some(notes) = notes.as_ref().filter(|_| part == Part::Measure) {
                queues.look(worker.gateway(), notes);
            }
            let apart = mover.is_some().then(|| Apart::begin(&view, far));
            let moved = match how.clocked {
                true => worker.turn_clocked::<Tsc>(),
                false => worker.turn_clocked::<NoClock>(),
            };
            if let (Some(mover), Some(apart)) = (&mut *mover, apart) {
                mover.worked(apart.end(&view, far, moved), moved);
            }
            moved
        });
        let since = counted(worker, notes).into_iter().zip(counted_before);
        let counters = since.map(|((name, now), (_, before))| (name, now.saturating_sub(before))).collect();
        let slice = queues.note(Slice { counters, ..slice });
        let mut lost_at_ports = BTreeMap::new();
        for ((name, now), before) in self.ports.iter().zip(worker.port_counters()).zip(&before) {
            for (what, packets) in now.lost_since(before) {
                *lost_at_ports.entry(format!("{name}.{what}")).or_default() += packets;
            }
        }
        Slice { lost_at_ports, ..slice }
    }

    fn close(self: Box<Self>) -> Left {
        let view = self.view();
        drop(self.worker.close());
        Left { packets_missing: view.missing() }
    }
}
