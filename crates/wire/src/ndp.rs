//! Neighbour discovery (RFC 4861, 4), carried in ICMPv6.
//!
//! ```text
//! |  type, code, checksum  |  by type, 4        |                                          0
//! | solicitations and advertisements of neighbours: target address, 16 |                   8
//! | advertisements of routers: reachable time, 4 | retransmit time, 4 |                     8
//! | options: | type | length / 8 | content … |                                             8, 16 or 24
//! ```

use crate::fast::{array, at, at8, at16, at32, be8, part, put, put8, put16, put32};
use crate::icmp6::{field, kind};
use crate::{Mac, Malformed, NoRoom};
use core::net::Ipv6Addr;

/// Option types (RFC 4861, 4.6).
pub mod option_kind {
    /// Source link-layer address.
    pub const SOURCE: u8 = 1;
    /// Target link-layer address.
    pub const TARGET: u8 = 2;
    /// Prefix information.
    pub const PREFIX: u8 = 3;
    pub const MTU: u8 = 5;
}

/// Flags of a Router Advertisement (RFC 4861, 4.2).
pub mod router_flag {
    /// M flag: addresses are assigned by DHCPv6.
    pub const MANAGED: u8 = 0x80;
    /// O flag: other configuration is available by DHCPv6.
    pub const OTHER: u8 = 0x40;
}

/// Flags of a Neighbour Advertisement (RFC 4861, 4.4).
pub mod neighbour_flag {
    /// The sender is a router.
    pub const ROUTER: u8 = 0x80;
    /// It answers a solicitation.
    pub const SOLICITED: u8 = 0x40;
    /// It overrides what is cached.
    pub const OVERRIDE: u8 = 0x20;
}

/// Flags of prefix information (RFC 4861, 4.6.2).
pub mod prefix_flag {
    /// The prefix is on this link.
    pub const ON_LINK: u8 = 0x80;
    /// Hosts may make their addresses from it (RFC 4862).
    pub const AUTONOMOUS: u8 = 0x40;
}

const LINK_LAYER_LEN: usize = 8;
const MTU_LEN: usize = 8;
const PREFIX_LEN: usize = 32;

/// One option: its type and its content, without type and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    /// The type, see [`option_kind`].
    pub kind: u8,
    /// The content: 6 bytes, or 8 more for each unit of the length.
    pub content: &'a [u8],
}

/// An iterator over options; ends after the first that is malformed.
#[derive(Clone, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let kind = be8(self.0, 0)?;
        let len = be8(self.0, 1).map_or(0, usize::from) * 8;
        // A length of zero makes the whole packet invalid (RFC 4861, 4.6).
        if len == 0 || len > self.0.len() {
            self.0 = &[];
            return Some(Err(Malformed::BadOption));
        }
        let (option, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(Ok(Opt { kind, content: part(option, 2, len) }))
    }
}

/// A view of one neighbour discovery message: the part ICMPv6 has no name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Check and wrap. Guarantees one of the four types, code 0, its fixed part and options that have a length and end
    /// with the bytes (RFC 4861, 6.1 and 7.1).
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        let fixed = fixed_len(*b.first().ok_or(Malformed::Short)?).ok_or(Malformed::BadType)?;
        if b.len() < fixed {
            return Err(Malformed::Short);
        }
        if b[field::CODE] != 0 {
            return Err(Malformed::BadType);
        }
        for option in Options(part(b, fixed, usize::MAX)) {
            option?;
        }
        Ok(Packet(bytes))
    }

    /// The bytes back.
    pub fn into_inner(self) -> T {
        self.0
    }

    fn b(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// Type, see [`kind`].
    pub fn kind(&self) -> u8 {
        at8(self.b(), field::TYPE)
    }

    /// The target address, in a neighbour's message.
    pub fn target(&self) -> Ipv6Addr {
        match self.kind() {
            kind::NEIGHBOUR_SOLICIT | kind::NEIGHBOUR_ADVERT => Ipv6Addr::from(at::<16>(self.b(), 8)),
            _ => Ipv6Addr::UNSPECIFIED,
        }
    }

    /// The options one by one.
    pub fn options(&self) -> Options<'_> {
        Options(part(self.b(), fixed_len(self.kind()).unwrap_or(usize::MAX), usize::MAX))
    }

    /// The content of the first option of a type that is at least `N` bytes long.
    fn option<const N: usize>(&self, kind: u8) -> Option<[u8; N]> {
        self.options().flatten().filter(|o| o.kind == kind).find_map(|o| array(o.content, 0))
    }

    /// The link-layer address of [`option_kind::SOURCE`] or [`option_kind::TARGET`].
    pub(crate) fn link_layer(&self, kind: u8) -> Option<Mac> {
        self.option(kind).map(Mac)
    }
}

/// Bytes before the options.
const fn fixed_len(kind: u8) -> Option<usize> {
    match kind {
        kind::ROUTER_SOLICIT => Some(8),
        kind::ROUTER_ADVERT => Some(16),
        kind::NEIGHBOUR_SOLICIT | kind::NEIGHBOUR_ADVERT => Some(24),
        _ => None,
    }
}

/// Prefix information (RFC 4861, 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub prefix: Ipv6Addr,
    /// How many of its bits count, 0 to 128.
    pub len: u8,
    /// See [`prefix_flag`].
    pub flags: u8,
    /// How long it is valid, in seconds; all ones is forever.
    pub valid: u32,
    /// How long addresses made from it are preferred, in seconds; all ones is forever.
    pub preferred: u32,
}

/// A message as values; of repeated options the first is kept, unknown ones are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// Router Solicitation (4.1).
    RouterSolicit {
        /// The sender's address.
        source: Option<Mac>,
    },
    /// Router Advertisement (4.2).
    RouterAdvert {
        /// The hop limit hosts shall use; 0 says nothing.
        hop_limit: u8,
        /// See [`router_flag`].
        flags: u8,
        /// How long this is a default router, in seconds; 0: it is not.
        lifetime: u16,
        /// How long a neighbour counts as reachable, in milliseconds; 0 says nothing.
        reachable: u32,
        /// Between solicitations, in milliseconds; 0 says nothing.
        retransmit: u32,
        /// The router's address.
        source: Option<Mac>,
        /// The link's MTU, in bytes.
        mtu: Option<u32>,
        prefix: Option<Prefix>,
    },
    /// Neighbour Solicitation (4.3).
    NeighbourSolicit {
        /// Whose address is asked for.
        target: Ipv6Addr,
        /// The sender's address.
        source: Option<Mac>,
    },
    /// Neighbour Advertisement (4.4).
    NeighbourAdvert {
        /// See [`neighbour_flag`].
        flags: u8,
        /// Whose address this is.
        target: Ipv6Addr,
        address: Option<Mac>,
    },
}

impl Repr {
    /// Read a message, as checked by [`Packet::new_checked`]; a neighbour's target must not be multicast (7.1). Hop
    /// limit and checksum are checked by [`crate::icmp6::Repr::parse`].
    pub fn parse(message: &[u8]) -> Result<Repr, Malformed> {
        let p = Packet::new_checked(message)?;
        let (target, source) = (p.target(), p.link_layer(option_kind::SOURCE));
        if target.is_multicast() {
            return Err(Malformed::BadType);
        }
        Ok(match p.kind() {
            kind::ROUTER_SOLICIT => Repr::RouterSolicit { source },
            kind::ROUTER_ADVERT => Repr::RouterAdvert {
                hop_limit: at8(message, 4),
                flags: at8(message, 5),
                lifetime: at16(message, 6),
                reachable: at32(message, 8),
                retransmit: at32(message, 12),
                source,
                mtu: p.option(option_kind::MTU).map(|[_, _, a, b, c, d]: [u8; 6]| u32::from_be_bytes([a, b, c, d])),
                prefix: p.option::<30>(option_kind::PREFIX).map(|o| Prefix {
                    prefix: Ipv6Addr::from(at::<16>(&o, 14)),
                    len: o[0].min(128),
                    flags: o[1],
                    valid: at32(&o, 2),
                    preferred: at32(&o, 6),
                }),
            },
            kind::NEIGHBOUR_SOLICIT => Repr::NeighbourSolicit { target, source },
            _ => Repr::NeighbourAdvert { flags: at8(message, 4), target, address: p.link_layer(option_kind::TARGET) },
        })
    }

    /// The message's type.
    pub const fn kind(&self) -> u8 {
        match self {
            Repr::RouterSolicit { .. } => kind::ROUTER_SOLICIT,
            Repr::RouterAdvert { .. } => kind::ROUTER_ADVERT,
            Repr::NeighbourSolicit { .. } => kind::NEIGHBOUR_SOLICIT,
            Repr::NeighbourAdvert { .. } => kind::NEIGHBOUR_ADVERT,
        }
    }

    /// Bytes the whole message takes.
    pub fn message_len(&self) -> usize {
        let link = |mac: &Option<Mac>| if mac.is_some() { LINK_LAYER_LEN } else { 0 };
        match self {
            Repr::RouterSolicit { source } => 8 + link(source),
            Repr::RouterAdvert { source, mtu, prefix, .. } => {
                16 + link(source) + mtu.map_or(0, |_| MTU_LEN) + prefix.map_or(0, |_| PREFIX_LEN)
            }
            Repr::NeighbourSolicit { source: mac, .. } | Repr::NeighbourAdvert { address: mac, .. } => 24 + link(mac),
        }
    }

    /// Write the whole message to the front of `out`, its checksum zero; returns its length. Sent through
    /// [`crate::icmp6::Repr::emit`], which fills the checksum.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.message_len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        out.fill(0);
        put8(out, field::TYPE, self.kind()).ok_or(NoRoom)?;
        let link = |out: &mut [u8], at: usize, kind: u8, mac: Option<Mac>| match mac {
            None => Some(at),
            Some(Mac(octets)) => {
                put(out, at, [kind, 1])?;
                put(out, at + 2, octets)?;
                Some(at + LINK_LAYER_LEN)
            }
        };
        let written = match *self {
            Repr::RouterSolicit { source } => link(out, 8, option_kind::SOURCE, source),
            Repr::RouterAdvert { hop_limit, flags, lifetime, reachable, retransmit, source, mtu, prefix } => {
                put(out, 4, [hop_limit, flags]).ok_or(NoRoom)?;
                put16(out, 6, lifetime).ok_or(NoRoom)?;
                put32(out, 8, reachable).ok_or(NoRoom)?;
                put32(out, 12, retransmit).ok_or(NoRoom)?;
                let mut at = link(out, 16, option_kind::SOURCE, source).ok_or(NoRoom)?;
                if let Some(mtu) = mtu {
                    put(out, at, [option_kind::MTU, 1]).ok_or(NoRoom)?;
                    put32(out, at + 4, mtu).ok_or(NoRoom)?;
                    at += MTU_LEN;
                }
                if let Some(p) = prefix {
                    put(out, at, [option_kind::PREFIX, 4, p.len, p.flags]).ok_or(NoRoom)?;
                    put32(out, at + 4, p.valid).ok_or(NoRoom)?;
                    put32(out, at + 8, p.preferred).ok_or(NoRoom)?;
                    put(out, at + 16, p.prefix.octets()).ok_or(NoRoom)?;
                    at += PREFIX_LEN;
                }
                Some(at)
            }
            Repr::NeighbourSolicit { target, source } => {
                put(out, 8, target.octets()).ok_or(NoRoom)?;
                link(out, 24, option_kind::SOURCE, source)
            }
            Repr::NeighbourAdvert { flags, target, address } => {
                put8(out, 4, flags).ok_or(NoRoom)?;
                put(out, 8, target.octets()).ok_or(NoRoom)?;
                link(out, 24, option_kind::TARGET, address)
            }
        };
        written.ok_or(NoRoom)
    }
}

/// The multicast address a solicitation for `target` is sent to (RFC 4291, 2.7.1).
pub const fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | target.to_bits() & 0x00ff_ffff)
}

#[cfg(test)]
mod tests;
