//! The text exposition format of Prometheus, version 0.0.4: families with HELP and TYPE, samples with labels.

use std::fmt::{Display, Write};

/// What a family's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the process lives.
    Counter,
    /// How it is now.
    Gauge,
}

/// Labels of a sample: names are ours, values may be anything.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page of families.
#[derive(Clone, Debug, Default)]
pub struct Page(String);

/// A family whose samples are being written.
pub struct Family<'a> {
    page: &'a mut String,
    name: &'a str,
}

impl Page {
    /// Begins a family. `name` ends in its unit, counters' in `_total`; `help` is a sentence.
    pub fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &str) -> Family<'a> {
        let kind = if kind == Kind::Counter { "counter" } else { "gauge" };
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP {name} {}\n# TYPE {name} {kind}\n", escaped(help, false));
        Family { page: &mut self.0, name }
    }

    /// A family of one sample without labels.
    pub fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// Adds the families of another page; none may be on both.
    pub fn append(&mut self, other: &Self) {
        self.0 += &other.0;
    }

    /// The metrics in OpenMetrics text format.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl Family<'_> {
    /// Writes a sample.
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) -> &mut Self {
        self.page.push_str(self.name);
        for (n, (name, value)) in labels.iter().enumerate() {
            let open = if n == 0 { '{' } else { ',' };
            let _ = write!(self.page, "{open}{name}=\"{}\"", escaped(value, true));
        }
        self.page.push_str(if labels.is_empty() { " " } else { "} " });
        let _ = writeln!(self.page, "{value}");
        self
    }
}

/// Backslashes and line feeds are escaped everywhere, quotation marks in labels.
fn escaped(text: &str, in_label: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if in_label => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_the_format_says() {
        let mut page = Page::default();
        let mut family = page.family("weir_x_total", Kind::Counter, "Backslash \\ and\nline.");
        family.sample(&[("port", "a\"b\\c\nd"), ("worker", "0")], 3_u64).sample(&[("port", "é")], 0.5);
        page.one("weir_y", Kind::Gauge, "One.", 1);
        let expected = "# HELP weir_x_total Backslash \\\\ and\\nline.\n# TYPE weir_x_total counter\n\
                        weir_x_total{port=\"a\\\"b\\\\c\\nd\",worker=\"0\"} 3\nweir_x_total{port=\"é\"} 0.5\n\
                        # HELP weir_y One.\n# TYPE weir_y gauge\nweir_y 1\n";
        assert_eq!(page.into_text(), expected);
    }
}
