//! Pages from fixed numbers.

use ledger::Seid;

use crate::product::protocol::{ControlPlaneView, CreditView, RuleUsage, RuleView, SessionView};
use gateway::tables::Style;

const PLAIN: Style = Style::coloured(false);

#[test]
fn one_session() {
    let credit = |direction: &str, unit: &str, left: u64| CreditView {
        qer: 1,
        direction: direction.into(),
        unit: unit.into(),
        left,
        of: 2 * left,
    };
    let rule = |kind: &str, id, says: &str| RuleView { kind: kind.to_owned(), id, text: says.to_owned() };
    let usage = RuleUsage {
        urr: 1,
        up_packets: 1000,
        up_bytes: 128_000,
        down_packets: 0,
        down_bytes: 0,
        seconds: 4.9,
        idle: Some(0.3),
    };
    let view = SessionView {
        addresses: vec!["10.60.0.1".parse().unwrap(), "2001:db8::".parse().unwrap()],
        worker: 1,
        handle: 6,
        instance: "core".into(),
        rules: vec![rule("pdr", 1, "from access → far 1"), rule("far", 1, "forward")],
        usage: vec![usage, RuleUsage { urr: 2, ..RuleUsage::default() }],
        credits: vec![credit("up", "bytes", 1024), credit("down", "packets", 7)],
        control_plane: Some(ControlPlaneView {
            address: "10.0.4.9:8805".into(),
            cp_seid: Seid(1),
            up_seid: Seid(0x1_0000_0001),
        }),
        fast_path: None,
    };
    let wanted = "
10.60.0.1 and 2001:db8:: · core · worker 1, handle 6 · of 10.0.4.9:8805, SEID 0x1, here 0x100000001

  rule  id  text
  ─────────────────────────────
  pdr    1  from access → far 1
  ─────────────────────────────
  far    1  forward

  usage of urr  up packets  up bytes  down packets  down bytes  first to last  last seen
  ──────────────────────────────────────────────────────────────────────────────────────
  1                  1,000   125 KiB             0         0 B          4.9 s  0.3 s ago
  2                      0       0 B             0         0 B          0.0 s      never

  credit of qer  direction       left          of
  ───────────────────────────────────────────────
  1              up           1.0 KiB     2.0 KiB
  1              down       7 packets  14 packets
";
    assert_eq!(format!("\n{}", super::sessions::one(&view, PLAIN)), wanted);
}
