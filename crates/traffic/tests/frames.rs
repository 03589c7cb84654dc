//! What generated frames look like, checked with other eyes than those that made them: every checksum recomputed from
//! the bytes, every count taken by looking.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use frame::{Arena, ArenaConfig, BURST, Batch, Pool};
use proptest::prelude::*;
use traffic::{Direction, Found, Generator, Plan, Profile, Ratio, Sizes, Teids, inspect};

fn pool(slots: u32) -> Pool {
    let arena = Arena::new(ArenaConfig { slots, ..ArenaConfig::default() }).expect("memory");
    Pool::new(&arena, slots as usize)
}

/// The next `count` frames.
fn frames(generator: &mut Generator, count: usize) -> Vec<Vec<u8>> {
    let mut pool = pool(128);
    let mut batch = Batch::new();
    let mut made = vec![];
    while made.len() < count {
        let n = generator.fill(&mut pool, &mut batch, (count - made.len()).min(BURST), 1_000_000 + made.len() as u64);
        assert!(n > 0);
        made.extend(batch.frames().iter().map(|f| pool.arena().bytes(f).to_vec()));
        pool.give_all(&mut batch);
    }
    assert_eq!(pool.free(), 128);
    made
}

fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    words.fold(0u32, |acc, w| (acc + w) % 0xffff) as u16
}

/// Recomputes the checksums of one IP packet from its bytes; true when all that are there are right.
fn checksums_hold(ip: &[u8]) -> bool {
    let (header, udp, pseudo) = if ip[0] >> 4 == 4 {
        let len = u16::from_be_bytes([ip[2], ip[3]]) as usize;
        assert_eq!(len, ip.len());
        if sum(&[&ip[..20]]) != 0 {
            return false;
        }
        let udp = &ip[20..];
        (20, udp, sum(&[&ip[12..20], &[0, 17], &(udp.len() as u16).to_be_bytes()]))
    } else {
        assert_eq!(u16::from_be_bytes([ip[4], ip[5]]) as usize + 40, ip.len());
        let udp = &ip[40..];
        (40, udp, sum(&[&ip[8..40], &(udp.len() as u32).to_be_bytes(), &[0, 17]]))
    };
    assert_eq!(u16::from_be_bytes([udp[4], udp[5]]) as usize, udp.len());
    if udp[6..8] == [0, 0] {
        return header == 20;
    }
    (u32::from(sum(&[udp])) + u32::from(pseudo)).is_multiple_of(0xffff)
}

fn found(frame: &[u8]) -> Found<'_> {
    inspect(frame).unwrap_or_else(|lack| panic!("{lack:?}: {frame:02x?}"))
}

prop_compose! {
    fn profiles()(
        ues in 1u32..60, bearers in 1u16..4, flows_per_bearer in 1u16..4, ipv6_share in prop_oneof![Just(0.0), Just(1.0), Just(0.3)],
        container: bool, transport6: bool, tags: (Option<u16>, Option<u16>), checksums: bool, size in 0u16..1700,
        gnbs in 1u32..9, servers in 1u32..9, new_flows in prop_oneof![Just(0.0), Just(0.5)], seed: u64,
    ) -> Profile {
        let (gnb_first, upf_n3): (IpAddr, IpAddr) = if transport6 {
            ("2001:db8::1".parse().unwrap(), "2001:db8:f00::1".parse().unwrap())
        } else {
            ("192.168.0.1".parse().unwrap(), "192.168.9.1".parse().unwrap())
        };
        let mut p = Profile {
            ues, bearers, flows_per_bearer, ipv6_share, gnb_first, upf_n3, gnbs, servers, new_flows, seed,
            qfis: if container { (5..5 + bearers as u8).collect() } else { vec![] },
            user_checksums: checksums || transport6,
            uplink_sizes: Sizes::mix(&[(size, 2), (64, 1)]),
            downlink_sizes: Sizes::mix(&[(size, 1), (150, 1)]),
            downlink_teids: Teids::from(0x1000),
            ..Profile::default()
        };
        p.access.vlan = tags.0.map(|t| t & 0xeffe);
        p.core.vlan = tags.1.map(|t| t & 0xeffe);
        p
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_frame_is_whole_and_says_who_it_is(profile in profiles()) {
        let plan = Plan::new(profile.clone()).unwrap();
        for direction in Direction::BOTH {
            let mut generator = Generator::new(&plan, direction).unwrap();
            let count = 2 * plan.flow_count() as usize + 3;
            let made = frames(&mut generator, count);
            let segment = profile.entry(direction);
            let mut seen = HashSet::new();
            let mut ip_bytes = 0;
            for (i, frame) in made.iter().enumerate() {
                prop_assert_eq!(&frame[..6], &segment.gateway.0);
                prop_assert_eq!(&frame[6..12], &segment.own.0);
                let l2 = wire::Outer::parse(frame).unwrap();
                prop_assert_eq!(l2.outer_vlan().map(|v| v.0), segment.vlan);
                let ip = &frame[usize::from(l2.l3)..];
                prop_assert!(checksums_hold(ip), "outer of {:02x?}", frame);
                let packet = found(frame);
                prop_assert!(checksums_hold(packet.packet), "inner of {:02x?}", frame);
                prop_assert_eq!(packet.mark.direction, direction);
                prop_assert_eq!(packet.mark.sent_ns, 1_000_000 + (i / BURST * BURST) as u64);
                prop_assert!(seen.insert((packet.mark.flow, packet.mark.seq)));
                ip_bytes += packet.packet.len() as u64;

                let who = plan.parties(packet.mark.flow).unwrap();
                let (ue, server): (IpAddr, IpAddr) = if who.v6 {
                    let server = profile.server6_first.to_bits() + u128::from(who.server);
                    (profile.ue6(who.ue).into(), std::net::Ipv6Addr::from_bits(server).into())
                } else {
                    let server = profile.server_first.to_bits() + who.server;
                    (profile.ue4(who.ue).into(), std::net::Ipv4Addr::from_bits(server).into())
                };
                let bits = |a: IpAddr| match a { IpAddr::V4(a) => a.to_bits().into(), IpAddr::V6(a) => a.to_bits() };
                let (src, dst) = packet.addresses();
                let (ue_at, server_at, server_port, ue_port) = match direction {
                    Direction::Uplink => (src, dst, packet.head.dst_port, packet.head.src_port),
                    Direction::Downlink => (dst, src, packet.head.src_port, packet.head.dst_port),
                };
                prop_assert_eq!(ue_at, bits(ue));
                let (first, last) = profile.server_ports(who.bearer);
                prop_assert!((first..=last).contains(&server_port));
                if server_port < first + profile.flows_per_bearer {
                    prop_assert_eq!((server_at, server_port, ue_port), (bits(server), who.server_port, who.ue_port));
                } else {
                    prop_assert!(profile.new_flows > 0.0 && ue_port >= 1024);
                }
                match (direction, packet.tunnel) {
                    (Direction::Uplink, Some(tunnel)) => {
                        prop_assert_eq!(tunnel.teid.0, profile.teid(direction, who.ue, who.bearer));
                        prop_assert_eq!(tunnel.qfi, profile.qfis.get(usize::from(who.bearer)).copied());
                        prop_assert_eq!(tunnel.to, bits(profile.upf_n3));
                        let outer = wire::L3L4::parse(ip).unwrap();
                        let from = if outer.version == 4 { outer.src.into() } else { outer.src6(ip) };
                        prop_assert_eq!(from, bits(profile.gnb(profile.gnb_of(who.ue))));
                        prop_assert_eq!(ip.len(), packet.packet.len() + profile.tunnel_bytes());
                    }
                    (Direction::Downlink, None) => prop_assert_eq!(ip.len(), packet.packet.len()),
                    other => prop_assert!(false, "{:?}", other),
                }
                let zeroes = &packet.packet[usize::from(packet.head.l4) + 8 + 18..];
                prop_assert!(zeroes.iter().all(|b| *b == 0) || !profile.user_checksums);
            }
            prop_assert_eq!(generator.made().packets, count as u64);
            prop_assert_eq!(generator.made().ip_bytes, ip_bytes);
        }
    }

    #[test]
    fn packets_per_user_and_flow_are_equal(profile in profiles(), cycles in 1usize..4) {
        let plan = Plan::new(profile).unwrap();
        let mut generator = Generator::new(&plan, Direction::Downlink).unwrap();
        let (mut users, mut flows) = (HashMap::new(), HashMap::new());
        for frame in frames(&mut generator, cycles * plan.flow_count() as usize) {
            let mark = found(&frame).mark;
            *users.entry(plan.parties(mark.flow).unwrap().ue).or_insert(0) += 1;
            // Sequences start at 0 and have no gap.
            let next = flows.entry(mark.flow).or_insert(0);
            prop_assert_eq!(mark.seq, *next);
            *next += 1;
        }
        prop_assert_eq!(users.len() as u32, plan.ues());
        prop_assert!(users.values().all(|n| *n == cycles * plan.flows_per_ue() as usize));
        prop_assert_eq!(flows.len() as u32, plan.flow_count());
        prop_assert!(flows.values().all(|n| *n as usize == cycles));
    }
}

#[test]
fn sizes_are_those_of_the_n6_frame() {
    for size in [60u16, 61, 128, 159, 160, 161, 1400, 1514] {
        let (uplink_sizes, downlink_sizes) = (Sizes::Fixed(size), Sizes::Fixed(size));
        let plan = Plan::new(Profile { uplink_sizes, downlink_sizes, ..Profile::default() }).unwrap();
        let down = frames(&mut Generator::new(&plan, Direction::Downlink).unwrap(), 1);
        let up = frames(&mut Generator::new(&plan, Direction::Uplink).unwrap(), 1);
        assert_eq!((down[0].len(), up[0].len()), (usize::from(size), usize::from(size) + 44));
    }
}

#[test]
fn sizes_too_small_are_raised() {
    for (ipv6_share, least) in [(0.0, 60), (1.0, 80)] {
        let plan = Plan::new(Profile { ipv6_share, downlink_sizes: Sizes::Fixed(10), ..Profile::default() }).unwrap();
        assert_eq!(frames(&mut Generator::new(&plan, Direction::Downlink).unwrap(), 1)[0].len(), least);
    }
}

#[test]
fn a_mix_is_exact_and_every_user_gets_all_of_it() {
    // 20 users and a cycle of 20: without care user 0 would always get the same size.
    let uplink_sizes: Sizes = "84:65,256:20,1280:15".parse().unwrap();
    let plan = Plan::new(Profile { ues: 20, uplink_sizes, ..Profile::default() }).unwrap();
    let mut generator = Generator::new(&plan, Direction::Uplink).unwrap();
    let mut users: HashMap<u32, HashMap<usize, u32>> = HashMap::new();
    for _ in 0..20 {
        let mut cycle = HashMap::new();
        for frame in frames(&mut generator, 20) {
            let packet = found(&frame);
            let (ue, len) = (plan.parties(packet.mark.flow).unwrap().ue, packet.packet.len() + 14);
            *cycle.entry(len).or_insert(0) += 1;
            *users.entry(ue).or_default().entry(len).or_insert(0) += 1;
        }
        assert_eq!(cycle, HashMap::from([(84, 13), (256, 4), (1280, 3)]));
    }
    for sizes in users.values() {
        assert_eq!(*sizes, HashMap::from([(84, 13), (256, 4), (1280, 3)]));
    }
}

#[test]
fn gnbs_serve_equally_many_flows() {
    let plan = Plan::new(Profile { ues: 800, gnbs: 8, flows_per_bearer: 4, ..Profile::default() }).unwrap();
    let mut gnbs = [0; 8];
    for flow in 0..plan.flow_count() {
        gnbs[plan.parties(flow).unwrap().gnb as usize] += 1;
    }
    assert_eq!(gnbs, [400; 8]);
}

#[test]
fn new_flows_never_repeat_a_5_tuple() {
    let profile = Profile { ues: 50, servers: 3, new_flows: 1.0, ratio: Ratio::default(), ..Profile::default() };
    let mut generator = Generator::new(&Plan::new(profile).unwrap(), Direction::Uplink).unwrap();
    let mut seen = HashSet::new();
    for frame in frames(&mut generator, 100_000) {
        let packet = found(&frame);
        assert!(seen.insert((packet.addresses(), packet.head.src_port, packet.head.dst_port)));
    }
}

#[test]
fn what_can_not_be_made_is_counted() {
    let sizes = Sizes::Fixed(9000);
    let plan = Plan::new(Profile { downlink_sizes: sizes, ..Profile::default() }).unwrap();
    let mut generator = Generator::new(&plan, Direction::Downlink).unwrap();
    let (mut small, mut out) = (pool(4), Batch::new());
    assert_eq!(generator.largest(), 9000);
    assert_eq!(generator.fill(&mut small, &mut out, 3, 0), 0);
    assert_eq!((generator.made().no_room, generator.made().packets, small.free()), (3, 0, 4));

    let plan = Plan::new(Profile::default()).unwrap();
    let mut generator = Generator::new(&plan, Direction::Downlink).unwrap();
    assert_eq!(generator.fill(&mut small, &mut out, 10, 0), 4);
    assert_eq!((generator.made().no_frame, generator.made().packets, small.free()), (6, 4, 0));
    small.give_all(&mut out);
}
