//! What an experiment found, point by point, and its table.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::points::{NotRun, Point};
use super::{Axes, Experiment};
use crate::cmts::CableReport;
use crate::host::{Host, date};
use crate::noise::Noise;
use crate::report::{Report, VERSION};
use crate::text::{Table, count};
use crate::window::median;

/// The result of an experiment with several points.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ExperimentReport {
    /// Version of these keys.
    pub schema: u32,
    /// Name of the experiment.
    pub experiment: String,
    /// What it is, in one line.
    pub title: String,
    /// What was measured: `workload`, `forward-pps`, `telemetry`, `control-plane`, `latency-location`.
    pub measure: String,
    /// The publication it is made after; empty: none.
    pub publication: String,
    /// The publication's conditions.
    pub conditions: String,
    /// What differs here from the publication.
    pub differs: Vec<String>,
    /// Numbers of published figures to stand beside it.
    pub figures: Vec<String>,
    /// Kind of the ports, where it is not varied.
    pub port: String,
    /// Time measured at each point, in seconds.
    pub seconds: f64,
    /// Keys that are varied, in the order of the file.
    pub axes: Vec<String>,
    /// A row for each point, in the order of the file.
    pub rows: Vec<Row>,
    /// Points that this machine did not run.
    pub not_run: Vec<NotRun>,
    /// US dollars an hour that rates are divided by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_hour: Option<f64>,
    /// What a reader has to know.
    pub notes: Vec<String>,
    /// The whole results of a user plane or broadband gateway, a point each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Report>,
    /// The whole results of a cable gateway, a point each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cable_results: Vec<CableReport>,
    /// The machine that it ran on, and what that was kept from doing.
    pub host: Host,
    /// When it began, in UTC (ISO 8601).
    pub date: String,
    /// Version of the weir that measured.
    pub version: String,
}

/// What one point found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// What was varied, by key.
    pub values: BTreeMap<String, String>,
    /// What was measured, by names with units: `mpps`, `gbps_l2`. `times_one`: the rate by that of the point with the
    /// fewest workers, gateways or groups and the same other values, in the same rounds. `…_each`: of a worker, queue or
    /// service group. `instance_…`, `cpu_ratio`: of single gateways, the mean with the smallest and the largest.
    /// `effect_ratio`: the change of the rate by an observer, with its 95 % confidence interval.
    pub metrics: BTreeMap<String, Measured>,
    /// What disturbed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
}

/// A figure with its range: over windows of the measurement, or over gateways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// The figure: a median over windows, a mean over gateways.
    pub value: f64,
    /// The smallest sample behind the value.
    pub low: f64,
    /// The largest sample behind the value.
    pub high: f64,
}

impl Measured {
    /// A figure without a range.
    pub fn exactly(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// The median of windows with their range.
    pub fn median(samples: impl IntoIterator<Item = f64>) -> Self {
        let samples: Vec<f64> = samples.into_iter().filter(|value| value.is_finite()).collect();
        Self { value: median(samples.iter().copied()), ..Self::range(&samples) }
    }

    /// The mean of gateways with their range.
    pub fn mean(samples: &[f64]) -> Self {
        Self { value: samples.iter().sum::<f64>() / samples.len().max(1) as f64, ..Self::range(samples) }
    }

    fn range(samples: &[f64]) -> Self {
        if samples.is_empty() {
            return Self::default();
        }
        let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
        let high = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { value: 0.0, low, high }
    }
}

impl Row {
    /// Of a point, with nothing measured yet.
    pub fn of(point: &Point) -> Self {
        Self { values: point.values.iter().cloned().collect(), ..Self::default() }
    }

    /// Adds a figure.
    pub fn put(&mut self, name: &str, measured: Measured) {
        self.metrics.insert(name.to_owned(), measured);
    }

    /// A figure's middle; 0 where there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.metrics.get(name).map_or(0.0, |measured| measured.value)
    }
}

/// How a figure is shown: its name, the column's head, decimals, what it is multiplied by, whether with its range.
pub struct Column {
    /// The figure's name in [`Row::metrics`].
    pub name: &'static str,
    /// Head of the column.
    pub head: &'static str,
    decimals: usize,
    scale: f64,
    with_range: bool,
}

const fn column(name: &'static str, head: &'static str, decimals: usize) -> Column {
    Column { name, head, decimals, scale: 1.0, with_range: false }
}

const fn ranged(name: &'static str, head: &'static str, decimals: usize, scale: f64) -> Column {
    Column { name, head, decimals, scale, with_range: true }
}

/// Figures in the order of their columns.
pub const COLUMNS: &[Column] = &[
    column("mpps", "Mpps", 3),
    column("gbps_l2", "Gbit/s", 2),
    column("sessions_per_second", "sessions/s", 0),
    column("times_one", "× one", 2),
    column("mpps_each", "Mpps each", 3),
    column("gbps_each", "Gbit/s each", 2),
    column("sessions_each", "sessions/s each", 0),
    ranged("cpu_ratio", "CPU %, least mean most", 0, 100.0),
    ranged("instance_mpps", "Mpps an instance", 3, 1.0),
    ranged("instance_gbps_l2", "Gbit/s an instance", 2, 1.0),
    column("tc_ns", "Tc ns", 1),
    column("tp_ns", "Tp ns", 1),
    column("cycles_per_packet", "cycles", 0),
    column("sent_mpps", "sent, Mpps", 3),
    ranged("effect_ratio", "effect %: 95 % interval around mean", 2, 100.0),
    column("readings", "readings", 0),
    column("watts", "W", 1),
    column("microjoules_per_packet", "µJ a packet", 2),
    column("offered_mpps", "offered, Mpps", 4),
    column("uplink_p50_us", "up p50 µs", 1),
    column("uplink_p99_us", "up p99 µs", 1),
    column("downlink_p50_us", "down p50 µs", 1),
    column("downlink_p99_us", "down p99 µs", 1),
    column("max_us", "max µs", 0),
    column("loss_ratio", "lost", 5),
    column("response_p50_ms", "p50 ms", 3),
    column("response_p99_ms", "p99 ms", 3),
    column("mpps_per_usd_hour", "Mpps a $/h", 2),
];

impl Column {
    /// A figure as it stands in its column.
    pub fn cell(&self, measured: Option<&Measured>) -> String {
        let Some(Measured { value, low, high }) = measured.copied() else { return String::new() };
        let number = |value: f64| match self.decimals {
            0 if value.abs() >= 1000.0 => count((value * self.scale).round() as u64),
            decimals => format!("{:.decimals$}", value * self.scale),
        };
        let has_range = self.with_range && number(low) != number(high);
        if has_range { [low, value, high].map(number).join(" ") } else { number(value) }
    }
}

impl ExperimentReport {
    /// What stands in every result of an experiment.
    pub fn of(experiment: &Experiment) -> Self {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_owned();
        let mut axes: Vec<String> = Vec::new();
        for (key, _) in experiment.vary.iter().flat_map(|Axes(keys)| keys) {
            if !axes.contains(key) {
                axes.push(key.clone());
            }
        }
        Self {
            axes,
            schema: 1,
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            measure: experiment.measure.word().to_owned(),
            publication: text(&experiment.publication),
            conditions: text(&experiment.conditions),
            differs: experiment.differs.clone(),
            figures: experiment.figures.clone(),
            host: Host::this(),
            date: date(),
            version: VERSION.to_owned(),
            ..Self::default()
        }
    }

    /// Columns that have a figure in some row.
    pub fn columns(&self) -> Vec<&'static Column> {
        COLUMNS.iter().filter(|column| self.rows.iter().any(|row| row.metrics.contains_key(column.name))).collect()
    }

    /// The table, and what belongs to it.
    pub fn text(&self) -> String {
        let port = if self.port.is_empty() { String::new() } else { format!(", over {}", self.port) };
        let seconds = if self.seconds > 0.0 { format!(", {:.1} s a point", self.seconds) } else { String::new() };
        let mut out = format!("{}: {}{port}{seconds}\n", self.experiment, self.title);
        if !self.publication.is_empty() {
            out += &format!("  after {}: {}\n", self.publication, self.conditions.replace('\n', "\n  "));
        }
        out.push('\n');
        let (axes, columns) = (&self.axes, self.columns());
        let heads: Vec<&str> =
            axes.iter().map(String::as_str).chain(columns.iter().map(|column| column.head)).collect();
        let mut table = Table::new(&heads);
        for row in &self.rows {
            let values = axes.iter().map(|key| row.values.get(key).cloned().unwrap_or_default());
            let cells = columns.iter().map(|column| column.cell(row.metrics.get(column.name)));
            table.row(values.chain(cells));
        }
        out += &table.text();
        for line in self.not_run() {
            out += &format!("\n  not run: {line}");
        }
        for note in &self.notes {
            out += &format!("\n  {note}");
        }
        for differs in &self.differs {
            out += &format!("\n  differs: {differs}");
        }
        if let Some(usd) = self.usd_per_hour {
            out += &format!("\n  price: {usd} $ an hour");
        }
        let Host { cpu, kernel, cores, steal_ratio, .. } = &self.host;
        out += &format!("\n  {cpu}, Linux {kernel}, {cores} CPUs, stolen {:.1} %\n", steal_ratio * 100.0);
        out
    }

    /// Points that were not run, a line for each reason.
    pub fn not_run(&self) -> Vec<String> {
        let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
        for NotRun { what, why } in &self.not_run {
            match by_reason.iter_mut().find(|(known, _)| known == why) {
                Some((_, points)) => points.push(what),
                None => by_reason.push((why, vec![what])),
            }
        }
        by_reason.into_iter().map(|(why, points)| format!("{}: {why}", points.join("; "))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_figures_that_there_are() {
        let mut one = Row { values: [("workers".to_owned(), "1".to_owned())].into(), ..Row::default() };
        one.put("mpps", Measured::exactly(2.5));
        one.put("cpu_ratio", Measured::mean(&[0.5, 0.7]));
        let mut two = Row { values: [("workers".to_owned(), "2".to_owned())].into(), ..Row::default() };
        two.put("mpps", Measured::median([4.0, 5.0, 9.0]));
        let not_run = vec![NotRun { what: "workers=4".into(), why: "this machine has 2".into() }];
        let axes = vec!["workers".to_owned()];
        let report = ExperimentReport { axes, rows: vec![one, two], not_run, ..ExperimentReport::default() };
        let text = report.text();
        let lines: Vec<String> = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert!(lines.contains(&"workers Mpps CPU %, least mean most".to_owned()), "{text}");
        assert!(lines.contains(&"1 2.500 50 60 70".to_owned()) && lines.contains(&"2 5.000".to_owned()), "{text}");
        assert!(text.contains("not run: workers=4: this machine has 2"), "{text}");
    }

    #[test]
    fn medians_and_means_have_ranges() {
        assert_eq!(Measured::median([3.0, 1.0, 2.0]), Measured { value: 2.0, low: 1.0, high: 3.0 });
        assert_eq!(Measured::mean(&[1.0, 2.0]), Measured { value: 1.5, low: 1.0, high: 2.0 });
        assert_eq!(Measured::mean(&[]), Measured::default());
    }
}
