//! PFCP (3GPP TS 29.244, Release 17): how control planes drive user planes over N4, Sxa and Sxb.
//!
//! ```
//! use pfcp::ie::RecoveryTimeStamp;
//! use pfcp::message::HeartbeatRequest;
//! use pfcp::{Header, Message, Packet};
//!
//! let request = HeartbeatRequest { recovery_time_stamp: RecoveryTimeStamp::from_unix(1_700_000_000), ..Default::default() };
//! let packet = Packet { header: Header::node(7), message: Message::HeartbeatRequest(request) };
//! let octets = packet.to_vec().unwrap();
//! let read = Packet::parse(&octets).unwrap();
//! assert!(matches!(read.message, Message::HeartbeatRequest(_)));
//! ```
//!
//! Clauses named in this crate are those of TS 29.244.
//!
//! - [`Header`]: version, SEID, sequence number;
//! - [`ie`]: the information elements, one Rust type each, named as in the standard;
//! - [`group`]: the grouped ones (Create PDR, Usage Report, …), declared as tables of field, type and presence;
//! - [`message`]: the messages, declared the same way, and [`Message`], any of them;
//! - [`Packet::parse`] parses one, or returns a [`Refusal`] that states what to answer, if anything; [`Packet::emit`]
//!   writes one;
//! - [`node`]: associations, heartbeats, retransmissions in both directions, without I/O and clock;
//! - [`control`]: what a control plane sends in the life of a session, for simulations and tests.
//!
//! Parsing never panics, keeps unknown IEs as [`RawIe`]s, and is bounded: the nesting by the types, the number of IEs
//! by [`MAX_IES`], the work by the length of the message.

#![forbid(unsafe_code)]

#[macro_use]
mod table;
mod element;
mod header;
mod packet;
pub(crate) mod refusal;

pub mod control;
pub mod group;
pub mod ie;
pub mod message;
pub mod node;

// The tests outside share modules with those inside.
#[cfg(test)]
extern crate self as pfcp;

#[cfg(test)]
mod tests;

pub use element::{Element, Fault, MAX_IES, RawIe, Reader};
pub use header::{Header, Malformed};
pub use message::Message;
pub use packet::{Packet, TooLong, messages};
pub use refusal::Refusal;

/// The UDP port requests are sent to (4.2.2).
pub const PORT: u16 = 8805;
