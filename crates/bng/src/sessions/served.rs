//! What each group's sessions are served: pools, options and advertisements, from the configuration.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use access::dhcp4::{self, BadOption, Dhcp4Server};
use access::dhcp6::{self, Dhcp6Server};
use access::lease::Kind;
use access::pool::{BadPool, Limits, Pools, Range};
use access::ra::{self, RouterAdvertisements};
use access::subscriber::Vlans;
use wire::Mac;

use crate::config::{Config, GroupPlan, Ipv6Mode, Layout, SessionsSection, gateways4, link_local, prefix4, seconds};
use crate::record::SubscriberSpec;

/// Records that may wait for the disk.
pub(super) const WAITING: usize = 65_536;
/// The longest a router may say it is one, in seconds (RFC 4861, 6.2.1).
const LONGEST_LIFETIME: u32 = 9000;

/// Why there can be no sessions.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadSessions {
    #[error("group {group}: {source}")]
    Pool { group: String, source: BadPool },
    #[error("options for DHCPv4 clients: {0}")]
    Option(#[from] BadOption),
    #[error("leases cannot be stored: {0}")]
    Ledger(ledger::LedgerError),
}

/// What one group's sessions are served, and whom routers are advertised to.
pub struct Served {
    /// VRF of the group's core side.
    pub instance: usize,
    /// How lines identify subscribers.
    pub vlans: Vlans,
    /// Where IPv6 addresses come from.
    pub mode: Ipv6Mode,
    /// The router's link-local address; none: there is no IPv6.
    pub link_local: Option<Ipv6Addr>,
    /// How long IPv4 addresses are leased.
    pub lease: Duration,
    /// How long IPv6 addresses and prefixes are valid.
    pub valid: Duration,
    /// How long an offered address is held.
    pub offer: Duration,
    /// Relay agents on lines are trusted.
    pub relayed: bool,
    /// The circuit ID in requests is an access node's.
    pub trust_option82: bool,
    /// What an access node tells of a line's rates bounds those of its subscriber.
    pub cap_by_line_rate: bool,
    /// The profile of its sessions.
    pub profile: u16,
    /// What is advertised.
    pub advert: ra::Config,
    /// When to whom.
    pub adverts: RouterAdvertisements,
    /// Subscribers that are advertised to, by handle, and the prefix they are told.
    pub told: HashMap<u32, Option<Ipv6Addr>>,
}

impl Served {
    /// Of a group; none: it has no sessions.
    pub fn new(config: &Config, layout: &Layout, group: usize) -> Option<Self> {
        let (plan, sessions) = (layout.groups.get(group)?, config.group.get(group)?.sessions.as_ref()?);
        let mode = if plan.v6.is_empty() { Ipv6Mode::Off } else { sessions.ipv6 };
        let advert = ra::Config {
            mac: Mac([0; 6]), // put in where the port is known
            interval: seconds(sessions.advertisement_seconds),
            lifetime: sessions.advertisement_seconds.saturating_mul(3).min(LONGEST_LIFETIME) as u16,
            managed: mode == Ipv6Mode::Dhcp,
            other: true,
            mtu: None,
            valid: sessions.ipv6_valid_seconds,
            preferred: sessions.ipv6_preferred_seconds,
        };
        Some(Self {
            instance: plan.instance.into(),
            vlans: if plan.shared { Vlans::ManyPerLine } else { Vlans::OnePerLine },
            mode,
            link_local: link_local(plan).filter(|_| mode != Ipv6Mode::Off),
            lease: seconds(sessions.lease_seconds),
            valid: seconds(sessions.ipv6_valid_seconds),
            offer: seconds(config.sessions.offer_seconds),
            relayed: sessions.relayed,
            trust_option82: sessions.trust_option82,
            cap_by_line_rate: sessions.cap_by_line_rate,
            profile: plan.profile?,
            advert,
            adverts: RouterAdvertisements::new(advert),
            told: HashMap::new(),
        })
    }

    /// Seconds of a lease of that kind.
    pub fn lease_of(&self, kind: Kind) -> u32 {
        let lease = if kind == Kind::Ip4 { self.lease } else { self.valid };
        lease.as_secs() as u32 // they were configured in 32 bits
    }
}

/// Numbers in rows: first and last.
fn rows<T: Copy + Ord>(mut all: Vec<(T, T)>, follows: impl Fn(T, T) -> bool) -> Vec<(T, T)> {
    all.sort_unstable();
    let mut rows: Vec<(T, T)> = Vec::new();
    for (first, last) in all {
        match rows.last_mut() {
            Some(row) if first <= row.1 || follows(row.1, first) => row.1 = row.1.max(last),
            _ => rows.push((first, last)),
        }
    }
    rows
}

fn v6(upper: u64, lower: u64) -> IpAddr {
    Ipv6Addr::from_bits(u128::from(upper) << 64 | u128::from(lower)).into()
}

/// The pools of a VRF's groups that have sessions, beside the `fixed` subscribers. What is not leased: the gateway's own addresses, static subscribers', and
/// of each IPv4 slice the first and the last address, which some clients take for the network's own.
pub fn ranges(config: &Config, layout: &Layout, fixed: &[SubscriberSpec], instance: usize) -> Vec<Range> {
    let is_here = |spec: &&SubscriberSpec| usize::from(layout.groups[usize::from(spec.group)].instance) == instance;
    let specs = || fixed.iter().filter(is_here);
    let fixed4 = rows(specs().filter_map(|spec| Some((spec.ipv4?, spec.ipv4?))).collect(), |a, b| a + 1 == b);
    let fixed6 = specs().flat_map(|spec| spec.wan.map(|wan| (wan, 64)).into_iter().chain(spec.pd));
    let fixed6 =
        rows(fixed6.map(|(first, len)| (first, crate::subscribers::last_of(first, len))).collect(), |a: u64, b| {
            a.wrapping_add(1) == b
        });
    let own = config.own_addresses(instance as u16, &layout.groups);
    let own4 = own.iter().copied().filter(IpAddr::is_ipv4).map(|address| (address, address));
    let own6 = own.iter().copied().filter(IpAddr::is_ipv6).map(|address| (address, address));
    let v4 = |address: u32| IpAddr::from(Ipv4Addr::from(address));
    let fixed4 = fixed4.into_iter().map(|(first, last)| (v4(first), v4(last)));
    let fixed6 = fixed6.into_iter().map(|(first, last)| (v6(first, 0), v6(last, u64::MAX)));
    let excluded4: Vec<_> = fixed4.chain(own4).collect();
    let excluded6: Vec<_> = fixed6.chain(own6).collect();
    let mut ranges = Vec::new();
    for (n, plan) in layout.groups.iter().enumerate() {
        let group = n as u16; // there are no more
        if usize::from(plan.instance) != instance || config.group[n].sessions.is_none() {
            continue;
        }
        for slice in &plan.v4 {
            let mut excluded = excluded4.clone();
            if slice.last - slice.first > 1 {
                excluded.extend([slice.first, slice.last].map(|address| (v4(address), v4(address))));
            }
            ranges.push(Range { excluded, ..Range::ip4(group, slice.first.into(), slice.last.into()) });
        }
        for (m, slice) in plan.v6.iter().enumerate() {
            let kind = if m < plan.wan_slices { Kind::Na } else { Kind::Pd };
            let (first, last) = (v6(slice.first, 0), v6(slice.last, u64::MAX));
            let excluded = excluded6.clone();
            ranges.push(Range { group, kind, first, last, prefix_len: slice.length, excluded });
        }
    }
    ranges
}

/// Limits of leases.
pub fn limits(section: &SessionsSection) -> Limits {
    Limits {
        per_line: section.leases_per_line,
        per_pair: section.leases_per_pair,
        per_port: section.leases_per_port,
        quarantine: seconds(section.quarantine_seconds),
    }
}

/// The pools of a VRF.
pub fn pools(
    config: &Config,
    layout: &Layout,
    fixed: &[SubscriberSpec],
    instance: usize,
) -> Result<Pools, BadSessions> {
    let ranges = ranges(config, layout, fixed, instance);
    let mut pools = Pools::new(&ranges, limits(&config.sessions)).map_err(|source| {
        let named = |range: &Range| config.group[usize::from(range.group)].name.clone();
        BadSessions::Pool { group: ranges.first().map(named).unwrap_or_default(), source }
    })?;
    pools.set_number(instance as u16); // there are no more VRFs
    let shared = layout.groups.iter().zip(0..).filter(|(plan, _)| plan.shared);
    shared.for_each(|(_, group)| pools.share(group));
    Ok(pools)
}

fn served<'c>(
    config: &'c Config,
    layout: &'c Layout,
) -> impl Iterator<Item = (u16, &'c GroupPlan, &'c crate::config::GroupSessions)> {
    let groups = config.group.iter().zip(&layout.groups).zip(0..);
    groups.filter_map(|((group, plan), n)| Some((n, plan, group.sessions.as_ref()?)))
}

/// The DHCPv4 server.
pub fn dhcp4(config: &Config, layout: &Layout) -> Result<Dhcp4Server, BadSessions> {
    let groups = served(config, layout).filter_map(|(n, plan, sessions)| {
        if sessions.relay.as_ref().is_some_and(|relay| !relay.servers4().is_empty()) {
            return None;
        }
        let routers = gateways4(plan);
        let options = dhcp4::Options {
            prefix_len: sessions.ipv4_prefix_length.unwrap_or_else(|| prefix4(plan)),
            dns: sessions.dns4(),
            domain: sessions.domain.clone(),
            ntp: sessions.ntp.clone(),
            routers: routers.clone(),
            ..dhcp4::Options::default()
        };
        let server = *routers.first().filter(|_| !plan.v4.is_empty())?;
        Some((n, dhcp4::Group { server, lease: seconds(sessions.lease_seconds), options }))
    });
    let section = &config.sessions;
    let common = dhcp4::Config {
        offer: seconds(section.offer_seconds),
        authoritative: section.authoritative,
        max_waiting: WAITING,
    };
    Ok(Dhcp4Server::new(common, groups)?)
}

/// The DHCPv6 server; `mac` names it, and should stay.
pub fn dhcp6(config: &Config, layout: &Layout, section: &SessionsSection, mac: Mac) -> Dhcp6Server {
    let groups = served(config, layout).filter_map(|(n, plan, sessions)| {
        let group = dhcp6::Group {
            valid: seconds(sessions.ipv6_valid_seconds),
            preferred: seconds(sessions.ipv6_preferred_seconds),
            dns: sessions.dns6(),
            rapid_commit: true,
            addresses: sessions.ipv6 == Ipv6Mode::Dhcp,
        };
        let is_on = !plan.v6.is_empty() && sessions.ipv6 != Ipv6Mode::Off && link_local(plan).is_some();
        let is_relayed = sessions.relay.as_ref().is_some_and(|relay| !relay.servers6().is_empty());
        (is_on && !is_relayed).then_some((n, group))
    });
    // DUID-LL (RFC 8415, 11.4): type 3, Ethernet.
    let duid = [&[0, 3, 0, 1][..], &mac.0].concat();
    let common = dhcp6::Config { duid, offer: seconds(section.offer_seconds), max_waiting: WAITING };
    Dhcp6Server::new(common, groups)
}
