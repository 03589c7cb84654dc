//! Everything fuzzing ever found, and what it starts from, replayed through the functions that fuzz.

#[path = "../../../fuzz/src/radius.rs"]
mod targets;

use std::path::Path;

#[test]
fn every_regression_stays_fixed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for (name, target) in [("radius_packet", targets::radius_packet as fn(&[u8]))] {
        for kind in ["regressions", "seeds"] {
            let Ok(folder) = std::fs::read_dir(root.join(kind).join(name)) else { continue };
            for file in folder.map(|entry| entry.expect("a readable folder").path()) {
                println!("{}", file.display());
                target(&std::fs::read(&file).expect("a readable file"));
            }
        }
    }
}
