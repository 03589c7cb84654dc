//! Buckets and counts of a record when its session begins, and when its rules are replaced.

use table::bucket;
use table::records::Line;

use super::usage::rearm;
use super::{Place, Sessions};
use crate::record::{self, Meter, PacketQuota, Row, Tally};
use crate::rules::Usage;

impl Sessions {
    /// Copies the state of rules that both records have, by rule ID: credit earned so far at the old rate, and usage.
    pub(super) fn carry_over(&mut self, old: Place, new: Place, now: u64) {
        let Some(before) = self.lines.get(old.line, old.lines.into()).map(<[Line]>::to_vec) else { return };
        let Some(after) = self.lines.get_mut(new.line, new.lines.into()) else { return };
        let (Some(was), Some(is)) = (record::head(&before).copied(), record::head(after).copied()) else { return };
        let (old_qers, old_urrs) = record::rows(&before, &was);
        let (new_qers, new_urrs) = record::rows(after, &is);
        let (new_qers, new_urrs) = (new_qers.to_vec(), new_urrs.to_vec());
        let pairs = |from: &[Row], to: &[Row]| -> Vec<(u8, u8)> {
            let same = |old: &Row, row: &Row| old.id == row.id && old.limits == row.limits;
            let find = |row: &Row| from.iter().find(|old| same(old, row)).map(|old| (*old, *row));
            let both = to.iter().filter_map(find).flat_map(|(old, new)| [(old.up, new.up), (old.down, new.down)]);
            // Without a limit before, credit begins full.
            both.filter(|(from, to)| *from != 0 && *to != 0).collect()
        };
        let line = |at: u8| usize::from(at) / record::CELLS;
        let of = |rows: &[Row], limits: bool| -> Vec<Row> {
            rows.iter().filter(|row| (row.limits != 0) == limits).copied().collect()
        };
        for (from, to) in pairs(&of(old_qers, true), &of(&new_qers, true)) {
            let old = before.get(line(from)).and_then(|l| record::cell::<PacketQuota>(l, from));
            let new = after.get_mut(line(to)).and_then(|l| record::cell_mut::<PacketQuota>(l, to));
            if let (Some(old), Some(new)) = (old, new) {
                // Another period begins anew.
                if old.period_ns == new.period_ns {
                    (new.passed, new.ends_ns) = (old.passed, old.ends_ns);
                }
            }
        }
        for (from, to) in pairs(&of(old_qers, false), &of(&new_qers, false)) {
            let old = before.get(line(from)).and_then(|l| record::cell::<Meter>(l, from));
            let new = after.get_mut(line(to)).and_then(|l| record::cell_mut::<Meter>(l, to));
            if let (Some(old), Some(new)) = (old, new) {
                let mut state = old.state;
                bucket::retune(&old.config, &new.config, &mut state, now);
                new.state = state;
            }
        }
        for (from, to) in pairs(old_urrs, &new_urrs) {
            let old = before.get(line(from)).and_then(|l| record::cell::<Tally>(l, from));
            let new = after.get_mut(line(to)).and_then(|l| record::cell_mut::<Tally>(l, to));
            if let (Some(old), Some(new)) = (old, new) {
                *new = Tally { trip: u64::MAX, ..*old };
            }
        }
    }
}

/// Has the counts of a record, not yet installed, begin where those of an earlier run ended.
pub fn set_counts(lines: &mut [Line], counted: &[Usage]) {
    let Some(head) = record::head(lines).copied() else { return };
    for n in 0..usize::from(head.urrs) {
        let Some(row) = record::rows(lines, &head).1.get(n).copied() else { continue };
        let Some(usage) = counted.iter().find(|usage| usage.urr == row.id) else { continue };
        let counts = [(row.up, usage.up_bytes, usage.up_packets), (row.down, usage.down_bytes, usage.down_packets)];
        for (at, bytes, packets) in counts {
            let line = lines.get_mut(usize::from(at) / record::CELLS);
            if let Some(tally) = line.and_then(|line| record::cell_mut::<Tally>(line, at)) {
                (tally.bytes, tally.packets) = (bytes, packets);
            }
        }
    }
}

/// Sets all URRs' counts at which to look.
pub(super) fn arm(lines: &mut [Line]) {
    let Some(head) = record::head(lines).copied() else { return };
    for n in 0..usize::from(head.urrs) {
        let row = record::rows(lines, &head).1.get(n).copied();
        if let Some(row) = row.filter(|row| row.bounds != 0) {
            rearm(lines, &row);
        }
    }
}

/// Buckets begin full, now.
pub(super) fn start_buckets(lines: &mut [Line], now: u64) {
    let Some(head) = record::head(lines).copied() else { return };
    let buckets = record::rows(lines, &head).0.iter().filter(|row| row.limits == 0);
    let cells: Vec<u8> = buckets.flat_map(|row| [row.up, row.down]).collect();
    for at in cells.into_iter().filter(|at| *at != 0) {
        let line = lines.get_mut(usize::from(at) / record::CELLS);
        if let Some(meter) = line.and_then(|l| record::cell_mut::<Meter>(l, at)) {
            meter.state.last_ns = now;
        }
    }
}
