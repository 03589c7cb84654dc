//! Another configuration while a node runs.

use super::association::Association;
use super::{AssociationId, Config, Node, Peer, Removal, Time};
use std::net::IpAddr;

impl Node {
    /// Goes by another configuration: by its networks, [pins](Config::pins), limits, rates, heartbeats, role and resources.
    /// What names the node, how requests are sent again and how responses are kept stays as it was made.
    ///
    /// An association whose address the configuration does not admit any more goes [`Config::keep_lost`] after `now`, unless
    /// its peer releases it before; until then its messages are taken, and [`Node::max_sessions`] is 0. Returns those for
    /// which that begins now: the driver asks their peers for release (6.2.7.3). One that a later configuration admits stays.
    pub fn reconfigure(&mut self, config: Config, now: Time) -> Vec<AssociationId> {
        let before = self.config.clone();
        self.config = Config {
            role: config.role,
            heartbeat_interval: config.heartbeat_interval,
            never_answers: config.never_answers,
            keep_lost: config.keep_lost,
            max_associations: config.max_associations,
            max_associations_per_address: config.max_associations_per_address,
            pins: config.pins,
            message_rate: config.message_rate,
            message_burst: config.message_burst,
            user_plane_ip_resources: config.user_plane_ip_resources,
            allow: config.allow,
            ..before.clone()
        };
        self.set_pins(&before, now);
        let pace = |peer: &mut Peer| peer.pace.set(self.config.message_rate, self.config.message_burst);
        self.peers.values_mut().chain([&mut self.strangers]).for_each(pace);
        if self.config.heartbeat_interval != before.heartbeat_interval {
            self.heartbeats.clear();
            let all: Vec<AssociationId> = self.associations.iter().map(|(id, _)| id).collect();
            all.into_iter().for_each(|id| self.schedule_heartbeat(id, now));
        }
        self.withdraw(now)
    }

    /// Has the peers that the configuration pins. Responses go where requests are looked up from now on, so that one that comes
    /// again is not carried out twice.
    fn set_pins(&mut self, before: &Config, now: Time) {
        let of = |config: &Config| (config.pins.clone(), config.message_rate, config.message_burst);
        if of(&self.config) == of(before) {
            return;
        }
        let mut old: Vec<Option<Peer>> = std::mem::take(&mut self.pinned).into_iter().map(Some).collect();
        let mut pinned = Vec::with_capacity(self.config.pins.len());
        for pin in &self.config.pins {
            let mut peer = Peer::pinned(&self.config, pin);
            let known = before.pins.iter().position(|other| other.node_id == pin.node_id);
            if let Some(known) = known.and_then(|known| old.get_mut(known)?.take()) {
                peer.responses.absorb(&known.responses, now);
            }
            for (_, other) in self.peers.iter().filter(|(address, _)| pin.contains(**address)) {
                peer.responses.absorb(&other.responses, now);
            }
            pinned.push(peer);
        }
        for (pin, peer) in before.pins.iter().zip(old).filter_map(|(pin, peer)| Some((pin, peer?))) {
            let association = self.associations.of_node(&pin.node_id).and_then(|id| self.associations.get(id));
            let own = association.and_then(|association| self.peers.get_mut(&association.address.ip()));
            own.into_iter().for_each(|own| own.responses.absorb(&peer.responses, now));
        }
        self.pinned = pinned;
        self.associations.set_pins(self.config.pins.clone());
    }

    /// Associations that are not admitted go; those that are stay. Those for which it begins.
    fn withdraw(&mut self, now: Time) -> Vec<AssociationId> {
        let (admitted, others): (Vec<_>, Vec<_>) =
            self.associations.iter().partition(|(_, association)| self.admits(association));
        let of = |list: Vec<(AssociationId, &Association)>| list.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        let (admitted, others) = (of(admitted), of(others));
        admitted.into_iter().for_each(|id| self.associations.stay(id));
        let until = now + self.config.keep_lost;
        others.into_iter().filter(|id| self.associations.leave_by(*id, until)).collect()
    }

    /// Whether the configuration admits an association at the address it has.
    fn admits(&self, association: &Association) -> bool {
        let address = association.address.ip();
        let pin = self.associations.pin_of(&association.node_id).and_then(|pin| self.associations.pin(pin));
        self.config.allows(address) && pin.is_none_or(|pin| pin.contains(address))
    }

    /// Whether messages are taken from an address: it is allowed, or that of an association that goes.
    pub fn takes_from(&self, address: IpAddr) -> bool {
        let all = &self.associations;
        self.config.allows(address) || (all.has_leaving() && all.at(address).any(|id| all.leaves_at(id).is_some()))
    }

    /// Whether the association goes, as its address is not admitted any more.
    pub fn is_leaving(&self, id: AssociationId) -> bool {
        self.associations.leaves_at(id).is_some()
    }

    /// Addresses of associations that go: their messages are taken, though [`Config::allow`] does not have them.
    pub fn leaving(&self) -> impl Iterator<Item = IpAddr> {
        let leaving = self.associations.iter().filter(|(id, _)| self.is_leaving(*id));
        leaving
            .flat_map(|(_, association)| [association.address.ip()].into_iter().chain(association.alternatives.clone()))
    }

    /// Lets associations go whose time is over.
    pub(super) fn see_to_leaving(&mut self, now: Time) {
        while let Some(id) = self.associations.next_to_leave(now) {
            self.remove(id, Removal::NotAllowed, now);
        }
    }
}
