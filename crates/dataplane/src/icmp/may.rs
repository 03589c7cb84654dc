//! To which packets an ICMP error may be sent.

use wire::{Fragment, L3L4, protocol};

/// Whether an ICMP error may be sent about `ip`, a whole IP packet (RFC 1122, 3.2.2; RFC 1812, 4.3.2.7; RFC 4443,
/// 2.4(e)).
///
/// Never about a packet that is malformed, is an ICMP error (or may be one: its type is not there to be read), is a
/// fragment other than the first, or is not between two single hosts: addressed to many, to or from a loopback address.
/// Packets that came as a link-layer broadcast are the caller's to leave out. RFC 4443 would allow "packet too big" about multicast; we
/// forward none.
pub fn may_answer(ip: &[u8]) -> bool {
    let Ok(h) = L3L4::parse(ip) else { return false };
    if h.fragment == Fragment::Later {
        return false;
    }
    let total = usize::try_from(h.total_len).unwrap_or(0);
    let kind = ip.get(..total).and_then(|ip| ip.get(usize::from(h.l4))).copied();
    if h.version == 4 {
        let error = h.protocol == protocol::ICMP4 && kind.is_none_or(is_error4);
        !error && is_one_host4(h.src) && is_one_host4(h.dst)
    } else {
        let error = h.protocol == protocol::ICMP6 && kind.is_none_or(is_error6);
        !error && is_one_host6(h.src6(ip)) && is_one_host6(h.dst6(ip))
    }
}

/// Destination unreachable, source quench, redirect, time exceeded, parameter problem (RFC 1122, 3.2.2).
fn is_error4(kind: u8) -> bool {
    matches!(kind, 3 | 4 | 5 | 11 | 12)
}

/// All types below 128 are errors (RFC 4443, 2.1); a redirect is treated as one.
fn is_error6(kind: u8) -> bool {
    kind < 128 || kind == 137
}

/// Multicast, broadcast and the reserved class between them; a subnet's broadcast address is not known here.
pub(super) fn is_many4(address: u32) -> bool {
    address >= 0xe000_0000
}

/// Whether an address can be one host's: not "this network", loopback, or addressed to many (RFC 1812, 5.3.7).
pub(super) fn is_one_host4(address: u32) -> bool {
    let network = address >> 24;
    network != 0 && network != 127 && !is_many4(address)
}

pub(super) fn is_multicast6(address: u128) -> bool {
    address >> 120 == 0xff
}

/// Whether an address can be one node's: not unspecified, loopback or multicast.
pub(super) fn is_one_host6(address: u128) -> bool {
    address > 1 && !is_multicast6(address)
}
