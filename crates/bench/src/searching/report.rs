//! What searches on a gateway found. Its keys are a contract: add freely, rename none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::host::Host;
use crate::noise::Noise;
use crate::report::Report;
use crate::search::mlr::{Found, Searched};
use crate::search::rfc2544::{BackToBack, LatencyAt, LossAt};
use crate::search::spread::{Equal, Spread};
use crate::search::{Goal, Record};
use crate::text::{Table, count, micros, rate};
use crate::window::Closing;

/// What searches found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SearchReport {
    /// Version of these keys.
    pub schema: u32,
    /// The workload's name, as on the command line.
    pub profile: String,
    /// The gateway's kind.
    pub gateway: String,
    /// The ports' kind, as in other results.
    pub port: String,
    /// Workers of the gateway.
    pub workers: u16,
    /// What was looked for.
    pub search: Searching,
    /// Rates by goal and frame size.
    pub results: Vec<At<Found>>,
    /// Latency at parts of the rate found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latency: Vec<At<LatencyAt>>,
    /// Loss by load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loss_curve: Vec<At<LossAt>>,
    /// Longest bursts without loss.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub back_to_back: Vec<At<BackToBack>>,
    /// Equal trials at the rate found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub determinism: Vec<At<Equal>>,
    /// Equal trials for long, at nine tenths of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub soak: Vec<At<Equal>>,
    /// Every trial of all searches, in the order they were made.
    pub trials: Vec<At<Record>>,
    /// The whole report at the first rate that was found, with costs by stage.
    pub at_ndr: Option<Report>,
    /// Sizes that were not measured, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// What a reader of these figures has to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What disturbed trials. Those that were repeated count too; `spread_ratio` is 0, since loads differ.
    pub noise: Noise,
    /// Slots of packet memory that did not come back.
    pub frames_lost: i64,
    /// Packets that went in and neither came out nor were named.
    pub packets_missing: i64,
    /// The machine it ran on, and how busy that was.
    pub host: Host,
    /// The day of the run, UTC: `2026-11-26`.
    pub date: String,
    /// The version of weir that measured.
    pub version: String,
}

/// What was looked for, and how long it took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Searching {
    /// The searches that were asked for, by their words.
    pub kinds: Vec<String>,
    /// Goals of rates.
    pub goals: Vec<Goal>,
    /// Seconds of a trial.
    pub trial_seconds: f64,
    /// Seconds that all trials took.
    pub elapsed_seconds: f64,
    /// Disturbed trials that were repeated.
    pub repeated_trials: u32,
    /// Why it ended early; absent: it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// Something that was found with frames of a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct At<T> {
    /// Bytes of the frames with FCS; absent: the workload's own sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u16>,
    /// What was found for frames of that size.
    #[serde(flatten)]
    pub found: T,
}

/// A size that was not measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Bytes of the frames with FCS.
    pub frame_bytes: u16,
    /// Why this size was not measured.
    pub why: String,
}

impl SearchReport {
    /// Takes over rates.
    pub(super) fn found(&mut self, size: Option<u16>, searched: Searched) {
        self.search.ended = self.search.ended.take().or(searched.ended);
        self.results.extend(searched.found.into_iter().map(|found| At { frame_bytes: size, found }));
    }

    /// A size that cannot be measured is named; without a size nothing can be.
    pub(super) fn skip(&mut self, size: Option<u16>, error: BenchError) -> Result<(), BenchError> {
        match (size, &error) {
            (
                Some(frame_bytes),
                BenchError::Asked(_) | BenchError::Setting(_) | BenchError::Traffic(_) | BenchError::Port { .. },
            ) => {
                self.skipped.push(Skipped { frame_bytes, why: error.to_string() });
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Says it once.
    pub(super) fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    /// Takes over what the end of a gateway brought to light.
    pub(super) fn close(&mut self, closing: Closing) {
        self.frames_lost += closing.frames_lost;
        self.packets_missing += closing.packets_missing;
    }
}

fn size(frame_bytes: Option<u16>) -> String {
    frame_bytes.map_or_else(|| "own mix".to_owned(), |bytes| format!("{bytes} B"))
}

fn percent(ratio: f64) -> String {
    match ratio {
        0.0 => "0".to_owned(),
        ratio if ratio < 1e-4 => format!("{:.1e}", ratio),
        ratio => format!("{:.2} %", ratio * 100.0),
    }
}

/// As people read it.
pub fn text(report: &SearchReport) -> String {
    let SearchReport { profile, port, search, trials, .. } = report;
    let mut out = format!(
        "{profile} over {port}: {}; {} trials of {} s, {:.0} s in all, {} repeated because of disturbance\n\n",
        search.kinds.join(", "),
        trials.len(),
        search.trial_seconds,
        search.elapsed_seconds,
        search.repeated_trials
    );
    if !report.results.is_empty() {
        out += &rates(report);
    }
    if !report.latency.is_empty() {
        out += &latencies(report);
    }
    if !report.loss_curve.is_empty() {
        out += &curves(report);
    }
    for At { frame_bytes, found } in &report.back_to_back {
        let limit = if found.is_unlimited { "no limit found, longest burst" } else { "longest burst" };
        let buffer = found.buffer_seconds.map_or(String::new(), |s| format!(", buffer {}", micros(s * 1e6)));
        let (burst, packets) = (rate(found.burst_mpps), count(found.packets as u64));
        out += &format!("back-to-back, {}, at {burst}: {limit} {packets} packets{buffer}\n", size(*frame_bytes));
    }
    for (name, equal) in [("determinism", &report.determinism), ("soak", &report.soak)] {
        for At { frame_bytes, found } in equal {
            out += &spread(name, *frame_bytes, found);
        }
    }
    for Skipped { frame_bytes, why } in &report.skipped {
        out += &format!("{frame_bytes} B not measured: {why}\n");
    }
    if let Some(ended) = &search.ended {
        out += &format!("ended early: {ended}; bounds are those found until then\n");
    }
    if report.noise.windows > 0 {
        out += &format!("{}\n", report.noise.text());
    }
    for note in &report.notes {
        out += &format!("note: {note}\n");
    }
    out
}

fn rates(report: &SearchReport) -> String {
    let mut table =
        Table::new(&["goal", "frames", "lower", "upper", "conditional", "likely", "trials", ""]).words(1).words(7);
    for At { frame_bytes, found } in &report.results {
        let bound = |mpps: Option<f64>| mpps.map_or_else(|| "–".to_owned(), rate);
        let what = match (found.is_complete, found.mpps_upper, found.generator_limited) {
            (false, ..) => "not narrowed to the goal's width",
            (true, None, _) => "the largest load goes through",
            (true, _, true) => "limited by the generator",
            _ => "",
        };
        table.row([
            found.goal.clone(),
            size(*frame_bytes),
            bound(found.mpps_lower),
            bound(found.mpps_upper),
            bound(found.mpps_conditional),
            found.likely.map_or_else(|| "–".to_owned(), |likely| likely.text(rate)),
            found.trials.to_string(),
            what.to_owned(),
        ]);
    }
    table.text() + "\n"
}

fn latencies(report: &SearchReport) -> String {
    let mut table = Table::new(&["latency at", "frames", "offered", "lost", "p50", "p99", "p99.9", "max"]).words(1);
    for At { frame_bytes, found: at } in &report.latency {
        let l = at.latency_us.unwrap_or_default();
        table.row([
            format!("{:.0} %", at.of_rate * 100.0),
            size(*frame_bytes),
            rate(at.offered_mpps),
            percent(at.loss_ratio),
            micros(l.p50),
            micros(l.p99),
            micros(l.p999),
            micros(l.max),
        ]);
    }
    table.text() + "\n"
}

fn curves(report: &SearchReport) -> String {
    let mut table = Table::new(&["loss curve", "frames", "offered", "forwarded", "lost", ""]).words(1).words(5);
    for At { frame_bytes, found: at } in &report.loss_curve {
        table.row([
            format!("{:.0} %", at.of_most * 100.0),
            size(*frame_bytes),
            rate(at.offered_mpps),
            rate(at.forwarded_mpps),
            percent(at.loss_ratio),
            if at.generator_limited { "limited by the generator".to_owned() } else { String::new() },
        ]);
    }
    table.text() + "\n"
}

fn spread(name: &str, frame_bytes: Option<u16>, found: &Equal) -> String {
    let Spread { min, mean, max, variation, .. } = found.forwarded_mpps;
    let latency = found.p99_us.map_or(String::new(), |p99| format!("; p99 {} to {}", micros(p99.min), micros(p99.max)));
    format!(
        "{name}, {}: {} trials of {} s at {}: {} forwarded ({} to {}, deviation {:.2} %), drift {:+.2} %, {} trials with \
         loss, {} packets{latency}\n",
        size(frame_bytes),
        found.trials,
        found.trial_seconds,
        rate(found.offered_mpps),
        rate(mean),
        rate(min),
        rate(max),
        variation * 100.0,
        found.drift * 100.0,
        found.trials_with_loss,
        count(found.lost_packets),
    )
}
