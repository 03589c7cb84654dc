//! The standby: it listens to the active gateway, and says when it is time to go on for it.

use std::io::{BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use cmts::standby::{Book, Estate, Legacy};

use super::fence::Fence;
use super::message::{self, Message};

/// What the active has told so far.
#[derive(Default)]
struct Told {
    book: Option<Book>,
    legacies: Vec<Legacy>,
    at: Option<Instant>,
    /// Ends whoever told it; none: it can not be ended from here.
    fence: Option<Fence>,
}

/// How a connection to the active came to its end.
enum Ended {
    HandedOver,
    /// The connection is gone, and maybe its process.
    HungUp,
    Silent,
    /// We are told to stop.
    Stopped,
}

/// Time for a process whose connection is gone to be gone, too.
const GOING: Duration = Duration::from_millis(100);

/// Waits until the active gateway at `path` hands over, dies, or says nothing for `silence`; none: told to stop before.
/// The sentence says which. One that did not hand over is ended before this returns: nobody speaks beside us.
///
/// # Errors
/// The active has another configuration than `config`, is of another version, or hangs and is not ours to end.
pub fn wait(
    path: &Path,
    config: &str,
    interval: Duration,
    silence: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<Option<(Estate, String)>> {
    let mut told = Told::default();
    // Since when the active that has told something is out of reach.
    let mut lost: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        let stream = UnixStream::connect(path);
        // Only a process that ends lets go of it.
        let gone = stream.is_err();
        let why = match stream {
            Err(_) => {
                std::thread::sleep(Duration::from_millis(20));
                lost.filter(|at| told.is_dead() || at.elapsed() >= silence).map(|_| "out of reach".to_owned())
            }
            Ok(stream) => match listen(stream, path, config, silence, stop, &mut told)? {
                Ended::Stopped => break,
                Ended::HandedOver => {
                    let estate = std::mem::take(&mut told).estate(None);
                    return Ok(estate.map(|estate| (estate, "handed over".to_owned())));
                }
                Ended::Silent => Some(format!("silent for {} ms", silence.as_millis())),
                Ended::HungUp => {
                    lost = Some(Instant::now());
                    // One that lives and has hung up takes us again.
                    told.fence.as_ref().is_some_and(|fence| fence.ends_within(GOING)).then(|| "dead".to_owned())
                }
            },
        };
        // What was told last was true a little before it came here.
        let since = told.at.map(|at| at.elapsed() + 2 * interval);
        let (Some(why), Some(since), true) = (why, since, told.book.is_some()) else { continue };
        let why = if told.is_dead() { "dead".to_owned() } else { why };
        match &told.fence {
            Some(fence) => fence.end().with_context(|| format!("the active gateway is {why}, and can not be ended"))?,
            None if gone => {}
            // It may come back, and can not be kept from it.
            None => continue,
        }
        let estate = std::mem::take(&mut told).estate(Some(since.as_nanos() as u64));
        return Ok(estate.map(|estate| (estate, why)));
    }
    Ok(None)
}

/// Listens to the active as long as it speaks.
fn listen(
    stream: UnixStream,
    path: &Path,
    config: &str,
    silence: Duration,
    stop: &AtomicBool,
    told: &mut Told,
) -> anyhow::Result<Ended> {
    stream.set_read_timeout(Some(silence))?;
    let mut stream = BufReader::new(stream);
    while !stop.load(Ordering::Relaxed) {
        match message::read(&mut stream) {
            Ok(Message::Config(text)) if text != config => {
                bail!("the active gateway at {} has another configuration", path.display());
            }
            Ok(Message::End) => return Ok(Ended::HandedOver),
            Ok(Message::Process(pid, namespace)) => told.begin(Fence::of(pid, &namespace), path),
            Ok(message) => told.take(message),
            Err(error) if error.kind() == ErrorKind::InvalidData => bail!(error),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(Ended::Silent);
            }
            Err(_) => return Ok(Ended::HungUp),
        }
    }
    Ok(Ended::Stopped)
}

impl Told {
    /// Somebody begins to tell. What another process told before is worth nothing any more.
    fn begin(&mut self, fence: std::io::Result<Fence>, path: &Path) {
        eprintln!("standing by for the active gateway at {}", path.display());
        match fence {
            Ok(fence) => {
                let same = self.fence.as_ref().is_some_and(|known| known.pid() == fence.pid() && !self.is_dead());
                *self = if same { std::mem::take(self) } else { Self::default() };
                self.fence = Some(fence);
            }
            Err(error) => {
                eprintln!("the active gateway can not be ended from here ({error}): one that hangs is waited for");
                *self = Self::default();
            }
        }
    }

    fn is_dead(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| fence.ends_within(Duration::ZERO))
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Book(book) => self.book = Some(book),
            Message::Sequences(all) => {
                self.legacies.resize_with(all.len(), Legacy::default);
                self.legacies.iter_mut().zip(all).for_each(|(legacy, sequences)| legacy.sequences = sequences);
                self.at = Some(Instant::now());
            }
            Message::Waiting(worker, waiting) => {
                if let Some(legacy) = self.legacies.get_mut(usize::from(worker)) {
                    legacy.waiting.push(waiting);
                }
            }
            Message::UnderWay(worker, all) => {
                if let Some(legacy) = self.legacies.get_mut(usize::from(worker)) {
                    legacy.under_way = all;
                }
            }
            Message::Config(_) | Message::Process(..) | Message::End => {}
        }
    }

    fn estate(self, silent_ns: Option<u64>) -> Option<Estate> {
        Some(Estate { book: self.book?, legacies: self.legacies, silent_ns })
    }
}
