//! DHCPv6 messages as a relay agent wraps and unwraps them (RFC 8415, 19; RFC 4649; RFC 6939).

use crate::dhcp6::{ETHERNET, HOP_COUNT_LIMIT, MAX_IAS, Options, RELAY_FORW, RELAY_REPL, address, code, put};
use crate::lease::Kind;
use std::net::Ipv6Addr;
use wire::Mac;

/// Longest message that is forwarded, in bytes: with its headers it fits into one packet of 1,500.
const MAX_LEN: usize = 1500 - 48;

/// What a relay agent says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedBy<'a> {
    /// An address by which the server knows the client's link.
    pub link: Ipv6Addr,
    /// Source address of the message.
    pub peer: Ipv6Addr,
    /// Interface-Id (option 18), which the server repeats.
    pub interface_id: &'a [u8],
    /// Enterprise number and Remote-Id (option 37).
    pub remote_id: (u32, &'a [u8]),
    /// The client's Ethernet address (option 79), where it is known for certain.
    pub client: Option<Mac>,
}

/// A client's message, or that of an LDRA or relay agent, inside a Relay-forward.
///
/// # Errors
/// Why it is not forwarded.
pub fn forward6(octets: &[u8], by: &ForwardedBy<'_>) -> Result<Vec<u8>, super::NotForwarded> {
    use super::NotForwarded::{Hops, Malformed, TooLong};
    let hops = match octets {
        [] | [_, _, _] | [_, _] | [_] => return Err(Malformed),
        [RELAY_FORW, hops, ..] if *hops >= HOP_COUNT_LIMIT => return Err(Hops),
        [RELAY_FORW, hops, ..] => hops + 1,
        _ => 0,
    };
    let mut out = vec![RELAY_FORW, hops];
    out.extend_from_slice(&by.link.octets());
    out.extend_from_slice(&by.peer.octets());
    put(&mut out, code::INTERFACE_ID, by.interface_id);
    put(&mut out, code::REMOTE_ID, &[&by.remote_id.0.to_be_bytes()[..], by.remote_id.1].concat());
    if let Some(Mac(mac)) = by.client {
        put(&mut out, code::CLIENT_LINK_LAYER, &[&ETHERNET[..], &mac].concat());
    }
    put(&mut out, code::RELAY_MSG, octets);
    if out.len() > MAX_LEN { Err(TooLong) } else { Ok(out) }
}

/// What a server says of one identity association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyIa {
    /// [`Kind::Na`] or [`Kind::Pd`].
    pub kind: Kind,
    /// Its identifier, chosen by the client.
    pub iaid: u32,
    /// The address or prefix that is valid, its length, and its valid lifetime in seconds. A deprecated one, with a
    /// preferred lifetime of 0, beside one that is not is left out.
    pub lease: Option<(Ipv6Addr, u8, u32)>,
    /// There are several leases that are valid, and equally preferred.
    pub several: bool,
    /// The server has no binding of it (status NoBinding, RFC 8415, 21.13), or has given it a valid lifetime of 0.
    pub ended: bool,
}

/// A server's message, inside the Relay-reply to this relay agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayReply<'a> {
    /// The address of the client, or of the agent that forwarded its message.
    pub peer: Ipv6Addr,
    /// Interface-Id (option 18), as this relay agent has sent it.
    pub interface_id: Option<&'a [u8]>,
    /// What goes on to the peer: a client's message, or a Relay-reply to the agent before.
    pub inner: &'a [u8],
    /// Type of the innermost message: 2 Advertise, 7 Reply, 10 Reconfigure.
    pub kind: u8,
    /// Its transaction identifier.
    pub xid: [u8; 3],
    /// Client Identifier (option 1): a DUID.
    pub client: Option<&'a [u8]>,
    /// Server Identifier (option 2): a DUID.
    pub server: Option<&'a [u8]>,
    /// Identity associations, at most [`MAX_IAS`].
    pub ias: Vec<ReplyIa>,
    /// It has a temporary address (IA_TA, RFC 8415, 21.5) that is valid.
    pub temporary: bool,
}

fn status(data: &[u8]) -> Option<u16> {
    data.first_chunk().map(|code| u16::from_be_bytes(*code))
}

const NO_BINDING: u16 = 3;
/// Option IA_TA (RFC 8415, 21.5).
const IA_TA: u16 = 4;

fn at4(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}

fn association(kind: Kind, data: &[u8]) -> Option<ReplyIa> {
    let head: &[u8; 12] = data.first_chunk()?;
    let mut ia = ReplyIa { kind, iaid: at4(head, 0)?, lease: None, several: false, ended: false };
    let mut is_preferred = false;
    for option in Options(&data[12..]) {
        let (lease, preferred) = match (kind, option.ok()?) {
            (Kind::Na, (code::IA_ADDR, data)) => ((address(data, 0).ok()?, 128, at4(data, 20)?), at4(data, 16)?),
            (Kind::Pd, (code::IA_PREFIX, data)) => {
                ((address(data, 9).ok()?, *data.get(8)?, at4(data, 4)?), at4(data, 0)?)
            }
            (_, (code::STATUS, data)) => {
                ia.ended |= status(data) == Some(NO_BINDING);
                continue;
            }
            _ => continue,
        };
        if lease.2 == 0 {
            ia.ended = true;
        } else if ia.lease.is_none() || (preferred > 0 && !is_preferred) {
            (ia.lease, ia.several, is_preferred) = (Some(lease), false, preferred > 0);
        } else if (preferred > 0) == is_preferred {
            ia.several = true;
        }
    }
    Some(ia)
}

/// Whether an IA_TA has an address that is valid.
fn has_temporary(data: &[u8]) -> Option<bool> {
    let mut has = false;
    for option in Options(data.get(4..)?) {
        if let (code::IA_ADDR, data) = option.ok()? {
            has |= at4(data, 20)? > 0;
        }
    }
    Some(has)
}

/// Peer address, Interface-Id and content of a Relay-reply.
type Outer<'a> = (Ipv6Addr, Option<&'a [u8]>, &'a [u8]);

impl<'a> RelayReply<'a> {
    /// Parses a UDP payload: a Relay-reply, with those to further agents inside. `None`: it is another message, or
    /// cut off.
    pub fn parse(octets: &'a [u8]) -> Option<Self> {
        let (peer, interface_id, inner) = Self::outer(octets)?;
        let (mut message, mut depth) = (inner, 0);
        while message.first() == Some(&RELAY_REPL) {
            depth += 1;
            if depth > HOP_COUNT_LIMIT {
                return None;
            }
            message = Self::outer(message)?.2;
        }
        let [kind, a, b, c, ref rest @ ..] = *message else { return None };
        let (client, server, ias, temporary) = (None, None, Vec::new(), false);
        let mut this = Self { peer, interface_id, inner, kind, xid: [a, b, c], client, server, ias, temporary };
        for option in Options(rest) {
            let kind = match option.ok()? {
                (code::CLIENT_ID, data) => {
                    this.client = Some(data);
                    continue;
                }
                (code::SERVER_ID, data) => {
                    this.server = Some(data);
                    continue;
                }
                (IA_TA, data) => {
                    this.temporary |= has_temporary(data)?;
                    continue;
                }
                (code::IA_NA, data) => (Kind::Na, data),
                (code::IA_PD, data) => (Kind::Pd, data),
                _ => continue,
            };
            if this.ias.len() >= MAX_IAS {
                return None;
            }
            this.ias.push(association(kind.0, kind.1)?);
        }
        Some(this)
    }

    fn outer(octets: &'a [u8]) -> Option<Outer<'a>> {
        if octets.first() != Some(&RELAY_REPL) {
            return None;
        }
        let peer = address(octets, 18).ok()?;
        let (mut interface_id, mut inner) = (None, None);
        for option in Options(octets.get(34..)?) {
            match option.ok()? {
                (code::RELAY_MSG, data) => inner = Some(data),
                (code::INTERFACE_ID, data) => interface_id = Some(data),
                _ => {}
            }
        }
        Some((peer, interface_id, inner?))
    }
}
