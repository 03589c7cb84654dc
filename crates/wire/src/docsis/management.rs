//! MAC management messages, as the MAP pseudowire carries them: from the destination address, without MAC header or CRC
//! (CM-SP-R-DEPI, MAP subtype; the message header from general knowledge of CM-SP-MULPI).
//!
//! ```text
//! | DA, 6 | SA, 6 | length, 2 | DSAP | SSAP | control | version | type | reserved | …    length: from DSAP on
//! ```

use crate::fast::{at, at8, at16, part, put, put16};
use crate::{Mac, Malformed, NoRoom};

/// Bytes before the message's own.
pub const HEADER_LEN: usize = 20;
/// Bytes of it the length field covers.
const COVERED: usize = 6;

/// Message types this crate names.
pub mod message_type {
    /// Bandwidth allocation map.
    pub const MAP: u8 = 3;
}

/// A view of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<T>(T);

impl<T: AsRef<[u8]>> Message<T> {
    /// Check and wrap. Guarantees the header and a length within the bytes.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        let length = usize::from(at16(b, 12));
        if length < COVERED || length > b.len() - (HEADER_LEN - COVERED) {
            return Err(Malformed::BadLength);
        }
        Ok(Message(bytes))
    }

    /// Destination address.
    pub fn dst(&self) -> Mac {
        Mac(at(self.0.as_ref(), 0))
    }

    /// Source address.
    pub fn src(&self) -> Mac {
        Mac(at(self.0.as_ref(), 6))
    }

    /// The message's version.
    pub fn version(&self) -> u8 {
        at8(self.0.as_ref(), 17)
    }

    /// See [`message_type`].
    pub fn message_type(&self) -> u8 {
        at8(self.0.as_ref(), 18)
    }

    /// What the header carries.
    pub fn payload(&self) -> &[u8] {
        let b = self.0.as_ref();
        part(b, HEADER_LEN, HEADER_LEN - COVERED + usize::from(at16(b, 12)))
    }
}

/// Writes a header before `payload_len` bytes of message to the front of `out`; returns its length.
pub fn emit(dst: Mac, src: Mac, version: u8, kind: u8, payload_len: usize, out: &mut [u8]) -> Result<usize, NoRoom> {
    let out = out.get_mut(..HEADER_LEN).ok_or(NoRoom)?;
    let length = u16::try_from(payload_len + COVERED).map_err(|_| NoRoom)?;
    put(out, 0, dst.0).ok_or(NoRoom)?;
    put(out, 6, src.0).ok_or(NoRoom)?;
    put16(out, 12, length).ok_or(NoRoom)?;
    put(out, 14, [0, 0, 3, version, kind, 0]).ok_or(NoRoom)?;
    Ok(HEADER_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_both_ways() {
        let mut bytes = [0xaa; 24];
        let all = Mac([1, 0xe0, 0x2f, 0, 0, 1]);
        assert_eq!(emit(all, Mac([2; 6]), 1, message_type::MAP, 3, &mut bytes), Ok(20));
        let message = Message::new_checked(&bytes[..]).unwrap();
        assert_eq!((message.dst(), message.src()), (all, Mac([2; 6])));
        assert_eq!((message.version(), message.message_type(), message.payload()), (1, 3, &[0xaa; 3][..]));
        assert_eq!(Message::new_checked(&bytes[..19]), Err(Malformed::Short));
        assert_eq!(Message::new_checked(&bytes[..22]), Err(Malformed::BadLength));
        bytes[13] = 5;
        assert_eq!(Message::new_checked(&bytes[..]), Err(Malformed::BadLength));
        assert_eq!(emit(all, all, 1, 3, 3, &mut bytes[..19]), Err(NoRoom));
    }
}
