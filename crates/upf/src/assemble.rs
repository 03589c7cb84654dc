//! From a configuration to workers ready to run, and the control side that holds their other ends.

use dataplane::acl::LiveLists;
use dataplane::forward::{InstanceId, Plan, PortView};
use dataplane::nat::Nat;
use engine::{HandOff, Steer};
use frame::Caps;
use gateway::shell::flows::{to_addresses, with_ids};
use port::flows::{FlowKey, Flows};
use table::command;
use table::ring::ring;
use table::snapshot::Publisher;
use table::waker::Waker;
use wire::ethernet::TAG_LEN;
use wire::gtpu;

use crate::config::{self, Config, ConfigError, Port, Role, parse_prefix, wrong};
use crate::control::{Control, Link};
use crate::gateway::{Parts, UserPlane};
use crate::pipeline::Choices;
use crate::sessions::Sessions;
use crate::simulate::Simulator;
use crate::slow::Limits;
use crate::steps::Checksum6;

/// A worker's gateway before it has ports.
pub type WorkerInit = engine::WorkerInit<UserPlane>;

/// Why a configuration makes no gateway.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AssembleError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("not enough memory for {sessions} sessions: {source}")]
    Memory { sessions: u32, source: std::io::Error },
    #[error(transparent)]
    Nat(#[from] dataplane::nat::Unavailable),
    #[error("simulated subscriber {ue} is invalid: {why}")]
    Session { ue: u32, why: String },
}

/// Lines of a record to count on before sessions are known.
const LINES_EACH: usize = 12;
pub(crate) const RING: usize = 1024;

/// Makes the workers' gateways and their control. `caps` tells, for each configured port, what the opened port is.
/// Simulated sessions are in place afterwards.
///
/// # Errors
/// What is wrong with the configuration, by key, or what the machine has too little of.
pub fn assemble(config: &Config, caps: &[Caps]) -> Result<(Control, Vec<WorkerInit>), AssembleError> {
    config.check()?;
    let plan = plan(config, caps)?;
    let publisher = Publisher::new(plan.compile());
    let workers = config.workers.count;
    let expected = config.simulate.as_ref().map_or(0, |s| s.ues).div_ceil(workers.into()) as usize;
    let roles: Vec<_> = config.port.iter().map(|p| p.role).collect();
    let (lists, counters) = config::acl::lists(config, 0)?;
    let lists = (!config.acl.is_empty()).then(|| {
        let mut live = LiveLists::new(counters);
        live.begin(lists);
        live
    });
    let choices = Choices {
        checksum6: if config.gtpu.zero_checksum_over_ipv6 { Checksum6::Zero } else { Checksum6::Full },
        hits: lists.as_ref().map(|lists| lists.hits().clone()),
        mss: config.port.iter().map(|port| port.mss).collect(),
        reassemble: config.reassembly.is_some(),
        translate: config.nat.is_some(),
    };
    let nat = config.nat.as_ref().map(|nat| nat.stage(&config.links(), gateway::nat::chance()));
    let mut blocks = Vec::new();
    let mut seats = Vec::new();
    let mut links = Vec::new();
    let mut wakers = Vec::new();
    let memory = |source| AssembleError::Memory { sessions: expected as u32, source };
    let control_waker = Waker::new().map_err(memory)?;
    for worker in 0..workers {
        let sessions = Sessions::with_capacity(expected.max(1024), LINES_EACH);
        let (commands, inbox) = command::commands(RING);
        let (events, incoming) = ring(RING);
        let waker = Waker::new().map_err(memory)?;
        wakers.push(waker.clone());
        links.push(Link::new(commands, incoming, waker.clone()));
        let nat = match &nat {
            Some(nat) => {
                let (told, log) = ring(gateway::nat::RING);
                blocks.push(log);
                Some(Box::new(Nat::new(nat, worker, workers, told, 0)?))
            }
            None => None,
        };
        let parts = Parts {
            sessions: sessions.map_err(memory)?,
            forwarding: publisher.reader(),
            roles: roles.clone(),
            inbox,
            waker,
            control: control_waker.clone(),
            events,
            limits: Limits::of(config),
            lists: lists.as_ref().map(LiveLists::reader),
            nat,
            choices: choices.clone(),
        };
        let (plane, layout) = UserPlane::new(parts);
        seats.push(WorkerInit { plane, layout, hand_off: None });
    }
    let simulator = match &config.simulate {
        Some(simulate) => Some(Simulator::new(simulate, 0, core_instance(config))?),
        None => None,
    };
    let log = gateway::nat::log_of(config.nat.as_ref(), blocks, config.instances())?;
    let control = Control::new(plan, publisher, (links, control_waker), simulator);
    let addresses = nat.as_ref().map(|nat| dataplane::nat::Addresses::new(nat, workers));
    let mut control = control.with_nat_log(log).with_nat(addresses).with_lists(lists);
    populate(&mut control, &mut seats)?;
    if workers > 1 {
        let steer = owners(config)?;
        for (seat, hand_off) in seats.iter_mut().zip(HandOff::among(workers.into(), steer, wakers)) {
            seat.hand_off = Some(hand_off);
        }
    }
    Ok((control, seats))
}

/// Which worker a packet belongs to, of several.
///
/// # Errors
/// Ranges that overlap.
pub(crate) fn owners(config: &Config) -> Result<Steer, AssembleError> {
    let (section, core) = (if config.n4.is_some() { "n4" } else { "simulate" }, core_instance(config));
    let overlap = |_| wrong(&[&section], "subscribers' addresses or tunnels overlap", "give each its own range");
    let steer = match &config.simulate {
        Some(simulate) if config.n4.is_none() => {
            crate::control::steer(&Simulator::new(simulate, 0, core)?, config.workers.count, core)
        }
        _ => crate::n4::assemble::steer(config),
    };
    let mut steer = steer.map_err(overlap)?;
    if let Some(nat) = &config.nat {
        nat.stage(&config.links(), gateway::nat::chance()).steer(&mut steer, config.workers.count).map_err(|_| {
            wrong(&[&"nat", &"pool"], "subscribers have public addresses too", "give each its own range")
        })?;
    }
    Ok(steer)
}

/// Whose each port's packets are: those from access by their tunnel's endpoint, those from networks by their destination, as
/// `local::steer_key` has it.
pub fn flows(config: &Config) -> Result<Vec<Flows>, AssembleError> {
    let owners = owners(config)?;
    let instances = config.instances();
    let of = |port: &Port| {
        // It was checked.
        let tags = port.vlan.as_ref().and_then(|vlan| vlan.tags().ok()).unwrap_or_default().len() / TAG_LEN;
        let tags = tags as u8; // two at most
        if port.role == Role::Core {
            let at = instances.iter().position(|name| name == port.instance()).unwrap_or_default();
            return to_addresses(Flows::default(), tags, at as InstanceId, &owners);
        }
        let has6 = |six: bool| {
            let prefixes = port.addresses.iter().filter_map(|text| parse_prefix(text));
            prefixes.into_iter().any(|(address, _)| address.is_ipv6() == six)
        };
        let key = |over6| FlowKey::Tunnel { udp_port: gtpu::PORT, over6 };
        let keys: Vec<FlowKey> = [false, true].into_iter().filter(|six| has6(*six)).map(key).collect();
        with_ids(Flows::default(), tags, &keys, &owners)
    };
    Ok(config.port.iter().map(of).collect())
}

/// The network instance simulated subscribers are in: that of the first core port.
fn core_instance(config: &Config) -> InstanceId {
    let names = config.instances();
    let port = config.port.iter().find(|p| p.role == Role::Core);
    port.and_then(|p| names.iter().position(|n| n == p.instance())).unwrap_or(1) as InstanceId
}

fn plan(config: &Config, caps: &[Caps]) -> Result<Plan, ConfigError> {
    let mut plan = config.links().plan(caps)?;
    for (n, (port, view)) in config.port.iter().zip(&mut plan.ports).enumerate() {
        view.verify_udp = port.verify_outer_checksum;
        check_mtu(config, n, view)?;
    }
    Ok(plan)
}

/// Every link that carries IPv6 must carry packets of 1280 bytes (RFC 8200, 5), a tunnel too: we send no fragments of
/// tunnel packets, which few gNBs put together, and less than 1280 may not be announced.
fn check_mtu(config: &Config, n: usize, view: &PortView) -> Result<(), ConfigError> {
    let least = wire::ip6::MIN_MTU as u16;
    let over6 = !view.v6.is_empty();
    let is_core = |port: &&Port| port.role == Role::Core;
    let named6 = |text: &String| parse_prefix(text).is_some_and(|(address, _)| address.is_ipv6());
    let users6 = config.simulate.as_ref().is_some_and(|simulate| simulate.ue6_first.is_some())
        || config.port.iter().filter(is_core).any(|port| port.addresses.iter().any(named6));
    let (need, why) = if config.port[n].role == Role::Access && users6 {
        let tunnel = if over6 { 48 } else { 28 } + gtpu::HEADER_WITH_CONTAINER_LEN as u16;
        (
            least + tunnel,
            format!("IPv6 subscribers' packets of {least} bytes do not fit, with a tunnel's {tunnel}, into"),
        )
    } else if over6 {
        (least, format!("IPv6 needs links that carry {least} bytes, which is more than"))
    } else {
        return Ok(());
    };
    if view.mtu >= need {
        return Ok(());
    }
    let help = format!("{need} or more, here or, where this key is left out, on the interface");
    Err(wrong(&[&"port", &n, &"mtu"], format!("{why} the {} bytes of port \"{}\"", view.mtu, view.name), help))
}

/// Puts the simulated sessions in place, each on the worker that owns it.
fn populate(control: &mut Control, seats: &mut [WorkerInit]) -> Result<(), AssembleError> {
    let Some(simulator) = control.simulator().cloned() else { return Ok(()) };
    let mut idle = simulator.config().idle;
    for ue in 0..simulator.count() {
        let (worker, handle) = control.place(ue);
        let session = simulator.session(ue, idle > 0);
        idle = idle.saturating_sub(1);
        let fail = |why: String| AssembleError::Session { ue, why };
        let compiled = control.compile(&session, handle).map_err(|why| fail(why.to_string()))?;
        let sessions = seats[usize::from(worker)].plane.sessions_mut();
        sessions.install(handle, &compiled, 0).map_err(|why| fail(why.to_string()))?;
    }
    control.publish();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a gateway whose N3 has that MTU and addresses.
    fn said(mtu: u16, n3: &str, n6: &str, n6_mtu: u16) -> Option<String> {
        let text = format!(
            r#"
            gateway = "upf"
            [[port]]
            name = "n3"
            uri = "memory:n3"
            role = "access"
            addresses = [{n3}]
            mtu = {mtu}
            [[port]]
            name = "n6"
            uri = "memory:n6"
            role = "core"
            addresses = [{n6}]
            mtu = {n6_mtu}"#
        );
        let config: Config = toml::from_str(&text).expect("a configuration");
        plan(&config, &[]).err().map(|error| error.to_string())
    }

    #[test]
    fn tunnels_carry_what_ipv6_promises() {
        let (four, six) = (r#""10.0.3.1/24""#, r#""10.0.3.1/24", "fd00:3::1/64""#);
        assert_eq!(said(1324, four, six, 1500), None);
        assert_eq!(said(1344, six, six, 1500), None);
        assert_eq!(said(600, four, four, 600), None, "without IPv6 anything goes");
        let help = "or more, here or, where this key is left out, on the interface";
        let short = |mtu, tunnel, need| {
            format!(
                "port.0.mtu: IPv6 subscribers' packets of 1280 bytes do not fit, with a tunnel's {tunnel}, into the \
                 {mtu} bytes of port \"n3\"; {need} {help}"
            )
        };
        assert_eq!(said(1323, four, six, 1500), Some(short(1323, 44, 1324)));
        assert_eq!(said(1343, six, six, 1500), Some(short(1343, 64, 1344)));
        let narrow = format!(
            "IPv6 needs links that carry 1280 bytes, which is more than the 1279 bytes of port \"n6\"; 1280 {help}"
        );
        assert_eq!(said(1500, four, six, 1279), Some(format!("port.1.mtu: {narrow}")));
    }
}
