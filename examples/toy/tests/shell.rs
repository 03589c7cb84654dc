//! What the gateway has from the shell without a line of its own: checks that point at a key, a schema, a reference.

use gateway::load::Text;
use gateway::routed::RoutedGateway;
use gateway::schema::{ConfigCommand, text};
use gateway::shell::Loaded;
use gateway::{GatewayEntry, Registry};
use toy::Toy;

const TOY: Registry = Registry(&[GatewayEntry::routed::<Toy>()]);
const EXAMPLE: &str = include_str!("../toy.toml");

fn load(text: &str) -> Result<(), String> {
    let text = Text { name: "toy.toml".into(), text: text.to_owned() };
    Loaded::<RoutedGateway<Toy>>::of(text).map(drop).map_err(|error| error.to_string())
}

#[test]
fn example_is_ok() {
    load(EXAMPLE).unwrap();
}

#[test]
fn mistakes_point_at_line_and_key() {
    for (right, wrong, error) in [
        ("rate = \"50 Mbit/s\"", "rate = \"fast\"", "source.0.rate: \"fast\" is not a rate"),
        ("10.1.0.0/16", "10.1.0.0/33", "source.0.prefix: \"10.1.0.0/33\" is not an IPv4 prefix"),
        ("vlan = 100", "vlan = 4095", "port.0.vlan: no such VLAN"),
        ("gateway = \"toy\"", "gateway = \"troy\"", "gateway: no gateway is called \"troy\""),
        ("[[source]]", "[[sources]]", "sources"),
        ("198.18.0.254", "192.0.2.1", ""),
    ] {
        assert!(EXAMPLE.contains(right), "{right}");
        let result = load(&EXAMPLE.replacen(right, wrong, 1));
        match error {
            // Found out when ports are open: which addresses are on link.
            "" => result.unwrap(),
            _ => {
                let said = result.expect_err(wrong);
                assert!(said.starts_with("toy.toml:") && said.contains(error), "{said}");
            }
        }
    }
}

#[test]
fn schema_and_reference_have_its_sections() {
    let schema = ConfigCommand::Schema { gateway: Some("toy".into()), output: None };
    let schema = text(&schema, TOY.0).unwrap();
    let output = ConfigCommand::Schema { gateway: None, output: Some("sources".into()) };
    let output = text(&output, TOY.0).unwrap();
    let reference = text(&ConfigCommand::Reference, TOY.0).unwrap();
    for (page, word) in [
        (&schema, "\"source\""),
        (&schema, "\"workers\""),
        (&output, "Bytes of their IP packets"),
        (&reference, "[[source]]"),
    ] {
        assert!(page.contains(word), "{word} is not in {page}");
    }
}
