//! What tests are written with.
//!
//! - [`packet`]: packets by description, right by default and wrong where asked.
//! - [`pcap`]: files one can open in Wireshark.
//! - [`rig`]: a worker between memory wires, under a clock turned by hand.
//! - [`events`]: what a piece of code reports.
//! - [`golden`]: cases that are folders: configuration, packets in, packets out, all counters.
//!
//! A dependency of tests only; it may panic where a test should fail.

#![forbid(unsafe_code)]

pub mod events;
pub mod golden;
pub mod packet;
pub mod pcap;
pub mod rig;
