//! The program of the in-kernel path, run by the kernel on one packet at a time, beside the user-space path.
//!
//! A device with it gets every packet of every golden case: first the program, then, if it leaves the packet, the workers.
//! What leaves, what is dropped and why, and what is counted must be what a device without it does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bng::config::Config;
use bng::fast::{Counts, FastPath, FastPort, Publisher};
use bng::gateway::BroadbandGateway;
use bng::record::SubscriberSpec;
use gateway::fast_path::{InKernelSessions as _, KEY_OWN, NUMBER_BITS, address_key, prefix_key};
use gateway_testkit::mac;
use testkit::golden::{Counters, Outcome, Subject};
use testkit::pcap::Seen;

use crate::device::{Device, configured};
use crate::golden_cases;

/// The loopback: where a packet given to a program comes in by.
const LOOPBACK: u32 = 1;
/// No interface's number.
const ELSEWHERE: u32 = 4000;
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
/// Longer packets come in several pieces, which the program does not take.
const LONGEST: usize = 3000;

/// A broadband gateway with the in-kernel path before it. `SCATTERED`: no block of its index is free, so that all keys are in the
/// hash table.
struct WithKernel<const SCATTERED: bool = false> {
    user_space: Device,
    config: Config,
    path: Arc<FastPath>,
    /// What the program sent, by port.
    sent: BTreeMap<String, Vec<Vec<u8>>>,
    /// Numbers of interfaces, by port: the one that packets come in by has the loopback's.
    interfaces: Vec<u32>,
    /// Hardware addresses that frames come from, and the port that they leave by.
    macs: Vec<([u8; 6], String)>,
}

impl<const SCATTERED: bool> WithKernel<SCATTERED> {
    /// A device as `config` says; the program takes nothing where the in-kernel path is not for it.
    fn new(config: Config) -> Result<Self, String> {
        let workers = config.workers.count;
        let counters = config.layout().map_err(|error| error.to_string())?.counters;
        let counters = 2 * (counters + dataplane::acl::SPARE_COUNTERS);
        let path = Arc::new(FastPath::load(1024, workers, counters).map_err(|error| error.to_string())?);
        if SCATTERED {
            let apart = (0..1024u64).map(|n| KEY_OWN | (0xff00_0000 | n << 6) << NUMBER_BITS);
            apart.for_each(|key| assert!(path.link(key, 1000)));
        }
        let ports = config.port.len();
        let mut macs: Vec<([u8; 6], String)> = Vec::new();
        for port in config.port.iter().filter(|port| port.on.is_none()) {
            macs.push((mac(&port.uri)?, port.name.clone()));
        }
        for group in &config.group {
            let virtual_mac = group.mac.as_deref().and_then(dataplane::config::parse_mac);
            macs.extend(virtual_mac.zip(group.ports.first().cloned()));
        }
        (0..ports as u8).for_each(|port| path.set_egress(port, LOOPBACK).expect("there is a loopback"));
        let mut device = Self {
            user_space: Device::new(&config)?,
            config,
            path,
            sent: BTreeMap::new(),
            interfaces: (0..ports).map(|n| ELSEWHERE + n as u32).collect(),
            macs,
        };
        device.publish();
        device.path.set_running(bng::fast::why_not(&device.config).is_none());
        let (path, now) = (device.path.clone(), device.user_space.clock.now());
        let mut worker = 0;
        device.each(|gateway| {
            gateway.set_fast_path(path.clone(), worker, now);
            worker += 1;
        });
        Ok(device)
    }

    fn each(&mut self, each: impl FnMut(&mut BroadbandGateway)) {
        self.user_space.rig.each_gateway(each);
    }

    /// The program has the tables as they are.
    fn publish(&mut self) {
        let ports = self.config.port.iter().zip(&self.interfaces);
        let ports = ports.map(|(port, ifindex)| Some(FastPort { ifindex: *ifindex, role: port.role.into() })).collect();
        let directory = self.user_space.rig.workers().next().expect("a worker").gateway().state().directory.clone();
        self.user_space.control.set_fast_path(Publisher::new(self.path.clone(), ports), &directory);
    }

    /// All subscribers go into the kernel that can, with the clocks as they stand to each other now.
    fn enter(&mut self) {
        let now = self.user_space.clock.now();
        self.each(|gateway| {
            let subscribers = gateway.subscribers_mut();
            subscribers.kernel_mut().into_iter().for_each(|kernel| kernel.set_clock(now));
            subscribers.open_kernel(true);
        });
    }

    /// How many packets the program has forwarded or dropped.
    fn taken(&self) -> u64 {
        let counts = self.path.counts();
        counts.up.0 + counts.down.0 + counts.drops().map(|(_, count)| count).sum::<u64>()
    }
}

impl<const SCATTERED: bool> Subject for WithKernel<SCATTERED> {
    fn start(config: &toml::Table) -> Result<Self, String> {
        Self::new(configured(config)?)
    }

    fn ports(&self) -> Vec<String> {
        self.user_space.ports()
    }

    fn turn_to(&mut self, now: u64) {
        self.each(|gateway| gateway.subscribers_mut().open_kernel(false));
        self.user_space.turn_to(now);
        self.enter();
    }

    fn send(&mut self, port: &str, packet: &[u8]) {
        let number = self.ports().iter().position(|name| name == port).expect("a port there is");
        if self.interfaces[number] != LOOPBACK {
            self.interfaces = (0..self.interfaces.len()).map(|n| ELSEWHERE + n as u32).collect();
            self.publish();
            self.interfaces[number] = LOOPBACK;
        }
        self.publish();
        // A subscriber that was handed back has stayed long enough.
        self.enter();
        let run = if (14..LONGEST).contains(&packet.len()) {
            self.path.program().expect("loaded").test_run(packet).expect("the kernel runs it")
        } else {
            return self.user_space.send(port, packet);
        };
        match run.verdict {
            XDP_PASS => {
                assert_eq!(run.packet, packet, "left as it came");
                self.user_space.send(port, packet);
                // The worker takes it before the next one comes, as it does where packets are far between.
                self.user_space.settle();
            }
            XDP_REDIRECT => {
                let from: [u8; 6] = run.packet[6..12].try_into().expect("six bytes");
                let (_, out) = self.macs.iter().find(|(mac, _)| *mac == from).expect("a port of ours");
                self.sent.entry(out.clone()).or_default().push(run.packet);
            }
            verdict => assert_eq!(verdict, XDP_DROP),
        }
    }

    fn step(&mut self, what: &toml::Table) -> Result<(), String> {
        self.user_space.step(what)?;
        // The worker has done it before the next packet comes.
        self.user_space.settle();
        Ok(())
    }

    fn settle(&mut self) {
        self.user_space.settle();
    }

    fn received(&mut self, port: &str) -> Vec<Vec<u8>> {
        let mut all = self.sent.remove(port).unwrap_or_default();
        all.extend(self.user_space.received(port));
        all
    }

    fn counters(&mut self) -> Counters {
        let mut counters = self.user_space.counters();
        let Counts { up, down, .. } = self.path.counts();
        for (name, count) in self.path.counts().drops().filter(|(_, count)| *count > 0) {
            let dropped = counters.drops.entry(format!("kernel.fast_path.{name}")).or_default();
            dropped.packets += count;
        }
        counters.gateway.insert("kernel.taken".into(), self.taken());
        counters.gateway.insert("kernel.forwarded".into(), up.0 + down.0);
        counters
    }

    fn close(self) -> Result<(), String> {
        self.user_space.close()
    }
}

/// Packets dropped, by reason, wherever.
fn drops(counters: &Counters) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    for (place, dropped) in &counters.drops {
        *drops.entry(place.rsplit('.').next().unwrap_or(place).to_owned()).or_default() += dropped.packets;
    }
    drops
}

/// What the gateway has counted beside drops: of subscribers, lists, classes.
fn counted(counters: &Counters) -> BTreeMap<&String, u64> {
    let all = counters.gateway.iter().filter(|(name, _)| !name.starts_with("kernel."));
    all.map(|(name, value)| (name, *value)).collect()
}

/// What left by each port, whatever the order.
fn outputs(outcome: &Outcome) -> BTreeMap<&String, Vec<&Vec<u8>>> {
    fn sorted(seen: &[Seen]) -> Vec<&Vec<u8>> {
        let mut packets: Vec<_> = seen.iter().map(|seen| &seen.bytes).collect();
        packets.sort();
        packets
    }
    outcome.outputs.iter().map(|(port, seen)| (port, sorted(seen))).collect()
}

/// Runs a case with the in-kernel path and without: what differs, and how many packets were the kernel's.
fn compare<const SCATTERED: bool>(
    case: &golden_cases::Case,
    inputs: &BTreeMap<String, Vec<Seen>>,
) -> (Vec<String>, u64) {
    let (kernel, said) = testkit::golden::run::<WithKernel<SCATTERED>>(&case.config, &case.steps, inputs, case.until);
    let (plain, _) = testkit::golden::run::<Device>(&case.config, &case.steps, inputs, case.until);
    let mut faults: Vec<_> = said.into_iter().map(|fault| format!("{}: {fault}", case.name)).collect();
    if outputs(&kernel) != outputs(&plain) {
        faults.push(format!("{}: {:02x?}\nnot {:02x?}", case.name, outputs(&kernel), outputs(&plain)));
    }
    let [ours, theirs] = [&kernel, &plain].map(|outcome| (drops(&outcome.counters), counted(&outcome.counters)));
    if ours != theirs {
        faults.push(format!("{}: {ours:?}\nnot {theirs:?}", case.name));
    }
    (faults, kernel.counters.gateway.get("kernel.taken").copied().unwrap_or(0))
}

/// Cases with packets that must be the kernel's, whatever else is.
const KERNELS: &[&str] = &[
    "access/ipv6_wan_and_delegated",
    "access/qinq_both_ways",
    "access/shared_vlan",
    "access/single_tagged",
    "access/spoofed_ipv4",
    "access/untagged",
    "ports/several_next_hops",
    "rates/accounted_layer2",
    "rates/acl_denied",
    "rates/acls_that_permit",
    "rates/dscp_up",
    "rates/policed_up",
    "rates/priority_down",
];

/// A case of what there is not here: packets that come in one burst.
const ELSEWHERE_ONLY: &str = "rates/shaped_queue_full";

/// All cases, with rates so low that what passes does not depend on the clock: the kernel's runs on.
fn cases() -> impl Iterator<Item = golden_cases::Case> {
    let all = golden_cases::all().into_iter().filter(|case| &*case.name != ELSEWHERE_ONLY);
    all.map(|mut case| {
        let text = case.config.to_string().replace("\"1 Mbit/s\"", "\"8 kbit/s\"");
        case.config = text.parse().expect("TOML");
        case
    })
}

#[test]
fn golden_cases_come_out_the_same_through_the_kernel() {
    run_golden_cases::<false>();
}

#[test]
fn golden_cases_come_out_the_same_with_scattered_keys() {
    run_golden_cases::<true>();
}

fn run_golden_cases<const SCATTERED: bool>() {
    let (mut taken, mut faults) = (BTreeMap::new(), Vec::new());
    for case in cases() {
        let (said, here) = compare::<SCATTERED>(&case, &case.inputs);
        faults.extend(said);
        taken.insert(case.name.to_string(), here);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    taken.retain(|_, count| *count > 0);
    let total: u64 = taken.values().sum();
    println!("{total} packets of {} cases were the kernel's: {taken:?}", taken.len());
    for name in KERNELS {
        assert!(taken.contains_key(*name), "{name}: no packet was the kernel's: {taken:?}");
    }
}

/// Numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    /// A packet like that one: some octets, its length, or both are others. Half of them have whole checksums again. Not of
    /// ARP: what a burst of changed answers leaves depends on when tables change.
    fn change(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut changed = packet.to_vec();
        if [12, 16, 20].iter().any(|at| packet.get(*at..at + 2) == Some(&[8, 6])) {
            return changed;
        }
        changed.resize(changed.len().max(15), 0);
        for _ in 0..=self.below(3) {
            let at = self.below(changed.len().min(90));
            match self.below(6) {
                0 => changed.truncate(14 + self.below(changed.len())),
                1 => changed.extend((0..=self.below(24)).map(|n| n as u8)),
                2 => changed[at] = [0, 1, 4, 0x45, 0x60, 0x7f, 0x80, 0xff][self.below(8)],
                _ => changed[at] ^= 1 << self.below(8),
            }
            changed.resize(changed.len().max(15), 0);
        }
        if self.below(2) == 0 {
            [14, 18, 22].into_iter().for_each(|at| make_whole(&mut changed, at));
        }
        changed
    }
}

/// Keys of all kinds, dense and far apart, come, move and go at random: each leads where it was linked to last.
#[test]
fn keys_lead_where_they_were_linked() {
    let path = FastPath::load(1024, 1, 1).expect("root may");
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut model: BTreeMap<u64, u32> = BTreeMap::new();
    let mixed = |n: u64| KEY_OWN | 1 << 61 | (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 27) << NUMBER_BITS;
    let (mut refused, mut moved) = (0, 0);
    for step in 0..60_000 {
        let (near, apart) = (random.below(1500) as u64, random.below(600) as u64);
        let key = match random.below(5) {
            0 => address_key(1, 0x0a40_0000 + near as u32),
            1 => address_key(2, (apart as u32) << 12),
            2 => prefix_key(0, 0x2001_0db8_0000_0000 + (near << 8), 56),
            3 => mixed(apart),
            _ => KEY_OWN | near << NUMBER_BITS,
        };
        let (number, is_mixed) = (random.below(1024) as u32, key & 3 << 61 == 3 << 61 && key >> 62 == 3);
        let known = model.get(&key).copied();
        if step % 3 == 2 {
            path.unlink(key, known.unwrap_or(number));
            model.remove(&key);
        } else {
            let linked = if is_mixed { path.link_mixed(key, number) } else { path.link(key, number) };
            // Keys that others may be equal to stay with their session.
            let stays = (is_mixed || key >> 62 == 2) && known.is_some_and(|old| old != number);
            assert!(!(linked && stays), "{key:x} of {known:?} was given to {number}");
            refused += u32::from(!linked && !stays);
            moved += u32::from(linked && known.is_some());
            if linked {
                model.insert(key, number);
            }
        }
        assert_eq!(path.leads_to(key), model.get(&key).copied(), "{key:x}");
        if step % 5000 == 0 {
            for (key, number) in &model {
                assert_eq!(path.leads_to(*key), Some(*number), "{key:x}");
            }
        }
    }
    assert!(moved > 1000 && model.len() > 1000, "{moved} moved, {} at the end", model.len());
    assert!(refused < 60, "{refused} found no room among {}", model.len());
    for (key, number) in std::mem::take(&mut model) {
        path.unlink(key, number);
        assert_eq!(path.leads_to(key), None);
    }
}

/// Gives the IPv4 header there, if it is one without options, its checksum.
fn make_whole(packet: &mut [u8], at: usize) {
    let Some(header) = packet.get_mut(at..at + 20).filter(|header| header[0] == 0x45) else { return };
    header[10..12].fill(0);
    let words = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16; // folded
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// `WEIR_CHANGES="COUNT SEED"`: so many changed packets beside each one, and where their changes begin. Without, eight.
#[test]
fn changed_packets_come_out_the_same_through_the_kernel() {
    let asked = std::env::var("WEIR_CHANGES").ok();
    let mut words = asked.iter().flat_map(|text| text.split_whitespace()).map(|word| word.parse().expect("a number"));
    let (count, seed): (u64, u64) = (words.next().unwrap_or(8), words.next().unwrap_or(1));
    // Control packets are limited by a clock, and what comes in a burst waits in queues.
    let is_about_packets =
        |name: &str| name.starts_with("access/") || name.starts_with("rates/") && !name.contains("shaped");
    let cases = cases().enumerate().filter(|(_, case)| is_about_packets(&case.name));
    let (mut taken, mut sent, mut faults) = (0, 0, Vec::new());
    for (n, case) in cases {
        let mut random = Random(((seed << 16) + n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut with_changed = |packet: &Seen| {
            let others = (0..count).map(|_| Seen { at: packet.at, bytes: random.change(&packet.bytes) });
            others.chain([packet.clone()]).collect::<Vec<_>>()
        };
        let inputs = case
            .inputs
            .iter()
            .map(|(port, packets)| (port.clone(), packets.iter().flat_map(&mut with_changed).collect::<Vec<_>>()));
        let inputs: BTreeMap<_, _> = inputs.collect();
        sent += inputs.values().map(Vec::len).sum::<usize>();
        let (said, here) = compare::<false>(&case, &inputs);
        faults.extend(said);
        taken += here;
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    println!("{taken} of {sent} packets were the kernel's");
    assert!(taken > 120, "only {taken} of {sent} packets were the kernel's");
}

/// The gateway, its first subscriber with that tier, and a usual packet of it with so many bytes.
fn with_tier(tier: &str) -> (WithKernel, impl Fn(usize) -> Vec<u8>) {
    let text = golden_cases::BASE.replace("profile = [ { name = \"home\" } ]", &format!("profile = [ {{ {tier} }} ]"));
    let device = WithKernel::start(&text.parse().expect("TOML")).expect("a gateway");
    let packet = |bytes: usize| golden_cases::ip4(golden_cases::SUB, golden_cases::SERVER).udp(1, 2).filled(bytes - 28);
    (device, move |bytes| golden_cases::from_sub(&packet(bytes)).build())
}

fn verdict(path: &FastPath, packet: &[u8]) -> u32 {
    path.program().expect("loaded").test_run(packet).expect("the kernel runs it").verdict
}

/// What two CPUs get through one policer of 100 Mbit/s, as parts of that rate: at least, and at most.
fn hammered_by_two_cpus(device: &WithKernel, packet: &[u8]) -> (f64, f64) {
    const RATE: f64 = 100e6;
    let (path, is_over) = (&*device.path, AtomicBool::new(false));
    let bits = || (path.counts().up.1 * 8) as f64;
    let ([first, last], offered) = std::thread::scope(|scope| {
        let hammer = || {
            let mut sent = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                let verdict = verdict(path, packet);
                assert!(verdict == XDP_REDIRECT || verdict == XDP_DROP, "verdict {verdict}");
                sent += 1;
            }
            sent
        };
        let both = [scope.spawn(hammer), scope.spawn(hammer)];
        // Until the bucket is empty, and then for two seconds.
        let samples = [300, 2000].map(|wait| {
            std::thread::sleep(Duration::from_millis(wait));
            let before = Instant::now();
            let seen = bits();
            (before, seen, Instant::now())
        });
        is_over.store(true, Ordering::Relaxed);
        (samples, both.map(|thread| thread.join().expect("it hammers")))
    });
    let least = (last.1 - first.1) / (last.2 - first.0).as_secs_f64() / RATE;
    let most = (last.1 - first.1) / (last.0 - first.2).as_secs_f64() / RATE;
    println!("{offered:?} packets offered; {least:.3} to {most:.3} of the rate");
    assert!(offered.iter().all(|sent| *sent > 10_000), "both CPUs offer more than the rate: {offered:?}");
    (least, most)
}

#[test]
fn two_cpus_share_a_rate() {
    let (mut device, packet) = with_tier("name = \"home\", up = \"100 Mbit/s\"");
    device.interfaces[0] = LOOPBACK;
    device.publish();
    device.enter();
    let packet = packet(1000);
    // Above the rate is never. Below it is where neither thread had a CPU for longer than the bucket lasts.
    let rounds = (0..8).map(|_| hammered_by_two_cpus(&device, &packet));
    let rounds = rounds.inspect(|(least, _)| assert!(*least < 1.01, "{least} of the rate"));
    let best = rounds.map(|(_, most)| most).find(|most| *most > 0.99);
    assert!(best.is_some(), "below the rate in all rounds");
    // What is counted is what has passed: no packet more, none less.
    let up = device.path.counts().up;
    device.each(|gateway| gateway.subscribers_mut().open_kernel(false));
    let usage = device.user_space.rig.workers().next().expect("a worker").gateway().state().subscribers.usage(0);
    let usage = usage.expect("the first subscriber");
    assert_eq!((usage.up_packets[0], usage.up_bytes[0]), up);
}

#[test]
fn a_removed_subscriber_is_not_forwarded() {
    let (mut device, packet) = with_tier("name = \"home\"");
    device.interfaces[0] = LOOPBACK;
    device.publish();
    device.enter();
    let packet = packet(100);
    assert_eq!(verdict(&device.path, &packet), XDP_REDIRECT);
    assert_eq!(verdict(&device.path, &packet), XDP_REDIRECT);
    let mut used = None;
    device.each(|gateway| used = gateway.subscribers_mut().remove(0).or(used));
    assert_eq!(verdict(&device.path, &packet), XDP_PASS, "it has ended");
    let used = used.expect("there was one");
    assert_eq!((used.up_packets, used.up_bytes), ([2, 0], [200, 0]));
}

/// Two CPUs send while the subscriber's tier changes: what was forwarded is what it has used, and no packet is lost between
/// the old rules and the new.
#[test]
fn usage_is_exact_while_tiers_change() {
    let tiers = "name = \"home\", up = \"50 Mbit/s\" }, { name = \"other\", up = \"80 Mbit/s\", accounted = \"l2\"";
    let (mut device, packet) = with_tier(tiers);
    device.interfaces[0] = LOOPBACK;
    device.publish();
    device.enter();
    let (path, packet, is_over) = (device.path.clone(), packet(1000), AtomicBool::new(false));
    let spec = *device.user_space.control.subscriber(0).expect("the first subscriber");
    let forwarded: u64 = std::thread::scope(|scope| {
        let hammer = || {
            let mut forwarded = 0;
            while !is_over.load(Ordering::Relaxed) {
                forwarded += u64::from(verdict(&path, &packet) == XDP_REDIRECT);
            }
            forwarded
        };
        let both = [scope.spawn(hammer), scope.spawn(hammer)];
        for n in 0..400 {
            let spec = SubscriberSpec { profile: n % 2, ..spec };
            device.each(|gateway| {
                // Only the worker that has its group takes it.
                let _ = gateway.subscribers_mut().install(&spec, 1_000_000 * u64::from(n));
            });
            device.enter();
            std::thread::sleep(Duration::from_millis(2));
        }
        is_over.store(true, Ordering::Relaxed);
        both.map(|thread| thread.join().expect("it hammers")).into_iter().sum()
    });
    let counts = path.counts();
    device.each(|gateway| gateway.subscribers_mut().open_kernel(false));
    let usage = device.user_space.rig.workers().next().expect("a worker").gateway().state().subscribers.usage(0);
    let usage = usage.expect("the first subscriber");
    assert_eq!((usage.up_packets[0], counts.up.0), (forwarded, forwarded));
    // With or without 22 octets of link header, as the tier had it when the packet passed.
    let more = usage.up_bytes[0] - forwarded * 1000;
    assert!(more.is_multiple_of(22) && more > 0 && more < forwarded * 22, "{more} of {forwarded} packets");
    assert!(forwarded > 1000, "only {forwarded} packets");
}

/// After a move the new owner has its subscribers in the kernel, without being told for each: one with IPv4 and two IPv6
/// prefixes.
fn comes_back_by_itself(device: &mut WithKernel) {
    device.user_space.control.move_group(0, 1).expect("it can move");
    let until = Instant::now() + Duration::from_secs(5);
    let place = |device: &WithKernel| {
        let owner = device.user_space.rig.workers().nth(1).expect("two workers");
        owner.gateway().state().subscribers.kernel_in_words(0).map_or_else(String::new, |place| place.to_string())
    };
    while place(device) != "in the kernel" && Instant::now() < until {
        let now = device.user_space.clock.now();
        device.user_space.control.poll(now);
        device.user_space.rig.turn();
        device.user_space.clock.turn_to(now + 1_000_000);
    }
    assert_eq!(place(device), "in the kernel");
}

/// A group moves to and fro between two workers while its subscriber sends: every packet leaves, by the kernel or by a worker,
/// and is counted once.
#[test]
fn a_group_that_moves_takes_its_counts_along() {
    let text = format!("workers = {{ count = 2 }}\n{}", golden_cases::BASE);
    let text = text.replace("gateway = \"bng\"\n", "");
    let mut device =
        WithKernel::start(&format!("gateway = \"bng\"\n{text}").parse().expect("TOML")).expect("a gateway");
    let packet = |n: u32| golden_cases::ip4(golden_cases::SUB, golden_cases::SERVER).udp(1, 2).payload(n.to_be_bytes());
    let (mut sent, mut received) = (0, 0);
    let mut send = |device: &mut WithKernel, count: u32| {
        for _ in 0..count {
            device.send("acc", &golden_cases::from_sub(&packet(sent)).build());
            sent += 1;
        }
        sent
    };
    for n in 0..20_u16 {
        send(&mut device, 20);
        device.user_space.control.move_group(0, 1 - n % 2).expect("it can move");
        for _ in 0..8 {
            let now = device.user_space.clock.now();
            device.user_space.control.poll(now);
            device.user_space.rig.turn();
            send(&mut device, 1);
        }
        device.settle();
        received += device.received("core").len();
    }
    let sent = send(&mut device, 20);
    device.settle();
    received += device.received("core").len();
    assert_eq!(received, sent as usize);
    comes_back_by_itself(&mut device);
    let up = device.path.counts().up;
    device.each(|gateway| gateway.subscribers_mut().open_kernel(false));
    let usages = device.user_space.rig.workers().filter_map(|worker| worker.gateway().state().subscribers.usage(0));
    let usages: Vec<_> = usages.collect();
    assert_eq!(usages.len(), 1, "one worker has it");
    assert_eq!((usages[0].up_packets[0], usages[0].up_bytes[0]), (sent.into(), u64::from(sent) * 32));
    assert!(up.0 > u64::from(sent) / 2, "only {} of {sent} packets were the kernel's", up.0);
}
