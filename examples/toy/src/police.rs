//! The stage that makes this gateway what it is, and the tables it uses.

use std::net::IpAddr;

use dataplane::config::{ConfigError, parse_prefix, parse_rate, wrong};
use dataplane::forward::NONE;
use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use table::bucket::{self, Rate};
use table::lpm::{Lpm, Prefix};
use wire::fast;

use crate::config::{Config, SourceSection};
use crate::drops;
use crate::pipeline::ToyKind;

/// A worker's source prefixes, by the order of the configuration.
pub struct Sources {
    index: Lpm<u32>,
    all: Vec<Source>,
    workers: u16,
}

/// A source prefix: what may pass, and what has.
pub struct Source {
    prefix: Prefix<u32>,
    rate: bucket::Config,
    bucket: bucket::State,
    usage: Usage,
}

/// A row of `show sources`. A worker's own have no prefix: names are control's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// The prefix, as configured.
    pub prefix: String,
    /// Packets within the rate.
    pub packets: u64,
    /// Bytes of their IP packets.
    pub bytes: u64,
    /// Packets over the rate.
    pub dropped: u64,
}

impl Source {
    /// The entry that section `n` of the configuration describes, its bucket full.
    ///
    /// # Errors
    /// The key that is invalid.
    pub fn of(n: usize, section: &SourceSection) -> Result<Self, ConfigError> {
        let invalid = |key: &str, text: &str, what: &str, help: &str| {
            wrong(&[&"source", &n, &key], format!("\"{text}\" is not {what}"), help)
        };
        let prefix = match parse_prefix(&section.prefix) {
            Some((IpAddr::V4(address), len)) => Prefix::new(address.into(), len),
            _ => None,
        };
        let no_prefix = || invalid("prefix", &section.prefix, "an IPv4 prefix", "such as 10.1.0.0/16");
        let prefix = prefix.ok_or_else(no_prefix)?;
        let no_rate = |text: &str| invalid("rate", text, "a rate", "such as 50 Mbit/s");
        let rate = section.rate.as_deref().map(|text| parse_rate(text).ok_or_else(|| no_rate(text))).transpose()?;
        let rate = rate.map_or(Rate::UNLIMITED, Rate::bps);
        // What passes in 100 ms at once, two packets at least.
        let rate = bucket::Config::over(rate, 100_000_000, 3000);
        Ok(Self { prefix, rate, bucket: bucket::State::full(&rate, 0), usage: Usage::default() })
    }

    /// Checks that no section before number `n` has its prefix.
    pub fn check_apart(&self, n: usize, config: &Config) -> Result<(), ConfigError> {
        let is_same =
            |(at, section): (usize, _)| Self::of(at, section).is_ok_and(|source| source.prefix == self.prefix);
        let again = config.source.iter().enumerate().take(n).any(is_same);
        let what = || wrong(&[&"source", &n, &"prefix"], "another source has this prefix", "one section for each");
        if again { Err(what()) } else { Ok(()) }
    }
}

impl Sources {
    /// Those of a configuration that was checked.
    pub fn of(config: &Config) -> Self {
        let (mut index, mut all) = (Lpm::new(), Vec::new());
        for source in config.source.iter().enumerate().filter_map(|(n, section)| Source::of(n, section).ok()) {
            index.insert(source.prefix, all.len() as u32); // fewer lines than that
            all.push(source);
        }
        Self { index, all, workers: config.workers.count }
    }

    /// The worker that polices an IP packet.
    pub fn owner(&self, packet: &[u8]) -> Option<u16> {
        let from = fast::be32(packet, 12).filter(|_| packet[0] >> 4 == 4)?;
        self.index.lookup(from).map(|source| (source % u32::from(self.workers)) as u16)
    }

    /// Adds what has passed to a row for each source prefix.
    pub fn add_to(&self, rows: &mut [Usage]) {
        for (sum, Source { usage, .. }) in rows.iter_mut().zip(&self.all) {
            sum.packets += usage.packets;
            sum.bytes += usage.bytes;
            sum.dropped += usage.dropped;
        }
    }
}

/// Finds the longest prefix of a packet's source address, polices by its bucket, and counts. What none matches passes.
#[derive(Default)]
pub struct Police;

impl Stage<ToyKind> for Police {
    const NAME: &'static str = "police";

    fn run(&mut self, burst: &mut Burst<ToyKind>, cx: &mut Ctx<'_, ToyKind>) {
        let (at, now) = (cx.at(), cx.env.now);
        let Sources { index, all, .. } = &mut cx.state.own;
        for i in burst.live() {
            let ip = *burst.lane.ip(i);
            // An IPv6 packet's addresses are not in the lane.
            let found = index.lookup(ip.src).filter(|_| ip.version == 4).unwrap_or(NONE);
            burst.lane.source[i] = found;
            let Some(source) = all.get_mut(found as usize) else { continue };
            if bucket::conform(&source.rate, &mut source.bucket, now, ip.total_len) {
                source.usage.packets += 1;
                source.usage.bytes += u64::from(ip.total_len);
            } else {
                source.usage.dropped += 1;
                burst.drop(i, drops::SOURCE_RATE, at);
            }
        }
    }
}
