//! Host interfaces, made while there are privileges.

use std::net::Ipv6Addr;
use std::sync::Arc;

use dataplane::config::parse_prefix;
use dataplane::neighbour::link_local;
use frame::{Caps, HostInterface};
use port::helper::Place;
use port::host_tap::{HostTap, HostTapConfig};
use port::{PortError, Uri};
use wire::Mac;

use super::HostPort;
use crate::shell::ports::{PortEntry, PortsError};

/// The smallest largest packet of IPv6 (RFC 8200, 5).
const LEAST_MTU: u32 = 1280;
/// That of an interface that does not tell.
const USUAL_MTU: u32 = 1500;

fn place_of(text: &str) -> Place {
    text.parse().unwrap_or_else(|error| match error {})
}

/// Ports' host interfaces as URIs, for whoever finds out which privileges they take.
pub(crate) fn host_uris<'a>(entries: impl Iterator<Item = &'a PortEntry<'a>>) -> Vec<String> {
    let uri = |text: &str| {
        let Place { name, netns } = place_of(text);
        let uri = Uri::new("host", &name);
        netns.map_or(uri.clone(), |netns| uri.with("netns", netns)).to_string()
    };
    entries.filter_map(|entry| entry.host_interface).map(uri).collect()
}

/// Makes the host interfaces of those ports, whose `caps` lead to them from then on.
///
/// # Errors
/// [`PortsError::Port`], telling what to do.
pub(crate) fn open(entries: &[PortEntry<'_>], caps: &mut [Caps]) -> Result<Vec<HostPort>, PortsError> {
    let mut ports = Vec::new();
    for ((port, entry), caps) in (0..).zip(entries).zip(caps) {
        let Some(text) = entry.host_interface else { continue };
        let failed = |source: PortError| PortsError::Port { name: entry.name.to_owned(), source };
        let mut addresses: Vec<_> = entry.addresses.iter().filter_map(|text| parse_prefix(text)).collect();
        let has_ipv6 = addresses.iter().any(|(address, _)| address.is_ipv6());
        if has_ipv6 {
            // The port's own, too: IPv6 routers speak to and from them.
            let own: Ipv6Addr = link_local(Mac(caps.mac));
            addresses.push((own.into(), 64));
        }
        let of_port = if caps.mtu == 0 { USUAL_MTU } else { caps.mtu };
        let mtu = entry.mtu.map_or(of_port, |mtu| u32::from(mtu).min(of_port));
        let mtu = if has_ipv6 { mtu.max(LEAST_MTU) } else { mtu };
        let config = HostTapConfig { place: place_of(text), mac: caps.mac, mtu, addresses };
        let tap = HostTap::open(&config).map_err(failed)?;
        let writer = tap.writer().map_err(|source| {
            failed(PortError::System { doing: "copying a host interface's descriptor".to_owned(), source })
        })?;
        caps.host = Some(HostInterface::new(Arc::new(writer)).with_services(entry.host_packets_per_second));
        tracing::info!(
            target: "port", event = "host_interface_open", port = entry.name, interface = %tap.place(), mtu,
            "routing daemons find port \"{}\" as interface {}", entry.name, tap.place()
        );
        if tap.place().netns.is_none() {
            tracing::warn!(
                target: "port", event = "host_interface_shared", port = entry.name, interface = %tap.place(),
                "host interface {} is in the gateway's own network namespace: routes of the host and the daemons' mix, and the \
                 host looks for subscribers on the link of port \"{}\"; name one in a namespace, such as routing/{}",
                tap.place(), entry.name, tap.place().name
            );
        }
        ports.push(HostPort { port, tap });
    }
    Ok(ports)
}
