//! Where weir's memory comes from.
//!
//! [`Region`] is one mapping on the largest pages the host grants: explicit 2 MiB pages when some are
//! reserved, transparent ones otherwise, ordinary pages when neither is there. [`Counting`] is a global allocator
//! that counts per thread, so that "no allocation per packet" is a measurement and not a promise.
//!
//! `frame` and `table` both build on regions; this crate knows nobody.

mod ahead;
mod counting;
mod region;
mod touch;

pub use ahead::prepare_growth;
pub use counting::{Counting, allocations_on_this_thread};
pub use region::{Backing, Region};
