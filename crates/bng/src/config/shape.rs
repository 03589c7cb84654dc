//! Downstream queues: what tiers, groups and ports say of them.

use access::option82::LineRate;
use dataplane::hqos::CodelConfig;
use dataplane::hqos::tree::{CLASSES, ClassTerms, Tier, TreeLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use table::bucket::{self, Rate};

use super::expand::within;
use super::{Config, ConfigError, parse_rate, wrong};

type Result<T> = std::result::Result<T, ConfigError>;

/// Downstream shaping of a tier: packets over its rate wait in queues by class. Without, they are dropped.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShapeSection {
    /// Its subscribers' share of their outer VLAN's rate, and of the port's, beside others': 1 to 255.
    #[serde(default = "one")]
    pub weight: u8,
    /// Most bits a second that a subscriber is given before all share what is left; left out: nothing.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub minimum: Option<String>,
    /// Most bits a second that priority classes may send before the packets of other subscribers, too; left out: they go
    /// first among the subscriber's own only.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub urgent: Option<String>,
    /// Classes, at most four, the most important first. Left out: `voice` (CS5 to CS7 and EF, priority), `video` (CS3, CS4 and
    /// AF3, AF4; weight 4), `best-effort` (weight 2) and `background` (CS1 and AF1; weight 1).
    #[serde(default)]
    pub class: Vec<ClassSection>,
}

/// A class of packets to a subscriber.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassSection {
    /// What tables call it.
    pub name: String,
    /// DSCPs of its packets, 0 to 63; left out: all that no other class has. One class at least has none.
    #[serde(default)]
    pub dscp: Vec<u8>,
    /// Its share of the subscriber's rate, 1 to 255; left out: it is a priority class and goes before all that have one.
    #[serde(default)]
    pub weight: Option<u8>,
    /// Bytes that its queue holds at most; left out: 1 MB.
    #[serde(default, deserialize_with = "quantity::read::bytes::optional")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub buffer: Option<u64>,
    /// How long packets may wait before Controlled Delay (RFC 8289) drops some: `"5 ms"`; `"0"`: it never does. Left out: 5 ms
    /// of a class with a weight, never of a priority class.
    #[serde(default, deserialize_with = "quantity::read::microseconds::optional")]
    #[schemars(schema_with = "quantity::read::microseconds::schema")]
    pub target_us: Option<u32>,
}

/// What downstream queues may hold, of all subscribers of a worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSection {
    /// Packets that may wait; they take packet buffers of `[frames]`. Left out: half of the worker's.
    pub packets: Option<u32>,
    /// Bytes that may wait; left out: 1,024 for each packet. Where this, `packets` or the buffer of a port is full, the longest
    /// queue pays for what comes.
    #[serde(deserialize_with = "quantity::read::bytes::optional")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub bytes: Option<u64>,
    /// What may wait for a port that has a `rate`, all workers together, as the time that the port takes to send it; left out:
    /// 10 ms. At least 32 KiB for each worker. `"0"`: no more than `packets` and `bytes` say.
    #[serde(deserialize_with = "quantity::read::microseconds::optional")]
    #[schemars(schema_with = "quantity::read::microseconds::schema")]
    pub port_buffer_us: Option<u32>,
}

fn one() -> u8 {
    1
}

/// Downstream shaping of a tier in numbers.
#[derive(Clone, Debug)]
pub struct ShapePlan {
    /// Classes, minimum and urgent rate.
    pub tier: Tier,
    /// Rate and burst of a subscriber.
    pub rate: bucket::Config,
    /// Its share among subscribers.
    pub weight: u8,
    /// Class by DSCP.
    pub class: [u8; 64],
    /// Names of the classes that there are.
    pub names: Vec<String>,
}

/// What may wait for a port if nothing is said, in microseconds of its rate.
const PORT_BUFFER_US: u32 = 10_000;

/// Bytes that a class's queue holds if nothing is said.
const BUFFER: u64 = 1 << 20;

/// A burst of a shaped rate if nothing is said: what passes in that time, in nanoseconds, and bytes at least: two frames.
const SHAPED_BURST: (u64, u64) = (1_000_000, 3044);

impl ShapePlan {
    /// Rate and burst of a subscriber whose line carries no more than that.
    pub(crate) fn rate_of(&self, line: LineRate) -> bucket::Config {
        within(self.rate, line.down_kbps, SHAPED_BURST)
    }
}

pub(super) fn shaped(rate: Rate, burst: Option<u64>) -> bucket::Config {
    match burst {
        None => bucket::Config::over(rate, SHAPED_BURST.0, SHAPED_BURST.1),
        Some(bytes) => bucket::Config::new(rate, bytes),
    }
}

fn usual() -> Vec<ClassSection> {
    let class = |name: &str, dscp: Vec<u8>, weight| ClassSection {
        name: name.to_owned(),
        dscp,
        weight,
        buffer: None,
        target_us: None,
    };
    vec![
        class("voice", (40..64).collect(), None),
        class("video", (24..40).collect(), Some(4)),
        class("best-effort", Vec::new(), Some(2)),
        class("background", (8..16).collect(), Some(1)),
    ]
}

impl Config {
    /// A tier's shaping in numbers; `down` is its rate.
    pub(super) fn shape_plan(&self, n: usize, down: Rate) -> Result<Option<ShapePlan>> {
        let Some(shape) = &self.profile[n].shape else { return Ok(None) };
        let fail = |path: &[&dyn ToString], what: String, help: &str| {
            let path: Vec<&dyn ToString> =
                [&"profile" as &dyn ToString, &n, &"shape"].iter().chain(path).copied().collect();
            wrong(&path, what, help)
        };
        let classes = if shape.class.is_empty() { usual() } else { shape.class.clone() };
        if classes.len() > CLASSES {
            return Err(fail(&[&"class"], format!("{} classes", classes.len()), "at most 4"));
        }
        if shape.weight == 0 {
            return Err(fail(&[&"weight"], "no share".to_owned(), "1 to 255"));
        }
        let Some(rest) = classes.iter().position(|class| class.dscp.is_empty()) else {
            let what = "every class has DSCPs: where do packets with others wait?".to_owned();
            return Err(fail(&[&"class"], what, "leave dscp out of one class"));
        };
        let (mut class, mut seen) = ([rest as u8; 64], [false; 64]);
        let mut tier = Tier::default();
        for (m, section) in classes.iter().enumerate() {
            if section.dscp.is_empty() && m != rest {
                let what = format!("\"{}\" and \"{}\" both have no DSCPs", classes[rest].name, section.name);
                return Err(fail(&[&"class", &m, &"dscp"], what, "one class takes what the others leave"));
            }
            for dscp in &section.dscp {
                let Some(known) = seen.get_mut(usize::from(*dscp)) else {
                    return Err(fail(&[&"class", &m, &"dscp"], format!("{dscp} is not a DSCP"), "0 to 63"));
                };
                if std::mem::replace(known, true) {
                    return Err(fail(
                        &[&"class", &m, &"dscp"],
                        format!("DSCP {dscp} is in two classes"),
                        "name it once",
                    ));
                }
                class[usize::from(*dscp)] = m as u8;
            }
            if section.weight == Some(0) {
                return Err(fail(
                    &[&"class", &m, &"weight"],
                    "no share".to_owned(),
                    "1 to 255, or leave it out for priority",
                ));
            }
            let bytes = section.buffer.unwrap_or(BUFFER);
            let Ok(buffer) = u32::try_from(bytes) else {
                return Err(fail(&[&"class", &m, &"buffer"], format!("{bytes} bytes"), "at most 4 GB"));
            };
            if buffer < 2000 {
                return Err(fail(
                    &[&"class", &m, &"buffer"],
                    format!("{bytes} bytes: less than a packet"),
                    "2000 or more",
                ));
            }
            let usual = section.weight.map(|_| CodelConfig::default().target_ns);
            let target = section.target_us.map_or(usual, |us| Some(u64::from(us) * 1000).filter(|ns| *ns > 0));
            let aqm = target.map(|target| CodelConfig { target_ns: slow(target, down), ..CodelConfig::default() });
            tier.classes[m] = ClassTerms { weight: section.weight.unwrap_or(0), buffer, aqm };
        }
        let rate_of = |key: &'static str, text: Option<&String>| -> Result<Option<bucket::Config>> {
            let Some(text) = text else { return Ok(None) };
            match parse_rate(text) {
                Some(rate) if rate <= down.0 => Ok(Some(shaped(Rate(rate), None))),
                Some(_) => Err(fail(&[&key], format!("{text} is more than `down`"), "a part of it")),
                None => Err(fail(&[&key], format!("\"{text}\" is not a rate"), "such as 5 Mbit/s")),
            }
        };
        tier.minimum = rate_of("minimum", shape.minimum.as_ref())?;
        tier.urgent = rate_of("urgent", shape.urgent.as_ref())?;
        let rate = shaped(down, self.profile[n].down_burst);
        let names = classes.into_iter().map(|class| class.name).collect();
        Ok(Some(ShapePlan { tier, rate, weight: shape.weight, class, names }))
    }

    /// Rate and burst of each of a group's outer VLANs.
    pub(super) fn s_vlan_rate(&self, n: usize) -> Result<bucket::Config> {
        let Some(text) = &self.group[n].s_vlan_rate else { return Ok(bucket::Config::new(Rate::UNLIMITED, 0)) };
        let what = || format!("\"{text}\" is not a rate");
        let rate = parse_rate(text).filter(|rate| *rate > 0);
        let rate = rate.ok_or_else(|| wrong(&[&"group", &n, &"s_vlan_rate"], what(), "such as 2.4 Gbit/s"))?;
        Ok(shaped(Rate(rate), None))
    }

    /// The rate of a port towards subscribers, in bit/s.
    ///
    /// # Errors
    /// It is not one.
    pub(crate) fn port_rate(&self, n: usize) -> Result<Option<u64>> {
        let Some(text) = &self.port[n].rate else { return Ok(None) };
        let what = || format!("\"{text}\" is not a rate");
        let rate = parse_rate(text).filter(|rate| *rate > 0);
        if !self.port[n].role.has_access() {
            let what = format!("port \"{}\" does not lead to subscribers", self.port[n].name);
            return Err(wrong(&[&"port", &n, &"rate"], what, "leave it out"));
        }
        rate.map(Some).ok_or_else(|| wrong(&[&"port", &n, &"rate"], what(), "such as 10 Gbit/s"))
    }

    /// What may wait for a port with a rate, in nanoseconds of it.
    pub(crate) fn port_buffer_ns(&self) -> u64 {
        u64::from(self.queues.port_buffer_us.unwrap_or(PORT_BUFFER_US)) * 1000
    }

    /// Packets and bytes that may wait on a worker.
    ///
    /// # Errors
    /// There are not as many packet buffers.
    pub(crate) fn queue_limits(&self) -> Result<TreeLimits> {
        let all = u64::from(self.frames.packet_buffers) / u64::from(self.workers.count.max(1));
        let packets = self.queues.packets.map_or(all / 2, u64::from);
        if self.queues.packets.is_some() && packets + 1024 > all {
            let what = format!("{packets} packets may wait, but a worker has {all} packet buffers");
            let help = format!(
                "{} or fewer, or more [frames] packet_buffers: ports need 1024 of their own",
                all.saturating_sub(1024)
            );
            return Err(wrong(&[&"queues", &"packets"], what, help));
        }
        Ok(TreeLimits { frames: packets as usize, bytes: self.queues.bytes.unwrap_or(packets * 1024) })
    }
}

/// A target that a rate can keep: one and a half frames at least (RFC 8289, 4.2).
fn slow(target_ns: u64, rate: Rate) -> u64 {
    let frame = 1514 * 8 * 3 / 2 * 1_000_000_000u64;
    target_ns.max(frame.checked_div(rate.0).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_rates_have_a_longer_target() {
        assert_eq!(slow(5_000_000, Rate::mbps(100)), 5_000_000);
        assert_eq!(slow(5_000_000, Rate::mbps(1)), 18_168_000);
        assert_eq!(slow(5_000_000, Rate::UNLIMITED), 5_000_000);
    }
}
