//! What `weir gen` says: a line each second, tables at the end.

use std::io::Write;
use std::time::Instant;

use traffic::{Direction, DirectionResult, TrialResult};

use gateway::tables::{Style, Table, count, per, si};

/// A line each second, of that second.
pub struct Live {
    quiet: bool,
    responder: bool,
    start: Instant,
    before: TrialResult,
}

impl Live {
    /// Nothing said yet; `quiet`: nor ever.
    pub fn new(quiet: bool, responder: bool) -> Self {
        Self { quiet, responder, start: Instant::now(), before: TrialResult::default() }
    }

    /// Says what the second since the last call brought.
    pub fn tell(&mut self, now: &TrialResult) {
        if self.quiet {
            return;
        }
        // One that only mirrors has no schedule to tell the time by.
        let now = &TrialResult { seconds: self.seconds(now), ..*now };
        // Counting begins anew after a ramp.
        if now.seconds < self.before.seconds {
            self.before = TrialResult::default();
        }
        let line = if self.responder { mirrored(now, &self.before) } else { line(now, &self.before) };
        self.before = *now;
        // Nobody reads: nothing is lost.
        let _ = writeln!(std::io::stderr(), "{line}");
    }

    fn seconds(&self, result: &TrialResult) -> f64 {
        if self.responder { self.start.elapsed().as_secs_f64() } else { result.seconds }
    }

    /// What it says at the end.
    pub fn end(&self, result: &TrialResult, style: Style) -> String {
        if !self.responder {
            return text(result, style);
        }
        let turned = &result.directions.downlink;
        format!(
            "turned around {} packets in {:.1} s; {} of them were sent back\n",
            count(turned.offered_packets),
            self.seconds(result),
            count(turned.sent_packets),
        )
    }
}

/// A rate over some seconds, as wide as any.
fn rate(now: u64, before: u64, seconds: f64) -> String {
    let text = si(now.saturating_sub(before) as f64 / seconds.max(1e-9));
    format!("{:>8}", if text.contains(' ') { format!("{text}pps") } else { format!("{text} pps") })
}

fn mirrored(now: &TrialResult, before: &TrialResult) -> String {
    let seconds = now.seconds - before.seconds;
    let (turned, was) = (&now.directions.downlink, &before.directions.downlink);
    format!(
        "{:>6.1} s  turned around {}  sent back {}",
        now.seconds,
        rate(turned.offered_packets, was.offered_packets, seconds),
        rate(turned.sent_packets, was.sent_packets, seconds)
    )
}

fn line(now: &TrialResult, before: &TrialResult) -> String {
    let seconds = now.seconds - before.seconds;
    let mut out = format!("{:>6.1} s", now.seconds);
    for (arrow, direction) in [("↑", Direction::Uplink), ("↓", Direction::Downlink)] {
        let (now, before) = (now.direction(direction), before.direction(direction));
        let rate = |now: u64, before: u64| rate(now, before, seconds);
        out += &format!(
            "  {arrow} sent {} received {} unsent {} p99 {:>7.1} µs",
            rate(now.sent_packets, before.sent_packets),
            rate(now.forwarded_packets, before.forwarded_packets),
            count(now.unsent_packets),
            now.latency_us.p99,
        );
    }
    out
}

/// The end: what was sent, what came, how late.
pub fn text(result: &TrialResult, style: Style) -> String {
    let directions = [("uplink", Direction::Uplink), ("downlink", Direction::Downlink)];
    let mut out = format!(
        "{} · {:.2} s · {}pps, {}bit/s forwarded · loss {}\n\n",
        style.strong("weir gen"),
        result.seconds,
        unit(result.mpps * 1e6),
        unit(result.gbps_l2 * 1e9),
        share(result.loss_ratio),
    );
    let mut table =
        Table::new(&["direction", ">offered", ">sent", ">unsent", ">received", ">lost", ">loss", ">pps", ">bit/s"]);
    for (name, direction) in directions {
        let d = result.direction(direction);
        let numbers = [d.offered_packets, d.sent_packets, d.unsent_packets, d.forwarded_packets, d.lost_packets];
        let rates = [share(ratio(d)), si(d.mpps * 1e6), si(d.gbps_l2 * 1e9)];
        table.row([name.to_owned()].into_iter().chain(numbers.map(count)).chain(rates));
    }
    out += &table.render(style);
    out.push('\n');
    let mut table = Table::new(&[
        "direction",
        ">bytes/frame",
        ">p50 µs",
        ">p99 µs",
        ">p99.9 µs",
        ">max µs",
        ">duplicated",
        ">reordered",
        ">stale",
        ">corrupt",
        ">misdelivered",
        ">foreign",
    ]);
    for (name, direction) in directions {
        let d = result.direction(direction);
        let l = &d.latency_us;
        let times = [d.frame_bytes_mean, l.p50, l.p99, l.p999, l.max].map(|us| format!("{us:.1}"));
        let odd = [
            d.duplicated_packets,
            d.reordered_packets,
            d.stale_packets,
            d.corrupt_packets,
            d.misdelivered_packets,
            d.foreign_packets,
        ];
        table.row([name.to_owned()].into_iter().chain(times).chain(odd.map(count)));
    }
    out += &table.render(style);
    let missed: u64 = directions.iter().map(|(_, direction)| result.direction(*direction).missed_packets).sum();
    if missed > 0 {
        out += &format!(
            "\n{} of the lost came back and found the ring of this port full: a CPU of its own (--cpu), or a lower rate\n",
            count(missed)
        );
    }
    out
}

fn ratio(d: &DirectionResult) -> f64 {
    if d.sent_packets > 0 { d.lost_packets as f64 / d.sent_packets as f64 } else { 0.0 }
}

/// A share in percent, or in parts per million when it is small.
fn share(ratio: f64) -> String {
    match ratio {
        r if r <= 0.0 => "0".to_owned(),
        r if r < 0.001 => format!("{} ppm", per(r * 1e6, 1.0, 1)),
        r => format!("{} %", per(r * 100.0, 1.0, 2)),
    }
}

/// A number ready for its unit.
fn unit(value: f64) -> String {
    let text = si(value);
    if text.contains(' ') { text } else { text + " " }
}
