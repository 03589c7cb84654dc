//! Judges from outside: tshark and scapy read every byte the golden cases send, and find what the cases say.
//!
//! `make setup` installs both.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::golden::Folder;
use testkit::pcap::{self, Seen};

use crate::golden_cases::{all, root};

/// What tshark may say: the case, and what about.
const MAY: &[(&str, &str)] = &[
    ("downlink/zero_checksum_over_ipv6", "Illegal checksum value (0)"), // RFC 6935 allows it for tunnels
    ("selection/sent_to_a_page", "Connection reset (RST)"),             // which is meant
];

/// Wireshark's severity "warning" (PI_WARN); errors are above.
const WARNING: u32 = 0x0060_0000;

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("judge");
    std::fs::create_dir_all(&folder).expect("a folder for scratch files");
    folder.join(name)
}

/// A group's output files as one, and which case and packet each of its packets is.
fn together(group: &str, cases: &BTreeSet<String>) -> (PathBuf, Vec<String>) {
    let (mut packets, mut origin) = (Vec::new(), Vec::new());
    for name in cases {
        for (port, path) in Folder::of(&root(), name).output_files() {
            for (n, seen) in pcap::read(&path).expect("a readable capture").into_iter().enumerate() {
                packets.push(Seen { at: packets.len() as u64 * 1_000_000, ..seen });
                origin.push(format!("{name} {port} packet {}", n + 1));
            }
        }
    }
    let path = scratch(&format!("{group}.pcap"));
    pcap::write(&path, &packets).expect("a capture written");
    (path, origin)
}

#[test]
fn tshark_finds_nothing_malformed_and_every_checksum_right() {
    let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for case in all() {
        let group = case.name.split('/').next().unwrap_or_default().to_owned();
        groups.entry(group).or_default().insert(case.name);
    }
    let mut faults = Vec::new();
    let mut read = 0;
    for (group, cases) in &groups {
        let (path, origin) = together(group, cases);
        read += origin.len();
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-r"]).arg(&path);
        for option in ["ip.check_checksum", "udp.check_checksum", "tcp.check_checksum"] {
            tshark.args(["-o", &format!("{option}:TRUE")]);
        }
        // Cases of a group share addresses and ports: sequence numbers across them mean nothing.
        tshark.args(["-o", "tcp.analyze_sequence_numbers:FALSE"]);
        tshark.args(["-Y", &format!("_ws.malformed or _ws.expert.severity >= {WARNING}")]);
        tshark.args(["-T", "fields", "-e", "frame.number", "-e", "frame.protocols", "-e", "_ws.expert.message"]);
        let output = tshark.output().expect("tshark is needed: `make setup` installs it");
        assert!(output.status.success(), "tshark failed: {}", String::from_utf8_lossy(&output.stderr));
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let (number, says) = line.split_once('\t').unwrap_or((line, ""));
            let at = number.parse::<usize>().ok().and_then(|n| origin.get(n - 1)).map_or(number, |at| at);
            let may = |(case, what): &(&str, &str)| at.starts_with(&format!("{case} ")) && says.ends_with(what);
            if !MAY.iter().any(may) {
                faults.push(format!("{at}: {says}"));
            }
        }
    }
    assert!(read > 500, "only {read} packets to read: are the folders there?");
    assert!(faults.is_empty(), "tshark on what we send:\n{}", faults.join("\n"));
}

#[test]
fn scapy_reads_what_the_cases_say() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = workspace.join("target/judge/bin/python3");
    let python = std::env::var_os("WEIR_JUDGE_PYTHON").map_or(python, PathBuf::from);
    let mut entries = Vec::new();
    for case in all() {
        for (port, packets) in &case.outputs {
            let file = root().join(&case.name).join(format!("{port}.out.pcap"));
            let facts: Vec<_> = packets.iter().map(|(_, packet)| packet.facts()).collect();
            entries.push(serde_json::json!({ "file": file, "packets": facts }));
        }
    }
    let list = scratch("facts.json");
    std::fs::write(&list, serde_json::to_vec(&entries).expect("facts are JSON")).expect("facts written");
    let mut judge = Command::new(&python);
    judge.arg(workspace.join("tests/judge/read.py")).arg(&list);
    let output = judge.output();
    let output = output.unwrap_or_else(|error| {
        panic!("{}: {error}; scapy is needed: `make setup` installs it", python.display());
    });
    let faults = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "scapy on what we send:\n{faults}{}", String::from_utf8_lossy(&output.stderr));
}
