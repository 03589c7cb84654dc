//! The in-kernel path: what the configuration wants of it, and the sessions that are there already.

use std::path::Path;

use dataplane::acl::SPARE_COUNTERS;
use frame::Caps;
use gateway::fast_path::{self, Attached, FastPathError, Ready, Standing, Wants};
use gateway::shell::{Sections as _, StartError};

use crate::assemble::WorkerInit;
use crate::config::{Config, FastPathMode, acl};
use crate::control::Control;
use crate::fast::{FastPath, Publisher, Room, why_not};

/// What the configuration wants.
pub(super) fn wants(config: &Config) -> Wants<'_> {
    let ports = config.port.iter().map(|port| (port.fast_path, port.role.into()));
    // Mappings are the workers': without them a port could be two subscribers'.
    let keep = config.fast_path.keep().filter(|_| has_ledger(config) && config.nat.is_none());
    let keep = keep.map(|keep| (keep, Path::new(&config.fast_path.bpf_folder)));
    Wants { why_not: why_not(config), keep, ..Wants::new("upf", &config.head(), ports) }
}

/// Why known sessions do not go on without the process though the configuration says how long; none: they do, or it does not.
pub(super) fn keeps_nothing(config: &Config) -> Option<&'static str> {
    let is_wanted = config.port.iter().any(|port| port.fast_path != FastPathMode::Off) && has_ledger(config);
    (is_wanted && config.nat.is_some() && config.fast_path.keep().is_some()).then_some(
        "fast_path.keep_seconds has no effect: with [nat] known sessions do not go on without the process, as the next one does \
         not know their translations; set it to 0",
    )
}

fn has_ledger(config: &Config) -> bool {
    config.n4.as_ref().is_some_and(|n4| n4.ledger.is_some())
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

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;

    use super::*;

    #[test]
    fn keep_seconds_without_effect_is_said() {
        let text = include_str!("../../../../examples/upf-n4.toml");
        let with = |change: &str, of_port: &str| {
            let mut table: toml::Table = text.parse().expect("TOML");
            table.extend(change.parse::<toml::Table>().expect("TOML"));
            let n4 = table["n4"].as_table_mut().expect("a table");
            n4.insert("ledger".to_owned(), "/var/lib/weir".into());
            let port = table["port"][0].as_table_mut().expect("a table");
            port.insert("fast_path".to_owned(), of_port.into());
            Config::deserialize(table).expect("a configuration")
        };
        const NAT: &str = "[[nat.pool]]\naddresses = \"198.51.100.0/30\"\n";
        assert!(keeps_nothing(&with(NAT, "auto")).is_some_and(|text| text.contains("keep_seconds")));
        assert_eq!(keeps_nothing(&with("", "auto")), None);
        assert_eq!(keeps_nothing(&with(NAT, "off")), None);
        assert_eq!(keeps_nothing(&with(&format!("{NAT}[fast_path]\nkeep_seconds = 0"), "auto")), None);
    }
}
