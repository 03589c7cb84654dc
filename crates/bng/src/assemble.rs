//! From a configuration to workers ready to run, and the control side that holds their other ends.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use dataplane::acl::LiveLists;
use dataplane::config::{ConfigError, wrong};
use dataplane::nat::{self, Nat};
use engine::{HandOff, Outside, Owner, Steer};
use frame::Caps;
use gateway::records::Opening;
use port::flows::Flows;
use table::command;
use table::ring::ring;
use table::snapshot::Publisher;
use table::waker::Waker;

use crate::config::{Config, Layout};
use crate::control::{Control, Link};
use crate::gateway::{BroadbandGateway, Parts};
use crate::pipeline::Choices;
use crate::sessions::{BadSessions, Environment, Sessions, Stored};
use crate::shaper::{self, Shaper};
use crate::slow::SlowPath;
use crate::steer::Directory;
use crate::subscribers::{Refused, Subscribers};

/// A worker's gateway before it has ports.
pub type WorkerInit = engine::WorkerInit<BroadbandGateway>;

/// Why a configuration makes no gateway.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AssembleError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("not enough memory for {subscribers} subscribers")]
    Memory { subscribers: usize },
    #[error("no way to wake a worker: {0}")]
    Waker(std::io::Error),
    #[error(transparent)]
    Nat(#[from] nat::Unavailable),
}

const RING: usize = 1024;
/// Events of a worker that wait for control: 200 ms of 20,000 control packets a second, should its CPU be busy for so long.
const EVENTS: usize = 4096;
/// Shaped subscribers of a worker that there is room for from the start; more take a moment of it.
const MOST_QUEUES: usize = 1 << 20;

/// Why a static subscriber could not be installed.
fn refused(handle: u32, why: Refused, layout: &Layout) -> AssembleError {
    if why == Refused::Memory {
        return AssembleError::Memory { subscribers: layout.subscribers.len() };
    }
    let entry = layout.entries.partition_point(|first| *first <= handle).saturating_sub(1);
    let what = "a prefix of one of its subscribers is part of another's";
    AssembleError::Config(wrong(&[&"subscriber", &entry], what, "give each its own"))
}

/// Makes the workers' gateways and their control, static subscribers installed. `caps` tells, for each configured port,
/// what the opened port is.
///
/// # Errors
/// What is wrong with the configuration, by key, or what the machine has too little of.
pub fn assemble(config: &Config, caps: &[Caps]) -> Result<(Control, Vec<WorkerInit>), AssembleError> {
    assemble_with(config, caps, None)
}

/// Whose each port's packets are, where the configuration says it.
///
/// # Errors
/// What is wrong with the configuration.
pub fn flows(config: &Config) -> Result<Vec<Flows>, AssembleError> {
    let layout = config.layout()?;
    let overlap = |_| wrong(&[&"group"], "groups of several workers share an IPv6 /64", "give each its own");
    let nat = config.nat.as_ref().map(|nat| nat.stage(&config.links(), gateway::nat::chance()));
    let addresses = nat.as_ref().map(|nat| nat::Addresses::new(nat, config.workers.count));
    Ok(Directory::new(config, &layout, addresses.as_ref()).map_err(overlap)?.flows())
}

/// The same, with `owners` of the groups in place of those that the configuration names.
///
/// # Errors
/// As [`assemble`].
pub fn assemble_with(
    config: &Config,
    caps: &[Caps],
    owners: Option<&[Owner]>,
) -> Result<(Control, Vec<WorkerInit>), AssembleError> {
    config.check()?;
    let mut layout = config.layout()?;
    for (group, owner) in layout.groups.iter_mut().zip(owners.unwrap_or_default()) {
        group.worker = *owner;
    }
    let subscribers = layout.subscribers.len();
    let memory = |_: Refused| AssembleError::Memory { subscribers };
    let plan = config.links().plan(caps)?;
    let overlap = |_| wrong(&[&"group"], "groups of several workers share an IPv6 /64", "give each its own");
    let nat = config.nat.as_ref().map(|nat| nat.stage(&config.links(), gateway::nat::chance()));
    let addresses = nat.as_ref().map(|nat| nat::Addresses::new(nat, config.workers.count));
    let directory = Arc::new(Directory::new(config, &layout, addresses.as_ref()).map_err(overlap)?);
    let ports: Vec<_> = plan.ports.iter().map(|view| (view.mac, view.mtu)).collect();
    let instances = config.instances().len();
    let mut lists = (layout.counters > 0).then(|| LiveLists::new(layout.counters));
    let choices = Choices {
        hits: lists.as_ref().map(|lists| lists.hits().clone()),
        mss: config.port.iter().map(|port| port.mss).collect(),
        marks: layout.profiles.iter().any(|profile| profile.dscp.is_some()),
        gardens: layout.profiles.iter().any(|profile| profile.garden.is_some()),
        shapes: Shaper::is_wanted(&layout),
        translates: nat.is_some(),
    };
    let mut blocks = Vec::new();
    let rates = (0..config.port.len()).map(|n| config.port_rate(n)).collect::<Result<Vec<_>, _>>()?;
    let mut parts = shaper::ports(&rates, config.port_buffer_ns(), config.workers.count.into()).into_iter();
    let limits = config.queue_limits()?;
    let publisher = Publisher::new(plan.compile());
    let control_waker = Waker::new().map_err(AssembleError::Waker)?;
    let (mut workers, mut links, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
    for worker in 0..config.workers.count {
        let (commands, inbox) = command::commands(RING);
        let (events, incoming) = ring(EVENTS);
        let waker = Waker::new().map_err(AssembleError::Waker)?;
        wakers.push(waker.clone());
        let seed = RandomState::new().hash_one(worker);
        let subscribers = Subscribers::new(&layout, worker, &ports, instances).map_err(memory)?;
        let part = parts.next().unwrap_or_default();
        // Room for all that may come: memory is taken as they do, and no worker stops to move what is there.
        let expected = subscribers.lines().lines.clamp(64, MOST_QUEUES);
        let shaper = choices.shapes.then(|| Box::new(Shaper::new(&layout, limits, part, expected)));
        let nat = match &nat {
            Some(nat) => {
                let (told, log) = ring(gateway::nat::RING);
                blocks.push(log);
                Some(Box::new(Nat::new(nat, worker, config.workers.count, told, 0)?))
            }
            None => None,
        };
        let slow = SlowPath::new(events, &config.punt, subscribers.lines(), worker, seed);
        links.push(Link::new(commands, (incoming, slow.gauge()), waker.clone()));
        let parts = Parts {
            subscribers,
            directory: directory.clone(),
            forwarding: publisher.reader(),
            lists: lists.as_ref().map(LiveLists::reader),
            inbox,
            waker,
            control: control_waker.clone(),
            slow,
            shaper,
            nat,
            choices: choices.clone(),
        };
        let (plane, stages) = BroadbandGateway::new(parts);
        workers.push(WorkerInit { plane, layout: stages, hand_off: None });
    }
    for spec in &layout.subscribers {
        let worker = layout.groups[usize::from(spec.group)].worker;
        // Those of a group that another process has are installed when it comes.
        let Some(worker) = workers.get_mut(usize::from(worker)) else { continue };
        worker.plane.install(spec).map_err(|why| refused(spec.handle, why, &layout))?;
    }
    let outside = join(config, &mut workers, wakers)?;
    if let Some(lists) = &mut lists {
        lists.begin(std::mem::take(&mut layout.lists));
    }
    let published = (publisher, lists);
    let control = Control::new(config.clone(), layout, plan, published, (links, control_waker)).with_outside(outside);
    let control = control.with_nat(addresses, gateway::nat::log_of(config.nat.as_ref(), blocks, config.instances())?);
    Ok((control, workers))
}

/// Joins workers with each other, and with what is outside of the process, if groups move there: its member, and what workers wake
/// it by.
fn join(
    config: &Config,
    workers: &mut [WorkerInit],
    mut wakers: Vec<Waker>,
) -> Result<Option<(Outside, Waker)>, AssembleError> {
    let crosses = config.moves.is_some();
    if config.workers.count <= 1 && !crosses {
        return Ok(None);
    }
    let waker = Waker::new().map_err(AssembleError::Waker)?;
    wakers.push(waker.clone());
    let members = usize::from(config.workers.count) + usize::from(crosses);
    // Gateways know the owner themselves.
    let mut hand_offs = HandOff::among(members, Steer::new(), wakers);
    let outside = if crosses { hand_offs.pop() } else { None };
    for (worker, hand_off) in workers.iter_mut().zip(hand_offs) {
        worker.hand_off = Some(hand_off);
    }
    Ok(outside.map(|last| (Outside::new(last), waker)))
}

/// Gives a gateway the sessions that its configuration asks for, with the leases of an earlier run: before workers run.
///
/// # Errors
/// [`BadSessions`].
pub fn attach(
    config: &Config,
    control: &mut Control,
    workers: &mut [WorkerInit],
    stored: Stored,
    environment: Environment,
) -> Result<(), BadSessions> {
    let Some((sessions, specs)) = Sessions::new(config, control, stored, environment)? else { return Ok(()) };
    let mut installed = Vec::with_capacity(specs.len());
    for spec in specs {
        let worker = control.layout().groups.get(usize::from(spec.group)).map(|group| usize::from(group.worker));
        let Some(worker) = worker.and_then(|worker| workers.get_mut(worker)) else { continue };
        match worker.plane.install(&spec) {
            Ok(()) => installed.push(spec),
            Err(why) => tracing::warn!(target: "sessions", event = "not_installed", handle = spec.handle, "{why:?}"),
        }
    }
    control.serve(sessions, &installed);
    Ok(())
}

/// Gives a gateway the sessions that its configuration asks for, to go on for another process: what that has is taken in later,
/// and its ledger with `opening`.
///
/// # Errors
/// [`BadSessions`].
pub fn go_on(
    config: &Config,
    control: &mut Control,
    opening: Option<Opening<Stored>>,
    environment: Environment,
) -> Result<(), BadSessions> {
    if let Some((sessions, _)) = Sessions::new(config, control, Stored::default(), environment)? {
        control.serve(sessions.with_opening(opening), &[]);
    }
    Ok(())
}
