//! The outside of a frame in one pass: Ethernet and at most two VLAN tags.

use crate::{Malformed, Vlan, ethertype, fast};

/// What a frame's outside says: where layer 3 begins and which tags stand before it (IEEE 802.3, 802.1Q, 802.1ad).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outer {
    /// What follows the tags. Below `0x0600` it is an 802.3 length, not a type.
    pub ethertype: u16,
    /// Where layer 3 begins, in bytes from the start of the frame: 14, 18 or 22.
    pub l3: u16,
    /// How many tags were walked, 0 to 2.
    pub tags: u8,
    /// The tags, outermost first; those not present are zero.
    pub vlans: [Vlan; 2],
}

impl Outer {
    /// Read a whole frame, starting at the destination address.
    ///
    /// Guarantees that `l3` lies within the frame (it may be its end) and that `ethertype` is not a tag.
    #[inline(always)]
    pub fn parse(frame: &[u8]) -> Result<Outer, Malformed> {
        let head: &[u8; 14] = frame.first_chunk().ok_or(Malformed::Short)?;
        let ethertype = u16::from_be_bytes([head[12], head[13]]);
        if !is_tag(ethertype) {
            return Ok(Outer { ethertype, l3: 14, tags: 0, vlans: [Vlan(0); 2] });
        }
        let [a, b, c, d] = fast::array(frame, 14).ok_or(Malformed::Short)?;
        let outside = Vlan(u16::from_be_bytes([a, b]));
        let ethertype = u16::from_be_bytes([c, d]);
        if !is_tag(ethertype) {
            return Ok(Outer { ethertype, l3: 18, tags: 1, vlans: [outside, Vlan(0)] });
        }
        let [a, b, c, d] = fast::array(frame, 18).ok_or(Malformed::Short)?;
        let inside = Vlan(u16::from_be_bytes([a, b]));
        let ethertype = u16::from_be_bytes([c, d]);
        if is_tag(ethertype) {
            return Err(Malformed::TooManyTags);
        }
        Ok(Outer { ethertype, l3: 22, tags: 2, vlans: [outside, inside] })
    }

    /// The outermost tag, if there is one.
    #[inline]
    pub fn outer_vlan(&self) -> Option<Vlan> {
        (self.tags > 0).then_some(self.vlans[0])
    }
}

/// Whether a type field announces a tag.
#[inline(always)]
pub(crate) const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn frame(tail: &[u8]) -> Vec<u8> {
        let mut f = std::vec![0x11; 12];
        f.extend_from_slice(tail);
        f
    }

    #[test]
    fn none_one_and_two_tags() {
        let plain = Outer::parse(&frame(&[0x08, 0x00])).unwrap();
        assert_eq!(plain, Outer { ethertype: ethertype::IP4, l3: 14, tags: 0, vlans: [Vlan(0); 2] });
        assert_eq!(plain.outer_vlan(), None);

        let one = Outer::parse(&frame(&[0x81, 0x00, 0xa0, 0x64, 0x86, 0xdd])).unwrap();
        assert_eq!((one.ethertype, one.l3, one.tags), (ethertype::IP6, 18, 1));
        assert_eq!(one.outer_vlan(), Some(Vlan(0xa064)));

        let two = Outer::parse(&frame(&[0x88, 0xa8, 0x00, 0x0a, 0x81, 0x00, 0x00, 0x14, 0x08, 0x06, 1])).unwrap();
        assert_eq!((two.ethertype, two.l3, two.tags), (ethertype::ARP, 22, 2));
        assert_eq!((two.vlans[0].id(), two.vlans[1].id()), (10, 20));
    }

    #[test]
    fn refuses_short_frames_and_three_tags() {
        assert_eq!(Outer::parse(&[]), Err(Malformed::Short));
        assert_eq!(Outer::parse(&frame(&[0x08])), Err(Malformed::Short));
        assert_eq!(Outer::parse(&frame(&[0x81, 0x00, 0, 1, 0x08])), Err(Malformed::Short));
        assert_eq!(Outer::parse(&frame(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2])), Err(Malformed::Short));
        let three = frame(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 8, 0]);
        assert_eq!(Outer::parse(&three), Err(Malformed::TooManyTags));
    }

    proptest! {
        #[test]
        fn layer_3_lies_within(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(outer) = Outer::parse(&bytes) {
                prop_assert!(usize::from(outer.l3) <= bytes.len());
                prop_assert!(!is_tag(outer.ethertype));
            }
        }
    }
}
