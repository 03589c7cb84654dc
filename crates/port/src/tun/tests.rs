use proptest::prelude::*;
use wire::checksum;

use super::coalesce::{self, Groups, HEADERS};
use super::segment::{self, ACK, Cut, FIN, GSO_TCPV4, NEEDS_CSUM, PSH, VnetHeader};
use super::*;

/// What tells a TCP segment from others of its flow.
#[derive(Clone, Debug)]
struct Data {
    six: bool,
    port: u16,
    sequence: u32,
    id: u16,
    flags: u8,
    payload: Vec<u8>,
}

/// The IP packet, with right checksums and 12 bytes of TCP options.
fn packet(data: &Data) -> Vec<u8> {
    let len = 32 + data.payload.len();
    let mut packet = Vec::new();
    if data.six {
        packet.extend([0x60, 0, 0, 0]);
        packet.extend((len as u16).to_be_bytes());
        packet.extend([6, 64]);
        packet.extend((0..32).map(|at| at * 7));
    } else {
        packet.extend([0x45, 0]);
        packet.extend((20 + len as u16).to_be_bytes());
        packet.extend(data.id.to_be_bytes());
        packet.extend([0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = checksum::of(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let l4 = packet.len();
    packet.extend(data.port.to_be_bytes());
    packet.extend([0, 80]);
    packet.extend(data.sequence.to_be_bytes());
    packet.extend([0, 0, 0, 9, 0x80, data.flags, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6]);
    packet.extend(&data.payload);
    let sum = checksum::combine(segment::pseudo(&packet, 6, len).unwrap(), checksum::sum(&packet[l4..]));
    packet[l4 + 16..l4 + 18].copy_from_slice(&checksum::finish(sum).to_be_bytes());
    packet
}

/// The packets of a group as the kernel gets them.
fn joined(groups: &Groups, group: &coalesce::Group, packets: &[Vec<u8>]) -> (VnetHeader, Vec<u8>) {
    let members: Vec<usize> = groups.members(group).collect();
    let mut headers = [0; HEADERS];
    match coalesce::head(group, &packets[members[0]], &mut headers) {
        None => (VnetHeader::default(), packets[members[0]].clone()),
        Some((header, from)) => {
            let payloads = members.iter().flat_map(|i| &packets[*i][from..]);
            (header, headers[..from].iter().chain(payloads).copied().collect())
        }
    }
}

/// The segments of a packet, as an adapter would send them.
fn cut(header: &VnetHeader, packet: &[u8]) -> Vec<Vec<u8>> {
    let mut cut = Cut::new(header, packet).expect("a super-packet");
    let mut segments = Vec::new();
    while !cut.is_done() {
        let mut segment = vec![0; cut.next_len()];
        cut.write(packet, &mut segment);
        segments.push(segment);
    }
    segments
}

fn divide(packets: &[Vec<u8>]) -> Groups {
    let mut groups = Groups::default();
    groups.divide(packets.len(), true, |i| &packets[i]);
    groups
}

fn data(six: bool, port: u16, n: u32, size: usize, last: usize) -> Data {
    let flags = if last == size { ACK } else { ACK | PSH };
    let sequence = 0xffff_f000_u32.wrapping_add(n * size as u32);
    let payload = (0..last).map(|at| (at as u32 * 31 + n) as u8).collect();
    Data { six, port, sequence, id: 0xfffe_u16.wrapping_add(n as u16), flags, payload }
}

proptest! {
    /// Flows interleaved at random come back from the kernel's view of them as they were, each in its order.
    #[test]
    fn cutting_restores_what_was_joined(
        six: [bool; 3], sizes in prop::array::uniform3(1usize..400), order in prop::collection::vec(0usize..3, 1..64),
        ends in prop::collection::vec(any::<bool>(), 64),
    ) {
        let mut sent = [0; 3];
        let packets: Vec<Vec<u8>> = order.iter().zip(&ends).map(|(flow, end)| {
            let last = if *end && sizes[*flow] > 1 { sizes[*flow] - 1 } else { sizes[*flow] };
            let one = data(six[*flow], *flow as u16, sent[*flow], sizes[*flow], last);
            sent[*flow] += 1;
            packet(&one)
        }).collect();
        let groups = divide(&packets);
        let mut back: Vec<Vec<u8>> = Vec::new();
        for group in groups.list() {
            let (header, whole) = joined(&groups, group, &packets);
            match header.gso_type {
                GSO_NONE => back.push(whole),
                _ => back.extend(cut(&header, &whole)),
            }
        }
        prop_assert_eq!(back.len(), packets.len());
        for flow in 0..3u16 {
            let of = |list: &[Vec<u8>]| -> Vec<Vec<u8>> {
                let is_its = |p: &&Vec<u8>| { let l4 = if p[0] == 0x45 { 20 } else { 40 }; p[l4..l4 + 2] == flow.to_be_bytes() };
                list.iter().filter(is_its).cloned().collect()
            };
            prop_assert_eq!(of(&back), of(&packets));
        }
    }

    #[test]
    fn no_header_of_the_kernels_makes_it_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 1..200), fields: [u16; 4], kind in 0u8..7, flags: u8, six: bool, fit: bool,
    ) {
        bytes[0] = if six { 0x60 } else { 0x45 };
        let mut header = VnetHeader {
            flags, gso_type: kind, hdr_len: fields[0], gso_size: fields[1] % 64, csum_start: fields[2] % 64, csum_offset: fields[3] % 64,
        };
        if fit && bytes.len() > 6 {
            let len = bytes.len() as u16 - if six { 40.min(bytes.len() as u16) } else { 0 };
            let at = if six { 4 } else { 2 };
            bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
            header.csum_start = if six { 40 } else { 20 };
            header.flags |= NEEDS_CSUM;
        }
        if Cut::new(&header, &bytes).is_some() {
            let segments = cut(&header, &bytes);
            prop_assert!(!segments.is_empty());
        }
        segment::complete(&header, &mut bytes.clone());
        divide(&[bytes.clone(), bytes]);
    }
}

#[test]
fn full_segments_go_as_one() {
    for six in [false, true] {
        let mut packets: Vec<Vec<u8>> = (0..10).map(|n| packet(&data(six, 1, n, 1000, 1000))).collect();
        packets.push(packet(&data(six, 1, 10, 1000, 77)));
        let groups = divide(&packets);
        assert_eq!(groups.list().len(), 1);
        let (header, whole) = joined(&groups, &groups.list()[0], &packets);
        let headers = if six { 72 } else { 52 };
        assert_eq!((header.gso_size, usize::from(header.hdr_len), whole.len()), (1000, headers, headers + 10_077));
        assert_eq!(cut(&header, &whole), packets);
    }
}

#[test]
fn what_differs_goes_alone() {
    let base = |n| data(false, 1, n, 100, 100);
    let alone = |second: Vec<u8>| divide(&[packet(&base(0)), second]).list().len() == 2;
    assert!(!alone(packet(&base(1))));
    assert!(alone(packet(&base(2))), "a gap");
    assert!(alone(packet(&Data { port: 2, ..base(1) })), "another flow");
    assert!(alone(packet(&Data { id: 9, ..base(1) })), "another row of identifications");
    assert!(alone(packet(&Data { flags: ACK | 0x02, ..base(1) })), "SYN");
    assert!(alone(packet(&Data { payload: vec![1; 101], ..base(1) })), "larger than those before");
    for at in [1, 8, 30, 34, 51] {
        // Checksums follow, so that only the difference keeps it out: type of service, TTL, acknowledgment, window, options.
        let mut other = packet(&base(1));
        other[at] ^= 1;
        other[10..12].fill(0);
        let sum = checksum::of(&other[..20]);
        other[10..12].copy_from_slice(&sum.to_be_bytes());
        other[36..38].fill(0);
        let len = other.len() - 20;
        let sum = checksum::combine(segment::pseudo(&other, 6, len).unwrap(), checksum::sum(&other[20..]));
        other[36..38].copy_from_slice(&checksum::finish(sum).to_be_bytes());
        assert!(alone(other), "{at}");
    }
    for at in [10, 36, 60] {
        let mut broken = packet(&base(1));
        broken[at] ^= 0x40;
        assert!(alone(broken), "a wrong checksum, {at}");
    }
    let mut first = packet(&base(0));
    first[60] ^= 1;
    assert_eq!(divide(&[first, packet(&base(1))]).list().len(), 2, "a first of which the checksum is wrong");
}

#[test]
fn an_end_of_data_closes_the_group() {
    let packets = [0, 1, 2, 3].map(|n| {
        let flags = if n == 1 { ACK | PSH | FIN } else { ACK };
        packet(&Data { flags, ..data(false, 1, n, 100, 100) })
    });
    let groups = divide(&packets);
    assert_eq!(groups.list().iter().map(coalesce::Group::count).collect::<Vec<_>>(), [2, 2]);
    let (header, whole) = joined(&groups, &groups.list()[0], &packets);
    assert_eq!((whole[33], cut(&header, &whole)), (ACK | PSH | FIN, packets[..2].to_vec()));
}

#[test]
fn datagrams_are_cut_and_checksummed() {
    let payload: Vec<u8> = (0..250).map(|n| n as u8).collect();
    let mut whole =
        [&[0x45, 0, 0, 0, 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &[0; 8], &payload].concat();
    let len = whole.len() as u16;
    whole[2..4].copy_from_slice(&len.to_be_bytes());
    let header =
        VnetHeader { flags: NEEDS_CSUM, gso_type: 5, hdr_len: 28, gso_size: 100, csum_start: 20, csum_offset: 6 };
    let segments = cut(&header, &whole);
    assert_eq!(segments.iter().map(Vec::len).collect::<Vec<_>>(), [128, 128, 78]);
    assert_eq!(segments.iter().flat_map(|segment| &segment[28..]).copied().collect::<Vec<_>>(), payload);
    for (n, segment) in segments.iter().enumerate() {
        assert!(checksum::is_valid(checksum::sum(&segment[..20])));
        let sum = segment::pseudo(segment, 17, segment.len() - 20).unwrap();
        assert!(checksum::is_valid(checksum::combine(sum, checksum::sum(&segment[20..]))));
        assert_eq!((segment[5], usize::from(segment[25])), (7 + n as u8, segment.len() - 20));
    }
    assert!(Cut::new(&VnetHeader { gso_type: 3, ..header }, &whole).is_none(), "fragmentation is not offered");
    assert!(Cut::new(&VnetHeader { gso_type: GSO_TCPV4, csum_start: 24, ..header }, &whole).is_none());
}

#[test]
fn the_kernels_drops_are_read() {
    let text = "Inter-|   Receive                                                |  Transmit\n face |bytes \
                packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed\n\
                \x20   lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  tun1: 0 0 0 0 0 0 0 0 900 8 0 77 0 0 0 0\n";
    assert_eq!((dropped(text, "tun1"), dropped(text, "lo"), dropped(text, "tun")), (Some(77), Some(12), None));
}
