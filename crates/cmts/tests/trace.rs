//! A modem's packets followed upstream: from where they come out of bursts to where they leave for the network.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use engine::{TraceFilter, TraceRecord};
use traffic::cable::Cuts;

use crate::plant::{FAR, World, config};

#[test]
fn a_modems_packets_are_followed_upstream_and_nobody_elses() {
    for encrypt in [true, false] {
        let mut world = World::new(&config(1, 4, encrypt, ""), Cuts::Anywhere(3));
        // The third modem has hosts 9 to 12; any of them stands for it.
        let handle = world.rig.worker().env().tracer.handle();
        handle.start(TraceFilter { subscriber: Ipv4Addr::new(10, 0, 0, 10).into() }, 5);
        for _ in 0..200 {
            world.up(2);
            world.step(50_000);
        }
        assert_eq!(handle.left(), 0);
        let mut walks: BTreeMap<u64, Vec<TraceRecord>> = BTreeMap::new();
        handle.take().into_iter().for_each(|record| walks.entry(record.packet).or_default().push(record));
        assert_eq!(walks.len(), 5);
        for walk in walks.values() {
            let stages: Vec<_> = walk.iter().map(|record| (record.stage, record.verdict)).collect();
            let all = ["decryption", "docsis_decap", "cm_lookup", "filtering", "marking", "route", "rewrite_l2"];
            assert_eq!(stages, all.map(|stage| (stage, "keep")), "{walk:?}");
            assert!(walk.iter().all(|record| record.detail.contains("modem 2")), "{walk:?}");
            // As it leaves: Ethernet and IPv4, from a host of the modem's.
            let bytes = &walk[walk.len() - 1].bytes;
            assert_eq!(&bytes[..6], &FAR[1].0, "to the next router");
            assert!((9..13).contains(&bytes[29]) && bytes[26..29] == [10, 0, 0], "{bytes:x?}");
        }
        world.rest();
        world.rig.close().expect("nothing lost");
    }
}
