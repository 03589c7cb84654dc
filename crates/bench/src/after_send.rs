//! Telling sending from receiving where a port does its sending later.
//!
//! Some ports only put packets into a ring when asked to send, and have the kernel send them when they are serviced
//! next. The worker, which services a port before it receives, would count that as receiving.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use frame::{Batch, Caps, Pool, Port, PortCounters};
use table::hint::tsc;

/// A port whose services are timed when packets were sent since the last one: they are part of sending.
pub struct AfterSend {
    port: Box<dyn Port>,
    sent: bool,
    cycles: Arc<AtomicU64>,
}

impl AfterSend {
    /// Around a port; adds to `cycles`, which one thread alone writes.
    pub fn new(port: Box<dyn Port>, cycles: &Arc<AtomicU64>) -> Self {
        Self { port, sent: false, cycles: cycles.clone() }
    }
}

impl Port for AfterSend {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        self.port.rx_burst(pool, out)
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.sent = true;
        self.port.tx_burst(pool, batch)
    }

    fn service(&mut self, pool: &mut Pool) {
        if !self.sent {
            return self.port.service(pool);
        }
        self.sent = false;
        let begin = tsc();
        self.port.service(pool);
        let spent = tsc().wrapping_sub(begin);
        self.cycles.store(self.cycles.load(Ordering::Relaxed).wrapping_add(spent), Ordering::Relaxed);
    }

    fn caps(&self) -> Caps {
        self.port.caps()
    }

    fn counters(&self) -> PortCounters {
        self.port.counters()
    }

    fn extras(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.port.extras(tell);
    }

    fn held(&self) -> usize {
        self.port.held()
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.wait_fd()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.port.close(pool);
    }
}
