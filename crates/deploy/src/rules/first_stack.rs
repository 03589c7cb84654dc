//! Rules for templates that cfn-lint accepts and whose stack fails, or does harm, when it is first created or changed.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::node::Node;

type Named = [(String, Node)];

fn kind(resource: &Node) -> &str {
    resource.get("Type").and_then(Node::text).unwrap_or_default()
}

fn property<'a>(resource: &'a Node, key: &str) -> Option<&'a Node> {
    resource.at(&["Properties", key])
}

fn refers(node: Option<&Node>) -> &str {
    node.and_then(|node| node.get("Ref")).and_then(Node::text).unwrap_or_default()
}

fn of_kind<'a>(resources: &'a Named, wanted: &'a str) -> impl Iterator<Item = (&'a str, &'a Node)> {
    resources.iter().filter(move |(_, it)| kind(it) == wanted).map(|(name, it)| (name.as_str(), it))
}

/// What goes wrong with a stack although its template is valid.
pub fn first_stack(template: &Node) -> Vec<Finding> {
    let resources = template.get("Resources").map(Node::entries).unwrap_or_default();
    let mut all = Vec::new();
    let found = &mut all;
    for (name, group) in of_kind(resources, "AWS::AutoScaling::AutoScalingGroup") {
        waits(name, group, resources, found);
        update(name, group, found);
        load(name, group, resources, found);
    }
    for (name, launch) in of_kind(resources, "AWS::EC2::LaunchTemplate") {
        let data = launch.at(&["Properties", "LaunchTemplateData", "UserData", "Fn::Base64"]);
        starts(name, script(data), resources, found);
    }
    for (name, host) in of_kind(resources, "AWS::EC2::Instance") {
        if property(host, "LaunchTemplate").is_some() {
            waits(name, host, resources, found);
            on_host(name, host, resources, found);
            continue;
        }
        let script = script(host.at(&["Properties", "UserData", "Fn::Base64"]));
        if !script.contains("/usr/local/bin/weir ") || !script.contains("systemctl enable --now") {
            let what = "an instance that starts nothing";
            found.push(Finding::at(&format!("Resources.{name}"), what, "user data with a service that runs weir"));
        }
        servers(name, script, resources, found);
    }
    outposts(resources, found);
    placement(resources, found);
    files(resources, found);
    for (name, home) in of_kind(resources, "AWS::DirectConnect::DirectConnectGatewayAssociation") {
        direct_connect(name, home, resources, found);
    }
    all
}

/// A script, with parameters to fill in or without.
fn script(coded: Option<&Node>) -> &str {
    let text = coded.and_then(|data| data.text().or_else(|| data.get("Fn::Sub")?.text()));
    text.unwrap_or_default()
}

/// A trial's servers are where routes lead to: the responder's interface.
fn servers(name: &str, script: &str, resources: &Named, found: &mut Vec<Finding>) {
    let Some(server) = script.lines().find_map(|line| line.strip_prefix("server_first = \"")?.strip_suffix('"')) else {
        return;
    };
    let has = of_kind(resources, "AWS::EC2::NetworkInterface")
        .any(|(_, it)| property(it, "PrivateIpAddress").and_then(Node::text) == Some(server));
    if !has {
        let what = format!("its traffic goes to {server}, which no interface has: nothing would come back");
        found.push(Finding::at(&format!("Resources.{name}"), what, "the responder's address"));
    }
}

/// NAT gateways and attachments of transit gateways are in subnets of the region.
fn outposts(resources: &Named, found: &mut Vec<Finding>) {
    let is_on_outpost =
        |subnet: &str| resources.iter().any(|(name, it)| name == subnet && property(it, "OutpostArn").is_some());
    for (name, resource) in resources {
        let subnets = match kind(resource) {
            "AWS::EC2::NatGateway" => property(resource, "SubnetId").into_iter().collect(),
            "AWS::EC2::TransitGatewayAttachment" => {
                property(resource, "SubnetIds").map(Node::items).unwrap_or_default().iter().collect::<Vec<_>>()
            }
            _ => continue,
        };
        for subnet in subnets.into_iter().map(|subnet| refers(Some(subnet))).filter(|subnet| is_on_outpost(subnet)) {
            let what = format!("it is in {subnet}, on an Outpost, which has none");
            found.push(Finding::at(&format!("Resources.{name}"), what, "a subnet of the region"));
        }
    }
}

/// Everything that a resource waits for, directly or by what it waits for.
fn before<'a>(name: &'a str, resources: &'a Named) -> BTreeSet<&'a str> {
    let mut all = BTreeSet::new();
    let mut open = vec![name];
    while let Some(next) = open.pop() {
        let Some((_, resource)) = resources.iter().find(|(name, _)| name == next) else { continue };
        let on = resource.get("DependsOn");
        let named = on
            .and_then(Node::text)
            .into_iter()
            .chain(on.map(Node::items).unwrap_or_default().iter().filter_map(Node::text));
        for other in named {
            if all.insert(other) {
                open.push(other);
            }
        }
    }
    all
}

/// An instance finds its sets, and the cloud's own services, from its first second.
fn waits(name: &str, group: &Node, resources: &Named, found: &mut Vec<Finding>) {
    let before = before(name, resources);
    let mut missing: Vec<&str> = of_kind(resources, "AWS::EC2::NetworkInterface")
        .filter(|(_, it)| it.get("Condition").is_none())
        .map(|(name, _)| name)
        .chain(of_kind(resources, "AWS::CloudFormation::Stack").map(|(name, _)| name))
        .collect();
    let zones = property(group, "VPCZoneIdentifier").map(Node::items).unwrap_or_default().iter();
    let first = group.at(&["Properties", "NetworkInterfaces", "0", "SubnetId"]);
    for subnet in zones.chain(first) {
        let subnet = refers(Some(subnet));
        for (both, association) in of_kind(resources, "AWS::EC2::SubnetRouteTableAssociation") {
            if refers(property(association, "SubnetId")) != subnet {
                continue;
            }
            missing.push(both);
            let table = refers(property(association, "RouteTableId"));
            let out = of_kind(resources, "AWS::EC2::Route").filter(|(_, route)| {
                refers(property(route, "RouteTableId")) == table
                    && property(route, "DestinationCidrBlock").and_then(Node::text) == Some("0.0.0.0/0")
            });
            missing.extend(out.map(|(name, _)| name));
        }
    }
    missing.retain(|name| !before.contains(name));
    if let Some(first) = missing.first() {
        let what = format!("its instances may start before {first} is there, and {} more", missing.len() - 1);
        found.push(Finding::at(&format!("Resources.{name}"), what, "DependsOn with all of them"));
    }
}

/// A change of the launch template reaches the instances, one at a time, and leaves their number to the scaling policy.
fn update(name: &str, group: &Node, found: &mut Vec<Finding>) {
    let place = format!("Resources.{name}");
    let rolling = group.at(&["UpdatePolicy", "AutoScalingRollingUpdate", "WaitOnResourceSignals"]);
    if rolling != Some(&Node::Bool(true)) {
        let what = "no update policy: a new image would reach no instance, or all at once";
        found.push(Finding::at(&place, what, "AutoScalingRollingUpdate that waits for signals"));
    }
    let size = ["UpdatePolicy", "AutoScalingScheduledAction", "IgnoreUnmodifiedGroupSizeProperties"];
    if group.at(&size) != Some(&Node::Bool(true)) {
        let what = "each update would set the number of instances back to the template's";
        found.push(Finding::at(&place, what, "IgnoreUnmodifiedGroupSizeProperties: true"));
    }
}

/// The number of instances follows the load, or is fixed.
fn load(name: &str, group: &Node, resources: &Named, found: &mut Vec<Finding>) {
    let scaled = of_kind(resources, "AWS::AutoScaling::ScalingPolicy")
        .any(|(_, policy)| refers(property(policy, "AutoScalingGroupName")) == name);
    let is_fixed = property(group, "MinSize") == property(group, "MaxSize");
    let place = format!("Resources.{name}");
    if !scaled && !is_fixed {
        found.push(Finding::at(&place, "nothing sets its number of instances", "a ScalingPolicy"));
    }
    if scaled && of_kind(resources, "AWS::SSM::Parameter").next().is_some() {
        let what = "a scaling policy would take gateways away whose sessions have nowhere to go";
        found.push(Finding::at(&place, what, "a fixed number of instances"));
    }
}

/// Instances on a host are in its zone.
fn on_host(name: &str, instance: &Node, resources: &Named, found: &mut Vec<Finding>) {
    let host = refers(property(instance, "HostId"));
    let zone_of = |wanted: &str| {
        resources.iter().find(|(name, _)| name == wanted).and_then(|(_, it)| property(it, "AvailabilityZone"))
    };
    let subnet = refers(instance.at(&["Properties", "NetworkInterfaces", "0", "SubnetId"]));
    if zone_of(host).is_none() || zone_of(host) != zone_of(subnet) {
        let what = format!("its host {host} is not in the zone of {subnet}");
        found.push(Finding::at(&format!("Resources.{name}"), what, "a host of the same zone"));
    }
}

/// Dedicated hosts are not in placement groups.
fn placement(resources: &Named, found: &mut Vec<Finding>) {
    for (name, launch) in of_kind(resources, "AWS::EC2::LaunchTemplate") {
        let placement = launch.at(&["Properties", "LaunchTemplateData", "Placement"]);
        let on_host = placement.and_then(|it| it.get("Tenancy")).and_then(Node::text) == Some("host");
        if on_host && placement.is_some_and(|it| it.get("GroupName").is_some()) {
            let what = "a dedicated host in a placement group: EC2 refuses the launch";
            found.push(Finding::at(&format!("Resources.{name}"), what, "one of the two"));
        }
    }
}

/// Parameter Store takes no longer value, in bytes.
const FILE: usize = 8192;

/// Every set's file is there, of a size that is taken, and without what is taken for a reference.
fn files(resources: &Named, found: &mut Vec<Finding>) {
    let all: Vec<(&str, &Node)> = of_kind(resources, "AWS::SSM::Parameter").collect();
    for (name, file) in &all {
        let text = property(file, "Value").and_then(Node::text).unwrap_or_default();
        if text.is_empty() || text.len() > FILE || text.contains("{{") {
            let what = format!("a file of {} bytes", text.len());
            found.push(Finding::at(&format!("Resources.{name}"), what, format!("1 to {FILE}, without {{{{")));
        }
    }
    if all.is_empty() {
        return;
    }
    let tagged = |it: &Node| {
        property(it, "Tags")
            .map(Node::items)
            .unwrap_or_default()
            .iter()
            .any(|tag| tag.get("Value").and_then(Node::text) == Some("access"))
    };
    let sets = of_kind(resources, "AWS::EC2::NetworkInterface").filter(|(_, it)| tagged(it)).count();
    if sets > 0 && sets != all.len() {
        let what = format!("{} files for {sets} sets of interfaces", all.len());
        found.push(Finding::at("Resources", what, "one for each"));
    }
}

/// What user data sets up is there after a reboot, and reports its health with the right to do so.
fn starts(name: &str, script: &str, resources: &Named, found: &mut Vec<Finding>) {
    let place = format!("Resources.{name}");
    let mut needs = |part: &str, what: &str| {
        if !script.contains(part) {
            found.push(Finding::at(&place, what, format!("user data with {part}")));
        }
    };
    needs("systemctl enable --now weir-boot", "its set-up runs once and is gone after a reboot");
    needs("Name=attachment.instance-id,Values=$INSTANCE", "after a reboot it would take a second set of interfaces");
    needs("/healthz", "nothing asks the gateways for their health");
    if of_kind(resources, "AWS::AutoScaling::AutoScalingGroup").next().is_some() {
        needs("autoscaling set-instance-health", "the group does not learn that a gateway has stopped answering");
        needs("cloudformation signal-resource", "an update would wait for a signal that is never sent");
    } else {
        needs("systemctl reboot", "nothing is done about a gateway that has stopped answering");
    }
    // Where metrics are read is where they are told.
    let files = of_kind(resources, "AWS::SSM::Parameter").filter_map(|(_, it)| property(it, "Value")?.text());
    let mut written: Vec<&str> = files.collect();
    // Files may be in stacks below: the whole was checked before it was divided.
    let is_below = of_kind(resources, "AWS::CloudFormation::Stack").next().is_some();
    if written.is_empty() && !(is_below && script.contains("ssm get-parameter")) {
        written.push(script);
    }
    let told = written.iter().all(|text| text.contains("[metrics]\naddress = \"@METRICS@\""));
    if !told || !script.contains("s|@METRICS@|$metrics|") || !script.contains("SCRAPED=\"$SCRAPED\\\"$metrics\\\",\"") {
        let what = "the agent reads the load from another address than the gateway's";
        found.push(Finding::at(&place, what, "one variable for both"));
    }
    for open in written.iter().flat_map(|text| text.split('"')).filter(|it| it.starts_with('@') && it.ends_with('@')) {
        if !script.contains(&format!("s|{open}|")) {
            found.push(Finding::at(&place, format!("{open} is never filled in"), "a line of the set-up that does"));
            break;
        }
    }
    may(&place, script, resources, found);
}

/// Calls of a script that need a right of its role, and the right.
const CALLS: [(&str, &str); 7] = [
    ("ec2 attach-network-interface", "ec2:AttachNetworkInterface"),
    ("ec2 assign-private-ip-addresses", "ec2:AssignPrivateIpAddresses"),
    ("ec2 attach-volume", "ec2:AttachVolume"),
    ("ec2 describe-volumes", "ec2:DescribeVolumes"),
    ("ssm get-parameter", "ssm:GetParameter"),
    ("autoscaling set-instance-health", "autoscaling:SetInstanceHealth"),
    ("cloudformation signal-resource", "cloudformation:SignalResource"),
];

/// The role may do what the script does; calls whose failure it does not mind are needed with a scaling group only.
fn may(place: &str, script: &str, resources: &Named, found: &mut Vec<Finding>) {
    let mut actions = BTreeSet::new();
    for (_, role) in of_kind(resources, "AWS::IAM::Role") {
        role.walk(&mut |node| {
            if let Some(allowed) = node.get("Action") {
                actions.extend(allowed.items().iter().chain([allowed]).filter_map(Node::text));
            }
        });
    }
    let has_group = of_kind(resources, "AWS::AutoScaling::AutoScalingGroup").next().is_some();
    let mut calls = CALLS.to_vec();
    calls.push(("autoscaling complete-lifecycle-action", "autoscaling:CompleteLifecycleAction"));
    calls.retain(|(call, _)| has_group || !(call.starts_with("autoscaling") || call.starts_with("cloudformation")));
    for (call, action) in calls {
        if script.contains(call) && !actions.contains(action) {
            let what = format!("its script calls `aws {call}` without the right to");
            found.push(Finding::at(place, what, format!("{action} in its role")));
        }
    }
}

/// Direct Connect has a way in and a way back: its attachment is associated with a route table and propagates to it, and
/// subnets have routes towards it; a private gateway propagates to the tables.
fn direct_connect(name: &str, home: &Node, resources: &Named, found: &mut Vec<Finding>) {
    let place = format!("Resources.{name}");
    let gateway = refers(property(home, "AssociatedGatewayId"));
    let is = |wanted: &str| resources.iter().any(|(name, it)| name == gateway && kind(it) == wanted);
    let mut needs = |yes: bool, what: &str, help: &str| {
        if !yes {
            found.push(Finding::at(&place, what, help));
        }
    };
    if is("AWS::EC2::VPNGateway") {
        let learns = of_kind(resources, "AWS::EC2::VPNGatewayRoutePropagation")
            .any(|(_, it)| refers(property(it, "VpnGatewayId")) == gateway);
        needs(learns, "no subnet has a route to the premises", "VPNGatewayRoutePropagation");
        return;
    }
    let attachments: Vec<&str> = of_kind(resources, "Custom::DirectConnectAttachment")
        .filter(|(_, it)| refers(property(it, "TransitGatewayId")) == gateway)
        .map(|(name, _)| name)
        .collect();
    let has = |wanted: &str| {
        of_kind(resources, wanted).any(|(_, it)| {
            let of = property(it, "TransitGatewayAttachmentId").and_then(|it| it.at(&["Fn::GetAtt", "0"])?.text());
            of.is_some_and(|of| attachments.contains(&of))
        })
    };
    needs(
        has("AWS::EC2::TransitGatewayRouteTableAssociation"),
        "what comes from the premises meets no route table",
        "TransitGatewayRouteTableAssociation of its attachment",
    );
    needs(
        has("AWS::EC2::TransitGatewayRouteTablePropagation"),
        "no route leads back to the premises",
        "TransitGatewayRouteTablePropagation of its attachment",
    );
    let leads = of_kind(resources, "AWS::EC2::Route").any(|(_, it)| {
        it.get("Condition") == home.get("Condition") && refers(property(it, "TransitGatewayId")) == gateway
    });
    needs(leads, "no subnet has a route to the premises", "a Route by the transit gateway");
}
