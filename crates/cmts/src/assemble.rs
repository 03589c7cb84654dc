//! From a configuration to workers ready to run, and the control side that holds their other ends.

use std::net::IpAddr;

use dataplane::config::{ConfigError, parse_prefix, wrong};
use dataplane::forward::Plan;
use dataplane::hqos;
use engine::{HandOff, Overlap, Steer};
use frame::Caps;
use gateway::shell::flows::{FlowKey, Flows, to_addresses, with_ids};
use table::command;
use table::ring::ring;
use table::snapshot::Publisher;
use table::waker::Waker;
use wire::ethernet::TAG_LEN;
use wire::l2tp;

use crate::config::{Carrier, Config, Layout, Named, Port, Role};
use crate::control::{Control, Link};
use crate::depi::WireSpec;
use crate::gateway::{CableGateway, Limits, Parts};
use crate::grants::Grants;
use crate::modems::{ModemSpec, Modems};
use crate::slow::SlowPath;
use crate::standby::{Foreign, HaState, Reach};
use crate::upstream;

/// A worker's gateway before it has ports.
pub type WorkerInit = engine::WorkerInit<CableGateway>;

/// Why a configuration makes no gateway.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AssembleError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("not enough memory for {modems} modems")]
    Memory { modems: usize },
    #[error("a worker cannot be woken: {0}")]
    Waker(std::io::Error),
    #[error("the modems taken over are of another configuration")]
    Foreign,
}

const RING: usize = 1024;

/// Makes the workers' gateways and their control. `caps` tells, for each configured port, what the opened port is. Modems
/// are in place when a worker has had its first turn.
///
/// # Errors
/// What is wrong with the configuration, by key, or what the machine has too little of.
pub fn assemble(config: &Config, caps: &[Caps]) -> Result<(Control, Vec<WorkerInit>), AssembleError> {
    config.check()?;
    assemble_for(config, caps, config.layout()?)
}

/// The same, to go on where another process of that configuration stopped.
///
/// # Errors
/// As [`assemble`], and when the ha_state is of another configuration.
pub fn succeed(config: &Config, caps: &[Caps], ha_state: HaState) -> Result<(Control, Vec<WorkerInit>), AssembleError> {
    config.check()?;
    let HaState { book, mut exports, silent_ns } = ha_state;
    let mut layout = config.layout()?;
    let (next_dsid, neighbours) = (book.next_dsid, book.neighbours.clone());
    let free = book.enter(config, &mut layout).map_err(|Foreign| AssembleError::Foreign)?;
    if let Some(ns) = silent_ns {
        let reach = Reach::of(config, &layout);
        exports.iter_mut().for_each(|export| reach.skip(&mut export.sequences, ns));
    }
    let (mut control, mut seats) = assemble_for(config, caps, layout)?;
    control.go_on(free, next_dsid, &neighbours);
    for (seat, export) in seats.iter_mut().zip(exports) {
        seat.plane.succeed(export);
    }
    Ok((control, seats))
}

fn assemble_for(config: &Config, caps: &[Caps], layout: Layout) -> Result<(Control, Vec<WorkerInit>), AssembleError> {
    let plan = config.links().plan(caps)?;
    let wires = wires(config, &layout, &plan)?;
    let publisher = Publisher::new(plan.compile());
    let rules = Publisher::new(layout.rules.clone());
    let overlap = |_| wrong(&[&"service_group"], "addresses or sessions overlap", "give each its own");
    let steer = Publisher::new(steer(config, &layout, layout.modems.iter()).map_err(overlap)?);
    let hosts: usize = layout.modems.iter().map(|modem| modem.spec.hosts.len()).sum();
    let modems = layout.modems.len();
    let limits = Limits {
        queues: hqos::Limits { frames: config.queues.packets, ahead_ns: config.queues.ahead_us * 1000 },
        upstream: upstream::Limits { wait_ns: config.upstream.wait_ms * 1_000_000, ..upstream::Limits::default() },
        hold_ns: config.depi.hold_us * 1000,
        mtu: config.queues.mtu,
        verify_crc: config.upstream.verify_crc,
    };
    let (mut seats, mut links, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
    let control_waker = Waker::new().map_err(AssembleError::Waker)?;
    for _ in 0..config.workers.count {
        let (commands, inbox) = command::commands(RING);
        let (events, incoming) = ring(RING);
        let waker = Waker::new().map_err(AssembleError::Waker)?;
        wakers.push(waker.clone());
        links.push(Link::new(commands, incoming, waker.clone()));
        let grants = |rate: &u64| Grants::new(config.upstream.grant_bytes, *rate, config.upstream.request_unit);
        let parts = Parts {
            forwarding: publisher.reader(),
            rules: rules.reader(),
            steer: steer.reader(),
            roles: config.port.iter().map(|port| port.role).collect(),
            inbox,
            waker,
            control: control_waker.clone(),
            slow: SlowPath::new(events, config.queues.mtu.min(u16::MAX.into()) as u16),
            modems: Modems::with_capacity(modems.max(64), hosts.max(1024))
                .map_err(|_| AssembleError::Memory { modems })?,
            groups: layout.groups.clone(),
            capacities: layout.channels.iter().map(|channel| channel.capacity).collect(),
            wires: wires.clone(),
            pseudowires: layout.pseudowires.clone(),
            networks: config.networks(),
            grants: layout.granted.iter().map(grants).collect(),
            flows: modems.max(64) * crate::modems::MAX_FLOWS,
            clusters: modems.max(64),
            limits,
        };
        let (plane, stages) = CableGateway::new(parts).map_err(|_| AssembleError::Memory { modems })?;
        seats.push(WorkerInit { plane, layout: stages, hand_off: None });
    }
    for modem in &layout.modems {
        for (worker, spec) in shares(config, &modem.spec) {
            seats[usize::from(worker)].plane.adopt(*spec);
        }
    }
    if config.workers.count > 1 {
        // Gateways know the owner themselves: modems come and go.
        let hand_offs = HandOff::among(config.workers.count.into(), Steer::new(), wakers);
        for (seat, hand_off) in seats.iter_mut().zip(hand_offs) {
            seat.hand_off = Some(hand_off);
        }
    }
    let links = (links, control_waker);
    Ok((Control::new(config.clone(), layout, plan, (publisher, rules, steer), links), seats))
}

/// The parts of a modem that each worker installs: the one that sends to it, and the one that receives from it.
pub fn shares(config: &Config, spec: &ModemSpec) -> Vec<(u16, Box<ModemSpec>)> {
    let Some(group) = config.service_group.get(usize::from(spec.service_group)) else { return Vec::new() };
    let (down, up) = (group.down_worker, group.up_worker.unwrap_or(group.down_worker));
    if down == up {
        return vec![(down, Box::new(spec.clone()))];
    }
    let sending = ModemSpec { clusters: Vec::new(), ..spec.clone() };
    let hearing = ModemSpec { flows: Vec::new(), ..spec.clone() };
    vec![(down, Box::new(sending)), (up, Box::new(hearing))]
}

/// Whose each port's packets are: those from the network by their destination, those of devices by their pseudowire, where it
/// is over IPv4 itself, not over UDP or IPv6.
pub fn flows(config: &Config, owners: &Steer) -> Vec<Flows> {
    let is_over_ip = config.service_group.iter().any(|group| group.carrier == Carrier::Ip);
    let has4 = |port: &Port| {
        let of = |text: &String| parse_prefix(text).is_some_and(|(address, _)| address.is_ipv4());
        port.addresses.iter().any(of)
    };
    let of = |port: &Port| {
        // It was checked.
        let tags = port.vlan.as_ref().and_then(|vlan| vlan.tags().ok()).unwrap_or_default().len() / TAG_LEN;
        let tags = tags as u8; // two at most
        match port.role {
            Role::Network => to_addresses(Flows::default(), tags, Role::Network.instance(), owners),
            Role::Rpd if has4(port) && is_over_ip => with_ids(Flows::default(), tags, &[FlowKey::Session], owners),
            Role::Rpd => Flows::default(),
        }
    };
    config.port.iter().map(of).collect()
}

/// The same of the modems that a configuration has.
///
/// # Errors
/// What is wrong with the configuration.
pub fn configured_flows(config: &Config) -> Result<Vec<Flows>, AssembleError> {
    let layout = config.layout()?;
    let overlap = |_| wrong(&[&"service_group"], "addresses or sessions overlap", "give each its own");
    Ok(flows(config, &steer(config, &layout, layout.modems.iter()).map_err(overlap)?))
}

/// Who owns which host of those modems, and which pseudowire. With one worker there is nothing to know.
///
/// # Errors
/// [`Overlap`] when hosts of several workers share the first 64 bits of their addresses.
pub fn steer<'m>(config: &Config, layout: &Layout, modems: impl Iterator<Item = &'m Named>) -> Result<Steer, Overlap> {
    let mut steer = Steer::new();
    if config.workers.count < 2 {
        return Ok(steer);
    }
    let instance = Role::Network.instance();
    let owner = |group: u16, up: bool| {
        let group = &config.service_group[usize::from(group)];
        if up { group.up_worker.unwrap_or(group.down_worker) } else { group.down_worker }
    };
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for modem in modems {
        let worker = owner(modem.spec.service_group, false);
        for (address, _) in &modem.spec.hosts {
            match address {
                IpAddr::V4(address) => v4.push((u64::from(u32::from(*address)), worker)),
                IpAddr::V6(address) => v6.push(((u128::from(*address) >> 64) as u64, worker)),
            }
        }
    }
    for (first, last, worker) in ranges(v4) {
        steer.own_v4(instance, first as u32, last as u32, worker)?; // they were IPv4 addresses
    }
    for (first, last, worker) in ranges(v6) {
        steer.own_v6(instance, first, last, worker)?;
    }
    for wire in &layout.pseudowires {
        steer.own_ids(wire.session, wire.session, owner(wire.service_group, true))?;
    }
    Ok(steer)
}

/// Numbers in a row with the same owner, as ranges.
fn ranges(mut numbers: Vec<(u64, u16)>) -> Vec<(u64, u64, u16)> {
    numbers.sort_unstable();
    numbers.dedup();
    let mut ranges: Vec<(u64, u64, u16)> = Vec::new();
    for (number, owner) in numbers {
        match ranges.last_mut() {
            Some((_, last, same)) if *same == owner && *last + 1 == number => *last = number,
            _ => ranges.push((number, number, owner)),
        }
    }
    ranges
}

/// Each channel's pseudowire, from our address on the port that leads to the device.
fn wires(config: &Config, layout: &Layout, plan: &Plan) -> Result<Vec<WireSpec>, ConfigError> {
    let word = config.channel_word()?;
    let mut wires = Vec::new();
    for channel in &layout.channels {
        let g = usize::from(channel.service_group);
        let group = &config.service_group[g];
        let way = plan.next_hop(Role::Rpd.instance(), group.rpd);
        let view = way.and_then(|(port, _)| plan.ports.get(usize::from(port)));
        let Some((view, local)) = view.and_then(|view| Some((view, view.source_for(group.rpd)?))) else {
            let what = format!("no port with role = \"rpd\" leads to {}", group.rpd);
            return Err(wrong(&[&"service_group", &g, &"rpd"], what, "an address on such a port's link, or a route"));
        };
        wires.push(WireSpec {
            session: channel.session,
            cookie: channel.cookie,
            carrier: if group.carrier == Carrier::Udp { l2tp::Carrier::Udp } else { l2tp::Carrier::Ip },
            local,
            remote: group.rpd,
            tos: config.depi.tos,
            mtu: view.mtu,
            flow: 0,
            word,
            segments: config.depi.segments,
        });
    }
    Ok(wires)
}
