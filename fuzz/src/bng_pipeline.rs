//! A whole broadband gateway under a script of bytes: subscribers and the core send, packets are changed on the way, some
//! are nothing but bytes behind tags, subscribers come and go. `crates/bng/tests/garbage.rs` includes this file.

use testkit::golden::Subject as _;
use testkit::packet::{Packet, eth};

use super::device::Device;
use super::golden_cases as cases;

/// A tier whose packets wait, and are dropped when they have waited long.
const SHAPED: &str = r#"{ name = "home", down = "300 kbit/s", shape = { minimum = "50 kbit/s", urgent = "10 kbit/s", class = [
    { name = "voice", dscp = [46] }, { name = "rest", weight = 1, buffer = 9000, target_us = 1000 } ] } }"#;

/// What a script says, a few bytes at a time; zeros when it is over.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, n: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % n.max(1)
    }
}

/// Changes a packet: bytes, length, or nothing but its end.
fn spoil(packet: &mut Vec<u8>, script: &mut Script<'_>) {
    for _ in 0..script.below(4) {
        let at = script.below(packet.len().min(80));
        if let Some(byte) = packet.get_mut(at) {
            *byte ^= script.byte();
        }
    }
    match script.byte() {
        0..30 => packet.truncate(script.below(packet.len() + 1)),
        30..40 => packet.extend(std::iter::repeat_n(script.byte(), script.below(200))),
        _ => {}
    }
    packet.truncate(1700);
}

/// A packet that is right, or nearly.
fn plausible(script: &mut Script<'_>) -> (&'static str, Packet) {
    let ttl = script.byte() % 4;
    let len = script.below(1500);
    let acc = |packet: &Packet| ("acc", cases::from_sub(packet));
    match script.byte() % 12 {
        0 => acc(&cases::up(cases::SUB, ttl)),
        1 => acc(&cases::up6(cases::SUB_PD, ttl)),
        2 => acc(&cases::ip4(cases::SUB, cases::NEXT).ttl(ttl).may_fragment().udp(1, 2).filled(len)),
        3 => acc(&cases::ip4(cases::SUB, cases::GATEWAY).ping(1, 2)),
        4 => (
            "acc",
            eth(cases::SUB_MAC, [0xff; 6]).service_vlan(100).vlan(1).arp_request(
                cases::SUB_MAC,
                cases::SUB,
                cases::GATEWAY,
            ),
        ),
        5 => {
            acc(&cases::ip6(cases::SUB_LOCAL, cases::GATEWAY_6)
                .solicit(cases::GATEWAY_6, Some(cases::Mac(cases::SUB_MAC))))
        }
        6 => acc(&cases::ip4(cases::SUB, cases::GATEWAY).udp(68, 67).filled(len % 300)),
        7 => (
            "hyb",
            eth(cases::SUB_MAC, cases::HYBRID_MAC)
                .service_vlan(500)
                .vlan(1)
                .carrying(&cases::up([100, 68, 0, 10].into(), ttl)),
        ),
        8 => (
            "hyb",
            eth(cases::ROUTER_MAC, cases::HYBRID_MAC).vlan(10).carrying(&cases::down([100, 68, 0, 10].into(), ttl)),
        ),
        9 => (
            "core",
            cases::from_router(&cases::ip4(cases::SERVER, cases::SUB).ttl(ttl).may_fragment().udp(1, 2).filled(len)),
        ),
        10 => ("core", cases::from_router(&cases::down6(cases::SUB_6, ttl))),
        _ => ("core", cases::from_router(&cases::ip4(cases::SERVER, cases::CORE).ping(3, 4))),
    }
}

/// Runs the script; panics where a promise is broken.
pub fn bng_pipeline(bytes: &[u8]) {
    let mut script = Script(bytes);
    let choice = script.byte();
    let narrow = if choice & 1 == 0 { "" } else { "mtu = 600\n" };
    let config = cases::BASE.replacen("[[group]]\n", &format!("[[group]]\n{narrow}"), 1);
    let config = if choice & 2 == 0 { config } else { config.replace(r#"{ name = "home" }"#, SHAPED) };
    let mut device = Device::start(&config.parse().expect("TOML")).expect("it starts");
    let mut now = 0;
    while !script.0.is_empty() {
        match script.byte() {
            0..150 => {
                let (port, packet) = plausible(&mut script);
                let mut packet = packet.build();
                if script.byte() < 128 {
                    spoil(&mut packet, &mut script);
                }
                device.send(port, &packet);
            }
            150..190 => {
                let mut packet: Vec<u8> = (0..script.below(120)).map(|_| script.byte()).collect();
                if script.byte() < 200 {
                    let head =
                        eth(cases::SUB_MAC, cases::GW_MAC).service_vlan(100).vlan(1).payload([]).poke(20, [8, 0]);
                    packet.splice(0..0, head.build());
                }
                spoil(&mut packet, &mut script);
                device.send(["acc", "core", "hyb"][script.below(3)], &packet);
            }
            190..230 => {
                now += script.below(1 << 16) as u64 * 400;
                device.turn_to(now);
                device.settle();
            }
            230..245 => {
                let (handle, c_vlan) = (script.byte() % 12, script.byte() % 12);
                let step = format!(
                    r#"do = "install", handle = {handle}, c_vlan = {c_vlan}, ipv4 = "100.64.0.{}""#,
                    script.byte()
                );
                let _ = device.step(&table(&step));
            }
            _ => {
                let _ = device.step(&table(&format!(r#"do = "remove", handle = {}"#, script.byte() % 12)));
            }
        }
    }
    device.settle();
    let missing: Vec<_> = device.rig.all_stats().map(|stats| stats.missing()).collect();
    assert_eq!(missing, [0], "packets went in that neither came out nor were named");
    device.close().expect("every packet buffer came back");
}

fn table(step: &str) -> toml::Table {
    let table: toml::Table = format!("step = {{ {step} }}").parse().expect("TOML");
    table["step"].as_table().cloned().expect("a table")
}
