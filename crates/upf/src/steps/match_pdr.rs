//! Which rule applies.

use engine::{Burst, Ctx, Drop, Stage};
use stages::filter::{Filter4, Filter6, Key4, Key6};
use stages::parse::HasIp;

use crate::lane::Upf;
use crate::record::{self, ACTIONS, CELLS, Match, NONE8, match_flags};

/// Finds the packet detection rule: of those of the packet's direction the first by precedence whose tunnel endpoint,
/// QoS flow and SDF filters match (TS 29.244, 5.2.1). Asks for the lines that the rule will need.
pub struct MatchPdr {
    uplink: bool,
}

impl MatchPdr {
    /// For packets from access (`uplink`) or from the core.
    pub fn new(uplink: bool) -> Self {
        Self { uplink }
    }
}

impl Stage<Upf> for MatchPdr {
    const NAME: &'static str = "match_pdr";

    #[inline]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let sessions = &cx.state.sessions;
        for i in burst.live() {
            let id = burst.lane.session[i];
            let Some(lines) = sessions.record(id) else {
                burst.drop(i, Drop::SessionGone, at);
                continue;
            };
            let Some(head) = record::head(lines) else {
                burst.drop(i, Drop::SessionGone, at);
                continue;
            };
            let all = record::matches(lines, head);
            let (up, down) = all.split_at_checked(head.up.into()).unwrap_or_default();
            let rules = if self.uplink { up } else { down };
            let ip = burst.lane.ip(i);
            let (teid, qfi) = (burst.lane.teid[i], burst.lane.qfi[i]);
            let candidate = |rule: &&Match| {
                (!self.uplink || rule.teid == teid) && (rule.qfi == NONE8 || !self.uplink || rule.qfi == qfi)
            };
            let unfiltered = |rule: &Match| rule.flags & match_flags::FILTERED == 0;
            let mut candidates = rules.iter().filter(candidate);
            let found = if ip.version == 4 {
                let key = key4(ip, self.uplink);
                candidates.find(|r| unfiltered(r) || Filter4::any(record::filters4(lines, head, r), &key))
            } else {
                let l3 = usize::from(burst.frame(i).meta.l3);
                let key = key6(ip, burst.bytes(i, arena).get(l3..).unwrap_or_default(), self.uplink);
                candidates.find(|r| unfiltered(r) || Filter6::any(record::filters6(lines, head, r), &key))
            };
            let Some(rule) = found else {
                burst.drop(i, Drop::NoPdr, at);
                continue;
            };
            sessions.prefetch_line(id, usize::from(rule.action) / ACTIONS);
            for cell in rule.meters.into_iter().chain(rule.tallies) {
                if cell != 0 {
                    sessions.prefetch_line(id, usize::from(cell) / CELLS);
                }
            }
            let lane = &mut burst.lane;
            lane.action[i] = rule.action;
            lane.meters[i] = rule.meters;
            lane.tallies[i] = rule.tallies;
            lane.flags[i] = rule.flags;
        }
    }
}

/// What filters see of an IPv4 packet, turned so that the network is the remote side.
fn key4(ip: &wire::L3L4, uplink: bool) -> Key4 {
    if uplink { Key4::uplink(ip) } else { Key4::downlink(ip) }
}

/// What filters see of an IPv6 packet, turned so that the network is the remote side.
fn key6(ip: &wire::L3L4, packet: &[u8], uplink: bool) -> Key6 {
    if uplink { Key6::uplink(ip, packet) } else { Key6::downlink(ip, packet) }
}
