//! A fleet on Amazon's cloud, as CloudFormation.
//!
//! ```text
//!  generator VPC ──┐                 ┌── gateways' VPC, for each zone:
//!                  ├─ transit gateway ┤     public   NAT gateway, internet gateway
//!  responder VPC ──┘                 └     admin    instances, PFCP, metrics
//!                                          access   N3 interfaces, a set for each machine and gateway
//!                                          core     N6 interfaces; routes of subscribers' addresses lead here
//!                                          transit  the transit gateway's own
//! ```
//!
//! Cable gateways are in one VPC, without the transit gateway. Lines of broadband gateways come by VXLAN to the access
//! interfaces. Both have a file for each gateway (`machines.rs`), and their number is fixed.
//!
//! Instances of the auto-scaling group come and go; sets of interfaces, their addresses and the routes to them stay. An
//! instance that starts takes a free set (`deploy/aws/setup.sh`), and with it the set's share of subscribers.

mod direct_connect;
mod group;
mod image;
mod machines;
mod nested;
mod network;
mod readme;
mod traffic;

use crate::File;
use crate::cidr::Cidr;
use crate::finding::Finding;
use crate::fleet::{FIRST_ADDRESS, Fleet, Gateway};
use crate::node::Node;
use crate::settings::{Case, Io};
use crate::{list, map, monitoring, rules};

pub use group::setup;
pub use readme::command;

/// What is written for a fleet.
///
/// # Errors
/// What is wrong with it, or with what would be written.
pub fn files(fleet: &Fleet) -> Result<Vec<File>, Vec<Finding>> {
    let mut found = check(fleet);
    if !found.is_empty() {
        return Err(found);
    }
    let (whole, image) = (template(fleet), image::template(fleet));
    found.extend(rules::cloud_formation_of_stacks(&whole));
    found.extend(rules::first_stack(&whole));
    let module = crate::module::module(fleet, &whole);
    found.extend(rules::module(&module));
    found.extend(rules::reach(fleet, &whole));
    found.extend(rules::reach(fleet, &module));
    let (template, below) = nested::split(fleet, whole);
    found.extend(rules::first_stack(&template));
    for part in below.iter().map(|(_, part)| part).chain([&template]) {
        found.extend(rules::size(part));
    }
    found.extend(rules::cloud_formation(&image));
    if !found.is_empty() {
        return Err(found);
    }
    let [rules, dashboard] = monitoring::files(fleet.gateway.name());
    let text = template.yaml();
    let readme = readme::readme(fleet, text.len(), below.len());
    let mut files = vec![File::new("weir.yaml", text)];
    files.extend(below.iter().map(|(name, part)| File::new(name, part.yaml())));
    files.extend([
        File::new("terraform/main.tf.json", module.json()),
        File::new("image.yaml", image.yaml()),
        File::new("parameters.json", parameters(fleet).json()),
        File::new("README.md", readme),
        rules,
        dashboard,
    ]);
    Ok(files)
}

/// What is wrong with a fleet for this cloud, by the plan's keys.
fn check(fleet: &Fleet) -> Vec<Finding> {
    let mut found = rules::fleet(fleet);
    let aws = &fleet.settings.aws;
    if fleet.machine.provider != "aws" {
        let what = format!("{} is no instance type of AWS but of {}", fleet.machine.name, fleet.machine.provider);
        found.push(Finding::at("deploy.machine", what, "one of AWS, such as c5n.2xlarge"));
    }
    zones(fleet, &mut found);
    if aws.case == Case::Hybrid && network::is_single(fleet) && fleet.gateway != Gateway::Cmts {
        let what = "a private gateway leads to addresses of its VPC only; subscribers' are not among them";
        let help = "false in the hybrid case: a transit gateway leads to them";
        found.push(Finding::at("deploy.aws.single_vpc", what, help));
    }
    if fleet.gateways() > 9 {
        let what = format!("{} gateways a machine, each with an address on one interface", fleet.gateways());
        found.push(Finding::at("unit.share_interfaces", what, "9 at most"));
    }
    networks(fleet, &mut found);
    access(fleet, &mut found);
    if let Some(access) = subnet(fleet, 0, Kind::Access) {
        found.extend(rules::addresses(fleet, "deploy.most_machines", access));
    }
    found
}

/// As many zones as the plan spreads over, and one where a placement group or an Outpost is.
fn zones(fleet: &Fleet, found: &mut Vec<Finding>) {
    let aws = &fleet.settings.aws;
    if (aws.zones.len() as u32) < fleet.zones {
        let what = format!("{} zones are named, the plan spreads over {}", aws.zones.len(), fleet.zones);
        found.push(Finding::at("deploy.aws.zones", what, "as many letters as failure.zones"));
    }
    let is_letter = |zone: &String| zone.len() == 1 && zone.starts_with(|c: char| c.is_ascii_lowercase());
    let mut letters = aws.zones.clone();
    letters.sort_unstable();
    letters.dedup();
    if letters.len() != aws.zones.len() || !aws.zones.iter().all(is_letter) {
        found.push(Finding::at("deploy.aws.zones", "zones are told apart by letters", "such as [\"a\", \"b\"]"));
    }
    if fleet.cluster && fleet.zones > 1 {
        let what = format!("a cluster placement group is in one zone, the plan has {}", fleet.zones);
        found.push(Finding::at("placement.cluster", what, "cluster = false, or zones = 1 under [failure]"));
    }
    if aws.case == Case::Outpost && fleet.zones > 1 {
        let what = format!("an Outpost belongs to one zone, the plan has {}", fleet.zones);
        found.push(Finding::at("deploy.aws.case", what, "zones = 1 under [failure], or a stack for each Outpost"));
    }
}

/// Networks apart, and VPCs of a size that all subnets fit in.
fn networks(fleet: &Fleet, found: &mut Vec<Finding>) {
    let aws = &fleet.settings.aws;
    let mut networks = vec![
        ("deploy.ue_pool", fleet.settings.ue_pool),
        ("deploy.aws.vpc", aws.vpc),
        ("deploy.aws.on_premise", aws.on_premise),
    ];
    if !network::is_single(fleet) {
        networks
            .extend([("deploy.aws.generator_vpc", aws.generator_vpc), ("deploy.aws.responder_vpc", aws.responder_vpc)]);
    }
    found.extend(rules::apart(&networks));
    for (key, vpc) in networks.iter().filter(|(key, _)| key.ends_with("vpc")) {
        if !(16..=18).contains(&vpc.prefix()) {
            found.push(Finding::at(key, format!("{vpc} is no VPC for this"), "a prefix of 16 to 18 bits"));
        }
    }
}

/// What is on the access side of gateways that are wired is somewhere that a route leads to.
fn access(fleet: &Fleet, found: &mut Vec<Finding>) {
    let aws = &fleet.settings.aws;
    let mut reached: Vec<Cidr> = generator(fleet).into_iter().collect();
    if aws.case != Case::Cloud {
        reached.push(aws.on_premise);
    }
    let networks: Vec<String> = reached.iter().map(Cidr::to_string).collect();
    let help = format!("in {}; with aws.case = \"hybrid\" or \"outpost\", aws.on_premise too", networks.join(" or "));
    match fleet.gateway {
        Gateway::Cmts if !reached.iter().any(|network| network.contains(fleet.settings.cmts.devices)) => {
            let what = format!("no route leads to Remote-PHY devices in {}", fleet.settings.cmts.devices);
            found.push(Finding::at("deploy.cmts.devices", what, help));
        }
        Gateway::Bng if fleet.settings.io == Io::Xdp => {
            let what = "AF_XDP on the tunnels that lines come by, which copy every packet";
            found.push(Finding::at("deploy.io", what, "slots or ring"));
        }
        Gateway::Bng if fleet.settings.bng.tunnels.is_empty() => {
            let what = "a VPC carries no VLAN tags: lines come by VXLAN, whose other ends are not named";
            found.push(Finding::at("deploy.bng.tunnels", what, help));
        }
        Gateway::Bng => {
            let lost = fleet.settings.bng.tunnels.iter().find(|end| !reached.iter().any(|network| network.has(**end)));
            if let Some(end) = lost {
                found.push(Finding::at("deploy.bng.tunnels", format!("no route leads to {end}"), help));
            }
        }
        Gateway::Upf | Gateway::Cmts => {}
    }
}

/// Kinds of subnets, in the order they lie in a VPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Public,
    Admin,
    Access,
    Core,
    Transit,
    Generator,
    Responder,
    Control,
}

/// A zone's part of the gateways' VPC: eight parts for each zone.
pub(crate) fn subnet(fleet: &Fleet, zone: u32, kind: Kind) -> Option<Cidr> {
    let (vpc, parts) = (fleet.settings.aws.vpc, fleet.zones.max(1) * 8);
    // As small as 256 addresses, as large as all parts have room for.
    let largest = vpc.prefix() + parts.next_power_of_two().trailing_zeros() as u8;
    let wanted = u64::from(FIRST_ADDRESS) + u64::from(fleet.ordinals()) + 1;
    let fits = |prefix: &u8| 1_u64 << (32 - u32::from(*prefix)) >= wanted;
    let prefix = (largest.min(24)..=24).rev().find(fits).unwrap_or(largest.min(24));
    vpc.part(zone * 8 + kind as u32, prefix)
}

/// The generator's network.
pub(crate) fn generator(fleet: &Fleet) -> Option<Cidr> {
    match network::is_single(fleet) {
        true => subnet(fleet, 0, Kind::Generator),
        false => fleet.settings.aws.generator_vpc.part(0, 24),
    }
}

/// The responder's network.
pub(crate) fn responder(fleet: &Fleet) -> Option<Cidr> {
    match network::is_single(fleet) {
        true => subnet(fleet, 0, Kind::Responder),
        false => fleet.settings.aws.responder_vpc.part(0, 24),
    }
}

/// Networks that control planes send from: the gateways' VPC, the generator's, in the hybrid case the premises; or those
/// that the plan names.
fn peers(fleet: &Fleet) -> Vec<Cidr> {
    let aws = &fleet.settings.aws;
    let mut own = vec![aws.vpc];
    if !aws.single_vpc {
        own.push(aws.generator_vpc);
    }
    if aws.case == Case::Hybrid {
        own.push(aws.on_premise);
    }
    fleet.peers(&own)
}

/// The name of something in a zone: `AccessA`.
pub(crate) fn in_zone(what: &str, fleet: &Fleet, zone: u32) -> String {
    let letter = fleet.settings.aws.zones.get(zone as usize).map_or("X".to_owned(), |zone| zone.to_ascii_uppercase());
    format!("{what}{letter}")
}

/// Resources of a template, as they are added.
struct Resources(Vec<(String, Node)>);

impl Resources {
    fn add(&mut self, name: impl Into<String>, kind: &str, properties: Node) {
        self.0.push((name.into(), map! { "Type" => kind, "Properties" => properties }));
    }

    /// Adds one that is there under a condition.
    fn add_if(&mut self, condition: &str, name: impl Into<String>, kind: &str, properties: Node) {
        self.0.push((name.into(), map! { "Type" => kind, "Condition" => condition, "Properties" => properties }));
    }

    /// Lets the last one wait for others.
    fn after_all(&mut self, others: Vec<String>) {
        self.attribute("DependsOn", Node::List(others.into_iter().map(Node::from).collect()));
    }

    /// Adds an attribute to the last one, beside its properties.
    fn attribute(&mut self, name: &str, value: Node) {
        if let Some((_, resource)) = self.0.last_mut() {
            resource.put(name, value);
        }
    }

    /// Lets the last one wait for another.
    fn after(&mut self, other: &str) {
        if let Some((_, resource)) = self.0.last_mut() {
            resource.put("DependsOn", other);
        }
    }
}

fn reference(name: impl Into<String>) -> Node {
    map! { "Ref" => name.into() }
}

fn attribute(name: &str, attribute: &str) -> Node {
    map! { "Fn::GetAtt" => list![name, attribute] }
}

fn sub(text: impl Into<String>) -> Node {
    map! { "Fn::Sub" => text.into() }
}

fn when(condition: &str, then: impl Into<Node>, otherwise: impl Into<Node>) -> Node {
    map! { "Fn::If" => list![condition, then.into(), otherwise.into()] }
}

/// Nothing, where a condition does not hold.
fn nothing() -> Node {
    reference("AWS::NoValue")
}

/// A name, and the stack's.
fn tags(name: &str) -> Node {
    list![map! { "Key" => "Name", "Value" => sub(format!("${{AWS::StackName}}-{name}")) }]
}

/// The template of the network and the fleet.
pub fn template(fleet: &Fleet) -> Node {
    let mut resources = Resources(Vec::new());
    network::vpc(fleet, &mut resources);
    network::outside(fleet, &mut resources);
    match network::is_single(fleet) {
        true => network::private(fleet, &mut resources),
        false => network::transit(fleet, &mut resources),
    }
    network::sets(fleet, &mut resources);
    group::group(fleet, &mut resources);
    if fleet.gateway == Gateway::Upf {
        traffic::hosts(fleet, &mut resources);
    }
    let description = format!(
        "{}: {} machines of {}, gateways on each: {}; up to {}. Written by weir deploy aws.",
        fleet.settings.name,
        fleet.machines,
        fleet.machine.name,
        fleet.gateways(),
        fleet.most_machines()
    );
    map! {
        "AWSTemplateFormatVersion" => "2010-09-09",
        "Description" => description,
        "Parameters" => declared(fleet),
        "Conditions" => conditions(fleet),
        "Resources" => Node::Map(resources.0),
        "Outputs" => outputs(fleet),
    }
}

fn conditions(fleet: &Fleet) -> Node {
    let mut all = map! {
        "OnOutpost" => unless_empty("OutpostArn"),
        "ByLocalGateway" => unless_empty("LocalGatewayRouteTableId"),
        "ByDirectConnect" => unless_empty("DirectConnectGatewayId"),
    };
    if fleet.gateway == Gateway::Upf {
        all.put("WithTraffic", map! { "Fn::Equals" => list![reference("Traffic"), "yes"] });
    }
    if !machines::are_on_hosts(fleet) {
        all.put("OnHosts", map! { "Fn::Equals" => list![reference("Tenancy"), "host"] });
    }
    all
}

fn outputs(fleet: &Fleet) -> Node {
    let mut all = Node::Map(Vec::new());
    if !machines::are_on_hosts(fleet) {
        let group = map! { "Description" => "The gateways' auto-scaling group.", "Value" => reference("Gateways") };
        all.put("Group", group);
    }
    let (name, about) = match fleet.gateway {
        Gateway::Upf => ("PfcpAddresses", "Where control planes find the gateways, by ordinal."),
        Gateway::Cmts => ("DeviceAddresses", "Where Remote-PHY devices send to, by service group."),
        Gateway::Bng => ("CoaAddresses", "Where RADIUS servers find the gateways, by ordinal."),
    };
    let addresses = match fleet.gateway {
        Gateway::Cmts => network::addresses(fleet, Kind::Access),
        _ => network::pfcp_addresses(fleet),
    };
    all.put(name, map! { "Description" => about, "Value" => addresses.join(",") });
    all
}

fn unless_empty(parameter: &str) -> Node {
    map! { "Fn::Not" => list![map! { "Fn::Equals" => list![reference(parameter), ""] }] }
}

/// Parameters: what a plan cannot know, and what may be changed without writing the template again.
fn declared(fleet: &Fleet) -> Node {
    let text = |about: &str, default: &str| map! { "Type" => "String", "Description" => about, "Default" => default };
    // What the plan's case cannot do without has no default.
    let case = fleet.settings.aws.case;
    let of_case = |about: &str, needed: Case| match case == needed {
        true => map! { "Type" => "String", "Description" => about, "AllowedPattern" => "^.+$" },
        false => text(about, ""),
    };
    let one_of = |about: &str, default: &str, all: Node| {
        map! { "Type" => "String", "Description" => about, "Default" => default, "AllowedValues" => all }
    };
    let number = |about: &str, default: u32, most: u32| {
        map! { "Type" => "Number", "Description" => about, "Default" => default, "MinValue" => 1_i64, "MaxValue" => most }
    };
    let most = fleet.most_machines();
    let all = map! {
        "ImageId" => map! { "Type" => "AWS::EC2::Image::Id", "Description" => "The machine image that image.yaml builds." },
        "InstanceType" => map! {
            "Type" => "String",
            "Description" => "As planned; sets of interfaces fit types with as many interfaces or more.",
            "Default" => &fleet.machine.name,
        },
        "LeastMachines" => number("Machines the fleet shrinks to.", fleet.settings.least_machines, most),
        "Machines" => number("Machines to begin with: what the plan needs, spares with them.", fleet.machines, most),
        "MostMachines" => number("Machines the fleet grows to; there are sets of interfaces for no more.", most, most),
        "TargetLoad" => map! {
            "Type" => "Number",
            "Description" => "The mean of weir_load_ratio that machines are added and taken away for.",
            "Default" => fleet.settings.target_load,
        },
        "Tenancy" => one_of(
            "Tenancy: shared or dedicated hosts.",
            if fleet.dedicated { "dedicated" } else { "default" },
            list!["default", "dedicated", "host"],
        ),
        "HostResourceGroupArn" => text("With tenancy host: the group of dedicated hosts.", ""),
        "DirectConnectGatewayId" => of_case("A Direct Connect gateway that leads to the premises; empty: none.", Case::Hybrid),
        "OutpostArn" => of_case("The Outpost that the gateways' subnets are on; empty: the region.", Case::Outpost),
        "LocalGatewayId" => of_case("The Outpost's local gateway.", Case::Outpost),
        "LocalGatewayRouteTableId" => of_case("Its route table, to lead to the premises by it; empty: none.", Case::Outpost),
        "Traffic" => one_of("With a traffic generator and a responder.", "no", list!["yes", "no"]),
    };
    let Node::Map(mut all) = all else { return all };
    all.retain(|(name, _)| is_declared(fleet, name));
    Node::Map(all)
}

/// Whether a fleet has a parameter: those of its size and load only where they follow the load.
fn is_declared(fleet: &Fleet, name: &str) -> bool {
    match name {
        "LeastMachines" | "Machines" | "MostMachines" | "TargetLoad" | "Traffic" => fleet.fixed().is_none(),
        "Tenancy" | "HostResourceGroupArn" => !machines::are_on_hosts(fleet),
        _ => true,
    }
}

/// Values of the parameters, as the plan says.
fn parameters(fleet: &Fleet) -> Node {
    let value = |key: &str, value: String| map! { "ParameterKey" => key, "ParameterValue" => value };
    let mut all = vec![
        value("ImageId", "ami-00000000000000000".to_owned()),
        value("InstanceType", fleet.machine.name.clone()),
        value("LeastMachines", fleet.settings.least_machines.to_string()),
        value("Machines", fleet.machines.to_string()),
        value("MostMachines", fleet.most_machines().to_string()),
        value("TargetLoad", fleet.settings.target_load.to_string()),
        value("Tenancy", if fleet.dedicated { "dedicated" } else { "default" }.to_owned()),
    ];
    let of_case: &[(&str, &str)] = match fleet.settings.aws.case {
        Case::Cloud => &[],
        Case::Outpost => &[
            ("OutpostArn", "arn:aws:outposts:REGION:ACCOUNT:outpost/op-00000000000000000"),
            ("LocalGatewayId", "lgw-00000000000000000"),
            ("LocalGatewayRouteTableId", "lgw-rtb-00000000000000000"),
        ],
        Case::Hybrid => &[("DirectConnectGatewayId", "00000000-0000-0000-0000-000000000000")],
    };
    all.extend(of_case.iter().map(|(key, example)| value(key, (*example).to_owned())));
    let name = |it: &Node| it.get("ParameterKey").and_then(Node::text).unwrap_or_default().to_owned();
    all.retain(|it| is_declared(fleet, &name(it)));
    Node::List(all)
}
