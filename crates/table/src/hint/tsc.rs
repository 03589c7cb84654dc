//! The time stamp counter and what one of its ticks is worth.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the rate of the counter is measured against the monotonic clock.
const CALIBRATION: Duration = Duration::from_millis(10);

/// The processor's time stamp counter. Where there is none, nanoseconds of the monotonic clock.
#[inline(always)]
pub fn tsc() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: `rdtsc` exists on every x86-64 and only reads.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    monotonic_ns()
}

/// Ticks of [`tsc`] a second. The first call takes about 10 ms to measure it; the result never changes afterwards.
///
/// The rate the processor states itself (CPUID leaf 15h) is preferred when it agrees with the measurement, because it
/// is exact; many virtual machines state none or a wrong one.
pub fn tsc_hz() -> u64 {
    static HZ: OnceLock<u64> = OnceLock::new();
    *HZ.get_or_init(|| {
        let measured = measure();
        match stated() {
            Some(hz) if hz.abs_diff(measured) <= measured / 2000 => hz,
            _ => measured,
        }
    })
}

/// Ticks that pass between two readings of [`tsc`] with nothing in between: what a reading adds to what it measures.
pub fn tsc_cost() -> u64 {
    static COST: OnceLock<u64> = OnceLock::new();
    *COST.get_or_init(|| {
        let mut before = tsc();
        let gaps = (0..1000).map(|_| {
            let now = tsc();
            now.saturating_sub(std::mem::replace(&mut before, now))
        });
        gaps.min().unwrap_or(0)
    })
}

/// Turns ticks of [`tsc`] into nanoseconds and back with a multiplication and a shift. Plain data; copy it freely.
#[derive(Clone, Copy, Debug)]
pub struct TscClock {
    origin: u64,
    ns_per_tick: u64,
    shift: u32,
    hz: u64,
}

impl TscClock {
    /// A clock whose nanosecond 0 is now, at the calibrated rate.
    pub fn start() -> Self {
        let hz = tsc_hz();
        Self::new(tsc(), hz)
    }

    /// A clock whose nanosecond 0 is the tick `origin`, for a counter of `hz` ticks a second (0 counts as 1).
    pub fn new(origin: u64, hz: u64) -> Self {
        let hz = hz.max(1);
        // The largest shift whose multiplier still fits 63 bits: an error below 2^-60 of the interval.
        let shift = (63 - (1_000_000_000u64.div_ceil(hz)).ilog2() - 1).min(62);
        let ns_per_tick = ((1_000_000_000u128 << shift) / u128::from(hz)) as u64;
        Self { origin, ns_per_tick, shift, hz }
    }

    /// Nanoseconds in an interval of `ticks`.
    #[inline(always)]
    pub fn ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick)) >> self.shift) as u64
    }

    /// Ticks in an interval of `ns` nanoseconds, rounded down.
    #[inline]
    pub fn ticks(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.hz) / 1_000_000_000) as u64
    }

    /// The time of tick `at`, in nanoseconds since the origin; 0 for ticks before it.
    #[inline(always)]
    pub fn at(&self, at: u64) -> u64 {
        self.ns(at.saturating_sub(self.origin))
    }

    /// Nanoseconds since the origin, now.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        self.at(tsc())
    }

    /// The tick of nanosecond 0. With [`hz`](Self::hz) it makes the same clock in another process of the machine.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// Ticks a second.
    pub fn hz(&self) -> u64 {
        self.hz
    }
}

fn monotonic_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A pair (ticks, nanoseconds) read as close together as eight tries allow.
fn edge() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..8 {
        let before = tsc();
        let ns = monotonic_ns();
        let width = tsc().saturating_sub(before);
        best = best.min((width, before + width / 2, ns));
    }
    (best.1, best.2)
}

fn measure() -> u64 {
    if cfg!(not(all(target_arch = "x86_64", not(miri)))) {
        return 1_000_000_000;
    }
    let (ticks0, ns0) = edge();
    let until = Instant::now() + CALIBRATION;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    let (ticks1, ns1) = edge();
    let ns = ns1.saturating_sub(ns0).max(1);
    (u128::from(ticks1.saturating_sub(ticks0)) * 1_000_000_000 / u128::from(ns)).max(1) as u64
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn stated() -> Option<u64> {
    use std::arch::x86_64::__cpuid;
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let leaf = __cpuid(0x15);
    if leaf.eax == 0 || leaf.ebx == 0 || leaf.ecx == 0 {
        return None;
    }
    Some(u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax))
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn stated() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_is_exact_to_a_nanosecond_over_a_year() {
        for hz in [1, 1_000, 24_000_000, 999_999_999, 1_000_000_000, 2_100_000_000, 5_700_000_001] {
            let clock = TscClock::new(100, hz);
            for seconds in [0, 1, 3_600, 31_536_000] {
                let ns = clock.at(100 + seconds * hz);
                assert!(ns.abs_diff(seconds * 1_000_000_000) <= 1, "{hz} Hz, {seconds} s: {ns}");
                assert!(clock.ticks(seconds * 1_000_000_000) == seconds * hz);
            }
            assert_eq!(clock.at(0), 0, "before the origin");
        }
    }

    #[test]
    fn the_clock_agrees_with_the_monotonic_one() {
        let clock = TscClock::start();
        // Each reading of the clock lies between two of the monotonic one, so that no pause, however long, can matter.
        let (longest, t0, shortest) = (Instant::now(), clock.now_ns(), Instant::now());
        while shortest.elapsed() < Duration::from_millis(if cfg!(miri) { 1 } else { 40 }) {
            std::hint::spin_loop();
        }
        let (at_least, t1, at_most) = (shortest.elapsed(), clock.now_ns(), longest.elapsed());
        let (at_least, at_most) = (at_least.as_nanos() as u64, at_most.as_nanos() as u64);
        // Loose, as the rate is measured on busy machines: the point is the unit, not the last ppm.
        let within = at_least - at_least / 20..=at_most + at_most / 20;
        assert!(within.contains(&(t1 - t0)), "{} against {within:?}", t1 - t0);
    }
}
