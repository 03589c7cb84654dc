//! Which service flow a packet belongs to, and what upstream packets are marked with.

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use wire::{checksum, fast, protocol};

use super::filter::seen;
use crate::drops;
use crate::lane::Cmts;

/// Chooses the service flow by the modem's classifiers; what none matches goes by the primary (CM-SP-MULPI).
#[derive(Default)]
pub struct Classify;

impl Stage<Cmts> for Classify {
    const NAME: &'static str = "classification";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let mut matched = [0u64; 4];
        let rules = cx.state.rules();
        for i in burst.live() {
            let Some(modem) = cx.state.modems.modem(burst.lane.modem[i]) else {
                burst.drop(i, drops::UNKNOWN_SUBSCRIBER, at);
                continue;
            };
            let ip = burst.lane.ip(i);
            let chosen = rules.classify(modem.classifiers, ip, || seen(burst, i, arena));
            let kind = match chosen {
                None => 3,
                Some(_) if ip.version != 4 => 2,
                Some(_) if ip.protocol == protocol::ICMP4 => 1,
                Some(_) => 0,
            };
            matched[kind] += 1;
            // A service flow the modem does not have (any more) is its primary.
            let flow = chosen.filter(|flow| modem.flows >> *flow & 1 == 1).unwrap_or(0);
            let flow = modem.first_flow + u32::from(flow);
            cx.state.scheduler.prefetch(flow);
            burst.lane.flow[i] = flow;
        }
        let counts = &mut cx.state.counts;
        counts.classified_ipv4 += matched[0];
        counts.classified_icmp += matched[1];
        counts.classified_llc += matched[2];
        counts.unclassified += matched[3];
    }
}

/// Overwrites the type of service of what a modem sent, where its service flow says so (TLV 24.23).
#[derive(Default)]
pub struct Mark;

impl Stage<Cmts> for Mark {
    const NAME: &'static str = "marking";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let arena = cx.env.arena();
        for i in burst.live() {
            let cluster = cx.state.upstream.cluster(burst.lane.flow[i]);
            let Some((keep, set)) = cluster.and_then(|cluster| cluster.spec().tos) else { continue };
            let ip = burst.lane.ip_mut(i);
            let tos = ip.tos & keep | set;
            if std::mem::replace(&mut ip.tos, tos) == tos {
                continue;
            }
            let (version, l3) = (ip.version, usize::from(burst.frame(i).meta.l3));
            let Some(packet) = burst.bytes_mut(i, arena).get_mut(l3..) else { continue };
            let old = fast::be16(packet, 0).unwrap_or(0);
            if version == 4 {
                let new = old & 0xff00 | u16::from(tos);
                fast::put16(packet, 0, new);
                let check = fast::be16(packet, 10).unwrap_or(0);
                fast::put16(packet, 10, checksum::adjust16(check, old, new));
            } else {
                fast::put16(packet, 0, old & 0xf00f | u16::from(tos) << 4);
            }
        }
    }
}
