//! PFCP (3GPP TS 29.244, Release 17): how control planes drive user planes over N4, Sxa and Sxb.
//!
//! The house from the bytes up; clauses named anywhere in this crate are those of TS 29.244:
//!
//! - [`Header`]: version, SEID, sequence number;
//! - [`ie`]: the information elements, a Rust type each, named as the standard names them;
//! - [`group`]: the grouped ones (Create PDR, Usage Report, …), declared as tables of field, type and presence;
//! - [`message`]: the messages, declared the same way, and [`Message`], any of them;
//! - [`Packet::parse`] reads one, or says by a [`Refusal`] what to answer, if anything;
//!   [`Packet::emit`] writes one;
//! - [`node`]: associations, heartbeats, requests sent again and received again, without I/O and clock;
//! - [`control`]: what a control plane says over the life of a session, for simulations and tests.
//!
//! Parsing never panics, keeps IEs it does not know as [`RawIe`]s, and is bounded: the nesting by the types, the number
//! of IEs by [`MAX_IES`], the work by the length of the message.

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
