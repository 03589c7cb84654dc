//! The result as people read it.

use super::audit::Check;
use super::report::{Beside, Conditions, RealReport, Record, Setup};
use crate::text::{Table, micros};

/// Conditions, a table of cells, checks.
pub fn text(report: &RealReport) -> String {
    let mut out = conditions(&report.conditions);
    let mut ports: Vec<&str> = report.cells.iter().filter(|cell| cell.path == "user").map(|cell| cell.port).collect();
    ports.dedup();
    for chunk in by_port(&report.cells, &ports) {
        out.push('\n');
        out += &table(chunk);
    }
    out += "\nsessions by PFCP, 32 requests at a time:\n";
    for setup in &report.setups {
        let Setup { contender, path, port, sessions_per_second, cpu_us_per_session, .. } = setup;
        let (rate, cpu) = (crate::text::count(sessions_per_second.round() as u64), cpu_us_per_session.round());
        out += &format!("  {contender} ({path}, {port}): {rate} a second, {cpu} µs of a CPU each\n");
    }
    out += "\nchecks, in sessions of their own:\n";
    for check in &report.checks {
        let verdict = if check.ok { "ok  " } else { "NOT " };
        let Check { contender, path, port, what, found, .. } = check;
        out += &format!("  {verdict} {contender} ({path}, {port}): {what}: {found}\n");
    }
    let unsettled =
        report.cells.iter().filter(|cell| cell.path == "user" && cell.contender == "weir" && !cell.settled).count();
    if unsettled > 0 {
        out += &format!(
            "\nin {unsettled} cells a ratio's 95 % interval is wider than ±5 % after {} rounds\n",
            report.conditions.rounds.1
        );
    }
    if report.trials_repeated > 0 {
        out += &format!("{} trials were invalid and repeated\n", report.trials_repeated);
    }
    out
}

/// The records of each port mode's run, a peer's with those of the mode it ran beside.
fn by_port<'a>(cells: &'a [Record], ports: &[&str]) -> Vec<&'a [Record]> {
    let mut rest = cells;
    let mut parts = Vec::new();
    for (n, _) in ports.iter().enumerate() {
        let next = ports.get(n + 1);
        let end = next.and_then(|next| rest.iter().position(|cell| cell.port == *next)).unwrap_or(rest.len());
        let (part, more) = rest.split_at(end);
        parts.push(part);
        rest = more;
    }
    parts
}

fn conditions(of: &Conditions) -> String {
    let mut out = format!("{}, Linux {}, weir {}, {}\n", of.cpu, of.kernel, of.version, of.date);
    for (name, path) in [("gateway", &of.gateway), ("peer", &of.peer)] {
        if let Some(path) = path {
            out += &format!("{name}: {path}\n");
        }
    }
    out +=
        &format!("{} sessions by PFCP, each with {}\n", crate::text::count(of.sessions.into()), of.features.join(", "));
    if let Some(every) = of.user_space_every {
        out += &format!("mix: one session in {every} is kept in user space by a URR that counts before QoS\n");
    }
    out += &format!("frames of {} bytes on N6, {} on N3; {}\n", of.frame_bytes[0], of.frame_bytes[1], of.load);
    out += &format!("{}\n", of.placement);
    out += &format!(
        "{} rounds of {} s; CPU is the time of all threads of the process, its children and the NAPI threads of its \
         interfaces\n",
        if of.rounds.0 == of.rounds.1 {
            of.rounds.0.to_string()
        } else {
            format!("{} to {}", of.rounds.0, of.rounds.1)
        },
        of.window_seconds
    );
    out
}

const HEADS: [&str; 16] = [
    "offered",
    "contender",
    "port",
    "pps",
    "lost %",
    "CPU %",
    "NAPI %",
    "ns/packet",
    "s/Mpacket",
    "p50",
    "p99",
    "burst",
    "wakes/s",
    "waited %",
    "× bare",
    "× peer",
];

fn table(cells: &[Record]) -> String {
    let mut table = Table::new(&HEADS);
    let mut last = None;
    for cell in cells {
        // A cell's gateway comes first.
        if (cell.contender, cell.path) == ("weir", "user") && last.is_some() {
            table.rule();
        }
        last = Some(cell.contender);
        let path = if ["auto", "mix"].contains(&cell.path) { format!(" ({})", cell.path) } else { String::new() };
        let offered = match (cell.saturated, cell.offered_pps) {
            (true, _) => format!("max ({:.0}k)", cell.offered_pps / 1e3),
            (_, 0.0) => "idle".into(),
            (_, pps) => format!("{}k", pps / 1e3),
        };
        let number = |value: Option<f64>, digits: usize| value.map_or("-".into(), |value| format!("{value:.digits$}"));
        let time = |us: Option<f64>| us.map_or("-".into(), micros);
        table.row([
            offered,
            format!("{}{path}", cell.contender),
            cell.port.into(),
            format!("{}{:.0}", if cell.load_limited { "≥ " } else { "" }, cell.pps),
            format!("{:.1}", 100.0 * cell.loss_ratio),
            format!("{:.2}", cell.cpu_percent),
            format!("{:.2}", cell.napi_percent),
            number(cell.cpu_ns_per_packet, 0),
            number(cell.cpu_seconds_per_million, 2),
            time(cell.p50_us),
            time(cell.p99_us),
            number(cell.burst_mean, 1),
            format!("{:.0}", cell.wakeups_per_second),
            format!("{:.1}", cell.waited_percent),
            ratio(cell.reference.as_ref()),
            ratio(cell.peer.as_ref()),
        ]);
    }
    table.text()
        + "  × bare, × peer: rate where max is offered, CPU time elsewhere; in brackets the 95 % interval; ≥: \
                    the load's CPU had no more to give\n"
}

fn ratio(beside: Option<&Beside>) -> String {
    let Some(beside) = beside else { return "-".into() };
    let interval = beside.ci95.map_or(String::new(), |[low, high]| format!(" [{low:.2}, {high:.2}]"));
    beside.ratio.map_or("-".into(), |ratio| format!("{ratio:.2}{interval}"))
}
