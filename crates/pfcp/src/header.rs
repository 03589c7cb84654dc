//! The header of every message (7.2.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! | ver |spare|F|M|S|  message type |            length             |  0   length: octets from offset 4
//! |                 session endpoint identifier                     |  4   there if S is set
//! |                     (SEID, 64 bit)                              |  8
//! |                sequence number                | prio. | spare   | 12   at 4 if S is not set
//! ```
//!
//! F ("follow on"): another message follows in the same datagram. M: the message priority means something.

/// The only version there is.
pub const VERSION: u8 = 1;
/// Sequence numbers have 24 bits.
pub const SEQUENCE_MASK: u32 = 0x00ff_ffff;

const FOLLOW_ON: u8 = 0x04;
const PRIORITY: u8 = 0x02;
const SEID: u8 = 0x01;

/// What precedes the IEs, but for the message's type and length, which follow from the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The receiver's session (SEID); session messages have one, node messages have none (7.2.2.4).
    pub seid: Option<u64>,
    /// Which request this is or answers: 24 bits, chosen by who sends the request.
    pub sequence: u32,
    /// Message priority, 0 (highest) to 15 (7.2.2.4.2).
    pub priority: Option<u8>,
    /// Another message follows in this datagram (6.6, bundling).
    pub follow_on: bool,
}

/// The octets are no message: there is nothing to be answered (7.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Shorter than a header, or than the header says.
    #[error("the datagram is shorter than its message")]
    Truncated,
    /// The length in the header leaves no room for the rest of the header.
    #[error("the message is shorter than its header")]
    Short,
    /// Another version, which is to be answered with Version Not Supported (7.6.2).
    #[error("PFCP version {0} is not supported")]
    Version(u8),
}

/// A message split into its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub header: Header,
    pub message_type: u8,
    pub ies: &'a [u8],
    /// What stands behind the message in the datagram.
    pub behind: &'a [u8],
}

impl Header {
    /// The header of a message about a session at the receiver.
    pub const fn session(seid: u64, sequence: u32) -> Header {
        Header { seid: Some(seid), sequence, priority: None, follow_on: false }
    }

    /// The header of a message between nodes.
    pub const fn node(sequence: u32) -> Header {
        Header { seid: None, sequence, priority: None, follow_on: false }
    }

    /// Splits the first message off a datagram.
    pub(crate) fn split(datagram: &[u8]) -> Result<Parts<'_>, Malformed> {
        let &[flags, message_type, len_high, len_low, ..] = datagram else { return Err(Malformed::Truncated) };
        if flags >> 5 != VERSION {
            return Err(Malformed::Version(flags >> 5));
        }
        let len = 4 + usize::from(u16::from_be_bytes([len_high, len_low]));
        let (message, behind) = datagram.split_at_checked(len).ok_or(Malformed::Truncated)?;
        let (seid, tail) = if flags & SEID != 0 {
            let (seid, tail) = message[4..].split_first_chunk().ok_or(Malformed::Short)?;
            (Some(u64::from_be_bytes(*seid)), tail)
        } else {
            (None, &message[4..])
        };
        let (&[a, b, c, last], ies) = tail.split_first_chunk().ok_or(Malformed::Short)?;
        let header = Header {
            seid,
            sequence: u32::from_be_bytes([0, a, b, c]),
            priority: (flags & PRIORITY != 0).then_some(last >> 4),
            follow_on: flags & FOLLOW_ON != 0,
        };
        Ok(Parts { header, message_type, ies, behind })
    }

    /// Appends the header with a length still to be set by [`set_len`].
    pub(crate) fn emit(&self, message_type: u8, out: &mut Vec<u8>) {
        let mut flags = VERSION << 5;
        flags |= if self.seid.is_some() { SEID } else { 0 };
        flags |= if self.priority.is_some() { PRIORITY } else { 0 };
        flags |= if self.follow_on { FOLLOW_ON } else { 0 };
        out.extend_from_slice(&[flags, message_type, 0, 0]);
        if let Some(seid) = self.seid {
            out.extend(seid.to_be_bytes());
        }
        let [_, a, b, c] = (self.sequence & SEQUENCE_MASK).to_be_bytes();
        out.extend([a, b, c, self.priority.unwrap_or(0) << 4]);
    }
}

/// Sets the length of the message that starts at `start` and ends with `out`; `None` if it is too long.
pub(crate) fn set_len(out: &mut [u8], start: usize) -> Option<()> {
    let len = u16::try_from(out.len() - start - 4).ok()?;
    out[start + 2..start + 4].copy_from_slice(&len.to_be_bytes());
    Some(())
}
