//! Reading the counters of a port that a worker owns, without disturbing the worker.
//!
//! A reader sets a flag; the worker's next [`Port::service`] copies the port's counters to where the reader finds them and
//! clears the flag. While nobody reads it costs one relaxed load a turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use frame::{Batch, Caps, Pool, Port, PortCounters, PortHandover, flags};
use port::logical::Share;
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

/// The reading side.
#[derive(Clone)]
pub struct PortStatsReader {
    stats: Arc<PortStats>,
    /// Of a port that shares a device: that device's, and what the configuration calls its port.
    device: Option<(Arc<PortStats>, Arc<str>)>,
}

struct PortStats {
    wanted: AtomicBool,
    /// Whether checksums that were left to another port are to be completed.
    completes: AtomicBool,
    seen: Mutex<Seen>,
    /// Whether the next look is to bring what another process needs, and that.
    hands_over: AtomicBool,
    handed: Mutex<Option<Result<PortHandover, String>>>,
}

/// A port whose counters can be read by another thread.
pub struct ObservedPort {
    port: Box<dyn Port>,
    stats: Arc<PortStats>,
    /// What of its device's packets are other ports'.
    shares: Vec<Arc<Share>>,
    /// Sent with a checksum that was left to another port, and could not be completed.
    unfinished: u64,
}

/// How long a reader waits for the worker's next turn: one that sleeps is woken.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long it waits for what another process needs.
const HANDING: Duration = Duration::from_secs(1);

impl ObservedPort {
    /// The port, and a reader of its counters.
    pub fn new(port: Box<dyn Port>) -> (Self, PortStatsReader) {
        Self::sharing(port, Vec::new())
    }

    /// As [`new`](Self::new), of a port whose device others have a share of.
    pub(super) fn sharing(port: Box<dyn Port>, shares: Vec<Arc<Share>>) -> (Self, PortStatsReader) {
        let (wanted, hands_over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (seen, handed) = (Mutex::default(), Mutex::default());
        let stats = PortStats { wanted, completes: AtomicBool::new(false), seen, hands_over, handed };
        let stats = Arc::new(stats);
        let mut observed = Self { port, stats: stats.clone(), shares, unfinished: 0 };
        observed.show();
        (observed, PortStatsReader { stats, device: None })
    }

    #[cold]
    fn show(&mut self) {
        let mut extras = Vec::new();
        self.extras(&mut |name, value| extras.push((name, value)));
        let (caps, counters, held) = (self.port.caps(), self.counters(), self.port.held());
        *self.stats.lock() = Seen { caps, counters, extras, held };
        if self.stats.hands_over.swap(false, Ordering::Relaxed) {
            *self.stats.handed.lock().unwrap_or_else(|e| e.into_inner()) = Some(self.port.hand_over());
        }
        self.stats.wanted.store(false, Ordering::Release);
    }
}

/// Completes checksums that were left to a port, which this one is not. Returns how many it could not: of those the
/// receiver finds that they are wrong.
fn complete(pool: &Pool, batch: &mut Batch) -> u64 {
    let mut unfinished = 0;
    for frame in batch.frames_mut() {
        if frame.meta.flags & flags::UDP_SUM_LEFT != 0 {
            frame.meta.flags &= !flags::UDP_SUM_LEFT;
            unfinished += u64::from(!port::complete_checksum(pool.arena().bytes_mut(frame)));
        }
    }
    unfinished
}

impl PortStats {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl PortStatsReader {
    /// Of a port that shares that device, which has that name.
    pub(super) fn on(self, device: Option<(&str, &Self)>) -> Self {
        Self { device: device.map(|(name, reader)| (reader.stats.clone(), name.into())), ..self }
    }

    /// Asks for a fresh look.
    pub fn ask(&self) {
        self.stats.wanted.store(true, Ordering::Relaxed);
    }

    /// What was seen last. What can change of a shared device is as that has it.
    fn last(&self) -> Seen {
        let mut seen = self.stats.lock().clone();
        if let Some((device, name)) = &self.device {
            let Caps { link, mac, mtu, .. } = device.lock().caps;
            seen.caps = Caps { link, mac, mtu, detail: format!("on {name}"), ..seen.caps };
        }
        seen
    }

    /// What another process needs to go on with the port; `nudge` has its worker make a turn. None: it made none.
    pub fn hand_over(&self, nudge: impl FnOnce()) -> Option<Result<PortHandover, String>> {
        self.stats.hands_over.store(true, Ordering::Relaxed);
        self.stats.wanted.store(true, Ordering::Release);
        nudge();
        let until = Instant::now() + HANDING;
        loop {
            let handed = self.stats.handed.lock().unwrap_or_else(|e| e.into_inner()).take();
            if handed.is_some() || Instant::now() >= until {
                return handed;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// From now on the port completes checksums that were left to another.
    pub(super) fn complete_checksums(&self) {
        self.stats.completes.store(true, Ordering::Relaxed);
    }

    /// What was seen last. Does not wait.
    pub fn seen(&self) -> Seen {
        self.last()
    }

    /// What there was to see after the last [`PortStatsReader::ask`], waiting a little for it; or the last that was seen, of a
    /// worker that has ended or is busy beyond measure.
    pub fn look(&self) -> Seen {
        let until = Instant::now() + PATIENCE;
        while self.stats.wanted.load(Ordering::Acquire) && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(200));
        }
        self.last()
    }
}

impl Port for ObservedPort {
    #[inline]
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        self.port.rx_burst(pool, out)
    }

    #[inline]
    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        if self.stats.completes.load(Ordering::Relaxed) {
            self.unfinished += complete(pool, batch);
        }
        self.port.tx_burst(pool, batch)
    }

    #[inline]
    fn tx_burst_by(&mut self, device: &mut dyn Port, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.port.tx_burst_by(device, pool, batch)
    }

    #[inline]
    fn count_received(&mut self, packets: u64, bytes: u64) {
        self.port.count_received(packets, bytes);
    }

    #[inline]
    fn service(&mut self, pool: &mut Pool) {
        self.port.service(pool);
        if self.stats.wanted.load(Ordering::Relaxed) {
            self.show();
        }
    }

    fn caps(&self) -> Caps {
        self.port.caps()
    }

    fn counters(&self) -> PortCounters {
        let mut counters = self.port.counters();
        self.shares.iter().for_each(|share| share.take_out_of(&mut counters));
        counters
    }

    fn extras(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.port.extras(tell);
        if self.unfinished > 0 {
            tell("tx_checksum_unfinished", self.unfinished);
        }
    }

    fn held(&self) -> usize {
        self.port.held()
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.wait_fd()
    }

    fn fall_asleep(&mut self) -> bool {
        self.port.fall_asleep()
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

    fn hand_over(&mut self) -> Result<PortHandover, String> {
        self.port.hand_over()
    }

    fn position(&self) -> Vec<u64> {
        self.port.position()
    }

    fn go_on_at(&mut self, position: &[u64]) -> bool {
        self.port.go_on_at(position)
    }

    fn mark_held(&self, slots: &mut [u64]) -> bool {
        self.port.mark_held(slots)
    }

    fn come_back(&mut self, pool: &mut Pool) {
        self.port.come_back(pool);
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
        let (mut port, reader) = ObservedPort::new(Box::new(Memory::new("n3", [2; 6], &wire)));
        wire.send([0; 60]);
        let mut batch = Batch::new();
        assert_eq!(port.rx_burst(&mut pool, &mut batch), 1);
        assert_eq!(reader.look().counters.rx_packets, 0, "nobody asked");
        reader.ask();
        port.service(&mut pool);
        let seen = reader.look();
        assert_eq!((seen.counters.rx_packets, seen.caps.name.as_str()), (1, "n3"));
        reader.ask();
        assert_eq!(reader.look().counters.rx_packets, 1, "a worker that stands still is not waited for without end");
        pool.give_all(&mut batch);
    }
}
