//! Many subscribers behind few public addresses (CGNAT).

use super::*;

testkit::cases! {
    translated_both_ways, ping_translated, errors_of_the_gateway, errors_about_translated_packets, private_from_core,
    unmapped_from_core, untranslated_group, translated_subscriber_to_subscriber, to_public_end_of_subscriber,
    translated_fragments, ipv6_untranslated, subscriber_gone, no_block_left, protocol_without_ports,
}

const PUBLIC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The first port that the seed chooses.
const PORT: u16 = 65_501;
/// One address with one block of ports.
const NAT: &str = r#"nat = { pool = [{ addresses = "192.0.2.1/32" }], first_port = 65472, block_ports = 64, block_hold_seconds = 1, mappings = 1024, subscribers = 64, seed = 1 }"#;

fn nat(text: &str) -> Case {
    case(text).with(NAT)
}

/// What the server sees of a subscriber's datagram.
fn seen(port: u16, ttl: u8) -> Packet {
    ip4(PUBLIC, SERVER).ttl(ttl).udp(port, 2000).payload(b"broadband")
}

/// What it answers.
fn answer(port: u16, ttl: u8) -> Packet {
    ip4(SERVER, PUBLIC).ttl(ttl).udp(2000, port).payload(b"broadband")
}

/// After a first datagram of the first subscriber's.
fn opened(text: &str) -> Case {
    nat(text).send("acc", &from_sub(&up(SUB, 64))).expect("core", &to_router(&seen(PORT, 63))).at(ms(1))
}

fn translated_both_ways() -> Case {
    opened("A subscriber's packets leave from a public end; what comes to it is the subscriber's (RFC 4787).")
        .send("core", &from_router(&answer(PORT, 64)))
        .expect("acc", &to_sub(&down(SUB, 63)))
        .counts("nat.mappings", 1)
        .counts("nat.blocks", 1)
        .counts("nat.given", 1)
        .counts("subscriber.0.up.ipv4.packets", 1)
        .counts("subscriber.0.down.ipv4.packets", 1)
}

fn ping_translated() -> Case {
    nat("An echo's identifier is its port (RFC 5508).")
        .send("acc", &from_sub(&ip4(SUB, SERVER).ping(7, 1).filled(16)))
        .expect("core", &to_router(&ip4(PUBLIC, SERVER).ttl(63).ping(PORT, 1).filled(16)))
        .at(ms(1))
        .send("core", &from_router(&ip4(SERVER, PUBLIC).pong(PORT, 1).filled(16)))
        .expect("acc", &to_sub(&ip4(SERVER, SUB).ttl(63).pong(7, 1).filled(16)))
}

fn errors_of_the_gateway() -> Case {
    opened("The gateway's own errors quote packets as their senders know them, on either side (RFC 5508, 4.1).")
        .send("acc", &from_sub(&up(SUB, 1)))
        .send("core", &from_router(&answer(PORT, 1)))
        .expect("acc", &errors::error_to_sub(&errors::error(GATEWAY.into(), SUB.into(), &up(SUB, 1), (11, 0, 0))))
        .expect("core", &to_router(&errors::error(CORE.into(), SERVER.into(), &answer(PORT, 1), (11, 0, 0))))
        .drops("worker.ttl_expired", 2)
}

fn errors_about_translated_packets() -> Case {
    let router = Ipv4Addr::new(198, 18, 0, 254);
    let error = |to: Ipv4Addr, ttl, about: &Packet| ip4(router, to).ttl(ttl).icmp4(3, 4, 1400).payload(about.build());
    opened("An error about a translated packet reaches the subscriber, who is quoted what he has sent (RFC 5508, 4.2).")
        .send("core", &from_router(&error(PUBLIC, 64, &seen(PORT, 63))))
        .send("core", &from_router(&error(PUBLIC, 64, &seen(PORT + 1, 63))))
        .expect("acc", &to_sub(&error(SUB, 63, &up(SUB, 63))))
        .drops("downstream.translate_in.nat_no_mapping", 1)
}

fn private_from_core() -> Case {
    nat("From the core nobody reaches a private address.")
        .send("core", &from_router(&down(SUB, 64)))
        .drops("downstream.translate_in.nat_no_mapping", 1)
}

fn unmapped_from_core() -> Case {
    nat("From the core nobody reaches a public end that no subscriber has.")
        .send("core", &from_router(&answer(PORT, 64)))
        .drops("downstream.translate_in.nat_no_mapping", 1)
}

fn untranslated_group() -> Case {
    let sub = Ipv4Addr::new(100, 66, 0, 10);
    let line = |from, to, packet: &Packet| eth(from, to).vlan(300).carrying(packet);
    let groups: toml::Table =
        BASE.replacen("name = \"single\"\n", "name = \"single\"\nnat = false\n", 1).parse().unwrap();
    let group = toml::Table::from_iter([("group".to_owned(), groups["group"].clone())]);
    nat("A group whose subscribers have public addresses of their own, in a VRF that is translated.")
        .with(&toml::to_string(&group).unwrap())
        .send("acc", &line(SUB_MAC, ACC_MAC, &up(sub, 64)))
        .expect("core", &to_router(&up(sub, 63)))
        .at(ms(1))
        .send("core", &from_router(&down(sub, 64)))
        .expect("acc", &line(ACC_MAC, SUB_MAC, &down(sub, 63)))
        .counts("nat.mappings", 0)
}

fn translated_subscriber_to_subscriber() -> Case {
    let packet = |ttl| ip4(SUB, NEXT).ttl(ttl).udp(7, 9).payload(b"neighbour");
    let next = |packet: &Packet| eth(GW_MAC, NEXT_MAC).service_vlan(100).vlan(2).carrying(packet);
    nat("From one subscriber's private address to another's: as it is.")
        .send("acc", &from_sub(&packet(64)))
        .expect("acc", &next(&packet(63)))
        .punts("hairpin", 1)
        .counts("nat.mappings", 0)
}

fn to_public_end_of_subscriber() -> Case {
    let next = |packet: &Packet| eth(NEXT_MAC, GW_MAC).service_vlan(100).vlan(2).carrying(packet);
    opened("To another subscriber's public end: translated on both sides (RFC 4787 REQ-9).")
        .with(&NAT.replace("65472", "65408"))
        .send("acc", &next(&ip4(NEXT, PUBLIC).ttl(64).udp(3000, PORT).payload(b"hairpin")))
        .expect("acc", &to_sub(&ip4(PUBLIC, SUB).ttl(63).udp(65_437, 1000).payload(b"hairpin")))
        .punts("hairpin", 1)
}

fn translated_fragments() -> Case {
    let packet = ip4(SUB, SERVER).ttl(64).may_fragment().ident(7).udp(1000, 2000).filled(40);
    let whole = packet.build();
    let out = ip4(PUBLIC, SERVER).ttl(63).may_fragment().ident(7).udp(PORT, 2000).filled(40).build();
    let piece = |from, ttl, bytes: &[u8], at: usize, end: usize, more| {
        let head = ip4(from, SERVER).ttl(ttl).may_fragment().ident(7).fragment(at as u16, more).says(17);
        head.payload(&bytes[20 + at..20 + end])
    };
    nat("Every fragment upstream leaves from the public address (RFC 4787 REQ-14).")
        .send("acc", &from_sub(&piece(SUB, 64, &whole, 0, 24, true)))
        .send("acc", &from_sub(&piece(SUB, 64, &whole, 24, 48, false)))
        .expect("core", &to_router(&piece(PUBLIC, 63, &out, 0, 24, true)))
        .expect("core", &to_router(&piece(PUBLIC, 63, &out, 24, 48, false)))
}

fn ipv6_untranslated() -> Case {
    nat("IPv6 goes as it is.")
        .send("acc", &from_sub(&up6(SUB_6, 64)))
        .expect("core", &to_router(&up6(SUB_6, 63)))
        .send("core", &from_router(&down6(SUB_6, 64)))
        .expect("acc", &to_sub(&down6(SUB_6, 63)))
        .counts("nat.mappings", 0)
}

fn subscriber_gone() -> Case {
    opened("A subscriber that is taken out loses its ports at once, and the log has that.")
        .step("do = \"remove\", handle = 0")
        .at(ms(2))
        .send("core", &from_router(&answer(PORT, 64)))
        .drops("downstream.translate_in.nat_no_mapping", 1)
        .counts("nat.given", 1)
        .counts("nat.ended", 1)
        .counts("nat.mappings", 0)
}

fn no_block_left() -> Case {
    let line =
        |n: u8, packet: &Packet| eth([2, 0xca, 0, 0, 0, n], GW_MAC).service_vlan(100).vlan(n.into()).carrying(packet);
    nat("All blocks are given out: the packets of the next subscriber are dropped by name.")
        .send("acc", &line(1, &up(SUB, 64)))
        .send("acc", &line(2, &up(NEXT, 64)))
        .expect("core", &to_router(&seen(PORT, 63)))
        .drops("upstream.translate_out.nat_no_port", 1)
}

fn protocol_without_ports() -> Case {
    nat("Protocols without ports cannot share an address.")
        .send("acc", &from_sub(&ip4(SUB, SERVER).says(47).filled(20)))
        .drops("upstream.translate_out.nat_protocol", 1)
}
