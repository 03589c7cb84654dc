//! The configuration read again by a user plane that carries traffic of sessions from a control plane.

mod net;

use std::fs;
use std::process::{Command, Output};

use net::{Net, ends_well, example, json, number, ok, until, user_plane, well, within};
use serde_json::Value;

const WEIR: &str = net::WEIR;

/// Has the file replaced as editors do: by rename.
fn write(net: &Net, config: &str) {
    fs::write(net.file("upf.toml.new"), config).unwrap();
    fs::rename(net.file("upf.toml.new"), net.file("upf.toml")).unwrap();
}

fn reload(net: &Net, args: &[&str]) -> Output {
    Command::new(WEIR).arg("reload").args(args).arg("--socket").arg(net.file("weir.sock")).output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

fn events(net: &Net, event: &str) -> Vec<String> {
    let wanted = format!(" event={event} ");
    let all = fs::read_to_string(net.file("run.err")).unwrap();
    all.lines().filter(|line| line.contains(&wanted)).map(str::to_owned).collect()
}

fn with_lists() -> String {
    user_plane() + "\n[[acl]]\nrules = [\"permit in udp from any to any\"]\n"
}

const ROUTE: &str = "\n[[route]]\nto = \"203.0.113.0/24\"\nnext_hop = \"10.0.6.253\"\n";
const RULE: &str = "rules = [\"deny in tcp from any to any port 25\", \"permit in udp from any to any\"]";

#[test]
fn traffic_and_sessions_survive_reloads() {
    let net = Net::new("reload");
    let gateway = net.start(&with_lists());
    let control = net.control(&net.host, &format!("{} --sessions 500 --rate 5000 --idle 0", example("cp.toml")));
    let mut load = within(&net.host, WEIR);
    load.arg("gen").arg(example("gen.toml"));
    load.args("--ues 500 --pps 4000 --seconds 5 --ratio 1:1 --sizes 128 --json".split(' '));
    let load = load.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let packets = || number(&net.show("acl")[0]["packets"]);
    until("packets", || (packets() > 500).then_some(()));

    let changed = with_lists().replace("rules = [\"permit in udp from any to any\"]", RULE) + ROUTE;
    write(&net, &changed);
    let out = reload(&net, &["--check"]);
    assert!(out.status.success() && said(&out).contains("would be applied"), "{}", said(&out));
    assert_eq!(net.show("config")["route"].as_array().unwrap().len(), 1);
    let out = reload(&net, &[]);
    assert!(out.status.success(), "{}", said(&out));
    let last = changed.lines().count() - 2;
    assert!(said(&out).contains(&format!("upf.toml:{last}: route.1: (not set) → ")), "{}", said(&out));
    assert_eq!(net.show("config")["route"].as_array().unwrap().len(), 2);
    until("the second rule counts", || {
        let acl = net.show("acl");
        (acl[0]["rule"] == "deny in tcp from any to any port 25" && number(&acl[1]["packets"]) > 500).then_some(())
    });

    // Wrong: refused whole, with its line; the good part of it is not applied.
    let wrong = with_lists().replace("next_hop = \"10.0.6.254\"", "next_hop = \"fd00::1\"");
    write(&net, &wrong);
    let out = reload(&net, &[]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    let line = 1 + wrong.lines().position(|line| line.contains("fd00::1")).unwrap();
    assert!(said(&out).contains(&format!("upf.toml:{line}: route.0.next_hop: ")), "{}", said(&out));
    assert_eq!(net.show("config")["route"].as_array().unwrap().len(), 2);

    // By signal: what needs a restart is named, what does not is applied.
    write(&net, &with_lists().replace("echo_seconds = 60", "echo_seconds = 90"));
    let pid = number(&net.show("process")["processes"][0]["pid"]);
    let before = events(&net, "config_reloaded").len();
    ok(&format!("kill -HUP {pid}"));
    until("the event", || (events(&net, "config_reloaded").len() > before).then_some(()));
    let event = events(&net, "config_reloaded").pop().unwrap();
    assert!(event.contains("gtpu.echo_seconds") && event.contains("needs a restart"), "{event}");
    let config = net.show("config");
    assert_eq!(
        (config["route"].as_array().unwrap().len(), number(&config["gtpu"]["echo_seconds"])),
        (1, 60),
        "{config}"
    );
    let out = reload(&net, &[]);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains("gtpu.echo_seconds: 60 → 90 (needs a restart)"), "{}", said(&out));

    let result = json(&well(load.wait_with_output().unwrap()));
    for direction in ["uplink", "downlink"] {
        let of = |key: &str| number(&result["directions"][direction][key]);
        assert!(of("sent_packets") > 1000 && of("lost_packets") == 0, "{result} {}", net.show("drops"));
    }
    assert_eq!(net.sessions(), 500);
    let story = json(&well(control.stop()));
    assert_eq!((number(&story["refused"]), number(&story["unanswered"])), (0, 0), "{story}");
    ends_well(gateway);
}

/// The configuration with other pools, limits, DNNs, peers, rates, routes and rules: one of four.
fn variant(n: usize) -> String {
    let change = |text: String, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    };
    let pool = ["{ v4 = \"10.45.0.0/16\" }", "{ v4 = \"10.46.0.0/24\" }", "{ v4 = \"10.45.0.0/17\" }", ""][n % 4];
    let mut text = change(with_lists(), "pool = [{ v4 = \"10.45.0.0/16\" }]", &format!("pool = [{pool}]"));
    if n % 4 == 1 {
        text = change(text, "sessions = 100000", "sessions = 100\nsessions_per_peer = 7\nmessages_per_second = 150000");
        text = change(text, "allow = [\"10.0.4.0/24\"]", "allow = [\"10.0.4.2/32\", \"10.9.0.0/16\"]");
    }
    if n % 4 == 2 {
        text = change(text, "rules = [\"permit in udp from any to any\"]", RULE);
        text = change(text, "[gtpu]\n", "[gtpu]\nerror_indications_per_second = 7\n");
        text += "\n[[n4.dnn]]\nname = \"internet\"\n\n[buffer]\nseconds = 20\n";
    }
    if n % 4 == 3 {
        text += ROUTE;
        text += "\n[[n4.peer]]\nnode_id = \"smf.example\"\naddresses = [\"10.0.4.77\"]\n";
    }
    text
}

#[test]
fn a_hundred_reloads_touch_no_session() {
    let net = Net::new("reload-all");
    let gateway = net.start(&variant(0));
    let control = net.control(&net.host, &format!("{} --sessions 500 --rate 5000 --idle 0", example("cp.toml")));
    until("500 sessions", || (net.sessions() == 500).then_some(()));
    let mut load = within(&net.host, WEIR);
    load.arg("gen").arg(example("gen.toml"));
    load.args("--ues 500 --pps 4000 --seconds 12 --ratio 1:1 --sizes 128 --json".split(' '));
    let mut load = load.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut during = 0;
    for n in 1..=100 {
        write(&net, &variant(n));
        let out = reload(&net, &[]);
        assert!(out.status.success() && !said(&out).contains("restart"), "{}", said(&out));
        let config = net.show("config");
        assert_eq!(config["n4"]["sessions"], if n % 4 == 1 { 100 } else { 100_000 }, "{config}");
        assert_eq!(config["n4"]["dnn"].as_array().map_or(0, Vec::len), usize::from(n % 4 == 2), "{config}");
        during += usize::from(load.try_wait().unwrap().is_none());
    }
    assert!(during >= 20, "only {during} reloads came while packets did");
    let result = json(&well(load.wait_with_output().unwrap()));
    for direction in ["uplink", "downlink"] {
        let of = |key: &str| number(&result["directions"][direction][key]);
        assert!(of("sent_packets") > 1000 && of("lost_packets") == 0, "{result} {}", net.show("drops"));
    }
    assert_eq!(net.sessions(), 500);
    let story = json(&well(control.stop()));
    assert_eq!((number(&story["refused"]), number(&story["unanswered"])), (0, 0), "{story}");
    ends_well(gateway);
}

#[test]
fn a_mistake_in_one_key_refuses_all() {
    let net = Net::new("reload-mistake");
    let gateway = net.start(&variant(0));
    let wrong = variant(2).replace("name = \"internet\"", "name = \"internet\"\ninstance = \"nowhere\"");
    write(&net, &wrong);
    let out = reload(&net, &[]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    let line = 1 + wrong.lines().position(|line| line.contains("nowhere")).unwrap();
    assert!(said(&out).contains(&format!("upf.toml:{line}: n4.dnn.0.instance: ")), "{}", said(&out));
    let config = net.show("config");
    assert_eq!((&config["n4"]["pool"][0]["v4"], &config["buffer"]["seconds"]), (&"10.45.0.0/16".into(), &30.into()));
    // A FIFO in its place does not stop control.
    fs::remove_file(net.file("upf.toml")).unwrap();
    ok(&format!("mkfifo {}", net.file("upf.toml").display()));
    let pid = number(&net.show("process")["processes"][0]["pid"]);
    ok(&format!("kill -HUP {pid}"));
    let refused = || events(&net, "config_refused").iter().any(|event| event.contains("no regular file"));
    until("the refusal", || refused().then_some(()));
    ends_well(gateway);
}

#[test]
fn a_hundred_reloads_leave_nothing_behind() {
    let net = Net::new("reloads");
    let gateway = net.start(&with_lists());
    let change = |n: usize| {
        write(&net, &if n.is_multiple_of(2) { with_lists() + ROUTE } else { with_lists() });
        let out = reload(&net, &[]);
        assert!(out.status.success() && said(&out).contains("1 change applied"), "{}", said(&out));
    };
    let seen = || -> (Value, u64) {
        let process = net.show("process")["processes"][0].clone();
        (process["descriptors"].clone(), number(&process["resident_bytes"]))
    };
    (0..20).for_each(change);
    let (descriptors, memory) = seen();
    (0..100).for_each(change);
    let (descriptors_after, memory_after) = seen();
    assert_eq!(descriptors_after, descriptors);
    assert!(memory_after < memory + (4 << 20), "{memory} bytes, then {memory_after}");
    ends_well(gateway);
}
