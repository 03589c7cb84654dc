//! Rules as they are written.

use std::ops::RangeInclusive;

use dataplane::config::{ConfigError, parse_mac, parse_prefix, wrong};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::Mac;

use super::Action;
use crate::rules::{ANY_IP, DENY, Match, PERMIT, Rule, TCP_OR_UDP};

/// A rule of a filter group or of a set of classifiers. What is left out matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RuleEntry {
    /// Higher ones are asked first.
    pub priority: u16,
    /// Of a filter: what it does.
    pub action: Option<Action>,
    /// Of a classifier: the name of the service flow.
    pub flow: Option<String>,
    /// Type of service: low, high, mask.
    pub tos: Option<[u8; 3]>,
    /// A number, `"tcp"`, `"udp"`, `"icmp"`, `"any"` or `"tcp/udp"`.
    pub protocol: Option<Protocol>,
    /// Source prefix.
    pub source: Option<String>,
    /// Destination prefix.
    pub destination: Option<String>,
    /// Source ports: `53` or `1024-65535`.
    pub source_ports: Option<Ports>,
    /// Destination ports.
    pub destination_ports: Option<Ports>,
    /// IPv6 flow label.
    pub flow_label: Option<u32>,
    /// Ethernet destination, with a mask if there is one: `02:00:00:00:00:01/ff:ff:ff:00:00:00`.
    pub destination_mac: Option<String>,
    /// Ethernet source.
    pub source_mac: Option<String>,
    /// Ethernet type.
    pub ethertype: Option<u16>,
    /// 802.1P priorities: low, high.
    pub user_priority: Option<[u8; 2]>,
    /// VLAN identifier.
    pub vlan: Option<u16>,
}

/// A protocol as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Protocol {
    /// Its number.
    Number(u16),
    /// Its name.
    Name(String),
}

/// Ports as they are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Ports {
    /// One.
    One(u16),
    /// A range.
    Range(String),
}

impl Ports {
    fn range(&self) -> Option<RangeInclusive<u16>> {
        match self {
            Ports::One(port) => Some(*port..=*port),
            Ports::Range(text) => {
                let (low, high) = text.split_once('-').unwrap_or((text, text));
                let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
                (low <= high).then_some(low..=high)
            }
        }
    }
}

fn mask4(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

fn mask6(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

/// The number of a service flow by its name.
pub type FlowByName<'a> = &'a dyn Fn(&str) -> Option<u8>;

/// The rules of list `n` under `section`. `flow` tells the number of a service flow by name, for classifiers; filters
/// have none.
///
/// # Errors
/// What is wrong, by key.
pub fn rules(
    section: &str,
    n: usize,
    entries: &[RuleEntry],
    flow: Option<FlowByName<'_>>,
) -> Result<Vec<Rule>, ConfigError> {
    let rules: Vec<_> =
        entries.iter().enumerate().map(|(m, entry)| rule(section, n, m, entry, flow)).collect::<Result<_, _>>()?;
    let same = |a: &Rule, b: &Rule| (a.priority, &a.fields) == (b.priority, &b.fields);
    for (m, rule) in rules.iter().enumerate() {
        if let Some(first) = rules[..m].iter().position(|other| same(other, rule)) {
            let what = format!("rule {m} matches what rule {first} does, at the same priority: it is never evaluated");
            return Err(wrong(&[&section, &n, &"rule", &m, &"priority"], what, "another priority, or leave it out"));
        }
    }
    Ok(rules)
}

/// The highest priority of a classifier: it has eight bits (CM-SP-MULPI, TLV 22.5 and 23.5).
const CLASSIFIER_PRIORITY: u16 = 255;

/// An error of one rule, at a key of it.
type Fail<'a> = &'a dyn Fn(&str, String, &str) -> ConfigError;

fn rule(
    section: &str,
    n: usize,
    m: usize,
    entry: &RuleEntry,
    flow: Option<FlowByName<'_>>,
) -> Result<Rule, ConfigError> {
    let fail: Fail<'_> = &|key, what, help| wrong(&[&section, &n, &"rule", &m, &key], what, help);
    let then = then(entry, flow, fail)?;
    if flow.is_some() && entry.priority > CLASSIFIER_PRIORITY {
        let what = format!("{} is no priority of a classifier", entry.priority);
        return Err(fail("priority", what, "0 to 255, higher ones are evaluated first"));
    }
    let protocol = protocol(entry, fail)?;
    let mut fields = Match { protocol, flow_label: entry.flow_label, ethertype: entry.ethertype, ..Match::default() };
    addresses(entry, &mut fields, fail)?;
    ports(entry, &mut fields, fail)?;
    marks(entry, &mut fields, fail)?;
    hardware_addresses(entry, &mut fields, fail)?;
    Ok(Rule { priority: entry.priority, fields, then })
}

/// What a rule does: a filter permits or denies, a classifier chooses a service flow.
fn then(entry: &RuleEntry, flow: Option<FlowByName<'_>>, fail: Fail<'_>) -> Result<u8, ConfigError> {
    match (flow, entry.action, &entry.flow) {
        (None, action, None) => Ok(match action.unwrap_or_default() {
            Action::Permit => PERMIT,
            Action::Deny => DENY,
        }),
        (None, _, Some(_)) => Err(fail("flow", "a filter chooses no service flow".into(), "leave it out")),
        (Some(_), Some(_), _) => Err(fail("action", "a classifier permits nothing".into(), "leave it out")),
        (Some(flow), None, Some(name)) => flow(name).ok_or_else(|| {
            let what = format!("no profile with these classifiers has a service flow \"{name}\"");
            fail("flow", what, "name one of its flows")
        }),
        (Some(_), None, None) => {
            Err(fail("flow", "a classifier chooses a service flow".into(), "flow = \"the flow's name\""))
        }
    }
}

fn protocol(entry: &RuleEntry, fail: Fail<'_>) -> Result<Option<u16>, ConfigError> {
    let number = match &entry.protocol {
        None => return Ok(None),
        Some(Protocol::Number(number)) if *number <= TCP_OR_UDP => *number,
        Some(Protocol::Number(number)) => {
            let help = "0 to 255, 256 for any, 257 for TCP or UDP";
            return Err(fail("protocol", format!("{number} is no protocol"), help));
        }
        Some(Protocol::Name(name)) => match name.as_str() {
            "tcp" => 6,
            "udp" => 17,
            "icmp" => 1,
            "any" => ANY_IP,
            "tcp/udp" => TCP_OR_UDP,
            _ => {
                let what = format!("no protocol is called \"{name}\"");
                return Err(fail("protocol", what, "tcp, udp, icmp, or its number"));
            }
        },
    };
    Ok(Some(number))
}

fn addresses(entry: &RuleEntry, fields: &mut Match, fail: Fail<'_>) -> Result<(), ConfigError> {
    for (key, text, is_src) in [("source", &entry.source, true), ("destination", &entry.destination, false)] {
        let Some(text) = text else { continue };
        match parse_prefix(text) {
            Some((std::net::IpAddr::V4(address), len)) => {
                let value = Some((address.into(), mask4(len)));
                *if is_src { &mut fields.src4 } else { &mut fields.dst4 } = value;
            }
            Some((std::net::IpAddr::V6(address), len)) => {
                let value = Some((address.into(), mask6(len)));
                *if is_src { &mut fields.src6 } else { &mut fields.dst6 } = value;
            }
            None => return Err(fail(key, format!("\"{text}\" is no prefix"), "such as 10.0.0.0/8")),
        }
    }
    Ok(())
}

fn ports(entry: &RuleEntry, fields: &mut Match, fail: Fail<'_>) -> Result<(), ConfigError> {
    for (key, ports, is_src) in
        [("source_ports", &entry.source_ports, true), ("destination_ports", &entry.destination_ports, false)]
    {
        let Some(ports) = ports else { continue };
        let range = ports.range();
        let range =
            range.ok_or_else(|| fail(key, "that is no port or range of ports".into(), "53 or \"1024-65535\""))?;
        *if is_src { &mut fields.src_ports } else { &mut fields.dst_ports } = Some(range);
    }
    Ok(())
}

/// Type of service, user priority, VLAN.
fn marks(entry: &RuleEntry, fields: &mut Match, fail: Fail<'_>) -> Result<(), ConfigError> {
    if let Some([low, high, mask]) = entry.tos {
        if low > high || low & !mask != 0 {
            return Err(fail("tos", "matches nothing".into(), "[low, high, mask] with low <= high within the mask"));
        }
        fields.tos = Some((low, high, mask));
    }
    if let Some([low, high]) = entry.user_priority {
        if low > high || high > 7 {
            return Err(fail("user_priority", "matches nothing".into(), "[low, high], 0 to 7"));
        }
        fields.user_priority = Some(low..=high);
    }
    if entry.vlan.is_some_and(|vlan| vlan > 4095) {
        return Err(fail("vlan", "no such VLAN".into(), "0 to 4095"));
    }
    fields.vlan = entry.vlan;
    Ok(())
}

fn hardware_addresses(entry: &RuleEntry, fields: &mut Match, fail: Fail<'_>) -> Result<(), ConfigError> {
    if let Some(text) = &entry.destination_mac {
        let (mac, mask) = text.split_once('/').unwrap_or((text, "ff:ff:ff:ff:ff:ff"));
        let pair = parse_mac(mac).zip(parse_mac(mask));
        let help = "such as 02:00:00:00:00:01, with a mask or without";
        let (mac, mask) =
            pair.ok_or_else(|| fail("destination_mac", format!("\"{text}\" is no hardware address"), help))?;
        fields.dst_mac = Some((Mac(mac), Mac(mask)));
    }
    if let Some(text) = &entry.source_mac {
        let help = "such as 02:00:00:00:00:01";
        let mac = parse_mac(text);
        let mac = mac.ok_or_else(|| fail("source_mac", format!("\"{text}\" is no hardware address"), help))?;
        fields.src_mac = Some(Mac(mac));
    }
    Ok(())
}
