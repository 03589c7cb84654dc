//! Not more than so many a second.

use super::Time;
use std::time::Duration;

/// A token bucket, kept as the time it will be full again (the generic cell rate algorithm).
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    full_at: Time,
    /// What one message costs.
    each: Duration,
    /// What the bucket holds.
    depth: Duration,
}

impl Pace {
    /// `rate` a second, `burst` at once.
    pub fn new(rate: u32, burst: u32) -> Pace {
        let each = Duration::from_secs(1) / rate.max(1);
        Pace { full_at: Time::ZERO, each, depth: each * burst.max(1) }
    }

    /// Another rate and burst from now on; what has passed counts as it did.
    pub fn set(&mut self, rate: u32, burst: u32) {
        *self = Pace { full_at: self.full_at, ..Pace::new(rate, burst) };
    }

    /// Whether one more may pass now.
    pub fn pass(&mut self, now: Time) -> bool {
        let full_at = self.full_at.max(now) + self.each;
        let passes = full_at <= now + self.depth;
        if passes {
            self.full_at = full_at;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_at_once_and_the_rate_later() {
        let mut pace = Pace::new(1000, 10);
        let passed = |pace: &mut Pace, now| (0..100).filter(|_| pace.pass(now)).count();
        assert_eq!(passed(&mut pace, Time::from_secs(5)), 10);
        assert_eq!(passed(&mut pace, Time::from_millis(5_003)), 3);
        assert_eq!(passed(&mut pace, Time::from_secs(9)), 10);
        pace.set(2000, 4);
        assert_eq!(passed(&mut pace, Time::from_secs(9)), 0);
        assert_eq!(passed(&mut pace, Time::from_secs(10)), 4);
    }
}
