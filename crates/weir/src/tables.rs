//! Tables and numbers as people read them.

use std::fmt::Write as _;
use std::io::IsTerminal;

/// On which side a column's text begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Whether to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Bold headings, dim rules.
    pub colour: bool,
}

impl Style {
    /// Colour on a terminal that wants it, none in files, pipes and tests.
    pub fn of_stdout() -> Self {
        Self { colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    /// Bold.
    pub fn strong(self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// In the background.
    pub fn dim(self, text: &str) -> String {
        if self.colour { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// For what is wrong.
    pub fn alarm(self, text: &str) -> String {
        if self.colour { format!("\x1b[1;31m{text}\x1b[0m") } else { text.to_owned() }
    }
}

enum Row {
    Cells(Vec<String>),
    Rule,
}

/// A table: columns as wide as their widest cell, two spaces apart, a rule under the heads.
pub struct Table {
    heads: Vec<(String, Align)>,
    rows: Vec<Row>,
}

impl Table {
    /// An empty one with those columns.
    pub fn new(heads: &[(&str, Align)]) -> Self {
        Self { heads: heads.iter().map(|(head, align)| ((*head).to_owned(), *align)).collect(), rows: Vec::new() }
    }

    /// Adds a row; cells that are missing are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(Row::Cells(cells.into_iter().collect()));
    }

    /// Adds a rule across.
    pub fn rule(&mut self) {
        self.rows.push(Row::Rule);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its lines, each indented by two spaces.
    pub fn render(&self, style: Style) -> String {
        let widths = self.widths();
        let total = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let rule = format!("  {}\n", style.dim(&"─".repeat(total)));
        let heads: Vec<&str> = self.heads.iter().map(|(head, _)| head.as_str()).collect();
        let mut out = format!("  {}\n{rule}", style.strong(&self.line(&heads, &widths)));
        for row in &self.rows {
            match row {
                Row::Cells(cells) => {
                    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
                    let _ = writeln!(out, "  {}", self.line(&cells, &widths));
                }
                Row::Rule => out += &rule,
            }
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.heads.iter().map(|(head, _)| head.chars().count()).collect();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    fn line(&self, cells: &[&str], widths: &[usize]) -> String {
        let mut line = String::new();
        for (n, (width, (_, align))) in widths.iter().zip(&self.heads).enumerate() {
            let cell = cells.get(n).copied().unwrap_or("");
            let gap = " ".repeat(width - cell.chars().count());
            if n > 0 {
                line += "  ";
            }
            match align {
                Align::Left => line.extend([cell, &gap]),
                Align::Right => line.extend([&gap, cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits with a unit of thousands: `1.42 M`, `982`, `0`.
pub fn si(value: f64) -> String {
    const UNITS: [&str; 5] = ["", " k", " M", " G", " T"];
    let mut value = value.max(0.0);
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match value {
        v if unit == 0 && v.fract() == 0.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{}", UNITS[unit])
}

/// `512 B`, `1.5 KiB`, `34 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 99.95);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// `4.2 s`, `12 min 5 s`, `3 h 7 min`, `2 d 4 h`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{:.1} s", seconds.max(0.0)),
        (0, 0, m) => format!("{m} min {} s", whole % 60),
        (0, h, m) => format!("{h} h {m} min"),
        (d, h, _) => format!("{d} d {h} h"),
    }
}

/// A number per other number with so many digits; a dash when there is nothing to divide by.
pub fn per(value: f64, by: f64, digits: usize) -> String {
    if by > 0.0 { format!("{:.digits$}", value / by) } else { "–".to_owned() }
}

/// A bar of `width` characters, filled by a share of 0 to 1 to an eighth of a character.
pub fn bar(share: f64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (8 * width) as f64).round() as usize;
    let filled = format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8]);
    let gap = width - filled.chars().count().min(width);
    format!("{filled}{}", " ".repeat(gap))
}

/// Singular or plural: `1 worker`, `2 workers`.
pub fn many(n: usize, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        let si = |v: f64| super::si(v);
        assert_eq!([0.0, 7.0, 999.0, 1000.0, 999_600.0].map(si), ["0", "7", "999", "1.00 k", "1.00 M"]);
        assert_eq!([0.5, 12_345.0, 1_420_000.0, 7e12].map(si), ["0.50", "12.3 k", "1.42 M", "7.00 T"]);
        assert_eq!([0, 512, 1536, 1023 << 20, 1 << 40].map(bytes), ["0 B", "512 B", "1.5 KiB", "1023 MiB", "1.0 TiB"]);
        assert_eq!([4.25, 725.0, 11_220.0, 187_200.0].map(duration), ["4.2 s", "12 min 5 s", "3 h 7 min", "2 d 4 h"]);
        assert_eq!((per(7.0, 2.0, 1), per(7.0, 0.0, 1)), ("3.5".into(), "–".into()));
    }

    #[test]
    fn bars_fill_by_eighths() {
        assert_eq!(bar(0.0, 4), "    ");
        assert_eq!(bar(0.5, 4), "██  ");
        assert_eq!(bar(0.53125, 4), "██▏ ");
        assert_eq!(bar(1.0, 4), "████");
        assert_eq!(bar(7.0, 4), "████");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("stage", Align::Left), ("packets", Align::Right)]);
        table.row(["uplink.décap".into(), "1".into()]);
        table.rule();
        table.row(["x".into(), "1,234,567".into()]);
        let wanted = "  stage           packets\n  ───────────────────────\n  uplink.décap          1\n  \
                      ───────────────────────\n  x             1,234,567\n";
        assert_eq!(table.render(Style::default()), wanted);
        assert!(table.render(Style { colour: true }).contains("\x1b[1mstage"));
    }
}
