//! The command line and its help.

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::agent::AgentArgs;
use crate::bench::BenchArgs;
use crate::cdr::CdrArgs;
use crate::compare::CompareArgs;
use crate::demo::DemoArgs;
use crate::deploy::DeployArgs;
use crate::fastpath::FastPathArgs;
use crate::generate::GenArgs;
use crate::install::{CompletionsArgs, ManArgs};
use crate::lab::LabArgs;
use crate::ledger_tool::LedgerArgs;
use crate::plan::PlanArgs;
use crate::probe::ProbeArgs;
use crate::report::ReportArgs;
use bng::product::{MoveArgs, SubscriberArgs};
use cmts::product::CmtsArgs;
use cpsim::CpArgs;

/// weir: a user plane for access networks.
#[derive(Debug, Parser)]
#[command(name = "weir", version, about = "A user plane for access networks.", after_help = MAP, max_term_width = WIDTH)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The command line, with what all gateways add to it.
    pub fn of_all() -> clap::Command {
        crate::GATEWAYS.command(Self::command())
    }

    /// What was asked for; ends the process where that is nothing.
    pub fn read() -> Self {
        for (old, new) in FORMER_OPTIONS {
            let is_old = |word: &std::ffi::OsString| word.to_string_lossy().split('=').next() == Some(old);
            if std::env::args_os().any(|word| is_old(&word)) {
                eprintln!("warning: {old} is now {new}; the former name is read for one release");
            }
        }
        let matches = Self::of_all().get_matches_from(gateway::json::with_json_files(std::env::args_os()));
        let mut cli = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        if let Command::Shell(command) = &mut cli.command {
            crate::GATEWAYS.read_keys(command, &matches);
        }
        cli
    }
}

/// Options under their former names, which this release still reads.
const FORMER_OPTIONS: [(&str, &str); 2] = [("--within", "--tolerance"), ("--patience", "--timeout")];

/// Columns of help, at most.
const WIDTH: usize = 100;

const MAP: &str = "\
How they fit together:
  weir run gateway.toml    forwards packets between its ports until stopped
     ├─ weir show …        inspects the running gateway: costs, drops, sessions, peers, ports
     ├─ weir top           watches it full screen: rates with history, costs, drops, sessions
     ├─ weir trace …       follows one subscriber's packets through its stages
     ├─ weir log …         sets its log levels while it runs; weir show log reads its events
     ├─ weir reload …      reads its configuration again and applies what can change while it runs
     ├─ weir drain …       refuses new sessions, and waits until the last one has ended
     ├─ weir config …      prints the schema and the reference of its configuration
     ├─ weir schema …      prints the JSON schema of what a command prints with --json
     ├─ weir cmts …        adds, changes and removes modems of a cable gateway, flows and keys
     ├─ weir subscriber …  shows a subscriber of a broadband gateway, ends its leases
     ├─ weir move …        moves a subscriber group of a broadband gateway to another worker
     ├─ weir cdr …         lists and exports its charging records, also when it does not run
     ├─ weir ledger …      checks a ledger that does not open, and saves what can be read
     └─ weir fastpath …    lists and clears in-kernel paths that stay when their process ends
  weir cp cp.toml          simulates a control plane: sessions over PFCP, and their usage
  weir gen load.toml       sends signed traffic through it from outside and checks it
  weir bench upf-128       builds gateway, traffic and network itself, and measures
  weir probe quick         measures what this machine carries: a signed certificate, for plans
  weir agent :4780         counts and sends on another host, for weir probe and weir gen
  weir compare A B         compares two results, or sets of them, stage by stage
  weir report RESULTS      writes results as one page, with charts and caveats
  weir plan PLAN.toml      computes how many of which machine carry a network, at what cost
  weir deploy aws …        writes the files that bring them up
  weir demo                runs gateway, control plane and traffic, with live figures
  weir lab up EXAMPLE      makes the network around an example, with commands to try
  weir completions SHELL   writes shell completions; weir man FOLDER writes manual pages

Run a gateway, and see what each stage costs, every two seconds:
  sudo weir run examples/upf-packet.toml
  sudo weir show run --watch 2

Where do one subscriber's packets go?
  sudo weir trace --ue 10.60.0.1 --packets 3
  sudo weir show drops

Exit codes: 0 success, 1 failure, 2 the command line or a configuration is invalid.";

/// What there is to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Commands of every gateway.
    #[command(flatten)]
    Shell(gateway::cli::Command),
    /// Modems, service flows and keys of a running cable gateway.
    Cmts(CmtsArgs),
    /// Show a subscriber of a running broadband gateway, or end its leases.
    Subscriber(SubscriberArgs),
    /// Move a subscriber group of a running broadband gateway to another worker.
    Move(MoveArgs),
    /// List and export charging records.
    Cdr(CdrArgs),
    /// Check a ledger, and save what can be read of a damaged one.
    Ledger(LedgerArgs),
    /// List and clear in-kernel paths that stay when their process ends.
    Fastpath(FastPathArgs),
    /// Simulate a control plane: establish sessions by PFCP, modify them, collect their usage.
    Cp(Box<CpArgs>),
    /// Send signed traffic through a gateway, and check what arrives.
    Gen(Box<GenArgs>),
    /// Measure a gateway: the cost of a packet, on any kind of port.
    Bench(Box<BenchArgs>),
    /// Measure what this machine carries, as a signed certificate for plans and gateways.
    Probe(Box<ProbeArgs>),
    /// Count and send packets for a probe on another host.
    Agent(AgentArgs),
    /// Compare results of benchmarks, stage by stage; exit code 1 when something is worse.
    Compare(CompareArgs),
    /// Write results of benchmarks as one page.
    Report(ReportArgs),
    /// Plan a network: how many of which machine carry it, what limits them, what they cost.
    Plan(PlanArgs),
    /// Write the files that bring a planned network up: CloudFormation, or Kubernetes manifests.
    Deploy(DeployArgs),
    /// Run a demonstration: gateway, control plane, traffic, and live figures.
    Demo(DemoArgs),
    /// Make the network around an example, in namespaces, or remove it.
    Lab(LabArgs),
    /// Write a shell's completions to standard output.
    Completions(CompletionsArgs),
    /// Write manual pages into a folder.
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::of_all().debug_assert();
    }

    #[test]
    fn every_command_is_on_the_map_and_has_an_example() {
        for command in Cli::of_all().get_subcommands() {
            let example = format!("weir {}", command.get_name());
            assert!(MAP.contains(&example), "{example} is not on the map");
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&example), "{example} has no example");
        }
    }

    #[test]
    fn nothing_that_stands_in_columns_is_wrapped() {
        let mut commands = vec![Cli::of_all()];
        while let Some(command) = commands.pop() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                assert!(line.chars().count() <= WIDTH, "{}: {line}", command.get_name());
            }
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
