//! Ports, routes and neighbours as every gateway's configuration has them: checked by key, and made into a plan.

use std::net::IpAddr;

use frame::Caps;
use wire::Mac;
use wire::ethernet::Tags;

use super::{ConfigError, Neighbour, Route, VlanStack, parse_mac, parse_prefix, wrong};
use crate::forward::{self, InstanceId, Plan, PortView, Via};
use crate::neighbour::link_local;

/// The most packets a second that services of the host get by a port: the limit of `host_packets_per_second`.
pub const MOST_HOST_PACKETS: u32 = 1_000_000;

/// The part of a configuration about the links of a gateway.
pub struct Links<'a> {
    /// Ports, by number.
    pub ports: Vec<Link<'a>>,
    /// Routes beside the connected ones.
    pub routes: &'a [Route],
    /// Neighbours that need no resolving.
    pub neighbours: &'a [Neighbour],
    /// The network instances there are, by number.
    pub instances: Vec<String>,
    /// The instance of a route that names none.
    pub instance: &'a str,
}

/// A port's link.
pub struct Link<'a> {
    /// What the rest of the configuration calls the port.
    pub name: &'a str,
    /// Its network instance.
    pub instance: &'a str,
    /// Our addresses, with prefix length.
    pub addresses: &'a [String],
    /// It has no link layer, and needs no address of ours.
    pub point_to_point: bool,
    /// The port whose device it shares.
    pub on: Option<&'a str>,
    /// Of ports with the same tags on one device it has what is to no address of theirs.
    pub has_rest: bool,
    /// VLAN tags of its frames.
    pub vlan: Option<&'a VlanStack>,
    /// The priority code point of its tags on output, by class selector (DSCP / 8); none: 0.
    pub pcp: Option<[u8; 8]>,
    /// Largest IP packet; none: the interface's.
    pub mtu: Option<u16>,
    /// The host interface of routing daemons, `eth0` or `namespace/eth0`.
    pub host_interface: Option<&'a str>,
    /// Packets a second to services of the host on that interface; 0: none.
    pub host_packets_per_second: u32,
}

impl<'a> Link<'a> {
    /// The port that has its device.
    fn device(&self) -> &'a str {
        self.on.unwrap_or(self.name)
    }

    /// Tags of its frames; those that are invalid are told on their own.
    fn tags(&self) -> Tags {
        self.vlan.and_then(|vlan| vlan.tags().ok()).unwrap_or_default()
    }
}

/// Whether two ports have one device and the same tags there.
fn is_same_link(one: &Link<'_>, other: &Link<'_>) -> bool {
    one.device() == other.device() && same_ids(one.tags(), other.tags())
}

/// Whether stacks of tags have the same identifiers: their types are not looked at when they are received.
fn same_ids(one: Tags, other: Tags) -> bool {
    let ids = |tags| match tags {
        Tags::None => [None; 2],
        Tags::One(tag) => [Some(tag.vlan.id()), None],
        Tags::Two(outer, inner) => [Some(outer.vlan.id()), Some(inner.vlan.id())],
    };
    ids(one) == ids(other)
}

impl Links<'_> {
    /// Whether two ports on one of those devices have the same tags, so that only addresses tell them apart. Devices go by the
    /// name of the port that has them.
    pub fn shares_a_link(&self, is_of: impl Fn(&str) -> bool) -> bool {
        let is_not_alone = |n: usize, port| self.ports[..n].iter().any(|other| is_same_link(other, port));
        self.ports.iter().enumerate().any(|(n, port)| is_of(port.device()) && is_not_alone(n, port))
    }

    /// Checks all that needs no interface.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.ports.iter().enumerate().try_for_each(|(n, port)| self.check_port(n, port))?;
        self.routes.iter().enumerate().try_for_each(|(n, route)| self.check_route(n, route))?;
        self.neighbours.iter().enumerate().try_for_each(|(n, neighbour)| self.check_neighbour(n, neighbour))
    }

    fn check_port(&self, n: usize, port: &Link<'_>) -> Result<(), ConfigError> {
        if self.ports[..n].iter().any(|other| other.name == port.name) {
            let what = format!("two ports are called \"{}\"", port.name);
            return Err(wrong(&[&"port", &n, &"name"], what, "give each its own name"));
        }
        if port.addresses.is_empty() && !port.point_to_point {
            let what = format!("port \"{}\" has no address", port.name);
            return Err(wrong(&[&"port", &n], what, "addresses = [\"10.0.3.1/24\"]"));
        }
        for (m, text) in port.addresses.iter().enumerate() {
            if parse_prefix(text).is_none() {
                let what = format!("\"{text}\" is no address with prefix length");
                return Err(wrong(&[&"port", &n, &"addresses", &m], what, "such as 10.0.3.1/24 or fd00:3::1/64"));
            }
        }
        if port.point_to_point && port.vlan.is_some() {
            let what = format!("port \"{}\" has no link layer, and so no VLAN tags", port.name);
            return Err(wrong(&[&"port", &n, &"vlan"], what, "leave it out"));
        }
        if let Some(Err((what, help))) = port.vlan.map(VlanStack::tags) {
            return Err(wrong(&[&"port", &n, &"vlan"], what, help));
        }
        if let Some(at) = port.pcp.iter().flatten().position(|pcp| *pcp > 7) {
            return Err(wrong(&[&"port", &n, &"pcp", &at], "not a priority code point", "0 to 7"));
        }
        if port.mtu.is_some_and(|m| m < 576) {
            return Err(wrong(&[&"port", &n, &"mtu"], "too small for IP", "576 or more; 1280 for IPv6"));
        }
        self.check_shared(n, port)?;
        self.check_host_interface(n, port)
    }

    /// Ports that share a device are told apart by their tags, or, where those are the same, by their addresses.
    fn check_shared(&self, n: usize, port: &Link<'_>) -> Result<(), ConfigError> {
        let mut before = self.ports[..n].iter().filter(|other| is_same_link(other, port));
        let Some(other) = before.next() else { return Ok(()) };
        if port.has_rest == other.has_rest || before.next().is_some() {
            let what =
                format!("port \"{}\" has the same VLAN as port \"{}\", on the same device", port.name, other.name);
            let help = "give each its own, such as vlan = 100";
            return Err(match (port.vlan, port.on) {
                (Some(_), _) => wrong(&[&"port", &n, &"vlan"], what, help),
                (None, Some(_)) => wrong(&[&"port", &n, &"on"], what, help),
                (None, None) => wrong(&[&"port", &n], what, help),
            });
        }
        let own = |text: &String| parse_prefix(text).map(|(address, _)| address);
        let both = port
            .addresses
            .iter()
            .filter_map(own)
            .find(|address| other.addresses.iter().filter_map(own).any(|other| other == *address));
        match both {
            Some(address) => {
                let what = format!("port \"{}\" has address {address} too, and the same VLAN and device", other.name);
                Err(wrong(&[&"port", &n, &"addresses"], what, "give each its own address, or its own vlan"))
            }
            None => Ok(()),
        }
    }

    /// A host interface is a name of Linux's, its own port's only, beside a port with link layer and addresses.
    fn check_host_interface(&self, n: usize, port: &Link<'_>) -> Result<(), ConfigError> {
        const LONGEST_NAME: usize = 15;
        let rate = port.host_packets_per_second;
        let at_rate = |what: String, help: &str| Err(wrong(&[&"port", &n, &"host_packets_per_second"], what, help));
        let Some(text) = port.host_interface else {
            return match rate {
                0 => Ok(()),
                _ => at_rate("the port has no host_interface".to_owned(), "host_interface = \"namespace/core0\""),
            };
        };
        if rate > MOST_HOST_PACKETS {
            return at_rate(format!("{rate} is too many"), &format!("0 to {MOST_HOST_PACKETS} packets a second"));
        }
        let at = |what: String, help: &str| Err(wrong(&[&"port", &n, &"host_interface"], what, help));
        let (namespace, name) = text.split_once('/').map_or((None, text), |(namespace, name)| (Some(namespace), name));
        // Linux takes `%` for a number of its choice, and `:` for an alias.
        let is_forbidden = |c: char| matches!(c, '/' | ':' | '%') || c.is_whitespace();
        let is_name = !matches!(name, "" | "." | "..") && name.len() <= LONGEST_NAME && !name.contains(is_forbidden);
        if !is_name || namespace.is_some_and(str::is_empty) {
            return at(
                format!("\"{text}\" is no interface"),
                "a name of at most 15 letters, core0, or namespace/core0",
            );
        }
        if port.point_to_point {
            let what = format!("port \"{}\" has no link layer, or no addresses of its own", port.name);
            return at(what, "leave it out: there are no routers to speak to");
        }
        match self.ports[..n].iter().find(|other| other.host_interface == Some(text)) {
            Some(other) => at(format!("port \"{}\" has interface \"{text}\" too", other.name), "give each its own"),
            None => Ok(()),
        }
    }

    fn check_route(&self, n: usize, route: &Route) -> Result<(), ConfigError> {
        let Some((to, _)) = parse_prefix(&route.to) else {
            let what = format!("\"{}\" is no prefix", route.to);
            return Err(wrong(&[&"route", &n, &"to"], what, "such as 0.0.0.0/0"));
        };
        let help = "next_hop = \"…\", a neighbour's address; or, for a port without link layer, port = \"…\", its name";
        match (route.next_hop, &route.port) {
            (Some(via), None) if to.is_ipv4() != via.is_ipv4() => {
                return Err(wrong(
                    &[&"route", &n, &"next_hop"],
                    "of another family than the prefix",
                    "use one of its own",
                ));
            }
            (Some(_), None) => {}
            (None, Some(name)) => self.check_route_port(n, name, route.instance.as_deref())?,
            (None, None) => return Err(wrong(&[&"route", &n], "a route without next hop", help)),
            (Some(_), Some(_)) => return Err(wrong(&[&"route", &n, &"port"], "a route with two next hops", help)),
        }
        match &route.instance {
            Some(name) if !self.instances.contains(name) => {
                let what = format!("no port is in network instance \"{name}\"");
                Err(wrong(&[&"route", &n, &"instance"], what, format!("one of {}", self.instances.join(", "))))
            }
            _ => Ok(()),
        }
    }

    fn check_route_port(&self, n: usize, name: &str, instance: Option<&str>) -> Result<(), ConfigError> {
        let ports = self.ports.iter().filter(|port| port.point_to_point);
        let Some(port) = ports.clone().find(|port| port.name == name) else {
            let names: Vec<&str> = ports.map(|port| port.name).collect();
            let (what, help) = match self.ports.iter().any(|port| port.name == name) {
                true => (
                    "has a link layer: a route by it needs the address of a gateway",
                    "write next_hop = \"…\" instead".into(),
                ),
                false if names.is_empty() => {
                    ("is not there, and no port is without link layer", "write next_hop = \"…\"".into())
                }
                false => ("is not there", format!("one of {}", names.join(", "))),
            };
            return Err(wrong(&[&"route", &n, &"port"], format!("port \"{name}\" {what}"), help));
        };
        let instance = instance.unwrap_or(self.instance);
        if port.instance == instance {
            return Ok(());
        }
        let what = format!("port \"{name}\" is in network instance \"{}\", not \"{instance}\"", port.instance);
        Err(wrong(&[&"route", &n, &"port"], what, "a port of the route's own network instance"))
    }

    fn check_neighbour(&self, n: usize, neighbour: &Neighbour) -> Result<(), ConfigError> {
        let Some(port) = self.ports.iter().find(|port| port.name == neighbour.port) else {
            let names: Vec<&str> = self.ports.iter().map(|port| port.name).collect();
            let what = format!("no port is called \"{}\"", neighbour.port);
            return Err(wrong(&[&"neighbour", &n, &"port"], what, format!("one of {}", names.join(", "))));
        };
        if port.point_to_point && neighbour.vlan.is_some() {
            let what = format!("port \"{}\" has no link layer, and so no VLAN tags", port.name);
            return Err(wrong(&[&"neighbour", &n, &"vlan"], what, "leave it out"));
        }
        if let Some(Err((what, help))) = neighbour.vlan.as_ref().map(VlanStack::tags) {
            return Err(wrong(&[&"neighbour", &n, &"vlan"], what, help));
        }
        if parse_mac(&neighbour.mac).is_none() {
            let what = format!("\"{}\" is no hardware address", neighbour.mac);
            return Err(wrong(&[&"neighbour", &n, &"mac"], what, "such as 02:00:00:00:00:01"));
        }
        self.check_shared_neighbour(n, neighbour, port)
    }

    /// Tags of a neighbour are no other port's on the same device, nor of a neighbour there.
    fn check_shared_neighbour(&self, n: usize, neighbour: &Neighbour, port: &Link<'_>) -> Result<(), ConfigError> {
        let tags_of = |neighbour: &Neighbour| neighbour.vlan.as_ref().and_then(|vlan| vlan.tags().ok());
        let Some(tags) = tags_of(neighbour) else { return Ok(()) };
        let mut beside = self.ports.iter().filter(|other| other.device() == port.device() && other.name != port.name);
        let has_them = |other: &&Link<'_>| {
            let theirs = self.neighbours.iter().filter(|their| their.port == other.name).filter_map(tags_of);
            theirs.chain([other.tags()]).any(|theirs| same_ids(theirs, tags))
        };
        match beside.find(has_them) {
            Some(other) => {
                let what = format!("frames with these tags are those of port \"{}\", on the same device", other.name);
                Err(wrong(&[&"neighbour", &n, &"vlan"], what, format!("port = \"{}\", or other tags", other.name)))
            }
            None => Ok(()),
        }
    }

    /// The plan of links that passed [`check`](Self::check); `caps` tells what each port's interface is.
    ///
    /// # Errors
    /// A route's gateway that is on no port's link.
    pub fn plan(&self, caps: &[Caps]) -> Result<Plan, ConfigError> {
        let mut plan = Plan::default();
        for (n, port) in self.ports.iter().enumerate() {
            plan.ports.push(self.view(port, &caps.get(n).cloned().unwrap_or_default()));
        }
        plan.routes = self.routes_over(&plan)?;
        for neighbour in self.neighbours {
            let port = self.ports.iter().position(|port| port.name == neighbour.port);
            if let (Some(port), Some(mac)) = (port, parse_mac(&neighbour.mac)) {
                plan.set_neighbour(port as u8, neighbour.address, Mac(mac)); // fewer than 256 ports
                // They were checked.
                if let Some(Ok(tags)) = neighbour.vlan.as_ref().map(VlanStack::tags) {
                    plan.set_tags(port as u8, neighbour.address, tags);
                }
            }
        }
        Ok(plan)
    }

    /// The routes, over the ports of a plan.
    ///
    /// # Errors
    /// A route's gateway that is on no port's link.
    pub fn routes_over(&self, plan: &Plan) -> Result<Vec<forward::Route>, ConfigError> {
        let mut routes = Vec::with_capacity(self.routes.len());
        for (n, route) in self.routes.iter().enumerate() {
            let instance = self.number(route.instance.as_deref().unwrap_or(self.instance));
            let Some((to, len)) = parse_prefix(&route.to) else { continue };
            let via = match (route.next_hop, &route.port) {
                (Some(via), _) if plan.on_link(instance, via).is_none() => {
                    let what = format!("{via} is on the link of no port in that network instance");
                    return Err(wrong(
                        &[&"route", &n, &"next_hop"],
                        what,
                        "a gateway inside one of the ports' own prefixes",
                    ));
                }
                (Some(via), _) => Via::Gateway(via),
                (None, name) => match self.ports.iter().position(|port| Some(port.name) == name.as_deref()) {
                    Some(port) => Via::Port(port as u8), // fewer than 256 ports
                    None => continue,
                },
            };
            routes.push(forward::Route { instance, to, len, via });
        }
        Ok(routes)
    }

    fn view(&self, port: &Link<'_>, caps: &Caps) -> PortView {
        let mtu = port.mtu.map_or(caps.mtu, u32::from).min(u16::MAX.into()) as u16;
        let mut view = PortView {
            name: port.name.to_owned(),
            mac: caps.mac,
            // It was checked.
            tags: port.vlan.and_then(|vlan| vlan.tags().ok()).unwrap_or_default(),
            pcp: port.pcp.unwrap_or_default(),
            mtu: if mtu == 0 { 1500 } else { mtu },
            instance: self.number(port.instance),
            on: port.on.and_then(|on| self.ports.iter().position(|other| other.name == on)).map(|on| on as u8),
            has_rest: port.has_rest,
            peer: caps.peer.filter(|_| port.point_to_point),
            host: caps.host.clone(),
            completes_udp6: caps.completes_udp6,
            ..PortView::default()
        };
        for text in port.addresses {
            match parse_prefix(text) {
                Some((IpAddr::V4(a), len)) => view.v4.push((a.into(), len)),
                Some((IpAddr::V6(a), len)) => view.v6.push((a.into(), len)),
                None => {}
            }
        }
        if !view.v6.is_empty() {
            // IPv6 neighbours speak to and from link-local addresses (RFC 4291, 2.8).
            view.v6.push((link_local(Mac(view.mac)).into(), 64));
        }
        view
    }

    fn number(&self, instance: &str) -> InstanceId {
        self.instances.iter().position(|name| name == instance).unwrap_or(0) as InstanceId // a handful
    }
}
