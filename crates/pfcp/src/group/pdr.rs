//! Packet detection rules and traffic endpoints: which packets are meant.

use crate::ie::*;

groups! {
    /// Create PDR (7.5.2.2).
    CreatePdr = 1 {
        /// Unique in the session.
        pdr_id: PdrId = M,
        /// Which PDR is looked at first. Mandatory in the standard's words, left out by SGW-Cs, whose PDRs don't overlap.
        precedence: Precedence = C,
        /// Which packets.
        pdi: Pdi = M,
        /// What to take off.
        outer_header_removal: OuterHeaderRemoval = C,
        /// What to do with them, unless predefined rules or a MAR say so.
        far_id: FarId = C,
        /// How to measure them.
        urr_ids: [UrrId] = C,
        /// How to treat them.
        qer_ids: [QerId] = C,
        /// Rules of the user plane to go by.
        activate_predefined_rules: [ActivatePredefinedRules] = C,
        /// From when.
        activation_time: ActivationTime = O,
        /// Until when.
        deactivation_time: DeactivationTime = O,
        /// From which pools to choose the subscriber's address: IPv4 first.
        ue_ip_address_pool_ids: [UeIpAddressPoolIdentity] = O,
    }

    /// PDI (7.5.2.2-2): packet detection information.
    Pdi = 2 {
        /// Where packets come from.
        source_interface: SourceInterface = M,
        /// By which tunnel.
        local_f_teid: FTeid = O,
        /// In which network.
        network_instance: NetworkInstance = O,
        /// From or to which subscriber's address; several with IP6PL.
        ue_ip_addresses: [UeIpAddress] = O,
        /// By which traffic endpoints, instead of the above.
        traffic_endpoint_ids: [TrafficEndpointId] = C,
        /// Which flows: any of these.
        sdf_filters: [SdfFilter] = O,
        /// Which application.
        application_id: ApplicationId = O,
        /// All frames of the session, which is of Ethernet.
        ethernet_pdu_session_information: EthernetPduSessionInformation = O,
        /// Which QoS flows: any of these.
        qfis: [Qfi] = O,
        /// IPv4 networks behind the subscriber.
        framed_routes: [FramedRoute] = O,
        /// How these are announced.
        framed_routing: FramedRouting = O,
        /// IPv6 networks behind the subscriber.
        framed_ip6_routes: [FramedIp6Route] = O,
        /// Which reference point the source interface is.
        source_interface_type: TgppInterfaceType = O,
    }

    /// Created PDR (7.5.3.2): what the user plane chose.
    CreatedPdr = 8 {
        /// The PDR.
        pdr_id: PdrId = M,
        /// The F-TEID it got.
        local_f_teid: FTeid = C,
        /// The subscriber's addresses it got.
        ue_ip_addresses: [UeIpAddress] = C,
    }

    /// Updated PDR (7.5.5.5): what the user plane chose.
    UpdatedPdr = 256 {
        /// The PDR.
        pdr_id: PdrId = M,
        /// The F-TEID it got.
        local_f_teid: FTeid = C,
        /// The subscriber's addresses it got.
        ue_ip_addresses: [UeIpAddress] = C,
    }

    /// Update PDR (7.5.4.2): what is not here stays.
    UpdatePdr = 9 {
        /// The PDR.
        pdr_id: PdrId = M,
        /// What to take off.
        outer_header_removal: OuterHeaderRemoval = C,
        /// Which PDR is looked at first.
        precedence: Precedence = C,
        /// Which packets. Peers send parts of it and mean the rest to stay.
        pdi: Pdi = C,
        /// What to do with them.
        far_id: FarId = C,
        /// All URRs, if any are here.
        urr_ids: [UrrId] = C,
        /// All QERs, if any are here.
        qer_ids: [QerId] = C,
        /// Rules of the user plane to go by from now on.
        activate_predefined_rules: [ActivatePredefinedRules] = C,
        /// Rules of the user plane no longer to go by.
        deactivate_predefined_rules: [DeactivatePredefinedRules] = C,
        /// From when.
        activation_time: ActivationTime = O,
        /// Until when.
        deactivation_time: DeactivationTime = O,
    }

    /// Remove PDR (7.5.4.6).
    RemovePdr = 15 {
        /// The PDR.
        pdr_id: PdrId = M,
    }

    /// Create Traffic Endpoint (7.5.2.7): a tunnel or address several PDRs share.
    CreateTrafficEndpoint = 127 {
        /// Unique in the session.
        traffic_endpoint_id: TrafficEndpointId = M,
        /// The tunnel.
        local_f_teid: FTeid = O,
        /// The network.
        network_instance: NetworkInstance = O,
        /// The subscriber's addresses.
        ue_ip_addresses: [UeIpAddress] = O,
        /// All frames of the session, which is of Ethernet.
        ethernet_pdu_session_information: EthernetPduSessionInformation = O,
        /// IPv4 networks behind the subscriber.
        framed_routes: [FramedRoute] = O,
        /// How these are announced.
        framed_routing: FramedRouting = O,
        /// IPv6 networks behind the subscriber.
        framed_ip6_routes: [FramedIp6Route] = O,
        /// Which QoS flows: any of these.
        qfis: [Qfi] = O,
        /// Which reference point the source interface is.
        source_interface_type: TgppInterfaceType = O,
    }

    /// Created Traffic Endpoint (7.5.3.5): what the user plane chose.
    CreatedTrafficEndpoint = 128 {
        /// The traffic endpoint.
        traffic_endpoint_id: TrafficEndpointId = M,
        /// The F-TEID it got.
        local_f_teid: FTeid = C,
        /// The subscriber's addresses it got.
        ue_ip_addresses: [UeIpAddress] = C,
    }

    /// Update Traffic Endpoint (7.5.4.13): what is not here stays.
    UpdateTrafficEndpoint = 129 {
        /// The traffic endpoint.
        traffic_endpoint_id: TrafficEndpointId = M,
        /// The tunnel.
        local_f_teid: FTeid = C,
        /// The network.
        network_instance: NetworkInstance = O,
        /// The subscriber's addresses.
        ue_ip_addresses: [UeIpAddress] = C,
        /// IPv4 networks behind the subscriber.
        framed_routes: [FramedRoute] = C,
        /// How these are announced.
        framed_routing: FramedRouting = C,
        /// IPv6 networks behind the subscriber.
        framed_ip6_routes: [FramedIp6Route] = C,
        /// Which QoS flows: any of these.
        qfis: [Qfi] = C,
        /// Which reference point the source interface is.
        source_interface_type: TgppInterfaceType = C,
    }

    /// Remove Traffic Endpoint (7.5.4.14): PDRs that refer to it go too.
    RemoveTrafficEndpoint = 130 {
        /// The traffic endpoint.
        traffic_endpoint_id: TrafficEndpointId = M,
    }
}
