//! Tiers: rates, accounting, access lists, priorities, segments.

use super::*;

testkit::cases! { policed_up, policed_down, dual_stack_in_one_bucket, accounted_layer2, acl_denied, acl_of_location, acl_of_both,
acls_that_permit, priority_down, dscp_up, mss, shaped_down, shaped_by_class, shaped_queue_full, shaped_and_removed }

/// As a burst: so many packets of the maker.
fn burst(case: Case, port: &str, packet: &Packet, count: usize) -> Case {
    (0..count).fold(case, |case, _| case.send(port, packet))
}

fn expect(case: Case, port: &str, packet: &Packet, count: usize) -> Case {
    (0..count).fold(case, |case, _| case.expect(port, packet))
}

fn policed_up() -> Case {
    let packet = |ttl| ip4(SUB, SERVER).ttl(ttl).udp(1, 2).filled(972);
    let case = case("1,000-byte packets at once over a burst of 3,000: three pass; after 8 ms at 1 Mbit/s another.")
        .with(r#"profile = [ { name = "home", up = "1 Mbit/s", up_burst = 3000 } ]"#);
    let case = expect(burst(case, "acc", &from_sub(&packet(64)), 5), "core", &to_router(&packet(63)), 3);
    let case = burst(case.at(ms(8)), "acc", &from_sub(&packet(64)), 2);
    case.expect("core", &to_router(&packet(63)))
        .drops("upstream.meter.subscriber_rate", 3)
        .counts("subscriber.0.up.ipv4.packets", 4)
        .counts("subscriber.0.up.ipv4.bytes", 4000)
}

fn policed_down() -> Case {
    let packet = |ttl| ip4(SERVER, SUB).ttl(ttl).udp(1, 2).filled(972);
    let case = case("The same downstream; the other subscriber of the tier has a bucket of its own.")
        .with(r#"profile = [ { name = "home", down = "1 Mbit/s", down_burst = 3000 } ]"#);
    let case = expect(burst(case, "core", &from_router(&packet(64)), 5), "acc", &to_sub(&packet(63)), 3);
    case.send("core", &from_router(&down(NEXT, 64)))
        .expect("acc", &eth(GW_MAC, NEXT_MAC).service_vlan(100).vlan(2).carrying(&down(NEXT, 63)))
        .drops("downstream.meter.subscriber_rate", 2)
}

fn dual_stack_in_one_bucket() -> Case {
    let four = |ttl| ip4(SUB, SERVER).ttl(ttl).udp(1, 2).filled(972);
    let six = |ttl| ip6(SUB_6, SERVER_6).ttl(ttl).udp(1, 2).filled(952);
    case("IPv4 and IPv6 of a subscriber share its rate, and are counted apart.")
        .with(r#"profile = [ { name = "home", up = "1 Mbit/s", up_burst = 2000 } ]"#)
        .send("acc", &from_sub(&four(64)))
        .send("acc", &from_sub(&six(64)))
        .send("acc", &from_sub(&four(64)))
        .send("acc", &from_sub(&six(64)))
        .expect("core", &to_router(&four(63)))
        .expect("core", &to_router(&six(63)))
        .drops("upstream.meter.subscriber_rate", 2)
        .counts("subscriber.0.up.ipv4.bytes", 1000)
        .counts("subscriber.0.up.ipv6.bytes", 1000)
}

fn accounted_layer2() -> Case {
    case("A tier accounted at layer 2: 22 bytes of link header besides.")
        .with(r#"profile = [ { name = "home", accounted = "l2" } ]"#)
        .send("acc", &from_sub(&up(SUB, 64)))
        .expect("core", &to_router(&up(SUB, 63)))
        .send("core", &from_router(&down(SUB, 64)))
        .expect("acc", &to_sub(&down(SUB, 63)))
        .counts("subscriber.0.up.ipv4.bytes", 59)
        .counts("subscriber.0.down.ipv4.bytes", 59)
}

fn acl_denied() -> Case {
    let mail = |ttl| ip4(SUB, SERVER).ttl(ttl).tcp(40_000, 25).payload(b"spam");
    let telnet = ip4(SERVER, SUB).tcp(40_000, 23);
    case("The profile's access list denies a port in each direction; others pass.")
        .with(
            r#"
            profile = [ { name = "home", acl = "home" } ]
            [[acl]]
            name = "home"
            rules = ["deny in tcp from any to any port 25", "deny out tcp from any to any port 23"]
            "#,
        )
        .send("acc", &from_sub(&mail(64)))
        .send("acc", &from_sub(&up(SUB, 64)))
        .send("core", &from_router(&telnet))
        .send("core", &from_router(&down(SUB, 64)))
        .expect("core", &to_router(&up(SUB, 63)))
        .expect("acc", &to_sub(&down(SUB, 63)))
        .drops("upstream.check_acl.acl_denied", 1)
        .drops("downstream.check_acl.acl_denied", 1)
        .counts("subscriber.0.up.ipv4.packets", 1)
}

fn acl_of_location() -> Case {
    let groups = BASE.replacen("[[group]]\n", "[[group]]\nacl = \"site\"\n", 1);
    let groups: toml::Table = groups.parse().unwrap();
    let group = toml::Table::from_iter([("group".to_owned(), groups["group"].clone())]);
    case("The access location's list holds for its group alone, beside the profile's.")
        .with(&toml::to_string(&group).unwrap())
        .with(
            r#"
            [[acl]]
            name = "site"
            rules = ["permit ip from 198.51.100.0/24 to any", "permit in ip from any to 198.51.100.0/24"]
            default = "deny"
            "#,
        )
        .send("acc", &from_sub(&up(SUB, 64)))
        .send("acc", &eth(SUB_MAC, ACC_MAC).carrying(&up(Ipv4Addr::new(100, 67, 0, 10), 64)))
        .expect("core", &to_router(&up(Ipv4Addr::new(100, 67, 0, 10), 63)))
        .drops("upstream.check_acl.acl_denied", 1)
}

/// The base configuration with access list `site` at the first group and `home` at the profile.
fn both(text: &str, lists: &str) -> Case {
    let groups = BASE.replacen("[[group]]\n", "[[group]]\nacl = \"site\"\n", 1);
    let groups: toml::Table = groups.parse().unwrap();
    let group = toml::Table::from_iter([("group".to_owned(), groups["group"].clone())]);
    let profile = r#"profile = [ { name = "home", acl = "home" } ]"#;
    case(text).with(&toml::to_string(&group).unwrap()).with(profile).with(lists)
}

fn tcp(to: u16, ttl: u8) -> Packet {
    ip4(SUB, SERVER).ttl(ttl).tcp(40_000, to).payload(b"?")
}

fn acl_of_both() -> Case {
    let lists = r#"
        [[acl]]
        name = "home"
        rules = ["deny in tcp from any to any port 25"]
        [[acl]]
        name = "site"
        rules = ["permit in tcp from any to any port 1-1023"]
        default = "deny"
    "#;
    both("The profile's list denies what the location's permits, and the other way round: both must permit.", lists)
        .send("acc", &from_sub(&tcp(25, 64)))
        .send("acc", &from_sub(&tcp(80, 64)))
        .send("acc", &from_sub(&tcp(8080, 64)))
        .expect("core", &to_router(&tcp(80, 63)))
        .drops("upstream.check_acl.acl_denied", 2)
}

fn acls_that_permit() -> Case {
    let lists = r#"
        [[acl]]
        name = "home"
        rules = ["permit in tcp from any to any port 80-90"]
        default = "deny"
        [[acl]]
        name = "site"
        rules = ["permit in tcp from any to any port 85-95"]
        default = "deny"
    "#;
    both("Two lists that permit: what both do passes.", lists)
        .send("acc", &from_sub(&tcp(80, 64)))
        .send("acc", &from_sub(&tcp(87, 64)))
        .send("acc", &from_sub(&tcp(95, 64)))
        .expect("core", &to_router(&tcp(87, 63)))
        .drops("upstream.check_acl.acl_denied", 2)
}

fn priority_down() -> Case {
    let voice = |ttl| ip4(SERVER, SUB).ttl(ttl).tos(46 << 2).udp(1, 2).payload(b"voice");
    case("EF (DSCP 46) goes out with priority 5 in both tags.")
        .send("core", &from_router(&voice(64)))
        .expect("acc", &to_sub(&voice(63)).poke(14, [0xa0]).poke(18, [0xa0]))
}

fn dscp_up() -> Case {
    let packet = |ttl, tos| ip4(SUB, SERVER).ttl(ttl).tos(tos).udp(1, 2).payload(b"voice");
    case(
        "Priority 5 of the outer tag becomes EF in the core; priority 0 becomes best effort, whatever the packet says.",
    )
    .with(r#"profile = [ { name = "home", dscp = [0, 8, 16, 24, 32, 46, 48, 56] } ]"#)
    .send("acc", &from_sub(&packet(64, 0)).poke(14, [0xa0]))
    .send("acc", &from_sub(&packet(64, 0xb8)))
    .expect("core", &to_router(&packet(63, 46 << 2)))
    .expect("core", &to_router(&packet(63, 0)))
}

fn mss() -> Case {
    let ports = BASE.replacen("[[port]]\n", "[[port]]\nmss = 1400\n", 1);
    let ports: toml::Table = ports.parse().unwrap();
    let port = toml::Table::from_iter([("port".to_owned(), ports["port"].clone())]);
    let syn = |ttl, mss| ip4(SUB, SERVER).ttl(ttl).tcp(40_000, 80).flags(2).mss(mss);
    let back = |ttl, mss| ip4(SERVER, SUB).ttl(ttl).tcp(80, 40_000).flags(0x12).mss(mss);
    case("The largest segment is lowered in both directions.")
        .with(&toml::to_string(&port).unwrap())
        .send("acc", &from_sub(&syn(64, 1460)))
        .expect("core", &to_router(&syn(63, 1400)))
        .send("core", &from_router(&back(64, 1460)))
        .expect("acc", &to_sub(&back(63, 1400)))
}

/// A tier of 1 Mbit/s whose packets wait, with best effort and voice.
const SHAPED: &str = r#"
    [[profile]]
    name = "home"
    down = "1 Mbit/s"
    shape = { class = [ { name = "voice", dscp = [46] }, { name = "rest", weight = 1, buffer = 20000 } ] }
"#;

fn shaped_down() -> Case {
    let packet = |ttl| ip4(SERVER, SUB).ttl(ttl).udp(1, 2).filled(972);
    let case = case(
        "1,000-byte packets at once to a shaped subscriber: four spend its burst of 3,044, the others wait 8 ms each.",
    )
    .with(SHAPED);
    let case = expect(burst(case, "core", &from_router(&packet(64)), 6), "acc", &to_sub(&packet(63)), 4);
    let case = case.at(ms(8)).expect("acc", &to_sub(&packet(63)));
    let case = case.at(ms(15)).at(ms(16)).expect("acc", &to_sub(&packet(63)));
    case.punts("queued", 6).counts("subscriber.0.down.ipv4.packets", 6).counts("subscriber.0.down.ipv4.bytes", 6000)
}

fn shaped_by_class() -> Case {
    let packet = |ttl| ip4(SERVER, SUB).ttl(ttl).udp(1, 2).filled(972);
    let voice = |ttl| ip4(SERVER, SUB).ttl(ttl).tos(46 << 2).udp(1, 2).payload(b"voice");
    let six = |ttl| ip6(SERVER_6, SUB_6).ttl(ttl).udp(1, 2).filled(952);
    let case =
        case("Voice waits behind no packet of a shaped subscriber; IPv6 is counted apart when it leaves.").with(SHAPED);
    let case = expect(burst(case, "core", &from_router(&packet(64)), 5), "acc", &to_sub(&packet(63)), 4);
    case.send("core", &from_router(&six(64)))
        .at(ms(2))
        .send("core", &from_router(&voice(64)))
        .at(ms(8))
        .expect("acc", &to_sub(&voice(63)).poke(14, [0xa0]).poke(18, [0xa0]))
        .expect("acc", &to_sub(&packet(63)))
        .at(ms(16))
        .expect("acc", &to_sub(&six(63)))
        .punts("queued", 7)
        .counts("subscriber.0.down.ipv6.bytes", 1000)
        .counts("subscriber.0.down.ipv4.packets", 6)
}

fn shaped_queue_full() -> Case {
    let packet = |ttl| ip4(SERVER, SUB).ttl(ttl).udp(1, 2).filled(972);
    let case = case("A class's queue of 5,000 bytes holds four frames; another subscriber's packets pass.")
        .with(&SHAPED.replace("20000", "5000"));
    let case = expect(burst(case, "core", &from_router(&packet(64)), 10), "acc", &to_sub(&packet(63)), 4);
    case.at(ms(1))
        .send("core", &from_router(&down(NEXT, 64)))
        .expect("acc", &eth(GW_MAC, NEXT_MAC).service_vlan(100).vlan(2).carrying(&down(NEXT, 63)))
        .drops("downstream.shape.flow_queue_full", 6)
        .punts("queued", 5)
        .counts("subscriber.0.down.ipv4.packets", 4)
}

fn shaped_and_removed() -> Case {
    let packet = |ttl| ip4(SERVER, SUB).ttl(ttl).udp(1, 2).filled(972);
    let case = case("A subscriber goes while packets wait for it: they are dropped by name.").with(SHAPED);
    let case = expect(burst(case, "core", &from_router(&packet(64)), 6), "acc", &to_sub(&packet(63)), 4);
    case.at(ms(1)).step(r#"do = "remove", handle = 0"#).at(ms(100)).punts("queued", 6).drops("worker.flow_gone", 2)
}
