//! Configurations: the example is valid, and mistakes name the key, and the modem where there is one.

use cmts::config::Config;

use crate::plant::config;

fn said(text: &str) -> String {
    let config: Config = toml::from_str(text).expect("keys and types are right");
    config.check().expect_err("a mistake").to_string()
}

#[test]
fn the_example_is_valid() {
    let text = include_str!("../../../examples/cmts.toml");
    let config: Config = toml::from_str(text).expect("keys and types are right");
    config.check().expect("valid");
    let layout = config.layout().expect("patterns that fit");
    let hosts: usize = layout.modems.iter().map(|modem| modem.spec.hosts.len()).sum();
    assert_eq!((layout.modems.len(), hosts, layout.channels.len(), layout.groups.len()), (301, 1201, 6, 2));
    let last = &layout.modems[299];
    assert_eq!(
        (last.mac.to_string(), last.spec.hosts[3].0.to_string()),
        ("02:cb:00:00:01:2c".into(), "10.64.4.176".into())
    );
    assert_eq!(last.spec.security.as_ref().map(|security| security.said), Some(300));
    assert_eq!(layout.modems[300].spec.hosts[0].1.to_string(), "01:00:5e:01:01:01", "a group's own address");
}

#[test]
fn mistakes_name_the_modem_and_the_key() {
    let good = config(1, 3, true, "");
    let cases = [
        (
            "profile = \"home\"",
            "profile = \"away\"",
            "service_group.0.modem.0.profile: modem 02:cb:00:00:00:01: no profile is called \"away\"; one of home",
        ),
        (
            "key = \"0001",
            "#key = \"0001",
            "service_group.0.modem.0.key: modem 02:cb:00:00:00:01: its profile encrypts, and it has no key; 32 hexadecimal digits",
        ),
        (
            "key = \"0001",
            "key = \"01",
            "service_group.0.modem.0.key: modem 02:cb:00:00:00:01: its profile encrypts, and it has no key; 32 hexadecimal digits",
        ),
        (
            "sid = 1\n",
            "sid = 16382\n",
            "service_group.0.modem.0.sid: modem 02:cb:00:00:00:03: its service identifier has more than 14 bits; begin lower",
        ),
        (
            "ipv4 = \"10.0.0.1\"",
            "ipv4 = \"255.255.255.250\"",
            "service_group.0.modem.0.ipv4: modem 02:cb:00:00:00:02: its addresses do not fit behind the first; leave it out, or begin lower",
        ),
        (
            "\"ofdm0..2\"",
            "\"ofdm0..9\"",
            "service_group.0.bonding_group.0.channels.0: no channel is called \"ofdm6\"; a channel's name; of several, with its number",
        ),
        (
            "1.89 Gbit/s",
            "fast",
            "service_group.0.channel.0.capacity: \"fast\" is no rate; such as \"1.89 Gbit/s\" or \"42.24 Mbit/s\"",
        ),
        ("rpd = \"172.16.0.2\"", "rpd = \"9.9.9.9\"", ""),
        (
            "priority = 7",
            "priority = 7\nflow = \"f1\"",
            "filter_group.0.rule.0.flow: a filter chooses no service flow; leave it out",
        ),
        (
            "flow = \"f1\"",
            "flow = \"f9\"",
            "classifiers.0.rule.0.flow: no profile with these classifiers has a service flow \"f9\"; name one of its flows",
        ),
        (
            "packets = 4096",
            "packets = 16000",
            "queues.packets: 16000 packets may wait, but a worker has 16384 packet buffers; 15360 or fewer, or more [frames] packet_buffers: ports need 1024 of their own",
        ),
        (
            "filters_up = [\"some\"]",
            "filters_up = [\"other\"]",
            "service_group.0.modem.0.profile: modem 02:cb:00:00:00:01: no filter group is called \"other\", as its profile has it; a [[filter_group]]'s name",
        ),
        (
            "role = \"rpd\"",
            "role = \"rpd\"\ninstance = \"west\"",
            "port.0.instance: a port towards devices can't be in network instance \"west\"; leave it out: all devices are reached in one",
        ),
        (
            "role = \"network\"",
            "role = \"network\"\ninstance = \"rpd\"",
            "port.1.instance: no network instance is called \"rpd\"; a name of its own, or leave it out for \"network\"",
        ),
        (
            "rpd = \"172.16.0.2\"",
            "rpd = \"172.16.0.2\"\ninstance = \"west\"",
            "service_group.0.instance: no port is in network instance \"west\"; such as \"network\", which a port is in",
        ),
        (
            "role = \"network\"",
            "role = \"network\"\ninstance = \"west\"",
            "service_group.0.instance: no port is in network instance \"network\"; such as \"west\", which a port is in",
        ),
        (
            "role = \"rpd\"",
            "role = \"network\"",
            "port: a cable gateway needs a port on either side; write [[port]] twice: one with role = \"rpd\", one with role = \"network\"",
        ),
    ];
    for (from, to, expected) in cases {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        if !expected.is_empty() {
            assert_eq!(said(&text), expected);
        }
    }
    for (from, to, expected) in [
        (
            "[[profile.flow]]\n",
            "[[profile.flow]]\nbonded = false\n",
            "service_group.0.modem.0.profile: modem 02:cb:00:00:00:01: service flow \"f0\" is not bonded, on a group of 3 \
             channels: its packets would come in any order, as its profile has it; leave bonded = false out, or name a \
             bonding group of one channel",
        ),
        (
            "[[profile.flow]]\n",
            "[[profile.flow]]\npeak = \"1 kbit/s\"\nrate = \"2 kbit/s\"\n",
            "profile.0.flow.0.peak: the peak rate is lower than the sustained rate; that rate or more",
        ),
        (
            "[[profile.flow]]\n",
            "[[profile.flow]]\naqm = true\naqm_target_ms = 0\n",
            "profile.0.flow.0.aqm_target_ms: 0 ms is no target; 1 to 1000; 10 if left out",
        ),
        (
            "[[profile.flow]]\n",
            "[[profile.flow]]\nbuffer = 100\n",
            "profile.0.flow.0.buffer: a buffer of 100 bytes holds no large frame; 2048 or more; 262144 if left out",
        ),
        (
            "gateway = \"cmts\"\n",
            "gateway = \"cmts\"\nupstream = { wait_ms = 18446744073709551 }\n",
            "upstream.wait_ms: 18446744073709551 is no such time; 1 to 1000; 18 if left out",
        ),
        (
            "\"ofdm0..2\"",
            "\"ofdm0..2\", \"ofdm1\"",
            "service_group.0.bonding_group.0.channels.1: channel \"ofdm1\" is in the bonding group twice; name it once",
        ),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        assert_eq!(said(&text), expected);
    }
    // The second classifier, and the first: priorities are 100, 99, … down.
    for (from, to, expected) in [
        (
            "priority = 99\n",
            "priority = 300\n",
            "classifiers.0.rule.1.priority: 300 is no priority of a classifier; 0 to 255, higher ones are evaluated first",
        ),
        (
            "[[profile]]\n",
            "[[classifiers.rule]]\npriority = 9\nflow = \"f1\"\ntos = [0, 0, 1]\n\
             [[classifiers.rule]]\npriority = 9\nflow = \"f2\"\ntos = [0, 0, 1]\n[[profile]]\n",
            "classifiers.0.rule.17.priority: rule 17 matches what rule 16 does, at the same priority: it is never evaluated; \
             another priority, or leave it out",
        ),
        (
            "priority = 99\n",
            "priority = 99\nuser_priority = [3, 9]\n",
            "classifiers.0.rule.1.user_priority: matches nothing; [low, high], 0 to 7",
        ),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        assert_eq!(said(&text), expected);
    }
    // Where the addresses of patterns meet, both modems are named.
    let again = "[[service_group.modem]]\nmac = \"02:cb:00:00:09:09\"\nprofile = \"home\"\nipv4 = \"10.0.0.2\"\nsid = 77\n\
                 key = \"000102030405060708090a0b0c0d0eff\"\n";
    assert_eq!(
        said(&(good.clone() + again)),
        "service_group.0.modem: modems 02:cb:00:00:00:01 and 02:cb:00:00:09:09 both have 10.0.0.2; give each modem its \
         own addresses"
    );
    // What is on no port's link is found when ports are known.
    let text = good.replacen("rpd = \"172.16.0.2\"", "rpd = \"9.9.9.9\"", 1);
    let config: Config = toml::from_str(&text).expect("keys and types are right");
    let error = cmts::assemble::assemble(&config, &[]).err().expect("no way to the device");
    assert!(
        error.to_string().starts_with("service_group.0.rpd: no port with role = \"rpd\" leads to 9.9.9.9"),
        "{error}"
    );
}

#[test]
fn what_a_modem_can_not_have_is_refused_by_name() {
    use crate::plant::World;
    use cmts::config::RuleEntry;
    use traffic::cable::Cuts;
    let mut world = World::new(&config(1, 2, false, ""), Cuts::Few);
    let modem: wire::Mac = "02:cb:00:00:00:02".parse().expect("an address");
    let rule =
        |priority, flow: &str| RuleEntry { priority, flow: Some(flow.into()), vlan: Some(7), ..RuleEntry::default() };
    let mut said = |id, rule: RuleEntry| world.control.add_classifier(modem, id, &rule).map_err(|refusal| refusal.0);
    assert_eq!(said(Some(40), rule(9, "f1")), Ok(40));
    for (id, rule, expected) in [
        (
            Some(40),
            rule(8, "f1"),
            "classifier 40 is there already, of modem 02:cb:00:00:00:02; identifiers are 1 to 65535",
        ),
        (Some(0), rule(8, "f1"), "classifier 0 is none; identifiers are 1 to 65535"),
        (
            None,
            rule(256, "f1"),
            "modem 02:cb:00:00:00:02: priority: 256 is no priority of a classifier; 0 to 255, higher ones are evaluated first",
        ),
        (
            None,
            rule(9, "f2"),
            "modem 02:cb:00:00:00:02: priority: rule 17 matches what rule 16 does, at the same priority: it is never evaluated; another priority, or leave it out",
        ),
        (None, rule(8, "f7"), "modem 02:cb:00:00:00:02 has no service flow \"f7\"; it has f0, f1, f2, f3"),
        (
            None,
            RuleEntry { vlan: Some(4096), ..rule(8, "f1") },
            "modem 02:cb:00:00:00:02: vlan: no such VLAN; 0 to 4095",
        ),
    ] {
        assert_eq!(said(id, rule), Err(expected.to_owned()));
    }
    assert_eq!(world.control.classifiers(modem).expect("a modem").len(), 17, "and nothing was changed");
    world.rig.close().expect("nothing lost");
}
