//! What workers have counted of a few modems: a bounded number in a turn, however many there are.

use super::{Control, Purpose};
use crate::gateway::{Command, ModemCount};

/// What was asked last, and what has come of it.
#[derive(Default)]
pub(super) struct Counts {
    asked: Vec<u32>,
    /// By worker; none: it has not answered.
    workers: Vec<Option<Vec<ModemCount>>>,
}

impl Control {
    /// One more than the highest number of a modem.
    pub fn handles(&self) -> u32 {
        self.layout.modems.len() as u32 // a layout has fewer than 2^32
    }

    /// Asks workers what they have counted of those modems; [`Control::counts`] has it when all have answered.
    pub fn ask_counts(&mut self, modems: &[u32]) {
        self.counts.asked = modems.to_vec();
        self.counts.workers = self.links.iter().map(|_| None).collect();
        for link in &mut self.links {
            let rows = modems.iter().map(|modem| ModemCount { modem: *modem, count: None }).collect();
            link.post(Command::Count(rows), Purpose::Nothing);
        }
    }

    /// Takes in a worker's answer; one to an earlier question is of no use.
    pub(super) fn on_counts(&mut self, worker: usize, rows: Vec<ModemCount>) {
        if rows.iter().map(|row| row.modem).eq(self.counts.asked.iter().copied()) {
            self.counts.workers[worker] = Some(rows);
        }
    }

    /// Packets and bytes downstream, packets and bytes upstream, each in the place it was asked for; inner none: there is no
    /// such modem. None: a worker has not answered yet.
    pub fn counts(&self) -> Option<Vec<Option<[u64; 4]>>> {
        let workers: Option<Vec<_>> = self.counts.workers.iter().map(Option::as_ref).collect();
        let workers = workers?;
        // A service group's directions may have workers of their own.
        let sum = |place: usize| {
            let counts = workers.iter().filter_map(|rows| rows.get(place)?.count);
            counts.reduce(|sum, count| std::array::from_fn(|n| sum[n] + count[n]))
        };
        Some((0..self.counts.asked.len()).map(sum).collect())
    }
}
