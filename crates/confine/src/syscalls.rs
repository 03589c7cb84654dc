//! seccomp: the system calls that are left, for all threads.
//!
//! A call that is not on the list fails with EPERM ([`Mode::Enforce`]), is made and told to the audit log
//! ([`Mode::Log`]), or ends the process ([`Mode::Kill`]). EPERM rather than death: a gateway that meets a call nobody thought of, in a new C library say,
//! carries on forwarding, and the error names what failed.

use std::collections::BTreeMap;
use std::str::FromStr;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};

use crate::ConfineError;

/// What becomes of a call that is not on the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It fails with EPERM.
    #[default]
    Enforce,
    /// It is made, and the kernel writes it to the audit log (`type=1326` in dmesg or auditd's log).
    Log,
    /// It ends the process by SIGSYS: for tests of the list.
    Kill,
    /// There is no filter.
    Off,
}

impl Mode {
    /// The word in configurations and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Log => "log",
            Self::Kill => "kill",
            Self::Off => "off",
        }
    }
}

impl FromStr for Mode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "enforce" => Ok(Self::Enforce),
            "log" => Ok(Self::Log),
            "kill" => Ok(Self::Kill),
            "off" => Ok(Self::Off),
            _ => Err("enforce, log, kill or off"),
        }
    }
}

/// Which process a list of system calls is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// A gateway that has opened its ports and sockets: workers and control.
    Gateway,
    /// Such a gateway with ports over DPDK, whose threads make memory to share and wait for other descriptors later.
    DpdkGateway,
    /// The helper that opens ports: sockets of every kind, ioctls, BPF, network namespaces.
    Helper,
}

/// Lets every thread of this process make only those calls from now on. Sets no_new_privs.
///
/// # Errors
/// [`ConfineError::Filter`].
pub fn filter_calls(calls: Calls, mode: Mode) -> Result<(), ConfineError> {
    let refused = match mode {
        Mode::Off => return Ok(()),
        Mode::Log => SeccompAction::Log,
        Mode::Kill => SeccompAction::KillProcess,
        Mode::Enforce => SeccompAction::Errno(libc::EPERM.cast_unsigned()),
    };
    // The flags of clone3 lie in memory, where no filter can see them. With ENOSYS the C library uses clone, whose flags
    // are checked. A filter has two actions only: this is one of its own, before the list.
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    install(clone3, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS.cast_unsigned()))?;
    install(allowed(calls)?, refused, SeccompAction::Allow)
}

fn install(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    others: SeccompAction,
    these: SeccompAction,
) -> Result<(), ConfineError> {
    let arch = std::env::consts::ARCH.try_into();
    let filter = arch.and_then(|arch| SeccompFilter::new(rules, others, these, arch));
    let program: Result<BpfProgram, _> = filter.and_then(TryInto::try_into);
    let program = program.map_err(|error| ConfineError::Filter(error.to_string()))?;
    apply_filter_all_threads(&program).map_err(|error| ConfineError::Filter(error.to_string()))
}

/// The list: calls, each with the conditions under which it is allowed (none: always).
fn allowed(calls: Calls) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, ConfineError> {
    let of_calls: &[&[c_long]] = match calls {
        Calls::Gateway => &[PLAIN, FILES, SOCKETS],
        Calls::DpdkGateway => &[PLAIN, FILES, SOCKETS, DPDK],
        Calls::Helper => &[PLAIN, FILES, SOCKETS, HELPER],
    };
    let mut rules: BTreeMap<_, _> =
        of_calls.iter().flat_map(|list| list.iter()).map(|call| (*call, Vec::new())).collect();
    let when = |index, op, value: u64| SeccompCondition::new(index, Len::Dword, op, value);
    // Each its own way to be allowed.
    let mut limit = |call: c_long, ways: Vec<Result<SeccompCondition, seccompiler::BackendError>>| {
        let ways = ways.into_iter().map(|way| way.and_then(|condition| SeccompRule::new(vec![condition])));
        let ways = ways.collect::<Result<Vec<_>, _>>().map_err(|error| ConfineError::Filter(error.to_string()))?;
        rules.insert(call, ways);
        Ok::<_, ConfineError>(())
    };
    let word = |value: i32| u64::from(value.cast_unsigned());
    let is = |index, values: &[i32]| values.iter().map(|value| when(index, Op::Eq, word(*value))).collect();
    // Memory is never executable and writable: nothing made executable after the start.
    let executable = word(libc::PROT_EXEC);
    limit(libc::SYS_mmap, vec![when(2, Op::MaskedEq(executable), 0)])?;
    limit(libc::SYS_mprotect, vec![when(2, Op::MaskedEq(executable), 0)])?;
    // Threads, no processes.
    limit(libc::SYS_clone, vec![when(0, Op::MaskedEq(word(libc::CLONE_THREAD)), word(libc::CLONE_THREAD))])?;
    // Names of threads and of memory.
    limit(libc::SYS_prctl, is(0, &[libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA]))?;
    // One's own limits.
    limit(libc::SYS_prlimit64, is(0, &[0]))?;
    if calls != Calls::Helper {
        limit(libc::SYS_socket, is(0, &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6]))?;
        let more: &[u64] = if calls == Calls::DpdkGateway { DPDK_IOCTLS } else { &[] };
        limit(libc::SYS_ioctl, IOCTLS.iter().chain(more).map(|call| when(1, Op::Eq, *call)).collect())?;
    } else {
        limit(libc::SYS_setns, is(1, &[libc::CLONE_NEWNET]))?;
    }
    Ok(rules)
}

/// What an interface tells, and what files and terminals are asked.
const IOCTLS: &[u64] = &[
    libc::SIOCGIFINDEX,
    libc::SIOCGIFHWADDR,
    libc::SIOCGIFMTU,
    libc::SIOCGIFFLAGS,
    libc::SIOCETHTOOL,
    // TUN ports give back what the kernel left to them.
    libc::TUNSETOFFLOAD,
    libc::FIONBIO,
    libc::FIONREAD,
    libc::FIOCLEX,
    libc::TCGETS,
    libc::TIOCGWINSZ,
];

/// What DPDK's devices ask of their interfaces at their end: a TAP device takes its interface down. Without capabilities the kernel
/// refuses that, as the device expects.
const DPDK_IOCTLS: &[u64] = &[libc::SIOCSIFFLAGS];

/// Memory, threads, time, signals, oneself.
const PLAIN: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_membarrier,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_clone,
    // Answered with ENOSYS by the filter before.
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_getcpu,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getrlimit,
];

/// Files that are open, or that Landlock lets be opened.
const FILES: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_getcwd,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_fstatfs,
    // What the C library uses for these where the architecture has them.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
];

/// Sockets that are open, and connections. No bind and no listen: those sockets are made before the filter.
const SOCKETS: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

/// What DPDK's devices take beyond that.
const DPDK: &[c_long] = &[
    // Shared memory interfaces, whenever the other end comes.
    libc::SYS_memfd_create,
    // A timer that interrupts a connection to one.
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_delete,
    // The thread of interrupts, whenever it waits for other descriptors than before.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_create,
];

/// What opening ports takes beyond that.
const HELPER: &[c_long] = &[libc::SYS_bind, libc::SYS_bpf, libc::SYS_setns, libc::SYS_socketpair];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_runs_no_programs_and_loads_no_bpf() {
        let rules = allowed(Calls::Gateway).unwrap();
        for call in [libc::SYS_execve, libc::SYS_ptrace, libc::SYS_bpf, libc::SYS_setns, libc::SYS_bind, libc::SYS_kill]
        {
            assert!(!rules.contains_key(&call), "call {call}");
        }
        assert!(!rules[&libc::SYS_socket].is_empty() && !rules[&libc::SYS_ioctl].is_empty());
    }

    #[test]
    fn memory_to_share_is_made_by_gateways_with_dpdk_only() {
        for (calls, expected) in [(Calls::Gateway, false), (Calls::DpdkGateway, true), (Calls::Helper, false)] {
            assert_eq!(allowed(calls).unwrap().contains_key(&libc::SYS_memfd_create), expected, "{calls:?}");
        }
        let ioctls = |calls| allowed(calls).unwrap()[&libc::SYS_ioctl].len();
        assert_eq!(ioctls(Calls::DpdkGateway), ioctls(Calls::Gateway) + DPDK_IOCTLS.len());
    }

    #[test]
    fn the_helper_runs_no_programs_either() {
        let rules = allowed(Calls::Helper).unwrap();
        assert!(rules.contains_key(&libc::SYS_bpf) && rules.contains_key(&libc::SYS_bind));
        for call in [libc::SYS_execve, libc::SYS_execveat, libc::SYS_ptrace, libc::SYS_mount, libc::SYS_unshare] {
            assert!(!rules.contains_key(&call), "call {call}");
        }
    }

    #[test]
    fn modes_are_words() {
        for mode in [Mode::Enforce, Mode::Log, Mode::Kill, Mode::Off] {
            assert_eq!(mode.as_str().parse(), Ok(mode));
        }
        assert_eq!("on".parse::<Mode>(), Err("enforce, log, kill or off"));
    }
}
