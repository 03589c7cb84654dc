//! The gateway's own stages, a file each.

mod admit;
mod check_lists;
mod check_source;
mod deliver;
mod find;
mod garden;
mod hairpin;
mod mark;
mod meter;
mod parse_access;
mod parse_core;
mod shape;

pub use admit::Admit;
pub use check_lists::CheckLists;
pub use check_source::{CheckSource, MOVE_AFTER, forget, learn, may_move};
pub use deliver::Deliver;
pub use find::{FindByAddress, FindByLine};
pub use garden::Garden;
pub use hairpin::Hairpin;
pub use mark::Mark;
pub use meter::Meter;
pub use parse_access::ParseAccess;
pub use parse_core::ParseCore;
pub use shape::Shape;
