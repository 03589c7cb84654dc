//! Columns that fit a width: those of least worth are left out, bars and words take what is left.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::tables::bar;

/// Columns between two columns.
const GAP: usize = 1;
/// The least and the most columns of a bar.
const BAR: (usize, usize) = (4, 32);
/// The least columns of words that can be cut: of little worth, and of worth enough to tell rows apart.
const WORDS: (usize, usize) = (10, 17);
/// Words of this worth tell rows apart.
const TELLING: u8 = 7;

/// How a column is filled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Words, cut where they have no room.
    Words,
    /// Numbers, on the right, never cut.
    Number,
    /// A share as a bar.
    Bar,
}

/// A column: its head, its kind and its worth; where there is no room those of the least worth are left out.
#[derive(Clone, Copy)]
pub struct Column {
    /// Stands over it.
    pub head: &'static str,
    /// How it is filled.
    pub kind: Kind,
    /// 9: always there.
    pub worth: u8,
}

/// A column of words.
pub const fn words(head: &'static str, worth: u8) -> Column {
    Column { head, kind: Kind::Words, worth }
}

/// A column of numbers.
pub const fn number(head: &'static str, worth: u8) -> Column {
    Column { head, kind: Kind::Number, worth }
}

/// A column of bars.
pub const fn bars(head: &'static str, worth: u8) -> Column {
    Column { head, kind: Kind::Bar, worth }
}

/// What stands in a column.
pub enum Cell {
    /// Text in a style.
    Text(String, Style),
    /// A share of 0 to 1.
    Share(f64),
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text, Style::new())
    }
}

/// A table for a terminal.
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

/// Columns that a text takes.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Text without characters that a terminal would obey, controls and those that turn the direction of writing (Unicode
/// Standard Annex #9, 2): names come from subscribers' devices.
pub fn clean(text: &str) -> String {
    let is_obeyed = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if is_obeyed(c) { '\u{fffd}' } else { c }).collect()
}

/// Text in at most so many columns, with `…` where it was cut.
pub fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    for letter in text.chars() {
        out.push(letter);
        // The whole: a variation selector widens what stands before it.
        if width(&out) + 1 > most {
            out.pop();
            break;
        }
    }
    if most > 0 { out + "…" } else { out }
}

impl Grid {
    /// An empty one.
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let clean = |cell| match cell {
            Cell::Text(text, style) => Cell::Text(clean(&text), style),
            share => share,
        };
        self.rows.push(cells.into_iter().map(clean).collect());
    }

    /// The line of heads, and the rows, in at most `room` columns.
    pub fn lines(&self, room: usize) -> (Line<'static>, Vec<Line<'static>>) {
        let widths = self.fitted(room);
        let head = self.line(&widths, |n| {
            let column = &self.columns[n];
            Some((column.head.to_owned(), Style::new().add_modifier(Modifier::BOLD)))
        });
        let row = |cells: &Vec<Cell>| {
            self.line(&widths, |n| match cells.get(n)? {
                Cell::Text(text, style) => Some((text.clone(), *style)),
                Cell::Share(share) => Some((bar(*share, widths[n].unwrap_or(0)), Style::new().fg(Color::Cyan))),
            })
        };
        (head, self.rows.iter().map(row).collect())
    }

    fn line(&self, widths: &[Option<usize>], cell: impl Fn(usize) -> Option<(String, Style)>) -> Line<'static> {
        let mut spans = Vec::new();
        for (n, room) in widths.iter().enumerate().filter_map(|(n, room)| Some((n, (*room)?))) {
            let (text, style) = cell(n).unwrap_or_default();
            let text = cut(&text, room);
            let gap = " ".repeat(room.saturating_sub(width(&text)));
            if !spans.is_empty() {
                spans.push(Span::raw(" ".repeat(GAP)));
            }
            match self.columns[n].kind {
                Kind::Number => spans.extend([Span::raw(gap), Span::styled(text, style)]),
                Kind::Words | Kind::Bar => spans.extend([Span::styled(text, style), Span::raw(gap)]),
            }
        }
        Line::from(spans)
    }

    /// The width of each column; none: it is left out.
    fn fitted(&self, room: usize) -> Vec<Option<usize>> {
        let wanted: Vec<usize> = (0..self.columns.len()).map(|n| self.wanted(n)).collect();
        let least = |n: usize| match self.columns[n].kind {
            Kind::Words if self.columns[n].worth >= TELLING => wanted[n].min(WORDS.1),
            Kind::Words => wanted[n].min(WORDS.0),
            Kind::Number => wanted[n],
            Kind::Bar => BAR.0,
        };
        let mut there: Vec<usize> = (0..self.columns.len()).filter(|n| wanted[*n] > 0).collect();
        let all =
            |there: &[usize]| there.iter().map(|n| least(*n)).sum::<usize>() + GAP * there.len().saturating_sub(1);
        while all(&there) > room && there.len() > 1 {
            let Some(worst) = there.iter().rev().min_by_key(|n| self.columns[**n].worth).copied() else { break };
            there.retain(|n| *n != worst);
        }
        let mut left = room.saturating_sub(all(&there));
        let mut widths = vec![None; self.columns.len()];
        there.iter().for_each(|n| widths[*n] = Some(least(*n).min(room)));
        // Words first: a bar has a meaning at any length.
        for kind in [Kind::Words, Kind::Bar] {
            for n in there.iter().filter(|n| self.columns[**n].kind == kind) {
                let more = wanted[*n].saturating_sub(least(*n)).min(left);
                left -= more;
                widths[*n] = widths[*n].map(|width| width + more);
            }
        }
        widths
    }

    /// Columns that its widest cell takes; 0: there is nothing in it.
    fn wanted(&self, column: usize) -> usize {
        let cell = |row: &Vec<Cell>| match row.get(column) {
            Some(Cell::Text(text, _)) => width(text),
            Some(Cell::Share(_)) => BAR.1,
            None => 0,
        };
        let widest = self.rows.iter().map(cell).max().unwrap_or(0);
        if widest == 0 && !self.rows.is_empty() { 0 } else { widest.max(width(self.columns[column].head)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_least_worth_are_left_out() {
        let mut grid = Grid::new(&[words("stage", 9), number("ns", 8), number("calls", 2), bars("cost", 5)]);
        grid.row(
            ["uplink.user_decap".to_owned().into(), "12.5".to_owned().into(), "1000".to_owned().into()]
                .into_iter()
                .chain([Cell::Share(0.5)]),
        );
        let text = |room| {
            let (head, rows) = grid.lines(room);
            [head, rows[0].clone()].map(|line| line.to_string().trim_end().to_owned())
        };
        assert_eq!(text(40), ["stage               ns calls cost", "uplink.user_decap 12.5  1000 █████▌"]);
        assert_eq!(text(22), ["stage               ns", "uplink.user_decap 12.5"]);
        assert_eq!(text(15), ["stage", "uplink.user_de…"]);
        for room in 0..60 {
            let (head, rows) = grid.lines(room);
            assert!(head.width() <= room.max(1) && rows[0].width() <= room.max(1), "{room}: {rows:?}");
        }
    }

    /// A variation selector makes what stands before it wider.
    #[test]
    fn cut_text_fits_whatever_it_has() {
        for most in 0..8 {
            for text in ["aa\u{2764}\u{fe0f}aaaa", "\u{2764}\u{fe0f}\u{2764}\u{fe0f}\u{2764}\u{fe0f}", "日本語日本語"]
            {
                assert!(width(&cut(text, most)) <= most, "{text} in {most}");
            }
        }
    }

    #[test]
    fn control_characters_are_not_printed() {
        let mut grid = Grid::new(&[words("dnn", 9)]);
        grid.row([Cell::from("\x1b[2Jnet\n\u{9b}1m".to_owned())]);
        let (_, rows) = grid.lines(30);
        assert_eq!(rows[0].to_string().trim_end(), "\u{fffd}[2Jnet\u{fffd}\u{fffd}1m");
    }
}
