//! IPv6 extension headers: the walk along them (RFC 8200, 4.1 to 4.6).
//!
//! ```text
//! options, routing   |  next header  | length/8 - 1  |           content … (a multiple of 8 in all)
//! fragment           |  next header  |   reserved    |     offset / 8      | - |M|      identification       |
//! ```

use super::HEADER_LEN;
use crate::{Malformed, NoRoom, fast, protocol};

/// The fragment header's length, in bytes (RFC 8200, 4.5).
pub const FRAGMENT_LEN: usize = 8;
/// How many extension headers are walked before a packet is refused.
pub const MAX_EXTENSIONS: usize = 8;

/// What a fragment header says (RFC 8200, 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentInfo {
    /// Where the fragment header begins, in bytes from the start of the packet.
    pub at: u16,
    /// Where this fragment's data belong in the fragmentable part, in bytes.
    pub offset: u16,
    /// Whether more fragments follow.
    pub more: bool,
    /// Common to all fragments of one datagram.
    pub id: u32,
}

impl FragmentInfo {
    /// Whether the fragment is the whole datagram: such a packet is handled as not fragmented (RFC 6946).
    #[inline]
    pub(crate) const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// Where the extension headers lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The first header that is not walked: the upper layer, AH, ESP or "none".
    pub protocol: u8,
    /// Where that header begins; for a later fragment, where its data begin. Bytes from the start of the packet.
    pub l4: u16,
    /// The fragment header, if there is one. Behind a later fragment's nothing is walked.
    pub fragment: Option<FragmentInfo>,
}

/// Walk the extension headers of `packet`, whose first header was found to be `next` and which ends with the slice.
///
/// Refuses hop-by-hop options anywhere but first (RFC 8200, 4.1), a second fragment header, a fragment ending past
/// 65,535 bytes, headers that run past the packet, and more than [`MAX_EXTENSIONS`] of them.
pub fn walk(packet: &[u8], next: u8) -> Result<Chain, Malformed> {
    let mut chain = Chain { protocol: next, l4: HEADER_LEN as u16, fragment: None };
    let mut at = HEADER_LEN;
    for count in 0..=MAX_EXTENSIONS {
        let walked = match chain.protocol {
            protocol::HOP_BY_HOP if count > 0 => return Err(Malformed::BadExtension),
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION | protocol::FRAGMENT => true,
            _ => false,
        };
        if !walked {
            return Ok(chain);
        }
        if count == MAX_EXTENSIONS {
            return Err(Malformed::TooManyExtensions);
        }
        let head: [u8; 8] = fast::array(packet, at).ok_or(Malformed::BadExtension)?;
        let mut later = false;
        if chain.protocol == protocol::FRAGMENT {
            if chain.fragment.is_some() {
                return Err(Malformed::BadExtension);
            }
            let word = u16::from_be_bytes([head[2], head[3]]);
            let id = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            let (offset, more) = (word & 0xfff8, word & 1 != 0);
            let data = packet.len() - at - FRAGMENT_LEN; // the header's eight bytes were read
            if usize::from(offset) + data > 0xffff {
                return Err(Malformed::BadFragment);
            }
            chain.fragment = Some(FragmentInfo { at: at as u16, offset, more, id });
            later = offset != 0;
            at += FRAGMENT_LEN;
        } else {
            at += 8 + usize::from(head[1]) * 8; // in units of 8 bytes, not counting the first
            if at > packet.len() {
                return Err(Malformed::BadExtension);
            }
        }
        chain.protocol = head[0];
        chain.l4 = at as u16; // at most 40 + 8 * 2048
        if later {
            return Ok(chain);
        }
    }
    Err(Malformed::TooManyExtensions)
}

/// Write a fragment header to the front of `out` (RFC 8200, 4.5); returns its length. `offset` is in bytes, a
/// multiple of eight.
pub fn emit_fragment(out: &mut [u8], next: u8, offset: u16, more: bool, id: u32) -> Result<usize, NoRoom> {
    let head: &mut [u8; FRAGMENT_LEN] = out.first_chunk_mut().ok_or(NoRoom)?;
    let [a, b] = (offset & 0xfff8 | u16::from(more)).to_be_bytes();
    let [c, d, e, f] = id.to_be_bytes();
    *head = [next, 0, a, b, c, d, e, f];
    Ok(FRAGMENT_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn chain(next: u8, payload: &[u8]) -> Result<Chain, Malformed> {
        let mut packet = std::vec![0; HEADER_LEN];
        packet.extend_from_slice(payload);
        walk(&packet, next)
    }

    #[test]
    fn walks_options_routing_and_fragment() {
        let payload =
            [43, 0, 1, 4, 0, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 1, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4];
        let fragment = Some(FragmentInfo { at: 56, offset: 0, more: true, id: 0xdead_beef });
        assert_eq!(chain(0, &payload), Ok(Chain { protocol: 17, l4: 64, fragment }));
    }

    #[test]
    fn stops_behind_a_later_fragment() {
        // Its next header says destination options, but these bytes are data.
        let payload = [60, 0, 0x00, 0x10, 0, 0, 0, 1, 0xff, 0xff];
        let fragment = Some(FragmentInfo { at: 40, offset: 16, more: false, id: 1 });
        assert_eq!(chain(44, &payload), Ok(Chain { protocol: 60, l4: 48, fragment }));
    }

    #[test]
    fn refuses_chains_that_lie() {
        assert_eq!(chain(0, &[]), Err(Malformed::BadExtension));
        assert_eq!(chain(0, &[6, 1, 0, 0, 0, 0, 0, 0]), Err(Malformed::BadExtension));
        assert_eq!(chain(60, &[0, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::BadExtension));
        assert_eq!(chain(44, &[44, 0, 0, 0, 0, 0, 0, 1, 6, 0, 0, 0, 0, 0, 0, 1]), Err(Malformed::BadExtension));
        assert_eq!(chain(44, &[6, 0, 0xff, 0xf8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), Err(Malformed::BadFragment));
        assert_eq!(chain(60, &[60, 0, 0, 0, 0, 0, 0, 0].repeat(20)), Err(Malformed::TooManyExtensions));
        let eight: Vec<u8> = [60, 0, 0, 0, 0, 0, 0, 0].repeat(7).into_iter().chain([6, 0, 0, 0, 0, 0, 0, 0]).collect();
        assert_eq!(chain(60, &eight), Ok(Chain { protocol: 6, l4: 104, fragment: None }));
    }

    proptest! {
        #[test]
        fn chains_stay_within(next in prop::sample::select(&[0u8, 43, 44, 60, 6][..]), mut bytes in prop::collection::vec(0u8..64, 40..200)) {
            bytes[0] = 0x60;
            if let Ok(chain) = walk(&bytes, next) {
                prop_assert!(usize::from(chain.l4) <= bytes.len());
            }
        }

        #[test]
        fn a_fragment_header_reads_back(next in 61u8.., offset in 0u16..8000, more: bool, id: u32) {
            let mut packet = [0; HEADER_LEN + FRAGMENT_LEN];
            emit_fragment(&mut packet[HEADER_LEN..], next, offset * 8, more, id).unwrap();
            let fragment = Some(FragmentInfo { at: 40, offset: offset * 8, more, id });
            prop_assert_eq!(walk(&packet, protocol::FRAGMENT), Ok(Chain { protocol: next, l4: 48, fragment }));
        }
    }
}
