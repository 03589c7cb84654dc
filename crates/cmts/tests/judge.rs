//! tshark and a second reader agree with every frame that the gateway itself sends.

#[path = "../../traffic/tests/cable/judge.rs"]
mod readers;

use traffic::cable::Cuts;

use crate::plant::{World, config};

/// A run of a gateway: DEPI packets as they left, of frames from the workload, and how many frames there were.
fn run(encrypt: bool) -> (World, Vec<Vec<u8>>) {
    let mut world = World::new(&config(2, 6, encrypt, ""), Cuts::Few);
    world.seen = Some(Vec::new());
    for _ in 0..60 {
        world.down(16);
        world.step(50_000);
    }
    world.rest();
    let seen = world.seen.take().unwrap_or_default();
    (world, seen)
}

#[test]
fn judges_agree_with_every_frame_of_a_run() {
    for (name, encrypt) in [("gateway_sealed", true), ("gateway_clear", false)] {
        let (world, packets) = run(encrypt);
        let found = readers::judged(name, &world.plant, &packets);
        let heard = world.device.heard();
        assert_eq!((heard.frames, heard.in_order), (960, 960), "{heard:?}");
        assert_eq!(found["frames"].as_u64(), Some(960), "{found}");
        assert_eq!(found["encrypted"].as_u64(), Some(if encrypt { 960 } else { 0 }), "{found}");
        assert_eq!(found["split"].as_u64(), Some(heard.split), "{found}");
        assert!(found["whole"].as_u64() > Some(200) && heard.split > 100, "{found}");
        world.rig.close().expect("nothing lost");
    }
}
