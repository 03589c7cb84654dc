//! Reading pcapng: sections of blocks, each section in its writer's byte order, each interface with its own clock.

use super::{ETHERNET, Index, LONGEST, PCAPNG};

/// Block types.
const INTERFACE: u32 = 1;
const PACKET_OBSOLETE: u32 = 2;
const PACKET_SIMPLE: u32 = 3;
const PACKET: u32 = 6;
/// Tells a section's byte order.
const ORDER: u32 = 0x1a2b_3c4d;
/// Option of an interface: units of its time stamps.
const RESOLUTION: u16 = 9;
const MICROSECONDS: u8 = 6;
/// A block's type and length, and its length again.
const FRAME: usize = 12;

const NOT_WHOLE: &str = "a block in it has a senseless length";

/// Finds the packets of a pcapng file.
pub(super) fn index(file: &[u8]) -> Result<Index, &'static str> {
    let mut index = Index::default();
    let mut section = Section { file, big: false };
    // Of each interface of the section: its link type and its time stamps' units.
    let mut interfaces: Vec<(u32, u8)> = Vec::new();
    let mut at = 0;
    while at < file.len() {
        // A section's type reads the same either way, and its length only after its order is known.
        if section.word(at) == Some(PCAPNG) {
            section.big = match file.get(at + 8..at + 12) {
                Some(order) if order == ORDER.to_be_bytes() => true,
                Some(order) if order == ORDER.to_le_bytes() => false,
                _ => return Err("a section in it has no byte order"),
            };
            interfaces.clear();
        }
        let (Some(kind), Some(total)) = (section.word(at), section.word(at + 4)) else {
            index.cut += 1;
            break;
        };
        let total = total as usize;
        if total < FRAME || !total.is_multiple_of(4) {
            return Err(NOT_WHOLE);
        }
        let (body, end) = (at + 8, at + total - 4);
        at += total;
        if at > file.len() {
            index.cut += 1;
            break;
        }
        let number = match kind {
            INTERFACE => {
                let link = section.half(body).ok_or(NOT_WHOLE)?;
                interfaces.push((link.into(), section.resolution(body + 8, end)));
                continue;
            }
            PACKET => section.word(body),
            PACKET_OBSOLETE => section.half(body).map(u32::from),
            PACKET_SIMPLE => Some(0),
            _ => continue,
        };
        let (link, units) =
            *number.and_then(|n| interfaces.get(n as usize)).ok_or("a packet in it has no interface")?;
        if link != ETHERNET {
            return Err("its packets are not Ethernet frames");
        }
        // A simple one has neither time nor the length that was kept, which is what there is of it.
        let (time, start, kept, len) = if kind == PACKET_SIMPLE {
            let len = section.word(body).ok_or(NOT_WHOLE)?;
            (0, body + 4, len.min(end.saturating_sub(body + 4) as u32), len)
        } else {
            let [high, low, kept, len] = [4, 8, 12, 16].map(|field| section.word(body + field).unwrap_or(u32::MAX));
            (nanoseconds(u64::from(high) << 32 | u64::from(low), units), body + 20, kept, len)
        };
        if kept > LONGEST || start + kept as usize > end {
            return Err("a packet in it has a senseless length");
        }
        if len > kept {
            index.cut += 1;
        } else {
            index.packets.push((time, start, kept as usize));
        }
    }
    Ok(index)
}

/// A file, and the byte order of the section we are in.
struct Section<'a> {
    file: &'a [u8],
    big: bool,
}

impl Section<'_> {
    fn word(&self, at: usize) -> Option<u32> {
        let bytes = *self.file.get(at..)?.first_chunk()?;
        Some(if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn half(&self, at: usize) -> Option<u16> {
        let bytes = *self.file.get(at..)?.first_chunk()?;
        Some(if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    /// Among an interface's options, the units of its time stamps.
    fn resolution(&self, mut at: usize, end: usize) -> u8 {
        while at + 4 < end {
            let (Some(option), Some(len)) = (self.half(at), self.half(at + 2)) else { break };
            match (option, self.file.get(at + 4)) {
                (RESOLUTION, Some(units)) if len == 1 => return *units,
                (0, _) => break,
                _ => at += 4 + usize::from(len).next_multiple_of(4),
            }
        }
        MICROSECONDS
    }
}

/// A time stamp in units of 10⁻ⁿ seconds, or with the highest bit 2⁻ⁿ.
fn nanoseconds(stamp: u64, units: u8) -> u64 {
    let (stamp, n) = (u128::from(stamp), u32::from(units & 0x7f));
    let time = match (units & 0x80 != 0, n) {
        (true, _) => (stamp * 1_000_000_000) >> n,
        (false, 0..=9) => stamp * 10_u128.pow(9 - n),
        (false, _) => 10_u128.checked_pow(n - 9).map_or(0, |unit| stamp / unit),
    };
    u64::try_from(time).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::{Direction, Format, index};
    use super::*;
    use proptest::prelude::*;

    /// A block of words in that byte order, and what is behind them.
    fn block(big: bool, kind: u32, words: &[u32], tail: &[u8]) -> Vec<u8> {
        let total = (FRAME + words.len() * 4 + tail.len().next_multiple_of(4)) as u32;
        let word = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
        let mut out = [word(kind), word(total)].concat();
        words.iter().for_each(|w| out.extend(word(*w)));
        out.extend(tail);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(word(total));
        out
    }

    fn section(big: bool) -> Vec<u8> {
        block(big, PCAPNG, &[ORDER, 1, u32::MAX, u32::MAX], &[])
    }

    fn interface(big: bool, link: u16, options: &[u8]) -> Vec<u8> {
        let [a, b] = if big { link.to_be_bytes() } else { link.to_le_bytes() };
        block(big, INTERFACE, &[], &[&[a, b, 0, 0, 0, 0, 0, 0], options].concat())
    }

    #[test]
    fn sections_interfaces_and_packets_of_every_kind() {
        let mut file = Vec::new();
        for big in [false, true] {
            let units = if big { [0, 9, 0, 1, 0x80 | 10, 0, 0, 0] } else { [9, 0, 1, 0, 3, 0, 0, 0] };
            file.extend([section(big), interface(big, 1, &[]), interface(big, 1, &units)].concat());
            file.extend(block(big, 5, &[1, 2, 3], &[9; 7]));
            file.extend(block(big, PACKET, &[0, 0, 7, 5, 5], &[1; 5]));
            file.extend(block(big, PACKET, &[1, 0, 2048, 4, 4], &[2; 4]));
            file.extend(block(big, PACKET, &[1, 0, 2048, 4, 9], &[2; 4]));
            file.extend(block(big, PACKET_SIMPLE, &[3], &[3; 3]));
        }
        let got = index(&file).unwrap();
        let seen: Vec<_> = got.packets.iter().map(|(time, at, len)| (*time, &file[*at..at + len])).collect();
        let (first, third) = ((7000, &[1; 5][..]), (0, &[3; 3][..]));
        let second = |time| (time, &[2; 4][..]);
        assert_eq!(seen, [first, second(2_048_000_000), third, first, second(2_000_000_000), third]);
        assert_eq!(got.cut, 2);
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        let good = [section(false), interface(false, 1, &[])].concat();
        let said = |tail: &[u8]| index(&[&good[..], tail].concat()).unwrap_err();
        assert!(said(&block(false, PACKET, &[1, 0, 0, 0, 0], &[])).contains("no interface"));
        assert!(said(&block(false, PACKET, &[0, 0, 0, 5, 5], &[1; 4])).contains("senseless"));
        assert!(said(&[6, 0, 0, 0, 13, 0, 0, 0]).contains("senseless"));
        let other = [section(false), interface(false, 101, &[]), block(false, PACKET, &[0; 5], &[])].concat();
        assert!(index(&other).unwrap_err().contains("Ethernet"));
        assert_eq!(index(&[&good[..], &[6, 0, 0, 0, 40, 0, 0, 0]].concat()).unwrap().cut, 1);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(packets in prop::collection::vec((any::<u64>(), 0usize..200), 0..9)) {
            let mut out = Vec::new();
            Format::PcapNg.head(&mut out);
            for (time, len) in &packets {
                Format::PcapNg.packet(&mut out, *time, Direction::In, &vec![*time as u8; *len]);
            }
            let got = index(&out).unwrap();
            let seen: Vec<_> = got.packets.iter().map(|(time, at, len)| (*time, out[*at..at + len].len())).collect();
            prop_assert_eq!(seen, packets);
        }

        #[test]
        fn no_file_panics(bytes in prop::collection::vec(any::<u8>(), 0..100), big: bool) {
            let _ = index(&[section(big), bytes.clone()].concat());
            let _ = index(&[section(big), interface(big, 1, &bytes), bytes].concat());
        }
    }
}
