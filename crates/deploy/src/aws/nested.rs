//! Large fleets: sets of interfaces in stacks of their own below the fleet's, for a template has 500 resources at most.

use std::collections::BTreeSet;

use super::reference;
use crate::fleet::Fleet;
use crate::map;
use crate::node::Node;

/// Resources of a template that leave room for what an operator adds.
const MOST: usize = 450;
/// Files of gateways in a template, which may have 1,000,000 bytes.
const FILES: usize = 200;
/// What a set is called in the group's `DependsOn`, in the templates of its own stack.
const NAME: &str = "Fleet";

/// The fleet's template, and those of the stacks below it with the names of their files; none where one is enough.
pub fn split(fleet: &Fleet, mut template: Node) -> (Node, Vec<(String, Node)>) {
    let whole = template.get("Resources").map(Node::entries).unwrap_or_default();
    if whole.len() <= MOST {
        return (template, Vec::new());
    }
    let (sets, rest): (Vec<_>, Vec<_>) = whole.iter().cloned().partition(|(name, _)| is_of_a_set(name));
    let (files, mut rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(name, _)| is_a_file(name));
    // Those of a gateway stay together, and in their order.
    let of_a_gateway = sets.len() / fleet.ordinals().max(1) as usize;
    let gateways = (MOST / of_a_gateway.max(1)).max(1);
    let parts = sets.chunks((gateways * of_a_gateway).max(1)).chain(files.chunks(FILES));
    let mut below = Vec::new();
    for part in parts {
        let stack = format!("Sets{}", below.len());
        let file = format!("sets-{}.yaml", below.len());
        let (child, outside) = child(part, fleet);
        let mut values: Vec<(String, Node)> = outside.iter().map(|name| (name.clone(), reference(name))).collect();
        values.push((NAME.to_owned(), reference("AWS::StackName")));
        let nested = map! {
            "Type" => "AWS::CloudFormation::Stack",
            "Properties" => map! { "TemplateURL" => format!("./{file}"), "Parameters" => Node::Map(values) },
        };
        rest.push((stack, nested));
        below.push((file, child));
    }
    let stacks: Vec<Node> = (0..below.len()).map(|n| format!("Sets{n}").into()).collect();
    for (_, resource) in &mut rest {
        let Node::Map(entries) = resource else { continue };
        let Some((_, Node::List(on))) = entries.iter_mut().find(|(key, _)| key == "DependsOn") else { continue };
        let all = on.len();
        let is_below = |name: &str| is_of_a_set(name) || is_a_file(name);
        on.retain(|name| !is_below(name.text().unwrap_or_default()));
        if on.len() < all {
            on.extend(stacks.iter().cloned());
        }
    }
    if let Node::Map(sections) = &mut template
        && let Some((_, resources)) = sections.iter_mut().find(|(name, _)| name == "Resources")
    {
        *resources = Node::Map(rest);
    }
    (template, below)
}

/// Whether a resource belongs to a set: `AccessInterface12`, `CoreInterface12`, `TransitAPool12`.
fn is_of_a_set(name: &str) -> bool {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    kind.len() < name.len() && ["AccessInterface", "CoreInterface", "Pool"].iter().any(|end| kind.ends_with(end))
}

/// Whether a resource is the file of a gateway: `File12`.
fn is_a_file(name: &str) -> bool {
    name.strip_prefix("File").is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
}

/// A template of some resources, and what they refer to outside: its parameters.
fn child(part: &[(String, Node)], fleet: &Fleet) -> (Node, BTreeSet<String>) {
    let own: BTreeSet<&str> = part.iter().map(|(name, _)| name.as_str()).collect();
    let mut outside = BTreeSet::new();
    let mut resources = Node::Map(part.to_vec());
    rename(&mut resources);
    resources.walk(&mut |node| {
        let name = node.get("Ref").and_then(Node::text).unwrap_or_default();
        if !name.is_empty() && name != NAME && !own.contains(name) {
            outside.insert(name.to_owned());
        }
    });
    let parameter = |name: &String| (name.clone(), map! { "Type" => "String" });
    let mut parameters: Vec<(String, Node)> = outside.iter().map(parameter).collect();
    parameters.push((NAME.to_owned(), map! { "Type" => "String", "Description" => "The fleet's stack." }));
    let template = map! {
        "AWSTemplateFormatVersion" => "2010-09-09",
        "Description" => format!("{}: sets of interfaces. Written by weir deploy aws.", fleet.settings.name),
        "Parameters" => Node::Map(parameters),
        "Resources" => resources,
    };
    (template, outside)
}

/// What is named after the fleet's stack is not named after this one.
fn rename(node: &mut Node) {
    match node {
        Node::Map(entries) => {
            for (key, value) in entries {
                if key == "Ref" && value.text() == Some("AWS::StackName") {
                    *value = NAME.into();
                }
                if key == "Fn::Sub"
                    && let Node::Text(text) = value
                {
                    *text = text.replace("${AWS::StackName}", &format!("${{{NAME}}}"));
                }
                rename(value);
            }
        }
        Node::List(list) => list.iter_mut().for_each(rename),
        _ => {}
    }
}
