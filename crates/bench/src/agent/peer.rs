//! Sending at a rate, and counting what arrives: UDP over IPv4 by the kernel's sockets, so that whatever limits this
//! host's or instance's traffic is in the path. The first eight bytes of a payload are the time it was sent, the next eight how
//! many were sent before.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;
/// Bytes of the frame check sequence, which frame sizes count.
const FCS: usize = 4;
/// Latencies kept between two looks.
const LATENCIES: usize = 4096;
/// Packets sent between two looks at the clock, where the sender is behind.
const BURST: u64 = 16;

/// What has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// Nanoseconds since counting began.
    pub at_ns: i64,
    /// Packets so far.
    pub packets: u64,
    /// Bytes of their frames, without FCS.
    pub bytes: u64,
    /// Packets that had been sent, by the latest that arrived.
    #[serde(default)]
    pub sent: u64,
    /// Median latency of packets since the last look, in microseconds.
    pub latency_us: Option<f64>,
}

/// This host's clock: nanoseconds since 1970, as the time was when it was first asked; from then on it is the monotonic
/// clock, which nobody sets.
pub fn now_ns() -> i64 {
    static BEGIN: OnceLock<(Instant, i64)> = OnceLock::new();
    let begin = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        (Instant::now(), since.map_or(0, |since| since.as_nanos() as i64))
    };
    let (begun, at) = BEGIN.get_or_init(begin);
    at + begun.elapsed().as_nanos() as i64
}

#[derive(Default)]
struct Counters {
    /// Where the first came from.
    source: Mutex<Option<SocketAddr>>,
    packets: AtomicU64,
    bytes: AtomicU64,
    sent: AtomicU64,
    latencies_ns: Mutex<Vec<i64>>,
}

/// A UDP port whose packets are counted by a thread of its own.
pub struct Receiver {
    socket: Arc<UdpSocket>,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    begun: Instant,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Begins to count packets from that address. The sender's clock is ahead of this host's by `offset_ns`.
    ///
    /// # Errors
    /// No socket can be bound there, or there is no thread.
    pub fn start(local: SocketAddr, from: IpAddr, offset_ns: i64) -> io::Result<Self> {
        let socket = Arc::new(UdpSocket::bind(local)?);
        // What waits while this thread has no CPU is not lost.
        port::udp::set_receive_buffer(&socket, 16 << 20);
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let (counters, stop) = (Arc::new(Counters::default()), Arc::new(AtomicBool::new(false)));
        let run = {
            let (socket, counters, stop) = (socket.clone(), counters.clone(), stop.clone());
            move || {
                let mut space = [0; 9216];
                while !stop.load(Ordering::Relaxed) {
                    let Ok((len, source)) = socket.recv_from(&mut space) else { continue };
                    if source.ip() != from {
                        continue;
                    }
                    if counters.packets.fetch_add(1, Ordering::Relaxed) == 0
                        && let Ok(mut from) = counters.source.lock()
                    {
                        *from = Some(source);
                    }
                    counters.bytes.fetch_add((len + HEADERS) as u64, Ordering::Relaxed);
                    if let Some(before) = space[..len].get(8..16).and_then(|bytes| bytes.first_chunk()) {
                        counters.sent.fetch_max(u64::from_be_bytes(*before) + 1, Ordering::Relaxed);
                    }
                    let Some(sent) = space[..len].first_chunk().map(|bytes| i64::from_be_bytes(*bytes)) else {
                        continue;
                    };
                    if let Ok(mut all) = counters.latencies_ns.lock()
                        && all.len() < LATENCIES
                    {
                        all.push(now_ns().wrapping_sub(sent.wrapping_sub(offset_ns)));
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("receiver".into()).spawn(run)?;
        Ok(Self { socket, counters, stop, begun: Instant::now(), thread: Some(thread) })
    }

    /// The port that packets are to be sent to.
    ///
    /// # Errors
    /// The socket has none any more.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Asks the stream that sends here for a rate; `number` grows. False: nothing of it has arrived yet.
    pub fn ask(&self, key: u64, packets_per_second: f64, number: u64) -> bool {
        let source = self.counters.source.lock().ok().and_then(|source| *source);
        let Some(source) = source else { return false };
        let parts = [key, packets_per_second.to_bits(), number].map(u64::to_be_bytes);
        // What is lost is asked for again.
        let _ = self.socket.send_to(parts.as_flattened(), source);
        true
    }

    /// What has arrived so far.
    pub fn arrivals(&self) -> Arrivals {
        let latencies = self.counters.latencies_ns.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
        let middle = crate::window::median(latencies.iter().map(|ns| *ns as f64 / 1e3));
        Arrivals {
            at_ns: self.begun.elapsed().as_nanos() as i64,
            packets: self.counters.packets.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            sent: self.counters.sent.load(Ordering::Relaxed),
            latency_us: (!latencies.is_empty()).then_some(middle.max(0.0)),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends frames of a size (with FCS) for some seconds at a rate, at most as many as can be sent; returns packets and
/// seconds. What the kernel had no room for was sent, and is lost.
///
/// # Errors
/// No socket, or the destination cannot be reached.
pub fn send(
    to: SocketAddr,
    frame_bytes: u32,
    packets_per_second: f64,
    seconds: f64,
    stop: &AtomicBool,
) -> io::Result<(u64, f64)> {
    let socket = connected(to)?;
    let mut payload = payload(frame_bytes);
    let (begun, mut sent) = (Instant::now(), 0u64);
    loop {
        let elapsed = begun.elapsed().as_secs_f64();
        if elapsed >= seconds || stop.load(Ordering::Relaxed) {
            return Ok((sent, elapsed));
        }
        let due = (packets_per_second * elapsed.min(seconds)).min(1e18) as u64;
        if due <= sent {
            std::thread::sleep(Duration::from_micros(100));
            continue;
        }
        for _ in 0..(due - sent).min(BURST) {
            mark(&mut payload, sent);
            match socket.send(&payload) {
                Ok(_) => {}
                // Nobody reads there any more, or no buffer is free: lost like any other.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused || error.raw_os_error() == Some(105) => {
                }
                Err(error) => return Err(error),
            }
            sent += 1;
        }
    }
}

/// Octets of a datagram that asks a [`Stream`] for a rate: key, packets a second, a number that grows.
const ASKED: usize = 24;
/// A stream that is not asked for so long sends no more.
const UNASKED: Duration = Duration::from_secs(2);
/// Until it is asked for the first time, it sends a packet each time this has passed, so that it can be asked.
const HELLO: Duration = Duration::from_millis(100);

/// Packets of a host to another one, at a rate that is asked for by datagrams the other way: an answer over a connection
/// would be lost with the packets where these are limited.
pub(super) struct Stream {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    /// Begins; `key` is in the datagrams that ask.
    ///
    /// # Errors
    /// There is no socket or no thread.
    pub fn start(to: SocketAddr, frame_bytes: u32, key: u64) -> io::Result<Self> {
        let socket = connected(to)?;
        socket.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let run = {
            let stop = stop.clone();
            move || stream(&socket, frame_bytes, key, &stop)
        };
        let thread = std::thread::Builder::new().name("stream".into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn stream(socket: &UdpSocket, frame_bytes: u32, key: u64, stop: &AtomicBool) {
    let mut payload = payload(frame_bytes);
    let (mut sent, mut latest, mut asked) = (0u64, 0u64, None::<Instant>);
    // The rate, when it began, and what was sent by then.
    let (mut rate, mut begun, mut before) = (0.0_f64, Instant::now(), 0);
    let mut hello = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let mut space = [0; ASKED + 1];
        while let Ok(ASKED) = socket.recv(&mut space) {
            let number = |at: usize| space[at..at + 8].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            let wanted = f64::from_bits(number(8));
            if number(0) != key || number(16) <= latest || !(0.0..=1e12).contains(&wanted) {
                continue;
            }
            (latest, asked) = (number(16), Some(Instant::now()));
            if wanted != rate {
                (rate, begun, before) = (wanted, Instant::now(), sent);
            }
        }
        let is_asked = asked.is_some_and(|asked| asked.elapsed() < UNASKED);
        let due = match asked {
            None if hello.elapsed() > HELLO => {
                hello = Instant::now();
                1
            }
            Some(_) if is_asked => ((rate * begun.elapsed().as_secs_f64()) as u64).saturating_sub(sent - before),
            _ => 0,
        };
        if due == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
        for _ in 0..due.min(BURST) {
            mark(&mut payload, sent);
            // Nobody there, or no buffer free: lost like any other.
            let _ = socket.send(&payload);
            sent += 1;
        }
    }
}

fn connected(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(to)?;
    Ok(socket)
}

/// That of a frame (with FCS).
fn payload(frame_bytes: u32) -> Vec<u8> {
    vec![0; (frame_bytes as usize).saturating_sub(HEADERS + FCS).max(16)]
}

/// The time, and how many were sent before.
fn mark(payload: &mut [u8], before: u64) {
    payload[..8].copy_from_slice(&now_ns().to_be_bytes());
    payload[8..16].copy_from_slice(&before.to_be_bytes());
}
