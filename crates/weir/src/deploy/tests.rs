use std::path::{Path, PathBuf};

use super::*;
use gateway::load::{LoadError, Text};
use upf::product::Loaded;

fn plan(text: &str) -> anyhow::Result<Plan> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weir-deploy-{}-{n}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let plan = Plan::read(&path);
    std::fs::remove_file(&path).unwrap();
    Ok(plan?)
}

/// The example, without its own words about deployments.
fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plan-upf.toml");
    let text = std::fs::read_to_string(path).unwrap();
    text[..text.find("\n[deploy]").unwrap()].to_owned()
}

#[test]
fn a_fleet_is_what_the_plan_answers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plan-upf.toml");
    let fleet = fleet(&Plan::read(&path).unwrap(), None, Some("aws")).unwrap();
    assert!(::deploy::aws::files(&fleet).is_ok() && ::deploy::kubernetes::files(&fleet).is_ok());
    assert_eq!((fleet.most_machines(), fleet.ordinals()), (12, 12));
    let is = (fleet.machine.name.as_str(), fleet.units, fleet.needed, fleet.machines, fleet.subscribers);
    assert_eq!(is, ("c5n.2xlarge", 1, 7, 8, Some(250_000)));
    assert_eq!((fleet.machine.vcpus, fleet.machine.interfaces), (Some(8), Some(4)));
    assert_eq!(fleet.sessions(), 44_643, "a seventh and a quarter more");
}

/// Every configuration that is written for a gateway is one that `weir run` takes, and a share of it, too.
#[test]
fn gateways_configurations_are_in_order() {
    for more in ["", "[deploy]\nio = \"xdp\"\n", "[deploy]\nio = \"ring\"\n"] {
        let plan = plan(&format!("{}\n{more}", example())).unwrap();
        let fleet = fleet(&plan, None, None).unwrap();
        let configmap = ::deploy::kubernetes::configuration(&fleet, 0);
        let loaded =
            Loaded::of(Text { name: "gateway.toml".into(), text: configmap }).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(loaded.config.metrics.unwrap().address.port(), 9464);
        let script = ::deploy::aws::setup(&fleet);
        let begin = script.find("gateway = \"upf\"").unwrap();
        let template = &script[begin..begin + script[begin..].find("GATEWAY\n").unwrap()];
        let places = [
            ("@ACCESS_IF@", "eth1"),
            ("@CORE_IF@", "eth2"),
            ("@ACCESS@", "10.20.2.16/24"),
            ("@CORE@", "10.20.3.16/24"),
            ("@ACCESS_ROUTER@", "10.20.2.1"),
            ("@CORE_ROUTER@", "10.20.3.1"),
            ("@N4@", "10.20.1.16"),
            ("@CPUS@", "[0]"),
            ("@GATEWAY_NUMBER@", "0"),
            ("@METRICS@", "127.0.0.1:9464"),
            ("@HEALTH@", "127.0.0.1:9480"),
        ];
        let text = places.iter().fold(template.to_owned(), |text, (place, value)| text.replace(place, value));
        Loaded::of(Text { name: "0.toml".into(), text }).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// The first and the last file of wired gateways, for Kubernetes as the init container fills it in, for AWS as the set-up does.
fn files_of(fleet: &Fleet) -> Vec<String> {
    let template = ::deploy::aws::template(fleet);
    let last = fleet.ordinals() - 1;
    let mut all = Vec::new();
    for ordinal in [0, last] {
        all.push(::deploy::kubernetes::configuration(fleet, ordinal));
        let file = template.at(&["Resources", &format!("File{ordinal}"), "Properties", "Value"]);
        all.push(file.and_then(::deploy::node::Node::text).unwrap().to_owned());
    }
    let places = [
        ("@ACCESS_IF@", "eth1"),
        ("@CORE_IF@", "eth2"),
        ("@ACCESS@", "10.20.2.16/24"),
        ("@CORE@", "10.20.3.16/24"),
        ("@ACCESS_ROUTER@", "10.20.2.1"),
        ("@CORE_ROUTER@", "10.20.3.1"),
        ("@N4@", "10.20.1.16"),
        ("@POD_IP@", "10.244.0.16"),
        ("@CPUS@", if fleet.workers() == 1 { "[0]" } else { "[0, 1]" }),
        ("@GATEWAY_NUMBER@", "0"),
        ("@METRICS@", "127.0.0.1:9464"),
        ("@HEALTH@", "127.0.0.1:9480"),
        ("@MODEM_KEY@", "000102030405060708090a0b0c0d0e00"),
        ("@RADIUS_SECRET@", "a secret & more"),
    ];
    all.into_iter().map(|text| places.iter().fold(text, |text, (place, value)| text.replace(place, value))).collect()
}

/// What is written for cable and broadband gateways is what these take: a file for each.
#[test]
fn files_of_wired_gateways_are_in_order() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (example, gateways) in [("plan-cmts.toml", 24), ("plan-bng.toml", 5)] {
        let plan = Plan::read(&examples.join(example)).unwrap();
        let fleet = fleet(&plan, None, Some("aws")).unwrap();
        assert_eq!(fleet.ordinals(), gateways, "{example}");
        for files in [::deploy::aws::files(&fleet), ::deploy::kubernetes::files(&fleet)] {
            assert!(files.is_ok(), "{example}: {files:?}");
        }
        for text in files_of(&fleet) {
            let text = Text { name: "gateway.toml".into(), text };
            match fleet.gateway {
                fleet::Gateway::Cmts => {
                    let config = cmts::product::Loaded::of(text).unwrap_or_else(|e| panic!("{e}")).config;
                    assert_eq!((config.service_group.len(), config.workers.count), (1, 1), "{example}");
                }
                _ => {
                    let config = bng::product::Loaded::of(text).unwrap_or_else(|e| panic!("{e}")).config;
                    assert_eq!(config.group.len(), 2, "{example}: one for each worker");
                }
            }
        }
    }
}

fn said(text: &str, machine: Option<&str>) -> String {
    let fleet = plan(text).and_then(|plan| {
        let fleet = fleet(&plan, machine, Some("aws"))?;
        ::deploy::aws::files(&fleet).map_err(|found| wrong(&plan, &found))
    });
    let error = fleet.expect_err("it is wrong");
    match error.downcast_ref::<LoadError>() {
        Some(LoadError::Wrong(wrong)) => wrong.drawn(false, 200),
        _ => error.to_string(),
    }
}

#[test]
fn mistakes_point_at_the_plans_keys() {
    let with = |more: &str| format!("{}\n{more}", example());
    let text = said(&with("[deploy]\nue_pool = \"10.64.0.0/20\"\n"), None);
    assert!(text.contains("ue_pool = \"10.64.0.0/20\"") && text.contains("a larger pool"), "{text}");
    let text = said(&with("[deploy]\nmachine = \"c5n.huge\"\n"), None);
    assert!(text.contains("no machine of the plan is called c5n.huge"), "{text}");
    let text = said(&with("[deploy]\nue_poll = \"10.64.0.0/20\"\n"), None);
    assert!(text.contains("ue_poll"), "{text}");
    let text = said(&with("[deploy]\nue_pool = \"10.64.0.1/12\"\n"), None);
    assert!(text.contains("10.64.0.0/12 would be right"), "{text}");
    let text = said(&example(), Some("m5.large"));
    assert!(text.contains("--machine: m5.large cannot carry it: not measured"), "{text}");
    let bng = example().replace("gateway = \"upf\"", "gateway = \"bng\"");
    let text = said(&format!("{bng}\n[deploy]\npacket_buffers = 32768\n"), None);
    assert!(text.contains("lines come by VXLAN"), "{text}");
}

#[test]
fn files_are_written_whole_or_not_at_all() {
    let out: PathBuf = std::env::temp_dir().join(format!("weir-deploy-{}-out", std::process::id()));
    let files = [File::new("a", "1"), File::new("b", "2")];
    write(&out, &files, false).unwrap();
    std::fs::remove_file(out.join("a")).unwrap();
    let error = write(&out, &files, false).unwrap_err().to_string();
    assert!(error.contains("b is there already") && !out.join("a").exists(), "{error}");
    write(&out, &files, true).unwrap();
    assert_eq!(std::fs::read_to_string(out.join("a")).unwrap(), "1");
    std::fs::remove_dir_all(&out).unwrap();
}
