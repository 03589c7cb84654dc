//! Rules for manifests that every validator accepts and that fail, or do harm, when they are first applied.

use crate::cidr::Cidr;
use crate::finding::Finding;
use crate::fleet::Fleet;
use crate::kubernetes::{Document, METRIC};
use crate::node::Node;
use crate::settings::Idle;

/// What a gateway needs of the kernel: raw sockets, interfaces, locked memory, and BPF, which AF_PACKET ports load
/// a program with as well as AF_XDP ones.
const CAPABILITIES: [&str; 4] = ["NET_RAW", "NET_ADMIN", "IPC_LOCK", "BPF"];

fn text<'a>(node: &'a Node, path: &[&str]) -> &'a str {
    node.at(path).and_then(Node::text).unwrap_or_default()
}

fn of_kind<'a>(objects: &[&'a Node], kind: &str) -> Vec<&'a Node> {
    objects.iter().copied().filter(|object| text(object, &["kind"]) == kind).collect()
}

/// What fails on a cluster although it is valid.
pub fn first_apply(objects: &[&Node], fleet: &Fleet, found: &mut Vec<Finding>) {
    for set in of_kind(objects, "StatefulSet") {
        let place = format!("StatefulSet/{}", text(set, &["metadata", "name"]));
        containers(&place, set, found);
        match fleet.fixed() {
            None => replicas(&place, set, objects, found),
            Some(all) => each_its_own(&place, set, objects, all, found),
        }
        claims(&place, set, fleet, found);
    }
    for namespace in of_kind(objects, "Namespace") {
        if text(namespace, &["metadata", "labels", "pod-security.kubernetes.io/enforce"]) != "privileged" {
            let what = "Pod Security at the level \"baseline\" refuses its pods, and reads labels only";
            let help = "metadata.labels: pod-security.kubernetes.io/enforce: privileged";
            found.push(Finding::at("Namespace", what, help));
        }
    }
    metric(objects, found);
    configuration(objects, fleet, found);
    virtual_functions(objects, found);
    for job in of_kind(objects, "Job") {
        job_script(job, found);
    }
}

/// Containers have the capabilities without which the gateway ends at its start.
fn containers(place: &str, set: &Node, found: &mut Vec<Finding>) {
    for container in set.at(&["spec", "template", "spec", "containers"]).map(Node::items).unwrap_or_default() {
        let added = container.at(&["securityContext", "capabilities", "add"]).map(Node::items).unwrap_or_default();
        for needed in CAPABILITIES {
            if !added.iter().any(|one| one.text() == Some(needed)) {
                let what = format!("the kernel would refuse its ports: no CAP_{needed}");
                found.push(Finding::at(place, what, format!("{needed} under capabilities.add")));
            }
        }
    }
}

/// The number of pods is the autoscaler's alone.
fn replicas(place: &str, set: &Node, objects: &[&Node], found: &mut Vec<Finding>) {
    let name = text(set, &["metadata", "name"]);
    let scalers: Vec<&Node> = ["HorizontalPodAutoscaler", "ScaledObject"]
        .iter()
        .flat_map(|kind| of_kind(objects, kind))
        .filter(|scaler| text(scaler, &["spec", "scaleTargetRef", "name"]) == name)
        .collect();
    if set.at(&["spec", "replicas"]).is_some() && !scalers.is_empty() {
        let what = "replicas beside an autoscaler: each apply would undo what it did";
        found.push(Finding::at(place, what, "no spec.replicas"));
    }
    if scalers.len() > 1 {
        found.push(Finding::at(place, "two autoscalers set its number of pods", "one of them"));
    }
}

/// A fleet whose gateways have lines or modems of their own: a pod for each, each with its file, and nothing that takes one
/// away because the load is low.
fn each_its_own(place: &str, set: &Node, objects: &[&Node], all: u32, found: &mut Vec<Finding>) {
    let name = text(set, &["metadata", "name"]);
    if set.at(&["spec", "replicas"]).and_then(Node::int) != Some(all.into()) {
        found.push(Finding::at(
            place,
            format!("not {all} pods: some lines or modems would have none"),
            "spec.replicas",
        ));
    }
    for kind in ["HorizontalPodAutoscaler", "ScaledObject"] {
        if of_kind(objects, kind).iter().any(|scaler| text(scaler, &["spec", "scaleTargetRef", "name"]) == name) {
            let what = "an autoscaler would take pods away whose sessions have nowhere to go";
            found.push(Finding::at(place, what, "a fixed number of pods"));
        }
    }
    let of_pods = |config: &&Node| text(config, &["metadata", "name"]) == name;
    let configs: Vec<&Node> = of_kind(objects, "ConfigMap").into_iter().filter(of_pods).collect();
    let missing = (0..all).find(|n| !configs.iter().any(|it| it.at(&["data", &format!("{name}-{n}.toml")]).is_some()));
    if let Some(n) = missing {
        found.push(Finding::at(place, format!("no file for pod {name}-{n}"), "its file in the ConfigMap"));
    }
    filled_in(place, set, &configs, found);
}

/// Places in files are filled in before the gateway starts, from secrets that are mounted.
fn filled_in(place: &str, set: &Node, configs: &[&Node], found: &mut Vec<Finding>) {
    let mut places: Vec<&str> = Vec::new();
    for file in configs.iter().filter_map(|config| config.get("data")).flat_map(Node::entries) {
        places.extend(file.1.text().unwrap_or_default().split('"').filter(|it| it.starts_with('@')));
    }
    places.sort_unstable();
    places.dedup();
    let init = set.at(&["spec", "template", "spec", "initContainers", "0"]);
    let script = init.and_then(|init| init.at(&["command", "2"])).and_then(Node::text).unwrap_or_default();
    for open in places {
        let open = open.trim_end_matches(|c: char| c != '@');
        if !script.contains(&format!("s|{open}|")) {
            found.push(Finding::at(place, format!("{open} is never filled in"), "an init container that does"));
        }
    }
    for container in set.at(&["spec", "template", "spec", "containers"]).map(Node::items).unwrap_or_default() {
        for mount in container.get("volumeMounts").map(Node::items).unwrap_or_default() {
            if text(mount, &["name"]) == "config" && init.is_some() {
                let what = "it reads the files as they were before secrets were filled in";
                found.push(Finding::at(place, what, "the volume that the init container writes"));
            }
        }
    }
}

/// etcd takes no object that is larger, in bytes.
const OBJECT: usize = 1 << 20;

/// Ledgers ask for the class of the plan.
fn claims(place: &str, set: &Node, fleet: &Fleet, found: &mut Vec<Finding>) {
    let class = fleet.settings.kubernetes.storage_class.as_deref();
    for claim in set.at(&["spec", "volumeClaimTemplates"]).map(Node::items).unwrap_or_default() {
        let has = claim.at(&["spec", "storageClassName"]).and_then(Node::text);
        if has != class {
            let what = format!("a volume of class {has:?}, the plan has {class:?}: it would wait for a class forever");
            found.push(Finding::at(place, what, "storageClassName as deploy.kubernetes.storage_class"));
        }
    }
}

/// An autoscaler's metric has a source.
fn metric(objects: &[&Node], found: &mut Vec<Finding>) {
    for scaler in of_kind(objects, "HorizontalPodAutoscaler") {
        for metric in scaler.at(&["spec", "metrics"]).map(Node::items).unwrap_or_default() {
            let name = text(metric, &["pods", "metric", "name"]);
            let serves = |object: &&&Node| {
                let rules = object.at(&["rules", "custom"]).map(Node::items).unwrap_or_default();
                rules
                    .iter()
                    .any(|rule| text(rule, &["name", "as"]) == name && text(rule, &["seriesQuery"]).starts_with(METRIC))
            };
            if !objects.iter().any(|object| serves(&object)) {
                let what = format!("nothing puts the metric \"{name}\" into the metrics API");
                found.push(Finding::at("HorizontalPodAutoscaler", what, "a rule of prometheus-adapter, or KEDA"));
            }
        }
    }
    for scaled in of_kind(objects, "ScaledObject") {
        let triggers = scaled.at(&["spec", "triggers"]).map(Node::items).unwrap_or_default();
        if !triggers.iter().any(|trigger| text(trigger, &["metadata", "query"]).contains(METRIC)) {
            found.push(Finding::at("ScaledObject", "no trigger reads the load", format!("a query of {METRIC}")));
        }
    }
}

/// The gateways' configuration: workers that never sleep only as planned, PFCP from networks of this platform.
fn configuration(objects: &[&Node], fleet: &Fleet, found: &mut Vec<Finding>) {
    let its = &fleet.settings;
    for config in of_kind(objects, "ConfigMap") {
        let bytes: usize = config
            .get("data")
            .map(Node::entries)
            .unwrap_or_default()
            .iter()
            .map(|(name, file)| name.len() + file.text().map_or(0, str::len))
            .sum();
        if bytes > OBJECT {
            let what = format!("{} has {bytes} bytes", text(config, &["metadata", "name"]));
            found.push(Finding::at("ConfigMap", what, format!("{OBJECT} at most: several plans")));
        }
        let Some(file) = config.at(&["data", "gateway.toml"]).and_then(Node::text) else { continue };
        let polls = file.lines().any(|line| line == "poll = true" || line == "idle = \"latency\"");
        if polls && its.idle != Idle::Latency {
            let what = "workers never sleep: each takes a CPU of the node entirely, packets or none";
            found.push(Finding::at("ConfigMap", what, "as deploy.idle"));
        }
        let allow = file.lines().find_map(|line| line.strip_prefix("allow = [")?.strip_suffix(']')).unwrap_or_default();
        let allow: Vec<Cidr> = allow.split(", ").filter_map(|network| network.trim_matches('"').parse().ok()).collect();
        let clouds = [its.aws.vpc, its.aws.generator_vpc];
        for network in &allow {
            if clouds.contains(network) && !its.control_planes.contains(network) {
                let what = format!("PFCP is taken from {network}, a network of AWS");
                found.push(Finding::at("ConfigMap", what, "the cluster's pods, or deploy.control_planes"));
            }
        }
        if its.kubernetes.traffic && !allow.iter().any(|network| network.contains(its.kubernetes.pods)) {
            let what = format!("the traffic jobs' PFCP comes from pods, {}, and is refused", its.kubernetes.pods);
            found.push(Finding::at("ConfigMap", what, "the pod network among deploy.control_planes"));
        }
    }
}

/// What networks call a resource is one that the SR-IOV device plugin offers.
fn virtual_functions(objects: &[&Node], found: &mut Vec<Finding>) {
    let offered: Vec<String> = of_kind(objects, "ConfigMap")
        .iter()
        .filter_map(|config| config.at(&["data", "config.json"])?.text())
        .filter_map(|text| serde_json::from_str::<serde_json::Value>(text).ok())
        .flat_map(|config| config["resourceList"].as_array().cloned().unwrap_or_default())
        .map(|one| [&one["resourcePrefix"], &one["resourceName"]].map(|s| s.as_str().unwrap_or("?")).join("/"))
        .collect();
    for network in of_kind(objects, "NetworkAttachmentDefinition") {
        let wanted = text(network, &["metadata", "annotations", "k8s.v1.cni.cncf.io/resourceName"]);
        if !wanted.is_empty() && !offered.iter().any(|one| one == wanted) {
            let what = format!("no device plugin is configured to offer {wanted}: pods would stay pending");
            found.push(Finding::at("NetworkAttachmentDefinition", what, "an entry of its resourceList"));
        }
    }
}

/// Files that a job's script reads were made by an earlier line: a shell ends where one cannot be opened.
fn job_script(job: &Node, found: &mut Vec<Finding>) {
    for container in job.at(&["spec", "template", "spec", "containers"]).map(Node::items).unwrap_or_default() {
        let Some(script) = container.at(&["command", "2"]).and_then(Node::text) else { continue };
        for (n, line) in script.lines().enumerate() {
            let Some(file) = line.split_once("< ").and_then(|(_, rest)| rest.split([' ', ')']).next()) else {
                continue;
            };
            let made = format!(": > {file}");
            if !script.lines().take(n).any(|earlier| earlier == made) {
                let what = format!("its script reads {file} before it is there, and ends");
                found.push(Finding::at("Job", what, made));
            }
        }
    }
}

/// Whether an API group is part of Kubernetes itself: it needs no CustomResourceDefinition.
fn is_built_in(object: &Node) -> bool {
    let version = text(object, &["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// What `kubectl apply -k` of a folder applies has no kind whose definition may be missing: the rest would be applied and
/// this not. Kinds of other projects are in folders of their own, one project each.
pub fn folders(documents: &[Document]) -> Vec<Finding> {
    let mut found = Vec::new();
    for kustomization in documents.iter().filter(|document| document.path.ends_with("kustomization.yaml")) {
        let folder = kustomization.path.trim_end_matches("kustomization.yaml");
        let named = kustomization.nodes.iter().filter_map(|node| node.get("resources")).flat_map(Node::items);
        let mut groups: Vec<&str> = Vec::new();
        for name in named.filter_map(Node::text) {
            let path = format!("{folder}{name}");
            let Some(document) = documents.iter().find(|document| document.path == path) else {
                found.push(Finding::at(&kustomization.path, format!("there is no {path}"), "a file that is written"));
                continue;
            };
            for object in document.nodes.iter().filter(|object| !is_built_in(object)) {
                let group = text(object, &["apiVersion"]);
                if folder.is_empty() {
                    let what = format!("{path} needs the definition of {group}; without it half would be applied");
                    found.push(Finding::at(&kustomization.path, what, "a folder of its own"));
                }
                groups.push(group);
            }
        }
        groups.dedup();
        if groups.len() > 1 {
            let what = format!("kinds of {}", groups.join(" and "));
            found.push(Finding::at(&kustomization.path, what, "a folder for each"));
        }
    }
    found
}
