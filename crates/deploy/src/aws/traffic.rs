//! A traffic generator, which plays the control plane, too, and a responder: hosts to try the first gateway with.

use std::net::Ipv4Addr;

use super::{Kind, Resources, attribute, reference, subnet, tags};
use crate::cidr::Cidr;
use crate::fleet::{FIRST_ADDRESS, Fleet};
use crate::trial::Trial;
use crate::{list, map};

/// What both start with: the second interface is weir's; the hardware address of its network's router.
const BEGIN: &str = "\
#!/bin/bash
set -euo pipefail
sysctl -qw vm.nr_hugepages=256
mkdir -p /etc/weir
cat > /etc/weir/trial.sh <<'TRIAL'
set -euo pipefail
device=$(ip -o link | awk -F': ' '$2 !~ /^(lo|docker)/ {print $2}' | sed -n 2p)
printf '[Match]\\nName=%s\\n[Link]\\nUnmanaged=yes\\n' \"$device\" > /etc/systemd/network/10-weir.network
networkctl reload || true
ip link set \"$device\" mtu 1500 up
ip address replace @OWN@ dev \"$device\"
ping -c 1 -I \"$device\" @ROUTER@ > /dev/null || true
mac=$(ip neighbour show @ROUTER@ dev \"$device\" | sed -n 's/.*lladdr \\([^ ]*\\).*/\\1/p')
ip address flush dev \"$device\"
";

/// The unit that runs the trial, again until it succeeds: gateways may come later than these hosts.
const END: &str = "\
TRIAL
printf '[Unit]\\nAfter=network-online.target\\n[Service]\\nExecStart=/bin/bash /etc/weir/trial.sh\\nRestart=on-failure\\nRestartSec=30\\n[Install]\\nWantedBy=multi-user.target\\n' \\
  > /etc/systemd/system/weir-trial.service
systemctl daemon-reload
systemctl enable --now weir-trial
";

/// Both, where they are asked for.
pub fn hosts(fleet: &Fleet, resources: &mut Resources) {
    for name in ["Generator", "Responder"] {
        let Some(network) = network(fleet, name) else { continue };
        let (Some(address), Some(router)) = (network.address(FIRST_ADDRESS.into()), network.address(1)) else {
            continue;
        };
        let group = format!("{name}Group");
        let vpc = if fleet.settings.aws.single_vpc { "Vpc".to_owned() } else { format!("{name}Vpc") };
        let inside = map! {
            "GroupDescription" => "Traffic of a trial",
            "VpcId" => reference(vpc),
            "SecurityGroupIngress" => list![map! { "IpProtocol" => "-1", "CidrIp" => "10.0.0.0/8", "Description" => "Inside" }],
        };
        resources.add_if("WithTraffic", &group, "AWS::EC2::SecurityGroup", inside);
        // What it forwards or plays has other addresses than its own.
        let interface = map! {
            "SubnetId" => reference(name),
            "PrivateIpAddress" => address.to_string(),
            "SourceDestCheck" => false,
            "GroupSet" => list![attribute(&group, "GroupId")],
            "Tags" => tags(&name.to_ascii_lowercase()),
        };
        resources.add_if("WithTraffic", format!("{name}Interface"), "AWS::EC2::NetworkInterface", interface);
        let first = map! {
            "DeviceIndex" => "0",
            "SubnetId" => reference(name),
            "GroupSet" => list![attribute(&group, "GroupId")],
            "AssociatePublicIpAddress" => false,
        };
        let second = map! { "DeviceIndex" => "1", "NetworkInterfaceId" => reference(format!("{name}Interface")) };
        let own = format!("{address}/{}", network.prefix());
        let does = if name == "Generator" { generate(fleet, address) } else { respond() };
        let script = format!("{BEGIN}{does}{END}").replace("@OWN@", &own).replace("@ROUTER@", &router.to_string());
        let host = map! {
            "ImageId" => reference("ImageId"),
            "InstanceType" => reference("InstanceType"),
            "IamInstanceProfile" => reference("Profile"),
            "NetworkInterfaces" => list![first, second],
            "Tags" => tags(&name.to_ascii_lowercase()),
            "UserData" => map! { "Fn::Base64" => script },
        };
        resources.add_if("WithTraffic", format!("{name}Host"), "AWS::EC2::Instance", host);
    }
}

/// The subnet that a host is in.
fn network(fleet: &Fleet, name: &str) -> Option<Cidr> {
    if name == "Generator" { super::generator(fleet) } else { super::responder(fleet) }
}

/// Sessions at the first gateway, then their traffic: sent to N3, turned around by the responder behind N6.
fn generate(fleet: &Fleet, gnb: Ipv4Addr) -> String {
    let at = |kind| subnet(fleet, 0, kind).and_then(|network| fleet.address(network, 0));
    let (Some(n4), Some(n3)) = (at(Kind::Admin), at(Kind::Access)) else { return String::new() };
    // Routes lead to the responder's own address.
    let server = network(fleet, "Responder").and_then(|network| network.address(FIRST_ADDRESS.into()));
    let Some(trial) = server.and_then(|server| Trial::of(fleet, 0, n3, gnb, (server, 1))) else { return String::new() };
    let traffic = trial.traffic("n3 = \"packet:DEVICE?mode=auto\"\nmirror = \"elsewhere\"");
    format!(
        "cat > /etc/weir/cp.toml <<'CP'\n{}CP\nsed \"s|DEVICE|$device|\" > /etc/weir/gen.toml <<'GEN'\n{traffic}GEN\n\
         : > /run/up.jsonl\n/usr/local/bin/weir cp /etc/weir/cp.toml --upf {n4} --sessions-out /run/up.jsonl --quiet &\ncp=$!\n\
         until [ \"$(wc -l < /run/up.jsonl)\" -ge {} ]; do kill -0 $cp; sleep 1; done\n\
         /usr/local/bin/weir gen /etc/weir/gen.toml --n3-mac \"$mac\" --json\nkill -INT $cp\nwait $cp\n",
        trial.control(),
        trial.subscribers,
    )
}

fn respond() -> String {
    "/usr/local/bin/weir gen --responder --n6 \"packet:$device?mode=auto\" --n6-mac \"$mac\"\n".to_owned()
}
