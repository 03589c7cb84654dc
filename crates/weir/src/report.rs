//! `weir report`: results of benchmarks as one page, and as a table for programs.
//!
//! | file | content |
//! |---|---|
//! | `read` | results out of files |
//! | `html` | the page |
//! | `caveats` | what a reader has to know, found in the results |
//! | `published` | published figures of the workloads |
//! | `csv` | the same figures, one a line |

mod caveats;
mod csv;
mod html;
pub(crate) mod published;
mod read;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use gateway::fail::Usage;

use read::Results;

/// Options of `weir report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir report results.json -o report.html              one result of weir bench --json
  weir report results/ -o report.html --csv all.csv    all results in a folder, and a table
  weir report upf.json cmts.json -o report.html --title \"Nightly, rack 4\"

The page is complete in one file: light and dark, for screens and for paper, without anything
loaded from elsewhere. It shows rates, throughput by frame size, bounds of searches, loss by
load, latency, cost by stage, scale-out with its fit, drops by name, published figures beside
them, and what a reader has to know: noise, steal, few samples, what was not measured.")]
pub struct ReportArgs {
    /// Files that weir bench --json wrote, or folders of them.
    #[arg(value_name = "RESULTS", required = true)]
    pub results: Vec<PathBuf>,
    /// Write the page to this file
    #[arg(short, long, value_name = "FILE", required_unless_present = "csv")]
    pub output: Option<PathBuf>,
    /// A table of the same figures: a figure a line.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// The title of the page.
    #[arg(long, value_name = "TEXT", default_value = "Benchmark report")]
    pub title: String,
}

/// Writes page and table.
///
/// # Errors
/// A file is not readable or no result, or the page cannot be written.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let mut results = Results::default();
    for path in &args.results {
        for (file, documents) in crate::compare::documents(path)? {
            results.add(&file, &documents);
        }
    }
    if results.is_empty() {
        bail!(Usage(format!("no results of weir bench --json in {}", results.unread.join(", "))));
    }
    let write =
        |path: &Path, text: String| fs::write(path, text).with_context(|| format!("writing {}", path.display()));
    if let Some(path) = &args.output {
        write(path, html::page(&args.title, &results))?;
    }
    if let Some(path) = &args.csv {
        write(path, csv::text(&results))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ::bench::cmts::Difference;
    use ::bench::report::Report;
    use ::bench::searching::SearchReport;

    use super::*;

    #[test]
    fn a_page_is_complete_in_itself() {
        let mut report = Report { profile: "upf-128".into(), mpps: 2.0, ..Report::default() };
        report.drops.insert("uplink.<b>.denied".to_owned(), 3);
        let results = Results { reports: vec![report], searches: vec![SearchReport::default()], ..Results::default() };
        let page = html::page("<title>", &results);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        for outside in ["http://", "https://", "src=", "<script", "@import", "url("] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
        }
        assert!(page.contains("&lt;title&gt;") && page.contains("uplink.&lt;b&gt;.denied"));
        assert!(!page.contains("NaN") && !page.contains("inf"));
    }

    #[test]
    fn what_is_not_alike_stands_beside_published_figures() {
        let report = ::bench::cmts::CableReport {
            common: Report { profile: "cmts-imix".into(), mpps: 2.0, gbps_l2: 20.0, ..Report::default() },
            cable: ::bench::cmts::CableKeys {
                differences: vec![Difference {
                    what: "packet I/O".into(),
                    published: "DPDK".into(),
                    here: "<memory>".into(),
                }],
                ..Default::default()
            },
        };
        let mut results = Results::default();
        let document = serde_json::to_value(&report).expect("JSON");
        results.add("a.json", &[document.clone(), document]);
        assert_eq!((results.reports.len(), results.differences.len()), (2, 1), "named once");
        let page = html::page("page", &results);
        assert!(page.contains("7.32 Gbps") && page.contains("not alike") && page.contains("&lt;memory&gt;"));
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let file = std::env::temp_dir().join(format!("weir-report-{}.json", std::process::id()));
        let page = file.with_extension("html");
        let args =
            ReportArgs { results: vec![file.clone()], output: Some(page.clone()), csv: None, title: String::new() };
        fs::write(&file, "{}").unwrap();
        assert!(run(&args).unwrap_err().is::<Usage>());
        fs::write(&file, serde_json::to_string(&Report::default()).unwrap()).unwrap();
        run(&args).unwrap();
        assert!(fs::read_to_string(&page).unwrap().contains("Benchmark report") || page.exists());
        [file, page].iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}
