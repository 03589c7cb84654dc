//! `weir cdr list`: the last of the records asked for, as a table.

use std::collections::VecDeque;

use ledger::{Moment, Record, Status};

use super::ListArgs;
use super::source::Source;
use gateway::tables::{Style, Table, bytes, count, duration};

/// Runs `weir cdr list`.
///
/// # Errors
/// As the source's.
pub fn list(args: &ListArgs, source: &mut Source, style: Style) -> anyhow::Result<()> {
    let (records, status) = last(args, source)?;
    args.json.print(&records, || text(&records, &status, style))
}

/// The last of the records asked for, and what the ledger holds.
pub fn last(args: &ListArgs, source: &mut Source) -> anyhow::Result<(Vec<Record>, Status)> {
    let (mut filter, limit) = (args.which.filter(), args.limit as usize);
    let status = source.page(&filter, 0)?.status;
    if args.which.is_a_run() {
        // Nothing is left out, so the last ones are known without looking at those before.
        let end = filter.until.unwrap_or(u64::MAX).min(status.sequence);
        filter.after = filter.after.max(end.saturating_sub(args.limit.into()));
    }
    let mut records = VecDeque::new();
    source.every(&filter, |record| {
        if records.len() == limit {
            records.pop_front();
        }
        records.push_back(record);
        Ok(true)
    })?;
    Ok((records.into(), status))
}

/// The records as a table.
pub fn text(records: &[Record], status: &Status, style: Style) -> String {
    let mut table = Table::new(&[
        ">number",
        "closed",
        "subscriber",
        "address",
        "dnn",
        ">urr",
        ">group",
        ">up",
        ">down",
        ">time",
        "cause",
        "report",
    ]);
    for record in records {
        let number = |n: Option<u32>| n.map_or("–".to_owned(), |n| n.to_string());
        table.row([
            record.local_sequence_number.to_string(),
            second(record.stop_time),
            subscriber(record),
            address(record),
            record.data_network_name.clone(),
            number(record.urr_id),
            number(record.rating_group),
            bytes(record.data_volume_uplink),
            bytes(record.data_volume_downlink),
            duration(record.duration as f64),
            record.cause_for_rec_closing.name().to_owned(),
            record.report_trigger.clone(),
        ]);
    }
    let mut out = if table.is_empty() { "  no such records\n".to_owned() } else { table.render(style) };
    out += &format!(
        "\n  {} of {} records ({}); the last number is {}, exported up to {}\n",
        count(records.len() as u64),
        count(status.records),
        bytes(status.record_bytes),
        status.sequence,
        status.exported
    );
    if status.removed_exported + status.removed_unexported > 0 {
        let (exported, unexported) = (count(status.removed_exported), count(status.removed_unexported));
        out += &format!("  retention removed {exported} exported and {unexported} never exported\n");
    }
    if status.held_back {
        let held = "retention waits for an export: records beyond its limits are not acknowledged yet";
        out += &format!("  {}\n", style.alarm(held));
    }
    out
}

/// To the second: `2026-11-22 00:08:24`.
fn second(moment: Moment) -> String {
    let text = moment.to_string();
    text.get(..19).unwrap_or(&text).replace('T', " ")
}

/// The name it is best known by.
fn subscriber(record: &Record) -> String {
    let names = [&record.served_imsi, &record.served_msisdn, &record.served_imei];
    names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_else(|| record.up_seid.to_string())
}

fn address(record: &Record) -> String {
    match (record.served_ipv4, record.served_ipv6) {
        (Some(v4), Some(_)) => format!("{v4} +v6"),
        (Some(v4), None) => v4.to_string(),
        (None, Some(v6)) => v6.to_string(),
        (None, None) => "–".to_owned(),
    }
}
