//! A gateway, or a bare forwarder in its place, on real interfaces: links of a [`Lab`], the kernel between.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Caps, Pool, Port};
use port::{OpenContext, Steer, Uri};
use traffic::{Clock, DirectionResult, Load, LoadOptions, Plan, Profile, Schedule, TrialResult, Verify};

use crate::blast::{Blast, Sent};
use crate::crew::{Hand, Left, Player, Slice};
use crate::ends::Wired;
use crate::error::BenchError;
use crate::far_end::FarCpu;
use crate::lab::{Lab, Side};
use crate::options::PortKind;
use crate::score::{Part, Score, Times};
use crate::under_test::{Control, FarSide, MemoryLoad};
use crate::window::{Closing, How, Rig, Window};

/// Packets of a worker's stock: enough for rings and a few bursts.
pub const SLOTS: u32 = 8192;
/// What is on its way when sending ends has arrived after this.
const DRAIN: Duration = Duration::from_millis(30);

/// Where packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The kernel: more than anything can forward, counted on arrival.
    Kernel,
    /// The generator: every packet signed and checked.
    Generator,
}

impl Source {
    /// As results name it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Generator => "generator",
        }
    }
}

/// One gateway's place in the lab: its number among the links, and what its load plays.
#[derive(Clone)]
pub struct Place {
    /// Number of the links.
    pub link: usize,
    /// The traffic.
    pub plan: Arc<Plan>,
    /// What the generator checks of it.
    pub verify: Verify,
}

/// Workers on links, and what loads them.
pub struct SocketRig {
    lab: Arc<Lab>,
    score: Score,
    places: Vec<Place>,
    hands: Vec<Hand>,
    arenas: Vec<Arc<Arena>>,
    load_cpu: usize,
    /// Where far ends' receive work goes while load comes out of the kernel.
    far: Option<FarCpu>,
    /// Whether it has them now.
    given: bool,
    load: Option<(Loading, Hand)>,
    progress: Progress,
    _controls: Vec<Box<dyn Control>>,
}

/// What a load has found so far; told a few times a second.
pub type Progress = Arc<Mutex<TrialResult>>;

enum Loading {
    Kernel(Sent),
    Generator,
}

/// The name of a gateway's port.
pub fn uri(kind: PortKind, lab: &Lab, side: Side, link: usize, (worker, workers): (u16, u16)) -> Uri {
    let name = side.gateway(link);
    let base = match kind {
        PortKind::Xdp => Uri::new("xdp", &name).with("queue", worker),
        PortKind::Dpdk => {
            let device = format!("net_af_packet_{name},iface={name},qpairs={workers},framesz=1792,blocksz=28672");
            let uri = Uri::new("dpdk", &device).with("queue", worker).with("queues", workers);
            return uri.with("netns", lab.gateway());
        }
        _ => Uri::new("packet", &name).with("mode", kind.word()),
    };
    // Offloads are as the lab has made them.
    let base = base.with("netns", lab.gateway()).with("offloads", "keep");
    if workers > 1 && kind != PortKind::Xdp {
        // A group is of one interface.
        let group = 2 * link + usize::from(side == Side::N6) + 1;
        return base.with("fanout", "subscriber").with("group", group).with("member", format!("{worker}/{workers}"));
    }
    base
}

/// Opens N3 and N6 of a worker.
///
/// # Errors
/// What the port said.
pub fn open(uris: [Uri; 2], pool: &mut Pool, steer: &Steer) -> Result<[Box<dyn Port>; 2], BenchError> {
    let mut cx = OpenContext::new(pool);
    cx.steer = steer.clone();
    let mut one =
        |uri: &Uri| port::open(uri, &mut cx).map_err(|source| BenchError::Port { uri: uri.to_string(), source });
    Ok([one(&uris[0])?, one(&uris[1])?])
}

/// Memory for packets; of the default buffer size AF_XDP can use it.
///
/// # Errors
/// When there is not that much memory.
pub fn arena(shape: ArenaConfig) -> Result<Arc<Arena>, BenchError> {
    Arena::new(shape).map_err(|error| BenchError::system("memory for packets", error))
}

/// Of a frame that the kernel sends for [`Blast`]: a page less what stands before and behind it (xdp_frame, skb_shared_info).
const MOST_LIVE: usize = 3400;

/// The largest frame of a profile without FCS, in its tunnel.
pub(crate) fn largest(traffic: &Profile) -> usize {
    let sizes = [&traffic.uplink_sizes, &traffic.downlink_sizes];
    let largest = sizes.iter().flat_map(|sizes| sizes.shares()).map(|share| usize::from(share.bytes)).max();
    largest.unwrap_or(0) + traffic.tunnel_bytes()
}

/// Slots for the packets of a profile: as AF_XDP can use them, unless packets are larger; then fewer.
pub(crate) fn shape(traffic: &Profile) -> ArenaConfig {
    let shape = ArenaConfig { slots: SLOTS, ..ArenaConfig::default() };
    // A tag, and what a gateway puts before a packet.
    let is_jumbo = largest(traffic) + usize::from(shape.headroom) + 64 > usize::from(shape.slot_bytes);
    if is_jumbo { ArenaConfig { slots: SLOTS / 4, slot_bytes: 16_384, ..shape } } else { shape }
}

/// So many slots as AF_XDP can use them, and a pool that has them all.
///
/// # Errors
/// When there is not that much memory.
pub fn stock(slots: u32) -> Result<(Arc<Arena>, Pool), BenchError> {
    let arena = arena(ArenaConfig { slots, ..ArenaConfig::default() })?;
    Ok((arena.clone(), Pool::new(&arena, slots as usize)))
}

/// Slots of packet memory that are not in its depot.
pub fn frames_lost(arenas: &[Arc<Arena>]) -> i64 {
    arenas.iter().map(|arena| i64::from(arena.shape().slots) - arena.in_depot() as i64).sum()
}

impl SocketRig {
    /// Players on links that exist. `hands` are made with `score`.
    pub fn new(
        lab: &Arc<Lab>,
        score: Score,
        places: Vec<Place>,
        hands: Vec<Hand>,
        arenas: Vec<Arc<Arena>>,
        controls: Vec<Box<dyn Control>>,
        load_cpu: usize,
    ) -> Self {
        Self {
            lab: lab.clone(),
            score,
            places,
            hands,
            arenas,
            load_cpu,
            far: None,
            given: false,
            load: None,
            progress: Progress::default(),
            _controls: controls,
        }
    }

    /// Has what the gateways send taken in on a CPU, while load comes out of the kernel and nobody reads there.
    #[must_use]
    pub(crate) fn received(mut self, far: Option<FarCpu>) -> Self {
        self.far = far;
        self
    }

    /// Where a generator tells what it has found so far.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Chooses where packets come from.
    ///
    /// # Errors
    /// When the source cannot be had.
    pub fn load_from(&mut self, source: Source) -> Result<(), BenchError> {
        // What was there before holds interfaces.
        self.load = None;
        let name = "load".to_owned();
        let far = self.far.filter(|_| source == Source::Kernel);
        if far.is_some() != self.given {
            self.given = far.is_some();
            self.places.iter().try_for_each(|place| self.lab.far_ends(place.link, far))?;
        }
        self.load = Some(match source {
            Source::Kernel => {
                if self.places.iter().any(|place| largest(place.plan.profile()) > MOST_LIVE) {
                    let why = format!("the kernel's frames are of {MOST_LIVE} bytes at most");
                    return Err(BenchError::Load(why));
                }
                let plans: Vec<_> = self.places.iter().map(|place| (place.link, place.plan.clone())).collect();
                let blast = Blast::new(&self.lab, &plans)?;
                let sent = blast.counter();
                (Loading::Kernel(sent), Hand::new(name, Box::new(blast), self.score.clone(), self.load_cpu)?)
            }
            Source::Generator => {
                let clock = Clock::tsc();
                let loads = self.places.iter().map(|place| generator(&self.lab, place, clock.clone()));
                let player = Loads { loads: loads.collect::<Result<_, _>>()?, progress: self.progress.clone() };
                (Loading::Generator, Hand::new(name, Box::new(player), self.score.clone(), self.load_cpu)?)
            }
        });
        Ok(())
    }

    /// Has a gateway's own far ends load it by its links.
    ///
    /// # Errors
    /// What the port said.
    pub(crate) fn load_with<L: MemoryLoad + 'static>(
        &mut self,
        link: usize,
        far: FarSide<L>,
    ) -> Result<(), BenchError> {
        let (arena, mut pool) = stock(SLOTS)?;
        let wires = far_ends(&self.lab, link, &mut pool)?;
        // Conserved as the gateways' is.
        self.arenas.push(arena);
        let player = Box::new(Wired::new(wires.into(), pool, far));
        self.load = Some((Loading::Generator, Hand::new("load".into(), player, self.score.clone(), self.load_cpu)?));
        Ok(())
    }
}

fn arrived(lab: &Lab, places: &[Place]) -> [u64; 2] {
    let each = places.iter().map(|place| lab.arrived(place.link));
    each.fold([0; 2], |sum, arrived| [sum[0] + arrived[0], sum[1] + arrived[1]])
}

/// Opens the load's ends of a gateway's links.
///
/// # Errors
/// What the port said.
pub(crate) fn far_ends(lab: &Lab, link: usize, pool: &mut Pool) -> Result<[Box<dyn Port>; 2], BenchError> {
    let uri = |side: Side| {
        let uri = Uri::new("packet", &side.load(link)).with("mode", "tpacket2").with("netns", lab.load());
        // The interface has another address than packets for the generator carry: see `Lab`.
        uri.with("promisc", "on").with("offloads", "keep")
    };
    open(Side::BOTH.map(uri), pool, &Steer::new())
}

/// The generator's ends of a gateway's links.
fn generator(lab: &Lab, place: &Place, clock: Clock) -> Result<Load, BenchError> {
    let shape = shape(place.plan.profile());
    let mut pool = Pool::new(&arena(shape)?, shape.slots as usize);
    let [n3, n6] = far_ends(lab, place.link, &mut pool)?;
    let options = LoadOptions { clock, verify: place.verify, ..LoadOptions::default() };
    Ok(Load::new(&place.plan, Some(n3), Some(n6), pool, options)?)
}

/// Generators and checkers on one thread.
struct Loads {
    loads: Vec<Load>,
    progress: Progress,
}

/// Time between two tellings.
const TELL: Duration = Duration::from_millis(200);

impl Loads {
    fn turn(&mut self) -> bool {
        self.loads.iter_mut().map(Load::turn).sum::<usize>() > 0
    }

    fn result(&self) -> TrialResult {
        sum(&self.loads.iter().map(Load::result).collect::<Vec<_>>())
    }

    fn tell(&self) {
        if let Ok(mut progress) = self.progress.lock() {
            *progress = self.result();
        }
    }
}

impl Player for Loads {
    fn play(&mut self, how: &How, score: &Score) -> Slice {
        let pps = how.pps.map(|pps| pps / self.loads.len() as f64);
        self.loads.iter_mut().for_each(|load| load.start(&Schedule { pps, ..Schedule::default() }));
        score.during(Part::Warm, || self.turn());
        self.loads.iter_mut().for_each(Load::mark);
        let (mut told, mut turns) = (Instant::now(), 0u32);
        score.during(Part::Measure, || {
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(256) && told.elapsed() > TELL {
                told = Instant::now();
                self.tell();
            }
            self.turn()
        });
        self.loads.iter_mut().for_each(Load::stop);
        score.during(Part::Drain, || self.turn());
        Slice { traffic: Some(self.result()), ..Slice::default() }
    }

    fn close(mut self: Box<Self>) -> Left {
        self.loads.iter_mut().for_each(Load::close);
        Left::default()
    }
}

/// Several gateways' traffic as one; latencies are the worst.
fn sum(results: &[TrialResult]) -> TrialResult {
    let [first, rest @ ..] = results else { return TrialResult::default() };
    let mut sum = *first;
    for other in rest {
        let pairs = [
            (&mut sum.directions.uplink, &other.directions.uplink),
            (&mut sum.directions.downlink, &other.directions.downlink),
        ];
        for (d, o) in pairs {
            d.offered_packets += o.offered_packets;
            d.sent_packets += o.sent_packets;
            d.unsent_packets += o.unsent_packets;
            d.forwarded_packets += o.forwarded_packets;
            d.lost_packets += o.lost_packets;
            d.mpps += o.mpps;
            d.gbps_l2 += o.gbps_l2;
            let (a, b) = (&mut d.latency_us, &o.latency_us);
            (a.p50, a.p99) = (a.p50.max(b.p50), a.p99.max(b.p99));
            (a.p999, a.max) = (a.p999.max(b.p999), a.max.max(b.max));
        }
    }
    TrialResult::both(sum.seconds, sum.directions.uplink, sum.directions.downlink)
}

/// Waits until packets are being sent, but not for ever.
fn flows(sent: &Sent) {
    let (before, begin) = (sent.packets(), Instant::now());
    while sent.packets() == before && begin.elapsed() < Duration::from_millis(500) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What was sent and what arrived at a moment.
#[derive(Clone, Copy)]
struct Counted {
    at: Instant,
    sent: [u64; 2],
    arrived: [u64; 2],
}

impl Rig for SocketRig {
    fn window(&mut self, how: &How, stop: &AtomicBool) -> Result<Window, BenchError> {
        let Some((loading, load)) = &self.load else {
            return Err(BenchError::Asked("a rig without load".into()));
        };
        let sent = match loading {
            Loading::Kernel(sent) => Some(sent),
            Loading::Generator => None,
        };
        let times = Times { warm: how.warm, measure: how.measure, drain: DRAIN };
        let mut seen = Vec::with_capacity(2);
        let (hands, lab, places) = (&self.hands, &self.lab, &self.places);
        let played = self.score.play(&times, stop, |part| match part {
            Part::Warm => {
                load.window(how);
                // Setting the source up takes the kernel some housekeeping, which busy gateways would keep from it.
                if let Some(sent) = sent {
                    flows(sent);
                }
                hands.iter().for_each(|hand| hand.window(how));
            }
            Part::Measure | Part::Drain => {
                let sent = sent.map_or([0; 2], Sent::packets);
                seen.push(Counted { at: Instant::now(), sent, arrived: arrived(lab, places) });
            }
            _ => {}
        });
        let workers = self.hands.iter().map(Hand::slice).collect::<Result<Vec<_>, _>>()?;
        let loaded = load.slice()?;
        self.score.rest();
        played?;
        if let Some(why) = loaded.failed {
            return Err(BenchError::Load(why));
        }
        let sum = |now: [u64; 2], then: [u64; 2]| (now[0] + now[1]).saturating_sub(then[0] + then[1]);
        let since =
            |sent: &Sent, begin: &Counted| (sum(sent.packets(), begin.sent), sum(arrived(lab, places), begin.arrived));
        let whole = sent.zip(seen.first()).map(|(sent, begin)| since(sent, begin));
        let traffic = match (loaded.traffic, sent, &seen[..]) {
            (Some(traffic), ..) => traffic,
            (None, Some(sent), [begin, end]) => counted(self.places[0].plan.profile(), sent.mean, begin, end),
            _ => TrialResult::default(),
        };
        Ok(Window { traffic, workers, whole, ..Window::default() })
    }

    fn close(mut self: Box<Self>) -> Result<Closing, BenchError> {
        self.load = None;
        let mut packets_missing = 0;
        for hand in std::mem::take(&mut self.hands) {
            packets_missing += hand.close()?.packets_missing.abs();
        }
        Ok(Closing { frames_lost: frames_lost(&self.arenas), packets_missing })
    }
}

/// A trial's result from counters alone.
fn counted(profile: &Profile, mean: [f64; 2], begin: &Counted, end: &Counted) -> TrialResult {
    let seconds = (end.at - begin.at).as_secs_f64();
    let access = profile.tunnel_bytes() as f64;
    let direction = |way: usize| {
        let sent = end.sent[way] - begin.sent[way];
        // What goes up arrives at N6, what goes down at N3.
        let forwarded = end.arrived[1 - way] - begin.arrived[1 - way];
        let mpps = forwarded as f64 / seconds / 1e6;
        DirectionResult {
            frame_bytes_mean: mean[way],
            offered_packets: sent,
            sent_packets: sent,
            forwarded_packets: forwarded,
            lost_packets: sent.saturating_sub(forwarded),
            mpps,
            gbps_l2: mpps * (mean[way] + access) * 8.0 / 1e3,
            ..DirectionResult::default()
        }
    };
    TrialResult::both(seconds, direction(0), direction(1))
}

/// What two opened ports are.
pub fn caps(ports: &[Box<dyn Port>; 2]) -> [Caps; 2] {
    [ports[0].caps(), ports[1].caps()]
}
