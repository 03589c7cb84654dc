//! The commands, in the order they are given in.

use super::{machines, network};
use crate::fleet::{Fleet, Gateway};
use crate::gateway::secrets;
use crate::settings::Case;

/// A template of more bytes is taken from a bucket only.
const TEMPLATE_BODY: usize = 51_200;

/// The command that creates the stack: a small template as it is; a large one, or one with stacks below, by a bucket.
pub fn command(fleet: &Fleet, bytes: usize, below: usize) -> String {
    let (name, region) = (&fleet.settings.name, &fleet.settings.aws.region);
    if bytes <= TEMPLATE_BODY && below == 0 {
        return format!(
            "\x20      aws cloudformation create-stack --region {region} --stack-name {name} --template-body file://weir.yaml \\\n\
             \x20        --capabilities CAPABILITY_IAM --parameters file://parameters.json\n"
        );
    }
    format!(
        "\x20      aws cloudformation package --region {region} --template-file weir.yaml --s3-bucket BUCKET \\\n\
         \x20        --output-template-file packaged.yaml\n\
         \x20      aws cloudformation deploy --region {region} --stack-name {name} --template-file packaged.yaml --s3-bucket BUCKET \\\n\
         \x20        --capabilities CAPABILITY_IAM --parameter-overrides file://parameters.json\n\n\
         \x20  By a bucket: the template has {bytes} bytes ({TEMPLATE_BODY} may be given directly) and {below} stacks below it.\n"
    )
}

pub fn readme(fleet: &Fleet, bytes: usize, below: usize) -> String {
    let (name, region) = (&fleet.settings.name, &fleet.settings.aws.region);
    format!(
        "# {name} on AWS\n\n{size}\n\n\
         1. The machine image, from source. Put `git archive --format=tar.gz -o weir.tar.gz HEAD` of weir into a bucket, then\n\n\
         \x20      aws cloudformation deploy --region {region} --stack-name {name}-image --template-file image.yaml \\\n\
         \x20        --capabilities CAPABILITY_IAM --parameter-overrides Source=s3://BUCKET/weir.tar.gz\n\n\
         2. The network and the fleet: {case}. Put the image's ID, an output of the first stack, into `parameters.json`, then\n\n\
         {secrets}{command}\n\
         \x20  A route table has {routes} routes; the quota is 50 unless raised, 1,000 at most.{hosts}\n\n\
         \x20  With OpenTofu or Terraform instead, the folder `terraform` is a module with resources of its own, no stack.\n\
         \x20  Variables without a default, those of the case among them, are to be given:\n\n\
         \x20      module \"{name}\" {{\n\
         \x20        source   = \"./FOLDER/terraform\"\n\
         \x20        image_id = \"ami-00000000000000000\"\n\
         \x20      }}\n\n\
         3. {reach}\n\n\
         {stay}\n\n\
         These templates are linted and checked; no stack was made of them.\n",
        size = size(fleet),
        case = case(fleet),
        secrets = secret_commands(fleet),
        command = command(fleet, bytes, below),
        routes = fleet.ordinals() + 5,
        hosts = hosts(fleet),
        reach = reach(fleet),
        stay = stay(fleet),
    )
}

fn size(fleet: &Fleet) -> String {
    let (machine, gateways) = (&fleet.machine.name, fleet.gateways());
    match fleet.fixed() {
        None => format!(
            "{} machines of {machine} to begin with, {} to {} by load; gateways on each: {gateways}.",
            fleet.machines,
            fleet.settings.least_machines,
            fleet.most_machines(),
        ),
        Some(all) => {
            format!("{} machines of {machine}; gateways on each: {gateways}, in all: {all}.", fleet.most_machines())
        }
    }
}

fn case(fleet: &Fleet) -> &'static str {
    match (fleet.gateway, fleet.settings.aws.case) {
        (Gateway::Upf, Case::Cloud) => "user planes and control planes in the region",
        (Gateway::Upf, Case::Outpost) => {
            "user planes on an Outpost, control planes in the region (subnet Control); name the Outpost there, too"
        }
        (Gateway::Upf, Case::Hybrid) => {
            "beside user planes at the premises, by Direct Connect; name its gateway there, too"
        }
        (_, Case::Cloud) => "gateways in the region",
        (_, Case::Outpost) => "gateways on an Outpost; name the Outpost there, too",
        (_, Case::Hybrid) => "gateways in the region, lines by Direct Connect; name its gateway there, too",
    }
}

/// Commands that put secrets where instances read them: no template has them.
fn secret_commands(fleet: &Fleet) -> String {
    let region = &fleet.settings.aws.region;
    let one = |(_, key): (&str, &str)| {
        format!(
            "\x20      aws ssm put-parameter --region {region} --type SecureString --name /{}/{key} --value file://FILE\n",
            fleet.settings.name
        )
    };
    secrets(fleet).into_iter().map(one).collect()
}

fn hosts(fleet: &Fleet) -> String {
    if !machines::are_on_hosts(fleet) {
        return String::new();
    }
    let all = fleet.machines.div_ceil(fleet.settings.aws.host_machines.max(1));
    format!(
        "\n\x20  {all} dedicated hosts at least, with room for a spare: the quota of a region is two of a family unless raised."
    )
}

fn reach(fleet: &Fleet) -> String {
    match fleet.gateway {
        Gateway::Upf => format!("Control planes find the gateways at {}.", network::pfcp_addresses(fleet).join(", ")),
        Gateway::Cmts => format!(
            "Remote-PHY devices, {} from the 16th address on, send to {}.",
            fleet.settings.cmts.devices,
            network::addresses(fleet, super::Kind::Access).join(", "),
        ),
        Gateway::Bng => {
            let bng = &fleet.settings.bng;
            let one = |(n, address): (usize, String)| match bng.tunnels.get(n % bng.tunnels.len().max(1)) {
                Some(end) => format!("       VNI {} between {end} and {address}\n", bng.first_vni + n as u32),
                None => String::new(),
            };
            let tunnels: String =
                network::addresses(fleet, super::Kind::Access).into_iter().enumerate().map(one).collect();
            format!(
                "Lines come by VXLAN, UDP port 4789, with their VLAN tags; paths need 1,572 bytes:\n\n{tunnels}\n\
                 \x20  RADIUS servers find the gateways at {}, UDP port 3799.",
                network::pfcp_addresses(fleet).join(", ")
            )
        }
    }
}

fn stay(fleet: &Fleet) -> String {
    let sets = "Interfaces, their addresses and routes";
    match fleet.fixed() {
        None => format!(
            "{sets} are made for {} machines and stay; instances take a free set when they\n\
             start. Before an instance is taken away it drains for {} seconds at most.",
            fleet.most_machines(),
            fleet.settings.drain_seconds,
        ),
        Some(_) => format!(
            "{sets} stay when an instance is replaced: the next takes the free set, and with it the gateways' files from\n\
             Parameter Store. A changed file is read when an instance boots. Lines and modems of a gateway are down meanwhile."
        ),
    }
}
