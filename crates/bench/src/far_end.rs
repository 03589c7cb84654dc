//! Who takes in what a gateway sends.
//!
//! On a virtual link the sender's CPU does the receiver's work, packet by packet: a gateway's CPU carries the far end's
//! half of the kernel, too, which on a wire it never would. `given_to` gives that work to a kernel thread of each far
//! interface on another CPU (threaded NAPI), woken by a timer as a network card's interrupts are moderated; so the
//! gateway has its CPU for itself.

use std::collections::BTreeSet;

use crate::error::BenchError;
use crate::lab::{exec, run, set_gro};

/// Nanoseconds between two looks at a far end. A veth has room for 256 packets: enough for 1.2 million a second, and
/// a timer takes some microseconds on a virtual machine, so more often is dear.
const LOOK_EVERY: u32 = 200_000;
/// Before the load itself, or nothing it sends would ever be taken in.
const PRIORITY: &str = "15";

/// The CPU that far ends are received on, and whether before everything ordinary there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarCpu {
    /// Its number.
    pub cpu: usize,
    /// Whether the load runs at real-time priority.
    pub urgent: bool,
}

/// Has an interface's receive work done by a thread of its own on a CPU.
///
/// # Errors
/// What the system said: threaded NAPI is in Linux since 5.12.
pub(crate) fn given_to(far: FarCpu, netns: &str, name: &str) -> Result<(), BenchError> {
    let before = threads(name);
    // A veth has NAPI only with GRO, or an XDP program, which would have every packet copied.
    set_gro(netns, name, true)?;
    set(netns, name, [LOOK_EVERY, 2, 1])?;
    let cpu = far.cpu.to_string();
    let new: Vec<u32> = threads(name).difference(&before).copied().collect();
    for pid in &new {
        let pid = pid.to_string();
        run("taskset", &["-p", "-c", &cpu, &pid])?;
        if far.urgent {
            run("chrt", &["-f", "-p", PRIORITY, &pid])?;
        }
    }
    if new.is_empty() {
        let said = "the kernel made no thread for it".to_owned();
        return Err(BenchError::Lab { command: format!("threaded NAPI on {name}"), said });
    }
    Ok(())
}

/// Has an interface's receive work done by whoever sends to it, as virtual links come.
///
/// # Errors
/// What the system said.
pub(crate) fn left_to_sender(netns: &str, name: &str) -> Result<(), BenchError> {
    set(netns, name, [0; 3])?;
    set_gro(netns, name, false)
}

fn set(netns: &str, name: &str, [timer, deferred, threaded]: [u32; 3]) -> Result<(), BenchError> {
    let command = format!(
        "cd /sys/class/net/{name} && echo {timer} > gro_flush_timeout && echo {deferred} > napi_defer_hard_irqs && \
         echo {threaded} > threaded"
    );
    exec(netns, "sh", &["-c", &command])
}

/// The kernel's threads for interfaces of that name.
fn threads(name: &str) -> BTreeSet<u32> {
    let ours = format!("napi/{name}-");
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with(&ours)))
        .collect()
}
