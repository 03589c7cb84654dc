//! A subscriber's record: three cache lines of plain data, of which a packet touches two.
//!
//! ```text
//! line 0   Head   link header, addresses, access lists, VRF       every packet
//! line 1   Meter  policer and counters of packets to it           downstream
//! line 2   Meter  policer and counters of packets from it         upstream
//! ```

use access::option82::LineRate;
use table::bucket;
use table::records::{Line as CacheLine, LineId};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::link::{LONGEST, Line};

/// Lines of a record.
pub const LINES: usize = 3;

/// What control installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriberSpec {
    /// Control's number of the subscriber.
    pub handle: u32,
    /// Its VLAN pair.
    pub line: Line,
    /// Its group.
    pub group: u16,
    /// Its hardware address; none: that of the first packet from its address (1:1 only).
    pub mac: Option<[u8; 6]>,
    /// Its IPv4 address.
    pub ipv4: Option<u32>,
    /// The upper half of its WAN prefix, a /64.
    pub wan: Option<u64>,
    /// The upper half of its delegated prefix, and its length, 48 to 64.
    pub pd: Option<(u64, u8)>,
    /// Its profile.
    pub profile: u16,
    /// What its line carries: no rate of its profile counts beyond it.
    pub line_rate: LineRate,
}

/// Bits of [`Head::flags`].
pub mod flags {
    /// The hardware address is not known yet.
    pub const NO_MAC: u8 = 1 << 0;
    /// The hardware address is that of a packet: another may take its place, see [`may_move`](crate::steps::may_move).
    pub const LEARNT: u8 = 1 << 1;
    /// Packets to it wait in queues of its own.
    pub const SHAPED: u8 = 1 << 2;
    /// Its IPv4 address is not translated.
    pub const UNTRANSLATED: u8 = 1 << 3;
}

/// What every packet of a subscriber needs.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Head {
    /// The header that leads to it, with the tag types that were received last; the type is that of IPv4.
    pub link: [u8; LONGEST],
    /// Bytes of `link` that count: 14, 18 or 22.
    pub link_len: u8,
    /// See [`flags`].
    pub flags: u8,
    /// Control's number.
    pub handle: u32,
    /// Its IPv4 address; 0: none.
    pub ipv4: u32,
    /// The upper half of its WAN prefix; [`NO_PREFIX`]: none.
    pub wan: u64,
    /// The upper half of its delegated prefix; [`NO_PREFIX`]: none.
    pub pd: u64,
    /// Its group.
    pub group: u16,
    /// The VRF its packets are routed in.
    pub instance: u16,
    /// Its access lists, the profile's and the location's, or one that does as both; 0: none.
    pub acl: [u16; 2],
    /// Its profile.
    pub profile: u16,
    /// Largest IP packet to it, in bytes.
    pub mtu: u16,
    /// Length of `pd`.
    pub pd_len: u8,
    /// Bytes that are policed and counted beside the IP packet's.
    pub overhead: u8,
    /// The port that leads to it.
    pub port: u8,
    /// Zero.
    pub spare: u8,
}

/// The upper half of no prefix that a subscriber can have.
pub const NO_PREFIX: u64 = u64::MAX;

impl Head {
    /// Its hardware address, if it is known.
    pub fn mac(&self) -> Option<[u8; 6]> {
        (self.flags & flags::NO_MAC == 0).then(|| self.link.first_chunk().copied()).flatten()
    }

    /// Whether an IPv6 address, given by its upper half, is its own.
    #[inline(always)]
    pub(crate) fn has6(&self, upper: u64) -> bool {
        upper == self.wan || (upper ^ self.pd) >> (64 - u32::from(self.pd_len)).min(63) == 0
    }
}

/// Policer and counters of one direction.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Meter {
    /// What may pass.
    pub rate: bucket::Config,
    /// How full the bucket is.
    pub bucket: bucket::State,
    /// Packets of IPv4 and of IPv6 that passed.
    pub packets: [u64; 2],
    /// Their bytes, of the layer that the profile accounts.
    pub bytes: [u64; 2],
}

const _: () = assert!(size_of::<Head>() == 64 && size_of::<Meter>() == 64);

/// The line of a record that a direction's meter is in.
#[inline(always)]
pub(crate) fn meter_of(record: LineId, up: bool) -> LineId {
    LineId(record.0.wrapping_add(if up { 2 } else { 1 }))
}

/// A line as a head.
#[inline(always)]
pub fn head(line: &CacheLine) -> &Head {
    zerocopy::transmute_ref!(line)
}

/// A line as a head, to change.
#[inline(always)]
pub(crate) fn head_mut(line: &mut CacheLine) -> &mut Head {
    zerocopy::transmute_mut!(line)
}

/// A line as a meter.
#[inline(always)]
pub fn meter(line: &CacheLine) -> &Meter {
    zerocopy::transmute_ref!(line)
}

/// A line as a meter, to change.
#[inline(always)]
pub(crate) fn meter_mut(line: &mut CacheLine) -> &mut Meter {
    zerocopy::transmute_mut!(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(wan: u64, pd: u64, pd_len: u8) -> Head {
        let mut line = CacheLine::ZERO;
        let head = head_mut(&mut line);
        (head.wan, head.pd, head.pd_len) = (wan, pd, pd_len);
        *head
    }

    #[test]
    fn prefixes_cover_their_addresses_only() {
        let head = of(0x2001_0db8_0001_0002, 0x2001_0db8_4000_1200, 56);
        assert!(head.has6(0x2001_0db8_0001_0002) && !head.has6(0x2001_0db8_0001_0003));
        assert!(head.has6(0x2001_0db8_4000_12ff) && head.has6(0x2001_0db8_4000_1200));
        assert!(!head.has6(0x2001_0db8_4000_1300) && !head.has6(0x2001_0db8_4000_11ff));
        let exact = of(NO_PREFIX, 0x2001_0db8_4000_1200, 64);
        assert!(exact.has6(0x2001_0db8_4000_1200) && !exact.has6(0x2001_0db8_4000_1201));
        let none = of(NO_PREFIX, NO_PREFIX, 64);
        assert!(!none.has6(0) && !none.has6(0x2001_0db8_4000_1200));
    }
}
