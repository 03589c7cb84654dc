//! `weir compare`: results of benchmarks, before and after, or here and there.

use std::fs;
use std::path::{Path, PathBuf};

use ::bench::compare::{Compared, Comparison, Row, Verdict, compare};
use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;

use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::tables::{Style, Table, many};

/// `weir compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir compare before.json after.json                  two results of weir bench --json
  weir compare before/ after/                          sets: all results in two folders
  weir compare on-premise.json cloud.json --tolerance 5%
  weir compare main.json branch.json --json diff.json  for programs

Results of the same workload are compared: rate, cycles and time of a packet, and each stage in
cycles, with the change in percent and its 95 % confidence interval (bootstrap of the ratio of
medians). With five results of a workload on each side or more, results are samples; with fewer,
the windows within them.

Exit codes: 0 nothing is worse, 1 a rate or a time of a packet is worse: its whole interval is
beyond the tolerance; 2 a file is no result, or no workload is on both sides.")]
pub struct CompareArgs {
    /// The first side: a file that weir bench --json wrote, or a folder of them.
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// The second side.
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// The largest change that counts as none.
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = tolerance)]
    pub tolerance: f64,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// A part of 0 to 100 %, such as `2%` or `2`.
fn tolerance(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().trim_end_matches('%').trim().parse().ok();
    let part = number.map(|percent| percent / 100.0).filter(|part| (0.0..1.0).contains(part));
    part.ok_or_else(|| "allowed: 0 to 100 percent, such as 2%".to_owned())
}

/// Compares.
///
/// # Errors
/// A file is not readable or no result, nothing can be compared, or something is worse.
pub fn run(args: &CompareArgs) -> anyhow::Result<()> {
    let (before, after) = (side(&args.before)?, side(&args.after)?);
    let found = compare(&before, &after, args.tolerance);
    if found.compared.is_empty() {
        let (one, other) = (args.before.display(), args.after.display());
        let list = found.unmatched.iter().map(|one| format!("\n  {one}")).collect::<String>();
        bail!(Usage(format!("{one} and {other} have no workload in common{list}")));
    }
    args.json.print(&found, || text(&found, Style::of_stdout()))?;
    let worse = found.worse();
    if !worse.is_empty() {
        let list: Vec<String> = worse.iter().map(|(workload, row)| format!("{} of {workload}", row.metric)).collect();
        bail!("worse by more than {:.1} %: {}", args.tolerance * 100.0, list.join("; "));
    }
    Ok(())
}

/// The documents of a file or folder.
fn side(path: &Path) -> anyhow::Result<Vec<Value>> {
    Ok(documents(path)?.into_iter().flat_map(|(_, documents)| documents).collect())
}

/// The documents of a file, or of each file of results in a folder, by its name.
///
/// # Errors
/// A file is not readable or no JSON, or there is none.
pub fn documents(path: &Path) -> anyhow::Result<Vec<(String, Vec<Value>)>> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
        files = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json" || extension == "jsonl"));
        files.sort();
    }
    let mut all = Vec::new();
    for file in &files {
        let wrong = |error: &dyn std::fmt::Display| Usage(format!("{}: {error}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
        let read: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&text).into_iter::<Value>().collect();
        all.push((file.display().to_string(), read.map_err(|error| wrong(&error))?));
    }
    if all.iter().all(|(_, documents)| documents.is_empty()) {
        bail!(Usage(format!("{}: there is no JSON in it", path.display())));
    }
    Ok(all)
}

fn text(found: &Comparison, style: Style) -> String {
    let mut out: String = found.compared.iter().map(|compared| workload(compared, style)).collect();
    for unmatched in &found.unmatched {
        out += &format!("not compared: {unmatched}\n");
    }
    if let Some(why) = &found.power_not_available {
        out += &format!("power: not available {why}\n");
    }
    out
}

fn workload(compared: &Compared, style: Style) -> String {
    let [before, after] = compared.results.map(|n| many(n, "result"));
    let mut out = format!("{} · {before} and {after}\n\n", style.strong(&compared.workload));
    let mut table = Table::new(&["metric", ">before", ">after", "unit", ">change", ">95 % interval", ""]);
    let mut was_stage = false;
    for row in &compared.rows {
        if !row.decides && !was_stage {
            table.rule();
        }
        was_stage = !row.decides;
        table.row(cells(row, style));
    }
    out += &table.render(style);
    for caveat in &compared.caveats {
        out += &format!("  note: {caveat}\n");
    }
    out.push('\n');
    out
}

fn cells(row: &Row, style: Style) -> [String; 7] {
    let percent = |ratio: f64| format!("{:+.1} %", ratio * 100.0);
    let interval = row.ci95_ratio.map(|[low, high]| format!("{} to {}", percent(low), percent(high)));
    let number = |value: f64| if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    let verdict = match row.verdict {
        Verdict::Same => String::new(),
        Verdict::Better => "better".to_owned(),
        Verdict::Worse => style.alarm("worse"),
        Verdict::Unknown => "too few samples".to_owned(),
    };
    [
        row.metric.clone(),
        number(row.before),
        number(row.after),
        row.unit.clone(),
        percent(row.change_ratio),
        interval.unwrap_or_else(|| "–".to_owned()),
        verdict,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn file(name: &str, mpps: f64) -> PathBuf {
        let windows: Vec<f64> = (0..12).map(|n| mpps * (1.0 + f64::from(n % 3) * 0.001)).collect();
        let value = json!({ "profile": "fwa", "port": "memory", "mpps": mpps, "windows": { "mpps": windows } });
        let path = std::env::temp_dir().join(format!("weir-compare-{}-{name}.json", std::process::id()));
        fs::write(&path, value.to_string()).unwrap();
        path
    }

    fn status(before: &Path, after: &Path) -> Result<(), String> {
        let file = std::env::temp_dir().join(format!("weir-compare-{}-out.json", std::process::id()));
        let json = JsonOutput { file: Some(file.clone()) };
        let args = CompareArgs { before: before.to_owned(), after: after.to_owned(), tolerance: 0.02, json };
        let done = run(&args).map_err(|error| format!("{error}, {}", error.is::<Usage>()));
        let _ = fs::remove_file(file);
        done
    }

    #[test]
    fn the_exit_status_tells_what_is_worse() {
        let (slow, fast, broken) = (file("slow", 4.0), file("fast", 5.0), file("broken", 1.0));
        assert_eq!(status(&fast, &fast), Ok(()));
        assert_eq!(status(&slow, &fast), Ok(()));
        assert_eq!(status(&fast, &slow), Err("worse by more than 2.0 %: mpps of fwa, memory, false".into()));
        fs::write(&broken, "{").unwrap();
        assert!(status(&fast, &broken).unwrap_err().ends_with(", true"), "a wrong file is exit code 2");
        fs::write(&broken, "{}").unwrap();
        assert!(status(&fast, &broken).unwrap_err().contains("no workload in common"));
        [slow, fast, broken].iter().for_each(|path| fs::remove_file(path).unwrap());
    }

    #[test]
    fn tolerances_are_percent() {
        assert_eq!([tolerance("2%"), tolerance("0.5 %"), tolerance("3")], [Ok(0.02), Ok(0.005), Ok(0.03)]);
        assert!(["x", "-1", "100"].iter().all(|text| tolerance(text).is_err()));
    }
}
