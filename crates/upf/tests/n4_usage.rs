//! What a crash costs of sessions' usage: what was counted since the last checkpoint, and nothing else.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use pfcp::control::{Profile, Session};
use pfcp::group::{UpdateUrr, UsageReport};
use pfcp::ie::*;
use pfcp::message::{Message, SessionReportRequest};
use pfcp::message::{SessionDeletionRequest, SessionModificationRequest};
use upf::sessions::Room;

use crate::golden_cases::{GNB, from_router, response};
use crate::golden_cases::{Over, QFI, from_gnb, ms, request, secs};
use crate::n4_bench::{Bench, access, smf};

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 1);
/// Octets of the packet each way.
const PACKET: u64 = 60;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("weir-n4-usage-{test}-{}", std::process::id())))
    }

    /// A gateway on it, with a round of ten seconds; its control plane, if it had one before.
    fn gateway(&self) -> Bench {
        Bench::on_ledger("n4.checkpoint_seconds = 10", &self.0).0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn connected(bench: &mut Bench, profile: &Profile) -> (Session, u32) {
    bench.associate(0);
    let mut session = Session { cp_seid: 1, ip4: Some(UE), ..Session::default() };
    let established = bench.establish(&session, profile);
    session.established(&established).expect("accepted");
    let connect = session.connect(access(GNB, 0x77));
    assert_eq!(bench.modify(&session, connect).cause, Cause::REQUEST_ACCEPTED);
    let Some(FTeid::Given { teid, .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
    (session, teid.0)
}

/// Usage is measured, and reported at the end.
fn metered() -> Profile {
    Profile { measurement_period: Some(86_400), ..smf() }
}

fn send(bench: &mut Bench, teid: u32, up: usize, down: usize) {
    for _ in 0..up {
        bench.send("n3", &from_gnb(Over::V4).gtpu(teid).container_up(QFI).carrying(&request(UE)).build());
    }
    for _ in 0..down {
        bench.send("n6", &from_router(&response(UE)).build());
    }
}

/// Time for everybody's turn in the round, and for the disk.
fn round(bench: &mut Bench, from: u64) {
    for n in 0..=11 {
        bench.turn_to(secs(from) + ms(1000 * n));
    }
}

fn volumes(report: &UsageReport) -> [u64; 3] {
    let volume = report.volume_measurement.expect("volume is measured");
    [volume.uplink.expect("uplink") / PACKET, volume.downlink.expect("downlink") / PACKET, report.ur_seqn.0.into()]
}

fn reported(reports: &[SessionReportRequest]) -> Vec<[u64; 3]> {
    reports.iter().flat_map(|report| &report.usage_reports).map(volumes).collect()
}

#[test]
fn a_crash_costs_what_was_counted_since_the_checkpoint() {
    let folder = Folder::new("crash");
    let mut bench = folder.gateway();
    let (session, teid) = connected(&mut bench, &metered());
    send(&mut bench, teid, 1, 2);
    round(&mut bench, 1);
    send(&mut bench, teid, 5, 0);
    bench.close();

    let mut bench = folder.gateway();
    send(&mut bench, teid, 1, 1);
    let last = bench.delete(&session);
    let [report] = &last.usage_reports[..] else { panic!("one URR, one report: {last:?}") };
    assert_eq!(volumes(report), [2, 3, 0]);
    bench.close();
}

#[test]
fn a_stop_costs_nothing() {
    let folder = Folder::new("stop");
    let mut bench = folder.gateway();
    let (session, teid) = connected(&mut bench, &metered());
    send(&mut bench, teid, 3, 4);
    bench.stop();

    let mut bench = folder.gateway();
    let last = bench.delete(&session);
    assert_eq!(last.usage_reports.iter().map(volumes).collect::<Vec<_>>(), [[3, 4, 0]]);
    bench.close();
}

#[test]
fn a_report_that_nobody_acknowledged_is_sent_again_and_its_usage_in_no_other() {
    let folder = Folder::new("report");
    let mut bench = folder.gateway();
    let (session, teid) = connected(&mut bench, &Profile { volume_threshold: Some(3 * PACKET), ..smf() });
    send(&mut bench, teid, 2, 2);
    // The fourth packet was on its way when the third was told of, or was not.
    bench.close();

    let mut bench = folder.gateway();
    bench.turn_to(secs(1));
    let again = reported(&bench.reports());
    let [[up, down, 0]] = again[..] else { panic!("{again:?}") };
    assert!(up + down >= 3, "{again:?}");
    send(&mut bench, teid, 0, 3);
    let next = reported(&bench.reports());
    let [[0, more, 1]] = next[..] else { panic!("{next:?}") };
    assert!((2..=3).contains(&more));
    bench.turn_to(secs(2));
    round(&mut bench, 2);
    bench.close();

    let mut bench = folder.gateway();
    bench.turn_to(secs(1));
    assert_eq!(bench.reports(), [], "acknowledged, and so forgotten");
    let last = bench.delete(&session);
    let rest = last.usage_reports.iter().map(volumes).collect::<Vec<_>>();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0][2], 2, "numbers go on");
    let total: u64 = [&again[..], &next, &rest].concat().iter().map(|[up, down, _]| up + down).sum();
    assert!(total <= 7 && total >= up + down + 3, "{again:?} {next:?} {rest:?}: never more than was");
    bench.close();
}

#[test]
fn a_round_does_not_undo_a_report() {
    let folder = Folder::new("order");
    let mut bench = folder.gateway();
    let (session, teid) = connected(&mut bench, &metered());
    send(&mut bench, teid, 1, 1);
    // Its turn in the round comes, and before that is written it is asked.
    bench.turn_to(secs(10) + ms(50));
    let asked = bench.modify(&session, session.query());
    assert_eq!(asked.usage_reports.iter().map(volumes).collect::<Vec<_>>(), [[1, 1, 0]]);
    bench.turn_to(secs(11));
    bench.close();

    let mut bench = folder.gateway();
    let last = bench.delete(&session);
    assert_eq!(last.usage_reports.iter().map(volumes).collect::<Vec<_>>(), [[0, 0, 1]]);
    bench.close();
}

#[test]
fn a_deletion_whose_answer_was_lost_is_answered_again() {
    let folder = Folder::new("gone");
    let mut bench = folder.gateway();
    let (session, teid) = connected(&mut bench, &metered());
    send(&mut bench, teid, 2, 1);
    let first = bench.delete(&session);
    bench.close();

    let mut bench = folder.gateway();
    assert_eq!(bench.delete(&session), first);
    // Told by a report as well, for whoever does not ask again.
    let again = reported(&bench.reports());
    assert_eq!(again, [[2, 1, 0]]);
    for second in 1..30 {
        bench.turn_to(secs(second));
    }
    let seid = session.up_f_seid.map(|f_seid| f_seid.seid);
    let Message::SessionDeletionResponse(late) = bench.say(seid, SessionDeletionRequest::default().into()).message
    else {
        panic!("an answer")
    };
    assert_eq!(late.cause, Cause::SESSION_CONTEXT_NOT_FOUND);
    bench.close();
    let mut bench = folder.gateway();
    bench.turn_to(secs(1));
    assert_eq!(bench.reports(), [], "kept no longer");
    bench.close();
}

#[test]
fn a_quota_is_not_given_twice() {
    let folder = Folder::new("quota");
    let mut bench = folder.gateway();
    let (_, teid) = connected(&mut bench, &Profile { volume_quota: Some(5 * PACKET), ..smf() });
    send(&mut bench, teid, 3, 0);
    round(&mut bench, 1);
    assert_eq!(bench.received("n6").len(), 3);
    bench.close();

    let mut bench = folder.gateway();
    send(&mut bench, teid, 4, 0);
    assert_eq!(bench.received("n6").len(), 2, "of five, three were used before");
    let reports = reported(&bench.reports());
    assert_eq!(reports.iter().map(|[up, ..]| up).sum::<u64>(), 5, "{reports:?}");
    bench.close();
}

#[test]
fn a_quota_that_was_refused_is_not_given_by_a_restart() {
    let folder = Folder::new("refused");
    let mut bench = folder.gateway();
    let profile = Profile { volume_threshold: Some(2 * PACKET), volume_quota: Some(5 * PACKET), ..smf() };
    let (session, teid) = connected(&mut bench, &profile);
    send(&mut bench, teid, 2, 0);
    assert_eq!(reported(&bench.reports()), [[2, 0, 0]]);
    send(&mut bench, teid, 1, 0);
    assert_eq!(bench.received("n6").len(), 3);
    let quota = VolumeQuota::total(5 * PACKET);
    let more = UpdateUrr { urr_id: UrrId(1), volume_quota: Some(quota), ..UpdateUrr::default() };
    let change = SessionModificationRequest { update_urrs: vec![more], ..Default::default() };
    bench.set_room(Room { lines: 0, keys: usize::MAX });
    // Its turn in the round comes while its worker is asked to take in the new rules.
    bench.due_at(secs(10) + ms(50));
    let answers = bench.say_together(&session, vec![change.into()]);
    let [Message::SessionModificationResponse(answer)] =
        &answers.iter().map(|a| a.message.clone()).collect::<Vec<_>>()[..]
    else {
        panic!("an answer of its kind")
    };
    assert_eq!(answer.cause, Cause::NO_RESOURCES_AVAILABLE);
    bench.turn_to(secs(11));
    bench.close();

    let mut bench = folder.gateway();
    send(&mut bench, teid, 6, 0);
    assert_eq!(bench.received("n6").len(), 2, "of five, three were used before");
    bench.close();
}
