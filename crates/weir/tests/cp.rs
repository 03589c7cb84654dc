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

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const PATIENCE: Duration = Duration::from_secs(20);

/// Two namespaces joined by three veth pairs, and a folder; taken down when dropped.
struct Net {
    host: String,
    gateway: String,
    folder: PathBuf,
}

impl Net {
    fn new(test: &str) -> Self {
        let name = |end: &str| format!("weir-cp-{}-{test}-{end}", std::process::id());
        let net = Self { host: name("h"), gateway: name("g"), folder: std::env::temp_dir().join(name("dir")) };
        fs::create_dir_all(&net.folder).unwrap();
        for ns in [&net.host, &net.gateway] {
            ok(&format!("ip netns add {ns}"));
            ok(&format!("ip netns exec {ns} sysctl -qw net.ipv6.conf.default.disable_ipv6=1"));
            ok(&format!("ip -n {ns} link set lo up"));
        }
        let (host, gateway) = (&net.host, &net.gateway);
        for (ours, theirs) in [("eth0", "gnb0"), ("eth1", "dn0"), ("eth2", "smf0")] {
            ok(&format!("ip -n {gateway} link add {ours} type veth peer name {theirs} netns {host}"));
            ok(&format!("ip -n {gateway} link set {ours} up"));
            ok(&format!("ip -n {host} link set {theirs} up"));
        }
        ok(&format!("ip -n {gateway} address add 10.0.4.1/24 dev eth2"));
        ok(&format!("ip -n {host} address add 10.0.4.2/24 dev smf0"));
        net
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts `weir run`; returns once it answers.
    fn start(&self, config: &str) -> Running {
        fs::write(self.file("upf.toml"), config).unwrap();
        let mut command = within(&self.gateway, WEIR);
        command.arg("run").arg(self.file("upf.toml")).arg("--socket").arg(self.file("weir.sock"));
        let running = Running::start(command, &self.file("run.err"));
        until("the control socket", || self.file("weir.sock").exists().then_some(()));
        running
    }

    /// Starts `weir cp` in a namespace; returns once its sessions are up.
    fn control(&self, ns: &str, args: &str) -> Running {
        let mut command = within(ns, WEIR);
        command.arg("cp").args(args.split_whitespace()).args(["--json", "--sessions-out"]).arg(self.file("out.jsonl"));
        let said = self.file("cp.err");
        let running = Running::start(command, &said);
        until("sessions", || fs::read_to_string(&said).unwrap().contains("sessions up").then_some(()));
        running
    }

    /// What `weir show` knows.
    fn show(&self, topic: &str) -> Value {
        let out = Command::new(WEIR).args(["show", topic, "--json", "--socket"]).arg(self.file("weir.sock")).output();
        serde_json::from_slice(&well(out.unwrap()).stdout).unwrap()
    }

    fn sessions(&self) -> u64 {
        self.show("sessions")["workers"].as_array().unwrap().iter().map(|worker| number(&worker["sessions"])).sum()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for ns in [&self.host, &self.gateway] {
            let _ = Command::new("ip").args(["netns", "del", ns]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A process that does not outlive the test.
struct Running(Option<Child>);

impl Running {
    fn start(mut command: Command, said: &Path) -> Self {
        let said = File::create(said).unwrap();
        Self(Some(command.stdout(Stdio::piped()).stderr(said).spawn().unwrap()))
    }

    /// Interrupts it, as Ctrl-C does, and waits until it has ended.
    fn stop(mut self) -> Output {
        let mut child = self.0.take().unwrap();
        ok(&format!("kill -INT {}", child.id()));
        let end = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn within(ns: &str, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", ns]).arg(program.as_ref());
    command
}

fn well(out: Output) -> Output {
    let said = [&out.stdout, &out.stderr].map(|said| String::from_utf8_lossy(said).into_owned()).concat();
    assert!(out.status.success(), "{said}");
    out
}

fn ok(line: &str) -> Output {
    let mut words = line.split(' ');
    well(Command::new(words.next().unwrap()).args(words).output().unwrap())
}

fn until<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(got) = done() {
            return got;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> String {
    root().join("examples").join(name).display().to_string()
}

fn user_plane() -> String {
    fs::read_to_string(example("upf-n4.toml")).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn json(out: &Output) -> Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&out.stderr)))
}

/// The gateway ends well: nothing is missing.
fn ends_well(gateway: Running) {
    let out = well(gateway.stop());
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("answered or held: 0 missing") && said.contains("back: 0 missing"), "{said}");
}

#[test]
fn sessions_of_a_control_plane_carry_traffic_and_their_end_says_how_much() {
    const SESSIONS: u64 = 2000;
    // 128 bytes on Ethernet, without its header.
    const IP: u64 = 114;
    let net = Net::new("all");
    let gateway = net.start(&user_plane());
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
        assert!(whole && of(direction, "misdelivered_packets") == 0, "{result}");
    }

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
    let life = "--upf 127.0.0.1 --address 127.0.0.3 --sessions 50 --rate 1000 --queries 200 --limits 50 --patience 0.5";
    let control = net.control(&net.gateway, life);
    let mut foe = within(&net.gateway, "python3");
    let out = well(foe.arg(root().join("tests/net/cp.py")).args(["hostile", "127.0.0.1"]).output().unwrap());
    println!("{}", String::from_utf8_lossy(&out.stdout));
    let peers = net.show("peers");
    let counted = |name: &str| {
        let all = peers["counters"].as_array().unwrap();
        all.iter().find(|counter| counter[0] == name).map_or(0, |counter| number(&counter[1]))
    };
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
