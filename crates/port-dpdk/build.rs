//! Builds the C shim over libdpdk, which pkg-config finds. Without the feature `dpdk` it does nothing.

use std::env;
use std::path::Path;
use std::process::Command;

const SHIM: &str = "src/shim.c";
/// What the shim and the crate call, where there is such a library: logs are a part of `rte_eal` before DPDK 24.03. Drivers are
/// loaded by the environment layer when it starts.
const LIBRARIES: [&str; 6] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal", "rte_log"];

fn main() {
    println!("cargo::rerun-if-changed={SHIM}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    if env::var_os("CARGO_FEATURE_DPDK").is_none() {
        return;
    }
    let cflags = ask(&["--cflags"]);
    let mut build = cc::Build::new();
    build.file(SHIM).flag("-std=gnu11").define("ALLOW_EXPERIMENTAL_API", None).define("_GNU_SOURCE", None).opt_level(3);
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
}

/// How to link a library: by its file with a version, for another release may be in a folder that other crates have searched.
fn linked(folder: &str, library: &str) -> String {
    let file = std::fs::read_link(Path::new(folder).join(format!("lib{library}.so")));
    match file.ok().and_then(|file| file.file_name()?.to_str().map(str::to_owned)) {
        Some(file) => format!("dylib:+verbatim={file}"),
        None => format!("dylib={library}"),
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
