//! Ports: hybrid, VLANs towards the core, VRFs.

use super::*;

testkit::cases! { hybrid_port, core_vlan, two_vrfs, address_outside_slices }

const HYBRID: Ipv4Addr = Ipv4Addr::new(100, 68, 0, 10);

fn hybrid_port() -> Case {
    let line = |from, to, packet: &Packet| eth(from, to).service_vlan(500).vlan(1).carrying(packet);
    let core = |from, to, packet: &Packet| eth(from, to).vlan(10).carrying(packet);
    case("A hybrid port: the core in VLAN 10, subscribers behind two tags; both in one burst.")
        .with(
            r#"
            route = [ { to = "0.0.0.0/0", via = "198.18.1.254" } ]
            neighbour = [ { port = "hyb", address = "198.18.1.254", mac = "02:00:00:00:02:02" } ]
            "#,
        )
        .send("hyb", &line(SUB_MAC, HYBRID_MAC, &up(HYBRID, 64)))
        .send("hyb", &core(ROUTER_MAC, HYBRID_MAC, &down(HYBRID, 64)))
        .send("hyb", &line(SUB_MAC, HYBRID_MAC, &up(HYBRID, 32)))
        .expect("hyb", &line(HYBRID_MAC, SUB_MAC, &down(HYBRID, 63)))
        .expect("hyb", &core(HYBRID_MAC, ROUTER_MAC, &up(HYBRID, 63)))
        .expect("hyb", &core(HYBRID_MAC, ROUTER_MAC, &up(HYBRID, 31)))
        .punts("hybrid_access", 2)
}

fn core_vlan() -> Case {
    let ports = BASE.replacen("role = \"core\"\n", "role = \"core\"\nvlan = 7\n", 1);
    let ports: toml::Table = ports.parse().unwrap();
    let port = toml::Table::from_iter([("port".to_owned(), ports["port"].clone())]);
    let core = |from, to, packet: &Packet| eth(from, to).vlan(7).carrying(packet);
    case("The core in a VLAN; untagged frames are not its.")
        .with(&toml::to_string(&port).unwrap())
        .send("acc", &from_sub(&up(SUB, 64)))
        .expect("core", &core(CORE_MAC, ROUTER_MAC, &up(SUB, 63)))
        .send("core", &core(ROUTER_MAC, CORE_MAC, &down(SUB, 64)))
        .send("core", &from_router(&down(SUB, 64)))
        .expect("acc", &to_sub(&down(SUB, 63)))
        .drops("downstream.parse.wrong_vlan", 1)
}

fn two_vrfs() -> Case {
    let text = BASE
        .replace("name = \"hyb\"\n", "name = \"hyb\"\ninstance = \"isp\"\n")
        .replace("name = \"hybrid\"\n", "name = \"hybrid\"\ninstance = \"isp\"\n")
        .replace("100.68.0.", "100.64.0.");
    let table: toml::Table = text.parse().unwrap();
    let change = ["port", "group", "subscriber"].map(|key| (key.to_owned(), table[key].clone()));
    let other = Ipv4Addr::new(100, 64, 0, 10);
    let line = |from, to, packet: &Packet| eth(from, to).service_vlan(500).vlan(1).carrying(packet);
    case("Two VRFs whose subscribers have the same address: each is found by its own core side.")
        .with(&toml::to_string(&toml::Table::from_iter(change)).unwrap())
        .send("hyb", &eth(ROUTER_MAC, HYBRID_MAC).vlan(10).carrying(&down(other, 64)))
        .expect("hyb", &line(HYBRID_MAC, SUB_MAC, &down(other, 63)))
        .send("core", &from_router(&down(SUB, 64)))
        .expect("acc", &to_sub(&down(SUB, 63)))
}

fn address_outside_slices() -> Case {
    let sub = Ipv4Addr::new(192, 0, 2, 33);
    let sub6: Ipv6Addr = "2001:db8:77:5::9".parse().unwrap();
    let line = |from, to, packet: &Packet| eth(from, to).service_vlan(100).vlan(5).carrying(packet);
    case("A static subscriber with addresses in no slice.")
        .with(
            r#"
            [[subscriber]]
            group = "pon"
            c_vlan = 5
            mac = "02:ca:00:00:00:01"
            ipv4 = "192.0.2.33"
            ipv6_pd = "2001:db8:77::/56"
            "#,
        )
        .send("acc", &line(SUB_MAC, GW_MAC, &up(sub, 64)))
        .send("acc", &line(SUB_MAC, GW_MAC, &up6(sub6, 64)))
        .expect("core", &to_router(&up(sub, 63)))
        .expect("core", &to_router(&up6(sub6, 63)))
        .send("core", &from_router(&down(sub, 64)))
        .send("core", &from_router(&down6(sub6, 64)))
        .expect("acc", &line(GW_MAC, SUB_MAC, &down(sub, 63)))
        .expect("acc", &line(GW_MAC, SUB_MAC, &down6(sub6, 63)))
}
