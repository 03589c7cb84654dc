//! DHCPv4 messages as a relay agent changes them (RFC 1542, 4.1; RFC 3046; RFC 3527; RFC 5107).

use crate::dhcp4::{MAGIC, Tlvs, Type};
use std::net::Ipv4Addr;

/// Smallest message that every server and client takes (RFC 1542, 2.1), in bytes.
const MIN_LEN: usize = 300;
/// Longest message that is forwarded, in bytes: with its headers it fits into one packet of 1,500.
const MAX_LEN: usize = 1500 - 28;
/// Sub-options of option 82: circuit ID and remote ID (RFC 3046), link selection (RFC 3527), server identifier override
/// (RFC 5107).
const CIRCUIT_ID: u8 = 1;
const REMOTE_ID: u8 = 2;
const LINK_SELECTION: u8 = 5;
const SERVER_OVERRIDE: u8 = 11;

/// What a relay agent says of a request, in option 82.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agent<'a> {
    /// Option 82 of an access node, which is kept in front; none: circuit ID and remote ID are those below.
    pub kept: Option<&'a [u8]>,
    /// Agent Circuit ID.
    pub circuit_id: &'a [u8],
    /// Agent Remote ID.
    pub remote_id: &'a [u8],
    /// The address by which the server chooses the subnet, if that is not giaddr.
    pub link_selection: Option<Ipv4Addr>,
    /// The address that the server is to give as its identifier, so that clients renew by the relay agent.
    pub server_override: Option<Ipv4Addr>,
}

/// Why a message is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotForwarded {
    /// Not a BOOTP message with options.
    Malformed,
    /// It has passed too many relay agents.
    Hops,
    /// Option 82 would be longer than 255 bytes, or the message too long for a packet.
    TooLong,
}

impl Agent<'_> {
    /// The content of option 82.
    ///
    /// # Errors
    /// [`NotForwarded::TooLong`].
    pub fn content(&self) -> Result<Vec<u8>, NotForwarded> {
        let mut out = self.kept.unwrap_or_default().to_vec();
        let mut put = |code: u8, data: &[u8]| {
            let len = u8::try_from(data.len()).map_err(|_| NotForwarded::TooLong)?;
            out.extend_from_slice(&[code, len]);
            out.extend_from_slice(data);
            Ok(())
        };
        if self.kept.is_none() {
            put(CIRCUIT_ID, self.circuit_id)?;
            put(REMOTE_ID, self.remote_id)?;
        }
        if let Some(address) = self.link_selection {
            put(LINK_SELECTION, &address.octets())?;
        }
        if let Some(address) = self.server_override {
            put(SERVER_OVERRIDE, &address.octets())?;
        }
        if out.len() > 255 { Err(NotForwarded::TooLong) } else { Ok(out) }
    }
}

/// Options with another option 82, or none; it is the last (RFC 3046, 2.1).
fn with_agent(octets: &[u8], mut out: Vec<u8>, agent: Option<&[u8]>) -> Vec<u8> {
    for (code, data) in Tlvs::of(octets).filter(|(code, _)| *code != 82) {
        out.extend_from_slice(&[code, data.len() as u8]); // it was read behind such a length
        out.extend_from_slice(data);
    }
    if let Some(agent) = agent {
        out.extend_from_slice(&[82, agent.len() as u8]); // at most 255
        out.extend_from_slice(agent);
    }
    out.push(255);
    out.resize(out.len().max(MIN_LEN), 0);
    out
}

/// A client's message for a server: one hop more, with giaddr and option 82. `agent` is the content of the option.
///
/// # Errors
/// Why it is not forwarded.
pub fn forward4(octets: &[u8], giaddr: Ipv4Addr, agent: &[u8], most_hops: u8) -> Result<Vec<u8>, NotForwarded> {
    let head: &[u8; 240] = octets.first_chunk().ok_or(NotForwarded::Malformed)?;
    if head[0] != 1 || head[2] > 16 || head[236..] != MAGIC {
        return Err(NotForwarded::Malformed);
    }
    if agent.len() > 255 {
        return Err(NotForwarded::TooLong);
    }
    if head[3] >= most_hops {
        return Err(NotForwarded::Hops);
    }
    let mut out = head.to_vec();
    out[3] += 1;
    out[24..28].copy_from_slice(&giaddr.octets());
    let out = with_agent(octets, out, Some(agent));
    if out.len() > MAX_LEN { Err(NotForwarded::TooLong) } else { Ok(out) }
}

/// A server's message as its client gets it: with option 82 as the access node had sent it, or without (RFC 3046, 2.1).
/// `None`: it is too short for a message.
pub fn to_client4(octets: &[u8], agent: Option<&[u8]>) -> Option<Vec<u8>> {
    let head: &[u8; 240] = octets.first_chunk()?;
    let agent = agent.filter(|agent| agent.len() <= 255);
    Some(with_agent(octets, head.to_vec(), agent))
}

/// A server's message, as far as a relay agent reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerMessage<'a> {
    /// OFFER, ACK or NAK.
    pub kind: Type,
    /// Transaction identifier, the client's.
    pub xid: u32,
    /// The broadcast bit of `flags`.
    pub broadcast: bool,
    /// The address that the client has.
    pub ciaddr: Ipv4Addr,
    /// The address that it is offered or granted.
    pub yiaddr: Ipv4Addr,
    /// The relay agent's address.
    pub giaddr: Ipv4Addr,
    /// The client's hardware address.
    pub chaddr: [u8; 6],
    /// Lease time in seconds (option 51).
    pub lease: Option<u32>,
    /// Option 82, which a server repeats.
    pub agent: Option<&'a [u8]>,
}

impl<'a> ServerMessage<'a> {
    /// Parses a UDP payload: a BOOTREPLY to an Ethernet client with a type that servers send. `None`: it is another,
    /// or cut off.
    pub fn parse(octets: &'a [u8]) -> Option<Self> {
        let head: &[u8; 240] = octets.first_chunk()?;
        if head[..3] != [2, 1, 6] || head[236..] != MAGIC {
            return None;
        }
        let at4 = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let (mut kind, mut lease, mut agent) = (None, None, None);
        for (code, data) in Tlvs::of(octets) {
            match code {
                53 => kind = data.first().copied().and_then(Type::of),
                51 => lease = Some(u32::from_be_bytes(data.try_into().ok()?)),
                82 => agent = Some(data),
                _ => {}
            }
        }
        let kind = kind.filter(|kind| matches!(kind, Type::Offer | Type::Ack | Type::Nak))?;
        let chaddr = [head[28], head[29], head[30], head[31], head[32], head[33]];
        Some(Self {
            kind,
            xid: u32::from_be_bytes(at4(4)),
            broadcast: head[10] & 0x80 != 0,
            ciaddr: at4(12).into(),
            yiaddr: at4(16).into(),
            giaddr: at4(24).into(),
            chaddr,
            lease,
            agent,
        })
    }
}
