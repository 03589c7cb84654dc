//! Which rule applies.

use dataplane::filter::{Key4, Key6, QuadKey, WAYS};
use dataplane::parse::HasIp;
use engine::{At, Burst, Ctx, Drop, Stage};
use frame::Arena;
use table::hint::{prefetch_index, prefetch_index_far};
use table::records::Window;

use crate::drops;
use crate::lane::{Lane, Upf};
use crate::record::{self, Match, NONE8, RuleResult, match_flags};
use crate::sessions::{Quad, Sessions};

/// Finds the packet detection rule: of those of the packet's direction the first by precedence whose tunnel endpoint,
/// QoS flow and SDF filters match (TS 29.244, 5.2.1). Asks for the lines that the rule will need.
/// `UPLINK`: for packets from access, else from the core.
#[derive(Default)]
pub struct MatchPdr<const UPLINK: bool>;

impl<const UPLINK: bool> Stage<Upf> for MatchPdr<UPLINK> {
    const NAME: &'static str = "match_pdr";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let (at, arena, sessions) = (cx.at(), cx.env.arena(), &cx.state.sessions);
        run::<UPLINK>(burst, arena, sessions, at);
    }
}

/// The stage for one direction.
#[inline(always)]
fn run<const UPLINK: bool>(burst: &mut Burst<Upf>, arena: &Arena, sessions: &Sessions, at: At<'_>) {
    let far = sessions.prefetch_l2();
    sessions.prefetch_filters(burst.live().into_iter().map(|i| burst.lane.session[i]), UPLINK);
    for i in burst.live() {
        let Some(window) = sessions.window(burst.lane.session[i]) else {
            burst.drop(i, drops::SESSION_GONE, at);
            continue;
        };
        let filters = record::head_of(window, UPLINK).filters;
        let found = match burst.lane.ip(i).version {
            4 if !filters.is_empty() => quick4::<UPLINK>(window, sessions.quads(filters), &burst.lane, i),
            4 => rule4::<UPLINK>(window, burst, i, arena).ok(),
            _ => rule6::<UPLINK>(window, burst, i, arena).ok(),
        };
        let Some(rule) = found else {
            let why = why_none::<UPLINK>(window, burst, i, arena, sessions);
            burst.drop(i, why, at);
            continue;
        };
        if far {
            // A position that is none asks for the head, which is there, as most rules' actions are.
            let cells = record::cells_in(window);
            rule.meters.iter().chain(&rule.tallies).for_each(|at| prefetch_index_far(cells, (*at).into()));
        } else {
            prefetch_index(record::cells_in(window), rule.meters[0].into());
        }
        burst.lane.action[i] = rule.action;
        burst.lane.rule[i] = *rule;
    }
}

/// Why packet `i` has no rule. Found out anew, so that whatever has one pays nothing for it.
#[cold]
#[inline(never)]
fn why_none<const UPLINK: bool>(
    window: &Window,
    burst: &Burst<Upf>,
    i: usize,
    arena: &Arena,
    sessions: &Sessions,
) -> Drop {
    let (lane, filters) = (&burst.lane, record::head_of(window, UPLINK).filters);
    let found = match lane.ip(i).version {
        4 if !filters.is_empty() => {
            let key = key_of::<UPLINK>(lane, i);
            let hit = sessions.quads(filters).iter().any(|quad| quad.filters.hits(&key) != 0);
            return if hit { drops::RULE_MISSING } else { drops::NO_PDR };
        }
        4 => rule4::<UPLINK>(window, burst, i, arena),
        _ => rule6::<UPLINK>(window, burst, i, arena),
    };
    found.err().unwrap_or(drops::RULE_MISSING)
}

#[inline(always)]
fn key_of<const UPLINK: bool>(lane: &Lane, i: usize) -> QuadKey {
    let ip = lane.ip(i);
    if UPLINK { QuadKey::uplink(ip, lane.end[i], lane.qfi[i]) } else { QuadKey::downlink(ip) }
}

/// The rule of an IPv4 packet in a session with plain filters only: four at once. None: none matches, or it is beyond the
/// record.
#[inline(always)]
fn quick4<'a, const UPLINK: bool>(window: &'a Window, quads: &[Quad], lane: &Lane, i: usize) -> Option<&'a RuleResult> {
    let key = key_of::<UPLINK>(lane, i);
    for (n, quad) in quads.iter().enumerate() {
        let hits = quad.filters.hits(&key);
        if hits != 0 {
            let quad_actions = record::quad_actions_in(window).get(record::deed_at(n, UPLINK))?;
            // A bit for each of the quad's filters: there is no other.
            return Some(&quad_actions.treatments[hits.trailing_zeros() as usize % WAYS]);
        }
    }
    None
}

/// The rule of any other IPv4 packet. A function of its own, like the next: each needs all registers.
#[inline(never)]
fn rule4<'a, const UPLINK: bool>(
    window: &'a Window,
    burst: &Burst<Upf>,
    i: usize,
    arena: &Arena,
) -> Result<&'a RuleResult, Drop> {
    let (lane, packet) = (&burst.lane, user_packet(burst, i, arena));
    let key = if UPLINK { Key4::uplink(lane.ip(i), packet) } else { Key4::downlink(lane.ip(i), packet) };
    let filters = record::filters4_in(window);
    first::<UPLINK>(window, lane.teid[i], lane.qfi[i], |rule| {
        any(rule.first4, rule.count4, |n| Some(filters.get(n)?.matches(&key)))
    })
}

/// The rule of an IPv6 packet.
#[inline(never)]
fn rule6<'a, const UPLINK: bool>(
    window: &'a Window,
    burst: &Burst<Upf>,
    i: usize,
    arena: &Arena,
) -> Result<&'a RuleResult, Drop> {
    let (lane, packet) = (&burst.lane, user_packet(burst, i, arena));
    let key = if UPLINK { Key6::uplink(lane.ip(i), packet) } else { Key6::downlink(lane.ip(i), packet) };
    let filters = record::filters6_in(window);
    first::<UPLINK>(window, lane.teid[i], lane.qfi[i], |rule| {
        any(rule.first6, rule.count6, |n| Some(filters.get(n)?.matches(&key)))
    })
}

/// The subscriber's packet.
fn user_packet<'a>(burst: &'a Burst<Upf>, i: usize, arena: &'a Arena) -> &'a [u8] {
    burst.bytes(i, arena).get(usize::from(burst.frame(i).meta.l3)..).unwrap_or_default()
}

/// Whether any of a rule's filters matches: all are compared, for a branch too many costs more than a filter. An error:
/// one is beyond the record.
#[inline(always)]
fn any(first: u8, count: u8, matches: impl Fn(usize) -> Option<bool>) -> Result<bool, Drop> {
    let mut found = false;
    for n in 0..usize::from(count) {
        found |= matches(usize::from(first) + n).ok_or(drops::RULE_MISSING)?;
    }
    Ok(found)
}

/// Rules compared together.
const GROUP: u8 = 4;

/// The first of a direction's rules that applies. Those of a group are all compared, without a branch on what they say
/// of the packet: which one it is going to be no processor can foretell.
#[inline(always)]
fn first<const UPLINK: bool>(
    window: &Window,
    teid: u32,
    qfi: u8,
    filtered: impl Fn(&Match) -> Result<bool, Drop>,
) -> Result<&RuleResult, Drop> {
    let (from, mut left) = record::rules_of(record::head_of(window, UPLINK), UPLINK);
    let mut from = usize::from(from);
    let rules = record::matches_in(window);
    while left > 0 {
        let group = left.min(GROUP);
        let mut hits = 0u32;
        for n in 0..group {
            let rule = rules.get(from + usize::from(n)).ok_or(drops::RULE_MISSING)?;
            if UPLINK && rule.teid != teid {
                continue;
            }
            let mut applies = !UPLINK | (rule.then.qfi == NONE8) | (rule.then.qfi == qfi);
            if rule.then.flags & match_flags::FILTERED != 0 {
                applies &= filtered(rule)?;
            }
            hits |= u32::from(applies) << n;
        }
        if hits != 0 {
            let rule = rules.get(from + hits.trailing_zeros() as usize).ok_or(drops::RULE_MISSING)?;
            return Ok(&rule.then);
        }
        from += usize::from(group);
        left -= group;
    }
    Err(drops::NO_PDR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_beyond_the_record_are_an_error() {
        let filters = [false, true, false];
        let matches = |n: usize| filters.get(n).copied();
        assert_eq!(any(0, 3, matches), Ok(true));
        assert_eq!(any(2, 1, matches), Ok(false));
        assert_eq!(any(3, 0, matches), Ok(false));
        assert_eq!(any(1, 3, matches), Err(drops::RULE_MISSING));
        assert_eq!(any(255, 255, matches), Err(drops::RULE_MISSING));
    }
}
