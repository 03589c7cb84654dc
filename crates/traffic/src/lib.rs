//! Signed traffic for trials.
//!
//! | part | idea |
//! |---|---|
//! | [`Profile`] | what the traffic looks like: plain configuration |
//! | [`Plan`] | a profile compiled: who is served when, and what a flow's number means |
//! | [`Generator`] | frames out of nothing, straight into their slots, each with a [`Signature`] |
//! | [`Checker`] | what became of them: loss, duplicates, order, latency |

#![forbid(unsafe_code)]

mod checker;
mod direction;
mod error;
mod generator;
mod inspect;
mod latency;
mod plan;
mod profile;
mod remainder;
mod sequence;
mod signature;
mod sizes;
mod template;
mod validate;

pub use checker::{Checker, Seen, Verify};
pub use direction::Direction;
pub use error::ProfileError;
pub use generator::{Generator, Made};
pub use inspect::{Found, Lack, Tunnel, inspect};
pub use latency::{Latencies, LatencySummary};
pub use plan::{Parties, Plan};
pub use profile::{Profile, Ratio, Segment, Teids};
pub use sequence::{Arrival, Window};
pub use signature::Signature;
pub use sizes::{BadSizes, Share, Sizes};
