//! vbng-600g-2023: a BNG at 600 Gbit/s on one server.

use super::{How::Places, Inputs, Row, gbps, percent};
use crate::plan::Candidate;
use crate::quantity::digits;

const PLAN: &str = "bng-server";

/// What it states.
pub(super) const INPUTS: &[(&str, f64)] = &[
    ("B01", 601.96),
    ("B03", 846.0),
    ("B03.idle", 338.0),
    ("B04", 256e3),
    ("B05", 9.0),
    ("B05.table", 8.0),
    ("B06", 800.0),
    ("B06.ports", 8.0),
    ("B06.port_gbps", 100.0),
];

/// What it claims.
pub(super) fn rows(i: &Inputs) -> Vec<Row> {
    let server = |of: fn(&Candidate) -> Option<f64>| i.planned(PLAN, "measured", of);
    let carried = server(gbps);
    // At the most: the plan's demand fills the server to 99.9 %.
    let busy = i.answered(PLAN, |answer| Some(answer.demand.bits()?.gbps()));
    let io = server(|c| Some(1.0 - c.unused.bandwidth?));
    vec![
        Row::input(i, "B01")
            .plan(PLAN)
            .also("servers", server(|c| Some(f64::from(c.needed))))
            .note("at a loss below 0.5 %: a partial drop rate, not zero loss"),
        Row::derived("B03", server(|c| Some(c.power?.0)) / busy)
            .also("idle, W for each Gbit/s of the most", i.get("B03.idle") / carried)
            .note("computed: watts for each Gbit/s at the most"),
        Row::derived("B04", carried * 1e3 / i.get("B04"))
            .note(format!("computed: Mbit/s of each of {} subscribers", i.get("B04"))),
        Row::new("B05", Some(i.get("B05.table")), super::Verdict::Reproduced)
            .claim(i.get("B05"), i.get("B05.table"), Places(0))
            .why(format!(
                "{}:1 in its text, {}:1 in its Table 5, which moreover calls it upstream to downstream",
                digits(i.get("B05")),
                digits(i.get("B05.table"))
            )),
        Row::follows(i, "B06", busy / io, Places(0))
            .plan(PLAN)
            .also("used, %", percent(carried / (busy / io)))
            .note("\"2x200GbE\" for each processor are two cards of two 100 Gbit/s ports"),
    ]
}
