//! CPU time of all threads of a process and its children, and of the kernel threads that serve its interfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// What a thread, or several, has had from the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sched {
    /// Nanoseconds on a CPU.
    pub run_ns: u64,
    /// Nanoseconds runnable and not on a CPU.
    pub wait_ns: u64,
    /// Times it gave its CPU up by itself: as often it was woken.
    pub wakeups: u64,
}

impl Sched {
    fn since(self, before: Self) -> Self {
        Self {
            run_ns: self.run_ns.saturating_sub(before.run_ns),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
            wakeups: self.wakeups.saturating_sub(before.wakeups),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            run_ns: self.run_ns + other.run_ns,
            wait_ns: self.wait_ns + other.wait_ns,
            wakeups: self.wakeups + other.wakeups,
        }
    }
}

/// Threads at one moment, by thread number.
#[derive(Clone, Debug, Default)]
pub struct Threads(BTreeMap<u32, Sched>);

impl Threads {
    /// All threads of these processes now.
    pub fn now(pids: &[u32]) -> Self {
        let tids =
            pids.iter().flat_map(|pid| numbers(&format!("/proc/{pid}/task")).into_iter().map(move |tid| (*pid, tid)));
        Self(tids.filter_map(|(pid, tid)| Some((tid, read(pid, tid)?))).collect())
    }

    /// What they had together since. Threads that were made since count from nothing, those that ended are lost.
    pub fn since(&self, before: &Self) -> Sched {
        let each = self.0.iter().map(|(tid, now)| now.since(before.0.get(tid).copied().unwrap_or_default()));
        each.fold(Sched::default(), Sched::and)
    }
}

fn read(pid: u32, tid: u32) -> Option<Sched> {
    let schedstat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
    parse(&schedstat, &status)
}

/// `schedstat` is "run_ns wait_ns slices".
fn parse(schedstat: &str, status: &str) -> Option<Sched> {
    let mut words = schedstat.split_whitespace();
    let mut number = || words.next()?.parse().ok();
    let (run_ns, wait_ns) = (number()?, number()?);
    let wakeups = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    Some(Sched { run_ns, wait_ns, wakeups: wakeups.and_then(|count| count.trim().parse().ok()).unwrap_or(0) })
}

/// A process and all that descend from it.
pub fn family(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = numbers("/proc")
        .into_iter()
        .filter_map(|pid| Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect();
    let mut family = vec![pid];
    let mut at = 0;
    while at < family.len() {
        let of = family[at];
        family.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(child, _)| *child));
        at += 1;
    }
    family
}

/// The parent in the text of `/proc/PID/stat`: the second word after the name, which may itself hold blanks and brackets.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Kernel threads of threaded NAPI for interfaces of these names.
pub(crate) fn napi_threads(interfaces: &[String]) -> BTreeSet<u32> {
    let ours: Vec<String> = interfaces.iter().map(|name| format!("napi/{name}-")).collect();
    let is_ours = |pid: &u32| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        ours.iter().any(|name| comm.starts_with(name))
    };
    numbers("/proc").into_iter().filter(is_ours).collect()
}

fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Ticks that the hypervisor took from one CPU, and all ticks of it, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steal {
    stolen: u64,
    all: u64,
}

impl Steal {
    /// Of these CPUs together, now.
    pub fn now(cpus: &[usize]) -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default(), cpus)
    }

    fn parse(stat: &str, cpus: &[usize]) -> Self {
        // user nice system idle iowait irq softirq steal
        let lines =
            cpus.iter().filter_map(|cpu| stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{cpu} "))));
        lines.fold(Self::default(), |sum, line| {
            let n: Vec<u64> = line.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
            Self { stolen: sum.stolen + n.get(7).copied().unwrap_or(0), all: sum.all + n.iter().sum::<u64>() }
        })
    }

    /// The part, 0 to 1, that was stolen since.
    pub fn since(&self, before: &Self) -> f64 {
        self.stolen.saturating_sub(before.stolen) as f64 / self.all.saturating_sub(before.all).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheduler_files_are_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(parse("100 20 3\n", status), Some(Sched { run_ns: 100, wait_ns: 20, wakeups: 7 }));
        assert_eq!(parse("x", status), None);
        assert_eq!(parent("12 (a ) b) S 7 1 1"), Some(7));
    }

    #[test]
    fn threads_made_since_count_from_nothing() {
        let sched = |run_ns| Sched { run_ns, wait_ns: 1, wakeups: 2 };
        let before = Threads([(1, sched(100)), (2, sched(50))].into());
        let now = Threads([(1, sched(160)), (3, sched(5))].into());
        assert_eq!(now.since(&before), Sched { run_ns: 65, wait_ns: 1, wakeups: 2 });
    }

    #[test]
    fn steal_is_of_the_cpus_named() {
        let before = "cpu  9 9\ncpu0 100 0 0 0 0 0 0 0 0 0\ncpu1 100 0 0 100 0 0 0 10 0 0\ncpu10 1 1 1 1 1 1 1 1\n";
        let now = "cpu  9 9\ncpu0 900 0 0 0 0 0 0 90 0 0\ncpu1 170 0 0 120 0 0 0 20 0 0\ncpu10 1 1 1 1 1 1 1 1\n";
        assert_eq!(Steal::parse(now, &[1]).since(&Steal::parse(before, &[1])), 0.1);
    }

    #[test]
    fn this_process_has_threads_and_a_family() {
        let me = std::process::id();
        assert!(family(me).contains(&me));
        let before = Threads::now(&[me]);
        let begin = std::time::Instant::now();
        while begin.elapsed().as_millis() < 30 {}
        assert!(Threads::now(&[me]).since(&before).run_ns > 1_000_000);
    }
}
