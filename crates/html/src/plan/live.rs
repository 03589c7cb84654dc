//! The planner within its page: sliders, and the planner compiled to WebAssembly, which calculates the page's body again
//! for what they turn. The same code as `weir plan --set`; nothing is loaded from anywhere.

use std::fmt::Write as _;

use capacity::knobs::Knobs;

use crate::svg::escape;

/// What the page carries.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// The module of the crate `planner-wasm`, compressed by gzip.
    pub module: &'a [u8],
    /// What it is asked, as JSON: the crate's `Asked` without its knobs.
    pub asked: &'a str,
    /// The plan's file, for the command shown.
    pub file: &'a str,
    /// Where sliders stand before they are moved; those left out turn nothing in this plan and are not shown.
    pub begin: Knobs,
    /// What is turned already.
    pub set: Knobs,
}

/// A slider: its name, its label, its range, and whether it shows a factor or a percentage.
struct Slider {
    name: &'static str,
    label: &'static str,
    range: (f64, f64),
    step: f64,
    percent: bool,
}

const SLIDERS: [Slider; 4] = [
    Slider { name: "demand", label: "demand of each", range: (0.25, 4.0), step: 0.05, percent: false },
    Slider { name: "price", label: "price of machines", range: (0.5, 2.0), step: 0.05, percent: false },
    Slider { name: "sharing", label: "left by neighbours", range: (0.3, 1.0), step: 0.01, percent: true },
    Slider { name: "growth", label: "growth a year", range: (0.0, 1.0), step: 0.01, percent: true },
];

fn value(knobs: &Knobs, name: &str) -> Option<f64> {
    match name {
        "demand" => knobs.demand,
        "price" => knobs.price,
        "sharing" => knobs.sharing,
        _ => knobs.growth,
    }
}

/// The form with a slider for each knob that turns something in this plan.
pub(super) fn controls(live: &Live<'_>) -> String {
    let mut out = "<form id='knobs' autocomplete='off'>".to_owned();
    for slider in &SLIDERS {
        let Some(begin) = value(&live.begin, slider.name) else { continue };
        let Slider { name, label, range: (least, most), step, percent } = slider;
        let now = value(&live.set, name).unwrap_or(begin);
        let _ = write!(
            out,
            "<label for='{name}'>{label}</label><input type='range' id='{name}' min='{least}' max='{most}' step='{step}' \
             value='{now}' data-begin='{begin}' data-percent='{percent}'><output for='{name}'></output>"
        );
    }
    out + "<p><code id='command'></code> <button type='reset'>as planned</button> <span id='took'></span></p></form>"
}

/// The module, what it is asked, and the code that joins both to the sliders.
pub(super) fn script(live: &Live<'_>) -> String {
    // A script's text ends at its end tag wherever that stands.
    let asked = live.asked.replace("</", "<\\/");
    format!(
        "<script type='application/json' id='asked'>{asked}</script>\
         <script type='application/octet-stream' id='module'>{}</script>\
         <script data-file='{}'>{}</script>",
        base64(live.module),
        escape(live.file).replace('\'', "&#39;"),
        include_str!("live.js")
    )
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for n in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * n)) as usize & 63];
            out.push(if n <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn vectors_of_rfc_4648() {
        let all =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")];
        for (text, coded) in all {
            assert_eq!(base64(text.as_bytes()), coded);
        }
    }
}
