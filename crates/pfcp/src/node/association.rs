//! With whom a node works together (6.2.6 to 6.2.8).

use super::Pin;
use crate::ie::{CpFunctionFeatures, NodeId, RecoveryTimeStamp, UpFunctionFeatures, UserPlaneIpResourceInformation};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// An association of this node, as long as it lives: below 2^24 - 1. Numbers are not used again soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssociationId(pub u32);

/// What is known of a peer.
#[derive(Clone, Debug, PartialEq)]
pub struct Association {
    /// Who it is.
    pub node_id: NodeId,
    /// Where our requests go.
    pub address: SocketAddr,
    /// Since when it is there.
    pub recovery_time_stamp: RecoveryTimeStamp,
    /// What it can do as a user plane.
    pub up_function_features: Option<UpFunctionFeatures>,
    /// What it can do as a control plane.
    pub cp_function_features: Option<CpFunctionFeatures>,
    /// Addresses and TEIDs it lets the control plane give out.
    pub user_plane_ip_resource_information: Vec<UserPlaneIpResourceInformation>,
    /// Whether it is believed to be there.
    pub state: State,
    /// It has answered a heartbeat, ever.
    pub answers_heartbeats: bool,
    /// Further addresses its requests may come from: SMFs of its set (5.22). Not those of the configuration.
    pub alternatives: Vec<IpAddr>,
    /// Its address has answered a heartbeat with its Recovery Time Stamp.
    pub confirmed: bool,
    /// Another association has, or had, the same address.
    pub shared: bool,
    /// Its sessions, as far as [`Node::set_sessions`](super::Node::set_sessions) was told.
    pub sessions: u32,
    /// When it was made.
    pub since: super::Time,
}

/// Numbers of associations: as many as those who keep them by 24 bits tell from each other, and none for nothing.
const NUMBERS: u32 = 0xff_ffff;

/// Further addresses of an association at most.
const MAX_ALTERNATIVES: usize = 16;

/// Whether a peer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As far as we know.
    Up,
    /// It no longer answers; its sessions are kept until then.
    Lost {
        /// When they go.
        until: super::Time,
    },
}

/// All of them: found by number, by Node ID, and by address.
#[derive(Debug, Default)]
pub(super) struct Associations {
    all: HashMap<AssociationId, Association>,
    by_node: HashMap<NodeId, AssociationId>,
    by_address: HashMap<IpAddr, Vec<AssociationId>>,
    /// By further addresses, none of which is in `by_address`.
    by_alternative: HashMap<IpAddr, Vec<AssociationId>>,
    pins: Vec<Pin>,
    /// Those that go by then, as the configuration does not admit them any more.
    leaving: HashMap<AssociationId, super::Time>,
    next: u32,
    /// How often one has come or gone.
    changes: u64,
}

impl Associations {
    pub fn new(pins: Vec<Pin>) -> Associations {
        Associations { pins, ..Associations::default() }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Has other pins. A peer that is pinned from now on has no further addresses.
    pub(crate) fn set_pins(&mut self, pins: Vec<Pin>) {
        self.pins = pins;
        self.changes += 1;
        let is_pinned = |(_, one): &(AssociationId, &Association)| self.pin_of(&one.node_id).is_some();
        let pinned: Vec<AssociationId> = self.iter().filter(is_pinned).map(|(id, _)| id).collect();
        for id in pinned {
            let known = self.all.get_mut(&id).map(|one| std::mem::take(&mut one.alternatives)).unwrap_or_default();
            known.into_iter().for_each(|address| drop_from(&mut self.by_alternative, address, id));
        }
    }

    /// Has an association go by then; whether that begins now.
    pub(crate) fn leave_by(&mut self, id: AssociationId, until: super::Time) -> bool {
        let begins = !self.leaving.contains_key(&id);
        self.leaving.entry(id).or_insert(until);
        begins
    }

    /// Has an association stay.
    pub fn stay(&mut self, id: AssociationId) {
        self.leaving.remove(&id);
    }

    /// When an association goes, if it does.
    pub(crate) fn leaves_at(&self, id: AssociationId) -> Option<super::Time> {
        self.leaving.get(&id).copied()
    }

    pub(crate) fn has_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    pub(crate) fn leaving_due_at(&self) -> Option<super::Time> {
        self.leaving.values().min().copied()
    }

    /// One whose time is over.
    pub(crate) fn next_to_leave(&self, now: super::Time) -> Option<AssociationId> {
        self.leaving.iter().find(|(_, until)| **until <= now).map(|(id, _)| *id)
    }

    pub fn get(&self, id: AssociationId) -> Option<&Association> {
        self.all.get(&id)
    }

    pub fn get_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        self.all.get_mut(&id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (AssociationId, &Association)> {
        self.all.iter().map(|(id, association)| (*id, association))
    }

    pub fn of_node(&self, node: &NodeId) -> Option<AssociationId> {
        self.by_node.get(node).copied()
    }

    /// Those whose messages go to an address, oldest first.
    pub fn of_address(&self, address: IpAddr) -> &[AssociationId] {
        self.by_address.get(&address).map_or(&[], Vec::as_slice)
    }

    /// Addresses that associations are with.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.by_address.keys().copied()
    }

    /// The oldest association with an address, or with the peer that the configuration has the address for. One that a peer
    /// only named does not count: it may be somebody else's.
    pub fn first_at(&self, address: IpAddr) -> Option<AssociationId> {
        self.of_address(address).first().copied().or_else(|| {
            let mut pins = self.pins.iter().filter(|pin| pin.contains(address));
            pins.find_map(|pin| self.by_node.get(&pin.node_id)).copied()
        })
    }

    /// The configuration's entry for a Node ID.
    pub(crate) fn pin_of(&self, node: &NodeId) -> Option<usize> {
        self.pins.iter().position(|pin| pin.node_id == *node)
    }

    /// The first of the configuration's entries with an address.
    pub(crate) fn pin_at(&self, address: IpAddr) -> Option<usize> {
        self.pins.iter().position(|pin| pin.contains(address))
    }

    pub fn pin(&self, n: usize) -> Option<&Pin> {
        self.pins.get(n)
    }

    /// Those that requests from an address may be of: configured for it, at it, with it as a further address.
    pub fn at(&self, address: IpAddr) -> impl Iterator<Item = AssociationId> {
        self.at_home(address).chain(self.by_alternative.get(&address).into_iter().flatten().copied())
    }

    /// As [`at`](Self::at), without those that have the address as a further one.
    pub(crate) fn at_home(&self, address: IpAddr) -> impl Iterator<Item = AssociationId> {
        let pinned = self.pins.iter().filter(move |pin| pin.contains(address));
        let pinned = pinned.filter_map(move |pin| self.of_node(&pin.node_id));
        let others = self.of_address(address).iter().copied();
        let is_unpinned = move |id: &AssociationId| {
            self.leaving.contains_key(id) || self.get(*id).is_some_and(|one| self.pin_of(&one.node_id).is_none())
        };
        pinned.chain(others.filter(is_unpinned))
    }

    /// Those that share the limits of a peer: of its entry in the configuration, or of its address.
    pub fn siblings(&self, id: AssociationId) -> Vec<AssociationId> {
        let group = |one: &Association| self.pin_of(&one.node_id).or_else(|| self.pin_at(one.address.ip()));
        let Some(own) = self.get(id) else { return Vec::new() };
        match group(own) {
            Some(pin) => self.iter().filter(|(_, one)| group(one) == Some(pin)).map(|(id, _)| id).collect(),
            None => self.of_address(own.address.ip()).to_vec(),
        }
    }

    pub fn add(&mut self, association: Association) -> AssociationId {
        // Numbers come round after 2^24, which takes longer than anything of an association that is over lasts.
        let mut id = AssociationId(self.next % NUMBERS);
        while self.all.contains_key(&id) {
            id.0 = (id.0 + 1) % NUMBERS;
        }
        self.next = id.0 + 1;
        self.enter(id, association);
        id
    }

    /// Enters one of an earlier run under the number it had.
    pub fn restore(&mut self, id: AssociationId, association: Association) {
        self.next = self.next.max(id.0.saturating_add(1)) % NUMBERS;
        self.enter(id, association);
    }

    /// How often one has come or gone: unless this has changed, they have the same addresses.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    fn enter(&mut self, id: AssociationId, mut association: Association) {
        self.changes += 1;
        let address = association.address.ip();
        self.by_node.insert(association.node_id.clone(), id);
        let here = self.by_address.entry(address).or_default();
        here.push(id);
        if here.len() > 1 {
            association.shared = true;
            for other in here {
                self.all.entry(*other).and_modify(|other| other.shared = true);
            }
        }
        // From now on the address is this peer's.
        for other in self.by_alternative.remove(&address).unwrap_or_default() {
            if let Some(other) = self.all.get_mut(&other) {
                other.alternatives.retain(|alternative| *alternative != address);
            }
        }
        let alternatives = std::mem::take(&mut association.alternatives);
        self.all.insert(id, association);
        alternatives.into_iter().for_each(|alternative| self.learn(id, alternative));
    }

    /// Takes note of a further address of a peer, unless it is another's or there are too many.
    pub fn learn(&mut self, id: AssociationId, alternative: IpAddr) {
        let is_taken = self.by_address.contains_key(&alternative) || self.pin_at(alternative).is_some();
        let is_pinned = self.get(id).is_none_or(|association| self.pin_of(&association.node_id).is_some());
        let Some(association) = self.all.get_mut(&id).filter(|_| !is_taken && !is_pinned) else { return };
        let known = &mut association.alternatives;
        if known.len() < MAX_ALTERNATIVES && !known.contains(&alternative) {
            known.push(alternative);
            self.by_alternative.entry(alternative).or_default().push(id);
        }
    }

    pub fn remove(&mut self, id: AssociationId) -> Option<Association> {
        let association = self.all.remove(&id)?;
        self.changes += 1;
        if self.of_node(&association.node_id) == Some(id) {
            self.by_node.remove(&association.node_id);
        }
        self.leaving.remove(&id);
        drop_from(&mut self.by_address, association.address.ip(), id);
        association.alternatives.iter().for_each(|address| drop_from(&mut self.by_alternative, *address, id));
        Some(association)
    }

    /// Replaces what is known of a peer, whose address may have changed.
    pub fn replace(&mut self, id: AssociationId, association: Association) {
        self.remove(id);
        self.enter(id, association);
    }
}

fn drop_from(by: &mut HashMap<IpAddr, Vec<AssociationId>>, address: IpAddr, id: AssociationId) {
    if let Some(ids) = by.get_mut(&address) {
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            by.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn association(n: u8) -> Association {
        Association {
            node_id: NodeId::from(IpAddr::from([10, 0, 0, n])),
            address: SocketAddr::from(([10, 0, 0, n], crate::PORT)),
            recovery_time_stamp: RecoveryTimeStamp::default(),
            up_function_features: None,
            cp_function_features: None,
            user_plane_ip_resource_information: Vec::new(),
            state: State::Up,
            answers_heartbeats: false,
            alternatives: Vec::new(),
            confirmed: false,
            shared: false,
            sessions: 0,
            since: super::super::Time::ZERO,
        }
    }

    #[test]
    fn numbers_come_round_to_those_that_are_free() {
        let mut all = Associations::new(Vec::new());
        all.restore(AssociationId(NUMBERS - 2), association(1));
        all.restore(AssociationId(0), association(2));
        let ids: Vec<u32> = (3..6).map(|n| all.add(association(n)).0).collect();
        assert_eq!((ids, all.len()), (vec![NUMBERS - 1, 1, 2], 5));
        // One that has the name of another takes nothing with it when it goes.
        all.restore(AssociationId(77), association(2));
        all.remove(AssociationId(0));
        assert_eq!(all.of_node(&association(2).node_id), Some(AssociationId(77)));
    }
}
