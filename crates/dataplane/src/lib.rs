//! Stages, tables and packet builders that gateways share, and the common sections of their configurations.
//!
//! ```
//! use dataplane::limit::{Allowance, Limit};
//!
//! // ICMP errors: at most 100 a second in the long run, two at once. Time is in nanoseconds.
//! let mut limit = Limit::new(Allowance::new(100, 2));
//! assert!(limit.allow(0) && limit.allow(0) && !limit.allow(0));
//! assert!(limit.allow(10_000_000)); // 10 ms later
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`receive`], [`parse`], [`route`], [`rewrite`], [`mss`] | stages of every packet path |
//! | [`lane`](mod@lane) | what the lanes of all gateways have in common |
//! | [`forward`], [`neighbour`] | routes, next hops, tunnels, address resolution |
//! | [`acl`], [`filter`], [`nat`], [`reassemble`], [`redirect`] | functions between subscriber and network |
//! | [`hold`], [`unresolved`], [`fragment`], [`icmp`], [`limit`] | parts of the slow path |
//! | [`slow`] | answers, ICMP errors and fragments within rates |
//! | [`hqos`] | queues, shapers, active queue management and a scheduler |
//! | [`config`] | sections that all configurations have |

#![forbid(unsafe_code)]

pub mod acl;
pub mod config;
pub mod drops;
pub mod encap; // link encapsulation: the bytes before an IP header
pub mod filter;
pub mod forward;
pub mod fragment;
pub mod hold;
pub mod hqos;
pub mod icmp;
pub mod lane;
pub mod limit;
pub mod mss;
pub mod nat;
pub mod neighbour;
pub mod parse;
pub mod punts;
pub mod reassemble;
pub mod receive;
pub mod redirect;
pub mod rewrite;
pub mod route;
pub mod shared;
pub mod slow;
pub mod unresolved;

/// What stages here are built from: a gateway's [`Kind::Config`](engine::Kind::Config). By default all of them are off.
pub trait StageConfig {
    /// Where access lists count, by rule; `None`: there are no lists.
    fn acl_hits(&self) -> Option<&acl::Hits> {
        None
    }

    /// The largest TCP segment over IPv4 by port, in bytes; over IPv6 it is 20 less, as the header is 20 more.
    fn mss(&self) -> &[Option<u16>] {
        &[]
    }

    /// Whether users' fragments are put together.
    fn reassembles(&self) -> bool {
        false
    }

    /// Whether users' IPv4 addresses are translated.
    fn translates(&self) -> bool {
        false
    }
}
