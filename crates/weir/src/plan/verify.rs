//! `weir plan verify`: the model, proved out of sample. A few loads are measured, one that is none of them is predicted
//! from them, and measured, too, in the same minute: all take turns, so that whatever else the machine does falls on
//! all of them alike. Each round predicts anew, which shows how far the prediction itself is to be trusted.

use std::fmt::Write as _;
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
use ::bench::window::{How, Rig, in_turns};
use anyhow::{Context, bail};
use capacity::cost::{CostModel, Observation};
use capacity::quantity::{FrameSize, Time};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use gateway::json::JsonOutput;
use gateway::signals;
use gateway::tables::{Style, Table, count};

/// `weir plan verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir plan verify                     a minute, in memory, on two CPUs
  sudo weir plan verify --port xdp     over sockets, on interfaces and in namespaces of its own
  weir plan verify --rounds 60 --json -

Calibrated at 128 B and 1,000 subscribers on one worker, at other sizes and numbers beside it, and
by one scale-out from one worker to two; predicted and measured at 512 B, 250,000 subscribers, two
workers. Fails when they differ by more than --tolerance.")]
pub struct VerifyArgs {
    /// Kind of ports: memory, plain, mmsg, ring or xdp; all but memory need root.
    #[arg(long, value_name = "KIND", default_value = "memory")]
    pub port: PortKind,
    /// Rounds; in each every load is measured for a seventh of a second.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u16).range(3..=2000))]
    pub rounds: u16,
    /// Largest accepted difference of prediction and measurement, as a share.
    #[arg(long, alias = "within", value_name = "SHARE", default_value_t = 0.1)]
    pub tolerance: f64,
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

impl Load {
    const fn new(frame_bytes: u32, subscribers: u32, workers: u16) -> Self {
        Self { frame_bytes, subscribers, workers }
    }

    fn users_of_each(self) -> f64 {
        f64::from(self.subscribers) / f64::from(self.workers)
    }
}

/// What is measured to calibrate: the first by itself, then size, then subscribers, and last the scale-out, whose other
/// half is the load before it: as many subscribers for each worker.
const CALIBRATION: [Load; 5] = [
    Load::new(128, 1000, 1),
    Load::new(1024, 1000, 1),
    Load::new(128, 65_536, 1),
    Load::new(128, 16_384, 1),
    Load::new(128, 32_768, 2),
];
const SCALE_OUT: (usize, usize) = (3, 4);
/// What is predicted.
const TARGET: Load = Load::new(512, 250_000, 2);

/// A rate as it came out round by round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// A tenth of the rounds were below.
    low: f64,
    /// The rate at the mean cost.
    middle: f64,
    /// A tenth of the rounds were above.
    high: f64,
}

impl Spread {
    fn of(rates: &[f64]) -> Self {
        let mut sorted: Vec<f64> = rates.iter().copied().filter(|rate| rate.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted.get((share * sorted.len().saturating_sub(1) as f64).round() as usize).copied();
        let (low, high) = (at(0.1).unwrap_or(0.0), at(0.9).unwrap_or(0.0));
        Self { low, middle: 1.0 / mean_cost(&sorted), high }
    }
}

/// The mean of `1/rate`, a tenth left out at either end. Costs add, so it is their mean that a law of costs is about;
/// and where a neighbour comes and goes, rates have two humps, between which a median jumps.
fn mean_cost(sorted: &[f64]) -> f64 {
    let out = sorted.len() / 10;
    let kept = &sorted[out..sorted.len() - out];
    kept.iter().map(|rate| 1.0 / rate).sum::<f64>() / kept.len() as f64
}

/// A load and what was forwarded of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Measured {
    /// What was offered.
    load: Load,
    /// Forwarded, millions of packets a second.
    mpps: Spread,
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
    /// Rounds in which every load was measured once.
    rounds: usize,
    /// Loads that the model was fitted to.
    calibration: Vec<Measured>,
    /// Nanoseconds that every packet costs.
    fixed_ns: f64,
    /// Nanoseconds a byte of a packet costs.
    per_byte_ns: f64,
    /// Nanoseconds a packet costs more with each doubling of subscribers.
    per_doubling_ns: f64,
    /// Rate of two workers by that of one, with as many subscribers each.
    two_by_one: Spread,
    /// The load that was predicted.
    target: Load,
    /// By the model, millions of packets a second.
    predicted_mpps: Spread,
    /// As measured, millions of packets a second.
    measured_mpps: Spread,
    /// Prediction by measurement, less one.
    error: f64,
    /// What a tenth of the rounds were below and above by themselves.
    error_of_rounds: [f64; 2],
    /// Largest error allowed (`--tolerance`).
    tolerance: f64,
    /// `error` is not larger.
    holds: bool,
}

/// Runs it.
///
/// # Errors
/// What cannot be measured here, or that the prediction does not hold.
pub fn run(args: &VerifyArgs) -> anyhow::Result<()> {
    let stop = signals::stop_flag().context("no signal handlers")?;
    let trial = Trial { port: args.port, rounds: args.rounds.into(), window: Duration::from_millis(143) };
    let verdict = verify(&CALIBRATION, TARGET, trial, args.tolerance, &stop)?;
    args.json.print_pretty(&verdict, || text(&verdict, Style::of_stdout()))?;
    if !verdict.holds {
        bail!(
            "predicted {:+.1} % of what was measured: more than {:.0} % apart",
            verdict.error * 100.0,
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
}

fn verify(calibration: &[Load], target: Load, trial: Trial, within: f64, stop: &AtomicBool) -> anyhow::Result<Verdict> {
    let loads: Vec<Load> = calibration.iter().copied().chain([target]).collect();
    let mut rigs = loads.iter().map(|load| rig(*load, trial.port)).collect::<anyhow::Result<Vec<_>>>()?;
    let before = CpuTime::now();
    // What packets wait for on interfaces has to fill first.
    let warm = if trial.port == PortKind::Memory { 30 } else { 60 };
    let how = How { clocked: false, warm: Duration::from_millis(warm), ..How::most(trial.window) };
    let turns: Vec<_> = (0..rigs.len()).map(|n| (n, how)).collect();
    let windows = {
        let mut rigs: Vec<&mut dyn Rig> = rigs.iter_mut().map(|rig| &mut **rig as &mut dyn Rig).collect();
        in_turns(&mut rigs, &turns, trial.rounds, stop)?
    };
    let mut host = Host::this();
    (host.steal_ratio, host.busy_ratio) = CpuTime::now().since(&before);
    for rig in rigs {
        let closing = rig.close()?;
        if closing.packets_missing != 0 || closing.frames_lost != 0 {
            bail!("the gateway lost count: {} packets, {} slots", closing.packets_missing, closing.frames_lost);
        }
    }
    let mpps: Vec<Vec<f64>> =
        windows.iter().map(|windows| windows.iter().map(|window| window.traffic.mpps).collect()).collect();
    conclude(&loads, &mpps, within, host, trial.port)
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

fn under_test(load: Load) -> anyhow::Result<UpfUnderTest> {
    let mut settings = Settings::named("upf-128").context("the workload upf-128 is there")?;
    settings.set("ues", &load.subscribers.to_string())?;
    settings.set("sizes", &load.frame_bytes.to_string())?;
    Ok(UpfUnderTest { settings })
}

/// What a round's calibration says of the target: the law of costs through the loads on one worker, times the scale-out.
fn predict(calibration: &[Load], mpps: &[f64], target: Load) -> Option<(CostModel, f64)> {
    let ones = calibration.iter().zip(mpps).filter(|(load, mpps)| load.workers == 1 && **mpps > 0.0);
    let seen: Vec<Observation> = ones
        .map(|(load, mpps)| Observation {
            frame: FrameSize(load.frame_bytes.into()),
            users: load.users_of_each(),
            tp: Time::from_ns(1e3 / mpps),
        })
        .collect();
    let model = CostModel::fit(&seen)?;
    let (one, two) = SCALE_OUT;
    let times = mpps.get(two)? / mpps.get(one)?;
    let each = 1e3 / model.tp(FrameSize(target.frame_bytes.into()), target.users_of_each()).ns();
    Some((model, each * times))
}

fn conclude(loads: &[Load], mpps: &[Vec<f64>], within: f64, host: Host, port: PortKind) -> anyhow::Result<Verdict> {
    let Some((target, calibration)) = loads.split_last() else { bail!("nothing was measured") };
    let Some((measured, calibrated)) = mpps.split_last() else { bail!("nothing was measured") };
    let rounds = measured.len();
    let round = |n: usize| -> Vec<f64> { calibrated.iter().map(|numbers| numbers[n]).collect() };
    let predictions: Vec<f64> =
        (0..rounds).filter_map(|n| predict(calibration, &round(n), *target)).map(|(_, mpps)| mpps).collect();
    let by_measured: Vec<f64> = predictions.iter().zip(measured).map(|(predicted, real)| predicted / real).collect();
    let middles: Vec<f64> = calibrated.iter().map(|rates| Spread::of(rates).middle).collect();
    let (model, predicted) = predict(calibration, &middles, *target)
        .context("measurements too noisy to fit: rerun on an idle machine, or longer")?;
    let (one, two) = SCALE_OUT;
    let times: Vec<f64> = (0..rounds).map(|n| calibrated[two][n] / calibrated[one][n]).collect();
    let by_measured = Spread::of(&by_measured);
    let measured_mpps = Spread::of(measured);
    let error = predicted / measured_mpps.middle - 1.0;
    Ok(Verdict {
        schema: 1,
        date: date(),
        host,
        port: port.name(),
        rounds,
        calibration: calibration
            .iter()
            .zip(calibrated)
            .map(|(load, numbers)| Measured { load: *load, mpps: Spread::of(numbers) })
            .collect(),
        fixed_ns: model.fixed_ns,
        per_byte_ns: model.per_byte_ns.unwrap_or(0.0),
        per_doubling_ns: model.per_doubling_ns.unwrap_or(0.0),
        two_by_one: Spread { middle: middles[two] / middles[one], ..Spread::of(&times) },
        target: *target,
        predicted_mpps: Spread { middle: predicted, ..Spread::of(&predictions) },
        measured_mpps,
        error,
        error_of_rounds: [by_measured.low - 1.0, by_measured.high - 1.0],
        tolerance: within,
        holds: error.abs() <= within,
    })
}

/// As people read it.
fn text(verdict: &Verdict, style: Style) -> String {
    let mut table = Table::new(&["", ">frame", ">subscribers", ">workers", ">Mpps", ">of ten rounds, eight"]);
    let mut row = |what: &str, load: Load, mpps: Spread| {
        table.row([
            what.to_owned(),
            format!("{} B", load.frame_bytes),
            count(load.subscribers.into()),
            load.workers.to_string(),
            format!("{:.3}", mpps.middle),
            format!("{:.3} … {:.3}", mpps.low, mpps.high),
        ]);
    };
    for Measured { load, mpps } in &verdict.calibration {
        row("calibrated", *load, *mpps);
    }
    row("predicted", verdict.target, verdict.predicted_mpps);
    row("measured", verdict.target, verdict.measured_mpps);
    let mut out = table.render(style);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "\n  a packet costs {:.1} ns, {:.4} ns a byte, {:.2} ns a doubling of subscribers; two workers are {:.2} of one",
        verdict.fixed_ns, verdict.per_byte_ns, verdict.per_doubling_ns, verdict.two_by_one.middle,
    );
    let [low, high] = verdict.error_of_rounds;
    let holds = if verdict.holds { "within".to_owned() } else { style.alarm("NOT within") };
    let _ = writeln!(
        out,
        "  predicted {:+.1} % of what was measured ({:+.1} % … {:+.1} % round by round): {holds} {:.0} %",
        verdict.error * 100.0,
        low * 100.0,
        high * 100.0,
        verdict.tolerance * 100.0,
    );
    let _ = writeln!(
        out,
        "  {}, {} rounds in turns, ports: {}; {:.0} % of the processors' time went to others",
        verdict.host.cpu,
        verdict.rounds,
        verdict.port,
        verdict.host.steal_ratio * 100.0,
    );
    if verdict.port != PortKind::Memory.name() && verdict.host.cores <= usize::from(TARGET.workers) {
        let _ = writeln!(
            out,
            "  ! the load has a processor to itself: two workers had the other between them, and other processes"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads that follow a law exactly.
    fn lawful(load: Load, times_two: f64) -> f64 {
        let tp = 100.0 + 0.05 * f64::from(load.frame_bytes) + 6.0 * load.users_of_each().log2();
        let workers = if load.workers == 2 { times_two } else { 1.0 };
        1e3 / tp * workers
    }

    fn loads() -> Vec<Load> {
        CALIBRATION.into_iter().chain([TARGET]).collect()
    }

    #[test]
    fn what_follows_the_law_is_predicted() {
        let mpps: Vec<Vec<f64>> = loads().iter().map(|load| vec![lawful(*load, 1.3); 5]).collect();
        let verdict = conclude(&loads(), &mpps, 0.1, Host::default(), PortKind::Memory).unwrap();
        assert!(verdict.error.abs() < 1e-9 && verdict.holds, "{verdict:?}");
        assert!((verdict.two_by_one.middle - 1.3).abs() < 1e-9);
        let page = text(&verdict, Style::default());
        assert!(page.contains("250,000") && page.contains(": within 10 %"), "{page}");
        let host = Host { cores: 2, ..Host::default() };
        let verdict = conclude(&loads(), &mpps, 0.1, host, PortKind::Xdp).unwrap();
        assert!(text(&verdict, Style::default()).contains("! the load has a processor to itself"));
    }

    /// A neighbour that is there in some rounds, and halves what is left, moves no prediction.
    #[test]
    fn a_neighbour_that_comes_and_goes_does_not_matter() {
        for often in 1..9 {
            let there = |round: usize, n: usize| (7 * round + 3 * n) % 10 < often;
            let left = |round: usize, n: usize| if there(round, n) { 0.5 } else { 1.0 };
            let rates = |(n, load): (usize, &Load)| -> Vec<f64> {
                (0..41).map(|round| lawful(*load, 1.6) * left(round, n)).collect()
            };
            let mpps: Vec<Vec<f64>> = loads().iter().enumerate().map(rates).collect();
            let verdict = conclude(&loads(), &mpps, 0.1, Host::default(), PortKind::Memory).unwrap();
            assert!(verdict.error.abs() < 0.08, "in {often} of ten rounds: {}", verdict.error);
        }
    }

    #[test]
    fn what_does_not_is_said() {
        let mut mpps: Vec<Vec<f64>> = loads().iter().map(|load| vec![lawful(*load, 1.3); 5]).collect();
        for measured in mpps.last_mut().unwrap() {
            *measured *= 0.8;
        }
        let verdict = conclude(&loads(), &mpps, 0.1, Host::default(), PortKind::Memory).unwrap();
        assert!((verdict.error - 0.25).abs() < 1e-9 && !verdict.holds, "{verdict:?}");
        assert!(text(&verdict, Style::default()).contains("NOT within 10 %"));
    }

    #[test]
    fn the_target_is_none_of_what_it_is_predicted_from() {
        for load in CALIBRATION {
            assert!(load.frame_bytes != TARGET.frame_bytes && load.subscribers != TARGET.subscribers);
        }
        let (one, two) = (CALIBRATION[SCALE_OUT.0], CALIBRATION[SCALE_OUT.1]);
        assert_eq!((one.workers, two.workers, one.frame_bytes), (1, 2, two.frame_bytes));
        assert_eq!(one.users_of_each(), two.users_of_each(), "the scale-out changes nothing else");
        assert_eq!(CALIBRATION[0], Load::new(128, 1000, 1));
        assert_eq!(TARGET, Load::new(512, 250_000, 2));
    }

    #[test]
    fn real_gateways_are_measured() {
        let small = CALIBRATION.map(|load| Load { subscribers: load.subscribers.min(2000), ..load });
        let target = Load::new(512, 4000, 2);
        let stop = AtomicBool::new(false);
        // Whether it holds is not for a test on a busy machine to say; that everything was forwarded and counted is.
        let trial = Trial { port: PortKind::Memory, rounds: 3, window: Duration::from_millis(30) };
        let verdict = verify(&small, target, trial, 1e9, &stop).unwrap();
        assert_eq!((verdict.calibration.len(), verdict.rounds), (5, 3));
        assert_eq!(crate::config_tests::faults("plan verify", &verdict), "");
        assert!(verdict.calibration.iter().all(|one| one.mpps.middle > 0.0) && verdict.measured_mpps.middle > 0.0);
        assert!(verdict.predicted_mpps.middle.is_finite() && verdict.predicted_mpps.middle > 0.0, "{verdict:?}");
    }
}
