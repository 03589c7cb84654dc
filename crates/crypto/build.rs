//! Looks for libipsec-mb and, where it is, builds the shim over it. Without it the crate has its own cipher only.
//!
//! `IPSEC_MB_DIR` names a folder with `include/` and `lib/` where it is not among the system's own.

use std::env;
use std::path::{Path, PathBuf};

const SHIM: &str = "src/lanes/shim.c";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(ipsec_mb)");
    println!("cargo::rerun-if-env-changed=IPSEC_MB_DIR");
    println!("cargo::rerun-if-changed={SHIM}");
    let of = |name: &str| env::var(name).unwrap_or_default();
    if of("CARGO_CFG_TARGET_ARCH") != "x86_64" || of("TARGET") != of("HOST") || env::var("MIRI_SYSROOT").is_ok() {
        return;
    }
    let Some((header, library)) = found() else {
        println!("cargo::warning=libipsec-mb is not here: BPI+ will be slow (scripts/setup installs it)");
        return;
    };
    println!("cargo::rerun-if-changed={}", header.display());
    let mut build = cc::Build::new();
    build.file(SHIM).flag("-std=c11").opt_level(2).cargo_warnings(false);
    if let Some(folder) = header.parent() {
        build.include(folder);
    }
    // A library too old for the shim is as good as none.
    if let Err(error) = build.try_compile("weir_lanes") {
        println!("cargo::warning=libipsec-mb is here and too old or broken, BPI+ will be slow: {error}");
        return;
    }
    if let Some(folder) = library.parent() {
        println!("cargo::rustc-link-search=native={}", folder.display());
    }
    // Static where that is available: the binary then runs on machines without the library.
    let kind = if library.extension().is_some_and(|end| end == "a") { "static" } else { "dylib" };
    println!("cargo::rustc-link-lib={kind}=IPSec_MB");
    println!("cargo::rustc-cfg=ipsec_mb");
}

/// The header and the library.
fn found() -> Option<(PathBuf, PathBuf)> {
    println!("cargo::rerun-if-changed=/usr/include/intel-ipsec-mb.h");
    let own = env::var("IPSEC_MB_DIR").ok();
    let roots = own.iter().map(String::as_str).chain(["/usr", "/usr/local"]);
    let folders = ["lib/x86_64-linux-gnu", "lib64", "lib"];
    let first = |paths: Vec<PathBuf>| paths.into_iter().find(|path| path.exists());
    for root in roots.map(Path::new) {
        let header = root.join("include/intel-ipsec-mb.h");
        let names = ["libIPSec_MB.a", "libIPSec_MB.so"];
        let paths = folders.iter().flat_map(|folder| names.map(|name| root.join(folder).join(name))).collect();
        if let (true, Some(library)) = (header.exists(), first(paths)) {
            return Some((header, library));
        }
    }
    None
}
