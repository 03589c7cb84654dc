use super::*;

fn line(packet: u64, stage: &str, verdict: &str, detail: &str, bytes: &str) -> TraceLine {
    let [stage, verdict, detail, bytes] = [stage, verdict, detail, bytes].map(str::to_owned);
    let unix_ns = 3_723_000_004_000 + packet;
    TraceLine { packet, unix_ns, stage, verdict, detail, bytes, ..TraceLine::default() }
}

#[test]
fn a_walk_is_given_once_it_is_whole() {
    let mut walks = Walks::default();
    assert!(walks.add(vec![line(1, "rx", "keep", "", "")], false).is_empty());
    assert!(walks.add(vec![line(1, "outer", "keep", "", ""), line(2, "rx", "keep", "", "")], false).is_empty());
    let whole = walks.add(vec![line(2, "outer", "keep", "", "")], false);
    assert_eq!((whole.len(), whole[0].len()), (1, 2));
    assert_eq!(walks.add(vec![line(3, "rx", "keep", "", "")], true).len(), 2);
    assert_eq!(walks.done, 3);
}

#[test]
fn a_walk_reads_as_a_paragraph() {
    let mut walk = vec![
        line(0, "rx", "keep", "port n3, 5 bytes", "4142434445"),
        line(0, "source", "keep", "ipv4 session@7", "4142434445"),
        line(0, "pdr", "keep", "ipv4 session@7", "4142434445"),
        line(0, "police", "drop", "ipv4 session@7 over", "41"),
    ];
    walk[1].stage_ns = Some(12.3);
    let mut clock = Clock::default();
    let plain = text(&walk, &mut clock, false, Style::default());
    let wanted = "\
packet 1 · worker 0 · 01:02:03.000004 UTC · +0.000 ms · dropped by police
  rx      keep            port n3, 5 bytes
  source  keep     12 ns  ipv4 session@7
  pdr     keep            …
  police  drop            ipv4 session@7 over

";
    assert_eq!(plain, wanted);
    let hex = text(&walk, &mut clock, true, Style::default());
    assert_eq!(hex.matches("0000  41 42 43 44 45").count(), 1, "only when the bytes changed:\n{hex}");
    assert!(hex.starts_with("packet 2") && hex.contains("ABCDE"));
}

#[test]
fn a_rule_is_shown_with_what_it_names() {
    let mut one = line(0, "match_pdr", "keep", "session 7, PDR 1, hop 2", "");
    name_rules(&mut one, &[("PDR 12".into(), "no".into()), ("PDR 1".into(), "FAR 1, QER 2, URR 3".into())]);
    assert_eq!(one.detail, "session 7, PDR 1 (FAR 1, QER 2, URR 3), hop 2");
    let mut other = line(0, "match_pdr", "keep", "session 7, PDR 3", "");
    name_rules(&mut other, &[("PDR 1".into(), "no".into())]);
    assert_eq!(other.detail, "session 7, PDR 3");
}

#[test]
fn whole_packets_are_saved_on_named_interfaces() {
    let mut long = vec![2u8; 12];
    long.extend([8, 0, 0x45, 0]);
    long.extend(1486u16.to_be_bytes());
    long.resize(1500, 7);
    let frame = |len: usize| crate::socket::hex(&long[..len]);
    let on = |packet, stage: &str, verdict: &str, port: Option<&str>, len| TraceLine {
        port: port.map(str::to_owned),
        ..line(packet, stage, verdict, "known", &frame(len))
    };
    let path = std::env::temp_dir().join(format!("weir-walk-{}.pcapng", std::process::id()));
    let mut file = PacketFile::create(&path).unwrap();
    file.save(&[on(1, "rx", "keep", Some("n3"), 1500), on(1, "route", "keep", Some("n6"), 1464)]).unwrap();
    file.save(&[on(2, "rx", "keep", Some("n6"), 60), on(2, "police", "drop", Some("n3"), 60)]).unwrap();
    file.end().unwrap();
    let run = |tool: &str, words: &str| {
        let out = std::process::Command::new(tool).args(words.split_whitespace()).arg(&path).output().expect(tool);
        assert!(out.status.success(), "{tool}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let fields = "-T fields -e frame.interface_name -e frame.len -e frame.packet_flags_direction -r";
    let said = run("tshark", fields);
    let rows: Vec<Vec<&str>> = said.lines().map(|line| line.split('\t').collect()).collect();
    let wanted = [["n3", "1500"], ["n6", "1464"], ["n6", "60"], ["inside", "60"]];
    assert_eq!(rows.iter().map(|row| [row[0], row[1]]).collect::<Vec<_>>(), wanted, "{said}");
    assert!(rows[0][2].ends_with('1') && rows[1][2].ends_with('2'), "inbound and outbound: {said}");
    let about = run("capinfos", "");
    assert!(about.contains("Number of interfaces in file: 3") && about.contains("pcapng"), "{about}");
    std::fs::remove_file(&path).unwrap();
}
