//! The grouped information elements, as the tables of 7.4 and 7.5 give them.
//!
//! What is not in a table here (Ethernet filters, ATSSS, time sensitive communication, redundant transmission, …) is kept
//! as it came in `others`.

mod far;
mod node;
mod pdr;
mod qer;
mod report;
mod urr;

pub use far::*;
pub use node::*;
pub use pdr::*;
pub use qer::*;
pub use report::*;
pub use urr::*;
