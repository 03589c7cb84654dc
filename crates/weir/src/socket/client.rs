//! The asking end.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::protocol::{Reply, Request};

/// A connection to a running weir.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ClientError {
    #[error("nothing answers at {}: is `weir run` running, with that control_socket? ({source})", path.display())]
    NoServer { path: PathBuf, source: std::io::Error },
    #[error("the control socket at {} is of another user: use sudo", path.display())]
    Refused { path: PathBuf },
    #[error("the running weir ended the conversation")]
    Gone,
    #[error("the running weir said what this one does not understand; are they of different versions? ({0})")]
    Babble(String),
    #[error("{0}")]
    Said(String),
}

/// Answers come within a moment; a session's details wait for a worker.
const PATIENCE: Duration = Duration::from_secs(5);

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`ClientError::NoServer`], [`ClientError::Refused`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::PermissionDenied => ClientError::Refused { path: path.to_owned() },
            _ => ClientError::NoServer { path: path.to_owned(), source },
        })?;
        // A timeout that can not be set costs nothing but patience.
        let _ = stream.set_read_timeout(Some(PATIENCE));
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// [`ClientError`]; an answer that is an error is [`ClientError::Said`].
    pub fn ask(&mut self, request: &Request) -> Result<Reply, ClientError> {
        let mut line = serde_json::to_string(request).map_err(|e| ClientError::Babble(e.to_string()))?;
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).map_err(|_| ClientError::Gone)?;
        line.clear();
        match self.stream.read_line(&mut line) {
            Ok(0) | Err(_) => return Err(ClientError::Gone),
            Ok(_) => {}
        }
        match serde_json::from_str(&line) {
            Ok(Reply::Error(sentence)) => Err(ClientError::Said(sentence)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(ClientError::Babble(error.to_string())),
        }
    }
}
