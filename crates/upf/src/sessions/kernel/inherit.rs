//! What sessions have counted in the kernel while no process was there.
//!
//! A process goes on with what the ledger knows. In the kernel the program of the process before goes on counting, until this
//! one's takes its place; what it has then beyond what this process began with is added here. Counts of a URR only grow, so
//! the difference is right whatever was reported meanwhile.

use std::sync::Arc;

use gateway::fast_path::{Before, Offset};
use table::records::Line;

use super::{Sessions, cell_mut};
use crate::fast::{self, Cells, state_before};
use crate::record::{self, Tally};

/// How many sessions a turn sees to.
const INHERITED: usize = 256;

/// What each session had counted when this process began, by handle, and those that have been seen to.
pub(in crate::sessions) struct Inherits {
    before: Arc<Before>,
    began: Vec<[(u64, u64); 4]>,
    next: usize,
}

impl Sessions {
    /// Notes what sessions have counted, if there is a process before: from here on what it has more is to come.
    pub(super) fn begin_to_inherit(&mut self) {
        let before = self.kernel.as_ref().and_then(|kernel| kernel.path.before().clone());
        let Some(before) = before else { return };
        let began = (0..self.places.len() as u32).map(|handle| self.counted(handle)).collect();
        self.inherits = Some(Box::new(Inherits { before, began, next: 0 }));
    }

    /// What a session has counted: octets and packets, by its cells.
    fn counted(&self, handle: u32) -> [(u64, u64); 4] {
        let place = self.places.get(handle as usize).copied().flatten();
        let lines = place.and_then(|place| Some((place, self.lines.get(place.line, place.lines.into())?)));
        let Some(lines) = lines.map(|(place, lines)| self.with_kernels(handle, place, lines)) else {
            return Default::default();
        };
        let cells = Cells::of(&lines).unwrap_or_default();
        cells.tallies.map(|at| {
            let line = lines.get(usize::from(at) / record::CELLS).filter(|_| at != 0);
            let tally = line.and_then(|line| record::cell::<Tally>(line, at));
            tally.map_or((0, 0), |tally| (tally.bytes, tally.packets))
        })
    }

    /// Adds to sessions what they have counted in the kernel since the process before wrote it down last; once that is final,
    /// some each time.
    #[cold]
    pub(super) fn inherit(&mut self) {
        let Some(kernel) = &self.kernel else { return };
        let (path, worker, offset) = (kernel.path.clone(), kernel.worker, kernel.offset);
        let Some(inherits) = self.inherits.as_mut().filter(|_| path.is_over()) else { return };
        let before = inherits.before.clone();
        let first = inherits.next;
        let some = inherits.began.get(first..).unwrap_or_default();
        let some = some.get(..INHERITED.min(some.len())).unwrap_or_default().to_vec();
        inherits.next += some.len();
        if some.is_empty() {
            self.inherits = None;
            return;
        }
        for (handle, began) in (first as u32..).zip(some) {
            let Some(place) = self.places.get(handle as usize).copied().flatten() else { continue };
            let Some(keys) = self.keys.get(handle as usize) else { continue };
            let ue4 = keys.ue4.map_or(0, |(_, address)| address);
            let Some((meters, mut more)) = state_before(&before, handle, keys.teids.as_slice(), ue4) else { continue };
            for (tally, (bytes, packets)) in more.iter_mut().zip(began) {
                tally.bytes = tally.bytes.saturating_sub(bytes);
                tally.packets = tally.packets.saturating_sub(packets);
            }
            if place.kernel.is_there {
                if let Some(number) = path.number(worker, handle) {
                    path.add(number, &meters, &more);
                }
            } else if let Some(lines) = self.lines.get_mut(place.line, place.lines.into()) {
                add(lines, &more, offset);
            }
        }
    }
}

/// Adds to a record's counts.
fn add(lines: &mut [Line], more: &[fast::Tally; 4], offset: Offset) {
    let Ok(cells) = Cells::of(lines) else { return };
    for (at, more) in cells.tallies.into_iter().zip(more) {
        if let Some(tally) = cell_mut::<Tally>(lines, at) {
            let trip = tally.trip;
            fast::tally_from_kernel(tally, more, offset);
            tally.trip = trip;
        }
    }
}
