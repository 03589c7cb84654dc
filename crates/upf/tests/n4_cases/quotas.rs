//! Quotas of which no report was asked for: they stop, or send elsewhere, all the same (3GPP TS 29.244, 5.2.2.2.1).

use super::super::*;
use super::redirect::{is_sent_elsewhere, redirection};

/// 2023, as the bench's clock says at its beginning.
const EPOCH: u64 = 1_700_000_000;

/// A session with what `quota` says, and a threshold out of reach; the FAR for Quota Action if `elsewhere`.
fn with_quota(bench: &mut Bench, quota: &UpdateUrr, elsewhere: bool) -> (Session, u32) {
    let (session, teid) = connected(bench, &Profile { volume_threshold: Some(1 << 40), ..smf() });
    let update = UpdateUrr { far_id_for_quota_action: elsewhere.then_some(FarId(7)), ..quota.clone() };
    let create_fars = vec![redirection(2, "http://top-up.example/")];
    let change = SessionModificationRequest { create_fars, update_urrs: vec![update], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    (session, teid)
}

/// Sends a packet once a second, from one time to another; tells after how many seconds each came through.
fn passes(bench: &mut Bench, teid: u32, from: u64, to: u64, every: u64) -> Vec<u64> {
    let mut passed = Vec::new();
    for second in from..to {
        bench.turn_to(secs(second));
        if (second - from).is_multiple_of(every) {
            bench.send("n3", &up(teid, &request(UE)));
            passed.extend(bench.received("n6").iter().map(|_| second - from));
        }
    }
    passed
}

#[test]
fn a_quota_ends_whether_or_not_that_is_to_be_reported() {
    let urr = || UpdateUrr { urr_id: UrrId(1), ..UpdateUrr::default() };
    let quotas = [
        (UpdateUrr { volume_quota: Some(VolumeQuota::total(120)), ..urr() }, 1, vec![0, 1]),
        (UpdateUrr { time_quota: Some(TimeQuota(3)), ..urr() }, 1, vec![0, 1, 2]),
        (
            UpdateUrr {
                measurement_method: Some(MeasurementMethod::EVENT),
                inactivity_detection_time: Some(InactivityDetectionTime(2)),
                event_quota: Some(EventQuota(2)),
                ..urr()
            },
            4,
            vec![0, 4],
        ),
    ];
    for (quota, every, expected) in quotas {
        for elsewhere in [false, true] {
            let mut bench = Bench::new("");
            let (session, teid) = with_quota(&mut bench, &quota, elsewhere);
            for round in 1..4 {
                let passed = passes(&mut bench, teid, 40 * round, 40 * round + 12, every);
                assert_eq!(passed, expected, "{quota:?}, given for the {round}. time");
                if elsewhere {
                    // The gNB is asked once in a while whether it is there.
                    drop(bench.received("n3"));
                    is_sent_elsewhere(&mut bench, teid);
                }
                assert_eq!(bench.reports(), [], "none was asked for");
                bench.turn_to(secs(40 * round + 40));
                let change = SessionModificationRequest { update_urrs: vec![quota.clone()], ..Default::default() };
                assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
            }
            bench.close();
        }
    }
}

#[test]
fn what_nobody_used_for_so_long_ends_unasked() {
    let mut bench = Bench::new("");
    let quota = UpdateUrr {
        urr_id: UrrId(1),
        volume_quota: Some(VolumeQuota::total(1 << 30)),
        quota_holding_time: Some(QuotaHoldingTime(5)),
        ..UpdateUrr::default()
    };
    let (session, teid) = with_quota(&mut bench, &quota, false);
    assert_eq!(passes(&mut bench, teid, 3, 20, 4), [0, 4, 8, 12, 16], "it is used");
    assert_eq!(passes(&mut bench, teid, 30, 40, 1), Vec::<u64>::new(), "it was not, for six seconds");
    let change = SessionModificationRequest { update_urrs: vec![quota], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(passes(&mut bench, teid, 41, 43, 1), [0, 1]);
    assert_eq!(bench.reports(), []);
    bench.close();
}

#[test]
fn a_quota_that_begins_with_the_monitoring_time_ends_unasked() {
    let mut bench = Bench::new("");
    let quota = UpdateUrr {
        urr_id: UrrId(1),
        monitoring_time: Some(MonitoringTime::from_unix(EPOCH + 10)),
        subsequent_volume_quota: Some(SubsequentVolumeQuota::total(120)),
        ..UpdateUrr::default()
    };
    let (_, teid) = with_quota(&mut bench, &quota, false);
    assert_eq!(passes(&mut bench, teid, 3, 9, 1).len(), 6, "there is none yet");
    assert_eq!(passes(&mut bench, teid, 12, 20, 1), [0, 1]);
    bench.close();
}
