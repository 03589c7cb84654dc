//! `weir show nat`: which subscriber has which public ports.

use crate::product::protocol::NatView;
use gateway::tables::{Style, Table, count};

/// The page.
pub fn text(view: &NatView, style: Style) -> String {
    let mut out = format!(
        "{} subscribers, {} blocks of ports, {} mappings\n\n",
        count(view.subscribers),
        count(view.blocks),
        count(view.mappings)
    );
    let mut table = Table::new(&["subscriber", "network", "public", ">ports", ">mappings"]);
    for block in &view.list {
        let [first, last] = block.ports;
        table.row([
            block.private.to_string(),
            block.instance.clone(),
            block.public.to_string(),
            format!("{first}–{last}"),
            count(block.mappings.into()),
        ]);
    }
    if table.is_empty() {
        out += "  no block is allocated\n";
    } else {
        out += &table.render(style);
    }
    let more = view.blocks.saturating_sub(view.list.len() as u64);
    if more > 0 && !view.list.is_empty() {
        out += &format!("\n  and {} blocks more; --ue ADDRESS shows one subscriber's\n", count(more));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::protocol::BlockView;

    #[test]
    fn a_page_of_blocks() {
        let block = BlockView {
            private: "10.60.0.1".parse().unwrap(),
            instance: "core".into(),
            public: "192.0.2.1".parse().unwrap(),
            ports: [1024, 1151],
            mappings: 3,
        };
        let view = NatView { subscribers: 2, blocks: 2, mappings: 5, list: vec![block] };
        let wanted = "
2 subscribers, 2 blocks of ports, 5 mappings

  subscriber  network  public         ports  mappings
  ───────────────────────────────────────────────────
  10.60.0.1   core     192.0.2.1  1024–1151         3

  and 1 blocks more; --ue ADDRESS shows one subscriber's
";
        assert_eq!(format!("\n{}", text(&view, Style::default())), wanted);
        assert!(text(&NatView::default(), Style::default()).contains("no block is allocated"));
    }
}
