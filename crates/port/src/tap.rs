//! A port whose packets are also written to a capture file: `tap=seen.pcapng` on any port.
//!
//! Packets are copied into chunks of memory that a thread of its own writes out. Nothing on the fast path waits for
//! the disk: when all chunks are on their way, packets pass unrecorded and are counted. A `.pcapng` file also tells
//! received from sent.

use std::fs::File;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use frame::{BURST, Batch, Caps, Pool, Port, PortCounters, PortHandover};

use crate::PortError;
use crate::capture::{self, Direction, Format};

const CHUNKS: usize = 16;
const CHUNK: usize = 256 << 10;
/// A chunk not full is written after this long.
const PATIENCE: Duration = Duration::from_millis(100);

/// A tapped port.
pub struct Tap {
    inner: Box<dyn Port>,
    format: Format,
    chunk: Option<Vec<u8>>,
    /// Packets in the chunk.
    pending: u64,
    since: Instant,
    full: Option<SyncSender<(Vec<u8>, u64)>>,
    empty: Receiver<Vec<u8>>,
    writer: Option<JoinHandle<()>>,
    recorded: u64,
    dropped: u64,
    failed: Arc<AtomicU64>,
}

impl Tap {
    /// Taps a port into a new file. `slot_bytes` is the longest packet there can be.
    ///
    /// # Errors
    /// [`PortError::File`], naming the file.
    pub fn new(inner: Box<dyn Port>, path: &Path, slot_bytes: usize) -> Result<Self, PortError> {
        let system = |source| PortError::File { path: path.to_owned(), source };
        let format = Format::of(path);
        let mut file = File::create(path).map_err(system)?;
        let mut head = Vec::new();
        format.head(&mut head);
        file.write_all(&head).map_err(system)?;
        let (full, to_write) = sync_channel::<(Vec<u8>, u64)>(CHUNKS);
        let (give_back, empty) = sync_channel(CHUNKS);
        // A chunk takes a whole burst beyond its mark, so it never grows.
        let room = CHUNK + BURST * (slot_bytes + Format::OVERHEAD);
        for _ in 1..CHUNKS {
            give_back.send(Vec::with_capacity(room)).expect("the channel has room for all chunks");
        }
        let failed = Arc::new(AtomicU64::new(0));
        let lost = failed.clone();
        let write = move || {
            // It starts before the gateway drops its privileges, and needs none: the file is open.
            let _ = confine::give_up_everything();
            for (mut chunk, packets) in to_write {
                if file.write_all(&chunk).is_err() {
                    lost.fetch_add(packets, Ordering::Relaxed);
                }
                chunk.clear();
                let _ = give_back.send(chunk);
            }
        };
        let writer = std::thread::Builder::new().name("weir-tap".to_owned()).spawn(write).map_err(system)?;
        Ok(Self {
            inner,
            format,
            chunk: Some(Vec::with_capacity(room)),
            pending: 0,
            since: Instant::now(),
            full: Some(full),
            empty,
            writer: Some(writer),
            recorded: 0,
            dropped: 0,
            failed,
        })
    }

    /// A chunk to write to, if one is free.
    fn chunk(&mut self) -> Option<&mut Vec<u8>> {
        if self.chunk.is_none() {
            self.chunk = self.empty.try_recv().ok();
            self.since = Instant::now();
        }
        self.chunk.as_mut()
    }

    /// Counts what the last burst added, and sends the chunk on its way when it is full.
    fn recorded(&mut self, packets: usize) {
        self.pending += packets as u64;
        if self.chunk.as_ref().is_some_and(|chunk| chunk.len() >= CHUNK) {
            self.send();
        }
    }

    fn send(&mut self) {
        let (Some(chunk), Some(full)) = (self.chunk.take(), &self.full) else { return };
        let pending = std::mem::take(&mut self.pending);
        match full.try_send((chunk, pending)) {
            Ok(()) => self.recorded += pending,
            // There are never more chunks than places; only a writer that is no more can refuse.
            Err(TrySendError::Full((mut chunk, _)) | TrySendError::Disconnected((mut chunk, _))) => {
                chunk.clear();
                self.chunk = Some(chunk);
                self.dropped += pending;
            }
        }
    }
}

impl Port for Tap {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let got = self.inner.rx_burst(pool, out);
        if got > 0 {
            let format = self.format;
            match self.chunk() {
                None => self.dropped += got as u64,
                Some(chunk) => {
                    let time = capture::now();
                    for frame in &out.frames()[out.len() - got..] {
                        format.packet(chunk, time, Direction::In, pool.arena().bytes(frame));
                    }
                    self.recorded(got);
                }
            }
        }
        got
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let format = self.format;
        // Accepted frames are gone afterwards: all are recorded first, and what was refused is taken off again.
        let mut ends = [0; BURST];
        let start = self.chunk().map(|chunk| {
            let (start, time) = (chunk.len(), capture::now());
            for (end, frame) in ends.iter_mut().zip(batch.frames()) {
                format.packet(chunk, time, Direction::Out, pool.arena().bytes(frame));
                *end = chunk.len();
            }
            start
        });
        let sent = self.inner.tx_burst(pool, batch);
        match (&mut self.chunk, start) {
            (Some(chunk), Some(start)) => {
                chunk.truncate(sent.checked_sub(1).map_or(start, |last| ends[last]));
                self.recorded(sent);
            }
            _ => self.dropped += sent as u64,
        }
        sent
    }

    fn service(&mut self, pool: &mut Pool) {
        self.inner.service(pool);
        if self.pending > 0 && self.since.elapsed() >= PATIENCE {
            self.send();
        }
    }

    /// Packets are whole when they come here.
    fn caps(&self) -> Caps {
        Caps { completes_udp6: false, ..self.inner.caps() }
    }

    fn counters(&self) -> PortCounters {
        self.inner.counters()
    }

    fn extras(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.inner.extras(tell);
        let failed = self.failed.load(Ordering::Relaxed);
        tell("tap_recorded", (self.recorded + self.pending).saturating_sub(failed));
        tell("tap_dropped", self.dropped + failed);
    }

    fn held(&self) -> usize {
        self.inner.held()
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wait_fd()
    }

    fn fall_asleep(&mut self) -> bool {
        self.inner.fall_asleep()
    }

    fn kick(&mut self, pool: &mut Pool) {
        self.inner.kick(pool);
    }

    fn unkicked(&self) -> usize {
        self.inner.unkicked()
    }

    fn change_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.change_fd()
    }

    fn changed(&mut self) {
        self.inner.changed();
    }

    fn unchanged(&mut self) {
        self.inner.unchanged();
    }

    fn service_within(&self) -> Option<Duration> {
        self.inner.service_within()
    }

    fn hand_over(&mut self) -> Result<PortHandover, String> {
        Err("ports with tap= cannot be handed over".to_owned())
    }

    fn close(&mut self, pool: &mut Pool) {
        self.inner.close(pool);
        self.send();
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.send();
        self.full = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, Wire};
    use frame::{Arena, ArenaConfig};

    fn extras(port: &dyn Port) -> Vec<(&'static str, u64)> {
        let mut list = Vec::new();
        port.extras(&mut |name, value| list.push((name, value)));
        list
    }

    #[test]
    fn what_passes_is_in_the_file_and_what_was_refused_is_not() {
        let path = std::env::temp_dir().join(format!("weir-tap-{}.pcap", std::process::id()));
        let arena = Arena::new(ArenaConfig { slots: 64, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 64);
        let wire = Wire::default();
        let memory = Box::new(Memory::new("m", [2; 6], &wire));
        let mut tap = Tap::new(memory, &path, 2048).unwrap();
        let mut batch = Batch::new();
        (0..4u8).for_each(|n| wire.send([n; 60]));
        assert_eq!(tap.rx_burst(&mut pool, &mut batch), 4);
        wire.limit(Some(3));
        assert_eq!(tap.tx_burst(&mut pool, &mut batch), 3);
        pool.give_all(&mut batch);
        assert_eq!(tap.tx_burst(&mut pool, &mut batch), 0);
        assert_eq!(extras(&tap), [("tap_recorded", 7), ("tap_dropped", 0)]);
        drop(tap);
        let bytes = std::fs::read(&path).unwrap();
        let index = capture::index(&bytes).unwrap();
        let firsts: Vec<u8> = index.packets.iter().map(|(_, at, _)| bytes[*at]).collect();
        assert_eq!((firsts, index.cut), (vec![0, 1, 2, 3, 0, 1, 2], 0));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_disk_that_is_full_is_counted() {
        let arena = Arena::new(ArenaConfig { slots: 64, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 64);
        let wire = Wire::default();
        let memory = || Box::new(Memory::new("m", [2; 6], &wire));
        let full = Path::new("/dev/full");
        assert!(Tap::new(memory(), full, 2048).is_err());
        let path = std::env::temp_dir().join(format!("weir-tap-slow-{}.pcapng", std::process::id()));
        let mut tap = Tap::new(memory(), &path, 2048).unwrap();
        // No chunk is free: the writer has them all and gives none back.
        while tap.empty.recv_timeout(Duration::from_millis(10)).is_ok() {}
        tap.chunk = None;
        let mut batch = Batch::new();
        wire.send([1; 60]);
        assert_eq!(tap.rx_burst(&mut pool, &mut batch), 1);
        assert_eq!(tap.tx_burst(&mut pool, &mut batch), 1);
        assert_eq!(extras(&tap), [("tap_recorded", 0), ("tap_dropped", 2)]);
        drop(tap);
        std::fs::remove_file(path).unwrap();
    }
}
