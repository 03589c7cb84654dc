//! What the messages of [ICMP for IPv4](crate::icmp4) and [ICMPv6](crate::icmp6) have in common (RFC 792; RFC 4443, 2.1).
//!
//! ```text
//! |     type      |     code      |           checksum            |  0   checksum: ICMPv6 includes a pseudo header
//! |      by type: identifier and sequence, pointer, or MTU        |  4
//! |                  data, or the original packet                 |  8
//! ```

use crate::fast::{at8, at16, at32, part, put16, put32};
use crate::{Malformed, NoRoom, checksum};

/// What stands for the pseudo header's sum where there is none.
pub const NO_PSEUDO_HEADER: u16 = 0;

/// Where the fields are, in bytes from the start of the message.
pub mod field {
    pub const TYPE: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: usize = 2;
    /// What the type makes of the second word; an echo's identifier.
    pub const REST: usize = 4;
    /// An echo's sequence number; in ICMPv4 the next hop's MTU, too.
    pub const SEQ: usize = 6;
}

/// The header's length, in bytes.
pub const HEADER_LEN: usize = 8;
/// A view of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Check and wrap. Guarantees the eight bytes of the header; the message is all of the bytes.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(Malformed::Short);
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

    /// Type.
    pub fn kind(&self) -> u8 {
        at8(self.b(), field::TYPE)
    }

    pub fn code(&self) -> u8 {
        at8(self.b(), field::CODE)
    }

    /// The checksum as it stands.
    pub fn checksum(&self) -> u16 {
        at16(self.b(), field::CHECKSUM)
    }

    /// Whether the message is as it was sent; `pseudo` is the pseudo header's sum over all its bytes.
    pub fn is_checksum_right(&self, pseudo: u16) -> bool {
        checksum::is_valid(checksum::combine(pseudo, checksum::sum(self.b())))
    }

    /// An echo's identifier.
    pub fn ident(&self) -> u16 {
        at16(self.b(), field::REST)
    }

    /// An echo's sequence number; in ICMPv4 the MTU of a Destination Unreachable, too.
    pub fn seq(&self) -> u16 {
        at16(self.b(), field::SEQ)
    }

    /// The second word: Packet Too Big's MTU, Parameter Problem's pointer.
    pub fn rest(&self) -> u32 {
        at32(self.b(), field::REST)
    }

    /// What the header carries: an echo's data or the original packet.
    pub fn payload(&self) -> &[u8] {
        part(self.b(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Set the checksum as given.
    pub fn set_checksum(&mut self, value: u16) {
        put16(self.0.as_mut(), field::CHECKSUM, value);
    }

    /// Compute the checksum anew; `pseudo` is the pseudo header's sum over all bytes.
    pub fn fill_checksum(&mut self, pseudo: u16) {
        self.set_checksum(0);
        let sum = checksum::combine(pseudo, checksum::sum(self.b()));
        self.set_checksum(checksum::finish(sum));
    }
}

/// Writes a message but for its checksum; `out` is as long as it.
pub(crate) fn put(out: &mut [u8], kind: u8, code: u8, rest: u32, data: &[u8]) -> Result<(), NoRoom> {
    crate::fast::put(out, field::TYPE, [kind, code]).ok_or(NoRoom)?;
    put32(out, field::REST, rest).ok_or(NoRoom)?;
    out.get_mut(HEADER_LEN..).filter(|to| to.len() == data.len()).ok_or(NoRoom)?.copy_from_slice(data);
    Ok(())
}
