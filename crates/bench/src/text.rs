//! Numbers and tables as people read them.

/// With commas between thousands.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Packets a second: `1.234 Mpps`, `270.0 kpps`.
pub fn rate(mpps: f64) -> String {
    if mpps >= 1.0 { format!("{mpps:.3} Mpps") } else { format!("{:.1} kpps", mpps * 1e3) }
}

/// Microseconds, with as many decimals as make sense.
pub fn micros(us: f64) -> String {
    match us {
        0.0 => "-".to_owned(),
        us if us >= 1000.0 => format!("{:.1} ms", us / 1000.0),
        us if us >= 100.0 => format!("{us:.0} µs"),
        us => format!("{us:.1} µs"),
    }
}

/// Bytes: `1.2 GiB`.
pub fn bytes(n: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = ((n.max(1.0).log2() / 10.0) as usize).min(units.len() - 1);
    let value = n / 1024f64.powi(step as i32);
    if step == 0 { format!("{value:.0} B") } else { format!("{value:.1} {}", units[step]) }
}

/// A table: first column to the left, the others to the right unless asked for otherwise, as wide as they need.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    rules: Vec<usize>,
    left: Vec<usize>,
}

impl Table {
    /// With those column heads.
    pub fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|head| (*head).to_owned()).collect()], rules: vec![1], left: vec![0] }
    }

    /// With that column to the left: words.
    pub fn words(mut self, column: usize) -> Self {
        self.left.push(column);
        self
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Draws a line under what is there.
    pub fn rule(&mut self) {
        self.rules.push(self.rows.len());
    }

    /// The text, each line indented by two.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let all = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
        let mut out = String::new();
        for (n, row) in self.rows.iter().enumerate() {
            if self.rules.contains(&n) {
                out += &format!("  {}\n", "─".repeat(all));
            }
            let mut line = String::from("  ");
            for (column, cell) in row.iter().enumerate() {
                let gap = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
                if column > 0 {
                    line += "  ";
                }
                if self.left.contains(&column) {
                    line += cell;
                    line += &gap;
                } else {
                    line += &gap;
                    line += cell;
                }
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_easily() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.27, 1.5].map(rate), ["270.0 kpps", "1.500 Mpps"]);
        assert_eq!([0.0, 3.21, 321.0, 4321.0].map(micros), ["-", "3.2 µs", "321 µs", "4.3 ms"]);
        assert_eq!([100.0, 2048.0, 1.5 * 1024.0 * 1024.0].map(bytes), ["100 B", "2.0 KiB", "1.5 MiB"]);
    }

    #[test]
    fn a_table_lines_up() {
        let mut table = Table::new(&["what", "µs"]);
        table.row(["a long name", "1.5"]);
        table.rule();
        table.row(["sum", "12.5"]);
        let lines =
            ["what           µs", "─────────────────", "a long name   1.5", "─────────────────", "sum          12.5"];
        let want: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        assert_eq!(table.text(), want);
        let mut table = Table::new(&["", "n", "under"]).words(2);
        table.row(["a", "10", "x"]);
        assert_eq!(table.text().lines().last(), Some("  a  10  x"));
    }
}
