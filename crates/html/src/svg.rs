//! Plots as inline SVG: bars, lines with points, steps. Colours are the page's; nothing is loaded from anywhere.

use std::fmt::Write as _;

/// A horizontal bar with its name and what it says.
pub struct Bar {
    /// What it is of.
    pub name: String,
    /// How long.
    pub value: f64,
    /// From where, if not from nothing: a range.
    pub from: f64,
    /// Written at its end.
    pub says: String,
    /// One of the page's colours.
    pub class: &'static str,
    /// What is added to it, in a colour of its own.
    pub more: Option<(f64, &'static str)>,
    /// The least and the most its end may be.
    pub range: Option<(f64, f64)>,
}

impl Bar {
    /// From nothing to a value.
    pub fn new(name: impl Into<String>, value: f64, says: impl Into<String>, class: &'static str) -> Self {
        Self { name: name.into(), value, from: 0.0, says: says.into(), class, more: None, range: None }
    }
}

const WIDTH: f64 = 860.0;
const ROW: f64 = 28.0;
/// What a letter of the page's font takes at most, of those there are on average.
const LETTER: f64 = 7.4;

/// Room for the longest of some texts, within bounds.
fn room<'t>(texts: impl Iterator<Item = &'t String>, least: f64, most: f64) -> f64 {
    let longest = texts.map(|text| text.chars().count()).max().unwrap_or(0);
    (LETTER * longest as f64 + 20.0).clamp(least, most)
}

/// Horizontal bars under each other.
pub fn bars(bars: &[Bar]) -> String {
    let end = |bar: &Bar| bar.value + bar.more.map_or(0.0, |(more, _)| more);
    let of = |bar: &Bar| {
        [end(bar), bar.from, bar.range.map_or(0.0, |(least, _)| least), bar.range.map_or(0.0, |(_, most)| most)]
    };
    let edges = || bars.iter().flat_map(of).filter(|value| value.is_finite());
    let (least, most) = (edges().fold(0.0, f64::min), edges().fold(0.0, f64::max));
    let name = room(bars.iter().map(|bar| &bar.name), 100.0, 260.0);
    let says = room(bars.iter().map(|bar| &bar.says), 100.0, 380.0);
    let scale = (WIDTH - name - says) / (most - least).max(1e-12);
    let x = |value: f64| name + (value.clamp(least, most) - least) * scale;
    let height = ROW * bars.len() as f64 + 8.0;
    let mut out = open(height);
    for (n, bar) in bars.iter().enumerate() {
        let y = ROW * n as f64 + 4.0;
        let (left, right) = (x(bar.from.min(bar.value)), x(bar.from.max(bar.value)));
        let middle = y + ROW / 2.0;
        let _ = write!(
            out,
            "<text x='{:.1}' y='{:.1}' text-anchor='end' class='name'>{}</text>\
             <rect x='{left:.1}' y='{:.1}' width='{:.1}' height='{:.1}' rx='3' class='{}'/>\
             <text x='{:.1}' y='{:.1}' class='says'>{}</text>",
            name - 10.0,
            middle + 4.0,
            escape(&bar.name),
            y + 4.0,
            (right - left).max(1.5),
            ROW - 8.0,
            bar.class,
            x(end(bar).max(bar.range.map_or(f64::MIN, |(_, most)| most)).max(bar.from)) + 8.0,
            middle + 4.0,
            escape(&bar.says),
        );
        if let Some((more, class)) = bar.more {
            let (top, width, tall) = (y + 4.0, x(bar.value + more) - right, ROW - 8.0);
            let _ = write!(
                out,
                "<rect x='{right:.1}' y='{top:.1}' width='{width:.1}' height='{tall:.1}' class='{class}'/>"
            );
        }
        if let Some((least, most)) = bar.range {
            let (from, to, up, down) = (x(least), x(most), middle - 5.0, middle + 5.0);
            let _ = write!(
                out,
                "<path class='whisker' d='M{from:.1} {up:.1}V{down:.1}M{from:.1} {middle:.1}H{to:.1}M{to:.1} {up:.1}V{down:.1}'/>"
            );
        }
    }
    if least < 0.0 {
        let _ = write!(out, "<line x1='{0:.1}' x2='{0:.1}' y1='0' y2='{height:.1}' class='axis'/>", x(0.0));
    }
    out + "</svg>"
}

/// A line or points of a plot.
pub struct Series {
    /// What it is.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
    /// One of the page's colours.
    pub class: &'static str,
    /// How it is drawn.
    pub drawn: Drawn,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// A line from point to point.
    Line,
    /// Dots.
    Dots,
    /// Each value kept until the next.
    Steps,
}

const PLOT: f64 = 280.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 236.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;

/// A line across a plot from `left` to `right` at a height, with what it stands for at its left end.
pub fn grid_line((left, right): (f64, f64), at: f64, label: &str) -> String {
    let (beside, below) = (left - 8.0, at + 4.0);
    format!(
        "<line x1='{left}' x2='{right:.1}' y1='{at:.1}' y2='{at:.1}' class='grid'/>\
         <text x='{beside:.1}' y='{below:.1}' text-anchor='end' class='tick'>{label}</text>"
    )
}

/// Series over one pair of axes, from nothing upwards.
pub fn plot(series: &[Series], across: &str, up: &str) -> String {
    let all = || series.iter().flat_map(|series| &series.points);
    let x_least = all().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let x_most = all().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    let steps = nice(all().map(|p| p.1).fold(0.0, f64::max));
    let top = steps.last().copied().unwrap_or(1.0);
    let x = |value: f64| LEFT + (value - x_least) / (x_most - x_least).max(1e-12) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| TOP + (1.0 - value / top) * (PLOT - TOP - BOTTOM);
    let mut out = open(PLOT);
    for step in &steps {
        out += &grid_line((LEFT, WIDTH - RIGHT), y(*step), &capacity::quantity::digits(*step));
    }
    let every = ((x_most - x_least) / 12.0).ceil().max(1.0);
    let mut tick = x_least.ceil();
    while tick <= x_most + 1e-9 {
        let _ = write!(
            out,
            "<text x='{:.1}' y='{:.1}' text-anchor='middle' class='tick'>{tick:.0}</text>",
            x(tick),
            PLOT - BOTTOM + 18.0
        );
        tick += every;
    }
    let _ = write!(
        out,
        "<text x='{:.1}' y='{:.1}' text-anchor='middle' class='label'>{}</text>\
         <text transform='translate(14 {:.1}) rotate(-90)' text-anchor='middle' class='label'>{}</text>",
        LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
        PLOT - 6.0,
        escape(across),
        TOP + (PLOT - TOP - BOTTOM) / 2.0,
        escape(up),
    );
    for (n, one) in series.iter().enumerate() {
        let at: Vec<(f64, f64)> = one.points.iter().map(|p| (x(p.0), y(p.1))).collect();
        match one.drawn {
            Drawn::Dots => at.iter().for_each(|(x, y)| {
                let _ = write!(out, "<circle cx='{x:.1}' cy='{y:.1}' r='5' class='{}'/>", one.class);
            }),
            Drawn::Line => path(&mut out, &at, one.class),
            Drawn::Steps => {
                let stepped =
                    at.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]).chain(at.last().copied());
                path(&mut out, &stepped.collect::<Vec<_>>(), one.class);
            }
        }
        let (x, y) = (WIDTH - RIGHT + 18.0, TOP + 12.0 + 22.0 * n as f64);
        let mark = match one.drawn {
            Drawn::Dots => format!("<circle cx='{:.1}' cy='{:.1}' r='5' class='{}'/>", x + 10.0, y - 4.0, one.class),
            _ => format!("<path d='M{x:.1} {0:.1} h20' class='line {1}'/>", y - 4.0, one.class),
        };
        let _ = write!(out, "{mark}<text x='{:.1}' y='{y:.1}' class='says'>{}</text>", x + 28.0, escape(&one.name));
    }
    out + "</svg>"
}

fn path(out: &mut String, at: &[(f64, f64)], class: &str) {
    let mut d = String::new();
    for (n, (x, y)) in at.iter().enumerate() {
        let _ = write!(d, "{}{x:.1} {y:.1}", if n == 0 { "M" } else { "L" });
    }
    let _ = write!(out, "<path d='{d}' class='line {class}'/>");
}

/// Round steps from nothing to just above a value.
fn nice(most: f64) -> Vec<f64> {
    let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
    let power = 10f64.powf(most.log10().floor());
    let step = [0.2, 0.5, 1.0, 2.0].into_iter().map(|by| by * power).find(|step| most / step <= 6.0).unwrap_or(power);
    (0..=(most / step).ceil() as u32).map(|n| f64::from(n) * step).collect()
}

fn open(height: f64) -> String {
    format!("<svg viewBox='0 0 {WIDTH} {height}' role='img' xmlns='http://www.w3.org/2000/svg'>")
}

/// Text as a page may hold it.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_reach_above() {
        assert_eq!(nice(25.2), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(nice(0.0).last(), Some(&1.0));
        assert!(nice(7.776).last().is_some_and(|last| *last >= 7.776));
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("a<b>&'\""), "a&lt;b&gt;&amp;&#39;&quot;");
        assert!(bars(&[Bar::new("<x>", 1.0, "1", "a")]).contains("&lt;x&gt;"));
    }

    #[test]
    fn what_a_bar_says_has_room() {
        let says = "33346.396 $/day, up to 51 in the cloud";
        let out = bars(&[Bar::new("0 on premise", 3.0, says, "a"), Bar::new("1 on premise", 1.0, "7 $/day", "a")]);
        let at = out[..out.find(says).unwrap()].rsplit_once("<text x='").unwrap().1;
        let x: f64 = at[..at.find('\'').unwrap()].parse().unwrap();
        assert!(x + 7.0 * says.len() as f64 <= WIDTH, "it begins at {x}");
    }

    #[test]
    fn bars_below_nothing_have_their_axis() {
        let out = bars(&[Bar { from: -1.0, ..Bar::new("x", 2.0, "", "a") }]);
        assert!(out.contains("class='axis'") && !out.contains("NaN"), "{out}");
    }
}
