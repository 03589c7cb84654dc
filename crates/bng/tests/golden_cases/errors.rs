//! What a router owes the senders of packets it does not forward.

use std::net::IpAddr;

use super::*;

testkit::cases! {
    ttl_expired_upstream, hop_limit_expired_upstream, ttl_expired_downstream, hop_limit_expired_downstream, too_big_downstream,
    packet_too_big_downstream, fragments_downstream, too_big_upstream, fragments_upstream, no_route, no_error_about_errors,
    malformed, header_checksum, ttl_expired_between_subscribers, hop_limit_expired_between_subscribers,
}

/// An ICMP error about a packet.
pub fn error(from: IpAddr, to: IpAddr, about: &Packet, (kind, code, rest): (u8, u8, u32)) -> Packet {
    let quoted = about.build();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            ip4(from, to).tos(0xc0).icmp4(kind, code, rest).payload(&quoted[..quoted.len().min(548)])
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            ip6(from, to).icmp6(kind, code, rest).payload(&quoted[..quoted.len().min(1232)])
        }
        _ => unreachable!("one family"),
    }
}

/// As the first subscriber gets an error: with the priority of internetwork control.
pub fn error_to_sub(packet: &Packet) -> Packet {
    to_sub(packet).poke(14, [0xc0]).poke(18, [0xc0])
}

fn ttl_expired_upstream() -> Case {
    case("TTL runs out on the way from a subscriber: told by its default router (RFC 1812, 5.3.1).")
        .send("acc", &from_sub(&up(SUB, 1)))
        .expect("acc", &error_to_sub(&error(GATEWAY.into(), SUB.into(), &up(SUB, 1), (11, 0, 0))))
        .drops("worker.ttl_expired", 1)
}

fn hop_limit_expired_upstream() -> Case {
    case("The hop limit runs out: told from the core's address, as the router has a link-local one only (RFC 4443, 3.3).")
        .send("acc", &from_sub(&up6(SUB_6, 1)))
        .expect("acc", &to_sub(&error(CORE_6.into(), SUB_6.into(), &up6(SUB_6, 1), (3, 0, 0))))
        .drops("worker.ttl_expired", 1)
}

fn ttl_expired_downstream() -> Case {
    case("TTL runs out on the way to a subscriber: not policed, not counted for it.")
        .send("core", &from_router(&down(SUB, 1)))
        .expect("core", &to_router(&error(CORE.into(), SERVER.into(), &down(SUB, 1), (11, 0, 0))))
        .drops("worker.ttl_expired", 1)
        .counts("subscriber.0.down.ipv4.packets", 0)
}

fn hop_limit_expired_downstream() -> Case {
    case("The same over IPv6.")
        .send("core", &from_router(&down6(SUB_6, 1)))
        .expect("core", &to_router(&error(CORE_6.into(), SERVER_6.into(), &down6(SUB_6, 1), (3, 0, 0))))
        .drops("worker.ttl_expired", 1)
}

/// The base configuration with that MTU towards the first group.
fn narrow(text: &str, mtu: u16) -> Case {
    let groups: toml::Table = BASE.replacen("[[group]]\n", &format!("[[group]]\nmtu = {mtu}\n"), 1).parse().unwrap();
    let group = toml::Table::from_iter([("group".to_owned(), groups["group"].clone())]);
    case(text).with(&toml::to_string(&group).unwrap())
}

fn too_big_downstream() -> Case {
    let packet = ip4(SERVER, SUB).ttl(9).udp(1, 2).filled(1400);
    narrow(
        "Larger than the subscriber's MTU and not to be cut: the sender is told the size that fits (RFC 1191).",
        1280,
    )
    .send("core", &from_router(&packet))
    .expect("core", &to_router(&error(CORE.into(), SERVER.into(), &packet, (3, 4, 1280))))
    .drops("worker.too_big", 1)
}

fn packet_too_big_downstream() -> Case {
    let packet = ip6(SERVER_6, SUB_6).ttl(9).udp(1, 2).filled(1400);
    narrow("The same over IPv6 (RFC 8201).", 1300)
        .send("core", &from_router(&packet))
        .expect("core", &to_router(&error(CORE_6.into(), SERVER_6.into(), &packet, (2, 0, 1300))))
        .drops("worker.too_big", 1)
}

fn fragments_downstream() -> Case {
    let packet = ip4(SERVER, SUB).ttl(9).may_fragment().ident(7).udp(1, 2).filled(700);
    let whole = packet.build();
    let piece = |from: usize, to: usize, more: bool| {
        let head = ip4(SERVER, SUB).ttl(8).may_fragment().ident(7).fragment(from as u16, more).says(17);
        head.payload(&whole[20 + from..20 + to])
    };
    narrow("Larger than the subscriber's MTU, and may be cut (RFC 791): pieces are policed and counted.", 576)
        .send("core", &from_router(&packet))
        .expect("acc", &to_sub(&piece(0, 552, true)))
        .expect("acc", &to_sub(&piece(552, 708, false)))
        .punts("oversize", 1)
        .counts("subscriber.0.down.ipv4.packets", 2)
}

/// The base configuration with that MTU towards the core.
fn narrow_core(text: &str, mtu: u16) -> Case {
    let ports = BASE.replacen("name = \"core\"\n", &format!("name = \"core\"\nmtu = {mtu}\n"), 1);
    let ports: toml::Table = ports.parse().unwrap();
    let port = toml::Table::from_iter([("port".to_owned(), ports["port"].clone())]);
    case(text).with(&toml::to_string(&port).unwrap())
}

fn too_big_upstream() -> Case {
    let packet = ip4(SUB, SERVER).ttl(9).udp(1, 2).filled(1400);
    narrow_core("Larger than the core's MTU: the subscriber is told.", 1280)
        .send("acc", &from_sub(&packet))
        .expect("acc", &error_to_sub(&error(GATEWAY.into(), SUB.into(), &packet, (3, 4, 1280))))
        .drops("worker.too_big", 1)
}

fn fragments_upstream() -> Case {
    let packet = ip4(SUB, SERVER).ttl(9).may_fragment().ident(7).udp(1, 2).filled(700);
    let whole = packet.build();
    let piece = |from: usize, to: usize, more: bool| {
        let head = ip4(SUB, SERVER).ttl(8).may_fragment().ident(7).fragment(from as u16, more).says(17);
        head.payload(&whole[20 + from..20 + to])
    };
    narrow_core("Larger than the core's MTU, and may be cut.", 576)
        .send("acc", &from_sub(&packet))
        .expect("core", &to_router(&piece(0, 552, true)))
        .expect("core", &to_router(&piece(552, 708, false)))
        .punts("oversize", 1)
}

fn no_route() -> Case {
    case("No route to the destination (RFC 1812, 5.2.7.1).")
        .with("route = []")
        .send("acc", &from_sub(&up(SUB, 9)))
        .expect("acc", &error_to_sub(&error(GATEWAY.into(), SUB.into(), &up(SUB, 9), (3, 0, 0))))
        .drops("worker.no_route", 1)
}

fn no_error_about_errors() -> Case {
    let unreachable = ip4(SUB, SERVER).ttl(1).icmp4(3, 1, 0).payload(up(SUB, 5).build());
    case("An ICMP error whose TTL runs out is dropped in silence.")
        .send("acc", &from_sub(&unreachable))
        .drops("worker.ttl_expired", 1)
}

fn malformed() -> Case {
    case("Frames that end too early, a third tag, a length beyond the frame.")
        .send("acc", &from_sub(&up(SUB, 64)).cut(17))
        .send("acc", &from_sub(&up(SUB, 64)).cut(30))
        .send("acc", &eth(SUB_MAC, GW_MAC).service_vlan(100).vlan(1).vlan(2).carrying(&up(SUB, 64)))
        .send("acc", &from_sub(&ip4(SUB, SERVER).length(1000).udp(1, 2)))
        .send("core", &from_router(&down(SUB, 64)).cut(20))
        .drops("upstream.parse.malformed", 4)
        .drops("downstream.parse.malformed", 1)
}

fn header_checksum() -> Case {
    case("A wrong IPv4 header checksum, on both sides.")
        .send("acc", &from_sub(&ip4(SUB, SERVER).checksum(1).udp(1, 2)))
        .send("core", &from_router(&ip4(SERVER, SUB).checksum(1).udp(1, 2)))
        .drops("upstream.parse.header_checksum", 1)
        .drops("downstream.parse.header_checksum", 1)
}

fn ttl_expired_between_subscribers() -> Case {
    let packet = ip4(SUB, NEXT).ttl(1).udp(1000, 2000).payload(b"neighbour");
    case("TTL runs out on the way from one subscriber to another: the sender is told on its line, not by the core.")
        .send("acc", &from_sub(&packet))
        .expect("acc", &error_to_sub(&error(GATEWAY.into(), SUB.into(), &packet, (11, 0, 0))))
        .punts("hairpin", 1)
        .drops("worker.ttl_expired", 1)
}

fn hop_limit_expired_between_subscribers() -> Case {
    let next: Ipv6Addr = "2001:db8:100:1::2".parse().unwrap();
    let packet = ip6(SUB_6, next).ttl(1).udp(1000, 2000).payload(b"neighbour");
    case("The same over IPv6.")
        .send("acc", &from_sub(&packet))
        .expect("acc", &to_sub(&error(CORE_6.into(), SUB_6.into(), &packet, (3, 0, 0))))
        .punts("hairpin", 1)
        .drops("worker.ttl_expired", 1)
}
