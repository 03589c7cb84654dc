//! A traffic generator, which plays the control plane, too, and a responder: hosts to try the gateways with.

use super::{Resources, attribute, reference, tags};
use crate::fleet::Fleet;
use crate::{list, map};

/// Both, where they are asked for.
pub fn hosts(fleet: &Fleet, resources: &mut Resources) {
    let vpc_of = |name: &str| if fleet.settings.aws.single_vpc { "Vpc".to_owned() } else { format!("{name}Vpc") };
    for name in ["Generator", "Responder"] {
        let group = format!("{name}Group");
        let inside = map! {
            "GroupDescription" => "Traffic of a trial",
            "VpcId" => reference(vpc_of(name)),
            "SecurityGroupIngress" => list![map! { "IpProtocol" => "-1", "CidrIp" => "10.0.0.0/8", "Description" => "Inside" }],
        };
        resources.add_if("WithTraffic", &group, "AWS::EC2::SecurityGroup", inside);
        let interface = map! {
            "DeviceIndex" => "0",
            "SubnetId" => reference(name),
            "GroupSet" => list![attribute(&group, "GroupId")],
            "AssociatePublicIpAddress" => false,
        };
        let host = map! {
            "ImageId" => reference("ImageId"),
            "InstanceType" => reference("InstanceType"),
            "IamInstanceProfile" => reference("Profile"),
            "SourceDestCheck" => false,
            "NetworkInterfaces" => list![interface],
            "Tags" => tags(&name.to_ascii_lowercase()),
            "UserData" => map! { "Fn::Base64" => "#!/bin/bash\nsysctl -qw vm.nr_hugepages=256\n" },
        };
        resources.add_if("WithTraffic", format!("{name}Host"), "AWS::EC2::Instance", host);
    }
}
