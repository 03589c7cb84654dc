//! Checksums completed that a sender left to hardware.
//!
//! Packets of a host at the other end of a veth come with the sum of the pseudo header where the checksum of TCP or
//! UDP belongs: its driver promised to do the rest, and a veth has nobody to do it. The kernel says so beside the
//! packet; whoever carries the packet on over a wire has to do it (RFC 9293, 3.1; RFC 768; RFC 8200, 8.1).
//!
//! Only what is understood is touched: where the field is not the pseudo header's sum, the sender left something else
//! undone (the checksum of a packet inside, say, or SCTP's), and the packet keeps its flag.

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Completes the checksum of the Ethernet packet's TCP or UDP. False: not understood, and left as it is.
#[cold]
pub fn complete(packet: &mut [u8]) -> bool {
    let Some((kind, end, pseudo, transport)) = locate(packet) else { return false };
    let Some(payload) = packet.get_mut(transport..end) else { return false };
    let at = match kind {
        TCP => 16,
        _ => 6,
    };
    // The transport's length is in the pseudo header, and fits: an IP packet is at most 64 KiB.
    let pseudo = fold(pseudo + u64::from(kind) + payload.len() as u64);
    if payload.get(at..at + 2) != Some(&pseudo.to_be_bytes()) {
        return false;
    }
    let checksum = match (!fold(sum(payload)), kind) {
        // Zero would mean that there is none.
        (0, UDP) => 0xffff,
        (checksum, _) => checksum,
    };
    payload[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// The transport: its protocol, the packet's end, the sum of its addresses, and where it begins.
fn locate(packet: &[u8]) -> Option<(u8, usize, u64, usize)> {
    let (mut at, mut kind) = (14, half(packet, 12)?);
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
        (at, kind) = (at + 4, half(packet, at + 2)?);
    }
    match kind {
        0x0800 => {
            let words = usize::from(packet.get(at)? & 15);
            // A fragment has no whole transport.
            if words < 5 || half(packet, at + 6)? & 0x3fff != 0 {
                return None;
            }
            let end = at + usize::from(half(packet, at + 2)?);
            transport(*packet.get(at + 9)?, end, sum(packet.get(at + 12..at + 20)?), at + words * 4)
        }
        0x86dd => {
            let end = at + 40 + usize::from(half(packet, at + 4)?);
            let addresses = sum(packet.get(at + 8..at + 40)?);
            let (mut next, mut at) = (*packet.get(at + 6)?, at + 40);
            // Hop-by-hop and destination options: what hosts send ahead of a transport. (With a routing header the
            // pseudo header has another address.)
            while matches!(next, 0 | 60) {
                (next, at) = (*packet.get(at)?, at + 8 + usize::from(*packet.get(at + 1)?) * 8);
            }
            transport(next, end, addresses, at)
        }
        _ => None,
    }
}

fn transport(kind: u8, end: usize, addresses: u64, at: usize) -> Option<(u8, usize, u64, usize)> {
    matches!(kind, TCP | UDP).then_some((kind, end, addresses, at))
}

fn half(packet: &[u8], at: usize) -> Option<u16> {
    packet.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// The words added up; an odd last byte is padded with zero.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |byte| u64::from(*byte) << 8);
    words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum::<u64>() + last
}

/// As one's complement, in 16 bits.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet as a sender leaves it: the checksum is the pseudo header's sum.
    fn left(six: bool, tags: usize, options: usize, kind: u8, payload: &[u8]) -> (Vec<u8>, usize) {
        let head = if kind == TCP { 20 } else { 8 };
        let len = (head + payload.len()) as u16;
        let mut packet = [2; 12].to_vec();
        (0..tags).for_each(|_| packet.extend([0x81, 0, 0, 7]));
        let addresses = packet.len() + 2 + if six { 8 } else { 12 };
        if six {
            let more = (options * 8) as u16;
            packet.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            packet.extend((len + more).to_be_bytes());
            packet.extend([if options > 0 { 60 } else { kind }, 64]);
            packet.extend((0..32).map(|at| at * 7));
            for n in 0..options {
                packet.extend([if n + 1 < options { 0 } else { kind }, 0, 1, 4, 0, 0, 0, 0]);
            }
        } else {
            packet.extend([8, 0, 0x45 + options as u8, 0]);
            packet.extend((20 + options as u16 * 4 + len).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, kind, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            packet.extend(vec![1; options * 4]);
        }
        let transport = packet.len();
        let pseudo = fold(sum(&packet[addresses..][..if six { 32 } else { 8 }]) + u64::from(kind) + u64::from(len));
        packet.extend(vec![9; head]);
        packet.extend(payload);
        let field = transport + if kind == TCP { 16 } else { 6 };
        packet[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        (packet, field)
    }

    proptest! {
        #[test]
        fn what_was_left_is_completed(
            six: bool, tags in 0_usize..3, options in 0_usize..3, tcp: bool,
            payload in prop::collection::vec(any::<u8>(), 0..100), padding in 0_usize..9,
        ) {
            let kind = if tcp { TCP } else { UDP };
            let (mut packet, field) = left(six, tags, options, kind, &payload);
            let pseudo = u64::from(half(&packet, field).unwrap());
            let (start, end) = (field - if tcp { 16 } else { 6 }, packet.len());
            packet.extend(vec![0xee; padding]);
            let before = packet.clone();
            prop_assert!(complete(&mut packet));
            // Over the pseudo header and everything, the checksum included, the sum is all ones.
            prop_assert_eq!(fold(pseudo + sum(&packet[start..end])), 0xffff);
            prop_assert_ne!(half(&packet, field), Some(0).filter(|_| !tcp));
            packet[field..field + 2].copy_from_slice(&before[field..field + 2]);
            prop_assert_eq!(packet, before, "and nothing else changed");
        }

        #[test]
        fn nothing_panics(mut packet in prop::collection::vec(any::<u8>(), 0..80)) {
            complete(&mut packet);
            for kind in [[8, 0, 0x45], [0x86, 0xdd, 0x60]] {
                if packet.len() > 15 {
                    packet[12..15].copy_from_slice(&kind);
                }
                complete(&mut packet);
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_left() {
        let (packet, field) = left(false, 0, 0, UDP, &[1, 2, 3]);
        let strange = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut packet = packet.clone();
            change(&mut packet);
            let before = packet.clone();
            assert!(!complete(&mut packet));
            assert_eq!(packet, before);
        };
        strange(&|packet| packet[field] ^= 1);
        strange(&|packet| packet[23] = 132);
        strange(&|packet| packet[20] |= 0x20);
        strange(&|packet| packet[14] = 0x44);
        strange(&|packet| packet[13] = 6);
        strange(&|packet| packet.truncate(40));
    }
}
