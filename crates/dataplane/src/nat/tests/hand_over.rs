//! Another process's translator goes on for one that translates.

use super::*;

use crate::drops;

/// A translator that gets what another exports, under another seed.
fn heir(config: &Config) -> Rig {
    Rig::new(&Config { seed: 99, ..config.clone() })
}

/// Hands over what is left, and goes on with the other.
fn switch(from: &mut Rig, mut to: Rig, seconds: u64) -> Rig {
    let mut octets = Vec::new();
    from.nat.export_rest(seconds * SECOND, &mut octets);
    to.nat.import(&octets).expect("it fits");
    to
}

#[test]
fn flows_are_translated_alike_and_no_port_is_reused() {
    let mut rig = Rig::new(&config());
    let before: Vec<_> = (1..=9)
        .flat_map(|n| (1000..1080).map(move |port| (ue(n), port)))
        .map(|end| (end, rig.udp(end).expect("a port")))
        .collect();
    rig.nat.follow(true);
    let mut next = heir(&config());
    let (mut octets, mut more) = (Vec::new(), Vec::new());
    loop {
        let left = rig.nat.export(50, &mut octets);
        next.nat.import(&octets).expect("it fits");
        if left == 0 {
            break;
        }
        octets.clear();
        // Meanwhile flows begin, are answered, and end with their session.
        let end = (ue(10), 2000 + more.len() as u16);
        more.push((end, rig.udp(end).expect("a port")));
        rig.inward(&mut ip4(REMOTE, before[0].1.0).udp(53, before[0].1.1).build()).expect("translated");
    }
    rig.nat.end_session(INSTANCE, ue(9), SECOND);
    let mut next = switch(&mut rig, next, 1);
    let all: Vec<_> = before.iter().filter(|((private, _), _)| *private != ue(9)).chain(&more).collect();
    for (end, public) in &all {
        let mut answer = ip4(REMOTE, public.0).udp(53, public.1).build();
        next.inward(&mut answer).expect("known from outside");
        assert_eq!(L3L4::parse(&answer).map(|ip| (ip.dst.into(), ip.dst_port)), Ok(*end));
        assert_eq!(next.udp(*end), Ok(*public));
    }
    assert_eq!(next.nat.mappings(), all.len());
    assert!(next.log.pop().is_none(), "blocks that go over are no events");
    // Others get other ports, and none of a block that is held.
    let known: BTreeSet<_> = before.iter().chain(&more).map(|(_, public)| *public).collect();
    for n in 20..30 {
        let public = next.udp((ue(n), 5)).expect("a port");
        assert!(!known.contains(&public), "{public:?}");
    }
}

#[test]
fn timers_go_on_where_they_stood() {
    let mut rig = Rig::new(&config());
    let (first, second) = (rig.udp((ue(1), 1)).expect("a port"), rig.udp((ue(2), 1)).expect("a port"));
    rig.until(100);
    rig.udp((ue(2), 1)).expect("refreshed");
    rig.nat.follow(true);
    let mut next = switch(&mut rig, heir(&config()), 100);
    let is_there = |rig: &mut Rig, public: (Ipv4Addr, u16)| {
        rig.inward(&mut error(REMOTE, public.0, &ip4(public.0, REMOTE).udp(public.1, 53).build())).is_ok()
    };
    next.until(118);
    assert!(is_there(&mut next, first) && is_there(&mut next, second));
    next.until(122);
    assert!(!is_there(&mut next, first) && is_there(&mut next, second), "120 s from the last packet");
    next.until(222);
    assert!(!is_there(&mut next, second));
    // Idle since 120 s: the block ends after 120 s more, is told, and held for as long.
    next.until(242);
    let ended = next.log.pop().expect("an event");
    assert_eq!((ended.private, ended.ended), (ue(1), Some(Ended::Idle)));
    next.until(300);
    let mut last = switch_at(&mut next, 300);
    let free = |rig: &Rig| rig.nat.blocks.choose(0, 7).is_some();
    assert!(free(&last));
    assert_eq!(last.nat.blocks(), 1);
    last.until(343);
    assert_eq!(last.log.pop().map(|event| event.private), Some(ue(2)));
}

fn switch_at(rig: &mut Rig, second: u64) -> Rig {
    rig.nat.follow(true);
    switch(rig, heir(&config()), second)
}

#[test]
fn later_fragments_follow_a_first_that_came_before() {
    let mut rig = Rig::new(&config());
    let public = rig.udp((ue(1), 1)).expect("a port");
    let whole = ip4(REMOTE, public.0).udp(53, public.1).filled(64).build();
    let (mut first, mut later) = (whole.clone(), whole);
    let set = |packet: &mut Vec<u8>, word: u16| {
        packet[6..8].copy_from_slice(&word.to_be_bytes());
        packet[10..12].fill(0);
        let check = checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&check.to_be_bytes());
    };
    set(&mut first, 0x2000);
    set(&mut later, 9);
    rig.inward(&mut first).expect("translated");
    let mut next = switch_at(&mut rig, 1);
    assert_eq!(next.inward(&mut later.clone()), Ok(()));
    assert_eq!(heir(&config()).inward(&mut later), Err(drops::NAT_FRAGMENT));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let mut rig = Rig::new(&config());
    (1..3).for_each(|n| assert!(rig.udp((ue(n), 1)).is_ok()));
    let mut octets = Vec::new();
    rig.nat.follow(true);
    rig.nat.export_rest(0, &mut octets);
    let refused = |config: Config| heir(&config).nat.import(&octets).expect_err("refused");
    let other = Pool { instance: INSTANCE, first: [192, 0, 2, 1].into(), last: [192, 0, 2, 9].into() };
    let why = refused(Config { pools: vec![other], ..config() });
    assert!(matches!(why, Unfit::Block(..)), "{why}");
    assert_eq!(refused(Config { mappings: 1, ..config() }), Unfit::Full);
    assert_eq!(refused(Config { subscribers: 1, ..config() }), Unfit::Full);
    assert!(matches!(refused(Config { block_ports: 128, ..config() }), Unfit::Block(..) | Unfit::Garbled));
    for len in 1..octets.len() {
        // Every cut is either between records or refused; none panics.
        let _ = heir(&config()).nat.import(&octets[..len]);
    }
}
