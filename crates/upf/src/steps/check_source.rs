//! Subscribers speak for themselves only.

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use wire::protocol;

use crate::lane::Upf;
use crate::record::match_flags;
use crate::{drops, punts};

/// Drops what a subscriber sends from an address that is not its own nor of a network behind it (TS 29.281, 4.3; BCP 38;
/// framed routes: TS 29.244, 5.16), and what it sends to our
/// own tunnel endpoints. IPv6 link-local traffic is for the control plane, where a rule sends it; without one, router
/// solicitations are punted. Behind the rule, which tells whether packets come from a subscriber at all.
#[derive(Default)]
pub struct CheckSource;

/// fe80::/10.
fn is_link_local(address: u128) -> bool {
    address >> 118 == 0xfe80 >> 6
}

impl Stage<Upf> for CheckSource {
    const NAME: &'static str = "check_source";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let state = &*cx.state;
        for i in burst.live() {
            if burst.lane.rule[i].flags & match_flags::FROM_UE == 0 {
                continue;
            }
            let Some(head) = state.sessions.head(burst.lane.session[i]) else {
                burst.drop(i, drops::SESSION_GONE, at);
                continue;
            };
            let ip = burst.lane.ip(i);
            if ip.version == 4 {
                // A session without IPv4 address has 0 here, which no packet may come from either.
                let is_own = ip.src == head.ue4 && ip.src != 0;
                if !is_own && !state.sessions.is_behind4(burst.lane.session[i], head.instance, ip.src) {
                    burst.drop(i, drops::SPOOFED_SOURCE, at);
                } else if ip.dst_port == wire::gtpu::PORT
                    && ip.protocol == protocol::UDP
                    && state.port(burst.frame(i).meta.port).is_mine4(ip.dst)
                {
                    burst.drop(i, drops::GTP_IN_GTP, at);
                }
                continue;
            }
            let l3 = usize::from(burst.frame(i).meta.l3);
            let packet = burst.bytes(i, arena).get(l3..).unwrap_or_default();
            let (from, to) = (ip.src6(packet), ip.dst6(packet));
            if is_link_local(from) || from == 0 {
                if ip.protocol == protocol::ICMP6 && head.ue6 != 0 {
                    burst.punt(i, punts::ROUTER_SOLICITATION);
                } else {
                    burst.drop(i, drops::SPOOFED_SOURCE, at);
                }
            } else if (head.ue6 == 0 || (from >> 64) as u64 != head.ue6)
                && !state.sessions.is_behind6(burst.lane.session[i], head.instance, from)
            {
                burst.drop(i, drops::SPOOFED_SOURCE, at);
            } else if ip.dst_port == wire::gtpu::PORT
                && ip.protocol == protocol::UDP
                && state.port(burst.frame(i).meta.port).is_mine6(to)
            {
                burst.drop(i, drops::GTP_IN_GTP, at);
            }
        }
    }
}
