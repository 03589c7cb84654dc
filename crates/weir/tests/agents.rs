//! A gateway between two hosts with agents, each a namespace of its own, with clocks that differ. Needs root.
//!
//! ```text
//!   access, who asks               gateway                     core
//!   [ gnb0 ]──────────── veth ──[ eth0   eth1 ]── veth ──────[ dn0 ]      its clock is 7 s ahead, and fast by 100 ppm
//!   [ smf0 10.0.4.2 ]─── veth ──[ eth2 10.0.4.1 ]
//!   [ mgmt 10.0.9.1 ]──────────────────── veth ──────────────[ mgmt 10.0.9.2 ]
//! ```

mod net;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use net::{Net, Running, WEIR, example, json, number, ok, until, well, within};
use serde_json::Value;

fn libfaketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let found = folders.map(|folder| folder.join("faketime/libfaketime.so.1")).find(|library| library.exists());
    found.expect("libfaketime: `make setup-test` installs it")
}

/// Agents and gateway want all CPUs there are: one test after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// A third namespace with the core's interface, and agents.
struct Hosts {
    net: Net,
    core: String,
    secret: String,
    agents: Vec<Running>,
    _alone: MutexGuard<'static, ()>,
}

impl Hosts {
    fn new(test: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let net = Net::new(test);
        let core = format!("weir-cp-{}-{test}-c", std::process::id());
        ok(&format!("ip netns add {core}"));
        ok(&format!("ip netns exec {core} sysctl -qw net.ipv6.conf.default.disable_ipv6=1"));
        ok(&format!("ip -n {} link set dn0 netns {core}", net.host));
        ok(&format!("ip -n {} link add mgmt type veth peer name mgmt netns {core}", net.host));
        for (ns, address) in [(&net.host, "10.0.9.1/24"), (&core, "10.0.9.2/24")] {
            ok(&format!("ip -n {ns} address add {address} dev mgmt"));
            ok(&format!("ip -n {ns} link set mgmt up"));
            ok(&format!("ip -n {ns} link set lo up"));
        }
        ok(&format!("ip -n {core} link set dn0 up"));
        let file = net.file("secret");
        fs::write(&file, "a secret of this test\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let secret = file.display().to_string();
        Self { net, core, secret, agents: Vec::new(), _alone: alone }
    }

    /// Starts an agent; `clock` is what libfaketime is told of its clock.
    fn agent(&mut self, ns: &str, at: &str, more: &[&str], clock: Option<&str>) {
        let mut agent = within(ns, WEIR);
        if let Some(clock) = clock {
            // Not by the program `faketime`, which would be killed in place of the agent.
            agent.env("LD_PRELOAD", libfaketime()).env("FAKETIME", clock);
        }
        agent.args(["agent", at, "--secret", &self.secret]).args(more);
        let said = self.net.file(&format!("agent-{}.err", self.agents.len()));
        self.agents.push(Running::start(agent, &said));
        until("an agent that listens", || fs::read_to_string(&said).unwrap().contains("listens on").then_some(()));
    }

    /// Those at both ends, and that of the gateway.
    fn all_agents(&mut self, core_clock: Option<&str>) {
        let (host, core, gateway) = (self.net.host.clone(), self.core.clone(), self.net.gateway.clone());
        let socket = self.net.file("weir.sock").display().to_string();
        self.agent(&host, "10.0.9.1:4780", &["--port", "packet:gnb0?mode=auto"], None);
        self.agent(&core, "10.0.9.2:4780", &["--port", "packet:dn0?mode=auto"], core_clock);
        self.agent(&gateway, "10.0.4.1:4780", &["--socket", &socket], None);
    }

    fn asks(&self, command: &[&str]) -> Command {
        let mut weir = within(&self.net.host, WEIR);
        weir.args(command).args(["--n3", "agent:10.0.9.1:4780", "--n6", "agent:10.0.9.2:4780"]);
        weir.args(["--gateway-agent", "10.0.4.1:4780", "--secret", &self.secret]);
        weir
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.agents.clear();
        let _ = Command::new("ip").args(["netns", "del", &self.core]).status();
    }
}

#[test]
fn generator_gateway_and_responder_are_three_hosts_with_clocks_of_their_own() {
    let mut hosts = Hosts::new("agents");
    let gateway = hosts.net.start(&fs::read_to_string(example("upf-packet.toml")).unwrap());
    hosts.all_agents(Some("+7s x1.0001"));
    let gen_file = example("gen.toml");
    let mut load = hosts.asks(&["gen", &gen_file, "--pps", "2000", "--seconds", "3", "--sizes", "128", "--json"]);
    let found = json(&well(load.output().unwrap()));
    let of = |direction: &str, key: &str| found["directions"][direction][key].clone();
    for direction in ["uplink", "downlink"] {
        let n = |key: &str| number(&of(direction, key));
        assert!(n("sent_packets") > 1000 && n("lost_packets") == 0 && n("corrupt_packets") == 0, "{found:#}");
        assert_eq!(n("sent_packets"), n("forwarded_packets"));
        // One way over veths takes less than this, and the clocks were seven seconds apart.
        let p50 = of(direction, "latency_us")["p50"].as_f64().unwrap();
        assert!(p50 < 100_000.0, "{found:#}");
    }
    let host = |n: usize, key: &str| found["hosts"][n][key].as_f64().unwrap();
    assert!(host(0, "clock_offset_us").abs() < 100_000.0, "the same clock: {found:#}");
    // The hosts differ in when their clocks were first read, by less than a second.
    assert!((host(1, "clock_offset_us") + 7e6).abs() < 1e6, "{found:#}");
    // Of 100 ppm over three seconds little is left: they were known before.
    assert!((-300.0..-20.0).contains(&host(1, "clock_gain_ppm")), "{found:#}");
    assert!(host(1, "clock_drift_us").abs() < 1000.0, "{found:#}");
    assert!(found["latency_error_us"].as_f64().unwrap() >= host(1, "clock_drift_us").abs());
    let seen = &found["gateway"];
    assert_eq!(seen["gateway"], Value::from("upf"));
    let forwarded: u64 = ["uplink", "downlink"].iter().map(|way| number(&of(way, "forwarded_packets"))).sum();
    assert!(number(&seen["rx_packets"]) >= forwarded && seen["cpu_seconds"].as_f64().unwrap() > 0.0, "{found:#}");
    assert_eq!(found["hosts"][2]["role"], Value::from("gateway"));
    drop(gateway);
}

#[test]
fn an_agent_without_a_port_and_a_gateway_that_is_not_there_are_named() {
    let mut hosts = Hosts::new("agentsno");
    let (host, core) = (hosts.net.host.clone(), hosts.core.clone());
    hosts.agent(&host, "10.0.9.1:4780", &[], None);
    hosts.agent(&core, "10.0.9.2:4780", &["--port", "packet:dn0?mode=auto"], None);
    let said = |out: std::process::Output| {
        assert_eq!(out.status.code(), Some(1));
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let mut load = within(&host, WEIR);
    let gen_file = example("gen.toml");
    load.args(["gen", &gen_file, "--n3", "agent:10.0.9.1:4780", "--n6", "agent:10.0.9.2:4780"]);
    load.args(["--secret", &hosts.secret, "--seconds", "1"]);
    let text = said(load.output().unwrap());
    assert!(text.contains("access side") && text.contains("start it with --port"), "{text}");
    hosts.agents.clear();
    hosts.agent(&host, "10.0.9.1:4780", &["--port", "packet:gnb0?mode=auto"], None);
    hosts.agent(&core, "10.0.9.2:4780", &["--port", "packet:dn0?mode=auto"], None);
    let text = said(load.output().unwrap());
    assert!(text.contains("10.0.3.1 does not answer"), "{text}");
}

/// Probes with a control plane of its own: the user plane could be anybody's.
#[test]
fn a_gateway_between_agents_is_probed_through_sessions_by_pfcp() {
    let mut hosts = Hosts::new("probed");
    let gateway = hosts.net.start(&net::user_plane());
    hosts.all_agents(None);
    let (key, file) = (hosts.net.file("key"), hosts.net.file("certificate.json"));
    let mut probe = within(&hosts.net.host, WEIR);
    probe.args(["probe", "gateway", &example("gen.toml"), "--cp", &example("cp.toml"), "--secret", &hosts.secret]);
    probe.args("--access 10.0.9.1:4780 --core 10.0.9.2:4780 --gateway 10.0.4.1:4780 --minutes 0.2".split(' '));
    well(probe.arg("--key").arg(&key).arg("--json").arg(&file).output().unwrap());
    let found = certificate::check(&fs::read_to_string(&file).unwrap(), None).unwrap().certificate;
    let one = &found.gateways[0];
    let said = format!("{one:?} {:?} {:?}", found.latency, found.notes);
    assert!(found.run.is_complete && one.subscribers == 1000 && one.workers == 1, "{said}");
    // What a busy machine of two CPUs carries between three processes that spin.
    assert!(one.mpps.mid > 0.001 && one.cycles_per_packet > 0.0, "{said}");
    let latency = found.latency.unwrap();
    assert!(latency.found_mpps > 0.0 && latency.at.len() == 3, "{said}");
    assert!(!found.host.hostname.is_empty() && found.host.tsc_ghz > 0.1, "{:?}", found.host);
    // The control plane has deleted its sessions.
    assert_eq!(hosts.net.sessions(), 0);
    drop(gateway);
}

/// An interface of this host instead of links of its own; the load is an agent at the other end.
#[test]
fn an_interface_is_probed_with_an_agent_at_its_other_end() {
    let mut hosts = Hosts::new("quick");
    let gateway = hosts.net.gateway.clone();
    hosts.agent(&gateway, "10.0.4.1:4780", &["--port", "packet:eth0?mode=ring"], None);
    let (key, file) = (hosts.net.file("key"), hosts.net.file("certificate.json"));
    let mut probe = within(&hosts.net.host, WEIR);
    probe.args("probe quick --interface gnb0 --agent 10.0.4.1:4780 --queues 1 --minutes 0.1 --secret".split(' '));
    well(probe.arg(&hosts.secret).arg("--key").arg(&key).arg("--json").arg(&file).output().unwrap());
    let found = certificate::check(&fs::read_to_string(&file).unwrap(), None).unwrap().certificate;
    let said = format!("{:?} {:?} {:?} {:?}", found.generator, found.rates, found.latency, found.notes);
    assert!(found.run.is_complete && found.host.interface == "veth (gnb0)", "{} {said}", found.host.interface);
    assert!(found.generator.iter().all(|one| one.sent_mpps.mid > 0.0 && one.arrived_mpps.mid > 0.0), "{said}");
    assert!(found.rates.len() == 6 && found.rates.iter().all(|rate| rate.mpps.mid > 0.0), "{said}");
    assert!(found.flows.len() == 22 && found.flows.iter().all(|one| one.mpps.mid > 0.0), "{:?}", found.flows);
    assert!(found.latency.is_some_and(|latency| latency.floor_us > 0.0), "{said}");
    assert!(found.gateways.is_empty() && found.skipped.iter().any(|one| one.what == "gateway upf-128"), "{said}");
}
