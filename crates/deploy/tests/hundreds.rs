//! Fleets of hundreds of machines: stacks below the fleet's, and the command that a template's size asks for.

mod fleets;

use deploy::aws::{command, files};
use deploy::fleet::Fleet;

fn of(machines: u32) -> Fleet {
    let mut fleet = fleets::upf();
    (fleet.needed, fleet.machines, fleet.subscribers) = (machines - 1, machines, Some(u64::from(machines) * 500));
    fleet
}

#[test]
fn hundreds_of_machines_are_stacks_below_a_stack() {
    for (machines, stacks) in [(8, 0), (141, 2), (235, 3), (600, 6)] {
        let all = files(&of(machines)).unwrap_or_else(|found| panic!("{machines}: {found:?}"));
        let below: Vec<_> = all.iter().filter(|file| file.name.starts_with("sets-")).collect();
        assert_eq!(below.len(), stacks, "{machines}");
        let interfaces = |text: &str| text.matches("Type: AWS::EC2::NetworkInterface").count();
        let whole: usize = all.iter().map(|file| interfaces(&file.text)).sum();
        assert_eq!(whole, machines as usize * 2 + 2, "{machines}, and the traffic hosts'");
        for file in below {
            assert!(!file.text.contains("AWS::StackName"), "{}: it is the fleet's stack that is meant", file.name);
            assert!(all[0].text.contains(&format!("TemplateURL: \"./{}\"", file.name)), "{}", file.name);
        }
    }
}

/// Files of gateways are in stacks of their own, too.
#[test]
fn hundreds_of_service_groups_are_stacks_below_a_stack() {
    let mut fleet = fleets::cmts();
    (fleet.groups, fleet.needed, fleet.machines) = (Some(240), 80, 81);
    let all = files(&fleet).unwrap_or_else(|found| panic!("{found:?}"));
    let count = |text: &str, what: &str| text.matches(what).count();
    let files: usize = all.iter().map(|file| count(&file.text, "Type: AWS::SSM::Parameter\n")).sum();
    let machines = count(&all[0].text, "Type: AWS::EC2::Instance\n");
    let hosts = count(&all[0].text, "Type: AWS::EC2::Host\n");
    assert_eq!((files, machines, hosts), (240, 80, 21), "a host has room for four");
    let below: Vec<_> = all.iter().filter(|file| file.name.starts_with("sets-")).collect();
    assert!(below.len() >= 3, "{}", below.len());
    for file in below {
        assert!(!file.text.contains("AWS::StackName"), "{}: it is the fleet's stack that is meant", file.name);
    }
}

#[test]
fn cfn_lint_finds_nothing_in_stacks_below() {
    let folder = fleets::write("aws-hundreds", &files(&of(141)).expect("files"));
    for template in ["weir.yaml", "sets-0.yaml", "sets-1.yaml"] {
        // W3002: the README packages it.
        let run = "from cfnlint.runner import main; main()";
        let path = folder.join(template);
        let out = fleets::judge(&[
            "-c",
            run,
            "--regions",
            "us-east-1",
            "--ignore-checks",
            "W3002",
            "--template",
            path.to_str().expect("UTF-8"),
        ]);
        fleets::well(template, &out);
    }
}

#[test]
fn a_group_that_does_not_wait_for_stacks_below_is_found() {
    use deploy::node::Node;
    use deploy::{list, map};
    let resource = |kind: &str| map! { "Type" => kind };
    let mut group = resource("AWS::AutoScaling::AutoScalingGroup");
    let find = |group: &Node| {
        let template = map! {
            "Resources" => map! { "Gateways" => group.clone(), "Sets0" => resource("AWS::CloudFormation::Stack") },
        };
        deploy::rules::first_stack(&template).iter().any(|finding| finding.what.contains("before Sets0 is there"))
    };
    assert!(find(&group));
    group.put("DependsOn", list!["Sets0"]);
    assert!(!find(&group));
}

#[test]
fn large_templates_go_by_a_bucket() {
    let fleet = fleets::upf();
    let small = command(&fleet, 51_200, 0);
    assert!(small.contains("--template-body file://weir.yaml") && !small.contains("BUCKET"), "{small}");
    for large in [command(&fleet, 51_201, 0), command(&fleet, 40_000, 2)] {
        assert!(large.contains("aws cloudformation package") && !large.contains("--template-body"), "{large}");
    }
    let all = files(&fleet).expect("files");
    let readme = all.iter().find(|file| file.name == "README.md").expect("a README");
    assert!(readme.text.contains(&command(&fleet, all[0].text.len(), 0)), "{}", readme.text);
}
