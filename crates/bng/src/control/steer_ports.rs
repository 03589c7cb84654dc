//! Ports that give each worker the packets of its own groups (`fanout=subscriber`): the kernel is told anew after a move.
//!
//! ```text
//! new owner holds its ports ─► kernel chooses by the new owners ─► old owner finds its ports empty ─► new owner goes on
//! ```
//!
//! Packets of one flow come by two sockets around the change: those that the old owner has received are handed over before
//! the new owner receives any.

use dataplane::forward::InstanceId;
use engine::Owner;
use port::{PortError, Steer, steer_anew};

use super::Control;
use crate::gateway::{Command, PortsStep};

/// The new owner goes on after that time, whatever the old one does, in nanoseconds.
const LONGEST: u64 = 20_000_000;

/// A change of what ports give to whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    from: Owner,
    to: Owner,
    step: Step,
    /// When it goes on though no answer came.
    until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The new owner is to hold its ports.
    Hold,
    /// The old owner is to find its ports empty.
    Empty,
}

impl Control {
    /// Has ports give workers what is theirs, at the start.
    pub(super) fn steer_ports(&mut self) {
        if self.links.len() > 1 {
            let set = steer_anew(&self.port_steering());
            self.are_ports_steered = self.note_steering(set);
        }
    }

    /// After a move: packets of its groups are to come to the new owner at once.
    pub(super) fn begin_port_change(&mut self, from: Owner, to: Owner, now: u64) {
        if self.are_ports_steered {
            self.port_change = Some(Change { from, to, step: Step::Hold, until: now + LONGEST });
            self.send_ports(to, PortsStep::Hold);
        }
    }

    /// Goes on with a change whose old or new owner has not answered in time. True: there is a change.
    pub(super) fn turn_port_change(&mut self, now: u64) -> bool {
        if self.port_change.is_some_and(|change| now >= change.until) {
            self.go_on(now);
        }
        self.port_change.is_some()
    }

    /// When [`turn_port_change`](Self::turn_port_change) is to be called.
    pub(super) fn port_change_deadline(&self) -> Option<u64> {
        self.port_change.map(|change| change.until)
    }

    /// A worker has done its step.
    pub(super) fn on_ports(&mut self, worker: Owner, now: u64) {
        let waits_for = self.port_change.map(|change| if change.step == Step::Hold { change.to } else { change.from });
        if waits_for == Some(worker) {
            self.go_on(now);
        }
    }

    fn go_on(&mut self, now: u64) {
        let Some(mut change) = self.port_change.take() else { return };
        match change.step {
            Step::Hold => {
                let set = steer_anew(&self.port_steering());
                self.are_ports_steered = self.note_steering(set);
                (change.step, change.until) = (Step::Empty, now + LONGEST);
                self.send_ports(change.from, PortsStep::Empty);
                self.port_change = Some(change);
            }
            Step::Empty => self.send_ports(change.to, PortsStep::GoOn),
        }
    }

    /// Whether there are ports that are steered.
    fn note_steering(&mut self, set: Result<usize, PortError>) -> bool {
        set.unwrap_or_else(|error| {
            tracing::warn!(
                target: "worker", event = "ports_not_steered", %error,
                "ports go on to give packets by the owners before, and workers hand them over: {error}"
            );
            0
        }) > 0
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
        for group in groups {
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
