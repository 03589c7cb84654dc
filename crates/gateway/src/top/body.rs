//! The views: what stands between the line of views and the line of keys.

use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};

use super::grid::{Cell, Grid, bars, cut, number, width, words};
use super::model::{StageCost, TopView};
use super::screen::{Screen, Tab};
use crate::connected;
use crate::tables::{count, si};

/// Lines that stay, and lines that scroll below them.
pub struct Body {
    /// Lines at the top, which do not scroll.
    pub head: Vec<Line<'static>>,
    /// Lines that scroll.
    pub rows: Vec<Line<'static>>,
}

impl Body {
    fn of(grid: &Grid, columns: usize, nothing: &str) -> Self {
        let (head, rows) = grid.lines(columns);
        match rows.is_empty() {
            true => Self { head: Vec::new(), rows: vec![Line::from(cut(nothing, columns).dim())] },
            false => Self { head: vec![head], rows },
        }
    }
}

/// The view that is shown, in `columns`; the overview fits `room` rows.
pub fn body(view: &TopView, screen: &Screen, columns: usize, room: usize) -> Body {
    match screen.tab {
        Tab::Overview => Body { head: Vec::new(), rows: overview(view, columns, room) },
        Tab::Stages => {
            let mut body = Body::of(&stages(&view.stages), columns, "no packet in this interval");
            body.head.insert(0, totals(view, columns));
            body
        }
        Tab::Drops => Body::of(&drops(view), columns, "no packet was dropped"),
        Tab::Ports => Body::of(&ports(view), columns, "no ports"),
        Tab::Workers => Body::of(&workers(view), columns, "no workers"),
        Tab::Sessions => sessions(screen, columns),
    }
}

fn pps(rate: f64) -> Cell {
    spaced(rate, "pps").into()
}

fn bits(rate: f64) -> Cell {
    spaced(rate, "bit/s").into()
}

/// `1.42 Mpps`, `7 pps`.
fn spaced(rate: f64, unit: &str) -> String {
    let text = si(if rate >= 10.0 { rate.round() } else { rate });
    if text.contains(' ') { text + unit } else { format!("{text} {unit}") }
}

fn percent(ratio: f64) -> Cell {
    format!("{:.0} %", 100.0 * ratio).into()
}

/// A number that is an alarm unless it is 0.
fn alarm(text: String, is_alarm: bool) -> Cell {
    Cell::Text(text, if is_alarm { Style::new().red().bold() } else { Style::new() })
}

/// Values as bars of eighths over `rows` lines, the newest on the right, the largest value as high as all of it.
pub fn sparkline(values: &[f64], columns: usize, rows: usize, most: f64) -> Vec<String> {
    const PARTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &values[values.len().saturating_sub(columns)..];
    let height = |value: f64| match most > 0.0 && value > 0.0 {
        // Something is seen of everything that is not nothing.
        true => ((value / most * (8 * rows) as f64).round() as usize).clamp(1, 8 * rows),
        false => 0,
    };
    let line = |row: usize| {
        let below = 8 * (rows - 1 - row);
        let part = |value: &f64| PARTS[height(*value).saturating_sub(below).min(8)];
        let gap = " ".repeat(columns - shown.len());
        gap + &shown.iter().map(part).collect::<String>()
    };
    (0..rows).map(line).collect()
}

fn overview(view: &TopView, columns: usize, room: usize) -> Vec<Line<'static>> {
    // Rows of the history of what comes in and goes out.
    let tall = match room {
        0..20 => 1,
        20..36 => 2,
        _ => 3,
    };
    let mut lines = rates(view, columns, tall);
    let gap = usize::from(room >= 18);
    let others = [workers(view), drops(view)].map(|grid| grid.lines(columns));
    let left = room.saturating_sub(lines.len());
    let [of_workers, of_drops] = match left {
        0..8 => [0, 0],
        8..14 => [0, others[1].1.len().min(2)],
        14..24 => [others[0].1.len().min(2), others[1].1.len().min(4)],
        _ => [others[0].1.len().min(8), others[1].1.len().min(8)],
    };
    let needed = |rows: usize| if rows > 0 { rows + 1 + gap } else { 0 };
    let of_stages = left.saturating_sub(needed(of_workers) + needed(of_drops) + 1 + gap);
    let mut dear = view.stages.clone();
    if dear.len() > of_stages {
        // Those that cost most, in the order of the pipelines.
        let mut costs: Vec<f64> = dear.iter().map(|stage| stage.cost_ratio).collect();
        costs.sort_by(|a, b| b.total_cmp(a));
        let least = costs.get(of_stages.saturating_sub(1)).copied().unwrap_or(f64::MAX);
        dear.retain(|stage| stage.cost_ratio >= least);
    }
    let (head, rows) = stages(&dear).lines(columns);
    let none = vec![Line::from("no packet in this interval".dim())];
    let mut section = |head: Line<'static>, rows: Vec<Line<'static>>, most: usize| {
        if most > 0 {
            lines.extend(std::iter::repeat_n(Line::default(), gap));
            lines.push(head);
            lines.extend(rows.into_iter().take(most));
        }
    };
    section(head, if rows.is_empty() { none } else { rows }, of_stages);
    let [(worker_head, worker_rows), (drop_head, drop_rows)] = others;
    section(drop_head, drop_rows, of_drops);
    section(worker_head, worker_rows, of_workers);
    lines
}

/// What comes in, goes out and is dropped, and how busy the workers are, each with its history.
fn rates(view: &TopView, columns: usize, tall: usize) -> Vec<Line<'static>> {
    let (rates, history) = (&view.rates, &view.history);
    let packets = |rate| spaced(rate, "pps");
    let rows = [
        ("in", packets(rates.rx_packets_per_second), spaced(rates.rx_bits_per_second, "bit/s"), tall),
        ("out", packets(rates.tx_packets_per_second), spaced(rates.tx_bits_per_second, "bit/s"), tall),
        ("drops", packets(rates.dropped_packets_per_second), String::new(), 1),
        ("busy", format!("{:.0} %", 100.0 * rates.busy_ratio), String::new(), 1),
    ];
    let lists = [
        &history.rx_packets_per_second,
        &history.tx_packets_per_second,
        &history.dropped_packets_per_second,
        &history.busy_ratio,
    ];
    let mut lines = Vec::new();
    for (n, ((name, first, second, tall), list)) in rows.into_iter().zip(lists).enumerate() {
        let text = format!("{name:<5} {first:>9}  {second:>12} ");
        let largest = list.iter().copied().fold(0.0, f64::max);
        // Shares are of a whole, packets of the most there were.
        let most = if n == 3 { 1.0 } else { largest };
        let peak = match n {
            3 => format!(" max {:.0} %", 100.0 * largest),
            _ => format!(" max {}", si(largest.round())),
        };
        let peak = if columns >= 64 { format!("{peak:<11}") } else { String::new() };
        let room = columns.saturating_sub(width(&text) + width(&peak));
        let is_alarm = n == 2 && rates.dropped_packets_per_second > 0.0;
        let style = if is_alarm { Style::new().red().bold() } else { Style::new() };
        for (row, spark) in sparkline(list, room, tall, most).into_iter().enumerate() {
            let is_last = row + 1 == tall;
            let text = if is_last { text.clone() } else { " ".repeat(width(&text)) };
            let mut spans = vec![Span::styled(text, style), Span::styled(spark, Style::new().cyan())];
            if is_last {
                spans.push(Span::styled(peak.clone(), Style::new().dim()));
            }
            lines.push(Line::from(spans));
        }
    }
    if let Some(kernel) = &view.kernel {
        let text = format!(
            "kernel {} {}, {} dropped there",
            spaced(kernel.packets_per_second, "pps"),
            spaced(kernel.bits_per_second, "bit/s"),
            spaced(kernel.dropped_packets_per_second, "pps")
        );
        lines.push(Line::from(cut(&text, columns)));
    }
    lines
}

fn totals(view: &TopView, columns: usize) -> Line<'static> {
    let rx = view.rates.rx_packets_per_second;
    let spent: f64 = view.stages.iter().map(|stage| stage.ns_per_packet * stage.packets_per_second).sum();
    let text = match rx > 0.0 {
        true => format!("a packet received costs {:.0} ns, all stages; {}", spent / rx, spaced(rx, "pps")),
        false => "a packet received costs –".to_owned(),
    };
    Line::from(cut(&text, columns))
}

fn stages(costs: &[StageCost]) -> Grid {
    let mut grid = Grid::new(&[
        words("stage", 9),
        number("packets", 4),
        number("a call", 3),
        number("cycles", 6),
        number("ns", 8),
        number("share", 7),
        bars("of the cost", 5),
    ]);
    for stage in costs {
        grid.row([
            stage.stage.clone().into(),
            pps(stage.packets_per_second),
            format!("{:.1}", stage.packets_per_call).into(),
            format!("{:.1}", stage.cycles_per_packet).into(),
            format!("{:.1}", stage.ns_per_packet).into(),
            percent(stage.cost_ratio),
            Cell::Share(stage.cost_ratio),
        ]);
    }
    grid
}

fn drops(view: &TopView) -> Grid {
    let mut grid = Grid::new(&[
        words("drops", 9),
        words("at", 6),
        number("rate", 8),
        number("packets", 7),
        words("what it means", 3),
    ]);
    for drop in &view.drops {
        grid.row([
            drop.reason.clone().into(),
            drop.stage.clone().into(),
            alarm(spaced(drop.rate, "pps"), drop.rate > 0.0),
            count(drop.packets).into(),
            Cell::Text(drop.sentence.clone(), Style::new().dim()),
        ]);
    }
    grid
}

fn ports(view: &TopView) -> Grid {
    let mut grid = Grid::new(&[
        words("port", 9),
        words("side", 4),
        words("kind", 2),
        words("interface", 3),
        words("link", 8),
        number("in", 7),
        number("bits in", 6),
        number("out", 7),
        number("bits out", 6),
        number("lost", 7),
        number("lost so far", 1),
    ]);
    for port in &view.ports {
        grid.row([
            port.name.clone().into(),
            port.role.clone().into(),
            port.kind.clone().into(),
            port.interface.clone().into(),
            alarm(port.link.clone(), port.link != "up"),
            pps(port.rx_packets_per_second),
            bits(port.rx_bits_per_second),
            pps(port.tx_packets_per_second),
            bits(port.tx_bits_per_second),
            alarm(spaced(port.lost_packets_per_second, "pps"), port.lost_packets_per_second > 0.0),
            count(port.lost_packets).into(),
        ]);
    }
    grid
}

fn workers(view: &TopView) -> Grid {
    let mut grid = Grid::new(&[
        words("worker", 9),
        number("CPU time", 8),
        number("busy", 7),
        number("idle", 7),
        number("in", 6),
        number("out", 5),
        number("a burst", 3),
        number("sleeps/s", 2),
        number("CPU ns/packet", 4),
        bars("busy", 5),
    ]);
    for worker in &view.workers {
        let cpu = worker.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
        grid.row([
            format!("{}{cpu}", worker.worker).into(),
            percent(worker.cpu_ratio),
            percent(worker.busy_ratio),
            percent(worker.idle_ratio),
            pps(worker.rx_packets_per_second),
            pps(worker.tx_packets_per_second),
            format!("{:.1}", worker.packets_per_burst).into(),
            si(worker.sleeps_per_second.round()).into(),
            format!("{:.0}", worker.cpu_ns_per_packet).into(),
            Cell::Share(worker.busy_ratio),
        ]);
    }
    grid
}

/// Those with the highest rates.
fn sessions(screen: &Screen, columns: usize) -> Body {
    let dim = |text: &str| Line::from(cut(&super::grid::clean(text), columns).dim());
    let page = match &screen.sessions {
        Some(Ok(page)) => page,
        Some(Err(why)) => {
            let lines = crate::tables::wrapped(&super::grid::clean(why), columns.max(1));
            return Body { head: Vec::new(), rows: lines.into_iter().map(Line::from).collect() };
        }
        None if screen.is_paused => return Body { head: Vec::new(), rows: vec![dim("paused")] },
        None => return Body { head: Vec::new(), rows: vec![dim("reading rates …")] },
    };
    let filter = match screen.filter_text.as_str() {
        "" => String::new(),
        text => format!(" with {text}"),
    };
    let title = format!("{} {}; the highest rates{filter}", count(page.total), page.kind);
    let (heads, cells) = connected::columns(page);
    let columns_of: Vec<_> = heads
        .iter()
        .map(|(head, is_number)| {
            // Who it is and its rates stay longest, then addresses.
            let worth = match *head {
                "up" | "down" => 8,
                "subscriber" | "imsi" | "mac" => 9,
                "addresses" => 7,
                "bytes" | "up packets" | "down packets" | "worker" => 1,
                _ => 4,
            };
            if *is_number { number(head, worth) } else { words(head, worth) }
        })
        .collect();
    let mut grid = Grid::new(&columns_of);
    cells.into_iter().for_each(|row| grid.row(row.into_iter().map(Cell::from)));
    let mut body = Body::of(&grid, columns, "none");
    body.head.insert(0, dim(&title));
    body
}
