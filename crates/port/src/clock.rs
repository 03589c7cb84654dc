//! The time, as far as ports need it.

/// Nanoseconds of the kernel's coarse monotonic clock: a few cycles to read, exact to a few milliseconds.
#[inline]
pub fn coarse_now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux; `time` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
