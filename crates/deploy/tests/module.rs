//! The module of OpenTofu and Terraform beside the template: the same parameters, the same files.

mod fleets;

use deploy::aws::{files, template};
use deploy::node::Node;
use deploy::settings::Case;

fn snake(name: &str) -> String {
    let parts = name.chars().map(|c| if c.is_uppercase() { format!("_{}", c.to_lowercase()) } else { c.to_string() });
    parts.collect::<String>().trim_start_matches('_').to_owned()
}

#[test]
fn variables_are_the_parameters_of_the_template() {
    let mut hundreds = fleets::upf();
    (hundreds.machines, hundreds.needed, hundreds.subscribers) = (141, 140, Some(140_000));
    for fleet in [fleets::upf(), fleets::case(Case::Outpost), fleets::case(Case::Hybrid), hundreds] {
        let all = files(&fleet).expect("files");
        let file = all.iter().find(|file| file.name == "main.tf.json").expect("a module");
        let module: serde_json::Value = serde_json::from_str(&file.text).expect("JSON");
        let template = template(&fleet);
        let parameters = template.get("Parameters").map(Node::entries).expect("parameters");
        let given = module["resource"]["aws_cloudformation_stack"]["fleet"]["parameters"].as_object().expect("a map");
        assert_eq!(given.len(), parameters.len());
        for (name, parameter) in parameters {
            let variable = &module["variable"][snake(name)];
            assert_eq!(given[name], format!("${{var.{}}}", snake(name)), "{name}");
            assert_eq!(variable["description"].as_str(), parameter.get("Description").and_then(Node::text), "{name}");
            assert_eq!(variable.get("default").is_some(), parameter.get("Default").is_some(), "{name}");
            let text = parameter.get("Default").and_then(Node::text);
            assert!(text.is_none() || variable["default"].as_str() == text, "{name}");
        }
        let named: Vec<&str> =
            module["locals"]["files"].as_array().expect("a list").iter().filter_map(|it| it.as_str()).collect();
        let is_template = |name: &&str| *name == "weir.yaml" || name.starts_with("sets-");
        let written: Vec<&str> = all.iter().map(|file| file.name.as_str()).filter(is_template).collect();
        assert_eq!(named, written);
    }
}
