//! What is told: names and units as Prometheus users expect them. Labels are bounded by the program and its
//! configuration: workers, ports, stages, reasons. Nothing has a subscriber's or a peer's name on it.

use engine::Io;

use super::text::Kind::{Counter, Gauge};
use super::text::{Family, Page};
use crate::headroom::Alarm;
use crate::snapshot::{Snapshot, WorkerCounters};
use crate::socket::PortView;

/// Everything that is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Counters of workers and packet memory.
    pub snapshot: Snapshot,
    /// The ports of all workers.
    pub ports: Vec<PortView>,
    /// The families that only this gateway has.
    pub own: Page,
    /// How much of what only this gateway has is used, 0 to 1, such as its room for sessions.
    pub used: f64,
    /// How busy each worker is.
    pub utilisation: Vec<f64>,
    /// No new sessions are taken.
    pub draining: bool,
    /// What keeps it from taking traffic.
    pub unready: Vec<String>,
    /// When the process began, in seconds since 1970.
    pub started: f64,
}

impl Known {
    /// The one number that says how much of the gateway is used: the busiest worker's time, or what only this gateway has,
    /// whichever is nearer to its end. 1 is full.
    pub fn load(&self) -> f64 {
        self.utilisation.iter().copied().fold(self.used, f64::max)
    }
}

/// The page of all families.
pub fn page(known: &Known) -> String {
    let mut page = Page::default();
    process(&mut page, known);
    ports(&mut page, &known.ports);
    workers(&mut page, known);
    memory(&mut page, &known.snapshot);
    headroom(&mut page, &known.snapshot);
    page.append(&known.own);
    page.into_text()
}

fn process(page: &mut Page, known: &Known) {
    let snapshot = &known.snapshot;
    page.family("weir_build_info", Gauge, "Always 1; which gateway of which version this is.")
        .sample(&[("gateway", &snapshot.gateway), ("version", &snapshot.version)], 1);
    page.one("process_start_time_seconds", Gauge, "When the process began, since 1970.", known.started);
    if let Some(resident) = resident_bytes() {
        page.one("process_resident_memory_bytes", Gauge, "Memory of the process that is resident.", resident);
    }
    let ready = u8::from(known.unready.is_empty());
    page.one("weir_ready", Gauge, "1 when it takes traffic, as /readyz says; 0 otherwise.", ready);
    let help = "1 while no new sessions are taken, before it is removed.";
    page.one("weir_draining", Gauge, help, u8::from(known.draining));
    let help = "How much of it is used, 0 to 1: the busiest worker's utilisation, or sessions of those there may be, \
                whichever is more. Scale by this.";
    page.one("weir_load_ratio", Gauge, help, known.load());
}

fn headroom(page: &mut Page, snapshot: &Snapshot) {
    let help = "Of the rate in the capacity certificate, what is not offered, 0 to 1; none without [certificate].";
    let mut family = page.family("weir_headroom_ratio", Gauge, help);
    if let Some(view) = &snapshot.headroom {
        family.sample(&[], view.headroom_ratio);
    }
    let help = "1 while the gateway does not do what its capacity certificate says, by reason.";
    let mut family = page.family("weir_certificate_alarm", Gauge, help);
    for alarm in snapshot.headroom.iter().flat_map(|view| Alarm::ALL.map(|alarm| (alarm, view))) {
        let is_raised = u8::from(alarm.1.alarms.contains(&alarm.0));
        family.sample(&[("reason", alarm.0.word())], is_raised);
    }
}

/// Resident pages of this process, in bytes.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn ports(page: &mut Page, ports: &[PortView]) {
    let mut each = |name: &str, kind, help: &str, key: &str| {
        let mut family = page.family(name, kind, help);
        for port in ports {
            let value = port.counters.iter().find(|(name, _)| name == key).map_or(0, |(_, value)| *value);
            family.sample(&at(port, &port.worker.to_string()), value);
        }
    };
    each("weir_port_receive_packets_total", Counter, "Packets received by a port.", "rx_packets");
    each("weir_port_receive_bytes_total", Counter, "Bytes of received packets.", "rx_bytes");
    each("weir_port_transmit_packets_total", Counter, "Packets the kernel or device took for sending.", "tx_packets");
    each("weir_port_transmit_bytes_total", Counter, "Bytes of sent packets.", "tx_bytes");
    each("weir_port_link_losses_total", Counter, "Times the link went down or the interface away.", "link_losses");
    each("weir_port_system_calls_total", Counter, "System calls made for packets.", "syscalls");
    let mut family =
        page.family("weir_port_lost_packets_total", Counter, "Packets a port lost or had to refuse, by reason.");
    for port in ports {
        let worker = port.worker.to_string();
        let [name, role, number] = at(port, &worker);
        for (reason, value) in port.losses() {
            family.sample(&[name, role, number, ("reason", reason)], value);
        }
    }
    let mut family = page.family("weir_port_up", Gauge, "1 when the link of a port is up.");
    for port in ports {
        family.sample(&at(port, &port.worker.to_string()), u8::from(port.link == "up"));
    }
}

fn at<'a>(port: &'a PortView, worker: &'a str) -> [(&'a str, &'a str); 3] {
    [("port", &port.name), ("role", &port.role), ("worker", worker)]
}

/// A family with a sample for each worker.
fn of_workers(family: &mut Family<'_>, snapshot: &Snapshot, value: impl Fn(&WorkerCounters) -> u64) {
    for worker in &snapshot.workers {
        family.sample(&[("worker", &worker.worker.to_string())], value(worker));
    }
}

fn workers(page: &mut Page, known: &Known) {
    let snapshot = &known.snapshot;
    let mut family = page.family(
        "weir_worker_utilisation_ratio",
        Gauge,
        "Share of the last seconds in which a worker moved packets, 0 to 1.",
    );
    for (worker, share) in snapshot.workers.iter().zip(&known.utilisation) {
        family.sample(&[("worker", &worker.worker.to_string())], *share);
    }
    let mut family = page.family("weir_worker_seconds_total", Counter, "Time of a worker by what it was spent on.");
    for worker in &snapshot.workers {
        for (activity, io) in SPENT {
            let seconds = worker.io(io) as f64 / snapshot.tsc_hz.max(1.0);
            family.sample(&[("worker", &worker.worker.to_string()), ("activity", activity)], seconds);
        }
    }
    for (name, help, io) in WORKER {
        of_workers(&mut page.family(name, Counter, help), snapshot, |worker| worker.io(io));
    }
    let help = "Packets dropped, all stages and reasons together.";
    let mut family = page.family("weir_worker_drops_packets_total", Counter, help);
    of_workers(&mut family, snapshot, WorkerCounters::dropped);
    drops(page, snapshot);
    stages(page, snapshot);
    let help = "Packets that wait for a paged subscriber or a neighbour's address.";
    of_workers(&mut page.family("weir_held_packets", Gauge, help), snapshot, |worker| worker.io(Io::Held));
}

/// What a worker's time goes to. Time asleep is the rest.
const SPENT: [(&str, Io); 5] = [
    ("receive", Io::RxCycles),
    ("pipelines", Io::PipelineCycles),
    ("transmit", Io::TxCycles),
    ("other", Io::OtherCycles),
    ("idle", Io::IdleCycles),
];

const WORKER: [(&str, &str, Io); 8] = [
    ("weir_worker_originated_packets_total", "Packets of our own making: replies, errors, fragments.", Io::Originated),
    ("weir_worker_handoff_sent_packets_total", "Packets sent to the worker that owns their subscriber.", Io::HandedOut),
    ("weir_worker_handoff_received_packets_total", "Packets received from other workers.", Io::HandedIn),
    // For one release.
    ("weir_worker_handed_out_packets_total", "Former name of weir_worker_handoff_sent_packets_total.", Io::HandedOut),
    ("weir_worker_handed_in_packets_total", "Former name of weir_worker_handoff_received_packets_total.", Io::HandedIn),
    ("weir_worker_sleeps_total", "Times a worker slept because nothing came.", Io::Sleeps),
    ("weir_worker_panics_total", "Bursts lost to a panic.", Io::Panics),
    ("weir_worker_allocations_total", "Heap allocations made by a worker in its loop.", Io::Allocations),
];

/// Drops and answers by name; those that never happened are not there.
fn drops(page: &mut Page, snapshot: &Snapshot) {
    let mut each = |name: &str, help: &str, value: fn(&crate::snapshot::DropCounters) -> u64| {
        let mut family = page.family(name, Counter, help);
        for worker in &snapshot.workers {
            let number = worker.worker.to_string();
            for drop in &worker.drops {
                let labels = [("worker", number.as_str()), ("stage", &drop.stage), ("reason", &drop.reason)];
                family.sample(&labels, value(drop));
            }
        }
    };
    each("weir_drops_packets_total", "Packets dropped, by stage and reason.", |drop| drop.packets);
    each("weir_drops_bytes_total", "Bytes of dropped packets, by stage and reason.", |drop| drop.bytes);
    let help = "Packets that were answered or held instead of forwarded, by reason.";
    let former = "Former name of weir_punted_packets_total.";
    for (name, help) in [("weir_punted_packets_total", help), ("weir_consumed_packets_total", former)] {
        let mut family = page.family(name, Counter, help);
        for worker in &snapshot.workers {
            let number = worker.worker.to_string();
            for punt in &worker.punted {
                family.sample(&[("worker", &number), ("reason", &punt.reason)], punt.packets);
            }
        }
    }
}

fn stages(page: &mut Page, snapshot: &Snapshot) {
    let mut each = |name: &str, help: &str, value: &dyn Fn(&crate::snapshot::StageCounters) -> String| {
        let mut family = page.family(name, Counter, help);
        for worker in &snapshot.workers {
            let number = worker.worker.to_string();
            for stage in worker.stages.iter().filter(|stage| stage.packets > 0) {
                let labels = [("worker", number.as_str()), ("pipeline", &stage.pipeline), ("stage", &stage.name)];
                family.sample(&labels, value(stage));
            }
        }
    };
    each("weir_stage_packets_total", "Packets that reached a stage.", &|stage| stage.packets.to_string());
    let hz = snapshot.tsc_hz.max(1.0);
    each("weir_stage_seconds_total", "Time spent in a stage.", &|stage| (stage.cycles as f64 / hz).to_string());
}

fn memory(page: &mut Page, snapshot: &Snapshot) {
    let frames = &snapshot.frames;
    let (help, former) = ("Packet buffers by where they are.", "Former name of weir_packet_buffers.");
    for (name, help) in [("weir_packet_buffers", help), ("weir_frame_slots", former)] {
        let mut family = page.family(name, Gauge, help);
        family.sample(&[("place", "depot"), ("worker", "")], frames.depot);
        for worker in &snapshot.workers {
            let number = worker.worker.to_string();
            for (place, io) in [("pool", Io::FreeSlots), ("ports", Io::PortSlots)] {
                family.sample(&[("place", place), ("worker", &number)], worker.io(io));
            }
        }
    }
    page.one("weir_packet_buffers_limit", Gauge, "Packet buffers there are.", frames.slots);
    page.one("weir_frame_slots_limit", Gauge, "Former name of weir_packet_buffers_limit.", frames.slots);
    page.one("weir_frame_memory_bytes", Gauge, "Packet memory.", frames.bytes);
}
