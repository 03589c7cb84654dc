//! A report as people read it.

use std::fmt::Write as _;

use super::differences::Difference;
use super::ends::OFFERED;
use super::report::CableReport;
use crate::show;
use crate::text::{Table, bytes, count, micros, rate};

impl CableReport {
    /// The whole report.
    pub fn text(&self) -> String {
        let mut out = self.head();
        let parts = [
            self.traffic(),
            show::cost(&self.common),
            show::stages(&self.common),
            self.facts(),
            self.sweep(),
            self.differences(),
        ];
        for part in parts {
            if !part.is_empty() {
                out.push('\n');
                out += &part;
            }
        }
        out
    }

    fn head(&self) -> String {
        let (common, cable) = (&self.common, &self.cable);
        format!(
            "{} over {}: {} × {} modems on {}, {} worker{}; {:.1} s {}in {} windows\n",
            common.profile,
            common.port,
            cable.service_groups,
            cable.modems,
            cable.channels,
            common.workers,
            if common.workers == 1 { "" } else { "s" },
            common.seconds,
            if common.port == "memory" { "of the gateway's own time " } else { "" },
            common.windows.count,
        )
    }

    /// What makes the result less than it seems; empty: nothing does.
    pub fn warnings(&self) -> Vec<String> {
        let (common, cable) = (&self.common, &self.cable);
        let counts = [
            (cable.lost_unexpectedly, "packets lost that no queue of an overloaded service flow dropped"),
            (cable.wrong_frames, "wrong frames"),
            (cable.reordered, "packets out of order"),
            (common.frames_lost.unsigned_abs(), "packet buffers lost"),
            (common.packets_missing.unsigned_abs(), "packets unaccounted for"),
        ];
        let mut all: Vec<String> =
            counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(n))).collect();
        if !cable.matches.right {
            all.push("rules did not match as many packets as were made to match".to_owned());
        }
        if !cable.upstream_limited_by.is_empty() {
            all.push(format!("upstream not as set: {}", cable.upstream_limited_by));
        }
        if cable.service_flows.overloaded_modems > 0 && cable.queues.offered_ratio < 1.0 {
            all.push("overloaded service flows were offered less than their rate".to_owned());
        }
        if common.noise.is_disturbed {
            all.push(format!("disturbed: {}", common.noise.why()));
        }
        all
    }

    fn traffic(&self) -> String {
        let mut table = Table::new(&[&show::TRAFFIC[..], &["reordered", "p50", "p99"]].concat());
        let common = &self.common;
        for (name, d) in [("downstream", &common.directions.downlink), ("upstream", &common.directions.uplink)] {
            let more = [count(d.reordered_packets), micros(d.latency_us.p50), micros(d.latency_us.p99)];
            table.row(show::direction(name, d).into_iter().chain(more));
        }
        table.rule();
        let more = [count(self.cable.reordered), String::new(), String::new()];
        table.row(show::both(common).into_iter().chain(more));
        table.text()
    }

    fn facts(&self) -> String {
        let (common, cable) = (&self.common, &self.cable);
        let mut out = String::new();
        let mut line = |text: String| {
            let _ = writeln!(out, "  {text}");
        };
        line(match common.port.as_str() {
            "memory" if common.worker_utilisation.iter().all(|busy| *busy > 0.98) => {
                "time is the gateway's own: rates, queues and channels go by a clock without the time to make and to \
                 check packets"
                    .to_owned()
            }
            "memory" => format!(
                "time is the gateway's own; it was busy {:.0} % of it, for channels are offered {:.0} % of what they \
                 carry: with \
                 nothing else to wait for it might forward {}",
                crate::window::median(common.worker_utilisation.iter().copied()) * 100.0,
                OFFERED * 100.0,
                rate(common.load.busy_mpps)
            ),
            _ => format!(
                "the gateway was busy {:.0} % of the time: with nothing else to wait for it might forward {}",
                common.worker_utilisation.first().unwrap_or(&0.0) * 100.0,
                rate(common.load.busy_mpps)
            ),
        });
        let upstream = format!(
            "an upstream packet costs {:.0}, {:.0} for decryption",
            cable.upstream_cycles, cable.decryption_cycles
        );
        line(match cable.upstream_ratio_set {
            None => format!("{upstream} (cycles)"),
            Some(_) => format!(
                "a downstream packet costs {:.0} cycles: {:.0} for CRC32 and encryption, {:.0} beyond{}; {upstream}",
                cable.downstream_cycles,
                cable.crypto_cycles,
                cable.beyond_crypto_cycles,
                if common.port == "memory" { "" } else { ", the ports' share included" }
            ),
        });
        line(format!(
            "{}, its own calls alone: {:.0} cycles on the same sizes; the engine around it, alone: {:.0}; in the \
             gateway {:.2} \
             times the library alone",
            cable.cipher, cable.cipher_alone_cycles, cable.engine_alone_cycles, cable.crypto_ratio
        ));
        if common.port != "memory" {
            let r = &common.reference;
            line(format!(
                "{}: {}, {:.2} Gbit/s (Trx {:.0} ns, Ttx {:.0} ns); busy all the time, the gateway has {:.1} % of \
                 its packets",
                r.name,
                rate(r.mpps),
                r.gbps_l2,
                r.trx_ns,
                r.ttx_ns,
                r.ratio * 100.0
            ));
        }
        standing_facts(self, &mut line);
        cable_facts(self, &mut line);
        line(format!(
            "{:.3} allocations a packet{}; started in {:.2} s",
            common.allocations_per_packet,
            if common.port == "memory" { ", the far sides' included" } else { "" },
            common.start_seconds
        ));
        for (name, n) in &common.drops {
            line(format!("dropped {name}: {}", count(*n)));
        }
        line(format!("{}; {} scheduling", common.host.cpu, common.host.scheduling));
        out
    }

    /// What is not alike with the published measurement.
    fn differences(&self) -> String {
        if self.cable.differences.is_empty() {
            return String::new();
        }
        let mut out = "not alike with the published measurement (vCMTS, 2021), which had:\n".to_owned();
        for Difference { what, published, here } in &self.cable.differences {
            let _ = writeln!(out, "  {what}: {published}\n      here: {here}");
        }
        out
    }

    fn sweep(&self) -> String {
        if self.cable.sweep.is_empty() {
            return String::new();
        }
        let mut table =
            Table::new(&["bytes", "forwarded", "Gbit/s", "down cycles", "crypto", "beyond", "cipher alone", "lost"]);
        for line in &self.cable.sweep {
            table.row([
                line.bytes.to_string(),
                rate(line.mpps),
                format!("{:.2}", line.gbps_l2),
                format!("{:.0}", line.downstream_cycles),
                format!("{:.0}", line.crypto_cycles),
                format!("{:.0}", line.beyond_crypto_cycles),
                format!("{:.0}", line.cipher_alone_cycles),
                count(line.lost),
            ]);
        }
        table.text()
    }
}

/// Several kinds of ports and numbers of service groups, a line each.
pub fn side_by_side(reports: &[CableReport]) -> String {
    let mut table = Table::new(&[
        "ports",
        "service groups",
        "forwarded",
        "Gbit/s",
        "each",
        "down cycles",
        "crypto",
        "beyond",
        "up cycles",
        "lost",
        "wrong",
        "busy",
    ]);
    for report in reports {
        let (common, cable) = (&report.common, &report.cable);
        table.row([
            common.port.clone(),
            cable.service_groups.to_string(),
            rate(common.mpps),
            format!("{:.2}", common.gbps_l2),
            format!("{:.2}", cable.gbps_per_service_group),
            format!("{:.0}", cable.downstream_cycles),
            format!("{:.0}", cable.crypto_cycles),
            format!("{:.0}", cable.beyond_crypto_cycles),
            format!("{:.0}", cable.upstream_cycles),
            count(cable.lost_unexpectedly),
            count(cable.wrong_frames + cable.reordered),
            format!("{:.0} %", busy(&common.worker_utilisation) * 100.0),
        ]);
    }
    let mut out = table.text();
    for report in reports {
        for warning in report.warnings() {
            let _ =
                writeln!(out, "  {}, {} service groups: {warning}", report.common.port, report.cable.service_groups);
        }
    }
    out
}

/// Of all workers.
fn busy(workers: &[f64]) -> f64 {
    workers.iter().sum::<f64>() / workers.len().max(1) as f64
}

/// What channels, segments, frames and rates of service flows came to.
fn cable_facts(report: &CableReport, line: &mut impl FnMut(String)) {
    let (common, cable) = (&report.common, &report.cable);
    line(format!(
        "{} a modem: with its hosts, keys, service flows and SID cluster; {} in all",
        bytes(common.bytes_per_subscriber),
        bytes(common.bytes_per_subscriber * common.subscribers as f64)
    ));
    line(format!(
        "{:.2} Gbit/s a service group; channels of a bonding group within {:.2} %",
        cable.gbps_per_service_group,
        cable.channel_imbalance * 100.0
    ));
    match cable.upstream_ratio_set {
        None => line(format!("upstream only: {:.2} Gbit/s", common.directions.uplink.gbps_l2)),
        Some(set) if cable.upstream_limited_by.is_empty() => {
            line(format!(
                "upstream {:.1} % of downstream, as set ({:.1} %)",
                cable.upstream_ratio * 100.0,
                set * 100.0
            ));
        }
        Some(set) => line(format!(
            "upstream NOT AS SET: {:.1} % of downstream instead of {:.1} %; limited by: {}",
            cable.upstream_ratio * 100.0,
            set * 100.0,
            cable.upstream_limited_by
        )),
    }
    let packets: u64 = cable.segments_per_packet.iter().sum();
    let segments: u64 = (0u64..).zip(cable.segments_per_packet).map(|(n, packets)| n * packets).sum();
    line(format!(
        "{:.2} segments a DEPI packet, {:.1} % of frames split over two",
        segments as f64 / packets.max(1) as f64,
        cable.split_ratio * 100.0
    ));
    line(format!(
        "every frame taken apart and decrypted: {} wrong, {} out of order; {} packets missing, {} slots lost",
        cable.wrong_frames, cable.reordered, common.packets_missing, common.frames_lost
    ));
    for (why, n) in &cable.wrong {
        line(format!("wrong, {why}: {}", count(*n)));
    }
    if let Some(rates) = &cable.rates {
        line(format!(
            "{} service flows sent more than their {} Mbit/s got {:.2} % of it on average, the worst {:+.2} %",
            rates.flows,
            rates.rate / 1_000_000,
            rates.mean * 100.0,
            rates.worst * 100.0
        ));
    }
}

/// What service flows were given, and what came of queues and rules.
fn standing_facts(report: &CableReport, line: &mut impl FnMut(String)) {
    let (common, cable) = (&report.common, &report.cable);
    let (flows, queues, matches) = (&cable.service_flows, &cable.queues, &cable.matches);
    line(flows.words());
    if flows.overloaded_modems > 0 {
        let rate = flows.overloaded.sustained.unwrap_or(0) as f64 / 1e6;
        line(format!(
            "{} modems are offered {} times their {rate} Mbit/s: {:.1} packets wait in the mean, {} dropped by AQM \
             and {} by full \
             queues, as is expected",
            flows.overloaded_modems,
            flows.overload_factor,
            queues.waiting_packets,
            count(queues.aqm_drops),
            count(queues.full_drops)
        ));
        if queues.offered_ratio < 1.0 {
            line(format!(
                "NOT OVERLOADED: the ports let them be offered {:.1} % of their rate only; set a lower overload_rate",
                queues.offered_ratio * 100.0
            ));
        } else if queues.carried_ratio <= 0.0 {
            line(format!("they were offered {:.1} % of their rate", queues.offered_ratio * 100.0));
        }
        if queues.carried_ratio > 0.0 {
            line(format!(
                "they were offered {:.1} % of their rate and got {:.1} %, the furthest {:+.1} %; delay {:.2} ms, of \
                 all other \
                 service flows {:.3} ms",
                queues.offered_ratio * 100.0,
                queues.carried_ratio * 100.0,
                queues.carried_worst * 100.0,
                queues.overloaded_delay_ms,
                queues.other_delay_ms
            ));
        }
    } else if cable.upstream_ratio_set.is_some() {
        line(format!(
            "no service flow is offered more than its rate; {:.1} packets wait in the mean",
            queues.waiting_packets
        ));
    }
    line(format!(
        "{} packets lost that no queue of an overloaded service flow dropped",
        count(cable.lost_unexpectedly)
    ));
    let share = |part: u64, rest: u64| part as f64 * 100.0 / (part + rest).max(1) as f64;
    line(format!(
        "rules ({}): filters matched {:.1} % of packets down and {:.1} % up, classifiers {:.1} %: {}",
        matches.rules,
        share(matches.filter_permitted[0], matches.filter_unmatched[0]),
        share(matches.filter_permitted[1], matches.filter_unmatched[1]),
        share(matches.classifier_matched, matches.classifier_unmatched),
        if matches.right {
            "as many as were made to match".to_owned()
        } else {
            format!(
                "NOT as many as were made to match: {:?} by filters, {} by classifiers of {:?} and {}; {:?} denied",
                matches.filter_permitted,
                matches.classifier_matched,
                matches.filter_made,
                matches.classifier_made,
                matches.filter_denied
            )
        }
    ));
    if common.workers > 1 {
        let busy: Vec<_> = common.worker_utilisation.iter().map(|busy| format!("{:.0} %", busy * 100.0)).collect();
        line(format!(
            "workers busy {}; {} packets handed over between them",
            busy.join(", "),
            count(common.handed_over)
        ));
    }
}
