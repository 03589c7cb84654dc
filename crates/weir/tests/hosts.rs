//! Real Linux hosts on both sides: a phone behind an independent gNB, a server in the data network. They ping, meet the
//! MTU and run iperf3 through the binary, in every mode of input and output. See `tests/net/hosts.py` for the picture.

use std::process::Command;

fn hosts(mode: &str, transport: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/net/hosts.py");
    let output = Command::new("python3")
        .args([script, env!("CARGO_BIN_EXE_weir"), mode, transport])
        .output()
        .expect("python3 runs: `make setup` installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{mode} over {transport}:\n{said}");
    assert!(output.status.success(), "{mode} over {transport}:\n{said}{}", String::from_utf8_lossy(&output.stderr));
}

// One after the other: each runs iperf3 through a machine of two cores.
#[test]
fn hosts_talk_through_every_mode() {
    for (mode, transport) in [
        ("plain", "ipv4"),
        ("mmsg", "ipv6"),
        ("ring", "ipv4"),
        ("slots", "ipv6"),
        ("xdp", "ipv4"),
        ("xdp", "ipv6"),
        ("tun", "ipv4"),
    ] {
        hosts(mode, transport);
    }
}

/// N3 and N6 as VLANs of one interface, or on one link: see `tests/net/one_device.py` for the picture.
#[test]
fn hosts_talk_through_one_interface() {
    for arguments in [
        &["packet"][..],
        &["xdp"],
        &["link"],
        &["kernel"],
        &["packet", "take-over"],
        &["xdp", "take-over"],
        &["kernel", "take-over"],
    ] {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/net/one_device.py");
        let mut command = Command::new("python3");
        let output = command.args([script, env!("CARGO_BIN_EXE_weir")]).args(arguments).output();
        let output = output.expect("python3 runs: `make setup` installs it");
        let said = String::from_utf8_lossy(&output.stdout);
        println!("{arguments:?}:\n{said}");
        assert!(output.status.success(), "{arguments:?}:\n{said}{}", String::from_utf8_lossy(&output.stderr));
    }
}
