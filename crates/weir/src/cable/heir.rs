//! The standby: it listens to the active gateway, and says when it is time to go on for it.

use std::io::{BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use cmts::standby::{Book, Estate, Legacy};

use super::message::{self, Message};

/// What the active has told so far.
#[derive(Default)]
struct Told {
    book: Option<Book>,
    legacies: Vec<Legacy>,
    at: Option<Instant>,
}

/// Waits until the active gateway at `path` hands over, dies, or says nothing for `silence`; none: told to stop before.
/// The sentence says which.
///
/// # Errors
/// The active has another configuration than `config`, or is of another version.
pub fn wait(
    path: &Path,
    config: &str,
    interval: Duration,
    silence: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<Option<(Estate, String)>> {
    while !stop.load(Ordering::Relaxed) {
        let Ok(stream) = UnixStream::connect(path) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        eprintln!("standing by for the active gateway at {}", path.display());
        stream.set_read_timeout(Some(silence))?;
        let (mut stream, mut told) = (BufReader::new(stream), Told::default());
        while !stop.load(Ordering::Relaxed) {
            let why = match message::read(&mut stream) {
                Ok(Message::Config(text)) if text != config => {
                    bail!("the active gateway at {} has another configuration", path.display());
                }
                Ok(Message::End) => return Ok(told.estate(None).map(|estate| (estate, "handed over".to_owned()))),
                Ok(message) => {
                    told.take(message);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::InvalidData => bail!(error),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    format!("silent for {} ms", silence.as_millis())
                }
                Err(_) => "dead".to_owned(),
            };
            // What was told last was true a little before it came here.
            let since = told.at.map(|at| at.elapsed() + 2 * interval);
            match since.and_then(|since| told.estate(Some(since.as_nanos() as u64))) {
                Some(estate) => return Ok(Some((estate, why))),
                // It went before it had told what is needed: another may come.
                None => break,
            }
        }
    }
    Ok(None)
}

impl Told {
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
            Message::Config(_) | Message::End => {}
        }
    }

    fn estate(self, silent_ns: Option<u64>) -> Option<Estate> {
        Some(Estate { book: self.book?, legacies: self.legacies, silent_ns })
    }
}
