//! What a reload changes of sessions: pools, limits, options, tiers, RADIUS servers. Leases, sessions and counters stay.

use std::collections::HashMap;
use std::net::IpAddr;

use access::dhcp4::Dhcp4Server;
use access::dhcp6::Dhcp6Server;
use access::lease::Kind;
use access::pool::{LeftOut, Limits, Range};
use access::subscriber::Identity;

use super::relay;
use super::served::{self, Served};
use super::{BadSessions, Sessions};
use crate::config::{Config, ConfigError, Layout, RadiusSection, wrong};
use crate::control::Control;

/// What a reload changes of sessions, made and checked.
pub struct Change {
    /// Pools by VRF.
    ranges: Vec<Vec<Range>>,
    limits: Limits,
    dhcp4: Dhcp4Server,
    dhcp6: Dhcp6Server,
    relays: relay::Groups,
    groups: Vec<Option<Served>>,
    /// Numbers of profiles, by name.
    profiles: HashMap<String, u16>,
    /// Subscribers that get another tier with their group, by handle.
    tiers: HashMap<u32, (Identity, u16)>,
    radius: Option<RadiusSection>,
}

impl Change {
    /// The tier that a subscriber gets with its group; none: it keeps its own.
    pub fn tier(&self, handle: u32) -> Option<u16> {
        self.tiers.get(&handle).map(|(_, profile)| *profile)
    }
}

fn key_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Ip4 => "ipv4",
        Kind::Na => "ipv6_wan",
        Kind::Pd => "ipv6_pd",
    }
}

fn left_out(left: &LeftOut) -> ConfigError {
    let LeftOut { group, kind, example, count } = *left;
    let address = example.to_ipv4_mapped().map_or(IpAddr::from(example), IpAddr::from);
    let what = format!("{count} leases would be in no slice any more, such as that of {address}");
    let help = "keep their slice until they have ended, or end them: `weir subscriber NAME clear`";
    wrong(&[&"group", &group, &key_of(kind)], what, help)
}

/// A mistake that is not one of the file alone, at its section.
fn bad(error: BadSessions) -> ConfigError {
    wrong(&[&"group"], error.to_string(), "see the message")
}

impl Sessions {
    /// Makes what changes by a configuration in numbers, in which profiles are `named`; `before` is the one in use.
    ///
    /// # Errors
    /// What cannot be applied, by key.
    pub fn prepare(
        &self,
        (config, layout): (&Config, &Layout),
        before: &Layout,
        profiles: HashMap<String, u16>,
    ) -> Result<Change, ConfigError> {
        for (n, (old, new)) in before.groups.iter().zip(&layout.groups).enumerate() {
            if self.served(n as u16).is_some() && old.v6.is_empty() != new.v6.is_empty() {
                let key = if new.wan_slices + old.wan_slices > 0 { "ipv6_wan" } else { "ipv6_pd" };
                let what = "sessions of the group would begin, or cease, to have IPv6";
                return Err(wrong(&[&"group", &n, &key], what, "leave a slice of IPv6, or restart the gateway"));
            }
        }
        let of_vrf = |instance| served::ranges(config, layout, &layout.subscribers, instance);
        let ranges: Vec<_> = (0..self.pools.len()).map(of_vrf).collect();
        for (pools, ranges) in self.pools.iter().zip(&ranges) {
            let pool = |source| bad(BadSessions::Pool { group: String::new(), source });
            if let Some(left) = pools.left_out(ranges).map_err(pool)?.first() {
                return Err(left_out(left));
            }
        }
        let radius = config.radius.clone();
        if let Some((aaa, section)) = self.aaa.as_ref().zip(radius.as_ref()) {
            aaa.check(section)?;
        }
        let groups: Vec<_> = (0..layout.groups.len()).map(|n| Served::new(config, layout, n)).collect();
        let tiers = self.sessions.iter().filter_map(|(identity, session)| {
            let new = groups.get(usize::from(session.group))?.as_ref()?.profile;
            let has_own = self.granted_profile(identity).is_some();
            let old = self.served(session.group)?.profile;
            (!has_own && session.profile == old && new != old).then_some((session.handle, (*identity, new)))
        });
        Ok(Change {
            ranges,
            limits: served::limits(&config.sessions),
            dhcp4: served::dhcp4(config, layout).map_err(bad)?,
            dhcp6: served::dhcp6(config, layout, &config.sessions, self.own_mac),
            relays: relay::Groups::new(config, layout),
            tiers: tiers.collect(),
            groups,
            profiles,
            radius,
        })
    }

    /// Goes by it from now on.
    pub fn apply(&mut self, control: &mut Control, change: Change) {
        for (pools, ranges) in self.pools.iter_mut().zip(&change.ranges) {
            // They were checked.
            let _ = pools.change(ranges, change.limits);
        }
        self.dhcp4.follow(change.dhcp4);
        self.dhcp6.follow(change.dhcp6);
        self.relays.follow(change.relays);
        let mut bounded = Vec::new();
        for (n, (old, new)) in self.groups.iter_mut().zip(change.groups).enumerate() {
            if let Some((old, new)) = old.as_mut().zip(new) {
                let bounds = |served: &Served| served.trust_option82 && served.cap_by_line_rate;
                if bounds(old) != bounds(&new) {
                    bounded.push(n as u16); // groups have numbers of 16 bits
                }
                (old.offer, old.relayed, old.trust_option82) = (new.offer, new.relayed, new.trust_option82);
                (old.profile, old.cap_by_line_rate) = (new.profile, new.cap_by_line_rate);
            }
        }
        let has_rate = |session: &super::Session| bounded.contains(&session.group) && !session.line.rate.is_unknown();
        let changed: Vec<_> =
            self.sessions.iter().filter(|(_, session)| has_rate(session)).map(|(of, _)| *of).collect();
        changed.iter().for_each(|identity| self.reinstall(control, identity));
        self.profiles = change.profiles;
        for (identity, profile) in change.tiers.values() {
            self.set_profile(control, identity, *profile);
        }
        if let Some((aaa, section)) = self.aaa.as_mut().zip(change.radius) {
            aaa.follow(section);
        }
    }
}
