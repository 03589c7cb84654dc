//! Options as IPv4 and TCP both write them: a kind, and unless the kind is 0 or 1 a length and data
//! (RFC 791, 3.1; RFC 9293, 3.1).

use crate::Malformed;
use crate::fast::be8;

/// The list ends; the rest is padding.
pub const END: u8 = 0;
/// Nothing, to align what follows.
pub const NOP: u8 = 1;

/// One option; padding is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    /// What the option is.
    pub kind: u8,
    /// Where its data begin, in bytes from the start of the options.
    pub at: usize,
    /// The data, without kind and length.
    pub data: &'a [u8],
}

/// An iterator over options; ends after the first that is malformed.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// Start at the front of `bytes`, which hold options and nothing else.
    pub const fn new(bytes: &'a [u8]) -> Options<'a> {
        Options { bytes, at: 0 }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match be8(self.bytes, self.at)? {
                END => return None,
                NOP => self.at += 1,
                kind => {
                    let at = self.at + 2;
                    let len = be8(self.bytes, self.at + 1).map_or(0, usize::from);
                    let Some(data) = self.bytes.get(at..self.at + len) else {
                        self.at = self.bytes.len();
                        return Some(Err(Malformed::BadOption));
                    };
                    self.at += len; // at least 2, or the range would have been refused
                    return Some(Ok(Opt { kind, at, data }));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn padding_is_silent_and_nonsense_is_last() {
        let all: Vec<_> = Options::new(&[1, 2, 4, 5, 0xb4, 1, 4, 2, 0, 9, 9]).map(Result::unwrap).collect();
        assert_eq!(all, [Opt { kind: 2, at: 3, data: &[5, 0xb4] }, Opt { kind: 4, at: 8, data: &[] }]);
        for bad in [&[2][..], &[2, 0], &[2, 1], &[2, 3], &[1, 1, 7, 200, 0]] {
            let all: Vec<_> = Options::new(bad).collect();
            assert_eq!(all, [Err(Malformed::BadOption)], "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn the_walk_ends(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert!(Options::new(&bytes).count() <= bytes.len());
        }
    }
}
