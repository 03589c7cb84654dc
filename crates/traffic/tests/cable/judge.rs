//! tshark and a second reader agree with what the framer writes: so the framer is no worse a gateway than that, and the
//! judge is ready for others.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use testkit::pcap::{self, Seen};
use wire::l2tp::{Carrier, Cookie};

use crate::framer::{NOW, depi, plant};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn judges_agree_with_every_frame() {
    let plant = plant(Carrier::Ip, [Cookie::None; 2]);
    let packets = depi(&plant, 700);
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (capture, facts) = (scratch.join("depi.pcap"), scratch.join("depi.json"));
    let seen: Vec<_> = packets.iter().map(|packet| Seen { at: NOW, bytes: packet.clone() }).collect();
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
    let found: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&found["frames"], &found["encrypted"]), (&700.into(), &600.into()));
    assert!(found["whole"].as_u64() > Some(200) && found["split"].as_u64() > Some(200), "{found}");
}
