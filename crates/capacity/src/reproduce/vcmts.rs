//! vcmts-cloud-2021: a vCMTS data plane on premise and on AWS c5n.

use super::{How, Inputs, Row, percent};
use crate::frames::Mix;
use crate::limits::{units_by_interfaces, units_by_vcpus};
use crate::machine::Machine;
use crate::quantity::Clock;
use crate::sources::translated;
use How::{About, Over, Places};

/// What it states.
pub(super) const INPUTS: &[(&str, f64)] = &[
    ("V01", 300.0),
    ("V02", 1000.0),
    ("V03", 7.32),
    ("V04", 6.48),
    ("V05", 13.0),
    ("V06", 6.2),
    ("V07", 5.2),
    ("V09", 25.0),
    ("V09.cloud_ghz", 3.0),
    ("V09.on_premise_ghz", 2.4),
    ("V10", 29.0),
    ("V11", 29.0),
    ("V15", 1.0),
    ("V16", 3.0),
    ("V18", 7.0),
    ("V18.measured", 6.0),
    ("V19", 6.2),
    ("V20", 5.5),
    ("V21", 4.7),
    ("V22", 4.2),
    ("V22.total", 25.2),
    ("V23", 25.7),
    ("V24", 5.2),
    ("V25", 4.9),
    ("V26", 3.67),
    ("V27", 11.0),
    ("V29", 4.0),
    ("V29.one_way", 9.0),
    ("V30", 18.0),
    ("V30.vcpus_per_group", 3.0),
    ("V31", 44.0),
    ("V32", 71.0),
    ("V33", 19.8),
    ("V33.penalty", 10.0),
    ("V34", 33.6),
    ("V34.penalty", 15.0),
    ("V35", 76.0),
    ("V36", 30.0),
    ("V37", 75.0),
    ("V38", 74.0),
    ("V39", 12.0),
    ("V40", 43.0),
    ("V41", 66.0),
    ("V42", 25.0),
    ("V43", 43.0),
    ("V44", 60.0),
    ("V45", 13.0),
    ("V46", 8.0),
    ("V46.of_4xlarge", 4.0),
    ("V49", 100.0),
    ("V50", 100.0),
    ("V51", 15.0),
    ("V51.queues", 32.0),
];

const METAL_GROUPS: f64 = 6.0;
const INTERFACES_PER_GROUP: u32 = 2;
const ADMIN: u32 = 1;

/// What it claims.
pub(super) fn rows(i: &Inputs) -> Vec<Row> {
    let mut rows = single(i);
    rows.extend(by_interfaces(i));
    rows.extend(scaling(i));
    rows.extend(many_small(i));
    rows.extend(table_1(i));
    rows.extend(hosts(i));
    rows
}

fn single(i: &Inputs) -> Vec<Row> {
    let up = Mix::weighted(&[(84.0, 65.0), (256.0, 18.0), (1280.0, 17.0)]).mean().0;
    let down = Mix::weighted(&[(84.0, 15.0), (256.0, 10.0), (1280.0, 75.0)]).mean().0;
    let clocks = (Clock(i.get("V09.on_premise_ghz") * 1e9), Clock(i.get("V09.cloud_ghz") * 1e9));
    let by_clock = translated(i.get("V03"), clocks.0, clocks.1, 1.0);
    let by_cycles = translated(i.get("V03"), clocks.0, clocks.1, 1.0 + i.get("V10") / 100.0);
    let best = i.get("V04");
    vec![
        Row::follows(i, "V01", up, About(-2)),
        Row::follows(i, "V02", down, About(-1)),
        Row::input(i, "V03")
            .note("with QuickAssist cards for the ciphers, which the cloud has not: a confounder it does not discuss"),
        Row::input(i, "V04"),
        Row::follows(i, "V05", percent(i.get("V03") / best - 1.0), Places(0)),
        Row::input(i, "V06")
            .also("against c5n.2xlarge, %", percent(i.get("V06") / best - 1.0))
            .note("consistent with \"within 5 %\""),
        Row::input(i, "V07")
            .also("against c5n.metal, %", percent(i.get("V07") / i.get("V06") - 1.0))
            .note("consistent with \"over 10 % worse\""),
        Row::follows(i, "V09", percent(clocks.1 / clocks.0 - 1.0), Places(0))
            .also("throughput it promises, Gbit/s", by_clock)
            .note("with the 3.0 GHz base clock; the catalogue's 3.4 GHz is the interface's figure"),
        Row::input(i, "V10")
            .also("throughput by clock and cycles, Gbit/s", by_cycles)
            .also("error of that, %", percent(by_cycles / best - 1.0)),
        Row::follows(i, "V11", percent(1.0 - 1.0 / (1.0 + i.get("V10") / 100.0)), Places(0))
            .why("cycles and packets are reciprocal: 1.29 times the cycles are 1/1.29 of the packets, 22.5 % fewer"),
    ]
}

fn groups(i: &Inputs, machine: &str) -> f64 {
    let units = |interfaces: u32| units_by_interfaces(interfaces, ADMIN, INTERFACES_PER_GROUP);
    i.of(machine, |machine| Some(f64::from(units(machine.interfaces?))))
}

fn by_interfaces(i: &Inputs) -> Vec<Row> {
    let rule = "⌊(interfaces − 1) / 2⌋ from the catalogue";
    vec![
        Row::derived("V13", groups(i, "c5n.large")).note(rule),
        Row::derived("V14", groups(i, "c5n.xlarge")).note(rule),
        Row::follows(i, "V15", groups(i, "c5n.2xlarge"), Places(0)).note(rule),
        Row::follows(i, "V16", groups(i, "c5n.4xlarge"), Places(0)).note(rule),
        Row::derived("V17", groups(i, "c5n.9xlarge")).note(rule),
        Row::follows(i, "V18", groups(i, "c5n.metal"), Places(0))
            .claim(i.get("V18.measured"), groups(i, "c5n.metal"), Places(0))
            .note(rule)
            .why("its rule and section 3.2 give 7; its Table 1 and Figure 18 have 6: the seventh was never measured"),
    ]
}

fn scaling(i: &Inputs) -> Vec<Row> {
    let total = |id: &'static str, n: f64| Row::input(i, id).also("total, Gbit/s", n * i.get(id));
    let metal = METAL_GROUPS * i.get("V22");
    vec![
        total("V19", 1.0),
        total("V20", 2.0),
        total("V21", 4.0),
        Row::new("V22", Some(i.get("V22.total") / METAL_GROUPS), super::Verdict::Reproduced)
            .claim(i.get("V22.total"), metal, Places(1))
            .claim(i.get("V23"), metal, Places(1))
            .also("total, Gbit/s", metal)
            .also("of each by Table 1, Gbit/s", i.get("V23") / METAL_GROUPS)
            .why("6 × 4.2 = 25.2 as its text says; its Table 1 and section 3.2 have 25.7, which were 4.283 each"),
        Row::follows(i, "V23", metal, Places(1))
            .why("6 × 4.2 = 25.2, 2 % less; 25.7 were 4.28 each, which rounds to 4.3 and not to the 4.2 of its figure"),
        total("V24", 1.0),
        total("V25", 2.0),
        Row::follows(i, "V26", i.get("V27") / 3.0, Places(2)).also("total, Gbit/s", 3.0 * i.get("V26")).note("the cap of about 11, divided among 3"),
        Row::input(i, "V27").also("3 groups, Gbit/s", 3.0 * i.get("V26")),
        Row::input(i, "V29")
            .also("one way by the most aws-100g saw of a whole instance", i.get("V29.one_way") / i.get("P07"))
            .note("9.0 one way on one interface is more than aws-100g ever saw of a whole instance (8.5): the two publications disagree"),
        Row::follows(i, "V30", METAL_GROUPS * i.get("V30.vcpus_per_group"), Places(0)),
    ]
}

fn many_small(i: &Inputs) -> Vec<Row> {
    let ideal = 4.0 * i.get("V27");
    let (two, four, metal) = (i.get("V33"), i.get("V34"), i.get("V23"));
    let with_metal = |value: f64| format!("the printed {} of metal is needed; 25.2 gives {value:.1}", 25.7);
    vec![
        Row::follows(i, "V31", ideal, Places(0)),
        Row::follows(i, "V32", percent(ideal / metal - 1.0), Places(0))
            .note(with_metal(percent(ideal / 25.2 - 1.0)))
            .why("it was calculated from Table 1's 25.7, not from 6 × 4.2"),
        Row::follows(i, "V33", 2.0 * i.get("V27") * (1.0 - i.get("V33.penalty") / 100.0), Places(1))
            .also("penalty, %", percent(1.0 - two / (2.0 * i.get("V27"))))
            .claim(two, 2.0 * 2.0 * i.get("V25"), Over)
            .also("two groups on each, Gbit/s", 2.0 * 2.0 * i.get("V25"))
            .why("its text has two groups on each, which carry 2 × 9.8 = 19.6 alone: less than the 19.8 it measured beside each other; Table 1 (6 groups, 18 vCPUs) is the coherent reading"),
        Row::follows(i, "V34", 2.0 * two * (1.0 - i.get("V34.penalty") / 100.0), Places(1)).note("19.8 × 2 × 0.85 = 44 × 0.9 × 0.85"),
        Row::follows(i, "V35", percent(four / ideal), Over),
        Row::follows(i, "V36", percent(four / metal - 1.0), Places(0))
            .note(with_metal(percent(four / 25.2 - 1.0)))
            .why("it was calculated from Table 1's 25.7, not from 6 × 4.2"),
    ]
}

/// Its Table 1: what stays unused.
fn table_1(i: &Inputs) -> Vec<Row> {
    let vcpus = |machine: &str| i.of(machine, |m| m.vcpus.map(f64::from));
    let interfaces = |machine: &str| i.of(machine, |m| m.interfaces.map(f64::from));
    let burst = |machine: &str| i.of(machine, |m| Some(m.burst?.gbps()));
    let of_group = i.get("V30.vcpus_per_group");
    let unused =
        |machine: &str, instances: f64, groups: f64| percent(1.0 - groups * of_group / (instances * vcpus(machine)));
    let used = |groups: f64, instances: f64| groups * f64::from(INTERFACES_PER_GROUP) + instances * f64::from(ADMIN);
    let free = |machine: &str, groups: f64, instances: f64| instances * interfaces(machine) - used(groups, instances);
    let (metal, small) = ("c5n.metal", "c5n.4xlarge");
    let network = |gbps: f64, there: f64| percent(1.0 - gbps / there);
    vec![
        Row::follows(i, "V37", unused(metal, 1.0, METAL_GROUPS), Places(0)),
        Row::follows(i, "V38", network(i.get("V23"), burst(metal)), About(0)),
        Row::follows(i, "V39", used(METAL_GROUPS, 1.0), Places(0))
            .also("unused", free(metal, METAL_GROUPS, 1.0))
            .why("its own rule takes one interface for administration, and the table does not count it: 13 of 15; with two free, interfaces were not what stopped it at 6"),
        Row::follows(i, "V40", unused(small, 4.0, 12.0), About(0)),
        Row::follows(i, "V41", network(i.get("V34"), 4.0 * burst(small)), Places(0)),
        Row::follows(i, "V42", used(12.0, 4.0), Places(0))
            .also("unused", free(small, 12.0, 4.0))
            .why("one interface for administration is counted where four instances have four"),
        Row::follows(i, "V43", unused(small, 2.0, 6.0), About(0)),
        Row::follows(i, "V44", network(i.get("V33"), 2.0 * burst(small)), About(0))
            .also("unused, Gbit/s", 2.0 * burst(small) - i.get("V33"))
            .note("wrong unit: it prints \"Gbps\"; 30.2 of 50 Gbit/s are free, which is 60.4 %"),
        Row::follows(i, "V45", used(6.0, 2.0), Places(0))
            .also("unused", free(small, 6.0, 2.0))
            .why("one interface for administration is counted where two instances have two"),
    ]
}

fn hosts(i: &Inputs) -> Vec<Row> {
    let vcpus = |machine: &str| i.of(machine, |m| m.vcpus.map(f64::from)) as u32;
    let (host, two, four) = (vcpus("c5n.metal"), vcpus("c5n.2xlarge"), vcpus("c5n.4xlarge"));
    let on = |sockets: u32, instance: u32| f64::from(units_by_vcpus(host, sockets, instance));
    let price = |machine: &str| i.of(machine, |m| Some(m.price.as_ref()?.value.0));
    let (metal, small) = (price("c5n.metal"), 4.0 * price("c5n.4xlarge"));
    let gbps =
        |machine: &str, of: fn(&Machine) -> Option<crate::quantity::BitRate>| i.of(machine, |m| Some(of(m)?.gbps()));
    vec![
        Row::follows(i, "V46", on(1, two), Places(0))
            .claim(i.get("V46.of_4xlarge"), on(1, four), Places(0))
            .also("4xlarge", on(1, four))
            .also("2xlarge, none across two sockets", on(2, two))
            .also("4xlarge, none across two sockets", on(2, four))
            .why("its rule, vCPUs of the host by vCPUs of the instance, gives ⌊72/8⌋ = 9; none across sockets, 2·⌊36/8⌋, gives its 8 and 4"),
        Row::new("V47", Some(small), super::Verdict::Reproduced)
            .claim(metal, small, Places(2))
            .also("c5n.metal, $/h", metal)
            .also("cheaper, %", percent(1.0 - small / metal))
            .note("computed: four c5n.4xlarge")
            .why("\"cost-equivalent\" is 3.456 against 3.888 $/h: 64 vCPUs against 72 at one price each"),
        Row::follows(i, "V49", 4.0 * gbps("c5n.4xlarge", |m| m.burst), Places(0))
            .also("all the time, Gbit/s", 4.0 * gbps("c5n.4xlarge", |m| m.baseline))
            .note("only while burst credit lasts"),
        Row::input(i, "V50").note("its introduction says 100 Gbit/s a socket, of a newer processor: not to be mixed"),
        Row::follows(i, "V51", i.of("c5n.18xlarge", |m| m.interfaces.map(f64::from)), Places(0))
            .claim(i.get("V51.queues"), i.of("c5n.18xlarge", |m| m.queues.map(f64::from)), Places(0))
            .also("queues of an interface", i.of("c5n.18xlarge", |m| m.queues.map(f64::from))),
        Row::new("V52", None, super::Verdict::Input).note("the method: zero loss, upstream at least a tenth of downstream"),
    ]
}
