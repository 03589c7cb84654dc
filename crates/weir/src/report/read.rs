//! Results out of files: whatever `weir bench --json` wrote, wherever in a document it is.

use ::bench::cmts::Difference;
use ::bench::experiment::ExperimentReport;
use ::bench::report::Report;
use ::bench::scale::Scale;
use ::bench::searching::SearchReport;
use serde_json::Value;

/// All results of some documents.
#[derive(Debug, Default)]
pub struct Results {
    /// Results of `weir bench PROFILE`.
    pub reports: Vec<Report>,
    /// Results of `weir bench PROFILE --search`.
    pub searches: Vec<SearchReport>,
    /// Results of `weir bench --workers` and `--instances`.
    pub scales: Vec<Scale>,
    /// Results of experiments that vary something.
    pub experiments: Vec<ExperimentReport>,
    /// What is not alike with the published measurement, by workload: each once.
    pub differences: Vec<(String, Difference)>,
    /// Documents of which nothing is shown, by file and kind.
    pub unread: Vec<String>,
}

impl Results {
    /// Takes over a file's documents.
    pub fn add(&mut self, file: &str, documents: &[Value]) {
        for document in documents {
            let before = self.count();
            self.walk(document);
            if self.count() == before {
                let profile = document.get("profile").and_then(Value::as_str).unwrap_or("no result of weir bench");
                self.unread.push(format!("{file}: {profile}"));
            }
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.reports.len() + self.searches.len() + self.scales.len() + self.experiments.len()
    }

    /// There is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn walk(&mut self, value: &Value) {
        let has = |key: &str| value.get(key).is_some();
        if has("search") && has("results") && has("trials") {
            self.searches.extend(serde_json::from_value::<SearchReport>(value.clone()).ok());
            return;
        }
        if has("axis") && has("rows") && has("results") {
            // Its reports are points of its curve.
            self.scales.extend(serde_json::from_value::<Scale>(value.clone()).ok());
            return;
        }
        if has("experiment") && has("rows") && has("not_run") {
            // Its reports are its points.
            self.experiments.extend(serde_json::from_value::<ExperimentReport>(value.clone()).ok());
            return;
        }
        if has("profile") && has("mpps") && has("cost") {
            self.reports.extend(serde_json::from_value::<Report>(value.clone()).ok());
            self.differ(value);
            return;
        }
        match value {
            Value::Array(all) => all.iter().for_each(|one| self.walk(one)),
            Value::Object(all) => all.values().for_each(|one| self.walk(one)),
            _ => {}
        }
    }

    /// Takes over what a result of the cable gateway says is not alike.
    fn differ(&mut self, value: &Value) {
        let profile = value.get("profile").and_then(Value::as_str).unwrap_or_default();
        let named = value.pointer("/cable/differences").cloned();
        let named: Vec<Difference> = named.and_then(|named| serde_json::from_value(named).ok()).unwrap_or_default();
        for difference in named {
            let row = (profile.to_owned(), difference);
            if !self.differences.contains(&row) {
                self.differences.push(row);
            }
        }
    }

    /// Every report: trials, those at a found rate, and those of scale-outs.
    pub fn every_report(&self) -> impl Iterator<Item = &Report> {
        let found = self.searches.iter().filter_map(|search| search.at_ndr.as_ref());
        let points = self
            .experiments
            .iter()
            .flat_map(|one| one.results.iter().chain(one.cable_results.iter().map(|cable| &cable.common)));
        self.reports.iter().chain(found).chain(self.scales.iter().flat_map(|scale| &scale.results)).chain(points)
    }
}

/// What a report is of, short: profile, port, workers where there are several, what an experiment varies.
pub fn name(report: &Report) -> String {
    let workers = if report.workers > 1 { format!(", {} workers", report.workers) } else { String::new() };
    let instances = if report.instances > 1 { format!(", {} instances", report.instances) } else { String::new() };
    let own = |key: &String| !["workers", "instances", "port"].contains(&key.as_str());
    let varied = report.varied.iter().filter(|(key, _)| own(key)).map(|(key, value)| format!(", {key}={value}"));
    format!("{} over {}{workers}{instances}{}", report.profile, report.port, varied.collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_found_wherever_they_are() {
        let report = serde_json::to_value(Report { profile: "fwa".into(), ..Report::default() }).unwrap();
        let search = SearchReport { at_ndr: Some(Report::default()), ..SearchReport::default() };
        let mut results = Results::default();
        results.add("suite.json", &[json!({ "results": [report, report], "verdicts": [] })]);
        results.add("search.json", &[serde_json::to_value(search).unwrap()]);
        let experiment = ExperimentReport { results: vec![Report::default()], ..ExperimentReport::default() };
        results.add("experiment.json", &[serde_json::to_value(experiment).unwrap()]);
        results.add("real.json", &[json!({ "profile": "real", "cells": [] })]);
        assert_eq!((results.reports.len(), results.searches.len(), results.every_report().count()), (2, 1, 4));
        assert_eq!(results.experiments.len(), 1);
        assert_eq!(results.unread, ["real.json: real"]);
    }
}
