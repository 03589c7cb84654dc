//! What the far sides know of a cable gateway: taken from the layout that the gateway itself is made of.

use std::net::{IpAddr, Ipv4Addr};

use cmts::config::Config;
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
    let v4 = |address: IpAddr| match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    };
    let group = |rpd: IpAddr| Group {
        addresses: [ours, v4(rpd).unwrap_or(Ipv4Addr::UNSPECIFIED)],
        downstream: Vec::new(),
        upstream: Vec::new(),
        requests: None,
        modems: Vec::new(),
    };
    let mut groups: Vec<_> = config.service_group.iter().map(|sg| group(sg.rpd)).collect();
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
    let mut gateway = Mac::ZERO;
    for named in &layout.modems {
        let spec = &named.spec;
        gateway = spec.cmts_mac;
        groups[usize::from(spec.service_group)].modems.push(Modem {
            hosts: spec.hosts.iter().filter_map(|(address, mac)| Some((v4(*address)?, *mac))).collect(),
            said: spec.security.as_ref().map_or(0, |security| security.said),
            sid: spec.clusters.first().and_then(|cluster| cluster.sids.first()).copied().unwrap_or(0),
            keys: spec.security.as_ref().map_or([None; 2], |security| security.keys.map(|key| Some(key?.1))),
            sequence: 0,
        });
    }
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
