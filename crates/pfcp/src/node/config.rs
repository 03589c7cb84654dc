//! What is set when a node is made.

use crate::ie::{CpFunctionFeatures, NodeId, UpFunctionFeatures, UserPlaneIpResourceInformation};
use std::net::IpAddr;
use std::time::Duration;

/// How a node behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who it is.
    pub node_id: NodeId,
    /// What it is and can do.
    pub role: Role,
    /// The port of peers that set up an association with us, where our requests go.
    pub peer_port: u16,
    /// T1: how long to wait for a response before a request is sent again (6.4).
    pub t1: Duration,
    /// N1: how often a request is sent in all (6.4).
    pub n1: u8,
    /// Requests waiting for a response, at most.
    pub max_requests: usize,
    /// How long the responses to a peer are kept, for requests that come again; the peer's T1 × N1 or more.
    pub keep_responses: Duration,
    /// How many of them, for each peer.
    pub max_responses: usize,
    /// Heartbeats are sent so often; `None` for never.
    pub heartbeat_interval: Option<Duration>,
    /// What to think of a peer that has not answered a single heartbeat.
    pub never_answers: NeverAnswers,
    /// How long the sessions of a lost association are kept.
    pub keep_lost: Duration,
    /// Associations at most.
    pub max_associations: usize,
    /// Associations of one address at most; those of [`pins`](Self::pins) are not counted.
    pub max_associations_per_address: usize,
    /// Time between the heartbeats that confirm a request which would end or take over sessions, and between two such
    /// confirmations of an association.
    pub probe_interval: Duration,
    /// How many of them go unanswered before a peer counts as silent to a request from its own addresses.
    pub probes: u8,
    /// As `probes`, to an Association Setup Request from any other address.
    pub takeover_probes: u8,
    /// How long a peer with sessions has to contradict, by using one of them, a request in its name that ends them all.
    pub contradiction: Duration,
    /// Peers whose addresses and limits are configured.
    pub pins: Vec<Pin>,
    /// Messages per second and peer.
    pub message_rate: u32,
    /// As many messages of a peer are taken at once.
    pub message_burst: u32,
    /// Addresses and TEIDs that control planes may give out, told when an association is set up.
    pub user_plane_ip_resources: Vec<UserPlaneIpResourceInformation>,
    /// Networks (address, prefix length in bits) messages are taken from; if empty, all.
    pub allow: Vec<(IpAddr, u8)>,
}

/// A peer whose addresses are configured: its Node ID is accepted from these and from no others.
#[derive(Clone, Debug, PartialEq)]
pub struct Pin {
    /// The Node ID.
    pub node_id: NodeId,
    /// Networks (address, prefix length in bits) its messages come from.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Sessions at most; `None`: as any other peer.
    pub sessions: Option<u32>,
    /// Messages per second, and as many in a tenth of a second at once; `None`: as any other peer.
    pub message_rate: Option<u32>,
}

impl Pin {
    /// Whether the peer's messages may come from there.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(network, len)| contains(*network, *len, address))
    }
}

/// Which side of the reference point a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Drives user planes.
    ControlPlane(CpFunctionFeatures),
    /// Is driven.
    UserPlane(UpFunctionFeatures),
}

impl Role {
    pub(super) fn up_function_features(self) -> Option<UpFunctionFeatures> {
        if let Role::UserPlane(features) = self { Some(features) } else { None }
    }

    pub(super) fn cp_function_features(self) -> Option<CpFunctionFeatures> {
        if let Role::ControlPlane(features) = self { Some(features) } else { None }
    }
}

/// What a peer's silence means, if it has never answered a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeverAnswers {
    /// Nothing: some control planes don't answer heartbeats.
    Ignore,
    /// It is lost, like one that no longer answers.
    Lost,
}

impl Config {
    /// Usual values.
    pub fn new(node_id: NodeId, role: Role) -> Config {
        Config {
            node_id,
            role,
            peer_port: crate::PORT,
            t1: Duration::from_secs(3),
            n1: 3,
            max_requests: 65_536,
            keep_responses: Duration::from_secs(15),
            max_responses: 65_536,
            heartbeat_interval: Some(Duration::from_secs(60)),
            never_answers: NeverAnswers::Ignore,
            keep_lost: Duration::from_secs(120),
            max_associations: 256,
            max_associations_per_address: 4,
            probe_interval: Duration::from_secs(1),
            probes: 3,
            takeover_probes: 8,
            contradiction: Duration::from_secs(2),
            pins: Vec::new(),
            message_rate: 100_000,
            message_burst: 10_000,
            user_plane_ip_resources: Vec::new(),
            allow: Vec::new(),
        }
    }

    /// Whether messages are taken from an address.
    pub fn allows(&self, address: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|(network, len)| contains(*network, *len, address))
    }
}

/// Whether an address lies in a network.
pub fn contains(network: IpAddr, len: u8, address: IpAddr) -> bool {
    // Both as 128 bits, the network's bits foremost.
    let (network, address) = match (network, address.to_canonical()) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u128::from(network.to_bits()) << 96, u128::from(address.to_bits()) << 96)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => (network.to_bits(), address.to_bits()),
        _ => return false,
    };
    let outside = 128 - u32::from(len.min(128));
    (network ^ address).checked_shr(outside).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_what_begins_like_them() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(contains(ip("10.1.0.0"), 16, ip("10.1.255.1")));
        assert!(contains(ip("10.1.0.0"), 16, ip("::ffff:10.1.255.1")));
        assert!(!contains(ip("10.1.0.0"), 16, ip("10.2.0.1")));
        assert!(contains(ip("0.0.0.0"), 0, ip("192.0.2.1")));
        assert!(!contains(ip("0.0.0.0"), 0, ip("2001:db8::1")));
        assert!(contains(ip("2001:db8::"), 32, ip("2001:db8::1")));
        assert!(!contains(ip("2001:db8::1"), 128, ip("2001:db8::2")));
    }
}
