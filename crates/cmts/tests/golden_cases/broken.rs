//! What contradicts itself, comes at the wrong time, or is of nobody we know: dropped, by name, and what follows is good.

use super::*;

testkit::cases! {
    wrong_hcs, psp_tables_longer_than_the_packet, units_that_never_end, units_without_a_beginning, a_packet_is_missing,
    a_segment_is_missing, segments_that_come_again, more_segments_wait_than_may, unknown_sessions,
    packets_from_other_addresses, unknown_service_identifiers, concatenation_and_fragments,
    frames_that_are_too_long, what_is_no_ip, other_frames_on_both_ports, fragments_to_the_host, tunnel_packets_in_fragments,
}

/// The good packet that must come out after whatever was sent before; `number` and `sequence` are the next.
fn then_good(case: Case, number: u16, sequence: u16) -> Case {
    case.send("cin", &burst(number, SID, &segment(sequence, Some(0), &stream(&[datagram(false, 9)]))))
        .expect("nsi", &to_router(&datagram(false, 8)))
}

fn wrong_hcs() -> Case {
    let mut frame = stream(&[datagram6(false, 9)]);
    frame[4] ^= 1;
    let mut header = segment(1, Some(0), &stream(&[datagram6(false, 9)]));
    header[6] ^= 1;
    let case = case("A wrong check sequence of a MAC header, and of a segment header.")
        .send("cin", &burst(0, SID, &segment(0, Some(0), &frame)))
        .send("cin", &burst(1, SID, &header))
        .drops("worker.docsis_hcs", 2)
        .punts("uepi", 3);
    then_good(case, 2, 1)
}

fn psp_tables_longer_than_the_packet() -> Case {
    let (head, tail) = unit(SID);
    let good = pseudowire(session(UP), 0, false, &[(&head, true, false), (&tail, false, true)]);
    let with = |at: usize, byte: u8| {
        let mut body = good.clone();
        body[at] = byte;
        from_device(body)
    };
    // Session, then flags, count, sequence, and the first entry.
    let case = case(
        "The table of segments has more entries than the packet bytes, an entry more bytes, and there is no header.",
    )
    .send("cin", &with(5, 0x7f))
    .send("cin", &with(8, 0x9f))
    .send("cin", &from_device(&good[..6]))
    .drops("bursts.uepi_decap.psp_malformed", 3)
    .punts("uepi", 1);
    then_good(case, 0, 0)
}

fn units_that_never_end() -> Case {
    let (head, _) = unit(SID);
    let piece = vec![0x5a; 1400];
    let packet = |n: u16, pieces: &[(&[u8], bool, bool)]| from_device(pseudowire(session(UP), n, false, pieces));
    // 24 KiB is the longest burst: the eighteenth piece is too much, the two behind it belong to nothing.
    let case =
        case("A data unit that goes on and on: given up at 24 KiB; the memory is bounded, and the next unit is good.")
            .send("cin", &packet(0, &[(&head, true, false)]))
            .then(|case| (1..=20).fold(case, |case, n| case.send("cin", &packet(n, &[(&piece, false, false)]))))
            .drops("worker.uepi_malformed", 1)
            .drops("worker.segment_lost", 2)
            .punts("uepi", 22);
    then_good(case, 21, 0)
}

fn units_without_a_beginning() -> Case {
    let (head, tail) = unit(SID);
    let packet = |n: u16, pieces: &[(&[u8], bool, bool)]| from_device(pseudowire(session(UP), n, false, pieces));
    let case =
        case("Pieces without a header, two headers in a row, a header that is none, a trailer that is too short.")
            .send("cin", &packet(0, &[(b"lost", false, false), (&tail, false, true)]))
            .send("cin", &packet(1, &[(&head, true, false), (b"cut off", false, false)]))
            .send("cin", &packet(2, &[(&head, true, false), (b"again", false, false), (b"short", false, true)]))
            .send("cin", &packet(3, &[(&[0xff; 8], true, false)]))
            .drops("worker.segment_lost", 2)
            .drops("worker.uepi_malformed", 3)
            .punts("uepi", 5);
    then_good(case, 4, 0)
}

fn a_packet_is_missing() -> Case {
    let (head, tail) = unit(SID);
    let packet = |n: u16, pieces: &[(&[u8], bool, bool)]| from_device(pseudowire(session(UP), n, false, pieces));
    let case = case(
        "The pseudowire's numbers jump in the middle of a data unit: the unit is lost, and three packets with it.",
    )
    .send("cin", &packet(65534, &[(&head, true, false), (b"half", false, false)]))
    .send("cin", &packet(2, &[(b"a unit", false, false), (&tail, false, true)]))
    .drops("worker.segment_lost", 3)
    .counts("units.packets_lost", 3)
    .punts("uepi", 3);
    then_good(case, 3, 0)
}

fn a_segment_is_missing() -> Case {
    let long = |ttl| ip4(HOST, SERVER).ttl(ttl).udp(1, 2).filled(400);
    let payload = stream(&[long(9), datagram6(false, 9)]);
    let begin = stream(&[long(9)]).len() - 300;
    case(
        "A gap in a cluster's segments: after 18 ms the frame under way is given up, and the next that begins is good.",
    )
    .send("cin", &burst(0, SID, &segment(0, Some(0), &payload[..200])))
    .send("cin", &burst(1, SID, &segment(2, Some(begin as u16), &payload[300..])))
    .at(ms(18))
    .expect("nsi", &to_router(&datagram6(false, 8)))
    .drops("worker.segment_lost", 1)
    .punts("uepi", 2)
}

fn segments_that_come_again() -> Case {
    let good = || segment(5, Some(0), &stream(&[datagram(false, 9)]));
    case("A segment that comes twice, and one from before: late.")
        .send("cin", &burst(0, SID, &good()))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .send("cin", &burst(1, SID, &good()))
        .send("cin", &burst(2, SID, &segment(4, Some(0), &stream(&[datagram(false, 9)]))))
        .drops("worker.segment_late", 2)
        .punts("uepi", 3)
}

/// Segments that wait for earlier ones at most, all clusters together.
const WAITING: u16 = 256;
/// How far ahead of its turn a segment may come.
const WINDOW: u16 = 64;

fn more_segments_wait_than_may() -> Case {
    let sid = |modem: u16| SID + modem;
    let modem = |n: u16| {
        format!(
            r#"{{ mac = "02:cb:00:00:00:{:02x}", profile = "home", ipv4 = "10.0.0.{n}", host_mac = "02:ca:00:00:00:{n:02x}", sid = {} }}"#,
            n,
            sid(n - 1)
        )
    };
    let modems: Vec<String> = (1..=5).map(modem).collect();
    let groups = format!(
        r#"service_group = [ {{ name = "sg", rpd = "172.16.0.2", mac = "02:00:00:00:0c:01",
            channel = [ {{ name = "ofdm", capacity = "1.89 Gbit/s", session = 0x1000 }} ],
            upstream_channel = [ {{ session = 0x2000, count = 2 }} ], modem = [ {} ] }} ]"#,
        modems.join(", ")
    );
    let empty = |n| segment(n, Some(0), &[0xff; 8]);
    let case =
        case("As many segments wait for earlier ones as there is room for: the next is dropped by name.").with(&groups);
    // The first segment of each comes, and the second is missing. So many others of four modems wait; of the first modem as
    // many as there is still room for, and one more.
    let mut segments: Vec<_> = (0..5).map(|modem| (modem, empty(0))).collect();
    segments.extend((1..5).flat_map(|modem| (2..=WINDOW).map(move |n| (modem, n))).map(|(modem, n)| (modem, empty(n))));
    let room = WAITING - 4 * (WINDOW - 1);
    segments.extend((2..2 + room - 1).map(|n| (0, empty(n))));
    segments.push((0, segment(room + 1, Some(0), &stream(&[datagram(false, 9)]))));
    segments.push((0, segment(room + 2, Some(0), &stream(&[datagram(false, 19)]))));
    segments.push((0, segment(1, Some(0), &stream(&[datagram(false, 29)]))));
    let case = (0..)
        .zip(&segments)
        .fold(case, |case, (number, (modem, payload))| case.send("cin", &burst(number, sid(*modem), payload)));
    case.expect("nsi", &to_router(&datagram(false, 28)))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .drops("worker.segment_lost", 1)
        .counts("clusters.frames", 2)
        .punts("uepi", segments.len() as u64)
}

fn packets_from_other_addresses() -> Case {
    let good = || burst(0, SID, &segment(0, Some(0), &stream(&[datagram(false, 9)])));
    let (head, tail) = unit(SID);
    let forged = segment(0, Some(0), &stream(&[datagram(false, 9)]));
    let pieces = [(&head[..], true, false), (&forged[..], false, false), (&tail[..], false, true)];
    let from = |source: [u8; 4]| {
        let body = pseudowire(session(UP), 0, false, &pieces);
        eth(DEVICE_MAC, CIN_MAC).ip4(source, CIN).says(115).payload(body)
    };
    let mut asked = vec![0; uepi::Request::LEN];
    uepi::Request { size: 300, sid: SID, scheduled_sid: SID, in_units: true, ..uepi::Request::default() }
        .emit(&mut asked)
        .expect("room");
    let asks = pseudowire(session(REQUESTS), 0, false, &[(&asked, true, true)]);
    case("Packets of the device's sessions from other addresses: neither bursts nor requests are believed.")
        .send("cin", &from([172, 16, 0, 3]))
        .send("cin", &from([10, 9, 9, 9]))
        .send("cin", &eth(DEVICE_MAC, CIN_MAC).ip4([172, 16, 0, 3], CIN).says(115).payload(asks))
        .drops("bursts.rx.unknown_rpd", 3)
        .counts("grants.0.requests", 0)
        .send("cin", &good())
        .expect("nsi", &to_router(&datagram(false, 8)))
        .punts("uepi", 1)
}

fn unknown_sessions() -> Case {
    let (head, tail) = unit(SID);
    let pieces = [(&head[..], true, false), (&tail[..], false, true)];
    let on = |number| from_device(pseudowire(session(number), 0, false, &pieces));
    let case = case("A session that is not ours, a control message, a packet that ends in its session number.")
        .send("cin", &on(0x2001))
        .send("cin", &on(DOWN))
        .send("cin", &from_device([&[0; 4][..], &[0xc8, 3, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0]].concat()))
        .send("cin", &from_device([0, 0, 32]))
        .drops("bursts.rx.unknown_pseudowire", 2)
        .drops("bursts.rx.l2tp_malformed", 1)
        .punts("l2tp_control", 1)
        .punts("uepi", 1);
    then_good(case, 0, 0)
}

fn unknown_service_identifiers() -> Case {
    let case = case("A burst of a modem that is not there.")
        .send("cin", &burst(0, 8, &segment(0, Some(0), &stream(&[datagram(false, 9)]))))
        .drops("worker.unknown_sid", 1)
        .punts("uepi", 2);
    then_good(case, 1, 0)
}

fn concatenation_and_fragments() -> Case {
    let kind = |kind| {
        let inner = stream(&[datagram(false, 9)]);
        let mut head = vec![0; 6];
        docsis::emit_frame(kind, &[], inner.len(), &mut head).expect("room");
        [head, inner].concat()
    };
    let payload =
        [kind(Kind::Concatenation), kind(Kind::Fragment), kind(Kind::Management), stream(&[datagram6(false, 9)])]
            .concat();
    case("Modems with segment headers neither concatenate nor fragment: dropped by name; management is not for us.")
        .send("cin", &burst(0, SID, &segment(0, Some(0), &payload)))
        .expect("nsi", &to_router(&datagram6(false, 8)))
        .drops("worker.docsis_malformed", 2)
        .punts("uepi", 1)
}

fn frames_that_are_too_long() -> Case {
    let mut head = vec![0; 6];
    docsis::emit_frame(Kind::Packet, &[], 4000, &mut head).expect("room");
    let short = {
        let mut frame = vec![0; 6];
        docsis::emit_frame(Kind::Packet, &[], 3, &mut frame).expect("room");
        [frame, vec![1, 2, 3]].concat()
    };
    let case = case("A frame of 4000 bytes, and one too short for an Ethernet frame.")
        .send("cin", &burst(0, SID, &segment(0, Some(0), &[head, vec![0; 100]].concat())))
        .send("cin", &burst(1, SID, &segment(1, Some(0), &short)))
        .drops("worker.docsis_malformed", 2)
        .punts("uepi", 3);
    then_good(case, 2, 2)
}

fn what_is_no_ip() -> Case {
    let arp = eth(host_mac(0), [0xff; 6]).arp_request(host_mac(0), HOST, NSI).padded();
    let bad = from_host(0, &datagram(false, 9).checksum(0)).poke(24, [0xba, 0xad]);
    let payload: Vec<u8> =
        [arp, bad, from_host(0, &datagram6(false, 9))].iter().flat_map(|packet| mac_frame(&[], packet, None)).collect();
    case("ARP of hosts is not heard, so nobody speaks for another's address; a wrong IP checksum is dropped.")
        .send("cin", &burst(0, SID, &segment(0, Some(0), &payload)))
        .expect("nsi", &to_router(&datagram6(false, 8)))
        .drops("upstream.docsis_decap.ether_type", 1)
        .drops("upstream.docsis_decap.header_checksum", 1)
        .punts("uepi", 1)
}

fn other_frames_on_both_ports() -> Case {
    case("Frames for other hosts, other protocols, what came to the wrong side.")
        .send("nsi", &eth(ROUTER_MAC, [2, 9, 9, 9, 9, 9]).carrying(&datagram(true, 9)))
        .send("nsi", &eth(ROUTER_MAC, NSI_MAC).says(0x88cc).filled(50))
        .send("nsi", &from_router(&datagram(true, 9)).cut(20))
        .send("nsi", &from_router(&ip4([127, 0, 0, 1], HOST).udp(1, 2)))
        .send("nsi", &from_router(&ip4(SERVER, NSI).udp(1, 2)))
        .send("cin", &eth(DEVICE_MAC, CIN_MAC).carrying(&datagram(false, 9)))
        .send("cin", &eth(DEVICE_MAC, CIN_MAC).ip4(DEVICE, CIN).udp(9, 9))
        .drops("downstream.rx.not_for_us", 1)
        .drops("downstream.rx.ether_type", 1)
        .drops("downstream.rx.malformed", 1)
        .drops("downstream.rx.martian_source", 1)
        .drops("downstream.rx.no_service", 1)
        .drops("bursts.rx.not_for_us", 1)
        .drops("bursts.rx.not_l2tp", 1)
}

/// Services of the host listen at both ports' addresses.
fn with_host_services(case: Case) -> Case {
    let mut config = BASE.to_owned();
    for role in ["role = \"rpd\"\n", "role = \"network\"\n"] {
        let interface = format!("host_interface = \"{}0\"\n", &role[8..10]);
        config = config.replacen(role, &format!("{role}{interface}host_packets_per_second = 1000\n"), 1);
    }
    let table: toml::Table = config.parse().unwrap();
    let ports = toml::Table::from_iter([("port".to_owned(), table["port"].clone())]);
    case.with(&toml::to_string(&ports).unwrap())
}

fn fragments_to_the_host() -> Case {
    let case = case(
        "Fragments of datagrams from devices may be a pseudowire's, and are not the host's; from the network, where nothing listens, all are.",
    );
    let parts = |protocol: u16, from, to| {
        let part = |offset, more| ip4(from, to).ident(9).says(protocol).fragment(offset, more).payload([6; 48]);
        [part(0, true), part(48, false)]
    };
    let mut case = with_host_services(case);
    for protocol in [17, 6] {
        for packet in parts(protocol, DEVICE, CIN) {
            case = case.send("cin", &eth(DEVICE_MAC, CIN_MAC).carrying(&packet));
        }
        for packet in parts(protocol, SERVER, NSI) {
            case = case.send("nsi", &from_router(&packet));
        }
    }
    case.send("cin", &eth(DEVICE_MAC, CIN_MAC).ip4(DEVICE, CIN).udp(9, 9))
        .drops("bursts.rx.not_l2tp", 2)
        .punts("host", 7)
}

fn tunnel_packets_in_fragments() -> Case {
    let whole = burst(0, SID, &segment(0, Some(0), &stream(&[datagram(false, 9)])));
    let case = case("A device's packets are never fragmented: a fragment is dropped by name.")
        .send(
            "cin",
            &eth(DEVICE_MAC, CIN_MAC).ip4(DEVICE, CIN).fragment(0, true).says(115).payload(&whole.build()[34..66]),
        )
        .drops("bursts.rx.outer_fragment", 1)
        .punts("uepi", 1);
    then_good(case, 0, 0)
}
