//! The in-kernel path: what the configuration wants of it, and the subscribers that are there already.

use dataplane::acl::SPARE_COUNTERS;
use frame::Caps;
use gateway::fast_path::{self, Attached, FastPathError, Ready, Standing, Wants};
use gateway::shell::{Sections as _, StartError};

use crate::assemble::WorkerInit;
use crate::config::Config;
use crate::control::Control;
use crate::fast::{FastPath, Publisher, why_not};

/// What the configuration wants.
pub(super) fn wants(config: &Config) -> Wants<'_> {
    let ports = config.port.iter().map(|port| (port.fast_path, port.role.into()));
    Wants { why_not: why_not(config), ..Wants::new("bng", &config.head(), ports) }
}

/// See [`fast_path::open`].
pub(super) fn open(config: &Config) -> Result<Option<Attached<FastPath>>, StartError> {
    fast_path::open(&wants(config), || load(config))
}

fn load(config: &Config) -> Result<FastPath, FastPathError> {
    // As many as `LiveLists` has; the configuration was checked.
    let counters = config.layout().map_or(0, |layout| layout.counters);
    let counters = if counters > 0 { 2 * (counters + SPARE_COUNTERS) } else { 0 };
    FastPath::load(config.fast_path.subscribers, config.workers.count, counters)
}

/// Gives the program the tables and the subscribers that are there already.
///
/// # Errors
/// It cannot, and the configuration wants it.
pub(super) fn stand(
    fast: Attached<FastPath>,
    config: &Config,
    caps: &[Caps],
    control: &mut Control,
    workers: &mut [WorkerInit],
) -> Result<Option<Ready<FastPath>>, StartError> {
    let Some(Standing { path, ports, ready }) = fast.stand(&wants(config), caps)? else { return Ok(None) };
    let Some(directory) = workers.first().map(|worker| worker.plane.state().directory.clone()) else { return Ok(None) };
    control.set_fast_path(Publisher::new(path.clone(), ports), &directory);
    for (n, worker) in workers.iter_mut().enumerate() {
        worker.plane.set_fast_path(path.clone(), n as u16, 0); // workers are numbered by 16 bits
    }
    Ok(Some(ready))
}
