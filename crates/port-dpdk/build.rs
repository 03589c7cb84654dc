//! Builds the C shim over libdpdk, which pkg-config finds. Without the feature `dpdk` it does nothing.

use std::env;
use std::path::Path;
use std::process::Command;

const SHIM: [&str; 2] = ["src/shim.c", "src/flow.c"];
const TEST_DEVICE: &str = "tests/nic/nic.c";
/// What the shim and the crate call; drivers are loaded by the environment layer when it starts.
const LIBRARIES: [&str; 5] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

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
    test_device(&cflags);
    for flag in ask(&["--libs-only-L"]) {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo::rustc-link-search=native={folder}");
        }
    }
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
}

/// Of tests alone: a device with rules, whose rte_flow stands in for DPDK's.
fn test_device(cflags: &[String]) {
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
    println!("cargo::rustc-link-arg-tests=-lrte_ring");
    println!("cargo::rustc-link-arg-tests=-lrte_ethdev");
}

/// What pkg-config says of libdpdk.
fn ask(arguments: &[&str]) -> Vec<String> {
    let needs = "the feature `dpdk` needs libdpdk 22.11 or later: `make dpdk` installs it";
    let output = Command::new("pkg-config").args(arguments).arg("libdpdk >= 22.11").output();
    let output = output.unwrap_or_else(|error| panic!("{needs} (pkg-config: {error})"));
    assert!(output.status.success(), "{needs}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}
