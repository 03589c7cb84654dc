use std::net::IpAddr;

use dataplane::forward::{Plan, PortView, Via};
use port::host_tap::HostRoute;
use testkit::packet::eth;
use wire::ethernet::{Tag, Tags};
use wire::{Vlan, ethertype};

use super::exchange::{Taken, take, wanted};
use super::frames::{is_routing, to_wire};
use super::{ServedPrefix, cover4, cover6};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Two ports of one VRF, and one of another.
fn plan() -> Plan {
    let view = |instance, v4: u32, v6: u128| PortView {
        mac: MAC,
        instance,
        v4: vec![(v4, 24)],
        v6: vec![(v6, 64), (0xfe80 << 112 | 9, 64)],
        ..PortView::default()
    };
    let ports = vec![
        view(0, 0x0a00_0001, 0xfd00 << 112 | 1),
        view(0, 0x0a00_0101, 0xfd01 << 112 | 1),
        view(1, 0x0a00_0001, 0xfd00 << 112 | 1),
    ];
    let mut plan = Plan::default();
    plan.ports = ports;
    plan
}

fn route(to: &str, len: u8, metric: u32, next_hop: Option<&str>) -> HostRoute {
    let routers = next_hop.map(ip).into_iter().collect();
    HostRoute { to: ip(to), len, metric, routers, protocol: 186, next_hops: 1 }
}

#[test]
fn ranges_are_covered_by_fewest_prefixes() {
    let text =
        |list: Vec<(IpAddr, u8)>| list.iter().map(|(to, len)| format!("{to}/{len}")).collect::<Vec<_>>().join(" ");
    assert_eq!(text(cover4(0x6440_0000, 0x6440_00ff)), "100.64.0.0/24");
    assert_eq!(text(cover4(0x0a00_0003, 0x0a00_0008)), "10.0.0.3/32 10.0.0.4/30 10.0.0.8/32");
    assert_eq!(text(cover4(0, u32::MAX)), "0.0.0.0/0");
    assert_eq!(text(cover4(u32::MAX, u32::MAX)), "255.255.255.255/32");
    let first = 0x2001_0db8_u128 << 96;
    assert_eq!(text(cover6(first, first | u128::MAX >> 48)), "2001:db8::/48");
    assert_eq!(text(cover6(0, u128::MAX)), "::/0");
}

#[test]
fn best_route_to_a_prefix_is_taken() {
    let plan = plan();
    let routes = [
        (0, route("198.51.100.0", 24, 20, Some("10.0.0.254"))),
        (1, route("198.51.100.0", 24, 10, Some("10.0.1.254"))),
        (2, route("198.51.100.0", 24, 20, Some("10.0.0.254"))),
    ];
    let (taken, refused) = take(&plan, &routes);
    let seen: Vec<_> = taken.iter().map(|taken| (ways(taken), taken.learnt.metric)).collect();
    let via = |instance, router| vec![(instance, Via::Gateway(ip(router)))];
    assert_eq!(seen, [(via(0, "10.0.1.254"), 10), (via(1, "10.0.0.254"), 20)]);
    assert_eq!(refused, 0);
}

fn ways(taken: &Taken) -> Vec<(u16, Via)> {
    taken.routes.iter().map(|route| (route.instance, route.via)).collect()
}

#[test]
fn equally_good_next_hops_are_all_taken() {
    let several = |routers: &[&str]| HostRoute {
        routers: routers.iter().map(|router| ip(router)).collect(),
        next_hops: 3,
        ..route("198.51.100.0", 24, 20, None)
    };
    let found = [
        (0, several(&["10.0.0.253", "10.0.0.254", "10.0.9.254"])),
        (1, several(&["10.0.1.254"])),
        (1, route("198.51.100.0", 24, 30, Some("10.0.1.1"))),
    ];
    let (taken, refused) = take(&plan(), &found);
    assert_eq!((taken.len(), refused), (1, 1), "one router is on no link");
    let via = |router| (0, Via::Gateway(ip(router)));
    assert_eq!(ways(&taken[0]), [via("10.0.0.253"), via("10.0.0.254"), via("10.0.1.254")]);
    assert_eq!(taken[0].learnt.next_hops, 3);
    // Two routes of one metric, in other tables or namespaces, are no route with two next hops.
    let apart = [
        (1, route("198.51.100.0", 24, 20, Some("10.0.1.254"))),
        (0, route("198.51.100.0", 24, 20, Some("10.0.0.254"))),
    ];
    let (taken, refused) = take(&plan(), &apart);
    assert_eq!((ways(&taken[0]).len(), refused), (1, 0));
}

#[test]
fn link_local_router_is_reached_by_its_own_port() {
    let (taken, refused) = take(&plan(), &[(1, route("::", 0, 20, Some("fe80::1")))]);
    assert_eq!(ways(&taken[0]), [(0, Via::Neighbour { port: 1, address: ip("fe80::1") })]);
    assert_eq!(refused, 0);
}

#[test]
fn routes_without_router_on_the_link_are_refused() {
    let routes = [(0, route("198.51.100.0", 24, 20, Some("10.0.1.254"))), (0, route("203.0.113.0", 24, 0, None))];
    assert_eq!(take(&plan(), &routes), (Vec::new(), 2));
    // A port's own prefix, by another port.
    assert_eq!(take(&plan(), &[(0, route("10.0.1.0", 24, 20, Some("10.0.0.254")))]), (Vec::new(), 1));
}

#[test]
fn first_interface_of_a_vrf_announces() {
    let served = |instance, to: &str| ServedPrefix { instance, to: ip(to), len: 24 };
    let served = [served(0, "100.64.0.0"), served(1, "100.65.0.0")];
    let wanted = wanted(&[(0, None), (1, None), (2, None)], &plan().ports, &served);
    let lists: Vec<Vec<_>> = wanted.into_iter().map(|list| list.into_iter().collect()).collect();
    assert_eq!(lists, [vec![(ip("100.64.0.0"), 24)], vec![], vec![(ip("100.65.0.0"), 24)]]);
    // Daemons of two namespaces announce for themselves.
    let wanted = super::exchange::wanted(&[(0, Some("a")), (1, Some("b"))], &plan().ports, &served);
    assert_eq!(wanted[0], wanted[1]);
}

#[test]
fn frames_of_the_host_get_the_port_tags() {
    let port = PortView { mac: MAC, tags: Tags::One(Tag::customer(Vlan::of(7))), ..PortView::default() };
    let frame = eth(MAC, [2, 0, 0, 0, 0, 1]).ip4([10, 0, 0, 1], [10, 0, 0, 2]).udp(3784, 3784).filled(24).build();
    let wire = to_wire(&frame, &port).unwrap();
    assert_eq!((&wire[..12], &wire[16..]), (&frame[..12], &frame[12..]));
    assert_eq!(wire[12..16], [0x81, 0, 0, 7]);
    // Of a bridge's other hosts.
    assert_eq!(to_wire(&frame, &PortView { mac: [2, 0, 0, 0, 0, 8], ..port.clone() }), None);
    assert_eq!(to_wire(&frame[..13], &port), None);
}

#[test]
fn daemons_are_heard_by_what_they_announce_with() {
    let head = || eth(MAC, [2, 0, 0, 0, 0, 1]).ip4([10, 0, 0, 1], [10, 0, 0, 2]);
    let isis = [&[1, 0x80, 0xc2, 0, 0, 0x14][..], &MAC, &[5, 0xd9, 0xfe, 0xfe, 3]].concat();
    for (frame, expected) in
        [(head().tcp(40_000, 179).build(), true), (head().udp(49_152, 3784).filled(24).build(), false), (isis, true)]
    {
        assert_eq!(is_routing(&frame), expected, "{frame:x?}");
    }
    assert!(!is_routing(&[0; 13]));
}

#[test]
fn duplicate_address_detection_stays_on_the_host() {
    let port = PortView { mac: MAC, ..PortView::default() };
    let solicitation = |source: u8, kind: u8| {
        let mut packet = vec![0x60, 0, 0, 0, 0, 24, 58, 255];
        packet.extend([0; 15].iter().chain([&source]));
        packet.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1]);
        packet.extend([kind].into_iter().chain([0; 23]));
        [&[0x33, 0x33, 0xff, 0, 0, 1][..], &MAC, &ethertype::IP6.to_be_bytes(), &packet].concat()
    };
    assert_eq!(to_wire(&solicitation(0, 135), &port), None);
    assert_eq!(to_wire(&solicitation(1, 133), &port), None);
    assert!(to_wire(&solicitation(1, 135), &port).is_some());
}
