//! Ports that give each worker the packets of its own groups (`fanout=subscriber`, and `dpdk:` ports whose device steers):
//! the kernel, or the device, is told anew after a move.
//!
//! ```text
//! new owner holds its ports ─► kernel chooses by the new owners ─► old owner finds its ports empty ─► new owner goes on
//! ```
//!
//! Packets of one flow come by two sockets around the change: those that the old owner has received are handed over before
//! the new owner receives any.

use dataplane::forward::InstanceId;
use engine::Owner;
use gateway::shell::Sections as _;
use gateway::shell::flows::{by_device, change, is_any_steered};
use port::{Steer, steer_anew};

use super::Control;
use crate::gateway::{Command, PortsStep};
use crate::steer::Directory;

/// A change goes on after that time though a worker has not answered, in nanoseconds.
const LONGEST: u64 = 20_000_000;

/// A change of what ports give to whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// Changes are numbered: a late answer to an earlier one is none to this one.
    number: u32,
    from: Owner,
    to: Owner,
    step: Waits,
    /// When it goes on though no answer came; none: so long after the next look at the clock.
    until: Option<u64>,
}

/// What a change waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// The new owner is to hold its ports.
    Hold,
    /// The old owner is to find its ports empty.
    Empty,
}

impl Control {
    /// Has ports give workers what is theirs, at the start.
    pub(super) fn steer_ports(&mut self) {
        if self.are_ports_steered() {
            self.set_port_steering();
        }
    }

    /// Whether there are ports that can follow groups.
    fn are_ports_steered(&self) -> bool {
        let uris = || self.config.port.iter().map(|port| &*port.uri);
        self.links.len() > 1 && (uris().any(|uri| uri.contains("fanout=subscriber")) || is_any_steered(uris()))
    }

    /// After a move: packets of its groups are to come to the new owner at once.
    pub(super) fn begin_port_change(&mut self, from: Owner, to: Owner, now: u64) {
        if self.are_ports_steered() {
            self.port_changes += 1;
            let number = self.port_changes;
            self.port_change = Some(Change { number, from, to, step: Waits::Hold, until: Some(now + LONGEST) });
            self.send_ports(to, PortsStep::Hold(number));
        }
    }

    /// Goes on with a change whose old or new owner has not answered in time. True: there is a change.
    pub(super) fn turn_port_change(&mut self, now: u64) -> bool {
        if let Some(change) = &mut self.port_change {
            let until = *change.until.get_or_insert(now + LONGEST);
            if now >= until {
                let Change { from, to, step, .. } = *change;
                let (worker, what) = if step == Waits::Hold { (to, "hold") } else { (from, "empty") };
                tracing::warn!(
                    target: "worker", event = "ports_change_late", worker, what,
                    "worker {worker} has not answered in time while ports change: packets of a group may be out of order"
                );
                self.go_on();
            }
        }
        self.port_change.is_some()
    }

    /// When [`turn_port_change`](Self::turn_port_change) is to be called.
    pub(super) fn port_change_deadline(&self) -> Option<u64> {
        self.port_change.map(|change| change.until.unwrap_or(0))
    }

    /// A worker has done its step.
    pub(super) fn on_ports(&mut self, worker: Owner, number: u32, step: Waits) {
        let is_awaited = |change: Change| {
            let of = if step == Waits::Hold { change.to } else { change.from };
            (change.number, change.step, of) == (number, step, worker)
        };
        if self.port_change.is_some_and(is_awaited) {
            self.go_on();
        }
    }

    fn go_on(&mut self) {
        let Some(mut change) = self.port_change.take() else { return };
        match change.step {
            Waits::Hold => {
                // The kernel takes its time: until no packet goes by the program before.
                self.set_port_steering();
                (change.step, change.until) = (Waits::Empty, None);
                self.send_ports(change.from, PortsStep::Empty(change.number));
                self.port_change = Some(change);
            }
            Waits::Empty => self.send_ports(change.to, PortsStep::GoOn),
        }
    }

    fn set_port_steering(&self) {
        let directory = Directory::new(&self.config, &self.layout, self.nat.as_ref());
        // Owners of which none can be made were refused before.
        let flows = directory.map(|directory| directory.flows()).unwrap_or_default();
        let flows = by_device(&self.config.head().ports, &flows);
        let devices = change(self.config.port.iter().map(|port| &*port.uri), &flows);
        let changed = steer_anew(&self.port_steering()).map(drop).and(devices);
        if let Err(error) = changed {
            tracing::warn!(
                target: "worker", event = "ports_not_steered", %error,
                "ports give packets by the owners of before, or by none, and workers hand them over: {error}"
            );
        }
    }

    fn send_ports(&mut self, worker: Owner, step: PortsStep) {
        if let Some(link) = self.links.get_mut(usize::from(worker)) {
            link.post(Command::Ports(step));
        }
    }

    /// Whose the groups' addresses are. Those that several VRFs have are the first one's.
    fn port_steering(&self) -> Steer {
        let mut steer = Steer::new();
        let mut groups: Vec<_> = self.layout.groups.iter().collect();
        groups.sort_by_key(|group| -> InstanceId { group.instance });
        let workers = self.links.len();
        for group in groups.into_iter().filter(|group| usize::from(group.worker) < workers) {
            for slice in &group.v4 {
                let [first, last] = [slice.first, slice.last].map(|bits| std::net::Ipv4Addr::from_bits(bits).into());
                let _ = steer.give(first, last, group.worker);
            }
            for slice in &group.v6 {
                let [first, last] =
                    [slice.first, slice.last].map(|bits| std::net::Ipv6Addr::from_bits(u128::from(bits) << 64).into());
                let _ = steer.give(first, last, group.worker);
            }
        }
        steer
    }
}
