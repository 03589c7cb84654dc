//! How many pods there are, and where the metric comes from that decides it.

use super::{labels, object};
use crate::fleet::Fleet;
use crate::node::Node;
use crate::settings::Scaler;
use crate::{list, map};

/// The metric that pods are added and taken away for.
pub const METRIC: &str = "weir_load_ratio";

/// The autoscaler: of Kubernetes, or the object that KEDA makes one from.
pub fn scaler(fleet: &Fleet) -> Node {
    match fleet.settings.kubernetes.scaler {
        Scaler::PrometheusAdapter => autoscaler(fleet),
        Scaler::Keda => scaled_object(fleet),
    }
}

/// What both do alike: pods come two at a time and go one at a time, with time for its sessions to move.
fn behavior(fleet: &Fleet) -> Node {
    let policy = |count: u32, seconds: u32| map! { "type" => "Pods", "value" => count, "periodSeconds" => seconds };
    map! {
        "scaleUp" => map! { "stabilizationWindowSeconds" => 30_i64, "policies" => list![policy(2, 60)] },
        "scaleDown" => map! {
            "stabilizationWindowSeconds" => 600_i64,
            "policies" => list![policy(1, fleet.settings.drain_seconds.min(1800))],
        },
    }
}

fn target(fleet: &Fleet) -> Node {
    map! { "apiVersion" => "apps/v1", "kind" => "StatefulSet", "name" => &fleet.settings.name }
}

fn autoscaler(fleet: &Fleet) -> Node {
    let spec = map! {
        "scaleTargetRef" => target(fleet),
        "minReplicas" => Node::setting("leastReplicas", fleet.settings.least_machines * fleet.gateways()),
        "maxReplicas" => Node::setting("mostReplicas", fleet.ordinals()),
        "metrics" => list![map! {
            "type" => "Pods",
            "pods" => map! {
                "metric" => map! { "name" => METRIC },
                "target" => map! {
                    "type" => "AverageValue",
                    "averageValue" => Node::setting("targetLoad", format!("{:.0}m", fleet.settings.target_load * 1000.0)),
                },
            },
        }],
        "behavior" => behavior(fleet),
    };
    object(fleet, "autoscaling/v2", "HorizontalPodAutoscaler", &fleet.settings.name, vec![("spec", spec)])
}

fn scaled_object(fleet: &Fleet) -> Node {
    let (name, its) = (&fleet.settings.name, &fleet.settings.kubernetes);
    // KEDA divides the sum by the number of pods.
    let query = format!("sum({METRIC}{{namespace=\"{}\",job=\"{name}\"}})", its.namespace);
    let spec = map! {
        "scaleTargetRef" => target(fleet),
        "minReplicaCount" => Node::setting("leastReplicas", fleet.settings.least_machines * fleet.gateways()),
        "maxReplicaCount" => Node::setting("mostReplicas", fleet.ordinals()),
        "pollingInterval" => 15_i64,
        "advanced" => map! { "horizontalPodAutoscalerConfig" => map! { "behavior" => behavior(fleet) } },
        "triggers" => list![map! {
            "type" => "prometheus",
            "metricType" => "AverageValue",
            "metadata" => map! {
                "serverAddress" => &its.prometheus,
                "query" => query,
                "threshold" => fleet.settings.target_load.to_string(),
            },
        }],
    };
    object(fleet, "keda.sh/v1alpha1", "ScaledObject", name, vec![("spec", spec)])
}

/// Values for the chart of prometheus-adapter: the rule that puts the metric of pods into the metrics API.
pub fn adapter(fleet: &Fleet) -> Node {
    let address = &fleet.settings.kubernetes.prometheus;
    let (url, port) =
        address.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).unwrap_or((address, "80"));
    let resource = |name: &str| map! { "resource" => name };
    map! {
        "prometheus" => map! { "url" => url, "port" => port.parse().unwrap_or(80_i64) },
        "rules" => map! {
            "default" => false,
            "custom" => list![map! {
                "seriesQuery" => format!("{METRIC}{{namespace!=\"\",pod!=\"\"}}"),
                "resources" => map! {
                    "overrides" => map! { "namespace" => resource("namespace"), "pod" => resource("pod") },
                },
                "name" => map! { "as" => METRIC },
                "metricsQuery" => "avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)",
            }],
        },
    }
}

/// What has the Prometheus operator scrape the pods.
pub fn monitor(fleet: &Fleet) -> Node {
    let spec = map! {
        "selector" => map! { "matchLabels" => labels(fleet, "gateway") },
        "endpoints" => list![map! { "port" => "metrics", "path" => "/metrics", "interval" => "15s", "scrapeTimeout" => "5s" }],
    };
    object(fleet, "monitoring.coreos.com/v1", "ServiceMonitor", &fleet.settings.name, vec![("spec", spec)])
}

/// The configuration of the SR-IOV device plugin: which virtual functions are which resource.
pub fn device_plugin(fleet: &Fleet) -> Node {
    let its = &fleet.settings.kubernetes;
    let one = |resource: &str, devices: &[&String]| {
        let (prefix, name) = resource.split_once('/').unwrap_or(("weir.dev", resource));
        serde_json::json!({
            "resourcePrefix": prefix, "resourceName": name,
            "selectors": { "pfNames": devices },
        })
    };
    let resources = match its.access_resource == its.core_resource {
        true => vec![one(&its.access_resource, &[&its.access_device, &its.core_device])],
        false => vec![one(&its.access_resource, &[&its.access_device]), one(&its.core_resource, &[&its.core_device])],
    };
    let config = serde_json::to_string_pretty(&serde_json::json!({ "resourceList": resources })).unwrap_or_default();
    map! {
        "apiVersion" => "v1",
        "kind" => "ConfigMap",
        "metadata" => map! { "name" => "sriovdp-config", "namespace" => "kube-system" },
        "data" => map! { "config.json" => config },
    }
}
