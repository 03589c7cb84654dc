//! Jobs that try the gateways one after the other: a control plane brings up sessions, a generator sends their traffic.

use std::net::Ipv4Addr;

use super::{attachments, labels, object, security};
use crate::fleet::{FIRST_ADDRESS, Fleet};
use crate::node::Node;
use crate::trial::{SUBSCRIBERS, Trial};
use crate::{list, map};

/// Configurations, and a job that runs through the gateways.
pub fn jobs(fleet: &Fleet) -> Vec<Node> {
    let name = format!("{}-traffic", fleet.settings.name);
    let mut files = Node::Map(Vec::new());
    for ordinal in 0..fleet.ordinals() {
        if let Some((control, traffic)) = configurations(fleet, ordinal) {
            files.put(format!("cp-{ordinal}.toml"), control);
            files.put(format!("gen-{ordinal}.toml"), traffic);
        }
    }
    let config = object(fleet, "v1", "ConfigMap", &name, vec![("data", files)]);
    let its = &fleet.settings.kubernetes;
    // Sessions stay while traffic runs; the trial fails if a packet is lost.
    let script = format!(
        "set -eu\nn=$JOB_COMPLETION_INDEX\n\
         at=$(getent ahostsv4 {name}-$n.{name}.{namespace}.svc | head -n1 | cut -d' ' -f1)\n\
         : > /tmp/up.jsonl\n\
         weir cp /trial/cp-$n.toml --upf $at --sessions-out /tmp/up.jsonl --quiet &\ncp=$!\n\
         until [ \"$(wc -l < /tmp/up.jsonl)\" -ge {SUBSCRIBERS} ]; do kill -0 $cp; sleep 0.2; done\n\
         weir gen /trial/gen-$n.toml --json\nkill -INT $cp\nwait $cp\n",
        name = fleet.settings.name,
        namespace = its.namespace,
    );
    let container = map! {
        "name" => "trial",
        "image" => Node::setting("image", &its.image),
        "command" => list!["/bin/sh", "-c", script],
        "securityContext" => security(),
        "resources" => super::gateways::resources(fleet),
        "volumeMounts" => list![
            map! { "name" => "trial", "mountPath" => "/trial", "readOnly" => true },
            map! { "name" => "tmp", "mountPath" => "/tmp" },
        ],
    };
    let pod = map! {
        "restartPolicy" => "Never",
        "automountServiceAccountToken" => false,
        "containers" => list![container],
        "volumes" => list![
            map! { "name" => "trial", "configMap" => map! { "name" => &name } },
            map! { "name" => "tmp", "emptyDir" => map! {} },
        ],
    };
    let spec = map! {
        "completionMode" => "Indexed",
        "completions" => fleet.machines * fleet.gateways(),
        "parallelism" => 1_i64,
        "backoffLimit" => 0_i64,
        "ttlSecondsAfterFinished" => 86_400_i64,
        "template" => map! {
            "metadata" => map! { "labels" => labels(fleet, "traffic"), "annotations" => attachments(fleet, "gnb0", "dn0") },
            "spec" => pod,
        },
    };
    vec![config, object(fleet, "batch/v1", "Job", &name, vec![("spec", spec)])]
}

/// What a gateway's control plane and generator are told.
fn configurations(fleet: &Fleet, ordinal: u32) -> Option<(String, String)> {
    let its = &fleet.settings.kubernetes;
    let n3 = fleet.address(its.access, ordinal)?;
    let n6 = fleet.address(its.core, ordinal)?;
    // Behind all gateways.
    let gnb = its.access.address(u64::from(FIRST_ADDRESS) + u64::from(fleet.ordinals()) + 1)?;
    let router = its.core.address(1)?;
    let trial = Trial::of(fleet, ordinal, n3, gnb, (Ipv4Addr::new(198, 18, 0, 1), 16))?;
    let ports = format!(
        "n3 = \"packet:gnb0?mode=auto\"\nn6 = \"packet:dn0?mode=auto\"\nupf_n6 = \"{n6}\"\nanswer_n6 = [\"{router}\"]"
    );
    Some((trial.control(), trial.traffic(&ports)))
}
