//! The doors frames come in and leave by, each an implementation of [`frame::Port`].
//!
//! | URI | door |
//! |---|---|
//! | `memory:…` | prepared frames replayed and sunk in process: [`memory`] |
//! | `pcap:in.pcap?out=out.pcap` | files in, files out |
//! | `packet:eth0?mode=plain\|mmsg\|ring` | AF_PACKET |
//! | `xdp:eth0?queue=0&copy=auto` | AF_XDP |

pub mod memory;

pub use frame::{Caps, Link, Port, PortCounters};
