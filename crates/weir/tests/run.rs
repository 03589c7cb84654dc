//! The built binary between two hosts:
//!
//! ```text
//!   host                        gateway
//!   [ gnb0 ]──── veth ────[ eth0 ] n3
//!   [ dn0  ]──── veth ────[ eth1 ] n6     weir run
//! ```
//!
//! The host side sends with `weir gen`. Both namespaces are the test's own and go with it.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const PATIENCE: Duration = Duration::from_secs(20);

/// Two namespaces joined by two veth pairs, and a folder; taken down when dropped.
struct Net {
    host: String,
    gateway: String,
    folder: PathBuf,
}

impl Net {
    fn new(test: &str) -> Self {
        let name = |end: &str| format!("weir-run-{}-{test}-{end}", std::process::id());
        let folder = std::env::temp_dir().join(name("dir"));
        let net = Self { host: name("h"), gateway: name("g"), folder };
        fs::create_dir_all(&net.folder).unwrap();
        for ns in [&net.host, &net.gateway] {
            ok(&["ip", "netns", "add", ns]);
            // Nothing on the wires but what the test puts there.
            ok(&["ip", "netns", "exec", ns, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"]);
        }
        for (ours, theirs) in [("eth0", "gnb0"), ("eth1", "dn0")] {
            ok(&[
                "ip",
                "-n",
                &net.gateway,
                "link",
                "add",
                ours,
                "type",
                "veth",
                "peer",
                "name",
                theirs,
                "netns",
                &net.host,
            ]);
            ok(&["ip", "-n", &net.gateway, "link", "set", ours, "up"]);
            ok(&["ip", "-n", &net.host, "link", "set", theirs, "up"]);
        }
        net
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn socket(&self) -> PathBuf {
        self.file("weir.sock")
    }

    /// Writes a configuration and starts `weir run` with it; returns once it answers.
    fn start(&self, config: &str) -> Running {
        self.start_at(config, &self.socket())
    }

    /// The same with another control socket.
    fn start_at(&self, config: &str, socket: &Path) -> Running {
        let mut command = self.command(config, socket, &[WEIR, "run"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Running(Some(child));
        until("the control socket", || {
            if let Some(child) = &mut running.0
                && child.try_wait().unwrap().is_some()
            {
                let out = running.0.take().unwrap().wait_with_output().unwrap();
                panic!("weir run ended: {}", String::from_utf8_lossy(&out.stderr));
            }
            socket.exists().then_some(())
        });
        running
    }

    fn command(&self, config: &str, socket: &Path, program: &[&str]) -> Command {
        let path = self.file("gw.toml");
        fs::write(&path, config).unwrap();
        let mut command = within(&self.gateway, program);
        command.arg(&path).arg("--socket").arg(socket);
        command
    }

    /// Why a gateway of that configuration does not start, and its exit status.
    fn refusal(&self, config: &str) -> (String, Option<i32>) {
        let out = run(self.command(config, &self.file("second.sock"), &["timeout", "20", WEIR, "run"]));
        // Without the frame and the line breaks that a terminal gets.
        let said = String::from_utf8_lossy(&out.stderr).replace('│', " ");
        (said.split_whitespace().collect::<Vec<_>>().join(" "), out.status.code())
    }

    /// Asks the running gateway.
    fn weir(&self, args: &[&str]) -> String {
        let out = Command::new(WEIR).args(args).arg("--socket").arg(self.socket()).output().unwrap();
        assert!(out.status.success(), "weir {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.weir(&[args, &["--json"]].concat())).unwrap()
    }

    /// What a running port changes on an interface: offloads, tc filters and BPF links.
    fn traces_on(&self, interface: &str) -> String {
        let features = text(&run(within(&self.gateway, &["ethtool", "-k", interface])));
        let filters = text(&run(within(&self.gateway, &["tc", "filter", "show", "dev", interface, "ingress"])));
        let qdiscs = text(&run(within(&self.gateway, &["tc", "qdisc", "show", "dev", interface])));
        let link = text(&run(within(&self.gateway, &["ip", "-d", "link", "show", interface])));
        let xdp = link.lines().filter(|line| line.contains("xdp")).collect::<Vec<_>>().join("\n");
        let promiscuity = link.split("promiscuity ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("?");
        format!("{features}\n{filters}\n{qdiscs}\n{xdp}\npromiscuity {promiscuity}")
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
    /// Tells it to stop and waits until it has.
    fn stop(mut self) -> Output {
        let mut child = self.0.take().unwrap();
        ok(&["kill", "-TERM", &child.id().to_string()]);
        until("the end of weir run", || child.try_wait().unwrap());
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

fn within(ns: &str, command: &[&str]) -> Command {
    let mut all = Command::new("ip");
    all.args(["netns", "exec", ns]).args(command);
    all
}

fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

fn text(out: &Output) -> String {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn ok(args: &[&str]) -> Output {
    let out = Command::new(args[0]).args(&args[1..]).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    out
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

fn example(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)).unwrap()
}

#[test]
fn a_gateway_runs_is_looked_into_and_leaves_nothing_behind() {
    let net = Net::new("all");
    let before = ["eth0", "eth1"].map(|interface| net.traces_on(interface));
    let running = net.start(&example("upf-packet.toml"));
    assert!(fs::metadata(net.socket()).unwrap().file_type().is_socket());
    let during = net.traces_on("eth0");
    assert_ne!(during, before[0], "offloads are off while it runs");

    // A second one finds the interfaces in use and says so.
    let second = within(&net.gateway, &[WEIR, "run"])
        .arg(net.file("gw.toml"))
        .args(["--socket"])
        .arg(net.socket())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("`eth0` is in use by process"), "{said}");

    // Traffic, and a trace of one subscriber meanwhile.
    let profile = net.file("gen.toml");
    fs::write(&profile, example("gen.toml")).unwrap();
    let load = within(&net.host, &[WEIR, "gen"])
        .arg(&profile)
        .args(["--pps", "4000", "--ramp", "0.5", "--seconds", "3", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let load = Running(Some(load));
    let pcap = net.file("walk.pcapng");
    let walk = net.weir(&["trace", "--ue", "10.60.0.9", "--packets", "2", "--pcap", pcap.to_str().unwrap()]);
    assert_eq!(walk.matches("sent on").count(), 2, "{walk}");
    assert!(walk.contains("packet 1 · worker 0") && walk.contains("match_pdr"), "{walk}");
    assert!(fs::metadata(&pcap).unwrap().len() > 500);
    let mut load = load;
    let out = load.0.take().unwrap().wait_with_output().unwrap();
    let result: serde_json::Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&out.stderr)));
    for direction in ["uplink", "downlink"] {
        let of = |key: &str| result["directions"][direction][key].as_u64().unwrap();
        // Neighbours were resolved during the ramp. A busy test machine may keep the generator from sending, but what it sent must come.
        assert!(of("sent_packets") > 500 && of("lost_packets") == 0 && of("misdelivered_packets") == 0, "{result}");
    }

    // Every page.
    let page = net.weir(&["show", "run"]);
    assert!(page.contains("uplink.gtpu_decap") && page.contains("ns/packet"), "{page}");
    let page = net.weir(&["show", "run", "--over", "0.2"]);
    assert!(page.contains("over 0.2 s"), "{page}");
    assert!(net.weir(&["show", "drops"]).contains("what it means"));
    assert!(net.weir(&["show", "frames"]).contains("16,384 packet buffers"));
    let page = net.weir(&["show", "ports"]);
    assert!(page.contains("packet-slots") && page.contains("chosen by mode=auto") && page.contains("eth1"), "{page}");
    assert!(net.weir(&["show", "sessions"]).contains("1,000"));
    let one = net.json(&["show", "sessions", "--ue", "10.60.0.9"]);
    assert!(one["usage"][0]["up_packets"].as_u64().unwrap() >= 2, "{one}");
    let counters = net.json(&["show", "run"]);
    assert!(counters["workers"][0]["io"]["tx_packets"].as_u64().unwrap() > 1000, "{counters}");
    assert_eq!(net.json(&["show", "frames"])["packet_buffers"], 16_384);

    // The end.
    let out = running.stop();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains("answered or held: 0 missing"), "{said}");
    assert!(said.contains("slots    16,384 of 16,384 back: 0 missing"), "{said}");
    assert!(!net.socket().exists());
    assert_eq!(fs::read_dir(&net.folder).unwrap().count(), 3, "gw.toml, gen.toml and walk.pcapng are ours");
    for (interface, before) in ["eth0", "eth1"].iter().zip(before) {
        assert_eq!(net.traces_on(interface), before, "{interface} is not as it was");
    }
}

/// What a scraper sees: the samples by name, and what the other paths answer.
fn scrape(net: &Net) -> serde_json::Value {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let python = format!("{root}/target/judge/bin/python3");
    let mut command = within(&net.gateway, &[&python, &format!("{root}/tests/net/scrape.py")]);
    command.arg("http://127.0.0.1:9464");
    serde_json::from_str(&text(&run(command))).unwrap()
}

#[test]
fn prometheus_reads_what_it_counts_and_drains() {
    let net = Net::new("metrics");
    ok(&["ip", "-n", &net.gateway, "link", "set", "lo", "up"]);
    let running = net.start(&format!("{}\n[metrics]\naddress = \"127.0.0.1:9464\"\n", example("upf-packet.toml")));
    let sum = |seen: &serde_json::Value, family: &str| -> f64 {
        let samples = seen["samples"].as_object().unwrap().iter();
        samples.filter(|(key, _)| key.split('{').next() == Some(family)).map(|(_, value)| value.as_f64().unwrap()).sum()
    };
    let before = scrape(&net);
    assert_eq!(sum(&before, "weir_sessions"), 1000.0, "{before}");
    assert_eq!((sum(&before, "weir_port_up"), sum(&before, "weir_ready")), (2.0, 1.0), "{before}");
    let paths = |seen: &serde_json::Value, path: &str| seen["paths"][path].clone();
    assert_eq!(paths(&before, "/healthz"), serde_json::json!([200, "alive\n"]));
    assert_eq!(paths(&before, "/readyz"), serde_json::json!([200, "ready\n"]));
    assert_eq!(paths(&before, "/other")[0], 404);

    // Traffic moves the counters by what `weir show` says, too.
    let profile = net.file("gen.toml");
    fs::write(&profile, example("gen.toml")).unwrap();
    let mut load = within(&net.host, &[WEIR, "gen"]);
    load.arg(&profile).args(["--pps", "2000", "--ramp", "0.5", "--seconds", "2", "--json"]);
    text(&run(load));
    let after = scrape(&net);
    let counters = net.json(&["show", "run"]);
    let received = counters["workers"][0]["io"]["rx_packets"].as_f64().unwrap();
    assert!(received > 1000.0, "{counters}");
    assert_eq!(sum(&after, "weir_port_receive_packets_total"), received, "{after}");
    assert!(sum(&after, "weir_worker_utilisation_ratio") > 0.0, "{after}");
    assert!(sum(&after, "weir_load_ratio") < 1.0, "{after}");
    for (key, value) in before["samples"].as_object().unwrap() {
        if key.split('{').next().unwrap().ends_with("_total") {
            assert!(after["samples"][key].as_f64().unwrap() >= value.as_f64().unwrap(), "{key} went down");
        }
    }

    // A link that is down, and one who is to be taken away.
    assert!(net.weir(&["drain"]).contains("draining; 1,000 sessions left"));
    let drained = scrape(&net);
    assert_eq!(paths(&drained, "/readyz"), serde_json::json!([503, "draining: no new sessions are taken\n"]));
    assert_eq!((sum(&drained, "weir_ready"), sum(&drained, "weir_draining")), (0.0, 1.0));
    assert_eq!(paths(&drained, "/healthz")[0], 200, "it is well, all the same");
    net.weir(&["drain", "--undo"]);
    ok(&["ip", "-n", &net.host, "link", "set", "gnb0", "down"]);
    until("readiness to go", || (scrape(&net)["paths"]["/readyz"][0] == 503).then_some(()));
    ok(&["ip", "-n", &net.host, "link", "set", "gnb0", "up"]);
    until("readiness to come back", || (scrape(&net)["paths"]["/readyz"][0] == 200).then_some(()));
    assert!(running.stop().status.success());
}

#[test]
fn what_can_not_start_says_why() {
    let net = Net::new("why");
    let path = net.file("gw.toml");
    let said = |config: String, code: i32| {
        fs::write(&path, config).unwrap();
        let out = run({
            let mut command = within(&net.gateway, &[WEIR, "run"]);
            command.arg(&path).arg("--socket").arg(net.socket());
            command
        });
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{said}");
        said
    };
    let good = example("upf-packet.toml");
    let text = said(good.replace("eth1", "eth9"), 1);
    assert!(text.contains("port \"n6\": there is no interface `eth9`") && text.contains("eth0"), "{text}");
    let sentences = text.lines().filter(|line| !line.starts_with("ts=")).count();
    assert_eq!(sentences, 1, "one sentence beside the event log: {text}");
    let text = said(good.replace("mode=auto", "mode=fast"), 2);
    assert!(text.contains("`mode=fast` is invalid") && text.contains("gw.toml:15"), "{text}");
    let text = said(good.replace("qfi = 9", "qif = 9"), 2);
    assert!(text.contains("did you mean `qfi`?") && text.contains("qif = 9"), "{text}");
    let text = said(good.replace("10.0.6.254", "10.9.9.9"), 2);
    assert!(text.contains("10.9.9.9 is on the link of no port") && text.contains("next_hop = \"10.9.9.9\""), "{text}");
    assert!(!net.socket().exists());
}

#[test]
fn two_processes_share_no_interface() {
    let net = Net::new("lock");
    let good = example("upf-packet.toml");
    let first = net.start(&good);
    let pid = net.json(&["show", "run"])["pid"].as_u64().unwrap();
    for other in [good.clone(), good.replace("?mode=auto", "?mode=auto&fanout=hash&group=1&member=0/2")] {
        let (said, code) = net.refusal(&other);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("`eth0` is in use by") && said.contains(&format!("process {pid}:")), "{said}");
    }
    first.stop();
    // Members of one group divide the packets.
    let member = |n: u32| {
        let divided = |text: &str, port: &str, group| {
            let uri = format!("packet:{port}?mode=auto");
            text.replace(&uri, &format!("{uri}&fanout=hash&group={group}&member={n}/2"))
        };
        divided(&divided(&good, "eth0", 1), "eth1", 2)
    };
    let first = net.start(&member(0));
    let second = net.start_at(&member(1), &net.file("second.sock"));
    let (said, code) = net.refusal(&member(1));
    assert!(code == Some(1) && said.contains("`eth0` is in use by process"), "{said}");
    let (said, code) = net.refusal(&good);
    assert!(code == Some(1) && said.contains("`eth0` is in use by process"), "{said}");
    drop((first, second));
    // What was killed has it no more.
    fs::remove_file(net.socket()).unwrap();
    assert!(net.start(&good).stop().status.success());
}

#[test]
fn what_the_host_uses_is_not_taken() {
    let net = Net::new("claim");
    let good = example("upf-packet.toml");
    ok(&["ip", "-n", &net.gateway, "address", "add", "192.0.2.7/24", "dev", "eth0"]);
    let (said, code) = net.refusal(&good);
    assert_eq!(code, Some(2), "{said}");
    for part in
        ["would take `eth0` from the host: the host has 192.0.2.7 there", "claim_interface = true", "gw.toml:15"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    ok(&["ip", "-n", &net.gateway, "address", "del", "192.0.2.7/24", "dev", "eth0"]);
    ok(&["ip", "-n", &net.gateway, "route", "add", "default", "dev", "eth1"]);
    let (said, code) = net.refusal(&good);
    assert!(code == Some(2) && said.contains("would take `eth1`") && said.contains("default route"), "{said}");
    // Copies take nothing away, unless both answer for an address; and who says so gets it all.
    net.start(&good.replace("packet:eth1?mode=auto", "packet:eth1?mode=auto&host=shared")).stop();
    ok(&["ip", "-n", &net.gateway, "address", "add", "10.0.3.1/24", "dev", "eth0"]);
    let claimed = good.replace("role = ", "claim_interface = true\nrole = ");
    net.start(&claimed).stop();
    let (said, code) = net.refusal(&good.replace("?mode=auto", "?mode=auto&host=shared"));
    assert!(code == Some(2) && said.contains("10.0.3.1"), "{said}");
}

#[test]
fn losses_at_a_port_are_in_the_account() {
    let net = Net::new("losses");
    // The gateway takes the interface to carry more than it does: the kernel refuses what is larger.
    ok(&["ip", "-n", &net.gateway, "link", "set", "eth1", "mtu", "600"]);
    let config = example("upf-packet.toml")
        .replace("addresses = [\"10.0.6.1/24\"]", "addresses = [\"10.0.6.1/24\"]\nmtu = 1500");
    let running = net.start(&config);
    let gen_config = example("gen.toml");
    let config_path = net.file("gen.toml");
    fs::write(&config_path, gen_config).unwrap();
    let mut command = within(&net.host, &[WEIR, "gen"]);
    command.arg(&config_path).args("--ues 10 --pps 500 --seconds 1 --ratio 1:0 --sizes 1000 --json".split(' '));
    run(command);
    let drops = net.json(&["show", "drops"]);
    let refused = drops.as_array().unwrap().iter().find(|row| row["reason"] == "port_refused");
    let refused = refused.unwrap_or_else(|| panic!("{drops}"))["packets"].as_u64().unwrap();
    assert!(refused > 100, "{drops}");
    let out = running.stop();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("port_refused") && said.contains(" 0 missing") && !said.contains("MISSING"), "{said}");
}

#[test]
fn without_a_capability_it_says_which() {
    let net = Net::new("cap");
    let path = net.file("gw.toml");
    fs::write(&path, example("upf-packet.toml")).unwrap();
    let mut command = within(&net.gateway, &["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw", WEIR]);
    let out = run({
        command.arg("run").arg(&path).arg("--socket").arg(net.socket());
        command
    });
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("CAP_NET_RAW") && said.contains("run as root"), "{said}");
}

#[test]
fn nothing_to_talk_to() {
    let out = Command::new(WEIR).args(["show", "run", "--socket", "/nowhere/weir.sock"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("nothing answers at /nowhere/weir.sock: is `weir run` running"), "{said}");
    let out = Command::new(WEIR).args(["show", "everything"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let out = Command::new(WEIR).args(["show", "run", "--ue", "10.0.0.1"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("weir trace --ue"));
}

#[test]
fn a_benchmark_says_what_an_option_has_nothing_to_do_with() {
    for (asked, told) in [
        (&["upf-embb", "--own-cpu"][..], "`--own-cpu` is about interfaces, of which memory has none: add --port xdp"),
        (&["upf-embb", "--share-cpu"], "`--share-cpu` is about interfaces"),
        (&["cmts-imix", "--own-cpu"], "--own-cpu has no effect on cmts-imix"),
    ] {
        let out = Command::new(WEIR).arg("bench").args(asked).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains(told), "{asked:?}: {said}");
    }
}
