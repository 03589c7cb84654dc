//! Where packets go: routes and network instances.

use super::*;

testkit::cases! { longest_prefix, on_link, no_route, gnb_behind_a_router, overlapping_instances, not_to_be_forwarded, gnb_without_a_route, jumbo,
networks_behind_a_subscriber }

const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 6, 0xfd];

fn longest_prefix() -> Case {
    let to = |dst: [u8; 4], ttl| ip4(UE, dst).ttl(ttl).udp(40_000, 50_000);
    let to6 = |dst: [u16; 8], ttl| ip6(UE_6, dst).ttl(ttl).udp(40_000, 50_000);
    let other = |user: &Packet| eth(N6_MAC, OTHER_MAC).carrying(user);
    let near = [0x2001, 0xdb8, 0x77, 0, 0, 0, 0, 1];
    let far = [0x2001, 0xdb8, 0x78, 0, 0, 0, 0, 1];
    case("The longest matching prefix decides.")
        .with(
            r#"
            route = [
              { to = "0.0.0.0/0", via = "10.0.6.254" },
              { to = "198.51.0.0/16", via = "10.0.6.253" },
              { to = "198.51.100.0/24", via = "10.0.6.254" },
              { to = "198.51.100.99/32", via = "10.0.6.253" },
              { to = "::/0", via = "fd00:6::254" },
              { to = "2001:db8:77::/48", via = "fd00:6::253" },
            ]
            neighbour = [
              { port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe" },
              { port = "n6", address = "10.0.6.253", mac = "02:00:00:00:06:fd" },
              { port = "n6", address = "fd00:6::254", mac = "02:00:00:00:06:fe" },
              { port = "n6", address = "fd00:6::253", mac = "02:00:00:00:06:fd" },
            ]"#,
        )
        .send("n3", &up(&to([203, 0, 113, 1], 64)))
        .send("n3", &up(&to([198, 51, 7, 1], 64)))
        .send("n3", &up(&to([198, 51, 100, 98], 64)))
        .send("n3", &up(&to([198, 51, 100, 99], 64)))
        .send("n3", &up(&to6(near, 64)))
        .send("n3", &up(&to6(far, 64)))
        .expect("n6", &to_router(&to([203, 0, 113, 1], 63)))
        .expect("n6", &other(&to([198, 51, 7, 1], 63)))
        .expect("n6", &to_router(&to([198, 51, 100, 98], 63)))
        .expect("n6", &other(&to([198, 51, 100, 99], 63)))
        .expect("n6", &other(&to6(near, 63)))
        .expect("n6", &to_router(&to6(far, 63)))
}

fn networks_behind_a_subscriber() -> Case {
    let site = Ipv4Addr::new(192, 168, 7, 9);
    let site6 = [0x2001, 0xdb8, 0x99, 1, 0, 0, 0, 1];
    case("Networks behind a subscriber (3GPP TS 29.244, 5.16): the way there and back, checked, until it is taken from them.")
        .send("n6", &from_router(&response(site)))
        .at(ms(10))
        .step(r#"do = "behind", ue = 0, routes = ["192.168.0.0/16", "2001:db8:99::/48"]"#)
        .send("n6", &from_router(&response(site)))
        .send("n6", &from_router(&ip6(SERVER_6, site6).udp(50_000, 40_000)))
        .send("n3", &up(&request(site)))
        .send("n3", &up(&ip6(site6, SERVER_6).udp(40_000, 50_000)))
        .send("n3", &up(&request(Ipv4Addr::new(192, 167, 7, 9))))
        .send("n6", &from_router(&response(Ipv4Addr::new(192, 167, 7, 9))))
        .expect("n3", &down(&response(site).ttl(63)))
        .expect("n3", &down(&ip6(SERVER_6, site6).ttl(63).udp(50_000, 40_000)))
        .expect("n6", &to_router(&request(site).ttl(63)))
        .expect("n6", &to_router(&ip6(site6, SERVER_6).ttl(63).udp(40_000, 50_000)))
        .at(ms(20))
        .step(r#"do = "rules", ue = 0"#)
        .send("n6", &from_router(&response(site)))
        .send("n3", &up(&request(site)))
        .drops("downlink.find_by_address.unknown_subscriber", 3)
        .drops("uplink.check_source.spoofed_source", 2)
        .counts("control.made", 2)
}

fn on_link() -> Case {
    let user = |ttl| ip4(UE, ROUTER).ttl(ttl).udp(40_000, 50_000);
    let user6 = |ttl| ip6(UE_6, ROUTER_6).ttl(ttl).udp(40_000, 50_000);
    case("A host on the link is reached without a router.")
        .with("route = []")
        .send("n3", &up(&user(64)))
        .send("n3", &up(&user6(64)))
        .expect("n6", &to_router(&user(63)))
        .expect("n6", &to_router(&user6(63)))
}

fn no_route() -> Case {
    case("No route, IPv4 and IPv6: the subscriber is told inside its tunnel (RFC 1812, 5.2.7.1; RFC 4443, 3.1).")
        .with("route = []")
        .send("n3", &up(&request(UE)))
        .send("n3", &up(&request(UE_6)))
        .expect("n3", &icmp::error_to_ue(&request(UE), 3, 0, 0))
        .expect("n3", &icmp::error_to_ue(&request(UE_6), 1, 0, 0))
        .drops("worker.no_route", 2)
}

fn gnb_behind_a_router() -> Case {
    let gnb = Ipv4Addr::new(172, 16, 9, 9);
    let head = eth(N3_MAC, [2, 0, 0, 0, 3, 0xfe]).ip4(N3, gnb).gtpu_unsummed(GNB_TEID).container_down(QFI);
    case("A gNB behind a router of the access network.")
        .with(
            r#"
            simulate.gnb_first = "172.16.9.9"
            route = [{ to = "172.16.0.0/12", via = "10.0.3.254", instance = "access" }]
            neighbour = [{ port = "n3", address = "10.0.3.254", mac = "02:00:00:00:03:fe" }]"#,
        )
        .send("n6", &from_router(&response(UE)))
        .expect("n3", &head.carrying(&response(UE).ttl(63)))
}

fn overlapping_instances() -> Case {
    let office_mac = [2, 0, 0, 0, 7, 1];
    let office_router = [2, 0, 0, 0, 7, 0xfe];
    let up_in = |teid| from_gnb(Over::V4).gtpu(teid).container_up(QFI).carrying(&request(UE));
    let down_in = |teid| tunnel(Over::V4, teid).container_down(QFI).carrying(&response(UE).ttl(63));
    case("Two data networks with the same addresses stay apart.")
        .with(r#"
            port = [
              { name = "n3", uri = "memory:n3?mac=02:00:00:00:03:01", role = "access", addresses = ["10.0.3.1/24"] },
              { name = "n6", uri = "memory:n6?mac=02:00:00:00:06:01", role = "core", addresses = ["10.0.6.1/24"] },
              { name = "n6b", uri = "memory:n6b?mac=02:00:00:00:07:01", role = "core", instance = "office",
                addresses = ["10.0.6.1/24"] },
            ]
            route = [
              { to = "0.0.0.0/0", via = "10.0.6.254" },
              { to = "0.0.0.0/0", via = "10.0.6.254", instance = "office" },
            ]
            neighbour = [
              { port = "n3", address = "10.0.3.100", mac = "02:00:00:00:03:64" },
              { port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe" },
              { port = "n6b", address = "10.0.6.254", mac = "02:00:00:00:07:fe" },
            ]"#)
        .step(r#"do = "sessions", instance = "office", simulate = { ues = 1, ue_first = "10.60.0.1", teid_first = 0x0300_0000, gnb_teid_first = 0x0400_0000, bearer = [{ qfi = 9 }] }"#)
        .at(ms(1))
        .send("n3", &up_in(TEID))
        .send("n3", &up_in(0x0300_0000))
        .send("n6", &from_router(&response(UE)))
        .send("n6b", &eth(office_router, office_mac).carrying(&response(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
        .expect("n6b", &eth(office_mac, office_router).carrying(&request(UE).ttl(63)))
        .expect("n3", &down_in(GNB_TEID))
        .expect("n3", &down_in(0x0400_0000))
        .counts("usage.ue0.urr1.up_packets", 1)
        .counts("usage.ue1.urr1.up_packets", 1)
        .counts("usage.ue0.urr1.down_packets", 1)
        .counts("usage.ue1.urr1.down_packets", 1)
}

fn not_to_be_forwarded() -> Case {
    let to = |dst: [u8; 4]| up(&ip4(UE, dst).udp(40_000, 50_000));
    let to6 = |dst: [u16; 8]| up(&ip6(UE_6, dst).udp(40_000, 50_000));
    let link_local = ip6(UE_6, [0xfe80, 0, 0, 0, 0, 0, 0, 9]).udp(40_000, 50_000);
    case(
        "Loopback, link-local, multicast and broadcast addresses are behind no route (RFC 1812, 5.3; RFC 4291, 2.5.6).",
    )
    .send("n3", &to([0, 0, 0, 1]))
    .send("n3", &to([127, 0, 0, 1]))
    .send("n3", &to([224, 0, 0, 251]))
    .send("n3", &to([255, 255, 255, 255]))
    .send("n3", &to6([0, 0, 0, 0, 0, 0, 0, 1]))
    .send("n3", &to6([0xff02, 0, 0, 0, 0, 0, 0, 0xfb]))
    .send("n3", &up(&link_local))
    .expect("n3", &icmp::error_to_ue(&link_local, 1, 0, 0))
    .drops("worker.no_route", 7)
}

fn jumbo() -> Case {
    let user = |ttl| ip4(UE, SERVER).ttl(ttl).udp(40_000, 50_000).filled(8872);
    let back = |ttl| ip4(SERVER, UE).ttl(ttl).udp(50_000, 40_000).filled(8872);
    case("Packets of nine kilobytes, where slots and links are large enough.")
        .with(r#"
            frames.slot_bytes = 9600
            frames.slots = 1024
            port = [
              { name = "n3", uri = "memory:n3?mac=02:00:00:00:03:01", role = "access", addresses = ["10.0.3.1/24"], mtu = 9000 },
              { name = "n6", uri = "memory:n6?mac=02:00:00:00:06:01", role = "core", addresses = ["10.0.6.1/24"], mtu = 9000 },
            ]
            route = [{ to = "0.0.0.0/0", via = "10.0.6.254" }]"#)
        .send("n3", &up(&user(64)))
        .send("n6", &from_router(&back(64)))
        .expect("n6", &to_router(&user(63)))
        .expect("n3", &down(&back(63)))
}

fn gnb_without_a_route() -> Case {
    case("A gNB nobody knows the way to.")
        .with("simulate.gnb_first = \"172.16.9.9\"")
        .send("n6", &from_router(&response(UE)))
        .drops("downlink.apply_far.far_incomplete", 1)
}
