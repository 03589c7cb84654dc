//! The configuration read again while modems talk: a packet that passes before is treated by the new rule afterwards.

use cmts::config::{Config, ConfigError, FlowEntry};
use cmts::product::CmtsGateway;
use gateway::shell::Gateway as _;
use gateway::shell::reload::apply_to;
use traffic::cable::Cuts;

use crate::plant::{World, config};

/// Reads a file again: all keys that can be applied.
fn reload(world: &mut World, text: &str) -> Result<(), ConfigError> {
    let config: Config = toml::from_str(text).expect("a configuration");
    config.check()?;
    let keys: Vec<&str> = CmtsGateway::LIVE.iter().map(|entry| entry.key).collect();
    apply_to(&mut world.control, &config, &keys, true)?;
    apply_to(&mut world.control, &config, &keys, false)?;
    world.step(1000);
    Ok(())
}

/// How many of 400 packets to hosts reach the device.
fn arrived(world: &mut World) -> u64 {
    let before = world.device.heard().frames;
    for _ in 0..50 {
        world.down(8);
        world.step(100_000);
    }
    world.rest();
    world.device.heard().frames - before
}

fn dropped(world: &World, reason: &str) -> u64 {
    world.drops().iter().filter(|(_, why, _)| why.name() == reason).map(|(.., packets)| packets).sum()
}

const RULE: &str = "protocol = \"udp\"\n        destination_ports = 666";

#[test]
fn filter_denies_what_it_permitted() {
    let text = config(1, 4, false, "");
    assert!(text.contains(RULE));
    let mut world = World::new(&text, Cuts::Few);
    assert_eq!(arrived(&mut world), 400);
    reload(&mut world, &text.replace(RULE, "")).expect("in order");
    assert_eq!((arrived(&mut world), dropped(&world, "filter_denied")), (0, 400), "{:?}", world.drops());
    reload(&mut world, &text).expect("in order");
    assert_eq!(arrived(&mut world), 400);
    // What no rule matches.
    let denied = text.replacen("gateway", "filter_default = \"deny\"\ngateway", 1);
    reload(&mut world, &denied).expect("in order");
    assert_eq!(arrived(&mut world), 0);
    world.rig.close().expect("nothing lost");
}

#[test]
fn filter_groups_follow_the_profile_and_are_not_taken_from_modems() {
    let text = config(1, 4, false, "");
    let mut world = World::new(&text, Cuts::Few);
    let other = "[[filter_group]]\nname = \"none\"\n[[filter_group.rule]]\npriority = 1\naction = \"deny\"\n";
    let both = text.clone() + other;
    let renamed = both.replace("filters_down = [\"some\"]", "filters_down = [\"none\"]");
    reload(&mut world, &both).expect("in order");
    assert_eq!(arrived(&mut world), 400, "nobody has the new one");
    reload(&mut world, &renamed).expect("in order");
    assert_eq!(arrived(&mut world), 0);
    reload(&mut world, &text).expect("no modem has it any more");
    assert_eq!(arrived(&mut world), 400);
    // One that was given to a modem alone.
    reload(&mut world, &both).expect("in order");
    let modem = "02:cb:00:00:00:01".parse().expect("an address");
    world.control.set_filters(modem, Some(&["none".to_owned()]), None).expect("it is there");
    let error = reload(&mut world, &text).expect_err("a modem has it");
    assert_eq!(error.path, ["filter_group"]);
    assert!(error.what.contains("1 modems have filter group \"none\""), "{error}");
    assert_eq!(arrived(&mut world), 300, "nothing has changed");
    assert_eq!(world.control.refused(), 0);
    world.rig.close().expect("nothing lost");
}

#[test]
fn rates_of_service_flows_change_for_modems_there_are() {
    let text = config(1, 4, false, "");
    let rated = text.replace("name = \"f0\"\n", "name = \"f0\"\nrate = \"5 Mbit/s\"\n");
    let mut world = World::new(&text, Cuts::Few);
    let own = FlowEntry { name: "f0".into(), rate: Some("1 Mbit/s".into()), ..FlowEntry::default() };
    world.control.change_flow("02:cb:00:00:00:02".parse().expect("an address"), &own).expect("it is there");
    reload(&mut world, &rated).expect("in order");
    let run = |world: &mut World| {
        let bytes = |world: &World| world.device.flows().iter().map(|flow| flow.bytes).collect::<Vec<_>>();
        let before = bytes(world);
        for _ in 0..2000 {
            world.down(16);
            world.step(100_000);
        }
        let now = bytes(world);
        [0, 4].map(|flow| (now[flow] - before.get(flow).copied().unwrap_or(0)) as f64 * 8.0 / 0.2)
    };
    run(&mut world);
    let [first, changed] = run(&mut world);
    assert!((4.5e6..5.5e6).contains(&first), "{first}");
    assert!((0.8e6..1.2e6).contains(&changed), "what was changed for it alone stays: {changed}");
    assert_eq!(world.device.heard().reordered, 0);
    let moved = text.replace("name = \"f0\"\n", "name = \"f9\"\n").replace("\"f0\"", "\"f9\"");
    assert_eq!(reload(&mut world, &moved).expect_err("another flow").path, ["profile", "0", "flow"]);
    world.rig.close().expect("nothing lost");
}
