//! One worker of a cable gateway in memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use cmts::assemble::assemble;
use cmts::control::Control;
use cmts::gateway::CableGateway;
use engine::{Gateway, Idle, Io, StatsView, Time, Worker, WorkerConfig};
use frame::{Arena, ArenaConfig, BURST, Caps, Pool, Port};
use table::hint::{tsc, tsc_hz};
use traffic::Clock;
use traffic::cable::{CablePort, Downstream, Upstream};

use super::Trial;
use super::ends::{CableEnd, CableWindow, Ends};
use super::settings::CableSettings;
use crate::error::BenchError;

/// Slots: what waits in queues at most, and what ports and packets in the making need.
pub(super) const SLOTS: u32 = 16_384;
/// What the channels are offered of what they can carry: less than all, or queues would fill.
pub(super) const OFFERED: f64 = 0.9;

/// A worker with everything around it.
pub struct CableRig {
    worker: Worker<CableGateway>,
    control: Control,
    view: StatsView,
    clock: Clock,
    arena: Arc<Arena>,
    ends: Ends,
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

impl CableRig {
    /// Assembles a gateway and its far sides, on the time stamp counter.
    ///
    /// # Errors
    /// What cannot be, or what the machine has too little of.
    pub fn new(settings: &CableSettings) -> Result<Self, BenchError> {
        Self::timed(settings, Time::real(), Clock::tsc())
    }

    /// The same by clocks of another kind.
    ///
    /// # Errors
    /// As [`CableRig::new`].
    pub fn timed(settings: &CableSettings, time: Time, clock: Clock) -> Result<Self, BenchError> {
        let config = settings.config(["memory:rphy", "memory:core"])?;
        let plant = settings.plant(&config)?;
        let mtus = [u32::from(settings.mtu), 1500];
        let macs = CableSettings::macs().map(|mac| mac.0);
        let caps = [0, 1].map(|n| Caps { kind: "memory", mac: macs[n], mtu: mtus[n], ..Caps::default() });
        let (control, seats) = assemble(&config, &caps).map_err(|error| BenchError::Gateway(error.to_string()))?;
        let seat = seats.into_iter().next().ok_or_else(|| BenchError::Gateway("no worker".into()))?;
        let shape = ArenaConfig { slots: SLOTS, slot_bytes: settings.slot_bytes(), ..ArenaConfig::default() };
        let arena = Arena::new(shape).map_err(|error| BenchError::system("memory for packets", error))?;
        let ends = Ends::new(settings, &plant);
        let credit = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
        let far: Arc<[AtomicU64; 2]> = Arc::default();
        let mut ports: Vec<Box<dyn Port>> = Vec::new();
        for (n, side) in ends.sides().into_iter().enumerate() {
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
            ends,
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
        self.made = self.ends.made();
    }

    /// Cycles of the far sides so far.
    fn far(&self) -> [u64; 2] {
        [0, 1].map(|n: usize| self.far[n].load(Ordering::Relaxed))
    }

    /// What has been counted so far, as a window from the beginning.
    fn glance(&self) -> CableWindow {
        CableWindow {
            pipelines: self.view.io(Io::PipelineCycles),
            doors: [self.view.io(Io::RxCycles), self.view.io(Io::TxCycles)],
            stages: self.view.stages(),
            ..self.ends.glance()
        }
    }

    /// A moment without load, for what waits for other frames not to do so while something else is measured.
    fn rest(&mut self) {
        let begin = Instant::now();
        while self.worker.gateway().held() > 0 && begin.elapsed() < Duration::from_millis(10) {
            self.turn(false);
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
        let rest = self.ends.devices().1.finish(self.clock.now_ns());
        self.credit[0].store(rest as u64, Ordering::Relaxed);
        self.credit[1].store(0, Ordering::Relaxed);
        while self.credit[0].load(Ordering::Relaxed) > 0 && begin.elapsed() < Duration::from_secs(2) {
            self.worker.turn();
        }
        for _ in 0..2000 {
            self.turn(false);
        }
        let later = self.clock.now_ns() + 20_000_000;
        self.ends.devices().0.idle(later);
    }

    /// The modems' flows, for who wants to look closer.
    pub(super) fn devices(&self) -> MutexGuard<'_, (Downstream, Upstream)> {
        self.ends.devices()
    }
}

impl Trial for CableRig {
    fn warm(&mut self, time: Duration) -> Result<(), BenchError> {
        self.window(time, &AtomicBool::new(false))?;
        self.drain();
        self.ends.count_from(self.clock.now_ns());
        self.begun = Instant::now();
        self.made = [0.0; 2];
        Ok(())
    }

    fn window(&mut self, time: Duration, _stop: &AtomicBool) -> Result<CableWindow, BenchError> {
        let (before, far_before) = (self.glance(), self.far());
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
        let far = self.far();
        self.rest();
        let mut window = after.since(&before);
        // What the far sides took is not the gateway's: cycles of making packets, of checking packets.
        let far = [far[0] - far_before[0], far[1] - far_before[1]];
        window.doors = [0, 1].map(|n: usize| window.doors[n].saturating_sub(far[n]));
        window.cycles = cycles.saturating_sub(far[0] + far[1]);
        window.time = window.cycles as f64 / tsc_hz() as f64;
        (window.seconds, window.utilisation, window.allocations) = (seconds, 1.0, allocations);
        Ok(window)
    }

    fn cipher(&self) -> &'static str {
        self.worker.gateway().state().modems.encrypt.by()
    }

    fn bytes(&self) -> usize {
        self.worker.gateway().state().bytes()
    }

    fn nic(&self) -> String {
        "in process".to_owned()
    }

    fn close(mut self: Box<Self>) -> Result<CableEnd, BenchError> {
        self.drain();
        let view = self.worker.env().stats.view();
        drop(self.worker.close());
        let drops = view.drops().into_iter().map(|(stage, reason, n, _)| (format!("{stage}.{}", reason.name()), n));
        Ok(CableEnd {
            frames_lost: i64::from(self.arena.shape().slots) - self.arena.in_depot() as i64,
            packets_missing: view.missing(),
            drops: drops.collect(),
            ..self.ends.end()
        })
    }
}
