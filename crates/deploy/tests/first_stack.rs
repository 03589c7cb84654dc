//! What fails when a stack is first created, rebooted or changed: every template is broken in the way it once was, and a
//! rule finds it.

mod fleets;

use deploy::aws::template;
use deploy::fleet::Fleet;
use deploy::map;
use deploy::node::Node;
use deploy::rules::first_stack;

fn said(template: &Node) -> String {
    first_stack(template).iter().map(|finding| format!("{finding}\n")).collect()
}

/// What is said of a fleet's template without a resource.
fn without(fleet: &Fleet, name: &str) -> String {
    changed(fleet, |resources| {
        let all = resources.len();
        resources.retain(|(other, _)| other != name);
        assert_eq!(resources.len() + 1, all, "{name} is there");
    })
}

fn changed(fleet: &Fleet, change: impl FnOnce(&mut Vec<(String, Node)>)) -> String {
    let mut template = template(fleet);
    let Node::Map(sections) = &mut template else { panic!("a map") };
    let (_, resources) = sections.iter_mut().find(|(name, _)| name == "Resources").expect("resources");
    let Node::Map(resources) = resources else { panic!("a map") };
    change(resources);
    said(&template)
}

/// What is said when a text is replaced wherever it stands in a resource.
fn replaced(name: &str, from: &str, to: &str) -> String {
    replaced_in(&fleets::upf(), name, from, to)
}

fn replaced_in(fleet: &Fleet, name: &str, from: &str, to: &str) -> String {
    fn replace(node: &mut Node, from: &str, to: &str) -> usize {
        match node {
            Node::Map(all) => all.iter_mut().map(|(_, value)| replace(value, from, to)).sum(),
            Node::List(all) => all.iter_mut().map(|value| replace(value, from, to)).sum(),
            Node::Text(text) => {
                let count = text.matches(from).count();
                *text = text.replace(from, to);
                count
            }
            _ => 0,
        }
    }
    changed(fleet, |resources| {
        let (_, resource) = resources.iter_mut().find(|(other, _)| other == name).expect(name);
        assert!(replace(resource, from, to) > 0, "{name} has {from}");
    })
}

/// What is said when the group loses an attribute.
fn group_without(attribute: &str) -> String {
    changed(&fleets::large(), |resources| {
        let (_, group) = resources.iter_mut().find(|(name, _)| name == "Gateways").expect("a group");
        let Node::Map(entries) = group else { panic!("a map") };
        entries.retain(|(name, _)| name != attribute);
    })
}

#[test]
fn nothing_is_found_in_what_is_written() {
    let wired = [fleets::cmts(), fleets::bng(), fleets::bng_on_an_outpost()];
    for fleet in [fleets::upf(), fleets::large(), fleets::single()].into_iter().chain(wired) {
        assert_eq!(said(&template(&fleet)), "");
    }
}

#[test]
fn instances_that_race_their_network_are_found() {
    let found = group_without("DependsOn");
    assert!(found.contains("its instances may start before"), "{found}");
    for needed in ["AdminAInternet", "AdminATable", "CoreInterface7", "AccessInterface0"] {
        let found = changed(&fleets::upf(), |resources| {
            let (_, group) = resources.iter_mut().find(|(name, _)| name == "Gateways").expect("a group");
            let Node::Map(entries) = group else { panic!("a map") };
            let (_, on) = entries.iter_mut().find(|(name, _)| name == "DependsOn").expect("it waits");
            let Node::List(on) = on else { panic!("a list") };
            on.retain(|other| other.text() != Some(needed));
        });
        assert!(found.contains(&format!("may start before {needed} is there, and 0 more")), "{found}");
    }
}

#[test]
fn groups_without_an_update_policy_are_found() {
    let found = group_without("UpdatePolicy");
    assert!(
        found.contains("a new image would reach no instance") && found.contains("back to the template's"),
        "{found}"
    );
}

#[test]
fn a_group_that_nothing_scales_is_found() {
    let found = without(&fleets::upf(), "ByLoad");
    assert!(found.contains("nothing sets its number"), "{found}");
}

#[test]
fn set_up_that_a_reboot_undoes_is_found() {
    let found = replaced("Launch", "systemctl enable --now weir-boot", "/opt/weir/boot");
    assert!(found.contains("gone after a reboot"), "{found}");
    let found = replaced("Launch", "Name=attachment.instance-id,Values=$INSTANCE", "Name=status,Values=available");
    assert!(found.contains("a second set of interfaces"), "{found}");
}

#[test]
fn health_that_nobody_reports_is_found() {
    let found = replaced("Launch", "aws autoscaling set-instance-health", "echo");
    assert!(found.contains("has stopped answering"), "{found}");
    let found = replaced("Role", "autoscaling:SetInstanceHealth", "autoscaling:DescribeTags");
    assert!(found.contains("calls `aws autoscaling set-instance-health` without the right to"), "{found}");
    let found = replaced("Role", "cloudformation:SignalResource", "cloudformation:ListStacks");
    assert!(found.contains("calls `aws cloudformation signal-resource` without the right to"), "{found}");
}

#[test]
fn load_that_is_read_elsewhere_is_found() {
    let found = replaced("Launch", "[metrics]\naddress = \"@METRICS@\"", "[metrics]\naddress = \"127.0.0.1:9460\"");
    assert!(found.contains("from another address than the gateway's"), "{found}");
}

#[test]
fn direct_connect_without_a_way_is_found() {
    let upf = fleets::upf();
    let found = without(&upf, "DirectConnectAsks");
    assert!(found.contains("meets no route table"), "{found}");
    let found = without(&upf, "DirectConnectKnown");
    assert!(found.contains("no route leads back to the premises"), "{found}");
    let found = changed(&upf, |resources| resources.retain(|(name, _)| !name.ends_with("ToPremises")));
    assert!(found.contains("no subnet has a route to the premises"), "{found}");
    let found = without(&fleets::single(), "PrivateRoutes");
    assert!(found.contains("no subnet has a route to the premises"), "{found}");
}

#[test]
fn traffic_hosts_that_start_nothing_are_found() {
    for host in ["GeneratorHost", "ResponderHost"] {
        let found = replaced(host, "/usr/local/bin/weir ", "true ");
        assert!(found.contains("an instance that starts nothing"), "{host}: {found}");
    }
}

/// The scripts on the way into an instance are scripts, the ones inside of them, too.
#[test]
fn scripts_of_instances_can_be_read() {
    let hosts: &[&str] = &["GeneratorHost", "ResponderHost"];
    let all = [("upf", fleets::upf(), hosts), ("cmts", fleets::cmts(), &[]), ("bng", fleets::bng(), &[])];
    for (fleet_name, fleet, hosts) in all {
        let template = template(&fleet);
        let of = |path: &[&str]| {
            let coded = template.at(path).expect("user data");
            coded.text().or_else(|| coded.get("Fn::Sub")?.text()).expect("a text").to_owned()
        };
        let launch = ["Resources", "Launch", "Properties", "LaunchTemplateData", "UserData", "Fn::Base64"];
        let mut scripts = vec![("launch", of(&launch))];
        for host in hosts {
            scripts.push((host, of(&["Resources", host, "Properties", "UserData", "Fn::Base64"])));
        }
        for (name, script) in scripts {
            read(&format!("{fleet_name}-{name}"), &script);
        }
    }
}

/// A script and those within it, as bash reads them.
fn read(name: &str, script: &str) {
    let mut all = vec![("outer", script.to_owned())];
    for mark in ["BOOT", "WATCH", "TRIAL", "SETTINGS"] {
        let Some((_, rest)) = script.split_once(&format!("<<'{mark}'\n")) else { continue };
        let (inner, _) = rest.split_once(&format!("\n{mark}\n")).expect("its end");
        all.push((mark, inner.to_owned()));
    }
    assert!(all.len() > 1, "{name}");
    for (part, text) in all {
        let folder = fleets::write(&format!("inner-{name}-{part}"), &[deploy::File::new("script", &text)]);
        let out = std::process::Command::new("bash").arg("-n").arg(folder.join("script")).output().expect("bash");
        fleets::well(&format!("{name} {part}"), &out);
        assert!(out.stderr.is_empty(), "{name} {part}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

#[test]
fn gateways_of_the_region_on_an_outpost_are_found() {
    for subnet in ["PublicA", "TransitA"] {
        let found = changed(&fleets::case(deploy::settings::Case::Outpost), |resources| {
            let (_, it) = resources.iter_mut().find(|(name, _)| name == subnet).expect(subnet);
            let Node::Map(entries) = it else { panic!("a map") };
            let (_, properties) = entries.iter_mut().find(|(name, _)| name == "Properties").expect("properties");
            properties.put("OutpostArn", "arn");
        });
        assert!(found.contains(&format!("it is in {subnet}, on an Outpost")), "{found}");
    }
}

#[test]
fn traffic_that_leads_nowhere_is_found() {
    let found = replaced("GeneratorHost", "server_first = \"10.22.0.16\"", "server_first = \"198.18.0.1\"");
    assert!(found.contains("goes to 198.18.0.1, which no interface has"), "{found}");
}

/// Gateways that are wired have a file and a set each, and a number that no load changes.
#[test]
fn wired_gateways_without_their_file_are_found() {
    for fleet in [fleets::cmts(), fleets::bng()] {
        let found = without(&fleet, "File1");
        assert!(found.contains("one for each"), "{found}");
        let found = replaced_in(&fleet, "File0", "gateway = ", "{{");
        assert!(found.contains("without {{"), "{found}");
        let found = replaced_in(&fleet, "Role", "ssm:GetParameter", "ssm:GetDocument");
        assert!(found.contains("calls `aws ssm get-parameter` without the right to"), "{found}");
        let place = if fleet.gateway == deploy::fleet::Gateway::Cmts { "@MODEM_KEY@" } else { "@RADIUS_SECRET@" };
        let found = replaced_in(&fleet, "Launch", &format!("s|{place}|"), "s|@OTHER@|");
        assert!(found.contains(&format!("{place} is never filled in")), "{found}");
        let found = replaced_in(&fleet, "File0", "@METRICS@", "127.0.0.1:9460");
        assert!(found.contains("from another address than the gateway's"), "{found}");
    }
}

#[test]
fn a_policy_that_takes_wired_gateways_away_is_found() {
    let found = changed(&fleets::bng(), |resources| {
        let policy = map! { "AutoScalingGroupName" => map! { "Ref" => "Gateways" } };
        let policy = map! { "Type" => "AWS::AutoScaling::ScalingPolicy", "Properties" => policy };
        resources.push(("ByLoad".to_owned(), policy));
    });
    assert!(found.contains("whose sessions have nowhere to go"), "{found}");
}

#[test]
fn ledgers_that_cannot_be_attached_are_found() {
    let found = replaced_in(&fleets::bng(), "Role", "ec2:AttachVolume", "ec2:DetachVolume");
    assert!(found.contains("calls `aws ec2 attach-volume` without the right to"), "{found}");
}

#[test]
fn dedicated_hosts_that_cannot_be_are_found() {
    let cable = fleets::cmts();
    let found = changed(&cable, |resources| {
        let (_, launch) = resources.iter_mut().find(|(name, _)| name == "Launch").expect("a launch template");
        let Node::Map(entries) = launch else { panic!("a map") };
        let (_, properties) = entries.iter_mut().find(|(name, _)| name == "Properties").expect("properties");
        let placement = map! { "Tenancy" => "host", "GroupName" => "close" };
        *properties = map! { "LaunchTemplateData" => map! { "Placement" => placement } };
    });
    assert!(found.contains("a dedicated host in a placement group"), "{found}");
    let found = without(&cable, "Host0A");
    assert!(found.contains("its host Host0A is not in the zone of AdminA"), "{found}");
    let found = replaced_in(&cable, "Launch", "systemctl reboot", "true");
    assert!(found.contains("nothing is done about a gateway"), "{found}");
    let found = changed(&cable, |resources| {
        let (_, ready) = resources.iter_mut().find(|(name, _)| name == "Ready").expect("what instances wait for");
        let Node::Map(entries) = ready else { panic!("a map") };
        entries.retain(|(name, _)| name != "DependsOn");
    });
    assert!(found.contains("Resources.Machine0: its instances may start before"), "{found}");
}
