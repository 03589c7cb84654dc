//! DHCP relay of a group: servers in the core that lease its addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use access::relay::{Order, v4, v6};
use access::subscriber::Vlans;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::expand::GroupPlan;
use super::{Config, ConfigError, GroupSessions, Ipv6Mode, gateways4, wrong};

/// Servers of a group at most.
const MOST_SERVERS: usize = 8;

/// Which servers a request goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerOrder {
    /// To all of them.
    #[default]
    All,
    /// To the first one that answers, in the order of `servers`. One that does not gets a request every 10 s.
    First,
}

/// What becomes of option 82 in messages of lines whose access node is not trusted (RFC 3046, 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UntrustedOption82 {
    /// The message is dropped.
    #[default]
    Drop,
    /// The option is replaced by the gateway's own.
    Replace,
}

/// DHCP relay: servers in the core lease the addresses of the group, out of its slices. The gateway is the relay agent: it
/// forwards requests with giaddr and option 82 (RFC 3046), or as Relay-forward with Interface-Id and Remote-Id (RFC 8415, 19;
/// RFC 4649), learns the leases that servers grant, and keeps them as it keeps its own. Circuit ID and Interface-Id are
/// the line's name, `port:s_vlan.c_vlan`; the remote ID is the client's hardware address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RelaySection {
    /// The servers: with an IPv4 address for DHCPv4, with an IPv6 address for DHCPv6. A family without a server is leased by
    /// the gateway itself. Replies of other addresses are dropped.
    pub servers: Vec<IpAddr>,
    /// Which of them a request goes to: `"all"` or `"first"`.
    #[serde(default)]
    pub order: ServerOrder,
    /// The relay agent's address (giaddr), by which DHCPv4 servers choose the subnet and which they reply to: one of the
    /// gateway's in the VRF. Left out: the group's first IPv4 gateway address. With another one, servers choose the subnet
    /// by the group's gateway address (link selection, RFC 3527).
    #[serde(default)]
    pub giaddr: Option<Ipv4Addr>,
    /// The address that Relay-forward messages are sent from: one of the gateway's in the VRF. Left out: the group's first
    /// IPv6 gateway address that is not link-local, or the first of a core port.
    #[serde(default)]
    pub source: Option<Ipv6Addr>,
    /// link-address of Relay-forward messages, by which DHCPv6 servers choose the subnet. Left out: the group's first IPv6
    /// gateway address that is not link-local, or the first prefix of its slices.
    #[serde(default)]
    pub link_address: Option<Ipv6Addr>,
    /// Whether DHCPv4 servers are told to give the group's gateway address as their identifier (RFC 5107), so that
    /// clients renew by the gateway. Off: renewals are sent to the server; they pass the relay agent all the same.
    #[serde(default)]
    pub server_id_override: bool,
    /// Option 82 where `trust_option82` is off: `"drop"` the message, or `"replace"` the option.
    #[serde(default)]
    pub untrusted_option82: UntrustedOption82,
    /// Whether a station may take its lease to another line, when a server gives it the same address there. Off: the server's
    /// reply is dropped until the lease on the other line has ended.
    #[serde(default)]
    pub moves: bool,
    /// Relay agents that a DHCPv4 message may have passed before, at most: 1 to 16 (RFC 1542, 4.1.1).
    #[serde(default = "hops")]
    pub hops: u8,
}

fn hops() -> u8 {
    4
}

/// How a group's messages are relayed, by family; none: the gateway leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayPlan {
    /// To DHCPv4 servers, if there are any.
    pub v4: Option<v4::Group>,
    /// To DHCPv6 servers, if there are any.
    pub v6: Option<v6::Group>,
}

fn is_global(address: &Ipv6Addr) -> bool {
    !address.is_unicast_link_local() && !address.is_multicast() && !address.is_loopback() && !address.is_unspecified()
}

fn global(address: &IpAddr) -> Option<Ipv6Addr> {
    if let IpAddr::V6(address) = address { Some(*address).filter(is_global) } else { None }
}

impl RelaySection {
    /// Servers of DHCPv4.
    pub fn servers4(&self) -> Vec<Ipv4Addr> {
        let v4 = |address: &IpAddr| if let IpAddr::V4(address) = address { Some(*address) } else { None };
        self.servers.iter().filter_map(v4).collect()
    }

    /// Servers of DHCPv6.
    pub fn servers6(&self) -> Vec<Ipv6Addr> {
        self.servers.iter().filter_map(global).collect()
    }

    fn order(&self) -> Order {
        match self.order {
            ServerOrder::All => Order::All,
            ServerOrder::First => Order::First,
        }
    }
}

impl Config {
    /// How messages of a group are relayed.
    ///
    /// # Errors
    /// What is wrong with its `relay`, or does not go with it.
    pub(crate) fn relay_plan(&self, n: usize, groups: &[GroupPlan]) -> Result<RelayPlan, ConfigError> {
        let (Some(plan), Some(sessions)) = (groups.get(n), self.group.get(n).and_then(|group| group.sessions.as_ref()))
        else {
            return Ok(RelayPlan::default());
        };
        let Some(relay) = &sessions.relay else { return Ok(RelayPlan::default()) };
        let own = self.own_addresses(plan.instance, groups);
        check_servers(n, relay, &own)?;
        check_local(n, sessions, relay)?;
        if !(1..=16).contains(&relay.hops) {
            let at: [&dyn ToString; 5] = [&"group", &n, &"sessions", &"relay", &"hops"];
            return Err(wrong(&at, format!("{} relay agents", relay.hops), "1 to 16 (RFC 1542, 4.1.1)"));
        }
        let vlans = if plan.shared { Vlans::ManyPerLine } else { Vlans::OnePerLine };
        let parts = (n, plan, sessions, relay);
        Ok(RelayPlan { v4: plan4(parts, &own, vlans)?, v6: plan6(parts, &own, vlans)? })
    }
}

fn at(n: usize, key: &str, what: impl Into<String>, help: impl Into<String>) -> ConfigError {
    wrong(&[&"group", &n, &"sessions", &"relay", &key], what.into(), help.into())
}

/// Each server is one host, another one than the gateway.
fn check_servers(n: usize, relay: &RelaySection, own: &[IpAddr]) -> Result<(), ConfigError> {
    if relay.servers.is_empty() || relay.servers.len() > MOST_SERVERS {
        let what = format!("{} servers", relay.servers.len());
        return Err(at(
            n,
            "servers",
            what,
            format!("1 to {MOST_SERVERS}: servers = [\"198.18.0.10\", \"2001:db8::10\"]"),
        ));
    }
    for (m, server) in relay.servers.iter().enumerate() {
        let is_host = match server {
            IpAddr::V4(server) => {
                !server.is_multicast() && !server.is_broadcast() && !server.is_loopback() && !server.is_unspecified()
            }
            IpAddr::V6(server) => is_global(server),
        };
        let what = match () {
            () if !is_host => format!("{server} is not the address of one host beyond the link"),
            () if own.contains(server) => format!("{server} is an address of the gateway itself"),
            () if relay.servers[..m].contains(server) => format!("{server} is there twice"),
            () => continue,
        };
        let path: [&dyn ToString; 6] = [&"group", &n, &"sessions", &"relay", &"servers", &m];
        return Err(wrong(&path, what, "the address of a DHCP server in the core, such as 198.18.0.10"));
    }
    Ok(())
}

/// A family is leased by the gateway or by servers: keys of the gateway's own server are left out where it is relayed.
fn check_local(n: usize, sessions: &GroupSessions, relay: &RelaySection) -> Result<(), ConfigError> {
    let default = GroupSessions::default();
    let v4 = !relay.servers4().is_empty();
    let v6 = !relay.servers6().is_empty();
    let keys = [
        (v4, "lease_seconds", sessions.lease_seconds != default.lease_seconds),
        (v4, "ipv4_prefix_length", sessions.ipv4_prefix_length.is_some()),
        (v4, "dns", !sessions.dns4().is_empty()),
        (v4, "domain", !sessions.domain.is_empty()),
        (v4, "ntp", !sessions.ntp.is_empty()),
        (v6, "ipv6_valid_seconds", sessions.ipv6_valid_seconds != default.ipv6_valid_seconds),
        (v6, "ipv6_preferred_seconds", sessions.ipv6_preferred_seconds != default.ipv6_preferred_seconds),
        (v6, "dns", !sessions.dns6().is_empty()),
    ];
    for (relayed, key, is_given) in keys {
        if relayed && is_given {
            let what =
                "the group's addresses of this family are leased by the servers of `relay`, and not by the gateway";
            let path: [&dyn ToString; 4] = [&"group", &n, &"sessions", &key];
            return Err(wrong(
                &path,
                what,
                "leave the key out, or take the servers of this family out of relay.servers",
            ));
        }
    }
    if v4 && sessions.relayed {
        let what = "DHCPv4 messages of relay agents on the lines cannot be relayed: their servers would reply past the gateway";
        let path: [&dyn ToString; 4] = [&"group", &n, &"sessions", &"relayed"];
        return Err(wrong(&path, what, "leave it out; access nodes that insert option 82 only need trust_option82"));
    }
    Ok(())
}

type Parts<'a> = (usize, &'a GroupPlan, &'a GroupSessions, &'a RelaySection);

fn plan4(
    (n, plan, sessions, relay): Parts<'_>,
    own: &[IpAddr],
    vlans: Vlans,
) -> Result<Option<v4::Group>, ConfigError> {
    let servers = relay.servers4();
    if servers.is_empty() {
        return Ok(None);
    }
    let Some(gateway) = gateways4(plan).first().copied().filter(|_| !plan.v4.is_empty()) else {
        let what = "DHCPv4 is relayed, and the group has no slice of IPv4 whose addresses servers could lease";
        return Err(at(n, "servers", what, "group.ipv4 and an IPv4 address in group.gateways"));
    };
    let giaddr = relay.giaddr.unwrap_or(gateway);
    if !own.contains(&giaddr.into()) {
        let what = format!("{giaddr} is not an address of the gateway in the group's VRF: no reply would come back");
        return Err(at(n, "giaddr", what, "an address of group.gateways, or of a core port of the VRF"));
    }
    let agent = match (sessions.trust_option82, relay.untrusted_option82) {
        (true, _) => v4::AgentPolicy::Keep,
        (false, UntrustedOption82::Drop) => v4::AgentPolicy::Drop,
        (false, UntrustedOption82::Replace) => v4::AgentPolicy::Replace,
    };
    Ok(Some(v4::Group {
        instance: plan.instance.into(),
        vlans,
        servers,
        order: relay.order(),
        giaddr,
        gateway,
        server_override: relay.server_id_override,
        agent,
        moves: relay.moves,
        most_hops: relay.hops,
    }))
}

fn plan6(
    (n, plan, sessions, relay): Parts<'_>,
    own: &[IpAddr],
    vlans: Vlans,
) -> Result<Option<v6::Group>, ConfigError> {
    let servers = relay.servers6();
    if servers.is_empty() {
        return Ok(None);
    }
    if plan.v6.is_empty() || sessions.ipv6 != Ipv6Mode::Dhcp {
        let what = match sessions.ipv6 {
            Ipv6Mode::Slaac => "DHCPv6 is relayed, and ipv6 = \"slaac\" would advertise prefixes of the gateway's own",
            Ipv6Mode::Off => "DHCPv6 is relayed, and ipv6 is \"off\"",
            Ipv6Mode::Dhcp => {
                "DHCPv6 is relayed, and the group has no slice of IPv6 whose prefixes servers could lease"
            }
        };
        return Err(at(n, "servers", what, "ipv6 = \"dhcp\", and group.ipv6_wan or group.ipv6_pd; or no IPv6 server"));
    }
    let of_group = plan.gateways.iter().find_map(global);
    let Some(source) = relay.source.or(of_group).or_else(|| own.iter().find_map(global)) else {
        let what = "the gateway has no IPv6 address in the VRF that servers could reply to";
        return Err(at(n, "source", what, "an address of a core port or of group.gateways that is not link-local"));
    };
    if !own.contains(&source.into()) || !is_global(&source) {
        let what = format!("{source} is not an address of the gateway in the group's VRF: no reply would come back");
        return Err(at(n, "source", what, "an address of a core port or of group.gateways that is not link-local"));
    }
    let first = plan.v6.first().map(|slice| Ipv6Addr::from_bits(u128::from(slice.first) << 64));
    let link = relay.link_address.or(of_group).or(first).unwrap_or(source);
    if !is_global(&link) {
        let what = format!("{link} tells servers of no link");
        return Err(at(n, "link_address", what, "an address of the clients' subnet, as servers know it"));
    }
    let (instance, order) = (plan.instance.into(), relay.order());
    Ok(Some(v6::Group { instance, vlans, servers, order, source, link, moves: relay.moves }))
}
