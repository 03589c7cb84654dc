//! Devices with a known rate, for tests of searches. All arithmetic is of whole numbers, and is the same in
//! `tests/judge/mlrsearch.py`.

use std::convert::Infallible;
use std::time::Duration;

use serde::Serialize;

use super::{Outcome, Trial};

/// A device whose true rate is known, for tests of searches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Packets a second that it forwards without loss.
    pub capacity_pps: u64,
    /// Of each packet over the capacity, this part costs another packet, in millionths: overload that makes it slower.
    pub degrade_ppm: u64,
    /// 0: all packets over the capacity are lost, and no others (a cliff). Else the part of packets that are lost is this,
    /// in millionths, times the part by which the load is over the capacity (a slope).
    pub slope_ppm: u64,
    /// The capacity of each trial is off by up to so much, in millionths.
    pub noise_ppm: u64,
    /// So many trials of a million lose a packet at any load.
    pub stray_ppm: u64,
    /// Of the noise.
    pub seed: u64,
    /// Packets a second that the generator sends at most; 0: any.
    pub generator_pps: u64,
    /// Trials so far.
    #[serde(skip)]
    pub trials: u64,
}

impl Device {
    /// All packets over the capacity are lost, and no others.
    pub fn cliff(capacity_pps: u64) -> Self {
        Self { capacity_pps, ..Self::default() }
    }

    /// Loss grows from the capacity on by `slope_ppm`.
    pub fn slope(capacity_pps: u64, slope_ppm: u64) -> Self {
        Self { slope_ppm, ..Self::cliff(capacity_pps) }
    }

    /// A cliff that is at another rate in each trial, by up to `noise_ppm`.
    pub fn noise(capacity_pps: u64, noise_ppm: u64, seed: u64) -> Self {
        Self { noise_ppm, seed, ..Self::cliff(capacity_pps) }
    }

    /// The load at which as many trials as not lose more than `loss_ratio`, in packets a second.
    pub fn truth(&self, loss_ratio: f64) -> f64 {
        let capacity = self.capacity_pps as f64;
        match self.slope_ppm {
            // Lost: (1 + degrade) (load - capacity).
            0 => {
                let more = 1.0 + self.degrade_ppm as f64 / 1e6;
                capacity * more / (more - loss_ratio)
            }
            slope => capacity * (1.0 + loss_ratio * 1e6 / slope as f64),
        }
    }

    /// Packets sent and forwarded of a trial, after `self.trials` others.
    pub fn play(&mut self, load_pps: u64, ms: u64) -> (u64, u64) {
        let (noise, stray) = (random(self.seed, 2 * self.trials), random(self.seed, 2 * self.trials + 1));
        self.trials += 1;
        let factor = 1_000_000 + noise % (2 * self.noise_ppm + 1) - self.noise_ppm;
        let capacity = self.capacity_pps * factor / 1_000_000;
        let load = if self.generator_pps > 0 { load_pps.min(self.generator_pps) } else { load_pps };
        let sent = load * ms / 1000;
        let over = load.saturating_sub(capacity);
        let lost = match self.slope_ppm {
            0 => (over * ms / 1000) * (1_000_000 + self.degrade_ppm) / 1_000_000,
            slope => sent * (over * slope / capacity).min(1_000_000) / 1_000_000,
        };
        let lost = lost + u64::from(stray % 1_000_000 < self.stray_ppm);
        (sent, sent.saturating_sub(lost))
    }
}

/// The `n`-th number of a seed (SplitMix64).
fn random(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Trial for Device {
    type Error = Infallible;

    fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, Infallible> {
        let (load, ms) = (load.round() as u64, duration.as_millis() as u64);
        let intended = load * ms / 1000;
        let (sent, forwarded) = self.play(load, ms);
        Ok(Outcome {
            intended_packets: intended,
            sent_packets: sent,
            forwarded_packets: forwarded,
            lost_packets: intended - forwarded,
            elapsed_seconds: duration.as_secs_f64(),
            ..Outcome::default()
        })
    }
}
