//! The module of OpenTofu and Terraform: arguments as the provider has them, the same resources as the template.

mod fleets;

use std::collections::BTreeMap;

use deploy::aws::{files, template};
use deploy::fleet::Fleet;
use deploy::node::Node;
use deploy::rules;
use serde_json::Value;

/// Arguments of the provider hashicorp/aws 6.25.0, for the resources that are written: resource, argument, whether it is
/// required, argument or block. From the types of @cdktf/provider-aws 21.22.1, which are made from the provider's schema.
const SCHEMA: &str = include_str!("provider/aws-6.25.0.tsv");

fn module(fleet: &Fleet) -> Value {
    let all = files(fleet).unwrap_or_else(|found| panic!("{found:?}"));
    let file = all.iter().find(|file| file.name == "terraform/main.tf.json").expect("a module");
    serde_json::from_str(&file.text).expect("JSON")
}

/// What of a block the provider does not take, or does not find.
fn unlike(kind: &str, path: &str, block: &Value, out: &mut Vec<String>) {
    const META: [&str; 3] = ["count", "depends_on", "lifecycle"];
    let rows: Vec<Vec<&str>> = SCHEMA.lines().map(|line| line.split('\t').collect()).collect();
    let of = |name: &str| rows.iter().find(|row| row[0] == kind && row[1] == format!("{path}{name}"));
    for block in block.as_array().unwrap_or(&vec![block.clone()]) {
        let given = block.as_object().expect("arguments");
        for (name, value) in given {
            if path.is_empty() && META.contains(&name.as_str()) {
                continue;
            }
            match of(name) {
                None => out.push(format!("{kind} has no {path}{name}")),
                Some(row) if row[3] == "block" => unlike(kind, &format!("{path}{name}."), value, out),
                Some(_) => {}
            }
        }
        let direct = |row: &&Vec<&str>| {
            row[0] == kind && row[1].strip_prefix(path).is_some_and(|name| !name.contains('.')) && row[2] == "required"
        };
        for row in rows.iter().filter(direct) {
            if !given.contains_key(&row[1][path.len()..]) {
                out.push(format!("{kind} needs {}", row[1]));
            }
        }
    }
}

fn judged(module: &Value) -> Vec<String> {
    let mut out = Vec::new();
    for (section, prefix) in [("resource", ""), ("data", "data.")] {
        for (kind, all) in module[section].as_object().expect("kinds") {
            let kind = format!("{prefix}{kind}");
            // These have no arguments.
            if kind == "terraform_data"
                || ["region", "partition", "caller_identity"].iter().any(|it| kind.ends_with(it))
            {
                continue;
            }
            all.as_object().expect("blocks").values().for_each(|block| unlike(&kind, "", block, &mut out));
        }
    }
    out
}

#[test]
fn arguments_are_those_of_the_provider() {
    for (name, fleet) in fleets::all() {
        let module = module(&fleet);
        // Beside the test, for those who have a provider.
        fleets::write(&format!("module-{name}"), &[deploy::File::new("main.tf.json", module.to_string())]);
        let found = judged(&module);
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

#[test]
fn arguments_of_no_provider_are_found() {
    let mut module = module(&fleets::upf());
    let vpc = module["resource"]["aws_vpc"]["vpc"].as_object_mut().expect("a VPC");
    vpc.insert("cidr".to_owned(), "10.0.0.0/16".into());
    let route = module["resource"]["aws_route"].as_object_mut().expect("routes");
    route.values_mut().next().expect("a route").as_object_mut().expect("a map").remove("route_table_id");
    assert_eq!(judged(&module), ["aws_route needs route_table_id", "aws_vpc has no cidr"]);
}

/// As many of each kind as in the template: nothing is lost in between.
#[test]
fn resources_are_those_of_the_template() {
    for (name, fleet) in fleets::all() {
        let module = module(&fleet);
        let template = template(&fleet);
        let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, resource) in template.get("Resources").map(Node::entries).expect("resources") {
            *wanted.entry(resource.get("Type").and_then(Node::text).expect("a type")).or_default() += 1;
        }
        let is_upf = fleet.fixed().is_none();
        for (there, here, of_a_trial) in [
            ("AWS::EC2::Subnet", "aws_subnet", 0),
            ("AWS::EC2::Route", "aws_route", 0),
            ("AWS::EC2::NetworkInterface", "aws_network_interface", 2),
            ("AWS::EC2::SecurityGroup", "aws_security_group", 2),
            ("AWS::EC2::TransitGatewayRouteTableAssociation", "aws_ec2_transit_gateway_route_table_association", 0),
            ("AWS::EC2::Host", "aws_ec2_host", 0),
            ("AWS::EC2::Volume", "aws_ebs_volume", 0),
            ("AWS::SSM::Parameter", "aws_ssm_parameter", 0),
            ("AWS::AutoScaling::AutoScalingGroup", "aws_autoscaling_group", 0),
        ] {
            let here = module["resource"][here].as_object().map_or(0, serde_json::Map::len);
            let trial = if is_upf { of_a_trial } else { 0 };
            assert_eq!(here + trial, wanted.get(there).copied().unwrap_or(0), "{name}: {there}");
        }
        for (parameter, declared) in template.get("Parameters").map(Node::entries).expect("parameters") {
            let variable = &module["variable"][deploy::module::snake(parameter)];
            let is_there = parameter != "Traffic";
            assert_eq!(variable.is_object(), is_there, "{name}: {parameter}");
            assert!(!is_there || variable.get("default").is_some() == declared.get("Default").is_some(), "{parameter}");
        }
    }
}

#[test]
fn references_that_lead_nowhere_are_found() {
    for name in ["aws_subnet", "aws_ec2_transit_gateway", "aws_network_interface"] {
        let fleet = fleets::upf();
        let mut module = deploy::module::module(&fleet, &template(&fleet));
        assert!(rules::module(&module).is_empty(), "{:?}", rules::module(&module));
        let Node::Map(sections) = &mut module else { panic!("a map") };
        let (_, resources) = sections.iter_mut().find(|(key, _)| key == "resource").expect("resources");
        let Node::Map(kinds) = resources else { panic!("a map") };
        kinds.retain(|(kind, _)| kind != name);
        let found = rules::module(&module);
        assert!(found.iter().any(|it| it.what.contains(name)), "{name}: {found:?}");
    }
}
