//! Looking at a port that a worker owns, without disturbing it.
//!
//! Whoever wants to see raises a flag; the worker's next [`Port::service`] sees it, copies what the port has counted
//! behind the glass, and lowers it. While nobody looks it costs one relaxed load a turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use frame::{Batch, Caps, Pool, Port, PortCounters};
use std::os::fd::BorrowedFd;

/// What was seen of a port.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What it is.
    pub caps: Caps,
    /// What it has counted.
    pub counters: PortCounters,
    /// Counters of its wrappers.
    pub extras: Vec<(&'static str, u64)>,
    /// Slots it holds.
    pub held: usize,
}

/// The onlooker's side.
#[derive(Clone)]
pub struct Glass(Arc<Pane>);

struct Pane {
    wanted: AtomicBool,
    seen: Mutex<Seen>,
}

/// A port that can be looked at.
pub struct Watched {
    port: Box<dyn Port>,
    pane: Arc<Pane>,
}

/// How long an onlooker waits for the worker's next turn: one that sleeps is woken.
const PATIENCE: Duration = Duration::from_millis(50);

impl Watched {
    /// The port behind glass.
    pub fn new(port: Box<dyn Port>) -> (Self, Glass) {
        let pane = Arc::new(Pane { wanted: AtomicBool::new(false), seen: Mutex::default() });
        let watched = Self { port, pane: pane.clone() };
        watched.show();
        (watched, Glass(pane))
    }

    #[cold]
    fn show(&self) {
        let mut extras = Vec::new();
        self.port.extras(&mut |name, value| extras.push((name, value)));
        let (caps, counters, held) = (self.port.caps(), self.port.counters(), self.port.held());
        *self.pane.lock() = Seen { caps, counters, extras, held };
        self.pane.wanted.store(false, Ordering::Release);
    }
}

impl Pane {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Glass {
    /// Asks for a fresh look.
    pub fn ask(&self) {
        self.0.wanted.store(true, Ordering::Relaxed);
    }

    /// What was seen last. Does not wait.
    pub fn seen(&self) -> Seen {
        self.0.lock().clone()
    }

    /// What there was to see after the last [`Glass::ask`], waiting a little for it; or the last that was seen, of a
    /// worker that has ended or is busy beyond measure.
    pub fn look(&self) -> Seen {
        let until = Instant::now() + PATIENCE;
        while self.0.wanted.load(Ordering::Acquire) && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(200));
        }
        self.0.lock().clone()
    }
}

impl Port for Watched {
    #[inline]
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        self.port.rx_burst(pool, out)
    }

    #[inline]
    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.port.tx_burst(pool, batch)
    }

    #[inline]
    fn service(&mut self, pool: &mut Pool) {
        self.port.service(pool);
        if self.pane.wanted.load(Ordering::Relaxed) {
            self.show();
        }
    }

    fn caps(&self) -> Caps {
        self.port.caps()
    }

    fn counters(&self) -> PortCounters {
        self.port.counters()
    }

    fn extras(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.port.extras(tell);
    }

    fn held(&self) -> usize {
        self.port.held()
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.wait_fd()
    }

    fn kick(&mut self, pool: &mut Pool) {
        self.port.kick(pool);
    }

    fn unkicked(&self) -> usize {
        self.port.unkicked()
    }

    fn change_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.change_fd()
    }

    fn changed(&mut self) {
        self.port.changed();
    }

    fn unchanged(&mut self) {
        self.port.unchanged();
    }

    fn service_within(&self) -> Option<Duration> {
        self.port.service_within()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.port.close(pool);
        self.show();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use frame::{Arena, ArenaConfig};
    use port::memory::{Memory, Wire};

    #[test]
    fn a_look_is_fresh_once_the_worker_has_turned() {
        let arena = Arena::new(ArenaConfig { slots: 16, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 16);
        let wire = Wire::default();
        let (mut port, glass) = Watched::new(Box::new(Memory::new("n3", [2; 6], &wire)));
        wire.send([0; 60]);
        let mut batch = Batch::new();
        assert_eq!(port.rx_burst(&mut pool, &mut batch), 1);
        assert_eq!(glass.look().counters.rx_packets, 0, "nobody asked");
        glass.ask();
        port.service(&mut pool);
        let seen = glass.look();
        assert_eq!((seen.counters.rx_packets, seen.caps.name.as_str()), (1, "n3"));
        glass.ask();
        assert_eq!(glass.look().counters.rx_packets, 1, "a worker that stands still is not waited for without end");
        pool.give_all(&mut batch);
    }
}
