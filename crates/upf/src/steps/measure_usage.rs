//! What each subscriber used.

use engine::{Burst, Ctx, Stage};
use stages::parse::HasIp;

use crate::lane::Upf;
use crate::record::{self, MAX_CELLS, Tally, cell_at};

/// Adds the packet to its rule's URRs: octets of the user's IP packet, packets, first and last time (TS 29.244, 5.2.2).
/// Behind the FAR: what it drops or keeps back was not used.
pub struct MeasureUsage;

impl Stage<Upf> for MeasureUsage {
    const NAME: &'static str = "measure_usage";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let now = cx.env.now.max(1);
        let sessions = &mut cx.state.sessions;
        for i in burst.live() {
            let [first, second] = burst.lane.rule[i].tallies;
            if first | second == 0 {
                continue;
            }
            let Some(window) = sessions.window_mut(burst.lane.session[i]) else { continue };
            let tallies = record::tallies_in(window);
            let bytes = u64::from(burst.lane.ip(i).total_len);
            count(tallies, first, bytes, now);
            count(tallies, second, bytes, now);
        }
    }
}

#[inline(always)]
fn count(tallies: &mut [Tally; MAX_CELLS], cell: u8, bytes: u64, now: u64) {
    if cell == 0 {
        return;
    }
    let tally = &mut tallies[cell_at(cell)];
    tally.bytes += bytes;
    tally.packets += 1;
    tally.first_ns = if tally.first_ns == 0 { now } else { tally.first_ns };
    tally.last_ns = now;
}
