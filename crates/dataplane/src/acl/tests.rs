use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use testkit::packet::{Packet, ip};
use wire::L3L4;

use super::*;

fn decide(list: &AccessList, direction: Direction, packet: &[u8]) -> Decision {
    list.decide(direction, &L3L4::parse(packet).expect("a packet"), packet)
}

#[test]
fn the_first_match_decides() {
    let host: IpAddr = Ipv4Addr::new(198, 51, 100, 7).into();
    let rules = [
        Rule {
            dst: Some((host, 32)),
            dst_ports: Some(PortRange { first: 53, last: 53 }),
            ..Rule::any(Action::Permit, 0)
        },
        Rule { dst: Some((host, 24)), direction: Some(Direction::Up), ..Rule::any(Action::Deny, 1) },
        Rule { protocol: Some(58), ..Rule::any(Action::Permit, 2) },
        Rule { src: Some((Ipv6Addr::LOCALHOST.into(), 0)), ..Rule::any(Action::Deny, 3) },
    ];
    let list = AccessList::compile(&rules, Action::Permit, 9).expect("sound rules");
    let ue: IpAddr = Ipv4Addr::new(10, 60, 0, 1).into();
    let counter = |direction, packet: Packet| decide(&list, direction, &packet.build()).counter;
    assert_eq!(counter(Direction::Up, ip(ue, host).udp(9, 53)), 0);
    assert_eq!(counter(Direction::Up, ip(ue, host).udp(9, 54)), 1);
    assert_eq!(counter(Direction::Down, ip(ue, host).udp(9, 54)), 9);
    assert_eq!(counter(Direction::Up, ip(ue, host).ping(53, 53)), 1, "no ports, no match");
    let (a, b): (Ipv6Addr, Ipv6Addr) = (5.into(), 6.into());
    assert_eq!(counter(Direction::Up, ip(a, b).icmp6(128, 0, 0)), 2);
    assert_eq!(counter(Direction::Up, ip(a, b).udp(1, 2)), 3);
    // A later fragment: by the other fields of what permits.
    let later = ip(ue, host).fragment(8, false).filled(9).poke(9, [17]);
    let mut bytes = later.build();
    wire::ip4::Packet::new_checked(&mut bytes[..]).expect("IPv4").fill_checksum();
    assert_eq!(decide(&list, Direction::Up, &bytes).counter, 0);
}

#[test]
fn rules_that_make_no_sense_are_named() {
    let (v4, v6): (IpAddr, IpAddr) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    let any = Rule::any(Action::Deny, 0);
    let wrong = |rule| AccessList::compile(&[any, rule], Action::Permit, 0).err();
    assert_eq!(wrong(Rule { src: Some((v4, 33)), ..any }), Some(CompileError::PrefixLength(1)));
    assert_eq!(wrong(Rule { src: Some((v4, 3)), dst: Some((v6, 3)), ..any }), Some(CompileError::Versions(1)));
    let ports = Some(PortRange { first: 2, last: 1 });
    assert_eq!(wrong(Rule { dst_ports: ports, ..any }), Some(CompileError::PortRange(1)));
    assert_eq!(wrong(Rule { dscp: Some(64), ..any }), Some(CompileError::Dscp(1)));
    let many = AccessList::compile(&vec![any; MAX_RULES + 1], Action::Permit, 0).err();
    assert_eq!(many, Some(CompileError::TooMany(MAX_RULES + 1)));
    let none = AccessList::compile(&[], Action::Deny, 4).expect("no rules are rules");
    assert_eq!(
        decide(&none, Direction::Up, &ip(v4, v4).udp(1, 2).build()),
        Decision { action: Action::Deny, counter: 4 }
    );
}

/// Few different values, so that rules and packets meet.
fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0u32..6, 0u32..4).prop_map(|(high, low)| IpAddr::V4((0x0a00_0000 + (high << 13) + low).into())),
        (0u128..6, 0u128..4).prop_map(|(high, low)| IpAddr::V6(((0xfd << 120) + (high << 61) + low).into())),
    ]
}

fn prefix() -> impl Strategy<Value = (IpAddr, u8)> {
    let lens = prop::sample::select(vec![0u8, 8, 17, 18, 19, 20, 24, 30, 31, 32, 64, 65, 66, 67, 126, 127, 128]);
    (address(), lens).prop_map(|(address, len)| (address, if address.is_ipv4() { len.min(32) } else { len }))
}

fn range() -> impl Strategy<Value = PortRange> {
    let port = || prop_oneof![0u16..20, 65_530..=u16::MAX];
    (port(), port()).prop_map(|(a, b)| PortRange { first: a.min(b), last: a.max(b) })
}

fn rule() -> impl Strategy<Value = Rule> {
    use prop::option::weighted;
    let number = || prop::sample::select(vec![1u8, 6, 17, 58, 132]);
    let ends = (weighted(0.6, prefix()), weighted(0.6, prefix()), weighted(0.3, range()), weighted(0.3, range()));
    let direction = weighted(0.3, prop::sample::select(vec![Direction::Up, Direction::Down]));
    (any::<bool>(), ends, direction, weighted(0.4, number()), weighted(0.1, 0u8..3)).prop_map(
        |(permit, (src, dst, src_ports, dst_ports), direction, protocol, dscp)| Rule {
            action: if permit { Action::Permit } else { Action::Deny },
            direction,
            src,
            dst: dst.filter(|dst| src.is_none_or(|src| src.0.is_ipv4() == dst.0.is_ipv4())),
            protocol,
            src_ports,
            dst_ports,
            dscp,
            counter: 0,
        },
    )
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    let port = || prop_oneof![0u16..22, 65_528..=u16::MAX];
    (address(), address(), port(), port(), 0usize..4, 0u8..4, any::<bool>()).prop_map(
        |(src, dst, from, to, kind, dscp, later)| {
            let dst = if src.is_ipv4() == dst.is_ipv4() { dst } else { src };
            let packet = ip(src, dst).tos(dscp << 2);
            let packet = match (kind, src.is_ipv4()) {
                (0, true) if later => packet.fragment(8, true).filled(8).poke(9, [17]),
                (0, _) => packet.udp(from, to),
                (1, _) => packet.tcp(from, to),
                (_, true) => packet.ping(from, to),
                _ => packet.icmp6(128, 0, 7),
            };
            let mut bytes = packet.build();
            if src.is_ipv4() {
                wire::ip4::Packet::new_checked(&mut bytes[..]).expect("IPv4").fill_checksum();
            }
            bytes
        },
    )
}

proptest! {
    #[test]
    fn the_compiled_list_says_what_the_rules_say(
        rules in prop::collection::vec(rule(), 0..200), packets in prop::collection::vec((packet(), any::<bool>()), 1..60),
    ) {
        let rules: Vec<_> = rules.into_iter().zip(0..).map(|(rule, counter)| Rule { counter, ..rule }).collect();
        let list = AccessList::compile(&rules, Action::Deny, 1000).expect("sound rules");
        for (packet, up) in packets {
            let direction = if up { Direction::Up } else { Direction::Down };
            let ip = L3L4::parse(&packet).expect("a packet");
            let naive = rules.iter().find(|rule| rule.matches(direction, &ip, &packet));
            let expected = naive.map_or((Action::Deny, 1000), |rule| (rule.action, rule.counter));
            let decision = list.decide(direction, &ip, &packet);
            prop_assert_eq!((decision.action, decision.counter), expected);
        }
    }
}
