//! What each subscriber used.

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use table::records::LineId;

use crate::drops;
use crate::lane::Upf;
use crate::record::{self, MAX_CELLS, PLACES, Tally, cell_at};
use crate::sessions::Sessions;

/// Adds the packet to its rule's URRs: octets of the user's IP packet, packets, first and last time (TS 29.244, 5.2.2).
/// Behind the FAR: what it drops or keeps back was not used. Drops what comes when a quota is used up (5.2.2.2).
#[derive(Default)]
pub struct MeasureUsage;

impl Stage<Upf> for MeasureUsage {
    const NAME: &'static str = "measure_usage";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let now = record::stamp(cx.env.now);
        let sessions = &mut cx.state.sessions;
        for i in burst.live() {
            let [first, second] = burst.lane.rule[i].tallies;
            if first | second == 0 {
                continue;
            }
            let Some(window) = sessions.window_mut(burst.lane.session[i]) else { continue };
            let tallies = record::tallies_in(window);
            let bytes = u64::from(burst.lane.ip(i).total_len);
            let tripped = count(tallies, first, bytes, now) | count(tallies, second, bytes, now);
            if tripped && !sessions.at_bounds(burst.lane.session[i], [first, second], bytes) {
                burst.drop(i, drops::QUOTA_EXHAUSTED, at);
            }
        }
    }
}

/// Counts one packet in these cells, off the usual path; false when a quota is used up.
pub(super) fn measure(sessions: &mut Sessions, session: LineId, cells: [u8; PLACES], bytes: u32, now: u64) -> bool {
    let Some(window) = sessions.window_mut(session) else { return true };
    let (tallies, bytes, now) = (record::tallies_in(window), u64::from(bytes), record::stamp(now));
    let tripped = count(tallies, cells[0], bytes, now) | count(tallies, cells[1], bytes, now);
    !tripped || sessions.at_bounds(session, cells, bytes)
}

/// Counts a packet; true when the URR's bounds are to be looked at.
#[inline(always)]
fn count(tallies: &mut [Tally; MAX_CELLS], cell: u8, bytes: u64, now: u32) -> bool {
    cell != 0 && tallies[cell_at(cell)].count(bytes, now)
}
