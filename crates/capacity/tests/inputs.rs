//! Every input moves something: each key of a plan changed by itself changes the answer, or the plan is refused. What
//! changes words only is listed, with the reason.

#[path = "inputs/plans.rs"]
mod plans;

use std::collections::BTreeSet;

use capacity::card::{CARDS, Cards, equip};
use capacity::catalogue::Catalogue;
use capacity::onprem::{SERVERS, Servers};
use capacity::plan::{Planner, World};
use capacity::question::Question;
use capacity::site::{SITES, Sites};
use serde_json::Value as Json;
use toml::Value;

/// Words, and what others than the planner read.
const WORDS: &[&str] = &["name", "about", "source", "servers", "catalogue", "deploy"];

fn answered(plan: &Value) -> Result<Json, String> {
    let question: Question = plan.clone().try_into().map_err(|error: toml::de::Error| error.message().to_owned())?;
    let mut servers = toml::from_str::<Servers>(SERVERS).unwrap().server;
    servers.extend(question.server.clone());
    let mut cards = toml::from_str::<Cards>(CARDS).unwrap().card;
    cards.extend(question.card.clone());
    equip(&mut servers, &cards).map_err(|wrong| wrong.to_string())?;
    let sites = toml::from_str::<Sites>(SITES).unwrap().site;
    let world = World::new(Catalogue::built_in(), &servers, sites, &question);
    let answer =
        Planner::new(question, world).and_then(|planner| planner.answer()).map_err(|wrong| wrong.to_string())?;
    let mut json = serde_json::to_value(&answer).unwrap();
    words_out(&mut json);
    Ok(json)
}

/// Takes away what repeats the input in words.
fn words_out(json: &mut Json) {
    match json {
        Json::Object(object) => {
            for words in ["name", "steps", "why", "reason", "reasons", "text", "source", "rests_on", "notes", "open"] {
                object.remove(words);
            }
            object.values_mut().for_each(words_out);
        }
        Json::Array(list) => list.iter_mut().for_each(words_out),
        _ => {}
    }
}

/// Values to try instead of one.
fn others(value: &Value) -> Vec<Value> {
    let text = |text: &str| Value::String(text.to_owned());
    match value {
        Value::Integer(n) => [n + 1, n - 1, n * 3, 0].map(Value::Integer).to_vec(),
        Value::Float(x) => [x * 1.3, x * 0.5, x * 3.0].map(Value::Float).to_vec(),
        Value::Boolean(set) => vec![Value::Boolean(!set)],
        Value::String(said) => {
            let enums: &[&[&str]] = &[
                &["upf", "bng", "cmts"],
                &["measured-only", "interpolate", "extrapolate"],
                &["points", "linear", "usl"],
                &["mean", "busy-hour", "peak"],
                &["both", "each"],
                &["shared", "dedicated"],
                &["baseline", "burst"],
                &["down", "up", "both"],
                &["measured", "published", "assumed"],
                &["x86_64", "arm64"],
                &["cloud", "on-premise"],
                &["vpc", "carrier", "local"],
                &["fast", "e810-cqda2"],
            ];
            if let Some(words) = enums.iter().find(|words| words.contains(&said.as_str())) {
                return words.iter().filter(|word| *word != said).map(|word| text(word)).collect();
            }
            let end = said.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(said.len());
            // Of a range the lower end.
            let end = said.find("..").unwrap_or(end);
            let number = said[..end].trim_end_matches('.');
            let Ok(n) = number.parse::<f64>() else { return ["c5n.metal", "c6in", "gcp"].map(text).to_vec() };
            let scaled = |by: f64| text(&format!("{}{}", n * by, &said[number.len()..]));
            // A range's lower end, a share below 1, or more of it.
            [0.9, 1.004, 1.3, 0.3, 4.0, 0.001].map(scaled).to_vec()
        }
        _ => Vec::new(),
    }
}

/// Every leaf with its path; positions in lists are `*`.
fn leaves(value: &Value, path: &str, at: &mut Vec<String>, all: &mut Vec<(String, Vec<String>)>) {
    let mut into = |key: &str, shown: &str, value: &Value, all: &mut Vec<_>| {
        at.push(key.to_owned());
        leaves(value, &if path.is_empty() { shown.to_owned() } else { format!("{path}.{shown}") }, at, all);
        at.pop();
    };
    match value {
        Value::Table(table) => table.iter().for_each(|(key, value)| into(key, key, value, all)),
        Value::Array(list) => list.iter().enumerate().for_each(|(n, value)| into(&n.to_string(), "*", value, all)),
        _ => all.push((path.to_owned(), at.clone())),
    }
}

fn place<'v>(value: &'v mut Value, at: &[String]) -> &'v mut Value {
    at.iter().fold(value, |value, key| match value {
        Value::Table(table) => table.get_mut(key).unwrap(),
        Value::Array(list) => &mut list[key.parse::<usize>().unwrap()],
        _ => unreachable!("a leaf has no keys"),
    })
}

fn is_words(path: &str) -> bool {
    path.rsplit('.').next().is_some_and(|key| WORDS.contains(&key))
}

/// Inputs that cannot change alone: every other value contradicts another key, and is refused by the key's name.
const REFUSED: [&str; 2] = ["demand.market.*.share", "demand.stated_at"];

#[test]
fn inputs_move_the_answer_or_are_refused() {
    let (mut seen, mut moved, mut refused) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for plan in plans::ALL {
        let plan: Value = toml::from_str(plan).unwrap();
        let before = answered(&plan).unwrap_or_else(|error| panic!("{error}\n{plan}"));
        let mut all = Vec::new();
        leaves(&plan, "", &mut Vec::new(), &mut all);
        for (path, at) in all {
            seen.insert(path.clone());
            if moved.contains(&path) || is_words(&path) {
                continue;
            }
            let now = place(&mut plan.clone(), &at).clone();
            let answers: Vec<Result<Json, String>> = others(&now)
                .into_iter()
                .map(|other| {
                    let mut changed = plan.clone();
                    *place(&mut changed, &at) = other;
                    answered(&changed)
                })
                .collect();
            if answers.iter().any(|answer| answer.as_ref().is_ok_and(|after| *after != before)) {
                moved.insert(path);
            } else if REFUSED.contains(&path.as_str()) && answers.iter().any(Result::is_err) {
                refused.insert(path);
            }
        }
    }
    let idle: Vec<&String> =
        seen.iter().filter(|path| !moved.contains(*path) && !refused.contains(*path) && !is_words(path)).collect();
    assert_eq!(idle, Vec::<&String>::new(), "{} of {} inputs move nothing", idle.len(), seen.len());
    assert_eq!(refused.iter().collect::<Vec<_>>(), REFUSED);
    assert!(seen.len() > 115, "{}", seen.len());
}

/// The plans above have every key that a plan may have: what a section expects is in the error about a key it does not.
#[test]
fn every_key_there_is_is_varied() {
    let mut seen = BTreeSet::new();
    for plan in plans::ALL {
        let mut all = Vec::new();
        leaves(&toml::from_str(plan).unwrap(), "", &mut Vec::new(), &mut all);
        // Of a list of plain values the key is what has a name.
        seen.extend(all.into_iter().map(|(path, _)| path.trim_end_matches(".*").replace(".*.", ".")));
    }
    let sections = [
        ("demand", "", "demand"),
        ("demand.market", "[[demand.market]]", "demand.market.0"),
        ("demand.density", "[[demand.density]]", "demand.density.0"),
        ("unit", "[unit]", "unit"),
        ("point", "[[point]]", "point.0"),
        ("cost", "[[cost]]", "cost.0"),
        ("placement", "[placement]", "placement"),
        ("failure", "[failure]", "failure"),
        ("price", "[price]", "price"),
        ("price.path", "[price.path]", "price.path"),
        ("price.path.nat", "[price.path.nat]", "price.path.nat"),
        ("price.path.cross_zone", "[price.path.cross_zone]", "price.path.cross_zone"),
        ("price.path.transit", "[price.path.transit]", "price.path.transit"),
        ("price.path.direct_connect", "[price.path.direct_connect]", "price.path.direct_connect"),
        ("price.path.internet", "[price.path.internet]", "price.path.internet"),
        ("price.path.internet.tier", "[[price.path.internet.tier]]", "price.path.internet.tier.0"),
        ("years", "[years]", "years"),
        ("bounds", "[bounds]", "bounds"),
        ("autoscale", "[autoscale]", "autoscale"),
        ("candidates", "[candidates]", "candidates"),
        ("card", "[[card]]", "card.0"),
        ("server", "[[server]]", "server.0"),
        ("site", "[site]", "site"),
        ("site.option", "[[site.option]]", "site.option.0"),
    ];
    for (section, head, _) in sections {
        let plan = format!("gateway = 'upf'\n[demand]\n{head}\nno_such_key = 1\n");
        let error = toml::from_str::<Question>(&plan).unwrap_err();
        let expected = error.message().split_once("expected ").unwrap_or_else(|| panic!("{section}: {error}")).1;
        for key in expected.split('`').skip(1).step_by(2) {
            let path = format!("{section}.{key}");
            let inside = seen.iter().any(|seen| *seen == path || seen.starts_with(&format!("{path}.")));
            assert!(inside || is_words(&path), "{path} is in no plan here");
        }
    }
}
