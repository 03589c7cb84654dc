//! Our MLRsearch beside FD.io's (PyPI `MLRsearch`), on the same simulated devices with the same goals.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use bench::search::simulated::Device;
use bench::search::{Goal, Limits, Runner, mlr};
use serde::Deserialize;
use serde_json::json;

/// A device, the name of its kind, and the largest load.
struct Case {
    kind: &'static str,
    device: Device,
    goals: Vec<Goal>,
    most: f64,
}

const LEAST: f64 = 9001.0;

/// What a search came to.
#[derive(Debug, Deserialize)]
struct Judged {
    lower_pps: Vec<Option<f64>>,
    /// By all trials, where they differ: FD.io's has none.
    #[serde(default)]
    likely_pps: Vec<Option<f64>>,
    trials: usize,
    seconds: f64,
}

impl Judged {
    /// The goal furthest from the truth, by the truth.
    fn error(&self, case: &Case) -> f64 {
        let likely = self.likely_pps.iter().copied().chain(std::iter::repeat(None));
        let errors = case.goals.iter().zip(&self.lower_pps).zip(likely).map(|((goal, lower), likely)| {
            let truth = case.device.truth(goal.loss_ratio).min(case.most);
            (likely.or(*lower).expect("a lower bound") / truth - 1.0).abs()
        });
        errors.fold(0.0, f64::max)
    }
}

fn ours(case: &Case) -> Judged {
    let mut device = case.device.clone();
    let mut runner = Runner::new(&mut device, Limits { seconds: 1e6, ..Limits::default() });
    let searched = mlr::search(&mut runner, &case.goals, (LEAST, case.most)).unwrap();
    assert_eq!(searched.ended, None, "{}: {:?}", case.kind, case.device);
    Judged {
        lower_pps: searched.found.iter().map(|found| found.mpps_lower.map(|mpps| mpps * 1e6)).collect(),
        likely_pps: searched.found.iter().map(|found| found.likely.map(|likely| likely.mpps * 1e6)).collect(),
        trials: runner.records().len(),
        seconds: runner.records().iter().map(|record| record.seconds).sum(),
    }
}

/// What FD.io's finds in the same cases.
fn theirs(cases: &[Case]) -> Vec<Judged> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cases: Vec<_> = cases
        .iter()
        .map(|case| json!({ "device": case.device, "goals": case.goals, "least": LEAST, "most": case.most }))
        .collect();
    let mut judge = Command::new(root.join("target/judge/bin/python3"))
        .arg(root.join("tests/judge/mlrsearch.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("MLRsearch of FD.io: run scripts/setup test");
    judge.stdin.take().unwrap().write_all(json!(cases).to_string().as_bytes()).unwrap();
    let output = judge.wait_with_output().unwrap();
    assert!(output.status.success(), "tests/judge/mlrsearch.py failed: run scripts/setup test");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// No loss; and some of up to two loss ratios.
fn goals() -> [Vec<Goal>; 3] {
    let ndr = || Goal::with_loss(0.0);
    [vec![ndr()], vec![ndr(), Goal::with_loss(0.005)], vec![ndr(), Goal::with_loss(0.001), Goal::with_loss(0.01)]]
}

/// Devices that answer a load alike each time.
fn steady(goals: &[Vec<Goal>]) -> Vec<Case> {
    let mut devices = Vec::new();
    for capacity in [153_846, 3_210_987, 14_880_952] {
        devices.push(("cliff", Device::cliff(capacity)));
        for degrade_ppm in [100_000, 400_000] {
            devices.push(("cliff that falls", Device { degrade_ppm, ..Device::cliff(capacity) }));
        }
        for slope in [50_000, 300_000, 1_000_000] {
            devices.push(("slope", Device::slope(capacity, slope)));
        }
    }
    let mut cases = Vec::new();
    for (kind, device) in devices {
        for goals in goals {
            for most in [1.2, 3.0, 20.0] {
                let most = (device.capacity_pps as f64 * most).round();
                cases.push(Case { kind, device: device.clone(), goals: goals.clone(), most });
            }
        }
    }
    cases
}

/// Devices whose rate differs from trial to trial.
fn noisy(kind: &'static str, device: impl Fn(u64) -> Device) -> Vec<Case> {
    let one = |seed: u64| {
        let device = device(seed);
        let most = (device.capacity_pps * [2, 3, 10][seed as usize % 3]) as f64;
        Case { kind, device, goals: goals()[seed as usize % 3].clone(), most }
    };
    (1..=30).map(one).collect()
}

/// Each case's, and FD.io's.
fn both(cases: &[Case]) -> Vec<(&Case, Judged, Judged)> {
    cases.iter().zip(theirs(cases)).map(|(case, theirs)| (case, ours(case), theirs)).collect()
}

/// Sums of trials, and the errors furthest from the truth.
fn sums(judged: &[(&Case, Judged, Judged)]) -> ([usize; 2], [f64; 2]) {
    judged.iter().fold(([0; 2], [0.0_f64; 2]), |(trials, errors), (case, ours, theirs)| {
        let trials = [trials[0] + ours.trials, trials[1] + theirs.trials];
        (trials, [errors[0].max(ours.error(case)), errors[1].max(theirs.error(case))])
    })
}

#[test]
fn ndr_of_steady_devices_takes_no_more_trials_than_fdio() {
    let cases = steady(&goals()[..1]);
    let judged = both(&cases);
    for (case, ours, theirs) in &judged {
        let what = format!("{:?} to {}: {ours:?}, FD.io's {theirs:?}", case.device, case.most);
        assert!(ours.trials <= theirs.trials, "{what}");
        assert!(ours.error(case) <= 0.005, "{what}");
    }
    println!("{} cases: {:?} trials, errors {:?}", cases.len(), sums(&judged).0, sums(&judged).1);
}

/// With several goals a bound of one may happen to be a bound of another, so single cases say little.
#[test]
fn several_goals_take_no_more_trials_than_fdio() {
    for goals in &goals()[1..] {
        let cases = steady(std::slice::from_ref(goals));
        let (trials, errors) = sums(&both(&cases));
        println!("{} goals, {} cases: {trials:?} trials, errors {errors:?}", goals.len(), cases.len());
        assert!(trials[0] <= trials[1], "{trials:?}");
        assert!(errors[0] <= 0.005, "{errors:?}");
    }
}

/// One long trial decides; short ones come before.
#[test]
fn rfc_2544_takes_no_longer_than_fdio() {
    let cases = steady(&[vec![Goal::rfc2544(60.0)]]);
    for (case, ours, theirs) in both(&cases) {
        let what = format!("{:?} to {}: {ours:?}, FD.io's {theirs:?}", case.device, case.most);
        assert!(ours.seconds <= theirs.seconds + 1e-6, "{what}");
        assert!(ours.error(case) <= 0.005, "{what}");
    }
}

#[test]
fn noisy_devices_take_no_more_trials_than_fdio() {
    let noise = |ppm: u64| move |seed: u64| Device::noise(4_000_000 + seed * 12_345, ppm, seed);
    let stray = |seed: u64| Device { stray_ppm: 100_000, seed, ..Device::cliff(3_000_000 + seed * 12_345) };
    let slope = |seed: u64| Device { noise_ppm: 5_000, seed, ..Device::slope(3_000_000 + seed * 12_345, 400_000) };
    for (cases, most) in [
        (noisy("noise of 0.2 %", noise(2_000)), 0.01),
        (noisy("noise of 1 %", noise(10_000)), 0.01),
        // So few trials do not tell the middle of so much noise better.
        (noisy("noise of 3 %", noise(30_000)), 0.012),
        (noisy("stray losses", stray), 0.01),
        (noisy("slope with noise", slope), 0.01),
    ] {
        let (trials, errors) = sums(&both(&cases));
        println!("{}, {} cases: {trials:?} trials, errors {errors:?}", cases[0].kind, cases.len());
        assert!(trials[0] <= trials[1], "{}: {trials:?}", cases[0].kind);
        assert!(errors[0] <= most, "{}: {errors:?}", cases[0].kind);
    }
}

/// The device's whole numbers are the same in both languages: a generator at its limit answers every load alike.
#[test]
fn a_generator_at_its_limit_is_told() {
    let device = Device { generator_pps: 2_000_000, ..Device::cliff(5_000_000) };
    let case = Case { kind: "generator", device, goals: vec![Goal::with_loss(0.0)], most: 10e6 };
    let judged = theirs(std::slice::from_ref(&case)).remove(0);
    let ours = ours(&case);
    let [ours, theirs] = [ours, judged].map(|judged| judged.lower_pps[0].unwrap());
    assert!((ours / 2e6 - 1.0).abs() < 0.005 && (theirs / 2e6 - 1.0).abs() < 0.005, "{ours}, FD.io's {theirs}");
}

/// Twenty-one trials at a load often miss the middle of a device whose rate differs by 3 % from trial to trial: FD.io's
/// bounds and ours alike. All trials together seldom do.
#[test]
fn all_trials_together_say_more_than_bounds() {
    let far = |noise_ppm: u64| {
        let device = |seed: u64| Device::noise(4_000_000 + seed * 12_345, noise_ppm, seed);
        let cases: Vec<Case> = (0..20).flat_map(|set| noisy("noise", |seed| device(30 * set + seed))).collect();
        let judged: Vec<Judged> = cases.iter().map(ours).collect();
        let lower = |judged: &Judged| Judged { likely_pps: Vec::new(), lower_pps: judged.lower_pps.clone(), ..*judged };
        let far = |errors: &mut dyn Iterator<Item = f64>| errors.filter(|error| *error > 0.01).count();
        let all = cases.iter().zip(&judged);
        let found = (
            far(&mut all.clone().map(|(case, judged)| judged.error(case))),
            far(&mut all.map(|(case, judged)| lower(judged).error(case))),
        );
        println!("noise of {noise_ppm} ppm, of {} devices further than 1 % from the truth: {found:?}", cases.len());
        found
    };
    assert_eq!(far(10_000).0, 0);
    let (likely, bounds) = far(30_000);
    assert!(likely <= 24 && likely * 4 <= bounds, "{likely} of 600, and by bounds {bounds}");
}
