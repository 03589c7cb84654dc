//! weir: user planes for access networks. The one binary.
//!
//! | file | idea |
//! |---|---|
//! | `cli.rs` | the command line |
//! | `load.rs` | configuration, or an error that points at the key |
//! | `shell.rs` | the process around every gateway's workers, `weir run` |
//! | `user_plane.rs`, `cable.rs` | the gateways: how each is started, its control side |
//! | `socket.rs` | the control socket, both ends |
//! | `metrics.rs`, `watch.rs` | what monitoring reads: Prometheus, health, readiness; what is watched for events |
//! | `show.rs`, `trace.rs` | what operators see |
//! | `log.rs` | the event log: stderr, and the last thousand events |
//! | `cdr.rs` | charging records, out of a running gateway or its ledger |
//! | `ledger_tool.rs` | a damaged ledger: checking it, saving what can be read |
//! | `privilege.rs` | the helper that opens ports, and giving up every other privilege |
//! | `drain.rs` | one of many: leaving without loss |
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
mod drain;
mod fail;
mod generate;
mod ledger_tool;
mod load;
mod log;
mod metrics;
mod pcapng;
mod plan;
mod privilege;
mod shell;
mod show;
mod signals;
mod snapshot;
mod socket;
mod tables;
mod trace;
mod user_plane;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use cable::Cable;
use cli::{Cli, Command, RunArgs};
use load::Text;
use shell::Gateway;
use user_plane::UserPlane;

#[global_allocator]
static ALLOC: pages::Counting<mimalloc::MiMalloc> = pages::Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    if let Some(ended) = privilege::main_of_helper() {
        return ended;
    }
    let done = match Cli::parse().command {
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
