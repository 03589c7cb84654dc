//! A user plane whose control planes say anything, while packets come and time passes.
//!
//! The bytes are a script of messages that are nearly as they should be, from three control planes: so that what is behind
//! the PFCP node is reached (rules, their compilation, workers), which bytes alone are refused long before. Whatever they
//! are, nothing panics; control and its worker have the same sessions; nobody's message changes another's session; packets
//! and their memory are accounted for. Included by `fuzz/targets/n4_sessions.rs` and by `crates/upf/tests/n4_fuzzed.rs`,
//! which replays what fuzzing found on the stable compiler.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use pfcp::control::{Kind, Profile, Session};
use pfcp::group::*;
use pfcp::ie::*;
use pfcp::message::*;
use pfcp::{Header, Packet};
use wire::Teid;

use crate::golden_cases::{GNB, Over, from_gnb, from_router, request, response};
use crate::n4_bench::{Bench, access};

const MORE: &str = r#"
n4.pool = [{ v4 = "10.45.0.0/28", v6 = "2001:db8:60::/60" }]
n4.sessions_per_peer = 12
n4.policy = [{ name = "video", dscp = 34 }]
n4.predefined = [
  { name = "own", filters = ["permit out 17 from 198.51.100.0/24 to assigned"], usage = { id = 1, volume_threshold = 500 } },
  { name = "page", filters = ["permit out 6 from any to assigned"], action = "redirect", page = "http://portal.example/" },
]
"#;
const FLOWS: [&str; 6] = [
    "permit out ip from any to assigned",
    "permit out 17 from 198.51.100.7 50000 to assigned",
    "permit out 17 from 198.51.100.0/24 to assigned 40000-40010",
    "permit out 6 from any 80,443 to assigned",
    "permit in 17 from assigned to any",
    "permit everything",
];
/// Messages of a script at most: longer ones find nothing that shorter ones do not.
const STEPS: usize = 200;

/// A script being read. At its end it yields zeros.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    fn maybe<T>(&mut self, some: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.byte() & 1 == 1).then(|| some(self))
    }

    fn few<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = [0, 0, 0, 1, 1, 2, 3, 0][self.below(8)];
        (0..count).map(|_| one(self)).collect()
    }

    fn id(&mut self) -> u16 {
        1 + self.below(6) as u16
    }

    fn ue(&mut self) -> Ipv4Addr {
        Ipv4Addr::new(10, 45, 0, 1 + self.below(16) as u8)
    }

    fn small(&mut self) -> u64 {
        [0, 1, 60, 100, 1000, 1 << 20, u64::from(u32::MAX), u64::MAX][self.below(8)]
    }

    fn seconds(&mut self) -> u32 {
        [0, 1, 2, 5, 10, 60, 3600, u32::MAX][self.below(8)]
    }

    fn filter(&mut self) -> SdfFilter {
        let flow = self.pick(&FLOWS);
        let id = self.maybe(|s| u32::from(s.id()));
        match self.below(6) {
            0 => SdfFilter { id, ..SdfFilter::default() },
            1 => SdfFilter { spi: Some(7), id, ..SdfFilter::default() },
            2 => SdfFilter { traffic_class: Some([0x10, 0xfc]), ..SdfFilter::flow(flow) },
            _ => SdfFilter { id, ..SdfFilter::flow(flow) },
        }
    }

    fn f_teid(&mut self) -> FTeid {
        match self.below(4) {
            0 => FTeid::new(Teid(self.byte().into()), IpAddr::from([10, 0, 3, 1])),
            1 => FTeid::Choose { ip4: true, ip6: true, id: None },
            _ => FTeid::Choose { ip4: true, ip6: false, id: self.maybe(|s| s.byte() % 4) },
        }
    }

    fn ue_address(&mut self) -> UeIpAddress {
        let destination = self.byte() & 1 == 1;
        match self.below(4) {
            0 => UeIpAddress { destination, choose_ip4: true, ..UeIpAddress::default() },
            1 => UeIpAddress { destination, choose_ip6: true, ..UeIpAddress::default() },
            _ => UeIpAddress { destination, ip4: Some(self.ue()), ..UeIpAddress::default() },
        }
    }

    fn header(&mut self) -> OuterHeaderCreation {
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

    fn source(&mut self) -> SourceInterface {
        self.pick(&[
            SourceInterface::Access,
            SourceInterface::Core,
            SourceInterface::CpFunction,
            SourceInterface::Access,
        ])
    }

    fn destination(&mut self) -> DestinationInterface {
        use DestinationInterface::{Access, Core, CpFunction};
        self.pick(&[Access, Core, CpFunction, Core])
    }

    fn instance(&mut self) -> NetworkInstance {
        NetworkInstance::from(self.pick(&["internet", "access", "core", "nowhere"]))
    }

    fn pdi(&mut self) -> Pdi {
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

    fn pdr(&mut self) -> CreatePdr {
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

    fn action(&mut self) -> ApplyAction {
        use ApplyAction as A;
        let all =
            [A::FORW, A::DROP, A::BUFF, A::BUFF | A::NOCP, A::FORW | A::DUPL, A::FORW | A::DROP, A::NOCP, A::FORW];
        self.pick(&all)
    }

    fn far(&mut self) -> CreateFar {
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

    fn qer(&mut self) -> CreateQer {
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

    fn urr(&mut self) -> CreateUrr {
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

    fn bar(&mut self) -> CreateBar {
        CreateBar {
            bar_id: BarId(self.id() as u8),
            downlink_data_notification_delay: self.maybe(|s| DownlinkDataNotificationDelay(s.byte() % 4)),
            suggested_buffering_packets_count: self.maybe(|s| SuggestedBufferingPacketsCount(s.byte() % 4)),
            ..CreateBar::default()
        }
    }

    fn endpoint(&mut self) -> CreateTrafficEndpoint {
        CreateTrafficEndpoint {
            traffic_endpoint_id: TrafficEndpointId(self.id() as u8),
            local_f_teid: self.maybe(Self::f_teid),
            ue_ip_addresses: self.few(Self::ue_address),
            ..CreateTrafficEndpoint::default()
        }
    }

    /// What a control plane asks for, with some of it changed.
    fn establishment(&mut self, peer: &Peer) -> SessionEstablishmentRequest {
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

    fn modification(&mut self) -> SessionModificationRequest {
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
    fn node_message(&mut self, peer: &Peer) -> Message {
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

/// A control plane.
struct Peer {
    at: SocketAddr,
    seids: Vec<u64>,
    /// Requests of the user plane that it has not answered.
    asked: Vec<Packet>,
    sequence: u32,
}

/// A session's number, whose it is (by number of association) and how it is kept.
type Kept = (u64, u32, u64, Vec<u8>);

struct Scene<'a> {
    script: Script<'a>,
    bench: Bench,
    peers: [Peer; 3],
    teids: Vec<u32>,
    now: u64,
}

/// Runs the script.
///
/// # Panics
/// When a promise is broken.
pub fn n4_sessions(bytes: &[u8]) {
    let peer = |last: u8| Peer {
        at: SocketAddr::from(([10, 0, 4, last], pfcp::PORT)),
        seids: Vec::new(),
        asked: Vec::new(),
        sequence: 0,
    };
    let mut all = Scene {
        script: Script(bytes),
        bench: Bench::without_peer(MORE),
        peers: [peer(9), peer(10), peer(11)],
        teids: Vec::new(),
        now: 1,
    };
    for peer in 0..3 {
        let node_id = NodeId::from(all.peers[peer].at.ip());
        let recovery_time_stamp = RecoveryTimeStamp::from_unix(1_700_000_000);
        let set_up = AssociationSetupRequest { node_id, recovery_time_stamp, ..Default::default() };
        all.say(peer, None, set_up.into());
    }
    for _ in 0..STEPS {
        if all.script.0.is_empty() {
            break;
        }
        all.step();
        assert_eq!(all.bench.sessions().book().len(), all.bench.worker_sessions(), "control and worker differ");
    }
    // Whatever waits is given up after this, and what is reported is heard by nobody.
    all.now += 100_000_000_000;
    all.bench.turn_to(all.now);
    assert_eq!(all.bench.sessions().book().len(), all.bench.worker_sessions(), "control and worker differ");
    all.bench.close();
}

impl Scene<'_> {
    fn step(&mut self) {
        let peer = self.script.below(3);
        match self.script.byte() % 16 {
            0..4 => {
                let message = self.script.establishment(&self.peers[peer]);
                self.say(peer, Some(0), message.into());
            }
            4..8 => {
                let seid = self.seid(peer);
                let message = self.script.modification();
                self.say(peer, Some(seid), message.into());
            }
            8 => {
                let seid = self.seid(peer);
                self.say(peer, Some(seid), SessionDeletionRequest::default().into());
            }
            9 => {
                let message = self.script.node_message(&self.peers[peer]);
                self.say(peer, None, message);
            }
            10 => self.answer(peer),
            11 => {
                self.now += [1_000_000, 60_000_000, 1_000_000_000, 7_000_000_000][self.script.below(4)];
                self.bench.turn_to(self.now);
                self.hear();
            }
            12..14 => {
                let teid = self.script.pick(&[&self.teids[..], &[0x77]].concat());
                let user = request(self.script.ue());
                self.bench.send("n3", &from_gnb(Over::V4).gtpu(teid).container_up(9).carrying(&user).build());
                self.hear();
            }
            _ => {
                let user = response(self.script.ue());
                self.bench.send("n6", &from_router(&user).build());
                self.hear();
            }
        }
        // What leaves is looked at by other tests; here it must only not pile up.
        self.teids.truncate(64);
        for port in ["n3", "n6"] {
            self.bench.received(port);
        }
    }

    /// A session of this control plane, mostly.
    fn seid(&mut self, peer: usize) -> u64 {
        let whose = if self.script.once_in(8) { self.script.below(3) } else { peer };
        self.script.pick(&[&self.peers[whose].seids[..], &[1]].concat())
    }

    /// Answers a request of the user plane.
    fn answer(&mut self, peer: usize) {
        let Some(asked) = self.peers[peer].asked.pop() else { return };
        let cause =
            self.script.pick(&[Cause::REQUEST_ACCEPTED, Cause::REQUEST_ACCEPTED, Cause::SESSION_CONTEXT_NOT_FOUND]);
        let message: Message = match asked.message {
            Message::SessionReportRequest(_) => SessionReportResponse {
                cause,
                pfcp_sr_rsp_flags: self.script.maybe(|_| PfcpSrRspFlags::DROBU),
                update_bar: self.script.maybe(|s| UpdateBarInReportResponse {
                    bar_id: BarId(s.id() as u8),
                    downlink_data_notification_delay: s.maybe(|s| DownlinkDataNotificationDelay(s.byte() % 4)),
                    ..UpdateBarInReportResponse::default()
                }),
                ..SessionReportResponse::default()
            }
            .into(),
            Message::NodeReportRequest(_) => {
                NodeReportResponse { node_id: NodeId::from(self.peers[peer].at.ip()), cause, ..Default::default() }
                    .into()
            }
            Message::HeartbeatRequest(_) => HeartbeatResponse {
                recovery_time_stamp: RecoveryTimeStamp::from_unix(1_700_000_000),
                ..Default::default()
            }
            .into(),
            _ => return,
        };
        let seid = asked.header.seid.map(|_| 1);
        let packet = Packet { header: Header { seid, ..asked.header }, message };
        self.datagram(peer, packet.to_vec().unwrap_or_default());
    }

    fn say(&mut self, peer: usize, seid: Option<u64>, message: Message) {
        let sequence = &mut self.peers[peer].sequence;
        *sequence += 1;
        let header = Header { seid, ..Header::node(*sequence) };
        // Rules may be more than a message holds.
        let Ok(mut octets) = (Packet { header, message }).to_vec() else { return };
        if self.script.once_in(12) {
            for _ in 0..=self.script.below(3) {
                let at = (usize::from(self.script.byte()) << 8 | usize::from(self.script.byte())) % octets.len();
                octets[at] = self.script.byte();
            }
        }
        self.datagram(peer, octets);
    }

    /// Hands a datagram in. Sessions of other control planes are as before.
    fn datagram(&mut self, peer: usize, octets: Vec<u8>) {
        let before = self.kept();
        let from = self.peers[peer].at;
        let own = self.association(from);
        let sent = self.bench.datagram_from(from, &octets);
        let mine = |kept: &&Kept| Some(kept.1) == own;
        let after = self.kept();
        for kept in before.iter().filter(|kept| !mine(kept)) {
            // Sessions of an association that is over end without anybody's message.
            let is_over = !self.bench.is_associated(kept.1);
            assert!(is_over || after.contains(kept), "a message of {from} changed a session of another");
        }
        for packet in sent {
            self.sent(packet);
        }
        self.hear();
    }

    fn association(&self, at: SocketAddr) -> Option<u32> {
        self.bench.associations().find(|(_, address)| address.ip() == at.ip()).map(|(id, _)| id)
    }

    /// The sessions as control keeps them.
    fn kept(&self) -> Vec<Kept> {
        let book = self.bench.sessions().book();
        let one = |(number, entry): (u32, &upf::n4::book::Entry)| {
            (book.seid(number).unwrap_or(0), entry.peer, entry.cp_seid, entry.message().to_vec())
        };
        book.iter().map(one).collect()
    }

    fn hear(&mut self) {
        for packet in self.bench.unasked() {
            self.sent(packet);
        }
    }

    /// Takes note of what the user plane says.
    fn sent(&mut self, packet: Packet) {
        if packet.message.is_request() {
            // Which of them it went to is told by the session; any will do.
            let peer = packet.header.sequence as usize % 3;
            self.peers[peer].asked.push(packet);
            return;
        }
        if let Message::SessionEstablishmentResponse(response) = packet.message {
            let f_teids = response.created_pdrs.iter().filter_map(|created| created.local_f_teid);
            self.teids.extend(f_teids.filter_map(|f_teid| match f_teid {
                FTeid::Given { teid, .. } => Some(teid.0),
                FTeid::Choose { .. } => None,
            }));
            let Some(FSeid { seid, .. }) = response.up_f_seid else { return };
            let owner =
                self.bench.sessions().book().find(seid).and_then(|number| self.bench.sessions().book().get(number));
            let address = owner.and_then(|entry| self.bench.associations().find(|(id, _)| *id == entry.peer));
            let peer = self.peers.iter_mut().find(|peer| address.is_some_and(|(_, at)| at.ip() == peer.at.ip()));
            peer.into_iter().for_each(|peer| peer.seids.push(seid));
        }
    }
}
