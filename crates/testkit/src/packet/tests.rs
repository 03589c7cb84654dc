use super::*;
use wire::checksum;

const A: [u8; 6] = [2, 0, 0, 0, 0, 1];
const B: [u8; 6] = [2, 0, 0, 0, 0, 2];

#[test]
fn a_tunnelled_packet_byte_by_byte() {
    let user = ip4([10, 60, 0, 1], [198, 51, 100, 7]).ttl(63).udp(1000, 53).payload(b"hi");
    let frame = eth(A, B).vlan(7).ip4([10, 0, 3, 100], [10, 0, 3, 1]).gtpu(0x0102_0304).container_up(9).carrying(&user);
    let bytes = frame.build();
    assert_eq!(bytes[..18], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 8, 0]);
    assert_eq!(bytes[18..24], [0x45, 0, 0, 74, 0, 0]);
    assert_eq!(bytes[38..46], [0x08, 0x68, 0x08, 0x68, 0, 54, bytes[44], bytes[45]]);
    assert_eq!(bytes[46..62], [0x34, 255, 0, 38, 1, 2, 3, 4, 0, 0, 0, 0x85, 1, 0x10, 9, 0]);
    assert_eq!(bytes[62..66], [0x45, 0, 0, 30]);
    assert_eq!(bytes[90..], *b"hi");
    for at in [18, 62] {
        assert!(checksum::is_valid(checksum::sum(&bytes[at..at + 20])));
        let pseudo = checksum::pseudo4(
            fast(&bytes, at + 12),
            fast(&bytes, at + 16),
            17,
            u16::from_be_bytes([bytes[at + 24], bytes[at + 25]]),
        );
        assert!(checksum::is_valid(checksum::combine(pseudo, checksum::sum(&bytes[at + 20..]))));
    }
    let facts = frame.facts();
    assert_eq!((facts.teid, facts.container, facts.ports), (Some(0x0102_0304), Some((1, 9)), Some((1000, 53))));
    assert_eq!(facts.addresses.len(), 2);
    let line = describe(&bytes);
    assert!(line.contains("gtp-u 255 0x01020304 qfi 9 | 10.60.0.1 > 198.51.100.7 ttl 63"), "{line}");
}

fn fast(bytes: &[u8], at: usize) -> u32 {
    wire::fast::be32(bytes, at).unwrap()
}

#[test]
fn everything_can_be_wrong() {
    let bytes = ip4([1; 4], [2; 4]).version_byte(0x46).length(99).checksum(0x1234).udp(1, 2).length(3).checksum(4);
    let bytes = bytes.build();
    assert_eq!((bytes[0], bytes[3], &bytes[10..12]), (0x46, 99, &[0x12, 0x34][..]));
    assert_eq!(bytes[24..28], [0, 3, 0, 4]);
    let bytes = eth(A, B).says(0x1234).payload([7; 3]).padded().poke(1, [9]).cut(59).build();
    assert_eq!((bytes.len(), bytes[1], &bytes[12..18]), (59, 9, &[0x12, 0x34, 7, 7, 7, 0][..]));
    let bytes = raw([]).gtpu_message(255, 1).gtpu_flags(0x50).length(9).build();
    assert_eq!(bytes, [0x50, 255, 0, 9, 0, 0, 0, 1]);
}

#[test]
fn version_six_and_its_extension_headers() {
    let bytes =
        ip6([0x11; 16], [0x22; 16]).tos(0xb8).extension6(60, [1, 4, 0, 0, 0, 0]).udp(1, 2).payload(b"x").build();
    let parsed = wire::L3L4::parse(&bytes).unwrap();
    assert_eq!((parsed.protocol, parsed.l4, parsed.dst_port, parsed.dscp()), (17, 48, 2, 46));
    let udp = wire::udp::Packet::new_checked(&bytes[48..]).unwrap();
    assert!(udp.is_checksum_right(checksum::pseudo6(
        u128::from_be_bytes([0x11; 16]),
        u128::from_be_bytes([0x22; 16]),
        17,
        9
    )));
    let first = ip6([0x11; 16], [0x22; 16]).fragment6(0, true, 7).udp(1, 2).payload([0; 8]).build();
    assert_eq!(wire::L3L4::parse(&first).unwrap().fragment, wire::Fragment::First);
}

#[test]
fn neighbour_messages_pass_their_checks() {
    let ours = Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 0, 1);
    let theirs = Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 0, 9);
    let frame = eth(A, B).ip6(theirs, ours).solicit(ours, Some(Mac(A))).build();
    let ip = ip6::Repr::parse(&frame[14..]).unwrap();
    assert_eq!(ip.hop_limit, 255);
    let repr = icmp6::Repr::parse(&ip, &frame[54..]).unwrap();
    assert_eq!(repr, icmp6::Repr::Ndp(ndp::Repr::NeighbourSolicit { target: ours, source: Some(Mac(A)) }));
    assert!(describe(&eth(A, B).arp_request(A, [10, 0, 0, 1], [10, 0, 0, 2]).build()).contains("who has 10.0.0.2?"));
    let ping = ip6(theirs, ours).ping(1, 2).payload(b"abc").build();
    let ip = ip6::Repr::parse(&ping).unwrap();
    assert!(matches!(
        icmp6::Repr::parse(&ip, &ping[40..]),
        Ok(icmp6::Repr::EchoRequest { ident: 1, seq: 2, data: b"abc" })
    ));
}
