//! The gateways: networks, configuration, pods, and how many of them.

use super::{attachment, attachments, labels, object, security};
use crate::cidr::Cidr;
use crate::fleet::{FIRST_ADDRESS, Fleet, Gateway};
use crate::gateway::{Places, secrets, toml};
use crate::node::Node;
use crate::settings::Attachment;
use crate::{list, map};

const SOCKET: &str = "/run/weir/weir.sock";
/// Stands for a pod's address until its init container fills it in.
const POD_IP: &str = "@POD_IP@";

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

/// The interfaces of a pod, towards access and core.
pub(super) fn interfaces(fleet: &Fleet) -> [&'static str; 2] {
    match fleet.gateway {
        Gateway::Upf => ["n3", "n6"],
        Gateway::Cmts => ["cin", "nsi"],
        Gateway::Bng => ["access", "core"],
    }
}

/// The configuration of a gateway; that of user planes is the same for all. Empty: there is no address left for it.
pub fn configuration(fleet: &Fleet, ordinal: u32) -> String {
    let its = &fleet.settings.kubernetes;
    let at = |network: Cidr, n: u32| network.address(n.into()).map_or_else(String::new, |it| it.to_string());
    // A user plane adds its ordinal itself.
    let own = FIRST_ADDRESS + fleet.fixed().map_or(0, |_| ordinal);
    let [access, core] = interfaces(fleet).map(str::to_owned);
    let places = Places {
        access_interface: access,
        core_interface: core,
        access_address: format!("{}/{}", at(its.access, own), its.access.prefix()),
        core_address: format!("{}/{}", at(its.core, own), its.core.prefix()),
        access_router: at(its.access, 1),
        core_router: at(its.core, 1),
        // Instead, each pod's own: WEIR_N4_ADDRESS, or what the init container fills in.
        n4_address: if fleet.gateway == Gateway::Upf { "0.0.0.0" } else { POD_IP }.to_owned(),
        peers: peers(fleet),
        cpus: None,
        metrics: "0.0.0.0:9464".to_owned(),
        health: Some("0.0.0.0:9465".to_owned()),
        ledger: "/var/lib/weir/ledger".to_owned(),
        any_mac: its.attachment != Attachment::Macvlan,
        socket: SOCKET.to_owned(),
    };
    toml(fleet, &places, ordinal).unwrap_or_default()
}

/// What the pods run, by the names of the files: one for all, or one for each pod, called as the pod is.
pub(super) fn configurations(fleet: &Fleet) -> Node {
    let name = fleet.settings.name.as_str();
    let files = match fleet.fixed() {
        None => map! { "gateway.toml" => configuration(fleet, 0) },
        Some(all) => {
            let file = |n| (format!("{name}-{n}.toml"), configuration(fleet, n).into());
            Node::Map((0..all).map(file).collect())
        }
    };
    object(fleet, "v1", "ConfigMap", name, vec![("data", files)])
}

/// Ports of a pod: name, protocol, number.
fn ports(fleet: &Fleet) -> Vec<(&'static str, &'static str, i64)> {
    let mut ports = match fleet.gateway {
        Gateway::Upf => vec![("pfcp", "UDP", 8805)],
        Gateway::Bng if !fleet.settings.bng.radius.is_empty() => vec![("coa", "UDP", 3799)],
        _ => Vec::new(),
    };
    ports.extend([("metrics", "TCP", 9464), ("health", "TCP", 9465)]);
    ports
}

/// Account, services, pods, and how many may be away at a time.
pub fn gateways(fleet: &Fleet) -> Vec<Node> {
    let name = fleet.settings.name.as_str();
    let port = |(name, protocol, port): &(&str, &str, i64)| {
        map! { "name" => *name, "protocol" => *protocol, "port" => *port, "targetPort" => *name }
    };
    let account = object(fleet, "v1", "ServiceAccount", name, vec![("automountServiceAccountToken", false.into())]);
    let served = ports(fleet).iter().filter(|(name, ..)| *name != "health").map(port).collect::<Vec<_>>();
    let service = map! {
        "clusterIP" => "None",
        // Control planes must still find who drains.
        "publishNotReadyAddresses" => true,
        "selector" => labels(fleet, "gateway"),
        "ports" => served,
    };
    let service = object(fleet, "v1", "Service", name, vec![("spec", service)]);
    let budget = map! { "maxUnavailable" => 1_i64, "selector" => map! { "matchLabels" => labels(fleet, "gateway") } };
    let budget = object(fleet, "policy/v1", "PodDisruptionBudget", name, vec![("spec", budget)]);
    vec![account, configurations(fleet), service, stateful_set(fleet), budget, policy(fleet)]
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
    let control = match fleet.gateway {
        Gateway::Upf => {
            let mut control_planes: Vec<Node> = peers(fleet).iter().map(block).collect();
            if its.traffic {
                // The generator's jobs play a control plane.
                control_planes.push(map! { "podSelector" => map! { "matchLabels" => labels(fleet, "traffic") } });
            }
            Some(rule(control_planes, "UDP", "pfcp"))
        }
        Gateway::Bng if !fleet.settings.bng.radius.is_empty() => {
            let server = |server: &std::net::Ipv4Addr| map! { "ipBlock" => map! { "cidr" => format!("{server}/32") } };
            Some(rule(fleet.settings.bng.radius.iter().map(server).collect(), "UDP", "coa"))
        }
        _ => None,
    };
    let monitoring = map! {
        "namespaceSelector" => map! {
            "matchLabels" => map! { "kubernetes.io/metadata.name" => &its.monitoring_namespace },
        },
    };
    let mut rules: Vec<Node> = control.into_iter().chain([rule(vec![monitoring], "TCP", "metrics")]).collect();
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

/// Gateways on nodes of their own, where a node has one interface of each kind to give; else on as many as there are.
fn spread(fleet: &Fleet) -> Node {
    let others = map! {
        "topologyKey" => "kubernetes.io/hostname",
        "labelSelector" => map! { "matchLabels" => labels(fleet, "gateway") },
    };
    let rule = match fleet.settings.kubernetes.attachment {
        Attachment::HostDevice => map! { "requiredDuringSchedulingIgnoredDuringExecution" => list![others] },
        _ => map! {
            "preferredDuringSchedulingIgnoredDuringExecution" =>
                list![map! { "weight" => 100_i64, "podAffinityTerm" => others }],
        },
    };
    map! { "podAntiAffinity" => rule }
}

/// Whether sessions are kept on a volume. A cable gateway's modems are in its file.
fn has_ledger(fleet: &Fleet) -> bool {
    fleet.gateway != Gateway::Cmts
}

/// The volume that a pod's ledger is on, of the class that the plan names.
fn ledger(fleet: &Fleet) -> Node {
    let its = &fleet.settings.kubernetes;
    let mut claim = map! {
        "accessModes" => list!["ReadWriteOnce"],
        "resources" => map! { "requests" => map! { "storage" => Node::setting("ledger", format!("{}Gi", its.ledger_gib)) } },
    };
    if let Some(class) = &its.storage_class {
        claim.put("storageClassName", Node::setting("storageClass", class));
    }
    map! { "metadata" => map! { "name" => "ledger" }, "spec" => claim }
}

/// Whether a file has places that only the pod can fill in: secrets, its address.
fn is_filled_in(fleet: &Fleet) -> bool {
    !secrets(fleet).is_empty()
}

fn pod(fleet: &Fleet) -> Node {
    let name = fleet.settings.name.as_str();
    let zones = map! {
        "maxSkew" => 1_i64,
        "topologyKey" => "topology.kubernetes.io/zone",
        "whenUnsatisfiable" => "ScheduleAnyway",
        "labelSelector" => map! { "matchLabels" => labels(fleet, "gateway") },
    };
    // To drain, and a little to end.
    let grace = if fleet.fixed().is_some() { 60 } else { fleet.settings.drain_seconds + 30 };
    let mut pod = map! {
        "serviceAccountName" => name,
        "automountServiceAccountToken" => false,
        "terminationGracePeriodSeconds" => grace,
        "affinity" => spread(fleet),
        "topologySpreadConstraints" => list![zones],
    };
    let mut volumes = vec![
        map! { "name" => "config", "configMap" => map! { "name" => name } },
        map! { "name" => "run", "emptyDir" => map! { "medium" => "Memory" } },
        map! { "name" => "hugepages", "emptyDir" => map! { "medium" => "HugePages-2Mi" } },
    ];
    if is_filled_in(fleet) {
        pod.put("initContainers", list![fill_in(fleet)]);
        volumes.push(map! { "name" => "filled", "emptyDir" => map! { "medium" => "Memory" } });
        volumes.push(map! { "name" => "secrets", "secret" => map! { "secretName" => format!("{name}-secrets") } });
    }
    pod.put("containers", list![container(fleet)]);
    pod.put("volumes", volumes);
    pod
}

/// Writes the pod's own file, with its address and the secrets that no manifest has, to a volume in memory.
fn fill_in(fleet: &Fleet) -> Node {
    let mut script = "set -eu\numask 077\nfile=/filled/$POD_NAME.toml\ncp /config/$POD_NAME.toml $file\n".to_owned();
    script += "sed -i \"s|@POD_IP@|$POD_IP|\" $file\n";
    for (place, key) in secrets(fleet) {
        // What sed reads as its own in a replacement is escaped.
        script += &format!("value=$(sed 's/[&|\\]/\\\\&/g' /secrets/{key})\nsed -i \"s|{place}|$value|\" $file\n");
    }
    let amounts = map! { "cpu" => "1", "memory" => "64Mi" };
    map! {
        "name" => "fill-in",
        "image" => Node::setting("image", &fleet.settings.kubernetes.image),
        "command" => list!["/bin/sh", "-c", script],
        "env" => list![from_pod("POD_NAME", "metadata.name"), from_pod("POD_IP", "status.podIP")],
        "securityContext" => map! {
            "privileged" => false,
            "allowPrivilegeEscalation" => false,
            "readOnlyRootFilesystem" => true,
            "capabilities" => map! { "drop" => list!["ALL"] },
            "seccompProfile" => map! { "type" => "RuntimeDefault" },
        },
        "resources" => map! { "requests" => amounts.clone(), "limits" => amounts },
        "volumeMounts" => list![
            map! { "name" => "config", "mountPath" => "/config", "readOnly" => true },
            map! { "name" => "secrets", "mountPath" => "/secrets", "readOnly" => true },
            map! { "name" => "filled", "mountPath" => "/filled" },
        ],
    }
}

fn from_pod(name: &str, path: &str) -> Node {
    map! { "name" => name, "valueFrom" => map! { "fieldRef" => map! { "fieldPath" => path } } }
}

fn stateful_set(fleet: &Fleet) -> Node {
    let name = fleet.settings.name.as_str();
    let mut spec = map! { "serviceName" => name };
    match fleet.fixed() {
        // One after the other, the last to come is the first to go. No replicas: the autoscaler sets them, and each apply
        // would undo it.
        None => spec.put("podManagementPolicy", "OrderedReady"),
        Some(all) => {
            spec.put("replicas", all);
            spec.put("podManagementPolicy", "Parallel");
        }
    }
    let [access, core] = interfaces(fleet);
    let template = map! {
        "metadata" => map! { "labels" => labels(fleet, "gateway"), "annotations" => attachments(fleet, access, core) },
        "spec" => pod(fleet),
    };
    spec.put("updateStrategy", map! { "type" => "RollingUpdate" });
    spec.put("selector", map! { "matchLabels" => labels(fleet, "gateway") });
    spec.put("template", template);
    if has_ledger(fleet) {
        spec.put("volumeClaimTemplates", list![ledger(fleet)]);
    }
    object(fleet, "apps/v1", "StatefulSet", name, vec![("spec", spec)])
}

fn probe(path: &str, period: u32, failures: u32) -> Node {
    map! {
        "httpGet" => map! { "path" => path, "port" => "health" },
        "periodSeconds" => period,
        "timeoutSeconds" => 3_i64,
        "failureThreshold" => failures,
    }
}

fn container(fleet: &Fleet) -> Node {
    let its = &fleet.settings.kubernetes;
    let mount = |name: &str, path: &str| map! { "name" => name, "mountPath" => path };
    let (args, env) = match fleet.fixed() {
        None => {
            let of = Node::setting("mostReplicas", fleet.ordinals().to_string());
            let args = list!["run", "/etc/weir/gateway.toml", "--pool-from-ordinal", of];
            (args, from_pod("WEIR_N4_ADDRESS", "status.podIP"))
        }
        Some(_) => (list!["run", "/etc/weir/$(POD_NAME).toml"], from_pod("POD_NAME", "metadata.name")),
    };
    let declared = |(name, protocol, port): (&str, &str, i64)| {
        map! { "name" => name, "containerPort" => port, "protocol" => protocol }
    };
    let mut container = map! {
        "name" => "weir",
        "image" => Node::setting("image", &its.image),
        "command" => list!["/usr/local/bin/weir"],
        "args" => args,
        "env" => list![env],
        "ports" => ports(fleet).into_iter().map(declared).collect::<Vec<_>>(),
        "securityContext" => security(),
        "resources" => resources(fleet),
        "startupProbe" => probe("/healthz", 2, 30),
        "livenessProbe" => probe("/healthz", 10, 3),
        "readinessProbe" => probe("/readyz", 5, 2),
    };
    // Lines and modems cannot be moved to another gateway: there is nothing to wait for.
    if fleet.fixed().is_none() {
        let seconds = fleet.settings.drain_seconds.to_string();
        let drain = list!["/usr/local/bin/weir", "drain", "--socket", SOCKET, "--wait", seconds];
        container.put("lifecycle", map! { "preStop" => map! { "exec" => map! { "command" => drain } } });
    }
    let config = if is_filled_in(fleet) { "filled" } else { "config" };
    let mut mounts =
        vec![map! { "name" => config, "mountPath" => "/etc/weir", "readOnly" => true }, mount("run", "/run/weir")];
    if has_ledger(fleet) {
        mounts.push(mount("ledger", "/var/lib/weir"));
    }
    mounts.push(mount("hugepages", "/dev/hugepages"));
    container.put("volumeMounts", mounts);
    container
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
