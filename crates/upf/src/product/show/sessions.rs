//! `weir show sessions`: how many there are and what they take; one of them in detail.

use crate::product::protocol::{ControlPlaneView, RuleView, SessionView, SessionsView};
use gateway::tables::{Align, Style, Table, bytes, count, duration, per};

/// The page of all.
pub fn text(view: &SessionsView, style: Style) -> String {
    let right = Align::Right;
    let heads = [("worker", Align::Left), ("sessions", right), ("memory", right), ("bytes/session", right)];
    let mut table = Table::new(&heads);
    let row = |table: &mut Table, name: String, sessions: u64, size: u64| {
        table.row([name, count(sessions), bytes(size), per(size as f64, sessions as f64, 0)]);
    };
    let (mut sessions, mut size) = (0, 0);
    for worker in &view.workers {
        (sessions, size) = (sessions + worker.sessions, size + worker.bytes);
        row(&mut table, worker.worker.to_string(), worker.sessions, worker.bytes);
    }
    if view.workers.len() > 1 {
        table.rule();
        row(&mut table, "all".to_owned(), sessions, size);
    }
    let mut out = table.render(style);
    if !view.control.is_empty() {
        let mut table = Table::new(&[("sessions", Align::Left), ("so far", right)]);
        for (what, n, _) in &view.control {
            table.row([what.clone(), count(*n)]);
        }
        out.push('\n');
        out += &table.render(style);
    }
    out
}

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
    let mut rules = Table::new(&[("rule", Align::Left), ("id", Align::Right), ("text", Align::Left)]);
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
    let right = Align::Right;
    let mut table = Table::new(&[
        ("usage of urr", Align::Left),
        ("up packets", right),
        ("up bytes", right),
        ("down packets", right),
        ("down bytes", right),
        ("first to last", right),
        ("last seen", right),
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
    let heads = [("credit of qer", Align::Left), ("direction", Align::Left), ("left", right), ("of", right)];
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
