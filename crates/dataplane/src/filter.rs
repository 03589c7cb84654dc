//! Service data flow filters: from the text a control plane sends to flat records matched in the packet path.
//!
//! ```text
//! "permit out 17 from 198.51.100.0/24 53,5000-6000 to assigned"
//!       │ parse (rule, text)
//! FlowDescription ── with ToS ── Sdf
//!       │ compile (for the subscriber's addresses; port lists are multiplied out)
//! [Filter4], [Filter6]      32 and 64 bytes each, matched against a Key4 or Key6
//!       │ four plain ones side by side
//! Quad4                     80 bytes, matched against a QuadKey at once
//! ```
//!
//! A filter knows the *remote* end (the network's) and the *local* end (the subscriber's), not source and
//! destination, so one filter serves both directions: which is which is settled once, when the key is made.

mod compile;
mod compiled;
mod quad;
mod rule;
mod text;

pub use compile::{CompileError, Filters, MAX_FILTERS, UeAddresses, compile};
pub use compiled::{Filter4, Filter6, Key4, Key6, Ranges, Traits, state};
pub use quad::{ENDS, Quad4, QuadKey, WAYS};
pub use rule::{Action, Address, Direction, End, FlowDescription, Ports, Prefix, Sdf, Tos};
pub use text::RuleError;

#[cfg(test)]
mod tests;
