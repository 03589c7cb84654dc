//! Flows of every fleet arrive, in the template and in the module; without any one of what leads them, one does not.

mod fleets;

use deploy::aws::template;
use deploy::fleet::Fleet;
use deploy::module::module;
use deploy::node::Node;
use deploy::rules::reach;
use deploy::settings::Case;

fn said(fleet: &Fleet, document: &Node) -> String {
    reach(fleet, document).iter().map(|finding| format!("{finding}\n")).collect()
}

fn section<'a>(node: &'a mut Node, name: &str) -> &'a mut Vec<(String, Node)> {
    let Node::Map(entries) = node else { panic!("a map") };
    let (_, found) = entries.iter_mut().find(|(key, _)| key == name).expect(name);
    let Node::Map(found) = found else { panic!("a map") };
    found
}

#[test]
fn flows_arrive_in_template_and_module() {
    for (name, fleet) in fleets::all() {
        let template = template(&fleet);
        assert_eq!(said(&fleet, &template), "", "{name}");
        assert_eq!(said(&fleet, &module(&fleet, &template)), "", "{name}: the module");
    }
}

/// Kinds of which each one is on the way of some flow.
const LEADS: [&str; 14] = [
    "AWS::DirectConnect::DirectConnectGatewayAssociation",
    "Custom::DirectConnectAttachment",
    "AWS::EC2::LocalGatewayRouteTableVPCAssociation",
    "AWS::EC2::Route",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::EC2::NatGateway",
    "AWS::EC2::VPNGatewayRoutePropagation",
    "AWS::EC2::TransitGatewayAttachment",
    "AWS::EC2::TransitGatewayRoute",
    "AWS::EC2::TransitGatewayRouteTableAssociation",
    "AWS::EC2::TransitGatewayRouteTablePropagation",
    "AWS::EC2::NetworkInterface",
    "AWS::EC2::SecurityGroup",
];

/// What is for no flow of a gateway: control planes that are not the fleet's, a trial's hosts, rules for administration, and
/// what is not there in the case.
fn is_beside(fleet: &Fleet, name: &str, resource: &Node) -> bool {
    let beside = ["Control", "GeneratorInterface", "ResponderInterface", "Group", "Administration"];
    let is_there = match resource.get("Condition").and_then(Node::text) {
        Some("ByDirectConnect") => fleet.settings.aws.case == Case::Hybrid,
        Some("ByLocalGateway") => fleet.settings.aws.case == Case::Outpost,
        _ => true,
    };
    !is_there || beside.iter().any(|it| name.contains(it))
}

#[test]
fn whatever_is_taken_away_is_missed() {
    let mut all_survived = Vec::new();
    for (name, fleet) in fleets::all() {
        let whole = template(&fleet);
        let names: Vec<String> = whole
            .get("Resources")
            .map(Node::entries)
            .expect("resources")
            .iter()
            .filter(|(_, it)| LEADS.contains(&it.get("Type").and_then(Node::text).unwrap_or_default()))
            .filter(|(name, it)| !is_beside(&fleet, name, it))
            .map(|(name, _)| name.clone())
            .collect();
        let mut survived = Vec::new();
        for gone in names {
            let mut less = whole.clone();
            section(&mut less, "Resources").retain(|(name, _)| *name != gone);
            if reach(&fleet, &less).is_empty() {
                survived.push(gone);
            }
        }
        all_survived.push((name, survived));
    }
    all_survived.retain(|(_, survived)| !survived.is_empty());
    assert!(all_survived.is_empty(), "nobody misses {all_survived:?}");
}
