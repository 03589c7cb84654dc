//! What types do not check.

use std::net::IpAddr;

use dataplane::config::{ConfigError, wrong};

use gateway::fast_path::FastPathMode;
use gateway::shell::Sections;

use super::{CORE, Config, Group, Layout, Nat, ParkSection, Port, Role};

impl Config {
    /// Checks everything that types do not.
    ///
    /// # Errors
    /// The first thing that is invalid, by key.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_sections::<crate::product::BngGateway>()?;
        self.check_ports()?;
        self.check_names()?;
        self.group.iter().enumerate().try_for_each(|(n, group)| self.check_gateways(n, group))?;
        self.check_radius()?;
        (0..self.port.len()).try_for_each(|n| self.port_rate(n).map(drop))?;
        self.queue_limits()?;
        self.park.iter().try_for_each(ParkSection::check)?;
        self.fast_path.check(self.workers.count)?;
        self.moves.as_ref().map_or(Ok(()), |moves| moves.check(&self.control_socket))?;
        // Names, ranges and addresses are found out by expanding them.
        let layout = self.layout()?;
        let Some(nat) = &self.nat else { return Ok(()) };
        nat.check(&self.links(), self.workers.count)?;
        self.check_public(nat, &layout)
    }

    /// No address is both a subscriber's, or the gateway's in a group, and translated to.
    fn check_public(&self, nat: &Nat, layout: &Layout) -> Result<(), ConfigError> {
        for (n, pool) in nat.pool.iter().enumerate() {
            let Some((first, last)) = pool.range().map(|(first, last)| (first.to_bits(), last.to_bits())) else {
                continue;
            };
            let instance = self.instance(pool.instance.as_deref().unwrap_or(CORE));
            let is_in = |address: u32| (first..=last).contains(&address);
            let mut groups = layout.groups.iter().zip(&self.group).filter(|(plan, _)| plan.instance == instance);
            let met = groups.find(|(plan, _)| {
                plan.v4.iter().any(|slice| slice.first <= last && first <= slice.last)
                    || plan.gateways.iter().any(|own| matches!(own, IpAddr::V4(own) if is_in(own.to_bits())))
            });
            let fixed = layout.subscribers.iter().find(|spec| {
                layout.groups[usize::from(spec.group)].instance == instance && spec.ipv4.is_some_and(is_in)
            });
            let whose = match (met, fixed) {
                (Some((_, group)), _) => &group.name,
                (None, Some(spec)) => &self.group[usize::from(spec.group)].name,
                (None, None) => continue,
            };
            let what = format!("group \"{whose}\" has addresses of {}, too", pool.addresses);
            return Err(wrong(&[&"nat", &"pool", &n, &"addresses"], what, "give each its own range"));
        }
        Ok(())
    }

    fn check_ports(&self) -> Result<(), ConfigError> {
        if self.port.len() > 64 {
            return Err(wrong(&[&"port"], format!("{} ports", self.port.len()), "at most 64"));
        }
        self.links().check()?;
        for (n, port) in self.port.iter().enumerate() {
            let Port { role, addresses, vlan, pcp, instance, .. } = port;
            if !role.has_core() && (!addresses.is_empty() || vlan.is_some() || pcp.is_some() || instance.is_some()) {
                let key = match () {
                    () if !addresses.is_empty() => "addresses",
                    () if vlan.is_some() => "vlan",
                    () if pcp.is_some() => "pcp",
                    () => "instance",
                };
                let what = format!("port \"{}\" has role access: it has no core side", port.name);
                return Err(wrong(&[&"port", &n, &key], what, "leave it out, or role = \"hybrid\""));
            }
            if port.on.is_some() && *role != Role::Core {
                let what = format!("port \"{}\" has lines: those are of a port with a device of its own", port.name);
                return Err(wrong(
                    &[&"port", &n, &"on"],
                    what,
                    "a uri here, and on = \"…\" at ports with role = \"core\"",
                ));
            }
            if let Some(on) = port.on.as_ref().filter(|_| port.fast_path != FastPathMode::Off) {
                let what = format!("port \"{}\" has no device of its own", port.name);
                return Err(wrong(&[&"port", &n, &"fast_path"], what, format!("say it at port \"{on}\"")));
            }
            if port.mss.is_some_and(|mss| mss < 536) {
                return Err(wrong(&[&"port", &n, &"mss"], "too small for TCP", "536 or more (RFC 9293, 3.7.1)"));
            }
        }
        for (n, neighbour) in self.neighbour.iter().enumerate() {
            let port = |name: &String| self.port.iter().find(|port| port.name == *name);
            let own = port(&neighbour.port);
            let device = own.and_then(|own| own.on.as_ref().map_or(Some(own), port));
            if neighbour.vlan.is_some() && device.is_some_and(|port| port.role != Role::Core) {
                let what = format!(
                    "the device of port \"{}\" has subscribers, who are told apart by their tags",
                    neighbour.port
                );
                return Err(wrong(&[&"neighbour", &n, &"vlan"], what, "leave it out, or a port with role = \"core\""));
            }
        }
        for (n, route) in self.route.iter().enumerate() {
            let by = route.port.as_ref().and_then(|name| self.port.iter().find(|port| port.name == *name));
            if by.is_some_and(|port| !port.role.has_core()) {
                return Err(wrong(&[&"route", &n, &"port"], "a route by an access port", "a port with a core side"));
            }
        }
        if !self.port.iter().any(|port| port.role.has_core()) {
            return Err(wrong(&[&"port"], "no port leads to the core", "one with role = \"core\" or \"hybrid\""));
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), ConfigError> {
        let profiles = self.profile.iter().map(|profile| &profile.name).collect::<Vec<_>>();
        let lists = self.acl.iter().map(|acl| &acl.name).collect::<Vec<_>>();
        for (section, names) in [("profile", profiles), ("acl", lists)] {
            for (n, name) in names.iter().enumerate() {
                if names[..n].contains(name) {
                    let what = format!("two of them are called \"{name}\"");
                    return Err(wrong(&[&section, &n, &"name"], what, "give each its own name"));
                }
            }
        }
        Ok(())
    }

    fn check_gateways(&self, n: usize, group: &Group) -> Result<(), ConfigError> {
        for (m, address) in group.gateways.iter().enumerate() {
            let is_host = match address {
                IpAddr::V4(address) => !address.is_multicast() && !address.is_broadcast() && !address.is_loopback(),
                IpAddr::V6(address) => !address.is_multicast() && !address.is_loopback(),
            };
            if !is_host || address.is_unspecified() {
                let what = format!("{address} is not the address of one host");
                return Err(wrong(&[&"group", &n, &"gateways", &m], what, "such as 100.64.0.1 or fe80::1"));
            }
        }
        if group.gateways.is_empty() {
            let what = "subscribers would have no default router";
            return Err(wrong(&[&"group", &n, &"gateways"], what, "gateways = [\"100.64.0.1\", \"fe80::1\"]"));
        }
        Ok(())
    }
}
