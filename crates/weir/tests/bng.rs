//! A real Linux host behind two VLAN tags talks through a broadband gateway to a host of the core, in every mode of input
//! and output. See `tests/net/bng.py` for the picture.

use std::process::Command;

fn talks(mode: &str, tpid: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/net/bng.py");
    let output = Command::new("python3")
        .args([script, env!("CARGO_BIN_EXE_weir"), mode, tpid])
        .output()
        .expect("python3 runs: `make setup` installs it");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{mode}, {tpid}:\n{said}");
    assert!(output.status.success(), "{mode}, {tpid}:\n{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn subscriber_behind_qinq_talks_through_every_mode() {
    for (mode, tpid) in
        [("plain", "0x88a8"), ("mmsg", "0x8100"), ("ring", "0x88a8"), ("slots", "0x8100"), ("xdp", "0x88a8")]
    {
        talks(mode, tpid);
    }
}

#[test]
fn example_configuration_is_ok() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bng.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_weir")).args(["run", "--check", example]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
