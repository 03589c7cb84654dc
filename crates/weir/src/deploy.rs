//! `weir deploy`: the files that bring a planned network up. What is in them is the crate `deploy`; here are plans read
//! and files written.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use ::deploy::File;
use ::deploy::finding::Finding;
use ::deploy::fleet::{self, Fleet, Machine, Unit};
use ::deploy::settings::Settings;
use anyhow::{Context, bail};
use capacity::plan::{Answer, Candidate};
use capacity::question::{Gateway, Host};
use clap::{Args, Subcommand};
use serde::Deserialize;

use crate::plan::Plan;
use gateway::fail::Usage;
use gateway::load::{Hints, Rename};
use gateway::tables::many;

/// `weir deploy`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir deploy aws examples/plan-upf.toml --out stack        network, fleet, machine image
  weir deploy kubernetes examples/plan-upf.toml --out k8s   manifests and a Containerfile
  weir deploy kubernetes examples/plan-cmts.toml --out cable    a pod for each service group
  weir deploy aws PLAN.toml --machine c5n.4xlarge --out stack

The plan determines how many of which machine; its [deploy] section has the rest, with a default
for every key. Nothing is sent anywhere: files are written, after checks that linters lack.")]
pub struct DeployArgs {
    /// Target platform.
    #[command(subcommand)]
    pub to: To,
}

/// Where a network can be brought up.
#[derive(Debug, Subcommand)]
pub enum To {
    /// AWS: CloudFormation templates, parameters, a machine image's recipe.
    Aws(What),
    /// A Kubernetes cluster: manifests and a Containerfile.
    Kubernetes(What),
}

/// Which plan, where to.
#[derive(Debug, Args)]
pub struct What {
    /// The plan.
    #[arg(value_name = "PLAN.toml")]
    pub plan: PathBuf,
    /// The folder that files are written to; created if it does not exist.
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// The instance type or server, instead of the plan's deploy.machine or the cheapest.
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Overwrite existing files.
    #[arg(long)]
    pub force: bool,
}

/// What of a plan's file is about this.
#[derive(Debug, Default, Deserialize)]
struct Section {
    #[serde(default)]
    deploy: Settings,
}

/// Runs `weir deploy`.
///
/// # Errors
/// A plan that is wrong, that no machine answers, or that cannot be brought up there, pointing at the key.
pub fn run(args: &DeployArgs) -> anyhow::Result<()> {
    let (what, provider) = match &args.to {
        To::Aws(what) => (what, Some("aws")),
        To::Kubernetes(what) => (what, None),
    };
    let plan = Plan::read(&what.plan)?;
    let fleet = fleet(&plan, what.machine.as_deref(), provider)?;
    let files = match args.to {
        To::Aws(_) => ::deploy::aws::files(&fleet),
        To::Kubernetes(_) => ::deploy::kubernetes::files(&fleet),
    };
    let files = files.map_err(|found| wrong(&plan, &found))?;
    write(&what.out, &files, what.force)?;
    let machines = many(fleet.machines as usize, "machine");
    println!(
        "{}: {machines} of {}, {} on each, {}",
        fleet.settings.name,
        fleet.machine.name,
        many(fleet.gateways() as usize, "gateway"),
        match fleet.fixed() {
            Some(all) => format!("{} in all", many(all as usize, "gateway")),
            None => format!("up to {}", many(fleet.most_machines() as usize, "machine")),
        },
    );
    for file in &files {
        println!("  {}", what.out.join(&file.name).display());
    }
    Ok(())
}

/// Keys that have a new name.
const RENAMED: &[Rename] = &[Rename::new("Settings", "slots", "packet_buffers")];

/// The fleet that a plan answers with.
fn fleet(plan: &Plan, machine: Option<&str>, provider: Option<&str>) -> anyhow::Result<Fleet> {
    let Section { deploy: settings } = plan.text.parse_with(Hints { renamed: RENAMED, ..Hints::default() })?;
    let settings = of_the_plan(settings, plan)?;
    let answer = plan.answer(&[])?;
    let wanted = machine.or(settings.machine.as_deref());
    let of_provider = |candidate: &&Candidate| provider.is_none_or(|provider| candidate.provider == provider);
    let found = match wanted {
        Some(name) => answer.candidates.iter().find(|candidate| candidate.machine == name),
        None => answer.candidates.iter().find(of_provider),
    };
    let Some(candidate) = found else {
        let (path, what) = not_found(&answer, wanted, provider);
        // A name from the command line stands in no file.
        if machine.is_some() {
            bail!(Usage(format!("--machine: {what}")));
        }
        bail!(plan.text.at(&path, what, "see weir plan --all for every machine and why not"));
    };
    let known = plan.world.machines.iter().find(|machine| machine.name == candidate.machine);
    let known = known.context("a candidate is one of the machines there are")?;
    let question = &plan.question;
    let unit = &answer.unit;
    Ok(Fleet {
        gateway: match question.gateway {
            Gateway::Upf => fleet::Gateway::Upf,
            Gateway::Cmts => fleet::Gateway::Cmts,
            Gateway::Bng => fleet::Gateway::Bng,
        },
        groups: answer.demand.groups,
        machine: Machine {
            name: known.name.clone(),
            provider: known.provider.clone(),
            is_arm: known.arch.as_deref() == Some("arm64"),
            vcpus: known.vcpus,
            interfaces: known.interfaces,
            queues: known.queues,
            memory_mib: known.memory.map(|memory| (memory.0 / 1024.0 / 1024.0) as u64),
        },
        unit: Unit {
            vcpus: unit.vcpus,
            interfaces: unit.interfaces,
            queues: unit.queues,
            share_interfaces: unit.share_interfaces,
            admin_interfaces: unit.admin_interfaces,
            reserved_vcpus: unit.reserved_vcpus,
        },
        units: candidate.units,
        needed: candidate.needed,
        machines: candidate.machines,
        subscribers: answer.demand.subscribers.map(|count| count.0.ceil() as u64),
        zones: question.failure.zones.max(1),
        cluster: question.placement.cluster && question.failure.zones <= 1,
        dedicated: question.placement.host == Host::Dedicated,
        settings,
    })
}

/// The fleet's bounds are the plan's where it has them; what `[deploy]` says otherwise is a contradiction.
fn of_the_plan(mut settings: Settings, plan: &Plan) -> anyhow::Result<Settings> {
    let Some(auto) = &plan.question.autoscale else { return Ok(settings) };
    let default = Settings::default();
    let contradicts = |key: &str, here: String, there: String| {
        let what = format!("{here} contradicts autoscale.{key}, {there}");
        plan.text.at(&["deploy".to_owned(), key.to_owned()], what, "leave it out: the plan's counts")
    };
    if let Some(load) = auto.target_load {
        if settings.target_load != default.target_load && settings.target_load != load {
            bail!(contradicts("target_load", settings.target_load.to_string(), load.to_string()));
        }
        settings.target_load = load;
    }
    if let Some(least) = auto.least_machines {
        if settings.least_machines != default.least_machines && settings.least_machines != least {
            bail!(contradicts("least_machines", settings.least_machines.to_string(), least.to_string()));
        }
        settings.least_machines = least;
    }
    if let Some(most) = auto.most_machines {
        if let Some(other) = settings.most_machines.filter(|other| *other != most) {
            bail!(contradicts("most_machines", other.to_string(), most.to_string()));
        }
        settings.most_machines = Some(most);
    }
    Ok(settings)
}

/// Where a machine was asked for, and why it is none.
fn not_found(answer: &Answer, wanted: Option<&str>, provider: Option<&str>) -> (Vec<String>, String) {
    let path = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    match wanted {
        Some(name) => {
            let refused = answer.refused.iter().find(|refused| refused.machine == name);
            let why = refused.map_or_else(
                || format!("no machine of the plan is called {name}"),
                |refused| format!("{name} cannot carry it: {}, {}", refused.refusal, refused.why),
            );
            (path(&["deploy", "machine"]), why)
        }
        None => {
            let of = provider.map_or_else(String::new, |provider| format!(" of {provider}"));
            (path(&["points"]), format!("no machine{of} is known to carry it"))
        }
    }
}

/// The first finding, at its key of the plan; the others are said with it.
fn wrong(plan: &Plan, found: &[Finding]) -> anyhow::Error {
    let Some((first, rest)) = found.split_first() else { return anyhow::anyhow!("nothing was written") };
    let mut help = first.help.clone();
    for finding in rest {
        help += &format!("\nand {finding}");
    }
    plan.text.at(&first.path, first.what.clone(), help).into()
}

fn write(out: &Path, files: &[File], force: bool) -> anyhow::Result<()> {
    // Nothing is written over by half.
    let there = files.iter().map(|file| out.join(&file.name)).find(|path| path.exists());
    if let (Some(path), false) = (there, force) {
        bail!(Usage(format!("{} is there already: another --out, or --force", path.display())));
    }
    std::fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    for file in files {
        let path = out.join(&file.name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        std::fs::write(&path, &file.text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}
