//! `weir bench real`, in short. Needs root and two CPUs.

use std::process::{Command, Stdio};

use serde_json::Value;

const KEYS: [&str; 12] = [
    "path",
    "sessions",
    "direction",
    "offered_pps",
    "saturated",
    "pps",
    "cpu_ns_per_packet",
    "p50_us",
    "p99_us",
    "burst_mean",
    "reference",
    "peer",
];

#[test]
fn few_packets_are_all_delivered_and_charged() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return;
    }
    let line = "bench real --quick --loads 1k,10k --sessions 200 --json -";
    let child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(line.split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("weir starts");
    let pid = child.id();
    let output = child.wait_with_output().expect("weir ends");
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let cells = report["cells"].as_array().expect("cells");
    let names: Vec<&str> = cells.iter().filter_map(|cell| cell["contender"].as_str()).collect();
    assert_eq!(names, ["weir", "bare", "weir", "bare"]);
    for cell in cells {
        for key in KEYS {
            assert!(cell.get(key).is_some(), "no {key} in {cell}");
        }
        if cell["contender"] == "weir" {
            assert!(cell["cpu_ns_per_packet"].as_f64() > Some(0.0) && cell["p50_us"].as_f64() > Some(0.0), "{cell}");
            assert!(cell["reference"]["pps"].as_f64() > Some(0.0) && cell["peer"].is_null(), "{cell}");
        }
    }
    for check in report["checks"].as_array().expect("checks") {
        // Among them: packets delivered are packets sent, and are those charged.
        assert_eq!(check["ok"], true, "{check}");
    }
    assert!(output.status.success(), "{said}");
    let slow = &cells[0];
    let (offered, pps) = (slow["offered_pps"].as_f64().unwrap_or(0.0), slow["pps"].as_f64().unwrap_or(0.0));
    assert!((pps / offered - 1.0).abs() < 0.02, "{slow}");
    let ours = format!("weir-bench-{pid}-");
    let left = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let left: Vec<_> = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
