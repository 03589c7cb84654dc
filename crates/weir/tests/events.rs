//! What a running gateway reports: events on stderr and in `weir show log`, and probes.

mod net;

use std::fs;
use std::process::Command;

use net::{Net, Running, WEIR, ends_well, example, ok, until, user_plane, well, within};

/// What the gateway has written to stderr.
fn written(net: &Net) -> String {
    fs::read_to_string(net.file("run.err")).unwrap()
}

/// A user plane whose probes the host can reach.
fn probed() -> String {
    user_plane().replace("127.0.0.1:9465", "10.0.4.1:9465")
}

/// Names of the events in lines of logfmt.
fn names(lines: &str) -> Vec<String> {
    let name = |line: &str| line.split(" event=").nth(1)?.split(' ').next().map(str::to_owned);
    lines.lines().filter_map(name).collect()
}

/// Waits for an event; returns its line.
fn wait_for(net: &Net, event: &str) -> String {
    let wanted = format!(" event={event} ");
    until(event, || written(net).lines().find(|line| line.contains(&wanted)).map(str::to_owned))
}

fn weir(net: &Net, args: &str) -> String {
    let out = Command::new(WEIR).args(args.split(' ')).arg("--socket").arg(net.file("weir.sock")).output();
    String::from_utf8(well(out.unwrap()).stdout).unwrap()
}

/// Status and body of a page of the gateway's listener for probes, as the host sees it.
fn probe(net: &Net, path: &str) -> String {
    const GET: &str = "
import sys, urllib.error, urllib.request
try:
    answer = urllib.request.urlopen('http://10.0.4.1:9465' + sys.argv[1], timeout=5)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status, answer.read().decode())
";
    let mut command = within(&net.host, "python3");
    String::from_utf8(well(command.args(["-c", GET, path]).output().unwrap()).stdout).unwrap()
}

#[test]
fn a_run_is_reported_in_order() {
    let net = Net::new("events");
    let gateway = net.start(&probed());
    until("readiness", || probe(&net, "/readyz").starts_with("200 ready").then_some(()));
    let control = net.control(&net.host, &format!("{} --sessions 20 --rate 1000 --idle 0", example("cp.toml")));

    ok(&format!("ip -n {} link set gnb0 down", net.host));
    let line = wait_for(&net, "link_down");
    assert!(line.contains("level=warn target=port") && line.contains("interface=eth0"), "{line}");
    until("the probe", || probe(&net, "/readyz").starts_with("503 port n3: no link").then_some(()));
    assert!(probe(&net, "/healthz").starts_with("200 alive"));
    ok(&format!("ip -n {} link set gnb0 up", net.host));
    wait_for(&net, "link_up");

    weir(&net, "drain");
    assert!(probe(&net, "/readyz").starts_with("503 draining"));
    weir(&net, "drain --undo");
    assert_eq!(weir(&net, "log set n4=debug,ledger=error"), "info,ledger=error,n4=debug\n");
    assert_eq!(weir(&net, "log show"), "info,ledger=error,n4=debug\n");
    let refused = Command::new(WEIR).args(["log", "set", "n5=debug", "--socket"]).arg(net.file("weir.sock")).output();
    assert!(
        String::from_utf8_lossy(&refused.unwrap().stderr).contains("unknown target \"n5\"; allowed: process, worker")
    );
    assert!(control.stop().status.success());

    // The ring has what stderr has, and chooses.
    let kept = weir(&net, "show log");
    assert_eq!(names(&kept), names(&written(&net)));
    let warned = weir(&net, "show log --level warn --target port");
    assert!(names(&warned).iter().all(|name| name == "link_down" || name == "port_errors"), "{warned}");
    let line = weir(&net, "show log --json --target port").lines().next().unwrap().to_owned();
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(json["ts"].as_str().unwrap().ends_with('Z') && json["level"].is_string(), "{json}");

    ends_well(gateway);
    let all = names(&written(&net));
    let mut left = all.iter();
    for event in [
        "start",
        "config_warning",
        "port_open",
        "ready",
        "association_up",
        "link_down",
        "link_up",
        "drain_begin",
        "drain_end",
        "log_levels_changed",
        "stopping",
        "stopped",
    ] {
        assert!(left.any(|name| name == event), "{event} is missing or out of order: {all:?}");
    }
    assert!(written(&net).contains(" event=stopping signal=SIGINT "), "{}", written(&net));
    assert!(written(&net).lines().all(|line| line.starts_with("ts=2")), "{}", written(&net));
}

#[test]
fn the_life_of_an_association_is_reported() {
    let net = Net::new("assoc");
    let pace = "[n4]\nheartbeat_seconds = 1\nsession_retention_seconds = 60";
    let gateway = net.start(&user_plane().replace("session_retention_seconds = 120", "").replace("[n4]", pace));
    let life = format!("{} --sessions 20 --rate 1000 --idle 0 --limits 0 --queries 0", example("cp.toml"));
    let mut control = net.control(&net.host, &life);
    let line = wait_for(&net, "association_up");
    assert!(
        line.contains("target=n4") && line.contains("node_id=10.0.4.2") && line.contains("10.0.4.2:8805"),
        "{line}"
    );
    // One that has never answered a heartbeat is not missed.
    until("heartbeats", || (net.show("peers")["peers"][0]["answers_heartbeats"] == true).then_some(()));
    control.kill();
    let line = wait_for(&net, "association_lost");
    assert!(line.contains("level=warn") && line.contains("sessions=20"), "{line}");
    // It comes back as one that has restarted: what it had is over.
    let control = net.control(&net.host, &life);
    let line = wait_for(&net, "association_over");
    assert!(line.contains("node_id=10.0.4.2") && line.contains("sessions=20"), "{line}");
    assert!(control.stop().status.success());
    ends_well(gateway);
}

#[test]
fn a_full_disk_is_reported_and_not_ready() {
    let net = Net::new("events-full");
    let folder = net.file("small");
    fs::create_dir_all(&folder).unwrap();
    let config = probed().replace("[n4]", &format!("[n4]\nledger = {folder:?}"));
    fs::write(net.file("upf.toml"), config).unwrap();
    // `ip netns exec` has mounts of its own: the small disk is seen by the gateway only.
    let run = format!(
        "mount -t tmpfs -o size=6m small {} && exec {WEIR} run {} --log-format json --socket {}",
        folder.display(),
        net.file("upf.toml").display(),
        net.file("weir.sock").display()
    );
    let mut command = within(&net.gateway, "sh");
    command.args(["-c", &run]);
    let _gateway = Running::start(command, &net.file("run.err"));
    until("readiness", || written(&net).contains("\"event\":\"ready\"").then_some(()));
    let mut command = within(&net.host, WEIR);
    command.args(["cp", &example("cp.toml")]).args("--sessions 20000 --rate 20000 --idle 0".split(' '));
    let _control = Running::start(command, &net.file("cp.err"));
    let line = until("a full disk", || {
        written(&net).lines().find(|line| line.contains("\"event\":\"disk_full\"")).map(str::to_owned)
    });
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&json["level"], &json["target"]), (&"error".into(), &"ledger".into()), "{line}");
    until("the probe", || probe(&net, "/readyz").starts_with("503 the disk of the ledger").then_some(()));
}

#[test]
fn levels_come_from_file_and_command_line() {
    let net = Net::new("events-levels");
    let log = "\n[log]\nformat = \"json\"\nlevel = \"warn\"\ntargets = { process = \"info\" }\n";
    let gateway = net.start(&(user_plane() + log));
    ends_well(gateway);
    let said = written(&net);
    assert!(said.contains("\"event\":\"ready\"") && !said.contains("port_open"), "{said}");
    assert!(said.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{said}");
    let mut command = within(&net.gateway, WEIR);
    command.arg("run").arg(net.file("upf.toml")).args(["--log-level", "loud"]);
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("unknown level \"loud\"; allowed: off, error, warn, info, debug, trace"), "{said}");
    fs::write(net.file("upf.toml"), user_plane() + "\n[log]\ntargets = { n5 = \"info\" }\n").unwrap();
    let out = Command::new(WEIR).arg("run").arg("--check").arg(net.file("upf.toml")).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("unknown target \"n5\"") && said.contains("one of process, worker"), "{said}");
}

/// Threads of a process by name.
fn thread(pid: u64, name: &str) -> i32 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut tasks = tasks.map(|task| task.unwrap().path());
    let found = tasks.find(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim() == name));
    found.unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Keeps one thread of another process from running for as long as `meanwhile` takes.
fn frozen(thread: i32, meanwhile: impl FnOnce()) {
    let none = std::ptr::null_mut::<libc::c_void>();
    let trace = |request| {
        // SAFETY: these requests neither read nor write memory of either process.
        let done = unsafe { libc::ptrace(request, thread, none, none) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    };
    trace(libc::PTRACE_SEIZE);
    trace(libc::PTRACE_INTERRUPT);
    // SAFETY: waiting for one's tracee, without a status.
    assert_eq!(unsafe { libc::waitpid(thread, std::ptr::null_mut(), libc::__WALL) }, thread);
    meanwhile();
    trace(libc::PTRACE_DETACH);
}

#[test]
fn a_worker_that_stands_still_and_what_its_ports_lose_are_reported() {
    const FLOOD: &str = "
import socket
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind(('gnb0', 0))
frame = bytes.fromhex('ffffffffffff020000000301') + b'\\x08\\x00' + bytes(60)
for _ in range(100_000):
    out.send(frame)
";
    let net = Net::new("events-stall");
    let gateway = net.start(&user_plane());
    let process = net.show("process");
    let processes = process["processes"].as_array().unwrap();
    let own = processes.iter().find(|process| process["role"] == "gateway").unwrap();
    frozen(thread(net::number(&own["pid"]), "weir-0"), || {
        let line = wait_for(&net, "worker_stalled");
        assert!(line.contains("level=warn") && line.contains("worker=0"), "{line}");
        well(within(&net.host, "python3").args(["-c", FLOOD]).output().unwrap());
    });
    let line = wait_for(&net, "worker_back");
    assert!(line.contains("worker=0"), "{line}");
    let line = wait_for(&net, "port_errors");
    assert!(line.contains("level=warn") && line.contains("port=n3") && line.contains("packets="), "{line}");
    ends_well(gateway);
}

#[test]
fn a_nat_log_that_can_not_be_written_is_reported() {
    let net = Net::new("events-nat");
    let packets = net::root().join("tests/golden/upf/nat/udp_there_and_back/n3.in.pcap");
    let config = format!(
        r#"
        gateway = "upf"
        port = [
            {{ name = "n3", uri = "pcap:{}?loop=forever&pace=2000pps", role = "access", addresses = ["10.0.3.1/24"] }},
            {{ name = "n6", uri = "pcap:?out={}", role = "core", addresses = ["10.0.6.1/24"] }},
        ]
        route = [{{ to = "0.0.0.0/0", next_hop = "10.0.6.254" }}]
        neighbour = [{{ port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe" }}]
        nat = {{ log = "/dev/full", block_ports = 64, pool = [{{ addresses = "203.0.113.1/32" }}] }}
        simulate = {{ ues = 2, ue_first = "10.60.0.1", gnbs = 1, gnb_first = "10.0.3.100", bearer = [{{ qfi = 9 }}] }}
        "#,
        packets.display(),
        net.file("out.pcap").display(),
    );
    let gateway = net.start(&config);
    let line = wait_for(&net, "nat_log_failed");
    assert!(line.contains("level=error target=nat") && line.contains("No space left"), "{line}");
    assert_eq!(written(&net).matches("event=nat_log_failed").count(), 1, "once, not for each block");
    ends_well(gateway);
}
