//! The same figures for spreadsheets: one a line.

use ::bench::report::Report;
use ::bench::searching::{At, SearchReport};

use super::read::Results;

/// Names of the columns, which stay as they are: others read them.
const HEAD: &str = "profile,gateway,port,workers,instances,frame_bytes,what,of,value,unit,date\n";

/// The text of the file.
pub fn text(results: &Results) -> String {
    let mut out = HEAD.to_owned();
    results.every_report().for_each(|report| of_report(report, &mut out));
    for one in &results.experiments {
        for row in &one.rows {
            let of: Vec<String> = row.values.iter().map(|(key, value)| format!("{key}={value}")).collect();
            for (name, measured) in &row.metrics {
                let cells = [&one.experiment, "", &one.port, "", "", "", name, &of.join(" ")];
                // A metric's name carries its unit.
                push(&mut out, &cells, measured.value, "", &one.date);
            }
        }
    }
    for search in &results.searches {
        let mut line = |size: Option<u16>, what: &str, of: &str, value: f64, unit: &str| {
            let size = size.map_or(String::new(), |size| size.to_string());
            let workers = search.workers.to_string();
            let SearchReport { profile, gateway, port, .. } = search;
            let cells: [&str; 8] = [profile, gateway, port, &workers, "1", &size, what, of];
            push(&mut out, &cells, value, unit, &search.date);
        };
        for At { frame_bytes, found } in &search.results {
            let bounds = [
                ("lower", found.mpps_lower),
                ("upper", found.mpps_upper),
                ("conditional", found.mpps_conditional),
                ("likely", found.likely.map(|likely| likely.mpps)),
            ];
            for (name, value) in bounds {
                if let Some(value) = value {
                    line(*frame_bytes, &format!("rate_{name}"), &found.goal, value, "Mpps");
                }
            }
        }
        for At { frame_bytes, found } in &search.latency {
            let Some(latency) = found.latency_us else { continue };
            for (name, value) in
                [("p50", latency.p50), ("p99", latency.p99), ("p999", latency.p999), ("max", latency.max)]
            {
                line(*frame_bytes, &format!("latency_{name}"), &format!("{} of rate", found.of_rate), value, "us");
            }
        }
        for At { frame_bytes, found } in &search.loss_curve {
            line(*frame_bytes, "loss_ratio", &format!("{} Mpps", found.offered_mpps), found.loss_ratio, "ratio");
        }
        for (name, equal) in [("determinism", &search.determinism), ("soak", &search.soak)] {
            for At { frame_bytes, found } in equal {
                line(*frame_bytes, "variation", name, found.forwarded_mpps.variation, "ratio");
                line(*frame_bytes, "lost_packets", name, found.lost_packets as f64, "packets");
            }
        }
    }
    out
}

fn of_report(report: &Report, out: &mut String) {
    let (workers, instances) = (report.workers.to_string(), report.instances.to_string());
    let mut line = |what: &str, of: &str, value: f64, unit: &str| {
        let Report { profile, gateway, port, .. } = report;
        let cells: [&str; 8] = [profile, gateway, port, &workers, &instances, "", what, of];
        push(out, &cells, value, unit, &report.date);
    };
    line("rate", "", report.mpps, "Mpps");
    line("rate_l2", "", report.gbps_l2, "Gbit/s");
    line("loss_ratio", "", report.loss_ratio, "ratio");
    let cost = &report.cost;
    for (of, value) in [
        ("receive", cost.trx_ns),
        ("process", cost.tc_ns),
        ("send", cost.ttx_ns),
        ("other", cost.other_ns),
        ("all", cost.tp_ns),
    ] {
        line("cost", of, value, "ns/packet");
    }
    for stage in &cost.stages {
        line("stage", &format!("{}.{}", stage.direction, stage.name), stage.ns_per_packet, "ns/packet");
    }
    for (way, direction) in [("uplink", &report.directions.uplink), ("downlink", &report.directions.downlink)] {
        let latency = &direction.latency_us;
        let quantiles = [("p50", latency.p50), ("p99", latency.p99), ("p999", latency.p999), ("max", latency.max)];
        for (name, value) in quantiles.iter().filter(|_| latency.max > 0.0) {
            line(&format!("latency_{name}"), way, *value, "us");
        }
    }
    for (reason, packets) in report.drops.iter().chain(&report.lost_at_ports) {
        line("drops", reason, *packets as f64, "packets");
    }
}

fn push(out: &mut String, cells: &[&str], value: f64, unit: &str, date: &str) {
    for cell in cells {
        // No name has a quotation mark or a comma but those of files, which are not here.
        out.push_str(&cell.replace([',', '"', '\n'], " "));
        out.push(',');
    }
    out.push_str(&format!("{value},{unit},{date}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_all_columns() {
        let mut report = Report { profile: "fwa".into(), mpps: 2.5, ..Report::default() };
        report.drops.insert("uplink.acl.denied, by rule".to_owned(), 3);
        let text = text(&Results { reports: vec![report], ..Results::default() });
        let columns = HEAD.matches(',').count();
        assert!(text.lines().all(|line| line.matches(',').count() == columns), "{text}");
        assert!(text.contains("fwa,,,0,0,,rate,,2.5,Mpps,"), "{text}");
    }
}
