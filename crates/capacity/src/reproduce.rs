//! Every published figure beside the one calculated again: reproduced, rounded, or contradicting the publication's own
//! other figures, and why. Nothing is bent to fit: what a verdict says follows from comparing numbers.
//!
//! What a publication states as measured is an **input**. Whatever can be a plan is one, and the planner answers it
//! ([`crate::published`]); the rest is calculated by the model's own functions. Inputs can be set to something else, and
//! what follows from them changes.

mod aws;
mod bng;
mod core;
mod upf;
mod vcmts;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::catalogue::catalogue;
use crate::limits::{Bound, Limit};
use crate::machine::Machine;
use crate::plan::{Answer, Candidate};
use crate::tables::by_column as rows;

pub const FIGURES: &str = include_str!("../data/published_figures.tsv");

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Verdict {
    /// It was measured; the model takes it.
    #[serde(rename = "input")]
    Input,
    /// It follows, and nothing is printed to compare it with.
    #[serde(rename = "derived")]
    Derived,
    /// It comes out as printed.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// It comes out as printed after rounding, truncating, or adding rounded parts.
    #[serde(rename = "rounded")]
    Rounded,
    /// It does not come out from the publication's own figures.
    #[serde(rename = "contradicts itself")]
    Contradicts,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Input => "input",
            Self::Derived => "derived",
            Self::Reproduced => "reproduced",
            Self::Rounded => "rounded",
            Self::Contradicts => "contradicts itself",
        })
    }
}

/// A figure, published and computed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// `V23`.
    pub id: String,
    pub publication: String,
    pub quantity: String,
    /// As printed.
    pub published: String,
    /// Calculated; none where there is nothing to calculate.
    pub computed: Option<f64>,
    pub unit: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Why, and what to know.
    pub note: String,
    /// More that follows, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub also: BTreeMap<String, f64>,
}

/// The numbers the model starts from, by name: a figure's identifier, or that with a part behind a dot.
#[derive(Clone, Debug)]
pub struct Inputs {
    values: BTreeMap<&'static str, f64>,
    set: BTreeMap<&'static str, f64>,
    machines: Vec<Machine>,
    /// What the planner answered to published plans, with those values.
    answers: RefCell<BTreeMap<&'static str, Rc<Result<Answer, String>>>>,
}

impl Default for Inputs {
    fn default() -> Self {
        let tables = [vcmts::INPUTS, upf::INPUTS, aws::INPUTS, bng::INPUTS, core::INPUTS];
        let values = tables.into_iter().flatten().copied().collect();
        Self { values, set: BTreeMap::new(), machines: catalogue(), answers: RefCell::default() }
    }
}

impl Inputs {
    /// All names with their values.
    pub fn all(&self) -> &BTreeMap<&'static str, f64> {
        &self.values
    }

    /// Takes another value for one of them.
    ///
    /// # Errors
    /// There is none of that name: names that begin alike.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), String> {
        let Some((name, place)) = self.values.iter_mut().find(|(known, _)| **known == name) else {
            let common = |known: &str| known.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
            let most = self.values.keys().map(|known| common(known)).max().unwrap_or(0);
            let near: Vec<&str> = self.values.keys().copied().filter(|known| common(known) == most).take(12).collect();
            return Err(format!("no figure takes `{name}`; there are {}", near.join(", ")));
        };
        *place = value;
        self.set.insert(name, value);
        self.answers.take();
        Ok(())
    }

    /// The value of that name; not a number where there is none, which a test rules out.
    fn get(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(f64::NAN)
    }

    /// The planner's answer to a published plan.
    fn answer(&self, plan: &'static str) -> Rc<Result<Answer, String>> {
        if let Some(answer) = self.answers.borrow().get(plan) {
            return Rc::clone(answer);
        }
        let answer = Rc::new(crate::published::answer(plan, &self.set));
        self.answers.borrow_mut().insert(plan, Rc::clone(&answer));
        answer
    }

    /// What a published plan's answer says; not a number where it says nothing.
    fn answered(&self, plan: &'static str, what: impl Fn(&Answer) -> Option<f64>) -> f64 {
        self.answer(plan).as_ref().as_ref().ok().and_then(what).unwrap_or(f64::NAN)
    }

    /// What it says of a machine that can do it.
    fn planned(&self, plan: &'static str, machine: &str, what: impl Fn(&Candidate) -> Option<f64>) -> f64 {
        self.answered(plan, |answer| what(crate::published::candidate(answer, machine)?))
    }

    /// Interfaces that the machines needed use.
    fn interfaces_used(&self, plan: &'static str, machine: &str) -> f64 {
        let there = self.of(machine, |m| m.interfaces.map(f64::from));
        self.planned(plan, machine, |c| {
            // The share is of one machine.
            Some(((1.0 - c.unused.interfaces?) * there * f64::from(c.needed)).round())
        })
    }

    /// What the catalogue says of a machine.
    fn of(&self, name: &str, what: impl Fn(&Machine) -> Option<f64>) -> f64 {
        self.machines.iter().find(|machine| machine.name == name).and_then(what).unwrap_or(f64::NAN)
    }
}

/// One comparison of a printed number with a calculated one.
struct Claim {
    printed: f64,
    computed: f64,
    how: How,
}

/// How a printed number is to be read.
#[derive(Clone, Copy)]
enum How {
    /// With so many decimals; negative: so many zeroes.
    Places(i32),
    /// "About", to so many decimals.
    About(i32),
    Over,
    /// A sum of rounded parts, off by at most so much.
    Within(f64),
}

impl Claim {
    fn verdict(&self) -> Verdict {
        let at = |places: i32, f: fn(f64) -> f64| f(self.computed * 10f64.powi(places)) / 10f64.powi(places);
        let is = |value: f64| (value - self.printed).abs() <= 1e-9 * self.printed.abs().max(1.0);
        match self.how {
            How::Places(places) if is(at(places, f64::round)) => Verdict::Reproduced,
            // Halves and truncation; a hair of binary fraction is neither.
            How::Places(places) if is(at(places, |v| (v + 1e-9).floor())) => Verdict::Rounded,
            How::About(places) if is(at(places, f64::round)) || is(at(places, |v| (v + 1e-9).floor())) => {
                Verdict::Rounded
            }
            How::Over if self.computed >= self.printed => Verdict::Reproduced,
            How::Within(_) if is(self.computed) => Verdict::Reproduced,
            How::Within(off) if (self.computed - self.printed).abs() <= off + 1e-9 => Verdict::Rounded,
            _ => Verdict::Contradicts,
        }
    }
}

/// A figure being calculated.
struct Row {
    id: &'static str,
    computed: Option<f64>,
    kind: Verdict,
    claims: Vec<Claim>,
    also: Vec<(String, f64)>,
    note: Vec<String>,
}

impl Row {
    fn new(id: &'static str, computed: Option<f64>, kind: Verdict) -> Self {
        Self { id, computed, kind, claims: Vec::new(), also: Vec::new(), note: Vec::new() }
    }

    /// Which plan it comes from.
    fn plan(self, name: &str) -> Self {
        self.note(format!("plan {name}"))
    }

    /// What was measured.
    fn input(i: &Inputs, id: &'static str) -> Self {
        Self::new(id, Some(i.get(id)), Verdict::Input)
    }

    /// What follows, with nothing printed.
    fn derived(id: &'static str, computed: f64) -> Self {
        Self::new(id, Some(computed), Verdict::Derived)
    }

    /// What follows, beside the number printed under the same name.
    fn follows(i: &Inputs, id: &'static str, computed: f64, how: How) -> Self {
        let row = Self::new(id, Some(computed), Verdict::Reproduced);
        row.claim(i.get(id), computed, how)
    }

    /// Another printed number that must come out.
    fn claim(mut self, printed: f64, computed: f64, how: How) -> Self {
        self.claims.push(Claim { printed, computed, how });
        self
    }

    /// Shown beside it.
    fn also(mut self, what: &str, value: f64) -> Self {
        self.also.push((what.to_owned(), value));
        self
    }

    /// To know.
    fn note(mut self, note: impl Into<String>) -> Self {
        self.note.push(note.into());
        self
    }

    /// To know when it does not come out.
    fn why(mut self, reason: impl Into<String>) -> Self {
        if self.verdict() == Verdict::Contradicts {
            self.note.push(reason.into());
        }
        self
    }

    fn verdict(&self) -> Verdict {
        self.claims.iter().map(Claim::verdict).max().unwrap_or(self.kind)
    }
}

/// All figures, in the order of the publications' table.
pub fn reproduce(inputs: &Inputs) -> Vec<Figure> {
    let calculated = [vcmts::rows, upf::rows, aws::rows, bng::rows, core::rows];
    let mut calculated: BTreeMap<&str, Row> =
        calculated.into_iter().flat_map(|of| of(inputs)).map(|row| (row.id, row)).collect();
    let figure = |printed: BTreeMap<&str, &str>| {
        let row = calculated.remove(printed["id"]).unwrap_or_else(|| Row::new("", None, Verdict::Input));
        let verdict = row.verdict();
        let mut note = row.note;
        for (name, value) in &inputs.set {
            if *name == printed["id"] || name.split('.').next() == Some(printed["id"]) {
                note.insert(0, format!("{name} set to {value}"));
            }
        }
        Figure {
            id: printed["id"].to_owned(),
            publication: printed["publication"].to_owned(),
            quantity: unquoted(printed["quantity"]),
            published: unquoted(printed["published"]),
            computed: row.computed.map(tidy),
            unit: printed["unit"].to_owned(),
            verdict,
            note: note.join("; "),
            also: row.also.into_iter().map(|(what, value)| (what, tidy(value))).collect(),
        }
    };
    rows(FIGURES).map(figure).collect()
}

/// A cell that spreadsheets put in quotes.
fn unquoted(cell: &str) -> String {
    let inside = cell.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.map_or_else(|| cell.to_owned(), |inside| inside.replace("\"\"", "\""))
}

/// Without the noise of binary fractions: nine significant digits.
fn tidy(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let places = 8 - value.abs().log10().floor() as i32;
    let by = 10f64.powi(places.clamp(-300, 300));
    (value * by).round() / by
}

/// Whole units that a limit leaves room for.
fn units(candidate: &Candidate, limit: Limit) -> Option<f64> {
    candidate.bounds.iter().find(|bound| bound.limit == limit).and_then(Bound::units).map(f64::floor)
}

/// Gbit/s and Mpps of all machines needed, both directions.
fn gbps(candidate: &Candidate) -> Option<f64> {
    Some(candidate.carries.bits?.gbps())
}

fn mpps(candidate: &Candidate) -> Option<f64> {
    Some(candidate.carries.packets?.mpps())
}

/// As a percentage.
fn percent(share: f64) -> f64 {
    100.0 * share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Vec<Figure> {
        reproduce(&Inputs::default())
    }

    fn with(set: &[(&str, f64)]) -> BTreeMap<String, Figure> {
        let mut inputs = Inputs::default();
        set.iter().for_each(|(name, value)| inputs.set(name, *value).unwrap());
        reproduce(&inputs).into_iter().map(|figure| (figure.id.clone(), figure)).collect()
    }

    #[test]
    fn every_published_figure_has_its_row_and_no_other_has() {
        let inputs = Inputs::default();
        let calculated = [vcmts::rows, upf::rows, aws::rows, bng::rows, core::rows];
        let ids: Vec<&str> = calculated.into_iter().flat_map(|of| of(&inputs)).map(|row| row.id).collect();
        let published: Vec<&str> = rows(FIGURES).map(|row| row["id"]).collect();
        assert_eq!(published.len(), 100);
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>(), published.iter().collect());
        assert_eq!(ids.len(), 100, "none twice");
    }

    #[test]
    fn every_number_is_a_number() {
        for figure in figures() {
            assert!(figure.computed.is_none_or(f64::is_finite), "{figure:?}");
            assert!(figure.also.values().all(|value| value.is_finite()), "{figure:?}");
        }
    }

    /// The readers' own verdicts stand in the table: where they found a contradiction, so does the model, and nowhere
    /// else.
    #[test]
    fn contradictions_are_those_the_readers_found() {
        let readers: BTreeMap<&str, bool> =
            rows(FIGURES).map(|row| (row["id"], row["verdict"].contains("INCONSISTENT"))).collect();
        for figure in figures() {
            let found = figure.verdict == Verdict::Contradicts;
            assert_eq!(found, readers[figure.id.as_str()], "{figure:?}");
            assert!(!found || !figure.note.is_empty(), "a contradiction has its reason: {figure:?}");
        }
    }

    /// Where the readers' computed value is a plain number, the model's is that, at the readers' precision.
    #[test]
    fn numbers_are_those_the_readers_computed() {
        let figures: BTreeMap<String, Figure> = figures().into_iter().map(|f| (f.id.clone(), f)).collect();
        let mut compared = 0;
        for row in rows(FIGURES) {
            let text = row["computed"].trim_end_matches(" total").trim_end_matches(" %");
            let Ok(expected) = text.parse::<f64>() else { continue };
            let places = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            let figure = &figures[row["id"]];
            let numbers = figure.computed.iter().chain(figure.also.values());
            // Rounded or truncated by the reader.
            let near = |value: f64| (value - expected).abs() <= 1.01 * 10f64.powi(-(places as i32));
            assert!(numbers.clone().any(|value| near(*value)), "{}: {expected} is not in {figure:?}", row["id"]);
            compared += 1;
        }
        assert!(compared >= 55, "{compared}");
    }

    #[test]
    fn what_follows_from_an_input_changes_with_it() {
        let (as_printed, changed) = (with(&[]), with(&[("V23", 25.2)]));
        let verdict = |figures: &BTreeMap<String, Figure>, id: &str| figures[id].verdict;
        assert_eq!(
            (verdict(&as_printed, "V22"), verdict(&changed, "V22")),
            (Verdict::Contradicts, Verdict::Reproduced)
        );
        assert_eq!(
            (verdict(&as_printed, "V23"), verdict(&changed, "V23")),
            (Verdict::Contradicts, Verdict::Reproduced)
        );
        let computed = |figures: &BTreeMap<String, Figure>, id: &str| figures[id].computed.unwrap();
        assert!((computed(&as_printed, "V32") - 71.2).abs() < 0.05 && (computed(&changed, "V32") - 74.6).abs() < 0.05);
        assert!((computed(&as_printed, "V36") - 30.7).abs() < 0.05 && (computed(&changed, "V36") - 33.3).abs() < 0.05);
        assert_eq!((verdict(&changed, "V32"), verdict(&changed, "V36")), (Verdict::Contradicts, Verdict::Contradicts));
        let untouched = |id: &str| as_printed[id] == changed[id];
        assert!(untouched("V05") && untouched("E07") && untouched("U01"));
        assert!(changed["V23"].note.starts_with("V23 set to 25.2"));
    }

    /// No input is idle: setting it changes a figure, or what a figure is compared with.
    #[test]
    fn every_input_moves_something() {
        let calculated = |inputs: &Inputs| -> Vec<String> {
            let calculated = [vcmts::rows, upf::rows, aws::rows, bng::rows, core::rows];
            let rows = calculated.into_iter().flat_map(|of| of(inputs));
            let numbers = |row: Row| {
                let claims: Vec<_> = row.claims.iter().map(|claim| (claim.printed, claim.computed)).collect();
                format!("{} {:?} {:?} {:?}", row.id, row.computed, claims, row.also)
            };
            rows.map(numbers).collect()
        };
        let as_printed = calculated(&Inputs::default());
        for (name, value) in Inputs::default().all() {
            let mut inputs = Inputs::default();
            inputs.set(name, value * 1.5 + 1.0).unwrap();
            assert!(calculated(&inputs) != as_printed, "{name} is idle");
        }
    }

    #[test]
    fn unknown_inputs_are_refused_with_a_hint() {
        let error = Inputs::default().set("V230", 1.0).unwrap_err();
        assert!(error.contains("V23"), "{error}");
    }
}
