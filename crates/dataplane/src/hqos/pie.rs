//! PIE, active queue management by latency, for queues with two rates (RFC 8034; CM-SP-MULPI, annex M).
//! Probabilities are computed every interval, off the packet path.

/// What it aims at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieConfig {
    /// Latency to keep, in nanoseconds.
    pub target_ns: u64,
    /// Nanoseconds in which a burst passes undisturbed.
    pub burst_ns: u64,
}

impl Default for PieConfig {
    fn default() -> Self {
        Self { target_ns: 10_000_000, burst_ns: 142_000_000 }
    }
}

/// Nanoseconds between computations.
pub const INTERVAL_NS: u64 = 16_000_000;
const A: f64 = 0.25;
const B: f64 = 2.5;
const MEAN_PACKET: f64 = 1024.0;
const PROB_LOW: f64 = 0.85;
const PROB_HIGH: f64 = 8.5;
/// Latency beyond which the probability rises regardless, in seconds.
const LATENCY_HIGH: f64 = 0.2;

/// The state of one queue.
#[derive(Clone, Copy, Debug)]
pub struct Pie {
    probability: f32,
    accumulated: f32,
    delay_old: f32,
    burst_left_ns: u64,
    next_ns: u64,
    random: u32,
}

impl Pie {
    /// A queue that was always short.
    pub fn new(now: u64) -> Self {
        Self {
            probability: 0.0,
            accumulated: 0.0,
            delay_old: 0.0,
            burst_left_ns: PieConfig::default().burst_ns,
            next_ns: now,
            random: now as u32 ^ (now >> 32) as u32 | 1,
        }
    }

    /// Words of [`words`](Self::words).
    pub(super) const WORDS: usize = 6;

    /// Its state as numbers.
    pub(super) fn words(&self) -> [u64; Self::WORDS] {
        let [probability, accumulated, delay] =
            [self.probability, self.accumulated, self.delay_old].map(|value| u64::from(value.to_bits()));
        [probability, accumulated, delay, self.burst_left_ns, self.next_ns, self.random.into()]
    }

    /// Of [`words`](Self::words).
    pub(super) fn of([probability, accumulated, delay, burst_left_ns, next_ns, random]: [u64; Self::WORDS]) -> Self {
        // As they were written.
        let value = |bits: u64| Some(f32::from_bits(bits as u32)).filter(|value| value.is_finite()).unwrap_or(0.0);
        let (probability, accumulated, delay_old) = (value(probability), value(accumulated), value(delay));
        Self { probability, accumulated, delay_old, burst_left_ns, next_ns, random: random as u32 | 1 }
    }

    /// Whether it is time to [`update`](Self::update).
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.next_ns
    }

    /// The drop probability.
    pub fn probability(&self) -> f32 {
        self.probability
    }

    /// Computes the probability anew: `bytes` wait, `credit` bytes of them may go at the peak rate (bit/s), the others at
    /// the sustained rate.
    pub fn update(&mut self, config: &PieConfig, now: u64, bytes: u64, credit: u64, sustained: u64, peak: u64) {
        self.next_ns = now + INTERVAL_NS;
        let seconds = |bytes: u64, rate: u64| if bytes == 0 { 0.0 } else { bytes as f64 * 8.0 / rate.max(1) as f64 };
        let fast = bytes.min(credit);
        let delay = seconds(fast, peak) + seconds(bytes - fast, sustained);
        let target = config.target_ns as f64 / 1e9;
        let old = f64::from(self.delay_old);
        let mut probability = f64::from(self.probability);
        if self.burst_left_ns > 0 {
            probability = 0.0;
        } else {
            let mut p = A * (delay - target) + B * (delay - old);
            // Small probabilities move in small steps (RFC 8034, 4.2).
            p *= match probability {
                p if p < 0.000_001 => 1.0 / 2048.0,
                p if p < 0.000_01 => 1.0 / 512.0,
                p if p < 0.000_1 => 1.0 / 128.0,
                p if p < 0.001 => 1.0 / 32.0,
                p if p < 0.01 => 1.0 / 8.0,
                p if p < 0.1 => 1.0 / 2.0,
                p if p < 1.0 => 2.0,
                p if p < 10.0 => 8.0,
                _ => 32.0,
            };
            if (0.1..1.0).contains(&probability) && p > 0.02 {
                p = 0.02;
            }
            probability += p;
            if delay < 0.005 && old < 0.005 {
                probability *= 0.98;
            } else if delay > LATENCY_HIGH {
                probability += 0.02;
            }
            probability = probability.clamp(0.0, PROB_LOW * MEAN_PACKET / 64.0);
        }
        if self.burst_left_ns > INTERVAL_NS {
            self.burst_left_ns -= INTERVAL_NS;
        } else {
            self.burst_left_ns = 0;
        }
        if delay < target / 2.0 && old < target / 2.0 && probability < 0.000_001 {
            self.burst_left_ns = config.burst_ns;
        }
        (self.delay_old, self.probability) = (delay as f32, probability as f32);
        if probability == 0.0 {
            self.accumulated = 0.0;
        }
    }

    /// Whether a packet of `len` bytes that comes to `waiting` bytes is dropped (RFC 8034, 4.1).
    #[inline]
    pub fn drops(&mut self, config: &PieConfig, len: u32, waiting: u64) -> bool {
        if self.probability == 0.0 {
            self.accumulated = 0.0;
            return false;
        }
        self.decide(config, len, waiting)
    }

    #[cold]
    fn decide(&mut self, config: &PieConfig, len: u32, waiting: u64) -> bool {
        let p = (f64::from(self.probability) * f64::from(len) / MEAN_PACKET).min(PROB_LOW);
        let accumulated = f64::from(self.accumulated) + p;
        self.accumulated = accumulated as f32;
        let half = config.target_ns as f64 / 2e9;
        if f64::from(self.delay_old) < half && self.probability < 0.2 || waiting <= 2 * MEAN_PACKET as u64 {
            return false;
        }
        if accumulated < PROB_LOW {
            return false;
        }
        // Xorshift (Marsaglia): drops need not be unpredictable, only spread.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        let drop = accumulated >= PROB_HIGH || f64::from(self.random) / f64::from(u32::MAX) < p;
        if drop {
            self.accumulated = 0.0;
        }
        drop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_queue_is_dropped_from_and_a_short_one_is_left_alone() {
        let config = PieConfig::default();
        let (mut pie, mut now) = (Pie::new(0), 0);
        // 10 Mbit/s and 100 kB: 80 ms, with bursts allowed for the first 142 ms.
        for round in 0..200 {
            pie.update(&config, now, 100_000, 0, 10_000_000, 10_000_000);
            now += INTERVAL_NS;
            assert!(round > 8 || pie.probability() == 0.0, "round {round}");
        }
        assert!(pie.probability() > 0.01, "{}", pie.probability());
        let dropped = (0..10_000).filter(|_| pie.drops(&config, 1024, 100_000)).count();
        assert!(dropped > 50, "{dropped}");
        assert!(!pie.drops(&config, 1024, 1500), "two packets may always wait");
        for _ in 0..2000 {
            pie.update(&config, now, 0, 0, 10_000_000, 10_000_000);
            now += INTERVAL_NS;
        }
        assert!(pie.probability() < 0.001, "{}", pie.probability());
    }
}
