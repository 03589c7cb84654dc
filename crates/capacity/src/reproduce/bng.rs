//! vbng-600g-2023: a BNG at 600 Gbit/s on one server.

use super::{How::Places, Inputs, Row, percent};

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
    let gbps = i.get("B01");
    let io = i.get("B06.ports") * i.get("B06.port_gbps");
    vec![
        Row::input(i, "B01").note("at a loss below 0.5 %: a partial drop rate, not zero loss"),
        Row::derived("B03", i.get("B03") / gbps)
            .also("idle, W for each Gbit/s of the most", i.get("B03.idle") / gbps)
            .note("computed: watts for each Gbit/s at the most"),
        Row::derived("B04", gbps * 1e3 / i.get("B04")).note("computed: Mbit/s of each of 256,000 subscribers"),
        Row::new("B05", Some(i.get("B05.table")), super::Verdict::Reproduced)
            .claim(i.get("B05"), i.get("B05.table"), Places(0))
            .why("9:1 in its text, 8:1 in its Table 5, which moreover calls it upstream to downstream"),
        Row::follows(i, "B06", io, Places(0))
            .also("used, %", percent(gbps / io))
            .note("\"2x200GbE\" for each processor are two cards of two 100 Gbit/s ports"),
    ]
}
