//! Judges from outside: scapy drives this user plane, tshark reads every kind of message it sends. `make setup` installs
//! both.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::packet::eth;
use testkit::pcap::{self, Seen};

use super::super::*;

/// Wireshark's severity "warning" (PI_WARN); errors are above.
const WARNING: u32 = 0x0060_0000;

/// Kinds of messages there are in what was said, of which tshark finds nothing amiss.
fn judged(name: &str, said: &[Vec<u8>]) -> BTreeSet<u8> {
    let frame = |octets: &Vec<u8>| {
        let port = pfcp::PORT;
        eth([2, 0, 0, 0, 4, 1], [2, 0, 0, 0, 4, 9])
            .ip4([10, 0, 4, 1], [10, 0, 4, 9])
            .udp(port, port)
            .payload(octets)
            .build()
    };
    let frames: Vec<Seen> = said.iter().map(|octets| Seen { at: 0, bytes: frame(octets) }).collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("n4-{name}-{}.pcap", std::process::id()));
    pcap::write(&path, &frames).expect("a capture written");
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(&path).args(["-Y", &format!("_ws.malformed or _ws.expert.severity >= {WARNING}")]);
    tshark.args(["-T", "fields", "-e", "frame.number", "-e", "_ws.expert.message"]);
    let output = tshark.output().expect("tshark is needed: `make setup` installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_file(&path).expect("no longer needed");
    let faults: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| {
            let number = line.split('\t').next().and_then(|n| n.parse::<usize>().ok()).unwrap_or(1);
            format!("{line}: {:02x?}", said[number - 1])
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    said.iter().map(|octets| octets[1]).collect()
}

#[test]
fn tshark_reads_every_kind_of_message_a_user_plane_sends() {
    let mut bench = Bench::without_peer("n4.heartbeat_seconds = 10\nn4.sessions = 2\nn4.choose_f_teid = true");
    let hello = AssociationSetupRequest {
        node_id: NodeId::from(CP.ip()),
        recovery_time_stamp: RecoveryTimeStamp::from_unix(1_700_000_000),
        cp_function_features: Some(CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL),
        ..AssociationSetupRequest::default()
    };
    let alive = HeartbeatRequest { recovery_time_stamp: hello.recovery_time_stamp, ..Default::default() };
    bench.say(None, hello.into());
    bench.say(None, alive.into());
    let profile = Profile {
        volume_threshold: Some(150),
        volume_quota: Some(300),
        measurement_period: Some(3),
        inactivity_timer: Some(20),
        maximum_bitrate: Some(Mbr { uplink: 1000, downlink: 1000 }),
        ..smf()
    };
    let (mut session, teid) = connected(&mut bench, &profile);
    // Usage for every reason, in reports, in answers, with events and parts.
    let more = CreateUrr {
        urr_id: UrrId(9),
        measurement_method: MeasurementMethod::VOLUM | MeasurementMethod::EVENT,
        reporting_triggers: ReportingTriggers::EVETH | ReportingTriggers::START | ReportingTriggers::STOPT,
        event_threshold: Some(EventThreshold(1)),
        inactivity_detection_time: Some(InactivityDetectionTime(2)),
        monitoring_time: Some(MonitoringTime::from_unix(1_700_000_004)),
        ..CreateUrr::default()
    };
    let update = UpdatePdr { pdr_id: PdrId(2), urr_ids: vec![UrrId(1), UrrId(9)], ..UpdatePdr::default() };
    let change =
        SessionModificationRequest { create_urrs: vec![more], update_pdrs: vec![update], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    for second in 2..8 {
        bench.turn_to(secs(second));
        (0..2).for_each(|_| bench.send("n3", &up(teid, &request(UE))));
        bench.reports();
    }
    bench.modify(&session, session.query());
    // Waiting packets, a tunnel that is gone, silence, a silent peer and one that is back.
    let idle = session.idle();
    bench.modify(&session, idle);
    bench.send("n6", &from_router(&response(UE)).build());
    bench.reports();
    let wake = session.connect(access(GNB, GNB_TEID));
    bench.modify(&session, wake);
    let ies = [&[16][..], &GNB_TEID.to_be_bytes(), &[133, 0, 4], &GNB.octets()].concat();
    bench.send("n3", &from_gnb(Over::V4).udp(2152, 2152).gtpu_message(26, 0).payload(&ies).build());
    for second in 8..200 {
        bench.turn_to(secs(second));
        bench.reports();
        bench.node_reports();
    }
    let echo = bench.received("n3").iter().rev().find(|frame| frame[43] == 1).map(|frame| [frame[50], frame[51]]);
    let sequence = u16::from_be_bytes(echo.expect("the silent gNB is asked on"));
    bench.send("n3", &from_gnb(Over::V4).udp(2152, 2152).gtpu_message(2, 0).seq(sequence).payload([14, 7]).build());
    bench.node_reports();
    // What is refused: a full gateway, a rule that is not there, an application nobody knows, another version.
    let second = Session { cp_seid: 2, ip4: Some(Ipv4Addr::new(10, 45, 0, 2)), ..Session::default() };
    bench.establish(&second, &smf());
    assert_eq!(bench.establish(&second, &smf()).cause, Cause::NO_RESOURCES_AVAILABLE);
    let gone = RemoveFar { far_id: FarId(77), ..RemoveFar::default() };
    bench.modify(&session, SessionModificationRequest { remove_fars: vec![gone], ..Default::default() });
    bench.say(Some(99), SessionDeletionRequest::default().into());
    bench.say(None, PfdManagementRequest::default().into());
    let sets = SessionSetDeletionRequest { node_id: NodeId::from(CP.ip()), ..Default::default() };
    bench.say_patiently(CP, sets.into());
    bench.datagram(&[0x40, 1, 0, 4, 0, 0, 1, 0]);
    bench.drain(true);
    assert_eq!(bench.delete(&session).cause, Cause::REQUEST_ACCEPTED);
    let release = AssociationReleaseRequest { node_id: NodeId::from(CP.ip()), ..Default::default() };
    bench.say_patiently(CP, release.into());
    bench.settle();
    let kinds = judged("kinds", bench.said());
    let wanted = [1, 2, 4, 6, 7, 10, 11, 12, 15, 51, 53, 55, 56];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), wanted, "all that a user plane says");
    bench.close();
}

#[test]
fn scapy_drives_this_user_plane() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = std::env::var_os("WEIR_JUDGE_PYTHON").map_or(root.join("target/judge/bin/python3"), PathBuf::from);
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let port = socket.local_addr().expect("an address").port().to_string();
    let mut client = Command::new(python);
    client.arg(root.join("tests/judge/pfcp.py")).arg(port).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = client.spawn().expect("scapy is needed: `make setup` installs it");
    let mut bench = Bench::without_peer("");
    let (start, mut datagram, mut said) = (Instant::now(), [0; 65_536], 0);
    while client.try_wait().expect("a child").is_none() {
        if start.elapsed() > Duration::from_secs(120) {
            client.kill().expect("a child");
        }
        let Ok((len, from)) = socket.recv_from(&mut datagram) else { continue };
        bench.datagram_from(from, &datagram[..len]);
        // Heartbeats that confirm requests are answered by the bench.
        for octets in bench.said()[said..].iter().filter(|octets| octets[1] != 1) {
            socket.send_to(octets, from).expect("loopback takes it");
        }
        said = bench.said().len();
    }
    let output = client.wait_with_output().expect("a child");
    let says = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{says}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(says.trim(), "11 exchanges as they should be");
    judged("scapy", bench.said());
    bench.close();
}
