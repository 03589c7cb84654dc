//! tshark and a second reader (`tests/judge/docsis.py`) look at DEPI packets: every whole frame, header by header, and
//! what is in it by keys of their own knowledge. `crates/cmts/tests/judge.rs` includes this file.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use testkit::pcap::{self, Seen};
use traffic::cable::Plant;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the judges found in packets of a plant; they agree, or this panics with what they said.
pub fn judged(name: &str, plant: &Plant, packets: &[Vec<u8>]) -> serde_json::Value {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (capture, facts) = (scratch.join(format!("{name}.pcap")), scratch.join(format!("{name}.json")));
    let seen: Vec<_> = packets.iter().map(|packet| Seen { at: 1_000_000_000, bytes: packet.clone() }).collect();
    pcap::write(&capture, &seen).expect("a capture written");
    let mut keys = BTreeMap::new();
    for group in &plant.groups {
        let modems: BTreeMap<_, _> = group
            .modems
            .iter()
            .map(|modem| {
                (modem.said, modem.keys.iter().flatten().map(|key| [hex(key.bytes()), hex(key.iv())]).collect())
            })
            .collect::<BTreeMap<u16, Vec<_>>>();
        keys.extend(group.downstream.iter().map(|session| (*session, modems.clone())));
    }
    std::fs::write(&facts, serde_json::json!({ "word": true, "keys": keys }).to_string()).expect("facts written");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(workspace.join("target/judge/bin/python3"))
        .arg(workspace.join("tests/judge/docsis.py"))
        .args([&capture, &facts])
        .output()
        .expect("python runs: make setup");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&said).expect("JSON")
}
