//! The asking end.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::protocol::Ask;

/// A connection to a running weir.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    timeout: Duration,
    /// Bytes of an answer whose end has not come yet.
    partial: Vec<u8>,
    /// Questions whose answers have not been read: more than one where an answer was given up.
    pending: u32,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ClientError {
    #[error("nothing answers at {}: is `weir run` running, with that control_socket? ({source})", path.display())]
    NoServer { path: PathBuf, source: std::io::Error },
    #[error("the control socket at {} is of another user: use sudo", path.display())]
    Refused { path: PathBuf },
    #[error("no answer within {seconds} s: the running weir, or its host, is busy or stopped; try again")]
    NoAnswer { seconds: f64 },
    #[error("connection closed by the running weir")]
    Closed,
    #[error("the connection to the running weir failed: {0}")]
    Failed(std::io::Error),
    #[error("the running weir sent an answer of unknown form; are they of different versions? ({0})")]
    Babble(String),
    #[error("{0}")]
    Said(String),
}

/// Answers come within a moment; a session's details wait for a worker.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Client {
    /// Connects to a gateway's control socket.
    ///
    /// # Errors
    /// [`ClientError::NoServer`], [`ClientError::Refused`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path).map_err(|source| match source.kind() {
            ErrorKind::PermissionDenied => ClientError::Refused { path: path.to_owned() },
            _ => ClientError::NoServer { path: path.to_owned(), source },
        })?;
        let client = Self { stream: BufReader::new(stream), timeout: TIMEOUT, partial: Vec::new(), pending: 0 };
        Ok(client.with_timeout(TIMEOUT))
    }

    /// Waits so long for an answer.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        // Where it is not set, waiting has no end.
        let _ = self.stream.get_ref().set_read_timeout(Some(timeout));
        let _ = self.stream.get_ref().set_write_timeout(Some(timeout));
        self.timeout = timeout;
        self
    }

    /// Asks and waits for the answer. After [`ClientError::NoAnswer`] the connection can still be used: the late answer is
    /// read and discarded.
    ///
    /// # Errors
    /// [`ClientError`]; an answer that is an error is [`ClientError::Said`].
    pub fn ask<Q: Ask>(&mut self, request: &Q) -> Result<Q::Answer, ClientError> {
        self.ask_while(request, |_| false)
    }

    /// As [`ask`](Self::ask); each time no answer has come in time, `wait_on` decides whether to go on waiting.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_while<Q: Ask>(
        &mut self,
        request: &Q,
        wait_on: impl FnMut(&ClientError) -> bool,
    ) -> Result<Q::Answer, ClientError> {
        self.ask_any(request, wait_on)
    }

    /// As [`ask_while`](Self::ask_while), of a question whose type is not known: the answer is read as a `T`.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_any<T: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
        mut wait_on: impl FnMut(&ClientError) -> bool,
    ) -> Result<T, ClientError> {
        let mut line = serde_json::to_vec(request).map_err(|e| ClientError::Babble(e.to_string()))?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).map_err(|error| self.failed(error))?;
        self.pending += 1;
        loop {
            match self.line() {
                Ok(line) => {
                    self.pending -= 1;
                    if self.pending == 0 {
                        return read(&line);
                    }
                }
                Err(error @ ClientError::NoAnswer { .. }) if wait_on(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next line, without its end.
    fn line(&mut self) -> Result<Vec<u8>, ClientError> {
        loop {
            match self.stream.read_until(b'\n', &mut self.partial) {
                Ok(_) if self.partial.ends_with(b"\n") => return Ok(std::mem::take(&mut self.partial)),
                Ok(_) => return Err(ClientError::Closed),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn failed(&self, error: std::io::Error) -> ClientError {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ClientError::NoAnswer { seconds: self.timeout.as_secs_f64() }
            }
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => ClientError::Closed,
            _ => ClientError::Failed(error),
        }
    }
}

/// An answer that is none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    error: String,
}

fn read<T: DeserializeOwned>(line: &[u8]) -> Result<T, ClientError> {
    match serde_json::from_slice::<Failure>(line) {
        Ok(Failure { error }) => Err(ClientError::Said(error)),
        Err(_) => serde_json::from_slice(line).map_err(|error| ClientError::Babble(error.to_string())),
    }
}
