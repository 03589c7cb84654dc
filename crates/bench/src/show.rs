//! A report as people read it.

use std::fmt::Write as _;

use traffic::DirectionResult;

use crate::options::ReceiveWork;
use crate::report::{Filled, Paced, Report};
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
    let mut table = Table::new(&TRAFFIC);
    table.row(direction("uplink", &r.directions.uplink));
    table.row(direction("downlink", &r.directions.downlink));
    table.rule();
    table.row(both(r));
    table.text()
}

/// Columns of a table of traffic.
pub(crate) const TRAFFIC: [&str; 6] = ["", "forwarded", "Gbit/s", "mean frame", "sent", "lost"];

/// The cells of a direction.
pub(crate) fn direction(name: &str, d: &DirectionResult) -> [String; 6] {
    [
        name.to_owned(),
        rate(d.mpps),
        format!("{:.2}", d.gbps_l2),
        format!("{:.0} B", d.frame_bytes_mean),
        count(d.sent_packets),
        count(d.lost_packets),
    ]
}

/// The cells of both directions together.
pub(crate) fn both(r: &Report) -> [String; 6] {
    [
        "both".to_owned(),
        rate(r.mpps),
        format!("{:.2}", r.gbps_l2),
        String::new(),
        count(r.directions.uplink.sent_packets + r.directions.downlink.sent_packets),
        count(r.lost_packets()),
    ]
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

/// Tc in cycles of the core, by the clock it had.
pub fn core_clock(r: &Report) -> Option<String> {
    let (c, host) = (&r.cost, &r.host);
    let words = |cycles: f64, ghz: f64| {
        format!("{cycles:.0} cycles of the core at {ghz:.2} GHz, {:.1} ns at the nominal", c.at_nominal_clock(cycles))
    };
    Some(format!(
        "Tc is {} {:.2}; in the quietest tenth {:.1} ns, {}",
        words(c.tc_core_cycles?, host.core_ghz?),
        c.tsc_hz / 1e9,
        c.tc_quiet_ns,
        words(c.tc_quiet_core_cycles?, host.core_ghz_quiet?),
    ))
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
    if !(r.drops.is_empty() && r.lost_at_ports.is_empty()) {
        let dropped = r.drops.iter().map(|(name, n)| format!("{} by {name}", count(*n)));
        let lost = r.lost_at_ports.iter().map(|(name, n)| format!("{} at {name}", count(*n)));
        line(format!("of the lost: {}", dropped.chain(lost).collect::<Vec<_>>().join(", ")));
    }
    if let Some(words) = core_clock(r) {
        line(words);
    }
    if !r.reference.name.is_empty() {
        line(format!(
            "{}: {} (Trx {:.0} ns, Ttx {:.0} ns); this gateway reaches {:.1} % of it",
            r.reference.name,
            rate(r.reference.mpps),
            r.reference.trx_ns,
            r.reference.ttx_ns,
            r.reference.ratio * 100.0
        ));
    }
    if r.load.receive_work == ReceiveWork::Load.word() {
        line("what the gateway sends is taken in on the load's CPU, as beyond a wire".into());
    }
    if r.port != "memory" && !r.load.saturates {
        line(format!(
            "the load did not keep the gateway busy all the time: in bursts as small as these it might forward {}; it is \
             compared by the time it was busy",
            rate(r.load.busy_mpps)
        ));
    }
    if let Some(paced) = &r.paced {
        paced_facts(paced, &mut line);
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
    if r.packets_waiting > 0.0 {
        line(format!("{} packets wait in the mean", count(r.packets_waiting as u64)));
    }
    if let Some(filled) = &r.filled {
        filled_facts(filled, &mut line);
    }
    for (name, n) in &r.drops {
        line(format!("dropped {name}: {}", count(*n)));
    }
    let busy: Vec<_> = r.worker_utilisation.iter().map(|busy| format!("{:.0} %", busy * 100.0)).collect();
    line(format!(
        "workers busy {}; windows from {} to {}; machine busy {:.0} %, scheduling {}",
        busy.join(", "),
        rate(r.windows.mpps_min),
        rate(r.windows.mpps_max),
        r.host.busy_ratio * 100.0,
        r.host.scheduling
    ));
    if r.noise.windows > 0 {
        line(r.noise.text());
        line(r.power.text());
    }
    if let Some(disturbed) = &r.disturbed {
        line(disturbed.text(r.cost.tc_ns));
    }
    line(format!("{}, Linux {}, {}", r.host.cpu, r.host.kernel, plural(r.host.cores as u64, "core")));
    out
}

/// How full queues were.
fn filled_facts(f: &Filled, line: &mut impl FnMut(String)) {
    line(format!(
        "packets wait for {:.2} % of the subscribers, {:.2} for each; {:.1} % of the buffer of {} is taken: 10 ms of {:.2} Gbit/s",
        f.backlogged_ratio * 100.0,
        f.packets_each,
        f.buffer_used_ratio * 100.0,
        bytes(f.buffer_bytes as f64),
        f.port_gbps,
    ));
    line(format!(
        "{} are offered {:.3} times their rate of {:.3} Gbit/s ({:.3} to {:.3}); {:.1} % of the packets offered downlink were \
         dropped from the longest queues",
        plural(f.nodes.into(), "outer VLAN"),
        f.offered_by_rate_mean,
        f.node_gbps,
        f.offered_by_rate_min,
        f.offered_by_rate_max,
        f.dropped_ratio * 100.0,
    ));
}

/// Loss and latency at a fraction of the capacity.
fn paced_facts(paced: &Paced, line: &mut impl FnMut(String)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Cost, StageCost};
    use crate::report::Reference;

    fn fixed() -> Report {
        let stage = |direction: &str, name: &str, ns: f64| StageCost {
            direction: direction.into(),
            name: name.into(),
            packets: 1_000_000,
            cycles_per_packet: 2.0 * ns,
            ns_per_packet: ns,
            packets_per_call: 64.0,
            ..StageCost::default()
        };
        let stages = vec![stage("uplink", "parse_outer", 9.75), stage("downlink", "find_by_address", 21.5)];
        let d = DirectionResult { mpps: 0.75, gbps_l2: 1.03, frame_bytes_mean: 128.0, ..DirectionResult::default() };
        let mut report = Report {
            profile: "upf-128".into(),
            port: "xdp".into(),
            workers: 1,
            instances: 1,
            seconds: 5.0,
            subscribers: 1000,
            flows: 1000,
            mpps: 1.5,
            gbps_l2: 2.06,
            cost: Cost {
                trx_ns: 20.0,
                tc_ns: 80.0,
                ttx_ns: 550.0,
                other_ns: 0.0,
                tp_ns: 650.0,
                tsc_hz: 2e9,
                tc_quiet_ns: 75.0,
                tc_core_cycles: Some(120.0),
                tc_quiet_core_cycles: Some(135.0),
                stages,
                ..Cost::default()
            },
            reference: Reference {
                name: "bare forwarding, xdp".into(),
                mpps: 1.7,
                ratio: 0.88,
                ..Reference::default()
            },
            paced: Some(Paced { offered_mpps: 1.2, of_capacity: 0.8, ..Paced::default() }),
            ..Report::default()
        };
        report.load.saturates = true;
        (report.directions.uplink, report.directions.downlink) = (d, d);
        (report.host.core_ghz, report.host.core_ghz_quiet) = (Some(1.5), Some(1.8));
        report
    }

    #[test]
    fn a_report_is_read_from_top_to_bottom() {
        let text = report(&fixed());
        let lines = [
            "upf-128 over xdp: 1 worker, 1,000 subscribers, 1,000 flows; 5.0 s in 0 windows",
            "  uplink    750.0 kpps    1.03       128 B     0     0",
            "  both      1.500 Mpps    2.06                 0     0",
            "  processing         Tc    80.0     160   12 %",
            "  all of it          Tp   650.0    1300  100 %",
            "  uplink parse_outer         9.75    19.5  1,000,000      64.0",
            "  downlink find_by_address  21.50    43.0  1,000,000      64.0",
            "  Tc is 120 cycles of the core at 1.50 GHz, 60.0 ns at the nominal 2.00; in the quietest tenth 75.0 ns, 135 cycles of the core at 1.80 GHz, 67.5 ns at the nominal",
        ];
        for line in lines {
            assert!(text.lines().any(|have| have == line), "no line `{line}` in:\n{text}");
        }
        assert!(
            text.contains("this gateway reaches 88.0 % of it") && text.contains("at 1.200 Mpps (80 % of capacity)")
        );
    }

    #[test]
    fn all_modes_are_one_table() {
        let plain = Report { port: "packet-plain".into(), mpps: 0.5, ..fixed() };
        let mut reports = vec![plain, fixed()];
        reports[0].windows.busy_mpps = vec![0.5, 0.5];
        reports[1].windows.busy_mpps = vec![1.5, 1.7];
        let modes = crate::modes::Modes::new(reports);
        let text = modes.text();
        assert!((modes.times_plain(&modes.results[1]) - 3.2).abs() < 1e-9);
        assert!(
            text.lines().any(|line| line.starts_with("  xdp") && line.contains("1.500 Mpps") && line.contains("3.20"))
        );
        assert!(text.contains("270.0 kpps") && text.contains("Tn 3147") && text.contains("3694"), "{text}");
        assert!(!text.contains("by the time the gateway") && !text.contains("as beyond a wire"), "{text}");
        let mut own = modes;
        own.results[1].load.saturates = false;
        own.results[1].load.receive_work = "load".into();
        own.results[1].worker_utilisation = vec![0.75];
        let text = own.text();
        assert!(text.contains("by the time the gateway") && text.contains("as beyond a wire"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("  xdp") && line.contains("75 %")), "{text}");
    }
}
