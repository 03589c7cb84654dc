//! Stacks made in moto's EC2: every type is made by its CloudFormation or by its EC2 calls, or stands in a list.

mod fleets;

use std::collections::BTreeSet;
use std::path::Path;

use deploy::aws::files;
use deploy::fleet::Fleet;
use deploy::settings::Case;
use serde_json::Value;

/// What moto 5.2.1 can make in no way. The list only becomes shorter; what a template has beyond it fails.
///
/// Reachability through what is left out here is judged on the template by `deploy::rules::reach` (tests/reach.rs).
const IGNORED: [&str; 4] = [
    "AWS::DirectConnect::DirectConnectGatewayAssociation",
    "AWS::EC2::LocalGatewayRouteTableVPCAssociation",
    "AWS::EC2::PlacementGroup",
    "AWS::EC2::VPNGatewayRoutePropagation",
];

fn made(template: &Path) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stack_in_moto.py");
    let out = fleets::judge(&[script, template.to_str().expect("UTF-8")]);
    fleets::well("moto", &out);
    let said = String::from_utf8_lossy(&out.stdout);
    let last = said.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {said}"))
}

fn large() -> Fleet {
    let mut fleet = fleets::upf();
    (fleet.needed, fleet.machines, fleet.subscribers) = (140, 141, Some(70_500));
    fleet
}

#[test]
fn stacks_are_made() {
    let mut ignored = BTreeSet::new();
    let all = [
        ("upf", fleets::upf(), 3),
        ("outpost", fleets::case(Case::Outpost), 3),
        ("cmts", Fleet { dedicated: false, ..fleets::cmts() }, 1),
        ("upf-141", large(), 3),
    ];
    for (name, fleet, networks) in all {
        let files = files(&fleet).unwrap_or_else(|found| panic!("{name}: {found:?}"));
        let folder = fleets::write(&format!("moto-{name}"), &files);
        let stack = made(&folder.join("weir.yaml"));
        assert_eq!(stack["status"], "CREATE_COMPLETE", "{name}: {stack}");
        assert_eq!(stack["refused"], serde_json::json!([]), "{name}: {stack}");
        assert_eq!(stack["made"]["AWS::EC2::VPC"], networks, "{name}: {stack}");
        let left_out = stack["ignored"].as_array().expect("a list");
        ignored.extend(left_out.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    assert_eq!(ignored.iter().map(String::as_str).collect::<Vec<_>>(), IGNORED);
}

/// What EC2 refuses fails: by CloudFormation, and by the calls for what moto's CloudFormation leaves out.
#[test]
fn a_stack_that_ec2_refuses_fails() {
    let files = files(&fleets::upf()).expect("files");
    let with = |name: &str, from: &str, to: &str| {
        let mut files = files.clone();
        assert!(files[0].text.contains(from), "{from}");
        files[0].text = files[0].text.replacen(from, to, 1);
        let stack = made(&fleets::write(&format!("moto-{name}"), &files).join("weir.yaml"));
        stack["refused"].to_string()
    };
    let elsewhere = with("subnet", "CidrBlock: \"10.20.1.0/24\"", "CidrBlock: \"10.99.1.0/24\"");
    assert!(elsewhere.contains("InvalidSubnet.Range"), "{elsewhere}");
    let attachment =
        "Properties:\n      TransitGatewayId:\n        Ref: TransitGateway\n      VpcId:\n        Ref: Vpc";
    let wrong = with("gateway", attachment, &attachment.replace("Ref: TransitGateway", "Ref: Vpc"));
    assert!(wrong.contains("InvalidTransitGatewayID.NotFound"), "{wrong}");
}
