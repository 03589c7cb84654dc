//! The answering end, in its own threads.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::json;

use super::protocol::{RawAnswer, RawRequest};

/// What can answer. Called from the server's threads, several at once.
pub trait Answers: Send + Sync {
    /// Answers a question asked over a connection.
    fn answer(&self, connection: u64, asked: &RawRequest) -> RawAnswer;

    /// Another process asks one of [`STREAMS`], on this connection, which is its from now on.
    fn take_connection(&self, _asked: &RawRequest, _stream: UnixStream) {}

    /// A connection has ended.
    fn hung_up(&self, _connection: u64) {}
}

/// A listening control socket. Stops listening, and takes the socket away, when dropped.
pub struct Server {
    socket: Place,
    listener: UnixListener,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Why there can be no control socket.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ServerError {
    #[error(
        "another weir answers at {}: stop it, or give this one its own control_socket = \"…\" (or --socket)",
        path.display()
    )]
    InUse { path: PathBuf },
    #[error("{} is there and is not a socket; give another control_socket = \"…\" (or --socket)", path.display())]
    NotASocket { path: PathBuf },
    #[error("no control socket at {}: {source}; give another control_socket = \"…\" (or --socket)", path.display())]
    System { path: PathBuf, source: io::Error },
}

/// A socket's path, and which file of that path is ours; taken away when dropped.
pub struct Place {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for Place {
    fn drop(&mut self) {
        // Someone may have put theirs in its place.
        if inode(&self.path).is_ok_and(|now| now == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Connections at once.
const CONNECTIONS: u32 = 32;
/// The question of a process that takes over.
pub const TAKE_OVER: &str = "take_over";
/// Questions of other processes, after which the connection is theirs: also of one that a group comes from, and of its packets.
pub const STREAMS: [&str; 3] = [TAKE_OVER, "group_comes", "group_packets"];
/// Bytes of a question.
const LONGEST: u64 = 16_384;
/// A connection without a question for so long is ended.
const IDLE: Duration = Duration::from_secs(600);

impl Server {
    /// Listens at a path, for the owner only. What a weir that is no more left there is cleared away.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(path: &Path, answers: Arc<dyn Answers>) -> Result<Self, ServerError> {
        Self::on(bind(path)?, answers)
    }

    /// Listens at a path where another process did, by its socket.
    ///
    /// # Errors
    /// [`ServerError::System`].
    pub fn go_on(path: &Path, listener: UnixListener, answers: Arc<dyn Answers>) -> Result<Self, ServerError> {
        let place = inode(path).map(|inode| Place { path: path.to_owned(), inode });
        let place = place.map_err(|source| ServerError::System { path: path.to_owned(), source })?;
        Self::on((listener, place), answers)
    }

    fn on((listener, socket): (UnixListener, Place), answers: Arc<dyn Answers>) -> Result<Self, ServerError> {
        let path = socket.path.clone();
        let system = |source| ServerError::System { path: path.clone(), source };
        let copy = listener.try_clone().map_err(system)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let listen = move || listen(&listener, &answers, &told);
        let thread = std::thread::Builder::new().name("weir-socket".into()).spawn(listen).map_err(system)?;
        Ok(Self { socket, listener: copy, stop, thread: Some(thread) })
    }

    /// Its socket, for a process that goes on listening.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

/// A socket to listen at, for the owner only. What a weir that is no more left there is cleared away.
///
/// # Errors
/// [`ServerError`].
pub fn bind(path: &Path) -> Result<(UnixListener, Place), ServerError> {
    let system = |source| ServerError::System { path: path.to_owned(), source };
    clear(path)?;
    // Bound under another name and made private before anyone can find it.
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let _ = fs::remove_file(&draft);
    let listener = UnixListener::bind(&draft).map_err(system)?;
    let placed = fs::set_permissions(&draft, Permissions::from_mode(0o600))
        .and_then(|()| inode(&draft))
        .and_then(|inode| fs::rename(&draft, path).map(|()| inode));
    let inode = placed.map_err(|error| {
        let _ = fs::remove_file(&draft);
        system(error)
    })?;
    Ok((listener, Place { path: path.to_owned(), inode }))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Accepting wakes up by being connected to. Where that fails the thread ends with the process.
        if UnixStream::connect(&self.socket.path).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|data| (data.dev(), data.ino()))
}

fn clear(path: &Path) -> Result<(), ServerError> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(data) = fs::symlink_metadata(path) else { return Ok(()) };
    if !data.file_type().is_socket() {
        return Err(ServerError::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ServerError::InUse { path: path.to_owned() }),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|source| ServerError::System { path: path.to_owned(), source })
        }
        Err(source) => Err(ServerError::System { path: path.to_owned(), source }),
    }
}

fn listen(listener: &UnixListener, answers: &Arc<dyn Answers>, stop: &AtomicBool) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let open = Arc::new(AtomicU32::new(0));
    while !stop.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            // Out of descriptors, say; not worth a busy loop.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if stop.load(Ordering::Acquire) || open.load(Ordering::Relaxed) >= CONNECTIONS {
            continue;
        }
        open.fetch_add(1, Ordering::Relaxed);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let connection = Connection { number, answers: answers.clone(), open: open.clone() };
        // Dropped with the thread that serves it, or here where there is none.
        let serve = move || serve(stream, connection.number, &*connection.answers);
        let _ = std::thread::Builder::new().name("weir-answer".into()).spawn(serve);
    }
}

/// A connection that is served: counted until it ends, by a panic too.
struct Connection {
    number: u64,
    answers: Arc<dyn Answers>,
    open: Arc<AtomicU32>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.answers.hung_up(self.number);
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(stream: UnixStream, connection: u64, answers: &dyn Answers) {
    let _ = stream.set_read_timeout(Some(IDLE));
    let _ = stream.set_write_timeout(Some(Duration::from_secs(5)));
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        match reader.by_ref().take(LONGEST).read_line(&mut line) {
            Ok(n) if n > 0 && line.ends_with('\n') => {}
            _ => return,
        }
        let asked = RawRequest::of(&line);
        if let Ok(asked) = &asked
            && STREAMS.contains(&asked.name.as_str())
        {
            return answers.take_connection(asked, reader.into_inner());
        }
        let answer = asked.and_then(|asked| answers.answer(connection, &asked));
        let mut text = answer.unwrap_or_else(|error| json!({ "error": error }).to_string());
        text.push('\n');
        if reader.get_mut().write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panics at every question.
    #[derive(Default)]
    struct Broken(AtomicU32);

    impl Answers for Broken {
        fn answer(&self, _: u64, _: &RawRequest) -> RawAnswer {
            panic!("a fault of the one who answers");
        }

        fn hung_up(&self, _: u64) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_panic_leaves_no_connection_behind() {
        let path = std::env::temp_dir().join(format!("weir-broken-{}.sock", std::process::id()));
        let answers = Arc::new(Broken::default());
        let server = Server::start(&path, answers.clone()).expect("a socket");
        // More of them than there may be at once.
        for n in 1..=2 * CONNECTIONS {
            let mut stream = UnixStream::connect(&path).expect("listening");
            stream.write_all(b"{\"ask\":\"anything\"}\n").expect("taken");
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            assert_eq!(answer, "");
            for _ in 0..1000 {
                if answers.0.load(Ordering::Relaxed) == n {
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            assert_eq!(answers.0.load(Ordering::Relaxed), n, "it was told that the connection ended");
        }
        drop(server);
    }
}
