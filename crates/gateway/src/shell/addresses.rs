//! Hardware addresses of ports' interfaces: one that was removed may come back with another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use frame::Link;
use wire::Mac;

use super::port_stats::PortStatsReader;

/// Nanoseconds between looks.
const LOOK_EVERY: u64 = 100_000_000;

/// When the first worker's ports are looked at next; other workers have the same interfaces.
#[derive(Debug, Default)]
pub struct Addresses {
    next: AtomicU64,
    /// A port had no link when it was looked at: its interface may come back with another address.
    changes: AtomicBool,
}

impl Addresses {
    /// The hardware addresses of ports, as of the look before; nothing until a look is due. A port without a link is left
    /// out: what announces its address would be lost.
    pub fn look(&self, ports: &[PortStatsReader], now: u64) -> Vec<(u8, Mac)> {
        if now < self.next.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.next.store(now + LOOK_EVERY, Ordering::Relaxed);
        let seen: Vec<_> = (0..).zip(ports.iter().map(|port| port.seen().caps)).collect();
        self.changes.store(seen.iter().any(|(_, caps)| caps.link != Link::Up), Ordering::Relaxed);
        let found =
            seen.into_iter().filter(|(_, caps)| caps.link == Link::Up).map(|(n, caps)| (n, Mac(caps.mac))).collect();
        ports.iter().for_each(PortStatsReader::ask);
        found
    }

    /// When ports are to be looked at next, if a second from now is too late.
    pub fn next_deadline(&self) -> Option<u64> {
        self.changes.load(Ordering::Relaxed).then(|| self.next.load(Ordering::Relaxed))
    }
}

/// Reports an address that was taken on.
pub fn report(port: &str, mac: Mac) {
    tracing::warn!(
        target: "port", event = "hardware_address_changed", port, mac = %mac,
        "the interface of port {port} has another hardware address: {mac}"
    );
}
