//! Packet headers as bytes. Network byte order is handled here and nowhere else.
//!
//! ```
//! use std::net::Ipv4Addr;
//! use wire::{ip4, protocol};
//!
//! let (src, dst) = (Ipv4Addr::new(10, 60, 0, 1), Ipv4Addr::new(198, 51, 100, 7));
//! let mut bytes = [0; 28];
//! ip4::Repr::new(src, dst, protocol::UDP, 8).emit(&mut bytes).unwrap(); // header with checksum
//!
//! let packet = ip4::Packet::new_checked(&bytes[..]).unwrap();
//! assert_eq!((packet.dst(), packet.ttl(), packet.is_checksum_right()), (dst, 64, true));
//! assert_eq!(packet.payload().len(), 8);
//! ```
//!
//! One file for each protocol: the byte diagram with the clause of the standard, field offsets, a view
//! [`Packet`](ip4::Packet)`<T: AsRef<[u8]>>` whose `new_checked` states what it guarantees, setters for `T:
//! AsMut<[u8]>`, and a value `Repr` that parses, emits and has a length.
//!
//! Three one-pass parsers serve the packet path: [`Outer`] (Ethernet and its tags), [`L3L4`] (IPv4 or IPv6 to the
//! ports) and [`gtpu::Header`]. They do not allocate and do not panic; [`Malformed`] names what they refuse.

#![no_std]
#![forbid(unsafe_code)]
// Names and types document most items; comments are written where they add a unit, a clause or a reason.
#![allow(missing_docs)]

#[cfg(test)]
extern crate std;

mod id;
mod l3l4;
mod malformed;
mod outer;

pub mod arp;
pub mod ccf;
pub mod checksum;
pub mod crc;
pub mod docsis;
pub mod ethernet;
pub mod fast;
pub mod gtpu;
pub mod icmp;
pub mod icmp4;
pub mod icmp6;
pub mod ip4;
pub mod ip6;
pub mod l2tp;
pub mod ndp;
pub mod option;
pub mod psp;
pub mod tcp;
pub mod udp;
pub mod uepi;

pub use id::{BadMac, Mac, Qfi, Teid, Vlan};
pub use l3l4::{Fragment, L3L4};
pub use malformed::{Malformed, NoRoom};
pub use outer::Outer;

/// Ethertypes (IEEE 802 numbers) this crate names.
pub mod ethertype {
    /// IPv4.
    pub const IP4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    /// 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// The tag some equipment put on the outside before 802.1ad; read, never written.
    pub const OLD_SERVICE_VLAN: u16 = 0x9100;
    /// IPv6.
    pub const IP6: u16 = 0x86dd;
    pub const PPPOE_DISCOVERY: u16 = 0x8863;
    pub const PPPOE_SESSION: u16 = 0x8864;
}

/// IP protocol numbers (IANA) this crate names.
pub mod protocol {
    /// IPv6 hop-by-hop options, an extension header.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP4: u8 = 1;
    /// IPv4 in IP (RFC 2003).
    pub const IP4: u8 = 4;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    /// IPv6 in IP (RFC 2473, RFC 4213).
    pub const IP6: u8 = 41;
    pub const DCCP: u8 = 33;
    /// IPv6 routing, an extension header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment, an extension header.
    pub const FRAGMENT: u8 = 44;
    pub const ESP: u8 = 50;
    pub const AH: u8 = 51;
    pub const ICMP6: u8 = 58;
    /// IPv6 "no next header".
    pub const NONE: u8 = 59;
    /// IPv6 destination options, an extension header.
    pub const DESTINATION: u8 = 60;
    /// L2TPv3 straight over IP.
    pub const L2TP: u8 = 115;
    pub const SCTP: u8 = 132;
    pub const UDP_LITE: u8 = 136;
}
