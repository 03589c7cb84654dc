//! Everything fuzzing ever found, replayed through the functions that found it; and a quick random run of each.

#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use proptest::prelude::*;
use std::path::Path;

type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 6] = [
    ("wire_outer", targets::wire_outer),
    ("wire_l3l4", targets::wire_l3l4),
    ("wire_gtpu", targets::wire_gtpu),
    ("wire_views", targets::wire_views),
    ("wire_docsis", targets::wire_docsis),
    ("wire_psp", targets::wire_psp),
];

#[test]
fn every_regression_stays_fixed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions");
    for (name, target) in TARGETS {
        let Ok(folder) = std::fs::read_dir(root.join(name)) else { continue };
        for file in folder.map(|entry| entry.expect("a readable folder").path()) {
            println!("{}", file.display());
            target(&std::fs::read(&file).expect("a readable file"));
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_at_all(bytes in prop::collection::vec(any::<u8>(), 0..150)) {
        for (_, target) in TARGETS {
            target(&bytes);
        }
    }

    /// Small numbers make lengths, counts and types that are nearly right.
    #[test]
    fn bytes_that_are_nearly_headers(
        first in prop::sample::select(&[0x00u8, 0x01, 0x30, 0x32, 0x34, 0x36, 0x45, 0x46, 0x60, 133, 134, 135, 136, 0xc2, 0xc8][..]),
        mut bytes in prop::collection::vec(0u8..12, 1..150),
    ) {
        bytes[0] = first;
        for (_, target) in TARGETS {
            target(&bytes);
        }
    }
}
