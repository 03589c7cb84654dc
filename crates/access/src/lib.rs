//! Access protocols of a broadband or cable gateway, for its control thread: address pools, the DHCPv4 and DHCPv6
//! servers, the relay agents of both, option 82, router advertisements, and the decisions of the ARP and ND guards.
//!
//! The crate does no I/O and has no clock: packets, the time and what the ledger has stored are arguments; replies and
//! records to store come out as [`Action`]s.

#![forbid(unsafe_code)]

pub mod dhcp4;
pub mod dhcp6;
pub mod guard;
pub mod lease;
pub mod option82;
pub mod pool;
pub mod queue;
pub mod ra;
pub mod relay;
pub mod subscriber;

mod action;
mod expire;
mod line;

pub use action::{Action, Actions, Ticket};
pub use expire::{expire, expire_with};
pub use line::{ClientKey, Line, Time, identifier_hash};
