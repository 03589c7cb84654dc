//! Mistakes in a user plane's file, as an operator sees them; and that every example is valid.

use std::path::Path;

use gateway::load::{LoadError, Text, Wrong};

use upf::product::Loaded;

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
next_hop = "10.0.6.254"

[simulate]
ues = 10

[[simulate.bearer]]
qfi = 9
filters = ["permit out 17 from 10.0.6.0/24 5000-5003 to assigned"]
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

/// What is marked in the text, in which line, under which key; and the words that must be said.
struct Case {
    from: &'static str,
    to: &'static str,
    line: usize,
    key: &'static str,
    marked: &'static str,
    words: &'static [&'static str],
}

const fn case(
    (from, to): (&'static str, &'static str),
    line: usize,
    key: &'static str,
    marked: &'static str,
    words: &'static [&'static str],
) -> Case {
    Case { from, to, line, key, marked, words }
}

const CASES: &[Case] = &[
    case(
        ("count", "cont"),
        5,
        "workers.cont",
        "cont",
        &["unknown key `cont`", "did you mean `count`?", "count, cpus, idle, spin_us"],
    ),
    case(("ues", "subscribers"), 24, "simulate.subscribers", "subscribers", &["allowed: ues, "]),
    case(("count = 1", "count = \"one\""), 5, "workers.count", "count = \"one\"", &["the text \"one\"", "0 to 65535"]),
    case(("count = 1", "count = 70000"), 5, "workers.count", "count = 70000", &["the number 70000", "0 to 65535"]),
    case(("count = 1", "count = 0"), 5, "workers.count", "count = 0", &["no worker at all", "at least 1"]),
    case(("count = 1", "cpus = [99999]"), 5, "workers.cpus.0", "99999", &["may not run on CPU 99999", "one of 0"]),
    case(("count = 1", "count = 2"), 9, "port.0.uri", "uri = \"memory:n3\"", &["every packet", "{worker}"]),
    case(("\"core\"", "\"middle\""), 16, "port.1.role", "role = \"middle\"", &["\"middle\"", "access, core"]),
    case(("\"core\"", "\"cor\""), 16, "port.1.role", "role = \"cor\"", &["did you mean `core`?"]),
    case(("uri = \"memory:n6\"\n", ""), 13, "port.1", "[[port]]", &["`uri` is missing", "uri = \"packet:eth0"]),
    case(("\"memory:n3\"", "\"n3\""), 9, "port.0.uri", "uri = \"n3\"", &["no kind before a colon", "packet:eth0"]),
    case(("fd00:6::1/64", "fd00:6::1"), 17, "port.1.addresses.1", "\"fd00:6::1\"", &["no address with prefix"]),
    case(
        ("10.0.6.254", "10.0.6.999"),
        21,
        "route.0.next_hop",
        "next_hop = \"10.0.6.999\"",
        &["\"10.0.6.999\" is invalid", "2001:db8::1"],
    ),
    case(("10.0.6.254", "fd00::1"), 21, "route.0.next_hop", "next_hop = \"fd00::1\"", &["another family"]),
    case(
        ("next_hop = \"10.0.6.254\"", "port = \"n6\""),
        21,
        "route.0.port",
        "port = \"n6\"",
        &["\"n6\" has a link layer", "next_hop = "],
    ),
    case(("next_hop = \"10.0.6.254\"", "port = \"n9\""), 21, "route.0.port", "port = \"n9\"", &["\"n9\" is not there"]),
    case(("qfi = 9", "qfi = 99"), 27, "simulate.bearer.0.qfi", "qfi = 99", &["a QFI is 0 to 63"]),
    case(("permit out 17", "allow out 17"), 28, "simulate.bearer.0.filters.0", "\"allow", &["permit"]),
    case(("\"n6\"", "\"n3\""), 14, "port.1.name", "name = \"n3\"", &["two ports are called \"n3\""]),
    case(("[workers]", "[workers"), 4, "", "[workers", &["expected `]`"]),
    case(("\"upf\"", "\"bng\""), 1, "gateway", "gateway = \"bng\"", &["no gateway is called \"bng\"", "use \"upf\""]),
    case(("[[port]]", "[port]"), 13, "", "port", &["duplicate key", "[[port]]"]),
    case(("[workers]", "[[workers]]"), 4, "workers.0", "[[workers]]", &["single brackets: [section]"]),
    case(("[workers]\ncount = 1\n", "workers = 3\n"), 4, "workers", "workers = 3", &["the number 3", "a section"]),
];

/// The same with both ports on one device.
const SHARED: &[Case] = &[
    case(
        ("on = \"n3\"", "on = \"n6\""),
        16,
        "port.1.on",
        "on = \"n6\"",
        &["\"n6\" is on itself", "a port with a uri: n3"],
    ),
    case(
        ("on = \"n3\"", "on = \"n9\""),
        16,
        "port.1.on",
        "on = \"n9\"",
        &["no port is called \"n9\"", "a port with a uri: n3"],
    ),
    case(
        ("uri = \"memory:n3\"", "on = \"n6\""),
        9,
        "port.0.on",
        "on = \"n6\"",
        &["\"n6\" has no device of its own: it is on port \"n3\"", "uri = \"packet:eth0\""],
    ),
    case(
        ("on = \"n3\"", "on = \"n3\"\nuri = \"memory:n6\""),
        17,
        "port.1.uri",
        "uri = \"memory:n6\"",
        &["on the device of port \"n3\", and has one of its own", "leave uri or on out"],
    ),
    case(
        ("uri = \"memory:n3\"\n", ""),
        7,
        "port.0",
        "[[port]]",
        &["`uri` is missing", "uri = \"packet:eth0\"", "on = "],
    ),
    case(("\"memory:n3\"", "\"tun:n3\""), 16, "port.1.on", "on = \"n3\"", &["\"n3\" has no link layer"]),
    case(
        ("vlan = 60", "claim_interface = true\nvlan = 60"),
        18,
        "port.1.claim_interface",
        "claim_interface = true",
        &["no device of its own", "say it at port \"n3\""],
    ),
    case(
        ("vlan = 60", "fast_path = \"auto\"\nvlan = 60"),
        18,
        "port.1.fast_path",
        "fast_path = \"auto\"",
        &["no device of its own", "say it at port \"n3\""],
    ),
    case(
        (
            "role = \"core\"\nvlan = 60",
            "role = \"access\"\nvlan = 30\naddresses = [\"10.0.9.1/24\"]\n[[port]]\nname = \"n9\"\nuri = \"memory:n9\"\nrole = \"core\"",
        ),
        18,
        "port.1.vlan",
        "vlan = 30",
        &["the same VLAN as port \"n3\", on the same device", "such as vlan = 100"],
    ),
    case(
        ("vlan = 60\naddresses = [\"10.0.6.1/24\"]", "vlan = 30\naddresses = [\"10.0.3.1/24\"]"),
        19,
        "port.1.addresses",
        "addresses = [\"10.0.3.1/24\"]",
        &["has address 10.0.3.1 too", "its own address, or its own vlan"],
    ),
    case(
        ("\"memory:n3\"", "\"packet:n3?vlan=off\""),
        16,
        "port.1.on",
        "on = \"n3\"",
        &["\"n3\" receives frames without their VLAN tags", "leave vlan=off out"],
    ),
    case(
        (
            "addresses = [\"10.0.6.1/24\"]",
            "addresses = [\"10.0.6.1/24\"]\n[[neighbour]]\nport = \"n3\"\naddress = \"10.0.3.9\"\nmac = \"02:00:00:00:00:09\"\nvlan = 60",
        ),
        24,
        "neighbour.0.vlan",
        "vlan = 60",
        &["are those of port \"n6\"", "or other tags"],
    ),
];

#[test]
fn what_cannot_share_a_device_is_refused() {
    let good = GOOD
        .replace("uri = \"memory:n6\"\nrole = \"core\"", "on = \"n3\"\nrole = \"core\"\nvlan = 60")
        .replace("role = \"access\"", "role = \"access\"\nvlan = 30")
        .replace(", \"fd00:6::1/64\"", "");
    assert!(of(&good).is_ok(), "{:?}", of(&good).err());
    for case in SHARED {
        assert!(good.contains(case.from), "{}", case.from);
        let wrong = match of(&good.replacen(case.from, case.to, 1)) {
            Err(LoadError::Wrong(wrong)) => *wrong,
            other => panic!("{}: {:?}", case.to, other.err()),
        };
        case.judge(&wrong);
    }
}

impl Case {
    fn judge(&self, wrong: &Wrong) {
        let shown = wrong.drawn(false, 100);
        assert_eq!((wrong.line(), wrong.key.as_str()), (self.line, self.key), "{shown}");
        let marked = &wrong.source.text[wrong.span.clone()];
        assert!(marked.contains(self.marked) || self.marked.contains(marked), "marked is {marked:?}:\n{shown}");
        assert!(shown.contains(&format!("gw.toml:{}:", self.line)), "{shown}");
        assert!(shown.contains('─') && shown.contains("help:"), "{shown}");
        let said = format!("{} {}", wrong.what, wrong.help.as_deref().unwrap_or_default());
        for word in self.words {
            assert!(said.contains(word), "{word:?} is not in {said:?}");
        }
    }
}

#[test]
fn a_mistake_names_file_line_key_and_cure() {
    for case in CASES {
        case.judge(&spoilt(case.from, case.to));
    }
}

#[test]
fn an_error_looks_like_this() {
    let wanted = "  × workers.cont: unknown key `cont`
   ╭─[gw.toml:5:1]
 4 │ [workers]
 5 │ cont = 1
   · ────────
 6 │ 
   ╰────
  help: did you mean `count`? allowed: count, cpus, idle, spin_us, poll, burst
";
    assert_eq!(spoilt("count", "cont").drawn(false, 100), wanted);
    let plain = "gw.toml:5: workers.count: no worker at all; at least 1";
    assert_eq!(spoilt("count = 1", "count = 0").to_string(), plain);
}

#[test]
fn what_is_right_is_taken() {
    let loaded = of(GOOD).unwrap();
    assert_eq!((loaded.config.port.len(), loaded.config.workers.count), (2, 1));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Text::read(Path::new("/nowhere/gw.toml")).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/gw.toml cannot be read: "), "{error}");
}

#[test]
fn a_running_gateway_reads_regular_files_only() {
    let folder = folder("regular");
    let fifo = folder.join("gw.toml");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Nobody writes to it: reading it would wait for ever.
    let error = Text::read_regular(&fifo).unwrap_err().to_string();
    assert!(error.contains("gw.toml is no regular file"), "{error}");
    let error = Text::read_regular(&folder).unwrap_err().to_string();
    assert!(error.contains("is no regular file"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-load-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_file_that_is_too_long_is_refused() {
    let folder = folder("long");
    let path = folder.join("gw.toml");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(gateway::load::LONGEST).unwrap();
    assert!(Text::read_regular(&path).is_ok());
    file.set_len(gateway::load::LONGEST + 1).unwrap();
    for read in [Text::read, Text::read_regular] {
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("gw.toml is longer than 16 MiB"), "{error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_example_is_in_order() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut gateways = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // A gateway of its own crate, whose tests check its example.
            continue;
        }
        let text = Text::read(&path).unwrap();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("plan-")) {
            crate::plan::check_file(&path).unwrap_or_else(|error| panic!("{error}"));
        } else if text.gateway().as_deref() == Some("cmts") {
            gateways += 1;
            let loaded = cmts::product::Loaded::of(text).unwrap_or_else(|error| panic!("{error}"));
            assert!(!loaded.config.service_group.is_empty(), "{}", path.display());
        } else if text.gateway().as_deref() == Some("bng") {
            gateways += 1;
            let loaded = bng::product::Loaded::of(text).unwrap_or_else(|error| panic!("{error}"));
            assert!(!loaded.config.subscriber.is_empty(), "{}", path.display());
        } else if text.text.contains("\ngateway = ") {
            gateways += 1;
            let loaded = Loaded::of(text).unwrap_or_else(|error| panic!("{error}"));
            let sessions = loaded.config.simulate.is_some() || loaded.config.n4.is_some();
            assert!(sessions, "{}", path.display());
        } else if path.ends_with("cp.toml") {
            cpsim::check_file(&path).unwrap_or_else(|error| panic!("{error}"));
        } else {
            crate::generate::check_file(&path).unwrap_or_else(|error| panic!("{error}"));
        }
    }
    assert!(gateways >= 5);
}
