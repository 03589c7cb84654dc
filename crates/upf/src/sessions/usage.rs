//! What a session has used, and what it may still use.

use gateway::fast_path::InKernelSessions as _;
use table::bucket;
use table::records::{Line, LineId};
use zerocopy::{FromBytes, IntoBytes};

use super::Sessions;
use crate::record::{self, Bounds, GROUP, Meter, PLACES, PacketQuota, Row, Tally};
use crate::rules::{Credit, Usage};

impl Sessions {
    /// What a session's URRs have measured up to `now`.
    pub fn usage(&self, handle: u32, now: u64) -> Option<Vec<Usage>> {
        let lines = self.lines_of(handle)?;
        Some(usages(&lines, now).collect())
    }

    /// Packets and bytes from the subscriber, packets and bytes to it: of the URR that has measured most in each direction,
    /// as a packet may count in several. Nothing is allocated, but for a session in the kernel.
    pub fn total(&self, handle: u32, now: u64) -> Option<[u64; 4]> {
        let most = |most: [u64; 4], usage: Usage| {
            let [up_packets, up_bytes, down_packets, down_bytes] = most;
            let (up, down) = (usage.up_bytes > up_bytes, usage.down_bytes > down_bytes);
            [
                if up { usage.up_packets } else { up_packets },
                if up { usage.up_bytes } else { up_bytes },
                if down { usage.down_packets } else { down_packets },
                if down { usage.down_bytes } else { down_bytes },
            ]
        };
        Some(usages(&self.lines_of(handle)?, now).fold([0; 4], most))
    }

    /// As [`usage`](Self::usage), into as much room as there is.
    pub(crate) fn usage_into(&self, handle: u32, now: u64, into: &mut Vec<Usage>) {
        let room = into.capacity();
        into.clear();
        let lines = self.lines_of(handle).unwrap_or_default();
        into.extend(usages(&lines, now).take(room));
    }

    /// What a session's QERs let pass at `now`, of those that limit anything.
    pub fn credits(&self, handle: u32, now: u64) -> Vec<Credit> {
        let lines = self.lines_of(handle).unwrap_or_default();
        let lines = &*lines;
        let rows = record::head(lines).map_or(&[][..], |head| record::rows(lines, head).0);
        let both = rows.iter().flat_map(|row| [(row, row.up, true), (row, row.down, false)]);
        let credit = |(row, at, is_uplink): (&Row, u8, bool)| {
            let line = lines.get(usize::from(at) / record::CELLS).filter(|_| at != 0)?;
            let (left, of) = if row.limits != 0 {
                let quota = record::cell::<PacketQuota>(line, at).filter(|quota| quota.period_ns > 0)?;
                (quota.most.saturating_sub(quota.passed_by(now)).into(), quota.most.into())
            } else {
                let meter = record::cell::<Meter>(line, at)?;
                let full = bucket::State::full(&meter.config, now);
                let left = bucket::bytes_left(&meter.config, &meter.state, now);
                (left, bucket::bytes_left(&meter.config, &full, now))
            };
            Some(Credit { qer: row.id, is_uplink, packets: row.limits != 0, left, of })
        };
        both.filter_map(credit).collect()
    }

    /// A URR has reported: its first packet is the next one, and these are its bounds. One that had none when its session
    /// was compiled keeps none.
    pub fn reported(&mut self, handle: u32, urr: u32, bounds: Bounds) {
        self.leave_kernel(handle);
        self.set_reported(handle, urr, bounds);
        self.enter_kernel(handle);
    }

    fn set_reported(&mut self, handle: u32, urr: u32, bounds: Bounds) {
        let Some(place) = self.places.get(handle as usize).copied().flatten() else { return };
        let Some(lines) = self.lines.get_mut(place.line, place.lines.into()) else { return };
        let Some(head) = record::head(lines).copied() else { return };
        let row = record::rows(lines, &head).1.iter().find(|row| row.id == urr).copied();
        let Some(row) = row else { return };
        for at in [row.up, row.down] {
            let line = lines.get_mut(usize::from(at) / record::CELLS);
            if let Some(tally) = line.and_then(|line| record::cell_mut::<Tally>(line, at)) {
                tally.first = 0;
            }
        }
        if let Some(line) = lines.get_mut(usize::from(row.bounds)).filter(|_| row.bounds != 0) {
            *line = zerocopy::transmute!(bounds);
        }
        rearm(lines, &row);
    }

    /// A count has come to where its URR's bounds are to be looked at. False when the packet just counted (of `bytes`
    /// bytes, in those cells) is beyond a quota: it is counted no more. Off the usual path: some twenty times per quota.
    #[cold]
    pub fn at_bounds(&mut self, id: LineId, cells: [u8; PLACES], bytes: u64) -> bool {
        self.take_back(id);
        if cells.iter().any(|cell| *cell >= GROUP) {
            return self.count_groups(id, cells, bytes);
        }
        self.look_at_bounds(id, &cells, bytes)
    }

    /// As [`at_bounds`](Self::at_bounds), of any number of cells.
    pub(super) fn look_at_bounds(&mut self, id: LineId, cells: &[u8], bytes: u64) -> bool {
        let Some(head) = self.head(id).copied() else { return true };
        let Some(lines) = self.lines.get_mut(id, head.lines.into()) else { return true };
        let mut passes = true;
        for n in 0..usize::from(head.urrs) {
            let Some(row) = record::rows(lines, &head).1.get(n).copied() else { continue };
            let cell = cells.iter().copied().find(|cell| *cell != 0 && (*cell == row.up || *cell == row.down));
            let (Some(cell), Some(mut bounds)) = (cell, bounds_of(lines, &row)) else { continue };
            let [up, down] = counts(lines, &row);
            // What came before this packet decides whether it may pass.
            let before = if cell == row.up { (up - bytes, down) } else { (up, down - bytes) };
            passes &= !bounds.is_spent(before.0, before.1);
            let news = bounds.news(up, down);
            if news != 0 && self.reached.len() < self.reached.capacity() {
                self.reached.push(head.handle);
                bounds.told |= news;
                if let Some(line) = lines.get_mut(usize::from(row.bounds)) {
                    *line = zerocopy::transmute!(bounds);
                }
            }
            rearm(lines, &row);
        }
        if !passes {
            for cell in cells.iter().copied().filter(|cell| *cell != 0) {
                let line = lines.get_mut(usize::from(cell) / record::CELLS);
                if let Some(tally) = line.and_then(|line| record::cell_mut::<Tally>(line, cell)) {
                    tally.bytes -= bytes;
                    tally.packets -= 1;
                }
            }
        }
        passes
    }

    /// The next session that reached a bound.
    pub(crate) fn take_reached(&mut self) -> Option<u32> {
        self.reached.pop()
    }

    /// Puts back what was taken and could not be reported.
    pub(crate) fn put_reached(&mut self, handle: u32) {
        if self.reached.len() < self.reached.capacity() {
            self.reached.push(handle);
        }
    }
}

/// What the URRs of a record have measured up to `now`.
fn usages(lines: &[Line], now: u64) -> impl Iterator<Item = Usage> + '_ {
    let urrs = record::head(lines).map_or(&[][..], |head| record::rows(lines, head).1);
    urrs.iter().filter_map(move |row| {
        let (up, down) = (tally(lines, row.up)?, tally(lines, row.down)?);
        let time = |stamp| record::unstamp(stamp, now);
        let first = [time(up.first), time(down.first)].into_iter().filter(|ns| *ns > 0).min();
        Some(Usage {
            urr: row.id,
            up_bytes: up.bytes,
            down_bytes: down.bytes,
            up_packets: up.packets,
            down_packets: down.packets,
            first_ns: first.unwrap_or(0),
            last_ns: time(up.last).max(time(down.last)),
        })
    })
}

fn tally(lines: &[Line], at: u8) -> Option<Tally> {
    record::cell::<Tally>(lines.get(usize::from(at) / record::CELLS)?, at).copied()
}

/// The octets a URR has counted, from and to the subscriber.
fn counts(lines: &[Line], row: &Row) -> [u64; 2] {
    [row.up, row.down].map(|at| tally(lines, at).map_or(0, |tally| tally.bytes))
}

fn bounds_of(lines: &[Line], row: &Row) -> Option<Bounds> {
    let line = lines.get(usize::from(row.bounds)).filter(|_| row.bounds != 0)?;
    Bounds::read_from_bytes(line.as_bytes()).ok()
}

/// Sets the counts at which a URR's bounds are to be looked at next.
pub(super) fn rearm(lines: &mut [Line], row: &Row) {
    let [up, down] = counts(lines, row);
    let trips = bounds_of(lines, row).map_or([u64::MAX; 2], |bounds| bounds.trips(up, down));
    for (at, trip) in [row.up, row.down].into_iter().zip(trips) {
        let line = lines.get_mut(usize::from(at) / record::CELLS);
        if let Some(tally) = line.and_then(|line| record::cell_mut::<Tally>(line, at)) {
            tally.trip = trip;
        }
    }
}
