//! The answer as people read it.

use std::fmt::Write as _;

use capacity::plan::{Answer, Candidate};
use capacity::quantity::digits;
use capacity::sensitivity::Lever;

use gateway::tables::{Style, Table, bar, count, item};

use html::plan::rows::{self, FEW, lost, maybe, percent, usd};

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
    out += &bills(answer, all, style);
    out += &by_year(answer, style);
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

fn demand(answer: &Answer, style: Style) -> String {
    let mut table = Table::new(&["demand", ""]);
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
    for charge in &traffic.path {
        let cost = usd(charge.usd_per_hour.value.0);
        let said = match (charge.count, charge.gb_per_hour) {
            (Some(pieces), _) => format!("{}, {cost} $/h, on top", digits(pieces)),
            (None, gb) => format!("{} GB/h, {cost} $/h, on top", count(gb.unwrap_or(0.0).round() as u64)),
        };
        table.row([charge.what.to_owned(), said]);
    }
    table.render(style)
}

fn takes(shown: &[Candidate], style: Style) -> String {
    let watts = shown.iter().any(|one| one.power.is_some());
    let mut heads = vec!["machine", ">units", ">each", ">margin", ">machines", ">P10 … P50 … P90", ">$/h"];
    heads.extend([">$/h with traffic", ">at P90", ">cheapest", ">$/h per Gbit/s"]);
    heads.extend(watts.then_some(">power"));
    heads.extend([">$/subscriber month", ">lost with one", "rests on"]);
    let mut table = Table::new(&heads);
    for one in shown {
        let mut cells = rows::takes(one);
        cells.push(maybe(one.usd_per_hour_per_gbps, usd));
        cells.extend(watts.then(|| maybe(one.power, |power| power.to_string())));
        cells.extend([
            one.usd_per_subscriber_month.map_or_else(|| "–".to_owned(), digits),
            lost(&one.lost_with_one),
            rows::rests_on(one),
        ]);
        table.row(cells);
    }
    table.render(style)
}

fn binds(shown: &[Candidate], style: Style) -> String {
    let mut table = Table::new(&rows::BINDS);
    shown.iter().for_each(|one| table.row(rows::binds(one)));
    table.render(style)
}

fn refused(answer: &Answer, all: bool, style: Style) -> String {
    if answer.refused.is_empty() {
        return String::new();
    }
    let mut out = title("Not, and why", style);
    if all {
        let mut table = Table::new(&["machine", "", "why"]);
        for one in &answer.refused {
            table.row([one.machine.clone(), one.refusal.to_string(), one.why.clone()]);
        }
        return out + &table.render(style);
    }
    let mut table = Table::new(&rows::REFUSALS);
    let reasons = rows::refusals(answer, 3);
    reasons.iter().take(FEW / 2).for_each(|(_, cells)| table.row(cells.clone()));
    out += &table.render(style);
    if reasons.len() > FEW / 2 {
        let rest: usize = reasons.iter().skip(FEW / 2).map(|(machines, _)| machines).sum();
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
    let mut table = Table::new(&rows::PARETO);
    answer.pareto.iter().take(FEW).for_each(|one| table.row(rows::pareto(one)));
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
    let mut table = Table::new(&["input", "change", ">machines", ">$/h with traffic", ">swing", ""]);
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
    let mut table = Table::new(&[&rows::SIZE[..], &[""]].concat());
    for (n, size) in ideal.sizes.iter().enumerate() {
        let mark = if n == ideal.best { "← ideal" } else { "" };
        table.row(rows::size(size).into_iter().chain([mark.to_owned()]));
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
        let mut table = Table::new(&[">", ">$/h", ">units", ">carry", ">unused vCPUs"]);
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
    let mut table = Table::new(&[">hour", ">load", ">machines", ""]);
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
    let mut table =
        Table::new(&[">servers", ">instances at the peak", ">instance hours a day", ">$/day with traffic", ""]);
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

fn bills(answer: &Answer, all: bool, style: Style) -> String {
    let Some(first) = answer.bills.first() else { return String::new() };
    let mut out = title("What it costs over the day, machines and traffic", style);
    let mut table = Table::new(&rows::BILL);
    let shown = if all { answer.bills.len() } else { FEW / 2 };
    answer.bills.iter().take(shown).for_each(|bill| table.row(rows::bill(bill)));
    out += &table.render(style);
    out += &title(&format!("The bill of {}", first.machine), style);
    let mut table = Table::new(&rows::PART);
    first.parts.iter().for_each(|part| table.row(rows::part(part)));
    out + &table.render(style)
}

fn by_year(answer: &Answer, style: Style) -> String {
    let Some(by_year) = &answer.by_year else { return String::new() };
    let mut out = title(&format!("By year, discounted at {} a year", percent(by_year.discount_rate)), style);
    let mut table = Table::new(&[">year", ">to carry at the peak", ">subscribers"]);
    for year in &by_year.demand {
        let carried = match (year.bits, year.packets) {
            (Some(bits), _) => bits.to_string(),
            (None, packets) => maybe(packets, |packets| packets.to_string()),
        };
        let subscribers = year.subscribers.map_or_else(|| "–".to_owned(), |n| count(n.round() as u64));
        table.row([year.year.to_string(), carried, subscribers]);
    }
    out += &table.render(style);
    out += "\n";
    let kinds = rows::kinds(by_year);
    let mut table = Table::new(&rows::TCO);
    kinds.iter().for_each(|option| table.row(rows::tco(option)));
    out += &table.render(style);
    for option in kinds {
        let mut table = Table::new(&rows::YEAR);
        option.years.iter().for_each(|year| table.row(rows::year(year)));
        out += &title(&format!("By year, {}: {}", option.kind, rows::made_of(option)), style);
        out += &table.render(style);
    }
    for refused in &by_year.refused {
        out += &item("  · ", &format!("not in every year: {}: {}", refused.machine, refused.why), style);
    }
    out
}

fn sites(answer: &Answer, style: Style) -> String {
    if answer.sites.is_empty() {
        return String::new();
    }
    let heads = ["site", "", "bound", "", "reason"];
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
    let mut out = title("Where to put it", style) + &table.render(style);
    for site in &answer.sites {
        let has = site.has.as_ref().map(|has| format!("has machines {has}"));
        let price = site.price.as_ref().map(|price| format!("their price times {price}, {}", price.from));
        let words: Vec<String> = has.into_iter().chain(price).collect();
        if !words.is_empty() {
            let _ = writeln!(out, "  {}: {}", site.site, words.join("; "));
        }
    }
    out
}
