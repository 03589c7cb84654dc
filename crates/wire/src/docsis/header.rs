//! The header itself.

use super::{BONDED_EXTENDED, BONDED_HEADER_LEN, Element, Elements, HCS_LEN, HEADER_LEN, MAX_EXTENDED, Privacy};
use crate::fast::{be8, be16, part, put, put8, put16};
use crate::{Malformed, NoRoom, crc};

/// What a frame is, by its FC byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An Ethernet frame (`0x00`, `0x01`).
    Packet,
    /// An Ethernet frame modems before DOCSIS 3.0 ignore (`0x80`).
    Isolation,
    /// A timing message (`0xc0`).
    Timing,
    /// A MAC management message (`0xc2`).
    Management,
    /// A request for minislots (`0xc4`); nothing follows the header.
    Request,
    /// A piece of a frame (`0xc6`).
    Fragment,
    /// A request for bytes in units (`0xc8`); nothing follows the header.
    QueueDepth,
    /// Several frames (`0xf8`).
    Concatenation,
}

impl Kind {
    /// Its FC byte, without EHDR_ON.
    pub const fn fc(self) -> u8 {
        match self {
            Kind::Packet => 0x00,
            Kind::Isolation => 0x80,
            Kind::Timing => 0xc0,
            Kind::Management => 0xc2,
            Kind::Request => 0xc4,
            Kind::Fragment => 0xc6,
            Kind::QueueDepth => 0xc8,
            Kind::Concatenation => 0xf8,
        }
    }

    /// The kind of an FC byte.
    #[inline]
    pub const fn of(fc: u8) -> Result<Kind, Malformed> {
        Ok(match fc & 0xfe {
            0x00 => Kind::Packet,
            0x80 => Kind::Isolation,
            0xc0 => Kind::Timing,
            0xc2 => Kind::Management,
            0xc4 => Kind::Request,
            0xc6 => Kind::Fragment,
            0xc8 => Kind::QueueDepth,
            0xf8 => Kind::Concatenation,
            _ => return Err(Malformed::BadType),
        })
    }
}

/// A MAC header as values; its check sequence was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// The header's bytes, through the HCS.
    pub header_len: u16,
    /// The whole frame's bytes, from FC through the Ethernet CRC.
    pub frame_len: u32,
    /// Bytes of the extended header.
    pub extended_len: u8,
    /// MAC_PARM where it is no length: minislots of a request, frames of a concatenation; the units of a queue-depth
    /// request.
    pub parameter: u16,
    /// Service identifier of a request; 0 for every other frame.
    pub sid: u16,
}

impl Header {
    /// Reads the header at the front of `bytes`; what follows it need not all be there.
    ///
    /// Guarantees a kind we know, `header_len <= bytes.len()`, `header_len <= frame_len` and a right HCS. Elements are
    /// not looked at.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Header, Malformed> {
        let [fc, parm, high, low, ..] = *bytes else { return Err(Malformed::Short) };
        let kind = Kind::of(fc)?;
        let length = u16::from_be_bytes([high, low]);
        let extended_len = match kind {
            Kind::Request | Kind::QueueDepth | Kind::Concatenation => 0,
            _ if fc & 1 == 0 => 0,
            _ if usize::from(parm) > MAX_EXTENDED => return Err(Malformed::BadHeaderLength),
            _ => parm,
        };
        let header_len = match kind {
            Kind::QueueDepth => HEADER_LEN + 1,
            _ => HEADER_LEN + usize::from(extended_len),
        };
        let covered = header_len - HCS_LEN;
        let hcs = bytes.get(covered..header_len).ok_or(Malformed::Short)?;
        if crc::hcs(part(bytes, 0, covered)).to_le_bytes() != *hcs {
            return Err(Malformed::BadHcs);
        }
        let plain = Header {
            kind,
            header_len: header_len as u16, // at most 246
            frame_len: header_len as u32,
            extended_len,
            parameter: u16::from(parm),
            sid: 0,
        };
        Ok(match kind {
            Kind::Request => Header { sid: length, ..plain },
            // A size of 16 bits, then the service identifier.
            Kind::QueueDepth => Header {
                parameter: u16::from_be_bytes([parm, high]),
                sid: u16::from_be_bytes([low, be8(bytes, 4).unwrap_or(0)]),
                ..plain
            },
            _ if length < u16::from(extended_len) => return Err(Malformed::BadLength),
            _ => Header { frame_len: HEADER_LEN as u32 + u32::from(length), ..plain },
        })
    }

    /// The elements of the extended header, out of the bytes it was read from.
    #[inline]
    pub fn elements<'a>(&self, bytes: &'a [u8]) -> Elements<'a> {
        let from = HEADER_LEN - HCS_LEN;
        Elements::of(part(bytes, from, from + usize::from(self.extended_len)))
    }

    /// What the header carries: an Ethernet frame with its CRC, or a message. Cut where the bytes end.
    #[inline]
    pub fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        part(bytes, self.header_len.into(), self.frame_len as usize)
    }
}

/// Writes the header of a frame of `payload_len` bytes behind the HCS, with those elements, to the front of `out`;
/// returns its length. Not for requests.
#[inline]
pub fn emit_frame(kind: Kind, elements: &[Element<'_>], payload_len: usize, out: &mut [u8]) -> Result<usize, NoRoom> {
    let mut at = HEADER_LEN - HCS_LEN;
    for element in elements {
        at += element.emit(out.get_mut(at..).ok_or(NoRoom)?)?;
    }
    let extended = at - (HEADER_LEN - HCS_LEN);
    if extended > MAX_EXTENDED {
        return Err(NoRoom);
    }
    let length = u16::try_from(extended + payload_len).map_err(|_| NoRoom)?;
    let on = u8::from(extended > 0);
    put(out, 0, [kind.fc() | on, extended as u8]).ok_or(NoRoom)?; // at most 240
    put16(out, 2, length).ok_or(NoRoom)?;
    let check = crc::hcs(part(out, 0, at)).to_le_bytes();
    put(out, at, check).ok_or(NoRoom)?;
    Ok(at + HCS_LEN)
}

/// The privacy element of bonded frames, ready to be put into their headers: the same in all frames of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BondedPrivacy {
    bytes: [u8; 4],
    /// What it adds to the header's check.
    check: u16,
}

impl BondedPrivacy {
    /// That privacy.
    pub fn new(privacy: Privacy) -> Self {
        let [a, b, c] = privacy.bytes();
        let at = HEADER_LEN - HCS_LEN;
        Self { bytes: [0x44, a, b, c], check: crc::hcs_part(&[0x44, a, b, c], at, BONDED_HEADER_LEN - HCS_LEN) }
    }
}

/// What [`emit_frame`] writes for a packet with downstream privacy and a numbered downstream service, all at once:
/// nearly every frame there is. `stream`: the downstream service identifier, and the number of the packet in it.
#[inline(always)]
pub fn emit_bonded(
    privacy: &BondedPrivacy,
    priority: u8,
    stream: (u32, u16),
    payload_len: usize,
    out: &mut [u8; BONDED_HEADER_LEN],
) -> Result<(), NoRoom> {
    let length = u16::try_from(usize::from(BONDED_EXTENDED) + payload_len).map_err(|_| NoRoom)?;
    let [l0, l1] = length.to_be_bytes();
    let [p0, p1, p2, p3] = privacy.bytes;
    // Of the identifier, 20 bits.
    let service = 0x8500_0000 | u32::from(priority & 7) << 21 | stream.0 & 0xf_ffff;
    let [d0, d1, d2, d3] = service.to_be_bytes();
    let [s0, s1] = stream.1.to_be_bytes();
    let on = Kind::Packet.fc() | 1;
    let rest = crc::hcs(&[on, BONDED_EXTENDED, l0, l1, 0, 0, 0, 0, 0, d0, d1, d2, d3, s0, s1]);
    let [h0, h1] = (rest ^ privacy.check).to_le_bytes();
    *out = [on, BONDED_EXTENDED, l0, l1, p0, p1, p2, p3, 0, d0, d1, d2, d3, s0, s1, h0, h1];
    Ok(())
}

/// Writes a queue-depth request for `size` units by service identifier `sid`; returns its length.
pub fn emit_request(size: u16, sid: u16, out: &mut [u8]) -> Result<usize, NoRoom> {
    let out = out.get_mut(..HEADER_LEN + 1).ok_or(NoRoom)?;
    put8(out, 0, Kind::QueueDepth.fc()).ok_or(NoRoom)?;
    put16(out, 1, size).ok_or(NoRoom)?;
    put16(out, 3, sid).ok_or(NoRoom)?;
    let check = crc::hcs(part(out, 0, 5)).to_le_bytes();
    put(out, 5, check).ok_or(NoRoom)?;
    debug_assert_eq!(be16(out, 1), Some(size));
    Ok(HEADER_LEN + 1)
}

#[cfg(test)]
mod tests {
    use super::super::element;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_management_header_from_a_capture() {
        let bytes = [0xc2, 0, 0, 0x38, 0xba, 0x43, 1];
        let header = Header::parse(&bytes).unwrap();
        assert_eq!((header.kind, header.header_len, header.frame_len), (Kind::Management, 6, 62));
        assert_eq!((header.payload(&bytes), header.elements(&bytes).next()), (&[1][..], None));
        let mut out = [0; 6];
        assert_eq!(emit_frame(Kind::Management, &[], 56, &mut out), Ok(6));
        assert_eq!(out, bytes[..6]);
    }

    #[test]
    fn requests_carry_nothing() {
        let mut out = [0; 7];
        assert_eq!(emit_request(0x0102, 0x1234, &mut out), Ok(7));
        assert_eq!(out[..5], [0xc8, 1, 2, 0x12, 0x34]);
        let header = Header::parse(&out).unwrap();
        assert_eq!((header.parameter, header.sid, header.frame_len), (0x0102, 0x1234, 7));
        let mut request = [0xc4, 3, 0x12, 0x34, 0, 0];
        let check = crc::hcs(&request[..4]).to_le_bytes();
        request[4..].copy_from_slice(&check);
        let header = Header::parse(&request).unwrap();
        assert_eq!((header.kind, header.parameter, header.sid, header.frame_len), (Kind::Request, 3, 0x1234, 6));
    }

    #[test]
    fn refuses_what_lies() {
        use Malformed::*;
        let sealed = |head: &[u8]| [head, &crc::hcs(head).to_le_bytes(), &[0; 20]].concat();
        assert_eq!(Header::parse(&[0xc2, 0, 0]), Err(Short));
        assert_eq!(Header::parse(&[0xc2, 0, 0, 0x38, 0xba]), Err(Short));
        assert_eq!(Header::parse(&[0xc2, 0, 0, 0x39, 0xba, 0x43]), Err(BadHcs));
        assert_eq!(Header::parse(&sealed(&[0x40, 0, 0, 9])), Err(BadType));
        assert_eq!(Header::parse(&sealed(&[0x01, 241, 0, 255])), Err(BadHeaderLength));
        assert_eq!(Header::parse(&sealed(&[0x01, 2, 0, 1, 0x00, 0x00])), Err(BadLength));
        assert_eq!(Header::parse(&sealed(&[0x01, 2, 0, 2, 0x10, 0x00])).unwrap().frame_len, 8);
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            kind in prop::sample::select(&[Kind::Packet, Kind::Isolation, Kind::Management, Kind::Fragment][..]),
            elements in prop::collection::vec(element::tests::element(), 0..8), payload in 0usize..2000,
        ) {
            let mut out = [0xee; 150];
            let len = emit_frame(kind, &elements, payload, &mut out).unwrap();
            let header = Header::parse(&out).unwrap();
            prop_assert_eq!((header.kind, usize::from(header.header_len)), (kind, len));
            prop_assert_eq!(header.frame_len as usize, len + payload);
            prop_assert!(header.elements(&out).map(Result::unwrap).eq(elements));
        }

        #[test]
        fn all_at_once_is_one_by_one(
            key in 0u8..16, id in 0u16..0x4000, priority in 0u8..8, dsid in 0u32..1 << 20, number: u16, payload in 0usize..70_000,
        ) {
            let (mut one, mut all) = ([0; BONDED_HEADER_LEN], [0; BONDED_HEADER_LEN]);
            let privacy = Privacy::encrypted(key, id);
            let service = Element::DsService { priority, change: false, stream: Some((dsid, Some(number))) };
            let emitted = emit_frame(Kind::Packet, &[Element::BpDown(privacy), service], payload, &mut one);
            let whole = emit_bonded(&BondedPrivacy::new(privacy), priority, (dsid, number), payload, &mut all);
            prop_assert_eq!(whole.is_ok(), emitted.is_ok());
            prop_assert!(whole.is_err() || one == all);
        }

        #[test]
        fn a_changed_bit_is_seen(sequence: u16, at in 0usize..BONDED_HEADER_LEN, bit in 0u8..8) {
            let down = Element::BpDown(Privacy::encrypted(3, 77));
            let service = Element::DsService { priority: 1, change: false, stream: Some((9, Some(sequence))) };
            let mut out = [0; BONDED_HEADER_LEN];
            prop_assert_eq!(emit_frame(Kind::Packet, &[down, service], 1000, &mut out), Ok(BONDED_HEADER_LEN));
            out[at] ^= 1 << bit;
            prop_assert!(Header::parse(&out).is_err());
        }
    }
}
