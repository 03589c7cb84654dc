//! As much HTTP as a scraper and a prober speak: GET and HEAD of a few paths, one request a connection. Everything is
//! bounded: connections at once, bytes of a request, time for all of it. Its threads are its own; workers never wait.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Its media type.
    pub media: &'static str,
    /// What it says.
    pub body: String,
}

/// Plain words.
pub const WORDS: &str = "text/plain; charset=utf-8";

/// What can answer. Called from several threads at once.
pub trait Pages: Send + Sync + 'static {
    /// The page at a path, without the query; none: there is none.
    fn page(&self, path: &str) -> Option<Answer>;

    /// Called about every second.
    fn tick(&self) {}
}

/// A listening server. Stops when dropped.
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Connections at once: a few scrapers and probers.
const CONNECTIONS: u32 = 8;
/// Bytes of a request, header and all.
const LONGEST: usize = 8192;
/// Time for a request and its answer.
const PATIENCE: Duration = Duration::from_secs(5);
const SECOND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// What the system said: the address is not ours, or not free.
    pub fn start(address: SocketAddr, pages: Arc<dyn Pages>) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let listen = move || listen(&listener, &pages, &told);
        let thread = std::thread::Builder::new().name("weir-metrics".into()).spawn(listen)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // It looks once a second at least; being connected to wakes it at once.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(200));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(listener: &TcpListener, pages: &Arc<dyn Pages>, stop: &AtomicBool) {
    let open = Arc::new(AtomicU32::new(0));
    let mut ticked = Instant::now();
    pages.tick();
    while !stop.load(Ordering::Acquire) {
        // Interrupted or not, it is looked again.
        let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&SECOND));
        if ticked.elapsed() >= Duration::from_secs(1) {
            ticked = Instant::now();
            pages.tick();
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(_) => {
                // Out of descriptors, say; not worth a busy loop.
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
        };
        // One too many is hung up on: it comes again.
        if open.load(Ordering::Relaxed) >= CONNECTIONS {
            continue;
        }
        let (pages, count) = (pages.clone(), open.clone());
        count.fetch_add(1, Ordering::Relaxed);
        let serve = move || {
            // Who hangs up early does not get an answer.
            let _ = serve(stream, &*pages);
            count.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("weir-scrape".into()).spawn(serve).is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A connection that must be through by a certain time.
struct Timed {
    stream: TcpStream,
    until: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(space)
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(self.left()?))?;
            match self.stream.write(bytes)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                n => bytes = &bytes[n..],
            }
        }
        Ok(())
    }
}

fn serve(stream: TcpStream, pages: &dyn Pages) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut connection = Timed { stream, until: Instant::now() + PATIENCE };
    let mut request = vec![0; LONGEST];
    let mut len = 0;
    while !is_whole(&request[..len]) && len < LONGEST {
        match connection.read(&mut request[len..])? {
            0 => break,
            n => len += n,
        }
    }
    let (answer, is_head) = match is_whole(&request[..len]) {
        true => answer(&request[..len], pages),
        false if len == LONGEST => (told(431, "The request is too long.\n"), false),
        false => (told(400, "The request is not whole.\n"), false),
    };
    connection.write_all(&octets(&answer, is_head))
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
    let answer = pages.page(path).unwrap_or_else(|| told(404, "There are /metrics, /healthz and /readyz.\n"));
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

    struct Two;

    impl Pages for Two {
        fn page(&self, path: &str) -> Option<Answer> {
            (path == "/healthz").then(|| told(200, "well\n"))
        }
    }

    fn server() -> Server {
        Server::start(SocketAddr::from(([127, 0, 0, 1], 0)), Arc::new(Two)).unwrap()
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
    fn those_who_say_nothing_keep_nobody_out_for_long() {
        let server = server();
        let quiet: Vec<_> = (0..CONNECTIONS + 4).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        // All places are taken by those who say nothing; when they hang up, or their time is over, there is room again.
        drop(quiet);
        let until = Instant::now() + Duration::from_secs(20);
        while !ask(&server, b"GET /healthz HTTP/1.1\r\n\r\n").ends_with("well\n") {
            assert!(Instant::now() < until, "nobody is answered any more");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
