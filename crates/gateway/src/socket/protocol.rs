//! What is asked and answered over the control socket.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::connected::{ConnectedPage, ConnectedRequest};
use crate::host_routing::RoutesView;
use crate::log::{LogReply, LogRequest};
use crate::privilege::ProcessesView;
use crate::shell::reload::ReloadView;
use crate::snapshot::Snapshot;

/// What every gateway is asked, as `{"ask": "counters"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// All counters.
    Counters,
    /// The ports of all workers.
    Ports,
    /// Follow a subscriber's packets. The trace ends with the connection.
    Trace {
        /// Its address.
        ue: IpAddr,
        /// How many packets.
        packets: u32,
    },
    /// What the trace of this connection has recorded since last asked.
    Traced,
    /// What the processes and their threads may do.
    Process,
    /// Routes in use.
    Routes,
    /// The event log.
    Log(LogRequest),
    /// Sessions, devices or subscribers.
    Connected(Box<ConnectedRequest>),
    /// Take no new sessions from now on, or take them again.
    Drain {
        /// Which.
        on: bool,
        /// Seconds that control planes are told sessions may still stay.
        seconds: u32,
    },
    /// Read the configuration again.
    Reload {
        /// Only compare, apply nothing.
        check: bool,
    },
    /// The configuration in use.
    Config,
}

/// An answer, as `{"counters": {…}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Counters`].
    Counters(Snapshot),
    /// To [`Request::Ports`].
    Ports(Vec<PortView>),
    /// To [`Request::Trace`] and [`Request::Traced`].
    Trace(TraceView),
    /// To [`Request::Drain`].
    Drain(DrainView),
    /// To [`Request::Log`].
    Log(LogReply),
    /// To [`Request::Process`].
    Process(ProcessesView),
    /// To [`Request::Routes`].
    Routes(RoutesView),
    /// To [`Request::Reload`].
    Reload(ReloadView),
    /// To [`Request::Config`].
    Config(Value),
    /// To [`Request::Connected`].
    Connected(ConnectedPage),
}

impl Ask for Request {
    type Answer = Reply;
    const NAMES: &'static [&'static str] =
        &["counters", "ports", "trace", "traced", "process", "routes", "log", "drain", "reload", "config", "connected"];
}

/// Questions that are asked over a control socket: one JSON object with the name of the question under `ask`.
pub trait Ask: Serialize + DeserializeOwned {
    /// What is answered. Where there is no answer that is `{"error": "a sentence"}` instead.
    type Answer: Serialize + DeserializeOwned;
    /// The names of all questions.
    const NAMES: &'static [&'static str];

    /// Answers what came, if it is one of these questions: `answer` gives the answer or a sentence why there is none.
    fn answered(asked: &RawRequest, answer: impl FnOnce(Self) -> Result<Self::Answer, String>) -> Option<RawAnswer> {
        let is_ours = Self::NAMES.contains(&asked.name.as_str());
        let understood = || Self::deserialize(&asked.question).map_err(|error| format!("not a question: {error}"));
        let text = |reply| serde_json::to_string(&reply).map_err(|error| error.to_string());
        is_ours.then(|| understood().and_then(answer).and_then(text))
    }
}

/// A question as it came.
#[derive(Clone, Debug)]
pub struct RawRequest {
    /// Its name.
    pub name: String,
    question: Value,
}

/// JSON, or a sentence why there is none.
pub type RawAnswer = Result<String, String>;

impl RawRequest {
    /// All of the question.
    ///
    /// # Errors
    /// It is another one; a sentence.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(&self.question).map_err(|error| format!("not a question: {error}"))
    }

    /// The question in a line.
    ///
    /// # Errors
    /// It is none; a sentence.
    pub fn of(line: &str) -> Result<Self, String> {
        let question: Value = serde_json::from_str(line).map_err(|error| format!("not a question: {error}"))?;
        let name = question.get("ask").and_then(Value::as_str);
        let name = name.ok_or(r#"not a question: such as {"ask": "counters"}"#)?.to_owned();
        Ok(Self { name, question })
    }
}

/// A worker's port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortView {
    /// What the configuration calls it.
    pub name: String,
    /// The worker it belongs to.
    pub worker: u16,
    /// Its side of the gateway, as the configuration has it.
    pub role: String,
    /// Kind and mode: `packet-ring`.
    pub kind: String,
    /// Interface or file.
    pub interface: String,
    /// What else is worth telling.
    pub detail: String,
    /// Its hardware address.
    pub mac: String,
    /// Largest IP packet.
    pub mtu: u32,
    /// State of the link: `up`, `down` or `gone`.
    pub link: String,
    /// Packet buffers it holds.
    #[serde(rename = "held_packet_buffers", alias = "held")]
    pub held: u64,
    /// Its counters by name, and those of its wrappers, in the order shown.
    #[serde(with = "crate::counters::plain")]
    #[schemars(with = "std::collections::BTreeMap<String, u64>")]
    pub counters: Vec<(String, u64)>,
}

impl PortView {
    /// What it has lost itself, by counter; what the gateway dropped by a rule stands among its drops.
    pub fn losses(&self) -> impl Iterator<Item = (&str, u64)> {
        let lost = self.counters.iter().filter(|(name, _)| frame::PortCounters::LOSSES.contains(&name.as_str()));
        lost.map(|(name, packets)| (name.as_str(), *packets))
    }
}

/// Whether new sessions are taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DrainView {
    /// They are not.
    pub draining: bool,
    /// Sessions there still are.
    pub sessions: u64,
}

/// What was recorded of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceView {
    /// Packets each worker would still follow.
    pub left: u32,
    /// What stages did, in order.
    pub lines: Vec<TraceLine>,
    /// When the trace begins: rules of the subscriber's session and what they name, `PDR 1` and `FAR 1, QER 1, URR 1`.
    #[serde(default)]
    pub rules: Vec<(String, String)>,
}

/// What one stage did to one followed packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceLine {
    /// The worker.
    pub worker: u16,
    /// Tells the packets of a worker's trace apart.
    pub packet: u64,
    /// Time of its burst, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The stage, or `rx`.
    pub stage: String,
    /// `keep`, `drop` or `punt`.
    pub verdict: String,
    /// What was known of the packet after the stage.
    pub detail: String,
    /// The port it came in by (`rx`), or is to leave by, as far as is known.
    #[serde(default)]
    pub port: Option<String>,
    /// Nanoseconds of the stage per packet of its burst; none: it is no stage of a pipeline.
    #[serde(default)]
    pub stage_ns: Option<f64>,
    /// Packets of that burst.
    #[serde(default)]
    pub burst_packets: u32,
    /// All of its bytes after the stage, in hex.
    pub bytes: String,
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl TraceLine {
    /// The packet's first bytes after the stage.
    pub fn raw(&self) -> Vec<u8> {
        let digits = self.bytes.as_bytes().chunks(2);
        digits.map_while(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
    }
}
