//! The active gateway's side of a standby: HA state is exported to it, again and again.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::standby::{ExportedState, Sequences, WorkerExport};
use rustix::event::{PollFd, PollFlags, poll};
use table::waker::Waker;

use super::fence;
use super::message::{self, Message, Speaker};
use super::observer::Observer;
use gateway::shell::Product;
use gateway::socket::{Place, ServerError, bind};

/// Tells a standby, one at a time, until stopped.
pub struct Teller {
    /// Where it connects to; the socket goes with this.
    place: Place,
    stop: Arc<AtomicBool>,
    /// Ends its wait for a standby.
    waker: Waker,
    thread: JoinHandle<Option<UnixStream>>,
}

/// Between two tries to take a connection.
const PAUSE: Duration = Duration::from_millis(1);
/// A standby that takes nothing for so long is none.
const PATIENCE: Duration = Duration::from_secs(2);

impl Teller {
    /// Waits for standbys at a path. `config` is what they must have too; state is exported every `interval`.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(
        path: &Path,
        observer: Arc<Observer>,
        config: String,
        interval: Duration,
    ) -> Result<Self, ServerError> {
        let system = |source| ServerError::System { path: path.to_owned(), source };
        let (listener, place) = bind(path)?;
        listener.set_nonblocking(true).map_err(system)?;
        let (stop, waker) = (Arc::new(AtomicBool::new(false)), Waker::new().map_err(system)?);
        let (told, woken) = (stop.clone(), waker.clone());
        let turn = move || {
            while !told.load(Ordering::Acquire) {
                let Ok((mut stream, _)) = listener.accept() else {
                    let mut fds =
                        [PollFd::new(&listener, PollFlags::IN), PollFd::from_borrowed_fd(woken.fd(), PollFlags::IN)];
                    // Accepting fails without a connection, or for want of descriptors: not worth a busy loop.
                    if !poll(&mut fds, None).is_ok_and(|_| fds[0].revents().is_empty()) {
                        std::thread::sleep(PAUSE);
                    }
                    continue;
                };
                let begun = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
                observer.standby_connected.store(true, Ordering::Relaxed);
                tracing::info!(target: "standby", event = "standby_connected", "a standby has connected");
                match begun.and_then(|()| tell(&mut stream, &observer, &config, interval, &told)) {
                    Ok(()) => return Some(stream),
                    Err(error) => standby_lost(&error),
                }
                observer.standby_connected.store(false, Ordering::Relaxed);
            }
            None
        };
        let thread = std::thread::Builder::new().name("weir-standby".into()).spawn(turn).map_err(system)?;
        Ok(Self { place, stop, waker, thread })
    }

    /// Stops; the standby that is there, to hand over to.
    pub fn stop(self) -> Option<UnixStream> {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        let standby = self.thread.join().ok().flatten();
        drop(self.place);
        standby
    }
}

/// Reports that the standby does not listen any more.
pub fn standby_lost(error: &io::Error) {
    tracing::warn!(target: "standby", event = "standby_lost", %error, "the standby is gone: no process would take over");
}

/// Tells a standby until it is time to stop. That we live it hears whatever control or workers do meanwhile.
fn tell(
    stream: &mut UnixStream,
    observer: &Observer,
    config: &str,
    interval: Duration,
    stop: &AtomicBool,
) -> io::Result<()> {
    message::write(stream, &Message::Config(config.to_owned()))?;
    let (pid, namespace) = fence::ourselves();
    let teller = rustix::thread::gettid().as_raw_pid();
    let workers = loop {
        match observer.shell().threads() {
            Some(workers) => break workers,
            None if stop.load(Ordering::Acquire) => return Ok(()),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    message::write(stream, &Message::Process(Speaker { pid, namespace, teller, workers }))?;
    let (mut edition, mut asked) = (None, None);
    while !stop.load(Ordering::Acquire) {
        let begin = Instant::now();
        message::write(stream, &Message::Turns(observer.shell().turns()))?;
        while let left = interval.saturating_sub(begin.elapsed())
            && !left.is_zero()
        {
            if let Some((at, sequences)) = sequences(observer, &mut asked) {
                // Numbers first: a service flow that is in the numbers and not in the book costs nothing.
                if let Some(book) = book(observer, &mut edition) {
                    message::write(stream, &Message::ExportedState(book))?;
                }
                message::write(stream, &Message::Sequences(at, sequences))?;
                std::thread::sleep(interval.saturating_sub(begin.elapsed()));
                break;
            }
            std::thread::sleep(left.min(Duration::from_micros(200)));
        }
    }
    message::write(stream, &Message::Leaving)
}

/// Where numbers stood when they were `asked`, once all workers have answered: in their next turn.
fn sequences(observer: &Observer, asked: &mut Option<u64>) -> Option<(u64, Vec<Sequences>)> {
    // Control may have much to do: then there are no news.
    let mut control = observer.try_control()?;
    let Some(at) = *asked else {
        *asked = Some(message::monotonic());
        control.ask_sequences();
        return None;
    };
    control.poll(observer.shell().now_ns());
    let all = control.sequences()?.into_iter().cloned().collect();
    *asked = None;
    Some((at, all))
}

/// The book, if it has changed since `edition`.
fn book(observer: &Observer, edition: &mut Option<u64>) -> Option<ExportedState> {
    let control = observer.control();
    let now = Some(control.edition());
    (std::mem::replace(edition, now) != now).then(|| control.book())
}

/// Hands everything over to the standby; the workers stand still. Returns how many frames waited.
///
/// # Errors
/// The standby is gone.
pub fn hand_over(mut standby: UnixStream, book: ExportedState, exports: Vec<WorkerExport>) -> io::Result<usize> {
    let mut out = io::BufWriter::new(&mut standby);
    message::write(&mut out, &Message::ExportedState(book))?;
    let sequences = exports.iter().map(|export| export.sequences.clone()).collect();
    message::write(&mut out, &Message::Sequences(message::monotonic(), sequences))?;
    let mut frames = 0;
    for (worker, export) in (0..).zip(exports) {
        for waiting in export.waiting {
            message::write(&mut out, &Message::Waiting(worker, waiting))?;
            frames += 1;
        }
        message::write(&mut out, &Message::UnderWay(worker, export.under_way))?;
    }
    message::write(&mut out, &Message::End)?;
    io::Write::flush(&mut out)?;
    Ok(frames)
}
