//! What a worker does when there is nothing to do. It polls while the next packet is likely to come at once; at moderate
//! rates it sleeps for a fixed time, so that a few packets share one wake-up; else it sleeps until a packet comes or
//! something is due.

use std::time::Duration;

use table::hint::tsc_hz;

/// How a worker waits for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// The longest time a worker polls for the next packet. It polls only while packets come that fast.
    /// [`Duration::MAX`]: it never sleeps.
    pub spin: Duration,
    /// How long packets to send may wait for others while the worker is awake, so that one system call sends them all. They
    /// wait only while packets come that fast.
    pub gather: Duration,
    /// The longest time packets may wait in a port for others, so that one wake-up serves them all, as a network card's
    /// interrupts are moderated. A packet that comes alone does not wait.
    pub moderate: Duration,
    /// Packets such a wait is to bring, if it may last that long.
    pub share: u32,
    /// The longest sleep.
    pub sleep: Duration,
}

impl Idle {
    /// The least CPU time: never polls, waits up to a millisecond for up to eight packets.
    pub const SAVE: Self =
        Self { spin: Duration::ZERO, moderate: Duration::from_millis(1), share: 8, ..Self::BALANCED };

    /// Polls for as long as a wake-up takes, if packets come that fast; else waits up to 0.4 ms for four packets.
    pub const BALANCED: Self = Self {
        spin: Duration::from_micros(10),
        gather: Duration::from_micros(10),
        moderate: Duration::from_micros(400),
        share: 4,
        sleep: Duration::from_secs(1),
    };

    /// Never sleeps, for a CPU of its own and the lowest latency.
    pub const POLL: Self =
        Self { spin: Duration::MAX, gather: Duration::ZERO, moderate: Duration::ZERO, share: 0, sleep: Duration::ZERO };
}

impl Default for Idle {
    fn default() -> Self {
        Self::BALANCED
    }
}

/// Polls between which the worker lets others have its CPU: the thread that receives for it may share it.
const YIELD_EVERY: u32 = 16;

/// What the worker does after an empty turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Look again at once.
    Poll,
    /// Let another thread run, then look again.
    Yield,
    /// Sleep for so long, whatever packets come, to have them all at once.
    Moderate(Duration),
    /// Sleep until something happens.
    Sleep,
}

/// How fast packets come, as learnt, and the gap that lasts now. Times in cycles of the time stamp counter.
pub(crate) struct Pace {
    spin: u64,
    gather: u64,
    moderate: u64,
    share: u64,
    hz: u64,
    /// Time of the last turns with packets, from begin to begin, and packets that came in them, in units of 1 / `ONE`. Each
    /// turn lets go of an eighth of both: their quotient is the mean time from packet to packet, however they bunch.
    span: u64,
    came: u64,
    interval: u64,
    /// When the last turn with packets began, and ended.
    begun: u64,
    since: u64,
    /// Empty turns in this gap.
    polls: u32,
    /// It has slept for a fixed time in this gap.
    moderated: bool,
}

/// A gap counts for at most so many times the longest wait, so that the first packets after a quiet time change the mean.
const LONGEST: u64 = 4;
/// A packet in [`Pace::came`].
const ONE: u64 = 1 << 10;
/// Turns that the mean is over: each lets go of one in so many of what was before it.
const TURNS: u64 = 8;

impl Pace {
    pub(crate) fn new(idle: Idle, now: u64) -> Self {
        let hz = tsc_hz();
        let cycles = |time: Duration| {
            let cycles = time.as_nanos().saturating_mul(hz.into()) / 1_000_000_000;
            u64::try_from(cycles).unwrap_or(u64::MAX)
        };
        let (spin, moderate) = (cycles(idle.spin), cycles(idle.moderate));
        let interval = if spin == u64::MAX { 0 } else { LONGEST * spin.max(moderate) };
        Self {
            spin,
            gather: cycles(idle.gather),
            moderate,
            share: idle.share.into(),
            hz,
            span: TURNS * interval,
            came: TURNS * ONE,
            interval,
            begun: now,
            since: now,
            polls: 0,
            moderated: false,
        }
    }

    /// A turn with so many packets lasted from `begin` to `end`.
    #[inline]
    pub(crate) fn packets(&mut self, count: u64, begin: u64, end: u64) {
        if self.spin != u64::MAX {
            let longest = self.spin.max(self.moderate).saturating_mul(LONGEST);
            // From begin to begin: a turn that takes long does not make packets seem to come fast.
            self.span = self.span - self.span / TURNS + begin.saturating_sub(self.begun).min(longest);
            self.came = self.came - self.came / TURNS + count.max(1) * ONE;
            self.interval = self.span.saturating_mul(ONE) / self.came;
        }
        (self.begun, self.since, self.polls, self.moderated) = (begin, end, 0, false);
    }

    /// What to do after an empty turn that ended `now`.
    #[inline]
    pub(crate) fn rest(&mut self, now: u64) -> Rest {
        self.polls = self.polls.saturating_add(1);
        if self.spin == u64::MAX {
            return Rest::Poll;
        }
        if self.is_fast() && now.saturating_sub(self.since) < self.spin {
            return if self.polls.is_multiple_of(YIELD_EVERY) { Rest::Yield } else { Rest::Poll };
        }
        // One for each gap: where it brought nothing, packets come in bursts, and the next may be far.
        let wait = self.interval.saturating_mul(self.share).min(self.moderate);
        if self.moderated || self.is_fast() || wait < 2 * self.interval {
            return Rest::Sleep;
        }
        self.moderated = true;
        Rest::Moderate(Duration::from_nanos((u128::from(wait) * 1_000_000_000 / u128::from(self.hz)) as u64))
    }

    /// Whether packets come so fast that the next is worth polling for.
    #[inline]
    fn is_fast(&self) -> bool {
        self.interval < self.spin
    }

    /// Whether packets for sending of which the first was accepted at `since` have waited long enough for others, or others
    /// are not likely to come in time. Those of a worker that falls asleep do not wait.
    #[inline]
    pub(crate) fn is_gathered(&self, since: u64, now: u64) -> bool {
        self.interval >= self.gather || now.saturating_sub(since) >= self.gather
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> u64 {
        us * tsc_hz() / 1_000_000
    }

    /// What a worker did in the second half of 200 ms of packets at a fixed interval, polled for in a microsecond.
    #[derive(Debug, Default)]
    struct Did {
        packets: u64,
        polls: u64,
        moderated: u64,
        slept: u64,
    }

    /// `packets` at once, every `gap` microseconds.
    fn drive(idle: Idle, gap: u64, packets: u64) -> Did {
        let (mut now, mut next) = (0, us(gap));
        let mut pace = Pace::new(idle, now);
        let mut did = Did::default();
        while now < us(200_000) {
            if now < us(100_000) {
                did = Did::default();
            }
            if next <= now {
                let bursts = 1 + (now - next) / us(gap);
                next += bursts * us(gap);
                did.packets += packets * bursts;
                pace.packets(packets * bursts, now, now + us(1));
                now += us(1);
                continue;
            }
            match pace.rest(now) {
                Rest::Poll | Rest::Yield => {
                    did.polls += 1;
                    now += us(1);
                }
                Rest::Moderate(time) => {
                    did.moderated += 1;
                    now += us(time.as_micros() as u64);
                }
                Rest::Sleep => {
                    did.slept += 1;
                    now = next;
                }
            }
        }
        did
    }

    #[test]
    fn fast_packets_are_polled_for() {
        let did = drive(Idle::BALANCED, 5, 1);
        assert!(did.polls > 0 && did.moderated + did.slept == 0, "{did:?}");
        let did = drive(Idle::POLL, 5000, 1);
        assert!(did.polls > 0 && did.moderated + did.slept == 0, "{did:?}");
    }

    #[test]
    fn moderate_rates_share_wake_ups() {
        for (gap, idle) in [(20, Idle::BALANCED), (100, Idle::BALANCED), (5, Idle::SAVE), (100, Idle::SAVE)] {
            let did = drive(idle, gap, 1);
            let wakes = did.moderated + did.slept;
            assert!(wakes * u64::from(idle.share) <= did.packets * 4 / 3, "every {gap} us: {did:?}");
            assert_eq!(did.polls, 0, "every {gap} us: {did:?}");
        }
    }

    #[test]
    fn a_rate_is_no_faster_for_turns_that_take_long() {
        let mut pace = Pace::new(Idle::BALANCED, 0);
        for n in 1..200 {
            pace.packets(1, us(20 * n), us(20 * n + 15));
        }
        assert!(matches!(pace.rest(us(20 * 199 + 15)), Rest::Moderate(time) if time > Duration::from_micros(60)));
    }

    #[test]
    fn bunches_do_not_hide_a_rate() {
        let mut pace = Pace::new(Idle::BALANCED, 0);
        // 10,000 packets a second: three are found after a sleep, the fourth while they are seen to.
        for n in 0..100 {
            pace.packets(3, us(400 * n + 300), us(400 * n + 315));
            pace.packets(1, us(400 * n + 320), us(400 * n + 330));
        }
        let Rest::Moderate(time) = pace.rest(us(400 * 99 + 330)) else { panic!("it polls or sleeps for ever") };
        assert!((300..=400).contains(&time.as_micros()), "{time:?}");
    }

    #[test]
    fn lone_packets_do_not_wait() {
        for gap in [1000, 5000] {
            let did = drive(Idle::BALANCED, gap, 1);
            assert!(did.moderated == 0 && did.slept + 1 >= did.packets, "every {gap} us: {did:?}");
        }
    }

    #[test]
    fn bursts_cost_one_wake_up_more_at_most() {
        let did = drive(Idle::BALANCED, 2000, 64);
        assert!(did.moderated + did.slept <= 2 * (did.packets / 64) + 1, "{did:?}");
    }

    #[test]
    fn polling_ends_when_packets_stop() {
        let mut pace = Pace::new(Idle::BALANCED, 0);
        let mut now = 0;
        for _ in 0..50 {
            pace.rest(now);
            now += us(2);
            pace.packets(1, now, now);
        }
        assert_eq!(pace.rest(now + us(3)), Rest::Poll);
        assert_eq!(pace.rest(now + us(11)), Rest::Sleep);
    }
}
