//! What monitoring sees of each gateway: `/metrics` by the rules of Prometheus, alerts and the dashboard over metrics that
//! are there, and the API's description by an independent validator.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use gateway::shell::{Gateway, Process};
use gateway::{api, metrics};
use port::Wires;
use serde_json::Value;

use crate::connected_tests::start;

fn root(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

/// An example's configuration as it can run anywhere.
fn example(gateway: &str) -> String {
    match gateway {
        "upf" => {
            static PORT: AtomicU16 = AtomicU16::new(18_805);
            let n4 = format!("address = \"127.0.0.1\"\nport = {}", PORT.fetch_add(1, Ordering::Relaxed));
            include_str!("../../../examples/upf-n4.toml").replace("address = \"10.0.4.1\"", &n4)
        }
        "cmts" => include_str!("../../../examples/cmts.toml").to_owned(),
        _ => include_str!("../../../examples/bng.toml").to_owned(),
    }
}

fn get(address: std::net::SocketAddr, path: &str) -> String {
    let (status, body) = answer(address, path);
    assert_eq!(status, "200", "{path}: {body}");
    body
}

/// Status and body.
fn answer(address: std::net::SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer[9..12].to_owned(), answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// `/metrics` of each gateway.
fn pages() -> Vec<(&'static str, String)> {
    fn page<G: Gateway>() -> (&'static str, String) {
        let wires = Wires::default();
        let process: Process<G::Product> = start::<G>(&example(G::NAME), &wires);
        process.turn();
        let server = metrics::serve("127.0.0.1:0".parse().unwrap(), process.observer().clone()).unwrap();
        let page = get(server.address(), "/metrics");
        drop(server);
        process.stop();
        (G::NAME, page)
    }
    vec![page::<upf::product::UpfGateway>(), page::<bng::product::BngGateway>(), page::<cmts::product::CmtsGateway>()]
}

/// Names of a page's metrics.
fn families(page: &str) -> BTreeSet<&str> {
    page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect()
}

/// Names of metrics in an expression.
fn named(expression: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = expression.split(|c: char| !is_name(c));
    words.filter(|word| word.starts_with("weir_") || word.starts_with("process_")).collect()
}

fn promtool(arguments: &[&str], input: &str) -> String {
    let mut tool = Command::new("promtool");
    tool.args(arguments).current_dir(root("")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = tool.spawn().expect("promtool is there: scripts/setup test");
    running.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    if out.status.success() { String::new() } else { said }
}

/// Every metric that `expressions` (of a gateway, or `all`) name is told by it.
fn assert_told(expressions: &[(String, String)], pages: &[(&str, String)]) {
    for (gateway, expression) in expressions {
        let names = named(expression);
        assert!(!names.is_empty() || expression.contains("up{"), "{gateway}: no metric in {expression}");
        for (_, page) in pages.iter().filter(|(name, _)| gateway == "all" || name == gateway) {
            let told = families(page);
            let missing: Vec<_> = names.iter().filter(|name| !told.contains(*name)).collect();
            assert!(missing.is_empty(), "{gateway} does not tell {missing:?} of {expression}");
        }
    }
}

#[test]
fn monitoring_names_only_metrics_there_are() {
    let pages = pages();
    for (gateway, page) in &pages {
        assert_eq!(promtool(&["check", "metrics"], page), "", "{gateway}");
    }
    let rules = fs::read_to_string(root("deploy/prometheus/weir.rules.yml")).unwrap();
    assert_eq!(promtool(&["check", "rules", "deploy/prometheus/weir.rules.yml"], ""), "");
    assert_eq!(promtool(&["test", "rules", "deploy/prometheus/weir.test.yml"], ""), "");
    let (mut gateway, mut in_expression, mut expressions) = (String::new(), false, Vec::new());
    for line in rules.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- name: weir-") {
            gateway = name.to_owned();
        }
        if let Some(expression) = line.strip_prefix("expr: ") {
            expressions.push((gateway.clone(), expression.to_owned()));
            in_expression = true;
        } else if line.contains(": ") && !line.contains('(') {
            in_expression = false;
        } else if in_expression && let Some((_, text)) = expressions.last_mut() {
            *text += line;
        }
    }
    expressions.retain(|(_, text)| text != "up{job=\"weir\"} == 0");
    assert!(expressions.len() > 20, "{expressions:?}");
    assert_told(&expressions, &pages);

    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(root("deploy/grafana/weir.json")).unwrap()).unwrap();
    let (mut gateway, mut expressions) = ("all".to_owned(), Vec::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        if panel["type"] == "row" {
            let title = panel["title"].as_str().unwrap();
            gateway = if pages.iter().any(|(name, _)| *name == title) { title.to_owned() } else { "all".to_owned() };
        }
        for target in panel["targets"].as_array().into_iter().flatten() {
            expressions.push((gateway.clone(), target["expr"].as_str().unwrap().to_owned()));
        }
    }
    assert!(expressions.len() > 25, "{expressions:?}");
    assert_told(&expressions, &pages);
    // Prometheus reads the panels' expressions as it would rules.
    let rule = |(n, (_, expression)): (usize, &(String, String))| {
        let plain = expression.replace("$__rate_interval", "5m").replace("$instance", ".+");
        format!("      - {{ record: \"weir:panel_{n}\", expr: {} }}\n", serde_json::to_string(&plain).unwrap())
    };
    let rules: String = expressions.iter().enumerate().map(rule).collect();
    let file = std::env::temp_dir().join(format!("weir-panels-{}.yml", std::process::id()));
    fs::write(&file, format!("groups:\n  - name: panels\n    rules:\n{rules}")).unwrap();
    assert_eq!(promtool(&["check", "rules", file.to_str().unwrap()], ""), "");
    fs::remove_file(&file).unwrap();
}

/// Faults of a description, as an independent validator finds them.
fn faults(description: &str) -> String {
    let mut judge = Command::new(root("target/judge/bin/python3"));
    judge.arg(root("tests/judge/openapi.py")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = judge.spawn().expect("python runs: scripts/setup test");
    running.stdin.take().unwrap().write_all(description.as_bytes()).unwrap();
    let out = running.wait_with_output().unwrap();
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

#[test]
fn descriptions_of_the_api_are_valid() {
    fn of<G: Gateway>() -> (Value, Value) {
        let wires = Wires::default();
        let process: Process<G::Product> = start::<G>(&example(G::NAME), &wires);
        let address = "127.0.0.1:0".parse().unwrap();
        let shown = api::Shown { views: G::VIEWS, title: G::TITLE, trace: true };
        let server = api::serve(address, shown, process.observer().clone(), &[0]).unwrap();
        let described: Value = serde_json::from_str(&get(server.address(), "/openapi.json")).unwrap();
        let list: Vec<String> = described["paths"].as_object().unwrap().keys().cloned().collect();
        let mut answers = serde_json::Map::new();
        // What the processes may do is asked of the privilege helper, which tests have not.
        for path in list.into_iter().filter(|path| path != "/api/v1/process") {
            let query = if path == "/api/v1/trace" { "?ue=10.60.0.1&seconds=0.1" } else { "" };
            let (status, body) = answer(server.address(), &(path.clone() + query));
            // Tables of what is not configured are refused.
            assert!(status == "200" || status == "400" && body.contains("there is no ["), "{path}: {body}");
            if status == "200" {
                answers.insert(path.clone(), serde_json::from_str(&body).unwrap());
            }
        }
        drop(server);
        process.stop();
        (described, answers.into())
    }
    for (described, answers) in
        [of::<upf::product::UpfGateway>(), of::<bng::product::BngGateway>(), of::<cmts::product::CmtsGateway>()]
    {
        let both = serde_json::json!({ "description": described, "answers": answers });
        assert_eq!(faults(&both.to_string()), "", "{}", described["info"]["title"]);
    }
    let broken = serde_json::json!({ "description": { "openapi": "3.1.0", "paths": {} }, "answers": {} });
    assert!(faults(&broken.to_string()).contains("info"), "the validator validates");
}
