//! The far ends of a cable gateway's ports, and what they find: the same in memory and over interfaces.

use std::sync::{Arc, Mutex, MutexGuard};

use engine::StageRow;
use table::histogram::Histogram;
use traffic::cable::{Cuts, Downstream, Heard, Hosts, HostsHeard, Plant, Said, Side, Upstream};

use super::settings::CableSettings;

/// Hosts on one side, Remote-PHY devices with their modems on the other.
#[derive(Clone)]
pub struct Ends {
    hosts: Arc<Mutex<Hosts>>,
    devices: Arc<Mutex<(Downstream, Upstream)>>,
}

/// What happened in a window.
#[derive(Clone, Debug, Default)]
pub struct CableWindow {
    /// Cycles of the gateway.
    pub cycles: u64,
    /// Of those, in pipelines, with everything between them.
    pub pipelines: u64,
    /// Of those, receiving and sending.
    pub doors: [u64; 2],
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Seconds that rates are of: the gateway's own in memory, where one thread plays all parts; else the wall clock's.
    pub time: f64,
    /// The part of its time that the gateway had packets.
    pub utilisation: f64,
    /// Whether its thread came before the machine's ordinary ones.
    pub urgent: bool,
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
    /// Heap allocations of the gateway's thread; in memory that is the far sides', too.
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
    pub latencies: [Histogram; 2],
}

impl Ends {
    /// The far ends of a plant under that workload.
    pub fn new(settings: &CableSettings, plant: &Plant) -> Self {
        let upstream = Upstream::new(plant, settings.upstream(), Cuts::Few);
        Self {
            hosts: Arc::new(Mutex::new(Hosts::new(plant, settings.downstream()))),
            devices: Arc::new(Mutex::new((Downstream::new(plant, false), upstream))),
        }
    }

    /// As ends of ports in memory: towards devices, towards the network.
    pub fn sides(&self) -> [Side; 2] {
        [Side::Device(self.devices.clone()), Side::Core(self.hosts.clone())]
    }

    /// The network side.
    pub fn hosts(&self) -> MutexGuard<'_, Hosts> {
        lock(&self.hosts)
    }

    /// The devices.
    pub fn devices(&self) -> MutexGuard<'_, (Downstream, Upstream)> {
        lock(&self.devices)
    }

    /// Bytes made downstream and upstream since counting began.
    pub fn made(&self) -> [f64; 2] {
        [self.hosts().sent().1 as f64, self.devices().1.said().bytes as f64]
    }

    /// Forgets what was counted.
    pub fn count_from(&self, now_ns: u64) {
        self.hosts().count_from(now_ns);
        let mut devices = self.devices();
        devices.0.count_from(now_ns);
        devices.1.count_from();
    }

    /// What they have counted so far, as a window from the beginning.
    pub fn glance(&self) -> CableWindow {
        let (hosts, devices) = (self.hosts(), self.devices());
        CableWindow {
            down: hosts.sent(),
            heard: devices.0.heard(),
            said: devices.1.said(),
            up: hosts.heard(),
            channels: devices.0.channels(),
            ..CableWindow::default()
        }
    }

    /// What came of all of it.
    pub fn end(&self) -> CableEnd {
        let (hosts, devices) = (self.hosts(), self.devices());
        CableEnd {
            down: (hosts.sent().0, devices.0.heard()),
            up: (devices.1.said(), hosts.heard()),
            unordered: devices.0.resequenced().0,
            latencies: [devices.0.latencies().clone(), hosts.latencies().clone()],
            ..CableEnd::default()
        }
    }
}

impl CableWindow {
    /// Less what an earlier glance had counted already.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.pipelines -= before.pipelines;
        self.doors = [0, 1].map(|n: usize| self.doors[n] - before.doors[n]);
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

/// Never contended: one thread plays all far sides, and nobody looks while it does.
fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().expect("no code panics holding a far side")
}
