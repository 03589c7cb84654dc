//! One worker of a cable gateway in memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use cmts::assemble::assemble;
use cmts::control::Control;
use cmts::gateway::CableGateway;
use engine::{Gateway, Idle, Io, StageRow, StatsView, Time, Worker, WorkerConfig};
use frame::{Arena, ArenaConfig, BURST, Caps, Pool, Port};
use table::hint::tsc;
use traffic::Clock;
use traffic::cable::{CablePort, Cuts, Downstream, Heard, Hosts, HostsHeard, Said, Side, Upstream};

use super::settings::CableSettings;
use crate::error::BenchError;

/// Slots: what waits in queues at most, and what ports and packets in the making need.
const SLOTS: u32 = 16_384;
/// What the channels are offered of what they can carry: less than all, or queues would fill.
const OFFERED: f64 = 0.9;

/// A worker with everything around it.
pub struct CableRig {
    worker: Worker<CableGateway>,
    control: Control,
    view: StatsView,
    clock: Clock,
    arena: Arc<Arena>,
    pub(super) hosts: Arc<Mutex<Hosts>>,
    pub(super) devices: Arc<Mutex<(Downstream, Upstream)>>,
    credit: [Arc<AtomicU64>; 2],
    far: Arc<[AtomicU64; 2]>,
    /// Bytes upstream for each byte downstream.
    upstream: f64,
    /// Bits a second offered at most.
    most: f64,
    /// Bytes of both directions since the rig was made.
    made: [f64; 2],
    begun: Instant,
}

/// What happened in a window.
#[derive(Clone, Debug, Default)]
pub struct CableWindow {
    /// Cycles of the gateway: all, less what the far sides took.
    pub cycles: u64,
    /// Cycles of the far sides: making packets, checking packets.
    pub far: [u64; 2],
    /// Cycles in pipelines, with everything between them.
    pub pipelines: u64,
    /// Cycles of receiving and of sending, less the far sides'.
    pub doors: [u64; 2],
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Packets and bytes that hosts sent downstream.
    pub down: (u64, u64),
    /// What the devices' modems heard.
    pub heard: Heard,
    /// What they sent.
    pub said: Said,
    /// What hosts heard of it.
    pub up: HostsHeard,
    /// Stages, with what they did in this window.
    pub stages: Vec<StageRow>,
    /// Heap allocations of the gateway and the far sides.
    pub allocations: u64,
    /// Bytes of each channel, headers included.
    pub channels: Vec<((u16, u16), u64)>,
}

/// What was left at the end.
#[derive(Clone, Debug, Default)]
pub struct CableEnd {
    /// Slots of packet memory that did not come back.
    pub frames_lost: i64,
    /// Packets that went in and neither came out nor were named.
    pub packets_missing: i64,
    /// Downstream: sent, and delivered with all checks passed, over the whole run.
    pub down: (u64, Heard),
    /// Upstream: sent, delivered.
    pub up: (Said, HostsHeard),
    /// Packets lost in the order of DSIDs.
    pub unordered: u64,
    /// Drops by `pipeline.stage.reason`.
    pub drops: Vec<(String, u64)>,
    /// Latencies downstream and upstream, in nanoseconds.
    pub latencies: [table::histogram::Histogram; 2],
}

impl CableRig {
    /// Assembles a gateway and its far sides, on the time stamp counter.
    ///
    /// # Errors
    /// What can not be, or what the machine has too little of.
    pub fn new(settings: &CableSettings) -> Result<Self, BenchError> {
        Self::timed(settings, Time::real(), Clock::tsc())
    }

    /// The same by clocks of another kind.
    ///
    /// # Errors
    /// As [`CableRig::new`].
    pub fn timed(settings: &CableSettings, time: Time, clock: Clock) -> Result<Self, BenchError> {
        let config = settings.config(["memory:rphy", "memory:core"])?;
        let plant = settings.plant();
        let mtus = [u32::from(settings.mtu), 1500];
        let macs = CableSettings::macs();
        let caps = [0, 1].map(|n| Caps { kind: "memory", mac: macs[n], mtu: mtus[n], ..Caps::default() });
        let (control, seats) = assemble(&config, &caps).map_err(|error| BenchError::Gateway(error.to_string()))?;
        let seat = seats.into_iter().next().ok_or_else(|| BenchError::Gateway("no worker".into()))?;
        let arena = Arena::new(ArenaConfig { slots: SLOTS, ..ArenaConfig::default() })
            .map_err(|error| BenchError::system("memory for packets", error))?;
        let hosts = Arc::new(Mutex::new(Hosts::new(&plant, settings.downstream())));
        let upstream = Upstream::new(&plant, settings.upstream(), Cuts::Few);
        let devices = Arc::new(Mutex::new((Downstream::new(&plant, false), upstream)));
        let credit = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
        let far: Arc<[AtomicU64; 2]> = Arc::default();
        let sides = [Side::Device(devices.clone()), Side::Core(hosts.clone())];
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        for (n, side) in sides.into_iter().enumerate() {
            let port = CablePort::new(side, clock.clone(), macs[n], mtus[n], credit[n].clone(), far.clone());
            ports.push(Box::new(port));
        }
        let config = WorkerConfig { time, idle: Idle::POLL, ..WorkerConfig::default() };
        let pool = Pool::new(&arena, SLOTS as usize);
        let worker = Worker::new(seat.gateway, seat.layout, pool, ports, config);
        let mut rig = Self {
            view: worker.env().stats.view(),
            worker,
            control,
            clock,
            arena,
            hosts,
            devices,
            credit,
            far,
            upstream: settings.upstream,
            most: settings.channels.capacity() * f64::from(settings.groups) * OFFERED,
            made: [0.0; 2],
            begun: Instant::now(),
        };
        // Modems are taken in by and by.
        for _ in 0..u32::from(settings.groups) * u32::from(settings.modems) / 8 + 64 {
            rig.worker.turn();
            rig.control.poll(rig.clock.now_ns());
        }
        Ok(rig)
    }

    /// One turn of the worker with what may come in it: a burst from the network as long as the channels can carry it, and
    /// as much from the devices as is their share.
    pub(super) fn turn(&mut self, load: bool) {
        let wall = self.begun.elapsed().as_secs_f64();
        let may = load && self.made[0] * 8.0 < self.most * wall;
        self.credit[1].store(if may { BURST as u64 } else { 0 }, Ordering::Relaxed);
        let owed = load && self.made[1] < self.made[0] * self.upstream;
        self.credit[0].store(if owed { 8 } else { 0 }, Ordering::Relaxed);
        self.worker.turn();
    }

    /// A turn with a whole burst from the network, whatever the channels carry, and nothing from the devices.
    pub(super) fn burst(&mut self) {
        self.credit[1].store(BURST as u64, Ordering::Relaxed);
        self.credit[0].store(0, Ordering::Relaxed);
        self.worker.turn();
    }

    fn tally(&mut self) {
        self.made = [lock(&self.hosts).sent().1 as f64, lock(&self.devices).1.said().bytes as f64];
    }

    /// Traffic that is not looked at in particular.
    pub fn warm(&mut self, time: Duration) {
        self.window(time);
        self.drain();
        let now = self.clock.now_ns();
        lock(&self.hosts).count_from(now);
        let mut devices = lock(&self.devices);
        devices.0.count_from(now);
        devices.1.count_from();
        self.begun = Instant::now();
        self.made = [0.0; 2];
    }

    /// Loads the gateway for so long, and says what happened.
    pub fn window(&mut self, time: Duration) -> CableWindow {
        let before = self.glance();
        // What could have been offered in the rest since the last window is past.
        self.begun = Instant::now() - Duration::from_secs_f64(self.made[0] * 8.0 / self.most);
        let begin = Instant::now();
        let allocations = pages::allocations_on_this_thread();
        let (mut cycles, mut turns) = (0, 0u32);
        while begin.elapsed() < time {
            for _ in 0..16 {
                let from = tsc();
                self.turn(true);
                cycles += tsc().wrapping_sub(from);
                turns += 1;
                self.tally();
            }
            if turns.is_multiple_of(256) {
                self.control.poll(self.clock.now_ns());
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        let allocations = pages::allocations_on_this_thread() - allocations;
        let after = self.glance();
        let mut window = after.since(&before);
        let far = window.far[0] + window.far[1];
        (window.cycles, window.seconds, window.allocations) = (cycles.saturating_sub(far), seconds, allocations);
        window
    }

    /// What has been counted so far, as a window from the beginning.
    fn glance(&self) -> CableWindow {
        let (hosts, devices) = (lock(&self.hosts), lock(&self.devices));
        CableWindow {
            far: [0, 1].map(|n: usize| self.far[n].load(Ordering::Relaxed)),
            pipelines: self.view.io(Io::PipelineCycles),
            doors: [self.view.io(Io::RxCycles), self.view.io(Io::TxCycles)],
            down: hosts.sent(),
            heard: devices.0.heard(),
            said: devices.1.said(),
            up: hosts.heard(),
            stages: self.view.stages(),
            channels: devices.0.channels(),
            ..CableWindow::default()
        }
    }

    /// No more load; everything on its way arrives.
    pub fn drain(&mut self) {
        let begin = Instant::now();
        let mut quiet = 0;
        // At most what frames may wait for each other, and then some.
        while quiet < 2000 && begin.elapsed() < Duration::from_secs(2) {
            self.turn(false);
            quiet = if self.worker.gateway().held() == 0 { quiet + 1 } else { 0 };
        }
        let rest = lock(&self.devices).1.finish(self.clock.now_ns());
        self.credit[0].store(rest as u64, Ordering::Relaxed);
        self.credit[1].store(0, Ordering::Relaxed);
        while self.credit[0].load(Ordering::Relaxed) > 0 && begin.elapsed() < Duration::from_secs(2) {
            self.worker.turn();
        }
        for _ in 0..2000 {
            self.turn(false);
        }
        let later = self.clock.now_ns() + 20_000_000;
        lock(&self.devices).0.idle(later);
    }

    /// The modems' flows, for who wants to look closer.
    pub(super) fn devices(&self) -> MutexGuard<'_, (Downstream, Upstream)> {
        lock(&self.devices)
    }

    /// What encrypts.
    pub fn cipher(&self) -> &'static str {
        self.worker.gateway().state().modems.encrypt.by()
    }

    /// Ends it: everything arrives, everything is given back.
    pub fn close(mut self) -> CableEnd {
        self.drain();
        let view = self.worker.env().stats.view();
        drop(self.worker.close());
        let drops = view.drops().into_iter().map(|(stage, reason, n, _)| (format!("{stage}.{}", reason.name()), n));
        let (hosts, devices) = (lock(&self.hosts), lock(&self.devices));
        CableEnd {
            frames_lost: i64::from(self.arena.shape().slots) - self.arena.in_depot() as i64,
            packets_missing: view.missing(),
            down: (hosts.sent().0, devices.0.heard()),
            up: (devices.1.said(), hosts.heard()),
            unordered: devices.0.resequenced().0,
            drops: drops.collect(),
            latencies: [devices.0.latencies().clone(), hosts.latencies().clone()],
        }
    }
}

impl CableWindow {
    fn since(mut self, before: &Self) -> Self {
        for n in 0..2 {
            self.far[n] -= before.far[n];
            self.doors[n] = (self.doors[n] - before.doors[n]).saturating_sub(self.far[n]);
        }
        self.pipelines -= before.pipelines;
        self.down = (self.down.0 - before.down.0, self.down.1 - before.down.1);
        self.heard.in_order -= before.heard.in_order;
        self.heard.bytes -= before.heard.bytes;
        self.said.packets -= before.said.packets;
        self.up.in_order -= before.up.in_order;
        self.up.bytes -= before.up.bytes;
        for (row, earlier) in self.stages.iter_mut().zip(&before.stages) {
            row.calls -= earlier.calls;
            row.packets -= earlier.packets;
            row.cycles -= earlier.cycles;
        }
        for ((_, bytes), (_, earlier)) in self.channels.iter_mut().zip(&before.channels) {
            *bytes -= earlier;
        }
        self
    }
}

/// Never contended: one thread plays all parts.
fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().expect("no code panics holding a far side")
}
