//! A fleet on Kubernetes: plain manifests, for `kubectl apply -k`, and the recipe of a container.
//!
//! A pod is a gateway. Its number in the StatefulSet is its ordinal: with it `weir run --pool-from-ordinal` finds its
//! share of subscribers' addresses and its addresses on N3 and N6. PFCP and metrics go by the pod's own address. The
//! last to come is the first to go, and drains before.

mod gateways;
mod traffic;

use std::fmt::Write;

use crate::File;
use crate::finding::Finding;
use crate::fleet::Fleet;
use crate::node::Node;
use crate::settings::Attachment;
use crate::{list, map, monitoring, rules};

pub use gateways::configuration;

const CONTAINERFILE: &str = include_str!("../../../deploy/Containerfile");

/// Documents of one file.
struct Document {
    name: &'static str,
    nodes: Vec<Node>,
}

/// What is written for a fleet.
///
/// # Errors
/// What is wrong with it, or with what would be written.
pub fn files(fleet: &Fleet) -> Result<Vec<File>, Vec<Finding>> {
    let found = check(fleet);
    if !found.is_empty() {
        return Err(found);
    }
    let documents = documents(fleet);
    let all: Vec<&Node> = documents.iter().flat_map(|document| &document.nodes).collect();
    let found = rules::manifests(&all, fleet);
    if !found.is_empty() {
        return Err(found);
    }
    let mut files = vec![File::new("Containerfile", CONTAINERFILE)];
    let mut names: Vec<Node> = Vec::new();
    for Document { name, nodes } in &documents {
        let text = nodes.iter().map(Node::yaml).collect::<Vec<_>>().join("---\n");
        files.push(File::new(*name, text));
        if *name != "traffic.yaml" {
            names.push((*name).into());
        }
    }
    files.push(File::new("alerts.yaml", alerts(fleet)));
    names.push("alerts.yaml".into());
    let kustomization = map! {
        "apiVersion" => "kustomize.config.k8s.io/v1beta1", "kind" => "Kustomization", "resources" => names,
    };
    files.push(File::new("kustomization.yaml", kustomization.yaml()));
    files.push(File::new("README.md", readme(fleet)));
    Ok(files)
}

/// Every object that is written.
pub fn objects(fleet: &Fleet) -> Vec<Node> {
    documents(fleet).into_iter().flat_map(|document| document.nodes).collect()
}

fn documents(fleet: &Fleet) -> Vec<Document> {
    let mut documents = vec![
        Document { name: "namespace.yaml", nodes: vec![gateways::namespace(fleet)] },
        Document { name: "networks.yaml", nodes: gateways::networks(fleet) },
        Document { name: "gateways.yaml", nodes: gateways::gateways(fleet) },
        Document { name: "scaling.yaml", nodes: gateways::scaling(fleet) },
        Document { name: "dashboard.yaml", nodes: vec![dashboard(fleet)] },
    ];
    if fleet.settings.kubernetes.traffic {
        documents.push(Document { name: "traffic.yaml", nodes: traffic::jobs(fleet) });
    }
    documents
}

/// The dashboard, which the sidecar of Grafana's chart finds by its label.
fn dashboard(fleet: &Fleet) -> Node {
    let its = &fleet.settings;
    let mut labels = labels(fleet, "gateway");
    labels.put("grafana_dashboard", "1");
    let name = format!("{}-dashboard", its.name);
    map! {
        "apiVersion" => "v1",
        "kind" => "ConfigMap",
        "metadata" => map! { "name" => name, "labels" => labels, "namespace" => &its.kubernetes.namespace },
        "data" => map! { "weir.json" => monitoring::dashboard() },
    }
}

/// Alerts, for the Prometheus operator.
fn alerts(fleet: &Fleet) -> String {
    let head = object(fleet, "monitoring.coreos.com/v1", "PrometheusRule", &fleet.settings.name, Vec::new()).yaml();
    // A service's targets are of a job with its name.
    let groups = monitoring::groups("upf", &fleet.settings.name);
    let groups: String = groups.lines().map(|line| format!("  {line}\n")).collect();
    format!("{head}spec:\n  groups:\n{groups}")
}

/// What is wrong with a fleet for Kubernetes, by the plan's keys.
fn check(fleet: &Fleet) -> Vec<Finding> {
    let mut found = rules::fleet(fleet);
    let its = &fleet.settings.kubernetes;
    if its.attachment == Attachment::HostDevice && fleet.gateways() > 1 {
        let what = format!("a whole interface for each of {} gateways of a node", fleet.gateways());
        found.push(Finding::at("deploy.kubernetes.attachment", what, "sriov or macvlan, or one unit a machine"));
    }
    if its.attachment == Attachment::Ipvlan {
        let what = "ipvlan gives a pod only what is addressed to addresses the kernel gave its interface; packets to \
                    subscribers would not come"
            .to_owned();
        found.push(Finding::at("deploy.kubernetes.attachment", what, "macvlan, sriov or host-device"));
    }
    if fleet.settings.io == crate::settings::Io::Xdp && its.attachment == Attachment::Macvlan {
        let what = "AF_XDP on macvlan is slower than AF_PACKET: every packet is copied twice";
        found.push(Finding::at("deploy.io", what, "slots, or another attachment"));
    }
    if !is_label(&its.namespace) {
        let what = format!("\"{}\" is no namespace", its.namespace);
        found.push(Finding::at("deploy.kubernetes.namespace", what, "small letters, digits and hyphens"));
    }
    if its.image.is_empty() || its.image.contains(char::is_whitespace) {
        found.push(Finding::at("deploy.kubernetes.image", "no image", "such as registry.example/weir:0.1.0"));
    }
    if fleet.workers() > 1 && its.attachment == Attachment::Macvlan {
        let what = format!("{} workers on an interface of one queue", fleet.workers());
        found.push(Finding::at("unit.queues", what, "1 with macvlan, or sriov, or host-device"));
    }
    found.extend(rules::apart(&[
        ("deploy.ue_pool", fleet.settings.ue_pool),
        ("deploy.kubernetes.access", its.access),
        ("deploy.kubernetes.core", its.core),
    ]));
    found.extend(rules::addresses(fleet, "deploy.kubernetes.access", its.access));
    found.extend(rules::addresses(fleet, "deploy.kubernetes.core", its.core));
    found
}

/// A label of RFC 1123.
fn is_label(name: &str) -> bool {
    (1..=63).contains(&name.len())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// An object: kind, name, labels.
fn object(fleet: &Fleet, version: &str, kind: &str, name: &str, rest: Vec<(&str, Node)>) -> Node {
    let mut metadata = map! { "name" => name, "labels" => labels(fleet, "gateway") };
    if kind != "Namespace" {
        metadata.put("namespace", &fleet.settings.kubernetes.namespace);
    }
    let mut object = map! { "apiVersion" => version, "kind" => kind, "metadata" => metadata };
    for (key, value) in rest {
        object.put(key, value);
    }
    object
}

fn labels(fleet: &Fleet, part: &str) -> Node {
    let name = &fleet.settings.name;
    map! { "app.kubernetes.io/name" => "weir", "app.kubernetes.io/instance" => name, "app.kubernetes.io/component" => part }
}

/// What a container may do, instead of everything: raw sockets, interfaces, memory that stays, BPF.
fn security() -> Node {
    // BPF with AF_PACKET too: a program keeps the host stack from handling the same packets.
    let capabilities: Vec<Node> = ["NET_RAW", "NET_ADMIN", "IPC_LOCK", "BPF"].into_iter().map(Node::from).collect();
    map! {
        "privileged" => false,
        "allowPrivilegeEscalation" => false,
        "readOnlyRootFilesystem" => true,
        "capabilities" => map! { "drop" => list!["ALL"], "add" => capabilities },
        "seccompProfile" => map! { "type" => "RuntimeDefault" },
    }
}

/// The annotation by which Multus gives a pod its interfaces.
fn attachments(fleet: &Fleet, access: &str, core: &str) -> Node {
    let name = &fleet.settings.name;
    map! {
        "k8s.v1.cni.cncf.io/networks" =>
            format!("[{{\"name\":\"{name}-access\",\"interface\":\"{access}\"}},{{\"name\":\"{name}-core\",\"interface\":\"{core}\"}}]"),
    }
}

fn readme(fleet: &Fleet) -> String {
    let (name, its) = (&fleet.settings.name, &fleet.settings.kubernetes);
    let mut out = format!(
        "# {name} on Kubernetes\n\n{} gateways to begin with, {} to {} by load; plain manifests, no chart.\n\n",
        fleet.machines * fleet.gateways(),
        fleet.settings.least_machines * fleet.gateways(),
        fleet.ordinals(),
    );
    let _ = write!(
        out,
        "1. The image, from source, in a checkout of weir:\n\n\
         \x20      podman build -f Containerfile -t {image} . && podman push {image}\n\n\
         2. Nodes need Multus, the {cni} plugin, huge pages of 2 MiB ({pages} MiB a gateway), and the static CPU manager\n\
         \x20  so that a gateway's CPUs are its own.\n\n\
         3. `kubectl apply -k .`\n\n\
         4. The autoscaler reads `weir_load_ratio` of pods from the metrics API, where prometheus-adapter or KEDA puts it;\n\
         \x20  the ServiceMonitor has the Prometheus operator scrape it, alerts.yaml are alerts, dashboard.yaml is for Grafana.\n\n\
         5. The router towards the data network needs a route for each gateway's subscribers:\n\n",
        image = its.image,
        cni = attachment(its.attachment),
        pages = fleet.settings.hugepages_mib,
    );
    for ordinal in 0..fleet.ordinals() {
        if let (Some(pool), Some(at)) = (fleet.pool(ordinal), fleet.address(its.core, ordinal)) {
            let _ = writeln!(out, "       {pool} via {at}        # {name}-{ordinal}");
        }
    }
    if its.traffic {
        let _ = write!(
            out,
            "\n6. `kubectl apply -f traffic.yaml` tries them one after the other, with sessions and traffic of weir's own; it plays\n\
             \x20  the router {} and gNBs, so nobody else may be on these networks then.\n",
            its.core.address(1).map_or_else(String::new, |it| it.to_string()),
        );
    }
    out += "\nThese manifests are linted and checked; no cluster has run them.\n";
    out
}

/// What CNI calls the plugin.
fn attachment(attachment: Attachment) -> &'static str {
    match attachment {
        Attachment::HostDevice => "host-device",
        Attachment::Sriov => "sriov",
        Attachment::Macvlan => "macvlan",
        Attachment::Ipvlan => "ipvlan",
    }
}
