//! weir, the binary: the list of gateways, and the commands around them.
//!
//! | file | content |
//! |---|---|
//! | `cli.rs` | the command line |
//! | `cdr.rs` | charging records of a running gateway or of its ledger |
//! | `ledger_tool.rs` | checking a damaged ledger, and saving what can be read |
//! | `fastpath.rs` | in-kernel paths that stay when their process ends |
//! | `generate.rs` | traffic from outside |
//! | `lab.rs` | the networks around the examples |
//! | `bench.rs`, `demo.rs` | benchmarks, and the demonstration |
//! | `probe.rs` | what this machine carries, as a certificate |
//! | `compare.rs` | results of benchmarks beside each other |
//! | `report.rs` | results of benchmarks as a page |
//! | `page/` | what pages are made of: style, tables, charts |
//! | `plan.rs` | the number of machines that carry a network |
//! | `deploy.rs` | the files that bring a planned network up |
//! | `outputs.rs` | schemas of what the commands around gateways print |
//! | `install.rs` | manual pages and shell completions |

#![forbid(unsafe_code)]

mod agent;
mod bench;
mod cdr;
mod cli;
mod compare;
#[cfg(test)]
mod config_tests;
#[cfg(test)]
mod connected_tests;
mod demo;
mod deploy;
#[cfg(test)]
mod event_catalogue;
mod fastpath;
mod generate;
mod install;
mod lab;
mod ledger_tool;
#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod monitoring_tests;
mod outputs;
mod plan;
mod probe;
#[cfg(test)]
mod reload_keys;
mod report;
#[cfg(test)]
mod shell_tests;

use std::process::ExitCode;

use bng::product::BngGateway;
use cli::{Cli, Command};
use cmts::product::CmtsGateway;
use gateway::{GatewayEntry, Registry, fail, log, privilege};
use upf::product::UpfGateway;

#[global_allocator]
static ALLOC: pages::Counting<mimalloc::MiMalloc> = pages::Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    if let Some(ended) = privilege::main_of_helper() {
        return ended;
    }
    port_dpdk::register();
    let done = match Cli::read().command {
        Command::Shell(gateway::cli::Command::Schema(args)) => {
            gateway::outputs::schema(&args, GATEWAYS.0, outputs::OUTPUTS)
        }
        Command::Shell(command) => GATEWAYS.perform(&command),
        Command::Cmts(args) => cmts::product::cmts(&args),
        Command::Subscriber(args) => bng::product::subscriber(&args),
        Command::Move(args) => bng::product::move_group(&args),
        Command::Cdr(args) => cdr::cdr(&args),
        Command::Ledger(args) => ledger_tool::run(&args),
        Command::Fastpath(args) => fastpath::run(&args),
        Command::Cp(args) => cpsim::run(&args),
        Command::Gen(args) => generate::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Deploy(args) => deploy::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Completions(args) => install::completions(&args),
        Command::Man(args) => install::man(&args),
    };
    log::flush();
    fail::exit(done)
}

/// The gateways there are.
const GATEWAYS: Registry =
    Registry(&[GatewayEntry::of::<UpfGateway>(), GatewayEntry::of::<CmtsGateway>(), GatewayEntry::of::<BngGateway>()]);
