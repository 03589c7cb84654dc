//! The chain of extension headers, one at a time (TS 29.281, 5.2.1).

use super::{HEADER_LEN, OPTIONAL_LEN, extension_type, field, flag};
use crate::Malformed;
use crate::fast::{at8, be8};

/// One extension header: its type and what stands between its length and its next-type octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// The type, see [`extension_type`].
    pub kind: u8,
    /// The content: 2 bytes, or 4 more for each unit of the length.
    pub content: &'a [u8],
}

/// An iterator over a message's extension headers; ends after the first that is malformed.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    message: &'a [u8],
    at: usize,
    next: u8,
}

impl<'a> Extensions<'a> {
    /// Start at the front of `message`, which ends where its length field says.
    pub fn new(message: &'a [u8]) -> Extensions<'a> {
        let has = at8(message, field::FLAGS) & flag::E != 0;
        Extensions {
            message,
            at: HEADER_LEN + OPTIONAL_LEN,
            next: if has { at8(message, field::NEXT) } else { extension_type::NONE },
        }
    }

    fn step(&mut self) -> Option<Extension<'a>> {
        let len = usize::from(be8(self.message, self.at)?) * 4;
        let end = self.at + len;
        let content = self.message.get(self.at + 1..end.checked_sub(1)?)?;
        let kind = self.next;
        self.next = be8(self.message, end - 1)?;
        self.at = end;
        Some(Extension { kind, content })
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == extension_type::NONE {
            return None;
        }
        let item = self.step().ok_or(Malformed::BadExtension);
        if item.is_err() {
            self.next = extension_type::NONE;
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn yields_each_and_stops_at_nonsense() {
        let mut bytes = [0x34, 0xff, 0, 16, 0, 0, 0, 7, 0, 0, 0, 0xc0, 1, 0xab, 0xcd, 0x85, 2, 0x10, 5, 1, 2, 3, 4, 0];
        let all: Vec<_> = Extensions::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(all[0], Extension { kind: 0xc0, content: &[0xab, 0xcd] });
        assert_eq!(all[1], Extension { kind: 0x85, content: &[0x10, 5, 1, 2, 3, 4] });
        assert_eq!(all.len(), 2);

        bytes[16] = 3;
        let all: Vec<_> = Extensions::new(&bytes).collect();
        assert_eq!(all[1..], [Err(Malformed::BadExtension)]);
        bytes[16] = 0;
        assert_eq!(Extensions::new(&bytes).last(), Some(Err(Malformed::BadExtension)));
        bytes[0] = 0x30;
        assert_eq!(Extensions::new(&bytes).count(), 0);
    }
}
