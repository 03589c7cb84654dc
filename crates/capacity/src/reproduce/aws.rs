//! aws-100g: what 100 Gbit/s networking on AWS gives. Its tables of line rates count the 20 bytes around a frame in
//! some rows and not in others; both are calculated, and the row says which one it is.

use super::{How, Inputs, Row, Verdict, mpps};
use crate::frames::{Layer, line_rate};
use crate::limits::Limit;
use crate::plan::Candidate;
use crate::quantity::{BitRate, FrameSize, digits};
use How::{About, Places};

const QUEUES: &str = "aws-queues";

/// What it states.
pub(super) const INPUTS: &[(&str, f64)] = &[
    ("P01", 14.88),
    ("P02", 3.4),
    ("P03", 148.0),
    ("P04", 144.0),
    ("P05", 1.39),
    ("P06", 1.0),
    ("P06.least", 0.7),
    ("P07", 8.5),
    ("P07.queues", 12.0),
    ("P08", 32.0),
    ("P08.queues", 32.0),
    ("P09", 3.0),
    ("P10", 3.0),
    ("P11", 6.2),
    ("P12", 8.3),
    ("P12.least", 6.6),
    ("P13", 32.0),
    ("P15", 10.0),
    ("P16", 10.0),
    ("P16.outside", 5.0),
];

/// What it claims.
pub(super) fn rows(i: &Inputs) -> Vec<Row> {
    let mut rows = line_rates(i);
    rows.extend(measured(i));
    rows
}

/// A row of a table of line rates: whichever convention gives what is printed.
fn line(i: &Inputs, id: &'static str, gbps: f64, bytes: f64, how: How) -> Row {
    let at = |layer: Layer| line_rate(BitRate(gbps * 1e9), FrameSize(bytes), layer).mpps();
    let (with, without) = (at(Layer::L1), at(Layer::L2));
    let verdict = |computed: f64| Row::follows(i, id, computed, how).verdict();
    let (computed, note) = match (verdict(with) < Verdict::Contradicts, verdict(without) < Verdict::Contradicts) {
        (true, true) => (with, "the same with and without the 20 bytes around a frame"),
        (true, false) => (with, "counts the 20 bytes around a frame"),
        (false, true) => (
            without,
            "double convention: comes out only without the 20 bytes that the other rows count, unless 366 has them already",
        ),
        (false, false) => (with, "comes out neither with nor without the 20 bytes around a frame"),
    };
    Row::follows(i, id, computed, how).also("with 20 bytes, Mpps", with).also("without, Mpps", without).note(note)
}

fn line_rates(i: &Inputs) -> Vec<Row> {
    vec![
        line(i, "P01", 10.0, 64.0, Places(2)),
        line(i, "P02", 10.0, 366.0, Places(1)),
        line(i, "P03", 100.0, 64.0, About(0)),
        line(i, "P04", 100.0, 64.0, Places(0))
            .why(format!("its own table has {}, which is right", digits(i.get("P03")))),
        line(i, "P05", 100.0, 9000.0, Places(2)),
    ]
}

fn measured(i: &Inputs) -> Vec<Row> {
    let queues = |size: &str| i.of(&format!("c5n.{size}"), |m| m.queues.map(f64::from));
    let units = |size: &str| i.planned(QUEUES, &format!("c5n.{size}"), |c| super::units(c, Limit::Queues));
    let largest = |of: fn(&Candidate) -> Option<f64>| i.planned(QUEUES, "c5n.18xlarge", of);
    let vcpus = |size: &str| i.of(&format!("c5n.{size}"), |m| m.vcpus.map(f64::from));
    let sizes = ["large", "xlarge", "2xlarge", "4xlarge", "9xlarge", "18xlarge"];
    let most = i.get("P13");
    let rule = Row::new("P13", Some(vcpus("18xlarge").min(most)), Verdict::Reproduced)
        .note("effective queues: the interface lists 8 for large to 2xlarge, the driver uses no more than vCPUs");
    let rule = sizes
        .iter()
        .fold(rule, |row, size| row.claim(vcpus(size).min(most), queues(size), Places(0)).also(size, queues(size)))
        .plan(QUEUES)
        .also("units of the plan on 4xlarge", units("4xlarge"));
    let flow = |inside: bool| {
        i.of("c5n.18xlarge", |m| Some(if inside { m.single_flow_cluster? } else { m.single_flow? }.gbps()))
    };
    vec![
        Row::input(i, "P06").also("least", i.get("P06.least")),
        Row::input(i, "P07").also("of each queue, Mpps", i.get("P07") / i.get("P07.queues")),
        Row::follows(i, "P08", i.get("P08.queues") * i.get("P06"), Places(0))
            .plan(QUEUES)
            .also("by the plan, Mpps", largest(|c| Some(mpps(c)? / f64::from(c.needed))))
            .also("what was seen, Mpps", (i.get("P08.queues") * i.get("P06")).min(i.get("P07")))
            .note(format!(
                "an expectation the publication itself falsifies: {} Mpps from {} queues on",
                digits(i.get("P07")),
                digits(i.get("P07.queues"))
            )),
        Row::input(i, "P09"),
        Row::input(i, "P10").also("received and sent together, Mpps", 2.0 * i.get("P10")),
        Row::input(i, "P11").also("forwarded, Mpps", i.get("P11") / 2.0),
        Row::input(i, "P12").also("least", i.get("P12.least")),
        rule,
        Row::input(i, "P15").note("the model's tolerance where somebody else measured"),
        Row::follows(i, "P16", flow(true), Places(0))
            .claim(i.get("P16.outside"), flow(false), Places(0))
            .also("outside a cluster placement group, Gbit/s", flow(false)),
    ]
}
