//! weir: user planes for access networks. The one binary.
//!
//! | file | idea |
//! |---|---|
//! | `cli.rs` | the command line |
//! | `load.rs` | configuration, or an error that points at the key |
//! | `run.rs`, `process.rs`, `doors.rs` | a gateway as threads on ports |
//! | `rest.rs` | how the control thread sleeps |
//! | `observer.rs`, `watched.rs`, `asked.rs`, `session.rs` | looking on without disturbing |
//! | `socket.rs` | the control socket, both ends |
//! | `metrics.rs`, `watch.rs` | what monitoring reads: Prometheus, health, readiness; what is watched for events |
//! | `show.rs`, `trace.rs` | what operators see |
//! | `log.rs` | the event log: stderr, and the last thousand events |
//! | `cdr.rs` | charging records, out of a running gateway or its ledger |
//! | `ledger_tool.rs` | a damaged ledger: checking it, saving what can be read |
//! | `privilege.rs` | the helper that opens ports, and giving up every other privilege |
//! | `drain.rs`, `replica.rs` | one of many: leaving without loss, finding its share |
//! | `cable.rs` | the cable gateway: running it, its modems |
//! | `cp.rs` | a control plane from outside |
//! | `generate.rs` | traffic from outside |
//! | `bench.rs`, `demo.rs` | measuring, and showing |
//! | `plan.rs` | how many of which machine carry a network |
//! | `deploy.rs` | the files that bring them up |

#![forbid(unsafe_code)]

mod addresses;
mod asked;
mod bench;
mod cable;
mod cdr;
mod cli;
mod cp;
mod demo;
mod deploy;
mod doors;
mod drain;
mod fail;
mod followed;
mod functions;
mod generate;
mod ledger_tool;
mod load;
mod log;
mod metrics;
mod n4;
mod observer;
mod pcapng;
mod pin;
mod plan;
mod privilege;
mod process;
mod replica;
mod rest;
mod run;
mod session;
mod show;
mod signals;
mod snapshot;
mod socket;
mod tables;
mod trace;
mod watch;
mod watched;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

#[global_allocator]
static ALLOC: pages::Counting<mimalloc::MiMalloc> = pages::Counting(mimalloc::MiMalloc);

fn main() -> ExitCode {
    if let Some(ended) = privilege::main_of_helper() {
        return ended;
    }
    let done = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Show(args) => show::show(&args),
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
