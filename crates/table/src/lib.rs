//! The tables, clocks and rings a worker keeps.
//!
//! | module | idea |
//! |---|---|
//! | [`bulk`] | exact-match hash map, looked up a burst at a time |
//! | [`records`] | 64-byte lines on huge pages for pointer-free session records |
//! | [`bucket`] | token buckets in exact integer arithmetic |
//! | [`hint`] | prefetch and the time stamp counter, as safe functions |
//!
//! Everything here is single-owner unless its name says otherwise; nothing reads a clock or a random source by
//! itself, and nothing allocates after construction unless its documentation says when.

pub mod bucket;
pub mod bulk;
pub mod hint;
pub mod records;
mod slab;
