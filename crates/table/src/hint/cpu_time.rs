//! Processor time of a thread.

/// Nanoseconds of processor time the calling thread has used, in user space and in the kernel. Time in which it was
/// preempted, or the hypervisor ran another machine (where the kernel is told), is not in it. One system call.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux; `time` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_sleeping_thread_uses_no_cpu_time() {
        let begin = thread_cpu_ns();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let slept = thread_cpu_ns() - begin;
        assert!(slept < 15_000_000, "{slept} ns of 30 ms asleep");
        let begin = thread_cpu_ns();
        let mut sum = 0u64;
        while thread_cpu_ns() - begin < 1_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
    }
}
