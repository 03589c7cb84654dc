//! A global allocator that counts what each thread asks of it.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// An allocator, with a count of allocations kept per thread.
///
/// Put `#[global_allocator] static ALLOC: pages::Counting<System> = pages::Counting(System);` into a binary or test, then
/// compare [`allocations_on_this_thread`] before and after the code in question.
pub struct Counting<A>(pub A);

/// How often the calling thread has allocated (or grown an allocation) so far. Always 0 unless [`Counting`] is the
/// program's global allocator.
pub fn allocations_on_this_thread() -> u64 {
    CALLS.with(Cell::get)
}

fn count() {
    // A thread that is being torn down has no counter left; nobody reads it then.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is passed unchanged to the allocator, whose contract is the one asked for; counting touches only a
// const-initialised thread-local and never allocates.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's obligations are the allocator's.
        unsafe { self.0.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's obligations are the allocator's.
        unsafe { self.0.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's obligations are the allocator's.
        unsafe { self.0.realloc(ptr, layout, new_size) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are the allocator's.
        unsafe { self.0.dealloc(ptr, layout) }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    #[global_allocator]
    static ALLOC: Counting<System> = Counting(System);

    #[test]
    fn an_allocation_is_counted_and_plain_work_is_not() {
        let before = allocations_on_this_thread();
        let boxed = std::hint::black_box(Box::new(7u64));
        assert_eq!(allocations_on_this_thread(), before + 1);
        let _ = std::hint::black_box(*boxed + 1);
        assert_eq!(allocations_on_this_thread(), before + 1);
    }
}
