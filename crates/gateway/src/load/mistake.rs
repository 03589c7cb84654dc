//! A mistake in a file, as a value: serde's hooks fill it, nothing is read out of messages.

use std::fmt;
use std::ops::Range;

use serde::de::{Error, Expected, Unexpected};

use super::{Hints, renamed};

/// What is wrong.
#[derive(Debug)]
pub enum Problem {
    /// A key that does not exist.
    UnknownKey { name: String, known: &'static [&'static str] },
    /// A word that is not one of those allowed.
    UnknownValue { given: String, known: &'static [&'static str] },
    /// A key that must be there.
    Missing(&'static str),
    /// A key under its former name and its present one.
    Twice(&'static str),
    /// A value of the wrong kind or range.
    Misfit { found: String, allowed: String },
    /// A value that its type refuses: the type's own words.
    Refused { given: String, expected: String, why: String },
}

/// A mistake, and where it is once that is known.
#[derive(Debug)]
pub struct Mistake {
    pub problem: Box<Problem>,
    pub span: Option<Range<usize>>,
}

impl Mistake {
    pub fn new(problem: Problem) -> Self {
        Self { problem: Box::new(problem), span: None }
    }

    /// With a place, if it has none yet: the innermost one counts.
    pub fn at(mut self, span: &Range<usize>) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }

    /// With the value that was refused, if that is not known yet.
    pub fn of(mut self, value: &str, wanted: &str) -> Self {
        if self.span.is_none()
            && let Problem::Refused { given, expected, .. } = self.problem.as_mut()
        {
            value.clone_into(given);
            wanted.clone_into(expected);
        }
        self
    }

    /// Something is not there: the place is the section that should have it.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(*self.problem, Problem::Missing(_))
    }

    /// What is wrong.
    pub fn what(&self) -> String {
        match &*self.problem {
            Problem::UnknownKey { name, .. } => format!("unknown key `{name}`"),
            Problem::UnknownValue { given, .. } => format!("unknown value \"{given}\""),
            Problem::Missing(name) => format!("the key `{name}` is missing"),
            Problem::Twice(name) => format!("the key `{name}` is given twice, under its former name and this one"),
            Problem::Misfit { found, .. } => format!("{found} is invalid here"),
            Problem::Refused { given, why, .. } if given.is_empty() || why.contains(given.as_str()) => why.clone(),
            Problem::Refused { given, why, .. } => format!("\"{given}\" is invalid: {why}"),
        }
    }

    /// What would be right, if that is known, of a file that is read with those hints.
    pub fn help(&self, hints: Hints) -> Option<String> {
        Some(match &*self.problem {
            Problem::UnknownKey { name, known } => suggestion(name, &renamed::present(known, hints.renamed)),
            Problem::UnknownValue { given, known } => suggestion(given, known),
            Problem::Missing(name) => format!("add {}", example(name, hints)),
            Problem::Twice(_) => "keep one of them".to_owned(),
            Problem::Misfit { allowed, .. } => format!("allowed: {allowed}"),
            Problem::Refused { given, .. } if given.is_empty() => return None,
            Problem::Refused { expected, .. } => match addresses(expected) {
                Some(examples) => format!("allowed: an {expected}, such as {examples}"),
                None => return None,
            },
        })
    }
}

/// Examples of an address, by what the type of the standard library is called.
fn addresses(expected: &str) -> Option<&'static str> {
    match expected {
        "IPv4 address" => Some("10.0.3.1"),
        "IPv6 address" => Some("2001:db8::1"),
        "IP address" => Some("10.0.3.1 or 2001:db8::1"),
        "socket address" => Some("127.0.0.1:9464 or [::1]:9464"),
        _ => None,
    }
}

fn suggestion(name: &str, known: &[&str]) -> String {
    let closest = known.iter().map(|k| (strsim::damerau_levenshtein(name, k), *k)).min();
    let all = known.join(", ");
    match closest {
        Some((distance, best)) if distance <= (name.len().max(best.len()) / 3).max(1) => {
            format!("did you mean `{best}`? allowed: {all}")
        }
        _ => format!("allowed: {all}"),
    }
}

/// What a missing key would look like.
fn example(name: &str, hints: Hints) -> String {
    if let ("gateway", Some(gateway)) = (name, hints.gateway) {
        return format!("gateway = \"{gateway}\"");
    }
    let value = match name {
        "name" => "\"n3\"",
        "uri" => "\"packet:eth0\"",
        "role" => "\"access\" or role = \"core\"",
        "to" => "\"0.0.0.0/0\"",
        "next_hop" => "\"10.0.6.254\"",
        "address" => "\"10.0.3.100\"",
        "mac" => "\"02:00:00:00:00:01\"",
        "port" => "\"n3\"",
        _ => "…",
    };
    format!("{name} = {value}")
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what())
    }
}

impl std::error::Error for Mistake {}

impl Error for Mistake {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let why = message.to_string();
        Self::new(Problem::Refused { given: String::new(), expected: String::new(), why })
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Str(text) => format!("the text \"{text}\""),
            Unexpected::Unsigned(number) => format!("the number {number}"),
            Unexpected::Signed(number) => format!("the number {number}"),
            Unexpected::Float(number) => format!("the number {number}"),
            Unexpected::Bool(value) => format!("the value {value}"),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a section".to_owned(),
            other => other.to_string(),
        };
        Self::new(Problem::Misfit { found, allowed: expected.to_string() })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::new(Problem::UnknownKey { name: field.to_owned(), known })
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        Self::new(Problem::UnknownValue { given: variant.to_owned(), known })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Problem::Missing(field))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(Problem::Twice(field))
    }
}
