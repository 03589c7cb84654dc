//! A routed gateway under test, in memory: its crate brings a configuration and frames, which its ports receive again and
//! again. `cargo bench -p toy` is one.
//!
//! Packets that the gateway sends count as right when the workload says so; none is compared with the one it was. Whom it
//! sends to stands in the configuration (`[[neighbour]]`): nobody answers for hardware addresses.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use clap::Parser;
use dataplane::neighbour::NeighbourMessage;
use frame::{BURST, Batch, Caps, Pool, Port, PortCounters};
use gateway::json::JsonOutput;
use gateway::routed::{self, Plane, Routed, RoutedGateway};
use gateway::shell::{Gateway as _, Sections as _};
use traffic::Clock;

use crate::ends::{Counts, Load, Shared, add};
use crate::error::BenchError;
use crate::options::Options;
use crate::show;
use crate::under_test::{Assembled, Control, FarSide, Share, UnderTest, WorkerInit};

/// Frames that a port receives, and what it is to send.
#[derive(Clone)]
pub struct PortTraffic {
    /// The port's hardware address.
    pub mac: [u8; 6],
    /// Received one after the other, again and again; empty: it only sends.
    pub frames: Vec<Vec<u8>>,
    /// Whether a frame that it sends is right.
    pub is_right: fn(&[u8]) -> bool,
}

/// A gateway with its traffic: the first port is the access side, from which packets go uplink.
#[derive(Clone)]
pub struct Workload<R: Routed> {
    /// Its name in results.
    pub name: &'static str,
    /// The configuration; the number of workers is the benchmark's.
    pub config: R::Config,
    /// Subscribers that the frames are of.
    pub subscribers: u32,
    /// For each of the configuration's ports, in its order.
    pub ports: Vec<PortTraffic>,
}

struct Controlled<R: Routed>(routed::Control<R>);

impl<R: Routed> Control for Controlled<R> {
    fn poll(&mut self, now_ns: u64) {
        self.0.poll(now_ns);
    }
}

impl<R: Routed> UnderTest for Workload<R> {
    type Gateway = Plane<R>;
    type Load = Load;

    fn kind(&self) -> &'static str {
        R::NAME
    }

    fn profile(&self) -> &'static str {
        self.name
    }

    fn size(&self) -> (u32, u64) {
        (self.subscribers, self.ports.iter().map(|port| port.frames.len() as u64).sum())
    }

    fn memory_ports(&self) -> Vec<Caps> {
        let caps = |port: &PortTraffic| Caps { kind: "memory", mac: port.mac, mtu: 1500, ..Caps::default() };
        self.ports.iter().map(caps).collect()
    }

    fn assemble(&self, workers: u16, caps: &[Caps]) -> Result<Assembled<Plane<R>>, BenchError> {
        let wrong = |error: &dyn std::fmt::Display| BenchError::Gateway(error.to_string());
        let asked = self.config.head();
        if asked.workers.count != workers {
            let what =
                format!("the workload's configuration has {} workers, asked for are {workers}", asked.workers.count);
            return Err(BenchError::Asked(what));
        }
        if asked.ports.len() != self.ports.len() {
            let what = format!("{} ports with traffic, {} in the configuration", self.ports.len(), asked.ports.len());
            return Err(BenchError::Asked(what));
        }
        RoutedGateway::<R>::check(&self.config).map_err(|error| wrong(&error))?;
        let (control, inits) = routed::assemble::<R>(&self.config, caps).map_err(|error| wrong(&error))?;
        let seats = inits.into_iter().enumerate().map(|(n, init)| {
            // Whoever receives a frame hands it to the worker that owns it; the frames are dealt out.
            let at = |n: u32| (u64::from(self.subscribers) * u64::from(n) / u64::from(workers)) as u32;
            let users = at(n as u32)..at(n as u32 + 1);
            WorkerInit { gateway: init.plane, layout: init.layout, hand_off: init.hand_off, users }
        });
        let seats = seats.collect();
        Ok(Assembled { seats, control: Box::new(Controlled(control)), session_bytes: 0 })
    }

    fn far_side(&self, share: &Share) -> Result<FarSide<Load>, BenchError> {
        let clock = Clock::tsc();
        let (shared, counts): (Arc<Shared>, [Arc<Counts>; 2]) = Default::default();
        let busy = self.ports.iter().filter(|port| !port.frames.is_empty()).count() as u64;
        let end = |(n, traffic): (usize, &PortTraffic)| -> Box<dyn Port> {
            let direction = usize::from(n > 0);
            Box::new(End {
                traffic: traffic.clone(),
                next: usize::from(share.worker) * traffic.frames.len() / usize::from(share.workers),
                given: 0,
                parts: busy.max(1),
                shared: shared.clone(),
                begins: counts[direction].clone(),
                ends: counts[1 - direction].clone(),
                clock: clock.clone(),
                counters: PortCounters::default(),
            })
        };
        let ports = self.ports.iter().enumerate().map(end).collect();
        Ok(FarSide { ports, load: Load::new(shared, counts, clock), flows: share.users.len() as u32 })
    }
}

/// What stands behind a port.
struct End {
    traffic: PortTraffic,
    /// The next frame.
    next: usize,
    /// Frames given since the load began.
    given: u64,
    /// Ports that share the rate.
    parts: u64,
    shared: Arc<Shared>,
    begins: Arc<Counts>,
    ends: Arc<Counts>,
    clock: Clock,
    counters: PortCounters,
}

impl End {
    /// Packets that are due now, at most a burst.
    fn due(&mut self) -> usize {
        if self.traffic.frames.is_empty() || !self.shared.on.load(Ordering::Relaxed) {
            self.given = 0;
            return 0;
        }
        match self.shared.rate.load(Ordering::Relaxed) {
            0 => BURST,
            rate => {
                let elapsed = self.clock.now_ns().saturating_sub(self.shared.since.load(Ordering::Relaxed));
                let all = u128::from(rate) * u128::from(elapsed) / 1_000_000_000_000;
                (all as u64 / self.parts).saturating_sub(self.given).min(BURST as u64) as usize
            }
        }
    }
}

impl Port for End {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let (mut made, mut bytes) = (0, 0);
        for _ in 0..self.due().min(out.room()) {
            let frame = &self.traffic.frames[self.next];
            let Some(made_of) = pool.make(frame) else {
                self.counters.rx_no_frame += 1;
                break;
            };
            bytes += frame.len() as u64;
            self.next = (self.next + 1) % self.traffic.frames.len();
            if let Err(frame) = out.push(made_of) {
                pool.give(frame);
                break;
            }
            made += 1;
        }
        self.given += made;
        add(&self.begins.sent, made);
        add(&self.begins.sent_bytes, bytes);
        self.counters.rx_packets += made;
        self.counters.rx_bytes += bytes;
        made as usize
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let (mut right, mut bytes, mut wrong) = (0, 0, 0);
        let sent = batch.len();
        batch.drain(|frame| {
            let octets = pool.arena().bytes(&frame);
            if (self.traffic.is_right)(octets) {
                (right, bytes) = (right + 1, bytes + octets.len() as u64);
            } else {
                // What it asks its neighbours is no packet of a subscriber.
                wrong += u64::from(NeighbourMessage::parse(octets).is_err());
            }
            pool.give(frame);
        });
        add(&self.ends.right, right);
        add(&self.ends.right_bytes, bytes);
        add(&self.ends.wrong, wrong);
        self.counters.tx_packets += sent as u64;
        sent
    }

    fn service(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        Caps { kind: "memory", name: "end".to_owned(), mac: self.traffic.mac, mtu: 1500, ..Caps::default() }
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

/// Cost per packet of a gateway, by stage, in memory.
#[derive(Debug, Parser)]
struct Args {
    /// Time to measure.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = gateway::cli::seconds)]
    seconds: f64,
    /// Packets offered a second, instead of more than can be forwarded.
    #[arg(long, value_name = "RATE", value_parser = gateway::cli::packets_per_second)]
    pps: Option<f64>,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
    #[command(flatten)]
    json: JsonOutput,
}

/// The program of a gateway's benchmark: measures, and prints a table or, with `--json`, the report as JSON.
pub fn main<R: Routed>(workload: &Workload<R>) -> ExitCode {
    let args = Args::parse();
    gateway::fail::exit(measure(workload, &args))
}

fn measure<R: Routed>(workload: &Workload<R>, args: &Args) -> anyhow::Result<()> {
    let stop = gateway::signals::stop_flag().context("no signal handlers")?;
    let workers = workload.config.head().workers.count;
    let options = Options { workers, seconds: args.seconds, pps: args.pps, ..Options::default() };
    let report = crate::run(workload, &options, &stop)?;
    args.json.print_pretty(&report, || show::report(&report))
}
