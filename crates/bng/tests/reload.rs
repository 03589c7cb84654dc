//! The configuration read again while subscribers talk: a packet that passes before is treated by the new rule afterwards.

use std::net::Ipv4Addr;

use bng::config::{Config, ConfigError};
use bng::product::BngGateway;
use gateway::shell::Gateway as _;
use gateway::shell::reload::apply_to;
use testkit::golden::Subject as _;

use crate::device::Device;
use crate::golden_cases::{self as cases, BASE, GW_MAC, NEXT, NEXT_MAC, Packet, SUB, ip4};
use crate::sessions::{Client, FIRST, bind, exchange, talks};

/// The base configuration with replacements, and sessions in its first group.
fn text(changes: &[(&str, &str)]) -> String {
    let sessions = "[group.sessions]\nlease_seconds = 600\n\n[[group]]\nname = \"shared\"";
    let mut text = BASE.replacen("[[group]]\nname = \"shared\"", sessions, 1);
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    text
}

fn started(changes: &[(&str, &str)]) -> Device {
    Device::start(&text(changes).parse().expect("TOML")).expect("it starts")
}

/// Reads a file again: all keys that can be applied.
fn reload(device: &mut Device, changes: &[(&str, &str)]) -> Result<(), ConfigError> {
    let mut config: Config = toml::from_str(&text(changes)).expect("a configuration");
    let workers = device.control.workers() as u16;
    config.workers.count = workers;
    config.group.iter_mut().zip(0..).for_each(|(group, n)| group.worker = n % workers);
    config.check()?;
    let keys: Vec<&str> = BngGateway::LIVE.iter().map(|entry| entry.key).collect();
    apply_to(&mut device.control, &config, &keys, true)?;
    apply_to(&mut device.control, &config, &keys, false)?;
    device.settle();
    Ok(())
}

/// How many of a packet of the first subscriber's reach the core.
fn passed(device: &mut Device, packet: &Packet, count: usize) -> usize {
    (0..count).for_each(|_| device.send("acc", &cases::from_sub(packet).build()));
    device.settle();
    device.received("core").len()
}

fn counter(device: &mut Device, name: &str) -> u64 {
    device.counters().gateway.get(name).copied().unwrap_or(0)
}

const HOME: &str = "profile = [ { name = \"home\" } ]";
const ACL: &str = "[[port]]\nname = \"acc\"";

fn tcp(to_port: u16) -> Packet {
    ip4(SUB, cases::SERVER).ttl(9).tcp(1000, to_port).payload(b"mail")
}

/// The base with an access list, which a profile has.
fn listed(rules: &str) -> [(&'static str, String); 2] {
    let list = format!("[[acl]]\nname = \"mail\"\nrules = [{rules}]\n\n{ACL}");
    [(HOME, "profile = [ { name = \"home\", acl = \"mail\" } ]".to_owned()), (ACL, list)]
}

fn as_changes<'a>(all: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    all.iter().map(|(from, to)| (*from, to.as_str())).collect()
}

#[test]
fn access_list_denies_what_it_permitted() {
    let permits = listed("\"deny in tcp from any to any port 110\"");
    let denies = listed("\"permit in tcp from any to any port 110\", \"deny in tcp from any to any port 25\"");
    let mut device = started(&as_changes(&permits));
    assert_eq!((passed(&mut device, &tcp(25), 3), passed(&mut device, &tcp(110), 2)), (3, 0));
    assert_eq!((device.control.hits(0).0, device.control.hits(1).0), (2, 3));
    let used = counter(&mut device, "subscriber.0.up.ipv4.packets");
    reload(&mut device, &as_changes(&denies)).expect("in order");
    assert_eq!(device.control.hits(0).0, 0, "rules count anew");
    assert_eq!((passed(&mut device, &tcp(25), 3), passed(&mut device, &tcp(110), 2)), (0, 2));
    assert_eq!((device.control.hits(0).0, device.control.hits(1).0), (2, 3));
    assert_eq!(counter(&mut device, "subscriber.0.up.ipv4.packets"), used + 2, "subscribers count on");
    // Again and again: numbers of lists and sets of counters are used in turn.
    for _ in 0..20 {
        reload(&mut device, &as_changes(&permits)).expect("in order");
        assert_eq!((passed(&mut device, &tcp(25), 1), device.control.hits(1).0), (1, 1));
        reload(&mut device, &as_changes(&denies)).expect("in order");
        assert_eq!((passed(&mut device, &tcp(25), 1), device.control.hits(1).0), (0, 1));
    }
    assert_eq!(counter(&mut device, "control.refused"), 0);
    device.close().expect("nothing lost");
}

#[test]
fn list_of_the_location_counts_for_its_subscribers() {
    let with = |group: &str| {
        let mut all = listed("\"deny in tcp from any to any port 25\"").to_vec();
        all[0].1 = HOME.to_owned();
        let own = format!("[[group]]\nname = \"{group}\"");
        all.push(("gateways = [\"100.64.0.1\", \"fe80::1\"]", "gateways = [\"100.64.0.1\", \"fe80::1\"]".to_owned()));
        if group == "pon" {
            all[2].1 += "\nacl = \"mail\"";
        }
        assert!(BASE.contains(&own));
        all
    };
    let mut device = started(&as_changes(&with("shared")));
    assert_eq!(passed(&mut device, &tcp(25), 2), 2);
    reload(&mut device, &as_changes(&with("pon"))).expect("in order");
    assert_eq!((passed(&mut device, &tcp(25), 2), passed(&mut device, &tcp(26), 2)), (0, 2));
    reload(&mut device, &as_changes(&with("shared"))).expect("in order");
    assert_eq!(passed(&mut device, &tcp(25), 2), 2);
    device.close().expect("nothing lost");
}

#[test]
fn rates_of_subscribers_change_at_once() {
    let tier = |up: &str| format!("profile = [ {{ name = \"home\", up = \"{up}\", up_burst = 3000 }} ]");
    let slow = tier("1 Mbit/s");
    let mut device = started(&[(HOME, &slow)]);
    let big = ip4(SUB, cases::SERVER).ttl(64).udp(1, 2).filled(972);
    assert_eq!(passed(&mut device, &big, 5), 3);
    let fast = "profile = [ { name = \"home\", up = \"1 Gbit/s\", up_burst = \"1 MB\" } ]";
    reload(&mut device, &[(HOME, fast)]).expect("in order");
    device.turn_to(20_000_000);
    assert_eq!(passed(&mut device, &big, 50), 50);
    assert_eq!(counter(&mut device, "subscriber.0.up.ipv4.packets"), 53);
    // One that comes later, too.
    let address = bind(&mut device, FIRST);
    reload(&mut device, &[(HOME, &slow)]).expect("in order");
    let later = Client { c_vlan: 8, mac: NEXT_MAC, ..FIRST };
    let other = bind(&mut device, later);
    for (client, from) in [(FIRST, address), (later, other)] {
        let big = ip4(from, cases::SERVER).ttl(64).udp(1, 2).filled(972);
        (0..5).for_each(|_| device.send("acc", &client.line(GW_MAC).carrying(&big).build()));
        device.settle();
        assert_eq!(device.received("core").len(), 3);
    }
    device.close().expect("nothing lost");
}

#[test]
fn tier_of_a_group_goes_to_its_subscribers() {
    let both = "profile = [ { name = \"home\", up = \"1 Mbit/s\", up_burst = 3000 }, { name = \"gold\" } ]";
    let group = ("profile = \"home\"", "profile = \"gold\"");
    let mut device = started(&[(HOME, both)]);
    let address = bind(&mut device, FIRST);
    let big = |from| ip4(from, cases::SERVER).ttl(64).udp(1, 2).filled(972);
    assert_eq!(passed(&mut device, &big(SUB), 5), 3);
    reload(&mut device, &[(HOME, both), group]).expect("in order");
    device.turn_to(1_000_000);
    assert_eq!(passed(&mut device, &big(SUB), 5), 5, "a static subscriber that names none");
    (0..9).for_each(|_| device.send("acc", &FIRST.line(GW_MAC).carrying(&big(address)).build()));
    device.settle();
    assert_eq!(device.received("core").len(), 9, "a session");
    // The other groups' subscribers have it: it stays.
    let gold = "profile = [ { name = \"gold\" } ]";
    let own = ("profile = \"home\"", "profile = \"gold\"");
    let error = reload(&mut device, &[(HOME, "profile = [ { name = \"gold\" } ]"), group]).expect_err("groups name it");
    assert_eq!(error.path, ["group", "1", "profile"]);
    reload(&mut device, &[(HOME, gold), own, own, own, own, own]).expect("nobody has it");
    let named = "profile = [ { name = \"gold\" }, { name = \"home\", up = \"1 Mbit/s\", up_burst = 2000 } ]";
    reload(&mut device, &[(HOME, named), own, own, own, own, own]).expect("in order");
    let entry = ("[[subscriber]]\ngroup = \"pon\"", "[[subscriber]]\nprofile = \"home\"\ngroup = \"pon\"");
    reload(&mut device, &[(HOME, named), own, own, own, own, own, entry]).expect("in order");
    assert_eq!(passed(&mut device, &big(SUB), 5), 2, "its own, again");
    device.close().expect("nothing lost");
}

#[test]
fn profile_that_a_session_has_is_not_taken_out() {
    let both = "profile = [ { name = \"home\" }, { name = \"gold\" } ]";
    let mut device = started(&[(HOME, both)]);
    bind(&mut device, FIRST);
    let mut session = *device.control.subscribers().last().expect("a session");
    session.profile = 1;
    device.control.install(session).expect("its group is there");
    device.settle();
    let error = reload(&mut device, &[]).expect_err("it has it");
    assert_eq!(error.path, ["profile"]);
    assert!(error.what.contains("1 subscribers have profile \"gold\""), "{error}");
    device.control.clear(session.handle).expect("a session");
    device.settle();
    reload(&mut device, &[]).expect("nobody has it");
    device.close().expect("nothing lost");
}

#[test]
fn routes_lead_to_another_router() {
    let neighbour = "neighbour = [\n  { port = \"core\", address = \"198.18.0.253\", mac = \"02:00:00:00:02:77\" },";
    let neighbour = ("neighbour = [", neighbour);
    let mut device = started(&[neighbour]);
    device.send("acc", &cases::from_sub(&cases::up(SUB, 9)).build());
    device.settle();
    assert_eq!(device.received("core")[0][..6], [2, 0, 0, 0, 2, 2]);
    reload(&mut device, &[neighbour, ("via = \"198.18.0.254\"", "via = \"198.18.0.253\"")]).expect("in order");
    device.send("acc", &cases::from_sub(&cases::up(SUB, 9)).build());
    device.settle();
    assert_eq!(device.received("core")[0][..6], [2, 0, 0, 0, 2, 0x77]);
    let error = reload(&mut device, &[neighbour, ("via = \"198.18.0.254\"", "via = \"198.19.0.1\"")]);
    assert_eq!(error.expect_err("on no link").path[..2], ["route", "0"]);
    device.close().expect("nothing lost");
}

const POOL: &str = "ipv4 = [\"100.64.0.0/24\"]";

/// Addresses that new lines get until there are none.
fn bound(device: &mut Device, lines: std::ops::Range<u16>) -> Vec<Ipv4Addr> {
    let client = |c_vlan: u16| Client { mac: [2, 0xca, 0, 0, 9, c_vlan as u8], c_vlan, ..FIRST };
    let mut all = Vec::new();
    for line in lines {
        if exchange(device, &client(line).dhcp4(1, &[])).is_empty() {
            break;
        }
        all.push(bind(device, client(line)));
    }
    all
}

#[test]
fn pool_grows_and_leases_stay() {
    for workers in ["", "workers = { count = 2 }\n"] {
        let gateway = ("gateway = \"bng\"", format!("gateway = \"bng\"\n{workers}"));
        let changes = |pool: &'static str| [(gateway.0, gateway.1.clone()), (POOL, pool.to_owned())];
        // Sixteen addresses: the first, the last, the gateway's and two static ones are not leased.
        let small = changes("ipv4 = [\"100.64.0.0/28\"]");
        let mut device = started(&as_changes(&small));
        let first = bound(&mut device, 3..6);
        assert_eq!(first.len(), 3);
        // One more slice, on the other worker's pages.
        let grown = changes("ipv4 = [\"100.64.0.0/28\", \"100.69.0.0/30\"]");
        reload(&mut device, &as_changes(&grown)).expect("in order");
        assert_eq!(device.control.sessions().expect("sessions").leases(), 3);
        let more: Vec<_> = (6..11).flat_map(|line| bound(&mut device, line..line + 1)).collect();
        assert!(more.iter().any(|address| address.octets()[1] == 69) || more.len() == 5, "{more:?}");
        let shrunk = changes("ipv4 = [\"100.69.0.0/24\"]");
        let error = reload(&mut device, &as_changes(&shrunk)).expect_err("leases are in it");
        assert_eq!(error.path, ["group", "0", "ipv4"]);
        for (line, address) in (3..).zip(first.iter().chain(&more)) {
            let client = Client { mac: [2, 0xca, 0, 0, 9, line as u8], c_vlan: line, ..FIRST };
            assert!(talks(&mut device, client, GW_MAC, *address), "{address}");
        }
        device.close().expect("nothing lost");
    }
}

#[test]
fn slice_of_another_page_carries_packets() {
    let moved = ("ipv4 = [\"100.64.0.0/24\"]", "ipv4 = [\"100.69.0.0/24\", \"100.64.0.0/24\"]");
    let mut device = started(&[]);
    let kept = bind(&mut device, FIRST);
    reload(&mut device, &[moved]).expect("in order");
    let other = Client { c_vlan: 8, mac: NEXT_MAC, ..FIRST };
    let address = bind(&mut device, other);
    assert_eq!(address.octets()[..2], [100, 69]);
    assert!(talks(&mut device, other, GW_MAC, address) && talks(&mut device, FIRST, GW_MAC, kept));
    // To and fro: packets between subscribers of both stay in the gateway.
    let near = ip4(address, kept).ttl(9).udp(1, 2).payload(b"near");
    device.send("acc", &other.line(GW_MAC).carrying(&near).build());
    device.settle();
    assert_eq!((device.received("acc").len(), device.received("core").len()), (1, 0));
    let error = reload(&mut device, &[]).expect_err("a lease is in it");
    assert_eq!(error.path, ["group", "0", "ipv4"]);
    assert!(error.what.contains("1 leases") && error.what.contains(&address.to_string()), "{error}");
    let handle = device.control.subscribers().last().expect("a session").handle;
    device.control.clear(handle).expect("a session");
    device.settle();
    reload(&mut device, &[]).expect("its leases have ended");
    assert!(talks(&mut device, FIRST, GW_MAC, kept));
    device.close().expect("nothing lost");
}

#[test]
fn refused_whole() {
    let denies = listed("\"deny in udp from any to any\"");
    let permits = listed("\"permit in udp from any to any\"");
    let mut device = started(&as_changes(&permits));
    bind(&mut device, FIRST);
    let mut changes = as_changes(&denies);
    changes.push((POOL, "ipv4 = [\"100.69.0.0/24\"]"));
    reload(&mut device, &changes).expect_err("a lease is in the slice");
    assert_eq!(passed(&mut device, &cases::up(SUB, 9), 2), 2, "the new list is not applied");
    changes.pop();
    reload(&mut device, &changes).expect("in order");
    assert_eq!(passed(&mut device, &cases::up(SUB, 9), 2), 0);
    device.close().expect("nothing lost");
}

#[test]
fn limits_count_for_what_is_new() {
    let limit = |most: u32| format!("sessions = {{ leases_per_port = {most} }}\n{HOME}");
    let mut device = started(&[(HOME, &limit(1))]);
    let kept = bound(&mut device, 3..5);
    assert_eq!(kept.len(), 1);
    reload(&mut device, &[(HOME, &limit(2))]).expect("in order");
    assert_eq!(bound(&mut device, 4..7).len(), 1);
    reload(&mut device, &[(HOME, &limit(1))]).expect("in order");
    assert_eq!(device.control.sessions().expect("sessions").leases(), 2);
    assert_eq!(bound(&mut device, 6..7).len(), 0);
    device.close().expect("nothing lost");
}

#[test]
fn rate_of_control_packets_holds_at_once() {
    let rate = |each: u32| format!("punt = {{ dhcp4 = {each} }}\n{HOME}");
    let mut device = started(&[(HOME, &rate(0))]);
    assert!(exchange(&mut device, &FIRST.dhcp4(1, &[])).is_empty());
    assert_eq!(counter(&mut device, "class.dhcp4.limited"), 1);
    reload(&mut device, &[(HOME, &rate(1000))]).expect("in order");
    assert_eq!(exchange(&mut device, &FIRST.dhcp4(1, &[])).len(), 1);
    device.close().expect("nothing lost");
}

#[test]
fn options_are_told_with_the_next_reply() {
    let lease = |seconds: u32| format!("lease_seconds = {seconds}");
    let mut device = started(&[]);
    let address = bind(&mut device, FIRST);
    let told = |device: &mut Device| {
        let got = exchange(device, &FIRST.dhcp4(3, &[(50, &address.octets())]));
        let at = got[0].windows(6).position(|bytes| bytes[..2] == [51, 4]).expect("option 51");
        u32::from_be_bytes(got[0][at + 2..at + 6].try_into().unwrap())
    };
    assert_eq!(told(&mut device), 600);
    reload(&mut device, &[("lease_seconds = 600", &lease(900))]).expect("in order");
    assert_eq!(told(&mut device), 900);
    device.close().expect("nothing lost");
}

#[test]
fn what_workers_were_not_made_for_is_refused() {
    let mut device = started(&[]);
    let marks = "profile = [ { name = \"home\", dscp = [0, 0, 0, 0, 0, 0, 0, 46] } ]";
    assert_eq!(reload(&mut device, &[(HOME, marks)]).expect_err("off").path, ["profile", "0", "dscp"]);
    let garden = "profile = [ { name = \"home\", garden = { portal = \"http://portal.example/\" } } ]";
    assert_eq!(reload(&mut device, &[(HOME, garden)]).expect_err("off").path, ["profile", "0", "garden"]);
    let longer = ("length = 56", "length = 60");
    assert_eq!(reload(&mut device, &[longer]).expect_err("divided").path, ["group", "0", "ipv6_pd", "0"]);
    assert!(talks(&mut device, Client { mac: NEXT_MAC, s_vlan: 100, c_vlan: 2 }, GW_MAC, NEXT));
    device.close().expect("nothing lost");
}

#[test]
fn garden_has_what_the_file_lists() {
    let garden = |allow: &str| {
        format!("profile = [ {{ name = \"home\", garden = {{ portal = \"http://a/\", allow = [{allow}] }} }} ]")
    };
    let mut device = started(&[(HOME, &garden(""))]);
    let next = Client { mac: NEXT_MAC, s_vlan: 100, c_vlan: 2 };
    assert!(!talks(&mut device, next, GW_MAC, NEXT));
    let server = garden("\"203.0.113.0/24\"");
    reload(&mut device, &[(HOME, &server)]).expect("in order");
    assert!(talks(&mut device, next, GW_MAC, NEXT), "{:?}", device.counters());
    reload(&mut device, &[]).expect("in order");
    assert!(talks(&mut device, next, GW_MAC, NEXT), "it has none any more");
    reload(&mut device, &[(HOME, &garden(""))]).expect("in order");
    assert!(!talks(&mut device, next, GW_MAC, NEXT));
    device.close().expect("nothing lost");
}

#[test]
fn shaped_rate_counts_for_packets_that_wait() {
    let shaped = |rate: &str| format!("profile = [ {{ name = \"home\", down = \"{rate}\", shape = {{}} }} ]");
    let (slow, fast) = (shaped("1 Mbit/s"), shaped("10 Mbit/s"));
    let mut device = started(&[(HOME, &slow)]);
    let packet = ip4(cases::SERVER, SUB).ttl(9).udp(1, 2).filled(972);
    (0..40).for_each(|_| device.send("core", &cases::from_router(&packet).build()));
    device.settle();
    assert_eq!(device.received("acc").len(), 4, "a burst of 3,044 bytes");
    reload(&mut device, &[(HOME, &fast)]).expect("in order");
    for now in 1..=16 {
        device.turn_to(cases::ms(now));
        device.settle();
    }
    // 20 kB in 16 ms at 10 Mbit/s, less what the first burst owes.
    let sent = device.received("acc").len();
    assert!((17..=20).contains(&sent), "{sent}");
    let error = reload(&mut device, &[]).err().map(|error| error.to_string());
    assert_eq!(error, None);
    device.settle();
    assert_eq!(counter(&mut device, "held"), 0, "it is shaped no more");
    reload(&mut device, &[(HOME, &slow)]).expect("in order");
    device.close().expect("nothing lost");
    let mut device = started(&[]);
    let error = reload(&mut device, &[(HOME, &slow)]).expect_err("no queues").to_string();
    assert!(error.contains("shape"), "{error}");
    device.close().expect("nothing lost");
}

#[test]
fn public_addresses_change_while_connections_stay() {
    let nat = |addresses: &str| format!("nat = {{ pool = [{{ addresses = \"{addresses}\" }}] }}\n{HOME}");
    let (first, second) = (nat("192.0.2.1/32"), nat("192.0.2.8/30"));
    let mut device = started(&[(HOME, &first)]);
    // The public end that the packets of a subscriber leave from.
    let public = |device: &mut Device, packet: Packet| {
        device.send("acc", &packet.build());
        device.settle();
        let sent = device.received("core").pop().expect("it passes").to_vec();
        let source: [u8; 4] = sent[26..30].try_into().expect("an address");
        (Ipv4Addr::from(source), u16::from_be_bytes([sent[34], sent[35]]))
    };
    let of_next = || cases::eth(NEXT_MAC, GW_MAC).service_vlan(100).vlan(2).carrying(&cases::up(NEXT, 64));
    let before = public(&mut device, cases::from_sub(&cases::up(SUB, 64)));
    assert_eq!(before.0, Ipv4Addr::new(192, 0, 2, 1));
    reload(&mut device, &[(HOME, &second)]).expect("in order");
    assert_eq!(public(&mut device, cases::from_sub(&cases::up(SUB, 64))), before, "its connection stays");
    let next = public(&mut device, of_next());
    assert_eq!(next.0.octets()[..3], [192, 0, 2]);
    assert!((8..12).contains(&next.0.octets()[3]), "{next:?}");
    for ((address, port), to) in [(before, SUB), (next, NEXT)] {
        let answer = ip4(cases::SERVER, address).ttl(64).udp(2000, port).payload(b"broadband");
        device.send("core", &cases::from_router(&answer).build());
        device.settle();
        let got = device.received("acc").pop().expect("an answer").to_vec();
        assert_eq!(got[38..42], to.octets(), "{got:?}");
    }
    let refused = reload(&mut device, &[(HOME, &nat("100.64.0.0/30"))]).expect_err("subscribers have these");
    assert!(refused.to_string().contains("nat.pool"), "{refused}");
    device.close().expect("nothing lost");
}
