//! Walled gardens: what is listed passes, HTTP requests are answered with the portal's address, all else is dropped.

use wire::tcp::flag;

use super::*;

testkit::cases! { listed_destinations, not_listed, sent_to_the_portal, gateway_itself }

const DNS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
const DNS_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x53, 0, 0, 0, 0, 0x53);

fn garden(text: &str) -> Case {
    case(text).with(
        r#"
        [[profile]]
        name = "home"
        garden = { portal = "http://portal.example/", allow = ["192.0.2.53/32", "2001:db8:53::/48"] }
        "#,
    )
}

fn listed_destinations() -> Case {
    let (ask, answer) = (
        |ttl| ip4(SUB, DNS).ttl(ttl).udp(1000, 53).payload(b"?"),
        |ttl| ip4(DNS, SUB).ttl(ttl).udp(53, 1000).payload(b"!"),
    );
    let (ask6, answer6) = (
        |hops| ip6(SUB_6, DNS_6).ttl(hops).udp(1000, 53).payload(b"?"),
        |hops| ip6(DNS_6, SUB_6).ttl(hops).udp(53, 1000).payload(b"!"),
    );
    garden("A subscriber in a walled garden reaches what is listed, and is reached from there.")
        .send("acc", &from_sub(&ask(64)))
        .expect("core", &to_router(&ask(63)))
        .send("core", &from_router(&answer(64)))
        .expect("acc", &to_sub(&answer(63)))
        .send("acc", &from_sub(&ask6(64)))
        .expect("core", &to_router(&ask6(63)))
        .send("core", &from_router(&answer6(64)))
        .expect("acc", &to_sub(&answer6(63)))
        .counts("subscriber.0.up.ipv4.packets", 1)
}

fn not_listed() -> Case {
    let secure = ip4(SUB, SERVER).tcp(40_000, 443);
    let between = ip4(SUB, NEXT).udp(1, 2).payload(b"neighbour");
    garden("It reaches nothing else, other subscribers neither, and nothing else reaches it.")
        .send("acc", &from_sub(&up(SUB, 64)))
        .send("acc", &from_sub(&up6(SUB_6, 64)))
        .send("acc", &from_sub(&secure))
        .send("acc", &from_sub(&between))
        .send("core", &from_router(&down(SUB, 64)))
        .send("core", &from_router(&down6(SUB_PD, 64)))
        .drops("upstream.garden.walled_garden", 4)
        .drops("downstream.garden.walled_garden", 2)
        .counts("subscriber.0.up.ipv4.packets", 0)
}

/// A segment to a web server, with the acknowledgment 7.
fn segment(from: Ipv4Addr, flags: u8, data: &[u8]) -> Packet {
    let head = [&40_000u16.to_be_bytes()[..], &[0, 80, 0, 0, 0, 9, 0, 0, 0, 7, 0x50, flags, 4, 0]].concat();
    let mut bytes = [&head[..], &[0; 4], data].concat();
    let pseudo = wire::checksum::pseudo4(from.into(), SERVER.into(), 6, bytes.len() as u16);
    wire::tcp::Packet::new_checked(&mut bytes[..]).expect("whole").fill_checksum(pseudo);
    ip4(from, SERVER).says(6).payload(bytes)
}

fn sent_to_the_portal() -> Case {
    let reset = ip4(SERVER, SUB).tcp(80, 40_000).seq(7).flags(flag::RST);
    garden("HTTP is answered by its line with the tags that came: a connection of before is reset, to be made anew.")
        .send("acc", &from_sub(&segment(SUB, flag::PSH | flag::ACK, b"GET / HTTP/1.1")))
        .send("acc", &from_sub(&segment(SUB, flag::ACK, b"")))
        .expect("acc", &to_sub(&reset))
        .punts("redirect", 2)
        .counts("subscriber.0.up.ipv4.packets", 0)
}

fn gateway_itself() -> Case {
    garden("The gateway itself answers.")
        .send("acc", &from_sub(&ip4(SUB, GATEWAY).ping(1, 2).payload(b"echo")))
        .expect("acc", &to_sub(&ip4(GATEWAY, SUB).pong(1, 2).payload(b"echo")))
        .punts("ping", 1)
}
