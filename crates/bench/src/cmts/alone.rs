//! The cipher without a gateway, on the same sizes with as many keys: the library by its own calls, and the gateway's
//! engine around it. CRC and encryption as downstream; where there is no traffic downstream, decryption as upstream.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crypto::{Crc, Direction, Engine, Job, Key, KeyId, Library as Calls};
use frame::{Arena, Pool};
use table::hint::{tsc, tsc_hz};
use traffic::TrialResult;
use traffic::cable::Workload;

use super::settings::CableSettings;
use crate::error::BenchError;
use crate::socket::stock;
use crate::thread::{Urgency, cpus, pin, urge};
use crate::window::{Closing, How, Rig, Window};

const BURST: usize = 64;

/// An engine with nothing but packets.
pub struct Alone {
    arena: Arc<Arena>,
    pool: Pool,
    engine: Engine,
    keys: Vec<KeyId>,
    crc: Crc,
    workload: Workload,
    next: usize,
}

/// Which way the cipher goes, and whether it sees to the CRC.
fn way(settings: &CableSettings) -> (Direction, Crc) {
    if settings.downstream { (Direction::Encrypt, Crc::Done) } else { (Direction::Decrypt, Crc::Left) }
}

/// A key for each modem.
fn keys(settings: &CableSettings) -> Vec<Key> {
    let key = |n: u32| Key::aes128(u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), [7; 16]);
    (0..settings.subscribers()).map(key).collect()
}

/// Packets of the workload's sizes.
fn sizes(settings: &CableSettings) -> Workload {
    Workload::new(&settings.ciphered(), settings.modems.into(), false)
}

/// The library by its own calls.
pub struct Library {
    calls: Calls,
    workload: Workload,
    next: usize,
}

impl Library {
    /// With a key for each modem.
    pub fn new(settings: &CableSettings) -> Self {
        Self { calls: Calls::new(way(settings).0, &keys(settings)), workload: sizes(settings), next: 0 }
    }

    /// What it is.
    pub fn name(&self) -> &'static str {
        self.calls.name()
    }

    /// Cycles a packet of the workload's sizes.
    fn cycles(&mut self, time: Duration) -> f64 {
        let begin = Instant::now();
        let (mut cycles, mut packets) = (0, 0u64);
        while begin.elapsed() < time {
            for _ in 0..Calls::BURST {
                // As a gateway would have touched it.
                self.next += 1;
                packets += u64::from(self.calls.put(usize::from(self.workload.next(0).size), self.next as u8));
            }
            let from = tsc();
            self.calls.run();
            cycles += tsc().wrapping_sub(from);
        }
        cycles as f64 / packets.max(1) as f64
    }
}

impl Rig for Library {
    fn window(&mut self, how: &How, _stop: &AtomicBool) -> Result<Window, BenchError> {
        apart(|| self.cycles(how.measure))
    }

    fn close(self: Box<Self>) -> Result<Closing, BenchError> {
        Ok(Closing::default())
    }
}

/// Runs it on a thread as gateways' workers have them. It returns cycles a packet.
fn apart(run: impl FnOnce() -> f64 + Send) -> Result<Window, BenchError> {
    let run = || {
        // The first CPU has the machine's interrupts.
        cpus().last().map(|cpu| pin(*cpu));
        urge(Urgency::Packets);
        run()
    };
    let ran = std::thread::scope(|scope| scope.spawn(run).join());
    let mpps = tsc_hz() as f64 / ran.map_err(|_| BenchError::Died("thread of a trial"))? / 1e6;
    Ok(Window { traffic: TrialResult { mpps, ..TrialResult::default() }, ..Window::default() })
}

impl Alone {
    /// With a key for each modem.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(settings: &CableSettings) -> Result<Self, BenchError> {
        let (arena, pool) = stock(512)?;
        let (direction, crc) = way(settings);
        let mut engine = Engine::new(direction);
        let keys = keys(settings).iter().map(|key| engine.insert(key)).collect();
        Ok(Self { pool, arena, engine, keys, crc, workload: sizes(settings), next: 0 })
    }

    /// Cycles a packet of the workload's sizes.
    fn cycles(&mut self, time: Duration) -> f64 {
        let begin = Instant::now();
        let (mut cycles, mut packets) = (0, 0u64);
        while begin.elapsed() < time {
            let mut burst = Vec::with_capacity(BURST);
            while burst.len() < BURST {
                let Some(mut frame) = self.pool.take() else { break };
                self.arena.set_len(&mut frame, usize::from(self.workload.next(0).size));
                // As a gateway would have touched it.
                self.arena.bytes_mut(&mut frame).fill(self.next as u8);
                burst.push((frame, self.keys[self.next % self.keys.len()]));
                self.next += 1;
            }
            packets += burst.len() as u64;
            let from = tsc();
            for (frame, key) in burst {
                let job = Job { key, at: 0, crc: self.crc, tag: 0 };
                if let Err(frame) = self.engine.push(frame, job) {
                    self.pool.give(frame);
                }
            }
            self.engine.run(&self.arena);
            while let Some(done) = self.engine.pop() {
                self.pool.give(done.frame);
            }
            cycles += tsc().wrapping_sub(from);
        }
        cycles as f64 / packets.max(1) as f64
    }
}

impl Rig for Alone {
    fn window(&mut self, how: &How, _stop: &AtomicBool) -> Result<Window, BenchError> {
        apart(|| self.cycles(how.measure))
    }

    fn close(self: Box<Self>) -> Result<Closing, BenchError> {
        Ok(Closing::default())
    }
}
