//! The commands, in the order they are given in.

use std::fmt::Write;

use super::attachment;
use crate::fleet::{Fleet, Gateway};
use crate::gateway::secrets;
use crate::settings::{Attachment, Scaler};

pub fn readme(fleet: &Fleet) -> String {
    let mut out = head(fleet);
    let mut step = 4;
    if fleet.fixed().is_none() {
        let _ = write!(out, "{step}. {}", scaler(fleet));
        step += 1;
    }
    routes(fleet, step, &mut out);
    let its = &fleet.settings.kubernetes;
    if its.traffic && fleet.gateway == Gateway::Upf {
        let _ = write!(
            out,
            "\n{}. `kubectl apply -f traffic.yaml` tries them one after the other, with sessions and traffic of weir's own; it plays\n\
             \x20  the router {} and gNBs, so nobody else may be on these networks then.\n",
            step + 1,
            its.core.address(1).map_or_else(String::new, |it| it.to_string()),
        );
    }
    let _ = write!(
        out,
        "\nAs a chart instead of the commands with `-k`, behind the others of step 3:\n\n\
         \x20      helm install {} chart --namespace {} --set monitoring=true\n\n\
         These manifests are linted and checked; docs/deploy.md of weir says what was run.\n",
        fleet.settings.name, its.namespace,
    );
    out
}

/// How many there are, the image, what nodes need, and what is applied first.
fn head(fleet: &Fleet) -> String {
    let (name, its) = (&fleet.settings.name, &fleet.settings.kubernetes);
    let many = match fleet.fixed() {
        Some(all) if fleet.gateway == Gateway::Cmts => format!("{all} service groups, a pod for each"),
        Some(all) => format!("{all} gateways, each with outer VLANs of its own"),
        None => format!(
            "{} gateways to begin with, {} to {} by load",
            fleet.machines * fleet.gateways(),
            fleet.settings.least_machines * fleet.gateways(),
            fleet.ordinals(),
        ),
    };
    let mut out = format!("# {name} on Kubernetes\n\n{many}; plain manifests, and a chart of the same.\n\n");
    let _ = write!(
        out,
        "1. The image, from source, in a checkout of weir:\n\n\
         \x20      podman build -f Containerfile -t {image} . && podman push {image}\n\n\
         2. Nodes need Multus, the {cni} plugin, huge pages of 2 MiB ({pages} MiB a gateway), and the static CPU manager\n\
         \x20  so that a gateway's CPUs are its own.{ledgers}\n\n\
         3. First what needs definitions of other projects, so that nothing is applied by half:\n\n\
         \x20      kubectl wait --for condition=established crd/network-attachment-definitions.k8s.cni.cncf.io\n\
         \x20      kubectl apply -f namespace.yaml\n\
         \x20      kubectl apply -f networks.yaml\n\
         {sriov}{secrets}\
         \x20      kubectl apply -k .                # the gateways: kinds of Kubernetes only\n\
         \x20      kubectl apply -k monitoring       # with the Prometheus operator: scraping and alerts\n\n",
        image = its.image,
        cni = attachment(its.attachment),
        pages = fleet.settings.hugepages_mib,
        ledgers = match fleet.gateway {
            Gateway::Cmts => String::new(),
            _ => {
                let class = its.storage_class.as_ref();
                let class = class.map_or("the cluster's default class".to_owned(), |it| format!("class {it}"));
                format!(" Ledgers are volumes of {class}.")
            }
        },
        sriov = match its.attachment {
            Attachment::Sriov =>
                "\x20      kubectl apply -f sriov            # which virtual functions the device plugin offers\n",
            _ => "",
        },
        secrets = secret_command(fleet),
    );
    if fleet.fixed().is_some() {
        let _ = write!(
            out,
            "\x20  Each pod runs the file of the ConfigMap that is called as the pod. A changed file is read when the pod starts:\n\n\
             \x20      kubectl -n {} delete pod {name}-0\n\n",
            its.namespace
        );
    }
    out
}

/// The command that makes the secrets, where there are any: no manifest has them.
fn secret_command(fleet: &Fleet) -> String {
    let files: String = secrets(fleet).iter().map(|(_, key)| format!(" --from-file={key}=FILE")).collect();
    if files.is_empty() {
        return String::new();
    }
    let (name, its) = (&fleet.settings.name, &fleet.settings.kubernetes);
    format!("\x20      kubectl -n {} create secret generic {name}-secrets{files}\n", its.namespace)
}

/// Where the autoscaler's metric comes from.
fn scaler(fleet: &Fleet) -> String {
    let (name, its) = (&fleet.settings.name, &fleet.settings.kubernetes);
    let source = match its.scaler {
        Scaler::Keda => "`kubectl apply -k keda`: KEDA reads `weir_load_ratio` from Prometheus.".to_owned(),
        Scaler::PrometheusAdapter => {
            "prometheus-adapter puts `weir_load_ratio` of pods into the metrics API, where the autoscaler reads it:\n\n\
            \x20      helm install prometheus-adapter prometheus-community/prometheus-adapter \\\n\
            \x20        --namespace NAMESPACE --values prometheus-adapter.values.yaml\n"
                .to_owned()
        }
    };
    format!(
        "{source}\n\
         \x20  The number of pods is the autoscaler's: no manifest sets it. To begin with what was planned:\n\n\
         \x20      kubectl -n {} scale statefulset {name} --replicas {}\n\n",
        its.namespace,
        fleet.machines * fleet.gateways(),
    )
}

/// Routes to each gateway's subscribers, and what its access side is wired to.
fn routes(fleet: &Fleet, step: u32, out: &mut String) {
    let (name, its) = (&fleet.settings.name, &fleet.settings.kubernetes);
    let _ =
        write!(out, "{step}. The router towards the data network needs a route for each gateway's subscribers:\n\n");
    for ordinal in 0..fleet.ordinals() {
        if let (Some(pool), Some(at)) = (fleet.pool(ordinal), fleet.address(its.core, ordinal)) {
            let _ = writeln!(out, "       {pool} via {at}        # {name}-{ordinal}");
        }
    }
    if fleet.gateway == Gateway::Cmts
        && let (Some(router), Some(at)) = (its.access.address(1), fleet.address(its.access, 0))
    {
        let _ = write!(
            out,
            "\n   Remote-PHY devices are {} from the 16th address on, behind {router}; the device of service group 0 sends to {at},\n\
             \x20  that of service group 1 to the next address.\n",
            fleet.settings.cmts.devices,
        );
    }
}
