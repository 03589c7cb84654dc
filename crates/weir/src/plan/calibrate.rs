//! From what `weir bench` measured to points of a plan.
//!
//! A report's units are its workers; each forwarded so much, both directions together, each packet once. Where the
//! gateway was not the bottleneck, what it might have forwarded is an estimate and becomes a range.

use std::fmt::Write as _;
use std::path::PathBuf;

use ::bench::experiment::GatewayKind;
use ::bench::report::Report;
use anyhow::Context;
use capacity::catalogue::{Counting, Date, MeasurementRow, Role, Scope, SourceRow};
use capacity::cost::{CostModel, Observation};
use capacity::frames::Mix;
use capacity::known::{Known, Provenance};
use capacity::quantity::{Clock, FrameSize, PacketRate, Time};
use capacity::question::{Directions, PointInput};
use capacity::scaling::Usl;
use capacity::tables::Cell as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use gateway::fail::Usage;
use gateway::tables::{Style, Table, count};

/// A measurement to plan with.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Measured {
    /// The machine that was measured.
    pub machine: String,
    /// Which gateway ran: `upf`, `bng`; none of a profile that is not known.
    pub gateway: Option<&'static str>,
    /// The day of the measurement, where the result has one.
    pub day: Option<String>,
    /// Workers, of all instances.
    pub units: u32,
    /// What each forwarded, both directions together.
    pub each: Known<PacketRate>,
    /// The mean frame.
    pub frame_bytes: f64,
    /// Subscribers of each worker.
    pub subscribers: f64,
    /// What a packet costs: receiving, processing, sending, the rest, all; nanoseconds.
    pub cost_ns: [f64; 5],
    /// Ticks a second.
    pub clock: Clock,
    /// Of the processor.
    pub arch: &'static str,
    /// What was measured, how, when.
    pub source: String,
    /// More workers than processors for them: this says nothing of machines that have more.
    pub crowded: bool,
    /// What to know of it.
    pub caveats: Vec<String>,
}

/// Reads results: a report, several in a list, a scale-out or a table of modes, as `weir bench --json` writes them.
///
/// # Errors
/// A file that is not there, is no JSON, or has no result in it.
pub fn read(files: &[PathBuf], measured_on: Option<&str>) -> anyhow::Result<Vec<Measured>> {
    let mut all = Vec::new();
    for path in files {
        let name = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {name}"))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| Usage(format!("{name} is no JSON: {error}")))?;
        let mut reports = Vec::new();
        collect(&value, &mut reports);
        let of_file: Vec<Measured> = reports.iter().filter_map(|report| Measured::of(report, measured_on)).collect();
        if of_file.is_empty() {
            let hint = "write one with weir bench upf-128 --json FILE";
            return Err(Usage(format!("{name} holds no result of weir bench; {hint}")).into());
        }
        all.extend(of_file);
    }
    Ok(all)
}

/// Every report inside a value, wherever it is.
fn collect(value: &Value, reports: &mut Vec<Report>) {
    match value {
        Value::Object(object) => {
            let is_report = ["profile", "workers", "cost", "mpps"].iter().all(|key| object.contains_key(*key));
            if is_report && let Ok(report) = serde_json::from_value(value.clone()) {
                reports.push(report);
            } else {
                object.values().for_each(|value| collect(value, reports));
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, reports)),
        _ => {}
    }
}

impl Measured {
    /// Of a report; none of one that forwarded nothing.
    fn of(report: &Report, measured_on: Option<&str>) -> Option<Self> {
        let units = u32::from(report.workers.max(1)) * u32::from(report.instances.max(1));
        if !(report.mpps > 0.0 && report.mpps.is_finite()) {
            return None;
        }
        let each = |mpps: f64| PacketRate(mpps * 1e6 / f64::from(units));
        // Results of other tools have neither windows nor what the load was.
        let spread = |edge: f64| if edge > 0.0 { edge } else { report.mpps };
        let (least, most) = (spread(report.windows.mpps_min), spread(report.windows.mpps_max));
        let value = if report.load.busy_mpps > 0.0 { report.load.busy_mpps } else { report.mpps };
        let source = format!(
            "weir bench {}, {}, {}, {}",
            report.profile,
            report.port,
            report.date,
            if report.version.is_empty() { "unknown version" } else { &report.version },
        );
        let mut caveats = Vec::new();
        if report.port == "memory" {
            caveats.push("ports were memory: an interface's receiving and sending is not in it".to_owned());
        }
        if value > report.mpps * 1.02 {
            caveats.push(format!(
                "the gateway had time to spare: {:.2} Mpps were forwarded, the rest is concluded",
                report.mpps
            ));
        }
        // On interfaces, the load has a processor to itself where there are two.
        let of_gateway = match report.host.cores {
            cores if report.port != "memory" && cores > 1 => cores - 1,
            cores => cores,
        };
        let crowded = of_gateway > 0 && units as usize > of_gateway;
        if crowded {
            let processors = gateway::tables::many(of_gateway, "processor");
            caveats.push(format!("{units} workers had {processors} between them: no point of a plan"));
        }
        if report.host.steal_ratio > 0.02 {
            caveats.push(format!("{:.0} % of the processors' time went to others", 100.0 * report.host.steal_ratio));
        }
        if report.loss_ratio > 0.0 {
            caveats.push(
                "more was sent than could be forwarded: the most it carries, not the most without loss".to_owned(),
            );
        }
        let cost = &report.cost;
        Some(Self {
            machine: measured_on.map_or_else(|| report.host.cpu.clone(), str::to_owned),
            gateway: gateway_of(&report.profile),
            day: report.date.get(..10).filter(|day| Date::read(day).is_ok()).map(str::to_owned),
            units,
            each: Known {
                low: each(least.min(report.mpps)),
                value: each(value),
                high: each(most.max(value)),
                from: Provenance::Measured,
                source: source.clone(),
            },
            frame_bytes: mean_frame(report),
            subscribers: report.subscribers as f64 / f64::from(units),
            cost_ns: [cost.trx_ns, cost.tc_ns, cost.ttx_ns, cost.other_ns, cost.tp_ns],
            clock: Clock(cost.tsc_hz),
            arch: arch(&report.host.cpu),
            source,
            crowded,
            caveats,
        })
    }

    /// As a row of a catalogue's measurements: a point of plans for such gateways, or a note where it says nothing of
    /// machines that have more processors.
    ///
    /// # Errors
    /// A profile whose gateway is not known.
    pub fn row(&self) -> anyhow::Result<MeasurementRow> {
        let Some(gateway) = self.gateway else {
            return Err(Usage(format!("{}: which gateway ran is not known", self.source)).into());
        };
        let all = |rate: PacketRate| rounded(rate.mpps() * f64::from(self.units));
        let above = |value: f64| (value > 0.0).then(|| rounded(value));
        Ok(MeasurementRow {
            machine: self.machine.clone(),
            gateway: Some(gateway.to_owned()),
            counting: Counting::Forwarded,
            scope: Scope::Instance,
            units: Some(self.units),
            frame_bytes: above(self.frame_bytes),
            subscribers: above(self.subscribers),
            low_mpps: Some(all(self.each.low).min(all(self.each.value))),
            mpps: all(self.each.value),
            high_mpps: Some(all(self.each.high).max(all(self.each.value))),
            clock_ghz: above(self.clock.0 / 1e9),
            arch: Some(self.arch.to_owned()),
            role: if self.crowded { Role::Note } else { Role::Point },
            date: self.day.clone().map(Date),
            source: SOURCE.to_owned(),
            note: Some(self.caveats.iter().fold(self.source.clone(), |all, caveat| format!("{all}; {caveat}"))),
        })
    }

    /// As a plan's point.
    pub fn point(&self) -> PointInput {
        PointInput {
            machine: self.machine.clone(),
            units: self.units,
            each: None,
            each_packets: Some(self.each.clone()),
            directions: Directions::Both,
            frame: (self.frame_bytes > 0.0).then(|| Mix::of(FrameSize(self.frame_bytes))),
            subscribers: (self.subscribers > 0.0).then_some(self.subscribers),
            from: Provenance::Measured,
            source: self.source.clone(),
            clock: (self.clock.0 > 0.0).then(|| Known::exactly(self.clock, Provenance::Measured, "time stamp counter")),
            arch: Some(self.arch.to_owned()),
        }
    }
}

/// What rows of results name as their source.
const SOURCE: &str = "weir-bench";

/// That source as a row.
pub fn source() -> SourceRow {
    SourceRow {
        source: SOURCE.to_owned(),
        title: "Measured with weir bench".to_owned(),
        date: None,
        reference: "weir bench PROFILE --json, weir plan --from RESULT.json --append-to DIR".to_owned(),
        about: Some("packets forwarded by a gateway's workers, both directions, each packet once".to_owned()),
    }
}

/// To six digits behind the point: a millionth of a Mpps is a packet a second.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// The gateway of a profile.
fn gateway_of(profile: &str) -> Option<&'static str> {
    match ::bench::experiment::named(profile).and_then(|experiment| experiment.gateway) {
        Some(GatewayKind::Upf) => Some("upf"),
        Some(GatewayKind::Bng) => Some("bng"),
        _ => profile.starts_with("bng").then_some("bng"),
    }
}

/// Of both directions, by packets.
fn mean_frame(report: &Report) -> f64 {
    let both = [&report.directions.uplink, &report.directions.downlink];
    let packets: f64 = both.iter().map(|direction| direction.forwarded_packets as f64).sum();
    let bytes: f64 = both.iter().map(|d| d.frame_bytes_mean * d.forwarded_packets as f64).sum();
    if packets > 0.0 { bytes / packets } else { 0.0 }
}

/// A result does not say; processors of ARM do not name themselves to Linux, or by their cores' names.
fn arch(cpu: &str) -> &'static str {
    let arm = ["Neoverse", "Graviton", "Ampere", "Cortex", "ARM"];
    if cpu == "unknown" || arm.iter().any(|name| cpu.contains(name)) { "arm64" } else { "x86_64" }
}

/// What results say: costs, laws through them, and the points as a plan takes them.
pub fn text(measured: &[Measured], style: Style) -> String {
    let mut table = Table::new(&[
        "machine",
        ">units",
        ">frame",
        ">users of each",
        ">Trx",
        ">Tc",
        ">Ttx",
        ">other",
        ">Tp ns",
        ">each Mpps",
    ]);
    for one in measured {
        let ns = one.cost_ns.map(|ns| format!("{ns:.1}"));
        let [trx, tc, ttx, other, tp] = ns;
        let frame = format!("{:.0} B", one.frame_bytes);
        let each = format!("{:.3}", one.each.value.mpps());
        let users = count(one.subscribers.round() as u64);
        table.row([one.machine.clone(), one.units.to_string(), frame, users, trx, tc, ttx, other, tp, each]);
    }
    let mut out = table.render(style);
    out.push('\n');
    for law in laws(measured) {
        let _ = writeln!(out, "  {law}");
    }
    let mut caveats: Vec<&String> = measured.iter().flat_map(|one| &one.caveats).collect();
    caveats.sort();
    caveats.dedup();
    for caveat in caveats {
        let _ = writeln!(out, "  ! {caveat}");
    }
    let _ = writeln!(out, "\n  As points of a plan; a unit is one worker, so say vcpus = 1 under [unit]:\n");
    for one in measured.iter().filter(|one| !one.crowded) {
        let _ = writeln!(out, "{}", toml(one));
    }
    out
}

/// The laws that results of one machine allow.
fn laws(measured: &[Measured]) -> Vec<String> {
    let mut laws = Vec::new();
    let mut machines: Vec<&str> = measured.iter().map(|one| one.machine.as_str()).collect();
    machines.sort_unstable();
    machines.dedup();
    for machine in machines {
        let of = || measured.iter().filter(|one| one.machine == machine && !one.crowded);
        let ones: Vec<Observation> = of()
            .filter(|one| one.units == 1 && one.frame_bytes > 0.0)
            .map(|one| Observation {
                frame: FrameSize(one.frame_bytes),
                users: one.subscribers.max(1.0),
                tp: Time::from_ns(1e9 / one.each.value.0),
            })
            .collect();
        if let Some(model) = CostModel::fit(&ones).filter(|_| ones.len() > 1) {
            let part = |known: Option<f64>, of: &str| match known {
                Some(ns) => format!("{ns:.3} ns {of}"),
                None => format!("unknown {of}"),
            };
            laws.push(format!(
                "{machine}: a packet costs {:.1} ns, {}, {}; within {:.1} %",
                model.fixed_ns,
                part(model.per_byte_ns, "a byte"),
                part(model.per_doubling_ns, "a doubling of users"),
                100.0 * model.error,
            ));
        }
        let points: Vec<(f64, f64)> = of().map(|one| (f64::from(one.units), one.each.value.mpps())).collect();
        let most = of().map(|one| one.units).max().unwrap_or(1);
        if let Some(usl) = Usl::fit(&points).filter(|_| most > 1) {
            let peak = usl.peak().map_or_else(|| "none".to_owned(), |n| format!("at {n:.1} units"));
            laws.push(format!(
                "{machine}: USL λ {:.3} Mpps, σ {:.4}, κ {:.5}, peak {peak}; within {:.1} %",
                usl.lambda,
                usl.sigma,
                usl.kappa,
                100.0 * usl.error,
            ));
        }
    }
    laws
}

fn toml(one: &Measured) -> String {
    let Measured { machine, units, each, frame_bytes, subscribers, clock, arch, source, .. } = one;
    let mpps = |rate: PacketRate| format!("{:.4}", rate.mpps());
    let range = if each.low < each.high {
        format!("{}..{} Mpps", mpps(each.low), mpps(each.high))
    } else {
        format!("{} Mpps", mpps(each.value))
    };
    format!(
        "[[point]]\nmachine = {machine:?}\nunits = {units}\neach_packets = \"{range}\"\nframe = \"{frame_bytes:.1} B\"\n\
         subscribers = {subscribers:.1}\nfrom = \"measured\"\nsource = {source:?}\nclock = \"{:.3} GHz\"\narch = {arch:?}\n",
        clock.0 / 1e9
    )
}
