//! From the network to hosts behind modems.

use super::*;

testkit::cases! {
    each_host_by_its_own_address, ipv6, unknown_destinations, many_hosts_know_their_group, encrypted_frames,
    keys_roll_over, key_numbers_go_round, key_numbers_without_streams, a_key_that_is_not_there, over_udp_with_cookies, over_ipv6, over_udp_and_ipv6,
    without_the_word, split_over_packets,
    longer_than_a_packet, a_modem_comes_and_goes, a_queue_that_is_full,
}

fn each_host_by_its_own_address() -> Case {
    let second = |ttl| ip4(SERVER, [10, 0, 0, 2]).ttl(ttl).udp(1, 2).filled(100);
    case("Two hosts behind a modem: each packet has the right hardware address and one hop less; one DEPI packet has both.")
        .send("nsi", &from_router(&datagram(true, 9)))
        .send("nsi", &from_router(&second(64)))
        .expect(
            "cin",
            &depi(0, &[framed(0, 0, &to_host(0, &datagram(true, 8))), framed(0, 1, &to_host(1, &second(63)))]),
        )
        .at(ms(5))
        .send("nsi", &from_router(&datagram(true, 9)))
        .expect("cin", &depi(1, &[framed(0, 2, &to_host(0, &datagram(true, 8)))]))
        .counts("lookup.matched", 3)
        .counts("classified.none", 3)
        .counts("filter.down.unmatched", 3)
        .counts("modem.0.down.packets", 3)
        .punts("service_flow", 3)
        .punts("depi", 3)
}

fn ipv6() -> Case {
    case("IPv6 to a host: as IPv4, by its own index.")
        .send("nsi", &from_router(&datagram6(true, 64)))
        .expect("cin", &depi(0, &[framed(0, 0, &to_host(0, &datagram6(true, 63)))]))
        .counts("lookup.matched", 1)
        .punts("service_flow", 1)
        .punts("depi", 1)
}

fn unknown_destinations() -> Case {
    let to = |address: IpAddr| match address {
        IpAddr::V4(to) => from_router(&ip4(SERVER, to).udp(1, 2)),
        IpAddr::V6(to) => from_router(&ip6(SERVER_6, to).udp(1, 2)),
    };
    case("Hosts are not learnt: what is for nobody configured, or for a group nobody joined, is dropped and counted.")
        .send("nsi", &to("10.0.0.3".parse().expect("an address")))
        .send("nsi", &to("2001:db8::3".parse().expect("an address")))
        .send("nsi", &eth(ROUTER_MAC, [1, 0, 0x5e, 1, 1, 1]).ip4(SERVER, [239, 1, 1, 1]).udp(1, 2))
        .send("nsi", &eth(ROUTER_MAC, [0xff; 6]).ip4(SERVER, [255; 4]).udp(1, 2))
        .drops("downstream.cm_lookup.unknown_subscriber", 2)
        .drops("downstream.cm_lookup.multicast", 2)
        .counts("lookup.unmatched", 4)
        .counts("lookup.matched", 0)
}

fn many_hosts_know_their_group() -> Case {
    let [group, all] = [Ipv4Addr::new(239, 1, 1, 1), Ipv4Addr::BROADCAST];
    let group6 = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 3);
    let [mac, mac6] = [[1, 0, 0x5e, 1, 1, 1], [0x33, 0x33, 0, 1, 0, 3]];
    let packet = |to: Ipv4Addr, ttl| ip4(SERVER, to).ttl(ttl).udp(1, 2).filled(60);
    let packet6 = |hops| ip6(SERVER_6, group6).ttl(hops).udp(1, 2).filled(60);
    let to = |mac: [u8; 6], packet: &Packet| eth(CMTS_MAC, mac).carrying(packet);
    // Service flows have numbers in sixteens, DSIDs too: each group has its own.
    let framed = |modem: u32, ethernet: &Packet| framed(16 * modem, 0, ethernet);
    case("Multicast and broadcast service flows: configured like modems, sent once, to the group's hardware address.")
        .with(
            r#"service_group = [ { name = "sg", rpd = "172.16.0.2", mac = "02:00:00:00:0c:01",
                channel = [ { name = "ofdm", capacity = "1.89 Gbit/s", session = 0x1000 } ],
                modem = [
                  { mac = "01:00:5e:01:01:01", profile = "home", ipv4 = "239.1.1.1" },
                  { mac = "ff:ff:ff:ff:ff:ff", profile = "home", ipv4 = "255.255.255.255" },
                  { mac = "33:33:00:01:00:03", profile = "home", ipv6 = "ff05::1:3" },
                ] } ]"#,
        )
        .send("nsi", &eth(ROUTER_MAC, mac).carrying(&packet(group, 9)))
        .send("nsi", &eth(ROUTER_MAC, [0xff; 6]).carrying(&packet(all, 9)))
        .send("nsi", &eth(ROUTER_MAC, mac6).carrying(&packet6(9)))
        .expect(
            "cin",
            &depi(
                0,
                &[
                    framed(0, &to(mac, &packet(group, 8))),
                    framed(1, &to([0xff; 6], &packet(all, 8))),
                    framed(2, &to(mac6, &packet6(8))),
                ],
            ),
        )
        .counts("lookup.matched", 3)
        .punts("service_flow", 3)
        .punts("depi", 3)
}

fn encrypted_frames() -> Case {
    let key = Key::aes128(KEY, IV);
    let long = |ttl| ip4(SERVER, HOST).ttl(ttl).udp(1, 2).filled(777);
    case("BPI+: privacy element first, CRC inside, addresses in clear, every frame from the same vector (CM-SP-SEC).")
        .with(r#"profile = [ { name = "home", encrypt = true, flow = [ { name = "best" } ] } ]"#)
        .send("nsi", &from_router(&datagram(true, 9)))
        .send("nsi", &from_router(&long(9)))
        .at(ms(1))
        .expect(
            "cin",
            &depi(0, &[sealed(0, &to_host(0, &datagram(true, 8)), 0, &key), sealed(1, &to_host(0, &long(8)), 0, &key)]),
        )
        .punts("service_flow", 2)
        .punts("depi", 2)
}

fn keys_roll_over() -> Case {
    let [first, second] = [Key::aes128(KEY, IV), Key::aes128([0xee; 16], IV)];
    let packet = |ttl| from_router(&datagram(true, ttl));
    let frame = |n, number, key: &Key| sealed(n, &to_host(0, &datagram(true, 8)), number, key);
    encrypted("The other key takes over between two packets: sequence number and toggle say so, numbering goes on.")
        .send("nsi", &packet(9))
        .expect("cin", &depi(0, &[frame(0, 0, &first)]))
        .at(ms(10))
        .step(r#"do = "key", modem = "02:cb:00:00:00:01", sequence = 1, key = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee""#)
        .at(ms(20))
        .send("nsi", &packet(9))
        .expect("cin", &depi(1, &[frame(1, 1, &second)]))
        .punts("service_flow", 2)
        .punts("depi", 2)
}

/// The `n`th key since the first, and the step that gives it to the modem and has it used.
fn next_key(n: u8) -> (Key, String) {
    let (number, hex) = (n & 0x0f, format!("{n:02x}").repeat(16));
    let step = format!(r#"do = "key", modem = "02:cb:00:00:00:01", sequence = {number}, key = "{hex}""#);
    (Key::aes128([n; 16], IV), step)
}

/// Key sequence numbers have four bits (CM-SP-SECv3.1, BPI+ key management): each new key has the next one, and a modem
/// drops a frame with a number it has no key of.
fn key_numbers_go_round() -> Case {
    let up = |number: u8, toggle: bool, key: &Key, at: u16| {
        let privacy = Privacy { toggle, ..Privacy::encrypted(number, SID) };
        let frame = mac_frame(&[Element::BpUp2(privacy)], &from_host(0, &datagram(false, 9)), Some(key));
        burst(at, SID, &segment(at, Some(0), &frame))
    };
    let case =
        encrypted("Keys 1 to 15, then 0 again: frames both ways have their key's number; other numbers are refused.");
    let case = (1..=16u8).fold(case, |case, n| {
        let ((key, step), number, odd) = (next_key(n), n & 0x0f, n & 1 == 1);
        let (from, at) = (ms(20 * u64::from(n)), u16::from(n) - 1);
        case.at(from)
            .step(&step)
            .at(from + ms(10))
            .send("nsi", &from_router(&datagram(true, 9)))
            .expect("cin", &depi(at, &[sealed(at, &to_host(0, &datagram(true, 8)), number, &key)]))
            .send("cin", &up(number, odd, &key, 3 * at))
            .expect("nsi", &to_router(&datagram(false, 8)))
            // A number of the same parity, and the right one with the other key's toggle.
            .send("cin", &up(number ^ 2, odd, &key, 3 * at + 1))
            .send("cin", &up(number, !odd, &key, 3 * at + 2))
    });
    case.drops("worker.unknown_key", 32).punts("service_flow", 16).punts("depi", 16).punts("uepi", 48)
}

fn key_numbers_without_streams() -> Case {
    let ((_, first), (key, second)) = (next_key(1), next_key(2));
    let privacy = Element::BpDown(Privacy::encrypted(2, SID));
    let frame = mac_frame(&[privacy], &to_host(0, &datagram(true, 8)), Some(&key));
    case("Frames of a service flow without sequence numbers have the number of their key as well.")
        .with(r#"profile = [ { name = "home", encrypt = true, flow = [ { name = "best", bonded = false } ] } ]"#)
        .step(&first)
        .at(ms(10))
        .step(&second)
        .at(ms(20))
        .send("nsi", &from_router(&datagram(true, 9)))
        .expect("cin", &depi(0, &[frame]))
        .punts("service_flow", 1)
        .punts("depi", 1)
}

fn a_key_that_is_not_there() -> Case {
    let second = Key::aes128([0xee; 16], IV);
    let sent = |number, key: &Key| {
        let privacy = Element::BpUp2(Privacy::encrypted(number, SID));
        mac_frame(&[privacy], &from_host(0, &datagram(false, 9)), Some(key))
    };
    let clear = stream(&[datagram(false, 9)]);
    encrypted(
        "Upstream: a key of another number, and none though the modem has keys, are refused; the right one is not.",
    )
    .send("cin", &burst(0, SID, &segment(0, Some(0), &sent(1, &second))))
    .send("cin", &burst(1, SID, &segment(1, Some(0), &clear)))
    .send("cin", &burst(2, SID, &segment(2, Some(0), &sent(0, &Key::aes128(KEY, IV)))))
    .expect("nsi", &to_router(&datagram(false, 8)))
    .drops("worker.unknown_key", 2)
    .counts("clusters.frames", 3)
    .punts("uepi", 3)
}

fn over_udp_with_cookies() -> Case {
    let [ours, theirs] = [Cookie::Long(0x0102_0304_0506_0708), Cookie::Short(0xc00c_1e00)];
    let wire = |session, cookie| l2tp::Repr { carrier: Carrier::Udp, session, cookie };
    let frame = framed(0, 0, &to_host(0, &datagram(true, 8)));
    let body = pseudowire(wire(DOWN, ours), 0, true, &[(&frame, true, true)]);
    let (head, tail) = unit(SID);
    let payload = segment(0, Some(0), &stream(&[datagram(false, 9)]));
    let up = |cookie| {
        let pieces = [(&head[..], true, false), (&payload[..], false, false), (&tail[..], false, true)];
        let body = pseudowire(wire(UP, cookie), 0, false, &pieces);
        eth(DEVICE_MAC, CIN_MAC).ip4(DEVICE, CIN).udp(1701, 1701).payload(body)
    };
    case("L2TPv3 over UDP (RFC 3931, 4.1.2), with a cookie of eight bytes down and of four up; a wrong cookie is refused.")
        .with(
            r#"service_group = [ { name = "sg", rpd = "172.16.0.2", mac = "02:00:00:00:0c:01", carrier = "udp",
                channel = [ { name = "ofdm", capacity = "1.89 Gbit/s", session = 0x1000, cookie = "0102030405060708" } ],
                upstream_channel = [ { session = 0x2000, cookie = "c00c1e00" } ],
                modem = [ { mac = "02:cb:00:00:00:01", profile = "home", ipv4 = "10.0.0.1", host_mac = "02:ca:00:00:00:01", sid = 7 } ] } ]"#,
        )
        .send("nsi", &from_router(&datagram(true, 9)))
        .expect("cin", &eth(CIN_MAC, DEVICE_MAC).ip4(CIN, DEVICE).tos(0x10).udp(1701, 1701).checksum(0).payload(body))
        .at(ms(5))
        .send("cin", &up(theirs))
        .send("cin", &up(Cookie::Short(0xc00c_1e01)))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .drops("bursts.rx.l2tp_malformed", 1)
        .punts("service_flow", 1)
        .punts("depi", 1)
        .punts("uepi", 1)
}

/// A device that is reached over IPv6, with what carries its pseudowires.
fn device_over_ipv6(text: &str, carrier: &str) -> Case {
    case(text)
        .with(
            r#"port = [
              { name = "cin", uri = "memory:cin?mac=02:00:00:00:01:01", role = "rpd", addresses = ["fd00:16::1/64"] },
              { name = "nsi", uri = "memory:nsi?mac=02:00:00:00:02:01", role = "network", addresses = ["198.18.0.254/24", "fd00:18::254/64"] },
            ]
            neighbour = [
              { port = "cin", address = "fd00:16::2", mac = "02:00:00:00:01:02" },
              { port = "nsi", address = "198.18.0.1", mac = "02:00:00:00:02:02" },
            ]"#,
        )
        .with(&format!(
            r#"service_group = [ {{ name = "sg", rpd = "fd00:16::2", mac = "02:00:00:00:0c:01", carrier = "{carrier}",
                channel = [ {{ name = "ofdm", capacity = "1.89 Gbit/s", session = 0x1000 }} ],
                upstream_channel = [ {{ session = 0x2000 }} ],
                modem = [ {{ mac = "02:cb:00:00:00:01", profile = "home", ipv4 = "10.0.0.1", host_mac = "02:ca:00:00:00:01", sid = 7 }} ] }} ]"#
        ))
}

const CIN_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x16, 0, 0, 0, 0, 0, 1);
const DEVICE_6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x16, 0, 0, 0, 0, 0, 2);

/// Both ways between host and network through it; `down` and `up` put what carries it around a pseudowire's packet.
fn both_ways(case: Case, wire: [l2tp::Repr; 2], down: impl Fn(&[u8]) -> Packet, up: impl Fn(&[u8]) -> Packet) -> Case {
    let frame = framed(0, 0, &to_host(0, &datagram(true, 8)));
    let (head, tail) = unit(SID);
    let payload = segment(0, Some(0), &stream(&[datagram(false, 9)]));
    let pieces = [(&head[..], true, false), (&payload[..], false, false), (&tail[..], false, true)];
    case.send("nsi", &from_router(&datagram(true, 9)))
        .expect("cin", &down(&pseudowire(wire[0], 0, true, &[(&frame, true, true)])))
        .at(ms(5))
        .send("cin", &up(&pseudowire(wire[1], 0, false, &pieces)))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .punts("service_flow", 1)
        .punts("depi", 1)
        .punts("uepi", 1)
}

fn over_ipv6() -> Case {
    let text = "A Remote-PHY device over IPv6: L2TPv3 is its next header, both ways.";
    both_ways(
        device_over_ipv6(text, "ip"),
        [session(DOWN), session(UP)],
        |body| eth(CIN_MAC, DEVICE_MAC).ip6(CIN_6, DEVICE_6).tos(0x10).says(115).payload(body),
        |body| eth(DEVICE_MAC, CIN_MAC).ip6(DEVICE_6, CIN_6).says(115).payload(body),
    )
}

fn over_udp_and_ipv6() -> Case {
    let text = "The same over UDP, whose checksum must be there over IPv6 (RFC 8200, 8.1).";
    let wire = |session| l2tp::Repr { carrier: Carrier::Udp, session, cookie: Cookie::None };
    both_ways(
        device_over_ipv6(text, "udp"),
        [wire(DOWN), wire(UP)],
        |body| eth(CIN_MAC, DEVICE_MAC).ip6(CIN_6, DEVICE_6).tos(0x10).udp(1701, 1701).payload(body),
        |body| eth(DEVICE_MAC, CIN_MAC).ip6(DEVICE_6, CIN_6).udp(1701, 1701).payload(body),
    )
}

fn without_the_word() -> Case {
    let frame = framed(0, 0, &to_host(0, &datagram(true, 8)));
    let body = pseudowire(session(DOWN), 0, false, &[(&frame, true, true)]);
    case("A device that knows no word behind the table of segments.")
        .with(r#"depi = { channel_word = "none", tos = 0xb8 }"#)
        .send("nsi", &from_router(&datagram(true, 9)))
        .expect("cin", &eth(CIN_MAC, DEVICE_MAC).ip4(CIN, DEVICE).tos(0xb8).says(115).payload(body))
        .punts("service_flow", 1)
        .punts("depi", 1)
}

fn split_over_packets() -> Case {
    let packet = |ttl| ip4(SERVER, HOST).ttl(ttl).udp(1, 2).filled(900);
    let frame = |n| framed(0, n, &to_host(0, &packet(8)));
    // The IP packet has 1500 bytes: IPv4, session, PSP header, two entries, the word; what is left is the second's.
    let room = 1500 - 20 - 4 - (4 + 2 * 2 + 2) - frame(0).len();
    case("A frame that does not fit any more is split: begun in one DEPI packet, ended in the next.")
        .send("nsi", &from_router(&packet(9)))
        .send("nsi", &from_router(&packet(9)))
        .expect("cin", &depi_pieces(0, &[(&frame(0), true, true), (&frame(1)[..room], true, false)]))
        .expect("cin", &depi_pieces(1, &[(&frame(1)[room..], false, true)]))
        .punts("service_flow", 2)
        .punts("depi", 2)
}

fn longer_than_a_packet() -> Case {
    let packet = |ttl| ip4(SERVER, HOST).ttl(ttl).udp(1, 2).filled(1472);
    let frame = framed(0, 0, &to_host(0, &packet(8)));
    let room = 1500 - 20 - 4 - (4 + 2 + 2);
    case("The largest packet and its headers are more than a DEPI packet holds: two carry it.")
        .send("nsi", &from_router(&packet(9)))
        .expect("cin", &depi_pieces(0, &[(&frame[..room], true, false)]))
        .expect("cin", &depi_pieces(1, &[(&frame[room..], false, true)]))
        .punts("service_flow", 1)
        .punts("depi", 1)
}

fn a_modem_comes_and_goes() -> Case {
    let other = |ttl| ip4(SERVER, [10, 0, 1, 1]).ttl(ttl).udp(1, 2).payload(b"fresh");
    // Downstream service identifiers are not given again while others are fresh.
    let fresh = Element::DsService { priority: 0, change: false, stream: Some((DSID + 16, Some(0))) };
    let frame = mac_frame(&[fresh], &eth(CMTS_MAC, [2, 0xca, 0, 0, 1, 1]).carrying(&other(8)).padded(), None);
    case("A modem is added while traffic flows, and another one taken out.")
        .send("nsi", &from_router(&other(9)))
        .drops("downstream.cm_lookup.unknown_subscriber", 2)
        .at(ms(5))
        .step(
            r#"do = "add", service_group = "sg", modem = { mac = "02:cb:00:00:01:01", profile = "home", ipv4 = "10.0.1.1", host_mac = "02:ca:00:00:01:01", sid = 8 }"#,
        )
        .step(r#"do = "remove", modem = "02:cb:00:00:00:01""#)
        .at(ms(10))
        .send("nsi", &from_router(&other(9)))
        .send("nsi", &from_router(&datagram(true, 9)))
        .expect("cin", &depi(0, &[frame]))
        .punts("service_flow", 1)
        .punts("depi", 1)
}

fn a_queue_that_is_full() -> Case {
    let packet = |n: u16| ip4(SERVER, HOST).ttl(9).ident(n).udp(1, 2).filled(1000);
    let arrived = |n: u16| ip4(SERVER, HOST).ttl(8).ident(n).udp(1, 2).filled(1000);
    // 1046 bytes each; the first two are the burst, the bucket of 3044 bytes, and go at once. The others wait: as many
    // as the queue has room for.
    case("A service flow far over its rate: its queue holds so many bytes, and what comes then is dropped and counted.")
        .with(r#"profile = [ { name = "home", flow = [ { name = "best", rate = "1 kbit/s", buffer = 3200 } ] } ]"#)
        .then(|case| (0..3).fold(case, |case, n| case.send("nsi", &from_router(&packet(n)))))
        .then(|case| (3..8).fold(case, |case, n| case.send("nsi", &from_router(&packet(n)))))
        .expect(
            "cin",
            &depi_of(0, &[framed(0, 0, &to_host(0, &arrived(0))), framed(0, 1, &to_host(0, &arrived(1)))])[0],
        )
        .expect(
            "cin",
            &depi_of(0, &[framed(0, 0, &to_host(0, &arrived(0))), framed(0, 1, &to_host(0, &arrived(1)))])[1],
        )
        .drops("downstream.qos.flow_queue_full", 5)
        .punts("service_flow", 3)
        .punts("depi", 2)
}

/// DEPI packets with two frames, the second split.
fn depi_of(first: u16, frames: &[Vec<u8>; 2]) -> [Packet; 2] {
    let room = 1500 - 20 - 4 - (4 + 2 * 2 + 2) - frames[0].len();
    [
        depi_pieces(first, &[(&frames[0], true, true), (&frames[1][..room], true, false)]),
        depi_pieces(first + 1, &[(&frames[1][room..], false, true)]),
    ]
}
