//! The calculation: what is stated, step by step up to the peak of the time planned for.

use super::{Flow, Step};
use crate::erlang;
use crate::known::{End, Known, Provenance};
use crate::quantity::{BitRate, Count, FrameSize, PacketRate, Quantity, Ratio};
use crate::question::{DemandInput, Directions, DownUp, When, mean};
use crate::wrong::Wrong;

/// The demand before it is divided into directions.
pub(super) struct Base {
    bits: Option<BitRate>,
    packets: Option<PacketRate>,
    pub subscribers: Option<f64>,
    pub active: Option<f64>,
}

impl Base {
    fn scale(&mut self, by: f64) {
        self.bits = self.bits.map(|bits| bits * by);
        self.packets = self.packets.map(|packets| packets * by);
    }

    pub fn total_ratio(&self, other: &Self) -> f64 {
        let bits = self.bits.zip(other.bits).map(|(one, other)| other / one);
        bits.or(self.packets.zip(other.packets).map(|(one, other)| other / one)).unwrap_or(1.0)
    }

    /// More than all networks there are is a slip of the pen.
    pub fn is_of_this_world(&self, input: &DemandInput) -> Result<(), Wrong> {
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
    pub fn directions(&self, input: &DemandInput) -> (Flow, Flow) {
        let down = input.down_up.map_or(0.5, DownUp::share_down);
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
pub(super) fn peak(input: &DemandInput, end: End) -> Result<(Base, Vec<Step>), Wrong> {
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

/// P10 and P90 of the demand by its value: logarithms of the ranges of all inputs, each turned by itself, add up in
/// squares.
pub(super) fn range(input: &DemandInput, value: &Base) -> Result<(f64, f64), Wrong> {
    let (mut down, mut up) = (0.0, 0.0);
    for only in 0.. {
        let Some((alone, ranged)) = alone(input, only) else { break };
        if !ranged {
            continue;
        }
        let ratio = |end: End| Ok::<f64, Wrong>(value.total_ratio(&peak(&alone, end)?.0).ln());
        down += ratio(End::Low)?.powi(2);
        up += ratio(End::High)?.powi(2);
    }
    Ok(((-down.sqrt()).exp(), up.sqrt().exp()))
}

/// The input with one range left, and whether that is one; none: there are no so many inputs.
fn alone(input: &DemandInput, only: usize) -> Option<(DemandInput, bool)> {
    let mut input = input.clone();
    let mut turn = Alone { only, n: 0, ranged: None };
    turn.of(input.each.iter_mut());
    turn.of(input.subscribers.iter_mut());
    turn.of(input.packets.iter_mut().chain(input.market.iter_mut().map(|market| &mut market.packets)));
    turn.of(input.rate.iter_mut());
    turn.of(input.market.iter_mut().map(|market| &mut market.share));
    for density in &mut input.density {
        turn.of([&mut density.devices, &mut density.areas].into_iter());
    }
    turn.of(input.busy_hour_over_mean.iter_mut().chain(input.peak_over_busy_hour.iter_mut()));
    turn.of(input.growth_per_year.iter_mut().chain(input.headroom.iter_mut()).chain(input.erlangs.iter_mut()));
    let ranged = turn.ranged?;
    Some((input, ranged))
}

/// Takes the range from all inputs but one.
struct Alone {
    only: usize,
    n: usize,
    ranged: Option<bool>,
}

impl Alone {
    fn of<'k, T: Quantity + 'k>(&mut self, all: impl Iterator<Item = &'k mut Known<T>>) {
        for known in all {
            if self.n == self.only {
                self.ranged = Some(known.low < known.high);
            } else {
                (known.low, known.high) = (known.value, known.value);
            }
            self.n += 1;
        }
    }
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

pub(super) fn provenance(input: &DemandInput) -> Provenance {
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
