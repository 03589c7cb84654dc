//! From hosts behind modems to the network.

use super::*;

testkit::cases! {
    a_packet, ipv6, several_in_a_segment, cut_over_segments, segments_that_overtake_each_other, decrypted,
    crc_is_verified_where_asked, crc_is_left_where_not_asked, type_of_service_is_overwritten, sources_are_verified,
    requests_are_counted, a_unit_over_several_packets, a_packet_waits_for_a_neighbour,
}

fn once(text: &str, payload: &[u8]) -> Case {
    case(text).send("cin", &burst(0, SID, &segment(0, Some(0), payload))).punts("uepi", 1)
}

fn a_packet() -> Case {
    once("A burst, a segment, a frame, a packet: one hop less.", &stream(&[datagram(false, 9)]))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .counts("units.bursts", 1)
        .counts("clusters.frames", 1)
        .counts("modem.0.up.packets", 1)
}

fn a_packet_waits_for_a_neighbour() -> Case {
    let there = std::net::Ipv4Addr::new(198, 18, 0, 9);
    let packet = |ttl| ip4(HOST, there).ttl(ttl).udp(1000, 2000).payload(b"cable");
    once("A host of the network's link is asked for; the packet waits.", &stream(&[packet(9)]))
        .expect("nsi", &eth(NSI_MAC, [0xff; 6]).arp_request(NSI_MAC, NSI, there).padded())
        .at(ms(5))
        .send("nsi", &eth(ROUTER_MAC, NSI_MAC).arp_reply(ROUTER_MAC, there, NSI_MAC, NSI).padded())
        .expect("nsi", &to_router(&packet(8)))
        .punts("resolve", 1)
        .punts("arp", 1)
        .counts("modem.0.up.packets", 1)
}

fn ipv6() -> Case {
    once("The same over IPv6.", &stream(&[datagram6(false, 9)])).expect("nsi", &to_router(&datagram6(false, 8)))
}

fn several_in_a_segment() -> Case {
    let payload =
        [stream(&[datagram(false, 9)]), vec![0xff; 9], stream(&[datagram6(false, 9)]), vec![0xff; 100]].concat();
    once("Frames with fill between and behind them.", &payload)
        .expect("nsi", &to_router(&datagram(false, 8)))
        .expect("nsi", &to_router(&datagram6(false, 8)))
}

fn cut_over_segments() -> Case {
    let packet = |ttl| ip4(HOST, SERVER).ttl(ttl).udp(1, 2).filled(700);
    let payload = stream(&[packet(9), datagram(false, 9), packet(9)]);
    let first = stream(&[packet(9)]).len();
    // Within the first header, within the first frame, and where the third begins.
    let third = stream(&[packet(9), datagram(false, 9)]).len();
    case("A stream cut in the middle of a header, of a frame, and exactly between two.")
        .send("cin", &burst(0, SID, &segment(0, Some(0), &payload[..3])))
        .send("cin", &burst(1, SID, &segment(1, None, &payload[3..400])))
        .send("cin", &burst(2, SID, &segment(2, Some((first - 400) as u16), &payload[400..third])))
        .send("cin", &burst(3, SID, &segment(3, Some(0), &payload[third..])))
        .expect("nsi", &to_router(&packet(8)))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .expect("nsi", &to_router(&packet(8)))
        .counts("clusters.frames", 3)
        .punts("uepi", 4)
}

fn segments_that_overtake_each_other() -> Case {
    let payload = stream(&[datagram(false, 9), datagram6(false, 9)]);
    let first = stream(&[datagram(false, 9)]).len();
    case("Two channels: the second segment of a cluster comes before the first, and waits for it.")
        .with(
            r#"service_group = [ { name = "sg", rpd = "172.16.0.2", mac = "02:00:00:00:0c:01",
                channel = [ { name = "ofdm", capacity = "1.89 Gbit/s", session = 0x1000 } ],
                upstream_channel = [ { session = 0x2000, count = 2 } ],
                modem = [ { mac = "02:cb:00:00:00:01", profile = "home", ipv4 = "10.0.0.1", ipv6 = "2001:db8::1", host_mac = "02:ca:00:00:00:01", sid = 7 } ] } ]"#,
        )
        .send("cin", &burst(0, SID, &segment(4, Some(0), &payload[..first])))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .at(ms(3))
        .send("cin", &burst(1, SID, &segment(6, Some(0), &payload[first..])))
        .at(ms(6))
        .send("cin", &burst(2, SID, &segment(5, Some(0), &payload[..first])))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .expect("nsi", &to_router(&datagram6(false, 8)))
        .punts("uepi", 3)
}

fn decrypted() -> Case {
    let privacy = Element::BpUp2(Privacy::encrypted(0, SID));
    let long = |ttl| ip4(HOST, SERVER).ttl(ttl).udp(1, 2).filled(321);
    let frame = mac_frame(&[privacy], &from_host(0, &long(9)), Some(&Key::aes128(KEY, IV)));
    encrypted("A frame under the modem's key.")
        .send("cin", &burst(0, SID, &segment(0, Some(0), &frame)))
        .expect("nsi", &to_router(&long(8)))
        .punts("uepi", 1)
}

fn wrong_crc() -> Vec<u8> {
    let mut frame = stream(&[datagram(false, 9)]);
    let last = frame.len() - 1;
    frame[last] ^= 1;
    frame
}

fn crc_is_verified_where_asked() -> Case {
    once(
        "The CRC of the frame is wrong, and is to be verified.",
        &[wrong_crc(), stream(&[datagram6(false, 9)])].concat(),
    )
    .with("upstream = { verify_crc = true }")
    .expect("nsi", &to_router(&datagram6(false, 8)))
    .drops("worker.frame_crc", 1)
}

fn crc_is_left_where_not_asked() -> Case {
    once("The CRC of the frame is wrong, and is not to be verified: as the published workload has it.", &wrong_crc())
        .expect("nsi", &to_router(&datagram(false, 8)))
}

fn type_of_service_is_overwritten() -> Case {
    let mark4 = |tos, ttl| ip4(HOST, SERVER).ttl(ttl).tos(tos).udp(1, 2).payload(b"marked");
    let mark6 = |tos, ttl| ip6(HOST_6, SERVER_6).ttl(ttl).tos(tos).flow_label(0xabcde).udp(1, 2);
    once(
        "Type of service overwrite (TLV 24.23): ECN is kept, the rest set.",
        &stream(&[mark4(0xb9, 9), mark6(0x03, 9)]),
    )
    .with(r#"profile = [ { name = "home", tos = [0x03, 0x28], flow = [ { name = "best" } ] } ]"#)
    .expect("nsi", &to_router(&mark4(0x29, 8)))
    .expect("nsi", &to_router(&mark6(0x2b, 8)))
}

fn sources_are_verified() -> Case {
    let from = |source: [u8; 4]| ip4(source, SERVER).udp(1, 2);
    let second = |ttl| ip4([10, 0, 0, 2], SERVER).ttl(ttl).udp(1, 2);
    let payload = stream(&[
        from([10, 0, 0, 3]),
        from([127, 0, 0, 1]),
        from([0, 0, 0, 0]),
        ip6(SERVER_6, HOST_6).udp(1, 2),
        second(9),
    ]);
    once("Only addresses of hosts behind the modem may speak (source address verification).", &payload)
        .expect("nsi", &to_router(&second(8)))
        .drops("upstream.cm_lookup.spoofed_source", 2)
        .drops("upstream.cm_lookup.martian_source", 2)
}

fn requests_are_counted() -> Case {
    let mut queue = vec![0; 7];
    docsis::emit_request(10, SID, &mut queue).expect("room");
    let mut request = vec![0; uepi::Request::LEN];
    let asked = uepi::Request { size: 300, sid: SID, scheduled_sid: SID, in_units: true, ..uepi::Request::default() };
    asked.emit(&mut request).expect("room");
    let head = from_device(pseudowire(session(REQUESTS), 0, false, &[(&request, true, true)]));
    let payload = [queue, stream(&[datagram(false, 9)])].concat();
    once(
        "A queue-depth request in the stream, and one on the session for them: taken out and counted for the grants.",
        &payload,
    )
    .send("cin", &head)
    .expect("nsi", &to_router(&datagram(false, 8)))
    .counts("clusters.requests", 1)
    .counts("grants.0.requests", 2)
    .counts("grants.0.requested_bytes", (10 + 300) * 16)
    .punts("bandwidth_request", 1)
}

fn a_unit_over_several_packets() -> Case {
    let (head, tail) = unit(SID);
    let payload = segment(0, Some(0), &stream(&[datagram(false, 9)]));
    let packet = |n, pieces: &[(&[u8], bool, bool)]| from_device(pseudowire(session(UP), n, false, pieces));
    case("A data unit whose header, payload and trailer come in packets of their own, the payload in two pieces.")
        .send("cin", &packet(9, &[(&head, true, false)]))
        .send("cin", &packet(10, &[(&payload[..11], false, false), (&payload[11..], false, false)]))
        .send("cin", &packet(11, &[(&tail, false, true)]))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .counts("units.bursts", 1)
        .punts("uepi", 3)
}
