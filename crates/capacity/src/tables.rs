//! Tables of tab-separated values: a row is a struct whose fields are the columns, and what cannot be read is an error
//! with file, line and column.
//!
//! The first line names the columns, in any order; a column whose cells may be blank may be left out. Lines that are
//! empty or begin with `#` are skipped. A blank cell is unknown.

use std::collections::HashMap;
use std::fmt;

/// A mistake in a table: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    pub file: String,
    /// From 1; the first is that of the columns' names.
    pub line: usize,
    /// The column's place from 1, or 0 where only its name is known, and its name.
    pub column: Option<(usize, String)>,
    pub what: String,
    pub help: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.file, self.line)?;
        match &self.column {
            Some((0, name)) => write!(f, " {name}:")?,
            Some((place, name)) => write!(f, "{place}: {name}:")?,
            None => {}
        }
        write!(f, " {}; {}", self.what, self.help)
    }
}

impl std::error::Error for TableError {}

/// What a cell holds.
pub trait Cell: Sized {
    /// Whether it may be blank, and its column missing.
    const OPTIONAL: bool = false;

    /// # Errors
    /// What would be right.
    fn read(text: &str) -> Result<Self, String>;
    fn write(&self) -> String;
}

impl Cell for String {
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("a text".to_owned()) } else { Ok(text.to_owned()) }
    }

    fn write(&self) -> String {
        self.clone()
    }
}

impl Cell for u32 {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "a whole number such as 8".to_owned())
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Cell for f64 {
    fn read(text: &str) -> Result<Self, String> {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| "a number from 0 such as 3.4, without its unit".to_owned())
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Cell for bool {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| "true or false".to_owned())
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl<T: Cell> Cell for Option<T> {
    const OPTIONAL: bool = true;

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { T::read(text).map(Some) }
    }

    fn write(&self) -> String {
        self.as_ref().map_or_else(String::new, Cell::write)
    }
}

/// A row of a table.
pub trait Row: Sized {
    /// What the table's file is called.
    const FILE: &'static str;
    const COLUMNS: &'static [&'static str];
    /// Whether each may be blank.
    const OPTIONAL: &'static [bool];

    /// # Errors
    /// A cell that cannot be read.
    fn read(cells: &mut Cells<'_>) -> Result<Self, TableError>;
    fn cells(&self) -> Vec<String>;
    /// Rows of one key replace each other.
    fn key(&self) -> String;
}

/// The cells of a line, in the order of a row's fields.
pub struct Cells<'a> {
    file: &'a str,
    line: usize,
    columns: &'static [&'static str],
    /// Where in the line each of the columns is.
    places: &'a [Option<usize>],
    cells: Vec<&'a str>,
    next: usize,
}

impl Cells<'_> {
    /// # Errors
    /// The cell is not what the field wants.
    pub fn take<T: Cell>(&mut self) -> Result<T, TableError> {
        let field = self.next;
        self.next += 1;
        let place = self.places[field];
        let text = place.and_then(|place| self.cells.get(place)).copied().unwrap_or_default();
        T::read(text).map_err(|help| TableError {
            file: self.file.to_owned(),
            line: self.line,
            column: Some((place.map_or(0, |place| place + 1), self.columns[field].to_owned())),
            what: if text.is_empty() { "the cell is blank".to_owned() } else { format!("\"{text}\" is invalid") },
            help,
        })
    }
}

/// Defines a row: its fields are the columns.
macro_rules! row {
    ($(#[$doc:meta])* $name:ident in $file:literal by $key:expr => {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)+ }

        impl $crate::tables::Row for $name {
            const FILE: &'static str = $file;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),+];
            const OPTIONAL: &'static [bool] = &[$(<$type as $crate::tables::Cell>::OPTIONAL),+];

            fn read(cells: &mut $crate::tables::Cells<'_>) -> Result<Self, $crate::tables::TableError> {
                Ok(Self { $($field: cells.take()?,)+ })
            }

            fn cells(&self) -> Vec<String> {
                vec![$($crate::tables::Cell::write(&self.$field)),+]
            }

            fn key(&self) -> String {
                let key: fn(&Self) -> String = $key;
                key(self)
            }
        }
    };
}

/// Defines the words a cell may hold.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema)]
        pub enum $name { $($(#[$word_doc])* #[serde(rename = $word)] $variant,)+ }

        impl $crate::tables::Cell for $name {
            fn read(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("one of {}", [$($word),+].join(", "))),
                }
            }

            fn write(&self) -> String {
                match self { $(Self::$variant => $word.to_owned(),)+ }
            }
        }
    };
}

pub(crate) use {row, words};

/// A row with its place, for errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<R> {
    pub row: R,
    pub file: std::sync::Arc<str>,
    pub line: usize,
}

impl<R: Row> Entry<R> {
    /// An error about one of its cells. The column is given by name: its place in the file is not kept.
    pub fn wrong(&self, column: &str, what: impl Into<String>, help: impl Into<String>) -> TableError {
        TableError {
            file: self.file.to_string(),
            line: self.line,
            column: Some((0, column.to_owned())),
            what: what.into(),
            help: help.into(),
        }
    }
}

/// Reads a table.
///
/// # Errors
/// [`TableError`]: an unknown or missing column, a cell that cannot be read, too many cells, a key that stands twice.
pub fn read<R: Row>(file: &str, text: &str) -> Result<Vec<Entry<R>>, TableError> {
    let wrong =
        |line: usize, what: String, help: String| TableError { file: file.to_owned(), line, column: None, what, help };
    let lines = text.trim_start_matches('\u{feff}').lines().zip(1..);
    let mut lines = lines.filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let all = || format!("the columns are {}, between tabs", R::COLUMNS.join(", "));
    let Some((heads, number)) = lines.next() else { return Err(wrong(1, "the table is empty".to_owned(), all())) };
    let heads: Vec<&str> = heads.split('\t').map(str::trim).collect();
    if let Some(head) = heads.iter().find(|head| !R::COLUMNS.contains(head)) {
        return Err(wrong(number, format!("there is no column \"{head}\""), all()));
    }
    let places: Vec<Option<usize>> =
        R::COLUMNS.iter().map(|column| heads.iter().position(|head| head == column)).collect();
    let missing = (0..places.len()).find(|n| places[*n].is_none() && !R::OPTIONAL[*n]);
    if let Some(n) = missing {
        return Err(wrong(number, format!("the column \"{}\" is missing", R::COLUMNS[n]), all()));
    }
    let file_name: std::sync::Arc<str> = file.into();
    let mut entries: Vec<Entry<R>> = Vec::new();
    let mut lines_of: HashMap<String, usize> = HashMap::new();
    for (line, number) in lines {
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        if cells.len() > heads.len() {
            let what = format!("{} cells for {} columns", cells.len(), heads.len());
            return Err(wrong(number, what, "a tab between cells, and none inside of one".to_owned()));
        }
        let mut cells = Cells { file, line: number, columns: R::COLUMNS, places: &places, cells, next: 0 };
        let row = R::read(&mut cells)?;
        if let Some(before) = lines_of.insert(row.key(), number) {
            let what = format!("the row has the key of line {before}");
            return Err(wrong(number, what, "one row a key: leave the older one out".to_owned()));
        }
        entries.push(Entry { row, file: file_name.clone(), line: number });
    }
    Ok(entries)
}

/// Rows by column name, of a table that is not read into a struct.
pub(crate) fn by_column(table: &str) -> impl Iterator<Item = std::collections::BTreeMap<&str, &str>> {
    let mut lines = table.lines();
    let heads: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    lines.filter(|line| !line.is_empty()).map(move |line| {
        let cells = line.split('\t').map(str::trim);
        heads.iter().copied().zip(cells.chain(std::iter::repeat(""))).collect()
    })
}

/// Writes a table.
pub fn write<R: Row>(entries: &[Entry<R>]) -> String {
    let mut text = R::COLUMNS.join("\t");
    text.push('\n');
    for entry in entries {
        text.push_str(&entry.row.cells().join("\t"));
        text.push('\n');
    }
    text
}

/// Puts rows over others: those of a key that is there replace it, the rest are appended.
pub fn merge<R: Row>(under: &mut Vec<Entry<R>>, over: Vec<Entry<R>>) {
    let mut places: HashMap<String, usize> = under.iter().enumerate().map(|(n, entry)| (entry.row.key(), n)).collect();
    for entry in over {
        match places.get(&entry.row.key()) {
            Some(n) => under[*n] = entry,
            None => {
                places.insert(entry.row.key(), under.len());
                under.push(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    words! { Kind { Small = "small", Large = "large", } }

    row! { Thing in "things.tsv" by |row| row.name.clone() => {
        name: String,
        kind: Kind,
        size: Option<f64>,
    } }

    fn error(text: &str) -> String {
        read::<Thing>("things.tsv", text).unwrap_err().to_string()
    }

    #[test]
    fn columns_stand_in_any_order() {
        let things = read::<Thing>("things.tsv", "# so\nkind\tname\nsmall\ta\n\nlarge\tb\n").unwrap();
        assert_eq!((things[1].row.kind, things[1].row.size, things[1].line), (Kind::Large, None, 5));
        assert_eq!(write(&things), "name\tkind\tsize\na\tsmall\t\nb\tlarge\t\n");
    }

    #[test]
    fn errors_name_file_line_and_column() {
        let head = "name\tkind\tsize\n";
        let of = |line: &str| error(&format!("{head}{line}\n"));
        assert_eq!(of("a\thuge"), "things.tsv:2:2: kind: \"huge\" is invalid; one of small, large");
        assert!(of("a\tsmall\t3 m").starts_with("things.tsv:2:3: size: \"3 m\" is invalid; a number"));
        assert!(of("\tsmall").starts_with("things.tsv:2:1: name: the cell is blank; a text"));
        assert!(of("a\tsmall\t1\t2").starts_with("things.tsv:2: 4 cells for 3 columns; a tab"));
        assert!(error("name\n").starts_with("things.tsv:1: the column \"kind\" is missing; the columns are name"));
        assert!(error("name\tknid\n").starts_with("things.tsv:1: there is no column \"knid\""));
        assert!(error(&format!("{head}a\tsmall\na\tlarge\n")).contains("things.tsv:3: the row has the key of line 2"));
    }

    #[test]
    fn a_later_row_of_a_key_replaces_the_earlier() {
        let of = |text: &str| read::<Thing>("things.tsv", text).unwrap();
        let mut under = of("name\tkind\na\tsmall\nb\tsmall\n");
        merge(&mut under, of("name\tkind\nb\tlarge\nc\tlarge\n"));
        assert_eq!(write(&under), "name\tkind\tsize\na\tsmall\t\nb\tlarge\t\nc\tlarge\t\n");
    }
}
