//! The answer as people read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use capacity::limits::Bound;
use capacity::plan::{Answer, Candidate, Lost};
use capacity::quantity::digits;
use capacity::sensitivity::Lever;

use gateway::tables::{Align, Style, Table, bar, count, item};

/// Candidates shown unless all are asked for.
const FEW: usize = 12;
/// Inputs shown in the order of what they move.
const LEVERS: usize = 8;

/// All of it.
pub fn answer(answer: &Answer, all: bool, style: Style) -> String {
    let mut out = format!("{}\n\n", style.strong(&answer.name));
    out += &item("  ", &answer.headline.text, style);
    out += "\n";
    out += &demand(answer, style);
    let shown = if all { answer.candidates.len() } else { answer.candidates.len().min(FEW) };
    let shown = &answer.candidates[..shown];
    if answer.candidates.is_empty() {
        out += "\n  No machine is known to carry it.\n";
    } else {
        out += &title("What it takes", style);
        out += &takes(shown, style);
        out += &title("What binds, and what stays unused", style);
        out += &binds(shown, style);
    }
    if answer.candidates.len() > shown.len() {
        let _ = writeln!(out, "  and {} more: --all", answer.candidates.len() - shown.len());
    }
    out += &refused(answer, all, style);
    out += &choices(answer, style);
    out += &pareto(answer, style);
    out += &sensitivity(&answer.sensitivity, style);
    out += &ideal(answer, style);
    out += &equal_cost(answer, style);
    out += &day(answer, style);
    out += &hybrid(answer, style);
    out += &sites(answer, style);
    if !answer.notes.is_empty() {
        out += &title("To know", style);
        answer.notes.iter().for_each(|note| out += &item("  · ", note, style));
    }
    out
}

fn title(text: &str, style: Style) -> String {
    format!("\n{}\n\n", style.strong(text))
}

/// Dollars, to the digits that matter: cents, or more of them below a dollar.
pub fn usd(value: f64) -> String {
    if value == 0.0 || value >= 1.0 {
        let text = format!("{value:.3}");
        // Tenths of a cent only where there are some.
        return text.strip_suffix('0').map_or(text.clone(), str::to_owned);
    }
    digits(value)
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

pub fn maybe<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), show)
}

fn demand(answer: &Answer, style: Style) -> String {
    let mut table = Table::new(&[("demand", Align::Left), ("", Align::Left)]);
    answer.demand.steps.iter().for_each(|step| table.row([step.what.clone(), step.result.clone()]));
    if answer.demand.low < 1.0 || answer.demand.high > 1.0 {
        let range = format!("{} to {} of that (P10, P90)", percent(answer.demand.low), percent(answer.demand.high));
        table.row(["range".to_owned(), range]);
    }
    let traffic = &answer.traffic;
    let lines = [
        ("data transfer out", traffic.transfer_gb_per_hour, traffic.transfer_usd_per_hour),
        ("transit gateway, each crossing", traffic.transit_gb_per_hour, traffic.transit_usd_per_hour),
    ];
    for (what, gb, cost) in lines {
        if let (Some(gb), Some(cost)) = (gb, cost) {
            table.row([what.to_owned(), format!("{} GB/h, {} $/h, on top", count(gb.round() as u64), usd(cost.0))]);
        }
    }
    table.render(style)
}

fn takes(shown: &[Candidate], style: Style) -> String {
    let right = ["units", "each", "margin", "machines", "P10 … P50 … P90", "$/h", "$/h with traffic", "at P90"];
    let mut heads = vec![("machine", Align::Left)];
    heads.extend(right.map(|head| (head, Align::Right)));
    heads.extend(["cheapest", "$/h per Gbit/s"].map(|head| (head, Align::Right)));
    let watts = shown.iter().any(|one| one.power.is_some());
    heads.extend(watts.then_some(("power", Align::Right)));
    heads.extend([("$/subscriber month", Align::Right), ("lost with one", Align::Right), ("rests on", Align::Left)]);
    let mut table = Table::new(&heads);
    for one in shown {
        let mut cells = vec![
            one.machine.clone(),
            one.units.to_string(),
            one.each.to_string(),
            percent_whole(one.margin),
            machines(one),
            range(one),
            maybe(one.usd_per_hour.as_ref(), |price| usd(price.value.0)),
            maybe(one.total_usd_per_hour, |price| usd(price.0)),
            at_p90(one),
            percent_whole(one.cheapest_ratio),
            maybe(one.usd_per_hour_per_gbps, usd),
        ];
        cells.extend(watts.then(|| maybe(one.power, |power| power.to_string())));
        cells.extend([
            one.usd_per_subscriber_month.map_or_else(|| "–".to_owned(), digits),
            lost(&one.lost_with_one),
            format!("{}, {}", one.basis, one.from),
        ]);
        table.row(cells);
    }
    table.render(style)
}

pub fn percent_whole(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// `8 + 1`.
pub fn machines(one: &Candidate) -> String {
    let spares = one.machines - one.needed;
    let hosts = one.hosts.map_or(String::new(), |hosts| format!(" on {hosts} hosts"));
    if spares == 0 { format!("{}{hosts}", one.needed) } else { format!("{} + {spares}{hosts}", one.needed) }
}

/// P10, P50 and P90 of the machines, spares among them.
pub fn range(one: &Candidate) -> String {
    let range = one.machines_range;
    if range.p10 == range.p90 && range.p10.is_some() {
        return "–".to_owned();
    }
    [range.p10, range.p50, range.p90].map(|n| n.map_or_else(|| "impossible".to_owned(), |n| n.to_string())).join(" … ")
}

/// Machines and traffic, an hour, at P90: what machines are ranked by.
pub fn at_p90(one: &Candidate) -> String {
    match (one.total_usd_per_hour, one.total_usd_per_hour_range.p90) {
        (None, _) => "unknown".to_owned(),
        (_, None) => "impossible".to_owned(),
        (_, Some(price)) => usd(price),
    }
}

pub fn lost(lost: &Lost) -> String {
    let zone =
        if lost.share_with_zone < 1.0 { format!("; zone {}", percent(lost.share_with_zone)) } else { String::new() };
    match lost.subscribers {
        Some(subscribers) => format!("{} ({}){zone}", count(subscribers.round() as u64), percent(lost.share)),
        None => format!("{}{zone}", percent(lost.share)),
    }
}

fn binds(shown: &[Candidate], style: Style) -> String {
    let mut table = Table::new(&[
        ("machine", Align::Left),
        ("binding", Align::Left),
        ("next", Align::Left),
        ("unused vCPUs", Align::Right),
        ("bandwidth", Align::Right),
        ("interfaces", Align::Right),
        ("not known", Align::Left),
    ]);
    for one in shown {
        table.row([
            one.machine.clone(),
            binding(one),
            next(one),
            maybe(one.unused.vcpus, percent),
            maybe(one.unused.bandwidth, percent),
            maybe(one.unused.interfaces, percent),
            not_known(one),
        ]);
    }
    table.render(style)
}

/// Limits that nobody knows, and those a guess is calculated with.
pub fn not_known(one: &Candidate) -> String {
    let unknown = one.unknown.iter().map(|bound| bound.limit.to_string());
    unknown.chain(one.assumed.iter().map(|bound| format!("{} (assumed)", bound.limit))).collect::<Vec<_>>().join(", ")
}

fn bound(bound: &Bound) -> String {
    let units = bound.units().unwrap_or(0.0);
    format!("{} {}: {}", bound.limit, digits((units * 100.0).round() / 100.0), bound.why)
}

pub fn binding(one: &Candidate) -> String {
    let also: Vec<String> = one.also_binding.iter().map(|bound| bound.limit.to_string()).collect();
    let also = if also.is_empty() { String::new() } else { format!("; also {}", also.join(", ")) };
    format!("{}{also}", bound(&one.binding))
}

pub fn next(one: &Candidate) -> String {
    one.next.as_ref().map_or_else(
        || "none known".to_owned(),
        |next| {
            format!(
                "{} {} (+{})",
                next.bound.limit,
                digits(next.bound.units().unwrap_or(0.0).floor()),
                percent_whole(next.margin)
            )
        },
    )
}

fn refused(answer: &Answer, all: bool, style: Style) -> String {
    if answer.refused.is_empty() {
        return String::new();
    }
    let mut out = title("Not, and why", style);
    if all {
        let mut table = Table::new(&[("machine", Align::Left), ("", Align::Left), ("why", Align::Left)]);
        for one in &answer.refused {
            table.row([one.machine.clone(), one.refusal.to_string(), one.why.clone()]);
        }
        return out + &table.render(style);
    }
    let mut reasons: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for one in &answer.refused {
        reasons.entry((one.refusal.to_string(), one.why.as_str())).or_default().push(&one.machine);
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, machines)| std::cmp::Reverse(machines.len()));
    let mut table =
        Table::new(&[("machines", Align::Right), ("", Align::Left), ("why", Align::Left), ("such as", Align::Left)]);
    for ((refusal, why), machines) in reasons.iter().take(FEW / 2) {
        let such = machines.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        table.row([machines.len().to_string(), refusal.clone(), (*why).to_owned(), such]);
    }
    out += &table.render(style);
    if reasons.len() > FEW / 2 {
        let rest: usize = reasons.iter().skip(FEW / 2).map(|(_, machines)| machines.len()).sum();
        let _ = writeln!(out, "  and {rest} for other reasons: --all");
    }
    out
}

fn choices(answer: &Answer, style: Style) -> String {
    if answer.choices.is_empty() {
        return String::new();
    }
    let mut out = title("Best choices", style);
    for (n, choice) in answer.choices.iter().enumerate() {
        let _ = writeln!(out, "  {}. {}: {}", n + 1, style.strong(&choice.machine), choice.reasons.join("; "));
    }
    if let Some(best) = answer.candidates.iter().find(|one| one.machine == answer.choices[0].machine) {
        let _ = writeln!(out, "\n  {} rests on", best.machine);
        best.rests_on.iter().for_each(|line| out += &item("    · ", line, style));
    }
    out
}

fn pareto(answer: &Answer, style: Style) -> String {
    if answer.pareto.len() < 2 {
        return String::new();
    }
    let right = ["machines", "$/h at P90", "lost with one", "own power", "margin"].map(|head| (head, Align::Right));
    let heads = [("machine", Align::Left)].into_iter().chain(right).chain([("best in", Align::Left)]);
    let mut table = Table::new(&heads.collect::<Vec<_>>());
    for one in answer.pareto.iter().take(FEW) {
        table.row([
            one.machine.clone(),
            one.machines.to_string(),
            usd(one.usd_per_hour),
            percent(one.lost_ratio),
            maybe(one.power, |power| power.to_string()),
            percent_whole(one.margin),
            one.best_in.join(", "),
        ]);
    }
    let mut out = title("Not beaten in cost, failure domain, power and margin together", style) + &table.render(style);
    if answer.pareto.len() > FEW {
        let _ = writeln!(out, "  and {} more: --json", answer.pareto.len() - FEW);
    }
    out
}

fn sensitivity(levers: &[Lever], style: Style) -> String {
    if levers.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("input", Align::Left),
        ("change", Align::Left),
        ("machines", Align::Right),
        ("$/h with traffic", Align::Right),
        ("swing", Align::Right),
        ("", Align::Left),
    ]);
    let most = levers.iter().map(|lever| lever.swing).fold(0.0, f64::max);
    for lever in levers.iter().take(LEVERS) {
        let both = |of: [String; 2]| of.join(" / ");
        table.row([
            lever.input.to_owned(),
            both(lever.change.clone()),
            both(lever.machines.map(|n| n.map_or_else(|| "impossible".to_owned(), |n| n.to_string()))),
            both(lever.usd_per_hour.map(|price| price.map_or_else(|| "–".to_owned(), usd))),
            percent(lever.swing),
            bar(lever.swing / most, 16),
        ]);
    }
    title("What moves it most", style) + &table.render(style)
}

fn ideal(answer: &Answer, style: Style) -> String {
    let Some(ideal) = &answer.ideal else { return String::new() };
    let heads = ["units", "vCPUs", "interfaces", "each way", "machines", "$/h", "lost with one"];
    let mut heads: Vec<_> = heads.into_iter().map(|head| (head, Align::Right)).collect();
    heads.push(("", Align::Left));
    let mut table = Table::new(&heads);
    for (n, size) in ideal.sizes.iter().enumerate() {
        table.row([
            size.units.to_string(),
            size.vcpus.to_string(),
            size.interfaces.to_string(),
            size.carries.to_string(),
            size.machines.to_string(),
            maybe(size.usd_per_hour, |price| usd(price.0)),
            percent(size.lost_with_one),
            if n == ideal.best { "← ideal".to_owned() } else { String::new() },
        ]);
    }
    let price = maybe(ideal.usd_per_vcpu_hour, |price| usd(price.0));
    let mut out = title(&format!("The ideal instance, after {} at {price} $/h a vCPU", ideal.after), style);
    out += &table.render(style);
    ideal.lacks.iter().for_each(|line| out += &item("  · ", line, style));
    out
}

fn equal_cost(answer: &Answer, style: Style) -> String {
    let mut out = String::new();
    for family in &answer.equal_cost {
        out +=
            &title(&format!("Many small or one large: {} for {} $/h", family.family, usd(family.usd_per_hour)), style);
        let heads = ["", "$/h", "units", "carry", "unused vCPUs"].map(|head| (head, Align::Right));
        let mut table = Table::new(&heads);
        for size in &family.sizes {
            table.row([
                format!("{} × {}", size.count, size.machine),
                usd(size.usd_per_hour),
                size.units.to_string(),
                size.carries.to_string(),
                maybe(size.unused_vcpus, percent),
            ]);
        }
        out += &table.render(style);
    }
    out
}

fn day(answer: &Answer, style: Style) -> String {
    let Some(day) = &answer.day else { return String::new() };
    let mut out = title(&format!("Over a day: {}", day.machine), style);
    let mut table =
        Table::new(&[("hour", Align::Right), ("load", Align::Right), ("machines", Align::Right), ("", Align::Left)]);
    let most = f64::from(day.machines.iter().copied().max().unwrap_or(1));
    for (hour, (load, machines)) in day.load.iter().zip(&day.machines).enumerate() {
        table.row([format!("{hour:02}"), percent(*load), machines.to_string(), bar(f64::from(*machines) / most, 24)]);
    }
    out += &table.render(style);
    let saved = 1.0 - day.elastic_usd_per_day / day.fixed_usd_per_day;
    let _ = writeln!(
        out,
        "  {} $/day as needed, {} $/day at the peak all day: {} less, {} starts a day",
        usd(day.elastic_usd_per_day),
        usd(day.fixed_usd_per_day),
        percent(saved),
        day.starts
    );
    out
}

fn hybrid(answer: &Answer, style: Style) -> String {
    let Some(hybrid) = &answer.hybrid else { return String::new() };
    let text = format!("A base of {} on premise, {} for the rest", hybrid.server, hybrid.cloud);
    let mut out = title(&text, style);
    let mut table = Table::new(&[
        ("servers", Align::Right),
        ("instances at the peak", Align::Right),
        ("instance hours a day", Align::Right),
        ("$/day with traffic", Align::Right),
        ("", Align::Left),
    ]);
    for (n, mix) in hybrid.mixes.iter().enumerate() {
        let mark = if n == hybrid.best { "← cheapest" } else { "" };
        let cells = [mix.servers.to_string(), mix.instances_at_peak.to_string(), mix.instance_hours.to_string()];
        table.row(cells.into_iter().chain([usd(mix.usd_per_day), mark.to_owned()]));
    }
    out += &table.render(style);
    let (n, cost) = (hybrid.failover_instances, usd(hybrid.failover_usd_per_hour));
    let _ = writeln!(out, "  one server lost: {n} × {} take over for {cost} $/h while it lasts", hybrid.cloud);
    out
}

fn sites(answer: &Answer, style: Style) -> String {
    if answer.sites.is_empty() {
        return String::new();
    }
    let heads =
        [("site", Align::Left), ("", Align::Left), ("bound", Align::Left), ("", Align::Left), ("reason", Align::Left)];
    let mut table = Table::new(&heads);
    for site in &answer.sites {
        if site.checks.is_empty() {
            table.row([site.site.clone(), site.outcome.to_string(), "nothing asked".to_owned()]);
        }
        for (n, check) in site.checks.iter().enumerate() {
            let first = |text: String| if n == 0 { text } else { String::new() };
            let (what, outcome) = (check.what.to_owned(), check.outcome.to_string());
            table.row([first(site.site.clone()), first(site.outcome.to_string()), what, outcome, check.reason.clone()]);
        }
    }
    title("Where to put it", style) + &table.render(style)
}
