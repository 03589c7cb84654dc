use proptest::prelude::*;
use wire::L3L4;

use super::*;

const US4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const US6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// An IPv4 packet from 10.0.0.9 to 198.51.100.7.
fn packet4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 7, protocol, 0, 0, 10, 0, 0, 9, 198, 51, 100, 7];
    ip.extend(payload);
    let len = ip.len() as u16;
    fast::put16(&mut ip, 2, len).unwrap();
    fix4(&mut ip);
    ip
}

fn fix4(ip: &mut [u8]) {
    fast::put16(ip, 10, 0).unwrap();
    let check = checksum::of(&ip[..20]);
    fast::put16(ip, 10, check).unwrap();
}

/// An IPv6 packet from 2001:db8::9 to 2001:db8::7.
fn packet6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0; 40];
    let payload_len = payload.len() as u16;
    let [src, dst] = [9, 7].map(|n| Ipv6Addr::from_bits(US6.to_bits() + n - 1));
    ip6::Repr { src, dst, next_header, payload_len, hop_limit: 7, traffic_class: 0, flow_label: 0 }
        .emit(&mut ip)
        .unwrap();
    ip.extend(payload);
    ip
}

fn icmp4_is_right(ip: &[u8]) -> bool {
    checksum::is_valid(checksum::sum(&ip[..20])) && checksum::is_valid(checksum::sum(&ip[20..]))
}

fn icmp6_is_right(ip: &[u8]) -> bool {
    let h = ip6::Repr::parse(ip).unwrap();
    let pseudo = h.pseudo(protocol::ICMP6, h.payload_len.into());
    checksum::is_valid(checksum::combine(pseudo, checksum::sum(&ip[40..])))
}

#[test]
fn an_ipv4_error_byte_by_byte() {
    let about = packet4(17, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let mut out = [0xee; 600];
    let len = error4(&mut out, US4, Error4::FragmentationNeeded { mtu: 1400 }, &about).unwrap();
    assert_eq!(len, 28 + 29);
    let out = &out[..len];
    assert_eq!(out[..10], [0x45, 0xc0, 0, 57, 0, 0, 0x40, 0, 64, 1]);
    assert_eq!(out[12..22], [192, 0, 2, 1, 10, 0, 0, 9, 3, 4]);
    assert_eq!(out[24..28], [0, 0, 0x05, 0x78]);
    assert_eq!(out[28..], about);
    assert!(icmp4_is_right(out));
    assert!(!may_answer(out), "no error about an error");
}

#[test]
fn an_ipv6_error_byte_by_byte() {
    let about = packet6(17, &[0; 12]);
    let mut out = [0xee; 2000];
    let len = error6(&mut out, US6, Error6::PacketTooBig { mtu: 1400 }, &about).unwrap();
    assert_eq!(len, 48 + 52);
    let out = &out[..len];
    assert_eq!(out[40..42], [2, 0]);
    assert_eq!(out[44..48], [0, 0, 0x05, 0x78]);
    assert_eq!((&out[8..24], &out[24..40]), (&US6.octets()[..], &about[8..24]));
    assert_eq!(out[48..], about);
    assert!(icmp6_is_right(out) && !may_answer(out));
}

#[test]
fn every_error_has_its_numbers() {
    let about = packet4(17, &[0; 8]);
    let mut out = [0; 100];
    let mut four = |what| {
        error4(&mut out, US4, what, &about).unwrap();
        (out[20], out[21])
    };
    assert_eq!(four(Error4::TimeExceeded), (11, 0));
    assert_eq!(four(Error4::NetUnreachable), (3, 0));
    assert_eq!(four(Error4::HostUnreachable), (3, 1));
    assert_eq!(four(Error4::ProtocolUnreachable), (3, 2));
    assert_eq!(four(Error4::PortUnreachable), (3, 3));
    assert_eq!(four(Error4::Prohibited), (3, 13));
    let about = packet6(17, &[0; 8]);
    let mut out = [0; 200];
    let mut six = |what| {
        error6(&mut out, US6, what, &about).unwrap();
        (out[40], out[41])
    };
    assert_eq!(six(Error6::TimeExceeded), (3, 0));
    assert_eq!(six(Error6::NoRoute), (1, 0));
    assert_eq!(six(Error6::Prohibited), (1, 1));
    assert_eq!(six(Error6::AddressUnreachable), (1, 3));
    assert_eq!(six(Error6::PortUnreachable), (1, 4));
    assert_eq!(six(Error6::SourcePolicy), (1, 5));
}

#[test]
fn long_packets_are_quoted_in_part_and_padding_not_at_all() {
    let mut out = [0; 2000];
    assert_eq!(error4(&mut out, US4, Error4::TimeExceeded, &packet4(17, &[7; 1400])), Some(576));
    assert_eq!(error6(&mut out, US6, Error6::TimeExceeded, &packet6(17, &[7; 1400])), Some(1280));
    let mut padded = packet4(17, &[7; 8]);
    padded.extend([0; 18]);
    assert_eq!(error4(&mut out, US4, Error4::TimeExceeded, &padded), Some(56));
    assert_eq!(error4(&mut out[..56], US4, Error4::TimeExceeded, &padded), Some(56));
    assert_eq!(error4(&mut out[..55], US4, Error4::TimeExceeded, &padded), None);
    assert_eq!(error6(&mut out[..87], US6, Error6::TimeExceeded, &packet6(17, &[7; 8])), None);
    assert_eq!(error4(&mut out, US4, Error4::TimeExceeded, &packet6(17, &[])), None);
    assert_eq!(error6(&mut out, US6, Error6::TimeExceeded, &packet4(17, &[0; 40])), None);
}

#[test]
fn who_is_answered() {
    let with4 = |change: fn(&mut [u8])| {
        let mut ip = packet4(17, &[0; 8]);
        change(&mut ip);
        fix4(&mut ip);
        may_answer(&ip)
    };
    assert!(with4(|_| ()));
    assert!(with4(|ip| ip[6] = 0x20), "a first fragment");
    assert!(!with4(|ip| ip[7] = 1), "a later fragment");
    for src in [[0, 0, 0, 0], [0, 0, 0, 1], [127, 0, 0, 1], [224, 0, 0, 1], [240, 0, 0, 1], [255; 4]] {
        let mut ip = packet4(17, &[0; 8]);
        ip[12..16].copy_from_slice(&src);
        fix4(&mut ip);
        assert!(!may_answer(&ip), "from {src:?}");
    }
    assert!(!with4(|ip| ip[16] = 224) && !with4(|ip| ip[16..20].fill(255)) && !with4(|ip| ip[16] = 127));
    assert!(!may_answer(&[]) && !may_answer(&packet4(17, &[0; 8])[..27]));
    for (kind, may) in [(0, true), (8, true), (3, false), (4, false), (5, false), (11, false), (12, false)] {
        assert_eq!(may_answer(&packet4(1, &[kind, 0, 0, 0])), may, "ICMP type {kind}");
    }
    assert!(!may_answer(&packet4(1, &[])), "an ICMP message without a type");

    assert!(may_answer(&packet6(17, &[0; 8])));
    for (at, value, what) in [(24, 0xff, "to multicast"), (8, 0xff, "from multicast")] {
        let mut ip = packet6(17, &[0; 8]);
        ip[at] = value;
        assert!(!may_answer(&ip), "{what}");
    }
    let mut ip = packet6(17, &[0; 8]);
    ip[8..24].fill(0);
    assert!(!may_answer(&ip), "from nowhere");
    for (kind, may) in [(1, false), (127, false), (128, true), (137, false), (135, true)] {
        assert_eq!(may_answer(&packet6(58, &[kind, 0, 0, 0])), may, "ICMPv6 type {kind}");
    }
    // Behind a destination options header, an error is still one.
    assert!(!may_answer(&packet6(60, &[58, 0, 1, 4, 0, 0, 0, 0, 3, 0, 0, 0])));
}

#[test]
fn pings_are_answered_in_place() {
    let mut ping = packet4(1, &[8, 0, 0, 0, 1, 2, 3, 4, b'h', b'i', b'!']);
    let check = checksum::of(&ping[20..]);
    fast::put16(&mut ping, 22, check).unwrap();
    let before = ping.clone();
    assert!(echo_reply(&mut ping) && icmp4_is_right(&ping));
    assert_eq!((&ping[12..16], &ping[16..20], ping[8], ping[20]), (&before[16..20], &before[12..16], 64, 0));
    assert_eq!(ping[24..], before[24..]);
    assert!(!echo_reply(&mut ping), "a reply is not answered");

    let mut ping = packet6(58, &[128, 0, 0, 0, 1, 2, 3, 4, b'h', b'i', b'!']);
    let h = ip6::Repr::parse(&ping).unwrap();
    let sum = checksum::combine(h.pseudo(58, 11), checksum::sum(&ping[40..]));
    fast::put16(&mut ping, 42, checksum::finish(sum)).unwrap();
    let before = ping.clone();
    assert!(echo_reply(&mut ping) && icmp6_is_right(&ping));
    assert_eq!((&ping[8..24], &ping[24..40], ping[7], ping[40]), (&before[24..40], &before[8..24], 64, 129));
    assert!(!echo_reply(&mut ping));
}

#[test]
fn a_hop_more_and_a_hop_taken_are_nothing() {
    for mut packet in [packet4(17, &[0; 8]), packet6(17, &[0; 8])] {
        let (before, version) = (packet.clone(), packet[0] >> 4);
        one_more_hop(&mut packet).unwrap();
        assert_eq!(L3L4::parse(&packet).unwrap().ttl, L3L4::parse(&before).unwrap().ttl + 1);
        crate::route::decrement_ttl(&mut packet, version);
        assert_eq!(packet, before);
    }
    assert_eq!(one_more_hop(&mut [0x45, 0, 0]), None);
    assert_eq!(one_more_hop(&mut []), None);
}

#[test]
fn odd_pings_are_left_alone() {
    let good = packet4(1, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    assert!(echo_reply(&mut good.clone()));
    for (at, value) in [(16, 224), (12, 127), (6, 0x20), (7, 1), (21, 1), (20, 13), (9, 17)] {
        let mut ping = good.clone();
        ping[at] = value;
        fix4(&mut ping);
        let before = ping.clone();
        assert!(!echo_reply(&mut ping), "byte {at}");
        assert_eq!(ping, before);
    }
    assert!(!echo_reply(&mut packet4(1, &[8, 0, 0, 0])));
}

proptest! {
    #[test]
    fn nothing_panics(mut ip in prop::collection::vec(any::<u8>(), 0..120), version in prop::sample::select(vec![0x45, 0x4f, 0x60]), room in 0usize..200) {
        if let Some(b) = ip.first_mut() {
            *b = version;
        }
        let mut out = vec![0; room];
        let _ = error4(&mut out, US4, Error4::TimeExceeded, &ip);
        let _ = error6(&mut out, US6, Error6::TimeExceeded, &ip);
        let _ = (may_answer(&ip), echo_reply(&mut ip));
    }

    #[test]
    fn errors_are_right_packets(payload in prop::collection::vec(any::<u8>(), 8..1500), mtu: u16) {
        let mut out = [0; 1500];
        let about = packet4(17, &payload);
        let len = error4(&mut out, US4, Error4::FragmentationNeeded { mtu }, &about).unwrap();
        prop_assert!(icmp4_is_right(&out[..len]));
        prop_assert_eq!(L3L4::parse(&out).unwrap().total_len as usize, len);
        prop_assert_eq!(&out[28..len], &about[..len - 28]);
        let about = packet6(17, &payload);
        let len = error6(&mut out, US6, Error6::PacketTooBig { mtu: mtu.into() }, &about).unwrap();
        prop_assert!(icmp6_is_right(&out[..len]));
        prop_assert_eq!(&out[48..len], &about[..len - 48]);
    }

    #[test]
    fn replies_keep_checksums_right(mut payload in prop::collection::vec(any::<u8>(), 8..200), ttl: u8) {
        payload[..4].copy_from_slice(&[8, 0, 0, 0]);
        let mut ping = packet4(1, &payload);
        ping[8] = ttl;
        fix4(&mut ping);
        let check = checksum::of(&ping[20..]);
        fast::put16(&mut ping, 22, check).unwrap();
        prop_assert!(echo_reply(&mut ping));
        prop_assert!(icmp4_is_right(&ping));
    }
}
