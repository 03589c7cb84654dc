//! What weir sets out to reach, measured and judged line by line.

use std::sync::atomic::AtomicBool;

use schemars::JsonSchema;
use serde::Serialize;

use crate::bng::{self, BngUnderTest};
use crate::cmts::{CableOptions, CableReport};
use crate::error::BenchError;
use crate::host::Host;
use crate::machine::Machine;
use crate::modes::Modes;
use crate::options::{Options, PortKind, ReceiveWork};
use crate::pfcp_sessions::{PfcpSessions, pfcp_sessions};
use crate::profiles::Settings;
use crate::report::Report;
use crate::run::{run, run_over};
use crate::scale::{Axis, scale};
use crate::text::{Table, count};
use crate::upf::UpfUnderTest;

/// One target and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verdict {
    /// What is measured.
    pub what: String,
    /// Whether less is better.
    pub at_most: bool,
    /// The target.
    pub target: f64,
    /// What was measured: the median.
    pub measured: f64,
    /// What the quietest tenth of the windows showed, where that is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quietest: Option<f64>,
    /// What `measured` is in cycles of the core's own clock, where that is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<CoreCycles>,
    /// What `measured` and the others are in.
    pub unit: &'static str,
    /// Whether the target is reached.
    pub met: bool,
    /// What it was measured under: ports, workers, subscribers, what is on, packets at a time, for how long.
    pub conditions: String,
}

/// A time in cycles of the core, whose clock is not the same from day to day. For comparing days; it decides nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CoreCycles {
    /// How many; the median.
    pub cycles: f64,
    /// The clock that the core had, in GHz; the median.
    pub ghz: f64,
    /// What so many take at the machine's nominal clock, in nanoseconds.
    pub nominal_ns: f64,
}

impl CoreCycles {
    fn of(r: &Report) -> Option<Self> {
        let cycles = r.cost.tc_core_cycles?;
        Some(Self { cycles, ghz: r.host.core_ghz?, nominal_ns: r.cost.at_nominal_clock(cycles) })
    }
}

impl Verdict {
    /// `measured` must be `target` at most.
    pub fn at_most(what: impl Into<String>, target: f64, measured: f64, unit: &'static str) -> Self {
        Self::new(what.into(), true, target, measured, unit)
    }

    /// `measured` must be `target` at least.
    pub fn at_least(what: impl Into<String>, target: f64, measured: f64, unit: &'static str) -> Self {
        Self::new(what.into(), false, target, measured, unit)
    }

    fn new(what: String, at_most: bool, target: f64, measured: f64, unit: &'static str) -> Self {
        let met = if at_most { measured <= target } else { measured >= target };
        Self { what, at_most, target, measured, quietest: None, core: None, unit, met, conditions: String::new() }
    }

    fn under(mut self, conditions: impl Into<String>) -> Self {
        self.conditions = conditions.into();
        self
    }

    fn number(&self, n: f64) -> String {
        let number = match self.unit {
            "" | "×" if n != 0.0 => format!("{n:.2}"),
            "s" => format!("{n:.2}"),
            "/s" | "B" => count(n as u64),
            "" | "×" => "0".to_owned(),
            _ => format!("{n:.1}"),
        };
        format!("{number} {}", self.unit).trim_end().to_owned()
    }
}

/// All of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Suite {
    /// Version of these keys.
    pub schema: u32,
    /// Line by line.
    pub verdicts: Vec<Verdict>,
    /// The user plane's reports behind them.
    pub results: Vec<Report>,
    /// The user plane's control side.
    pub pfcp_sessions: Option<PfcpSessions>,
    /// The cable gateway's report.
    pub cable: Option<CableReport>,
    /// What could not be measured here, and why.
    pub left_out: Vec<String>,
    /// The machine.
    pub host: Host,
    /// What it gives to any program.
    pub machine: Machine,
}

/// Measures everything; `quick`: in short. `tell` hears what is being measured.
///
/// # Errors
/// What broke, or [`BenchError::Interrupted`].
pub fn suite(quick: bool, stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Result<Suite, BenchError> {
    let seconds = if quick { 1.5 } else { 5.0 };
    tell("the machine itself");
    let machine = Machine::measure().map_err(|why| BenchError::system("measuring the machine", why))?;
    let (verdicts, results, left_out, host) = (vec![], vec![], vec![], Host::this());
    let (pfcp_sessions, cable) = (None, None);
    let mut suite = Suite { schema: 2, verdicts, results, pfcp_sessions, cable, left_out, host, machine };
    for (settings, target, words) in costs() {
        tell(&format!("processing cost: {words}"));
        let report = run(&UpfUnderTest { settings }, &Options { seconds, ..Options::default() }, stop)?;
        suite.cost(&report, target, words);
        suite.results.push(report);
    }
    tell("two workers against one");
    let under = UpfUnderTest { settings: Settings::upf_embb() };
    let two = scale(&under, &Options { seconds, ..Options::default() }, Axis::Fanout, 2, stop)?;
    let times = two.rows.last().map_or(0.0, |row| row.times_one);
    let under = two.results.last().map(conditions).unwrap_or_default();
    suite.verdicts.push(Verdict::at_least("two workers in memory, against one", 1.9, times, "×").under(under));
    suite.results.extend(two.results);
    suite.control(quick, stop, tell)?;
    suite.broadband(seconds, stop, tell)?;
    suite.cable(seconds, stop, tell)?;
    tell("all kinds of sockets, each beside a bare forwarder");
    let under = UpfUnderTest { settings: Settings::upf_128() };
    match run_over(&under, &Options { seconds, ..Options::default() }, &PortKind::SOCKETS, stop) {
        Ok(reports) => {
            let modes = Modes::new(reports);
            suite.sockets(&modes);
            suite.results.extend(modes.results);
            tell("AF_XDP against plain sockets, the gateway's CPU its own");
            let options = Options { seconds, receive_work: ReceiveWork::Load, ..Options::default() };
            match run_over(&under, &options, &[PortKind::Plain, PortKind::Xdp], stop) {
                Ok(reports) => suite.own_cpu(Modes::new(reports)),
                Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
                Err(error) => suite.left_out.push(format!("a CPU of its own: {error}")),
            }
        }
        Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
        Err(error) => suite.left_out.push(format!("sockets: {error}")),
    }
    Ok(suite)
}

/// Reports of the broadband gateway.
struct Broadband {
    /// 1,000 and 256,000 subscribers, policed.
    few: Report,
    many: Report,
    /// 256,000 with queues that are full.
    filled: Report,
}

impl Broadband {
    fn measure(seconds: f64, stop: &AtomicBool) -> Result<Self, BenchError> {
        let measure =
            |settings, seconds| run(&BngUnderTest { settings }, &Options { seconds, ..Options::default() }, stop);
        let few = measure(bng::Settings { subscribers: 1000, ..Default::default() }, seconds)?;
        let many = measure(bng::Settings::default(), seconds)?;
        let settings = bng::Settings { shape: true, fill: 5, ..Default::default() };
        Ok(Self { few, many, filled: measure(settings, seconds)? })
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let Self { few, many, filled } = self;
        // Of the core where every report has its clock, else of the time stamp counter.
        let is_told = [few, many, filled].iter().all(|r| r.cost.tc_core_cycles.is_some());
        let cycles = |r: &Report| match r.cost.tc_core_cycles {
            Some(cycles) if is_told => cycles,
            _ => r.cost.tc_ns * r.cost.tsc_hz / 1e9,
        };
        let under = |r: &Report| format!("{}, {} cycles", conditions(r), if is_told { "core" } else { "TSC" });
        let queues = filled.filled.unwrap_or_default();
        let full = under(filled);
        let uneven = (queues.offered_by_rate_max - 1.3).abs().max((queues.offered_by_rate_min - 1.3).abs());
        let wrong = |r: &&Report| {
            let [up, down] = [&r.directions.uplink, &r.directions.downlink].map(|d| d.misdelivered_packets);
            (up + down) as f64 + (r.packets_missing.abs() + r.frames_lost.abs()) as f64 + r.allocations_per_packet
        };
        let lost = [few, many].iter().map(|r| r.lost_packets()).sum::<u64>() + filled.directions.uplink.lost_packets;
        let times = cycles(many) / cycles(few);
        let wrong = [few, many, filled].iter().map(wrong).sum();
        let bytes = filled.bytes_per_subscriber;
        vec![
            Verdict::at_most("broadband, policing, ACL, accounting", 440.0, cycles(many), "cycles").under(under(many)),
            Verdict::at_most("broadband, 256,000 subscribers against 1,000", 1.5, times, "×").under(under(many)),
            Verdict::at_most("broadband, a subscriber with queues", 1024.0, bytes, "B").under(conditions(filled)),
            Verdict::at_most("broadband, queues full", 700.0, cycles(filled), "cycles").under(&*full),
            Verdict::at_least("broadband, subscribers backlogged", 5.0, queues.backlogged_ratio * 100.0, "%")
                .under(&*full),
            Verdict::at_least("broadband, packets waiting for each", 4.75, queues.packets_each, "").under(&*full),
            Verdict::at_most("broadband, outer VLANs' load off 1.3 times their rate", 0.02, uneven, "×").under(&*full),
            Verdict::at_most("broadband, packets lost", 0.0, lost as f64, "")
                .under("but for those of the longest queues"),
            Verdict::at_most("broadband, packets or buffers unaccounted for", 0.0, wrong, "").under("all three above"),
        ]
    }
}

/// What a report was measured under.
fn conditions(r: &Report) -> String {
    let mut words = vec![format!("{} over {}", r.profile, r.port)];
    words.push(if r.workers == 1 { "1 worker".to_owned() } else { format!("{} workers", r.workers) });
    words.push(format!("{} subscribers", count(r.subscribers)));
    words.push(format!("{} flows", count(r.flows)));
    if r.cost.packets_per_turn > 0.0 {
        words.push(format!("{:.0} packets a burst", r.cost.packets_per_turn));
    }
    if !r.load.receive_work.is_empty() {
        words.push(format!("receive work: {}", r.load.receive_work));
    }
    words.push(format!("{:.1} s", r.seconds));
    words.join(", ")
}

fn costs() -> Vec<(Settings, f64, &'static str)> {
    let embb = |ues| Settings { ues, ..Settings::upf_embb() };
    vec![
        (embb(1000), 45.0, "1,000 subscribers"),
        (embb(100_000), 60.0, "100,000 subscribers"),
        (embb(1_000_000), 90.0, "1,000,000 subscribers"),
        (Settings { new_flows: 1.0, ..embb(100_000) }, 250.0, "100,000 subscribers, every packet a new flow"),
    ]
}

impl Suite {
    fn cost(&mut self, r: &Report, target: f64, words: &str) {
        let mut found = Vec::new();
        let verdict = Verdict::at_most(format!("Tc, {words}"), target, r.cost.tc_ns, "ns");
        found.push(Verdict { quietest: Some(r.cost.tc_quiet_ns), core: CoreCycles::of(r), ..verdict });
        if words.starts_with("100,000") {
            let what = |what: &str| format!("{what}, {words}");
            found.push(Verdict::at_most(what("allocations a packet"), 0.0, r.allocations_per_packet, ""));
            found.push(Verdict::at_most(what("frames lost"), 0.0, r.frames_lost as f64, ""));
            let lost = r.loss_ratio * 100.0;
            found.push(Verdict::at_most(what("packets lost"), 0.0, lost, "%"));
        }
        if words == "100,000 subscribers" {
            let megabytes = r.bytes_per_subscriber * r.subscribers as f64 / 1e6;
            found.push(Verdict::at_most("sessions and indexes of 100,000", 150.0, megabytes, "MB"));
        }
        if r.subscribers == 1_000_000 {
            found.push(Verdict::at_most("start with 1,000,000 subscribers", 10.0, r.start_seconds, "s"));
        }
        let under = conditions(r);
        self.verdicts.extend(found.into_iter().map(|verdict| verdict.under(under.as_str())));
    }

    /// The user plane's control side.
    fn control(&mut self, quick: bool, stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Result<(), BenchError> {
        tell("PFCP sessions");
        let found = match pfcp_sessions(if quick { 20_000 } else { 200_000 }, stop, &mut |_| {}) {
            Ok(found) => found,
            Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
            Err(error) => {
                self.left_out.push(format!("PFCP sessions: {error}"));
                return Ok(());
            }
        };
        let of = |sessions: u32| {
            let (sessions, pdrs) = (count(sessions.into()), found.pdrs);
            format!("1 core, {sessions} sessions, {pdrs} PDRs each, QER and URR, no sockets, traffic beside")
        };
        let (under, stored) = (of(found.sessions), format!("{}, ledger on disk", of(found.stored_sessions)));
        let churn = format!("{under}, 5,000 come and go a second");
        self.verdicts.extend([
            Verdict::at_least("PFCP sessions up a second", 50_000.0, found.sessions_per_second, "/s").under(&*under),
            Verdict::at_least(
                "PFCP sessions up a second, each on disk first",
                20_000.0,
                found.stored_sessions_per_second,
                "/s",
            )
            .under(stored),
            Verdict::at_most("PFCP response p99 at half the rate", 5.0, found.response_ms.p99, "ms").under(&*under),
            Verdict::at_most("a session in all", 2048.0, found.bytes_per_session, "B").under(&*under),
            Verdict::at_most("packets lost beside churn", 0.0, found.churn.lost as f64, "").under(churn),
        ]);
        self.pfcp_sessions = Some(found);
        Ok(())
    }

    /// The broadband gateway: policed at two numbers of subscribers, and with its downstream queues filled.
    fn broadband(&mut self, seconds: f64, stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Result<(), BenchError> {
        tell("the broadband gateway under the published workload");
        match Broadband::measure(seconds, stop) {
            Ok(found) => {
                self.verdicts.extend(found.verdicts());
                self.results.extend([found.few, found.many, found.filled]);
            }
            Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
            Err(error) => self.left_out.push(format!("the broadband gateway: {error}")),
        }
        Ok(())
    }

    /// The cable gateway.
    fn cable(&mut self, seconds: f64, stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Result<(), BenchError> {
        tell("the cable gateway under the published workload");
        let found = match crate::cmts::run(&CableOptions { seconds, ..CableOptions::default() }, stop) {
            Ok(found) => found,
            Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
            Err(error) => {
                self.left_out.push(format!("the cable gateway: {error}"));
                return Ok(());
            }
        };
        let CableReport { common, cable } = &found;
        let under = format!(
            "cmts-imix over {}, 1 worker, {} service groups of {} modems, {}, CRC, BPI+, rates, priorities, AQM and \
             mixed rules on, both directions, {:.1} s",
            common.port, cable.service_groups, cable.modems, cable.channels, common.seconds
        );
        let lost = cable.lost_unexpectedly;
        let wrong = (lost + cable.reordered + cable.wrong_frames) as f64;
        let mut verdicts = vec![
            Verdict::at_least("cable, one core", 20.0, common.gbps_l2, "Gbit/s"),
            Verdict::at_most("cable, downstream beyond CRC and cipher", 350.0, cable.beyond_crypto_cycles, "cycles"),
            Verdict::at_most("cable, CRC and cipher against alone", 1.4, cable.crypto_ratio, "×"),
            Verdict::at_most("cable, channels of a bonding group apart", 2.0, cable.channel_imbalance * 100.0, "%"),
            Verdict::at_most("cable, packets lost, late or wrong", 0.0, wrong, ""),
            Verdict::at_most("cable, frames lost", 0.0, common.frames_lost as f64, ""),
        ];
        verdicts.iter_mut().for_each(|verdict| verdict.conditions.clone_from(&under));
        if let Some(rates) = cable.rates {
            let (off, flows) = (rates.worst.abs() * 100.0, count(rates.flows as u64));
            let mbits = rates.rate as f64 / 1e6;
            let under = format!("{flows} service flows of {mbits:.0} Mbit/s, sent more than that, simulated time");
            let what = "cable, service flow furthest from its rate";
            verdicts.push(Verdict::at_most(what, 1.0, off, "%").under(under));
        }
        self.verdicts.extend(verdicts);
        self.cable = Some(found);
        Ok(())
    }

    fn sockets(&mut self, modes: &Modes) {
        let targets = [(PortKind::Plain, 95.0), (PortKind::Mmsg, 95.0), (PortKind::Ring, 90.0), (PortKind::Xdp, 85.0)];
        for (kind, target) in targets {
            let Some(r) = modes.results.iter().find(|r| r.port == kind.name()) else { continue };
            let what = format!("gateway against bare forwarder, {}", kind.name());
            let busy = if r.load.saturates { "saturated" } else { "not saturated: by busy time" };
            let under = format!("{}, load: {}, {busy}", conditions(r), r.load.source);
            self.verdicts.push(Verdict::at_least(what, target, r.reference.ratio * 100.0, "%").under(under));
        }
        let frames: i64 = modes.results.iter().map(|r| r.frames_lost.abs()).sum();
        self.verdicts.push(
            Verdict::at_most("frames lost, all sockets", 0.0, frames as f64, "").under("all kinds of sockets above"),
        );
    }

    fn own_cpu(&mut self, modes: Modes) {
        if let Some(xdp) = modes.results.iter().find(|r| r.port == PortKind::Xdp.name()) {
            let what = "gateway over xdp, against packet-plain, its CPU its own";
            let under = format!("{}, load: {}", conditions(xdp), xdp.load.source);
            self.verdicts.push(Verdict::at_least(what, 3.5, modes.times_plain(xdp), "×").under(under));
        }
        self.results.extend(modes.results);
    }

    /// Whether every line is reached.
    pub fn met(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.met) && self.left_out.is_empty()
    }

    /// The table.
    pub fn text(&self) -> String {
        let heads = ["", "target", "measured", "quietest", "core cycles", "at nominal", "", "measured under"];
        let mut table = Table::new(&heads).words(7);
        for v in &self.verdicts {
            let target = format!("{} {}", if v.at_most { "≤" } else { "≥" }, v.number(v.target));
            let verdict = if v.met { "reached" } else { "MISSED" };
            table.row([
                v.what.clone(),
                target,
                v.number(v.measured),
                v.quietest.map_or(String::new(), |n| v.number(n)),
                v.core.map_or(String::new(), |core| format!("{:.0} at {:.2} GHz", core.cycles, core.ghz)),
                v.core.map_or(String::new(), |core| v.number(core.nominal_ns)),
                verdict.to_owned(),
                v.conditions.clone(),
            ]);
        }
        let mut out = table.text();
        for what in &self.left_out {
            out += &format!("\n  not measured: {what}\n");
        }
        let reached = self.verdicts.iter().filter(|v| v.met).count();
        out += &format!(
            "\n  {reached} of {} reached; {}, Linux {}\n",
            self.verdicts.len(),
            self.host.cpu,
            self.host.kernel
        );
        out += &format!("  {}\n", self.machine.text());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_knows_its_direction() {
        assert!(Verdict::at_most("cost", 60.0, 59.9, "ns").met && !Verdict::at_most("cost", 60.0, 60.1, "ns").met);
        assert!(Verdict::at_least("ratio", 3.5, 3.6, "×").met && !Verdict::at_least("ratio", 3.5, 3.4, "×").met);
    }

    #[test]
    fn the_table_says_what_was_missed() {
        let verdicts = vec![
            Verdict {
                core: Some(CoreCycles { cycles: 110.5, ghz: 2.0, nominal_ns: 55.25 }),
                ..Verdict::at_most("Tc", 60.0, 55.25, "ns")
            },
            Verdict::at_least("two workers", 1.9, 1.7, "×").under("upf-embb over memory, 2 workers"),
            Verdict::at_most("frames lost", 0.0, 0.0, ""),
        ];
        let (results, left_out, host) = (vec![], vec![], Host::default());
        let machine = Machine { line_ns: 10.25, two_cpus: Some(1.31) };
        let (pfcp_sessions, cable) = (None, None);
        let suite = Suite { schema: 2, verdicts, results, pfcp_sessions, cable, left_out, host, machine };
        let text = suite.text();
        let rows: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for row in [
            "target measured quietest core cycles at nominal measured under",
            "Tc ≤ 60.0 ns 55.2 ns 110 at 2.00 GHz 55.2 ns reached",
            "two workers ≥ 1.90 × 1.70 × MISSED upf-embb over memory, 2 workers",
        ] {
            assert!(rows.iter().any(|have| have == row), "no `{row}` in:\n{text}");
        }
        assert!(text.contains("2 of 3 reached") && !suite.met());
        assert!(text.contains("10.2 ns with 64") && text.contains("1.31 times done what one does alone"), "{text}");
    }
}
