//! The user plane's own stages, one verb a file.

mod apply_far;
mod check_source;
mod ecn;
mod find_session;
mod gate_and_police;
mod gtpu_decap;
mod gtpu_encap;
mod match_pdr;
mod measure_usage;
mod outer_header;
mod parse_outer;
mod parse_user;
mod remove_header;
mod resume;

pub use apply_far::ApplyFar;
pub use check_source::CheckSource;
pub use find_session::{FindByAddress, FindByTeid};
pub use gate_and_police::GateAndPolice;
pub use gtpu_decap::GtpuDecap;
pub use gtpu_encap::{Checksum6, GtpuEncap};
pub use match_pdr::MatchPdr;
pub use measure_usage::MeasureUsage;
pub(crate) use outer_header::Outwards;
pub use parse_outer::ParseOuter;
pub use parse_user::{ParsePlain, ParseUser};
pub use resume::Resume;
