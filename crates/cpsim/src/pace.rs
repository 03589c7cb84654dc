//! Things done at a rate.

use pfcp::node::Time;

/// How many are due. What could not be done in a tenth of a second is not made up for: rates are rates.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    per_second: f64,
    since: Time,
    owed: f64,
}

impl Pace {
    /// So many a second, the first one at once.
    pub fn new(per_second: f64) -> Self {
        Self { per_second, since: Time::ZERO, owed: 1.0 }
    }

    /// Whether none is ever due.
    pub fn is_zero(&self) -> bool {
        self.per_second <= 0.0
    }

    /// Takes one, if one is due.
    pub fn take(&mut self, now: Time) -> bool {
        if self.is_zero() {
            return false;
        }
        let most = (self.per_second / 10.0).max(1.0);
        let elapsed = now.saturating_sub(self.since).as_secs_f64();
        self.since = now;
        self.owed = (self.owed + elapsed * self.per_second).min(most);
        let is_due = self.owed >= 1.0;
        if is_due {
            self.owed -= 1.0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_whatever_the_steps() {
        for step in [1, 7, 50] {
            let mut pace = Pace::new(200.0);
            let mut taken = 0;
            for ms in (0..=1000).step_by(step) {
                while pace.take(Time::from_millis(ms)) {
                    taken += 1;
                }
            }
            assert!((198..=201).contains(&taken), "{taken} in steps of {step} ms");
        }
    }

    #[test]
    fn a_pause_is_not_made_up_for() {
        let mut pace = Pace::new(100.0);
        let taken = std::iter::repeat_with(|| pace.take(Time::from_secs(60))).take_while(|taken| *taken).count();
        assert_eq!(taken, 10);
        assert!(!Pace::new(0.0).take(Time::from_secs(1)));
    }
}
