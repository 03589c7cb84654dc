//! The bare forwarder: what comes in by one port leaves by the other, and nothing else. What a gateway is measured
//! against.

use engine::{Io, Layout, Stats, StatsView};
use frame::{Batch, Frame, Pool, Port};
use table::hint::tsc;

use crate::crew::{Left, Player, Slice, sampled};
use crate::score::Score;
use crate::under_test::FarCycles;
use crate::window::How;

/// Two ports and nothing between.
pub struct Bare {
    ports: [Box<dyn Port>; 2],
    pool: Pool,
    batch: Batch,
    stats: Stats,
}

impl Bare {
    /// Between those ports.
    pub fn new(ports: [Box<dyn Port>; 2], pool: Pool) -> Self {
        Self { ports, pool, batch: Batch::new(), stats: Stats::new(Layout::default()) }
    }

    /// Both ways once.
    fn turn(&mut self) -> bool {
        let Self { ports, pool, batch, stats } = self;
        let begin = tsc();
        let mut moved = false;
        for (from, to) in [(0, 1), (1, 0)] {
            let t0 = tsc();
            ports[from].service(pool);
            let came = ports[from].rx_burst(pool, batch);
            if came == 0 {
                continue;
            }
            moved = true;
            let t1 = tsc();
            let bytes: usize = batch.frames().iter().map(Frame::len).sum();
            let sent = ports[to].tx_burst(pool, batch);
            ports[to].kick(pool);
            let refused: usize = batch.frames().iter().map(Frame::len).sum();
            batch.drain(|frame| {
                stats.drop_outside(engine::drops::TX_FULL, frame.len());
                pool.give(frame);
            });
            let t2 = tsc();
            for (what, by) in [
                (Io::Bursts, 1),
                (Io::RxPackets, came as u64),
                (Io::RxBytes, bytes as u64),
                (Io::TxPackets, sent as u64),
                (Io::TxBytes, (bytes - refused) as u64),
                (Io::RxCycles, t1.wrapping_sub(t0)),
                (Io::TxCycles, t2.wrapping_sub(t1)),
            ] {
                stats.add(what, by);
            }
        }
        stats.add(Io::Turns, 1);
        if moved {
            stats.add(Io::BusyTurns, 1);
        } else {
            stats.add(Io::IdleCycles, tsc().wrapping_sub(begin));
        }
        moved
    }

    fn view(&self) -> StatsView {
        self.stats.view()
    }
}

impl Player for Bare {
    fn play(&mut self, _how: &How, score: &Score) -> Slice {
        let view = self.view();
        sampled(&view, &FarCycles::default(), score, |_| self.turn())
    }

    fn close(mut self: Box<Self>) -> Left {
        for port in &mut self.ports {
            port.close(&mut self.pool);
        }
        Left { packets_missing: self.view().missing() }
    }
}
