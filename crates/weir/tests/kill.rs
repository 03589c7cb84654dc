//! kill -9 at any moment, of either side, while traffic flows: no record is lost that was acknowledged, no usage is charged
//! twice, and of usage that was not reported no more is lost than was counted in the stated interval.

mod net;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::{Net, Running, ends_well, example, json, number, ok, until, user_plane, well, within};
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

/// Measures the longest time in which the machine did not let a thread run and write to the disk.
struct Stalls {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Stalls {
    fn watch(file: &Path) -> Self {
        const STEP: Duration = Duration::from_millis(20);
        let stop = Arc::new(AtomicBool::new(false));
        let (mut file, told) = (File::create(file).unwrap(), stop.clone());
        let watch = move || {
            let mut longest = Duration::ZERO;
            while !told.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(STEP);
                file.write_all(b"x").and_then(|()| file.sync_data()).unwrap();
                longest = longest.max(began.elapsed().saturating_sub(STEP));
            }
            longest
        };
        Self { stop, thread: std::thread::spawn(watch) }
    }

    fn longest(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Packets that the gateway has sent.
fn sent(net: &Net) -> u64 {
    let io = |worker: &Value| number(&worker["io"]["tx_packets"]);
    net.show("run")["workers"].as_array().unwrap().iter().map(io).sum()
}

#[test]
fn a_killed_gateway_costs_its_interval_and_nothing_else() {
    const SESSIONS: u64 = 200;
    const INTERVAL: f64 = 1.0;
    const KILLS: u32 = 3;
    const PPS: f64 = 2000.0;
    /// Packets that pass between kills at least.
    const BETWEEN: u64 = 1000;
    let net = Net::new("killed-up");
    let kept = format!("[n4]\nledger = {:?}\ncheckpoint_seconds = {INTERVAL}", net.file("up"));
    let config = user_plane().replace("[n4]", &kept);
    let mut gateway = net.start(&config);
    let cdr = net.file("cdr");
    // A busy machine takes seconds to start a process. Requests (T1 × N1) outlast that: else they fail by the speed of the
    // machine, whatever the gateway does.
    let life = "--sessions 200 --rate 2000 --idle 0 --limits 20 --queries 30 --timeout 0.5 --n1-requests 60 \
                --rating-group 10";
    let control = net.control(&net.host, &format!("{} {life} --ledger {}", example("cp.toml"), cdr.display()));
    // Until it is interrupted: how long restarts take depends on the machine.
    let load = traffic(&net, &format!("--ues {SESSIONS} --pps {PPS} --seconds 300 --ratio 1:1 --sizes 128"));
    let stalls = Stalls::watch(&net.file("stalls"));

    let mut chance = Chance::new();
    for _ in 0..KILLS {
        until("traffic", || (sent(&net) >= BETWEEN).then_some(()));
        chance.wait(700, 2300);
        gateway.kill();
        fs::remove_file(net.file("weir.sock")).unwrap();
        gateway = net.start(&config);
        let said = fs::read_to_string(net.file("run.err")).unwrap();
        assert!(said.contains("200 sessions of 1 control plane restored"), "{said}");
    }
    until("traffic", || (sent(&net) >= BETWEEN).then_some(()));
    let result = json(&well(load.stop()));
    assert!(!records(&cdr).is_empty(), "whoever has the ledger open is asked");
    // The last round's checkpoints and questions are over.
    chance.wait(100, 300);
    let story = json(&well(control.stop()));
    let told = |key: &str| number(&story[key]);
    assert_eq!((told("established"), told("deleted"), told("lost")), (SESSIONS, SESSIONS, 0), "{story}");
    assert_eq!((told("refused"), told("unanswered")), (0, 0), "{story}");
    assert_eq!(net.sessions(), 0);

    let stall = stalls.longest().as_secs_f64();
    println!("the machine stood still for {stall:.3} s at most");
    for (direction, key) in [("uplink", "up_packets"), ("downlink", "down_packets")] {
        let of = |key: &str| number(&result["directions"][direction][key]);
        let (sent, arrived, charged) = (of("sent_packets"), of("forwarded_packets"), number(&story["usage"][key]));
        // A round, the time its writes are gathered, and delays of control, of the ledger's thread, and of the disk.
        let interval = INTERVAL + 0.2 + 0.1 + 3.0 * stall;
        let lost = (f64::from(KILLS) * interval * PPS / 2.0) as u64;
        println!("{direction}: {sent} sent, {arrived} arrived, {charged} charged");
        assert!(arrived >= u64::from(KILLS + 1) * BETWEEN / 3, "{result}");
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

/// Packets of a kind that the running gateway has dropped or taken off the fast path, by the beginning of the reason's name.
fn counted(net: &Net, of: &str, reason: &str) -> u64 {
    let run = net.show("run");
    let all = run["workers"].as_array().unwrap().iter().flat_map(|worker| worker[of].as_array().unwrap());
    let those = all.filter(|entry| entry["reason"].as_str().unwrap().starts_with(reason));
    those.map(|entry| number(&entry["packets"])).sum()
}

#[test]
fn no_packet_waits_for_its_neighbour_after_ready() {
    let net = Net::new("ready");
    let kept = format!("[n4]\nledger = {:?}", net.file("up"));
    let config = user_plane().replace("[n4]", &kept);
    let mut gateway = net.start(&config);
    let mut control = net.control(&net.host, &format!("{} --sessions 2000 --rate 4000 --idle 0", example("cp.toml")));
    gateway.kill();
    fs::remove_file(net.file("weir.sock")).unwrap();

    // The far ends' kernel answers for gNBs and router.
    for n in 100..104 {
        ok(&format!("ip -n {} address add 10.0.3.{n}/24 dev gnb0", net.host));
    }
    ok(&format!("ip -n {} address add 10.0.6.254/24 dev dn0", net.host));
    let gateway = net.start(&config);
    let said = fs::read_to_string(net.file("run.err")).unwrap();
    assert!(said.contains("2,000 sessions of 1 control plane restored"), "{said}");
    assert!(!said.contains("next_hop_silent"), "{said}");
    // Its own stack must not answer tunnel packets.
    ["gnb0", "dn0"].iter().for_each(|link| drop(ok(&format!("ip -n {} address flush dev {link}", net.host))));

    let result = json(&traffic(&net, "--ues 2000 --pps 8000 --seconds 1 --ratio 1:1 --sizes 128").end());
    let arrived = number(&result["directions"]["downlink"]["forwarded_packets"]);
    assert!(arrived > 2000, "{result}");
    assert_eq!((counted(&net, "punted", "resolve"), counted(&net, "drops", "neighbour_")), (0, 0));
    control.kill();
    ends_well(gateway);
}

#[test]
fn a_damaged_ledger_is_set_aside_or_stops_the_gateway() {
    let net = Net::new("damaged");
    let folder = net.file("up");
    let config = |policy: &str| {
        let kept = format!("[n4]\nledger = {folder:?}\nledger_damaged = \"{policy}\"");
        user_plane().replace("[n4]", &kept)
    };
    let gateway = net.start(&config("stop"));
    let control = net.control(&net.host, &format!("{} --sessions 50 --idle 0 --keep", example("cp.toml")));
    well(control.stop());
    ends_well(gateway);
    let file = folder.join("ledger.redb");
    let mut bytes = fs::read(&file).unwrap();
    bytes[4096..].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(&file, bytes).unwrap();
    let check = |path: &Path| Command::new(net::WEIR).args(["ledger", "check"]).arg(path).output().unwrap();
    let checked = check(&folder);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.code() == Some(1) && said.contains("  wrong: at byte "), "{said}");

    fs::write(net.file("upf.toml"), config("stop")).unwrap();
    let stopped = within(&net.gateway, net::WEIR).arg("run").arg(net.file("upf.toml")).output().unwrap();
    let said = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert!(!stopped.status.success() && said.contains("is damaged"), "{said}");

    let gateway = net.start(&config("set_aside"));
    let said = fs::read_to_string(net.file("run.err")).unwrap();
    assert!(said.contains("ledger_set_aside") && said.contains("0 sessions of 0 control planes"), "{said}");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| name(entry.unwrap())).collect();
    assert!(names.iter().any(|name| name.starts_with("ledger.redb.damaged-")), "{names:?}");
    ends_well(gateway);
    well(check(&folder));
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
