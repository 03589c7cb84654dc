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
