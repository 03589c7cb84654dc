//! Service flows that are sent more than they may: what reaches their modems, in simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::Time;
use frame::Pool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::Clock;
use traffic::cable::CLASSES;

use super::limits::Limits;
use super::settings::CableSettings;
use super::under::Cable;
use crate::crew::Working;
use crate::error::BenchError;
use crate::options::PortKind;
use crate::socket::arena;
use crate::under_test::{FarSide, MemoryLoad, Share, UnderTest};

/// The rate of every service flow, in bit/s.
const RATE: u64 = 2_000_000;
/// Modems: a flow of the least share is then sent twice its rate.
const MODEMS: u16 = 30;
/// Time of a turn, in nanoseconds: a burst of 64 packets in it is 4 Gbit/s.
const STEP_NS: u64 = 128_000;
/// Turns before counting: full bursts are gone then.
const WARM: u64 = 4_000;
/// Turns counted.
const TURNS: u64 = 24_000;

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Service flows that were sent more than their rate.
    pub flows: usize,
    /// Their maximum sustained rate, in bit/s.
    pub rate: u64,
    /// The least by which one was below its rate, or the most by which one was above, as a part of the rate: the worst.
    pub worst: f64,
    /// The mean of what reached them, as a part of the rate.
    pub mean: f64,
    /// Packets out of order within a service flow.
    pub reordered: u64,
}

/// Measures it.
///
/// # Errors
/// What cannot be.
pub fn rates(settings: &CableSettings, stop: &AtomicBool) -> Result<Rates, BenchError> {
    let settings = CableSettings {
        groups: 1,
        modems: MODEMS,
        workers: 1,
        downstream: true,
        limits: Limits {
            rates: true,
            rate: Some(RATE),
            // Small, or the smallest packets of thirty flows would take all places there are.
            buffer: 16 * 1024,
            ..Limits::off()
        },
        upstream: 0.0,
        size: None,
        ..settings.clone()
    };
    let hand = Arc::new(AtomicU64::new(1_000_000_000));
    let under = Cable::timed(&settings, PortKind::Memory, Clock::Simulated(hand.clone()))?;
    let seat = under.assemble(1, &under.memory_ports())?.workers.into_iter().next();
    let (seat, users) = seat.ok_or_else(|| BenchError::Gateway("no worker".into()))?;
    let FarSide { ports, load, .. } = under.far_side(&Share { workers: 1, worker: 0, users, first_flow: 0 })?;
    let arena = arena(under.frames())?;
    let pool = Pool::new(&arena, under.frames().slots as usize);
    let mut worker = Working::timed(seat, pool, ports, Time::Simulated(hand.clone()));
    let mut turn = || {
        // A burst from the network: bursts are less than the channels carry.
        load.start(None);
        worker.turns(1);
        load.stop();
        // What the queues let go of now.
        for _ in 0..3 {
            hand.fetch_add(STEP_NS / 4, Ordering::Relaxed);
            worker.turns(1);
        }
        hand.fetch_add(STEP_NS / 4, Ordering::Relaxed);
    };
    let mut turns = |count| {
        for _ in 0..count {
            if stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            turn();
        }
        Ok(())
    };
    turns(WARM)?;
    // What waits in order is delivered late, not lost: both ends of the time are alike.
    let ends = &under.ends()[0];
    ends.devices().0.count_from(0);
    turns(TURNS)?;
    let devices = ends.devices();
    let seconds = (TURNS * STEP_NS) as f64 / 1e9;
    let flows = devices.0.flows();
    let parts: Vec<f64> = flows.iter().map(|flow| flow.bytes as f64 * 8.0 / seconds / RATE as f64).collect();
    let worst =
        parts.iter().map(|part| part - 1.0).fold(0.0, |worst: f64, by| if by.abs() > worst.abs() { by } else { worst });
    let found = Rates {
        flows: parts.len(),
        rate: RATE,
        worst,
        mean: parts.iter().sum::<f64>() / parts.len() as f64,
        reordered: devices.0.heard().reordered,
    };
    debug_assert_eq!(found.flows, usize::from(MODEMS) * CLASSES as usize);
    Ok(found)
}
