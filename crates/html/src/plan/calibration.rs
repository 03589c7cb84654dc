//! Predicted against measured, as a page.

use std::fmt::Write as _;

use capacity::calibration::{Calibration, HeldOut};
use capacity::quantity::digits;

use crate::svg::{Bar, bars};
use crate::{begin, figure, section, table};

/// The whole page.
pub fn page(all: &Calibration) -> String {
    let held = all.points.iter().filter(|one| one.held).count();
    let mut out = begin("Predicted against measured");
    let _ = write!(
        out,
        "<p class='lead'>Each measurement is predicted by weir plan from others, without what it itself taught. {held} of {} \
         are within P10 to P90 ({:.0} %; 70 to 90 % is honest). Median error of P50: {:.0} %. Mean interval score {:.2}, \
         that of ± 41 % around a plain guess {:.2}; less is better.</p>",
        all.points.len(),
        100.0 * all.held_ratio,
        100.0 * all.error_ratio_median,
        all.score,
        all.fixed_score,
    );
    out += &section(
        "P50 by what was measured, with P10 and P90",
        &figure(&bars(&all.points.iter().map(bar).collect::<Vec<_>>())),
    );
    out += "<p class='lead'>1 is a perfect prediction. Beside the bars: P50 less the measurement.</p>";
    let heads = ["=predicted", "of", "from", ">P10", ">P50", ">P90", ">measured", "=unit", ">error", "=held"];
    let rows: Vec<(bool, Vec<String>)> = all.points.iter().map(|one| (false, row(one))).collect();
    out += &section("Every held-out measurement", &table(&heads, &rows));
    out + "<footer>Calculated by weir plan calibration.</footer></main></body></html>\n"
}

fn bar(one: &HeldOut) -> Bar {
    let [p10, p50, p90] = one.predicted.map(|value| value / one.measured);
    let range = Some((p10, p90));
    let class = if one.held { "a" } else { "bad" };
    let says = format!("{:+.0} %{}", 100.0 * one.error_ratio, if one.held { "" } else { ", outside" });
    Bar { range, ..Bar::new(&one.what, p50, says, class) }
}

fn row(one: &HeldOut) -> Vec<String> {
    let [p10, p50, p90] = one.predicted.map(digits);
    vec![
        one.kind.to_string(),
        one.what.clone(),
        one.from.clone(),
        p10,
        p50,
        p90,
        digits(one.measured),
        one.unit.to_owned(),
        format!("{:+.0} %", 100.0 * one.error_ratio),
        if one.held { "yes" } else { "no" }.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_on_the_page() {
        let all = capacity::calibration::calibration();
        let page = page(&all);
        assert_eq!(page.matches("<tr>").count(), all.points.len() + 1, "and the heads");
        assert!(page.contains("c5n.2xlarge, vcmts-cloud-2021") && page.contains("% is honest"));
    }
}
