//! Why bytes were refused, and the one way emitting can fail.

use core::fmt;

macro_rules! malformed {
    ($($(#[$doc:meta])* $name:ident = $sentence:literal,)*) => {
        /// Why a header was refused: flat, one sentence each, so that a drop counter can be kept per reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Malformed {
            $(#[doc = $sentence] $name,)*
        }

        impl Malformed {
            /// Every reason, in the order of [`Malformed::index`].
            pub const ALL: &'static [Malformed] = &[$(Malformed::$name,)*];

            /// The reason as one sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Malformed::$name => $sentence,)* }
            }

            /// The reason's name, as written in the source.
            pub const fn name(self) -> &'static str {
                match self { $(Malformed::$name => stringify!($name),)* }
            }
        }
    };
}

malformed! {
    Short = "The bytes end before the header does.",
    BadVersion = "The version field is not one this header may carry.",
    BadHeaderLength = "The header length field is below the minimum or runs past the bytes.",
    BadLength = "The length field is shorter than the headers it covers or longer than the bytes.",
    BadHeaderChecksum = "The IPv4 header checksum is wrong.",
    BadChecksum = "The checksum over the message is wrong.",
    BadFragment = "The fragment would end past the largest datagram.",
    ShortTransport = "The datagram ends before the ports its protocol must have.",
    BadExtension = "An extension header has no length, runs past the packet, or stands where it must not.",
    TooManyExtensions = "More extension headers are chained than this router walks.",
    TooManyTags = "The frame carries more than two VLAN tags.",
    BadOption = "An option or information element has no length or runs past its header.",
    MissingElement = "A mandatory option or information element is missing.",
    BadType = "The type field names something this representation is not.",
    BadHcs = "The header check sequence of a DOCSIS header or segment is wrong.",
    BadHopLimit = "The hop limit is not 255, so the message may have crossed a router.",
}

impl Malformed {
    /// How many reasons there are; sizes an array of counters.
    pub const COUNT: usize = Self::ALL.len();

    /// The reason's place in [`Malformed::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence())
    }
}

impl core::error::Error for Malformed {}

/// Emitting failed: the buffer is shorter than the representation, or a list exceeds its length field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("The buffer is too small for what is to be written.")
    }
}

impl core::error::Error for NoRoom {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_knows_its_place_and_says_one_sentence() {
        for (i, m) in Malformed::ALL.iter().enumerate() {
            assert_eq!(m.index(), i);
            assert!(m.sentence().ends_with('.'), "{}", m.name());
        }
    }
}
