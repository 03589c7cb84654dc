//! `weir lab`: the network around an example, made of namespaces and virtual links.
//!
//! | file | content |
//! |---|---|
//! | `networks.rs` | what each example needs, and commands to try |

mod networks;

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use gateway::fail::Usage;
use gateway::json::JsonOutput;
use schemars::JsonSchema;
use serde::Serialize;

use networks::{NETWORKS, Network};

/// Begins the name of every namespace that a lab makes.
const PREFIX: &str = "weir-lab";

/// `weir lab`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir lab up upf-packet         makes the network of examples/upf-packet.toml
  sudo weir lab up bng                links for access lines behind two VLAN tags, and for the core
  sudo weir lab down bng              removes all of it
  weir lab list                       the examples that have a network

`up` prints what it made and three commands to try. Names are those of the files in examples/,
with or without .toml. Nothing outside the namespaces is changed.")]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
    /// Begins the names of namespaces, so that tests do not meet a lab that is up.
    #[arg(long, global = true, hide = true, default_value = PREFIX)]
    prefix: String,
    #[command(flatten)]
    json: JsonOutput,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Make the network of an example.
    Up {
        /// The example's file name.
        name: String,
    },
    /// Remove it.
    Down {
        /// The example's file name.
        name: String,
    },
    /// List the examples that have a network.
    List,
}

/// A network that was made or removed, or could be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LabView {
    /// The example.
    pub name: String,
    /// What it is, in a sentence.
    pub help: String,
    /// Namespaces.
    pub namespaces: Vec<String>,
    /// Commands that make the network, in this order; all in those namespaces.
    pub made_by: Vec<String>,
    /// Commands to try.
    pub commands: Vec<String>,
}

/// Makes, removes or lists networks.
///
/// # Errors
/// No such example, no privilege, a network that is up already or that a process still uses.
pub fn run(args: &LabArgs) -> anyhow::Result<()> {
    let (views, text) = match &args.command {
        LabCommand::Up { name } => {
            let view = view(find(name)?, &args.prefix);
            up(&view)?;
            (vec![view.clone()], made(&view))
        }
        LabCommand::Down { name } => {
            let view = view(find(name)?, &args.prefix);
            down(&view)?;
            (vec![view.clone()], format!("removed {}\n", view.namespaces.join(", ")))
        }
        LabCommand::List => {
            let views: Vec<LabView> = NETWORKS.iter().map(|network| view(network, &args.prefix)).collect();
            let text = views.iter().map(|view| format!("  {:<12} {}\n", view.name, view.help)).collect();
            (views, text)
        }
    };
    args.json.print(&views, || text)
}

fn find(name: &str) -> anyhow::Result<&'static Network> {
    let stem = name.rsplit('/').next().unwrap_or(name);
    let stem = stem.strip_suffix(".toml").unwrap_or(stem);
    let found = NETWORKS.iter().find(|network| network.name == stem);
    found.with_context(|| {
        let all: Vec<&str> = NETWORKS.iter().map(|network| network.name).collect();
        Usage(format!("\"{name}\" is an unknown example; allowed: {}", all.join(", ")))
    })
}

/// The namespace of an end: of `gw` it is `weir-lab-bng-gw`.
fn namespace(network: &Network, end: &str, prefix: &str) -> String {
    format!("{prefix}-{}-{end}", network.name)
}

/// What makes a network, with full names.
fn view(network: &Network, prefix: &str) -> LabView {
    let namespaces: Vec<String> = network.ends.iter().map(|end| namespace(network, end, prefix)).collect();
    let mut made_by: Vec<String> = Vec::new();
    for name in &namespaces {
        made_by.push(format!("ip netns add {name}"));
        made_by.push(format!("ip -n {name} link set lo up"));
    }
    for link in network.links {
        let [near, far] = [link.gateway, link.far].map(|(end, interface)| (namespace(network, end, prefix), interface));
        let queues = format!("numtxqueues {0} numrxqueues {0}", network.queues);
        let (one, other) = (format!("{} {queues}", near.1), format!("{} {queues} netns {}", far.1, far.0));
        made_by.push(format!("ip -n {} link add {one} type veth peer name {other}", near.0));
        // No address of its own: nothing is sent on it but what the example sends.
        for (name, interface) in [near, far] {
            if !link.is_kernel {
                made_by.push(format!("ip -n {name} link set {interface} addrgenmode none"));
            }
            made_by.push(format!("ip -n {name} link set {interface} up"));
        }
    }
    let filled = |line: &&str| fill(network, line, prefix);
    made_by.extend(network.setup.iter().map(filled));
    let commands = network.commands.iter().map(filled).collect();
    LabView { name: network.name.to_owned(), help: network.help.to_owned(), namespaces, made_by, commands }
}

/// A line with `{END}` as the namespace of that end.
fn fill(network: &Network, line: &str, prefix: &str) -> String {
    let fill = |line: String, end: &&str| line.replace(&format!("{{{end}}}"), &namespace(network, end, prefix));
    network.ends.iter().fold(line.to_owned(), fill)
}

/// Makes it; all of it, or nothing.
fn up(view: &LabView) -> anyhow::Result<()> {
    let there = existing()?;
    if let Some(name) = view.namespaces.iter().find(|name| there.contains(name)) {
        bail!("namespace {name} exists already: `weir lab down {}` removes it", view.name);
    }
    // Only what was made here is taken away again: another may be bringing it up, too.
    let mut made: Vec<&str> = Vec::new();
    for line in &view.made_by {
        if let Err(error) = ip(line) {
            for name in made {
                let _ = ip(&format!("ip netns del {name}"));
            }
            return Err(error);
        }
        made.extend(line.strip_prefix("ip netns add "));
    }
    Ok(())
}

/// Removes it, unless somebody still uses it.
fn down(view: &LabView) -> anyhow::Result<()> {
    let there = existing()?;
    let found: Vec<&String> = view.namespaces.iter().filter(|name| there.contains(name)).collect();
    if found.is_empty() {
        bail!("{} is not up", view.name);
    }
    let mut busy = String::new();
    for name in &found {
        for process in ip(&format!("ip netns pids {name}"))?.split_whitespace() {
            let what = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            let _ = write!(busy, "{}{process} ({})", if busy.is_empty() { "" } else { ", " }, what.trim());
        }
    }
    if !busy.is_empty() {
        bail!("processes still run in it, end them first: {busy}");
    }
    found.iter().try_for_each(|name| ip(&format!("ip netns del {name}")).map(drop))
}

/// Names of all namespaces.
fn existing() -> anyhow::Result<Vec<String>> {
    let listed = ip("ip netns list")?;
    Ok(listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

/// Runs a command; what it printed.
fn ip(line: &str) -> anyhow::Result<String> {
    let mut words = line.split_whitespace();
    let out = Command::new(words.next().unwrap_or("ip")).args(words).output();
    let out = out.context("`ip` does not run; it is in package iproute2")?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        let root = if rustix::process::geteuid().is_root() { "" } else { "; namespaces are made by root: use sudo" };
        bail!("{line}: {said}{root}");
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// What was made, and what to try.
fn made(view: &LabView) -> String {
    let mut out = format!("{}\n\nnamespaces  {}\n", view.help, view.namespaces.join(" "));
    for line in view.made_by.iter().filter(|line| line.contains(" type ") || line.contains(" address ")) {
        let _ = writeln!(out, "  {line}");
    }
    out += "\ntry, each in a terminal of its own:\n";
    for line in &view.commands {
        let _ = writeln!(out, "  sudo {line}");
    }
    let _ = writeln!(out, "\nsudo weir lab down {} removes all of it", view.name);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_of_a_gateway_has_a_network() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for path in names.filter(|path| path.extension().is_some_and(|end| end == "toml")) {
            let text = fs::read_to_string(&path).unwrap();
            if text.lines().any(|line| line == "[[port]]") {
                let name = path.file_name().unwrap().to_str().unwrap();
                let network = find(name).unwrap();
                // Its interfaces are those that the example opens.
                for link in network.links.iter().filter(|link| link.gateway.0 == "gw" && !link.is_kernel) {
                    assert!(text.contains(&format!(":{}", link.gateway.1)), "{name}: {}", link.gateway.1);
                }
            }
        }
    }

    #[test]
    fn names_are_valid_and_lines_are_complete() {
        for network in NETWORKS {
            let view = view(network, PREFIX);
            // IFNAMSIZ, 16 with its end.
            assert!(network.links.iter().all(|link| link.gateway.1.len() < 16 && link.far.1.len() < 16));
            assert!(view.commands.len() >= 3, "{}", view.name);
            for line in view.made_by.iter().chain(&view.commands) {
                assert!(!line.contains('{') && !line.contains('}'), "{line}");
            }
        }
        assert!(find("examples/bng.toml").is_ok() && find("plan-upf").is_err());
    }
}
