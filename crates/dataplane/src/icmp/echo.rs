//! Answering a ping where it lies.

use wire::{Fragment, L3L4, checksum, fast, ip6, protocol};

use super::{HOPS, may};

/// Turns an echo request into its reply: addresses swapped, type changed, hop limit new, checksums adjusted (RFC 792;
/// RFC 4443, 4.2). Returns whether it did; if not, nothing was changed.
///
/// That the destination is ours, and how often we answer, is the caller's concern. A fragment, an IPv4 header with
/// options, an IPv6 extension header, and addresses that are not one host's each are not answered. A wrong ICMP
/// checksum stays wrong by as much: whoever sent it will see.
pub fn echo_reply(ip: &mut [u8]) -> bool {
    let Ok(h) = L3L4::parse(ip) else { return false };
    if h.fragment != Fragment::Whole {
        return false;
    }
    match (h.version, h.protocol, usize::from(h.l4)) {
        (4, protocol::ICMP4, l4 @ 20) => {
            may::is_one_host4(h.src) && !may::is_many4(h.dst) && h.total_len >= 28 && reply4(ip, l4, &h).is_some()
        }
        (6, protocol::ICMP6, l4 @ ip6::HEADER_LEN) => {
            let (src, dst) = (h.src6(ip), h.dst6(ip));
            let addressed = may::is_one_host6(src) && !may::is_multicast6(dst);
            addressed && h.total_len >= 48 && reply6(ip, l4, src, dst).is_some()
        }
        _ => false,
    }
}

/// Type and code of a request and of its reply, as one word.
const REQUEST4: u16 = 8 << 8;
const REPLY4: u16 = 0;
const REQUEST6: u16 = 128 << 8;
const REPLY6: u16 = 129 << 8;

/// `None`, and nothing changed, if this is no request.
fn reply4(ip: &mut [u8], l4: usize, h: &L3L4) -> Option<()> {
    turn(ip, l4, REQUEST4, REPLY4)?;
    // Swapping the addresses does not change the sum; the time to live does.
    let check = fast::be16(ip, 10)?;
    let check = checksum::adjust16(check, u16::from(h.ttl) << 8, u16::from(HOPS) << 8);
    fast::put8(ip, 8, HOPS)?;
    fast::put16(ip, 10, check)?;
    fast::put32(ip, 12, h.dst)?;
    fast::put32(ip, 16, h.src)
}

/// As [`reply4`]; the pseudo header's sum does not change either.
fn reply6(ip: &mut [u8], l4: usize, src: u128, dst: u128) -> Option<()> {
    turn(ip, l4, REQUEST6, REPLY6)?;
    fast::put8(ip, ip6::field::HOPS, HOPS)?;
    fast::put128(ip, ip6::field::SRC, dst)?;
    fast::put128(ip, ip6::field::DST, src)
}

fn turn(ip: &mut [u8], l4: usize, request: u16, reply: u16) -> Option<()> {
    if fast::be16(ip, l4)? != request {
        return None;
    }
    let check = fast::be16(ip, l4 + 2)?;
    fast::put16(ip, l4, reply)?;
    fast::put16(ip, l4 + 2, checksum::adjust16(check, request, reply))
}
