//! DHCPv6 messages (RFC 8415 clauses 8, 9 and 21), with the relay agents around them.
//!
//! Read by own code: the library reads what a relay agent carries as another relay message, whatever it is, and nests without
//! a limit.

use crate::lease::Kind;
use crate::option82::LineRates;
use crate::queue::Class;
use std::net::Ipv6Addr;
use wire::Mac;

/// Most relay agents that have forwarded what a relay agent forwards (HOP_COUNT_LIMIT, RFC 8415 clauses 7.6 and 19.1.2): of
/// Relay-forward messages inside each other the outermost has a hop count of 8 at most.
pub const HOP_COUNT_LIMIT: u8 = 8;
/// Most identity associations of one message that are served.
pub const MAX_IAS: usize = 8;

/// Message types (RFC 8415 clause 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the RFC")]
#[repr(u8)]
pub enum Type {
    Solicit = 1,
    Advertise = 2,
    Request = 3,
    Confirm = 4,
    Renew = 5,
    Rebind = 6,
    Reply = 7,
    Release = 8,
    Decline = 9,
    InformationRequest = 11,
}

/// Option codes (RFC 8415 clause 21, RFC 3646, RFC 4649, RFC 6939).
pub(crate) mod code {
    pub const CLIENT_ID: u16 = 1;
    pub const SERVER_ID: u16 = 2;
    pub const IA_NA: u16 = 3;
    pub const IA_ADDR: u16 = 5;
    pub const RELAY_MSG: u16 = 9;
    pub const STATUS: u16 = 13;
    pub const RAPID_COMMIT: u16 = 14;
    pub const INTERFACE_ID: u16 = 18;
    pub const DNS: u16 = 23;
    pub const IA_PD: u16 = 25;
    pub const IA_PREFIX: u16 = 26;
    pub const VENDOR_OPTS: u16 = 17;
    pub const REMOTE_ID: u16 = 37;
    pub const CLIENT_LINK_LAYER: u16 = 79;
}

/// Hardware type of Ethernet (RFC 826).
pub(crate) const ETHERNET: [u8; 2] = [0, 1];

pub(crate) const RELAY_FORW: u8 = 12;
pub(crate) const RELAY_REPL: u8 = 13;

/// Why a message can't be read: an option or header is cut off, or more relay agents than [`HOP_COUNT_LIMIT`] allows have
/// forwarded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// An identity association: IA_NA or IA_PD (RFC 8415, 21.4 and 21.21).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ia {
    /// [`Kind::Na`] or [`Kind::Pd`].
    pub kind: Kind,
    /// Its identifier, chosen by the client.
    pub iaid: u32,
    /// The first address or prefix in it.
    pub address: Option<Ipv6Addr>,
}

/// A relay agent on the way, or an LDRA (RFC 6221).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay<'a> {
    /// Relay agents that have forwarded the message before this one.
    pub(crate) hops: u8,
    link: Ipv6Addr,
    peer: Ipv6Addr,
    /// Interface-Id (option 18), which the Relay-reply repeats.
    pub interface_id: Option<&'a [u8]>,
    /// Remote-Id (option 37), behind its enterprise number.
    pub remote_id: Option<&'a [u8]>,
    /// The client's Ethernet address (option 79, RFC 6939).
    pub client_mac: Option<Mac>,
    /// The line's rates (option 17, enterprise 3561).
    pub rates: LineRates,
}

impl Relay<'_> {
    /// Whether it is an LDRA: it names the client's interface, has no address on the link, and took the message from a
    /// link-local address (RFC 6221, 5.3). An agent that forwards what another has forwarded across routers has no address
    /// there either, but a global one as its peer (RFC 8415, 19.1.2).
    pub fn is_lightweight(&self) -> bool {
        let from_link = self.peer.is_unspecified() || self.peer.is_unicast_link_local();
        self.link.is_unspecified() && from_link && self.interface_id.is_some()
    }
}

/// A client's message (RFC 8415, 8), without the Relay-forward messages around it.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// Its type; `None` for one that servers do not take.
    pub kind: Option<Type>,
    /// Transaction identifier, which the reply repeats.
    pub xid: [u8; 3],
    /// Client Identifier (option 1): a DUID.
    pub client: Option<&'a [u8]>,
    /// Server Identifier (option 2): a DUID.
    pub server: Option<&'a [u8]>,
    /// Rapid Commit (option 14): the client takes a Reply to its Solicit.
    pub rapid_commit: bool,
    /// Identity associations, at most [`MAX_IAS`].
    pub ias: Vec<Ia>,
    /// Relay agents, outermost first.
    pub relays: Vec<Relay<'a>>,
}

/// Whether a relay agent has forwarded a message (RFC 8415, 9.1).
pub fn is_relayed(octets: &[u8]) -> bool {
    octets.first() == Some(&RELAY_FORW)
}

/// How urgent a message is. None: it can't be read.
pub fn class(octets: &[u8]) -> Option<Class> {
    Some(match Message::parse(octets).ok()?.kind? {
        Type::Renew | Type::Rebind => Class::Renewal,
        Type::Solicit | Type::Confirm | Type::InformationRequest => Class::Discover,
        _ => Class::Request,
    })
}

/// Options, each with its code; an error if one is cut off.
pub(crate) struct Options<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u16, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let whole = match *self.0 {
            [a, b, c, d, ref rest @ ..] => {
                let len = usize::from(u16::from_be_bytes([c, d]));
                rest.split_at_checked(len).map(|(data, rest)| (u16::from_be_bytes([a, b]), data, rest))
            }
            _ => None,
        };
        let Some((code, data, rest)) = whole else {
            self.0 = &[];
            return Some(Err(Malformed));
        };
        self.0 = rest;
        Some(Ok((code, data)))
    }
}

pub(crate) fn address(octets: &[u8], at: usize) -> Result<Ipv6Addr, Malformed> {
    let octets = octets.get(at..at + 16).ok_or(Malformed)?;
    <[u8; 16]>::try_from(octets).map(Ipv6Addr::from).map_err(|_| Malformed)
}

/// The address in option 79, if it is an Ethernet one.
fn ethernet(data: &[u8]) -> Option<Mac> {
    let (kind, address) = data.split_at_checked(2)?;
    (kind == ETHERNET).then(|| address.try_into().ok().map(Mac)).flatten()
}

impl Ia {
    fn parse(kind: Kind, data: &[u8]) -> Result<Self, Malformed> {
        let head: &[u8; 12] = data.first_chunk().ok_or(Malformed)?;
        let mut ia = Self { kind, iaid: u32::from_be_bytes([head[0], head[1], head[2], head[3]]), address: None };
        for option in Options(&data[12..]) {
            let found = match (kind, option?) {
                (Kind::Na, (code::IA_ADDR, data)) => address(data, 0)?,
                (Kind::Pd, (code::IA_PREFIX, data)) => address(data, 9)?,
                _ => continue,
            };
            ia.address = ia.address.or(Some(found));
        }
        Ok(ia)
    }
}

impl<'a> Message<'a> {
    /// Parses a UDP payload, with the Relay-forward messages around the client's.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let (mut octets, mut relays) = (octets, Vec::new());
        while octets.first() == Some(&RELAY_FORW) {
            let hops = *octets.get(1).ok_or(Malformed)?;
            if hops > HOP_COUNT_LIMIT || relays.len() > usize::from(HOP_COUNT_LIMIT) {
                return Err(Malformed);
            }
            let (link, peer) = (address(octets, 2)?, address(octets, 18)?);
            let rates = LineRates::default();
            let mut relay = Relay { hops, link, peer, interface_id: None, remote_id: None, client_mac: None, rates };
            let mut inner = None;
            for option in Options(&octets[34..]) {
                match option? {
                    (code::RELAY_MSG, data) => inner = Some(data),
                    (code::INTERFACE_ID, data) => relay.interface_id = Some(data),
                    (code::REMOTE_ID, data) => relay.remote_id = data.get(4..),
                    (code::CLIENT_LINK_LAYER, data) => relay.client_mac = ethernet(data),
                    (code::VENDOR_OPTS, data) => relay.rates = LineRates::of_dhcp6(data),
                    _ => {}
                }
            }
            relays.push(relay);
            octets = inner.ok_or(Malformed)?;
        }
        let [kind, a, b, c, ref rest @ ..] = *octets else { return Err(Malformed) };
        use Type::*;
        let types = [Solicit, Request, Confirm, Renew, Rebind, Release, Decline, InformationRequest];
        let kind = types.into_iter().find(|known| *known as u8 == kind);
        let (client, server, ias) = (None, None, Vec::new());
        let mut message = Self { kind, xid: [a, b, c], client, server, rapid_commit: false, ias, relays };
        for option in Options(rest) {
            let (code, data) = option?;
            let kind = match code {
                code::CLIENT_ID => {
                    message.client = Some(data);
                    continue;
                }
                code::SERVER_ID => {
                    message.server = Some(data);
                    continue;
                }
                code::RAPID_COMMIT => {
                    message.rapid_commit = true;
                    continue;
                }
                code::IA_NA => Kind::Na,
                code::IA_PD => Kind::Pd,
                _ => continue,
            };
            if message.ias.len() < MAX_IAS {
                message.ias.push(Ia::parse(kind, data)?);
            }
        }
        Ok(message)
    }

    /// Where among [`relays`](Self::relays) the agent is that names the line: the LDRA nearest to the client (RFC 6221), or
    /// where there is none, the relay agent nearest to it. What an agent behind an LDRA says is a subscriber's word.
    fn agent_at(&self) -> Option<usize> {
        self.relays.iter().rposition(Relay::is_lightweight).or_else(|| self.relays.len().checked_sub(1))
    }

    /// The relay agent that names the line (options 18 and 37).
    pub fn agent(&self) -> Option<&Relay<'a>> {
        self.relays.get(self.agent_at()?)
    }

    /// The client's hardware address as relay agents tell it (option 79, RFC 6939): the agent that names the line, or if
    /// that does not, the next one outside of it.
    pub fn client_mac(&self) -> Option<Mac> {
        self.relays.get(..=self.agent_at()?)?.iter().rev().find_map(|relay| relay.client_mac)
    }

    /// A reply inside the relay messages that take it back (RFC 8415 clause 19.3).
    pub(super) fn wrap(&self, reply: Vec<u8>) -> Vec<u8> {
        self.relays.iter().rev().fold(reply, |inner, relay| {
            let mut out = vec![RELAY_REPL, relay.hops];
            out.extend_from_slice(&relay.link.octets());
            out.extend_from_slice(&relay.peer.octets());
            if let Some(id) = relay.interface_id {
                put(&mut out, code::INTERFACE_ID, id);
            }
            put(&mut out, code::RELAY_MSG, &inner);
            out
        })
    }
}

/// Appends an option; what is too long for one is cut, which replies of ours never are.
pub(crate) fn put(out: &mut Vec<u8>, code: u16, data: &[u8]) {
    let data = &data[..data.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(&(data.len() as u16).to_be_bytes());
    out.extend_from_slice(data);
}
