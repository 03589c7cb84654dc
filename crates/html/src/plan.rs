//! The answer as a page: complete in one file, light and dark, with plots.

pub mod calibration;
pub mod live;
pub mod rows;

use std::fmt::Write as _;

use capacity::headline::Pareto;
use capacity::limits::Allows;
use capacity::plan::{Answer, Candidate, CurvePoint, Throughput};
use capacity::site::Outcome;
use capacity::years::{Kind, Tco};

use crate::svg::{Bar, Drawn, Series, bars, escape, plot};
use crate::{begin, figure, list, section, table};
use live::Live;
use rows::{FEW, lost, machines, maybe, percent, percent_whole, usd};

/// The whole page. With a [`live::Live`] planner its first part has sliders, which calculate the rest again.
pub fn page(answer: &Answer, live: Option<&Live<'_>>) -> String {
    let mut out = begin(&answer.name);
    if let Some(live) = live {
        out += &live::controls(live);
    }
    let _ = write!(out, "<div id='answer'>{}</div>", body(answer));
    if let Some(live) = live {
        out += &live::script(live);
    }
    out + "<footer>Calculated by weir plan. Measured, published and assumed values are marked as such; what is not known \
           is shown as unknown and never taken for unlimited.</footer></main></body></html>\n"
}

/// What an answer says, between the page's head and its foot.
pub fn body(answer: &Answer) -> String {
    // What is not recommended has no tiles.
    let best = answer.candidates.first().filter(|_| answer.headline.machine.is_some());
    let mut out = lead(answer);
    if let Some(best) = best {
        out += &tiles(best);
    }
    out += &choices(answer);
    out += &pareto(answer);
    out += &prices(answer);
    out += &candidates(answer);
    if let Some(best) = best {
        out += &limits(best);
    }
    out += &curves(answer);
    out += &sensitivity(answer);
    out += &ideal(answer);
    out += &equal_cost(answer);
    out += &day(answer);
    out += &hybrid(answer);
    out += &bills(answer);
    out += &by_year(answer);
    out += &sites(answer);
    out += &demand(answer);
    out += &refused(answer);
    if !answer.notes.is_empty() {
        out += &section("To know", &list(answer.notes.iter()));
    }
    out
}

fn lead(answer: &Answer) -> String {
    let headline = format!("<p><b>{}</b></p>", escape(&answer.headline.text));
    let to_carry = answer.demand.steps.last().map(|step| step.result.clone()).unwrap_or_default();
    let policy = match answer.points {
        capacity::scaling::Confidence::MeasuredOnly => "measured points only",
        capacity::scaling::Confidence::Interpolate => "interpolated between measured points",
        capacity::scaling::Confidence::Extrapolate => "extrapolated from measured points",
    };
    format!("{headline}<p class='lead'>{}; {policy}.</p>", escape(&to_carry))
}

fn tiles(best: &Candidate) -> String {
    let mut tiles = vec![
        (format!("{} × {}", best.machines, best.machine), format!("{}: the cheapest that carries it", machines(best))),
        (format!("{} $/h", maybe(best.usd_per_hour.as_ref(), |price| usd(price.value.0))), "machines".to_owned()),
        (percent_whole(best.margin), format!("margin of throughput, bound by {}", best.binding.limit)),
        (
            percent(best.lost_with_one.share),
            format!("{} lost with one machine, until a spare takes over", all_lost(best)),
        ),
    ];
    let machines = best.usd_per_hour.as_ref().map_or(0.0, |price| price.value.0);
    let traffic = best.total_usd_per_hour.map_or(0.0, |total| total.0 - machines);
    if traffic > 0.0 {
        tiles.insert(2, (format!("{} $/h", usd(traffic)), "traffic, at the demand planned for".to_owned()));
    }
    let tile = |(big, small): &(String, String)| {
        format!("<div class='tile'><b>{}</b><span>{}</span></div>", escape(big), escape(small))
    };
    format!("<div class='tiles'>{}</div>", tiles.iter().map(tile).collect::<String>())
}

/// Who is lost with a machine, in words.
fn all_lost(best: &Candidate) -> String {
    let subscribers = best.lost_with_one.subscribers.map(|n| quantity::grouped(n.round() as u64));
    subscribers.map_or_else(|| "of all".to_owned(), |n| format!("{n} subscribers"))
}

fn choices(answer: &Answer) -> String {
    if answer.choices.is_empty() {
        return String::new();
    }
    let line = |choice: &capacity::choice::Choice| format!("{}: {}", choice.machine, choice.reasons.join("; "));
    let lines: Vec<String> = answer.choices.iter().map(line).collect();
    section("Best choices", &list(lines.iter()))
}

fn pareto(answer: &Answer) -> String {
    if answer.pareto.len() < 2 {
        return String::new();
    }
    let row = |one: &Pareto| (answer.headline.machine.as_ref() == Some(&one.machine), rows::pareto(one));
    let rows: Vec<_> = answer.pareto.iter().take(FEW).map(row).collect();
    section("Not beaten in cost, failure domain, power and margin together", &table(&rows::PARETO, &rows))
}

/// Dollars beside a bar, whose length says the rest.
fn short(dollars: f64) -> String {
    if dollars.abs() < 100.0 { format!("{dollars:.2}") } else { quantity::grouped(dollars.abs().round() as u64) }
}

fn prices(answer: &Answer) -> String {
    let priced = answer.candidates.iter().filter_map(|one| Some((one, one.usd_per_hour.as_ref()?.value.0))).take(FEW);
    let bar = |(one, machines_usd): (&Candidate, f64)| {
        let class = match one.place {
            capacity::machine::Place::Cloud => "a",
            capacity::machine::Place::OnPremise => "b",
        };
        let total = one.total_usd_per_hour.map_or(machines_usd, |total| total.0);
        let range = one.total_usd_per_hour_range;
        let range = range.p10.zip(range.p90);
        let between = range.map_or_else(String::new, |(least, most)| format!(" ({} … {})", short(least), short(most)));
        let says = format!("{}{between} $/h, {} machines", short(total), machines(one));
        let more = (total > machines_usd).then_some((total - machines_usd, "c"));
        Bar { more, range, ..Bar::new(&one.machine, machines_usd, says, class) }
    };
    let priced: Vec<Bar> = priced.map(bar).collect();
    if priced.is_empty() {
        return String::new();
    }
    let key = |class: &str, what: &str| format!("<i class='key {class}'></i> {what} ");
    let keys = [("a", "cloud"), ("b", "on premise")]
        .into_iter()
        .filter(|(class, _)| priced.iter().any(|bar| bar.class == *class));
    let mut keys: String = keys.map(|(class, what)| key(class, what)).collect();
    if priced.iter().any(|bar| bar.more.is_some()) {
        keys += &key("c", "traffic");
    }
    let keys = format!("<p>{keys}</p><p class='lead'>The line spans P10 to P90 of the whole.</p>");
    section("What it costs an hour: machines, traffic, and the range of both", &(figure(&bars(&priced)) + &keys))
}

fn candidates(answer: &Answer) -> String {
    let shown = || answer.candidates.iter().take(FEW).enumerate();
    if answer.candidates.is_empty() {
        return section("Machines", "<p>No machine is known to carry it.</p>");
    }
    let takes = |(n, one): (usize, &Candidate)| {
        let mut cells = rows::takes(one);
        cells.extend([lost(&one.lost_with_one), rows::rests_on(one)]);
        (n == 0, cells)
    };
    let heads = [
        "machine",
        ">units",
        ">each",
        ">margin",
        ">machines",
        ">P10 … P50 … P90",
        ">$/h",
        ">with traffic",
        ">at P90",
        ">cheapest",
        ">lost with one",
        "=rests on",
    ];
    let rows: Vec<_> = shown().map(takes).collect();
    let what_it_takes = section("What it takes", &table(&heads, &rows));
    let rows: Vec<_> = shown().map(|(n, one)| (n == 0, rows::binds(one))).collect();
    let mut heads = rows::BINDS;
    heads[2] = "=next";
    what_it_takes + &section("What binds, and what stays unused", &table(&heads, &rows))
}

fn limits(best: &Candidate) -> String {
    // What is far out of reach would make the rest too short to see.
    let sight = best.binding.units().unwrap_or(1.0).max(1.0) * 8.0;
    let bar = |bound: &capacity::limits::Bound| match bound.allows {
        Allows::Units(units) => {
            let binds = units.floor() <= best.binding.units().unwrap_or(0.0).floor();
            let class = if binds { "bad" } else { "a" };
            let beyond = if units > sight { " →" } else { "" };
            let says = format!("{}{beyond}", capacity::quantity::digits((units * 100.0).round() / 100.0));
            Bar::new(bound.limit.to_string(), units.min(sight), says, class)
        }
        Allows::Any => Bar::new(bound.limit.to_string(), 0.0, "any number", "c"),
        Allows::Unknown => Bar::new(bound.limit.to_string(), 0.0, "unknown", "c"),
    };
    let all: Vec<Bar> = best.bounds.iter().map(bar).collect();
    let why: Vec<String> = best.bounds.iter().map(|bound| format!("{}: {}", bound.limit, bound.why)).collect();
    let rests: Vec<String> = best.rests_on.clone();
    section(
        &format!("How many units each limit allows on {}", best.machine),
        &(figure(&bars(&all)) + &list(why.iter())),
    ) + &section(&format!("What the answer for {} rests on", best.machine), &list(rests.iter()))
}

fn curves(answer: &Answer) -> String {
    const CLASSES: [&str; 5] = ["a", "b", "good", "bad", "c"];
    let value = |throughput: &Throughput| {
        throughput.bits.map(|b| b.gbps()).or(throughput.packets.map(|p| p.mpps())).unwrap_or(0.0)
    };
    let unit = match answer.demand.bits() {
        Some(_) => "Gbit/s, all units together",
        None => "Mpps, all units together",
    };
    let scaled: Vec<_> = answer.curves.iter().filter(|curve| curve.points.len() > 1).take(CLASSES.len()).collect();
    let mut series = Vec::new();
    for (curve, class) in scaled.iter().zip(CLASSES) {
        let total = |points: &[CurvePoint]| -> Vec<(f64, f64)> {
            let units = |point: &CurvePoint| f64::from(point.units);
            points.iter().map(|point| (units(point), units(point) * value(&point.each))).collect()
        };
        series.push(Series { name: curve.machine.clone(), points: total(&curve.points), class, drawn: Drawn::Dots });
        let name = curve.usl.map_or(String::new(), |usl| format!("its law: σ {:.3}, κ {:.3}", usl.sigma, usl.kappa));
        series.push(Series { name, points: total(&curve.law), class, drawn: Drawn::Line });
    }
    if series.is_empty() {
        return String::new();
    }
    section(
        "How throughput scales: measured, and the law through it",
        &figure(&plot(&series, "units on one machine", unit)),
    )
}

fn sensitivity(answer: &Answer) -> String {
    if answer.sensitivity.is_empty() {
        return String::new();
    }
    let now = answer.candidates.first().and_then(|best| best.total_usd_per_hour).map_or(0.0, |price| price.0);
    let bar = |lever: &capacity::sensitivity::Lever| {
        let change = |n: usize| lever.usd_per_hour[n].map(|price| price - now);
        let says = |n: usize| match lever.usd_per_hour[n] {
            Some(price) => format!("{} → {price:.2}", lever.change[n]),
            None => format!("{} → impossible", lever.change[n]),
        };
        let known: Vec<f64> = [change(0), change(1)].into_iter().flatten().collect();
        let (least, most) = (known.iter().copied().fold(0.0, f64::min), known.iter().copied().fold(0.0, f64::max));
        Bar { from: least, ..Bar::new(lever.input, most, format!("{}, {}", says(0), says(1)), "b") }
    };
    let all: Vec<Bar> = answer.sensitivity.iter().take(8).map(bar).collect();
    let title = format!("What moves the cost of {} $/h most, machines and traffic", usd(now));
    section(&title, &figure(&bars(&all)))
}

fn ideal(answer: &Answer) -> String {
    let Some(ideal) = &answer.ideal else { return String::new() };
    let rows: Vec<_> = ideal.sizes.iter().enumerate().map(|(n, size)| (n == ideal.best, rows::size(size))).collect();
    let price = maybe(ideal.usd_per_vcpu_hour, |price| usd(price.0));
    let title = format!("The ideal instance, after {} at {price} $/h a vCPU", ideal.after);
    section(&title, &(table(&rows::SIZE, &rows) + &list(ideal.lacks.iter())))
}

fn equal_cost(answer: &Answer) -> String {
    let mut out = String::new();
    for family in &answer.equal_cost {
        let bar = |size: &capacity::scale_out::AtCost| {
            let value = size.carries.bits.map(|b| b.gbps()).or(size.carries.packets.map(|p| p.mpps())).unwrap_or(0.0);
            let unused = maybe(size.unused_vcpus, percent);
            let says = format!("{}, vCPUs unused {unused}", size.carries);
            Bar::new(format!("{} × {}", size.count, size.machine), value, says, "a")
        };
        let all: Vec<Bar> = family.sizes.iter().map(bar).collect();
        let title = format!("Many small or one large: {} for {} $/h", family.family, usd(family.usd_per_hour));
        out += &section(&title, &figure(&bars(&all)));
    }
    out
}

fn day(answer: &Answer) -> String {
    let Some(day) = &answer.day else { return String::new() };
    let most = f64::from(day.machines.iter().copied().max().unwrap_or(1));
    let over = |values: Vec<f64>| -> Vec<(f64, f64)> {
        let last = values.last().copied().into_iter();
        values.iter().copied().chain(last).enumerate().map(|(hour, value)| (hour as f64, value)).collect()
    };
    let machines = over(day.machines.iter().map(|n| f64::from(*n)).collect());
    let load = over(day.load.iter().map(|share| share * most).collect());
    let series = [
        Series { name: "machines, with spares".to_owned(), points: machines, class: "a", drawn: Drawn::Steps },
        Series { name: "load, peak = most".to_owned(), points: load, class: "b", drawn: Drawn::Steps },
    ];
    let text = format!(
        "<p>{} $/day as needed, {} $/day at the peak all day; {} starts a day.</p>",
        usd(day.elastic_usd_per_day),
        usd(day.fixed_usd_per_day),
        day.starts
    );
    section(&format!("Over a day: {}", day.machine), &(figure(&plot(&series, "hour", "machines")) + &text))
}

fn hybrid(answer: &Answer) -> String {
    let Some(hybrid) = &answer.hybrid else { return String::new() };
    let bar = |(n, mix): (usize, &capacity::day::Mix)| {
        let says = format!("{} $/day, up to {} in the cloud", usd(mix.usd_per_day), mix.instances_at_peak);
        let class = if n == hybrid.best { "good" } else { "c" };
        Bar::new(format!("{} on premise", mix.servers), mix.usd_per_day, says, class)
    };
    let all: Vec<Bar> = hybrid.mixes.iter().enumerate().map(bar).collect();
    let text = format!(
        "<p>One server lost: {} × {} take over for {} $/h while it lasts.</p>",
        hybrid.failover_instances,
        escape(&hybrid.cloud),
        usd(hybrid.failover_usd_per_hour)
    );
    let title = format!("A base of {} on premise, {} for the rest", hybrid.server, hybrid.cloud);
    section(&title, &(figure(&bars(&all)) + &text))
}

fn bills(answer: &Answer) -> String {
    let Some(first) = answer.bills.first() else { return String::new() };
    let all: Vec<_> = answer.bills.iter().take(FEW).enumerate().map(|(n, bill)| (n == 0, rows::bill(bill))).collect();
    let parts: Vec<_> = first.parts.iter().map(|part| (false, rows::part(part))).collect();
    let over_the_day = section("What it costs over the day, machines and traffic", &table(&rows::BILL, &all));
    over_the_day + &section(&format!("The bill of {}", first.machine), &table(&rows::PART, &parts))
}

fn by_year(answer: &Answer) -> String {
    let Some(by_year) = &answer.by_year else { return String::new() };
    let kinds = rows::kinds(by_year);
    let class = |kind: Kind| match kind {
        Kind::Cloud => "a",
        Kind::Own => "b",
        Kind::Hybrid => "good",
    };
    let line = |option: &&Tco| Series {
        name: option.kind.to_string(),
        points: option.years.iter().map(|year| (f64::from(year.year), year.total_usd / 1e3)).collect(),
        class: class(option.kind),
        drawn: if option.years.len() > 1 { Drawn::Line } else { Drawn::Dots },
    };
    let series: Vec<Series> = kinds.iter().map(line).collect();
    if series.is_empty() {
        return String::new();
    }
    let all: Vec<_> = kinds.iter().enumerate().map(|(n, option)| (n == 0, rows::tco(option))).collect();
    let chart = figure(&plot(&series, "year", "thousand $ a year, undiscounted"));
    let title = format!("By year, discounted at {} a year", percent(by_year.discount_rate));
    let mut out = section(&title, &(chart + &table(&rows::TCO, &all)));
    for option in kinds {
        let years: Vec<_> = option.years.iter().map(|year| (false, rows::year(year))).collect();
        let title = format!("By year, {}: {}", option.kind, rows::made_of(option));
        out += &section(&title, &table(&rows::YEAR, &years));
    }
    let not = |one: &capacity::years::RefusedOverYears| format!("not in every year: {}: {}", one.machine, one.why);
    let refused: Vec<String> = by_year.refused.iter().map(not).collect();
    if refused.is_empty() { out } else { out + &list(refused.iter()) }
}

fn sites(answer: &Answer) -> String {
    if answer.sites.is_empty() {
        return String::new();
    }
    let mut out =
        "<div class='wide'><table><thead><tr><th>site</th><th>bound</th><th></th><th>reason</th></tr></thead><tbody>"
            .to_owned();
    let class = |outcome: Outcome| format!("<span class='{outcome}'>{outcome}</span>");
    for site in &answer.sites {
        let _ = write!(
            out,
            "<tr class='best'><td><b>{}</b></td><td></td><td>{}</td><td></td></tr>",
            escape(&site.site),
            class(site.outcome)
        );
        for check in &site.checks {
            let _ = write!(
                out,
                "<tr><td></td><td>{}</td><td>{}</td><td>{}</td></tr>",
                check.what,
                class(check.outcome),
                escape(&check.reason)
            );
        }
    }
    section("Where to put it", &(out + "</tbody></table></div>"))
}

fn demand(answer: &Answer) -> String {
    let rows: Vec<_> =
        answer.demand.steps.iter().map(|step| (false, vec![step.what.clone(), step.result.clone()])).collect();
    section("Demand", &table(&["step", "comes to"], &rows))
}

fn refused(answer: &Answer) -> String {
    if answer.refused.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = rows::refusals(answer, 4).into_iter().take(FEW).map(|(_, cells)| (false, cells)).collect();
    section("Not, and why", &table(&rows::REFUSALS, &rows))
}
