//! The same network and fleet as a module of OpenTofu or Terraform, with resources of the provider `hashicorp/aws`.
//!
//! It is translated from the CloudFormation template, so that both are one model: every resource, its references, its
//! conditions. What the two have differently is in `resources.rs`; a template's functions are expressions in `value.rs`. Hosts
//! of a trial are in the template only.

mod resources;
mod value;

use std::collections::BTreeMap;

use crate::fleet::Fleet;
use crate::node::Node;
use crate::{list, map};

pub use resources::kind_of;
use value::Scope;

/// Resources of a template that a module has no need of: the attachment of Direct Connect is looked up by a data source, and
/// a trial's hosts are the template's.
const LEFT_OUT: [&str; 8] = [
    "LookUpRole",
    "LookUp",
    "GeneratorGroup",
    "GeneratorInterface",
    "GeneratorHost",
    "ResponderGroup",
    "ResponderInterface",
    "ResponderHost",
];

/// `main.tf.json`, from the whole template of a fleet.
pub fn module(fleet: &Fleet, template: &Node) -> Node {
    let section = |name: &str| template.get(name).map(Node::entries).unwrap_or_default();
    let all: Vec<&(String, Node)> =
        section("Resources").iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str())).collect();
    let scope = Scope::new(all.iter().copied());
    let mut blocks: BTreeMap<(&str, String), Vec<(String, Node)>> = BTreeMap::new();
    let mut locals = conditions(section("Conditions"), &scope);
    for (name, resource) in all {
        for made in resources::of(name, resource, &scope) {
            let mut body = made.body;
            surround(&mut body, resource, &scope);
            if let Some(text) = made.user_data {
                locals.push(("user_data".to_owned(), text));
            }
            blocks.entry((made.block, made.kind)).or_default().push((made.name, body));
        }
    }
    let of = |wanted: &str| {
        let kinds = blocks.iter().filter(|((block, _), _)| *block == wanted);
        Node::Map(kinds.map(|((_, kind), all)| (kind.clone(), Node::Map(all.clone()))).collect())
    };
    let mut data = of("data");
    for own in ["aws_region", "aws_partition", "aws_caller_identity"] {
        data.put(own, map! { "current" => map! {} });
    }
    map! {
        "terraform" => map! {
            "required_version" => ">= 1.5",
            "required_providers" => map! { "aws" => map! { "source" => "hashicorp/aws", "version" => ">= 5.0" } },
        },
        "variable" => variables(fleet, section("Parameters")),
        "locals" => Node::Map(locals),
        "data" => data,
        "resource" => of("resource"),
        "output" => outputs(section("Outputs"), &scope),
    }
}

/// Arguments that every resource may have: whether it is there, and what it waits for.
fn surround(body: &mut Node, resource: &Node, scope: &Scope) {
    if let Some(condition) = resource.get("Condition").and_then(Node::text) {
        body.put("count", format!("${{local.{} ? 1 : 0}}", snake(condition)));
    }
    let on = resource.get("DependsOn");
    let named = on.and_then(Node::text).into_iter();
    let named = named.chain(on.map(Node::items).unwrap_or_default().iter().filter_map(Node::text));
    let addresses: Vec<Node> = named.filter_map(|name| scope.address(name)).map(Node::from).collect();
    if !addresses.is_empty() {
        body.put("depends_on", addresses);
    }
}

/// Conditions as local values.
fn conditions(all: &[(String, Node)], scope: &Scope) -> Vec<(String, Node)> {
    let is_used = |name: &str| name != "WithTraffic";
    let value = |condition: &Node| Node::Text(format!("${{{}}}", scope.expression(condition)));
    all.iter().filter(|(name, _)| is_used(name)).map(|(name, it)| (snake(name), value(it))).collect()
}

fn variables(fleet: &Fleet, parameters: &[(String, Node)]) -> Node {
    let name = map! {
        "type" => "string", "description" => "What everything is called after.", "default" => &fleet.settings.name,
    };
    let mut all = vec![("name".to_owned(), name)];
    for (name, parameter) in parameters.iter().filter(|(name, _)| name != "Traffic") {
        let text = |key: &str| parameter.get(key).and_then(Node::text).unwrap_or_default();
        let kind = if text("Type") == "Number" { "number" } else { "string" };
        let mut variable = map! { "type" => kind, "description" => text("Description") };
        if let Some(default) = parameter.get("Default") {
            variable.put("default", default.clone());
        }
        let own = |rule: String| map! { "condition" => format!("${{{rule}}}"), "error_message" => text("Description") };
        if let Some(allowed) = parameter.get("AllowedValues") {
            let rule = format!("contains({}, var.{})", scope_free(allowed), snake(name));
            variable.put("validation", list![own(rule)]);
        } else if text("AllowedPattern") == "^.+$" {
            variable.put("validation", list![own(format!("var.{} != \"\"", snake(name)))]);
        }
        all.push((snake(name), variable));
    }
    Node::Map(all)
}

/// A value without references, as an expression.
fn scope_free(value: &Node) -> String {
    Scope::default().expression(value)
}

fn outputs(all: &[(String, Node)], scope: &Scope) -> Node {
    let output = |(name, output): &(String, Node)| {
        let value = output.get("Value").map_or_else(|| "".into(), |value| scope.value(value));
        let about = output.get("Description").and_then(Node::text).unwrap_or_default();
        (snake(name), map! { "description" => about, "value" => value })
    };
    Node::Map(all.iter().map(output).collect())
}

/// `OutpostArn` as `outpost_arn`.
pub fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
