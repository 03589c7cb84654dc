//! A broadband gateway's part of the file: a group for each worker, with outer VLANs and parts of pools of its own.

use super::{Places, RADIUS_SECRET};
use crate::cidr::Cidr;
use crate::fleet::Fleet;

/// Outer VLANs that can be on a trunk.
const VLANS: u32 = 4094;

pub fn lines(fleet: &Fleet, places: &Places, ordinal: u32, line: &mut impl FnMut(String)) -> Option<()> {
    let its = &fleet.settings.bng;
    let uri = fleet.uri(&places.access_interface, 1);
    // Groups have hardware addresses of their own, which are not the interface's.
    let more = if uri.contains('?') { '&' } else { '?' };
    line(format!("\n[[port]]\nname = \"access\"\nuri = \"{uri}{more}promisc=on\"\nrole = \"access\""));
    line("mtu = 1500\nclaim_interface = true".to_owned());
    line(format!("\n[[port]]\nname = \"core\"\nuri = \"{}\"\nrole = \"core\"", fleet.uri(&places.core_interface, 2)));
    line(format!("addresses = [\"{}\"]\nclaim_interface = true", places.core_address));
    line(format!("\n[[route]]\nto = \"0.0.0.0/0\"\nnext_hop = \"{}\"", places.core_router));
    line(format!("\n[[profile]]\nname = \"basic\"\nup = \"{}\"\ndown = \"{}\"", its.up, its.down));
    for worker in 0..fleet.workers() {
        group(fleet, places.any_mac, ordinal, worker, line)?;
    }
    line(format!("\n[sessions]\nledger = \"{}\"", places.ledger));
    if its.radius.is_empty() {
        return Some(());
    }
    line(format!("\n[radius]\nnas_identifier = \"{}-{ordinal}\"", fleet.settings.name));
    line(format!("interim_seconds = {}\ncoa = \"{}:3799\"", its.interim_seconds, places.n4_address));
    for server in &its.radius {
        line(format!("\n[[radius.server]]\naddress = \"{server}\"\nsecret = \"{RADIUS_SECRET}\""));
    }
    Some(())
}

fn group(fleet: &Fleet, any_mac: bool, ordinal: u32, worker: u32, line: &mut impl FnMut(String)) -> Option<()> {
    let its = &fleet.settings.bng;
    let (first, last) = s_vlans(fleet, ordinal, worker)?;
    let pool = pool(fleet, ordinal, worker)?;
    line(format!("\n[[group]]\nname = \"group-{ordinal}-{worker}\"\nports = [\"access\"]\nworker = {worker}"));
    line(format!("s_vlans = \"{first}-{last}\"\nc_vlans = \"{}\"\nprofile = \"basic\"", its.c_vlans));
    let gateway = pool.address(1)?;
    line(format!("ipv4 = [\"{pool}\"]\ngateways = [\"{gateway}\"]"));
    // The same wherever the gateway runs: lines keep their default router.
    let n = ordinal * fleet.workers() + worker;
    let [high, low] = u16::try_from(n).ok()?.to_be_bytes();
    if any_mac {
        line(format!("mac = \"02:00:5e:77:{high:02x}:{low:02x}\""));
    }
    let dns: Vec<String> = its.dns.iter().map(|server| format!("\"{server}\"")).collect();
    line(format!("\n[group.sessions]\nlease_seconds = {}\ndns = [{}]", its.lease_seconds, dns.join(", ")));
    line("ipv6 = \"off\"".to_owned());
    Some(())
}

/// First and last outer VLAN of a group; none: there are not so many.
fn s_vlans(fleet: &Fleet, ordinal: u32, worker: u32) -> Option<(u32, u32)> {
    let its = &fleet.settings.bng;
    let first = its.first_s_vlan + (ordinal * fleet.workers() + worker) * its.s_vlans;
    (its.s_vlans > 0 && first + its.s_vlans - 1 <= VLANS).then(|| (first, first + its.s_vlans - 1))
}

/// A worker's part of its gateway's part of the subscribers' addresses.
fn pool(fleet: &Fleet, ordinal: u32, worker: u32) -> Option<Cidr> {
    let part = fleet.pool(ordinal)?;
    part.part(worker, part.prefix() + fleet.workers().next_power_of_two().trailing_zeros() as u8)
}
