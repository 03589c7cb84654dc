//! The reference of configurations as Markdown, from their schemas.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::registry::GatewayEntry;

const HEAD: &str = "\
# Configuration reference

Written by `weir config reference` from the types that are read; a test keeps it current. Do not edit it by hand.

A configuration is a TOML file. `weir run --check FILE` checks it; `weir config schema GATEWAY` prints its JSON schema, by
which editors complete keys and mark mistakes (a line `#:schema PATH` at the top of the file names it; the schemas of this
release are in `docs/schema`). Unknown keys are errors.

Durations, sizes and rates may be written with a unit (`\"10 ms\"`, `\"512 KiB\"`, `\"100 Mbit/s\"`, `\"100M\"`, in any case); a
plain number counts in the unit of its key. Defaults in *italics* are described in the last column.
";

/// The whole reference.
pub fn markdown(entries: &[GatewayEntry]) -> String {
    let mut page = HEAD.to_owned();
    for entry in entries {
        let schema = (entry.schema)();
        let _ = write!(page, "\n## `gateway = \"{}\"`: {}\n", entry.name, entry.title);
        let writer = Writer { schema: &schema, examples: entry.examples };
        writer.section(&mut page, &[], &schema, Shape::Root);
    }
    page
}

/// How often a section may stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Root,
    Once,
    List,
}

struct Writer<'a> {
    schema: &'a Value,
    examples: &'static [&'static str],
}

impl<'a> Writer<'a> {
    /// A schema behind its references, without the alternative `null`.
    fn resolved(&self, mut schema: &'a Value) -> &'a Value {
        loop {
            let optional = schema["anyOf"].as_array().filter(|any| any.len() == 2);
            let optional = optional.filter(|any| any.iter().any(|one| one["type"] == "null"));
            let of_any = optional.and_then(|any| any.iter().find(|one| one["type"] != "null"));
            let of_all = schema["allOf"].as_array().filter(|all| all.len() == 1).and_then(|all| all.first());
            let name = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/definitions/"));
            schema = match (of_any, of_all, name) {
                (Some(next), _, _) => next,
                (_, Some(next), _) => next,
                (_, _, Some(name)) => &self.schema["definitions"][name],
                _ => return schema,
            };
        }
    }

    /// The section that a key opens, if it does.
    fn opens(&self, schema: &'a Value) -> Option<(&'a Value, Shape)> {
        let resolved = self.resolved(schema);
        if resolved["properties"].is_object() {
            return Some((resolved, Shape::Once));
        }
        let element = resolved.get("items").filter(|items| items.is_object()).map(|items| self.resolved(items))?;
        element["properties"].is_object().then_some((element, Shape::List))
    }

    fn section(&self, page: &mut String, path: &[&str], schema: &'a Value, shape: Shape) {
        let name = path.join(".");
        let empty = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        match shape {
            Shape::Root => page.push_str("\n### Top level\n"),
            Shape::Once => drop(write!(page, "\n### `[{name}]`\n")),
            Shape::List => drop(write!(page, "\n### `[[{name}]]`\n")),
        }
        if let Some(text) = schema["description"].as_str() {
            let _ = write!(page, "\n{}\n", text.trim());
        }
        let (sections, keys): (Vec<_>, Vec<_>) = properties.iter().partition(|(_, value)| self.opens(value).is_some());
        if !keys.is_empty() {
            page.push_str("\n| Key | Type | Unit | Default | Allowed | Meaning |\n|---|---|---|---|---|---|\n");
            for (key, value) in keys {
                self.row(page, key, value, schema);
            }
        }
        if shape != Shape::Root {
            let header = if shape == Shape::List { format!("[[{name}]]") } else { format!("[{name}]") };
            let example = self.example(&header).unwrap_or_else(|| self.made_up(&header, schema));
            let _ = write!(page, "\n```toml\n{example}\n```\n");
        }
        for (key, value) in sections {
            let Some((inner, shape)) = self.opens(value) else { continue };
            let path: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
            self.section(page, &path, inner, shape);
        }
    }

    fn row(&self, page: &mut String, key: &str, value: &'a Value, owner: &Value) {
        let resolved = self.resolved(value);
        let is_required = owner["required"].as_array().is_some_and(|all| all.iter().any(|name| name == key));
        let default = match value.get("default") {
            _ if is_required => "required".to_owned(),
            Some(Value::Null) | None => "*none*".to_owned(),
            Some(default) => format!("`{}`", toml(default)),
        };
        let cells = [
            format!("`{key}`"),
            self.kind(resolved),
            unit(key, resolved).to_owned(),
            default,
            self.allowed(resolved),
            value["description"].as_str().or(resolved["description"].as_str()).unwrap_or_default().to_owned(),
        ];
        let cells = cells.map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"));
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }

    fn kind(&self, schema: &'a Value) -> String {
        if schema.get("x-allowed").is_some() {
            return if schema["type"].as_array().is_some_and(|of| of.iter().any(|one| one == "integer")) {
                "integer or string".to_owned()
            } else {
                "string".to_owned()
            };
        }
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            return format!("list of {}", self.kind(self.resolved(items)));
        }
        if schema["additionalProperties"].is_object() {
            return "table".to_owned();
        }
        if let Some(any) = schema["anyOf"].as_array() {
            let kinds: Vec<_> = any.iter().map(|one| self.kind(self.resolved(one))).collect();
            return kinds.join(" or ");
        }
        let name = match &schema["type"] {
            Value::String(name) => name.as_str(),
            Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null").unwrap_or("any"),
            _ if schema["oneOf"].is_array() || schema["enum"].is_array() => "string",
            _ => "any",
        };
        if name == "array" { "list".to_owned() } else { name.to_owned() }
    }

    fn allowed(&self, schema: &'a Value) -> String {
        if let Some(allowed) = schema["x-allowed"].as_str() {
            return allowed.to_owned();
        }
        if let Some(values) = schema["enum"].as_array() {
            return values.iter().map(|value| format!("`{}`", toml(value))).collect::<Vec<_>>().join(", ");
        }
        if let Some(one_of) = schema["oneOf"].as_array() {
            let words = one_of.iter().flat_map(|one| match (&one["const"], one["enum"].as_array()) {
                (Value::Null, Some(values)) => values.iter().map(|value| (value, &one["description"])).collect(),
                (Value::Null, None) => Vec::new(),
                (value, _) => vec![(value, &one["description"])],
            });
            let word = |(value, text): (&Value, &Value)| match text.as_str() {
                Some(text) => format!("`{}`: {text}", toml(value)),
                None => format!("`{}`", toml(value)),
            };
            return words.map(word).collect::<Vec<_>>().join("<br>");
        }
        match (schema["minimum"].as_f64(), schema["maximum"].as_f64(), schema["format"].as_str()) {
            (Some(least), Some(most), _) => format!("{least} to {most}"),
            (Some(_), None, Some("uint32")) => "0 to 4294967295".to_owned(),
            (Some(least), None, _) => format!("{least} or more"),
            (_, _, Some("ip")) => "an IPv4 or IPv6 address".to_owned(),
            (_, _, Some("ipv4")) => "an IPv4 address".to_owned(),
            (_, _, Some("ipv6")) => "an IPv6 address".to_owned(),
            _ => String::new(),
        }
    }

    /// The section in the examples, from its header to the next.
    fn example(&self, header: &str) -> Option<String> {
        self.examples.iter().find_map(|text| {
            let lines: Vec<&str> = text.lines().map(|line| line.trim_start_matches("# ")).collect();
            let first = lines.iter().position(|line| line.starts_with(header))?;
            let end = |line: &&str| line.is_empty() || line.starts_with('[') || line.starts_with('#');
            let len = lines[first + 1..].iter().position(end).unwrap_or(lines.len() - first - 1);
            Some(lines[first..=first + len].join("\n"))
        })
    }

    /// A section of the keys that have a default, with it.
    fn made_up(&self, header: &str, schema: &'a Value) -> String {
        let mut text = header.to_owned();
        for (key, value) in schema["properties"].as_object().into_iter().flatten() {
            let default = value.get("default").filter(|default| !default.is_null());
            if let Some(default) = default.filter(|_| self.opens(value).is_none()) {
                let _ = write!(text, "\n{key} = {}", toml(default));
            }
        }
        text
    }
}

/// The unit of a key: what its type says, else what its name says.
fn unit<'v>(key: &str, schema: &'v Value) -> &'v str {
    let by_name = [("_seconds", "s"), ("_ms", "ms"), ("_us", "µs"), ("_bytes", "bytes")];
    let named = || by_name.iter().find(|(end, _)| key.ends_with(end)).map(|(_, unit)| *unit);
    schema["x-unit"].as_str().or_else(named).unwrap_or_default()
}

/// A value as TOML writes it.
fn toml(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{text}\""),
        Value::Array(list) => format!("[{}]", list.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Object(object) if object.is_empty() => "{}".to_owned(),
        Value::Object(object) => {
            let pairs: Vec<_> = object.iter().map(|(key, value)| format!("{key} = {}", toml(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        other => other.to_string(),
    }
}
