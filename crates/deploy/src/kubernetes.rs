//! A fleet on Kubernetes: plain manifests, for `kubectl apply -k`, and the recipe of a container.
//!
//! A pod is a gateway. Its number in the StatefulSet is its ordinal: with it `weir run --pool-from-ordinal` finds a user
//! plane's share of subscribers' addresses and its addresses on N3 and N6. PFCP and metrics go by the pod's own address.
//! The last to come is the first to go, and drains before.
//!
//! Cable and broadband gateways have a file each, called as the pod: a service group, or groups of outer VLANs. Their number
//! is fixed.

mod gateways;
mod helm;
mod readme;
mod scaling;
mod traffic;

use crate::File;
use crate::finding::Finding;
use crate::fleet::{Fleet, Gateway};
use crate::node::Node;
use crate::settings::{Attachment, Scaler};
use crate::{list, map, monitoring, rules};

pub use gateways::configuration;
pub use scaling::METRIC;

const CONTAINERFILE: &str = include_str!("../../../deploy/Containerfile");

/// One file: its objects, and its text where that is more than the objects.
#[derive(Clone, Debug)]
pub struct Document {
    /// Below the folder that is written: `monitoring/monitor.yaml`.
    pub path: String,
    pub nodes: Vec<Node>,
    text: Option<String>,
}

impl Document {
    fn new(path: &str, nodes: Vec<Node>) -> Self {
        Self { path: path.to_owned(), nodes, text: None }
    }

    /// What `kubectl apply -k` of a folder takes.
    fn kustomization(folder: &str, names: &[&str]) -> Self {
        let names: Vec<Node> = names.iter().map(|name| (*name).into()).collect();
        let node = map! {
            "apiVersion" => "kustomize.config.k8s.io/v1beta1", "kind" => "Kustomization", "resources" => names,
        };
        Self::new(&format!("{folder}kustomization.yaml"), vec![node])
    }

    fn text(&self) -> String {
        let all = || self.nodes.iter().map(Node::yaml).collect::<Vec<_>>().join("---\n");
        self.text.clone().unwrap_or_else(all)
    }
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
    let mut found = rules::manifests(&all, fleet);
    found.extend(rules::folders(&documents));
    if !found.is_empty() {
        return Err(found);
    }
    let mut files = vec![File::new("Containerfile", CONTAINERFILE)];
    files.extend(documents.iter().map(|document| File::new(&document.path, document.text())));
    files.extend(helm::chart(fleet, &documents));
    files.push(File::new("README.md", readme::readme(fleet)));
    Ok(files)
}

/// Every object that is written.
pub fn objects(fleet: &Fleet) -> Vec<Node> {
    documents(fleet).into_iter().flat_map(|document| document.nodes).collect()
}

/// Every file with objects. The first kustomization has only kinds of Kubernetes itself; what needs definitions of another
/// project is in a folder of its own, so that nothing is applied by half.
pub fn documents(fleet: &Fleet) -> Vec<Document> {
    let its = &fleet.settings.kubernetes;
    let mut base = vec!["namespace.yaml", "gateways.yaml", "dashboard.yaml"];
    let mut documents = vec![
        Document::new("namespace.yaml", vec![gateways::namespace(fleet)]),
        Document::new("networks.yaml", gateways::networks(fleet)),
        Document::new("gateways.yaml", gateways::gateways(fleet)),
        Document::new("dashboard.yaml", vec![dashboard(fleet)]),
        Document::new("monitoring/monitor.yaml", vec![scaling::monitor(fleet)]),
        Document { text: Some(alerts(fleet)), ..Document::new("monitoring/alerts.yaml", vec![alerts_head(fleet)]) },
        Document::kustomization("monitoring/", &["monitor.yaml", "alerts.yaml"]),
    ];
    match its.scaler {
        // Lines and modems belong to one gateway: the load does not change how many there are.
        _ if fleet.fixed().is_some() => {}
        Scaler::PrometheusAdapter => {
            base.push("scaling.yaml");
            documents.push(Document::new("scaling.yaml", vec![scaling::scaler(fleet)]));
            documents.push(Document::new("prometheus-adapter.values.yaml", vec![scaling::adapter(fleet)]));
        }
        Scaler::Keda => {
            documents.push(Document::new("keda/scaling.yaml", vec![scaling::scaler(fleet)]));
            documents.push(Document::kustomization("keda/", &["scaling.yaml"]));
        }
    }
    if its.attachment == Attachment::Sriov {
        documents.push(Document::new("sriov/device-plugin.yaml", vec![scaling::device_plugin(fleet)]));
    }
    if its.traffic && fleet.gateway == Gateway::Upf {
        documents.push(Document::new("traffic.yaml", traffic::jobs(fleet)));
    }
    documents.push(Document::kustomization("", &base));
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
    let head = alerts_head(fleet).yaml();
    // A service's targets are of a job with its name.
    let groups = monitoring::groups(fleet.gateway.name(), &fleet.settings.name);
    let groups: String = groups.lines().map(|line| format!("  {line}\n")).collect();
    format!("{head}spec:\n  groups:\n{groups}")
}

fn alerts_head(fleet: &Fleet) -> Node {
    object(fleet, "monitoring.coreos.com/v1", "PrometheusRule", &fleet.settings.name, Vec::new())
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
    let mut networks = vec![
        ("deploy.ue_pool", fleet.settings.ue_pool),
        ("deploy.kubernetes.access", its.access),
        ("deploy.kubernetes.core", its.core),
        ("deploy.kubernetes.pods", its.pods),
    ];
    if fleet.gateway == Gateway::Cmts {
        networks.push(("deploy.cmts.devices", fleet.settings.cmts.devices));
    }
    found.extend(rules::apart(&networks));
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

/// What CNI calls the plugin.
fn attachment(attachment: Attachment) -> &'static str {
    match attachment {
        Attachment::HostDevice => "host-device",
        Attachment::Sriov => "sriov",
        Attachment::Macvlan => "macvlan",
        Attachment::Ipvlan => "ipvlan",
    }
}
