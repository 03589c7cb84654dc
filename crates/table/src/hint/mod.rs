//! What a worker tells the processor and asks of it: prefetch, the time stamp counter, the core's own clock. All safe to
//! call, so that crates without `unsafe` can use them.

mod core_clock;
mod tsc;

pub use core_clock::core_hz;
pub use tsc::{TscClock, tsc, tsc_cost, tsc_hz};

/// Asks for the first cache line of `target` to be brought into L1. Changes nothing, never faults.
#[inline(always)]
pub fn prefetch_read<T: ?Sized>(target: &T) {
    prefetch_address(std::ptr::from_ref(target).cast());
}

/// Asks for the first cache line of `slice[index]` to be brought into L1. An index out of range is harmless.
#[inline(always)]
pub fn prefetch_index<T>(slice: &[T], index: usize) {
    prefetch_address(slice.as_ptr().wrapping_add(index).cast());
}

/// Asks for every cache line that `target` touches.
#[inline(always)]
pub fn prefetch_whole<T>(target: &T) {
    let first = std::ptr::from_ref(target).cast::<u8>();
    let size = size_of::<T>();
    let mut at = 0;
    while at < size {
        prefetch_address(first.wrapping_add(at));
        at += 64;
    }
    // A value that is not line-aligned can end one line later than its last step.
    if size > 0 && align_of::<T>() < 64 && size % 64 != 1 {
        prefetch_address(first.wrapping_add(size - 1));
    }
}

/// Asks for the line at any address at all: a hint has no other effect than on the cache.
#[inline(always)]
pub(crate) fn prefetch_address(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults and reads nothing the program can see; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above; `prfm` is a hint on any address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_change_nothing_and_never_fault() {
        let lines = [[7u64; 8]; 4];
        prefetch_read(&lines);
        prefetch_read(&lines[..0]);
        prefetch_whole(&lines);
        prefetch_whole(&());
        for index in [0, 3, 4, usize::MAX / 64] {
            prefetch_index(&lines, index);
        }
        assert_eq!(lines, [[7; 8]; 4]);
    }
}
