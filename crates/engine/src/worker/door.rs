//! A worker's port.

use frame::{Batch, Frame, Pool, Port};

use crate::clock::{Clock, Tsc};
use crate::drops;
use crate::stats::{Io, Stats};

/// A port with the frames that wait to leave by it.
pub(super) struct Door {
    pub port: Box<dyn Port>,
    pub name: String,
    pub out: Batch,
    /// Cycles of sending before the turn's end, since they were last taken.
    pub amid: u64,
    /// The last turn in which nothing had come in.
    pub empty_at: u64,
}

impl Door {
    pub fn new(port: Box<dyn Port>) -> Self {
        Self { name: port.caps().name, port, out: Batch::new(), amid: 0, empty_at: 0 }
    }

    /// Has a frame wait; where no more can, those before it leave first.
    #[inline]
    pub fn queue(&mut self, frame: Frame, pool: &mut Pool, stats: &Stats) {
        if let Err(frame) = self.out.push(frame) {
            let begin = Tsc::cycles();
            self.send(pool, stats);
            self.amid += Tsc::cycles().wrapping_sub(begin);
            // Empty after sending: what the port refused was counted and given back.
            let _ = self.out.push(frame).map_err(|_| unreachable!("the queue was just emptied"));
        }
    }

    /// Sends what waits. What the port has no room for is dropped by name.
    pub fn send(&mut self, pool: &mut Pool, stats: &Stats) {
        let bytes: usize = self.out.frames().iter().map(Frame::len).sum();
        let sent = self.port.tx_burst(pool, &mut self.out);
        let mut refused = 0;
        self.out.drain(|frame| {
            refused += frame.len();
            stats.drop_outside(drops::TX_FULL, frame.len());
            pool.give(frame);
        });
        stats.add(Io::TxPackets, sent as u64);
        stats.add(Io::TxBytes, (bytes - refused) as u64);
    }
}
