//! GTP-U (3GPP TS 29.281, 5.1), with its extension headers and messages.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! | ver |P|-|E|S|N|  message type |            length             |  0   length: bytes from offset 8
//! |                 tunnel endpoint identifier                    |  4
//! |        sequence number        | N-PDU number  |next extension |  8   there if any of E, S, N is set
//! |  length / 4   |            content            |next extension | 12   …repeated while "next" is not 0
//! ```
//!
//! [`Header::parse`] is the hot path's view; [`Packet`] the field-by-field one; [`Extensions`] walks the chain;
//! [`Container`] is the PDU Session Container; [`Message`] the path and tunnel management messages.

mod container;
mod extension;
mod header;
mod message;

pub use container::Container;
pub use extension::{Extension, Extensions};
pub use header::Header;
pub use message::{Message, Peer};

use crate::fast::{at8, at16, at32, part, put8, put16, put32};
use crate::{Malformed, NoRoom, Teid};

/// The UDP port GTP-U is received at (TS 29.281, 4.4.2.3).
pub const PORT: u16 = 2152;
/// The mandatory part of the header, in bytes.
pub const HEADER_LEN: usize = 8;
/// The sequence number, N-PDU number and next-extension fields, in bytes.
pub const OPTIONAL_LEN: usize = 4;
/// A G-PDU header with the shortest PDU Session Container, in bytes.
pub const HEADER_WITH_CONTAINER_LEN: usize = HEADER_LEN + OPTIONAL_LEN + Container::SHORT_LEN;

/// Message types (TS 29.281, 6.1).
pub mod message_type {
    pub const ECHO_REQUEST: u8 = 1;
    pub const ECHO_RESPONSE: u8 = 2;
    pub const ERROR_INDICATION: u8 = 26;
    /// Supported Extension Headers Notification.
    pub const SUPPORTED_EXTENSIONS: u8 = 31;
    pub const END_MARKER: u8 = 254;
    /// G-PDU: a user's packet.
    pub const G_PDU: u8 = 255;

    /// Whether it is one of these; any other is dropped (11.1.3).
    pub const fn is_known(kind: u8) -> bool {
        matches!(kind, ECHO_REQUEST | ECHO_RESPONSE | ERROR_INDICATION | SUPPORTED_EXTENSIONS | END_MARKER | G_PDU)
    }
}

/// Extension header types (TS 29.281, 5.2.1).
pub mod extension_type {
    /// The chain ends.
    pub const NONE: u8 = 0x00;
    /// UDP Port, in an Error Indication: where the offending packet came from.
    pub const UDP_PORT: u8 = 0x40;
    /// Long PDCP PDU Number, sent during handover.
    pub const LONG_PDCP_PDU_NUMBER: u8 = 0x82;
    /// PDU Session Container (TS 38.415).
    pub const PDU_SESSION_CONTAINER: u8 = 0x85;
    /// PDCP PDU Number, sent during handover.
    pub const PDCP_PDU_NUMBER: u8 = 0xc0;
    /// All that [`super::Header::parse`] comprehends, as Supported Extension Headers Notification lists them (7.2.3).
    pub const SUPPORTED: [u8; 4] = [UDP_PORT, LONG_PDCP_PDU_NUMBER, PDU_SESSION_CONTAINER, PDCP_PDU_NUMBER];
}

/// Flags in the first octet (TS 29.281, 5.1).
pub mod flag {
    /// Version 1, protocol type GTP.
    pub const VERSION_1: u8 = 0x30;
    /// The next-extension field means something.
    pub const E: u8 = 0x04;
    /// The sequence number means something.
    pub const S: u8 = 0x02;
    /// The N-PDU number means something.
    pub const PN: u8 = 0x01;
    /// Any of the three: the optional fields are there.
    pub const OPTIONAL: u8 = E | S | PN;
}

/// Where the fields are, in bytes from the start of the header.
pub mod field {
    /// Version and flags.
    pub const FLAGS: usize = 0;
    /// Message type.
    pub const TYPE: usize = 1;
    /// Length of what follows the mandatory part.
    pub const LENGTH: usize = 2;
    /// Tunnel endpoint identifier.
    pub const TEID: usize = 4;
    /// Sequence number.
    pub const SEQ: usize = 8;
    /// N-PDU number.
    pub const N_PDU: usize = 10;
    /// Type of the first extension header.
    pub const NEXT: usize = 11;
}

/// A view of one GTP-U message, a UDP payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T>(T);

impl<T: AsRef<[u8]>> Packet<T> {
    /// Check and wrap. Guarantees version 1, protocol type GTP, a length within the bytes, the optional fields if a
    /// flag announces them, and a chain of extension headers that ends within the length.
    pub fn new_checked(bytes: T) -> Result<Self, Malformed> {
        Header::parse(bytes.as_ref())?;
        Ok(Packet(bytes))
    }

    /// The bytes back.
    pub fn into_inner(self) -> T {
        self.0
    }

    fn b(&self) -> &[u8] {
        self.0.as_ref()
    }

    /// The first octet: version, protocol type and [`flag`]s.
    pub fn flags(&self) -> u8 {
        at8(self.b(), field::FLAGS)
    }

    /// Message type, see [`message_type`].
    pub fn message_type(&self) -> u8 {
        at8(self.b(), field::TYPE)
    }

    /// Bytes behind the mandatory part.
    pub fn length(&self) -> u16 {
        at16(self.b(), field::LENGTH)
    }

    /// The receiver's tunnel endpoint identifier.
    pub fn teid(&self) -> Teid {
        Teid(at32(self.b(), field::TEID))
    }

    /// The sequence number, if flagged.
    pub fn seq(&self) -> Option<u16> {
        (self.flags() & flag::S != 0).then(|| at16(self.b(), field::SEQ))
    }

    /// The N-PDU number, if flagged.
    pub fn n_pdu(&self) -> Option<u8> {
        (self.flags() & flag::PN != 0).then(|| at8(self.b(), field::N_PDU))
    }

    /// The extension headers, outermost first.
    pub fn extensions(&self) -> Extensions<'_> {
        Extensions::new(part(self.b(), 0, self.end()))
    }

    /// The first PDU Session Container in the chain, if there is one that can be read.
    pub fn container(&self) -> Option<Container> {
        self.extensions()
            .flatten()
            .find(|e| e.kind == extension_type::PDU_SESSION_CONTAINER)
            .and_then(|e| Container::parse(e.content).ok())
    }

    /// What the header carries: a user's packet in a G-PDU, information elements otherwise.
    pub fn payload(&self) -> &[u8] {
        part(self.b(), self.payload_offset(), self.end())
    }

    fn end(&self) -> usize {
        HEADER_LEN + usize::from(self.length())
    }

    fn payload_offset(&self) -> usize {
        Header::parse(self.b()).map_or(usize::MAX, |h| usize::from(h.payload_offset))
    }
}

/// The header as values: what is put before a user's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Message type, see [`message_type`].
    pub message_type: u8,
    /// The receiver's tunnel endpoint identifier.
    pub teid: Teid,
    /// Sequence number, if one is sent.
    pub seq: Option<u16>,
    /// N-PDU number, if one is sent.
    pub n_pdu: Option<u8>,
    /// PDU Session Container, if one is sent.
    pub container: Option<Container>,
    /// Bytes behind this header.
    pub payload_len: u16,
}

impl Repr {
    /// A G-PDU's header.
    pub const fn g_pdu(teid: Teid, container: Option<Container>, payload_len: u16) -> Repr {
        Repr { message_type: message_type::G_PDU, teid, seq: None, n_pdu: None, container, payload_len }
    }

    /// Read a header; extension headers other than the PDU Session Container are walked but not kept.
    pub fn parse(udp_payload: &[u8]) -> Result<Repr, Malformed> {
        let p = Packet::new_checked(udp_payload)?;
        Ok(Repr {
            message_type: p.message_type(),
            teid: p.teid(),
            seq: p.seq(),
            n_pdu: p.n_pdu(),
            container: p.container(),
            payload_len: p.payload().len() as u16, // within a 16-bit length
        })
    }

    const fn has_optional(&self) -> bool {
        self.seq.is_some() || self.n_pdu.is_some() || self.container.is_some()
    }

    /// Bytes the header takes, extension headers included.
    pub fn header_len(&self) -> usize {
        HEADER_LEN
            + if self.has_optional() { OPTIONAL_LEN } else { 0 }
            + self.container.map_or(0, |c| c.extension_len())
    }

    /// Write the header to the front of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.header_len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        let length = usize::from(self.payload_len) + len - HEADER_LEN;
        let mut flags = flag::VERSION_1;
        if self.has_optional() {
            put16(out, field::SEQ, self.seq.unwrap_or(0)).ok_or(NoRoom)?;
            put8(out, field::N_PDU, self.n_pdu.unwrap_or(0)).ok_or(NoRoom)?;
            put8(out, field::NEXT, extension_type::NONE).ok_or(NoRoom)?;
            flags |= if self.seq.is_some() { flag::S } else { 0 };
            flags |= if self.n_pdu.is_some() { flag::PN } else { 0 };
        }
        if let Some(container) = &self.container {
            flags |= flag::E;
            put8(out, field::NEXT, extension_type::PDU_SESSION_CONTAINER).ok_or(NoRoom)?;
            let (_, rest) = out.split_at_mut_checked(HEADER_LEN + OPTIONAL_LEN).ok_or(NoRoom)?;
            container.emit_extension(extension_type::NONE, rest)?;
        }
        put8(out, field::FLAGS, flags).ok_or(NoRoom)?;
        put8(out, field::TYPE, self.message_type).ok_or(NoRoom)?;
        put16(out, field::LENGTH, u16::try_from(length).map_err(|_| NoRoom)?).ok_or(NoRoom)?;
        put32(out, field::TEID, self.teid.0).ok_or(NoRoom)?;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Qfi;
    use proptest::prelude::*;

    /// What a 5G core sends down: container with QFI 9, then the first bytes of a user's packet.
    const DOWN: [u8; 20] = [0x34, 0xff, 0, 12, 0, 0, 0x12, 0x34, 0, 0, 0, 0x85, 1, 0x00, 0x09, 0, 0x45, 0, 0, 0];

    #[test]
    fn a_g_pdu_with_container_both_ways() {
        let p = Packet::new_checked(&DOWN).unwrap();
        assert_eq!((p.message_type(), p.teid(), p.seq(), p.n_pdu()), (255, Teid(0x1234), None, None));
        assert_eq!(p.container(), Some(Container::down(Qfi(9))));
        assert_eq!(p.payload(), &[0x45, 0, 0, 0]);

        let mut out = [0xee; 20];
        let repr = Repr::g_pdu(Teid(0x1234), Some(Container::down(Qfi(9))), 4);
        assert_eq!(repr.header_len(), HEADER_WITH_CONTAINER_LEN);
        assert_eq!(repr.emit(&mut out), Ok(16));
        assert_eq!(out[..16], DOWN[..16]);
        assert_eq!(repr.emit(&mut out[..15]), Err(NoRoom));
        assert_eq!(Repr::parse(&DOWN), Ok(repr));
    }

    #[test]
    fn a_length_past_16_bits_is_not_sent() {
        let repr = Repr::g_pdu(Teid(1), Some(Container::down(Qfi(1))), 0xfff8);
        assert_eq!(repr.emit(&mut [0; 16]), Err(NoRoom));
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_parsed(
            message_type: u8, teid: u32, seq: Option<u16>, n_pdu: Option<u8>, container in container::strategy(),
            data in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let repr = Repr { message_type, teid: Teid(teid), seq, n_pdu, container, payload_len: data.len() as u16 };
            let mut bytes = std::vec![0xaa; repr.header_len()];
            prop_assert_eq!(repr.emit(&mut bytes), Ok(bytes.len()));
            bytes.extend(&data);
            prop_assert_eq!(Repr::parse(&bytes), Ok(repr));
            let view = Packet::new_checked(&bytes).unwrap();
            prop_assert_eq!(view.payload(), &data[..]);
            for cut in 0..bytes.len() {
                prop_assert!(Packet::new_checked(&bytes[..cut]).is_err());
            }
        }

        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..60), flags in 0x30u8..0x38, len: u8) {
            if let Some(b) = bytes.get_mut(0) { *b = flags; }
            if let Some(b) = bytes.get_mut(2) { *b = 0; }
            if let Some(b) = bytes.get_mut(3) { *b = len & 63; }
            if let Ok(p) = Packet::new_checked(&bytes) {
                let _ = (p.payload(), p.container(), p.extensions().count(), Message::parse(&bytes));
            }
        }
    }
}
