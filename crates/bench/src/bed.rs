//! A test bed: gateways and bare forwarders set up on links of one lab.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::StatsView;
use frame::{ArenaConfig, Pool};
use port::Steer;
use traffic::{Plan, Profile, Verify};
use wire::Mac;

use crate::bare::Bare;
use crate::crew::{Hand, Working};
use crate::error::BenchError;
use crate::far_end::FarCpu;
use crate::lab::{Lab, Shape, Side};
use crate::options::{Options, PortKind, ReceiveWork};
use crate::score::{Manners, Score};
use crate::socket::{Place, SLOTS, SocketRig, arena, caps, largest, open, shape, uri};
use crate::thread::cpus;
use crate::under_test::{Share, UnderTest};

/// Room for a tunnel around a packet of 1500 bytes, within what AF_XDP's slots hold.
pub const MTU: u16 = 1600;

/// That, or more where the packets of a profile are larger.
pub(crate) fn mtu(traffic: &Profile) -> u16 {
    u16::try_from(largest(traffic)).unwrap_or(u16::MAX).max(MTU)
}

/// A lab, and who has which CPU in it.
pub struct Bed {
    lab: Arc<Lab>,
    links: usize,
    bridges: u16,
    macs: [Mac; 2],
    live: bool,
    slots: u32,
    /// Bytes of each.
    slot_bytes: u16,
    manners: Manners,
    receive_work: ReceiveWork,
    /// The load's CPU is the first: it has the machine's interrupts, too.
    load_cpu: usize,
    gateway_cpus: Vec<usize>,
}

/// A gateway set up.
pub struct Ready {
    /// Its workers on their links.
    pub rig: SocketRig,
    /// Bytes of sessions, rules and indexes.
    pub session_bytes: usize,
    /// From nothing to ready, ports included.
    pub start: Duration,
    /// What its port says of itself.
    pub port: String,
    /// The workers' statistics.
    pub views: Vec<StatsView>,
}

impl Ready {
    /// What its interfaces are, as results name them.
    pub fn nic(&self) -> String {
        if self.port.is_empty() { "veth".to_owned() } else { format!("veth ({})", self.port) }
    }
}

impl Bed {
    /// CPUs of so many workers and of the load, the first worker's first.
    pub(crate) fn taken(&self, workers: u16) -> Vec<usize> {
        let own = self.gateway_cpus.iter().copied().take(workers.into());
        own.chain([self.load_cpu]).collect()
    }

    /// An empty lab. `live`: interfaces receive what [`crate::blast`] sends.
    ///
    /// # Errors
    /// What the system refused.
    pub fn new(traffic: &Profile, queues: u16, live: bool, receive_work: ReceiveWork) -> Result<Self, BenchError> {
        let bed =
            Self::sized(mtu(traffic), [traffic.access.gateway, traffic.core.gateway], queues, live, receive_work)?;
        let shape = shape(traffic);
        Ok(Self { slots: shape.slots, slot_bytes: shape.slot_bytes, ..bed })
    }

    /// The same for gateways whose interfaces have those hardware addresses, access side first.
    ///
    /// # Errors
    /// As [`Bed::new`].
    pub fn between(macs: [Mac; 2], queues: u16, live: bool, receive_work: ReceiveWork) -> Result<Self, BenchError> {
        Self::sized(MTU, macs, queues, live, receive_work)
    }

    fn sized(mtu: u16, macs: [Mac; 2], queues: u16, live: bool, receive_work: ReceiveWork) -> Result<Self, BenchError> {
        let cpus = cpus();
        let load_cpu = cpus[0];
        let gateway_cpus = if cpus.len() > 1 { cpus[1..].to_vec() } else { cpus };
        // With one CPU for all, nobody may be before the others.
        let manners = if load_cpu == gateway_cpus[0] { Manners::Sharing } else { Manners::Urgent };
        if receive_work == ReceiveWork::Load && manners == Manners::Sharing {
            return Err(BenchError::Asked("a gateway can have a CPU of its own where there are two at least".into()));
        }
        let lab = Arc::new(Lab::new(Shape { mtu, queues })?);
        let ArenaConfig { slot_bytes, .. } = ArenaConfig::default();
        Ok(Self {
            lab,
            links: 0,
            bridges: 0,
            macs,
            live,
            slots: SLOTS,
            slot_bytes,
            manners,
            receive_work,
            load_cpu,
            gateway_cpus,
        })
    }

    /// Packet memory of a worker.
    fn shape(&self) -> ArenaConfig {
        ArenaConfig { slots: self.slots, slot_bytes: self.slot_bytes, ..ArenaConfig::default() }
    }

    /// The lab.
    pub fn lab(&self) -> &Arc<Lab> {
        &self.lab
    }

    /// Gives each worker so many slots of packet memory from now on.
    pub(crate) fn set_slots(&mut self, slots: u32) {
        self.slots = slots;
    }

    /// Puts so many Ethernet bridges between gateways set up from now on and their load.
    pub(crate) fn set_bridges(&mut self, bridges: u16) {
        self.bridges = bridges;
    }

    /// From now on nothing set up comes before the machine's ordinary threads.
    pub(crate) fn be_ordinary(&mut self) {
        if self.manners == Manners::Urgent {
            self.manners = Manners::Brisk;
        }
    }

    /// The score of a trial here.
    fn score(&self) -> Score {
        Score::default().with(self.manners)
    }

    /// Makes a gateway's pair of links; returns their number.
    fn link(&mut self, kind: PortKind) -> Result<usize, BenchError> {
        let n = self.links;
        self.links += 1;
        self.lab.links_behind(n, self.macs, self.bridges)?;
        if self.live && kind != PortKind::Xdp {
            self.lab.receive_live(n)?;
        }
        if self.receive_work == ReceiveWork::Gateway {
            self.lab.receive_on(n, self.gateway_cpus[0])?;
        }
        Ok(n)
    }

    /// Where the far ends' receive work goes beside so many workers: to a CPU nobody has, else to the load's.
    fn far(&self, workers: usize) -> Option<FarCpu> {
        let cpu = *self.gateway_cpus.get(workers).unwrap_or(&self.load_cpu);
        let far = FarCpu { cpu, urgent: self.manners == Manners::Urgent };
        (self.receive_work == ReceiveWork::Load).then_some(far)
    }

    /// The score of worker `n` of `all`, and its CPU.
    fn seat(&self, score: &Score, n: usize, all: usize) -> (Score, usize) {
        let score = if all > self.gateway_cpus.len() { score.with(Manners::Sharing) } else { score.clone() };
        (score, self.gateway_cpus[n % self.gateway_cpus.len()])
    }

    /// Sets up `instances` gateways of `workers` workers each, every gateway on links of its own.
    ///
    /// # Errors
    /// What cannot be, or what the system refused.
    pub fn gateways<U: UnderTest>(
        &mut self,
        under: &U,
        kind: PortKind,
        instances: u16,
        workers: u16,
    ) -> Result<Ready, BenchError> {
        self.set_up(under, kind, (instances, workers), Some(&under.links()?))
    }

    /// A bed with a gateway on links of its own, whose own far ends are the load: one worker, and one thread that makes and
    /// checks every packet.
    ///
    /// # Errors
    /// What cannot be, or what the system refused.
    pub(crate) fn wired<U: UnderTest>(under: &U, options: &Options) -> Result<(Self, Ready), BenchError> {
        let Some(macs) = under.wires() else { return Err(under.links().err().unwrap_or(BenchError::Interrupted)) };
        if options.workers > 1 {
            let what =
                "over interfaces: one worker, since one thread makes and checks its packets; leave --workers away";
            return Err(BenchError::Asked(format!("{} {what}", under.profile())));
        }
        let mut bed = Self::between(macs, 1, false, options.receive_work)?;
        let ready = bed.with_far_ends(under, options.port, 1)?;
        Ok((bed, ready))
    }

    /// Sets up a gateway of so many workers on one pair of interfaces, with its own far ends as the load.
    ///
    /// # Errors
    /// What cannot be, or what the system refused.
    pub(crate) fn with_far_ends<U: UnderTest>(
        &mut self,
        under: &U,
        kind: PortKind,
        workers: u16,
    ) -> Result<Ready, BenchError> {
        let link = self.links;
        let mut ready = self.set_up(under, kind, (1, workers), None)?;
        let share = Share { workers: 1, worker: 0, users: 0..under.size().0, first_flow: 0 };
        ready.rig.load_with(link, under.far_side(&share)?)?;
        Ok(ready)
    }

    /// `traffic` is what the kernel or a generator loads them with.
    fn set_up<U: UnderTest>(
        &mut self,
        under: &U,
        kind: PortKind,
        (instances, workers): (u16, u16),
        traffic: Option<&Profile>,
    ) -> Result<Ready, BenchError> {
        let begin = Instant::now();
        // What may wait has buffers of its own.
        self.slots = self.slots.max(under.frames().slots);
        let score = self.score();
        let all = usize::from(instances) * usize::from(workers);
        let (mut hands, mut arenas, mut controls, mut places) = (vec![], vec![], vec![], vec![]);
        let (mut session_bytes, mut said, mut base, mut views) = (0, String::new(), 0u32, vec![]);
        for instance in 0..usize::from(instances) {
            let link = self.link(kind)?;
            let steer = traffic.map_or_else(|| under.steer(workers), |traffic| steer(traffic, workers));
            let shape = ArenaConfig { slots: self.slots * u32::from(workers), ..self.shape() };
            let arena = arena(shape)?;
            let mut opened = Vec::new();
            for worker in 0..workers {
                let mut pool = Pool::new(&arena, self.slots as usize);
                let uris = Side::BOTH.map(|side| uri(kind, &self.lab, side, link, (worker, workers)));
                let ports = open(uris, &mut pool, &steer)?;
                opened.push((pool, ports));
            }
            said = opened.first().map_or(String::new(), |(_, ports)| ports[0].caps().detail);
            let caps = opened.first().map(|(_, ports)| caps(ports)).unwrap_or_default();
            let made = under.assemble(workers, &caps)?;
            controls.push(made.control);
            for (worker, ((init, _), (pool, ports))) in made.workers.into_iter().zip(opened).enumerate() {
                let mut run = Working::new(init, pool, ports.into()).noted::<U>();
                run.turns(1);
                session_bytes += U::bytes(run.gateway());
                views.push(run.view());
                let (score, cpu) = self.seat(&score, instance * usize::from(workers) + worker, all);
                hands.push(Hand::new(format!("gw-{instance}-{worker}"), Box::new(run), score, cpu)?);
            }
            if let Some(traffic) = traffic {
                let plan = Plan::subset(traffic.clone(), 0..traffic.ues, base)?;
                // Receivers are apart, so numbers may be the same; a fresh range tells a stray packet.
                base = base.wrapping_add(plan.flow_count());
                places.push(Place { link, plan, verify: Verify::default() });
            }
            arenas.push(arena);
        }
        let start = begin.elapsed();
        let rig =
            SocketRig::new(&self.lab, score, places, hands, arenas, controls, self.load_cpu).received(self.far(all));
        Ok(Ready { rig, session_bytes, start, port: said, views })
    }

    /// Sets up a bare forwarder in a gateway's place.
    ///
    /// # Errors
    /// What the system refused.
    pub fn bare(&mut self, traffic: &Profile, kind: PortKind) -> Result<SocketRig, BenchError> {
        let link = self.link(kind)?;
        let shape = self.shape();
        let arena = arena(shape)?;
        let mut pool = Pool::new(&arena, shape.slots as usize);
        let uris = Side::BOTH.map(|side| uri(kind, &self.lab, side, link, (0, 1)));
        let ports = open(uris, &mut pool, &Steer::new())?;
        let score = self.score();
        let (own, cpu) = self.seat(&score, 0, 1);
        let hand = Hand::new("bare".into(), Box::new(Bare::new(ports, pool)), own, cpu)?;
        let places = vec![Place { link, plan: Plan::new(traffic.clone())?, verify: Verify::NONE }];
        Ok(SocketRig::new(&self.lab, score, places, vec![hand], vec![arena], vec![], self.load_cpu)
            .received(self.far(1)))
    }
}

/// Subscribers lie on workers in contiguous ranges.
fn steer(traffic: &Profile, workers: u16) -> Steer {
    let mut steer = Steer::new().within(upf::steer::GTPU);
    let each = traffic.ues.div_ceil(workers.max(1).into()).max(1);
    for worker in 0..workers {
        let (first, end) = (u32::from(worker) * each, ((u32::from(worker) + 1) * each).min(traffic.ues));
        if first < end {
            // Ranges of one formula do not overlap.
            let _ = steer.give(traffic.ue4(first).into(), traffic.ue4(end - 1).into(), worker);
            let _ = steer.give(traffic.ue6(first).into(), traffic.ue6(end - 1).into(), worker);
        }
    }
    steer
}
