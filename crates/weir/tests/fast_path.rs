//! Packets of known sessions through the kernel, between real Linux hosts: see `tests/net/fast_path.py` for the picture.

use std::process::Command;

/// With the ports opened by the process itself, or by its helper.
fn hosts(confine: bool) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/net/fast_path.py");
    let output = Command::new("python3")
        .args([script, env!("CARGO_BIN_EXE_weir"), &confine.to_string()])
        .output()
        .expect("python3 runs: `make setup` installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("confine {confine}:\n{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

// One after the other: each holds a rate on a machine of two cores.
#[test]
fn hosts_talk_through_the_kernel() {
    [false, true].into_iter().for_each(hosts);
}

#[test]
fn the_committed_object_is_what_its_source_makes() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/bpf");
    let output = Command::new(script).arg("check").output().expect("bash runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}
