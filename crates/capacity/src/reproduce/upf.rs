//! upf-public-cloud: a user plane on the native Linux stack, and how to plan its capacity.

use super::{How, Inputs, Row, mpps, percent};
use crate::cost::Cost;
use crate::frames::{Layer, line_rate, occupied};
use crate::known::Known;
use crate::plan::Candidate;
use crate::quantity::{BitRate, FrameSize, PacketRate, Time, digits};
use How::{About, Over, Places, Within};

/// 50,000 devices on one user plane.
const MODULE: &str = "upf-module";

/// What it states.
pub(super) const INPUTS: &[(&str, f64)] = &[
    ("E01", 150.0),
    ("E02", 500e6),
    ("E02.towers", 250e3),
    ("E02.devices_per_tower", 2000.0),
    ("E03", 40.0),
    ("E03.mbps_per_device", 20.0),
    ("E04", 200.0),
    ("E04.sites", 50.0),
    ("E05", 3147.0),
    ("E05.trx_ns", 1554.0),
    ("E05.ttx_ns", 1594.0),
    ("E06", 3694.0),
    ("E06.tc_ns", 259.0),
    ("E06.other_ns", 288.0),
    ("E07", 270.0),
    ("E08", 270.0),
    ("E08.ghz", 2.2),
    ("E10", 80.0),
    ("E11", 10.0),
    ("E12", 250.0),
    ("E12.devices", 50e3),
    ("E13", 2.0),
    ("E13.upfs", 8.0),
    ("E14", 2.0),
    ("E14.instances", 10.0),
    ("E14.kpps", 200.0),
    ("E15", 250e3),
    ("E16", 20.0),
    ("E16.frame_bytes", 128.0),
    ("E17", 1.0),
    ("E17.smartphone", 20.0),
    ("E18", 3.0),
    ("E19", 25.0),
    ("E19.card_gbps", 10.0),
];

/// What it claims.
pub(super) fn rows(i: &Inputs) -> Vec<Row> {
    let mut rows = network(i);
    rows.extend(costs(i));
    rows.extend(modules(i));
    rows.extend(headlines(i));
    rows
}

fn network(i: &Inputs) -> Vec<Row> {
    let line = |layer: Layer| line_rate(BitRate(100e9), FrameSize(64.0), layer).mpps();
    let tower = i.get("E02.devices_per_tower") * i.get("E03.mbps_per_device") / 1e3;
    vec![
        Row::follows(i, "E01", line(Layer::L1), About(-1)).also("without the 20 bytes around a frame", line(Layer::L2)),
        Row::follows(i, "E02", i.get("E02.towers") * i.get("E02.devices_per_tower"), Places(0)),
        Row::follows(i, "E03", tower, Places(0)),
        Row::follows(i, "E04", i.get("E02.towers") / i.get("E04.sites") * tower / 1e3, Places(0)),
    ]
}

fn costs(i: &Inputs) -> Vec<Row> {
    let ns = |name: &str| Known::assumed(Time::from_ns(i.get(name)));
    let cost = Cost { trx: ns("E05.trx_ns"), tc: ns("E06.tc_ns"), ttx: ns("E05.ttx_ns"), other: ns("E06.other_ns") };
    // The publication goes on with its own rounded sum.
    let (tn, tp) = (i.get("E05"), i.get("E06"));
    let kpps = |ns: f64| Time::from_ns(ns).rate().0 / 1e3;
    let of_a_core = i.planned("upf-cost", "lab", |c| Some(c.each.packets?.0 / 1e3));
    vec![
        Row::follows(i, "E05", cost.tn().ns(), Within(1.0)).note("the parts are rounded: 1 ns"),
        Row::follows(i, "E06", tn + cost.tc.value.ns() + cost.other.value.ns(), Places(0))
            .also("from unrounded parts, ns", cost.tp().value.ns()),
        Row::follows(i, "E07", of_a_core, About(0))
            .plan("upf-cost")
            .also("by its rounded sum, kpps", kpps(tp))
            .also("two cores, kpps", 2.0 * of_a_core)
            .note(format!(
                "of one run-to-completion core; a module has two, for {} kpps each way at once",
                digits(i.get("E12"))
            )),
        Row::follows(i, "E08", i.get("E08.ghz") * 1e6 / tp, Places(0))
            .why("the printed formula divides the clock by Tp in nanoseconds; it needs Tp in cycles"),
        Row::derived("E09", kpps(tn + i.get("E06.tc_ns"))).also("with all parts, kpps", kpps(tp)).note(format!(
            "its equation 5 leaves {} ns out and promises more than a core delivers: the model has the third term",
            digits(i.get("E06.other_ns"))
        )),
        Row::follows(i, "E10", percent(tn / tp), Over),
    ]
}

fn modules(i: &Inputs) -> Vec<Row> {
    let devices = i.get("E12.devices");
    let each_way = i.get("E12");
    let demand = i.answered(MODULE, |answer| Some(answer.demand.packets()?.0 / 1e3));
    let aws = |of: fn(&Candidate) -> Option<f64>| i.planned("upf-aws", "c5n.2xlarge", of);
    vec![
        Row::follows(i, "E11", 2.0 * each_way * 1e3 / devices, Places(0))
            .note(format!("{} kpps, both directions together, by {devices} devices", digits(2.0 * each_way))),
        Row::follows(i, "E12", demand, Places(0)).plan(MODULE).also("in each direction, kpps", demand / 2.0).why(
            format!(
                "N·p = {} kpps; {} are one direction of two, as its section VII says and the module's table does not",
                digits(demand),
                digits(each_way)
            ),
        ),
        Row::follows(i, "E13", i.planned("upf-lab", "lab", |c| Some(mpps(c)? / f64::from(c.needed) / 2.0)), Places(0))
            .plan("upf-lab")
            .note("in each direction; 240 to 250 kpps by fanout give 1.92 to 2.0"),
        Row::follows(i, "E14", aws(|c| Some(mpps(c)? / 2.0)), About(0))
            .claim(i.get("E14.instances"), aws(|c| Some(f64::from(c.needed))), Places(0))
            .plan("upf-aws")
            .also("instances", aws(|c| Some(f64::from(c.needed))))
            .also("$/h for each Mpps, both directions", aws(|c| Some(c.usd_per_hour.as_ref()?.value.0 / mpps(c)?)))
            .also("cloud by lab", i.get("E14.kpps") / each_way),
    ]
}

fn headlines(i: &Inputs) -> Vec<Row> {
    let (rate, frame) = (PacketRate(i.get("E13") * 1e6), FrameSize(i.get("E16.frame_bytes")));
    let each = 2.0 * i.get("E12") * 1e3 / i.get("E12.devices");
    let modules = i.planned("upf-headline", "lab", |c| Some(f64::from(c.needed)));
    let gbps = |layer: Layer| occupied(rate, frame, layer).gbps();
    let there = i.of("c5n.2xlarge", |m| m.interfaces.map(f64::from));
    let used = i.interfaces_used("upf-aws", "c5n.2xlarge")
        / i.planned("upf-aws", "c5n.2xlarge", |c| Some(f64::from(c.needed)));
    vec![
        Row::follows(i, "E15", rate.0 / (i.get("E12") * 1e3) * i.get("E12.devices"), Places(0))
            .claim(each, rate.0 / i.get("E15"), Places(0))
            .plan("upf-headline")
            .also("packets a second of each user", rate.0 / i.get("E15"))
            .also("modules for the users", modules)
            .also("Mpps each way of those", modules * i.get("E12") / 1e3)
            .also("users of 8 modules", i.get("E13.upfs") * i.get("E12.devices"))
            .also("users of 10 instances", i.get("E14.instances") * i.get("E12.devices"))
            .why(format!(
                "{} Mpps for {} users are {} packets a second of each, its module has {} both ways; that many users are {} \
                 modules, {} Mpps each way; {} modules are {} users",
                digits(i.get("E13")),
                i.get("E15"),
                digits(rate.0 / i.get("E15")),
                digits(each),
                digits(modules),
                digits(modules * i.get("E12") / 1e3),
                digits(i.get("E13.upfs")),
                i.get("E13.upfs") * i.get("E12.devices")
            )),
        Row::follows(i, "E16", gbps(Layer::L2), Places(0))
            .also("with the 20 bytes around a frame, Gbit/s", gbps(Layer::L1))
            .also("both directions, with those, Gbit/s", 2.0 * gbps(Layer::L1))
            .also("mean frame that would make it, B", BitRate(i.get("E16") * 1e9).0 / rate.0 / 8.0)
            .also("the same over both directions, B", BitRate(i.get("E16") * 1e9).0 / rate.0 / 16.0)
            .why(format!(
                "{} Mpps of its {} frames are {} Gbit/s; {} Gbit/s would take frames of {}",
                digits(rate.mpps()),
                frame,
                digits(gbps(Layer::L2)),
                digits(i.get("E16")),
                FrameSize(BitRate(i.get("E16") * 1e9).0 / rate.0 / 8.0)
            )),
        Row::input(i, "E17").also("smartphone, pps", i.get("E17.smartphone")),
        Row::follows(i, "E18", used, Places(0))
            .plan("upf-aws")
            .also("interfaces of c5n.2xlarge", there)
            .note("up, down and administration fit c5n.2xlarge once"),
        Row::follows(i, "E19", i.get("E19.card_gbps"), Places(0))
            .why("X710-T2L is a 10GBASE-T card; 25 Gbit/s cards of that maker are XXV710 or E810"),
    ]
}
