//! Threads that run gateways' workers window by window.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use engine::{Clock, Gateway, Io, NoClock, Tsc, Worker};

use crate::error::BenchError;
use crate::sample::{Delta, Sample};
use crate::score::{Part, Score};
use crate::thread::{Urgency, pin, urge};

/// What a worker did in a window.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// While it was measured.
    pub measured: Delta,
    /// From the window's begin to its end.
    pub whole: Delta,
    /// Heap allocations while it was measured.
    pub allocations: u64,
    /// Whether it ran before the machine's ordinary threads.
    pub urgent: bool,
}

/// What a worker left behind when it ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    /// Packets that went in and neither came out nor were named.
    pub packets_missing: i64,
}

enum Order {
    Window { clocked: bool },
    Close,
}

enum Reply {
    Slice(Box<Slice>),
    Left(Left),
}

/// A thread with a worker on it, standing still between windows.
pub struct Hand {
    orders: Sender<Order>,
    /// Only one thread asks; this lets the hand be shared with the conductor.
    replies: Mutex<Receiver<Reply>>,
    thread: Option<JoinHandle<()>>,
}

impl Hand {
    /// Sets a worker on a thread of its own.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn new<G: Gateway + 'static>(
        name: String,
        worker: Worker<G>,
        score: Score,
        cpu: Option<usize>,
    ) -> Result<Self, BenchError> {
        let (orders, inbox) = channel();
        let (answers, replies) = channel();
        let run = move || {
            if let Some(cpu) = cpu {
                pin(cpu);
            }
            live(worker, &score, &inbox, &answers);
        };
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(run)
            .map_err(|error| BenchError::system("starting a worker", error))?;
        Ok(Self { orders, replies: Mutex::new(replies), thread: Some(thread) })
    }

    /// Has it play a window; `clocked`: stages are charged. Ask for what it did with [`Hand::slice`].
    pub fn window(&self, clocked: bool) {
        // A thread that is gone shows when it is asked for its slice.
        let _ = self.orders.send(Order::Window { clocked });
    }

    /// What it did in the window.
    ///
    /// # Errors
    /// When its thread is gone.
    pub fn slice(&self) -> Result<Slice, BenchError> {
        match self.reply() {
            Some(Reply::Slice(slice)) => Ok(*slice),
            _ => Err(BenchError::Died("worker")),
        }
    }

    fn reply(&self) -> Option<Reply> {
        self.replies.lock().ok()?.recv().ok()
    }

    /// Ends it: its ports are closed, its slots are back.
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
            _ => Err(BenchError::Died("worker")),
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

fn live<G: Gateway>(mut worker: Worker<G>, score: &Score, orders: &Receiver<Order>, answers: &Sender<Reply>) {
    let urgent = urge(Urgency::Packets);
    let view = worker.env().stats.view();
    while let Ok(Order::Window { clocked }) = orders.recv() {
        let mut slice =
            if clocked { play::<Tsc, G>(&mut worker, score) } else { play::<NoClock, G>(&mut worker, score) };
        slice.urgent = urgent;
        if answers.send(Reply::Slice(Box::new(slice))).is_err() {
            break;
        }
    }
    drop(worker.close());
    let _ = answers.send(Reply::Left(Left { packets_missing: view.missing() }));
}

fn play<C: Clock, G: Gateway>(worker: &mut Worker<G>, score: &Score) -> Slice {
    let view = worker.env().stats.view();
    let begin = Sample::take(&view);
    score.during(Part::Warm, || worker.turn_clocked::<C>());
    let first = Sample::take(&view);
    let allocations = pages::allocations_on_this_thread();
    score.during(Part::Measure, || worker.turn_clocked::<C>());
    let allocations = pages::allocations_on_this_thread() - allocations;
    let last = Sample::take(&view);
    score.during(Part::Drain, || worker.turn_clocked::<C>());
    let end = Sample::take(&view);
    Slice { measured: last.since(&first), whole: end.since(&begin), allocations, urgent: false }
}

/// Packets a slice's worker gave to others.
pub fn handed_out(slice: &Slice) -> u64 {
    slice.measured.io(Io::HandedOut)
}
