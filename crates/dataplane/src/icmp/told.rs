//! What went wrong with a packet, whichever its version.

use wire::ip6;

use super::{Error4, Error6};

/// An error, in the words of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// To who sent an IPv4 packet.
    pub v4: Error4,
    /// To who sent an IPv6 packet.
    pub v6: Error6,
}

impl Told {
    /// RFC 1812, 5.3.1; RFC 4443, 3.3.
    pub const TTL_EXPIRED: Self = Self { v4: Error4::TimeExceeded, v6: Error6::TimeExceeded };
    /// RFC 1812, 5.2.7.1; RFC 4443, 3.1.
    pub const NO_ROUTE: Self = Self { v4: Error4::NetUnreachable, v6: Error6::NoRoute };
    /// As `NO_ROUTE`: the next hop does not answer.
    pub const NO_NEIGHBOUR: Self = Self { v4: Error4::HostUnreachable, v6: Error6::AddressUnreachable };

    /// RFC 1191; RFC 8201. `mtu`: the largest packet that fits, in bytes; what is less than IPv6 promises is not
    /// announced (RFC 8200, 5).
    pub fn too_big(mtu: u16) -> Self {
        Self {
            v4: Error4::FragmentationNeeded { mtu },
            v6: Error6::PacketTooBig { mtu: u32::from(mtu).max(ip6::MIN_MTU as u32) },
        }
    }
}
