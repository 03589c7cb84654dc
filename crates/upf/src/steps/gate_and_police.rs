//! Gates and maximum bit rates.

use engine::{Burst, Ctx, Drop, Stage};
use stages::parse::HasIp;
use table::bucket;

use crate::lane::Upf;
use crate::record::{Meter, match_flags};

/// Drops packets whose QER's gate is closed (TS 29.244, 5.4.3), and those over the flow's or the session's maximum bit
/// rate (5.4.4). A packet that one bucket refuses takes credit from none.
pub struct GateAndPolice;

impl Stage<Upf> for GateAndPolice {
    const NAME: &'static str = "gate_and_police";

    #[inline]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let now = cx.env.now;
        let sessions = &mut cx.state.sessions;
        for i in burst.live() {
            let flags = burst.lane.flags[i];
            if flags & match_flags::CLOSED != 0 {
                burst.drop(i, Drop::GateClosed, at);
                continue;
            }
            let bytes = burst.lane.ip(i).total_len;
            let id = burst.lane.session[i];
            let [first, second] = burst.lane.meters[i];
            let kinds = [flags & match_flags::SESSION0 != 0, flags & match_flags::SESSION1 != 0];
            let mut refused = None;
            for (cell, session) in [(first, kinds[0]), (second, kinds[1])] {
                if cell == 0 {
                    continue;
                }
                let Some(meter) = sessions.cell_mut::<Meter>(id, cell) else { continue };
                if !bucket::affords(&meter.config, &mut meter.state, now, bytes) && refused.is_none() {
                    refused = Some(if session { Drop::SessionRate } else { Drop::FlowRate });
                }
            }
            if let Some(reason) = refused {
                burst.drop(i, reason, at);
                continue;
            }
            for cell in [first, second] {
                if cell == 0 {
                    continue;
                }
                let Some(meter) = sessions.cell_mut::<Meter>(id, cell) else { continue };
                bucket::take(&mut meter.state, bytes);
            }
        }
    }
}
