//! Tables, clocks and rings of a worker.
//!
//! ```
//! use table::bucket::{Config, Rate, State, conform};
//! use table::lpm::{Lpm4, Prefix};
//!
//! let mut routes = Lpm4::new();
//! routes.insert(Prefix::new(0x0a3c_0000, 16).unwrap(), 7); // 10.60.0.0/16 by next hop 7
//! assert_eq!(routes.lookup(0x0a3c_0001), Some(7));
//!
//! let config = Config::new(Rate::mbps(8), 1500); // 8 Mbit/s, a burst of 1,500 bytes
//! let mut state = State::full(&config, 0);
//! assert!(conform(&config, &mut state, 0, 1500));
//! assert!(!conform(&config, &mut state, 0, 1000));
//! assert!(conform(&config, &mut state, 1_000_000, 1000)); // 1 ms later, in nanoseconds
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`bulk`] | exact-match hash map with lookups by the burst |
//! | [`records`] | 64-byte lines on huge pages for pointer-free session records |
//! | [`lpm`] | longest-prefix match, IPv4 and IPv6 |
//! | [`bucket`] | token buckets in exact integer arithmetic |
//! | [`wheel`] | hierarchical timer wheel |
//! | [`snapshot`] | immutable values published by control, read by workers |
//! | [`ring`] | bounded ring from one producer to one consumer |
//! | [`command`] | commands from control to a worker, with replies |
//! | [`waker`] | waking a worker that sleeps |
//! | [`mesh`] | handoff rings between workers |
//! | [`shard`] | counters, a shard for each worker |
//! | [`histogram`] | log-linear histogram of durations |
//! | [`marks`] | numbers that are marked, each once |
//! | [`hint`] | prefetch, time stamp counter and the core's clock, as safe functions |
//!
//! Everything has a single owner unless its name says otherwise. Nothing reads a clock or a random source by itself,
//! and nothing allocates after construction unless its documentation says when.

pub mod bucket;
pub mod bulk;
pub mod command;
pub mod hint;
pub mod histogram;
pub mod lpm;
pub mod marks;
pub mod mesh;
pub mod records;
pub mod ring;
pub mod shard;
mod slab;
pub mod snapshot;
mod sync;
pub mod waker;
pub mod wheel;
