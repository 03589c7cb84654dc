//! The user plane under a control plane, both as processes of their own, with gNBs and servers beside them:
//!
//! ```text
//!   host                               gateway
//!   [ smf0 10.0.4.2 ]── veth ──[ eth2 10.0.4.1 ] N4        weir cp    ─►  weir run
//!   [ gnb0 ]─────────── veth ──[ eth0 ] n3                 weir gen  ◄─►
//!   [ dn0  ]─────────── veth ──[ eth1 ] n6
//! ```
//!
//! Namespaces are each test's own and go with it. `tests/net/cp.py` plays those that are not ours.

mod net;

use std::fs;
use std::process::Command;
use std::time::Duration;

use net::{Net, Running, ends_well, example, json, number, root, until, user_plane, well, within};
use serde_json::Value;

const WEIR: &str = net::WEIR;

#[test]
fn sessions_of_a_control_plane_carry_traffic_and_their_end_says_how_much() {
    const SESSIONS: u64 = 2000;
    // 128 bytes on Ethernet, without its header.
    const IP: u64 = 114;
    let net = Net::new("all");
    let lists = "[[acl]]\nrules = [\"permit in udp from any to any\", \"deny out tcp from any to any\"]\n";
    let gateway = net.start(&(user_plane() + lists));
    assert_eq!(net.show("peers")["peers"], Value::Array(Vec::new()));
    let life = "--sessions 2000 --rate 5000 --idle 0.2 --queries 50";
    let control = net.control(&net.host, &format!("{} {life}", example("cp.toml")));
    assert_eq!(net.sessions(), SESSIONS);
    let lines = fs::read_to_string(net.file("out.jsonl")).unwrap();
    assert_eq!(lines.lines().count() as u64, SESSIONS);
    let line: Value = serde_json::from_str(lines.lines().find(|line| line.contains("\"ue\":7,")).unwrap()).unwrap();
    assert_eq!((&line["ue_ip4"], number(&line["uplink_teid"])), (&"10.60.0.8".into(), 0x0100_0007), "{line}");

    let peers = net.show("peers");
    assert_eq!((&peers["peers"][0]["address"], number(&peers["sessions"])), (&"10.0.4.2:8805".into(), SESSIONS));

    // A fifth sleeps by now; packets for them wait until they are paged.
    until("sleepers", || {
        (fs::read_to_string(net.file("cp.err")).unwrap().matches("at work").count() > 1).then_some(())
    });
    let mut load = within(&net.host, WEIR);
    load.arg("gen").arg(example("gen.toml"));
    load.args("--ues 2000 --pps 4000 --seconds 4 --ratio 1:1 --sizes 128 --json".split(' '));
    let result = json(&well(load.output().unwrap()));
    let of = |direction: &str, key: &str| number(&result["directions"][direction][key]);
    for direction in ["uplink", "downlink"] {
        let whole = of(direction, "sent_packets") > 1000 && of(direction, "lost_packets") == 0;
        assert!(whole && of(direction, "misdelivered_packets") == 0, "{result} {}", net.show("drops"));
    }

    // What a subscriber has done is seen: its rules, what it used, what it may, whose it is.
    let one = net.show("sessions --ue 10.60.0.8");
    assert_eq!(
        (&one["addresses"][0], &one["control_plane"]["address"]),
        (&"10.60.0.8".into(), &"10.0.4.2:8805".into()),
        "{one}"
    );
    let has = |kind: &str, says: &str| {
        let mut rules = one["rules"].as_array().unwrap().iter();
        rules.any(|rule| rule["kind"] == kind && rule["text"].as_str().unwrap().contains(says))
    };
    assert!(has("pdr", "teid 0x01000007") && has("far", "to 10.0.3.") && has("qer", "gate open/open"), "{one}");
    assert!(number(&one["usage"][0]["up_packets"]) > 0 && one["credits"].is_array(), "{one}");
    let paths = net.show("peers")["paths"].clone();
    assert!(number(&paths[0]["sessions"]) > 0 && paths[0]["failed"] == Value::Bool(false), "{paths}");
    let acl = net.show("acl");
    assert!(number(&acl[0]["packets"]) > 1000 && number(&acl[1]["packets"]) == 0, "{acl}");
    assert!(number(&acl[2]["packets"]) > 1000 && acl[2]["rule"] == "permit", "{acl}");

    let out = well(control.stop());
    let story = json(&out);
    let told = |key: &str| number(&story[key]);
    assert_eq!((told("established"), told("deleted"), told("up"), told("most_up")), (2000, 2000, 0, 2000), "{story}");
    assert_eq!((told("refused"), told("unanswered")), (0, 0), "{story}");
    assert!(told("idled") >= 400 && told("paged") >= 400 && told("queried") > 50 && told("limited") > 10, "{story}");
    for (direction, key) in [("uplink", "up_bytes"), ("downlink", "down_bytes")] {
        assert_eq!(number(&story["usage"][key]), of(direction, "forwarded_packets") * IP, "{story}\n{result}");
    }
    assert!(story["response_ms"]["establishment"]["p99"].as_f64().unwrap() > 0.0, "{story}");

    assert_eq!((net.sessions(), number(&net.show("peers")["sessions"])), (0, 0));
    assert_eq!(net.show("peers")["peers"], Value::Array(Vec::new()));
    ends_well(gateway);
}

/// Under a control plane on loopback of the gateway's own namespace.
fn on_loopback(net: &Net) -> Running {
    let config = user_plane().replace("\"10.0.4.1\"", "\"127.0.0.1\"").replace("[\"10.0.4.0/24\"]", "[]");
    net.start(&config)
}

#[test]
fn an_independent_control_plane_hears_the_right_causes() {
    let net = Net::new("judge");
    let gateway = on_loopback(&net);
    let pcap = net.file("n4.pcap");
    let mut dump = within(&net.gateway, "tcpdump");
    dump.args(["-i", "lo", "-U", "--immediate-mode", "-w"]).arg(&pcap).args(["udp", "port", "8805"]);
    let dump = Running::start(dump, &net.file("dump.err"));
    until("tcpdump", || fs::read_to_string(net.file("dump.err")).unwrap().contains("listening on").then_some(()));
    let mut client = within(&net.gateway, root().join("target/judge/bin/python3"));
    client.arg(root().join("tests/net/cp.py")).args(["client", "127.0.0.1"]);
    let said = well(client.output().expect("scapy is needed: `make setup` installs it"));
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "13 exchanges as they should be");
    assert_eq!(net.sessions(), 0);
    // Thirteen exchanges are several thousand octets.
    until("the capture", || fs::metadata(&pcap).is_ok_and(|file| file.len() > 2000).then_some(()));
    std::thread::sleep(Duration::from_millis(200));
    dump.stop();

    let mut tshark = Command::new("tshark");
    tshark.arg("-n").arg("-r").arg(&pcap).args(["-Y", "pfcp", "-T", "fields", "-e", "pfcp.msg_type"]);
    tshark.args(["-e", "_ws.malformed", "-e", "_ws.expert.severity", "-e", "_ws.expert.message", "-e", "ip.src"]);
    let out = well(tshark.output().expect("tshark is needed: `make setup` installs it"));
    let lines = String::from_utf8(out.stdout).unwrap();
    let ours: Vec<&str> = lines.lines().filter(|line| line.ends_with("127.0.0.1")).collect();
    assert!(ours.len() >= 13, "{lines}");
    for line in ours {
        let fields: Vec<&str> = line.split('\t').collect();
        // 0x800000 is Wireshark's severity "error".
        let is_error = !fields[1].is_empty() || fields[2].split(',').any(|severity| severity == "8388608");
        assert!(!is_error, "{line}");
    }
    ends_well(gateway);
}

#[test]
fn strangers_do_not_disturb_running_sessions() {
    let net = Net::new("foes");
    let gateway = on_loopback(&net);
    let life = "--upf 127.0.0.1 --address 127.0.0.3 --sessions 50 --rate 1000 --queries 200 --limits 50 --timeout 0.5";
    let control = net.control(&net.gateway, life);
    let mut foe = within(&net.gateway, "python3");
    let out = well(foe.arg(root().join("tests/net/cp.py")).args(["hostile", "127.0.0.1"]).output().unwrap());
    println!("{}", String::from_utf8_lossy(&out.stdout));
    let peers = net.show("peers");
    let counted = |name: &str| peers["counters"].get(name).map_or(0, |counter| number(&counter["value"]));
    for name in ["malformed", "no_association", "associations_full", "requests_refused"] {
        assert!(counted(name) > 100, "{name}: {peers}");
    }
    let mine = peers["peers"].as_array().unwrap().iter().find(|peer| peer["address"] == "127.0.0.3:8805");
    assert_eq!(mine.map(|peer| number(&peer["sessions"])), Some(50), "{peers}");
    assert_eq!(net.sessions(), 50);
    let story = json(&well(control.stop()));
    let told = |key: &str| number(&story[key]);
    assert_eq!((told("refused"), told("unanswered"), told("lost"), told("deleted")), (0, 0, 0, 50), "{story}");
    assert_eq!(net.sessions(), 0);
    ends_well(gateway);
}

#[test]
fn sessions_of_a_lost_control_plane_are_kept_for_a_time() {
    let net = Net::new("lost");
    let pace = "[n4]\nheartbeat_seconds = 1\nsession_retention_seconds = 8";
    let config = user_plane().replace("\"10.0.4.1\"", "\"127.0.0.1\"").replace("[\"10.0.4.0/24\"]", "[]");
    let gateway = net.start(&config.replace("session_retention_seconds = 120", "").replace("[n4]", pace));
    let peer = |address: &str| {
        let peers = net.show("peers")["peers"].as_array().unwrap().clone();
        peers.into_iter().find(|peer| peer["address"] == format!("{address}:8805"))
    };
    for (address, first) in [("127.0.0.3", "10.60.0.1"), ("127.0.0.4", "10.61.0.1")] {
        let life = format!(
            "--upf 127.0.0.1 --address {address} --ue-first {first} --sessions 50 --idle 0 --limits 0 --queries 0"
        );
        let mut control = net.control(&net.gateway, &life);
        until("heartbeats", || peer(address).filter(|peer| peer["answers_heartbeats"] == true));
        control.kill();
    }
    for address in ["127.0.0.3", "127.0.0.4"] {
        until("a loss", || peer(address).filter(|peer| !peer["retention_left_seconds"].is_null()));
    }
    assert_eq!(net.sessions(), 100, "kept for now");
    // One of them comes back and has kept its sessions; the other does not.
    let mut back = within(&net.gateway, "python3");
    well(back.arg(root().join("tests/net/cp.py")).args(["retain", "127.0.0.1", "127.0.0.4"]).output().unwrap());
    until("an end", || (net.sessions() == 50).then_some(()));
    std::thread::sleep(Duration::from_secs(9));
    assert_eq!(net.sessions(), 50, "longer than the lost one's");
    assert!(peer("127.0.0.3").is_none() && peer("127.0.0.4").is_some_and(|peer| number(&peer["sessions"]) == 50));
    ends_well(gateway);
}
