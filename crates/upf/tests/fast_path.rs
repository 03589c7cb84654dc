//! The program of the in-kernel path, run by the kernel on one packet at a time, beside the user-space path.
//!
//! A device with it gets every packet of every golden case: first the program, then, if it leaves the packet, the workers.
//! What leaves, what is dropped and why, and what is counted must be what a device without it does.

mod lists_and_flows; // access lists and translation

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gateway::fast_path::InKernelSessions as _;
use gateway::shell::Sections as _;
use gateway::shell::ports::device_of;
use gateway_testkit::mac;
use serde::Deserialize as _;
use testkit::golden::{Counters, Outcome, Subject};
use testkit::pcap::Seen;
use upf::config::Config;
use upf::fast::{Counts, FastPath, FastPort, Publisher, Room};

use crate::device::Device;
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

/// A user plane with the in-kernel path before it.
struct WithKernel {
    user_space: Device,
    path: Arc<FastPath>,
    publisher: Publisher,
    /// What the program sent, by port.
    sent: BTreeMap<String, Vec<Vec<u8>>>,
    /// Hardware addresses of ports.
    macs: Vec<([u8; 6], String)>,
}

impl WithKernel {
    /// A device as `config` says, or none where the in-kernel path is not for it.
    fn new(config: Config) -> Result<Self, String> {
        let workers = config.workers.count;
        let rules: usize = config.acl.iter().map(|acl| acl.rules.len() + 1).sum();
        let counters = if rules > 0 { 2 * (rules as u32 + dataplane::acl::SPARE_COUNTERS) } else { 0 };
        let flows = if config.nat.is_some() { config.fast_path.flows.min(1024) } else { 0 };
        let room = Room { sessions: 1024, workers, counters, flows };
        let path = Arc::new(FastPath::load(room).map_err(|error| error.to_string())?);
        let ports = config.port.len();
        let with_wire = config.port.iter().filter(|port| port.on.is_none());
        let macs = with_wire.map(|port| Ok((mac(&port.uri)?, port.name.clone())));
        let macs = macs.collect::<Result<_, String>>()?;
        (0..ports as u8).for_each(|port| path.set_egress(port, LOOPBACK).expect("there is a loopback"));
        let zero_sum6 = config.gtpu.zero_checksum_over_ipv6;
        let publisher = || Publisher::new(path.clone(), vec![None; ports]).with_zero_sum6(zero_sum6);
        let (user_space, shown) = (Device::new(config)?, publisher());
        let mut device = Self { user_space, path: path.clone(), publisher: shown, sent: BTreeMap::new(), macs };
        device.user_space.control().set_fast_path(publisher());
        let (path, now) = (device.path.clone(), device.user_space.now());
        let mut worker = 0;
        device.user_space.rig().each_gateway(|gateway| {
            gateway.set_fast_path(path.clone(), worker, now);
            worker += 1;
        });
        device.publish(0);
        device.path.set_running(device.is_for_kernel());
        device.enter();
        Ok(device)
    }

    /// Whether the stages of this gateway are all known to the program.
    fn is_for_kernel(&self) -> bool {
        upf::fast::why_not(self.user_space.config()).is_none()
    }

    /// All sessions go into the kernel that can, with the clocks as they stand to each other now.
    fn enter(&mut self) {
        let (path, now) = (self.path.clone(), self.user_space.now());
        let mut worker = 0;
        self.user_space.rig().each_gateway(|gateway| {
            gateway.sessions_mut().open_kernel(false);
            gateway.sessions_mut().set_fast_path(path.clone(), worker, now);
            worker += 1;
        });
    }

    /// The program has the tables as they are, and the packets it gets next come in by that port's device.
    fn publish(&mut self, port: usize) {
        let head = self.user_space.config().head();
        let device = |n: usize| device_of(&head.ports, n);
        let ifindex = |n: usize| if device(n) == port { LOOPBACK } else { ELSEWHERE + device(n) as u32 };
        let ports = self.user_space.config().port.iter().enumerate();
        let ports = ports.map(|(n, port)| Some(FastPort { ifindex: ifindex(n), role: port.role.into() })).collect();
        self.publisher.set_ports(ports);
        let plan = self.user_space.control().plan();
        self.publisher.publish(plan, &plan.compile());
    }

    /// The number of a port.
    fn number(&self, port: &str) -> usize {
        self.user_space.config().port.iter().position(|known| known.name == port).expect("a port there is")
    }

    /// How many packets the program has forwarded or dropped.
    fn taken(&self) -> u64 {
        let counts = self.path.counts();
        counts.up.0 + counts.down.0 + counts.drops().map(|(_, count)| count).sum::<u64>()
    }
}

impl Subject for WithKernel {
    fn start(config: &toml::Table) -> Result<Self, String> {
        Self::new(Config::deserialize(config.clone()).map_err(|error| error.to_string())?)
    }

    fn ports(&self) -> Vec<String> {
        self.user_space.ports()
    }

    fn turn_to(&mut self, now: u64) {
        let before = self.user_space.now();
        self.user_space.rig().each_gateway(|gateway| gateway.leave_kernel(before));
        self.user_space.turn_to(now);
        self.enter();
    }

    fn send(&mut self, port: &str, packet: &[u8]) {
        self.publish(self.number(port));
        // A session that was handed back has stayed long enough.
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
                // When it came is this clock's time, whatever the kernel's has done until it is asked for.
                let now = self.user_space.now();
                self.user_space.rig().each_gateway(|gateway| gateway.ask_flows(now));
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

/// Usage of sessions. Times are the kernel's clock's here, and a simulated one's there.
fn usage(counters: &Counters) -> BTreeMap<&String, u64> {
    let is_usage = |name: &str| name.starts_with("usage.") || name.starts_with("final.");
    let counted = |name: &str| is_usage(name) && !name.ends_with("_ns");
    counters.gateway.iter().filter(|(name, _)| counted(name)).map(|(name, value)| (name, *value)).collect()
}

/// Hits of access lists, and translation.
fn functions(counters: &Counters) -> BTreeMap<&String, u64> {
    let counted = |name: &str| name.starts_with("acl.") || name.starts_with("nat.");
    counters.gateway.iter().filter(|(name, _)| counted(name)).map(|(name, value)| (name, *value)).collect()
}

/// What left by each port, whatever the order.
fn outputs(outcome: &Outcome) -> BTreeMap<&String, Vec<&Vec<u8>>> {
    fn sorted(seen: &[testkit::pcap::Seen]) -> Vec<&Vec<u8>> {
        let mut packets: Vec<_> = seen.iter().map(|seen| &seen.bytes).collect();
        packets.sort();
        packets
    }
    outcome.outputs.iter().map(|(port, seen)| (port, sorted(seen))).collect()
}

/// Cases of what there is not here: packets that come in one burst, a port that takes no more.
const ELSEWHERE_ONLY: &[&str] = &["neighbours/new_packets_do_not_overtake", "link/jammed_port"];

/// Whether buckets are part of a case: they fill by the simulated clock there and by the kernel's here. That the kernel's
/// hold their rate is tried between hosts (`tests/net/fast_path.py`).
fn has_rates(case: &golden_cases::Case) -> bool {
    let steps = case.steps.iter().map(|step| step.what.to_string());
    let texts = steps.chain([case.config.to_string()]).collect::<Vec<_>>();
    texts.iter().any(|text| ["mbr_", "rates_"].iter().any(|key| text.contains(key)))
}

/// The cases that qualify.
fn cases() -> impl Iterator<Item = golden_cases::Case> {
    let fits = |case: &golden_cases::Case| !ELSEWHERE_ONLY.contains(&&*case.name) && !has_rates(case);
    golden_cases::all().into_iter().filter(fits)
}

/// Runs a case with the in-kernel path and without: what differs, and how many packets were the kernel's.
fn compare(case: &golden_cases::Case, inputs: &BTreeMap<String, Vec<Seen>>) -> (Vec<String>, u64) {
    let (kernel, said) = testkit::golden::run::<WithKernel>(&case.config, &case.steps, inputs, case.until);
    let (plain, _) = testkit::golden::run::<Device>(&case.config, &case.steps, inputs, case.until);
    let mut faults: Vec<_> = said.into_iter().map(|fault| format!("{}: {fault}", case.name)).collect();
    if outputs(&kernel) != outputs(&plain) {
        faults.push(format!("{}: {:02x?}\nnot {:02x?}", case.name, outputs(&kernel), outputs(&plain)));
    }
    let all = |counters| (drops(counters), usage(counters), functions(counters));
    let [ours, theirs] = [all(&kernel.counters), all(&plain.counters)];
    if ours != theirs {
        faults.push(format!("{}: {ours:?}\nnot {theirs:?}", case.name));
    }
    (faults, kernel.counters.gateway.get("kernel.taken").copied().unwrap_or(0))
}

/// Cases with packets that must be the kernel's, whatever else is.
const KERNELS: &[&str] = &[
    "acl/before_and_behind_translation",
    "acl/both_directions",
    "acl/default_is_deny",
    "nat/icmp_echo",
    "nat/tcp_opens_and_closes",
    "nat/timeouts_follow_packets",
    "nat/udp_there_and_back",
    "downlink/ipv4_over_ipv4",
    "downlink/ipv6_over_ipv4",
    "downlink/any_address_of_the_prefix",
    "downlink/every_length_over_ipv6",
    "downlink/ipv4_over_ipv6",
    "downlink/ipv6_over_ipv6",
    "downlink/odd_lengths_over_ipv6",
    "downlink/zero_checksum_over_ipv6",
    "link/vlan_port",
    "link/stacked_ports",
    "one_device/a_stack_and_a_vlan",
    "one_device/a_vlan_and_none",
    "one_device/two_vlans",
    "selection/filters_for_ipv6",
    "uplink/ipv4_over_ipv6",
    "uplink/ipv6_over_ipv4",
    "uplink/ipv6_over_ipv6",
    "uplink/zero_udp_checksum",
];

#[test]
fn golden_cases_come_out_the_same_through_the_kernel() {
    let (mut taken, mut faults) = (BTreeMap::new(), Vec::new());
    for case in cases() {
        let (said, here) = compare(&case, &case.inputs);
        faults.extend(said);
        taken.insert(case.name.to_string(), here);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    taken.retain(|_, count| *count > 0);
    let total: u64 = taken.values().sum();
    println!("{total} packets of {} cases were the kernel's: {taken:?}", taken.len());
    assert!(taken.len() > 50 && total > 480, "only {total} packets of {} cases were the kernel's", taken.len());
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

    /// A packet like that one: some octets, its length, or both are others. Half of them have whole checksums again.
    /// Not of ARP: what a burst of changed answers leaves depends on when tables change.
    fn change(&mut self, packet: &[u8]) -> Vec<u8> {
        let mut changed = packet.to_vec();
        if packet.get(12..14) == Some(&[8, 6]) {
            return changed;
        }
        changed.resize(changed.len().max(15), 0);
        for _ in 0..=self.below(3) {
            let at = self.below(changed.len().min(100));
            match self.below(6) {
                0 => changed.truncate(14 + self.below(changed.len())),
                1 => changed.extend((0..=self.below(24)).map(|n| n as u8)),
                2 => changed[at] = [0, 1, 4, 0x45, 0x60, 0x7f, 0x80, 0xff][self.below(8)],
                _ => changed[at] ^= 1 << self.below(8),
            }
            changed.resize(changed.len().max(15), 0);
        }
        if self.below(2) == 0 {
            // Of the transport, and of the user's packet behind one of IPv4 or IPv6, without and with a container.
            [14, 50, 58, 70, 78].into_iter().for_each(|at| make_whole(&mut changed, at));
        }
        changed
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

/// `WEIR_CHANGES="COUNT SEED"`: so many changed packets beside each one of all cases, and where their changes begin. Without,
/// eight beside those of a third of the cases.
#[test]
fn changed_packets_come_out_the_same_through_the_kernel() {
    let asked = std::env::var("WEIR_CHANGES").ok();
    let mut words = asked.iter().flat_map(|text| text.split_whitespace()).map(|word| word.parse().expect("a number"));
    let (count, seed): (u64, u64) = (words.next().unwrap_or(8), words.next().unwrap_or(1));
    // Neighbours that answer as a host in IPv6 do, likewise.
    let all = cases().enumerate().filter(|(_, case)| !case.name.starts_with("neighbours/"));
    let cases = all.filter(|(n, _)| asked.is_some() || n % 3 == 0);
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
        let (said, here) = compare(&case, &inputs);
        faults.extend(said);
        taken += here;
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    println!("{taken} of {sent} packets were the kernel's");
    assert!(taken > 500, "only {taken} of {sent} packets were the kernel's");
}

/// Questions that the program for what no port takes answers in place of a process that has gone.
const ANSWERED: &[&str] = &[
    "messages/echo_from_another_port",
    "messages/echo_in_a_vlan",
    "messages/echo_over_ipv4",
    "messages/echo_over_ipv6",
    "neighbours/arp_answered",
    "neighbours/arp_in_a_vlan",
    "neighbours/arp_probe_answered",
    "neighbours/duplicate_detection",
    "neighbours/solicitation_answered",
    "neighbours/solicitation_for_link_local",
];

/// What a case's gateway makes of those packets when nobody is there: for each list of them how many it answered, and answers that
/// it would not have sent itself.
fn alone<const N: usize>(case: &golden_cases::Case, lists: [&[(usize, Vec<u8>)]; N]) -> ([usize; N], Vec<String>) {
    const XDP_TX: u32 = 3;
    let mut device = WithKernel::start(&case.config).expect("a gateway");
    let ports = device.ports();
    let (mut answered, mut faults) = ([0; N], Vec::new());
    let inputs = lists.into_iter().enumerate().flat_map(|(n, list)| list.iter().map(move |input| (n, input)));
    for (n, (port, packet)) in inputs.filter(|(_, (_, packet))| (14..LONGEST).contains(&packet.len())) {
        device.publish(device.number(&ports[*port]));
        let run = device.path.alone().expect("loaded").test_run(packet).expect("the kernel runs it");
        device.user_space.send(&ports[*port], packet);
        device.user_space.settle();
        // No rate of answers is in the way.
        let later = device.user_space.now() + 10_000_000;
        device.user_space.turn_to(later);
        let sent = ports.iter().map(|name| device.user_space.received(name)).collect::<Vec<_>>();
        if run.verdict == XDP_TX {
            answered[n] += 1;
            if !sent[*port].contains(&run.packet) {
                faults.push(format!("{}: {packet:02x?}\n{:02x?}\nnot {:02x?}", case.name, run.packet, sent[*port]));
            }
        } else {
            assert!(run.packet == *packet, "left as it came");
        }
    }
    (answered, faults)
}

#[test]
fn without_the_process_neighbours_get_the_same_answers() {
    let (mut answered, mut changed, mut faults) = (BTreeMap::new(), 0, Vec::new());
    let asks =
        |case: &golden_cases::Case| ["messages/", "neighbours/"].iter().any(|group| case.name.starts_with(group));
    for (n, case) in golden_cases::all().into_iter().filter(asks).enumerate() {
        let names = case.config["port"].as_array().expect("ports").iter().map(|port| port["name"].as_str());
        let number = |port: &str| names.clone().position(|name| name == Some(port)).expect("a port there is");
        let inputs = case.inputs.iter().flat_map(|(port, packets)| packets.iter().map(move |seen| (port, seen)));
        let inputs: Vec<_> = inputs.take(100).map(|(port, seen)| (number(port), seen.bytes.clone())).collect();
        let mut random = Random((n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut others = |(port, packet): &(usize, Vec<u8>)| [(); 8].map(|()| (*port, random.change(packet)));
        let others: Vec<_> = inputs.iter().take(10).flat_map(&mut others).collect();
        let ([here, there], said) = alone(&case, [&inputs, &others]);
        answered.insert(case.name.to_string(), here);
        changed += there;
        faults.extend(said);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    println!("{answered:?}, and {changed} changed ones");
    for name in ANSWERED {
        assert!(answered.get(*name).is_some_and(|count| *count > 0), "{name}: {answered:?}");
    }
    assert!(changed > 20, "only {changed} changed questions were answered");
}

#[test]
fn nobody_is_drawn_to_a_gateway_that_does_not_come_back() {
    const XDP_TX: u32 = 3;
    let (device, _, _) = with_usual();
    let echo = golden_cases::from_gnb(golden_cases::Over::V4).udp(2152, 2152).gtpu_message(1, 0).seq(1).build();
    let verdict = || device.path.alone().expect("loaded").test_run(&echo).expect("the kernel runs it").verdict;
    device.path.set_keep(Duration::from_secs(20));
    device.path.beat(port::bpf::monotonic_ns());
    assert_eq!(verdict(), XDP_TX);
    device.path.set_keep(Duration::from_millis(1));
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(verdict(), XDP_DROP, "not the host's either");
}

/// An Echo Request of a gNB's.
fn echo() -> Vec<u8> {
    golden_cases::from_gnb(golden_cases::Over::V4).udp(2152, 2152).gtpu_message(1, 0).seq(1).build()
}

#[test]
fn what_is_answered_without_the_process_is_counted_and_bounded() {
    const XDP_TX: u32 = 3;
    let (device, usual, _) = with_usual();
    let alone =
        |packet: &[u8]| device.path.alone().expect("loaded").test_run(packet).expect("the kernel runs it").verdict;
    device.path.set_keep(Duration::from_secs(20));
    device.path.beat(port::bpf::monotonic_ns());
    assert_eq!((alone(&echo()), alone(&usual(0))), (XDP_TX, XDP_DROP));
    let counts = device.path.counts().alone;
    assert_eq!((counts.answered_echo, counts.dropped, counts.limited, counts.answered_arp), (1, 1, 0, 0));
    let named = device.path.counts().in_words();
    assert!(
        named.iter().any(|(name, count, _)| (name.as_str(), *count) == ("kernel_alone_answered_echo", 1)),
        "{named:?}"
    );
    // A thousand at once, and ten thousand a second.
    let (begun, all) = (Instant::now(), 20_000);
    let answered = (0..all).filter(|_| alone(&echo()) == XDP_TX).count() as u64;
    let most = 1000 + begun.elapsed().as_micros() as u64 / 100 + 1;
    assert!((1000..=most).contains(&answered), "{answered} of {all}, where {most} are allowed");
    let counts = device.path.counts().alone;
    assert_eq!((counts.answered_echo, counts.limited), (1 + answered, all - answered));
}

/// A worker says every second at least that it lives; if none has for five, questions are answered, and other packets wait for
/// it as ever. Where sessions do not go on without the process, nobody says anything.
#[test]
fn a_process_that_hangs_is_answered_for() {
    const XDP_TX: u32 = 3;
    let (device, usual, expiring) = with_usual();
    let verdict = |packet: &[u8]| device.path.program().expect("loaded").test_run(packet).expect("it runs").verdict;
    assert_eq!(verdict(&echo()), XDP_PASS, "left to the worker");
    device.path.set_keep(Duration::from_secs(20));
    assert!(device.path.beat_every().is_some_and(|every| every <= 1_000_000_000));
    let now = port::bpf::monotonic_ns;
    device.path.beat(now() - 4_000_000_000);
    assert_eq!(verdict(&echo()), XDP_PASS, "not for long yet");
    device.path.beat(now() - 6_000_000_000);
    assert_eq!((verdict(&echo()), verdict(&usual(0))), (XDP_TX, XDP_REDIRECT));
    assert_eq!(verdict(&expiring), XDP_PASS, "its worker's, should it go on");
    assert_eq!(device.path.counts().alone.dropped, 0);
    assert!(device.path.is_taken(0), "and others of the session go on");
    device.path.beat(now());
    assert_eq!((verdict(&echo()), verdict(&expiring)), (XDP_PASS, XDP_PASS), "it lives again");
    assert!(!device.path.is_taken(0));
}

/// However many sessions there are, a turn looks at some of them only.
#[test]
fn sessions_go_back_into_the_kernel_some_a_turn() {
    let mut device = WithKernel::start(&golden_cases::case("").with("simulate.ues = 1000").config).expect("a gateway");
    let in_kernel = |device: &WithKernel| (0..1000).filter(|number| device.path.is_taken(*number)).count();
    assert_eq!(in_kernel(&device), 1000);
    device.user_space.rig().each_gateway(|gateway| {
        let sessions = gateway.sessions_mut();
        sessions.close_kernel();
        (0..1000).for_each(|handle| sessions.leave_kernel(handle));
        sessions.reopen_kernel();
    });
    // Turns of the worker, all of them within the time for which sessions stay.
    let now = device.user_space.now();
    let mut waiting = Vec::new();
    device.user_space.rig().each_gateway(|gateway| {
        let sessions = gateway.sessions_mut();
        for turn in 1..=5 {
            sessions.see_to_kernel(now + turn * 1_000_000, turn, 0);
            waiting.push(sessions.kernel().map_or(0, |kernel| kernel.waiting()));
        }
    });
    assert_eq!(waiting[0], 256);
    assert!(waiting.windows(2).all(|two| two[1] <= two[0] + 256), "{waiting:?}");
    let until = Instant::now() + Duration::from_secs(10);
    while in_kernel(&device) < 1000 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
        let later = device.user_space.now() + 1_000_000;
        device.user_space.turn_to(later);
        device.user_space.settle();
    }
    assert_eq!(in_kernel(&device), 1000, "all go there again");
}

/// The gateway, with that text in place of its bearer.
fn gateway(bearer: &str) -> WithKernel {
    let text = golden_cases::BASE.replace("bearer = [{ qfi = 9 }]", bearer);
    let config: toml::Table = text.parse().expect("TOML");
    let mut device = WithKernel::start(&config).expect("a gateway");
    device.publish(0);
    device
}

/// The gateway and a usual packet of its first subscriber, numbered, and one of which the time to live is over.
fn with_usual() -> (WithKernel, impl Fn(u8) -> Vec<u8>, Vec<u8>) {
    let device = gateway("bearer = [{ qfi = 9 }]");
    let inner = |n: u8| golden_cases::ip4(golden_cases::UE, golden_cases::SERVER).udp(40_000, 50_000).payload([n; 9]);
    let usual = move |n| golden_cases::up(&inner(n)).build();
    (device, usual, golden_cases::up(&inner(0).ttl(1)).build())
}

fn is_redirected(device: &WithKernel, packet: &[u8]) -> bool {
    device.path.program().expect("loaded").test_run(packet).expect("the kernel runs it").verdict == XDP_REDIRECT
}

/// The session of the first subscriber is its worker's, and has stayed as long as it must.
fn hand_back(device: &mut WithKernel, unusual: &[u8]) {
    assert!(!is_redirected(device, unusual));
    device.user_space.send("n3", unusual);
    device.user_space.settle();
    assert!(!device.path.is_taken(0));
    // Twice the usual 5 ms: it has been in the kernel for less than a second.
    std::thread::sleep(Duration::from_millis(12));
    let later = device.user_space.now() + 100_000_000;
    device.user_space.turn_to(later);
}

#[test]
fn a_session_goes_into_the_kernel_behind_its_packets_that_wait() {
    let (mut device, usual, unusual) = with_usual();
    assert!(is_redirected(&device, &usual(0)));
    hand_back(&mut device, &unusual);
    device.user_space.received("n6");
    let turn = |device: &mut WithKernel| {
        std::thread::sleep(Duration::from_millis(1));
        device.user_space.rig().turn();
        device.path.is_taken(0)
    };
    assert!(!turn(&mut device), "now it is on its way");
    assert!(!is_redirected(&device, &usual(1)), "left to user space");
    assert!(!turn(&mut device), "that packet is not in a port yet");
    device.user_space.send("n3", &usual(1));
    assert!(!turn(&mut device), "it waited in a port");
    assert!(!turn(&mut device), "the port was not known to be empty");
    assert!(turn(&mut device), "nothing waits any more");
    assert_eq!(device.user_space.received("n6").len(), 1);
    assert!(is_redirected(&device, &usual(2)));
}

#[test]
fn without_a_sign_of_life_packets_are_taken_for_a_while_only() {
    let (device, usual, _) = with_usual();
    let now = port::bpf::monotonic_ns();
    device.path.beat(now);
    assert!(is_redirected(&device, &usual(0)), "as long as it takes, if nothing else is said");
    assert_eq!(device.path.beat_every(), None);
    device.path.set_keep(Duration::from_secs(20));
    assert_eq!(device.path.beat_every(), Some(1_000_000_000));
    assert!(is_redirected(&device, &usual(1)));
    device.path.beat(now.saturating_sub(30_000_000_000));
    let before = device.path.counts();
    assert!(!is_redirected(&device, &usual(2)), "nobody reports what is counted");
    let after = device.path.counts();
    assert_eq!((after.up, after.handed_back, after.other), (before.up, before.handed_back, before.other + 1));
    device.path.beat(port::bpf::monotonic_ns());
    assert!(is_redirected(&device, &usual(3)));
}

#[test]
fn a_session_whose_packets_always_wait_stays_with_its_worker() {
    let (mut device, usual, unusual) = with_usual();
    hand_back(&mut device, &unusual);
    let before = device.path.counts().handed_back;
    for n in 0..30 {
        assert!(!is_redirected(&device, &usual(n)), "packet {n}");
        device.user_space.send("n3", &usual(n));
        std::thread::sleep(Duration::from_millis(1));
        device.user_space.rig().turn();
    }
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(1));
        device.user_space.rig().turn();
    }
    assert!(is_redirected(&device, &usual(0)), "once none waits it is in the kernel");
    assert_eq!(device.path.counts().handed_back, before);
}

/// What two CPUs get through one bucket of 100 Mbit/s, as parts of that rate: at least, and at most.
fn hammered_by_two_cpus(device: &WithKernel, packet: &[u8]) -> (f64, f64) {
    const RATE: f64 = 100e6;
    let (path, is_over) = (&device.path, AtomicBool::new(false));
    let bits = || (path.counts().up.1 * 8) as f64;
    let ([first, last], offered) = std::thread::scope(|scope| {
        let hammer = || {
            let mut sent = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                let verdict = path.program().expect("loaded").test_run(packet).expect("the kernel runs it").verdict;
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
    let device = gateway("bearer = [{ qfi = 9, mbr_up = \"100 Mbit/s\" }]");
    let inner = golden_cases::ip4(golden_cases::UE, golden_cases::SERVER).udp(40_000, 50_000).payload([7; 1000]);
    let packet = golden_cases::up(&inner).build();
    // Above the rate is never. Below it is where neither thread had a CPU for longer than the bucket lasts.
    let rounds = (0..8).map(|_| hammered_by_two_cpus(&device, &packet));
    let rounds = rounds.inspect(|(least, _)| assert!(*least < 1.01, "{least} of the rate"));
    let best = rounds.map(|(_, most)| most).find(|most| *most > 0.99);
    assert!(best.is_some(), "below the rate in all rounds");
}

#[test]
fn a_session_with_other_rules_goes_back_into_the_kernel() {
    let (mut device, usual, _) = with_usual();
    assert!(is_redirected(&device, &usual(0)));
    for n in 1..4 {
        let change: toml::Table = "do = \"more\"\nue = 0\nquotas = [300000]".parse().expect("TOML");
        device.step(&change).expect("other rules");
        device.enter();
        assert!(is_redirected(&device, &usual(n)), "after change {n}");
    }
}

#[test]
fn a_session_that_changes_goes_into_the_kernel_behind_its_packets_that_wait() {
    let (mut device, usual, unusual) = with_usual();
    hand_back(&mut device, &unusual);
    let change: toml::Table = "do = \"more\"\nue = 0\nquotas = [300000]".parse().expect("TOML");
    device.user_space.step(&change).expect("other rules");
    device.user_space.rig().turn();
    assert!(!device.path.is_taken(0) && !is_redirected(&device, &usual(1)), "packets of it may wait in a port");
    device.user_space.send("n3", &usual(1));
    let turn = |device: &mut WithKernel| {
        std::thread::sleep(Duration::from_millis(1));
        device.user_space.rig().turn();
        device.path.is_taken(0)
    };
    assert!((0..30).any(|_| turn(&mut device)), "it goes there in the end");
    assert!(is_redirected(&device, &usual(2)), "nothing waits any more");
}

/// Has two CPUs offer a packet until the program has left one to each; how many it forwarded before.
fn hammered_until_left(path: &FastPath, packet: &[u8]) -> u64 {
    let before = path.counts().up.0;
    std::thread::scope(|scope| {
        let hammer = || {
            let run = || path.program().expect("loaded").test_run(packet).expect("the kernel runs it").verdict;
            let last = std::iter::repeat_with(run).take(20_000).find(|verdict| *verdict != XDP_REDIRECT);
            assert_eq!(last, Some(XDP_PASS));
        };
        let both = [scope.spawn(hammer), scope.spawn(hammer)];
        both.into_iter().for_each(|thread| thread.join().expect("it hammers"));
    });
    path.counts().up.0 - before
}

/// How many packets of a quota of 300,000 octets pass in the kernel, offered by two CPUs, and how many of those it leaves pass
/// the worker, until that refuses one. Each look at a quota of both directions is at half of what is left of it.
fn passed_of_a_quota(packet: &[u8]) -> (u64, u64) {
    let mut device = gateway("bearer = [{ qfi = 9 }]");
    let quota: toml::Table = "do = \"more\"\nue = 0\nquotas = [300000]".parse().expect("TOML");
    device.step(&quota).expect("a quota");
    let (mut kernel, mut worker) = (0, 0);
    loop {
        device.enter();
        kernel += hammered_until_left(&device.path, packet);
        (0..2).for_each(|_| device.user_space.send("n3", packet));
        device.user_space.settle();
        let passed = device.user_space.received("n6").len() as u64;
        worker += passed;
        if passed < 2 {
            return (kernel, worker);
        }
    }
}

#[test]
fn two_cpus_share_a_quota() {
    for len in [10, 700, 1300] {
        let inner = golden_cases::ip4(golden_cases::UE, golden_cases::SERVER).udp(40_000, 50_000).payload(vec![7; len]);
        let packet = golden_cases::up(&inner).build();
        // A packet passes while less than the quota was used before it.
        let whole = 300_000u64.div_ceil(28 + len as u64);
        for round in 0..8 {
            let (kernel, worker) = passed_of_a_quota(&packet);
            assert_eq!(
                kernel + worker,
                whole,
                "{len} octets, round {round}: {kernel} in the kernel, {worker} behind it"
            );
            assert!(kernel > whole * 3 / 4, "{kernel} of {whole} in the kernel");
        }
    }
}
