//! What is answered: the recommendation, every machine that can do it, and the others with the reason why not.

use schemars::JsonSchema;
use serde::Serialize;

use crate::bill::Bill;
use crate::bounds::Whereto;
use crate::choice::Choice;
use crate::day::{Day, Hybrid};
use crate::demand::Demand;
use crate::fit::Refusal;
use crate::headline::{Headline, Pareto};
use crate::ideal::Ideal;
use crate::known::{Known, Provenance};
use crate::limits::Bound;
use crate::machine::Place;
use crate::price::Traffic;
use crate::quantity::{BitRate, Hourly, PacketRate, Power};
use crate::question::Gateway;
use crate::sample::Quantiles;
use crate::scale_out::EqualCost;
use crate::scaling::{Basis, Confidence};
use crate::sensitivity::Lever;
use crate::site::{self};
use crate::unit::Unit;
use crate::years::ByYear;

/// The answer to a plan. Quantities are in base units: bits, packets and dollars a second, a second and an hour.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// What it is headed with.
    pub name: String,
    /// The recommendation.
    pub headline: Headline,
    /// What is to be run.
    pub gateway: Gateway,
    /// How far from measurements it goes.
    pub points: Confidence,
    /// What is to be carried.
    pub demand: Demand,
    /// What a unit takes.
    pub unit: Unit,
    /// What traffic costs beside the machines.
    pub traffic: Traffic,
    /// Machines that can do it, the cheapest first, those without a price last.
    pub candidates: Vec<Candidate>,
    /// Those that cannot, or of which nobody can say.
    pub refused: Vec<Refused>,
    /// The best choices, with reasons.
    pub choices: Vec<Choice>,
    /// Candidates that no other beats in cost, failure domain, power and margin together.
    pub pareto: Vec<Pareto>,
    /// What moves the best choice's cost.
    pub sensitivity: Vec<Lever>,
    /// What an ideal instance would be.
    pub ideal: Option<Ideal>,
    /// Many small or one large, at equal cost.
    pub equal_cost: Vec<EqualCost>,
    /// In and out over a day.
    pub day: Option<Day>,
    /// A base on premise, the cloud for the rest.
    pub hybrid: Option<Hybrid>,
    /// What the best candidates cost over the day, with traffic.
    pub bills: Vec<Bill>,
    /// What the best candidates cost year by year, if the plan has years.
    pub by_year: Option<ByYear>,
    /// Where to put it.
    pub sites: Vec<site::Judged>,
    /// What was measured, by machine, and the law through it.
    pub curves: Vec<MeasuredCurve>,
    /// What to know.
    pub notes: Vec<String>,
}

/// A measured machine: what each of so many units carries.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredCurve {
    pub machine: String,
    /// As measured.
    pub points: Vec<CurvePoint>,
    /// By the law fitted to it, from one unit to beyond the last measured.
    pub law: Vec<CurvePoint>,
    /// The law.
    pub usl: Option<crate::scaling::Usl>,
}

/// What each of so many units carries.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CurvePoint {
    /// Units on the machine.
    pub units: u32,
    /// Throughput of one of them.
    pub each: Throughput,
}

/// A machine that can do it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Candidate {
    pub machine: String,
    pub provider: String,
    /// Cloud or on premise.
    pub place: Place,
    pub family: String,
    /// How the throughput follows from measurements.
    pub basis: Basis,
    /// The weakest of all that the answer rests on.
    pub from: Provenance,
    /// All that it rests on.
    pub rests_on: Vec<String>,
    /// The most units on one machine.
    pub units: u32,
    /// What holds it there.
    pub binding: Bound,
    /// Other limits that hold it there, too.
    pub also_binding: Vec<Bound>,
    /// The next that would.
    pub next: Option<Next>,
    /// Limits nobody knows.
    pub unknown: Vec<Bound>,
    /// Limits nobody measured, of which a pessimistic guess is calculated with.
    pub assumed: Vec<Bound>,
    /// Every limit, the tightest first.
    pub bounds: Vec<Bound>,
    /// What one unit carries, both directions, after neighbours took theirs.
    pub each: Throughput,
    /// The same over the range of what it rests on.
    pub each_range: Range,
    /// That by what it must carry, less one; for demand that can be divided: what all machines needed carry by the
    /// demand, less one.
    pub margin: f64,
    /// What the machines needed carry together.
    pub carries: Throughput,
    /// Machines needed.
    pub needed: u32,
    /// With spares.
    pub machines: u32,
    /// With spares, over the ranges of all inputs.
    pub machines_range: Quantiles<u32>,
    /// Machines and traffic, an hour, over the ranges of all inputs.
    pub total_usd_per_hour_range: Quantiles<f64>,
    /// The share of points at which it can do it.
    pub feasible_ratio: f64,
    /// The share of points at which it is the cheapest of those that can do it.
    pub cheapest_ratio: f64,
    /// Hosts, where they are the operator's alone.
    pub hosts: Option<u32>,
    /// What the machines needed leave unused.
    pub unused: Unused,
    /// All machines, an hour.
    pub usd_per_hour: Option<Known<Hourly>>,
    /// That and traffic.
    pub total_usd_per_hour: Option<Hourly>,
    /// Machines only, by Gbit/s of demand.
    pub usd_per_hour_per_gbps: Option<f64>,
    /// Machines only.
    pub usd_per_subscriber_month: Option<f64>,
    /// What is lost with one machine, until a spare takes over.
    pub lost_with_one: Lost,
    /// Where they would be, if the plan asks something of sites.
    pub site: Option<Whereto>,
    /// What the machines draw, spares idle, where it is known.
    pub power: Option<Power>,
}

/// A limit that is not the tightest.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Next {
    pub bound: Bound,
    /// How much more it allows than the tightest.
    pub margin: f64,
}

/// Both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Throughput {
    /// Bits a second.
    pub bits: Option<BitRate>,
    /// Packets a second, each once.
    pub packets: Option<PacketRate>,
}

/// A throughput's quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Range {
    /// One in ten is below.
    pub p10: Throughput,
    /// One in two is below.
    pub p50: Throughput,
    /// Nine in ten are below.
    pub p90: Throughput,
}

impl std::fmt::Display for Throughput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match (self.bits, self.packets) {
            (Some(bits), _) => bits.to_string(),
            (None, Some(packets)) => packets.to_string(),
            (None, None) => "–".to_owned(),
        };
        f.pad(&text)
    }
}

/// What the machines needed leave unused, as shares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Unused {
    pub vcpus: Option<f64>,
    /// Bandwidth, of what the plan calculates with.
    pub bandwidth: Option<f64>,
    /// Interfaces, the administration's counted as used.
    pub interfaces: Option<f64>,
}

/// What is lost with one machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Lost {
    /// The share of all subscribers.
    pub share: f64,
    pub subscribers: Option<f64>,
    pub units: u32,
    /// The share of all subscribers lost with a zone.
    pub share_with_zone: f64,
}

/// A machine that cannot do it, or of which nobody can say.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Refused {
    pub machine: String,
    pub provider: String,
    /// Why.
    pub refusal: Refusal,
    /// In words.
    pub why: String,
}
