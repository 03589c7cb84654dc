//! upf-public-cloud: a user plane on the native Linux stack, and how to plan its capacity.

use super::{How, Inputs, Row, percent};
use crate::cost::Cost;
use crate::frames::{Layer, line_rate, occupied};
use crate::known::Known;
use crate::limits::units_by_interfaces;
use crate::quantity::{BitRate, FrameSize, PacketRate, Time};
use How::{About, Over, Places, Within};

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
    vec![
        Row::follows(i, "E05", cost.tn().ns(), Within(1.0)).note("the parts are rounded: 1 ns"),
        Row::follows(i, "E06", tn + cost.tc.value.ns() + cost.other.value.ns(), Places(0))
            .also("from unrounded parts, ns", cost.tp().value.ns()),
        Row::follows(i, "E07", kpps(tp), About(0))
            .also("two cores, kpps", 2.0 * kpps(tp))
            .note("of one run-to-completion core; a module has two, for 250 kpps each way at once"),
        Row::follows(i, "E08", i.get("E08.ghz") * 1e6 / tp, Places(0))
            .why("the printed formula divides the clock by Tp in nanoseconds; it needs Tp in cycles"),
        Row::derived("E09", kpps(tn + i.get("E06.tc_ns"))).also("with all parts, kpps", kpps(tp)).note(
            "its equation 5 leaves 288 ns out and promises more than a core delivers: the model has the third term",
        ),
        Row::follows(i, "E10", percent(tn / tp), Over),
    ]
}

fn modules(i: &Inputs) -> Vec<Row> {
    let (devices, p) = (i.get("E12.devices"), i.get("E11"));
    let each_way = i.get("E12");
    vec![
        Row::follows(i, "E11", 2.0 * each_way * 1e3 / devices, Places(0))
            .note("500 kpps, both directions together, by 50,000 devices"),
        Row::follows(i, "E12", devices * p / 1e3, Places(0)).also("in each direction, kpps", devices * p / 2e3).why(
            "N·p = 500 kpps; 250 are one direction of two, as its section VII says and the module's table does not",
        ),
        Row::follows(i, "E13", i.get("E13.upfs") * each_way / 1e3, Places(0))
            .note("in each direction; 240 to 250 kpps by fanout give 1.92 to 2.0"),
        Row::follows(i, "E14", i.get("E14.instances") * i.get("E14.kpps") / 1e3, About(0))
            .also("cloud by lab", i.get("E14.kpps") / each_way),
    ]
}

fn headlines(i: &Inputs) -> Vec<Row> {
    let (rate, frame) = (PacketRate(i.get("E13") * 1e6), FrameSize(i.get("E16.frame_bytes")));
    let each = 2.0 * i.get("E12") * 1e3 / i.get("E12.devices");
    let modules = i.get("E15") / i.get("E12.devices");
    let gbps = |layer: Layer| occupied(rate, frame, layer).gbps();
    let there = i.of("c5n.2xlarge", |m| m.interfaces.map(f64::from));
    let units = i.of("c5n.2xlarge", |m| Some(f64::from(units_by_interfaces(m.interfaces?, 1, 2))));
    vec![
        Row::follows(i, "E15", rate.0 / (i.get("E12") * 1e3) * i.get("E12.devices"), Places(0))
            .claim(each, rate.0 / i.get("E15"), Places(0))
            .also("packets a second of each user", rate.0 / i.get("E15"))
            .also("modules for the users", modules)
            .also("Mpps each way of those", modules * i.get("E12") / 1e3)
            .also("users of 8 modules", i.get("E13.upfs") * i.get("E12.devices"))
            .also("users of 10 instances", i.get("E14.instances") * i.get("E12.devices"))
            .why("2 Mpps for 250,000 users are 8 of each, its module has 10 both ways; 250,000 users are 5 modules, 1.25 Mpps each way; 8 modules are 400,000 users"),
        Row::follows(i, "E16", gbps(Layer::L2), Places(0))
            .also("with the 20 bytes around a frame, Gbit/s", gbps(Layer::L1))
            .also("both directions, with those, Gbit/s", 2.0 * gbps(Layer::L1))
            .also("mean frame that would make it, B", BitRate(i.get("E16") * 1e9).0 / rate.0 / 8.0)
            .also("the same over both directions, B", BitRate(i.get("E16") * 1e9).0 / rate.0 / 16.0)
            .why("2 Mpps of its 128 B frames are 2.05 Gbit/s, a tenth of the headline; 20 Gbit/s would take frames of 1250 B"),
        Row::input(i, "E17").also("smartphone, pps", i.get("E17.smartphone")),
        Row::follows(i, "E18", units * 2.0 + 1.0, Places(0))
            .also("interfaces of c5n.2xlarge", there)
            .note("up, down and administration fit c5n.2xlarge once"),
        Row::follows(i, "E19", i.get("E19.card_gbps"), Places(0))
            .why("X710-T2L is a 10GBASE-T card; 25 Gbit/s cards of that maker are XXV710 or E810"),
    ]
}
