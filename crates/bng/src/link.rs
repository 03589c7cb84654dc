//! The outside of an access frame: which line it is of, and the header that leads back to it.

use dataplane::encap::LinkEncap;
use wire::ethernet::{Tag, Tags};
use wire::{Mac, Outer, Vlan};

/// A VLAN pair on a port. An absent tag is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// The port.
    pub port: u8,
    /// Outer VLAN identifier.
    pub s_vlan: u16,
    /// Inner VLAN identifier.
    pub c_vlan: u16,
}

impl Line {
    /// The line of a frame that came in by a port. Priority tags (VLAN 0) are untagged (IEEE 802.1Q, 9.6), with one tag.
    #[inline(always)]
    pub fn of(port: u8, outer: &Outer) -> Self {
        Self { port, s_vlan: outer.vlans[0].id(), c_vlan: outer.vlans[1].id() }
    }

    /// The line with a hardware address as one key: how lines of N:1 are told apart.
    #[inline(always)]
    pub fn key(self, mac: [u8; 6]) -> u128 {
        let [a, b, c, d, e, f] = mac;
        let mac = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let vlans = u64::from(self.port) << 32 | u64::from(self.s_vlan) << 16 | u64::from(self.c_vlan);
        u128::from(vlans) << 64 | u128::from(mac)
    }
}

/// The longest access header: addresses, two tags, type.
pub const LONGEST: usize = 22;

/// The header that leads to a subscriber, with the type of IPv4 and the tags' priority zero.
///
/// Returns its length, 14, 18 or 22.
pub fn template(to: [u8; 6], from: [u8; 6], line: Line, tags: u8, tpid: u16) -> ([u8; LONGEST], u8) {
    let outer = Tag { kind: tpid, vlan: Vlan::of(line.s_vlan) };
    let tags = match tags {
        0 => Tags::None,
        1 => Tags::One(outer),
        _ => Tags::Two(outer, Tag::customer(Vlan::of(line.c_vlan))),
    };
    let encap = LinkEncap::ethernet(Mac(to), Mac(from), tags);
    let mut header = [0; LONGEST];
    header[..encap.len()].copy_from_slice(encap.bytes());
    (header, encap.len() as u8) // 22 at most
}

#[cfg(test)]
mod tests {
    use wire::ethertype;

    use super::*;

    #[test]
    fn template_is_read_back_as_the_line() {
        for tags in 0..=2u8 {
            let line = Line { port: 3, s_vlan: if tags > 0 { 100 } else { 0 }, c_vlan: if tags > 1 { 7 } else { 0 } };
            let (header, len) = template([2; 6], [4; 6], line, tags, ethertype::SERVICE_VLAN);
            let outer = Outer::parse(&header[..len.into()]).unwrap();
            assert_eq!((outer.tags, outer.l3, outer.ethertype), (tags, len.into(), ethertype::IP4));
            assert_eq!(Line::of(3, &outer), line);
        }
    }

    #[test]
    fn keys_differ_in_every_part() {
        let line = Line { port: 1, s_vlan: 2, c_vlan: 3 };
        let mac = [2, 0, 0, 0, 0, 1];
        let others = [
            (Line { port: 2, ..line }, mac),
            (Line { s_vlan: 3, ..line }, mac),
            (Line { c_vlan: 2, ..line }, mac),
            (line, [2, 0, 0, 0, 0, 2]),
        ];
        assert!(others.iter().all(|(other, mac2)| other.key(*mac2) != line.key(mac)));
    }
}
