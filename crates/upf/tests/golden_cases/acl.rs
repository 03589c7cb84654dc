//! Access lists of network instances.

use super::*;

testkit::cases! { both_directions, default_is_deny, before_and_behind_translation, seventeen_rules }

/// A question for the root's address (RFC 1035, 4.1).
const QUESTION: [u8; 17] = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1];

fn both_directions() -> Case {
    let mail = |from: IpAddr, to: IpAddr| ip(from, to).tcp(40_000, 25);
    let name = |from: IpAddr, to: IpAddr| ip(from, to).udp(40_000, 53).payload(QUESTION);
    case("The first rule that matches decides, for IPv4 and IPv6 and for each direction.")
        .with(
            r#"acl = [{ rules = [
                "permit in tcp from any to 198.51.100.8 port 25",
                "deny in tcp from any to any port 25",
                "deny out udp from any to 10.0.0.0/8 port 53",
                "deny out udp from 2001:db8:5e::/48 to any port 53",
            ] }]"#,
        )
        .send("n3", &up(&mail(UE.into(), SERVER.into())))
        .send("n3", &up(&mail(UE_6.into(), SERVER_6.into())))
        .send("n3", &up(&mail(UE.into(), Ipv4Addr::new(198, 51, 100, 8).into())))
        .send("n3", &up(&name(UE.into(), SERVER.into())))
        .send("n6", &from_router(&name(SERVER.into(), UE.into())))
        .send("n6", &from_router(&name(SERVER_6.into(), UE_6.into())))
        .send("n6", &from_router(&response(UE)))
        .expect("n6", &to_router(&mail(UE.into(), Ipv4Addr::new(198, 51, 100, 8).into()).ttl(63)))
        .expect("n6", &to_router(&name(UE.into(), SERVER.into()).ttl(63)))
        .expect("n3", &down(&response(UE).ttl(63)))
        .drops("uplink.check_acl.acl_denied", 2)
        .drops("downlink.check_acl.acl_denied", 2)
        .counts("acl.0", 1)
        .counts("acl.1", 2)
        .counts("acl.4", 2)
}

fn default_is_deny() -> Case {
    case("What no rule matches is dropped where the list says so; other networks have no list.")
        .with(r#"acl = [{ instance = "core", default = "deny", rules = ["permit ip from 2001:db8::/32 to any"] }]"#)
        .send("n3", &up(&request(UE)))
        .send("n3", &up(&request(UE_6)))
        .expect("n6", &to_router(&request(UE_6).ttl(63)))
        .drops("uplink.check_acl.acl_denied", 1)
}

fn before_and_behind_translation() -> Case {
    case("Rules see subscribers' own addresses.")
        .with(r#"nat = { pool = [{ addresses = "203.0.113.1/32" }], first_port = 65472, block_ports = 64, mappings = 64, subscribers = 64, seed = 1 }"#)
        .with(r#"acl = [{ default = "deny", rules = ["permit in udp from 10.60.0.1 to any", "permit out udp from any to 10.60.0.1 port 40000"] }]"#)
        .send("n3", &up(&request(UE)))
        .expect("n6", &to_router(&ip4([203, 0, 113, 1], SERVER).ttl(63).udp(65_501, 50_000).filled(32)))
        .at(ms(1))
        .send("n6", &from_router(&ip4(SERVER, [203, 0, 113, 1]).udp(50_000, 65_501).filled(32)))
        .expect("n3", &down(&response(UE).ttl(63)))
}

fn seventeen_rules() -> Case {
    let rules: Vec<String> = (1..=17).map(|n| format!("\"deny in udp from any to any port {}\"", 49_983 + n)).collect();
    case("The last one of seventeen rules decides as the first one does.")
        .with(&format!("acl = [{{ rules = [{}] }}]", rules.join(", ")))
        .send("n3", &up(&request(UE)))
        .send("n3", &up(&ip4(UE, SERVER).udp(40_000, 50_001).filled(32)))
        .expect("n6", &to_router(&ip4(UE, SERVER).ttl(63).udp(40_000, 50_001).filled(32)))
        .drops("uplink.check_acl.acl_denied", 1)
        .counts("acl.16", 1)
        .counts("acl.17", 1)
}
