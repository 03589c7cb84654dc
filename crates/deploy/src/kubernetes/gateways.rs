//! The gateways: networks, configuration, pods, and how many of them.

use super::{attachment, attachments, labels, object, security};
use crate::cidr::Cidr;
use crate::fleet::{FIRST_ADDRESS, Fleet};
use crate::gateway::{Places, toml};
use crate::node::Node;
use crate::settings::Attachment;
use crate::{list, map};

const SOCKET: &str = "/run/weir/weir.sock";

/// The namespace. Pods in it need rights beyond the usual.
pub fn namespace(fleet: &Fleet) -> Node {
    let mut namespace = object(fleet, "v1", "Namespace", &fleet.settings.kubernetes.namespace, Vec::new());
    if let Node::Map(entries) = &mut namespace
        && let Some((_, Node::Map(metadata))) = entries.iter_mut().find(|(key, _)| key == "metadata")
    {
        // Pod Security reads labels only; the capabilities that a gateway needs are beyond the level "baseline".
        let label = ("pod-security.kubernetes.io/enforce".to_owned(), "privileged".into());
        if let Some((_, Node::Map(labels))) = metadata.iter_mut().find(|(key, _)| key == "labels") {
            labels.push(label);
        }
    }
    namespace
}

/// What Multus attaches pods to.
pub fn networks(fleet: &Fleet) -> Vec<Node> {
    let its = &fleet.settings.kubernetes;
    let name = &fleet.settings.name;
    let one = |side: &str, device: &str, resource: &str| {
        let name = format!("{name}-{side}");
        let kind = attachment(its.attachment);
        let more = match its.attachment {
            Attachment::HostDevice => format!("\"device\":\"{device}\""),
            Attachment::Sriov => "\"spoofchk\":\"off\",\"trust\":\"on\"".to_owned(),
            Attachment::Macvlan | Attachment::Ipvlan => format!("\"master\":\"{device}\",\"mode\":\"bridge\""),
        };
        // No addresses: they are weir's.
        let config = format!("{{\"cniVersion\":\"0.3.1\",\"name\":\"{name}\",\"type\":\"{kind}\",{more}}}");
        let mut node = object(
            fleet,
            "k8s.cni.cncf.io/v1",
            "NetworkAttachmentDefinition",
            &name,
            vec![("spec", map! { "config" => config })],
        );
        if its.attachment == Attachment::Sriov
            && let Node::Map(entries) = &mut node
            && let Some((_, metadata)) = entries.iter_mut().find(|(key, _)| key == "metadata")
        {
            metadata.put("annotations", map! { "k8s.v1.cni.cncf.io/resourceName" => resource });
        }
        node
    };
    vec![one("access", &its.access_device, &its.access_resource), one("core", &its.core_device, &its.core_resource)]
}

/// Networks that control planes send from: the cluster's pod network, unless the plan names others.
pub(super) fn peers(fleet: &Fleet) -> Vec<Cidr> {
    fleet.peers(&[fleet.settings.kubernetes.pods])
}

/// The configuration of all.
pub fn configuration(fleet: &Fleet) -> String {
    let its = &fleet.settings.kubernetes;
    let at = |network: Cidr, n: u32| network.address(n.into()).map_or_else(String::new, |it| it.to_string());
    let places = Places {
        access_interface: "n3".to_owned(),
        core_interface: "n6".to_owned(),
        access_address: format!("{}/{}", at(its.access, FIRST_ADDRESS), its.access.prefix()),
        core_address: format!("{}/{}", at(its.core, FIRST_ADDRESS), its.core.prefix()),
        access_router: at(its.access, 1),
        core_router: at(its.core, 1),
        // Instead, each pod's own: WEIR_N4_ADDRESS.
        n4_address: "0.0.0.0".to_owned(),
        peers: peers(fleet),
        cpus: None,
        metrics: "0.0.0.0:9464".to_owned(),
        health: Some("0.0.0.0:9465".to_owned()),
        ledger: "/var/lib/weir/ledger".to_owned(),
        socket: SOCKET.to_owned(),
    };
    toml(fleet, &places)
}

/// Account, services, pods, and how many may be away at a time.
pub fn gateways(fleet: &Fleet) -> Vec<Node> {
    let name = fleet.settings.name.as_str();
    let port = |name: &str, protocol: &str, port: u32| {
        map! { "name" => name, "protocol" => protocol, "port" => port, "targetPort" => name }
    };
    let account = object(fleet, "v1", "ServiceAccount", name, vec![("automountServiceAccountToken", false.into())]);
    let config =
        object(fleet, "v1", "ConfigMap", name, vec![("data", map! { "gateway.toml" => configuration(fleet) })]);
    let service = map! {
        "clusterIP" => "None",
        // Control planes must still find who drains.
        "publishNotReadyAddresses" => true,
        "selector" => labels(fleet, "gateway"),
        "ports" => list![port("pfcp", "UDP", 8805), port("metrics", "TCP", 9464)],
    };
    let service = object(fleet, "v1", "Service", name, vec![("spec", service)]);
    let budget = map! { "maxUnavailable" => 1_i64, "selector" => map! { "matchLabels" => labels(fleet, "gateway") } };
    let budget = object(fleet, "policy/v1", "PodDisruptionBudget", name, vec![("spec", budget)]);
    vec![account, config, service, stateful_set(fleet), budget, policy(fleet)]
}

/// Who may reach a pod by the cluster's network: control planes PFCP, monitoring the metrics. Probes come from the pod's
/// own node, which Kubernetes lets pass whatever a policy says; plugins that do not are told the nodes' networks. N3 and
/// N6 are no part of the cluster's network.
fn policy(fleet: &Fleet) -> Node {
    let its = &fleet.settings.kubernetes;
    let rule = |from: Vec<Node>, protocol: &str, port: &str| {
        map! { "from" => from, "ports" => list![map! { "protocol" => protocol, "port" => port }] }
    };
    let block = |network: &Cidr| map! { "ipBlock" => map! { "cidr" => network.to_string() } };
    let mut control_planes: Vec<Node> = peers(fleet).iter().map(block).collect();
    if its.traffic {
        // The generator's jobs play a control plane.
        control_planes.push(map! { "podSelector" => map! { "matchLabels" => labels(fleet, "traffic") } });
    }
    let monitoring = map! {
        "namespaceSelector" => map! {
            "matchLabels" => map! { "kubernetes.io/metadata.name" => &its.monitoring_namespace },
        },
    };
    let mut rules = vec![rule(control_planes, "UDP", "pfcp"), rule(vec![monitoring], "TCP", "metrics")];
    if !its.nodes.is_empty() {
        rules.push(rule(its.nodes.iter().map(block).collect(), "TCP", "health"));
    }
    let spec = map! {
        "podSelector" => map! { "matchLabels" => labels(fleet, "gateway") },
        "policyTypes" => list!["Ingress"],
        "ingress" => rules,
    };
    object(fleet, "networking.k8s.io/v1", "NetworkPolicy", &fleet.settings.name, vec![("spec", spec)])
}

fn stateful_set(fleet: &Fleet) -> Node {
    let name = fleet.settings.name.as_str();
    let its = &fleet.settings.kubernetes;
    let spread = match its.attachment {
        // A node has one interface of each kind to give.
        Attachment::HostDevice => map! {
            "podAntiAffinity" => map! {
                "requiredDuringSchedulingIgnoredDuringExecution" => list![map! {
                    "topologyKey" => "kubernetes.io/hostname",
                    "labelSelector" => map! { "matchLabels" => labels(fleet, "gateway") },
                }],
            },
        },
        _ => map! {
            "podAntiAffinity" => map! {
                "preferredDuringSchedulingIgnoredDuringExecution" => list![map! {
                    "weight" => 100_i64,
                    "podAffinityTerm" => map! {
                        "topologyKey" => "kubernetes.io/hostname",
                        "labelSelector" => map! { "matchLabels" => labels(fleet, "gateway") },
                    },
                }],
            },
        },
    };
    let zones = map! {
        "maxSkew" => 1_i64,
        "topologyKey" => "topology.kubernetes.io/zone",
        "whenUnsatisfiable" => "ScheduleAnyway",
        "labelSelector" => map! { "matchLabels" => labels(fleet, "gateway") },
    };
    let pod = map! {
        "serviceAccountName" => name,
        "automountServiceAccountToken" => false,
        // To drain, and a little to end.
        "terminationGracePeriodSeconds" => fleet.settings.drain_seconds + 30,
        "affinity" => spread,
        "topologySpreadConstraints" => list![zones],
        "containers" => list![container(fleet)],
        "volumes" => list![
            map! { "name" => "config", "configMap" => map! { "name" => name } },
            map! { "name" => "run", "emptyDir" => map! { "medium" => "Memory" } },
            map! { "name" => "hugepages", "emptyDir" => map! { "medium" => "HugePages-2Mi" } },
        ],
    };
    let mut claim = map! {
        "accessModes" => list!["ReadWriteOnce"],
        "resources" => map! { "requests" => map! { "storage" => Node::setting("ledger", format!("{}Gi", its.ledger_gib)) } },
    };
    if let Some(class) = &its.storage_class {
        claim.put("storageClassName", Node::setting("storageClass", class));
    }
    let ledger = map! { "metadata" => map! { "name" => "ledger" }, "spec" => claim };
    let spec = map! {
        "serviceName" => name,
        // No replicas: the autoscaler sets them, and each apply would undo it. One after the other, the last to come is the
        // first to go.
        "podManagementPolicy" => "OrderedReady",
        "updateStrategy" => map! { "type" => "RollingUpdate" },
        "selector" => map! { "matchLabels" => labels(fleet, "gateway") },
        "template" => map! {
            "metadata" => map! { "labels" => labels(fleet, "gateway"), "annotations" => attachments(fleet, "n3", "n6") },
            "spec" => pod,
        },
        "volumeClaimTemplates" => list![ledger],
    };
    object(fleet, "apps/v1", "StatefulSet", name, vec![("spec", spec)])
}

fn container(fleet: &Fleet) -> Node {
    let its = &fleet.settings.kubernetes;
    let probe = |path: &str, period: u32, failures: u32| {
        map! {
            "httpGet" => map! { "path" => path, "port" => "health" },
            "periodSeconds" => period,
            "timeoutSeconds" => 3_i64,
            "failureThreshold" => failures,
        }
    };
    let mount = |name: &str, path: &str| map! { "name" => name, "mountPath" => path };
    map! {
        "name" => "weir",
        "image" => Node::setting("image", &its.image),
        "command" => list!["/usr/local/bin/weir"],
        "args" => list!["run", "/etc/weir/gateway.toml", "--pool-from-ordinal", Node::setting("mostReplicas", fleet.ordinals().to_string())],
        "env" => list![map! {
            "name" => "WEIR_N4_ADDRESS",
            "valueFrom" => map! { "fieldRef" => map! { "fieldPath" => "status.podIP" } },
        }],
        "ports" => list![
            map! { "name" => "pfcp", "containerPort" => 8805_i64, "protocol" => "UDP" },
            map! { "name" => "metrics", "containerPort" => 9464_i64, "protocol" => "TCP" },
            map! { "name" => "health", "containerPort" => 9465_i64, "protocol" => "TCP" },
        ],
        "securityContext" => security(),
        "resources" => resources(fleet),
        "startupProbe" => probe("/healthz", 2, 30),
        "livenessProbe" => probe("/healthz", 10, 3),
        "readinessProbe" => probe("/readyz", 5, 2),
        "lifecycle" => map! {
            "preStop" => map! {
                "exec" => map! {
                    "command" => list![
                        "/usr/local/bin/weir", "drain", "--socket", SOCKET, "--wait", fleet.settings.drain_seconds.to_string(),
                    ],
                },
            },
        },
        "volumeMounts" => list![
            map! { "name" => "config", "mountPath" => "/etc/weir", "readOnly" => true },
            mount("run", "/run/weir"),
            mount("ledger", "/var/lib/weir"),
            mount("hugepages", "/dev/hugepages"),
        ],
    }
}

/// Whole CPUs, asked for and limited alike: the static CPU manager then gives them to nobody else.
pub fn resources(fleet: &Fleet) -> Node {
    let its = &fleet.settings.kubernetes;
    let mut amounts = map! {
        "cpu" => Node::setting("cpu", fleet.gateway_vcpus().to_string()),
        "memory" => Node::setting("memory", format!("{}Mi", its.memory_mib)),
        "hugepages-2Mi" => Node::setting("hugepages", format!("{}Mi", fleet.settings.hugepages_mib)),
    };
    if its.attachment == Attachment::Sriov {
        if its.access_resource == its.core_resource {
            amounts.put(&its.access_resource, "2");
        } else {
            amounts.put(&its.access_resource, "1");
            amounts.put(&its.core_resource, "1");
        }
    }
    map! { "requests" => amounts.clone(), "limits" => amounts }
}
