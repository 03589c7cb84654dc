//! GTP-U's own messages: path management and tunnel management (TS 29.281, 7.2 and 7.3; elements in clause 8).

use super::{HEADER_LEN, OPTIONAL_LEN, Packet, Repr, message_type};
use crate::fast::{array, be8, be16, be32, put};
use crate::{Malformed, NoRoom, Teid};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Information element types (TS 29.281, 8.1). Below 128 the length is fixed by the type.
mod element {
    pub const RECOVERY: u8 = 14;
    pub const TEID_DATA_I: u8 = 16;
    pub const PEER_ADDRESS: u8 = 133;
    pub const EXTENSION_TYPES: u8 = 141;
}

/// A GTP-U peer's address (TS 29.281, 8.4): 4 or 16 bytes on the wire.
pub type Peer = IpAddr;

/// A GTP-U message as values; lists are borrowed from the bytes they were read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Echo Request (7.2.1): is the path alive?
    EchoRequest {
        /// Copied into the answer.
        seq: u16,
    },
    /// Echo Response (7.2.2).
    EchoResponse {
        /// Copied from the request.
        seq: u16,
        /// Restart counter: sent as zero, ignored when received.
        recovery: u8,
    },
    /// Error Indication (7.3.1): a G-PDU arrived for a tunnel that is not there.
    ErrorIndication {
        /// Not evaluated by the receiver.
        seq: u16,
        /// The tunnel endpoint identifier of the G-PDU, hence the sender's own.
        teid: Teid,
        /// The address the G-PDU was sent to, hence the sender's own.
        peer: Peer,
    },
    /// Supported Extension Headers Notification (7.2.3).
    SupportedExtensions {
        /// Not evaluated by the receiver.
        seq: u16,
        /// Every extension header type the sender supports; at most 255.
        types: &'a [u8],
    },
    /// End Marker (7.3.2): nothing more will come down this path for this tunnel.
    EndMarker {
        /// The tunnel that ends.
        teid: Teid,
        /// The QoS flow, in a 5G core.
        container: Option<super::Container>,
    },
    /// G-PDU (7.3.0): a user's packet.
    GPdu {
        /// The tunnel it belongs to.
        teid: Teid,
        /// The packet.
        payload: &'a [u8],
    },
    /// Any other type, to be dropped (TS 29.281, 11.1.3).
    Unknown(u8),
}

impl<'a> Message<'a> {
    /// Read a UDP payload. Unknown elements with a length are skipped, mandatory ones must be there.
    pub fn parse(udp_payload: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let header = super::Header::parse(udp_payload)?;
        let (payload, seq, teid) = (header.payload(udp_payload), header.seq, header.teid);
        match header.message_type {
            message_type::ECHO_REQUEST => Ok(Message::EchoRequest { seq }),
            message_type::ECHO_RESPONSE => {
                // Mandatory, though its value means nothing: some peers leave it out.
                let recovery = elements(payload)?.recovery.unwrap_or(0);
                Ok(Message::EchoResponse { seq, recovery })
            }
            message_type::ERROR_INDICATION => {
                let found = elements(payload)?;
                let teid = found.teid.ok_or(Malformed::MissingElement)?;
                let peer = found.peer.ok_or(Malformed::MissingElement)?;
                Ok(Message::ErrorIndication { seq, teid, peer })
            }
            message_type::SUPPORTED_EXTENSIONS => {
                let types = elements(payload)?.extension_types.ok_or(Malformed::MissingElement)?;
                Ok(Message::SupportedExtensions { seq, types })
            }
            message_type::END_MARKER => {
                let container = Packet::new_checked(udp_payload)?.container();
                Ok(Message::EndMarker { teid, container })
            }
            message_type::G_PDU => Ok(Message::GPdu { teid, payload }),
            other => Ok(Message::Unknown(other)),
        }
    }

    /// The header this message is sent with: path messages use tunnel 0 and a sequence number (5.1).
    fn header(&self) -> Repr {
        let plain = |message_type, teid, seq| Repr {
            message_type,
            teid,
            seq,
            n_pdu: None,
            container: None,
            payload_len: self.payload_len(),
        };
        match *self {
            Message::EchoRequest { seq } => plain(message_type::ECHO_REQUEST, Teid(0), Some(seq)),
            Message::EchoResponse { seq, .. } => plain(message_type::ECHO_RESPONSE, Teid(0), Some(seq)),
            Message::ErrorIndication { seq, .. } => plain(message_type::ERROR_INDICATION, Teid(0), Some(seq)),
            Message::SupportedExtensions { seq, .. } => plain(message_type::SUPPORTED_EXTENSIONS, Teid(0), Some(seq)),
            Message::EndMarker { teid, container } => Repr { container, ..plain(message_type::END_MARKER, teid, None) },
            Message::GPdu { teid, .. } => plain(message_type::G_PDU, teid, None),
            Message::Unknown(kind) => plain(kind, Teid(0), None),
        }
    }

    fn payload_len(&self) -> u16 {
        let len = match self {
            Message::EchoResponse { .. } => 2,
            Message::ErrorIndication { peer: IpAddr::V4(_), .. } => 5 + 7,
            Message::ErrorIndication { peer: IpAddr::V6(_), .. } => 5 + 19,
            Message::SupportedExtensions { types, .. } => 2 + types.len(),
            Message::GPdu { payload, .. } => payload.len(),
            _ => 0,
        };
        len.min(0xffff) as u16
    }

    /// Bytes the whole message takes.
    pub fn message_len(&self) -> usize {
        self.header().header_len() + usize::from(self.payload_len())
    }

    /// The longest message that is not a G-PDU and lists no more than `types` extension headers, in bytes.
    pub const fn longest(types: usize) -> usize {
        let elements = if types > 22 { 2 + types } else { 24 };
        HEADER_LEN + OPTIONAL_LEN + elements
    }

    /// Write the whole message to the front of `out`; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let len = self.message_len();
        let out = out.get_mut(..len).ok_or(NoRoom)?;
        let at = self.header().emit(out)?;
        match *self {
            Message::EchoResponse { recovery, .. } => put(out, at, [element::RECOVERY, recovery]).ok_or(NoRoom)?,
            Message::ErrorIndication { teid, peer, .. } => {
                let [a, b, c, d] = teid.0.to_be_bytes();
                put(out, at, [element::TEID_DATA_I, a, b, c, d]).ok_or(NoRoom)?;
                match peer {
                    IpAddr::V4(ip) => {
                        put(out, at + 5, [element::PEER_ADDRESS, 0, 4]).ok_or(NoRoom)?;
                        put(out, at + 8, ip.octets()).ok_or(NoRoom)?;
                    }
                    IpAddr::V6(ip) => {
                        put(out, at + 5, [element::PEER_ADDRESS, 0, 16]).ok_or(NoRoom)?;
                        put(out, at + 8, ip.octets()).ok_or(NoRoom)?;
                    }
                }
            }
            Message::SupportedExtensions { types, .. } => {
                let count = u8::try_from(types.len()).map_err(|_| NoRoom)?;
                put(out, at, [element::EXTENSION_TYPES, count]).ok_or(NoRoom)?;
                out.get_mut(at + 2..).ok_or(NoRoom)?.copy_from_slice(types);
            }
            Message::GPdu { payload, .. } => {
                let to = out.get_mut(at..).ok_or(NoRoom)?;
                if to.len() != payload.len() {
                    return Err(NoRoom);
                }
                to.copy_from_slice(payload);
            }
            Message::EchoRequest { .. } | Message::EndMarker { .. } | Message::Unknown(_) => {}
        }
        Ok(len)
    }
}

/// The elements any message here needs; the first of a kind counts.
#[derive(Default)]
struct Elements<'a> {
    recovery: Option<u8>,
    teid: Option<Teid>,
    peer: Option<Peer>,
    extension_types: Option<&'a [u8]>,
}

/// Walk the information elements (TS 29.281, 8.1).
fn elements(bytes: &[u8]) -> Result<Elements<'_>, Malformed> {
    const BAD: Malformed = Malformed::BadOption;
    let mut found = Elements::default();
    let mut at = 0;
    while let Some(kind) = be8(bytes, at) {
        let (from, len) = match kind {
            element::RECOVERY => (at + 1, 1),
            element::TEID_DATA_I => (at + 1, 4),
            element::EXTENSION_TYPES => (at + 2, usize::from(be8(bytes, at + 1).ok_or(BAD)?)), // one octet: 8.5
            0..128 => return Err(BAD), // a fixed length only its specification knows
            _ => (at + 3, usize::from(be16(bytes, at + 1).ok_or(BAD)?)),
        };
        let value = bytes.get(from..from + len).ok_or(BAD)?;
        match kind {
            element::RECOVERY => found.recovery = found.recovery.or(be8(value, 0)),
            element::TEID_DATA_I => found.teid = found.teid.or(be32(value, 0).map(Teid)),
            element::EXTENSION_TYPES => found.extension_types = found.extension_types.or(Some(value)),
            element::PEER_ADDRESS => {
                let peer = match value.len() {
                    4 => array::<4>(value, 0).map(|b| IpAddr::V4(Ipv4Addr::from(b))),
                    16 => array::<16>(value, 0).map(|b| IpAddr::V6(Ipv6Addr::from(b))),
                    _ => return Err(BAD),
                };
                found.peer = found.peer.or(peer);
            }
            _ => {}
        }
        at = from + len;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::Container;
    use super::*;
    use crate::Qfi;
    use proptest::prelude::*;

    #[track_caller]
    fn both_ways(message: Message<'_>, bytes: &[u8]) {
        let mut out = [0xee; 64];
        let len = message.emit(&mut out).unwrap();
        assert_eq!(&out[..len], bytes);
        assert_eq!(Message::parse(bytes), Ok(message));
        assert_eq!(message.emit(&mut out[..len - 1]), Err(NoRoom));
    }

    #[test]
    fn echo() {
        both_ways(Message::EchoRequest { seq: 0x1234 }, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0]);
        both_ways(
            Message::EchoResponse { seq: 0x1234, recovery: 0 },
            &[0x32, 2, 0, 6, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 14, 0],
        );
        // Without the element, with a private extension before it.
        assert_eq!(Message::parse(&[0x30, 2, 0, 0, 0, 0, 0, 0]), Ok(Message::EchoResponse { seq: 0, recovery: 0 }));
        let private = [0x32, 2, 0, 11, 0, 0, 0, 0, 0, 1, 0, 0, 255, 0, 2, 9, 9, 14, 3];
        assert_eq!(Message::parse(&private), Ok(Message::EchoResponse { seq: 1, recovery: 3 }));
    }

    #[test]
    fn error_indication() {
        let v4 = [0x32, 26, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0x12, 0x34, 133, 0, 4, 10, 0, 0, 1];
        let message =
            Message::ErrorIndication { seq: 0, teid: Teid(0x1234), peer: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)) };
        both_ways(message, &v4);
        let mut v6 = std::vec![0x32, 26, 0, 28, 0, 0, 0, 0, 0, 9, 0, 0, 16, 0, 0, 0, 1, 133, 0, 16];
        v6.extend(Ipv6Addr::LOCALHOST.octets());
        both_ways(Message::ErrorIndication { seq: 9, teid: Teid(1), peer: IpAddr::V6(Ipv6Addr::LOCALHOST) }, &v6);
        assert_eq!(v6.len(), Message::longest(0));

        // With the UDP Port extension header, without the sequence number.
        let port =
            [0x34, 26, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 8, 0x68, 0, 16, 0, 0, 0x12, 0x34, 133, 0, 4, 10, 0, 0, 1];
        assert_eq!(Message::parse(&port), Ok(message));

        let mut bad = v4;
        bad[19] = 5;
        assert_eq!(Message::parse(&bad), Err(Malformed::BadOption));
        bad[12] = 17;
        assert_eq!(Message::parse(&bad), Err(Malformed::BadOption));
        assert_eq!(Message::parse(&[0x30, 26, 0, 0, 0, 0, 0, 0]), Err(Malformed::MissingElement));
    }

    #[test]
    fn supported_extensions_and_end_marker() {
        both_ways(
            Message::SupportedExtensions { seq: 1, types: &[0x85, 0xc0] },
            &[0x32, 31, 0, 8, 0, 0, 0, 0, 0, 1, 0, 0, 141, 2, 0x85, 0xc0],
        );
        both_ways(Message::EndMarker { teid: Teid(5), container: None }, &[0x30, 254, 0, 0, 0, 0, 0, 5]);
        both_ways(
            Message::EndMarker { teid: Teid(5), container: Some(Container::down(Qfi(9))) },
            &[0x34, 254, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0x85, 1, 0, 9, 0],
        );
        both_ways(Message::GPdu { teid: Teid(5), payload: &[1, 2] }, &[0x30, 255, 0, 2, 0, 0, 0, 5, 1, 2]);
        both_ways(Message::Unknown(99), &[0x30, 99, 0, 0, 0, 0, 0, 0]);
        let many = [0x85; 256];
        assert_eq!(Message::SupportedExtensions { seq: 1, types: &many }.emit(&mut [0; 400]), Err(NoRoom));
        let huge = std::vec![0; 70_000];
        let g_pdu = Message::GPdu { teid: Teid(1), payload: &huge };
        assert_eq!(g_pdu.emit(&mut std::vec![0; 80_000]), Err(NoRoom));
    }

    proptest! {
        #[test]
        fn elements_never_panic(body in prop::collection::vec(any::<u8>(), 0..50), kind in prop::sample::select(&[1u8, 2, 26, 31, 254][..])) {
            let mut bytes = std::vec![0x30, kind, 0, body.len() as u8, 0, 0, 0, 0];
            bytes.extend(&body);
            let _ = Message::parse(&bytes);
        }
    }
}
