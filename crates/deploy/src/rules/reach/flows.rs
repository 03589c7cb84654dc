//! Flows that a fleet is there for, each with where it begins and where it is meant to arrive.

use std::net::Ipv4Addr;

use super::graph::Arrived;
use crate::aws::{self, Kind};
use crate::cidr::Cidr;
use crate::fleet::{FIRST_ADDRESS, Fleet, Gateway};
use crate::module::snake;
use crate::settings::Case;

/// Where a flow begins.
#[derive(Clone, Debug)]
pub enum End {
    Subnet(String),
    Premises,
    Internet,
}

#[derive(Clone, Debug)]
pub struct Flow {
    pub name: &'static str,
    pub from: End,
    /// Its source address.
    pub source: Ipv4Addr,
    pub to: Ipv4Addr,
    /// Protocol and port.
    pub by: (&'static str, i64),
    pub at: Arrived,
}

impl Flow {
    /// Whether a rule of a security group admits it.
    pub fn passes(&self, protocol: &str, ports: Option<(i64, i64)>, from: Cidr) -> bool {
        let (own, port) = self.by;
        let by =
            protocol == "-1" || (protocol == own && ports.is_none_or(|(first, last)| (first..=last).contains(&port)));
        by && from.has(self.source)
    }
}

/// A host on the internet.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

/// Flows of all gateways.
pub fn flows(fleet: &Fleet) -> Vec<Flow> {
    (0..fleet.ordinals()).filter_map(|ordinal| of_a_gateway(fleet, ordinal)).flatten().collect()
}

/// What is on the access side, on either side of a fleet: gNBs, Remote-PHY devices, ends of tunnels.
struct Outer {
    address: Ipv4Addr,
    begin: End,
    at: Arrived,
    by: (&'static str, i64),
}

fn outer(fleet: &Fleet, ordinal: u32) -> Option<Vec<Outer>> {
    let its = &fleet.settings;
    let by = match fleet.gateway {
        Gateway::Upf => ("udp", 2152),
        Gateway::Cmts => ("115", 0),
        Gateway::Bng => ("udp", 4789),
    };
    let premises = |address| Outer { address, begin: End::Premises, at: Arrived::Premises, by };
    let generator = |address| {
        let subnet = "generator".to_owned();
        Outer { address, begin: End::Subnet(subnet.clone()), at: Arrived::Subnet(subnet), by }
    };
    let address = match fleet.gateway {
        // Behind the generator's own interface, which has the sixteenth address.
        Gateway::Upf => aws::generator(fleet)?.address(u64::from(FIRST_ADDRESS) + 1)?,
        Gateway::Cmts => its.cmts.devices.address(u64::from(FIRST_ADDRESS) + u64::from(ordinal))?,
        Gateway::Bng => *its.bng.tunnels.get(ordinal as usize % its.bng.tunnels.len().max(1))?,
    };
    let mut all = vec![if its.aws.on_premise.has(address) { premises(address) } else { generator(address) }];
    if fleet.gateway == Gateway::Upf && its.aws.case != Case::Cloud {
        all.push(premises(its.aws.on_premise.address(u64::from(FIRST_ADDRESS))?));
    }
    Some(all)
}

/// Control planes, or RADIUS servers.
fn control(fleet: &Fleet) -> Option<Vec<Outer>> {
    let its = &fleet.settings;
    let premises = |address, by| Outer { address, begin: End::Premises, at: Arrived::Premises, by };
    let mut all = Vec::new();
    if fleet.gateway == Gateway::Bng {
        let servers = its.bng.radius.iter().filter(|server| its.aws.on_premise.has(**server));
        all.extend(servers.map(|server| premises(*server, ("udp", 3799))));
    }
    if fleet.gateway == Gateway::Upf {
        let (address, subnet) = (aws::generator(fleet)?.address(u64::from(FIRST_ADDRESS) + 1)?, "generator".to_owned());
        let (begin, at, by) = (End::Subnet(subnet.clone()), Arrived::Subnet(subnet), ("udp", 8805));
        all.push(Outer { address, begin, at, by });
        if its.aws.case != Case::Cloud {
            all.push(premises(its.aws.on_premise.address(u64::from(FIRST_ADDRESS))?, ("udp", 8805)));
        }
    }
    Some(all)
}

/// Subnets of a trial's hosts that reach the cloud's services: those in the gateways' VPC.
fn trial(fleet: &Fleet) -> &'static [&'static str] {
    let devices = fleet.settings.cmts.devices;
    match fleet.gateway {
        Gateway::Upf if fleet.settings.aws.single_vpc => &["generator", "responder"],
        Gateway::Cmts if aws::generator(fleet).is_some_and(|network| network.contains(devices)) => &["generator"],
        _ => &[],
    }
}

/// Flows of one gateway: access side and back, core side and back, premises and back.
fn of_a_gateway(fleet: &Fleet, ordinal: u32) -> Option<Vec<Flow>> {
    let zone = fleet.zone(ordinal / fleet.gateways().max(1));
    let at = |kind| aws::subnet(fleet, zone, kind).and_then(|network| fleet.address(network, ordinal));
    let (access, core) = (at(Kind::Access)?, at(Kind::Core)?);
    let inside = |kind: &str| End::Subnet(snake(&aws::in_zone(kind, fleet, zone)));
    let interface = |kind: &str| Arrived::Interface(snake(&format!("{kind}Interface{ordinal}")));
    let user = fleet.pool(ordinal)?.address(1)?;
    let mut all = Vec::new();
    let mut add = |name, from, source, to, by, at| all.push(Flow { name, from, source, to, by, at });
    for it in outer(fleet, ordinal)? {
        add("from the access side to a gateway", it.begin, it.address, access, it.by, interface("Access"));
        add("from a gateway to the access side", inside("Access"), access, it.address, it.by, it.at);
    }
    add("from a subscriber to the internet", inside("Core"), user, SERVER, ("tcp", 443), Arrived::Internet);
    add("from the internet to a subscriber", End::Internet, SERVER, user, ("tcp", 443), interface("Core"));
    add("from an instance to the cloud's services", inside("Admin"), core, SERVER, ("tcp", 443), Arrived::Internet);
    for it in control(fleet)? {
        let own = at(Kind::Admin)?;
        let admin = Arrived::Subnet(snake(&aws::in_zone("Admin", fleet, zone)));
        add("from a control plane to a gateway", it.begin, it.address, own, it.by, admin);
        add("from a gateway to a control plane", inside("Admin"), own, it.address, it.by, it.at);
    }
    if fleet.gateway != Gateway::Cmts {
        let server = aws::responder(fleet)?.address(u64::from(FIRST_ADDRESS) + 1)?;
        let responder = || "responder".to_owned();
        add("from a subscriber to a server", inside("Core"), user, server, ("tcp", 443), Arrived::Subnet(responder()));
        let own = End::Subnet(responder());
        add("from a server to a gateway's core side", own, server, core, ("icmp", 0), interface("Core"));
        let back = End::Subnet(responder());
        add("from a server to a subscriber", back, server, user, ("tcp", 443), interface("Core"));
    }
    for name in trial(fleet) {
        let from = End::Subnet((*name).to_owned());
        add("from a trial's host to the cloud's services", from, core, SERVER, ("tcp", 443), Arrived::Internet);
    }
    if fleet.gateway != Gateway::Cmts && fleet.settings.aws.case != Case::Cloud {
        let home = fleet.settings.aws.on_premise.address(u64::from(FIRST_ADDRESS))?;
        add("from a subscriber to the premises", inside("Core"), user, home, ("tcp", 443), Arrived::Premises);
        // A local gateway leads to addresses of its VPC only.
        if fleet.settings.aws.case == Case::Hybrid {
            add("from the premises to a subscriber", End::Premises, home, user, ("tcp", 443), interface("Core"));
        }
    }
    Some(all)
}
