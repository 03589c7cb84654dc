//! Network instances and interfaces, by the names control planes use (3GPP TS 29.244, 8.2.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pfcp::ie::NetworkInstance;
use stages::forward::{InstanceId, Plan};

use crate::config::{Config, Role, parse_prefix};

/// What a control plane may name, and what it means here.
#[derive(Clone, Debug)]
pub struct Networks {
    /// Names by number, as [`Config::instances`] gives them.
    names: Vec<String>,
    access: InstanceId,
    core: InstanceId,
    /// Those where packets come by tunnel.
    tunnelled: Vec<InstanceId>,
    /// Our addresses by instance, for tunnel endpoints.
    addresses: Vec<(InstanceId, IpAddr)>,
}

impl Networks {
    /// As configured.
    pub fn of(config: &Config) -> Self {
        let names = config.instances();
        let number = |name: &str| names.iter().position(|n| n == name).unwrap_or(0) as InstanceId; // a handful
        let first = |role| config.port.iter().find(|port| port.role == role).map_or(0, |port| number(port.instance()));
        let of_port = |port: &crate::config::Port| {
            let instance = number(port.instance());
            let address = |text: &String| parse_prefix(text).map(|(address, _)| (instance, address));
            port.addresses.iter().filter_map(address).collect::<Vec<_>>()
        };
        let addresses = config.port.iter().flat_map(of_port).collect();
        let is_access = |port: &&crate::config::Port| port.role == Role::Access;
        let tunnelled = config.port.iter().filter(is_access).map(|port| number(port.instance())).collect();
        Self { access: first(Role::Access), core: first(Role::Core), tunnelled, addresses, names }
    }

    /// All instances.
    pub fn all(&self) -> impl Iterator<Item = InstanceId> {
        0..self.names.len() as InstanceId // a handful
    }

    /// The instance of a name; without a name, or with one that is none of ours, the first of the side. Control planes
    /// name the data network even where there is but one.
    pub fn find(&self, name: Option<&NetworkInstance>, is_access: bool) -> InstanceId {
        let known = name.and_then(|name| self.names.iter().position(|n| **n == *name.text));
        match known {
            Some(at) => at as InstanceId,
            None if is_access => self.access,
            None => self.core,
        }
    }

    /// The instance that tunnels lead through: the one named, if tunnels end there; else the first of the access side.
    /// N9 and S5/S8 are such networks of their own, or share N3's.
    pub fn find_tunnelled(&self, name: Option<&NetworkInstance>) -> InstanceId {
        let known = name.and_then(|name| self.names.iter().position(|n| **n == *name.text));
        // A handful of names.
        known.map(|at| at as InstanceId).filter(|at| self.tunnelled.contains(at)).unwrap_or(self.access)
    }

    /// Our first addresses in an instance: where tunnels to us end.
    pub fn endpoint(&self, instance: InstanceId) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
        let mine = self.addresses.iter().filter(|(of, _)| *of == instance).map(|(_, address)| *address);
        let (mut ip4, mut ip6) = (None, None);
        for address in mine {
            match address {
                IpAddr::V4(address) => ip4 = ip4.or(Some(address)),
                IpAddr::V6(address) => ip6 = ip6.or(Some(address)),
            }
        }
        (ip4, ip6)
    }

    /// Whether a port speaks from an instance to an address of that family.
    pub fn can_reach(plan: &Plan, instance: InstanceId, to: IpAddr) -> bool {
        let port = plan.ports.iter().find(|port| port.instance == instance);
        port.is_some_and(|port| if to.is_ipv4() { !port.v4.is_empty() } else { !port.v6.is_empty() })
    }
}
