//! Controlled Delay (RFC 8289): drops at dequeue what has waited too long for too long. Nothing is computed for queues that
//! nothing leaves.

/// Parameters of Controlled Delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Nanoseconds that a frame may wait (RFC 8289, 4.2); at low rates no less than one and a half frames take.
    pub target_ns: u64,
    /// Nanoseconds it may be exceeded before the first drop (RFC 8289, 4.3).
    pub interval_ns: u64,
}

impl Default for CodelConfig {
    fn default() -> Self {
        Self { target_ns: 5_000_000, interval_ns: 100_000_000 }
    }
}

/// A frame, which may always wait alone.
const FRAME: u32 = 1514;
/// Nanoseconds of a unit of time, as a shift: 32 bits last for 73 minutes.
const UNIT: u32 = 10;

fn units(ns: u64) -> u32 {
    (ns >> UNIT) as u32
}

/// Whether time `a` is `b` or later.
fn reached(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

/// State of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Codel {
    /// When the wait will have been above the target for an interval; 0: it is not above.
    first_above: u32,
    /// When the next frame is dropped, while dropping.
    drop_next: u32,
    /// Drops since dropping began, and what that was when it began last.
    count: u16,
    before: u16,
    dropping: bool,
    /// The owner's, in what would be padding, where a queue and this fill a cache line: its rank by length, and its port.
    pub rank: u8,
    pub port: u8,
}

impl Codel {
    pub const NEW: Self = Self { first_above: 0, drop_next: 0, count: 0, before: 0, dropping: false, rank: 0, port: 0 };

    /// Whether the frame at the head, which came at `came`, is dropped instead of sent at `now`; `bytes` wait with it.
    #[inline]
    pub fn drops(&mut self, config: &CodelConfig, now: u64, came: u64, bytes: u32) -> bool {
        if now.saturating_sub(came) < config.target_ns || bytes <= FRAME {
            (self.first_above, self.dropping) = (0, false);
            return false;
        }
        self.is_too_long(config, units(now))
    }

    /// The same, where the target is exceeded.
    #[inline(never)]
    fn is_too_long(&mut self, config: &CodelConfig, now: u32) -> bool {
        let interval = units(config.interval_ns);
        if self.first_above == 0 {
            self.first_above = now.wrapping_add(interval).max(1);
            return false;
        }
        if !reached(now, self.first_above) {
            self.dropping = false;
            return false;
        }
        if self.dropping {
            if !reached(now, self.drop_next) {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.drop_next = self.drop_next.wrapping_add(self.gap(interval));
            return true;
        }
        // Close to the last time, dropping goes on where it had come to (RFC 8289, 5.4).
        let since = self.count.wrapping_sub(self.before);
        let recent = now.wrapping_sub(self.drop_next) < interval.saturating_mul(16);
        self.count = if since > 1 && recent { since } else { 1 };
        (self.before, self.dropping) = (self.count, true);
        self.drop_next = now.wrapping_add(self.gap(interval));
        true
    }

    /// Time between drops: the interval by the square root of their number (RFC 8289, 5.3).
    fn gap(&self, interval: u32) -> u32 {
        (interval as f32 / f32::from(self.count).sqrt()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Drops in a second of frames that waited so long, one each millisecond.
    fn drops(codel: &mut Codel, from_ms: u64, waited_ms: u64, bytes: u32) -> usize {
        let config = CodelConfig::default();
        (from_ms..from_ms + 1000).filter(|ms| codel.drops(&config, ms * MS, (ms - waited_ms) * MS, bytes)).count()
    }

    #[test]
    fn short_waits_and_lone_frames_are_left_alone() {
        let mut codel = Codel::NEW;
        assert_eq!(drops(&mut codel, 1000, 4, 100_000), 0);
        assert_eq!(drops(&mut codel, 2000, 400, FRAME), 0);
    }

    #[test]
    fn drops_come_the_closer_the_longer_it_lasts() {
        let mut codel = Codel::NEW;
        // RFC 8289, 5.3: the n-th drop follows the one before by the interval over the root of n.
        let (first, second) = (drops(&mut codel, 1000, 20, 100_000), drops(&mut codel, 2000, 20, 100_000));
        assert!((20..35).contains(&first) && second > first + 20, "{first}, {second}");
        assert_eq!(drops(&mut codel, 3000, 1, 100_000), 0);
        assert!(drops(&mut codel, 4000, 20, 100_000) > first, "it goes on where it had come to");
    }

    #[test]
    fn time_may_wrap() {
        let mut codel = Codel::NEW;
        let wrap = (1u64 << 42) / MS - 500;
        assert!((20..35).contains(&drops(&mut codel, wrap, 20, 100_000)));
    }
}
