//! What one control plane asks for, however often, costs the others nothing: work that concerns many sessions is done in
//! slices, and command rings keep room for requests.

use std::time::Instant;

use super::super::*;
use crate::n4_bench::COMMANDS;

/// Sessions that a turn ends at most without being asked for each.
const SLICE: usize = 64;

/// Brings up sessions of a set each; returns those of the control plane, by number.
fn in_sets(bench: &mut Bench, count: u32, csid: impl Fn(u32) -> u16) -> Vec<Session> {
    let one = |n: u32| {
        let ip4 = Some(Ipv4Addr::from_bits(u32::from(UE) + n));
        let mut session = Session { cp_seid: u64::from(n) + 1, ip4, ..Session::default() };
        let mut request = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
        request.fq_csids = vec![FqCsid::new(CP.ip(), &[csid(n)])];
        match bench.say(Some(0), request.into()).message {
            Message::SessionEstablishmentResponse(response) => session.established(&response).expect("accepted"),
            other => panic!("no answer: {other:?}"),
        }
        session
    };
    (0..count).map(one).collect()
}

fn set_deletion(csid: u16) -> Message {
    let fq_csids = vec![FqCsid::new(CP.ip(), &[csid])];
    SessionSetDeletionRequest { node_id: NodeId::from(CP.ip()), fq_csids, ..Default::default() }.into()
}

#[test]
fn a_set_ends_in_slices() {
    const SESSIONS: usize = 500;
    let mut bench = Bench::new("");
    let sessions = in_sets(&mut bench, SESSIONS as u32, |n| if n == 0 { 8 } else { 7 });
    bench.hear_confirmed(set_deletion(7));
    let mut left = bench.sessions().store().len();
    assert_eq!(left, SESSIONS, "none ends while its request is read");
    for turn in 0..8u64 {
        bench.due_at(2 + turn);
        let now = bench.sessions().store().len();
        assert!(left - now <= SLICE, "{} ended in a turn", left - now);
        left = now;
        // The same again adds nothing.
        bench.hear_node(set_deletion(7));
    }
    assert_eq!((left, COMMANDS - bench.keep_busy()), (1, SESSIONS - 1));
    bench.settle();
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (1, 1));
    assert_eq!(bench.delete(&sessions[0]).cause, Cause::REQUEST_ACCEPTED);
    bench.close();
}

#[test]
fn sessions_made_after_a_set_deletion_stay() {
    let mut bench = Bench::new("");
    in_sets(&mut bench, 100, |_| 7);
    bench.hear_confirmed(set_deletion(7));
    bench.due_at(2);
    let session = Session { cp_seid: 1000, ip4: Some(Ipv4Addr::new(10, 45, 9, 9)), ..Session::default() };
    let mut request = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    request.fq_csids = vec![FqCsid::new(CP.ip(), &[7])];
    bench.hear(&Session { up_f_seid: Some(FSeid::new(0, CP.ip())), ..Session::default() }, request.into());
    assert_eq!(bench.answers().last().map(cause), Some(Cause::REQUEST_ACCEPTED));
    let left: Vec<u64> = bench.sessions().store().iter().map(|(_, entry)| entry.cp_seid).collect();
    assert_eq!((left, bench.worker_sessions()), (vec![1000], 1));
    bench.turn_to(secs(2));
    bench.say(None, set_deletion(7));
    bench.settle();
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (0, 0));
    bench.close();
}

/// A control plane that begins anew is not refused because the sessions it had are still on their way out.
#[test]
fn what_is_to_end_gives_way_to_new_sessions() {
    let release = || AssociationReleaseRequest { node_id: NodeId::from(CP.ip()), ..Default::default() };
    let setup = AssociationSetupRequest {
        node_id: NodeId::from(CP.ip()),
        recovery_time_stamp: RecoveryTimeStamp(3_900_000_000),
        ..Default::default()
    };
    for is_release in [false, true] {
        let mut bench = Bench::new("");
        in_sets(&mut bench, 500, |_| 7);
        if is_release {
            bench.hear_confirmed(release().into());
            bench.due_at(secs(3));
            bench.hear_confirmed(setup.clone().into());
        } else {
            bench.hear_confirmed(set_deletion(7));
        }
        assert!(bench.sessions().store().len() > 400, "most have not had their turn");
        for n in 400..500_u32 {
            let ip4 = Some(Ipv4Addr::from_bits(u32::from(UE) + n));
            let session = Session { cp_seid: 5000 + u64::from(n), ip4, ..Session::default() };
            let request = session.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
            let header = Session { up_f_seid: Some(FSeid::new(0, CP.ip())), ..Session::default() };
            bench.hear(&header, request.into());
        }
        let answers = bench.answers();
        let accepted = answers.iter().filter(|packet| {
            let is_answer = matches!(packet.message, Message::SessionEstablishmentResponse(_));
            is_answer && cause(packet) == Cause::REQUEST_ACCEPTED
        });
        assert_eq!(accepted.count(), 100, "release: {is_release}");
        bench.settle();
        assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (100, 100));
        bench.close();
    }
}

/// Work for a set deletion that is carried out goes by the sessions it names, not by those there are.
#[test]
fn a_set_deletion_costs_little_whatever_sessions_there_are() {
    const REQUESTS: u32 = 20;
    let cost = |sessions: u32| {
        let mut bench = Bench::new("");
        in_sets(&mut bench, sessions, |n| 100 + (n % 50) as u16);
        let mut once = |n: u32| {
            // Peers are not asked more often.
            bench.due_at(secs(2 * u64::from(n) + 2));
            let begin = Instant::now();
            bench.hear_confirmed(set_deletion(9));
            begin.elapsed()
        };
        let best = (0..REQUESTS).map(&mut once).min().expect("requests");
        assert_eq!(bench.sessions().store().len(), sessions as usize);
        // Carried out, not only received.
        bench.due_at(secs(2 * u64::from(REQUESTS) + 2));
        bench.hear_confirmed(set_deletion(100));
        bench.settle();
        assert!(bench.sessions().store().len() < sessions as usize);
        bench.close();
        best
    };
    let (few, many) = (cost(50), cost(5000));
    // Looking through them all takes a hundred times as long.
    assert!(many < few * 10, "{few:?} with 50 sessions, {many:?} with 5000");
}

#[test]
fn sessions_of_an_ended_association_end_in_slices() {
    let mut bench = Bench::new("");
    in_sets(&mut bench, 300, |_| 7);
    bench.hear_confirmed(AssociationReleaseRequest { node_id: NodeId::from(CP.ip()), ..Default::default() }.into());
    let mut left = 300;
    for turn in 0..5u64 {
        bench.due_at(secs(3) + turn);
        let now = bench.sessions().store().len();
        assert!(left - now <= SLICE, "{} ended in a turn", left - now);
        left = now;
    }
    assert_eq!(left, 0);
    bench.settle();
    assert_eq!(bench.worker_sessions(), 0);
    bench.close();
}

#[test]
fn checkpoints_leave_half_of_the_command_ring() {
    let folder = std::env::temp_dir().join(format!("weir-n4-floods-{}", std::process::id()));
    let (mut bench, _) = Bench::on_ledger("n4.checkpoint_seconds = 1", &folder);
    bench.associate(0);
    let profile = Profile { volume_threshold: Some(1 << 30), ..smf() };
    for n in 0..700 {
        let ip4 = Some(Ipv4Addr::from_bits(u32::from(UE) + n));
        let session = Session { cp_seid: u64::from(n) + 1, ip4, ..Session::default() };
        assert_eq!(bench.establish(&session, &profile).cause, Cause::REQUEST_ACCEPTED);
    }
    // All are due, and the worker has no turn.
    (0..40).for_each(|n| bench.due_at(secs(3) + n));
    let room = bench.keep_busy();
    assert!((COMMANDS / 2..COMMANDS).contains(&room), "room for {room} of {COMMANDS}");
    bench.settle();
    bench.close();
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn a_request_waits_for_room_before_it_is_refused() {
    let mut bench = Bench::new("");
    let (session, _) = connected(&mut bench, &smf());
    let change = || SessionModificationRequest {
        user_plane_inactivity_timer: Some(UserPlaneInactivityTimer(9)),
        ..Default::default()
    };
    // The worker has its turns soon enough.
    bench.keep_busy();
    bench.hear(&session, change().into());
    bench.due_at(ms(10));
    assert_eq!((bench.sessions().queued(), bench.keep_busy()), (1, 0));
    let answers = bench.answers();
    assert_eq!(answers.iter().map(cause).collect::<Vec<_>>(), [Cause::REQUEST_ACCEPTED]);
    // It has none for too long: what waits is refused, in the order it came.
    bench.keep_busy();
    let new = Session { cp_seid: 9, ip4: Some(Ipv4Addr::new(10, 45, 0, 9)), ..Session::default() };
    let establish = new.establish(&smf(), &NodeId::from(CP.ip()), CP.ip());
    bench.hear(&session, change().into());
    bench.hear(&Session { up_f_seid: Some(FSeid::new(0, CP.ip())), ..Session::default() }, establish.into());
    bench.due_at(ms(50));
    assert_eq!(bench.sessions().queued(), 2);
    bench.due_at(ms(200));
    let congested = Cause::PFCP_ENTITY_IN_CONGESTION;
    let causes: Vec<Cause> = bench.answers().iter().map(cause).collect();
    assert_eq!(causes, [congested, congested]);
    assert_eq!((bench.sessions().counters().queued, bench.sessions().counters().congested), (3, 2));
    // As many wait as may; the next one is refused at once.
    bench.keep_busy();
    (0..300).for_each(|_| bench.hear(&session, change().into()));
    assert_eq!((bench.sessions().queued(), bench.sessions().counters().congested), (256, 2 + 44));
    bench.settle();
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (1, 1));
    bench.close();
}
