//! UDP (RFC 768).
//!
//! ```text
//! |          source port          |       destination port        |  0
//! |            length             |           checksum            |  4   length: header and payload
//! ```

use crate::fast::{at16, part, put16};
use crate::{Malformed, NoRoom, checksum};

/// Where the fields are, in bytes from the start of the header.
pub mod field {
    /// Source port.
    pub const SRC_PORT: usize = 0;
    /// Destination port.
    pub const DST_PORT: usize = 2;
    /// Header and payload, in bytes.
    pub const LENGTH: usize = 4;
    /// Checksum; zero means none.
    pub const CHECKSUM: usize = 6;
}

/// The header's length, in bytes.
pub const HEADER_LEN: usize = 8;

/// A view of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Check and wrap. Guarantees the header and a length that covers it and lies within the bytes; bytes behind are
    /// ignored. A length of zero (RFC 2675's jumbograms) is refused.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        let b = bytes.as_ref();
        if b.len() < HEADER_LEN {
            return Err(Malformed::Short);
        }
        let len = usize::from(at16(b, field::LENGTH));
        if len < HEADER_LEN || len > b.len() {
            return Err(Malformed::BadLength);
        }
        Ok(Packet(bytes))
    }

    /// The bytes back.
    pub fn into_inner(self) -> T {
        self.0
    }

    fn b(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// Source port.
    pub fn src_port(&self) -> u16 {
        at16(self.b(), field::SRC_PORT)
    }

    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        at16(self.b(), field::DST_PORT)
    }

    /// Header and payload, in bytes.
    pub fn length(&self) -> u16 {
        at16(self.b(), field::LENGTH)
    }

    /// The checksum as it stands; zero means none.
    pub fn checksum(&self) -> u16 {
        at16(self.b(), field::CHECKSUM)
    }

    /// Whether the datagram is as it was sent, or says nothing about it; `pseudo` is the pseudo header's sum over
    /// [`Packet::length`]. Over IPv6 a checksum of zero is wrong except for tunnels (RFC 8200, 8.1; RFC 6935).
    pub fn is_checksum_right(&self, pseudo: u16) -> bool {
        self.checksum() == 0
            || checksum::is_valid(checksum::combine(pseudo, checksum::sum(part(self.b(), 0, self.length().into()))))
    }

    /// What the header carries.
    pub fn payload(&self) -> &[u8] {
        part(self.b(), HEADER_LEN, usize::from(self.length()))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Set the checksum as given.
    pub fn set_checksum(&mut self, value: u16) {
        put16(self.0.as_mut(), field::CHECKSUM, value);
    }

    /// Compute the checksum anew; `pseudo` is the pseudo header's sum over [`Packet::length`].
    pub fn fill_checksum(&mut self, pseudo: u16) {
        self.set_checksum(0);
        let sum = checksum::sum(part(self.b(), 0, self.length().into()));
        self.set_checksum(checksum::finish_udp(checksum::combine(pseudo, sum)));
    }
}

/// The header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes behind the header.
    pub payload_len: u16,
}

impl Repr {
    /// Read a header, as checked by [`Packet::new_checked`]; the checksum is the view's to check.
    pub fn parse(datagram: &[u8]) -> Result<Repr, Malformed> {
        let p = Packet::new_checked(datagram)?;
        Ok(Repr {
            src_port: p.src_port(),
            dst_port: p.dst_port(),
            payload_len: p.payload().len() as u16, // within a 16-bit length
        })
    }

    /// Bytes the header takes.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Write the header to the front of `out`, without a checksum; returns its length. For one, write the payload and
    /// call [`Packet::fill_checksum`].
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let out = out.get_mut(..HEADER_LEN).ok_or(NoRoom)?;
        put16(out, field::SRC_PORT, self.src_port).ok_or(NoRoom)?;
        put16(out, field::DST_PORT, self.dst_port).ok_or(NoRoom)?;
        let length = self.payload_len.checked_add(HEADER_LEN as u16).ok_or(NoRoom)?;
        put16(out, field::LENGTH, length).ok_or(NoRoom)?;
        put16(out, field::CHECKSUM, 0).ok_or(NoRoom)?;
        Ok(HEADER_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 127.0.0.1 to itself, ports 1000 and 2000, "abc".
    const BYTES: [u8; 11] = [0x03, 0xe8, 0x07, 0xd0, 0, 11, 0x31, 0xbb, b'a', b'b', b'c'];

    fn pseudo() -> u16 {
        checksum::pseudo4(0x7f00_0001, 0x7f00_0001, 17, 11)
    }

    #[test]
    fn a_datagram_both_ways() {
        let repr = Repr { src_port: 1000, dst_port: 2000, payload_len: 3 };
        let mut out = [0xee; 12];
        assert_eq!(repr.emit(&mut out), Ok(8));
        out[8..11].copy_from_slice(b"abc");
        let mut p = Packet::new_checked(&mut out[..]).unwrap();
        assert!(p.is_checksum_right(pseudo()));
        p.fill_checksum(pseudo());
        assert_eq!((p.payload(), p.is_checksum_right(pseudo())), (&b"abc"[..], true));
        assert_eq!(out[..11], BYTES);
        assert_eq!(Repr::parse(&BYTES), Ok(repr));
        let mut bad = BYTES;
        bad[9] = b'B';
        assert!(!Packet::new_checked(bad).unwrap().is_checksum_right(pseudo()));
    }

    #[test]
    fn refuses_lengths_that_lie() {
        let mut b = BYTES;
        assert_eq!(Packet::new_checked(&b[..7]), Err(Malformed::Short));
        assert_eq!(Packet::new_checked(&b[..10]), Err(Malformed::BadLength));
        b[5] = 7;
        assert_eq!(Packet::new_checked(&b[..]), Err(Malformed::BadLength));
        assert_eq!(Repr { src_port: 1, dst_port: 2, payload_len: 0xfff8 }.emit(&mut b), Err(NoRoom));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            src_port: u16, dst_port: u16, data in prop::collection::vec(any::<u8>(), 0..50), pseudo: u16,
        ) {
            let repr = Repr { src_port, dst_port, payload_len: data.len() as u16 };
            let mut bytes = std::vec![0xaa; HEADER_LEN];
            repr.emit(&mut bytes).unwrap();
            bytes.extend(&data);
            let mut p = Packet::new_checked(&mut bytes[..]).unwrap();
            p.fill_checksum(pseudo);
            prop_assert_ne!(p.checksum(), 0);
            prop_assert!(p.is_checksum_right(pseudo));
            prop_assert_eq!(Repr::parse(&bytes), Ok(repr));
        }
    }
}
