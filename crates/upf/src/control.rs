//! The control side of a user plane: forwarding tables, neighbours, sessions; the other end of the workers' rings.

use std::net::IpAddr;

use stages::forward::{Forwarding, InstanceId, Plan};
use table::command;
use table::ring::Consumer;
use table::snapshot::Publisher;
use table::waker::Waker;
use wire::gtpu;

use crate::gateway::{Command, Reply};
use crate::simulate::Simulator;
use crate::slow::Event;

/// Control's ends of one worker.
pub struct Link {
    commands: command::Control<Command, Reply>,
    events: Consumer<Event>,
    waker: Waker,
}

impl Link {
    /// The ends as made.
    pub fn new(commands: command::Control<Command, Reply>, events: Consumer<Event>, waker: Waker) -> Self {
        Self { commands, events, waker }
    }
}

/// Control.
pub struct Control {
    plan: Plan,
    publisher: Publisher<Forwarding>,
    links: Vec<Link>,
    simulator: Option<Simulator>,
    dirty: bool,
}

impl Control {
    /// Control of workers with those links.
    pub fn new(plan: Plan, publisher: Publisher<Forwarding>, links: Vec<Link>, simulator: Option<Simulator>) -> Self {
        Self { plan, publisher, links, simulator, dirty: false }
    }

    /// The simulated control plane, if there is one.
    pub fn simulator(&self) -> Option<&Simulator> {
        self.simulator.as_ref()
    }

    /// The worker that owns subscriber `ue`, and its handle there: contiguous ranges of subscribers.
    pub fn place(&self, ue: u32) -> (u16, u32) {
        let workers = self.links.len().max(1) as u32;
        let count = self.simulator.as_ref().map_or(1, Simulator::count).max(1);
        let each = count.div_ceil(workers);
        ((ue / each) as u16, ue % each)
    }

    /// The number of the tunnel to an address; published with the next [`Control::publish`] when it is new.
    pub fn tunnel(&mut self, instance: InstanceId, to: IpAddr) -> Option<u32> {
        let (id, new) = self.plan.tunnel(instance, to, gtpu::PORT)?;
        self.dirty |= new;
        Some(id)
    }

    /// Publishes the forwarding tables if they changed.
    pub fn publish(&mut self) {
        if self.dirty {
            self.publisher.publish(self.plan.compile());
            self.dirty = false;
            for link in &self.links {
                link.waker.nudge();
            }
        }
    }
}
