//! What the far sides know of a cable gateway: taken from the layout that the gateway itself is made of.

use std::net::{IpAddr, Ipv4Addr};

use cmts::config::{Config, Layout, Named};
use cmts::upstream::Carries;
use traffic::cable::{Group, Modem, Plant};
use wire::Mac;
use wire::l2tp::{Carrier, Cookie};
use wire::psp::Word;

use crate::error::BenchError;

/// A plant of that configuration, as workloads of the bench have them: IPv4, L2TPv3 over IP without cookies, one SID a
/// modem. `ours` is the gateway's address towards devices; `macs` and `core_macs` are hardware addresses, the gateway's
/// first.
///
/// # Errors
/// When the configuration cannot be.
pub fn plant(config: &Config, ours: Ipv4Addr, macs: [Mac; 2], core_macs: [Mac; 2]) -> Result<Plant, BenchError> {
    let layout = config.layout().map_err(|error| BenchError::Gateway(error.to_string()))?;
    let addresses: Vec<[Ipv4Addr; 2]> =
        config.service_group.iter().map(|group| [ours, v4(group.rpd).unwrap_or(Ipv4Addr::UNSPECIFIED)]).collect();
    let groups = groups(&layout, &addresses, |_| true);
    let gateway = layout.modems.last().map_or(Mac::ZERO, |named| named.spec.cmts_mac);
    Ok(Plant {
        carrier: Carrier::Ip,
        cookies: [Cookie::None; 2],
        word: Word::Present,
        mtu: config.port.first().and_then(|port| port.mtu).unwrap_or(1500).into(),
        macs,
        core_macs,
        gateway,
        groups,
    })
}

/// Service groups with their channels, and the modems that are wanted. `addresses`: of the gateway towards devices and of
/// the device, by group.
pub fn groups(layout: &Layout, addresses: &[[Ipv4Addr; 2]], wanted: impl Fn(&Named) -> bool) -> Vec<Group> {
    let group = |addresses: &[Ipv4Addr; 2]| Group {
        addresses: *addresses,
        downstream: Vec::new(),
        upstream: Vec::new(),
        requests: None,
        modems: Vec::new(),
    };
    let mut groups: Vec<Group> = addresses.iter().map(group).collect();
    for channel in &layout.channels {
        groups[usize::from(channel.service_group)].downstream.push(channel.session);
    }
    for wire in &layout.pseudowires {
        let group = &mut groups[usize::from(wire.service_group)];
        match wire.carries {
            Carries::Bursts => group.upstream.push(wire.session),
            Carries::Requests => group.requests = Some(wire.session),
        }
    }
    for named in layout.modems.iter().filter(|named| wanted(named)) {
        let spec = &named.spec;
        groups[usize::from(spec.service_group)].modems.push(Modem {
            hosts: spec.hosts.iter().filter_map(|(address, mac)| Some((v4(*address)?, *mac))).collect(),
            said: spec.security.as_ref().map_or(0, |security| security.said),
            sid: spec.clusters.first().and_then(|cluster| cluster.sids.first()).copied().unwrap_or(0),
            keys: spec.security.as_ref().map_or([None; 2], |security| security.keys.map(|key| Some(key?.1))),
            sequence: 0,
        });
    }
    groups
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}
