//! `weir agent`: the other host of a measurement. A control connection (TCP, a JSON object a line) asks it to count
//! what arrives at a UDP port, to send, and for its clock. Both sides prove that they have the shared secret.
//!
//! | file | content |
//! |---|---|
//! | `protocol` | messages, proof of the secret |
//! | `peer` | sending at a rate, counting what arrives |
//! | `client` | the side that asks |
//! | `end` | one end of a gateway at an agent's port, and trials at it |
//! | `hosts` | a gateway between two agents, as a device of searches |

mod client;
mod end;
mod hosts;
mod peer;
mod protocol;

use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use client::{Client, Clocks};
pub use end::{GatewayUse, HostUse, InterfaceUse, Offer, OpenEnd, Side};
pub use hosts::{Agents, GatewayView, HostView, Hosts, HostsTrial};
use peer::Stream;
pub use peer::{Arrivals, Receiver, now_ns, send};
pub use protocol::SECRET_BYTES;

use rustix::net::sockopt;

use protocol::{Answer, LONGEST, Request, prove_to_client, read_line_while, write_line};
use traffic::Load;

/// A client that does not read is given up after this time.
const WRITE: Duration = Duration::from_secs(10);
/// Between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(100);
/// The same while an end is open: what asks for its addresses is answered as often.
const TURN: Duration = Duration::from_millis(2);
/// A connection without a request for this long is closed.
const SILENCE: Duration = Duration::from_secs(2 * 3600);
/// The same while it streams.
const STREAMING: Duration = Duration::from_secs(25 * 3600);
/// Seconds that one request may send.
const LONGEST_SEND: f64 = 60.0;

/// Serves clients one after the other until `stop` is set.
///
/// # Errors
/// The listener cannot be used.
pub fn serve(
    listener: &TcpListener,
    secret: &[u8],
    offer: &mut dyn Offer,
    stop: &AtomicBool,
    log: &mut dyn FnMut(String),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, from)) => {
                log(format!("{from}: connected"));
                let ended = client_of(stream, from, secret, offer, stop);
                log(match ended {
                    Ok(()) => format!("{from}: connection closed"),
                    Err(error) => format!("{from}: {error}"),
                });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(LOOK),
            Err(error) => {
                // A client that was gone before it was taken in, or no descriptor: neither ends an agent.
                log(format!("accept: {error}"));
                std::thread::sleep(LOOK);
            }
        }
    }
    Ok(())
}

fn client_of(
    stream: TcpStream,
    from: SocketAddr,
    secret: &[u8],
    offer: &mut dyn Offer,
    stop: &AtomicBool,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(WRITE))?;
    keep_alive(&stream)?;
    let (mut out, mut input) = (stream.try_clone()?, BufReader::new(stream.try_clone()?));
    prove_to_client(&mut input, &mut out, secret, stop)?;
    let mut served = Served { stream, from, offer, stop, receiver: None, streaming: None, end: None };
    while let Some(line) = served.next(&mut input)? {
        let answer = served.answer(&line)?;
        write_line(&mut out, &answer)?;
    }
    Ok(())
}

/// A client's host that is gone is noticed within about half a minute.
fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    Ok(sockopt::set_tcp_keepcnt(stream, 4)?)
}

/// What a client has asked for so far.
struct Served<'s> {
    stream: TcpStream,
    from: SocketAddr,
    offer: &'s mut dyn Offer,
    stop: &'s AtomicBool,
    receiver: Option<Receiver>,
    streaming: Option<Stream>,
    end: Option<Load>,
}

impl Served<'_> {
    /// Its next request. Meanwhile an open end answers whoever asks for its addresses.
    fn next(&mut self, input: &mut impl io::BufRead) -> io::Result<Option<String>> {
        self.stream.set_read_timeout(Some(if self.end.is_some() { TURN } else { LOOK }))?;
        let end = &mut self.end;
        let mut idle = || {
            if let Some(end) = end {
                end.turn();
            }
        };
        // A stream is asked for rates by other means.
        let most = if self.streaming.is_some() { STREAMING } else { SILENCE };
        read_line_while(input, self.stop, (LONGEST, most), &mut idle)
    }

    fn answer(&mut self, line: &str) -> io::Result<Answer> {
        let refused = |why: String| Answer::Refused { why };
        Ok(match serde_json::from_str::<Request>(line) {
            Err(error) => refused(error.to_string()),
            Ok(Request::Clock) => Answer::Clock { ns: now_ns() },
            Ok(Request::Receive { offset_ns }) => {
                let local = SocketAddr::new(self.stream.local_addr()?.ip(), 0);
                let begun = Receiver::start(local, self.from.ip(), offset_ns)?;
                let port = begun.port()?;
                self.receiver = Some(begun);
                Answer::Receiving { port }
            }
            Ok(Request::Count) => match &self.receiver {
                Some(receiver) => Answer::Counted(receiver.arrivals()),
                None => refused("count before receive".to_owned()),
            },
            Ok(Request::Send { port, frame_bytes, packets_per_second, seconds }) => {
                // Only to the host that asks: an agent is no source of attacks.
                let to = SocketAddr::new(self.from.ip(), port);
                let (seconds, frame_bytes) = (seconds.clamp(0.0, LONGEST_SEND), frame_bytes.clamp(64, 9216));
                let (sent, seconds) = send(to, frame_bytes, packets_per_second, seconds, self.stop)?;
                Answer::Sent { packets: sent, seconds }
            }
            Ok(Request::Stream { port, frame_bytes, key }) => {
                let to = SocketAddr::new(self.from.ip(), port);
                self.streaming = Some(Stream::start(to, frame_bytes.clamp(64, 9216), key)?);
                Answer::Streaming
            }
            Ok(Request::Open(wanted)) => {
                self.close();
                match self.offer.open(&wanted, self.stop) {
                    Ok((end, port)) => {
                        self.end = Some(end);
                        Answer::Opened { port }
                    }
                    Err(error) => refused(format!("{error:#}")),
                }
            }
            Ok(Request::Trial(order)) => match &mut self.end {
                Some(end) => {
                    // A client that is gone ends its trial.
                    self.stream.set_nonblocking(true)?;
                    let (stream, stop) = (&self.stream, self.stop);
                    let is_over = || stop.load(Ordering::Relaxed) || matches!(stream.peek(&mut [0]), Ok(0));
                    let result = end::play(end, &order, &is_over);
                    self.stream.set_nonblocking(false)?;
                    result.map_or_else(refused, |result| Answer::Tried(Box::new(result)))
                }
                None => refused("a trial before an end is open".to_owned()),
            },
            Ok(Request::Use) => match self.offer.used() {
                Ok(used) => Answer::Used(Box::new(used)),
                Err(error) => refused(format!("{error:#}")),
            },
        })
    }

    fn close(&mut self) {
        if let Some(mut end) = self.end.take() {
            end.close();
        }
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A host without a port.
    struct Nothing;

    impl Offer for Nothing {
        fn open(&mut self, _: &OpenEnd, _: &AtomicBool) -> anyhow::Result<(Load, String)> {
            anyhow::bail!("no port")
        }
        fn used(&mut self) -> anyhow::Result<HostUse> {
            Ok(HostUse::default())
        }
    }

    fn agent(secret: &'static [u8], f: impl FnOnce(SocketAddr)) -> Vec<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, stop) = (listener.local_addr().unwrap(), AtomicBool::new(false));
        let mut said = Vec::new();
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| serve(&listener, secret, &mut Nothing, &stop, &mut |line| said.push(line)));
            f(at);
            stop.store(true, Ordering::Relaxed);
            serving.join().unwrap().unwrap();
        });
        said
    }

    #[test]
    fn packets_are_sent_and_counted_both_ways() {
        agent(b"secret", |at| {
            let stop = AtomicBool::new(false);
            let mut client = Client::connect(at, b"secret", &Arc::default()).unwrap();
            let clock = client.clock().unwrap();
            // The same clock, looked at from the same host.
            assert!(clock.offset_ns.unsigned_abs() < 50_000_000 && clock.round_trip_ns > 0, "{clock:?}");
            let to = client.receive().unwrap();
            let before = client.count().unwrap();
            let (sent, _) = send(to, 64, 500.0, 0.2, &stop).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            let after = client.count().unwrap();
            let arrived = after.packets - before.packets;
            assert!(sent > 0 && arrived * 10 > sent * 9 && after.at_ns > before.at_ns, "{arrived} of {sent}");
            assert!(after.latency_us.is_some_and(|us| us < 1e6), "{after:?}");
            let receiver = Receiver::start(SocketAddr::new(at.ip(), 0), at.ip(), 0).unwrap();
            client.stream(receiver.port().unwrap(), 1400, 77).unwrap();
            let begun = std::time::Instant::now();
            for number in 1..60 {
                receiver.ask(77, 500.0, number);
                receiver.ask(78, 1e6, number + 1000);
                std::thread::sleep(Duration::from_millis(10));
            }
            receiver.ask(77, 0.0, 60);
            std::thread::sleep(Duration::from_millis(100));
            let arrived = receiver.arrivals();
            let sent = arrived.sent;
            let most = 500.0 * begun.elapsed().as_secs_f64() + 50.0;
            assert!(
                sent > 50 && (sent as f64) < most && arrived.packets * 10 > sent * 9,
                "{} of {sent}",
                arrived.packets
            );
            std::thread::sleep(Duration::from_millis(100));
            assert!(receiver.arrivals().sent <= sent + 1, "none is wanted any more");
            let arrived = receiver.arrivals();
            assert_eq!(arrived.bytes, arrived.packets * 1396, "frames without FCS");
        });
    }

    #[test]
    fn wrong_secret_is_refused() {
        let said = agent(b"secret", |at| {
            let error = Client::connect(at, b"other", &Arc::default()).err().expect("refused").to_string();
            assert!(error.contains("secret"), "{error}");
            assert!(Client::connect(at, b"secret", &Arc::default()).unwrap().clock().is_ok(), "the next one is served");
        });
        assert!(said.iter().any(|line| line.contains("wrong secret")), "{said:?}");
    }
}
