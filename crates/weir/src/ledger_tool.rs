//! `weir ledger`: what is in a ledger that does not open, and saving what can be read of it.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use ledger::{Finding, Health};

use gateway::json::JsonOutput;
use gateway::tables::{bytes, count};

/// `weir ledger`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir ledger check /var/lib/weir
  weir ledger salvage /var/lib/weir/ledger.redb.damaged-20261123T204501 --to /var/lib/weir-salvaged
  weir cdr list --ledger /var/lib/weir-salvaged      the charging records that could be read

PATH is a ledger's folder, or its file. Neither command changes it. Stop the gateway that
has it open first.")]
pub struct LedgerArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What to do with a ledger.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Read everything; list the contents and the damage. Exit code 1 if there is damage.
    Check(CheckArgs),
    /// Write what can be read to a new ledger; list what was lost.
    Salvage(SalvageArgs),
}

/// `weir ledger check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The ledger's folder, or its file.
    pub path: PathBuf,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// `weir ledger salvage`.
#[derive(Debug, Args)]
pub struct SalvageArgs {
    /// The ledger's folder, or its file.
    pub path: PathBuf,
    /// The folder of the new ledger, which must not have one.
    #[arg(long, value_name = "FOLDER")]
    pub to: PathBuf,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// Runs `weir ledger check` or `weir ledger salvage`.
///
/// # Errors
/// A ledger that cannot be read at all, or is damaged (`check`); a folder that cannot be written.
pub fn run(args: &LedgerArgs) -> anyhow::Result<()> {
    match &args.what {
        What::Check(args) => {
            let health = ledger::check(&args.path)?;
            args.json.print(&health, || text(&health))?;
            if !health.is_whole() {
                bail!("the ledger is damaged; `weir ledger salvage` writes what can be read to a new one");
            }
        }
        What::Salvage(args) => {
            let salvaged = ledger::salvage(&args.path, &args.to)?;
            let lines = || text(&salvaged.found);
            args.json
                .print(&salvaged, || format!("{}what is readable is in {} now\n", lines(), salvaged.to.display()))?;
        }
    }
    Ok(())
}

fn text(health: &Health) -> String {
    let Health { path, bytes: size, killed, sessions, checkpoints, records, recovery, faults } = health;
    let closed = if *killed { "not closed by its last writer" } else { "closed" };
    let mut out = format!("{}: {}, {closed}\n", path.display(), bytes(*size));
    for (name, Finding { readable, outdated, lost }) in
        [("sessions", sessions), ("checkpoints", checkpoints), ("charging records", records)]
    {
        out += &format!("  {name:<17} {} readable", count(*readable));
        if *outdated > 0 {
            out += &format!(", {} possibly out of date", count(*outdated));
        }
        if *lost > 0 {
            out += &format!(", {} entries lost", count(*lost));
        }
        out.push('\n');
    }
    if let Some(recovery) = recovery {
        out += &format!("  recovery stamp    {recovery}\n");
    }
    match faults.is_empty() {
        true => out += "nothing is wrong\n",
        false => faults.iter().for_each(|fault| out += &format!("  wrong: {fault}\n")),
    }
    out
}
