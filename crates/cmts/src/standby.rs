//! What a second process needs to go on where a first one stops: modems as they are now, and where numbers stand.
//!
//! | what | how it goes on |
//! |---|---|
//! | modems, hosts, service flows, classifiers, filter groups | as they are now: [`ExportedState`] |
//! | keys, even and odd, and which is in use | as they are now: [`ExportedState`] |
//! | neighbours' hardware addresses | as they were learnt: [`ExportedState`] |
//! | numbers of DEPI packets and of packets of service flows | [`Sequences`]: exactly when handed over, else beyond all that may have been sent: [`Reach`] |
//! | frames that wait in service flows | [`Waiting`], when handed over; else lost |
//! | upstream: bursts, segments and frames under way, and where their numbers stand | [`UnderWay`], when handed over; else lost, and streams begin anew where a frame begins |
//! | counters, rates' buckets, queue management, grants | begin anew |

use std::net::IpAddr;

use crypto::{Cipher, Key};
use serde::{Deserialize, Serialize};
use wire::Mac;

use crate::config::{Config, FlowEntry, Layout, Named, RuleEntry, rules};
use crate::flow::FlowSpec;
use crate::modems::{ClusterSpec, MAX_FLOWS, ModemSpec, SecuritySpec};
use crate::rules::RuleSet;

/// State of control that is not in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExportedState {
    /// Modems.
    pub modems: Vec<ExportedModem>,
    /// First of the downstream service identifiers to be given next.
    pub next_dsid: u32,
    /// Neighbours: port, address, hardware address.
    pub neighbours: Vec<(u8, IpAddr, [u8; 6])>,
}

/// A modem.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ExportedModem {
    handle: u32,
    service_group: u16,
    profile: usize,
    mac: [u8; 6],
    cmts_mac: [u8; 6],
    hosts: Vec<(IpAddr, [u8; 6])>,
    filters: [[u8; 4]; 2],
    flows: Vec<Option<(FlowEntry, u16, Option<u32>)>>,
    classifiers: Option<Vec<(u16, RuleEntry)>>,
    security: Option<Keys>,
    clusters: Vec<Cluster>,
}

/// A security association: its identifier, the key in use, keys with their numbers.
type Keys = (u16, u8, [Option<(u8, KeyBytes)>; 2]);
/// Service identifiers, and the type of service to set.
type Cluster = (Vec<u16>, Option<(u8, u8)>);

/// Never shows keys.
impl std::fmt::Debug for ExportedModem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExportedModem({})", Mac(self.mac))
    }
}

/// A key: bits of it, itself, the initialization vector.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct KeyBytes(u16, Vec<u8>, Vec<u8>);

impl KeyBytes {
    fn of(key: &Key) -> Self {
        let bits = match key.cipher() {
            Cipher::Aes128 => 128,
            Cipher::Aes256 => 256,
            Cipher::Des56 => 56,
        };
        Self(bits, key.bytes().to_vec(), key.iv().to_vec())
    }

    fn key(&self) -> Option<Key> {
        let cipher = match self.0 {
            128 => Cipher::Aes128,
            256 => Cipher::Aes256,
            56 => Cipher::Des56,
            _ => return None,
        };
        Key::new(cipher, &self.1, &self.2)
    }
}

impl ExportedModem {
    /// A modem as it is now.
    pub fn of(named: &Named) -> Self {
        let spec = &named.spec;
        let flow = |(entry, flow): (&Option<FlowEntry>, &Option<FlowSpec>)| {
            Some((entry.clone()?, flow.map(|flow| flow.qos.group)?, flow.and_then(|flow| flow.dsid)))
        };
        let security = |security: &SecuritySpec| {
            let keys = security.keys.map(|key| key.map(|(sequence, key)| (sequence, KeyBytes::of(&key))));
            (security.said, security.active, keys)
        };
        Self {
            handle: spec.handle,
            service_group: spec.service_group,
            profile: named.profile,
            mac: named.mac.0,
            cmts_mac: spec.cmts_mac.0,
            hosts: spec.hosts.iter().map(|(address, mac)| (*address, mac.0)).collect(),
            filters: [spec.filters_down, spec.filters_up],
            flows: named.flows.iter().zip(&spec.flows).map(flow).collect(),
            classifiers: named.classifiers.clone(),
            security: spec.security.as_ref().map(security),
            clusters: spec.clusters.iter().map(|cluster| (cluster.sids.clone(), cluster.tos)).collect(),
        }
    }

    /// The modem, in a layout of the same configuration; none where it is of another one. Its own classifiers, if it
    /// has such, are entered in the layout.
    fn named(self, config: &Config, layout: &mut Layout) -> Option<Named> {
        let group = config.service_group.get(usize::from(self.service_group))?;
        let (first, count) = *layout.groups_of.get(usize::from(self.service_group))?;
        let profile = config.profile.get(self.profile)?;
        let (mut flows, mut specs) = (Vec::new(), Vec::new());
        for flow in self.flows {
            let Some((entry, number, dsid)) = flow else {
                flows.push(None);
                specs.push(None);
                continue;
            };
            let spec = entry.spec(group, (first, &layout.groups), number, dsid.unwrap_or(0)).ok()?;
            if !(first..first + count).contains(&spec.qos.group) {
                return None;
            }
            flows.push(Some(entry));
            specs.push(Some(spec));
        }
        let security = |(said, active, keys): Keys| SecuritySpec {
            said,
            active,
            keys: keys.map(|key| key.and_then(|(sequence, key)| Some((sequence, key.key()?)))),
        };
        let mut named = Named {
            spec: ModemSpec {
                handle: self.handle,
                service_group: self.service_group,
                cmts_mac: Mac(self.cmts_mac),
                hosts: self.hosts.into_iter().map(|(address, mac)| (address, Mac(mac))).collect(),
                filters_down: self.filters[0],
                filters_up: self.filters[1],
                classifiers: config.set_of(profile).ok()?,
                flows: specs,
                first_flow: self.handle.checked_mul(MAX_FLOWS as u32)?,
                security: self.security.map(security),
                clusters: self.clusters.into_iter().map(|(sids, tos)| ClusterSpec { sids, tos }).collect(),
            },
            mac: Mac(self.mac),
            profile: self.profile,
            flows,
            classifiers: self.classifiers,
        };
        if let Some(own) = &named.classifiers {
            let entries: Vec<RuleEntry> = own.iter().map(|(_, rule)| rule.clone()).collect();
            let flow = |name: &str| named.flow(name).map(|at| at as u8); // at most 16
            let compiled = rules("classifier", 0, &entries, Some(&flow)).ok()?;
            named.spec.classifiers = layout.rules.classifiers.len() as u32;
            layout.rules.classifiers.push(RuleSet::new(&compiled));
        }
        Some(named)
    }
}

/// Modems of a book whose configuration is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

impl ExportedState {
    /// Puts its modems into a layout instead of the configuration's. Returns the handles without a modem.
    ///
    /// # Errors
    /// When a modem does not fit the configuration.
    pub fn enter(self, config: &Config, layout: &mut Layout) -> Result<Vec<u32>, Foreign> {
        let mut modems = Vec::new();
        for entry in self.modems {
            modems.push(entry.named(config, layout).ok_or(Foreign)?);
        }
        modems.sort_by_key(|named| named.spec.handle);
        let mut free = Vec::new();
        layout.modems.clear();
        for named in modems {
            let handle = named.spec.handle;
            while (layout.modems.len() as u32) < handle {
                // A place without a modem; whose it looks like does not matter, as it is not that one's.
                free.push(layout.modems.len() as u32);
                layout.modems.push(named.clone());
            }
            if layout.modems.len() as u32 > handle {
                return Err(Foreign);
            }
            layout.modems.push(named);
        }
        Ok(free)
    }
}

/// Where the numbers of a worker's packets stand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequences {
    /// The number of each channel's next DEPI packet.
    pub channels: Vec<u16>,
    /// Service flows, and the number of each one's next packet.
    pub flows: Vec<(u32, u16)>,
}

/// A frame that waits in a service flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The service flow.
    pub flow: u32,
    /// The frame: Ethernet, without CRC.
    pub bytes: Vec<u8>,
}

/// What is under way upstream: in packets that were taken in, and not yet a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnderWay {
    /// On a pseudowire: the number of its next packet, and the burst under way if there is one.
    Burst {
        /// Our number of the session.
        session: u32,
        /// The next packet's.
        next: u16,
        /// The header of the data unit (CM-SP-R-UEPI).
        header: Option<[u8; wire::uepi::Header::LEN]>,
        /// Its payload so far.
        payload: Vec<u8>,
    },
    /// In a SID cluster: the number of its next segment, and the frame under way, if where frames begin is known.
    Stream {
        /// The service group.
        service_group: u16,
        /// The first of the cluster's service identifiers.
        sid: u16,
        /// The next segment's.
        next: u16,
        /// The frame so far.
        begun: Option<Vec<u8>>,
    },
    /// A segment that waits for earlier ones.
    Segment {
        /// The service group.
        service_group: u16,
        /// The first of its cluster's service identifiers.
        sid: u16,
        /// Its number.
        sequence: u16,
        /// The segment, header and all.
        bytes: Vec<u8>,
    },
}

impl UnderWay {
    /// Bytes that were in packets; none: it is numbers alone.
    pub fn bytes(&self) -> Option<usize> {
        match self {
            Self::Burst { header, payload, .. } => header.map(|_| payload.len()),
            Self::Stream { begun, .. } => begun.as_ref().map(Vec::len).filter(|len| *len > 0),
            Self::Segment { bytes, .. } => Some(bytes.len()),
        }
    }
}

/// What a worker goes on with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerExport {
    /// Its numbers.
    pub sequences: Sequences,
    /// What waits, in order.
    pub waiting: Vec<Waiting>,
    /// What is under way upstream.
    pub under_way: Vec<UnderWay>,
}

/// All that a process goes on with.
#[derive(Clone, Debug, Default)]
pub struct HaState {
    /// Control's part.
    pub book: ExportedState,
    /// Each worker's.
    pub exports: Vec<WorkerExport>,
    /// Nanoseconds for which the other may have gone on after it told of its numbers; none: it had stopped.
    pub silent_ns: Option<u64>,
}

/// How far numbers may have come in a time nobody told of: an upper bound by what channels carry and rates allow.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Packets a second of each channel.
    channels: Vec<u64>,
    /// Packets a second, and at once, of each service flow there is.
    flows: Vec<(u32, u64, u64)>,
}

/// The farthest step ahead, a quarter of all numbers: what follows must be ahead of what is due, too, until the receiver
/// has given up what was left out.
const FARTHEST: u64 = 0x4000;
/// Bytes of the shortest frame on a channel: MAC header, Ethernet, CRC.
const SHORTEST: u64 = 64 + 6;
/// Nanoseconds by which channels and flows may be ahead of their rates.
const AHEAD_NS: u64 = 5_000_000;

impl Reach {
    /// Of the channels and modems of a layout.
    pub fn of(config: &Config, layout: &Layout) -> Self {
        // Packets are sent when they are full, or have waited.
        let full = SHORTEST * config.depi.segments as u64;
        let waited = 1_000_000 / config.depi.hold_us.max(1);
        let channels = layout.channels.iter().map(|channel| channel.capacity / 8 / full + waited).collect();
        let flow = |(id, flow): (u32, &FlowSpec)| {
            let of_group: u64 = layout.groups.get(usize::from(flow.qos.group)).map_or(0, |channels| {
                channels.iter().filter_map(|c| layout.channels.get(usize::from(*c))).map(|c| c.capacity).sum()
            });
            let rate = flow.qos.sustained.unwrap_or(u64::MAX).min(of_group);
            (id, rate / 8 / SHORTEST, if flow.qos.sustained.is_some() { flow.qos.burst / SHORTEST } else { 0 })
        };
        let flows = layout.modems.iter().flat_map(|named| {
            let flows = named.spec.flows.iter().enumerate();
            flows.filter_map(|(n, flow)| Some((named.spec.first_flow + n as u32, flow.as_ref()?)))
        });
        Self { channels, flows: flows.map(flow).collect() }
    }

    /// Moves numbers that were told `ns` nanoseconds ago beyond all that may have been used since.
    pub fn skip(&self, sequences: &mut Sequences, ns: u64) {
        let bound = |rate: u64, at_once: u64| {
            let packets = u128::from(rate) * u128::from(ns + AHEAD_NS) / 1_000_000_000 + u128::from(at_once) + 16;
            packets.min(FARTHEST.into()) as u16
        };
        for (number, rate) in sequences.channels.iter_mut().zip(&self.channels) {
            *number = number.wrapping_add(bound(*rate, 0));
        }
        for (id, number) in &mut sequences.flows {
            let of = |(other, rate, at_once): &(u32, u64, u64)| (other == id).then_some((*rate, *at_once));
            let found = self.flows.binary_search_by_key(id, |flow| flow.0).ok().and_then(|at| of(&self.flows[at]));
            let (rate, at_once) = found.unwrap_or((u64::MAX / 2, 0));
            *number = number.wrapping_add(bound(rate, at_once));
        }
    }
}
