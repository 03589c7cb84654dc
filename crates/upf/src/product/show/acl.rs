//! `weir show acl`: what rules of access lists have decided on.

use crate::product::protocol::AclRuleView;
use gateway::tables::{Style, Table, bytes, count};

/// Counts since the earlier look, when there was one.
pub fn since(now: &[AclRuleView], earlier: Option<&[AclRuleView]>) -> Vec<AclRuleView> {
    let mut rules = now.to_vec();
    for (rule, before) in rules.iter_mut().zip(earlier.unwrap_or_default()) {
        rule.packets = rule.packets.saturating_sub(before.packets);
        rule.bytes = rule.bytes.saturating_sub(before.bytes);
    }
    rules
}

/// The page.
pub fn text(now: &[AclRuleView], earlier: Option<&[AclRuleView]>, style: Style) -> String {
    let mut table = Table::new(&["network", "rule", ">packets", ">bytes"]);
    let mut last: Option<String> = None;
    for rule in since(now, earlier) {
        if last.as_ref().is_some_and(|last| *last != rule.instance) {
            table.rule();
        }
        let text = if rule.rule.contains(' ') { rule.rule } else { format!("{} all others", rule.rule) };
        table.row([rule.instance.clone(), text, count(rule.packets), bytes(rule.bytes)]);
        last = Some(rule.instance);
    }
    if table.is_empty() {
        "  no access list is configured: there is no [[acl]]\n".to_owned()
    } else {
        table.render(style)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_rules() {
        let rule =
            |rule: &str, packets, bytes| AclRuleView { instance: "core".into(), rule: rule.into(), packets, bytes };
        let now = [rule("deny in tcp from any to any port 25", 7, 420), rule("permit", 1000, 2000)];
        let before = [rule("deny in tcp from any to any port 25", 5, 300), rule("permit", 1000, 2000)];
        let wanted = "
  network  rule                                 packets  bytes
  ────────────────────────────────────────────────────────────
  core     deny in tcp from any to any port 25        2  120 B
  core     permit all others                          0    0 B
";
        assert_eq!(format!("\n{}", text(&now, Some(&before), Style::default())), wanted);
        assert!(text(&[], None, Style::default()).contains("no access list"));
    }
}
