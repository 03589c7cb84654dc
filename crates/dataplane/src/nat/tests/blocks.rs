//! Blocks of ports and mappings: given, told, kept, taken back.

use super::*;

use crate::drops;

#[test]
fn one_block_one_event_and_no_more_than_allowed() {
    let mut rig = Rig::new(&config());
    let ends: BTreeSet<_> = (0..128).map(|port| rig.udp((ue(1), port)).expect("a port")).collect();
    assert_eq!(ends.len(), 128, "no port twice");
    assert_eq!(rig.udp((ue(1), 128)), Err(drops::NAT_NO_PORT));
    let events: Vec<_> = std::iter::from_fn(|| rig.log.pop()).collect();
    assert_eq!(events.len(), 2);
    for event in &events {
        assert_eq!((event.instance, event.private, event.ended), (INSTANCE, ue(1), None));
        assert_eq!(event.last_port - event.first_port, 63);
    }
    assert!(ends.iter().all(|(public, port)| {
        events.iter().any(|event| event.public == *public && (event.first_port..=event.last_port).contains(port))
    }));
    // Another protocol has ports of its own.
    assert_eq!(rig.outward(1, &mut ip4(ue(1), REMOTE).tcp(1, 2).build()), Ok(Outcome::Forward));
}

#[test]
fn a_log_that_is_behind_stops_new_blocks_and_loses_nothing() {
    let (producer, mut log) = ring(2);
    let mut rig = Rig { nat: Nat::new(&config(), 0, 1, producer, 0).expect("a translator"), log: ring(1).1 };
    assert!(rig.udp((ue(1), 1)).is_ok() && rig.udp((ue(2), 1)).is_ok());
    assert_eq!(rig.udp((ue(3), 1)), Err(drops::NAT_LOG_FULL));
    assert!(rig.udp((ue(2), 2)).is_ok(), "a block that one has is used on");
    rig.nat.end_session(INSTANCE, ue(1), SECOND);
    assert_eq!((rig.nat.blocks(), rig.nat.mappings()), (1, 2));
    assert_eq!(log.pop().map(|event| event.ended), Some(None));
    rig.until(3);
    assert_eq!(log.pop().map(|event| event.ended), Some(None));
    let ended = log.pop().expect("told later");
    assert_eq!((ended.private, ended.ended), (ue(1), Some(Ended::Session)));
}

#[test]
fn mappings_live_as_long_as_the_standards_say() {
    let life = |acts: &[(u64, bool, u8)], protocol: Protocol| {
        let mut rig = Rig::new(&config());
        let mut public = (FIRST, 0);
        let mut last = 0;
        for (at, out, flags) in acts {
            rig.until(*at);
            last = *at;
            let packet = match (protocol, out) {
                (Protocol::Udp, true) => ip4(ue(1), REMOTE).udp(9, 53).build(),
                (Protocol::Udp, false) => ip4(REMOTE, public.0).udp(53, public.1).build(),
                (_, true) => segment((ue(1), 9), (REMOTE, 80), *flags),
                (_, false) => segment((REMOTE, 80), public, *flags),
            };
            let mut packet = packet;
            if *out {
                rig.outward(1, &mut packet).expect("translated");
                let ip = L3L4::parse(&packet).expect("a packet");
                public = (ip.src.into(), ip.src_port);
            } else {
                rig.inward(&mut packet).expect("translated");
            }
        }
        (last..).find(|at| {
            rig.until(*at);
            rig.nat.mappings() == 0
        })
    };
    let near = |found: Option<u64>, expected: u64| {
        let found = found.expect("an end");
        assert!((expected..=expected + 1).contains(&found), "{found} instead of {expected}");
    };
    let (out, inw) = (true, false);
    near(life(&[(0, out, 0)], Protocol::Udp), 120);
    near(life(&[(0, out, 0), (5, inw, 0)], Protocol::Udp), 300);
    near(life(&[(0, out, 0), (5, inw, 0), (50, out, 0), (90, inw, 0)], Protocol::Udp), 350);
    near(life(&[(0, out, flag::SYN)], Protocol::Tcp), 240);
    near(life(&[(0, out, flag::SYN), (1, inw, flag::SYN | flag::ACK), (2, out, flag::ACK)], Protocol::Tcp), 7442);
    let open = [(0, out, flag::SYN), (1, inw, flag::SYN | flag::ACK), (2, out, flag::ACK)];
    let closed = [&open[..], &[(9, inw, flag::RST)]].concat();
    near(life(&closed, Protocol::Tcp), 249);
    let closed = [&open[..], &[(9, out, flag::FIN | flag::ACK), (10, inw, flag::FIN), (11, out, flag::ACK)]].concat();
    near(life(&closed, Protocol::Tcp), 251);
    let again = [&closed[..], &[(20, out, flag::SYN), (21, inw, flag::ACK), (22, out, flag::ACK)]].concat();
    near(life(&again, Protocol::Tcp), 7462);
}

#[test]
fn idle_blocks_go_back_and_are_held_before_anyone_has_them() {
    let small = Config { first_port: 65_536u32.wrapping_sub(64) as u16, ..config() };
    let pool = Pool { last: FIRST, ..small.pools[0] };
    let mut rig = Rig::new(&Config { pools: vec![pool], ..small });
    rig.udp((ue(1), 1)).expect("the only block");
    assert_eq!(rig.udp((ue(2), 1)), Err(drops::NAT_NO_PORT));
    rig.until(119);
    assert_eq!(rig.nat.mappings(), 1);
    rig.until(122); // the mapping is gone, the block idle
    assert_eq!((rig.nat.mappings(), rig.nat.blocks()), (0, 1));
    rig.until(243); // given back, held
    assert_eq!((rig.nat.blocks(), rig.nat.subscribers()), (0, 0));
    assert_eq!(rig.udp((ue(2), 1)), Err(drops::NAT_NO_PORT));
    rig.until(366);
    rig.udp((ue(2), 1)).expect("free again");
    let events: Vec<_> = std::iter::from_fn(|| rig.log.pop()).map(|event| (event.private, event.ended)).collect();
    assert_eq!(events, [(ue(1), None), (ue(1), Some(Ended::Idle)), (ue(2), None)]);
}

#[test]
fn an_ended_session_leaves_nothing_behind() {
    let mut rig = Rig::new(&config());
    let public = rig.udp((ue(1), 1)).expect("a port");
    (2..100).for_each(|port| assert!(rig.udp((ue(1), port)).is_ok()));
    rig.nat.end_session(INSTANCE, ue(1), SECOND);
    rig.nat.end_session(INSTANCE, ue(9), SECOND);
    rig.nat.end_session(INSTANCE + 1, ue(1), SECOND);
    assert_eq!((rig.nat.mappings(), rig.nat.blocks(), rig.nat.subscribers()), (0, 0, 0));
    assert_eq!(rig.inward(&mut ip4(REMOTE, public.0).udp(53, public.1).build()), Err(drops::NAT_NO_MAPPING));
    // Another session with the address, of which nobody told: nothing of the first reaches it.
    let before = rig.udp((ue(1), 1)).expect("a port");
    let mut other = ip4(ue(1), REMOTE).udp(1, 53).build();
    assert_eq!(rig.outward(2, &mut other), Ok(Outcome::Forward));
    let ip = L3L4::parse(&other).expect("a packet");
    assert_ne!((ip.src.into(), ip.src_port), before);
    assert_eq!(rig.inward(&mut ip4(REMOTE, before.0).udp(53, before.1).build()), Err(drops::NAT_NO_MAPPING));
}
