//! The mirror at the far end.

use wire::{Fragment, L3L4, Outer, ethertype, fast, protocol};

/// Turns a UDP or TCP packet around where it lies: hardware addresses, IP addresses and ports change places, so every
/// checksum stays right and a signature stays what it was. False, and nothing changed, for anything else: tunnels'
/// outsides, fragments, packets that can't be read.
pub fn reflect(frame: &mut [u8]) -> bool {
    let Ok(l2) = Outer::parse(frame) else { return false };
    let l3 = usize::from(l2.l3);
    let head = match l2.ethertype {
        ethertype::IP4 => L3L4::parse4(&frame[l3..]),
        ethertype::IP6 => L3L4::parse6(&frame[l3..]),
        _ => return false,
    };
    let Ok(head) = head else { return false };
    let turns = matches!(head.protocol, protocol::UDP | protocol::TCP) && head.fragment == Fragment::Whole;
    if !turns || head.dst_port == wire::gtpu::PORT {
        return false;
    }
    swap::<6>(frame, 0);
    if head.version == 4 {
        swap::<4>(frame, l3 + 12);
    } else {
        swap::<16>(frame, l3 + 8);
    }
    swap::<2>(frame, l3 + usize::from(head.l4));
    true
}

/// Lets two neighbours of `N` bytes change places.
fn swap<const N: usize>(bytes: &mut [u8], at: usize) {
    if let (Some(a), Some(b)) = (fast::array::<N>(bytes, at), fast::array::<N>(bytes, at + N)) {
        fast::put(bytes, at, b);
        fast::put(bytes, at + N, a);
    }
}
