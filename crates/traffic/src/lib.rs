//! Signed traffic for trials: every packet carries a signature by which loss, duplicates, order and latency are found.
//!
//! ```
//! use traffic::Pacer;
//!
//! // 1,000 packets a second from time 0, in nanoseconds; a late sender catches up at most 10 ms.
//! let mut pacer = Pacer::new(1000.0, 0, 0, 10_000_000);
//! let due = pacer.due(5_000_000);
//! assert!((4..=6).contains(&due), "{due} after 5 ms");
//! pacer.take(due);
//! assert_eq!(pacer.due(5_000_000), 0);
//! ```
//!
//! | item | content |
//! |---|---|
//! | [`Profile`] | the shape of the traffic: plain configuration |
//! | [`Plan`] | a compiled profile: the order of flows, and the meaning of a flow's number |
//! | [`Generator`] | frames built directly in their buffers, each with a [`Signature`] |
//! | [`Checker`] | loss, duplicates, order, latency |
//! | [`Pacer`] | the number of packets that are due |
//! | [`LoadPort`] | both ends in process: the ports of a gateway measured in memory |
//! | [`Load`] | both ends over real ports; a trial from start to drained |
//! | [`reflect`] | the responder: packets returned in their buffers |
//! | [`cable`] | the other side of a CMTS: Remote-PHY devices with their modems, and the network |
//! | [`Neighbours`] | ARP, neighbour discovery and GTP-U echo, answered for gNBs and servers |
//!
//! Sizes are lengths of the N6-side Ethernet frame without FCS and VLAN tag; times are nanoseconds of one [`Clock`].

#![forbid(unsafe_code)]
// Names and types document most items; comments are written where they add a unit, a clause or a reason.
#![allow(missing_docs)]

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
