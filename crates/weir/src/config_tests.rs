//! The schemas and the reference of configurations that are in `docs` are those of this program; former names of keys
//! are read, with a warning.

use std::path::{Path, PathBuf};

use gateway::load::Text;
use gateway::outputs::Outputs;
use gateway::schema::{ConfigCommand, text};
use serde_json::Value;

use crate::GATEWAYS;
use crate::cli::Cli;
use crate::outputs::OUTPUTS;

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

/// Faults of a value by the schema of an output, as an independent validator finds them; empty: it fits.
pub fn faults(name: &str, value: &impl serde::Serialize) -> String {
    let schema = outputs().schema(name).unwrap_or_else(|error| panic!("{error}"));
    let list = serde_json::json!([{ "name": name, "schema": schema, "values": [value] }]);
    let file = std::env::temp_dir().join(format!("weir-fits-{}-{}.json", std::process::id(), name.replace(' ', "-")));
    std::fs::write(&file, list.to_string()).unwrap();
    let root = docs("..");
    let mut judge = std::process::Command::new(root.join("target/judge/bin/python3"));
    let out = judge.arg(root.join("tests/judge/outputs.py")).arg(&file).output().expect("python runs: make setup-test");
    std::fs::remove_file(&file).unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.success(), said.is_empty(), "{said}");
    said
}

#[test]
fn result_of_the_suite_fits_its_schema() {
    use ::bench::suite::{Suite, Verdict};
    let mut suite = Suite {
        schema: 2,
        verdicts: vec![Verdict::at_most("start", 1.0, 0.5, "s")],
        results: vec![::bench::report::Report::default()],
        pfcp_sessions: None,
        cable: Some(::bench::cmts::CableReport::default()),
        left_out: vec!["xdp: no root".to_owned()],
        host: ::bench::host::Host::default(),
        machine: ::bench::machine::Machine::default(),
    };
    assert_eq!(faults("bench suite", &suite), "");
    suite.verdicts[0].measured = f64::NAN;
    assert!(faults("bench suite", &suite).contains("measured: None is not of type 'number'"));
}

#[test]
fn a_key_without_a_schema_is_a_fault() {
    let mut drain = serde_json::json!({ "draining": true, "sessions": 7 });
    assert_eq!(faults("drain", &drain), "");
    drain["more"] = 1.into();
    assert!(faults("drain", &drain).contains("'more' was unexpected"));
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

fn outputs() -> Outputs<'static> {
    Outputs::new(GATEWAYS.0, OUTPUTS)
}

#[test]
fn output_schemas_in_docs_are_current() {
    let command = "weir schema --to docs/schema/output && weir schema --reference > docs/outputs.md";
    let page = std::fs::read_to_string(docs("outputs.md")).unwrap_or_default();
    assert!(page == outputs().reference(), "docs/outputs.md is out of date; write it with: {command}");
    let files = outputs().files().unwrap();
    for (file, now) in &files {
        let there = std::fs::read_to_string(docs("schema/output").join(file)).unwrap_or_default();
        assert!(there == *now, "docs/schema/output/{file} is out of date; write it with: {command}");
    }
    for entry in std::fs::read_dir(docs("schema/output")).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(files.iter().any(|(file, _)| **file == *name), "docs/schema/output/{name:?}: no output is called so");
    }
}

#[test]
fn every_command_with_json_has_a_schema() {
    let names = outputs().names();
    let (mut open, mut seen) = (vec![(Vec::<String>::new(), Cli::of_all())], 0);
    while let Some((words, command)) = open.pop() {
        if command.get_arguments().any(|option| option.get_id() == "json") {
            let name = words.join(" ");
            let has = |known: &String| *known == name || known.starts_with(&format!("{name} "));
            assert!(names.iter().any(has), "weir {name} --json has no schema");
            seen += 1;
        }
        let inner = |inner: &clap::Command| ([&words[..], &[inner.get_name().to_owned()]].concat(), inner.clone());
        open.extend(command.get_subcommands().map(inner));
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn output_schemas_are_found_by_name() {
    for name in outputs().names() {
        let schema = outputs().schema(&name.replace(' ', "-")).unwrap_or_else(|error| panic!("{error}"));
        assert!(schema["$schema"].is_string() && schema.as_object().unwrap().len() > 2, "{name}: {schema}");
    }
    let said = outputs().schema("show prots").unwrap_err().to_string();
    assert!(said.starts_with("unknown command \"show prots\"; allowed: run, show run, show drops"), "{said}");
    let former = ConfigCommand::Schema { gateway: None, output: Some("ports".to_owned()) };
    assert!(text(&former, GATEWAYS.0).unwrap().contains("weir show ports --json"));
}
