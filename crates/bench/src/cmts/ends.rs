//! What stands behind a cable gateway's ports: Remote-PHY devices with their modems on one side, hosts on the other, and
//! what they find.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use frame::{BURST, Caps};
use table::histogram::Histogram;
use traffic::Clock;
use traffic::cable::{CLASSES, Cuts, Decided, Downstream, Heard, Hosts, HostsHeard, Plant, Said, Upstream};

use super::settings::CableSettings;
use crate::ends::{Checked, End, Shared};

/// What the channels are offered of what they can carry: less than all, or the queues of all service flows would fill.
pub const OFFERED: f64 = 0.9;
/// Packets with no answer after this are not waited for any more. Longer than a busy machine keeps a thread waiting.
const GIVEN_UP: Duration = Duration::from_secs(1);
/// Bytes of the Ethernet frames in a full packet of UEPI: what a burst upstream is counted in.
const UEPI_BYTES: f64 = 1300.0;
/// In memory, packets upstream on their way at most, beside one of each modem: a gateway with more to do than it can is
/// sent no more than it takes, as by grants.
const UPSTREAM_ON_THEIR_WAY: u64 = 512;
/// On links, packets of UEPI at a time.
const BURSTS: u64 = 8;
/// Bytes upstream may be behind before downstream waits for it.
const BEHIND: f64 = 96.0 * 1024.0;
/// Devices that have heard nothing for so long give up what they wait for, in nanoseconds.
const QUIET_NS: u64 = 1_000_000;

/// Hosts on one side, Remote-PHY devices with their modems on the other: those of some service groups.
#[derive(Clone)]
pub struct Ends {
    hosts: Arc<Mutex<Hosts>>,
    devices: Arc<Mutex<(Downstream, Upstream)>>,
    /// The number of its first service group, and how many it has.
    first_group: u16,
    groups: u16,
    modems: u64,
    clock: Clock,
    /// When counting began, in nanoseconds.
    since_ns: Arc<Mutex<u64>>,
}

/// What they found since counting began.
#[derive(Clone, Debug, Default)]
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
    /// Packets sent to modems that are offered more than they may have.
    pub excess_sent: u64,
    /// Packets made since the gateway began, and how many of them rules match: downstream, upstream.
    pub decided: [Decided; 2],
}

/// What the service flows that are offered more than their rate were sent and got since counting began.
#[derive(Clone, Debug, Default)]
pub struct Overload {
    /// Seconds since counting began by the clock of each end, times its overloaded modems, summed.
    pub modem_seconds: f64,
    /// Bytes with CRC sent to overloaded modems, and to the others.
    pub sent_bytes: u64,
    /// Bytes a second that each overloaded primary service flow got.
    pub carried: Vec<f64>,
    /// Nanoseconds that packets were on their way, summed, and packets: of overloaded service flows, of all others.
    pub delays: [(u64, u64); 2],
}

impl Totals {
    /// Of so many packets that queues dropped, those of modems that are offered more than they may have.
    pub fn expected(&self, dropped: u64) -> u64 {
        dropped.min(self.excess_sent.saturating_sub(self.down.1.excess))
    }

    /// Whether everything sent has been delivered, but of so many packets that queues dropped those that are expected.
    pub fn is_whole(&self, dropped: u64) -> bool {
        let expected = self.expected(dropped);
        self.down.0 == self.down.1.in_order + expected && self.up.0.packets == self.up.1.in_order
    }

    /// What several ends found, as one.
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut sum, one| {
            sum.down.0 += one.down.0;
            sum.down.1.add(&one.down.1);
            sum.up.0.add(&one.up.0);
            sum.up.1.add(&one.up.1);
            sum.unordered += one.unordered;
            sum.excess_sent += one.excess_sent;
            sum.channels.extend(one.channels);
            sum.latencies.iter_mut().zip(&one.latencies).for_each(|(sum, one)| sum.merge(one));
            sum.decided.iter_mut().zip(&one.decided).for_each(|(sum, one)| sum.add(one));
            sum
        })
    }
}

impl Ends {
    /// The far ends of a plant of the service groups from `first_group` on, under that workload, by that clock.
    pub fn new(settings: &CableSettings, plant: &Plant, first_group: u16, clock: Clock) -> Self {
        let groups = plant.groups.len() as u16; // at most eight
        let upstream = Upstream::new(plant, settings.upstream(), Cuts::Few);
        let (mut hosts, mut downstream) = (Hosts::new(plant, settings.downstream()), Downstream::new(plant, false));
        let excess = settings.excess(groups);
        downstream.exceed(&excess.modems);
        hosts.exceed(excess);
        Self {
            hosts: Arc::new(Mutex::new(hosts)),
            devices: Arc::new(Mutex::new((downstream, upstream))),
            first_group,
            groups,
            modems: u64::from(groups) * u64::from(settings.modems),
            clock,
            since_ns: Arc::default(),
        }
    }

    /// The network side.
    pub fn hosts(&self) -> MutexGuard<'_, Hosts> {
        lock(&self.hosts)
    }

    /// The devices: what they hear, what they send.
    pub fn devices(&self) -> MutexGuard<'_, (Downstream, Upstream)> {
        lock(&self.devices)
    }

    /// What they go by.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Bytes made downstream since counting began.
    fn made(&self) -> f64 {
        self.hosts().sent().1 as f64
    }

    /// Bytes that upstream is behind `ratio` of what downstream delivered; negative: ahead.
    fn behind(&self, ratio: f64) -> f64 {
        let devices = self.devices();
        devices.0.heard().bytes as f64 * ratio - devices.1.said().bytes as f64
    }

    /// Forgets what was counted.
    pub fn count_from_now(&self) {
        let now_ns = self.clock.now_ns();
        self.hosts().count_from(now_ns);
        let mut devices = self.devices();
        devices.0.count_from(now_ns);
        devices.1.count_from();
        *lock(&self.since_ns) = now_ns;
    }

    /// Forgets latencies, and nothing else.
    pub fn clear_latencies(&self) {
        self.hosts().clear_latencies();
        self.devices().0.clear_latencies();
    }

    /// Devices give up what they still wait for.
    pub fn give_up(&self) {
        self.devices().0.idle(self.clock.now_ns() + 20_000_000);
    }

    /// What they have found so far.
    pub fn totals(&self) -> Totals {
        let (hosts, devices) = (self.hosts(), self.devices());
        let channels = devices.0.channels().into_iter();
        Totals {
            down: (hosts.sent().0, devices.0.heard()),
            up: (devices.1.said(), hosts.heard()),
            unordered: devices.0.resequenced().0,
            channels: channels.map(|((group, channel), bytes)| ((group + self.first_group, channel), bytes)).collect(),
            latencies: [devices.0.latencies().clone(), hosts.latencies().clone()],
            excess_sent: hosts.sent_excess().0,
            decided: [hosts.decided(), devices.1.decided()],
        }
    }

    /// Adds what overloaded service flows got so far.
    pub fn add_overload(&self, settings: &CableSettings, sum: &mut Overload) {
        let elapsed_ns = self.clock.now_ns().saturating_sub(*lock(&self.since_ns));
        sum.sent_bytes += self.hosts().sent_excess().1;
        let overloaded: Vec<usize> =
            settings.excess(self.groups).modems.iter().map(|modem| (modem * CLASSES) as usize).collect();
        let seconds = elapsed_ns.max(1) as f64 / 1e9;
        sum.modem_seconds += seconds * overloaded.len() as f64;
        for (n, flow) in self.devices().0.flows().iter().enumerate() {
            let is_overloaded = overloaded.binary_search(&n).is_ok();
            let delays = &mut sum.delays[usize::from(!is_overloaded)];
            *delays = (delays.0 + flow.latency_ns, delays.1 + flow.packets);
            if is_overloaded {
                sum.carried.push((flow.bytes + flow.early_bytes) as f64 / seconds);
            }
        }
    }
}

/// Packets and bytes counted so far, and how many more since the last look.
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
    /// Bytes upstream for each byte downstream; none: as much as can be.
    upstream: Option<f64>,
    /// Packets of a second, of all that are asked for.
    part: (u64, u64),
    /// Packets upstream on their way at most, beside one of each modem, and packets of UEPI at a time.
    at_most: u64,
    burst: u64,
    progress: Progress,
    /// Times they were asked to end streams, and packets with the ends that are still to be sent.
    endings: u64,
    ending: u64,
    settled_ns: u64,
    right: Right,
    /// Packets and bytes made so far.
    made: Right,
    /// Packets that had been made when the load began.
    begun_with: u64,
}

impl Devices {
    /// Those of `ends`, behind such a port, with so many packets at most on their way at a time.
    pub fn new(settings: &CableSettings, ends: &Ends, caps: Caps, at_most: Option<u64>) -> Self {
        Self {
            ends: ends.clone(),
            caps,
            clock: ends.clock.clone(),
            upstream: settings.downstream.then_some(settings.upstream),
            part: parts(settings)[1],
            at_most: at_most.unwrap_or(UPSTREAM_ON_THEIR_WAY),
            burst: if at_most.is_some() { BURSTS } else { BURST as u64 },
            progress: Progress::new(),
            endings: 0,
            ending: 0,
            settled_ns: 0,
            right: Right::default(),
            made: Right::default(),
            begun_with: 0,
        }
    }

    /// Packets of UEPI that are due.
    fn owed(&mut self, shared: &Shared, clock: &Clock) -> u64 {
        if shared.since().is_none() || !self.has_room() {
            return 0;
        }
        let most = self.burst;
        match self.upstream {
            Some(ratio) => {
                let behind = self.ends.behind(ratio);
                if behind > 0.0 { ((behind / UEPI_BYTES) as u64 + 1).min(most) } else { 0 }
            }
            // A packet of UEPI has some of a modem's: as many are made as are due.
            None => {
                let made = self.ends.devices().1.said().packets.saturating_sub(self.begun_with);
                shared.due(made, self.part, clock).map_or(most, |due| due.min(most))
            }
        }
    }

    fn has_room(&mut self) -> bool {
        let (sent, heard) = (self.ends.devices().1.said().packets, self.ends.hosts().heard());
        let arrived = heard.in_order + heard.reordered + heard.duplicated;
        self.progress.on_their_way(sent, arrived) <= self.at_most + self.ends.modems
    }
}

impl End for Devices {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }

    fn restart(&mut self) {
        self.begun_with = self.ends.devices().1.said().packets;
        self.progress = Progress::new();
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
        let due = match self.owed(shared, clock) {
            0 => self.ending.min(BURSTS),
            owed => owed,
        };
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

    fn carried(&mut self) -> Option<(u64, u64)> {
        let said = self.ends.devices().1.said();
        Some(self.made.since((said.packets, said.bytes)))
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

/// Packets downstream and upstream of all packets, as a part each.
fn parts(settings: &CableSettings) -> [(u64, u64); 2] {
    let [down, up] = settings.mixes().map(|mix| mix.mean());
    if !settings.downstream {
        return [(0, 1), (1, 1)];
    }
    // Packets upstream for ten thousand downstream.
    let up = (settings.upstream * down / up * 1e4) as u64;
    [(10_000, 10_000 + up), (up, 10_000 + up)]
}

/// Hosts beyond the network side.
pub struct Network {
    ends: Ends,
    caps: Caps,
    clock: Clock,
    /// Bits a second offered at most; 0: nothing.
    most: f64,
    /// Bytes upstream for each byte downstream.
    upstream: f64,
    /// Packets of a second, of all that are asked for.
    part: (u64, u64),
    /// Packets on their way to the devices at most.
    at_most: Option<u64>,
    /// Bytes downstream that had been made when the load began.
    begun_with: f64,
    progress: Progress,
    right: Right,
}

impl Network {
    /// That of `ends`, behind such a port, with so many packets at most on their way at a time.
    pub fn new(settings: &CableSettings, ends: &Ends, caps: Caps, at_most: Option<u64>) -> Self {
        let capacity = settings.channels.capacity() * f64::from(ends.groups) * OFFERED;
        Self {
            ends: ends.clone(),
            caps,
            clock: ends.clock.clone(),
            most: if settings.downstream { capacity } else { 0.0 },
            upstream: settings.upstream,
            part: parts(settings)[0],
            at_most,
            begun_with: 0.0,
            progress: Progress::new(),
            right: Right::default(),
        }
    }

    /// Packets to overloaded modems wait long and may be dropped: they are paced by the clock, and are not counted
    /// here.
    fn has_room(&mut self) -> bool {
        let Some(most) = self.at_most else { return true };
        let (hosts, heard) = (self.ends.hosts(), self.ends.devices().0.heard());
        let (sent, excess) = (hosts.sent().0, hosts.sent_excess().0);
        drop(hosts);
        let arrived = (heard.in_order + heard.reordered + heard.duplicated).saturating_sub(heard.excess);
        self.progress.on_their_way(sent - excess, arrived) + BURST as u64 <= most
    }
}

impl End for Network {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }

    fn restart(&mut self) {
        self.begun_with = self.ends.made();
        self.progress = Progress::new();
    }

    fn due(&mut self, shared: &Shared, given: u64, clock: &Clock) -> u64 {
        let Some(since) = shared.since().filter(|_| self.most > 0.0) else { return 0 };
        let carried = self.most * clock.now_ns().saturating_sub(since) as f64 / 1e9;
        let made = (self.ends.made() - self.begun_with) * 8.0;
        if made > carried || !self.has_room() || self.ends.behind(self.upstream) > BEHIND {
            return 0;
        }
        shared.due(given, self.part, clock).map_or(BURST as u64, |due| due.min(BURST as u64))
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
