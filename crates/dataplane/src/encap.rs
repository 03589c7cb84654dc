//! Link encapsulation: the bytes before an IP header on a link, as a template.
//!
//! A next hop or a session has one. It may be Ethernet with up to two tags, a session header behind them, or nothing at all.

use wire::ethernet::{HEADER_LEN, TAG_LEN, Tags};
use wire::{Mac, Outer, ethernet, ethertype};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The longest link encapsulation, in bytes.
pub const MAX_LEN: usize = 32;
/// In the place of an offset: there is no such field.
pub const ABSENT: u8 = u8::MAX;

const ETHERNET: [[u8; 2]; 2] = [ethertype::IP4.to_be_bytes(), ethertype::IP6.to_be_bytes()];

/// The bytes before an IP header, 0 to [`MAX_LEN`] of them, and where in them fields stand that differ by packet. Offsets
/// are in bytes from the frame's start; the layout is shared with programs outside this one
/// (`docs/decisions/004-link-encapsulation-and-tagged-action.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LinkEncap {
    /// The template, for an IPv4 packet; what lies behind its length is zero.
    bytes: [u8; MAX_LEN],
    /// What the type field says of IPv4 and of IPv6, in network byte order.
    types: [[u8; 2]; 2],
    shape: Shape,
}

/// Length and offsets of a [`LinkEncap`]: equal for all of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(4))]
pub struct Shape {
    /// Bytes of the template.
    len: u8,
    /// The 16 bits that tell the address family, or [`ABSENT`].
    type_at: u8,
    /// A 16-bit length of what stands behind it, or [`ABSENT`]: a session header's.
    length_at: u8,
    /// The outermost tag's control information, whose first three bits are its priority (802.1Q, 9.6), or [`ABSENT`].
    tci_at: u8,
}

/// A header between Ethernet and the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionHeader<'a> {
    /// EtherType of what follows the tags.
    pub ethertype: u16,
    /// The header; its last two bytes tell the address family.
    pub bytes: &'a [u8],
    /// Where in it the 16-bit length stands of what follows that field.
    pub length_at: usize,
    /// What its last two bytes say of IPv4 and of IPv6.
    pub types: [u16; 2],
}

const _: () = assert!(size_of::<LinkEncap>() == 40 && size_of::<Shape>() == 4);

impl Shape {
    const fn ethernet(tags: usize) -> Self {
        let len = HEADER_LEN + tags * TAG_LEN;
        let tci_at = if tags == 0 { ABSENT } else { HEADER_LEN as u8 };
        Self { len: len as u8, type_at: len as u8 - 2, length_at: ABSENT, tci_at } // 22 at most
    }

    #[inline(always)]
    const fn word(self) -> u32 {
        u32::from_le_bytes([self.len, self.type_at, self.length_at, self.tci_at])
    }
}

const UNTAGGED: u32 = Shape::ethernet(0).word();
const ONE_TAG: u32 = Shape::ethernet(1).word();
const TWO_TAGS: u32 = Shape::ethernet(2).word();

impl LinkEncap {
    /// No byte at all: a link that carries IP packets as they are.
    pub const NONE: Self = Self {
        bytes: [0; MAX_LEN],
        types: [[0; 2]; 2],
        shape: Shape { len: 0, type_at: ABSENT, length_at: ABSENT, tci_at: ABSENT },
    };

    /// Ethernet with a stack of tags: 14, 18 or 22 bytes.
    pub fn ethernet(dst: Mac, src: Mac, tags: Tags) -> Self {
        let head = ethernet::Repr { dst, src, tags, ethertype: ethertype::IP4 };
        let mut encap = Self { types: ETHERNET, shape: Shape::ethernet(tags.len() / TAG_LEN), ..Self::NONE };
        // There is room: 22 bytes at most.
        let _ = head.emit(&mut encap.bytes);
        encap
    }

    /// The same with a session header between Ethernet and the packet, as access protocols have it.
    ///
    /// Returns `None` where all of it is longer than [`MAX_LEN`], or the header does not hold the fields.
    pub fn with_session(self, header: &SessionHeader<'_>) -> Option<Self> {
        let SessionHeader { ethertype, bytes, length_at, types } = *header;
        let (at, type_in) = (self.len(), bytes.len().checked_sub(2)?);
        let len = at + bytes.len();
        if len > MAX_LEN || length_at + 2 > type_in || self.shape.length_at != ABSENT {
            return None;
        }
        let mut encap = Self { types: types.map(u16::to_be_bytes), ..self };
        encap.bytes.get_mut(at.checked_sub(2)?..at)?.copy_from_slice(&ethertype.to_be_bytes());
        encap.bytes[at..len].copy_from_slice(bytes);
        encap.bytes[len - 2..len].copy_from_slice(&encap.types[0]);
        let [len, length_at, type_at] = [len, at + length_at, at + type_in].map(|at| at as u8); // 32 at most
        encap.shape = Shape { len, length_at, type_at, ..encap.shape };
        Some(encap)
    }

    /// The template, for an IPv4 packet.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or(&self.bytes)
    }

    /// Its length in bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        usize::from(self.shape.len)
    }

    /// Whether there is nothing before the IP header.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.shape.len == 0
    }

    /// Whether it is Ethernet with up to two tags, and nothing else.
    pub fn is_ethernet(&self) -> bool {
        matches!(self.shape.word(), UNTAGGED | ONE_TAG | TWO_TAGS)
    }

    /// The template, where it is Ethernet without tag.
    #[inline(always)]
    pub fn untagged(&self) -> Option<&[u8; HEADER_LEN]> {
        self.bytes.first_chunk().filter(|_| self.shape.word() == UNTAGGED)
    }

    /// Writes it to the front of a frame whose IP packet begins [`len`](Self::len) bytes behind. False, and nothing done,
    /// where the frame is shorter than that.
    #[inline(always)]
    pub fn write(&self, frame: &mut [u8]) -> bool {
        // Copies of a fixed size are a few moves.
        match self.shape.word() {
            UNTAGGED => self.put::<{ HEADER_LEN }>(frame),
            ONE_TAG => self.put::<{ HEADER_LEN + TAG_LEN }>(frame),
            TWO_TAGS => self.put::<{ HEADER_LEN + 2 * TAG_LEN }>(frame),
            _ => self.put_any(frame),
        }
    }

    /// Ethernet, whose type field is its end.
    #[inline(always)]
    fn put<const N: usize>(&self, frame: &mut [u8]) -> bool {
        let Some((to, packet)) = frame.split_first_chunk_mut::<N>() else { return false };
        if let Some(from) = self.bytes.first_chunk::<N>() {
            *to = *from;
            to[N - 2..].copy_from_slice(&self.types[usize::from(is6(packet))]);
        }
        true
    }

    /// Any other form: length and offsets as they are.
    #[inline(never)]
    fn put_any(&self, frame: &mut [u8]) -> bool {
        let template = self.bytes();
        let Some((to, packet)) = frame.split_at_mut_checked(template.len()) else { return false };
        to.copy_from_slice(template);
        let mut set = |at: u8, value: [u8; 2]| {
            if let Some(field) = to.get_mut(usize::from(at)..usize::from(at) + 2) {
                field.copy_from_slice(&value);
            }
        };
        if self.shape.type_at != ABSENT {
            set(self.shape.type_at, self.types[usize::from(is6(packet))]);
        }
        if self.shape.length_at != ABSENT {
            let before = template.len() - usize::from(self.shape.length_at) - 2;
            let len = u16::try_from(before + ip_len(packet)).unwrap_or(u16::MAX);
            set(self.shape.length_at, len.to_be_bytes());
        }
        true
    }

    /// Sets the priority of all tags, 0 to 7, in a frame that begins with this encapsulation. False: it has none.
    #[inline]
    pub(crate) fn set_pcp(&self, frame: &mut [u8], pcp: u8) -> bool {
        let at = usize::from(self.shape.tci_at);
        let Some(outermost) = frame.get_mut(at).filter(|_| self.shape.tci_at != ABSENT) else { return false };
        *outermost = *outermost & 0x1f | pcp << 5;
        // A tag's type behind the tag: there is another one.
        let behind = self.bytes.get(at + 2..at + TAG_LEN);
        if behind.is_some_and(|kind| is_tag(u16::from_be_bytes([kind[0], kind[1]])))
            && let Some(inner) = frame.get_mut(at + TAG_LEN)
        {
            *inner = *inner & 0x1f | pcp << 5;
        }
        true
    }
}

/// Whether a frame has these tags: their number, and their identifiers in order; types and priorities don't matter.
/// Priority tags (VLAN 0) belong to the untagged network (IEEE 802.1Q, 9.6).
#[inline]
pub fn same_vlans(tags: Tags, outer: &Outer) -> bool {
    let [outside, inside] = outer.vlans.map(|vlan| vlan.id());
    match (tags, outer.tags) {
        (Tags::None, 0) => true,
        (Tags::None, 1) => outside == 0,
        (Tags::One(tag), 1) => outside == tag.vlan.id(),
        (Tags::Two(first, second), 2) => outside == first.vlan.id() && inside == second.vlan.id(),
        _ => false,
    }
}

const fn is_tag(kind: u16) -> bool {
    matches!(kind, ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_SERVICE_VLAN)
}

#[inline(always)]
fn is6(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first >> 4 == 6)
}

/// An IP packet's length as its header tells: the frame may be padded.
fn ip_len(packet: &[u8]) -> usize {
    let at = if is6(packet) { wire::ip6::field::LENGTH } else { 2 };
    let len = wire::fast::be16(packet, at).map_or(packet.len(), usize::from);
    if is6(packet) { wire::ip6::HEADER_LEN + len } else { len }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::Vlan;
    use wire::ethernet::Tag;

    fn tag() -> impl Strategy<Value = Tag> {
        let kinds = prop::sample::select(&[ethertype::VLAN, ethertype::SERVICE_VLAN][..]);
        (kinds, any::<u16>()).prop_map(|(kind, tci)| Tag { kind, vlan: Vlan(tci) })
    }

    fn tags() -> impl Strategy<Value = Tags> {
        prop_oneof![Just(Tags::None), tag().prop_map(Tags::One), (tag(), tag()).prop_map(|(a, b)| Tags::Two(a, b))]
    }

    fn packet(six: bool, payload: u16) -> Vec<u8> {
        let [len, total] = [payload, payload + 20].map(u16::to_be_bytes);
        let head = if six { [&[0x60, 0, 0, 0], &len[..], &[0; 34]] } else { [&[0x45, 0], &total[..], &[0; 16]] };
        [head.concat(), vec![7; payload.into()]].concat()
    }

    /// Version and type, code, session, length, type: as RFC 2516, 4 has it.
    fn session_behind(tags: Tags, session: u16) -> LinkEncap {
        let mut bytes = [0x11, 0, 0, 0, 0, 0, 0, 0];
        bytes[2..4].copy_from_slice(&session.to_be_bytes());
        let header = SessionHeader { ethertype: 0x8864, bytes: &bytes, length_at: 4, types: [0x0021, 0x0057] };
        LinkEncap::ethernet(Mac([1; 6]), Mac([2; 6]), tags).with_session(&header).unwrap()
    }

    #[test]
    fn session_headers_that_do_not_fit_are_refused() {
        let plain = LinkEncap::ethernet(Mac::ZERO, Mac::ZERO, Tags::None);
        let header = |bytes| SessionHeader { ethertype: 0x8864, bytes, length_at: 4, types: [1, 2] };
        assert!(plain.with_session(&header(&[0; 18])).is_some_and(|encap| encap.len() == MAX_LEN));
        assert_eq!(plain.with_session(&header(&[0; 19])), None);
        assert_eq!(plain.with_session(&header(&[0; 7])), None);
        assert_eq!(LinkEncap::NONE.with_session(&header(&[0; 8])), None);
        assert_eq!(plain.with_session(&header(&[0; 8])).unwrap().with_session(&header(&[0; 8])), None);
    }

    proptest! {
        #[test]
        fn written_tags_are_parsed_back(dst: [u8; 6], src: [u8; 6], tags in tags(), six: bool, pcp in 0u8..8) {
            let encap = LinkEncap::ethernet(Mac(dst), Mac(src), tags);
            let mut frame = [vec![0xee; encap.len()], packet(six, 30)].concat();
            prop_assert!(encap.write(&mut frame));
            let ethertype = if six { ethertype::IP6 } else { ethertype::IP4 };
            let expected = ethernet::Repr { dst: Mac(dst), src: Mac(src), tags, ethertype };
            prop_assert_eq!(ethernet::Repr::parse(&frame), Ok(expected));
            prop_assert_eq!(&frame[encap.len()..], packet(six, 30));
            let mut any = frame.clone();
            prop_assert!(encap.put_any(&mut any) && any == frame);
            prop_assert_eq!(encap.set_pcp(&mut frame, pcp), !tags.is_empty());
            let outer = Outer::parse(&frame).unwrap();
            for vlan in &outer.vlans[..outer.tags.into()] {
                prop_assert_eq!(vlan.0, u16::from(pcp) << 13 | vlan.0 & 0x1fff);
            }
            prop_assert!(same_vlans(tags, &outer) && encap.len() == usize::from(outer.l3));
        }

        #[test]
        fn session_header_has_length_and_type(tags in tags(), session: u16, six: bool, payload in 0u16..1400, pad in 0usize..40) {
            let encap = session_behind(tags, session);
            let ip = packet(six, payload);
            let mut frame = [vec![0xee; encap.len()], ip.clone(), vec![0; pad]].concat();
            prop_assert!(encap.write(&mut frame));
            let outer = Outer::parse(&frame).unwrap();
            prop_assert_eq!((outer.ethertype, outer.l3 as usize), (0x8864, encap.len() - 8));
            let behind = &frame[outer.l3.into()..encap.len()];
            let word = |at: usize| u16::from_be_bytes([behind[at], behind[at + 1]]);
            let protocol = if six { 0x0057 } else { 0x0021 };
            prop_assert_eq!([word(0), word(2), word(4), word(6)], [0x1100, session, ip.len() as u16 + 2, protocol]);
        }
    }

    #[test]
    fn nothing_before_a_packet_changes_nothing() {
        let mut frame = packet(false, 8);
        assert!(LinkEncap::NONE.is_empty() && LinkEncap::NONE.write(&mut frame) && frame == packet(false, 8));
        assert!(!LinkEncap::NONE.set_pcp(&mut frame, 7));
    }

    #[test]
    fn short_frames_are_left_alone() {
        let two = Tags::Two(Tag::service(Vlan(1)), Tag::customer(Vlan(2)));
        for encap in [LinkEncap::ethernet(Mac::ZERO, Mac::ZERO, two), session_behind(two, 1)] {
            let mut frame = vec![0xee; encap.len() - 1];
            assert!(!encap.write(&mut frame) && frame.iter().all(|byte| *byte == 0xee));
        }
    }
}
