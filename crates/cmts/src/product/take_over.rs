//! The standby: it imports the state of the active gateway, and decides when to take over.

use std::io::{self, BufReader, ErrorKind};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::standby::{ExportedState, HaState, WorkerExport};
use anyhow::{Context, bail};

use super::fence::Fence;
use super::message::{self, Message};
use gateway::pulse::{self, Doing, Pulse};

/// What the active gateway has sent so far.
#[derive(Default)]
struct Told {
    book: Option<ExportedState>,
    exports: Vec<WorkerExport>,
    /// When numbers stood so, at the earliest.
    at: Option<u64>,
    /// Ends the process that sent it; none: it is not reachable from here.
    fence: Option<Fence>,
}

/// How a connection to the active came to its end.
enum Ended {
    HandedOver,
    /// The connection is gone, and maybe its process.
    HungUp,
    /// It lives no more, or as good as; a sentence.
    Dead(String),
    /// This process is to stop.
    Stopped,
}

/// Time for a process whose connection is gone to be gone, too.
const GOING: Duration = Duration::from_millis(100);

/// Waits until the active gateway at `path` hands over, dies, or gives no sign of life for `silence` though it could
/// ([`Pulse`]); none: told to stop before. The sentence says which. One that did not hand over is ended before this
/// returns: nobody speaks beside us.
///
/// # Errors
/// The active has another configuration than `config`, is of another version, or hangs and is not ours to end.
pub fn wait(
    path: &Path,
    config: &str,
    interval: Duration,
    silence: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<Option<(HaState, String)>> {
    let mut told = Told::default();
    // Since when the active that has told something is out of reach.
    let mut lost: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        let stream = UnixStream::connect(path);
        // Only a process that ends lets go of it.
        let gone = stream.is_err();
        let why = match stream {
            Err(_) => {
                std::thread::sleep(pulse::STEP);
                lost.filter(|at| told.is_dead() || at.elapsed() >= silence).map(|_| "out of reach".to_owned())
            }
            Ok(stream) => match listen(stream, path, config, (interval, silence), stop, &mut told)? {
                Ended::Stopped => break,
                Ended::HandedOver => {
                    let ha_state = std::mem::take(&mut told).ha_state(None);
                    return Ok(ha_state.map(|ha_state| (ha_state, "handed over".to_owned())));
                }
                Ended::Dead(why) => Some(why),
                Ended::HungUp => {
                    lost = Some(Instant::now());
                    // One that lives and has hung up takes us again.
                    told.fence.as_ref().is_some_and(|fence| fence.ends_within(GOING)).then(|| "dead".to_owned())
                }
            },
        };
        let (Some(why), Some(at), true) = (why, told.at, told.book.is_some()) else { continue };
        let why = if told.is_dead() { "dead".to_owned() } else { why };
        match &told.fence {
            Some(fence) => fence.end().with_context(|| format!("the active gateway is {why}, and cannot be ended"))?,
            None if gone => {}
            // It may come back, and cannot be prevented from it.
            None => continue,
        }
        // It may have gone on until now.
        let silent = message::monotonic().saturating_sub(at);
        let ha_state = std::mem::take(&mut told).ha_state(Some(silent));
        return Ok(ha_state.map(|ha_state| (ha_state, why)));
    }
    Ok(None)
}

/// Messages that are read ahead of their turn.
const AHEAD: usize = 16;

/// Listens to the active as long as it lives.
fn listen(
    stream: UnixStream,
    path: &Path,
    config: &str,
    (interval, silence): (Duration, Duration),
    stop: &AtomicBool,
    told: &mut Told,
) -> anyhow::Result<Ended> {
    // Read apart: the active is looked at every step, also in the middle of a message.
    let (say, said) = mpsc::sync_channel(AHEAD);
    let mut from = BufReader::new(stream.try_clone()?);
    let reader = std::thread::spawn(move || {
        loop {
            let message = message::read(&mut from);
            let is_last = message.is_err();
            if say.send(message).is_err() || is_last {
                break;
            }
        }
    });
    let ended = hear(&said, path, config, (interval, silence), stop, told);
    drop(said);
    let _ = stream.shutdown(Shutdown::Both);
    let _ = reader.join();
    ended
}

fn hear(
    said: &Receiver<io::Result<Message>>,
    path: &Path,
    config: &str,
    (interval, silence): (Duration, Duration),
    stop: &AtomicBool,
    told: &mut Told,
) -> anyhow::Result<Ended> {
    let mut pulse: Option<Pulse> = None;
    let mut step = Instant::now() + pulse::STEP;
    while !stop.load(Ordering::Relaxed) {
        match said.recv_timeout(step.saturating_duration_since(Instant::now())) {
            Ok(Ok(Message::Config(text))) if text != config => {
                bail!("the active gateway at {} has another configuration", path.display());
            }
            Ok(Ok(Message::End)) => return Ok(Ended::HandedOver),
            Ok(Ok(Message::Process(speaker))) => {
                told.begin(Fence::of(speaker.pid, &speaker.namespace), path);
                let watch = |_: &Fence| Pulse::new(speaker.teller, &speaker.workers, interval, silence);
                pulse = told.fence.as_ref().map(watch);
            }
            Ok(Ok(Message::Leaving)) => {
                // From here on its first thread does all, and waits for workers that end.
                let watch = |fence: &Fence| Pulse::new(fence.pid().as_raw_pid(), &[], interval, 4 * silence);
                pulse = told.fence.as_ref().map(watch);
            }
            Ok(Ok(Message::Turns(all))) => pulse.iter_mut().for_each(|pulse| pulse.turns(&all)),
            Ok(Ok(message)) => told.take(message),
            Ok(Err(error)) if error.kind() == ErrorKind::InvalidData => bail!(error),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Ok(Ended::HungUp),
            Err(RecvTimeoutError::Timeout) => {
                step = Instant::now() + pulse::STEP;
                let (Some(pulse), Some(fence)) = (&mut pulse, &told.fence) else { continue };
                if let Some(why) = pulse.step(|thread| Doing::of(fence.pid(), thread)) {
                    return Ok(Ended::Dead(why));
                }
                continue;
            }
        }
        pulse.iter_mut().for_each(Pulse::heard);
    }
    Ok(Ended::Stopped)
}

impl Told {
    /// Somebody begins to tell. What another process sent before is discarded.
    fn begin(&mut self, fence: std::io::Result<Fence>, path: &Path) {
        tracing::info!(
            target: "standby", event = "standing_by", socket = %path.display(),
            "standing by for the active gateway at {}", path.display()
        );
        match fence {
            Ok(fence) => {
                let same = self.fence.as_ref().is_some_and(|known| known.pid() == fence.pid() && !self.is_dead());
                *self = if same { std::mem::take(self) } else { Self::default() };
                self.fence = Some(fence);
            }
            Err(error) => {
                tracing::warn!(
                    target: "standby", event = "fence_impossible", %error,
                    "the active gateway cannot be ended from here (another PID namespace): if it hangs, this standby waits"
                );
                *self = Self::default();
            }
        }
    }

    fn is_dead(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| fence.ends_within(Duration::ZERO))
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::ExportedState(book) => self.book = Some(book),
            Message::Sequences(at, all) => {
                self.exports.resize_with(all.len(), WorkerExport::default);
                self.exports.iter_mut().zip(all).for_each(|(export, sequences)| export.sequences = sequences);
                self.at = Some(at);
            }
            Message::Waiting(worker, waiting) => {
                if let Some(export) = self.exports.get_mut(usize::from(worker)) {
                    export.waiting.push(waiting);
                }
            }
            Message::UnderWay(worker, all) => {
                if let Some(export) = self.exports.get_mut(usize::from(worker)) {
                    export.under_way = all;
                }
            }
            // The others are no news of what is to be gone on with.
            _ => {}
        }
    }

    fn ha_state(self, silent_ns: Option<u64>) -> Option<HaState> {
        Some(HaState { book: self.book?, exports: self.exports, silent_ns })
    }
}
