//! `weir config`: the JSON schema of configurations, and the reference written from it.
//!
//! | file | idea |
//! |---|---|
//! | `reference.rs` | the schema as Markdown |

mod reference;

use clap::{Args, Subcommand};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::fail::Usage;
use crate::outputs::Outputs;
use crate::registry::GatewayEntry;
use crate::shell::Gateway;

/// `weir config`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir config schema NAME > NAME.schema.json  editors complete keys and mark mistakes with it
  weir config reference                       every key: type, unit, default, allowed values

In a configuration, the line `#:schema PATH` at the top tells editors (taplo, Even Better TOML)
where its schema is. docs/schema has those of this release.")]
pub struct ConfigArgs {
    /// What to print.
    #[command(subcommand)]
    pub what: ConfigCommand,
}

/// What `weir config` prints.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// The JSON schema of a gateway's configuration.
    Schema {
        /// The gateway; left out: one schema for all of them.
        gateway: Option<String>,
        /// Former name of `weir schema show TOPIC`.
        #[arg(long, value_name = "TOPIC", conflicts_with = "gateway", hide = true)]
        output: Option<String>,
    },
    /// The reference of all keys, as Markdown.
    Reference,
}

/// The JSON schema of a gateway's configuration (draft 7, which editors of TOML read).
pub fn of<G: Gateway>() -> Value {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<G::Config>().to_value();
    schema["title"] = json!(format!("Configuration of {} (gateway = \"{}\")", G::TITLE, G::NAME));
    schema["properties"]["gateway"]["enum"] = json!([G::NAME]);
    schema["properties"]["gateway"]["description"] = json!(format!("`\"{}\"`.", G::NAME));
    schema
}

/// One schema for the configurations of several gateways.
pub(crate) fn of_any(entries: &[GatewayEntry]) -> Value {
    let (mut definitions, mut any) = (Map::new(), Vec::new());
    for entry in entries {
        let mut schema = (entry.schema)();
        prefix(&mut schema, entry.name);
        if let Some(Value::Object(of_one)) = schema.as_object_mut().and_then(|schema| schema.remove("definitions")) {
            definitions.extend(of_one.into_iter().map(|(name, value)| (format!("{}.{name}", entry.name), value)));
        }
        any.push(schema);
    }
    json!({ "$schema": "http://json-schema.org/draft-07/schema#", "oneOf": any, "definitions": definitions })
}

/// Puts a prefix before the names of definitions that are referred to.
fn prefix(schema: &mut Value, name: &str) {
    match schema {
        Value::Object(object) => object.iter_mut().for_each(|(key, value)| match value {
            Value::String(text) if key == "$ref" => {
                *text = text.replacen("#/definitions/", &format!("#/definitions/{name}."), 1);
            }
            value => prefix(value, name),
        }),
        Value::Array(list) => list.iter_mut().for_each(|value| prefix(value, name)),
        _ => {}
    }
}

/// Runs `weir config`.
///
/// # Errors
/// An unknown gateway.
pub fn config(args: &ConfigArgs, entries: &[GatewayEntry]) -> anyhow::Result<()> {
    if let ConfigCommand::Schema { output: Some(topic), .. } = &args.what {
        eprintln!(
            "warning: `weir config schema --output {topic}` is now `weir schema show {topic}`; the former name is read for one release"
        );
    }
    print!("{}", text(&args.what, entries)?);
    Ok(())
}

/// What `weir config` prints.
///
/// # Errors
/// An unknown gateway.
pub fn text(what: &ConfigCommand, entries: &[GatewayEntry]) -> anyhow::Result<String> {
    let schema = match what {
        ConfigCommand::Reference => return Ok(reference::markdown(entries)),
        ConfigCommand::Schema { output: Some(topic), .. } => {
            Outputs::new(entries, &[]).schema(&format!("show {topic}"))?
        }
        ConfigCommand::Schema { gateway: None, .. } => of_any(entries),
        ConfigCommand::Schema { gateway: Some(name), .. } => match entries.iter().find(|entry| entry.name == name) {
            Some(entry) => (entry.schema)(),
            None => {
                let all = entries.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
                return Err(Usage(format!("unknown gateway \"{name}\"; allowed: {all}")).into());
            }
        },
    };
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}
