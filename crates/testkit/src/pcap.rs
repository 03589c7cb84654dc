//! Capture files: classic pcap, Ethernet, nanoseconds, little endian. Wireshark opens them.

use std::io;
use std::path::Path;

/// A packet and when it was seen, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, from the file's start of time.
    pub at: u64,
    /// The frame.
    pub bytes: Vec<u8>,
}

const MAGIC_NS: u32 = 0xa1b2_3c4d;
const MAGIC_US: u32 = 0xa1b2_c3d4;
const ETHERNET: u32 = 1;
const HEADER: usize = 24;
const RECORD: usize = 16;
const SECOND: u64 = 1_000_000_000;

/// The file of these packets.
pub fn to_bytes(packets: &[Seen]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |words: &[u32]| words.iter().for_each(|word| out.extend(word.to_le_bytes()));
    put(&[MAGIC_NS, 2 | 4 << 16, 0, 0, 0x4_0000, ETHERNET]);
    for packet in packets {
        let len = packet.bytes.len() as u32;
        let time = [(packet.at / SECOND) as u32, (packet.at % SECOND) as u32];
        for word in [time[0], time[1], len, len] {
            out.extend(word.to_le_bytes());
        }
        out.extend(&packet.bytes);
    }
    out
}

/// The packets of a file: classic pcap of either byte order, micro- or nanoseconds.
///
/// # Errors
/// A sentence on what is wrong with the file.
pub fn from_bytes(file: &[u8]) -> Result<Vec<Seen>, String> {
    let magic: [u8; 4] = *file.first_chunk().ok_or("shorter than a pcap header")?;
    let (little, unit) = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
        (MAGIC_NS, _) => (true, 1),
        (MAGIC_US, _) => (true, 1000),
        (_, MAGIC_NS) => (false, 1),
        (_, MAGIC_US) => (false, 1000),
        _ => return Err("not a classic pcap file".into()),
    };
    let word = |at: usize| -> Option<u32> {
        let bytes: [u8; 4] = *file.get(at..)?.first_chunk()?;
        Some(if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    };
    if word(20) != Some(ETHERNET) {
        return Err("not a capture of Ethernet frames".into());
    }
    let mut packets = Vec::new();
    let mut at = HEADER;
    while at < file.len() {
        let cut = || format!("record {} is cut off", packets.len() + 1);
        let (seconds, fraction, len) =
            (word(at).ok_or_else(cut)?, word(at + 4).ok_or_else(cut)?, word(at + 8).ok_or_else(cut)?);
        at += RECORD;
        let bytes = file.get(at..at + len as usize).ok_or_else(cut)?.to_vec();
        at += len as usize;
        packets.push(Seen { at: u64::from(seconds) * SECOND + u64::from(fraction) * unit, bytes });
    }
    Ok(packets)
}

/// Writes a file.
///
/// # Errors
/// What the system said.
pub fn write(path: &Path, packets: &[Seen]) -> io::Result<()> {
    std::fs::write(path, to_bytes(packets))
}

/// Reads a file.
///
/// # Errors
/// What the system said, or what is wrong with the file.
pub fn read(path: &Path) -> Result<Vec<Seen>, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    from_bytes(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(packets in prop::collection::vec((0u64..1 << 50, prop::collection::vec(any::<u8>(), 0..80)), 0..9)) {
            let packets: Vec<Seen> = packets.into_iter().map(|(at, bytes)| Seen { at, bytes }).collect();
            let file = to_bytes(&packets);
            prop_assert_eq!(from_bytes(&file), Ok(packets.clone()));
            if !packets.is_empty() {
                prop_assert!(from_bytes(&file[..file.len() - 1]).is_err() || packets.last().unwrap().bytes.is_empty());
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            let _ = from_bytes(&bytes);
            let file = [&to_bytes(&[])[..], &bytes].concat();
            let _ = from_bytes(&file);
        }
    }
}
