//! The internet checksum: whole, in parts, and adjusted in place (RFC 1071, RFC 1624).
//!
//! A *sum* is the folded one's-complement sum of 16-bit words, as a number in host order; a *checksum* is its
//! complement, as it stands in a header. Over bytes that include a right checksum the sum is `0xffff`.
//!
//! ```
//! use wire::checksum;
//! let head = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
//! assert!(checksum::is_valid(checksum::sum(&head)));
//! ```

/// The one's-complement sum of `bytes`, read as big-endian words; an odd last byte is padded with zero.
#[inline]
pub fn sum(bytes: &[u8]) -> u16 {
    // Sum 32-bit words in memory order into 64-bit lanes, four of them so that additions do not wait for each other;
    // one's-complement addition commutes with swapping bytes (RFC 1071, 2), so one swap at the end suffices.
    let mut lanes = [0u64; 4];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<4>();
        for (i, word) in words.iter().enumerate() {
            lanes[i & 3] += u64::from(u32::from_ne_bytes(*word));
        }
    }
    let (words, tail) = rest.as_chunks::<4>();
    let mut acc = lanes[0] + lanes[1] + lanes[2] + lanes[3];
    for word in words {
        acc += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(tail) {
        *to = *from;
    }
    acc += u64::from(u32::from_ne_bytes(last));
    u16::from_be(fold(acc))
}

/// The sum of a 20-byte header, the common case of IPv4.
#[inline(always)]
pub fn sum20(head: &[u8; 20]) -> u16 {
    u16::from_be(fold(words20(head)))
}

/// Whether a 20-byte header that includes its checksum is as it was sent: [`is_valid`] of [`sum20`] in fewer steps.
#[inline(always)]
pub fn is_valid20(head: &[u8; 20]) -> bool {
    let acc = words20(head);
    let acc = (acc.wrapping_add(acc.rotate_left(32)) >> 32) as u32;
    // The upper half of this is the sum.
    acc.wrapping_add(acc.rotate_left(16)) >= 0xffff_0000
}

/// The words of a 20-byte header added up, not folded.
#[inline(always)]
fn words20(head: &[u8; 20]) -> u64 {
    let [a, b] = [0, 8].map(|off| u64::from_ne_bytes(crate::fast::at(head, off)));
    let last = u64::from(u32::from_ne_bytes(crate::fast::at(head, 16)));
    let (acc, carry) = a.overflowing_add(b);
    let (acc, again) = acc.overflowing_add(last + u64::from(carry));
    acc + u64::from(again) // after a carry the sum is small
}

/// Fold an accumulator into 16 bits, carries added back in.
#[inline(always)]
pub const fn fold(acc: u64) -> u16 {
    // Adding a number to itself with its halves swapped leaves, in the upper half, their sum and its own carry.
    let acc = (acc.wrapping_add(acc.rotate_left(32)) >> 32) as u32;
    (acc.wrapping_add(acc.rotate_left(16)) >> 16) as u16
}

/// Two sums as one; right when the first covers an even number of bytes.
#[inline(always)]
pub const fn combine(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16 // never overflows: after a carry the sum is at most 0xfffe
}

/// Two sums as one, where the first covers `a_len` bytes (possibly an odd number).
#[inline(always)]
pub const fn combine_after(a: u16, a_len: usize, b: u16) -> u16 {
    combine(a, if a_len & 1 == 0 { b } else { b.swap_bytes() })
}

/// The checksum field for a sum.
#[inline(always)]
pub const fn finish(sum: u16) -> u16 {
    !sum
}

/// The checksum field for a UDP sum: zero means "none" there, so zero is sent as all ones (RFC 768).
#[inline(always)]
pub const fn finish_udp(sum: u16) -> u16 {
    if sum == 0xffff { 0xffff } else { !sum }
}

/// Whether a sum that includes the checksum field says the bytes are as they were sent.
#[inline(always)]
pub const fn is_valid(sum: u16) -> bool {
    sum == 0xffff
}

/// The checksum field of `bytes`, whose own checksum field is zero.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    finish(sum(bytes))
}

/// The sum of a 32-bit field.
#[inline(always)]
pub const fn sum32(value: u32) -> u16 {
    combine((value >> 16) as u16, value as u16)
}

/// The sum of a 128-bit field, such as an IPv6 address.
#[inline(always)]
pub(crate) const fn sum128(value: u128) -> u16 {
    let (hi, lo) = ((value >> 64) as u64, value as u64);
    fold((hi >> 32) + (hi & 0xffff_ffff) + (lo >> 32) + (lo & 0xffff_ffff))
}

/// The IPv4 pseudo header's sum (RFC 768, RFC 9293 3.1): `len` is the length of the transport header and data.
#[inline]
pub const fn pseudo4(src: u32, dst: u32, protocol: u8, len: u16) -> u16 {
    fold(src as u64 + dst as u64 + protocol as u64 + len as u64)
}

/// The IPv6 pseudo header's sum (RFC 8200, 8.1): `len` is the length of the upper-layer header and data.
#[inline]
pub const fn pseudo6(src: u128, dst: u128, protocol: u8, len: u32) -> u16 {
    combine(combine(sum128(src), sum128(dst)), fold(protocol as u64 + len as u64))
}

/// The checksum field after what summed to `old` was replaced by what sums to `new` (RFC 1624, equation 3).
///
/// For UDP a field of zero must stay zero ("no checksum"): see [`adjust_udp`].
#[inline(always)]
pub const fn adjust(check: u16, old: u16, new: u16) -> u16 {
    !combine(combine(!check, !old), new)
}

/// The checksum field after a 16-bit field at an even offset changed.
#[inline(always)]
pub const fn adjust16(check: u16, old: u16, new: u16) -> u16 {
    adjust(check, old, new)
}

/// The checksum field after a 32-bit field at an even offset changed.
#[inline(always)]
pub const fn adjust32(check: u16, old: u32, new: u32) -> u16 {
    adjust(check, sum32(old), sum32(new))
}

/// As [`adjust`], for UDP over IPv4: "no checksum" stays none, and a checksum never becomes zero.
#[inline(always)]
pub const fn adjust_udp(check: u16, old: u16, new: u16) -> u16 {
    if check == 0 {
        return 0;
    }
    let adjusted = adjust(check, old, new);
    if adjusted == 0 { 0xffff } else { adjusted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071, 4.1, word by word.
    fn reference(bytes: &[u8]) -> u16 {
        let mut acc = 0u32;
        for pair in bytes.chunks(2) {
            acc += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            acc = (acc & 0xffff) + (acc >> 16);
        }
        acc as u16
    }

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        // Section 4: 0xdd2f, 0x5555 becomes 0x3285; the answer must be 0x0000, not 0xffff.
        assert_eq!(adjust16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn folding_holds_at_the_top() {
        assert_eq!(fold(0xffff_ffff_ffff_0001), 1);
        assert_eq!(fold(0x0001_0000_0000_ffff), 1);
        assert_eq!(fold(u64::MAX), 0xffff);
        assert_eq!(fold(0), 0);
        assert_eq!(fold(0xffff_ffff_0000_0001), 1);
        assert_eq!(sum128(u128::MAX), 0xffff);
        assert_eq!(combine(0xffff, 0xffff), 0xffff);
    }

    #[test]
    fn udp_never_sends_zero() {
        assert_eq!(finish_udp(0xffff), 0xffff);
        assert_eq!(finish_udp(0x1234), 0xedcb);
        assert_eq!(adjust_udp(0, 1, 2), 0);
        assert_eq!(adjust_udp(0xdd2f, 0x5555, 0x3285), 0xffff);
    }

    proptest! {
        #[test]
        fn the_fast_sum_is_the_slow_sum(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(sum(&bytes), reference(&bytes));
        }

        #[test]
        fn parts_combine_anywhere(bytes in prop::collection::vec(any::<u8>(), 1..300), at in any::<prop::sample::Index>()) {
            let (a, b) = bytes.split_at(at.index(bytes.len()));
            prop_assert_eq!(combine_after(sum(a), a.len(), sum(b)), sum(&bytes));
        }

        #[test]
        fn adjusting_equals_recomputing(
            mut bytes in prop::collection::vec(any::<u8>(), 32..100), at in 1usize..6, new16: u16, new32: u32,
        ) {
            // A header starts with a version, so its sum is never zero; RFC 1624 rests on that.
            bytes[0] |= 0x40;
            let mut check = of(&bytes);
            let off = at * 2;
            let old = crate::fast::be16(&bytes, off).unwrap();
            crate::fast::put16(&mut bytes, off, new16).unwrap();
            check = adjust16(check, old, new16);
            prop_assert_eq!(check, of(&bytes));

            let old = crate::fast::be32(&bytes, off).unwrap();
            crate::fast::put32(&mut bytes, off, new32).unwrap();
            check = adjust32(check, old, new32);
            prop_assert_eq!(check, of(&bytes));
        }

        #[test]
        fn pseudo_headers_are_their_bytes(src: u128, dst: u128, protocol: u8, len: u16) {
            let mut v6 = [0u8; 40];
            v6[..16].copy_from_slice(&src.to_be_bytes());
            v6[16..32].copy_from_slice(&dst.to_be_bytes());
            v6[34..36].copy_from_slice(&len.to_be_bytes());
            v6[39] = protocol;
            prop_assert_eq!(pseudo6(src, dst, protocol, u32::from(len)), sum(&v6));

            let (src, dst) = (src as u32, dst as u32);
            let mut v4 = [0u8; 12];
            v4[..4].copy_from_slice(&src.to_be_bytes());
            v4[4..8].copy_from_slice(&dst.to_be_bytes());
            v4[9] = protocol;
            v4[10..].copy_from_slice(&len.to_be_bytes());
            prop_assert_eq!(pseudo4(src, dst, protocol, len), sum(&v4));
        }

        #[test]
        fn twenty_bytes_are_no_special_case(head: [u8; 20]) {
            prop_assert_eq!(sum20(&head), sum(&head));
            let mut sealed = head;
            sealed[10..12].fill(0);
            let check = of(&sealed).to_be_bytes();
            sealed[10..12].copy_from_slice(&check);
            prop_assert!(is_valid20(&sealed) && is_valid20(&[0xff; 20]) && !is_valid20(&[0; 20]));
            prop_assert_eq!(is_valid20(&head), is_valid(sum(&head)));
        }
    }
}
