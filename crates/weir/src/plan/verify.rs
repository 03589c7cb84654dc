//! `weir plan verify`: the planner against a load it has not seen. One load is measured; of another one, with longer
//! frames, more subscribers and two workers, the planner says how many machines it takes and what each carries; then that
//! is measured, too. Both take turns in one minute, beside a bare forwarder where ports are interfaces, so that whatever
//! else the machine does falls on all of them alike. Each round predicts anew.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::bench::bed::Bed;
use ::bench::host::{CpuTime, Host, date};
use ::bench::memory::MemoryRig;
use ::bench::options::{PortKind, ReceiveWork};
use ::bench::profiles::Settings;
use ::bench::socket::Source;
use ::bench::under_test::UnderTest as _;
use ::bench::upf::UpfUnderTest;
use ::bench::window::{How, Rig, Window, in_turns, median};
use anyhow::{Context, bail};
use capacity::catalogue::Catalogue;
use capacity::known::{Known, Provenance};
use capacity::plan::{Planner, World};
use capacity::quantity::PacketRate;
use capacity::question::{PointInput, Question};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::calibrate;
use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::signals;
use gateway::tables::{Style, Table, count};

/// `weir plan verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir plan verify                     half a minute, in memory, on two CPUs
  sudo weir plan verify --port xdp     over sockets, on interfaces and in namespaces of its own
  sudo weir plan verify --port xdp --workers 1
                                       where there are two CPUs: the load has one of them
  weir plan verify --from other.json   calibrated by a result of another machine
  sudo weir plan verify --from certificate.json --port ring --workers 1
                                       or by its certificate, over the same kind of ports
  weir plan verify --rounds 60 --json -

Measured: 128 B and 1,000 subscribers on one worker. Predicted by the planner, with P10 and P90,
and measured: 1024 B, 65,536 subscribers, two workers. Fails when less than 80 % of the rounds are
within P10 to P90, or the median error is above --tolerance.")]
pub struct VerifyArgs {
    /// Kind of ports: memory, plain, mmsg, ring or xdp; all but memory need root.
    #[arg(long, value_name = "KIND", default_value = "memory")]
    pub port: PortKind,
    /// Rounds; in each every load is measured for a seventh of a second.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(3..=2000))]
    pub rounds: u16,
    /// Workers of the load that is predicted: on interfaces one less than there are CPUs, for the load has one.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// Largest accepted median error of a round's prediction, as a share.
    #[arg(long, alias = "within", value_name = "SHARE", default_value_t = 0.1)]
    pub tolerance: f64,
    /// Results of another machine to predict from (weir bench --json, or a certificate of weir probe), instead of
    /// measuring the first load here.
    #[arg(long, value_name = "RESULT.json", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// The instance type or server those were measured on, instead of the processor's name.
    #[arg(long, value_name = "MACHINE", requires = "from")]
    pub measured_on: Option<String>,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// A load: frames, subscribers of all workers, workers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Load {
    /// Ethernet frames on the core side, without FCS.
    frame_bytes: u32,
    /// Of all workers together.
    subscribers: u32,
    /// Workers of the gateway, each on a core of its own.
    workers: u16,
}

/// What is measured to calibrate.
const CALIBRATION: Load = Load { frame_bytes: 128, subscribers: 1000, workers: 1 };
/// What is predicted.
const TARGET: Load = Load { frame_bytes: 1024, subscribers: 65_536, workers: 2 };
/// Machines' worth of traffic that the plan asks for, by what one worker carries: a number of machines is only told
/// from another where there are some.
const WORKERS_WORTH: f64 = 20.0;
/// The share of rounds that P10 to P90 have to hold.
const HELD: f64 = 0.8;

/// P10, P50 and P90.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Range {
    /// One in ten is below.
    p10: f64,
    /// One in two is below.
    p50: f64,
    /// Nine in ten are below.
    p90: f64,
}

impl Range {
    /// The summary of several rounds.
    fn of(all: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = all.filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted.get((share * sorted.len().saturating_sub(1) as f64).round() as usize).copied();
        Self { p10: at(0.1).unwrap_or(0.0), p50: at(0.5).unwrap_or(0.0), p90: at(0.9).unwrap_or(0.0) }
    }
}

/// One round.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Round {
    /// The first load, forwarded, millions of packets a second; none where it was measured elsewhere.
    calibration_mpps: Option<f64>,
    /// The planner's answer for a machine with two workers, millions of packets a second.
    predicted_mpps: Range,
    /// As measured, millions of packets a second.
    measured_mpps: f64,
    /// A bare forwarder on interfaces of the same kind; none in memory.
    bare_mpps: Option<f64>,
    /// What was measured by the bare forwarder's.
    of_bare_ratio: Option<f64>,
    /// Machines for twenty times the first load, by the planner.
    predicted_machines: Range,
    /// And by what was measured.
    measured_machines: u32,
    /// P50 by what was measured, less one.
    error_ratio: f64,
    /// P10 to P90 hold what was measured.
    held: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Verdict {
    /// Version of these keys.
    schema: u32,
    /// Day and time of the measurement, UTC, RFC 3339.
    date: String,
    /// Processor, kernel and what else ran meanwhile.
    host: Host,
    /// Kind of ports.
    port: &'static str,
    /// The load that was measured first; none where results of another machine are predicted from.
    calibration: Option<Load>,
    /// Where those are from.
    calibrated_on: String,
    /// The load that was predicted.
    target: Load,
    /// Every load measured once in each.
    rounds: Vec<Round>,
    /// Medians over rounds of the prediction's P10, P50 and P90, millions of packets a second.
    predicted_mpps: Range,
    /// As measured, over rounds, millions of packets a second.
    measured_mpps: Range,
    /// Medians over rounds of the planner's machines.
    predicted_machines: Range,
    /// Median over rounds of the machines by what was measured.
    measured_machines: f64,
    /// The share of rounds in which P10 to P90 held what was measured; 0.8 is asked for.
    held_ratio: f64,
    /// Median over rounds of the distance of P50, as a share.
    error_ratio_median: f64,
    /// Largest `error_ratio_median` allowed (`--tolerance`).
    tolerance: f64,
    /// Both are as asked for.
    holds: bool,
}

/// Runs `weir plan verify`.
///
/// # Errors
/// What cannot be measured here, or that the prediction does not hold.
pub fn run(args: &VerifyArgs) -> anyhow::Result<()> {
    let (elsewhere, _) = super::from(&args.from, args.measured_on.as_deref())?;
    if elsewhere.iter().any(|one| one.gateway.is_some_and(|gateway| gateway != "upf")) {
        bail!("--from: the load predicted is a mobile user plane's, and the result is of another gateway");
    }
    // Ports in memory cost nothing: a rate over interfaces says nothing of them.
    if args.port == PortKind::Memory && elsewhere.iter().any(|one| one.source.starts_with("weir probe")) {
        let what =
            "--from: a certificate is of ports over interfaces; verify it with --port KIND, the kind it was made with";
        return Err(Usage(what.to_owned()).into());
    }
    let stop = signals::stop_flag().context("no signal handlers")?;
    let trial = Trial {
        port: args.port,
        rounds: args.rounds.into(),
        window: Duration::from_millis(143),
        loads: [CALIBRATION, Load { workers: args.workers, ..TARGET }],
    };
    let verdict = verify(&trial, &elsewhere, args.tolerance, &stop)?;
    args.json.print_pretty(&verdict, || text(&verdict, Style::of_stdout()))?;
    if !verdict.holds {
        bail!(
            "{:.0} % of rounds within P10 to P90, median error {:.1} %: {:.0} % and at most {:.0} % are asked for",
            verdict.held_ratio * 100.0,
            verdict.error_ratio_median * 100.0,
            HELD * 100.0,
            args.tolerance * 100.0
        );
    }
    Ok(())
}

/// How loads are measured.
#[derive(Clone, Copy)]
struct Trial {
    port: PortKind,
    rounds: usize,
    window: Duration,
    /// The one measured first, the one predicted.
    loads: [Load; 2],
}

/// What was measured in turns, a number a round.
struct Series {
    calibration: Option<Vec<f64>>,
    target: Vec<f64>,
    bare: Option<Vec<f64>>,
}

fn verify(
    trial: &Trial,
    elsewhere: &[calibrate::Measured],
    tolerance: f64,
    stop: &AtomicBool,
) -> anyhow::Result<Verdict> {
    let [first, target] = trial.loads;
    let before = CpuTime::now();
    let series = measure(trial, elsewhere.is_empty(), stop)?;
    let mut host = Host::this();
    (host.steal_ratio, host.busy_ratio) = CpuTime::now().since(&before);
    let ghz = table::hint::tsc_hz() as f64 / 1e9;
    let points = |round: usize| -> Vec<PointInput> {
        match &series.calibration {
            Some(rates) => vec![point(first, rates[round], ghz)],
            None => elsewhere.iter().filter(|one| !one.crowded).map(calibrate::Measured::point).collect(),
        }
    };
    let rounds: Vec<Round> = (0..series.target.len())
        .map(|n| {
            let (points, measured) = (points(n), series.target[n]);
            // Elsewhere's rate says how much traffic to ask for as well as one of here would.
            let one = series.calibration.as_ref().map_or(measured / f64::from(target.workers), |rates| rates[n]);
            let (mpps, machines) = predict(points, one, target, ghz)?;
            Ok(Round {
                calibration_mpps: series.calibration.as_ref().map(|rates| rates[n]),
                predicted_mpps: mpps,
                measured_mpps: measured,
                bare_mpps: series.bare.as_ref().map(|rates| rates[n]),
                of_bare_ratio: series.bare.as_ref().map(|rates| measured / rates[n]),
                predicted_machines: machines,
                measured_machines: (one * WORKERS_WORTH / measured - 1e-9).ceil() as u32,
                error_ratio: mpps.p50 / measured - 1.0,
                held: (mpps.p10..=mpps.p90).contains(&measured),
            })
        })
        .collect::<anyhow::Result<_>>()?;
    let calibrated_on = match elsewhere {
        [] => host.cpu.clone(),
        some => some.iter().map(|one| one.source.as_str()).collect::<Vec<_>>().join("; "),
    };
    Ok(conclude(rounds, trial, elsewhere.is_empty().then_some(first), calibrated_on, tolerance, host))
}

/// Measures the loads in turns.
fn measure(trial: &Trial, here: bool, stop: &AtomicBool) -> anyhow::Result<Series> {
    let [first, target] = trial.loads;
    let mut rigs: Vec<Box<dyn Rig>> = vec![rig(target, trial.port)?];
    if here {
        rigs.push(rig(first, trial.port)?);
    }
    if trial.port != PortKind::Memory {
        rigs.push(bare(first, trial.port)?);
    }
    // What packets wait for on interfaces has to fill first.
    let warm = if trial.port == PortKind::Memory { 30 } else { 60 };
    let how = How { clocked: false, warm: Duration::from_millis(warm), ..How::most(trial.window) };
    let turns: Vec<_> = (0..rigs.len()).map(|n| (n, how)).collect();
    let windows = {
        let mut rigs: Vec<&mut dyn Rig> = rigs.iter_mut().map(|rig| &mut **rig as &mut dyn Rig).collect();
        in_turns(&mut rigs, &turns, trial.rounds, stop)?
    };
    for rig in rigs {
        let closing = rig.close()?;
        if closing.packets_missing != 0 || closing.frames_lost != 0 {
            bail!("the gateway lost count: {} packets, {} slots", closing.packets_missing, closing.frames_lost);
        }
    }
    let mpps = |windows: Vec<Window>| windows.iter().map(|window| window.traffic.mpps).collect::<Vec<f64>>();
    let mut all = windows.into_iter().map(mpps);
    let target = all.next().context("nothing was measured")?;
    let calibration = if here { all.next() } else { None };
    Ok(Series { target, calibration, bare: all.next() })
}

/// A gateway under a load that is more than it can forward.
fn rig(load: Load, port: PortKind) -> anyhow::Result<Box<dyn Rig>> {
    let under = under_test(load)?;
    if port == PortKind::Memory {
        let mut cpus = ::bench::thread::cpus();
        // The first CPU has the machine's interrupts.
        cpus.reverse();
        return Ok(Box::new(MemoryRig::new(&under, 1, load.workers, &cpus)?));
    }
    let mut bed = Bed::new(&under.links()?, load.workers, true, ReceiveWork::Senders)?;
    let mut ready = bed.gateways(&under, port, 1, load.workers)?;
    // The generator would be slower than what it is to measure.
    ready.rig.load_from(Source::Kernel)?;
    Ok(Box::new(ready.rig))
}

/// A bare forwarder under a load.
fn bare(load: Load, port: PortKind) -> anyhow::Result<Box<dyn Rig>> {
    let links = under_test(load)?.links()?;
    let mut bed = Bed::new(&links, 1, true, ReceiveWork::Senders)?;
    let mut rig = bed.bare(&links, port)?;
    rig.load_from(Source::Kernel)?;
    Ok(Box::new(rig))
}

fn under_test(load: Load) -> anyhow::Result<UpfUnderTest> {
    let mut settings = Settings::named("upf-128").context("the workload upf-128 is there")?;
    settings.set("ues", &load.subscribers.to_string())?;
    settings.set("sizes", &load.frame_bytes.to_string())?;
    Ok(UpfUnderTest { settings })
}

/// What this machine is called in the plan.
const HERE: &str = "this machine";

/// A load and its rate as a point of a plan.
fn point(load: Load, mpps: f64, ghz: f64) -> PointInput {
    let text = format!(
        "machine = '{HERE}'\nunits = {}\nframe = '{} B'\nsubscribers = {:.1}\nfrom = 'measured'\n\
         clock = '{ghz:.4} GHz'\narch = '{}'\n",
        load.workers,
        load.frame_bytes,
        f64::from(load.subscribers) / f64::from(load.workers),
        std::env::consts::ARCH,
    );
    let each = PacketRate(mpps * 1e6 / f64::from(load.workers));
    let point: Result<PointInput, _> = toml::from_str(&text);
    match point {
        Ok(point) => PointInput { each_packets: Some(Known::exactly(each, Provenance::Measured, "here")), ..point },
        Err(error) => unreachable!("{error} in {text}"),
    }
}

/// What the planner says of this machine under the target, from points: millions of packets a second of a machine, and
/// how many machines it takes for twenty times what one worker carries (`one_mpps`).
fn predict(points: Vec<PointInput>, one_mpps: f64, target: Load, ghz: f64) -> anyhow::Result<(Range, Range)> {
    let of_a_worker = f64::from(target.subscribers) / f64::from(target.workers);
    let plan = format!(
        "gateway = 'upf'\npoints = 'extrapolate'\n[demand]\nsubscribers = {:.0}\npackets = '{} pps'\nframe = '{} B'\n\
         [unit]\nvcpus = 1\ninterfaces = 1\nshare_interfaces = true\nqueues = 1\n\
         [candidates]\nmachines = ['{HERE}']\n\
         [[server]]\nname = '{HERE}'\nsockets = 1\ncores = {}\nthreads_per_core = 1\nclock = '{ghz:.4} GHz'\n\
         arch = '{}'\nqueues = 64\n",
        WORKERS_WORTH * of_a_worker,
        one_mpps * 1e6 / of_a_worker,
        target.frame_bytes,
        target.workers,
        std::env::consts::ARCH,
    );
    let mut question: Question = toml::from_str(&plan).with_context(|| format!("in the plan\n{plan}"))?;
    question.point = points;
    let world = World::new(Catalogue::built_in(), &question.server, Vec::new(), &question);
    let answer = Planner::new(question, world).and_then(|planner| planner.answer());
    let answer = answer.map_err(|wrong| anyhow::anyhow!("the planner refuses: {wrong}"))?;
    let Some(here) = answer.candidates.first() else {
        bail!("the planner cannot say: {}", answer.refused.first().map_or("", |one| one.why.as_str()));
    };
    let each = here.each_range;
    let mpps = |each: capacity::plan::Throughput| each.packets.map_or(0.0, |rate| rate.mpps() * f64::from(here.units));
    let machines = here.machines_range;
    let count = |machines: Option<u32>| machines.map_or(f64::INFINITY, f64::from);
    Ok((
        Range { p10: mpps(each.p10), p50: mpps(each.p50), p90: mpps(each.p90) },
        Range { p10: count(machines.p10), p50: count(machines.p50), p90: count(machines.p90) },
    ))
}

fn conclude(
    rounds: Vec<Round>,
    trial: &Trial,
    calibration: Option<Load>,
    calibrated_on: String,
    tolerance: f64,
    host: Host,
) -> Verdict {
    let medians = |of: fn(&Round) -> Range| Range {
        p10: median(rounds.iter().map(|round| of(round).p10)),
        p50: median(rounds.iter().map(|round| of(round).p50)),
        p90: median(rounds.iter().map(|round| of(round).p90)),
    };
    let held_ratio = rounds.iter().filter(|round| round.held).count() as f64 / rounds.len().max(1) as f64;
    let error_ratio_median = median(rounds.iter().map(|round| round.error_ratio.abs()));
    Verdict {
        schema: 2,
        date: date(),
        host,
        port: trial.port.name(),
        calibration,
        calibrated_on,
        target: trial.loads[1],
        predicted_mpps: medians(|round| round.predicted_mpps),
        measured_mpps: Range::of(rounds.iter().map(|round| round.measured_mpps)),
        predicted_machines: medians(|round| round.predicted_machines),
        measured_machines: median(rounds.iter().map(|round| f64::from(round.measured_machines))),
        held_ratio,
        error_ratio_median,
        tolerance,
        holds: held_ratio >= HELD && error_ratio_median <= tolerance,
        rounds,
    }
}

/// As people read it.
fn text(verdict: &Verdict, style: Style) -> String {
    let mut table = Table::new(&["", ">frame", ">subscribers", ">workers", ">Mpps", ">P10 … P90", ">machines"]);
    let mut row = |what: &str, load: Option<Load>, mpps: Range, machines: String| {
        let of = |value: fn(Load) -> String| load.map_or_else(String::new, value);
        table.row([
            what.to_owned(),
            of(|load| format!("{} B", load.frame_bytes)),
            of(|load| count(load.subscribers.into())),
            of(|load| load.workers.to_string()),
            format!("{:.3}", mpps.p50),
            format!("{:.3} … {:.3}", mpps.p10, mpps.p90),
            machines,
        ]);
    };
    let rounds = &verdict.rounds;
    if let Some(load) = verdict.calibration {
        row(
            "calibrated",
            Some(load),
            Range::of(rounds.iter().filter_map(|round| round.calibration_mpps)),
            String::new(),
        );
    }
    if rounds.iter().any(|round| round.bare_mpps.is_some()) {
        let bare = Range::of(rounds.iter().filter_map(|round| round.bare_mpps));
        row("bare forwarder", verdict.calibration, bare, String::new());
    }
    let machines = verdict.predicted_machines;
    let predicted = format!("{:.0} ({:.0} … {:.0})", machines.p50, machines.p10, machines.p90);
    row("predicted", Some(verdict.target), verdict.predicted_mpps, predicted);
    row("measured", Some(verdict.target), verdict.measured_mpps, format!("{:.0}", verdict.measured_machines));
    let mut out = table.render(style);
    let held = rounds.iter().filter(|round| round.held).count();
    let holds = if verdict.holds { "as asked for".to_owned() } else { style.alarm("NOT as asked for") };
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "\n  {held} of {} rounds within the planner's P10 to P90, median error {:.1} %: {holds} ({:.0} %, at most {:.0} %)",
        rounds.len(),
        verdict.error_ratio_median * 100.0,
        HELD * 100.0,
        verdict.tolerance * 100.0,
    );
    if rounds.iter().any(|round| round.of_bare_ratio.is_some()) {
        let said = median(rounds.iter().filter_map(|round| Some(round.predicted_mpps.p50 / round.bare_mpps?)));
        let seen = median(rounds.iter().filter_map(|round| round.of_bare_ratio));
        let _ =
            writeln!(out, "  of the bare forwarder's rate in the same round: {said:.3} predicted, {seen:.3} measured");
    }
    let _ = writeln!(out, "  predicted from: {}", verdict.calibrated_on);
    let _ = writeln!(
        out,
        "  {}, rounds in turns, ports: {}; {:.0} % of the processors' time went to others",
        verdict.host.cpu,
        verdict.port,
        verdict.host.steal_ratio * 100.0,
    );
    if verdict.port != PortKind::Memory.name() && verdict.host.cores <= usize::from(verdict.target.workers) {
        let _ = writeln!(
            out,
            "  ! the load has a processor to itself: workers had the other between them, and other processes; --workers 1"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const GHZ: f64 = 2.5;

    fn rounds(one: f64, target: f64) -> Vec<Round> {
        let round = || {
            let (mpps, machines) = predict(vec![point(CALIBRATION, one, GHZ)], one, TARGET, GHZ).unwrap();
            Round {
                calibration_mpps: Some(one),
                predicted_mpps: mpps,
                measured_mpps: target,
                bare_mpps: None,
                of_bare_ratio: None,
                predicted_machines: machines,
                measured_machines: (one * WORKERS_WORTH / target).ceil() as u32,
                error_ratio: mpps.p50 / target - 1.0,
                held: (mpps.p10..=mpps.p90).contains(&target),
            }
        };
        (0..5).map(|_| round()).collect()
    }

    fn verdict(one: f64, target: f64) -> Verdict {
        let trial =
            Trial { port: PortKind::Memory, rounds: 5, window: Duration::from_millis(1), loads: [CALIBRATION, TARGET] };
        conclude(rounds(one, target), &trial, Some(CALIBRATION), "here".to_owned(), 0.1, Host::default())
    }

    #[test]
    fn the_planner_predicts_machines_and_throughput() {
        let said = &rounds(6.0, 10.0)[0];
        let mpps = said.predicted_mpps;
        assert!(mpps.p10 < mpps.p50 && mpps.p50 < mpps.p90, "{mpps:?}");
        assert!(mpps.p50 > 6.0 && mpps.p90 <= 13.0, "two workers, and no more than twice: {mpps:?}");
        let machines = said.predicted_machines;
        assert!((20.0 * 6.0 / mpps.p50).ceil() <= machines.p90 && machines.p10 <= machines.p90, "{machines:?}");
        assert!(machines.p10 >= 9.0, "{machines:?}");
    }

    #[test]
    fn what_is_within_the_range_holds() {
        let said = rounds(6.0, 10.0)[0].predicted_mpps.p50;
        let verdict = verdict(6.0, said * 1.02);
        assert!(verdict.holds && verdict.held_ratio == 1.0, "{verdict:?}");
        let page = text(&verdict, Style::default());
        assert!(page.contains("65,536") && page.contains("5 of 5 rounds") && page.contains(": as asked for"), "{page}");
        let host = Host { cores: 2, ..Host::default() };
        let over = Verdict { port: PortKind::Xdp.name(), host, ..verdict };
        assert!(text(&over, Style::default()).contains("! the load has a processor to itself"));
    }

    #[test]
    fn what_is_not_is_said() {
        let verdict = verdict(6.0, 4.0);
        assert!(!verdict.holds && verdict.held_ratio == 0.0 && verdict.error_ratio_median > 0.5, "{verdict:?}");
        assert!(text(&verdict, Style::default()).contains("NOT as asked for"));
    }

    /// A machine at half the clock is said to carry about half.
    #[test]
    fn another_machines_result_is_translated() {
        let of_other = PointInput { machine: "other".to_owned(), ..point(CALIBRATION, 6.0, 2.0 * GHZ) };
        let (mpps, _) = predict(vec![of_other], 3.0, TARGET, GHZ).unwrap();
        let (here, _) = predict(vec![point(CALIBRATION, 6.0, GHZ)], 6.0, TARGET, GHZ).unwrap();
        assert!((mpps.p50 / here.p50 - 0.5).abs() < 0.05, "{mpps:?} {here:?}");
        assert!(mpps.p90 / mpps.p10 > here.p90 / here.p10, "less is known: {mpps:?} {here:?}");
    }

    #[test]
    fn real_gateways_are_measured() {
        let loads = [CALIBRATION, Load { subscribers: 4000, ..TARGET }];
        let stop = AtomicBool::new(false);
        // Whether it holds is not for a test on a busy machine to say; that everything was forwarded and counted is.
        let trial = Trial { port: PortKind::Memory, rounds: 3, window: Duration::from_millis(30), loads };
        let verdict = verify(&trial, &[], 0.1, &stop).unwrap();
        assert_eq!(verdict.rounds.len(), 3);
        assert_eq!(crate::config_tests::faults("plan verify", &verdict), "");
        for round in &verdict.rounds {
            assert!(round.measured_mpps > 0.0 && round.calibration_mpps.is_some_and(|rate| rate > 0.0), "{round:?}");
            assert!(round.predicted_mpps.p50.is_finite() && round.predicted_mpps.p50 > 0.0, "{round:?}");
        }
    }
}
