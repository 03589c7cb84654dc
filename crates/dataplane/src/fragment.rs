//! IPv4 fragmentation as a router does it (RFC 791, 3.2; RFC 1812, 4.2.2.7).
//!
//! IPv6 packets are never fragmented on their way (RFC 8200, 5): they are answered with packet too big. The same goes
//! for IPv4 packets that forbid it, see [`dont_fragment`]; the caller asks.

use wire::checksum;
use wire::fast;

/// Header length without options, in bytes.
const HEADER: usize = 20;
const MAX_HEADER: usize = 60;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE: u16 = 0x2000;
/// The kind's bit that says: into every fragment.
const COPIED: u8 = 0x80;

/// Reason for which a packet is not fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotFragment {
    /// Not an IPv4 packet, or its lengths contradict each other.
    #[error("the packet's header does not fit the packet")]
    Malformed,
    /// The options are malformed.
    #[error("an option has no length or runs past the header")]
    BadOption,
    /// The header and eight bytes are more than the MTU.
    #[error("the MTU has no room for the header and eight bytes")]
    MtuTooSmall,
}

/// Whether the IPv4 packet must not be fragmented (DF).
#[inline]
pub fn dont_fragment(ip: &[u8]) -> bool {
    fast::be16(ip, 6).is_some_and(|word| word & DONT_FRAGMENT != 0)
}

/// One fragment to be.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    header: &'a [u8],
    data: &'a [u8],
    /// Flags and offset as they will stand in the header.
    word: u16,
}

impl Piece<'_> {
    /// The fragment's length, header and data, in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it has a header at least")]
    pub fn len(&self) -> usize {
        self.header.len() + self.data.len()
    }

    /// Where its data belong in the datagram, in bytes.
    pub fn offset(&self) -> usize {
        usize::from(self.word & 0x1fff) * 8
    }

    /// Whether more follow.
    pub fn more(&self) -> bool {
        self.word & MORE != 0
    }

    /// Writes the fragment to the front of `out`; returns its length, or `None` if it does not fit.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let out = out.get_mut(..self.len())?;
        let (header, data) = out.split_at_mut(self.header.len());
        header.copy_from_slice(self.header);
        data.copy_from_slice(self.data);
        fast::put8(header, 0, 0x40 | (self.header.len() / 4) as u8)?;
        fast::put16(header, 2, u16::try_from(self.len()).ok()?)?;
        fast::put16(header, 6, self.word)?;
        fast::put16(header, 10, 0)?;
        let check = checksum::of(header);
        fast::put16(header, 10, check)?;
        Some(self.len())
    }
}

/// A packet and how it is cut; an iterator over the pieces comes from [`Plan::pieces`].
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    header: &'a [u8],
    data: &'a [u8],
    mtu: usize,
    word: u16,
    /// The header of all fragments but the first: options that are not to be copied are left out.
    later: [u8; MAX_HEADER],
    later_len: usize,
}

impl<'a> Plan<'a> {
    /// Plans to cut the IPv4 packet `ip`, possibly a fragment itself, for links of `mtu` bytes. Bytes behind the
    /// packet's total length are ignored. A packet that fits is one piece.
    pub fn new(ip: &'a [u8], mtu: usize) -> Result<Plan<'a>, CannotFragment> {
        let head: &[u8; HEADER] = ip.first_chunk().ok_or(CannotFragment::Malformed)?;
        let header_len = usize::from(head[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if head[0] >> 4 != 4 || header_len < HEADER || total < header_len || total > ip.len() {
            return Err(CannotFragment::Malformed);
        }
        let (header, data) = ip[..total].split_at(header_len);
        let word = u16::from_be_bytes([head[6], head[7]]);
        // Data before others' must come in eights, and none may end past the largest datagram.
        let end = usize::from(word & 0x1fff) * 8 + data.len();
        if word & MORE != 0 && data.len() % 8 != 0 || end > 0xffff {
            return Err(CannotFragment::Malformed);
        }
        if total > mtu && mtu < header_len + 8 {
            return Err(CannotFragment::MtuTooSmall);
        }
        let mut plan = Plan { header, data, mtu, word, later: [0; MAX_HEADER], later_len: HEADER };
        plan.later[..HEADER].copy_from_slice(head);
        plan.copy_options(&header[HEADER..])?;
        Ok(plan)
    }

    /// Copies the options that every fragment repeats and pads them to a multiple of four bytes (RFC 791, 3.1).
    fn copy_options(&mut self, options: &[u8]) -> Result<(), CannotFragment> {
        let mut rest = options;
        while let [kind, behind @ ..] = rest {
            match (*kind, behind) {
                (0, _) => break,
                (1, _) => rest = behind,
                (kind, [len, ..]) if *len >= 2 => {
                    let (option, behind) = rest.split_at_checked((*len).into()).ok_or(CannotFragment::BadOption)?;
                    if kind & COPIED != 0 {
                        self.later[self.later_len..][..option.len()].copy_from_slice(option);
                        self.later_len += option.len();
                    }
                    rest = behind;
                }
                _ => return Err(CannotFragment::BadOption),
            }
        }
        // Zeros, "end of options", are there already; the whole is no longer than the original.
        self.later_len = self.later_len.next_multiple_of(4);
        Ok(())
    }

    /// The pieces, first to last.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces { plan: self, at: 0, done: false }
    }
}

/// The pieces of a [`Plan`], first to last.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    plan: &'a Plan<'a>,
    at: usize,
    done: bool,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.done {
            return None;
        }
        let plan = self.plan;
        let header = if self.at == 0 { plan.header } else { &plan.later[..plan.later_len] };
        let left = &plan.data[self.at..];
        let room = plan.mtu.saturating_sub(header.len());
        let last = left.len() <= room;
        let data = if last { left } else { &left[..room & !7] };
        let offset = (plan.word & 0x1fff) + (self.at / 8) as u16; // checked to stay within 13 bits
        let more = if last { plan.word & MORE } else { MORE };
        self.at += data.len();
        self.done = last;
        Some(Piece { header, data, word: plan.word & DONT_FRAGMENT | more | offset })
    }
}

/// Cuts the IPv4 packet `ip` for links of `mtu` bytes and gives each piece to `each`, first to last; returns how many.
pub fn fragment(ip: &[u8], mtu: usize, mut each: impl FnMut(Piece<'_>)) -> Result<usize, CannotFragment> {
    let plan = Plan::new(ip, mtu)?;
    let mut count = 0;
    for piece in plan.pieces() {
        each(piece);
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
#[path = "fragment_tests.rs"]
mod tests;
