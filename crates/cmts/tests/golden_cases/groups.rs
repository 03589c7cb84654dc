//! Several service groups on one pair of ports: told apart by L2TPv3 session, and by nothing else. Both have modems with
//! the same service identifier, security association and numbers of segments.

use super::*;

testkit::cases! {
    each_by_its_own_device, the_same_identifiers_in_each, one_device_for_both, keys_of_each, gaps_in_one, requests_of_each,
    a_modem_moves, ports_of_their_own, networks_of_their_own,
}

/// The second group's sessions, device, and host.
const DOWN_2: u32 = 0x1100;
const UP_2: u32 = 0x2100;
const REQUESTS_2: u32 = 0x3100;
const DEVICE_2: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 3);
const DEVICE_2_MAC: [u8; 6] = [2, 0, 0, 0, 1, 3];
const HOST_2: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
/// The second group's modem is the second of all: its service flows have the next numbers.
const DSID_2: u32 = DSID + 16;
const KEY_2: [u8; 16] = [0x77; 16];

/// Two service groups of one modem each; the second one's device has that address.
fn two(text: &str, device: Ipv4Addr) -> Case {
    two_and(text, device, "")
}

/// The same, with more said of the second group.
fn two_and(text: &str, device: Ipv4Addr, more: &str) -> Case {
    let group = |name: &str, device: Ipv4Addr, [down, up, requests]: [u32; 3], modem: &str, more: &str| {
        format!(
            r#"{{ {more} name = "{name}", rpd = "{device}", mac = "02:00:00:00:0c:01",
                channel = [ {{ name = "ofdm", capacity = "1.89 Gbit/s", session = {down} }} ],
                upstream_channel = [ {{ session = {up}, capacity = "100 Mbit/s" }},
                                     {{ session = {requests}, carries = "requests" }} ],
                modem = [ {{ {modem}, profile = "home", sid = 7, iv = "11111111111111111111111111111111" }} ] }}"#
        )
    };
    let first = r#"mac = "02:cb:00:00:00:01", ipv4 = "10.0.0.1", host_mac = "02:ca:00:00:00:01",
        key = "000102030405060708090a0b0c0d0e0f""#;
    let second = r#"mac = "02:cb:00:00:00:02", ipv4 = "10.1.0.1", host_mac = "02:ca:00:00:00:02",
        key = "77777777777777777777777777777777""#;
    let one = |text: &str| text.replace('\n', " ");
    let groups = [
        group("first", DEVICE, [DOWN, UP, REQUESTS], &one(first), ""),
        group("second", device, [DOWN_2, UP_2, REQUESTS_2], &one(second), more),
    ];
    case(text).with(&format!("service_group = [ {} ]", groups.join(", "))).with(
        r#"neighbour = [
          { port = "cin", address = "172.16.0.2", mac = "02:00:00:00:01:02" },
          { port = "cin", address = "172.16.0.3", mac = "02:00:00:00:01:03" },
          { port = "nsi", address = "198.18.0.1", mac = "02:00:00:00:02:02" },
        ]"#,
    )
}

/// To and from the second group's host.
fn down_2(ttl: u8) -> Packet {
    ip4(SERVER, HOST_2).ttl(ttl).udp(1000, 2000).payload(b"second")
}

fn up_2(ttl: u8) -> Packet {
    ip4(HOST_2, SERVER).ttl(ttl).udp(1000, 2000).payload(b"second")
}

/// The second modem's frame of that number, in clear, and a DEPI packet with it to that device.
fn framed_2(sequence: u16) -> Vec<u8> {
    let service = Element::DsService { priority: 0, change: false, stream: Some((DSID_2, Some(sequence))) };
    mac_frame(&[service], &to_host(1, &down_2(8)), None)
}

fn depi_2(device: (Ipv4Addr, [u8; 6]), sequence: u16, frame: &[u8]) -> Packet {
    let body = pseudowire(session(DOWN_2), sequence, true, &[(frame, true, true)]);
    eth(CIN_MAC, device.1).ip4(CIN, device.0).tos(0x10).says(115).payload(body)
}

/// A burst on the second group's session.
fn burst_2(device: (Ipv4Addr, [u8; 6]), number: u16, payload: &[u8]) -> Packet {
    let (head, tail) = unit(SID);
    let pieces = [(&head[..], true, false), (payload, false, false), (&tail[..], false, true)];
    let body = pseudowire(session(UP_2), number, false, &pieces);
    eth(device.1, CIN_MAC).ip4(device.0, CIN).says(115).payload(body)
}

const SECOND: (Ipv4Addr, [u8; 6]) = (DEVICE_2, DEVICE_2_MAC);

fn from_second(packet: &Packet) -> Vec<u8> {
    mac_frame(&[], &from_host(1, packet), None)
}

fn each_by_its_own_device() -> Case {
    two("Downstream: each group's packets on its own session, to its own device, with numbers of their own.", DEVICE_2)
        .send("nsi", &from_router(&datagram(true, 9)))
        .send("nsi", &from_router(&down_2(9)))
        .expect("cin", &depi(0, &[framed(0, 0, &to_host(0, &datagram(true, 8)))]))
        .expect("cin", &depi_2(SECOND, 0, &framed_2(0)))
        .at(ms(5))
        .send("nsi", &from_router(&down_2(9)))
        .expect("cin", &depi_2(SECOND, 1, &framed_2(1)))
        .counts("channel.0.packets", 1)
        .counts("channel.1.packets", 2)
        .counts("modem.0.down.packets", 1)
        .counts("modem.1.down.packets", 2)
        .punts("service_flow", 3)
        .punts("depi", 3)
}

fn the_same_identifiers_in_each() -> Case {
    let both = |own: Vec<u8>, others: Vec<u8>| segment(0, Some(0), &[own, others].concat());
    let first = both(stream(&[datagram(false, 9)]), mac_frame(&[], &from_host(0, &up_2(9)), None));
    let second = both(from_second(&up_2(9)), from_second(&datagram(false, 9)));
    two("Upstream: service identifier 7 is one modem on one session and another on the other; neither speaks for the other's host.", DEVICE_2)
        .send("cin", &burst(0, SID, &first))
        .send("cin", &burst_2(SECOND, 0, &second))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .expect("nsi", &to_router(&up_2(8)))
        .drops("upstream.cm_lookup.spoofed_source", 2)
        .counts("modem.0.up.packets", 1)
        .counts("modem.1.up.packets", 1)
        .counts("clusters.frames", 4)
        .punts("uepi", 2)
}

fn one_device_for_both() -> Case {
    let same = (DEVICE, DEVICE_MAC);
    let payload = segment(0, Some(0), &from_second(&up_2(9)));
    two("Two groups behind one device: the same addresses both ways, and only the sessions differ.", DEVICE)
        .send("nsi", &from_router(&datagram(true, 9)))
        .send("nsi", &from_router(&down_2(9)))
        .expect("cin", &depi(0, &[framed(0, 0, &to_host(0, &datagram(true, 8)))]))
        .expect("cin", &depi_2(same, 0, &framed_2(0)))
        .at(ms(5))
        .send("cin", &burst(0, SID, &segment(0, Some(0), &stream(&[datagram(false, 9)]))))
        .send("cin", &burst_2(same, 0, &payload))
        .expect("nsi", &to_router(&datagram(false, 8)))
        .expect("nsi", &to_router(&up_2(8)))
        .counts("modem.0.up.packets", 1)
        .counts("modem.1.up.packets", 1)
        .punts("service_flow", 2)
        .punts("depi", 2)
        .punts("uepi", 2)
}

fn keys_of_each() -> Case {
    let [key, key_2] = [KEY, KEY_2].map(|key| Key::aes128(key, IV));
    let upstream = |key: &Key| {
        let privacy = Element::BpUp2(Privacy::encrypted(0, SID));
        segment(0, Some(0), &mac_frame(&[privacy], &from_host(1, &up_2(9)), Some(key)))
    };
    let service = Element::DsService { priority: 0, change: false, stream: Some((DSID_2, Some(0))) };
    let privacy = Element::BpDown(Privacy::encrypted(0, SID));
    let frame = mac_frame(&[privacy, service], &to_host(1, &down_2(8)), Some(&key_2));
    two("The same security association and key number in both groups, another key in each.", DEVICE_2)
        .with(r#"profile = [ { name = "home", encrypt = true, flow = [ { name = "best" } ] } ]"#)
        .with("upstream = { verify_crc = true }")
        .send("nsi", &from_router(&datagram(true, 9)))
        .send("nsi", &from_router(&down_2(9)))
        .at(ms(1))
        .expect("cin", &depi(0, &[sealed(0, &to_host(0, &datagram(true, 8)), 0, &key)]))
        .expect("cin", &depi_2(SECOND, 0, &frame))
        .at(ms(5))
        .send("cin", &burst_2(SECOND, 0, &upstream(&key_2)))
        .send("cin", &burst(0, SID, &upstream(&key_2)))
        .expect("nsi", &to_router(&up_2(8)))
        .drops("worker.frame_crc", 1)
        .punts("service_flow", 2)
        .punts("depi", 2)
        .punts("uepi", 2)
}

fn gaps_in_one() -> Case {
    let (head, tail) = unit(SID);
    let half = from_device(pseudowire(session(UP), 0, false, &[(&head, true, false), (b"half", false, false)]));
    let rest = from_device(pseudowire(session(UP), 9, false, &[(b"a unit", false, false), (&tail, false, true)]));
    let payload = segment(0, Some(0), &from_second(&up_2(9)));
    let (begin, end) = payload.split_at(20);
    let piece = |number, segments: &[(&[u8], bool, bool)]| {
        let body = pseudowire(session(UP_2), number, false, segments);
        eth(DEVICE_2_MAC, CIN_MAC).ip4(DEVICE_2, CIN).says(115).payload(body)
    };
    two("A gap on one session, between the pieces of a data unit on another: the other's is whole.", DEVICE_2)
        .send("cin", &half)
        .send("cin", &piece(0, &[(&head, true, false), (begin, false, false)]))
        .send("cin", &rest)
        .send("cin", &piece(1, &[(end, false, false), (&tail, false, true)]))
        .expect("nsi", &to_router(&up_2(8)))
        .drops("worker.segment_lost", 3)
        .counts("units.packets_lost", 8)
        .punts("uepi", 4)
}

fn requests_of_each() -> Case {
    let asked = |device: (Ipv4Addr, [u8; 6]), wire, size| {
        let mut request = vec![0; uepi::Request::LEN];
        let of = uepi::Request { size, sid: SID, scheduled_sid: SID, in_units: true, ..uepi::Request::default() };
        of.emit(&mut request).expect("room");
        let body = pseudowire(session(wire), 0, false, &[(&request, true, true)]);
        eth(device.1, CIN_MAC).ip4(device.0, CIN).says(115).payload(body)
    };
    two("Requests for bandwidth are counted for the group whose session they came on.", DEVICE_2)
        .send("cin", &asked((DEVICE, DEVICE_MAC), REQUESTS, 10))
        .send("cin", &asked(SECOND, REQUESTS_2, 300))
        .send("cin", &asked(SECOND, REQUESTS_2, 20))
        .counts("grants.0.requests", 1)
        .counts("grants.0.requested_bytes", 10 * 16)
        .counts("grants.1.requests", 2)
        .counts("grants.1.requested_bytes", 320 * 16)
        .punts("bandwidth_request", 3)
}

fn a_modem_moves() -> Case {
    // It has never had these downstream service identifiers: a receiver begins with it anew.
    let fresh = Element::DsService { priority: 0, change: false, stream: Some((DSID + 32, Some(0))) };
    let frame = mac_frame(&[fresh], &to_host(1, &down_2(8)), None);
    two("A modem goes from the second group to the first while traffic flows; its burst on the old session is nobody's.", DEVICE_2)
        .send("nsi", &from_router(&down_2(9)))
        .expect("cin", &depi_2(SECOND, 0, &framed_2(0)))
        .at(ms(5))
        .step(r#"do = "remove", modem = "02:cb:00:00:00:02""#)
        .step(r#"do = "add", service_group = "first", modem = { mac = "02:cb:00:00:00:02", profile = "home", ipv4 = "10.1.0.1", host_mac = "02:ca:00:00:00:02", sid = 8 }"#)
        .at(ms(10))
        .send("nsi", &from_router(&down_2(9)))
        .expect("cin", &depi(0, &[frame]))
        .at(ms(15))
        .send("cin", &burst_2(SECOND, 0, &segment(0, Some(0), &from_second(&up_2(9)))))
        .send("cin", &burst(0, 8, &segment(0, Some(0), &from_second(&up_2(9)))))
        .expect("nsi", &to_router(&up_2(8)))
        .drops("worker.unknown_sid", 1)
        .punts("service_flow", 2)
        .punts("depi", 2)
        .punts("uepi", 2)
}

fn ports_of_their_own() -> Case {
    const PORTS_2: [[u8; 6]; 2] = [[2, 0, 0, 0, 3, 1], [2, 0, 0, 0, 4, 1]];
    const ROUTER_2: [u8; 6] = [2, 0, 0, 0, 4, 2];
    let device = (Ipv4Addr::new(172, 17, 0, 2), DEVICE_2_MAC);
    let payload = segment(0, Some(0), &from_second(&up_2(9)));
    let from_device_2 = {
        let (head, tail) = unit(SID);
        let pieces = [(&head[..], true, false), (&payload[..], false, false), (&tail[..], false, true)];
        let body = pseudowire(session(UP_2), 0, false, &pieces);
        eth(device.1, PORTS_2[0]).ip4(device.0, [172, 17, 0, 1]).says(115).payload(body)
    };
    let to_device_2 = {
        let body = pseudowire(session(DOWN_2), 0, true, &[(&framed_2(0), true, true)]);
        eth(PORTS_2[0], device.1).ip4([172, 17, 0, 1], device.0).tos(0x10).says(115).payload(body)
    };
    // What the second group sends goes where the routes say, as of any router: by the second pair to its own part.
    two("Two ports for each service group, as published: each device behind its own, each network by its own.", device.0)
        .with(
            r#"port = [
              { name = "cin", uri = "memory:cin?mac=02:00:00:00:01:01", role = "rpd", addresses = ["172.16.0.1/16"] },
              { name = "nsi", uri = "memory:nsi?mac=02:00:00:00:02:01", role = "network", addresses = ["198.18.0.254/24"] },
              { name = "cin2", uri = "memory:cin2?mac=02:00:00:00:03:01", role = "rpd", addresses = ["172.17.0.1/16"] },
              { name = "nsi2", uri = "memory:nsi2?mac=02:00:00:00:04:01", role = "network", addresses = ["198.19.0.254/24"] },
            ]
            route = [ { to = "0.0.0.0/0", via = "198.18.0.1" }, { to = "198.51.100.0/24", via = "198.19.0.1" } ]
            neighbour = [
              { port = "cin", address = "172.16.0.2", mac = "02:00:00:00:01:02" },
              { port = "nsi", address = "198.18.0.1", mac = "02:00:00:00:02:02" },
              { port = "cin2", address = "172.17.0.2", mac = "02:00:00:00:01:03" },
              { port = "nsi2", address = "198.19.0.1", mac = "02:00:00:00:04:02" },
            ]"#,
        )
        .send("nsi", &from_router(&datagram(true, 9)))
        .send("nsi2", &eth(ROUTER_2, PORTS_2[1]).carrying(&down_2(9)))
        .expect("cin", &depi(0, &[framed(0, 0, &to_host(0, &datagram(true, 8)))]))
        .expect("cin2", &to_device_2)
        .at(ms(5))
        .send("cin2", &from_device_2)
        .expect("nsi2", &eth(PORTS_2[1], ROUTER_2).carrying(&up_2(8)))
        .counts("channel.0.packets", 1)
        .counts("channel.1.packets", 1)
        .punts("service_flow", 2)
        .punts("depi", 2)
        .punts("uepi", 1)
}

fn networks_of_their_own() -> Case {
    const WEST: [u8; 6] = [2, 0, 0, 0, 4, 1];
    const WEST_ROUTER: [u8; 6] = [2, 0, 0, 0, 4, 2];
    let from_west = |packet: &Packet| eth(WEST_ROUTER, WEST).carrying(packet);
    let to_west = |packet: &Packet| eth(WEST, WEST_ROUTER).carrying(packet);
    let error = |about: &Packet| {
        let quoted = about.build();
        ip4(NSI, SERVER).tos(0xc0).icmp4(11, 0, 0).payload(&quoted[..quoted.len().min(548)])
    };
    let whole = ip4(HOST_2, SERVER).ttl(9).ident(77).may_fragment().udp(1, 2).filled(1000);
    let bytes = whole.build();
    let piece = |from: usize, to: usize, more: bool| {
        let data = &bytes[20 + from..20 + to];
        ip4(HOST_2, SERVER).ttl(8).ident(77).fragment(from as u16, more).says(17).payload(data)
    };
    two_and(
        "Service groups with ports of their own, in networks that have the same addresses: what each group's modems send \
         leaves by its own, to the same destination, whole and in pieces; who sent what can't go on is told where it came from.",
        DEVICE_2,
        "instance = \"west\",",
    )
    .with(
        r#"port = [
          { name = "cin", uri = "memory:cin?mac=02:00:00:00:01:01", role = "rpd", addresses = ["172.16.0.1/16"] },
          { name = "nsi", uri = "memory:nsi?mac=02:00:00:00:02:01", role = "network", addresses = ["198.18.0.254/24"] },
          { name = "west", uri = "memory:west?mac=02:00:00:00:04:01", role = "network", instance = "west",
            addresses = ["198.18.0.254/24"], mtu = 600 },
        ]
        route = [ { to = "0.0.0.0/0", via = "198.18.0.1" }, { to = "0.0.0.0/0", via = "198.18.0.1", instance = "west" } ]
        neighbour = [
          { port = "cin", address = "172.16.0.2", mac = "02:00:00:00:01:02" },
          { port = "cin", address = "172.16.0.3", mac = "02:00:00:00:01:03" },
          { port = "nsi", address = "198.18.0.1", mac = "02:00:00:00:02:02" },
          { port = "west", address = "198.18.0.1", mac = "02:00:00:00:04:02" },
        ]"#,
    )
    .send("west", &from_west(&down_2(9)))
    .expect("cin", &depi_2(SECOND, 0, &framed_2(0)))
    .at(ms(5))
    .send("cin", &burst(0, SID, &segment(0, Some(0), &stream(&[datagram(false, 9)]))))
    .send("cin", &burst_2(SECOND, 0, &segment(0, Some(0), &from_second(&up_2(9)))))
    .expect("nsi", &to_router(&datagram(false, 8)))
    .expect("west", &to_west(&up_2(8)))
    .at(ms(6))
    .send("cin", &burst_2(SECOND, 1, &segment(1, Some(0), &from_second(&whole))))
    .expect("west", &to_west(&piece(0, 576, true)))
    .expect("west", &to_west(&piece(576, 1008, false)))
    .at(ms(7))
    .send("west", &from_west(&down_2(1)))
    .send("nsi", &from_router(&datagram(true, 1)))
    .expect("west", &to_west(&error(&down_2(1))))
    .expect("nsi", &to_router(&error(&datagram(true, 1))))
    .drops("worker.ttl_expired", 2)
    .counts("modem.0.up.packets", 1)
    .counts("modem.1.up.packets", 2)
    .punts("oversize", 1)
    .punts("service_flow", 1)
    .punts("depi", 1)
    .punts("uepi", 3)
}
