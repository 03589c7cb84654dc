//! Which way a packet goes.

use serde::{Deserialize, Serialize};

/// Which way a packet goes through the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the gNBs (N3, access) to the application servers (N6, core).
    Uplink,
    /// From the application servers to the gNBs.
    Downlink,
}

impl Direction {
    /// Both, in the order of [`Direction::index`].
    pub const BOTH: [Self; 2] = [Self::Uplink, Self::Downlink];

    /// 0 for the uplink, 1 for the downlink.
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The other one.
    #[inline]
    pub const fn reverse(self) -> Self {
        match self {
            Self::Uplink => Self::Downlink,
            Self::Downlink => Self::Uplink,
        }
    }

    /// The word shown in tables and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
        }
    }
}
