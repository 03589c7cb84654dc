//! Ports that share a device: what comes in there is sorted by the gateway.

use frame::{BURST, Frame};

use super::Worker;
use crate::clock::Clock;
use crate::gateway::{Gateway, PortId};

impl<G: Gateway> Worker<G> {
    /// What came in by a device that several ports share: for each of them, as if it had come in by one of its own. What is for
    /// no port is the device's own. Returns its bytes.
    #[inline(never)]
    pub(super) fn receive_by_device<C: Clock>(&mut self, device: usize) -> usize {
        let mut came: [(usize, Frame); BURST] = [const { (0, Frame::none()) }; BURST];
        let mut count = 0;
        let (gateway, arena, ports) = (&self.gateway, self.env.pool.arena(), &self.ports);
        self.incoming.drain(|frame| {
            let id = usize::from(gateway.port_of(device as PortId, arena.bytes(&frame)));
            let is_on_it = ports.get(id).is_some_and(|door| door.on == Some(device));
            came[count] = (if is_on_it { id } else { device }, frame);
            count += 1;
        });
        let mut bytes = 0;
        for id in 0..self.ports.len() {
            if id != device && self.ports[id].on != Some(device) {
                continue;
            }
            let (mut packets, mut octets) = (0, 0);
            for (_, frame) in came[..count].iter_mut().filter(|(port, frame)| *port == id && !frame.is_none()) {
                (packets, octets) = (packets + 1, octets + frame.len() as u64);
                let _ = self.incoming.push(frame.take()).map_err(|_| unreachable!("as many as came"));
            }
            if packets > 0 {
                self.ports[id].port.count_received(packets, octets);
                bytes += self.receive::<C>(id);
            }
        }
        bytes
    }
}
