//! What an operator may get wrong, and what he is told.

use bng::config::Config;

use crate::golden_cases::BASE;

fn checked(text: &str) -> Result<(), String> {
    let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
    config.check().map_err(|error| error.to_string())
}

#[test]
fn base_configuration_is_ok() {
    checked(BASE).unwrap();
}

#[test]
fn every_mistake_names_its_key() {
    for (from, to, error) in [
        ("gateway = \"bng\"", "gateway = \"upf\"", "gateway: no gateway is called \"upf\""),
        ("ports = [\"acc\"]", "ports = []", "group.0.ports: no port"),
        ("ports = [\"acc\"]", "ports = [\"core\"]", "group.0.ports.0: port \"core\" has role core"),
        ("ports = [\"acc\"]", "ports = [\"nix\"]", "group.0.ports.0: no port is called \"nix\"; one of acc, core, hyb"),
        ("s_vlans = \"100-101\"", "s_vlans = \"100-4095\"", "group.0.s_vlans: \"100-4095\" is no range of VLANs"),
        ("s_vlans = 200", "s_vlans = \"101-200\"", "group.1.s_vlans: outer VLANs of group \"pon\" on the same port"),
        ("s_vlans = 500", "s_vlans = \"5-20\"", "group.4.s_vlans: frames of the core side of port \"hyb\""),
        ("ipv4 = [\"100.65.0.0/24\"]", "ipv4 = [\"100.64.0.128/25\"]", "group.1.ipv4: addresses of group \"pon\""),
        ("mac = \"02:00:5e:00:00:01\"", "mac = \"03:00:5e:00:00:01\"", "group.0.mac: \"03:00:5e:00:00:01\""),
        ("length = 56", "length = 40", "group.0.ipv6_pd.0: prefixes of length 40"),
        ("profile = \"home\"", "profile = \"gold\"", "group.0.profile: no profile is called \"gold\"; one of home"),
        (
            "name = \"home\"",
            "name = \"home\", up = \"fast\"",
            "profile.0.up: \"fast\" is not a rate; such as 50 Mbit/s",
        ),
        ("name = \"home\"", "name = \"home\", acl = \"x\"", "profile.0.acl: no acl is called \"x\""),
        (
            "name = \"home\"",
            "name = \"home\", garden = { portal = \"portal.example\" }",
            "profile.0.garden.portal: \"portal.example\" is no address of a web page",
        ),
        (
            "name = \"home\"",
            "name = \"home\", garden = { portal = \"http://a/\", allow = [\"192.0.2.1/32\", \"portal\"] }",
            "profile.0.garden.allow.1: \"portal\" is no prefix",
        ),
        ("name = \"home\"", "name = \"home\", up = \"1 Mbit/s\", up_burst = 9", "profile.0.up_burst: 9 bytes"),
        ("count = 2\nmac", "count = 21\nmac", "subscriber.0.count: subscriber 20 of 21 is beyond the group's VLANs"),
        ("tpid = \"0x8100\"", "tpid = \"0x9999\"", "group.2.tpid: \"0x9999\" is not the type of a VLAN tag"),
        ("gateways = [\"100.66.0.1\"]", "gateways = []", "group.2.gateways: subscribers would have no default router"),
        ("role = \"access\"", "role = \"access\"\nvlan = 3", "port.0.vlan"),
        (
            "role = \"access\"",
            "role = \"access\"\nhost_interface = \"core0\"",
            "port.0.host_interface: port \"acc\" has no link layer, or no addresses of its own",
        ),
        (
            "role = \"core\"",
            "role = \"core\"\nhost_interface = \"a/b/c\"",
            "port.1.host_interface: \"a/b/c\" is no interface",
        ),
        (
            "role = \"core\"",
            "role = \"core\"\nhost_interface = \"sixteen-letters-\"",
            "port.1.host_interface: \"sixteen-letters-\" is no interface",
        ),
        (
            "role = \"core\"",
            "role = \"core\"\nhost_packets_per_second = 100",
            "port.1.host_packets_per_second: the port has no host_interface",
        ),
        (
            "role = \"core\"",
            "role = \"core\"\nhost_interface = \"core0\"\nhost_packets_per_second = 10000001",
            "port.1.host_packets_per_second: 10000001 is too many",
        ),
        ("ipv4 = \"100.66.0.10\"", "ipv4 = \"100.66.0.1\"", "subscriber.2.ipv4: 100.66.0.1 is the gateway's own"),
        ("ipv4 = \"100.66.0.10\"", "ipv4 = \"100.64.0.99\"", "subscriber.2.ipv4: 100.64.0.99 is in a slice of another"),
        (
            "ipv6_pd = \"2001:db8:4000::/56\"",
            "ipv6_pd = \"2001:db8:4000::/60\"",
            "subscriber.0.ipv6_pd: a /60 does not fit",
        ),
        (
            "ipv6_wan = \"2001:db8:100::\"",
            "ipv6_wan = \"2001:db8:4000:100::\"",
            "subscriber.0.ipv6_wan: a /64 does not fit",
        ),
        ("ipv4 = \"100.66.0.10\"", "ipv4 = \"198.18.0.1\"", "subscriber.2.ipv4: 198.18.0.1 is the gateway's own"),
        (
            "gateways = [\"100.68.0.1\"]",
            "gateways = [\"100.66.0.10\"]",
            "subscriber.2.ipv4: 100.66.0.10 is the gateway's own",
        ),
        (
            "gateways = [\"100.64.0.1\", \"fe80::1\"]",
            "gateways = [\"100.64.0.1\", \"2001:db8:100::1\"]",
            "subscriber.0.ipv6_wan: the gateway's own 2001:db8:100::1 is in the prefix",
        ),
        ("name = \"pon\"", "name = \"pon\"\nworker = 1", "group.0.worker: there is no worker 1; 0 to 0"),
    ] {
        assert!(BASE.contains(from), "{from}");
        let got = checked(&BASE.replacen(from, to, 1)).expect_err(to);
        assert!(got.starts_with(error), "{to}:\n got    {got}\n wanted {error}");
    }
}

/// The base configuration whose first group relays, with more keys of its sessions and of `relay`.
fn relayed(sessions: &str, relay: &str) -> String {
    let tables =
        format!("[group.sessions]\n{sessions}\n[group.sessions.relay]\n{relay}\n\n[[group]]\nname = \"shared\"");
    BASE.replacen("[[group]]\nname = \"shared\"", &tables, 1)
}

#[test]
fn relay_of_both_families_is_ok() {
    let servers = "servers = [\"198.18.0.10\", \"198.18.0.11\", \"fd00:18::10\"]\norder = \"first\"";
    checked(&relayed("trust_option82 = true", servers)).unwrap();
    checked(&relayed("", "servers = [\"198.18.0.10\"]\ngiaddr = \"198.18.0.1\"\nuntrusted_option82 = \"replace\""))
        .unwrap();
    let own = "lease_seconds = 600\nipv4_prefix_length = 24\ndns = [\"192.0.2.1\"]\ndomain = \"example.net\"";
    checked(&relayed(own, "servers = [\"fd00:18::10\"]")).expect("the gateway leases IPv4, servers lease IPv6");
    let own = "ipv6 = \"slaac\"\nipv6_valid_seconds = 600\nipv6_preferred_seconds = 300\ndns = [\"2001:db8::1\"]";
    checked(&relayed(own, "servers = [\"198.18.0.10\"]")).expect("servers lease IPv4, the gateway advertises IPv6");
}

#[test]
fn mistakes_of_relay_name_their_key() {
    let v4 = "servers = [\"198.18.0.10\"]";
    let v6 = "servers = [\"fd00:18::10\"]";
    for (sessions, relay, error) in [
        ("", "servers = []", "relay.servers: 0 servers"),
        ("", "servers = [\"198.18.0.10\", \"224.0.0.1\"]", "relay.servers.1: 224.0.0.1 is not the address of one host"),
        ("", "servers = [\"fe80::10\"]", "relay.servers.0: fe80::10 is not the address of one host beyond the link"),
        ("", "servers = [\"100.64.0.1\"]", "relay.servers.0: 100.64.0.1 is an address of the gateway itself"),
        ("", "servers = [\"198.18.0.10\", \"198.18.0.10\"]", "relay.servers.1: 198.18.0.10 is there twice"),
        ("", &format!("{v4}\ngiaddr = \"198.18.9.1\""), "relay.giaddr: 198.18.9.1 is not an address of the gateway"),
        ("", &format!("{v4}\nhops = 17"), "relay.hops: 17 relay agents"),
        ("", &format!("{v6}\nsource = \"fd00:18::2\""), "relay.source: fd00:18::2 is not an address of the gateway"),
        ("", &format!("{v6}\nlink_address = \"fe80::1\""), "relay.link_address: fe80::1 tells servers of no link"),
        ("lease_seconds = 600", v4, "lease_seconds: the group's addresses of this family are leased by the servers"),
        ("dns = [\"192.0.2.1\"]", v4, "dns: the group's addresses"),
        ("dns = [\"2001:db8::1\"]", v6, "dns: the group's addresses"),
        ("domain = \"example.net\"", v4, "domain: the group's addresses"),
        ("ntp = [\"192.0.2.1\"]", v4, "ntp: the group's addresses"),
        ("ipv4_prefix_length = 24", v4, "ipv4_prefix_length: the group's addresses"),
        ("ipv6_valid_seconds = 600\nipv6_preferred_seconds = 300", v6, "ipv6_valid_seconds: the group's addresses"),
        ("relayed = true", v4, "relayed: DHCPv4 messages of relay agents on the lines cannot be relayed"),
        ("ipv6 = \"slaac\"", v6, "relay.servers: DHCPv6 is relayed, and ipv6 = \"slaac\""),
        ("ipv6 = \"off\"", v6, "relay.servers: DHCPv6 is relayed, and ipv6 is \"off\""),
    ] {
        let got = checked(&relayed(sessions, relay)).expect_err(relay);
        let wanted = format!("group.0.sessions.{error}");
        assert!(got.starts_with(&wanted), "{sessions} {relay}:\n got    {got}\n wanted {wanted}");
    }
    let no_slice = relayed("", v6).replacen("ipv6_wan = [\"2001:db8:100::/56\"]", "", 1);
    let no_slice = no_slice.replacen("ipv6_pd = [ { prefix = \"2001:db8:4000::/48\", length = 56 } ]", "", 1);
    let got = checked(&no_slice).expect_err("no slice");
    assert!(got.starts_with("group.0.sessions.relay.servers: DHCPv6 is relayed, and the group has no slice"), "{got}");
    let unknown = toml::from_str::<Config>(&relayed("", &format!("{v4}\nserver = 1"))).expect_err("unknown key");
    assert!(unknown.to_string().contains("unknown field `server`"), "{unknown}");
}

#[test]
fn shared_vlans_need_hardware_addresses() {
    let text = format!("{BASE}\n[[subscriber]]\ngroup = \"shared\"\nipv4 = \"100.65.0.99\"\n");
    assert!(checked(&text).unwrap_err().starts_with("subscriber.5.mac: group \"shared\" is N:1"));
}

#[test]
fn two_subscribers_with_one_address_are_refused() {
    let text = format!("{BASE}\n[[subscriber]]\ngroup = \"pon\"\nc_vlan = 9\nipv4 = \"100.64.0.11\"\n");
    assert!(checked(&text).unwrap_err().starts_with("subscriber.5.ipv4: subscriber 0 of 1 has the line or address"));
}

#[test]
fn prefixes_that_cover_each_other_are_refused() {
    let entry = |c_vlan: u8, prefix: &str| {
        format!("[[subscriber]]\ngroup = \"pon\"\nc_vlan = {c_vlan}\nipv6_pd = \"{prefix}\"\n")
    };
    for (first, second) in [
        ("2001:db8:9000::/48", "2001:db8:9000:100::/56"),
        ("2001:db8:9000:100::/56", "2001:db8:9000::/48"),
        ("2001:db8:4000::/48", "2001:db8:4000:4400::/56"),
        ("2001:db8:4000:4400::/56", "2001:db8:4000:4000::/50"),
    ] {
        let base = BASE.replace("ipv6_pd = \"2001:db8:4000::/56\"\n", "");
        let got = checked(&format!("{base}\n{}{}", entry(8, first), entry(9, second)));
        let got = got.expect_err(&format!("{first}, {second}"));
        assert!(got.starts_with("subscriber.6.ipv6_pd: subscriber 0 of 1 has the line or address"), "{got}");
    }
}
