//! The side that asks an agent.

use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use traffic::TrialResult;

use super::end::{HostUse, OpenEnd, TrialOrder};
use super::peer::{Arrivals, now_ns};
use super::protocol::{Answer, Request, prove_to_agent, read_line, write_line};

/// An agent is given so long to accept.
const CONNECT: Duration = Duration::from_secs(5);
/// An answer takes so long at most, beyond the time that packets are sent.
const ANSWER: Duration = Duration::from_secs(5);
/// Round trips, of which the shortest tells most of the clocks.
const ROUND_TRIPS: usize = 16;
/// Seconds in which an end is opened: packet memory, hardware addresses.
const OPENING: f64 = 20.0;

/// The agent's clock beside this host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// This host's clock is ahead by so much.
    pub offset_ns: i64,
    /// The shortest round trip: the offset is off by half of it at most.
    pub round_trip_ns: i64,
}

/// A try of a connection lasts so long, until which Ctrl-C waits.
const TRY: Duration = Duration::from_millis(700);

fn connected(at: SocketAddr, stop: &AtomicBool) -> io::Result<TcpStream> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect_timeout(&at, TRY) {
            _ if stop.load(Ordering::Relaxed) => return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted")),
            Err(error) if error.kind() == io::ErrorKind::TimedOut && begun.elapsed() < CONNECT => {}
            other => return other,
        }
    }
}

/// A connection to an agent.
pub struct Client {
    out: TcpStream,
    input: BufReader<TcpStream>,
    at: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Client {
    /// Connects, and both sides prove that they have the secret.
    ///
    /// # Errors
    /// No agent is there, or it has another secret.
    pub fn connect(at: SocketAddr, secret: &[u8], stop: &Arc<AtomicBool>) -> io::Result<Self> {
        let out = connected(at, stop)?;
        out.set_nodelay(true)?;
        out.set_read_timeout(Some(Duration::from_millis(100)))?;
        out.set_write_timeout(Some(ANSWER))?;
        let mut client = Self { input: BufReader::new(out.try_clone()?), out, at, stop: stop.clone() };
        prove_to_agent(&mut client.input, &mut client.out, secret, stop)?;
        Ok(client)
    }

    /// This host's address, as the agent sees it.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.out.local_addr()
    }

    /// Whether the agent has closed the connection, or its host is gone.
    pub fn is_gone(&self) -> bool {
        let looked = self.out.set_nonblocking(true).and_then(|()| self.out.peek(&mut [0]));
        let restored = self.out.set_nonblocking(false);
        let is_there = match looked {
            Ok(bytes) => bytes > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        !is_there || restored.is_err()
    }

    fn ask(&mut self, request: &Request, more: f64) -> io::Result<Answer> {
        self.tell(request)?;
        self.hear(more)
    }

    /// Asks, and leaves the answer to [`hear`](Self::hear).
    pub(super) fn tell(&mut self, request: &Request) -> io::Result<()> {
        write_line(&mut self.out, request)
    }

    /// The answer, which takes `more` seconds longer than others at most.
    pub(super) fn hear(&mut self, more: f64) -> io::Result<Answer> {
        let most = ANSWER + Duration::from_secs_f64(more);
        let line = read_line(&mut self.input, &self.stop, most)?;
        let line = line.ok_or_else(|| match self.stop.load(Ordering::Relaxed) {
            true => io::Error::new(io::ErrorKind::Interrupted, "interrupted"),
            false => io::Error::new(io::ErrorKind::UnexpectedEof, "the agent closed the connection"),
        })?;
        match serde_json::from_str(&line)? {
            Answer::Refused { why } => Err(io::Error::other(format!("the agent refused: {why}"))),
            answer => Ok(answer),
        }
    }

    fn unexpected<T>(answer: &Answer) -> io::Result<T> {
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("an unexpected answer of the agent: {answer:?}")))
    }

    /// Has it send to a receiver of this host, which asks for rates with that key ([`Receiver::ask`](super::Receiver::ask)),
    /// until the connection ends.
    ///
    /// # Errors
    /// The connection, or the agent cannot send.
    pub fn stream(&mut self, port: u16, frame_bytes: u32, key: u64) -> io::Result<()> {
        match self.ask(&Request::Stream { port, frame_bytes, key }, 0.0)? {
            Answer::Streaming => Ok(()),
            answer => Self::unexpected(&answer),
        }
    }

    /// Has it open its port as an end of a gateway; returns the port's name.
    ///
    /// # Errors
    /// The connection, it offers no port, or the gateway does not answer it.
    pub fn open(&mut self, end: &OpenEnd) -> io::Result<String> {
        match self.ask(&Request::Open(Box::new(end.clone())), OPENING)? {
            Answer::Opened { port } => Ok(port),
            answer => Self::unexpected(&answer),
        }
    }

    /// Has it send at its end for some seconds; what it sent, and what came back to it.
    ///
    /// # Errors
    /// The connection, or no end is open.
    pub fn trial(&mut self, pps: Option<f64>, seconds: f64) -> io::Result<TrialResult> {
        // By its own clock alone, at once.
        let order = TrialOrder { offset_ns: 0, gain_ppb: 0, start_ns: 0, pps, seconds };
        match self.ask(&Request::Trial(order), seconds)? {
            Answer::Tried(result) => Ok(*result),
            answer => Self::unexpected(&answer),
        }
    }

    /// What its host and gateway have done so far.
    ///
    /// # Errors
    /// The connection, or its gateway does not answer.
    pub fn used(&mut self) -> io::Result<HostUse> {
        match self.ask(&Request::Use, 0.0)? {
            Answer::Used(used) => Ok(*used),
            answer => Self::unexpected(&answer),
        }
    }

    /// Compares clocks by round trips: the agent's answer was made between asking and hearing it.
    ///
    /// # Errors
    /// The connection to the agent is lost, or it does not answer.
    pub fn clock(&mut self) -> io::Result<Clocks> {
        let mut best = Clocks { offset_ns: 0, round_trip_ns: i64::MAX };
        for _ in 0..ROUND_TRIPS {
            let before = now_ns();
            let answer = self.ask(&Request::Clock, 0.0)?;
            let after = now_ns();
            let Answer::Clock { ns } = answer else { return Self::unexpected(&answer) };
            if after - before < best.round_trip_ns {
                best = Clocks { offset_ns: before + (after - before) / 2 - ns, round_trip_ns: after - before };
            }
        }
        Ok(best)
    }

    /// Has it count at a port of its own; returns where packets are to be sent to.
    ///
    /// # Errors
    /// The connection, or the agent has no port.
    pub fn receive(&mut self) -> io::Result<SocketAddr> {
        let offset_ns = self.clock()?.offset_ns;
        match self.ask(&Request::Receive { offset_ns }, 0.0)? {
            Answer::Receiving { port } => Ok(SocketAddr::new(self.at.ip(), port)),
            answer => Self::unexpected(&answer),
        }
    }

    /// What has arrived there so far.
    ///
    /// # Errors
    /// The connection to the agent is lost, or it does not answer.
    pub fn count(&mut self) -> io::Result<Arrivals> {
        match self.ask(&Request::Count, 0.0)? {
            Answer::Counted(arrivals) => Ok(arrivals),
            answer => Self::unexpected(&answer),
        }
    }
}
