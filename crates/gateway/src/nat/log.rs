//! The log of NAT blocks: who had which public ports, and when.
//!
//! ```text
//! 2026-11-22T00:08:24.000Z core given 10.60.0.1 203.0.113.1 1024-1535
//! 2026-11-22T00:14:03.120Z core ended 10.60.0.1 203.0.113.1 1024-1535 idle
//! ```

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dataplane::nat::{BlockEvent, Ended};
use ledger::Moment;
use table::ring::Consumer;

/// What has been logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounters {
    /// Blocks given to subscribers.
    pub given: u64,
    /// Blocks that ended.
    pub ended: u64,
    /// Times the file could not be written. What was to be written is kept; rings fill up behind it, and no more blocks
    /// are given out until it can.
    pub failed: u64,
    /// Times the disk did not take what was written (`fdatasync` failed): lines since the sync before may be lost.
    pub unsynced: u64,
}

/// The log, control's: the other ends of the workers' rings.
#[derive(Default)]
pub struct NatLog {
    rings: Vec<Consumer<BlockEvent>>,
    /// Network instances by number.
    instances: Vec<String>,
    file: Option<File>,
    /// Lines not yet written.
    lines: String,
    /// The last write failed.
    is_failing: bool,
    counters: BlockCounters,
    /// Syncs the file.
    syncer: Option<Syncer>,
}

/// Lines written at a time.
const AT_ONCE: usize = 1024;

impl NatLog {
    /// A log of those workers into a file, which is appended to; none: events are only counted. What is written is on the
    /// disk `interval` later at most, if the disk does its part.
    ///
    /// # Errors
    /// The file is not opened, or no thread is started that syncs it.
    pub fn new(
        rings: Vec<Consumer<BlockEvent>>,
        instances: Vec<String>,
        file: Option<&Path>,
        interval: Duration,
    ) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        let file = file.map(open).transpose()?;
        let syncer = file.as_ref().map(|file| {
            let file = file.try_clone()?;
            Syncer::start(interval, move || match file.sync_data() {
                // A pipe or a device has no disk behind it.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
                done => done,
            })
        });
        Ok(Self { rings, instances, file, syncer: syncer.transpose()?, ..Self::default() })
    }

    /// What has been logged.
    pub fn counters(&self) -> BlockCounters {
        let unsynced = self.syncer.as_ref().map_or(0, |syncer| syncer.shared.state().failed);
        BlockCounters { unsynced, ..self.counters }
    }

    /// Whether workers have told something since the last [`poll`](Self::poll).
    pub fn has_news(&mut self) -> bool {
        self.rings.iter_mut().any(|ring| !ring.is_empty()) && !self.has_failed()
    }

    /// Whether lines could not be written: they are tried again with the next [`poll`](Self::poll).
    pub fn has_failed(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Writes what workers tell; `now` is their clock. Whether there was something.
    pub fn poll(&mut self, now: u64) -> bool {
        if self.lines.is_empty() {
            self.collect(now);
        }
        if self.lines.is_empty() {
            return false;
        }
        match self.file.as_mut().map_or(Ok(()), |file| file.write_all(self.lines.as_bytes())) {
            Ok(()) => {
                self.lines.clear();
                if let Some(syncer) = &self.syncer {
                    syncer.written();
                }
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(target: "nat", event = "nat_log_written", "the NAT log can be written again");
                }
            }
            Err(error) => {
                self.counters.failed += 1;
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(
                        target: "nat", event = "nat_log_failed", %error,
                        "the NAT log cannot be written: no new blocks are allocated until it can"
                    );
                }
            }
        }
        true
    }

    /// Writes all that workers, which stand still, have told. False: it cannot be written.
    pub fn write(&mut self, now: u64) -> bool {
        while self.poll(now) && !self.has_failed() {}
        !self.has_failed()
    }

    /// Ends the log: what was written is on the disk when this returns.
    pub fn close(&mut self) {
        *self = Self::default();
    }

    fn collect(&mut self, now: u64) {
        let Self { rings, instances, lines, counters, .. } = self;
        let mut wall = None;
        for ring in rings {
            for _ in 0..AT_ONCE {
                let Some(event) = ring.pop() else { break };
                match event.ended {
                    None => counters.given += 1,
                    Some(_) => counters.ended += 1,
                }
                // When now is, in nanoseconds since 1970.
                let wall = *wall.get_or_insert_with(|| {
                    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
                });
                let at = wall.saturating_sub(now.saturating_sub(event.at));
                write(lines, &event, at, instances);
            }
        }
    }
}

/// Has what was written reach the disk, on a thread of its own: a slow disk delays nobody else.
struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<SyncState>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct SyncState {
    /// Since when something written is not synced.
    since: Option<Instant>,
    failed: u64,
    ending: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn run(&self, interval: Duration, mut sync: impl FnMut() -> io::Result<()>) {
        loop {
            let mut state = self.state();
            loop {
                let left = state.since.map(|since| interval.saturating_sub(since.elapsed()));
                state = match left {
                    Some(left) if left.is_zero() || state.ending => break,
                    Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0,
                    None if state.ending => return,
                    None => self.changed.wait(state).unwrap_or_else(|e| e.into_inner()),
                };
            }
            // What is written from here on may be missed by this sync.
            state.since = None;
            drop(state);
            if let Err(error) = sync() {
                tracing::error!(target: "nat", event = "nat_log_sync_failed", %error, "NAT log not synced");
                self.state().failed += 1;
            }
        }
    }
}

impl Syncer {
    fn start(interval: Duration, sync: impl FnMut() -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let run = shared.clone();
        let thread = std::thread::Builder::new().name("weir-nat-log".into()).spawn(move || run.run(interval, sync))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Something was written.
    fn written(&self) {
        let mut state = self.shared.state();
        if state.since.is_none() {
            state.since = Some(Instant::now());
            drop(state);
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Syncer {
    /// Syncs what is not synced yet.
    fn drop(&mut self) {
        self.shared.state().ending = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Adds an event's line; `at` in nanoseconds since 1970.
fn write(lines: &mut String, event: &BlockEvent, at: u64, instances: &[String]) {
    let BlockEvent { instance, private, public, first_port, last_port, ended, .. } = event;
    let time = Moment(at / 1_000_000);
    let instance = instances.get(usize::from(*instance)).map_or("?", String::as_str);
    let (what, why) = match ended {
        None => ("given", ""),
        Some(Ended::Idle) => ("ended", " idle"),
        Some(Ended::Session) => ("ended", " session"),
    };
    // A string takes everything.
    let _ = writeln!(lines, "{time} {instance} {what} {private} {public} {first_port}-{last_port}{why}");
}

#[cfg(test)]
mod tests {
    use table::ring::ring;

    use super::*;

    fn event(at: u64, ended: Option<Ended>) -> BlockEvent {
        let (private, public) = ([10, 60, 0, 1].into(), [203, 0, 113, 1].into());
        BlockEvent { at, instance: 1, private, public, first_port: 1024, last_port: 1535, ended }
    }

    #[test]
    fn a_line_for_each_block_given_and_ended() {
        let names = ["access".to_owned(), "core".to_owned()];
        let mut lines = String::new();
        write(&mut lines, &event(0, None), 1_700_000_000_120_000_000, &names);
        write(&mut lines, &event(0, Some(Ended::Session)), 1_700_000_001_000_000_000, &names);
        assert_eq!(
            lines,
            "2023-11-14T22:13:20.120Z core given 10.60.0.1 203.0.113.1 1024-1535\n\
             2023-11-14T22:13:21.000Z core ended 10.60.0.1 203.0.113.1 1024-1535 session\n"
        );
    }

    #[test]
    fn what_is_written_is_synced_within_the_interval() {
        const INTERVAL: Duration = Duration::from_millis(30);
        let (report, synced) = std::sync::mpsc::channel();
        let syncer = Syncer::start(INTERVAL, move || report.send(Instant::now()).map_err(io::Error::other)).unwrap();
        for _ in 0..3 {
            let began = Instant::now();
            // Many lines, one sync.
            (0..100).for_each(|_| syncer.written());
            let at = synced.recv().expect("a sync");
            assert!(at - began >= INTERVAL, "{:?}", at - began);
            assert!(synced.try_recv().is_err());
        }
        syncer.written();
        drop(syncer);
        assert_eq!(synced.iter().count(), 1, "what is left is synced at the end");
    }

    #[test]
    fn a_sync_that_fails_is_counted() {
        let syncer = Syncer::start(Duration::ZERO, || Err(io::Error::other("no disk"))).unwrap();
        let shared = syncer.shared.clone();
        syncer.written();
        drop(syncer);
        assert_eq!(shared.state().failed, 1);
    }

    #[test]
    fn no_event_is_lost_when_the_file_can_not_be_written() {
        let (mut worker, end) = ring(8);
        // Every write to it fails: the device is full.
        let mut log = NatLog::new(vec![end], vec![], Some(Path::new("/dev/full")), Duration::ZERO).expect("a device");
        worker.push(event(5, None)).expect("room");
        log.poll(10);
        worker.push(event(6, Some(Ended::Idle))).expect("room");
        log.poll(20);
        assert_eq!(log.counters(), BlockCounters { given: 1, ended: 0, failed: 2, unsynced: 0 });
        log.file = None;
        log.poll(30);
        log.poll(40);
        assert_eq!(log.counters(), BlockCounters { given: 1, ended: 1, failed: 2, unsynced: 0 });
    }
}
