//! A client's message, as far as the server reads it.

use crate::queue::Class;
use std::net::Ipv4Addr;
use wire::Mac;

/// DHCP message types (RFC 2132 clause 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of RFC 2132")]
#[repr(u8)]
pub enum Type {
    Discover = 1,
    Offer = 2,
    Request = 3,
    Decline = 4,
    Ack = 5,
    Nak = 6,
    Release = 7,
    Inform = 8,
}

impl Type {
    pub(crate) fn of(code: u8) -> Option<Self> {
        use Type::*;
        [Discover, Offer, Request, Decline, Ack, Nak, Release, Inform].into_iter().find(|kind| *kind as u8 == code)
    }

    fn is_of_client(self) -> bool {
        !matches!(self, Self::Offer | Self::Ack | Self::Nak)
    }
}

/// Error of [`Message::parse`]: the datagram is not a well-formed BOOTREQUEST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than a BOOTP header with its magic cookie, a wrong hlen, or an option of a wrong length.
    Unreadable,
    /// Not a BOOTREQUEST over Ethernet with a client's message type.
    NotARequest,
}

/// In front of the options (RFC 2131 clause 3).
pub(crate) const MAGIC: [u8; 4] = [99, 130, 83, 99];

/// A DHCP message from a client (RFC 2131, 2), with the options that a server reads.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// DHCP message type (option 53).
    pub kind: Type,
    /// Transaction identifier, which the reply repeats.
    pub xid: u32,
    /// The flags field; only the broadcast bit has a meaning.
    pub flags: u16,
    /// The client's address, if it has one.
    pub ciaddr: Ipv4Addr,
    /// The relay agent's address, if one relayed the message.
    pub giaddr: Ipv4Addr,
    /// The client's hardware address.
    pub chaddr: Mac,
    /// Requested IP address, option 50.
    pub requested: Option<Ipv4Addr>,
    /// Server identifier, option 54.
    pub server: Option<Ipv4Addr>,
    /// Client identifier, option 61.
    pub client_id: Option<&'a [u8]>,
    /// Relay agent information, option 82.
    pub agent: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// The broadcast bit of [`Message::flags`].
    pub const BROADCAST: u16 = 0x8000;

    /// Parses a UDP payload: a BOOTREQUEST of an Ethernet client with a DHCP message type (RFC 2131, 2).
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let head: &[u8; 240] = octets.first_chunk().ok_or(Malformed::Unreadable)?;
        if head[2] > 16 || head[236..] != MAGIC {
            return Err(Malformed::Unreadable);
        }
        if head[..3] != [1, 1, 6] {
            return Err(Malformed::NotARequest);
        }
        let at4 = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let mut mac = [0; 6];
        mac.copy_from_slice(&head[28..34]);
        let mut kind = None;
        let mut message = Self {
            kind: Type::Discover,
            xid: u32::from_be_bytes(at4(4)),
            flags: u16::from_be_bytes([head[10], head[11]]),
            ciaddr: at4(12).into(),
            giaddr: at4(24).into(),
            chaddr: Mac(mac),
            requested: None,
            server: None,
            client_id: None,
            agent: None,
        };
        for (code, data) in Options::of(octets) {
            let ip4 = || <[u8; 4]>::try_from(data).map(Ipv4Addr::from).map_err(|_| Malformed::Unreadable);
            match code {
                53 => kind = data.first().copied(),
                50 => message.requested = Some(ip4()?),
                54 => message.server = Some(ip4()?),
                61 => message.client_id = Some(data),
                82 => message.agent = Some(data),
                _ => {}
            }
        }
        let kind = kind.and_then(Type::of).filter(|kind| kind.is_of_client()).ok_or(Malformed::NotARequest)?;
        Ok(Self { kind, ..message })
    }
}

/// The options of a BOOTP message as they lie in it; what is cut off ends them.
pub(crate) struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    pub fn of(octets: &'a [u8]) -> Self {
        Self(octets.get(240..).unwrap_or_default())
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.0 {
                [0, ref rest @ ..] => self.0 = rest,
                [code, len, ref rest @ ..] if code != 255 => {
                    let data = rest.get(..usize::from(len))?;
                    self.0 = &rest[data.len()..];
                    return Some((code, data));
                }
                _ => return None,
            }
        }
    }
}

/// How urgent a message is under overload; `None` if it can't be read.
pub fn class(octets: &[u8]) -> Option<Class> {
    let message = Message::parse(octets).ok()?;
    Some(match message.kind {
        Type::Request if !message.ciaddr.is_unspecified() => Class::Renewal,
        Type::Discover | Type::Inform => Class::Discover,
        _ => Class::Request,
    })
}
