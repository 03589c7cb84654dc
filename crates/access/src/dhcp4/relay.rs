//! DHCPv4 relay agent (RFC 1542, RFC 3046): requests of lines go to servers, replies go back to their line.
//!
//! The relay keeps no state: option 82 names the line, and the server echoes it.

use super::message::{MAGIC, Options};
use super::{Destination, Reply, Type};
use crate::Line;
use std::net::Ipv4Addr;
use wire::Mac;

/// Most relays on the way (RFC 1542 clause 4.1.1 allows up to 16).
const MAX_HOPS: u8 = 16;

/// Sub-option of our own line, in [`Relay`]'s option 82: port, S-VLAN, C-VLAN and a mark.
const LINE_LEN: usize = 10;
const MARK: [u8; 4] = *b"weir";

super::counters! {
    /// Why a message is not relayed.
    RelayDrop {
        Malformed "relay_malformed" "Dropped: not a BOOTP message with options.";
        Hops "relay_hops" "Dropped: the message has passed too many relays.";
        Untrusted "relay_untrusted" "Dropped: a subscriber's message has a relay address in it.";
        NotOurs "relay_not_ours" "Dropped: a reply that does not name one of this relay's lines.";
        TooLong "relay_too_long" "Dropped: no room for option 82.";
    }
}

/// A DHCP relay agent (RFC 1542, RFC 3046).
#[derive(Clone, Copy, Debug)]
pub struct Relay {
    /// Its address towards clients (giaddr), by which the server chooses the subnet.
    pub address: Ipv4Addr,
}

impl Relay {
    /// A client's message for the server. Option 82 of an access node is kept in front as circuit ID's owner; without one,
    /// `circuit_id` is added. Returns the UDP payload.
    pub fn to_server(&self, line: Line, circuit_id: &[u8], octets: &[u8]) -> Result<Vec<u8>, RelayDrop> {
        let head: &[u8; 240] = octets.first_chunk().ok_or(RelayDrop::Malformed)?;
        if head[0] != 1 || head[2] > 16 || head[236..240] != MAGIC {
            return Err(RelayDrop::Malformed);
        }
        if head[3] >= MAX_HOPS {
            return Err(RelayDrop::Hops);
        }
        if head[24..28] != [0; 4] {
            return Err(RelayDrop::Untrusted);
        }
        let mut out = octets[..240].to_vec();
        out[3] += 1;
        out[24..28].copy_from_slice(&self.address.octets());
        let mut agent = Vec::new();
        for (code, data) in Options::of(octets) {
            if code == 82 {
                agent = data.to_vec();
            } else {
                out.extend_from_slice(&[code, data.len() as u8]);
                out.extend_from_slice(data);
            }
        }
        if agent.is_empty() {
            agent.extend_from_slice(&[1, u8::try_from(circuit_id.len()).map_err(|_| RelayDrop::TooLong)?]);
            agent.extend_from_slice(circuit_id);
        }
        // Sub-option 250 is for private use here: the server echoes all of option 82 (RFC 3046 clause 2.2).
        agent.extend_from_slice(&[250, LINE_LEN as u8]);
        agent.extend_from_slice(&MARK);
        [line.port, line.s_vlan, line.c_vlan].iter().for_each(|part| agent.extend_from_slice(&part.to_be_bytes()));
        let len = u8::try_from(agent.len()).map_err(|_| RelayDrop::TooLong)?;
        out.extend_from_slice(&[82, len]);
        out.extend_from_slice(&agent);
        out.push(255);
        out.resize(out.len().max(300), 0);
        Ok(out)
    }

    /// A server's message for its client: option 82 as the access node sent it, or without.
    pub fn to_client(&self, octets: &[u8]) -> Result<Reply, RelayDrop> {
        let head: &[u8; 240] = octets.first_chunk().ok_or(RelayDrop::Malformed)?;
        if head[0] != 2 || head[2] != 6 || head[236..240] != MAGIC {
            return Err(RelayDrop::Malformed);
        }
        if head[24..28] != self.address.octets() {
            return Err(RelayDrop::NotOurs);
        }
        let mut out = octets[..240].to_vec();
        let (mut line, mut server, mut kind) = (None, self.address, None);
        for (code, data) in Options::of(octets) {
            match (code, data) {
                (82, _) => {
                    let own = data.len().checked_sub(LINE_LEN + 2).map(|at| data.split_at(at));
                    let Some((others, &[250, _, ref ours @ ..])) = own else { return Err(RelayDrop::NotOurs) };
                    if ours[..4] != MARK {
                        return Err(RelayDrop::NotOurs);
                    }
                    let part = |at: usize| u16::from_be_bytes([ours[at], ours[at + 1]]);
                    line = Some(Line { port: part(4), s_vlan: part(6), c_vlan: part(8) });
                    out.extend_from_slice(&[82, others.len() as u8]);
                    out.extend_from_slice(others);
                    continue;
                }
                (53, [code]) => kind = Some(*code),
                (54, &[a, b, c, d]) => server = Ipv4Addr::new(a, b, c, d),
                _ => {}
            }
            out.extend_from_slice(&[code, data.len() as u8]);
            out.extend_from_slice(data);
        }
        out.push(255);
        out.resize(out.len().max(300), 0);
        let line = line.ok_or(RelayDrop::NotOurs)?;
        let kind = match kind {
            Some(2) => Type::Offer,
            Some(5) => Type::Ack,
            Some(6) => Type::Nak,
            _ => return Err(RelayDrop::Malformed),
        };
        let at4 = |at: usize| Ipv4Addr::new(head[at], head[at + 1], head[at + 2], head[at + 3]);
        let (ciaddr, address) = (at4(12), at4(16));
        let mut mac = [0; 6];
        mac.copy_from_slice(&head[28..34]);
        let client = if ciaddr.is_unspecified() { address } else { ciaddr };
        let to = if head[10] & 0x80 != 0 || client.is_unspecified() {
            Destination::Broadcast
        } else {
            Destination::Unicast(Mac(mac), client)
        };
        Ok(Reply { line, server, to, kind, address, octets: out })
    }
}
