//! What nodes can do, and flags of messages.

flags! {
    /// UP Function Features (8.2.25).
    UpFunctionFeatures(u64) = 43, 2 octets {
        /// Downlink data is buffered by the control plane.
        BUCP = 0,
        /// Downlink Data Notification Delay.
        DDND = 1,
        /// DL Buffering Duration.
        DLBD = 2,
        /// Traffic steering.
        TRST = 3,
        /// The user plane allocates F-TEIDs.
        FTUP = 4,
        /// PFD management.
        PFDM = 5,
        /// Header enrichment of uplink traffic.
        HEEU = 6,
        /// Traffic redirection.
        TREU = 7,
        /// End marker packets are made by the user plane.
        EMPU = 8,
        /// PDI optimisation: traffic endpoints.
        PDIU = 9,
        /// Control of how much downlink data is buffered.
        UDBC = 10,
        /// Quota action: a FAR for when the quota is used up.
        QUOAC = 11,
        /// Tracing.
        TRACE = 12,
        /// Framed routes.
        FRRT = 13,
        /// PFDs with several contents of a property.
        PFDE = 14,
        /// Enhanced association release.
        EPFAR = 15,
        /// Deferred activation and deactivation of PDRs.
        DPDRA = 16,
        /// Activation and deactivation of predefined PDRs.
        ADPDP = 17,
        /// The user plane allocates UE IP addresses.
        UEIP = 18,
        /// Sessions successively controlled by SMFs of a set.
        SSET = 19,
        /// Measurement of the number of packets.
        MNOP = 20,
        /// Several traffic endpoint IDs in a PDI.
        MTE = 21,
        /// Bundling of messages.
        BUNDL = 22,
        /// 5G LAN group communication.
        GCOM = 23,
        /// Several associations to the SMFs of a set.
        MPAS = 24,
        /// Redundant transmission at the transport layer.
        RTTL = 25,
        /// Quota validity time.
        VTIME = 26,
        /// Number of reports.
        NORP = 27,
        /// IP multicast.
        IPTV = 28,
        /// UE IP addresses with other prefix lengths, or several.
        IP6PL = 29,
        /// Time sensitive communication.
        TSCU = 30,
        /// MPTCP proxy.
        MPTCP = 31,
        /// ATSSS low-layer steering.
        ATSSS_LL = 32,
        /// Per QoS flow monitoring.
        QFQM = 33,
        /// Per GTP-U path monitoring.
        GPQM = 34,
        /// Mobile terminated early data.
        MT_EDT = 35,
        /// CIoT.
        CIOT = 36,
        /// Ethernet PDU session anchor relocation.
        ETHAR = 37,
        /// Downlink data delivery status.
        DDDS = 38,
        /// Reliable data service.
        RDS = 39,
        /// RTT measurement towards the UE.
        RTTWP = 40,
        /// Quota of several usage measurements.
        QUASF = 41,
        /// Notifying start and pause of charging.
        NSPOC = 42,
        /// L2TP.
        L2TP = 43,
        /// Uplink packets are buffered.
        UPBER = 44,
        /// Restoration of sessions per SMF, set or instance.
        RESPS = 45,
        /// Replacement of addresses and ports.
        IPREP = 46,
        /// DNS snooping.
        DNSTS = 47,
        /// Direct reporting of QoS monitoring events.
        DRQOS = 48,
        /// MBS sessions by N4.
        MBSN4 = 49,
        /// Per slice usage reporting.
        PSUPRM = 50,
        /// Paging policy by mapping from DSCP.
        EPPPI = 51,
    }

    /// CP Function Features (8.2.58).
    CpFunctionFeatures(u16) = 89, 1 octets {
        /// Load control.
        LOAD = 0,
        /// Overload control.
        OVRL = 1,
        /// Enhanced association release.
        EPFAR = 2,
        /// Sessions successively controlled by SMFs of a set.
        SSET = 3,
        /// Bundling of messages.
        BUNDL = 4,
        /// Several associations.
        MPAS = 5,
        /// Additional usage reports in the deletion response.
        ARDR = 6,
        /// UE IP address usage reporting.
        UIAUR = 7,
        /// Session establishment retried with partial success.
        PSUCC = 8,
        /// Reports of GTP-U peers that have restarted.
        RPGUR = 9,
    }

    /// PFCPSMReq-Flags (8.2.31), of a session modification or of Update Forwarding Parameters.
    PfcpSmReqFlags(u8) = 49, 1 octets {
        /// Drop what is buffered.
        DROBU = 0,
        /// Send End Marker packets to the old tunnel.
        SNDEM = 1,
        /// Report the usage of all URRs.
        QAURR = 2,
        /// Stop measuring, keep the quotas (suspend).
        SUMPC = 3,
        /// Measure again (resume).
        RUMUC = 4,
        /// Delete all other tunnels' endpoints.
        DETEID = 5,
    }

    /// PFCPSRRsp-Flags (8.2.32), of a session report's response.
    PfcpSrRspFlags(u8) = 50, 1 octets {
        /// Drop what is buffered.
        DROBU = 0,
    }

    /// PFCPSRReq-Flags (8.2.119), of a session report.
    PfcpSrReqFlags(u8) = 161, 1 octets {
        /// The session is deleted at the user plane.
        PSDBU = 0,
    }

    /// PFCPSEReq-Flags (8.2.136), of a session establishment.
    PfcpSeReqFlags(u8) = 186, 1 octets {
        /// The session is restored with the F-TEIDs and addresses it had.
        RESTI = 0,
        /// Start with measurement suspended.
        SUMPC = 1,
    }

    /// PFCPSDRsp-Flags (8.2.226), of a session deletion's response.
    PfcpSdRspFlags(u8) = 318, 1 octets {
        /// Usage reports follow in Session Report Requests.
        PURU = 0,
    }

    /// PFCPASReq-Flags (8.2.172), of an association setup.
    PfcpAsReqFlags(u8) = 259, 1 octets {
        /// The peer reports usage of UE IP addresses.
        UUPSI = 0,
    }

    /// PFCPASRsp-Flags (8.2.134), of an association setup's response.
    PfcpAsRspFlags(u8) = 184, 1 octets {
        /// The sessions of before are kept.
        PSREI = 0,
        /// Usage of UE IP addresses is reported.
        UUPSI = 1,
    }

    /// PFCPAUReq-Flags (8.2.120), of an association update.
    PfcpAuReqFlags(u8) = 162, 1 octets {
        /// The association will be released; the user plane reports what it has not yet reported.
        PARPS = 0,
    }

    /// PFCP Association Release Request (8.2.77): the user plane asks to be released.
    PfcpAssociationReleaseRequest(u8) = 111, 1 octets {
        /// Release asked for.
        SARR = 0,
        /// Usage not yet reported is still to be sent.
        URSS = 1,
    }

    /// OCI Flags (8.2.76), of overload control information.
    OciFlags(u8) = 110, 1 octets {
        /// The overload belongs to the node, not to a session's peer alone.
        AOCI = 0,
    }

    /// Node Report Type (8.2.68).
    NodeReportType(u8) = 101, 1 octets {
        /// User plane path failure.
        UPFR = 0,
        /// User plane path recovery.
        UPRR = 1,
        /// Clock drift.
        CKDR = 2,
        /// GTP-U path quality.
        GPQR = 3,
        /// A peer has restarted.
        PURR = 4,
        /// Vendor specific.
        VSR = 5,
    }

    /// Report Type (8.2.21), of a session report.
    ReportType(u8) = 39, 1 octets {
        /// Downlink data.
        DLDR = 0,
        /// Usage.
        USAR = 1,
        /// Error indication.
        ERIR = 2,
        /// User plane inactivity.
        UPIR = 3,
        /// Time sensitive communication management.
        TMIR = 4,
        /// Session report.
        SESR = 5,
        /// The session is deleted by the user plane.
        UISR = 6,
    }
}
