//! The published reference workload of a vCMTS data plane, as a configuration and as the other side knows it.
//!
//! 300 modems a service group with 4 addresses each; 6 filter groups of 16 rules, 2 per modem, a tenth of packets
//! matched, default permit; 16 classifier rules, a tenth of packets to one of 3 service flows; 8 service flows, 4
//! active; 6 OFDM channels of 1.89 Gbit/s in 2 bonding groups, or 2 with 32 SC-QAM of 42.24 Mbit/s in 4; AES and CRC on
//! every packet downstream, no CRC verified upstream; grants of 2 KB; upstream a tenth of downstream. Beside that what
//! an operator has on: rates, peak rates, priorities and active queue management of every service flow, and some modems
//! that are offered more than they may have.

use std::net::Ipv4Addr;

use cmts::config::Config;
use traffic::Direction;
use traffic::cable::{CLASSES, FILTER_GROUPS, Mix, Plant, Workload};
use wire::Mac;

use super::limits::Limits;
use super::plant::plant;
use crate::error::BenchError;

/// Channels of a service group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// Six OFDM channels in two bonding groups.
    Ofdm6,
    /// Two OFDM and 32 SC-QAM channels in four bonding groups: each an OFDM channel, which two share, and eight SC-QAM.
    Ofdm2Scqam32,
}

impl Channels {
    /// What `--set channels=` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ofdm6 => "ofdm6",
            Self::Ofdm2Scqam32 => "ofdm2-scqam32",
        }
    }

    /// How many they are.
    pub const fn count(self) -> u32 {
        match self {
            Self::Ofdm6 => 6,
            Self::Ofdm2Scqam32 => 34,
        }
    }

    /// Bits a second they carry together.
    pub const fn capacity(self) -> f64 {
        match self {
            Self::Ofdm6 => 6.0 * 1.89e9,
            Self::Ofdm2Scqam32 => 2.0 * 1.89e9 + 32.0 * 42.24e6,
        }
    }

    /// Channels of each bonding group.
    pub(crate) fn bonding_groups(self) -> Vec<Vec<usize>> {
        match self {
            Self::Ofdm6 => vec![vec![0, 1, 2], vec![3, 4, 5]],
            // The OFDM channel is two bonding groups': what is compared are the SC-QAM channels beside it.
            Self::Ofdm2Scqam32 => (0..4).map(|n| (2 + n * 8..10 + n * 8).collect()).collect(),
        }
    }

    /// Bits a second of each channel.
    pub fn each(self) -> Vec<f64> {
        match self {
            Self::Ofdm6 => vec![1.89e9; 6],
            Self::Ofdm2Scqam32 => [vec![1.89e9; 2], vec![42.24e6; 32]].concat(),
        }
    }
}

/// Filter groups and classifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Addresses with prefixes, protocols, ranges of ports, types of service, Ethernet addresses.
    Mixed,
    /// One UDP port each.
    Ports,
}

impl Rules {
    /// What `--set rules=` calls them.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Ports => "ports",
        }
    }
}

/// The workload, with what can be set.
#[derive(Clone, Debug)]
pub struct CableSettings {
    /// Service groups.
    pub groups: u16,
    /// Modems of each.
    pub modems: u16,
    /// Addresses of each.
    pub hosts: u16,
    /// Channels of each service group.
    pub channels: Channels,
    /// Frames are encrypted.
    pub encrypt: bool,
    /// One frame size for both directions, instead of the published mixes.
    pub size: Option<u16>,
    /// Bytes upstream for each byte downstream.
    pub upstream: f64,
    /// Whether there is any traffic downstream; without, there is as much upstream as can be.
    pub downstream: bool,
    /// Largest IP packet towards devices.
    pub mtu: u16,
    /// Segments of a DEPI packet at most.
    pub segments: u16,
    /// What service flows may carry, and which are offered more.
    pub limits: Limits,
    /// Filter groups and classifiers.
    pub rules: Rules,
    /// Workers of the gateway, which service groups are spread over: `--workers`.
    pub workers: u16,
}

impl Default for CableSettings {
    fn default() -> Self {
        Self {
            groups: 2,
            modems: 300,
            hosts: 4,
            channels: Channels::Ofdm6,
            encrypt: true,
            size: None,
            upstream: 0.1,
            downstream: true,
            mtu: 1500,
            segments: 8,
            limits: Limits::default(),
            rules: Rules::Mixed,
            workers: 1,
        }
    }
}

const GATEWAY: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 0x10]), Mac([2, 0, 0, 0, 0, 0x20])];
pub(super) const NEIGHBOURS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 0x11]), Mac([2, 0, 0, 0, 0, 0x21])];
/// The gateway's address towards devices.
pub(super) const OURS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 1);
pub(super) const CMTS: Mac = Mac([2, 0xc0, 0xff, 0, 0, 1]);
pub(super) const IV: [u8; 16] = *b"weir's bench, IV";

impl CableSettings {
    /// Changes one by its name.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be that.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), BenchError> {
        let invalid = |allowed: &str| BenchError::Asked(format!("--set {key}={value} is invalid; allowed: {allowed}"));
        let small = |value: Option<u64>| value.and_then(|value| u16::try_from(value).ok());
        let count = || small(quantity::count(value)).ok_or_else(|| invalid("a count such as 300 or 0.3k"));
        let bytes = || {
            let read = small(quantity::Unit::Bytes.parse(value).ok());
            read.ok_or_else(|| invalid("a size such as 1518, 1518B or 1.5kB"))
        };
        match key {
            "service_groups" => self.groups = count()?,
            "modems" => self.modems = count()?,
            "hosts" => self.hosts = count()?,
            "upstream" => {
                let number = quantity::share(value).or_else(|| value.parse().ok());
                let ratio = number.filter(|ratio: &f64| (0.0..=10.0).contains(ratio));
                self.upstream =
                    ratio.ok_or_else(|| invalid("bytes for each byte downstream, such as 0.1, 10% or 2"))?;
            }
            "downstream" => {
                let read = match value {
                    "on" | "true" => Some(true),
                    "off" | "false" => Some(false),
                    _ => None,
                };
                self.downstream = read.ok_or_else(|| invalid("on or off"))?;
            }
            "rules" => {
                let found = [Rules::Mixed, Rules::Ports].into_iter().find(|rules| rules.name() == value);
                self.rules = found.ok_or_else(|| invalid("mixed or ports"))?;
            }
            "mtu" => self.mtu = bytes()?,
            "segments" => self.segments = count()?,
            "encrypt" => self.encrypt = value.parse().map_err(|_| invalid("true or false"))?,
            "size" => self.size = Some(bytes()?),
            "channels" => {
                let all = [Channels::Ofdm6, Channels::Ofdm2Scqam32];
                let found = all.into_iter().find(|channels| channels.name() == value);
                self.channels = found.ok_or_else(|| {
                    BenchError::Asked(format!("no channels are called `{value}`; there are ofdm6 and ofdm2-scqam32"))
                })?;
            }
            _ if self.limits.set(key, value)? => {}
            _ => {
                let names = "service_groups, modems, hosts, channels, size, upstream, downstream, mtu, segments, \
                 encrypt, rules";
                let names = format!("{names}, {}", Limits::KEYS);
                return Err(BenchError::Asked(format!("`{key}` is nothing to set here; there are {names}")));
            }
        }
        let wrong = |what: &str| Err(BenchError::Asked(format!("`{key}={value}`: {what}")));
        match () {
            () if !(1..=8).contains(&self.groups) => wrong("1 to 8 service groups"),
            () if !(6..=1000).contains(&self.modems) => wrong("6 to 1000 modems a service group"),
            () if !(1..=16).contains(&self.hosts) => wrong("1 to 16 addresses a modem"),
            () if self.size.is_some_and(|size| !(64..=1518).contains(&size)) => wrong("64 to 1518 bytes"),
            () if !(1400..=2000).contains(&self.mtu) => wrong("1400 to 2000 bytes"),
            () => Ok(()),
        }
    }

    /// All modems.
    pub fn subscribers(&self) -> u32 {
        u32::from(self.groups) * u32::from(self.modems)
    }

    /// Sizes of packets, downstream and upstream.
    pub fn mixes(&self) -> [Mix; 2] {
        [Mix::downstream as fn() -> Mix, Mix::upstream]
            .map(|mix| self.size.map_or_else(mix, |size| Mix::fixed(size - 4)))
    }

    /// Sizes of the packets that the cipher alone is measured with: those that the gateway encrypts, or without traffic
    /// downstream those that it decrypts.
    pub(super) fn ciphered(&self) -> Mix {
        let [down, up] = self.mixes();
        if self.downstream { down } else { up }
    }

    /// Packets downstream.
    pub fn downstream(&self) -> Workload {
        self.workload(&self.mixes()[0], Direction::Downlink)
    }

    /// Packets upstream.
    pub fn upstream(&self) -> Workload {
        self.workload(&self.mixes()[1], Direction::Uplink)
    }

    fn workload(&self, mix: &Mix, direction: Direction) -> Workload {
        match self.rules {
            Rules::Mixed => Workload::mixed(mix, self.modems.into(), direction),
            Rules::Ports => Workload::new(mix, self.modems.into(), true),
        }
    }

    /// The worker of a service group: each worker has groups in a row.
    pub fn worker_of(&self, group: u16) -> u16 {
        (u32::from(group) * u32::from(self.workers) / u32::from(self.groups.max(1))) as u16 // less than `workers`
    }

    /// The service groups of a worker.
    pub fn groups_of(&self, worker: u16) -> std::ops::Range<u16> {
        let first = (0..self.groups).find(|group| self.worker_of(*group) == worker).unwrap_or(0);
        let count = (0..self.groups).filter(|group| self.worker_of(*group) == worker).count();
        first..first + count as u16 // at most all groups
    }

    /// Modems of a service group that share a pair of filter groups: by sixths, in order.
    pub(super) fn sixth(&self, sixth: u16) -> std::ops::Range<u16> {
        let each = self.modems.div_ceil(FILTER_GROUPS);
        (sixth * each).min(self.modems)..((sixth + 1) * each).min(self.modems)
    }

    pub(super) fn key(group: u16, first: u16) -> u128 {
        u128::from_be_bytes(*b"benchmark keys:\0") ^ u128::from(group) << 64 ^ u128::from(first) << 16
    }

    /// Bytes of a packet buffer: a frame of the largest IP packet and its headroom fit, in 2048 or 4096 as AF_XDP wants it.
    pub fn slot_bytes(&self) -> u16 {
        let frame = wire::ethernet::HEADER_LEN + usize::from(self.mtu.max(1500));
        if usize::from(frame::HEADROOM) + frame > 2048 { 4096 } else { 2048 }
    }

    /// A Remote-PHY device's address.
    pub(super) fn device(g: u16) -> Ipv4Addr {
        Ipv4Addr::new(172, 30, 1, g as u8 + 1)
    }

    /// First and last address of the hosts in each service group.
    pub(super) fn hosts_of_groups(&self) -> impl Iterator<Item = (Ipv4Addr, Ipv4Addr)> {
        let count = u32::from(self.modems) * u32::from(self.hosts);
        (0..self.groups).map(move |group| {
            let first = self.first_host(group, 0).0;
            (first, Ipv4Addr::from(u32::from(first) + count - 1))
        })
    }

    /// The first host behind modem `modem`: the others', and other modems', follow.
    pub(super) fn first_host(&self, g: u16, modem: u16) -> (Ipv4Addr, Mac) {
        let n = u32::from(modem) * u32::from(self.hosts);
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, g as u8, 0, 0)) + n);
        (address, Mac([2, 0xce, g as u8, 0, (n >> 8) as u8, n as u8]))
    }

    /// The configuration, read.
    ///
    /// # Errors
    /// None, unless the workload is put together wrongly.
    pub fn config(&self, uris: [&str; 2]) -> Result<Config, BenchError> {
        toml::from_str(&self.text(uris)).map_err(|error| BenchError::Gateway(error.to_string()))
    }

    /// What the other side knows of a configuration of ours.
    ///
    /// # Errors
    /// None, unless the workload is put together wrongly.
    pub fn plant(&self, config: &Config) -> Result<Plant, BenchError> {
        let macs = [0, 1].map(|n| [GATEWAY[n], NEIGHBOURS[n]]);
        plant(config, OURS, macs[0], macs[1])
    }

    /// Service flows that traffic uses.
    pub fn flows(&self) -> u64 {
        u64::from(self.subscribers()) * u64::from(CLASSES)
    }

    /// Hardware addresses of the gateway's ports: towards devices, towards the network.
    pub const fn macs() -> [Mac; 2] {
        GATEWAY
    }
}
