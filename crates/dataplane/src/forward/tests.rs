use std::net::Ipv6Addr;

use wire::ethernet::{Tag, Tags};
use wire::{Mac, Vlan};

use super::*;
use crate::neighbour::{NeighbourMessage, Wanted};

fn plan() -> Plan {
    let port = |name: &str, instance, v4: [u8; 4], len| PortView {
        name: name.into(),
        mac: [2, 0, 0, 0, 0, instance as u8],
        mtu: 1500,
        instance,
        v4: vec![(u32::from_be_bytes(v4), len)],
        v6: vec![(0xfd00 << 112 | u128::from(instance) << 64 | 1, 64)],
        ..PortView::default()
    };
    Plan {
        ports: vec![port("n3", 0, [10, 0, 3, 1], 24), port("n6", 1, [10, 0, 6, 1], 24)],
        routes: vec![
            Route { instance: 1, to: [0, 0, 0, 0].into(), len: 0, via: Via::Gateway([10, 0, 6, 2].into()) },
            Route { instance: 0, to: [10, 9, 0, 0].into(), len: 16, via: Via::Gateway([10, 0, 3, 254].into()) },
        ],
        ..Plan::default()
    }
}

#[test]
fn a_packet_finds_its_neighbour_its_gateway_or_a_reason() {
    let mut plan = plan();
    assert!(plan.set_neighbour(1, [10, 0, 6, 9].into(), Mac([9; 6])));
    assert!(!plan.set_neighbour(1, [10, 0, 6, 9].into(), Mac([9; 6])));
    let tables = plan.compile();
    let on_link = tables.hop4(1, u32::from_be_bytes([10, 0, 6, 9])).expect("known neighbour");
    let hop = tables.hop(on_link).expect("there");
    assert_eq!((hop.port, hop.encap.len(), &hop.encap.bytes()[..6]), (1, 14, &[9u8; 6][..]));
    let other = u32::from_be_bytes([10, 0, 6, 10]);
    assert_eq!(tables.hop4(1, other), Err(NoHop::Unresolved { port: 1 }));
    let via = tables.hop4(1, u32::from_be_bytes([8, 8, 8, 8])).expect("default route");
    assert!(!tables.hop(via).expect("there").is_resolved());
    assert_eq!(tables.hop4(0, u32::from_be_bytes([8, 8, 8, 8])), Err(NoHop::NoRoute));
    assert_eq!(tables.hop4(7, other), Err(NoHop::NoRoute), "an instance that is not there");
    plan.set_neighbour(1, [10, 0, 6, 2].into(), Mac([2; 6]));
    let tables = plan.compile();
    let via = tables.hop4(1, u32::from_be_bytes([8, 8, 8, 8])).expect("default route");
    assert!(tables.hop(via).expect("there").is_resolved());
    assert!(plan.remove_neighbour(1, [10, 0, 6, 9].into()));
    assert!(plan.compile().hop4(1, u32::from_be_bytes([10, 0, 6, 9])).is_err());
}

#[test]
fn without_link_layer_nothing_is_resolved() {
    let mut plan = plan();
    plan.ports[1].peer = Some([9; 6]);
    plan.routes[0].via = Via::Port(1);
    plan.routes.push(Route { instance: 1, to: [0u16; 8].into(), len: 0, via: Via::Port(1) });
    let tables = plan.compile();
    let by_route = tables.hop4(1, 0x0808_0808).expect("default route");
    assert_eq!(tables.hop4(1, u32::from_be_bytes([10, 0, 6, 77])), Ok(by_route), "on the link");
    assert_eq!(
        (tables.hop6(1, 0x2001 << 112), tables.hop6(1, 0xfd00 << 112 | 1 << 64 | 7)),
        (Ok(by_route), Ok(by_route))
    );
    let hop = tables.hop(by_route).expect("there");
    assert_eq!((hop.port, hop.encap.len(), &hop.encap.bytes()[..6]), (1, 14, &[9u8; 6][..]));
    assert_eq!(tables.hop4(1, u32::from_be_bytes([224, 0, 0, 1])), Err(NoHop::NoRoute));
    let mut neighbourhood = Neighbourhood::new(plan);
    let to = [8, 8, 8, 8].into();
    assert_eq!(neighbourhood.want(1, to, 0), Some(((1, to), Wanted::Known(Mac([9; 6])))));
    neighbourhood.act(0, |_, _| panic!("nobody is asked"));
    assert!(neighbourhood.plan().announcements().iter().all(|(port, _)| *port == 0));
}

#[test]
fn another_hardware_address_is_taken_on_and_announced() {
    let mut plan = plan();
    plan.set_neighbour(0, [10, 0, 3, 9].into(), Mac([9; 6]));
    let mut neighbourhood = Neighbourhood::new(plan);
    let mac = Mac([2, 0, 0, 0, 7, 7]);
    let frames = neighbourhood.set_port_mac(0, mac).expect("another");
    assert_eq!(frames.iter().map(|(port, _)| *port).collect::<Vec<_>>(), [0, 0], "for each of its addresses");
    assert!(frames.iter().all(|(_, frame)| frame[6..12] == mac.0));
    let tables = neighbourhood.tables().expect("the plan has changed");
    let hop = tables.hop4(0, u32::from_be_bytes([10, 0, 3, 9])).expect("a static neighbour");
    assert_eq!((&tables.hop(hop).expect("there").encap.bytes()[6..12], tables.ports[0].mac), (&mac.0[..], mac.0));
    assert!(neighbourhood.set_port_mac(0, mac).is_none() && neighbourhood.tables().is_none(), "it has it already");
    assert!(neighbourhood.set_port_mac(9, mac).is_none(), "no such port");
}

#[test]
fn some_addresses_are_nowhere() {
    let mut plan = plan();
    let via = Via::Gateway([0xfd00, 0, 0, 1, 0, 0, 0, 9].into());
    plan.routes.push(Route { instance: 1, to: [0u16; 8].into(), len: 0, via });
    plan.ports[1].v6.push((0xfe80 << 112 | 1, 64));
    let tables = plan.compile();
    for to in [[0, 0, 0, 1], [127, 0, 0, 1], [224, 0, 0, 5], [239, 1, 2, 3], [255, 255, 255, 255]] {
        assert_eq!(tables.hop4(1, u32::from_be_bytes(to)), Err(NoHop::NoRoute), "{to:?}");
    }
    for to in [0, 1, 0xfe80 << 112 | 1, 0xfe80 << 112 | 7, 0xff02 << 112 | 1, 0xff0e << 112 | 1] {
        assert_eq!(tables.hop6(1, to), Err(NoHop::NoRoute), "{to:x}");
    }
    assert!(tables.hop4(1, 0x0808_0808).is_ok() && tables.hop6(1, 0x2001 << 112).is_ok());
}

#[test]
fn some_senders_can_not_be() {
    for from in [[0, 0, 0, 0], [0, 9, 9, 9], [127, 0, 0, 1], [169, 254, 1, 1], [224, 0, 0, 1], [255; 4]] {
        assert!(is_martian4(u32::from_be_bytes(from)), "{from:?}");
    }
    for from in [[1, 0, 0, 1], [10, 0, 0, 1], [126, 1, 1, 1], [128, 0, 0, 1], [169, 253, 0, 1], [223, 255, 255, 255]] {
        assert!(!is_martian4(u32::from_be_bytes(from)), "{from:?}");
    }
    for from in [0, 1, 0xfe80 << 112 | 9, 0xfebf << 112 | 9, 0xff02 << 112 | 1] {
        assert!(is_martian6(from), "{from:x}");
    }
    assert!(!is_martian6(2) && !is_martian6(0xfec0 << 112) && !is_martian6(0x2001 << 112) && !is_martian6(0xfd << 120));
}

#[test]
fn tunnels_are_shared_by_those_who_go_the_same_way() {
    let mut plan = plan();
    let (first, new) = plan.tunnel(0, [10, 0, 3, 100].into(), 2152).expect("on the link");
    assert!(new);
    assert_eq!(plan.tunnel(0, [10, 0, 3, 100].into(), 2152), Some((first, false)));
    let (far, _) = plan.tunnel(0, [10, 9, 1, 1].into(), 2152).expect("by a gateway");
    plan.set_neighbour(0, [10, 0, 3, 254].into(), Mac([4; 6]));
    let tables = plan.compile();
    let tunnel = tables.tunnel(far).expect("there");
    assert!(tables.hop(tunnel.hop).expect("there").is_resolved());
    assert_eq!(&tunnel.header[12..20], &[10, 0, 3, 1, 10, 9, 1, 1]);
    assert_eq!(&tunnel.header[4..8], &[0, 0, 0x40, 0], "atomic: not to be fragmented, no identification");
    assert!(!tables.hop(tables.tunnel(first).expect("there").hop).expect("there").is_resolved());
}

#[test]
fn a_tunnel_over_ipv4_has_the_link_header_of_a_known_neighbour_without_tag() {
    let mut plan = plan();
    let (four, _) = plan.tunnel(0, [10, 9, 1, 1].into(), 2152).expect("by a gateway");
    let near = Ipv6Addr::from(0xfd00 << 112 | 7).into();
    let (six, _) = plan.tunnel(0, near, 2152).expect("on the link");
    let link = |plan: &Plan, id| plan.compile().tunnel(id).expect("there").link().copied();
    assert_eq!(link(&plan, four), None, "nobody knows where to yet");
    plan.set_neighbour(0, [10, 0, 3, 254].into(), Mac([4; 6]));
    plan.set_neighbour(0, near, Mac([6; 6]));
    assert_eq!(link(&plan, four), Some([4, 4, 4, 4, 4, 4, 2, 0, 0, 0, 0, 0, 8, 0]));
    assert_eq!(link(&plan, six), None, "its headers leave no room");
    plan.set_neighbour(0, [10, 0, 3, 254].into(), Mac([5; 6]));
    assert_eq!(link(&plan, four).map(|link| link[0]), Some(5), "it moved");
    plan.ports[0].tags = Tags::One(Tag::customer(Vlan::of(7)));
    assert_eq!(link(&plan, four), None, "the tag is put on with the rest");
}

#[test]
fn who_is_wanted_is_asked_for_and_in_the_tables_once_it_answers() {
    let mut here = Neighbourhood::new(plan());
    let (us, router) = (Ipv4Addr::new(10, 0, 6, 1), Ipv4Addr::new(10, 0, 6, 2));
    let far = IpAddr::from([8, 8, 8, 8]);
    let key = (1, IpAddr::from(router));
    assert_eq!(here.want(0, far, 0), None, "no way leads there");
    assert_eq!(here.want(1, far, 0), Some((key, Wanted::Asked)));
    let mut sent = Vec::new();
    assert!(here.act(0, |port, frame| sent.push((port, NeighbourMessage::parse(&frame)))).is_empty());
    let sender = Mac([2, 0, 0, 0, 0, 1]);
    assert_eq!(sent, [(1, Ok(NeighbourMessage::ArpRequest { sender, sender_ip: us, target: router }))]);
    assert!(here.tables().is_none(), "nothing has changed");
    let answer = NeighbourMessage::ArpReply { sender: Mac([6; 6]), sender_ip: router, target: us };
    here.hear(1, &answer, true, 1);
    assert_eq!(here.act(1, |_, _| panic!("nobody is left to ask")), [(key, true)]);
    let hop = |tables: Option<Forwarding>| {
        let tables = tables.expect("a neighbour more");
        tables.hop4(1, 0x0808_0808).ok().and_then(|id| tables.hop(id).map(|hop| hop.encap.bytes()[..6].to_vec()))
    };
    assert_eq!(hop(here.tables()), Some(vec![6; 6]));
    assert_eq!(here.want(1, far, 2), Some((key, Wanted::Known(Mac([6; 6])))));
    assert!(here.tables().is_none(), "it is known already");
}

#[test]
fn who_never_answers_is_told_of_and_who_was_told_of_by_another_is_taken_to_be_there() {
    let mut here = Neighbourhood::new(plan());
    let near = Ipv6Addr::from(0xfd00 << 112 | 1 << 64 | 7);
    let key = (1, IpAddr::from(near));
    assert_eq!(here.want(1, near.into(), 0), Some((key, Wanted::Asked)));
    let (mut asked, mut settled) = (0, Vec::new());
    for second in 0..5 {
        let count = |_, frame: Vec<u8>| {
            asked += 1;
            let message = NeighbourMessage::parse(&frame);
            assert!(matches!(message, Ok(NeighbourMessage::NeighbourSolicitation { target, .. }) if target == near));
        };
        settled.extend(here.act(second * 1_000_000_000, count));
    }
    assert_eq!((asked, settled), (3, vec![(key, false)]));
    here.suppose(9, near.into(), Mac([4; 6]));
    assert!(here.tables().is_none(), "there is no such port");
    here.suppose(1, near.into(), Mac([4; 6]));
    assert!(here.tables().is_some_and(|tables| tables.hop6(1, near.into()).is_ok()));
    let (tunnel, again) = (here.tunnel(0, [10, 0, 3, 100].into(), 2152), here.tables().is_some());
    assert!(tunnel.is_some() && again, "a new tunnel is to be published");
    assert_eq!((here.tunnel(0, [10, 0, 3, 100].into(), 2152), here.tables().is_some()), (tunnel, false));
}

#[test]
fn configured_routes_stand_before_learnt_ones() {
    let learnt =
        |to: [u8; 4], len, via: [u8; 4]| Route { instance: 1, to: to.into(), len, via: Via::Gateway(via.into()) };
    let mut neighbourhood = Neighbourhood::new(plan());
    let configured = neighbourhood.plan().routes.clone();
    let [same, other] = [learnt([0, 0, 0, 0], 0, [10, 0, 6, 3]), learnt([198, 51, 100, 0], 24, [10, 0, 6, 3])];
    assert!(neighbourhood.set_learnt(vec![same, other]));
    assert!(!neighbourhood.set_learnt(vec![same, other]), "nothing new");
    assert_eq!(neighbourhood.routes(), (&configured[..], &[other][..]));
    let to = |neighbourhood: &Neighbourhood, address: [u8; 4]| neighbourhood.plan().next_hop(1, address.into());
    assert_eq!(to(&neighbourhood, [198, 51, 100, 9]), Some((1, [10, 0, 6, 3].into())));
    assert_eq!(to(&neighbourhood, [198, 51, 101, 9]), Some((1, [10, 0, 6, 2].into())));
    // Without the configured ones those learnt have their turn; bits of a host are none of a prefix.
    neighbourhood.set_routes(vec![learnt([198, 51, 100, 7], 24, [10, 0, 6, 4])]);
    assert_eq!(neighbourhood.routes().1, [same]);
    assert_eq!(to(&neighbourhood, [198, 51, 100, 9]), Some((1, [10, 0, 6, 4].into())));
    assert!(neighbourhood.set_learnt(Vec::new()) && neighbourhood.tables().is_some());
    assert_eq!(to(&neighbourhood, [192, 0, 2, 1]), None);
}

#[test]
fn connected_prefixes_stand_before_learnt_ones() {
    let mut neighbourhood = Neighbourhood::new(plan());
    let port = &neighbourhood.plan().ports[1];
    let (address, len) = port.v4[0];
    let (instance, to) = (port.instance, prefix4(address, len).to_be_bytes().into());
    let route = |len| Route { instance, to, len, via: Via::Gateway([10, 0, 6, 3].into()) };
    neighbourhood.set_learnt(vec![route(len), route(len + 1)]);
    assert_eq!(neighbourhood.routes().1, [route(len + 1)]);
    assert!(!neighbourhood.plan().is_connected(instance + 1, to, len), "of another VRF");
}

#[test]
fn learnt_router_of_a_link_local_address_is_asked_for_by_its_port() {
    let router: IpAddr = [0xfe80, 0, 0, 0, 0, 0, 0, 7].into();
    let via = Via::Neighbour { port: 1, address: router };
    let mut neighbourhood = Neighbourhood::new(plan());
    neighbourhood.set_learnt(vec![Route { instance: 1, to: [0u16; 8].into(), len: 0, via }]);
    assert!(neighbourhood.want_next_hops(0).contains(&(1, router)));
    let outside: IpAddr = [0x2001, 0xdb8, 9, 0, 0, 0, 0, 1].into();
    assert_eq!(neighbourhood.plan().next_hop(1, outside), Some((1, router)));
}

/// Routers of a route that has three, with their hardware addresses.
const ROUTERS: [([u8; 4], Mac); 3] =
    [([10, 0, 6, 2], Mac([2; 6])), ([10, 0, 6, 3], Mac([3; 6])), ([10, 0, 6, 4], Mac([4; 6]))];

fn reply(router: [u8; 4], sender: Mac) -> NeighbourMessage {
    NeighbourMessage::ArpReply { sender, sender_ip: router.into(), target: [10, 0, 6, 1].into() }
}

/// A neighbourhood with that route, its routers known to answer.
fn with_three_routers() -> Neighbourhood {
    with_routers_of(plan())
}

fn with_routers_of(mut plan: Plan) -> Neighbourhood {
    plan.routes = ROUTERS
        .iter()
        .map(|(router, _)| Route { instance: 1, to: [0; 4].into(), len: 0, via: Via::Gateway((*router).into()) })
        .collect();
    let mut neighbourhood = Neighbourhood::new(plan);
    assert_eq!(neighbourhood.want_next_hops(0).len(), 3);
    for (router, mac) in ROUTERS {
        neighbourhood.hear(1, &reply(router, mac), true, 0);
    }
    neighbourhood.act(0, |_, _| {});
    neighbourhood
}

/// The router of each of many flows to one address, as the first octet of its hardware address.
fn routers_of(tables: &Forwarding, flows: u32) -> Vec<u8> {
    routers_from(tables, (0..flows).map(|flow| 0x6440_0000 + flow))
}

fn routers_from(tables: &Forwarding, sources: impl Iterator<Item = u32>) -> Vec<u8> {
    let of = |source| {
        let (hop, is_everyones) = tables.flow_hop4(1, source, 0x0808_0808).expect("a route");
        let hop = tables.hop(hop).expect("a hop");
        assert!(hop.is_resolved() && !is_everyones);
        hop.encap.bytes()[0]
    };
    sources.map(of).collect()
}

#[test]
fn flows_are_spread_over_next_hops() {
    let mut neighbourhood = with_three_routers();
    let tables = neighbourhood.tables().expect("they have answered");
    let all = routers_of(&tables, 3000);
    for mac in [2, 3, 4] {
        let share = all.iter().filter(|of| **of == mac).count();
        assert!((900..1100).contains(&share), "{share} of 3000 by {mac}");
    }
    assert_eq!(all, routers_of(&tables, 3000), "a flow keeps its router");
    // Few subscribers, neighbours or every second, fourth, 256th address.
    for step in [1, 2, 4, 256] {
        let some = routers_from(&tables, (0..60).map(|n| 0x6440_0002 + n * step));
        for mac in [2, 3, 4] {
            let share = some.iter().filter(|of| **of == mac).count();
            assert!((8..36).contains(&share), "{share} of 60, {step} apart, by {mac}");
        }
    }
    // Of the flows that it gives one router, another one behind that gives each of its own a share.
    let mut other = plan();
    other.ports[1].v4 = vec![(0x0a00_0609, 24)];
    let behind = with_routers_of(other).tables().expect("they have answered");
    let first = (0..3000).filter(|flow| all[*flow as usize] == 2).map(|flow| 0x6440_0000 + flow);
    let next = routers_from(&behind, first);
    for mac in [2, 3, 4] {
        let share = next.iter().filter(|of| **of == mac).count() * 3;
        assert!(
            (next.len() * 3 / 4..next.len() * 5 / 4).contains(&share),
            "{share} of three times {} by {mac}",
            next.len()
        );
    }
    let to6 = |from: u128| tables.flow_hop6(1, from, 0x2001 << 112);
    assert_eq!(to6(1), Err(NoHop::NoRoute), "of the other family");
}

#[test]
fn flows_of_a_silent_next_hop_go_by_the_others_until_it_answers() {
    let mut neighbourhood = with_three_routers();
    let before = routers_of(&neighbourhood.tables().expect("they have answered"), 3000);
    // Two go on answering whoever asks.
    let answer = |neighbourhood: &mut Neighbourhood, now: u64, alive: &[usize]| {
        let mut asked = Vec::new();
        neighbourhood.act(now, |_, frame| asked.push(frame));
        for (router, mac) in alive.iter().map(|at| ROUTERS[*at]) {
            if asked.iter().any(|frame| frame[38..42] == router) {
                neighbourhood.hear(1, &reply(router, mac), true, now);
            }
        }
        neighbourhood.act(now, |_, _| {});
    };
    const SECOND: u64 = 1_000_000_000;
    (1..60).for_each(|n| answer(&mut neighbourhood, n * SECOND, &[0, 1]));
    let without = routers_of(&neighbourhood.tables().expect("one is gone"), 3000);
    assert!(!without.contains(&4));
    // By equal ranges: half of the second router's flows move beside those of the third.
    let moved = before.iter().zip(&without).filter(|(before, now)| before != now && **before != 4).count();
    assert!(moved <= 600, "{moved} flows of the others moved");
    (60..75).for_each(|n| answer(&mut neighbourhood, n * SECOND, &[0, 1, 2]));
    assert_eq!(routers_of(&neighbourhood.tables().expect("it is back"), 3000), before);
}

#[test]
fn next_hop_that_a_reload_adds_is_asked_for() {
    let mut neighbourhood = with_three_routers();
    let mut routes = neighbourhood.plan().routes.clone();
    let fourth: IpAddr = [10, 0, 6, 5].into();
    routes.push(Route { via: Via::Gateway(fourth), ..routes[0] });
    neighbourhood.set_routes(routes);
    let mut asked = Vec::new();
    assert_eq!(neighbourhood.next_deadline(), Some(0));
    neighbourhood.act(1, |_, frame| asked.push(frame[38..42].to_vec()));
    // What was asked for goes with the next call.
    neighbourhood.act(1, |_, frame| asked.push(frame[38..42].to_vec()));
    assert!(asked.contains(&vec![10, 0, 6, 5]), "{asked:?}");
}
