//! Sessions without traffic (User Plane Inactivity Timer, 3GPP TS 29.244, 7.5.2.1, 8.2.83): told of once, until
//! there is traffic again or the control plane asks anew.

use std::num::NonZeroU64;

use crate::rules::Usage;

const SECOND: u64 = 1_000_000_000;

/// How long a session has been silent. There may be one a session, so it is one word: the time and one, and a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence(NonZeroU64);

/// The control plane has been notified. Clocks count from when the host started: they need no such bit for centuries.
const TOLD: u64 = 1 << 63;

impl Silence {
    /// Since when (the last packet seen, or when it was asked for), and whether the control plane knows.
    pub fn parts(self) -> (u64, bool) {
        ((self.0.get() & !TOLD) - 1, self.0.get() & TOLD != 0)
    }

    /// Of [`parts`](Self::parts).
    pub fn of_parts(from: u64, told: bool) -> Self {
        let from = NonZeroU64::MIN.saturating_add(from.min(TOLD - 2));
        Self(if told { from | TOLD } else { from })
    }

    /// From now on.
    pub fn from(now: u64) -> Self {
        Self::of_parts(now, false)
    }

    /// Records what was counted; whether the control plane is to be notified now.
    pub fn is_due(&mut self, usage: &[Usage], seconds: u32, now: u64) -> bool {
        let last = usage.iter().map(|usage| usage.last_ns).max().unwrap_or(0);
        if last > self.parts().0 {
            *self = Self::from(last);
        }
        let (from, told) = self.parts();
        let due = !told && now.saturating_sub(from) >= u64::from(seconds) * SECOND;
        *self = Self::of_parts(from, told || due);
        due
    }

    /// When to look next.
    pub fn next_look(&self, seconds: u32, now: u64) -> u64 {
        // Traffic that resumes is not reported by workers: it is polled for.
        let (from, told) = self.parts();
        let from = if told { now } else { from };
        from.saturating_add(u64::from(seconds) * SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_until_there_is_traffic() {
        let seen = |seconds: u64| [Usage { last_ns: seconds * SECOND, ..Usage::default() }];
        let mut silence = Silence::from(10 * SECOND);
        let mut told = Vec::new();
        for (now, last) in [(11, 0), (14, 0), (15, 0), (16, 0), (30, 0), (31, 31), (35, 31), (36, 31), (40, 31)] {
            if silence.is_due(&seen(last), 5, now * SECOND) {
                told.push(now);
            }
        }
        assert_eq!(told, [15, 36]);
        assert_eq!(silence.next_look(5, 40 * SECOND), 45 * SECOND);
        assert_eq!(Silence::from(10 * SECOND).next_look(5, 12 * SECOND), 15 * SECOND);
        assert_eq!(size_of::<Option<Silence>>(), 8);
        let all = [(0, false), (0, true), (u64::MAX / 2 - 2, true)];
        assert_eq!(all.map(|(from, told)| Silence::of_parts(from, told).parts()), all);
    }
}
