//! A certificate for terminals.

use std::fmt::Write as _;

use certificate::{Allowance, Band, BurstUnit, Certificate, FlowKey};
use gateway::tables::{Style, Table, count};
use html::chart::number;

use super::page::{limiter, rate, way};

/// All sections.
pub fn certificate(certificate: &Certificate, style: Style) -> String {
    let Certificate { host, run, .. } = certificate;
    let machine = host.machine_type.as_deref().unwrap_or("machine type not told by the firmware");
    let mut out = format!("{} · {machine} · {} · {} CPUs\n", style.strong(&host.hostname), host.cpu, host.cpus);
    let _ = writeln!(out, "{} · {} over {} · {:.0} s\n", certificate.date, run.command, run.port, run.seconds);
    let mut table = Table::new(&["", ">queues", ">frame", ">Mpps", ">low", ">high", ">Gbit/s", ""]);
    let band = |band: &Band| [band.mid, band.low, band.high].map(|mpps| format!("{mpps:.3}"));
    for one in &certificate.generator {
        let [mid, low, high] = band(&one.arrived_mpps);
        let size = format!("{} B", one.frame_bytes);
        let empty = String::new;
        table.row(["generator alone".into(), empty(), size, mid, low, high, empty(), empty()]);
    }
    for one in &certificate.rates {
        let [mid, low, high] = band(&one.mpps);
        let note = if one.is_generator_limited { "all that was sent" } else { "" };
        let (size, gbps) = (format!("{} B", one.frame_bytes), format!("{:.2}", one.gbps_l2));
        table.row([one.task.word().into(), one.queues.to_string(), size, mid, low, high, gbps, note.into()]);
    }
    if !(certificate.generator.is_empty() && certificate.rates.is_empty()) {
        out += &table.render(style);
    }
    out += &flows(certificate, style);
    if let Some(latency) = &certificate.latency {
        let _ = writeln!(
            out,
            "\nlatency: floor {:.1} µs; found {:.3} Mpps with at most {:.1} % loss",
            latency.floor_us,
            latency.found_mpps,
            latency.loss_ratio * 100.0
        );
        for at in &latency.at {
            let (part, lost) = (at.of_rate_ratio * 100.0, at.loss_ratio * 100.0);
            let _ =
                writeln!(out, "  at {part:.0} %: p50 {:.1} µs, p99 {:.1} µs, lost {lost:.2} %", at.p50_us, at.p99_us);
        }
    }
    if let Some(spread) = &certificate.spread {
        let (trials, seconds) = (spread.mpps.samples.len(), spread.trial_seconds);
        let [mid, low, high] = band(&spread.mpps);
        let variation = spread.variation_ratio * 100.0;
        let _ = writeln!(
            out,
            "\n{trials} equal trials of {seconds:.1} s: {mid} Mpps ({low} to {high}), variation {variation:.1} %"
        );
    }
    for one in &certificate.gateways {
        let _ = write!(
            out,
            "\n{} {}: {:.3} Mpps ({:.3} to {:.3}) both directions, {} subscribers",
            one.gateway,
            one.profile,
            one.mpps.mid,
            one.mpps.low,
            one.mpps.high,
            count(one.subscribers)
        );
        if one.cycles_per_packet > 0.0 {
            let _ = write!(out, ", {:.0} cycles a packet", one.cycles_per_packet);
        }
        if one.packets_per_burst > 0.0 {
            let _ = write!(out, ", {:.1} packets a burst", one.packets_per_burst);
        }
        out.push('\n');
    }
    for one in &certificate.allowances {
        let _ = writeln!(out, "\n{}", allowance(one));
    }
    for one in &certificate.skipped {
        let _ = writeln!(out, "\nnot measured: {}: {}", one.what, one.why);
    }
    for note in &certificate.notes {
        let _ = writeln!(out, "note: {note}");
    }
    let _ = writeln!(out, "\npublic key {}\nSHA-256    {}", certificate.public_key, certificate.content_sha256);
    out
}

fn flows(certificate: &Certificate, style: Style) -> String {
    let mut table = Table::new(&[">flows", ">by 5-tuple Mpps", ">by 3-tuple Mpps"]);
    let mut numbers: Vec<u32> = certificate.flows.iter().map(|one| one.flows).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.is_empty() {
        return String::new();
    }
    for flows in numbers {
        let of = |by: FlowKey| {
            let found = certificate.flows.iter().find(|one| one.flows == flows && one.by == by);
            found.map_or_else(|| "–".to_owned(), |one| format!("{:.3}", one.mpps.mid))
        };
        table.row([count(flows.into()), of(FlowKey::FiveTuple), of(FlowKey::ThreeTuple)]);
    }
    format!("\n{}", table.render(style))
}

/// An allowance in a sentence.
pub fn allowance(one: &Allowance) -> String {
    let unit = if one.unit == BurstUnit::Bytes { "bytes" } else { "packets" };
    let amount = |units: f64| match one.unit {
        BurstUnit::Bytes => format!("{} GB", number(units / 1e9)),
        BurstUnit::Packets => format!("{} million packets", number(units / 1e6)),
    };
    let head = format!("burst credit, {} {unit}: peak {}", way(one.direction), rate(one.peak_per_second, one.unit));
    if one.is_lower_bound {
        let depth = one.depth.map_or_else(String::new, |depth| format!(", B ≥ {}", amount(depth)));
        return format!("{head} to the end of {:.1} s{depth}: not exhausted", one.peak_seconds);
    }
    let refill =
        one.refill_per_second.map_or_else(String::new, |refill| format!(", refill {}", rate(refill, one.unit)));
    let confirmed = match one.is_confirmed {
        Some(true) => "confirmed at 0.98 and 1.02 of the baseline",
        Some(false) => "not confirmed at 0.98 and 1.02 of the baseline",
        None => "baseline not confirmed",
    };
    format!(
        "{head} for {:.1} s, then baseline {}; B = {}{refill}; {confirmed}; {}",
        one.peak_seconds,
        rate(one.baseline_per_second, one.unit),
        amount(one.depth.unwrap_or(0.0)),
        limiter(one.limiter),
    )
}
