//! What can be said of a question before it is answered.

use crate::known::Known;
use crate::plan::World;
use crate::quantity::Ratio;
use crate::question::Question;
use crate::wrong::Wrong;

/// Everything but the demand, which checks itself.
pub(crate) fn check(question: &Question, world: &World) -> Result<(), Wrong> {
    points(question, world)?;
    costs(question, world)?;
    candidates(question, world)?;
    bounds(question)?;
    autoscale(question)?;
    crate::path::check(&question.price, &question.failure)?;
    crate::years::check(question)?;
    for (n, factor) in question.placement.sharing.iter().enumerate() {
        share(&format!("placement.sharing.{n}"), factor, "what is left beside others: above 0, at most 1")?;
    }
    for provider in question.region.keys() {
        let there = world.machines.iter().map(|machine| machine.provider.as_str());
        if !there.clone().any(|one| one == provider) {
            let what = format!("\"{provider}\" is not in the catalogue");
            return Err(Wrong::at(&format!("region.{provider}"), what, near(provider, there)));
        }
    }
    if question.placement.hosts == Some(0) {
        return Err(Wrong::at("placement.hosts", "no host carries nothing", "at least 1"));
    }
    let failure = &question.failure;
    if failure.zones == 0 {
        return Err(Wrong::at("failure.zones", "machines are in no zone", "at least 1"));
    }
    if failure.survive_zone && failure.zones < 2 {
        let help = "add zones = 2 or more under [failure]";
        return Err(Wrong::at("failure.survive_zone", "with one zone nothing is left when it is lost", help));
    }
    if let Some(most) = failure.most_lost
        && !(most > 0.0 && most <= 1.0)
    {
        return Err(Wrong::at("failure.most_lost", format!("{most} is no share"), "above 0, at most 1"));
    }
    if let Some(off) = &question.price.commitment
        && !(off.low.0 >= 0.0 && off.high.0 < 1.0)
    {
        return Err(Wrong::at("price.commitment", format!("{off} off"), "a share from 0 to below 1, such as 0.37"));
    }
    match question.price.committed {
        Some(share) if !(0.0..=1.0).contains(&share) => {
            Err(Wrong::at("price.committed", format!("{share} is no share"), "from 0 to 1"))
        }
        Some(_) if question.price.commitment.is_none() => {
            Err(Wrong::at("price.committed", "at what discount?", "add commitment = 0.37"))
        }
        _ => Ok(()),
    }
}

fn bounds(question: &Question) -> Result<(), Wrong> {
    crate::demand::above_zero("bounds.budget", question.bounds.budget.as_ref())?;
    crate::demand::above_zero("bounds.power", question.bounds.power.as_ref())?;
    if question.bounds.machines == Some(0) {
        return Err(Wrong::at("bounds.machines", "no machine carries nothing", "at least 1"));
    }
    Ok(())
}

/// The load aimed for, spares and the fleet's bounds against each other and the rest of the plan.
fn autoscale(question: &Question) -> Result<(), Wrong> {
    let Some(auto) = &question.autoscale else { return Ok(()) };
    let wrong = |key: &str, what: String, help: &str| Err(Wrong::at(&format!("autoscale.{key}"), what, help));
    if let Some(load) = auto.target_load
        && !(load > 0.0 && load <= 1.0)
    {
        return wrong("target_load", format!("{load} is no load to aim for"), "above 0, at most 1, such as 0.7");
    }
    let (least, most) = (auto.least_machines.unwrap_or(1), auto.most_machines.unwrap_or(u32::MAX));
    if least == 0 || least > most {
        return wrong("least_machines", format!("{least} at least and {most} at most"), "1 to most_machines");
    }
    if question.bounds.machines.is_some_and(|bound| least > bound) {
        return wrong("least_machines", format!("{least} are more than bounds.machines"), "at most bounds.machines");
    }
    match auto.spares_at_night {
        Some(spares) if spares > question.failure.spares => {
            let what = format!("{spares} by night, {} by day", question.failure.spares);
            wrong("spares_at_night", what, "at most failure.spares")
        }
        Some(_) if question.demand.day.is_none() => {
            wrong("spares_at_night", "when is night?".to_owned(), "add demand.day, the load of each hour")
        }
        _ => Ok(()),
    }
}

fn share(key: &str, known: &Known<Ratio>, help: &str) -> Result<(), Wrong> {
    let right = known.low.0 > 0.0 && known.high.0 <= 1.0;
    if right { Ok(()) } else { Err(Wrong::at(key, format!("{known} is invalid"), help)) }
}

fn points(question: &Question, world: &World) -> Result<(), Wrong> {
    for (n, point) in question.point.iter().enumerate() {
        let at = |key: &str| format!("point.{n}.{key}");
        machine(&at("machine"), &point.machine, point.clock.is_some(), world)?;
        if point.units == 0 {
            return Err(Wrong::at(&at("units"), "no unit carries nothing", "at least 1"));
        }
        match (&point.each, &point.each_packets) {
            (None, None) => {
                let help = "add each = \"2.8 Gbit/s\" or each_packets = \"0.4 Mpps\"";
                return Err(Wrong::at(&at("machine"), "what did each unit carry?", help));
            }
            (Some(_), Some(_)) => {
                return Err(Wrong::at(
                    &at("each_packets"),
                    "bits and packets are both given",
                    "one of them; the other follows from frame",
                ));
            }
            (bits, packets) => {
                crate::demand::above_zero(&at("each"), bits.as_ref())?;
                crate::demand::above_zero(&at("each_packets"), packets.as_ref())?;
            }
        }
    }
    Ok(())
}

fn costs(question: &Question, world: &World) -> Result<(), Wrong> {
    for (n, cost) in question.cost.iter().enumerate() {
        let at = |key: &str| format!("cost.{n}.{key}");
        machine(&at("machine"), &cost.machine, cost.clock.is_some(), world)?;
        if cost.cores == 0 {
            return Err(Wrong::at(&at("cores"), "no core carries nothing", "at least 1"));
        }
        for (key, part) in [("trx", &cost.trx), ("tc", &cost.tc), ("ttx", &cost.ttx), ("other", &cost.other)] {
            if part.low.0 < 0.0 {
                return Err(Wrong::at(&at(key), format!("{part} is invalid"), "0 ns or more"));
            }
        }
        if cost.trx.low.0 + cost.tc.low.0 + cost.ttx.low.0 + cost.other.low.0 <= 0.0 {
            return Err(Wrong::at(
                &at("machine"),
                "a packet that costs nothing",
                "trx, tc, ttx and other, such as \"259 ns\"",
            ));
        }
    }
    Ok(())
}

fn machine(key: &str, name: &str, has_clock: bool, world: &World) -> Result<(), Wrong> {
    if has_clock || world.machines.iter().any(|machine| machine.name == name) {
        return Ok(());
    }
    let all = world.machines.iter().map(|machine| machine.name.as_str());
    let help = format!("{}, or add clock = \"3.0 GHz\" and arch = \"x86_64\" to conclude from it", near(name, all));
    Err(Wrong::at(key, format!("no machine is called \"{name}\""), help))
}

fn candidates(question: &Question, world: &World) -> Result<(), Wrong> {
    let lists: [(&str, &[String], Vec<&str>); 3] = [
        ("providers", &question.candidates.providers, world.machines.iter().map(|m| m.provider.as_str()).collect()),
        (
            "families",
            &question.candidates.families,
            world.machines.iter().map(|m| m.family.split_once('/').map_or(m.family.as_str(), |(_, f)| f)).collect(),
        ),
        ("machines", &question.candidates.machines, world.machines.iter().map(|m| m.name.as_str()).collect()),
    ];
    for (key, wanted, there) in lists {
        if let Some((n, name)) = wanted.iter().enumerate().find(|(_, name)| !there.contains(&name.as_str())) {
            let what = format!("\"{name}\" is not in the catalogue");
            return Err(Wrong::at(&format!("candidates.{key}.{n}"), what, near(name, there.into_iter())));
        }
    }
    Ok(())
}

/// Names that begin as this one does.
pub(crate) fn near<'n>(name: &str, all: impl Iterator<Item = &'n str>) -> String {
    let all: std::collections::BTreeSet<&str> = all.collect();
    let common = |other: &str| name.chars().zip(other.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let most = all.iter().map(|other| common(other)).max().unwrap_or(0);
    let near: Vec<&str> = all.iter().copied().filter(|other| common(other) == most).take(8).collect();
    format!("there is {}{}", near.join(", "), if most == 0 { ", …" } else { "" })
}
