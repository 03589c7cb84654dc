//! Burst credit against an agent on another host: sent there and counted there, and the other way round.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use certificate::{BurstUnit, Certificate, Direction, Run, SCHEMA};

use super::burst::{BurstOptions, Device, Slice, allowance};
use super::{Progress, Steps, machine_facts};
use crate::agent::{Arrivals, Client, Receiver, send};
use crate::error::BenchError;
use crate::host::{CpuTime, date};
use crate::report::VERSION;

/// How burst credit is looked for.
#[derive(Clone, Debug)]
pub struct AgentBurst {
    /// The agent.
    pub agent: SocketAddr,
    /// Shared with it.
    pub secret: Vec<u8>,
    /// Received and sent, or one of them.
    pub directions: Vec<Direction>,
    /// Bytes and packets, or one of them.
    pub units: Vec<BurstUnit>,
    /// For all of it.
    pub minutes: f64,
    /// Bits of frames a second that are offered at most; infinite: what the sockets can send.
    pub peak_bits: f64,
    /// Baseline of bits a second, where it is known.
    pub baseline_bits: Option<f64>,
    /// Seconds of rest before each.
    pub rest_seconds: f64,
    /// The command line, for the certificate.
    pub command: String,
}

/// Frames that an allowance of bytes, or of packets, is looked for with; with FCS.
fn frame_bytes(unit: BurstUnit) -> u32 {
    match unit {
        BurstUnit::Bytes => 1400,
        BurstUnit::Packets => 64,
    }
}

/// Of the time of one allowance, the first peak.
const PEAK: f64 = 0.4;
/// Seconds of a sample, at least and at most.
const SLICE: (f64, f64) = (0.05, 5.0);
/// A sample is made of pieces so long: Ctrl-C waits for the end of one.
const PIECE: f64 = 0.4;

/// An agent as a device.
struct AgentDevice<'s> {
    client: Client,
    direction: Direction,
    unit: BurstUnit,
    /// Where packets are sent to.
    to: SocketAddr,
    receiver: Receiver,
    /// In what asks the agent's stream.
    key: u64,
    /// Datagrams that asked so far.
    asked: u64,
    stop: &'s AtomicBool,
}

impl AgentDevice<'_> {
    fn failed(error: std::io::Error) -> BenchError {
        match error.kind() {
            std::io::ErrorKind::Interrupted => BenchError::Interrupted,
            _ => BenchError::system("weir agent", error),
        }
    }

    fn arrivals(&mut self) -> Result<Arrivals, BenchError> {
        match self.direction {
            Direction::Out => self.client.count().map_err(Self::failed),
            Direction::In => Ok(self.receiver.arrivals()),
        }
    }

    fn piece(&mut self, pps: f64, seconds: f64) -> Result<Slice, BenchError> {
        let frame = frame_bytes(self.unit);
        let before = self.arrivals()?;
        let sent = match self.direction {
            Direction::Out => send(self.to, frame, pps, seconds, self.stop).map_err(Self::failed)?.0,
            Direction::In => {
                self.wait(seconds, pps)?;
                0
            }
        };
        let after = self.arrivals()?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        // What an agent has sent is in what it sends: an answer would be lost with other packets, and credit come back while
        // it is waited for.
        let sent = if self.direction == Direction::In { after.sent.saturating_sub(before.sent) } else { sent };
        if after.at_ns <= before.at_ns {
            return Err(BenchError::Agent("the clock of whoever counts stands still".to_owned()));
        }
        let (each, delivered) = match self.unit {
            BurstUnit::Bytes => (f64::from(frame - 4), after.bytes.saturating_sub(before.bytes)),
            BurstUnit::Packets => (1.0, after.packets.saturating_sub(before.packets)),
        };
        Ok(Slice {
            seconds: (after.at_ns - before.at_ns) as f64 / 1e9,
            offered: sent as f64 * each,
            delivered: delivered as f64,
            latency_us: after.latency_us,
        })
    }

    /// Lets time pass in which the agent sends at that rate, if it sends.
    fn wait(&mut self, seconds: f64, pps: f64) -> Result<(), BenchError> {
        let begun = Instant::now();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            // Silence of an agent that is gone is no limit.
            if self.client.is_gone() {
                return Err(BenchError::Agent("the agent closed the connection".to_owned()));
            }
            if self.direction == Direction::In {
                self.asked += 1;
                let is_there = self.receiver.ask(self.key, pps.min(1e12), self.asked);
                if !is_there && begun.elapsed() > SILENT {
                    return Err(BenchError::Agent("nothing of what the agent sends arrives here".to_owned()));
                }
            }
            let left = seconds - begun.elapsed().as_secs_f64();
            if left <= 0.0 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs_f64(left.min(0.05)));
        }
    }
}

/// An agent's stream is heard of by then.
const SILENT: Duration = Duration::from_secs(5);

impl Device for AgentDevice<'_> {
    type Error = BenchError;

    fn load(&mut self, per_second: f64, seconds: f64) -> Result<Slice, BenchError> {
        let each = match self.unit {
            BurstUnit::Bytes => f64::from(frame_bytes(self.unit) - 4),
            BurstUnit::Packets => 1.0,
        };
        let pieces = (seconds / PIECE).ceil().max(1.0) as u32;
        let mut all = Slice::default();
        for _ in 0..pieces {
            let piece = self.piece(per_second / each, seconds / f64::from(pieces))?;
            all.seconds += piece.seconds;
            all.offered += piece.offered;
            all.delivered += piece.delivered;
            all.latency_us = piece.latency_us.or(all.latency_us);
        }
        Ok(all)
    }

    fn idle(&mut self, seconds: f64) -> Result<(), BenchError> {
        self.wait(seconds, 0.0)
    }
}

fn device<'s>(
    burst: &AgentBurst,
    (direction, unit): (Direction, BurstUnit),
    stop: &'s Arc<AtomicBool>,
) -> Result<AgentDevice<'s>, BenchError> {
    let failed = AgentDevice::failed;
    let mut client = Client::connect(burst.agent, &burst.secret, stop).map_err(failed)?;
    // The agent's clock is ahead of ours by the opposite.
    let offset = -client.clock().map_err(failed)?.offset_ns;
    let local = SocketAddr::new(client.local().map_err(failed)?.ip(), 0);
    let receiver = Receiver::start(local, burst.agent.ip(), offset).map_err(failed)?;
    let to = match direction {
        Direction::Out => client.receive().map_err(failed)?,
        Direction::In => SocketAddr::new(local.ip(), receiver.port().map_err(failed)?),
    };
    let mut key = [0; 8];
    getrandom::fill(&mut key).map_err(|error| BenchError::system("random numbers", std::io::Error::other(error)))?;
    let key = u64::from_be_bytes(key);
    let mut device = AgentDevice { client, direction, unit, to, receiver, key, asked: 0, stop };
    if direction == Direction::In {
        device.client.stream(to.port(), frame_bytes(unit), key).map_err(failed)?;
        // Until it is heard of.
        let begun = Instant::now();
        while device.arrivals()?.packets == 0 && begun.elapsed() < SILENT {
            device.wait(0.05, 0.0)?;
        }
    }
    Ok(device)
}

/// Looks for burst credit by direction and unit. Interrupted, what was found so far is returned, marked incomplete.
///
/// # Errors
/// No agent is there, or it has another secret.
pub fn agent_burst(
    burst: &AgentBurst,
    stop: &Arc<AtomicBool>,
    show: &mut dyn FnMut(&Progress),
) -> Result<Certificate, BenchError> {
    let (begun, cpu, when) = (Instant::now(), CpuTime::now(), date());
    let all: Vec<(Direction, BurstUnit)> =
        burst.directions.iter().flat_map(|way| burst.units.iter().map(|unit| (*way, *unit))).collect();
    let each = (burst.minutes * 60.0 / all.len().max(1) as f64 - burst.rest_seconds).max(1.0);
    let name =
        |(direction, unit): &(Direction, BurstUnit)| format!("burst credit, {direction:?} {unit:?}").to_lowercase();
    let planned = all.iter().map(|one| (name(one), each + burst.rest_seconds)).collect();
    let (mut steps, mut found) = (Steps::new(planned, show, stop), Certificate::default());
    let mut done = Ok(());
    for (direction, unit) in &all {
        let per_unit = if *unit == BurstUnit::Bytes { 8.0 } else { 8.0 * f64::from(frame_bytes(*unit) - 4) };
        let options = BurstOptions {
            direction: *direction,
            unit: *unit,
            peak_per_second: burst.peak_bits / per_unit,
            rest_seconds: burst.rest_seconds,
            peak_seconds: each * PEAK,
            slice_seconds: (each * PEAK / 400.0).clamp(SLICE.0, SLICE.1),
            baseline_per_second: burst.baseline_bits.map(|bits| bits / per_unit),
        };
        done = steps
            .next()
            .and_then(|()| device(burst, (*direction, *unit), stop))
            .and_then(|mut device| allowance(&mut device, &options, &mut |_, _| {}))
            .map(|allowance| found.allowances.push(allowance));
        if done.is_err() {
            break;
        }
    }
    let is_complete = done.is_ok();
    match done {
        Ok(()) => {}
        Err(BenchError::Interrupted) => found.notes.push("interrupted: later steps were not made".to_owned()),
        Err(error) if found.allowances.is_empty() => return Err(error),
        Err(error) => found.notes.push(format!("ended early: {error}")),
    }
    if all.len() > 1 && burst.rest_seconds == 0.0 {
        let why = "no rest between measurements (--rest 0): later ones may have begun with part of the credit used";
        found.notes.push(why.to_owned());
    }
    found.notes.push("sent by UDP sockets: a limit of sender or receiver, whichever is lower".to_owned());
    Ok(Certificate {
        schema: SCHEMA,
        date: when,
        version: VERSION.to_owned(),
        host: machine_facts::host("the kernel's route to the agent".to_owned(), 1, CpuTime::now().since(&cpu).0),
        run: Run {
            command: burst.command.clone(),
            port: "udp".to_owned(),
            place: format!("this host and the agent {}", burst.agent),
            seconds: begun.elapsed().as_secs_f64(),
            is_complete,
        },
        ..found
    })
}
