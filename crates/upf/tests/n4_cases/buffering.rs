//! How packets wait for idle subscribers: how many, and when it is told (BAR, 3GPP TS 29.244, 5.2.4).

use super::super::*;

/// A session that sleeps, whose BAR says so.
fn asleep(bench: &mut Bench, delay: Option<u8>, count: Option<u8>) -> Session {
    let (mut session, _) = connected(bench, &smf());
    let mut idle = session.idle();
    idle.update_bar = Some(UpdateBar {
        bar_id: BarId(1),
        downlink_data_notification_delay: delay.map(DownlinkDataNotificationDelay),
        suggested_buffering_packets_count: count.map(SuggestedBufferingPacketsCount),
        ..UpdateBar::default()
    });
    assert_eq!(bench.modify(&session, idle).cause, Cause::REQUEST_ACCEPTED);
    session
}

fn wake(bench: &mut Bench, session: &mut Session) -> usize {
    let back = session.connect(access(GNB, GNB_TEID));
    assert_eq!(bench.modify(session, back).cause, Cause::REQUEST_ACCEPTED);
    bench.received("n3").len()
}

#[test]
fn as_many_wait_as_the_control_plane_suggests() {
    let mut bench = Bench::new("");
    let mut session = asleep(&mut bench, None, Some(3));
    (0..10).for_each(|_| bench.send("n6", &from_router(&response(UE)).build()));
    assert_eq!(bench.reports().len(), 1);
    assert_eq!(wake(&mut bench, &mut session), 3);
    bench.close();
}

#[test]
fn the_report_waits_as_long_as_the_control_plane_says() {
    let mut bench = Bench::new("");
    // 20 times 50 ms.
    let mut session = asleep(&mut bench, Some(20), None);
    bench.turn_to(secs(1));
    bench.send("n6", &from_router(&response(UE)).build());
    bench.turn_to(ms(1950));
    assert_eq!(bench.reports(), []);
    bench.turn_to(ms(2050));
    bench.send("n6", &from_router(&response(UE)).build());
    assert_eq!(bench.reports().iter().map(|report| report.report_type).collect::<Vec<_>>(), [ReportType::DLDR]);
    assert_eq!(wake(&mut bench, &mut session), 2);

    // Back before the time is over: there is nothing to tell.
    let idle = session.idle();
    assert_eq!(bench.modify(&session, idle).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n6", &from_router(&response(UE)).build());
    assert_eq!(wake(&mut bench, &mut session), 1);
    bench.turn_to(secs(5));
    assert_eq!(bench.reports(), []);
    bench.close();
}

#[test]
fn the_answer_to_a_report_says_how_to_go_on() {
    let mut bench = Bench::new("");
    let mut session = asleep(&mut bench, None, None);
    (0..5).for_each(|_| bench.send("n6", &from_router(&response(UE)).build()));
    let reports = bench.reports_answered(|response| {
        response.pfcp_sr_rsp_flags = Some(PfcpSrRspFlags::DROBU);
        response.update_bar = Some(UpdateBarInReportResponse {
            bar_id: BarId(1),
            suggested_buffering_packets_count: Some(SuggestedBufferingPacketsCount(2)),
            ..UpdateBarInReportResponse::default()
        });
    });
    assert_eq!(reports.len(), 1);
    (0..5).for_each(|_| bench.send("n6", &from_router(&response(UE)).build()));
    assert_eq!(wake(&mut bench, &mut session), 2, "those of before were dropped, and two are kept now");
    bench.close();
}

#[test]
fn packets_wait_as_long_as_the_answer_says_and_the_next_one_is_told_of() {
    let mut bench = Bench::new("buffer.seconds = 60");
    let mut session = asleep(&mut bench, None, None);
    bench.turn_to(secs(1));
    (0..5).for_each(|_| bench.send("n6", &from_router(&response(UE)).build()));
    let extended = |response: &mut SessionReportResponse| {
        response.update_bar = Some(UpdateBarInReportResponse {
            bar_id: BarId(1),
            dl_buffering_duration: Some(DlBufferingDuration::at_least(10)),
            dl_buffering_suggested_packet_count: Some(DlBufferingSuggestedPacketCount(7)),
            ..UpdateBarInReportResponse::default()
        });
    };
    assert_eq!(bench.reports_answered(extended).len(), 1);
    (0..5).for_each(|_| bench.send("n6", &from_router(&response(UE)).build()));
    bench.turn_to(secs(10));
    assert_eq!(bench.reports(), [], "it was told, and knows");
    bench.turn_to(secs(12));
    bench.send("n6", &from_router(&response(UE)).build());
    assert_eq!(bench.reports_answered(extended).len(), 1, "told again");
    bench.turn_to(secs(20));
    assert_eq!(wake(&mut bench, &mut session), 1, "those of before have waited in vain");

    // Whoever is back before has all of them, and the time that was set means nothing then.
    let idle = session.idle();
    assert_eq!(bench.modify(&session, idle).cause, Cause::REQUEST_ACCEPTED);
    (0..10).for_each(|_| bench.send("n6", &from_router(&response(UE)).build()));
    assert_eq!(bench.reports().len(), 1);
    bench.turn_to(secs(25));
    assert_eq!(wake(&mut bench, &mut session), 7, "as many as were suggested");
    bench.close();
}
