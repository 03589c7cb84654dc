//! Experiments: published ones as files that people copy and change, and what runs them.
//!
//! | file | content |
//! |---|---|
//! | `file` | the file's keys, and their checks |
//! | `effect` | keys that have no effect beside others |
//! | `keys` | keys of `[set]` and `[[vary]]`: which there are, what they take |
//! | `points` | points that are varied, and which of them this machine can run |
//! | `sweep` | gateways at those points, measured in turns |
//! | `report` | the result, and its table |
//! | `pps` | receive, transmit and forward without a gateway |
//! | `telemetry` | counters read while a gateway forwards |
//! | `control_plane` | sessions established a second |
//! | `location` | latency by the hops between generator and gateway |

mod control_plane;
mod effect;
mod file;
mod keys;
mod location;
mod points;
mod pps;
mod report;
mod sweep;
mod telemetry;

use std::path::Path;

use gateway::load::{LoadError, Text};
use schemars::JsonSchema;
use serde::Serialize;

pub use effect::Place;
pub use file::{Assignments, Axes, Experiment, GatewayKind, Measure, RunSpec};
pub use keys::{Wrong, expand};
pub use points::{NotRun, Point};
pub use report::{COLUMNS, Column, ExperimentReport, Measured, Row};
pub(crate) use sweep::Steps;
pub use sweep::{ExperimentOptions, Progress, run};

use crate::bng;
use crate::cmts::CableSettings;
use crate::error::BenchError;
use crate::profiles::{SettingError, Settings};

macro_rules! built_in {
    ($($name:literal),+ $(,)?) => {
        /// Name and text of each file, as they are printed for copying.
        const BUILT_IN: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../experiments/", $name, ".toml")))),+];
    };
}

built_in![
    "upf-128",
    "upf-io",
    "upf-scale-up",
    "upf-scale-out",
    "upf-devices",
    "upf-sizes",
    "upf-embb",
    "vepc-embb",
    "vepc-ratios",
    "fwa",
    "fwa-full",
    "packet-core",
    "cmts-imix",
    "cmts-sizes",
    "cmts-groups",
    "cmts-channels",
    "bng-600g",
    "bng-subscribers",
    "bng-scale-up",
    "forward-pps",
    "latency-location",
    "telemetry",
    "control-plane",
    "power",
];

/// Names of the built-in experiments.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// The text of a built-in experiment's file.
pub fn text(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A built-in experiment.
pub fn named(name: &str) -> Option<Experiment> {
    let text = Text { name: format!("{name}.toml"), text: text(name)?.to_owned() };
    Experiment::read(&text).ok()
}

/// Reads the experiment in a file.
///
/// # Errors
/// [`LoadError`], pointing at the key.
pub fn read(path: &Path) -> Result<Experiment, LoadError> {
    Experiment::read(&Text::read(path)?)
}

/// What `weir bench --list` shows of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// What `weir bench NAME` runs it by.
    pub name: String,
    /// The publication it is made after; empty: none.
    pub publication: String,
    /// What it is.
    pub title: String,
    /// What is measured.
    pub measure: Measure,
    /// Keys that it varies; none: one trial.
    pub varies: Vec<String>,
}

/// All built-in experiments.
pub fn list() -> Vec<Listed> {
    let listed = |experiment: Experiment| {
        let keys = experiment.vary.iter().flat_map(|Axes(axes)| axes.iter());
        let mut varies: Vec<String> = Vec::new();
        // A key with one value is a condition.
        for (key, _) in keys.filter(|(key, values)| values.len() > 1 || values[0].contains("..") || key == "observer") {
            if !varies.contains(key) {
                varies.push(key.clone());
            }
        }
        let Experiment { name, title, publication, measure, .. } = experiment;
        Listed { name, title, publication: publication.unwrap_or_default(), measure, varies }
    };
    names().filter_map(named).map(listed).collect()
}

impl Experiment {
    /// Sets a parameter of the workload. Where something is varied, also `machine`, `usd_per_hour` and `share_cpus` of
    /// the run.
    ///
    /// # Errors
    /// No such key, or an invalid value.
    pub fn assign(&mut self, key: &str, value: &str) -> Result<(), Wrong> {
        let wrong = |help: &str| Wrong { what: format!("\"{value}\" is invalid for {key}"), help: help.to_owned() };
        let is_of_run = matches!(key, "machine" | "usd_per_hour" | "share_cpus");
        if is_of_run && !self.vary.is_empty() && self.reads_run(key) {
            match key {
                "machine" => self.run.machine = Some(value.to_owned()),
                "usd_per_hour" => {
                    let price = value.parse::<f64>().ok().filter(|usd| *usd > 0.0 && usd.is_finite());
                    self.run.usd_per_hour = Some(price.ok_or_else(|| wrong("allowed: US dollars an hour, above 0"))?);
                }
                _ => self.run.share_cpus = value.parse().map_err(|_| wrong("allowed: true or false"))?,
            }
            return Ok(());
        }
        keys::set(self, key, value)?;
        let Assignments(all) = &mut self.set;
        all.retain(|(known, _)| known != key);
        all.push((key.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Varies keys instead of what the file varies: every combination of their values.
    ///
    /// # Errors
    /// No such key, or an invalid value.
    pub fn vary_instead(&mut self, axes: Vec<(String, Vec<String>)>) -> Result<(), Wrong> {
        axes.iter().try_for_each(|(key, values)| keys::vary(self, key, values))?;
        self.vary = vec![Axes(axes)];
        Ok(())
    }

    /// The workload of a user plane.
    ///
    /// # Errors
    /// None of a file that was read.
    pub fn mobile(&self) -> Result<Settings, SettingError> {
        let mut settings = Settings { profile: self.name.clone(), ..Settings::default() };
        self.set.0.iter().try_for_each(|(key, value)| settings.set(key, value))?;
        Ok(settings)
    }

    /// The workload of a broadband gateway.
    ///
    /// # Errors
    /// None of a file that was read.
    pub fn broadband(&self) -> Result<bng::Settings, SettingError> {
        let mut settings = bng::Settings { profile: self.name.clone(), ..bng::Settings::default() };
        self.set.0.iter().try_for_each(|(key, value)| settings.set(key, value))?;
        Ok(settings)
    }

    /// The workload of a cable gateway.
    ///
    /// # Errors
    /// None of a file that was read.
    pub fn cable(&self) -> Result<CableSettings, BenchError> {
        let mut settings = CableSettings::default();
        self.set.0.iter().try_for_each(|(key, value)| settings.set(key, value))?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Experiment, LoadError> {
        Experiment::read(&Text { name: "mine.toml".into(), text: text.to_owned() })
    }

    #[test]
    fn every_file_is_valid_and_complete() {
        for (name, text) in BUILT_IN {
            let text = Text { name: format!("{name}.toml"), text: (*text).to_owned() };
            let read = Experiment::read(&text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((&read.name, read.title.is_empty()), (&(*name).to_owned(), false));
            assert!(text.text.starts_with("# "), "{name} begins with a comment");
            let keys: Vec<&str> = read.set.0.iter().map(|(key, _)| key.as_str()).collect();
            let all: Vec<&str> = match read.gateway {
                Some(GatewayKind::Upf) => crate::profiles::KEYS.to_vec(),
                Some(GatewayKind::Bng) => bng::KEYS.to_vec(),
                _ => continue,
            };
            assert!(all.iter().all(|key| keys.contains(key)), "{name} has all of {all:?}: {keys:?}");
        }
    }

    /// The numbers that these workloads had before they were files.
    #[test]
    fn workloads_have_their_numbers() {
        use traffic::{Ratio, Sizes};
        let upf_128 = Settings {
            profile: "upf-128".into(),
            ues: 1000,
            bearers: 1,
            flows: 1,
            gnbs: 8,
            servers: 16,
            sizes: Sizes::Fixed(128),
            ratio: Ratio { up: 1.0, down: 1.0 },
            new_flows: 0.0,
            functions: true,
            session_rate: false,
            acl: false,
            lte: false,
            services: false,
            ipv6_share: 0.0,
            ipv6_transport: false,
        };
        let mix = Sizes::mix(&[(64, 1), (128, 1), (256, 1), (512, 1), (1024, 1), (1400, 1)]);
        let upf_embb = Settings {
            profile: "upf-embb".into(),
            ues: 100_000,
            bearers: 2,
            flows: 4,
            gnbs: 100,
            servers: 64,
            sizes: mix,
            session_rate: true,
            ..upf_128.clone()
        };
        let vepc = Settings { profile: "vepc-embb".into(), acl: true, lte: true, ..upf_embb.clone() };
        let full = Settings {
            profile: "fwa-full".into(),
            ues: 120_000,
            bearers: 1,
            flows: 2,
            acl: true,
            services: true,
            ..upf_embb.clone()
        };
        // As published: without charging, QoS and access lists.
        let fwa = Settings {
            profile: "fwa".into(),
            functions: false,
            session_rate: false,
            acl: false,
            services: false,
            ..full.clone()
        };
        for settings in [upf_128, upf_embb, vepc, full, fwa] {
            assert_eq!(Settings::named(&settings.profile), Some(settings));
        }
        assert_eq!(named("bng-600g").unwrap().broadband(), Ok(bng::Settings::default()));
        let (read, default) = (named("cmts-imix").unwrap().cable().unwrap(), CableSettings::default());
        assert_eq!(read.text(["a", "b"]), default.text(["a", "b"]));
        assert_eq!((read.upstream, read.size, read.channels), (default.upstream, default.size, default.channels));
    }

    #[test]
    fn errors_point_at_the_key() {
        let upf = "name = \"mine\"\ntitle = \"x\"\ngateway = \"upf\"\n";
        for (text, key, line, says) in [
            ("title = \"x\"".to_owned(), "", 0, "the key `name` is missing"),
            ("name = \"A b\"\ntitle = \"x\"\ngateway = \"upf\"".to_owned(), "name", 1, "name \"A b\" is invalid"),
            ("name = \"a\"\ntitle = \"x\"\nport = 1".to_owned(), "port", 3, "unknown key `port`"),
            ("name = \"a\"\ntitle = \"x\"".to_owned(), "gateway", 0, "the gateway is missing"),
            (format!("{upf}[set]\nues = 10\nuse = 10\n"), "set.use", 6, "unknown key `use`"),
            (format!("{upf}[set]\nues = \"many\"\n"), "set.ues", 5, "\"many\" is invalid for ues"),
            (format!("{upf}[run]\nport = \"pigeon\"\n"), "run.port", 5, "pigeon"),
            (format!("{upf}measure = \"telemetry\"\n[run]\nworkers = 2\n"), "run.workers", 6, "workers has no effect"),
            (format!("{upf}[run]\nseconds = 0\n"), "run.seconds", 5, "this time is invalid"),
            (format!("{upf}[[vary]]\nworkers = [1, 0]\n"), "vary.0.workers", 5, "\"0\" is invalid for workers"),
            (format!("{upf}[[vary]]\nworkers = \"4..2\"\n"), "vary.0.workers", 5, "\"4..2\" is invalid"),
            (format!("{upf}[[vary]]\nqueues = 1\n"), "vary.0.queues", 5, "unknown key `queues`"),
            (format!("{upf}[[vary]]\nworkers = []\n"), "vary.0.workers", 5, "workers has no values"),
        ] {
            let Err(LoadError::Wrong(wrong)) = read(&text) else { panic!("{text}") };
            assert!(wrong.what.contains(says), "{text}: {}", wrong.what);
            assert!(wrong.help.is_some(), "{text} has help");
            if line > 0 {
                assert_eq!((wrong.key.as_str(), wrong.line()), (key, line), "{text}");
            }
        }
    }

    #[test]
    fn the_command_line_changes_an_experiment() {
        let mut of = named("upf-embb").unwrap();
        of.assign("ues", "50k").unwrap();
        assert_eq!(of.mobile().unwrap().ues, 50_000);
        assert!(of.assign("machine", "c5n.large").unwrap_err().what.contains("unknown key"), "nothing is varied");
        of.vary_instead(vec![("ratio".into(), vec!["1:1".into(), "1:9".into()])]).unwrap();
        of.assign("usd_per_hour", "0.5").unwrap();
        assert_eq!((points::all(&of).unwrap().len(), of.run.usd_per_hour), (2, Some(0.5)));
        assert!(of.assign("usd_per_hour", "-1").is_err() && of.assign("share_cpus", "maybe").is_err());
        let wrong = of.vary_instead(vec![("rate".into(), vec!["1".into()])]).unwrap_err();
        assert!(wrong.help.contains("ratio") && wrong.help.contains("workers"), "{wrong:?}");
    }

    #[test]
    fn every_experiment_is_listed() {
        let listed = list();
        assert_eq!(listed.len(), BUILT_IN.len());
        let of = |name: &str| listed.iter().find(|one| one.name == name).unwrap();
        assert_eq!((of("upf-128").varies.len(), of("packet-core").varies.join(" ")), (0, "instances".to_owned()));
        assert_eq!(of("forward-pps").varies, ["task", "queues", "flows", "flow_key", "frame_bytes"]);
    }
}
