//! What each subscriber used.

use engine::{Burst, Ctx, Stage};
use stages::parse::HasIp;

use crate::lane::Upf;
use crate::record::Tally;

/// Adds the packet to its rule's URRs: octets of the user's IP packet, packets, first and last time (TS 29.244, 5.2.2).
pub struct MeasureUsage;

impl Stage<Upf> for MeasureUsage {
    const NAME: &'static str = "measure_usage";

    #[inline]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let now = cx.env.now.max(1);
        let sessions = &mut cx.state.sessions;
        for i in burst.live() {
            let bytes = u64::from(burst.lane.ip(i).total_len);
            let id = burst.lane.session[i];
            for cell in burst.lane.tallies[i] {
                if cell == 0 {
                    continue;
                }
                let Some(tally) = sessions.cell_mut::<Tally>(id, cell) else { continue };
                tally.bytes += bytes;
                tally.packets += 1;
                if tally.first_ns == 0 {
                    tally.first_ns = now;
                }
                tally.last_ns = now;
            }
        }
    }
}
