//! Messages of the control connection, and how both sides prove that they have the secret: HMAC-SHA-256 of the other's
//! nonce. The secret itself is never sent.

use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use traffic::TrialResult;

use super::end::{HostUse, OpenEnd, TrialOrder};
use super::peer::Arrivals;

/// Version of the messages.
const VERSION: u32 = 2;
/// Bytes of a secret, at least.
pub const SECRET_BYTES: usize = 16;
/// A line is no longer: of a stranger; of a client that has the secret, which may send the tunnels of a million sessions.
const LONGEST_OF_STRANGERS: u64 = 4 << 10;
pub(super) const LONGEST: u64 = 64 << 20;
/// Time for the proofs.
const GREETING: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Request {
    Clock,
    /// Latencies are by the sender's clock, which is ahead of the agent's by so much.
    Receive {
        offset_ns: i64,
    },
    Count,
    /// To the host that asks.
    Send {
        port: u16,
        frame_bytes: u32,
        packets_per_second: f64,
        seconds: f64,
    },
    /// To the host that asks, at rates that its receiver asks for with this key.
    Stream {
        port: u16,
        frame_bytes: u32,
        key: u64,
    },
    /// Opens the agent's port, as one end of a gateway.
    Open(Box<OpenEnd>),
    /// Plays a trial at that end.
    Trial(TrialOrder),
    /// What the host has done so far.
    Use,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub(super) enum Answer {
    Clock { ns: i64 },
    Receiving { port: u16 },
    Counted(Arrivals),
    Sent { packets: u64, seconds: f64 },
    Streaming,
    Opened { port: String },
    Tried(Box<TrialResult>),
    Used(Box<HostUse>),
    Refused { why: String },
}

#[derive(Serialize, Deserialize)]
struct Greeting {
    weir_agent: u32,
    nonce: String,
}

#[derive(Serialize, Deserialize)]
struct Proof {
    nonce: String,
    proof: String,
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

pub(super) fn write_line(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    out.write_all(line.as_bytes())
}

/// The next line; none: the connection is closed, or it is time to stop.
pub(super) fn read_line(input: &mut impl BufRead, stop: &AtomicBool, most: Duration) -> io::Result<Option<String>> {
    read_line_while(input, stop, (LONGEST, most), &mut || {})
}

/// The same of at most so many bytes; `idle` is called while nothing comes, and in between.
pub(super) fn read_line_while(
    input: &mut impl BufRead,
    stop: &AtomicBool,
    (longest, most): (u64, Duration),
    idle: &mut dyn FnMut(),
) -> io::Result<Option<String>> {
    let (begun, mut line) = (Instant::now(), Vec::new());
    loop {
        let left = longest.saturating_sub(line.len() as u64);
        // What has come, piece by piece: a peer that sends slowly is held to the deadline, too.
        match input.fill_buf() {
            Ok([]) => return Ok(None),
            Ok(_) if left == 0 => return Err(invalid("a line is too long")),
            Ok(bytes) => {
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let taken = end.map_or(bytes.len(), |end| end + 1).min(usize::try_from(left).unwrap_or(usize::MAX));
                line.extend_from_slice(&bytes[..taken]);
                input.consume(taken);
                if line.ends_with(b"\n") {
                    return String::from_utf8(line).map(Some).map_err(|_| invalid("a line is not UTF-8"));
                }
            }
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()) => {}
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        idle();
        if begun.elapsed() > most {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", most.as_secs())));
        }
    }
}

fn read<T: for<'d> Deserialize<'d>>(input: &mut impl BufRead, stop: &AtomicBool) -> io::Result<T> {
    let line = read_line_while(input, stop, (LONGEST_OF_STRANGERS, GREETING), &mut || {})?;
    let line = line.ok_or_else(|| invalid("connection closed"))?;
    serde_json::from_str(&line).map_err(|error| invalid(format!("no message of weir agent: {error}")))
}

fn nonce() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Of a role and both nonces, so that neither side's proof serves as the other's.
fn keyed(secret: &[u8], role: &str, nonces: [&str; 2]) -> Hmac<Sha256> {
    // A key of any length will do.
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(secret).unwrap_or_else(|_| unreachable!("HMAC takes any key"));
    mac.update(format!("weir agent {VERSION} {role} {} {}", nonces[0], nonces[1]).as_bytes());
    mac
}

fn proof(secret: &[u8], role: &str, nonces: [&str; 2]) -> String {
    keyed(secret, role, nonces).finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// In constant time.
fn is_proof(secret: &[u8], role: &str, nonces: [&str; 2], given: &str) -> bool {
    let bytes: Option<Vec<u8>> = (0..given.len() / 2)
        .map(|n| given.get(2 * n..2 * n + 2).and_then(|two| u8::from_str_radix(two, 16).ok()))
        .collect();
    bytes.is_some_and(|bytes| keyed(secret, role, nonces).verify_slice(&bytes).is_ok())
}

/// The agent's side.
pub(super) fn prove_to_client(
    input: &mut impl BufRead,
    out: &mut impl Write,
    secret: &[u8],
    stop: &AtomicBool,
) -> io::Result<()> {
    let own = nonce()?;
    write_line(out, &Greeting { weir_agent: VERSION, nonce: own.clone() })?;
    let theirs: Proof = read(input, stop)?;
    let nonces = [own.as_str(), theirs.nonce.as_str()];
    if !is_proof(secret, "client", nonces, &theirs.proof) {
        write_line(out, &Answer::Refused { why: "wrong secret".to_owned() })?;
        return Err(invalid("wrong secret"));
    }
    write_line(out, &Proof { nonce: own.clone(), proof: proof(secret, "agent", nonces) })
}

/// The client's side.
pub(super) fn prove_to_agent(
    input: &mut impl BufRead,
    out: &mut impl Write,
    secret: &[u8],
    stop: &AtomicBool,
) -> io::Result<()> {
    let greeting: Greeting = read(input, stop)?;
    if greeting.weir_agent != VERSION {
        return Err(invalid(format!("the agent speaks version {}; this is version {VERSION}", greeting.weir_agent)));
    }
    let own = nonce()?;
    let nonces = [greeting.nonce.as_str(), own.as_str()];
    write_line(out, &Proof { nonce: own.clone(), proof: proof(secret, "client", nonces) })?;
    let line = read_line_while(input, stop, (LONGEST_OF_STRANGERS, GREETING), &mut || {})?;
    let line = line.ok_or_else(|| invalid("connection closed"))?;
    match serde_json::from_str::<Proof>(&line) {
        Ok(theirs) if is_proof(secret, "agent", nonces, &theirs.proof) => Ok(()),
        _ => Err(invalid("the agent has another secret")),
    }
}
