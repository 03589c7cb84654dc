//! `weir plan`: how many of which machine carry a network. The arithmetic is the crate `capacity`; here are its files
//! and its tables.
//!
//! | file | idea |
//! |---|---|
//! | `read.rs` | a plan and what it names, or an error that points at the key |
//! | `catalogue.rs` | tables of machines, prices, measurements and sources; `weir plan catalogue` |
//! | `calibrate.rs` | points from what `weir bench` measured |
//! | `tables.rs` | the answer as people read it |
//! | `html.rs` | the answer as a page with plots, complete in one file |
//! | `reproduce.rs` | the publications' figures |
//! | `rows.rs` | rows of tables, for text and page alike |
//! | `verify.rs` | the model against a load it has not seen |

mod calibrate;
mod catalogue;
mod html;
mod read;
mod reproduce;
mod rows;
mod tables;
#[cfg(test)]
mod tests;
mod verify;

use std::path::PathBuf;

use anyhow::Context;
use capacity::plan::{Answer, Planner};
use clap::{Args, Subcommand};

use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::tables::Style;

pub use calibrate::Measured;
pub use catalogue::Everything;
pub use read::Plan;
#[cfg(test)]
pub use read::check_file;
pub use verify::Verdict;

/// `weir plan`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  weir plan examples/plan-cmts.toml                   instances, what limits them, what they cost
  weir plan examples/plan-upf.toml --json             everything, for programs
  weir plan examples/plan-decision.toml --html plan.html
  sudo weir bench upf-128 --port xdp --json x.json    measure here, then
  weir plan --from x.json                             convert it to points of a plan
  weir plan PLAN.toml --from results/*.json           or plan with it
  weir plan --from x.json --append-to my-catalogue    or keep it as rows of a catalogue
  weir plan PLAN.toml --catalogue my-catalogue        plan with tables of one's own
  weir plan catalogue                                 what the planner knows
  weir plan verify                                    predict a load from others, and measure it
  weir plan reproduce                                 five publications' figures, calculated again
  weir plan reproduce --set V23=25.2                  the effect of another value

Every answer states its basis: measured, published, assumed. Unknown values are shown as unknown
and never taken for unlimited."
)]
pub struct PlanArgs {
    /// The plan.
    #[arg(value_name = "PLAN.toml")]
    pub plan: Option<PathBuf>,
    /// Results of weir bench to calibrate with; without a plan: print their costs.
    #[arg(long, value_name = "RESULT.json", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Append the results to this folder's measurements.tsv, as points of plans for gateways of their kind.
    #[arg(long, value_name = "DIR", requires = "from", conflicts_with = "plan")]
    pub append_to: Option<PathBuf>,
    /// A folder of tables over those that come with weir: see weir plan catalogue.
    #[arg(long, value_name = "DIR", requires = "plan")]
    pub catalogue: Option<PathBuf>,
    /// The instance type or server the results were measured on, instead of the processor's name.
    #[arg(long, value_name = "MACHINE", requires = "from")]
    pub measured_on: Option<String>,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
    /// Write a page with plots, complete in one file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Show every machine, also those that cannot carry it, with the reason.
    #[arg(long)]
    pub all: bool,
    /// Subcommands.
    #[command(subcommand)]
    pub other: Option<Other>,
}

/// What there is beside a plan.
#[derive(Debug, Subcommand)]
pub enum Other {
    /// What the planner knows of machines, prices, measurements, servers, cards and sites; write it to a folder.
    Catalogue(catalogue::CatalogueArgs),
    /// Every published figure beside the one calculated again, with a verdict.
    Reproduce(reproduce::ReproduceArgs),
    /// Predict a load from others, measure it, and print the difference.
    Verify(verify::VerifyArgs),
}

/// Runs it.
///
/// # Errors
/// A plan that asks for nothing, too much or two things at once, pointing at the key.
pub fn run(args: &PlanArgs) -> anyhow::Result<()> {
    match &args.other {
        Some(Other::Catalogue(args)) => return catalogue::run(args),
        Some(Other::Reproduce(args)) => return reproduce::run(args),
        Some(Other::Verify(args)) => return verify::run(args),
        None => {}
    }
    let measured = calibrate::read(&args.from, args.measured_on.as_deref())?;
    let Some(path) = &args.plan else {
        if args.from.is_empty() {
            return Err(
                Usage("a plan, results to calibrate from, or reproduce: see weir plan --help".to_owned()).into()
            );
        }
        if let Some(folder) = &args.append_to {
            let rows = measured.iter().map(calibrate::Measured::row).collect::<anyhow::Result<Vec<_>>>()?;
            let (count, path) = (rows.len(), catalogue::append(rows, calibrate::source(), folder)?);
            println!("{count} rows in {}", path.display());
            return Ok(());
        }
        return args.json.print_pretty(&measured, || calibrate::text(&measured, Style::of_stdout()));
    };
    let plan = read::Plan::read_with(path, args.catalogue.as_deref())?;
    let start = std::time::Instant::now();
    let answer = plan.answer(&measured)?;
    let took = start.elapsed();
    if let Some(path) = &args.html {
        std::fs::write(path, html::page(&answer)).with_context(|| format!("writing {}", path.display()))?;
    }
    args.json.print_pretty(&answer, || {
        let machines = answer.candidates.len() + answer.refused.len();
        let table = tables::answer(&answer, args.all, Style::of_stdout());
        format!("{table}\n  {machines} machines judged in {:.1} ms\n", took.as_secs_f64() * 1e3)
    })
}

impl read::Plan {
    /// The answer, with points that were measured beside the plan's own.
    pub fn answer(&self, measured: &[calibrate::Measured]) -> anyhow::Result<Answer> {
        let mut question = self.question.clone();
        let points = measured.iter().filter(|one| !one.crowded);
        question.point.extend(points.map(calibrate::Measured::point));
        let answer = Planner::new(question, self.world.clone()).and_then(|planner| planner.answer());
        Ok(answer.map_err(|wrong| self.text.at(&wrong.path, wrong.what, wrong.help))?)
    }
}
