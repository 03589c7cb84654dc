//! `[sessions]`, and what a group's sessions are given.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expand::GroupPlan;
use super::{Config, ConfigError, RelaySection, wrong};

/// Sessions of subscribers that come by themselves: DHCPv4 (RFC 2131), DHCPv6 (RFC 8415) and SLAAC (RFC 4862), in groups
/// that have a `sessions` table.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsSection {
    /// Folder of a ledger in which leases and RADIUS accounting survive a restart; left out: they end with the process.
    pub ledger: Option<PathBuf>,
    /// Leases of one line at most, in N:1 groups of one hardware address; an IPv4 address, an IPv6 address and a delegated prefix are one each.
    pub leases_per_line: u32,
    /// Leases of one kind of one VLAN pair at most, in N:1 groups, where hosts could invent hardware addresses: IPv4 addresses,
    /// IPv6 addresses or advertised prefixes, and delegated prefixes, each kind by itself.
    pub leases_per_pair: u32,
    /// Leases of one port at most.
    pub leases_per_port: u32,
    /// Whether a client that asks for an address it has no lease of is refused at once (NAK), rather than not answered.
    pub authoritative: bool,
    /// Seconds that an offered address is held for its client.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub offer_seconds: u32,
    /// Seconds that an address rests which a client found in use.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub quarantine_seconds: u32,
}

impl Default for SessionsSection {
    fn default() -> Self {
        Self {
            ledger: None,
            leases_per_line: 64,
            leases_per_pair: 65_536,
            leases_per_port: 1 << 20,
            authoritative: true,
            offer_seconds: 10,
            quarantine_seconds: 86_400,
        }
    }
}

/// Where IPv6 addresses of a group's subscribers come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ipv6Mode {
    /// DHCPv6: an address (IA_NA) of a /64 of its own, and a delegated prefix.
    #[default]
    Dhcp,
    /// Router advertisements: a /64 of its own (RFC 8273); DHCPv6 for the delegated prefix and for DNS servers.
    Slaac,
    /// There is no IPv6.
    Off,
}

/// What sessions of a group are given. Addresses and prefixes come from the group's slices, the tier from its `profile`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupSessions {
    /// Seconds of a DHCPv4 lease.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub lease_seconds: u32,
    /// Length of the prefix that clients are told is on the link; left out: the longest that has the group's slices and
    /// its IPv4 gateway in it.
    pub ipv4_prefix_length: Option<u8>,
    /// Whether DHCP messages are served that a relay agent on the line has forwarded (giaddr; Relay-forward). Off, where
    /// subscribers could send them themselves: such messages may name any hardware address. In N:1 groups it tells
    /// subscribers apart: chaddr of DHCPv4, and of DHCPv6 the client link-layer address (option 79, RFC 6939), which relay
    /// agents must insert. What a client behind a router sends by unicast, to renew or release its lease, is served if it
    /// comes from the leased address. Access nodes that insert option 82 only are no such agents (TR-101, 3.8).
    pub relayed: bool,
    /// Whether an access node in front of the group's lines inserts the circuit ID, in option 82 of DHCPv4 or as Interface-Id
    /// of a DHCPv6 relay message, and removes what subscribers write there themselves: it is then User-Name of RADIUS. Off:
    /// User-Name is the line's name (`port:s_vlan.c_vlan`), and DHCPv6 relay messages are dropped unless `relayed` is on.
    pub trust_option82: bool,
    /// Whether subscribers get no more than their line carries, where a trusted access node tells its actual data rates
    /// (TR-101, 3.9: option 82.9 of DHCPv4, option 17 of DHCPv6): policers and shapers take the lower of the profile's rate and
    /// the line's, at the layer that the profile accounts. Accounting and authentication tell them in any case (RFC 4679). In N:1
    /// groups the line of the first message counts, by its circuit and remote ID in each of DHCPv4 and DHCPv6.
    pub cap_by_line_rate: bool,
    /// DNS servers of both families.
    pub dns: Vec<IpAddr>,
    /// Domain name; left out: none.
    pub domain: String,
    /// NTP servers that clients are told (DHCPv4 option 42).
    pub ntp: Vec<Ipv4Addr>,
    /// Where IPv6 addresses come from.
    pub ipv6: Ipv6Mode,
    /// Seconds that IPv6 addresses and prefixes are valid.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub ipv6_valid_seconds: u32,
    /// Seconds that they are preferred.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub ipv6_preferred_seconds: u32,
    /// Servers in the core that lease the group's addresses in place of the gateway; left out: the gateway does.
    pub relay: Option<RelaySection>,
    /// Seconds between unsolicited router advertisements at most (RFC 4861, 6.2.1).
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub advertisement_seconds: u32,
}

impl Default for GroupSessions {
    fn default() -> Self {
        Self {
            lease_seconds: 3600,
            ipv4_prefix_length: None,
            relayed: false,
            trust_option82: false,
            cap_by_line_rate: true,
            dns: Vec::new(),
            domain: String::new(),
            ntp: Vec::new(),
            ipv6: Ipv6Mode::Dhcp,
            relay: None,
            ipv6_valid_seconds: 7200,
            ipv6_preferred_seconds: 3600,
            advertisement_seconds: 600,
        }
    }
}

impl GroupSessions {
    /// DNS servers of IPv4.
    pub(crate) fn dns4(&self) -> Vec<Ipv4Addr> {
        let v4 = |address: &IpAddr| if let IpAddr::V4(address) = address { Some(*address) } else { None };
        self.dns.iter().filter_map(v4).collect()
    }

    /// DNS servers of IPv6.
    pub(crate) fn dns6(&self) -> Vec<Ipv6Addr> {
        let v6 = |address: &IpAddr| if let IpAddr::V6(address) = address { Some(*address) } else { None };
        self.dns.iter().filter_map(v6).collect()
    }
}

/// The IPv4 gateways of a group.
pub fn gateways4(plan: &GroupPlan) -> Vec<Ipv4Addr> {
    let v4 = |address: &IpAddr| if let IpAddr::V4(address) = address { Some(*address) } else { None };
    plan.gateways.iter().filter_map(v4).collect()
}

/// The link-local address that a group advertises itself with.
pub fn link_local(plan: &GroupPlan) -> Option<Ipv6Addr> {
    plan.gateways.iter().find_map(|address| match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => Some(*address),
        _ => None,
    })
}

/// The longest prefix that has a group's IPv4 slices and its gateways in it.
pub fn prefix4(plan: &GroupPlan) -> u8 {
    let ends = plan.v4.iter().flat_map(|slice| [slice.first, slice.last]);
    let mut all = ends.chain(gateways4(plan).into_iter().map(u32::from));
    let Some(first) = all.next() else { return 32 };
    all.fold(32, |len, address| len.min((first ^ address).leading_zeros() as u8)) // at most 32
}

impl Config {
    /// Checks what groups' sessions are given.
    pub(super) fn check_sessions(&self, groups: &[GroupPlan]) -> Result<(), ConfigError> {
        for (n, (group, plan)) in self.group.iter().zip(groups).enumerate() {
            let Some(sessions) = &group.sessions else { continue };
            let at = |key: &str, what: String, help: &str| {
                Err(wrong(&[&"group", &n, &"sessions", &key.to_owned()], what, help.to_owned()))
            };
            if group.profile.is_none() {
                let what = "sessions of the group would have no tier".to_owned();
                return Err(wrong(&[&"group", &n, &"profile"], what, "profile = \"…\""));
            }
            for (key, seconds) in
                [("lease_seconds", sessions.lease_seconds), ("ipv6_valid_seconds", sessions.ipv6_valid_seconds)]
            {
                if !(60..=31_536_000).contains(&seconds) {
                    return at(key, format!("{seconds} s"), "60 s to 365 days");
                }
            }
            if !(30..=sessions.ipv6_valid_seconds).contains(&sessions.ipv6_preferred_seconds) {
                let what = format!("{} s", sessions.ipv6_preferred_seconds);
                return at("ipv6_preferred_seconds", what, "30 s at least, ipv6_valid_seconds at most");
            }
            if !(4..=1800).contains(&sessions.advertisement_seconds) {
                let what = format!("{} s", sessions.advertisement_seconds);
                return at("advertisement_seconds", what, "4 to 1800 s (RFC 4861, 6.2.1)");
            }
            if !plan.v4.is_empty() && gateways4(plan).is_empty() {
                let what = "the group has IPv4 slices, and no IPv4 address for clients to send to";
                return Err(wrong(&[&"group", &n, &"gateways"], what, "gateways = [\"100.64.0.1\", …]"));
            }
            let length = sessions.ipv4_prefix_length.unwrap_or_else(|| prefix4(plan));
            if !plan.v4.is_empty() && !(8..=32).contains(&length) {
                let what = format!("clients would take a /{length} for their link");
                return at("ipv4_prefix_length", what, "8 to 32");
            }
            if sessions.ipv6 != Ipv6Mode::Off && !plan.v6.is_empty() && link_local(plan).is_none() {
                let what = "the group has IPv6 slices, and no link-local address to be a router with";
                return Err(wrong(&[&"group", &n, &"gateways"], what, "gateways = [\"fe80::1\", …]"));
            }
            self.relay_plan(n, groups)?;
        }
        Ok(())
    }

    /// Whether a group has sessions.
    pub(crate) fn has_sessions(&self) -> bool {
        self.group.iter().any(|group| group.sessions.is_some())
    }
}

/// A time of the configuration.
pub fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}
