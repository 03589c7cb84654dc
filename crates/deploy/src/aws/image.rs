//! The machine image: weir from its source, by EC2 Image Builder.

use super::{attribute, reference, sub};
use crate::fleet::Fleet;
use crate::node::Node;
use crate::{list, map};

/// Steps of the build, run as root on a fresh Amazon Linux.
const BUILD: &str = "\
dnf install -y gcc gcc-c++ make git tar gzip ethtool iproute amazon-cloudwatch-agent
curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
mkdir -p /tmp/weir && cd /tmp/weir
aws s3 cp '${Source}' - | tar xz
. \"$HOME/.cargo/env\" && cargo build --release --locked -p weir
install -m 755 target/release/weir /usr/local/bin/weir
rm -rf /tmp/weir \"$HOME/.cargo\" \"$HOME/.rustup\"
";

pub fn template(fleet: &Fleet) -> Node {
    let arch = if fleet.machine.is_arm { "arm64" } else { "x86_64" };
    let parent = format!(
        "arn:${{AWS::Partition}}:imagebuilder:${{AWS::Region}}:aws:image/amazon-linux-2023-{}/x.x.x",
        if fleet.machine.is_arm { "arm64" } else { "x86" }
    );
    let step = |name: &str, commands: &str| {
        let commands = commands.lines().map(Node::from).collect::<Vec<_>>();
        map! { "name" => name, "action" => "ExecuteBash", "inputs" => map! { "commands" => commands } }
    };
    let phase = |name: &str, step: Node| map! { "name" => name, "steps" => list![step] };
    let component = map! {
        "name" => "weir",
        "schemaVersion" => 1.0,
        "phases" => list![
            phase("build", step("weir", BUILD)),
            phase("validate", step("version", "/usr/local/bin/weir --version")),
        ],
    };
    let service = |name: &str| map! { "Service" => name };
    let resource = |kind: &str, properties: Node| map! { "Type" => kind, "Properties" => properties };
    let name = || sub("${AWS::StackName}");
    map! {
        "AWSTemplateFormatVersion" => "2010-09-09",
        "Description" => format!("A machine image ({arch}) with weir built from source. Written by weir deploy aws."),
        "Parameters" => map! {
            "Source" => map! {
                "Type" => "String",
                "Description" => "weir's source as a .tar.gz in a bucket: s3://BUCKET/weir.tar.gz",
                "AllowedPattern" => "^s3://[a-z0-9][a-z0-9./_-]+$",
            },
            "Version" => map! { "Type" => "String", "Default" => "0.1.0", "AllowedPattern" => "^[0-9]+\\.[0-9]+\\.[0-9]+$" },
            "BuildType" => map! { "Type" => "String", "Default" => if fleet.machine.is_arm { "c7g.2xlarge" } else { "c6i.2xlarge" } },
        },
        "Resources" => map! {
            "Role" => resource("AWS::IAM::Role", map! {
                "AssumeRolePolicyDocument" => map! {
                    "Version" => "2012-10-17",
                    "Statement" => list![map! { "Effect" => "Allow", "Action" => "sts:AssumeRole", "Principal" => service("ec2.amazonaws.com") }],
                },
                "ManagedPolicyArns" => list![
                    sub("arn:${AWS::Partition}:iam::aws:policy/EC2InstanceProfileForImageBuilder"),
                    sub("arn:${AWS::Partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"),
                    sub("arn:${AWS::Partition}:iam::aws:policy/AmazonS3ReadOnlyAccess"),
                ],
            }),
            "Profile" => resource("AWS::IAM::InstanceProfile", map! { "Roles" => list![reference("Role")] }),
            "Component" => resource("AWS::ImageBuilder::Component", map! {
                "Name" => name(), "Platform" => "Linux", "Version" => reference("Version"), "Data" => sub(component.yaml()),
            }),
            "Recipe" => resource("AWS::ImageBuilder::ImageRecipe", map! {
                "Name" => name(), "Version" => reference("Version"), "ParentImage" => sub(parent),
                "Components" => list![map! { "ComponentArn" => reference("Component") }],
                "BlockDeviceMappings" => list![map! {
                    "DeviceName" => "/dev/xvda",
                    "Ebs" => map! { "VolumeSize" => 20_i64, "VolumeType" => "gp3", "DeleteOnTermination" => true },
                }],
            }),
            "Infrastructure" => resource("AWS::ImageBuilder::InfrastructureConfiguration", map! {
                "Name" => name(), "InstanceProfileName" => reference("Profile"), "InstanceTypes" => list![reference("BuildType")],
                "TerminateInstanceOnFailure" => true,
            }),
            "Image" => resource("AWS::ImageBuilder::Image", map! {
                "ImageRecipeArn" => reference("Recipe"), "InfrastructureConfigurationArn" => reference("Infrastructure"),
            }),
        },
        "Outputs" => map! {
            "ImageId" => map! { "Description" => "For ImageId of weir.yaml.", "Value" => attribute("Image", "ImageId") },
        },
    }
}
