//! `weir lab`: the network of every example is made, its gateway carries what the printed commands send, and `down`
//! leaves nothing behind.

mod net;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use net::{Running, WEIR, example, json, until, well};
use serde_json::Value;

/// A network that is up, and a folder; both are gone when dropped.
struct Lab {
    name: &'static str,
    prefix: String,
    folder: PathBuf,
    commands: Vec<String>,
}

impl Lab {
    fn up(name: &'static str) -> Self {
        let prefix = format!("weir-lab-test-{}", std::process::id());
        let folder = std::env::temp_dir().join(format!("{prefix}-{name}"));
        fs::create_dir_all(&folder).unwrap();
        let mut lab = Self { name, prefix, folder, commands: Vec::new() };
        let made = json(&well(lab.lab("up", &["--json"])));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        lab.commands = made[0]["commands"].as_array().unwrap().iter().map(text).collect();
        lab
    }

    fn lab(&self, what: &str, more: &[&str]) -> Output {
        Command::new(WEIR).args(["lab", what, self.name, "--prefix", &self.prefix]).args(more).output().unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("weir.sock")
    }

    /// A printed command, of this build, with files of this test.
    fn command(&self, line: &str, more: &str) -> Command {
        let line = line.replace(" weir ", &format!(" {WEIR} "));
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        command.args(words.map(|word| match word.strip_prefix("examples/") {
            Some(file) => self.example(file).display().to_string(),
            None => word.to_owned(),
        }));
        command.args(more.split_whitespace());
        command
    }

    /// An example with its ledger in the test's folder.
    fn example(&self, file: &str) -> PathBuf {
        let folder = self.folder.display().to_string();
        let text = fs::read_to_string(example(file)).unwrap().replace("/var/lib/weir", &folder);
        let path = self.folder.join(file);
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs the gateway by the first command, until it is ready.
    fn gateway(&self) -> Running {
        assert!(self.commands[0].contains(" weir run "), "{:?}", self.commands);
        let mut command = self.command(&self.commands[0], "--socket");
        command.arg(self.socket());
        let said = self.folder.join("run.err");
        let running = Running::start(command, &said);
        until("a gateway that is ready", || fs::read_to_string(&said).unwrap().contains("ready after").then_some(()));
        running
    }

    /// Runs a command that begins so behind the namespace.
    fn perform(&self, begin: &str, more: &str) -> Output {
        let line = self.commands.iter().find(|line| line.contains(begin)).unwrap_or_else(|| panic!("{begin}"));
        self.command(line, more).output().unwrap()
    }

    fn show(&self, topic: &str) -> Value {
        let mut command = Command::new(WEIR);
        command.arg("show").args(topic.split(' ')).args(["--json", "--socket"]).arg(self.socket());
        json(&well(command.output().unwrap()))
    }

    /// Ends the gateway and the network: nothing is left.
    fn down(self, gateway: Running) {
        let refused = self.lab("down", &[]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(1) && said.contains("(weir)"), "a gateway runs in it: {said}");
        net::ends_well(gateway);
        well(self.lab("down", &[]));
        let left = well(Command::new("ip").args(["netns", "list"]).output().unwrap());
        let left = String::from_utf8_lossy(&left.stdout).into_owned();
        assert!(!left.contains(&format!("{}-{}-", self.prefix, self.name)), "{left}");
        assert!(!self.lab("down", &[]).status.success(), "it is not up any more");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let listed = Command::new("ip").args(["netns", "list"]).output();
        let listed = listed.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
        let ours = format!("{}-{}-", self.prefix, self.name);
        for name in listed.lines().filter_map(|line| line.split(' ').next()).filter(|name| name.starts_with(&ours)) {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The user planes whose sessions are simulated, with `weir gen` at both ends.
fn generated(name: &'static str) {
    let lab = Lab::up(name);
    let gateway = lab.gateway();
    let result = json(&well(lab.perform(" weir gen ", "--seconds 1 --pps 2000 --json")));
    assert!(result["loss_ratio"].as_f64().is_some_and(|ratio| ratio < 0.05), "{name}: {result}");
    lab.down(gateway);
}

#[test]
fn user_planes_carry_generated_traffic() {
    ["upf-packet", "upf-xdp", "upf-fanout", "upf-one-interface"].into_iter().for_each(generated);
}

#[test]
fn user_plane_with_tiers_carries_generated_traffic() {
    generated("upf-embb");
}

/// Runs the printed control plane, until its sessions are up.
fn control(lab: &Lab, more: &str) -> Running {
    let line = lab.commands.iter().find(|line| line.contains(" weir cp ")).unwrap();
    let said = lab.folder.join("cp.err");
    let control = Running::start(lab.command(line, more), &said);
    until("sessions", || fs::read_to_string(&said).unwrap().contains("sessions up").then_some(()));
    control
}

#[test]
fn user_plane_gets_its_sessions_by_pfcp() {
    let lab = Lab::up("upf-n4");
    let gateway = lab.gateway();
    let control = control(&lab, "--sessions 50");
    let result = json(&well(lab.perform(" weir gen ", "--ues 50 --seconds 1 --pps 1000 --json")));
    assert!(
        result["loss_ratio"].as_f64().is_some_and(|ratio| ratio < 0.2),
        "a tenth of the sessions is idle: {result}"
    );
    control.stop();
    lab.down(gateway);
}

#[test]
fn packets_of_a_tun_interface_reach_a_tunnel() {
    let lab = Lab::up("upf-tun");
    let gateway = lab.gateway();
    let control = control(&lab, "");
    // A gNB of the kernel answers nothing.
    lab.perform(" ping ", "-W 1");
    let session = lab.show("sessions --filter address=10.45.0.2");
    assert!(net::number(&session["entries"][0]["down_packets"]) >= 5, "{session}");
    let ports = lab.show("ports");
    let n3 = ports.as_array().unwrap().iter().find(|port| port["name"] == "n3").unwrap();
    assert!(net::number(&n3["counters"]["tx_packets"]) >= 5, "{ports}");
    control.stop();
    lab.down(gateway);
}

#[test]
fn subscribers_behind_two_tags_get_leases_and_talk() {
    let lab = Lab::up("bng");
    let gateway = lab.gateway();
    let result = json(&well(lab.perform(" weir gen broadband", "--subscribers 40 --seconds 2 --pps 1000 --json")));
    assert_eq!((net::number(&result["leases"]), net::number(&result["routers_resolved"])), (40, 40), "{result}");
    for direction in ["uplink", "downlink"] {
        let counts = &result[direction];
        let [sent, received] = ["sent_packets", "received_packets"].map(|name| net::number(&counts[name]));
        assert!(sent > 0 && received * 100 >= sent * 95, "{result}");
        let wrong = ["wrong_tags_packets", "misdelivered_packets", "corrupt_packets"];
        assert!(wrong.iter().all(|kind| counts[kind] == 0), "{result}");
    }
    assert!(result["loss_ratio"].as_f64().is_some_and(|ratio| ratio < 0.05), "{result}");
    // The gateway counts what the generator counts.
    let page = lab.show("subscribers --filter s_vlan=100,c_vlan=2001");
    let first = &page["entries"][0];
    assert!(net::number(&first["up_packets"]) >= 20 && first["mac"] == "02:b0:00:00:00:00", "{page}");
    // Dual stack, several hosts of the core, and an end of all leases.
    let more = "--subscribers 60 --c-vlan 3001 --c-vlans 25 --ipv6 --server 198.18.0.252 --servers 3 --release";
    let result = json(&well(lab.perform(" weir gen broadband", &format!("{more} --seconds 2 --pps 2000 --json"))));
    for name in ["leases", "routers_resolved", "leases6", "routers6_resolved", "released"] {
        assert_eq!(net::number(&result[name]), 60, "{name}: {result}");
    }
    for direction in ["uplink", "downlink"] {
        let counts = &result[direction];
        let [sent, received] = ["sent_packets", "received_packets"].map(|name| net::number(&counts[name]));
        assert!(sent > 1000 && received * 100 >= sent * 95, "{result}");
        let wrong = ["wrong_tags_packets", "misdelivered_packets", "corrupt_packets"];
        assert!(wrong.iter().all(|kind| counts[kind] == 0), "{result}");
    }
    let left = lab.show("subscribers --filter s_vlan=102");
    assert_eq!(left["entries"], serde_json::json!([]), "{left}");
    // As a probe of a gateway that could be anybody's: sessions by DHCP, then the rate.
    let line = lab.commands.iter().find(|line| line.contains(" weir gen broadband")).unwrap();
    let probe = line.replace(" weir gen broadband", " weir probe broadband");
    let file = lab.folder.join("certificate.json").display().to_string();
    let key = lab.folder.join("key").display().to_string();
    let more = format!("--subscribers 40 --name bng1 --minutes 0.1 --key {key} --json {file}");
    well(lab.command(&probe, &more).output().unwrap());
    let found = certificate::check(&fs::read_to_string(&file).unwrap(), None).unwrap().certificate;
    let said = format!("{:?} {:?} {:?}", found.gateways, found.latency, found.notes);
    assert!(found.run.is_complete && found.host.hostname == "bng1" && found.gateways[0].subscribers == 40, "{said}");
    assert!(found.gateways[0].mpps.mid > 0.0005 && found.latency.unwrap().found_mpps > 0.0, "{said}");
    // Lines of no group: nothing is given to them.
    let refused = lab.perform(" weir gen broadband", "--subscribers 2 --s-vlan 999 --seconds 0.1");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("no subscriber got a lease"), "{said}");
    lab.down(gateway);
}

#[test]
fn modems_of_a_remote_phy_device_talk() {
    let lab = Lab::up("cmts");
    let gateway = lab.gateway();
    let result = json(&well(lab.perform(" weir gen cable ", "--seconds 2 --pps 1200 --json")));
    for direction in ["downstream", "upstream"] {
        let counts = &result[direction];
        let [sent, received] = ["sent_packets", "received_packets"].map(|name| net::number(&counts[name]));
        assert!(sent > 0 && received * 100 >= sent * 95, "{result}");
        assert_eq!(counts["wrong"], serde_json::json!({}), "{result}");
    }
    assert!(result["loss_ratio"].as_f64().is_some_and(|ratio| ratio < 0.05), "{result}");
    // The gateway counts what the generator counts.
    let page = lab.show("modems --modem 02:cb:00:00:00:01");
    let modem = &page["entries"][0];
    assert!(net::number(&modem["down_packets"]) >= 3 && net::number(&modem["up_packets"]) >= 3, "{page}");
    lab.down(gateway);
}

#[test]
fn unknown_examples_are_refused() {
    let out = Command::new(WEIR).args(["lab", "up", "plan-upf"]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.code() == Some(2) && said.contains("upf-packet") && said.contains("cmts"), "{said}");
}
