//! Shaped subscribers over a whole gateway in virtual time: rates at the stated layer, tiers that change, nothing lost.

use std::net::Ipv4Addr;

use bng::record::SubscriberSpec;
use testkit::golden::Subject as _;
use testkit::packet::Packet;

use crate::device::Device;
use crate::golden_cases::{self as cases, BASE, ms};

const TIERS: &str = r#"
    [[profile]]
    name = "home"
    down = "20 Mbit/s"
    accounted = "l2"
    shape = {}

    [[profile]]
    name = "fast"
    down = "60 Mbit/s"
    accounted = "l2"
    shape = { weight = 3 }

    [[profile]]
    name = "policed"
    down = "5 Mbit/s"
"#;

fn device(change: impl FnOnce(&mut toml::Table)) -> Device {
    let mut config: toml::Table = BASE.parse().expect("TOML");
    let tiers: toml::Table = TIERS.parse().expect("TOML");
    config["profile"] = tiers["profile"].clone();
    config["frames"]["slots"] = 8192.into();
    let pon = config["group"][0].as_table_mut().expect("a table");
    pon.insert("s_vlan_rate".into(), "50 Mbit/s".into());
    pon.insert("overhead".into(), 4.into());
    change(&mut config);
    Device::start(&config).expect("it starts")
}

/// Offers each subscriber packets of its size every millisecond, so many bits a second, for a time; returns the bytes that
/// each received, with tags and FCS.
fn offer(device: &mut Device, from_ms: u64, for_ms: u64, flows: &[(Ipv4Addr, usize, u64)]) -> Vec<u64> {
    let mut owed = vec![0u64; flows.len()];
    let mut bytes = vec![0u64; flows.len()];
    for now in from_ms..from_ms + for_ms {
        device.turn_to(ms(now));
        for ((to, size, bps), owed) in flows.iter().zip(&mut owed) {
            *owed += bps / 8000;
            while *owed >= *size as u64 {
                *owed -= *size as u64;
                let packet: Packet = cases::ip4(cases::SERVER, *to).ttl(64).udp(1, 2).filled(size - 28);
                device.send("core", &cases::from_router(&packet).build());
            }
        }
        device.settle();
        for frame in device.received("acc") {
            let to = Ipv4Addr::new(frame[38], frame[39], frame[40], frame[41]);
            let at = flows.iter().position(|flow| flow.0 == to).expect("a subscriber's");
            bytes[at] += frame.len() as u64 + 4;
        }
    }
    bytes
}

/// Bytes and packets that the first subscriber has received over IPv4.
fn usage(device: &Device) -> (u64, u64) {
    let gateway = device.rig.workers().next().expect("a worker").gateway();
    let usage = gateway.state().subscribers.usage(0).expect("the first subscriber");
    (usage.down_bytes[0], usage.down_packets[0])
}

fn near(bytes: u64, ms: u64, bps: f64) -> bool {
    let got = bytes as f64 * 8000.0 / ms as f64;
    (got / bps - 1.0).abs() <= 0.01
}

#[test]
fn rates_hold_at_the_stated_layer() {
    let mut device = device(|_| ());
    let flows = [(cases::SUB, 1478, 40_000_000), (cases::NEXT, 300, 10_000_000)];
    let bytes = offer(&mut device, 1, 3000, &flows);
    // The second is below its rate: all of it, with 26 bytes around each packet.
    assert!(near(bytes[0], 3000, 20e6) && near(bytes[1], 3000, 10e6 * 326.0 / 300.0), "{bytes:?}");
    // Usage is of layer 2, too: 22 bytes of link header with each packet, without FCS.
    let (used, packets) = usage(&device);
    assert_eq!((used, packets * (1478 + 26)), (packets * (1478 + 22), bytes[0]));
    let missing: Vec<_> = device.rig.all_stats().map(|stats| stats.missing()).collect();
    assert_eq!(missing, [0]);
    device.close().expect("nothing lost");
}

#[test]
fn outer_vlan_is_shared_by_weight() {
    let mut device = device(|config| {
        let mut third = config["subscriber"].as_array().expect("subscribers")[0].clone();
        let third = third.as_table_mut().expect("a table");
        third.insert("count".into(), 1.into());
        for (key, value) in [("mac", "02:ca:00:00:00:03"), ("ipv4", "100.64.0.12"), ("ipv6_wan", "2001:db8:100:2::")] {
            third.insert(key.into(), value.into());
        }
        third.insert("ipv6_pd".into(), "2001:db8:4000:200::/56".into());
        third.insert("c_vlan".into(), 3.into());
        third.insert("profile".into(), "fast".into());
        let third = toml::Value::Table(third.clone());
        config["subscriber"].as_array_mut().expect("subscribers").push(third);
    });
    let rate = 60_000_000;
    let flows = [(cases::SUB, 1478, rate), (cases::NEXT, 700, rate), (Ipv4Addr::new(100, 64, 0, 12), 1478, rate)];
    offer(&mut device, 1, 1000, &flows);
    let bytes = offer(&mut device, 1001, 2000, &flows);
    // 50 Mbit/s by weights 1, 1 and 3.
    assert!(near(bytes[0], 2000, 10e6) && near(bytes[1], 2000, 10e6) && near(bytes[2], 2000, 30e6), "{bytes:?}");
    device.close().expect("nothing lost");
}

#[test]
fn tier_changes_while_packets_wait() {
    let mut device = device(|_| ());
    let spec = *device.control.subscribers().next().expect("the first");
    let flows = [(cases::SUB, 1478, 70_000_000)];
    let bytes = offer(&mut device, 1, 1000, &flows);
    assert!(near(bytes[0], 1000, 20e6), "{bytes:?}");
    device.control.install(SubscriberSpec { profile: 1, ..spec }).expect("a tier");
    device.settle();
    offer(&mut device, 1001, 500, &flows);
    let bytes = offer(&mut device, 1501, 1000, &flows);
    // The outer VLAN's rate, which is below the tier's.
    assert!(near(bytes[0], 1000, 50e6), "{bytes:?}");
    device.control.install(spec).expect("a tier");
    device.settle();
    let bytes = offer(&mut device, 2501, 1000, &flows);
    assert!(near(bytes[0], 1000, 20e6), "{bytes:?}");
    // A tier that is policed: what waits is dropped by name, nothing waits any more.
    device.control.install(SubscriberSpec { profile: 2, ..spec }).expect("a tier");
    device.settle();
    assert_eq!(device.counters().gateway.get("held").copied().unwrap_or(0), 0);
    let missing: Vec<_> = device.rig.all_stats().map(|stats| stats.missing()).collect();
    assert_eq!(missing, [0]);
    device.close().expect("nothing lost");
}

#[test]
fn workers_share_the_rate_of_a_port() {
    let mut device = device(|config| {
        config["port"][0].as_table_mut().expect("a table").insert("rate".into(), "30 Mbit/s".into());
        config.insert("workers".into(), toml::Value::Table(toml::Table::from_iter([("count".into(), 2.into())])));
        config["group"][0].as_table_mut().expect("a table").remove("s_vlan_rate");
    });
    // The first group is on one worker, the second, of shared lines, on the other.
    let flows = [(cases::SUB, 1476, 40_000_000), (Ipv4Addr::new(100, 65, 0, 10), 1476, 40_000_000)];
    offer(&mut device, 1, 1000, &flows);
    let bytes = offer(&mut device, 1001, 2000, &flows);
    // The port counts preamble and gap, too: 20 bytes of 1,522.
    let whole = (bytes[0] + bytes[1]) as f64 * 8000.0 / 2000.0 * 1522.0 / 1502.0;
    assert!((whole / 30e6 - 1.0).abs() < 0.02, "{bytes:?}: {whole}");
    assert!((bytes[0] as f64 / bytes[1] as f64 - 1.0).abs() < 0.03, "{bytes:?}");
    device.close().expect("nothing lost");
}
