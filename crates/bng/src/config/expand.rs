//! From what an operator wrote to numbers: groups, profiles, access lists and static subscribers, each checked on the way.

mod lists;
mod subscribers;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use access::option82::LineRate;
use dataplane::acl::AccessLists;
use dataplane::config::VlanStack;
use dataplane::forward::InstanceId;
use dataplane::hqos::tree::Framing;
use table::bucket::{self, Rate};
use wire::ethertype;

pub use self::lists::{Lists, Numbers};
use self::subscribers::Seen;
use super::ShapePlan;
use super::{
    Accounted, Config, ConfigError, GardenPlan, Group, LineFraming, Model, Port, Profile, Proxy, Role, Vlans,
    parse_mac, parse_prefix, parse_rate, wrong,
};
use crate::link::Line;
use crate::record::SubscriberSpec;
use crate::steer::ELSEWHERE;

/// VLAN identifiers in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanRange {
    /// The first; 0: no tag.
    pub first: u16,
    /// How many.
    pub count: u16,
}

impl VlanRange {
    /// Frames without the tag.
    pub const NONE: Self = Self { first: 0, count: 1 };

    /// How many identifiers `id` is behind the first, if it is one of them.
    #[inline(always)]
    pub fn offset(self, id: u16) -> Option<u16> {
        let offset = id.wrapping_sub(self.first);
        (offset < self.count).then_some(offset)
    }
}

/// IPv4 addresses in a row, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice4 {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

/// IPv6 prefixes of one length in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice6 {
    /// The upper 64 bits of the first prefix's first address.
    pub first: u64,
    /// The upper 64 bits of the last prefix's last address.
    pub last: u64,
    /// Length of a prefix, 48 to 64.
    pub length: u8,
}

/// A subscriber group in numbers.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// Its ports, by number.
    pub ports: Vec<u8>,
    /// Outer VLANs.
    pub s_vlans: VlanRange,
    /// Inner VLANs.
    pub c_vlans: VlanRange,
    /// Tags of its frames, 0 to 2.
    pub tags: u8,
    /// Type of the outer tag towards lines that nothing was received from.
    pub tpid: u16,
    /// VLAN pairs are shared, and hardware addresses tell lines apart.
    pub shared: bool,
    /// IPv4 slices.
    pub v4: Vec<Slice4>,
    /// IPv6 slices, of WAN prefixes and, behind them, delegated ones.
    pub v6: Vec<Slice6>,
    /// How many of them are of WAN prefixes.
    pub wan_slices: usize,
    /// The profile of subscribers that name none.
    pub profile: Option<u16>,
    /// The gateway's addresses.
    pub gateways: Vec<IpAddr>,
    /// Virtual hardware address; none: the port's.
    pub mac: Option<[u8; 6]>,
    /// The worker that owns it; [`ELSEWHERE`]: none of this process.
    pub worker: u16,
    /// The VRF of its subscribers.
    pub instance: InstanceId,
    /// The number of the access list of its location, from 1; 0: none.
    pub acl: u16,
    /// It answers for its slices' addresses.
    pub proxy: bool,
    /// Largest IP packet towards its subscribers in bytes; none: the port's.
    pub mtu: Option<u16>,
    /// Rate of each outer VLAN's shaped subscribers.
    pub s_vlan_rate: bucket::Config,
    /// Bytes that shaped rates of layer 2 count beside each frame.
    pub overhead: u8,
    /// How lines carry what that makes.
    pub framing: Framing,
    /// Its subscribers' IPv4 addresses are translated where their VRF's are.
    pub nat: bool,
}

impl GroupPlan {
    /// VLAN pairs of all of its ports.
    pub fn pairs(&self) -> usize {
        self.ports.len() * usize::from(self.s_vlans.count) * usize::from(self.c_vlans.count)
    }

    /// The place of a VLAN pair among them.
    pub fn place(&self, line: Line) -> Option<usize> {
        let port = self.ports.iter().position(|port| *port == line.port)?;
        let (s, c) = (self.s_vlans.offset(line.s_vlan)?, self.c_vlans.offset(line.c_vlan)?);
        Some(
            (port * usize::from(self.s_vlans.count) + usize::from(s)) * usize::from(self.c_vlans.count)
                + usize::from(c),
        )
    }

    /// The VLAN pair at a place.
    fn line(&self, place: usize) -> Option<Line> {
        let (s, c) = (usize::from(self.s_vlans.count), usize::from(self.c_vlans.count));
        Some(Line {
            port: *self.ports.get(place / c / s)?,
            s_vlan: self.s_vlans.first + (place / c % s) as u16,
            c_vlan: self.c_vlans.first + (place % c) as u16,
        })
    }
}

/// A profile in numbers.
#[derive(Clone, Debug)]
pub struct ProfilePlan {
    /// Policer of packets from the subscriber.
    pub up: bucket::Config,
    /// Policer of packets to the subscriber.
    pub down: bucket::Config,
    /// Shapes them instead.
    pub shape: Option<ShapePlan>,
    /// Layer 2 is policed and counted.
    pub layer2: bool,
    /// The number of its access list, from 1; 0: none.
    pub acl: u16,
    /// What its subscribers may reach; none: everything.
    pub garden: Option<Arc<GardenPlan>>,
    /// Priority code point by class selector.
    pub pcp: [u8; 8],
    /// DSCP by priority code point of the outer tag.
    pub dscp: Option<[u8; 8]>,
}

impl ProfilePlan {
    /// Policers of packets to a subscriber and from it, where its line carries no more than that.
    pub(crate) fn policers(&self, line: LineRate) -> (bucket::Config, bucket::Config) {
        (within(self.down, line.down_kbps, BURST), within(self.up, line.up_kbps, BURST))
    }
}

/// A burst of a policed rate if nothing is said: what passes in that time, in nanoseconds, and bytes at least.
const BURST: (u64, u64) = (100_000_000, 3000);

/// A frame with a jumbo frame's payload and tags, in bytes.
const JUMBO: u64 = 9022;

/// A rate that is no higher than its line's, in kbit/s; 0: that is not known. Its burst is what passes in the same time as before,
/// or, of a rate without bound, what is usual; one that was longer than that is not made shorter than that, nor than a frame.
pub(crate) fn within(rate: bucket::Config, line_kbps: u32, usual: (u64, u64)) -> bucket::Config {
    let line = Rate::kbps(line_kbps.into());
    if line_kbps == 0 || rate.rate <= line {
        return rate;
    }
    if rate.rate == Rate::UNLIMITED {
        return bucket::Config::over(line, usual.0, usual.1);
    }
    let least = bucket::Config::over(line, usual.0, JUMBO).depth.min(rate.depth);
    let within = bucket::Config::over(line, rate.fill_ns(), usual.1);
    bucket::Config { depth: within.depth.max(least), ..within }
}

/// A configuration in numbers.
pub struct Layout {
    /// Groups.
    pub groups: Vec<GroupPlan>,
    /// Profiles.
    pub profiles: Vec<ProfilePlan>,
    /// Access lists by number, from 1.
    pub lists: AccessLists,
    /// Of pairs of lists that both must let a packet pass, the numbers of lists that do as both.
    pub pairs: HashMap<(u16, u16), u16>,
    /// Counters of all lists' rules.
    pub counters: u32,
    /// Numbers of its lists: the first, and the one behind the last.
    pub numbers: (u16, u16),
    /// Static subscribers; a subscriber's place is its handle.
    pub subscribers: Vec<SubscriberSpec>,
    /// Where each entry of the configuration begins among them.
    pub entries: Vec<u32>,
}

/// VLAN pairs of a group at most: 64 MiB of places.
const MOST_PAIRS: usize = 1 << 24;
/// Prefixes of a slice at most.
const MOST_PREFIXES: u64 = 1 << 24;
/// Subscribers that the configuration may name.
const MOST_SUBSCRIBERS: usize = 4 << 20;

type Result<T> = std::result::Result<T, ConfigError>;

fn unknown<'a>(path: &[&dyn ToString], kind: &str, name: &str, known: impl Iterator<Item = &'a str>) -> ConfigError {
    let known: Vec<_> = known.collect();
    let help = if known.is_empty() { format!("add a [[{kind}]]") } else { format!("one of {}", known.join(", ")) };
    wrong(path, format!("no {kind} is called \"{name}\""), help)
}

/// The place of the one with that name; `kind` is the section they are in.
fn find<T>(path: &[&dyn ToString], kind: &str, name: &str, all: &[T], named: fn(&T) -> &str) -> Result<usize> {
    let found = all.iter().position(|one| named(one) == name);
    found.ok_or_else(|| unknown(path, kind, name, all.iter().map(named)))
}

impl Config {
    /// Everything in numbers.
    ///
    /// # Errors
    /// The first thing that is invalid, by key.
    pub fn layout(&self) -> Result<Layout> {
        self.layout_from(Numbers::FIRST)
    }

    /// Everything in numbers, access lists numbered from `from` on.
    ///
    /// # Errors
    /// The first thing that is invalid, by key.
    pub(crate) fn layout_from(&self, from: Numbers) -> Result<Layout> {
        let profiles = (0..self.profile.len()).map(|n| self.profile_plan(n, from.list)).collect::<Result<Vec<_>>>()?;
        let groups = (0..self.group.len()).map(|n| self.group_plan(n, from.list)).collect::<Result<Vec<_>>>()?;
        self.check_overlaps(&groups)?;
        self.check_sessions(&groups)?;
        let Lists { lists, pairs, counters, end } = self.access_lists(from, &groups, &profiles)?;
        let numbers = (from.list, end);
        let (subscribers, entries) = (Vec::new(), Vec::new());
        let mut layout = Layout { groups, profiles, lists, pairs, counters, numbers, subscribers, entries };
        let mut seen = Seen::default();
        for n in 0..self.subscriber.len() {
            layout.entries.push(layout.subscribers.len() as u32); // at most MOST_SUBSCRIBERS
            self.expand(n, &mut layout, &mut seen)?;
        }
        Ok(layout)
    }

    /// The number of an access list, of those from `first` on; 0 where none is named.
    fn list_number(&self, first: u16, path: &[&dyn ToString], name: Option<&str>) -> Result<u16> {
        let Some(name) = name else { return Ok(0) };
        Ok(first.wrapping_add(find(path, "acl", name, &self.acl, |acl| &acl.name)? as u16)) // lists are checked
    }

    fn profile_plan(&self, n: usize, first_list: u16) -> Result<ProfilePlan> {
        let profile = &self.profile[n];
        let Profile { up, down, up_burst, down_burst, .. } = profile;
        if let Some(at) = profile.pcp.iter().flatten().position(|pcp| *pcp > 7) {
            return Err(wrong(&[&"profile", &n, &"pcp", &at], "not a priority code point", "0 to 7"));
        }
        if let Some(at) = profile.dscp.iter().flatten().position(|dscp| *dscp > 63) {
            return Err(wrong(&[&"profile", &n, &"dscp", &at], "not a DSCP", "0 to 63"));
        }
        let down = bucket_of(n, "down", down.as_deref(), *down_burst)?;
        Ok(ProfilePlan {
            up: bucket_of(n, "up", up.as_deref(), *up_burst)?,
            shape: self.shape_plan(n, down.rate)?,
            down,
            layer2: profile.accounted == Accounted::L2,
            acl: self.list_number(first_list, &[&"profile", &n, &"acl"], profile.acl.as_deref())?,
            garden: self.garden_plan(n)?,
            pcp: profile.pcp.unwrap_or([0, 1, 2, 3, 4, 5, 6, 7]),
            dscp: profile.dscp,
        })
    }

    fn group_plan(&self, n: usize, first_list: u16) -> Result<GroupPlan> {
        let group = &self.group[n];
        let (s, c) = (vlans(n, "s_vlans", group.s_vlans.as_ref())?, vlans(n, "c_vlans", group.c_vlans.as_ref())?);
        if s.is_none() && c.is_some() {
            let what = "inner VLANs without outer ones";
            return Err(wrong(&[&"group", &n, &"c_vlans"], what, "name the tag of single-tagged lines in s_vlans"));
        }
        let mac = group.mac.as_deref().map(|text| {
            let mac = parse_mac(text).filter(|mac| mac[0] & 1 == 0 && *mac != [0; 6]);
            let what = || format!("\"{text}\" is not the hardware address of one station");
            mac.ok_or_else(|| wrong(&[&"group", &n, &"mac"], what(), "such as 02:00:5e:00:01:01"))
        });
        let mac = mac.transpose()?;
        let mut slices = slices6(n, "ipv6_wan", group.ipv6_wan.iter().map(|text| (text.as_str(), 64)))?;
        let delegated = group.ipv6_pd.iter().map(|slice| (slice.prefix.as_str(), slice.length));
        let wan_slices = slices.len();
        slices.extend(slices6(n, "ipv6_pd", delegated)?);
        if usize::from(group.worker) >= usize::from(self.workers.count) {
            let (what, last) = (format!("there is no worker {}", group.worker), self.workers.count.saturating_sub(1));
            return Err(wrong(&[&"group", &n, &"worker"], what, format!("0 to {last}: workers.count is {}", last + 1)));
        }
        if group.overhead > 100 {
            let what = format!("{} bytes", group.overhead);
            return Err(wrong(&[&"group", &n, &"overhead"], what, "at most 100"));
        }
        if group.mtu.is_some_and(|mtu| mtu < 576) {
            return Err(wrong(&[&"group", &n, &"mtu"], "too small for IP", "576 or more; 1280 for IPv6"));
        }
        let profile = |name: &str| {
            find(&[&"group", &n, &"profile"], "profile", name, &self.profile, |profile| &profile.name)
                .map(|at| at as u16)
        };
        let plan = GroupPlan {
            ports: self.group_ports(n)?,
            tags: u8::from(s.is_some()) + u8::from(c.is_some()),
            s_vlans: s.unwrap_or(VlanRange::NONE),
            c_vlans: c.unwrap_or(VlanRange::NONE),
            tpid: tpid(n, group)?,
            shared: group.model == Model::ManyToOne,
            v4: slices4(n, group)?,
            v6: slices,
            wan_slices,
            profile: group.profile.as_deref().map(profile).transpose()?,
            gateways: group.gateways.clone(),
            mac,
            worker: if group.active { group.worker } else { ELSEWHERE },
            instance: self.instance(group.instance()),
            acl: self.list_number(first_list, &[&"group", &n, &"acl"], group.acl.as_deref())?,
            proxy: group.proxy == Proxy::Subscribers,
            mtu: group.mtu,
            s_vlan_rate: self.s_vlan_rate(n)?,
            overhead: group.overhead,
            framing: match group.line_framing {
                LineFraming::Whole => Framing::Whole,
                LineFraming::Atm => Framing::Atm,
                LineFraming::Ptm => Framing::Ptm,
            },
            nat: group.nat,
        };
        if plan.pairs() > MOST_PAIRS {
            let what = format!("{} VLAN pairs", plan.pairs());
            return Err(wrong(&[&"group", &n, &"c_vlans"], what, format!("at most {MOST_PAIRS} in a group")));
        }
        Ok(plan)
    }

    fn group_ports(&self, n: usize) -> Result<Vec<u8>> {
        let names = &self.group[n].ports;
        if names.is_empty() {
            return Err(wrong(&[&"group", &n, &"ports"], "no port", "name ports of role access or hybrid"));
        }
        let mut ports = Vec::with_capacity(names.len());
        for (m, name) in names.iter().enumerate() {
            let path: &[&dyn ToString] = &[&"group", &n, &"ports", &m];
            let port = find(path, "port", name, &self.port, |port| &port.name)?;
            if !self.port[port].role.has_access() {
                let what = format!("port \"{name}\" has role core");
                return Err(wrong(path, what, "a port with role = \"access\" or \"hybrid\""));
            }
            if ports.contains(&(port as u8)) {
                return Err(wrong(path, format!("port \"{name}\" is named twice"), "name each port once"));
            }
            ports.push(port as u8); // fewer than 256
        }
        Ok(ports)
    }

    /// Frames and addresses must lead to one group.
    fn check_overlaps(&self, groups: &[GroupPlan]) -> Result<()> {
        for (n, group) in groups.iter().enumerate() {
            let (name, s) = (&self.group[n].name, group.s_vlans);
            for port in &group.ports {
                let own = &self.port[usize::from(*port)];
                let has_core = |port: &&Port| port.role == Role::Hybrid && port.name == own.name;
                let is_on_it = |port: &&Port| has_core(port) || port.on.as_ref() == Some(&own.name);
                let is_within = |port: &&Port| s.offset(port.vlan.as_ref().map_or(0, VlanStack::outermost)).is_some();
                if let Some(core) = self.port.iter().filter(is_on_it).find(is_within) {
                    let what = format!("frames of the core side of port \"{}\" are in the range", core.name);
                    return Err(wrong(&[&"group", &n, &"s_vlans"], what, "leave the port's own VLAN out of the group"));
                }
            }
            for (m, other) in groups[..n].iter().enumerate() {
                let other_name = &self.group[m].name;
                if name == other_name {
                    let what = format!("two groups are called \"{name}\"");
                    return Err(wrong(&[&"group", &n, &"name"], what, "give each its own name"));
                }
                let shares = group.ports.iter().any(|port| other.ports.contains(port));
                let meet =
                    s.first < other.s_vlans.first + other.s_vlans.count && other.s_vlans.first < s.first + s.count;
                if shares && meet {
                    let what = format!("outer VLANs of group \"{other_name}\" on the same port");
                    return Err(wrong(&[&"group", &n, &"s_vlans"], what, "give each group its own"));
                }
                if group.instance != other.instance {
                    continue;
                }
                let meet4 = |a: &Slice4| other.v4.iter().any(|b| a.first <= b.last && b.first <= a.last);
                let meet6 = |a: &Slice6| other.v6.iter().any(|b| a.first <= b.last && b.first <= a.last);
                let (key, meet) =
                    if group.v4.iter().any(meet4) { ("ipv4", true) } else { ("ipv6_wan", group.v6.iter().any(meet6)) };
                if meet {
                    let what = format!("addresses of group \"{other_name}\" in the same VRF");
                    return Err(wrong(&[&"group", &n, &key], what, "give each group slices of its own"));
                }
            }
        }
        Ok(())
    }
}

fn bucket_of(n: usize, key: &str, rate: Option<&str>, burst: Option<u64>) -> Result<bucket::Config> {
    let Some(text) = rate else { return Ok(bucket::Config::new(Rate::UNLIMITED, 0)) };
    let what = || format!("\"{text}\" is not a rate");
    let rate = parse_rate(text).ok_or_else(|| wrong(&[&"profile", &n, &key], what(), "such as 50 Mbit/s"))?;
    match burst {
        None => Ok(bucket::Config::over(Rate(rate), BURST.0, BURST.1)),
        Some(bytes) if bytes >= 1522 => Ok(bucket::Config::new(Rate(rate), bytes)),
        Some(bytes) => {
            let what = format!("{bytes} bytes: frames of 1,522 bytes would never pass");
            Err(wrong(&[&"profile", &n, &format!("{key}_burst")], what, "1522 or more"))
        }
    }
}

fn vlans(n: usize, key: &str, range: Option<&Vlans>) -> Result<Option<VlanRange>> {
    let Some(range) = range else { return Ok(None) };
    let (text, ends) = match range {
        Vlans::One(id) => (id.to_string(), Some((*id, *id))),
        Vlans::Range(text) => {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            (text.clone(), first.trim().parse().ok().zip(last.trim().parse().ok()))
        }
    };
    match ends {
        Some((first, last)) if 1 <= first && first <= last && last <= 4094 => {
            Ok(Some(VlanRange { first, count: last - first + 1 }))
        }
        _ => {
            let what = format!("\"{text}\" is no range of VLANs");
            Err(wrong(&[&"group", &n, &key], what, "a number of 1 to 4094, or \"first-last\""))
        }
    }
}

fn tpid(n: usize, group: &Group) -> Result<u16> {
    let digits = group.tpid.trim_start_matches("0x");
    match u16::from_str_radix(digits, 16) {
        Ok(kind @ (ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN)) => Ok(kind),
        _ => {
            let what = format!("\"{}\" is not the type of a VLAN tag", group.tpid);
            Err(wrong(&[&"group", &n, &"tpid"], what, "0x88a8 or 0x8100"))
        }
    }
}

fn slices4(n: usize, group: &Group) -> Result<Vec<Slice4>> {
    let slice = |(m, text): (usize, &String)| match parse_prefix(text) {
        Some((IpAddr::V4(address), len @ 8..)) => {
            let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            let first = u32::from(address) & !host;
            Ok(Slice4 { first, last: first | host })
        }
        _ => {
            let what = format!("\"{text}\" is not a slice of IPv4 addresses");
            Err(wrong(&[&"group", &n, &"ipv4", &m], what, "such as 100.64.0.0/18; at most a /8"))
        }
    };
    group.ipv4.iter().enumerate().map(slice).collect()
}

fn slices6<'t>(n: usize, key: &str, slices: impl Iterator<Item = (&'t str, u8)>) -> Result<Vec<Slice6>> {
    let slice = |(m, (text, length)): (usize, (&str, u8))| {
        let fail = |what: String, help: &str| Err(wrong(&[&"group", &n, &key, &m], what, help));
        if !(48..=64).contains(&length) {
            return fail(format!("prefixes of length {length}"), "48 to 64");
        }
        match parse_prefix(text) {
            Some((IpAddr::V6(address), len)) if len <= length && 1 << (length - len).min(63) <= MOST_PREFIXES => {
                let host = u64::MAX.checked_shr(len.into()).unwrap_or(0);
                let first = (u128::from(address) >> 64) as u64 & !host;
                Ok(Slice6 { first, last: first | host, length })
            }
            Some((IpAddr::V6(_), _)) => {
                fail(format!("\"{text}\" has no or too many /{length}"), "1 to 16,777,216 prefixes in a slice")
            }
            _ => fail(format!("\"{text}\" is not an IPv6 prefix"), "such as 2001:db8:100::/48"),
        }
    };
    slices.enumerate().map(slice).collect()
}
