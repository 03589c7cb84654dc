//! Capture files: classic pcap and pcapng, read and written.
//!
//! Classic pcap: <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/>, pcapng:
//! <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>.

use std::path::Path;

mod ng;

/// Link type of Ethernet.
const ETHERNET: u32 = 1;
/// Longest packet any file of ours or a sane other holds.
const LONGEST: u32 = 1 << 18;

const MICRO: u32 = 0xa1b2_c3d4;
const NANO: u32 = 0xa1b2_3c4d;
const PCAPNG: u32 = 0x0a0d_0d0a;

/// Where the packets of a file lie in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Nanoseconds since 1970, first byte and length of each.
    pub packets: Vec<(u64, usize, usize)>,
    /// Records that were cut short when captured, or by the end of the file.
    pub cut: u64,
}

/// Finds the packets of a capture file: pcapng, or classic pcap in micro- or nanoseconds, of either byte order.
///
/// # Errors
/// What is wrong with the file, in words that go on from its name.
pub fn index(file: &[u8]) -> Result<Index, &'static str> {
    if file.first_chunk() == Some(&PCAPNG.to_le_bytes()) {
        return ng::index(file);
    }
    let head = file.first_chunk::<24>().ok_or("it is too short for a capture file")?;
    let magic = [head[0], head[1], head[2], head[3]];
    let (big, tick) = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
        (MICRO, _) => (false, 1000),
        (NANO, _) => (false, 1),
        (_, MICRO) => (true, 1000),
        (_, NANO) => (true, 1),
        _ => return Err("it is neither a pcap nor a pcapng file"),
    };
    let word = |at: usize| {
        let bytes = file.get(at..at + 4)?.try_into().ok()?;
        Some(if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    };
    // The upper half tells about frame check sequences.
    if word(20).is_none_or(|link| link & 0xffff != ETHERNET) {
        return Err("its packets are not Ethernet frames");
    }
    let mut index = Index::default();
    let mut at = 24;
    while at < file.len() {
        let (Some(s), Some(part), Some(kept), Some(len)) = (word(at), word(at + 4), word(at + 8), word(at + 12)) else {
            index.cut += 1;
            break;
        };
        if kept > LONGEST {
            return Err("a packet in it has a senseless length");
        }
        let (start, kept) = (at + 16, kept as usize);
        at = start + kept;
        if at > file.len() || len as usize > kept {
            index.cut += 1;
            continue;
        }
        index.packets.push((u64::from(s) * 1_000_000_000 + u64::from(part) * tick, start, kept));
    }
    Ok(index)
}

/// Which way a packet went through the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    In = 1,
    /// Sent.
    Out = 2,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Classic pcap with nanoseconds.
    Pcap,
    /// pcapng, which tells directions apart.
    PcapNg,
}

impl Format {
    /// By the file's extension.
    pub fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|extension| extension == "pcapng") { Self::PcapNg } else { Self::Pcap }
    }

    /// Bytes a packet takes beyond its own, at most.
    pub const OVERHEAD: usize = 48;

    /// What a file starts with.
    pub fn head(self, out: &mut Vec<u8>) {
        match self {
            Self::Pcap => {
                words(out, &[NANO]);
                out.extend([2u16, 4].iter().flat_map(|half| half.to_le_bytes()));
                words(out, &[0, 0, LONGEST, ETHERNET]);
            }
            // A section, and an interface with nanoseconds (option 9, 10⁻⁹).
            Self::PcapNg => {
                section(out);
                words(out, &[1, 32, ETHERNET, LONGEST, 9 | 1 << 16, 9, 0, 32]);
            }
        }
    }

    /// Appends a packet that a port received or sent, at nanoseconds since 1970.
    pub fn packet(self, out: &mut Vec<u8>, time: u64, direction: Direction, bytes: &[u8]) {
        match self {
            Self::Pcap => {
                let len = bytes.len() as u32;
                // Seconds fit until 2106.
                words(out, &[(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, len, len]);
                out.extend_from_slice(bytes);
            }
            Self::PcapNg => enhanced(out, (0, time), bytes, |out| {
                words(out, &[u32::from(FLAGS) | 4 << 16, direction as u32]);
            }),
        }
    }
}

/// Begins a pcapng file whose interfaces are told apart: [`interface`] adds each before its first packet.
pub fn section(out: &mut Vec<u8>) {
    words(out, &[PCAPNG, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
}

/// Adds the next interface of a section, with its name (option 2, if_name) and nanoseconds (option 9, 10⁻⁹).
pub fn interface(out: &mut Vec<u8>, name: &str) {
    let start = out.len();
    words(out, &[1, 0, ETHERNET, LONGEST]);
    option(out, NAME, name.as_bytes());
    words(out, &[9 | 1 << 16, 9]);
    end(out, start);
}

/// Appends a packet with a comment to a pcapng file, as received or sent by its interface: their number in the section.
pub fn commented(
    out: &mut Vec<u8>,
    (interface, direction): (u32, Option<Direction>),
    time: u64,
    bytes: &[u8],
    comment: &str,
) {
    enhanced(out, (interface, time), bytes, |out| {
        option(out, COMMENT, comment.as_bytes());
        if let Some(direction) = direction {
            words(out, &[u32::from(FLAGS) | 4 << 16, direction as u32]);
        }
    });
}

/// Options of an enhanced packet block, and of an interface.
const COMMENT: u16 = 1;
const FLAGS: u16 = 2;
const NAME: u16 = 2;

/// An option: its code, its length, its value; what is too long for one is cut.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    words(out, &[u32::from(code) | (value.len() as u32) << 16]);
    out.extend_from_slice(value);
    pad(out);
}

/// An enhanced packet block of an interface.
fn enhanced(out: &mut Vec<u8>, (interface, time): (u32, u64), bytes: &[u8], options: impl FnOnce(&mut Vec<u8>)) {
    let (start, len) = (out.len(), bytes.len() as u32);
    words(out, &[6, 0, interface, (time >> 32) as u32, time as u32, len, len]);
    out.extend_from_slice(bytes);
    pad(out);
    options(out);
    end(out, start);
}

/// The end of a block's options, and its length, which stands at both ends.
fn end(out: &mut Vec<u8>, start: usize) {
    words(out, &[0, 0]);
    let total = (out.len() - start) as u32;
    for at in [start + 4, out.len() - 4] {
        out[at..at + 4].copy_from_slice(&total.to_le_bytes());
    }
}

/// Blocks begin at multiples of four bytes, as a file's first one does.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

/// Nanoseconds since 1970 now.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    // Fits until 2554.
    since.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(magic: u32, big: bool, records: &[[u32; 4]], tail: &[u8]) -> Vec<u8> {
        let word = |word: &u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
        let mut bytes: Vec<u8> = [magic, 0x0002_0004, 0, 0, 65_535, 1].iter().flat_map(word).collect();
        for record in records {
            bytes.extend(record.iter().flat_map(word));
            bytes.extend(vec![7; record[2] as usize]);
        }
        bytes.extend(tail);
        bytes
    }

    #[test]
    fn every_kind_is_read() {
        for (magic, tick) in [(MICRO, 1000), (NANO, 1)] {
            for big in [false, true] {
                let bytes = file(magic, big, &[[3, 5, 60, 60], [4, 0, 10, 99], [5, 0, 2, 2]], &[1, 2, 3]);
                let index = index(&bytes).unwrap();
                assert_eq!(index.packets, [(3_000_000_000 + 5 * tick, 40, 60), (5_000_000_000, 142, 2)]);
                assert_eq!(index.cut, 2);
            }
        }
    }

    #[test]
    fn what_is_not_a_capture_is_told() {
        assert!(index(&[0; 10]).unwrap_err().contains("too short"));
        assert!(index(&[0; 24]).unwrap_err().contains("neither"));
        let mut other = file(MICRO, false, &[], &[]);
        other[20] = 101;
        assert!(index(&other).unwrap_err().contains("Ethernet"));
        assert!(index(&file(MICRO, false, &[], &[0xff; 16])).unwrap_err().contains("senseless"));
    }

    #[test]
    fn blocks_of_pcapng_are_whole() {
        let mut out = Vec::new();
        Format::PcapNg.head(&mut out);
        for len in [14, 15, 16, 17] {
            let before = out.len();
            Format::PcapNg.packet(&mut out, 1 << 40, Direction::Out, &vec![9; len]);
            assert!(out.len() - before <= len + Format::OVERHEAD);
        }
        let mut at = 0;
        let word = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
        let mut blocks = 0;
        while at < out.len() {
            let total = word(at + 4);
            assert_eq!(word(at + total as usize - 4), total);
            at += total as usize;
            blocks += 1;
        }
        assert_eq!((blocks, at), (6, out.len()));
    }

    #[test]
    fn a_commented_packet_reads_back() {
        let mut out = Vec::new();
        Format::PcapNg.head(&mut out);
        interface(&mut out, "n3");
        commented(&mut out, (1, Some(Direction::In)), 0x1_0000_0002, &[7; 5], "as it came");
        let index = index(&out).unwrap();
        let [(time, at, len)] = index.packets[..] else { panic!("{index:?}") };
        assert_eq!((time, &out[at..at + len]), (0x1_0000_0002, &[7; 5][..]));
        assert!(out.windows(6).any(|bytes| bytes == b"\x02\0\x02\0n3"));
        assert!(out.windows(14).any(|bytes| bytes == b"\x01\0\x0a\0as it came"));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(packets in prop::collection::vec((any::<u32>(), 0usize..200), 0..9)) {
            let mut out = Vec::new();
            Format::Pcap.head(&mut out);
            for (time, len) in &packets {
                Format::Pcap.packet(&mut out, (*time).into(), Direction::In, &vec![*time as u8; *len]);
            }
            let index = index(&out).unwrap();
            let got: Vec<_> = index.packets.iter().map(|(time, at, len)| (*time as u32, out[*at..at + len].len())).collect();
            prop_assert_eq!(got, packets);
        }

        #[test]
        fn no_file_panics(bytes in prop::collection::vec(any::<u8>(), 0..100), big: bool) {
            let _ = index(&file(NANO, big, &[], &bytes));
            let _ = index(&bytes);
        }
    }
}
