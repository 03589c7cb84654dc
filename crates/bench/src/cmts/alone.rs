//! The cipher without a gateway: the same sizes, as many keys, CRC and encryption.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crypto::{Crc, Direction, Engine, Job, Key, KeyId};
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
    workload: Workload,
    next: usize,
}

impl Alone {
    /// With a key for each modem.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(settings: &CableSettings) -> Result<Self, BenchError> {
        let (arena, pool) = stock(512)?;
        let mut engine = Engine::new(Direction::Encrypt);
        let key = |n: u32| Key::aes128(u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), [7; 16]);
        let keys = (0..settings.subscribers()).map(|n| engine.insert(&key(n))).collect();
        Ok(Self { pool, arena, engine, keys, workload: settings.downstream(), next: 0 })
    }

    /// What encrypts.
    pub fn cipher(&self) -> &'static str {
        self.engine.by()
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
                let job = Job { key, at: 0, crc: Crc::Done, tag: 0 };
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
        let run = || {
            // The first CPU has the machine's interrupts.
            cpus().last().map(|cpu| pin(*cpu));
            urge(Urgency::Packets);
            self.cycles(how.measure)
        };
        let ran = std::thread::scope(|scope| scope.spawn(run).join());
        let mpps = tsc_hz() as f64 / ran.map_err(|_| BenchError::Died("thread of a trial"))? / 1e6;
        Ok(Window { traffic: TrialResult { mpps, ..TrialResult::default() }, ..Window::default() })
    }

    fn close(self: Box<Self>) -> Result<Closing, BenchError> {
        Ok(Closing::default())
    }
}
