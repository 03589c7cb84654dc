//! The program against the table it was made of.

use super::*;
use crate::packet::cbpf;
use proptest::prelude::*;

/// An inner packet: source and destination where RFC 791 and RFC 8200 have them.
fn ip(source: IpAddr, destination: IpAddr) -> Vec<u8> {
    match (source, destination) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0][..], &s.octets(), &d.octets(), &[0, 53, 0, 53, 0, 8, 0, 0]]
                .concat()
        }
        (IpAddr::V6(s), IpAddr::V6(d)) => {
            [&[0x60, 0, 0, 0, 0, 8, 59, 64][..], &s.octets(), &d.octets(), &[0; 8]].concat()
        }
        _ => unreachable!("one family"),
    }
}

/// A tunnel whose packets have optional fields and extension headers.
const TUNNEL: SteerSpec = SteerSpec {
    udp_port: 0x0868,
    carries: (9, 255),
    flags: 8,
    short: (0x07, 16),
    long: (0x04, 20),
    extensions: SteerExtensions { first: 19, most: 3 },
};

/// A packet of that tunnel with that many extension headers (of that many words) or a sequence number, over UDP over IP.
fn tunnel(inner: &[u8], outer6: bool, options: usize, sequence: bool, extensions: &[u8]) -> Vec<u8> {
    let flags = 0x30 | if sequence { 2 } else { 0 } | if extensions.is_empty() { 0 } else { 4 };
    let mut header = vec![flags, 255, 0, 0, 0, 0, 0, 1];
    if flags & 7 != 0 {
        header.extend([0xab, 0xcd, 0, if extensions.is_empty() { if sequence { 0x77 } else { 0 } } else { 0x85 }]);
    }
    for (i, words) in extensions.iter().enumerate() {
        header.push(*words);
        header.extend(vec![9; usize::from(*words) * 4 - 2]);
        header.push(if i + 1 == extensions.len() { 0 } else { 0x85 });
    }
    let udp = [&[0x12, 0x34, 8, 104, 0, 0, 0, 0][..], &header, inner].concat();
    let outer = if outer6 {
        [&[0x60, 0, 0, 0, 0, 0, 17, 64][..], &[0xfd; 16], &[0xfc; 16]].concat()
    } else {
        let length = 0x45 + options as u8;
        [&[length, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 9, 1, 10, 9, 9, 2][..], &vec![1; options * 4]].concat()
    };
    [outer, udp].concat()
}

/// The network layer behind that many further tags, and the protocol the kernel shows.
fn tagged(packet: &[u8], protocol: u16, tags: usize) -> (u16, Vec<u8>) {
    let mut bytes = packet.to_vec();
    let mut shown = protocol;
    for _ in 0..tags {
        bytes = [&[0, 7][..], &shown.to_be_bytes(), &bytes].concat();
        shown = 0x8100;
    }
    (shown, bytes)
}

fn steer() -> Steer {
    let mut steer = Steer::new().within(TUNNEL);
    let mut give = |first: &str, last: &str, member| steer.give(first.parse().unwrap(), last.parse().unwrap(), member);
    give("10.1.0.0", "10.1.255.255", 0).unwrap();
    give("10.2.0.0", "10.2.255.255", 1).unwrap();
    give("10.2.0.0", "10.3.0.0", 1).unwrap_err();
    give("255.255.255.255", "255.255.255.255", 2).unwrap();
    give("0.0.0.0", "0.0.0.9", 2).unwrap();
    give("2001:db8::", "2001:db8:0:ff::", 1).unwrap();
    give("2001:db8:1::", "2001:db8:1:ff::", 2).unwrap();
    give("10.9.0.0", "10.8.0.0", 1).unwrap_err();
    give("10.9.0.0", "2001:db8::", 1).unwrap_err();
    steer
}

fn address() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    let four = prop_oneof![
        any::<u32>(),
        (1u32..4, any::<u16>()).prop_map(|(b, low)| 10 << 24 | b << 16 | u32::from(low)),
        Just(0),
        Just(9),
        Just(10),
        Just(u32::MAX),
    ];
    let six = prop_oneof![
        any::<u128>(),
        (0u128..3, 0u128..0x200).prop_map(|(b, c)| 0x2001_0db8 << 96 | b << 80 | c << 64 | 5),
    ];
    let four = four.prop_map(|a| (IpAddr::V4(a.into()), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))));
    prop_oneof![four, six.prop_map(|a| (IpAddr::V6(a.into()), "2001:db8:ffff::1".parse().unwrap()))]
}

fn protocol(address: IpAddr) -> u16 {
    if address.is_ipv4() { 0x0800 } else { 0x86dd }
}

proptest! {
    #[test]
    fn both_directions_meet_at_the_owner(
        (subscriber, server) in address(),
        members in 1u16..5,
        outer6: bool,
        options in 0usize..3,
        sequence: bool,
        extensions in prop::collection::vec(1u8..4, 0..=usize::from(TUNNEL.extensions.most)),
        tags in 0usize..3,
    ) {
        let steer = steer();
        let owner = u32::from(steer.member_of(subscriber, members));
        let program = steer.program(members, Look::Auto).unwrap();
        let up = tunnel(&ip(subscriber, server), outer6, options, sequence, &extensions);
        let (shown, bytes) = tagged(&up, if outer6 { 0x86dd } else { 0x0800 }, tags);
        prop_assert_eq!(cbpf::run(&program, shown, &bytes), owner);
        let (shown, bytes) = tagged(&ip(server, subscriber), protocol(subscriber), tags);
        prop_assert_eq!(cbpf::run(&program, shown, &bytes), owner);

        let source = steer.program(members, Look::Source).unwrap();
        prop_assert_eq!(cbpf::run(&source, protocol(subscriber), &ip(subscriber, server)), owner);
        let destination = steer.program(members, Look::Destination).unwrap();
        let down = tunnel(&ip(server, subscriber), outer6, options, sequence, &extensions);
        prop_assert_eq!(cbpf::run(&destination, if outer6 { 0x86dd } else { 0x0800 }, &down), owner);
    }

    #[test]
    fn no_bytes_lead_out_of_the_members(bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0usize..4) {
        let program = steer().program(3, Look::Auto).unwrap();
        let protocol = [0x0800, 0x86dd, 0x8100, 0x0806][kind];
        prop_assert!(cbpf::run(&program, protocol, &bytes) < 3);
    }
}

#[test]
fn what_is_no_subscribers_goes_to_the_first() {
    let program = steer().program(3, Look::Auto).unwrap();
    assert_eq!(cbpf::run(&program, 0x0806, &[0xff; 46]), 0);
    let mut echo = tunnel(&[], false, 0, true, &[]);
    echo[29] = 1;
    assert_eq!(cbpf::run(&program, 0x0800, &echo), 0);
    let far: IpAddr = "10.2.0.1".parse().unwrap();
    let cut = &tunnel(&ip(far, far), false, 0, false, &[2])[..48];
    assert_eq!(cbpf::run(&program, 0x0800, cut), 0);
}

#[test]
fn without_a_tunnel_its_packets_are_plain() {
    let (outer, inner): (IpAddr, IpAddr) = ("10.9.9.2".parse().unwrap(), "10.2.0.1".parse().unwrap());
    let plain = Steer { tunnel: None, ..steer() };
    let packet = tunnel(&ip(inner, inner), false, 0, false, &[]);
    let program = plain.program(3, Look::Auto).unwrap();
    assert_eq!(cbpf::run(&program, 0x0800, &packet), u32::from(plain.member_of(outer, 3)));
    assert!(program.len() < steer().program(3, Look::Auto).unwrap().len());
}

#[test]
fn the_hash_spreads_evenly() {
    let steer = Steer::new();
    let mut counts = [0u32; 4];
    for n in 0..4000u32 {
        counts[usize::from(steer.member_of(IpAddr::V4((0x0a00_0000 + n).into()), 4))] += 1;
    }
    assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
}

#[test]
fn too_many_ranges_are_refused() {
    let mut steer = Steer::new();
    for n in 0..5000u32 {
        let one = IpAddr::V4((n * 2).into());
        steer.give(one, one, 0).unwrap();
    }
    assert!(matches!(steer.program(2, Look::Auto), Err(PortError::Unsupported { .. })));
}
