//! Functions of a template as expressions.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::resources::kind_of;
use super::snake;
use crate::node::Node;

/// Resources that may be referred to.
#[derive(Debug, Default)]
pub struct Scope {
    /// Addresses by names in the template, and whether one is there under a condition only.
    addresses: BTreeMap<String, (String, bool)>,
}

impl Scope {
    pub fn new<'a>(resources: impl Iterator<Item = &'a (String, Node)>) -> Self {
        let address = |(name, resource): &'a (String, Node)| {
            let kind = kind_of(resource)?;
            Some((name.clone(), (format!("{kind}.{}", snake(name)), resource.get("Condition").is_some())))
        };
        Self { addresses: resources.filter_map(address).collect() }
    }

    /// The address of a resource; none: it is not in the module.
    pub fn address(&self, name: &str) -> Option<String> {
        self.addresses.get(name).map(|(address, _)| address.clone())
    }

    /// What `Ref` of a name stands for.
    fn reference(&self, name: &str) -> String {
        let own = match name {
            "AWS::StackName" => "var.name",
            "AWS::Region" => "data.aws_region.current.id",
            "AWS::Partition" => "data.aws_partition.current.partition",
            "AWS::AccountId" => "data.aws_caller_identity.current.account_id",
            "AWS::NoValue" => "null",
            _ => "",
        };
        if !own.is_empty() {
            return own.to_owned();
        }
        let Some(address) = self.of(name) else { return format!("var.{}", snake(name)) };
        // These are known by name.
        let by_name = ["aws_iam_role.", "aws_iam_instance_profile.", "aws_autoscaling_group.", "aws_placement_group."];
        let attribute = if by_name.iter().any(|kind| address.starts_with(kind)) { "name" } else { "id" };
        format!("{address}.{attribute}")
    }

    /// The address of the one that is there.
    fn of(&self, name: &str) -> Option<String> {
        self.addresses.get(name).map(|(address, is_conditional)| match is_conditional {
            true => format!("{address}[0]"),
            false => address.clone(),
        })
    }

    fn attribute(&self, name: &str, attribute: &str) -> String {
        let address = self.of(name).unwrap_or_default();
        let attribute = match attribute {
            "AllocationId" | "GroupId" | "AttachmentId" => "id",
            "LatestVersionNumber" => "latest_version",
            "Arn" => "arn",
            other => other,
        };
        format!("{address}.{attribute}")
    }

    /// A function of a template as an expression, without the marks around it; none: it is a plain value.
    fn function(&self, node: &Node) -> Option<String> {
        let [(key, value)] = node.entries() else { return None };
        let item = |n: usize| value.items().get(n);
        let text = |n: usize| item(n).and_then(Node::text).unwrap_or_default();
        Some(match key.as_str() {
            "Ref" => self.reference(value.text().unwrap_or_default()),
            "Fn::GetAtt" => self.attribute(text(0), text(1)),
            "Fn::Sub" => format!("\"{}\"", quoted(&self.filled(value.text().unwrap_or_default()))),
            "Fn::If" => {
                let branch = |n: usize| item(n).map_or_else(|| "null".to_owned(), |it| self.expression(it));
                format!("local.{} ? {} : {}", snake(text(0)), branch(1), branch(2))
            }
            "Fn::Not" => format!("!({})", item(0).map_or_else(String::new, |it| self.expression(it))),
            "Fn::Equals" => {
                let side = |n: usize| item(n).map_or_else(String::new, |it| self.expression(it));
                format!("{} == {}", side(0), side(1))
            }
            _ => return None,
        })
    }

    /// The text of `Fn::Sub`, its references as `${…}`.
    fn filled(&self, text: &str) -> String {
        let mut parts = text.split("${");
        let mut out = escaped(parts.next().unwrap_or_default());
        for part in parts {
            let (name, rest) = part.split_once('}').unwrap_or((part, ""));
            let _ = write!(out, "${{{}}}{}", self.reference(name), escaped(rest));
        }
        out
    }

    /// A value, as JSON of a module has it.
    pub fn value(&self, node: &Node) -> Node {
        if let Some(text) = node.get("Fn::Sub").and_then(Node::text) {
            return self.filled(text).into();
        }
        if let Some(expression) = self.function(node) {
            return format!("${{{expression}}}").into();
        }
        match node {
            Node::Map(all) => Node::Map(all.iter().map(|(key, value)| (key.clone(), self.value(value))).collect()),
            Node::List(all) => Node::List(all.iter().map(|it| self.value(it)).collect()),
            Node::Text(text) => escaped(text).into(),
            other => other.clone(),
        }
    }

    /// A value within an expression.
    pub fn expression(&self, node: &Node) -> String {
        if let Some(expression) = self.function(node) {
            return expression;
        }
        match node {
            Node::Map(all) => {
                let one = |(key, value): &(String, Node)| format!("\"{}\" = {}", quoted(key), self.expression(value));
                format!("{{ {} }}", all.iter().map(one).collect::<Vec<_>>().join(", "))
            }
            Node::List(all) => {
                format!("[{}]", all.iter().map(|it| self.expression(it)).collect::<Vec<_>>().join(", "))
            }
            Node::Text(text) => format!("\"{}\"", quoted(&escaped(text))),
            Node::Int(number) => number.to_string(),
            Node::Float(number) => number.to_string(),
            Node::Bool(yes) => yes.to_string(),
            Node::Setting(_, value) => self.expression(value),
        }
    }
}

/// Text in which nothing is taken for a template of the language.
fn escaped(text: &str) -> String {
    text.replace("${", "$${").replace("%{", "%%{")
}

/// Text between quotes of an expression.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
