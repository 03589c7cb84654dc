//! What pools are made with, and why one or a lease is refused.

use crate::lease::Kind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Most addresses or prefixes of one pool.
pub const MAX_BLOCKS: u32 = 1 << 24;

/// A configured pool: a range of addresses, or of prefixes of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Number of the subscriber group that leases from it.
    pub group: u16,
    /// Addresses or delegated prefixes.
    pub kind: Kind,
    /// First address or prefix, included.
    pub first: IpAddr,
    /// Its last address, or the first address of its last prefix.
    pub last: IpAddr,
    /// Length of each delegated prefix, 1 to 127. For addresses 32 and 128; for IA_NA also 64 to 127: one address, the first
    /// behind the prefix's own, of each prefix of that length.
    pub prefix_len: u8,
    /// Addresses (first, last) that are not leased; for delegated prefixes, every prefix they touch.
    pub excluded: Vec<(IpAddr, IpAddr)>,
}

impl Range {
    /// IPv4 addresses from `first` to `last`.
    pub fn ip4(group: u16, first: Ipv4Addr, last: Ipv4Addr) -> Self {
        Self { group, kind: Kind::Ip4, first: first.into(), last: last.into(), prefix_len: 32, excluded: Vec::new() }
    }
}

/// How many leases one line and one port may have, and how long addresses rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Leases of one line, or of one hardware address where lines are shared, each of IPv4, IA_NA and IA_PD counting as one.
    pub per_line: u32,
    /// Leases of one kind of a VLAN pair that lines share (N:1): hardware addresses can be invented.
    pub per_pair: u32,
    /// Most leases of one port, all lines together.
    pub per_port: u32,
    /// How long a declined address is not leased.
    pub quarantine: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { per_line: 64, per_pair: 65_536, per_port: 1 << 20, quarantine: Duration::from_secs(86_400) }
    }
}

/// Error in the configuration of a pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPool {
    /// First and last address, in the wrong order or of different families.
    #[error("pool {0} to {1} is empty or mixes IPv4 and IPv6: the first address must not be above the last")]
    Order(IpAddr, IpAddr),
    /// The prefix length.
    #[error(
        "pool from {0}: a prefix length of {1} is invalid; allowed: 32 for IPv4, 64 to 128 for IA_NA, 1 to 127 for IA_PD"
    )]
    Length(IpAddr, u8),
    /// First and last address of a pool with too many entries.
    #[error("pool {0} to {1} has more than {MAX_BLOCKS} entries: split it")]
    Size(IpAddr, IpAddr),
    /// First addresses of two pools that overlap.
    #[error("the pools that begin with {0} and {1} overlap")]
    Overlap(IpAddr, IpAddr),
}

/// Reason for which a client got no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The group has no pool of this kind.
    NoPool,
    /// The group's pools of this kind are used up.
    Exhausted,
    /// The line has [`Limits::per_line`] leases.
    LineLimit,
    /// The VLAN pair has [`Limits::per_pair`] leases of this kind.
    PairLimit,
    /// The port has [`Limits::per_port`] leases.
    PortLimit,
}

/// Why a stored lease was not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRestored {
    /// Subscriber group, and the address of a stored lease that is in none of its pools.
    #[error("no pool of group {0} has {1}: was the pool removed from the configuration?")]
    NoPool(u16, Ipv6Addr),
    /// Address of a stored lease that another lease has.
    #[error("{0} belongs to two stored leases")]
    Taken(Ipv6Addr),
    /// Address of a stored lease whose time is over.
    #[error("the lease of {0} has ended")]
    Ended(Ipv6Addr),
}
