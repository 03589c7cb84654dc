//! Neighbours: resolution, announcements of our own addresses, and packets that waited.

use std::net::IpAddr;

use dataplane::forward::Neighbourhood;

use super::{Control, Link};
use crate::gateway::Command;

/// Has a worker send frames of ours: the first, as good as any.
fn send(links: &mut [Link], port: u8, frame: Vec<u8>) {
    if let Some(link) = links.first_mut() {
        link.post(Command::Send { port, frame });
    }
}

impl Control {
    /// Carries out what is decided about neighbours, and wakes what waited for them.
    pub(super) fn act(&mut self, now: u64) {
        let settled = self.neighbourhood.act(now, |port, frame| send(&mut self.links, port, frame));
        // Tables before the packets that need them.
        self.publish();
        for (key, resolved) in settled {
            for (worker, key) in self.waiting.remove(&key).into_iter().flatten() {
                let command = if resolved { Command::Retry { key } } else { Command::GiveUp { key } };
                self.links[worker].post(command);
            }
        }
    }

    /// Has every next hop of routes and tunnels resolved; returns those that are not: their ports and addresses. The answers
    /// come with the next [`poll`](Self::poll)s. With `again`, those asked before are asked again.
    pub(crate) fn resolve_next_hops(&mut self, now: u64, again: bool) -> Vec<(u8, IpAddr)> {
        if again {
            self.neighbourhood.ask_again();
        }
        let unknown = self.neighbourhood.want_next_hops(now);
        self.act(now);
        unknown
    }

    /// Neighbours and routes, to be changed; what changes is published with the next [`poll`](Self::poll).
    pub(crate) fn neighbourhood(&mut self) -> &mut Neighbourhood {
        &mut self.neighbourhood
    }

    /// Has a worker send complete frames by ports.
    pub(crate) fn send_frames(&mut self, frames: Vec<(u8, Vec<u8>)>) {
        frames.into_iter().for_each(|(port, frame)| send(&mut self.links, port, frame));
    }

    /// Tells the neighbourhood where our addresses are.
    pub(super) fn announce(&mut self) {
        for (port, frame) in self.neighbourhood.plan().announcements() {
            send(&mut self.links, port, frame);
        }
    }
}
