//! Messages between nodes (7.4).

use crate::group::*;
use crate::ie::*;

messages_of! {
    /// Heartbeat Request (7.4.2.1): are you there, and since when?
    HeartbeatRequest = 1 {
        /// Since when the sender is there.
        recovery_time_stamp: RecoveryTimeStamp = M,
        /// The address the sender had at first, if address translation is to be found out.
        source_ip_address: SourceIpAddress = O,
    }

    /// Heartbeat Response (7.4.2.2).
    HeartbeatResponse = 2 {
        /// Since when the sender is there.
        recovery_time_stamp: RecoveryTimeStamp = M,
    }

    /// PFCP PFD Management Request (7.4.3.1): how to detect applications.
    PfdManagementRequest = 3 {
        /// Each application; if nothing is here, forget all.
        application_ids_pfds: [ApplicationIdsPfds] = C,
        /// Who asks.
        node_id: NodeId = O,
    }

    /// PFCP PFD Management Response (7.4.3.2).
    PfdManagementResponse = 4 {
        /// What became of it.
        cause: Cause = M,
        /// What is to blame.
        offending_ie: OffendingIe = C,
        /// Who answers.
        node_id: NodeId = O,
    }

    /// PFCP Association Setup Request (7.4.4.1): let us work together.
    AssociationSetupRequest = 5 {
        /// Who asks.
        node_id: NodeId = M,
        /// Since when the sender is there.
        recovery_time_stamp: RecoveryTimeStamp = M,
        /// What it can do as a user plane.
        up_function_features: UpFunctionFeatures = C,
        /// What it can do as a control plane.
        cp_function_features: CpFunctionFeatures = C,
        /// Addresses and TEIDs the control plane may give out (until Release 15).
        user_plane_ip_resource_information: [UserPlaneIpResourceInformation] = C,
        /// Who else controls its sessions.
        alternative_smf_ip_addresses: [AlternativeSmfIpAddress] = O,
        /// Which set it belongs to.
        smf_set_id: SmfSetId = C,
        /// Which sessions to keep.
        pfcp_session_retention_information: PfcpSessionRetentionInformation = O,
        /// Pools of addresses.
        ue_ip_address_pool_information: [UeIpAddressPoolInformation] = O,
        /// Which instance it is.
        nf_instance_id: NfInstanceId = O,
        /// Flags.
        pfcp_as_req_flags: PfcpAsReqFlags = O,
    }

    /// PFCP Association Setup Response (7.4.4.2).
    AssociationSetupResponse = 6 {
        /// Who answers.
        node_id: NodeId = M,
        /// What became of it.
        cause: Cause = M,
        /// Since when the sender is there. Mandatory; left out by peers when they refuse.
        recovery_time_stamp: RecoveryTimeStamp = C when |response| response.cause.is_acceptance(),
        /// What it can do as a user plane.
        up_function_features: UpFunctionFeatures = C,
        /// What it can do as a control plane.
        cp_function_features: CpFunctionFeatures = C,
        /// Addresses and TEIDs the control plane may give out (until Release 15).
        user_plane_ip_resource_information: [UserPlaneIpResourceInformation] = C,
        /// Who else controls its sessions.
        alternative_smf_ip_addresses: [AlternativeSmfIpAddress] = O,
        /// Which set it belongs to.
        smf_set_id: SmfSetId = C,
        /// Flags.
        pfcp_as_rsp_flags: PfcpAsRspFlags = O,
        /// Pools of addresses.
        ue_ip_address_pool_information: [UeIpAddressPoolInformation] = O,
        /// Which instance it is.
        nf_instance_id: NfInstanceId = O,
    }

    /// PFCP Association Update Request (7.4.4.3): something has changed.
    AssociationUpdateRequest = 7 {
        /// Who says so.
        node_id: NodeId = M,
        /// What it can do as a user plane.
        up_function_features: UpFunctionFeatures = O,
        /// What it can do as a control plane.
        cp_function_features: CpFunctionFeatures = O,
        /// The user plane asks to be released.
        pfcp_association_release_request: PfcpAssociationReleaseRequest = C,
        /// How long it will wait for that.
        graceful_release_period: GracefulReleasePeriod = C,
        /// The control plane will release.
        pfcp_au_req_flags: PfcpAuReqFlags = O,
        /// Addresses and TEIDs the control plane may give out (until Release 15).
        user_plane_ip_resource_information: [UserPlaneIpResourceInformation] = O,
        /// Who else controls its sessions.
        alternative_smf_ip_addresses: [AlternativeSmfIpAddress] = O,
        /// Which set it belongs to.
        smf_set_id: SmfSetId = O,
        /// Pools of addresses.
        ue_ip_address_pool_information: [UeIpAddressPoolInformation] = O,
    }

    /// PFCP Association Update Response (7.4.4.4).
    AssociationUpdateResponse = 8 {
        /// Who answers.
        node_id: NodeId = M,
        /// What became of it.
        cause: Cause = M,
        /// What it can do as a user plane.
        up_function_features: UpFunctionFeatures = O,
        /// What it can do as a control plane.
        cp_function_features: CpFunctionFeatures = O,
    }

    /// PFCP Association Release Request (7.4.4.5): no longer.
    AssociationReleaseRequest = 9 {
        /// Who says so; some send 0.0.0.0.
        node_id: NodeId = M,
    }

    /// PFCP Association Release Response (7.4.4.6).
    AssociationReleaseResponse = 10 {
        /// Who answers.
        node_id: NodeId = M,
        /// What became of it.
        cause: Cause = M,
    }

    /// PFCP Version Not Supported Response (7.4.4.7): the header says which is.
    VersionNotSupportedResponse = 11 {}

    /// PFCP Node Report Request (7.4.5.1): what the user plane has noticed.
    NodeReportRequest = 12 {
        /// Who says so.
        node_id: NodeId = M,
        /// What kinds.
        node_report_type: NodeReportType = M,
        /// Peers that no longer answer.
        user_plane_path_failure_report: UserPlanePathFailureReport = C
            when |request| request.node_report_type.contains(NodeReportType::UPFR),
        /// Peers that answer again.
        user_plane_path_recovery_report: UserPlanePathRecoveryReport = C
            when |request| request.node_report_type.contains(NodeReportType::UPRR),
        /// Peers that have restarted.
        peer_up_restart_report: PeerUpRestartReport = C,
    }

    /// PFCP Node Report Response (7.4.5.2).
    NodeReportResponse = 13 {
        /// Who answers.
        node_id: NodeId = M,
        /// What became of it.
        cause: Cause = M,
        /// What is to blame.
        offending_ie: OffendingIe = C,
    }

    /// PFCP Session Set Deletion Request (7.4.6.1): sessions that failed together.
    SessionSetDeletionRequest = 14 {
        /// Who says so.
        node_id: NodeId = M,
        /// Which sets: of the SGW-C, PGW-C, SGW-U, PGW-U, TWAN, ePDG or MME.
        fq_csids: [FqCsid] = C,
    }

    /// PFCP Session Set Deletion Response (7.4.6.2).
    SessionSetDeletionResponse = 15 {
        /// Who answers.
        node_id: NodeId = M,
        /// What became of it.
        cause: Cause = M,
        /// What is to blame.
        offending_ie: OffendingIe = C,
    }

    /// PFCP Session Set Modification Request (7.4.7.1): sessions another control plane takes over.
    SessionSetModificationRequest = 16 {
        /// Who says so.
        node_id: NodeId = M,
        /// Which, and who.
        pfcp_session_change_info: [PfcpSessionChangeInfo] = M,
    }

    /// PFCP Session Set Modification Response (7.4.7.2).
    SessionSetModificationResponse = 17 {
        /// Who answers.
        node_id: NodeId = M,
        /// What became of it.
        cause: Cause = M,
        /// What is to blame.
        offending_ie: OffendingIe = C,
    }
}
