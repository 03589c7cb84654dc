//! weir: user planes for access networks. The one binary.
//!
//! | file | idea |
//! |---|---|
//! | `cli.rs` | the command line |
//! | `user_plane.rs`, `cable.rs` | the gateways: how each is started, its control side |
//! | `trace.rs` | one subscriber's packets, stage by stage |
//! | `cdr.rs` | charging records, out of a running gateway or its ledger |
//! | `ledger_tool.rs` | a damaged ledger: checking it, saving what can be read |
//! | `cp.rs` | a control plane from outside |
//! | `generate.rs` | traffic from outside |
//! | `bench.rs`, `demo.rs` | measuring, and showing |
//! | `plan.rs` | how many of which machine carry a network |
//! | `deploy.rs` | the files that bring them up |

#![forbid(unsafe_code)]

mod bench;
mod cable;
mod cdr;
mod cli;
mod cp;
mod demo;
mod deploy;
mod generate;
mod ledger_tool;
#[cfg(test)]
mod load_tests;
mod pcapng;
mod plan;
#[cfg(test)]
mod shell_tests;
mod trace;
mod user_plane;

use std::process::ExitCode;

use cable::Cable;
use cli::{Cli, Command};
use gateway::cli::RunArgs;
use gateway::load::Text;
use gateway::shell::Gateway;
use gateway::{drain, fail, log, privilege, shell, show};
use user_plane::UserPlane;

#[global_allocator]
static ALLOC: pages::Counting<mimalloc::MiMalloc> = pages::Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    if let Some(ended) = privilege::main_of_helper() {
        return ended;
    }
    let done = match Cli::read().command {
        Command::Run(args) => run(&args),
        Command::Show(args) => show::show(&args, &views()),
        Command::Trace(args) => trace::trace(&args),
        Command::Drain(args) => drain::drain(&args),
        Command::Log(args) => log::log(&args),
        Command::Cmts(args) => cable::cmts(&args),
        Command::Cdr(args) => cdr::cdr(&args),
        Command::Ledger(args) => ledger_tool::run(&args),
        Command::Cp(args) => cp::run(&args),
        Command::Gen(args) => generate::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Deploy(args) => deploy::run(&args),
        Command::Demo(args) => demo::run(&args),
    };
    log::flush();
    fail::exit(done)
}

/// Runs the gateway that a configuration's text describes.
type Run = fn(&RunArgs, Text) -> anyhow::Result<()>;

/// The gateways there are, by what configurations call them.
const GATEWAYS: &[(&str, Run)] = &[(UserPlane::NAME, shell::run::<UserPlane>), (Cable::NAME, shell::run::<Cable>)];

/// `weir run`: the gateway that the configuration names; where it names none, the first says so.
fn run(args: &RunArgs) -> anyhow::Result<()> {
    let text = Text::read(&args.config)?;
    let named = text.gateway();
    let found = GATEWAYS.iter().find(|(name, _)| Some(*name) == named.as_deref());
    let (_, run) = found.unwrap_or(&GATEWAYS[0]);
    run(args, text)
}

/// The tables of all gateways.
fn views() -> Vec<show::View> {
    [show::VIEWS, user_plane::VIEWS, cable::VIEWS].concat()
}
