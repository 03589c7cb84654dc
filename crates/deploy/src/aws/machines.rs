//! Gateways with lines or modems of their own: a file for each in Parameter Store, ledgers on volumes that stay, instances on
//! dedicated hosts; and what in the set-up differs from that of user planes.

use super::group::{before, places};
use super::{Resources, attribute, in_zone, network, nothing, reference, sub, when};
use crate::fleet::{Fleet, Gateway};
use crate::gateway::{secrets, toml};
use crate::{list, map};

/// Whether instances are placed on dedicated hosts by name. User planes take a group of hosts instead, by parameter.
pub fn are_on_hosts(fleet: &Fleet) -> bool {
    fleet.dedicated && fleet.fixed().is_some()
}

/// Whether each set has a volume for its ledgers.
pub fn has_ledgers(fleet: &Fleet) -> bool {
    fleet.gateway == Gateway::Bng
}

/// The files of the gateways, which instances read by ordinal. Secrets are parameters beside them that no template has.
pub fn files(fleet: &Fleet, resources: &mut Resources) {
    for ordinal in 0..fleet.ordinals() {
        let parameter = map! {
            "Type" => "String",
            "Tier" => "Intelligent-Tiering",
            "Name" => sub(format!("/${{AWS::StackName}}/gateway-{ordinal}")),
            "Value" => toml(fleet, &places(fleet), ordinal).unwrap_or_default(),
        };
        resources.add(format!("File{ordinal}"), "AWS::SSM::Parameter", parameter);
    }
}

/// A volume for the ledgers of each machine's gateways; it stays when instances are replaced.
pub fn ledgers(fleet: &Fleet, resources: &mut Resources) {
    for machine in 0..fleet.most_machines() {
        let tag = |key: &str, value| map! { "Key" => key, "Value" => value };
        let volume = map! {
            "AvailabilityZone" => network::zone_of(fleet, fleet.zone(machine)),
            "Size" => fleet.settings.kubernetes.ledger_gib * fleet.gateways(),
            "VolumeType" => when("OnOutpost", "gp2", "gp3"),
            "Encrypted" => true,
            "OutpostArn" => when("OnOutpost", reference("OutpostArn"), nothing()),
            "Tags" => list![
                tag("weir-stack", reference("AWS::StackName")),
                tag("weir-machine", machine.to_string().into()),
            ],
        };
        resources.add(format!("Ledger{machine}"), "AWS::EC2::Volume", volume);
        resources.attribute("DeletionPolicy", "Snapshot".into());
        resources.attribute("UpdateReplacePolicy", "Snapshot".into());
    }
}

/// Dedicated hosts with room for all instances and the plan's spares, and an instance for each machine.
pub fn on_hosts(fleet: &Fleet, resources: &mut Resources) {
    let room = fleet.settings.aws.host_machines.max(1);
    let zones = fleet.zones.max(1);
    // Machines of a zone are on hosts of that zone.
    let in_a_zone = |zone: u32| (0..fleet.machines).filter(|machine| fleet.zone(*machine) == zone).count() as u32;
    for zone in 0..zones {
        for n in 0..in_a_zone(zone).div_ceil(room) {
            let host = map! {
                "AvailabilityZone" => network::zone_of(fleet, zone),
                "InstanceType" => reference("InstanceType"),
                "AutoPlacement" => "off",
                "HostRecovery" => "on",
                "OutpostArn" => when("OnOutpost", reference("OutpostArn"), nothing()),
            };
            resources.add(in_zone(&format!("Host{n}"), fleet, zone), "AWS::EC2::Host", host);
        }
    }
    // What all instances wait for, in one place.
    resources.add("Ready", "AWS::CloudFormation::WaitConditionHandle", map! {});
    resources.after_all(before(fleet));
    for machine in 0..fleet.most_machines() {
        let zone = fleet.zone(machine);
        let host = in_zone(&format!("Host{}", machine / zones / room), fleet, zone);
        let first = map! {
            "DeviceIndex" => "0",
            "SubnetId" => reference(in_zone("Admin", fleet, zone)),
            "GroupSet" => list![reference("Administration")],
            "DeleteOnTermination" => true,
        };
        let instance = map! {
            "LaunchTemplate" => map! {
                "LaunchTemplateId" => reference("Launch"), "Version" => attribute("Launch", "LatestVersionNumber"),
            },
            "Tenancy" => "host",
            "HostId" => reference(host),
            "Affinity" => "host",
            "NetworkInterfaces" => list![first],
        };
        resources.add(format!("Machine{machine}"), "AWS::EC2::Instance", instance);
        resources.after("Ready");
    }
}

/// Mounts the set's volume, which the instance before may still hold. Its name in the system is the volume's.
const LEDGER: &str = "\
VOLUME=$(aws ec2 describe-volumes --output text --query 'Volumes[0].VolumeId' \\
  --filters \"Name=tag:weir-stack,Values=$STACK\" \"Name=tag:weir-machine,Values=$MACHINE\")
DISK=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_$(echo \"$VOLUME\" | tr -d -)
for _ in $(seq 60); do
  [ ! -e \"$DISK\" ] || break
  aws ec2 attach-volume --volume-id \"$VOLUME\" --instance-id \"$INSTANCE\" --device /dev/sdf || true
  sleep 5
done
blkid \"$DISK\" > /dev/null || mkfs.ext4 -q \"$DISK\"
mkdir -p /var/lib/weir
mountpoint -q /var/lib/weir || mount \"$DISK\" /var/lib/weir
chown weir:weir /var/lib/weir
";

/// Reads the gateway's own file; the last machine may have fewer gateways than the others.
const ITS_OWN: &str = "\
\x20 [ \"$access\" != None ] || break
  aws ssm get-parameter --output text --query Parameter.Value \\
    --name \"/$STACK/gateway-$((MACHINE * @GATEWAYS@ + gateway))\" > /etc/weir/gateway.template
";

/// A tunnel that carries frames with their VLAN tags, which the cloud's network does not. Gateways of a machine may have the
/// same other end, each by its own interface.
const LINES: &str = "\
\x20 end=$(tag \"$access\" weir-tunnel)
  networkctl reload || true
  ip link set \"$access_device\" mtu 8500 up
  ip address replace \"$(tag \"$access\" weir-first)\" dev \"$access_device\"
  ip route replace \"$end/32\" via \"$(tag \"$access\" weir-router)\" dev \"$access_device\" metric $((100 + gateway))
  sysctl -qw \"net.ipv4.conf.$access_device.rp_filter=2\"
  ip link show \"lines$gateway\" > /dev/null 2>&1 || ip link add \"lines$gateway\" type vxlan id \"$(tag \"$access\" weir-vni)\" \\
    remote \"$end\" local \"$(tag \"$access\" weir-first | cut -d/ -f1)\" dstport 4789 dev \"$access_device\"
  access_device=lines$gateway
  ip link set \"$access_device\" mtu 1508 up
";

const READY_ACCESS: &str = "  ready \"$access_device\" \"$(cpus '@INTERRUPT_CPUS@' \"$gateway\")\"\n";

const DRAINED: &str = "\
\x20   for socket in /run/weir/*.sock; do weir drain --wait @DRAIN@ --socket \"$socket\" & done
    wait
";

const UNHEALTHY: &str =
    "aws autoscaling set-instance-health --instance-id \"$INSTANCE\" --health-status Unhealthy || true";

/// What takes the place of marks in the set-up.
pub fn parts(fleet: &Fleet) -> Vec<(&'static str, String)> {
    let is_fixed = fleet.fixed().is_some();
    let has_lines = fleet.gateway == Gateway::Bng;
    let some = |yes: bool, text: &str| if yes { text.to_owned() } else { String::new() };
    let template = match is_fixed {
        true => String::new(),
        false => {
            let file = toml(fleet, &places(fleet), 0).unwrap_or_default();
            format!("cat > /etc/weir/gateway.template <<'GATEWAY'\n{file}GATEWAY\n")
        }
    };
    vec![
        ("@LEDGER@", some(has_ledgers(fleet), LEDGER)),
        ("@ITS_OWN@", some(is_fixed, ITS_OWN)),
        ("@LINES@", some(has_lines, LINES)),
        ("@READY_ACCESS@", some(!has_lines, READY_ACCESS)),
        ("@SECRETS@", filled_in(fleet)),
        // Lines and modems cannot be moved to another gateway: there is nothing to wait for.
        ("@DRAINED@", some(!is_fixed, DRAINED)),
        ("@UNHEALTHY@", if are_on_hosts(fleet) { "systemctl reboot".to_owned() } else { UNHEALTHY.to_owned() }),
        ("@TEMPLATE@", template),
    ]
}

/// Fills in secrets from Parameter Store; only the gateway may read the file then.
fn filled_in(fleet: &Fleet) -> String {
    let mut out = String::new();
    for (place, key) in secrets(fleet) {
        // What sed reads as its own in a replacement is escaped.
        out += &format!(
            "  secret=$(aws ssm get-parameter --output text --query Parameter.Value --with-decryption --name \"/$STACK/{key}\" |\n\
             \x20   sed 's/[&|\\]/\\\\&/g')\n\
             \x20 chgrp weir \"/etc/weir/$gateway.toml\"\n\
             \x20 chmod 640 \"/etc/weir/$gateway.toml\"\n\
             \x20 sed -i \"s|{place}|$secret|\" \"/etc/weir/$gateway.toml\"\n"
        );
    }
    out
}
