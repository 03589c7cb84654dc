//! Translation, access lists and reassembly placed in pipelines: what leaves, and every counter that moves.

mod gateway;
#[path = "../../../fuzz/src/stages_plane.rs"]
mod stages_plane;

use std::net::Ipv4Addr;
use std::path::Path;

use dataplane::{drops, punts};
use gateway::WORLD;
use proptest::prelude::*;
use stages_plane::{plane, stages_plane};
use testkit::packet::ip4;
use testkit::rig::Clock;
use wire::L3L4;

const REMOTE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const ONE: Ipv4Addr = Ipv4Addr::new(10, 60, 0, 1);
const TWO: Ipv4Addr = Ipv4Addr::new(10, 60, 0, 2);

#[test]
fn there_back_across_and_put_together() {
    let clock = Clock::at(0);
    let (mut rig, mut log, hits) = plane(&clock);
    let mut run = |from: &str, packets: &[Vec<u8>], to: &str| -> Vec<(Vec<u8>, L3L4)> {
        packets.iter().for_each(|packet| rig.wire(from).send(packet.clone()));
        rig.settle(|_, _| false);
        let came = rig.wire(to).received();
        came.into_iter().map(|packet| (packet.clone(), L3L4::parse(&packet).expect("a packet"))).collect()
    };
    // A whole burst of one new flow makes one mapping.
    let sent = ip4(ONE, REMOTE).udp(1000, 53).filled(40);
    let out = run("inside", &vec![sent.build(); 40], "outside");
    let one = (Ipv4Addr::from(out[0].1.src), out[0].1.src_port);
    assert!(out.len() == 40 && out.iter().all(|(_, ip)| (ip.src.into(), ip.src_port) == one));
    let back = run("outside", &[ip4(REMOTE, one.0).udp(53, one.1).build()], "inside");
    assert_eq!((Ipv4Addr::from(back[0].1.dst), back[0].1.dst_port), (ONE, 1000));
    // From one subscriber to the other's public end.
    let across = run("inside", &[ip4(TWO, one.0).udp(2000, one.1).filled(3).build()], "inside");
    assert_eq!((Ipv4Addr::from(across[0].1.dst), across[0].1.dst_port), (ONE, 1000));
    assert_ne!(Ipv4Addr::from(across[0].1.src), TWO);
    // Fragments, last first, by way of the whole packet.
    let mut pieces = Vec::new();
    let long = ip4(ONE, REMOTE).may_fragment().udp(1000, 53).filled(1200).build();
    let cut = |piece: dataplane::fragment::Piece<'_>| {
        let mut bytes = vec![0; piece.len()];
        piece.write(&mut bytes).expect("room");
        pieces.insert(0, bytes);
    };
    assert_eq!(dataplane::fragment::fragment(&long, 576, cut), Ok(3));
    let whole = run("inside", &pieces, "outside");
    assert_eq!((whole.len(), whole[0].0.len(), whole[0].1.src_port), (1, long.len(), one.1));
    // What the list forbids, and what nobody asked for.
    assert!(run("inside", &[ip4(ONE, REMOTE).tcp(5, 25).build()], "outside").is_empty());
    assert!(run("outside", &[ip4(REMOTE, one.0).udp(53, one.1 ^ 1).build()], "inside").is_empty());
    assert!(run("outside", &[ip4(REMOTE, ONE).udp(53, 1000).build()], "inside").is_empty());

    let drops: Vec<_> =
        rig.stats().drops().into_iter().map(|(stage, why, packets, _)| (stage, why.id, packets)).collect();
    let expected = [("up.check_acl", drops::ACL_DENIED, 1), ("down.translate_in", drops::NAT_NO_MAPPING, 2)];
    assert_eq!(drops, expected.map(|(stage, why, packets)| (stage.to_owned(), why, packets)));
    let punts: Vec<_> = rig.stats().punts().into_iter().map(|(why, packets)| (why.id, packets)).collect();
    assert_eq!(punts, [(punts::HAIRPIN, 1), (punts::REASSEMBLE, 3)]);
    // Forty, one across (twice: up, and down to the other), one whole; one back.
    assert_eq!((hits.of(0).0, hits.of(1)), (40 + 2 + 1 + 1, (1, 40)));
    let nat = &rig.gateway().state.nat;
    assert_eq!((nat.mappings(), nat.subscribers(), nat.blocks()), (2, 2, 2));
    assert_eq!(std::iter::from_fn(|| log.pop()).filter(|event| event.instance == WORLD).count(), 2);
    rig.close().expect("nothing is lost");
}

#[test]
fn what_waits_at_the_end_is_counted() {
    let (mut rig, _log, _) = plane(&Clock::at(0));
    rig.wire("inside").send(ip4(ONE, REMOTE).fragment(0, true).udp(1, 2).filled(16).build());
    rig.settle(|_, _| false);
    assert_eq!(rig.stats().missing(), 0);
    rig.close().expect("nothing is lost");
}

#[test]
fn every_regression_stays_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/stages_plane");
    for file in std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("a readable folder").path()) {
        println!("{}", file.display());
        stages_plane(&std::fs::read(&file).expect("a readable file"));
    }
}

/// A few in an ordinary run; `PROPTEST_CASES` asks for more.
fn cases() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok());
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(asked.unwrap_or(128)) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_script_breaks_a_promise(script in prop::collection::vec(any::<u8>(), 0..1500)) {
        stages_plane(&script);
    }
}
