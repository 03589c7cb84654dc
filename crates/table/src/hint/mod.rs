//! What a worker tells the processor and asks of it: prefetch, the time stamp counter, the core's own clock, CPU time. All safe to
//! call, so that crates without `unsafe` can use them.

mod core_clock;
mod cpu_time;
mod tsc;

pub use core_clock::core_hz;
pub use cpu_time::thread_cpu_ns;
pub use tsc::{TscClock, tsc, tsc_cost, tsc_hz};

/// Asks for the first cache line of `target` to be brought into L1. Changes nothing, never faults.
///
/// For what is likely near and used soon. A core waits for some 20 lines at a time at most and forgets hints beyond, so a
/// burst's worth of lines from memory is to be asked for with [`prefetch_index_far`] and its like.
#[inline(always)]
pub fn prefetch_read<T: ?Sized>(target: &T) {
    near(std::ptr::from_ref(target).cast());
}

/// As [`prefetch_read`], of `slice[index]`. An index out of range is harmless.
#[inline(always)]
pub fn prefetch_index<T>(slice: &[T], index: usize) {
    near(slice.as_ptr().wrapping_add(index).cast());
}

/// Asks for the first cache line of `slice[index]`, which is likely in memory, to be brought into L2. An index out of range
/// is harmless.
///
/// L2 waits for several times as many lines as L1, and L1 then fetches what has come in 4 ns. With 100,000 sessions this
/// is worth a third of a packet's cost: see `docs/decisions/014-prefetch-into-second-level-cache.md`.
#[inline(always)]
pub fn prefetch_index_far<T>(slice: &[T], index: usize) {
    far(slice.as_ptr().wrapping_add(index).cast());
}

/// Bytes of a table that is likely in L2 as a whole.
const SMALL: usize = 1 << 20;

/// Asks for a line of a table of so many bytes: into L1 where the table is small, else into L2. The address may be any.
#[inline(always)]
pub(crate) fn prefetch_of(table: usize, address: *const u8) {
    if is_large(table) { far(address) } else { near(address) }
}

/// Whether a table of so many bytes is likely not in L2 as a whole.
#[inline(always)]
pub(crate) fn is_large(table: usize) -> bool {
    table > SMALL
}

/// As [`prefetch_of`], every cache line that `target` touches.
#[inline(always)]
pub(crate) fn prefetch_whole_of<T>(table: usize, target: &T) {
    let first = std::ptr::from_ref(target).cast::<u8>();
    let size = size_of::<T>();
    let mut at = 0;
    while at < size {
        prefetch_of(table, first.wrapping_add(at));
        at += 64;
    }
    // A value that is not line-aligned can end one line later than its last step.
    if size > 0 && align_of::<T>() < 64 && size % 64 != 1 {
        prefetch_of(table, first.wrapping_add(size - 1));
    }
}

/// Writes the cache lines of `bytes` back to memory and has no cache keep them, so that the next who reads them waits for
/// memory. For measuring; see [`can_forget`].
pub fn forget(bytes: &[u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in bytes.chunks(64).chain(bytes.len().checked_sub(1).map(|last| &bytes[last..])) {
        // SAFETY: the address is that of a byte that may be read, which is all `clflush` asks; SSE2 is part of x86-64.
        unsafe { std::arch::x86_64::_mm_clflush(line.as_ptr()) };
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    let _ = bytes;
}

/// Whether [`forget`] does something on this kind of processor.
pub const fn can_forget() -> bool {
    cfg!(all(target_arch = "x86_64", not(miri)))
}

/// Asks for the line at any address at all to be in L1: a hint has no other effect than on caches.
#[inline(always)]
fn near(address: *const u8) {
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

/// Asks for the line at any address at all to be in L2.
#[inline(always)]
fn far(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults and reads nothing the program can see; SSE is part of x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above; `prfm` is a hint on any address.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
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
        for table in [SMALL, SMALL + 1] {
            prefetch_whole_of(table, &lines);
            prefetch_whole_of(table, &());
            prefetch_of(table, std::ptr::null());
        }
        for index in [0, 3, 4, usize::MAX / 64] {
            prefetch_index(&lines, index);
            prefetch_index_far(&lines, index);
        }
        forget(&[]);
        forget(&[7; 200]);
        assert_eq!(lines, [[7; 8]; 4]);
    }
}
