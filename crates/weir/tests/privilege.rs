//! Least privilege of a running gateway: what each of its threads may do, that every kind of port works all the same,
//! and what happens when one of its processes dies.

mod net;

use std::fs;
use std::process::Command;
use std::time::Duration;

use net::{Net, Running, ends_well, example, json, number, ok, until, user_plane, well, within};
use serde_json::Value;

/// `Key: value` of a file like /proc/PID/status.
fn field(status: &str, key: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key} in {status}")).trim().to_owned()
}

/// The status of every thread of a process.
fn threads(pid: u64) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let all: Vec<String> =
        tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok()).collect();
    assert!(!all.is_empty());
    all
}

/// The process of that role, as `weir show process` tells.
fn process(net: &Net, role: &str) -> Value {
    let view = net.show("process");
    let found = view["processes"].as_array().unwrap().iter().find(|process| process["role"] == role);
    found.unwrap_or_else(|| panic!("no {role}: {view}")).clone()
}

fn pid(net: &Net, role: &str) -> u64 {
    number(&process(net, role)["pid"])
}

/// No thread of the gateway may do anything special, and the helper no more than open ports.
fn is_confined(net: &Net) {
    for status in threads(pid(net, "gateway")) {
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"] {
            assert_eq!(field(&status, set), "0000000000000000", "{set}: {status}");
        }
        assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("1".into(), "2".into()), "{status}");
    }
    // CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF.
    for status in threads(pid(net, "helper")) {
        assert_eq!(field(&status, "CapPrm"), "0000008000003000", "{status}");
        assert_eq!((field(&status, "NoNewPrivs"), field(&status, "Seccomp")), ("1".into(), "2".into()), "{status}");
    }
}

/// The example with simulated subscribers, its ports opened another way.
fn with_ports(kind: &str) -> String {
    let config = fs::read_to_string(example("upf-packet.toml")).unwrap();
    let kind = |interface: &str| match kind.split_once('?') {
        Some((kind, keys)) => format!("{kind}:{interface}?{keys}"),
        None => format!("{kind}:{interface}"),
    };
    config.replace("packet:eth0?mode=ring", &kind("eth0")).replace("packet:eth1?mode=ring", &kind("eth1"))
}

/// Signed traffic both ways; what arrived of it.
fn arrives(net: &Net, seconds: &str) -> u64 {
    // A busy machine may keep the generator from sending: it is asked again.
    (0..5).fold(0, |most, _| {
        if most > 100 {
            return most;
        }
        let mut load = within(&net.host, net::WEIR);
        load.arg("gen").arg(example("gen.toml")).args([
            "--pps",
            "4000",
            "--ramp",
            "0.5",
            "--json",
            "--seconds",
            seconds,
        ]);
        let result = json(&load.output().unwrap());
        let of = |direction: &str| number(&result["directions"][direction]["forwarded_packets"]);
        most.max(of("uplink").min(of("downlink")))
    })
}

#[test]
fn no_thread_of_a_running_gateway_keeps_a_capability() {
    for (n, kind) in ["packet?mode=ring", "packet?mode=slots", "packet?mode=mmsg", "packet?mode=plain", "xdp"]
        .into_iter()
        .enumerate()
    {
        let net = Net::new(&format!("pv{n}"));
        // Threads of every sort: the control socket's, metrics', a port that writes what passes to a file.
        let tap = net.file("seen.pcapng");
        let glue = if kind.contains('?') { '&' } else { '?' };
        let n3 =
            "eth0".to_owned() + kind.split_once('?').map_or("", |_| "?") + kind.split_once('?').map_or("", |k| k.1);
        let config = with_ports(kind).replace(&n3, &format!("{n3}{glue}tap={}", tap.display()));
        let config = format!("{config}\n[metrics]\naddress = \"127.0.0.1:9464\"\n");
        ok(&format!("ip -n {} link set lo up", net.gateway));
        let gateway = net.start(&config);
        is_confined(&net);
        assert!(arrives(&net, "0.7") > 100, "{kind}");
        is_confined(&net);
        assert!(fs::metadata(&tap).unwrap().len() > 1000, "{kind}");
        ends_well(gateway);
        assert!(!net.file("weir.sock").exists(), "{kind}: it takes its control socket away");
    }
}

#[test]
fn sessions_are_kept_by_a_confined_gateway() {
    let net = Net::new("pvn4");
    let ledger = net.file("kept");
    let config = user_plane().replace("[n4]", &format!("[n4]\nledger = {ledger:?}\ncheckpoint_seconds = 1"));
    let mut gateway = net.start(&config);
    is_confined(&net);
    let control = net.control(&net.host, &format!("{} --sessions 50 --rate 2000 --idle 0", example("cp.toml")));
    assert_eq!(net.sessions(), 50);
    is_confined(&net);
    gateway.kill();
    let _ = fs::remove_file(net.file("weir.sock"));
    let gateway = net.start(&config);
    assert_eq!(net.sessions(), 50, "they are back");
    is_confined(&net);
    drop(control);
    ends_well(gateway);
}

#[test]
fn an_interface_made_again_is_opened_without_privileges() {
    let kind = "packet?mode=slots";
    let net = Net::new("pvre");
    let gateway = net.start(&with_ports(kind));
    assert!(arrives(&net, "0.5") > 50, "{kind}");
    let link = |state: &'static str| {
        let net = &net;
        move || {
            let ports = net.show("ports");
            let is = |port: &Value| port["interface"] == "eth0" && port["link"] == state;
            ports.as_array().unwrap().iter().any(is).then_some(())
        }
    };
    let ports = net.show("ports");
    let port = ports.as_array().unwrap().iter().find(|port| port["interface"] == "eth0").unwrap();
    let mac = port["mac"].as_str().unwrap().to_owned();
    ok(&format!("ip -n {} link del eth0", net.gateway));
    until("the interface to be missed", link("gone"));
    // The same device comes back: the gateway goes on with the hardware address it has announced.
    ok(&format!("ip -n {} link add eth0 address {mac} type veth peer name gnb0 netns {}", net.gateway, net.host));
    ok(&format!("ip -n {} link set eth0 up", net.gateway));
    ok(&format!("ip -n {} link set gnb0 up", net.host));
    until("the interface to be opened again", link("up"));
    is_confined(&net);
    let all = arrives(&net, "0.7");
    assert!(all > 50, "{kind}: {all} {} {}", net.show("drops"), net.show("ports"));
    ends_well(gateway);
}

/// Offloads and XDP programs: what a port changes on an interface.
fn changes_on(net: &Net, interface: &str) -> String {
    let features = well(within(&net.gateway, "ethtool").args(["-k", interface]).output().unwrap());
    let link = well(within(&net.gateway, "ip").args(["-d", "link", "show", interface]).output().unwrap());
    let link = String::from_utf8_lossy(&link.stdout).into_owned();
    format!("{}xdp: {}", String::from_utf8_lossy(&features.stdout), link.contains("xdp"))
}

#[test]
fn a_killed_gateway_leaves_interfaces_as_they_were() {
    let net = Net::new("pvkill");
    let before = changes_on(&net, "eth0");
    let config = with_ports("xdp");
    let mut gateway = net.start(&config);
    assert_ne!(changes_on(&net, "eth0"), before);
    // The next one does not wait for the helper of the one before.
    for _ in 0..3 {
        gateway.kill();
        let _ = fs::remove_file(net.file("weir.sock"));
        gateway = net.start(&config);
        let during = changes_on(&net, "eth0");
        assert!(during.contains("xdp: true") && during.contains("tx-checksumming: off"), "{during}");
    }
    gateway.kill();
    until("offloads and the program to be undone", || (changes_on(&net, "eth0") == before).then_some(()));
}

#[test]
fn a_gateway_whose_helper_is_gone_stops() {
    let net = Net::new("pvhelp");
    let gateway = net.start(&with_ports("packet?mode=slots"));
    let helper = pid(&net, "helper");
    ok(&format!("kill -KILL {helper}"));
    let out = gateway.end_anyhow();
    assert!(!out.status.success(), "a service manager starts it again");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("0 missing"), "{said}");
}

#[test]
fn signals_to_the_group_leave_the_helper_to_its_gateway() {
    let net = Net::new("pvsig");
    let before = changes_on(&net, "eth0");
    let gateway = net.start(&with_ports("packet?mode=slots"));
    let helper = pid(&net, "helper");
    ok(&format!("kill -TERM {helper}"));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(pid(&net, "helper"), helper, "it goes on");
    ends_well(gateway);
    until("the helper to end", || (!fs::exists(format!("/proc/{helper}")).unwrap()).then_some(()));
    assert_eq!(changes_on(&net, "eth0"), before);
}

/// `weir run` as root without capabilities but those.
fn limited(net: &Net, capabilities: &str, config: &str) -> Command {
    fs::write(net.file("upf.toml"), config).unwrap();
    let mut command = within(&net.gateway, "setpriv");
    command.arg(format!("--bounding-set=-all{capabilities}")).arg(net::WEIR);
    command.arg("run").arg(net.file("upf.toml")).arg("--socket").arg(net.file("weir.sock"));
    command
}

/// The capabilities of the setcap line a gateway without any is refused with.
fn granted(net: &Net, config: &str) -> String {
    let out = limited(net, "", config).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(said.matches("setcap ").count(), 1, "one command grants everything: {said}");
    assert!(said.contains(&format!("+ep {}", fs::canonicalize(net::WEIR).unwrap().display())), "{said}");
    let sets = said.split("setcap ").nth(1).and_then(|rest| rest.split("+ep").next()).unwrap();
    sets.split(',').map(|set| format!(",+{}", set.trim_start_matches("cap_"))).collect()
}

#[test]
fn the_setcap_line_grants_all_that_a_configuration_takes() {
    for (n, kind) in ["packet?mode=slots", "packet?host=shared&offloads=keep", "xdp"].into_iter().enumerate() {
        let net = Net::new(&format!("pvcap{n}"));
        let config = with_ports(kind);
        let capabilities = granted(&net, &config);
        let mut command = limited(&net, &capabilities, &config);
        // setpriv sets the bounding set for what it runs only.
        command.env("WEIR_TEST", "1");
        let gateway = Running::start(command, &net.file("run.err"));
        let said = || fs::read_to_string(net.file("run.err")).unwrap();
        until("a gateway that is ready", || {
            assert!(!said().contains("needs CAP"), "{kind} with {capabilities}: {}", said());
            said().contains("ready after").then_some(())
        });
        assert!(arrives(&net, "0.4") > 20, "{kind}");
        ends_well(gateway);
    }
}

#[test]
fn a_gateway_goes_on_as_the_user_it_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let net = Net::new("pvuser");
    let folder = net.file("run");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let socket = folder.join("weir.sock");
    fs::write(net.file("upf.toml"), format!("{}\n[process]\nuser = \"nobody\"\n", with_ports("packet"))).unwrap();
    let mut command = within(&net.gateway, net::WEIR);
    command.arg("run").arg(net.file("upf.toml")).arg("--socket").arg(&socket);
    let gateway = Running::start(command, &net.file("run.err"));
    until("a gateway that is ready", || {
        fs::read_to_string(net.file("run.err")).unwrap().contains("ready after").then_some(())
    });
    let out = Command::new(net::WEIR).args(["show", "process", "--json", "--socket"]).arg(&socket).output().unwrap();
    let view = json(&well(out));
    let users: Vec<u64> = view["processes"].as_array().unwrap().iter().map(|one| number(&one["uid"])).collect();
    assert_eq!(users, [65_534, 0], "{view}");
    ends_well(gateway);

    fs::write(net.file("upf.toml"), format!("{}\n[process]\nuser = \"weir-none\"\n", with_ports("packet"))).unwrap();
    let mut command = within(&net.gateway, net::WEIR);
    let out = command.arg("run").arg(net.file("upf.toml")).arg("--socket").arg(&socket).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("no user \"weir-none\"") && said.contains("useradd"), "{said}");
}

#[test]
fn standby_is_refused_where_there_is_none() {
    let out = Command::new(net::WEIR).args(["run", "--standby", &example("upf-n4.toml")]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("--standby is refused") && said.contains("gateway = \"upf\""), "{said}");
}

/// `Key=value` lines of the unit, by key; a key may come again.
fn unit() -> Vec<(String, String)> {
    let text = fs::read_to_string(net::root().join("deploy/systemd/weir@.service")).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '[']));
    lines.map(|line| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap()).collect()
}

#[test]
fn the_systemd_unit_grants_what_ports_take_and_no_more() {
    let unit = unit();
    let of = |key: &str| unit.iter().filter(|(k, _)| k == key).map(|(_, value)| value.as_str()).collect::<Vec<_>>();
    let net = Net::new("pvunit");
    let mut takes: Vec<String> = granted(&net, &with_ports("xdp"))
        .split(",+")
        .skip(1)
        .map(|set| format!("CAP_{}", set.to_uppercase()))
        .collect();
    takes.sort();
    for key in ["AmbientCapabilities", "CapabilityBoundingSet"] {
        let mut sets: Vec<&str> = of(key)[0].split(' ').collect();
        sets.sort_unstable();
        assert_eq!(sets, takes, "{key}");
    }
    let calls: Vec<&str> = of("SystemCallFilter").into_iter().flat_map(|line| line.split(' ')).collect();
    for call in ["bpf", "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"] {
        assert!(calls.contains(&call), "{call}");
    }
    let families = of("RestrictAddressFamilies")[0].split(' ').collect::<Vec<_>>();
    assert_eq!(families, ["AF_PACKET", "AF_XDP", "AF_NETLINK", "AF_UNIX", "AF_INET", "AF_INET6"]);
    for (key, value) in [("Type", "notify"), ("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"), ("User", "weir")]
    {
        assert_eq!(of(key), [value], "{key}");
    }
    assert_eq!((of("LimitMEMLOCK"), of("MemoryDenyWriteExecute")), (vec!["infinity"], vec!["yes"]));
    // The command line is one that weir takes.
    let words: Vec<&str> = of("ExecStart")[0].split(' ').collect();
    let config = net.file("unit.toml");
    fs::write(&config, with_ports("packet")).unwrap();
    let words = words[1..].iter().map(|word| word.replace("/etc/weir/%i.toml", config.to_str().unwrap()));
    let out = within(&net.gateway, net::WEIR).args(words).arg("--check").output().unwrap();
    well(out);
}

#[test]
fn systemd_is_told_when_the_gateway_is_ready() {
    let net = Net::new("pvready");
    let path = net.file("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    fs::write(net.file("upf.toml"), with_ports("packet")).unwrap();
    let mut command = within(&net.gateway, net::WEIR);
    command.arg("run").arg(net.file("upf.toml")).arg("--socket").arg(net.file("weir.sock")).env("NOTIFY_SOCKET", &path);
    let gateway = Running::start(command, &net.file("run.err"));
    let mut said = [0; 64];
    let len = manager.recv(&mut said).unwrap();
    assert_eq!(&said[..len], b"READY=1");
    is_confined(&net);
    ends_well(gateway);
}
