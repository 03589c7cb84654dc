//! Congestion marks of the transport, carried into the user's packet (RFC 6040, 4.2).

use engine::Drop;
use wire::gtpu::{Header, message_type};
use wire::{checksum, fast};

use crate::drops;

/// Values of the two bits (RFC 3168, 5): not capable, capable with either codepoint, congestion experienced.
const NOT_ECT: u8 = 0;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// The bit of the type of service of marks that can change the packet inside.
pub const MATTERS: u8 = 1;

/// Whether an outer mark can change the packet inside: ECT(1) or CE. Most packets have neither and are not looked at;
/// where the transport marks, a packet costs a second look at its headers.
#[inline(always)]
pub fn matters(outer_tos: u8) -> bool {
    outer_tos & MATTERS != 0
}

/// Carries the mark of a tunnel packet into the user's packet in its GTP-U message.
///
/// # Errors
/// The packet is to be dropped: congestion was experienced, and its ends would not understand. What is broken is left to
/// whoever parses it.
#[cold]
pub(crate) fn carry_in(outer_tos: u8, message: &mut [u8]) -> Result<(), Drop> {
    let Ok(header) = Header::parse(message) else { return Ok(()) };
    let inside = message.get_mut(usize::from(header.payload_offset)..header.end());
    let Some(packet) = inside.filter(|_| header.message_type == message_type::G_PDU) else { return Ok(()) };
    let Some(word) = fast::be16(packet, 0) else { return Ok(()) };
    // In IPv6 the class begins at bit 4, the flow label takes its place behind.
    let (shift, is_v4) = if word >> 12 == 4 { (0, true) } else { (4, false) };
    let now = combine((word >> shift) as u8 & CE, outer_tos & CE)?;
    let marked = word & !(u16::from(CE) << shift) | u16::from(now) << shift;
    fast::put16(packet, 0, marked);
    if let Some(check) = fast::be16(packet, 10).filter(|_| is_v4 && marked != word) {
        fast::put16(packet, 10, checksum::adjust16(check, word, marked));
    }
    Ok(())
}

/// RFC 6040, figure 4.
fn combine(inner: u8, outer: u8) -> Result<u8, Drop> {
    match (inner, outer) {
        (NOT_ECT, CE) => Err(drops::ECN_ILLEGAL),
        (NOT_ECT, _) => Ok(NOT_ECT),
        (_, CE) => Ok(CE),
        (ECT_0, ECT_1) => Ok(ECT_1),
        _ => Ok(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_marks_ends_as_the_table_says() {
        // Inner Not-ECT, ECT(0), ECT(1), CE; outer in the same order.
        let order = [NOT_ECT, ECT_0, ECT_1, CE];
        let table = [
            [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None],
            [Some(ECT_0), Some(ECT_0), Some(ECT_1), Some(CE)],
            [Some(ECT_1), Some(ECT_1), Some(ECT_1), Some(CE)],
            [Some(CE), Some(CE), Some(CE), Some(CE)],
        ];
        for (inner, row) in order.into_iter().zip(table) {
            for (outer, end) in order.into_iter().zip(row) {
                assert_eq!(combine(inner, outer).ok(), end, "{inner} in {outer}");
                assert!(matters(outer) || end == Some(inner), "only what matters changes anything");
            }
        }
    }

    #[test]
    fn what_is_no_users_packet_is_left_alone() {
        for bytes in [&[][..], &[0x30; 7], &[0x30, 255, 0, 0, 0, 0, 0, 1], &[0x30, 255, 0, 1, 0, 0, 0, 1, 0x45]] {
            let mut message = bytes.to_vec();
            assert_eq!(carry_in(CE, &mut message), Ok(()));
            assert_eq!(message, bytes);
        }
        let mut echo = [0x30, 1, 0, 2, 0, 0, 0, 0, 0x45, 0];
        assert_eq!(carry_in(CE, &mut echo), Ok(()));
    }
}
