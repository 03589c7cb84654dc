//! Rules for templates: networks that lie in each other, interfaces with addresses, references, quotas.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::cidr::Cidr;
use crate::finding::Finding;
use crate::node::Node;

/// CloudFormation takes no more resources in a template.
const RESOURCES: usize = 500;
/// Nor more bytes, from a bucket.
const BYTES: usize = 1_000_000;
/// EC2 takes no more bytes of user data, before they are coded.
const USER_DATA: usize = 16_384;
/// Routes of a table at most; beyond 50 a quota has to be raised.
const ROUTES: usize = 1000;

/// What is wrong with a CloudFormation template beyond what cfn-lint sees.
pub fn cloud_formation(template: &Node) -> Vec<Finding> {
    let mut found = size(template);
    for finding in cloud_formation_of_stacks(template) {
        if !found.contains(&finding) {
            found.push(finding);
        }
    }
    found
}

/// Whether CloudFormation takes a template of this size, and everything it refers to is in it.
pub fn size(template: &Node) -> Vec<Finding> {
    let mut found = Vec::new();
    let resources = template.get("Resources").map(Node::entries).unwrap_or_default();
    if resources.len() > RESOURCES {
        let what = format!("{} resources", resources.len());
        found.push(Finding::at("Resources", what, format!("{RESOURCES} at most: fewer machines, or several stacks")));
    }
    let bytes = template.yaml().len();
    if bytes > BYTES {
        found.push(Finding::at("Resources", format!("{bytes} bytes"), format!("{BYTES} at most: several stacks")));
    }
    references(template, &mut found);
    found
}

/// What is wrong with a template before it is divided into stacks of a size that CloudFormation takes.
pub fn cloud_formation_of_stacks(template: &Node) -> Vec<Finding> {
    let mut found = Vec::new();
    let resources = template.get("Resources").map(Node::entries).unwrap_or_default();
    references(template, &mut found);
    subnets(resources, &mut found);
    interfaces(resources, &mut found);
    let mut tables: Vec<(&Node, usize)> = Vec::new();
    for (name, resource) in resources {
        let property = |key: &str| resource.at(&["Properties", key]);
        match resource.get("Type").and_then(Node::text) {
            Some("AWS::EC2::Route") => {
                let Some(table) = property("RouteTableId") else { continue };
                match tables.iter_mut().find(|(other, _)| *other == table) {
                    Some((_, count)) => *count += 1,
                    None => tables.push((table, 1)),
                }
            }
            Some("AWS::EC2::LaunchTemplate") => {
                let bytes = user_data(resource).map_or(0, str::len);
                if bytes > USER_DATA {
                    let what = format!("{bytes} bytes of user data");
                    let help = format!("{USER_DATA} at most; put the rest into the image");
                    found.push(Finding::at(&format!("Resources.{name}"), what, help));
                }
            }
            Some("AWS::AutoScaling::AutoScalingGroup") => {
                let size = |key: &str| property(key).and_then(Node::text).and_then(|text| text.parse::<u32>().ok());
                if let (Some(least), Some(most)) = (size("MinSize"), size("MaxSize"))
                    && least > most
                {
                    found.push(Finding::at(
                        &format!("Resources.{name}"),
                        format!("{least} to {most} machines"),
                        "least first",
                    ));
                }
            }
            _ => {}
        }
    }
    for (table, count) in tables {
        if count > ROUTES {
            let what = format!("{count} routes in a table");
            found.push(Finding::at(&format!("Resources.{}", table.yaml().trim()), what, format!("{ROUTES} at most")));
        }
    }
    found
}

fn user_data(resource: &Node) -> Option<&str> {
    let data = resource.at(&["Properties", "LaunchTemplateData", "UserData", "Fn::Base64"])?;
    data.text().or_else(|| data.at(&["Fn::Sub"])?.text())
}

/// What is referred to is there: Ref, GetAtt, Sub, Condition, DependsOn.
fn references(template: &Node, found: &mut Vec<Finding>) {
    let names = |section: &str| -> BTreeSet<&str> {
        template.get(section).map(Node::entries).unwrap_or_default().iter().map(|(name, _)| name.as_str()).collect()
    };
    let (resources, parameters, conditions) = (names("Resources"), names("Parameters"), names("Conditions"));
    let mut missing = BTreeSet::new();
    let is_there = |name: &str| name.starts_with("AWS::") || resources.contains(name) || parameters.contains(name);
    template.walk(&mut |node| {
        for (key, value) in node.entries() {
            let text = value.text().unwrap_or_default();
            match key.as_str() {
                "Ref" if !is_there(text) => missing.extend([text.to_owned()]),
                "Fn::GetAtt" => {
                    let name =
                        value.items().first().and_then(Node::text).unwrap_or(text.split('.').next().unwrap_or(text));
                    if !resources.contains(name) {
                        missing.insert(name.to_owned());
                    }
                }
                "Fn::If" => {
                    let name = value.items().first().and_then(Node::text).unwrap_or_default();
                    if !conditions.contains(name) {
                        missing.insert(name.to_owned());
                    }
                }
                "Condition" if value.text().is_some() && !conditions.contains(text) => {
                    missing.extend([text.to_owned()])
                }
                "DependsOn" => {
                    for name in value.text().into_iter().chain(value.items().iter().filter_map(Node::text)) {
                        if !resources.contains(name) {
                            missing.insert(name.to_owned());
                        }
                    }
                }
                "Fn::Sub" => {
                    let own = value.items().get(1).map(Node::entries).unwrap_or_default();
                    let body = value.items().first().and_then(Node::text).unwrap_or(text);
                    for name in body.split("${").skip(1).filter_map(|rest| rest.split('}').next()) {
                        let name = name.split('.').next().unwrap_or(name);
                        let is_own = own.iter().any(|(key, _)| key == name);
                        if !name.starts_with('!') && !is_own && !is_there(name) {
                            missing.insert(name.to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
    });
    for name in missing {
        let what = format!("\"{name}\" is referred to and is not there");
        found.push(Finding::at("Resources", what, "a resource, parameter or condition of that name"));
    }
}

/// A network that stands in a template as text.
fn network(resource: &Node) -> Option<Cidr> {
    resource.at(&["Properties", "CidrBlock"])?.text()?.parse().ok()
}

/// Subnets lie in their VPC, and apart from each other.
fn subnets(resources: &[(String, Node)], found: &mut Vec<Finding>) {
    let is_type = |resource: &Node, kind: &str| resource.get("Type").and_then(Node::text) == Some(kind);
    let all: Vec<(&String, Option<&Node>, Cidr)> = resources
        .iter()
        .filter(|(_, resource)| is_type(resource, "AWS::EC2::Subnet"))
        .filter_map(|(name, resource)| Some((name, resource.at(&["Properties", "VpcId"]), network(resource)?)))
        .collect();
    for (n, (name, vpc, subnet)) in all.iter().enumerate() {
        let of = vpc.and_then(|vpc| vpc.get("Ref")).and_then(Node::text);
        let whole = resources.iter().find(|(name, _)| Some(name.as_str()) == of).and_then(|(_, vpc)| network(vpc));
        if whole.is_some_and(|whole| !whole.contains(*subnet)) {
            found.push(Finding::at(
                &format!("Resources.{name}"),
                format!("{subnet} is not in its VPC"),
                "a part of it",
            ));
        }
        for (other, other_vpc, network) in &all[..n] {
            if vpc == other_vpc && network.overlaps(*subnet) {
                let what = format!("{subnet} overlaps {network} of {other}");
                found.push(Finding::at(&format!("Resources.{name}"), what, "parts of a VPC that are apart"));
            }
        }
    }
}

/// Interfaces have addresses of their subnets, each its own, and not the cloud's.
fn interfaces(resources: &[(String, Node)], found: &mut Vec<Finding>) {
    let mut taken: Vec<(&str, Ipv4Addr)> = Vec::new();
    for (name, resource) in resources {
        let text = |path: &[&str]| resource.at(path).and_then(Node::text);
        if text(&["Type"]) != Some("AWS::EC2::NetworkInterface") {
            continue;
        }
        let place = format!("Resources.{name}");
        if resource.at(&["Properties", "SourceDestCheck"]) != Some(&Node::Bool(false)) {
            found.push(Finding::at(&place, "packets that are not its own would be dropped", "SourceDestCheck: false"));
        }
        let (Some(subnet), Some(address)) =
            (text(&["Properties", "SubnetId", "Ref"]), text(&["Properties", "PrivateIpAddress"]))
        else {
            found.push(Finding::at(&place, "no subnet or no address", "both: routes lead to it"));
            continue;
        };
        let whole = resources.iter().find(|(name, _)| name == subnet).and_then(|(_, subnet)| network(subnet));
        let Ok(address) = address.parse::<Ipv4Addr>() else { continue };
        let is_usable = |whole: Cidr| {
            let n = u64::from(address.to_bits()) - u64::from(whole.address(0).map_or(0, Ipv4Addr::to_bits));
            n >= 4 && n + 1 < whole.size()
        };
        if whole.is_none_or(|whole| !whole.has(address) || !is_usable(whole)) {
            let what = format!("{address} is no usable address of {subnet}");
            found.push(Finding::at(&place, what, "from the fifth to the last but one"));
        }
        if taken.contains(&(subnet, address)) {
            found.push(Finding::at(&place, format!("{address} is another's, too"), "an address of its own"));
        }
        taken.push((subnet, address));
    }
}
