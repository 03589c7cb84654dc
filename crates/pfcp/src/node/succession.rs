//! What a process that goes on for this one needs, so that a request received by both is carried out once (6.4): the responses
//! that are kept, and the secret of their digests.
//!
//! ```text
//! secret (16) | now (8) | responses: address and port as text (1 + n) | sequence (4) | type (1) | digest (8) | until (8) |
//!                                    octets (4 + n) …
//! ```
//! Numbers are big-endian, times in nanoseconds of the driver's clock, which both processes share.

use std::net::SocketAddr;
use std::time::Duration;

use super::responses::{RequestKey, Secret};
use super::{Node, Peer};

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64 // centuries fit
}

struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn number<const N: usize>(&mut self) -> Option<u64> {
        Some(self.take(N)?.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet)))
    }
}

impl Node {
    /// The responses it would give again, with the secret that requests are known again by.
    pub fn kept_responses(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.secret.0.iter().for_each(|word| out.extend(word.to_be_bytes()));
        let peers = self.peers.values().chain(&self.pinned).chain([&self.strangers]);
        for (key, until, octets) in peers.flat_map(|peer| peer.responses.answered()) {
            let from = key.from.to_string();
            out.push(from.len() as u8); // an address and a port: some fifty at most
            out.extend(from.as_bytes());
            out.extend(key.sequence.to_be_bytes());
            out.push(key.message_type);
            out.extend(key.digest.to_be_bytes());
            out.extend(nanoseconds(until).to_be_bytes());
            out.extend((octets.len() as u32).to_be_bytes()); // a datagram
            out.extend(octets);
        }
        out
    }

    /// Goes on with the [responses](Self::kept_responses) of another process. To be called once its associations are there and
    /// before anything is received. False: they cannot be read.
    pub fn go_on_with(&mut self, kept: &[u8]) -> bool {
        let mut input = In(kept);
        let mut read = || -> Option<()> {
            self.secret = Secret([input.number::<8>()?, input.number::<8>()?]);
            while !input.0.is_empty() {
                let len = input.number::<1>()? as usize;
                let from: SocketAddr = std::str::from_utf8(input.take(len)?).ok()?.parse().ok()?;
                let (sequence, message_type) = (input.number::<4>()? as u32, input.number::<1>()? as u8);
                let (digest, until) = (input.number::<8>()?, Duration::from_nanos(input.number::<8>()?));
                let len = input.number::<4>()? as usize;
                let octets = input.take(len)?;
                let key = RequestKey { from, sequence, message_type, digest };
                // As long as it would have been kept there.
                let now = until.saturating_sub(self.config.keep_responses);
                self.peer_of(&key).responses.keep(key, octets, now);
            }
            Some(())
        };
        read().is_some()
    }

    /// Whose responses those to a request are kept among.
    pub(super) fn peer_of(&mut self, key: &RequestKey) -> &mut Peer {
        let from = key.from.ip();
        let pinned = self.associations.pin_at(from).and_then(|pin| self.pinned.get_mut(pin));
        pinned.or(self.peers.get_mut(&from)).unwrap_or(&mut self.strangers)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Role};
    use super::*;
    use crate::ie::{NodeId, RecoveryTimeStamp};
    use crate::message::HeartbeatRequest;
    use crate::{Header, Packet};

    #[test]
    fn a_request_both_receive_is_answered_alike() {
        let node = || {
            let config =
                Config::new(NodeId::Ip4([10, 0, 0, 1].into()), Role::UserPlane(crate::ie::UpFunctionFeatures::NONE));
            Node::new(config, RecoveryTimeStamp(7))
        };
        let from: SocketAddr = ([10, 0, 0, 2], 8805).into();
        let request = HeartbeatRequest { recovery_time_stamp: RecoveryTimeStamp(1), ..HeartbeatRequest::default() };
        let datagram = Packet { header: Header::node(9), message: request.into() }.to_vec().unwrap();
        let (mut old, mut new, now) = (node(), node(), Duration::from_secs(100));
        let mut sent = Vec::new();
        old.receive(from, &datagram, now);
        old.drain(|_, octets| sent.push(octets.to_vec()));
        assert!(new.go_on_with(&old.kept_responses()));
        assert_eq!(new.kept_responses(), old.kept_responses());
        new.receive(from, &datagram, now);
        new.drain(|_, octets| sent.push(octets.to_vec()));
        assert_eq!(sent[0], sent[1]);
        assert_eq!(new.counters().duplicates_answered, 1);
        assert!(!new.go_on_with(&old.kept_responses()[..5]) && !new.go_on_with(&[0; 20]));
    }
}
