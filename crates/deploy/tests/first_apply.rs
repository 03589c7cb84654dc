//! What fails when manifests are first applied: every artefact is broken in the way it once was, and a rule finds it.

mod fleets;

use deploy::fleet::Fleet;
use deploy::kubernetes::{self, Document};
use deploy::node::Node;
use deploy::rules::{folders, manifests};
use deploy::settings::{Attachment, Scaler};
use deploy::{list, map};

/// What the rules say of a fleet's manifests, one of them changed.
fn said(fleet: &Fleet, path: &str, change: impl Fn(&mut Node)) -> String {
    let mut documents = kubernetes::documents(fleet);
    let document = documents.iter_mut().find(|document| document.path == path).expect(path);
    document.nodes.iter_mut().for_each(change);
    all(&documents, fleet)
}

fn all(documents: &[Document], fleet: &Fleet) -> String {
    let nodes: Vec<&Node> = documents.iter().flat_map(|document| &document.nodes).collect();
    let found = manifests(&nodes, fleet).into_iter().chain(folders(documents));
    found.map(|finding| format!("{finding}\n")).collect()
}

/// Replaces the value at a path where it leads anywhere; adds the last key where it is missing.
fn put(node: &mut Node, path: &[&str], value: &Node) {
    let (key, rest) = path.split_first().expect("a path");
    match node {
        Node::Map(entries) => match entries.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) if rest.is_empty() => *old = value.clone(),
            Some((_, inner)) => put(inner, rest, value),
            None if rest.is_empty() => entries.push(((*key).to_owned(), value.clone())),
            None => {}
        },
        Node::List(list) => put(&mut list[key.parse::<usize>().expect("a position")], rest, value),
        _ => {}
    }
}

fn replaced(node: &mut Node, from: &str, to: &str) {
    match node {
        Node::Map(entries) => entries.iter_mut().for_each(|(_, value)| replaced(value, from, to)),
        Node::List(list) => list.iter_mut().for_each(|value| replaced(value, from, to)),
        Node::Text(text) => *text = text.replace(from, to),
        _ => {}
    }
}

fn with(change: impl Fn(&mut Fleet)) -> Fleet {
    let mut fleet = fleets::upf();
    change(&mut fleet);
    fleet
}

fn sriov() -> Fleet {
    with(|fleet| fleet.settings.kubernetes.attachment = Attachment::Sriov)
}

fn keda() -> Fleet {
    with(|fleet| fleet.settings.kubernetes.scaler = Scaler::Keda)
}

#[test]
fn nothing_is_found_in_what_is_written() {
    for fleet in [fleets::upf(), sriov(), keda(), fleets::cmts(), fleets::bng()] {
        assert_eq!(all(&kubernetes::documents(&fleet), &fleet), "");
    }
}

/// Changes the StatefulSet only.
fn in_set(node: &mut Node, change: impl Fn(&mut Node)) {
    if node.get("kind").and_then(Node::text) == Some("StatefulSet") {
        change(node);
    }
}

#[test]
fn containers_without_a_capability_are_found() {
    for fleet in [fleets::upf(), fleets::cmts(), fleets::bng()] {
        for missing in ["BPF", "NET_RAW", "NET_ADMIN", "IPC_LOCK"] {
            let found = said(&fleet, "gateways.yaml", |node| in_set(node, |set| replaced(set, missing, "CHOWN")));
            assert!(found.contains(&format!("no CAP_{missing}")), "{missing}: {found}");
        }
    }
}

#[test]
fn lines_and_modems_without_a_pod_are_found() {
    for (fleet, pods) in [(fleets::cmts(), 24), (fleets::bng(), 4)] {
        let few = said(&fleet, "gateways.yaml", |node| {
            in_set(node, |set| put(set, &["spec", "replicas"], &(pods - 1_i64).into()));
        });
        assert!(few.contains(&format!("not {pods} pods")), "{few}");
        let name = fleet.settings.name.clone();
        let missing = said(&fleet, "gateways.yaml", |node| {
            let Node::Map(entries) = node else { panic!("a map") };
            if let Some((_, Node::Map(files))) = entries.iter_mut().find(|(key, _)| key == "data") {
                files.retain(|(file, _)| *file != format!("{name}-2.toml"));
            }
        });
        assert!(missing.contains(&format!("no file for pod {name}-2")), "{missing}");
    }
}

#[test]
fn an_autoscaler_of_wired_gateways_is_found() {
    let fleet = fleets::bng();
    let mut documents = kubernetes::documents(&fleet);
    let scaler = map! {
        "kind" => "HorizontalPodAutoscaler",
        "spec" => map! { "scaleTargetRef" => map! { "kind" => "StatefulSet", "name" => "fixed" } },
    };
    documents.iter_mut().find(|document| document.path == "gateways.yaml").expect("gateways").nodes.push(scaler);
    let found = all(&documents, &fleet);
    assert!(found.contains("whose sessions have nowhere to go"), "{found}");
}

#[test]
fn places_that_nothing_fills_in_are_found() {
    for (fleet, place) in
        [(fleets::cmts(), "@MODEM_KEY@"), (fleets::bng(), "@RADIUS_SECRET@"), (fleets::bng(), "@POD_IP@")]
    {
        let found = said(&fleet, "gateways.yaml", |node| in_set(node, |set| replaced(set, place, "@OTHER@")));
        assert!(found.contains(&format!("{place} is never filled in")), "{found}");
    }
    let found = said(&fleets::bng(), "gateways.yaml", |node| {
        in_set(node, |set| {
            let mount = ["spec", "template", "spec", "containers", "0", "volumeMounts", "0", "name"];
            put(set, &mount, &"config".into());
        });
    });
    assert!(found.contains("as they were before secrets were filled in"), "{found}");
}

#[test]
fn configurations_beyond_an_object_are_found() {
    let mut fleet = fleets::cmts();
    (fleet.groups, fleet.needed, fleet.machines) = (Some(900), 300, 300);
    let found = all(&kubernetes::documents(&fleet), &fleet);
    assert!(found.contains("bytes; 1048576 at most"), "{found}");
}

#[test]
fn replicas_beside_an_autoscaler_are_found() {
    for fleet in [fleets::upf(), keda()] {
        let found = said(&fleet, "gateways.yaml", |node| {
            if node.get("kind").and_then(Node::text) == Some("StatefulSet") {
                put(node, &["spec", "replicas"], &8_i64.into());
            }
        });
        assert!(found.contains("each apply would undo what it did"), "{found}");
    }
}

#[test]
fn pod_security_as_an_annotation_is_found() {
    let found = said(&fleets::upf(), "namespace.yaml", |node| {
        put(node, &["metadata", "labels"], &map! {});
        put(node, &["metadata", "annotations"], &map! { "pod-security.kubernetes.io/enforce" => "privileged" });
    });
    assert!(found.contains("reads labels only"), "{found}");
}

#[test]
fn a_volume_of_no_class_is_found() {
    let fleet = with(|fleet| fleet.settings.kubernetes.storage_class = Some("fast".to_owned()));
    assert_eq!(all(&kubernetes::documents(&fleet), &fleet), "");
    let found = said(&fleet, "gateways.yaml", |node| {
        let claims = ["spec", "volumeClaimTemplates", "0", "spec"];
        if node.at(&claims).is_some() {
            put(node, &[&claims[..], &["storageClassName"]].concat(), &"slow".into());
        }
    });
    assert!(found.contains("it would wait for a class forever"), "{found}");
}

#[test]
fn workers_that_never_sleep_unasked_are_found() {
    for polls in ["poll = true", "idle = \"latency\""] {
        let found = said(&fleets::upf(), "gateways.yaml", |node| replaced(node, "idle = \"balanced\"", polls));
        assert!(found.contains("workers never sleep"), "{polls}: {found}");
    }
    let fleet = with(|fleet| fleet.settings.idle = deploy::settings::Idle::Latency);
    assert_eq!(all(&kubernetes::documents(&fleet), &fleet), "", "it was asked for");
}

#[test]
fn control_planes_of_another_platform_are_found() {
    let found = said(&fleets::upf(), "gateways.yaml", |node| replaced(node, "10.244.0.0/16", "10.20.0.0/16"));
    assert!(found.contains("a network of AWS") && found.contains("comes from pods, 10.244.0.0/16"), "{found}");
    let fleet = with(|fleet| fleet.settings.control_planes = vec!["10.20.0.0/16".parse().expect("a network")]);
    let found = all(&kubernetes::documents(&fleet), &fleet);
    assert!(!found.contains("a network of AWS") && found.contains("comes from pods"), "{found}");
}

#[test]
fn a_metric_without_a_source_is_found() {
    let adapter = "prometheus-adapter.values.yaml";
    let found = said(&fleets::upf(), adapter, |node| put(node, &["rules", "custom"], &list![]));
    assert!(found.contains("nothing puts the metric \"weir_load_ratio\""), "{found}");
    let found = said(&keda(), "keda/scaling.yaml", |node| replaced(node, "weir_load_ratio", "load"));
    assert!(found.contains("no trigger reads the load"), "{found}");
}

#[test]
fn virtual_functions_that_nobody_offers_are_found() {
    let found = said(&sriov(), "sriov/device-plugin.yaml", |node| {
        replaced(node, "\"resourceName\": \"core\"", "\"resourceName\": \"n6\"");
    });
    assert!(found.contains("no device plugin is configured to offer weir.dev/core"), "{found}");
}

#[test]
fn kinds_that_may_be_undefined_are_found_in_the_first_folder() {
    let outside = ["networks.yaml", "monitoring/monitor.yaml", "monitoring/alerts.yaml"];
    for path in outside {
        let found = said(&fleets::upf(), "kustomization.yaml", |node| {
            put(node, &["resources"], &list!["gateways.yaml", path]);
        });
        assert!(found.contains(&format!("{path} needs the definition of")), "{found}");
    }
    let found = said(&fleets::upf(), "monitoring/kustomization.yaml", |node| {
        put(node, &["resources"], &list!["monitor.yaml", "../networks.yaml", "none.yaml"]);
    });
    assert!(found.contains("there is no monitoring/none.yaml"), "{found}");
}

#[test]
fn a_script_that_reads_what_is_not_there_is_found() {
    let found = said(&fleets::upf(), "traffic.yaml", |node| replaced(node, ": > /tmp/up.jsonl\n", ""));
    assert!(found.contains("its script reads /tmp/up.jsonl before it is there"), "{found}");
}
