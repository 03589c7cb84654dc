//! Real output of every command fits the schema that `weir schema` has for it; `tests/judge/outputs.py`, with an
//! independent validator, judges. Objects are closed: a key that the schema does not have is a fault.

mod net;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use net::{BpfFolder, Net, Running, WEIR, example, root, until, user_plane, well, within};
use serde_json::{Value, json};

/// Outputs that take minutes, an idle machine, or a build with DPDK: other tests judge values of their types.
const NOT_MADE: [&str; 3] = ["bench suite", "plan verify", "bench io"];

/// Values by the name of their output.
#[derive(Default)]
struct Made(BTreeMap<String, Vec<Value>>);

impl Made {
    /// Takes in what a command printed: one value, or one a line.
    fn add(&mut self, name: &str, out: &Output) {
        let said = || String::from_utf8_lossy(&out.stderr).into_owned();
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(&out.stdout).into_iter().collect();
        let values = values.unwrap_or_else(|error| panic!("{name}: {error}: {}", said()));
        assert!(!values.is_empty(), "{name} printed nothing: {}", said());
        self.0.entry(name.to_owned()).or_default().extend(values);
    }

    /// Runs `weir` with those words, which must succeed.
    fn weir(&mut self, name: &str, words: &str) {
        let out = Command::new(WEIR).args(words.split_whitespace()).current_dir(root()).output().unwrap();
        assert!(out.status.success(), "weir {words}: {}", String::from_utf8_lossy(&out.stderr));
        self.add(name, &out);
    }

    fn join(&mut self, other: Self) {
        other.0.into_iter().for_each(|(name, values)| self.0.entry(name).or_default().extend(values));
    }
}

/// Benchmarks, short and small.
fn benchmarks() -> Made {
    let mut made = Made::default();
    for (profile, set) in [
        ("upf-128", "ues=64"),
        ("upf-embb", "ues=64"),
        ("vepc-embb", "ues=64"),
        ("fwa", "ues=64"),
        ("fwa-full", "ues=64"),
        ("bng-600g", "subscribers=64"),
    ] {
        made.weir("bench", &format!("bench {profile} --port memory --seconds 0.05 --set {set} --json"));
    }
    let upf = "bench upf-128 --seconds 0.05 --set ues=64 --json";
    made.weir("bench all", &format!("{upf} --port all"));
    made.weir("bench scale", &format!("{upf} --port plain --instances 1"));
    made.weir("bench scale", &format!("{upf} --port ring --fanout 1"));
    made.weir("bench bursts", &format!("{upf} --bursts 1,4"));
    let search = "--trial-seconds 0.05 --trials 3 --json";
    made.weir("bench search", &format!("bench upf-128 --set ues=64 --search mlr,rfc2544,determinism {search}"));
    made.weir("bench search", &format!("bench bng-600g --set subscribers=64 --search mlr,loss-curve {search}"));
    let cable = "bench cmts-imix --seconds 0.05 --set modems=8 --json";
    made.weir("bench cmts-imix", &format!("{cable} --service-groups 1 --sweep"));
    made.weir("bench cmts-imix", &format!("{cable} --service-groups 1..2"));
    made.weir("bench pfcp-sessions", "bench pfcp-sessions --set sessions=200 --json");
    made.weir("bench list", "bench --list --json");
    let short = "--seconds 0.05 --json";
    made.weir("bench experiment", &format!("bench packet-core --set ues=64 {short}"));
    made.weir("bench experiment", &format!("bench upf-128 --set ues=64 --vary ratio=1:1,1:9 --port ring {short}"));
    made.weir("bench experiment", &format!("bench bng-scale-up --set subscribers=64 {short}"));
    made.weir("bench experiment", &format!("bench cmts-groups --set modems=8 --vary service_groups=1,2 {short}"));
    made.weir("bench experiment", &format!("bench forward-pps --vary task=transmit,forward {short}"));
    made.weir("bench experiment", &format!("bench telemetry --set ues=64 {short}"));
    made.weir("bench experiment", "bench control-plane --set sessions=40 --vary control_planes=1,2 --json");
    made.weir("bench experiment", &format!("bench latency-location --set ues=64 --vary hops=0,1 {short}"));
    made.weir("bench real", "bench real --quick --loads 1k --sessions 16 --seconds 0.2 --rounds 1 --json");
    made
}

/// Certificates: of a short probe, and of its check; burst credit against an agent on this host.
fn certificates() -> Made {
    let mut made = Made::default();
    let folder = std::env::temp_dir().join(format!("weir-outputs-probe-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    made.weir("probe quick", &format!("probe quick --minutes 0.02 --key {} --json", at("key")));
    fs::write(at("certificate.json"), made.0["probe quick"][0].to_string()).unwrap();
    made.weir("probe check", &format!("probe check {} --json", at("certificate.json")));
    fs::write(at("secret"), "secret of this test").unwrap();
    fs::set_permissions(at("secret"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut agent = Command::new(WEIR);
    agent.args(["agent", "127.0.0.1:0", "--secret", &at("secret")]);
    let agent = Running::start(agent, Path::new(&at("said")));
    let port = until("an agent that listens", || {
        let said = fs::read_to_string(at("said")).unwrap();
        Some(said.split_once("listens on ")?.1.lines().next()?.to_owned())
    });
    let limits = "--minutes 0.05 --peak 20Mbps --json";
    made.weir(
        "probe burst",
        &format!("probe burst --agent {port} --secret {} --key {} {limits}", at("secret"), at("key")),
    );
    agent.stop();
    fs::remove_dir_all(&folder).unwrap();
    made
}

/// Plans, from the examples and from golden measurements.
fn plans() -> Made {
    let mut made = Made::default();
    for plan in ["upf", "cmts", "bng", "decision"] {
        made.weir("plan", &format!("plan examples/plan-{plan}.toml --json"));
    }
    made.weir("plan points", "plan --from tests/golden/plan/bench/small.json tests/golden/plan/bench/many.json --json");
    made.weir("plan", "plan examples/plan-upf.toml --from tests/golden/plan/bench/small.json --json");
    made.weir("lab", "lab list --json");
    made.weir("plan reproduce", "plan reproduce --json");
    made.weir("plan calibration", "plan calibration --json");
    made.weir("plan catalogue", "plan catalogue --json");
    for table in ["machines", "prices", "measurements", "sources"] {
        made.weir(&format!("plan catalogue {table}"), &format!("plan catalogue {table} --json"));
    }
    let small = "tests/golden/plan/bench/small.json";
    made.weir("compare", &format!("compare {small} {small} --json"));
    made
}

/// `weir show TOPIC` of all topics that a gateway has.
fn show(made: &mut Made, names: &[String], socket: &Path) {
    for topic in names.iter().filter_map(|name| name.strip_prefix("show ")) {
        let out = Command::new(WEIR).args(["show", topic, "--json", "--socket"]).arg(socket).output().unwrap();
        if out.status.success() {
            made.add(&format!("show {topic}"), &out);
        }
    }
}

/// Both ends at agents; the gateway's host has one, too.
fn over_agents(made: &mut Made, net: &Net) {
    let (file, socket) = (net.file("secret"), net.file("weir.sock").display().to_string());
    fs::write(&file, "a secret of this test\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let secret = file.display().to_string();
    let agent = |ns: &str, at: &str, option: &str, value: &str| {
        let mut agent = within(ns, WEIR);
        agent.args(["agent", at, "--secret", &secret, option, value]);
        let said = net.file(&format!("agent-{at}.err"));
        let running = Running::start(agent, &said);
        until("an agent that listens", || fs::read_to_string(&said).unwrap().contains("listens on").then_some(()));
        running
    };
    let _agents = [
        agent(&net.host, ":4780", "--port", "packet:gnb0"),
        agent(&net.host, ":4781", "--port", "packet:dn0"),
        agent(&net.gateway, "10.0.4.1:4780", "--socket", &socket),
    ];
    let mut load = within(&net.host, WEIR);
    load.args(["gen", &example("gen.toml"), "--n3", "agent::4780", "--n6", "agent::4781", "--secret", &secret]);
    load.args("--gateway-agent 10.0.4.1:4780 --ues 20 --pps 1000 --seconds 1 --sizes 128 --json".split(' '));
    made.add("gen hosts", &well(load.output().unwrap()));
    let mut probe = within(&net.host, WEIR);
    probe.args(["probe", "gateway", &example("gen.toml"), "--access", ":4780", "--core", ":4781"]);
    probe.args(["--secret", &secret, "--gateway", "10.0.4.1:4780", "--minutes", "0.02", "--json", "--sessions"]);
    let out = probe.arg(net.file("out.jsonl")).arg("--key").arg(net.file("key")).output().unwrap();
    made.add("probe gateway", &well(out));
}

/// A user plane with sessions of a control plane, traffic and charging records.
fn mobile(names: &[String]) -> Made {
    let (mut made, net) = (Made::default(), Net::new("outputs"));
    let (socket, ledger) = (net.file("weir.sock"), net.file("ledger"));
    let lists = "[[acl]]\nrules = [\"permit in udp from any to any\"]\n[[nat.pool]]\naddresses = \"198.51.100.0/30\"\n";
    let plane = net.start(&(user_plane() + lists).replace("# [log]", "[log]").replace("# format", "format"));
    let control = format!("{} --sessions 20 --ledger {} --queries 20", example("cp.toml"), ledger.display());
    let control = net.control(&net.host, &control);
    let at = |words: &str| {
        let mut command = Command::new(WEIR);
        command.args(words.split(' ')).args(["--json", "--socket"]).arg(&socket);
        command
    };
    let trace = at("trace --ue 10.60.0.1 --packets 2").stdout(Stdio::piped()).spawn().unwrap();
    let mut load = within(&net.host, WEIR);
    load.arg("gen").arg(example("gen.toml"));
    load.args("--ues 20 --pps 1000 --seconds 1.5 --sizes 128 --json --each-second".split(' '));
    made.add("gen", &well(load.output().unwrap()));
    made.add("trace", &well(trace.wait_with_output().unwrap()));
    over_agents(&mut made, &net);
    show(&mut made, names, &socket);
    made.add("show sessions", &well(at("show sessions --ue 10.60.0.1").output().unwrap()));
    made.add("top", &well(at("top --once --interval 0.2").output().unwrap()));
    made.add("log", &well(at("log set n4=debug").output().unwrap()));
    let path = net.file("upf.toml");
    let changed = fs::read_to_string(&path).unwrap().replace("level = \"info\"", "level = \"warn\"")
        + "[frames]\npacket_buffers = 4096\n";
    fs::write(&path, changed).unwrap();
    made.add("reload", &at("reload").output().unwrap());
    made.add("drain", &well(at("drain").output().unwrap()));
    made.add("cp", &control.stop());
    let sessions = fs::read(net.file("out.jsonl")).unwrap();
    made.add("cp sessions", &Output { stdout: sessions, ..Command::new("true").output().unwrap() });
    plane.stop();
    // What it logged as JSON is what `weir show log` prints.
    let said = fs::read_to_string(net.file("run.err")).unwrap();
    let events: String = said.lines().filter(|line| line.starts_with('{')).map(|line| format!("{line}\n")).collect();
    made.add("show log", &Output { stdout: events.into_bytes(), ..Command::new("true").output().unwrap() });
    let ledger = ledger.display().to_string();
    made.weir("cdr list", &format!("cdr list --ledger {ledger} --socket /nowhere --json"));
    made.weir("cdr export", &format!("cdr export --ledger {ledger} --socket /nowhere"));
    made.weir("ledger check", &format!("ledger check {ledger} --json"));
    made.weir("ledger salvage", &format!("ledger salvage {ledger} --to {ledger}-new --json"));
    made
}

/// In-kernel paths that stay: none, one of a living process, of a dead one, and one of which the interface with the names of
/// its maps was cleared.
fn kernel_paths() -> Made {
    let (mut made, folder, net) = (Made::default(), BpfFolder::new("outputs"), Net::new("kernel"));
    let at = format!("--bpf-folder {} --json", folder.path().display());
    let last = |made: &Made, name: &str| made.0[name].last().expect("it was added").clone();
    let mut fastpath = |what: &str, words: &str| {
        made.weir(&format!("fastpath {what}"), &format!("fastpath {what} {words} {at}"));
        last(&made, &format!("fastpath {what}"))
    };
    fastpath("show", "");
    fastpath("clear", "");
    let mut plane = net.start(&net.in_kernel(&folder, ["eth0", "eth1"], "only"));
    let paths = |shown: &Value| -> Vec<bool> {
        let all = shown["interfaces"].as_array().expect("a list").iter();
        all.map(|view| view["path"]["owner"]["alive"].as_bool().expect("its path is known")).collect()
    };
    assert_eq!(paths(&fastpath("show", "")), [true, true]);
    assert_eq!(fastpath("clear", "")["left"].as_array().map(Vec::len), Some(2), "its process lives");
    plane.kill();
    assert_eq!(paths(&fastpath("show", "")), [false, false]);
    let cleared = fastpath("clear", &format!("eth0 --netns {}", net.gateway));
    assert_eq!(cleared["cleared"][0]["interface"], "eth0");
    assert_eq!(paths(&fastpath("show", "")), [false], "the other one's path is known as before");
    assert_eq!(fastpath("clear", "")["cleared"].as_array().map(Vec::len), Some(1));
    made
}

/// An example's gateway on ports in memory, until it is ready.
fn in_memory(name: &str, folder: &Path) -> (Running, PathBuf) {
    let text = fs::read_to_string(example(&format!("{name}.toml"))).unwrap();
    let mut number = 0;
    let lines = text.lines().map(|line| match line.starts_with("uri = ") {
        true => {
            number += 1;
            format!("uri = \"memory:p{number}-{{worker}}?mac=02:00:00:00:00:0{number}\"\n")
        }
        // There is somewhere to move to.
        false if line == "gateway = \"bng\"" => format!("{line}\nworkers = {{ count = 2 }}\n"),
        false => format!("{line}\n"),
    });
    let (config, socket, said) =
        (folder.join(format!("{name}.toml")), folder.join(format!("{name}.sock")), folder.join(format!("{name}.err")));
    fs::write(&config, lines.collect::<String>()).unwrap();
    let mut command = Command::new(WEIR);
    command.arg("run").arg(config).arg("--json").arg("--socket").arg(&socket);
    let running = Running::start(command, &said);
    until("a gateway that is ready", || fs::read_to_string(&said).unwrap().contains("ready after").then_some(()));
    (running, socket)
}

/// A cable gateway and a broadband gateway, without packets.
fn fixed(names: &[String]) -> Made {
    let mut made = Made::default();
    let folder = std::env::temp_dir().join(format!("weir-outputs-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (cable, socket) = in_memory("cmts", &folder);
    show(&mut made, names, &socket);
    let at = socket.display();
    made.weir("cmts", &format!("cmts modem show --json --socket {at}"));
    made.weir("cmts", &format!("cmts modem show 02:cb:00:00:00:01 --json --socket {at}"));
    made.weir("cmts", &format!("cmts classifier show 02:cb:00:00:00:01 --json --socket {at}"));
    made.weir("cmts", &format!("cmts modem del 02:cb:00:00:00:02 --json --socket {at}"));
    made.add("run", &well(cable.stop()));
    let (broadband, socket) = in_memory("bng", &folder);
    show(&mut made, names, &socket);
    made.weir("subscriber", &format!("subscriber gold1 show --json --socket {}", socket.display()));
    made.weir("move group", &format!("move group pon --to-worker 1 --json --socket {}", socket.display()));
    made.add("run", &well(broadband.stop()));
    fs::remove_dir_all(&folder).unwrap();
    made
}

/// Namespaces that are gone at the end, whatever happens.
struct Ends([String; 2]);

impl Drop for Ends {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}

/// A broadband gateway and a cable gateway, each in the network of its example, with generated traffic.
fn labs() -> Made {
    let mut made = Made::default();
    let prefix = format!("weir-outputs-{}", std::process::id());
    for (name, load) in [("bng", "gen broadband --subscribers 10"), ("cmts", "gen cable cmts.toml --pps 600")] {
        let folder = std::env::temp_dir().join(format!("{prefix}-{name}"));
        fs::create_dir_all(&folder).unwrap();
        let network =
            |what: &str| Command::new(WEIR).args(["lab", what, name, "--json", "--prefix", &prefix]).output().unwrap();
        let _ends = Ends(["gw", "far"].map(|end| format!("{prefix}-{name}-{end}")));
        made.add("lab", &well(network("up")));
        let text = fs::read_to_string(example(&format!("{name}.toml"))).unwrap();
        let (config, said) = (folder.join(format!("{name}.toml")), folder.join("run.err"));
        fs::write(&config, text.replace("/var/lib/weir", &folder.display().to_string())).unwrap();
        let mut run = within(&format!("{prefix}-{name}-gw"), WEIR);
        run.arg("run").arg(&config).arg("--socket").arg(folder.join("weir.sock"));
        let gateway = Running::start(run, &said);
        until("a gateway that is ready", || fs::read_to_string(&said).unwrap().contains("ready after").then_some(()));
        let mut generator = within(&format!("{prefix}-{name}-far"), WEIR);
        let words = format!("{load} --seconds 0.5 --json");
        generator.args(words.split(' ')).current_dir(&folder);
        let out = generator.output().unwrap();
        if name == "bng" {
            let mut probe = within(&format!("{prefix}-{name}-far"), WEIR);
            probe.args("probe broadband --subscribers 10 --name bng --minutes 0.02 --json --key".split(' '));
            made.add("probe broadband", &well(probe.arg(folder.join("key")).output().unwrap()));
        }
        well(gateway.stop());
        made.add("lab", &network("down"));
        let words: Vec<&str> = load.split(' ').take(2).collect();
        made.add(&words.join(" "), &well(out));
        fs::remove_dir_all(&folder).unwrap();
    }
    made
}

/// A short day of two broadband gateways.
fn day() -> Made {
    let mut made = Made::default();
    made.weir("bench day", "bench day --quick --seconds 0.3 --pps 2000 --json -");
    made
}

/// Names and schemas as the program prints them.
fn schemas() -> BTreeMap<String, Value> {
    let folder = std::env::temp_dir().join(format!("weir-schemas-{}", std::process::id()));
    well(Command::new(WEIR).args(["schema", "--to"]).arg(&folder).output().unwrap());
    let list = well(Command::new(WEIR).arg("schema").output().unwrap());
    let names = String::from_utf8(list.stdout).unwrap();
    // Name and sentence are two spaces apart.
    let names = names.lines().skip(2).filter_map(|line| line.trim_start().split("  ").next().map(str::to_owned));
    let read = |name: String| {
        let text = fs::read(folder.join(format!("{}.schema.json", name.replace(' ', "-")))).unwrap();
        (name, serde_json::from_slice(&text).unwrap())
    };
    let all = names.map(read).collect();
    fs::remove_dir_all(&folder).unwrap();
    all
}

#[test]
fn real_output_of_every_command_fits_its_schema() {
    let schemas = schemas();
    let names: Vec<String> = schemas.keys().cloned().collect();
    let mut made = Made::default();
    std::thread::scope(|scope| {
        let quick = scope.spawn(|| {
            let mut made = mobile(&names);
            made.join(fixed(&names));
            made.join(labs());
            made.join(kernel_paths());
            made.join(plans());
            made.join(day());
            made
        });
        made.join(benchmarks());
        made.join(certificates());
        made.join(quick.join().unwrap());
    });
    for name in &names {
        assert_eq!(made.0.contains_key(name), !NOT_MADE.contains(&name.as_str()), "output of {name}");
    }
    let list: Vec<Value> = made
        .0
        .iter()
        .map(|(name, values)| json!({ "name": name, "schema": schemas[name], "values": values }))
        .collect();
    let file = std::env::temp_dir().join(format!("weir-outputs-{}.json", std::process::id()));
    fs::write(&file, serde_json::to_vec(&list).unwrap()).unwrap();
    let judge = root().join("target/judge/bin/python3");
    let out = Command::new(judge)
        .arg(root().join("tests/judge/outputs.py"))
        .arg(&file)
        .output()
        .expect("python runs: make setup-test");
    fs::remove_file(&file).unwrap();
    assert!(out.status.success(), "{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
}
