//! Each kind of resource of a template, as the provider has it.

use super::snake;
use super::value::Scope;
use crate::node::Node;
use crate::{list, map};

/// A block of the module.
pub struct Made {
    /// `resource` or `data`.
    pub block: &'static str,
    pub kind: String,
    pub name: String,
    pub body: Node,
    /// A script that instances start with: too long to stand within an expression.
    pub user_data: Option<Node>,
}

/// Kinds whose properties are arguments of the same name, apart from what `argument` says.
const KINDS: [(&str, &str); 29] = [
    ("AWS::EC2::VPC", "aws_vpc"),
    ("AWS::EC2::Subnet", "aws_subnet"),
    ("AWS::EC2::RouteTable", "aws_route_table"),
    ("AWS::EC2::SubnetRouteTableAssociation", "aws_route_table_association"),
    ("AWS::EC2::InternetGateway", "aws_internet_gateway"),
    ("AWS::EC2::LocalGatewayRouteTableVPCAssociation", "aws_ec2_local_gateway_route_table_vpc_association"),
    ("AWS::EC2::Route", "aws_route"),
    ("AWS::EC2::EIP", "aws_eip"),
    ("AWS::EC2::NatGateway", "aws_nat_gateway"),
    ("AWS::EC2::VPNGateway", "aws_vpn_gateway"),
    ("AWS::EC2::VPNGatewayRoutePropagation", "aws_vpn_gateway_route_propagation"),
    ("AWS::DirectConnect::DirectConnectGatewayAssociation", "aws_dx_gateway_association"),
    ("AWS::EC2::TransitGateway", "aws_ec2_transit_gateway"),
    ("AWS::EC2::TransitGatewayAttachment", "aws_ec2_transit_gateway_vpc_attachment"),
    ("AWS::EC2::TransitGatewayRouteTable", "aws_ec2_transit_gateway_route_table"),
    ("AWS::EC2::TransitGatewayRoute", "aws_ec2_transit_gateway_route"),
    ("AWS::EC2::TransitGatewayRouteTableAssociation", "aws_ec2_transit_gateway_route_table_association"),
    ("AWS::EC2::TransitGatewayRouteTablePropagation", "aws_ec2_transit_gateway_route_table_propagation"),
    ("AWS::EC2::SecurityGroup", "aws_security_group"),
    ("AWS::EC2::NetworkInterface", "aws_network_interface"),
    ("AWS::EC2::LaunchTemplate", "aws_launch_template"),
    ("AWS::AutoScaling::AutoScalingGroup", "aws_autoscaling_group"),
    ("AWS::AutoScaling::ScalingPolicy", "aws_autoscaling_policy"),
    ("AWS::IAM::Role", "aws_iam_role"),
    ("AWS::IAM::InstanceProfile", "aws_iam_instance_profile"),
    ("AWS::EC2::PlacementGroup", "aws_placement_group"),
    ("AWS::EC2::Host", "aws_ec2_host"),
    ("AWS::EC2::Volume", "aws_ebs_volume"),
    ("AWS::SSM::Parameter", "aws_ssm_parameter"),
];

/// What a kind of resource is called in the module; none: there is no such.
pub fn kind_of(resource: &Node) -> Option<&'static str> {
    let kind = resource.get("Type").and_then(Node::text)?;
    match kind {
        "AWS::EC2::VPCGatewayAttachment" if resource.at(&["Properties", "VpnGatewayId"]).is_some() => {
            Some("aws_vpn_gateway_attachment")
        }
        "AWS::EC2::VPCGatewayAttachment" => Some("aws_internet_gateway_attachment"),
        "AWS::EC2::Instance" => Some("aws_instance"),
        "AWS::CloudFormation::WaitConditionHandle" => Some("terraform_data"),
        "Custom::DirectConnectAttachment" => Some("data.aws_ec2_transit_gateway_dx_gateway_attachment"),
        _ => KINDS.iter().find(|(name, _)| *name == kind).map(|(_, kind)| *kind),
    }
}

/// What a property is called; none: it is left out.
fn argument(kind: &str, property: &str) -> Option<String> {
    Some(match (kind, property) {
        ("aws_vpn_gateway", "Type") => return None,
        ("aws_dx_gateway_association", "DirectConnectGatewayId") => "dx_gateway_id".to_owned(),
        ("aws_ec2_transit_gateway_dx_gateway_attachment", "DirectConnectGatewayId") => "dx_gateway_id".to_owned(),
        ("aws_ec2_transit_gateway_dx_gateway_attachment", "ServiceToken") => return None,
        ("aws_dx_gateway_association", "AllowedPrefixesToDirectConnectGateway") => "allowed_prefixes".to_owned(),
        ("aws_dx_gateway_association", "AssociatedGatewayId") => "associated_gateway_id".to_owned(),
        ("aws_ebs_volume", "VolumeType") => "type".to_owned(),
        (_, "DependsOn") => return None,
        _ => snake(property),
    })
}

/// The blocks of a resource of the template.
pub fn of(name: &str, resource: &Node, scope: &Scope) -> Vec<Made> {
    let Some(kind) = kind_of(resource) else { return Vec::new() };
    let empty = map! {};
    let properties = resource.get("Properties").unwrap_or(&empty);
    let name = snake(name);
    let one = |body: Node| vec![made(kind, &name, body)];
    match kind {
        "terraform_data" => one(map! {}),
        "aws_security_group" => security_group(&name, properties, scope),
        "aws_network_interface" => one(interface(properties, scope)),
        "aws_launch_template" => vec![launch_template(&name, properties, scope)],
        "aws_autoscaling_group" => one(scaling_group(properties, scope)),
        "aws_autoscaling_policy" => one(policy(properties, scope)),
        "aws_iam_role" => role(&name, properties, scope),
        "aws_iam_instance_profile" => {
            let role = properties.at(&["Roles", "0"]).map(|role| scope.value(role));
            one(map! { "role" => role.unwrap_or_else(|| "".into()) })
        }
        "aws_placement_group" => {
            let mut body = plain(kind, properties, scope);
            body.put("name", format!("${{var.name}}-{name}"));
            one(body)
        }
        "aws_instance" => one(instance(properties, scope)),
        "aws_ebs_volume" => {
            let mut body = plain(kind, properties, scope);
            body.put("final_snapshot", true);
            one(body)
        }
        "aws_vpn_gateway_route_propagation" => propagations(&name, properties, scope),
        _ => one(plain(kind.trim_start_matches("data."), properties, scope)),
    }
}

fn made(kind: &str, name: &str, body: Node) -> Made {
    let (block, kind) = match kind.strip_prefix("data.") {
        Some(kind) => ("data", kind),
        None => ("resource", kind),
    };
    Made { block, kind: kind.to_owned(), name: name.to_owned(), body, user_data: None }
}

/// Properties as arguments of the same name.
fn plain(kind: &str, properties: &Node, scope: &Scope) -> Node {
    let mut body = Node::Map(Vec::new());
    for (property, value) in properties.entries() {
        if let Some(name) = argument(kind, property) {
            body.put(name, if property == "Tags" { tags(value, scope) } else { scope.value(value) });
        }
    }
    body
}

fn tags(list: &Node, scope: &Scope) -> Node {
    let one = |tag: &Node| {
        let value = tag.get("Value").map_or_else(|| "".into(), |value| scope.value(value));
        (tag.get("Key").and_then(Node::text).unwrap_or_default().to_owned(), value)
    };
    Node::Map(list.items().iter().map(one).collect())
}

/// A value of a property at a path.
fn at(properties: &Node, path: &[&str], scope: &Scope) -> Node {
    properties.at(path).map_or_else(|| Node::Text(String::new()), |value| scope.value(value))
}

/// The group, a block for each of its rules, and what it may send: the provider takes away what the cloud permits.
fn security_group(name: &str, properties: &Node, scope: &Scope) -> Vec<Made> {
    let group = format!("${{aws_security_group.{name}.id}}");
    let body = map! {
        "name" => format!("${{var.name}}-{name}"),
        "description" => at(properties, &["GroupDescription"], scope),
        "vpc_id" => at(properties, &["VpcId"], scope),
    };
    let mut all = vec![made("aws_security_group", name, body)];
    for (n, rule) in properties.get("SecurityGroupIngress").map(Node::items).unwrap_or_default().iter().enumerate() {
        let mut body = map! { "security_group_id" => &group };
        for (key, value) in rule.entries() {
            let key = if key == "CidrIp" { "cidr_ipv4".to_owned() } else { snake(key) };
            body.put(key, scope.value(value));
        }
        all.push(made("aws_vpc_security_group_ingress_rule", &format!("{name}_{n}"), body));
    }
    let out = map! { "security_group_id" => &group, "ip_protocol" => "-1", "cidr_ipv4" => "0.0.0.0/0" };
    all.push(made("aws_vpc_security_group_egress_rule", name, out));
    all
}

fn interface(properties: &Node, scope: &Scope) -> Node {
    map! {
        "description" => at(properties, &["Description"], scope),
        "subnet_id" => at(properties, &["SubnetId"], scope),
        "private_ips" => list![at(properties, &["PrivateIpAddress"], scope)],
        "source_dest_check" => at(properties, &["SourceDestCheck"], scope),
        "security_groups" => at(properties, &["GroupSet"], scope),
        "tags" => properties.get("Tags").map_or_else(|| map! {}, |list| tags(list, scope)),
    }
}

fn launch_template(name: &str, properties: &Node, scope: &Scope) -> Made {
    let empty = map! {};
    let data = properties.get("LaunchTemplateData").unwrap_or(&empty);
    let mut body = map! {
        "name_prefix" => format!("${{var.name}}-{name}-"),
        "image_id" => at(data, &["ImageId"], scope),
        "instance_type" => at(data, &["InstanceType"], scope),
        "iam_instance_profile" => map! { "arn" => at(data, &["IamInstanceProfile", "Arn"], scope) },
        "metadata_options" => map! { "http_tokens" => "required", "http_endpoint" => "enabled" },
        "placement" => snaked(data.get("Placement").unwrap_or(&empty), scope),
        "block_device_mappings" => snaked(data.get("BlockDeviceMappings").unwrap_or(&empty), scope),
        "user_data" => "${base64encode(local.user_data)}",
    };
    let tagged = |it: &Node| {
        map! {
            "resource_type" => at(it, &["ResourceType"], scope),
            "tags" => it.get("Tags").map_or_else(|| map! {}, |list| tags(list, scope)),
        }
    };
    let all = data.get("TagSpecifications").map(Node::items).unwrap_or_default();
    body.put("tag_specifications", all.iter().map(tagged).collect::<Vec<_>>());
    if let Some(first) = data.at(&["NetworkInterfaces", "0"]) {
        let first = map! {
            "device_index" => at(first, &["DeviceIndex"], scope),
            "security_groups" => at(first, &["Groups"], scope),
            "delete_on_termination" => at(first, &["DeleteOnTermination"], scope),
        };
        body.put("network_interfaces", list![first]);
    }
    let user_data = data.at(&["UserData", "Fn::Base64"]).map(|text| scope.value(text));
    Made { user_data, ..made("aws_launch_template", name, body) }
}

/// Nested properties as nested blocks.
fn snaked(node: &Node, scope: &Scope) -> Node {
    match node {
        Node::Map(all) if !all.iter().any(|(key, _)| key == "Ref" || key.starts_with("Fn::")) => {
            Node::Map(all.iter().map(|(key, value)| (snake(key), snaked(value, scope))).collect())
        }
        Node::List(all) => Node::List(all.iter().map(|it| snaked(it, scope)).collect()),
        other => scope.value(other),
    }
}

fn scaling_group(properties: &Node, scope: &Scope) -> Node {
    let hook = |it: &Node| {
        map! {
            "name" => at(it, &["LifecycleHookName"], scope),
            "lifecycle_transition" => at(it, &["LifecycleTransition"], scope),
            "heartbeat_timeout" => at(it, &["HeartbeatTimeout"], scope),
            "default_result" => at(it, &["DefaultResult"], scope),
        }
    };
    let hooks = properties.get("LifecycleHookSpecificationList").map(Node::items).unwrap_or_default();
    map! {
        "name" => at(properties, &["AutoScalingGroupName"], scope),
        "min_size" => at(properties, &["MinSize"], scope),
        "max_size" => at(properties, &["MaxSize"], scope),
        "desired_capacity" => at(properties, &["DesiredCapacity"], scope),
        "vpc_zone_identifier" => at(properties, &["VPCZoneIdentifier"], scope),
        "launch_template" => map! {
            "id" => at(properties, &["LaunchTemplate", "LaunchTemplateId"], scope),
            "version" => at(properties, &["LaunchTemplate", "Version"], scope),
        },
        "health_check_type" => at(properties, &["HealthCheckType"], scope),
        "health_check_grace_period" => at(properties, &["HealthCheckGracePeriod"], scope),
        "termination_policies" => at(properties, &["TerminationPolicies"], scope),
        "initial_lifecycle_hook" => hooks.iter().map(hook).collect::<Vec<_>>(),
        // A changed launch template replaces instances one after the other, each once its successor has launched.
        "instance_refresh" => map! {
            "strategy" => "Rolling", "preferences" => map! { "min_healthy_percentage" => 90_i64 },
        },
        // Instances complete their launch themselves, and their number is the scaling policy's afterwards.
        "wait_for_capacity_timeout" => "0",
        "lifecycle" => map! { "ignore_changes" => list!["desired_capacity"] },
    }
}

fn policy(properties: &Node, scope: &Scope) -> Node {
    let metric = ["TargetTrackingConfiguration", "CustomizedMetricSpecification"];
    let of = |key: &'static str| at(properties, &[metric[0], metric[1], key], scope);
    let dimension = properties.at(&[metric[0], metric[1], "Dimensions", "0"]);
    map! {
        "name" => "${var.name}-by-load",
        "autoscaling_group_name" => at(properties, &["AutoScalingGroupName"], scope),
        "policy_type" => at(properties, &["PolicyType"], scope),
        "estimated_instance_warmup" => at(properties, &["EstimatedInstanceWarmup"], scope),
        "target_tracking_configuration" => map! {
            "target_value" => at(properties, &[metric[0], "TargetValue"], scope),
            "customized_metric_specification" => map! {
                "namespace" => of("Namespace"),
                "metric_name" => of("MetricName"),
                "statistic" => of("Statistic"),
                "metric_dimension" => dimension.map_or_else(|| map! {}, |it| snaked(it, scope)),
            },
        },
    }
}

/// The role, and its policies as blocks of their own. What only CloudFormation asks for is left out.
fn role(name: &str, properties: &Node, scope: &Scope) -> Vec<Made> {
    let json = |node: &Node| Node::Text(format!("${{jsonencode({})}}", scope.expression(node)));
    let empty = map! {};
    let trust = properties.get("AssumeRolePolicyDocument").unwrap_or(&empty);
    let body = map! { "name_prefix" => format!("${{var.name}}-{name}-"), "assume_role_policy" => json(trust) };
    let reference = format!("${{aws_iam_role.{name}.name}}");
    let mut all = vec![made("aws_iam_role", name, body)];
    for (n, arn) in properties.get("ManagedPolicyArns").map(Node::items).unwrap_or_default().iter().enumerate() {
        let body = map! { "role" => &reference, "policy_arn" => scope.value(arn) };
        all.push(made("aws_iam_role_policy_attachment", &format!("{name}_{n}"), body));
    }
    for (n, policy) in properties.get("Policies").map(Node::items).unwrap_or_default().iter().enumerate() {
        let statements = policy.at(&["PolicyDocument", "Statement"]).map(Node::items).unwrap_or_default();
        let signals = |it: &&Node| {
            let actions = it.get("Action").map(Node::items).unwrap_or_default();
            !actions.iter().filter_map(Node::text).any(|action| action.starts_with("cloudformation:"))
        };
        let statements: Vec<Node> = statements.iter().filter(signals).cloned().collect();
        let document = map! { "Version" => "2012-10-17", "Statement" => statements };
        let body = map! {
            "role" => &reference, "name" => at(policy, &["PolicyName"], scope), "policy" => json(&document),
        };
        all.push(made("aws_iam_role_policy", &format!("{name}_{n}"), body));
    }
    all
}

fn instance(properties: &Node, scope: &Scope) -> Node {
    let first = ["NetworkInterfaces", "0"];
    map! {
        "launch_template" => map! {
            "id" => at(properties, &["LaunchTemplate", "LaunchTemplateId"], scope),
            "version" => at(properties, &["LaunchTemplate", "Version"], scope),
        },
        "tenancy" => at(properties, &["Tenancy"], scope),
        "host_id" => at(properties, &["HostId"], scope),
        "subnet_id" => at(properties, &[first[0], first[1], "SubnetId"], scope),
        "vpc_security_group_ids" => at(properties, &[first[0], first[1], "GroupSet"], scope),
    }
}

/// The provider has one for each table.
fn propagations(name: &str, properties: &Node, scope: &Scope) -> Vec<Made> {
    let tables = properties.get("RouteTableIds").map(Node::items).unwrap_or_default();
    let one = |(n, table): (usize, &Node)| {
        let body = map! {
            "vpn_gateway_id" => at(properties, &["VpnGatewayId"], scope), "route_table_id" => scope.value(table),
        };
        let name = if n == 0 { name.to_owned() } else { format!("{name}_{n}") };
        made("aws_vpn_gateway_route_propagation", &name, body)
    };
    tables.iter().enumerate().map(one).collect()
}
