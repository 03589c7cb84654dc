//! `weir schema`: JSON schemas of what commands print with `--json`, generated from the types that they serialize.
//!
//! [`JsonOutput::print`](crate::json::JsonOutput::print) takes only types with a schema; a list of [`Output`] gives each
//! schema its name. Keys that no schema has are not printed: objects are closed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::fail::Usage;
use crate::log::{EventLine, Levels};
use crate::registry::GatewayEntry;
use crate::shell::reload::ReloadView;
use crate::show::View;
use crate::snapshot::Snapshot;
use crate::socket::{DrainView, TraceLine};
use crate::tables::{Style, Table};
use crate::top::TopView;
use crate::{schema, show};

/// `weir schema`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir schema                      every command that prints JSON
  weir schema show ports           the schema of what weir show ports --json prints
  weir schema --to schemas         all of them, a file each
  weir schema --reference          the list as Markdown, which is docs/outputs.md

Schemas are JSON Schema 2020-12. docs/schema/output has those of this release.")]
pub struct SchemaArgs {
    /// The command, such as show ports; left out: the list of all.
    #[arg(value_name = "COMMAND", conflicts_with_all = ["to", "reference"])]
    pub command: Vec<String>,
    /// Write every schema to this folder.
    #[arg(long, value_name = "FOLDER")]
    pub to: Option<PathBuf>,
    /// Print the list as Markdown.
    #[arg(long, conflicts_with = "to")]
    pub reference: bool,
}

/// What a command prints with `--json`.
#[derive(Clone, Copy)]
pub struct Output {
    /// What `weir schema` calls it: the command's words, and one more where it prints several things.
    pub name: &'static str,
    /// The command line.
    pub command: &'static str,
    /// What is printed, in a sentence.
    pub help: &'static str,
    /// Its JSON schema.
    pub schema: fn() -> Value,
}

impl Output {
    /// A command's output of type `T`.
    pub const fn of<T: JsonSchema>(name: &'static str, command: &'static str, help: &'static str) -> Self {
        Self { name, command, help, schema: schema_of::<T> }
    }
}

/// Outputs of the commands that every gateway has, beside the tables of `weir show`.
const SHELL: &[Output] = &[
    Output::of::<Snapshot>("run", "weir run --json", "The final counters, when the gateway ends"),
    Output::of::<EventLine>("show log", "weir show log --json", "An event a line; also `weir run --log-format json`"),
    Output::of::<TopView>(
        "top",
        "weir top --json",
        "Rates with history, costs, drops, ports, workers; a line an interval",
    ),
    Output::of::<Vec<TraceLine>>("trace", "weir trace --json", "A packet a line: what every stage did to it"),
    Output::of::<Levels>("log", "weir log show --json", "The levels in force; also of `weir log set`"),
    Output::of::<DrainView>("drain", "weir drain --json", "Whether new sessions are refused, and how many there are"),
    Output::of::<ReloadView>("reload", "weir reload --json", "Every key that differs, and what becomes of it"),
];

/// The JSON schema of what `T` is serialized to. Keys that it does not have are not allowed.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().to_value();
    close(&mut schema, false);
    schema
}

/// Allows no keys but those listed. Where parts of a schema add keys (`oneOf` and its like), the whole is closed and the
/// parts are not.
fn close(schema: &mut Value, is_part: bool) {
    const PARTS: [&str; 3] = ["oneOf", "anyOf", "allOf"];
    match schema {
        Value::Object(object) => {
            let has_keys = object.contains_key("properties");
            let has_parts = has_keys && PARTS.iter().any(|key| object.contains_key(*key));
            for (key, value) in object.iter_mut() {
                match (key.as_str(), value) {
                    // Names of keys, not of keywords.
                    ("properties" | "$defs", Value::Object(inner)) => inner.values_mut().for_each(|v| close(v, false)),
                    ("enum" | "const" | "default" | "examples" | "required", _) => {}
                    (key, value) => close(value, PARTS.contains(&key) && (has_parts || is_part)),
                }
            }
            let open = !object.contains_key("additionalProperties") && !object.contains_key("unevaluatedProperties");
            if has_keys && !is_part && open {
                let key = if has_parts { "unevaluatedProperties" } else { "additionalProperties" };
                object.insert(key.to_owned(), false.into());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| close(value, is_part)),
        _ => {}
    }
}

/// All outputs: tables of `weir show`, commands of every gateway, and `more`.
pub struct Outputs<'a> {
    entries: &'a [GatewayEntry],
    more: &'a [Output],
}

/// One of them.
struct Listed {
    name: String,
    command: String,
    help: &'static str,
    schema: fn() -> Value,
}

impl Listed {
    fn of(output: &Output) -> Self {
        let Output { name, command, help, schema } = *output;
        Self { name: name.to_owned(), command: command.to_owned(), help, schema }
    }

    fn of_view(view: &View) -> Self {
        let name = format!("show {}", view.topic);
        Self { command: format!("weir {name} --json"), name, help: view.help, schema: view.schema }
    }

    /// Its file in `docs/schema/output`.
    fn file(&self) -> String {
        format!("{}.schema.json", self.name.replace(' ', "-"))
    }
}

impl<'a> Outputs<'a> {
    /// Those of these gateways, and `more`.
    pub fn new(entries: &'a [GatewayEntry], more: &'a [Output]) -> Self {
        Self { entries, more }
    }

    /// Each, in the order of commands.
    fn all(&self) -> impl Iterator<Item = Listed> {
        let (run, rest) = SHELL.split_at(1);
        let views = show::VIEWS.iter().chain(self.entries.iter().flat_map(|entry| entry.views)).map(Listed::of_view);
        run.iter().map(Listed::of).chain(views).chain(rest.iter().chain(self.more).map(Listed::of))
    }

    /// Names of all, in the order of commands.
    pub fn names(&self) -> Vec<String> {
        self.all().map(|listed| listed.name).collect()
    }

    /// The schema of one, with its words joined by spaces or dashes.
    ///
    /// # Errors
    /// There is none of that name; the sentence lists all.
    pub fn schema(&self, name: &str) -> anyhow::Result<Value> {
        let plain = |name: &str| name.replace('-', " ");
        let Some(listed) = self.all().find(|listed| plain(&listed.name) == plain(name)) else {
            return Err(Usage(format!("unknown command \"{name}\"; allowed: {}", self.names().join(", "))).into());
        };
        // The configuration of whichever gateway runs.
        let is_config = listed.name == format!("show {}", show::CONFIG);
        let mut schema = if is_config { schema::of_any(self.entries) } else { (listed.schema)() };
        schema["title"] = listed.command.into();
        Ok(schema)
    }

    /// `docs/outputs.md`.
    pub fn reference(&self) -> String {
        let mut page = HEAD.to_owned();
        for listed in self.all() {
            let Listed { name, command, help, .. } = &listed;
            // Writing to a text does not fail.
            let _ = writeln!(page, "| `{command}` | {help} | [{name}](schema/output/{}) |", listed.file());
        }
        page
    }

    /// A file with each schema: name and content.
    ///
    /// # Errors
    /// As [`Outputs::schema`].
    pub fn files(&self) -> anyhow::Result<Vec<(String, String)>> {
        let file = |listed: Listed| {
            let text = serde_json::to_string_pretty(&self.schema(&listed.name)?)? + "\n";
            Ok((listed.file(), text))
        };
        self.all().map(file).collect()
    }

    fn list(&self, style: Style) -> String {
        let mut table = Table::new(&["command", "JSON"]);
        self.all().for_each(|listed| table.row([listed.name, listed.help.to_owned()]));
        table.render(style)
    }
}

/// What stands over the list.
const HEAD: &str = "\
# JSON outputs

<!-- Written by `weir schema --reference`: change it there. -->

`--json` means the same in every command: alone or as `--json -` JSON on standard output instead of tables, with a file
(a name ending in `.json` or `.jsonl`; other names as `--json=FILE`) JSON in that file beside the tables.

Every output has a JSON Schema (2020-12), generated from the types that are serialized: `weir schema show ports` prints
it, `weir schema --to FOLDER` writes all of them, and those of this release are in [schema/output](schema/output). Keys have
descriptions there. Rules of all of them:

- Objects are closed: a key that is not in the schema is not printed. Later releases add keys; a reader takes the schema of
  the release it reads from, or ignores keys that it does not know.
- Keys and identifiers are snake_case (charging records: the names of 3GPP TS 32.298). A key of a quantity ends in its unit:
  `_bytes`, `_packets`, `_seconds`, `_ns`, `_us`, `_ms`, `_bps` (bit/s), `_pps` (packets/s), `_ratio` (0 to 1).
- Counters are objects, `{\"rx_packets\": 7}`; where the identifier needs a sentence,
  `{\"malformed\": {\"value\": 3, \"help\": \"…\"}}`.
- `--watch`, `--follow` and `weir trace` print one JSON value a line.
- Renamed keys are in the [change log](../CHANGELOG.md).

| command | JSON | schema |
|---|---|---|
";

/// Runs `weir schema`; `more`: outputs of commands that are a binary's own.
///
/// # Errors
/// An unknown command; a folder that is not writable.
pub fn schema(args: &SchemaArgs, entries: &[GatewayEntry], more: &[Output]) -> anyhow::Result<()> {
    let outputs = Outputs::new(entries, more);
    if let Some(folder) = &args.to {
        let failed = |path: &Path| format!("writing {}", path.display());
        std::fs::create_dir_all(folder).with_context(|| failed(folder))?;
        for (name, text) in outputs.files()? {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| failed(&path))?;
        }
    } else if args.reference {
        print!("{}", outputs.reference());
    } else if args.command.is_empty() {
        print!("{}", outputs.list(Style::of_stdout()));
    } else {
        println!("{}", serde_json::to_string_pretty(&outputs.schema(&args.command.join(" "))?)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_with_listed_keys_are_closed() {
        let mut schema = json!({
            "properties": { "properties": { "type": "object", "properties": { "a": {} } } },
            "$defs": { "map": { "type": "object", "additionalProperties": { "type": "integer" } } },
        });
        close(&mut schema, false);
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["properties"]["additionalProperties"], false);
        assert_eq!(schema["$defs"]["map"]["additionalProperties"], json!({ "type": "integer" }));
    }

    #[test]
    fn alternatives_that_add_keys_stay_open() {
        let part = json!({ "type": "object", "properties": { "b": {} } });
        let mut schema = json!({ "properties": { "a": {} }, "oneOf": [part] });
        close(&mut schema, false);
        assert_eq!((&schema["unevaluatedProperties"], &schema["oneOf"][0]), (&json!(false), &part));
        let mut alone = json!({ "oneOf": [part] });
        close(&mut alone, false);
        assert_eq!(alone["oneOf"][0]["additionalProperties"], false);
    }
}
