//! Static subscribers: each section is one for each of its count, with its line and addresses.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use access::option82::LineRate;
use dataplane::forward::InstanceId;

use super::super::{Config, Subscriber, parse_mac, parse_prefix, wrong};
use super::{GroupPlan, Layout, MOST_SUBSCRIBERS, Result, Slice6, find};
use crate::link::Line;
use crate::record::SubscriberSpec;
use crate::subscribers::last_of;

/// A subscriber's addresses must be its own: no router's, in no other group's slice, and prefixes no longer than those that
/// their slice is divided into.
fn check_addresses(n: usize, spec: &SubscriberSpec, groups: &[GroupPlan], ours: &[IpAddr]) -> Result<()> {
    let own = &groups[usize::from(spec.group)];
    let fail =
        |key: &str, what: String| Err(wrong(&[&"subscriber", &n, &key], what, "an address of the group's own slices"));
    let others = || {
        groups.iter().enumerate().filter(|(g, other)| *g != usize::from(spec.group) && other.instance == own.instance)
    };
    if let Some(address) = spec.ipv4 {
        let text = std::net::Ipv4Addr::from(address);
        if ours.contains(&text.into()) {
            return fail("ipv4", format!("{text} is the gateway's own"));
        }
        if others().any(|(_, other)| other.v4.iter().any(|slice| (slice.first..=slice.last).contains(&address))) {
            return fail("ipv4", format!("{text} is in a slice of another group"));
        }
    }
    let wan = spec.wan.map(|wan| ("ipv6_wan", wan, 64));
    for (key, first, len) in wan.into_iter().chain(spec.pd.map(|(pd, len)| ("ipv6_pd", pd, len))) {
        let last = last_of(first, len);
        let is_in = |address: &&IpAddr| match address {
            IpAddr::V6(address) => (first..=last).contains(&((address.to_bits() >> 64) as u64)),
            IpAddr::V4(_) => false,
        };
        if let Some(address) = ours.iter().find(is_in) {
            return fail(key, format!("the gateway's own {address} is in the prefix"));
        }
        let meets = |slice: &&Slice6| slice.first <= last && first <= slice.last;
        if others().any(|(_, other)| other.v6.iter().any(|slice| meets(&slice))) {
            return fail(key, "the prefix is in a slice of another group".to_owned());
        }
        if let Some(slice) = own.v6.iter().find(meets)
            && (slice.length < len || first < slice.first || slice.last < last)
        {
            return fail(key, format!("a /{len} does not fit a slice of /{}", slice.length));
        }
    }
    Ok(())
}

/// What subscribers have so far.
#[derive(Default)]
pub(super) struct Seen {
    lines: HashSet<(Line, Option<[u8; 6]>)>,
    v4: HashSet<(InstanceId, u32)>,
    /// Prefixes in order, none in another: where each ends.
    v6: BTreeMap<(InstanceId, u64), u64>,
}

impl Seen {
    /// Adds a subscriber; the error is the key of what another one has.
    fn add(&mut self, spec: &SubscriberSpec, group: &GroupPlan) -> std::result::Result<(), &'static str> {
        if !self.lines.insert((spec.line, spec.mac.filter(|_| group.shared))) {
            return Err(if group.shared { "mac" } else { "c_vlan" });
        }
        if spec.ipv4.is_some_and(|address| !self.v4.insert((group.instance, address))) {
            return Err("ipv4");
        }
        if spec.wan.is_some_and(|prefix| !self.add6(group.instance, prefix, 64)) {
            return Err("ipv6_wan");
        }
        if spec.pd.is_some_and(|(prefix, len)| !self.add6(group.instance, prefix, len)) {
            return Err("ipv6_pd");
        }
        Ok(())
    }

    /// Adds a prefix. False: a part of it is another's.
    fn add6(&mut self, instance: InstanceId, first: u64, len: u8) -> bool {
        let last = last_of(first, len);
        // As none is in another, the last that begins no later than this one's end is the only one that can meet it.
        let before = self.v6.range((instance, 0)..=(instance, last)).next_back();
        let is_free = before.is_none_or(|(_, end)| *end < first);
        if is_free {
            self.v6.insert((instance, first), last);
        }
        is_free
    }
}

fn plus(mac: [u8; 6], n: u64) -> [u8; 6] {
    let [a, b, c, d, e, f] = mac;
    let [_, _, bytes @ ..] = u64::from_be_bytes([0, 0, a, b, c, d, e, f]).wrapping_add(n).to_be_bytes();
    bytes
}

fn wan(n: usize, entry: &Subscriber) -> Result<Option<u64>> {
    let Some(address) = entry.ipv6_wan else { return Ok(None) };
    let bits = u128::from(address);
    if bits as u64 != 0 || bits == 0 {
        let what = format!("{address} is no /64");
        return Err(wrong(&[&"subscriber", &n, &"ipv6_wan"], what, "the first address of a /64"));
    }
    Ok(Some((bits >> 64) as u64))
}

fn delegated(n: usize, entry: &Subscriber) -> Result<Option<(u64, u8)>> {
    let Some(text) = &entry.ipv6_pd else { return Ok(None) };
    match parse_prefix(text) {
        Some((IpAddr::V6(address), len @ 48..=64)) if u128::from(address) << len == 0 => {
            Ok(Some(((u128::from(address) >> 64) as u64, len)))
        }
        _ => {
            let what = format!("\"{text}\" is not a prefix of length 48 to 64");
            Err(wrong(&[&"subscriber", &n, &"ipv6_pd"], what, "such as 2001:db8:4000::/56"))
        }
    }
}

impl Config {
    pub(super) fn expand(&self, n: usize, layout: &mut Layout, seen: &mut Seen) -> Result<()> {
        let entry = &self.subscriber[n];
        let g = find(&[&"subscriber", &n, &"group"], "group", &entry.group, &self.group, |group| &group.name)?;
        let group = &layout.groups[g];
        let (profile, path): (_, &[&dyn ToString]) = match (&entry.profile, &self.group[g].profile) {
            (Some(name), _) | (None, Some(name)) => (name, &[&"subscriber", &n, &"profile"]),
            (None, None) => {
                let what = "neither the subscriber nor its group names a profile";
                return Err(wrong(&[&"subscriber", &n, &"profile"], what, "profile = \"…\""));
            }
        };
        let profile = find(path, "profile", profile, &self.profile, |profile| &profile.name)? as u16;
        if entry.count == 0 || layout.subscribers.len() + entry.count as usize > MOST_SUBSCRIBERS {
            let what = format!("{} subscribers", entry.count);
            return Err(wrong(&[&"subscriber", &n, &"count"], what, format!("1 to {MOST_SUBSCRIBERS} in all")));
        }
        let first = self.first_line(n, entry, group)?;
        let mac = entry.mac.as_deref().map(|text| {
            let mac = parse_mac(text).filter(|mac| mac[0] & 1 == 0);
            let what = || format!("\"{text}\" is not the hardware address of one station");
            mac.ok_or_else(|| wrong(&[&"subscriber", &n, &"mac"], what(), "such as 02:00:00:00:00:01"))
        });
        let mac = mac.transpose()?;
        if group.shared && mac.is_none() {
            let what = format!("group \"{}\" is N:1: hardware addresses tell its lines apart", entry.group);
            return Err(wrong(&[&"subscriber", &n, &"mac"], what, "mac = \"02:…\""));
        }
        let wan = wan(n, entry)?;
        let pd = delegated(n, entry)?;
        if entry.ipv4.is_none() && wan.is_none() && pd.is_none() {
            let what = "a subscriber without address";
            return Err(wrong(&[&"subscriber", &n], what, "at least one of ipv4, ipv6_wan, ipv6_pd"));
        }
        let own = self.own_addresses(group.instance, &layout.groups);
        for i in 0..entry.count {
            let line = group.line(if group.shared { first } else { first + i as usize }).ok_or_else(|| {
                let what = format!("subscriber {i} of {} is beyond the group's VLANs", entry.count);
                wrong(&[&"subscriber", &n, &"count"], what, "fewer, or more VLANs in the group")
            })?;
            let spec = SubscriberSpec {
                handle: layout.subscribers.len() as u32, // at most MOST_SUBSCRIBERS
                line,
                group: g as u16,
                mac: mac.map(|mac| plus(mac, i.into())),
                ipv4: entry.ipv4.map(|first| u32::from(first).wrapping_add(i)),
                wan: wan.map(|first| first.wrapping_add(i.into())),
                pd: pd.map(|(first, len)| (first.wrapping_add(u64::from(i) << (64 - len)), len)),
                profile,
                line_rate: LineRate::default(),
            };
            check_addresses(n, &spec, &layout.groups, &own)?;
            if let Err(key) = seen.add(&spec, group) {
                let what = format!("subscriber {i} of {} has the line or address of another", entry.count);
                return Err(wrong(&[&"subscriber", &n, &key], what, "give each its own"));
            }
            layout.subscribers.push(spec);
        }
        Ok(())
    }

    /// The gateway's own addresses in a VRF: those of groups and of core ports.
    pub(crate) fn own_addresses(&self, instance: InstanceId, groups: &[GroupPlan]) -> Vec<IpAddr> {
        let groups = groups.iter().filter(|group| group.instance == instance);
        let ports = self.port.iter().filter(|port| self.instance(port.instance()) == instance);
        let of_ports = ports.flat_map(|port| &port.addresses).filter_map(|text| parse_prefix(text));
        groups.flat_map(|group| group.gateways.iter().copied()).chain(of_ports.map(|(address, _)| address)).collect()
    }

    /// The place of the first subscriber's VLAN pair in its group.
    pub(super) fn first_line(&self, n: usize, entry: &Subscriber, group: &GroupPlan) -> Result<usize> {
        let port = match &entry.port {
            None => group.ports[0],
            Some(name) => find(&[&"subscriber", &n, &"port"], "port", name, &self.port, |port| &port.name)? as u8,
        };
        let line = Line {
            port,
            s_vlan: entry.s_vlan.unwrap_or(group.s_vlans.first),
            c_vlan: entry.c_vlan.unwrap_or(group.c_vlans.first),
        };
        group.place(line).ok_or_else(|| {
            let key = match () {
                () if !group.ports.contains(&port) => "port",
                () if group.s_vlans.offset(line.s_vlan).is_none() => "s_vlan",
                () => "c_vlan",
            };
            let what = format!("not in group \"{}\"", entry.group);
            wrong(&[&"subscriber", &n, &key], what, "a port and VLANs of the group")
        })
    }
}
