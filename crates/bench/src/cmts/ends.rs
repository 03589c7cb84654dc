//! What stands behind a cable gateway's ports: Remote-PHY devices with their modems on one side, hosts on the other, and
//! what they find.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use frame::{BURST, Caps};
use table::histogram::Histogram;
use traffic::Clock;
use traffic::cable::{Cuts, Downstream, Heard, Hosts, HostsHeard, Plant, Said, Upstream};

use super::settings::CableSettings;
use crate::ends::{Checked, End, Shared};

/// What the channels are offered of what they can carry: less than all, or queues would fill.
const OFFERED: f64 = 0.9;
/// Packets with no answer after this are not waited for any more. Longer than a busy machine keeps a thread waiting.
const GIVEN_UP: Duration = Duration::from_secs(1);
/// Packets of UEPI at a time.
const BURSTS: u64 = 8;
/// Devices that have heard nothing for so long give up what they wait for, in nanoseconds.
const QUIET_NS: u64 = 1_000_000;

/// Hosts on one side, Remote-PHY devices with their modems on the other.
#[derive(Clone)]
pub struct Ends {
    hosts: Arc<Mutex<Hosts>>,
    devices: Arc<Mutex<(Downstream, Upstream)>>,
}

/// What they found since counting began.
#[derive(Clone, Debug)]
pub struct Totals {
    /// Downstream: sent, and delivered with all checks passed.
    pub down: (u64, Heard),
    /// Upstream: sent, delivered.
    pub up: (Said, HostsHeard),
    /// Packets lost in the order of DSIDs.
    pub unordered: u64,
    /// Bytes of each service group's channels, headers included.
    pub channels: Vec<((u16, u16), u64)>,
    /// Latencies downstream and upstream, in nanoseconds.
    pub latencies: [Histogram; 2],
}

impl Totals {
    /// Whether everything sent has been delivered.
    pub fn is_whole(&self) -> bool {
        self.down.0 == self.down.1.in_order && self.up.0.packets == self.up.1.in_order
    }
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

    /// The network side.
    fn hosts(&self) -> MutexGuard<'_, Hosts> {
        lock(&self.hosts)
    }

    /// The devices: what they hear, what they send.
    pub fn devices(&self) -> MutexGuard<'_, (Downstream, Upstream)> {
        lock(&self.devices)
    }

    /// Bytes made downstream and upstream since counting began.
    fn made(&self) -> [f64; 2] {
        [self.hosts().sent().1 as f64, self.devices().1.said().bytes as f64]
    }

    /// Forgets what was counted.
    pub fn count_from(&self, now_ns: u64) {
        self.hosts().count_from(now_ns);
        let mut devices = self.devices();
        devices.0.count_from(now_ns);
        devices.1.count_from();
    }

    /// What they have found so far.
    pub fn totals(&self) -> Totals {
        let (hosts, devices) = (self.hosts(), self.devices());
        Totals {
            down: (hosts.sent().0, devices.0.heard()),
            up: (devices.1.said(), hosts.heard()),
            unordered: devices.0.resequenced().0,
            channels: devices.0.channels(),
            latencies: [devices.0.latencies().clone(), hosts.latencies().clone()],
        }
    }
}

/// Packets and bytes found right so far, and what came since the last look.
#[derive(Default)]
struct Right((u64, u64));

impl Right {
    fn since(&mut self, now: (u64, u64)) -> (u64, u64) {
        let before = std::mem::replace(&mut self.0, now);
        // Counting may have begun anew.
        if now.0 < before.0 || now.1 < before.1 { now } else { (now.0 - before.0, now.1 - before.1) }
    }
}

/// Remote-PHY devices with their modems.
pub struct Devices {
    ends: Ends,
    caps: Caps,
    clock: Clock,
    /// Bytes upstream for each byte downstream.
    upstream: f64,
    /// Times they were asked to end streams, and packets with the ends that are still to be sent.
    endings: u64,
    ending: u64,
    settled_ns: u64,
    right: Right,
}

impl Devices {
    /// Those of `ends`, behind such a port.
    pub fn new(settings: &CableSettings, ends: &Ends, caps: Caps, clock: Clock) -> Self {
        let (ends, upstream) = (ends.clone(), settings.upstream);
        Self { ends, caps, clock, upstream, endings: 0, ending: 0, settled_ns: 0, right: Right::default() }
    }
}

impl End for Devices {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }

    fn due(&mut self, shared: &Shared, _given: u64, clock: &Clock) -> u64 {
        let now_ns = clock.now_ns();
        if now_ns.saturating_sub(self.settled_ns) > QUIET_NS {
            self.settled_ns = now_ns;
            self.ends.devices().0.idle(now_ns);
        }
        if self.endings != shared.endings() {
            self.endings = shared.endings();
            self.ending = self.ends.devices().1.finish(now_ns) as u64;
        }
        let [down, up] = self.ends.made();
        let owed = shared.since().is_some() && up < down * self.upstream;
        let due = if owed { BURSTS } else { self.ending.min(BURSTS) };
        self.ending = self.ending.saturating_sub(due);
        due
    }

    fn write(&mut self, space: &mut [u8]) -> Option<usize> {
        let mut devices = self.ends.devices();
        let packet = devices.1.next(self.clock.now_ns())?;
        let len = packet.len();
        space.get_mut(..len)?.copy_from_slice(&packet);
        devices.1.recycle(packet);
        Some(len)
    }

    fn check(&mut self, frame: &[u8]) -> Checked {
        self.ends.devices().0.take(frame, self.clock.now_ns());
        Checked::Other
    }

    fn settle(&mut self) -> (u64, u64) {
        self.settled_ns = self.clock.now_ns();
        let mut devices = self.ends.devices();
        devices.0.settle(self.settled_ns);
        let heard = devices.0.heard();
        self.right.since((heard.in_order, heard.bytes))
    }
}

/// Hosts beyond the network side.
pub struct Network {
    ends: Ends,
    caps: Caps,
    clock: Clock,
    /// Bits a second offered at most.
    most: f64,
    /// Packets on their way to the devices at most.
    at_most: Option<u64>,
    /// Bytes downstream that had been made when the load began.
    begun_with: f64,
    progress: Progress,
    right: Right,
}

impl Network {
    /// That of `ends`, behind such a port, with so many packets at most on their way at a time.
    pub fn new(settings: &CableSettings, ends: &Ends, caps: Caps, clock: Clock, at_most: Option<u64>) -> Self {
        Self {
            ends: ends.clone(),
            caps,
            clock,
            most: settings.channels.capacity() * f64::from(settings.groups) * OFFERED,
            at_most,
            begun_with: 0.0,
            progress: Progress::new(),
            right: Right::default(),
        }
    }

    fn has_room(&mut self) -> bool {
        let Some(most) = self.at_most else { return true };
        let (sent, heard) = (self.ends.hosts().sent().0, self.ends.devices().0.heard());
        let arrived = heard.in_order + heard.reordered + heard.duplicated;
        self.progress.on_their_way(sent, arrived) + BURST as u64 <= most
    }
}

impl End for Network {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }

    fn restart(&mut self) {
        self.begun_with = self.ends.made()[0];
        self.progress = Progress::new();
    }

    fn due(&mut self, shared: &Shared, _given: u64, clock: &Clock) -> u64 {
        let Some(since) = shared.since() else { return 0 };
        let carried = self.most * clock.now_ns().saturating_sub(since) as f64 / 1e9;
        let made = (self.ends.made()[0] - self.begun_with) * 8.0;
        if made <= carried && self.has_room() { BURST as u64 } else { 0 }
    }

    fn write(&mut self, space: &mut [u8]) -> Option<usize> {
        let len = self.ends.hosts().make(space, self.clock.now_ns());
        (len > 0).then_some(len)
    }

    fn check(&mut self, frame: &[u8]) -> Checked {
        self.ends.hosts().take(frame, self.clock.now_ns());
        Checked::Other
    }

    fn settle(&mut self) -> (u64, u64) {
        let heard = self.ends.hosts().heard();
        self.right.since((heard.in_order, heard.bytes))
    }
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

/// Never contended: one thread plays all far ends, and nothing else looks while it does.
fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    part.lock().expect("no code panics holding a far end")
}
