//! What is to be carried: from subscribers to packets and bits a second at the peak.
//!
//! | from | how |
//! |---|---|
//! | subscribers `N` and packets of each `p` | `PPS = N·p`, with `p` stated for both directions together or for each |
//! | markets `p₁…pₜ` and densities `k₁…kᵣ` | `N = Σ k·A`, `PPS = Σₜ Σᵣ shareₜ·pₜ·kᵣ·Aᵣ` (upf-public-cloud, section VII) |
//! | subscribers and bits of each | `bits = N·rate` |
//! | groups that can not be divided | `bits = groups·each` |
//!
//! Then, each step shown: subscribers active at once (Erlang-B, where a blocking probability is asked for), mean → busy
//! hour → peak, growth over years, headroom for bursts.

use serde::Serialize;

use crate::erlang;
use crate::known::{End, Known, Provenance};
use crate::quantity::{BitRate, Count, FrameSize, PacketRate, Quantity, Ratio};
use crate::question::{DemandInput, Directions, When, mean};
use crate::wrong::Wrong;

/// One direction's traffic. What frame sizes would tell and nobody gave is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Flow {
    /// Bits a second.
    pub bits: Option<BitRate>,
    /// Packets a second.
    pub packets: Option<PacketRate>,
}

impl Flow {
    fn scaled(self, by: f64) -> Self {
        Self { bits: self.bits.map(|bits| bits * by), packets: self.packets.map(|packets| packets * by) }
    }

    /// The mean frame.
    pub fn frame(self) -> Option<FrameSize> {
        let (bits, packets) = (self.bits?, self.packets?);
        (packets.0 > 0.0).then(|| bits / packets)
    }
}

/// What the network must carry at the time planned for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Towards the network.
    pub up: Flow,
    /// Towards subscribers.
    pub down: Flow,
    /// Groups that can not be divided.
    pub groups: Option<u32>,
    /// Subscribers, all of them.
    pub subscribers: Option<Count>,
    /// The most that are active at once, where a blocking probability was asked for.
    pub active: Option<Count>,
    /// The demand may be less by this factor.
    pub low: f64,
    /// Or more by this.
    pub high: f64,
    /// What it rests on.
    pub from: Provenance,
    /// How it came about.
    pub steps: Vec<Step>,
}

/// A line of the calculation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What was done.
    pub what: String,
    /// What it came to.
    pub result: String,
}

impl Demand {
    /// Both directions.
    pub fn bits(&self) -> Option<BitRate> {
        Some(self.up.bits? + self.down.bits?)
    }

    /// Both directions.
    pub fn packets(&self) -> Option<PacketRate> {
        Some(self.up.packets? + self.down.packets?)
    }

    /// The fuller direction's.
    pub fn bits_of_one(&self) -> Option<BitRate> {
        let (up, down) = (self.up.bits?, self.down.bits?);
        Some(if up > down { up } else { down })
    }

    /// The fuller direction's.
    pub fn packets_of_one(&self) -> Option<PacketRate> {
        let (up, down) = (self.up.packets?, self.down.packets?);
        Some(if up > down { up } else { down })
    }

    /// The mean frame of both directions.
    pub fn frame(&self) -> Option<FrameSize> {
        Flow { bits: self.bits(), packets: self.packets() }.frame()
    }

    /// The same network with a share of the traffic.
    #[must_use]
    pub fn scaled(&self, by: f64) -> Self {
        Self { up: self.up.scaled(by), down: self.down.scaled(by), ..self.clone() }
    }

    /// The factor at an end of the range.
    pub fn factor(&self, end: End) -> f64 {
        match end {
            End::Low => self.low,
            End::Value => 1.0,
            End::High => self.high,
        }
    }

    /// The demand a plan states.
    ///
    /// # Errors
    /// Missing, contradictory or impossible: which key, why.
    pub fn of(input: &DemandInput) -> Result<Self, Wrong> {
        check(input)?;
        let [low, value, high] = [End::Low, End::Value, End::High].map(|end| peak(input, end));
        let ((low, _), (value, steps), (high, _)) = (low?, value?, high?);
        high.is_of_this_world(input)?;
        let (low, high) = (value.total_ratio(&low), value.total_ratio(&high));
        let (up, down) = value.directions(input);
        let from = provenance(input);
        let subscribers = value.subscribers.map(Count);
        let mut demand = Self {
            up,
            down,
            groups: input.groups,
            subscribers,
            active: value.active.map(Count),
            low,
            high,
            from,
            steps,
        };
        demand.steps.push(Step { what: "to carry, both directions".to_owned(), result: demand.told() });
        Ok(demand)
    }

    fn told(&self) -> String {
        let direction = |name: &str, flow: Flow| {
            let parts = [flow.bits.map(|b| b.to_string()), flow.packets.map(|p| p.to_string())];
            format!("{name} {}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
        };
        let both = [self.bits().map(|b| b.to_string()), self.packets().map(|p| p.to_string())];
        let both = both.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let frame = self.frame().map_or(String::new(), |frame| format!("; mean frame {frame}"));
        format!("{both} ({}; {}{frame})", direction("up", self.up), direction("down", self.down))
    }
}

/// The demand before it is divided into directions.
struct Base {
    bits: Option<BitRate>,
    packets: Option<PacketRate>,
    subscribers: Option<f64>,
    active: Option<f64>,
}

impl Base {
    fn scale(&mut self, by: f64) {
        self.bits = self.bits.map(|bits| bits * by);
        self.packets = self.packets.map(|packets| packets * by);
    }

    fn total_ratio(&self, other: &Self) -> f64 {
        let bits = self.bits.zip(other.bits).map(|(one, other)| other / one);
        bits.or(self.packets.zip(other.packets).map(|(one, other)| other / one)).unwrap_or(1.0)
    }

    /// More than all networks there are is a slip of the pen.
    fn is_of_this_world(&self, input: &DemandInput) -> Result<(), Wrong> {
        const BITS: f64 = 1e17;
        const PACKETS: f64 = 1e14;
        let bits = self.bits.filter(|bits| bits.0 > BITS).map(|bits| format!("{:.0e} bits a second", bits.0));
        let packets = self.packets.filter(|packets| packets.0 > PACKETS);
        let packets = packets.map(|packets| format!("{:.0e} packets a second", packets.0));
        let Some(much) = bits.or(packets) else { return Ok(()) };
        let key = match (input.groups, input.density.is_empty()) {
            (Some(_), _) => "demand.groups",
            (None, false) => "demand.density",
            (None, true) => "demand.subscribers",
        };
        let help = "more than all networks of the world together: look at the units";
        Err(Wrong::at(key, format!("this comes to {much}"), help))
    }

    fn told(&self) -> String {
        let parts = [self.bits.map(|b| b.to_string()), self.packets.map(|p| p.to_string())];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Up and down, in bits and packets as far as frame sizes tell.
    fn directions(&self, input: &DemandInput) -> (Flow, Flow) {
        let down = input.down_up.map_or(0.5, super::question::DownUp::share_down);
        let frame_up = mean(input.frame_up.as_ref().or(input.frame.as_ref()));
        let frame_down = mean(input.frame_down.as_ref().or(input.frame.as_ref()));
        let flow = |share: f64, frame: Option<FrameSize>| match (self.bits, self.packets) {
            (Some(bits), _) => Flow { bits: Some(bits * share), packets: frame.map(|frame| bits * share / frame) },
            (None, Some(packets)) => {
                Flow { bits: frame.map(|frame| packets * share * frame), packets: Some(packets * share) }
            }
            (None, None) => Flow::default(),
        };
        (flow(1.0 - down, frame_up), flow(down, frame_down))
    }
}

/// All inputs at one end of their ranges.
fn peak(input: &DemandInput, end: End) -> Result<(Base, Vec<Step>), Wrong> {
    let mut steps = Vec::new();
    let mut step = |what: String, base: &Base| steps.push(Step { what, result: base.told() });
    let mut base = stated(input, end)?;
    step(stated_in_words(input, &base), &base);
    if let (Some(erlangs), Some(blocking)) = (&input.erlangs, input.blocking) {
        let subscribers = base.subscribers.unwrap_or(0.0);
        let offered = subscribers * erlangs.at(end).0;
        let active = (erlang::places(offered, blocking) as f64).min(subscribers);
        base.active = Some(active);
        base.scale(active / subscribers);
        let blocking = Ratio(100.0 * blocking);
        step(format!("{} active at once (Erlang-B: {} E at {blocking} %)", Count(active), Count(offered)), &base);
    }
    let factor = |known: &Option<Known<Ratio>>| known.as_ref().map(|known| known.at(end).0);
    if input.stated_at == When::Mean
        && let Some(by) = factor(&input.busy_hour_over_mean)
    {
        base.scale(by);
        step(format!("busy hour, × {}", Ratio(by)), &base);
    }
    if input.stated_at <= When::BusyHour
        && let Some(by) = factor(&input.peak_over_busy_hour)
    {
        base.scale(by);
        step(format!("peak, × {}", Ratio(by)), &base);
    }
    if let (Some(growth), Some(years)) = (factor(&input.growth_per_year), input.years) {
        base.scale((1.0 + growth).powf(years));
        step(format!("{} % a year for {} years", Ratio(100.0 * growth), Ratio(years)), &base);
    }
    if let Some(headroom) = factor(&input.headroom) {
        base.scale(1.0 + headroom);
        step(format!("headroom for bursts, {} %", Ratio(100.0 * headroom)), &base);
    }
    Ok((base, steps))
}

fn stated(input: &DemandInput, end: End) -> Result<Base, Wrong> {
    let subscribers = input.subscribers.as_ref().map(|n| n.at(end).0);
    let base = Base { bits: None, packets: None, subscribers, active: None };
    let doubled = if input.packets_are == Directions::Each { 2.0 } else { 1.0 };
    if let (Some(groups), Some(each)) = (input.groups, &input.each) {
        return Ok(Base { bits: Some(each.at(end) * f64::from(groups)), ..base });
    }
    if let (Some(n), Some(rate)) = (subscribers, &input.rate) {
        return Ok(Base { bits: Some(rate.at(end) * n), ..base });
    }
    if let (Some(n), Some(packets)) = (subscribers, &input.packets) {
        return Ok(Base { packets: Some(packets.at(end) * (n * doubled)), ..base });
    }
    let devices: f64 = input.density.iter().map(|d| d.devices.at(end).0 * d.areas.at(end).0).sum();
    let each: PacketRate = input.market.iter().map(|m| m.packets.at(end) * m.share.at(end).0).sum();
    Ok(Base { packets: Some(each * (devices * doubled)), subscribers: Some(devices), ..base })
}

fn stated_in_words(input: &DemandInput, base: &Base) -> String {
    let counting = match input.packets_are {
        Directions::Both => "both directions together",
        Directions::Each => "in each direction",
    };
    let when = match input.stated_at {
        When::Mean => "mean",
        When::BusyHour => "busy hour",
        When::Peak => "peak",
    };
    let n = Count(base.subscribers.unwrap_or(0.0));
    let what = match (&input.groups, &input.each, &input.rate, &input.packets) {
        (Some(groups), Some(each), ..) => format!("{groups} groups at {each}"),
        (_, _, Some(rate), _) => format!("{n} subscribers at {rate}"),
        (_, _, _, Some(packets)) => format!("{n} subscribers at {packets} {counting}"),
        _ => format!("{n} devices in {} markets × {} densities, {counting}", input.market.len(), input.density.len()),
    };
    format!("{what} ({when})")
}

fn provenance(input: &DemandInput) -> Provenance {
    let of = [
        input.each.as_ref().map(|k| k.from),
        input.subscribers.as_ref().map(|k| k.from),
        input.packets.as_ref().map(|k| k.from),
        input.rate.as_ref().map(|k| k.from),
        input.headroom.as_ref().map(|k| k.from),
        input.growth_per_year.as_ref().map(|k| k.from),
    ];
    of.into_iter().flatten().max().unwrap_or_default()
}

const WAYS: &str = "say one of: groups and each; subscribers and packets; subscribers and rate; [[demand.market]] and \
                    [[demand.density]]";

/// Missing, contradictory, impossible.
fn check(input: &DemandInput) -> Result<(), Wrong> {
    ways(input)?;
    if let Some(0) = input.groups {
        return Err(Wrong::at("demand.groups", "no group at all", "at least 1"));
    }
    above_zero("demand.each", input.each.as_ref())?;
    above_zero("demand.subscribers", input.subscribers.as_ref())?;
    above_zero("demand.packets", input.packets.as_ref())?;
    above_zero("demand.rate", input.rate.as_ref())?;
    for (n, density) in input.density.iter().enumerate() {
        above_zero(&format!("demand.density.{n}.devices"), Some(&density.devices))?;
        above_zero(&format!("demand.density.{n}.areas"), Some(&density.areas))?;
    }
    let mut shares = 0.0;
    for (n, market) in input.market.iter().enumerate() {
        above_zero(&format!("demand.market.{n}.packets"), Some(&market.packets))?;
        above_zero(&format!("demand.market.{n}.share"), Some(&market.share))?;
        shares += market.share.value.0;
    }
    if !input.market.is_empty() && (shares - 1.0).abs() > 0.005 {
        let what = format!("the markets' shares add up to {}", Ratio(shares));
        return Err(Wrong::at("demand.market", what, "every device is of one kind: the shares add up to 1"));
    }
    factors(input)?;
    agree(input)?;
    if let Some(day) = &input.day {
        if day.len() != 24 {
            let what = format!("{} hours", day.len());
            return Err(Wrong::at("demand.day", what, "24 numbers, the load of each hour as a share of the peak"));
        }
        if let Some(n) = day.iter().position(|share| !(0.0..=1.0).contains(share)) {
            let what = format!("{} is no share of the peak", day[n]);
            return Err(Wrong::at(&format!("demand.day.{n}"), what, "a number from 0 to 1"));
        }
    }
    Ok(())
}

/// Exactly one way of stating a demand.
fn ways(input: &DemandInput) -> Result<(), Wrong> {
    let given = [
        ("groups", input.groups.is_some()),
        ("each", input.each.is_some()),
        ("packets", input.packets.is_some()),
        ("rate", input.rate.is_some()),
        ("market", !input.market.is_empty()),
        ("density", !input.density.is_empty()),
    ];
    let given: Vec<&str> = given.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    let needs_subscribers = |key: &str| match input.subscribers {
        Some(_) => Ok(()),
        None => Err(Wrong::at(&format!("demand.{key}"), "of how many subscribers?", "add subscribers = …")),
    };
    match given.as_slice() {
        ["groups", "each"] => Ok(()),
        ["packets"] => needs_subscribers("packets"),
        ["rate"] => needs_subscribers("rate"),
        // Both: they must agree, which frame sizes tell.
        ["packets", "rate"] => needs_subscribers("packets"),
        ["market", "density"] if input.subscribers.is_none() => Ok(()),
        ["market", "density"] => Err(Wrong::at(
            "demand.subscribers",
            "the densities already say how many there are",
            "leave subscribers or the densities out",
        )),
        [] => Err(Wrong::at("demand", "there is no demand", WAYS)),
        ["groups"] => Err(Wrong::at("demand.groups", "groups of what?", "add each = \"2.5 Gbit/s\"")),
        ["each"] => Err(Wrong::at("demand.each", "of how many groups?", "add groups = 24")),
        ["market"] => Err(Wrong::at("demand.market", "how many devices are there?", "add [[demand.density]] sections")),
        ["density"] => Err(Wrong::at("demand.density", "what do the devices send?", "add [[demand.market]] sections")),
        more => {
            let what = format!("the demand is stated in several ways at once: {}", more.join(", "));
            Err(Wrong::at(&format!("demand.{}", more[more.len() - 1]), what, WAYS))
        }
    }
}

fn factors(input: &DemandInput) -> Result<(), Wrong> {
    let at_least = |key: &str, known: Option<&Known<Ratio>>, least: f64, help: &str| match known {
        Some(known) if known.low.0 < least => {
            Err(Wrong::at(&format!("demand.{key}"), format!("{known} can not be"), help.to_owned()))
        }
        _ => Ok(()),
    };
    let no_less = "a peak is no less than a mean: 1 or more";
    at_least("busy_hour_over_mean", input.busy_hour_over_mean.as_ref(), 1.0, no_less)?;
    at_least("peak_over_busy_hour", input.peak_over_busy_hour.as_ref(), 1.0, no_less)?;
    at_least(
        "growth_per_year",
        input.growth_per_year.as_ref(),
        -0.99,
        "a share, such as 0.25 for 25 % more each year",
    )?;
    at_least("headroom", input.headroom.as_ref(), 0.0, "a share on top, such as 0.2 for 20 %")?;
    let pairs = [
        ("busy_hour_over_mean", input.busy_hour_over_mean.is_some() && input.stated_at != When::Mean, "mean"),
        ("peak_over_busy_hour", input.peak_over_busy_hour.is_some() && input.stated_at == When::Peak, "busy-hour"),
    ];
    for (key, idle, when) in pairs {
        if idle {
            let what = "this changes nothing: the demand is stated for a later step";
            return Err(Wrong::at(
                &format!("demand.{key}"),
                what,
                format!("add stated_at = \"{when}\", or leave it out"),
            ));
        }
    }
    match (input.growth_per_year.is_some(), input.years) {
        (true, None) => return Err(Wrong::at("demand.growth_per_year", "for how many years?", "add years = 3")),
        (false, Some(_)) => {
            return Err(Wrong::at("demand.years", "what happens in them?", "add growth_per_year = 0.25"));
        }
        (_, Some(years)) if !(0.0..=50.0).contains(&years) => {
            return Err(Wrong::at("demand.years", format!("{years} years"), "a number from 0 to 50"));
        }
        _ => {}
    }
    match (&input.erlangs, input.blocking) {
        (Some(_), None) => Err(Wrong::at("demand.erlangs", "how much may be turned away?", "add blocking = 0.01")),
        (None, Some(_)) => {
            Err(Wrong::at("demand.blocking", "of which traffic?", "add erlangs = 0.3, of each subscriber"))
        }
        (Some(_), Some(_)) if input.subscribers.is_none() && input.density.is_empty() => {
            Err(Wrong::at("demand.erlangs", "of how many subscribers?", "add subscribers = …"))
        }
        (Some(erlangs), _) if !(erlangs.low.0 > 0.0 && erlangs.high.0 <= 1.0) => Err(Wrong::at(
            "demand.erlangs",
            format!("{erlangs} can not be"),
            "the share of time one subscriber is active: above 0, at most 1",
        )),
        (_, Some(blocking)) if !(1e-9..1.0).contains(&blocking) => {
            Err(Wrong::at("demand.blocking", format!("{blocking} is no probability to plan for"), "such as 0.01"))
        }
        _ => Ok(()),
    }
}

/// Bits, packets and frame sizes that are all given must agree.
fn agree(input: &DemandInput) -> Result<(), Wrong> {
    if input.packets_are == Directions::Each && input.down_up.is_some_and(|ratio| ratio.down != ratio.up) {
        let what = "as many packets in each direction, and a ratio that says otherwise";
        return Err(Wrong::at("demand.down_up", what, "leave one of packets_are = \"each\" and down_up out"));
    }
    if input.frame.is_some() && input.frame_up.is_some() && input.frame_down.is_some() {
        return Err(Wrong::at("demand.frame", "both directions have frame sizes of their own", "leave frame out"));
    }
    let (Some(packets), Some(rate)) = (&input.packets, &input.rate) else { return Ok(()) };
    let doubled = if input.packets_are == Directions::Each { 2.0 } else { 1.0 };
    let implied = rate.value / (packets.value * doubled);
    let Some(frame) = mean(input.frame.as_ref()) else {
        if implied.0 < 60.0 {
            let what = format!("{rate} in {packets} would be frames of {implied}");
            return Err(Wrong::at("demand.packets", what, "no frame is smaller than 60 B: one of the two is wrong"));
        }
        let what = "rate and packets are both given, and no frame size that makes them agree";
        return Err(Wrong::at("demand.packets", what, format!("leave one of them out, or add frame = \"{implied}\"")));
    };
    if (implied / frame - 1.0).abs() > 0.02 {
        let what = format!("{rate} in {packets} are frames of {implied}, and frame says {frame}");
        return Err(Wrong::at("demand.packets", what, "leave one of rate, packets and frame out"));
    }
    Ok(())
}

pub(crate) fn above_zero<T: Quantity>(key: &str, known: Option<&Known<T>>) -> Result<(), Wrong> {
    match known {
        Some(known) if !(known.low.get() > 0.0 && known.high.get().is_finite()) => {
            Err(Wrong::at(key, format!("{known} can not be"), format!("more than nothing, such as \"{}\"", T::EXAMPLE)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Demand, Wrong> {
        Demand::of(&toml::from_str(text).unwrap_or_else(|error| panic!("{error}")))
    }

    fn close(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn what_no_network_carries_is_impossible() {
        let wrong = of("subscribers = 1e30\npackets = '10 pps'").unwrap_err();
        assert!(wrong.to_string().starts_with("demand.subscribers: this comes to 1e31 packets a second"), "{wrong}");
        let wrong = of("groups = 4\neach = '2.5 Tbit/s'\ngrowth_per_year = 5\nyears = 50").unwrap_err();
        assert!(wrong.path == ["demand", "groups"] && wrong.what.ends_with("bits a second"), "{wrong}");
        assert!(of("subscribers = 8e9\nrate = '1 Mbit/s'").is_ok(), "everybody at once");
    }

    #[test]
    fn packets_of_both_directions_or_of_each() {
        let both = of("subscribers = 250000\npackets = '10 pps'\nframe = '128 B'").unwrap();
        close(both.packets().unwrap().0, 2.5e6);
        close(both.packets_of_one().unwrap().0, 1.25e6);
        close(both.bits().unwrap().0, 2.56e9);
        let each = of("subscribers = 250000\npackets = '10 pps'\npackets_are = 'each'").unwrap();
        close(each.packets().unwrap().0, 5e6);
        assert_eq!(each.bits(), None, "nobody said how large they are");
    }

    #[test]
    fn a_matrix_of_markets_and_densities() {
        let demand = of("market = [{ name = 'phones', packets = '20 pps', share = 0.6 }, \
                         { name = 'meters', packets = '1 pps', share = 0.4 }]\n\
                         density = [{ name = 'city', devices = 2000, areas = 100 }, \
                         { name = 'land', devices = 100, areas = 500 }]")
        .unwrap();
        close(demand.subscribers.unwrap().0, 250e3);
        close(demand.packets().unwrap().0, 250e3 * 12.4);
    }

    #[test]
    fn groups_with_a_ratio_and_sizes() {
        let demand = of("groups = 24\neach = '2.5 Gbit/s'\ndown_up = '10:1'\nframe_up = '84:65,256:18,1280:17'\n\
                         frame_down = '84:15,256:10,1280:75'")
        .unwrap();
        close(demand.bits().unwrap().0, 60e9);
        close(demand.down.bits.unwrap().0, 60e9 * 10.0 / 11.0);
        close(demand.down.frame().unwrap().0, 998.2);
    }

    #[test]
    fn every_step_multiplies() {
        let demand = of("subscribers = 1000\nrate = '1 Mbit/s'\nstated_at = 'mean'\nbusy_hour_over_mean = 2\n\
                         peak_over_busy_hour = 1.5\ngrowth_per_year = 0.1\nyears = 2\nheadroom = 0.2")
        .unwrap();
        close(demand.bits().unwrap().0, 1e9 * 2.0 * 1.5 * 1.21 * 1.2);
        assert_eq!(demand.steps.len(), 6);
    }

    #[test]
    fn erlang_b_says_how_many_are_active() {
        let demand = of("subscribers = 1000\npackets = '10 pps'\nerlangs = 0.1\nblocking = 0.01").unwrap();
        assert_eq!(demand.active, Some(Count(117.0)));
        close(demand.packets().unwrap().0, 1170.0);
    }

    #[test]
    fn ranges_stay_ranges() {
        let demand = of("subscribers = '900..1100'\nrate = '1 Mbit/s'\nheadroom = '0..0.5'").unwrap();
        close(demand.low, 0.9 / 1.25);
        close(demand.high, 1.1 * 1.5 / 1.25);
    }

    #[test]
    fn what_is_wrong_is_said_at_its_key() {
        let cases = [
            ("frame = '128 B'", "demand", "no demand"),
            ("groups = 3", "demand.groups", "of what"),
            ("rate = '1 Mbit/s'", "demand.rate", "how many subscribers"),
            ("groups = 3\neach = '1 Gbit/s'\npackets = '3 pps'", "demand.packets", "several ways"),
            ("groups = 0\neach = '1 Gbit/s'", "demand.groups", "no group"),
            ("groups = 2\neach = '0 Gbit/s'", "demand.each", "can not be"),
            ("subscribers = -5\nrate = '1 Mbit/s'", "demand.subscribers", "can not be"),
            ("subscribers = 5\nrate = '1 Mbit/s'\npackets = '1 Mpps'", "demand.packets", "frames of"),
            (
                "subscribers = 5\nrate = '1 Mbit/s'\npackets = '1000 pps'\nframe = '1400 B'",
                "demand.packets",
                "frame says",
            ),
            ("subscribers = 5\nrate = '1 Mbit/s'\npeak_over_busy_hour = 2", "demand.peak_over_busy_hour", "nothing"),
            ("subscribers = 5\nrate = '1 Mbit/s'\ngrowth_per_year = 0.2", "demand.growth_per_year", "how many years"),
            ("subscribers = 5\nrate = '1 Mbit/s'\nerlangs = 0.1\nblocking = 1.5", "demand.blocking", "probability"),
            ("subscribers = 5\nrate = '1 Mbit/s'\nday = [1, 2]", "demand.day", "2 hours"),
            (
                "subscribers = 5\npackets = '9 pps'\npackets_are = 'each'\ndown_up = '9:1'",
                "demand.down_up",
                "otherwise",
            ),
        ];
        for (text, path, words) in cases {
            let wrong = of(text).unwrap_err();
            assert_eq!(wrong.path.join("."), path, "{wrong}");
            assert!(wrong.to_string().contains(words), "{wrong} does not say {words}");
        }
    }
}
