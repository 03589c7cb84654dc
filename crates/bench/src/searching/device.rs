//! A gateway under test as a device of searches.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::bed::Bed;
use crate::error::BenchError;
use crate::host::CpuTime;
use crate::memory::MemoryRig;
use crate::noise::Gathered;
use crate::options::{Options, PortKind, cut};
use crate::report::Report;
use crate::run::{blank, overload};
use crate::search::{Disturbance, Outcome, Trial};
use crate::socket::{SocketRig, Source};
use crate::thread::cpus;
use crate::under_test::UnderTest;
use crate::window::{Closing, How, Rig, Window, in_turns};

/// A device that searches of a whole gateway need.
pub(super) trait Bench: Trial<Error = BenchError> {
    /// Packets a second forwarded and sent, when as many are sent as can be.
    fn overload(&mut self) -> Result<(f64, f64), BenchError>;

    /// It has interfaces, and queues that can overflow.
    fn has_links(&self) -> bool;

    /// What has disturbed its trials so far.
    fn noise(&self) -> &Gathered;

    /// From now on each packet is signed and checked, so that latency is known.
    fn check_each(&mut self) -> Result<(), BenchError>;

    /// From now on trials are bursts: nothing is sent before them.
    fn bursts(&mut self, are: bool);

    /// The report of a trial at a rate.
    fn report_at(&mut self, pps: f64) -> Result<Report, BenchError>;
}

/// Steal of more than this part of the processors' time makes a trial invalid.
const MOST_STEAL: f64 = 0.01;
/// A window that lasts this much longer than it should was read late.
const LATE: f64 = 1.05;
/// Packets that may wait in memory when a trial ends, for each worker: as a ring of a network card.
const RING: u64 = 1024;

/// What stands on which ports.
enum Ports<L> {
    Memory(Box<MemoryRig<L>>),
    /// The bed goes last: the rig's threads are on it.
    Links(Box<SocketRig>, Source, #[allow(dead_code)] Box<Bed>),
}

/// A gateway of any kind but cable.
pub(super) struct GatewayDevice<'s, U: UnderTest> {
    ports: Ports<U::Load>,
    blank: Report,
    /// Packets that may wait in memory.
    ring: u64,
    /// The kernel's source gives up what it is behind with: it is asked for so many times the load.
    pace: f64,
    bursts: bool,
    /// Workers share a CPU, with each other or with the load: that they wait for it is no disturbance.
    shares_cpu: bool,
    noise: Gathered,
    stop: &'s AtomicBool,
}

impl<'s, U: UnderTest> GatewayDevice<'s, U> {
    /// Sets it up. `long`: trials last too long for threads that come before all others.
    ///
    /// # Errors
    /// What cannot be, or what the system refused.
    pub fn new(under: &U, base: &Options, long: bool, stop: &'s AtomicBool) -> Result<Self, BenchError> {
        let mut blank = blank(under, base);
        let ring = RING * u64::from(base.workers);
        let load = usize::from(base.port != PortKind::Memory);
        let shares_cpu = long || usize::from(base.workers) + load > cpus().len();
        if base.port == PortKind::Memory {
            let mut cpus = cpus();
            // The first CPU has the machine's interrupts.
            cpus.reverse();
            let rig = Box::new(MemoryRig::new(under, 1, base.workers, &cpus)?);
            "in process".clone_into(&mut blank.host.nic);
            "generator".clone_into(&mut blank.load.source);
            blank.start_seconds = rig.start.as_secs_f64();
            return Ok(Self {
                ports: Ports::Memory(rig),
                blank,
                ring,
                pace: 1.0,
                bursts: false,
                shares_cpu,
                noise: Gathered::default(),
                stop,
            });
        }
        if under.wires().is_some() {
            let (bed, ready) = Bed::wired(under, base)?;
            blank.host.nic = ready.nic();
            blank.start_seconds = ready.start.as_secs_f64();
            base.receive_work.word().clone_into(&mut blank.load.receive_work);
            let ports = Ports::Links(Box::new(ready.rig), Source::Generator, Box::new(bed));
            return Ok(Self {
                ports,
                blank,
                ring: 0,
                pace: 1.0,
                bursts: false,
                shares_cpu,
                noise: Gathered::default(),
                stop,
            });
        }
        let mut bed = Bed::new(&under.links()?, base.workers, true, base.receive_work)?;
        if long {
            bed.be_ordinary();
        }
        let mut ready = bed.gateways(under, base.port, 1, base.workers)?;
        let source = overload(&mut ready.rig)?;
        blank.host.nic = ready.nic();
        blank.start_seconds = ready.start.as_secs_f64();
        base.receive_work.word().clone_into(&mut blank.load.receive_work);
        let ports = Ports::Links(Box::new(ready.rig), source, Box::new(bed));
        Ok(Self { ports, blank, ring: 0, pace: 1.0, bursts: false, shares_cpu, noise: Gathered::default(), stop })
    }

    fn rig(&mut self) -> &mut dyn Rig {
        match &mut self.ports {
            Ports::Memory(rig) => &mut **rig,
            Ports::Links(rig, ..) => &mut **rig,
        }
    }

    fn window(&mut self, pps: Option<f64>, length: Duration) -> Result<Window, BenchError> {
        let stop = self.stop;
        let warm = if self.bursts { Duration::ZERO } else { Duration::from_millis(30) };
        self.rig().window(&How { warm, pps, ..How::most(length) }, stop)
    }

    /// Asks the kernel's source for more, where it sent less than it should have, and the other way round.
    fn keep_pace(&mut self, window: &Window, load: f64) {
        if let (Ports::Links(_, Source::Kernel, _), Some(_)) = (&self.ports, window.whole) {
            let directions = [&window.traffic.directions.uplink, &window.traffic.directions.downlink];
            let sent: u64 = directions.iter().map(|d| d.sent_packets).sum();
            let behind = load * window.traffic.seconds / (sent as f64).max(1.0);
            self.pace = (self.pace * behind.clamp(0.9, 1.2)).clamp(1.0, 2.0);
        }
    }

    /// Stops gateway and generator, and counts what is left of packets and slots.
    ///
    /// # Errors
    /// A thread of it that ended early, with its reason.
    pub fn close(self) -> Result<Closing, BenchError> {
        match self.ports {
            Ports::Memory(rig) => rig.close(),
            Ports::Links(rig, ..) => rig.close(),
        }
    }

    /// What a window says of the packets of a trial.
    fn outcome(&self, window: &Window, load: f64) -> Outcome {
        let traffic = &window.traffic;
        let directions = [&traffic.directions.uplink, &traffic.directions.downlink];
        let sum = |of: fn(&traffic::DirectionResult) -> u64| directions.iter().map(|d| of(d)).sum::<u64>();
        let (sent, forwarded, lost) = (sum(|d| d.sent_packets), sum(|d| d.forwarded_packets), sum(|d| d.lost_packets));
        let intended = (load * traffic.seconds) as u64;
        let unsent = if self.bursts { 0 } else { intended.saturating_sub(sent) };
        let latency = crate::search::slower(directions.map(|direction| direction.latency_us));
        let (sent, lost) = match (&self.ports, window.whole) {
            // What the gateway did not take was offered, and did not go through.
            (Ports::Memory(_), _) => {
                let waits = unsent.saturating_sub(self.ring);
                (if waits > 0 { sent + unsent } else { sent }, lost + waits)
            }
            // Counters of the measured time leave packets on their way.
            (Ports::Links(..), Some((sent, arrived))) => {
                (sent, sent.saturating_sub(arrived) + beyond_jitter(unsent, intended))
            }
            (Ports::Links(..), None) => (sent, lost + beyond_jitter(unsent, intended)),
        };
        Outcome {
            intended_packets: sent
                + if matches!(self.ports, Ports::Memory(_)) { 0 } else { beyond_jitter(unsent, intended) },
            sent_packets: sent,
            forwarded_packets: forwarded,
            lost_packets: lost,
            counted_seconds: traffic.seconds,
            elapsed_seconds: 0.0,
            latency_us: latency,
            disturbed: Vec::new(),
        }
    }
}

/// Packets that a generator left out, as far as they are more than the precision of its rate, 3 %.
fn beyond_jitter(unsent: u64, intended: u64) -> u64 {
    if unsent * 100 > intended * 3 { unsent } else { 0 }
}

/// In memory a trial is made of windows so long: its threads come before all others.
const WINDOW: Duration = Duration::from_millis(250);

impl<U: UnderTest> Trial for GatewayDevice<'_, U> {
    type Error = BenchError;

    fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, BenchError> {
        let (begin, cpu) = (Instant::now(), CpuTime::now());
        let windows = match self.ports {
            Ports::Memory(_) => duration.as_secs_f64() / WINDOW.as_secs_f64(),
            Ports::Links(..) => 1.0,
        };
        let windows = (windows - 1e-9).ceil().max(1.0) as u32;
        let mut all = Outcome::default();
        for _ in 0..windows {
            let before = CpuTime::now();
            let mut window = self.window(Some(load * self.pace), duration / windows)?;
            window.steal_ratio = CpuTime::now().since(&before).0;
            self.keep_pace(&window, load);
            let late = window.traffic.seconds > LATE * (duration / windows).as_secs_f64();
            all = all.plus(self.outcome(&window, load));
            if self.shares_cpu {
                self.noise.add(window.steal_ratio, window.traffic.seconds, &[], None);
            } else {
                self.noise.add_window(&window);
                all.disturbed.extend(crate::noise::disturbances(&window));
            }
            if late && !self.bursts {
                all.disturbed.push(Disturbance::LateCounters);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if CpuTime::now().since(&cpu).0 > MOST_STEAL {
            all.disturbed.push(Disturbance::Steal);
        }
        all.disturbed.sort_unstable();
        all.disturbed.dedup();
        all.elapsed_seconds = begin.elapsed().as_secs_f64();
        Ok(all)
    }
}

impl<U: UnderTest> Bench for GatewayDevice<'_, U> {
    fn overload(&mut self) -> Result<(f64, f64), BenchError> {
        let mut best = (0.0_f64, 0.0_f64);
        for _ in 0..3 {
            let window = self.window(None, WINDOW)?;
            let seconds = window.traffic.seconds.max(1e-9);
            let sent = [&window.traffic.directions.uplink, &window.traffic.directions.downlink].map(|d| d.sent_packets);
            best = (best.0.max(window.traffic.mpps * 1e6), best.1.max((sent[0] + sent[1]) as f64 / seconds));
            std::thread::sleep(Duration::from_millis(20));
        }
        // In memory nothing is sent that is not taken.
        Ok(if self.has_links() { best } else { (best.0, best.0 * 1.5) })
    }

    fn noise(&self) -> &Gathered {
        &self.noise
    }

    fn has_links(&self) -> bool {
        matches!(self.ports, Ports::Links(..))
    }

    fn check_each(&mut self) -> Result<(), BenchError> {
        match &mut self.ports {
            Ports::Links(rig, source, _) if *source != Source::Generator => {
                *source = Source::Generator;
                rig.load_from(Source::Generator)
            }
            _ => Ok(()),
        }
    }

    fn bursts(&mut self, are: bool) {
        self.bursts = are;
    }

    fn report_at(&mut self, pps: f64) -> Result<Report, BenchError> {
        let mut report = self.blank.clone();
        if let Ports::Links(_, source, _) = &self.ports {
            source.word().clone_into(&mut report.load.source);
        }
        let before = CpuTime::now();
        let (measure, rounds) = cut(2.0);
        let how = How { pps: Some(pps), ..How::most(measure) };
        let stop = self.stop;
        let windows = in_turns(&mut [self.rig()], &[(0, how)], rounds, stop)?;
        report.take(&windows[0]);
        (report.host.steal_ratio, report.host.busy_ratio) = CpuTime::now().since(&before);
        report.rss_bytes = crate::host::rss_bytes();
        Ok(report)
    }
}
