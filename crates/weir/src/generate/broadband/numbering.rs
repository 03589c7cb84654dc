//! Subscribers by their numbers: tags, hardware and link-local addresses.

use std::net::Ipv6Addr;

use wire::Mac;

use super::frames::Place;

/// How subscribers are numbered: C-VLANs first, then S-VLANs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    /// VLAN tags of a line.
    pub tags: u8,
    /// EtherType of the outer tag.
    pub tpid: u16,
    /// The first outer VLAN.
    pub s_vlan: u16,
    /// The first inner VLAN of each outer one.
    pub c_vlan: u16,
    /// Inner VLANs of an outer one.
    pub c_vlans: u16,
}

impl Numbering {
    /// The tags of a subscriber's line.
    pub fn place(&self, n: u32) -> Place {
        let per = u32::from(self.c_vlans).max(1);
        match self.tags {
            2 => Place::Double {
                tpid: self.tpid,
                s_vlan: self.s_vlan + (n / per) as u16,
                c_vlan: self.c_vlan + (n % per) as u16,
            },
            1 => Place::Single(self.c_vlan + n as u16),
            _ => Place::Untagged,
        }
    }
}

/// A subscriber's hardware address.
pub fn mac(n: u32) -> Mac {
    let [a, b, c, d] = n.to_be_bytes();
    Mac([2, 0xb0, a, b, c, d])
}

/// The subscriber that has a hardware address.
pub fn number(mac: &[u8]) -> Option<u32> {
    mac.strip_prefix(&[2, 0xb0])?.first_chunk().map(|octets| u32::from_be_bytes(*octets))
}

/// A subscriber's link-local address (RFC 4291, 2.5.6).
pub fn link_local(n: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80 << 112 | 0xb0 << 32 | u128::from(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_vlans_are_counted_first() {
        let lines = Numbering { tags: 2, tpid: 0x88a8, s_vlan: 100, c_vlan: 2001, c_vlans: 2000 };
        let double = |s_vlan, c_vlan| Place::Double { tpid: 0x88a8, s_vlan, c_vlan };
        let places = [0, 1999, 2000, 256_000].map(|n| lines.place(n));
        assert_eq!(places, [double(100, 2001), double(100, 4000), double(101, 2001), double(228, 2001)]);
        assert_eq!(Numbering { tags: 1, ..lines }.place(3), Place::Single(2004));
    }

    #[test]
    fn a_number_is_read_from_its_hardware_address() {
        for n in [0, 1, 0x0102_0304, u32::MAX] {
            assert_eq!(number(&mac(n).0), Some(n));
        }
        assert_eq!(number(&[2, 0xb1, 0, 0, 0, 0]), None);
        assert_eq!(link_local(0x0001_0002).to_string(), "fe80::b0:1:2");
    }
}
