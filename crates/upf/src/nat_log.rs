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
use std::time::{SystemTime, UNIX_EPOCH};

use ledger::Moment;
use stages::nat::{BlockEvent, Ended};
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
    counters: BlockCounters,
}

/// Lines written at a time.
const AT_ONCE: usize = 1024;

impl NatLog {
    /// A log of those workers into a file, which is appended to; none: events are only counted.
    ///
    /// # Errors
    /// When the file can not be opened.
    pub fn new(rings: Vec<Consumer<BlockEvent>>, instances: Vec<String>, file: Option<&Path>) -> io::Result<Self> {
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { rings, instances, file: file.map(open).transpose()?, ..Self::default() })
    }

    /// What has been logged.
    pub fn counters(&self) -> BlockCounters {
        self.counters
    }

    /// Writes what workers tell; `now` is their clock.
    pub fn poll(&mut self, now: u64) {
        if self.lines.is_empty() {
            self.collect(now);
        }
        if self.lines.is_empty() {
            return;
        }
        match self.file.as_mut().map_or(Ok(()), |file| file.write_all(self.lines.as_bytes())) {
            Ok(()) => self.lines.clear(),
            Err(_) => self.counters.failed += 1,
        }
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
    fn no_event_is_lost_when_the_file_can_not_be_written() {
        let (mut worker, end) = ring(8);
        // Every write to it fails: the device is full.
        let mut log = NatLog::new(vec![end], vec![], Some(Path::new("/dev/full"))).expect("a device");
        worker.push(event(5, None)).expect("room");
        log.poll(10);
        worker.push(event(6, Some(Ended::Idle))).expect("room");
        log.poll(20);
        assert_eq!(log.counters(), BlockCounters { given: 1, ended: 0, failed: 2 });
        log.file = None;
        log.poll(30);
        log.poll(40);
        assert_eq!(log.counters(), BlockCounters { given: 1, ended: 1, failed: 2 });
    }
}
