//! What `weir show` and `weir cmts` see and ask of a running cable gateway.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use cmts::config::{ModemEntry, Role};
use cmts::control::{Control, Refusal};
use cmts::report::Report;
use crypto::{Cipher, Key};
use engine::{Io, StatsView, Time, TracerHandle, Tsc};
use frame::Arena;
use table::hint::tsc_hz;
use table::waker::Waker;
use upf::n4::metering::WallClock;
use wire::Mac;

use super::service;
use crate::addresses::{self, Addresses};
use crate::followed::Followed;
use crate::metrics::{CableKnown, Known, Monitored, ServiceFlows};
use crate::observer::{counters, memory, port_view, wall_clock};
use crate::rest::ControlWaker;
use crate::snapshot::Snapshot;
use crate::socket::{
    Answers, CableReply, CableRequest, ChannelView, ChannelsView, FlowView, ModemView, PortView, Reply, Request,
};
use crate::watch::Vitals;
use crate::watched::{Glass, Seen};

/// The reading ends of one worker.
pub struct Ends {
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Its counters.
    pub stats: StatsView,
    /// Its trace.
    pub tracer: TracerHandle,
    /// Its ports.
    pub glasses: Vec<Glass>,
    /// Its thread, as the kernel numbers them; 0 before it has begun.
    pub thread: Arc<AtomicI32>,
    /// Wakes it.
    pub waker: Waker,
}

impl Ends {
    /// Asks for a fresh look at its ports. Does not wait.
    pub fn ask_ports(&self) {
        self.glasses.iter().for_each(Glass::ask);
        self.waker.nudge();
    }
}

/// The reading ends of a process.
pub struct Observer {
    control: Mutex<Control>,
    pub(crate) ends: Vec<Ends>,
    pub(crate) arena: Arc<Arena>,
    time: Time,
    start_ns: u64,
    followed: Followed,
    /// One report at a time.
    reporting: Mutex<()>,
    /// A standby is told what it would need.
    pub(super) heir: AtomicBool,
    /// It is to go on.
    pub(crate) leaving: AtomicBool,
    vitals: Arc<Vitals>,
    addresses: Addresses,
    waker: ControlWaker,
}

/// A worker answers in its next turn; a stopped one never.
const PATIENCE: Duration = Duration::from_millis(500);

impl Observer {
    /// Over those ends; the workers' clock is `time`, and `waker` calls the control thread.
    pub fn new(control: Control, ends: Vec<Ends>, arena: Arc<Arena>, time: Time, waker: ControlWaker) -> Self {
        let WallClock { now: start_ns, epoch_ns } = wall_clock(&time);
        let followed = Followed::new(ends.iter().map(|ends| ends.tracer.clone()).collect(), epoch_ns);
        Self {
            control: Mutex::new(control),
            ends,
            arena,
            time,
            start_ns,
            followed,
            reporting: Mutex::new(()),
            heir: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            vitals: Arc::default(),
            addresses: Addresses::default(),
            waker,
        }
    }

    /// The workers' time, now.
    pub fn now_ns(&self) -> u64 {
        self.time.now_ns(<Tsc as engine::Clock>::cycles())
    }

    /// Control, for a moment.
    pub fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What probes are answered from.
    pub fn vitals(&self) -> &Arc<Vitals> {
        &self.vitals
    }

    /// Control, if nobody has it.
    pub fn try_control(&self) -> Option<MutexGuard<'_, Control>> {
        match self.control.try_lock() {
            Ok(control) => Some(control),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The workers' threads, once all have begun.
    pub fn threads(&self) -> Option<Vec<i32>> {
        let thread = |ends: &Ends| Some(ends.thread.load(Ordering::Acquire)).filter(|thread| *thread != 0);
        self.ends.iter().map(thread).collect()
    }

    /// Turns that each worker has made. One that sleeps is woken, so that it makes one before it is asked again.
    pub fn turns(&self) -> Vec<u64> {
        self.ends.iter().for_each(|ends| ends.waker.nudge());
        self.ends.iter().map(|ends| ends.stats.io(Io::Turns)).collect()
    }

    fn seconds(&self) -> f64 {
        self.now_ns().saturating_sub(self.start_ns) as f64 / 1e9
    }

    /// All counters.
    pub fn snapshot(&self) -> Snapshot {
        let ends = self.ends.iter().enumerate();
        Snapshot {
            gateway: "cmts".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime: self.seconds(),
            seconds: self.seconds(),
            tsc_hz: tsc_hz() as f64,
            workers: ends.map(|(n, ends)| counters(n as u16, ends.cpu, &ends.stats)).collect(),
            frames: memory(&self.arena),
        }
    }

    /// The ports of all workers, freshly looked at.
    pub fn ports(&self) -> Vec<PortView> {
        self.ends.iter().for_each(Ends::ask_ports);
        let views = self.port_views(Glass::look);
        // Interfaces may have other hardware addresses.
        self.waker.call();
        views
    }

    /// The ports of all workers, as `see` sees them.
    pub(crate) fn port_views(&self, see: impl Fn(&Glass) -> Seen) -> Vec<PortView> {
        let control = self.control();
        let entries = &control.config().port;
        let of_worker = |(worker, ends): (usize, &Ends)| {
            let view = |(entry, glass): (&cmts::config::Port, &Glass)| {
                let role = if entry.role == Role::Rpd { "rpd" } else { "network" };
                port_view(&entry.name, role, worker as u16, &see(glass))
            };
            entries.iter().zip(&ends.glasses).map(view).collect::<Vec<_>>()
        };
        self.ends.iter().enumerate().flat_map(of_worker).collect()
    }

    /// When [`follow_addresses`](Self::follow_addresses) has something to look at, if a second from now is too late.
    pub fn next_address(&self) -> Option<u64> {
        self.addresses.next_deadline()
    }

    /// Takes on hardware addresses that interfaces have now. Called every turn of control.
    pub fn follow_addresses(&self) {
        let Some(first) = self.ends.first() else { return };
        for (port, mac) in self.addresses.look(&first.glasses, self.now_ns()) {
            let mut control = self.control();
            if control.set_port_mac(port, mac) {
                addresses::report(control.config().port.get(usize::from(port)).map_or("", |port| &port.name), mac);
            }
        }
    }

    /// What all workers have counted; `see` is shown each report, with control.
    fn reports<T>(&self, see: impl FnOnce(&Control, &[&Report]) -> T) -> Result<T, String> {
        let _one = self.reporting.lock().unwrap_or_else(|e| e.into_inner());
        self.control().ask_reports();
        let until = Instant::now() + PATIENCE;
        loop {
            {
                let mut control = self.control();
                control.poll(self.now_ns());
                let reports: Option<Vec<&Report>> = (0..control.workers()).map(|n| control.report(n)).collect();
                if let Some(reports) = reports {
                    return Ok(see(&control, &reports));
                }
            }
            if Instant::now() > until {
                return Err("a worker does not answer".to_owned());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn cable(&self, request: &CableRequest) -> Result<CableReply, String> {
        let said = |refusal: Refusal| refusal.to_string();
        let done = |sentence: String| Ok(CableReply::Done(sentence));
        match request {
            CableRequest::Modems => self.reports(modems).map(CableReply::Modems),
            CableRequest::ServiceFlows { modem } => {
                let modem = modem.as_deref().map(mac).transpose()?;
                if let Some(modem) = modem {
                    self.control().find(modem).map_err(said)?;
                }
                self.reports(|control, reports| flows(control, reports, modem)).map(CableReply::ServiceFlows)
            }
            CableRequest::Channels => {
                let view = self.reports(channels)?;
                Ok(CableReply::Channels(ChannelsView { seconds: self.seconds(), ..view }))
            }
            CableRequest::Add { service_group, pattern } => {
                let entry: ModemEntry = toml::from_str(pattern).map_err(|error| error.message().to_owned())?;
                let added = self.control().add_modems(service_group, &entry).map_err(said)?;
                done(format!("{} added to {service_group}", crate::tables::many(added.len(), "modem")))
            }
            CableRequest::Remove { modem } => {
                self.control().remove_modem(mac(modem)?).map_err(said)?;
                done(format!("modem {modem} removed"))
            }
            CableRequest::AddFlow { .. }
            | CableRequest::ChangeFlow { .. }
            | CableRequest::RemoveFlow { .. }
            | CableRequest::Classifiers { .. }
            | CableRequest::AddClassifier { .. }
            | CableRequest::RemoveClassifier { .. }
            | CableRequest::SetFilters { .. } => service::answer(&mut self.control(), request),
            CableRequest::TakeOver => {
                if !self.heir.load(Ordering::Relaxed) {
                    return Err("no standby is there to take over".to_owned());
                }
                self.leaving.store(true, Ordering::Relaxed);
                done("the standby takes over".to_owned())
            }
            CableRequest::SetKey { modem, sequence, key, iv } => {
                let key = hex(key).zip(hex(iv)).and_then(|(key, iv)| Key::new(Cipher::Aes128, &key, &iv));
                let key = key.ok_or("key and initialization vector are 32 hexadecimal digits each")?;
                self.control().set_key(mac(modem)?, *sequence, &key).map_err(said)?;
                done(format!("modem {modem} has key {sequence}; `weir cmts key use` sends by it"))
            }
            CableRequest::UseKey { modem, sequence } => {
                self.control().use_key(mac(modem)?, *sequence).map_err(said)?;
                done(format!("frames to modem {modem} are encrypted by key {sequence}"))
            }
        }
    }
}

impl Monitored for Observer {
    fn snapshot(&self) -> Snapshot {
        Observer::snapshot(self)
    }

    fn known(&self) -> Known {
        let ports = self.ports();
        let cable = self.reports(|control, reports| CableKnown {
            modems: modems_of_groups(control),
            flows: waiting(control, reports),
            channels: channels(control, reports),
            standby: self.heir.load(Ordering::Relaxed),
        });
        Known { ports, cable: cable.ok(), snapshot: Observer::snapshot(self), ..Known::default() }
    }

    fn vitals(&self) -> &Arc<Vitals> {
        Observer::vitals(self)
    }
}

impl Answers for Observer {
    fn answer(&self, connection: u64, request: &Request) -> Reply {
        match request {
            Request::Counters => Reply::Counters(self.snapshot()),
            Request::Ports => Reply::Ports(self.ports()),
            Request::Trace { ue, packets } => {
                self.followed.start(connection, *ue, *packets).map_or_else(Reply::Error, Reply::Trace)
            }
            Request::Log(request) => crate::log::answer(request).map_or_else(Reply::Error, Reply::Log),
            Request::Process => crate::privilege::answer().map_or_else(Reply::Error, Reply::Process),
            Request::Traced => Reply::Trace(self.followed.take()),
            Request::Cable(request) => {
                let answer = self.cable(request);
                // Much of what is asked for changes control.
                self.waker.call();
                answer.map_or_else(Reply::Error, Reply::Cable)
            }
            _ => Reply::Error("this gateway is a cable gateway: it has modems, and no sessions".to_owned()),
        }
    }

    fn hung_up(&self, connection: u64) {
        self.followed.hung_up(connection);
    }
}

pub(super) fn mac(text: &str) -> Result<Mac, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no hardware address; such as 02:00:00:00:00:01"))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.is_ascii() && text.len().is_multiple_of(2);
    let byte = |n: usize| u8::from_str_radix(text.get(n * 2..n * 2 + 2)?, 16).ok();
    if digits { (0..text.len() / 2).map(byte).collect() } else { None }
}

fn modems(control: &Control, reports: &[&Report]) -> Vec<ModemView> {
    let mut views: std::collections::BTreeMap<u32, ModemView> = std::collections::BTreeMap::new();
    for row in reports.iter().flat_map(|report| &report.modems) {
        let Some(named) = control.modem(row.modem) else { continue };
        let view = views.entry(row.modem).or_insert_with(|| ModemView {
            modem: named.mac.to_string(),
            service_group: control.config().service_group[usize::from(row.service_group)].name.clone(),
            profile: control.config().profile[named.profile].name.clone(),
            hosts: named.spec.hosts.iter().map(|(address, _)| *address).collect(),
            sids: named.spec.clusters.iter().flat_map(|cluster| cluster.sids.clone()).collect(),
            key: named.spec.security.as_ref().map(|security| (security.said, security.active)),
            ..ModemView::default()
        });
        // A service group's directions may have workers of their own.
        view.down_packets += row.packets[0];
        view.down_bytes += row.bytes[0];
        view.up_packets += row.packets[1];
        view.up_bytes += row.bytes[1];
    }
    views.into_values().collect()
}

/// Modems of each service group.
fn modems_of_groups(control: &Control) -> Vec<(String, u64)> {
    let mut groups: Vec<_> = control.config().service_group.iter().map(|group| (group.name.clone(), 0)).collect();
    for modem in control.all() {
        groups[usize::from(modem.spec.service_group)].1 += 1;
    }
    groups
}

/// Service flows and what waits in them, by service group and traffic priority.
fn waiting(control: &Control, reports: &[&Report]) -> Vec<ServiceFlows> {
    let mut found: std::collections::BTreeMap<(u16, u8), ServiceFlows> = std::collections::BTreeMap::new();
    for row in reports.iter().flat_map(|report| &report.flows) {
        let Some(named) = control.modem(row.modem) else { continue };
        let at = row.flow.wrapping_sub(named.spec.first_flow) as usize;
        let Some(Some(spec)) = named.spec.flows.get(at) else { continue };
        let group = named.spec.service_group;
        let flows = found.entry((group, spec.priority)).or_insert_with(|| ServiceFlows {
            service_group: control.config().service_group[usize::from(group)].name.clone(),
            priority: spec.priority,
            ..ServiceFlows::default()
        });
        flows.flows += 1;
        flows.packets += u64::from(row.waiting.0);
        flows.bytes += u64::from(row.waiting.1);
    }
    found.into_values().collect()
}

fn flows(control: &Control, reports: &[&Report], only: Option<Mac>) -> Vec<FlowView> {
    let mut views = Vec::new();
    for row in reports.iter().flat_map(|report| &report.flows) {
        let Some(named) = control.modem(row.modem) else { continue };
        if only.map_or(row.counts.came(row.waiting.0) == 0, |mac| mac != named.mac) {
            continue;
        }
        let at = row.flow.wrapping_sub(named.spec.first_flow) as usize;
        let (Some(Some(spec)), Some(Some(entry))) = (named.spec.flows.get(at), named.flows.get(at)) else { continue };
        views.push(FlowView {
            modem: named.mac.to_string(),
            flow: entry.name.clone(),
            rate: spec.sustained,
            burst: spec.burst,
            peak: spec.peak,
            reserved: spec.reserved,
            priority: spec.priority,
            dsid: spec.dsid,
            packets_in: row.counts.came(row.waiting.0),
            packets: row.counts.packets,
            bits: row.counts.bytes * 8,
            waiting: row.waiting.0,
            waiting_bits: u64::from(row.waiting.1) * 8,
            full: row.counts.full,
            aqm: row.counts.aqm,
            drop_probability: row.probability.into(),
            mean_us: row.counts.waited_ns as f64 / row.counts.packets.max(1) as f64 / 1e3,
            jitter_us: row.counts.jitter_ns() as f64 / row.counts.packets.max(1) as f64 / 1e3,
            longest_us: row.counts.longest_ns() as f64 / 1e3,
        });
    }
    views
}

fn channels(control: &Control, reports: &[&Report]) -> ChannelsView {
    let channel = |(n, plan): (usize, &cmts::config::ChannelPlan)| {
        let mut view = ChannelView {
            service_group: control.config().service_group[usize::from(plan.service_group)].name.clone(),
            channel: plan.name.clone(),
            capacity: plan.capacity,
            session: plan.session,
            ..ChannelView::default()
        };
        // One worker's only; the others have counted nothing.
        for row in reports.iter().filter_map(|report| report.channels.get(n)) {
            view.packets += row.packets;
            view.bits += row.bytes * 8;
            view.selects += row.selects;
            view.depi_packets += row.wire.packets;
            view.depi_full += row.wire.full;
            view.segments.iter_mut().zip(row.wire.segments).for_each(|(sum, n)| *sum += n);
        }
        view.depi_partial = view.depi_packets - view.depi_full;
        view.mean_frame_bytes = view.bits as f64 / 8.0 / view.packets.max(1) as f64;
        view
    };
    let sum = |of: &dyn Fn(&Report) -> u64| reports.iter().map(|report| of(report)).sum::<u64>();
    let flows = |of: &dyn Fn(&cmts::flow::FlowCounts) -> u64| {
        sum(&|report| report.flows.iter().map(|row| of(&row.counts)).sum())
    };
    let grants = |of: &dyn Fn(&cmts::grants::GrantCounts) -> u64| sum(&|report| report.grants.iter().map(of).sum());
    let counters = [
        ("modem lookup: matched", sum(&|r| r.counts.lookup_matched)),
        ("modem lookup: unmatched", sum(&|r| r.counts.lookup_unmatched)),
        ("filter downstream: permitted", sum(&|r| r.counts.filter_permit[0])),
        ("filter downstream: denied", sum(&|r| r.counts.filter_deny[0])),
        ("filter downstream: unmatched", sum(&|r| r.counts.filter_unmatched[0])),
        ("filter upstream: permitted", sum(&|r| r.counts.filter_permit[1])),
        ("filter upstream: denied", sum(&|r| r.counts.filter_deny[1])),
        ("filter upstream: unmatched", sum(&|r| r.counts.filter_unmatched[1])),
        ("classifier: IPv4", sum(&|r| r.counts.classified_ipv4)),
        ("classifier: ICMP", sum(&|r| r.counts.classified_icmp)),
        ("classifier: LLC", sum(&|r| r.counts.classified_llc)),
        ("classifier: unmatched", sum(&|r| r.counts.unclassified)),
        ("scheduler drops: queue full", flows(&|counts| counts.full)),
        ("scheduler drops: queue management", flows(&|counts| counts.aqm)),
        ("UEPI packets", sum(&|r| r.units.packets)),
        ("UEPI packets lost", sum(&|r| r.units.packets_lost)),
        ("bursts", sum(&|r| r.units.bursts)),
        ("grants without a burst", sum(&|r| r.units.no_bursts)),
        ("codewords not corrected", sum(&|r| r.units.uncorrected)),
        ("upstream segments", sum(&|r| r.clusters.segments)),
        ("upstream segments lost", sum(&|r| r.clusters.segments_lost)),
        ("upstream frames", sum(&|r| r.clusters.frames)),
        ("MAC management messages", sum(&|r| r.clusters.management)),
        ("bandwidth requests", grants(&|g| g.requests)),
        ("bytes requested", grants(&|g| g.requested_bytes)),
        ("grants", grants(&|g| g.grants)),
        ("bytes granted", grants(&|g| g.granted_bytes)),
        ("bytes used", grants(&|g| g.used_bytes)),
    ];
    ChannelsView {
        seconds: 0.0,
        channels: control.channels().iter().enumerate().map(channel).collect(),
        counters: counters.into_iter().map(|(name, n)| (name.to_owned(), n)).collect(),
    }
}
