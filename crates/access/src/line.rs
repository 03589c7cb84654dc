//! Access lines, and the keys by which clients are remembered.

use std::time::Duration;

/// Milliseconds since the Unix epoch. Expiry times outlive a restart, so they are wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// From whole seconds since the Unix epoch.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Whole seconds since the Unix epoch, rounded down; saturates in the year 2106.
    pub fn secs(self) -> u32 {
        u32::try_from(self.0 / 1000).unwrap_or(u32::MAX)
    }

    /// The time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Time {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// An access line by its tags: one subscriber (TR-101 1:1 VLAN) or one access section with many (N:1). 0: no such tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// Index of the access port, in the order of the configuration.
    pub port: u16,
    /// Identifier of the outer tag (S-VLAN, IEEE 802.1ad), 0 to 4094; 0: no tag.
    pub s_vlan: u16,
    /// Identifier of the inner tag (C-VLAN, IEEE 802.1Q), 0 to 4094; 0: no tag.
    pub c_vlan: u16,
}

/// Which client on which line. An address stays with its key (RFC 2131 clause 4.2; RFC 8415 clause 12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey {
    /// Line that the client is on.
    pub line: Line,
    /// The client's hardware address.
    pub mac: [u8; 6],
    /// [`identifier_hash`] of the client identifier (option 61), or of DUID and IAID; 0 if there is none.
    pub identifier: u64,
}

impl ClientKey {}

/// FNV-1a, 64 bits, never 0. Keys are stored, so the function must not change between versions. A client that finds a
/// collision collides with itself only: line and MAC are part of the key.
pub fn identifier_hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.iter());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)).max(1)
}
