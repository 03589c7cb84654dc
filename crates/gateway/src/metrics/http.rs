//! As much HTTP as a scraper and a prober speak: GET and HEAD of a few paths, one request a connection. One thread
//! serves all connections of a listener, so that a slow one holds no other up, and everything is bounded: connections
//! at once, bytes of a request, time for a request and for taking the answer. When all places are taken, the oldest
//! connection that has not sent its request is closed for a new one.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Its media type.
    pub media: &'static str,
    /// Body of the response, UTF-8.
    pub body: String,
}

/// Content type of answers in words.
pub const WORDS: &str = "text/plain; charset=utf-8";

/// What answers. Called from the server's thread.
pub trait Pages: Send + Sync + 'static {
    /// The page at a path, without the query; none: there is none.
    fn page(&self, path: &str) -> Option<Answer>;

    /// The paths there are, for who asks for another.
    fn paths(&self) -> &'static str;

    /// Time between two calls of [`tick`](Self::tick); none: it is not called.
    fn interval(&self) -> Option<Duration> {
        None
    }

    /// Called from time to time.
    fn tick(&self) {}
}

/// A listening server. Stops when dropped.
pub struct Server {
    address: SocketAddr,
    listener: TcpListener,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Connections at once.
const CONNECTIONS: usize = 32;
/// Connections accepted in a turn.
const ACCEPTED: usize = 64;
/// Bytes of a request, header and all.
const LONGEST: usize = 8192;
/// Time for sending a request, and again for taking the answer.
const DEADLINE: Duration = Duration::from_secs(5);

impl Server {
    /// Listens; `name` is that of its thread, 15 bytes at most.
    ///
    /// # Errors
    /// What the system said: the address is not ours, or not free.
    pub fn start(name: &str, address: SocketAddr, pages: Arc<dyn Pages>) -> io::Result<Self> {
        Self::go_on(name, TcpListener::bind(address)?, pages)
    }

    /// Listens by a socket that is there.
    ///
    /// # Errors
    /// What the system said.
    pub fn go_on(name: &str, listener: TcpListener, pages: Arc<dyn Pages>) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let copy = listener.try_clone()?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let serve = move || serve(&listener, &*pages, &told);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(serve)?;
        Ok(Self { address, listener: copy, stop, thread: Some(thread) })
    }

    /// Its socket, for a process that goes on listening.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn listener(&self) -> io::Result<TcpListener> {
        self.listener.try_clone()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // A connection wakes it.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(200));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, pages: &dyn Pages, stop: &AtomicBool) {
    let mut connections: Vec<Connection> = Vec::with_capacity(CONNECTIONS);
    let mut tick = pages.interval().map(|_| Instant::now());
    while !stop.load(Ordering::Acquire) {
        if tick.is_some_and(|tick| tick <= Instant::now()) {
            pages.tick();
            tick = pages.interval().map(|interval| Instant::now() + interval);
        }
        wait(listener, &mut connections, tick);
        connections.retain_mut(|connection| connection.goes_on(pages));
        accept(listener, &mut connections, pages);
    }
}

/// Waits until something can be done; marks the connections it can be done for.
fn wait(listener: &TcpListener, connections: &mut [Connection], until: Option<Instant>) {
    let until = connections.iter().map(|connection| connection.until).chain(until).min();
    let left = until.and_then(|until| Timespec::try_from(until.saturating_duration_since(Instant::now())).ok());
    let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
    let wanted = |connection: &Connection| if connection.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
    fds.extend(connections.iter().map(|connection| PollFd::new(&connection.stream, wanted(connection))));
    let ready: Vec<bool> = match poll(&mut fds, left.as_ref()) {
        Ok(_) => fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect(),
        // Interrupted: all are tried.
        Err(_) => Vec::new(),
    };
    for (n, connection) in connections.iter_mut().enumerate() {
        connection.ready = ready.get(n).copied().unwrap_or(true);
    }
}

/// Takes new connections in, each in the place of the oldest idle one where there is no room.
fn accept(listener: &TcpListener, connections: &mut Vec<Connection>, pages: &dyn Pages) {
    for _ in 0..ACCEPTED {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
            Err(_) => {
                // Out of descriptors: the oldest gives its own back. Not worth a busy loop.
                drop(oldest(connections));
                return std::thread::sleep(Duration::from_millis(10));
            }
        };
        if stream.set_nonblocking(true).is_err() {
            continue;
        }
        let mut connection = Connection::new(stream);
        if !connection.goes_on(pages) {
            continue;
        }
        if connections.len() >= CONNECTIONS {
            drop(oldest(connections));
        }
        connections.push(connection);
    }
}

/// Takes out the connection that has been there longest without a request, or longest of all if each has sent one. They
/// stand in the order they came.
fn oldest(connections: &mut Vec<Connection>) -> Option<Connection> {
    let idle = connections.iter().position(|connection| connection.answer.is_none());
    (!connections.is_empty()).then(|| connections.remove(idle.unwrap_or(0)))
}

/// A client's connection.
struct Connection {
    stream: TcpStream,
    /// What is done must be done by then.
    until: Instant,
    request: Vec<u8>,
    /// The answer, once there is one, and how much of it is sent.
    answer: Option<(Vec<u8>, usize)>,
    ready: bool,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, until: Instant::now() + DEADLINE, request: Vec::new(), answer: None, ready: true }
    }

    /// Does what can be done now; false when it is over.
    fn goes_on(&mut self, pages: &dyn Pages) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        if !std::mem::take(&mut self.ready) {
            return true;
        }
        let done = match self.answer {
            None => self.read(pages),
            Some(_) => self.write(),
        };
        match done {
            Ok(is_over) => !is_over,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Reads on; a whole request is answered. True when the connection is over.
    fn read(&mut self, pages: &dyn Pages) -> io::Result<bool> {
        let mut space = [0; 2048];
        let mut is_end = false;
        while !is_whole(&self.request) && self.request.len() < LONGEST && !is_end {
            let most = space.len().min(LONGEST - self.request.len());
            match self.stream.read(&mut space[..most])? {
                0 => is_end = true,
                n => self.request.extend_from_slice(&space[..n]),
            }
        }
        let (answer, is_head) = match is_whole(&self.request) {
            true => answer(&self.request, pages),
            false if is_end => (told(400, "The request is not whole.\n"), false),
            false => (told(431, "The request is too long.\n"), false),
        };
        self.answer = Some((octets(&answer, is_head), 0));
        self.until = Instant::now() + DEADLINE;
        self.write()
    }

    fn write(&mut self) -> io::Result<bool> {
        let Some((octets, sent)) = &mut self.answer else { return Ok(true) };
        while *sent < octets.len() {
            match self.stream.write(&octets[*sent..])? {
                0 => return Err(ErrorKind::WriteZero.into()),
                n => *sent += n,
            }
        }
        let _ = self.stream.shutdown(Shutdown::Write);
        Ok(true)
    }
}
/// Whether the header's end is there. A body is nobody's concern: no method that has one is allowed.
fn is_whole(request: &[u8]) -> bool {
    request.windows(4).any(|four| four == b"\r\n\r\n") || request.windows(2).any(|two| two == b"\n\n")
}

/// The answer to a whole request, and whether only its header is wanted.
fn answer(request: &[u8], pages: &dyn Pages) -> (Answer, bool) {
    let line = request.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return (told(400, "The request line is not METHOD PATH VERSION.\n"), false);
    };
    if !version.starts_with("HTTP/1.") {
        return (told(505, "HTTP/1.0 and HTTP/1.1 are spoken here.\n"), false);
    }
    if method != "GET" && method != "HEAD" {
        return (told(405, "Only GET and HEAD.\n"), false);
    }
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let answer = pages.page(path).unwrap_or_else(|| told(404, &format!("There are {}.\n", pages.paths())));
    (answer, method == "HEAD")
}

fn told(status: u16, words: &str) -> Answer {
    Answer { status, media: WORDS, body: words.to_owned() }
}

fn octets(answer: &Answer, is_head: bool) -> Vec<u8> {
    let reason = match answer.status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "",
    };
    let allow = if answer.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    let mut text = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
         Connection: close\r\n\r\n",
        answer.status,
        answer.media,
        answer.body.len(),
    );
    if !is_head {
        text.push_str(&answer.body);
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One;

    impl Pages for One {
        fn page(&self, path: &str) -> Option<Answer> {
            match path {
                "/healthz" => Some(told(200, "well\n")),
                "/long" => Some(told(200, &"x".repeat(8 << 20))),
                _ => None,
            }
        }

        fn paths(&self) -> &'static str {
            "/healthz and /long"
        }
    }

    fn server() -> Server {
        Server::start("weir-test", SocketAddr::from(([127, 0, 0, 1], 0)), Arc::new(One)).unwrap()
    }

    fn ask(server: &Server, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // It may hang up on what is too long before all is written.
        let _ = stream.write_all(request);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8(said).unwrap()
    }

    #[test]
    fn requests_are_answered_or_refused_by_name() {
        let server = server();
        let said = ask(&server, b"GET /healthz?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\nwell\n"), "{said}");
        assert!(said.contains("Content-Length: 5\r\n") && said.contains("Connection: close\r\n"), "{said}");
        let said = ask(&server, b"HEAD /healthz HTTP/1.0\n\n");
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\n"), "{said}");
        assert!(ask(&server, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        let said = ask(&server, b"DELETE /healthz HTTP/1.1\r\n\r\n");
        assert!(said.starts_with("HTTP/1.1 405 ") && said.contains("Allow: GET, HEAD\r\n"), "{said}");
        assert!(ask(&server, b"GET /healthz HTTP/2.0\r\n\r\n").starts_with("HTTP/1.1 505 "));
        assert!(ask(&server, b"\xff\x00\r\n\r\n").starts_with("HTTP/1.1 400 "));
        assert!(ask(&server, &[b'a'; LONGEST]).starts_with("HTTP/1.1 431 "));
    }

    #[test]
    fn slow_connections_keep_nobody_out() {
        let server = server();
        let slow = |_| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(b"GET /healthz HT").unwrap();
            stream
        };
        let _slow: Vec<_> = (0..100).map(slow).collect();
        let begin = Instant::now();
        for _ in 0..20 {
            assert!(ask(&server, b"GET /healthz HTTP/1.1\r\n\r\n").ends_with("well\n"));
        }
        // Their time was not waited for.
        assert!(begin.elapsed() < DEADLINE, "{:?}", begin.elapsed());
    }

    #[test]
    fn the_oldest_idle_connection_makes_room() {
        let server = server();
        let connect = |_| TcpStream::connect(server.address()).unwrap();
        let mut idle: Vec<_> = (0..CONNECTIONS + 1).map(connect).collect();
        idle[0].set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        match idle[0].read(&mut [0; 8]) {
            Ok(read) => assert_eq!(read, 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "closed for the last"),
        }
        let last = idle.last_mut().unwrap();
        last.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
        let mut said = String::new();
        last.read_to_string(&mut said).unwrap();
        assert!(said.ends_with("well\n"), "{said}");
    }

    #[test]
    fn an_answer_taken_slowly_is_whole_and_holds_nobody_up() {
        let server = server();
        let mut slow = TcpStream::connect(server.address()).unwrap();
        slow.write_all(b"GET /long HTTP/1.1\r\n\r\n").unwrap();
        let mut space = vec![0; 1 << 16];
        let mut taken = slow.read(&mut space).unwrap();
        assert!(ask(&server, b"GET /healthz HTTP/1.1\r\n\r\n").ends_with("well\n"));
        loop {
            match slow.read(&mut space).unwrap() {
                0 => break,
                n => taken += n,
            }
        }
        assert!(taken > 8 << 20, "{taken}");
    }
}
