//! `weir plan calibration`: predicted against measured.

use std::path::PathBuf;

use anyhow::Context;
use capacity::calibration::{Calibration, HeldOut, calibration};
use capacity::quantity::digits;
use clap::Args;

use gateway::json::JsonOutput;
use gateway::tables::{Style, Table};

/// `weir plan calibration`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir plan calibration                          every held-out measurement beside its prediction
  weir plan calibration --html calibration.html  as a page with a chart

Each measurement is predicted by the planner from others, without what it itself taught. P10 to P90
are honest when they hold 70 to 90 % of them.")]
pub struct CalibrationArgs {
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
    /// Write a page, complete in one file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Runs `weir plan calibration`.
///
/// # Errors
/// A page that cannot be written.
pub fn run(args: &CalibrationArgs) -> anyhow::Result<()> {
    let all = calibration();
    if let Some(to) = &args.html {
        std::fs::write(to, html::plan::calibration::page(&all)).with_context(|| format!("writing {}", to.display()))?;
    }
    args.json.print_pretty(&all, || text(&all, Style::of_stdout()))
}

fn text(all: &Calibration, style: Style) -> String {
    let mut table =
        Table::new(&["predicted", "of", "from", ">P10", ">P50", ">P90", ">measured", "unit", ">error", "held"]);
    let mut last = None;
    for one in &all.points {
        let kind = if last == Some(one.kind) { String::new() } else { one.kind.to_string() };
        last = Some(one.kind);
        table.row(row(kind, one, style));
    }
    let held = all.points.iter().filter(|one| one.held).count();
    format!(
        "{}\n  {held} of {} within P10 to P90: {:.0} % (70 to 90 % is honest)\n  median error of P50 {:.0} %; mean \
         interval score {:.2}, that of ± 41 % {:.2} (less is better)\n",
        table.render(style),
        all.points.len(),
        100.0 * all.held_ratio,
        100.0 * all.error_ratio_median,
        all.score,
        all.fixed_score,
    )
}

fn row(kind: String, one: &HeldOut, style: Style) -> [String; 10] {
    let [p10, p50, p90] = one.predicted.map(digits);
    let held = if one.held { "yes".to_owned() } else { style.alarm("no") };
    let error = format!("{:+.0} %", 100.0 * one.error_ratio);
    let (what, from, unit) = (one.what.clone(), one.from.clone(), one.unit.to_owned());
    [kind, what, from, p10, p50, p90, digits(one.measured), unit, error, held]
}
