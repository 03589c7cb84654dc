//! `weir plan reproduce`: five publications' figures, calculated again.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use capacity::published::PLANS;
use capacity::quantity::digits;
use capacity::reproduce::{Figure, Inputs, Verdict, reproduce};
use clap::Args;

use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::tables::{Style, Table, item, many};

/// `weir plan reproduce`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir plan reproduce
  weir plan reproduce --set V23=25.2            were metal's total what its own figure says
  weir plan reproduce --json | jq '.[] | select(.verdict == \"contradicts itself\")'
  weir plan reproduce --inputs                  what can be set
  weir plan reproduce --to published            the experiments as plans, to be changed and planned

Verdicts: input (measured; the model takes it), derived (nothing is printed to compare with),
reproduced, rounded, contradicts itself (it does not follow from the publication's own figures).")]
pub struct ReproduceArgs {
    /// Take another value for a figure; what follows from it changes. May be given several times.
    #[arg(long = "set", value_name = "ID=VALUE")]
    pub set: Vec<String>,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
    /// List what can be set, with its value.
    #[arg(long)]
    pub inputs: bool,
    /// Write the published experiments to this folder, as plans: weir plan DIR/vcmts-metal.toml.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["set", "inputs"])]
    pub to: Option<PathBuf>,
}

/// Runs `weir plan reproduce`.
///
/// # Errors
/// A figure there is not, a value that is no number.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<()> {
    let mut inputs = Inputs::default();
    for pair in &args.set {
        let (id, value) =
            pair.split_once('=').ok_or_else(|| Usage(format!("--set {pair} is invalid; allowed: ID=VALUE")))?;
        let number = value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| Usage(format!("--set {pair}: \"{value}\" is not a number")))?;
        inputs.set(id.trim(), number).map_err(Usage)?;
    }
    if let Some(folder) = &args.to {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        for (name, text) in PLANS {
            let file = folder.join(format!("{name}.toml"));
            std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
            println!("{}", file.display());
        }
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    if args.inputs {
        for (name, value) in inputs.all() {
            writeln!(out, "{name}={value}")?;
        }
        return Ok(());
    }
    let figures = reproduce(&inputs);
    args.json.print_pretty(&figures, || text(&figures, Style::of_stdout()))
}

/// How wide a printed figure may be in the table.
const PUBLISHED: usize = 34;
/// And what it is of.
const QUANTITY: usize = 44;

/// A table for each publication, the reasons under it, the sum of verdicts.
pub fn text(figures: &[Figure], style: Style) -> String {
    let mut out = String::new();
    let mut publications: Vec<&str> = figures.iter().map(|figure| figure.publication.as_str()).collect();
    publications.dedup();
    for publication in publications {
        let of: Vec<&Figure> = figures.iter().filter(|figure| figure.publication == publication).collect();
        out += &format!("{}\n\n", style.strong(publication));
        let mut table = Table::new(&["", "quantity", "published", ">computed", "unit", "verdict"]);
        for figure in &of {
            table.row([
                figure.id.clone(),
                cut(&figure.quantity, QUANTITY),
                cut(&figure.published, PUBLISHED),
                figure.computed.map_or_else(|| "–".to_owned(), digits),
                cut(&figure.unit, 16),
                figure.verdict.to_string(),
            ]);
        }
        out += &table.render(style);
        out.push('\n');
        for figure in of {
            let also: Vec<String> =
                figure.also.iter().map(|(what, value)| format!("{what} {}", digits(*value))).collect();
            let also = also.join(", ");
            let parts: Vec<&str> =
                [figure.note.as_str(), also.as_str()].into_iter().filter(|p| !p.is_empty()).collect();
            if !parts.is_empty() {
                let mark = if figure.verdict == Verdict::Contradicts { style.alarm("!") } else { " ".to_owned() };
                let line = item(&format!("  {}  ", figure.id), &parts.join(" · "), style);
                out += &format!("{mark}{}", &line[1..]);
            }
        }
        out.push('\n');
    }
    let verdicts = [Verdict::Reproduced, Verdict::Rounded, Verdict::Contradicts, Verdict::Derived, Verdict::Input];
    let sum = |verdict: Verdict| figures.iter().filter(|figure| figure.verdict == verdict).count();
    let sums: Vec<String> = verdicts.into_iter().map(|verdict| format!("{} {verdict}", sum(verdict))).collect();
    out + &format!("{}: {}\n", many(figures.len(), "figure"), sums.join(", "))
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most - 1).chain(['…']).collect() }
}
