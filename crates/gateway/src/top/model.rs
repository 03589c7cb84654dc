//! Samples in; rates, costs and their history out. Pure: no clock, no I/O.

use engine::Io;
use schemars::JsonSchema;
use serde::Serialize;

use crate::show::drops::{self, DropRow};
use crate::snapshot::{Snapshot, WorkerCounters};
use crate::socket::PortView;

/// Points of history that are kept.
pub const HISTORY: usize = 240;
/// Two samples that are closer together give no rates.
const LEAST_SECONDS: f64 = 0.05;

/// What a gateway has counted, and its ports, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Counters of workers and stages.
    pub snapshot: Snapshot,
    /// Ports of all workers.
    pub ports: Vec<PortView>,
}

/// Rates and costs of a gateway over the time between the last two samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TopView {
    /// The gateway, as in the configuration.
    pub gateway: String,
    /// Version of its program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since its workers started.
    pub uptime_seconds: f64,
    /// Seconds that rates are a mean over; of the first sample all of `uptime_seconds`.
    pub seconds: f64,
    /// Traffic of all workers.
    pub rates: Rates,
    /// Packets that went through the kernel, past the workers; none: there is no such path.
    pub kernel: Option<KernelRates>,
    /// The same rates of earlier samples and of this one, oldest first.
    pub history: History,
    /// What packets cost, in the order of the pipelines; stages without a packet are left out.
    pub stages: Vec<StageCost>,
    /// Drops by stage and reason, highest rate first.
    pub drops: Vec<DropRow>,
    /// Ports, all workers together.
    pub ports: Vec<PortRates>,
    /// Workers.
    pub workers: Vec<WorkerLoad>,
}

/// Traffic of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Rates {
    /// Packets received a second.
    pub rx_packets_per_second: f64,
    /// Bits received a second, layer 2.
    pub rx_bits_per_second: f64,
    /// Packets sent a second.
    pub tx_packets_per_second: f64,
    /// Bits sent a second, layer 2.
    pub tx_bits_per_second: f64,
    /// Packets dropped a second, all reasons.
    pub dropped_packets_per_second: f64,
    /// Share of time that workers were busy with packets, mean of all: 0 to 1.
    pub busy_ratio: f64,
}

/// Packets of known sessions that the kernel forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct KernelRates {
    /// Packets forwarded a second, both directions.
    pub packets_per_second: f64,
    /// Bits of users' packets in them a second.
    pub bits_per_second: f64,
    /// Packets dropped there a second.
    pub dropped_packets_per_second: f64,
}

/// Rates of earlier samples, oldest first; all lists have the same length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct History {
    /// Seconds between each sample and the one before.
    pub seconds: Vec<f64>,
    /// Packets received a second.
    pub rx_packets_per_second: Vec<f64>,
    /// Bits received a second.
    pub rx_bits_per_second: Vec<f64>,
    /// Packets sent a second.
    pub tx_packets_per_second: Vec<f64>,
    /// Bits sent a second.
    pub tx_bits_per_second: Vec<f64>,
    /// Packets dropped a second.
    pub dropped_packets_per_second: Vec<f64>,
    /// Share of time that workers were busy: 0 to 1.
    pub busy_ratio: Vec<f64>,
}

impl History {
    fn push(&mut self, seconds: f64, rates: &Rates) {
        let whole = f64::round;
        let points = [
            (&mut self.seconds, (seconds * 1e3).round() / 1e3),
            (&mut self.rx_packets_per_second, whole(rates.rx_packets_per_second)),
            (&mut self.rx_bits_per_second, whole(rates.rx_bits_per_second)),
            (&mut self.tx_packets_per_second, whole(rates.tx_packets_per_second)),
            (&mut self.tx_bits_per_second, whole(rates.tx_bits_per_second)),
            (&mut self.dropped_packets_per_second, whole(rates.dropped_packets_per_second)),
            (&mut self.busy_ratio, (rates.busy_ratio * 1e4).round() / 1e4),
        ];
        for (list, value) in points {
            list.push(value);
            if list.len() > HISTORY {
                list.remove(0);
            }
        }
    }
}

/// What a stage did, all workers together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct StageCost {
    /// `pipeline.stage`; `receive`, `send` and `other` for the worker's own work around the pipelines.
    pub stage: String,
    /// Packets that reached it a second.
    pub packets_per_second: f64,
    /// Packets of a call, mean.
    pub packets_per_call: f64,
    /// Cycles of the time stamp counter for a packet.
    pub cycles_per_packet: f64,
    /// Nanoseconds for a packet.
    pub ns_per_packet: f64,
    /// Its share of all cycles spent on packets: 0 to 1.
    pub cost_ratio: f64,
}

/// A port, all workers together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PortRates {
    /// What the configuration calls it.
    pub name: String,
    /// Its side of the gateway.
    pub role: String,
    /// Kind and mode.
    pub kind: String,
    /// Interface or file.
    pub interface: String,
    /// `up`, `down` or `gone`; of several workers' the worst.
    pub link: String,
    /// Packets received a second.
    pub rx_packets_per_second: f64,
    /// Bits received a second.
    pub rx_bits_per_second: f64,
    /// Packets sent a second.
    pub tx_packets_per_second: f64,
    /// Bits sent a second.
    pub tx_bits_per_second: f64,
    /// Packets that the port lost a second.
    pub lost_packets_per_second: f64,
    /// Packets that the port lost since the start.
    pub lost_packets: u64,
}

/// A worker's time and traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WorkerLoad {
    /// Its number.
    pub worker: u16,
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// CPU time of its thread, as a share of one CPU: 0 to 1.
    pub cpu_ratio: f64,
    /// Share of time in turns that moved packets: 0 to 1.
    pub busy_ratio: f64,
    /// The rest: waiting for packets or asleep.
    pub idle_ratio: f64,
    /// Packets received a second.
    pub rx_packets_per_second: f64,
    /// Packets sent a second.
    pub tx_packets_per_second: f64,
    /// Packets of a burst received, mean.
    pub packets_per_burst: f64,
    /// Times it slept, a second.
    pub sleeps_per_second: f64,
    /// CPU time for a packet received, in nanoseconds; all work of the thread included.
    pub cpu_ns_per_packet: f64,
}

/// The last sample, what is shown of it, and what was before.
#[derive(Clone, Debug, Default)]
pub struct Model {
    last: Option<Sample>,
    view: Option<TopView>,
}

impl Model {
    /// What is to be shown; none before the first sample.
    pub fn view(&self) -> Option<&TopView> {
        self.view.as_ref()
    }

    /// Takes a sample in. One of another process begins anew; one that comes right behind the last is left out.
    pub fn take(&mut self, sample: Sample) {
        let (now, before) = (&sample.snapshot, self.last.as_ref());
        let before = before.filter(|before| before.snapshot.pid == now.pid && before.snapshot.uptime <= now.uptime);
        if before.is_some_and(|before| now.uptime - before.snapshot.uptime < LEAST_SECONDS) {
            return;
        }
        let history = self.view.take().map(|view| view.history).filter(|_| before.is_some());
        let counted = before.map_or_else(|| now.clone(), |before| now.since(&before.snapshot));
        let mut view = view_of(&counted, &sample, before.map_or(&[], |before| before.ports.as_slice()));
        view.history = history.unwrap_or_default();
        if before.is_some() {
            view.history.push(view.seconds, &view.rates);
        }
        (self.last, self.view) = (Some(sample), Some(view));
    }
}

fn rate(n: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { n as f64 / seconds } else { 0.0 }
}

fn quotient(value: f64, by: f64) -> f64 {
    if by > 0.0 { value / by } else { 0.0 }
}

/// `counted` is what happened since the sample before, `earlier` are the ports of that.
fn view_of(counted: &Snapshot, sample: &Sample, earlier: &[PortView]) -> TopView {
    let seconds = counted.seconds;
    let workers: Vec<WorkerLoad> = counted.workers.iter().map(|worker| load(worker, counted)).collect();
    let kernel = counted.kernel.as_ref().map(|kernel| KernelRates {
        packets_per_second: rate(kernel.up_packets + kernel.down_packets, seconds),
        bits_per_second: rate(8 * (kernel.up_bytes + kernel.down_bytes), seconds),
        dropped_packets_per_second: rate(kernel.dropped_packets, seconds),
    });
    let busy: f64 = workers.iter().map(|worker| worker.busy_ratio).sum();
    let rates = Rates {
        rx_packets_per_second: rate(counted.io(Io::RxPackets), seconds),
        rx_bits_per_second: rate(8 * counted.io(Io::RxBytes), seconds),
        tx_packets_per_second: rate(counted.io(Io::TxPackets), seconds),
        tx_bits_per_second: rate(8 * counted.io(Io::TxBytes), seconds),
        dropped_packets_per_second: rate(counted.workers.iter().map(WorkerCounters::dropped).sum(), seconds),
        busy_ratio: quotient(busy, workers.len() as f64),
    };
    let mut drops = drops::rows(counted, &sample.snapshot);
    drops.sort_by(|a, b| b.rate.total_cmp(&a.rate).then(b.packets.cmp(&a.packets)));
    TopView {
        gateway: counted.gateway.clone(),
        version: counted.version.clone(),
        pid: counted.pid,
        uptime_seconds: counted.uptime,
        seconds,
        rates,
        kernel,
        history: History::default(),
        stages: stages(counted),
        drops,
        ports: ports(&sample.ports, earlier, seconds),
        workers,
    }
}

/// Cycles spent on packets.
fn busy_cycles(worker: &WorkerCounters) -> u64 {
    [Io::RxCycles, Io::PipelineCycles, Io::TxCycles, Io::OtherCycles].map(|io| worker.io(io)).iter().sum()
}

fn load(worker: &WorkerCounters, counted: &Snapshot) -> WorkerLoad {
    let (seconds, io) = (counted.seconds, |what| worker.io(what) as f64);
    let busy_ratio = quotient(busy_cycles(worker) as f64, seconds * counted.tsc_hz).clamp(0.0, 1.0);
    WorkerLoad {
        worker: worker.worker,
        cpu: worker.cpu,
        cpu_ratio: quotient(io(Io::CpuNs) / 1e9, seconds),
        busy_ratio,
        idle_ratio: 1.0 - busy_ratio,
        rx_packets_per_second: rate(worker.io(Io::RxPackets), seconds),
        tx_packets_per_second: rate(worker.io(Io::TxPackets), seconds),
        packets_per_burst: quotient(io(Io::RxPackets), io(Io::Bursts)),
        sleeps_per_second: rate(worker.io(Io::Sleeps), seconds),
        cpu_ns_per_packet: quotient(io(Io::CpuNs), io(Io::RxPackets)),
    }
}

/// What was counted of a stage: calls, packets, cycles.
type Counted = [u64; 3];

fn stages(counted: &Snapshot) -> Vec<StageCost> {
    let mut sums: Vec<(String, Counted)> = vec![("receive".to_owned(), [0; 3])];
    let mut add = |name: String, values: Counted| match sums.iter_mut().find(|(other, _)| *other == name) {
        Some((_, sum)) => sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
        None => sums.push((name, values)),
    };
    for worker in &counted.workers {
        let io = |what| worker.io(what);
        add("receive".to_owned(), [io(Io::Bursts), io(Io::RxPackets), io(Io::RxCycles)]);
        for stage in &worker.stages {
            add(format!("{}.{}", stage.pipeline, stage.name), [stage.calls, stage.packets, stage.cycles]);
        }
    }
    for worker in &counted.workers {
        let io = |what| worker.io(what);
        add("send".to_owned(), [io(Io::BusyTurns), io(Io::TxPackets), io(Io::TxCycles)]);
        add("other".to_owned(), [io(Io::BusyTurns), io(Io::RxPackets), io(Io::OtherCycles)]);
    }
    let all: u64 = counted.workers.iter().map(busy_cycles).sum();
    let cost = |(stage, [calls, packets, cycles]): (String, Counted)| {
        let [calls, count, cycles] = [calls, packets, cycles].map(|n| n as f64);
        StageCost {
            stage,
            packets_per_second: rate(packets, counted.seconds),
            packets_per_call: quotient(count, calls),
            cycles_per_packet: quotient(cycles, count),
            ns_per_packet: quotient(cycles * 1e9, counted.tsc_hz * count),
            cost_ratio: quotient(cycles, all as f64),
        }
    };
    sums.into_iter().filter(|(_, [_, packets, _])| *packets > 0).map(cost).collect()
}

fn ports(now: &[PortView], earlier: &[PortView], seconds: f64) -> Vec<PortRates> {
    let mut rows: Vec<PortRates> = Vec::new();
    let counter = |port: &PortView, name: &str| port.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v);
    let lost = |port: &PortView| port.losses().map(|(_, packets)| packets).sum::<u64>();
    for port in now {
        let before = earlier.iter().find(|before| before.name == port.name && before.worker == port.worker);
        let since = |name: &str| {
            let before = before.map_or(0, |before| counter(before, name));
            rate(counter(port, name).saturating_sub(before), seconds)
        };
        let found = rows.iter().position(|row| row.name == port.name).unwrap_or_else(|| {
            rows.push(PortRates {
                name: port.name.clone(),
                role: port.role.clone(),
                kind: port.kind.clone(),
                interface: port.interface.clone(),
                link: port.link.clone(),
                ..PortRates::default()
            });
            rows.len() - 1
        });
        let row = &mut rows[found];
        if port.link != "up" && row.link != "gone" {
            row.link.clone_from(&port.link);
        }
        row.rx_packets_per_second += since("rx_packets");
        row.rx_bits_per_second += 8.0 * since("rx_bytes");
        row.tx_packets_per_second += since("tx_packets");
        row.tx_bits_per_second += 8.0 * since("tx_bytes");
        row.lost_packets_per_second += rate(lost(port).saturating_sub(before.map_or(0, lost)), seconds);
        row.lost_packets += lost(port);
    }
    rows
}
