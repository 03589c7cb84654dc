//! The same objects as a Helm chart: what an operator may choose is a value, everything else is as the manifests have it.

use std::fmt::Write;

use super::Document;
use crate::File;
use crate::fleet::Fleet;
use crate::map;
use crate::node::Node;

/// Stands in the text for a value until braces of the text itself are escaped.
const MARK: &str = "\u{1a}";

/// Templates that are there only with a value: they need definitions of other projects, or are for a trial.
const CONDITIONS: [(&str, &str); 3] =
    [("monitoring/", "monitoring"), ("traffic.yaml", "traffic"), ("sriov/", "devicePlugin")];

/// The files of the chart. The namespace is not among them: the release itself is in it.
pub fn chart(fleet: &Fleet, documents: &[Document]) -> Vec<File> {
    let name = &fleet.settings.name;
    let mut values: Vec<(String, Node)> = Vec::new();
    let mut files = Vec::new();
    for document in documents {
        let is_object = |node: &&Node| node.get("apiVersion").is_some();
        let is_kustomization = document.path.ends_with("kustomization.yaml");
        if is_kustomization || document.path == "namespace.yaml" || !document.nodes.iter().all(|node| is_object(&node))
        {
            continue;
        }
        document.nodes.iter().for_each(|node| collect(node, &mut values));
        let mut text = escaped(&document.marked());
        if let Some((_, condition)) = CONDITIONS.iter().find(|(path, _)| document.path.starts_with(path)) {
            text = format!("{{{{- if .Values.{condition} }}}}\n{text}{{{{- end }}}}\n");
            values.push(((*condition).to_owned(), false.into()));
        }
        files.push(File::new(format!("chart/templates/{}", document.path.replace('/', "-")), text));
    }
    let mut seen = Vec::new();
    values.retain(|(name, _)| {
        !seen.contains(name) && {
            seen.push(name.clone());
            true
        }
    });
    values.sort_by(|one, other| one.0.cmp(&other.0));
    let chart = map! {
        "apiVersion" => "v2",
        "name" => name,
        "description" => format!("Gateways of {name}. Written by weir deploy kubernetes."),
        "type" => "application",
        "version" => env!("CARGO_PKG_VERSION"),
        "appVersion" => env!("CARGO_PKG_VERSION"),
    };
    files.push(File::new("chart/Chart.yaml", chart.yaml()));
    files.push(File::new("chart/values.yaml", Node::Map(values).yaml()));
    files
}

/// Values that are chosen below a node, with what the plan says.
fn collect(node: &Node, values: &mut Vec<(String, Node)>) {
    node.walk(&mut |node| {
        if let Node::Setting(name, value) = node {
            // Numbers that are text elsewhere, for the same name, are numbers here.
            let number = value.text().and_then(|text| text.parse::<i64>().ok());
            let value = number.filter(|_| *name == "mostReplicas").map_or_else(|| (**value).clone(), Node::from);
            values.push(((*name).to_owned(), value));
        }
    });
}

/// A document's text, its settings marked.
impl Document {
    fn marked(&self) -> String {
        if let Some(text) = &self.text {
            return text.clone();
        }
        self.nodes.iter().map(|node| mark(node).yaml()).collect::<Vec<_>>().join("---\n")
    }
}

fn mark(node: &Node) -> Node {
    match node {
        Node::Map(entries) => Node::Map(entries.iter().map(|(key, value)| (key.clone(), mark(value))).collect()),
        Node::List(list) => Node::List(list.iter().map(mark).collect()),
        Node::Setting(name, value) => {
            let kind = if value.text().is_some() { "t" } else { "n" };
            Node::Text(format!("{kind}{name}{MARK}"))
        }
        other => other.clone(),
    }
}

/// The text as a template: its own braces as they are, and marks as values.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        // A mark is quoted, for it is no character of plain text, and at the end of its line.
        let setting = line.strip_suffix("\\u001a\"").and_then(|line| line.rsplit_once('"'));
        let _ = match setting {
            Some((before, name)) => {
                let (kind, name) = name.split_at(1);
                let quote = if kind == "t" { " | quote" } else { "" };
                writeln!(out, "{before}{{{{ .Values.{name}{quote} }}}}")
            }
            None => writeln!(out, "{}", line.replace("{{", "{{ \"{{\" }}")),
        };
    }
    out
}
