//! Control that sleeps until its next deadline says what control says that looks every millisecond.

use super::super::*;

/// A gNB that nobody has ever heard of.
const SILENT: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 150);
const MS: u64 = 1_000_000;

/// How control is driven.
#[derive(Clone, Copy, PartialEq)]
enum Drive {
    EveryMillisecond,
    ByDeadline,
}

/// A gateway whose time passes, and what it has sent: when, and what.
struct Life {
    bench: Bench,
    drive: Drive,
    sent: Vec<(u64, String)>,
    turns: u64,
    /// The control plane answers reports.
    answers: bool,
}

impl Life {
    fn until(&mut self, ms: u64) {
        let end = ms * MS;
        // What was said before time passes.
        self.note();
        while self.bench.now() < end {
            let now = self.bench.now();
            let next = match self.drive {
                Drive::EveryMillisecond => (now / MS + 1) * MS,
                // What is overdue is seen to a millisecond later, as in a running gateway.
                Drive::ByDeadline => match self.bench.next_deadline() {
                    Some(at) if at <= now => now + MS,
                    Some(at) => at,
                    None => end,
                },
            };
            self.bench.turn_to(next.min(end));
            self.turns += 1;
            self.note();
        }
    }

    fn note(&mut self) {
        let ms = self.bench.now().div_ceil(MS);
        // Sequence numbers are made up.
        let messages: Vec<_> = self.bench.heard().iter().map(|packet| format!("{:?}", packet.message)).collect();
        let packets: Vec<_> =
            self.bench.received("n3").iter().map(|packet| format!("{} bytes to n3", packet.len())).collect();
        self.sent.extend(messages.into_iter().chain(packets).map(|what| (ms, what)));
        if self.answers {
            self.bench.node_reports();
            self.bench.reports_answered(|response| {
                response.update_bar = Some(UpdateBarInReportResponse {
                    bar_id: BarId(1),
                    dl_buffering_duration: Some(DlBufferingDuration::at_least(2)),
                    ..UpdateBarInReportResponse::default()
                });
            });
        } else {
            self.bench.unasked();
        }
    }
}

/// A session that reports every seven seconds and when it is silent, sleeps, and whose control plane falls silent. Returns
/// what was sent, and in how many turns.
fn life(drive: Drive) -> (Vec<(u64, String)>, u64) {
    let more = "n4.heartbeat_seconds = 10\nn4.session_retention_seconds = 20\nbuffer.seconds = 60";
    let mut life = Life { bench: Bench::new(more), drive, sent: Vec::new(), turns: 0, answers: true };
    life.bench.answer_heartbeats(CP.ip(), Some(RecoveryTimeStamp::from_unix(1_700_000_000)));
    let profile = Profile { measurement_period: Some(7), inactivity_timer: Some(15), ..smf() };
    let (mut session, teid) = connected(&mut life.bench, &profile);
    life.until(1000);
    life.bench.send("n3", &up(teid, &request(UE)));
    life.until(2500);
    let mut idle = session.idle();
    let delay = Some(DownlinkDataNotificationDelay(20));
    idle.update_bar =
        Some(UpdateBar { bar_id: BarId(1), downlink_data_notification_delay: delay, ..UpdateBar::default() });
    assert_eq!(life.bench.modify(&session, idle).cause, Cause::REQUEST_ACCEPTED);
    life.bench.send("n6", &from_router(&response(UE)).build());
    // It is told of after a second, and waits two seconds then; the next is told of anew.
    life.until(20_000);
    life.bench.send("n6", &from_router(&response(UE)).build());
    life.until(25_000);
    // To a gNB that does not answer, neither to ARP nor to Echo Requests.
    let moved = session.connect(access(SILENT, 7));
    assert_eq!(life.bench.modify(&session, moved).cause, Cause::REQUEST_ACCEPTED);
    life.bench.send("n6", &from_router(&response(UE)).build());
    life.until(30_000);
    life.bench.send("n3", &up(teid, &request(UE)));
    // Reports are sent again, and given up, and sent once more half a minute later.
    life.answers = false;
    life.until(80_000);
    life.answers = true;
    life.until(110_000);
    // Heartbeats are not answered: it is lost, and its sessions end.
    life.bench.answer_heartbeats(CP.ip(), None);
    life.answers = false;
    life.until(200_000);
    assert_eq!((life.bench.associations().count(), life.bench.worker_sessions()), (0, 0));
    life.bench.close();
    life.sent.sort_by(|(at, what), (other_at, other)| (what, at).cmp(&(other, other_at)));
    (life.sent, life.turns)
}

#[test]
fn deadlines_miss_nothing_that_polling_sees() {
    let (polled, _) = life(Drive::EveryMillisecond);
    let (slept, turns) = life(Drive::ByDeadline);
    let count = |what: &str| polled.iter().filter(|(_, sent)| sent.contains(what)).count();
    let counts = [
        count("usage_reports: [UsageReport"),
        count("DownlinkDataReport"),
        count("UserPlanePathFailure"),
        count(" to n3"),
    ];
    assert!(
        counts.iter().all(|count| *count > 0) && counts[1] > 1 && polled.len() > 30,
        "{counts:?} of {}",
        polled.len()
    );
    for ((at, what), (slept_at, slept)) in polled.iter().zip(&slept) {
        assert!(what == slept && at.abs_diff(*slept_at) <= 2, "at {at} ms: {what}\nat {slept_at} ms: {slept}");
    }
    assert_eq!(polled.len(), slept.len());
    assert!(turns < 600, "{turns} turns in 200 s");
}
