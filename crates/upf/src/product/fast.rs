//! The in-kernel path: what the configuration wants of it, and the sessions that are there already.

use std::path::Path;

use dataplane::acl::SPARE_COUNTERS;
use frame::Caps;
use gateway::fast_path::{self, Attached, FastPathError, Ready, Standing, WantedPort, Wants};
use gateway::shell::StartError;
use port::Moderation;

use crate::assemble::WorkerInit;
use crate::config::{Config, Port, acl};
use crate::control::Control;
use crate::fast::{FastPath, Publisher, Room, why_not};

fn wanted(port: &Port) -> WantedPort<'_> {
    WantedPort {
        name: &port.name,
        uri: &port.uri,
        on: port.on.as_deref(),
        mode: port.fast_path,
        side: port.role.into(),
    }
}

/// What the configuration wants.
pub(super) fn wants(config: &Config) -> Wants<'_> {
    // Packets wait for others as long as they may in a worker's port, twice as many: a wake-up costs as much, a packet less.
    let idle = config.workers.idle();
    let has_ledger = config.n4.as_ref().is_some_and(|n4| n4.ledger.is_some());
    // Mappings are the workers': without them a port could be two subscribers'.
    let keep = config.fast_path.keep().filter(|_| has_ledger && config.nat.is_none());
    Wants {
        gateway: "upf",
        ports: config.port.iter().map(wanted).collect(),
        why_not: why_not(config),
        moderation: Moderation { longest: idle.moderate, share: idle.share * 2 },
        keep: keep.map(|keep| (keep, Path::new(&config.fast_path.bpf_folder))),
    }
}

/// See [`fast_path::keep_past`].
pub(super) fn keep(config: &Config) {
    fast_path::keep_past(&wants(config), Path::new(&config.fast_path.bpf_folder));
}

/// See [`fast_path::open`].
pub(super) fn open(config: &Config) -> Result<Option<Attached<FastPath>>, StartError> {
    fast_path::open(&wants(config), || load(config))
}

fn load(config: &Config) -> Result<FastPath, FastPathError> {
    // As many as `LiveLists` has; the configuration was checked.
    let counters = acl::lists(config, 0).map_or(0, |(_, counters)| 2 * (counters + SPARE_COUNTERS));
    FastPath::load(Room {
        sessions: config.fast_path.sessions,
        workers: config.workers.count,
        counters: if config.acl.is_empty() { 0 } else { counters },
        flows: if config.nat.is_some() { config.fast_path.flows } else { 0 },
    })
}

/// Gives the program the tables and the sessions that are there already.
///
/// # Errors
/// It cannot, and the configuration wants it.
pub(super) fn stand(
    fast: Attached<FastPath>,
    config: &Config,
    caps: &[Caps],
    control: &mut Control,
    seats: &mut [WorkerInit],
) -> Result<Option<Ready<FastPath>>, StartError> {
    let Some(Standing { path, ports, ready }) = fast.stand(&wants(config), caps)? else { return Ok(None) };
    let publisher = Publisher::new(path.clone(), ports).with_zero_sum6(config.gtpu.zero_checksum_over_ipv6);
    control.set_fast_path(publisher);
    for (worker, seat) in seats.iter_mut().enumerate() {
        seat.plane.set_fast_path(path.clone(), worker as u16, 0); // workers are numbered by 16 bits
    }
    Ok(Some(ready))
}
