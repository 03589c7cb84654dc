//! Packets with comments, as a pcapng file (draft-ietf-opsawg-pcapng).

use std::io::{self, Write};

/// Writes a capture of Ethernet frames with times in nanoseconds.
pub struct PcapNg<W: Write> {
    to: W,
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const ETHERNET: u16 = 1;
const OPTION_COMMENT: u16 = 1;
const OPTION_TSRESOL: u16 = 9;

impl<W: Write> PcapNg<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// What writing said.
    pub fn new(to: W) -> io::Result<Self> {
        let mut file = Self { to };
        let mut section = 0x1a2b_3c4du32.to_le_bytes().to_vec();
        section.extend([1, 0, 0, 0]);
        // Length of the section: not told.
        section.extend(u64::MAX.to_le_bytes());
        file.block(SECTION, section)?;
        let mut interface = ETHERNET.to_le_bytes().to_vec();
        interface.extend([0; 6]);
        option(&mut interface, OPTION_TSRESOL, &[9]);
        option(&mut interface, 0, &[]);
        file.block(INTERFACE, interface)?;
        Ok(file)
    }

    /// Adds a packet of which only the first bytes may be known.
    ///
    /// # Errors
    /// What writing said.
    pub fn packet(&mut self, unix_ns: u64, bytes: &[u8], length: usize, comment: &str) -> io::Result<()> {
        let mut body = vec![0; 4];
        body.extend(((unix_ns >> 32) as u32).to_le_bytes());
        body.extend((unix_ns as u32).to_le_bytes());
        body.extend((bytes.len() as u32).to_le_bytes());
        body.extend((length.max(bytes.len()) as u32).to_le_bytes());
        body.extend(bytes);
        pad(&mut body);
        option(&mut body, OPTION_COMMENT, comment.as_bytes());
        option(&mut body, 0, &[]);
        self.block(PACKET, body)
    }

    /// Ends it, and gives back what it was written to.
    ///
    /// # Errors
    /// What writing said.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }

    fn block(&mut self, kind: u32, body: Vec<u8>) -> io::Result<()> {
        let length = (body.len() as u32 + 12).to_le_bytes();
        self.to.write_all(&kind.to_le_bytes())?;
        self.to.write_all(&length)?;
        self.to.write_all(&body)?;
        self.to.write_all(&length)
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    body.extend(value);
    pad(body);
}

fn pad(body: &mut Vec<u8>) {
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_framed_and_padded() {
        let mut file = PcapNg::new(Vec::new()).unwrap();
        file.packet(0x1_0000_0002, &[7; 5], 100, "as it came").unwrap();
        let bytes = file.finish().unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let mut at = 0;
        let mut kinds = Vec::new();
        while at < bytes.len() {
            kinds.push(word(at));
            let length = word(at + 4) as usize;
            assert_eq!((length % 4, word(at + length - 4) as usize), (0, length));
            if word(at) == PACKET {
                let fields: Vec<u32> = (2..7).map(|n| word(at + 4 * n)).collect();
                assert_eq!(fields, [0, 1, 2, 5, 100]);
                assert_eq!(&bytes[at + 28..at + 36], [7, 7, 7, 7, 7, 0, 0, 0]);
                assert_eq!(&bytes[at + 40..at + 50], b"as it came");
            }
            at += length;
        }
        assert_eq!((kinds, at), (vec![SECTION, INTERFACE, PACKET], bytes.len()));
    }
}
