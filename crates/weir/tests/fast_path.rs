//! Packets of known sessions through the kernel, between real Linux hosts: see `tests/net/fast_path.py` and
//! `fast_path_core.py`, `fast_path_nat.py`, `fast_path_moves.py`, `fast_path_dies.py` for the pictures.

mod net;

use std::fs;
use std::process::Command;

use net::{BpfFolder, Net, ok};

fn run(script: &str, arguments: &[&str]) {
    let script = format!("{}/../../tests/net/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("python3")
        .args([&script, env!("CARGO_BIN_EXE_weir")])
        .args(arguments)
        .output()
        .expect("python3 runs: `make setup` installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{arguments:?}:\n{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

// One after the other: each holds a rate on a machine of two cores.
#[test]
fn hosts_talk_through_the_kernel() {
    // With the ports opened by the process itself, and by its helper; over either transport.
    [["false", "ipv6"], ["true", "ipv4"]].into_iter().for_each(|how| run("fast_path.py", &how));
    // By a control plane of the script's own: gNB known, handovers, idle.
    run("fast_path_core.py", &[]);
    // Behind one public address, held against a list.
    run("fast_path_nat.py", &[]);
    // Killed, stopped, killed; each time started again, at 5,000 packets/s.
    run("fast_path_dies.py", &["true"]);
    // 10,000 packets/s of five sessions, which move 30 times.
    run("fast_path_moves.py", &["10000", "30", "5"]);
}

#[test]
fn the_committed_object_is_what_its_source_makes() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/bpf");
    let output = Command::new(script).arg("check").output().expect("bash runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// The second port's interface has no XDP of its own: the gateway starts without an in-kernel path, and nothing of the attempt stays.
#[test]
fn an_attempt_that_fails_leaves_no_names() {
    let (net, folder) = (Net::new("names"), BpfFolder::new("names"));
    ok(&format!("ip -n {} link add bridge0 type bridge", net.gateway));
    ok(&format!("ip -n {} link set bridge0 up", net.gateway));
    let gateway = net.start(&net.in_kernel(&folder, ["eth0", "bridge0"], "auto"));
    let said = fs::read_to_string(net.file("run.err")).expect("it says something");
    assert!(said.contains("no packets are forwarded in the kernel") && said.contains("no XDP of its own"), "{said}");
    let names = || fs::read_dir(folder.path().join("weir")).expect("its folder").flatten().collect::<Vec<_>>();
    assert!(names().is_empty(), "{:?}", names());
    gateway.stop();
}
