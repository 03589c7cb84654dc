//! Promises that hold whatever comes: packets are conserved, counters agree, groups stay on their workers.

use std::net::Ipv4Addr;

use testkit::golden::Subject as _;

use crate::device::Device;
use crate::golden_cases::{self as cases, BASE};

fn device(change: &str) -> Device {
    let config: toml::Table = format!("{change}\n{BASE}").parse().expect("TOML");
    Device::start(&config).expect("it starts")
}

#[test]
fn packets_are_conserved_and_counted() {
    let mut device = device("");
    for n in 0..200u8 {
        let to = Ipv4Addr::new(100, 64, 0, 10 + n % 4);
        device.send("core", &cases::from_router(&cases::down(to, n % 4)).build());
        device.send("acc", &cases::from_sub(&cases::up(cases::SUB, n % 3)).build());
        device.send("acc", &cases::from_sub(&cases::up(Ipv4Addr::new(100, 64, 0, 10 + n % 2), 9)).build());
        device.settle();
    }
    let counters = device.counters();
    let got = |name: &str| counters.gateway.get(name).copied().unwrap_or(0);
    let up = device.received("core").len() as u64;
    assert!(up > 0 && got("subscriber.0.up.ipv4.packets") > 0);
    let stats: Vec<_> = device.rig.all_stats().map(|stats| stats.missing()).collect();
    assert_eq!(stats, [0]);
    device.close().expect("every packet buffer came back");
}

#[test]
fn record_is_three_lines_for_many() {
    let pon = r#"
        [[subscriber]]
        group = "big"
        count = 4000
        ipv4 = "100.80.0.0"
        ipv6_wan = "2001:db8:8000::"
        ipv6_pd = "2001:db9::/56"
        [[group]]
        name = "big"
        ports = ["acc"]
        s_vlans = "1000-1001"
        c_vlans = "1-4000"
        ipv4 = ["100.80.0.0/16"]
        ipv6_wan = ["2001:db8:8000::/48"]
        ipv6_pd = [ { prefix = "2001:db9::/36", length = 56 } ]
        gateways = ["100.80.255.1"]
        profile = "home"
    "#;
    let config: toml::Table = format!("{BASE}\n{pon}").parse().expect("TOML");
    let device = Device::start(&config).expect("it starts");
    let subscribers = &device.rig.workers().next().expect("a worker").gateway().state().subscribers;
    assert_eq!(subscribers.count(), 4007);
    for n in [0u32, 1, 65, 3999] {
        let v4 = subscribers.of_address(0, Ipv4Addr::from(0x6450_0000 + n).into()).expect("by IPv4");
        let upper = (0x2001_0db8_8000_0000u64 + u64::from(n)) as u128;
        let wan = subscribers.of_address(0, std::net::Ipv6Addr::from(upper << 64 | 5).into()).expect("by WAN prefix");
        let upper = (0x2001_0db9_0000_0000u64 + (u64::from(n) << 8) + 0x7f) as u128;
        let pd =
            subscribers.of_address(0, std::net::Ipv6Addr::from(upper << 64 | 5).into()).expect("by delegated prefix");
        assert!(v4 == wan && wan == pd);
        assert_eq!(subscribers.head(v4).map(|head| head.handle), Some(n + 7));
    }
    device.close().expect("nothing lost");
}
