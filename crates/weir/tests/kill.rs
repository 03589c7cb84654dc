//! kill -9 at any moment, of either side, while traffic flows: no record is lost that was acknowledged, no usage is charged
//! twice, and of usage that was not reported no more is lost than was counted in the stated interval.

mod net;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use net::{Net, Running, ends_well, example, json, number, until, user_plane, well, within};
use pfcp::Packet;
use pfcp::message::Message;
use serde_json::Value;

/// Moments that differ from run to run, and are told.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        let seed = u64::from(std::process::id()) | 1;
        println!("seed {seed}");
        Self(seed)
    }

    fn wait(&mut self, from: u64, to: u64) {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(from + (self.0 >> 33) % (to - from)));
    }
}

/// The charging records in a folder.
fn records(folder: &Path) -> Vec<Value> {
    let mut command = Command::new(net::WEIR);
    let out = command.args(["cdr", "list", "--json", "--limit", "1000000", "--ledger"]).arg(folder).output();
    serde_json::from_slice(&well(out.unwrap()).stdout).unwrap()
}

/// Which report of which session a record is of.
fn origin(record: &Value) -> (String, u64) {
    (record["upSeid"].as_str().unwrap().to_owned(), number(&record["uRSEQN"]))
}

fn traffic(net: &Net, args: &str) -> Running {
    let mut load = within(&net.host, net::WEIR);
    load.arg("gen").arg(example("gen.toml")).args(args.split_whitespace()).arg("--json");
    Running::start(load, &net.file("gen.err"))
}

#[test]
fn a_killed_gateway_costs_its_interval_and_nothing_else() {
    const SESSIONS: u64 = 200;
    const INTERVAL: f64 = 1.0;
    const KILLS: u32 = 3;
    const PPS: f64 = 2000.0;
    let net = Net::new("killed-up");
    let kept = format!("[n4]\nledger = {:?}\ncheckpoint_seconds = {INTERVAL}", net.file("up"));
    let config = user_plane().replace("[n4]", &kept);
    let mut gateway = net.start(&config);
    let cdr = net.file("cdr");
    // Requests are sent three times: soon enough that not each time falls into another of the gateway's absences.
    let life = "--sessions 200 --rate 2000 --idle 0 --limits 20 --queries 30 --patience 0.9 --rating-group 10";
    let control = net.control(&net.host, &format!("{} {life} --ledger {}", example("cp.toml"), cdr.display()));
    let load = traffic(&net, &format!("--ues {SESSIONS} --pps {PPS} --seconds 10 --ratio 1:1 --sizes 128"));

    let mut chance = Chance::new();
    for _ in 0..KILLS {
        chance.wait(1200, 2800);
        gateway.kill();
        fs::remove_file(net.file("weir.sock")).unwrap();
        gateway = net.start(&config);
        let said = fs::read_to_string(net.file("run.err")).unwrap();
        assert!(said.contains("200 sessions of 1 control plane restored"), "{said}");
    }
    let result = json(&load.end());
    assert!(!records(&cdr).is_empty(), "whoever has the ledger open is asked");
    // The last round's checkpoints and questions are over.
    chance.wait(100, 300);
    let story = json(&well(control.stop()));
    let told = |key: &str| number(&story[key]);
    assert_eq!((told("established"), told("deleted"), told("lost")), (SESSIONS, SESSIONS, 0), "{story}");
    assert_eq!((told("refused"), told("unanswered")), (0, 0), "{story}");
    assert_eq!(net.sessions(), 0);

    for (direction, key) in [("uplink", "up_packets"), ("downlink", "down_packets")] {
        let of = |key: &str| number(&result["directions"][direction][key]);
        let (sent, arrived, charged) = (of("sent_packets"), of("forwarded_packets"), number(&story["usage"][key]));
        // A round, the time its writes are gathered, and the disk's.
        let interval = INTERVAL + 0.2 + 0.3;
        let lost = (f64::from(KILLS) * interval * PPS / 2.0) as u64;
        println!("{direction}: {sent} sent, {arrived} arrived, {charged} charged");
        assert!(arrived > sent / 2, "{result}");
        assert!(charged <= sent, "{direction}: {charged} charged, {sent} sent");
        assert!(charged + lost >= arrived, "{direction}: {charged} charged, {arrived} arrived, {lost} may be lost");
    }

    let records = records(&cdr);
    let numbers: Vec<u64> = records.iter().map(|record| number(&record["localSequenceNumber"])).collect();
    assert_eq!(numbers, (1..=told("records")).collect::<Vec<_>>());
    assert_eq!(records.len() as u64, number(&story["usage"]["reports"]), "a record for each report");
    let origins: HashSet<_> = records.iter().map(origin).collect();
    assert_eq!(origins.len(), records.len(), "no report in two records");
    let sum = |key: &str| records.iter().map(|record| number(&record[key])).sum::<u64>();
    assert_eq!(sum("dataVolumeUplink"), number(&story["usage"]["up_bytes"]));
    assert_eq!(sum("packetsDownlink"), number(&story["usage"]["down_packets"]));
    let last = records.iter().filter(|record| record["causeForRecClosing"] == "normalRelease").count();
    assert_eq!(last as u64, SESSIONS);
    let of_one: Vec<&Value> = records.iter().filter(|record| record["servedIMSI"] == "001010000000007").collect();
    assert!(of_one.iter().all(|record| record["servedIPv4Address"] == "10.60.0.7" && record["ratingGroup"] == 10));
    ends_well(gateway);
}

/// What each side said over PFCP: the octets of the UDP datagrams in a capture.
fn datagrams(pcap: &Path) -> Vec<Packet> {
    let octets = fs::read(pcap).unwrap();
    let (mut rest, mut found) = (octets.get(24..).unwrap_or_default(), Vec::new());
    while let Some((head, after)) = rest.split_at_checked(16) {
        let len = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        // The last one may not have been written whole.
        let Some((frame, after)) = after.split_at_checked(len) else { break };
        // Ethernet, IPv4 without options, UDP.
        found.extend(frame.get(42..).and_then(|datagram| Packet::parse(datagram).ok()));
        rest = after;
    }
    found
}

#[test]
fn a_killed_control_plane_has_every_record_it_acknowledged() {
    let net = Net::new("killed-cp");
    let gateway = net.start(&user_plane());
    let pcap = net.file("n4.pcap");
    let mut dump = within(&net.host, "tcpdump");
    dump.args(["-i", "smf0", "-U", "--immediate-mode", "-B", "16384", "-w"]).arg(&pcap).args(["udp", "port", "8805"]);
    let dump = Running::start(dump, &net.file("dump.err"));
    until("tcpdump", || fs::read_to_string(net.file("dump.err")).unwrap().contains("listening on").then_some(()));
    let cdr = net.file("cdr");
    let load = traffic(&net, "--ues 100 --pps 4000 --seconds 10 --ratio 1:1 --sizes 128");
    // A report for each session every tenth of a second or so.
    let life = "--sessions 100 --rate 2000 --idle 0 --limits 0 --queries 0 --volume-threshold 500";
    let mut chance = Chance::new();
    for _ in 0..3 {
        let mut control = net.control(&net.host, &format!("{} {life} --ledger {}", example("cp.toml"), cdr.display()));
        chance.wait(500, 1500);
        control.kill();
        // Another second, another Recovery Time Stamp.
        std::thread::sleep(Duration::from_millis(1000));
    }
    drop(load);
    dump.stop();

    let (mut asked, mut acknowledged) = (HashMap::new(), Vec::new());
    for Packet { header, message } in datagrams(&pcap) {
        match message {
            Message::SessionReportRequest(report) => {
                asked.insert(header.sequence, report);
            }
            Message::SessionReportResponse(response) if response.cause.is_acceptance() => {
                // It names the session as the user plane numbers it.
                let seid = format!("{:#018x}", header.seid.unwrap());
                let report = asked.get(&header.sequence).expect("a request before it");
                acknowledged
                    .extend(report.usage_reports.iter().map(|usage| (seid.clone(), u64::from(usage.ur_seqn.0))));
            }
            _ => {}
        }
    }
    let records = records(&cdr);
    let kept: HashSet<_> = records.iter().map(origin).collect();
    println!("{} reports acknowledged, {} records", acknowledged.len(), records.len());
    assert!(acknowledged.len() > 100, "{}", acknowledged.len());
    let lost: Vec<_> = acknowledged.iter().filter(|origin| !kept.contains(*origin)).collect();
    assert!(lost.is_empty(), "{} of {} acknowledged reports have no record: {lost:?}", lost.len(), acknowledged.len());
    assert_eq!(kept.len(), records.len(), "no report in two records");
    let numbers: Vec<u64> = records.iter().map(|record| number(&record["localSequenceNumber"])).collect();
    assert_eq!(numbers, (1..=records.len() as u64).collect::<Vec<_>>());
    ends_well(gateway);
}
