//! `[years]`: what the best candidates cost year by year: purchases when capacity is needed and at the end of a server's
//! life, running costs, their sum and its net present value.
//!
//! The first year has the demand the plan states, before its own growth; each further one that of the year before times
//! `(1 + subscriber_growth) · (1 + traffic_growth)`. Capacity is there for the peak of its year, bought at the beginning
//! of it. `NPV = Σ purchases / (1 + r)^(year − 1) + running / (1 + r)^year`: purchases are paid at the beginning of their
//! year, the rest at its end.

mod cost;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::known::Known;
use crate::machine::Place;
use crate::plan::{Candidate, Planner};
use crate::quantity::{BitRate, PacketRate, Power, Ratio};
use crate::question::Question;
use crate::wrong::Wrong;

/// `[years]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct YearsInput {
    /// How many, 1 to 20.
    pub count: u32,
    /// Subscribers more each year; left out: none.
    pub subscriber_growth: Option<Known<Ratio>>,
    /// Traffic of a subscriber more each year; left out: none, or `demand.growth_per_year`.
    pub traffic_growth: Option<Known<Ratio>>,
    /// What a new server costs less each year.
    pub own_price_decline: Option<Known<Ratio>>,
    /// What an instance costs less each year.
    pub cloud_price_decline: Option<Known<Ratio>>,
    /// What money of next year is worth less today; left out: nothing.
    pub discount_rate: Option<Known<Ratio>>,
}

/// Costs year by year.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ByYear {
    pub discount_rate: f64,
    /// What is to be carried at the peak of each year.
    pub demand: Vec<DemandOfYear>,
    /// What was compared, the least net present value first.
    pub options: Vec<Tco>,
    /// What cannot be had in every year.
    pub refused: Vec<RefusedOverYears>,
}

/// What is to be carried at the peak of a year.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DemandOfYear {
    pub year: u32,
    /// By the demand planned for.
    pub ratio: f64,
    pub bits: Option<BitRate>,
    pub packets: Option<PacketRate>,
    pub subscribers: Option<f64>,
}

/// What an option is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Instances that follow the load.
    Cloud,
    /// Servers of one's own.
    Own,
    /// Servers of one's own for most of the day, instances for the rest.
    Hybrid,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Cloud => "cloud",
            Self::Own => "own",
            Self::Hybrid => "hybrid",
        })
    }
}

/// One way to carry the demand of all years.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tco {
    pub kind: Kind,
    pub server: Option<String>,
    pub instance: Option<String>,
    /// Of a hybrid: the share of each year's peak that the servers are bought for.
    pub base_ratio: Option<f64>,
    pub years: Vec<Year>,
    /// All years, undiscounted.
    pub total_usd: f64,
    pub npv_usd: f64,
    /// What the servers are worth at the end, by the straight line; not taken off the total.
    pub left_usd: f64,
}

/// What a year costs, undiscounted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Year {
    pub year: u32,
    /// Instances at the peak, spares among them.
    pub instances: u32,
    /// Hosts for them, where they are the operator's alone.
    pub hosts: Option<u32>,
    /// Servers in use, spares among them.
    pub servers: u32,
    /// Servers bought because more are needed.
    pub added: u32,
    /// Servers bought for those at the end of their life.
    pub replaced: u32,
    pub purchases_usd: f64,
    pub instances_usd: f64,
    /// Rack and support.
    pub hosting_usd: f64,
    /// None: the price of energy or what the server draws is not known, and not in the total.
    pub energy_usd: Option<f64>,
    /// Average over the day, the building's share (PUE) included.
    pub power: Option<Power>,
    pub traffic_usd: f64,
    pub total_usd: f64,
    pub discounted_usd: f64,
    pub usd_per_subscriber_month: Option<f64>,
}

/// An option that cannot be had in every year.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RefusedOverYears {
    pub machine: String,
    pub why: String,
}

/// `[years]` by itself and against the rest of the plan.
pub(crate) fn check(question: &Question) -> Result<(), Wrong> {
    let Some(years) = &question.years else { return Ok(()) };
    let wrong = |key: &str, what: String, help: &str| Err(Wrong::at(&format!("years.{key}"), what, help));
    if !(1..=20).contains(&years.count) {
        return wrong("count", format!("{} years", years.count), "a number from 1 to 20");
    }
    let growth = [("subscriber_growth", &years.subscriber_growth), ("traffic_growth", &years.traffic_growth)];
    for (key, growth) in growth.into_iter().filter_map(|(key, growth)| Some((key, growth.as_ref()?))) {
        if question.demand.growth_per_year.is_some() {
            let help = "leave demand.growth_per_year and demand.years out, or this: it defaults to them";
            return wrong(key, "growth is stated twice".to_owned(), help);
        }
        if !(growth.low.0 > -1.0 && growth.high.0 <= 10.0) {
            return wrong(key, format!("{growth} is invalid"), "a share, such as 0.2 for 20 % more each year");
        }
    }
    if years.subscriber_growth.is_some() && question.demand.subscribers.is_none() && question.demand.density.is_empty()
    {
        return wrong("subscriber_growth", "of how many subscribers?".to_owned(), "add demand.subscribers");
    }
    let declines =
        [("own_price_decline", &years.own_price_decline), ("cloud_price_decline", &years.cloud_price_decline)];
    for (key, decline) in declines.into_iter().filter_map(|(key, decline)| Some((key, decline.as_ref()?))) {
        if !(decline.low.0 > -1.0 && decline.high.0 < 1.0) {
            return wrong(key, format!("{decline} is invalid"), "a share below 1, such as 0.05; below 0 for a rise");
        }
    }
    match &years.discount_rate {
        Some(rate) if !(rate.low.0 >= 0.0 && rate.high.0 < 1.0) => {
            wrong("discount_rate", format!("{rate} is invalid"), "a share from 0 to below 1, such as 0.08")
        }
        _ => Ok(()),
    }
}

/// The year's demands, and what changes from year to year.
struct Course {
    /// The demand of each year by the demand planned for.
    scales: Vec<f64>,
    /// Subscribers of each year.
    subscribers: Vec<Option<f64>>,
    own_price: f64,
    cloud_price: f64,
    discount: f64,
}

impl Course {
    fn of(planner: &Planner, input: &YearsInput) -> Self {
        let share = |known: &Option<Known<Ratio>>| known.as_ref().map_or(0.0, |known| known.value.0);
        let demand = &planner.question.demand;
        let planned = share(&demand.growth_per_year);
        let first = (1.0 + planned).powf(-demand.years.unwrap_or(0.0));
        let more = 1.0 + share(&input.subscriber_growth);
        let growth = more * (1.0 + share(&input.traffic_growth)) * (1.0 + planned);
        let years = || 0..input.count;
        Self {
            scales: years().map(|year| first * growth.powf(f64::from(year))).collect(),
            subscribers: years().map(|year| Some(planner.demand.subscribers?.0 * more.powf(f64::from(year)))).collect(),
            own_price: 1.0 - share(&input.own_price_decline),
            cloud_price: 1.0 - share(&input.cloud_price_decline),
            discount: share(&input.discount_rate),
        }
    }
}

/// Of the best candidates, and of the best servers with the best instance type for the peak.
pub(crate) fn by_year(planner: &Planner, candidates: &[Candidate]) -> Option<ByYear> {
    let input = planner.question.years.as_ref()?;
    let course = Course::of(planner, input);
    let best = crate::bill::best(candidates);
    let (mut options, mut refused) = (Vec::new(), Vec::new());
    for one in &best {
        match cost::alone(planner, &course, one) {
            Ok(option) => options.push(option),
            Err(why) => refused.push(RefusedOverYears { machine: one.machine.clone(), why }),
        }
    }
    let by_npv = |a: &Tco, b: &Tco| a.npv_usd.total_cmp(&b.npv_usd);
    options.sort_by(by_npv);
    let first = |place: Place| {
        let kind = if place == Place::Cloud { Kind::Cloud } else { Kind::Own };
        let name = |option: &Tco| option.instance.clone().or(option.server.clone());
        options.iter().find(|option| option.kind == kind).and_then(name)
    };
    if let Some((server, instance)) = first(Place::OnPremise).zip(first(Place::Cloud)) {
        options.extend(cost::hybrid(planner, &course, &server, &instance));
        options.sort_by(by_npv);
    }
    let demand =
        course.scales.iter().zip(&course.subscribers).enumerate().map(|(n, (ratio, subscribers))| DemandOfYear {
            year: n as u32 + 1,
            ratio: *ratio,
            bits: planner.demand.bits().map(|bits| bits * *ratio),
            packets: planner.demand.packets().map(|packets| packets * *ratio),
            subscribers: *subscribers,
        });
    Some(ByYear { discount_rate: course.discount, demand: demand.collect(), options, refused })
}
