//! Messages about a session (7.5).

use crate::group::*;
use crate::ie::*;

messages_of! {
    /// PFCP Session Establishment Request (7.5.2).
    SessionEstablishmentRequest = 50 {
        /// Who asks.
        node_id: NodeId = M,
        /// The session, as the control plane numbers it.
        cp_f_seid: FSeid = M,
        /// Which packets.
        create_pdrs: [CreatePdr] = M,
        /// What becomes of them.
        create_fars: [CreateFar] = M,
        /// How they are measured.
        create_urrs: [CreateUrr] = C,
        /// How they are treated.
        create_qers: [CreateQer] = C,
        /// How they are buffered.
        create_bar: CreateBar = O,
        /// Tunnels and addresses several PDRs share.
        create_traffic_endpoints: [CreateTrafficEndpoint] = C,
        /// What kind of packets.
        pdn_type: PdnType = C,
        /// Sets the session belongs to: of the SGW-C, MME, PGW-C, ePDG and TWAN, as far as they are there.
        fq_csids: [FqCsid] = C,
        /// After how long without a packet to report.
        user_plane_inactivity_timer: UserPlaneInactivityTimer = O,
        /// Who the subscriber is.
        user_id: UserId = O,
        /// What to trace.
        trace_information: TraceInformation = O,
        /// The data network.
        apn_dnn: ApnDnn = O,
        /// Flags.
        pfcp_se_req_flags: PfcpSeReqFlags = C,
        /// When it was asked for.
        recovery_time_stamp: RecoveryTimeStamp = O,
        /// The slice.
        s_nssai: SNssai = O,
        /// The radio.
        rat_type: RatType = O,
        /// What it is restored with.
        group_id: GroupId = O,
    }

    /// PFCP Session Establishment Response (7.5.3).
    SessionEstablishmentResponse = 51 {
        /// Who answers.
        node_id: NodeId = M,
        /// What became of it.
        cause: Cause = M,
        /// What is to blame.
        offending_ie: OffendingIe = C,
        /// The session, as the user plane numbers it.
        up_f_seid: FSeid = C when |response| response.cause.is_acceptance(),
        /// What the user plane chose.
        created_pdrs: [CreatedPdr] = C,
        /// How loaded it is.
        load_control_information: LoadControlInformation = O,
        /// How overloaded it is.
        overload_control_information: OverloadControlInformation = O,
        /// Sets the session belongs to: of the SGW-U and PGW-U.
        fq_csids: [FqCsid] = C,
        /// The rule that could not be set up.
        failed_rule_id: FailedRuleId = C,
        /// What the user plane chose.
        created_traffic_endpoints: [CreatedTrafficEndpoint] = C,
        /// Rules that could not be set up.
        partial_failure_information: [PartialFailureInformation] = C,
    }

    /// PFCP Session Modification Request (7.5.4).
    SessionModificationRequest = 52 {
        /// The session, as the control plane numbers it from now on.
        cp_f_seid: FSeid = C,
        /// PDRs to remove.
        remove_pdrs: [RemovePdr] = C,
        /// FARs to remove.
        remove_fars: [RemoveFar] = C,
        /// URRs to remove.
        remove_urrs: [RemoveUrr] = C,
        /// QERs to remove.
        remove_qers: [RemoveQer] = C,
        /// BAR to remove.
        remove_bar: RemoveBar = C,
        /// Traffic endpoints to remove.
        remove_traffic_endpoints: [RemoveTrafficEndpoint] = C,
        /// PDRs to add.
        create_pdrs: [CreatePdr] = C,
        /// FARs to add.
        create_fars: [CreateFar] = C,
        /// URRs to add.
        create_urrs: [CreateUrr] = C,
        /// QERs to add.
        create_qers: [CreateQer] = C,
        /// BAR to add.
        create_bar: CreateBar = C,
        /// Traffic endpoints to add.
        create_traffic_endpoints: [CreateTrafficEndpoint] = C,
        /// PDRs to change.
        update_pdrs: [UpdatePdr] = C,
        /// FARs to change.
        update_fars: [UpdateFar] = C,
        /// URRs to change.
        update_urrs: [UpdateUrr] = C,
        /// QERs to change.
        update_qers: [UpdateQer] = C,
        /// BAR to change.
        update_bar: UpdateBar = C,
        /// Traffic endpoints to change.
        update_traffic_endpoints: [UpdateTrafficEndpoint] = C,
        /// What else to do.
        pfcp_sm_req_flags: PfcpSmReqFlags = C,
        /// URRs to report now.
        query_urrs: [QueryUrr] = C,
        /// Sets the session belongs to.
        fq_csids: [FqCsid] = C,
        /// After how long without a packet to report.
        user_plane_inactivity_timer: UserPlaneInactivityTimer = C,
        /// What to call the query.
        query_urr_reference: QueryUrrReference = O,
        /// What to trace.
        trace_information: TraceInformation = O,
        /// The control plane that takes over.
        node_id: NodeId = C,
        /// The radio.
        rat_type: RatType = O,
        /// What it is restored with.
        group_id: GroupId = C,
    }

    /// PFCP Session Modification Response (7.5.5).
    SessionModificationResponse = 53 {
        /// What became of it.
        cause: Cause = M,
        /// What is to blame.
        offending_ie: OffendingIe = C,
        /// What the user plane chose.
        created_pdrs: [CreatedPdr] = C,
        /// How loaded it is.
        load_control_information: LoadControlInformation = O,
        /// How overloaded it is.
        overload_control_information: OverloadControlInformation = O,
        /// Usage asked for, and that of what was removed.
        usage_reports: [UsageReport] as 78 = C,
        /// The rule that could not be set up.
        failed_rule_id: FailedRuleId = C,
        /// How many more reports will come.
        additional_usage_reports_information: AdditionalUsageReportsInformation = C,
        /// What the user plane chose.
        created_traffic_endpoints: [CreatedTrafficEndpoint] = C,
        /// What the user plane chose.
        updated_pdrs: [UpdatedPdr] = C,
        /// Rules that could not be set up.
        partial_failure_information: [PartialFailureInformation] = C,
    }

    /// PFCP Session Deletion Request (7.5.6).
    SessionDeletionRequest = 54 {
        /// The session, as the control plane numbers it; not in the standard, sent by some.
        cp_f_seid: FSeid = O,
    }

    /// PFCP Session Deletion Response (7.5.7).
    SessionDeletionResponse = 55 {
        /// What became of it.
        cause: Cause = M,
        /// What is to blame.
        offending_ie: OffendingIe = C,
        /// How loaded the user plane is.
        load_control_information: LoadControlInformation = O,
        /// How overloaded it is.
        overload_control_information: OverloadControlInformation = O,
        /// The last usage.
        usage_reports: [UsageReport] as 79 = C,
        /// How many more reports will come.
        additional_usage_reports_information: AdditionalUsageReportsInformation = C,
        /// How many packets were left.
        packet_rate_status_reports: [PacketRateStatusReport] = C,
        /// Flags.
        pfcp_sd_rsp_flags: PfcpSdRspFlags = C,
    }

    /// PFCP Session Report Request (7.5.8).
    SessionReportRequest = 56 {
        /// What kinds.
        report_type: ReportType = M,
        /// Packets wait.
        downlink_data_report: DownlinkDataReport = C when |request| request.report_type.contains(ReportType::DLDR),
        /// Usage.
        usage_reports: [UsageReport] = C when |request| request.report_type.contains(ReportType::USAR),
        /// A peer does not know its tunnel.
        error_indication_report: ErrorIndicationReport = C
            when |request| request.report_type.contains(ReportType::ERIR),
        /// How loaded the user plane is.
        load_control_information: LoadControlInformation = O,
        /// How overloaded it is.
        overload_control_information: OverloadControlInformation = O,
        /// How many more reports will come.
        additional_usage_reports_information: AdditionalUsageReportsInformation = C,
        /// Flags.
        pfcp_sr_req_flags: PfcpSrReqFlags = C,
        /// The session, as the control plane numbered it, to one that takes over.
        old_cp_f_seid: FSeid = C,
        /// How many packets are left.
        packet_rate_status_report: PacketRateStatusReport = C,
    }

    /// PFCP Session Report Response (7.5.9).
    SessionReportResponse = 57 {
        /// What became of it.
        cause: Cause = M,
        /// What is to blame.
        offending_ie: OffendingIe = C,
        /// How to buffer from now on.
        update_bar: UpdateBarInReportResponse = C,
        /// What to do with what is buffered.
        pfcp_sr_rsp_flags: PfcpSrRspFlags = C,
        /// The session, as the control plane numbers it from now on.
        cp_f_seid: FSeid = C,
        /// Where to send the reports of this session from now on: the other address of the control plane.
        alternative_smf_ip_address: AlternativeSmfIpAddress = O,
    }
}
