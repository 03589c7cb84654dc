//! Packets of rules with many QERs or URRs, or with limits on the number of packets: off the usual path.

use engine::Drop;
use table::bucket;
use table::records::LineId;

use super::Sessions;
use crate::drops;
use crate::record::{self, GROUP, MAX_URRS, Members, OF_SESSION, PLACES, cell_at};

impl Sessions {
    /// Whether all limits and buckets that a place stands for let a packet of that [`cost`](bucket::cost) pass; it is
    /// taken from all of them then, else from none.
    ///
    /// # Errors
    /// By what it is refused: limits on the number of packets first, then buckets, as the rule names them.
    #[cold]
    pub(crate) fn conform_group(&mut self, id: LineId, place: u8, now: u64, cost: i64) -> Result<(), Drop> {
        let Some(window) = self.window_mut(id) else { return Ok(()) };
        let Members { cells, limits } = record::members_in(window, place);
        let limits = || limits.iter().filter(|at| **at != 0).map(|at| cell_at(*at));
        let buckets = || cells.iter().filter(|at| **at != 0).map(|at| (cell_at(*at), at & OF_SESSION != 0));
        let quotas = record::quotas_in(window);
        if !limits().all(|at| quotas[at].affords(now)) {
            return Err(drops::PACKET_RATE);
        }
        let meters = record::meters_in(window);
        for (at, of_session) in buckets() {
            let meter = &mut meters[at];
            bucket::refill(&meter.config, &mut meter.state, now);
            if meter.state.credit < cost {
                return Err(if of_session { drops::SESSION_RATE } else { drops::FLOW_RATE });
            }
        }
        buckets().for_each(|(at, _)| meters[at].state.credit -= cost);
        let quotas = record::quotas_in(window);
        limits().for_each(|at| quotas[at].take(now));
        Ok(())
    }

    /// Counts a packet, that was counted in these places, in the cells they stand for; false when it is beyond a quota.
    pub(super) fn count_groups(&mut self, id: LineId, places: [u8; PLACES], bytes: u64) -> bool {
        let Some(window) = self.window_mut(id) else { return true };
        let (mut list, mut count, mut tripped) = ([0; MAX_URRS + PLACES], 0, false);
        let mut enter = |cell: u8| {
            if let Some(free) = list.get_mut(count).filter(|_| cell != 0) {
                *free = cell;
                count += 1;
            }
        };
        for place in places {
            if place < GROUP {
                // It has been counted.
                tripped |= place != 0 && record::tallies_in(window)[cell_at(place)].is_tripped();
                enter(place);
                continue;
            }
            let members = record::members_in(window, place).cells;
            let tallies = record::tallies_in(window);
            let now = tallies[cell_at(place)].last;
            for cell in members {
                tripped |= cell != 0 && tallies[cell_at(cell)].count(bytes, now);
                enter(cell);
            }
        }
        !tripped || self.look_at_bounds(id, &list[..count], bytes)
    }
}
