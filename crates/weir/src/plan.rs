//! `weir plan`: how many of which machine carry a network. The arithmetic is the crate `capacity`; here are its files
//! and its tables.
//!
//! | file | idea |
//! |---|---|
//! | `read.rs` | a plan and what it names, or an error that points at the key |
//! | `catalogue.rs` | tables of machines, prices, measurements and sources; `weir plan catalogue` |
//! | `calibrate.rs` | points from what `weir bench` measured |
//! | `certified.rs` | a certificate of `weir probe` as a machine |
//! | `tables.rs` | the answer as people read it |
//! | `reproduce.rs` | the publications' figures |
//! | `calibration.rs` | predicted against measured |
//! | `verify.rs` | the planner against a load it has not seen |

mod calibrate;
mod calibration;
mod catalogue;
mod certified;
mod read;
mod reproduce;
mod tables;
#[cfg(test)]
mod tests;
mod verify;

use std::path::PathBuf;

use anyhow::Context;
use capacity::knobs::Knobs;
use capacity::plan::{Answer, Planner};
use capacity::question::PointInput;
use clap::{Args, Subcommand};

use html::plan::live::Live;

use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::tables::Style;

pub use calibrate::Measured;
pub use catalogue::Everything;
use certified::Certified;
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
  weir plan PLAN.toml --from certificate.json         plan with a machine that weir probe measured
  weir plan PLAN.toml --catalogue my-catalogue        plan with tables of one's own
  weir plan catalogue                                 what the planner knows
  weir plan PLAN.toml --set demand=1.5 growth=0.3     half as much again of each, 30 % more a year
  weir plan verify                                    predict a load from another, and measure it
  weir plan calibration                               predictions beside measurements
  weir plan reproduce                                 five publications' figures, calculated again
  weir plan reproduce --set V23=25.2                  the effect of another value

Every answer states its basis: measured, published, assumed. Unknown values are shown as unknown
and never taken for unlimited."
)]
pub struct PlanArgs {
    /// The plan.
    #[arg(value_name = "PLAN.toml")]
    pub plan: Option<PathBuf>,
    /// Results of weir bench to calibrate with, or certificates of weir probe as machines; without a plan: print costs.
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
    /// Turn the plan: factors for demand and price, values for sharing and growth.
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., requires = "plan")]
    pub set: Vec<String>,
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
    /// Every measurement that can be predicted from others, predicted, beside what was measured.
    Calibration(calibration::CalibrationArgs),
    /// Predict a load from another one, measure it, and print the difference.
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
        Some(Other::Calibration(args)) => return calibration::run(args),
        Some(Other::Verify(args)) => return verify::run(args),
        None => {}
    }
    let (measured, certified) = from(&args.from, args.measured_on.as_deref())?;
    let Some(path) = &args.plan else {
        if args.from.is_empty() {
            return Err(
                Usage("a plan, results to calibrate from, or reproduce: see weir plan --help".to_owned()).into()
            );
        }
        if let Some(folder) = &args.append_to {
            return append(&measured, &certified, folder);
        }
        return args.json.print_pretty(&measured, || calibrate::text(&measured, Style::of_stdout()));
    };
    let mut plan = read::Plan::read_certified(path, args.catalogue.as_deref(), &certified)?;
    // As the plan has it: sliders turn it from there.
    let (begin, asked) = match &args.html {
        Some(_) => (Knobs::standing(&plan.question), plan.asked(&points(&measured))?),
        None => Default::default(),
    };
    let set = knobs(&args.set)?;
    plan.turn(&set)?;
    let start = std::time::Instant::now();
    let answer = plan.answer(&measured)?;
    let took = start.elapsed();
    if let Some(to) = &args.html {
        let live = Live { module: PLANNER, asked: &asked, file: &path.display().to_string(), begin, set };
        std::fs::write(to, html::plan::page(&answer, Some(&live)))
            .with_context(|| format!("writing {}", to.display()))?;
    }
    args.json.print_pretty(&answer, || {
        let machines = answer.candidates.len() + answer.refused.len();
        let table = tables::answer(&answer, args.all, Style::of_stdout());
        format!("{table}\n  {machines} machines judged in {:.1} ms\n", took.as_secs_f64() * 1e3)
    })
}

/// What files say: measurements to plan with, those of certificates among them, and certified machines.
fn from(files: &[PathBuf], measured_on: Option<&str>) -> anyhow::Result<(Vec<Measured>, Vec<Certified>)> {
    let (mut results, mut certified) = (Vec::new(), Vec::new());
    for file in files {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if serde_json::from_str(&text).is_ok_and(|value| certified::is_certificate(&value)) {
            certified.push(Certified::read(file, measured_on)?);
        } else {
            results.push(file.clone());
        }
    }
    let mut measured = calibrate::read(&results, measured_on)?;
    measured.extend(certified.iter().flat_map(Certified::points));
    Ok((measured, certified))
}

/// Appends results and certificates to a folder's tables.
fn append(measured: &[Measured], certified: &[Certified], folder: &std::path::Path) -> anyhow::Result<()> {
    let mut rows = measured.iter().map(calibrate::Measured::row).collect::<anyhow::Result<Vec<_>>>()?;
    rows.extend(certified.iter().flat_map(Certified::rows));
    let sources = vec![calibrate::source(), certified::source()];
    let (count, path) = (rows.len(), catalogue::append(rows, sources, certified, folder)?);
    println!("{count} rows in {}", path.display());
    Ok(())
}

/// The planner for browsers, built by `scripts/planner-wasm`.
const PLANNER: &[u8] = include_bytes!("plan/planner.wasm.gz");

/// What was measured, as points of a plan.
fn points(measured: &[Measured]) -> Vec<PointInput> {
    measured.iter().filter(|one| !one.crowded).map(Measured::point).collect()
}

/// What `--set` says, `NAME=VALUE` each, as knobs.
fn knobs(all: &[String]) -> anyhow::Result<Knobs> {
    let mut knobs = Knobs::default();
    for one in all {
        let wrong = |why: String| Usage(format!("--set {one}: {why}"));
        let parts = one.split_once('=').and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)));
        let (name, value) = parts.ok_or_else(|| wrong("write NAME=NUMBER, such as demand=1.5".to_owned()))?;
        knobs.set(name, value).map_err(wrong)?;
    }
    Ok(knobs)
}

impl read::Plan {
    /// Turns what `--set` names.
    fn turn(&mut self, knobs: &Knobs) -> anyhow::Result<()> {
        let turned = knobs.turn(&mut self.question, &mut self.world);
        Ok(turned.map_err(|wrong| self.text.at(&wrong.path, wrong.what, wrong.help))?)
    }

    /// The answer, with points that were measured beside the plan's own.
    pub fn answer(&self, measured: &[calibrate::Measured]) -> anyhow::Result<Answer> {
        let mut question = self.question.clone();
        question.point.extend(points(measured));
        let answer = Planner::new(question, self.world.clone()).and_then(|planner| planner.answer());
        Ok(answer.map_err(|wrong| self.text.at(&wrong.path, wrong.what, wrong.help))?)
    }
}
