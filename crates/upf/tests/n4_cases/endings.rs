//! What a session has used is told when it ends, however it does; or it is counted (3GPP TS 29.244, 7.5.8, 8.2.41).

use super::super::*;

fn volumes(reports: &[UsageReport]) -> Vec<(u64, UsageReportTrigger)> {
    let volume = |report: &UsageReport| report.volume_measurement.and_then(|volume| volume.total).unwrap_or(0);
    reports.iter().map(|report| (volume(report), report.usage_report_trigger)).collect()
}

#[test]
fn a_session_established_anew_tells_what_the_one_before_used() {
    let mut bench = Bench::new("");
    let profile = Profile { volume_threshold: Some(1 << 30), ..smf() };
    let (_, teid) = connected(&mut bench, &profile);
    (0..3).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    assert_eq!(bench.reports(), []);
    let (session, teid) = connected(&mut bench, &profile);
    let told: Vec<_> = bench.reports().iter().map(|report| volumes(&report.usage_reports)).collect();
    assert_eq!(told, [[(180, UsageReportTrigger::TEBUR)]]);
    assert_eq!((bench.sessions().store().len(), bench.worker_sessions()), (1, 1));
    bench.send("n3", &up(teid, &request(UE)));
    assert_eq!(volumes(&bench.delete(&session).usage_reports), [(60, UsageReportTrigger::TERMR)], "its own");
    // Nothing was used, and nothing is to be told.
    connected(&mut bench, &profile);
    let (session, _) = connected(&mut bench, &profile);
    assert_eq!(bench.reports(), []);
    // Whoever does not know the number any more loses nothing else by saying so.
    bench.send("n6", &from_router(&response(UE)).build());
    let (again, _) = connected(&mut bench, &profile);
    let told = bench.reports_answered(|response| response.cause = Cause::SESSION_CONTEXT_NOT_FOUND);
    assert_eq!((told.len(), bench.sessions().store().len()), (1, 1));
    assert_ne!(session.up_f_seid, again.up_f_seid);
    assert_eq!(bench.delete(&again).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(bench.sessions().counters().octets_unheard, 0);
    bench.close();
}

#[test]
fn what_nobody_is_there_to_hear_is_counted() {
    let mut bench = Bench::new("");
    let (_, teid) = connected(&mut bench, &Profile { volume_threshold: Some(180), ..smf() });
    (0..5).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    assert_eq!(bench.reports().len(), 1);
    let release = AssociationReleaseRequest { node_id: NodeId::from(CP.ip()), ..Default::default() };
    bench.say_patiently(CP, release.into());
    bench.settle();
    assert_eq!(bench.sessions().store().len(), 0);
    assert_eq!((bench.sessions().counters().octets_unheard, bench.sessions().usage_reports_lost()), (120, 0));
    bench.close();
}

#[test]
fn a_report_nobody_answered_is_sent_once_more_when_its_session_ends() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &Profile { volume_threshold: Some(120), ..smf() });
    (0..2).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
    // Until it is given up for now.
    let mut quiet = 0;
    for second in 2..40 {
        bench.turn_to(secs(second));
        quiet = if bench.unasked().is_empty() { quiet + 1 } else { 0 };
        if quiet == 15 {
            break;
        }
    }
    assert_eq!(quiet, 15);
    assert_eq!(volumes(&bench.delete(&session).usage_reports), [(0, UsageReportTrigger::TERMR)]);
    let told: Vec<_> = bench.reports().iter().map(|report| volumes(&report.usage_reports)).collect();
    assert_eq!(told, [[(120, UsageReportTrigger::VOLTH)]]);
    bench.close();
}
