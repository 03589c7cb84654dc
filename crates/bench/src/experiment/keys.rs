//! Keys of experiments: which there are, and what they take.

use super::file::{Experiment, GatewayKind, Measure};
use crate::bng;
use crate::cmts::CableSettings;
use crate::options::PortKind;
use crate::profiles::{self, SettingError};
use crate::thread::cpus;

/// What is wrong with a key or its value, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// What is wrong.
    pub what: String,
    /// What is allowed.
    pub help: String,
}

impl Wrong {
    fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), help: help.into() }
    }
}

impl From<SettingError> for Wrong {
    fn from(error: SettingError) -> Self {
        match error {
            SettingError::Unknown(key, known) => Self::new(format!("unknown key `{key}`"), format!("allowed: {known}")),
            SettingError::Value { key, value, why } => Self::new(format!("\"{value}\" is invalid for {key}"), why),
        }
    }
}

/// Keys that say how many workers, gateways or service groups there are: a rate is compared with that of the fewest.
pub const SCALING: [&str; 6] = ["workers", "instances", "service_groups", "queues", "gateways", "control_planes"];

/// Most workers, gateways or queues of a point.
const MOST: u16 = 256;

/// Checks a key of `[set]`.
///
/// # Errors
/// No such key, or an invalid value.
pub fn set(of: &Experiment, key: &str, value: &str) -> Result<(), Wrong> {
    match (of.measure, of.gateway) {
        (Measure::ControlPlane, _) => match key {
            "sessions" => sessions(value).map(drop),
            _ => Err(Wrong::new(format!("unknown key `{key}`"), "allowed: sessions")),
        },
        (Measure::ForwardPps, _) => {
            let help = "values of task, queues, frame_bytes, flows and flow_key stand in [[vary]]";
            Err(Wrong::new(format!("unknown key `{key}`"), help))
        }
        (_, Some(GatewayKind::Upf)) => Ok(profiles::Settings::default().set(key, value)?),
        (_, Some(GatewayKind::Bng)) => Ok(bng::Settings::default().set(key, value)?),
        (_, Some(GatewayKind::Cmts)) => {
            let done = CableSettings::default().set(key, value);
            done.map_err(|error| Wrong::new(error.to_string(), "see weir bench cmts-imix --print for the keys"))
        }
        (_, None) => Err(Wrong::new(format!("unknown key `{key}`"), "an experiment without a gateway has no [set]")),
    }
}

/// A number of sessions.
pub fn sessions(value: &str) -> Result<u32, Wrong> {
    let read = quantity::count(value).filter(|count| (4..=4_000_000).contains(count));
    let wrong = || Wrong::new(format!("\"{value}\" is invalid for sessions"), "allowed: 4 to 4000000");
    read.and_then(|count| u32::try_from(count).ok()).ok_or_else(wrong)
}

/// Checks a key of `[[vary]]` with all its values.
///
/// # Errors
/// No such key, or an invalid value.
pub fn vary(of: &Experiment, key: &str, values: &[String]) -> Result<(), Wrong> {
    if values.is_empty() {
        return Err(Wrong::new(format!("{key} has no values"), "a value, or a list such as [1, 2, 4]"));
    }
    let all = expand(key, values)?;
    all.iter().try_for_each(|value| one(of, key, value))
}

fn one(of: &Experiment, key: &str, value: &str) -> Result<(), Wrong> {
    let word = |allowed: &[&str]| match allowed.contains(&value) {
        true => Ok(()),
        false => {
            Err(Wrong::new(format!("\"{value}\" is invalid for {key}"), format!("allowed: {}", allowed.join(", "))))
        }
    };
    let unknown = |allowed: &str| Err(Wrong::new(format!("unknown key `{key}`"), format!("allowed: {allowed}")));
    match of.measure {
        Measure::Workload => match (key, of.gateway) {
            ("workers", _) => number(key, value).map(drop),
            ("instances", Some(GatewayKind::Upf | GatewayKind::Bng)) => number(key, value).map(drop),
            ("port", _) => port(value).map(drop),
            ("pps", Some(GatewayKind::Upf | GatewayKind::Bng)) => pps(value).map(drop),
            _ => set(of, key, value).map_err(|wrong| match of.gateway {
                Some(GatewayKind::Cmts) | None => wrong,
                _ if wrong.help.starts_with("allowed: ") && wrong.what.starts_with("unknown") => {
                    Wrong { help: format!("{}, workers, instances, port, pps", wrong.help), ..wrong }
                }
                _ => wrong,
            }),
        },
        Measure::ForwardPps => match key {
            "task" => word(&["receive", "transmit", "forward"]),
            "flow_key" => word(&["5-tuple", "3-tuple"]),
            "queues" => number(key, value).map(drop),
            "flows" => ranged(key, value, 1, 60_000).map(drop),
            "frame_bytes" => ranged(key, value, 64, 1518).map(drop),
            _ => unknown("task, queues, flows, flow_key, frame_bytes"),
        },
        Measure::Telemetry => match key {
            "observer" => word(&["none", "top", "metrics"]),
            "place" => word(&["idle-cpu", "worker-cpu"]),
            "interval_ms" => ranged(key, value, 1, 60_000).map(drop),
            _ => unknown("observer, place, interval_ms"),
        },
        Measure::ControlPlane => match key {
            "control_planes" | "gateways" => number(key, value).map(drop),
            _ => unknown("control_planes, gateways"),
        },
        Measure::LatencyLocation => match key {
            "hops" => ranged(key, value, 0, 8).map(drop),
            _ => unknown("hops"),
        },
    }
}

/// A kind of port.
pub fn port(value: &str) -> Result<PortKind, Wrong> {
    let help = "allowed: memory, plain, mmsg, ring, xdp, dpdk";
    value.parse().map_err(|_| Wrong::new(format!("\"{value}\" is invalid for port"), help))
}

/// Packets offered a second.
pub fn pps(value: &str) -> Result<f64, Wrong> {
    let read = quantity::count(value).filter(|count| *count > 0);
    let wrong = || Wrong::new(format!("\"{value}\" is invalid for pps"), "allowed: packets a second, such as 250k");
    read.map(|count| count as f64).ok_or_else(wrong)
}

/// A number of workers, gateways, queues.
pub fn number(key: &str, value: &str) -> Result<u16, Wrong> {
    ranged(key, value, 1, u64::from(MOST)).map(|count| count as u16) // at most 256
}

fn ranged(key: &str, value: &str, least: u64, most: u64) -> Result<u64, Wrong> {
    let read = quantity::count(value).filter(|count| (least..=most).contains(count));
    read.ok_or_else(|| Wrong::new(format!("\"{value}\" is invalid for {key}"), format!("allowed: {least} to {most}")))
}

/// Values as they are written in full: `1..4` is 1, 2, 3, 4, and `cpus` the number of CPUs of this machine.
///
/// # Errors
/// A range that is none.
pub fn expand(key: &str, values: &[String]) -> Result<Vec<String>, Wrong> {
    let cpus = cpus().len().to_string();
    let mut all = Vec::new();
    for value in values {
        let text = value.replace("cpus", &cpus);
        let Some((first, last)) = text.split_once("..") else {
            all.push(text);
            continue;
        };
        let wrong = || Wrong::new(format!("\"{value}\" is invalid for {key}"), "a range is written as 1..4 or 1..cpus");
        let read = |word: &str| word.trim().parse::<u16>().map_err(|_| wrong());
        let (first, last) = (read(first)?, read(last)?);
        if first > last || last > MOST {
            return Err(wrong());
        }
        all.extend((first..=last).map(|n| n.to_string()));
    }
    all.dedup();
    Ok(all)
}
