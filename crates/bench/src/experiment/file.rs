//! The file of an experiment: what it holds, and what is checked before anything is measured.

use std::fmt;

use gateway::load::{LoadError, Text};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::effect::Place;
use super::keys;
use crate::options::PortKind;

/// A gateway whose workload is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GatewayKind {
    /// The mobile user plane.
    Upf,
    /// The broadband gateway.
    Bng,
    /// The cable gateway.
    Cmts,
}

impl GatewayKind {
    /// As files and results name it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Upf => "upf",
            Self::Bng => "bng",
            Self::Cmts => "cmts",
        }
    }
}

/// What an experiment measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// What a gateway forwards under its workload, and what a packet costs.
    #[default]
    Workload,
    /// What ports and workers receive, transmit and forward without a gateway.
    ForwardPps,
    /// The effect of reading a gateway's counters while it forwards.
    Telemetry,
    /// Sessions established a second, by control planes and by gateways.
    ControlPlane,
    /// Latency through a gateway, by the number of hops between it and the generator.
    LatencyLocation,
}

impl Measure {
    /// As files name it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::ForwardPps => "forward-pps",
            Self::Telemetry => "telemetry",
            Self::ControlPlane => "control-plane",
            Self::LatencyLocation => "latency-location",
        }
    }
}

/// An experiment as its file describes it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What it is called; results carry it as their profile.
    pub name: String,
    /// What it is, in one line.
    pub title: String,
    /// The publication it is made after: a name of the table of published figures.
    #[serde(default)]
    pub publication: Option<String>,
    /// The publication's conditions, in words.
    #[serde(default)]
    pub conditions: Option<String>,
    /// What differs here from the publication, a sentence each.
    #[serde(default)]
    pub differs: Vec<String>,
    /// Numbers of published figures that stand beside the result.
    #[serde(default)]
    pub figures: Vec<String>,
    /// The gateway; of a workload and what is measured beside one.
    #[serde(default)]
    pub gateway: Option<GatewayKind>,
    /// What is measured.
    #[serde(default)]
    pub measure: Measure,
    /// The workload's parameters, as `--set` names them.
    #[serde(default)]
    pub set: Assignments,
    /// What options are where the command line gives none.
    #[serde(default)]
    pub run: RunSpec,
    /// What is varied: every combination of a section's values is a point.
    #[serde(default)]
    pub vary: Vec<Axes>,
}

/// Options of the run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Kind of the ports: memory, plain, mmsg, ring, xdp; dpdk in builds that have it.
    pub port: Option<String>,
    /// Time measured at each point, in seconds.
    pub seconds: Option<f64>,
    /// Workers of a gateway, where they are not varied.
    pub workers: Option<u16>,
    /// Also points with more workers than this machine has CPUs for gateways; without, they are named as not run.
    #[serde(default)]
    pub share_cpus: bool,
    /// Machine type whose price the rates are divided by.
    pub machine: Option<String>,
    /// Price of the machine in US dollars an hour.
    pub usd_per_hour: Option<f64>,
}

/// Keys with one value each, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignments(pub Vec<(String, String)>);

/// Keys with one value or more each, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axes(pub Vec<(String, Vec<String>)>);

/// A text, a number, or true or false.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl Visitor<'_> for Read {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true or false")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar(value.to_string()))
            }
        }
        from.deserialize_any(Read)
    }
}

/// One value, or a list of them.
struct Values(Vec<String>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Values;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, or a list of values")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Values, E> {
                Ok(Values(vec![text.to_owned()]))
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Values, E> {
                Ok(Values(vec![value.to_string()]))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Values, E> {
                Ok(Values(vec![value.to_string()]))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Values, E> {
                Ok(Values(vec![value.to_string()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Values, A::Error> {
                let mut all = Vec::new();
                while let Some(Scalar(text)) = list.next_element()? {
                    all.push(text);
                }
                Ok(Values(all))
            }
        }
        from.deserialize_any(Read)
    }
}

/// Pairs of a section in the order of the file.
struct Pairs<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Read<V> {
            type Value = Pairs<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a section of keys and values")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
                let mut all = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    all.push(pair);
                }
                Ok(Pairs(all))
            }
        }
        from.deserialize_map(Read(std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Assignments {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Pairs(all) = Pairs::<Scalar>::deserialize(from)?;
        Ok(Self(all.into_iter().map(|(key, Scalar(text))| (key, text)).collect()))
    }
}

impl<'de> Deserialize<'de> for Axes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Pairs(all) = Pairs::<Values>::deserialize(from)?;
        Ok(Self(all.into_iter().map(|(key, Values(list))| (key, list)).collect()))
    }
}

impl Experiment {
    /// Reads a file's text and checks every key and value in it.
    ///
    /// # Errors
    /// [`LoadError`], pointing at the key.
    pub fn read(text: &Text) -> Result<Self, LoadError> {
        let read: Self = text.parse()?;
        read.check(text)?;
        Ok(read)
    }

    /// Whether a key of `[run]` changes anything of what is measured.
    pub(super) fn reads_run(&self, key: &str) -> bool {
        let is_one_of = |all: &[Measure]| all.contains(&self.measure);
        match key {
            "workers" => is_one_of(&[Measure::Workload, Measure::LatencyLocation]),
            "port" | "seconds" => self.measure != Measure::ControlPlane,
            // Packets a second by the price.
            "machine" | "usd_per_hour" => is_one_of(&[Measure::Workload, Measure::ForwardPps]),
            "share_cpus" => !is_one_of(&[Measure::Telemetry]),
            _ => false,
        }
    }

    fn check(&self, text: &Text) -> Result<(), LoadError> {
        let at = |path: &[&str], what: String, help: &str| {
            Err(text.at(&path.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(), what, help))
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || !self.name.chars().all(plain) {
            let help = "allowed: small letters, digits and hyphens, such as upf-128-mine";
            return at(&["name"], format!("the name \"{}\" is invalid", self.name), help);
        }
        let needs = matches!(self.measure, Measure::Workload | Measure::Telemetry | Measure::LatencyLocation);
        match (needs, self.gateway) {
            (true, None) => {
                return at(&["gateway"], "the gateway is missing".into(), "add gateway = \"upf\", bng or cmts");
            }
            (false, Some(_)) => {
                let what = format!("a gateway has no effect on measure = \"{}\"", self.measure.word());
                return at(&["gateway"], what, "leave the key out");
            }
            (true, Some(kind)) if self.measure != Measure::Workload && kind != GatewayKind::Upf => {
                let what = format!("measure = \"{}\" is not available for {}", self.measure.word(), kind.word());
                return at(&["gateway"], what, "allowed: upf");
            }
            _ => {}
        }
        let port = self.run.port.as_ref().and_then(|word| word.parse::<PortKind>().err());
        if let Some(error) = port {
            return at(&["run", "port"], error.to_string(), "allowed: memory, plain, mmsg, ring, xdp, dpdk");
        }
        if self.run.seconds.is_some_and(|seconds| !(0.02..=86_400.0).contains(&seconds)) {
            return at(&["run", "seconds"], "this time is invalid".into(), "allowed: 0.02 to 86400 seconds");
        }
        if self.run.usd_per_hour.is_some_and(|usd| !(usd > 0.0 && usd.is_finite())) {
            return at(
                &["run", "usd_per_hour"],
                "this price is invalid".into(),
                "allowed: US dollars an hour, above 0",
            );
        }
        let given = [
            ("workers", self.run.workers.is_some()),
            ("port", self.run.port.is_some()),
            ("seconds", self.run.seconds.is_some()),
            ("machine", self.run.machine.is_some()),
            ("usd_per_hour", self.run.usd_per_hour.is_some()),
            ("share_cpus", self.run.share_cpus),
        ];
        if let Some((key, _)) = given.iter().find(|(key, given)| *given && !self.reads_run(key)) {
            let gateway = self.gateway.map_or("", GatewayKind::word);
            let what = format!("{key} has no effect on measure = \"{}\" {gateway}", self.measure.word());
            return at(&["run", key], what.trim_end().to_owned(), "leave the key out");
        }
        for (key, value) in &self.set.0 {
            if let Err(wrong) = keys::set(self, key, value) {
                return at(&["set", key], wrong.what, &wrong.help);
            }
        }
        for (n, Axes(axes)) in self.vary.iter().enumerate() {
            for (key, values) in axes {
                if let Err(wrong) = keys::vary(self, key, values) {
                    return at(&["vary", &n.to_string(), key], wrong.what, &wrong.help);
                }
            }
        }
        match self.without_effect(|_| true) {
            None => Ok(()),
            Some((Place::Set(key), wrong)) => at(&["set", &key], wrong.what, &wrong.help),
            Some((Place::Vary(n, key), wrong)) => at(&["vary", &n.to_string(), &key], wrong.what, &wrong.help),
        }
    }
}
