//! The clock of the core itself.

/// Additions of a piece: a microsecond's work for a core of 2 GHz.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const ADDITIONS: u32 = 2048;

/// Cycles a second of the core this thread runs on, now, in about a microsecond: a chain of 2048 additions, each of which
/// needs the one before, so that every processor takes a cycle for each. None where there is no such chain (other than
/// x86-64).
///
/// [`tsc`](super::tsc) ticks at one rate whatever the core does; this is what power management and whoever else has the
/// core leave of it. One piece may have been interrupted and then says too little, never too much: take the median of
/// many. A neighbour on the same core (SMT) takes execution units and caches more than cycles of a chain that uses one
/// unit: it is hardly seen here.
#[inline]
pub fn core_hz() -> Option<f64> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let ticks = chain().max(1);
        Some(f64::from(ADDITIONS) * super::tsc_hz() as f64 / ticks as f64)
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    None
}

/// Ticks of the time stamp counter that the chain takes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn chain() -> u64 {
    const TOGETHER: u32 = 64;
    const { assert!(ADDITIONS.is_multiple_of(TOGETHER)) };
    let fence = || {
        // SAFETY: `lfence` is part of SSE2, which x86-64 has; it only waits. Nothing is read ahead of it: the counter
        // would be, by as many instructions as the core looks ahead.
        unsafe { std::arch::x86_64::_mm_lfence() }
    };
    fence();
    let begin = super::tsc();
    fence();
    // Of registers: some cores carry out additions of small constants while renaming, in no time.
    // SAFETY: arithmetic in registers of its own.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept {together}",
            "add {sum}, {step}",
            ".endr",
            "sub {left:e}, 1",
            "jnz 2b",
            together = const TOGETHER,
            sum = inout(reg) 0u64 => _,
            step = in(reg) 3u64,
            left = inout(reg) ADDITIONS / TOGETHER => _,
            options(nomem, nostack),
        );
    }
    fence();
    super::tsc().wrapping_sub(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_has_a_clock_that_cores_can_have() {
        // Interruptions only make pieces longer.
        let best = (0..1000).filter_map(|_| core_hz()).fold(0.0, f64::max);
        assert_eq!(best > 0.0, cfg!(all(target_arch = "x86_64", not(miri))));
        assert!(best == 0.0 || (1e8..1e10).contains(&best), "{best} Hz");
    }
}
