//! Charts as inline SVG: lines over numbers, categories or logarithms, and stacked bars.

use std::fmt::Write as _;

use super::svg::escape;

/// Classes of series, in their order.
pub const CLASSES: [&str; 10] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9"];

/// A line with a dot at each point.
pub struct Line {
    /// What it is.
    pub name: String,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
    /// Without the line: measured points beside a fitted line.
    pub dots_only: bool,
    /// Without dots: a fitted line.
    pub line_only: bool,
    /// Which of [`CLASSES`] colours it.
    pub class: usize,
}

impl Line {
    /// A line with dots.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>, class: usize) -> Self {
        Self { name: name.into(), points, dots_only: false, line_only: false, class }
    }
}

/// The axes of a chart.
#[derive(Clone, Debug, Default)]
pub struct Axes {
    /// Under the chart, with its unit.
    pub across: String,
    /// Beside it, with its unit.
    pub up: String,
    /// Names of the places 0, 1, 2 … across, where there are such and no numbers.
    pub places: Vec<String>,
    /// The vertical axis is logarithmic.
    pub is_log: bool,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 46.0;

/// Lines over one pair of axes; their names are a key below.
pub fn lines(all: &[Line], axes: &Axes) -> String {
    let points = || all.iter().flat_map(|line| &line.points).filter(|(x, y)| x.is_finite() && y.is_finite());
    let (x_least, x_most) = match axes.places.len() {
        0 => points().fold((0.0_f64, 0.0_f64), |(least, most), (x, _)| (least.min(*x), most.max(*x))),
        n => (-0.3, n as f64 - 0.7),
    };
    let (steps, scale) = vertical(points().map(|(_, y)| *y), axes.is_log);
    let x = |value: f64| LEFT + (value - x_least) / (x_most - x_least).max(1e-12) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| TOP + (1.0 - scale(value)) * (HEIGHT - TOP - BOTTOM);
    let mut out = open(HEIGHT);
    for step in &steps {
        out += &super::svg::grid_line((LEFT, WIDTH - RIGHT), y(*step), &number(*step));
    }
    let ticks: Vec<(f64, String)> = match axes.places.is_empty() {
        true => {
            nice(x_most).into_iter().filter(|tick| *tick <= x_most * 1.0001).map(|tick| (tick, number(tick))).collect()
        }
        false => axes.places.iter().enumerate().map(|(n, name)| (n as f64, name.clone())).collect(),
    };
    for (at, name) in ticks {
        let _ = write!(
            out,
            "<text x='{:.1}' y='{:.1}' text-anchor='middle' class='tick'>{}</text>",
            x(at),
            HEIGHT - BOTTOM + 18.0,
            escape(&name)
        );
    }
    labels(&mut out, axes);
    for line in all {
        let class = CLASSES[line.class % CLASSES.len()];
        let at: Vec<(f64, f64)> = line.points.iter().map(|point| (x(point.0), y(point.1))).collect();
        if !line.dots_only {
            let path: String = at
                .iter()
                .enumerate()
                .map(|(n, (x, y))| format!("{}{x:.1} {y:.1}", if n == 0 { "M" } else { "L" }))
                .collect();
            let _ = write!(out, "<path d='{path}' class='line {class}'/>");
        }
        for ((x, y), (_, value)) in at.iter().zip(&line.points).filter(|_| !line.line_only) {
            let says = escape(&format!("{}: {}", line.name, number(*value)));
            let _ = write!(out, "<circle cx='{x:.1}' cy='{y:.1}' r='4' class='{class}'><title>{says}</title></circle>");
        }
    }
    let names = all.iter().map(|line| (line.name.as_str(), line.class));
    out + "</svg>" + &keys(names)
}

fn labels(out: &mut String, axes: &Axes) {
    let _ = write!(
        out,
        "<text x='{:.1}' y='{:.1}' text-anchor='middle' class='label'>{}</text>\
         <text transform='translate(14 {:.1}) rotate(-90)' text-anchor='middle' class='label'>{}</text>",
        LEFT + (WIDTH - LEFT - RIGHT) / 2.0,
        HEIGHT - 6.0,
        escape(&axes.across),
        TOP + (HEIGHT - TOP - BOTTOM) / 2.0,
        escape(&axes.up),
    );
}

/// Steps of the vertical axis, and where a value stands between its ends, 0 to 1.
fn vertical(values: impl Iterator<Item = f64>, is_log: bool) -> (Vec<f64>, Box<dyn Fn(f64) -> f64>) {
    let values: Vec<f64> = values.collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    if !is_log {
        let steps = nice(most);
        let top = steps.last().copied().unwrap_or(1.0);
        return (steps, Box::new(move |value: f64| (value / top).clamp(0.0, 1.0)));
    }
    let least = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let least = if least.is_finite() { least } else { 1.0 };
    let (from, to) = (least.log10().floor(), most.max(least).log10().ceil());
    let to = if to > from { to } else { from + 1.0 };
    let steps = (from as i32..=to as i32).map(|power| 10f64.powi(power)).collect();
    (steps, Box::new(move |value: f64| ((value.max(1e-12).log10() - from) / (to - from)).clamp(0.0, 1.0)))
}

/// A part of a stacked bar.
pub struct Part {
    /// What it is.
    pub name: String,
    /// Its length, in the unit of the axis.
    pub value: f64,
}

/// Bars of parts above each other; parts of one name have one colour. The unit stands behind each sum.
pub fn stacked(rows: &[(String, Vec<Part>)], unit: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for part in rows.iter().flat_map(|(_, parts)| parts) {
        if !names.contains(&part.name.as_str()) {
            names.push(&part.name);
        }
    }
    let class = |name: &str| names.iter().position(|known| *known == name).unwrap_or(0);
    let sum = |parts: &[Part]| parts.iter().map(|part| part.value).sum::<f64>();
    let most = rows.iter().map(|(_, parts)| sum(parts)).fold(1e-12, f64::max);
    let (row, says) = (48.0, 110.0);
    let mut out = open(row * rows.len() as f64 + 6.0);
    for (n, (name, parts)) in rows.iter().enumerate() {
        let (top, mut left) = (row * n as f64 + 4.0, 4.0);
        let _ = write!(out, "<text x='4' y='{:.1}' class='label'>{}</text>", top + 12.0, escape(name));
        for part in parts.iter().filter(|part| part.value > 0.0) {
            let width = part.value / most * (WIDTH - says - 4.0);
            let what = escape(&format!("{}: {} {unit}", part.name, number(part.value)));
            let _ = write!(
                out,
                "<rect x='{left:.1}' y='{:.1}' width='{:.1}' height='22' class='{}'><title>{what}</title></rect>",
                top + 18.0,
                (width - 1.0).max(0.5),
                CLASSES[class(&part.name) % CLASSES.len()],
            );
            let text = number(part.value);
            if width > 9.0 * text.len() as f64 + 6.0 {
                let (x, y) = (left + width / 2.0, top + 33.0);
                let _ = write!(out, "<text x='{x:.1}' y='{y:.1}' text-anchor='middle' class='says in'>{text}</text>");
            }
            left += width;
        }
        let all = number(sum(parts));
        let _ =
            write!(out, "<text x='{:.1}' y='{:.1}' class='says'>{all} {}</text>", left + 6.0, top + 33.0, escape(unit));
    }
    out + "</svg>" + &keys(names.iter().enumerate().map(|(n, name)| (*name, n)))
}

/// What colours stand for.
fn keys<'n>(names: impl Iterator<Item = (&'n str, usize)>) -> String {
    let key = |(name, class): (&str, usize)| {
        format!("<span><i class='key {}'></i>{}</span>", CLASSES[class % CLASSES.len()], escape(name))
    };
    format!("<div class='keys'>{}</div>", names.map(key).collect::<String>())
}

/// Round steps from nothing to just above a value, six at most.
fn nice(most: f64) -> Vec<f64> {
    let most = if most > 0.0 && most.is_finite() { most } else { 1.0 };
    let power = 10f64.powf(most.log10().floor());
    let step = [0.2, 0.5, 1.0, 2.0].into_iter().map(|by| by * power).find(|step| most / step <= 6.0).unwrap_or(power);
    (0..=(most / step).ceil() as u32).map(|n| f64::from(n) * step).collect()
}

/// With as many digits as say something.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => return "0".to_owned(),
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.01 => 3,
        _ => return format!("{value:.1e}"),
    };
    let text = format!("{value:.digits$}");
    if digits > 0 { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn open(height: f64) -> String {
    format!("<svg viewBox='0 0 {WIDTH} {height}' role='img' xmlns='http://www.w3.org/2000/svg'>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_axes_have_powers_of_ten() {
        let (steps, scale) = vertical([3.0, 450.0].into_iter(), true);
        assert_eq!(steps, [1.0, 10.0, 100.0, 1000.0]);
        assert!((scale(1.0) - 0.0).abs() < 1e-9 && (scale(1000.0) - 1.0).abs() < 1e-9 && scale(0.0) == 0.0);
    }

    #[test]
    fn charts_of_nothing_are_no_nonsense() {
        let axes = Axes::default();
        for chart in [lines(&[], &axes), lines(&[Line::new("x", vec![(f64::NAN, 1.0)], 0)], &axes), stacked(&[], "ns")]
        {
            assert!(!chart.contains("inf"), "{chart}");
        }
    }

    #[test]
    fn parts_of_a_name_have_one_colour() {
        let part = |name: &str, value| Part { name: name.to_owned(), value };
        let rows = [("a".to_owned(), vec![part("<x>", 1.0), part("y", 2.0)]), ("b".to_owned(), vec![part("y", 3.0)])];
        let chart = stacked(&rows, "ns");
        assert_eq!(chart.matches("class='s1'").count(), 2);
        assert!(chart.contains("&lt;x&gt;: 1 ns") && chart.contains("3 ns"));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 1234.5, 12.34, 1.5, 0.25, 1e-6].map(number), ["0", "1234", "12.3", "1.5", "0.25", "1.0e-6"]);
    }
}
