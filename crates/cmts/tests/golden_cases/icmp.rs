//! What a router of subscribers answers.

use super::*;

testkit::cases! {
    ttl_expired_downstream, hop_limit_expired_downstream, ttl_expired_upstream, hop_limit_expired_upstream,
    too_big_downstream, packet_too_big_downstream, fragments_downstream, no_route_upstream, no_error_about_errors,
    errors_are_limited, pings,
}

/// An ICMP error of ours about a packet, to its source.
fn error(about: &Packet, to: IpAddr, (kind, code, rest): (u8, u8, u32)) -> Packet {
    let quoted = about.build();
    match to {
        IpAddr::V4(to) => ip4(NSI, to).tos(0xc0).icmp4(kind, code, rest).payload(&quoted[..quoted.len().min(548)]),
        IpAddr::V6(to) => ip6(NSI_6, to).icmp6(kind, code, rest).payload(&quoted[..quoted.len().min(1232)]),
    }
}

fn to_server(about: &Packet, what: (u8, u8, u32)) -> Packet {
    to_router(&error(about, SERVER.into(), what))
}

fn to_subscriber(number: u16, sequence: u16, about: &Packet, to: IpAddr, what: (u8, u8, u32)) -> Packet {
    depi(number, &[framed(0, sequence, &to_host(0, &error(about, to, what)))])
}

fn up(number: u16, packets: &[Packet]) -> Packet {
    burst(number, SID, &segment(number, Some(0), &stream(packets)))
}

fn ttl_expired_downstream() -> Case {
    case("Time to live runs out on the way to a host: the sender is told (RFC 1812, 5.3.1).")
        .send("nsi", &from_router(&datagram(true, 1)))
        .expect("nsi", &to_server(&datagram(true, 1), (11, 0, 0)))
        .drops("worker.ttl_expired", 1)
}

fn hop_limit_expired_downstream() -> Case {
    let packet = datagram6(true, 1);
    case("The hop limit runs out on the way to a host (RFC 4443, 3.3).")
        .send("nsi", &from_router(&packet))
        .expect("nsi", &to_router(&error(&packet, SERVER_6.into(), (3, 0, 0))))
        .drops("worker.ttl_expired", 1)
}

fn ttl_expired_upstream() -> Case {
    case("Time to live runs out on the way from a host: it is told by its own service flow.")
        .send("cin", &up(0, &[datagram(false, 1)]))
        .expect("cin", &to_subscriber(0, 0, &datagram(false, 1), HOST.into(), (11, 0, 0)))
        .drops("worker.ttl_expired", 1)
        .punts("uepi", 1)
        .punts("service_flow", 1)
        .punts("depi", 1)
}

fn hop_limit_expired_upstream() -> Case {
    case("The hop limit runs out on the way from a host.")
        .send("cin", &up(0, &[datagram6(false, 1)]))
        .expect("cin", &to_subscriber(0, 0, &datagram6(false, 1), HOST_6.into(), (3, 0, 0)))
        .drops("worker.ttl_expired", 1)
        .punts("uepi", 1)
        .punts("service_flow", 1)
        .punts("depi", 1)
}

fn too_big_downstream() -> Case {
    let packet = ip4(SERVER, HOST).ttl(9).udp(1, 2).filled(1400);
    case("Larger than a modem's MTU and not to be cut: the sender is told the size that fits (RFC 1191).")
        .with("queues = { mtu = 1280 }")
        .send("nsi", &from_router(&packet))
        .expect("nsi", &to_server(&packet, (3, 4, 1280)))
        .drops("worker.too_big", 1)
}

fn packet_too_big_downstream() -> Case {
    let packet = ip6(SERVER_6, HOST_6).ttl(9).udp(1, 2).filled(1400);
    case("The same over IPv6 (RFC 8201).")
        .with("queues = { mtu = 1300 }")
        .send("nsi", &from_router(&packet))
        .expect("nsi", &to_router(&error(&packet, SERVER_6.into(), (2, 0, 1300))))
        .drops("worker.too_big", 1)
}

fn fragments_downstream() -> Case {
    let whole = ip4(SERVER, HOST).ttl(9).ident(77).may_fragment().udp(1, 2).filled(1400);
    let bytes = whole.build();
    // 600 bytes: 20 of header, 576 of data, a multiple of eight.
    let piece = |from: usize, to: usize, more: bool| {
        let data = &bytes[20 + from..20 + to];
        to_host(0, &ip4(SERVER, HOST).ttl(8).ident(77).fragment(from as u16, more).says(17).payload(data))
    };
    let frames = [
        framed(0, 0, &piece(0, 576, true)),
        framed(0, 1, &piece(576, 1152, true)),
        framed(0, 2, &piece(1152, 1408, false)),
    ];
    let room = 1500 - 20 - 4 - (4 + 2 * 3 + 2) - frames[0].len() - frames[1].len();
    case("Larger than a modem's MTU, and may be cut: it goes on in pieces (RFC 791, 3.2).")
        .with("queues = { mtu = 600 }")
        .send("nsi", &from_router(&whole))
        .expect(
            "cin",
            &depi_pieces(0, &[(&frames[0], true, true), (&frames[1], true, true), (&frames[2][..room], true, false)]),
        )
        .expect("cin", &depi_pieces(1, &[(&frames[2][room..], false, true)]))
        .punts("oversize", 1)
        .punts("service_flow", 3)
        .punts("depi", 3)
}

fn no_route_upstream() -> Case {
    case("Nowhere to send it: the host is told (RFC 1812, 5.2.7.1; RFC 4443, 3.1).")
        .with(r#"route = [ { to = "::/0", via = "fd00:18::1" } ]"#)
        .send("cin", &up(0, &[datagram(false, 9)]))
        .expect("cin", &to_subscriber(0, 0, &datagram(false, 9), HOST.into(), (3, 0, 0)))
        .drops("worker.no_route", 1)
        .punts("uepi", 1)
        .punts("service_flow", 1)
        .punts("depi", 1)
}

fn no_error_about_errors() -> Case {
    let quoted = datagram(false, 9).build();
    case("Never about an error, a later fragment, or what came to many (RFC 1812, 4.3.2.7).")
        .send("nsi", &from_router(&ip4(SERVER, HOST).ttl(1).icmp4(11, 0, 0).payload(&quoted)))
        .send("nsi", &from_router(&ip4(SERVER, HOST).ttl(1).fragment(80, false).says(17).payload([0; 40])))
        .send("nsi", &eth(ROUTER_MAC, [0xff; 6]).carrying(&datagram(true, 1)))
        .drops("worker.ttl_expired", 3)
}

fn errors_are_limited() -> Case {
    let packet = || datagram(true, 1);
    // A hundred at once, then a thousand a second.
    case("So many errors and no more (RFC 1812, 4.3.2.8).")
        .then(|case| (0..130).fold(case, |case, _| case.send("nsi", &from_router(&packet()))))
        .then(|case| (0..100).fold(case, |case, _| case.expect("nsi", &to_server(&packet(), (11, 0, 0)))))
        .drops("worker.ttl_expired", 130)
}

fn pings() -> Case {
    let ping = |to| ip4(SERVER, to).ping(7, 1).payload(b"here?");
    let device = eth(DEVICE_MAC, CIN_MAC).ip4(DEVICE, CIN).ping(7, 1).payload(b"here?");
    let six = ip6(SERVER_6, NSI_6).ping(7, 1);
    case("The gateway's own addresses answer, on both sides.")
        .send("nsi", &from_router(&ping(NSI)))
        .send("nsi", &from_router(&six))
        .send("cin", &device)
        .expect("nsi", &to_router(&ip4(NSI, SERVER).pong(7, 1).payload(b"here?")))
        .expect("nsi", &to_router(&ip6(NSI_6, SERVER_6).pong(7, 1)))
        .expect("cin", &eth(CIN_MAC, DEVICE_MAC).ip4(CIN, DEVICE).pong(7, 1).payload(b"here?"))
        .punts("ping", 3)
}
