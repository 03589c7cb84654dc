//! The answer in one sentence, and what else could be chosen for another reason than cost.

use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::Place;
use crate::plan::{Candidate, Refused};
use crate::quantity::Power;

/// The recommendation. It names every limit that was assumed or is not known, and every check that is open.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Headline {
    pub text: String,
    /// None: nothing can be recommended.
    pub machine: Option<String>,
    /// With spares.
    pub machines: Option<u32>,
    /// Where, if the plan asks something of sites.
    pub site: Option<String>,
    /// Limits that are guesses, limits nobody knows, checks nobody can say the outcome of.
    pub open: Vec<String>,
}

impl Headline {
    fn none(text: String) -> Self {
        Self { text, machine: None, machines: None, site: None, open: Vec::new() }
    }

    /// Of candidates within all bounds, ranked.
    pub(crate) fn of(candidates: &[Candidate], refused: &[Refused]) -> Self {
        let Some(best) = candidates.first() else {
            let first = refused.first().map_or_else(String::new, |one| format!("; {}: {}", one.machine, one.why));
            return Self::none(format!("no machine can be recommended: all {} are refused{first}", refused.len()));
        };
        let Some(total) = best.total_usd_per_hour else {
            return Self::none(format!(
                "no machine can be recommended by cost: no price is known of those that can do it, such as {}",
                best.machine
            ));
        };
        let range = best.total_usd_per_hour_range;
        let Some((p10, p90)) = range.p10.zip(range.p90) else {
            return Self::none(format!(
                "no machine can be recommended: {} can do it at {:.0} % of points",
                best.machine,
                100.0 * best.feasible_ratio
            ));
        };
        let place = best.site.as_ref().map_or_else(String::new, |to| format!(" in \"{}\"", to.site));
        let mut text = format!("{} × {}{place}: {:.2} $/h with traffic", best.machines, best.machine, total.0);
        if p90 - p10 > 0.005 {
            text += &format!(" (P10 {p10:.2}, P90 {p90:.2})");
        }
        text += &format!("; the cheapest at {:.0} % of points", 100.0 * best.cheapest_ratio);
        let open = open(best);
        if !open.is_empty() {
            text += &format!("; {}", open.join("; "));
        }
        Self {
            text,
            machine: Some(best.machine.clone()),
            machines: Some(best.machines),
            site: best.site.as_ref().map(|to| to.site.clone()),
            open,
        }
    }
}

fn open(best: &Candidate) -> Vec<String> {
    let assumed = best.assumed.iter().map(|bound| format!("assumed: {}", bound.limit));
    let unknown = best.unknown.iter().map(|bound| format!("not known: {}", bound.limit));
    let site = best.site.iter().flat_map(|to| to.open.iter().map(|check| format!("open: {check}")));
    assumed.chain(unknown).chain(site).collect()
}

/// A candidate that no other is as good as or better than in everything.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pareto {
    pub machine: String,
    pub machines: u32,
    /// Machines and traffic at P90.
    pub usd_per_hour: f64,
    /// The share of subscribers lost with a machine.
    pub lost_ratio: f64,
    /// What one's own servers draw; nothing in a cloud. None: not known.
    pub power: Option<Power>,
    /// What is carried by what must be, less one.
    pub margin: f64,
    /// In what it is the best of all: `cost`, `failure domain`, `power`, `margin`.
    pub best_in: Vec<&'static str>,
}

const ASPECTS: [&str; 4] = ["cost", "failure domain", "power", "margin"];

impl Pareto {
    /// Less is better.
    fn aspects(&self) -> [f64; 4] {
        [self.usd_per_hour, self.lost_ratio, self.power.map_or(f64::INFINITY, |power| power.0), -self.margin]
    }

    fn is_beaten_by(&self, other: &Self) -> bool {
        let (one, other) = (self.aspects(), other.aspects());
        let pairs = || one.iter().zip(&other);
        pairs().all(|(one, other)| other <= one) && pairs().any(|(one, other)| other < one)
    }
}

/// Of candidates with a price, in their order.
pub(crate) fn pareto(candidates: &[Candidate]) -> Vec<Pareto> {
    let of = |one: &Candidate| {
        Some(Pareto {
            machine: one.machine.clone(),
            machines: one.machines,
            usd_per_hour: one.total_usd_per_hour_range.p90?,
            lost_ratio: one.lost_with_one.share,
            power: if one.place == Place::Cloud { Some(Power(0.0)) } else { one.power },
            margin: one.margin,
            best_in: Vec::new(),
        })
    };
    let all: Vec<Pareto> = candidates.iter().filter_map(of).collect();
    let mut best: Vec<Pareto> =
        all.iter().filter(|one| !all.iter().any(|other| one.is_beaten_by(other))).cloned().collect();
    for (n, aspect) in ASPECTS.into_iter().enumerate() {
        let least = best.iter().map(|one| one.aspects()[n]).fold(f64::INFINITY, f64::min);
        best.iter_mut().filter(|one| one.aspects()[n] <= least).for_each(|one| one.best_in.push(aspect));
    }
    best
}
