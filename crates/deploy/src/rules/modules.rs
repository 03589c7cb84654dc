//! Rules for modules of OpenTofu and Terraform, which no provider has judged: whether everything that is referred to is there.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::node::Node;

/// What is wrong with a module.
pub fn module(module: &Node) -> Vec<Finding> {
    let mut there: BTreeSet<String> = BTreeSet::new();
    let entries = |section: &str| module.get(section).map(Node::entries).unwrap_or_default();
    for (section, prefix) in [("resource", ""), ("data", "data.")] {
        for (kind, all) in entries(section) {
            there.extend(all.entries().iter().map(|(name, _)| format!("{prefix}{kind}.{name}")));
        }
    }
    there.extend(entries("variable").iter().map(|(name, _)| format!("var.{name}")));
    there.extend(entries("locals").iter().map(|(name, _)| format!("local.{name}")));
    let mut missing = BTreeSet::new();
    module.walk(&mut |node| {
        if let Node::Text(text) = node {
            missing.extend(addresses(text).into_iter().filter(|address| !there.contains(address)));
        }
        for on in node.get("depends_on").map(Node::items).unwrap_or_default() {
            let address = on.text().unwrap_or_default();
            if !there.contains(address) {
                missing.insert(address.to_owned());
            }
        }
    });
    let of = |address: String| {
        let what = format!("\"{address}\" is referred to and is not there");
        Finding::at("terraform", what, "a resource, variable or local value of that name")
    };
    missing.into_iter().map(of).collect()
}

/// What the expressions of a text refer to: `aws_vpc.vpc`, `var.name`, `local.on_outpost`, `data.aws_region.current`.
pub fn addresses(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    // What is escaped is no expression.
    let text = text.replace("$${", "");
    for part in text.split("${").skip(1) {
        let expression = closed(part);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        for word in expression.split(|c| !is_part(c)) {
            let parts: Vec<&str> = word.split('.').collect();
            match parts[..] {
                ["var" | "local", name, ..] => all.push(format!("{}.{name}", parts[0])),
                ["data", kind, name, ..] if kind.starts_with("aws_") => all.push(format!("data.{kind}.{name}")),
                [kind, name, ..] if kind.starts_with("aws_") || kind == "terraform_data" => {
                    all.push(format!("{kind}.{name}"));
                }
                _ => {}
            }
        }
    }
    all
}

/// An expression up to the brace that closes it.
fn closed(text: &str) -> &str {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}
