//! The schemas and the reference of configurations that are in `docs` are those of this program; former names of keys
//! are read, with a warning.

use std::path::{Path, PathBuf};

use gateway::load::Text;
use gateway::schema::{ConfigCommand, text};
use serde_json::Value;

use crate::GATEWAYS;

fn docs(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file)
}

fn schema(gateway: &str) -> ConfigCommand {
    ConfigCommand::Schema { gateway: Some(gateway.to_owned()), output: None }
}

#[test]
fn reference_and_schemas_in_docs_are_current() {
    for (file, what, command) in [
        ("configuration.md", ConfigCommand::Reference, "weir config reference"),
        ("schema/upf.schema.json", schema("upf"), "weir config schema upf"),
        ("schema/cmts.schema.json", schema("cmts"), "weir config schema cmts"),
        ("schema/bng.schema.json", schema("bng"), "weir config schema bng"),
    ] {
        let (path, now) = (docs(file), text(&what, GATEWAYS.0).unwrap());
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == now, "docs/{file} is out of date; write it with: {command} > docs/{file}");
    }
}

#[test]
fn unknown_gateway_names_those_there_are() {
    let said = text(&schema("upff"), GATEWAYS.0).unwrap_err().to_string();
    assert_eq!(said, "unknown gateway \"upff\"; allowed: upf, cmts, bng");
}

#[test]
fn references_within_schemas_lead_somewhere() {
    for what in [schema("upf"), schema("cmts"), ConfigCommand::Schema { gateway: None, output: None }] {
        let root: Value = serde_json::from_str(&text(&what, GATEWAYS.0).unwrap()).unwrap();
        let mut open = vec![&root];
        let mut found = 0;
        while let Some(value) = open.pop() {
            if let Some(path) = value.get("$ref").and_then(Value::as_str) {
                assert!(root.pointer(&path[1..]).is_some(), "{path}");
                found += 1;
            }
            match value {
                Value::Object(object) => open.extend(object.values()),
                Value::Array(list) => open.extend(list),
                _ => {}
            }
        }
        assert!(found > 10, "{found}");
    }
}

#[test]
fn every_key_of_the_reference_has_a_meaning() {
    let page = text(&ConfigCommand::Reference, GATEWAYS.0).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(rows.len() > 150, "{}", rows.len());
    for row in rows {
        assert!(!row.ends_with("|  |"), "no meaning: {row}");
    }
}

#[test]
fn former_names_of_keys_are_read_with_a_warning() {
    let old = std::fs::read_to_string(docs("../examples/upf-packet.toml")).unwrap();
    let old = old.replace("next_hop = ", "via = ") + "\n[frames]\nslots = 4096\n\n[gtpu]\necho_tries = 2\n";
    let loaded = upf::product::Loaded::of(Text { name: "old.toml".into(), text: old }).unwrap();
    assert_eq!((loaded.config.frames.packet_buffers, loaded.config.gtpu.n3_requests), (4096, 2));
    assert!(loaded.config.route.iter().all(|route| route.next_hop.is_some()));
    let said: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    for word in ["`via` is now `next_hop`", "frames.slots: `slots` is now `packet_buffers`", "`n3_requests`"] {
        assert!(said.iter().any(|line| line.contains(word) && line.starts_with("old.toml:")), "{word}: {said:#?}");
    }
}

#[test]
fn quantities_may_have_units() {
    let text = std::fs::read_to_string(docs("../examples/upf-packet.toml")).unwrap();
    let more = "\n[buffer]\nbytes = \"8 MiB\"\nseconds = \"1 min\"\n\n[gtpu]\necho_seconds = \"2min\"\n";
    let loaded = upf::product::Loaded::of(Text { name: "gw.toml".into(), text: text.clone() + more }).unwrap();
    let (buffer, gtpu) = (&loaded.config.buffer, &loaded.config.gtpu);
    assert_eq!((buffer.bytes, buffer.seconds, gtpu.echo_seconds), (8 << 20, 60, 120));
    let wrong = "\n[buffer]\nseconds = \"soon\"\n";
    let error =
        upf::product::Loaded::of(Text { name: "gw.toml".into(), text: text + wrong }).err().unwrap().to_string();
    assert!(error.contains("buffer.seconds: \"soon\" is not a duration; allowed: a number of seconds"), "{error}");
}

#[test]
fn every_topic_of_show_has_an_output_schema() {
    let of = |topic: &str| text(&ConfigCommand::Schema { gateway: None, output: Some(topic.to_owned()) }, GATEWAYS.0);
    for topic in ["run", "drops", "frames", "ports", "process", "sessions", "peers", "acl", "nat", "channels"] {
        let schema: Value = serde_json::from_str(&of(topic).unwrap_or_else(|error| panic!("{error}"))).unwrap();
        assert!(schema["$schema"].is_string() && schema.as_object().unwrap().len() > 2, "{topic}: {schema}");
    }
    assert!(of("prots").unwrap_err().to_string().contains("allowed: run, drops, frames, ports"));
}
