//! A cable gateway on interfaces: its worker on one CPU, its far ends on another, the kernel between.
//!
//! No more than [`ON_THEIR_WAY`] packets are between the far ends at a time, so nothing need be lost however unevenly
//! the two threads run; what arrives makes room for more. Where the far ends, which make, decrypt and check every frame,
//! are slower than the gateway, it is not busy all the time: results say so.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cmts::assemble::assemble;
use cmts::control::Control;
use engine::{Io, StatsView};
use frame::{Arena, ArenaConfig, BURST, Batch, Pool, Port};
use port::Steer;
use table::hint::tsc_hz;
use traffic::Clock;

use super::Trial;
use super::ends::{CableEnd, CableWindow, Ends};
use super::rig::{OFFERED, SLOTS};
use super::settings::CableSettings;
use crate::bed::{self, Bed};
use crate::crew::{Hand, Left, Player, Slice, Working};
use crate::error::BenchError;
use crate::lab::Side;
use crate::options::{PortKind, ReceiveWork};
use crate::score::{Part, Score, Times};
use crate::socket::{caps, far_ends, open, uri};
use crate::under_test::WorkerInit;
use crate::window::How;

/// Packets downstream between the far ends: as many as a virtual link holds before a thread that pauses (AF_XDP there).
const ON_THEIR_WAY: u64 = 256;
/// Packets that have not come after this are not waited for any more. Longer than a busy machine keeps a thread waiting.
const GIVEN_UP: Duration = Duration::from_secs(1);
/// What is on its way when sending ends has arrived after this, mostly.
const DRAIN: Duration = Duration::from_millis(20);
/// Packets of UEPI at a time.
const BURSTS: usize = 8;

/// A gateway and its far ends, each on a thread of its own.
pub struct WiredRig {
    /// Threads before the network they are on: dropped in this order.
    gateway: Option<Hand>,
    far: Option<Hand>,
    _network: Bed,
    score: Score,
    ends: Ends,
    found: Arc<Mutex<CableWindow>>,
    arenas: [Arc<Arena>; 2],
    view: StatsView,
    cipher: &'static str,
    /// Bytes of its modems and all that is theirs.
    bytes: usize,
    /// What its port says of itself.
    detail: String,
    _control: Control,
}

impl WiredRig {
    /// Builds a network, a gateway on it, and its far ends.
    ///
    /// # Errors
    /// What cannot be, or what the system refused.
    pub fn new(settings: &CableSettings, kind: PortKind) -> Result<Self, BenchError> {
        if settings.mtu > bed::MTU {
            let (mtu, most) = (settings.mtu, bed::MTU);
            return Err(BenchError::Asked(format!(
                "mtu = {mtu}: the benchmark's own links carry IP packets of up to {most} bytes; --port memory carries 2000"
            )));
        }
        let mut bed = Bed::between(CableSettings::macs(), 1, false, ReceiveWork::Senders)?;
        let link = bed.link(kind)?;
        let (score, arenas) = (bed.score(), [memory()?, memory()?]);
        let uris = Side::BOTH.map(|side| uri(kind, bed.lab(), side, link, (0, 1)));
        let config = settings.config(uris.each_ref().map(ToString::to_string).each_ref().map(String::as_str))?;
        let mut pool = Pool::new(&arenas[0], SLOTS as usize);
        let ports = open(uris, &mut pool, &Steer::new())?;
        let (caps, detail) = (caps(&ports), ports[0].caps().detail);
        let (control, seats) = assemble(&config, &caps).map_err(|error| BenchError::Gateway(error.to_string()))?;
        let seat = seats.into_iter().next().ok_or_else(|| BenchError::Gateway("no worker".into()))?;
        let seat = WorkerInit { gateway: seat.gateway, layout: seat.layout, hand_off: None, users: 0..0 };
        let mut working = Working::new(seat, pool, ports.into());
        // Modems are taken in by and by.
        working.turns(settings.subscribers() / 8 + 64);
        let (view, cipher) = (working.view(), working.gateway().state().modems.encrypt.by());
        let bytes = working.gateway().state().bytes();
        let ends = Ends::new(settings, &settings.plant(&config)?);
        let found = Arc::<Mutex<CableWindow>>::default();
        let mut pool = Pool::new(&arenas[1], SLOTS as usize);
        let far = Far {
            ports: far_ends(bed.lab(), link, &mut pool)?,
            arena: arenas[1].clone(),
            pool,
            ends: ends.clone(),
            came: Batch::new(),
            out: [Batch::new(), Batch::new()],
            clock: Clock::tsc(),
            upstream: settings.upstream,
            most: settings.channels.capacity() * f64::from(settings.groups) * OFFERED,
            begun: Instant::now(),
            begun_with: 0.0,
            progress: Progress::new(),
            ending: 0,
            idled_ns: 0,
            found: found.clone(),
        };
        let (own, cpu) = bed.seat(&score, 0, 1);
        Ok(Self {
            gateway: Some(Hand::new("gw-0".into(), Box::new(working), own, cpu)?),
            far: Some(Hand::new("far".into(), Box::new(far), score.clone(), bed.load_cpu())?),
            _network: bed,
            score,
            ends,
            found,
            arenas,
            view,
            cipher,
            bytes,
            detail,
            _control: control,
        })
    }

    /// Plays a window on both threads; gives what the gateway did in it.
    fn play(&mut self, how: &How, drain: Duration, stop: &AtomicBool) -> Result<Slice, BenchError> {
        let (Some(gateway), Some(far)) = (&self.gateway, &self.far) else {
            return Err(BenchError::Died("thread of a trial"));
        };
        let times = Times { warm: how.warm, measure: how.measure, drain };
        let played = self.score.play(&times, stop, |part| {
            if part == Part::Warm {
                gateway.window(how);
                far.window(how);
            }
        });
        let slice = gateway.slice()?;
        far.slice()?;
        self.score.rest();
        played?;
        Ok(slice)
    }

    /// Nothing new; everything on its way arrives.
    fn drain(&mut self) -> Result<(), BenchError> {
        let how = How { warm: Duration::ZERO, pps: Some(0.0), ..How::most(Duration::from_millis(20)) };
        let begin = Instant::now();
        loop {
            let before = self.ends.end();
            self.play(&how, DRAIN, &AtomicBool::new(false))?;
            let after = self.ends.end();
            let whole = after.down.0 == after.down.1.in_order && after.up.0.packets == after.up.1.in_order;
            let still = (before.down.1, before.up) == (after.down.1, after.up);
            if whole || still && begin.elapsed() > Duration::from_secs(1) || begin.elapsed() > Duration::from_secs(5) {
                return Ok(());
            }
        }
    }
}

impl Trial for WiredRig {
    fn warm(&mut self, time: Duration) -> Result<(), BenchError> {
        self.play(&How { warm: Duration::ZERO, ..How::most(time) }, DRAIN, &AtomicBool::new(false))?;
        self.drain()?;
        self.ends.count_from(Clock::tsc().now_ns());
        Ok(())
    }

    fn window(&mut self, time: Duration, stop: &AtomicBool) -> Result<CableWindow, BenchError> {
        let slice = self.play(&How::most(time), DRAIN, stop)?;
        let (done, hz) = (&slice.measured, tsc_hz() as f64);
        let mut window = self.found.lock().map_or_else(|_| CableWindow::default(), |found| found.clone());
        window.cycles = done.busy_cycles();
        window.pipelines = done.io(Io::PipelineCycles);
        window.doors = [done.io(Io::RxCycles), done.io(Io::TxCycles)];
        window.time = done.cycles as f64 / hz;
        window.utilisation = done.utilisation();
        window.urgent = slice.urgent;
        window.stages.clone_from(&done.stages);
        window.allocations = slice.allocations;
        Ok(window)
    }

    fn cipher(&self) -> &'static str {
        self.cipher
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn nic(&self) -> String {
        if self.detail.is_empty() { "veth".to_owned() } else { format!("veth ({})", self.detail) }
    }

    fn close(mut self: Box<Self>) -> Result<CableEnd, BenchError> {
        self.drain()?;
        self.ends.devices().0.idle(Clock::tsc().now_ns() + 20_000_000);
        let drops = self.view.drops().into_iter();
        let drops = drops.map(|(stage, reason, n, _)| (format!("{stage}.{}", reason.name()), n)).collect();
        let left = self.gateway.take().map(Hand::close).transpose()?.unwrap_or_default();
        self.far.take().map(Hand::close).transpose()?;
        let lost = |arena: &Arc<Arena>| i64::from(arena.shape().slots) - arena.in_depot() as i64;
        Ok(CableEnd {
            frames_lost: self.arenas.iter().map(lost).sum(),
            packets_missing: left.packets_missing,
            drops,
            ..self.ends.end()
        })
    }
}

fn memory() -> Result<Arc<Arena>, BenchError> {
    Arena::new(ArenaConfig { slots: SLOTS, ..ArenaConfig::default() })
        .map_err(|error| BenchError::system("memory for packets", error))
}

/// What has arrived of what was sent, so that packets that never come do not stop everything.
struct Progress {
    arrived: u64,
    at: Instant,
    given_up: u64,
}

impl Progress {
    fn new() -> Self {
        Self { arrived: 0, at: Instant::now(), given_up: 0 }
    }

    /// Packets on their way, of so many sent and arrived.
    fn on_their_way(&mut self, sent: u64, arrived: u64) -> u64 {
        if arrived != self.arrived || sent <= arrived + self.given_up {
            (self.arrived, self.at) = (arrived, Instant::now());
        } else if self.at.elapsed() > GIVEN_UP {
            (self.given_up, self.at) = (sent - arrived, Instant::now());
        }
        sent.saturating_sub(arrived + self.given_up)
    }
}

/// The far ends as a player: sends by both interfaces, looks at what comes.
struct Far {
    /// Towards the devices, towards the network.
    ports: [Box<dyn Port>; 2],
    pool: Pool,
    arena: Arc<Arena>,
    ends: Ends,
    came: Batch,
    /// What a port would not take yet.
    out: [Batch; 2],
    clock: Clock,
    /// Bytes upstream for each byte downstream.
    upstream: f64,
    /// Bits a second offered at most.
    most: f64,
    begun: Instant,
    /// Bytes downstream that had been made then.
    begun_with: f64,
    progress: Progress,
    /// Packets with the ends of streams that are still to be sent.
    ending: usize,
    idled_ns: u64,
    found: Arc<Mutex<CableWindow>>,
}

impl Far {
    fn turn(&mut self, loaded: bool) -> bool {
        let now = self.clock.now_ns();
        let heard = self.hear(now);
        let said = self.say(loaded, now);
        heard + said > 0
    }

    fn hear(&mut self, now: u64) -> usize {
        let Self { ports: [device, core], pool, arena, ends, came, .. } = self;
        device.service(pool);
        let from_device = device.rx_burst(pool, came);
        let mut devices = ends.devices();
        came.drain(|frame| {
            devices.0.take(arena.bytes(&frame), now);
            pool.give(frame);
        });
        if from_device > 0 {
            devices.0.settle(now);
        } else if now.saturating_sub(self.idled_ns) > 1_000_000 {
            self.idled_ns = now;
            devices.0.idle(now);
        }
        core.service(pool);
        let from_core = core.rx_burst(pool, came);
        let mut hosts = ends.hosts();
        came.drain(|frame| {
            hosts.take(arena.bytes(&frame), now);
            pool.give(frame);
        });
        from_device + from_core
    }

    fn say(&mut self, loaded: bool, now: u64) -> usize {
        let [down, up] = self.ends.made();
        let (sent, heard) = (self.ends.hosts().sent().0, self.ends.devices().0.heard());
        let arrived = heard.in_order + heard.reordered + heard.duplicated;
        let on_their_way = self.progress.on_their_way(sent, arrived);
        let may = (down - self.begun_with) * 8.0 < self.most * self.begun.elapsed().as_secs_f64();
        if loaded && may && on_their_way + BURST as u64 <= ON_THEIR_WAY && self.out[1].is_empty() {
            let mut hosts = self.ends.hosts();
            while self.out[1].room() > 0
                && let Some(mut frame) = self.pool.take()
            {
                let len = hosts.make(self.arena.space_mut(&mut frame), now);
                self.arena.set_len(&mut frame, len);
                // There was room.
                let _ = self.out[1].push(frame).map_err(|frame| self.pool.give(frame));
            }
        }
        let owed = if loaded && up < down * self.upstream { BURSTS } else { self.ending.min(BURSTS) };
        if self.out[0].is_empty() && owed > 0 {
            let mut devices = self.ends.devices();
            for _ in 0..owed {
                let (Some(mut frame), Some(packet)) = (self.pool.take(), devices.1.next(now)) else { break };
                self.arena.write(&mut frame, &packet);
                devices.1.recycle(packet);
                let _ = self.out[0].push(frame).map_err(|frame| self.pool.give(frame));
            }
            self.ending = self.ending.saturating_sub(owed);
        }
        let Self { ports, out, pool, .. } = self;
        let send = |(port, batch): (&mut Box<dyn Port>, &mut Batch)| match batch.is_empty() {
            true => 0,
            false => port.tx_burst(pool, batch),
        };
        ports.iter_mut().zip(out).map(send).sum()
    }
}

impl Player for Far {
    fn play(&mut self, how: &How, score: &Score) -> Slice {
        let loaded = how.pps.is_none();
        (self.begun, self.begun_with) = (Instant::now(), self.ends.made()[0]);
        self.progress = Progress::new();
        if !loaded {
            self.ending = self.ends.devices().1.finish(self.clock.now_ns());
        }
        score.during(Part::Warm, || self.turn(loaded));
        let (before, begin) = (self.ends.glance(), Instant::now());
        score.during(Part::Measure, || self.turn(loaded));
        let window = CableWindow { seconds: begin.elapsed().as_secs_f64(), ..self.ends.glance().since(&before) };
        if let Ok(mut found) = self.found.lock() {
            *found = window;
        }
        score.during(Part::Drain, || self.turn(false));
        Slice::default()
    }

    fn close(mut self: Box<Self>) -> Left {
        let Self { ports, out, pool, .. } = &mut *self;
        out.iter_mut().for_each(|batch| batch.drain(|frame| pool.give(frame)));
        ports.iter_mut().for_each(|port| port.close(pool));
        Left::default()
    }
}
