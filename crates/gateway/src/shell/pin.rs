//! CPUs: which there are, and keeping a thread on one.

/// The CPUs this process may run on; empty where that is unknown.
pub fn cpus() -> Vec<usize> {
    core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect()
}

/// Keeps the calling thread on a CPU. False when it may not.
pub fn pin(cpu: usize) -> bool {
    core_affinity::set_for_current(core_affinity::CoreId { id: cpu })
}
