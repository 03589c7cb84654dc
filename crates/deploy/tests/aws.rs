//! What is written for AWS, as cfn-lint and a shell read it.

mod fleets;

use std::path::Path;
use std::process::Command;

use deploy::aws::files;
use deploy::fleet::Fleet;
use deploy::settings::Case;

fn lint(template: &Path) -> std::process::Output {
    let run = "from cfnlint.runner import main; main()";
    fleets::judge(&["-c", run, "--regions", "us-east-1", "--template", template.to_str().expect("UTF-8")])
}

fn written(name: &str, fleet: &Fleet) -> Vec<deploy::File> {
    files(fleet).unwrap_or_else(|found| panic!("{name}: {found:?}"))
}

#[test]
fn cfn_lint_finds_nothing() {
    let (outpost, hybrid) = (fleets::case(Case::Outpost), fleets::case(Case::Hybrid));
    let all = [("upf", fleets::upf()), ("large", fleets::large()), ("single", fleets::single())];
    let wired = [
        ("cmts", fleets::cmts()),
        ("bng", fleets::bng()),
        ("bng-outpost", fleets::bng_on_an_outpost()),
        ("cmts-trial", fleets::cmts_in_the_cloud()),
    ];
    for (name, fleet) in all.into_iter().chain([("outpost", outpost), ("hybrid", hybrid)]).chain(wired) {
        let folder = fleets::write(&format!("aws-{name}"), &written(name, &fleet));
        // The image depends on the processor only.
        let templates = &["weir.yaml", "image.yaml"][..if ["upf", "large"].contains(&name) { 2 } else { 1 }];
        for template in templates {
            let path = folder.join(template);
            let out = lint(&path);
            fleets::well(&format!("{name} {template}"), &out);
        }
    }
}

/// cfn-lint does see what is wrong: a mistake put in is found.
#[test]
fn cfn_lint_would_find_something() {
    let mut files = written("upf", &fleets::upf());
    files[0].text = files[0].text.replace("SourceDestCheck: false", "SourceDestCheque: false");
    let folder = fleets::write("aws-broken", &files);
    let path = folder.join("weir.yaml");
    let out = lint(&path);
    assert!(!out.status.success());
    assert!(String::from_utf8_lossy(&out.stdout).contains("SourceDestCheque"));
}

#[test]
fn the_set_up_is_a_script_with_nothing_left_to_fill_in() {
    let wired = [("cmts", fleets::cmts()), ("bng", fleets::bng())];
    for (name, fleet) in [("upf", fleets::upf()), ("large", fleets::large())].into_iter().chain(wired) {
        let script = deploy::aws::setup(&fleet);
        let folder = fleets::write(&format!("script-{name}"), &[deploy::File::new("setup.sh", &script)]);
        let out = Command::new("bash").arg("-n").arg(folder.join("setup.sh")).output().expect("bash");
        fleets::well(name, &out);
        assert!(out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        // What is between at signs is filled in by sed, in the script itself.
        for word in script.split('@').skip(1) {
            let is_place = !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            if is_place {
                assert!(script.contains(&format!("s|@{word}@|")), "@{word}@ is never filled in");
            }
        }
    }
}

/// A gateway of the fleet may do no more than one that is set up by hand.
#[test]
fn gateways_run_by_the_hardened_unit() {
    let unit = include_str!("../../../deploy/systemd/weir@.service");
    let script = deploy::aws::setup(&fleets::upf());
    let settings = unit.lines().filter(|line| line.contains('=') && !line.starts_with('#'));
    let left_out: Vec<&str> = settings.filter(|line| !script.lines().any(|other| other == *line)).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
    let (_, own) = script.split_once("fleet.conf <<'FLEET'\n").expect("what is other in a fleet");
    let own: Vec<&str> =
        own.lines().take_while(|line| *line != "FLEET").filter_map(|line| line.split('=').next()).collect();
    assert_eq!(own, ["[Service]", "EnvironmentFile", "ExecStart", "ExecStart"], "nothing is loosened");
    // The script refers to little by ${…}, which grows by a few octets when it is filled in.
    assert!(script.len() < 16_000, "{} octets: more than an instance is started with", script.len());
}

#[test]
fn what_is_planned_is_what_is_written() {
    let fleet = fleets::large();
    let template = &written("large", &fleet)[0].text;
    // Nine machines, up to twelve, three gateways on each, two interfaces for each gateway.
    assert_eq!(template.matches("Type: AWS::EC2::NetworkInterface").count(), 12 * 3 * 2 + 2);
    assert_eq!(template.matches("SourceDestCheck: false").count(), 12 * 3 * 2 + 2, "and the traffic hosts'");
    // A route to each gateway's subscribers, in the transit gateway's and the NAT gateway's subnet of each zone.
    assert_eq!(template.matches("NetworkInterfaceId:\n").count(), 12 * 3 * 2 * 3 + 2, "and the traffic hosts' second");
    assert!(template.contains("vm.nr_hugepages=384"), "three gateways of 256 MiB");
    assert!(template.contains("xdp:@ACCESS_IF@?queue={worker}"));
    assert!(template.contains("--pool-from-ordinal 36"));
    assert!(
        template.contains("'0 1/8 9/16 17'") && template.contains("'2 3 4 5 6 7/10 11"),
        "CPUs of workers, and of interrupts"
    );
    assert!(!template.contains("Strategy: cluster"), "three zones");
    let single = &written("single", &fleets::single())[0].text;
    assert!(!single.contains("AWS::EC2::TransitGateway\n") && single.contains("Strategy: cluster"));
    assert_eq!(single.matches("Type: AWS::EC2::VPC\n").count(), 1);
}

/// What a case cannot do without is asked for, and only there.
#[test]
fn three_cases_ask_for_what_they_need() {
    let parameters = |case| {
        let all = written("case", &fleets::case(case));
        let file = |name: &str| all.iter().find(|file| file.name == name).map(|file| file.text.clone()).expect(name);
        (file("weir.yaml"), file("parameters.json"))
    };
    let needed = |template: &str, name: &str| {
        let (_, rest) = template.split_once(&format!("\n  {name}:\n")).expect(name);
        rest.split_once("\n  ").is_some() && rest.lines().take(3).any(|line| line.contains("AllowedPattern"))
    };
    let names = ["DirectConnectGatewayId", "OutpostArn", "LocalGatewayId", "LocalGatewayRouteTableId"];
    for (case, wanted) in [(Case::Cloud, &names[..0]), (Case::Outpost, &names[1..]), (Case::Hybrid, &names[..1])] {
        let (template, values) = parameters(case);
        for name in names {
            assert_eq!(needed(&template, name), wanted.contains(&name), "{case:?} {name}");
            assert_eq!(values.contains(&format!("\"{name}\"")), wanted.contains(&name), "{case:?} {name}");
        }
        // Control planes in the region have a subnet there; those of the premises may speak.
        assert_eq!(template.contains("\n  ControlA:\n"), case == Case::Outpost, "{case:?}");
        assert_eq!(
            template.contains("allow = [\"10.20.0.0/16\", \"10.21.0.0/16\", \"10.32.0.0/12\"]"),
            case == Case::Hybrid
        );
    }
}
