//! QoS enforcement rules: how packets are treated.

use crate::ie::*;

groups! {
    /// Create QER (7.5.2.5).
    CreateQer = 7 {
        /// Unique in the session.
        qer_id: QerId = M,
        /// Shares its rate with QERs of other sessions that have the same.
        qer_correlation_id: QerCorrelationId = C,
        /// Whether anything passes.
        gate_status: GateStatus = M,
        /// How much passes at most.
        maximum_bitrate: Mbr = C,
        /// How much passes for sure.
        guaranteed_bitrate: Gbr = C,
        /// How many packets pass at most.
        packet_rate: PacketRate = C,
        /// How many of them are left.
        packet_rate_status: PacketRateStatus = C,
        /// How to mark downlink packets.
        dl_flow_level_marking: DlFlowLevelMarking = C,
        /// The QoS flow to mark packets with.
        qfi: Qfi = C,
        /// Whether the subscriber is to mirror that.
        rqi: Rqi = C,
        /// The paging policy to mark packets with.
        paging_policy_indicator: PagingPolicyIndicator = C,
        /// Over which time the rates hold.
        averaging_window: AveragingWindow = O,
        /// What else to report.
        qer_control_indications: QerControlIndications = C,
    }

    /// Update QER (7.5.4.5): what is not here stays.
    UpdateQer = 14 {
        /// The QER.
        qer_id: QerId = M,
        /// Shares its rate with QERs of other sessions that have the same.
        qer_correlation_id: QerCorrelationId = C,
        /// Whether anything passes.
        gate_status: GateStatus = C,
        /// How much passes at most.
        maximum_bitrate: Mbr = C,
        /// How much passes for sure.
        guaranteed_bitrate: Gbr = C,
        /// How many packets pass at most.
        packet_rate: PacketRate = C,
        /// How to mark downlink packets.
        dl_flow_level_marking: DlFlowLevelMarking = C,
        /// The QoS flow to mark packets with.
        qfi: Qfi = C,
        /// Whether the subscriber is to mirror that.
        rqi: Rqi = C,
        /// The paging policy to mark packets with.
        paging_policy_indicator: PagingPolicyIndicator = C,
        /// Over which time the rates hold.
        averaging_window: AveragingWindow = O,
        /// What else to report.
        qer_control_indications: QerControlIndications = C,
    }

    /// Remove QER (7.5.4.9).
    RemoveQer = 18 {
        /// The QER.
        qer_id: QerId = M,
    }
}
