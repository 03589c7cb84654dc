//! Capture files: classic pcap, Ethernet, nanoseconds, little endian. Wireshark opens them.

use std::io;
use std::path::Path;

use port::capture::{self, Direction, Format};

/// A packet and when it was seen, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When, from the file's start of time.
    pub at: u64,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// The file of these packets.
pub fn to_bytes(packets: &[Seen]) -> Vec<u8> {
    let mut out = Vec::new();
    Format::Pcap.head(&mut out);
    for packet in packets {
        Format::Pcap.packet(&mut out, packet.at, Direction::In, &packet.bytes);
    }
    out
}

/// The packets of a file.
///
/// # Errors
/// A sentence on what is wrong with the file; packets that are cut short are wrong in a test.
pub(crate) fn from_bytes(file: &[u8]) -> Result<Vec<Seen>, String> {
    let index = capture::index(file)?;
    if index.cut > 0 {
        return Err(format!("{} of its packets are cut short", index.cut));
    }
    let seen = |&(at, start, len): &(u64, usize, usize)| Seen { at, bytes: file[start..start + len].to_vec() };
    Ok(index.packets.iter().map(seen).collect())
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
