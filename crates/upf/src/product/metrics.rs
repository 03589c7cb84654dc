//! What only a user plane tells monitoring: sessions and control planes. Labels are workers and events; nothing has a
//! subscriber's or a peer's name on it.

use super::protocol::{PeersView, SessionsView};
use gateway::metrics::Kind::{Counter, Gauge};
use gateway::metrics::Page;

/// Its families, and how much of its room for sessions is used, 0 to 1. `sessions`: of each worker; none: a worker did not
/// answer in time. `peers`: control planes; none: no `[n4]`. `most`: sessions there may be.
pub fn told(sessions: Option<&SessionsView>, peers: Option<&PeersView>, most: Option<u64>) -> (Page, f64) {
    let mut page = Page::default();
    if let Some(view) = sessions {
        self::sessions(&mut page, view);
    }
    if let Some(most) = most {
        page.one("weir_sessions_limit", Gauge, "Sessions there may be at most, as configured.", most);
    }
    if let Some(peers) = peers {
        pfcp(&mut page, peers);
    }
    let used = match (peers, most) {
        (Some(peers), Some(most)) if most > 0 => peers.sessions as f64 / most as f64,
        _ => 0.0,
    };
    (page, used)
}

fn sessions(page: &mut Page, view: &SessionsView) {
    let mut family = page.family("weir_sessions", Gauge, "Sessions a worker has.");
    for worker in &view.workers {
        family.sample(&[("worker", &worker.worker.to_string())], worker.sessions);
    }
    let help = "Memory of session records and of the indexes that lead to them.";
    let mut family = page.family("weir_session_memory_bytes", Gauge, help);
    for worker in &view.workers {
        family.sample(&[("worker", &worker.worker.to_string())], worker.bytes);
    }
}

fn pfcp(page: &mut Page, peers: &PeersView) {
    let lost = peers.peers.iter().filter(|peer| peer.lost_for.is_some()).count();
    page.family("weir_pfcp_associations", Gauge, "Control planes that are associated; lost ones no longer answer.")
        .sample(&[("state", "up")], peers.peers.len() - lost)
        .sample(&[("state", "lost")], lost);
    page.one("weir_pfcp_waiting_requests", Gauge, "Requests that wait for a worker or the disk.", peers.waiting);
    page.family("weir_guaranteed_bytes_per_second", Gauge, "Guaranteed rates set aside for sessions.")
        .sample(&[("direction", "up")], peers.guaranteed.up_bps / 8)
        .sample(&[("direction", "down")], peers.guaranteed.down_bps / 8);
    let help = "PFCP events by kind; `weir show peers` explains each.";
    let mut family = page.family("weir_pfcp_events_total", Counter, help);
    for (event, n, _) in &peers.counters {
        family.sample(&[("event", event)], *n);
    }
}

#[cfg(test)]
mod tests;
