//! What a session has counted and what its buckets hold, on the way to a worker of another process whose record was compiled
//! from the same rules.
//!
//! ```text
//! for each QER and URR:  kind (1) | its ID (4) | which follow (1) | uplink's cell (32) | downlink's cell (32) | bounds (64)
//! ```
//! Cells and bounds are as they lie in the record; the layout that both processes must have is [`LAYOUT`].

use gateway::fast_path::InKernelSessions as _;
use table::records::Line;
use zerocopy::{FromBytes, IntoBytes};

use super::Sessions;
use crate::record::{self, Bounds, CELLS, Meter, PacketQuota, Row, Tally};

/// Changes with whatever cells and bounds are made of.
pub const LAYOUT: u64 = {
    // To be increased when the meaning of a field changes and no size does.
    let meaning = 1;
    let sizes = [size_of::<Meter>(), size_of::<PacketQuota>(), size_of::<Tally>(), size_of::<Bounds>(), CELLS];
    let (mut sum, mut at) = (0xcbf2_9ce4_8422_2325u64 ^ meaning, 0);
    while at < sizes.len() {
        sum = (sum ^ sizes[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    sum
};

/// Octets of a cell.
const CELL: usize = record::LINE / CELLS;
const UP: u8 = 1;
const DOWN: u8 = 2;
const BOUNDS: u8 = 4;

/// What a row is of.
fn kinds(rows: (&[Row], &[Row])) -> impl Iterator<Item = (u8, Row)> {
    let qers = rows.0.iter().map(|row| (u8::from(row.limits != 0), *row)).collect::<Vec<_>>();
    qers.into_iter().chain(rows.1.iter().map(|row| (2, *row)).collect::<Vec<_>>())
}

fn octets(lines: &[Line], at: u8) -> Option<&[u8]> {
    let line = lines.get(usize::from(at) / CELLS)?;
    let from = usize::from(at) % CELLS * CELL;
    line.as_bytes().get(from..from + CELL)
}

fn octets_mut(lines: &mut [Line], at: u8) -> Option<&mut [u8]> {
    let line = lines.get_mut(usize::from(at) / CELLS)?;
    let from = usize::from(at) % CELLS * CELL;
    line.as_mut_bytes().get_mut(from..from + CELL)
}

impl Sessions {
    /// Handles that sessions have or had: all are below.
    pub fn handles(&self) -> usize {
        self.places.len()
    }

    /// Adds a session's state; nothing, if there is none of that handle.
    pub(crate) fn export_state(&self, handle: u32, out: &mut Vec<u8>) {
        let Some(lines) = self.lines_of(handle) else { return };
        let lines = &*lines;
        let Some(head) = record::head(lines) else { return };
        for (kind, row) in kinds(record::rows(lines, head)) {
            let parts = [(UP, row.up != 0), (DOWN, row.down != 0), (BOUNDS, kind == 2 && row.bounds != 0)];
            out.push(kind);
            out.extend(row.id.to_le_bytes());
            out.push(parts.iter().filter(|(_, is)| *is).map(|(bit, _)| bit).sum());
            for at in [row.up, row.down].into_iter().filter(|at| *at != 0) {
                out.extend(octets(lines, at).unwrap_or(&[0; CELL]));
            }
            if parts[2].1 {
                out.extend(lines.get(usize::from(row.bounds)).map_or(&[0; record::LINE][..], |line| line.as_bytes()));
            }
        }
    }

    /// Takes on a session's state of another process. False: its record has other rules, or there is none.
    pub(crate) fn import_state(&mut self, handle: u32, state: &[u8]) -> bool {
        self.leave_kernel(handle);
        let taken = self.set_state(handle, state);
        self.enter_kernel(handle);
        taken
    }

    fn set_state(&mut self, handle: u32, state: &[u8]) -> bool {
        let Some(place) = self.places.get(handle as usize).copied().flatten() else { return false };
        let Some(lines) = self.lines.get_mut(place.line, place.lines.into()) else { return false };
        let Some(head) = record::head(lines).copied() else { return false };
        let rows: Vec<(u8, Row)> = kinds(record::rows(lines, &head)).collect();
        let mut left = state;
        let mut take = |len: usize| {
            let (head, rest) = left.split_at_checked(len)?;
            left = rest;
            Some(head)
        };
        let mut count = 0;
        while let Some(head) = take(6) {
            let (kind, parts) = (head[0], head[5]);
            let id = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
            let Some((_, row)) = rows.iter().find(|(its, row)| *its == kind && row.id == id) else { return false };
            for (at, _) in [(row.up, UP), (row.down, DOWN)].into_iter().filter(|(_, bit)| parts & bit != 0) {
                let (Some(from), true) = (take(CELL), at != 0) else { return false };
                let Some(to) = octets_mut(lines, at) else { return false };
                to.copy_from_slice(from);
            }
            if parts & BOUNDS != 0 {
                let bounds = take(record::LINE).and_then(|octets| Line::read_from_bytes(octets).ok());
                let line = lines.get_mut(usize::from(row.bounds)).filter(|_| row.bounds != 0);
                let (Some(bounds), Some(line)) = (bounds, line) else { return false };
                *line = bounds;
            }
            count += 1;
        }
        count == rows.len()
    }
}
