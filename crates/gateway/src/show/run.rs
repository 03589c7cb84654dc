//! `weir show run`: what each stage did and cost, and where each worker's time went.

use engine::Io;

use super::heading;
use crate::headroom::{Alarm, HeadroomView};
use crate::snapshot::{KernelCounters, Snapshot, WorkerCounters};
use crate::tables::{Style, Table, bar, count, per, si};

/// The page. `all`: stages no packet has reached, too.
pub fn text(snapshot: &Snapshot, since_start: bool, all: bool, style: Style) -> String {
    let mut out = heading(snapshot, since_start, style);
    if let Some(view) = &snapshot.headroom {
        out += &headroom(view, style);
    }
    if let Some(kernel) = &snapshot.kernel {
        out += &in_kernel(kernel, snapshot, style);
    }
    for worker in &snapshot.workers {
        out += &summary(worker, snapshot.seconds, style);
        out += &shares(worker, style);
        out += &cpu(worker, snapshot.seconds, style);
        out.push('\n');
        out += &stages(worker, snapshot.tsc_hz, all).render(style);
        out.push('\n');
    }
    out
}

fn summary(worker: &WorkerCounters, seconds: f64, style: Style) -> String {
    let place = worker.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let rate = |n: u64, unit: &str| format!("{}{unit}", spaced(per_second(n, seconds)));
    let dropped = worker.dropped();
    let drops = format!("{} dropped", rate(dropped, "pps"));
    format!(
        "{} · in {}, {} · out {}, {} · {}\n",
        style.strong(&format!("worker {}{place}", worker.worker)),
        rate(worker.io(Io::RxPackets), "pps"),
        rate(worker.io(Io::RxBytes) * 8, "bit/s"),
        rate(worker.io(Io::TxPackets), "pps"),
        rate(worker.io(Io::TxBytes) * 8, "bit/s"),
        if dropped > 0 { style.alarm(&drops) } else { drops },
    )
}

/// The gateway beside its capacity certificate.
fn headroom(view: &HeadroomView, style: Style) -> String {
    let alarms: Vec<String> = view
        .alarms
        .iter()
        .map(|alarm| match alarm {
            Alarm::Undelivered => format!("only {:.3} Mpps delivered", view.delivered_mpps),
            Alarm::Cycles => {
                let [now, certified] =
                    [view.cycles_per_packet, view.certified_cycles_per_packet].map(|n| n.unwrap_or(0.0));
                format!("{now:.0} cycles/packet, certified {certified:.0}")
            }
            Alarm::Allowance => format!("allowance exceeded: {}", view.exceeded.join(", ")),
        })
        .collect();
    let alarms = if alarms.is_empty() { String::new() } else { format!(" · {}", style.alarm(&alarms.join(" · "))) };
    format!(
        "{} {:.0} % · offered {:.3} of {:.3} Mpps certified{alarms}\n\n",
        style.strong("headroom"),
        100.0 * view.headroom_ratio,
        view.offered_mpps,
        view.certified_mpps
    )
}

/// What went through the kernel: rates, its share of all packets, and what the program takes for one.
fn in_kernel(kernel: &KernelCounters, snapshot: &Snapshot, style: Style) -> String {
    let rate = |n: u64, unit: &str| format!("{}{unit}", spaced(per_second(n, snapshot.seconds)));
    let (taken, workers) = (kernel.taken() as f64, snapshot.io(Io::RxPackets) as f64);
    let (sampled, ns) = (kernel.sampled_packets as f64, kernel.sampled_ns as f64);
    let drops = format!("{} dropped", rate(kernel.dropped_packets, "pps"));
    let cpu =
        if sampled > 0.0 { 100.0 * ns / sampled * per_second(kernel.taken(), snapshot.seconds) / 1e9 } else { 0.0 };
    format!(
        "{} · up {}, {} · down {}, {} · {}\n{}{}  {} % of packets, {} ns/packet in its program, {:.1} % of a CPU\n\n",
        style.strong("in the kernel"),
        rate(kernel.up_packets, "pps"),
        rate(kernel.up_bytes * 8, "bit/s"),
        rate(kernel.down_packets, "pps"),
        rate(kernel.down_bytes * 8, "bit/s"),
        if kernel.dropped_packets > 0 { style.alarm(&drops) } else { drops },
        refused_by(kernel, style),
        flows_in(kernel, style),
        per(100.0 * taken, taken + workers, 1),
        per(ns, sampled, 0),
        cpu,
    )
}

/// What devices did not take, by port; where nothing counts it, or nothing was refused, no line.
fn refused_by(kernel: &KernelCounters, style: Style) -> String {
    let refused = kernel.refused.iter().flatten().filter(|refused| refused.packets > 0);
    let ports: Vec<_> = refused.map(|refused| format!("{} by {}", count(refused.packets), refused.port)).collect();
    if ports.is_empty() {
        return String::new();
    }
    format!("  {}\n", style.alarm(&format!("egress_refused: {}", ports.join(", "))))
}

/// Translated flows in the kernel, and those for which it has no place.
fn flows_in(kernel: &KernelCounters, style: Style) -> String {
    let Some(flows) = kernel.flows else { return String::new() };
    let taken = format!("flows: {} of {}", count(flows.taken), count(flows.places));
    if flows.waiting == 0 && flows.waited == 0 {
        return format!("  {taken}\n");
    }
    let waiting =
        format!("{} wait for a place, {} have waited (fast_path.flows)", count(flows.waiting), count(flows.waited));
    format!("  {taken} · {}\n", style.alarm(&waiting))
}

/// `1.42 M`, `7 `: ready for a unit.
fn spaced(value: f64) -> String {
    let text = si(value);
    if text.contains(' ') { text } else { text + " " }
}

fn per_second(n: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { n as f64 / seconds } else { 0.0 }
}

const SPENT: [(&str, Io); 5] = [
    ("rx", Io::RxCycles),
    ("pipelines", Io::PipelineCycles),
    ("tx", Io::TxCycles),
    ("other", Io::OtherCycles),
    ("idle", Io::IdleCycles),
];

/// Where the time went, as bars.
fn shares(worker: &WorkerCounters, style: Style) -> String {
    let total: u64 = SPENT.iter().map(|(_, io)| worker.io(*io)).sum();
    let mut out = String::from(" ");
    for (name, io) in SPENT {
        let share = worker.io(io) as f64 / total.max(1) as f64;
        out += &format!(" {name} {}{:>3.0} %  ", style.dim(&format!("▕{}▏", bar(share, 6))), 100.0 * share);
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// CPU time of the thread, whatever it did with it, and what shapes it: bursts and sleeps; and time it was kept from running.
fn cpu(worker: &WorkerCounters, seconds: f64, style: Style) -> String {
    let io = |what| worker.io(what) as f64;
    let share = |ns: f64| if seconds > 0.0 { 100.0 * ns / 1e9 / seconds } else { 0.0 };
    let mut out = format!(
        "  CPU time {:.1} % of a CPU, {} ns/packet · {} packets/burst · {} sleeps/s",
        share(io(Io::CpuNs)),
        per(io(Io::CpuNs), io(Io::RxPackets), 0),
        per(io(Io::RxPackets), io(Io::Bursts), 1),
        si(per_second(worker.io(Io::Sleeps), seconds)),
    );
    let away = worker.io(Io::NotRunningCycles);
    if away > 0 {
        let total: u64 = SPENT.iter().map(|(_, io)| worker.io(*io)).sum::<u64>() + away;
        let text = format!("not running {:.1} % of its time awake", 100.0 * away as f64 / total as f64);
        out += &format!(" · {}", style.dim(&text));
    }
    out + "\n"
}

/// Rx, the stages, tx, other: what a packet passes from top to bottom.
fn stages(worker: &WorkerCounters, hz: f64, all: bool) -> Table {
    let heads = ["stage", ">calls", ">packets", ">packets/call", ">cycles/packet", ">ns/packet"];
    let mut table = Table::new(&heads);
    let row = |table: &mut Table, name: String, calls: u64, packets: u64, cycles: u64| {
        let (calls_f, packets_f, cycles) = (calls as f64, packets as f64, cycles as f64);
        table.row([
            name,
            count(calls),
            count(packets),
            per(packets_f, calls_f, 1),
            per(cycles, packets_f, 1),
            per(cycles * 1e9, hz * packets_f, 1),
        ]);
    };
    let (busy, rx, tx) = (worker.io(Io::BusyTurns), worker.io(Io::RxPackets), worker.io(Io::TxPackets));
    row(&mut table, "receive".to_owned(), worker.io(Io::Bursts), rx, worker.io(Io::RxCycles));
    let mut pipeline = "";
    for stage in worker.stages.iter().filter(|stage| all || stage.packets > 0) {
        if stage.pipeline != pipeline {
            pipeline = &stage.pipeline;
            table.rule();
        }
        let name = format!("{}.{}", stage.pipeline, stage.name);
        row(&mut table, name, stage.calls, stage.packets, stage.cycles);
    }
    table.rule();
    row(&mut table, "send".to_owned(), busy, tx, worker.io(Io::TxCycles));
    row(&mut table, "other".to_owned(), busy, rx, worker.io(Io::OtherCycles));
    table.rule();
    let spent = SPENT.iter().take(4).map(|(_, io)| worker.io(*io)).sum();
    row(&mut table, "all".to_owned(), busy, rx, spent);
    table
}
