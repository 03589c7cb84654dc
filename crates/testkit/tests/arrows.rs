//! Dependencies among the house's crates run one way: the table below is the architecture.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Who may know whom. A crate that is not here does not belong; rooms still to be built are.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("pages", &[]),
    ("quantity", &[]),
    ("confine", &[]),
    ("wire", &[]),
    ("frame", &["pages"]),
    ("table", &["pages"]),
    ("engine", &["pages", "frame", "table"]),
    ("port", &["confine", "frame", "quantity", "wire"]),
    // Empty but for builds with its feature.
    ("port-dpdk", &["confine", "frame", "port"]),
    ("crypto", &["frame"]),
    ("dataplane", &["engine", "frame", "quantity", "table", "wire"]),
    ("pfcp", &["wire"]),
    ("ledger", &[]),
    ("access", &["wire"]),
    ("radius", &[]),
    ("sessions", &["dataplane", "table"]),
    (
        "upf",
        &["dataplane", "engine", "frame", "gateway", "ledger", "pfcp", "port", "quantity", "sessions", "table", "wire"],
    ),
    (
        "bng",
        &[
            "access",
            "dataplane",
            "engine",
            "frame",
            "gateway",
            "ledger",
            "pfcp",
            "port",
            "quantity",
            "radius",
            "table",
            "wire",
        ],
    ),
    ("cmts", &["crypto", "dataplane", "engine", "frame", "gateway", "quantity", "table", "wire"]),
    ("certificate", &[]),
    (
        "gateway",
        &["certificate", "confine", "dataplane", "engine", "frame", "ledger", "port", "quantity", "table", "wire"],
    ),
    ("cpsim", &["dataplane", "gateway", "ledger", "pfcp", "port", "quantity", "table", "wire"]),
    ("traffic", &["crypto", "engine", "frame", "port", "quantity", "table", "wire"]),
    ("capacity", &["quantity"]),
    ("html", &["capacity", "quantity"]),
    ("planner-wasm", &["capacity", "html"]),
    ("deploy", &[]),
    (
        "bench",
        &[
            "bng",
            "certificate",
            "cmts",
            "crypto",
            "engine",
            "frame",
            "gateway",
            "ledger",
            "pages",
            "pfcp",
            "port",
            "quantity",
            "dataplane",
            "table",
            "traffic",
            "upf",
            "wire",
        ],
    ),
    (
        "weir",
        &[
            "bench",
            "bng",
            "capacity",
            "certificate",
            "cmts",
            "confine",
            "cpsim",
            "deploy",
            "crypto",
            "engine",
            "frame",
            "gateway",
            "html",
            "ledger",
            "pages",
            "pfcp",
            "port",
            "port-dpdk",
            "quantity",
            "dataplane",
            "table",
            "traffic",
            "upf",
            "wire",
        ],
    ),
    // A gateway that nobody knows.
    ("toy", &["dataplane", "engine", "frame", "gateway", "quantity", "table", "wire"]),
    // For tests only: see `nobody_ships_the_testkit`.
    ("gateway-testkit", &["dataplane", "frame", "gateway", "port", "testkit"]),
    (
        "testkit",
        &["bng", "cmts", "crypto", "engine", "frame", "pages", "port", "dataplane", "table", "traffic", "upf", "wire"],
    ),
];

/// Crates in which unsafe code is allowed.
const MAY_BE_UNSAFE: &[&str] = &["pages", "frame", "table", "port", "port-dpdk", "crypto", "planner-wasm"];

struct Package {
    normal: BTreeSet<String>,
    manifest: String,
}

fn house() -> BTreeMap<String, Package> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let names: BTreeSet<String> = packages.iter().map(|p| text(&p["name"])).collect();
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            // A null kind is an ordinary dependency; "dev" and "build" ones may point anywhere.
            let normal = dependencies.iter().filter(|d| d["kind"].is_null()).map(|d| text(&d["name"]));
            let normal = normal.filter(|name| names.contains(name)).collect();
            (text(&package["name"]), Package { normal, manifest: text(&package["manifest_path"]) })
        })
        .collect()
}

#[test]
fn arrows_run_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = MAY_KNOW.iter().copied().collect();
    for (name, package) in house() {
        let may = allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} is no room of this house"));
        for other in &package.normal {
            assert!(may.contains(&other.as_str()), "{name} must not know {other}");
        }
    }
}

#[test]
fn nobody_ships_the_testkit() {
    for (name, package) in house() {
        let ships = |kit: &str| package.normal.contains(kit) && name != "gateway-testkit";
        assert!(!ships("testkit") && !ships("gateway-testkit"), "{name} ships with the testkit");
    }
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    for (name, package) in house() {
        let source = std::path::Path::new(&package.manifest).with_file_name("src");
        let root = ["lib.rs", "main.rs"].map(|file| source.join(file)).into_iter().find(|path| path.exists());
        let text = std::fs::read_to_string(root.expect("a crate has a root")).expect("readable");
        let forbids = text.contains("#![forbid(unsafe_code)]");
        assert_eq!(forbids, !MAY_BE_UNSAFE.contains(&name.as_str()), "forbid(unsafe_code) in {name}");
    }
}

/// Crates, and the binary's first file, that name no gateway and no protocol of one.
const NEUTRAL: &[&str] = &[
    "pages/src",
    "frame/src",
    "table/src",
    "port/src",
    "engine/src",
    "dataplane/src",
    "gateway/src",
    "weir/src/main.rs",
];

/// Gateways and their protocols, as words in lower case.
const OF_GATEWAYS: &[&str] = &[
    "upf", "cmts", "bng", "gtp", "gtpu", "docsis", "pppoe", "teid", "teids", "modem", "modems", "depi", "uepi", "pfcp",
];

/// Files that still name one, and why. An entry goes when its file no longer does.
const STILL_NAMES: &[(&str, &str)] = &[
    ("weir/src/main.rs", "the registry, and each gateway's own commands"),
    ("gateway/src/connected.rs", "identifiers of all gateways' subscribers are fields of one object"),
    ("gateway/src/connected/filter.rs", "filters by those identifiers, with their options"),
    ("gateway/src/connected/text.rs", "columns of those identifiers"),
    ("gateway/src/connected/tests.rs", "the same"),
    ("gateway/src/trace/addresses.rs", "addresses of packets in tunnels"),
];

/// The words of a text: runs of letters and digits, parted where a capital follows a small letter.
fn words(text: &str) -> BTreeSet<String> {
    let mut parted = String::with_capacity(text.len() * 2);
    let mut before = ' ';
    for letter in text.chars() {
        if before.is_lowercase() && letter.is_uppercase() {
            parted.push(' ');
        }
        parted.push(letter);
        before = letter;
    }
    let words = parted.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

fn sources(path: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("a folder") {
            sources(&entry.expect("an entry").path(), found);
        }
    } else if path.extension().is_some_and(|ending| ending == "rs") {
        found.push(path.to_owned());
    }
}

#[test]
fn neutral_crates_name_no_gateway_or_its_protocols() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let mut files = Vec::new();
    NEUTRAL.iter().for_each(|path| sources(&crates.join(path), &mut files));
    assert!(files.len() > 100, "only {} files were found", files.len());
    let mut wrong = Vec::new();
    let mut left: BTreeMap<&str, &str> = STILL_NAMES.iter().copied().collect();
    for file in files {
        let name = file.strip_prefix(crates).expect("below it").to_str().expect("a plain name").to_owned();
        let words = words(&std::fs::read_to_string(&file).expect("readable"));
        let found: Vec<_> = OF_GATEWAYS.iter().filter(|word| words.contains(**word)).collect();
        let listed = left.remove(name.as_str()).is_some();
        match (found.is_empty(), listed) {
            (false, false) => wrong.push(format!("{name} names {found:?}")),
            (true, true) => wrong.push(format!("{name} names none any more: take it off the list")),
            _ => {}
        }
    }
    wrong.extend(left.keys().map(|name| format!("{name} is on the list and is not there")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
