//! What a user plane is asked over the control socket, and answers.

use std::net::IpAddr;

use ledger::Seid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gateway::socket::Ask;

/// A question, as `{"ask": "session", "ue": "10.60.0.1"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How many sessions there are, where.
    Sessions,
    /// The control planes.
    Peers,
    /// What rules of access lists have counted.
    Acl,
    /// One subscriber's session.
    Session {
        /// Its address.
        ue: IpAddr,
    },
}

/// An answer, as `{"sessions": {…}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Sessions`].
    Sessions(SessionsView),
    /// To [`Request::Peers`].
    Peers(PeersView),
    /// To [`Request::Session`].
    Session(SessionView),
    /// To [`Request::Acl`].
    Acl(Vec<AclRuleView>),
}

impl Ask for Request {
    type Answer = Reply;
    const NAMES: &'static [&'static str] = &["sessions", "peers", "acl", "session"];
}

/// Sessions of all workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsView {
    /// Each worker's.
    pub workers: Vec<WorkerSessions>,
    /// What control has done and heard: identifier, how often, a sentence; what never happened is not there.
    #[serde(with = "gateway::counters::explained")]
    #[schemars(with = "std::collections::BTreeMap<String, gateway::counters::Explained>")]
    pub control: Vec<(String, u64, String)>,
}

/// Sessions of one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerSessions {
    /// Its number.
    pub worker: u16,
    /// How many.
    pub sessions: u64,
    /// Bytes of their records and of the indexes that lead to them.
    pub bytes: u64,
}

/// The end of N4 and who is at the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeersView {
    /// Where control planes reach it.
    pub address: String,
    /// What it calls itself.
    pub node_id: String,
    /// Sessions of all of them.
    pub sessions: u64,
    /// Requests that wait for a worker.
    #[serde(rename = "waiting_requests", alias = "waiting")]
    pub waiting: u64,
    /// Guaranteed bit rates of all sessions.
    #[serde(default)]
    pub guaranteed: GuaranteedView,
    /// The control planes.
    pub peers: Vec<PeerView>,
    /// GTP-U peers: those that do not answer first, then those of most sessions; a hundred at most.
    #[serde(default)]
    pub paths: Vec<PathView>,
    /// What was done, said and refused: name, how often, a sentence.
    #[serde(with = "gateway::counters::explained")]
    #[schemars(with = "std::collections::BTreeMap<String, gateway::counters::Explained>")]
    pub counters: Vec<(String, u64, String)>,
    /// What happened to associations, oldest first.
    pub news: Vec<NewsView>,
}

/// Guaranteed bit rates (GBR, TS 29.244, 8.2.9) of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuaranteedView {
    /// Sessions with guaranteed bit rates.
    pub sessions: u64,
    /// Their rates from subscribers, bit/s.
    pub up_bps: u64,
    /// Their rates to subscribers, bit/s.
    pub down_bps: u64,
}

/// A change of an association.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NewsView {
    /// How long ago.
    pub seconds_ago: f64,
    /// The control plane's address.
    pub peer: String,
    /// What happened, in words.
    pub event: String,
}

/// A control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerView {
    /// Where its requests go.
    pub address: String,
    /// What it calls itself.
    pub node_id: String,
    /// Seconds since it began, by its Recovery Time Stamp.
    #[serde(rename = "uptime_seconds", alias = "seconds")]
    pub seconds: f64,
    /// Its sessions.
    pub sessions: u64,
    /// Seconds until its sessions are deleted, as it does not answer; none: it answers.
    #[serde(rename = "retention_left_seconds", alias = "lost_for")]
    pub lost_for: Option<f64>,
    /// It has answered a heartbeat, ever.
    pub answers_heartbeats: bool,
    /// Datagrams of it that were lost, as its queue was full.
    #[serde(default)]
    pub datagrams_lost: u64,
    /// Further addresses it may use its sessions from, as a member of a set.
    #[serde(default)]
    pub further_addresses: Vec<String>,
}

/// A GTP-U peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathView {
    /// Its address.
    pub peer: String,
    /// The network instance it is in.
    pub instance: String,
    /// Sessions that send to it.
    pub sessions: u64,
    /// It does not answer Echo Requests.
    pub failed: bool,
}

/// A rule of an access list, or what holds for packets that none matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AclRuleView {
    /// The network instance.
    pub instance: String,
    /// The rule as it was written; `permit` or `deny` alone: the list's default.
    pub rule: String,
    /// Packets it decided on.
    pub packets: u64,
    /// Their octets.
    pub bytes: u64,
}

/// One subscriber's session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionView {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The worker that owns it.
    pub worker: u16,
    /// Control's number of it on that worker.
    pub handle: u32,
    /// The network instance it is in.
    pub instance: String,
    /// Its rules, in the order PDR, FAR, QER, URR.
    pub rules: Vec<RuleView>,
    /// What its URRs have measured.
    pub usage: Vec<RuleUsage>,
    /// What its QERs let pass.
    #[serde(default)]
    pub credits: Vec<CreditView>,
    /// Its control plane; none: the session is simulated.
    #[serde(default)]
    pub control_plane: Option<ControlPlaneView>,
    /// Whether its packets are forwarded in the kernel, and why not; none: no port has `fast_path`.
    #[serde(default)]
    pub fast_path: Option<String>,
}

/// A rule of a session (TS 29.244, 5.2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleView {
    /// `pdr`, `far`, `qer` or `urr`.
    pub kind: String,
    /// Its identifier within the session.
    pub id: u32,
    /// What it matches or does, in words.
    pub text: String,
}

/// The control plane of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlPlaneView {
    /// Address and port of PFCP.
    pub address: String,
    /// The session's identifier at the control plane.
    pub cp_seid: Seid,
    /// The session's identifier here.
    pub up_seid: Seid,
}

/// What a QER lets pass in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CreditView {
    /// The rule.
    pub qer: u32,
    /// `up` or `down`.
    pub direction: String,
    /// `bytes` or `packets`.
    pub unit: String,
    /// How many may pass now.
    pub left: u64,
    /// How many could at most.
    pub of: u64,
}

/// What a URR has measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleUsage {
    /// The rule.
    pub urr: u32,
    /// Packets from the subscriber.
    pub up_packets: u64,
    /// Their octets.
    pub up_bytes: u64,
    /// Packets to the subscriber.
    pub down_packets: u64,
    /// Their octets.
    pub down_bytes: u64,
    /// Seconds from first to last packet.
    pub seconds: f64,
    /// Seconds since the last packet; none: there was none.
    #[serde(rename = "idle_seconds", alias = "idle")]
    pub idle: Option<f64>,
}
