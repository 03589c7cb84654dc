//! Published experiments as plans that the [`Planner`] answers: `data/published/*.toml`.
//!
//! A number that a publication states has its figure's identifier behind it as a comment:
//!
//! ```toml
//! each = "4.2 Gbit/s"     # V22
//! sharing = [0.9]         # V33.penalty, percent less
//! ```
//!
//! so that another value can be put in its place before the plan is read. `percent less`: the figure is what a factor
//! takes away.

use std::collections::BTreeMap;

use crate::card::{CARDS, Cards, equip};
use crate::catalogue::Catalogue;
use crate::onprem::{SERVERS, Servers};
use crate::plan::{Answer, Candidate, Planner, World};
use crate::question::Question;
use crate::site::{SITES, Sites};

macro_rules! plans {
    ($($name:literal),+ $(,)?) => {
        /// Name and text of every plan.
        pub const PLANS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../data/published/", $name, ".toml")))),+];
    };
}

plans![
    "vcmts-groups",
    "vcmts-metal",
    "vcmts-two-4xlarge",
    "vcmts-four-4xlarge",
    "vcmts-equal-cost",
    "vcmts-hosts",
    "vcmts-from-on-premise",
    "upf-module",
    "upf-headline",
    "upf-lab",
    "upf-aws",
    "upf-cost",
    "aws-queues",
    "bng-server",
    "core-6230-vepc",
    "core-6230n-vepc",
    "core-6230n-vupf",
    "core-6230n-vfwa",
];

/// A figure's place in a line of a plan.
#[derive(Debug, PartialEq)]
struct Place<'l> {
    figure: &'l str,
    percent_less: bool,
    /// Where its number stands in the line.
    number: std::ops::Range<usize>,
}

/// The figure that a line takes, if its comment names one.
fn place(line: &str) -> Option<Place<'_>> {
    let (value, comment) = line.rsplit_once('#')?;
    let (figure, what) = comment.trim().split_once(',').unwrap_or((comment.trim(), ""));
    let mut letters = figure.bytes();
    let is_figure = letters.next().is_some_and(|first| first.is_ascii_uppercase())
        && letters.next().is_some_and(|second| second.is_ascii_digit())
        && !figure.contains(' ');
    if !is_figure {
        return None;
    }
    // Behind the key, if there is one: keys may have digits.
    let after = value.find('=').map_or(0, |at| at + 1);
    let begin = after + value[after..].find(|c: char| c.is_ascii_digit())?;
    let rest = &value[begin..];
    let end = begin + rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
    Some(Place { figure, percent_less: what.trim() == "percent less", number: begin..end })
}

/// A plan's text with other values of figures.
fn with(text: &str, set: &BTreeMap<&'static str, f64>) -> String {
    let line = |line: &str| -> String {
        let Some((place, value)) =
            place(line).and_then(|place| Some((set.get(place.figure)?, place))).map(|(v, p)| (p, *v))
        else {
            return format!("{line}\n");
        };
        let value = if place.percent_less { 1.0 - value / 100.0 } else { value };
        format!("{}{value}{}\n", &line[..place.number.start], &line[place.number.end..])
    };
    text.lines().map(line).collect()
}

/// A question and the world it is asked in, of a plan's text.
///
/// # Errors
/// What is wrong with the text.
pub fn question(text: &str) -> Result<(Question, World), String> {
    let question: Question = toml::from_str(text).map_err(|error| error.to_string())?;
    let cards = toml::from_str::<Cards>(CARDS).map_err(|error| error.to_string())?.card;
    let mut servers = toml::from_str::<Servers>(SERVERS).map_err(|error| error.to_string())?.server;
    servers.extend(question.server.clone());
    equip(&mut servers, &cards).map_err(|wrong| wrong.to_string())?;
    let sites = toml::from_str::<Sites>(SITES).map_err(|error| error.to_string())?.site;
    let world = World::new(Catalogue::built_in(), &servers, sites, &question);
    Ok((question, world))
}

/// The text of a published plan.
pub fn text(name: &str) -> Option<&'static str> {
    PLANS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The answer to a published plan, with other values of figures.
///
/// # Errors
/// What that makes of it is no plan, or none that anything can carry.
pub fn answer(name: &str, set: &BTreeMap<&'static str, f64>) -> Result<Answer, String> {
    let text = text(name).ok_or_else(|| format!("no published plan is called {name}"))?;
    let (question, world) = question(&with(text, set))?;
    Planner::new(question, world).and_then(|planner| planner.answer()).map_err(|wrong| wrong.to_string())
}

/// A machine of an answer that can do it.
pub fn candidate<'a>(answer: &'a Answer, machine: &str) -> Option<&'a Candidate> {
    answer.candidates.iter().find(|candidate| candidate.machine == machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Inputs;

    #[test]
    fn every_plan_is_answered() {
        for (name, _) in PLANS {
            let answer = answer(name, &BTreeMap::new()).unwrap();
            assert!(!answer.candidates.is_empty(), "{name}: {:?}", answer.refused);
        }
    }

    #[test]
    fn every_file_is_a_plan() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/data/published");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut plans: Vec<&str> = PLANS.iter().map(|(name, _)| *name).collect();
        files.sort_unstable();
        plans.sort_unstable();
        assert_eq!(files, plans);
    }

    /// What a file has is what the publication states.
    #[test]
    fn numbers_are_the_figures() {
        let inputs = Inputs::default();
        let mut seen = 0;
        for (name, text) in PLANS {
            for place in text.lines().filter_map(|line| place(line).map(|place| (line, place))) {
                let (line, place) = place;
                let there: f64 = line[place.number.clone()].parse().unwrap();
                let stated = inputs.all().get(place.figure).unwrap_or_else(|| panic!("{name}: {line}"));
                let stated = if place.percent_less { 1.0 - stated / 100.0 } else { *stated };
                // A unit behind the number may be a thousand of the figure's.
                let alike = [1.0, 1e3, 1e-3].into_iter().any(|by| (there * by / stated - 1.0).abs() < 1e-9);
                assert!(alike, "{name}: {line}: {stated}");
                seen += 1;
            }
        }
        assert!(seen > 60, "{seen}");
    }

    #[test]
    fn another_value_takes_the_place_of_a_figure() {
        let set = BTreeMap::from([("V22", 4.5), ("V33.penalty", 20.0)]);
        assert_eq!(with("each = \"4.2 Gbit/s\"     # V22", &set), "each = \"4.5 Gbit/s\"     # V22\n");
        assert_eq!(
            with("sharing = [0.9] # V33.penalty, percent less", &set),
            "sharing = [0.8] # V33.penalty, percent less\n"
        );
        assert_eq!(with("each = \"4.2 Gbit/s\" # V21", &set), "each = \"4.2 Gbit/s\" # V21\n");
        assert_eq!(place("frame = \"128 B\" # of a frame"), None);
    }
}
