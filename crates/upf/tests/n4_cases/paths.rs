//! Whether gNBs are there: Echo Requests, and reports about those who do not answer (3GPP TS 29.244, 5.9).

use super::super::*;

/// The numbers of the Echo Requests among the packets sent, all of which must be such to the gNB.
fn echoes(bench: &mut Bench) -> Vec<u16> {
    let sent = bench.received("n3");
    let sequence = |packet: &Vec<u8>| {
        let sequence = u16::from_be_bytes([packet[50], packet[51]]);
        assert_eq!(*packet, to_gnb(Over::V4).udp(2152, 2152).checksum(0).gtpu_message(1, 0).seq(sequence).build());
        sequence
    };
    sent.iter().map(sequence).collect()
}

fn answer(sequence: u16) -> Vec<u8> {
    from_gnb(Over::V4).udp(2152, 2152).gtpu_message(2, 0).seq(sequence).payload([14, 7]).build()
}

#[test]
fn a_silent_gnb_is_told_of_once_and_again_when_it_is_back() {
    let mut bench = Bench::new("");
    let (session, _) = connected(&mut bench, &smf());
    bench.turn_to(secs(59));
    assert_eq!(echoes(&mut bench), [0u16; 0]);
    bench.turn_to(secs(61));
    let first = echoes(&mut bench);
    assert_eq!(first.len(), 1);
    bench.send("n3", &answer(first[0]));
    assert_eq!((bench.sessions().paths().len(), bench.node_reports()), (1, vec![]));

    let (mut asked, mut reports) = (Vec::new(), Vec::new());
    for second in 62..200 {
        bench.turn_to(secs(second));
        asked.extend(echoes(&mut bench).into_iter().map(|sequence| (second, sequence)));
        reports.extend(bench.node_reports().into_iter().map(|report| (second, report)));
    }
    // 60 seconds after the answer, and three times 5 seconds apart; then once a minute.
    let seconds: Vec<u64> = asked.iter().map(|(second, _)| *second).collect();
    assert_eq!(seconds, [121, 126, 131, 181]);
    let [(136, report)] = &reports[..] else { panic!("one report, not {reports:?}") };
    assert_eq!(report.node_report_type, NodeReportType::UPFR);
    let peers = report.user_plane_path_failure_report.as_ref().map(|failed| failed.remote_gtp_u_peers.clone());
    let gnb = RemoteGtpUPeer { ip4: Some(GNB), ..RemoteGtpUPeer::default() };
    assert_eq!(peers, Some(vec![gnb.clone()]));

    bench.send("n3", &answer(asked[3].1));
    let reports = bench.node_reports();
    let [report] = &reports[..] else { panic!("one report, not {reports:?}") };
    let peers = report.user_plane_path_recovery_report.as_ref().map(|back| back.remote_gtp_u_peers.clone());
    assert_eq!((report.node_report_type, peers), (NodeReportType::UPRR, Some(vec![gnb])));
    let counters = bench.sessions().counters();
    assert_eq!((counters.path_failures, counters.path_recoveries), (1, 1));

    bench.delete(&session);
    bench.turn_to(secs(400));
    assert_eq!((echoes(&mut bench), bench.sessions().paths().len()), (vec![], 0));
    bench.close();
}

#[test]
fn a_silent_gnb_is_an_event_once() {
    let events = testkit::events::emitted(|| {
        let mut bench = Bench::new("");
        let (_session, _) = connected(&mut bench, &smf());
        let mut last = 0;
        for second in 60..200 {
            bench.turn_to(secs(second));
            last = echoes(&mut bench).last().copied().unwrap_or(last);
        }
        bench.send("n3", &answer(last));
        bench.close();
    });
    let paths: Vec<&String> = events.iter().filter(|line| line.contains("target=gtpu")).collect();
    assert_eq!(paths.len(), 2, "{events:?}");
    let failed = format!(" event=path_failed peer={GNB} instance=access");
    assert!(paths[0].starts_with("level=WARN ") && paths[0].contains(&failed), "{paths:?}");
    assert!(paths[1].contains(&format!(" event=path_recovered peer={GNB} instance=access")), "{paths:?}");
}

#[test]
fn answers_nobody_asked_for_and_supervision_that_is_off() {
    let mut bench = Bench::new("gtpu.echo_seconds = 0");
    let (_, _) = connected(&mut bench, &smf());
    for sequence in 0..200 {
        bench.send("n3", &answer(sequence));
    }
    bench.turn_to(secs(1000));
    assert_eq!((echoes(&mut bench), bench.node_reports(), bench.reports()), (vec![], vec![], vec![]));
    bench.close();
}

#[test]
fn a_path_follows_a_handover() {
    let mut bench = Bench::new("");
    let (mut session, _) = connected(&mut bench, &smf());
    let moved = session.connect(access(FAR_AWAY, 0x99));
    assert_eq!(bench.modify(&session, moved).cause, Cause::REQUEST_ACCEPTED);
    bench.received("n3");
    bench.turn_to(secs(61));
    let sent = bench.received("n3");
    assert_eq!(sent.iter().map(|packet| &packet[30..34]).collect::<Vec<_>>(), [&FAR_AWAY.octets()[..]]);
    bench.close();
}
