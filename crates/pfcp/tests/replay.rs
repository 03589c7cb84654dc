//! Everything fuzzing ever found, and what it starts from, replayed through the functions that fuzz.

#[path = "../../../fuzz/src/pfcp.rs"]
mod targets;

use std::path::Path;

#[test]
fn every_regression_stays_fixed_and_every_seed_is_fine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for (name, target) in [("pfcp_message", targets::pfcp_message as fn(&[u8])), ("pfcp_node", targets::pfcp_node)] {
        for kind in ["regressions", "seeds"] {
            let Ok(folder) = std::fs::read_dir(root.join(kind).join(name)) else { continue };
            for file in folder.map(|entry| entry.expect("a readable folder").path()) {
                println!("{}", file.display());
                target(&std::fs::read(&file).expect("a readable file"));
            }
        }
    }
}
