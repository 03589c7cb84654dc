//! A routed gateway under test, in memory: its crate brings a configuration and frames, which its ports receive again and
//! again. `cargo bench -p toy` is one.
//!
//! Packets that the gateway sends count as right when the workload says so; none is compared with the one it was. Whom it
//! sends to stands in the configuration (`[[neighbour]]`): nobody answers for hardware addresses.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use dataplane::neighbour::NeighbourMessage;
use frame::{BURST, Caps};
use gateway::json::JsonOutput;
use gateway::routed::{self, Plane, Routed, RoutedGateway};
use gateway::shell::{Gateway as _, Sections as _};
use traffic::Clock;

use crate::ends::{Checked, End, FarEnds, Load, Shared};
use crate::error::BenchError;
use crate::options::Options;
use crate::show;
use crate::under_test::{Assembled, FarSide, Share, UnderTest};

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
        self.ports.iter().map(PortTraffic::caps).collect()
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
        let (mut control, inits) = routed::assemble::<R>(&self.config, caps).map_err(|error| wrong(&error))?;
        let seats = inits.into_iter().enumerate().map(|(n, init)| {
            // Whoever receives a frame hands it to the worker that owns it; the frames are dealt out.
            let at = |n: u32| (u64::from(self.subscribers) * u64::from(n) / u64::from(workers)) as u32;
            let users = at(n as u32)..at(n as u32 + 1);
            (init, users)
        });
        Ok(Assembled { workers: seats.collect(), control: Box::new(move |now_ns| control.poll(now_ns)) })
    }

    fn far_side(&self, share: &Share) -> Result<FarSide<Load>, BenchError> {
        let busy = self.ports.iter().filter(|port| !port.frames.is_empty()).count() as u64;
        let end = |traffic: &PortTraffic| FrameEnd {
            traffic: traffic.clone(),
            next: usize::from(share.worker) * traffic.frames.len() / usize::from(share.workers),
            parts: busy.max(1),
        };
        let ends = self.ports.iter().map(end).fold(FarEnds::new(Clock::tsc()), FarEnds::with);
        Ok(ends.side(share.users.len() as u32))
    }
}

impl PortTraffic {
    fn caps(&self) -> Caps {
        Caps { kind: "memory", mac: self.mac, mtu: 1500, ..Caps::default() }
    }
}

/// What stands behind a port.
struct FrameEnd {
    traffic: PortTraffic,
    /// The next frame.
    next: usize,
    /// Ports that share the rate.
    parts: u64,
}

impl End for FrameEnd {
    fn caps(&self) -> Caps {
        Caps { name: "end".to_owned(), ..self.traffic.caps() }
    }

    fn due(&mut self, shared: &Shared, given: u64, clock: &Clock) -> u64 {
        if self.traffic.frames.is_empty() {
            return 0;
        }
        shared.due(given, (1, self.parts), clock).unwrap_or(BURST as u64)
    }

    fn write(&mut self, space: &mut [u8]) -> Option<usize> {
        let frame = &self.traffic.frames[self.next];
        space.get_mut(..frame.len())?.copy_from_slice(frame);
        self.next = (self.next + 1) % self.traffic.frames.len();
        Some(frame.len())
    }

    fn check(&mut self, frame: &[u8]) -> Checked {
        match (self.traffic.is_right)(frame) {
            true => Checked::Right(frame.len() as u64),
            // What it asks its neighbours is no packet of a subscriber.
            false if NeighbourMessage::parse(frame).is_ok() => Checked::Other,
            false => Checked::Wrong,
        }
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
