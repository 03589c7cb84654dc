//! Debian's FRR beside a gateway speaks to FRR on a router of the core. See `tests/net/routing.py` for the picture.

use std::process::Command;

fn run(case: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/net/routing.py");
    let output = Command::new("python3")
        .args([script, env!("CARGO_BIN_EXE_weir"), case])
        .output()
        .expect("python3 runs: `make setup` installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{case}:\n{said}");
    assert!(output.status.success(), "{case}:\n{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn broadband_group_is_announced_and_withdrawn() {
    run("bng");
}

#[test]
fn pools_of_a_user_plane_are_announced() {
    run("upf");
}

#[test]
fn hosts_of_a_cable_gateway_are_announced() {
    run("cmts");
}

#[test]
fn interior_protocols_pass_the_gateway() {
    run("igp");
}

#[test]
fn restart_leaves_no_stale_route() {
    run("restart");
}

#[test]
fn flows_are_spread_over_next_hops() {
    run("ecmp");
}
