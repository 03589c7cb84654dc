//! Writing to stderr, in a thread of its own: a pipe whose reader does not read holds nobody up.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use super::record::Record;

/// Lines that wait for stderr; further ones are lost, and counted.
const LINES: usize = 1024;
/// What [`Output::flush`] waits at most.
const FLUSH: Duration = Duration::from_secs(1);
/// Between two looks at kinds of events that are suppressed, while there are some.
const LOOK: Duration = Duration::from_secs(1);

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// JSON instead of logfmt.
    pub json: bool,
    /// The journal reads them: it has its own time stamps, and takes the priority from `<N>` in front (sd-daemon(3)).
    pub journal: bool,
}

impl Style {
    /// As stderr wants it.
    pub(crate) fn of_stderr(json: bool) -> Self {
        let stream = std::env::var("JOURNAL_STREAM").ok();
        Self { json, journal: stream.is_some_and(|stream| is_stream(&io::stderr(), &stream)) }
    }

    /// A record as a line.
    pub fn line(self, record: &Record) -> String {
        let text = match self.json {
            true => record.json(!self.journal),
            false => record.logfmt(!self.journal),
        };
        match self.journal {
            true => format!("<{}>{text}\n", record.level.severity()),
            false => text + "\n",
        }
    }
}

/// Whether a descriptor is the file that `JOURNAL_STREAM` names as `device:inode` (systemd.exec(5)).
pub(crate) fn is_stream(file: &impl AsFd, stream: &str) -> bool {
    let Some((device, inode)) = stream.split_once(':') else { return false };
    let stat = rustix::fs::fstat(file);
    stat.is_ok_and(|stat| device.parse() == Ok(stat.st_dev) && inode.parse() == Ok(stat.st_ino))
}

enum Job {
    Line(String),
    Flush(Sender<()>),
    /// Look at what is suppressed and lost.
    Look,
}

/// The way to stderr.
#[derive(Debug)]
pub struct Output {
    style: Style,
    jobs: SyncSender<Job>,
    shared: Arc<Shared>,
}

/// What the writer finds when it looks.
#[derive(Debug, Default)]
struct Shared {
    /// Lines there was no room for.
    lost: AtomicU64,
    /// The writer looks from time to time, or is about to.
    looks: AtomicBool,
}

impl Output {
    /// Starts the thread that writes.
    ///
    /// # Errors
    /// What the system said.
    pub fn start(style: Style) -> io::Result<Self> {
        Self::to(style, io::stderr())
    }

    /// The same, to somewhere else.
    pub(super) fn to(style: Style, out: impl Write + Send + 'static) -> io::Result<Self> {
        let (jobs, queue) = sync_channel(LINES);
        let shared = Arc::<Shared>::default();
        let told = shared.clone();
        let write = move || {
            // It starts before the others, which have nothing left by then; `Privileges::seal` checks all.
            let _ = confine::give_up_everything();
            write(&queue, &told, out);
        };
        std::thread::Builder::new().name("weir-log".into()).spawn(write)?;
        Ok(Self { style, jobs, shared })
    }

    /// Writes a record, in a moment. Never waits.
    pub fn write(&self, record: &Record) {
        if self.jobs.try_send(Job::Line(self.style.line(record))).is_err() {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            // If there is no room for this either, the writer looks when it comes to what fills the queue.
            let _ = self.jobs.try_send(Job::Look);
        }
    }

    /// An event is suppressed: the writer tells of it when its kind has calmed down.
    pub fn suppressed(&self) {
        if !self.shared.looks.swap(true, Ordering::AcqRel) {
            let _ = self.jobs.try_send(Job::Look);
        }
    }

    /// Waits until all is written, a second at most.
    pub fn flush(&self) {
        let (done, wait) = channel();
        if self.jobs.try_send(Job::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(FLUSH);
        }
    }
}

fn write(queue: &Receiver<Job>, shared: &Shared, mut out: impl Write) {
    let mut looks = false;
    loop {
        let job = match looks {
            true => queue.recv_timeout(LOOK),
            false => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match job {
            // Nobody reads any more: the ring still has them.
            Ok(Job::Line(line)) => drop(out.write_all(line.as_bytes())),
            Ok(Job::Flush(done)) => drop(done.send(())),
            Ok(Job::Look) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let lines = shared.lost.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(
                target: "process", event = "log_lines_lost", lines,
                "stderr did not take these lines in time; `weir show log` has the last thousand events"
            );
        }
        // Before the look: what is suppressed after it is told by another job.
        shared.looks.store(false, Ordering::Release);
        looks = super::calm_down();
        shared.looks.fetch_or(looks, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Level;
    use super::*;
    use std::os::fd::OwnedFd;
    use std::time::Instant;

    fn record(msg: &str) -> Record {
        Record {
            sequence: 1,
            level: Level::Warn,
            msg: msg.to_owned(),
            ..Record::suppressed("x", 1, Default::default())
        }
    }

    #[test]
    fn the_journal_gets_priorities_and_no_time() {
        let line = |json, journal| Style { json, journal }.line(&record("hello"));
        assert!(line(false, false).starts_with("ts=1970-01-01T00:00:00.000Z level=warn target=process event="));
        assert!(line(false, true).starts_with("<4>level=warn target=process event="));
        assert!(line(true, true).starts_with("<4>{\"level\":\"warn\""));
        let (end, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let end = OwnedFd::from(end);
        let stat = rustix::fs::fstat(&end).unwrap();
        assert!(is_stream(&end, &format!("{}:{}", stat.st_dev, stat.st_ino)));
        assert!(!is_stream(&end, &format!("{}:{}", stat.st_dev, stat.st_ino + 1)) && !is_stream(&end, "8"));
    }

    #[test]
    fn a_reader_that_does_not_read_costs_lines_only() {
        struct Stuck(Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (release, stuck) = channel();
        let (jobs, queue) = sync_channel(LINES);
        let output = Output { style: Style { json: false, journal: false }, jobs, shared: Arc::default() };
        let told = output.shared.clone();
        let writer = std::thread::spawn(move || write(&queue, &told, Stuck(stuck)));
        let begin = Instant::now();
        (0..3 * LINES).for_each(|_| output.write(&record("x")));
        assert!(begin.elapsed() < Duration::from_secs(10));
        let lost = output.shared.lost.load(Ordering::Relaxed);
        assert!(lost >= LINES as u64, "{lost}");
        drop((release, output));
        writer.join().unwrap();
    }
}
