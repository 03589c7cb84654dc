//! Sending at a rate, and counting what arrives: UDP over IPv4 by the kernel's sockets, so that whatever limits this
//! host's or instance's traffic is in the path. The first eight bytes of a payload are the time it was sent.

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
    packets: AtomicU64,
    bytes: AtomicU64,
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
                    counters.packets.fetch_add(1, Ordering::Relaxed);
                    counters.bytes.fetch_add((len + HEADERS) as u64, Ordering::Relaxed);
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

    /// What has arrived so far.
    pub fn arrivals(&self) -> Arrivals {
        let latencies = self.counters.latencies_ns.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
        let middle = crate::window::median(latencies.iter().map(|ns| *ns as f64 / 1e3));
        Arrivals {
            at_ns: self.begun.elapsed().as_nanos() as i64,
            packets: self.counters.packets.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
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
    let local = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local)?;
    socket.connect(to)?;
    let mut payload = vec![0; (frame_bytes as usize).saturating_sub(HEADERS + FCS).max(8)];
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
            payload[..8].copy_from_slice(&now_ns().to_be_bytes());
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
