//! A case as a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Case, Counters, Outcome, Step};
use crate::pcap::{self, Seen};

/// Where a case lies.
pub struct Folder {
    path: PathBuf,
}

/// What a folder says.
pub struct Read {
    /// The line of description.
    pub text: String,
    /// The gateway's configuration.
    pub config: toml::Table,
    /// What control does.
    pub steps: Vec<Step>,
    /// How long it lasts.
    pub until: u64,
    /// What comes in.
    pub inputs: BTreeMap<String, Vec<Seen>>,
    /// What left when it was blessed.
    pub outputs: BTreeMap<String, Vec<Seen>>,
    /// What moved when it was blessed.
    pub counters: Counters,
}

const IN: &str = ".in.pcap";
const OUT: &str = ".out.pcap";

impl Folder {
    /// The folder of a case of that name.
    pub fn of(root: &Path, name: &str) -> Self {
        Self { path: root.join(name) }
    }

    /// All cases under `root`, by name.
    pub fn all(root: &Path) -> Vec<String> {
        let folders = |path: &Path| -> Vec<PathBuf> {
            let list = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
            list.filter(|path| path.is_dir()).collect()
        };
        let name = |path: &Path| Some(path.strip_prefix(root).ok()?.to_str()?.to_owned());
        let cases = folders(root).into_iter().flat_map(|group| folders(&group));
        let mut names: Vec<String> = cases.filter_map(|path| name(&path)).collect();
        names.sort();
        names
    }

    /// Reads it.
    ///
    /// # Errors
    /// What could not be read.
    pub fn read(&self) -> Result<Read, String> {
        let text = |name: &str| fs::read_to_string(self.path.join(name)).map_err(|error| format!("{name}: {error}"));
        let mut case: toml::Table = text("case.toml")?.parse().map_err(|error| format!("case.toml: {error}"))?;
        let take = |case: &mut toml::Table, key: &str| case.remove(key).ok_or(format!("case.toml: no {key}"));
        let toml::Value::Table(config) = take(&mut case, "config")? else { return Err("config is no table".into()) };
        let toml::Value::String(text_line) = take(&mut case, "description")? else {
            return Err("description is no text".into());
        };
        let time = |value: toml::Value| value.as_integer().and_then(|ns| u64::try_from(ns).ok());
        let until = time(take(&mut case, "until_ns")?).ok_or("until_ns is no time")?;
        let mut steps = Vec::new();
        for step in case.remove("step").and_then(|s| s.as_array().cloned()).unwrap_or_default() {
            let toml::Value::Table(mut what) = step else { return Err("a step is no table".into()) };
            let at = what.remove("at_ns").and_then(time).ok_or("a step without at_ns")?;
            steps.push(Step { at, what });
        }
        Ok(Read {
            text: text_line,
            config,
            steps,
            until,
            inputs: self.captures(IN)?,
            outputs: self.captures(OUT)?,
            counters: serde_json::from_str(&text("counters.json")?).map_err(|e| format!("counters.json: {e}"))?,
        })
    }

    fn captures(&self, ending: &str) -> Result<BTreeMap<String, Vec<Seen>>, String> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.path).map_err(|error| error.to_string())?.flatten() {
            if let Some(port) = entry.file_name().to_str().and_then(|name| name.strip_suffix(ending)) {
                found.insert(port.to_owned(), pcap::read(&entry.path())?);
            }
        }
        Ok(found)
    }

    /// The files of packets that left, by port.
    pub fn output_files(&self) -> Vec<(String, PathBuf)> {
        let list = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let port = |path: &Path| Some(path.file_name()?.to_str()?.strip_suffix(OUT)?.to_owned());
        let mut files: Vec<_> = list.filter_map(|entry| port(&entry.path()).map(|port| (port, entry.path()))).collect();
        files.sort();
        files
    }

    /// Writes a case and what came of it.
    ///
    /// # Errors
    /// What could not be written.
    pub fn write(&self, case: &Case, outcome: &Outcome) -> Result<(), String> {
        let fail = |error: std::io::Error| error.to_string();
        if self.path.exists() {
            fs::remove_dir_all(&self.path).map_err(fail)?;
        }
        fs::create_dir_all(&self.path).map_err(fail)?;
        let mut table = toml::Table::new();
        let time = |ns: u64| toml::Value::Integer(i64::try_from(ns).expect("a case ends within 292 years"));
        table.insert("description".into(), case.text.clone().into());
        table.insert("until_ns".into(), time(case.until));
        if !case.steps.is_empty() {
            let step = |step: &Step| {
                let mut what = step.what.clone();
                what.insert("at_ns".into(), time(step.at));
                toml::Value::Table(what)
            };
            table.insert("step".into(), case.steps.iter().map(step).collect::<Vec<_>>().into());
        }
        table.insert("config".into(), case.config.clone().into());
        let text = toml::to_string_pretty(&table).map_err(|error| error.to_string())?;
        fs::write(self.path.join("case.toml"), text).map_err(fail)?;
        let json = serde_json::to_string_pretty(&outcome.counters).map_err(|error| error.to_string())?;
        fs::write(self.path.join("counters.json"), json + "\n").map_err(fail)?;
        for (ending, captures) in [(IN, &case.inputs), (OUT, &outcome.outputs)] {
            for (port, packets) in captures.iter().filter(|(_, packets)| !packets.is_empty()) {
                pcap::write(&self.path.join(format!("{port}{ending}")), packets).map_err(fail)?;
            }
        }
        Ok(())
    }
}
