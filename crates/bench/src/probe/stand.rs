//! Links with workers and a load: what the steps of a probe are measured on, and a device of searches.
//!
//! ```text
//!  load's namespace                 gateway's namespace
//!  l6-N ── kernel's frames ───────► n6-N ─► workers ─► n3-N ──┐
//!  l3-N ◄── counted, timed ───────────────────────────────────┘
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use certificate::{FlowKey, Task};
use frame::{Arena, ArenaConfig, Pool};
use port::{Steer, Uri};
use traffic::{Direction, Generator, Plan, Profile, Ratio, Sizes};

use super::workers::{Seat, Workers};
use crate::bed::MTU;
use crate::error::BenchError;
use crate::host::CpuTime;
use crate::kernel_load::KernelLoad;
use crate::lab::{Lab, Shape, Side};
use crate::options::PortKind;
use crate::search::{Disturbance, Outcome, Trial};
use crate::socket::{SLOTS, arena, open, uri};
use crate::thread::cpus;

/// Bytes of the frame check sequence, which frame sizes count and interfaces do not show.
const FCS: u32 = 4;
/// The kernel's source sends so long at a time: Ctrl-C waits for the end of one.
const PART: Duration = Duration::from_millis(400);
/// Different packets that a transmitting worker sends.
const PREPARED: usize = 64;

/// What packets are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packets {
    /// With FCS.
    pub frame_bytes: u32,
    pub flows: u32,
    pub by: FlowKey,
}

impl Packets {
    /// Of a size, in 1,024 flows that differ in addresses and ports as flows of hosts do.
    pub fn of_size(frame_bytes: u32) -> Self {
        Self { frame_bytes, flows: 1024, by: FlowKey::FiveTuple }
    }

    /// Plain UDP over IPv4 in one direction, signed.
    fn profile(self) -> Profile {
        let (ues, flows) = match self.by {
            FlowKey::FiveTuple => (1, self.flows),
            FlowKey::ThreeTuple => (self.flows, 1),
        };
        Profile {
            ues,
            flows_per_bearer: u16::try_from(flows).unwrap_or(u16::MAX),
            port_span: u16::try_from(flows).unwrap_or(u16::MAX).max(100),
            servers: 1,
            ratio: Ratio { up: 0.0, down: 1.0 },
            downlink_sizes: Sizes::Fixed((self.frame_bytes - FCS) as u16),
            user_checksums: false,
            ..Profile::default()
        }
    }

    /// Frames without FCS, as workers send them.
    fn frames(self) -> Result<Arc<[Vec<u8>]>, BenchError> {
        let plan = Plan::new(self.profile())?;
        let mut generator = Generator::new(&plan, Direction::Downlink)?;
        let mut space = vec![0; generator.largest()];
        let mut frame = || {
            space.fill(0);
            generator.next(&mut space, 0).map(|len| space[..len].to_vec())
        };
        Ok((0..PREPARED).filter_map(|_| frame()).collect())
    }
}

/// The namespaces, in which links are made.
pub(crate) struct Ground {
    lab: Arc<Lab>,
    links: usize,
    kind: PortKind,
    /// CPUs of workers: all but the first, which has the load.
    pub worker_cpus: Vec<usize>,
}

impl Ground {
    /// Two namespaces; links will have so many queues.
    ///
    /// # Errors
    /// What the system refused: this wants root.
    pub fn new(kind: PortKind, queues: u16) -> Result<Self, BenchError> {
        let cpus = cpus();
        let worker_cpus = if cpus.len() > 1 { cpus[1..].to_vec() } else { cpus };
        let lab = Arc::new(Lab::new(Shape { mtu: MTU, queues })?);
        Ok(Self { lab, links: 0, kind, worker_cpus })
    }

    fn link(&mut self, live: bool) -> Result<usize, BenchError> {
        let n = self.links;
        self.links += 1;
        let profile = Profile::default();
        self.lab.links(n, [profile.access.gateway, profile.core.gateway])?;
        if live {
            self.lab.receive_live(n)?;
        }
        Ok(n)
    }

    /// A link without workers: packets are counted where workers would receive them.
    pub fn alone(&mut self, packets: Packets) -> Result<(KernelLoad, Arc<Lab>), BenchError> {
        let link = self.link(false)?;
        let load = KernelLoad::against_itself(&self.lab, link, packets.profile())?.in_parts_of(PART);
        Ok((load, self.lab.clone()))
    }

    /// A link with workers.
    pub fn stand<'s>(
        &mut self,
        task: Task,
        queues: u16,
        packets: Packets,
        stop: &'s AtomicBool,
    ) -> Result<Stand<'s>, BenchError> {
        let link = self.link(self.kind != PortKind::Xdp)?;
        let mut seats = Vec::new();
        for worker in 0..queues {
            let arena: Arc<Arena> = arena(ArenaConfig { slots: SLOTS, ..ArenaConfig::default() })?;
            let mut pool = Pool::new(&arena, SLOTS as usize);
            let uris = Side::BOTH.map(|side| self.uri(side, link, (worker, queues)));
            let ports = open(uris, &mut pool, &Steer::new())?;
            let cpu = self.worker_cpus[usize::from(worker) % self.worker_cpus.len()];
            seats.push(Seat { ports, pool, arena, cpu });
        }
        let detail = seats.first().map_or_else(String::new, |seat| seat.ports[0].caps().detail);
        let shares_cpu = usize::from(queues) > self.worker_cpus.len() || cpus().len() == 1;
        let workers = Workers::start(task, seats, &packets.frames()?, shares_cpu)?;
        let mut stand = Stand { workers, load: None, lab: self.lab.clone(), link, task, detail, pace: 1.0, stop };
        stand.load_with(packets)?;
        Ok(stand)
    }

    /// Flows are spread over a group's members by the kernel's hash, as a card's RSS does.
    fn uri(&self, side: Side, link: usize, (worker, workers): (u16, u16)) -> Uri {
        let one = uri(self.kind, &self.lab, side, link, (if self.kind == PortKind::Xdp { worker } else { 0 }, 1));
        if workers == 1 || self.kind == PortKind::Xdp {
            return one;
        }
        let group = 2 * link + usize::from(side == Side::N6) + 1;
        one.with("fanout", "hash").with("group", group).with("member", format!("{worker}/{workers}"))
    }
}

/// Workers on a link, and what loads them.
pub(crate) struct Stand<'s> {
    workers: Workers,
    load: Option<KernelLoad>,
    lab: Arc<Lab>,
    link: usize,
    task: Task,
    /// What the ports say of themselves.
    pub detail: String,
    /// The kernel's source gives up what it is behind with: it is asked for so many times the load.
    pace: f64,
    stop: &'s AtomicBool,
}

/// What happened in a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub seconds: f64,
    /// By the load.
    pub sent: u64,
    /// What the task did: received, sent by workers and arrived, or forwarded and arrived.
    pub done: u64,
    pub latency: traffic::LatencySummary,
}

impl Counted {
    /// Millions of packets a second.
    pub fn mpps(&self) -> f64 {
        self.done as f64 / self.seconds.max(1e-9) / 1e6
    }
}

impl Stand<'_> {
    /// Loads it with other packets.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn load_with(&mut self, packets: Packets) -> Result<(), BenchError> {
        // The former one holds the interfaces.
        self.load = None;
        if self.task != Task::Transmit {
            self.load = Some(KernelLoad::new(&self.lab, self.link, packets.profile())?.in_parts_of(PART));
        }
        Ok(())
    }

    /// Loads it for so long with `pps` packets a second, or as many as can be sent.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`], or what broke.
    pub fn run(&mut self, length: Duration, pps: Option<f64>) -> Result<Counted, BenchError> {
        let arrived = self.lab.arrived(self.link)[0];
        let ([received, _], begun) = (self.workers.packets(), Instant::now());
        let counted = match &self.load {
            None => {
                while begun.elapsed() < length && !self.stop.load(Ordering::Relaxed) {
                    std::thread::sleep((length.saturating_sub(begun.elapsed())).min(Duration::from_millis(50)));
                }
                let done = self.lab.arrived(self.link)[0] - arrived;
                Counted { seconds: begun.elapsed().as_secs_f64(), sent: done, done, ..Counted::default() }
            }
            Some(load) => {
                let (found, _) = load.run(length, pps, self.stop, &mut |_| {})?;
                let down = found.directions.downlink;
                let done = match self.task {
                    Task::Receive => self.workers.packets()[0] - received,
                    _ => down.forwarded_packets,
                };
                Counted { seconds: found.seconds, sent: down.sent_packets, done, latency: down.latency_us }
            }
        };
        if self.stop.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(counted) }
    }
}

/// A load that sends less than this part of what it should is the limit itself.
const PRECISION: f64 = 0.97;
/// Steal of more than this part of the processors' time makes a trial invalid.
const MOST_STEAL: f64 = 0.01;

impl Trial for Stand<'_> {
    type Error = BenchError;

    fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, BenchError> {
        let (begin, cpu) = (Instant::now(), CpuTime::now());
        let counted = self.run(duration, Some(load * self.pace))?;
        let intended = (load * counted.seconds) as u64;
        let behind = intended as f64 / (counted.sent as f64).max(1.0);
        self.pace = (self.pace * behind.clamp(0.9, 1.2)).clamp(1.0, 2.0);
        let unsent = intended.saturating_sub(counted.sent);
        let unsent = if (counted.sent as f64) < intended as f64 * PRECISION { unsent } else { 0 };
        let stolen = CpuTime::now().since(&cpu).0 > MOST_STEAL;
        Ok(Outcome {
            intended_packets: counted.sent + unsent,
            sent_packets: counted.sent,
            forwarded_packets: counted.done,
            lost_packets: counted.sent.saturating_sub(counted.done) + unsent,
            counted_seconds: counted.seconds,
            elapsed_seconds: begin.elapsed().as_secs_f64(),
            latency_us: crate::search::slower([counted.latency]),
            disturbed: if stolen { vec![Disturbance::Steal] } else { vec![] },
        })
    }
}
