//! What tests are written with.
//!
//! ```
//! use testkit::packet::{eth, ip4};
//!
//! let user = ip4([10, 60, 0, 1], [198, 51, 100, 7]).udp(1000, 7000).payload(b"hello");
//! let tunnel = eth([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 3]).ip4([10, 0, 3, 100], [10, 0, 3, 1]).gtpu(1);
//! let frame = tunnel.carrying(&user).build();
//! assert_eq!(frame.len(), 14 + 20 + 8 + 8 + 20 + 8 + 5);
//! ```
//!
//! - [`packet`]: packets by description, valid by default and wrong where requested.
//! - [`pcap`]: capture files.
//! - [`rig`]: a worker between memory ports, under a clock that the test sets.
//! - [`events`]: the events that a piece of code reports.
//! - [`golden`]: cases as folders: configuration, packets in, packets out, all counters.
//! - [`offloads`]: the same cases over ports that do what devices with checksum offloads do.
//! - [`over_dpdk`]: the same cases over DPDK's capture file driver.
//!
//! A dependency of tests only; it may panic where a test should fail.

#![forbid(unsafe_code)]

pub mod events;
pub mod golden;
pub mod offloads;
pub mod over_dpdk;
pub mod packet;
pub mod pcap;
pub mod reasons;
pub mod rig;
