//! How far the planner is to be trusted: every measurement that can be predicted from others, predicted by the
//! [`Planner`] without what that measurement itself taught, beside what was measured.
//!
//! P10 to P90 are honest when they hold 70 to 90 % of the measurements, and useful when their mean interval score is
//! better than that of ± 41 % around a plain guess: the clock's promise for another machine, no loss for units, subscribers
//! and frames, P50 for packet rates.

use schemars::JsonSchema;
use serde::Serialize;

use crate::known::{Known, Provenance};
use crate::machine::{Machine, Place};
use crate::packets::{forget, known};
use crate::plan::Planner;
use crate::prior::{Changed, FRAMES, SCALED, SUBSCRIBERS, Scaled, Step, TRANSLATED, Translated};
use crate::published;
use crate::quantity::{Clock, PacketRate};
use crate::question::{PointInput, Question};
use crate::scaling::Confidence;
use crate::spread::{Spread, interval_score};

/// What was to be predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Throughput on another machine.
    Machine,
    /// Throughput of each of another number of units.
    Units,
    /// The packet rate of a machine.
    PacketRate,
    /// Packets a second with more subscribers.
    Subscribers,
    /// Packets a second with longer frames.
    Frames,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Machine => "another machine",
            Self::Units => "more units",
            Self::PacketRate => "packet rate",
            Self::Subscribers => "more subscribers",
            Self::Frames => "longer frames",
        })
    }
}

/// A measurement beside what was predicted of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HeldOut {
    /// What was to be predicted.
    pub kind: Kind,
    /// Of what, and who measured it.
    pub what: String,
    /// From what.
    pub from: String,
    /// Of predictions and measurement.
    pub unit: &'static str,
    /// P10, P50 and P90 of the prediction.
    pub predicted: [f64; 3],
    /// As measured.
    pub measured: f64,
    /// P50 by the measurement, less one.
    pub error_ratio: f64,
    /// P10 to P90 hold it.
    pub held: bool,
    /// Interval score of P10 to P90, of logarithms: less is better.
    pub score: f64,
    /// That of ± 41 % around a plain guess.
    pub fixed_score: f64,
}

/// All of them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Calibration {
    /// Every measurement that can be predicted from others.
    pub points: Vec<HeldOut>,
    /// The share that P10 to P90 hold; 0.7 to 0.9 are honest.
    pub held_ratio: f64,
    /// The median distance of P50, as a share.
    pub error_ratio_median: f64,
    /// Mean interval score.
    pub score: f64,
    /// That of ± 41 %.
    pub fixed_score: f64,
}

/// Around a plain guess.
const FIXED: f64 = 0.41;

/// Predicts everything that can be.
pub fn calibration() -> Calibration {
    let mut points: Vec<HeldOut> = TRANSLATED.iter().map(translated).collect();
    points.extend(SCALED.iter().map(scaled));
    points.extend(packet_rates());
    points.extend(SUBSCRIBERS.iter().map(|one| changed(one, Kind::Subscribers)));
    points.extend(FRAMES.iter().map(|one| changed(one, Kind::Frames)));
    let n = points.len() as f64;
    let mean = |of: fn(&HeldOut) -> f64| points.iter().map(of).sum::<f64>() / n;
    let mut errors: Vec<f64> = points.iter().map(|one| one.error_ratio.abs()).collect();
    errors.sort_by(f64::total_cmp);
    Calibration {
        held_ratio: mean(|one| f64::from(u8::from(one.held))),
        error_ratio_median: errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN),
        score: mean(|one| one.score),
        fixed_score: mean(|one| one.fixed_score),
        points,
    }
}

fn held_out(
    kind: Kind,
    (what, from): (String, String),
    unit: &'static str,
    said: &Spread,
    fixed: f64,
    measured: f64,
) -> HeldOut {
    HeldOut {
        kind,
        what,
        from,
        unit,
        predicted: [said.p10(), said.p50, said.p90()],
        measured,
        error_ratio: said.p50 / measured - 1.0,
        held: said.holds(measured),
        score: said.score(measured),
        fixed_score: interval_score((1.0 - FIXED) * fixed, (1.0 + FIXED) * fixed, measured),
    }
}

/// A planner for one unit's throughput, which knows one point and nothing of what is held out.
fn planner(point: PointInput, held_out: &str, servers: &[Machine]) -> Option<Planner> {
    // What is asked for does not matter: throughput is read off before any machine is counted.
    let (mut question, mut world) = published::question(published::text("upf-module")?).ok()?;
    question.points = Confidence::Extrapolate;
    question.point = vec![point];
    world.machines.extend(servers.iter().cloned());
    world.held_out = Some(held_out.to_owned());
    Planner::new(question, world).ok()
}

/// What each of so many units carries, in packets a second, by the planner.
fn each(planner: &Planner, machine: &str, units: u32) -> Spread {
    let said = planner.machine(machine).and_then(|machine| {
        let (share, _) = planner.sources.each(machine, units, Confidence::Extrapolate).ok()?;
        let all = planner.load(1.0).packets?.0;
        Some(Spread::of(&share).times(&Spread::exactly(all)))
    });
    said.unwrap_or(Spread::exactly(f64::NAN))
}

fn point(machine: &str, units: u32, packets: f64) -> PointInput {
    PointInput {
        machine: machine.to_owned(),
        units,
        each: None,
        each_packets: Some(Known::exactly(PacketRate(packets), Provenance::Published, "")),
        directions: crate::question::Directions::Both,
        frame: None,
        subscribers: None,
        from: Provenance::Published,
        source: String::new(),
        clock: None,
        arch: None,
    }
}

/// Throughputs are brought to packets a second of a Gbit/s or of a thousand; only their ratio counts.
const PACKETS: f64 = 1e5;

/// A server of one's own that no list has, by its clock.
fn server(name: &str, clock_ghz: f64, like: &Machine) -> Machine {
    Machine {
        name: name.to_owned(),
        place: Place::OnPremise,
        family: format!("on-premise/{name}"),
        provider: "on-premise".to_owned(),
        clock: Some(Clock(clock_ghz * 1e9)),
        ..like.clone()
    }
}

fn translated(one: &Translated) -> HeldOut {
    let machine = one.target.split(',').next().unwrap_or_default();
    // By the clock alone the prediction is `predicted`; what was measured at the source follows from it.
    let machines = crate::catalogue::catalogue();
    let target = machines.iter().find(|known| known.name == machine);
    let servers: Vec<Machine> = target.map(|like| server("a server at 2.2 GHz", 2.2, like)).into_iter().collect();
    let said = planner(point(one.source, 1, PACKETS), one.target, &servers).map(|planner| {
        let clocks = |name: &str| planner.machine(name).and_then(|machine| machine.clock);
        let by_clock = match (one.step, clocks(one.source).zip(clocks(machine))) {
            (Step::Family, _) | (_, None) => 1.0,
            (_, Some((from, to))) => to / from,
        };
        each(&planner, machine, 1).times(&Spread::exactly(one.predicted / by_clock / PACKETS))
    });
    let said = said.unwrap_or(Spread::exactly(f64::NAN));
    let unit = if one.measured > 100.0 { "kpps" } else { "Gbit/s" };
    let names = (one.target.to_owned(), one.source.to_owned());
    held_out(Kind::Machine, names, unit, &said, one.predicted, one.measured)
}

fn scaled(one: &Scaled) -> HeldOut {
    let machines = crate::catalogue::catalogue();
    let like = machines.iter().find(|known| known.name == "c5n.metal");
    let servers: Vec<Machine> = like.map(|like| server("a server at 2.2 GHz", 2.2, like)).into_iter().collect();
    let said = planner(point(one.machine, 1, PACKETS), one.machine, &servers)
        .map(|planner| each(&planner, one.machine, one.units as u32).times(&Spread::exactly(1.0 / PACKETS)));
    let names = (format!("{} units on {}", one.units, one.machine), "one unit on it".to_owned());
    held_out(Kind::Units, names, "of one", &said.unwrap_or(Spread::exactly(f64::NAN)), 1.0, one.ratio)
}

fn packet_rates() -> Vec<HeldOut> {
    let machines = crate::catalogue::catalogue();
    let of = |(machine, packets): &(&Machine, &Known<PacketRate>)| {
        let (question, mut world) = published::question(published::text("upf-module")?).ok()?;
        forget(&mut world.machines, &machine.name);
        let planner = Planner::new(question, world).ok()?;
        let band = planner.machine(&machine.name)?.packets.as_ref().map(Spread::of)?;
        let said = band.times(&Spread::exactly(1e-6));
        let measured = packets.value.mpps();
        let names = (machine.name.clone(), "other hardware in the catalogue".to_owned());
        Some(held_out(Kind::PacketRate, names, "Mpps", &said, said.p50, measured))
    };
    known(&machines).iter().filter_map(of).collect()
}

fn changed(one: &Changed, kind: Kind) -> HeldOut {
    let said = published::text("upf-module").and_then(|text| {
        let (mut question, mut world) = published::question(text).ok()?;
        question.points = Confidence::Extrapolate;
        let mut point = point("lab", 1, PACKETS);
        let all = question.demand.subscribers.as_ref()?.value.0;
        set(&mut question, &mut point, kind, one.by, all)?;
        question.point = vec![point];
        world.held_out = Some(one.what.to_owned());
        let planner = Planner::new(question, world).ok()?;
        Some(each(&planner, "lab", 1).times(&Spread::exactly(1.0 / PACKETS)))
    });
    let from = match kind {
        Kind::Frames => "frames of an eighth".to_owned(),
        _ => format!("{:.0} times fewer", one.by),
    };
    let names = (one.what.to_owned(), format!("{from}, weir bench"));
    held_out(kind, names, "of the first", &said.unwrap_or(Spread::exactly(f64::NAN)), 1.0, one.ratio)
}

/// A point under the first load, and a question for the second.
fn set(question: &mut Question, point: &mut PointInput, kind: Kind, by: f64, all: f64) -> Option<()> {
    let frame = question.demand.frame.clone()?;
    point.frame = Some(frame.clone());
    match kind {
        Kind::Frames => point.frame = Some(crate::frames::Mix::of(crate::quantity::FrameSize(frame.mean().0 / by))),
        _ => {
            // A unit that carries `share` of the demand has that share of its subscribers.
            let share = PACKETS / (all * question.demand.packets.as_ref()?.value.0);
            point.subscribers = Some(all * share / by);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P10 to P90 hold 70 to 90 % of what was held out, and are sharper for what they hold than ± 41 % are.
    #[test]
    fn ranges_hold_what_was_held_out() {
        let all = calibration();
        for one in &all.points {
            println!("{one:?}");
            assert!(one.predicted.iter().all(|value| value.is_finite()), "{one:?}");
        }
        assert!(all.points.len() >= 27, "{}", all.points.len());
        assert!((0.7..=0.9).contains(&all.held_ratio), "{}", all.held_ratio);
        assert!(all.score < all.fixed_score, "{} against {}", all.score, all.fixed_score);
        // What publications measured, by itself.
        let published: Vec<&HeldOut> =
            all.points.iter().filter(|one| !matches!(one.kind, Kind::Subscribers | Kind::Frames)).collect();
        let held = published.iter().filter(|one| one.held).count() as f64 / published.len() as f64;
        assert!((0.7..=0.9).contains(&held), "{held} of {}", published.len());
        let mean = |of: fn(&HeldOut) -> f64| published.iter().map(|one| of(one)).sum::<f64>() / published.len() as f64;
        assert!(mean(|one| one.score) < mean(|one| one.fixed_score));
    }

    /// The planner predicts from a server's 7.32 Gbit/s what a cloud's instance was measured with.
    #[test]
    fn the_clocks_promise_is_not_what_is_said() {
        let all = calibration();
        let one = all.points.iter().find(|one| one.what == "c5n.2xlarge, vcmts-cloud-2021" && one.from == "dual-6148");
        let one = one.unwrap();
        assert!(one.held && one.measured == 6.48 && one.predicted[2] < 10.37, "{one:?}");
    }
}
