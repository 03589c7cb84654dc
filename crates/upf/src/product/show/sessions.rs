//! `weir show sessions --ue`: one session in detail.

use crate::product::protocol::{ControlPlaneView, RuleView, SessionView};
use gateway::tables::{Style, Table, bytes, count, duration};

/// The page of one.
pub fn one(view: &SessionView, style: Style) -> String {
    let addresses: Vec<String> = view.addresses.iter().map(ToString::to_string).collect();
    let mut out = format!(
        "{} · {} · worker {}, handle {}\n\n",
        style.strong(&addresses.join(" and ")),
        view.instance,
        view.worker,
        view.handle
    );
    if let Some(ControlPlaneView { address, cp_seid, up_seid }) = &view.control_plane {
        out.truncate(out.trim_end().len());
        out += &format!(" · of {address}, SEID {:#x}, here {:#x}\n\n", cp_seid.0, up_seid.0);
    }
    if let Some(place) = &view.fast_path {
        out.truncate(out.trim_end().len());
        out += &format!("\nforwarded {place}\n\n");
    }
    let mut rules = Table::new(&["rule", ">id", "text"]);
    let mut last = "";
    for RuleView { kind, id, text } in &view.rules {
        if !last.is_empty() && kind != last {
            rules.rule();
        }
        last = kind;
        rules.row([kind.clone(), id.to_string(), text.clone()]);
    }
    out += &rules.render(style);
    out.push('\n');
    let mut table = Table::new(&[
        "usage of urr",
        ">up packets",
        ">up bytes",
        ">down packets",
        ">down bytes",
        ">first to last",
        ">last seen",
    ]);
    for usage in &view.usage {
        table.row([
            usage.urr.to_string(),
            count(usage.up_packets),
            bytes(usage.up_bytes),
            count(usage.down_packets),
            bytes(usage.down_bytes),
            duration(usage.seconds),
            usage.idle.map_or("never".to_owned(), |idle| format!("{} ago", duration(idle))),
        ]);
    }
    if table.is_empty() {
        out += "  nothing is measured\n";
    } else {
        out += &table.render(style);
    }
    let heads = ["credit of qer", "direction", ">left", ">of"];
    let mut table = Table::new(&heads);
    for credit in &view.credits {
        let text = |n| if credit.unit == "packets" { format!("{} packets", count(n)) } else { bytes(n) };
        table.row([credit.qer.to_string(), credit.direction.clone(), text(credit.left), text(credit.of)]);
    }
    if !table.is_empty() {
        out.push('\n');
        out += &table.render(style);
    }
    out
}
