//! What is wrong with the sections of translation, access lists and reassembly is told by key.

use upf::config::Config;

fn said(section: &str) -> Option<String> {
    let text = format!(
        r#"
        gateway = "upf"
        {section}
        [[port]]
        name = "n3"
        uri = "memory:n3"
        role = "access"
        addresses = ["10.0.3.1/24"]
        [[port]]
        name = "n6"
        uri = "memory:n6"
        role = "core"
        addresses = ["10.0.6.1/24"]"#
    );
    let config: Config = toml::from_str(&text).expect("a configuration");
    config.check().err().map(|error| error.to_string())
}

#[test]
fn mistakes_name_their_key() {
    let pool = |addresses: &str| format!("nat = {{ pool = [{{ addresses = \"{addresses}\" }}] }}");
    for good in [pool("203.0.113.0/28"), pool("203.0.113.1-203.0.113.9"), "reassembly = {}".into()] {
        assert_eq!(said(&good), None, "{good}");
    }
    for (section, key) in [
        ("nat = {}".to_owned(), "nat.pool: no public address"),
        (pool("203.0.113.9-203.0.113.1"), "nat.pool.0.addresses: \"203.0.113.9-203.0.113.1\" are no IPv4 addresses"),
        (pool("2001:db8::/64"), "nat.pool.0.addresses: \"2001:db8::/64\" are no IPv4 addresses"),
        (pool("10.0.6.128/28"), "nat.pool.0.addresses: 10.0.6.128/28 are on the link of port \"n6\""),
        (pool("203.0.113.1/32").replace("{ pool", "{ block_ports = 100, pool"), "nat.block_ports: "),
        (pool("203.0.113.1/32").replace("{ pool", "{ udp_seconds = 0, pool"), "nat.udp_seconds: "),
        (pool("203.0.113.1/32").replace("{ addresses", "{ instance = \"x\", addresses"), "nat.pool.0.instance: "),
        (
            r#"acl = [{ rules = ["permit ip from any to any", "deny it"] }]"#.into(),
            "acl.0.rules.1: \"deny it\" is not a rule",
        ),
        (r#"acl = [{}, { instance = "core" }]"#.into(), "acl.1.instance: a second list"),
        (r#"acl = [{ instance = "x" }]"#.into(), "acl.0.instance: no port is in"),
        ("reassembly = { seconds = 0 }".into(), "reassembly.seconds: "),
    ] {
        let said = said(&section).unwrap_or_default();
        assert!(said.starts_with(key), "{section}: {said}");
    }
}
