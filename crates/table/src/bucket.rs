//! Token buckets in exact integer arithmetic.
//!
//! Credit is counted in nano-bits: one bit is 10⁹ of them, so a rate in bit/s times nanoseconds elapsed *is* the
//! credit gained, without division, rounding or drift. Configuration and state are separate plain values: state lives
//! in the owner's records, configuration wherever rules live, and replacing the one leaves the other alone.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Nano-bits of a bit.
const NANO: u64 = 1_000_000_000;

/// A rate in bit/s.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(transparent)]
pub struct Rate(pub u64);

impl Rate {
    /// More than any line carries: a bucket of this rate never says no.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// `n` bit/s.
    pub const fn bps(n: u64) -> Self {
        Self(n)
    }

    /// `n` kbit/s (1000 bit/s, the unit of 3GPP bit rates).
    pub const fn kbps(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` Mbit/s.
    pub const fn mbps(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` Gbit/s.
    pub const fn gbps(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000_000))
    }

    /// Nano-bits gained in `ns` nanoseconds; saturates beyond any depth there can be.
    #[inline(always)]
    const fn gain(self, ns: u64) -> u64 {
        self.0.saturating_mul(ns)
    }
}

/// What a bucket allows: plain data, owned by whoever makes the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Config {
    /// Credit gained per second.
    pub rate: Rate,
    /// The most credit there can be, in nano-bits: the burst.
    pub depth: i64,
}

impl Config {
    /// A bucket of `rate` that lets bursts of `burst_bytes` pass, 1.15 GB at most. A packet longer than the burst
    /// never passes.
    pub const fn new(rate: Rate, burst_bytes: u64) -> Self {
        if rate.0 == Rate::UNLIMITED.0 {
            return Self { rate, depth: i64::MAX };
        }
        let depth = burst_bytes.saturating_mul(8).saturating_mul(NANO);
        Self { rate, depth: if depth > i64::MAX as u64 { i64::MAX } else { depth as i64 } }
    }

    /// A bucket of `rate` whose burst is what passes in `ns` nanoseconds, but at least `least_bytes` (the longest
    /// packet, usually).
    pub const fn over(rate: Rate, ns: u64, least_bytes: u64) -> Self {
        let timed = rate.gain(ns);
        let least = Self::new(rate, least_bytes).depth;
        let timed = if timed > i64::MAX as u64 { i64::MAX } else { timed as i64 };
        Self { rate, depth: if timed > least { timed } else { least } }
    }

    /// Nanoseconds from empty to full, rounded up; `u64::MAX` at a rate of 0.
    pub const fn fill_ns(&self) -> u64 {
        if self.rate.0 == 0 {
            u64::MAX
        } else {
            (if self.depth < 0 { 0 } else { self.depth as u64 }).div_ceil(self.rate.0)
        }
    }
}

/// How full a bucket is: 16 bytes of plain data for the owner's record. All zeroes are an empty bucket last seen at
/// time 0, which is full by the time the clock passes [`Config::fill_ns`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct State {
    /// Nano-bits that may pass now; negative after [`charge`] took more than there was.
    pub credit: i64,
    /// When that was, in nanoseconds of the owner's clock.
    pub last_ns: u64,
}

impl State {
    /// A full bucket.
    pub const fn full(config: &Config, now_ns: u64) -> Self {
        Self { credit: config.depth, last_ns: now_ns }
    }
}

/// Whole bytes that may pass at `now_ns`, at most as many as the bucket holds; 0 for one that owes.
pub fn bytes_left(config: &Config, state: &State, now_ns: u64) -> u64 {
    let gained = i64::try_from(config.rate.gain(now_ns.saturating_sub(state.last_ns))).unwrap_or(i64::MAX);
    let credit = state.credit.saturating_add(gained).min(config.depth);
    u64::try_from(credit).unwrap_or(0) / (8 * NANO)
}

/// Nano-bits of a packet; saturates for lengths no bucket can let pass.
#[inline(always)]
pub const fn cost(bytes: u32) -> i64 {
    match (bytes as i64).checked_mul(8 * NANO as i64) {
        Some(cost) => cost,
        None => i64::MAX,
    }
}

/// Brings the credit up to `now_ns`. A time before the last one counts as the last one.
#[inline(always)]
pub fn refill(config: &Config, state: &mut State, now_ns: u64) {
    let (credit, last_ns) = refilled(config, state, now_ns);
    *state = State { credit, last_ns };
}

/// What [`refill`] makes of a bucket: credit and time.
#[inline(always)]
fn refilled(config: &Config, state: &State, now_ns: u64) -> (i64, u64) {
    let passed = now_ns.saturating_sub(state.last_ns);
    let gain = config.rate.gain(passed);
    // Credit is never above the depth (all functions here keep it so), and the distance of two i64 fits a u64. A gain
    // that saturated ends above every depth, whatever the credit was.
    let room = config.depth.wrapping_sub(state.credit) as u64;
    let credit = if gain >= room { config.depth } else { state.credit.wrapping_add(gain as i64) };
    (credit, state.last_ns + passed)
}

/// Whether the bucket has credit for a packet of `bytes` at `now_ns`; takes none. With [`take`], for packets that
/// several buckets must agree on.
#[inline(always)]
pub fn affords(config: &Config, state: &mut State, now_ns: u64, bytes: u32) -> bool {
    refill(config, state, now_ns);
    state.credit >= cost(bytes)
}

/// Takes the credit of a packet that was found to be [afforded](affords).
#[inline(always)]
pub fn take(state: &mut State, bytes: u32) {
    state.credit = state.credit.saturating_sub(cost(bytes));
}

/// Whether both buckets have the credit of a packet with that [`cost`] at `now_ns`, each by itself; if so, it is taken
/// from both, else from none.
#[inline(always)]
pub fn conform_both(a: (&Config, &mut State), b: (&Config, &mut State), now_ns: u64, cost: i64) -> (bool, bool) {
    let (first, first_ns) = refilled(a.0, a.1, now_ns);
    let (second, second_ns) = refilled(b.0, b.1, now_ns);
    let passes = (first >= cost, second >= cost);
    let taken = if passes.0 & passes.1 { cost } else { 0 };
    *a.1 = State { credit: first - taken, last_ns: first_ns };
    *b.1 = State { credit: second - taken, last_ns: second_ns };
    passes
}

/// Whether a packet of `bytes` may pass at `now_ns`; if so, its credit is taken.
#[inline(always)]
pub fn conform(config: &Config, state: &mut State, now_ns: u64, bytes: u32) -> bool {
    conform_cost(config, state, now_ns, cost(bytes))
}

/// As [`conform`], for a packet whose [`cost`] is known.
#[inline(always)]
pub fn conform_cost(config: &Config, state: &mut State, now_ns: u64, cost: i64) -> bool {
    let (credit, last_ns) = refilled(config, state, now_ns);
    let passes = credit >= cost;
    *state = State { credit: if passes { credit - cost } else { credit }, last_ns };
    passes
}

/// Takes the credit of a packet that passes in any case; the bucket may go into debt, and pays it off at its rate.
#[inline(always)]
pub fn charge(config: &Config, state: &mut State, now_ns: u64, bytes: u32) {
    refill(config, state, now_ns);
    state.credit = state.credit.saturating_sub(cost(bytes));
}

/// The earliest time at which a packet of `bytes` conforms if nothing else passes before it: now or later, in
/// nanoseconds, exact. `None`: never, for the burst is too small or the rate is 0.
#[inline]
pub fn ready_at(config: &Config, state: &State, bytes: u32) -> Option<u64> {
    let cost = cost(bytes);
    if state.credit >= cost {
        return Some(state.last_ns);
    }
    if cost > config.depth || config.rate.0 == 0 {
        return None;
    }
    // `cost` > `credit`, and their distance fits 64 bits.
    let missing = (i128::from(cost) - i128::from(state.credit)) as u64;
    state.last_ns.checked_add(missing.div_ceil(config.rate.0))
}

/// Changes a bucket's configuration at `now_ns`: what was earned until now is earned at the old rate and kept, as far
/// as the new depth holds it.
pub fn retune(old: &Config, new: &Config, state: &mut State, now_ns: u64) {
    state.credit = state.credit.min(old.depth);
    refill(old, state, now_ns);
    state.credit = state.credit.min(new.depth);
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
