//! With whom a node works together (6.2.6 to 6.2.8).

use crate::ie::{CpFunctionFeatures, NodeId, RecoveryTimeStamp, UpFunctionFeatures, UserPlaneIpResourceInformation};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// An association of this node, as long as it lives; numbers are not used again.
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
}

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
    next: u32,
}

impl Associations {
    pub fn len(&self) -> usize {
        self.all.len()
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

    /// Those of an address, oldest first.
    pub fn of_address(&self, address: IpAddr) -> &[AssociationId] {
        self.by_address.get(&address).map_or(&[], Vec::as_slice)
    }

    pub fn add(&mut self, association: Association) -> AssociationId {
        let id = AssociationId(self.next);
        self.next += 1;
        self.by_node.insert(association.node_id.clone(), id);
        self.by_address.entry(association.address.ip()).or_default().push(id);
        self.all.insert(id, association);
        id
    }

    pub fn remove(&mut self, id: AssociationId) -> Option<Association> {
        let association = self.all.remove(&id)?;
        self.by_node.remove(&association.node_id);
        let address = association.address.ip();
        if let Some(ids) = self.by_address.get_mut(&address) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_address.remove(&address);
            }
        }
        Some(association)
    }

    /// Replaces what is known of a peer, whose address may have changed.
    pub fn replace(&mut self, id: AssociationId, association: Association) {
        self.remove(id);
        self.by_node.insert(association.node_id.clone(), id);
        self.by_address.entry(association.address.ip()).or_default().push(id);
        self.all.insert(id, association);
    }
}
