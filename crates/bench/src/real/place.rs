//! Who has which CPU: the process under measurement and the NAPI threads of its interfaces one, load and far ends another.

use std::collections::BTreeSet;

use super::cpu::napi_threads;
use crate::error::BenchError;
use crate::lab::{Lab, Side, exec, run};
use crate::thread::{Urgency, cpus, urge};

/// CPUs and scheduling of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// CPU of load, sink and far ends.
    pub load: usize,
    /// CPU of the process and of its interfaces' NAPI threads.
    pub gateway: usize,
    /// Everything runs at real-time priority (`SCHED_FIFO`), so that nothing else on the machine takes its CPU.
    pub fifo: bool,
}

impl Place {
    /// Priority of the process and of its interfaces' NAPI threads: neither comes before the other.
    pub const GATEWAY_PRIORITY: &str = "10";
    /// Priority of the far ends' NAPI threads: above the load, or nothing it sends would be taken in.
    const FAR_PRIORITY: &str = "15";

    /// The first CPU for the load, the last for the process.
    ///
    /// # Errors
    /// Fewer than two CPUs.
    pub fn find() -> Result<Self, BenchError> {
        let cpus = cpus();
        let (Some(&load), Some(&gateway)) = (cpus.first(), cpus.last()) else { return Err(too_few()) };
        if load == gateway {
            return Err(too_few());
        }
        // Asked on a thread of its own, for it stays as it is then.
        let fifo = std::thread::spawn(|| urge(Urgency::Packets)).join().unwrap_or(false);
        Ok(Self { load, gateway, fifo })
    }

    /// As conditions print it.
    pub fn text(&self) -> String {
        let class = if self.fifo { "SCHED_FIFO" } else { "SCHED_OTHER" };
        format!(
            "process and NAPI of its interfaces on CPU {}, load, far ends and sink on CPU {}, {class}",
            self.gateway, self.load
        )
    }

    /// Gives the receive work of both ends of a contender's links to NAPI threads and pins these. The kernel makes new
    /// threads whenever an XDP program is attached: to be called after that, and again when it may have happened.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn pin_napi(&self, lab: &Lab, link: usize, known: &mut Napi) -> Result<(), BenchError> {
        let near: Vec<String> = Side::BOTH.map(|side| side.gateway(link)).to_vec();
        let far: Vec<String> = Side::BOTH.map(|side| side.load(link)).to_vec();
        let (near_threads, far_threads) = (napi_threads(&near), napi_threads(&far));
        if !known.near.is_empty() && near_threads == known.near && far_threads == known.far {
            return Ok(());
        }
        for (netns, names) in [(lab.gateway(), &near), (lab.load(), &far)] {
            for name in names {
                exec(netns, "sh", &["-c", &format!("echo 1 > /sys/class/net/{name}/threaded")])?;
            }
        }
        known.near = napi_threads(&near);
        known.far = napi_threads(&far);
        for (threads, cpu, priority) in
            [(&known.near, self.gateway, Self::GATEWAY_PRIORITY), (&known.far, self.load, Self::FAR_PRIORITY)]
        {
            for pid in threads {
                let (pid, cpu) = (pid.to_string(), cpu.to_string());
                run("taskset", &["-p", "-c", &cpu, &pid])?;
                if self.fifo {
                    run("chrt", &["-f", "-p", priority, &pid])?;
                }
            }
        }
        if known.near.len() < 2 || known.far.len() < 2 {
            let said = format!("{} of 4 NAPI threads are there", known.near.len() + known.far.len());
            return Err(BenchError::Lab { command: format!("threaded NAPI on {near:?} and {far:?}"), said });
        }
        Ok(())
    }
}

fn too_few() -> BenchError {
    BenchError::Asked("this measurement needs two CPUs: one for the gateway, one for the load".into())
}

/// NAPI threads of a contender's links.
#[derive(Clone, Debug, Default)]
pub struct Napi {
    /// Of its own interfaces: their time is its cost.
    pub near: BTreeSet<u32>,
    /// Of the far ends.
    pub far: BTreeSet<u32>,
}
