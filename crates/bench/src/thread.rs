//! Where and how threads of a trial run: a CPU each, and before everything else on it if that may be.

use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue,
    ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// The CPUs this process may run on; at least one.
pub fn cpus() -> Vec<usize> {
    let mut cpus: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
    if cpus.is_empty() {
        cpus.push(0);
    }
    cpus
}

/// Keeps the calling thread on a CPU. False when it may not.
pub fn pin(cpu: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: cpu })
}

/// How urgent a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It gets nearly all of its CPU, and leaves the rest to ordinary threads and to its like.
    Brisk,
    /// It carries packets in a trial: before all ordinary threads.
    Packets,
    /// It ends a window of measurement on time: before those.
    Conductor,
}

/// Makes the calling thread that urgent. False when it may not (`CAP_SYS_NICE` is wanting); then it shares its CPU with
/// whatever else wants it.
///
/// The kernel gives ordinary threads 50 ms of each second even beside `SCHED_FIFO`, in one piece: windows of
/// measurement are shorter than a second, with a rest between.
pub fn urge(urgency: Urgency) -> bool {
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let normal = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
    // Of 99; for ordinary threads it stands for a niceness, here -16.
    let (policy, priority) = match urgency {
        Urgency::Brisk => (normal, 87u8),
        Urgency::Packets => (fifo, 10),
        Urgency::Conductor => (fifo, 20),
    };
    let priority = ThreadPriorityValue::try_from(priority).map_or(ThreadPriority::Max, ThreadPriority::Crossplatform);
    set_thread_priority_and_policy(thread_native_id(), priority, policy).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_kept_on_each_cpu() {
        for cpu in cpus() {
            assert!(std::thread::spawn(move || pin(cpu)).join().unwrap());
        }
    }
}
