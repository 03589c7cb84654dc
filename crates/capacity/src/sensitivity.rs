//! Which input moves the answer most: each changed by itself, the best choice's machines and cost calculated again.

use schemars::JsonSchema;
use serde::Serialize;

use crate::demand::Demand;
use crate::knobs::scale_all;
use crate::machine::Machine;
use crate::plan::{Candidate, Planner, World};
use crate::question::{Question, UnitInput};

/// What changing one input does.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Lever {
    pub input: &'static str,
    /// How it was changed: less and more.
    pub change: [String; 2],
    /// Machines with less and with more of it; none: it cannot be done.
    pub machines: [Option<u32>; 2],
    /// Machines and traffic, an hour, with less and with more of it.
    pub usd_per_hour: [Option<f64>; 2],
    /// The largest relative change of the cost; infinite changes (it cannot be done any more) count as one.
    pub swing: f64,
}

/// An input that can be turned.
struct Turn {
    input: &'static str,
    change: [(&'static str, f64); 2],
    turn: fn(&mut Question, &mut Machine, f64),
    demand: bool,
}

const TENTH: [(&str, f64); 2] = [("−10 %", 0.9), ("+10 %", 1.1)];
const ONE: [(&str, f64); 2] = [("−1", -1.0), ("+1", 1.0)];

const TURNS: &[Turn] = &[
    Turn { input: "demand", change: TENTH, demand: true, turn: |question, _, by| question.demand.scale(by) },
    Turn {
        input: "throughput of a unit",
        change: TENTH,
        demand: false,
        turn: |question, _, by| {
            scale_all(question.point.iter_mut().flat_map(|point| point.each.iter_mut()), by);
            scale_all(question.point.iter_mut().flat_map(|point| point.each_packets.iter_mut()), by);
            for cost in &mut question.cost {
                scale_all([&mut cost.trx, &mut cost.tc, &mut cost.ttx, &mut cost.other].into_iter(), 1.0 / by);
            }
        },
    },
    Turn {
        input: "what neighbours leave",
        change: TENTH,
        demand: false,
        turn: |question, _, by| scale_all(question.placement.sharing.iter_mut().take(1), by),
    },
    Turn {
        input: "price of a machine",
        change: TENTH,
        demand: false,
        turn: |_, machine, by| scale_all(machine.price.iter_mut(), by),
    },
    Turn {
        input: "price of transfer",
        change: TENTH,
        demand: false,
        turn: |question, _, by| scale_all(question.price.transfer.iter_mut(), by),
    },
    Turn {
        input: "price of transit",
        change: TENTH,
        demand: false,
        turn: |question, _, by| scale_all(question.price.transit.iter_mut(), by),
    },
    Turn {
        input: "prices of the path",
        change: TENTH,
        demand: false,
        turn: |question, _, by| crate::path::scale(&mut question.price.path, by),
    },
    Turn {
        input: "vCPUs of a unit",
        change: ONE,
        demand: false,
        turn: |question, _, by| {
            let default = crate::unit::Unit::of(question.gateway).vcpus;
            let unit = question.unit.get_or_insert_with(UnitInput::default);
            unit.vcpus = Some(unit.vcpus.unwrap_or(default).saturating_add_signed(by as i32).max(1));
        },
    },
    Turn {
        input: "interfaces of a unit",
        change: ONE,
        demand: false,
        turn: |question, _, by| {
            let default = crate::unit::Unit::of(question.gateway).interfaces;
            let unit = question.unit.get_or_insert_with(UnitInput::default);
            unit.interfaces = Some(unit.interfaces.unwrap_or(default).saturating_add_signed(by as i32).max(1));
        },
    },
    Turn {
        input: "bandwidth of a machine",
        change: TENTH,
        demand: false,
        turn: |_, machine, by| {
            machine.baseline = machine.baseline.map(|bits| bits * by);
            machine.burst = machine.burst.map(|bits| bits * by);
        },
    },
    Turn {
        input: "spares",
        change: ONE,
        demand: false,
        turn: |question, _, by| {
            question.failure.spares = question.failure.spares.saturating_add_signed(by as i32);
        },
    },
];

/// All inputs that change anything, those that change most first.
pub(crate) fn levers(planner: &Planner, best: &Candidate) -> Vec<Lever> {
    let Some(machine) = planner.machine(&best.machine) else { return Vec::new() };
    let now = best.total_usd_per_hour.map_or(f64::NAN, |usd| usd.0);
    let lever = |turn: &Turn| {
        let after = turn.change.map(|(_, by)| turned(planner, machine, turn, by));
        let usd = after.each_ref().map(|after| after.as_ref().and_then(|c| Some(c.total_usd_per_hour?.0)));
        let swing = usd.iter().map(|usd| usd.map_or(1.0, |usd| (usd / now - 1.0).abs())).fold(0.0, f64::max);
        let machines = after.map(|after| after.map(|candidate| candidate.machines));
        let change = turn.change.map(|(words, _)| words.to_owned());
        Lever { input: turn.input, change, machines, usd_per_hour: usd, swing }
    };
    let mut levers: Vec<Lever> = TURNS.iter().map(lever).filter(|lever| lever.swing > 1e-9).collect();
    levers.sort_by(|a, b| b.swing.total_cmp(&a.swing));
    levers
}

/// The machines that a machine's answer follows from: its family, whose largest is its host, and those that were measured.
fn related(planner: &Planner, machine: &Machine) -> Vec<Machine> {
    let question = &planner.question;
    let named = |name: &str| {
        question.point.iter().any(|point| point.machine == name)
            || question.cost.iter().any(|cost| cost.machine == name)
    };
    let all = planner.world.machines.iter();
    all.filter(|other| other.family == machine.family || named(&other.name)).cloned().collect()
}

fn turned(planner: &Planner, machine: &Machine, turn: &Turn, by: f64) -> Option<Candidate> {
    let (mut question, mut machine) = (planner.question.clone(), machine.clone());
    (turn.turn)(&mut question, &mut machine, by);
    let demand = if turn.demand { Demand::of(&question.demand).ok()? } else { planner.demand.clone() };
    let world = World { machines: related(planner, &machine), sites: Vec::new(), servers: Vec::new(), held_out: None };
    Planner::with_demand(question, world, demand).ok()?.candidate(&machine).ok()
}
