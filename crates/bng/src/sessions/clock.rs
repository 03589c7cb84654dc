//! The clock of leases and timers: the wall clock's time at the start, and from there on one that is not set. The wall clock
//! itself is used for what outlives the process, and for time stamps.

use access::Time;
use access::lease::LeaseRecord;

/// Seconds that the wall clock may drift before stored leases are taken for stored with another one.
const DRIFT: i64 = 2;
/// Seconds that a restored lease lasts at most, if that is longer than two of its group's leases: a wall clock that was wrong at
/// the start keeps addresses no longer.
const LONGEST_RESTORED: u32 = 7 * 86_400;

/// A clock's fields, in their order; times in milliseconds.
pub(super) type Parts = (Option<(u64, u64)>, u64, i64, i64);

/// The clock of leases and timers.
#[derive(Debug)]
pub struct LeaseClock {
    /// The steady clock at the first turn, in ns, and the time it stands for.
    began: Option<(u64, Time)>,
    /// At the last turn.
    now: Time,
    /// The wall clock is ahead by so many milliseconds.
    ahead_ms: i64,
    /// The seconds by which times of stored leases are ahead.
    ahead: i64,
}

impl LeaseClock {
    /// A clock that shows what the wall clock shows.
    pub fn new(wall: Time) -> Self {
        Self { began: None, now: wall, ahead_ms: 0, ahead: 0 }
    }

    /// For [`of_parts`](Self::of_parts) of another process that has the same steady clock.
    pub(super) fn parts(&self) -> Parts {
        let began = self.began.map(|(steady, time)| (steady, time.0));
        (began, self.now.0, self.ahead_ms, self.ahead)
    }

    /// Goes on with another process's.
    pub(super) fn of_parts((began, now, ahead_ms, ahead): Parts) -> Self {
        Self { began: began.map(|(steady, time)| (steady, Time(time))), now: Time(now), ahead_ms, ahead }
    }

    /// The time when the steady clock shows `steady_ns`.
    pub fn at(&self, steady_ns: u64) -> Time {
        let (began, wall) = self.began.unwrap_or((steady_ns, self.now));
        Time(wall.0 + steady_ns.saturating_sub(began) / 1_000_000)
    }

    /// A turn, when the clocks show `steady_ns` and `wall`. Returns by how many seconds the wall clock was set, if it was:
    /// negative if back.
    pub fn turn(&mut self, steady_ns: u64, wall: Time) -> Option<i64> {
        self.began.get_or_insert((steady_ns, wall));
        self.now = self.at(steady_ns);
        self.ahead_ms = wall.0 as i64 - self.now.0 as i64; // both in ms since 1970
        let ahead = self.ahead_ms.div_euclid(1000);
        let set = ahead - self.ahead;
        (set.abs() >= DRIFT).then(|| {
            self.ahead = ahead;
            set
        })
    }

    /// The time of the last turn.
    pub fn now(&self) -> Time {
        self.now
    }

    /// By how many milliseconds the wall clock is ahead.
    pub(crate) fn ahead_ms(&self) -> i64 {
        self.ahead_ms
    }

    /// The seconds by which times of stored leases are ahead of this clock's.
    pub(crate) fn ahead_secs(&self) -> i64 {
        self.ahead
    }

    /// A lease as it is stored: it ends by the wall clock.
    pub(crate) fn to_stored(&self, record: LeaseRecord) -> LeaseRecord {
        let expiry = (i64::from(record.expiry) + self.ahead).clamp(0, u32::MAX.into()) as u32;
        LeaseRecord { expiry, ..record }
    }

    /// A lease as it was stored, of a group whose leases last `lease` seconds.
    pub(crate) fn of_stored(&self, record: LeaseRecord, lease: u32) -> LeaseRecord {
        let longest = lease.saturating_mul(2).max(LONGEST_RESTORED);
        let expiry = (i64::from(record.expiry) - self.ahead).clamp(0, u32::MAX.into()) as u32;
        LeaseRecord { expiry: expiry.min(self.now.secs().saturating_add(longest)), ..record }
    }
}

#[cfg(test)]
mod tests {
    use access::ClientKey;
    use access::lease::{Kind, LeaseKey};

    use super::*;

    const HOUR: u64 = 3600;
    const START: Time = Time::from_secs(1_700_000_000);
    const SECOND: u64 = 1_000_000_000;

    fn record(expiry: u32) -> LeaseRecord {
        let key = LeaseKey { kind: Kind::Ip4, client: ClientKey::default() };
        LeaseRecord {
            key,
            group: 0,
            address: "::ffff:10.0.0.1".parse().unwrap(),
            prefix_len: 128,
            expiry,
            server: None,
            line_rate: Default::default(),
        }
    }

    #[test]
    fn set_wall_clock_moves_no_timer() {
        let mut clock = LeaseClock::new(START);
        assert_eq!((clock.turn(7 * SECOND, START), clock.now()), (None, START));
        let later = Time(START.0 + 10_000);
        assert_eq!((clock.turn(17 * SECOND, later), clock.now()), (None, later));
        for (wall, set) in [(START.secs() + 3610, Some(3600)), (START.secs() - 3590, Some(-7200)), (START.secs(), None)]
        {
            let wall = Time::from_secs(wall.into());
            let turned = clock.turn(17 * SECOND, wall);
            assert!(set.is_none() || turned == set, "{turned:?}");
            assert_eq!((clock.now(), clock.at(18 * SECOND)), (later, Time(later.0 + 1000)));
        }
    }

    #[test]
    fn stored_leases_end_by_the_wall_clock() {
        let mut clock = LeaseClock::new(START);
        clock.turn(0, START);
        clock.turn(0, Time(START.0 + HOUR * 1000));
        let ends = START.secs() + 600;
        assert_eq!(clock.to_stored(record(ends)).expiry, ends + 3600);
        // The next run begins with the clock as it was set.
        let next = LeaseClock::new(Time(START.0 + HOUR * 1000 + 60_000));
        let restored = next.of_stored(clock.to_stored(record(ends)), 600);
        assert_eq!(restored.expiry - next.now().secs(), 540);
    }

    #[test]
    fn clock_of_1970_keeps_no_lease_for_decades() {
        let clock = LeaseClock::new(Time::from_secs(100));
        assert_eq!(clock.of_stored(record(START.secs()), 600).expiry, 100 + LONGEST_RESTORED);
    }
}
