//! Control's own state on its way to another process.

use std::net::IpAddr;

use wire::Mac;

use super::Control;

/// A neighbour: its port, address and hardware address.
pub type Neighbour = (u8, IpAddr, [u8; 6]);

impl Control {
    /// Whether workers owe no reply and nothing they told waits.
    pub fn is_settled(&mut self) -> bool {
        self.answers.is_empty()
            && self.reports.is_empty()
            && self.links.iter_mut().all(|link| link.is_settled() && !link.has_news())
    }

    /// Neighbours by whose hardware addresses packets leave: those taken over from another process, too.
    pub(crate) fn known_neighbours(&self) -> Vec<Neighbour> {
        self.plan().neighbours().iter().map(|(port, address, mac)| (*port, *address, mac.0)).collect()
    }

    /// Takes neighbours to be where another process found them, until they are heard, and publishes that.
    pub fn suppose(&mut self, neighbours: &[Neighbour]) {
        for (port, address, mac) in neighbours {
            self.neighbourhood.suppose(*port, *address, Mac(*mac));
        }
        self.publish();
    }

    /// A session that was put in place before its worker runs is no longer there.
    pub fn abandon(&mut self, worker: u16, handle: u32) {
        self.remotes.forget((worker, handle));
    }
}
