//! Patterns made into channels, modems and numbers.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use crypto::Key;
use dataplane::config::{ConfigError, parse_mac, parse_rate, wrong};
use dataplane::hqos::{self, PieConfig};
use wire::{Mac, l2tp};

use super::{Carries, Config, FlowEntry, ModemEntry, Profile, RuleEntry, ServiceGroup, rules};
use crate::flow::FlowSpec;
use crate::modems::{ClusterSpec, MAX_FLOWS, ModemSpec, SecuritySpec};
use crate::rules::{RuleSet, Rules};
use crate::upstream::{self, PseudowireSpec};

/// A modem with its name.
#[derive(Clone, Debug)]
pub struct Named {
    /// What it is.
    pub spec: ModemSpec,
    /// Its hardware address, by which it is called.
    pub mac: Mac,
    /// Its profile.
    pub profile: usize,
    /// Its service flows as written, by their places; none: no flow is there (any more).
    pub flows: Vec<Option<FlowEntry>>,
    /// Classifiers of its own, by identifier; none: its profile's.
    pub classifiers: Option<Vec<(u16, RuleEntry)>>,
}

impl Named {
    /// The place of a service flow among the modem's, by name.
    pub fn flow(&self, name: &str) -> Option<usize> {
        self.flows.iter().position(|flow| flow.as_ref().is_some_and(|flow| flow.name == name))
    }
}

/// A downstream channel.
#[derive(Clone, Debug)]
pub struct ChannelPlan {
    /// Its name.
    pub name: String,
    /// Its service group.
    pub service_group: u16,
    /// What it carries, in bit/s.
    pub capacity: u64,
    /// The device's session.
    pub session: u32,
    /// What the device wants to see.
    pub cookie: l2tp::Cookie,
}

/// A configuration with all patterns made out.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Filter groups and classifiers.
    pub rules: Rules,
    /// Channels of all service groups.
    pub channels: Vec<ChannelPlan>,
    /// Bonding groups of all service groups: their channels.
    pub groups: Vec<Vec<u16>>,
    /// The first bonding group of each service group, and how many there are.
    pub groups_of: Vec<(u16, u16)>,
    /// Upstream pseudowires.
    pub pseudowires: Vec<PseudowireSpec>,
    /// Bit/s to be granted, by service group.
    pub granted: Vec<u64>,
    /// Modems.
    pub modems: Vec<Named>,
}

/// Hexadecimal digits as bytes.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != N * 2 || !text.is_ascii() {
        return None;
    }
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(n * 2..n * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn cookie(text: Option<&str>) -> Option<l2tp::Cookie> {
    match text {
        None => Some(l2tp::Cookie::None),
        Some(text) => hex(text)
            .map(|bytes| l2tp::Cookie::Short(u32::from_be_bytes(bytes)))
            .or_else(|| hex(text).map(|bytes| l2tp::Cookie::Long(u64::from_be_bytes(bytes)))),
    }
}

/// A hardware address some further on.
fn plus(mac: [u8; 6], n: u64) -> Mac {
    let [a, b, c, d, e, f] = mac;
    let [_, _, bytes @ ..] = u64::from_be_bytes([0, 0, a, b, c, d, e, f]).wrapping_add(n).to_be_bytes();
    Mac(bytes)
}

const NO_COOKIE: &str = "8 or 16 hexadecimal digits, or leave it out";

impl Config {
    /// Everything the patterns stand for.
    ///
    /// # Errors
    /// What does not fit together, by key, and of a modem by its name.
    pub fn layout(&self) -> Result<Layout, ConfigError> {
        let mut layout = Layout { rules: self.rules()?, ..Layout::default() };
        for (g, group) in self.service_group.iter().enumerate() {
            if self.service_group[..g].iter().any(|other| other.name == group.name) {
                let what = format!("two service groups are called \"{}\"", group.name);
                return Err(wrong(&[&"service_group", &g, &"name"], what, "give each its own name"));
            }
            let (down, up) = (group.down_worker, group.up_worker.unwrap_or(group.down_worker));
            for (key, worker) in [("down_worker", down), ("up_worker", up)] {
                if worker >= self.workers.count {
                    let what = format!("there is no worker {worker}");
                    let help = format!("0 to {}, or more [workers]", self.workers.count.saturating_sub(1));
                    return Err(wrong(&[&"service_group", &g, &key], what, help));
                }
            }
            self.channels(g, group, &mut layout)?;
            self.pseudowires(g, group, &mut layout)?;
            let mut seen = Seen::default();
            for (m, entry) in group.modem.iter().enumerate() {
                self.modems(g, m, entry, &mut layout, &mut seen)?;
            }
        }
        let mut owners = HashMap::new();
        for modem in &layout.modems {
            for (address, _) in &modem.spec.hosts {
                if let Some(other) = owners.insert(*address, modem.mac) {
                    let what = format!("modems {other} and {} both have {address}", modem.mac);
                    let g = modem.spec.service_group;
                    return Err(wrong(&[&"service_group", &g, &"modem"], what, "give each modem its own addresses"));
                }
            }
        }
        Ok(layout)
    }

    pub(crate) fn rules(&self) -> Result<Rules, ConfigError> {
        if self.filter_group.len() > usize::from(u8::MAX) {
            let what = format!("{} filter groups", self.filter_group.len());
            return Err(wrong(&[&"filter_group"], what, "255 at most"));
        }
        // Group 0 is none.
        let mut groups = vec![RuleSet::default()];
        for (n, group) in self.filter_group.iter().enumerate() {
            groups.push(RuleSet::new(&rules("filter_group", n, &group.rule, None)?));
        }
        let mut classifiers = Vec::new();
        for (n, set) in self.classifiers.iter().enumerate() {
            let users = || self.profile.iter().filter(|p| p.classifiers.as_deref() == Some(&set.name));
            let flow = |name: &str| {
                users().find_map(|p| p.flow.iter().position(|flow| flow.name == name)).map(|at| at as u8) // at most 16
            };
            // A rule chooses by place, which must be the same for everybody.
            for (m, rule) in set.rule.iter().enumerate() {
                let Some(name) = &rule.flow else { continue };
                let place = |p: &Profile| p.flow.iter().position(|flow| &flow.name == name);
                let first = users().find_map(place);
                if let Some(other) = users().find(|p| first.is_some() && place(p) != first) {
                    let what =
                        format!("service flow \"{name}\" is not at the same place in profile \"{}\"", other.name);
                    let help = "name the flows of all profiles with these classifiers in one order";
                    return Err(wrong(&[&"classifiers", &n, &"rule", &m, &"flow"], what, help));
                }
            }
            classifiers.push(RuleSet::new(&rules("classifiers", n, &set.rule, Some(&flow))?));
        }
        Ok(Rules { groups, classifiers, default_deny: self.filter_default == super::Action::Deny })
    }

    fn channels(&self, g: usize, group: &ServiceGroup, layout: &mut Layout) -> Result<(), ConfigError> {
        let first = layout.channels.len();
        for (n, entry) in group.channel.iter().enumerate() {
            let at = |key: &'static str, what: String, help: &str| {
                wrong(&[&"service_group", &g, &"channel", &n, &key], what, help)
            };
            let Some(capacity) = parse_rate(&entry.capacity).filter(|rate| *rate > 0) else {
                let what = format!("\"{}\" is no rate", entry.capacity);
                return Err(at("capacity", what, "such as \"1.89 Gbit/s\" or \"42.24 Mbit/s\""));
            };
            let Some(cookie) = cookie(entry.cookie.as_deref()) else {
                return Err(at("cookie", "that is no cookie".into(), NO_COOKIE));
            };
            for i in 0..entry.count {
                let session = entry.session.wrapping_add(i.into());
                if session == 0 {
                    return Err(at("session", "session 0 is control's".into(), "1 to 4294967295"));
                }
                // Of one device: several have sessions of their own.
                let rpd = |channel: &ChannelPlan| self.service_group[usize::from(channel.service_group)].rpd;
                if layout.channels.iter().any(|other| other.session == session && rpd(other) == group.rpd) {
                    let what = format!("session {session} of {} is another channel's", group.rpd);
                    return Err(at("session", what, "give each channel of a device its own"));
                }
                let name = if entry.count == 1 { entry.name.clone() } else { format!("{}{i}", entry.name) };
                if layout.channels[first..].iter().any(|other| other.name == name) {
                    return Err(at(
                        "name",
                        format!("two channels are called \"{name}\""),
                        "give each kind its own name",
                    ));
                }
                let service_group = g as u16;
                layout.channels.push(ChannelPlan { name, service_group, capacity, session, cookie });
            }
        }
        if layout.channels.len() == first {
            let what = format!("service group \"{}\" has no channel", group.name);
            return Err(wrong(&[&"service_group", &g], what, "write [[service_group.channel]]"));
        }
        let begin = layout.groups.len() as u16;
        for (n, bonding) in group.bonding_group.iter().enumerate() {
            if group.bonding_group[..n].iter().any(|other| other.name == bonding.name) {
                let what = format!("two bonding groups are called \"{}\"", bonding.name);
                return Err(wrong(
                    &[&"service_group", &g, &"bonding_group", &n, &"name"],
                    what,
                    "give each its own name",
                ));
            }
            let mut channels = Vec::new();
            for (m, text) in bonding.channels.iter().enumerate() {
                for name in spread(text) {
                    let at = layout.channels[first..].iter().position(|channel| channel.name == name);
                    let Some(at) = at else {
                        let what = format!("no channel is called \"{name}\"");
                        let path: &[&dyn ToString] = &[&"service_group", &g, &"bonding_group", &n, &"channels", &m];
                        return Err(wrong(path, what, "a channel's name; of several, with its number"));
                    };
                    let channel = (first + at) as u16;
                    if channels.contains(&channel) {
                        let what = format!("channel \"{name}\" is in the bonding group twice");
                        let path: &[&dyn ToString] = &[&"service_group", &g, &"bonding_group", &n, &"channels", &m];
                        return Err(wrong(path, what, "name it once"));
                    }
                    channels.push(channel);
                }
            }
            if channels.is_empty() {
                let what = format!("bonding group \"{}\" has no channel", bonding.name);
                return Err(wrong(&[&"service_group", &g, &"bonding_group", &n], what, "name at least one"));
            }
            layout.groups.push(channels);
        }
        if group.bonding_group.is_empty() {
            layout.groups.push((first as u16..layout.channels.len() as u16).collect());
        }
        layout.groups_of.push((begin, layout.groups.len() as u16 - begin));
        Ok(())
    }

    fn pseudowires(&self, g: usize, group: &ServiceGroup, layout: &mut Layout) -> Result<(), ConfigError> {
        let mut granted = 0;
        for (n, entry) in group.upstream_channel.iter().enumerate() {
            let at = |key: &'static str, what: String, help: &str| {
                wrong(&[&"service_group", &g, &"upstream_channel", &n, &key], what, help)
            };
            let Some(cookie) = cookie(entry.cookie.as_deref()) else {
                return Err(at("cookie", "that is no cookie".into(), NO_COOKIE));
            };
            let rate = entry.capacity.as_deref().map_or(Some(0), parse_rate);
            let Some(rate) = rate else {
                return Err(at("capacity", "that is no rate".into(), "such as \"200 Mbit/s\""));
            };
            for i in 0..entry.count {
                let session = entry.session.wrapping_add(i.into());
                if session == 0 || layout.pseudowires.iter().any(|other| other.session == session) {
                    let what = format!("session {session} is control's, or another pseudowire's");
                    return Err(at("session", what, "give each pseudowire its own, from 1 on"));
                }
                let carries = match entry.carries {
                    Carries::Bursts => upstream::Carries::Bursts,
                    Carries::Requests => upstream::Carries::Requests,
                };
                granted += rate;
                let (service_group, remote) = (g as u16, group.rpd);
                layout.pseudowires.push(PseudowireSpec { session, cookie, service_group, carries, remote });
            }
        }
        layout.granted.push(granted);
        Ok(())
    }

    fn modems(
        &self,
        g: usize,
        m: usize,
        entry: &ModemEntry,
        layout: &mut Layout,
        seen: &mut Seen,
    ) -> Result<(), ConfigError> {
        for i in 0..u64::from(entry.count) {
            let handle = layout.modems.len() as u32;
            let dsid = handle * MAX_FLOWS as u32 + 1;
            let named = self.modem(g, entry, i, (handle, dsid), layout);
            let named =
                named.map_err(|(key, what, help)| wrong(&[&"service_group", &g, &"modem", &m, &key], what, help))?;
            let sids = named.spec.clusters.iter().flat_map(|cluster| &cluster.sids);
            let twice = |what: &str, key: &str| {
                let what = format!("modem {}: its {what} is another modem's", named.mac);
                Err(wrong(&[&"service_group", &g, &"modem", &m, &key], what, "give each modem its own"))
            };
            if !seen.macs.insert(named.mac) {
                return twice("hardware address", "mac");
            }
            if sids.clone().any(|sid| !seen.sids.insert(*sid)) {
                return twice("service identifier", "sid");
            }
            layout.modems.push(named);
        }
        Ok(())
    }

    /// Modem `i` of a pattern, with its handle and the first of [`MAX_FLOWS`] downstream service identifiers; an error with
    /// the key, what is wrong of which modem, and what would be right.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn modem(
        &self,
        g: usize,
        entry: &ModemEntry,
        i: u64,
        (handle, dsid): (u32, u32),
        layout: &Layout,
    ) -> Result<Named, (&'static str, String, String)> {
        let (Some(group), Some(groups)) = (self.service_group.get(g), layout.groups_of.get(g)) else {
            return Err(("mac", "there is no such service group".into(), "one of the configuration".into()));
        };
        let Some(mac) = parse_mac(&entry.mac) else {
            let what = format!("\"{}\" is no hardware address", entry.mac);
            return Err(("mac", what, "such as 02:00:00:00:00:01".into()));
        };
        let mac = plus(mac, i);
        let of = |what: &str| format!("modem {mac}: {what}");
        let Some(p) = self.profile.iter().position(|profile| profile.name == entry.profile) else {
            let names: Vec<&str> = self.profile.iter().map(|profile| profile.name.as_str()).collect();
            let what = of(&format!("no profile is called \"{}\"", entry.profile));
            return Err(("profile", what, format!("one of {}", names.join(", "))));
        };
        let profile = &self.profile[p];
        let cmts_mac = group.mac.as_deref().map_or(Some([2, 0, 0, 0, 0xcc, g as u8]), parse_mac);
        let Some(cmts_mac) = cmts_mac else {
            return Err((
                "mac",
                of("the service group's hardware address is none"),
                "such as 02:00:00:00:00:01".into(),
            ));
        };
        let first_flow = handle * MAX_FLOWS as u32;
        let flows = self
            .flows(profile, group, (*groups, &layout.groups), i, dsid)
            .map_err(|wrong| ("profile", of(&format!("{wrong}, as its profile has it")), wrong.help().to_owned()))?;
        let filters = |names: &[String]| {
            self.filters(names).map_err(|(what, help)| ("profile", of(&format!("{what}, as its profile has it")), help))
        };
        let classifiers = self.set_of(profile).map_err(|name| {
            let what = of(&format!("no set of classifiers is called \"{name}\", as its profile has it"));
            ("profile", what, "a [[classifiers]]'s name".to_owned())
        })?;
        let sid = (entry.sid > 0).then(|| entry.sid.wrapping_add(i as u16));
        if sid.is_some_and(|sid| sid == 0 || sid > 0x3fff) {
            return Err(("sid", of("its service identifier has more than 14 bits"), "begin lower".into()));
        }
        let clusters = sid.map(|sid| ClusterSpec { sids: vec![sid], tos: profile.tos.map(|[keep, set]| (keep, set)) });
        Ok(Named {
            spec: ModemSpec {
                handle,
                service_group: g as u16,
                cmts_mac: Mac(cmts_mac),
                hosts: hosts(entry, i)
                    .map_err(|(key, what)| (key, of(&what), "leave it out, or begin lower".into()))?,
                filters_down: filters(&profile.filters_down)?,
                filters_up: filters(&profile.filters_up)?,
                classifiers,
                flows,
                first_flow,
                security: if profile.encrypt {
                    Some(security(entry, i, sid).map_err(|(k, w, h)| (k, of(&w), h))?)
                } else {
                    None
                },
                clusters: clusters.into_iter().collect(),
            },
            mac,
            profile: p,
            flows: profile.flow.iter().cloned().map(Some).collect(),
            classifiers: None,
        })
    }

    /// The number of a profile's set of classifiers; `u32::MAX`: it has none.
    ///
    /// # Errors
    /// The set's name, where there is none of that name.
    pub(crate) fn set_of(&self, profile: &Profile) -> Result<u32, String> {
        let Some(name) = &profile.classifiers else { return Ok(u32::MAX) };
        let at = self.classifiers.iter().position(|set| &set.name == name);
        at.map(|at| at as u32).ok_or_else(|| name.clone())
    }

    /// The numbers of filter groups.
    ///
    /// # Errors
    /// What is wrong with which name, and what would be right.
    pub fn filters(&self, names: &[String]) -> Result<[u8; 4], (String, String)> {
        let mut ids = [0; 4];
        if names.len() > ids.len() {
            return Err((
                "there are more than four filter groups in one direction".to_owned(),
                "name four or fewer".into(),
            ));
        }
        for (id, name) in ids.iter_mut().zip(names) {
            let at = self.filter_group.iter().position(|group| &group.name == name);
            let unknown = || (format!("no filter group is called \"{name}\""), "a [[filter_group]]'s name".to_owned());
            *id = at.ok_or_else(unknown)? as u8 + 1; // there are 255 at most
        }
        Ok(ids)
    }

    fn flows(
        &self,
        profile: &Profile,
        group: &ServiceGroup,
        (groups, all): ((u16, u16), &[Vec<u16>]),
        i: u64,
        first_dsid: u32,
    ) -> Result<Vec<Option<FlowSpec>>, WrongFlow> {
        let default = groups.0 + (i % u64::from(groups.1.max(1))) as u16;
        let flow = |(n, entry): (usize, &FlowEntry)| {
            entry.spec(group, (groups.0, all), default, first_dsid + n as u32).map(Some)
        };
        profile.flow.iter().enumerate().map(flow).collect()
    }
}

/// What is wrong with a service flow in its service group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongFlow {
    /// The bonding group it names is not there.
    #[error("no bonding group is called \"{0}\"")]
    NoGroup(String),
    /// Unnumbered packets over several channels come in any order.
    #[error(
        "service flow \"{flow}\" is not bonded, on a group of {channels} channels: its packets would come in any order"
    )]
    NotBonded {
        /// Its name.
        flow: String,
        /// Channels of its bonding group.
        channels: usize,
    },
}

impl WrongFlow {
    /// What would be right.
    pub const fn help(&self) -> &'static str {
        match self {
            WrongFlow::NoGroup(_) => "a bonding group of the modem's service group",
            WrongFlow::NotBonded { .. } => "leave bonded = false out, or name a bonding group of one channel",
        }
    }
}

impl FlowEntry {
    /// What is written, as a worker takes it: in `service_group`, whose first bonding group has the number `first` of `all`;
    /// what names no bonding group goes by the one of number `default`.
    ///
    /// # Errors
    /// [`WrongFlow`].
    pub fn spec(
        &self,
        service_group: &ServiceGroup,
        (first, all): (u16, &[Vec<u16>]),
        default: u16,
        dsid: u32,
    ) -> Result<FlowSpec, WrongFlow> {
        let rate = |text: &Option<String>| text.as_deref().and_then(parse_rate);
        let group = match &self.group {
            None => default,
            Some(name) => {
                let at = service_group.bonding_group.iter().position(|bonding| &bonding.name == name);
                first + at.ok_or_else(|| WrongFlow::NoGroup(name.clone()))? as u16
            }
        };
        let channels = all.get(usize::from(group)).map_or(0, Vec::len);
        if !self.bonded && channels > 1 {
            return Err(WrongFlow::NotBonded { flow: self.name.clone(), channels });
        }
        let qos = hqos::FlowSpec {
            sustained: rate(&self.rate),
            burst: self.burst,
            peak: rate(&self.peak),
            reserved: rate(&self.reserved),
            priority: self.priority,
            group,
            buffer: self.buffer,
            aqm: self.aqm.then(|| PieConfig { target_ns: self.aqm_target_ms * 1_000_000, ..PieConfig::default() }),
        };
        Ok(FlowSpec { qos, dsid: self.bonded.then_some(dsid & 0xf_ffff) }) // 20 bits
    }
}

/// Names and numbers of a service group that may not come twice.
#[derive(Default)]
struct Seen {
    macs: HashSet<Mac>,
    sids: HashSet<u16>,
}

fn hosts(entry: &ModemEntry, i: u64) -> Result<Vec<(IpAddr, Mac)>, (&'static str, String)> {
    let macs = match entry.host_mac.as_deref() {
        None => Some([2, 0xc0, 0, 0, 0, 0]),
        Some(text) => parse_mac(text),
    };
    let Some(macs) = macs else { return Err(("host_mac", "the address of its first host is none".into())) };
    let mut hosts = Vec::new();
    for h in 0..u64::from(entry.hosts) {
        let n = i * u64::from(entry.hosts) + h;
        let own = |group: Mac, is_group: bool| if is_group { group } else { plus(macs, n) };
        if let Some(first) = entry.ipv4 {
            let address = u32::try_from(u64::from(u32::from(first)) + n);
            let address = address.map_err(|_| ("ipv4", "its addresses do not fit behind the first".to_owned()))?;
            let is_all = address == u32::MAX;
            let mac = if is_all { Mac::BROADCAST } else { own(Mac::multicast4(address), address >> 28 == 0xe) };
            hosts.push((IpAddr::V4(address.into()), mac));
        }
        if let Some(first) = entry.ipv6 {
            let address = u128::from(first).wrapping_add(u128::from(n));
            hosts.push((IpAddr::V6(address.into()), own(Mac::multicast6(address), address >> 120 == 0xff)));
        }
    }
    Ok(hosts)
}

fn security(entry: &ModemEntry, i: u64, sid: Option<u16>) -> Result<SecuritySpec, (&'static str, String, String)> {
    let digits = || "32 hexadecimal digits".to_owned();
    let Some(key) = entry.key.as_deref().and_then(hex::<16>) else {
        return Err(("key", "its profile encrypts, and it has no key".into(), digits()));
    };
    let iv = entry.iv.as_deref().map_or(Some([0; 16]), hex::<16>);
    let Some(iv) = iv else { return Err(("iv", "that is no initialization vector".into(), digits())) };
    let said = entry.said.map(|said| said.wrapping_add(i as u16)).or(sid).unwrap_or(0);
    if said == 0 || said > 0x3fff {
        let what = "it has no security association identifier of 14 bits".into();
        return Err(("said", what, "1 to 16383, or a sid".into()));
    }
    let key = u128::from_be_bytes(key).wrapping_add(i.into()).to_be_bytes();
    Ok(SecuritySpec { said, keys: [Some((0, Key::aes128(key, iv))), None], active: 0 })
}

/// A channel's name, or several: `ofdm0..2` are ofdm0, ofdm1 and ofdm2.
fn spread(text: &str) -> Vec<String> {
    let Some((first, last)) = text.split_once("..") else { return vec![text.to_owned()] };
    let digits = first.len() - first.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (name, from) = first.split_at(digits);
    match (from.parse::<u16>(), last.parse::<u16>()) {
        (Ok(from), Ok(last)) => (from..=last).map(|n| format!("{name}{n}")).collect(),
        _ => vec![text.to_owned()],
    }
}
