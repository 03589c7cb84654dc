//! Senders that write the name or the address of another into their messages.

use super::tests::*;
use super::*;
use crate::ie::*;
use crate::message::*;
use std::time::Duration;

const BEGAN: u64 = 1_700_000_000;

fn set_up(node_id: &NodeId, started: u64, retains: bool) -> AssociationSetupRequest {
    AssociationSetupRequest {
        node_id: node_id.clone(),
        recovery_time_stamp: RecoveryTimeStamp::from_unix(started),
        pfcp_session_retention_information: retains.then(Default::default),
        ..Default::default()
    }
}

fn heartbeat(started: u64) -> HeartbeatRequest {
    HeartbeatRequest { recovery_time_stamp: RecoveryTimeStamp::from_unix(started), ..Default::default() }
}

fn cp() -> NodeId {
    CP.ip().into()
}

/// Causes of the answers to setups and releases that went to others, in order.
fn causes(pair: &mut Pair) -> Vec<Cause> {
    let cause = |(_, packet): (SocketAddr, Packet)| match packet.message {
        Message::AssociationSetupResponse(response) => Some(response.cause),
        Message::AssociationReleaseResponse(response) => Some(response.cause),
        Message::SessionEstablishmentResponse(response) => Some(response.cause),
        _ => None,
    };
    std::mem::take(&mut pair.others).into_iter().filter_map(cause).collect()
}

/// Associations that are gone since the last call.
fn gone(pair: &mut Pair) -> Vec<(AssociationId, Removal)> {
    let mut gone = Vec::new();
    while let Some(event) = pair.up.next_event() {
        if let Event::Gone(id, why, _) = event {
            gone.push((id, why));
        }
    }
    gone
}

#[test]
fn takeover_of_answering_peer_is_refused() {
    for (retains, started) in [(false, BEGAN), (true, BEGAN), (false, BEGAN + 9), (true, BEGAN + 9)] {
        let mut pair = Pair::new();
        let (_, at_up) = pair.associate();
        pair.say(OTHER, 1, set_up(&cp(), started, retains));
        assert_eq!((causes(&mut pair), gone(&mut pair)), (vec![Cause::REQUEST_REJECTED], vec![]));
        let association = pair.up.association(at_up).expect("there");
        assert_eq!((association.address, association.recovery_time_stamp), (CP, RecoveryTimeStamp::from_unix(BEGAN)));
        assert_eq!((pair.up.counters().takeovers_refused, pair.up.counters().probes), (1, 1));
    }
}

#[test]
fn silent_peer_is_taken_over_within_ten_seconds() {
    for retains in [false, true] {
        let mut pair = Pair::with(|config| config.heartbeat_interval = None);
        let (_, at_up) = pair.associate();
        pair.lose[1] = usize::MAX;
        pair.say(OTHER, 1, set_up(&cp(), BEGAN + 9, retains));
        pair.wait(7);
        assert_eq!(causes(&mut pair), []);
        pair.say(OTHER, 1, set_up(&cp(), BEGAN + 9, retains));
        pair.wait(2);
        assert_eq!(causes(&mut pair), [Cause::REQUEST_ACCEPTED], "once, though it came twice");
        let expected = if retains { vec![] } else { vec![(at_up, Removal::SetUpAnew)] };
        assert_eq!((gone(&mut pair), pair.up.counters().associations_taken_over), (expected, 1));
        assert!(pair.up.associations().all(|(_, association)| association.address == OTHER));
        assert_eq!(pair.up.due_at(), None);
    }
}

#[test]
fn silent_peer_that_sends_is_not_taken_over() {
    let mut pair = Pair::with(|config| config.heartbeat_interval = None);
    pair.associate();
    pair.lose[1] = usize::MAX; // it never answers heartbeats
    pair.say(OTHER, 1, set_up(&cp(), BEGAN + 9, true));
    pair.wait(3);
    pair.say(CP, 77, heartbeat(BEGAN));
    pair.wait(1);
    assert_eq!((causes(&mut pair), gone(&mut pair)), (vec![Cause::REQUEST_REJECTED], vec![]));
}

#[test]
fn forged_setup_from_own_address_ends_nothing() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    for (n, retains) in [(1, false), (2, true)] {
        pair.say(CP, 100 + n, set_up(&cp(), BEGAN + 50, retains));
        pair.wait(2);
    }
    assert_eq!((gone(&mut pair), pair.up.counters().setups_refused), (vec![], 2));
    // The time stamp it has, as if it had forgotten its sessions: not while it uses them.
    pair.up.set_sessions(at_up, 5);
    pair.say(CP, 103, set_up(&cp(), BEGAN, false));
    pair.wait(1);
    pair.up.session_used(at_up);
    pair.wait(5);
    assert_eq!((gone(&mut pair), pair.up.counters().setups_refused), (vec![], 3));
    // If it does not, it has.
    pair.say(CP, 104, set_up(&cp(), BEGAN, false));
    assert_eq!(gone(&mut pair), []);
    pair.wait(3);
    assert_eq!(gone(&mut pair), [(at_up, Removal::SetUpAnew)]);
}

#[test]
fn restarted_peer_is_served_at_once() {
    for retains in [false, true] {
        let mut pair = Pair::new();
        let (_, at_up) = pair.associate();
        pair.up.set_sessions(at_up, 5);
        pair.cp = Node::new(pair.cp.config().clone(), RecoveryTimeStamp::from_unix(BEGAN + 50));
        pair.say(CP, 1, set_up(&cp(), BEGAN + 50, retains));
        let expected = if retains { vec![] } else { vec![(at_up, Removal::SetUpAnew)] };
        assert_eq!((gone(&mut pair), pair.up.counters().peers_restarted), (expected, 1));
        assert_eq!(pair.up.associations().next().map(|(_, one)| one.confirmed), Some(true));
    }
}

#[test]
fn restarted_peer_that_answers_no_heartbeats_is_served() {
    let mut pair = Pair::with(|config| config.heartbeat_interval = None);
    let (_, at_up) = pair.associate();
    pair.up.set_sessions(at_up, 5);
    pair.lose[1] = usize::MAX;
    pair.say(CP, 1, set_up(&cp(), BEGAN + 50, false));
    pair.wait(2);
    assert_eq!(gone(&mut pair), []);
    pair.wait(1);
    assert_eq!(gone(&mut pair), [(at_up, Removal::SetUpAnew)]);
}

#[test]
fn release_of_peer_that_uses_sessions_is_refused() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    pair.up.set_sessions(at_up, 5);
    let release = || AssociationReleaseRequest { node_id: cp(), ..Default::default() };
    pair.say(CP, 1, release());
    pair.wait(1);
    pair.up.session_used(at_up);
    pair.wait(5);
    assert_eq!((gone(&mut pair), pair.up.counters().releases_refused), (vec![], 1));
    pair.say(CP, 2, release());
    pair.wait(3);
    assert_eq!(gone(&mut pair), [(at_up, Removal::Released)]);
    // In another's name, from the address of a peer.
    let mut pair = Pair::new();
    pair.associate();
    pair.say(OTHER, 1, set_up(&OTHER.ip().into(), BEGAN, false));
    pair.say(OTHER, 2, release());
    assert_eq!(causes(&mut pair), [Cause::REQUEST_ACCEPTED, Cause::NO_ESTABLISHED_PFCP_ASSOCIATION]);
    assert_eq!((gone(&mut pair), pair.up.counters().names_of_others), (vec![], 1));
}

#[test]
fn forged_heartbeat_ends_nothing_on_shared_address() {
    let mut pair = Pair::new();
    let (_, first) = pair.associate();
    // The second does not listen where answers come from.
    let second: NodeId = NodeId::Fqdn("second".into());
    pair.say(SocketAddr::new(CP.ip(), 9000), 1, set_up(&second, BEGAN + 7, false));
    pair.wait(61);
    while pair.up.next_event().is_some() {}
    for sequence in 0..100 {
        pair.say(CP, 1000 + sequence, heartbeat(BEGAN + 3000 + u64::from(sequence)));
    }
    assert_eq!((gone(&mut pair), pair.up.counters().probes), (vec![], 2), "one for each, though a hundred came");
    pair.wait(10);
    assert_eq!(gone(&mut pair), []);
    assert_eq!(pair.up.counters().restarts_not_confirmed, 4);
    // The first restarts: nothing is known of the second.
    pair.cp = Node::new(pair.cp.config().clone(), RecoveryTimeStamp::from_unix(BEGAN + 5000));
    pair.say(CP, 9, heartbeat(BEGAN + 5000));
    assert_eq!(gone(&mut pair), [(first, Removal::Restarted)]);
    assert_eq!(pair.up.associations().map(|(_, one)| one.node_id.clone()).collect::<Vec<_>>(), [second]);
}

#[test]
fn restart_is_confirmed_by_the_answer_alone() {
    let mut pair = Pair::with(|config| config.heartbeat_interval = None);
    let (_, at_up) = pair.associate();
    pair.lose[1] = usize::MAX;
    pair.say(CP, 1, heartbeat(BEGAN + 9));
    // Answers whose number is guessed, from the right address.
    for sequence in 0..200 {
        let recovery_time_stamp = RecoveryTimeStamp::from_unix(BEGAN + 9);
        pair.say(CP, sequence, HeartbeatResponse { recovery_time_stamp, ..Default::default() });
    }
    pair.wait(10);
    assert_eq!((gone(&mut pair), pair.up.counters().probes_forged), (vec![], 1));
    assert_eq!(pair.up.association(at_up).map(|one| one.recovery_time_stamp.unix()), Some(BEGAN));
}

#[test]
fn establishment_in_another_name_is_refused() {
    let mut pair = Pair::new();
    let (_, at_up) = pair.associate();
    pair.say(OTHER, 1, set_up(&OTHER.ip().into(), BEGAN, false));
    while pair.up.next_event().is_some() {}
    pair.say(OTHER, 2, establishment());
    assert_eq!(causes(&mut pair), [Cause::REQUEST_ACCEPTED, Cause::NO_ESTABLISHED_PFCP_ASSOCIATION]);
    assert_eq!((pair.up.next_event(), pair.up.counters().names_of_others), (None, 1));
    // A name nobody has is the sender's own.
    let nobody = SessionEstablishmentRequest { node_id: NodeId::Fqdn("nobody".into()), ..establishment() };
    pair.say(OTHER, 3, nobody);
    assert!(matches!(pair.up.next_event(), Some(Event::Request { association, .. }) if association != at_up));
}

#[test]
fn one_address_has_few_associations() {
    let mut pair = Pair::with(|config| config.heartbeat_interval = None);
    pair.associate();
    for n in 0..300 {
        pair.say(OTHER, n, set_up(&NodeId::Fqdn(format!("alias-{n}").into()), BEGAN, false));
    }
    assert_eq!((pair.up.associations().count(), pair.up.counters().associations_full_address), (5, 296));
    let ids: Vec<_> = pair.up.associations().map(|(id, _)| (id, pair.up.siblings(id).len())).collect();
    assert!(ids.iter().all(|(id, siblings)| *siblings == if id.0 == 0 { 1 } else { 4 }), "{ids:?}");
}

#[test]
fn idle_associations_give_way() {
    let mut pair = Pair::with(|config| {
        config.heartbeat_interval = None;
        config.max_associations = 10;
    });
    let (_, at_up) = pair.associate();
    pair.up.set_sessions(at_up, 1);
    let from = |n: u8| SocketAddr::from(([198, 51, 100, n], 8805));
    let say = |pair: &mut Pair, n: u8| {
        pair.say(from(n), 1, set_up(&from(n).ip().into(), BEGAN, false));
        causes(pair)
    };
    (0..9).for_each(|n| assert_eq!(say(&mut pair, n), [Cause::REQUEST_ACCEPTED]));
    assert_eq!(say(&mut pair, 100), [Cause::NO_RESOURCES_AVAILABLE]);
    pair.wait(31);
    assert_eq!(say(&mut pair, 101), [Cause::REQUEST_ACCEPTED]);
    assert_eq!((pair.up.associations().count(), pair.up.counters().associations_displaced), (10, 1));
    assert!(pair.up.association(at_up).is_some(), "the one with sessions stays");
}

#[test]
fn pinned_node_id_is_accepted_from_its_addresses() {
    let pin = Pin {
        node_id: CP.ip().into(),
        addresses: vec![(CP.ip(), 32), ([198, 51, 100, 0].into(), 30)],
        sessions: Some(7),
        message_rate: Some(100),
    };
    let mut pair = Pair::with(|config| {
        config.heartbeat_interval = None;
        config.pins = vec![pin.clone()];
    });
    pair.say(OTHER, 1, set_up(&cp(), BEGAN, false));
    assert_eq!((causes(&mut pair), pair.up.counters().pinned_elsewhere), (vec![Cause::REQUEST_REJECTED], 1));
    while pair.up.next_event().is_some() {}
    let (_, at_up) = pair.associate();
    assert_eq!(pair.up.max_sessions(at_up), Some(7));
    // A member acts for it.
    let member = SocketAddr::from(([198, 51, 100, 2], 4444));
    pair.say(member, 1, establishment());
    assert!(matches!(pair.up.next_event(), Some(Event::Request { association, .. }) if association == at_up));
    assert!(pair.up.belongs(at_up, member.ip()) && !pair.up.belongs(at_up, OTHER.ip()));
    // It comes back elsewhere, as a member may when the other is gone.
    pair.lose[1] = usize::MAX;
    pair.say(OTHER, 2, set_up(&cp(), BEGAN + 9, false));
    pair.say(member, 2, set_up(&cp(), BEGAN + 9, false));
    pair.wait(4);
    assert_eq!(causes(&mut pair), [Cause::REQUEST_REJECTED, Cause::REQUEST_ACCEPTED]);
    // The rate is the peer's, whichever address it sends from.
    let before = pair.up.counters().too_many;
    for n in 0..1000 {
        pair.up.receive(
            SocketAddr::from(([198, 51, 100, (n % 4) as u8], 8805)),
            &[0x20, 1, 0, 4, 0, 0, 1, 0],
            pair.now,
        );
    }
    assert!(pair.up.counters().too_many - before >= 890, "{:?}", pair.up.counters());
}

#[test]
fn set_members_are_learnt_from_sets_only() {
    let member = [198, 51, 100, 2];
    let alternative = AlternativeSmfIpAddress { ip4: Some(member.into()), ..Default::default() };
    for features in [None, Some(CpFunctionFeatures::SSET)] {
        let mut pair = Pair::with(|config| config.heartbeat_interval = None);
        let request = AssociationSetupRequest {
            cp_function_features: features,
            alternative_smf_ip_addresses: vec![alternative],
            ..set_up(&OTHER.ip().into(), BEGAN, false)
        };
        pair.say(OTHER, 1, request);
        let (id, _) = pair.up.associations().next().expect("there");
        assert_eq!(pair.up.belongs(id, member.into()), features.is_some());
        assert!(!pair.up.is_home(member.into()));
        // A peer that sets up an association from there is asked for no sessions of the first.
        pair.say((member, 8805).into(), 1, set_up(&IpAddr::from(member).into(), BEGAN, false));
        assert!(!pair.up.belongs(id, member.into()) && pair.up.is_home(member.into()));
        pair.up.learn(id, member.into());
        assert!(!pair.up.belongs(id, member.into()));
    }
}

#[test]
fn claims_are_bounded() {
    let mut pair = Pair::with(|config| config.heartbeat_interval = None);
    pair.associate();
    pair.lose[1] = usize::MAX;
    for n in 0..100u8 {
        let from = SocketAddr::from(([198, 51, 100, n], 8805));
        pair.say(from, 1, set_up(&cp(), BEGAN + u64::from(n), false));
    }
    assert_eq!((pair.up.counters().claims_dropped, pair.up.counters().probes), (92, 1));
    pair.now += Duration::from_secs(20);
    pair.up.tick(pair.now);
    pair.exchange();
    assert_eq!(pair.up.counters().associations_taken_over, 1, "the others wait for the new one's word");
}
