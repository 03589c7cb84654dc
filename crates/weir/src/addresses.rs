//! Hardware addresses of ports' interfaces: one that was removed may come back with another.

use std::sync::atomic::{AtomicU64, Ordering};

use frame::Link;
use wire::Mac;

use crate::watched::Glass;

/// Nanoseconds between looks.
const LOOK_EVERY: u64 = 100_000_000;

/// When the first worker's ports are looked at next; other workers have the same interfaces.
#[derive(Debug, Default)]
pub struct Addresses(AtomicU64);

impl Addresses {
    /// The hardware addresses of ports, as of the look before; nothing until a look is due. A port without a link is left
    /// out: what announces its address would be lost.
    pub fn look(&self, ports: &[Glass], now: u64) -> Vec<(u8, Mac)> {
        if now < self.0.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.0.store(now + LOOK_EVERY, Ordering::Relaxed);
        let seen = (0..).zip(ports.iter().map(|port| port.seen().caps));
        let found = seen.filter(|(_, caps)| caps.link == Link::Up).map(|(n, caps)| (n, Mac(caps.mac))).collect();
        ports.iter().for_each(Glass::ask);
        found
    }
}

/// Reports an address that was taken on.
pub fn report(port: &str, mac: Mac) {
    tracing::warn!(
        target: "port", event = "hardware_address_changed", port, mac = %mac,
        "the interface of port {port} has another hardware address: {mac}"
    );
}
