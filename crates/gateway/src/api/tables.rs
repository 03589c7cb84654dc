//! From a path and a query to a question, from an answer to JSON.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::openapi;
use crate::cli::{At, Keys, ShowArgs, seconds};
use crate::json::JsonOutput;
use crate::show::View;
use crate::socket::{Answers, RawRequest};
use crate::tables::Style;

/// Where tables are.
pub const PREFIX: &str = "/api/v1/";
/// Where the description is.
pub const DESCRIPTION: &str = "/openapi.json";

/// A response: status and JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status code (RFC 9110, 15).
    pub status: u16,
    /// Body of the response.
    pub body: String,
}

impl Answer {
    /// A sentence why there is no answer.
    pub fn refused(status: u16, why: &str) -> Self {
        Self { status, body: json!({ "error": why }).to_string() + "\n" }
    }
}

/// The tables of a running gateway.
pub struct Tables {
    /// Those it has.
    pub views: Vec<View>,
    /// What the gateway is, in words, with an article.
    pub title: &'static str,
    /// What answers questions.
    pub gateway: Arc<dyn Answers>,
}

/// Requests by HTTP are of no connection that could follow packets.
const CONNECTION: u64 = 0;

impl Tables {
    /// The answer to a request for a path.
    pub fn answer(&self, path: &str, query: &str) -> Answer {
        if path == DESCRIPTION {
            return Answer { status: 200, body: openapi::describe(&self.views, self.title).to_string() + "\n" };
        }
        let topic = path.strip_prefix(PREFIX);
        let Some(view) = self.views.iter().find(|view| Some(view.topic) == topic) else {
            let all: Vec<_> = self.views.iter().map(|view| format!("{PREFIX}{}", view.topic)).collect();
            return Answer::refused(404, &format!("no such path; allowed: {DESCRIPTION}, {}", all.join(", ")));
        };
        let args = match arguments(view, query) {
            Ok(args) => args,
            Err(why) => return Answer::refused(400, &why),
        };
        let question = match (view.question)(&args) {
            Ok(question) => question,
            Err(why) => return Answer::refused(400, &why),
        };
        match self.ask(view, &question, &args) {
            Ok(body) => Answer { status: 200, body },
            Err(why) => Answer::refused(if why.contains("does not answer") { 503 } else { 400 }, &why),
        }
    }

    fn ask(&self, view: &View, question: &Value, args: &ShowArgs) -> Result<String, String> {
        let answer = self.gateway.answer(CONNECTION, &RawRequest::of(&question.to_string())?)?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        (view.print)(&answer, None, args, Style::default()).map_err(|error| error.to_string())
    }
}

/// The command line that a query stands for.
fn arguments(view: &View, query: &str) -> Result<ShowArgs, String> {
    let mut args = ShowArgs {
        topic: view.topic.to_owned(),
        at: At { socket: PathBuf::new(), json: JsonOutput { file: Some("-".into()) } },
        watch: None,
        over: None,
        keys: Keys::default(),
        follow: false,
        level: None,
        target: None,
        all: false,
    };
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        let key = view.keys.iter().find(|key| key.name == name);
        match (key, name.as_str()) {
            (Some(key), _) => args.keys.0.push((key.name, value)),
            (None, openapi::OVER) if view.measures => args.over = Some(seconds(&value)?),
            _ => {
                let over = view.measures.then_some(openapi::OVER);
                let all: Vec<&str> = view.keys.iter().map(|key| key.name).chain(over).collect();
                let allowed = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                return Err(format!("unknown parameter \"{name}\"; allowed: {allowed}"));
            }
        }
    }
    Ok(args)
}

/// A part of a query without its percent signs (RFC 3986, 2.1), `+` for a space.
fn decoded(text: &str) -> Result<String, String> {
    let bad = || format!("\"{text}\" is not percent-encoded UTF-8");
    let (mut octets, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, more @ ..] = rest {
        rest = more;
        match first {
            b'+' => octets.push(b' '),
            b'%' => {
                let (digits, more) = rest.split_at_checked(2).ok_or_else(bad)?;
                let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
                octets.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
                rest = more;
            }
            other => octets.push(*other),
        }
    }
    String::from_utf8(octets).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        assert_eq!(decoded("a%20b+c%C3%A9").unwrap(), "a b cé");
        assert!(["%", "%4", "%zz", "%ff"].iter().all(|text| decoded(text).is_err()));
    }
}
