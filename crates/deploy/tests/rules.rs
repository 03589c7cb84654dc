//! Every rule, broken: what linters cannot know is found, and by its key.

mod fleets;

use deploy::aws;
use deploy::fleet::Fleet;
use deploy::kubernetes;
use deploy::node::Node;
use deploy::rules::{cloud_formation, manifests};
use deploy::{list, map};

/// The keys that are blamed when a good fleet is changed.
fn blamed(change: impl FnOnce(&mut Fleet)) -> Vec<String> {
    let mut fleet = fleets::upf();
    change(&mut fleet);
    let found = aws::files(&fleet).expect_err("something is wrong");
    found.iter().map(|finding| finding.path.join(".")).collect()
}

#[test]
fn a_good_fleet_is_good() {
    let wired = [fleets::cmts(), fleets::bng(), fleets::bng_on_an_outpost()];
    for fleet in [fleets::upf(), fleets::large(), fleets::single()].into_iter().chain(wired) {
        assert!(aws::files(&fleet).is_ok(), "{:?}", aws::files(&fleet).err());
    }
}

#[test]
fn what_does_not_fit_a_machine_is_found() {
    assert_eq!(blamed(|fleet| fleet.machine.interfaces = Some(2)), ["unit.interfaces"]);
    assert_eq!(blamed(|fleet| fleet.units = 2), ["unit.interfaces"], "five interfaces on a type of four");
    assert_eq!(
        blamed(|fleet| (fleet.unit.queues, fleet.unit.vcpus, fleet.machine.queues) = (4, 4, Some(2))),
        ["unit.queues"]
    );
    assert_eq!(blamed(|fleet| fleet.unit.queues = 3), ["unit.queues"], "three workers on two vCPUs");
    assert_eq!(blamed(|fleet| fleet.unit.vcpus = 16), ["unit.vcpus"]);
    assert_eq!(blamed(|fleet| fleet.machine.memory_mib = Some(1024)), ["deploy.hugepages_mib"]);
    assert_eq!(blamed(|fleet| fleet.unit.interfaces = 1), ["unit.interfaces"]);
    assert_eq!(blamed(|fleet| fleet.unit.admin_interfaces = 0), ["unit.admin_interfaces"]);
}

#[test]
fn what_nobody_knows_is_not_promised() {
    for forget in [
        (|fleet: &mut Fleet| fleet.machine.interfaces = None) as fn(&mut Fleet),
        |fleet| fleet.machine.queues = None,
        |fleet| fleet.machine.vcpus = None,
        |fleet| fleet.machine.memory_mib = None,
    ] {
        assert_eq!(blamed(forget), ["deploy.machine"]);
    }
}

#[test]
fn settings_that_make_no_sense_are_found() {
    let bad = |text: &str| blamed(|fleet| fleet.settings = toml::from_str(text).expect("settings"));
    assert_eq!(bad("name = \"Weir 1\""), ["deploy.name"]);
    assert_eq!(bad("most_machines = 3"), ["deploy.most_machines"]);
    assert_eq!(bad("least_machines = 9"), ["deploy.least_machines"]);
    assert_eq!(bad("target_load = 1.5"), ["deploy.target_load"]);
    assert_eq!(bad("drain_seconds = 9000"), ["deploy.drain_seconds"]);
    assert_eq!(bad("packet_buffers = 4096"), ["deploy.packet_buffers"]);
    assert_eq!(bad("hugepages_mib = 32"), ["deploy.hugepages_mib"]);
    assert_eq!(bad("ue_pool = \"10.64.0.0/18\""), ["deploy.ue_pool"], "2048 addresses for 44,643 sessions");
    assert_eq!(bad("ue_pool = \"10.64.0.0/31\""), ["deploy.ue_pool"]);
    assert_eq!(bad("most_machines = 9000"), ["deploy.ue_pool", "deploy.most_machines"], "addresses run out");
    assert_eq!(bad("aws.zones = [\"a\", \"a\"]"), ["deploy.aws.zones"]);
    assert_eq!(bad("aws.vpc = \"10.20.0.0/24\""), ["deploy.aws.vpc"]);
}

#[test]
fn cases_that_can_not_be_are_found() {
    let bad = |text: &str| blamed(|fleet| fleet.settings = toml::from_str(text).expect("settings"));
    assert_eq!(bad("aws.case = \"hybrid\"\naws.single_vpc = true"), ["deploy.aws.single_vpc"]);
    let outpost = |fleet: &mut Fleet| {
        (fleet.zones, fleet.cluster, fleet.settings.aws.case) = (2, false, deploy::settings::Case::Outpost);
    };
    assert_eq!(blamed(outpost), ["deploy.aws.case"]);
}

#[test]
fn networks_that_overlap_are_found() {
    let bad = |text: &str| blamed(|fleet| fleet.settings = toml::from_str(text).expect("settings"));
    assert_eq!(bad("aws.vpc = \"10.64.0.0/16\""), ["deploy.aws.vpc"], "subscribers' addresses");
    assert_eq!(bad("aws.generator_vpc = \"10.20.0.0/17\""), ["deploy.aws.generator_vpc"]);
    assert_eq!(bad("aws.on_premise = \"10.16.0.0/12\"")[0], "deploy.aws.on_premise");
}

/// The keys that are blamed when a good fleet of wired gateways is changed.
fn blamed_of(mut fleet: Fleet, change: impl FnOnce(&mut Fleet)) -> Vec<String> {
    change(&mut fleet);
    let found = aws::files(&fleet).expect_err("something is wrong");
    found.iter().map(|finding| finding.path.join(".")).collect()
}

#[test]
fn access_sides_that_no_route_leads_to_are_found() {
    let cloud = |fleet: &mut Fleet| fleet.settings.aws.case = deploy::settings::Case::Cloud;
    assert_eq!(blamed_of(fleets::cmts(), cloud), ["deploy.cmts.devices"]);
    assert_eq!(blamed_of(fleets::bng(), cloud), ["deploy.bng.tunnels"]);
    assert_eq!(blamed_of(fleets::bng(), |fleet| fleet.settings.bng.tunnels.clear()), ["deploy.bng.tunnels"]);
    let xdp = |fleet: &mut Fleet| fleet.settings.io = deploy::settings::Io::Xdp;
    assert_eq!(blamed_of(fleets::bng(), xdp), ["deploy.io"]);
}

#[test]
fn wired_gateways_with_too_little_are_found() {
    let few = |fleet: &mut Fleet| fleet.settings.bng.s_vlans = 1024;
    assert_eq!(blamed_of(fleets::bng(), few), ["deploy.bng"], "eight workers with 1024 outer VLANs each");
    assert_eq!(blamed_of(fleets::bng(), |fleet| fleet.settings.most_machines = Some(9)), ["deploy.most_machines"]);
    let mac = |fleet: &mut Fleet| fleet.settings.cmts.modem_mac = "02:cb:00".to_owned();
    assert_eq!(blamed_of(fleets::cmts(), mac), ["deploy.cmts"]);
    assert_eq!(blamed_of(fleets::cmts(), |fleet| fleet.unit.share_interfaces = true), ["unit.share_interfaces"]);
    let modems = |fleet: &mut Fleet| fleet.settings.cmts.modems = 60_000;
    assert_eq!(blamed_of(fleets::cmts(), modems), ["deploy.ue_pool"]);
}

#[test]
fn placement_that_can_not_be_is_found() {
    assert_eq!(blamed(|fleet| fleet.zones = 2), ["placement.cluster"]);
    assert_eq!(blamed(|fleet| (fleet.zones, fleet.cluster) = (4, false)), ["deploy.aws.zones"]);
    assert_eq!(blamed(|fleet| fleet.machine.provider = "on-premise".into()), ["deploy.machine"]);
}

/// A small valid template.
fn template() -> Node {
    let resource = |kind: &str, properties: Node| map! { "Type" => kind, "Properties" => properties };
    map! {
        "Parameters" => map! { "P" => map! {} },
        "Conditions" => map! { "C" => map! {} },
        "Resources" => map! {
            "Vpc" => resource("AWS::EC2::VPC", map! { "CidrBlock" => "10.0.0.0/16" }),
            "A" => resource("AWS::EC2::Subnet", map! { "VpcId" => map! { "Ref" => "Vpc" }, "CidrBlock" => "10.0.1.0/24" }),
            "B" => resource("AWS::EC2::Subnet", map! { "VpcId" => map! { "Ref" => "Vpc" }, "CidrBlock" => "10.0.2.0/24" }),
            "N" => resource("AWS::EC2::NetworkInterface", map! {
                "SubnetId" => map! { "Ref" => "A" }, "PrivateIpAddress" => "10.0.1.16", "SourceDestCheck" => false,
            }),
            "M" => resource("AWS::EC2::NetworkInterface", map! {
                "SubnetId" => map! { "Ref" => "A" }, "PrivateIpAddress" => "10.0.1.17", "SourceDestCheck" => false,
            }),
            "G" => resource("AWS::AutoScaling::AutoScalingGroup", map! { "MinSize" => "1", "MaxSize" => "2" }),
            "L" => resource("AWS::EC2::LaunchTemplate", map! {
                "LaunchTemplateData" => map! { "UserData" => map! { "Fn::Base64" => map! { "Fn::Sub" => "${P} ${N.Id} ${AWS::Region}" } } },
            }),
        },
    }
}

/// What is said when a text in that template is another.
fn said(from: &str, to: &str) -> String {
    fn change(node: &mut Node, from: &str, to: &str) -> usize {
        match node {
            Node::Text(text) if text == from => {
                to.clone_into(text);
                1
            }
            Node::Map(entries) => entries.iter_mut().map(|(_, value)| change(value, from, to)).sum(),
            Node::List(list) => list.iter_mut().map(|value| change(value, from, to)).sum(),
            _ => 0,
        }
    }
    let mut node = template();
    assert!(change(&mut node, from, to) > 0, "{from}");
    cloud_formation(&node).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn templates_that_do_not_hold_together_are_found() {
    assert_eq!(cloud_formation(&template()), []);
    assert!(said("10.0.2.0/24", "10.0.1.128/25").contains("Resources.B: 10.0.1.128/25 overlaps 10.0.1.0/24 of A"));
    assert!(said("10.0.2.0/24", "10.1.2.0/24").contains("Resources.B: 10.1.2.0/24 is not in its VPC"));
    assert!(said("10.0.1.17", "10.0.1.16").contains("Resources.M: 10.0.1.16 is another's, too"));
    assert!(said("10.0.1.17", "10.0.1.3").contains("10.0.1.3 is no usable address of A"));
    assert!(said("10.0.1.17", "10.0.1.255").contains("10.0.1.255 is no usable address of A"));
    assert!(said("10.0.1.17", "10.0.2.17").contains("10.0.2.17 is no usable address of A"));
    assert!(said("Vpc", "Vcp").contains("\"Vcp\" is referred to and is not there"));
    assert!(said("${P} ${N.Id} ${AWS::Region}", "${Q}").contains("\"Q\" is referred to"));
    assert!(said("${P} ${N.Id} ${AWS::Region}", &"x".repeat(16_385)).contains("16385 bytes of user data"));
    assert!(said("1", "3").contains("3 to 2 machines"));
    let mut conditional = template();
    conditional.put("Outputs", map! { "O" => map! { "Value" => map! { "Fn::If" => list!["D", "a", "b"] } } });
    assert!(cloud_formation(&conditional)[0].what.contains("\"D\" is referred to"));
    let checked = map! { "Resources" => map! { "N" => map! { "Type" => "AWS::EC2::NetworkInterface", "Properties" => map! {} } } };
    let found = cloud_formation(&checked);
    assert!(found[0].help.contains("SourceDestCheck: false") && found[1].what.contains("no subnet"), "{found:?}");
    let many = (0..501).map(|n| (format!("R{n}"), map! { "Type" => "AWS::EC2::EIP" })).collect();
    assert!(cloud_formation(&map! { "Resources" => Node::Map(many) })[0].what.contains("501 resources"));
    let routes = (0..1001).map(|n| {
        let route = map! { "Type" => "AWS::EC2::Route", "Properties" => map! { "RouteTableId" => "T" } };
        (format!("R{n}"), route)
    });
    let found = cloud_formation(&map! { "Resources" => Node::Map(routes.collect()) });
    assert!(found.iter().any(|finding| finding.what.contains("1001 routes")), "{found:?}");
}

/// What is said of the good manifests, changed.
fn of_manifests(kind: &str, path: &[&str], value: Option<Node>) -> String {
    fn set(node: &mut Node, path: &[&str], value: Option<Node>) {
        let (key, rest) = path.split_first().expect("a path");
        match node {
            Node::Map(entries) if rest.is_empty() => match value {
                Some(value) => {
                    entries.iter_mut().filter(|(name, _)| name == key).for_each(|(_, old)| *old = value.clone())
                }
                None => entries.retain(|(name, _)| name != key),
            },
            Node::Map(entries) => {
                let (_, inner) = entries.iter_mut().find(|(name, _)| name == key).unwrap_or_else(|| panic!("{key}"));
                set(inner, rest, value);
            }
            Node::List(list) => set(&mut list[key.parse::<usize>().expect("a position")], rest, value),
            _ => panic!("{key}"),
        }
    }
    let fleet = fleets::upf();
    let mut objects = kubernetes::objects(&fleet);
    let object = objects.iter_mut().find(|object| object.get("kind").and_then(Node::text) == Some(kind));
    set(object.unwrap_or_else(|| panic!("{kind}")), path, value);
    let all: Vec<&Node> = objects.iter().collect();
    manifests(&all, &fleet).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn manifests_that_do_not_hold_together_are_found() {
    let set = "StatefulSet";
    let container = ["spec", "template", "spec", "containers", "0"];
    let in_container = |rest: &[&'static str]| [&container[..], rest].concat();
    assert_eq!(of_manifests(set, &["spec", "podManagementPolicy"], Some("Parallel".into())), "");
    assert!(
        of_manifests(set, &["spec", "serviceName"], Some("other".into())).contains("there is no Service \"other\"")
    );
    let account = ["spec", "template", "spec", "serviceAccountName"];
    assert!(of_manifests(set, &account, Some("x".into())).contains("there is no ServiceAccount \"x\""));
    let volume = ["spec", "template", "spec", "volumes", "0", "configMap", "name"];
    assert!(of_manifests(set, &volume, Some("x".into())).contains("there is no ConfigMap \"x\""));
    let networks = ["spec", "template", "metadata", "annotations", "k8s.v1.cni.cncf.io/networks"];
    let network = Some("[{\"name\":\"x\"}]".into());
    assert!(of_manifests(set, &networks, network).contains("there is no NetworkAttachmentDefinition \"x\""));
    let target = ["spec", "scaleTargetRef", "name"];
    assert!(
        of_manifests("HorizontalPodAutoscaler", &target, Some("x".into())).contains("there is no StatefulSet \"x\"")
    );
    let other = || Some(map! { "app" => "other" });
    for (kind, path) in [
        ("Service", &["spec", "selector"][..]),
        ("PodDisruptionBudget", &["spec", "selector", "matchLabels"]),
        ("ServiceMonitor", &["spec", "selector", "matchLabels"]),
        ("NetworkPolicy", &["spec", "podSelector", "matchLabels"]),
    ] {
        assert!(of_manifests(kind, path, other()).contains("its selector chooses nothing"), "{kind}");
    }
    let port = ["spec", "endpoints", "0", "port"];
    assert!(of_manifests("ServiceMonitor", &port, Some("web".into())).contains("the service has no port \"web\""));
    let port = ["spec", "ingress", "0", "ports", "0", "port"];
    assert!(of_manifests("NetworkPolicy", &port, Some("sctp".into())).contains("no container has a port \"sctp\""));
    let from = ["spec", "ingress", "1", "from"];
    assert!(of_manifests("NetworkPolicy", &from, Some(Node::List(Vec::new()))).contains("admits every source"));
    let cpu = in_container(&["resources", "requests", "cpu"]);
    assert!(of_manifests(set, &cpu, Some("1".into())).contains("requests and limits alike"));
    assert!(of_manifests(set, &cpu, Some("64".into())).contains("64 CPUs on nodes of 8"));
    assert!(of_manifests(set, &cpu, Some("two".into())).contains("a quantity such as"));
    let memory = in_container(&["resources", "requests", "memory"]);
    assert!(of_manifests(set, &memory, Some("64Gi".into())).contains("MiB on nodes of 21504"));
    let mount = in_container(&["volumeMounts", "0", "name"]);
    assert!(of_manifests(set, &mount, Some("x".into())).contains("there is no volume \"x\""));
    let probe = in_container(&["readinessProbe", "httpGet", "port"]);
    assert!(of_manifests(set, &probe, Some("x".into())).contains("readinessProbe uses a port that does not exist"));
    let rights = in_container(&["securityContext", "privileged"]);
    assert!(of_manifests(set, &rights, Some(true.into())).contains("it may do everything"));
    assert!(of_manifests(set, &rights, None).contains("it may do everything"));
}
