//! The end of N4, Sxa and Sxb: who may speak to us, how much, and what they may name.

use std::net::IpAddr;
use std::path::PathBuf;

use dataplane::config::Nat;
use dataplane::forward::{prefix4, prefix6};
use pfcp::ie::NodeId;
use pfcp::node::{Pin, contains};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, Port, Role, parse_prefix, parse_rate, wrong};

/// The end of N4, Sxa and Sxb.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct N4 {
    /// Our address for PFCP.
    pub address: IpAddr,
    /// Our UDP port.
    #[serde(default = "pfcp_port")]
    pub port: u16,
    /// What we call ourselves: a domain name; left out: the address.
    #[serde(default)]
    pub node_id: Option<String>,
    /// Networks that control planes may speak from: `10.0.4.0/24`; empty: all.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Control planes whose addresses, and perhaps limits, are fixed.
    #[serde(default)]
    pub peer: Vec<Peer>,
    /// Associations of one address at most, beside those of `peer`.
    #[serde(default = "associations_per_address")]
    pub associations_per_address: u32,
    /// We choose tunnel endpoints (FTUP); otherwise the control plane does, for whatever address of ours it knows.
    #[serde(default = "yes")]
    pub choose_f_teid: bool,
    /// The access port through which packets between subscribers and control planes go by GTP-U (router solicitations and
    /// advertisements); left out: a UDP socket at `address`, port 2152.
    #[serde(default)]
    pub cp_port: Option<String>,
    /// Capacity by network instance that guaranteed bit rates may take; networks that are not here have no limit.
    #[serde(default)]
    pub gbr_capacity: Vec<GbrCapacity>,
    /// What becomes of rules with a network instance that no port is in: `"refuse"`, or `"first"`, which takes them for the
    /// first network of the side (core or access), counted and shown. Left out: refused where the side's ports name their
    /// network instances, else taken.
    #[serde(default)]
    pub unknown_network_instance: Option<UnknownNetworkInstance>,
    /// Seconds between heartbeats; 0: none are sent.
    #[serde(default = "heartbeat_seconds", deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub heartbeat_seconds: u32,
    /// A control plane that has never answered a heartbeat is lost; otherwise that means nothing, for some never do.
    #[serde(default)]
    pub silence_is_loss: bool,
    /// Seconds that the sessions of a lost control plane are kept.
    #[serde(
        default = "session_retention_seconds",
        alias = "keep_seconds",
        deserialize_with = "quantity::read::seconds::deserialize"
    )]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub session_retention_seconds: u32,
    /// Sessions at most.
    #[serde(default = "most_sessions")]
    pub sessions: u32,
    /// Sessions of one control plane at most, whatever Node IDs it has; left out: as many as there may be in all.
    #[serde(default)]
    pub sessions_per_peer: Option<u32>,
    /// Messages a second that one control plane may send.
    #[serde(default = "messages_per_second")]
    pub messages_per_second: u32,
    /// Folder of a ledger in which sessions survive a restart; left out: they end with the process, and control planes
    /// see it by the Recovery Time Stamp.
    #[serde(default)]
    pub ledger: Option<PathBuf>,
    /// What to do with a ledger that is damaged: begin a new one, or do not start.
    #[serde(default)]
    pub ledger_damaged: LedgerDamaged,
    /// With a ledger: seconds within which what every session has used is written down, that much a crash may cost.
    #[serde(default = "checkpoint_seconds", deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub checkpoint_seconds: u32,
    /// Rules of each kind that a session may have.
    #[serde(default = "rules_per_session")]
    pub rules_per_session: u32,
    /// Subscribers' addresses by network instance.
    #[serde(default)]
    pub pool: Vec<Pool>,
    /// Names of data networks (DNN, APN) that control planes have for network instances.
    #[serde(default)]
    pub dnn: Vec<Dnn>,
    /// What control planes name in a Forwarding Policy (3GPP TS 29.244, 8.2.23).
    #[serde(default)]
    pub policy: Vec<Policy>,
    /// Rules that control planes activate by name (8.2.72).
    #[serde(default)]
    pub predefined: Vec<Predefined>,
}

/// Capacity that guaranteed bit rates of a network instance's subscribers may take.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GbrCapacity {
    /// The network instance; left out: `core`.
    #[serde(default)]
    pub instance: Option<String>,
    /// From subscribers: `"1 Gbit/s"`; left out: no limit.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub up: Option<String>,
    /// To subscribers, as `up`.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub down: Option<String>,
}

/// What becomes of rules with a network instance that no port is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnknownNetworkInstance {
    /// They are refused.
    Refuse,
    /// They are taken for the first network of the side, counted and shown.
    First,
}

/// A control plane: its Node ID is accepted from these addresses only, and they are one peer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its Node ID: a domain name or an address.
    pub node_id: String,
    /// Where its messages come from: addresses and networks, those of the other members of its SMF set too.
    pub addresses: Vec<String>,
    /// Sessions at most; left out: `sessions_per_peer`.
    #[serde(default)]
    pub sessions: Option<u32>,
    /// Messages a second; left out: as `n4.messages_per_second`.
    #[serde(default)]
    pub messages_per_second: Option<u32>,
}

impl Peer {
    /// As PFCP's end goes by it.
    pub fn pin(&self) -> Pin {
        let node_id = match self.node_id.parse::<IpAddr>() {
            Ok(address) => address.into(),
            Err(_) => NodeId::Fqdn(self.node_id.as_str().into()),
        };
        Pin {
            node_id,
            addresses: self.addresses.iter().filter_map(|text| network(text)).collect(),
            sessions: self.sessions,
            message_rate: self.messages_per_second,
        }
    }
}

/// A network, or an address alone.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let alone = |address: IpAddr| (address, if address.is_ipv4() { 32 } else { 128 });
    parse_prefix(text).or_else(|| text.parse().ok().map(alone))
}

/// A way to forward packets, by name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What control planes call it.
    pub name: String,
    /// The network instance to forward in, with its own routes; left out: the one the control plane names.
    #[serde(default)]
    pub instance: Option<String>,
    /// DSCP of the packets, or of their tunnel; what the control plane asks for goes first.
    #[serde(default)]
    pub dscp: Option<u8>,
    /// The next hop, on a link of a core port, whatever the routes of its network say: of what inspects or steers traffic,
    /// say. Packets that go into a tunnel go where it leads.
    #[serde(default, alias = "via")]
    pub next_hop: Option<IpAddr>,
}

impl Policy {
    /// The network to forward in: the one named, or that of the next hop; none: the control plane's.
    pub fn network<'a>(&'a self, config: &'a Config) -> Option<&'a str> {
        let of_hop = || Some(self.link(config)?.instance());
        self.instance.as_deref().or_else(of_hop)
    }

    /// The port on whose link the next hop is.
    fn link<'a>(&self, config: &'a Config) -> Option<&'a Port> {
        let via = self.next_hop?;
        let covers = |text: &String| match (parse_prefix(text), via) {
            (Some((IpAddr::V4(ours), len)), IpAddr::V4(via)) => prefix4(ours.into(), len) == prefix4(via.into(), len),
            (Some((IpAddr::V6(ours), len)), IpAddr::V6(via)) => prefix6(ours.into(), len) == prefix6(via.into(), len),
            _ => false,
        };
        let here = |port: &&Port| self.instance.as_deref().is_none_or(|name| name == port.instance());
        let mut core = config.port.iter().filter(|port| port.role == Role::Core).filter(here);
        core.find(|port| port.addresses.iter().any(covers))
    }
}

/// Rules that a control plane activates by name for the tunnel or address of one of its PDRs. What is left out is the
/// PDR's.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Predefined {
    /// What control planes call them.
    pub name: String,
    /// SDF filters as flow descriptions: `permit out 17 from 198.51.100.0/24 to assigned`.
    #[serde(default)]
    pub filters: Vec<String>,
    /// Precedence; lower values are tried first.
    #[serde(default)]
    pub precedence: Option<u32>,
    /// What becomes of the packets.
    #[serde(default)]
    pub action: Option<Action>,
    /// The policy that packets are forwarded by.
    #[serde(default)]
    pub policy: Option<String>,
    /// Maximum bit rate, of each session and beside those of the PDR: `"1 Mbit/s"`.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub mbr_up: Option<String>,
    /// As `mbr_up`.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub mbr_down: Option<String>,
    /// QoS flow that packets to the subscriber are marked with.
    #[serde(default)]
    pub qfi: Option<u8>,
    /// The page that subscribers are sent to, with the action `redirect`.
    #[serde(default)]
    pub page: Option<String>,
    /// How the packets are measured, beside what the PDR asks for.
    #[serde(default)]
    pub usage: Option<PredefinedUsage>,
}

/// The usage reporting rule of a predefined rule: it begins with the first PDR of a session that activates the rule, and
/// its last report comes when the last one deactivates it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PredefinedUsage {
    /// Its number, 0 to 2147483647. In reports the highest bit is set beside it, which says that the number is the user
    /// plane's (8.2.54). Rules with the same number are measured together.
    pub id: u32,
    /// Octets after which usage is reported.
    #[serde(default, deserialize_with = "quantity::read::bytes::optional")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub volume_threshold: Option<u64>,
    /// Octets that may pass; a control plane that changes the rule by its number gives more.
    #[serde(default, deserialize_with = "quantity::read::bytes::optional")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub volume_quota: Option<u64>,
    /// Seconds of use after which it is reported.
    #[serde(default, deserialize_with = "quantity::read::seconds::optional")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub time_threshold: Option<u32>,
    /// Seconds between reports.
    #[serde(default, deserialize_with = "quantity::read::seconds::optional")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub period: Option<u32>,
}

/// What a predefined rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Forward, as the PDR's FAR says.
    Forward,
    /// Drop.
    Drop,
    /// Send the subscriber to a page.
    Redirect,
}

fn associations_per_address() -> u32 {
    4
}

fn rules_per_session() -> u32 {
    64
}

/// What becomes of a damaged ledger at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerDamaged {
    /// It is renamed and kept, and the gateway begins with an empty one and a new Recovery Time Stamp: control planes know
    /// then that their sessions are gone, and make them anew. The default: a gateway that does not start serves nobody, and
    /// nothing is deleted.
    #[default]
    SetAside,
    /// The gateway does not start.
    Stop,
}

fn checkpoint_seconds() -> u32 {
    30
}

fn pfcp_port() -> u16 {
    pfcp::PORT
}

fn yes() -> bool {
    true
}

fn heartbeat_seconds() -> u32 {
    60
}

fn session_retention_seconds() -> u32 {
    120
}

fn most_sessions() -> u32 {
    1_000_000
}

fn messages_per_second() -> u32 {
    200_000
}

/// A name that control planes have for a network instance, beside its own. With at least one, rules with a core-side name that
/// is neither are refused, unless `unknown_network_instance = "first"`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dnn {
    /// The name, as in the Network Instance of rules: `internet`.
    pub name: String,
    /// The network instance it means; left out: `core`.
    #[serde(default)]
    pub instance: Option<String>,
}

/// Subscribers' addresses in a network instance: given out by us where a control plane asks for it (CHV4, CHV6), and
/// what each worker's part is where it chooses itself.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The network instance; left out: `core`.
    #[serde(default)]
    pub instance: Option<String>,
    /// IPv4 addresses: `10.45.0.0/16`.
    #[serde(default)]
    pub v4: Option<String>,
    /// IPv6 addresses, a /64 for each subscriber: `2001:db8::/48`.
    #[serde(default)]
    pub v6: Option<String>,
}

impl Pool {
    /// Checks that each worker has an address of pool number `n`.
    fn check_size(&self, n: usize, workers: u16) -> Result<(), ConfigError> {
        let hosts = |bits: u32| 1_u64.checked_shl(bits).unwrap_or(u64::MAX);
        let v4 = |len: u8| if len > 30 { hosts(32 - u32::from(len)) } else { hosts(32 - u32::from(len)) - 2 };
        let v6 = |len: u8| hosts(64 - u32::from(len));
        let length = |text: &Option<String>| parse_prefix(text.as_ref()?).map(|(_, len)| len);
        for (key, count) in [("v4", length(&self.v4).map(v4)), ("v6", length(&self.v6).map(v6))] {
            if let Some(count) = count.filter(|count| *count < workers.into()) {
                let what = format!("{count} subscribers' addresses for {workers} workers");
                return Err(wrong(&[&"n4", &"pool", &n, &key], what, "a shorter prefix, or fewer workers"));
            }
        }
        Ok(())
    }
}

impl N4 {
    pub(super) fn check(&self, config: &Config) -> Result<(), ConfigError> {
        for (n, text) in self.allow.iter().enumerate() {
            if parse_prefix(text).is_none() {
                let what = format!("\"{text}\" is no network");
                return Err(wrong(&[&"n4", &"allow", &n], what, "such as 10.0.4.0/24"));
            }
        }
        if let Some(name) = &self.cp_port
            && !config.port.iter().any(|port| port.name == *name && port.role == Role::Access)
        {
            let access = config.port.iter().filter(|port| port.role == Role::Access).map(|port| &*port.name);
            let what = format!("\"{name}\" is no access port: GTP-U ends at none other");
            let help = format!("one of {}", access.collect::<Vec<_>>().join(", "));
            return Err(wrong(&[&"n4", &"cp_port"], what, help));
        }
        self.check_peers()?;
        if self.checkpoint_seconds == 0 {
            let what = "a checkpoint at all times is none".to_owned();
            return Err(wrong(&[&"n4", &"checkpoint_seconds"], what, "1 or more; 30 when left out"));
        }
        let instances = config.instances();
        for (n, pool) in self.pool.iter().enumerate() {
            if let Some(name) = pool.instance.as_ref().filter(|name| !instances.contains(name)) {
                let what = format!("no port is in network instance \"{name}\"");
                let help = format!("one of {}", instances.join(", "));
                return Err(wrong(&[&"n4", &"pool", &n, &"instance"], what, help));
            }
            if pool.v4.is_none() && pool.v6.is_none() {
                return Err(wrong(&[&"n4", &"pool", &n], "a pool without addresses", "v4 = \"10.45.0.0/16\""));
            }
            if let Some(text) = &pool.v4
                && !parse_prefix(text).is_some_and(|(address, len)| address.is_ipv4() && len >= 4)
            {
                let what = format!("\"{text}\" is no IPv4 network");
                return Err(wrong(&[&"n4", &"pool", &n, &"v4"], what, "such as 10.45.0.0/16"));
            }
            if let Some(text) = &pool.v6
                && !parse_prefix(text).is_some_and(|(address, len)| address.is_ipv6() && (16..=64).contains(&len))
            {
                let what = format!("\"{text}\" is no IPv6 network of 64 bits or less");
                return Err(wrong(&[&"n4", &"pool", &n, &"v6"], what, "such as 2001:db8::/48"));
            }
            pool.check_size(n, config.workers.count)?;
        }
        self.check_dnns(&instances)?;
        for (n, capacity) in self.gbr_capacity.iter().enumerate() {
            if let Some(name) = capacity.instance.as_ref().filter(|name| !instances.contains(name)) {
                let what = format!("no port is in network instance \"{name}\"");
                let help = format!("one of {}", instances.join(", "));
                return Err(wrong(&[&"n4", &"gbr_capacity", &n, &"instance"], what, help));
            }
            for (key, rate) in [("up", &capacity.up), ("down", &capacity.down)] {
                if let Some(rate) = rate.as_ref().filter(|rate| parse_rate(rate).is_none()) {
                    let what = format!("\"{rate}\" is no rate");
                    return Err(wrong(&[&"n4", &"gbr_capacity", &n, &key], what, "such as \"1 Gbit/s\""));
                }
            }
        }
        if self.rules_per_session == 0 {
            return Err(wrong(&[&"n4", &"rules_per_session"], "a session without rules", "such as 64"));
        }
        self.check_named(config, &instances)
    }

    fn check_dnns(&self, instances: &[String]) -> Result<(), ConfigError> {
        for (n, dnn) in self.dnn.iter().enumerate() {
            let is_twice = self.dnn[..n].iter().any(|other| other.name == dnn.name);
            if dnn.name.is_empty() || is_twice || instances.contains(&dnn.name) {
                let what = format!("\"{}\" is empty, given twice, or a network instance of its own", dnn.name);
                return Err(wrong(&[&"n4", &"dnn", &n, &"name"], what, "one [[n4.dnn]] for each further name"));
            }
            if let Some(name) = dnn.instance.as_ref().filter(|name| !instances.contains(name)) {
                let what = format!("no port is in network instance \"{name}\"");
                let help = format!("one of {}", instances.join(", "));
                return Err(wrong(&[&"n4", &"dnn", &n, &"instance"], what, help));
            }
        }
        Ok(())
    }

    /// Control planes with fixed addresses.
    fn check_peers(&self) -> Result<(), ConfigError> {
        if self.associations_per_address == 0 {
            let what = "n4.associations_per_address = 0 refuses every control plane".to_owned();
            return Err(wrong(&[&"n4", &"associations_per_address"], what, "1 or more; 4 when left out"));
        }
        let allow: Vec<(IpAddr, u8)> = self.allow.iter().filter_map(|text| parse_prefix(text)).collect();
        for (n, peer) in self.peer.iter().enumerate() {
            let is_same = |other: &Peer| other.node_id.eq_ignore_ascii_case(&peer.node_id);
            if peer.node_id.is_empty() || self.peer[..n].iter().any(is_same) {
                let what = format!("node_id \"{}\" is empty or given twice", peer.node_id);
                return Err(wrong(&[&"n4", &"peer", &n, &"node_id"], what, "one [[n4.peer]] for each Node ID"));
            }
            if peer.addresses.is_empty() {
                let what = format!("control plane \"{}\" has no address", peer.node_id);
                return Err(wrong(&[&"n4", &"peer", &n, &"addresses"], what, "addresses = [\"10.0.4.9\"]"));
            }
            for (m, text) in peer.addresses.iter().enumerate() {
                let at: [&dyn ToString; 5] = [&"n4", &"peer", &n, &"addresses", &m];
                let Some((address, len)) = network(text) else {
                    let what = format!("\"{text}\" is neither an address nor a network");
                    return Err(wrong(&at, what, "such as 10.0.4.9 or 10.0.4.8/29"));
                };
                let is_allowed = allow.iter().any(|(network, of)| *of <= len && contains(*network, *of, address));
                if !allow.is_empty() && !is_allowed {
                    let what = format!("\"{text}\" is not within n4.allow, so nothing would be taken from there");
                    return Err(wrong(&at, what, "a network of n4.allow, or one more there"));
                }
            }
            for (key, limit) in [("sessions", peer.sessions), ("messages_per_second", peer.messages_per_second)] {
                if limit == Some(0) {
                    let what = format!("{key} = 0 leaves nothing to \"{}\"", peer.node_id);
                    return Err(wrong(&[&"n4", &"peer", &n, &key], what, "1 or more, or left out"));
                }
            }
        }
        Ok(())
    }

    /// What control planes name.
    fn check_named(&self, config: &Config, instances: &[String]) -> Result<(), ConfigError> {
        for (n, policy) in self.policy.iter().enumerate() {
            if self.policy[..n].iter().any(|other| other.name == policy.name) || policy.name.is_empty() {
                return Err(wrong(&[&"n4", &"policy", &n, &"name"], "no name of its own", "another name"));
            }
            if let Some(name) = policy.instance.as_ref().filter(|name| !instances.contains(name)) {
                let what = format!("no port is in network instance \"{name}\"");
                let help = format!("one of {}", instances.join(", "));
                return Err(wrong(&[&"n4", &"policy", &n, &"instance"], what, help));
            }
            if let Some(via) = policy.next_hop
                && policy.link(config).is_none()
            {
                let what = format!("{via} is on no link of a core port of the policy's network");
                return Err(wrong(&[&"n4", &"policy", &n, &"next_hop"], what, "such as 10.0.6.253"));
            }
            if policy.dscp.is_some_and(|dscp| dscp > 63) {
                return Err(wrong(&[&"n4", &"policy", &n, &"dscp"], "a DSCP is 0 to 63", "such as 34"));
            }
        }
        for (n, rule) in self.predefined.iter().enumerate() {
            if self.predefined[..n].iter().any(|other| other.name == rule.name) || rule.name.is_empty() {
                return Err(wrong(&[&"n4", &"predefined", &n, &"name"], "no name of its own", "another name"));
            }
            for (m, filter) in rule.filters.iter().enumerate() {
                if let Err(error) = filter.parse::<dataplane::filter::FlowDescription>() {
                    let help = "such as \"permit out 17 from 10.0.6.0/24 5000-5003 to assigned\"";
                    return Err(wrong(&[&"n4", &"predefined", &n, &"filters", &m], error.to_string(), help));
                }
            }
            if let Some(name) = rule.policy.as_ref().filter(|name| !self.policy.iter().any(|p| p.name == **name)) {
                let what = format!("there is no policy \"{name}\"");
                return Err(wrong(&[&"n4", &"predefined", &n, &"policy"], what, "one of [[n4.policy]]"));
            }
            if rule.qfi.is_some_and(|qfi| qfi > 63) {
                return Err(wrong(&[&"n4", &"predefined", &n, &"qfi"], "a QFI is 0 to 63", "such as 5"));
            }
            let is_page = rule.page.as_deref().is_some_and(|url| dataplane::redirect::page(url).is_some());
            if (rule.action == Some(Action::Redirect)) != rule.page.is_some() || (rule.page.is_some() && !is_page) {
                let help = "action = \"redirect\" with page = \"http://portal.example/\"";
                return Err(wrong(&[&"n4", &"predefined", &n, &"page"], "a page goes with redirection", help));
            }
            if rule.usage.as_ref().is_some_and(|usage| usage.id >= 1 << 31) {
                let help = "0 to 2147483647: the highest bit is set in reports anyway";
                return Err(wrong(&[&"n4", &"predefined", &n, &"usage", &"id"], "no number of a URR", help));
            }
            for (key, rate) in [("mbr_up", &rule.mbr_up), ("mbr_down", &rule.mbr_down)] {
                if rate.as_ref().is_some_and(|rate| parse_rate(rate).is_none()) {
                    return Err(wrong(&[&"n4", &"predefined", &n, &key], "no rate", "such as \"1 Mbit/s\""));
                }
            }
        }
        Ok(())
    }

    /// The network instance of a pool, by number.
    pub fn instance(pool: &Pool, config: &Config) -> dataplane::forward::InstanceId {
        let name = pool.instance.as_deref().unwrap_or("core");
        // A handful of names, checked before.
        config.instances().iter().position(|n| n == name).unwrap_or(1) as dataplane::forward::InstanceId
    }
}

/// No address is both a subscriber's and translated to.
pub(super) fn check_apart(nat: &Nat, config: &Config) -> Result<(), ConfigError> {
    let Some(n4) = &config.n4 else { return Ok(()) };
    let subscribers = crate::n4::assemble::pools(n4, config);
    for (n, pool) in nat.pool.iter().enumerate() {
        let Some(public) = pool.range() else { continue };
        if subscribers.has_any4(config.instance(pool.instance.as_deref()), public) {
            let what = format!("a pool of n4.pool has addresses of {}, too", pool.addresses);
            return Err(wrong(&[&"nat", &"pool", &n, &"addresses"], what, "give each its own range"));
        }
    }
    Ok(())
}
