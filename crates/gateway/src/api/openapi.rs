//! The API's description, OpenAPI 3.1, made from the tables: paths, parameters and JSON schemas are theirs.

use serde_json::{Map, Value, json};

use super::tables::{DESCRIPTION, PREFIX};
use crate::show::View;

/// The parameter of a table that measures.
pub const OVER: &str = "over";

/// The description of the API with these tables; `title`: what the gateway is, in words.
pub fn describe(views: &[View], title: &str) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    schemas.insert(
        "Error".to_owned(),
        json!({
            "type": "object",
            "properties": { "error": { "type": "string", "description": "Why there is no answer, in a sentence." } },
            "required": ["error"],
        }),
    );
    for view in views {
        let name = camel(view.topic);
        let mut schema = (view.schema)();
        hoist(&mut schema, &name, &mut schemas);
        schemas.insert(name.clone(), schema);
        paths.insert(format!("{PREFIX}{}", view.topic), path(view, &name));
    }
    let description = json!({ "get": {
        "operationId": "describe",
        "summary": "This description.",
        "responses": { "200": { "description": "OpenAPI 3.1.", "content": { "application/json": { "schema": {} } } } },
    } });
    paths.insert(DESCRIPTION.to_owned(), description);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": format!("weir: {title}"),
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Tables of a running gateway, read-only. Each path answers what `weir show TOPIC --json` prints.",
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

/// The path of a table.
fn path(view: &View, name: &str) -> Value {
    let parameter = |name: &str, help: &str, schema: Value| json!({ "name": name, "in": "query", "required": false, "description": help, "schema": schema });
    let mut parameters: Vec<Value> =
        view.keys.iter().map(|key| parameter(key.name, key.help, json!({ "type": "string" }))).collect();
    if view.measures {
        let help = "With top=rate: seconds over which rates are measured [default: 1]";
        parameters.push(parameter(OVER, help, json!({ "type": "string", "examples": ["5", "500ms"] })));
    }
    let content = |schema: &str| json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } });
    let error = |help: &str| json!({ "description": help, "content": content("Error") });
    json!({ "get": {
        "operationId": format!("show{name}"),
        "summary": view.help,
        "parameters": parameters,
        "responses": {
            "200": { "description": view.help, "content": content(name) },
            "400": error("A parameter is invalid, or the gateway has no such thing."),
            "503": error("A worker does not answer."),
        },
    } })
}

/// `service-flows` as `ServiceFlows`.
fn camel(topic: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    topic.split(['-', '_']).map(word).collect()
}

/// Takes the definitions out of a schema: in a description all stand in one place, under `name.…`.
fn hoist(schema: &mut Value, name: &str, schemas: &mut Map<String, Value>) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("$schema");
    let defs = object.remove("$defs");
    refer(schema, name);
    if let Some(Value::Object(defs)) = defs {
        for (key, mut def) in defs {
            refer(&mut def, name);
            schemas.insert(format!("{name}.{}", plain(&key)), def);
        }
    }
}

/// Leads references to definitions to where they stand.
fn refer(schema: &mut Value, name: &str) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match value.as_str().and_then(|text| text.strip_prefix("#/$defs/")) {
                    Some(def) if key == "$ref" => {
                        *value = format!("#/components/schemas/{name}.{}", plain(def)).into();
                    }
                    _ => refer(value, name),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| refer(value, name)),
        _ => {}
    }
}

/// A name of a component: letters, digits, `.`, `-` and `_`.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect()
}
