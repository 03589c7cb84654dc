//! The tables, clocks and rings a worker keeps.
//!
//! | module | idea |
//! |---|---|
//! | [`bulk`] | exact-match hash map, looked up a burst at a time |
//! | [`records`] | 64-byte lines on huge pages for pointer-free session records |
//! | [`lpm`] | longest-prefix match, IPv4 and IPv6 |
//! | [`bucket`] | token buckets in exact integer arithmetic |
//! | [`wheel`] | hierarchical timer wheel |
//! | [`snapshot`] | immutable values published by control, read by workers |
//! | [`ring`] | bounded ring from one producer to one consumer |
//! | [`command`] | orders from control to a worker, with replies |
//! | [`waker`] | waking a worker that sleeps |
//! | [`mesh`] | hand-off rings between workers |
//! | [`shard`] | counters, a shard per worker |
//! | [`histogram`] | log-linear histogram of durations |
//! | [`hint`] | prefetch, time stamp counter and the core's clock, as safe functions |
//!
//! Everything here is single-owner unless its name says otherwise; nothing reads a clock or a random source by
//! itself, and nothing allocates after construction unless its documentation says when.

pub mod bucket;
pub mod bulk;
pub mod command;
pub mod hint;
pub mod histogram;
pub mod lpm;
pub mod mesh;
pub mod records;
pub mod ring;
pub mod shard;
mod slab;
pub mod snapshot;
mod sync;
pub mod waker;
pub mod wheel;
