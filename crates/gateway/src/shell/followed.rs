//! The trace of a process: whose packets its workers follow, for whom, and what was recorded.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use engine::{TraceFilter, TracerHandle};

use super::observe::PortName;
use crate::socket::{TraceLine, TraceView, hex};

/// The trace of all workers; one at a time.
pub struct Followed {
    workers: Vec<TracerHandle>,
    /// Wall clock at the workers' nanosecond 0.
    epoch_ns: u64,
    /// The connection that traces, if any, and whom.
    owner: Mutex<Option<(u64, IpAddr)>>,
}

impl Followed {
    /// Nobody's yet; `epoch_ns` is the wall clock at the workers' nanosecond 0.
    pub fn new(workers: Vec<TracerHandle>, epoch_ns: u64) -> Self {
        Self { workers, epoch_ns, owner: Mutex::new(None) }
    }

    fn owner(&self) -> MutexGuard<'_, Option<(u64, IpAddr)>> {
        self.owner.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn stop(&self) {
        for worker in &self.workers {
            worker.stop();
            worker.take();
        }
    }

    /// Has the next packets of a subscriber followed, for that connection.
    ///
    /// # Errors
    /// Another connection follows somebody.
    pub fn start(&self, connection: u64, ue: IpAddr, packets: u32) -> Result<TraceView, String> {
        let mut tracing = self.owner();
        if let Some((_, other)) = tracing.filter(|(owner, _)| *owner != connection) {
            return Err(format!("another `weir trace` follows {other}; one at a time"));
        }
        *tracing = Some((connection, ue));
        self.stop();
        self.workers.iter().for_each(|worker| worker.start(TraceFilter { subscriber: ue }, packets));
        Ok(TraceView { left: packets, ..TraceView::default() })
    }

    /// What was recorded since last asked; `ports`: names of the ports.
    pub fn take(&self, ports: &[PortName]) -> TraceView {
        let ns_per_cycle = 1e9 / table::hint::tsc_hz() as f64;
        let left = self.workers.iter().map(TracerHandle::left).min().unwrap_or(0);
        let mut lines = Vec::new();
        for (n, worker) in self.workers.iter().enumerate() {
            lines.extend(worker.take().into_iter().map(|record| TraceLine {
                worker: n as u16,
                packet: record.packet,
                unix_ns: self.epoch_ns + record.time_ns,
                stage: record.stage.to_owned(),
                verdict: record.verdict.to_owned(),
                detail: record.detail,
                port: record.port.and_then(|port| ports.get(usize::from(port))).map(|port| port.name.clone()),
                stage_ns:
                    (record.cost.0 > 0).then(|| record.cost.0 as f64 * ns_per_cycle / f64::from(record.cost.1.max(1))),
                burst_packets: record.cost.1,
                bytes: hex(&record.bytes),
            }));
        }
        TraceView { left, lines, ..TraceView::default() }
    }

    /// A connection has ended, and its trace with it.
    pub(crate) fn hung_up(&self, connection: u64) {
        let mut tracing = self.owner();
        if tracing.is_some_and(|(owner, _)| owner == connection) {
            self.stop();
            *tracing = None;
        }
    }
}
