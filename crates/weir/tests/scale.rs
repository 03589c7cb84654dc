//! Gateways come and go with their sessions: `deploy/local/scale.py` plays a recorded day over processes in namespaces of
//! its own, with packets through them. It fails by itself if a request is refused that should not be, a session is not ended in order, an address
//! is of another gateway's part of the pool, or a gateway loses count of its packets.

use std::process::Command;

#[test]
fn a_day_of_sessions_scales_out_and_in_and_loses_none() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let out = Command::new("python3")
        .arg(format!("{root}/deploy/local/scale.py"))
        .args([env!("CARGO_BIN_EXE_weir"), "--json", "--hour", "0.2"])
        .output()
        .expect("python3 runs: `make setup` installs it");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    println!("{said}");
    let counts: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let of = |name: &str| counts[name].as_u64().unwrap_or_else(|| panic!("{name}: {counts}"));
    assert_eq!(of("established"), of("ended"), "every session was ended in order: {counts}");
    assert_eq!(of("blocked"), 0, "there was room for every session: {counts}");
    assert!(of("established") >= 1000, "{counts}");
    assert!(of("most_gateways") >= 3 && of("gateways_left") == 1, "{counts}");
    assert_eq!(of("begun_with") + of("scaled_out"), of("gateways_left") + of("scaled_in"), "{counts}");
    assert!(of("scaled_in") >= 2 && of("moved") > 0, "gateways drained with sessions on them: {counts}");
    assert!(of("refused_while_draining") >= of("scaled_in"), "{counts}");
    assert!(of("asked_to_release") > 0, "control planes heard of it: {counts}");
    assert!(of("packets") > 1000, "packets flowed all day: {counts}");
    assert_eq!((of("packets_lost"), of("packets_astray")), (0, 0), "drained and moved, and none was lost: {counts}");
}
