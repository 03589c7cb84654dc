//! The rate of a port, shared by the workers that send by it.
//!
//! Time that a port may be busy is its credit: it accrues by the clock, and one atomic says up to when it is spent. A worker
//! with a backlog takes at most once a millisecond what its weight among the backlogged workers gives it, and what others left
//! over; what it does not need it gives back. Nothing waits for another worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a worker asks, in nanoseconds, at most.
pub const INTERVAL_NS: u64 = 1_000_000;
/// Unused credit that is kept, in nanoseconds of the port.
const KEPT_NS: u64 = 2 * INTERVAL_NS;
/// Nanoseconds of credit are counted in 2⁻⁸, so that small weights are not rounded to nothing.
const FRACTION: u32 = 8;

/// What the workers of a port share.
#[derive(Debug)]
struct Shared {
    /// Bytes a second.
    rate: u64,
    /// Up to when time is spent: nanoseconds, in 2⁻⁸ of them.
    spent: AtomicU64,
    /// The weights of all workers with a backlog.
    weight: AtomicU64,
}

/// A worker's lease of a port's rate.
#[derive(Debug)]
pub struct Lease {
    port: Arc<Shared>,
    /// Its own part of `Shared::weight`.
    weight: u64,
    /// When it asked last, in nanoseconds.
    asked: u64,
    /// Nanoseconds of the port that it may use, in 2⁻⁸; negative after a frame that was longer.
    credit: i64,
}

impl Lease {
    /// Leases of a port of `rate` bit/s, one for each of its `workers`. Time begins at `now`, in nanoseconds.
    pub fn among(rate: u64, workers: usize, now: u64) -> Vec<Self> {
        let spent = AtomicU64::new(now << FRACTION);
        let port = Arc::new(Shared { rate: (rate / 8).max(1), spent, weight: AtomicU64::new(0) });
        (0..workers).map(|_| Self { port: port.clone(), weight: 0, asked: now, credit: 0 }).collect()
    }

    /// The worker's turn: `weight` is that of what is backlogged on it, 0: nothing is. Once in [`INTERVAL_NS`] it takes
    /// credit, or gives back what it does not need.
    #[inline]
    pub fn turn(&mut self, weight: u64, now: u64) {
        if weight != self.weight {
            self.reweigh(weight, now);
        }
        if now.saturating_sub(self.asked) >= INTERVAL_NS {
            self.ask(now);
        }
    }

    /// Whether a frame may go. What it takes is known by [`spend`](Self::spend): the last frame of a lease may be longer than
    /// what is left, and the next lease pays for it.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.credit > 0
    }

    /// A frame of so many bytes goes, with all that the link puts around it.
    #[inline]
    pub fn spend(&mut self, bytes: u32) {
        let ns = (u64::from(bytes) * (1_000_000_000 << FRACTION)) / self.port.rate;
        self.credit -= ns as i64; // at most a few milliseconds
    }

    #[cold]
    fn reweigh(&mut self, weight: u64, now: u64) {
        if weight > self.weight {
            self.port.weight.fetch_add(weight - self.weight, Ordering::Relaxed);
        } else {
            self.port.weight.fetch_sub(self.weight - weight, Ordering::Relaxed);
        }
        if self.weight == 0 {
            // What accrued before it had a backlog is not its own.
            self.asked = self.asked.max(now.saturating_sub(INTERVAL_NS));
        }
        self.weight = weight;
        if weight == 0 && self.credit > 0 {
            self.port.spent.fetch_sub(self.credit as u64, Ordering::Relaxed);
            self.credit = 0;
        }
    }

    #[inline(never)]
    fn ask(&mut self, now: u64) {
        let since = now.saturating_sub(self.asked).min(KEPT_NS);
        self.asked = now;
        let all = self.port.weight.load(Ordering::Relaxed);
        if self.weight == 0 || all == 0 {
            return;
        }
        let share = (u128::from(since << FRACTION) * u128::from(self.weight) / u128::from(all)) as u64;
        // Two intervals of its share are enough to hold; what is beyond would only be kept from others.
        let most = (2 * share as i64).saturating_sub(self.credit).max(0) as u64;
        let (clock, kept, left) = (now << FRACTION, KEPT_NS << FRACTION, INTERVAL_NS << FRACTION);
        let mut taken = 0;
        let take = |spent: u64| {
            let from = spent.max(clock.saturating_sub(kept));
            let there = clock.saturating_sub(from);
            taken = share.min(most).saturating_add(there.saturating_sub(left)).min(there);
            Some(from + taken)
        };
        let _ = self.port.spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        self.credit += taken as i64; // at most two milliseconds
    }
}

impl std::ops::Drop for Lease {
    fn drop(&mut self) {
        self.port.weight.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const RATE: u64 = 10_000_000_000;
    const FRAME: u32 = 1000;

    /// Bytes that workers of those weights send from `begin` on for `ms`; each looks every 20 µs, shifted by its number.
    fn send(leases: &mut [Lease], weights: &[u64], begin: u64, ms: u64) -> Vec<u64> {
        let mut sent = vec![0; leases.len()];
        for now in (begin..begin + ms * MS).step_by(20_000) {
            for (n, lease) in leases.iter_mut().enumerate() {
                lease.turn(weights[n], now + n as u64);
                while weights[n] > 0 && lease.may_send() {
                    lease.spend(FRAME);
                    sent[n] += u64::from(FRAME);
                }
            }
        }
        sent
    }

    fn of_port(ms: u64) -> f64 {
        (RATE / 8 / 1000 * ms) as f64
    }

    #[test]
    fn one_backlogged_worker_has_the_port_in_5_ms() {
        for workers in [1, 2, 16, 64] {
            let mut leases = Lease::among(RATE, workers, 0);
            let mut weights = vec![1; workers];
            send(&mut leases, &weights, 0, 20);
            weights[1..].fill(0);
            send(&mut leases, &weights, 20 * MS, 5);
            let sent = send(&mut leases, &weights, 25 * MS, 50);
            assert!((sent[0] as f64 / of_port(50) - 1.0).abs() < 0.03, "{workers} workers: {}", sent[0]);
        }
    }

    #[test]
    fn backlogged_workers_share_by_weight() {
        for workers in [2, 3, 16, 64] {
            let mut leases = Lease::among(RATE, workers, 0);
            let weights: Vec<u64> = (0..workers as u64).map(|n| 1 + n % 4).collect();
            send(&mut leases, &weights, 0, 20);
            let sent = send(&mut leases, &weights, 20 * MS, 1000);
            let all: u64 = weights.iter().sum();
            for (n, sent) in sent.iter().enumerate() {
                let wanted = of_port(1000) * weights[n] as f64 / all as f64;
                assert!((*sent as f64 / wanted - 1.0).abs() < 0.01, "{workers} workers: {n} sent {sent} of {wanted}");
            }
        }
    }

    #[test]
    fn port_is_never_given_more_than_its_rate() {
        let mut leases = Lease::among(RATE, 8, 0);
        let mut sum = 0;
        for round in 0..200 {
            let weights: Vec<u64> = (0..8).map(|n| (round * 7 + n * n) % 3).collect();
            sum += send(&mut leases, &weights, round * 3 * MS, 3).iter().sum::<u64>();
        }
        // Beyond the rate: what is kept at the beginning, and a frame of each worker.
        assert!(sum as f64 <= of_port(600 + 2) + f64::from(8 * FRAME), "{sum}");
    }
}
