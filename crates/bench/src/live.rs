//! What a running demonstration looks like.

use std::io::Write;

use engine::Io;
use traffic::{DirectionResult, TrialResult};

use crate::report::Report;
use crate::sample::Delta;
use crate::text::{Table, bytes, count, micros, rate};

/// Something to draw.
pub struct Picture<'a> {
    /// The first line.
    pub head: &'a str,
    /// Seconds so far, and in all.
    pub elapsed: f64,
    /// In all.
    pub seconds: f64,
    /// What generator and checker found so far.
    pub traffic: TrialResult,
    /// What the gateway did since the last picture.
    pub delta: Delta,
}

/// Where pictures are drawn: in place on a terminal, line by line elsewhere.
pub struct Screen<'a> {
    out: &'a mut (dyn Write + Send),
    terminal: bool,
    lines: usize,
}

impl<'a> Screen<'a> {
    /// On `out`.
    pub fn new(out: &'a mut (dyn Write + Send), terminal: bool) -> Self {
        Self { out, terminal, lines: 0 }
    }

    /// Whether pictures replace each other.
    pub(crate) fn in_place(&self) -> bool {
        self.terminal
    }

    /// A line that stays.
    pub fn say(&mut self, text: &str) {
        self.put(&format!("{text}\n"));
    }

    /// Draws a picture, over the last one if there was one.
    pub fn draw(&mut self, picture: &Picture<'_>) {
        if self.terminal {
            let text = table(picture, true);
            let up = if self.lines > 0 { format!("\x1b[{}A\x1b[J", self.lines) } else { String::new() };
            self.lines = text.matches('\n').count();
            self.put(&format!("{up}{text}"));
        } else {
            self.put(&line(picture));
        }
    }

    /// The end: what it came to.
    pub fn summary(&mut self, report: &Report, pps: f64) {
        if self.terminal && self.lines > 0 {
            self.put(&format!("\x1b[{}A\x1b[J", self.lines));
            self.lines = 0;
        }
        self.put(&summary(report, pps));
    }

    fn put(&mut self, text: &str) {
        // Whoever closed our output has seen enough.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

fn strong(text: &str, colour: bool) -> String {
    if colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

fn ns(cycles: u64, packets: u64) -> f64 {
    cycles as f64 / packets.max(1) as f64 * 1e9 / table::hint::tsc_hz() as f64
}

/// The stages that took most, busiest first.
fn busiest(delta: &Delta, most: usize) -> Vec<String> {
    let all: u64 = delta.stages.iter().map(|row| row.cycles).sum();
    let mut rows: Vec<_> = delta.stages.iter().filter(|row| row.packets > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.cycles));
    let share = |cycles: u64| cycles as f64 / all.max(1) as f64 * 100.0;
    let word = |row: &&engine::StageRow| {
        let cost = ns(row.cycles, row.packets);
        format!("{} {} {cost:.1} ns ({:.0} %)", row.stage.pipeline, row.stage.name, share(row.cycles))
    };
    rows.iter().take(most).map(word).collect()
}

/// The picture for a terminal.
pub fn table(picture: &Picture<'_>, colour: bool) -> String {
    let Picture { head, elapsed, seconds, traffic, delta } = picture;
    let width = 40;
    let full = ((elapsed / seconds).clamp(0.0, 1.0) * f64::from(width)).round() as usize;
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(width as usize - full));
    let mut out = format!("\n{}\n{bar} {elapsed:.0} of {seconds:.0} s\n\n", strong(head, colour));
    let mut rows = Table::new(&["", "packets/s", "Gbit/s", "forwarded", "lost", "p50", "p99", "p99.9"]);
    let row = |name: &str, d: &DirectionResult| {
        // What is on its way is not lost: packets of a few milliseconds.
        let on_its_way = (d.mpps * 1e6 * 0.005) as u64;
        let lost = if d.lost_packets <= on_its_way.max(64) { 0 } else { d.lost_packets };
        let l = &d.latency_us;
        [
            name.to_owned(),
            rate(d.mpps),
            format!("{:.2}", d.gbps_l2),
            count(d.forwarded_packets),
            count(lost),
            micros(l.p50),
            micros(l.p99),
            micros(l.p999),
        ]
    };
    rows.row(row("uplink", &traffic.directions.uplink));
    rows.row(row("downlink", &traffic.directions.downlink));
    out += &rows.text();
    let packets = delta.io(Io::RxPackets);
    out += &format!(
        "\n  a packet costs  {:.0} ns to receive and send, {:.0} ns to process   gateway busy {:.0} %\n",
        ns(delta.io(Io::RxCycles) + delta.io(Io::TxCycles), packets),
        ns(delta.io(Io::PipelineCycles), packets),
        delta.utilisation() * 100.0
    );
    out += &format!("  busiest stages  {}\n", busiest(delta, 3).join("\n                  "));
    let drops: u64 = delta.drops.values().sum();
    let names: Vec<_> = delta.drops.keys().map(String::as_str).collect();
    out += &match drops {
        0 => "  dropped         nothing\n".to_owned(),
        n => format!("  dropped         {} ({})\n", count(n), names.join(", ")),
    };
    out
}

/// The picture for a file or pipe.
pub fn line(picture: &Picture<'_>) -> String {
    let Picture { elapsed, traffic, delta, .. } = picture;
    let (up, down) = (&traffic.directions.uplink, &traffic.directions.downlink);
    format!(
        "{elapsed:>4.0} s  {} up, {} down, {:.2} Gbit/s  p50 {} p99 {}  processing {:.0} ns  busy {:.0} %  dropped {}\n",
        rate(up.mpps),
        rate(down.mpps),
        traffic.gbps_l2,
        micros(up.latency_us.p50.max(down.latency_us.p50)),
        micros(up.latency_us.p99.max(down.latency_us.p99)),
        ns(delta.io(Io::PipelineCycles), delta.io(Io::RxPackets)),
        delta.utilisation() * 100.0,
        count(delta.drops.values().sum()),
    )
}

/// What it came to.
pub fn summary(r: &Report, pps: f64) -> String {
    let (up, down) = (&r.directions.uplink, &r.directions.downlink);
    let sent = up.sent_packets + down.sent_packets;
    let forwarded = up.forwarded_packets + down.forwarded_packets;
    let mut out = format!(
        "\n{} subscribers, {} flows, {:.0} seconds over {}\n\n",
        count(r.subscribers),
        count(r.flows),
        r.seconds,
        r.port
    );
    let mut table = Table::new(&["", "packets/s", "Gbit/s", "sent", "forwarded", "lost", "p50", "p99", "p99.9"]);
    for (name, d) in [("uplink", up), ("downlink", down)] {
        let l = &d.latency_us;
        table.row([
            name.to_owned(),
            rate(d.mpps),
            format!("{:.2}", d.gbps_l2),
            count(d.sent_packets),
            count(d.forwarded_packets),
            count(d.lost_packets),
            micros(l.p50),
            micros(l.p99),
            micros(l.p999),
        ]);
    }
    out += &table.text();
    out += &format!(
        "\n  {} of {} packets were delivered correctly, each checked; {} were offered every second\n",
        count(forwarded),
        count(sent),
        count(pps as u64)
    );
    let c = &r.cost;
    out += &format!(
        "  a packet cost {:.0} ns: receiving {:.0}, processing {:.0}, sending {:.0}, everything else {:.0}\n",
        c.tp_ns, c.trx_ns, c.tc_ns, c.ttx_ns, c.other_ns
    );
    let mut stages: Vec<_> = c.stages.iter().collect();
    stages.sort_by(|a, b| b.ns_per_packet.total_cmp(&a.ns_per_packet));
    let busiest: Vec<_> =
        stages.iter().take(3).map(|s| format!("{} {} {:.1} ns", s.direction, s.name, s.ns_per_packet)).collect();
    out += &format!("  busiest stages: {}\n", busiest.join(", "));
    for (name, n) in &r.drops {
        out += &format!("  dropped {name}: {}\n", count(*n));
    }
    out += &format!(
        "  {} a subscriber; {} allocations a packet; {} frames lost; the network built for this is gone again\n",
        bytes(r.bytes_per_subscriber),
        if r.allocations_per_packet == 0.0 { "0".to_owned() } else { format!("{:.6}", r.allocations_per_packet) },
        r.frames_lost
    );
    out
}
