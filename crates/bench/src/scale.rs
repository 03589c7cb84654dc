//! Scale-out: the same workload on one, two, … gateways or workers, measured in turns.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use engine::Io;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bed::Bed;
use crate::cost::together;
use crate::error::BenchError;
use crate::machine::Machine;
use crate::memory::MemoryRig;
use crate::options::{Options, PortKind};
use crate::report::{Report, together_traffic};
use crate::run::{blank, overload};
use crate::text::{Table, count, rate};
use crate::thread::cpus;
use crate::under_test::UnderTest;
use crate::window::{How, Rig, Turn, Window, in_turns, median, ratio};

/// What there is more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Gateways, each with all subscribers of its own on interfaces of its own.
    Instances,
    /// Workers of one gateway on one pair of interfaces, each with a part of its subscribers.
    Fanout,
}

/// What a scale-out found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Scale {
    /// Version of these keys.
    pub schema: u32,
    /// What there was more of.
    pub axis: Axis,
    /// CPUs the gateways could run on.
    pub gateway_cpus: usize,
    /// A row for each number.
    pub rows: Vec<Row>,
    /// The whole reports.
    pub results: Vec<Report>,
    /// What the machine gives to any program.
    #[serde(default)]
    pub machine: Machine,
}

/// One number of gateways or workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// How many.
    pub count: u16,
    /// Forwarded by all of them, millions of packets a second.
    pub mpps: f64,
    /// By one alone in the same round, the median.
    pub times_one: f64,
    /// Packets that came to another worker than their subscriber's, by those received.
    #[serde(rename = "handoff_ratio", alias = "handed_over")]
    pub handed_over: f64,
    /// The part of its time the average worker was busy.
    pub utilisation: f64,
}

/// Measures 1 to `most`.
///
/// # Errors
/// What cannot be, what broke, or [`BenchError::Interrupted`].
pub fn scale<U: UnderTest>(
    under: &U,
    options: &Options,
    axis: Axis,
    most: u16,
    stop: &AtomicBool,
) -> Result<Scale, BenchError> {
    let machine = Machine::measure().map_err(|why| BenchError::system("measuring the machine", why))?;
    let memory = options.port == PortKind::Memory;
    let mut all = cpus();
    let mut bed = if memory { None } else { Some(Bed::new(&under.links()?, most, true, options.receive_work)?) };
    all.reverse();
    let gateway_cpus = if memory { all.len() } else { all.len().saturating_sub(1).max(1) };
    let (mut rigs, mut reports): (Vec<Box<dyn Rig>>, Vec<Report>) = (vec![], vec![]);
    for n in 1..=most {
        let (instances, workers) = match axis {
            Axis::Instances => (n, options.workers),
            Axis::Fanout => (1, n),
        };
        let mut report = Report { instances, workers, ..blank(under, options) };
        report.subscribers *= u64::from(instances);
        report.flows *= u64::from(instances);
        match &mut bed {
            None => {
                let rig = MemoryRig::new(under, instances, workers, &all)?;
                report.start_seconds = rig.start.as_secs_f64();
                report.bytes_per_subscriber = rig.session_bytes as f64 / report.subscribers as f64;
                rigs.push(Box::new(rig));
            }
            Some(bed) => {
                let mut ready = bed.gateways(under, options.port, instances, workers)?;
                overload(&mut ready.rig)?.word().clone_into(&mut report.load.source);
                options.receive_work.word().clone_into(&mut report.load.receive_work);
                report.start_seconds = ready.start.as_secs_f64();
                report.bytes_per_subscriber = ready.session_bytes as f64 / report.subscribers as f64;
                rigs.push(Box::new(ready.rig));
            }
        }
        reports.push(report);
    }
    let (measure, rounds) = options.windows();
    let warm = Duration::from_millis(if memory { 30 } else { 100 });
    let how = How { warm, pps: options.pps, ..How::most(measure) };
    let turns: Vec<Turn> = (0..rigs.len()).map(|n| (n, how)).collect();
    let windows = {
        let mut rigs: Vec<&mut dyn Rig> = rigs.iter_mut().map(|rig| &mut **rig as &mut dyn Rig).collect();
        in_turns(&mut rigs, &turns, rounds, stop)?
    };
    for ((rig, report), windows) in rigs.into_iter().zip(&mut reports).zip(&windows) {
        report.take(windows);
        report.close(rig.close()?);
    }
    let rows = windows.iter().enumerate().map(|(n, these)| row(n as u16 + 1, these, &windows[0])).collect();
    Ok(Scale { schema: 1, axis, gateway_cpus, rows, results: reports, machine })
}

fn row(count: u16, these: &[Window], one: &[Window]) -> Row {
    let deltas: Vec<_> = these.iter().map(together).collect();
    let handed = |d: &crate::sample::Delta| d.io(Io::HandedOut) as f64 / d.io(Io::RxPackets).max(1) as f64;
    Row {
        count,
        mpps: together_traffic(these).mpps,
        times_one: ratio(these, one),
        handed_over: median(deltas.iter().map(handed)),
        utilisation: median(deltas.iter().map(crate::sample::Delta::utilisation)),
    }
}

/// As people read it.
pub fn text(scale: &Scale) -> String {
    let Some(first) = scale.results.first() else { return String::new() };
    let (what, each) = match scale.axis {
        Axis::Instances => ("gateways", "each on interfaces and with subscribers of its own"),
        Axis::Fanout => ("workers", "on one pair of interfaces, each with its range of subscribers"),
    };
    let mut out = format!("{} over {}: {what} {each}\n\n", first.profile, first.port);
    let mut table = Table::new(&[what, "together", "each", "× one", "handed over", "busy", "lost frames"]);
    for (row, report) in scale.rows.iter().zip(&scale.results) {
        table.row([
            row.count.to_string(),
            rate(row.mpps),
            rate(row.mpps / f64::from(row.count)),
            format!("{:.2}", row.times_one),
            format!("{:.1} %", row.handed_over * 100.0),
            format!("{:.0} %", row.utilisation * 100.0),
            count(report.frames_lost.unsigned_abs()),
        ]);
    }
    out += &table.text();
    let most = usize::from(scale.rows.last().map_or(0, |row| row.count));
    if most > scale.gateway_cpus {
        out += &format!(
            "\n  The gateways had {} of this machine's CPUs: beyond that, more of them share and nothing is gained.\n",
            scale.gateway_cpus
        );
    }
    out += &format!("\n  {}\n", scale.machine.text());
    out
}
