//! DOCSIS filtering: the rules of the subscriber's filter groups (DOCS-SUBMGT3-MIB).

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use frame::Arena;
use wire::Mac;

use crate::drops;
use crate::lane::Cmts;
use crate::rules::{DENY, Rules, Seen};

/// Drops what a rule of the modem's filter groups denies, or what none matches where the default is to deny.
/// `UPSTREAM`: by the groups for upstream, else by those for downstream.
#[derive(Default)]
pub struct Filter<const UPSTREAM: bool>;

/// Packet `i` as rules see it; its bytes begin with the Ethernet header.
pub fn seen<'a>(burst: &'a Burst<Cmts>, i: usize, arena: &'a Arena) -> Seen<'a> {
    let (bytes, l3) = (burst.bytes(i, arena), usize::from(burst.frame(i).meta.l3));
    let macs = bytes.first_chunk::<12>().map_or((Mac::ZERO, Mac::ZERO), |head| {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *head;
        (Mac([a, b, c, d, e, f]), Mac([g, h, i, j, k, l]))
    });
    Seen { ip: burst.lane.ip(i), packet: bytes.get(l3..).unwrap_or_default(), macs, tag: burst.lane.tag(i) }
}

impl<const UPSTREAM: bool> Stage<Cmts> for Filter<UPSTREAM> {
    const NAME: &'static str = "filtering";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let mut said = [0u64; 3];
        let rules = cx.state.rules();
        for i in burst.live() {
            let Some(modem) = cx.state.modems.modem(burst.lane.modem[i]) else {
                burst.drop(i, drops::UNKNOWN_SUBSCRIBER, at);
                continue;
            };
            let groups = modem.filters[usize::from(UPSTREAM)];
            let may_match = rules.may_filter(groups, burst.lane.ip(i));
            let says = if may_match { ask(rules, groups, burst, i, arena) } else { Says::Nothing };
            said[says as usize] += 1;
            if says == Says::Deny || says == Says::Nothing && rules.default_deny {
                burst.drop(i, drops::FILTER_DENIED, at);
            }
        }
        let counts = &mut cx.state.counts;
        counts.filter_unmatched[usize::from(UPSTREAM)] += said[Says::Nothing as usize];
        counts.filter_permit[usize::from(UPSTREAM)] += said[Says::Permit as usize];
        counts.filter_deny[usize::from(UPSTREAM)] += said[Says::Deny as usize];
    }
}

/// What a modem's filter groups say of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Nothing,
    Permit,
    Deny,
}

/// Asks the groups. Apart, so that packets beside all rules have the registers to themselves.
#[inline(never)]
fn ask(rules: &Rules, groups: [u8; 4], burst: &Burst<Cmts>, i: usize, arena: &Arena) -> Says {
    match rules.filter(groups, &seen(burst, i, arena)) {
        None => Says::Nothing,
        Some(hit) if hit.then == DENY => Says::Deny,
        Some(_) => Says::Permit,
    }
}
