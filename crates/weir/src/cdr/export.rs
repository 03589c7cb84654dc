//! `weir cdr export`: records into a file that appears when it is whole, or to standard output.

use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use ledger::{csv_header, csv_line, json_line};

use super::source::Source;
use super::{ExportArgs, Format};
use gateway::fail::Usage;
use gateway::tables::count;

/// What was exported.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// How many records.
    pub records: u64,
    /// The first and the last of their sequence numbers.
    pub range: Option<(u64, u64)>,
    /// Whether they were acknowledged.
    pub acknowledged: bool,
}

/// Runs `weir cdr export`.
///
/// # Errors
/// As the source's; the file cannot be written. Nothing is acknowledged then.
pub fn export(args: &ExportArgs, source: &mut Source) -> anyhow::Result<Exported> {
    let mut filter = args.which.filter();
    if args.acknowledge {
        let before = source.page(&filter, 0)?.status.exported;
        filter.after = args.which.after.unwrap_or(before);
        if filter.after > before {
            let what = format!("--after {} leaves out records after {before} that are not exported yet", filter.after);
            anyhow::bail!(Usage(what));
        }
    }
    let Some(path) = &args.output else {
        let mut out = BufWriter::new(io::stdout().lock());
        let done = write(args, source, &filter, &mut out)?;
        out.flush()?;
        return Ok(done);
    };
    let place = || format!("writing {}", path.display());
    let draft = draft(path);
    let result = File::create(&draft).map_err(anyhow::Error::from).and_then(|file| {
        let mut out = BufWriter::new(file);
        let done = write(args, source, &filter, &mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&draft, path)?;
        folder(path).and_then(|folder| folder.sync_all())?;
        Ok(done)
    });
    let mut done = result.inspect_err(|_| drop(fs::remove_file(&draft))).with_context(place)?;
    if let (true, Some((_, last))) = (args.acknowledge, done.range) {
        source.exported(last)?;
        done.acknowledged = true;
    }
    Ok(done)
}

fn write(
    args: &ExportArgs,
    source: &mut Source,
    filter: &ledger::Filter,
    out: &mut impl Write,
) -> anyhow::Result<Exported> {
    if args.format == Format::Csv {
        out.write_all(csv_header().as_bytes())?;
    }
    let (mut done, limit) = (Exported::default(), args.limit.unwrap_or(u64::MAX));
    if limit == 0 {
        return Ok(done);
    }
    source.every(filter, |record| {
        match args.format {
            Format::Json => writeln!(out, "{}", json_line(&record))?,
            Format::Csv => out.write_all(csv_line(&record).as_bytes())?,
        }
        let number = record.local_sequence_number;
        done.records += 1;
        done.range = Some((done.range.map_or(number, |(first, _)| first), number));
        Ok(done.records < limit)
    })?;
    Ok(done)
}

/// The file's name until it is whole.
fn draft(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn folder(path: &Path) -> io::Result<File> {
    File::open(path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

impl Display for Exported {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some((first, last)) = self.range else { return f.write_str("no such records") };
        let acknowledged = if self.acknowledged { ", acknowledged" } else { "" };
        write!(f, "{} records, numbers {first} to {last}{acknowledged}", count(self.records))
    }
}
