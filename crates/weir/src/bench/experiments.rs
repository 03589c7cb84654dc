//! `weir bench EXPERIMENT`: experiments by name or from files, listed, printed, run point by point.

use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use ::bench::experiment::{self, Experiment, ExperimentOptions, ExperimentReport, Listed, Place, Progress, Wrong};
use ::bench::probe::machine_facts::machine_type;
use capacity::catalogue::catalogue;
use gateway::fail::Usage;
use gateway::load::{LoadError, Text};
use gateway::tables::{Style, Table};

use super::{BenchArgs, FIXED, usage};
use crate::report::published;

/// The experiment on the command line, with what the command line changes in it; none: the name is not one of an
/// experiment, but of [`FIXED`].
///
/// # Errors
/// There is none of that name, or its file is wrong.
pub fn named(args: &BenchArgs) -> anyhow::Result<Option<Experiment>> {
    let name = args.profile.as_str();
    if FIXED.contains(&name) {
        return Ok(None);
    }
    if name.is_empty() {
        return Err(
            Usage("an experiment is missing, such as weir bench upf-128; weir bench --list has all".into()).into()
        );
    }
    let mut experiment = match experiment::named(name) {
        Some(experiment) => experiment,
        None if name.ends_with(".toml") || name.contains('/') => from_file(Path::new(name))?,
        None => {
            let all: Vec<&str> = experiment::names().chain(FIXED).collect();
            return Err(
                Usage(format!("unknown experiment \"{name}\"; allowed: {}, or a FILE.toml", all.join(", "))).into()
            );
        }
    };
    let mut axes = Vec::new();
    for pair in &args.vary {
        let wrong = || Usage(format!("--vary {pair} is invalid; allowed: KEY=VALUE,VALUE or KEY=1..4"));
        let (key, values) = pair.split_once('=').filter(|(_, values)| !values.is_empty()).ok_or_else(wrong)?;
        axes.push((key.to_owned(), values.split(',').map(str::to_owned).collect()));
    }
    if !axes.is_empty() {
        let wrong = |wrong: Wrong| Usage(format!("--vary: {}; {}", wrong.what, wrong.help));
        experiment.vary_instead(axes).map_err(wrong)?;
    }
    args.set(|key, value| {
        experiment.assign(key, value).map_err(|wrong| format!("--set {key}={value}: {}; {}", wrong.what, wrong.help))
    })?;
    let is_given = |key: &str| args.set.iter().any(|pair| pair.split_once('=').is_some_and(|(given, _)| given == key));
    match experiment.without_effect(is_given) {
        None => Ok(Some(experiment)),
        Some((place, wrong)) => {
            let option = match place {
                Place::Set(_) => "--set",
                Place::Vary(..) if args.vary.is_empty() => "[[vary]]",
                Place::Vary(..) => "--vary",
            };
            Err(Usage(format!("{option}: {}; {}", wrong.what, wrong.help)).into())
        }
    }
}

/// Reads a file and checks what it names of the planner's tables.
fn from_file(path: &Path) -> Result<Experiment, LoadError> {
    let text = Text::read(path)?;
    let read = Experiment::read(&text)?;
    for (n, figure) in read.figures.iter().enumerate() {
        if published::figures(std::slice::from_ref(figure)).is_empty() {
            let what = format!("no published figure has the number \"{figure}\"");
            return Err(text.at(&["figures".into(), n.to_string()], what, "weir plan reproduce lists them"));
        }
    }
    if let Some(machine) = &read.run.machine
        && price_of(machine).is_none()
    {
        let what = format!("the catalogue has no price of \"{machine}\"");
        return Err(text.at(&["run".into(), "machine".into()], what, "weir plan catalogue machines lists them"));
    }
    Ok(read)
}

/// US dollars an hour of a machine of the catalogue.
fn price_of(machine: &str) -> Option<f64> {
    catalogue().into_iter().find(|known| known.name == machine)?.price.map(|price| price.value.0)
}

/// `--list`.
pub fn list(args: &BenchArgs) -> anyhow::Result<()> {
    let all = experiment::list();
    args.json.print_pretty(&all, || text(&all))
}

fn text(all: &[Listed]) -> String {
    let mut table = Table::new(&["EXPERIMENT", "PUBLICATION", "VARIES", "WHAT"]);
    for one in all {
        table.row([one.name.clone(), one.publication.clone(), one.varies.join(" "), one.title.clone()]);
    }
    let more = "\nweir bench NAME runs one, weir bench NAME --print prints its file; beside these: pfcp-sessions, \
                real, day, io, suite, forward.\n";
    table.render(Style::of_stdout()) + more
}

/// `--print`.
///
/// # Errors
/// It is no experiment that comes with weir.
pub fn print_file(args: &BenchArgs) -> anyhow::Result<()> {
    let name = args.profile.as_str();
    let Some(text) = experiment::text(name) else {
        return Err(Usage(format!("--print has no effect on {name}: weir bench --list names what has a file")).into());
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// Runs an experiment that varies something.
///
/// # Errors
/// What cannot be measured here, and why.
pub fn run(args: &BenchArgs, experiment: &Experiment, stop: &AtomicBool) -> anyhow::Result<()> {
    let port = args.port.as_deref().map(str::parse).transpose().map_err(usage)?;
    let given = experiment.run.machine.clone();
    let machine = given.clone().or_else(machine_type);
    let by_machine = machine.as_deref().and_then(price_of);
    if let (Some(machine), None, None) = (&given, by_machine, experiment.run.usd_per_hour) {
        let what = format!("the catalogue has no price of \"{machine}\"; weir plan catalogue machines lists them");
        return Err(Usage(what).into());
    }
    let options = ExperimentOptions {
        port,
        seconds: args.seconds,
        workers: args.workers,
        pps: args.pps,
        receive_work: args.receive_work(),
        usd_per_hour: experiment.run.usd_per_hour.or(by_machine),
    };
    let found = experiment::run(experiment, &options, stop, &mut show);
    clear();
    let mut report = found.map_err(|error| match error {
        ::bench::BenchError::Asked(_) => anyhow::Error::from(usage(error)),
        error => error.into(),
    })?;
    if let (None, Some(machine), Some(usd)) = (experiment.run.usd_per_hour, machine, by_machine) {
        report.notes.push(format!("price of {machine} in the catalogue: {usd} $ an hour"));
    }
    super::print(args, &report, &(report.text() + &beside(&report)))
}

/// Published figures as they stand under a result.
fn beside(report: &ExperimentReport) -> String {
    let figures = published::figures(&report.figures);
    if figures.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["PUBLISHED", "UNIT", "OF", "CONDITIONS", "FIGURE"]);
    for figure in figures {
        table.row([figure.value, figure.unit, figure.quantity, figure.conditions, figure.source]);
    }
    format!("\n{}", table.render(Style::of_stdout()))
}

/// One line that changes on a terminal, a line a step elsewhere.
pub(super) fn show(progress: &Progress) {
    let (Progress { what, done: (done, all), left }, mut out) = (progress, std::io::stderr().lock());
    let seconds = left.as_secs();
    let left = if *done == 0 { String::new() } else { format!("; {}:{:02} left", seconds / 60, seconds % 60) };
    let text = format!("step {} of {all}: {what}{left}", done + 1);
    // Whoever closed standard error has seen enough.
    let _ = if std::io::stderr().is_terminal() {
        write!(out, "\r\x1b[K{text}").and_then(|()| out.flush())
    } else {
        writeln!(out, "{text}")
    };
}

/// Takes the line away.
pub(super) fn clear() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_an_experiment_is_in_the_table() {
        for name in experiment::names() {
            let experiment = experiment::named(name).unwrap_or_else(|| panic!("{name} is read"));
            assert_eq!(published::figures(&experiment.figures).len(), experiment.figures.len(), "{name}");
            let publications: Vec<&str> =
                capacity::reproduce::FIGURES.lines().filter_map(|l| l.split('\t').nth(1)).collect();
            assert!(experiment.publication.is_none_or(|name| publications.contains(&name.as_str())), "{name}");
        }
        assert_eq!(price_of("c5n.2xlarge"), Some(0.432));
    }

    #[test]
    fn every_measured_figure_stands_beside_an_experiment() {
        let all: Vec<Experiment> = experiment::names().filter_map(experiment::named).collect();
        for row in capacity::reproduce::FIGURES.lines().skip(1) {
            let cells: Vec<&str> = row.split('\t').collect();
            let is_measured = cells.get(8).is_some_and(|verdict| verdict.contains("anchor"));
            let has = |experiment: &Experiment| experiment.figures.iter().any(|id| id == cells[0]);
            assert!(!is_measured || all.iter().any(has), "{row}");
        }
    }

    /// Words in backticks.
    fn quoted(text: &str) -> Vec<&str> {
        text.split('`').skip(1).step_by(2).collect()
    }

    /// Whether a command of the document is one: its options are read by what it runs.
    fn is_command(line: &str) -> bool {
        let Ok(matches) = crate::cli::Cli::of_all().try_get_matches_from(line.split_whitespace()) else { return false };
        let cli = <crate::cli::Cli as clap::FromArgMatches>::from_arg_matches(&matches);
        match cli.map(|cli| cli.command) {
            Ok(crate::cli::Command::Bench(args)) if args.list || args.profile.ends_with(".toml") => true,
            Ok(crate::cli::Command::Bench(args)) => {
                named(&args).is_ok_and(|experiment| args.refuse_unread(experiment.as_ref()).is_ok())
            }
            other => other.is_ok(),
        }
    }

    #[test]
    fn every_published_experiment_has_a_file_a_command_or_a_reason() {
        let text = include_str!("../../../../docs/experiments.md");
        for name in experiment::names().filter(|name| *name != "control-plane") {
            assert!(text.contains(&format!("`{name}`")), "{name} is not in docs/experiments.md");
        }
        let (_, tables) = text.split_once("## Every published experiment").expect("the tables");
        let rows = tables.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
        let rows: Vec<(&str, &str)> = rows.filter(|(what, _)| *what != "what it does").collect();
        assert!(rows.len() > 40, "{} rows", rows.len());
        for (what, here) in rows {
            let names = quoted(here);
            let is_name = |name: &&str| experiment::names().any(|known| known == *name);
            let is_gateway_command = |line: &str| line.starts_with("weir run") || line.contains('…');
            for line in names.iter().filter(|line| line.starts_with("weir ") && !is_gateway_command(line)) {
                let known = [
                    "weir compare",
                    "weir probe burst",
                    "weir probe broadband",
                    "weir plan",
                    "weir agent",
                    "weir gen",
                    "weir deploy aws",
                    "weir deploy kubernetes",
                ];
                assert!(is_command(line) || known.contains(line), "{what}: `{line}` is no command");
            }
            let is_answer = |name: &&str| is_name(name) || name.starts_with("weir ") || name.starts_with("crates/");
            let has_reason = here.split_once("no experiment").is_some_and(|(_, why)| why.len() > 15);
            assert!(names.iter().any(is_answer) || has_reason, "{what}: {here}");
        }
    }

    #[test]
    fn a_file_that_names_what_is_not_there_is_refused() {
        let file = std::env::temp_dir().join(format!("weir-experiment-{}.toml", std::process::id()));
        let text = experiment::text("upf-scale-up").expect("a file");
        for (from, to, key, help) in [
            ("\"E09\"", "\"E99\"", "figures.0", "weir plan reproduce"),
            ("port = \"memory\"", "machine = \"c5n.giant\"", "run.machine", "weir plan catalogue machines"),
        ] {
            std::fs::write(&file, text.replace(from, to)).expect("a file");
            let Err(LoadError::Wrong(wrong)) = from_file(&file) else { panic!("{to}") };
            assert!(wrong.key == key && wrong.help.as_deref().is_some_and(|said| said.contains(help)), "{wrong:?}");
        }
        std::fs::write(&file, text).expect("a file");
        assert_eq!(from_file(&file).expect("an experiment").name, "upf-scale-up");
        std::fs::remove_file(&file).expect("it was there");
    }
}
