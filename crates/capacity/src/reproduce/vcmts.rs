//! vcmts-cloud-2021: a vCMTS data plane on premise and on AWS c5n.

use super::{How, Inputs, Row, gbps, percent, units};
use crate::frames::Mix;
use crate::limits::{Limit, units_by_vcpus};
use crate::plan::Candidate;
use crate::quantity::{Clock, digits};
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

const METAL: &str = "c5n.metal";
const SMALL: &str = "c5n.4xlarge";
/// Table 1's three ways.
const ON_METAL: &str = "vcmts-metal";
const ON_TWO: &str = "vcmts-two-4xlarge";
const ON_FOUR: &str = "vcmts-four-4xlarge";
/// Without neighbours.
const EQUAL: &str = "vcmts-equal-cost";
const HOSTS: &str = "vcmts-hosts";

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
    let more = 1.0 + i.get("V10") / 100.0;
    let fewer = percent(1.0 - 1.0 / more);
    // What the planner says of a cloud instance, from the server alone.
    let said = |of: fn(&Candidate) -> Option<f64>| i.planned("vcmts-from-on-premise", "c5n.2xlarge", of);
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
            .also("the planner's P10, Gbit/s", said(|c| Some(c.each_range.p10.bits?.gbps())))
            .also("the planner's P90, Gbit/s", said(|c| Some(c.each_range.p90.bits?.gbps())))
            .plan("vcmts-from-on-premise")
            .note(format!(
                "with the {} GHz base clock; the catalogue's {} GHz is the interface's figure",
                digits(i.get("V09.cloud_ghz")),
                digits(i.of("c5n.2xlarge", |m| Some(m.clock?.0 / 1e9)))
            )),
        Row::input(i, "V10")
            .also("throughput by clock and cycles, Gbit/s", by_cycles)
            .also("error of that, %", percent(by_cycles / best - 1.0)),
        Row::follows(i, "V11", fewer, Places(0)).why(format!(
            "cycles and packets are reciprocal: {0} times the cycles are 1/{0} of the packets, {1} % fewer",
            digits(more),
            digits(fewer)
        )),
    ]
}

fn groups(i: &Inputs, machine: &str) -> f64 {
    i.planned("vcmts-groups", machine, |candidate| units(candidate, Limit::Interfaces))
}

fn by_interfaces(i: &Inputs) -> Vec<Row> {
    let rule = "⌊(interfaces − 1) / 2⌋; plan vcmts-groups";
    vec![
        Row::derived("V13", groups(i, "c5n.large")).note(rule),
        Row::derived("V14", groups(i, "c5n.xlarge")).note(rule),
        Row::follows(i, "V15", groups(i, "c5n.2xlarge"), Places(0)).note(rule),
        Row::follows(i, "V16", groups(i, "c5n.4xlarge"), Places(0)).note(rule),
        Row::derived("V17", groups(i, "c5n.9xlarge")).note(rule),
        Row::follows(i, "V18", groups(i, "c5n.metal"), Places(0))
            .claim(i.get("V18.measured"), groups(i, "c5n.metal"), Places(0))
            .note(rule)
            .why(format!(
                "its rule and section 3.2 give {}; its Table 1 and Figure 18 have {}: more were never measured",
                digits(groups(i, "c5n.metal")),
                digits(i.get("V18.measured"))
            )),
    ]
}

fn scaling(i: &Inputs) -> Vec<Row> {
    let total = |id: &'static str, n: f64| Row::input(i, id).also("total, Gbit/s", n * i.get(id));
    let groups = i.get("V18.measured");
    let metal = i.planned(ON_METAL, METAL, gbps);
    let vcpus = i.of(METAL, |m| m.vcpus.map(f64::from));
    let product = format!("{} × {} = {}", digits(groups), digits(i.get("V22")), digits(metal));
    vec![
        total("V19", 1.0),
        total("V20", 2.0),
        total("V21", 4.0),
        Row::new("V22", Some(i.get("V22.total") / groups), super::Verdict::Reproduced)
            .claim(i.get("V22.total"), metal, Places(1))
            .claim(i.get("V23"), metal, Places(1))
            .also("total, Gbit/s", metal)
            .plan(ON_METAL)
            .also("of each by Table 1, Gbit/s", i.get("V23") / groups)
            .why(format!(
                "{product}, and its text has {}; its Table 1 and section 3.2 have {}, which were {} each",
                digits(i.get("V22.total")),
                digits(i.get("V23")),
                digits(i.get("V23") / groups)
            )),
        Row::follows(i, "V23", metal, Places(1)).plan(ON_METAL).why(format!(
            "{product}, {} % less; {} were {} each, not the {} of its figure",
            digits(percent(1.0 - metal / i.get("V23"))),
            digits(i.get("V23")),
            digits(i.get("V23") / groups),
            digits(i.get("V22"))
        )),
        total("V24", 1.0),
        total("V25", 2.0),
        Row::follows(i, "V26", i.get("V27") / 3.0, Places(2))
            .also("total, Gbit/s", 3.0 * i.get("V26"))
            .note(format!("the cap of about {}, divided among 3", digits(i.get("V27")))),
        Row::input(i, "V27").also("3 groups, Gbit/s", 3.0 * i.get("V26")),
        Row::input(i, "V29")
            .also("one way by the most aws-100g saw of a whole instance", i.get("V29.one_way") / i.get("P07"))
            .note(format!(
                "{} Mpps one way on one interface, and aws-100g saw {} of a whole instance at most",
                digits(i.get("V29.one_way")),
                digits(i.get("P07"))
            )),
        Row::follows(i, "V30", vcpus * i.planned(ON_METAL, METAL, |c| Some(1.0 - c.unused.vcpus?)), Places(0))
            .plan(ON_METAL),
    ]
}

fn many_small(i: &Inputs) -> Vec<Row> {
    let ideal = i.planned(EQUAL, SMALL, gbps);
    let estimate = i.planned(ON_FOUR, SMALL, gbps);
    let (two, four, metal) = (i.get("V33"), i.get("V34"), i.get("V23"));
    let six = i.planned(ON_METAL, METAL, gbps);
    let with_metal = |of: f64| {
        let gives = percent(of / six - 1.0);
        format!("the printed {} of metal is needed; {} gives {gives:.1}", digits(metal), digits(six))
    };
    let not_six =
        format!("it was calculated from Table 1's {}, not from the {} of its figure", digits(metal), digits(six));
    vec![
        Row::follows(i, "V31", ideal, Places(0)).also("four times the cap of 11", 4.0 * i.get("V27")).plan(EQUAL),
        Row::follows(i, "V32", percent(4.0 * i.get("V27") / metal - 1.0), Places(0))
            .note(with_metal(4.0 * i.get("V27")))
            .why(not_six.clone()),
        Row::follows(i, "V33", i.planned(ON_TWO, SMALL, gbps), Places(1))
            .plan(ON_TWO)
            .also("penalty, %", percent(1.0 - two / (2.0 * i.get("V27"))))
            .claim(two, 2.0 * 2.0 * i.get("V25"), Over)
            .also("two groups on each, Gbit/s", 2.0 * 2.0 * i.get("V25"))
            .why(format!(
                "its text has two groups on each, which carry {} alone: less than the {} it measured beside each other; \
                 Table 1, three on each, is the coherent reading",
                digits(4.0 * i.get("V25")),
                digits(two)
            )),
        Row::follows(i, "V34", estimate, Places(1))
            .plan(ON_FOUR)
            .also("from the two, Gbit/s", 2.0 * two * (1.0 - i.get("V34.penalty") / 100.0))
            ,
        Row::follows(i, "V35", percent(estimate / ideal), Over).also("as printed, %", percent(four / (4.0 * i.get("V27")))),
        Row::follows(i, "V36", percent(four / metal - 1.0), Places(0))
            .note(with_metal(four))
            .why(not_six),
    ]
}

/// Its Table 1: what stays unused.
fn table_1(i: &Inputs) -> Vec<Row> {
    let burst = |machine: &str| i.of(machine, |m| Some(m.burst?.gbps()));
    let vcpus = |plan, machine| percent(i.planned(plan, machine, |c| c.unused.vcpus));
    let network = |plan, machine| percent(i.planned(plan, machine, |c| c.unused.bandwidth));
    let used = |plan, machine| i.interfaces_used(plan, machine);
    let free = |plan, machine| {
        let there = i.of(machine, |m| m.interfaces.map(f64::from));
        there * i.planned(plan, machine, |c| Some(f64::from(c.needed))) - used(plan, machine)
    };
    vec![
        Row::follows(i, "V37", vcpus(ON_METAL, METAL), Places(0)).plan(ON_METAL),
        Row::follows(i, "V38", network(ON_METAL, METAL), About(0))
            .plan(ON_METAL)
            .also("with the 25.7 it prints, %", percent(1.0 - i.get("V23") / burst(METAL))),
        Row::follows(i, "V39", used(ON_METAL, METAL), Places(0))
            .plan(ON_METAL)
            .also("unused", free(ON_METAL, METAL))
            .why(format!(
                "its own rule takes one interface for administration, and the table does not count it; with {} free, \
                 interfaces were not what stopped it",
                digits(free(ON_METAL, METAL))
            )),
        Row::follows(i, "V40", vcpus(ON_FOUR, SMALL), About(0)).plan(ON_FOUR),
        Row::follows(i, "V41", network(ON_FOUR, SMALL), Places(0)).plan(ON_FOUR),
        Row::follows(i, "V42", used(ON_FOUR, SMALL), Places(0))
            .plan(ON_FOUR)
            .also("unused", free(ON_FOUR, SMALL))
            .why("one interface for administration is counted where four instances have four"),
        Row::follows(i, "V43", vcpus(ON_TWO, SMALL), About(0)).plan(ON_TWO),
        Row::follows(i, "V44", network(ON_TWO, SMALL), About(0))
            .plan(ON_TWO)
            .also("unused, Gbit/s", 2.0 * burst(SMALL) - i.get("V33"))
            .note(format!(
                "wrong unit: it prints \"Gbps\"; {} of {} Gbit/s are free",
                digits(2.0 * burst(SMALL) - i.get("V33")),
                digits(2.0 * burst(SMALL))
            )),
        Row::follows(i, "V45", used(ON_TWO, SMALL), Places(0))
            .plan(ON_TWO)
            .also("unused", free(ON_TWO, SMALL))
            .why("one interface for administration is counted where two instances have two"),
    ]
}

fn hosts(i: &Inputs) -> Vec<Row> {
    let vcpus = |machine: &str| i.of(machine, |m| m.vcpus.map(f64::from)) as u32;
    let (host, two, four) = (vcpus(METAL), vcpus("c5n.2xlarge"), vcpus(SMALL));
    // Its rule; the planner leaves no instance across two sockets.
    let on = |instance: u32| f64::from(units_by_vcpus(host, 1, instance));
    let on_a_host = |machine: &str| i.planned(HOSTS, machine, |c| Some(f64::from(c.machines) / f64::from(c.hosts?)));
    let at_cost = |machine: &str| {
        i.answered(EQUAL, |answer| {
            let sizes = answer.equal_cost.iter().flat_map(|family| &family.sizes);
            sizes.filter(|size| size.machine == machine).map(|size| size.usd_per_hour).next()
        })
    };
    let (metal, small) = (at_cost(METAL), at_cost(SMALL));
    let gbps_demand = i.answered(ON_FOUR, |answer| Some(answer.demand.bits()?.gbps()));
    vec![
        Row::follows(i, "V46", on(two), Places(0))
            .claim(i.get("V46.of_4xlarge"), on(four), Places(0))
            .plan(HOSTS)
            .also("4xlarge", on(four))
            .also("2xlarge by the plan, none across two sockets", on_a_host("c5n.2xlarge"))
            .also("4xlarge by the plan, none across two sockets", on_a_host(SMALL))
            .why(format!(
                "its rule, vCPUs of the host by vCPUs of the instance, gives ⌊{host}/{two}⌋ = {}; none across sockets gives {}",
                digits(on(two)),
                digits(on_a_host("c5n.2xlarge"))
            )),
        Row::new("V47", Some(small), super::Verdict::Reproduced)
            .claim(metal, small, Places(2))
            .plan(EQUAL)
            .also("c5n.metal, $/h", metal)
            .also("cheaper, %", percent(1.0 - small / metal))
            .note("computed: four c5n.4xlarge")
            .why(format!(
                "\"cost-equivalent\" is {} against {} $/h: {} vCPUs against {host} at one price each",
                digits(small),
                digits(metal),
                4 * four
            )),
        Row::follows(i, "V49", i.planned(ON_FOUR, SMALL, |c| Some(gbps_demand / (1.0 - c.unused.bandwidth?))), Places(0))
            .plan(ON_FOUR)
            .also("all the time, Gbit/s", 4.0 * i.of(SMALL, |m| Some(m.baseline?.gbps())))
            .note("only while burst credit lasts"),
        Row::input(i, "V50").note("its introduction says 100 Gbit/s a socket, of a newer processor: not to be mixed"),
        Row::follows(i, "V51", i.of("c5n.18xlarge", |m| m.interfaces.map(f64::from)), Places(0))
            .claim(i.get("V51.queues"), i.of("c5n.18xlarge", |m| m.queues.map(f64::from)), Places(0))
            .also("queues of an interface", i.of("c5n.18xlarge", |m| m.queues.map(f64::from))),
        Row::new("V52", None, super::Verdict::Input).note("the method: zero loss, upstream at least a tenth of downstream"),
    ]
}
