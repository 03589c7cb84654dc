//! Who has this address? ARP for IPv4, neighbour discovery for IPv6 (RFC 826, RFC 5227; RFC 4861).
//!
//! - [`NeighbourMessage`]: a received message, parsed and checked.
//! - [`arp_request`] and its kin: complete frames, written into the caller's buffer.
//! - [`NeighbourCache`]: who has which address, whom to ask and when; pure, time is an argument.

mod build;
mod cache;
mod message;

pub use build::{
    ALL_NODES, MAX_FRAME, Station, announcement, arp_announcement, arp_reply, arp_request, link_local,
    neighbour_advertisement, neighbour_solicitation, request, router_solicitation, solicited_node,
};
pub use cache::{Action, Config, Heard, NeighbourCache, Request, State, Wanted};
pub use message::NeighbourMessage;

/// ICMPv6 types of neighbour discovery (RFC 4861, 4).
mod kind {
    pub const ROUTER_SOLICITATION: u8 = 133;
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    pub const SOLICITATION: u8 = 135;
    pub const ADVERTISEMENT: u8 = 136;
}

/// Options of neighbour discovery (RFC 4861, 4.6).
mod option {
    pub const SOURCE_LINK: u8 = 1;
    pub const TARGET_LINK: u8 = 2;
    pub const PREFIX: u8 = 3;
    pub const MTU: u8 = 5;
}

/// Flags of a neighbour advertisement, in its fifth byte (RFC 4861, 4.4).
mod flag {
    pub const ROUTER: u8 = 0x80;
    pub const SOLICITED: u8 = 0x40;
    pub const OVERRIDE: u8 = 0x20;
}
