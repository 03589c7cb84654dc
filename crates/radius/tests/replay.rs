//! Everything fuzzing ever found, and what it starts from, replayed through the functions that fuzz.

#[path = "../../../fuzz/src/radius.rs"]
mod targets;

use std::path::Path;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 1] = [("radius_packet", targets::radius_packet)];

/// Files of a target, in an order that does not depend on the folder.
fn files(kind: &str, name: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(kind).join(name);
    let Ok(folder) = std::fs::read_dir(root) else { return Vec::new() };
    let mut paths: Vec<_> = folder.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a readable file")).collect()
}

#[test]
fn every_regression_stays_fixed() {
    for (name, target) in TARGETS {
        for bytes in files("regressions", name).into_iter().chain(files("seeds", name)) {
            println!("{name}: {bytes:?}");
            target(&bytes);
        }
    }
}

#[test]
fn altered_seeds_break_no_promise() {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below.max(1)
    };
    for (name, target) in TARGETS {
        for seed in files("seeds", name) {
            for _ in 0..5_000 {
                let mut bytes = seed.clone();
                for _ in 0..=next(6) {
                    let at = next(bytes.len());
                    match next(4) {
                        0 => bytes.truncate(at),
                        1 => bytes.insert(at, next(256) as u8),
                        _ if bytes.is_empty() => bytes.push(0),
                        2 => bytes[at] = next(256) as u8,
                        _ => bytes[at] = [0, 1, 4, 6, 82, 127, 255][next(7)],
                    }
                }
                target(&bytes);
            }
        }
    }
}
