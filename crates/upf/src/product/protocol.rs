//! What a user plane is asked over the control socket, and answers.

use std::net::IpAddr;

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
    /// Who has which blocks of public ports.
    Nat {
        /// Only this subscriber's.
        #[serde(default)]
        ue: Option<IpAddr>,
    },
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
    /// To [`Request::Nat`].
    Nat(NatView),
}

impl Ask for Request {
    type Answer = Reply;
    const NAMES: &'static [&'static str] = &["sessions", "peers", "acl", "nat", "session"];
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
    pub waiting: u64,
    /// Sessions with guaranteed bit rates, and these rates from and to subscribers in bit/s, in all.
    #[serde(default)]
    pub guaranteed: [u64; 3],
    /// The control planes.
    pub peers: Vec<PeerView>,
    /// GTP-U peers: those that do not answer first, then those of most sessions; a hundred at most.
    #[serde(default)]
    pub paths: Vec<PathView>,
    /// What was done, said and refused: name, how often, a sentence.
    #[serde(with = "gateway::counters::explained")]
    #[schemars(with = "std::collections::BTreeMap<String, gateway::counters::Explained>")]
    pub counters: Vec<(String, u64, String)>,
    /// What happened to associations: seconds ago, to whom, what.
    pub news: Vec<(f64, String, String)>,
}

/// A control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PeerView {
    /// Where its requests go.
    pub address: String,
    /// What it calls itself.
    pub node_id: String,
    /// Seconds since it began, by its own account.
    pub seconds: f64,
    /// Its sessions.
    pub sessions: u64,
    /// It no longer answers; seconds until its sessions go.
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

/// Translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NatView {
    /// Subscribers with blocks.
    pub subscribers: u64,
    /// Blocks they have.
    pub blocks: u64,
    /// Mappings on them.
    pub mappings: u64,
    /// The blocks, by subscriber: a thousand at most.
    pub list: Vec<BlockView>,
}

/// A block of public ports that a subscriber has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockView {
    /// The subscriber's own address.
    pub private: IpAddr,
    /// The network instance it is in.
    pub instance: String,
    /// Its public address.
    pub public: IpAddr,
    /// First and last port.
    pub ports: [u16; 2],
    /// Mappings on them.
    pub mappings: u16,
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
    /// Its rules: kind (`pdr`, `far`, `qer`, `urr`), number, and what it says.
    pub rules: Vec<(String, u32, String)>,
    /// What its URRs have measured.
    pub usage: Vec<RuleUsage>,
    /// What its QERs let pass.
    #[serde(default)]
    pub credits: Vec<CreditView>,
    /// Its control plane, and the session's numbers: the control plane's and ours; none: it is simulated.
    #[serde(default)]
    pub control_plane: Option<(String, u64, u64)>,
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
    pub idle: Option<f64>,
}
