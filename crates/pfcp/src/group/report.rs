//! What the user plane reports of a session.

use crate::ie::*;

groups! {
    /// Usage Report (7.5.5.2, 7.5.7.2, 7.5.8.3): the same in three messages, with a type number in each.
    UsageReport = 80 {
        /// Whose usage.
        urr_id: UrrId = M,
        /// Number of the report.
        ur_seqn: UrSeqn = M,
        /// Why it is sent.
        usage_report_trigger: UsageReportTrigger = M,
        /// From when, unless traffic started or stopped.
        start_time: StartTime = C,
        /// Until when, unless traffic started or stopped.
        end_time: EndTime = C,
        /// How much.
        volume_measurement: VolumeMeasurement = C,
        /// How long.
        duration_measurement: DurationMeasurement = C,
        /// Which application, if one was detected.
        application_detection_information: ApplicationDetectionInformation = C,
        /// Whose address, if the PDI does not say; in Session Report Requests only.
        ue_ip_address: UeIpAddress = C,
        /// In which network, if the PDI does not say; in Session Report Requests only.
        network_instance: NetworkInstance = C,
        /// First packet of the time reported.
        time_of_first_packet: TimeOfFirstPacket = C,
        /// Last packet of the time reported.
        time_of_last_packet: TimeOfLastPacket = C,
        /// Which part, if there are two.
        usage_information: UsageInformation = C,
        /// Which query asked for it.
        query_urr_reference: QueryUrrReference = C,
        /// When the events happened; in Session Report Requests only.
        event_time_stamps: [EventTimeStamp] = C,
    }

    /// Application Detection Information (7.5.8.3-2).
    ApplicationDetectionInformation = 68 {
        /// Which application started or stopped.
        application_id: ApplicationId = M,
        /// Which instance of it.
        application_instance_id: ApplicationInstanceId = C,
        /// Which flow.
        flow_information: FlowInformation = C,
        /// Which PDR it met.
        pdr_id: PdrId = O,
    }

    /// Downlink Data Report (7.5.8.2): packets wait, or were dropped.
    DownlinkDataReport = 83 {
        /// Which PDRs they met.
        pdr_ids: [PdrId] = M,
        /// What they belong to, in the order of the PDRs.
        downlink_data_service_information: [DownlinkDataServiceInformation] = C,
        /// Buffered or dropped.
        dl_data_status: DataStatus = O,
    }

    /// Error Indication Report (7.5.8.4): a peer does not know these tunnels of its.
    ErrorIndicationReport = 99 {
        /// The tunnels, as the peer numbers them.
        remote_f_teids: [FTeid] = M,
    }

    /// Packet Rate Status Report (7.5.7.3).
    PacketRateStatusReport = 252 {
        /// The QER.
        qer_id: QerId = M,
        /// How many packets are left.
        packet_rate_status: PacketRateStatus = M,
    }

    /// Partial Failure Information (7.5.3.1-2): a rule that could not be set up while others could.
    PartialFailureInformation = 272 {
        /// The rule.
        failed_rule_id: FailedRuleId = M,
        /// Why.
        failure_cause: Cause = M,
        /// What is to blame.
        offending_ie_information: [OffendingIeInformation] = C,
    }
}
