//! Rules for manifests: names, selectors, amounts, mounts, ports, rights.

use crate::finding::Finding;
use crate::fleet::Fleet;
use crate::node::Node;

/// What is wrong with manifests beyond what a validator of their schema sees.
pub fn manifests(objects: &[&Node], fleet: &Fleet) -> Vec<Finding> {
    let mut found = Vec::new();
    let text = |node: &Node, path: &[&str]| node.at(path).and_then(Node::text).unwrap_or_default().to_owned();
    let is_there = |kind: &str, name: &str| {
        objects.iter().any(|object| text(object, &["kind"]) == kind && text(object, &["metadata", "name"]) == name)
    };
    let set = objects.iter().find(|object| text(object, &["kind"]) == "StatefulSet");
    for object in objects {
        let kind = text(object, &["kind"]);
        let place = format!("{kind}/{}", text(object, &["metadata", "name"]));
        let mut refers = |to: &str, name: String| {
            if !name.is_empty() && !is_there(to, &name) {
                let what = format!("there is no {to} \"{name}\"");
                found.push(Finding::at(&place, what, "a name that is there"));
            }
        };
        let pod = object.at(&["spec", "template"]);
        if kind == "StatefulSet" {
            refers("Service", text(object, &["spec", "serviceName"]));
        }
        if kind == "HorizontalPodAutoscaler" || kind == "ScaledObject" {
            refers(
                &text(object, &["spec", "scaleTargetRef", "kind"]),
                text(object, &["spec", "scaleTargetRef", "name"]),
            );
        }
        if let Some(pod) = pod {
            refers("ServiceAccount", text(pod, &["spec", "serviceAccountName"]));
            for volume in pod.at(&["spec", "volumes"]).map(Node::items).unwrap_or_default() {
                refers("ConfigMap", text(volume, &["configMap", "name"]));
            }
            let networks = text(pod, &["metadata", "annotations", "k8s.v1.cni.cncf.io/networks"]);
            let names: Vec<serde_json::Value> = serde_json::from_str(&networks).unwrap_or_default();
            for network in names {
                refers("NetworkAttachmentDefinition", network["name"].as_str().unwrap_or("?").to_owned());
            }
            pod_fits(&place, object, pod, fleet, &mut found);
        }
        selected(&place, object, objects, set.copied(), &mut found);
    }
    super::first_apply::first_apply(objects, fleet, &mut found);
    found
}

/// Selectors choose what they are meant to: the pods of the set; the monitor's, the service.
fn selected(place: &str, object: &Node, objects: &[&Node], set: Option<&Node>, found: &mut Vec<Finding>) {
    let kind = object.get("kind").and_then(Node::text).unwrap_or_default();
    let (selector, chosen) = match kind {
        "Service" => {
            (object.at(&["spec", "selector"]), set.and_then(|set| set.at(&["spec", "template", "metadata", "labels"])))
        }
        "PodDisruptionBudget" | "StatefulSet" => (
            object.at(&["spec", "selector", "matchLabels"]),
            set.and_then(|set| set.at(&["spec", "template", "metadata", "labels"])),
        ),
        "NetworkPolicy" => {
            let ports = set.and_then(|set| set.at(&["spec", "template", "spec", "containers"])).map(Node::items);
            let ports = ports.unwrap_or_default().iter().filter_map(|container| container.get("ports"));
            let named = |port: &Node| port.get("name").and_then(Node::text).map(str::to_owned);
            let names: Vec<String> = ports.flat_map(Node::items).filter_map(named).collect();
            for rule in object.at(&["spec", "ingress"]).map(Node::items).unwrap_or_default() {
                for port in rule.get("ports").map(Node::items).unwrap_or_default() {
                    let port = port.get("port").and_then(Node::text).unwrap_or_default();
                    if !names.iter().any(|name| name == port) {
                        found.push(Finding::at(place, format!("no container has a port \"{port}\""), names.join(", ")));
                    }
                }
                if rule.get("from").map(Node::items).unwrap_or_default().is_empty() {
                    found.push(Finding::at(place, "a rule admits every source", "the sources it is for"));
                }
            }
            (
                object.at(&["spec", "podSelector", "matchLabels"]),
                set.and_then(|set| set.at(&["spec", "template", "metadata", "labels"])),
            )
        }
        "ServiceMonitor" => {
            let service = objects.iter().find(|object| object.get("kind").and_then(Node::text) == Some("Service"));
            let names: Vec<_> = service
                .and_then(|service| service.at(&["spec", "ports"]))
                .map(Node::items)
                .unwrap_or_default()
                .iter()
                .filter_map(|port| port.get("name").and_then(Node::text))
                .collect();
            for endpoint in object.at(&["spec", "endpoints"]).map(Node::items).unwrap_or_default() {
                let port = endpoint.get("port").and_then(Node::text).unwrap_or_default();
                if !names.contains(&port) {
                    found.push(Finding::at(place, format!("the service has no port \"{port}\""), names.join(", ")));
                }
            }
            (
                object.at(&["spec", "selector", "matchLabels"]),
                service.and_then(|service| service.at(&["metadata", "labels"])),
            )
        }
        _ => return,
    };
    let chosen = chosen.map(Node::entries).unwrap_or_default();
    let all = selector.map(Node::entries).unwrap_or_default();
    if all.is_empty() || !all.iter().all(|label| chosen.contains(label)) {
        found.push(Finding::at(place, "its selector chooses nothing", "the labels of what it is for"));
    }
}

/// A pod's containers: asked for and limited alike, no more than a node has, with mounts and ports that are there, and
/// without all rights.
fn pod_fits(place: &str, object: &Node, pod: &Node, fleet: &Fleet, found: &mut Vec<Finding>) {
    let volumes: Vec<&str> = pod
        .at(&["spec", "volumes"])
        .map(Node::items)
        .unwrap_or_default()
        .iter()
        .chain(object.at(&["spec", "volumeClaimTemplates"]).map(Node::items).unwrap_or_default())
        .filter_map(|volume| volume.get("name").or_else(|| volume.at(&["metadata", "name"])).and_then(Node::text))
        .collect();
    for container in pod.at(&["spec", "containers"]).map(Node::items).unwrap_or_default() {
        let amounts = |key: &str| container.at(&["resources", key]).map(Node::entries).unwrap_or_default();
        let (requests, limits) = (amounts("requests"), amounts("limits"));
        if requests.is_empty() || requests != limits {
            let what = "requests differ from limits: its CPUs would not be exclusive";
            found.push(Finding::at(place, what, "requests and limits alike"));
        }
        for (name, amount) in requests {
            match (amount.text().and_then(quantity), name.as_str()) {
                (None, _) => {
                    let what = format!("{name} is {}", amount.yaml().trim());
                    found.push(Finding::at(place, what, "a quantity such as 2, 512Mi"));
                }
                (Some(cpus), "cpu") if fleet.machine.vcpus.is_some_and(|has| cpus > f64::from(has)) => {
                    let what = format!("{cpus} CPUs on nodes of {}", fleet.machine.vcpus.unwrap_or(0));
                    found.push(Finding::at(place, what, "fewer, or larger nodes"));
                }
                _ => {}
            }
        }
        let memory: f64 = requests
            .iter()
            .filter(|(name, _)| name == "memory" || name.starts_with("hugepages-"))
            .filter_map(|(_, amount)| quantity(amount.text()?))
            .sum();
        if fleet.machine.memory_mib.is_some_and(|has| memory > has as f64 * 1024.0 * 1024.0) {
            let what =
                format!("{:.0} MiB on nodes of {}", memory / 1024.0 / 1024.0, fleet.machine.memory_mib.unwrap_or(0));
            found.push(Finding::at(place, what, "less, or larger nodes"));
        }
        for mount in container.get("volumeMounts").map(Node::items).unwrap_or_default() {
            let name = mount.get("name").and_then(Node::text).unwrap_or_default();
            if !volumes.contains(&name) {
                found.push(Finding::at(place, format!("there is no volume \"{name}\""), volumes.join(", ")));
            }
        }
        let ports: Vec<&str> = container
            .get("ports")
            .map(Node::items)
            .unwrap_or_default()
            .iter()
            .filter_map(|port| port.get("name").and_then(Node::text))
            .collect();
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let port = container.at(&[probe, "httpGet", "port"]).and_then(Node::text);
            if port.is_some_and(|port| !ports.contains(&port)) {
                found.push(Finding::at(place, format!("{probe} uses a port that does not exist"), ports.join(", ")));
            }
        }
        if container.at(&["securityContext", "privileged"]) != Some(&Node::Bool(false)) {
            found.push(Finding::at(place, "it may do everything", "privileged: false, and the capabilities it needs"));
        }
    }
}

/// A quantity of Kubernetes: `2`, `500m`, `512Mi`, `4Gi`.
fn quantity(text: &str) -> Option<f64> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    number.parse::<f64>().ok().map(|number| number * scale).filter(|amount| *amount >= 0.0)
}
