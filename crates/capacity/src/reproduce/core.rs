//! packet-core-2019: EPC and 5G user planes for mobile broadband and fixed wireless.

use super::{How::Places, Inputs, Row, gbps};
use crate::frames::Mix;
use crate::quantity::{BitRate, PacketRate, digits};

/// What it states.
pub(super) const INPUTS: &[(&str, f64)] = &[
    ("U01", 212.0),
    ("U01.vms", 10.0),
    ("U01.of_each", 21.2),
    ("U02", 211.0),
    ("U02.of_each", 21.1),
    ("U03", 210.0),
    ("U03.vms", 2.0),
    ("U03.of_each", 105.2),
    ("U04", 21.0),
    ("U04.cores_of_each", 19.0),
    ("U05", 69.0),
    ("U05.section", 89.0),
    ("U06", 222.0),
    ("U06.vms", 12.0),
    ("U06.of_each", 18.5),
    ("U07", 31.7),
    ("U07.up_mpps", 8.9),
    ("U07.down_mpps", 22.8),
    ("U08", 253.0),
    ("U08.up_gbps", 26.7),
    ("U08.down_gbps", 226.0),
    ("U11.cores", 35.0),
    ("U11.busy", 0.78),
    ("U12.ues", 100e3),
    ("U12.mbps", 2.0),
    ("U12.tunnel_bytes", 36.0),
    ("U13", 800e3),
    ("U13.bearers", 2.0),
    ("U13.flows", 4.0),
    ("U14", 25.0),
];

/// What it claims.
pub(super) fn rows(i: &Inputs) -> Vec<Row> {
    let frame = |gbps: f64, mpps: f64| (BitRate(gbps * 1e9) / PacketRate(mpps * 1e6)).0;
    let vm = i.get("U03.of_each");
    let offered = i.answered("core-6230-vepc", |answer| Some(answer.demand.bits()?.gbps()));
    let with_tunnel = |mix: f64| offered * (mix.round() + i.get("U12.tunnel_bytes")) / mix.round();
    let board = |plan: &'static str| i.planned(plan, "board", gbps);
    let mix = Mix::weighted(&[64.0, 128.0, 256.0, 512.0, 1024.0, 1400.0].map(|size| (size, 1.0))).mean().0;
    vec![
        Row::follows(i, "U01", board("core-6230-vepc"), Places(0)).plan("core-6230-vepc"),
        Row::follows(i, "U02", board("core-6230n-vepc"), Places(0)).plan("core-6230n-vepc"),
        Row::follows(i, "U03", board("core-6230n-vupf"), Places(0)).plan("core-6230n-vupf"),
        Row::derived("U04", frame(vm, i.get("U04")))
            .also("Gbit/s a core", vm / i.get("U04.cores_of_each"))
            .also("Mpps a core", i.get("U04") / i.get("U04.cores_of_each"))
            .note("computed: the mean frame"),
        Row::new("U05", Some(i.get("U05.section")), super::Verdict::Reproduced)
            .claim(i.get("U05"), i.get("U05.section"), Places(0))
            .why(format!(
                "{} % in its Table 1, {} % in its section 3.3 for the same run",
                digits(i.get("U05")),
                digits(i.get("U05.section"))
            )),
        Row::follows(i, "U06", board("core-6230n-vfwa"), Places(0))
            .plan("core-6230n-vfwa")
            .note("\"entire board\" in its text, \"1 CPU\" in its Table 1; the summary's \"over 250\" only the 8280 reached"),
        Row::follows(i, "U07", i.get("U07.up_mpps") + i.get("U07.down_mpps"), Places(1)),
        Row::follows(i, "U08", i.get("U08.up_gbps") + i.get("U08.down_gbps"), Places(0)),
        Row::derived("U09", frame(i.get("U08"), i.get("U07")))
            .also("up, B", frame(i.get("U08.up_gbps"), i.get("U07.up_mpps")))
            .also("down, B", frame(i.get("U08.down_gbps"), i.get("U07.down_mpps"))),
        Row::derived("U11", i.get("U01") / i.get("U11.cores"))
            .also("by the time they were busy, Gbit/s", i.get("U01") / i.get("U11.cores") / i.get("U11.busy")),
        Row::derived("U12", offered)
            .plan("core-6230-vepc")
            .also("with tunnel headers, Gbit/s", with_tunnel(mix))
            .also("mean frame, B", mix)
            .note(format!(
                "{} carried, {} offered: with {} B of tunnel on a mean of {} B those are {}; where both are near, the figure \
                 looks limited by load or I/O and not by processors",
                digits(i.get("U01")),
                digits(offered),
                digits(i.get("U12.tunnel_bytes")),
                digits(mix),
                digits(with_tunnel(mix))
            )),
        Row::follows(i, "U13", i.get("U12.ues") * i.get("U13.bearers") * i.get("U13.flows"), Places(0)),
        Row::input(i, "U14"),
    ]
}
