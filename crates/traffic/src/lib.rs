//! Signed traffic for trials.
//!
//! | part | idea |
//! |---|---|
//! | [`Profile`] | what the traffic looks like: plain configuration |
//! | [`Plan`] | a profile compiled: who is served when, and what a flow's number means |
//! | [`Generator`] | frames out of nothing, straight into their slots, each with a [`Signature`] |
//! | [`Checker`] | what became of them: loss, duplicates, order, latency |
//! | [`Pacer`] | how many packets are due, exactly |
//! | [`LoadPort`] | both ends in process: the ports of a gateway measured in memory |
//! | [`Load`] | both ends over real ports; a trial from start to drained |
//! | [`reflect`] | the responder: packets turned around where they lie |
//! | [`cable`] | the other side of a CMTS: Remote-PHY devices with their modems, and the network |
//! | [`Neighbours`] | ARP, neighbour discovery and GTP-U echo, answered for gNBs and servers |
//!
//! Sizes are lengths of the N6-side Ethernet frame without FCS and VLAN tag; times are nanoseconds of one [`Clock`].

#![forbid(unsafe_code)]

pub mod cable;
mod checker;
mod clock;
mod direction;
mod echo;
mod error;
mod generator;
mod inspect;
mod latency;
mod load;
mod load_port;
mod neighbours;
mod pacer;
mod plan;
mod profile;
mod remainder;
mod responder;
mod result;
mod sender;
mod sequence;
mod signature;
mod sizes;
mod template;
mod trial;
mod validate;

pub use checker::{Checker, Seen, Verify};
pub use clock::Clock;
pub use direction::Direction;
pub use error::ProfileError;
pub use generator::{Generator, Made};
pub use inspect::{Found, Lack, Tunnel, inspect};
pub use latency::LatencySummary;
pub use load::{Downlink, Load, LoadOptions};
pub use load_port::{LoadHandle, LoadPort};
pub use neighbours::Neighbours;
pub use pacer::Pacer;
pub use plan::{Parties, Plan};
pub use profile::{BadRatio, Profile, Ratio, Segment, Teids};
pub use responder::reflect;
pub use result::{DirectionResult, Directions, TrialResult};
pub use sender::Schedule;
pub use sequence::{Arrival, Window};
pub use signature::Signature;
pub use sizes::{BadSizes, Share, Sizes};
