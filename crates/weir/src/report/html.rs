//! The page.

use ::bench::cmts::Difference;
use ::bench::experiment::ExperimentReport;
use ::bench::report::Report;
use ::bench::search::spread::Equal;
use ::bench::searching::{At, SearchReport};
use capacity::scaling::Usl;

use super::read::{Results, name};
use super::{caveats, published};
use html::chart::{Axes, Line, Part, lines, number, stacked};
use html::svg::{Bar, bars, escape};
use html::{begin, figure, list, section, table};

/// Lines of a chart, at most: more cannot be told apart.
const MOST_LINES: usize = 8;

/// The whole page.
pub fn page(title: &str, results: &Results) -> String {
    let mut out = begin(title);
    out += &lead(results);
    out += &notes(results);
    out += &rates(results);
    out += &sizes(results);
    out += &goals(results);
    out += &loss(results);
    out += &latency(results);
    out += &cost(results);
    out += &scale(results);
    out += &results.experiments.iter().map(experiment).collect::<String>();
    out += &equal(results);
    out += &drops(results);
    out += &beside(results);
    out += &conditions(results);
    out + "<footer>Made by weir report from results of weir bench. Mpps: millions of packets forwarded a second, both \
           directions together; Gbit/s: Ethernet frames without preamble, gap and FCS, with the access side's larger \
           encapsulation.</footer></main></body></html>\n"
}

fn lead(results: &Results) -> String {
    let mut tiles: Vec<(String, String)> = Vec::new();
    if let Some(best) = results.every_report().max_by(|a, b| a.mpps.total_cmp(&b.mpps)) {
        tiles.push((format!("{} Mpps", number(best.mpps)), format!("the most forwarded: {}", name(best))));
        tiles.push((format!("{} Gbit/s", number(best.gbps_l2)), format!("in that trial, {} workers", best.workers)));
    }
    for search in results.searches.iter().take(2) {
        let found = search.results.iter().find(|at| at.found.is_complete && at.found.loss_ratio == 0.0);
        if let Some(mpps) = found.and_then(|at| at.found.mpps_lower) {
            let what = format!("without loss: {} over {}", search.profile, search.port);
            tiles.push((format!("{} Mpps", number(mpps)), what));
        }
    }
    let cheapest = results.reports.iter().filter(|report| report.cost.tc_ns > 0.0);
    if let Some(least) = cheapest.min_by(|a, b| a.cost.tc_ns.total_cmp(&b.cost.tc_ns)) {
        let what = format!("processing of a packet: {}", name(least));
        tiles.push((format!("{} ns", number(least.cost.tc_ns)), what));
    }
    let tile = |(big, small): &(String, String)| {
        format!("<div class='tile'><b>{}</b><span>{}</span></div>", escape(big), escape(small))
    };
    let mut dates: Vec<&str> = results.every_report().map(|report| report.date.as_str()).collect();
    dates.extend(results.searches.iter().map(|search| search.date.as_str()));
    dates.sort_unstable();
    let when = match (dates.first(), dates.last()) {
        (Some(first), Some(last)) if first != last => format!(", measured {first} to {last}"),
        (Some(first), _) => format!(", measured {first}"),
        _ => String::new(),
    };
    let count = results.count();
    let lead = format!("<p class='lead'>{}{}</p>", gateway::tables::many(count, "result"), escape(&when));
    format!("{lead}<div class='tiles'>{}</div>", tiles.iter().map(tile).collect::<String>())
}

fn notes(results: &Results) -> String {
    let caveats = caveats::caveats(results);
    if caveats.is_empty() {
        return String::new();
    }
    section("What to know before reading", &format!("<div class='note'>{}</div>", list(caveats.iter())))
}

fn rates(results: &Results) -> String {
    if results.reports.is_empty() {
        return String::new();
    }
    let bar = |report: &Report| {
        let says = format!("{} Mpps, {} Gbit/s", number(report.mpps), number(report.gbps_l2));
        Bar::new(name(report), report.mpps, says, "a")
    };
    let mut all: Vec<Bar> = Vec::new();
    for report in &results.reports {
        all.push(bar(report));
        if !report.reference.name.is_empty() && report.reference.mpps > 0.0 {
            let says = format!(
                "{} Mpps; the gateway {} of it",
                number(report.reference.mpps),
                percent(report.reference.ratio)
            );
            all.push(Bar::new(report.reference.name.clone(), report.reference.mpps, says, "c"));
        }
        if let Some(disturbed) = &report.disturbed {
            let says = format!("{} Mpps, {} of it", number(disturbed.mpps), percent(disturbed.mpps_ratio));
            let what = format!("beside a noisy neighbour ({})", disturbed.neighbour.word());
            all.push(Bar::new(what, disturbed.mpps, says, "c"));
        }
    }
    section("Rate, and what the same run measured beside it", &figure(&bars(&all)))
}

/// Searches with frames of several sizes.
fn sizes(results: &Results) -> String {
    let (mut mpps, mut gbps) = (Vec::new(), Vec::new());
    let mut places: Vec<u16> =
        results.searches.iter().flat_map(|search| &search.results).filter_map(|at| at.frame_bytes).collect();
    places.sort_unstable();
    places.dedup();
    if places.len() < 2 {
        return String::new();
    }
    for search in &results.searches {
        let mut goals: Vec<&str> = search.results.iter().map(|at| at.found.goal.as_str()).collect();
        goals.dedup();
        goals.sort_unstable();
        goals.dedup();
        for goal in goals {
            let point = |at: &At<_>| point(at, goal, &places);
            let points: Vec<(f64, f64, u16)> = search.results.iter().filter_map(point).collect();
            let label = format!("{} over {}, {goal}", search.profile, search.port);
            let n = mpps.len();
            mpps.push(Line::new(label.clone(), points.iter().map(|p| (p.0, p.1)).collect(), n));
            let bits = |p: &(f64, f64, u16)| (p.0, p.1 * (f64::from(p.2) - 4.0) * 8.0 / 1e3);
            gbps.push(Line::new(label, points.iter().map(bits).collect(), n));
        }
    }
    mpps.truncate(MOST_LINES);
    gbps.truncate(MOST_LINES);
    let names: Vec<String> = places.iter().map(ToString::to_string).collect();
    let axes = |up: &str| Axes {
        across: "frame size, bytes with FCS".to_owned(),
        up: up.to_owned(),
        places: names.clone(),
        is_log: false,
    };
    let packets = figure(&lines(&mpps, &axes("Mpps, lower bound")));
    let bits = figure(&lines(&gbps, &axes("Gbit/s, frames without FCS")));
    section("Throughput by frame size", &format!("{packets}<p></p>{bits}"))
}

fn point(at: &At<::bench::search::mlr::Found>, goal: &str, places: &[u16]) -> Option<(f64, f64, u16)> {
    let size = at.frame_bytes.filter(|_| at.found.goal == goal)?;
    let place = places.iter().position(|known| *known == size)?;
    Some((place as f64, at.found.mpps_lower?, size))
}

fn goals(results: &Results) -> String {
    let mut rows = Vec::new();
    for search in &results.searches {
        for At { frame_bytes, found } in &search.results {
            let bound = |mpps: Option<f64>| mpps.map_or_else(|| "–".to_owned(), number);
            let what = match (found.is_complete, found.mpps_upper.is_some(), found.generator_limited) {
                (false, ..) => "not narrowed to the goal's width",
                (true, false, _) => "the largest load goes through",
                (true, _, true) => "limited by the generator",
                _ => "",
            };
            let cells = [
                format!("{} over {}", search.profile, search.port),
                found.goal.clone(),
                frame(*frame_bytes),
                percent(found.loss_ratio),
                bound(found.mpps_lower),
                bound(found.mpps_upper),
                bound(found.mpps_conditional),
                found.likely.map_or_else(|| "–".to_owned(), |likely| likely.text(number)),
                found.trials.to_string(),
                what.to_owned(),
            ];
            rows.push((false, cells.to_vec()));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let heads = [
        "workload",
        "goal",
        ">frames",
        ">loss allowed",
        ">lower, Mpps",
        ">upper, Mpps",
        ">conditional, Mpps",
        ">trials",
        "",
    ];
    section("Rates found by searches", &table(&heads, &rows))
}

fn loss(results: &Results) -> String {
    let mut curves = Vec::new();
    for search in &results.searches {
        let mut sizes: Vec<Option<u16>> = search.loss_curve.iter().map(|at| at.frame_bytes).collect();
        sizes.dedup();
        for size in sizes {
            let of = search.loss_curve.iter().filter(|at| at.frame_bytes == size);
            let points = of.map(|at| (at.found.offered_mpps, at.found.loss_ratio * 100.0)).collect();
            let label = format!("{} over {}, {}", search.profile, search.port, frame(size));
            curves.push(Line::new(label, points, curves.len()));
        }
        if search.loss_curve.is_empty() {
            curves.extend(trials(search, curves.len()));
        }
    }
    if curves.is_empty() {
        return String::new();
    }
    curves.truncate(MOST_LINES);
    let axes = Axes { across: "offered, Mpps".to_owned(), up: "lost, %".to_owned(), ..Axes::default() };
    section("Loss by load", &figure(&lines(&curves, &axes)))
}

/// The trials of a search without a curve are one themselves.
fn trials(search: &SearchReport, class: usize) -> Option<Line> {
    let size = search.trials.first()?.frame_bytes;
    let of = search.trials.iter().filter(|trial| trial.frame_bytes == size);
    let points: Vec<(f64, f64)> = of.map(|trial| (trial.found.offered_mpps, trial.found.loss_ratio * 100.0)).collect();
    let label = format!("{} over {}, trials of the search", search.profile, search.port);
    Some(Line { dots_only: true, ..Line::new(label, points, class) })
}

fn latency(results: &Results) -> String {
    let quantiles = |l: &traffic::LatencySummary| vec![(0.0, l.p50), (1.0, l.p99), (2.0, l.p999), (3.0, l.max)];
    let mut all = Vec::new();
    for search in &results.searches {
        let sizes: Vec<Option<u16>> = search.latency.first().map(|at| at.frame_bytes).into_iter().collect();
        for at in search.latency.iter().filter(|at| sizes.contains(&at.frame_bytes)) {
            if let Some(latency) = &at.found.latency_us {
                let of = format!("{:.0} % of the rate", at.found.of_rate * 100.0);
                let label = format!("{} over {}, {of}", search.profile, search.port);
                all.push(Line::new(label, quantiles(latency), all.len()));
            }
        }
    }
    for report in &results.reports {
        let directions = [("uplink", &report.directions.uplink), ("downlink", &report.directions.downlink)];
        for (direction, result) in directions.iter().filter(|(_, result)| result.latency_us.max > 0.0) {
            let label = format!("{}, {direction}", name(report));
            all.push(Line::new(label, quantiles(&result.latency_us), all.len()));
        }
    }
    if all.is_empty() {
        return String::new();
    }
    all.truncate(MOST_LINES);
    let axes = Axes {
        across: "of packets, so many are faster".to_owned(),
        up: "latency, µs".to_owned(),
        places: ["50 %", "99 %", "99.9 %", "all"].map(str::to_owned).to_vec(),
        is_log: true,
    };
    section("Latency distribution", &figure(&lines(&all, &axes)))
}

fn cost(results: &Results) -> String {
    let costs: Vec<&Report> = results
        .reports
        .iter()
        .chain(results.searches.iter().filter_map(|search| search.at_ndr.as_ref()))
        .filter(|report| report.cost.tp_ns > 0.0)
        .collect();
    if costs.is_empty() {
        return String::new();
    }
    let text = "<p class='lead'>Nanoseconds of the gateway's thread by packet. Stages count by the part of the packets that \
                reach them; receiving and sending in memory are generator and checker.</p>";
    // Input and output cost many times what a gateway does, and gateways have other stages: beside each other, stages
    // could not be seen.
    let mut groups: Vec<(String, Vec<&Report>)> = Vec::new();
    for report in costs {
        let where_ = if report.port == "memory" { "in memory" } else { "on interfaces" };
        let group = format!("{}, {where_}", report.gateway);
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, reports)) => reports.push(report),
            None => groups.push((group, vec![report])),
        }
    }
    let chart = |(group, reports): (String, Vec<&Report>)| {
        let mut leading = leading_stages(&reports);
        leading.truncate(6);
        let rows: Vec<(String, Vec<Part>)> =
            reports.iter().take(MOST_LINES).map(|report| (name(report), parts(report, &leading))).collect();
        format!("<h3>{}</h3>{}", escape(&group), figure(&stacked(&rows, "ns")))
    };
    let charts: String = groups.into_iter().map(chart).collect();
    section("What a packet costs, by stage", &(text.to_owned() + &charts))
}

/// What a stage costs each packet, whether it reaches the stage or not.
fn of_each(report: &Report, stage: &str) -> f64 {
    let entered =
        |way: &str| report.cost.stages.iter().filter(|s| s.direction == way).map(|s| s.packets).max().unwrap_or(0);
    let all = (entered("uplink") + entered("downlink"))
        .max(report.cost.stages.iter().map(|stage| stage.packets).max().unwrap_or(1))
        .max(1) as f64;
    let of = report.cost.stages.iter().filter(|one| one.name == stage);
    of.map(|one| one.ns_per_packet * one.packets as f64 / all).sum()
}

/// Stages by what they cost, the dearest first.
fn leading_stages(reports: &[&Report]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for stage in reports.iter().flat_map(|report| &report.cost.stages) {
        if !names.contains(&stage.name) {
            names.push(stage.name.clone());
        }
    }
    let most = |stage: &str| reports.iter().map(|report| of_each(report, stage)).fold(0.0, f64::max);
    names.sort_by(|a, b| most(b).total_cmp(&most(a)));
    names
}

fn parts(report: &Report, leading: &[String]) -> Vec<Part> {
    let cost = &report.cost;
    let part = |name: &str, value: f64| Part { name: name.to_owned(), value: value.max(0.0) };
    let mut parts = vec![part("receive", cost.trx_ns)];
    parts.extend(leading.iter().map(|stage| part(stage, of_each(report, stage))));
    let shown: f64 = parts.iter().skip(1).map(|part| part.value).sum();
    parts.push(part("other stages", cost.tc_ns - shown));
    parts.push(part("send", cost.ttx_ns));
    parts.push(part("everything else", cost.other_ns));
    parts
}

fn scale(results: &Results) -> String {
    let mut out = String::new();
    for scale in &results.scales {
        let points: Vec<(f64, f64)> = scale.rows.iter().map(|row| (f64::from(row.count), row.mpps)).collect();
        let Some(first) = scale.results.first() else { continue };
        let mut all = vec![Line { dots_only: true, ..Line::new("measured", points.clone(), 0) }];
        let most = points.iter().map(|point| point.0).fold(1.0, f64::max);
        let mut text = String::from("<p>Too few points for a fit.</p>");
        let of_each: Vec<(f64, f64)> = points.iter().map(|(n, mpps)| (*n, mpps / n.max(1.0))).collect();
        if let Some(usl) = (points.len() >= 3).then(|| Usl::fit(&of_each)).flatten() {
            let curve = (0..=20).map(|n| 1.0 + (most - 1.0) * f64::from(n) / 20.0).map(|n| (n, usl.total(n))).collect();
            let fit = format!("fit: λ {} Mpps, σ {:.3}, κ {:.4}", number(usl.lambda), usl.sigma, usl.kappa);
            all.push(Line { line_only: true, ..Line::new(fit, curve, 1) });
            text = "<p>Universal Scalability Law: λ is what one alone forwards, σ the part of the work that waits for what \
                    is shared, κ the price of agreeing.</p>"
                .to_owned();
        }
        let linear =
            points.first().map(|(n, mpps)| (0..=1).map(|at| f64::from(at) * most).map(|x| (x, x * mpps / n)).collect());
        all.extend(linear.map(|line| Line { line_only: true, ..Line::new("proportional", line, 9) }));
        let what = match scale.axis {
            ::bench::scale::Axis::Instances => "instances",
            ::bench::scale::Axis::Fanout => "workers",
        };
        let axes = Axes { across: what.to_owned(), up: "Mpps together".to_owned(), ..Axes::default() };
        out += &section(&format!("Scale-out: {}, {what}", name(first)), &(figure(&lines(&all, &axes)) + &text));
    }
    out
}

/// An experiment: what it found point by point, what it did not run, what differs from its publication.
fn experiment(one: &ExperimentReport) -> String {
    let (axes, columns) = (&one.axes, one.columns());
    let heads: Vec<String> = axes
        .iter()
        .map(|key| format!("={key}"))
        .chain(columns.iter().map(|column| format!(">{}", column.head)))
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let row = |row: &::bench::experiment::Row| {
        let values = axes.iter().map(|key| row.values.get(key).cloned().unwrap_or_default());
        (false, values.chain(columns.iter().map(|column| column.cell(row.metrics.get(column.name)))).collect())
    };
    let rows: Vec<(bool, Vec<String>)> = one.rows.iter().map(row).collect();
    let port = if one.port.is_empty() { String::new() } else { format!(", over {}", one.port) };
    let mut text = format!("<p class='lead'>{}{}</p>", escape(&one.title), escape(&port));
    text += &by_axis(one);
    text += &table(&heads, &rows);
    let not_run = one.not_run().into_iter().map(|line| format!("not run: {line}"));
    let differs = one.differs.iter().map(|differs| format!("differs from the publication: {differs}"));
    let said: Vec<String> = not_run.chain(one.notes.iter().cloned()).chain(differs).collect();
    if !said.is_empty() {
        text += &list(said.iter());
    }
    let published = published::figures(&one.figures).into_iter().map(|figure| {
        let value = format!("{} {}", figure.value, figure.unit);
        (false, vec![value, figure.quantity, figure.conditions, figure.source])
    });
    let published: Vec<_> = published.collect();
    if !published.is_empty() {
        text += &table(&["=published", "of", "conditions there", "=publication"], &published);
    }
    section(&format!("Experiment: {}", one.experiment), &text)
}

/// The rate by what is varied, where that is one number of one or several sections of the experiment.
fn by_axis(one: &ExperimentReport) -> String {
    let has = |name: &&str| one.rows.iter().any(|row| row.metrics.contains_key(*name));
    let rate = if one.cable_results.is_empty() { "mpps" } else { "gbps_l2" };
    let Some(metric) = ["sessions_per_second", "uplink_p50_us", rate].into_iter().find(has) else {
        return String::new();
    };
    let up = one.columns().into_iter().find(|column| column.name == metric).map_or("", |column| column.head);
    let mut across = String::new();
    let mut all: Vec<Line> = Vec::new();
    for axis in &one.axes {
        // Of rows with the same other values, a line.
        let mut groups: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for row in &one.rows {
            let Some(at) = row.values.get(axis).and_then(|value| value.parse::<f64>().ok()) else { continue };
            let others = row.values.iter().filter(|(key, _)| *key != axis);
            let others: Vec<String> = others.map(|(key, value)| format!("{key}={value}")).collect();
            let label = if others.is_empty() { axis.clone() } else { format!("{axis}; {}", others.join(", ")) };
            let Some(found) = row.metrics.get(metric) else { continue };
            match groups.iter_mut().find(|(known, _)| *known == label) {
                Some((_, points)) => points.push((at, found.value)),
                None => groups.push((label, vec![(at, found.value)])),
            }
        }
        groups.retain(|(_, points)| points.len() > 2);
        // Lines of several axes have no common scale.
        if !groups.is_empty() && !all.is_empty() {
            return String::new();
        }
        if !groups.is_empty() {
            across.clone_from(axis);
        }
        all.extend(groups.into_iter().enumerate().map(|(n, (label, points))| Line::new(label, points, n)));
    }
    all.truncate(MOST_LINES);
    if all.is_empty() {
        return String::new();
    }
    let axes = Axes { across, up: up.to_owned(), ..Axes::default() };
    figure(&lines(&all, &axes))
}

fn equal(results: &Results) -> String {
    let mut rows = Vec::new();
    let mut add = |search: &SearchReport, what: &str, at: &At<Equal>| {
        let found = &at.found;
        let rate = &found.forwarded_mpps;
        let p99 =
            found.p99_us.map_or_else(|| "–".to_owned(), |p99| format!("{} … {}", number(p99.min), number(p99.max)));
        let cells = [
            format!("{} over {}, {}", search.profile, search.port, frame(at.frame_bytes)),
            what.to_owned(),
            format!("{} × {} s", found.trials, number(found.trial_seconds)),
            number(found.offered_mpps),
            format!("{} … {}", number(rate.min), number(rate.max)),
            percent(rate.variation),
            format!("{:+.2} %", found.drift * 100.0),
            found.trials_with_loss.to_string(),
            p99,
        ];
        rows.push((false, cells.to_vec()));
    };
    for search in &results.searches {
        search.determinism.iter().for_each(|at| add(search, "determinism", at));
        search.soak.iter().for_each(|at| add(search, "soak", at));
    }
    let mut out = String::new();
    if !rows.is_empty() {
        let heads = [
            "workload",
            "=kind",
            ">trials",
            ">offered, Mpps",
            ">forwarded, Mpps",
            ">deviation",
            ">drift",
            ">with loss",
            ">p99, µs",
        ];
        out += &section("Equal trials", &table(&heads, &rows));
    }
    let bursts = results.searches.iter().flat_map(|search| search.back_to_back.iter().map(move |at| (search, at)));
    let row = |(search, at): (&SearchReport, &At<::bench::search::rfc2544::BackToBack>)| {
        let found = &at.found;
        let least = if found.is_unlimited { "at least " } else { "" };
        let buffer = found.buffer_seconds.map_or_else(|| "–".to_owned(), |s| format!("{} µs", number(s * 1e6)));
        let workload = format!("{} over {}, {}", search.profile, search.port, frame(at.frame_bytes));
        (false, vec![workload, number(found.burst_mpps), format!("{least}{:.0}", found.packets), buffer])
    };
    let rows: Vec<_> = bursts.map(row).collect();
    if !rows.is_empty() {
        let heads = ["workload", ">burst rate, Mpps", ">longest burst, packets", ">buffer"];
        out += &section("Back-to-back bursts without loss", &table(&heads, &rows));
    }
    out
}

fn drops(results: &Results) -> String {
    let mut rows = Vec::new();
    for report in results.every_report() {
        let all = report.drops.iter().chain(&report.lost_at_ports).filter(|(_, packets)| **packets > 0);
        let cells = |(reason, packets): (&String, &u64)| {
            (false, vec![name(report), reason.clone(), gateway::tables::count(*packets)])
        };
        rows.extend(all.map(cells));
    }
    if rows.is_empty() {
        return section("Drops", "<p>No packet was dropped by a gateway or a port.</p>");
    }
    section("Drops by name", &table(&["workload", "=pipeline.stage.reason, or port.counter", ">packets"], &rows))
}

fn beside(results: &Results) -> String {
    // Experiments that vary something have theirs beside them.
    let scales = results.scales.iter().flat_map(|scale| &scale.results);
    let mut profiles: Vec<&str> = results.reports.iter().chain(scales).map(|report| report.profile.as_str()).collect();
    profiles.extend(results.searches.iter().map(|search| search.profile.as_str()));
    profiles.sort_unstable();
    profiles.dedup();
    let mut rows = Vec::new();
    for profile in profiles {
        let best = results.every_report().filter(|report| report.profile == profile);
        let best = best.max_by(|a, b| a.mpps.total_cmp(&b.mpps));
        for figure in published::of(profile) {
            let here = best.map(|report| {
                format!("{} Mpps, {} Gbit/s ({})", number(report.mpps), number(report.gbps_l2), report.port)
            });
            let value = format!("{} {}", figure.value, figure.unit);
            let cells = [
                profile.to_owned(),
                value,
                figure.quantity,
                figure.conditions,
                figure.source,
                here.unwrap_or_default(),
            ];
            rows.push((false, cells.to_vec()));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let heads = ["workload", "=published", "of", "conditions there", "=publication", "the most here"];
    let text = "<p class='lead'>Other machines, other interfaces: beside each other, not against each other.</p>";
    let mut body = text.to_owned() + &table(&heads, &rows);
    if !results.differences.is_empty() {
        let cells = |(profile, d): &(String, Difference)| {
            (false, [profile, &d.what, &d.published, &d.here].map(String::clone).to_vec())
        };
        body += "<p class='lead'>What is not alike with the published measurement:</p>";
        let rows: Vec<_> = results.differences.iter().map(cells).collect();
        body += &table(&["workload", "=what", "there", "here"], &rows);
    }
    section("Beside the published figures", &body)
}

fn conditions(results: &Results) -> String {
    let mut rows = Vec::new();
    for report in results.every_report() {
        let host = &report.host;
        let cells = [
            name(report),
            gateway::tables::count(report.subscribers),
            gateway::tables::count(report.flows),
            format!("{:.0} B", report.directions.uplink.frame_bytes_mean),
            format!("{} s in {}", number(report.seconds), report.windows.count),
            format!("{}, {} cores", host.cpu, host.cores),
            host.kernel.clone(),
            host.nic.clone(),
            if report.load.source.is_empty() { "–".to_owned() } else { report.load.source.clone() },
            report.date.clone(),
            report.version.clone(),
        ];
        rows.push((false, cells.to_vec()));
    }
    let heads = [
        "what",
        ">subscribers",
        ">flows",
        ">mean frame",
        ">time in windows",
        "processor",
        "=kernel",
        "ports",
        "=load",
        "=when",
        "=weir",
    ];
    section("What, on what, how", &table(&heads, &rows))
}

fn frame(bytes: Option<u16>) -> String {
    bytes.map_or_else(|| "own mix".to_owned(), |bytes| format!("{bytes} B"))
}

fn percent(ratio: f64) -> String {
    format!("{} %", number(ratio * 100.0))
}
