//! The limit on locked memory, which a UMEM counts against unless the process has CAP_IPC_LOCK.

/// Tries to raise this process's limit so that `bytes` more can be locked. False when nothing could be done: the limit
/// is as high as it goes already, and more takes CAP_SYS_RESOURCE.
pub(super) fn raise(bytes: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: an rlimit to write to.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } != 0 {
        return false;
    }
    if limit.rlim_cur == libc::RLIM_INFINITY {
        return false;
    }
    // How much is locked already can't be known (it counts per user): the most there is.
    let endless = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let enough = limit.rlim_cur.saturating_add(bytes);
    let wider = libc::rlimit { rlim_cur: enough, rlim_max: limit.rlim_max.max(enough) };
    let hard = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    [endless, wider, hard].iter().any(|to| {
        let differs = to.rlim_cur > limit.rlim_cur;
        // SAFETY: an rlimit to read.
        differs && unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, to) } == 0
    })
}

/// Whether the limit lets that many bytes be locked, if nothing else is.
pub(super) fn allows(bytes: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: an rlimit to write to.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) == 0 && limit.rlim_cur >= bytes }
}
