//! Neighbours: who is asked, who is told where we are, and what waited for them.

use std::net::IpAddr;

use stages::neighbour::{
    self, Action, Request, Station, arp_announcement, arp_request, neighbour_advertisement, neighbour_solicitation,
};
use wire::{Mac, Vlan};

use super::Control;
use crate::gateway::Command;

impl Control {
    /// Carries out what the neighbour cache decided.
    pub(super) fn act(&mut self) {
        let actions = std::mem::take(&mut self.actions);
        let mut woken = Vec::new();
        for action in actions {
            match action {
                Action::Send(request) => self.send_request(&request),
                Action::Resolved { port, address, mac } => {
                    // Ports are few; the cache was given these numbers by us.
                    self.dirty |= self.plan.set_neighbour(port as u8, address, mac);
                    woken.push(((port, address), true));
                }
                Action::Failed { port, address } => {
                    self.dirty |= self.plan.remove_neighbour(port as u8, address);
                    woken.push(((port, address), false));
                }
                Action::Forgotten { port, address } => {
                    self.dirty |= self.plan.remove_neighbour(port as u8, address);
                }
            }
        }
        // Tables before the packets that need them.
        self.publish();
        for (key, resolved) in woken {
            for (worker, key) in self.waiting.remove(&key).into_iter().flatten() {
                let command = if resolved { Command::Retry { key } } else { Command::GiveUp { key } };
                self.links[worker].post(command);
            }
        }
    }

    fn station(&self, port: u16) -> Option<(u8, Station)> {
        let view = self.plan.ports.get(usize::from(port))?;
        Some((port as u8, Station { mac: Mac(view.mac), vlan: view.vlan.map(Vlan::of) }))
    }

    fn send_request(&mut self, request: &Request) {
        let Some((port, us)) = self.station(request.port) else { return };
        let view = &self.plan.ports[usize::from(port)];
        let mut frame = vec![0; neighbour::MAX_FRAME];
        let len = match (view.source_for(request.address), request.address) {
            (Some(IpAddr::V4(ours)), IpAddr::V4(target)) => arp_request(&mut frame, &us, ours, target, request.to),
            (Some(IpAddr::V6(ours)), IpAddr::V6(target)) => {
                neighbour_solicitation(&mut frame, &us, ours, target, request.to)
            }
            _ => None,
        };
        self.send_frame(port, frame, len);
    }

    fn send_frame(&mut self, port: u8, mut frame: Vec<u8>, len: Option<usize>) {
        if let (Some(len), Some(link)) = (len, self.links.first_mut()) {
            frame.truncate(len);
            link.post(Command::Send { port, frame });
        }
    }

    /// Tells the neighbourhood where our addresses are (RFC 5227, 3; RFC 4861, 7.2.6): a restart or fail-over may have
    /// changed the hardware address behind them.
    pub(super) fn announce(&mut self) {
        for port in 0..self.plan.ports.len() as u16 {
            let Some((port, us)) = self.station(port) else { continue };
            let view = self.plan.ports[usize::from(port)].clone();
            for (address, _) in view.v4 {
                let mut frame = vec![0; neighbour::MAX_FRAME];
                let len = arp_announcement(&mut frame, &us, address.into());
                self.send_frame(port, frame, len);
            }
            for (address, _) in view.v6 {
                let mut frame = vec![0; neighbour::MAX_FRAME];
                let len = neighbour_advertisement(&mut frame, &us, address.into(), None, true);
                self.send_frame(port, frame, len);
            }
        }
    }
}
