//! What a plan asks, as its file says it. Units stand in the text; what is left out has a default that is said here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::frames::Mix;
use crate::knobs::scale_all;
use crate::known::{Known, Provenance};
use crate::onprem::Server;
use crate::quantity::{
    BitRate, Clock, Count, FrameSize, Memory, PacketRate, PerGigabyte, PerKilowattHour, Ratio, Time,
};
use crate::scaling::{Confidence, Shape};

/// A plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// What the answer is headed with.
    pub name: Option<String>,
    /// What is to be run.
    pub gateway: Gateway,
    /// How far from measurements an answer may go.
    #[serde(default)]
    pub points: Confidence,
    /// How points are read between and beyond them.
    #[serde(default)]
    pub scaling: Shape,
    /// What is to be carried.
    pub demand: DemandInput,
    /// What one unit of the gateway takes; by default what the publications gave theirs.
    pub unit: Option<UnitInput>,
    /// What was measured.
    #[serde(default)]
    pub point: Vec<PointInput>,
    /// What a packet is stated to cost, where nothing was measured.
    #[serde(default)]
    pub cost: Vec<CostInput>,
    /// On what hosts.
    #[serde(default)]
    pub placement: PlacementInput,
    /// What may fail.
    #[serde(default)]
    pub failure: FailureInput,
    /// What there may be at most.
    #[serde(default)]
    pub bounds: crate::bounds::BoundsInput,
    /// How machines come and go with the load.
    pub autoscale: Option<AutoscaleInput>,
    /// What things cost.
    #[serde(default)]
    pub price: PriceInput,
    /// Costs year by year.
    pub years: Option<crate::years::YearsInput>,
    /// Which machines to look at.
    #[serde(default)]
    pub candidates: CandidatesInput,
    /// The region whose prices count, by provider: `{ aws = "eu-west-1", azure = "westeurope" }`. A type without a price
    /// there is calculated with what another region's price says of it, as an assumption.
    #[serde(default)]
    pub region: crate::catalogue::Regions,
    /// A folder of tables over those that come with weir: `machines.tsv`, `prices.tsv`, `measurements.tsv`, `sources.tsv`,
    /// `servers.toml`, `cards.toml`, `sites.toml`; read by whoever reads the plan.
    pub catalogue: Option<String>,
    /// A file with more servers; read by whoever reads the plan.
    pub servers: Option<String>,
    /// More network cards.
    #[serde(default)]
    pub card: Vec<crate::card::Card>,
    /// More servers.
    #[serde(default)]
    pub server: Vec<Server>,
    /// What the place must be like.
    pub site: Option<crate::site::Bounds>,
    /// How it is brought up; read by whoever writes deployments.
    pub deploy: Option<serde::de::IgnoredAny>,
}

/// A kind of gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gateway {
    /// A mobile user plane; a unit is one run-to-completion gateway.
    Upf,
    /// A broadband gateway.
    Bng,
    /// A cable gateway; a unit serves one service group.
    Cmts,
}

impl Gateway {
    /// What a unit is called.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Upf => "UPF",
            Self::Bng => "BNG",
            Self::Cmts => "service group",
        }
    }
}

/// `[demand]`: exactly one of groups × each, subscribers × packets, subscribers × rate, markets × densities.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemandInput {
    /// Groups of subscribers that are served by one unit each and cannot be divided.
    pub groups: Option<u32>,
    /// What each group carries, both directions together.
    pub each: Option<Known<BitRate>>,
    /// Subscribers or devices, all together; with groups, all groups together.
    pub subscribers: Option<Known<Count>>,
    /// Packets a second of each subscriber.
    pub packets: Option<Known<PacketRate>>,
    /// Whether `packets` counts both directions together, or each.
    #[serde(default)]
    pub packets_are: Directions,
    /// Bits a second of each subscriber, both directions together.
    pub rate: Option<Known<BitRate>>,
    /// Kinds of devices, each with its packets a second.
    #[serde(default)]
    pub market: Vec<Market>,
    /// Kinds of areas, each with its devices.
    #[serde(default)]
    pub density: Vec<Density>,
    /// Downstream to upstream, as in "10:1": bits where the demand is in bits, packets where it is in packets.
    pub down_up: Option<DownUp>,
    /// Frame sizes, both directions.
    pub frame: Option<Mix>,
    /// Frame sizes upstream, instead.
    pub frame_up: Option<Mix>,
    /// Frame sizes downstream, instead.
    pub frame_down: Option<Mix>,
    /// When the stated demand occurs.
    #[serde(default)]
    pub stated_at: When,
    /// The busy hour's mean by the day's mean.
    pub busy_hour_over_mean: Option<Known<Ratio>>,
    /// The peak to be carried by the busy hour's mean.
    pub peak_over_busy_hour: Option<Known<Ratio>>,
    /// What it grows by in a year.
    pub growth_per_year: Option<Known<Ratio>>,
    /// So many years ahead.
    pub years: Option<f64>,
    /// What is left free for bursts, as a share on top.
    pub headroom: Option<Known<Ratio>>,
    /// Traffic of one subscriber in erlangs: the share of time it is active.
    pub erlangs: Option<Known<Ratio>>,
    /// With erlangs: the share of attempts that may be turned away.
    pub blocking: Option<f64>,
    /// The load of each hour of the day as a share of the peak.
    pub day: Option<Vec<f64>>,
}

impl DemandInput {
    /// Scales what each subscriber, device or group sends and receives.
    pub fn scale(&mut self, by: f64) {
        scale_all(self.each.iter_mut().chain(self.rate.iter_mut()), by);
        scale_all(self.packets.iter_mut().chain(self.market.iter_mut().map(|market| &mut market.packets)), by);
    }
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// Up and down together.
    #[default]
    Both,
    /// As much up as down.
    Each,
}

/// When a demand occurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// The day's mean.
    Mean,
    /// The mean of the busiest hour.
    BusyHour,
    /// What must be carried.
    #[default]
    Peak,
}

/// A kind of devices: `p`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Market {
    /// What they are.
    pub name: String,
    /// Packets a second of each device.
    pub packets: Known<PacketRate>,
    /// The share of all devices that are of this kind.
    pub share: Known<Ratio>,
}

/// A kind of areas: `k` and `A`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Density {
    /// What they are.
    pub name: String,
    /// `k`: devices in each area.
    pub devices: Known<Count>,
    /// `A`: how many areas.
    pub areas: Known<Count>,
}

/// Downstream to upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DownUp {
    /// Parts down.
    pub down: f64,
    /// Parts up.
    pub up: f64,
}

impl DownUp {
    /// The share that goes down.
    pub fn share_down(self) -> f64 {
        self.down / (self.down + self.up)
    }
}

impl<'de> Deserialize<'de> for DownUp {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let part = |text: &str| text.trim().parse::<f64>().ok().filter(|part| part.is_finite() && *part >= 0.0);
        let parts = text.split_once(':').and_then(|(down, up)| Some((part(down)?, part(up)?)));
        match parts.filter(|(down, up)| down + up > 0.0) {
            Some((down, up)) => Ok(Self { down, up }),
            None => Err(serde::de::Error::custom(format!(
                "\"{text}\" is no ratio; write downstream to upstream, such as \"10:1\""
            ))),
        }
    }
}

/// `[unit]`: what one unit takes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitInput {
    /// vCPUs of a unit.
    pub vcpus: Option<u32>,
    /// Interfaces of a unit.
    pub interfaces: Option<u32>,
    /// All units share one set of interfaces, each with queues of its own.
    #[serde(default)]
    pub share_interfaces: bool,
    /// Queues of each of its interfaces.
    pub queues: Option<u32>,
    /// Memory of a unit, without subscribers.
    pub memory: Option<Known<Memory>>,
    /// Memory of a subscriber.
    pub memory_per_subscriber: Option<Known<Memory>>,
    /// Last-level cache of a unit.
    pub l3: Option<Known<Memory>>,
    /// Interfaces of a machine for its administration.
    pub admin_interfaces: Option<u32>,
    /// vCPUs of a machine for everything else.
    #[serde(default)]
    pub reserved_vcpus: u32,
}

/// `[[point]]`: what was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointInput {
    /// On what: an instance type, a server, or any name together with `clock`.
    pub machine: String,
    /// How many units ran.
    #[serde(default = "one")]
    pub units: u32,
    /// What each carried, in bits.
    pub each: Option<Known<BitRate>>,
    /// What each carried, in packets.
    pub each_packets: Option<Known<PacketRate>>,
    /// Whether that counts both directions together, or each.
    #[serde(default)]
    pub directions: Directions,
    /// The mean frame it was measured with; left out: the plan's.
    pub frame: Option<Mix>,
    /// The subscribers of each unit it was measured with.
    pub subscribers: Option<f64>,
    /// What it rests on.
    #[serde(default)]
    pub from: Provenance,
    /// Who measured it, when.
    #[serde(default)]
    pub source: String,
    /// The clock of a machine that is in no list.
    pub clock: Option<Known<Clock>>,
    /// The architecture of a machine that is in no list.
    pub arch: Option<String>,
}

fn one() -> u32 {
    1
}

/// `[[cost]]`: what a packet is stated to cost, each counted once, on a core that runs it to completion.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostInput {
    pub machine: String,
    /// Cores of a unit that carry packets.
    #[serde(default = "one")]
    pub cores: u32,
    /// Receiving.
    pub trx: Known<Time>,
    /// Processing.
    pub tc: Known<Time>,
    /// Sending.
    pub ttx: Known<Time>,
    /// Everything else.
    pub other: Known<Time>,
    /// The mean frame.
    pub frame: Option<Mix>,
    /// The clock of a machine that is in no list.
    pub clock: Option<Known<Clock>>,
    /// The architecture of a machine that is in no list.
    pub arch: Option<String>,
}

/// `[placement]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlacementInput {
    /// Whether others may be on the same hosts.
    pub host: Host,
    /// Dedicated hosts that can be had, of all accounts and regions together; left out: two, which an AWS account has in
    /// a region unless more are granted (vcmts-cloud-2021), and no bound for other clouds.
    pub hosts: Option<u32>,
    /// What is left of a unit's throughput beside others on a shared host: factors that multiply. Machines that have
    /// their host to themselves keep all.
    pub sharing: Vec<Known<Ratio>>,
    /// Calculate with the bandwidth there is all the time, or with that for a while.
    pub bandwidth: Bandwidth,
    /// All in one cluster placement group.
    pub cluster: bool,
    /// The traffic leaves through an internet or local gateway, which gives half of the bandwidth from 32 vCPUs on, and
    /// 5 Gbit/s below (AWS).
    pub internet: bool,
    /// The largest single flow, such as a tunnel of a whole cell site.
    pub largest_flow: Option<Known<BitRate>>,
}

impl Default for PlacementInput {
    fn default() -> Self {
        Self {
            host: Host::default(),
            hosts: None,
            sharing: Vec::new(),
            bandwidth: Bandwidth::default(),
            cluster: true,
            internet: false,
            largest_flow: None,
        }
    }
}

/// Who is on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// Whoever the cloud puts there.
    #[default]
    Shared,
    /// Only the operator's instances.
    Dedicated,
}

/// Which bandwidth counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Bandwidth {
    /// What there is all the time; where that is not known, the most there is, which is no promise.
    #[default]
    Baseline,
    /// What there is for a while.
    Burst,
}

/// `[failure]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FailureInput {
    /// Machines beyond those needed.
    pub spares: u32,
    /// Zones the machines are spread over.
    pub zones: u32,
    /// Enough is left when a zone is lost.
    pub survive_zone: bool,
    /// The most subscribers that may be lost with one machine, as a share.
    pub most_lost: Option<f64>,
}

impl Default for FailureInput {
    fn default() -> Self {
        Self { spares: 0, zones: 1, survive_zone: false, most_lost: None }
    }
}

/// `[autoscale]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AutoscaleInput {
    /// The load of a unit's workers (`weir_load_ratio`) that is aimed for: units are planned to carry no more.
    pub target_load: Option<f64>,
    /// Machines the fleet shrinks to.
    pub least_machines: Option<u32>,
    /// Machines the fleet may grow to.
    pub most_machines: Option<u32>,
    /// Machines beyond those needed in hours with less than half of the peak; left out: as many as by day.
    pub spares_at_night: Option<u32>,
}

/// `[price]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PriceInput {
    /// What a commitment takes off the price on demand, as a share.
    pub commitment: Option<Known<Ratio>>,
    /// The share of machines under commitment; the rest is on demand. Left out: all.
    pub committed: Option<f64>,
    /// What a dedicated host costs more than its largest instance type, as a share.
    pub dedicated_premium: Option<Known<Ratio>>,
    /// Traffic that leaves the cloud.
    pub transfer: Option<Known<PerGigabyte>>,
    /// Which direction leaves: downstream towards subscribers, upstream, or both.
    pub transfer_of: Leaves,
    /// A transit gateway's processing.
    pub transit: Option<Known<PerGigabyte>>,
    /// How often traffic crosses it.
    pub transit_crossings: Option<u32>,
    /// What carrying a gigabyte costs on premise.
    pub own_transfer: Option<Known<PerGigabyte>>,
    /// Energy on premise.
    pub energy: Option<Known<PerKilowattHour>>,
    /// What a cloud takes for the path of the traffic, part by part.
    pub path: crate::path::PathInput,
}

/// What leaves a cloud for money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Leaves {
    /// Towards subscribers.
    #[default]
    Down,
    /// Towards the network.
    Up,
    /// Everything.
    Both,
}

/// `[candidates]`: empty lists mean all.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CandidatesInput {
    /// `aws`, `azure`, `gcp`, `on-premise`.
    pub providers: Vec<String>,
    /// `c5n`, …
    pub families: Vec<String>,
    /// `c5n.4xlarge`, …
    pub machines: Vec<String>,
}

/// The mean of a mix that may not be given.
pub(crate) fn mean(mix: Option<&Mix>) -> Option<FrameSize> {
    mix.map(Mix::mean)
}
