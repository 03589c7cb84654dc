//! What translation and access lists cost a packet, as JSON: nanoseconds charged to the stage, the quietest tenth of many
//! rounds and their median.
//!
//! `cargo run --release -p stages --example functions [nat-out|nat-in|acl] [flows or rules] [rounds]`
//!
//! Instructions are counted by valgrind, in the stage alone:
//! `valgrind --tool=callgrind --toggle-collect='*TranslateOut*Stage*run*' target/release/examples/functions nat-out 1000 20`

#[path = "../tests/gateway/mod.rs"]
mod gateway;

use std::net::Ipv4Addr;

use dataplane::acl::{AccessList, AccessLists, Action, Hits, PortRange, Rule};
use dataplane::nat;
use gateway::{Plane, State, WORLD};
use table::hint::tsc_hz;
use testkit::packet::ip4;
use testkit::rig::{Clock, Memories, Rig};
use wire::L3L4;

/// Packets between two looks at the counters.
const ROUND: usize = 64 * 32;
/// Flows of a subscriber.
const FLOWS: u32 = 8;
const REMOTE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next();
    let number = |arg: Option<String>| arg.and_then(|arg| arg.parse().ok());
    let (size, rounds) = (number(args.next()), number(args.next()).unwrap_or(400));
    let is = |name: &str| what.as_deref().is_none_or(|what| what == name);
    let mut lines = Vec::new();
    for flows in size.map_or(vec![1_000, 100_000, 1_000_000], |size| vec![size]) {
        for out in [true, false].into_iter().filter(|out| is(if *out { "nat-out" } else { "nat-in" })) {
            lines.push(translation(flows, out, rounds));
        }
    }
    for rules in size.map_or(vec![10, 1_000, 10_000], |size| vec![size]).into_iter().filter(|_| is("acl")) {
        lines.push(list(rules, rounds));
    }
    println!("[\n  {}\n]", lines.join(",\n  "));
}

fn rig(flows: usize, lists: AccessLists) -> Rig<Plane> {
    let first = u32::from(Ipv4Addr::new(198, 18, 0, 0));
    let addresses = (flows as u32 / FLOWS / 500).max(1);
    let pool = nat::Pool { instance: WORLD, first: first.into(), last: (first + addresses).into() };
    let config = nat::Config {
        pools: vec![pool],
        block_ports: 64,
        mappings: flows + 1000,
        subscribers: flows / FLOWS as usize + 1000,
        seed: 7,
        ..nat::Config::default()
    };
    let (producer, log) = table::ring::ring(flows / FLOWS as usize + 1000);
    let nat = nat::Nat::new(&config, 0, 1, producer, 0).expect("a translator");
    std::mem::forget(log);
    let (plane, layout) = Plane::new(State { nat, lists }, &Hits::new(0), dataplane::reassemble::Config::default());
    Rig::new(plane, layout, &Plane::ports(), Memories::default(), &Clock::at(0))
}

/// Sends a round of packets; returns the cycles a packet was charged in the stage.
fn round(rig: &mut Rig<Plane>, stage: (&str, &str), from: &str, packets: impl Iterator<Item = Vec<u8>>) -> f64 {
    let charged = |rig: &Rig<Plane>| {
        let rows = rig.stats().stages();
        let row = rows.iter().find(|row| (row.stage.pipeline, row.stage.name) == stage).expect("the stage");
        (row.cycles, row.packets)
    };
    let before = charged(rig);
    packets.for_each(|packet| rig.wire(from).send(packet));
    rig.settle(|_, _| false);
    let after = charged(rig);
    (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64
}

fn report(what: &str, size: usize, mut cycles: Vec<f64>) -> String {
    cycles.sort_by(f64::total_cmp);
    let ns = |cycles: f64| cycles * 1e9 / tsc_hz() as f64;
    let (quiet, median) = (ns(cycles[cycles.len() / 20]), ns(cycles[cycles.len() / 2]));
    format!(r#"{{"stage": "{what}", "size": {size}, "ns_per_packet_quiet": {quiet:.1}, "ns_per_packet": {median:.1}}}"#)
}

fn translation(flows: usize, out: bool, rounds: usize) -> String {
    let mut rig = rig(flows, AccessLists::default());
    let packet = |n: u32| {
        ip4(Ipv4Addr::from(0x0a00_0000 + n / FLOWS), REMOTE).udp(5000 + (n % FLOWS) as u16, 53).filled(64).build()
    };
    let mut public = Vec::with_capacity(flows);
    for from in (0..flows as u32).step_by(ROUND) {
        (from..(from + ROUND as u32).min(flows as u32)).for_each(|n| rig.wire("inside").send(packet(n)));
        rig.settle(|_, _| false);
        public.extend(rig.wire("outside").received().iter().map(|packet| {
            let ip = L3L4::parse(packet).expect("a packet");
            (ip.src, ip.src_port)
        }));
    }
    assert_eq!(public.len(), flows, "{:?}", rig.stats().drops());
    let mut random = random();
    let mut cycles = Vec::new();
    for _ in 0..rounds {
        let mut next = || {
            let n = random() % flows;
            if out {
                return packet(n as u32);
            }
            ip4(REMOTE, Ipv4Addr::from(public[n].0)).udp(53, public[n].1).filled(64).build()
        };
        let packets: Vec<_> = (0..ROUND).map(|_| next()).collect();
        let (stage, from, to) = match out {
            true => (("up", "translate_out"), "inside", "outside"),
            false => (("down", "translate_in"), "outside", "inside"),
        };
        cycles.push(round(&mut rig, stage, from, packets.into_iter()));
        rig.wire(to).received();
    }
    report(if out { "translate_out" } else { "translate_in" }, flows, cycles)
}

/// A list as they are: hosts and networks with a port or a range, the last rule for all.
fn list(rules: usize, rounds: usize) -> String {
    let mut random = random();
    let made: Vec<_> = (0..rules)
        .map(|n| {
            let to = Ipv4Addr::from(0xcb00_0000 | random() as u32 & 0x00ff_ffff);
            let first = (random() % 1024) as u16;
            let ports = PortRange { first, last: first + [0, 0, 0, 100][n % 4] };
            let protocol = Some([6, 17][n % 2]);
            let dst = Some((to.into(), [32, 24, 24, 16][n % 4]));
            Rule { dst, protocol, dst_ports: Some(ports), ..Rule::any(Action::Deny, 0) }
        })
        .collect();
    let list = AccessList::compile(&made, Action::Permit, 0).expect("sound rules");
    let bytes = list.bytes();
    let mut lists = AccessLists::default();
    lists.set(WORLD, list);
    let mut rig = rig(1000, lists);
    let mut cycles = Vec::new();
    for _ in 0..rounds {
        let packet = |bits: usize| {
            let to = Ipv4Addr::from(0xcb00_0000 | bits as u32 & 0x00ff_ffff);
            ip4(Ipv4Addr::new(10, 0, 0, 1), to).udp(5000, (bits >> 32) as u16 % 1200).filled(64).build()
        };
        let packets: Vec<_> = (0..ROUND).map(|_| packet(random())).collect();
        cycles.push(round(&mut rig, ("up", "check_acl"), "inside", packets.into_iter()));
        rig.wire("outside").received();
    }
    report("check_acl", rules, cycles).replace('}', &format!(r#", "list_bytes": {bytes}}}"#))
}

fn random() -> impl FnMut() -> usize {
    let mut state = 88_172_645_463_325_252u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    }
}
