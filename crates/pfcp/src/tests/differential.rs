//! The same octets, read and sent again by us and by another implementation, [`rs_pfcp`].

use super::Draw;
use crate::control::{Kind, Profile, Session};
use crate::ie::*;
use crate::{Element, Header, Message, Packet, Reader};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use wire::Teid;

/// An IE's content read and sent again; `None` if it is refused.
type Again = fn(&[u8]) -> Option<Vec<u8>>;

/// What that implementation sends comes in several kinds.
trait Octets {
    fn octets(self) -> Option<Vec<u8>>;
}

impl Octets for Vec<u8> {
    fn octets(self) -> Option<Vec<u8>> {
        Some(self)
    }
}

impl<const N: usize> Octets for [u8; N] {
    fn octets(self) -> Option<Vec<u8>> {
        Some(self.to_vec())
    }
}

impl<E> Octets for Result<Vec<u8>, E> {
    fn octets(self) -> Option<Vec<u8>> {
        self.ok()
    }
}

macro_rules! both {
    ($($ours:ident = $module:ident::$theirs:ident,)*) => {
        [$((
            stringify!($ours),
            (|octets| {
                let element = $ours::parse(&mut Reader::new(octets, &Cell::new(0))).ok()?;
                let mut out = Vec::new();
                element.emit(&mut out);
                Some(out)
            }) as Again,
            (|octets| rs_pfcp::ie::$module::$theirs::unmarshal(octets).ok()?.marshal().octets()) as Again,
        )),*]
    };
}

fn elements() -> impl Iterator<Item = (&'static str, Again, Again)> {
    both! {
    Cause = cause::Cause,
    SourceInterface = source_interface::SourceInterface,
    FTeid = f_teid::Fteid,
    NetworkInstance = network_instance::NetworkInstance,
    SdfFilter = sdf_filter::SdfFilter,
    ApplicationId = application_id::ApplicationId,
    GateStatus = gate_status::GateStatus,
    Mbr = mbr::Mbr,
    Gbr = gbr::Gbr,
    QerCorrelationId = qer_correlation_id::QerCorrelationId,
    Precedence = precedence::Precedence,
    TransportLevelMarking = transport_level_marking::TransportLevelMarking,
    VolumeThreshold = volume_threshold::VolumeThreshold,
    TimeThreshold = time_threshold::TimeThreshold,
    MonitoringTime = monitoring_time::MonitoringTime,
    SubsequentVolumeThreshold = subsequent_volume_threshold::SubsequentVolumeThreshold,
    SubsequentTimeThreshold = subsequent_time_threshold::SubsequentTimeThreshold,
    InactivityDetectionTime = inactivity_detection_time::InactivityDetectionTime,
    ReportingTriggers = reporting_triggers::ReportingTriggers,
    RedirectInformation = redirect_information::RedirectInformation,
    ReportType = report_type::ReportType,
    OffendingIe = offending_ie::OffendingIe,
    ForwardingPolicy = forwarding_policy::ForwardingPolicy,
    DestinationInterface = destination_interface::DestinationInterface,
    UpFunctionFeatures = up_function_features::UPFunctionFeatures,
    ApplyAction = apply_action::ApplyAction,
    DownlinkDataServiceInformation = downlink_data_service_information::DownlinkDataServiceInformation,
    DownlinkDataNotificationDelay = downlink_data_notification_delay::DownlinkDataNotificationDelay,
    DlBufferingDuration = dl_buffering_duration::DlBufferingDuration,
    DlBufferingSuggestedPacketCount = dl_buffering_suggested_packet_count::DlBufferingSuggestedPacketCount,
    PfcpSmReqFlags = pfcpsm_req_flags::PfcpsmReqFlags,
    PfcpSrRspFlags = pfcpsrrsp_flags::PfcpsrrspFlags,
    SequenceNumber = sequence_number::SequenceNumber,
    Metric = metric::Metric,
    Timer = timer::Timer,
    PdrId = pdr_id::PdrId,
    FSeid = fseid::Fseid,
    NodeId = node_id::NodeId,
    PfdContents = pfd_contents::PfdContents,
    MeasurementMethod = measurement_method::MeasurementMethod,
    UsageReportTrigger = usage_report_trigger::UsageReportTrigger,
    MeasurementPeriod = measurement_period::MeasurementPeriod,
    VolumeMeasurement = volume_measurement::VolumeMeasurement,
    DurationMeasurement = duration_measurement::DurationMeasurement,
    TimeOfFirstPacket = time_of_first_packet::TimeOfFirstPacket,
    TimeOfLastPacket = time_of_last_packet::TimeOfLastPacket,
    QuotaHoldingTime = quota_holding_time::QuotaHoldingTime,
    DroppedDlTrafficThreshold = dropped_dl_traffic_threshold::DroppedDlTrafficThreshold,
    VolumeQuota = volume_quota::VolumeQuota,
    TimeQuota = time_quota::TimeQuota,
    StartTime = start_time::StartTime,
    EndTime = end_time::EndTime,
    UrrId = urr_id::UrrId,
    LinkedUrrId = linked_urr_id::LinkedUrrId,
    OuterHeaderCreation = outer_header_creation::OuterHeaderCreation,
    BarId = bar_id::BarId,
    CpFunctionFeatures = cp_function_features::CPFunctionFeatures,
    UsageInformation = usage_information::UsageInformation,
    ApplicationInstanceId = application_instance_id::ApplicationInstanceId,
    FlowInformation = flow_information::FlowInformation,
    UeIpAddress = ue_ip_address::UeIpAddress,
    PacketRate = packet_rate::PacketRate,
    OuterHeaderRemoval = outer_header_removal::OuterHeaderRemoval,
    RecoveryTimeStamp = recovery_time_stamp::RecoveryTimeStamp,
    DlFlowLevelMarking = dl_flow_level_marking::DlFlowLevelMarking,
    HeaderEnrichment = header_enrichment::HeaderEnrichment,
    MeasurementInformation = measurement_information::MeasurementInformation,
    NodeReportType = node_report_type::NodeReportType,
    RemoteGtpUPeer = remote_gtpu_peer::RemoteGtpuPeer,
    UrSeqn = ur_seqn::UrSeqn,
    ActivatePredefinedRules = activate_predefined_rules::ActivatePredefinedRules,
    DeactivatePredefinedRules = deactivate_predefined_rules::DeactivatePredefinedRules,
    FarId = far_id::FarId,
    QerId = qer_id::QerId,
    OciFlags = oci_flags::OciFlags,
    PfcpAssociationReleaseRequest = pfcp_association_release_request::PfcpAssociationReleaseRequest,
    GracefulReleasePeriod = graceful_release_period::GracefulReleasePeriod,
    PdnType = pdn_type::PdnType,
    FailedRuleId = failed_rule_id::FailedRuleId,
    TimeQuotaMechanism = time_quota_mechanism::TimeQuotaMechanism,
    UserPlaneInactivityTimer = user_plane_inactivity_timer::UserPlaneInactivityTimer,
    Multiplier = multiplier::Multiplier,
    AggregatedUrrId = aggregated_urr_id::AggregatedUrrId,
    SubsequentVolumeQuota = subsequent_volume_quota::SubsequentVolumeQuota,
    SubsequentTimeQuota = subsequent_time_quota::SubsequentTimeQuota,
    Rqi = rqi::Rqi,
    Qfi = qfi::Qfi,
    QueryUrrReference = query_urr_reference::QueryURRReference,
    AdditionalUsageReportsInformation = additional_usage_reports_information::AdditionalUsageReportsInformation,
    TrafficEndpointId = traffic_endpoint_id::TrafficEndpointId,
    SuggestedBufferingPacketsCount = suggested_buffering_packets_count::SuggestedBufferingPacketsCount,
    UserId = user_id::UserId,
    EthernetPduSessionInformation = ethernet_pdu_session_information::EthernetPduSessionInformation,
    EthernetInactivityTimer = ethernet_inactivity_timer::EthernetInactivityTimer,
    EventQuota = event_quota::EventQuota,
    EventThreshold = event_threshold::EventThreshold,
    SubsequentEventQuota = subsequent_event_quota::SubsequentEventQuota,
    SubsequentEventThreshold = subsequent_event_threshold::SubsequentEventThreshold,
    TraceInformation = trace_information::TraceInformation,
    FramedRoute = framed_route::FramedRoute,
    FramedRouting = framed_routing::FramedRouting,
    FramedIp6Route = framed_ipv6_route::FramedIpv6Route,
    EventTimeStamp = event_time_stamp::EventTimeStamp,
    AveragingWindow = averaging_window::AveragingWindow,
    PagingPolicyIndicator = paging_policy_indicator::PagingPolicyIndicator,
    ApnDnn = apn_dnn::ApnDnn,
    PfcpSrReqFlags = pfcpsr_req_flags::PfcpsrReqFlags,
    PfcpAuReqFlags = pfcpau_req_flags::PfcpauReqFlags,
    ActivationTime = activation_time::ActivationTime,
    DeactivationTime = deactivation_time::DeactivationTime,
    UeIpAddressPoolIdentity = ue_ip_address_pool_identity::UeIpAddressPoolIdentity,
    AlternativeSmfIpAddress = alternative_smf_ip_address::AlternativeSmfIpAddress,
    SmfSetId = smf_set_id::SmfSetId,
    QuotaValidityTime = quota_validity_time::QuotaValidityTime,
    NumberOfReports = number_of_reports::NumberOfReports,
    PfcpAsRspFlags = pfcpas_rsp_flags::PfcpasRspFlags,
    CpPfcpEntityIpAddress = cp_pfcp_entity_ip_address::CpPfcpEntityIpAddress,
    PfcpSeReqFlags = pfcpse_req_flags::PfcpseReqFlags,
    SourceIpAddress = source_ip_address::SourceIpAddress,
    PacketRateStatus = packet_rate_status::PacketRateStatus,
    DataNetworkAccessIdentifier = data_network_access_identifier::DataNetworkAccessIdentifier,
    QerControlIndications = qer_control_indications::QerControlIndications,
    NfInstanceId = nf_instance_id::NfInstanceId,
    SNssai = snssai::Snssai,
    PfcpAsReqFlags = pfcpas_req_flags::PfcpasReqFlags,
    DataStatus = data_status::DataStatus,
    OffendingIeInformation = offending_ie_information::OffendingIeInformation,
    RatType = rat_type::RatType,
    GroupId = group_id::GroupId,
    CpIpAddress = cp_ip_address::CpIpAddress,
    PredefinedRulesName = predefined_rules_name::PredefinedRulesName,
    PfcpSdRspFlags = pfcpsdrsp_flags::PfcpsdrspFlags,
    }
    .into_iter()
}

/// Where the other implementation reads something else, or nothing, in what we send, and why we stay with the standard.
const DIFFERENT: &[(&str, &[&str])] = &[
    (
        "bits for future use, which a receiver ignores: we keep them, they forget them",
        &[
            "Cause",
            "DataStatus",
            "GateStatus",
            "MeasurementMethod",
            "OciFlags",
            "OuterHeaderCreation",
            "PagingPolicyIndicator",
            "PfcpAsReqFlags",
            "PfcpAssociationReleaseRequest",
            "PfcpAuReqFlags",
            "PfcpSdRspFlags",
            "PfcpSeReqFlags",
            "PfcpSmReqFlags",
            "PfcpSrReqFlags",
            "PfcpSrRspFlags",
            "TransportLevelMarking",
        ],
    ),
    (
        "one octet by 8.2.28, 8.2.29, 8.2.35, 8.2.78 and 8.2.100, where they want more",
        &[
            "DownlinkDataNotificationDelay",
            "DlBufferingDuration",
            "Timer",
            "GracefulReleasePeriod",
            "SuggestedBufferingPacketsCount",
        ],
    ),
    ("two octets by 8.2.91, where they want one", &["AdditionalUsageReportsInformation"]),
    ("twelve octets by 8.2.84, where they want four", &["Multiplier"]),
    (
        "fields they don't have: QFI, extension header deletion, additional rates, a second address, SRR IDs of one octet",
        &["DownlinkDataServiceInformation", "OuterHeaderRemoval", "PacketRate", "RedirectInformation", "FailedRuleId"],
    ),
    (
        "parts that may each be there or not, where they want some of them",
        &[
            "AlternativeSmfIpAddress",
            "CpIpAddress",
            "CpPfcpEntityIpAddress",
            "DlFlowLevelMarking",
            "SdfFilter",
            "UeIpAddress",
        ],
    ),
    (
        "octets we don't look into, or text of any length, where they want something particular",
        &[
            "ApnDnn",
            "ApplicationId",
            "DataNetworkAccessIdentifier",
            "EthernetPduSessionInformation",
            "GroupId",
            "HeaderEnrichment",
            "NfInstanceId",
            "OffendingIeInformation",
            "PacketRateStatus",
            "PredefinedRulesName",
            "RemoteGtpUPeer",
            "SmfSetId",
            "TimeQuotaMechanism",
            "TraceInformation",
            "UeIpAddressPoolIdentity",
        ],
    ),
];

#[test]
fn what_we_send_means_the_same_elsewhere() {
    let mut found = BTreeMap::new();
    let mut draw = Draw::new(1, false);
    for (name, ours, theirs) in elements() {
        for sent in (0..3000).filter_map(|_| ours(&draw.octets(30))) {
            let again = theirs(&sent);
            if again.as_ref() != Some(&sent) {
                found.entry(name).or_insert((sent, again));
            }
        }
    }
    let named: BTreeSet<&str> = DIFFERENT.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    for (name, (sent, again)) in &found {
        assert!(named.contains(name), "{name}: we send {sent:02x?}, they {again:02x?}");
    }
    for name in named {
        assert!(found.contains_key(name), "{name} no longer differs");
    }
}

#[test]
fn what_a_control_plane_says_is_read_elsewhere() {
    for kind in [Kind::Smf, Kind::PgwC, Kind::SgwC] {
        let profile = Profile { kind, dnn: "internet".into(), volume_threshold: Some(1 << 20), ..Profile::default() };
        let mut session = Session { cp_seid: 7, ip4: Some(Ipv4Addr::new(10, 0, 0, 1)), ..Session::default() };
        let tunnel = OuterHeaderCreation::gtp_u(Teid(1), Some(Ipv4Addr::new(192, 0, 2, 3)), None);
        let said: [Message; 4] = [
            session.establish(&profile, &NodeId::default(), Ipv4Addr::LOCALHOST.into()).into(),
            session.connect(tunnel).into(),
            session.query().into(),
            session.idle().into(),
        ];
        for message in said {
            let octets = Packet { header: Header::session(9, 5), message }.to_vec().expect("short");
            let read = rs_pfcp::message::parse(&octets).expect("readable");
            assert_eq!((read.sequence().value(), read.marshal()), (5, octets));
        }
    }
}
