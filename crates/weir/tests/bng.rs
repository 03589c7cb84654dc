//! A real Linux host behind two VLAN tags talks through a broadband gateway to a host of the core, in every mode of input
//! and output. See `tests/net/bng.py` for the picture.

use std::process::Command;

fn run(script: &str, args: &[&str]) {
    let path = format!("{}/../../tests/net/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("python3")
        .args([&path, env!("CARGO_BIN_EXE_weir")])
        .args(args)
        .output()
        .expect("python3 runs: `make setup` installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{args:?}:\n{said}");
    assert!(output.status.success(), "{args:?}:\n{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn subscriber_behind_qinq_talks_through_every_mode() {
    for (mode, tpid) in
        [("plain", "0x88a8"), ("mmsg", "0x8100"), ("ring", "0x88a8"), ("slots", "0x8100"), ("xdp", "0x88a8")]
    {
        run("bng.py", &[mode, tpid]);
    }
}

/// Debian's udhcpc and dhclient: see `tests/net/bng_sessions.py` for the picture.
#[test]
fn dhcp_clients_get_leases_and_talk() {
    run("bng_sessions.py", &["dhcp"]);
}

/// The kernel's own SLAAC.
#[test]
fn kernel_makes_an_address_of_the_prefix() {
    run("bng_sessions.py", &["slaac"]);
}

/// FreeRADIUS and its radclient.
#[test]
fn radius_server_decides_and_is_told() {
    run("bng_sessions.py", &["radius"]);
}

/// `weir reload` with a real client: a new access list, a slice that is refused and one that is added.
#[test]
fn reload_changes_rules_and_keeps_leases() {
    run("bng_sessions.py", &["reload"]);
}

/// Linux's TCP fills a shaped tier; pings marked as voice pass its queue.
#[test]
fn tcp_has_the_rate_of_a_shaped_tier() {
    run("bng_sessions.py", &["shape"]);
}

/// Linux's TCP through address translation, with its log.
#[test]
fn subscribers_share_a_public_address() {
    run("bng_sessions.py", &["nat"]);
}

/// curl in a walled garden, and FreeRADIUS's radclient that lets it out and in.
#[test]
fn walled_garden_leads_to_the_portal() {
    run("bng_sessions.py", &["garden"]);
}

/// `weir gen broadband` through two workers, while its group of 8,200 moves twenty times.
#[test]
fn group_moves_between_workers_without_loss() {
    run("bng_moves.py", &[]);
}

/// The same with ports that give packets to whoever owns their group: `fanout=subscriber`.
#[test]
fn ports_follow_a_group_that_moves() {
    run("bng_moves.py", &["200", "2000", "20", "8000", "subscriber"]);
}

#[test]
fn nobody_is_renumbered_after_a_crash() {
    run("bng_sessions.py", &["crash"]);
}

#[test]
fn example_configuration_is_ok() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bng.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(["run", "--check", example]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Packets through the kernel: see `tests/net/bng_fast_path.py` and `bng_fast_path_load.py` for the pictures.
#[test]
fn subscribers_talk_through_the_kernel() {
    run("bng_fast_path.py", &[]);
    run("bng_fast_path_load.py", &["5000", "4", "only"]);
}
