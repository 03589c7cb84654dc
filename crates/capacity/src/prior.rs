//! What publications say of concluding from one measurement: to another machine, and to another number of units.
//!
//! **Another machine.** Throughput is taken to go with the clock. What was measured lies on one side of that:
//! 7.32 Gbit/s at 2.4 GHz on premise promise 10.37 Gbit/s at the 3.4 GHz that the interface of c5n states, and 6.48 were
//! measured. So the middle of the range is what was seen, not what the clock promises, and the range is not symmetric.
//! Between two machines of one place nothing was published that could be compared; the range there reaches as far down as
//! the clock alone promised too much (41 %, at the base clock) and as far up as a generation of processors brought (25 %).
//!
//! **Another number of units.** Each of `n` units carries `n^−γ` of what one carries alone; γ is 0 where nothing is shared.
//!
//! **Other subscribers, other frames.** Packets a second go with `(subscribers₂/subscribers₁)^−γ` and
//! `(bytes₂/bytes₁)^−γ`. No publication varies one of them alone: the exponents are those of weir's own gateways,
//! measured on one kind of machine, and widened for others. A gateway that copies every byte has a larger one.

use std::sync::LazyLock;

use crate::machine::Place;
use crate::spread::Spread;

/// From which kind of machine to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// To another size of the same family.
    Family,
    /// To another family, in the same kind of place or from an unknown one.
    OtherFamily,
    /// From a server of one's own to a cloud's instance.
    ToCloud,
    ToServer,
}

const STEPS: [Step; 4] = [Step::Family, Step::OtherFamily, Step::ToCloud, Step::ToServer];

impl Step {
    /// Between two families.
    pub fn between(from: Option<Place>, to: Place) -> Self {
        match (from, to) {
            (Some(Place::OnPremise), Place::Cloud) => Self::ToCloud,
            (Some(Place::Cloud), Place::OnPremise) => Self::ToServer,
            _ => Self::OtherFamily,
        }
    }
}

/// What was measured on a machine, by what the clock promises from another one.
#[derive(Clone, Copy, Debug)]
pub struct Translated {
    pub step: Step,
    /// The machine predicted, and who published it.
    pub target: &'static str,
    /// The one predicted from.
    pub source: &'static str,
    pub predicted: f64,
    pub measured: f64,
}

const fn seen(step: Step, source: &'static str, target: &'static str, predicted: f64, measured: f64) -> Translated {
    Translated { step, target, source, predicted, measured }
}

/// Published pairs. Clocks are those the catalogue and the servers' list have; within a family the clock is one.
pub const TRANSLATED: [Translated; 7] = [
    seen(Step::ToCloud, "dual-6148", "c5n.2xlarge, vcmts-cloud-2021", 7.32 * 3.4 / 2.4, 6.48),
    seen(Step::ToCloud, "dual-6148", "c5n.metal, vcmts-cloud-2021", 7.32 * 3.4 / 2.4, 6.2),
    seen(Step::ToCloud, "dual-6148", "c5n.4xlarge, vcmts-cloud-2021", 7.32 * 3.4 / 2.4, 5.2),
    seen(Step::ToCloud, "a server at 2.2 GHz", "c5n.2xlarge, upf-public-cloud", 250.0 * 3.4 / 2.2, 200.0),
    seen(Step::Family, "c5n.4xlarge", "c5n.2xlarge, vcmts-cloud-2021", 5.2, 6.48),
    seen(Step::Family, "c5n.metal", "c5n.4xlarge, vcmts-cloud-2021", 6.2, 5.2),
    seen(Step::Family, "c5n.2xlarge", "c5n.metal, vcmts-cloud-2021", 6.48, 6.2),
];

/// What each of several units carried, by what one carried alone.
#[derive(Clone, Copy, Debug)]
pub struct Scaled {
    pub machine: &'static str,
    pub units: f64,
    pub ratio: f64,
}

/// Published series: vcmts-cloud-2021 (figure 18), upf-public-cloud (eight user planes behind one interface, 240 to
/// 250 kpps each).
pub const SCALED: [Scaled; 6] = [
    Scaled { machine: "c5n.metal", units: 2.0, ratio: 5.5 / 6.2 },
    Scaled { machine: "c5n.metal", units: 4.0, ratio: 4.7 / 6.2 },
    Scaled { machine: "c5n.metal", units: 6.0, ratio: 4.2 / 6.2 },
    Scaled { machine: "c5n.4xlarge", units: 2.0, ratio: 4.9 / 5.2 },
    Scaled { machine: "c5n.4xlarge", units: 3.0, ratio: 3.67 / 5.2 },
    Scaled { machine: "a server at 2.2 GHz", units: 8.0, ratio: 245.0 / 250.0 },
];

/// Packets a second under another load, by those under a first one, on the same machine.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// Which load, over what.
    pub what: &'static str,
    /// Subscribers or bytes of a frame, by those of the first.
    pub by: f64,
    /// Packets a second, by those of the first.
    pub ratio: f64,
}

const fn changed(what: &'static str, by: f64, ratio: f64) -> Changed {
    Changed { what, by, ratio }
}

/// `weir bench PROFILE --set ues=` 1,000 and 250,000 in memory, medians of three turns, AMD EPYC, 2026-11-26.
pub const SUBSCRIBERS: [Changed; 5] = [
    changed("upf-128, subscribers", 250.0, 5.647 / 6.151),
    changed("upf-embb, subscribers", 250.0, 5.515 / 6.058),
    changed("vepc-embb, subscribers", 250.0, 4.694 / 5.002),
    changed("fwa, subscribers", 250.0, 4.855 / 5.213),
    changed("bng-600g, subscribers", 250.0, 5.830 / 6.110),
];

/// `weir bench upf-128 --port KIND --set sizes=` 128 and 1024, medians of five turns, on the same machine.
pub const FRAMES: [Changed; 4] = [
    changed("upf-128 over memory, frames", 8.0, 5.785 / 6.038),
    changed("upf-128 over plain, frames", 8.0, 0.442 / 0.459),
    changed("upf-128 over ring, frames", 8.0, 0.657 / 0.720),
    changed("upf-128 over xdp, frames", 8.0, 1.012 / 1.032),
];

/// The standard deviation of an exponent from one kind of machine to another: caches and copying differ. Assumed.
const OTHER_MACHINES: f64 = 0.01;

/// The clock alone promised so much more than was measured: 9.15 against 6.48 Gbit/s.
const CLOCK_PROMISED: f64 = 7.32 * (3.0 / 2.4) / 6.48;
/// What a generation of processors brought (packet-core-2019).
const GENERATION: f64 = 1.25;

/// The factor on what the clock promises.
pub fn translation(step: Step) -> Spread {
    static ALL: LazyLock<[Spread; 4]> = LazyLock::new(|| STEPS.map(|step| translation_without(step, None)));
    ALL[step as usize]
}

/// The same without what is known of one target.
pub fn translation_without(step: Step, target: Option<&str>) -> Spread {
    let machine = target.and_then(|target| target.split(',').next());
    let used = move |one: &&Translated| Some(one.target) != target && Some(one.source) != machine;
    let of = |step: Step| TRANSLATED.iter().filter(move |one| one.step == step && used(one));
    let logs = |step: Step| of(step).map(|one| (one.measured / one.predicted).ln());
    let mean = |logs: &[f64]| logs.iter().sum::<f64>() / logs.len().max(1) as f64;
    let unknown = Spread::new(1.0 / CLOCK_PROMISED, 1.0, GENERATION);
    match step {
        Step::OtherFamily => unknown,
        // Either size may be the one that was measured.
        Step::Family => {
            let both: Vec<f64> = logs(Step::Family).flat_map(|log| [log, -log]).collect();
            Spread::predicted(&both, 0.0, 0.0).unwrap_or(unknown)
        }
        Step::ToCloud | Step::ToServer => {
            let logs: Vec<f64> = logs(Step::ToCloud).collect();
            let to_cloud = Spread::predicted(&logs, mean(&logs), 0.0).unwrap_or(unknown);
            if step == Step::ToCloud {
                return to_cloud;
            }
            Spread::new(1.0 / to_cloud.p90(), 1.0 / to_cloud.p50, 1.0 / to_cloud.p10())
        }
    }
}

/// γ at P10, P50 and P90 of throughput: the largest first.
pub fn exponents() -> [f64; 3] {
    static ALL: LazyLock<[f64; 3]> = LazyLock::new(|| exponents_without(None));
    *ALL
}

fn exponents_without(machine: Option<&str>) -> [f64; 3] {
    let seen = SCALED.iter().filter(|one| Some(one.machine) != machine);
    let gammas: Vec<f64> = seen.map(|one| -one.ratio.ln() / one.units.ln()).collect();
    let mean = gammas.iter().sum::<f64>() / gammas.len() as f64;
    let half = Spread::predicted(&gammas, 0.0, 0.0).map_or(mean, |spread| spread.p90().ln());
    // More units never carry more each.
    [mean + half, mean, (mean - half).max(0.0)]
}

/// What each of `n` units carries by what each of `measured` carried, where no other number was measured.
pub fn scaling(n: f64, measured: f64) -> Spread {
    by_exponents(n / measured, exponents())
}

/// The same without what is known of one machine.
pub fn scaling_without(n: f64, measured: f64, machine: &str) -> Spread {
    by_exponents(n / measured, exponents_without(Some(machine)))
}

/// The factor on packets a second with so many times the subscribers.
pub fn subscribers(by: f64) -> Spread {
    changed_by(by, &SUBSCRIBERS, None)
}

/// The factor on packets a second with frames so many times as long.
pub fn frames(by: f64) -> Spread {
    changed_by(by, &FRAMES, None)
}

/// One of either without what it itself taught.
pub fn changed_by(by: f64, seen: &[Changed], without: Option<&str>) -> Spread {
    let used = seen.iter().filter(|one| Some(one.what) != without);
    let gammas: Vec<f64> = used.map(|one| -one.ratio.ln() / one.by.ln()).collect();
    let mean = gammas.iter().sum::<f64>() / gammas.len().max(1) as f64;
    let half = Spread::predicted(&gammas, 0.0, OTHER_MACHINES).map_or(mean.abs(), |spread| spread.p90().ln());
    by_exponents(by, [mean + half, mean, mean - half])
}

fn by_exponents(units: f64, exponents: [f64; 3]) -> Spread {
    let [steep, middle, flat] = exponents.map(|gamma| units.powf(-gamma));
    Spread::new(steep.min(flat), middle, steep.max(flat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_promises_more_than_a_cloud_keeps() {
        for skipped in [None, Some("c5n.2xlarge, vcmts-cloud-2021")] {
            let said = translation_without(Step::ToCloud, skipped).times(&Spread::exactly(7.32 * 3.4 / 2.4));
            assert!(said.holds(6.48), "{said:?}");
            assert!(said.p50 < 7.0 && said.p90() < 10.37, "not symmetric around 10.37: {said:?}");
        }
        let back = translation(Step::ToServer).times(&Spread::exactly(6.48 * 2.4 / 3.4));
        assert!(back.holds(7.32), "{back:?}");
    }

    #[test]
    fn more_subscribers_cost_more_and_nobody_knows_how_much() {
        let (few, many) = (subscribers(2.0), subscribers(250.0));
        assert!(many.p50 < few.p50 && few.p50 < 1.0 && many.sigma() > few.sigma(), "{few:?} {many:?}");
        assert!((subscribers(1.0 / 250.0).p50 * many.p50 - 1.0).abs() < 1e-9, "there and back");
        assert!((frames(1.0).p50 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_point_says_little_of_many_units() {
        let (six, forty) = (scaling(6.0, 1.0), scaling(40.0, 1.0));
        assert!(six.holds(4.2 / 6.2) && (six.p90() - 1.0).abs() < 0.02, "{six:?}");
        assert!(forty.p50 < six.p50 && forty.sigma() > six.sigma());
        let fewer = scaling(1.0, 6.0);
        assert!(fewer.holds(6.2 / 4.2) && fewer.p10() >= 1.0, "{fewer:?}");
        assert_eq!(scaling(4.0, 4.0).p50, 1.0);
    }
}
