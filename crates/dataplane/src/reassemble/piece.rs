//! A fragment as it came, and the header of the whole.

use engine::Drop;
use wire::{L3L4, checksum, fast, ip4, ip6, protocol};

use super::datagrams::Whose;

use crate::drops;

/// What all fragments of a packet have in common: RFC 791, 3.2; RFC 8200, 4.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub src: u128,
    pub dst: u128,
    pub ident: u32,
    /// Its subscriber: fragments of one cannot spoil another's packet.
    pub owner: u64,
    pub domain: u16,
    /// IPv4's protocol; IPv6 does not ask.
    pub protocol: u8,
    pub version: u8,
}

/// One fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub key: Key,
    /// Where its data belong, in bytes.
    pub offset: usize,
    pub more: bool,
    /// What is kept: its data, and of the first the header too.
    pub bytes: &'a [u8],
    /// Bytes of header among them.
    pub head: usize,
    pub ecn: u8,
}

impl<'a> Piece<'a> {
    /// Reads a fragment that the parser has seen.
    ///
    /// # Errors
    /// [`drops::MALFORMED`]: it is none, has no data, or others follow and its data are no multiple of eight bytes.
    pub(super) fn read(packet: &'a [u8], ip: &L3L4, whose: Whose) -> Result<Piece<'a>, Drop> {
        let packet = packet.get(..ip.total_len as usize).ok_or(drops::MALFORMED)?;
        let piece = if ip.version == 4 { Self::read4(packet, ip, whose) } else { Self::read6(packet, ip, whose) };
        let sound = |piece: &Piece<'_>| piece.len() > 0 && (!piece.more || piece.len().is_multiple_of(8));
        piece.filter(sound).ok_or(drops::MALFORMED)
    }

    fn read4(packet: &'a [u8], ip: &L3L4, whose: Whose) -> Option<Piece<'a>> {
        let word = fast::be16(packet, ip4::field::FRAGMENT)?;
        let head = usize::from(ip.l4);
        let offset = usize::from(word & 0x1fff) * 8;
        let ident = fast::be16(packet, ip4::field::IDENT)?.into();
        let (src, dst) = (ip.src.into(), ip.dst.into());
        let Whose { domain, owner, .. } = whose;
        let key = Key { src, dst, ident, owner, domain, protocol: ip.protocol, version: 4 };
        let (bytes, head) = if offset == 0 { (packet, head) } else { (packet.get(head..)?, 0) };
        Some(Piece { key, offset, more: word & ip4::MORE_FRAGMENTS != 0, bytes, head, ecn: ip.ecn() })
    }

    fn read6(packet: &'a [u8], ip: &L3L4, whose: Whose) -> Option<Piece<'a>> {
        let info = ip6::walk(packet, fast::be8(packet, ip6::field::NEXT)?).ok()?.fragment?;
        let head = usize::from(info.at) + ip6::FRAGMENT_LEN;
        let (src, dst) = (ip.src6(packet), ip.dst6(packet));
        let Whose { domain, owner, .. } = whose;
        let key = Key { src, dst, ident: info.id, owner, domain, protocol: 0, version: 6 };
        // The fragment header is kept: it says what follows it.
        let (bytes, head) = if info.offset == 0 { (packet, head) } else { (packet.get(head..)?, 0) };
        Some(Piece { key, offset: info.offset.into(), more: info.more, bytes, head, ecn: ip.ecn() })
    }

    /// Its data.
    pub(super) fn data(&self) -> &'a [u8] {
        self.bytes.get(self.head..).unwrap_or_default()
    }

    /// Bytes of data.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    /// Bytes of header that the whole will have, as far as this one tells: at least the fixed one's.
    pub(super) fn header_len(&self) -> usize {
        match (self.key.version, self.head) {
            (4, head) => head.max(ip4::HEADER_LEN),
            (_, head) => head.saturating_sub(ip6::FRAGMENT_LEN).max(ip6::HEADER_LEN),
        }
    }
}

/// Makes the header that stands at the front of `packet` the whole's: of no fragment, with the length of `packet`.
/// `ce`: with congestion experienced.
pub(super) fn finish4(packet: &mut [u8], ce: bool) -> Option<()> {
    let total = u16::try_from(packet.len()).ok()?;
    let len = usize::from(fast::be8(packet, 0)? & 15) * 4;
    let head = packet.get_mut(..len)?;
    fast::put16(head, ip4::field::LENGTH, total)?;
    fast::put16(head, ip4::field::FRAGMENT, 0)?;
    let tos = fast::be8(head, ip4::field::TOS)?;
    fast::put8(head, ip4::field::TOS, if ce { tos | 3 } else { tos })?;
    fast::put16(head, ip4::field::CHECKSUM, 0)?;
    let check = checksum::of(head);
    fast::put16(head, ip4::field::CHECKSUM, check)
}

/// As [`finish4`], for IPv6: `next` is what the fragment header led to, which is not there any more; the header before
/// it was `head` bytes long.
pub(super) fn finish6(packet: &mut [u8], head: usize, next: u8, ce: bool) -> Option<()> {
    let payload = u16::try_from(packet.len().checked_sub(ip6::HEADER_LEN)?).ok()?;
    fast::put16(packet, ip6::field::LENGTH, payload)?;
    let flow = fast::be16(packet, ip6::field::FLOW)?;
    fast::put16(packet, ip6::field::FLOW, if ce { flow | 0x30 } else { flow })?;
    // The last field that says what comes next is the one that said "fragment".
    let (mut field, mut at) = (ip6::field::NEXT, ip6::HEADER_LEN);
    while at < head {
        field = at;
        at += 8 + usize::from(fast::be8(packet, at + 1)?) * 8;
    }
    (fast::be8(packet, field)? == protocol::FRAGMENT).then_some(())?;
    fast::put8(packet, field, next)
}
