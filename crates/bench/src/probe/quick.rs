//! `weir probe quick`: generator, queues, flows, latency, spread and a gateway, in a quarter of an hour or less.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use certificate::{Band, Certificate, FlowKey, FlowRate, GatewayRate, GeneratorRate, Rate, Run, SCHEMA, Skipped, Task};
use engine::Io;

use super::far::{self, Far, FarHost};
use super::rate::{EQUAL, LOSS, Offered, PARTS, Times, at_rates};
use super::stand::{Ground, Packets};
use super::{Progress, Steps, machine_facts};
use crate::bed::Bed;
use crate::cost::{Cost, together};
use crate::error::BenchError;
use crate::host::{CpuTime, date};
use crate::options::{PortKind, ReceiveWork, cut};
use crate::profiles::Settings;
use crate::report::VERSION;
use crate::run::overload;
use crate::under_test::UnderTest;
use crate::upf::UpfUnderTest;
use crate::window::{How, Rig, in_turns};

/// How a probe is to be made.
#[derive(Clone, Debug)]
pub struct QuickOptions {
    /// What it is to take, in minutes; set-up of links is beyond it.
    pub minutes: f64,
    /// Kind of the ports; not memory.
    pub port: PortKind,
    /// Queues at most; none: as many as there are CPUs for workers.
    pub queues: Option<u16>,
    /// An interface of this host, and an agent at the other end of its link; none: virtual links of this host.
    pub far: Option<FarHost>,
    /// The command line, for the certificate.
    pub command: String,
}

/// Frame sizes, with FCS.
const SIZES: [u32; 2] = [64, 1400];
/// Numbers of flows.
const FLOWS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// Samples of a rate.
const SAMPLES: usize = 5;

/// Seconds of each kind of step.
#[derive(Clone, Copy, Debug)]
struct Budget {
    generator: f64,
    rate: f64,
    flows: f64,
    search: f64,
    latency: f64,
    /// Of one of the equal trials: 20 s of 15 minutes.
    equal: f64,
    gateway: f64,
}

impl Budget {
    /// Divides the time among steps; `rates` is how many combinations of task, queues and size there are.
    fn of(minutes: f64, rates: usize) -> Self {
        let unit = minutes / 15.0;
        let each_rate = (310.0 / rates.max(1) as f64).min(25.0);
        Self {
            generator: 10.0 * unit,
            rate: each_rate * unit,
            flows: 8.0 * unit,
            search: 90.0 * unit,
            latency: 15.0 * unit,
            equal: 20.0 * unit,
            gateway: 40.0 * unit,
        }
    }
}

/// The queues that can be measured, and why others cannot.
fn queues(options: &QuickOptions, cpus: usize) -> (Vec<u16>, Vec<Skipped>) {
    let most = options.queues.unwrap_or_else(|| u16::try_from(cpus).unwrap_or(64).min(64));
    let mut skipped = Vec::new();
    if let Some(far) = &options.far {
        let there_are = far::queues(&far.interface);
        if options.port == PortKind::Xdp {
            // The card spreads packets over all of its queues.
            let why = format!(
                "{} has {there_are} receive queues, and AF_XDP sockets have one each: ethtool -L sets others",
                far.interface
            );
            skipped.push(Skipped { what: format!("queues but {there_are}"), why });
            return (vec![there_are], skipped);
        }
        return (doubling(most), skipped);
    }
    if options.port == PortKind::Xdp && most > 1 {
        skipped.push(Skipped {
            what: format!("2 to {most} queues"),
            why:
                "a virtual link delivers all that one CPU sends to one receive queue, and AF_XDP sockets have a queue \
                  each: add --port ring"
                    .to_owned(),
        });
        return (vec![1], skipped);
    }
    if most == 1 && options.queues.is_none() {
        skipped.push(Skipped {
            what: "2 queues and more".to_owned(),
            why: "each queue takes a worker with a CPU, and the load has a CPU of its own: this host has one for \
                  workers; \
                  --queues 2 has workers share it"
                .to_owned(),
        });
    }
    (doubling(most), skipped)
}

/// 1, 2, 4 … up to the most, which is in it.
fn doubling(most: u16) -> Vec<u16> {
    let mut all: Vec<u16> = (0..16).map(|power| 1u16 << power).take_while(|queues| *queues < most).collect();
    all.push(most);
    all
}

/// Measures. `show` is told before each step how far it is. Interrupted, what was found so far is returned, marked
/// incomplete.
///
/// # Errors
/// The links cannot be made: this wants root.
pub fn quick(
    options: &QuickOptions,
    stop: &Arc<AtomicBool>,
    show: &mut dyn FnMut(&Progress),
) -> Result<Certificate, BenchError> {
    if options.far.is_some() && options.port == PortKind::Dpdk {
        return Err(BenchError::Asked("--interface has no dpdk; allowed: plain, mmsg, ring, xdp".to_owned()));
    }
    if options.port == PortKind::Memory {
        return Err(BenchError::Asked("a probe measures interfaces; allowed: plain, mmsg, ring, xdp, dpdk".to_owned()));
    }
    let others = busy_before();
    let (begun, cpu, when) = (Instant::now(), CpuTime::now(), date());
    // Links of this host have the load on a CPU.
    let loads = usize::from(options.far.is_none());
    let cpus = crate::thread::cpus().len().saturating_sub(loads).max(1);
    let (queues, skipped) = queues(options, cpus);
    let most = queues.last().copied().unwrap_or(1);
    let far = options.far.as_ref().map(|host| Far::connect(host, stop)).transpose()?;
    let before = options.far.as_ref().map_or_else(Vec::new, |host| far::exceeded(&host.interface));
    let ground = match far {
        Some(far) => Ground::far(far, options.port),
        None => Ground::new(options.port, most)?,
    };
    let budget = Budget::of(options.minutes, 3 * queues.len() * SIZES.len());
    let steps = Steps::new(planned(&budget, &queues), show, stop);
    let mut probe = Probe {
        steps,
        ground,
        budget,
        queues,
        kind: options.port,
        detail: String::new(),
        certificate: Certificate { skipped, ..Certificate::default() },
        is_far: options.far.is_some(),
        stop,
    };
    let done = probe.all();
    let is_complete = done.is_ok();
    let Probe { mut certificate, detail, .. } = probe;
    match done {
        Ok(()) => {}
        Err(BenchError::Interrupted) => certificate.notes.push("interrupted: later steps were not made".to_owned()),
        Err(error) if certificate.rates.is_empty() => return Err(error),
        Err(error) => certificate.notes.push(format!("ended early: {error}")),
    }
    if others > MOST_BUSY {
        let percent = others * 100.0;
        certificate.notes.push(format!(
            "other work took {percent:.0} % of the processors when the probe began: rates are too low, run it on an \
             idle machine"
        ));
    }
    let (interface, place) = match &options.far {
        None => {
            certificate.notes.push(
                "virtual links of this host: rates are of processors and kernel, not of a network card; packets go one \
                 way"
                    .to_owned(),
            );
            let driver = if detail.is_empty() { "veth".to_owned() } else { format!("veth ({detail})") };
            (driver, "namespaces of this host".to_owned())
        }
        Some(host) => {
            certificate.notes.extend(far_notes(host, &before));
            let driver = far::driver(&host.interface);
            let name = &host.interface;
            // What begins with veth is no network card.
            let interface = if driver == "veth" { format!("veth ({name})") } else { format!("{name} ({driver})") };
            (interface, format!("this host and the agent {}", host.agent))
        }
    };
    Ok(Certificate {
        schema: SCHEMA,
        date: when,
        version: VERSION.to_owned(),
        host: machine_facts::host(interface, most, CpuTime::now().since(&cpu).0),
        run: Run {
            command: options.command.clone(),
            port: options.port.name().to_owned(),
            place,
            seconds: begun.elapsed().as_secs_f64(),
            is_complete,
        },
        ..certificate
    })
}

/// What to know of a link to another host; `before`: its allowance counters at the begin.
fn far_notes(host: &FarHost, before: &[(String, u64)]) -> Vec<String> {
    let mut notes = vec![
        "the agent sends by its own port, and counts what comes back: where the generator alone sends no more, it is the \
         limit; latencies are round trips"
            .to_owned(),
    ];
    for (name, value) in far::exceeded(&host.interface) {
        let then = before.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value);
        if value > then {
            notes.push(format!(
                "{} {name} moved by {}: the instance's allowance was the limit",
                host.interface,
                value - then
            ));
        }
    }
    notes
}

/// Other work takes more than this part of the processors: they are not this probe's.
const MOST_BUSY: f64 = 0.1;

/// The part of the processors' time that others take, over half a second.
fn busy_before() -> f64 {
    let before = CpuTime::now();
    std::thread::sleep(Duration::from_millis(500));
    CpuTime::now().since(&before).1
}

/// All steps with their seconds, set-up included.
fn planned(budget: &Budget, queues: &[u16]) -> Vec<(String, f64)> {
    /// Making a link and preparing packets.
    const SET_UP: f64 = 1.0;
    let mut all = Vec::new();
    for size in SIZES {
        all.push((format!("generator alone, {size} B"), budget.generator + SET_UP));
    }
    for queues in queues {
        for task in [Task::Receive, Task::Transmit, Task::Forward] {
            for size in SIZES {
                let name = format!("{}, {}, {size} B", task.word(), many(*queues));
                all.push((name, budget.rate + SET_UP));
            }
        }
    }
    for by in ["5-tuple", "3-tuple"] {
        for flows in FLOWS {
            all.push((format!("{flows} flows by {by}"), budget.flows + SET_UP));
        }
    }
    all.push((format!("rate with {} % loss", LOSS * 100.0), budget.search + SET_UP));
    all.push(("latency".to_owned(), budget.latency * (PARTS.len() + 1) as f64));
    all.push((format!("{EQUAL} equal trials"), budget.equal * EQUAL as f64));
    all.push(("gateway upf-128".to_owned(), budget.gateway + SET_UP));
    all
}

fn many(queues: u16) -> String {
    if queues == 1 { "1 queue".to_owned() } else { format!("{queues} queues") }
}

/// A probe under way.
struct Probe<'s> {
    steps: Steps<'s>,
    ground: Ground,
    budget: Budget,
    queues: Vec<u16>,
    kind: PortKind,
    /// What the ports say of themselves.
    detail: String,
    certificate: Certificate,
    /// The load is an agent on another host.
    is_far: bool,
    stop: &'s AtomicBool,
}

impl<'s> Probe<'s> {
    fn all(&mut self) -> Result<(), BenchError> {
        self.generator()?;
        for queues in self.queues.clone() {
            for task in [Task::Receive, Task::Transmit, Task::Forward] {
                for size in SIZES {
                    self.rate(task, queues, size)?;
                }
            }
        }
        let most = self.queues.last().copied().unwrap_or(1);
        self.flows(most)?;
        self.at_a_rate()?;
        if self.is_far {
            // A gateway of this host has links of this host, which say nothing of the interface.
            let why = "it is measured on virtual links: weir probe quick without --interface; or weir probe gateway";
            self.certificate.skipped.push(Skipped { what: "gateway upf-128".to_owned(), why: why.to_owned() });
            return Ok(());
        }
        self.gateway()
    }

    /// What the generator sends where nothing is between it and the count.
    fn generator(&mut self) -> Result<(), BenchError> {
        for size in SIZES {
            self.steps.next()?;
            let alone = self.ground.alone(Packets::of_size(size))?;
            let length = sample(self.budget.generator);
            let (mut sent, mut arrived) = (Vec::new(), Vec::new());
            for _ in 0..samples(self.budget.generator) {
                let [out, here] = alone.run(length, self.stop)?;
                self.interrupted()?;
                sent.push(out / 1e6);
                arrived.push(here / 1e6);
            }
            self.certificate.generator.push(GeneratorRate {
                frame_bytes: size,
                sent_mpps: band(&sent),
                arrived_mpps: band(&arrived),
            });
        }
        Ok(())
    }

    fn interrupted(&self) -> Result<(), BenchError> {
        let is = self.stop.load(std::sync::atomic::Ordering::Relaxed);
        if is { Err(BenchError::Interrupted) } else { Ok(()) }
    }

    fn rate(&mut self, task: Task, queues: u16, size: u32) -> Result<(), BenchError> {
        self.steps.next()?;
        let mut stand = self.ground.stand(task, queues, Packets::of_size(size), self.stop)?;
        self.detail.clone_from(&stand.detail);
        let (mut mpps, mut sent) = (Vec::new(), Vec::new());
        let length = sample(self.budget.rate);
        for _ in 0..samples(self.budget.rate) {
            let counted = stand.run(length, None)?;
            mpps.push(counted.mpps());
            sent.push(counted.sent as f64 / counted.seconds.max(1e-9) / 1e6);
        }
        let (mpps, sent) = (band(&mpps), band(&sent));
        self.certificate.rates.push(Rate {
            task,
            queues,
            frame_bytes: size,
            gbps_l2: mpps.mid * f64::from(size - 4) * 8.0 / 1e3,
            is_generator_limited: task != Task::Transmit && mpps.mid > 0.99 * sent.mid,
            mpps,
        });
        Ok(())
    }

    fn flows(&mut self, queues: u16) -> Result<(), BenchError> {
        let of = |by, flows| Packets { frame_bytes: SIZES[0], flows, by };
        let mut stand = self.ground.stand(Task::Forward, queues, of(FlowKey::FiveTuple, 1), self.stop)?;
        for by in [FlowKey::FiveTuple, FlowKey::ThreeTuple] {
            for flows in FLOWS {
                self.steps.next()?;
                stand.load_with(of(by, flows))?;
                let mut mpps = Vec::new();
                for _ in 0..samples(self.budget.flows) {
                    mpps.push(stand.run(sample(self.budget.flows), None)?.mpps());
                }
                self.certificate.flows.push(FlowRate { by, flows, queues, frame_bytes: SIZES[0], mpps: band(&mpps) });
            }
        }
        Ok(())
    }

    /// The rate with little loss, latency at parts of it, equal trials.
    fn at_a_rate(&mut self) -> Result<(), BenchError> {
        self.steps.next()?;
        let packets = Packets::of_size(SIZES[0]);
        // A card spreads packets over its queues, whatever is asked for.
        let queues = if self.is_far { self.queues.last().copied().unwrap_or(1) } else { 1 };
        let mut stand = self.ground.stand(Task::Forward, queues, packets, self.stop)?;
        let overload = stand.run(sample(self.budget.rate), None)?;
        let times = Times { search: self.budget.search, latency: self.budget.latency, equal: self.budget.equal };
        let offered = Offered { most: overload.mpps() * 1e6, frame_bytes: SIZES[0] };
        at_rates(&mut stand, &offered, &times, &mut self.steps, &mut self.certificate)
    }

    /// weir's own cost on this machine, which a running gateway compares itself with.
    fn gateway(&mut self) -> Result<(), BenchError> {
        self.steps.next()?;
        let under = UpfUnderTest { settings: Settings::upf_128() };
        let mut bed = Bed::new(&under.links()?, 1, true, ReceiveWork::default())?;
        let mut ready = bed.gateways(&under, self.kind, 1, 1)?;
        overload(&mut ready.rig)?;
        let (measure, rounds) = cut(self.budget.gateway.max(1.0));
        let how = How { warm: Duration::from_millis(60), ..How::most(measure) };
        let windows = in_turns(&mut [&mut ready.rig], &[(0, how)], rounds, self.stop)?;
        Box::new(ready.rig).close()?;
        let of = &windows[0];
        let cost = Cost::of(of);
        let (mut packets, mut bursts, mut received, mut bytes, mut forwarded) = (0, 0, 0, 0.0, 0.0);
        for window in of {
            let delta = together(window);
            (packets, bursts) = (packets + delta.io(Io::RxPackets), bursts + delta.io(Io::Bursts));
            received += delta.io(Io::RxBytes);
            for direction in [&window.traffic.directions.uplink, &window.traffic.directions.downlink] {
                forwarded += direction.forwarded_packets as f64;
                bytes += direction.frame_bytes_mean * direction.forwarded_packets as f64;
            }
        }
        let mpps: Vec<f64> = of.iter().map(|window| window.traffic.mpps).collect();
        self.certificate.gateways.push(GatewayRate {
            gateway: under.kind().to_owned(),
            profile: under.profile().to_owned(),
            workers: 1,
            subscribers: u64::from(under.size().0),
            frame_bytes_mean: bytes / f64::max(forwarded, 1.0),
            received_bytes_mean: received as f64 / packets.max(1) as f64,
            mpps: band(&mpps),
            cycles_per_packet: cost.cycles_per_packet,
            packets_per_burst: packets as f64 / bursts.max(1) as f64,
        });
        Ok(())
    }
}

/// One of the samples in a time.
fn sample(seconds: f64) -> Duration {
    Duration::from_secs_f64((seconds / samples(seconds) as f64).max(0.1))
}

/// Samples of a rate: setting each up takes a while, which short times do not have.
fn samples(seconds: f64) -> usize {
    if seconds < 1.0 { 3 } else { SAMPLES }
}

fn band(samples: &[f64]) -> Band {
    Band::of(samples).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(port: PortKind, queues: Option<u16>) -> QuickOptions {
        QuickOptions { minutes: 15.0, port, queues, far: None, command: String::new() }
    }

    #[test]
    fn queues_double_up_to_the_most() {
        assert_eq!((doubling(1), doubling(6), doubling(8)), (vec![1], vec![1, 2, 4, 6], vec![1, 2, 4, 8]));
        let (all, skipped) = queues(&options(PortKind::Ring, None), 1);
        assert!(all == [1] && skipped[0].why.contains("--queues 2"), "{skipped:?}");
        let (all, skipped) = queues(&options(PortKind::Ring, Some(2)), 1);
        assert!(all == [1, 2] && skipped.is_empty());
        let (all, skipped) = queues(&options(PortKind::Xdp, None), 7);
        assert!(all == [1] && skipped[0].what == "2 to 7 queues", "{skipped:?}");
    }

    #[test]
    fn fifteen_minutes_are_fifteen_minutes() {
        for queues in [1u16, 4, 32] {
            let queues = doubling(queues);
            let budget = Budget::of(15.0, 6 * queues.len());
            let all: f64 = planned(&budget, &queues).iter().map(|(_, seconds)| seconds).sum();
            assert!((700.0..1000.0).contains(&all), "{queues:?}: {all} s");
            assert_eq!(budget.equal, 20.0, "ten times 20 s");
        }
    }
}
