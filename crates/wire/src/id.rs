//! Identifiers as types of their own, so that a TEID is never passed for an address.

use core::fmt;
use core::str::FromStr;

/// An Ethernet address (IEEE 802 MAC), in the order it is sent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Nobody's address.
    pub const ZERO: Mac = Mac([0; 6]);
    /// Everybody's address.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// Whether this is a group address (broadcast or multicast): the lowest bit of the first octet.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether a station may have this address: neither a group nor all zero.
    #[inline]
    pub fn is_station(self) -> bool {
        !self.is_group() && self != Mac::ZERO
    }

    /// The group address IPv4 multicast `group` is sent to (RFC 1112, 6.4).
    pub const fn multicast4(group: u32) -> Mac {
        let [_, b, c, d] = group.to_be_bytes();
        Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// The group address IPv6 multicast `group` is sent to (RFC 2464, 7).
    pub const fn multicast6(group: u128) -> Mac {
        let b = group.to_be_bytes();
        Mac([0x33, 0x33, b[12], b[13], b[14], b[15]])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not six hexadecimal octets separated by colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMac;

impl fmt::Display for BadMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an Ethernet address is six hexadecimal octets separated by colons")
    }
}

impl core::error::Error for BadMac {}

impl FromStr for Mac {
    type Err = BadMac;

    fn from_str(text: &str) -> Result<Mac, BadMac> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().ok_or(BadMac)?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(BadMac);
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| BadMac)?;
        }
        parts.next().is_none().then_some(Mac(octets)).ok_or(BadMac)
    }
}

/// A GTP-U tunnel endpoint identifier (3GPP TS 29.281, 5.1); the receiving end chose it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Teid(pub u32);

impl fmt::Display for Teid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Debug for Teid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Teid({:#010x})", self.0)
    }
}

/// A QoS flow identifier, 0 to 63 (3GPP TS 38.415, 5.5.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Qfi(pub u8);

impl Qfi {
    /// The largest identifier six bits hold.
    pub const MAX: Qfi = Qfi(63);

    /// The identifier, if it fits six bits.
    pub const fn new(value: u8) -> Option<Qfi> {
        if value <= Self::MAX.0 { Some(Qfi(value)) } else { None }
    }
}

impl fmt::Display for Qfi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A VLAN tag's control information: priority, drop eligibility and identifier (IEEE 802.1Q, 9.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vlan(pub u16);

impl Vlan {
    /// A tag of identifier `id` (0 to 4095) at priority 0.
    pub const fn of(id: u16) -> Vlan {
        Vlan(id & 0x0fff)
    }

    /// The same tag at priority `pcp` (0 to 7).
    pub const fn with_priority(self, pcp: u8) -> Vlan {
        Vlan(self.0 & 0x1fff | ((pcp & 7) as u16) << 13)
    }

    /// The VLAN identifier; 0 is a mere priority tag.
    #[inline]
    pub const fn id(self) -> u16 {
        self.0 & 0x0fff
    }

    /// The priority code point, 0 to 7.
    #[inline]
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_mac_reads_what_it_writes() {
        let mac = Mac([0x02, 0, 0x5e, 0xff, 1, 0xab]);
        assert_eq!(mac.to_string(), "02:00:5e:ff:01:ab");
        assert_eq!("02:00:5e:FF:01:ab".parse(), Ok(mac));
        for bad in ["", "02:00:5e:ff:01", "02:00:5e:ff:01:ab:00", "2:0:5e:ff:1:ab", "+2:00:5e:ff:01:ab"] {
            assert_eq!(bad.parse::<Mac>(), Err(BadMac), "{bad}");
        }
        assert!(mac.is_station() && !Mac::BROADCAST.is_station() && !Mac::ZERO.is_station());
    }

    #[test]
    fn multicast_maps_to_its_group() {
        assert_eq!(Mac::multicast4(0xe080_0001), Mac([1, 0, 0x5e, 0, 0, 1]));
        assert_eq!(Mac::multicast6(0xff02_0000_0000_0000_0000_0001_ff00_1234), Mac([0x33, 0x33, 0xff, 0, 0x12, 0x34]));
    }

    #[test]
    fn a_tag_is_three_fields() {
        let tag = Vlan(0xb064);
        assert_eq!((tag.id(), tag.priority()), (100, 5));
        assert_eq!(Vlan::of(100).with_priority(5), Vlan(0xa064));
        assert_eq!((Qfi::new(63), Qfi::new(64)), (Some(Qfi(63)), None));
    }
}
