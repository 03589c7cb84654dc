//! Two nodes, and a network between them that loses what the test wants.

use super::*;
use crate::group::{CreateFar, CreatePdr};
use crate::ie::*;
use crate::message::*;
use std::time::Duration;

pub(super) const CP: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 8805);
pub(super) const OTHER: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 3)), 8805);
pub(super) const UP: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)), 8805);

pub(super) struct Pair {
    pub(super) cp: Node,
    pub(super) up: Node,
    pub(super) now: Time,
    /// Datagrams to the user plane, and to the control plane, that are lost from now on.
    pub(super) lose: [usize; 2],
    /// What the user plane said to others.
    pub(super) others: Vec<(SocketAddr, Packet)>,
}

impl Pair {
    pub(super) fn with(change: impl Fn(&mut Config)) -> Pair {
        let node = |address: SocketAddr, role| {
            let mut config = Config::new(address.ip().into(), role);
            change(&mut config);
            Node::new(config, RecoveryTimeStamp::from_unix(1_700_000_000))
        };
        Pair {
            cp: node(CP, Role::ControlPlane(CpFunctionFeatures::NONE)),
            up: node(UP, Role::UserPlane(UpFunctionFeatures::FTUP)),
            now: Time::from_secs(1000),
            lose: [0; 2],
            others: Vec::new(),
        }
    }

    pub(super) fn new() -> Pair {
        Pair::with(|_| {})
    }

    /// Exchanges datagrams until nobody says anything.
    pub(super) fn exchange(&mut self) {
        loop {
            let mut on_their_way = Vec::new();
            for (node, from) in [(&mut self.cp, CP), (&mut self.up, UP)] {
                node.drain(|to, octets| on_their_way.push((from, to, octets.to_vec())));
            }
            if on_their_way.is_empty() {
                return;
            }
            for (from, to, octets) in on_their_way {
                if to != UP && to != CP {
                    self.others.push((to, Packet::parse(&octets).expect("PFCP")));
                    continue;
                }
                let (node, lose) =
                    if to == UP { (&mut self.up, &mut self.lose[0]) } else { (&mut self.cp, &mut self.lose[1]) };
                if *lose > 0 {
                    *lose -= 1;
                } else {
                    node.receive(from, &octets, self.now);
                }
            }
        }
    }

    /// Lets time pass, second by second.
    pub(super) fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.cp.tick(self.now);
            self.up.tick(self.now);
            self.exchange();
        }
    }

    /// Anybody says something to the user plane, from whatever address.
    pub(super) fn say(&mut self, from: SocketAddr, sequence: u32, message: impl Into<Message>) {
        let message = message.into();
        let seid = message.is_session().then_some(0);
        let packet = Packet { header: Header { seid, ..Header::node(sequence) }, message };
        self.up.receive(from, &packet.to_vec().expect("short"), self.now);
        self.exchange();
    }

    pub(super) fn associate(&mut self) -> (AssociationId, AssociationId) {
        self.cp.associate(UP, self.now).expect("room");
        self.exchange();
        let (Some(Event::Up(at_cp)), Some(Event::Up(at_up))) = (self.cp.next_event(), self.up.next_event()) else {
            panic!("associated")
        };
        (at_cp, at_up)
    }
}

pub(super) fn establishment() -> SessionEstablishmentRequest {
    SessionEstablishmentRequest {
        node_id: CP.ip().into(),
        cp_f_seid: FSeid::new(7, CP.ip()),
        create_pdrs: vec![CreatePdr::default()],
        create_fars: vec![CreateFar { apply_action: ApplyAction::DROP, ..Default::default() }],
        ..Default::default()
    }
}

#[test]
fn an_association_is_set_up_and_released() {
    let mut pair = Pair::new();
    let (at_cp, at_up) = pair.associate();
    let up = pair.cp.association(at_cp).expect("there");
    assert_eq!((&up.node_id, up.up_function_features), (&UP.ip().into(), Some(UpFunctionFeatures::FTUP)));
    assert_eq!(pair.up.association(at_up).map(|cp| cp.address), Some(CP));
    pair.cp.release(at_cp, pair.now).expect("room");
    pair.exchange();
    assert!(matches!(pair.cp.next_event(), Some(Event::Gone(id, Removal::Released, _)) if id == at_cp));
    assert!(matches!(pair.up.next_event(), Some(Event::Gone(id, Removal::Released, _)) if id == at_up));
    assert_eq!((pair.cp.associations().count(), pair.up.associations().count()), (0, 0));
}

#[test]
fn a_request_is_carried_out_once_however_often_it_comes() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    pair.lose[1] = 1; // the first response
    pair.cp.request(UP, Some(0), establishment().into(), 42, pair.now).expect("room");
    pair.exchange();
    let Some(Event::Request { ticket, association, packet }) = pair.up.next_event() else { panic!("a request") };
    assert_eq!((association, packet.header.seid), (at_up, Some(0)));
    let response = SessionEstablishmentResponse {
        node_id: UP.ip().into(),
        cause: Cause::REQUEST_ACCEPTED,
        up_f_seid: Some(FSeid::new(9, UP.ip())),
        ..Default::default()
    };
    pair.up.respond(ticket, Some(7), response.into(), pair.now);
    pair.exchange();
    assert_eq!(pair.cp.next_event(), None);
    pair.wait(3);
    assert_eq!(pair.up.next_event(), None, "answered by what was kept");
    let Some(Event::Response { token: 42, packet }) = pair.cp.next_event() else { panic!("a response") };
    assert_eq!(packet.header.seid, Some(7));
    assert_eq!((pair.cp.counters().retransmitted, pair.up.counters().duplicates_answered), (1, 1));
}

#[test]
fn a_request_nobody_answers_fails_after_n1_times_t1() {
    let mut pair = Pair::with(|config| config.heartbeat_interval = None);
    pair.associate();
    pair.lose[0] = usize::MAX;
    pair.cp.request(UP, Some(9), SessionDeletionRequest::default().into(), 1, pair.now).expect("room");
    pair.exchange();
    assert_eq!(pair.cp.due_at(), Some(pair.now + Duration::from_secs(3)));
    pair.wait(8);
    assert_eq!(pair.cp.next_event(), None);
    pair.wait(1);
    assert_eq!(pair.cp.next_event(), Some(Event::Failed { token: 1, why: Failure::NoAnswer }));
    assert_eq!((pair.cp.counters().retransmitted, pair.cp.due_at()), (2, None));
}

#[test]
fn who_has_no_association_is_told_so() {
    let mut pair = Pair::new();
    pair.cp.request(UP, Some(0), establishment().into(), 1, pair.now).expect("room");
    pair.exchange();
    assert_eq!(pair.up.next_event(), None);
    let Some(Event::Response { packet, .. }) = pair.cp.next_event() else { panic!("a response") };
    let Message::SessionEstablishmentResponse(response) = packet.message else { panic!("an establishment's") };
    assert_eq!((response.cause, packet.header.seid), (Cause::NO_ESTABLISHED_PFCP_ASSOCIATION, Some(7)));
}

#[test]
fn what_is_missing_is_named() {
    let mut pair = Pair::new();
    pair.associate();
    let request = SessionEstablishmentRequest { create_fars: Vec::new(), ..establishment() };
    pair.cp.request(UP, Some(0), request.into(), 1, pair.now).expect("room");
    pair.exchange();
    let Some(Event::Response { packet, .. }) = pair.cp.next_event() else { panic!("a response") };
    let Message::SessionEstablishmentResponse(response) = packet.message else { panic!("an establishment's") };
    assert_eq!((response.cause, response.offending_ie), (Cause::MANDATORY_IE_MISSING, Some(OffendingIe(3))));
    assert_eq!((packet.header.seid, pair.up.counters().refused), (Some(7), 1));
}

#[test]
fn a_modification_that_can_not_be_read_is_refused_by_who_knows_the_session() {
    let mut pair = Pair::new();
    pair.associate();
    let request = SessionModificationRequest {
        create_fars: vec![CreateFar { apply_action: ApplyAction::FORW, ..Default::default() }],
        ..Default::default()
    };
    pair.cp.request(UP, Some(9), request.into(), 1, pair.now).expect("room");
    pair.exchange();
    let Some(Event::Unreadable { ticket, seid, fault }) = pair.up.next_event() else { panic!("unreadable") };
    assert_eq!((seid, fault), (Some(9), Fault { cause: Cause::CONDITIONAL_IE_MISSING, ie: 4 }));
    pair.up.refuse(ticket, Some(7), fault, pair.now);
    pair.exchange();
    let Some(Event::Response { packet, .. }) = pair.cp.next_event() else { panic!("a response") };
    assert_eq!(packet.header.seid, Some(7));
}

#[test]
fn a_peer_that_no_longer_answers_is_lost_comes_back_or_goes() {
    let mut pair = Pair::new();
    let (at_cp, _) = pair.associate();
    pair.wait(61);
    assert!(pair.cp.association(at_cp).expect("there").answers_heartbeats);
    pair.lose = [usize::MAX; 2];
    pair.wait(70);
    assert_eq!(pair.cp.next_event(), Some(Event::Lost(at_cp)));
    pair.lose = [0; 2];
    pair.wait(60);
    assert_eq!(pair.cp.next_event(), Some(Event::Back(at_cp)));
    pair.lose = [usize::MAX; 2];
    pair.wait(70 + 120);
    assert_eq!(pair.cp.next_event(), Some(Event::Lost(at_cp)));
    assert!(matches!(pair.cp.next_event(), Some(Event::Gone(id, Removal::Lost, _)) if id == at_cp));
    pair.wait(1000);
    assert_eq!((pair.cp.next_event(), pair.cp.due_at()), (None, None));
}

#[test]
fn a_peer_that_never_answers_heartbeats_is_as_good_as_any_or_lost() {
    for (never_answers, expected) in [(NeverAnswers::Ignore, None), (NeverAnswers::Lost, Some(()))] {
        let mut pair = Pair::with(|config| config.never_answers = never_answers);
        pair.associate();
        pair.lose = [usize::MAX; 2];
        pair.wait(150);
        assert_eq!(pair.up.next_event().map(|_| ()), expected);
        assert!(pair.up.counters().heartbeats_unanswered > 0);
    }
}

#[test]
fn a_peer_that_has_restarted_has_lost_its_sessions() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    let started = RecoveryTimeStamp::from_unix(1_700_000_100);
    pair.cp = Node::new(pair.cp.config().clone(), started);
    let heartbeat = HeartbeatRequest { recovery_time_stamp: started, ..Default::default() };
    pair.cp.request(UP, None, heartbeat.into(), 0, pair.now).expect("room");
    // The sequence number is that of the setup request, the type is not.
    pair.exchange();
    assert!(matches!(pair.up.next_event(), Some(Event::Gone(id, Removal::Restarted, _)) if id == at_up));
    assert_eq!(pair.up.counters().peers_restarted, 1);
}

#[test]
fn set_up_anew_an_association_keeps_its_sessions_only_if_asked() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    let set_up = |pair: &mut Pair, retention| {
        let request = AssociationSetupRequest {
            node_id: CP.ip().into(),
            recovery_time_stamp: RecoveryTimeStamp::from_unix(1_700_000_000),
            pfcp_session_retention_information: retention,
            ..Default::default()
        };
        pair.cp.request(UP, None, request.into(), 5, pair.now).expect("room");
        pair.exchange();
        pair.wait(1);
    };
    set_up(&mut pair, Some(Default::default()));
    assert_eq!(pair.up.next_event(), Some(Event::Up(at_up)));
    set_up(&mut pair, None);
    assert!(matches!(pair.up.next_event(), Some(Event::Gone(id, Removal::SetUpAnew, _)) if id == at_up));
    assert!(matches!(pair.up.next_event(), Some(Event::Up(id)) if id != at_up));
}

#[test]
fn a_peer_that_has_restarted_may_count_from_where_it_was() {
    let mut pair = Pair::new();
    let (_, first) = pair.associate();
    let set_up = |pair: &mut Pair, started| {
        let recovery_time_stamp = RecoveryTimeStamp::from_unix(started);
        pair.cp = Node::new(pair.cp.config().clone(), recovery_time_stamp);
        let request = AssociationSetupRequest { node_id: CP.ip().into(), recovery_time_stamp, ..Default::default() };
        pair.say(CP, 7, request);
    };
    set_up(&mut pair, 1_700_000_000);
    assert!(matches!(pair.up.next_event(), Some(Event::Gone(id, Removal::SetUpAnew, _)) if id == first));
    let Some(Event::Up(second)) = pair.up.next_event() else { panic!("set up") };
    set_up(&mut pair, 1_700_000_001);
    assert!(matches!(pair.up.next_event(), Some(Event::Gone(id, Removal::SetUpAnew, _)) if id == second));
    assert!(matches!(pair.up.next_event(), Some(Event::Up(_))));
    set_up(&mut pair, 1_700_000_001);
    assert_eq!((pair.up.next_event(), pair.up.counters().duplicates_answered), (None, 1));
}

#[test]
fn some_release_in_nobodys_name_with_sequence_number_0() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    pair.say(CP, 0, AssociationReleaseRequest { node_id: NodeId::default(), ..Default::default() });
    assert!(matches!(pair.up.next_event(), Some(Event::Gone(id, Removal::Released, _)) if id == at_up));
}

#[test]
fn limits_are_kept_and_counted() {
    let mut pair = Pair::with(|config| {
        config.allow = vec![(CP.ip(), 32), (UP.ip(), 32)];
        config.max_associations = 1;
        config.message_rate = 10;
        config.message_burst = 5;
    });
    pair.associate();
    let set_up = AssociationSetupRequest { node_id: NodeId::Fqdn("other".into()), ..Default::default() };
    pair.cp.request(UP, None, set_up.into(), 1, pair.now).expect("room");
    pair.exchange();
    let Some(Event::Response { packet, .. }) = pair.cp.next_event() else { panic!("a response") };
    let Message::AssociationSetupResponse(response) = packet.message else { panic!("a setup's") };
    assert_eq!((response.cause, pair.up.counters().associations_full), (Cause::NO_RESOURCES_AVAILABLE, 1));

    let recovery_time_stamp = RecoveryTimeStamp::from_unix(1_700_000_000);
    let heartbeat = HeartbeatRequest { recovery_time_stamp, ..Default::default() };
    let heartbeat = Packet { header: Header::node(1), message: heartbeat.into() };
    let heartbeat = heartbeat.to_vec().expect("short");
    pair.up.receive(([198, 51, 100, 1], 8805).into(), &heartbeat, pair.now);
    assert_eq!(pair.up.counters().not_allowed, 1);
    let before = pair.up.counters().received;
    for _ in 0..100 {
        pair.up.receive(CP, &heartbeat, pair.now + Duration::from_secs(10));
    }
    assert_eq!((pair.up.counters().received - before, pair.up.counters().too_many), (5, 95));
}

#[test]
fn garbage_is_ignored_and_other_versions_are_told() {
    let mut pair = Pair::new();
    for garbage in [&[][..], &[0x20], &[0x20, 50, 0, 200], &[0x21, 50, 0, 4, 0, 0, 0, 0], &[0x20, 99, 0, 4, 0, 0, 1, 0]]
    {
        pair.up.receive(CP, garbage, pair.now);
    }
    pair.exchange();
    assert_eq!((pair.up.counters().malformed, pair.up.counters().unknown_message, pair.up.counters().sent), (4, 1, 0));
    pair.up.receive(CP, &[0x40, 1, 0, 4, 0, 0, 9, 0], pair.now);
    let mut sent = Vec::new();
    pair.up.drain(|_, octets| sent.push(octets.to_vec()));
    assert_eq!(sent, [[0x20, 11, 0, 4, 0, 0, 9, 0]]);
}

fn allowing(pair: &Pair, allow: &[&str]) -> Config {
    let allow = allow.iter().map(|address| (address.parse().expect("an address"), 32)).collect();
    Config { allow, ..pair.up.config().clone() }
}

#[test]
fn a_later_loss_with_a_shorter_stay_goes_first() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    let later = pair.now + Duration::from_secs(3600);
    let sooner = pair.now + Duration::from_millis(1);
    pair.up.goes_at(later, at_up);
    pair.up.goes_at(sooner, at_up);
    assert_eq!(pair.up.due_at(), Some(sooner));
}

#[test]
fn a_peer_no_longer_allowed_goes_in_time() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    pair.up.set_sessions(at_up, 3);
    assert_eq!(pair.up.max_sessions(at_up), None);
    let config = allowing(&pair, &["192.0.2.3"]);
    assert_eq!(pair.up.reconfigure(config.clone(), pair.now), [at_up]);
    assert_eq!(pair.up.reconfigure(config, pair.now), [], "it goes already");
    assert_eq!((pair.up.max_sessions(at_up), pair.up.leaving().collect::<Vec<_>>()), (Some(0), vec![CP.ip()]));
    // Its sessions are its own until then; a new association is refused.
    pair.say(CP, 77, establishment());
    assert!(matches!(pair.up.next_event(), Some(Event::Request { association, .. }) if association == at_up));
    let setup = AssociationSetupRequest { node_id: OTHER.ip().into(), ..Default::default() };
    pair.say(CP, 78, setup);
    assert_eq!((pair.up.counters().not_allowed, pair.up.associations().count()), (1, 1));
    pair.wait(119);
    assert!(pair.up.association(at_up).is_some());
    pair.wait(2);
    let gone = std::iter::from_fn(|| pair.up.next_event()).last();
    assert!(matches!(gone, Some(Event::Gone(id, Removal::NotAllowed, _)) if id == at_up), "{gone:?}");
    let before = pair.up.counters().not_allowed;
    pair.say(CP, 79, establishment());
    assert_eq!((pair.up.counters().not_allowed, pair.up.leaving().count()), (before + 1, 0));
}

#[test]
fn a_peer_allowed_again_stays() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    let config = allowing(&pair, &["192.0.2.3"]);
    assert_eq!(pair.up.reconfigure(config, pair.now), [at_up]);
    pair.wait(60);
    let config = allowing(&pair, &["192.0.2.1", "192.0.2.3"]);
    assert_eq!(pair.up.reconfigure(config, pair.now), []);
    pair.wait(200);
    assert!(pair.up.association(at_up).is_some() && !pair.up.is_leaving(at_up));
}

#[test]
fn pins_changed_carry_out_no_request_twice() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    let pin = Pin { node_id: CP.ip().into(), addresses: vec![(CP.ip(), 32)], sessions: Some(5), message_rate: Some(9) };
    let pinned = Config { pins: vec![pin], ..pair.up.config().clone() };
    let bare = pair.up.config().clone();
    for (sequence, config) in [(80, pinned), (81, bare)] {
        pair.say(CP, sequence, establishment());
        assert!(matches!(pair.up.next_event(), Some(Event::Request { .. })));
        let most = config.pins.first().and_then(|pin| pin.sessions);
        assert_eq!(pair.up.reconfigure(config, pair.now), []);
        assert_eq!(pair.up.max_sessions(at_up), most);
        pair.say(CP, sequence, establishment());
        assert!(pair.up.next_event().is_none(), "it is being carried out");
    }
}
