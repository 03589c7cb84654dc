//! A demonstration of the broadband gateway: subscribers of an access network get their addresses and talk.
//!
//! ```text
//!   load                                         gateway
//!   subscribers, two VLAN tags  l3-0 ═══════ n3-0   group pon
//!   hosts of the core           l6-0 ═══════ n6-0   198.18.0.1, fd00:18::1
//! ```

use std::io::IsTerminal;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ::bench::PortKind;
use ::bench::lab::{Lab, Shape, Side};
use anyhow::bail;
use bng::product::protocol::{BngReply, BngRequest, Filter, Reply, Request, SubscriberView};
use engine::Io;
use gateway::snapshot::Snapshot;
use gateway::tables::{Style, Table, bytes, count, duration, si};
use traffic::{DirectionResult, Directions, LatencySummary, Profile, TrialResult};

use super::DemoArgs;
use super::losses::{Lost, Sides, since};
use super::network::{uri, worker};
use super::picture::{Screen, busiest, busy, drops, micros, ns};
use super::play::{self, COUNTED, Gauge, pause};
use crate::generate::{BroadbandCounts, BroadbandResult};

/// Packets offered a second, unless --pps says otherwise.
const PPS: f64 = 60_000.0;
/// Subscribers that begin to ask for addresses a second.
const SETUP_RATE: u32 = 10_000;
/// Inner VLANs of an outer one.
const C_VLANS: u32 = 2000;
const HOSTS: u32 = 64;
const FIRST_HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);
/// Subscribers of a page.
const PAGE: usize = 1000;
const SIDES: Sides = Sides { links: ["the access lines", "the core"], ends: ["subscribers", "hosts of the core"] };

/// The namespaces, and a folder for ledger, socket and messages. Gone when dropped.
struct Network {
    lab: Lab,
    folder: PathBuf,
}

impl Network {
    fn new() -> anyhow::Result<Self> {
        let lab = Lab::new(Shape { mtu: 1600, queues: 1 })?;
        let known = Profile::default();
        lab.links(0, [known.access.gateway, known.core.gateway])?;
        let folder = std::env::temp_dir().join(format!("weir-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self { lab, folder })
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("weir.sock")
    }

    /// The gateway's configuration.
    fn configuration(&self, kind: PortKind, slots: Option<u32>, subscribers: u32) -> String {
        let access = uri(kind, &Side::N3.gateway(0));
        let promiscuous = if access.contains('?') { "&promisc=on" } else { "?promisc=on" };
        let access = if kind == PortKind::Xdp { access } else { access + promiscuous };
        let buffers = slots.unwrap_or(32_768);
        let last = 100 + (subscribers - 1) / C_VLANS;
        format!(
            r#"gateway = "bng"
control_socket = {socket:?}
{worker}frames = {{ packet_buffers = {buffers} }}
punt = {{ line = 20, dhcp4 = 100000, dhcp6 = 100000 }}
sessions = {{ ledger = {ledger:?} }}
port = [
  {{ name = "olt", uri = "{access}", role = "access" }},
  {{ name = "core", uri = "{core}", role = "core", addresses = ["198.18.0.1/15", "fd00:18::1/64"] }},
]
acl = [{{ name = "home", rules = ["deny in tcp from any to any port 25", "deny out tcp from any to any port 23"] }}]
profile = [{{ name = "home", up = "50 Mbit/s", down = "250 Mbit/s", accounted = "l2", acl = "home" }}]

[[group]]
name = "pon"
ports = ["olt"]
s_vlans = "100-{last}"
c_vlans = "1-{C_VLANS}"
model = "1:1"
ipv4 = ["100.64.0.0/10"]
ipv6_wan = ["2001:db8:100::/42"]
ipv6_pd = [{{ prefix = "2001:db8:4000::/34", length = 56 }}]
gateways = ["100.64.0.1", "fe80::1"]
mac = "02:00:5e:00:01:01"
profile = "home"
sessions = {{ lease_seconds = 3600, dns = ["198.18.0.53", "fd00:18::53"], ipv6 = "dhcp" }}
"#,
            socket = self.socket(),
            worker = worker(),
            ledger = self.folder.join("leases"),
            core = uri(kind, &Side::N6.gateway(0)),
        )
    }

    /// What `weir gen broadband` is told.
    fn traffic(&self, subscribers: u32, pps: f64, seconds: f64) -> Vec<String> {
        let port = |side: Side| uri(PortKind::Ring, &side.load(0));
        let cpu = ::bench::thread::cpus().first().map_or(String::new(), |cpu| format!(" --cpu {cpu}"));
        let words = format!(
            "gen broadband --access {}&promisc=on --core {}&promisc=on --subscribers {subscribers} --c-vlan 1 \
             --c-vlans {C_VLANS} --setup-rate {SETUP_RATE} --ipv6 --server {FIRST_HOST} --servers {HOSTS} --size 512 \
             --pps {pps} --seconds {seconds} --each-second --json{cpu}",
            port(Side::N3),
            port(Side::N6),
        );
        words.split(' ').map(str::to_owned).collect()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Plays it.
///
/// # Errors
/// What this machine cannot do, or which process did not do its part.
pub fn play(args: &DemoArgs, only: Option<PortKind>, stop: &AtomicBool) -> anyhow::Result<()> {
    let terminal = std::io::stdout().is_terminal();
    let style = Style::coloured(terminal && std::env::var_os("NO_COLOR").is_none());
    let mut screen = Screen::new(terminal);
    screen.say("building a network: two namespaces, links for access lines and core …");
    let network = Network::new()?;
    let configuration = |kind, slots| network.configuration(kind, slots, args.ues);
    let doors = [(PortKind::Ring, None), (PortKind::Xdp, None), (PortKind::Mmsg, None), (PortKind::Plain, None)];
    let doors = doors.into_iter().filter(|(kind, _)| only.is_none_or(|only| only == *kind));
    let place = (network.lab.gateway(), network.folder.as_path());
    let (kind, gateway) = play::gateway(place, ("bng", "gateway"), doors, &configuration, &mut screen)?;
    let mut gauge = Gauge::connect(&network.socket(), stop)?;
    let (first, rings, links) = (gauge.counters()?, gauge.ports()?, network.lab.link_drops(0));

    let pps = args.pps.unwrap_or(PPS);
    let words = network.traffic(args.ues, pps, args.seconds);
    let head = format!(
        "weir: a broadband gateway over {}, {} dual-stack subscribers behind two VLAN tags, {HOSTS} hosts of the core",
        kind.name(),
        count(args.ues.into())
    );
    let (mut before, mut phase) = (first.clone(), Seen::Setup);
    let result = play::generate(network.lab.load(), &words, &network.folder, stop, &mut |so_far: &BroadbandResult| {
        let Some(now) = gauge.look() else { return };
        let counters = now.since(&before);
        before = now;
        if so_far.seconds == 0.0 {
            let [leases, leases6] = [so_far.leases, so_far.leases6].map(count);
            return screen
                .pass(&format!("subscribers:   {leases} with IPv4, {leases6} with IPv6 and a delegated prefix"));
        }
        if phase == Seen::Setup {
            phase = Seen::Traffic;
            screen.say(&up(so_far));
        }
        screen.show(&live(&head, (so_far.seconds, args.seconds), so_far, &counters, style), &line(so_far, &counters));
    })?;
    pause(COUNTED, stop);
    let carried = gauge.counters()?.since(&first);
    let traffic = trial(&result, args.seconds);
    let lost =
        Lost::of(&traffic, &carried, &since(&gauge.ports()?, &rings), network.lab.link_drops(0).since(&links), &SIDES);
    let usage = usage(&mut gauge)?;
    if args.keep {
        keep(&network.socket(), &mut screen, stop);
    }
    drop(gauge);
    gateway.interrupt();
    let in_order = play::is_complete(&play::ended(gateway)?);
    screen.say(&summary(&result, &traffic, &carried, (&lost, &usage, in_order), style));
    // Which is how what was kept ends.
    if stop.load(Ordering::Relaxed) && !args.keep {
        bail!("interrupted");
    }
    Ok(())
}

/// What the generator was seen to do last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Setup,
    Traffic,
}

/// A line on subscribers that have come up.
fn up(result: &BroadbandResult) -> String {
    format!(
        "subscribers:   {} up after {}: {} with IPv4, {} with IPv6 and a delegated prefix; {} DHCP leases a second",
        count(result.leases.min(result.leases6)),
        duration(result.setup_seconds),
        count(result.leases),
        count(result.leases6),
        si(((result.leases + 2 * result.leases6) as f64 / result.setup_seconds.max(1e-3)).round()),
    )
}

/// What the gateway has counted of all subscribers, and three of them.
#[derive(Default)]
struct Usage {
    subscribers: u64,
    /// Packets from and to them.
    packets: u64,
    bytes: u64,
    some: Vec<SubscriberView>,
}

fn usage(gauge: &mut Gauge<'_>) -> anyhow::Result<Usage> {
    let mut usage = Usage::default();
    loop {
        let filter = Filter { offset: usage.subscribers as usize, limit: PAGE, ..Filter::default() };
        let Reply::Bng(BngReply::Subscribers(page)) = gauge.ask(&Request::Bng(BngRequest::Subscribers { filter }))?
        else {
            bail!("the gateway's reply is none about subscribers");
        };
        for view in &page.subscribers {
            usage.packets += view.up_packets.iter().chain(&view.down_packets).sum::<u64>();
            usage.bytes += view.up_bytes.iter().chain(&view.down_bytes).sum::<u64>();
        }
        usage.subscribers += page.subscribers.len() as u64;
        if usage.some.is_empty() {
            usage.some = page.subscribers.iter().take(3).cloned().collect();
        }
        if page.subscribers.is_empty() || usage.subscribers as usize >= page.matching {
            return Ok(usage);
        }
    }
}

/// Leaves everything up until Ctrl-C.
fn keep(socket: &Path, screen: &mut Screen, stop: &AtomicBool) {
    screen.say("the gateway and its subscribers' leases stay until Ctrl-C; try in another terminal:");
    for command in commands(socket) {
        screen.say(&command);
    }
    while !stop.load(Ordering::Relaxed) {
        pause(COUNTED, stop);
    }
}

/// Commands to try beside a gateway with that control socket.
fn commands(socket: &Path) -> [String; 3] {
    ["show subscribers --filter s_vlan=100,limit=10", "show dhcp", "show run"]
        .map(|command| format!("  sudo weir {command} --socket {}", socket.display()))
}

/// The same result in the words of other gateways' traffic.
fn trial(result: &BroadbandResult, seconds: f64) -> TrialResult {
    let direction = |counts: &BroadbandCounts| DirectionResult {
        sent_packets: counts.sent_packets,
        unsent_packets: counts.unsent_packets,
        forwarded_packets: counts.received_packets,
        lost_packets: counts.lost_packets,
        duplicated_packets: counts.duplicated_packets,
        reordered_packets: counts.reordered_packets,
        corrupt_packets: counts.corrupt_packets,
        misdelivered_packets: counts.misdelivered_packets + counts.wrong_tags_packets,
        mpps: counts.received_packets as f64 / seconds.max(1e-9) / 1e6,
        latency_us: LatencySummary {
            p50: counts.latency_us_p50,
            p99: counts.latency_us_p99,
            max: counts.latency_us_max,
            ..LatencySummary::default()
        },
        ..DirectionResult::default()
    };
    let directions = Directions { uplink: direction(&result.uplink), downlink: direction(&result.downlink) };
    TrialResult { seconds, directions, ..TrialResult::default() }
}

/// A table with a row for each direction.
fn table(result: &BroadbandResult, seconds: f64, is_final: bool, style: Style) -> String {
    let heads =
        ["direction", ">packets/s", ">sent", ">received", ">lost", ">wrong tags", ">out of order", ">p50", ">p99"];
    let mut table = Table::new(&heads);
    for (name, counts) in [("uplink", &result.uplink), ("downlink", &result.downlink)] {
        // What is on its way is not lost: packets of a few milliseconds.
        let rate = counts.received_packets as f64 / seconds.max(1e-9);
        let on_its_way = if is_final { 0 } else { ((rate * 0.005) as u64).max(64) };
        let lost = if counts.lost_packets <= on_its_way { 0 } else { counts.lost_packets };
        table.row([
            name.to_owned(),
            si(rate.round()),
            count(counts.sent_packets),
            count(counts.received_packets),
            count(lost),
            count(counts.wrong_tags_packets),
            count(counts.reordered_packets),
            micros(counts.latency_us_p50),
            micros(counts.latency_us_p99),
        ]);
    }
    table.render(style)
}

/// A moment of it.
fn live(
    head: &str,
    (elapsed, seconds): (f64, f64),
    result: &BroadbandResult,
    counters: &Snapshot,
    style: Style,
) -> String {
    let full = ((elapsed / seconds).clamp(0.0, 1.0) * 40.0).round() as usize;
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(40 - full));
    let dropped = drops(counters);
    let packets = counters.io(Io::RxPackets);
    format!(
        "\n{}\n{bar} {elapsed:.0} of {seconds:.0} s\n\n{}\n  a packet costs  {:.0} ns to process, gateway busy {:.0} %\n  \
         busiest stages  {}\n  dropped         {}\n",
        style.strong(head),
        table(result, elapsed, false, style),
        ns(counters.io(Io::PipelineCycles), packets, counters),
        busy(counters) * 100.0,
        busiest(counters, 3),
        if dropped.is_empty() { "nothing".to_owned() } else { dropped.join(", ") },
    )
}

/// The same in a line.
fn line(result: &BroadbandResult, counters: &Snapshot) -> String {
    let rate = |counts: &BroadbandCounts| si((counts.received_packets as f64 / result.seconds.max(1e-9)).round());
    format!(
        "{:>4.0} s  {} up, {} down  p50 {} p99 {}  processing {:.0} ns  busy {:.0} %  dropped {}",
        result.seconds,
        rate(&result.uplink),
        rate(&result.downlink),
        micros(result.uplink.latency_us_p50.max(result.downlink.latency_us_p50)),
        micros(result.uplink.latency_us_p99.max(result.downlink.latency_us_p99)),
        ns(counters.io(Io::PipelineCycles), counters.io(Io::RxPackets), counters),
        busy(counters) * 100.0,
        count(counters.workers.iter().map(|worker| worker.dropped()).sum()),
    )
}

/// The end.
fn summary(
    result: &BroadbandResult,
    traffic: &TrialResult,
    carried: &Snapshot,
    (lost, usage, in_order): (&Lost, &Usage, bool),
    style: Style,
) -> String {
    let mut out = format!("\n{}\n\n", up(result).trim_start_matches("subscribers:").trim());
    out += &table(result, traffic.seconds, true, style);
    let both = [&result.uplink, &result.downlink];
    let sum = |of: fn(&BroadbandCounts) -> u64| both.iter().map(|counts| of(counts)).sum::<u64>();
    out += &format!(
        "\n  traffic        {} of {} packets were delivered, each with its line's tags and its subscriber's addresses\n",
        count(sum(|counts| counts.received_packets)),
        count(sum(|counts| counts.sent_packets)),
    );
    out += &lost.text(style);
    let wrong = sum(|counts| counts.wrong_tags_packets + counts.misdelivered_packets + counts.corrupt_packets);
    if wrong > 0 {
        out += &format!("  {}\n", style.alarm(&format!("{} packets came with wrong tags or addresses", count(wrong))));
    }
    let packets = carried.io(Io::RxPackets);
    let cost = |what| ns(carried.io(what), packets, carried);
    out += &format!(
        "  gateway        a packet cost {:.0} ns to process, {:.0} ns to receive and send\n                 busiest: {}\n",
        cost(Io::PipelineCycles),
        cost(Io::RxCycles) + cost(Io::TxCycles),
        busiest(carried, 3)
    );
    let delivered = sum(|counts| counts.received_packets);
    let same = match usage.packets == delivered {
        true => "as many as were delivered".to_owned(),
        false => format!("{} were delivered", count(delivered)),
    };
    out += &format!(
        "  accounting     {} subscribers: {} packets, {}; {same}\n",
        count(usage.subscribers),
        count(usage.packets),
        bytes(usage.bytes)
    );
    for (n, view) in usage.some.iter().enumerate() {
        out += if n == 0 { "  some of them   " } else { "                 " };
        let address = view.ipv4.map_or(String::new(), |address| address.to_string());
        let [wan, delegated] = [&view.ipv6_wan, &view.ipv6_pd].map(|prefix| prefix.as_deref().unwrap_or("–"));
        out += &format!("VLANs {}.{}  {address}  {wan}  {delegated}\n", view.s_vlan, view.c_vlan);
    }
    let end = match in_order {
        true => "no packet and no slot is missing; the network built for this is gone again".to_owned(),
        false => style.alarm("packets are missing"),
    };
    out + &format!("  at the end     {end}")
}
