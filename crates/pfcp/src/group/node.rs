//! What nodes tell each other: load, paths, PFDs, sets of sessions.

use crate::ie::*;

groups! {
    /// Load Control Information (7.5.3.3).
    LoadControlInformation = 51 {
        /// Increases with each change.
        load_control_sequence_number: SequenceNumber = M,
        /// Load, in per cent.
        load_metric: Metric = M,
    }

    /// Overload Control Information (7.5.3.4).
    OverloadControlInformation = 54 {
        /// Increases with each change.
        overload_control_sequence_number: SequenceNumber = M,
        /// How many per cent of the requests not to send.
        overload_reduction_metric: Metric = M,
        /// For how long.
        period_of_validity: Timer = M,
        /// Whom it concerns.
        overload_control_information_flags: OciFlags = C,
    }

    /// Application ID's PFDs (7.4.3.1-2): how to detect an application.
    ApplicationIdsPfds = 58 {
        /// Which application.
        application_id: ApplicationId = M,
        /// How; if nothing is here, forget what was.
        pfd_contexts: [PfdContext] = C,
    }

    /// PFD Context (7.4.3.1-3).
    PfdContext = 59 {
        /// What to look for.
        pfd_contents: [PfdContents] = M,
    }

    /// User Plane Path Failure Report (7.4.5.1.2).
    UserPlanePathFailureReport = 102 {
        /// Peers that no longer answer.
        remote_gtp_u_peers: [RemoteGtpUPeer] = M,
    }

    /// User Plane Path Recovery Report (7.4.5.1.3).
    UserPlanePathRecoveryReport = 187 {
        /// Peers that answer again.
        remote_gtp_u_peers: [RemoteGtpUPeer] = M,
    }

    /// Peer UP Restart Report (7.4.5.1.8).
    PeerUpRestartReport = 315 {
        /// Peers that have restarted.
        remote_gtp_u_peers: [RemoteGtpUPeer] = M,
    }

    /// PFCP Session Retention Information (7.4.4.1-2): sessions to keep when the association is set up anew.
    PfcpSessionRetentionInformation = 183 {
        /// Whose; if nothing is here, all.
        cp_pfcp_entity_ip_addresses: [CpPfcpEntityIpAddress] = O,
    }

    /// UE IP Address Pool Information (7.4.4.1-3).
    UeIpAddressPoolInformation = 233 {
        /// The pools.
        ue_ip_address_pool_identities: [UeIpAddressPoolIdentity] = M,
        /// Of which network.
        network_instance: NetworkInstance = O,
        /// Of which slices.
        s_nssais: [SNssai] = O,
    }

    /// PFCP Session Change Info (7.4.7.1-2): sessions another control plane takes over.
    PfcpSessionChangeInfo = 290 {
        /// Sessions of these sets.
        pgw_c_fq_csids: [FqCsid] = C,
        /// Sessions of these groups.
        group_ids: [GroupId] = C,
        /// Sessions of these control planes.
        cp_ip_addresses: [CpIpAddress] = C,
        /// Who takes over.
        alternative_smf_ip_address: AlternativeSmfIpAddress = M,
    }
}
