use super::*;

const GOOD: &str = r#"gateway = "upf"
control_socket = "/run/weir.sock"

[workers]
count = 1

[[port]]
name = "n3"
uri = "memory:n3"
role = "access"
addresses = ["10.0.3.1/24"]

[[port]]
name = "n6"
uri = "memory:n6"
role = "core"
addresses = ["10.0.6.1/24", "fd00:6::1/64"]

[[route]]
to = "0.0.0.0/0"
via = "10.0.6.254"

[simulate]
ues = 10

[[simulate.bearer]]
qfi = 9
filters = ["permit out udp from 10.0.6.0/24 5000-5003 to assigned"]
"#;

fn of(text: &str) -> Result<Loaded, LoadError> {
    Loaded::of(Text { name: "gw.toml".into(), text: text.into() })
}

/// The error after replacing `from` by `to` in a good configuration.
fn spoilt(from: &str, to: &str) -> Wrong {
    assert!(GOOD.contains(from), "{from}");
    match of(&GOOD.replacen(from, to, 1)) {
        Err(LoadError::Wrong(wrong)) => *wrong,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{to} was taken"),
    }
}

#[test]
fn print_all() {
    for (from, to) in CASES {
        println!("{}", spoilt(from, to).drawn(false, 100));
    }
}
const CASES: &[(&str, &str)] = &[
    ("count = 1", "cont = 1"),
    ("count = 1", "count = \"one\""),
    ("count = 1", "count = 0"),
    ("count = 1", "count = 70000"),
    ("count = 1", "count = 2"),
    ("count = 1", "cpus = [999]"),
    ("role = \"core\"", "role = \"middle\""),
    ("uri = \"memory:n6\"\n", ""),
    ("\"fd00:6::1/64\"", "\"fd00:6::1\""),
    ("via = \"10.0.6.254\"", "via = \"10.0.6.999\""),
    ("via = \"10.0.6.254\"", "via = \"fd00::1\""),
    ("qfi = 9", "qfi = 99"),
    ("permit out udp", "allow out udp"),
    ("name = \"n6\"", "name = \"n3\""),
    ("[workers]", "[workers"),
    ("gateway = \"upf\"", "gateway = \"bng\""),
    ("memory:n3", "n3"),
    ("[[port]]", "[port]"),
    ("ues = 10", "uess = 10\nues = 10"),
];
