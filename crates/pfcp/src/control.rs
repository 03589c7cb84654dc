//! The other side: what a control plane says over the life of a session, for simulations and tests.
//!
//! A [`Profile`] says what sessions are like, a [`Session`] is one of them and knows what to say next. Both only make
//! and read messages; [`node`](crate::node) carries them.

use crate::group::*;
use crate::ie::*;
use crate::message::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::Teid;

/// Which control plane is played: the rules follow what real ones of the kind send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// SMF, to a UPF by N4: tunnels carry QoS flows.
    #[default]
    Smf,
    /// PGW-C, to a PGW-U by Sxb: the subscriber's address is matched uplink too.
    PgwC,
    /// SGW-C, to an SGW-U by Sxa: tunnel to tunnel, no precedence.
    SgwC,
}

/// What the sessions of a simulation have in common.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Which control plane is played.
    pub kind: Kind,
    /// The data network; also the network instance of the core side.
    pub dnn: Box<str>,
    /// The network instance of the access side, if it has one of its own.
    pub access_instance: Option<Box<str>>,
    /// The control plane chooses the F-TEIDs; else the user plane chooses.
    pub own_teids: Option<OwnTeids>,
    /// The most that passes.
    pub maximum_bitrate: Option<Mbr>,
    /// What passes for sure.
    pub guaranteed_bitrate: Option<Gbr>,
    /// The QoS flow.
    pub qfi: Option<Qfi>,
    /// Usage is reported after so many octets.
    pub volume_threshold: Option<u64>,
    /// No more octets than that may pass.
    pub volume_quota: Option<u64>,
    /// Usage is reported so often, in seconds.
    pub measurement_period: Option<u32>,
    /// Usage is reported after so many events, which are measured then.
    pub event_threshold: Option<u32>,
    /// After so many seconds without a packet traffic counts as stopped: the next one is an event.
    pub inactivity_detection: Option<u32>,
    /// Where the control plane takes part in user traffic (router solicitations and advertisements), if it does.
    pub control_tunnel: Option<OuterHeaderCreation>,
    /// After so many seconds without a packet the session is reported.
    pub inactivity_timer: Option<u32>,
}

/// Tunnels at the user plane by formula, for control planes that give them out themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTeids {
    /// The user plane's address for them.
    pub address: IpAddr,
    /// The first session's, for packets of the subscriber; the next session has the next. A session's other tunnel, if
    /// it has one, differs from it in the highest bit.
    pub first: u32,
}

/// The numbers of a session's rules.
mod rule {
    use crate::ie::*;

    pub const DOWNLINK: (PdrId, FarId) = (PdrId(1), FarId(1));
    pub const UPLINK: (PdrId, FarId) = (PdrId(2), FarId(2));
    pub const FROM_CONTROL: (PdrId, FarId) = (PdrId(3), FarId(1));
    pub const SOLICITATION: (PdrId, FarId) = (PdrId(4), FarId(3));
    pub const URR: UrrId = UrrId(1);
    pub const QER: QerId = QerId(1);
    pub const BAR: BarId = BarId(1);
    /// F-TEIDs with the same are the same.
    pub const CHOOSE: [u8; 2] = [1, 5];
}

/// A session as its control plane knows it.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// Its number at the control plane, from 1.
    pub cp_seid: u64,
    /// The subscriber's IPv4 address.
    pub ip4: Option<Ipv4Addr>,
    /// The subscriber's IPv6 prefix, of 64 bits.
    pub ip6: Option<Ipv6Addr>,
    /// Where packets to the subscriber go: the gNB's or eNB's tunnel. `None` while the subscriber is idle.
    pub access: Option<OuterHeaderCreation>,
    /// Where packets of the subscriber go, for an SGW-C: the PGW's tunnel.
    pub core: Option<OuterHeaderCreation>,
    /// The session at the user plane, once it is there.
    pub up_f_seid: Option<FSeid>,
    /// The tunnel packets of the subscriber come by, once it is known.
    pub uplink_f_teid: Option<FTeid>,
    /// The tunnel packets to the subscriber come by, for an SGW-C, or from the control plane.
    pub downlink_f_teid: Option<FTeid>,
}

impl Session {
    /// The request that brings the session up, from a control plane that is `node` and has `address`.
    pub fn establish(&self, profile: &Profile, node: &NodeId, address: IpAddr) -> SessionEstablishmentRequest {
        let mut create_pdrs = vec![self.downlink_pdr(profile), self.uplink_pdr(profile)];
        let mut create_fars = vec![self.access_far(profile), self.core_far(profile)];
        if let Some(tunnel) = profile.control_tunnel {
            create_pdrs.extend([self.control_pdr(profile), self.solicitation_pdr(profile)]);
            create_fars.push(CreateFar {
                far_id: rule::SOLICITATION.1,
                apply_action: ApplyAction::FORW,
                forwarding_parameters: Some(ForwardingParameters {
                    destination_interface: DestinationInterface::CpFunction,
                    outer_header_creation: Some(tunnel),
                    ..Default::default()
                }),
                ..Default::default()
            });
        }
        SessionEstablishmentRequest {
            node_id: node.clone(),
            cp_f_seid: FSeid::new(self.cp_seid, address),
            create_pdrs,
            create_fars,
            create_urrs: profile.urr().into_iter().collect(),
            create_qers: profile.qer().into_iter().collect(),
            create_bar: Some(CreateBar { bar_id: rule::BAR, ..Default::default() }),
            pdn_type: (profile.kind != Kind::SgwC).then_some(match (self.ip4, self.ip6) {
                (Some(_), Some(_)) => PdnType::Ip4v6,
                (None, Some(_)) => PdnType::Ip6,
                _ => PdnType::Ip4,
            }),
            user_plane_inactivity_timer: profile.inactivity_timer.map(UserPlaneInactivityTimer),
            apn_dnn: Some(ApnDnn::from(&*profile.dnn)),
            ..Default::default()
        }
    }

    /// Notes what the user plane chose.
    ///
    /// # Errors
    /// Why it refused.
    pub fn established(&mut self, response: &SessionEstablishmentResponse) -> Result<(), Cause> {
        if !response.cause.is_acceptance() {
            return Err(response.cause);
        }
        self.up_f_seid = response.up_f_seid;
        for created in &response.created_pdrs {
            if created.pdr_id == rule::UPLINK.0 {
                self.uplink_f_teid = created.local_f_teid.or(self.uplink_f_teid);
            } else if [rule::DOWNLINK.0, rule::FROM_CONTROL.0].contains(&created.pdr_id) {
                self.downlink_f_teid = created.local_f_teid.or(self.downlink_f_teid);
            }
            for address in &created.ue_ip_addresses {
                self.ip4 = address.ip4.or(self.ip4);
                self.ip6 = address.ip6.or(self.ip6);
            }
        }
        Ok(())
    }

    /// The subscriber is reached by this tunnel from now on: it attaches, wakes up or moves.
    ///
    /// When it moves, the old tunnel gets an End Marker.
    pub fn connect(&mut self, access: OuterHeaderCreation) -> SessionModificationRequest {
        let moves = self.access.replace(access).is_some();
        change_access(UpdateFar {
            far_id: rule::DOWNLINK.1,
            apply_action: Some(ApplyAction::FORW),
            update_forwarding_parameters: Some(UpdateForwardingParameters {
                destination_interface: Some(DestinationInterface::Access),
                outer_header_creation: Some(access),
                pfcp_sm_req_flags: moves.then_some(PfcpSmReqFlags::SNDEM),
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    /// The subscriber sleeps: packets to it are kept, and the first is to be told.
    pub fn idle(&mut self) -> SessionModificationRequest {
        self.access = None;
        change_access(UpdateFar {
            far_id: rule::DOWNLINK.1,
            apply_action: Some(ApplyAction::BUFF | ApplyAction::NOCP),
            bar_id: Some(rule::BAR),
            ..Default::default()
        })
    }

    /// Report usage now.
    pub fn query(&self) -> SessionModificationRequest {
        SessionModificationRequest {
            query_urrs: vec![QueryUrr { urr_id: rule::URR, ..Default::default() }],
            ..Default::default()
        }
    }

    /// From now on so much passes, in a session whose profile has a rate or a QoS flow.
    pub fn limit(&self, maximum_bitrate: Mbr) -> SessionModificationRequest {
        let qer = UpdateQer { qer_id: rule::QER, maximum_bitrate: Some(maximum_bitrate), ..Default::default() };
        SessionModificationRequest { update_qers: vec![qer], ..Default::default() }
    }

    /// So many octets more may pass, in a session whose profile has a quota.
    pub fn grant(&self, octets: u64) -> SessionModificationRequest {
        let volume_quota = Some(VolumeQuota::total(octets));
        let urr = UpdateUrr { urr_id: rule::URR, volume_quota, ..Default::default() };
        SessionModificationRequest { update_urrs: vec![urr], ..Default::default() }
    }

    fn downlink_pdr(&self, profile: &Profile) -> CreatePdr {
        let to_tunnel = profile.kind == Kind::SgwC;
        let mut pdr = profile.pdr(rule::DOWNLINK, SourceInterface::Core, to_tunnel);
        pdr.pdi.network_instance = Some(NetworkInstance::from(&*profile.dnn));
        if to_tunnel {
            pdr.pdi.local_f_teid = Some(self.f_teid(profile, 0));
        } else {
            pdr.pdi.ue_ip_addresses = self.ue_ip_address(true);
        }
        pdr
    }

    fn uplink_pdr(&self, profile: &Profile) -> CreatePdr {
        let mut pdr = profile.pdr(rule::UPLINK, SourceInterface::Access, true);
        pdr.pdi.local_f_teid = Some(self.f_teid(profile, 1));
        pdr.pdi.network_instance = profile.access_instance();
        pdr.pdi.qfis = profile.qfi.filter(|_| profile.kind == Kind::Smf).into_iter().collect();
        if profile.kind == Kind::PgwC {
            pdr.pdi.ue_ip_addresses = self.ue_ip_address(false);
        }
        pdr
    }

    fn control_pdr(&self, profile: &Profile) -> CreatePdr {
        let mut pdr = profile.pdr(rule::FROM_CONTROL, SourceInterface::CpFunction, true);
        pdr.pdi.local_f_teid = Some(self.f_teid(profile, 0));
        pdr
    }

    /// Router solicitations come by the same tunnel as all else, and are looked at first.
    fn solicitation_pdr(&self, profile: &Profile) -> CreatePdr {
        let mut pdr = self.uplink_pdr(profile);
        (pdr.pdr_id, pdr.far_id) = (rule::SOLICITATION.0, Some(rule::SOLICITATION.1));
        pdr.precedence = Some(Precedence(1));
        pdr.outer_header_removal = None;
        (pdr.urr_ids, pdr.qer_ids) = (Vec::new(), Vec::new());
        pdr.pdi.ue_ip_addresses.clear();
        pdr.pdi.sdf_filters = vec![SdfFilter::flow("permit out 58 from ff02::2/128 to assigned")];
        pdr
    }

    fn access_far(&self, profile: &Profile) -> CreateFar {
        CreateFar {
            far_id: rule::DOWNLINK.1,
            apply_action: match self.access {
                Some(_) => ApplyAction::FORW,
                None => ApplyAction::BUFF | ApplyAction::NOCP,
            },
            forwarding_parameters: Some(ForwardingParameters {
                destination_interface: DestinationInterface::Access,
                network_instance: profile.access_instance(),
                outer_header_creation: self.access,
                ..Default::default()
            }),
            bar_id: self.access.is_none().then_some(rule::BAR),
            ..Default::default()
        }
    }

    fn core_far(&self, profile: &Profile) -> CreateFar {
        CreateFar {
            far_id: rule::UPLINK.1,
            apply_action: ApplyAction::FORW,
            forwarding_parameters: Some(ForwardingParameters {
                destination_interface: DestinationInterface::Core,
                network_instance: Some(NetworkInstance::from(&*profile.dnn)),
                outer_header_creation: self.core,
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// The subscriber's addresses, or the wish for one.
    fn ue_ip_address(&self, destination: bool) -> Vec<UeIpAddress> {
        let choose_ip4 = self.ip4.is_none() && self.ip6.is_none();
        vec![UeIpAddress { destination, ip4: self.ip4, ip6: self.ip6, choose_ip4, ..Default::default() }]
    }

    /// One of the session's two tunnels.
    fn f_teid(&self, profile: &Profile, which: usize) -> FTeid {
        match profile.own_teids {
            Some(OwnTeids { address, first }) => {
                // Numbers of 32 bits, counted from 1; which is 1 for the uplink.
                let nth = first.wrapping_add(self.cp_seid as u32).wrapping_sub(1);
                FTeid::new(Teid(if which == 1 { nth } else { nth ^ 1 << 31 }), address)
            }
            None => FTeid::Choose { ip4: true, ip6: false, id: Some(rule::CHOOSE[which]) },
        }
    }
}

impl Profile {
    fn pdr(&self, (pdr_id, far_id): (PdrId, FarId), source_interface: SourceInterface, tunnel: bool) -> CreatePdr {
        CreatePdr {
            pdr_id,
            precedence: (self.kind != Kind::SgwC).then_some(Precedence(255)),
            pdi: Pdi { source_interface, ..Default::default() },
            outer_header_removal: tunnel.then_some(match self.own_teids {
                Some(OwnTeids { address: IpAddr::V6(_), .. }) => OuterHeaderRemoval::GTP_U_IP6,
                // Chosen tunnels are of IPv4, too.
                _ => OuterHeaderRemoval::GTP_U_IP4,
            }),
            far_id: Some(far_id),
            urr_ids: self.urr().map(|urr| urr.urr_id).into_iter().collect(),
            qer_ids: self.qer().map(|qer| qer.qer_id).into_iter().collect(),
            ..Default::default()
        }
    }

    fn access_instance(&self) -> Option<NetworkInstance> {
        self.access_instance.as_deref().map(NetworkInstance::from)
    }

    fn urr(&self) -> Option<CreateUrr> {
        let when = |wanted: bool, trigger| if wanted { trigger } else { ReportingTriggers::NONE };
        let reporting_triggers = when(self.volume_threshold.is_some(), ReportingTriggers::VOLTH)
            | when(self.volume_quota.is_some(), ReportingTriggers::VOLQU)
            | when(self.event_threshold.is_some(), ReportingTriggers::EVETH)
            | when(self.measurement_period.is_some(), ReportingTriggers::PERIO);
        let measured = MeasurementMethod::VOLUM | MeasurementMethod::DURAT;
        (reporting_triggers != ReportingTriggers::NONE).then(|| CreateUrr {
            urr_id: rule::URR,
            measurement_method: self.event_threshold.map_or(measured, |_| measured | MeasurementMethod::EVENT),
            reporting_triggers,
            measurement_information: Some(MeasurementInformation::MNOP),
            measurement_period: self.measurement_period.map(MeasurementPeriod),
            volume_threshold: self.volume_threshold.map(VolumeThreshold::total),
            volume_quota: self.volume_quota.map(VolumeQuota::total),
            event_threshold: self.event_threshold.map(EventThreshold),
            inactivity_detection_time: self.inactivity_detection.map(InactivityDetectionTime),
            ..Default::default()
        })
    }

    fn qer(&self) -> Option<CreateQer> {
        let wanted = self.maximum_bitrate.is_some() || self.guaranteed_bitrate.is_some() || self.qfi.is_some();
        wanted.then(|| CreateQer {
            qer_id: rule::QER,
            maximum_bitrate: self.maximum_bitrate,
            guaranteed_bitrate: self.guaranteed_bitrate,
            qfi: self.qfi,
            ..Default::default()
        })
    }
}

fn change_access(far: UpdateFar) -> SessionModificationRequest {
    SessionModificationRequest { update_fars: vec![far], ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Packet};

    const UP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn what_a_control_plane_says_is_read_as_it_was_meant() {
        let tunnel = OuterHeaderCreation::gtp_u(Teid(1), Some(Ipv4Addr::new(192, 0, 2, 1)), None);
        for kind in [Kind::Smf, Kind::PgwC, Kind::SgwC] {
            let profile = Profile {
                kind,
                dnn: "internet".into(),
                maximum_bitrate: Some(Mbr { uplink: 1000, downlink: 1000 }),
                volume_threshold: Some(1 << 20),
                control_tunnel: (kind == Kind::Smf).then_some(tunnel),
                ..Profile::default()
            };
            let session = Session { cp_seid: 7, ip4: Some(Ipv4Addr::new(10, 0, 0, 1)), ..Session::default() };
            let request = session.establish(&profile, &NodeId::default(), UP);
            let packet = Packet { header: Header::session(0, 1), message: request.into() };
            assert_eq!(Packet::parse(&packet.to_vec().expect("short")), Ok(packet));
        }
    }

    #[test]
    fn a_move_asks_for_an_end_marker_and_an_attachment_does_not() {
        let tunnel = |teid| OuterHeaderCreation::gtp_u(Teid(teid), Some(Ipv4Addr::new(192, 0, 2, 3)), None);
        let mut session = Session::default();
        let flags = |request: SessionModificationRequest| {
            let far = request.update_fars.into_iter().next().expect("a FAR");
            far.update_forwarding_parameters.and_then(|parameters| parameters.pfcp_sm_req_flags)
        };
        assert_eq!(flags(session.connect(tunnel(1))), None);
        assert_eq!(flags(session.connect(tunnel(2))), Some(PfcpSmReqFlags::SNDEM));
        session.idle();
        assert_eq!(flags(session.connect(tunnel(3))), None);
    }

    #[test]
    fn tunnels_by_formula_count_up_and_never_meet() {
        let own_teids = Some(OwnTeids { address: UP, first: 0x0100_0000 });
        let profile = Profile { kind: Kind::SgwC, own_teids, ..Profile::default() };
        let of = |cp_seid, which| Session { cp_seid, ..Session::default() }.f_teid(&profile, which);
        assert_eq!(of(1, 1), FTeid::new(Teid(0x0100_0000), UP));
        assert_eq!(of(8, 1), FTeid::new(Teid(0x0100_0007), UP));
        assert_eq!(of(8, 0), FTeid::new(Teid(0x8100_0007), UP));
    }

    #[test]
    fn what_the_user_plane_chose_is_noted() {
        let mut session = Session::default();
        let chosen = FTeid::new(Teid(9), UP);
        let response = SessionEstablishmentResponse {
            cause: Cause::REQUEST_ACCEPTED,
            up_f_seid: Some(FSeid::new(5, UP)),
            created_pdrs: vec![CreatedPdr { pdr_id: rule::UPLINK.0, local_f_teid: Some(chosen), ..Default::default() }],
            ..Default::default()
        };
        assert_eq!(session.established(&response), Ok(()));
        assert_eq!((session.uplink_f_teid, session.up_f_seid.map(|f_seid| f_seid.seid)), (Some(chosen), Some(5)));
        let refused = SessionEstablishmentResponse { cause: Cause::NO_RESOURCES_AVAILABLE, ..Default::default() };
        assert_eq!(session.established(&refused), Err(Cause::NO_RESOURCES_AVAILABLE));
    }
}
