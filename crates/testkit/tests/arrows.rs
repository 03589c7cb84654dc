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
    ("port", &["confine", "frame", "wire"]),
    ("crypto", &["frame"]),
    ("dataplane", &["engine", "frame", "quantity", "table", "wire"]),
    ("pfcp", &["wire"]),
    ("ledger", &[]),
    ("access", &["wire"]),
    ("radius", &[]),
    ("upf", &["dataplane", "engine", "frame", "gateway", "ledger", "pfcp", "port", "quantity", "table", "wire"]),
    ("bng", &["dataplane", "engine", "frame", "gateway", "pfcp", "quantity", "table", "wire"]),
    ("cmts", &["crypto", "dataplane", "engine", "frame", "gateway", "quantity", "table", "wire"]),
    ("gateway", &["confine", "dataplane", "engine", "frame", "ledger", "port", "quantity", "table", "wire"]),
    ("cpsim", &["dataplane", "gateway", "ledger", "pfcp", "port", "quantity", "table", "wire"]),
    ("traffic", &["crypto", "engine", "frame", "port", "table", "wire"]),
    ("capacity", &["quantity"]),
    ("deploy", &[]),
    (
        "bench",
        &[
            "bng",
            "cmts",
            "crypto",
            "engine",
            "frame",
            "gateway",
            "ledger",
            "pages",
            "pfcp",
            "port",
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
            "cmts",
            "confine",
            "cpsim",
            "deploy",
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
    // For tests only: see `nobody_ships_the_testkit`.
    (
        "testkit",
        &["bng", "cmts", "crypto", "engine", "frame", "pages", "port", "dataplane", "table", "traffic", "upf", "wire"],
    ),
];

/// Crates in which unsafe code is allowed.
const MAY_BE_UNSAFE: &[&str] = &["pages", "frame", "table", "port", "port-dpdk", "crypto"];

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
        assert!(!package.normal.contains("testkit"), "{name} ships with the testkit");
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
