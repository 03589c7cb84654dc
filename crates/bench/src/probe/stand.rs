//! Links with workers and a load: what the steps of a probe are measured on, and a device of searches.
//!
//! ```text
//!  load's namespace                 gateway's namespace
//!  l6-N ── kernel's frames ───────► n6-N ─► workers ─► n3-N ──┐
//!  l3-N ◄── counted, timed ───────────────────────────────────┘
//! ```
//!
//! Or an agent's host sends to an interface of this one, and counts what comes back.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use certificate::{FlowKey, Task};
use frame::{Arena, ArenaConfig, Pool, Port};
use port::{OpenContext, Steer, Uri};
use traffic::{Direction, Generator, Plan, Profile, Ratio, Segment, Sizes};
use wire::Mac;

use super::far::Far;
use super::workers::{Seat, Workers};
use crate::bed::MTU;
use crate::error::BenchError;
use crate::host::CpuTime;
use crate::kernel_load::KernelLoad;
use crate::lab::{Lab, Shape, Side};
use crate::noise::ThreadNoise;
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

    /// Frames without FCS, as workers send them; `addresses`: hardware addresses of destination and source.
    fn frames(self, addresses: Option<[[u8; 6]; 2]>) -> Result<Arc<[Vec<u8>]>, BenchError> {
        let mut profile = self.profile();
        if let Some([to, from]) = addresses {
            profile.core = Segment { own: Mac(from), gateway: Mac(to), ..profile.core };
        }
        let plan = Plan::new(profile)?;
        let mut generator = Generator::new(&plan, Direction::Downlink)?;
        let mut space = vec![0; generator.largest()];
        let mut frame = || {
            space.fill(0);
            generator.next(&mut space, 0).map(|len| space[..len].to_vec())
        };
        Ok((0..PREPARED).filter_map(|_| frame()).collect())
    }
}

/// Where links are.
enum Place {
    /// In namespaces, made here.
    Lab(Arc<Lab>),
    /// To an agent's host.
    Far(Rc<RefCell<Far>>),
}

/// Where packets are sent and received.
pub(crate) struct Ground {
    place: Place,
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
        Ok(Self { place: Place::Lab(lab), links: 0, kind, worker_cpus })
    }

    /// The link to an agent's host, which is the load: all CPUs are the workers'.
    pub fn far(far: Far, kind: PortKind) -> Self {
        Self { place: Place::Far(Rc::new(RefCell::new(far))), links: 0, kind, worker_cpus: cpus() }
    }

    fn link(&mut self, lab: &Lab, live: bool) -> Result<usize, BenchError> {
        let n = self.links;
        self.links += 1;
        let profile = Profile::default();
        lab.links(n, [profile.access.gateway, profile.core.gateway])?;
        if live {
            lab.receive_live(n)?;
        }
        Ok(n)
    }

    /// A link without workers: packets are counted where workers would receive them.
    pub fn alone(&mut self, packets: Packets) -> Result<Alone, BenchError> {
        match &self.place {
            Place::Lab(lab) => {
                let lab = lab.clone();
                let link = self.link(&lab, false)?;
                let load = KernelLoad::against_itself(&lab, link, packets.profile())?.in_parts_of(PART);
                Ok(Alone::Lab(Box::new(load), lab))
            }
            Place::Far(far) => {
                far.borrow_mut().load_with(&packets.profile())?;
                Ok(Alone::Far(far.clone()))
            }
        }
    }

    /// A link with workers.
    pub fn stand<'s>(
        &mut self,
        task: Task,
        queues: u16,
        packets: Packets,
        stop: &'s AtomicBool,
    ) -> Result<Stand<'s>, BenchError> {
        let (beyond, addresses) = match &self.place {
            Place::Lab(lab) => {
                let lab = lab.clone();
                let link = self.link(&lab, self.kind != PortKind::Xdp)?;
                (Beyond::Lab { load: None, lab, link }, None)
            }
            Place::Far(far) => {
                let addresses = [far.borrow().there, far.borrow().here];
                (Beyond::Far(far.clone()), Some(addresses))
            }
        };
        let mut seats = Vec::new();
        for worker in 0..queues {
            let arena: Arc<Arena> = arena(ArenaConfig { slots: SLOTS, ..ArenaConfig::default() })?;
            let mut pool = Pool::new(&arena, SLOTS as usize);
            let ports = match &beyond {
                Beyond::Lab { lab, link, .. } => {
                    let uris = Side::BOTH.map(|side| self.uri(lab, side, *link, (worker, queues)));
                    open(uris, &mut pool, &Steer::new())?.into()
                }
                Beyond::Far(far) => vec![one(&far.borrow().uri(self.kind, (worker, queues)), &mut pool)?],
            };
            let cpu = self.worker_cpus[usize::from(worker) % self.worker_cpus.len()];
            seats.push(Seat { ports, addresses, pool, arena, cpu });
        }
        let detail = seats.first().map_or_else(String::new, |seat| seat.ports[0].caps().detail);
        let shares_cpu = usize::from(queues) > self.worker_cpus.len() || cpus().len() == 1;
        let workers = Workers::start(task, seats, &packets.frames(addresses)?, shares_cpu)?;
        let mut stand = Stand { workers, beyond, task, detail, pace: 1.0, stop };
        stand.load_with(packets)?;
        Ok(stand)
    }

    /// Flows are spread over a group's members by the kernel's hash, as a card's RSS does.
    fn uri(&self, lab: &Lab, side: Side, link: usize, (worker, workers): (u16, u16)) -> Uri {
        let one = uri(self.kind, lab, side, link, (if self.kind == PortKind::Xdp { worker } else { 0 }, 1));
        if workers == 1 || self.kind == PortKind::Xdp {
            return one;
        }
        let group = 2 * link + usize::from(side == Side::N6) + 1;
        one.with("fanout", "hash").with("group", group).with("member", format!("{worker}/{workers}"))
    }
}

/// A port by its URI.
fn one(uri: &Uri, pool: &mut Pool) -> Result<Box<dyn Port>, BenchError> {
    port::open(uri, &mut OpenContext::new(pool)).map_err(|source| BenchError::Port { uri: uri.to_string(), source })
}

/// A generator with nothing behind it.
pub(crate) enum Alone {
    /// The kernel's, and the namespaces it is in.
    Lab(Box<KernelLoad>, #[allow(dead_code)] Arc<Lab>),
    /// An agent's.
    Far(Rc<RefCell<Far>>),
}

impl Alone {
    /// Packets a second that it sent and that arrived, in so long.
    ///
    /// # Errors
    /// The load broke off, or the agent is gone.
    pub fn run(&self, length: Duration, stop: &AtomicBool) -> Result<[f64; 2], BenchError> {
        let per_second = |packets: u64, seconds: f64| packets as f64 / seconds.max(1e-9);
        match self {
            Self::Lab(load, _) => {
                let (found, _) = load.run(length, None, stop, &mut |_| {})?;
                let down = found.directions.downlink;
                Ok([down.sent_packets, down.forwarded_packets].map(|packets| per_second(packets, found.seconds)))
            }
            Self::Far(far) => {
                let mut far = far.borrow_mut();
                let before = far.received()?.here;
                let sent = far.run(length, None)?.directions.downlink.sent_packets;
                let arrived = far.received()?.here.saturating_sub(before);
                Ok([sent, arrived].map(|packets| per_second(packets, length.as_secs_f64())))
            }
        }
    }
}

/// What is at the other ends of a stand's links.
enum Beyond {
    /// The kernel's source and sink.
    Lab { load: Option<Box<KernelLoad>>, lab: Arc<Lab>, link: usize },
    /// An agent.
    Far(Rc<RefCell<Far>>),
}

/// Workers on a link, and what loads them.
pub(crate) struct Stand<'s> {
    workers: Workers,
    beyond: Beyond,
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
        match &mut self.beyond {
            Beyond::Lab { load, lab, link } => {
                // The former one holds the interfaces.
                *load = None;
                if self.task != Task::Transmit {
                    *load = Some(Box::new(KernelLoad::new(lab, *link, packets.profile())?.in_parts_of(PART)));
                }
                Ok(())
            }
            // It answers for its addresses, and so takes what is sent to it, whether it sends or not.
            Beyond::Far(far) => far.borrow_mut().load_with(&packets.profile()),
        }
    }

    /// What has kept each worker from its CPU so far.
    pub fn noise(&self) -> Vec<ThreadNoise> {
        self.workers.noise()
    }

    /// Packets that have arrived beyond the workers so far.
    fn arrived(&self) -> Result<u64, BenchError> {
        match &self.beyond {
            Beyond::Lab { lab, link, .. } => Ok(lab.arrived(*link)[0]),
            Beyond::Far(far) => Ok(far.borrow_mut().received()?.there),
        }
    }

    /// Offers no packets: workers send by themselves.
    fn wait(&self, length: Duration) -> Result<Counted, BenchError> {
        let (arrived, begun) = (self.arrived()?, Instant::now());
        while begun.elapsed() < length && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep((length.saturating_sub(begun.elapsed())).min(Duration::from_millis(50)));
        }
        let done = self.arrived()?.saturating_sub(arrived);
        Ok(Counted { seconds: begun.elapsed().as_secs_f64(), sent: done, done, ..Counted::default() })
    }

    /// Loads it for so long with `pps` packets a second, or as many as can be sent.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`], or what broke.
    pub fn run(&mut self, length: Duration, pps: Option<f64>) -> Result<Counted, BenchError> {
        let received = self.workers.packets()[0];
        let found = match &mut self.beyond {
            _ if self.task == Task::Transmit => None,
            Beyond::Lab { load, .. } => match load {
                Some(load) => Some(load.run(length, pps, self.stop, &mut |_| {})?.0),
                None => None,
            },
            Beyond::Far(far) => Some(far.borrow_mut().run(length, pps)?),
        };
        let counted = match found {
            None => self.wait(length)?,
            Some(found) => {
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

/// Steal of more than this part of the processors' time makes a trial invalid.
const MOST_STEAL: f64 = 0.01;

impl Trial for Stand<'_> {
    type Error = BenchError;

    fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, BenchError> {
        let (begin, cpu) = (Instant::now(), CpuTime::now());
        let counted = self.run(duration, Some(load * self.pace))?;
        let behind = load * counted.seconds / (counted.sent as f64).max(1.0);
        self.pace = (self.pace * behind.clamp(0.9, 1.2)).clamp(1.0, 2.0);
        let stolen = CpuTime::now().since(&cpu).0 > MOST_STEAL;
        Ok(Outcome {
            elapsed_seconds: begin.elapsed().as_secs_f64(),
            latency_us: crate::search::slower([counted.latency]),
            disturbed: if stolen { vec![Disturbance::Steal] } else { vec![] },
            ..Outcome::of(load, counted.seconds, (counted.sent, counted.done))
        })
    }
}
