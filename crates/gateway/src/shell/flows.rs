//! Whose a port's packets are, from the steering table of the workers: what a device is asked to steer by leads to the
//! same worker as the hand-off.

use engine::Steer;
use port::PortError;
pub use port::flows::{FlowKey, Flows};

use super::ports::{PortEntry, device_of};

/// Packets to addresses of a network instance, behind that many tags.
pub fn to_addresses(flows: Flows, tags: u8, instance: u16, owners: &Steer) -> Flows {
    let v4 = owners.v4().iter().filter(|range| range.0 == instance);
    let v6 = owners.v6().iter().filter(|range| range.0 == instance);
    flows.with(FlowKey::To4, tags, v4.map(|(_, first, last, owner)| ((*first).into(), (*last).into(), *owner))).with(
        FlowKey::To6,
        tags,
        v6.map(|(_, first, last, owner)| (*first, *last, *owner)),
    )
}

/// Packets with identifiers of ours, which are compared by each of `keys`.
pub fn with_ids(flows: Flows, tags: u8, keys: &[FlowKey], owners: &Steer) -> Flows {
    let ranges = || owners.ids().iter().map(|(first, last, owner)| ((*first).into(), (*last).into(), *owner));
    keys.iter().fold(flows, |flows, key| flows.with(*key, tags, ranges()))
}

/// What each device is to steer by that has ports, of whose `flows` each has its own: in the order of the ports.
pub fn by_device(ports: &[PortEntry<'_>], flows: &[Flows]) -> Vec<Flows> {
    let mut devices = vec![Flows::default(); ports.len()];
    for (n, flows) in flows.iter().enumerate().take(ports.len()) {
        let device = device_of(ports, n);
        devices[device] = std::mem::take(&mut devices[device]).and(flows);
    }
    devices
}

/// Whether the device of one of those ports steers.
pub fn is_any_steered<'u>(mut uris: impl Iterator<Item = &'u str>) -> bool {
    uris.any(|uri| uri.parse().is_ok_and(|uri| port::flows::is_steered(&uri)))
}

/// Has the devices of ports that steer go by other owners from now on; `uris` and `flows` are in the order of the ports.
///
/// # Errors
/// As [`port::flows::change_flows`]; the other devices are changed.
pub fn change<'u>(uris: impl Iterator<Item = &'u str>, flows: &[Flows]) -> Result<(), PortError> {
    let devices = uris.zip(flows).filter_map(|(uri, flows)| Some((uri.parse().ok()?, flows)));
    let changed = devices.map(|(uri, flows)| port::flows::change_flows(&uri, flows).map(drop));
    changed.fold(Ok(()), Result::and)
}
