//! Which entries are wanted, and the options that say so.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConnectedRequest, ConnectedView, Top};
use crate::cli::{Key, Keys};

/// What an entry must have; what is left out does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    /// IMSI or SUPI; `imsi-` before it may be left out.
    pub imsi: Option<String>,
    /// MSISDN or GPSI; `msisdn-` before it may be left out.
    pub msisdn: Option<String>,
    /// An address of the subscriber, or one in a prefix of its.
    pub address: Option<IpAddr>,
    /// A tunnel endpoint identifier on our side.
    pub teid: Option<u32>,
    /// The session's identifier here, or at its control plane.
    pub seid: Option<u64>,
    /// The data network's name, or the network instance.
    pub dnn: Option<String>,
    /// The hardware address.
    pub mac: Option<String>,
    /// The subscriber's name; with `*` at the end, how it begins.
    pub name: Option<String>,
    /// The group.
    pub group: Option<String>,
    /// The profile.
    pub profile: Option<String>,
    /// The port of the access line.
    pub port: Option<String>,
    /// The outer VLAN.
    pub s_vlan: Option<u16>,
    /// The inner VLAN.
    pub c_vlan: Option<u16>,
}

/// A text without a type in front of it, as in `imsi-001010000000001` (TS 29.571, 5.3.2).
fn bare<'a>(text: &'a str, kind: &str) -> &'a str {
    text.strip_prefix(kind).unwrap_or(text)
}

impl Filter {
    /// Names of the fields that are given.
    pub fn given(&self) -> Vec<&'static str> {
        let fields = [
            ("imsi", self.imsi.is_some()),
            ("msisdn", self.msisdn.is_some()),
            ("address", self.address.is_some()),
            ("teid", self.teid.is_some()),
            ("seid", self.seid.is_some()),
            ("dnn", self.dnn.is_some()),
            ("mac", self.mac.is_some()),
            ("name", self.name.is_some()),
            ("group", self.group.is_some()),
            ("profile", self.profile.is_some()),
            ("port", self.port.is_some()),
            ("s_vlan", self.s_vlan.is_some()),
            ("c_vlan", self.c_vlan.is_some()),
        ];
        fields.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }

    /// Whether an entry has all of it.
    pub fn matches(&self, entry: &ConnectedView) -> bool {
        let is = |wanted: &Option<String>, there: &Option<String>| wanted.is_none() || wanted == there;
        let typed = |wanted: &Option<String>, there: &Option<String>, kind: &str| {
            let same = |wanted: &str| there.as_deref().is_some_and(|there| bare(there, kind) == bare(wanted, kind));
            wanted.as_deref().is_none_or(same)
        };
        let dnn = |wanted: &String| [&entry.dnn, &entry.network_instance].contains(&&Some(wanted.clone()));
        let seid = |wanted: u64| [entry.seid, entry.cp_seid].into_iter().flatten().any(|seid| seid.0 == wanted);
        let mac = |wanted: &str| entry.mac.as_deref().is_some_and(|mac| mac.eq_ignore_ascii_case(wanted));
        let name = |wanted: &str| match (entry.name.as_deref(), wanted.strip_suffix('*')) {
            (Some(name), Some(begin)) => name.starts_with(begin),
            (name, None) => name == Some(wanted),
            (None, Some(_)) => false,
        };
        self.teid.is_none_or(|teid| entry.teids.contains(&teid))
            && self.seid.is_none_or(seid)
            && self.mac.as_deref().is_none_or(mac)
            && self.name.as_deref().is_none_or(name)
            && self.dnn.as_ref().is_none_or(dnn)
            && typed(&self.imsi, &entry.imsi, "imsi-")
            && typed(&self.msisdn, &entry.msisdn, "msisdn-")
            && is(&self.group, &entry.group)
            && is(&self.profile, &entry.profile)
            && is(&self.port, &entry.port)
            && self.s_vlan.is_none_or(|id| entry.s_vlan == Some(id))
            && self.c_vlan.is_none_or(|id| entry.c_vlan == Some(id))
            && self.address.is_none_or(|address| entry.addresses.iter().any(|text| holds(text, address)))
    }

    /// Takes a field from the command line or from a query: its name and value.
    ///
    /// # Errors
    /// There is no such field, or the value is none; a sentence.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let text = || Some(value.to_owned());
        let bad = |allowed: &str| format!("{name}: invalid value \"{value}\"; allowed: {allowed}");
        let vlan = || value.parse().map(Some).map_err(|_| bad("a VLAN identifier, 0 to 4094"));
        match name {
            "imsi" => self.imsi = text(),
            "msisdn" => self.msisdn = text(),
            "dnn" => self.dnn = text(),
            "mac" => self.mac = text(),
            "name" => self.name = text(),
            "group" => self.group = text(),
            "profile" => self.profile = text(),
            "port" => self.port = text(),
            "address" => self.address = Some(value.parse().map_err(|_| bad("an IP address"))?),
            "teid" => {
                let teid = number(value).and_then(|teid| u32::try_from(teid).ok());
                self.teid = Some(teid.ok_or_else(|| bad("a number of 32 bits, such as 0x1f or 31"))?);
            }
            "seid" => {
                self.seid = Some(number(value).ok_or_else(|| bad("a number of 64 bits, such as 0x1f or 31"))?);
            }
            "s_vlan" => self.s_vlan = vlan()?,
            "c_vlan" => self.c_vlan = vlan()?,
            _ => return Err(format!("unknown key \"{name}\"; allowed: {FIELDS}")),
        }
        Ok(())
    }
}

const FIELDS: &str = "imsi, msisdn, address, teid, seid, dnn, mac, name, group, profile, port, s_vlan, c_vlan";

/// A number in decimal or, after `0x`, hexadecimal digits.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether an address is that of the text, or in its prefix.
fn holds(text: &str, address: IpAddr) -> bool {
    let (base, len) = text.split_once('/').map_or((text, None), |(base, len)| (base, len.parse::<u32>().ok()));
    match (base.parse(), address) {
        (Ok(IpAddr::V4(base)), IpAddr::V4(address)) => {
            let shift = 32 - len.unwrap_or(32).min(32);
            (base.to_bits() ^ address.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        (Ok(IpAddr::V6(base)), IpAddr::V6(address)) => {
            let shift = 128 - len.unwrap_or(128).min(128);
            (base.to_bits() ^ address.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        _ => false,
    }
}

const fn key(name: &'static str, value: &'static str, help: &'static str) -> Key {
    Key { name, value, help }
}

/// Options that name one subscriber, of `weir show` and `weir trace` (which has `--ue` of its own).
pub const SELECTORS: &[Key] = &[
    key("imsi", "IMSI|SUPI", "The subscriber with this identity, such as 001010000000001"),
    key("msisdn", "MSISDN", "The subscriber with this telephone number"),
    key("teid", "TEID", "The session with this tunnel endpoint of ours, such as 0x1f"),
    key("seid", "SEID", "The session with this identifier, here or at its control plane"),
    key("modem", "MAC|ADDRESS", "The cable modem: its hardware address, or the address of a host behind it"),
    key("subscriber", "NAME|ADDRESS", "The subscriber of a broadband gateway: its name, or an address of its"),
    key("mac", "MAC", "The modem, or the subscriber's device, with this hardware address"),
];

/// The option that chooses by several fields at once.
pub const FILTER: Key = key("filter", "KEY=VALUE,…", "Those that have all of these, such as group=olt1,s_vlan=100");

/// Options of the tables.
pub const KEYS: &[Key] = &[
    key("ue", "ADDRESS", "The subscriber with this address; alone with `sessions`: its rules and usage"),
    SELECTORS[0],
    SELECTORS[1],
    SELECTORS[2],
    SELECTORS[3],
    SELECTORS[4],
    SELECTORS[5],
    SELECTORS[6],
    key("dnn", "NAME", "Sessions of this data network (DNN, APN) or network instance"),
    key("group", "NAME", "Those of this group or service group"),
    key("profile", "NAME", "Those of this profile"),
    FILTER,
    key("top", "rate|bytes", "Those with the most traffic, by rate (over --over, default 1 s) or by bytes"),
    key("limit", "N", "Entries of a page, 1 to 1000 [default: 50]"),
    key("after", "NUMBER", "The page behind this number, which the page before names"),
];

/// Entries of a page.
fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=super::MOST).contains(limit));
    limit.ok_or_else(|| format!("limit {text}: allowed: 1 to {}", super::MOST))
}

/// The request that those options make.
///
/// # Errors
/// A value is invalid; a sentence.
pub fn request(keys: &Keys, over: Option<f64>) -> Result<ConnectedRequest, String> {
    let mut request = ConnectedRequest { over_seconds: over.unwrap_or(0.0), ..ConnectedRequest::default() };
    for (name, value) in &keys.0 {
        let is_address = value.parse::<IpAddr>().is_ok();
        match *name {
            "limit" => request.limit = limit(value)?,
            "after" => {
                request.after = Some(value.parse().map_err(|_| format!("--after {value}: this is not a number"))?);
            }
            "top" => {
                request.top = Some(match value.as_str() {
                    "rate" => Top::Rate,
                    "bytes" => Top::Bytes,
                    _ => return Err(format!("--top {value}: allowed: rate, bytes")),
                });
            }
            "filter" => {
                for part in value.split(',').map(str::trim).filter(|part| !part.is_empty()) {
                    let pair = part.split_once('=').ok_or_else(|| format!("\"{part}\" is not KEY=VALUE"))?;
                    match (pair.0.trim(), pair.1.trim()) {
                        ("limit", value) => request.limit = limit(value)?,
                        ("offset", _) => return Err("offset: pages go on with --after NUMBER".to_owned()),
                        (name, value) => request.filter.set(name, value)?,
                    }
                }
            }
            "ue" => request.filter.set("address", value)?,
            "modem" | "subscriber" if is_address => request.filter.set("address", value)?,
            "modem" => request.filter.set("mac", value)?,
            "subscriber" => request.filter.set("name", value)?,
            name => request.filter.set(name, value)?,
        }
    }
    if request.top.is_some() && request.after.is_some() {
        return Err("--top and --after exclude each other: --top looks at all".to_owned());
    }
    Ok(request)
}

/// The filter that a text stands for: `KEY=VALUE,…` as `--filter` has it, or a value alone, whose key its form tells: an
/// IP address, a hardware address, an IMSI (digits, or `imsi-…`), else how a name begins.
///
/// # Errors
/// A key or a value is invalid; a sentence.
pub fn filter_of(text: &str) -> Result<Filter, String> {
    let text = text.trim();
    let is_mac =
        text.len() == 17 && text.split(':').all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()));
    let is_imsi = text.starts_with("imsi-") || text.len() > 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let option = match text {
        "" => return Ok(Filter::default()),
        _ if text.contains('=') => ("filter", text.to_owned()),
        _ if text.parse::<IpAddr>().is_ok() => ("ue", text.to_owned()),
        _ if is_mac => ("mac", text.to_owned()),
        _ if is_imsi => ("imsi", text.to_owned()),
        name => ("filter", format!("name={}*", name.trim_end_matches('*'))),
    };
    request(&Keys(vec![option]), None).map(|request| request.filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_text_tells_its_key() {
        let of = |text: &str| filter_of(text).unwrap();
        assert_eq!(of(" "), Filter::default());
        assert_eq!(of("10.0.0.1").address, Some(IpAddr::from([10, 0, 0, 1])));
        assert_eq!(of("02:cb:00:00:00:01").mac.as_deref(), Some("02:cb:00:00:00:01"));
        assert_eq!(of("001010000000001").imsi.as_deref(), Some("001010000000001"));
        assert_eq!(of("pon").name.as_deref(), Some("pon*"));
        assert_eq!((of("dnn=a,s_vlan=7").dnn.as_deref(), of("dnn=a,s_vlan=7").s_vlan), (Some("a"), Some(7)));
        assert!(filter_of("x=1").is_err_and(|error| error.contains("unknown key")));
    }
}
