//! The gateways themselves: what an instance is started with, and how many there are.

use super::{Resources, attribute, in_zone, machines, nothing, reference, sub, when};
use crate::fleet::{Fleet, Gateway};
use crate::gateway::Places;
use crate::node::Node;
use crate::{list, map};

const SETUP: &str = include_str!("../../../../deploy/aws/setup.sh");
const UNIT: &str = include_str!("../../../../deploy/systemd/weir@.service");

/// The auto-scaling group and all it needs; or instances on dedicated hosts.
pub fn group(fleet: &Fleet, resources: &mut Resources) {
    rights(fleet, resources);
    administration(fleet, resources);
    if fleet.cluster && !machines::are_on_hosts(fleet) {
        resources.add("Close", "AWS::EC2::PlacementGroup", map! { "Strategy" => "cluster" });
    }
    if fleet.fixed().is_some() {
        machines::files(fleet, resources);
    }
    if machines::has_ledgers(fleet) {
        machines::ledgers(fleet, resources);
    }
    resources.add("Launch", "AWS::EC2::LaunchTemplate", launch(fleet));
    if machines::are_on_hosts(fleet) {
        machines::on_hosts(fleet, resources);
        return;
    }
    scaling_group(fleet, resources);
    resources.after_all(before(fleet));
    resources.attribute("UpdatePolicy", update(fleet));
    if fleet.fixed().is_none() {
        by_load(resources);
    }
}

/// Who may reach the interface for administration: control planes, or RADIUS servers.
fn administration(fleet: &Fleet, resources: &mut Resources) {
    let from = |port: u32, cidr: String, about: &str| {
        map! {
            "IpProtocol" => "udp", "FromPort" => port, "ToPort" => port, "CidrIp" => cidr, "Description" => about,
        }
    };
    let ingress: Vec<Node> = match fleet.gateway {
        Gateway::Upf => super::peers(fleet).iter().map(|peer| from(8805, peer.to_string(), "PFCP")).collect(),
        Gateway::Bng => fleet.settings.bng.radius.iter().map(|it| from(3799, format!("{it}/32"), "CoA")).collect(),
        Gateway::Cmts => Vec::new(),
    };
    let about = match fleet.gateway {
        Gateway::Upf => "PFCP from control planes; administration by Session Manager",
        Gateway::Bng => "CoA from RADIUS servers; administration by Session Manager",
        Gateway::Cmts => "Administration by Session Manager",
    };
    let mut group = map! { "GroupDescription" => about, "VpcId" => reference("Vpc") };
    if !ingress.is_empty() {
        group.put("SecurityGroupIngress", ingress);
    }
    resources.add("Administration", "AWS::EC2::SecurityGroup", group);
}

fn scaling_group(fleet: &Fleet, resources: &mut Resources) {
    let zones = (0..fleet.zones).map(|zone| reference(in_zone("Admin", fleet, zone))).collect::<Vec<_>>();
    let hook = |name: &str, at: &str, seconds: u32| {
        map! {
            "LifecycleHookName" => name,
            "LifecycleTransition" => format!("autoscaling:EC2_INSTANCE_{at}"),
            "HeartbeatTimeout" => seconds,
            "DefaultResult" => if at == "LAUNCHING" { "ABANDON" } else { "CONTINUE" },
        }
    };
    // Where lines and modems belong to one gateway, there are as many as those need.
    let size = |parameter: &str| match fleet.fixed() {
        None => reference(parameter),
        Some(_) => fleet.most_machines().to_string().into(),
    };
    let group = map! {
        "AutoScalingGroupName" => sub("${AWS::StackName}-gateways"),
        "MinSize" => size("LeastMachines"),
        "MaxSize" => size("MostMachines"),
        "DesiredCapacity" => size("Machines"),
        "VPCZoneIdentifier" => zones,
        "LaunchTemplate" => map! {
            "LaunchTemplateId" => reference("Launch"), "Version" => attribute("Launch", "LatestVersionNumber"),
        },
        "HealthCheckType" => "EC2",
        "HealthCheckGracePeriod" => 300_i64,
        // The last to come is the first to go: control planes fill the others first.
        "TerminationPolicies" => list!["NewestInstance"],
        "LifecycleHookSpecificationList" => list![
            // An instance may have to wait for the set of one that drains.
            hook("launched", "LAUNCHING", (fleet.settings.drain_seconds + 900).min(7200)),
            hook("leaving", "TERMINATING", fleet.settings.drain_seconds + 60),
        ],
    };
    resources.add("Gateways", "AWS::AutoScaling::AutoScalingGroup", group);
}

/// As many instances as keep the mean load where it is wanted.
fn by_load(resources: &mut Resources) {
    let metric = map! {
        "Namespace" => "weir",
        "MetricName" => "weir_load_ratio",
        "Statistic" => "Average",
        "Dimensions" => list![map! { "Name" => "AutoScalingGroupName", "Value" => sub("${AWS::StackName}-gateways") }],
    };
    let policy = map! {
        "AutoScalingGroupName" => reference("Gateways"),
        "PolicyType" => "TargetTrackingScaling",
        "EstimatedInstanceWarmup" => 180_i64,
        "TargetTrackingConfiguration" => map! {
            "CustomizedMetricSpecification" => metric, "TargetValue" => reference("TargetLoad"),
        },
    };
    resources.add("ByLoad", "AWS::AutoScaling::ScalingPolicy", policy);
}

/// All that an instance needs from its first second, before the first one starts: sets of interfaces, and the route by
/// which it reaches the cloud's own services.
pub(super) fn before(fleet: &Fleet) -> Vec<String> {
    let mut all: Vec<String> = (0..fleet.fixed().unwrap_or(0)).map(|n| format!("File{n}")).collect();
    if machines::has_ledgers(fleet) {
        all.extend((0..fleet.most_machines()).map(|n| format!("Ledger{n}")));
    }
    let sets = (0..fleet.ordinals()).flat_map(|n| [format!("AccessInterface{n}"), format!("CoreInterface{n}")]);
    let ways = (0..fleet.zones).flat_map(|zone| ["Internet", "Table"].map(|it| in_zone("Admin", fleet, zone) + it));
    all.extend(sets.chain(ways));
    all
}

/// A changed launch template replaces instances one at a time, each once its successor has said that it runs. How many
/// there are meanwhile is the scaling policy's.
fn update(fleet: &Fleet) -> Node {
    let minutes = (fleet.settings.drain_seconds + 900).div_ceil(60).min(60);
    map! {
        "AutoScalingRollingUpdate" => map! {
            "MinInstancesInService" => 0_i64,
            "MaxBatchSize" => 1_i64,
            "WaitOnResourceSignals" => true,
            "PauseTime" => format!("PT{minutes}M"),
            "SuspendProcesses" => list!["HealthCheck", "ReplaceUnhealthy", "AZRebalance", "AlarmNotification", "ScheduledActions"],
        },
        "AutoScalingScheduledAction" => map! { "IgnoreUnmodifiedGroupSizeProperties" => true },
    }
}

/// What an instance may do: take a set of interfaces and an address, tell that it has started or may go, tell its load.
fn rights(fleet: &Fleet, resources: &mut Resources) {
    let may = |actions: Node, on: Node| map! { "Effect" => "Allow", "Action" => actions, "Resource" => on };
    // Only on what is tagged as this stack's: its instances, their own interfaces, the sets.
    let arn = |kind: &str| sub(format!("arn:${{AWS::Partition}}:ec2:${{AWS::Region}}:${{AWS::AccountId}}:{kind}/*"));
    let own = || map! { "StringEquals" => map! { "aws:ResourceTag/weir-stack" => reference("AWS::StackName") } };
    let mut attach = may(
        list!["ec2:AttachNetworkInterface", "ec2:AssignPrivateIpAddresses"],
        list![arn("network-interface"), arn("instance")],
    );
    attach.put("Condition", own());
    let group = "arn:${AWS::Partition}:autoscaling:${AWS::Region}:${AWS::AccountId}:autoScalingGroup:*:autoScalingGroupName/${AWS::StackName}-gateways";
    let stack = "arn:${AWS::Partition}:cloudformation:${AWS::Region}:${AWS::AccountId}:stack/${AWS::StackName}/*";
    let mut statements = vec![attach, may(list!["ec2:DescribeNetworkInterfaces"], "*".into())];
    if !machines::are_on_hosts(fleet) {
        let calls = list!["autoscaling:CompleteLifecycleAction", "autoscaling:SetInstanceHealth"];
        statements.push(may(calls, sub(group)));
        statements.push(may(list!["cloudformation:SignalResource"], sub(stack)));
    }
    if fleet.fixed().is_some() {
        let files = "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/${AWS::StackName}/*";
        statements.push(may(list!["ssm:GetParameter"], sub(files)));
    }
    if machines::has_ledgers(fleet) {
        let mut volumes = may(list!["ec2:AttachVolume"], list![arn("volume"), arn("instance")]);
        volumes.put("Condition", own());
        statements.extend([volumes, may(list!["ec2:DescribeVolumes"], "*".into())]);
    }
    let role = map! {
        "AssumeRolePolicyDocument" => map! {
            "Version" => "2012-10-17",
            "Statement" => list![map! {
                "Effect" => "Allow", "Action" => "sts:AssumeRole", "Principal" => map! { "Service" => "ec2.amazonaws.com" },
            }],
        },
        "ManagedPolicyArns" => list![
            sub("arn:${AWS::Partition}:iam::aws:policy/CloudWatchAgentServerPolicy"),
            sub("arn:${AWS::Partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"),
        ],
        "Policies" => list![map! {
            "PolicyName" => "gateway",
            "PolicyDocument" => map! { "Version" => "2012-10-17", "Statement" => statements },
        }],
    };
    resources.add("Role", "AWS::IAM::Role", role);
    resources.add("Profile", "AWS::IAM::InstanceProfile", map! { "Roles" => list![reference("Role")] });
}

/// Where instances are placed: on hosts of their own, or by the parameters.
fn placement(fleet: &Fleet) -> Node {
    if machines::are_on_hosts(fleet) {
        return map! { "Tenancy" => "host" };
    }
    let mut placement = map! {
        "Tenancy" => reference("Tenancy"),
        "HostResourceGroupArn" => when("OnHosts", reference("HostResourceGroupArn"), nothing()),
    };
    if fleet.cluster {
        placement.put("GroupName", reference("Close"));
    }
    placement
}

fn launch(fleet: &Fleet) -> Node {
    let tagged = |kind: &str| {
        let stack = map! { "Key" => "weir-stack", "Value" => reference("AWS::StackName") };
        let name = map! { "Key" => "Name", "Value" => sub("${AWS::StackName}-gateway") };
        map! { "ResourceType" => kind, "Tags" => list![name, stack] }
    };
    let mut data = map! {
        "ImageId" => reference("ImageId"),
        "InstanceType" => reference("InstanceType"),
        "IamInstanceProfile" => map! { "Arn" => attribute("Profile", "Arn") },
        "MetadataOptions" => map! { "HttpTokens" => "required", "HttpEndpoint" => "enabled" },
        "Placement" => placement(fleet),
        "BlockDeviceMappings" => list![map! {
            "DeviceName" => "/dev/xvda",
            "Ebs" => map! { "VolumeSize" => 20_i64, "VolumeType" => when("OnOutpost", "gp2", "gp3"), "Encrypted" => true },
        }],
        "TagSpecifications" => list![tagged("instance"), tagged("network-interface")],
        "UserData" => map! { "Fn::Base64" => sub(setup(fleet)) },
    };
    if !machines::are_on_hosts(fleet) {
        let first = map! {
            "DeviceIndex" => 0_i64, "Groups" => list![reference("Administration")], "DeleteOnTermination" => true,
        };
        data.put("NetworkInterfaces", list![first]);
    }
    map! { "LaunchTemplateData" => data }
}

/// What stands in a file until an instance fills it in; a set's own address where each gateway has a file.
pub(super) fn places(fleet: &Fleet) -> Places {
    let place = |name: &str| format!("@{name}@");
    Places {
        access_interface: place("ACCESS_IF"),
        core_interface: place("CORE_IF"),
        access_address: place("ACCESS"),
        core_address: place("CORE"),
        access_router: place("ACCESS_ROUTER"),
        core_router: place("CORE_ROUTER"),
        n4_address: place("N4"),
        peers: super::peers(fleet),
        cpus: Some(place("CPUS")),
        metrics: place("METRICS"),
        health: Some(place("HEALTH")),
        ledger: "/var/lib/weir/@GATEWAY_NUMBER@/ledger".to_owned(),
        any_mac: true,
        socket: "/run/weir/@GATEWAY_NUMBER@.sock".to_owned(),
    }
}

/// The script an instance starts with.
pub fn setup(fleet: &Fleet) -> String {
    let cpus = |of: fn(&Fleet, u32) -> Vec<u32>| {
        let list = |gateway| of(fleet, gateway).iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        (0..fleet.gateways()).map(list).collect::<Vec<_>>().join("/")
    };
    // 2 MiB pages for all gateways of the machine.
    let pages = fleet.gateways() * fleet.settings.hugepages_mib / 2;
    // What starts an instance is bounded: comments stay here.
    let is_kept = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let unit: String = UNIT.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect();
    let (run, ordinal) = match fleet.fixed() {
        None => (format!("--pool-from-ordinal {}", fleet.ordinals()), "WEIR_ORDINAL"),
        Some(_) => (String::new(), "GATEWAY_ORDINAL"),
    };
    machines::parts(fleet)
        .iter()
        .fold(SETUP.to_owned(), |text, (place, part)| text.replace(place, part))
        .replace("@UNIT@", &unit)
        .replace("@GATEWAYS@", &fleet.gateways().to_string())
        .replace("@RUN@", &run)
        .replace("@ORDINAL@", ordinal)
        .replace("@WORKERS@", &fleet.workers().to_string())
        .replace("@HUGEPAGES@", &pages.to_string())
        .replace("@DRAIN@", &fleet.settings.drain_seconds.to_string())
        .replace("@WORKER_CPUS@", &cpus(Fleet::worker_cpus))
        .replace("@INTERRUPT_CPUS@", &cpus(Fleet::interrupt_cpus))
}
