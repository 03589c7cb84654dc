//! Rows and numbers that an answer's text and its page have in common.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use capacity::bill::{Bill, Part};
use capacity::headline::Pareto;
use capacity::ideal::Size;
use capacity::limits::Bound;
use capacity::plan::{Answer, Candidate, Lost};
use capacity::quantity::{HOURS_A_MONTH, digits};
use capacity::years::{ByYear, Kind, Tco, Year};
use quantity::grouped;

/// Candidates shown unless all are asked for.
pub const FEW: usize = 12;

/// Heads of [`binds`].
pub const BINDS: [&str; 7] = ["machine", "binding", "next", ">unused vCPUs", ">bandwidth", ">interfaces", "not known"];
/// Heads of [`pareto`].
pub const PARETO: [&str; 7] =
    ["machine", ">machines", ">$/h at P90", ">lost with one", ">own power", ">margin", "best in"];
/// Heads of [`size`].
pub const SIZE: [&str; 7] = [">units", ">vCPUs", ">interfaces", ">each way", ">machines", ">$/h", ">lost with one"];
/// Heads of [`bill`].
pub const BILL: [&str; 5] = ["machine", ">$/h at the peak", ">$/h on average", ">$/month", ">$/subscriber month"];
/// Heads of [`part`].
pub const PART: [&str; 6] = ["part", ">$/h at the peak", ">$/h on average", ">$/month", "price", "how"];
/// Heads of [`tco`].
pub const TCO: [&str; 5] = ["", "machines", ">total $", ">NPV $", ">worth at the end $"];
/// Heads of [`year`].
pub const YEAR: [&str; 13] = [
    ">year",
    ">instances",
    ">servers",
    ">bought",
    ">purchases $",
    ">instances $",
    ">rack, support $",
    ">energy $",
    ">power, PUE",
    ">traffic $",
    ">total $",
    ">discounted $",
    ">$/subscriber month",
];
/// Heads of [`refusals`].
pub const REFUSALS: [&str; 4] = [">machines", "", "why", "such as"];

/// What a machine takes: its sizes, how many of it, what they cost.
pub fn takes(one: &Candidate) -> Vec<String> {
    vec![
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
    ]
}

/// What a machine's figures rest on.
pub fn rests_on(one: &Candidate) -> String {
    format!("{}, {}", one.basis, one.from)
}

/// What binds a machine, and what stays unused.
pub fn binds(one: &Candidate) -> Vec<String> {
    vec![
        one.machine.clone(),
        binding(one),
        next(one),
        maybe(one.unused.vcpus, percent),
        maybe(one.unused.bandwidth, percent),
        maybe(one.unused.interfaces, percent),
        not_known(one),
    ]
}

/// A machine that none beats in everything.
pub fn pareto(one: &Pareto) -> Vec<String> {
    vec![
        one.machine.clone(),
        one.machines.to_string(),
        usd(one.usd_per_hour),
        percent(one.lost_ratio),
        maybe(one.power, |power| power.to_string()),
        percent_whole(one.margin),
        one.best_in.join(", "),
    ]
}

/// What a machine costs over the day, with traffic.
pub fn bill(bill: &Bill) -> Vec<String> {
    vec![
        bill.machine.clone(),
        usd(bill.usd_per_hour_at_peak),
        usd(bill.usd_per_hour_mean),
        whole_usd(bill.usd_per_month),
        bill.usd_per_subscriber_month.map_or_else(|| "–".to_owned(), digits),
    ]
}

/// A part of a bill.
pub fn part(part: &Part) -> Vec<String> {
    vec![
        part.what.clone(),
        usd(part.usd_per_hour_at_peak),
        usd(part.usd_per_hour_mean),
        whole_usd(part.usd_per_hour_mean * HOURS_A_MONTH),
        part.from.to_string(),
        part.why.clone(),
    ]
}

/// The best option of each kind, the least net present value first.
pub fn kinds(by_year: &ByYear) -> Vec<&Tco> {
    let mut seen: Vec<Kind> = Vec::new();
    let first = |option: &&Tco| {
        let new = !seen.contains(&option.kind);
        seen.extend(new.then_some(option.kind));
        new
    };
    by_year.options.iter().filter(first).collect()
}

/// What an option consists of.
pub fn made_of(option: &Tco) -> String {
    let machines = [&option.server, &option.instance];
    let text = machines.into_iter().flatten().cloned().collect::<Vec<_>>().join(" + ");
    option.base_ratio.map_or(text.clone(), |base| format!("{text} above {} of the peak", percent(base)))
}

/// An option over all years.
pub fn tco(option: &Tco) -> Vec<String> {
    let left = if option.server.is_some() { whole_usd(option.left_usd) } else { "–".to_owned() };
    vec![option.kind.to_string(), made_of(option), whole_usd(option.total_usd), whole_usd(option.npv_usd), left]
}

/// A year of an option.
pub fn year(year: &Year) -> Vec<String> {
    let bought = match (year.added, year.replaced) {
        (0, 0) => "–".to_owned(),
        (added, 0) => format!("+ {added}"),
        (0, replaced) => format!("{replaced} replaced"),
        (added, replaced) => format!("+ {added}, {replaced} replaced"),
    };
    let on_hosts = |hosts: u32| format!("{} on {hosts} {}", year.instances, if hosts == 1 { "host" } else { "hosts" });
    vec![
        year.year.to_string(),
        year.hosts.map_or_else(|| year.instances.to_string(), on_hosts),
        year.servers.to_string(),
        bought,
        whole_usd(year.purchases_usd),
        whole_usd(year.instances_usd),
        whole_usd(year.hosting_usd),
        maybe(year.energy_usd, whole_usd),
        year.power.map_or_else(|| "–".to_owned(), |power| power.to_string()),
        whole_usd(year.traffic_usd),
        whole_usd(year.total_usd),
        whole_usd(year.discounted_usd),
        year.usd_per_subscriber_month.map_or_else(|| "–".to_owned(), digits),
    ]
}

/// Dollars, whole, thousands apart.
pub fn whole_usd(value: f64) -> String {
    grouped(value.round().max(0.0) as u64)
}

/// A size of the ideal instance.
pub fn size(size: &Size) -> Vec<String> {
    vec![
        size.units.to_string(),
        size.vcpus.to_string(),
        size.interfaces.to_string(),
        size.carries.to_string(),
        size.machines.to_string(),
        maybe(size.usd_per_hour, |price| usd(price.0)),
        percent(size.lost_with_one),
    ]
}

/// Why machines are refused, what refuses most first: rows with `such` of them by name, and how many machines each is about.
pub fn refusals(answer: &Answer, such: usize) -> Vec<(usize, Vec<String>)> {
    let mut reasons: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for one in &answer.refused {
        reasons.entry((one.refusal.to_string(), one.why.as_str())).or_default().push(&one.machine);
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, machines)| Reverse(machines.len()));
    let row = |((refusal, why), machines): ((String, &str), Vec<&str>)| {
        let names = machines.iter().take(such).copied().collect::<Vec<_>>().join(", ");
        (machines.len(), vec![machines.len().to_string(), refusal, why.to_owned(), names])
    };
    reasons.into_iter().map(row).collect()
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

/// A value as `show` has it; `unknown` where there is none.
pub fn maybe<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), show)
}

/// A share in whole percent.
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

/// Who is lost with one machine: subscribers, share, and the share in one zone.
pub fn lost(lost: &Lost) -> String {
    let zone =
        if lost.share_with_zone < 1.0 { format!("; zone {}", percent(lost.share_with_zone)) } else { String::new() };
    match lost.subscribers {
        Some(subscribers) => format!("{} ({}){zone}", grouped(subscribers.round() as u64), percent(lost.share)),
        None => format!("{}{zone}", percent(lost.share)),
    }
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

/// The limit that binds, what it allows, and those that allow no more.
pub fn binding(one: &Candidate) -> String {
    let also: Vec<String> = one.also_binding.iter().map(|bound| bound.limit.to_string()).collect();
    let also = if also.is_empty() { String::new() } else { format!("; also {}", also.join(", ")) };
    format!("{}{also}", bound(&one.binding))
}

/// The limit that would bind next, and how far it is.
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
