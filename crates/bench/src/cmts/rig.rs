//! A gateway with its far ends on any kind of ports: counting begins when all modems have been heard, and ends when
//! everything has arrived.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::ends::Totals;
use super::under::{Cable, SLOTS};
use crate::bed::Bed;
use crate::error::BenchError;
use crate::memory::MemoryRig;
use crate::options::{PortKind, ReceiveWork};
use crate::thread::cpus;
use crate::window::{Closing, How, Rig, Window};

/// A gateway under its load.
pub struct CableRig<'a> {
    rig: Box<dyn Rig>,
    under: &'a Cable,
    /// Drops by `pipeline.stage.reason`, of all windows.
    pub drops: BTreeMap<String, u64>,
    /// Bytes of its modems and all that is theirs.
    pub bytes: usize,
    /// What its interfaces are.
    pub nic: String,
    /// Goes last: the rig's threads are on it.
    _bed: Option<Bed>,
}

impl<'a> CableRig<'a> {
    /// Sets one up.
    ///
    /// # Errors
    /// What cannot be, or what the system refused.
    pub fn new(under: &'a Cable, macs: [wire::Mac; 2], port: PortKind) -> Result<Self, BenchError> {
        let made =
            |rig: Box<dyn Rig>, bytes, nic, bed| Self { rig, under, drops: BTreeMap::new(), bytes, nic, _bed: bed };
        if port == PortKind::Memory {
            let mut cpus = cpus();
            // The first CPU has the machine's interrupts.
            cpus.reverse();
            let rig = MemoryRig::new(under, 1, 1, &cpus)?;
            let bytes = rig.session_bytes;
            return Ok(made(Box::new(rig), bytes, "in process".to_owned(), None));
        }
        let mut bed = Bed::between(macs, 1, false, ReceiveWork::Senders)?;
        bed.set_slots(SLOTS);
        let ready = bed.with_far_ends(under, port)?;
        let (bytes, nic) = (ready.session_bytes, ready.nic());
        Ok(made(Box::new(ready.rig), bytes, nic, Some(bed)))
    }

    /// Traffic that is not looked at in particular; counting begins behind it.
    ///
    /// # Errors
    /// What broke.
    pub fn warm(&mut self, time: Duration) -> Result<(), BenchError> {
        self.window(&How::most(time), &AtomicBool::new(false))?;
        self.drain()?;
        self.under.ends.count_from(self.under.now_ns());
        Ok(())
    }

    /// Nothing new; everything on its way arrives. Returns what became of all of it.
    ///
    /// # Errors
    /// What broke.
    pub fn drain(&mut self) -> Result<Totals, BenchError> {
        let how = How { warm: Duration::ZERO, pps: Some(0.0), ..How::most(Duration::from_millis(20)) };
        let begin = Instant::now();
        loop {
            let before = self.under.ends.totals();
            self.window(&how, &AtomicBool::new(false))?;
            let after = self.under.ends.totals();
            let still = (before.down.1, before.up) == (after.down.1, after.up);
            let waited = begin.elapsed();
            if after.is_whole() || still && waited > Duration::from_secs(1) || waited > Duration::from_secs(5) {
                // Devices give up what they still wait for.
                self.under.ends.devices().0.idle(self.under.now_ns() + 20_000_000);
                return Ok(self.under.ends.totals());
            }
        }
    }
}

impl Rig for CableRig<'_> {
    fn window(&mut self, how: &How, stop: &AtomicBool) -> Result<Window, BenchError> {
        let window = self.rig.window(how, stop)?;
        for (name, n) in window.workers.iter().flat_map(|slice| &slice.whole.drops) {
            *self.drops.entry(name.clone()).or_default() += n;
        }
        Ok(window)
    }

    fn close(self: Box<Self>) -> Result<Closing, BenchError> {
        self.rig.close()
    }
}
