//! QERs: gates, rates, marks (5.4).

use pfcp::group::CreateQer;
use pfcp::ie::{PacketLimit as IeLimit, PacketRate};

use crate::n4::change::Rules;
use crate::rules::{Mbr, PacketLimit, Qer};

/// A QER of a session.
pub(super) fn translate(rules: &Rules, qer: &CreateQer) -> Qer {
    let bits = |kbits: u64| kbits.saturating_mul(1000);
    let mbr = qer
        .maximum_bitrate
        .map_or(Mbr::default(), |mbr| Mbr { up: Some(bits(mbr.uplink)), down: Some(bits(mbr.downlink)) });
    Qer {
        id: qer.qer_id.0,
        gate_up: !qer.gate_status.uplink_closed,
        gate_down: !qer.gate_status.downlink_closed,
        mbr,
        packets: packet_limits(qer.packet_rate),
        gbr: qer
            .guaranteed_bitrate
            .map_or(Mbr::default(), |gbr| Mbr { up: Some(bits(gbr.uplink)), down: Some(bits(gbr.downlink)) }),
        qfi: qer.qfi.map(|qfi| qfi.0),
        reflective: qer.rqi.is_some_and(|rqi| rqi.0),
        paging_policy: qer.paging_policy_indicator.map(|ppi| ppi.0 & 7),
        mark: qer.dl_flow_level_marking.and_then(|marking| marking.traffic_class).map(|[value, _]| value >> 2),
        session: is_aggregate(rules, qer),
    }
}

/// How many packets may pass from and to the subscriber. What may pass beyond that by exception (APRC; TS 23.401,
/// 4.7.7.3) is added: which packets are exceptions, only the subscriber knows.
fn packet_limits(rate: Option<PacketRate>) -> [Option<PacketLimit>; 2] {
    let Some(rate) = rate else { return [None; 2] };
    let of = |own: Option<IeLimit>, more: Option<IeLimit>| {
        let own = own?;
        let seconds = |limit: IeLimit| u64::from(limit.unit.seconds());
        let more = more.map_or(0, |more| u64::from(more.packets) * seconds(own) / seconds(more));
        let most = u32::try_from(u64::from(own.packets) + more).unwrap_or(u32::MAX);
        Some(PacketLimit { most, period_ns: seconds(own) * 1_000_000_000 })
    };
    let [up, down] = rate.additional.map_or([None; 2], |more| more.map(Some));
    [of(rate.uplink, up), of(rate.downlink, down)]
}

/// Whether a QER is the session's aggregate (Session-AMBR, APN-AMBR): several flows' rules share it. PFCP does not say.
fn is_aggregate(rules: &Rules, qer: &CreateQer) -> bool {
    let mut with = rules.create_pdrs.iter().filter(|pdr| pdr.qer_ids.contains(&qer.qer_id));
    // A flow with a guaranteed rate is none of those that share it.
    let is_flow = qer.qfi.is_some() || qer.guaranteed_bitrate.is_some();
    !is_flow && with.clone().count() > 1 && with.any(|pdr| pdr.qer_ids.len() > 1)
}
