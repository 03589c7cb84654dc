//! One event: as it is kept, sent over the control socket, and written.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display, Formatter, Write};

use ledger::Moment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::Event;
use tracing::field::{Field, Visit};

/// Bytes of a text value or message; what is longer is cut.
const LONGEST_TEXT: usize = 512;
/// Fields of an event; further ones are left out.
const MOST_FIELDS: usize = 24;
/// Keys that are the record's own: a field of such a name gets a trailing underscore.
const OWN_KEYS: [&str; 6] = ["sequence", "ts", "level", "target", "event", "msg"];

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something failed, and somebody has to see to it.
    Error,
    /// Something is wrong or about to be.
    Warn,
    /// What an operator wants to know afterwards.
    Info,
    /// For finding faults.
    Debug,
    /// More of that.
    Trace,
}

impl Level {
    /// Its name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }

    /// The syslog severity (RFC 5424, 6.2.1), as sd-daemon(3) wants it in front of a line.
    pub fn severity(self) -> u8 {
        match self {
            Self::Error => 3,
            Self::Warn => 4,
            Self::Info => 6,
            Self::Debug | Self::Trace => 7,
        }
    }
}

impl From<tracing::Level> for Level {
    fn from(level: tracing::Level) -> Self {
        match level {
            tracing::Level::ERROR => Self::Error,
            tracing::Level::WARN => Self::Warn,
            tracing::Level::INFO => Self::Info,
            tracing::Level::DEBUG => Self::Debug,
            tracing::Level::TRACE => Self::Trace,
        }
    }
}

/// An event as one line of JSON, as [`Record::json`] writes it.
#[derive(JsonSchema)]
#[allow(dead_code)] // its schema is what it is for
pub struct EventLine {
    /// UTC, RFC 3339 with milliseconds. Left out where stderr is the journal, which has a time of its own.
    pub ts: Option<Moment>,
    /// Severity, as configured levels have it.
    pub level: Level,
    /// Part of weir that reports it, by which levels are set: `n4`, `port`, `ledger`…
    pub target: String,
    /// Identifier of its kind, a row of `docs/events.md`.
    pub event: String,
    /// The event in words; its fields say the same to programs.
    pub msg: String,
    /// Fields of that kind of event.
    #[schemars(flatten)]
    pub fields: BTreeMap<String, FieldValue>,
}

/// Value of an event's field.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
pub enum FieldValue {
    /// An address, a name, a list in words.
    Text(String),
    /// A count, or a quantity in the unit that the key ends in.
    Number(f64),
    /// Yes or no.
    Truth(bool),
}

/// An event as it is kept and sent over the control socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its place in the order of all events of the process, from 1; 0: not kept yet.
    pub sequence: u64,
    /// When it happened, in UTC.
    pub ts: Moment,
    /// How much it matters.
    pub level: Level,
    /// Part of weir that reports it, by which levels are set: `n4`, `port`, `ledger`…
    pub target: String,
    /// Its kind, a name of `docs/events.md`.
    pub event: String,
    /// What it is about.
    pub fields: Vec<(String, Value)>,
    /// The event in words; its fields say the same to programs.
    pub msg: String,
}

impl Record {
    /// A tracing event at a time.
    pub fn of(event: &Event<'_>, ts: Moment) -> Self {
        let metadata = event.metadata();
        let mut record = Self {
            sequence: 0,
            ts,
            level: (*metadata.level()).into(),
            target: metadata.target().to_owned(),
            event: String::new(),
            fields: Vec::new(),
            msg: String::new(),
        };
        event.record(&mut record);
        record
    }

    /// What was suppressed of a kind that has calmed down.
    pub fn suppressed(kind: &str, suppressed: u64, ts: Moment) -> Self {
        Self {
            sequence: 0,
            ts,
            level: Level::Warn,
            target: "process".to_owned(),
            event: "events_suppressed".to_owned(),
            fields: vec![("of".to_owned(), kind.into()), ("suppressed".to_owned(), suppressed.into())],
            msg: format!("{suppressed} more events {kind} came too fast to be written"),
        }
    }

    /// Notes that so many of its kind were suppressed before it.
    pub(crate) fn add_suppressed(&mut self, suppressed: u64) {
        self.fields.push(("suppressed".to_owned(), suppressed.into()));
    }

    fn add(&mut self, field: &Field, value: Value) {
        match field.name() {
            "event" => self.event = value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            "message" => self.msg = value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            name if self.fields.len() < MOST_FIELDS => {
                let key = if OWN_KEYS.contains(&name) { format!("{name}_") } else { name.to_owned() };
                self.fields.push((key, value));
            }
            _ => {}
        }
    }

    /// As one line of JSON, without its end.
    pub fn json(&self, with_time: bool) -> String {
        let mut line = String::with_capacity(200);
        let mut add = |key: &str, value: &Value| {
            // Writing to a text does not fail.
            let _ = write!(line, "{}{}:{value}", if line.is_empty() { '{' } else { ',' }, Value::from(key));
        };
        if with_time {
            add("ts", &self.ts.to_string().into());
        }
        add("level", &self.level.as_str().into());
        add("target", &self.target.as_str().into());
        add("event", &self.event.as_str().into());
        self.fields.iter().for_each(|(key, value)| add(key, value));
        add("msg", &self.msg.as_str().into());
        line.push('}');
        line
    }

    /// As one line of `key=value`, without its end.
    pub fn logfmt(&self, with_time: bool) -> String {
        let mut line = String::with_capacity(160);
        if with_time {
            // Writing to a text does not fail.
            let _ = write!(line, "ts={} ", self.ts);
        }
        let _ =
            write!(line, "level={} target={} event={}", self.level.as_str(), Quoted(&self.target), Quoted(&self.event));
        for (key, value) in &self.fields {
            let _ = match value {
                Value::String(text) => write!(line, " {key}={}", Quoted(text)),
                other => write!(line, " {key}={other}"),
            };
        }
        if !self.msg.is_empty() {
            let _ = write!(line, " msg={}", Quoted(&self.msg));
        }
        line
    }
}

impl Visit for Record {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, cut(value.to_owned()).into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = Bounded(String::new());
        // Cut when it is too long: that is the only failure.
        let _ = write!(text, "{value:?}");
        self.add(field, text.0.into());
    }
}

/// A text that takes no more than [`LONGEST_TEXT`] bytes.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() <= LONGEST_TEXT {
            return Ok(());
        }
        self.0 = cut(std::mem::take(&mut self.0));
        Err(fmt::Error)
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        text.push('…');
    }
    text
}

/// A value of logfmt: quoted where it must be. Control characters are escaped: peers choose some of these texts.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plain = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '"' | '=' | '\\');
        if !self.0.is_empty() && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}
