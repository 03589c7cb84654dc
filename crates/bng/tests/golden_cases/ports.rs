//! Ports: hybrid, VLANs towards the core, VRFs.

use super::*;

testkit::cases! { hybrid_port, two_cores_on_one_device, core_vlan, two_vrfs, address_outside_slices, several_next_hops }

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

fn two_cores_on_one_device() -> Case {
    let line = |from, to, packet: &Packet| eth(from, to).service_vlan(500).vlan(1).carrying(packet);
    let core = |id, from, to, packet: &Packet| eth(from, to).vlan(id).carrying(packet);
    let mut ports: toml::Table = BASE.parse().unwrap();
    let second = r#"name = "core2"
        on = "hyb"
        role = "core"
        vlan = 20
        addresses = ["198.18.2.1/24"]"#;
    let all = ports["port"].as_array_mut().unwrap();
    all.push(second.parse::<toml::Table>().unwrap().into());
    let port = toml::Table::from_iter([("port".to_owned(), ports["port"].clone())]);
    case("Lines and two VLANs of the core on one interface: what is to subscribers comes by either, their own leaves by the routes.")
        .with(&toml::to_string(&port).unwrap())
        .with(
            r#"
            route = [ { to = "0.0.0.0/0", via = "198.18.2.254" } ]
            neighbour = [
              { port = "hyb", address = "198.18.1.254", mac = "02:00:00:00:02:02" },
              { port = "core2", address = "198.18.2.254", mac = "02:00:00:00:02:02" },
            ]
            "#,
        )
        .send("hyb", &line(SUB_MAC, HYBRID_MAC, &up(HYBRID, 64)))
        .send("hyb", &core(10, ROUTER_MAC, HYBRID_MAC, &down(HYBRID, 64)))
        .send("hyb", &core(20, ROUTER_MAC, HYBRID_MAC, &down(HYBRID, 32)))
        .expect("hyb", &line(HYBRID_MAC, SUB_MAC, &down(HYBRID, 63)))
        .expect("hyb", &line(HYBRID_MAC, SUB_MAC, &down(HYBRID, 31)))
        .expect("hyb", &core(20, HYBRID_MAC, ROUTER_MAC, &up(HYBRID, 63)))
        .punts("hybrid_access", 1)
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

fn several_next_hops() -> Case {
    const SECOND_MAC: [u8; 6] = [2, 0, 0, 0, 2, 3];
    let next = |packet: &Packet| eth(NEXT_MAC, GW_MAC).service_vlan(100).vlan(2).carrying(packet);
    let second = |packet: &Packet| eth(CORE_MAC, SECOND_MAC).carrying(packet);
    let sub6: Ipv6Addr = "2001:db8:100:1::2".parse().unwrap();
    case("Two routers to one prefix, and a third that does not answer: each flow has one of the two, by its addresses.")
        .with(
            r#"
            route = [
              { to = "0.0.0.0/0", via = "198.18.0.254" }, { to = "0.0.0.0/0", via = "198.18.0.253" },
              { to = "0.0.0.0/0", via = "198.18.0.252" },
              { to = "::/0", via = "fd00:18::254" }, { to = "::/0", via = "fd00:18::253" },
            ]
            neighbour = [
              { port = "core", address = "198.18.0.254", mac = "02:00:00:00:02:02" },
              { port = "core", address = "198.18.0.253", mac = "02:00:00:00:02:03" },
              { port = "core", address = "fd00:18::254", mac = "02:00:00:00:02:02" },
              { port = "core", address = "fd00:18::253", mac = "02:00:00:00:02:03" },
            ]
            "#,
        )
        .send("acc", &from_sub(&up(SUB, 64)))
        .send("acc", &next(&up(NEXT, 64)))
        .send("acc", &from_sub(&up(SUB, 32)))
        .send("acc", &from_sub(&up6(SUB_6, 64)))
        .send("acc", &next(&up6(sub6, 64)))
        .expect("core", &to_router(&up(SUB, 63)))
        .expect("core", &second(&up(NEXT, 63)))
        .expect("core", &to_router(&up(SUB, 31)))
        .expect("core", &to_router(&up6(SUB_6, 63)))
        .expect("core", &second(&up6(sub6, 63)))
}
