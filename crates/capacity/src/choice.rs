//! The best choices, and what makes them so.

use schemars::JsonSchema;
use serde::Serialize;

use crate::machine::Place;
use crate::plan::Candidate;

/// A machine worth choosing, with the reasons.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Choice {
    pub machine: String,
    /// Why.
    pub reasons: Vec<String>,
}

/// Dearer than the cheapest by this share is still worth a look for another reason.
const WORTH: f64 = 0.5;
/// Less is no difference, dollars an hour.
const CENT: f64 = 0.005;

/// From candidates, the cheapest first.
pub(crate) fn choices(candidates: &[Candidate]) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    let mut add =
        |candidate: &Candidate, reason: String| match choices.iter_mut().find(|c| c.machine == candidate.machine) {
            Some(choice) => choice.reasons.push(reason),
            None => choices.push(Choice { machine: candidate.machine.clone(), reasons: vec![reason] }),
        };
    let usd = |candidate: &Candidate| candidate.usd_per_hour.as_ref().map(|usd| usd.value.0);
    let total = |candidate: &Candidate| candidate.total_usd_per_hour_range.p90;
    let Some(first) = candidates.first().filter(|first| usd(first).is_some()) else { return choices };
    let Some(cheapest) = total(first) else { return choices };
    let second = candidates.get(1).and_then(|second| Some((second, total(second)?)));
    add(
        first,
        match second {
            Some((second, next)) if next > cheapest + CENT => {
                format!(
                    "cheapest{}: {}, {} less than {}",
                    at_p90(first),
                    money(cheapest),
                    money(next - cheapest),
                    second.machine
                )
            }
            Some((second, _)) => format!(
                "cheapest{}: {}, as {} is; {}",
                at_p90(first),
                money(cheapest),
                second.machine,
                before(first, second)
            ),
            None => format!("the only one with a price: {}", money(cheapest)),
        },
    );
    let worth = |candidate: &&Candidate| total(candidate).is_some_and(|usd| usd <= cheapest * (1.0 + WORTH));
    let other = candidates.iter().find(|candidate| candidate.place != first.place);
    if let Some((other, usd)) = other.and_then(|other| Some((other, total(other)?))) {
        let place = if other.place == Place::OnPremise { "on premise" } else { "in a cloud" };
        add(other, format!("cheapest {place}: {}", money(usd)));
    }
    // Firmer ground, if the cheapest is a conclusion.
    let firmer = candidates.iter().filter(worth).find(|candidate| candidate.basis < first.basis);
    if let Some(firmer) = firmer {
        add(firmer, format!("its throughput is {} where that of the cheapest is {}", firmer.basis, first.basis));
    }
    let share = |candidate: &&Candidate| candidate.lost_with_one.share;
    let safest = candidates.iter().filter(worth).min_by(|a, b| share(a).total_cmp(&share(b)));
    if let Some(safest) = safest.filter(|safest| share(safest) < share(&first)) {
        let (one, best) = (100.0 * share(&safest), 100.0 * share(&first));
        add(safest, format!("loses {one:.1} % of subscribers with a machine, not {best:.1} %"));
    }
    let roomy = candidates.iter().filter(worth).max_by(|a, b| a.margin.total_cmp(&b.margin));
    if let Some(roomy) = roomy.filter(|roomy| roomy.margin > first.margin + 0.05) {
        let (one, best) = (100.0 * roomy.margin, 100.0 * first.margin);
        add(roomy, format!("carries {one:.0} % more than it must, not {best:.0} %"));
    }
    choices
}

/// Where the cost has a range, which end is compared.
fn at_p90(one: &Candidate) -> &'static str {
    let range = one.total_usd_per_hour_range;
    if range.p10 == range.p90 { "" } else { " at P90" }
}

/// Why one of two that cost the same comes first.
fn before(first: &Candidate, second: &Candidate) -> String {
    let lost = |one: &Candidate| 100.0 * one.lost_with_one.share;
    if first.basis != second.basis {
        return format!("its throughput is {} where that of the other is {}", first.basis, second.basis);
    }
    if lost(first) < lost(second) {
        return format!("it loses {:.1} % of subscribers with a machine, not {:.1} %", lost(first), lost(second));
    }
    format!("it costs {} most likely", first.total_usd_per_hour.map_or_else(String::new, |usd| money(usd.0)))
}

fn money(usd: f64) -> String {
    format!("{usd:.2} $/h")
}
