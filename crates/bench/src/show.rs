//! A report as people read it.

use std::fmt::Write as _;

use traffic::DirectionResult;

use crate::report::Report;
use crate::text::{Table, bytes, count, micros, rate};

/// The whole report.
pub fn report(report: &Report) -> String {
    let mut out = head(report);
    out.push('\n');
    out += &traffic(report);
    out.push('\n');
    out += &cost(report);
    out.push('\n');
    out += &stages(report);
    out.push('\n');
    out += &facts(report);
    out
}

fn plural(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

/// What was measured.
pub fn head(r: &Report) -> String {
    let instances =
        if r.instances > 1 { format!("{}, ", plural(r.instances.into(), "instance")) } else { String::new() };
    format!(
        "{} over {}: {instances}{}, {}, {}; {:.1} s in {}\n",
        r.profile,
        r.port,
        plural(r.workers.into(), "worker"),
        plural(r.subscribers, "subscriber"),
        plural(r.flows, "flow"),
        r.seconds,
        plural(r.windows.count as u64, "window"),
    )
}

fn traffic(r: &Report) -> String {
    let mut table = Table::new(&["", "forwarded", "Gbit/s", "mean frame", "sent", "lost"]);
    let row = |name: &str, d: &DirectionResult| {
        [
            name.to_owned(),
            rate(d.mpps),
            format!("{:.2}", d.gbps_l2),
            format!("{:.0} B", d.frame_bytes_mean),
            count(d.sent_packets),
            count(d.lost_packets),
        ]
    };
    table.row(row("uplink", &r.directions.uplink));
    table.row(row("downlink", &r.directions.downlink));
    table.rule();
    let both = [&r.directions.uplink, &r.directions.downlink];
    table.row([
        "both".to_owned(),
        rate(r.mpps),
        format!("{:.2}", r.gbps_l2),
        String::new(),
        count(both.iter().map(|d| d.sent_packets).sum()),
        count(both.iter().map(|d| d.lost_packets).sum()),
    ]);
    table.text()
}

/// Trx, Tc, Ttx, the rest.
pub fn cost(r: &Report) -> String {
    let c = &r.cost;
    let memory = r.port == "memory";
    let names = match memory {
        true => ["receive (the generator here)", "transmit (the checker here)"],
        false => ["receive            Trx", "transmit           Ttx"],
    };
    let mut table = Table::new(&["a packet costs", "ns", "cycles", "share"]);
    let row = |name: &str, ns: f64| {
        let share = if c.tp_ns > 0.0 { ns / c.tp_ns * 100.0 } else { 0.0 };
        [name.to_owned(), format!("{ns:.1}"), format!("{:.0}", ns * c.tsc_hz / 1e9), format!("{share:.0} %")]
    };
    table.row(row(names[0], c.trx_ns));
    table.row(row("processing         Tc", c.tc_ns));
    table.row(row(names[1], c.ttx_ns));
    table.row(row("everything else", c.other_ns));
    table.rule();
    table.row(row("all of it          Tp", c.tp_ns));
    table.text()
}

/// Every stage.
pub fn stages(r: &Report) -> String {
    let mut table = Table::new(&["stage", "ns", "cycles", "packets", "per call"]);
    let mut pipeline = String::new();
    for stage in &r.cost.stages {
        if !pipeline.is_empty() && pipeline != stage.direction {
            table.rule();
        }
        pipeline.clone_from(&stage.direction);
        table.row([
            format!("{} {}", stage.direction, stage.name),
            format!("{:.2}", stage.ns_per_packet),
            format!("{:.1}", stage.cycles_per_packet),
            count(stage.packets),
            format!("{:.1}", stage.packets_per_call),
        ]);
    }
    table.text()
}

/// Everything that is one line.
pub fn facts(r: &Report) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "  {text}");
    };
    if let Some(observer) = &r.observer {
        line(format!(
            "observer: processing {:.1} ns with the stages' clock, {:.1} without: looking costs {:.1} ns a packet",
            observer.tc_ns, observer.tc_ns_without, observer.effect_ns
        ));
    }
    if !r.reference.name.is_empty() {
        line(format!(
            "{}: {}; this gateway reaches {:.1} % of it",
            r.reference.name,
            rate(r.reference.mpps),
            r.reference.ratio * 100.0
        ));
    }
    if let Some(paced) = &r.paced {
        line(format!(
            "at {} ({:.0} % of capacity), every packet checked: {:.4} % lost (median window {:.4} %)",
            rate(paced.offered_mpps),
            paced.of_capacity * 100.0,
            paced.loss_ratio * 100.0,
            paced.loss_ratio_median * 100.0
        ));
        for (name, d) in [("uplink", &paced.directions.uplink), ("downlink", &paced.directions.downlink)] {
            let l = &d.latency_us;
            line(format!(
                "  {name}: p50 {}, p99 {}, p99.9 {}, slowest {}",
                micros(l.p50),
                micros(l.p99),
                micros(l.p999),
                micros(l.max)
            ));
        }
    }
    line(format!(
        "started in {:.2} s; {} a subscriber ({} in all); process {}",
        r.start_seconds,
        bytes(r.bytes_per_subscriber),
        bytes(r.bytes_per_subscriber * r.subscribers as f64),
        bytes(r.rss_bytes as f64)
    ));
    line(format!(
        "{} allocations a packet; {} frames lost; {} packets unaccounted for",
        if r.allocations_per_packet == 0.0 { "0".to_owned() } else { format!("{:.6}", r.allocations_per_packet) },
        r.frames_lost,
        r.packets_missing
    ));
    for (name, n) in &r.drops {
        line(format!("dropped {name}: {}", count(*n)));
    }
    let busy: Vec<_> = r.worker_utilisation.iter().map(|busy| format!("{:.0} %", busy * 100.0)).collect();
    line(format!(
        "workers busy {}; windows from {} to {}; machine busy {:.0} %, stolen {:.1} %, scheduling {}",
        busy.join(", "),
        rate(r.windows.mpps_min),
        rate(r.windows.mpps_max),
        r.host.busy_ratio * 100.0,
        r.host.steal_ratio * 100.0,
        r.host.scheduling
    ));
    line(format!("{}, Linux {}, {}", r.host.cpu, r.host.kernel, plural(r.host.cores as u64, "core")));
    out
}
