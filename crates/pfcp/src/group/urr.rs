//! Usage reporting rules: what is measured, and when it is reported.

use crate::ie::*;

groups! {
    /// Create URR (7.5.2.4).
    CreateUrr = 6 {
        /// Unique in the session.
        urr_id: UrrId = M,
        /// What to measure.
        measurement_method: MeasurementMethod = M,
        /// When to report.
        reporting_triggers: ReportingTriggers = M,
        /// How often.
        measurement_period: MeasurementPeriod = C when |urr| urr.reporting_triggers.contains(ReportingTriggers::PERIO),
        /// After how much volume.
        volume_threshold: VolumeThreshold = C,
        /// How much volume may pass.
        volume_quota: VolumeQuota = C,
        /// After how many events.
        event_threshold: EventThreshold = C,
        /// How many events may happen.
        event_quota: EventQuota = C,
        /// After how much time.
        time_threshold: TimeThreshold = C,
        /// How much time may be used.
        time_quota: TimeQuota = C,
        /// How long the quota is kept without a packet.
        quota_holding_time: QuotaHoldingTime = C,
        /// After how much dropped.
        dropped_dl_traffic_threshold: DroppedDlTrafficThreshold = C,
        /// How long the quota is valid.
        quota_validity_time: QuotaValidityTime = C,
        /// From when the subsequent thresholds and quotas apply.
        monitoring_time: MonitoringTime = O,
        /// Volume threshold from then on.
        subsequent_volume_threshold: SubsequentVolumeThreshold = O,
        /// Time threshold from then on.
        subsequent_time_threshold: SubsequentTimeThreshold = O,
        /// Volume quota from then on.
        subsequent_volume_quota: SubsequentVolumeQuota = O,
        /// Time quota from then on.
        subsequent_time_quota: SubsequentTimeQuota = O,
        /// Event threshold from then on.
        subsequent_event_threshold: SubsequentEventThreshold = O,
        /// Event quota from then on.
        subsequent_event_quota: SubsequentEventQuota = O,
        /// After how long without a packet time stands still.
        inactivity_detection_time: InactivityDetectionTime = C,
        /// URRs that are reported when this one is.
        linked_urr_ids: [LinkedUrrId] = C,
        /// How to measure.
        measurement_information: MeasurementInformation = C,
        /// How time is used up.
        time_quota_mechanism: TimeQuotaMechanism = C,
        /// URRs whose usage counts here too (credit pool).
        aggregated_urrs: [AggregatedUrrs] = C,
        /// What to do with packets once the quota is used up.
        far_id_for_quota_action: FarId = C,
        /// After how long without a frame a MAC address is gone.
        ethernet_inactivity_timer: EthernetInactivityTimer = C,
        /// More monitoring times.
        additional_monitoring_times: [AdditionalMonitoringTime] = O,
        /// After how many reports the URR has done its work.
        number_of_reports: NumberOfReports = O,
    }

    /// Aggregated URRs (7.5.2.4-2).
    AggregatedUrrs = 118 {
        /// Whose usage.
        aggregated_urr_id: AggregatedUrrId = M,
        /// Times this.
        multiplier: Multiplier = M,
    }

    /// Additional Monitoring Time (7.5.2.4-3).
    AdditionalMonitoringTime = 147 {
        /// From when the following apply.
        monitoring_time: MonitoringTime = M,
        /// Volume threshold from then on.
        subsequent_volume_threshold: SubsequentVolumeThreshold = O,
        /// Time threshold from then on.
        subsequent_time_threshold: SubsequentTimeThreshold = O,
        /// Volume quota from then on.
        subsequent_volume_quota: SubsequentVolumeQuota = O,
        /// Time quota from then on.
        subsequent_time_quota: SubsequentTimeQuota = O,
        /// Event threshold from then on.
        subsequent_event_threshold: SubsequentEventThreshold = O,
        /// Event quota from then on.
        subsequent_event_quota: SubsequentEventQuota = O,
    }

    /// Update URR (7.5.4.4): what is not here stays.
    UpdateUrr = 13 {
        /// The URR.
        urr_id: UrrId = M,
        /// What to measure.
        measurement_method: MeasurementMethod = C,
        /// When to report.
        reporting_triggers: ReportingTriggers = C,
        /// How often.
        measurement_period: MeasurementPeriod = C,
        /// After how much volume.
        volume_threshold: VolumeThreshold = C,
        /// How much volume may pass.
        volume_quota: VolumeQuota = C,
        /// After how much time.
        time_threshold: TimeThreshold = C,
        /// How much time may be used.
        time_quota: TimeQuota = C,
        /// After how many events.
        event_threshold: EventThreshold = C,
        /// How many events may happen.
        event_quota: EventQuota = C,
        /// How long the quota is kept without a packet.
        quota_holding_time: QuotaHoldingTime = C,
        /// After how much dropped.
        dropped_dl_traffic_threshold: DroppedDlTrafficThreshold = C,
        /// How long the quota is valid.
        quota_validity_time: QuotaValidityTime = C,
        /// From when the subsequent thresholds and quotas apply.
        monitoring_time: MonitoringTime = C,
        /// Volume threshold from then on.
        subsequent_volume_threshold: SubsequentVolumeThreshold = C,
        /// Time threshold from then on.
        subsequent_time_threshold: SubsequentTimeThreshold = C,
        /// Volume quota from then on.
        subsequent_volume_quota: SubsequentVolumeQuota = C,
        /// Time quota from then on.
        subsequent_time_quota: SubsequentTimeQuota = C,
        /// Event threshold from then on.
        subsequent_event_threshold: SubsequentEventThreshold = O,
        /// Event quota from then on.
        subsequent_event_quota: SubsequentEventQuota = O,
        /// After how long without a packet time stands still.
        inactivity_detection_time: InactivityDetectionTime = C,
        /// URRs that are reported when this one is.
        linked_urr_ids: [LinkedUrrId] = C,
        /// How to measure.
        measurement_information: MeasurementInformation = C,
        /// How time is used up.
        time_quota_mechanism: TimeQuotaMechanism = C,
        /// URRs whose usage counts here too (credit pool).
        aggregated_urrs: [AggregatedUrrs] = C,
        /// What to do with packets once the quota is used up.
        far_id_for_quota_action: FarId = C,
        /// After how long without a frame a MAC address is gone.
        ethernet_inactivity_timer: EthernetInactivityTimer = C,
        /// All further monitoring times.
        additional_monitoring_times: [AdditionalMonitoringTime] = O,
        /// After how many reports the URR has done its work.
        number_of_reports: NumberOfReports = O,
    }

    /// Remove URR (7.5.4.8): its last report comes with the response.
    RemoveUrr = 17 {
        /// The URR.
        urr_id: UrrId = M,
    }

    /// Query URR (7.5.4.10): report now.
    QueryUrr = 77 {
        /// The URR.
        urr_id: UrrId = M,
    }
}
