//! A script of messages to a user plane: bytes as sessions, rules and changes that are nearly as they should be.

use std::net::{IpAddr, Ipv4Addr};

use pfcp::control::{Kind, Profile, Session};
use pfcp::group::*;
use pfcp::ie::*;
use pfcp::message::*;
use wire::Teid;

use super::Peer;
use crate::golden_cases::GNB;
use crate::n4_bench::access;

const FLOWS: [&str; 6] = [
    "permit out ip from any to assigned",
    "permit out 17 from 198.51.100.7 50000 to assigned",
    "permit out 17 from 198.51.100.0/24 to assigned 40000-40010",
    "permit out 6 from any 80,443 to assigned",
    "permit in 17 from assigned to any",
    "permit everything",
];

/// A script being read. At its end it yields zeros.
pub struct Script<'a>(pub &'a [u8]);

impl Script<'_> {
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    pub fn maybe<T>(&mut self, some: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() & 1 == 1).then(|| some(self))
    }

    pub fn few<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = [0, 0, 0, 1, 1, 2, 3, 0][self.below(8)];
        (0..count).map(|_| one(self)).collect()
    }

    pub fn id(&mut self) -> u16 {
        1 + self.below(6) as u16
    }

    pub fn ue(&mut self) -> Ipv4Addr {
        Ipv4Addr::new(10, 45, 0, 1 + self.below(16) as u8)
    }

    pub fn small(&mut self) -> u64 {
        [0, 1, 60, 100, 1000, 1 << 20, u64::from(u32::MAX), u64::MAX][self.below(8)]
    }

    pub fn seconds(&mut self) -> u32 {
        [0, 1, 2, 5, 10, 60, 3600, u32::MAX][self.below(8)]
    }

    pub fn filter(&mut self) -> SdfFilter {
        let flow = self.pick(&FLOWS);
        let id = self.maybe(|s| u32::from(s.id()));
        match self.below(6) {
            0 => SdfFilter { id, ..SdfFilter::default() },
            1 => SdfFilter { spi: Some(7), id, ..SdfFilter::default() },
            2 => SdfFilter { traffic_class: Some([0x10, 0xfc]), ..SdfFilter::flow(flow) },
            _ => SdfFilter { id, ..SdfFilter::flow(flow) },
        }
    }

    pub fn f_teid(&mut self) -> FTeid {
        match self.below(4) {
            0 => FTeid::new(Teid(self.byte().into()), IpAddr::from([10, 0, 3, 1])),
            1 => FTeid::Choose { ip4: true, ip6: true, id: None },
            _ => FTeid::Choose { ip4: true, ip6: false, id: self.maybe(|s| s.byte() % 4) },
        }
    }

    pub fn ue_address(&mut self) -> UeIpAddress {
        let destination = self.byte() & 1 == 1;
        match self.below(4) {
            0 => UeIpAddress { destination, choose_ip4: true, ..UeIpAddress::default() },
            1 => UeIpAddress { destination, choose_ip6: true, ..UeIpAddress::default() },
            _ => UeIpAddress { destination, ip4: Some(self.ue()), ..UeIpAddress::default() },
        }
    }

    pub fn header(&mut self) -> OuterHeaderCreation {
        let to = Ipv4Addr::new(10, 0, 3, 100 + self.below(3) as u8);
        let description = self.pick(&[0x0100, 0x0100, 0x0100, 0x0200, 0x0400, 0x1000, 0x2000, 0x0300]);
        OuterHeaderCreation {
            description,
            teid: (description & 0x0300 != 0).then(|| Teid(self.byte().into())),
            ip4: (!self.once_in(8)).then_some(to),
            port: (description & 0x0c00 != 0).then_some(4000),
            ..OuterHeaderCreation::gtp_u(Teid(1), Some(to), None)
        }
    }

    pub fn source(&mut self) -> SourceInterface {
        self.pick(&[
            SourceInterface::Access,
            SourceInterface::Core,
            SourceInterface::CpFunction,
            SourceInterface::Access,
        ])
    }

    pub fn destination(&mut self) -> DestinationInterface {
        use DestinationInterface::{Access, Core, CpFunction};
        self.pick(&[Access, Core, CpFunction, Core])
    }

    pub fn instance(&mut self) -> NetworkInstance {
        NetworkInstance::from(self.pick(&["internet", "access", "core", "nowhere"]))
    }

    pub fn pdi(&mut self) -> Pdi {
        Pdi {
            source_interface: self.source(),
            local_f_teid: self.maybe(Self::f_teid),
            network_instance: self.maybe(Self::instance),
            ue_ip_addresses: self.few(Self::ue_address),
            traffic_endpoint_ids: self.few(|s| TrafficEndpointId(s.id() as u8)),
            sdf_filters: self.few(Self::filter),
            application_id: self.once_in(4).then(|| ApplicationId::from(self.pick(&["video", "chess"]))),
            qfis: self.few(|s| Qfi(s.byte() % 65)),
            framed_routes: self.few(|s| FramedRoute::from(s.pick(&["192.168.7.0/24", "192.168.0.0/16", "7"]))),
            ..Pdi::default()
        }
    }

    pub fn pdr(&mut self) -> CreatePdr {
        CreatePdr {
            pdr_id: PdrId(self.id()),
            precedence: self.maybe(|s| Precedence(s.byte().into())),
            pdi: self.pdi(),
            outer_header_removal: self.maybe(|_| OuterHeaderRemoval::GTP_U),
            far_id: self.maybe(|s| FarId(s.id().into())),
            urr_ids: self.few(|s| UrrId(s.id().into())),
            qer_ids: self.few(|s| QerId(s.id().into())),
            activate_predefined_rules: self.few(|s| ActivatePredefinedRules::from(s.pick(&["own", "page", "none"]))),
            activation_time: self.once_in(8).then(|| ActivationTime::from_unix(1_700_000_000 + u64::from(self.byte()))),
            deactivation_time: self
                .once_in(8)
                .then(|| DeactivationTime::from_unix(1_700_000_000 + u64::from(self.byte()))),
            ..CreatePdr::default()
        }
    }

    pub fn action(&mut self) -> ApplyAction {
        use ApplyAction as A;
        let all =
            [A::FORW, A::DROP, A::BUFF, A::BUFF | A::NOCP, A::FORW | A::DUPL, A::FORW | A::DROP, A::NOCP, A::FORW];
        self.pick(&all)
    }

    pub fn far(&mut self) -> CreateFar {
        let parameters = |s: &mut Self| ForwardingParameters {
            destination_interface: s.destination(),
            network_instance: s.maybe(Self::instance),
            outer_header_creation: s.maybe(Self::header),
            transport_level_marking: s.maybe(|s| TransportLevelMarking::dscp(s.byte() % 64)),
            forwarding_policy: s.once_in(6).then(|| ForwardingPolicy(s.pick(&["video", "none"]).into())),
            linked_traffic_endpoint_id: s.once_in(6).then(|| TrafficEndpointId(s.id() as u8)),
            redirect_information: s.once_in(6).then(|| RedirectInformation {
                kind: s.byte() % 5,
                address: s.pick(&["http://portal.example/", "x", ""]).into(),
                other_address: None,
            }),
            ..ForwardingParameters::default()
        };
        let duplicates = |s: &mut Self| DuplicatingParameters {
            destination_interface: s.destination(),
            outer_header_creation: s.maybe(Self::header),
            ..DuplicatingParameters::default()
        };
        CreateFar {
            far_id: FarId(self.id().into()),
            apply_action: self.action(),
            forwarding_parameters: self.maybe(parameters),
            duplicating_parameters: self.few(duplicates),
            bar_id: self.maybe(|s| BarId(s.id() as u8)),
            ..CreateFar::default()
        }
    }

    pub fn qer(&mut self) -> CreateQer {
        let rate = |s: &mut Self| [0, 1, 64, 1000, 1 << 39][s.below(5)];
        CreateQer {
            qer_id: QerId(self.id().into()),
            gate_status: GateStatus { uplink_closed: self.once_in(4), downlink_closed: self.once_in(4) },
            maximum_bitrate: self.maybe(|s| Mbr { uplink: rate(s), downlink: rate(s) }),
            guaranteed_bitrate: self.once_in(4).then(|| Gbr { uplink: rate(self), downlink: rate(self) }),
            qfi: self.maybe(|s| Qfi(s.byte() % 65)),
            ..CreateQer::default()
        }
    }

    pub fn urr(&mut self) -> CreateUrr {
        use {MeasurementMethod as M, ReportingTriggers as R};
        let methods = [M::VOLUM, M::DURAT, M::VOLUM | M::DURAT, M::EVENT, M::VOLUM | M::EVENT];
        let triggers = [
            R::VOLTH,
            R::VOLQU,
            R::TIMTH,
            R::TIMQU,
            R::PERIO,
            R::START,
            R::STOPT,
            R::LIUSA,
            R::QUHTI,
            R::EVETH,
            R::EVEQU,
        ];
        let mut chosen = self.pick(&triggers) | self.pick(&triggers);
        if self.once_in(4) {
            chosen |= self.pick(&triggers);
        }
        CreateUrr {
            urr_id: UrrId(self.id().into()),
            measurement_method: self.pick(&methods),
            reporting_triggers: chosen,
            measurement_period: self.maybe(|s| MeasurementPeriod(s.seconds())),
            volume_threshold: self.maybe(|s| VolumeThreshold::total(s.small())),
            volume_quota: self.maybe(|s| VolumeQuota::total(s.small())),
            time_threshold: self.maybe(|s| TimeThreshold(s.seconds())),
            time_quota: self.maybe(|s| TimeQuota(s.seconds())),
            event_threshold: self.maybe(|s| EventThreshold(s.seconds())),
            event_quota: self.maybe(|s| EventQuota(s.seconds())),
            quota_holding_time: self.once_in(4).then(|| QuotaHoldingTime(self.seconds())),
            inactivity_detection_time: self.maybe(|s| InactivityDetectionTime(s.seconds())),
            linked_urr_ids: self.few(|s| LinkedUrrId(s.id().into())),
            far_id_for_quota_action: self.once_in(4).then(|| FarId(self.id().into())),
            monitoring_time: self.once_in(4).then(|| MonitoringTime::from_unix(1_700_000_000 + u64::from(self.byte()))),
            ..CreateUrr::default()
        }
    }

    pub fn bar(&mut self) -> CreateBar {
        CreateBar {
            bar_id: BarId(self.id() as u8),
            downlink_data_notification_delay: self.maybe(|s| DownlinkDataNotificationDelay(s.byte() % 4)),
            suggested_buffering_packets_count: self.maybe(|s| SuggestedBufferingPacketsCount(s.byte() % 4)),
            ..CreateBar::default()
        }
    }

    pub fn endpoint(&mut self) -> CreateTrafficEndpoint {
        CreateTrafficEndpoint {
            traffic_endpoint_id: TrafficEndpointId(self.id() as u8),
            local_f_teid: self.maybe(Self::f_teid),
            ue_ip_addresses: self.few(Self::ue_address),
            ..CreateTrafficEndpoint::default()
        }
    }

    /// What a control plane asks for, with some of it changed.
    pub fn establishment(&mut self, peer: &Peer) -> SessionEstablishmentRequest {
        let profile = Profile {
            kind: self.pick(&[Kind::Smf, Kind::Smf, Kind::PgwC, Kind::SgwC]),
            dnn: "internet".into(),
            qfi: Some(Qfi(9)),
            volume_threshold: self.maybe(|s| s.small().max(1)),
            volume_quota: self.once_in(4).then(|| self.small()),
            measurement_period: self.once_in(4).then(|| self.seconds().max(1)),
            inactivity_timer: self.once_in(6).then(|| self.seconds()),
            maximum_bitrate: self.maybe(|_| Mbr { uplink: 1000, downlink: 1000 }),
            control_tunnel: self.once_in(6).then(|| access(GNB, 0x99)),
            ..Profile::default()
        };
        let session = Session {
            cp_seid: self.below(8) as u64,
            ip4: (!self.once_in(4)).then(|| self.ue()),
            access: self.maybe(|_| access(GNB, 0x77)),
            core: Some(access(Ipv4Addr::new(10, 0, 3, 101), 0x55)),
            ..Session::default()
        };
        let mut asked = session.establish(&profile, &NodeId::from(peer.at.ip()), peer.at.ip());
        asked.fq_csids = self.few(|s| FqCsid::new(peer.at.ip(), &[s.byte().into(), 7][..1 + s.below(2)]));
        asked.create_pdrs.extend(self.few(Self::pdr));
        asked.create_fars.extend(self.few(Self::far));
        asked.create_qers.extend(self.few(Self::qer));
        asked.create_urrs.extend(self.few(Self::urr));
        asked.create_traffic_endpoints.extend(self.few(Self::endpoint));
        if self.once_in(4) {
            asked.create_bar = Some(self.bar());
        }
        if self.once_in(3) {
            let (pdr, far) = (self.pdr(), self.far());
            let at = self.below(asked.create_pdrs.len());
            match self.below(6) {
                0 => drop(asked.create_pdrs.pop()),
                1 => drop(asked.create_fars.pop()),
                2 => asked.create_pdrs[at].pdi = pdr.pdi,
                3 => asked.create_pdrs[at] = pdr,
                4 => asked.create_fars[0] = far,
                _ => asked.create_pdrs[at].pdi.sdf_filters = pdr.pdi.sdf_filters,
            }
        }
        asked
    }

    pub fn modification(&mut self) -> SessionModificationRequest {
        let update_pdr = |s: &mut Self| {
            let pdr = s.pdr();
            UpdatePdr {
                pdr_id: pdr.pdr_id,
                precedence: pdr.precedence,
                pdi: s.maybe(|_| pdr.pdi),
                far_id: pdr.far_id,
                urr_ids: pdr.urr_ids,
                qer_ids: pdr.qer_ids,
                activate_predefined_rules: pdr.activate_predefined_rules,
                deactivate_predefined_rules: s
                    .few(|s| DeactivatePredefinedRules::from(s.pick(&["own", "page", "none"]))),
                ..UpdatePdr::default()
            }
        };
        let update_far = |s: &mut Self| UpdateFar {
            far_id: FarId(s.id().into()),
            apply_action: s.maybe(Self::action),
            update_forwarding_parameters: s.maybe(|s| UpdateForwardingParameters {
                destination_interface: s.maybe(Self::destination),
                outer_header_creation: s.maybe(Self::header),
                pfcp_sm_req_flags: s.once_in(3).then_some(PfcpSmReqFlags::SNDEM),
                ..UpdateForwardingParameters::default()
            }),
            bar_id: s.once_in(4).then(|| BarId(s.id() as u8)),
            ..UpdateFar::default()
        };
        let update_qer = |s: &mut Self| {
            let qer = s.qer();
            UpdateQer {
                qer_id: qer.qer_id,
                gate_status: s.maybe(|_| qer.gate_status),
                maximum_bitrate: qer.maximum_bitrate,
                qfi: qer.qfi,
                ..UpdateQer::default()
            }
        };
        let update_urr = |s: &mut Self| {
            let urr = s.urr();
            UpdateUrr {
                urr_id: urr.urr_id,
                measurement_method: s.maybe(|_| urr.measurement_method),
                reporting_triggers: s.maybe(|_| urr.reporting_triggers),
                measurement_period: urr.measurement_period,
                volume_threshold: urr.volume_threshold,
                volume_quota: urr.volume_quota,
                time_quota: urr.time_quota,
                event_quota: urr.event_quota,
                linked_urr_ids: urr.linked_urr_ids,
                ..UpdateUrr::default()
            }
        };
        let flags = [PfcpSmReqFlags::QAURR, PfcpSmReqFlags::DROBU, PfcpSmReqFlags::DROBU | PfcpSmReqFlags::QAURR];
        SessionModificationRequest {
            remove_pdrs: self.few(|s| RemovePdr { pdr_id: PdrId(s.id()), ..RemovePdr::default() }),
            remove_fars: self.few(|s| RemoveFar { far_id: FarId(s.id().into()), ..RemoveFar::default() }),
            remove_urrs: self.few(|s| RemoveUrr { urr_id: UrrId(s.id().into()), ..RemoveUrr::default() }),
            remove_qers: self.few(|s| RemoveQer { qer_id: QerId(s.id().into()), ..RemoveQer::default() }),
            remove_traffic_endpoints: self.few(|s| RemoveTrafficEndpoint {
                traffic_endpoint_id: TrafficEndpointId(s.id() as u8),
                ..RemoveTrafficEndpoint::default()
            }),
            create_pdrs: self.few(Self::pdr),
            create_fars: self.few(Self::far),
            create_urrs: self.few(Self::urr),
            create_qers: self.few(Self::qer),
            create_traffic_endpoints: self.few(Self::endpoint),
            update_pdrs: self.few(update_pdr),
            update_fars: self.few(update_far),
            update_urrs: self.few(update_urr),
            update_qers: self.few(update_qer),
            query_urrs: self.few(|s| QueryUrr { urr_id: UrrId(s.id().into()), ..QueryUrr::default() }),
            pfcp_sm_req_flags: self.once_in(3).then(|| self.pick(&flags)),
            user_plane_inactivity_timer: self.once_in(6).then(|| UserPlaneInactivityTimer(self.seconds())),
            ..SessionModificationRequest::default()
        }
    }

    /// A message about no session.
    pub fn node_message(&mut self, peer: &Peer) -> Message {
        let node_id = NodeId::from(peer.at.ip());
        let recovery_time_stamp = RecoveryTimeStamp::from_unix(1_700_000_000 + u64::from(self.once_in(8)));
        match self.below(7) {
            0 => HeartbeatRequest { recovery_time_stamp, ..Default::default() }.into(),
            1 => AssociationSetupRequest { node_id, recovery_time_stamp, ..Default::default() }.into(),
            2 => AssociationUpdateRequest { node_id, ..Default::default() }.into(),
            3 => AssociationReleaseRequest { node_id, ..Default::default() }.into(),
            4 => {
                let fq_csids = self.few(|s| FqCsid::new(peer.at.ip(), &[s.byte().into(), 7]));
                SessionSetDeletionRequest { node_id, fq_csids, ..Default::default() }.into()
            }
            _ => {
                let application = |s: &mut Self| ApplicationIdsPfds {
                    application_id: ApplicationId::from(s.pick(&["video", "chess"])),
                    pfd_contexts: s.few(|s| PfdContext {
                        pfd_contents: s.few(|s| PfdContents {
                            flow_description: s.maybe(|s| s.pick(&FLOWS).into()),
                            ..PfdContents::default()
                        }),
                        ..PfdContext::default()
                    }),
                    ..ApplicationIdsPfds::default()
                };
                PfdManagementRequest { application_ids_pfds: self.few(application), ..Default::default() }.into()
            }
        }
    }
}
