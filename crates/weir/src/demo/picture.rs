//! What a demonstration looks like.

use std::io::Write;

use ::bench::kernel_load::Looked;
use engine::Io;
use traffic::{DirectionResult, TrialResult};

use super::losses::Lost;
use gateway::snapshot::{Snapshot, StageCounters};
use gateway::tables::{Style, Table, bytes, count, si};
use upf::product::protocol::PeersView;

/// A moment of it.
pub struct Picture<'a> {
    /// The first line.
    pub head: &'a str,
    /// Seconds so far.
    pub elapsed: f64,
    /// In all.
    pub seconds: f64,
    /// What gNBs and servers found so far.
    pub traffic: &'a TrialResult,
    /// What the user plane did since the last picture.
    pub counters: &'a Snapshot,
    /// What it says of its control plane.
    pub peers: &'a PeersView,
}

/// What the control plane was told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Charged {
    /// Reports of usage.
    pub reports: u64,
    /// Charging records made of them.
    pub records: u64,
    /// Packets reported.
    pub packets: u64,
    /// Bytes reported.
    pub bytes: u64,
    /// Time from request to answer when sessions were brought up.
    pub p99_ms: f64,
    /// Sessions brought up a second.
    pub rate: f64,
}

/// All of it.
pub struct Story<'a> {
    /// Subscribers.
    pub ues: u32,
    /// The kind of port.
    pub port: &'a str,
    /// Packets asked for a second.
    pub pps: f64,
    /// What gNBs and servers found.
    pub traffic: &'a TrialResult,
    /// What was found in packets that were looked into, where not in all.
    pub looked: Option<&'a Looked>,
    /// What the user plane did meanwhile.
    pub carried: &'a Snapshot,
    /// Where the packets went that did not come out.
    pub lost: &'a Lost,
    /// What was charged.
    pub charged: &'a Charged,
    /// Sessions left.
    pub left: u64,
    /// No packet is missing.
    pub in_order: bool,
}

/// Where it is drawn: in place on a terminal, line by line elsewhere.
pub struct Screen {
    terminal: bool,
    /// Lines to be drawn over.
    lines: usize,
    drawn: u32,
}

impl Screen {
    /// Nothing drawn yet.
    pub fn new(terminal: bool) -> Self {
        Self { terminal, lines: 0, drawn: 0 }
    }

    /// A line that stays.
    pub fn say(&mut self, text: &str) {
        self.put(&format!("{text}\n"));
        self.lines = 0;
    }

    /// A line that the next takes the place of.
    pub fn pass(&mut self, text: &str) {
        if self.terminal {
            self.put(&format!("{text}\n"));
            self.lines = 1;
        }
    }

    /// A picture, in place of the last.
    pub fn draw(&mut self, picture: &Picture<'_>) {
        let style = Style::coloured(self.terminal && std::env::var_os("NO_COLOR").is_none());
        self.show(&picture.text(style), &picture.line());
    }

    /// A text in place of the last; elsewhere than on a terminal `line`, every other time.
    pub fn show(&mut self, text: &str, line: &str) {
        self.drawn += 1;
        if self.terminal {
            self.put(text);
            self.lines = text.matches('\n').count();
        } else if self.drawn.is_multiple_of(2) {
            self.say(line);
        }
    }

    /// The end.
    pub fn summary(&mut self, story: &Story<'_>) {
        self.put(&story.text(Style::coloured(self.terminal && std::env::var_os("NO_COLOR").is_none())));
        self.lines = 0;
    }

    fn put(&mut self, text: &str) {
        let up = if self.lines > 0 { format!("\x1b[{}A\x1b[J", self.lines) } else { String::new() };
        let mut out = std::io::stdout().lock();
        // Whoever closed our output has seen enough.
        let _ = write!(out, "{up}{text}").and_then(|()| out.flush());
    }
}

pub(super) fn ns(cycles: u64, packets: u64, of: &Snapshot) -> f64 {
    cycles as f64 / packets.max(1) as f64 * 1e9 / of.tsc_hz.max(1.0)
}

fn stages(of: &Snapshot) -> Vec<StageCounters> {
    let mut sum: Vec<StageCounters> = Vec::new();
    for stage in of.workers.iter().flat_map(|worker| &worker.stages).filter(|stage| stage.packets > 0) {
        match sum.iter_mut().find(|known| known.pipeline == stage.pipeline && known.name == stage.name) {
            Some(known) => {
                known.packets += stage.packets;
                known.cycles += stage.cycles;
            }
            None => sum.push(stage.clone()),
        }
    }
    sum.sort_by_key(|stage| std::cmp::Reverse(stage.cycles));
    sum
}

pub(super) fn busiest(of: &Snapshot, most: usize) -> String {
    let word = |stage: &StageCounters| {
        format!("{} {} {:.0} ns", stage.pipeline, stage.name, ns(stage.cycles, stage.packets, of))
    };
    stages(of).iter().take(most).map(word).collect::<Vec<_>>().join(", ")
}

/// The part of its time, 0 to 1, that the user plane was busy with packets.
pub(super) fn busy(of: &Snapshot) -> f64 {
    let cycles = [Io::RxCycles, Io::PipelineCycles, Io::TxCycles, Io::OtherCycles].iter().map(|what| of.io(*what));
    let (busy, idle) = (cycles.sum::<u64>() as f64, of.io(Io::IdleCycles) as f64);
    if busy + idle > 0.0 { busy / (busy + idle) } else { 0.0 }
}

pub(super) fn drops(of: &Snapshot) -> Vec<String> {
    let drops = of.workers.iter().flat_map(|worker| &worker.drops).filter(|drop| drop.packets > 0);
    drops.map(|drop| format!("{} {}: {}", drop.stage, drop.reason, count(drop.packets))).collect()
}

pub(super) fn micros(us: f64) -> String {
    match us {
        0.0 => "–".to_owned(),
        us if us >= 1000.0 => format!("{:.1} ms", us / 1000.0),
        us => format!("{us:.0} µs"),
    }
}

fn directions(traffic: &TrialResult) -> [(&'static str, &DirectionResult); 2] {
    [("uplink", &traffic.directions.uplink), ("downlink", &traffic.directions.downlink)]
}

impl Picture<'_> {
    fn text(&self, style: Style) -> String {
        let full = ((self.elapsed / self.seconds).clamp(0.0, 1.0) * 40.0).round() as usize;
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(40 - full));
        let mut out = format!("\n{}\n{bar} {:.0} of {:.0} s\n\n", style.strong(self.head), self.elapsed, self.seconds);
        let heads = ["direction", ">packets/s", ">Gbit/s", ">forwarded", ">lost", ">p50", ">p99", ">p99.9"];
        let mut table = Table::new(&heads);
        for (name, d) in directions(self.traffic) {
            // What is on its way is not lost: packets of a few milliseconds.
            let on_its_way = (d.mpps * 1e6 * 0.005) as u64;
            let lost = if d.lost_packets <= on_its_way.max(64) { 0 } else { d.lost_packets };
            let l = &d.latency_us;
            let cells = [micros(l.p50), micros(l.p99), micros(l.p999)];
            let numbers = [si(d.mpps * 1e6), format!("{:.2}", d.gbps_l2), count(d.forwarded_packets), count(lost)];
            table.row([name.to_owned()].into_iter().chain(numbers).chain(cells));
        }
        out += &table.render(style);
        let packets = self.counters.io(Io::RxPackets);
        let transfer = self.counters.io(Io::RxCycles) + self.counters.io(Io::TxCycles);
        let dropped = drops(self.counters);
        out += &format!(
            "\n  a packet costs  {:.0} ns to receive and send, {:.0} ns to process   user plane busy {:.0} %\n",
            ns(transfer, packets, self.counters),
            ns(self.counters.io(Io::PipelineCycles), packets, self.counters),
            busy(self.counters) * 100.0
        );
        out += &format!("  busiest stages  {}\n", busiest(self.counters, 3));
        out +=
            &format!("  dropped         {}\n", if dropped.is_empty() { "nothing".into() } else { dropped.join(", ") });
        out += &format!("  control plane   {}\n", self.control());
        out
    }

    fn control(&self) -> String {
        let said = |name: &str| self.peers.counters.iter().find(|(known, ..)| known == name).map_or(0, |(_, n, _)| *n);
        format!("{} sessions, {} modified or queried", count(self.peers.sessions), count(said("modified")))
    }

    fn line(&self) -> String {
        let (up, down) = (&self.traffic.directions.uplink, &self.traffic.directions.downlink);
        format!(
            "{:>4.0} s  {} up, {} down, {:.2} Gbit/s  p50 {} p99 {}  processing {:.0} ns  busy {:.0} %  dropped {}  {}",
            self.elapsed,
            si(up.mpps * 1e6),
            si(down.mpps * 1e6),
            self.traffic.gbps_l2,
            micros(up.latency_us.p50.max(down.latency_us.p50)),
            micros(up.latency_us.p99.max(down.latency_us.p99)),
            ns(self.counters.io(Io::PipelineCycles), self.counters.io(Io::RxPackets), self.counters),
            busy(self.counters) * 100.0,
            count(self.counters.workers.iter().map(|worker| worker.dropped()).sum()),
            self.control(),
        )
    }
}

impl Story<'_> {
    /// How it is known that packets came out where they belong.
    fn checked(&self, style: Style) -> String {
        match self.looked {
            None => " where they belong, each checked".to_owned(),
            Some(Looked { packets: 0, wrong }) if wrong.is_empty() => style.alarm("; none was looked into"),
            Some(Looked { packets, wrong }) if wrong.is_empty() => {
                let all = "all with the right subscriber's address, and downlink in the right tunnel";
                format!("; {} of 128 bytes and more were looked into, {all}", count(*packets))
            }
            Some(Looked { wrong, .. }) => style.alarm(&format!("; looked into: {}", wrong.join(", "))),
        }
    }

    fn text(&self, style: Style) -> String {
        let traffic = self.traffic;
        let mut out =
            format!("\n{} subscribers, {:.0} seconds over {}\n\n", count(self.ues.into()), traffic.seconds, self.port);
        let heads = ["direction", ">packets/s", ">Gbit/s", ">sent", ">forwarded", ">lost", ">p50", ">p99", ">p99.9"];
        let mut table = Table::new(&heads);
        for (name, d) in directions(traffic) {
            let l = &d.latency_us;
            let counts = [d.sent_packets, d.forwarded_packets, d.lost_packets].map(count);
            table.row(
                [name.to_owned(), si(d.mpps * 1e6), format!("{:.2}", d.gbps_l2)].into_iter().chain(counts).chain([
                    micros(l.p50),
                    micros(l.p99),
                    micros(l.p999),
                ]),
            );
        }
        out += &table.render(style);
        let both = directions(traffic).map(|(_, d)| d);
        let sum = |of: fn(&DirectionResult) -> u64| both.iter().map(|d| of(d)).sum::<u64>();
        let packets = self.carried.io(Io::RxPackets);
        let cost = |what| ns(self.carried.io(what), packets, self.carried);
        let transfer = cost(Io::RxCycles) + cost(Io::TxCycles);
        out += &format!(
            "\n  traffic        {} of {} packets were delivered{}; {} a second were offered\n",
            count(sum(|d| d.forwarded_packets)),
            count(sum(|d| d.sent_packets)),
            self.checked(style),
            count(self.pps as u64)
        );
        out += &self.lost.text(style);
        out += &format!(
            "  user plane     a packet cost {:.0} ns to process, {transfer:.0} ns to receive and send\n                 busiest: {}\n",
            cost(Io::PipelineCycles),
            busiest(self.carried, 3)
        );
        let Charged { reports, records, packets, bytes: used, p99_ms, rate } = *self.charged;
        out += &format!("  control plane  brought up {}/s, 99 of 100 answered within {p99_ms:.1} ms\n", si(rate));
        let safe = match records == reports {
            true => "as many records, each on the disk before it was acknowledged".to_owned(),
            false => style.alarm(&format!("{} records", count(records))),
        };
        out += &format!(
            "  charging       {} packets, {}, those of the first look among them\n                 in {} reports and {safe}\n",
            count(packets),
            bytes(used),
            count(reports),
        );
        let left = match (self.left, self.in_order) {
            (0, true) => {
                "no session, no packet and no slot is missing; the network built for this is gone again".to_owned()
            }
            (left, true) => style.alarm(&format!("{left} sessions are left")),
            (_, false) => style.alarm("packets are missing"),
        };
        out + &format!("  at the end     {left}\n")
    }
}
