//! The same stack as a module of OpenTofu or Terraform: its variables are the template's parameters, it puts the templates
//! into a bucket, and it makes the stack of them.

use super::declared;
use crate::fleet::Fleet;
use crate::node::Node;
use crate::{list, map};

/// `main.tf.json`, for the folder that the templates are in; `files` are their names, the fleet's own first.
pub fn module(fleet: &Fleet, files: &[String]) -> Node {
    let declared = declared(fleet);
    let mut variables = vec![
        variable("bucket", "string", "The bucket that templates are put into.", None),
        variable("name", "string", "The stack's name.", Some(fleet.settings.name.clone().into())),
        variable("region", "string", "The bucket's region.", Some(fleet.settings.aws.region.clone().into())),
    ];
    let mut parameters = Vec::new();
    for (name, parameter) in declared.entries() {
        let text = |key: &str| parameter.get(key).and_then(Node::text).unwrap_or_default();
        let kind = if text("Type") == "Number" { "number" } else { "string" };
        variables.push(variable(&snake(name), kind, text("Description"), parameter.get("Default").cloned()));
        parameters.push((name.clone(), format!("${{var.{}}}", snake(name)).into()));
    }
    let output = |name: &str| map! { "value" => format!("${{aws_cloudformation_stack.fleet.outputs[\"{name}\"]}}") };
    // Names change with the content: a changed template is a changed address, and the stack is updated.
    let object = map! {
        "for_each" => "${toset(local.files)}",
        "bucket" => "${var.bucket}",
        "key" => "${local.prefix}/${each.value}",
        "content" => "${replace(file(\"${path.module}/${each.value}\"), \"./sets-\", \"${local.url}/sets-\")}",
    };
    let stack = map! {
        "name" => "${var.name}",
        "template_url" => format!("${{local.url}}/{}", files.first().map_or("weir.yaml", String::as_str)),
        "capabilities" => list!["CAPABILITY_IAM"],
        "parameters" => Node::Map(parameters),
        "depends_on" => list!["aws_s3_object.template"],
    };
    map! {
        "terraform" => map! {
            "required_version" => ">= 1.5",
            "required_providers" => map! { "aws" => map! { "source" => "hashicorp/aws", "version" => ">= 5.0" } },
        },
        "variable" => Node::Map(variables),
        "locals" => map! {
            "files" => files.iter().map(Node::from).collect::<Vec<_>>(),
            "prefix" => "${var.name}/${md5(join(\"\", [for name in local.files : filemd5(\"${path.module}/${name}\")]))}",
            "url" => "https://${var.bucket}.s3.${var.region}.amazonaws.com/${local.prefix}",
        },
        "resource" => map! {
            "aws_s3_object" => map! { "template" => object },
            "aws_cloudformation_stack" => map! { "fleet" => stack },
        },
        "output" => map! { "group" => output("Group"), "pfcp_addresses" => output("PfcpAddresses") },
    }
}

fn variable(name: &str, kind: &str, about: &str, default: Option<Node>) -> (String, Node) {
    let mut variable = map! { "type" => kind, "description" => about };
    if let Some(default) = default {
        variable.put("default", default);
    }
    (name.to_owned(), variable)
}

/// `OutpostArn` as `outpost_arn`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
