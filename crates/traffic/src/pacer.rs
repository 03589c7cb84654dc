//! How many packets are due.

/// Decides how many packets of one direction are due, from the time alone: absolute, so nothing drifts; O(1) however
/// many flows there are, because all flows of a plan have the same rate. Owned by whoever sends.
///
/// Every packet that should have been sent by now is one of three: taken, still due, or missed because the sender fell
/// behind further than it may catch up.
#[derive(Clone, Debug)]
pub struct Pacer {
    pace: Pace,
    taken: u64,
    missed: u64,
}

#[derive(Clone, Debug)]
enum Pace {
    /// As many as can be sent.
    Max,
    Paced {
        start_ns: u64,
        pps: f64,
        ramp_ns: f64,
        catch_up: u64,
    },
}

impl Pacer {
    /// As many as can be sent.
    pub fn unlimited() -> Self {
        Self { pace: Pace::Max, taken: 0, missed: 0 }
    }

    /// `pps` packets a second from `start_ns` on, rising from zero in a straight line during the first `ramp_ns`. A
    /// sender that was kept from sending makes good for at most `catch_up_ns`, and at least one packet.
    pub fn new(pps: f64, start_ns: u64, ramp_ns: u64, catch_up_ns: u64) -> Self {
        let pps = pps.max(0.0);
        let catch_up = ((pps * catch_up_ns as f64 / 1e9) as u64).max(1);
        let pace = Pace::Paced { start_ns, pps, ramp_ns: ramp_ns as f64, catch_up };
        Self { pace, taken: 0, missed: 0 }
    }

    /// Packets that should have been sent by `now_ns`; without a rate, those that were.
    pub fn offered(&self, now_ns: u64) -> u64 {
        match self.pace {
            Pace::Max => self.taken,
            Pace::Paced { start_ns, pps, ramp_ns, .. } => {
                // 2⁵³ ns are 104 days: the product is exact to a packet in any trial.
                let t = now_ns.saturating_sub(start_ns) as f64;
                let full = if t < ramp_ns { t * t / (2.0 * ramp_ns) } else { t - ramp_ns / 2.0 };
                // Rounding must not take packets back where the ramp ends.
                ((full * pps / 1e9) as u64).max(self.taken + self.missed)
            }
        }
    }

    /// Packets to send now. What is due longer than may be caught up with is given up as missed.
    pub fn due(&mut self, now_ns: u64) -> u64 {
        let Pace::Paced { catch_up, .. } = self.pace else { return u64::MAX };
        let due = self.offered(now_ns) - self.taken - self.missed;
        let late = due.saturating_sub(catch_up);
        self.missed += late;
        due - late
    }

    /// Notes that `n` of the due packets have been sent.
    pub fn take(&mut self, n: u64) {
        self.taken += n;
    }

    /// Packets taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Packets given up.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_ramp_is_a_straight_line() {
        let pacer = Pacer::new(1e6, 0, 2 * SECOND, SECOND);
        let at = |ms: u64| pacer.offered(ms * 1_000_000);
        assert_eq!((at(0), at(1000), at(2000), at(3000)), (0, 250_000, 1_000_000, 2_000_000));
    }

    #[test]
    fn falling_behind_is_missed_not_hidden() {
        let mut pacer = Pacer::new(1e6, 0, 0, 5_000_000);
        assert_eq!(pacer.due(SECOND), 5000);
        assert_eq!((pacer.missed(), pacer.taken(), pacer.offered(SECOND)), (995_000, 0, 1_000_000));
        pacer.take(5000);
        assert_eq!((pacer.due(SECOND), pacer.due(SECOND + 1000)), (0, 1));
    }

    #[test]
    fn no_rate_is_any_rate() {
        let mut pacer = Pacer::unlimited();
        assert_eq!(pacer.due(0), u64::MAX);
        pacer.take(7);
        assert_eq!((pacer.offered(SECOND), pacer.missed()), (7, 0));
        assert_eq!(Pacer::new(0.0, 0, 0, 0).due(SECOND), 0);
        assert_eq!(Pacer::new(1e6, SECOND, 0, 0).due(0), 0);
    }

    proptest! {
        /// Whatever the rate and however unevenly it is asked, each whole second has its packets to 0.1 % (and one).
        #[test]
        fn every_second_is_exact(
            pps in 1.0f64..20e6, start in 0u64..1 << 50, seed in prop::collection::vec(1u64..3_000_000, 50),
        ) {
            let mut pacer = Pacer::new(pps, start, 0, 10_000_000);
            let (mut now, mut steps) = (start, seed.iter().cycle());
            for second in 1..=5u64 {
                let (begin, end) = (pacer.taken(), start + second * SECOND);
                while now < end {
                    now = (now + steps.next().unwrap()).min(end);
                    let due = pacer.due(now);
                    pacer.take(due);
                }
                let sent = (pacer.taken() - begin) as f64;
                prop_assert!((sent - pps).abs() <= 1.0 + pps / 1000.0, "{} {}", sent, pps);
                prop_assert!((pacer.taken() as f64 - pps * second as f64).abs() <= 1.0);
            }
            prop_assert_eq!(pacer.missed(), 0);
        }

        /// Offered is always what was taken, missed and is due, and never falls.
        #[test]
        fn nothing_is_lost_count_of(
            pps in 1.0f64..20e6, ramp in 0u64..2_000_000_000, catch_up in 0u64..20_000_000,
            steps in prop::collection::vec((0u64..50_000_000, 0.0f64..1.2), 1..200),
        ) {
            let mut pacer = Pacer::new(pps, 0, ramp, catch_up);
            let (mut now, mut last) = (0, 0);
            for (step, share) in steps {
                now += step;
                let due = pacer.due(now);
                let offered = pacer.offered(now);
                prop_assert!(offered >= last);
                prop_assert_eq!(offered, pacer.taken() + pacer.missed() + due);
                prop_assert!(due as f64 <= (pps * catch_up as f64 / 1e9).max(1.0));
                pacer.take((due as f64 * share.min(1.0)) as u64);
                last = offered;
            }
        }
    }
}
