//! Least privilege of a running gateway: what each of its threads may do, that every kind of port works all the same,
//! and what happens when one of its processes dies.

mod net;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
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
    // CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF; CAP_IPC_LOCK where it registers packet memory.
    for status in threads(pid(net, "helper")) {
        assert!(["0000008000003000", "0000008000007000"].contains(&&*field(&status, "CapPrm")), "{status}");
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
    config.replace("packet:eth0?mode=auto", &kind("eth0")).replace("packet:eth1?mode=auto", &kind("eth1"))
}

/// The same, run with a filter that ends the process at a system call that is not on the list.
fn strict(config: &str) -> String {
    format!("{config}\n[process]\nseccomp = \"kill\"\n")
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
    for (n, kind) in ["packet?mode=tpacket3", "packet?mode=tpacket2", "packet?mode=mmsg", "packet?mode=plain", "xdp"]
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
        let gateway = net.start(&strict(&config));
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
    let config = strict(&config);
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

/// What `weir show ports` tells of the port on an interface.
fn port(net: &Net, interface: &str) -> Value {
    let ports = net.show("ports");
    let found = ports.as_array().unwrap().iter().find(|port| port["interface"] == interface);
    found.unwrap_or_else(|| panic!("no port on {interface}: {ports}")).clone()
}

fn until_link(net: &Net, interface: &str, state: &str) {
    until(&format!("link {state} on {interface}"), || (port(net, interface)["link"] == state).then_some(()));
}

/// Removes n3's interface while the gateway runs and makes it again, with that hardware address or the one it had.
fn made_again(net: &Net, kind: &str, address: Option<&str>) -> Running {
    let gateway = net.start(&strict(&with_ports(kind)));
    assert!(arrives(net, "0.5") > 50, "{kind}");
    let before = port(net, "eth0")["mac"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        ok(&format!("ip -n {} link del eth0", net.gateway));
        until_link(net, "eth0", "gone");
        let address = address.unwrap_or(&before);
        let (ours, theirs) = (&net.gateway, &net.host);
        ok(&format!("ip -n {ours} link add eth0 address {address} type veth peer name gnb0 netns {theirs}"));
        ok(&format!("ip -n {ours} link set eth0 up"));
        ok(&format!("ip -n {theirs} link set gnb0 up"));
        until_link(net, "eth0", "up");
        assert_eq!(port(net, "eth0")["mac"], address);
    }
    is_confined(net);
    let all = arrives(net, "0.7");
    assert!(all > 50, "{kind}: {all} {} {}", net.show("drops"), net.show("ports"));
    gateway
}

#[test]
fn an_interface_made_again_is_opened_without_privileges() {
    for (n, kind) in ["packet?mode=tpacket2", "xdp"].into_iter().enumerate() {
        let net = Net::new(&format!("pvre{n}"));
        ends_well(made_again(&net, kind, None));
    }
}

#[test]
fn another_hardware_address_is_taken_on() {
    for (n, kind) in ["packet?mode=tpacket3", "xdp"].into_iter().enumerate() {
        let net = Net::new(&format!("pvmac{n}"));
        let gateway = made_again(&net, kind, Some("02:00:00:00:7e:57"));
        let said = || fs::read_to_string(net.file("run.err")).unwrap();
        assert_eq!(said().matches("event=hardware_address_changed").count(), 1, "{}", said());
        // Of the same interface.
        ok(&format!("ip -n {} link set eth0 address 02:00:00:00:7e:58", net.gateway));
        until("the address", || (said().matches("event=hardware_address_changed").count() == 2).then_some(()));
        let all = arrives(&net, "0.7");
        assert!(all > 50, "{kind}: {all} {} {}", net.show("drops"), net.show("ports"));
        ends_well(gateway);
    }
}

/// A ping to the port's address from the host at the other end of the TUN interface.
fn ping(net: &Net) -> bool {
    let out = within(&net.gateway, "ping").args(["-c", "3", "-i", "0.1", "-W", "2", "10.0.6.1"]).output().unwrap();
    out.status.success()
}

#[test]
fn a_tun_interface_made_again_is_opened_without_privileges() {
    let net = Net::new("pvtun");
    let make = || {
        ok(&format!("ip -n {} tuntap add name ogstun mode tun", net.gateway));
        ok(&format!("ip -n {} address add 10.0.6.254/24 dev ogstun", net.gateway));
        ok(&format!("ip -n {} link set ogstun up", net.gateway));
    };
    make();
    let config = with_ports("packet").replace("packet:eth1", "tun:ogstun?mtu=1400");
    let config = config.replace("next_hop = \"10.0.6.254\"", "port = \"n6\"");
    let gateway = net.start(&strict(&config));
    assert!(ping(&net));
    for _ in 0..2 {
        ok(&format!("ip -n {} link del ogstun", net.gateway));
        until_link(&net, "ogstun", "gone");
        make();
        until_link(&net, "ogstun", "up");
        assert!(ping(&net), "{} {}", net.show("drops"), net.show("ports"));
        assert_eq!(port(&net, "ogstun")["mtu"], 1400, "it is set again");
    }
    is_confined(&net);
    ends_well(gateway);
}

/// Claims `ogstun` if told to, as another gateway's process does. When its standard input ends, it says whether the kernel
/// leaves checksums to readers.
const NEXT_PROCESS: &str = r#"
import array, fcntl, socket, struct, sys
if sys.argv[1] == "claims":
    claim = socket.socket(socket.AF_UNIX)
    claim.bind("\0weir/interface/%d/whole" % socket.if_nametoindex("ogstun"))
    claim.listen()
print("ready", flush=True)
sys.stdin.read()
value = array.array("B", struct.pack("II", 0x16, 0))
request = struct.pack("16sP", b"ogstun", value.buffer_info()[0])
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8946, request)
print(struct.unpack("II", value)[1])
"#;

#[test]
fn offloads_of_the_next_process_are_left_alone() {
    // A confined gateway that opened an interface again could not claim it: then the next process may have it already.
    for (n, (next, left)) in [("claims", "1"), ("waits", "0")].into_iter().enumerate() {
        let net = Net::new(&format!("pvnext{n}"));
        let make = || {
            ok(&format!("ip -n {} tuntap add name ogstun mode tun multi_queue", net.gateway));
            ok(&format!("ip -n {} link set ogstun up", net.gateway));
        };
        make();
        let config = with_ports("packet").replace("packet:eth1", "tun:ogstun");
        let gateway = net.start(&strict(&config.replace("next_hop = \"10.0.6.254\"", "port = \"n6\"")));
        ok(&format!("ip -n {} link del ogstun", net.gateway));
        until_link(&net, "ogstun", "gone");
        make();
        until_link(&net, "ogstun", "up");
        let mut command = within(&net.gateway, "python3");
        command.args(["-c", NEXT_PROCESS, next]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "ready");
        ends_well(gateway);
        drop(process.stdin.take());
        assert_eq!(said.next().unwrap().unwrap(), left, "{next}");
        process.wait().unwrap();
    }
}

#[test]
fn capture_files_and_the_nat_log_are_written_by_a_confined_gateway() {
    let net = Net::new("pvnat");
    let (log, out) = (net.file("nat/log"), net.file("out.pcap"));
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
        [nat]
        log = "{}"
        block_ports = 64
        pool = [{{ addresses = "203.0.113.1/32" }}]
        [simulate]
        ues = 2
        ue_first = "10.60.0.1"
        gnbs = 1
        gnb_first = "10.0.3.100"
        bearer = [{{ qfi = 9 }}]
        [metrics]
        address = "127.0.0.1:9464"
        "#,
        packets.display(),
        out.display(),
        log.display(),
    );
    let gateway = net.start(&strict(&config));
    let size = |path: &std::path::Path| fs::metadata(path).map_or(0, |file| file.len());
    until("packets and a line of the log", || (size(&out) > 10_000 && size(&log) > 20).then_some(()));
    for topic in ["run", "ports", "drops", "frames", "nat", "process"] {
        let _ = net.show(topic);
    }
    assert_eq!(process(&net, "gateway")["landlock"], "enforced");
    for status in threads(pid(&net, "gateway")) {
        assert_eq!((field(&status, "CapEff"), field(&status, "Seccomp")), ("0000000000000000".into(), "2".into()));
    }
    ends_well(gateway);
}

#[test]
fn a_kernel_without_landlock_is_reported() {
    // The filter is this thread's, and that of processes it starts.
    let run = || {
        refuse_landlock();
        let net = Net::new("pvabi");
        let gateway = net.start(&with_ports("packet?mode=tpacket2"));
        let said = fs::read_to_string(net.file("run.err")).unwrap();
        assert!(said.contains("event=landlock_missing") && said.contains("not supported"), "{said}");
        for role in ["gateway", "helper"] {
            let process = process(&net, role);
            assert_eq!((&process["landlock"], &process["landlock_abi"]), (&"not supported".into(), &Value::Null));
        }
        is_confined(&net);
        assert!(arrives(&net, "0.4") > 20);
        ends_well(gateway);
    };
    std::thread::spawn(run).join().unwrap();
}

/// From now on the kernel seems to have no Landlock.
fn refuse_landlock() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    let rules = std::collections::BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]);
    let missing = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, missing, std::env::consts::ARCH.try_into().unwrap());
    apply_filter(&BpfProgram::try_from(filter.unwrap()).unwrap()).unwrap();
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
    let gateway = net.start(&with_ports("packet?mode=tpacket2"));
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
    let gateway = net.start(&with_ports("packet?mode=tpacket2"));
    let helper = pid(&net, "helper");
    ok(&format!("kill -TERM {helper}"));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(pid(&net, "helper"), helper, "it goes on");
    ends_well(gateway);
    until("the helper to end", || (!fs::exists(format!("/proc/{helper}")).unwrap()).then_some(()));
    assert_eq!(changes_on(&net, "eth0"), before);
}

/// A tree like /sys: interfaces at those NUMA nodes, all CPUs at node 0.
fn made_up_sys(net: &Net, interfaces: &[(&str, &str)]) {
    let write = |path: String, text: &str| {
        let path = net.file("sys").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for (interface, node) in interfaces {
        write(format!("net/{interface}/device/numa_node"), node);
    }
    for entry in fs::read_dir("/sys/devices/system/cpu").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.strip_prefix("cpu").is_some_and(|n| n.parse::<u32>().is_ok()) {
            write(format!("cpu/{name}/node0/cpulist"), "0-7\n");
        }
    }
    for name in ["online", "possible", "present"] {
        write(format!("cpu/{name}"), &fs::read_to_string(format!("/sys/devices/system/cpu/{name}")).unwrap());
    }
}

#[test]
fn confined_gateway_reports_a_port_at_another_node() {
    let net = Net::new("pvnuma");
    made_up_sys(&net, &[("eth0", "1\n"), ("eth1", "0\n")]);
    let config = with_ports("packet?mode=auto").replace("count = 1\n", "count = 1\ncpus = [0]\n");
    fs::write(net.file("upf.toml"), strict(&config)).unwrap();
    // In the mount namespace that `ip netns exec` makes.
    let (sys, weir) = (net.file("sys").display().to_string(), net::WEIR);
    let (file, socket) = (net.file("upf.toml").display().to_string(), net.file("weir.sock").display().to_string());
    let script = format!(
        "mount --bind {sys}/net /sys/class/net && mount --bind {sys}/cpu /sys/devices/system/cpu && \
         exec {weir} run {file} --socket {socket}"
    );
    let mut command = within(&net.gateway, "sh");
    command.args(["-c", &script]);
    let gateway = Running::start(command, &net.file("run.err"));
    let said = || fs::read_to_string(net.file("run.err")).unwrap();
    until("a gateway that is ready", || said().contains("ready after").then_some(()));
    is_confined(&net);
    let landlock = process(&net, "gateway")["landlock"].clone();
    assert!(landlock.as_str().unwrap().ends_with("enforced"), "{landlock}");
    let events: Vec<String> =
        said().lines().filter(|line| line.contains("port_on_other_node")).map(str::to_owned).collect();
    assert_eq!(events.len(), 1, "{}", said());
    for part in ["port=n3", "worker=0", "cpu=0", "port_node=1", "cpu_node=0"] {
        assert!(events[0].contains(part), "{part}: {}", events[0]);
    }
    ends_well(gateway);
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
    for (n, kind) in ["packet?mode=tpacket2", "packet?host=shared&offloads=keep", "xdp"].into_iter().enumerate() {
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
