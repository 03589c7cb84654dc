//! A gateway on DPDK devices as a process, with its privileges given up.
//!
//! Without DPDK in the build this does nothing.

mod net;

use std::fs;
use std::process::Command;
use std::time::Duration;

use net::{Net, ends_well, example, json, number, ok, well, within};

/// The example with simulated subscribers on those devices, and what becomes of a system call that is not on the list.
fn config(n3: &str, n6: &str, seccomp: &str) -> String {
    let config = fs::read_to_string(example("upf-packet.toml")).unwrap();
    let config = config.replace("packet:eth0?mode=auto", n3).replace("packet:eth1?mode=auto", n6);
    format!("{config}\n[process]\nseccomp = \"{seccomp}\"\n")
}

/// Signed traffic both ways: what arrived of it, and that nothing was lost.
fn arrives(net: &Net) -> u64 {
    // A busy machine may keep the generator from sending, or workers that always poll from answering it: it is asked again.
    (0..15).fold(0, |most, _| {
        if most > 100 {
            return most;
        }
        let mut load = within(&net.host, net::WEIR);
        load.arg("gen").arg(example("gen.toml"));
        load.args(["--pps", "4000", "--ramp", "0.5", "--json", "--seconds", "1"]);
        let output = load.output().unwrap();
        if String::from_utf8_lossy(&output.stderr).contains("does not answer") {
            return most;
        }
        let result = json(&output);
        let of = |direction: &str, key: &str| number(&result["directions"][direction][key]);
        assert_eq!(of("uplink", "misdelivered_packets") + of("downlink", "misdelivered_packets"), 0, "{result}");
        most.max(of("uplink", "forwarded_packets").min(of("downlink", "forwarded_packets")))
    })
}

fn threads_have_no_capability(net: &Net) {
    let view = net.show("process");
    let gateway = view["processes"].as_array().unwrap().iter().find(|process| process["role"] == "gateway").unwrap();
    let tasks = fs::read_dir(format!("/proc/{}/task", gateway["pid"])).unwrap();
    let mut names = String::new();
    for task in tasks {
        // A thread may have ended meanwhile.
        let Ok(status) = fs::read_to_string(task.unwrap().path().join("status")) else { continue };
        for line in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(line), "{line}: {status}");
        }
        names += status.lines().next().unwrap_or_default();
    }
    // Its name with DPDK 22.11, and later.
    let has_its = ["eal-intr-thread", "dpdk-intr"].iter().any(|name| names.contains(name));
    assert!(has_its, "DPDK's thread is among them: {names}");
}

#[test]
fn dpdk_gateway_forwards_confined_over_af_packet_devices() {
    if !port_dpdk::BUILT {
        return;
    }
    let net = Net::new("dpdk");
    // Frames of the kernel's ring that fit a packet buffer, and blocks that are full of them.
    let device = |n: u8, name: &str| format!("dpdk:net_af_packet{n},iface={name},framesz=1792,blocksz=28672");
    let gateway = net.start(&config(&device(0, "eth0"), &device(1, "eth1"), "kill"));
    let said = fs::read_to_string(net.file("run.err")).unwrap();
    assert!(said.contains("event=dpdk_threads_limited_less"), "{said}");
    threads_have_no_capability(&net);
    assert!(arrives(&net) > 100);
    let ports = net.show("ports");
    let port = &ports[0];
    assert_eq!((port["kind"].as_str(), port["link"].as_str(), number(&port["mtu"])), (Some("dpdk"), Some("up"), 1500));
    assert!(number(&port["counters"]["dpdk_rx_good_packets"]) > 100, "{ports}");
    assert!(number(&port["held_packet_buffers"]) > 0, "{ports}");
    ends_well(gateway);
}

/// CPU time of all threads of a process, in seconds.
fn cpu_seconds(pid: u64) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // Nanoseconds on a CPU stand first. A thread may have ended meanwhile.
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("schedstat")).ok();
    let texts = tasks.filter_map(|task| of_task(task.unwrap()));
    texts.map(|text| text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9).sum()
}

#[test]
fn dpdk_gateway_sleeps_until_a_device_interrupts() {
    if !port_dpdk::BUILT {
        return;
    }
    let net = Net::new("dpdki");
    // The driver would take the interface down when it closes, which the kernel refuses, and nothing ends the gateway.
    let gateway = net.start(&config("dpdk:net_tap0,iface=tap0", "dpdk:net_tap1,iface=tap1", "kill"));
    ok(&format!("ip -n {} address add 10.0.6.254/24 dev tap1", net.gateway));
    let view = net.show("process");
    let process = view["processes"].as_array().unwrap().iter().find(|process| process["role"] == "gateway").unwrap();
    let pid = number(&process["pid"]);
    std::thread::sleep(Duration::from_secs(1));
    let before = cpu_seconds(pid);
    std::thread::sleep(Duration::from_secs(3));
    let share = (cpu_seconds(pid) - before) / 3.0;
    println!("idle: {:.2} % of a CPU", 100.0 * share);
    // A worker that polls takes all of one.
    assert!(share < 0.3, "an idle gateway takes {:.1} % of a CPU", 100.0 * share);
    // The first packet wakes it.
    let ping = within(&net.gateway, "ping").args(["-c", "3", "-i", "0.3", "-W", "10", "10.0.6.1"]).output().unwrap();
    assert!(ping.status.success(), "{}", String::from_utf8_lossy(&ping.stdout));
    ends_well(gateway);
}

#[test]
fn dpdk_ports_tell_what_devices_do_and_refuse() {
    if !port_dpdk::BUILT {
        return;
    }
    let net = Net::new("dpdko");
    let queues = "queue={worker}&queues={workers}";
    let device = |n: u8| format!("dpdk:net_tap{n},iface=tap{n}?{queues}");
    let config = config(&device(0), &device(1), "enforce").replace("count = 1", "count = 2");
    let n3 = "addresses = [\"10.0.3.1/24\"";
    let config = config.replace(n3, &format!("verify_outer_checksum = true\n{n3}, \"fd00:3::1/64\""));
    let gateway = net.start(&config);
    let said = fs::read_to_string(net.file("run.err")).unwrap();
    let refused: Vec<&str> = said.lines().filter(|line| line.contains("event=flow_rules_refused")).collect();
    assert_eq!(refused.len(), 2, "one of each port: {said}");
    assert!(refused[0].contains("port=n3") && refused[1].contains("port=n6"), "{refused:?}");
    let ports = net.show("ports");
    for port in ports.as_array().unwrap() {
        let (name, detail) = (port["name"].as_str().unwrap(), port["detail"].as_str().unwrap());
        println!("{name}: {detail}");
        assert!(detail.contains(", no rte_flow rules: "), "{detail}");
        assert_eq!(detail.contains(", verifies UDP checksums, makes those over IPv6"), name == "n3", "{detail}");
        assert_eq!(port["counters"]["rx_checksum_good"].is_number(), name == "n3", "{port}");
    }
    ends_well(gateway);
}

#[test]
fn dpdk_ports_are_measured_beside_testpmd() {
    if !port_dpdk::BUILT {
        return;
    }
    let schema = Command::new(net::WEIR).args(["schema", "bench", "io"]).output().unwrap();
    let schema = json(&schema);
    let out = Command::new(net::WEIR).args(["bench", "io", "--port", "dpdk", "--seconds", "0.2", "--json"]).output();
    let cost = json(&well(out.unwrap()));
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert!(keys(&cost).iter().all(|key| schema["properties"][key].is_object()), "{cost}");
    assert!(cost["dpdk"].as_str().unwrap().starts_with("DPDK "), "{cost}");
    let rows = cost["in_memory"].as_array().unwrap();
    let row = |driver: &str, buffers: u64| {
        let is_it = |row: &&serde_json::Value| row["driver"] == driver && number(&row["packet_buffers"]) == buffers;
        rows.iter().find(is_it).unwrap_or_else(|| panic!("no {driver}, {buffers}: {cost}"))
    };
    for (driver, buffers) in [("net_ring", 2048), ("net_ring", 65_536), ("net_null", 65_536)] {
        let [testpmd, weir, port] =
            ["testpmd_ns", "weir_ns", "port_ns"].map(|key| row(driver, buffers)[key].as_f64().unwrap());
        // A build without optimisation, on a busy machine; testpmd takes about 1 ns of a ring.
        assert!(testpmd > 0.0 && weir > 1.0 && (weir - testpmd - port).abs() < 0.01, "{cost}");
    }
    let trips = cost["round_trips"].as_array().unwrap();
    assert_eq!(trips.len(), if cost["peer_cpu"].is_null() { 0 } else { 2 }, "{cost}");
    assert!(trips.iter().all(|trip| trip["rate_ratio"].as_f64().unwrap() > 0.0), "{cost}");
}
