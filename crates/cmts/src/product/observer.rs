//! What `weir show` and `weir cmts` see and ask of a running cable gateway.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use crate::config::ModemEntry;
use crate::control::{Control, Refusal};
use crate::gateway::CableGateway;
use crate::hand_over::LAYOUT;
use crate::report::Report;
use crypto::{Cipher, Key};
use dataplane::forward::Neighbourhood;
use engine::PortId;
use wire::Mac;

use super::metrics::{CableKnown, ServiceFlows, told};
use super::protocol::{
    CableReply, CableRequest, ChannelView, ChannelsView, FlowView, KeyView, ModemView, Reply, Request,
};
use super::service;
use gateway::connected::Connected;
use gateway::host_routing::ServedPrefix;
use gateway::metrics::{Known, Page};
use gateway::shell::rest::Wait;
use gateway::shell::{HandOver, Product, Shell};
use gateway::socket::{Ask, RawAnswer, RawRequest};

/// The control side of a running cable gateway.
pub struct Observer {
    shell: Shell,
    control: Mutex<Control>,
    /// One report at a time.
    pub(super) reporting: Mutex<()>,
    /// A standby imports state from this process.
    pub(super) standby_connected: AtomicBool,
    /// It is to go on.
    leaving: AtomicBool,
    /// Modems that have changed and are still to be exported to a process that takes over.
    left: Mutex<usize>,
}

/// A worker answers in its next turn; a stopped one never.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

impl Observer {
    /// Over the reading ends of its workers.
    pub fn new(shell: Shell, control: Control) -> Self {
        Self {
            shell,
            control: Mutex::new(control),
            reporting: Mutex::new(()),
            standby_connected: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            left: Mutex::new(0),
        }
    }

    /// See the field.
    pub(super) fn left(&self) -> MutexGuard<'_, usize> {
        self.left.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Control, for a moment.
    pub fn control(&self) -> MutexGuard<'_, Control> {
        self.shell.lock(&self.control)
    }

    /// Control, if it is not locked.
    pub(crate) fn try_control(&self) -> Option<MutexGuard<'_, Control>> {
        match self.control.try_lock() {
            Ok(control) => Some(control),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
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
                control.poll(self.shell.now_ns());
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
        let looks =
            matches!(request, CableRequest::Modems | CableRequest::ServiceFlows { .. } | CableRequest::Channels);
        if !looks && self.control().is_taken_over() {
            return Err("another process takes over: ask it in a moment".to_owned());
        }
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
                Ok(CableReply::Channels(ChannelsView { seconds: self.shell.seconds(), ..view }))
            }
            CableRequest::Add { service_group, pattern } => {
                let entry: ModemEntry = toml::from_str(pattern).map_err(|error| error.message().to_owned())?;
                let added = self.control().add_modems(service_group, &entry).map_err(said)?;
                done(format!("{} added to {service_group}", gateway::tables::many(added.len(), "modem")))
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
                if !self.standby_connected.load(Ordering::Relaxed) {
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

impl Product for Observer {
    type Plane = CableGateway;
    const STATE_LAYOUT: u64 = LAYOUT;

    fn hand_over(&self) -> Option<&dyn HandOver<CableGateway>> {
        Some(self)
    }

    fn shell(&self) -> &Shell {
        &self.shell
    }

    fn turn(&self) {
        self.control().poll(self.shell.now_ns());
    }

    fn wait(&self, since: Duration) -> Wait {
        let mut control = self.control();
        self.shell.wait(since, control.took_events(), control.has_news(), [control.next_deadline(), None])
    }

    fn publish_tables(&self) {
        self.control().publish_tables();
    }

    fn with_neighbourhood(&self, see: &mut dyn FnMut(&mut Neighbourhood)) {
        see(self.control().neighbourhood());
    }

    fn send(&self, frames: Vec<(PortId, Vec<u8>)>) {
        self.control().send_frames(frames);
    }

    fn instances(&self) -> Vec<String> {
        self.control().config().links().instances
    }

    fn served(&self) -> Vec<ServedPrefix> {
        self.control().served()
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    fn answer(&self, asked: &RawRequest) -> Option<RawAnswer> {
        Request::answered(asked, |Request::Cable(request)| {
            let answer = self.cable(&request);
            // Much of what is asked for changes control.
            self.shell.call_control();
            answer.map(Reply::Cable)
        })
    }

    fn connected(&self) -> Option<&dyn Connected> {
        Some(self)
    }

    fn known(&self) -> Known {
        let cable = self.reports(|control, reports| CableKnown {
            modems: modems_of_groups(control),
            flows: waiting(control, reports),
            channels: channels(control, reports),
            standby: self.standby_connected.load(Ordering::Relaxed),
        });
        Known { own: cable.map_or_else(|_| Page::default(), |known| told(&known)), ..Known::default() }
    }

    fn hindrances(&self) -> Vec<String> {
        self.is_leaving().then(|| "the standby takes over".to_owned()).into_iter().collect()
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
            key: named
                .spec
                .security
                .as_ref()
                .map(|security| KeyView { said: security.said, sequence: security.active }),
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
        let flows = found.entry((group, spec.qos.priority)).or_insert_with(|| ServiceFlows {
            service_group: control.config().service_group[usize::from(group)].name.clone(),
            priority: spec.qos.priority,
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
            rate: spec.qos.sustained,
            burst: spec.qos.burst,
            peak: spec.qos.peak,
            reserved: spec.qos.reserved,
            priority: spec.qos.priority,
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
    let channel = |(n, plan): (usize, &crate::config::ChannelPlan)| {
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
    ChannelsView {
        seconds: 0.0,
        channels: control.channels().iter().enumerate().map(channel).collect(),
        counters: counters(reports).into_iter().map(|(id, n, help)| (id.to_owned(), n, help.to_owned())).collect(),
    }
}

/// Counters of all channels and workers together: name, value, what it counts.
fn counters(reports: &[&Report]) -> impl IntoIterator<Item = (&'static str, u64, &'static str)> {
    let sum = |of: &dyn Fn(&Report) -> u64| reports.iter().map(|report| of(report)).sum::<u64>();
    let flows = |of: &dyn Fn(&dataplane::hqos::FlowCounts) -> u64| {
        sum(&|report| report.flows.iter().map(|row| of(&row.counts)).sum())
    };
    let grants = |of: &dyn Fn(&crate::grants::GrantCounts) -> u64| sum(&|report| report.grants.iter().map(of).sum());
    [
        (
            "modem_lookup_matched",
            sum(&|r| r.counts.lookup_matched),
            "Packets from the network for a host behind a modem.",
        ),
        (
            "modem_lookup_unmatched",
            sum(&|r| r.counts.lookup_unmatched),
            "Packets from the network for no host behind a modem.",
        ),
        (
            "filter_downstream_permitted",
            sum(&|r| r.counts.filter_permit[0]),
            "Packets to modems that a filter permitted.",
        ),
        ("filter_downstream_denied", sum(&|r| r.counts.filter_deny[0]), "Packets to modems that a filter denied."),
        (
            "filter_downstream_unmatched",
            sum(&|r| r.counts.filter_unmatched[0]),
            "Packets to modems that no filter matched.",
        ),
        (
            "filter_upstream_permitted",
            sum(&|r| r.counts.filter_permit[1]),
            "Packets from modems that a filter permitted.",
        ),
        ("filter_upstream_denied", sum(&|r| r.counts.filter_deny[1]), "Packets from modems that a filter denied."),
        (
            "filter_upstream_unmatched",
            sum(&|r| r.counts.filter_unmatched[1]),
            "Packets from modems that no filter matched.",
        ),
        ("classifier_ipv4", sum(&|r| r.counts.classified_ipv4), "IPv4 packets that a classifier matched."),
        ("classifier_icmp", sum(&|r| r.counts.classified_icmp), "ICMP packets that a classifier matched."),
        ("classifier_llc", sum(&|r| r.counts.classified_llc), "Frames that a classifier matched by their link header."),
        ("classifier_unmatched", sum(&|r| r.counts.unclassified), "Packets that no classifier matched."),
        (
            "scheduler_drops_queue_full",
            flows(&|counts| counts.full),
            "Packets dropped as the queue of their service flow was full.",
        ),
        (
            "scheduler_drops_queue_management",
            flows(&|counts| counts.aqm),
            "Packets dropped by active queue management (DOCSIS-PIE).",
        ),
        ("uepi_packets", sum(&|r| r.units.packets), "UEPI packets received."),
        ("uepi_packets_lost", sum(&|r| r.units.packets_lost), "UEPI packets missing in their sequence."),
        ("bursts", sum(&|r| r.units.bursts), "Upstream bursts received."),
        ("grants_without_a_burst", sum(&|r| r.units.no_bursts), "Grants in which no burst was received."),
        ("codewords_not_corrected", sum(&|r| r.units.uncorrected), "Codewords that FEC could not correct."),
        ("upstream_segments", sum(&|r| r.clusters.segments), "Upstream segments received."),
        ("upstream_segments_lost", sum(&|r| r.clusters.segments_lost), "Upstream segments missing in their sequence."),
        ("upstream_frames", sum(&|r| r.clusters.frames), "Upstream DOCSIS frames received."),
        ("mac_management_messages", sum(&|r| r.clusters.management), "MAC management messages received."),
        ("bandwidth_requests", grants(&|g| g.requests), "Bandwidth requests received."),
        ("bytes_requested", grants(&|g| g.requested_bytes), "Bytes that modems requested."),
        ("grants", grants(&|g| g.grants), "Grants given."),
        ("bytes_granted", grants(&|g| g.granted_bytes), "Bytes granted."),
        ("bytes_used", grants(&|g| g.used_bytes), "Bytes of grants that were used."),
    ]
}
