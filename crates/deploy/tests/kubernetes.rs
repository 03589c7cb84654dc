//! What is written for Kubernetes, as kubernetes-validate and kustomize read it.

mod fleets;

use deploy::fleet::Fleet;
use deploy::kubernetes::{self, files};
use deploy::settings::{Attachment, Scaler};

fn sriov() -> Fleet {
    let mut fleet = fleets::large();
    fleet.settings.kubernetes.attachment = Attachment::Sriov;
    fleet
}

fn macvlan() -> Fleet {
    let mut fleet = fleets::upf();
    fleet.settings.kubernetes.attachment = Attachment::Macvlan;
    fleet
}

fn keda() -> Fleet {
    let mut fleet = fleets::upf();
    fleet.settings.kubernetes.scaler = Scaler::Keda;
    fleet
}

fn written(name: &str, fleet: &Fleet) -> Vec<deploy::File> {
    files(fleet).unwrap_or_else(|found| panic!("{name}: {found:?}"))
}

/// Reads every document; those of Kubernetes' own kinds strictly against the schema of a version.
const VALIDATE: &str = "
import glob, json, sys, yaml, kubernetes_validate
judged = 0
for path in sorted(glob.glob(sys.argv[1] + '/**/*.yaml', recursive=True)):
    if '/chart/' in path:
        continue
    for document in yaml.safe_load_all(open(path)):
        if 'apiVersion' not in document:
            continue
        if document['apiVersion'].split('/')[0] in ('k8s.cni.cncf.io', 'monitoring.coreos.com', 'kustomize.config.k8s.io', 'keda.sh'):
            if document['kind'] == 'NetworkAttachmentDefinition':
                json.loads(document['spec']['config'])
            continue
        for version in ('1.29', '1.37'):
            kubernetes_validate.validate(document, version, strict=True)
        judged += 1
print(judged)
";

#[test]
fn kubernetes_validate_finds_nothing() {
    let upf = [("host", fleets::upf(), 11), ("sriov", sriov(), 12), ("macvlan", macvlan(), 11), ("keda", keda(), 10)];
    let cases = upf.into_iter().chain([("cmts", fleets::cmts(), 9), ("bng", fleets::bng(), 9)]);
    for (name, fleet, objects) in cases {
        let folder = fleets::write(&format!("k8s-{name}"), &written(name, &fleet));
        let out = fleets::judge(&["-c", VALIDATE, folder.to_str().expect("UTF-8")]);
        fleets::well(name, &out);
        assert_eq!(
            String::from_utf8_lossy(&out.stdout).trim(),
            objects.to_string(),
            "{name}: objects of Kubernetes' own kinds"
        );
    }
}

/// A pod for each service group, and for each broadband gateway: its own file, secrets that no file has, no autoscaler.
#[test]
fn each_gateway_has_its_own_file() {
    for (name, fleet, secret) in [("cable", fleets::cmts(), "@MODEM_KEY@"), ("fixed", fleets::bng(), "@RADIUS_SECRET@")]
    {
        let all = written(name, &fleet);
        let file = |name: &str| all.iter().find(|file| file.name == name).map(|file| file.text.as_str());
        let gateways = file("gateways.yaml").expect("gateways");
        let pods = fleet.ordinals();
        assert!(gateways.contains(&format!("  replicas: {pods}\n")), "{gateways}");
        assert!(gateways.contains("/etc/weir/$(POD_NAME).toml") && !gateways.contains("preStop"), "{gateways}");
        assert!(
            file("scaling.yaml").is_none() && file("keda/scaling.yaml").is_none() && file("traffic.yaml").is_none()
        );
        let configs: Vec<String> = (0..pods).map(|n| kubernetes::configuration(&fleet, n)).collect();
        assert!(configs.iter().all(|config| config.contains(secret)), "{}", configs[0]);
        assert!(gateways.contains(&format!("{name}-{}.toml: |", pods - 1)));
        let lines = |key: &str| -> Vec<&str> {
            configs.iter().filter_map(|config| config.lines().find(|line| line.starts_with(key))).collect()
        };
        for key in ["addresses = ", "ipv4 = ", "mac = ", if name == "cable" { "rpd = " } else { "s_vlans = " }] {
            let mut different = lines(key);
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), pods as usize, "{name}: {key}");
        }
        let readme = file("README.md").expect("a README");
        let made = format!("create secret generic {name}-secrets --from-file=");
        assert!(readme.contains(&made) && !readme.contains("autoscaler"), "{readme}");
    }
    let mut macvlan = fleets::bng();
    macvlan.settings.kubernetes.attachment = Attachment::Macvlan;
    assert!(!kubernetes::configuration(&macvlan, 0).contains("\nmac = "), "macvlan passes its own address only");
}

/// kubernetes-validate does see what is wrong: a mistake put in is found.
#[test]
fn kubernetes_validate_would_find_something() {
    let mut all = written("host", &fleets::upf());
    for file in &mut all {
        file.text = file.text.replace("terminationGracePeriodSeconds", "terminationGracePeriodSecond");
    }
    let folder = fleets::write("k8s-broken", &all);
    let out = fleets::judge(&["-c", VALIDATE, folder.to_str().expect("UTF-8")]);
    assert!(!out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("terminationGracePeriodSecond"));
}

#[test]
fn a_network_policy_names_who_may_come() {
    let mut fleet = macvlan();
    fleet.settings.kubernetes.monitoring_namespace = "watch".to_owned();
    fleet.settings.kubernetes.nodes = vec!["192.0.2.0/24".parse().expect("a network")];
    let all = written("macvlan", &fleet);
    let file = |name: &str| all.iter().find(|file| file.name == name).map(|file| file.text.as_str()).expect(name);
    let (_, policy) = file("gateways.yaml").split_once("kind: NetworkPolicy").expect("a policy");
    for part in [
        "cidr: \"10.244.0.0/16\"",
        "kubernetes.io/metadata.name: watch",
        "port: pfcp",
        "port: metrics",
        "cidr: \"192.0.2.0/24\"",
        "port: health",
    ] {
        assert!(policy.contains(part), "{part}: {policy}");
    }
    assert!(file("gateways.yaml").contains("port: health"), "probes ask the listener that is theirs");
    let configuration = deploy::kubernetes::configuration(&fleet, 0);
    assert!(configuration.contains("[health]\naddress = \"0.0.0.0:9465\""), "{configuration}");
}

#[test]
fn what_is_planned_is_what_is_written() {
    let all = written("sriov", &sriov());
    let file = |name: &str| all.iter().find(|file| file.name == name).map(|file| file.text.as_str()).expect(name);
    let gateways = file("gateways.yaml");
    assert!(!gateways.contains("replicas:"), "they are the autoscaler's");
    assert!(file("README.md").contains("--replicas 27\n"), "nine machines with three gateways each");
    assert!(gateways.contains("- \"--pool-from-ordinal\"\n            - \"36\"\n"), "{gateways}");
    assert!(gateways.contains("weir.dev/access: \"1\"") && gateways.contains("- BPF"), "SR-IOV and AF_XDP");
    assert!(!gateways.contains("privileged: true") && gateways.contains("drop:\n                - ALL"), "{gateways}");
    assert!(
        file("scaling.yaml").contains("maxReplicas: 36") && file("scaling.yaml").contains("averageValue: \"700m\"")
    );
    assert!(file("README.md").contains("10.64.0.0/18 via 10.0.6.16        # wide-0"), "{}", file("README.md"));
    let kustomization = file("kustomization.yaml");
    assert!(kustomization.contains("- gateways.yaml") && !kustomization.contains("traffic.yaml"));
}

#[test]
fn attachments_that_would_not_do_are_refused_with_the_reason() {
    let mut fleet = fleets::upf();
    fleet.settings.kubernetes.attachment = Attachment::Ipvlan;
    let found = files(&fleet).expect_err("refused");
    assert!(found[0].what.contains("packets to subscribers would not come"), "{found:?}");
    let found = files(&fleets::large()).expect_err("three gateways, one interface");
    assert_eq!(found[0].path, ["deploy", "kubernetes", "attachment"]);
}

#[test]
fn alerts_and_dashboard_go_with_the_gateways() {
    let all = written("macvlan", &macvlan());
    let file = |name: &str| all.iter().find(|file| file.name == name).map(|file| file.text.as_str()).expect(name);
    let alerts = file("monitoring/alerts.yaml");
    assert!(
        alerts.contains("kind: PrometheusRule") && alerts.contains("\n        - alert: WeirNotReady\n"),
        "{alerts}"
    );
    assert!(!alerts.contains("weir-cmts"), "{alerts}");
    assert!(file("dashboard.yaml").contains("grafana_dashboard: \"1\""));
    assert!(file("kustomization.yaml").contains("dashboard.yaml"));
    assert!(file("monitoring/kustomization.yaml").contains("alerts.yaml"));
}
