//! Opening the configured ports for each worker.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use dataplane::config::Frames;
use dataplane::config::parse_prefix;
use frame::{Arena, ArenaConfig, Caps, HEADROOM, Pool, Port, PortHandover};
use port::flows::Flows;
use port::host::{HostUse, Sharing};
use port::logical::{Logical, Share};
use port::{Offloads, OpenContext, PortError, Steer, Uri, Wires};

use super::flows::by_device;
use super::hand_over::shares_memory;
use super::port_stats::{ObservedPort, PortStatsReader};
use crate::load::{LoadError, Text};

/// A worker's ports, in the order of the configuration.
#[derive(Default)]
pub struct WorkerPorts {
    /// The ports.
    pub ports: Vec<Box<dyn Port>>,
    /// What they are.
    pub caps: Vec<Caps>,
    /// For looking at them later.
    pub port_stats: Vec<PortStatsReader>,
}

/// Reports interfaces with more receive queues than ports of the workers have: what the device puts into the others goes to
/// the host, uncounted.
pub(super) fn report_queues_not_served<'w>(entries: &[PortEntry<'_>], workers: impl Iterator<Item = &'w WorkerPorts>) {
    let caps: Vec<&[Caps]> = workers.map(|worker| &*worker.caps).collect();
    for (at, queues, served) in queues_not_served(&caps) {
        let (port, interface) = (entries[at].name, &caps[0][at].name);
        tracing::warn!(
            target: "port", event = "queues_not_served", port, interface, queues, served,
            "{interface} receives on {queues} queues and this gateway has {served} of them: what the device puts into others \
             goes to the host (ethtool -L {interface} combined {served}, or a port of a worker for each queue)"
        );
    }
}

/// Of what each worker's ports are, those ports, by place, that are the first on an interface which receives on more queues
/// than it has ports: queues there, and those served.
fn queues_not_served(workers: &[&[Caps]]) -> Vec<(usize, u32, u32)> {
    let mut served: BTreeMap<&str, u32> = BTreeMap::new();
    for caps in workers.iter().copied().flatten().filter(|caps| caps.queues.is_some()) {
        *served.entry(&caps.name).or_default() += 1;
    }
    let first = workers.first().copied().unwrap_or_default().iter().enumerate();
    let each = first.filter_map(|(at, caps)| Some((at, caps.queues?, served.remove(caps.name.as_str())?)));
    each.filter(|(_, queues, served)| served < queues).collect()
}

impl WorkerPorts {
    /// Of those ports, none of entries that share another's device, which is open.
    fn of(entries: &[PortEntry<'_>], mut devices: Vec<Option<Box<dyn Port>>>) -> Self {
        let mut shares: Vec<Vec<Arc<Share>>> = devices.iter().map(|_| Vec::new()).collect();
        let mut ports: Vec<Option<Box<dyn Port>>> = Vec::new();
        for n in 0..entries.len() {
            let on = device_of(entries, n);
            let device = devices.get(on).and_then(Option::as_ref).filter(|_| on != n).map(|device| device.caps());
            ports.push(device.map(|device| {
                let (port, share) = Logical::new(&device, on as u8); // fewer than 256 ports
                shares[on].push(share);
                Box::new(port) as Box<dyn Port>
            }));
        }
        let mut all = Self::default();
        let mut readers: Vec<(usize, PortStatsReader)> = Vec::new();
        for (n, logical) in ports.into_iter().enumerate() {
            let Some(port) = logical.or_else(|| devices[n].take()) else { continue };
            let (observed, reader) = ObservedPort::sharing(port, std::mem::take(&mut shares[n]));
            all.caps.push(observed.caps());
            all.ports.push(Box::new(observed));
            readers.push((device_of(entries, n), reader));
        }
        for (n, (on, reader)) in readers.iter().enumerate() {
            let device = readers.get(*on).filter(|_| *on != n).map(|(_, device)| (entries[*on].name, device));
            all.port_stats.push(reader.clone().on(device));
        }
        all
    }

    /// Reports ports whose devices were to give each worker its own packets, and do not.
    pub(super) fn report_unsteered(&self, entries: &[PortEntry<'_>]) {
        for (entry, port) in entries.iter().zip(&self.ports).filter(|(entry, _)| entry.on.is_none()) {
            if let Some(why) = port.caps().unsteered {
                tracing::warn!(
                    target: "port", event = "flow_rules_refused", port = entry.name, why,
                    "the device of port \"{}\" does not give each worker its own packets, and workers hand them over: {why}",
                    entry.name
                );
            }
        }
    }

    /// Where a packet is left unfinished for one port, and goes by another, that one finishes it.
    fn complete_what_others_leave(&self) {
        if self.caps.iter().any(|caps| caps.completes_udp6) {
            let others = self.caps.iter().zip(&self.port_stats).filter(|(caps, _)| !caps.completes_udp6);
            others.for_each(|(_, stats)| stats.complete_checksums());
        }
    }

    /// The ports of one worker that another process handed over: `of` is the worker's number, and how many there are; `handed`
    /// are those with a device, in order.
    ///
    /// # Errors
    /// As [`port::take_over`]; or one is missing.
    pub fn take_over(
        entries: &[PortEntry<'_>],
        of: (u16, u16),
        steer: &Steer,
        arena: &Arc<Arena>,
        handed: &mut impl Iterator<Item = PortHandover>,
    ) -> Result<Self, PortsError> {
        let mut devices = Vec::new();
        for entry in entries {
            if entry.on.is_some() {
                devices.push(None);
                continue;
            }
            let refused = |source| PortsError::Port { name: entry.name.to_owned(), source };
            let handed = handed.next().ok_or_else(|| refused(not_handed_over(entry.uri)))?;
            let uri = named(entry.uri, of.0, of.1).parse::<Uri>().map_err(refused)?;
            devices.push(Some(port::take_over(&uri, steer, arena, handed).map_err(refused)?));
        }
        Ok(Self::of(entries, devices))
    }
}

/// The number of the port whose device entry `n` has: its own, or that of the one it is on.
pub fn device_of(entries: &[PortEntry<'_>], n: usize) -> usize {
    let on = entries.get(n).and_then(|entry| entry.on);
    on.and_then(|on| entries.iter().position(|other| other.name == on)).unwrap_or(n)
}

/// The running gateway has not sent a port.
pub(crate) fn not_handed_over(uri: &str) -> PortError {
    PortError::BadUri { uri: uri.to_owned(), what: "the running gateway has no such port".to_owned() }
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum PortsError {
    /// Its configuration is invalid.
    #[error("the configuration is wrong")]
    Config(#[from] LoadError),
    /// It is valid, but the port cannot be opened on this host.
    #[error("port \"{name}\": {source}")]
    Port {
        /// The port's name.
        name: String,
        /// Why it was not opened.
        source: PortError,
    },
}

/// A port as configured.
pub struct PortEntry<'p> {
    /// What the configuration calls it.
    pub name: &'p str,
    /// What it is; empty of one that shares another's device.
    pub uri: &'p str,
    /// The port whose device it shares.
    pub on: Option<&'p str>,
    /// Its side of the gateway.
    pub role: &'static str,
    /// Our addresses on it.
    pub addresses: &'p [String],
    /// Whether it may take what the host uses.
    pub claim_interface: bool,
    /// The host interface of routing daemons beside it.
    pub host_interface: Option<&'p str>,
    /// Packets a second to services of the host beside it.
    pub host_packets_per_second: u32,
    /// Largest IP packet in bytes; none: the interface's.
    pub mtu: Option<u16>,
    /// What is left to the device where it can do it.
    pub offloads: Offloads,
}

/// What a configuration says of its packet memory.
pub(crate) fn arena_config(frames: &Frames) -> ArenaConfig {
    ArenaConfig { slots: frames.packet_buffers, slot_bytes: frames.packet_buffer_bytes, headroom: HEADROOM }
}

/// Packet memory for ports of those URIs; where AF_XDP ports share it with the kernel, such that another process can go
/// on with it and a helper register it.
///
/// # Errors
/// As [`Arena::new`].
pub fn arena<'u>(config: ArenaConfig, uris: impl Iterator<Item = &'u str>) -> io::Result<Arc<Arena>> {
    if shares_memory(uris) { Arena::shared(config) } else { Arena::new(config) }
}

/// Whose ports are opened.
pub struct Place<'a> {
    /// The configuration's text, for errors to point into.
    pub text: &'a Text,
    /// The worker.
    pub worker: u16,
    /// How many there are.
    pub workers: u16,
    /// Ends of memory ports.
    pub wires: &'a Wires,
}

impl Place<'_> {
    /// Opens ports by name and URI. `flows` are theirs, in order; of those that are missing nothing is known.
    ///
    /// # Errors
    /// [`PortsError`], each telling what to do.
    pub fn open(
        &self,
        entries: &[PortEntry<'_>],
        (steer, flows): (Steer, &[Flows]),
        pool: &mut Pool,
    ) -> Result<WorkerPorts, PortsError> {
        let flows = by_device(entries, flows);
        let mut devices = Vec::new();
        let (wires, worker) = (self.wires.clone(), self.worker);
        let mut cx = OpenContext { wires, steer, worker, ..OpenContext::new(pool) };
        for (n, entry) in entries.iter().enumerate() {
            let PortEntry { name, uri, .. } = *entry;
            if entry.on.is_some() {
                devices.push(None);
                continue;
            }
            let failed = |error: PortError| match error {
                PortError::BadUri { .. } | PortError::UnknownKey { .. } | PortError::BadValue { .. } => {
                    let path = ["port".to_owned(), n.to_string(), "uri".to_owned()];
                    PortsError::Config(self.text.at(&path, error.to_string(), help(&error)))
                }
                source => PortsError::Port { name: name.to_owned(), source },
            };
            let uri = named(uri, self.worker, self.workers).parse::<Uri>().map_err(failed)?;
            let sharing = Sharing::of(&uri);
            let used = match sharing {
                Sharing::None => HostUse::default(),
                _ => HostUse::of(&uri).map_err(failed)?,
            };
            let of_device = || entries.iter().enumerate().filter(|(other, _)| device_of(entries, *other) == n);
            if let Some(what) = harm_of_device(entries, n, sharing, &used, uri.target()) {
                let path = ["port".to_owned(), n.to_string(), "uri".to_owned()];
                let help = "name an interface of the gateway's own, or, if nothing of the host's depends on this one \
                            (you may be connected by it), say claim_interface = true";
                return Err(self.text.at(&path, what, help).into());
            }
            cx.offloads = of_device().fold(Offloads::default(), |all, (_, entry)| all.and(entry.offloads));
            cx.flows = flows[n].clone();
            devices.push(Some(port::open(&uri, &mut cx).map_err(failed)?));
        }
        let ports = WorkerPorts::of(entries, devices);
        ports.complete_what_others_leave();
        Ok(ports)
    }
}

/// What opening the device of entry `n` would do to the host for any of the ports there, if anything that is not allowed.
fn harm_of_device(
    entries: &[PortEntry<'_>],
    n: usize,
    sharing: Sharing,
    used: &HostUse,
    interface: &str,
) -> Option<String> {
    let of_device = entries.iter().enumerate().filter(|(other, _)| device_of(entries, *other) == n);
    of_device
        .map(|(_, entry)| entry)
        .find_map(|entry| entry.harm(sharing, used, interface))
        .filter(|_| !entries[n].claim_interface)
}

impl PortEntry<'_> {
    /// Where its packets come from: a URI, or another port's device.
    pub(super) fn place(&self) -> String {
        self.on.map_or_else(|| self.uri.to_owned(), |on| format!("on {on}"))
    }

    /// What opening the port would do to the host, if anything that is not allowed.
    fn harm(&self, sharing: Sharing, used: &HostUse, interface: &str) -> Option<String> {
        if self.claim_interface || sharing == Sharing::None {
            return None;
        }
        let list = |addresses: &[IpAddr]| addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
        if sharing == Sharing::Copies {
            // Both would answer for the address.
            let ours = |address: &&IpAddr| {
                self.addresses.iter().any(|text| parse_prefix(text).is_some_and(|(ours, _)| ours == **address))
            };
            let both: Vec<IpAddr> = used.addresses.iter().filter(ours).copied().collect();
            return (!both.is_empty()).then(|| {
                format!("the host has an address of port \"{}\" on `{interface}` itself: {}", self.name, list(&both))
            });
        }
        let what = match (used.default_route, used.addresses.is_empty()) {
            (false, true) => return None,
            (true, true) => "the host's default route leads by it".to_owned(),
            (true, false) => {
                format!("the host's default route leads by it, and it has {} there", list(&used.addresses))
            }
            (false, false) => format!("the host has {} there", list(&used.addresses)),
        };
        Some(format!("port \"{}\" would take `{interface}` from the host: {what}", self.name))
    }
}

/// The URI of one worker's port: `{worker}` is its number, `{workers}` how many there are.
fn named(uri: &str, worker: u16, workers: u16) -> String {
    uri.replace("{workers}", &workers.to_string()).replace("{worker}", &worker.to_string())
}

/// The URIs of all workers' ports.
pub fn of_all<'u>(uris: impl Iterator<Item = &'u str>, workers: u16) -> impl Iterator<Item = String> {
    uris.flat_map(move |uri| (0..workers).map(move |worker| named(uri, worker, workers)))
}

fn help(error: &PortError) -> &'static str {
    match error {
        PortError::UnknownKey { .. } => "leave it out, or use a key of that kind of port",
        PortError::BadValue { .. } => "leave it out for the usual value",
        _ => "such as packet:eth0",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_made_for_each_worker() {
        let uri = "packet:eth0?fanout=subscriber&group=1&member={worker}/{workers}";
        assert_eq!(named(uri, 1, 2), "packet:eth0?fanout=subscriber&group=1&member=1/2");
    }

    #[test]
    fn queues_without_a_port_are_found() {
        let caps = |name: &str, queues| Caps { name: name.to_owned(), queues, ..Caps::default() };
        let worker = [caps("eth0", Some(4)), caps("eth1", Some(2)), caps("lo", None), caps("eth0", Some(4))];
        assert_eq!(queues_not_served(&[&worker]), [(0, 4, 2), (1, 2, 1)], "each interface once");
        assert_eq!(queues_not_served(&[&worker, &worker]), [], "two workers have all queues");
        assert_eq!(queues_not_served(&[]), []);
    }

    #[test]
    fn what_the_host_uses_is_refused() {
        let addresses = ["10.0.3.1/24".to_owned()];
        let entry = |claim_interface| PortEntry {
            name: "n3",
            uri: "xdp:eth0",
            on: None,
            role: "access",
            addresses: &addresses,
            claim_interface,
            host_interface: None,
            host_packets_per_second: 0,
            mtu: None,
            offloads: Offloads::default(),
        };
        let used = |addresses: &[[u8; 4]], default_route| HostUse {
            addresses: addresses.iter().map(|address| IpAddr::from(*address)).collect(),
            default_route,
        };
        let harm = |sharing, used: &HostUse| entry(false).harm(sharing, used, "eth0");
        let busy = used(&[[192, 0, 2, 7]], true);
        let said = harm(Sharing::Takes, &busy).unwrap();
        assert!(
            said.contains("would take `eth0`") && said.contains("default route") && said.contains("192.0.2.7"),
            "{said}"
        );
        assert!(harm(Sharing::Takes, &used(&[[192, 0, 2, 7]], false)).is_some());
        assert!(harm(Sharing::Takes, &used(&[], true)).is_some());
        assert_eq!(harm(Sharing::Takes, &used(&[], false)), None);
        assert_eq!(entry(true).harm(Sharing::Takes, &busy, "eth0"), None);
        // Copies harm only where both answer.
        assert_eq!(harm(Sharing::Copies, &busy), None);
        assert!(harm(Sharing::Copies, &used(&[[10, 0, 3, 1]], false)).unwrap().contains("10.0.3.1"));
        assert_eq!(harm(Sharing::None, &busy), None);
        // The port that has the device speaks for those on it.
        for claimed in [true, false] {
            let ports = [entry(claimed), PortEntry { name: "n6", uri: "", on: Some("n3"), ..entry(false) }];
            assert_eq!(harm_of_device(&ports, 0, Sharing::Takes, &busy, "eth0").is_none(), claimed);
        }
    }
}
