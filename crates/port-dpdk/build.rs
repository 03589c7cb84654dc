//! Builds the C shim over libdpdk, which pkg-config finds. Without the feature `dpdk` it does nothing.

use std::env;
use std::path::Path;
use std::process::Command;

const SHIM: [&str; 2] = ["src/shim.c", "src/flow.c"];
const TEST_DEVICE: &str = "tests/nic/nic.c";
/// What the shim and the crate call, where there is such a library: logs are a part of `rte_eal` before DPDK 24.03. Drivers are
/// loaded by the environment layer when it starts.
const LIBRARIES: [&str; 6] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal", "rte_log"];

fn main() {
    SHIM.iter().for_each(|file| println!("cargo::rerun-if-changed={file}"));
    println!("cargo::rerun-if-changed=src/offload.h");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    if env::var_os("CARGO_FEATURE_DPDK").is_none() {
        return;
    }
    let cflags = ask(&["--cflags"]);
    let mut build = cc::Build::new();
    build
        .files(SHIM)
        .flag("-std=gnu11")
        .define("ALLOW_EXPERIMENTAL_API", None)
        .define("_GNU_SOURCE", None)
        .opt_level(3);
    // Headers of DPDK have warnings of their own.
    build.warnings(false);
    cflags.iter().for_each(|flag| {
        build.flag(flag);
    });
    build.compile("weir_dpdk");
    let folder = ask(&["--variable=libdir"]).concat();
    println!("cargo::rustc-link-search=native={folder}");
    let there = ask(&["--libs-only-l"]);
    for library in LIBRARIES.iter().filter(|library| there.contains(&format!("-l{library}"))) {
        println!("cargo::rustc-link-lib={}", linked(&folder, library));
    }
    test_device(&cflags, &folder);
}

/// How to link a library: by its file with a version, for another release may be in a folder that other crates have searched.
fn linked(folder: &str, library: &str) -> String {
    let file = std::fs::read_link(Path::new(folder).join(format!("lib{library}.so")));
    match file.ok().and_then(|file| file.file_name()?.to_str().map(str::to_owned)) {
        Some(file) => format!("dylib:+verbatim={file}"),
        None => format!("dylib={library}"),
    }
}

/// Of tests alone: a device with rules, whose rte_flow stands in for DPDK's.
fn test_device(cflags: &[String], folder: &str) {
    println!("cargo::rerun-if-changed={TEST_DEVICE}");
    if !Path::new(TEST_DEVICE).exists() {
        return;
    }
    let mut build = cc::Build::new();
    build.file(TEST_DEVICE).flag("-std=gnu11").define("ALLOW_EXPERIMENTAL_API", None).opt_level(1).warnings(false);
    cflags.iter().for_each(|flag| {
        build.flag(flag);
    });
    for object in build.compile_intermediates() {
        println!("cargo::rustc-link-arg-tests={}", object.display());
    }
    for library in ["rte_ring", "rte_ethdev"] {
        let linked = linked(folder, library);
        let name = linked.rsplit_once('=').map_or(library, |(_, name)| name);
        let how = if linked.contains("verbatim") { "-l:" } else { "-l" };
        println!("cargo::rustc-link-arg-tests={how}{name}");
    }
}

/// What pkg-config says of libdpdk.
fn ask(arguments: &[&str]) -> Vec<String> {
    let needs = "the feature `dpdk` needs libdpdk 22.11 or later: `make dpdk` installs it";
    let output = Command::new("pkg-config").args(arguments).arg("libdpdk >= 22.11").output();
    let output = output.unwrap_or_else(|error| panic!("{needs} (pkg-config: {error})"));
    assert!(output.status.success(), "{needs}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}
