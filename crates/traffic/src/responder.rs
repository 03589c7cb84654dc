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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Generator, Plan, Profile, inspect};

    fn packet(ipv6_share: f64, direction: Direction) -> Vec<u8> {
        let plan = Plan::new(Profile { ipv6_share, ..Profile::default() }).unwrap();
        let mut frame = vec![0; 256];
        let len = Generator::new(&plan, direction).unwrap().next(&mut frame, 5).unwrap();
        frame.truncate(len);
        frame
    }

    #[test]
    fn turned_around_twice_is_as_before() {
        for ipv6_share in [0.0, 1.0] {
            let there = packet(ipv6_share, Direction::Downlink);
            let mut back = there.clone();
            assert!(reflect(&mut back));
            let (a, b) = (inspect(&there).unwrap(), inspect(&back).unwrap());
            assert_eq!((a.mark, a.addresses()), (b.mark, (b.addresses().1, b.addresses().0)));
            assert_eq!((a.head.src_port, a.head.dst_port), (b.head.dst_port, b.head.src_port));
            assert_eq!((&there[..6], &there[6..12]), (&back[6..12], &back[..6]));
            assert!(b.checksum_holds());
            assert!(reflect(&mut back));
            assert_eq!(back, there);
        }
    }

    #[test]
    fn tunnels_fragments_and_noise_are_not() {
        let mut fragment = packet(0.0, Direction::Downlink);
        fragment[14 + 6] = 0x20;
        let mut icmp = packet(0.0, Direction::Downlink);
        icmp[14 + 9] = 1;
        for mut frame in [packet(0.0, Direction::Uplink), fragment, icmp, vec![], vec![0xff; 60]] {
            let before = frame.clone();
            assert!(!reflect(&mut frame));
            assert_eq!(frame, before);
        }
    }
}
