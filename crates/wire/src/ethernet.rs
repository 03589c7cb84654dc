//! Ethernet (IEEE 802.3, 3.1.1) with at most two VLAN tags (802.1Q, 9.5; 802.1ad).
//!
//! ```text
//! | destination, 6 | source, 6 | [tag type, 2 | tag, 2]  0 to 2 times | ethertype, 2 | layer 3 …
//! 0                6           12                                     12, 16 or 20
//! ```

use crate::fast::{at, at16, part, put, put16};
use crate::{Mac, Malformed, NoRoom, Outer, Vlan, ethertype};

/// Where the fields are, in bytes from the start of the frame.
pub mod field {
    /// Destination address.
    pub const DST: usize = 0;
    /// Source address.
    pub const SRC: usize = 6;
    /// Ethertype, or the first tag's type.
    pub const TYPE: usize = 12;
}

/// An untagged header's length, in bytes.
pub const HEADER_LEN: usize = 14;
/// One tag's length, in bytes.
pub const TAG_LEN: usize = 4;
/// The shortest frame on a cable, without its check sequence, in bytes.
pub const MIN_FRAME: usize = 60;

/// A view of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Check and wrap. Guarantees the header and all tags, of which there are at most two.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        Outer::parse(bytes.as_ref())?;
        Ok(Packet(bytes))
    }

    /// The bytes back.
    pub fn into_inner(self) -> T {
        self.0
    }

    fn b(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// Destination address.
    pub fn dst(&self) -> Mac {
        Mac(at(self.b(), field::DST))
    }

    /// Source address.
    pub fn src(&self) -> Mac {
        Mac(at(self.b(), field::SRC))
    }

    /// The tags, the type behind them and where layer 3 begins.
    pub fn outer(&self) -> Outer {
        Outer::parse(self.b()).unwrap_or_default()
    }

    /// The tags with their types.
    pub fn tags(&self) -> Tags {
        let outer = self.outer();
        let tag = |i: usize| Tag { kind: at16(self.b(), field::TYPE + i * TAG_LEN), vlan: outer.vlans[i] };
        match outer.tags {
            0 => Tags::None,
            1 => Tags::One(tag(0)),
            _ => Tags::Two(tag(0), tag(1)),
        }
    }

    /// The type behind all tags.
    pub fn ethertype(&self) -> u16 {
        self.outer().ethertype
    }

    /// Everything behind the header, padding included.
    pub fn payload(&self) -> &[u8] {
        part(self.b(), usize::from(self.outer().l3), usize::MAX)
    }
}

/// One tag: its type and its control information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// [`ethertype::VLAN`], [`ethertype::SERVICE_VLAN`] or [`ethertype::OLD_SERVICE_VLAN`].
    pub kind: u16,
    /// Priority and identifier.
    pub vlan: Vlan,
}

impl Tag {
    /// A customer tag (802.1Q).
    pub const fn customer(vlan: Vlan) -> Tag {
        Tag { kind: ethertype::VLAN, vlan }
    }

    /// A service tag (802.1ad).
    pub const fn service(vlan: Vlan) -> Tag {
        Tag { kind: ethertype::SERVICE_VLAN, vlan }
    }
}

/// The tags of a frame, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tags {
    /// Untagged.
    #[default]
    None,
    One(Tag),
    /// A tag and, inside it, another.
    Two(Tag, Tag),
}

impl Tags {
    /// Bytes the tags take.
    pub const fn len(&self) -> usize {
        match self {
            Tags::None => 0,
            Tags::One(_) => TAG_LEN,
            Tags::Two(..) => 2 * TAG_LEN,
        }
    }

    /// The tags' VLAN identifiers, outermost first; those not present are 0.
    pub const fn ids(&self) -> [u16; 2] {
        match self {
            Tags::None => [0; 2],
            Tags::One(tag) => [tag.vlan.id(), 0],
            Tags::Two(outside, inside) => [outside.vlan.id(), inside.vlan.id()],
        }
    }

    /// Whether there is no tag.
    pub const fn is_empty(&self) -> bool {
        matches!(self, Tags::None)
    }
}

/// The header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub dst: Mac,
    /// Source address.
    pub src: Mac,
    pub tags: Tags,
    /// The type behind them.
    pub ethertype: u16,
}

impl Repr {
    /// Read the header of `frame`, as checked by [`Packet::new_checked`].
    pub fn parse(frame: &[u8]) -> Result<Repr, Malformed> {
        let p = Packet::new_checked(frame)?;
        Ok(Repr { dst: p.dst(), src: p.src(), tags: p.tags(), ethertype: p.ethertype() })
    }

    /// Bytes the header takes, tags included.
    pub const fn header_len(&self) -> usize {
        HEADER_LEN + self.tags.len()
    }

    /// Write the header to the front of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.header_len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        put(out, field::DST, self.dst.0).ok_or(NoRoom)?;
        put(out, field::SRC, self.src.0).ok_or(NoRoom)?;
        let mut emit_tag = |at: usize, tag: Tag| {
            put16(out, at, tag.kind).ok_or(NoRoom)?;
            put16(out, at + 2, tag.vlan.0).ok_or(NoRoom)
        };
        match self.tags {
            Tags::None => {}
            Tags::One(tag) => emit_tag(field::TYPE, tag)?,
            Tags::Two(outside, inside) => {
                emit_tag(field::TYPE, outside)?;
                emit_tag(field::TYPE + TAG_LEN, inside)?;
            }
        }
        put16(out, len - 2, self.ethertype).ok_or(NoRoom)?;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DOUBLE: [u8; 23] =
        [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xa8, 0x20, 0x0a, 0x81, 0x00, 0x00, 0x14, 0x08, 0x00, 0x45];

    #[test]
    fn a_double_tagged_frame_both_ways() {
        let p = Packet::new_checked(&DOUBLE).unwrap();
        assert_eq!((p.dst(), p.src()), (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])));
        let tags = Tags::Two(Tag::service(Vlan(0x200a)), Tag::customer(Vlan::of(20)));
        assert_eq!((p.tags(), p.ethertype(), p.payload()), (tags, ethertype::IP4, &[0x45][..]));

        let repr = Repr::parse(&DOUBLE).unwrap();
        let mut out = [0xee; 22];
        assert_eq!(repr.emit(&mut out), Ok(22));
        assert_eq!(out, DOUBLE[..22]);
        assert_eq!(repr.emit(&mut out[..21]), Err(NoRoom));
    }

    fn tag() -> impl Strategy<Value = Tag> {
        let kinds = &[ethertype::VLAN, ethertype::SERVICE_VLAN, ethertype::OLD_SERVICE_VLAN][..];
        (prop::sample::select(kinds), any::<u16>()).prop_map(|(kind, tci)| Tag { kind, vlan: Vlan(tci) })
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            dst: [u8; 6], src: [u8; 6], ethertype in 0u16..0x8000,
            tags in prop_oneof![
                Just(Tags::None), tag().prop_map(Tags::One), (tag(), tag()).prop_map(|(a, b)| Tags::Two(a, b)),
            ],
        ) {
            let repr = Repr { dst: Mac(dst), src: Mac(src), tags, ethertype };
            let mut out = [0xee; 22];
            let len = repr.emit(&mut out).unwrap();
            prop_assert_eq!(len, repr.header_len());
            prop_assert_eq!(Repr::parse(&out[..len]), Ok(repr));
        }
    }
}
