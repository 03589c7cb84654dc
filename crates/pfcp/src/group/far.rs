//! Forwarding action rules and buffering action rules: what becomes of packets.

use crate::ie::*;

groups! {
    /// Create FAR (7.5.2.3).
    CreateFar = 3 {
        /// Unique in the session.
        far_id: FarId = M,
        /// What to do.
        apply_action: ApplyAction = M,
        /// Where to.
        forwarding_parameters: ForwardingParameters = C when |far| far.apply_action.contains(ApplyAction::FORW),
        /// Where else to.
        duplicating_parameters: [DuplicatingParameters] = C when |far| far.apply_action.contains(ApplyAction::DUPL),
        /// How to buffer.
        bar_id: BarId = O,
    }

    /// Forwarding Parameters (7.5.2.3-2).
    ForwardingParameters = 4 {
        /// Where packets go.
        destination_interface: DestinationInterface = M,
        /// In which network.
        network_instance: NetworkInstance = O,
        /// To whom instead.
        redirect_information: RedirectInformation = C,
        /// What to put before them.
        outer_header_creation: OuterHeaderCreation = C,
        /// How to mark them.
        transport_level_marking: TransportLevelMarking = C,
        /// By which policy of the user plane.
        forwarding_policy: ForwardingPolicy = C,
        /// What to add to HTTP requests.
        header_enrichment: HeaderEnrichment = O,
        /// The traffic endpoint of the other direction.
        linked_traffic_endpoint_id: TrafficEndpointId = C,
        /// Which reference point the destination interface is.
        destination_interface_type: TgppInterfaceType = O,
        /// By which local data network.
        data_network_access_identifier: DataNetworkAccessIdentifier = C,
    }

    /// Duplicating Parameters (7.5.2.3-3).
    DuplicatingParameters = 5 {
        /// Where copies go.
        destination_interface: DestinationInterface = M,
        /// What to put before them.
        outer_header_creation: OuterHeaderCreation = C,
        /// How to mark them.
        transport_level_marking: TransportLevelMarking = C,
        /// By which policy of the user plane.
        forwarding_policy: ForwardingPolicy = C,
    }

    /// Update FAR (7.5.4.3): what is not here stays.
    UpdateFar = 10 {
        /// The FAR.
        far_id: FarId = M,
        /// What to do.
        apply_action: ApplyAction = C,
        /// Where to.
        update_forwarding_parameters: UpdateForwardingParameters = C,
        /// Where else to.
        update_duplicating_parameters: [UpdateDuplicatingParameters] = C,
        /// How to buffer.
        bar_id: BarId = C,
    }

    /// Update Forwarding Parameters (7.5.4.3-2).
    UpdateForwardingParameters = 11 {
        /// Where packets go.
        destination_interface: DestinationInterface = C,
        /// In which network.
        network_instance: NetworkInstance = C,
        /// To whom instead.
        redirect_information: RedirectInformation = C,
        /// What to put before them.
        outer_header_creation: OuterHeaderCreation = C,
        /// How to mark them.
        transport_level_marking: TransportLevelMarking = C,
        /// By which policy of the user plane.
        forwarding_policy: ForwardingPolicy = C,
        /// What to add to HTTP requests.
        header_enrichment: HeaderEnrichment = C,
        /// Whether the old tunnel gets an End Marker.
        pfcp_sm_req_flags: PfcpSmReqFlags = C,
        /// The traffic endpoint of the other direction.
        linked_traffic_endpoint_id: TrafficEndpointId = C,
        /// Which reference point the destination interface is.
        destination_interface_type: TgppInterfaceType = C,
        /// By which local data network.
        data_network_access_identifier: DataNetworkAccessIdentifier = C,
    }

    /// Update Duplicating Parameters (7.5.4.3-3).
    UpdateDuplicatingParameters = 105 {
        /// Where copies go.
        destination_interface: DestinationInterface = C,
        /// What to put before them.
        outer_header_creation: OuterHeaderCreation = C,
        /// How to mark them.
        transport_level_marking: TransportLevelMarking = C,
        /// By which policy of the user plane.
        forwarding_policy: ForwardingPolicy = C,
    }

    /// Remove FAR (7.5.4.7).
    RemoveFar = 16 {
        /// The FAR.
        far_id: FarId = M,
    }

    /// Create BAR (7.5.2.6): how to buffer.
    CreateBar = 85 {
        /// Unique in the session.
        bar_id: BarId = M,
        /// How long to wait before telling the control plane.
        downlink_data_notification_delay: DownlinkDataNotificationDelay = C,
        /// How many packets to keep.
        suggested_buffering_packets_count: SuggestedBufferingPacketsCount = C,
    }

    /// Update BAR in a session modification (7.5.4.11).
    UpdateBar = 86 {
        /// The BAR.
        bar_id: BarId = M,
        /// How long to wait before telling the control plane.
        downlink_data_notification_delay: DownlinkDataNotificationDelay = C,
        /// How many packets to keep.
        suggested_buffering_packets_count: SuggestedBufferingPacketsCount = C,
    }

    /// Update BAR in a session report's response (7.5.9.2).
    UpdateBarInReportResponse = 12 {
        /// The BAR.
        bar_id: BarId = M,
        /// How long to wait before telling the control plane.
        downlink_data_notification_delay: DownlinkDataNotificationDelay = C,
        /// How long to buffer.
        dl_buffering_duration: DlBufferingDuration = C,
        /// How many packets to keep meanwhile.
        dl_buffering_suggested_packet_count: DlBufferingSuggestedPacketCount = O,
        /// How many packets to keep.
        suggested_buffering_packets_count: SuggestedBufferingPacketsCount = C,
    }

    /// Remove BAR (7.5.4.12).
    RemoveBar = 87 {
        /// The BAR.
        bar_id: BarId = M,
    }
}
