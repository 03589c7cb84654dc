//! `weir gen cable`: Remote-PHY devices with their modems, and a host of the operator's network, on both sides of a
//! cable gateway. Modems, channels and keys are those of the gateway's configuration.
//!
//! Downstream the devices take DEPI packets apart (L2TPv3, PSP), put frames together, decrypt them and check CRC, modem
//! and signature; upstream they send bursts of encrypted frames by UEPI. See [`traffic::cable`].

mod plant;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use cmts::product::Loaded;
use dataplane::neighbour::NeighbourMessage;
use gateway::cli::{packets_per_second, seconds};
use gateway::json::JsonOutput;
use gateway::load::Text;
use gateway::signals;
use gateway::tables::{Style, Table, count, si};
use schemars::JsonSchema;
use serde::Serialize;
use traffic::cable::{Cuts, Downstream, Hosts, Mix, Plant, Upstream, Workload};
use wire::Mac;

use super::broadband::frames::arp;
use super::end::{End, drain, wait};

/// Time for the gateway to answer ARP.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Between two questions.
const AGAIN: Duration = Duration::from_millis(500);
/// After the last packet that arrived.
const DRAIN: Duration = Duration::from_millis(800);
/// After the last packet that was sent.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);
/// Packets of a turn at most.
const BURST: u64 = 32;
/// The host of the network: next hop and far end (RFC 2544, C.2.2).
const HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Bytes of the largest frame that is made.
const LARGEST: usize = 2048;

/// `weir gen cable`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir lab up cmts                    the network of examples/cmts.toml, with the commands
  weir gen cable examples/cmts.toml        its modems, at 2,000 packets a second
  weir gen cable examples/cmts.toml --pps 20000 --seconds 30 --json

Half of the packets go to hosts behind modems, half come from them. The network's host is
198.18.0.1; ARP for it and for the devices is answered here.")]
pub struct CableArgs {
    /// The gateway's configuration: modems, channels, keys, addresses.
    #[arg(value_name = "CONFIG.toml")]
    pub config: PathBuf,
    /// The port in the operator's network.
    #[arg(long, value_name = "URI", default_value = "packet:net0")]
    pub network: String,
    /// The port of the Remote-PHY devices.
    #[arg(long, value_name = "URI", default_value = "packet:rpd0")]
    pub rpd: String,
    /// Packets a second, both directions together.
    #[arg(long, value_name = "RATE", default_value = "2000", value_parser = packets_per_second)]
    pub pps: f64,
    /// Duration of traffic.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub seconds: f64,
    /// Fail if a greater share of packets was lost.
    #[arg(long, value_name = "RATIO")]
    pub max_loss: Option<f64>,
}

/// What became of packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CableResult {
    /// Modems of the configuration.
    pub modems: u64,
    /// Seconds of traffic.
    pub seconds: f64,
    /// From the network to hosts behind modems.
    pub downstream: CableCounts,
    /// From hosts behind modems to the network.
    pub upstream: CableCounts,
    /// Packets that a port did not take; among those lost.
    pub unsent_packets: u64,
    /// Packets lost of those sent, both directions: 0 to 1.
    pub loss_ratio: f64,
}

/// Signed packets of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CableCounts {
    /// Packets that were sent.
    pub sent_packets: u64,
    /// Packets that arrived and passed all checks.
    pub received_packets: u64,
    /// Packets that did not arrive, or did not pass.
    pub lost_packets: u64,
    /// Packets behind a later one of their flow; among those received.
    pub reordered_packets: u64,
    /// Packets, frames and pieces that were not what a gateway should have sent, by fault; what never happened is left
    /// out.
    pub wrong: BTreeMap<String, u64>,
    /// Mean time between sending and receiving, in microseconds.
    pub latency_us_mean: f64,
    /// The longest.
    pub latency_us_max: f64,
}

/// Sends and checks.
///
/// # Errors
/// A wrong configuration, a port that cannot be opened, a gateway that does not answer, wrong frames, or more loss than
/// `--max-loss` allows.
pub fn run(args: &CableArgs, json: &JsonOutput) -> anyhow::Result<()> {
    let stop = signals::stop_flag()?;
    let config = Loaded::of(Text::read(&args.config)?)?.config;
    let (mut network, mut rpd) = (End::open("network", &args.network)?, End::open("rpd", &args.rpd)?);
    let ours = plant::addresses(&config)?;
    let devices: Vec<Ipv4Addr> = plant::devices(&config)?;
    let Some(device) = devices.first() else { bail!("{}: there is no service group", args.config.display()) };
    let gateway =
        [resolve(&mut network, &[HOST], HOST, ours[0], &stop)?, resolve(&mut rpd, &devices, *device, ours[1], &stop)?];
    let plant = plant::plant(&config, ours[1], [gateway[1], rpd.mac], [gateway[0], network.mac])?;
    let mut driver = Driver::new(args, plant, devices, network, rpd);
    let took = driver.traffic(&stop);
    let result = driver.end(took);
    json.print(&result, || text(&result, Style::of_stdout()))?;
    let wrong: u64 = result.downstream.wrong.values().chain(result.upstream.wrong.values()).sum();
    if wrong > 0 {
        let (down, up) = (&result.downstream.wrong, &result.upstream.wrong);
        bail!("{wrong} invalid packets, frames or segments received: downstream {down:?}, upstream {up:?}");
    }
    match args.max_loss {
        Some(most) if result.loss_ratio > most => bail!("loss of {:.6} is over {most}", result.loss_ratio),
        _ => Ok(()),
    }
}

/// The gateway's hardware address, by ARP from `asker`; requests for one of `ours` are answered meanwhile.
fn resolve(
    end: &mut End,
    ours: &[Ipv4Addr],
    asker: Ipv4Addr,
    theirs: Ipv4Addr,
    stop: &AtomicBool,
) -> anyhow::Result<Mac> {
    let (until, mut next) = (Instant::now() + TIMEOUT, Instant::now());
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            next += AGAIN;
            let request = arp(false, (end.mac, asker), (Mac::BROADCAST, theirs), None);
            end.send(&request);
        }
        for frame in end.receive() {
            match NeighbourMessage::parse(&frame) {
                Ok(NeighbourMessage::ArpReply { sender, sender_ip, .. }) if is(sender_ip, theirs) => return Ok(sender),
                _ => drop(answer(end, ours, &frame)),
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    bail!("the gateway's address {theirs} does not answer: does it run with that configuration?")
}

/// Answers ARP for one of our addresses. Whether it was ARP.
fn answer(end: &mut End, ours: &[Ipv4Addr], frame: &[u8]) -> bool {
    let Ok(NeighbourMessage::ArpRequest { sender, sender_ip, target }) = NeighbourMessage::parse(frame) else {
        return matches!(NeighbourMessage::parse(frame), Ok(NeighbourMessage::ArpReply { .. }));
    };
    if let Some(address) = ours.iter().find(|address| is(target, **address))
        && let IpAddr::V4(theirs) = IpAddr::from(sender_ip)
    {
        let reply = arp(true, (end.mac, *address), (sender, theirs), None);
        end.send(&reply);
    }
    true
}

fn is(one: impl Into<IpAddr>, other: Ipv4Addr) -> bool {
    one.into() == IpAddr::from(other)
}

struct Driver<'a> {
    args: &'a CableArgs,
    modems: u64,
    devices: Vec<Ipv4Addr>,
    network: End,
    rpd: End,
    hosts: Hosts,
    downstream: Downstream,
    upstream: Upstream,
    begin: Instant,
    unsent: u64,
}

impl<'a> Driver<'a> {
    fn new(args: &'a CableArgs, plant: Plant, devices: Vec<Ipv4Addr>, network: End, rpd: End) -> Self {
        let modems = plant.modems().count() as u32;
        let workload = |mix: &Mix| Workload::new(mix, modems, false);
        Self {
            args,
            modems: modems.into(),
            devices,
            network,
            rpd,
            hosts: Hosts::new(&plant, workload(&Mix::downstream())),
            downstream: Downstream::new(&plant, false),
            upstream: Upstream::new(&plant, workload(&Mix::upstream()), Cuts::Few),
            begin: Instant::now(),
            unsent: 0,
        }
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    /// Takes in what has arrived at both ends.
    fn receive(&mut self) {
        for frame in self.rpd.receive() {
            if !answer(&mut self.rpd, &self.devices, &frame) {
                self.downstream.take(&frame, self.begin.elapsed().as_nanos() as u64);
            }
        }
        let now_ns = self.now_ns();
        self.downstream.settle(now_ns);
        for frame in self.network.receive() {
            if !answer(&mut self.network, &[HOST], &frame) {
                self.hosts.take(&frame, now_ns);
            }
        }
    }

    /// Sends at the rate until the time is over; how long it took, in seconds.
    fn traffic(&mut self, stop: &AtomicBool) -> f64 {
        let (begin, time) = (Instant::now(), Duration::from_secs_f64(self.args.seconds));
        let mut space = vec![0; LARGEST];
        while begin.elapsed() < time && !stop.load(Ordering::Relaxed) {
            // Of each direction: half of all.
            let due = (begin.elapsed().as_secs_f64() * self.args.pps / 2.0) as u64;
            for _ in 0..due.saturating_sub(self.hosts.sent().0).min(BURST) {
                let len = self.hosts.make(&mut space, self.begin.elapsed().as_nanos() as u64);
                self.unsent += u64::from(!self.network.send(&space[..len]));
            }
            for _ in 0..due.saturating_sub(self.upstream.said().packets).min(BURST) {
                self.burst();
            }
            self.receive();
            wait([&mut self.network, &mut self.rpd], Duration::from_micros(300));
        }
        let took = begin.elapsed().as_secs_f64();
        // What the last segments cut goes out, too.
        for _ in 0..self.upstream.finish(self.now_ns()) {
            self.burst();
            self.receive();
        }
        drain(DRAIN, LONGEST_DRAIN, || {
            self.receive();
            self.downstream.heard().in_order + self.hosts.heard().in_order
        });
        self.downstream.idle(self.now_ns());
        took
    }

    /// Sends the next UEPI packet.
    fn burst(&mut self) {
        if let Some(packet) = self.upstream.next(self.now_ns()) {
            self.unsent += u64::from(!self.rpd.send(&packet));
            self.upstream.recycle(packet);
        }
    }

    fn end(mut self, seconds: f64) -> CableResult {
        let (heard, network) = (self.downstream.heard(), self.hosts.heard());
        let counts = |sent: u64,
                      received: u64,
                      reordered: u64,
                      wrong: Vec<(&str, u64)>,
                      latencies: &table::histogram::Histogram| {
            CableCounts {
                sent_packets: sent,
                received_packets: received + reordered,
                lost_packets: sent.saturating_sub(received + reordered),
                reordered_packets: reordered,
                wrong: wrong.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_owned(), n)).collect(),
                latency_us_mean: latencies.mean() / 1e3,
                latency_us_max: latencies.max() as f64 / 1e3,
            }
        };
        let latencies = self.downstream.latencies();
        let faults = heard.wrong().chain([("duplicated", heard.duplicated)]).collect();
        let downstream = counts(self.hosts.sent().0, heard.in_order, heard.reordered, faults, latencies);
        let wrong = vec![("misdelivered", network.misdelivered), ("duplicated", network.duplicated)];
        let said = self.upstream.said();
        let upstream = counts(said.packets, network.in_order, network.reordered, wrong, self.hosts.latencies());
        let (sent, lost) =
            (downstream.sent_packets + upstream.sent_packets, downstream.lost_packets + upstream.lost_packets);
        self.network.close();
        self.rpd.close();
        let loss_ratio = lost as f64 / sent.max(1) as f64;
        CableResult { modems: self.modems, seconds, downstream, upstream, unsent_packets: self.unsent, loss_ratio }
    }
}

fn text(result: &CableResult, style: Style) -> String {
    let mut out = format!("{} modems\n\n", count(result.modems));
    let mut table = Table::new(&["direction", ">packets/s", ">sent", ">received", ">lost", ">wrong", ">latency"]);
    for (name, counts) in [("downstream", &result.downstream), ("upstream", &result.upstream)] {
        table.row([
            name.to_owned(),
            si((counts.received_packets as f64 / result.seconds.max(1e-9)).round()),
            count(counts.sent_packets),
            count(counts.received_packets),
            count(counts.lost_packets),
            count(counts.wrong.values().sum()),
            format!("{:.0} µs", counts.latency_us_mean),
        ]);
    }
    out += &table.render(style);
    out
}
