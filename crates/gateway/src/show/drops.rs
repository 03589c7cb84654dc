//! `weir show drops`: every packet that did not come out, where and why.

use schemars::JsonSchema;
use serde::Serialize;

use super::heading;
use crate::snapshot::Snapshot;
use crate::tables::{Style, Table, bytes, count, many, si};

/// One reason at one stage, all workers together.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DropRow {
    /// `pipeline.stage`, or `worker`.
    pub stage: String,
    /// Its name.
    pub reason: String,
    /// Packets since the start.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Over the time looked at.
    #[serde(rename = "packets_per_second")]
    pub rate: f64,
    /// What it means.
    #[serde(rename = "help")]
    pub sentence: String,
}

/// All drops since the start, with rates of the time looked at; most frequent first.
pub fn rows(counted: &Snapshot, total: &Snapshot) -> Vec<DropRow> {
    let mut rows: Vec<DropRow> = Vec::new();
    for drop in total.workers.iter().flat_map(|worker| &worker.drops) {
        match rows.iter_mut().find(|row| row.stage == drop.stage && row.reason == drop.reason) {
            Some(row) => {
                row.packets += drop.packets;
                row.bytes += drop.bytes;
            }
            None => rows.push(DropRow {
                stage: drop.stage.clone(),
                reason: drop.reason.clone(),
                packets: drop.packets,
                bytes: drop.bytes,
                rate: 0.0,
                sentence: drop.sentence.clone(),
            }),
        }
    }
    if counted.seconds > 0.0 {
        for drop in counted.workers.iter().flat_map(|worker| &worker.drops) {
            if let Some(row) = rows.iter_mut().find(|row| row.stage == drop.stage && row.reason == drop.reason) {
                row.rate += drop.packets as f64 / counted.seconds;
            }
        }
    }
    rows.sort_by(|a, b| b.packets.cmp(&a.packets).then_with(|| a.stage.cmp(&b.stage)));
    rows
}

/// Whether nothing was dropped and nothing answered.
pub fn is_empty(snapshot: &Snapshot) -> bool {
    snapshot.workers.iter().all(|worker| worker.drops.is_empty() && worker.punted.is_empty())
}

/// The page, with rates since the start.
pub fn text(snapshot: &Snapshot, style: Style) -> String {
    tables(snapshot, snapshot, style)
}

/// The page under its heading, with rates of the time looked at.
pub fn page(counted: &Snapshot, total: &Snapshot, since_start: bool, style: Style) -> String {
    heading(counted, since_start, style) + &tables(counted, total, style)
}

fn tables(counted: &Snapshot, total: &Snapshot, style: Style) -> String {
    let mut out = String::new();
    let rows = rows(counted, total);
    if rows.is_empty() {
        out += "  no packet was dropped\n\n";
    } else {
        let mut table = Table::new(&["stage", "reason", ">packets", ">bytes", ">per second", "what it means"]);
        let (mut packets, mut volume, mut rate) = (0, 0, 0.0);
        for row in &rows {
            (packets, volume, rate) = (packets + row.packets, volume + row.bytes, rate + row.rate);
            let numbers = [count(row.packets), bytes(row.bytes), si(row.rate)];
            let words = [row.stage.clone(), row.reason.clone()];
            table.row(words.into_iter().chain(numbers).chain([row.sentence.clone()]));
        }
        if rows.len() > 1 {
            table.rule();
            table.row([
                "all".into(),
                many(rows.len(), "reason"),
                count(packets),
                bytes(volume),
                si(rate),
                String::new(),
            ]);
        }
        out += &table.render(style);
        out.push('\n');
    }
    let punted = punted(total);
    if !punted.is_empty() {
        let mut table = Table::new(&["answered or held", ">packets", "what it means"]);
        for (reason, sentence, packets) in punted {
            table.row([reason, count(packets), sentence]);
        }
        out += &table.render(style);
        out.push('\n');
    }
    out
}

/// What the slow path took, all workers together.
fn punted(total: &Snapshot) -> Vec<(String, String, u64)> {
    let mut rows: Vec<(String, String, u64)> = Vec::new();
    for punt in total.workers.iter().flat_map(|worker| &worker.punted) {
        match rows.iter_mut().find(|(reason, ..)| *reason == punt.reason) {
            Some((_, _, packets)) => *packets += punt.packets,
            None => rows.push((punt.reason.clone(), punt.sentence.clone(), punt.packets)),
        }
    }
    rows.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
    rows
}
