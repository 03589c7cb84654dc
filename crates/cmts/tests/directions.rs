//! Both directions in memory, judged by a Remote-PHY device, modems and hosts that share only the wire formats.

use traffic::cable::Cuts;

use crate::plant::{World, config};

/// Downstream: everything arrives, in order, in the right service flow, whole, decrypted.
fn downstream(encrypt: bool) {
    let mut world = World::new(&config(2, 20, encrypt, ""), Cuts::Few);
    for _ in 0..400 {
        world.down(16);
        world.step(50_000);
    }
    world.rest();
    let heard = world.device.heard();
    let (sent, _) = world.hosts.sent();
    assert_eq!(world.drops(), []);
    assert_eq!((heard.in_order, heard.frames), (sent, sent), "{heard:?}");
    // The announcement of our own address (RFC 5227) is nobody's packet.
    let wrong = [
        heard.foreign - 1,
        heard.malformed,
        heard.packets_lost,
        heard.packets_late,
        heard.pieces,
        heard.bad_header,
        heard.strangers,
        heard.no_key,
        heard.clear,
        heard.bad_crc,
        heard.late,
        heard.unsigned,
        heard.misdelivered,
        heard.reordered,
        heard.duplicated,
    ];
    assert_eq!(wrong, [0; 15], "{heard:?}");
    assert!(heard.split > 100 && heard.segments_by_count[3..].iter().sum::<u64>() > 10, "{heard:?}");
    // Traffic priority is the class's own here.
    for (n, flow) in world.device.flows().iter().enumerate().filter(|(_, flow)| flow.packets > 0) {
        assert_eq!(usize::from(flow.priority), n % 4);
    }
    world.rig.close().expect("nothing lost");
}

#[test]
fn downstream_in_clear() {
    downstream(false);
}

#[test]
fn downstream_encrypted() {
    downstream(true);
}

/// Upstream: bursts cut anywhere become the packets they were.
fn upstream(encrypt: bool, cuts: Cuts) {
    let mut world = World::new(&config(2, 20, encrypt, ""), cuts);
    for _ in 0..400 {
        world.up(8);
        world.step(50_000);
    }
    let now = world.now();
    for _ in 0..world.modems.finish(now) {
        let packet = world.modems.next(now).expect("as many as are ready");
        world.rig.wire("cin").send(packet);
        world.step(10_000);
    }
    world.rest();
    let (heard, said) = (world.hosts.heard(), world.modems.said());
    assert_eq!(world.drops(), []);
    assert_eq!(heard.in_order, said.packets, "{heard:?} {said:?}");
    // The announcement of our own address (RFC 5227) is nobody's packet.
    assert_eq!((heard.misdelivered, heard.foreign, heard.duplicated, heard.reordered), (0, 1, 0, 0));
    let (units, clusters) = world.rig.gateway().state().upstream.counts();
    assert_eq!((units.bursts, units.packets_lost), (said.bursts, 0));
    assert_eq!((clusters.frames, clusters.requests), (said.packets, said.requests));
    world.rig.close().expect("nothing lost");
}

#[test]
fn upstream_in_clear() {
    upstream(false, Cuts::Few);
}

#[test]
fn upstream_encrypted_and_cut_anywhere() {
    upstream(true, Cuts::Anywhere(7));
}

#[test]
fn filters_and_strangers_are_counted_by_name() {
    let mut world = World::new(&config(1, 2, false, ""), Cuts::Few);
    let mut packet = vec![0; 2048];
    let len = world.hosts.make(&mut packet, 0);
    packet.truncate(len);
    let with = |at: usize, bytes: &[u8]| {
        let mut packet = packet.clone();
        packet[at..at + bytes.len()].copy_from_slice(bytes);
        packet[24..26].fill(0);
        let sum = wire::checksum::of(&packet[14..34]).to_be_bytes();
        packet[24..26].copy_from_slice(&sum);
        packet
    };
    world.rig.wire("nsi").send(with(36, &666u16.to_be_bytes()));
    world.rig.wire("nsi").send(with(30, &[10, 9, 9, 9]));
    world.rig.wire("nsi").send(with(22, &[1]));
    world.step(100_000);
    let named = |drops: Vec<(String, engine::Reason<engine::Drop>, u64)>| {
        drops.into_iter().map(|(stage, why, n)| (stage, why.name(), n)).collect::<Vec<_>>()
    };
    assert_eq!(
        named(world.drops()),
        [
            ("downstream.cm_lookup".to_owned(), "unknown_subscriber", 1),
            ("downstream.filtering".to_owned(), "filter_denied", 1),
            ("worker".to_owned(), "ttl_expired", 1),
        ]
    );
    world.rig.close().expect("nothing lost");
}
