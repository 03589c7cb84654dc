//! Cyclic checks: the header check sequence of DOCSIS and the frame check sequence of Ethernet.
//!
//! Both are reflected. Sixteen bytes are folded at once, each by a table of its own, so that the look-ups do not wait
//! for each other; a DOCSIS header is never longer than two such steps.
//!
//! ```
//! assert_eq!(wire::crc::hcs(&[0xc2, 0x00, 0x00, 0x38]).to_le_bytes(), [0xba, 0x43]);
//! assert_eq!(wire::crc::ethernet(b"123456789"), 0xcbf4_3926);
//! ```

/// Bytes folded at once.
const STEP: usize = 16;

/// CRC-16/X-25: polynomial 0x1021, reflected.
static HCS: [[u16; 256]; STEP] = {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0x8408 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut step = 1;
    while step < STEP {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[step - 1][byte];
            tables[step][byte] = crc >> 8 ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        step += 1;
    }
    tables
};

/// CRC-32 of IEEE 802.3: polynomial 0x04c11db7, reflected.
static ETHERNET: [[u32; 256]; STEP] = {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut step = 1;
    while step < STEP {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[step - 1][byte];
            tables[step][byte] = crc >> 8 ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        step += 1;
    }
    tables
};

/// The header check sequence over `header` (CM-SP-MULPI, MAC header format: CRC-16 of X.25). It stands in the header
/// low byte first.
#[inline]
pub fn hcs(header: &[u8]) -> u16 {
    // Headers of a known length need no loop: in clear, of a segment, upstream and downstream with privacy, bonded.
    match header.len() {
        4 => hcs_of::<4>(header),
        6 => hcs_of::<6>(header),
        8 => hcs_of::<8>(header),
        9 => hcs_of::<9>(header),
        15 => hcs_of::<15>(header),
        _ => hcs_any(header),
    }
}

/// The check over `N` bytes, at most [`STEP`].
#[inline(always)]
fn hcs_of<const N: usize>(header: &[u8]) -> u16 {
    let Some(header) = header.first_chunk::<N>() else { return hcs_any(header) };
    let mut crc = 0;
    for (i, byte) in header.iter().enumerate() {
        // The first two bytes meet the ones that the check begins with.
        let folded = if i < 2 { !byte } else { *byte };
        crc ^= HCS[N - 1 - i][usize::from(folded)];
    }
    !crc
}

/// What `bytes` from offset `at` of a header of `len` bytes add to its check, by exclusive or, over what it is with zeros
/// in their place. At most [`STEP`] bytes, and not the first two.
pub(crate) fn hcs_part(bytes: &[u8], at: usize, len: usize) -> u16 {
    let (mut part, mut i) = (0, 0);
    while i < bytes.len() {
        part ^= HCS[(len - 1 - at - i) % STEP][bytes[i] as usize];
        i += 1;
    }
    part
}

fn hcs_any(header: &[u8]) -> u16 {
    let mut crc = 0xffffu16;
    for part in header.chunks(STEP) {
        // What of the check has not met a byte yet slides on; the rest is folded with the bytes it meets.
        let mut next = if part.len() == 1 { crc >> 8 } else { 0 };
        let met = crc.to_le_bytes();
        for (i, byte) in part.iter().enumerate() {
            let folded = byte ^ met.get(i).unwrap_or(&0);
            next ^= HCS[(part.len() - 1 - i) % STEP][usize::from(folded)];
        }
        crc = next;
    }
    !crc
}

/// The frame check sequence over `frame`, from its destination address (IEEE 802.3, 3.2.9). It stands behind the frame
/// low byte first.
#[inline]
pub fn ethernet(frame: &[u8]) -> u32 {
    !ethernet_more(u32::MAX, frame)
}

/// Carries an unfinished check over more bytes: it begins with all ones and ends with a complement.
pub(crate) fn ethernet_more(mut crc: u32, bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<STEP>();
    for block in blocks {
        let mut mixed = *block;
        for (byte, met) in mixed.iter_mut().zip(crc.to_le_bytes()) {
            *byte ^= met;
        }
        crc = 0;
        for (table, byte) in ETHERNET.iter().rev().zip(mixed) {
            crc ^= table[usize::from(byte)];
        }
    }
    for byte in rest {
        crc = crc >> 8 ^ ETHERNET[0][usize::from(crc as u8 ^ byte)];
    }
    crc
}

/// What [`ethernet`] gives over a frame with its right check sequence behind it.
pub const RESIDUE: u32 = 0x2144_df1c;

/// Whether a frame ends with its right check sequence.
pub fn is_frame_right(frame: &[u8]) -> bool {
    frame.len() >= 4 && ethernet(frame) == RESIDUE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bit by bit.
    fn slow(bytes: &[u8], polynomial: u32, ones: u32) -> u32 {
        let step = |crc: u32| if crc & 1 != 0 { crc >> 1 ^ polynomial } else { crc >> 1 };
        !bytes.iter().fold(ones, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc))) & ones
    }

    #[test]
    fn known_answers() {
        // From a capture between a CCAP core and its Remote-PHY device.
        for (header, check) in
            [([0xc2, 0, 0, 0x38], 0x43ba), ([0xc2, 0, 0, 0xee], 0xf001), ([0xc2, 0, 0, 0x34], 0x89d6u16)]
        {
            assert_eq!(hcs(&header), check);
        }
        assert_eq!(hcs(b"123456789"), 0x906e);
        assert_eq!(ethernet(b"123456789"), 0xcbf4_3926);
        // DPDK's test vectors of AES-DOCSIS: 14 bytes and their check.
        let frame = [1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 8, 0, 0x14, 8, 0xe8, 0x55];
        assert!(is_frame_right(&frame) && !is_frame_right(&frame[..17]) && !is_frame_right(&frame[..3]));
    }

    proptest! {
        #[test]
        fn the_fast_checks_are_the_slow_ones(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            prop_assert_eq!(u32::from(hcs(&bytes)), slow(&bytes, 0x8408, 0xffff));
            prop_assert_eq!(ethernet(&bytes), slow(&bytes, 0xedb8_8320, u32::MAX));
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(!ethernet_more(ethernet_more(u32::MAX, a), b), ethernet(&bytes));
        }

        #[test]
        fn a_frame_with_its_check_is_right(mut bytes in prop::collection::vec(any::<u8>(), 0..200), flip in any::<prop::sample::Index>()) {
            let check = ethernet(&bytes);
            bytes.extend(check.to_le_bytes());
            prop_assert!(is_frame_right(&bytes));
            let at = flip.index(bytes.len());
            bytes[at] ^= 0x40;
            prop_assert!(!is_frame_right(&bytes));
        }
    }
}
