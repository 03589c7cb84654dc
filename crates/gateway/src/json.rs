//! `--json [FILE]`, which means the same in every command.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

/// Where a command's result goes as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct JsonOutput {
    /// Write JSON: to standard output instead of tables, or to FILE (a name ending in .json or .jsonl; other names as
    /// --json=FILE). `-` is standard output.
    #[arg(id = "json", long = "json", global = true, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub file: Option<PathBuf>,
}

impl JsonOutput {
    /// JSON is wanted.
    pub fn is_wanted(&self) -> bool {
        self.file.is_some()
    }

    /// JSON is wanted on standard output, where no table may be.
    pub fn is_on_stdout(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.as_os_str() == "-")
    }

    /// Opens what JSON is written to, once for all of a command's output.
    ///
    /// # Errors
    /// The file is not writable.
    pub fn open(&self) -> anyhow::Result<Box<dyn Write>> {
        match &self.file {
            Some(file) if !self.is_on_stdout() => {
                let opened = File::create(file).with_context(|| format!("writing {}", file.display()))?;
                Ok(Box::new(opened))
            }
            _ => Ok(Box::new(io::stdout())),
        }
    }

    /// Prints a result: JSON on one line where it is wanted, else `text`; both where JSON goes to a file.
    ///
    /// # Errors
    /// The file or standard output is not writable.
    pub fn print(
        &self,
        value: &(impl Serialize + JsonSchema + ?Sized),
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        self.put(serde_json::to_string, value, text)
    }

    /// As [`JsonOutput::print`], in lines for people.
    ///
    /// # Errors
    /// As those of `print`.
    pub fn print_pretty(
        &self,
        value: &(impl Serialize + JsonSchema + ?Sized),
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        self.put(serde_json::to_string_pretty, value, text)
    }

    fn put<T: Serialize + ?Sized>(
        &self,
        form: impl FnOnce(&T) -> serde_json::Result<String>,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if !self.is_on_stdout() {
            io::stdout().lock().write_all(text().as_bytes())?;
        }
        if self.is_wanted() {
            writeln!(self.open()?, "{}", form(value)?)?;
        }
        Ok(())
    }
}

/// A command line in which `--json` takes the word behind it only where that is a file: `weir show --json run` asks for
/// the topic `run`.
pub fn with_json_files(line: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut line = line.peekable();
    let mut out = Vec::new();
    let mut is_over = false;
    while let Some(word) = line.next() {
        is_over |= word == "--";
        let is_alone = word == "--json" && !is_over && !line.peek().is_some_and(is_file);
        out.push(if is_alone { "--json=-".into() } else { word });
    }
    out
}

fn is_file(word: &OsString) -> bool {
    let word = word.to_string_lossy();
    word == "-" || !word.starts_with('-') && (word.ends_with(".json") || word.ends_with(".jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let words = with_json_files(line.split(' ').map(OsString::from));
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn json_takes_files_and_no_other_words() {
        assert_eq!(read("weir show --json run"), "weir show --json=- run");
        assert_eq!(read("weir show run --json"), "weir show run --json=-");
        assert_eq!(read("weir plan --json examples/plan.toml"), "weir plan --json=- examples/plan.toml");
        assert_eq!(read("weir ledger check --json /var/lib/weir"), "weir ledger check --json=- /var/lib/weir");
        assert_eq!(read("weir bench --json --workers 2"), "weir bench --json=- --workers 2");
        for same in
            ["weir bench plain-128 --json -", "weir bench --json x.json a", "weir cp --json=x", "weir x -- --json run"]
        {
            assert_eq!(read(same), same);
        }
    }
}
