use super::*;

fn line(packet: u64, stage: &str, verdict: &str, detail: &str, bytes: &str) -> TraceLine {
    let [stage, verdict, detail, bytes] = [stage, verdict, detail, bytes].map(str::to_owned);
    TraceLine { worker: 0, packet, unix_ns: 3_723_000_004_000 + packet, stage, verdict, detail, bytes }
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
    let walk = vec![
        line(0, "rx", "keep", "port n3, 5 bytes", "4142434445"),
        line(0, "source", "keep", "ipv4 session@7", "4142434445"),
        line(0, "pdr", "keep", "ipv4 session@7", "4142434445"),
        line(0, "police", "drop", "ipv4 session@7 over", "41"),
    ];
    let mut clock = Clock::default();
    let plain = text(&walk, &mut clock, false, Style::default());
    let wanted = "\
packet 1 · worker 0 · 01:02:03.000004 UTC · +0.000 ms · dropped by police
  rx      keep  port n3, 5 bytes
  source  keep  ipv4 session@7
  pdr     keep  …
  police  drop  ipv4 session@7 over

";
    assert_eq!(plain, wanted);
    let hex = text(&walk, &mut clock, true, Style::default());
    assert_eq!(hex.matches("0000  41 42 43 44 45").count(), 1, "only when the bytes changed:\n{hex}");
    assert!(hex.starts_with("packet 2") && hex.contains("ABCDE"));
}

#[test]
fn a_cut_packet_knows_its_length() {
    let mut frame = vec![0u8; 60];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&1400u16.to_be_bytes());
    assert_eq!(length(&frame), 1414);
    frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    frame[18..20].copy_from_slice(&1000u16.to_be_bytes());
    assert_eq!(length(&frame), 1054);
    assert_eq!(length(&[1, 2, 3]), 3);
}
