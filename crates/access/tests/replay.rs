//! Everything fuzzing ever found, and what it starts from, replayed through the functions that fuzz.

#[path = "../../../fuzz/src/access.rs"]
mod targets;

use std::path::Path;

#[test]
fn every_regression_stays_fixed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for (name, target) in [
        ("access_option82", targets::access_option82 as fn(&[u8])),
        ("access_lease", targets::access_lease),
        ("access_dhcp4", targets::access_dhcp4),
        ("access_dhcp6", targets::access_dhcp6),
        ("access_nd", targets::access_nd),
    ] {
        for kind in ["regressions", "seeds"] {
            let Ok(folder) = std::fs::read_dir(root.join(kind).join(name)) else { continue };
            for file in folder.map(|entry| entry.expect("a readable folder").path()) {
                println!("{}", file.display());
                target(&std::fs::read(&file).expect("a readable file"));
            }
        }
    }
}
