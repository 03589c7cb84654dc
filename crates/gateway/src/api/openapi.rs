//! The API's description, OpenAPI 3.1, made from the tables: paths, parameters and JSON schemas are theirs.

use serde_json::{Map, Value, json};

use super::tables::{ABOUT, About, DESCRIPTION, PREFIX, TOP, TRACE};
use super::trace;
use crate::show::View;
use crate::socket::TraceLine;
use crate::top::TopView;
use crate::{connected, outputs};

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
        add(&mut schemas, &name, (view.schema)());
        paths.insert(format!("{PREFIX}{}", view.topic), path(view, &name));
    }
    for (route, operation, help, schema) in [
        (ABOUT, "about", "What the gateway has to show.", outputs::schema_of::<About>()),
        (TOP, "top", TOP_HELP, outputs::schema_of::<TopView>()),
    ] {
        let name = camel(operation);
        add(&mut schemas, &name, schema);
        paths.insert(route.to_owned(), get(operation, help, &[], &name));
    }
    add(&mut schemas, "Trace", outputs::schema_of::<Vec<Vec<TraceLine>>>());
    let mut trace = get("trace", TRACE_HELP, &trace_parameters(), "Trace");
    for (status, help) in
        [("403", "Tracing is off (`[api] trace`), or another site's page asks."), ("409", "Another trace runs.")]
    {
        trace["get"]["responses"][status] = error(help);
    }
    paths.insert(TRACE.to_owned(), trace);
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

const TOP_HELP: &str = "Rates with history, costs of stages, drops, ports and workers, over the last interval of \
                        a second or more. A first request waits half a second.";
const TRACE_HELP: &str = "Follows the next packets of one subscriber, named by exactly one parameter beside \
                          packets and seconds, and answers once they are through or the time is over: for each packet a list of what every \
                          stage did.";

/// Adds a schema under a name.
fn add(schemas: &mut Map<String, Value>, name: &str, mut schema: Value) {
    hoist(&mut schema, name, schemas);
    schemas.insert(name.to_owned(), schema);
}

fn content(schema: &str) -> Value {
    json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } })
}

fn error(help: &str) -> Value {
    json!({ "description": help, "content": content("Error") })
}

fn parameter(name: &str, help: &str, schema: Value) -> Value {
    json!({ "name": name, "in": "query", "required": false, "description": help, "schema": schema })
}

/// A path that answers what `schema` describes.
fn get(operation: &str, help: &str, parameters: &[Value], schema: &str) -> Value {
    json!({ "get": {
        "operationId": operation,
        "summary": help,
        "parameters": parameters,
        "responses": {
            "200": { "description": help, "content": content(schema) },
            "400": error("A parameter is invalid, or the gateway has no such thing."),
            "503": error("A worker does not answer."),
        },
    } })
}

/// Parameters of a trace.
fn trace_parameters() -> Vec<Value> {
    let text = json!({ "type": "string" });
    let ue = parameter("ue", "The subscriber with this address", text.clone());
    let selectors = connected::SELECTORS.iter().map(|key| parameter(key.name, key.help, text.clone()));
    let packets = json!({ "type": "integer", "minimum": 1, "maximum": trace::PACKETS, "default": trace::FEW });
    let seconds = format!("Time limit, at most {} s [default: 5]", trace::SECONDS);
    let bounds = [parameter("packets", "Packets to follow", packets), parameter("seconds", &seconds, text.clone())];
    [ue].into_iter().chain(selectors).chain(bounds).collect()
}

/// The path of a table.
fn path(view: &View, name: &str) -> Value {
    let text = json!({ "type": "string" });
    let mut parameters: Vec<Value> = view.keys.iter().map(|key| parameter(key.name, key.help, text.clone())).collect();
    if view.measures {
        let help = "With top=rate: seconds over which rates are measured [default: 1]";
        parameters.push(parameter(OVER, help, json!({ "type": "string", "examples": ["5", "500ms"] })));
    }
    get(&format!("show{name}"), view.help, &parameters, name)
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
