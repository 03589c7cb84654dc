//! A certificate as a page.

use certificate::{Band, BurstUnit, Certificate, Direction, FlowKey, Limiter};
use html::chart::{Axes, Line, lines, number};
use html::svg::{Bar, bars, escape};
use html::{begin, figure, list, section, table};

/// The whole page.
pub fn page(certificate: &Certificate) -> String {
    let of = certificate.host.machine_type.as_deref().unwrap_or(&certificate.host.hostname);
    let mut out = begin(&format!("Capacity certificate: {of}"));
    out += &lead(certificate);
    out += &notes(certificate);
    out += &rates(certificate);
    out += &flows(certificate);
    out += &latency(certificate);
    out += &spread(certificate);
    out += &gateways(certificate);
    out += &allowances(certificate);
    out += &conditions(certificate);
    out + "<footer>Made by weir probe. Mpps: millions of packets a second in one direction, each counted once; frame \
           sizes \
           with FCS; Gbit/s: Ethernet frames without FCS, preamble and gap. Ranges are from the smallest sample to the \
           largest.</footer></main></body></html>\n"
}

fn lead(certificate: &Certificate) -> String {
    let mut tiles: Vec<(String, String)> = Vec::new();
    let best = certificate.rates.iter().filter(|rate| rate.task == certificate::Task::Forward);
    if let Some(best) = best.max_by(|a, b| a.mpps.mid.total_cmp(&b.mpps.mid)) {
        let what = format!("forwarded, {} B frames, {}", best.frame_bytes, queues(best.queues));
        tiles.push((format!("{} Mpps", number(best.mpps.mid)), what));
    }
    if let Some(most) = certificate.rates.iter().max_by(|a, b| a.gbps_l2.total_cmp(&b.gbps_l2)) {
        let what = format!("{}, {} B frames, {}", most.task.word(), most.frame_bytes, queues(most.queues));
        tiles.push((format!("{} Gbit/s", number(most.gbps_l2)), what));
    }
    if let Some(latency) = certificate.latency.as_ref().filter(|_| certificate.rates.is_empty()) {
        let what = format!("forwarded with at most {} of loss", percent(latency.loss_ratio));
        tiles.push((format!("{} Mpps", number(latency.found_mpps)), what));
    }
    if let Some(latency) = &certificate.latency {
        tiles.push((format!("{} µs", number(latency.floor_us)), "latency at 100 packets a second, median".to_owned()));
    }
    for one in certificate.allowances.iter().take(2) {
        let what = format!("baseline, {} {}", way(one.direction), unit(one.unit));
        tiles.push((rate(one.baseline_per_second, one.unit), what));
    }
    let tile = |(big, small): &(String, String)| {
        format!("<div class='tile'><b>{}</b><span>{}</span></div>", escape(big), escape(small))
    };
    let state = if certificate.run.is_complete { "" } else { ", incomplete" };
    let lead = format!("{}, {}{state}", certificate.date, certificate.run.command);
    let tiles: String = tiles.iter().map(tile).collect();
    format!("<p class='lead'>{}</p><div class='tiles'>{tiles}</div>", escape(&lead))
}

fn notes(certificate: &Certificate) -> String {
    let mut all = certificate.notes.clone();
    if certificate.host.steal_ratio > 0.01 {
        let steal = percent(certificate.host.steal_ratio);
        all.push(format!("the hypervisor gave {steal} of the processors' time to others while this was measured"));
    }
    if certificate.rates.iter().any(|rate| rate.is_generator_limited) {
        all.push(
            "at some rates the generator had no more to give (named there): the machine may carry more".to_owned(),
        );
    }
    let skipped = certificate.skipped.iter().map(|skipped| format!("not measured: {}: {}", skipped.what, skipped.why));
    all.extend(skipped);
    if all.is_empty() {
        return String::new();
    }
    section("What to know before reading", &format!("<div class='note'>{}</div>", list(all.iter())))
}

fn rates(certificate: &Certificate) -> String {
    if certificate.rates.is_empty() && certificate.generator.is_empty() {
        return String::new();
    }
    let mut all = Vec::new();
    for one in &certificate.generator {
        let name = format!("generator alone, {} B", one.frame_bytes);
        all.push(bar(name, &one.arrived_mpps, format!("{} Mpps", number(one.arrived_mpps.mid)), "c"));
    }
    for one in &certificate.rates {
        let queues = queues(one.queues);
        let limited = if one.is_generator_limited { ", all that was sent" } else { "" };
        let says = format!("{} Mpps, {} Gbit/s{limited}", number(one.mpps.mid), number(one.gbps_l2));
        let class = if one.frame_bytes <= 64 { "a" } else { "b" };
        all.push(bar(format!("{}, {queues}, {} B", one.task.word(), one.frame_bytes), &one.mpps, says, class));
    }
    section("Rate by task, queues and frame size", &figure(&bars(&all)))
}

fn bar(name: String, band: &Band, says: String, class: &'static str) -> Bar {
    Bar { range: Some((band.low, band.high)), ..Bar::new(name, band.mid, says, class) }
}

fn flows(certificate: &Certificate) -> String {
    if certificate.flows.is_empty() {
        return String::new();
    }
    let mut places: Vec<u32> = certificate.flows.iter().map(|one| one.flows).collect();
    places.sort_unstable();
    places.dedup();
    let keys =
        [(FlowKey::FiveTuple, "by 5-tuple: ports differ"), (FlowKey::ThreeTuple, "by 3-tuple: addresses differ")];
    let line = |(n, (by, name)): (usize, &(FlowKey, &str))| {
        let of = certificate.flows.iter().filter(|one| one.by == *by);
        let place = |flows| places.iter().position(|place| *place == flows).unwrap_or(0) as f64;
        Line::new(*name, of.map(|one| (place(one.flows), one.mpps.mid)).collect(), n)
    };
    let all: Vec<Line> = keys.iter().enumerate().map(line).collect();
    let axes = Axes {
        across: "flows".to_owned(),
        up: "Mpps forwarded, 64 B frames".to_owned(),
        places: places.iter().map(ToString::to_string).collect(),
        is_log: false,
    };
    section("Forwarded by number of flows", &figure(&lines(&all, &axes)))
}

fn latency(certificate: &Certificate) -> String {
    let Some(latency) = &certificate.latency else { return String::new() };
    let rows: Vec<(bool, Vec<String>)> = latency
        .at
        .iter()
        .map(|at| {
            let cells = [at.offered_mpps, at.p50_us, at.p99_us].map(number);
            (false, [vec![percent(at.of_rate_ratio)], cells.to_vec(), vec![percent(at.loss_ratio)]].concat())
        })
        .collect();
    let heads = ["of the rate", ">offered Mpps", ">p50 µs", ">p99 µs", ">lost"];
    let lead = format!(
        "<p>Rate found with at most {} loss, {} B frames{}: {} Mpps. Floor, at 100 packets a second: {} \
         µs.</p>",
        percent(latency.loss_ratio),
        latency.frame_bytes,
        if certificate.rates.is_empty() { "" } else { ", one queue" },
        number(latency.found_mpps),
        number(latency.floor_us),
    );
    section("Latency", &format!("{lead}{}", table(&heads, &rows)))
}

fn spread(certificate: &Certificate) -> String {
    let Some(spread) = &certificate.spread else { return String::new() };
    let points = spread.mpps.samples.iter().enumerate().map(|(n, mpps)| (n as f64, *mpps)).collect();
    let axes = Axes {
        across: format!("equal trials of {} s", number(spread.trial_seconds)),
        up: "Mpps forwarded".to_owned(),
        places: (1..=spread.mpps.samples.len()).map(|n| n.to_string()).collect(),
        is_log: false,
    };
    let says = format!(
        "<p>{} Mpps offered in each: {} to {} Mpps forwarded, variation {}, lost {}.</p>",
        number(spread.offered_mpps),
        number(spread.mpps.low),
        number(spread.mpps.high),
        percent(spread.variation_ratio),
        percent(spread.loss_ratio),
    );
    let chart = figure(&lines(&[Line::new("forwarded", points, 0)], &axes));
    section("Equal trials", &format!("{says}{chart}"))
}

fn gateways(certificate: &Certificate) -> String {
    if certificate.gateways.is_empty() {
        return String::new();
    }
    let row = |one: &certificate::GatewayRate| {
        let numbers = [one.mpps.mid, one.cycles_per_packet, one.packets_per_burst, one.frame_bytes_mean]
            .map(|value| if value > 0.0 { number(value) } else { "not known".to_owned() });
        let workers = if one.workers > 0 { one.workers.to_string() } else { "not known".to_owned() };
        let names = [format!("{}, {}", one.gateway, one.profile), workers, one.subscribers.to_string()];
        (false, [names.to_vec(), numbers.to_vec()].concat())
    };
    let heads =
        ["gateway", ">workers", ">subscribers", ">Mpps", ">cycles a packet", ">packets a burst", ">frame bytes"];
    let rows: Vec<_> = certificate.gateways.iter().map(row).collect();
    section("Gateways on this machine, both directions", &table(&heads, &rows))
}

fn allowances(certificate: &Certificate) -> String {
    let mut out = String::new();
    for one in &certificate.allowances {
        let scale = if one.unit == BurstUnit::Bytes { 8e-9 } else { 1e-6 };
        let (name, up) = match one.unit {
            BurstUnit::Bytes => ("bytes", "Gbit/s"),
            BurstUnit::Packets => ("packets", "Mpps"),
        };
        let points = one.samples.iter().map(|[at, rate]| (*at, rate * scale)).collect();
        let axes = Axes { across: "seconds from rest".into(), up: up.into(), places: vec![], is_log: false };
        let last = one.samples.last().map_or(0.0, |sample| sample[0]);
        let baseline = vec![(0.0, one.baseline_per_second * scale), (last, one.baseline_per_second * scale)];
        let fitted = Line { line_only: true, ..Line::new("baseline", baseline, 1) };
        let measured = Line { dots_only: true, ..Line::new("measured", points, 0) };
        let says = format!("<p>{}</p>", escape(&super::text::allowance(one)));
        let chart = figure(&lines(&[fitted, measured], &axes));
        out += &section(&format!("Burst credit: {} {name}", way(one.direction)), &format!("{says}{chart}"));
    }
    out
}

fn conditions(certificate: &Certificate) -> String {
    let Certificate { host, run, .. } = certificate;
    let text = |value: &str| value.to_owned();
    let rows = [
        ("machine", host.machine_type.clone().unwrap_or_else(|| "not told by the firmware".to_owned())),
        ("host", text(&host.hostname)),
        ("processor", format!("{}, {} CPUs, {}, counter {} GHz", host.cpu, host.cpus, host.arch, number(host.tsc_ghz))),
        ("kernel", text(&host.kernel)),
        ("interfaces", format!("{}, {}, ports {}", host.interface, queues(host.queues), run.port)),
        ("place", text(&run.place)),
        ("took", format!("{} s", number(run.seconds))),
        ("steal", percent(host.steal_ratio)),
        ("weir", text(&certificate.version)),
        ("public key", text(&certificate.public_key)),
        ("content, SHA-256", text(&certificate.content_sha256)),
    ];
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| (false, vec![name.to_owned(), value])).collect();
    section("What was run, on what", &table(&["", ""], &rows))
}

fn queues(count: u16) -> String {
    if count == 1 { "1 queue".to_owned() } else { format!("{count} queues") }
}

fn percent(ratio: f64) -> String {
    format!("{} %", number(ratio * 100.0))
}

/// Received or sent.
pub fn way(direction: Direction) -> &'static str {
    match direction {
        Direction::In => "in",
        Direction::Out => "out",
    }
}

fn unit(unit: BurstUnit) -> &'static str {
    match unit {
        BurstUnit::Bytes => "bytes",
        BurstUnit::Packets => "packets",
    }
}

/// A rate in the unit that people use for it.
pub fn rate(per_second: f64, unit: BurstUnit) -> String {
    match unit {
        BurstUnit::Bytes => format!("{} Gbit/s", number(per_second * 8e-9)),
        BurstUnit::Packets => format!("{} Mpps", number(per_second * 1e-6)),
    }
}

/// What happens over the limit.
pub fn limiter(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::Shaper => "shaper: packets over it wait",
        Limiter::Policer => "policer: packets over it are dropped",
        Limiter::None => "no limit was found",
    }
}
