//! How full queues were, beside what they are to be: 5 % of the subscribers with so many packets each, every outer VLAN offered
//! 1.3 times its rate, and the longest queues cut where the buffer of the port is full.

use super::settings::{Filling, Settings};
use crate::report::Filled;
use crate::window::{Window, median};

/// How full they were in those windows; none: they are not to be.
pub(super) fn of(settings: &Settings, windows: &[Window]) -> Option<Filled> {
    let Filling { buffer, port, nodes, node, .. } = settings.filling()?;
    let slices = || windows.iter().flat_map(|window| &window.workers);
    let offered = |of: fn(&[f64]) -> f64| {
        let loads = windows.iter().flat_map(|window| &window.offered).filter(|(_, ns)| *ns > 0);
        median(loads.map(|(bytes, ns)| {
            let by_rate = |bytes: &u64| *bytes as f64 * 8e9 / *ns as f64 / node as f64;
            of(&bytes.iter().map(by_rate).collect::<Vec<_>>())
        }))
    };
    let dropped = slices().flat_map(|slice| &slice.measured.drops).filter(|(name, _)| name.ends_with(".flow_longest"));
    let sent = windows.iter().map(|window| window.traffic.directions.downlink.sent_packets).sum::<u64>();
    Some(Filled {
        backlogged_ratio: median(slices().map(|slice| slice.backlog[0])) / f64::from(settings.subscribers),
        packets_each: median(slices().map(|slice| slice.waiting / slice.backlog[0].max(1.0))),
        nodes,
        node_gbps: node as f64 / 1e9,
        offered_by_rate_min: offered(|each| each.iter().copied().fold(f64::INFINITY, f64::min)),
        offered_by_rate_mean: offered(|each| each.iter().sum::<f64>() / each.len().max(1) as f64),
        offered_by_rate_max: offered(|each| each.iter().copied().fold(0.0, f64::max)),
        port_gbps: port as f64 / 1e9,
        buffer_bytes: buffer,
        buffer_used_ratio: median(slices().map(|slice| slice.backlog[1])) / buffer as f64,
        dropped_ratio: dropped.map(|(_, packets)| packets).sum::<u64>() as f64 / sent.max(1) as f64,
    })
}
