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
    write(&net, &with_lists().replace("sessions = 100000", "sessions = 90000"));
    let pid = number(&net.show("process")["processes"][0]["pid"]);
    let before = events(&net, "config_reloaded").len();
    ok(&format!("kill -HUP {pid}"));
    until("the event", || (events(&net, "config_reloaded").len() > before).then_some(()));
    let event = events(&net, "config_reloaded").pop().unwrap();
    assert!(event.contains("n4.sessions") && event.contains("needs a restart"), "{event}");
    let config = net.show("config");
    assert_eq!(
        (config["route"].as_array().unwrap().len(), number(&config["n4"]["sessions"])),
        (1, 100_000),
        "{config}"
    );
    let out = reload(&net, &[]);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains("n4.sessions: 100000 → 90000 (needs a restart)"), "{}", said(&out));

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
