//! The control plane beside a user plane that agrees to everything, without sockets and under a clock of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Parser;
use pfcp::Packet;
use pfcp::group::{OverloadControlInformation, UsageReport, UserPlanePathFailureReport};
use pfcp::ie::*;
use pfcp::message::*;
use pfcp::node::{Config, Event, Node, Role, Time};

use super::plane::{ControlPlane, Stage};
use super::spec::{CpArgs, Spec, spec};

const CP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 4, 2)), pfcp::PORT);
const UP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 4, 1)), pfcp::PORT);

/// The command line of a program of its own.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: CpArgs,
}

fn read(more: &str) -> Result<CpArgs, clap::Error> {
    CommandLine::try_parse_from(format!("cp {more}").split_whitespace()).map(|line| line.args)
}

pub fn args(more: &str) -> CpArgs {
    read(more).unwrap()
}

fn of(more: &str) -> Spec {
    spec(&args(&format!("--upf 10.0.4.1 {more}"))).unwrap()
}

/// Both sides, joined.
struct Pair {
    cp: ControlPlane,
    up: Node,
    now: Time,
    /// The user plane refuses sessions beyond that.
    room: usize,
    sessions: usize,
    /// The share of requests it wants kept back, in per cent.
    reduction: Option<u8>,
    /// Reports of its that were taken.
    taken: usize,
}

impl Pair {
    fn new(spec: Spec) -> Self {
        let started = RecoveryTimeStamp::from_unix(1_700_000_000);
        let config = Config::new(NodeId::from(UP.ip()), Role::UserPlane(UpFunctionFeatures::FTUP));
        let cp = ControlPlane::new(spec, CP.ip(), started, Time::ZERO);
        Self {
            cp,
            up: Node::new(config, started),
            now: Time::ZERO,
            room: usize::MAX,
            sessions: 0,
            reduction: None,
            taken: 0,
        }
    }

    /// Time passes, a millisecond at a time.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += Time::from_millis(1);
            self.cp.turn(self.now);
            let mut said = Vec::new();
            self.cp.drain(|_, datagram| said.push(datagram.to_vec()));
            said.iter().for_each(|datagram| self.up.receive(CP, datagram, self.now));
            self.up.tick(self.now);
            self.answer();
            let mut said = Vec::new();
            self.up.drain(|_, datagram| said.push(datagram.to_vec()));
            said.iter().for_each(|datagram| self.cp.receive(UP, datagram, self.now));
        }
    }

    fn answer(&mut self) {
        while let Some(event) = self.up.next_event() {
            let (ticket, packet) = match event {
                Event::Request { ticket, packet, .. } => (ticket, packet),
                Event::Response { packet: Packet { message: Message::NodeReportResponse(response), .. }, .. } => {
                    self.taken += usize::from(response.cause.is_acceptance());
                    continue;
                }
                _ => continue,
            };
            let cause = Cause::REQUEST_ACCEPTED;
            let (seid, response): (u64, Message) = match packet.message {
                Message::SessionEstablishmentRequest(request) => {
                    let cause = if self.sessions < self.room { cause } else { Cause::NO_RESOURCES_AVAILABLE };
                    self.sessions += usize::from(cause.is_acceptance());
                    let seid = request.cp_f_seid.seid;
                    let up_f_seid = Some(FSeid::new(seid + 100, UP.ip()));
                    let node_id = NodeId::from(UP.ip());
                    let overload_control_information = self.reduction.map(|share| OverloadControlInformation {
                        overload_control_sequence_number: SequenceNumber(share.into()),
                        overload_reduction_metric: Metric(share),
                        period_of_validity: Timer::at_least(2),
                        ..Default::default()
                    });
                    let more = SessionEstablishmentResponse { overload_control_information, ..Default::default() };
                    (seid, SessionEstablishmentResponse { node_id, cause, up_f_seid, ..more }.into())
                }
                Message::SessionModificationRequest(_) => {
                    (0, SessionModificationResponse { cause, ..Default::default() }.into())
                }
                Message::SessionDeletionRequest(_) => {
                    self.sessions -= 1;
                    let volume = VolumeMeasurement { uplink: Some(10), downlink: Some(20), ..Default::default() };
                    let report = UsageReport { volume_measurement: Some(volume), ..Default::default() };
                    let usage_reports = vec![report];
                    (0, SessionDeletionResponse { cause, usage_reports, ..Default::default() }.into())
                }
                _ => continue,
            };
            self.up.respond(ticket, Some(seid), response, self.now);
        }
    }

    /// The user plane tells of packets for a subscriber.
    fn packets_wait(&mut self, i: u64) {
        let report = pfcp::group::DownlinkDataReport { pdr_ids: vec![PdrId(1)], ..Default::default() };
        let request = SessionReportRequest {
            report_type: ReportType::DLDR,
            downlink_data_report: Some(report),
            ..Default::default()
        };
        let seid = self.cp.subscribers()[i as usize].session.cp_seid;
        self.up.request(CP, Some(seid), request.into(), 0, self.now).unwrap();
    }
}

#[test]
fn sessions_come_up_at_their_rate_and_go_at_the_end() {
    let mut pair = Pair::new(of("--sessions 100 --rate 100"));
    pair.run(500);
    let (up, _) = pair.cp.up();
    assert!((45..=55).contains(&up), "{up} after half a second");
    pair.run(700);
    assert_eq!((pair.cp.up(), pair.cp.stage()), ((100, 100), Stage::Working));
    assert_eq!(pair.cp.tally().counts.connected, 100);
    assert!(pair.cp.bring_up().1.is_some());
    pair.cp.end(false);
    pair.run(20);
    assert_eq!((pair.cp.up(), pair.cp.stage(), pair.sessions), ((0, 100), Stage::Over, 0));
    assert_eq!(pair.cp.tally().usage.down_bytes, 2000);
    assert_eq!(pair.up.associations().count(), 0);
}

#[test]
fn sleepers_wake_when_packets_wait_and_sleep_again() {
    let mut pair = Pair::new(of("--sessions 10 --rate 10000 --idle 0.2 --paging-ms 30 --idle-again 0.5"));
    pair.run(20);
    assert_eq!((pair.cp.tally().counts.idled, pair.cp.idle()), (2, 2));
    pair.packets_wait(4);
    pair.run(20);
    assert_eq!(pair.cp.idle(), 2, "paging takes its time");
    pair.run(30);
    assert_eq!((pair.cp.tally().counts.paged, pair.cp.idle()), (1, 1));
    pair.run(500);
    assert_eq!(pair.cp.idle(), 2);
}

#[test]
fn lives_are_lived_at_their_rates() {
    let mut pair = Pair::new(of("--sessions 50 --rate 10000 --handovers 20 --limits 30 --queries 40 --churn 10"));
    pair.run(1020);
    let counts = pair.cp.tally().counts;
    for (done, wanted) in [(counts.handed_over, 20), (counts.limited, 30), (counts.queried, 40), (counts.deleted, 10)] {
        assert!(done.abs_diff(wanted) <= 2, "{counts:?}");
    }
    pair.run(20);
    assert_eq!((pair.cp.up().0, pair.cp.tally().counts.refused), (50, 0));
}

#[test]
fn what_is_refused_is_counted_by_cause() {
    let mut pair = Pair::new(of("--sessions 5 --rate 10000"));
    pair.room = 3;
    pair.run(50);
    assert_eq!((pair.cp.up().0, pair.cp.tally().counts.refused), (3, 2));
    let causes: Vec<_> = pair.cp.tally().refused.keys().copied().collect();
    assert_eq!(causes, [Cause::NO_RESOURCES_AVAILABLE]);
    assert!(pair.cp.bring_up().1.is_some(), "nothing more will come up");
}

/// TS 29.244, 6.2.7.3: no new sessions for who asks to be released; those there are stay, and end in order.
#[test]
fn who_asks_to_be_released_gets_no_new_sessions() {
    let mut pair = Pair::new(of("--sessions 100 --rate 100 --churn 20"));
    pair.run(300);
    let (up, _) = pair.cp.up();
    assert!((25..=35).contains(&up), "{up} after a third of a second");
    let request = AssociationUpdateRequest {
        node_id: NodeId::from(UP.ip()),
        pfcp_association_release_request: Some(PfcpAssociationReleaseRequest::SARR),
        graceful_release_period: Some(GracefulReleasePeriod::at_least(900)),
        ..Default::default()
    };
    pair.up.request(CP, None, request.into(), 0, pair.now).unwrap();
    pair.run(20);
    let counts = pair.cp.tally().counts;
    assert_eq!((counts.asked_to_release, pair.cp.up().0), (1, pair.sessions as u32));
    pair.run(500);
    let established = pair.cp.tally().counts.established;
    assert!(established <= counts.established + 1, "{established}: none is established any more");
    assert!(pair.cp.up().0 > 0, "those that are up stay");
    pair.cp.end(false);
    pair.run(100);
    assert_eq!((pair.cp.up().0, pair.cp.stage(), pair.sessions), (0, Stage::Over, 0));
}

/// TS 29.244, 6.2.4: what is not urgent is kept back, as much of it and as long as the user plane says.
#[test]
fn who_has_too_much_to_do_is_asked_for_less() {
    let mut pair = Pair::new(of("--sessions 1000 --rate 200 --handovers 50"));
    let features = pair.up.associations().next().and_then(|(_, peer)| peer.cp_function_features);
    assert_eq!(features, None, "not yet");
    pair.run(500);
    let features = pair.up.associations().next().and_then(|(_, peer)| peer.cp_function_features);
    assert_eq!(features, Some(CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL));
    let before = pair.cp.up().0;
    pair.reduction = Some(75);
    pair.run(1000);
    let less = pair.cp.up().0 - before;
    assert!((45..=60).contains(&less), "{less} of 200 in a second");
    assert!(pair.cp.tally().counts.kept_back.abs_diff(150) < 10);
    // It does not say so any more: after two seconds at most all is as it was, and nobody was forgotten.
    pair.reduction = None;
    pair.run(2100);
    let before = pair.cp.up().0;
    pair.run(1000);
    assert!((pair.cp.up().0 - before).abs_diff(200) <= 5);
    pair.run(3000);
    assert_eq!((pair.cp.up().0, pair.cp.tally().counts.refused), (1000, 0));
}

#[test]
fn reports_about_gtp_u_peers_are_taken_note_of() {
    let mut pair = Pair::new(of("--sessions 1"));
    pair.run(20);
    let peer = RemoteGtpUPeer { ip4: Some(Ipv4Addr::new(10, 0, 3, 100)), ..Default::default() };
    let failed = UserPlanePathFailureReport { remote_gtp_u_peers: vec![peer], ..Default::default() };
    let report = NodeReportRequest {
        node_id: NodeId::from(UP.ip()),
        node_report_type: NodeReportType::UPFR,
        user_plane_path_failure_report: Some(failed),
        ..Default::default()
    };
    pair.up.request(CP, None, report.into(), 5, pair.now).unwrap();
    pair.run(2);
    assert_eq!(pair.cp.tally().kinds.get("gtpu_peer_silent"), Some(&1));
    assert_eq!(pair.taken, 1, "and acknowledged");
}

#[test]
fn nobody_there_is_an_end() {
    let mut cp = ControlPlane::new(of("--timeout 0.1"), CP.ip(), RecoveryTimeStamp::from_unix(1), Time::ZERO);
    for ms in 0..400 {
        cp.turn(Time::from_millis(ms));
        cp.drain(|_, _| {});
    }
    assert!(matches!(cp.stage(), Stage::Failed(_)));
}

#[test]
fn tunnels_are_by_formula_where_we_choose_them() {
    let mut pair = Pair::new(of("--sessions 3 --rate 10000 --upf-n3 10.0.3.1 --gnbs 2"));
    pair.run(20);
    let line = pair.cp.subscribers()[2].line(2, &pair.cp.spec().profile);
    assert_eq!((line.uplink_teid, line.downlink_teid), (Some(0x0100_0002), Some(0x0200_0002)));
    assert_eq!(line.gnb, Some(Ipv4Addr::new(10, 0, 3, 100).into()));
    assert_eq!(line.ue_ip4, Some(Ipv4Addr::new(10, 60, 0, 3)));
}

#[test]
fn mistakes_are_told() {
    for (line, word) in [
        ("", "--upf"),
        ("--upf 10.0.4.1 --idle 2", "share"),
        ("--upf 10.0.4.1 --gnbs 0", "gnbs"),
        ("--upf 10.0.4.1 --kind sgw-c", "--core-first"),
        ("--upf 10.0.4.1 --ue-first 255.255.255.0", "ue_first"),
    ] {
        let said = spec(&args(line.trim())).unwrap_err().to_string();
        assert!(said.contains(word), "{line}: {said}");
    }
    assert!(read("--upf nowhere").is_err());
}
