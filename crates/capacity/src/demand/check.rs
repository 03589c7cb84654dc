//! What is missing, contradictory or impossible in what a plan states, by key.

use crate::known::Known;
use crate::quantity::{Quantity, Ratio};
use crate::question::{DemandInput, Directions, When, mean};
use crate::wrong::Wrong;

const WAYS: &str = "use one of: groups and each; subscribers and packets; subscribers and rate; [[demand.market]] and \
                    [[demand.density]]";

/// Missing, contradictory, impossible.
pub(super) fn check(input: &DemandInput) -> Result<(), Wrong> {
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
            let what = format!("the demand is stated more than once: {}", more.join(", "));
            Err(Wrong::at(&format!("demand.{}", more[more.len() - 1]), what, WAYS))
        }
    }
}

fn factors(input: &DemandInput) -> Result<(), Wrong> {
    let at_least = |key: &str, known: Option<&Known<Ratio>>, least: f64, help: &str| match known {
        Some(known) if known.low.0 < least => {
            Err(Wrong::at(&format!("demand.{key}"), format!("{known} is invalid"), help.to_owned()))
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
            format!("{erlangs} is invalid"),
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
        let what = "equal packet rates in both directions contradict the ratio";
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
        let what = format!("{rate} in {packets} are frames of {implied}, but frame is {frame}");
        return Err(Wrong::at("demand.packets", what, "leave one of rate, packets and frame out"));
    }
    Ok(())
}

pub(crate) fn above_zero<T: Quantity>(key: &str, known: Option<&Known<T>>) -> Result<(), Wrong> {
    match known {
        Some(known) if !(known.low.get() > 0.0 && known.high.get().is_finite()) => {
            Err(Wrong::at(key, format!("{known} is invalid"), format!("more than nothing, such as \"{}\"", T::EXAMPLE)))
        }
        _ => Ok(()),
    }
}
