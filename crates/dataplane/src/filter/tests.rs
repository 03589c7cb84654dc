use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;
use wire::{Fragment, L3L4, protocol};
use zerocopy::{FromZeros, IntoBytes};

use super::*;

fn rule(text: &str) -> FlowDescription {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn complaint(text: &str) -> String {
    text.parse::<FlowDescription>().expect_err(text).to_string()
}

fn filters(text: &str) -> Filters {
    compile(&rule(text).into(), &UeAddresses::UNKNOWN).unwrap()
}

fn ip4(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().unwrap().to_bits()
}

#[test]
fn reads_what_control_planes_send() {
    for text in [
        "permit out ip from any to assigned",
        "permit out 58 from ff02::2 to assigned",
        "permit out 17 from 198.51.100.0/24 53,5000-6000 to assigned 1024-65535",
        "permit out 6 from 2001:db8::/32 443 to 2001:db8:1::/64",
        "deny in ip from !10.0.0.0/8 to any frag",
        "permit in 132 from assigned to 192.0.2.1 3868",
    ] {
        assert_eq!(rule(text).to_string(), text);
    }
    assert_eq!(rule(" PERMIT\tOut IP  from any to 192.0.2.1/32 "), rule("permit out ip from any to 192.0.2.1"));
    assert_eq!(rule("permit out 58 from ff02::2/128 to assigned").from.address.to_string(), "ff02::2");
}

#[test]
fn errors_say_where_and_what_would_be_right() {
    for (text, says) in [
        ("", "at byte 0, the end of the rule: expected \"permit\""),
        ("allow out", "at byte 0, \"allow\": expected \"permit\" or \"deny\""),
        ("permit up", "at byte 7, \"up\": expected \"in\" or \"out\""),
        (
            "permit out tpc from any to any",
            "at byte 11, \"tpc\": expected a protocol: a number from 0 to 255, a name such as udp, or \"ip\" for any",
        ),
        ("permit out 256 from any to any", "at byte 11, \"256\": expected a protocol"),
        ("permit out +6 from any to any", "at byte 11, \"+6\": expected a protocol"),
        ("permit out 6 any to any", "at byte 13, \"any\": expected \"from\""),
        ("permit out 6 from 10.0.0.0/33 to any", "at byte 18, \"10.0.0.0/33\": expected a prefix length of 0 to 32"),
        ("permit out 6 from ::/129 to any", "at byte 18, \"::/129\": expected a prefix length of 0 to 128"),
        ("permit out 6 from 10.0.0 to any", "at byte 18, \"10.0.0\": expected any, assigned or an address"),
        ("permit out 6 from !any to any", "at byte 18, \"!any\": expected an address behind \"!\""),
        ("permit out 6 from any 80,90-x to any", "at byte 25, \"90-x\": expected ports"),
        ("permit out 6 from any 80, 90 to any", "at byte 25, the end of the rule: expected ports"),
        ("permit out 6 from any 9-8 to any", "at byte 22, \"9-8\": the range ends before it begins"),
        ("permit out 6 from any 65536 to any", "at byte 22, \"65536\": expected ports"),
        ("permit out 6 from any http to any", "at byte 22, \"http\": expected \"to\", or ports"),
        ("permit out 1 from any 80 to any", "at byte 22, \"80\": this protocol has no ports"),
        ("permit out 6 from ::1 to 10.0.0.1", "at byte 25, \"10.0.0.1\": expected an address of the same family"),
        ("permit out 6 from any to", "at byte 24, the end of the rule: expected any, assigned"),
        ("permit out 6 from any to any established", "at byte 29, \"established\": this option is not supported"),
        ("permit out 1 from any to any icmptypes 8", "at byte 29, \"icmptypes\": this option is not supported"),
        ("permit out 6 from any 80 to any frag", "at byte 32, \"frag\": \"frag\" cannot be combined with ports"),
        ("permit out 6 from any to any , more", "at byte 29, \",\": expected the end of the rule"),
    ] {
        let got = complaint(text).replace("\"\"", "the end of the rule");
        assert!(got.starts_with(says), "{text:?}\n  {got}\n  {says}");
    }
    assert!(complaint(&"x".repeat(10_000)).len() < 200);
}

#[test]
fn both_directions_meet_one_filter() {
    let packet = L3L4 { src: ip4("192.0.2.7"), dst: ip4("10.1.0.1"), src_port: 443, dst_port: 5000, ..UDP };
    let answer = L3L4 { src: packet.dst, dst: packet.src, src_port: 5000, dst_port: 443, ..UDP };
    assert_eq!(Key4::downlink(&packet, &[]), Key4::uplink(&answer, &[]));
    for text in ["permit out 17 from 192.0.2.0/24 443 to assigned", "permit in 17 from assigned to 192.0.2.0/24 443"] {
        let sdf = rule(text).into();
        let filters = compile(&sdf, &UeAddresses::of(Some(Ipv4Addr::new(10, 1, 0, 1)), None)).unwrap();
        assert!(Filter4::any(&filters.v4, &Key4::downlink(&packet, &[])));
        assert!(Filter4::any(&filters.v4, &Key4::uplink(&answer, &[])));
        assert!(!Filter4::any(&filters.v4, &Key4::uplink(&packet, &[])));
        assert!(filters.v6.is_empty());
    }
}

const UDP: L3L4 = L3L4 {
    src: 0,
    dst: 0,
    total_len: 28,
    l4: 20,
    src_port: 0,
    dst_port: 0,
    version: 4,
    protocol: 17,
    tos: 0,
    ttl: 64,
    fragment: wire::Fragment::Whole,
};

#[test]
fn fragments_without_ports_match_only_rules_without_ports() {
    let later = Key4::downlink(&L3L4 { fragment: wire::Fragment::Later, ..UDP }, &[]);
    let first = Key4::downlink(&L3L4 { fragment: wire::Fragment::First, ..UDP }, &[]);
    let icmp = Key4::downlink(&L3L4 { protocol: 1, ..UDP }, &[]);
    let hits = |text: &str| [&later, &first, &icmp].map(|key| Filter4::any(&filters(text).v4, key));
    assert_eq!(hits("permit out ip from any to assigned"), [true, true, true]);
    assert_eq!(hits("permit out ip from any 0-65535 to assigned"), [false, true, false]);
    assert_eq!(hits("permit out 17 from any to assigned 0"), [false, true, false]);
    assert_eq!(hits("permit out 17 from any to assigned frag"), [true, false, false]);
}

#[test]
fn tos_is_compared_under_its_mask() {
    let ef = |mask| Sdf { tos: Some(Tos { value: 0xb9, mask }), ..Sdf::default() };
    let hits = |mask, tos| {
        let filters = compile(&ef(mask), &UeAddresses::UNKNOWN).unwrap();
        Filter4::any(&filters.v4, &Key4 { tos, ..Key4::default() })
            & Filter6::any(&filters.v6, &Key6 { tos, ..Key6::default() })
    };
    assert_eq!((hits(0xfc, 0xb8), hits(0xfc, 0xbb), hits(0xfc, 0xb0), hits(0, 1)), (true, true, false, true));
}

#[test]
fn ipsec_is_told_apart_by_its_index_in_both_directions() {
    let by = |spi| {
        let sdf = Sdf { spi: Some(spi), ..Sdf::default() };
        compile(&sdf, &UeAddresses::UNKNOWN).unwrap()
    };
    // ESP begins with the index; in AH it is the second word.
    let index = 0xdead_5005u32.to_be_bytes();
    let mut esp = [0; 28];
    esp[20..24].copy_from_slice(&index);
    let mut ah = [0; 32];
    ah[24..28].copy_from_slice(&index);
    for (protocol, packet) in [(protocol::ESP, &esp[..]), (protocol::AH, &ah)] {
        let h = L3L4 { protocol, src: 1, dst: 2, ..UDP };
        for key in [Key4::uplink(&h, packet), Key4::downlink(&h, packet)] {
            let hits = |spi| Filter4::any(&by(spi).v4, &key);
            assert_eq!([0xdead_5005, 0x5005_dead, 0xdead_5004, 0].map(hits), [true, false, false, false]);
            assert!(Filter4::any(&filters("permit out ip from any to assigned").v4, &key));
            assert!(!Filter4::any(&filters("permit out ip from any 57005 to assigned 20485").v4, &key), "no ports");
        }
        let later = L3L4 { fragment: wire::Fragment::Later, ..h };
        assert!(!Filter4::any(&by(0xdead_5005).v4, &Key4::uplink(&later, packet)), "has no index");
        assert!(!Filter4::any(&by(0xdead_5005).v4, &Key4::uplink(&h, &packet[..23])));
        let six = L3L4 { protocol, version: 6, ..UDP };
        let hits = |spi| Filter6::any(&by(spi).v6, &Key6::downlink(&six, packet));
        assert_eq!([0xdead_5005, 0xdead_5004].map(hits), [true, false]);
    }
    // Ports that happen to be the index's halves are none.
    let udp = L3L4 { src_port: 0xdead, dst_port: 0x5005, ..UDP };
    assert!(!Filter4::any(&by(0xdead_5005).v4, &Key4::downlink(&udp, &esp)));
    // With a flow description both must match.
    let flow = Some(rule("permit out 50 from 192.0.2.0/24 to assigned"));
    let both = compile(&Sdf { flow, spi: Some(1), ..Sdf::default() }, &UeAddresses::UNKNOWN).unwrap();
    let esp = [&[0; 20][..], &[0, 0, 0, 1, 0, 0, 0, 0]].concat();
    let hits = |src, protocol| Filter4::any(&both.v4, &Key4::downlink(&L3L4 { src: ip4(src), protocol, ..UDP }, &esp));
    assert_eq!((hits("192.0.2.9", 50), hits("192.0.3.9", 50), hits("192.0.2.9", 51)), (true, false, false));
    assert!(!both.v4[0].is_plain());
}

#[test]
fn flow_labels_are_told_apart_in_ipv6_only() {
    let by = |flow_label| {
        let sdf = Sdf { flow_label: Some(flow_label), ..Sdf::default() };
        compile(&sdf, &UeAddresses::UNKNOWN).unwrap()
    };
    let mut packet = [0; 48];
    packet[..4].copy_from_slice(&[0x6f, 0xfa, 0xbc, 0xde]);
    let key = Key6::uplink(&L3L4 { version: 6, l4: 40, tos: 0xff, ..UDP }, &packet);
    let hits = |label| Filter6::any(&by(label).v6, &key);
    assert_eq!([0xabcde, 0xabcdf, 0].map(hits), [true, false, false]);
    assert!(by(0xabcde).v4.is_empty() && Filter6::ANY.matches(&key));
}

#[test]
fn lists_multiply_but_not_without_end() {
    let all = filters("permit out 6 from any 80,443,81,1000-2000,1500-3000 to 10.0.0.1 1,3");
    assert_eq!((all.v4.len(), all.v6.len()), (6, 0)); // 80-81, 443, 1000-3000 times two
    let every_other = (0..9u16).map(|n| (n * 2).to_string()).collect::<Vec<_>>().join(",");
    let text = format!("permit out 6 from any {every_other} to any {every_other}");
    assert_eq!(compile(&rule(&text).into(), &UeAddresses::UNKNOWN), Err(CompileError::TooMany(81)));
    let deny = rule("deny out ip from any to any").into();
    assert_eq!(compile(&deny, &UeAddresses::UNKNOWN), Err(CompileError::Deny));
}

#[test]
fn plain_filters_leave_the_subscribers_side_alone() {
    let plain = |text: &str| filters(text).v4.iter().all(Filter4::is_plain);
    assert!(plain("permit out ip from any to assigned") && plain("permit out 17 from 10.0.0.0/8 53,90 to assigned"));
    assert!(!plain("permit out 17 from any to assigned 53") && !plain("permit out ip from !10.0.0.0/8 to assigned"));
    assert!(!plain("permit out ip from any to 10.0.0.1"));
}

#[test]
fn filters_are_plain_bytes() {
    assert_eq!((Filter4::ANY.as_bytes().len(), Filter6::ANY.as_bytes().len()), (32, 64));
    let zero = Filter4::new_zeroed();
    assert!(!zero.matches(&Key4 { remote_port: 1, ..Key4::default() }));
    assert!(Filter4::ANY.matches(&Key4::default()) && Filter6::ANY.matches(&Key6::default()));
}

// A filter matches in a quad what it matches alone. Tunnel endpoint and class matter in one direction only.
fn in_a_quad(filter: &Filter4, n: usize, key: &Key4) {
    let Key4 { remote, remote_port, protocol, tos, state, .. } = *key;
    // State follows from the rest in real packets; here it is whatever it is, so it goes in by the protocol.
    let fragment = if state & state::LATER_FRAGMENT != 0 { Fragment::Later } else { Fragment::Whole };
    let sent = L3L4 { dst: remote, dst_port: remote_port, protocol, tos, fragment, ..L3L4::default() };
    let received = L3L4 { src: remote, src_port: remote_port, ..sent };
    let key = Key4 { local: key.local, local_port: key.local_port, ..Key4::uplink(&sent, &[]) };
    let mut quad = Quad4::NOTHING;
    assert_eq!((quad.hits(&QuadKey::uplink(&sent, 7, 9)), quad.hits(&QuadKey::downlink(&received))), (0, 0));
    quad.set(n, filter, 7, Some(9));
    let hits = u32::from(filter.matches(&key)) << n;
    assert_eq!((quad.hits(&QuadKey::uplink(&sent, 7, 9)), quad.hits(&QuadKey::downlink(&received))), (hits, hits));
    assert_eq!((quad.hits(&QuadKey::uplink(&sent, 6, 9)), quad.hits(&QuadKey::uplink(&sent, 7, 8))), (0, 0));
    quad.set(n, filter, 7, None);
    assert_eq!(quad.hits(&QuadKey::uplink(&sent, 7, 8)), hits);
}

// What the rule's text says, word for word, against a packet on its way to or from the subscriber.
fn naive(sdf: &Sdf, ue: &UeAddresses, key: &Packet) -> bool {
    let within = |p: &Prefix, a: IpAddr| match (p.address, a) {
        (IpAddr::V4(p4), IpAddr::V4(a)) => (0..p.len).all(|bit| p4.to_bits() << bit >> 31 == a.to_bits() << bit >> 31),
        (IpAddr::V6(p6), IpAddr::V6(a)) => {
            (0..p.len).all(|bit| p6.to_bits() << bit >> 127 == a.to_bits() << bit >> 127)
        }
        _ => false,
    };
    let end = |end: &End, address: IpAddr, port: u16| {
        let place = match &end.address {
            Address::Any => true,
            Address::Assigned => ue.prefixes.is_empty() || ue.prefixes.iter().any(|p| within(p, address)),
            Address::In(p) => within(p, address),
            Address::NotIn(p) => p.address.is_ipv4() == address.is_ipv4() && !within(p, address),
        };
        place && (end.ports.is_empty() || key.ports_known && end.ports.iter().any(|p| (p.lo..=p.hi).contains(&port)))
    };
    let tos = sdf.tos.is_none_or(|t| t.value & t.mask == key.tos & t.mask);
    tos && sdf.flow.as_ref().is_none_or(|flow| {
        let (remote, local) =
            if flow.direction == Direction::Out { (&flow.from, &flow.to) } else { (&flow.to, &flow.from) };
        flow.protocol.is_none_or(|p| p == key.protocol)
            && end(remote, key.remote, key.remote_port)
            && end(local, key.local, key.local_port)
            && (!flow.later_fragments || key.later)
    })
}

#[derive(Clone, Debug)]
struct Packet {
    remote: IpAddr,
    local: IpAddr,
    remote_port: u16,
    local_port: u16,
    protocol: u8,
    tos: u8,
    later: bool,
    ports_known: bool,
}

impl Packet {
    fn state(&self) -> u8 {
        u8::from(self.ports_known) + 2 * u8::from(self.later)
    }

    fn is_matched_by(&self, filters: &Filters) -> bool {
        let Packet { remote_port, local_port, protocol, tos, .. } = *self;
        let state = self.state();
        match (self.remote, self.local) {
            (IpAddr::V4(r), IpAddr::V4(l)) => {
                let (remote, local) = (r.to_bits(), l.to_bits());
                let key = Key4 { remote, local, remote_port, local_port, protocol, tos, state };
                for (n, filter) in filters.v4.iter().filter(|f| f.is_plain()).enumerate() {
                    in_a_quad(filter, n % WAYS, &key);
                }
                Filter4::any(&filters.v4, &key)
            }
            (IpAddr::V6(r), IpAddr::V6(l)) => {
                let (remote, local) = (r.to_bits(), l.to_bits());
                Filter6::any(
                    &filters.v6,
                    &Key6 { remote, local, remote_port, local_port, protocol, tos, state, flow_label: 0 },
                )
            }
            _ => unreachable!("one family"),
        }
    }
}

// Addresses and ports from small sets, so that matches happen; a few low bits and a few high ones.
fn an_address(ipv4: bool) -> impl Strategy<Value = IpAddr> {
    (0u32..4, 0u32..4).prop_map(move |(high, low)| {
        let v6 = u128::from(high) << 126 | u128::from(low);
        if ipv4 { IpAddr::V4((high << 30 | low).into()) } else { IpAddr::V6(v6.into()) }
    })
}

fn a_prefix(ipv4: bool) -> impl Strategy<Value = Prefix> {
    let len = if ipv4 { prop_oneof![0u8..3, 30u8..=32].boxed() } else { prop_oneof![0u8..3, 126u8..=128].boxed() };
    (an_address(ipv4), len).prop_map(|(address, len)| Prefix { address, len })
}

fn an_end(ipv4: bool, ported: bool) -> impl Strategy<Value = End> {
    let address = prop_oneof![
        Just(Address::Any),
        Just(Address::Assigned),
        a_prefix(ipv4).prop_map(Address::In),
        a_prefix(ipv4).prop_map(Address::NotIn),
    ];
    let ports = (0u16..8, 0u16..3).prop_map(|(lo, more)| Ports { lo, hi: lo + more });
    (address, prop::collection::vec(ports, 0..if ported { 4 } else { 1 }))
        .prop_map(|(address, ports)| End { address, ports })
}

prop_compose! {
    fn a_rule()(ipv4 in any::<bool>(), ported in any::<bool>())(
        out in any::<bool>(),
        protocol in if ported { prop::option::of(prop::sample::select(vec![6u8, 17])).boxed() } else { any::<Option<u8>>().boxed() },
        from in an_end(ipv4, ported),
        to in an_end(ipv4, ported),
        frag in any::<bool>(),
    ) -> FlowDescription {
        let later_fragments = frag && from.ports.is_empty() && to.ports.is_empty();
        let direction = if out { Direction::Out } else { Direction::In };
        FlowDescription { action: Action::Permit, direction, protocol, from, to, later_fragments }
    }
}

prop_compose! {
    fn a_packet()(ipv4 in any::<bool>())(
        remote in an_address(ipv4), local in an_address(ipv4), remote_port in 0u16..10, local_port in 0u16..10,
        protocol in prop::sample::select(vec![1u8, 6, 17]), tos in 0u8..4, later in any::<bool>(),
    ) -> Packet {
        let ports_known = !later && protocol != 1;
        Packet { remote, local, remote_port, local_port, protocol, tos, later, ports_known }
    }
}

proptest! {
    #[test]
    fn filters_do_what_the_rule_says(
        flow in prop::option::of(a_rule()),
        tos in prop::option::of((0u8..4, 0u8..4).prop_map(|(value, mask)| Tos { value, mask })),
        ue in prop::collection::vec(any::<bool>().prop_flat_map(a_prefix), 0..3),
        packets in prop::collection::vec(a_packet(), 1..60),
    ) {
        let (sdf, ue) = (Sdf { flow, tos, ..Sdf::default() }, UeAddresses { prefixes: ue });
        match compile(&sdf, &ue) {
            Ok(filters) => for packet in packets {
                prop_assert_eq!(packet.is_matched_by(&filters), naive(&sdf, &ue, &packet), "{:?} {:?}", packet, filters);
            },
            Err(error) => prop_assert!(matches!(error, CompileError::TooMany(_)), "{error}"),
        }
    }

    #[test]
    fn what_is_written_is_read(flow in a_rule()) {
        prop_assert_eq!(flow.to_string().parse(), Ok(flow));
    }

    #[test]
    fn no_text_upsets_the_parser(text in ".{0,80}") {
        let _ = text.parse::<FlowDescription>();
    }

    #[test]
    fn no_almost_rule_upsets_the_parser(words in prop::collection::vec(prop::sample::select(vec![
        "permit", "deny", "out", "in", "6", "ip", "from", "to", "any", "assigned", "!", "!1.2.3.4", "::/0", "1.1.1.1/",
        "/", "80", "1-", "-", ",", "1,", "80-79", "é", "frag", "setup", "999999999999999999999", "",
    ]), 0..12)) {
        let text = words.join(" ");
        match text.parse::<FlowDescription>() {
            Ok(flow) => prop_assert_eq!(flow.to_string().parse(), Ok(flow)),
            Err(error) => prop_assert!(error.at <= text.len() && text.get(error.at..).unwrap().starts_with(&error.found)),
        }
    }
}
