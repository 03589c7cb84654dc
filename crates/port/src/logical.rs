//! A port that shares another one's device: the worker sorts what comes in, and sends by the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use frame::{Batch, Caps, Pool, Port, PortCounters};

/// What of its device's packets are a logical port's. Written by the worker of both.
#[derive(Debug, Default)]
pub struct Share {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
}

/// Adds to a counter that has one writer.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

impl Share {
    /// The packets, as counters of a port.
    fn counters(&self) -> PortCounters {
        PortCounters {
            rx_packets: self.rx_packets.load(Ordering::Relaxed),
            rx_bytes: self.rx_bytes.load(Ordering::Relaxed),
            tx_packets: self.tx_packets.load(Ordering::Relaxed),
            tx_bytes: self.tx_bytes.load(Ordering::Relaxed),
            ..PortCounters::default()
        }
    }

    /// Takes them out of what their device has counted: what is left are packets of the device's own port, and all losses.
    pub fn take_out_of(&self, device: &mut PortCounters) {
        let own = self.counters();
        for (all, part) in [
            (&mut device.rx_packets, own.rx_packets),
            (&mut device.rx_bytes, own.rx_bytes),
            (&mut device.tx_packets, own.tx_packets),
            (&mut device.tx_bytes, own.tx_bytes),
        ] {
            *all = all.saturating_sub(part);
        }
    }
}

/// A port without a device of its own.
pub struct Logical {
    caps: Caps,
    share: Arc<Share>,
}

impl Logical {
    /// On the device of the port with number `on`, which is `device`. With it, what of the device's packets are its own.
    pub fn new(device: &Caps, on: u8) -> (Self, Arc<Share>) {
        let share = Arc::<Share>::default();
        let caps = Caps { on: Some(on), host: None, unsteered: None, queues: None, keeps: 0, ..device.clone() };
        (Self { caps, share: share.clone() }, share)
    }
}

impl Port for Logical {
    fn rx_burst(&mut self, _pool: &mut Pool, _out: &mut Batch) -> usize {
        0
    }

    fn tx_burst(&mut self, _pool: &mut Pool, _batch: &mut Batch) -> usize {
        0
    }

    fn tx_burst_by(&mut self, device: &mut dyn Port, pool: &mut Pool, batch: &mut Batch) -> usize {
        // Of what leaves the batch the device may have refused some, which it alone has counted.
        let before = device.counters();
        let taken = device.tx_burst(pool, batch);
        let after = device.counters();
        add(&self.share.tx_packets, after.tx_packets.wrapping_sub(before.tx_packets));
        add(&self.share.tx_bytes, after.tx_bytes.wrapping_sub(before.tx_bytes));
        taken
    }

    fn count_received(&mut self, packets: u64, bytes: u64) {
        add(&self.share.rx_packets, packets);
        add(&self.share.rx_bytes, bytes);
    }

    fn service(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        self.caps.clone()
    }

    fn counters(&self) -> PortCounters {
        self.share.counters()
    }

    fn go_on_at(&mut self, _position: &[u64]) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, Wire};
    use frame::{Arena, ArenaConfig};

    #[test]
    fn what_is_sent_by_the_device_is_counted_apart() {
        let arena = Arena::new(ArenaConfig { slots: 16, ..ArenaConfig::default() }).unwrap();
        let (mut pool, wire) = (Pool::new(&arena, 16), Wire::default());
        let mut device = Memory::new("eth0", [2; 6], &wire);
        let (mut port, share) = Logical::new(&device.caps(), 0);
        assert_eq!((port.caps().on, port.caps().mac), (Some(0), [2; 6]));
        let mut batch = Batch::new();
        for len in [60, 70, 80] {
            batch.push(pool.make(&vec![0; len]).unwrap()).unwrap();
        }
        wire.limit(Some(2));
        assert_eq!(port.tx_burst_by(&mut device, &mut pool, &mut batch), 2);
        pool.give_all(&mut batch);
        wire.limit(None);
        batch.push(pool.make(&[0; 90]).unwrap()).unwrap();
        assert_eq!(device.tx_burst(&mut pool, &mut batch), 1);
        port.count_received(3, 300);
        let own = port.counters();
        assert_eq!((own.tx_packets, own.tx_bytes, own.rx_packets, own.rx_bytes), (2, 130, 3, 300));
        let mut others = PortCounters { rx_packets: 4, rx_bytes: 350, ..device.counters() };
        share.take_out_of(&mut others);
        assert_eq!((others.tx_packets, others.tx_bytes, others.tx_full), (1, 90, 1));
        assert_eq!((others.rx_packets, others.rx_bytes), (1, 50));
    }
}
