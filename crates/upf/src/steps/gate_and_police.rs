//! Gates and maximum bit rates.

use dataplane::parse::HasIp;
use engine::{At, Burst, Ctx, Stage};
use table::bucket;

use super::measure_usage::measure;
use super::remove_header::remove_header;
use crate::drops;
use crate::lane::{Lane, Upf};
use crate::record::{self, GROUP, MAX_CELLS, Meter, PLACES, RuleResult, cell_at, match_flags};
use crate::sessions::Sessions;

/// Drops packets whose QER's gate is closed (TS 29.244, 5.4.3), and those over the flow's or the session's maximum bit
/// rate (5.4.4), or one packet too many for its time (8.2.63). A packet that one bucket refuses takes credit from none. Before that, a data network's tunnel ends.
#[derive(Default)]
pub struct GateAndPolice;

impl Stage<Upf> for GateAndPolice {
    const NAME: &'static str = "gate_and_police";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let now = cx.env.now;
        let sessions = &mut cx.state.sessions;
        for i in burst.live() {
            let RuleResult { flags, meters: cells, .. } = burst.lane.rule[i];
            if flags & UNUSUAL != 0 {
                if flags & REMOVES != 0
                    && let Err(why) = remove_header(burst, i, flags, cx.env.arena())
                {
                    burst.drop(i, why, at);
                    continue;
                }
                if !measure_before(&mut burst.lane, i, sessions, now) {
                    burst.drop(i, drops::QUOTA_EXHAUSTED, at);
                    continue;
                }
                if flags & match_flags::CLOSED != 0 {
                    burst.drop(i, drops::GATE_CLOSED, at);
                    continue;
                }
            }
            if cells == [0; PLACES] {
                continue;
            }
            let Some(window) = sessions.window_mut(burst.lane.session[i]) else { continue };
            let cost = bucket::cost(burst.lane.ip(i).total_len);
            let passes = conform(record::meters_in(window), cells, now, cost);
            if passes != (true, true) {
                refused(burst, i, passes, sessions, now, at);
            }
        }
    }
}

/// Drops a packet that a bucket has no credit for; or asks all that the bucket stands for. Recomputes what it needs, so
/// that the loop has its registers for itself.
#[cold]
#[inline(never)]
fn refused(burst: &mut Burst<Upf>, i: usize, passes: (bool, bool), sessions: &mut Sessions, now: u64, at: At<'_>) {
    let RuleResult { flags, meters: cells @ [_, second], .. } = burst.lane.rule[i];
    let mut passes = passes;
    if sessions.take_back(burst.lane.session[i])
        && let Some(window) = sessions.window_mut(burst.lane.session[i])
    {
        // The buckets were the in-kernel path's until now.
        let cost = bucket::cost(burst.lane.ip(i).total_len);
        passes = conform(record::meters_in(window), cells, now, cost);
        if passes == (true, true) {
            return;
        }
    }
    let refused_by = if passes.0 { match_flags::SESSION1 } else { match_flags::SESSION0 };
    let reason = if flags & refused_by != 0 { drops::SESSION_RATE } else { drops::FLOW_RATE };
    let verdict = if second < GROUP {
        Err(reason)
    } else {
        let cost = bucket::cost(burst.lane.ip(i).total_len);
        sessions.conform_group(burst.lane.session[i], second, now, cost)
    };
    if let Err(reason) = verdict {
        burst.drop(i, reason, at);
    }
}

/// What makes a packet one to be looked at more closely.
const UNUSUAL: u16 = match_flags::CLOSED | match_flags::BEFORE_QOS0 | match_flags::BEFORE_QOS1 | REMOVES;

/// A data network's tunnel ends here.
const REMOVES: u16 = match_flags::REMOVES_IP | match_flags::REMOVES_UDP;

/// Counts a packet for the URRs that count before gates and rates (MBQE, 8.2.68); those behind do not count it again.
/// False when a quota is used up.
#[cold]
#[inline(never)]
fn measure_before(lane: &mut Lane, i: usize, sessions: &mut Sessions, now: u64) -> bool {
    let [before, behind] = lane.rule[i].tallies_parted();
    lane.rule[i].tallies = behind;
    measure(sessions, lane.session[i], before, lane.ip(i).total_len, now)
}

/// Whether the packet conforms to both buckets, and takes its credit from them if so. A bucket that is not there always
/// has enough.
#[inline(always)]
fn conform(meters: &mut [Meter; MAX_CELLS], cells: [u8; PLACES], now: u64, cost: i64) -> (bool, bool) {
    let [a, b] = cells.map(cell_at);
    if cells[0] != 0 && cells[1] != 0 {
        let (mut first, mut second) = (meters[a], meters[b]);
        let one = (&first.config, &mut first.state);
        let passes = bucket::conform_both(one, (&second.config, &mut second.state), now, cost);
        (meters[a].state, meters[b].state) = (first.state, second.state);
        return passes;
    }
    let only = if cells[0] != 0 { a } else { b };
    let Meter { config, state } = &mut meters[only];
    let passes = bucket::conform_cost(config, state, now, cost);
    if cells[0] != 0 { (passes, true) } else { (true, passes) }
}
