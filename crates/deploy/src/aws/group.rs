//! The gateways themselves: what an instance is started with, and how many there are.

use super::{Resources, attribute, in_zone, nothing, reference, sub, when};
use crate::fleet::Fleet;
use crate::gateway::{Places, toml};
use crate::node::Node;
use crate::{list, map};

const SETUP: &str = include_str!("../../../../deploy/aws/setup.sh");
const UNIT: &str = include_str!("../../../../deploy/systemd/weir@.service");

/// The auto-scaling group and all it needs.
pub fn group(fleet: &Fleet, resources: &mut Resources) {
    rights(resources);
    let from = |protocol: &str, port: u32, cidr: String, about: &str| {
        map! {
            "IpProtocol" => protocol, "FromPort" => port, "ToPort" => port, "CidrIp" => cidr, "Description" => about,
        }
    };
    let peers = super::peers(fleet);
    let admin = map! {
        "GroupDescription" => "PFCP from control planes; administration by Session Manager",
        "VpcId" => reference("Vpc"),
        "SecurityGroupIngress" => Node::List(peers.iter().map(|peer| from("udp", 8805, peer.to_string(), "PFCP")).collect()),
    };
    resources.add("Administration", "AWS::EC2::SecurityGroup", admin);
    if fleet.cluster {
        resources.add("Close", "AWS::EC2::PlacementGroup", map! { "Strategy" => "cluster" });
    }
    resources.add("Launch", "AWS::EC2::LaunchTemplate", launch(fleet));
    let zones = (0..fleet.zones).map(|zone| reference(in_zone("Admin", fleet, zone))).collect::<Vec<_>>();
    let hook = |name: &str, at: &str, seconds: u32| {
        map! {
            "LifecycleHookName" => name,
            "LifecycleTransition" => format!("autoscaling:EC2_INSTANCE_{at}"),
            "HeartbeatTimeout" => seconds,
            "DefaultResult" => if at == "LAUNCHING" { "ABANDON" } else { "CONTINUE" },
        }
    };
    let group = map! {
        "AutoScalingGroupName" => sub("${AWS::StackName}-gateways"),
        "MinSize" => reference("LeastMachines"),
        "MaxSize" => reference("MostMachines"),
        "DesiredCapacity" => reference("Machines"),
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
    resources.after_all(before(fleet));
    resources.attribute("UpdatePolicy", update(fleet));
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
fn before(fleet: &Fleet) -> Vec<String> {
    let sets = (0..fleet.ordinals()).flat_map(|n| [format!("AccessInterface{n}"), format!("CoreInterface{n}")]);
    let ways = (0..fleet.zones).flat_map(|zone| ["Internet", "Table"].map(|it| in_zone("Admin", fleet, zone) + it));
    sets.chain(ways).collect()
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
fn rights(resources: &mut Resources) {
    let may = |actions: Node, on: Node| map! { "Effect" => "Allow", "Action" => actions, "Resource" => on };
    // Only on what is tagged as this stack's: its instances, their own interfaces, the sets.
    let arn = |kind: &str| sub(format!("arn:${{AWS::Partition}}:ec2:${{AWS::Region}}:${{AWS::AccountId}}:{kind}/*"));
    let mut attach = may(
        list!["ec2:AttachNetworkInterface", "ec2:AssignPrivateIpAddresses"],
        list![arn("network-interface"), arn("instance")],
    );
    let own = map! { "aws:ResourceTag/weir-stack" => reference("AWS::StackName") };
    attach.put("Condition", map! { "StringEquals" => own });
    let group = "arn:${AWS::Partition}:autoscaling:${AWS::Region}:${AWS::AccountId}:autoScalingGroup:*:autoScalingGroupName/${AWS::StackName}-gateways";
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
            "PolicyDocument" => map! {
                "Version" => "2012-10-17",
                "Statement" => list![
                    attach,
                    may(list!["ec2:DescribeNetworkInterfaces"], "*".into()),
                    may(list!["autoscaling:CompleteLifecycleAction", "autoscaling:SetInstanceHealth"], sub(group)),
                    may(
                        list!["cloudformation:SignalResource"],
                        sub("arn:${AWS::Partition}:cloudformation:${AWS::Region}:${AWS::AccountId}:stack/${AWS::StackName}/*"),
                    ),
                ],
            },
        }],
    };
    resources.add("Role", "AWS::IAM::Role", role);
    resources.add("Profile", "AWS::IAM::InstanceProfile", map! { "Roles" => list![reference("Role")] });
}

fn launch(fleet: &Fleet) -> Node {
    let placement = |with_group: bool| {
        let mut placement = map! {
            "Tenancy" => reference("Tenancy"),
            "HostResourceGroupArn" => when("OnHosts", reference("HostResourceGroupArn"), nothing()),
        };
        if with_group {
            placement.put("GroupName", reference("Close"));
        }
        placement
    };
    let tagged = |kind: &str| {
        let stack = map! { "Key" => "weir-stack", "Value" => reference("AWS::StackName") };
        let name = map! { "Key" => "Name", "Value" => sub("${AWS::StackName}-gateway") };
        map! { "ResourceType" => kind, "Tags" => list![name, stack] }
    };
    map! {
        "LaunchTemplateData" => map! {
            "ImageId" => reference("ImageId"),
            "InstanceType" => reference("InstanceType"),
            "IamInstanceProfile" => map! { "Arn" => attribute("Profile", "Arn") },
            "MetadataOptions" => map! { "HttpTokens" => "required", "HttpEndpoint" => "enabled" },
            "Placement" => placement(fleet.cluster),
            "NetworkInterfaces" => list![map! {
                "DeviceIndex" => 0_i64, "Groups" => list![reference("Administration")], "DeleteOnTermination" => true,
            }],
            "BlockDeviceMappings" => list![map! {
                "DeviceName" => "/dev/xvda",
                "Ebs" => map! { "VolumeSize" => 20_i64, "VolumeType" => when("OnOutpost", "gp2", "gp3"), "Encrypted" => true },
            }],
            "TagSpecifications" => list![tagged("instance"), tagged("network-interface")],
            "UserData" => map! { "Fn::Base64" => sub(setup(fleet)) },
        },
    }
}

/// The script an instance starts with.
pub fn setup(fleet: &Fleet) -> String {
    let place = |name: &str| format!("@{name}@");
    let places = Places {
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
    };
    let cpus = |of: fn(&Fleet, u32) -> Vec<u32>| {
        let list = |gateway| of(fleet, gateway).iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        (0..fleet.gateways()).map(list).collect::<Vec<_>>().join("/")
    };
    // 2 MiB pages for all gateways of the machine.
    let pages = fleet.gateways() * fleet.settings.hugepages_mib / 2;
    // What starts an instance is bounded: comments stay here.
    let is_kept = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let unit: String = UNIT.lines().filter(is_kept).flat_map(|line| [line, "\n"]).collect();
    SETUP
        .replace("@UNIT@", &unit)
        .replace("@GATEWAY@", &toml(fleet, &places, 0).unwrap_or_default())
        .replace("@GATEWAYS@", &fleet.gateways().to_string())
        .replace("@RUN@", &format!("--pool-from-ordinal {}", fleet.ordinals()))
        .replace("@WORKERS@", &fleet.workers().to_string())
        .replace("@HUGEPAGES@", &pages.to_string())
        .replace("@DRAIN@", &fleet.settings.drain_seconds.to_string())
        .replace("@WORKER_CPUS@", &cpus(Fleet::worker_cpus))
        .replace("@INTERRUPT_CPUS@", &cpus(Fleet::interrupt_cpus))
}
