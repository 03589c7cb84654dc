//! `[price.path]`: what a cloud takes for the path of the traffic: gateways, ports and attachments by the hour, and
//! gigabytes (10⁹ bytes) through them. What a plan leaves out of a part has the published price of AWS in us-east-1
//! (`data/path_prices.tsv`, with source and date); a part that is left out whole costs nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::demand::Demand;
use crate::known::{Known, Provenance};
use crate::quantity::{BitRate, HOURS_A_MONTH, Hourly, PerGigabyte, Quantity, Ratio};
use crate::question::{FailureInput, Leaves, PriceInput};
use crate::wrong::Wrong;

/// The published prices that come with weir.
pub const PATH_PRICES: &str = include_str!("../data/path_prices.tsv");

/// A table of tab-separated values: rows by column name.
fn rows(table: &str) -> impl Iterator<Item = BTreeMap<&str, &str>> {
    let mut lines = table.lines();
    let heads: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    lines.filter(|line| !line.is_empty()).map(move |line| {
        let cells = line.split('\t').map(str::trim);
        heads.iter().copied().zip(cells.chain(std::iter::repeat(""))).collect()
    })
}

/// `[price.path]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathInput {
    /// NAT gateways, by the hour and by the gigabyte.
    pub nat: Option<NatInput>,
    /// Traffic from one zone to another.
    pub cross_zone: Option<CrossZoneInput>,
    /// A transit gateway.
    pub transit: Option<TransitInput>,
    /// Ports of Direct Connect.
    pub direct_connect: Option<DirectConnectInput>,
    /// Traffic to the internet.
    pub internet: Option<InternetInput>,
}

/// `[price.path.nat]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NatInput {
    /// How many; left out: one in each of `failure.zones`.
    pub gateways: Option<u32>,
    /// The share of the traffic, both directions, that passes them; left out: all.
    pub share: Option<Known<Ratio>>,
    /// An hour of one.
    pub hour: Option<Known<Hourly>>,
    /// What a gigabyte costs.
    pub gb: Option<Known<PerGigabyte>>,
}

/// `[price.path.cross_zone]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrossZoneInput {
    /// The share of the traffic, both directions, that crosses from one zone to another; left out: what is spread evenly
    /// over `failure.zones`, `1 − 1/zones`.
    pub share: Option<Known<Ratio>>,
    /// What a gigabyte costs where it leaves a zone, and again where it enters the other.
    pub gb: Option<Known<PerGigabyte>>,
}

/// `[price.path.transit]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransitInput {
    /// Attachments paid by the hour; left out: 2, the gateways' network and one more.
    pub attachments: Option<u32>,
    /// How often all traffic crosses the gateway; left out: once.
    pub crossings: Option<u32>,
    /// An hour of one attachment.
    pub hour: Option<Known<Hourly>>,
    /// What a gigabyte costs.
    pub gb: Option<Known<PerGigabyte>>,
}

/// `[price.path.direct_connect]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DirectConnectInput {
    /// How many; left out: as many as carry the fuller direction at the peak. There are more when the demand of a year
    /// needs them.
    pub ports: Option<u32>,
    /// What one carries each way; left out: 100 Gbit/s.
    pub speed: Option<Known<BitRate>>,
    /// Which direction leaves the cloud through them; left out: downstream towards subscribers.
    pub of: Option<Leaves>,
    /// The share of that direction; left out: all.
    pub share: Option<Known<Ratio>>,
    /// An hour of one port; left out: the published price of its speed.
    pub hour: Option<Known<Hourly>>,
    /// What a gigabyte that leaves costs.
    pub gb: Option<Known<PerGigabyte>>,
}

/// `[price.path.internet]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InternetInput {
    /// Which direction leaves to the internet; left out: upstream.
    pub of: Option<Leaves>,
    /// The share of that direction; left out: all.
    pub share: Option<Known<Ratio>>,
    /// Prices by the gigabytes of a month; left out: those published.
    pub tier: Vec<TierInput>,
}

/// `[[price.path.internet.tier]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierInput {
    /// From so many gigabytes a month on.
    pub from_gb: f64,
    /// What each of them costs.
    pub gb: Known<PerGigabyte>,
}

/// A row of the published prices.
struct Listed {
    item: &'static str,
    speed: Option<f64>,
    from_gb: f64,
    price: f64,
    source: String,
}

static LISTED: LazyLock<Vec<Listed>> = LazyLock::new(|| {
    let row = |row: std::collections::BTreeMap<&'static str, &'static str>| Listed {
        item: row["item"],
        speed: row["speed_gbps"].parse::<f64>().ok().map(|gbps| gbps * 1e9),
        from_gb: row["from_gb"].parse().unwrap_or(0.0),
        price: row["price"].parse().unwrap_or(f64::NAN),
        source: format!("{}, {}", row["region"], row["date"]),
    };
    rows(PATH_PRICES).map(row).collect()
});

fn listed<'l>(item: &'l str) -> impl Iterator<Item = &'static Listed> + 'l {
    LISTED.iter().filter(move |row| row.item == item)
}

fn published<T: Quantity>(row: &Listed) -> Known<T> {
    Known::exactly(T::new(row.price), Provenance::Published, row.source.clone())
}

/// The plan's price, or the published one.
fn or_published<T: Quantity>(own: Option<&Known<T>>, item: &str) -> Option<Known<T>> {
    own.cloned().or_else(|| listed(item).next().map(published))
}

/// How much of the demand planned for there is, as shares of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// In the hour in question, or on average.
    pub now: f64,
    /// On average over the month, which the tiers of a price go by.
    pub mean: f64,
    /// At the peak, which ports are needed for.
    pub peak: f64,
}

/// What is paid for a part of the path.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Charge {
    pub what: &'static str,
    /// Pieces paid by the hour, whatever passes them; none: paid by the gigabyte.
    pub count: Option<f64>,
    /// Gigabytes an hour at the demand planned for.
    pub gb_per_hour: Option<f64>,
    /// What it costs at the demand planned for.
    pub usd_per_hour: Known<Hourly>,
    /// The share of the demand planned for that fills one piece: there are as many as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full_at: Option<f64>,
    /// Pieces that are there in any case.
    #[serde(skip)]
    least: f64,
    /// Prices by the month's gigabytes: from how many on, dollars for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<(f64, f64)>,
}

impl Charge {
    fn hours(what: &'static str, count: f64, price: &Known<Hourly>) -> Self {
        let usd_per_hour = price.map(|price| price * count);
        Self { what, count: Some(count), gb_per_hour: None, usd_per_hour, full_at: None, least: 0.0, tiers: Vec::new() }
    }

    fn gigabytes(what: &'static str, all: f64, share: &Known<Ratio>, price: &Known<PerGigabyte>) -> Self {
        let at = |share: Ratio, price: PerGigabyte| Hourly(all * share.0 * price.0);
        let usd_per_hour = Known {
            low: at(share.low, price.low),
            value: at(share.value, price.value),
            high: at(share.high, price.high),
            from: share.from.max(price.from),
            source: format!("{} $/GB{}", price.value.0, in_brackets(price)),
        };
        let gb_per_hour = Some(all * share.value.0);
        Self { what, count: None, gb_per_hour, usd_per_hour, full_at: None, least: 0.0, tiers: Vec::new() }
    }

    /// Dollars an hour at another level of demand.
    pub fn usd(&self, level: Level) -> f64 {
        let usd = self.usd_per_hour.value.0;
        match (self.count, self.full_at, self.gb_per_hour) {
            (Some(count), Some(full_at), _) => usd / count * pieces(level.peak, full_at).max(self.least),
            (Some(_), None, _) => usd,
            (None, _, Some(gb)) if !self.tiers.is_empty() => {
                gb * level.now * blended(&self.tiers, gb * level.mean * HOURS_A_MONTH)
            }
            (None, ..) => usd * level.now,
        }
    }
}

/// Region and date, or whoever says so; without either what the price rests on.
pub(crate) fn in_brackets<T>(price: &Known<T>) -> String {
    if price.source.is_empty() { format!(" ({})", price.from) } else { format!(" ({})", price.source) }
}

/// Whole pieces that carry a share of the demand, at least one.
fn pieces(share: f64, full_at: f64) -> f64 {
    (share / full_at - crate::fit::HAIR).ceil().max(1.0)
}

/// What a gigabyte costs on average when a month has so many.
fn blended(tiers: &[(f64, f64)], month: f64) -> f64 {
    let Some((_, first)) = tiers.first() else { return 0.0 };
    if month <= 0.0 {
        return *first;
    }
    let ends = tiers.iter().skip(1).map(|(from, _)| *from).chain(std::iter::once(f64::INFINITY));
    let usd = tiers.iter().zip(ends).map(|((from, price), end)| (month.min(end) - from).max(0.0) * price);
    usd.sum::<f64>() / month
}

/// What leaves of a demand.
pub(crate) fn leaving(demand: &Demand, of: Leaves) -> Option<BitRate> {
    match of {
        Leaves::Down => demand.down.bits,
        Leaves::Up => demand.up.bits,
        Leaves::Both => demand.bits(),
    }
}

/// What the path of a demand costs, part by part; `mean` is the day's mean load as a share of the peak.
///
/// # Errors
/// A demand that has no bits; ports that do not carry it; a speed without a price.
pub fn charges(path: &PathInput, failure: &FailureInput, demand: &Demand, mean: f64) -> Result<Vec<Charge>, Wrong> {
    let PathInput { nat, cross_zone, transit, direct_connect: ports, internet } = path;
    if nat.is_none() && cross_zone.is_none() && transit.is_none() && ports.is_none() && internet.is_none() {
        return Ok(Vec::new());
    }
    let Some(bits) = demand.bits() else {
        let help = "add demand.frame, such as \"1000 B\"";
        return Err(Wrong::at("price.path", "gigabytes of packets whose size is not known", help));
    };
    let all = bits.gigabytes_an_hour();
    let whole = Known::exactly(Ratio(1.0), Provenance::Published, "all of it");
    let share = |share: &Option<Known<Ratio>>| share.clone().unwrap_or_else(|| whole.clone());
    let mut out = Vec::new();
    if let Some(nat) = nat {
        let gateways = f64::from(nat.gateways.unwrap_or(failure.zones));
        out.extend(or_published(nat.hour.as_ref(), "nat_hour").map(|p| Charge::hours("NAT gateways", gateways, &p)));
        let gb = or_published(nat.gb.as_ref(), "nat_gb");
        out.extend(gb.map(|price| Charge::gigabytes("NAT, data", all, &share(&nat.share), &price)));
    }
    if let Some(cross) = cross_zone {
        let evenly = || Known::assumed(Ratio(1.0 - 1.0 / f64::from(failure.zones)));
        let share = cross.share.clone().unwrap_or_else(evenly);
        let gb = or_published(cross.gb.as_ref(), "cross_zone_gb");
        // Each gigabyte is paid where it leaves and where it enters.
        out.extend(gb.map(|price| Charge::gigabytes("cross-zone, both ends", 2.0 * all, &share, &price)));
    }
    if let Some(transit) = transit {
        let attachments = f64::from(transit.attachments.unwrap_or(2));
        let hour = or_published(transit.hour.as_ref(), "transit_hour");
        out.extend(hour.map(|price| Charge::hours("transit attachments", attachments, &price)));
        let crossings = f64::from(transit.crossings.unwrap_or(1));
        let gb = or_published(transit.gb.as_ref(), "transit_gb");
        out.extend(gb.map(|price| Charge::gigabytes("transit, data", crossings * all, &whole, &price)));
    }
    if let Some(ports) = ports {
        direct_connect(ports, demand, &mut out)?;
    }
    if let Some(internet) = internet {
        let gb = leaving(demand, internet.of.unwrap_or(Leaves::Up)).unwrap_or(BitRate(0.0)).gigabytes_an_hour();
        out.push(to_internet(internet, gb, &share(&internet.share), mean));
    }
    Ok(out)
}

fn direct_connect(input: &DirectConnectInput, demand: &Demand, out: &mut Vec<Charge>) -> Result<(), Wrong> {
    let at = |key: &str, what: String, help: String| Wrong::at(&format!("price.path.direct_connect.{key}"), what, help);
    let speed = input.speed.as_ref().map_or(BitRate(100e9), |speed| speed.value);
    let whole = Known::exactly(Ratio(1.0), Provenance::Published, "all of it");
    let share = input.share.as_ref().unwrap_or(&whole);
    let of_speed = || listed("direct_connect_hour").find(|row| row.speed == Some(speed.0)).map(published);
    let Some(hour) = input.hour.clone().or_else(of_speed) else {
        let speeds: Vec<String> =
            listed("direct_connect_hour").filter_map(|row| Some(BitRate(row.speed?).to_string())).collect();
        let help = format!("one of {}, or add hour = \"2.25 $/h\"", speeds.join(", "));
        return Err(at("speed", format!("no price is known of a port of {speed}"), help));
    };
    let through = demand.bits_of_one().unwrap_or(BitRate(0.0)) * share.value.0;
    let full_at = speed / through;
    let needed = pieces(1.0, full_at);
    if let Some(ports) = input.ports
        && f64::from(ports) < needed
    {
        let what = format!("{ports} × {speed} do not carry {through} at the peak");
        return Err(at("ports", what, format!("at least {needed}, or leave it out: as many as it takes")));
    }
    let count = input.ports.map_or(needed, f64::from);
    let mut hours = Charge::hours("Direct Connect ports", count, &hour);
    (hours.full_at, hours.least) = (Some(full_at), input.ports.map_or(0.0, f64::from));
    out.push(hours);
    let gb = leaving(demand, input.of.unwrap_or_default()).unwrap_or(BitRate(0.0)).gigabytes_an_hour();
    let price = or_published(input.gb.as_ref(), "direct_connect_gb");
    out.extend(price.map(|price| Charge::gigabytes("Direct Connect, data out", gb, share, &price)));
    Ok(())
}

fn to_internet(input: &InternetInput, gb: f64, share: &Known<Ratio>, mean: f64) -> Charge {
    let list = || listed("internet_gb").map(|row| (row.from_gb, published::<PerGigabyte>(row)));
    let own = input.tier.iter().map(|tier| (tier.from_gb, tier.gb.clone()));
    let tiers: Vec<(f64, Known<PerGigabyte>)> = if input.tier.is_empty() { list().collect() } else { own.collect() };
    let at = |of: fn(&Known<PerGigabyte>) -> PerGigabyte| -> Vec<(f64, f64)> {
        tiers.iter().map(|(from, price)| (*from, of(price).0)).collect()
    };
    let price = |tiers: &[(f64, f64)]| PerGigabyte(blended(tiers, gb * share.value.0 * mean * HOURS_A_MONTH));
    let values = at(|price| price.value);
    let first = &tiers[0].1;
    let source = in_brackets(first);
    let known = Known {
        low: price(&at(|price| price.low)),
        value: price(&values),
        high: price(&at(|price| price.high)),
        from: first.from,
        source: first.source.clone(),
    };
    let mut charge = Charge::gigabytes("to the internet", gb, share, &known);
    charge.usd_per_hour.source = format!("{:.4} $/GB on average over tiers{source}", known.value.0);
    charge.tiers = values;
    charge
}

/// What can be said of a path before there is a demand.
pub(crate) fn check(price: &PriceInput, failure: &FailureInput) -> Result<(), Wrong> {
    let path = &price.path;
    let wrong = |key: &str, what: String, help: &str| Err(Wrong::at(&format!("price.path.{key}"), what, help));
    if path.transit.is_some() && (price.transit.is_some() || price.transit_crossings.is_some()) {
        let help = "leave price.transit and price.transit_crossings out";
        return wrong("transit", "the transit gateway is paid twice".to_owned(), help);
    }
    for (key, there) in [("direct_connect", path.direct_connect.is_some()), ("internet", path.internet.is_some())] {
        if there && price.transfer.is_some() {
            return wrong(key, "what leaves is paid twice".to_owned(), "leave price.transfer out");
        }
    }
    let shares = [
        ("nat.share", path.nat.as_ref().and_then(|nat| nat.share.as_ref())),
        ("cross_zone.share", path.cross_zone.as_ref().and_then(|cross| cross.share.as_ref())),
        ("direct_connect.share", path.direct_connect.as_ref().and_then(|ports| ports.share.as_ref())),
        ("internet.share", path.internet.as_ref().and_then(|internet| internet.share.as_ref())),
    ];
    for (key, share) in shares.into_iter().filter_map(|(key, share)| Some((key, share?))) {
        if !(share.low.0 > 0.0 && share.high.0 <= 1.0) {
            return wrong(key, format!("{share} is invalid"), "a share above 0, at most 1, or leave the part out");
        }
    }
    let counts = [
        ("nat.gateways", path.nat.as_ref().and_then(|nat| nat.gateways)),
        ("transit.attachments", path.transit.as_ref().and_then(|transit| transit.attachments)),
        ("transit.crossings", path.transit.as_ref().and_then(|transit| transit.crossings)),
        ("direct_connect.ports", path.direct_connect.as_ref().and_then(|ports| ports.ports)),
    ];
    if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == Some(0)) {
        return wrong(key, "none of them".to_owned(), "at least 1, or leave the part out");
    }
    if path.cross_zone.as_ref().is_some_and(|cross| cross.share.is_none()) && failure.zones < 2 {
        let help = "add failure.zones = 2 or more, or share = 0.5";
        return wrong("cross_zone", "with one zone nothing crosses to another".to_owned(), help);
    }
    let Some(internet) = &path.internet else { return prices(path) };
    let rising = internet.tier.windows(2).all(|pair| pair[0].from_gb < pair[1].from_gb);
    if internet.tier.first().is_some_and(|first| first.from_gb != 0.0) || !rising {
        let what = "tiers that leave gaps or overlap".to_owned();
        return wrong("internet.tier", what, "the first from_gb is 0, and each is more than the one before");
    }
    twice(path)?;
    prices(path)
}

/// What leaves through Direct Connect does not leave to the internet.
fn twice(path: &PathInput) -> Result<(), Wrong> {
    let (Some(ports), Some(internet)) = (&path.direct_connect, &path.internet) else { return Ok(()) };
    let share = |share: &Option<Known<Ratio>>| share.as_ref().map_or(1.0, |share| share.value.0);
    let ways = [
        (ports.of.unwrap_or_default(), share(&ports.share)),
        (internet.of.unwrap_or(Leaves::Up), share(&internet.share)),
    ];
    for (way, name) in [(Leaves::Down, "downstream"), (Leaves::Up, "upstream")] {
        let all: f64 = ways.iter().filter(|(of, _)| *of == way || *of == Leaves::Both).map(|(_, share)| share).sum();
        if all > 1.0 + 1e-9 {
            let what = format!("{} % of what goes {name} would leave, some of it twice", Ratio(100.0 * all));
            let help = "shares of direct_connect and internet that add up to 1 at most, or another of = \"up\"";
            return Err(Wrong::at("price.path.internet.share", what, help));
        }
    }
    Ok(())
}

fn prices(path: &PathInput) -> Result<(), Wrong> {
    let hours = [
        ("nat.hour", path.nat.as_ref().and_then(|nat| nat.hour.as_ref())),
        ("transit.hour", path.transit.as_ref().and_then(|transit| transit.hour.as_ref())),
        ("direct_connect.hour", path.direct_connect.as_ref().and_then(|ports| ports.hour.as_ref())),
    ];
    let gigabytes = [
        ("nat.gb", path.nat.as_ref().and_then(|nat| nat.gb.as_ref())),
        ("cross_zone.gb", path.cross_zone.as_ref().and_then(|cross| cross.gb.as_ref())),
        ("transit.gb", path.transit.as_ref().and_then(|transit| transit.gb.as_ref())),
        ("direct_connect.gb", path.direct_connect.as_ref().and_then(|ports| ports.gb.as_ref())),
    ];
    let below = |known: Option<f64>| known.is_some_and(|low| low < 0.0);
    let hour = hours.into_iter().find(|(_, price)| below(price.map(|price| price.low.0))).map(|(key, _)| key);
    let gb = gigabytes.into_iter().find(|(_, price)| below(price.map(|price| price.low.0))).map(|(key, _)| key);
    let tiers = path.internet.iter().flat_map(|internet| &internet.tier);
    let tier = tiers.into_iter().any(|tier| tier.gb.low.0 < 0.0).then_some("internet.tier");
    match hour.or(gb).or(tier) {
        Some(key) => Err(Wrong::at(&format!("price.path.{key}"), "a price below nothing", "0 or more")),
        None => {
            let speed = path.direct_connect.as_ref().and_then(|ports| ports.speed.as_ref());
            crate::demand::above_zero("price.path.direct_connect.speed", speed)
        }
    }
}

/// All prices that scale with a list, for what the answer depends on: the plan's, else those published.
pub(crate) fn scale(path: &mut PathInput, by: f64) {
    let hour = |own: &mut Option<Known<Hourly>>, item: &str| {
        *own = or_published(own.as_ref(), item).map(|price| price.map(|price| price * by));
    };
    let gb = |own: &mut Option<Known<PerGigabyte>>, item: &str| {
        *own = or_published(own.as_ref(), item).map(|price| price.map(|price| price * by));
    };
    if let Some(nat) = &mut path.nat {
        hour(&mut nat.hour, "nat_hour");
        gb(&mut nat.gb, "nat_gb");
    }
    if let Some(cross) = &mut path.cross_zone {
        gb(&mut cross.gb, "cross_zone_gb");
    }
    if let Some(transit) = &mut path.transit {
        hour(&mut transit.hour, "transit_hour");
        gb(&mut transit.gb, "transit_gb");
    }
    if let Some(ports) = &mut path.direct_connect {
        let speed = ports.speed.as_ref().map_or(100e9, |speed| speed.value.0);
        let list = listed("direct_connect_hour").find(|row| row.speed == Some(speed)).map(published);
        ports.hour = ports.hour.clone().or(list).map(|price: Known<Hourly>| price.map(|price| price * by));
        gb(&mut ports.gb, "direct_connect_gb");
    }
    if let Some(internet) = &mut path.internet {
        if internet.tier.is_empty() {
            let tier = |row: &Listed| TierInput { from_gb: row.from_gb, gb: published(row) };
            internet.tier = listed("internet_gb").map(tier).collect();
        }
        internet.tier.iter_mut().for_each(|tier| tier.gb = tier.gb.map(|price| price * by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_prices_have_source_and_date() {
        for row in rows(PATH_PRICES) {
            assert!(row["source"].contains("https://") && row["date"].len() == 10, "{row:?}");
            assert!(row["price"].parse::<f64>().unwrap() > 0.0 && ["$/h", "$/GB"].contains(&row["unit"]), "{row:?}");
        }
        let items = ["nat_hour", "nat_gb", "cross_zone_gb", "transit_hour", "transit_gb"];
        assert!(items.iter().all(|item| listed(item).count() == 1));
        assert_eq!((listed("direct_connect_hour").count(), listed("internet_gb").count()), (4, 4));
    }

    #[test]
    fn tiers_are_filled_one_after_the_other() {
        let tiers = [(0.0, 0.09), (10_240.0, 0.085), (51_200.0, 0.07)];
        assert_eq!(blended(&tiers, 100.0), 0.09);
        // 10,240 × 0.09 + 40,960 × 0.085 + 48,800 × 0.07 = 921.6 + 3,481.6 + 3,416 = 7,819.2
        assert!((blended(&tiers, 100_000.0) * 100_000.0 - 7_819.2).abs() < 1e-9);
    }
}
