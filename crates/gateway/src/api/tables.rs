//! From a path and a query to a question, from an answer to JSON.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::live::Live;
use super::trace::{self, Tracing};
use super::{openapi, page};
use crate::cli::{At, Key, Keys, ShowArgs, seconds};
use crate::json::JsonOutput;
use crate::show::View;
use crate::socket::{Answers, RawRequest, Reply, Request};
use crate::tables::Style;

/// Where tables are.
pub const PREFIX: &str = "/api/v1/";
/// Where it is said what the gateway has.
pub const ABOUT: &str = "/api/v1/about";
/// Where rates and costs are.
pub const TOP: &str = "/api/v1/top";
/// Where packets are followed.
pub const TRACE: &str = "/api/v1/trace";
/// Where the description is.
pub const DESCRIPTION: &str = "/openapi.json";

/// Media type of every answer but the page's parts.
pub const JSON: &str = "application/json";

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status code (RFC 9110, 15).
    pub status: u16,
    /// Media type of the body.
    pub media: &'static str,
    /// Body of the response.
    pub body: String,
}

impl Answer {
    /// A sentence why there is no answer.
    pub fn refused(status: u16, why: &str) -> Self {
        Self { status, media: JSON, body: json!({ "error": why }).to_string() + "\n" }
    }

    /// An answer.
    pub fn json(body: String) -> Self {
        Self { status: 200, media: JSON, body }
    }

    /// An answer, or a sentence why there is none: 503 where a worker does not answer.
    pub fn of(answered: Result<String, String>) -> Self {
        match answered {
            Ok(body) => Self::json(body),
            Err(why) => Self::refused(if why.contains("does not answer") { 503 } else { 400 }, &why),
        }
    }
}

/// What the API answers of a running gateway.
pub struct Tables {
    /// Tables that it has.
    pub views: Vec<View>,
    /// What the gateway is, in words, with an article.
    pub title: &'static str,
    /// What answers questions.
    pub gateway: Arc<dyn Answers>,
    /// Rates and costs of late.
    pub live: Live,
    /// The trace; none: tracing is off.
    pub trace: Option<Tracing>,
}

/// Questions for tables are of no connection that could follow packets.
const CONNECTION: u64 = 0;

/// Asks a gateway, on a connection of that number.
///
/// # Errors
/// It does not answer; a sentence.
pub fn ask(gateway: &dyn Answers, connection: u64, request: &Request) -> Result<Reply, String> {
    let question = serde_json::to_string(request).map_err(|error| error.to_string())?;
    let answer = gateway.answer(connection, &RawRequest::of(&question)?)?;
    serde_json::from_str(&answer).map_err(|error| error.to_string())
}

impl Tables {
    /// The answer to a request for a path.
    pub fn answer(&self, path: &str, query: &str) -> Answer {
        if let Some(part) = page::part(path) {
            return part;
        }
        match path {
            DESCRIPTION => return Answer::json(openapi::describe(&self.views, self.title).to_string() + "\n"),
            ABOUT => return Answer::of(self.about()),
            TOP => return no_parameters(query).unwrap_or_else(|| Answer::of(self.live.view(&*self.gateway))),
            TRACE => return trace::answer(self, query),
            _ => {}
        }
        let topic = path.strip_prefix(PREFIX);
        let Some(view) = self.views.iter().find(|view| Some(view.topic) == topic) else {
            let all: Vec<_> = self.views.iter().map(|view| format!("{PREFIX}{}", view.topic)).collect();
            let all = all.join(", ");
            return Answer::refused(
                404,
                &format!("no such path; allowed: /, {DESCRIPTION}, {ABOUT}, {TOP}, {TRACE}, {all}"),
            );
        };
        let args = match arguments(view, query) {
            Ok(args) => args,
            Err(why) => return Answer::refused(400, &why),
        };
        let question = match (view.question)(&args) {
            Ok(question) => question,
            Err(why) => return Answer::refused(400, &why),
        };
        Answer::of(self.ask(view, &question, &args))
    }

    fn about(&self) -> Result<String, String> {
        let connected = self.views.iter().find(|view| view.measures);
        let is_filter = |key: &&Key| !["top", "limit", "after"].contains(&key.name);
        let filter = |key: &Key| FilterKey { name: key.name.to_owned(), help: key.help.to_owned() };
        let about = About {
            title: self.title.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            topics: self.views.iter().map(|view| view.topic.to_owned()).collect(),
            connected: connected.map(|view| view.topic.to_owned()),
            filters: connected.map_or(&[] as &[Key], |view| view.keys).iter().filter(is_filter).map(filter).collect(),
            trace: self.trace.is_some(),
        };
        serde_json::to_string(&about).map_err(|error| error.to_string())
    }

    fn ask(&self, view: &View, question: &Value, args: &ShowArgs) -> Result<String, String> {
        let answer = self.gateway.answer(CONNECTION, &RawRequest::of(&question.to_string())?)?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        (view.print)(&answer, None, args, Style::default()).map_err(|error| error.to_string())
    }
}

/// What the running gateway has to show.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct About {
    /// What the gateway is, in words, with an article.
    pub title: String,
    /// Version of its program.
    pub version: String,
    /// Tables: paths behind `/api/v1/`.
    pub topics: Vec<String>,
    /// The table of sessions, or of what the gateway has in their place, if there is one.
    pub connected: Option<String>,
    /// Parameters that choose among those.
    pub filters: Vec<FilterKey>,
    /// Whether `/api/v1/trace` is on.
    pub trace: bool,
}

/// A parameter that chooses among those.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FilterKey {
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    pub help: String,
}

/// A refusal of parameters where there are none.
fn no_parameters(query: &str) -> Option<Answer> {
    let name = query.split(['=', '&']).find(|part| !part.is_empty())?;
    Some(Answer::refused(400, &format!("unknown parameter \"{name}\"; allowed: none")))
}

/// Names and values of a query.
///
/// # Errors
/// It is not percent-encoded UTF-8; a sentence.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Ok((decoded(name)?, decoded(value)?))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
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
    for (name, value) in pairs(query)? {
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
                // A sign is no digit.
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(bad());
                }
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
