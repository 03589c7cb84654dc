//! Memory regions on huge pages, and an allocator that counts.
//!
//! [`Region`] is one mapping on the largest pages that the host grants: reserved 2 MiB pages, else transparent huge
//! pages, else ordinary pages. [`Counting`] is a global allocator that counts allocations per thread, so that "no
//! allocation per packet" is measured.
//!
//! ```
//! let region = pages::Region::new(4 << 20)?; // 4 MiB, zeroed
//! assert!(region.len() >= 4 << 20);
//! println!("{} bytes on {}", region.len(), region.backing().as_str());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! `frame` and `table` use regions; this crate depends on no other crate of the workspace.

mod ahead;
mod counting;
mod region;
mod touch;

pub use ahead::prepare_growth;
pub use counting::{Counting, allocations_on_this_thread};
pub use region::{Backing, Region};
