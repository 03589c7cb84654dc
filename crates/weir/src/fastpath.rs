//! `weir fastpath`: in-kernel paths that stay when their process ends, and taking away what dead ones have left.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use gateway::fast_path::{Cleared, KernelPaths, PathInterface, clear, look};
use gateway::json::JsonOutput;
use gateway::tables::{Table, count};

/// `weir fastpath`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir fastpath show              interfaces, whether their process lives, sessions
  sudo weir fastpath clear             takes off what dead processes have left
  sudo weir fastpath clear eth0        the same of one interface

No gateway need run. A gateway with fast_path and keep_seconds has its interfaces' programs
go on without it; see docs/ports.md. What a living process has is left alone: with --force
its names go, and what it forwards in the kernel ends with it.")]
pub struct FastPathArgs {
    /// What to do.
    #[command(subcommand)]
    pub what: What,
}

/// What to do with in-kernel paths.
#[derive(Debug, Subcommand)]
pub enum What {
    /// List interfaces whose programs stay when their process ends.
    Show(ShowArgs),
    /// Take off the programs of interfaces whose process is dead.
    Clear(ClearArgs),
}

/// Where to look.
#[derive(Debug, Args)]
pub struct Folder {
    /// The folder of the BPF file system, as in the gateway's fast_path.bpf_folder.
    #[arg(long, value_name = "FOLDER", default_value = "/sys/fs/bpf")]
    pub bpf_folder: PathBuf,
}

/// `weir fastpath show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Where to look.
    #[command(flatten)]
    pub folder: Folder,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// `weir fastpath clear`.
#[derive(Debug, Args)]
pub struct ClearArgs {
    /// The interface; all of them where none is named.
    pub interface: Option<String>,
    /// Its network namespace, as `ip netns` has it.
    #[arg(long, value_name = "NAME", requires = "interface")]
    pub netns: Option<String>,
    /// Of living processes, too.
    #[arg(long)]
    pub force: bool,
    /// Where to look.
    #[command(flatten)]
    pub folder: Folder,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
}

/// Runs `weir fastpath show` or `weir fastpath clear`.
///
/// # Errors
/// A folder of no BPF file system, or that cannot be read; `clear`: no such interface, or its process lives.
pub fn run(args: &FastPathArgs) -> anyhow::Result<()> {
    let reading = |folder: &Folder| format!("reading {}", folder.bpf_folder.display());
    match &args.what {
        What::Show(args) => {
            let found = look(&args.folder.bpf_folder).with_context(|| reading(&args.folder))?;
            args.json.print(&found, || shown(&found))
        }
        What::Clear(args) => {
            let is_meant = |view: &PathInterface| {
                args.interface.is_none() || view.interface == args.interface && view.namespace == args.netns
            };
            let done = clear(&args.folder.bpf_folder, is_meant, args.force).with_context(|| reading(&args.folder))?;
            if let Some(name) = args.interface.as_ref().filter(|_| done.cleared.is_empty() && done.left.is_empty()) {
                bail!("interface {name} has no program that stays; `weir fastpath show` lists those that have");
            }
            args.json.print(&done, || cleared(&done))?;
            match done.left.first().filter(|_| args.interface.is_some()) {
                Some(view) => bail!("the process of {} lives; --force clears it all the same", name(view)),
                None => Ok(()),
            }
        }
    }
}

/// An interface, for people.
fn name(view: &PathInterface) -> String {
    match (&view.interface, &view.namespace) {
        (Some(interface), Some(namespace)) => format!("{interface} in {namespace}"),
        (Some(interface), None) => interface.clone(),
        (None, _) => format!("interface {}", view.ifindex),
    }
}

fn shown(found: &KernelPaths) -> String {
    if found.interfaces.is_empty() {
        return format!("{}: no interface has a program that stays\n", found.bpf_folder);
    }
    let heads = [
        "interface",
        "program",
        ">loaded",
        "process",
        ">heard of",
        "forwards",
        ">sessions",
        ">up",
        ">down",
        ">refused",
        ">answered",
        ">dropped",
    ];
    let mut table = Table::new(&heads);
    for view in &found.interfaces {
        let ago = |seconds: f64| format!("{seconds:.0} s ago");
        let program = view.program.as_ref();
        let mut row = vec![
            name(view) + if view.attached { "" } else { " (gone)" },
            program.map_or_else(|| "none".to_owned(), |program| program.name.clone()),
            program.map_or_else(String::new, |program| ago(program.age_seconds)),
        ];
        row.extend(match &view.path {
            None => vec!["not known".to_owned(), String::new(), String::new(), String::new()],
            Some(path) => vec![
                format!("{} {} {}", path.gateway, path.owner.pid, if path.owner.alive { "lives" } else { "dead" }),
                ago(path.heard_seconds),
                if path.forwards { "yes" } else { "no" }.to_owned(),
                count(path.sessions),
            ],
        });
        let counts = view.path.as_ref().map(|path| {
            let alone = &path.alone;
            let answered = alone.answered_arp + alone.answered_neighbour + alone.answered_echo;
            [path.up_packets, path.down_packets, path.refused_packets, answered, alone.dropped + alone.limited]
        });
        row.extend(counts.map_or_else(|| vec![String::new(); 5], |counts| counts.map(count).to_vec()));
        table.row(row);
    }
    table.render(gateway::tables::Style::of_stdout())
}

fn cleared(done: &Cleared) -> String {
    let mut out: String = done.cleared.iter().map(|view| format!("cleared {}\n", name(view))).collect();
    for view in &done.left {
        out += &format!("left {}: its process lives (--force clears it all the same)\n", name(view));
    }
    if out.is_empty() { format!("{}: nothing to clear\n", done.bpf_folder) } else { out }
}
