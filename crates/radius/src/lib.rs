//! RADIUS for an access gateway: codec, dictionaries, client (authentication, accounting) and CoA server.
//!
//! The crate does no I/O and has no clock: datagrams, time and random bytes are arguments. Message-Authenticator is
//! required in both directions (CVE-2024-3596).

#![forbid(unsafe_code)]

pub mod accounting;
pub mod client;
pub mod coa;
pub mod dictionary;
pub mod packet;

pub use dictionary::{Dictionary, Kind};
pub use packet::{Attribute, Code, Malformed, Packet, Secret};
