//! Users' fragments put together.

use super::*;

testkit::cases! { through_a_filter_with_ports, through_translation, given_up_after_a_while }

const FILTERED: &str = r#"
reassembly = { seconds = 1 }
simulate.bearer = [{ qfi = 9, filters = ["permit out 17 from 198.51.100.7 50000 to assigned"] }]"#;

fn pieces(whole: &Packet, from: Ipv4Addr, to: Ipv4Addr) -> [Packet; 2] {
    let part = |offset, len, more| piece(whole, ip4(from, to).ident(77), offset, len, more);
    [part(0, 104, true), part(104, 88, false)]
}

/// As it is when it was put together.
fn joined(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16)) -> Packet {
    ip4(from, to).ttl(63).ident(77).may_fragment().udp(ports.0, ports.1).filled(184)
}

fn through_a_filter_with_ports() -> Case {
    let [first, later] = pieces(&ip4(UE, SERVER).udp(40_000, 50_000).filled(184), UE, SERVER);
    let [first_down, later_down] = pieces(&ip4(SERVER, UE).udp(50_000, 40_000).filled(184), SERVER, UE);
    case("A filter with ports sees the whole packet, whatever fragment came first, in both directions.")
        .with(FILTERED)
        .send("n3", &up(&later))
        .send("n3", &up(&first))
        .send("n6", &from_router(&first_down))
        .send("n6", &from_router(&later_down))
        .expect("n6", &to_router(&joined(UE, SERVER, (40_000, 50_000))))
        .expect("n3", &down(&joined(SERVER, UE, (50_000, 40_000))))
        .punts("reassemble", 4)
}

fn through_translation() -> Case {
    let [first, later] = pieces(&ip4(UE, SERVER).udp(40_000, 50_000).filled(184), UE, SERVER);
    let public = Ipv4Addr::new(203, 0, 113, 1);
    let [first_down, later_down] = pieces(&ip4(SERVER, public).udp(50_000, 65_501).filled(184), SERVER, public);
    case("Translation sees whole packets, so that a fragment may come before the first.")
        .with(FILTERED)
        .with(r#"nat = { pool = [{ addresses = "203.0.113.1/32" }], first_port = 65472, block_ports = 64, mappings = 64, subscribers = 64, seed = 1 }"#)
        .send("n3", &up(&first))
        .send("n3", &up(&later))
        .expect("n6", &to_router(&joined(public, SERVER, (65_501, 50_000))))
        .at(ms(1))
        .send("n6", &from_router(&later_down))
        .send("n6", &from_router(&first_down))
        .expect("n3", &down(&joined(SERVER, UE, (50_000, 40_000))))
        .punts("reassemble", 4)
}

fn given_up_after_a_while() -> Case {
    let [first, _] = pieces(&ip4(UE, SERVER).udp(40_000, 50_000).filled(184), UE, SERVER);
    case("Who waits for a fragment that does not come is given up, by name.")
        .with(FILTERED)
        .send("n3", &up(&first))
        .at(secs(2))
        .punts("reassemble", 1)
        .drops("worker.reassembly_timeout", 1)
}
