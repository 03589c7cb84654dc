//! Messages between DHCP servers of the core and the gateway as their clients' relay agent.

use dataplane::forward::InstanceId;
use dataplane::limit::{Allowance, Limit};
use dataplane::slow::make;
use engine::Env;
use frame::Frame;
use wire::{Outer, ethertype};

use super::{ControlPacket, Event, Reinject, SlowPath};
use crate::config::{Class, PuntSection};
use crate::lane::State;
use crate::link::Line;
use crate::{drops, punts};

/// The group of a control packet that a DHCP server of the core has sent.
pub const FROM_SERVERS: u16 = u16::MAX;

/// Servers' messages: as many as clients' in all.
pub(super) fn limit(rates: &PuntSection) -> Limit {
    Limit::new(allowance(rates))
}

pub(super) fn allowance(rates: &PuntSection) -> Allowance {
    let rate = rates.dhcp4.saturating_add(rates.dhcp6);
    Allowance::new(rate, (rate / 10).max(1))
}

impl SlowPath {
    /// A DHCP server's message to the gateway: goes to control, within the rate.
    pub(super) fn punt_server_message(&mut self, frame: &Frame, env: &mut Env) {
        if !self.servers.allow(env.now) {
            return env.stats.drop_outside(drops::LIMITED, frame.len());
        }
        let bytes = env.arena().bytes(frame).to_vec();
        let is_v6 = Outer::parse(&bytes).is_ok_and(|outer| outer.ethertype == ethertype::IP6);
        let packet = ControlPacket {
            class: if is_v6 { Class::Dhcp6 } else { Class::Dhcp4 },
            line: Line { port: frame.meta.port, s_vlan: 0, c_vlan: 0 },
            group: FROM_SERVERS,
            subscriber: None,
            frame: bytes,
        };
        if self.report_once(Event::Control(Box::new(packet))) {
            env.stats.terminated(punts::DHCP_SERVER);
        } else {
            env.stats.drop_outside(drops::CONTROL_FULL, frame.len());
        }
    }

    /// A packet of control's own to the core.
    pub(crate) fn send_to_core(&mut self, instance: InstanceId, packet: &[u8], state: &State, env: &mut Env) {
        // A worker that slept has no forwarding tables in hand yet: it has when the packet leaves the queue.
        let Some(port) = state.directory.core_port(instance) else {
            return env.stats.drop_outside(drops::NO_ROUTE, packet.len());
        };
        let made = make(env, |space| {
            space.get_mut(..packet.len())?.copy_from_slice(packet);
            Some(packet.len())
        });
        let Some(mut frame) = made else { return env.stats.drop_outside(drops::NO_FRAME, packet.len()) };
        (frame.meta.l3, frame.meta.port) = (0, port);
        // Counted when it leaves the queue, as released.
        self.own.put(Reinject::Core, frame, env);
    }
}
