//! `weir run --take-over`: a process goes on for another with traffic through, several times in a row, and no packet is lost,
//! late or counted twice; a process that fails on its way leaves the running one as it was.
//!
//! ```text
//!   host                               gateway
//!   [ smf0 10.0.4.2 ]── veth ──[ eth2 10.0.4.1 ] N4        weir cp    ─►  weir run, weir run --take-over, …
//!   [ gnb0 ]─────────── veth ──[ eth0 ] n3                 weir gen  ◄─►
//!   [ dn0  ]─────────── veth ──[ eth1 ] n6
//! ```
//! `WEIR_TAKE_OVER="SESSIONS PPS"` sets how much there is of both, `WEIR_BINARY` another build to run.

mod net;

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Batch, Pool, PortHandover};
use gateway::shell::hand_over::{Kind, Link};
use net::{Net, Running, example, json, number, ok, until, user_plane, well, within};
use serde_json::{Value, json as object};

/// Octets of a packet of 128 bytes on Ethernet, without its header.
const IP: u64 = 114;
const TIMES: usize = 3;
/// Seconds of traffic before a take-over, and after the last.
const BETWEEN: f64 = 2.0;

fn binary() -> OsString {
    std::env::var_os("WEIR_BINARY").unwrap_or_else(|| net::WEIR.into())
}

/// Sessions, and packets a second.
fn size() -> (u64, u64) {
    let text = std::env::var("WEIR_TAKE_OVER").unwrap_or_else(|_| "1000 4000".to_owned());
    let mut words = text.split_whitespace().map(|word| word.parse().expect("a number"));
    (words.next().expect("sessions"), words.next().expect("packets a second"))
}

/// Starts the nth gateway and waits until it says so.
fn start(net: &Net, n: usize, more: &[&str]) -> Running {
    let mut command = within(&net.gateway, binary());
    command.arg("run").arg(net.file("upf.toml")).args(["--json", "--socket"]).arg(net.file("weir.sock")).args(more);
    let running = Running::start(command, &net.file(&format!("{n}.err")));
    wait_for(net, n, "ready after");
    running
}

fn said(net: &Net, n: usize) -> String {
    fs::read_to_string(net.file(&format!("{n}.err"))).unwrap()
}

fn wait_for(net: &Net, n: usize, what: &str) {
    let begin = Instant::now();
    while !said(net, n).contains(what) {
        assert!(begin.elapsed() < Duration::from_secs(120), "{what}: {}", said(net, n));
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn configure(net: &Net) {
    fs::write(net.file("upf.toml"), user_plane()).unwrap();
}

/// A control plane with sessions, of which some sleep until packets come.
fn control(net: &Net, sessions: u64, more: &str) -> Running {
    let mut command = within(&net.host, binary());
    let args = format!("--sessions {sessions} --rate 5000 {more} --json --sessions-out");
    command.arg("cp").arg(example("cp.toml")).args(args.split_whitespace()).arg(net.file("out.jsonl"));
    let running = Running::start(command, &net.file("cp.err"));
    let begin = Instant::now();
    while !fs::read_to_string(net.file("cp.err")).unwrap().contains("sessions up") {
        assert!(begin.elapsed() < Duration::from_secs(120), "no sessions");
        std::thread::sleep(Duration::from_millis(10));
    }
    running
}

fn traffic(net: &Net, sessions: u64, pps: u64, seconds: f64) -> Running {
    let mut load = within(&net.host, binary());
    let args = format!("--ues {sessions} --pps {pps} --seconds {seconds} --ratio 1:1 --sizes 128 --json");
    load.arg("gen").arg(example("gen.toml")).args(args.split_whitespace());
    Running::start(load, &net.file("gen.err"))
}

/// What a process has dropped, by its last counters.
fn drops(last: &Value) -> Vec<Value> {
    last["workers"].as_array().unwrap().iter().map(|worker| worker["drops"].clone()).collect()
}

/// Every packet came, once, whole and in order; `dropped` tells what gateways know of one that did not.
fn assert_complete(result: &Value, dropped: &[Vec<Value>]) {
    for direction in ["uplink", "downlink"] {
        let of = |key: &str| number(&result["directions"][direction][key]);
        assert!(of("sent_packets") > 1000, "{result}");
        let wrong =
            ["lost_packets", "reordered_packets", "duplicated_packets", "corrupt_packets", "misdelivered_packets"];
        for key in wrong {
            assert_eq!(of(key), 0, "{direction} {key}: {dropped:?} {result}");
        }
    }
}

/// A number that an event of the log has.
fn field(text: &str, key: &str) -> u64 {
    let (_, after) = text.split_once(&format!(" {key}=")).unwrap_or_else(|| panic!("{key}: {text}"));
    after.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn nothing_is_lost_when_processes_take_over() {
    let (sessions, pps) = size();
    let net = Net::new("take");
    configure(&net);
    let mut gateway = start(&net, 0, &[]);
    let control = control(&net, sessions, "--idle 0.2 --queries 50");
    assert_eq!(net.sessions(), sessions);
    let seconds = BETWEEN * (TIMES + 1) as f64 + TIMES as f64 * (2.0 + sessions as f64 / 5000.0);
    let load = traffic(&net, sessions, pps, seconds);
    std::thread::sleep(Duration::from_secs_f64(BETWEEN));
    let mut dropped = Vec::new();
    for n in 1..=TIMES {
        let next = start(&net, n, &["--take-over"]);
        let out = well(gateway.end_anyhow());
        let last = json(&out);
        let missing = |worker: &Value| worker["missing"].as_i64().unwrap();
        let workers = last["workers"].as_array().unwrap();
        assert!(workers.iter().all(|worker| missing(worker) == 0), "the law of packets holds: {last}");
        dropped.push(drops(&last));
        let told = said(&net, n - 1);
        let parts = ["stop_us", "settle_us", "export_us", "load_us", "import_us", "import_cpu_us", "run_us"];
        let parts: Vec<_> = parts.iter().map(|key| format!("{key}={}", field(&told, key))).collect();
        let frozen = field(&told, "frozen_us");
        println!("{sessions} sessions, {pps} packets/s: frozen {frozen} µs: {}", parts.join(" "));
        assert_eq!(net.sessions(), sessions);
        assert_eq!(number(&net.show("peers")["sessions"]), sessions);
        gateway = next;
        std::thread::sleep(Duration::from_secs_f64(BETWEEN));
    }
    let result = json(&well(load.end()));
    dropped.push(vec![net.show("drops"), net.show("ports")]);
    assert_complete(&result, &dropped);

    let story = json(&well(control.stop()));
    let told = |key: &str| number(&story[key]);
    assert_eq!((told("established"), told("deleted"), told("up")), (sessions, sessions, 0), "{story}");
    assert_eq!((told("refused"), told("unanswered")), (0, 0), "{story}");
    for (direction, key) in [("uplink", "up_bytes"), ("downlink", "down_bytes")] {
        let forwarded = number(&result["directions"][direction]["forwarded_packets"]);
        assert_eq!(number(&story["usage"][key]), forwarded * IP, "{story}\n{result}");
    }
    assert_eq!(net.sessions(), 0);
    let out = well(gateway.stop());
    let last = json(&out);
    assert!(last["workers"].as_array().unwrap().iter().all(|worker| worker["missing"] == 0), "{last}");
}

/// The next process, which goes on for the nth; the law of packets holds in both.
fn take_over(net: &Net, gateway: Running, n: usize, dropped: &mut Vec<Vec<Value>>) -> Running {
    let next = start(net, n + 1, &["--take-over"]);
    let last = json(&well(gateway.end_anyhow()));
    assert!(last["workers"].as_array().unwrap().iter().all(|worker| worker["missing"] == 0), "{last}");
    assert!(said(net, n).contains("take_over_done"), "{}", said(net, n));
    dropped.push(drops(&last));
    next
}

/// Ends in good order: no packet and no packet buffer is missing.
fn stop(net: &Net, gateway: Running, n: usize) {
    well(gateway.stop());
    let told = said(net, n);
    assert_eq!((field(&told, "packets_missing"), field(&told, "packet_buffers_missing")), (0, 0), "{told}");
}

/// Take-overs in a row with AF_XDP ports.
const XDP_TIMES: usize = 20;

/// Packet buffers there are, and those in depot, pools and ports: every one is in one place.
fn buffers(net: &Net) -> (u64, u64) {
    let run = net.show("run");
    let io = |worker: &Value, id: &str| number(&worker["io"][id]);
    let of_workers: u64 =
        run["workers"].as_array().unwrap().iter().map(|w| io(w, "free_slots") + io(w, "port_slots")).sum();
    (number(&run["frames"]["packet_buffers"]), number(&run["frames"]["depot"]) + of_workers)
}

#[test]
fn af_xdp_ports_go_to_the_new_process() {
    let (sessions, pps) = size();
    let net = Net::new("xdp");
    let text = user_plane();
    let xdp = text.replace("packet:eth0?mode=auto", "xdp:eth0").replace("packet:eth1?mode=auto", "xdp:eth1");
    assert_eq!(xdp.matches("uri = \"xdp:").count(), 2, "{xdp}");
    fs::write(net.file("upf.toml"), &xdp).unwrap();
    let mut gateway = start(&net, 0, &[]);
    let control = control(&net, sessions, "--idle 0.2 --queries 50");
    let seconds = (XDP_TIMES as f64) * (2.0 + sessions as f64 / 5000.0);
    let load = traffic(&net, sessions, pps, seconds);
    std::thread::sleep(Duration::from_secs_f64(BETWEEN));
    let mut dropped = Vec::new();
    for n in 0..XDP_TIMES {
        gateway = take_over(&net, gateway, n, &mut dropped);
        println!("frozen {} µs", field(&said(&net, n), "frozen_us"));
        assert_eq!(net.sessions(), sessions);
    }
    let result = json(&well(load.end()));
    dropped.push(vec![net.show("drops"), net.show("ports")]);
    assert_complete(&result, &dropped);
    let story = json(&well(control.stop()));
    assert_eq!((number(&story["deleted"]), number(&story["refused"])), (sessions, 0), "{story}");
    for (direction, key) in [("uplink", "up_bytes"), ("downlink", "down_bytes")] {
        let forwarded = number(&result["directions"][direction]["forwarded_packets"]);
        assert_eq!(number(&story["usage"][key]), forwarded * IP, "{story}\n{result}");
    }
    until("every packet buffer in one place", || {
        let (there_are, found) = buffers(&net);
        assert!(found <= there_are, "a buffer in two places: {found} of {there_are}");
        (found == there_are).then_some(())
    });
    // Other packet memory cannot be gone on with.
    fs::write(net.file("other.toml"), xdp + "\n[frames]\npacket_buffers = 8192\n").unwrap();
    let mut other = within(&net.gateway, binary());
    other.arg("run").arg(net.file("other.toml")).arg("--take-over").arg("--socket").arg(net.file("weir.sock"));
    let why = String::from_utf8_lossy(&other.output().unwrap().stderr).into_owned();
    assert!(why.contains("[frames], whose buffers xdp: ports share, differs"), "{why}");
    stop(&net, gateway, XDP_TIMES);
}

#[test]
fn sessions_in_the_kernel_go_to_the_new_process() {
    let (sessions, pps) = size();
    let net = Net::new("fast");
    // Redirected packets are received only with NAPI, which generic receive offload brings.
    for device in ["gnb0", "dn0"] {
        ok(&format!("ip netns exec {} ethtool -K {device} tso off gso off tx off gro on", net.host));
    }
    let mut text = user_plane();
    for port in ["eth0", "eth1"] {
        let uri = format!("uri = \"packet:{port}?mode=auto\"");
        assert!(text.contains(&uri), "{text}");
        text = text.replace(&uri, &format!("uri = \"xdp:{port}?copy=yes\"\nfast_path = \"only\""));
    }
    fs::write(net.file("upf.toml"), &text).unwrap();
    let mut gateway = start(&net, 0, &[]);
    let control = control(&net, sessions, "--idle 0 --queries 50");
    let seconds = BETWEEN * (TIMES + 1) as f64 + TIMES as f64 * (2.0 + sessions as f64 / 5000.0);
    let mut load = within(&net.host, binary());
    let args = format!("--ues {sessions} --pps {pps} --seconds {seconds} --ratio 1:1 --sizes 128 --json");
    let config = fs::read_to_string(example("gen.toml")).unwrap();
    assert_eq!(config.matches("?mode=auto").count(), 2, "{config}");
    fs::write(net.file("gen.toml"), config.replace("?mode=auto", "?mode=auto&offloads=keep")).unwrap();
    load.arg("gen").arg(net.file("gen.toml")).args(args.split_whitespace());
    let load = Running::start(load, &net.file("gen.err"));
    std::thread::sleep(Duration::from_secs_f64(BETWEEN));
    let (mut dropped, mut in_kernel) = (Vec::new(), Vec::new());
    for n in 0..TIMES {
        in_kernel.push(number(&net.show("run")["kernel"]["up_packets"]));
        gateway = take_over(&net, gateway, n, &mut dropped);
        println!("frozen {} µs", field(&said(&net, n), "frozen_us"));
        std::thread::sleep(Duration::from_secs_f64(BETWEEN));
    }
    let result = json(&well(load.end()));
    in_kernel.push(number(&net.show("run")["kernel"]["up_packets"]));
    println!("forwarded in the kernel, of each process: {in_kernel:?}");
    assert!(in_kernel.iter().all(|packets| *packets > pps / 4), "each has sessions in the kernel: {in_kernel:?}");
    dropped.push(vec![net.show("drops"), net.show("ports")]);
    assert_complete(&result, &dropped);
    let story = json(&well(control.stop()));
    assert_eq!((number(&story["deleted"]), number(&story["refused"])), (sessions, 0), "{story}");
    for (direction, key) in [("uplink", "up_bytes"), ("downlink", "down_bytes")] {
        let forwarded = number(&result["directions"][direction]["forwarded_packets"]);
        assert_eq!(number(&story["usage"][key]), forwarded * IP, "{story}\n{result}");
    }
    stop(&net, gateway, TIMES);
}

#[test]
fn process_killed_as_it_takes_over_leaves_af_xdp_ports() {
    let net = Net::new("xdpk");
    let xdp = user_plane().replace("packet:eth0?mode=auto", "xdp:eth0").replace("packet:eth1?mode=auto", "xdp:eth1");
    fs::write(net.file("upf.toml"), &xdp).unwrap();
    let gateway = start(&net, 0, &[]);
    let control = control(&net, 200, "--idle 0 --queries 20");
    let load = traffic(&net, 200, 4000, 8.0);
    let ports = object!([["n3", "xdp:eth0"], ["n6", "xdp:eth1"]]);
    let question = question_of(&net, ports, object!([16384, 2048]));
    let steps = [Kind::Memory, Kind::Port, Kind::Synced, Kind::Arm, Kind::Buffers, Kind::Frozen, Kind::Go];
    for (n, last) in (1..).zip(steps) {
        take_until(&net, &question, last);
        until("a failure that is noticed", || (said(&net, 0).matches("take_over_failed").count() == n).then_some(()));
        assert_eq!(net.sessions(), 200, "after {last:?}");
    }
    let result = json(&well(load.end()));
    assert_complete(&result, &[]);
    let mut dropped = Vec::new();
    let gateway = take_over(&net, gateway, 0, &mut dropped);
    let story = json(&well(control.stop()));
    assert_eq!((number(&story["deleted"]), number(&story["refused"])), (200, 0), "{story}");
    stop(&net, gateway, 1);
}

/// Goes on for the running gateway as a process that receives what waits, lets more come, and is killed before it says that it runs.
fn run_for_a_moment(net: &Net, question: &Value) -> usize {
    let (stream, answer) = ask(net, question);
    assert!(answer.get("error").is_none(), "{answer}");
    let mut link = Link::new(stream);
    let (mut ports, mut memory, mut positions) = (Vec::new(), None, Value::Null);
    loop {
        let mut message = link.receive(Some(Duration::from_secs(20))).unwrap();
        let reply = match message.kind {
            Kind::Helper => {
                let client = port::helper::Client::new(message.descriptors.remove(0)).unwrap();
                assert!(port::helper::connect(client).is_ok(), "one in a process's life");
                continue;
            }
            Kind::Memory => {
                memory = Some(message.descriptors.remove(0));
                continue;
            }
            Kind::Port => {
                let note: Value = serde_json::from_slice(&message.octets).unwrap();
                let text = note["text"].as_str().unwrap().to_owned();
                ports.push(PortHandover { descriptors: message.descriptors, text });
                continue;
            }
            Kind::Synced => Kind::Ready,
            Kind::Arm => Kind::Armed,
            Kind::Frozen => {
                let note: Value = serde_json::from_slice(&message.octets).unwrap();
                positions = note["positions"][0].clone();
                Kind::Loaded
            }
            Kind::Go => break,
            _ => continue,
        };
        link.send(reply, &[], &[]).unwrap();
    }
    let arena = Arena::of_file(ArenaConfig::default(), memory.unwrap()).unwrap();
    let (mut pool, mut batch) = (Pool::new(&arena, 16_384), Batch::new());
    port::set_borrowed(true);
    let mut received = 0;
    // It ends with its sockets, and without asking the helper for anything.
    let mut kept = Vec::new();
    for (n, (handed, interface)) in ports.into_iter().zip(["eth0", "eth1"]).enumerate() {
        let uri = format!("xdp:{interface}?copy=yes").parse().unwrap();
        let mut port = port::take_over(&uri, &port::Steer::default(), &arena, handed).unwrap();
        let position: Vec<u64> = serde_json::from_value(positions[n].clone()).unwrap();
        assert!(port.go_on_at(&position));
        let (before, until) = (received, Instant::now() + Duration::from_secs(5));
        while received == before && Instant::now() < until {
            received += port.rx_burst(&mut pool, &mut batch);
            while let Some(frame) = batch.pop() {
                pool.give(frame);
            }
        }
        kept.push(port);
    }
    // More comes than it takes.
    std::thread::sleep(Duration::from_millis(50));
    received
}

/// Killed between `go` and `running`: the old process opens the ports that were used again, counts what waited in them, and has
/// sessions in the kernel again.
#[test]
fn ports_of_a_process_that_ran_for_a_moment_are_opened_again() {
    let net = Net::new("moment");
    for device in ["gnb0", "dn0"] {
        ok(&format!("ip netns exec {} ethtool -K {device} tso off gso off tx off gro on", net.host));
    }
    let mut text = user_plane();
    for port in ["eth0", "eth1"] {
        let uri = format!("uri = \"packet:{port}?mode=auto\"");
        text = text.replace(&uri, &format!("uri = \"xdp:{port}?copy=yes\"\nfast_path = \"only\""));
    }
    fs::write(net.file("upf.toml"), &text).unwrap();
    let gateway = start(&net, 0, &[]);
    let control = control(&net, 200, "--idle 0 --queries 20");
    let config = fs::read_to_string(example("gen.toml")).unwrap();
    fs::write(net.file("gen.toml"), config.replace("?mode=auto", "?mode=auto&offloads=keep")).unwrap();
    let mut load = within(&net.host, binary());
    load.arg("gen").arg(net.file("gen.toml"));
    load.args("--ues 200 --pps 4000 --seconds 10 --ratio 1:1 --sizes 128 --json".split(' '));
    let load = Running::start(load, &net.file("gen.err"));
    let kernel = || number(&net.show("run")["kernel"]["up_packets"]);
    until("packets in the kernel", || (kernel() > 1000).then_some(()));
    let ports = object!([["n3", "xdp:eth0?copy=yes"], ["n6", "xdp:eth1?copy=yes"]]);
    let received = run_for_a_moment(&net, &question_of(&net, ports, object!([16384, 2048])));
    assert!(received > 1, "it received packets of both ports: {received}");
    until("a failure that is noticed", || said(&net, 0).contains("take_over_failed").then_some(()));
    let abandoned = || -> u64 {
        let drops = net.show("drops");
        let all = drops.as_array().unwrap().iter();
        all.filter(|drop| drop["reason"] == "port_abandoned").map(|drop| number(&drop["packets"])).sum()
    };
    until("packets that waited are counted", || (abandoned() > 10).then_some(()));
    // Sessions go into the kernel again, and nearly all of their packets.
    std::thread::sleep(Duration::from_secs(2));
    let (before, left) = (kernel(), || number(&net.show("run")["kernel"]["left_packets"]));
    let left_before = left();
    std::thread::sleep(Duration::from_secs(1));
    let (in_kernel, left) = (kernel() - before, left() - left_before);
    assert!(in_kernel > 1000 && left < in_kernel / 4, "{in_kernel} in the kernel, {left} left to workers");
    well(load.end());
    until("every packet buffer in one place", || {
        let (there_are, found) = buffers(&net);
        (found == there_are).then_some(())
    });
    // And then it succeeds.
    let mut dropped = Vec::new();
    let gateway = take_over(&net, gateway, 0, &mut dropped);
    let story = json(&well(control.stop()));
    assert_eq!((number(&story["deleted"]), number(&story["refused"])), (200, 0), "{story}");
    stop(&net, gateway, 1);
}

/// The cable gateway of the examples between the two pairs; `changed`: what stands instead of what.
fn cable_gateway(net: &Net, changed: &[(&str, &str)]) {
    let text = fs::read_to_string(example("cmts.toml")).unwrap();
    let text = text.replace("packet:eth1?", "packet:eth9?").replace("packet:eth2?", "packet:eth1?");
    let mut text = text.replace("packet:eth9?", "packet:eth0?");
    for (before, after) in changed {
        assert!(text.contains(before), "{before}");
        text = text.replace(before, after);
    }
    fs::write(net.file("upf.toml"), text).unwrap();
}

fn cable_traffic(net: &Net, pps: u64, seconds: f64) -> Running {
    let mut load = within(&net.host, binary());
    load.args(["gen", "cable"]).arg(net.file("upf.toml"));
    let args = format!("--network packet:gnb0 --rpd packet:dn0 --pps {pps} --seconds {seconds} --json");
    load.args(args.split_whitespace());
    Running::start(load, &net.file("gen.err"))
}

/// Frames that wait in service flows.
fn waiting(net: &Net) -> u64 {
    let flows = net.show("service-flows");
    flows["service_flows"].as_array().unwrap().iter().map(|flow| number(&flow["waiting_packets"])).sum()
}

/// Take-overs of a cable gateway with traffic both ways, what came of it, and frames that waited before each.
fn cable_taken_over(net: &Net, pps: u64, times: usize) -> (Running, Value, Vec<u64>) {
    // The kernel answers ARP until the generator does.
    ok(&format!("ip -n {} address add 198.18.0.1/24 dev gnb0", net.host));
    ok(&format!("ip -n {} address add 172.16.0.2/24 dev dn0", net.host));
    let mut gateway = start(net, 0, &[]);
    let load = cable_traffic(net, pps, BETWEEN * (times + 1) as f64 + times as f64);
    std::thread::sleep(Duration::from_secs_f64(BETWEEN));
    let (mut dropped, mut waited) = (Vec::new(), Vec::new());
    for n in 0..times {
        waited.push(waiting(net));
        gateway = take_over(net, gateway, n, &mut dropped);
        println!("frozen {} µs, {pps} packets/s, {waited:?} frames waited", field(&said(net, n), "frozen_us"));
        std::thread::sleep(Duration::from_secs_f64(BETWEEN));
    }
    let result = json(&well(load.end()));
    dropped.push(vec![net.show("drops"), net.show("ports")]);
    let came = |result: &Value, way: &str| number(&result[way]["received_packets"]);
    for way in ["downstream", "upstream"] {
        assert!(came(&result, way) > 1000, "{result}");
        let (lost, late) = (number(&result[way]["lost_packets"]), number(&result[way]["reordered_packets"]));
        let wrong = result[way]["wrong"].as_object().unwrap();
        assert!((lost, late) == (0, 0) && wrong.is_empty(), "{way}: {dropped:?} {result}");
    }
    // Usage is exact over all processes.
    let modems = net.show("modems --limit 1000");
    let modems = modems["entries"].as_array().unwrap_or_else(|| panic!("{modems}"));
    assert_eq!(modems.len(), 301);
    for (way, key) in [("downstream", "down_packets"), ("upstream", "up_packets")] {
        let counted: u64 = modems.iter().map(|modem| number(&modem[key])).sum();
        assert_eq!(counted, came(&result, way), "{way}: {result}");
    }
    (gateway, result, waited)
}

#[test]
fn cable_gateway_is_taken_over_without_loss() {
    let net = Net::new("cable");
    cable_gateway(&net, &[]);
    let (gateway, result, _) = cable_taken_over(&net, 4000, TIMES);
    println!("{result}");
    // Keys and service flows that are in no configuration go, too.
    let modem = "02:cb:00:00:00:01";
    let ask = |words: &[&str]| {
        let mut command = Command::new(binary());
        well(command.arg("cmts").args(words).arg("--socket").arg(net.file("weir.sock")).output().unwrap())
    };
    ask(&["key", "set", modem, "1", "--key", "00112233445566778899aabbccddeeff"]);
    ask(&["key", "use", modem, "1"]);
    ask(&["service-flow", "add", modem, "game", "--rate", "20 Mbit/s"]);
    let gateway = take_over(&net, gateway, TIMES, &mut Vec::new());
    // It has that key: one that is not there cannot be used.
    ask(&["key", "use", modem, "0"]);
    ask(&["key", "use", modem, "1"]);
    let flows = net.show(&format!("service-flows --modem {modem}")).to_string();
    assert!(flows.contains("\"game\""), "{flows}");
    stop(&net, gateway, TIMES + 1);
}

#[test]
fn frames_in_cable_queues_leave_in_order_after_a_take_over() {
    let net = Net::new("cableq");
    // Frames of each modem wait for its rate, however long: nothing but the queue's end drops.
    let slow = [("rate = \"600 Mbit/s\"\nburst = 65536\npeak = \"700 Mbit/s\"\naqm = true", "rate = \"40 kbit/s\"")];
    cable_gateway(&net, &slow);
    let (gateway, result, waited) = cable_taken_over(&net, 4000, 2);
    assert!(waited.iter().all(|frames| *frames > 20), "{waited:?} frames waited: {result}");
    stop(&net, gateway, 2);
}

#[test]
fn cable_gateway_with_a_standby_is_not_taken_over() {
    let net = Net::new("cables");
    let standby = format!("gateway = \"cmts\"\n[standby]\nsocket = \"{}\"", net.file("standby").display());
    cable_gateway(&net, &[("gateway = \"cmts\"", &standby)]);
    let gateway = start(&net, 0, &[]);
    let mut other = within(&net.gateway, binary());
    other.arg("run").arg(net.file("upf.toml")).arg("--take-over").arg("--socket").arg(net.file("weir.sock"));
    let why = String::from_utf8_lossy(&other.output().unwrap().stderr).into_owned();
    assert!(why.contains("it has a [standby]"), "{why}");
    well(gateway.stop());
}

/// Octets up and down that the checkpoints of a ledger have, which a process writes to; nothing, if what was copied is half
/// written.
fn kept_usage(ledger: &Path, copy: &Path) -> Option<[u64; 2]> {
    fs::create_dir_all(copy).ok()?;
    for file in fs::read_dir(ledger).ok()?.flatten() {
        fs::copy(file.path(), copy.join(file.file_name())).ok()?;
    }
    let (mut sum, mut whole) = ([0; 2], true);
    let read = ledger::Ledger::open_existing(copy).ok()?.checkpoints(|_, bytes| {
        let checkpoint: Value = serde_json::from_slice(bytes).unwrap_or_default();
        let Some(urrs) = checkpoint["urrs"].as_array() else { return whole = false };
        for urr in urrs {
            sum = [0, 1].map(|way: usize| sum[way] + number(&urr[1][way]));
        }
    });
    read.ok().filter(|()| whole).map(|()| sum)
}

#[test]
fn a_ledger_goes_to_the_new_process() {
    let net = Net::new("book");
    let ledger = net.file("ledger");
    let keep = format!("[n4]\nledger = \"{}\"\ncheckpoint_seconds = 1", ledger.display());
    fs::write(net.file("upf.toml"), user_plane().replace("[n4]", &keep)).unwrap();
    let gateway = start(&net, 0, &[]);
    let control = control(&net, 200, "--idle 0 --queries 20 --limits 20");
    let load = traffic(&net, 200, 2000, 4.0);
    let mut next = start(&net, 1, &["--take-over"]);
    let out = well(gateway.end_anyhow());
    let result = json(&well(load.end()));
    let dropped = [drops(&json(&out)), vec![net.show("drops"), net.show("ports"), json(&out)]];
    assert_complete(&result, &dropped);
    // What it acknowledges it has kept.
    let kept = || net.show("peers")["counters"]["modified"]["value"].as_u64().unwrap_or(0) > 20;
    until("requests that the new process carries out", || kept().then_some(()));
    // A crash costs what was counted since the last checkpoint that was written, and a busy disk may put that off.
    let forwarded = ["uplink", "downlink"].map(|way| number(&result["directions"][way]["forwarded_packets"]) * IP);
    let copy = net.file("copy");
    until("checkpoints that have all usage", || kept_usage(&ledger, &copy).filter(|kept| *kept == forwarded));
    next.kill();
    let last = start(&net, 2, &[]);
    assert!(said(&net, 2).contains("200 sessions of 1 control plane restored"), "{}", said(&net, 2));
    assert_eq!(net.sessions(), 200);
    let story = json(&well(control.stop()));
    assert_eq!((number(&story["deleted"]), number(&story["refused"])), (200, 0), "{story}");
    for (key, forwarded) in ["up_bytes", "down_bytes"].into_iter().zip(forwarded) {
        assert_eq!(number(&story["usage"][key]), forwarded, "{story}\n{result}");
    }
    well(last.stop());
}

/// Asks to take over as a process with that question; the connection and the answer.
fn ask(net: &Net, question: &Value) -> (UnixStream, Value) {
    let stream = UnixStream::connect(net.file("weir.sock")).unwrap();
    writeln!(&stream, "{question}").unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, &stream).read_line(&mut line).unwrap();
    let answer = serde_json::from_str(&line).unwrap();
    (stream, answer)
}

/// What a process of this version asks.
fn question(net: &Net) -> Value {
    question_of(net, object!([["n3", "packet:eth0?mode=auto"], ["n6", "packet:eth1?mode=auto"]]), Value::Null)
}

/// The same with those ports, and the number and size of packet buffers where these are shared with the kernel.
fn question_of(net: &Net, ports: Value, buffers: Value) -> Value {
    let mut question = object!({
        "ask": "take_over", "version": 3, "layout": 0, "gateway": "upf", "workers": 1, "ports": ports,
        "buffers": buffers
    });
    let (_, refused) = ask(net, &question);
    let refused = refused["error"].as_str().unwrap().to_owned();
    let (_, layout) = refused.split_once("0x").unwrap_or_else(|| panic!("{refused}"));
    question["layout"] = u64::from_str_radix(&layout[..16], 16).unwrap().into();
    question
}

/// Takes over as far as that message of the running gateway, and ends there.
fn take_until(net: &Net, question: &Value, last: Kind) {
    let (stream, answer) = ask(net, question);
    assert!(answer.get("error").is_none(), "{answer}");
    let mut link = Link::new(stream);
    loop {
        let message = link.receive(Some(Duration::from_secs(20))).unwrap();
        if message.kind == last {
            return;
        }
        let reply = match message.kind {
            Kind::Synced => Kind::Ready,
            Kind::Arm => Kind::Armed,
            Kind::Frozen => Kind::Loaded,
            _ => continue,
        };
        link.send(reply, &[], &[]).unwrap();
    }
}

#[test]
fn a_take_over_that_fails_changes_nothing() {
    let net = Net::new("fail");
    configure(&net);
    let gateway = start(&net, 0, &[]);
    let control = control(&net, 200, "--idle 0 --queries 20");
    let load = traffic(&net, 200, 4000, 8.0);
    let refused = |change: fn(&mut Value)| {
        let mut question = question(&net);
        change(&mut question);
        ask(&net, &question).1["error"].as_str().unwrap().to_owned()
    };
    assert!(refused(|q| q["version"] = 9.into()).contains("version of the hand-over protocol differs: 3 here, 9"));
    assert!(refused(|q| q["ports"][0][1] = "packet:eth9".into()).contains("the list of ports differs"));
    // Anybody can connect; the socket's mode is not what keeps others out.
    ok(&format!("chmod 666 {}", net.file("weir.sock").display()));
    ok(&format!("chmod 755 {}", net.file("weir.sock").parent().unwrap().display()));
    let stranger = "import os, socket, sys\nos.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                    s.sendall(b'{\"ask\": \"take_over\"}\\n')\nprint(s.makefile().readline())";
    let out = Command::new("python3").args(["-c", stranger]).arg(net.file("weir.sock")).output().unwrap();
    let out = String::from_utf8(well(out).stdout).unwrap();
    assert!(out.contains("the new process is of user 65534"), "{out}");
    // Killed at every step.
    let question = question(&net);
    let steps = [Kind::Hello, Kind::Port, Kind::Batch, Kind::Synced, Kind::Arm, Kind::Frozen, Kind::Go];
    for (n, last) in (1..).zip(steps) {
        take_until(&net, &question, last);
        until("a failure that is noticed", || (said(&net, 0).matches("take_over_failed").count() == n).then_some(()));
        assert_eq!(net.sessions(), 200, "after {last:?}");
    }
    // Another configuration: a port more.
    let more = "\n[[port]]\nname = \"n9\"\nuri = \"packet:eth2?host=shared\"\nrole = \"core\"\naddresses = [\"10.0.9.1/24\"]\n";
    fs::write(net.file("other.toml"), user_plane() + more).unwrap();
    let mut other = within(&net.gateway, binary());
    other.arg("run").arg(net.file("other.toml")).arg("--take-over").arg("--socket").arg(net.file("weir.sock"));
    let out = other.output().unwrap();
    let why = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && why.contains("the list of ports differs"), "{why}");
    let result = json(&well(load.end()));
    assert_complete(&result, &[]);
    // And then it succeeds.
    let next = start(&net, 1, &["--take-over"]);
    well(gateway.end_anyhow());
    let story = json(&well(control.stop()));
    assert_eq!((number(&story["deleted"]), number(&story["refused"])), (200, 0), "{story}");
    drop(next);
}

/// Has subscribers and a server exchange packets: see the script.
fn exchange(net: &Net, args: &[&str]) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/take_over_nat.py");
    let mut command = within(&net.host, "python3");
    json(&well(command.arg(script).args(args).output().unwrap()))
}

/// Private and public ends of flows.
fn ends(flows: &Value) -> Vec<[String; 2]> {
    let pair = |flow: &Value, at: usize| format!("{}:{}", flow[at], flow[at + 1]);
    flows.as_array().unwrap().iter().map(|flow| [pair(flow, 0), pair(flow, 2)]).collect()
}

#[test]
fn translation_and_fragments_go_to_the_new_process() {
    let net = Net::new("nat");
    let log = net.file("blocks.log");
    let nat = format!(
        "\n[reassembly]\n[nat]\npool = [{{ addresses = \"203.0.113.0/28\" }}]\nblock_ports = 64\nlog = \"{}\"\n",
        log.display()
    );
    fs::write(net.file("upf.toml"), user_plane() + &nat).unwrap();
    for n in 100..104 {
        ok(&format!("ip -n {} address add 10.0.3.{n}/24 dev gnb0", net.host));
    }
    ok(&format!("ip -n {} address add 10.0.6.254/24 dev dn0", net.host));
    ok(&format!("ip -n {} address add 198.18.0.1/32 dev lo", net.host));
    ok(&format!("ip -n {} route add 203.0.113.0/28 via 10.0.6.1", net.host));
    let mut gateway = start(&net, 0, &[]);
    let control = control(&net, 10, "--idle 0 --queries 20");
    let mut known = exchange(&net, &["ask", "1000", "1001", "1002"]);
    let (mut all, mut ports) = (ends(&known), vec!["1000", "1001", "1002"]);
    for (n, more) in [(1, "2000"), (2, "2001")] {
        let identification = (100 + n).to_string();
        exchange(&net, &["begin", &identification]);
        let next = start(&net, n, &["--take-over"]);
        let last = json(&well(gateway.end_anyhow()));
        assert!(last["workers"].as_array().unwrap().iter().all(|worker| worker["missing"] == 0), "{last}");
        gateway = next;
        // The server sends first: only what went over leads back.
        exchange(&net, &["answer", &known.to_string()]);
        exchange(&net, &["finish", &identification]);
        ports.push(more);
        known = exchange(&net, &[&["ask"], &ports[..]].concat());
        let now = ends(&known);
        assert!(all.iter().all(|flow| now.contains(flow)), "{all:?} {now:?}");
        let mut public: Vec<_> = now.iter().map(|[_, public]| public).collect();
        public.sort_unstable();
        public.dedup();
        assert_eq!(public.len(), now.len(), "no port twice");
        all = now;
    }
    let given = fs::read_to_string(&log).unwrap();
    assert_eq!(given.matches(" given ").count(), 10, "a block each, told once: {given}");
    let story = json(&well(control.stop()));
    assert_eq!((number(&story["deleted"]), number(&story["refused"])), (10, 0), "{story}");
    let last = json(&well(gateway.stop()));
    assert!(last["workers"].as_array().unwrap().iter().all(|worker| worker["missing"] == 0), "{last}");
    let told = fs::read_to_string(&log).unwrap();
    assert_eq!(told.matches(" ended ").count(), 10, "{told}");
}

#[test]
fn what_cannot_be_handed_over_is_named() {
    let net = Net::new("name");
    fs::write(net.file("upf.toml"), user_plane().replace("packet:eth1?mode=auto", "packet:eth1?mode=auto&pace=1Mpps"))
        .unwrap();
    let gateway = start(&net, 0, &[]);
    let mut command = within(&net.gateway, binary());
    command.arg("run").arg(net.file("upf.toml")).arg("--take-over").arg("--socket").arg(net.file("weir.sock"));
    let out = command.output().unwrap();
    let why = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success(), "{why}");
    assert!(why.contains("port \"n6\" of worker 0"), "{why}");
    assert_eq!(net.sessions(), 0, "it goes on");
    well(gateway.stop());
}
