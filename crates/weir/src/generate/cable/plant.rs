//! What the far sides know of a cable gateway, from its configuration.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, bail};
use bench::cmts::plant::groups;
use cmts::config::{Config, Named, Role};
use gateway::fail::Usage;
use traffic::cable::Plant;
use wire::Mac;
use wire::l2tp::{Carrier, Cookie};
use wire::psp::Word;

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// The gateway's first IPv4 addresses, towards the network and towards devices.
///
/// # Errors
/// A side has none.
pub fn addresses(config: &Config) -> anyhow::Result<[Ipv4Addr; 2]> {
    let of = |role: Role| {
        let ports = config.port.iter().filter(|port| port.role == role);
        let mut all = ports.flat_map(|port| &port.addresses);
        let found = all.find_map(|text| text.split('/').next()?.parse::<Ipv4Addr>().ok());
        found.with_context(|| Usage("port.*.addresses: weir gen cable needs an IPv4 address on both sides".to_owned()))
    };
    Ok([of(Role::Network)?, of(Role::Rpd)?])
}

/// Addresses of the Remote-PHY devices, by service group.
///
/// # Errors
/// One is of IPv6.
pub fn devices(config: &Config) -> anyhow::Result<Vec<Ipv4Addr>> {
    let of =
        |rpd: IpAddr| v4(rpd).with_context(|| Usage(format!("service_group.*.rpd {rpd}: weir gen cable sends IPv4")));
    config.service_group.iter().map(|group| of(group.rpd)).collect()
}

/// The plant: L2TPv3 over IP without cookies, one SID a modem. `ours` is the gateway's address towards devices; `macs`
/// and `core_macs` are hardware addresses, the gateway's first.
///
/// # Errors
/// The configuration has no layout, or carries L2TPv3 otherwise.
pub fn plant(config: &Config, ours: Ipv4Addr, macs: [Mac; 2], core_macs: [Mac; 2]) -> anyhow::Result<Plant> {
    let layout = config.layout()?;
    let addresses: Vec<[Ipv4Addr; 2]> = devices(config)?.into_iter().map(|device| [ours, device]).collect();
    // Groups of multicast have hosts that no modem sends from.
    let is_wanted = |named: &Named| {
        let hosts = &named.spec.hosts;
        hosts.iter().all(|(ip, _)| !ip.is_multicast()) && hosts.iter().any(|(ip, _)| ip.is_ipv4())
    };
    let groups = groups(&layout, &addresses, is_wanted);
    let mut cmts_macs = layout.modems.iter().map(|named| named.spec.cmts_mac);
    let gateway = cmts_macs.next().unwrap_or(Mac::ZERO);
    if cmts_macs.any(|mac| mac != gateway) {
        bail!(Usage("service_group.*.mac: weir gen cable needs the same in all groups".to_owned()));
    }
    if groups.iter().all(|group| group.modems.is_empty()) {
        bail!(Usage("service_group.*.modem: there is none".to_owned()));
    }
    for (group, entry) in groups.iter().zip(&config.service_group) {
        if !group.modems.is_empty() && (group.upstream.is_empty() || group.downstream.is_empty()) {
            let what = format!("service_group \"{}\": no downstream or no burst channel", entry.name);
            bail!(Usage(what));
        }
    }
    let has_cookie = layout.channels.iter().any(|one| one.cookie != Cookie::None)
        || layout.pseudowires.iter().any(|one| one.cookie != Cookie::None);
    if has_cookie || config.service_group.iter().any(|group| group.carrier != cmts::config::Carrier::Ip) {
        bail!(Usage("weir gen cable sends L2TPv3 over IP (protocol 115), without cookies, only".to_owned()));
    }
    let mtu = config.port.iter().find(|port| port.role == Role::Rpd).and_then(|port| port.mtu);
    Ok(Plant {
        carrier: Carrier::Ip,
        cookies: [Cookie::None; 2],
        word: Word::Present,
        mtu: mtu.unwrap_or(1500).into(),
        macs,
        core_macs,
        gateway,
        groups,
    })
}
