//! Tables and numbers as people read them.

use std::fmt::Write as _;
use std::io::IsTerminal;

/// On which side a column's text begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// How what is shown looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Bold headings, dim rules.
    pub colour: bool,
    /// Columns of the terminal; none where lines may be as long as they are: files, pipes, tests.
    pub width: Option<u16>,
}

impl Style {
    /// Colour on a terminal that wants it, none in files, pipes and tests.
    pub fn of_stdout() -> Self {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        Self {
            colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            // A terminal that does not know its size says nothing.
            width: size.map(|size| size.ws_col).filter(|columns| *columns > 0),
        }
    }

    /// Coloured or not, and as wide as it comes.
    pub const fn coloured(colour: bool) -> Self {
        Self { colour, width: None }
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

/// A column of words is not made narrower than this.
const WORDS: usize = 24;

/// A table: columns as wide as their widest cell, two spaces apart, a rule under the heads. Where that is more than the
/// terminal has, words are wrapped, and what then still has no room goes on below, under the first column again.
pub struct Table {
    heads: Vec<(String, Align)>,
    rows: Vec<Row>,
}

impl Table {
    /// An empty one with columns of those names: of numbers where a name begins with `>`, else of words.
    pub fn new(heads: &[impl AsRef<str>]) -> Self {
        let head = |head: &str| match head.strip_prefix('>') {
            Some(name) => (name.to_owned(), Align::Right),
            None => (head.to_owned(), Align::Left),
        };
        Self { heads: heads.iter().map(AsRef::as_ref).map(head).collect(), rows: Vec::new() }
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
        let room = style.width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(2));
        let widths = self.fitted(room);
        let parts: Vec<String> =
            self.parts(&widths, room).iter().map(|columns| self.part(columns, &widths, style)).collect();
        parts.join("\n")
    }

    /// Those columns of it.
    fn part(&self, columns: &[usize], widths: &[usize], style: Style) -> String {
        let rule = format!("  {}\n", style.dim(&"─".repeat(across(columns, widths))));
        let heads: Vec<&str> = self.heads.iter().map(|(head, _)| head.as_str()).collect();
        let mut out = format!("  {}\n{rule}", style.strong(&self.line(&heads, columns, widths)));
        for row in &self.rows {
            let Row::Cells(cells) = row else {
                out += &rule;
                continue;
            };
            let cells: Vec<Vec<String>> = cells.iter().zip(widths).map(|(cell, width)| wrapped(cell, *width)).collect();
            let lines = columns.iter().filter_map(|n| cells.get(*n)).map(Vec::len).max().unwrap_or(1);
            for line in 0..lines {
                let cells: Vec<&str> = cells.iter().map(|lines| lines.get(line).map_or("", String::as_str)).collect();
                let _ = writeln!(out, "  {}", self.line(&cells, columns, widths));
            }
        }
        out
    }

    /// Columns side by side as far as there is room, the first one in each part again.
    fn parts(&self, widths: &[usize], room: usize) -> Vec<Vec<usize>> {
        let mut parts = vec![vec![0]];
        for column in 1..self.heads.len() {
            let part = parts.last_mut().expect("there is one");
            part.push(column);
            if across(part, widths) > room && part.len() > 2 {
                part.pop();
                parts.push(vec![0, column]);
            }
        }
        parts
    }

    /// As wide as the widest cell; columns of words narrower, the widest first, where all together have no room.
    fn fitted(&self, room: usize) -> Vec<usize> {
        let mut widths = self.widths();
        let all: Vec<usize> = (0..widths.len()).collect();
        let is_words = |n: &usize| self.heads[*n].1 == Align::Left;
        while across(&all, &widths) > room {
            let widest = all.iter().copied().filter(|n| is_words(n) && widths[*n] > WORDS).max_by_key(|n| widths[*n]);
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
        }
        widths
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

    fn line(&self, cells: &[&str], columns: &[usize], widths: &[usize]) -> String {
        let mut line = String::new();
        for (n, column) in columns.iter().enumerate() {
            let cell = cells.get(*column).copied().unwrap_or("");
            let gap = " ".repeat(widths[*column].saturating_sub(cell.chars().count()));
            if n > 0 {
                line += "  ";
            }
            match self.heads[*column].1 {
                Align::Left => line.extend([cell, &gap]),
                Align::Right => line.extend([&gap, cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// How wide columns are beside each other.
fn across(columns: &[usize], widths: &[usize]) -> usize {
    columns.iter().map(|column| widths[*column]).sum::<usize>() + 2 * columns.len().saturating_sub(1)
}

/// A line behind a mark, such as `  · ` of a list; where the terminal is narrower it goes on below its own beginning.
pub fn item(mark: &str, text: &str, style: Style) -> String {
    let indent = mark.chars().count();
    let room = style.width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(indent).max(WORDS));
    let lines = wrapped(text, room).join(&format!("\n{}", " ".repeat(indent)));
    format!("{mark}{lines}\n")
}

/// Text in lines of at most so many characters, cut between words where it can be.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        let longer = line.chars().count() + 1 + word.chars().count();
        match line.is_empty() {
            true => *line = word.to_owned(),
            false if longer <= width => *line += &format!(" {word}"),
            false => lines.push(word.to_owned()),
        }
        // A word longer than a line is cut where the line ends.
        while let Some(line) = lines.last_mut().filter(|line| line.chars().count() > width.max(1)) {
            let at = line.char_indices().nth(width.max(1)).map_or(line.len(), |(at, _)| at);
            let rest = line.split_off(at);
            lines.push(rest);
        }
    }
    lines
}

pub use quantity::grouped as count;

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
        let mut table = Table::new(&["stage", ">packets"]);
        table.row(["uplink.décap".into(), "1".into()]);
        table.rule();
        table.row(["x".into(), "1,234,567".into()]);
        let wanted = "  stage           packets\n  ───────────────────────\n  uplink.décap          1\n  \
                      ───────────────────────\n  x             1,234,567\n";
        assert_eq!(table.render(Style::default()), wanted);
        assert!(table.render(Style::coloured(true)).contains("\x1b[1mstage"));
    }

    #[test]
    fn a_narrow_terminal_has_words_wrapped_and_columns_go_on_below() {
        let mut table = Table::new(&["machine", ">carries", "why"]);
        table.row(["c5n.large".into(), "2.037 Gbit/s".into(), "interfaces bind before anything else does".into()]);
        let at = |width| table.render(Style { width: Some(width), ..Style::default() });
        assert_eq!(at(80), table.render(Style::default()), "there is room for all of it");
        let wanted = "  machine         carries  why\n  ──────────────────────────────────────────────────\n  \
                      c5n.large  2.037 Gbit/s  interfaces bind before\n                           anything else does\n";
        assert_eq!(at(52), wanted);
        let below = at(40);
        let heads: Vec<&str> = below.lines().filter(|line| line.contains("machine")).collect();
        assert_eq!(heads, ["  machine         carries", "  machine    why"], "{below}");
        for width in 37..80 {
            assert!(at(width).lines().all(|line| line.chars().count() <= width.into()), "{width}:\n{}", at(width));
        }
    }

    #[test]
    fn words_stay_whole_where_they_can() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("einundzwanzig ½½", 6), ["einund", "zwanzi", "g ½½"]);
        let narrow = Style { width: Some(30), ..Style::default() };
        assert_eq!(
            item("  · ", "interfaces bind before anything else", narrow),
            "  · interfaces bind before\n    anything else\n"
        );
        assert_eq!((wrapped("", 3), wrapped("abc", 3)), (vec![String::new()], vec!["abc".to_owned()]));
    }
}
